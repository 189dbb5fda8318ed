/* SPDX-License-Identifier: Apache-2.0 */
/* fault_list.h - X(NAME, rule, what it does): one line for each rule of the core that can be switched off.
 *
 * fault.h and the simulator's list of names include this file. */
/* clang-format off */
X(ACK_TOO_FAR,        "one ACK generator: no ACK past the ceiling",      "an ACK one PSN beyond the ceiling")
X(WRONG_MSN,          "MSN counts from the responder's base",            "MSN one too high")
X(DROP_SLOT,          "nothing ACKed is ever dropped",                   "a committed slot vanishes now and then")
X(MISPAIR,            "an answer names the flow that was probed",        "a probe's answer is given to another flow")
X(UNPAIRED_UNBOUNDED, "flows without a pair are bounded",                "flows without a pair may fill the table")
X(STALE_INCARNATION,  "bytes of an old life never reach a new one",      "incarnations are not told apart")
X(FAR_AS_NEAR,        "mode far: only what the far edge has",            "mode far ACKs what only the near edge has")
X(STALE_FLOW_OVERTAKEN, "nothing overtakes what a lost near edge has left",
                      "the barrier of its next life looks at no stale_epoch")
X(STALE_FLOW_DROPPED, "mode far outlives the near edge",
                      "what came from a near edge that lost its arena is dropped")
X(EVICTED_IS_GONE,    "a flow evicted for its place may go on",
                      "the barrier takes all of its requests for delivered")
X(MODE_OF_THE_MOMENT, "the far edge is told the mode that lasts",
                      "FLOW_OPEN tells the one in force, also of a flow whose responder is silent just then")
X(NO_DEMOTION,        "nobody is ACKed for a responder that is silent",  "mode near stays in force")
X(RESET_BY_ONE_PACKET, "a new life must insist",
                      "a packet unlike the one that was there is a new life at once")
X(REPETITION_ASSUMED, "in doubt the responder decides",
                      "what is like a packet that was ACKed is ACKed again, however long ago that was")
X(IDLE_UNTOLD,        "a late error reaches an idle requester too",      "only its requests are refused")
X(PAST_READ,          "ACKs stop in front of an unanswered READ",        "the ceiling looks at no READ or ATOMIC")
X(ACK_OVER_ANSWER,    "no ACK over an answer the host may not have",
                      "an ACK of repeated packets passes answered READs and ATOMICs")
X(FORGET_ANSWERS,     "answers are kept, over a restart too",            "a restart forgets what was answered")
X(ROOM_NOT_RESERVED,  "room for an answer is reserved before its request crosses", "all requests cross at once")
X(CREDIT_UNTOLD,      "the far edge takes of a large READ what the near edge has room for",
                      "it is not told how much that is")
X(FEW_ANSWERS_KEPT,   "answers to all that a host has outstanding are kept",
                      "16 are kept, however many are outstanding")
X(END_TO_END_CLAIMED, "an answer to a request without a flow pairs nobody", "it is taken for a probed flow's")
X(FLUSH_UNANSWERED,   "a READ response answers a FLUSH or ATOMIC WRITE",
                      "the far edge takes READ responses for READs only")
X(NO_REFRAME,         "responses are framed as the host asked last",
                      "a repeated response is framed as the responder did it")
X(RNR_IN_READ,        "no RNR NAK within a READ's responses",
                      "RNR NAKs also where the host has not asked again from")
X(BARRIER_OFF,        "nothing else overtakes what was ACKed early",
                      "packets do not wait for what was ACKed before them")
X(CAUSAL_IGNORED,     "causal: messages wait for what was ACKed on other QPs", "messages wait for no other queue pair")
X(ALIASES_SEPARATE,   "all addresses of a machine are one to the barrier", "each address waits for its own bytes only")
X(NAK_TOO_FAR,        "one ACK generator: a NAK acknowledges what is before it", "NAKs look at no ceiling")
X(EARLY_ACKS,         "host mode: nothing before the responder has it",  "every mode ACKs early")
X(AETH_CREDIT_SENT,   "AETH credits are none that an edge knows",        "ACKs with one credit")
X(TEMPLATE_IGNORED,   "what the edge makes looks like the responder's",  "default P_Key, MigReq and DSCP")
X(ICRC_UNCHECKED,     "the ICRC is checked on the way in",               "any ICRC is right")
X(ICRC_UNPATCHED,     "the ICRC is patched for what is changed",         "AckReq is set, the ICRC left")
X(FIRST_SEEN_IS_FIRST, "the first packet seen need not be the first",     "lower PSNs do not extend a flow")
X(BASE_NOT_LOWERED,   "a NAK below the base goes to the requester",
                      "what the responder waits for is not asked for")
X(PROBE_TOGETHER,     "one unpaired flow per host pair at a time",       "all send at once")
X(NO_QUARANTINE,      "quarantine after an unanswered probe",            "the next one is tried at once")
X(UNASKED_IGNORED,    "quarantine for hosts that talked past the edges", "answers that nobody asked for change nothing")
X(LATE_ANSWER_PAIRS,  "an answer names a flow if no other can be meant", "it is the probed flow's, whoever was asked before")
X(PROBE_WAITS,        "a probe is sent at once or not at all",           "it waits for a MAC address like other packets")
X(PAIR_UNCORRECTED,   "a wrong pair is put right, or fails",             "what the far edge finds later is ignored")
X(NO_RESTART_QUARANTINE, "quarantine after a restart",
                      "who has no pair is tried at once, whoever was before")
X(FIRST_ANSWER_CONFIRMS, "a pair is provisional until a second answer",     "the first one is enough")
X(UNCONFIRMED_ACKED,  "what the peer does not confirm is not ACKed early",
                      "the first packet seen is ACKed, though the responder waits for an earlier one")
X(PAIRED_QPN_PROBED,  "an ACK to a paired QPN decides nothing",          "it is for the flow that is probed")
X(UNSENT_ACK_TAKEN,   "an answer counts only for what was sent",         "the far edge believes any ACK")
X(CM_REPEATED,        "a repeated CM message is a no-op",                "it opens a life again")
X(OLD_LIFE_OVERTAKEN, "an old life drains before the new one sends",     "both send")
X(DELIVERED_AGAIN,    "what is at or below the delivered is dropped",    "it is taken again")
X(FAR_PAST_READ,      "an ACK past a READ is an implied NAK",            "the far edge takes it for an answer")
X(NAK_REPEATED,       "one sequence NAK per gap",                        "one per packet behind it")
X(HOLD_BY_SILENCE,    "a requester is not held off by silence",          "no RNR NAK is ever sent")
X(RNR_TO_FINITE,      "a finite rnr_retry is respected",                 "RNR NAKs to everybody")
X(CREDIT_IGNORED,     "the far edge grants credit",                      "all is sent at once")
X(RESERVE_UNUSED,     "the next packet of a flow is always admitted",    "no reserve is used")
X(NEAR_FREES_FIRST,   "descriptor, then free slot (near)",               "the settled position is not stored")
X(FAR_FREES_FIRST,    "delivered position, then free slot (far)",        "the delivered position is not stored")
X(FAILURE_STORED_LAST, "descriptor, then free slot (a failure)",        "what was ACKed is freed before the failure is stored")
X(HELD_MSN_KEPT,      "what was held behind a gap is counted anew",      "a rebuild takes the count that it had when it came")
X(RESP_LENGTH_NOT_ADOPTED, "what a response tells is taken from the arena",   "a rebuild takes the response alone")
X(PAIR_STORED_HALF,   "a pair is stored whole",                          "the far edge stores it before what is to be told of it")
X(ARENA_EPOCH,        "the peer's arena epoch",                          "flows of a lost arena go on")
X(LATE_MSN_TRUSTED,   "MSNs are the responder's",                      "that of a repeated READ's response is taken for its own")
X(LOST_UNTOLD,        "what a lost near edge owed fails by name",        "nothing is said of it")
X(LANE_ASYMMETRIC,    "a host pair has one lane",                        "the hash is not symmetric")
X(ONE_POOL,           "each pool keeps its reserve",                     "one direction may take every chunk")
X(END_TO_END_ON_TIME, "answers to requests without a flow may be late",  "none is, once there was no request for a second")
X(LATE_TURN_ENDS,     "a turn goes on while its answers are in doubt",   "an answer in doubt after the turn is followed by no probe")
X(REST_ASKED,         "rxe is asked from where its host asked last",     "it is asked for the rest that an edge lacks")
X(RNR_IN_REST,        "no RNR NAK to rxe for the rest of a READ",        "a paired flow that begins within a READ is held off")
X(LAST_UNCOUNTED,     "the rest of a READ pairs its flow, too",           "answers of READ_RESP_LAST alone are never enough")
X(LARGEST_UNKEPT,     "each pool can hold a packet of any size",          "smaller packets may take every chunk of a pool")
X(QUEUE_STALE,        "what is lost is sent again, in every session",
                      "what the last session had to repair is not, in the next")
X(REFUSED_FORGOTTEN,  "refused is no loss, and comes again",             "what was refused is not sent again")
X(PATH_SILENCE_EXCUSED, "a worker that is always late finds deaths, too",  "each timer that is late forgives a path its silence")
X(PATH_UNWOKEN,       "a path that lives has its timeouts again",        "lanes with datagrams under way on it are not woken")
X(DEAD_PATH_KEEPS,    "what was under way on a dead path goes again",    "it stays there")
X(NO_CREDIT,          "credit follows drain rate and round trip",        "a flow may hold all that is left of a pool")
X(WINDOW_UNTOLD,      "what dead flows hold does not use up a lane's window",
                      "a window is told anew when it has changed by much, and else stays used up")
X(NO_MINIMUM,         "a guaranteed minimum per flow",
                      "a flow that has drained nothing yet gets no room in a full pool")
X(NO_EVICT,           "the next expected packet is always admitted",
                      "nothing is given up for it, neither by the flow nor by dead ones")
X(ROUNDS_KEPT,        "rounds of credit begin anew with a session",      "those of the session before go on")
X(FORGOTTEN_NOT_RESENT, "what the far edge has forgotten goes again",      "only FLOW_OPEN does")
X(PAIR_FOR_EVER,      "a pair is void when its QPN has a new owner",     "it never is")
X(REQUESTER_SHARED,   "one connection has a requester's QPN",            "all that ever had it are answered for")
X(ANSWERS_NOT_KEPT,   "answers are kept for a host that lost them",
                      "they are forgotten as soon as they were given")
X(NEXT_ANSWER_HELD,   "what waits behind a repetition that ends is given", "it waits until its host asks for it once more")
X(NOT_READ_AGAIN,     "what a host lost and is not kept is read again",  "it never is")
X(PMTU_GUESSED,       "a READ's PSNs are not guessed",                   "one, while the PMTU is not known")
X(MIDDLE_IS_REPETITION, "only what is known again is ACKed again",
                      "the middle of a settled message is always a repetition")
X(NO_TURNS,           "flows and host pairs take turns by bytes",        "who is first sends as long as it can")
X(NO_HOST_WINDOW,     "in flight per destination host, not only per QP", "only the windows of the QPs count")
X(CNP_IGNORED,        "CNPs of hosts are obeyed",                        "they change nothing")
X(MARKS_IGNORED,      "CE marks of the WAN are obeyed",                  "they change nothing")
X(REBUILT_REFUSED,    "what was refused is not told as taken",
                      "a datagram that FEC rebuilt and no slot was free for is told as arrived")
X(NO_SOFT_CNP,        "a CNP comes before a requester is held off",      "it is sent away without a warning")
X(READ_CROSSES_AGAIN, "a repeated READ does not cross again",
                      "the near edge goes back to it on the WAN as well")
X(RESPONSES_TWICE,    "the far edge knows responses that it had",
                      "those to a READ that it repeats cross all again")
X(REFUSAL_UNTOLD,     "what the responder refuses the requester is told", "a refusal that is reported is ignored")
X(RNR_WAITED_FOR,     "a word does not wait for a responder in RNR",     "it does, until BarrierMax")
X(WORK_UNBOUNDED,     "no call does unbounded work",                     "a call works off all that there is")
X(ANY_LAYOUT,         "an unknown layout of the arena is refused",       "it is taken for the known one")
X(WRONG_OPCODE_UNANSWERED, "a host that insists on a wrong opcode is answered", "it is met with silence for ever")
X(RELAY_FENCE_EARLY,  "a fence is handed over when all before it is done", "it is handed over when it comes")
X(RELAY_DONE_UNSTORED, "done is stored before it is told",                "the sender frees what a restart asks for")
X(RELAY_HOLES_LEFT,   "positions taken and not committed become void",    "the receiver waits for them for ever")
X(RELAY_LIFE_KEPT,    "another arena is another life of a channel",       "chunks go on where the lost arena was")
X(RELAY_UNWEIGHED,    "channels have a flow's part of a full line",       "chunks take every datagram's rest")
X(LENT_COUNTED_FREE,  "blanks and pinned slots are no room",              "the pool promises them to packets as well")
X(PIN_IGNORED,        "a pinned slot that is freed is free once it is sent", "it is free at once")
X(BLANK_FILLED_AGAIN, "a port fills no slot that the core has kept",      "it is told that the core kept none")
X(BLANK_SURVIVES,     "a blank belongs to nobody after a kill",           "a rebuild takes it for a packet that is damaged")
X(EXPENDABLE_UNASKED, "a lane with IP alone hears what becomes of it",  "no PING goes with packets that are never repaired")
