/* SPDX-License-Identifier: Apache-2.0 */
/* fault_list.h - X(NAME, rule, what it does): one line for each rule of the core that can be switched off.
 *
 * Only fault.h includes it. */
/* clang-format off */
X(ACK_TOO_FAR,        "one mouth: no ACK past the ceiling",             "an ACK one PSN beyond the ceiling")
X(WRONG_MSN,          "MSN counts from the responder's base",           "MSN one too high")
X(DROP_SLOT,          "nothing ACKed is ever dropped",                  "a committed slot vanishes now and then")
X(MISPAIR,            "an answer names the flow that was probed",       "a probe's answer is given to another flow")
X(UNPAIRED_UNBOUNDED, "flows without a pair are bounded",               "flows without a pair may fill the table")
X(STALE_INCARNATION,  "bytes of an old life never reach a new one",     "incarnations are not told apart")
X(FAR_AS_NEAR,        "mode far: only what the far edge has",           "mode far ACKs what only the near edge has")
X(ORPHAN_DROPPED,     "mode far outlives the near edge",                "what came from a near edge that lost its arena is dropped")
X(STRANGER_BELIEVED,  "a new life must insist",                         "a packet unlike the one that was there is a new life at once")
X(PAST_READ,          "ACKs stop in front of an unanswered READ",       "the ceiling looks at no READ or ATOMIC")
X(FORGET_ANSWERS,     "answers are kept, over a restart too",           "a restart forgets what was answered")
X(NO_REFRAME,         "responses are framed as the host asked last",    "a repeated response is framed as the responder did it")
X(RNR_IN_READ,        "no RNR NAK within a READ's responses",           "RNR NAKs also where the host has not asked again from")
X(BARRIER_OFF,        "nothing else overtakes what was ACKed early",    "packets do not wait for what was ACKed before them")
