/* SPDX-License-Identifier: Apache-2.0 */
/* flow_facts.h - facts about one flow for an operator: counts of rare events, times, and positions.
 *
 * The X-macro lists below name each fact once. The JSON of `longreach flow`, the entries of longreach-counters(7) and
 * the input of `longreach explain` are generated from them. No packet pays for these facts: counts are made at rare
 * events, and values are worked out on request. */
#ifndef PROXY_FLOW_FACTS_H
#define PROXY_FLOW_FACTS_H

#include <stdint.h>

/* Counts that a flow keeps. X(member, printed name, text). The text says whether the near or the far flow counts it. */
#define FLOW_COUNTS(X)                                                                                                 \
	X(repeats, "repeats", "near: packets that the requester sent again; far: packets sent to the responder again") \
	X(repeats_acked, "repeats_acked",                                                                              \
	  "near: packets that the requester sent again after this edge had acknowledged them: the ACK did not "        \
	  "arrive")                                                                                                    \
	X(silent_repeats, "silent_repeats",                                                                            \
	  "near: times that the requester began to repeat after a silence, without a NAK or RNR NAK: its ACK "         \
	  "timeout")                                                                                                   \
	X(gaps, "gaps",                                                                                                \
	  "near: gaps in the requester's PSNs that this edge answered with a NAK: the requester's LAN lost packets")   \
	X(refused_packets, "refused_packets",                                                                          \
	  "near: packets that this edge refused for now: no room, not their turn, too many READs, or a READ too long") \
	X(rnr_sent, "rnr_sent", "near: RNR NAKs to the requester, sent by this edge to hold it off")                   \
	X(rnr_told, "rnr_told", "near: reports of the other edge that the responder is in RNR")                        \
	X(seq_naks, "seq_naks", "far: sequence NAKs of the responder: its LAN lost packets")                           \
	X(rnr_naks, "rnr_naks", "far: RNR NAKs of the responder: it had no receive posted")                            \
	X(timeouts, "timeouts", "far: times that the responder did not answer within LanTimeout=")                     \
	X(turns_unanswered, "turns_unanswered", "far: turns of probing for the requester's QPN that got no answer")    \
	X(unsent, "unsent", "far: turns of probing that had no next hop to the responder")                             \
	X(stalls, "stalls", "times that the responder made no progress for StallAfter=, as this edge saw it")

/* Values that are worked out on request. X(member, printed name, unit, text); unit: AGE (a time, printed as nanoseconds
 * since then, left out if it never happened), NS, BYTES, COUNT, POS (a position) or FLAG. */
#define FLOW_VALUES(X)                                                                                                 \
	X(opened_ns, "opened", AGE, "since the flow began at this edge")                                               \
	X(paired_ns, "paired", AGE, "near: since the responder's first answer came")                                   \
	X(host_ns, "host_heard", AGE, "near: since the requester was heard last")                                      \
	X(responder_ns, "responder_heard", AGE,                                                                        \
	  "since the responder was heard last, or since when it owes an answer")                                       \
	X(connection_ns, "connection_seen", AGE,                                                                       \
	  "since this side's host began or ended a TCP connection to the other site, or spoke CM, through this edge")  \
	X(acked_ns, "acked_to_host", AGE, "near: since a packet was last acknowledged to the requester")               \
	X(repeat_ns, "repeated", AGE,                                                                                  \
	  "near: since the requester last repeated a packet; far: since this edge last repeated one")                  \
	X(rnr_ns, "rnr", AGE, "since the responder was last known to be in RNR")                                       \
	X(begun_repeat_ns, "repeat_after", NS,                                                                         \
	  "near: shortest time without an ACK after which the requester repeated: its ACK timeout, as far as it was "  \
	  "seen")                                                                                                      \
	X(rnr_timer_ns, "rnr_timer", NS, "far: the wait that the responder's last RNR NAK asked for")                  \
	X(lan_rtt_ns, "lan_rtt", NS, "far: smoothed time that the responder takes to answer")                          \
	X(most_unacked, "most_unacked", COUNT,                                                                         \
	  "near: largest number of packets that were taken and not acknowledged when an ACK was sent")                 \
	X(unacked, "unacked", COUNT, "near: packets taken and not acknowledged to the requester")                      \
	X(undelivered, "undelivered", COUNT, "packets here that the responder has not acknowledged")                   \
	X(in_flight, "in_flight", COUNT, "far: packets sent to the responder that it has not acknowledged")            \
	X(gap_packets, "gap_packets", COUNT, "near: packets held behind a gap")                                        \
	X(open_reads, "open_reads", COUNT, "READs and ATOMICs without an answer")                                      \
	X(wan_unsent, "wan_unsent", COUNT, "near: packets that have not been sent to the other edge yet")              \
	X(credit, "credit", COUNT, "packets that the far edge takes beyond those that the responder has acknowledged") \
	X(window_bytes, "window", BYTES, "far: bytes that may be in flight to the responder")                          \
	X(pos_max, "pos_max", POS,                                                                                     \
	  "near: highest position seen, plus one; far: highest position that came over the WAN, plus one")             \
	X(pos_far, "pos_far", POS, "near: the other edge has committed everything before")                             \
	X(pos_settled, "pos_settled", POS, "near: everything before is freed")                                         \
	X(pos_ceiling, "pos_ceiling", POS, "near: ACKs may reach up to here now")                                      \
	X(fail_pos, "fail_pos", POS, "position at which the flow failed; 0: the flow has not failed")                  \
	X(psn_expected, "psn_expected", COUNT, "PSN that is expected next")                                            \
	X(msn, "msn", COUNT, "near: messages taken; far: messages that the responder acknowledged")                    \
	X(syndrome, "syndrome", COUNT, "AETH syndrome of the responder's fatal NAK; 0: there was none")                \
	X(failed, "failed", FLAG, "the responder refused, or was given up: the queue pair is dead")                    \
	X(leaving, "leaving", FLAG, "far: the responder's host has sent a DREQ: it ends the connection")               \
	X(doubted, "doubted", FLAG, "the flow's first packet may be a repetition: the responder's answer decides")     \
	X(demoted, "demoted", FLAG, "near: no early ACKs: the responder is silent or makes no progress")               \
	X(superseded, "superseded", FLAG, "near: the requester's QPN is in a younger connection")                      \
	X(draining, "draining", FLAG, "near: earlier incarnation of a queue pair that was reset")                      \
	X(in_message, "in_message", FLAG, "near: the requester's last message lacks its end")

/* X(enumerator, printed name, the reason why near_ceiling() is where it is) */
#define CEILING_REASONS(X)                                                                                             \
	X(NONE, "", "this is the responder's side")                                                                    \
	X(COMMITTED, "committed", "all that is committed in this edge's buffer (mode near)")                           \
	X(FAR_COMMITTED, "far_committed", "what the other edge has committed (mode far)")                              \
	X(DELIVERED, "delivered", "what the responder has acknowledged (mode host)")                                   \
	X(DEMOTED, "demoted",                                                                                          \
	  "what the responder has acknowledged: early ACKs are withheld, because the responder is silent, the edges "  \
	  "disagree, or the nft rules are not in force")                                                               \
	X(LEARNING, "learning", "nothing: the responder has not answered yet, the requester's QPN is not known")       \
	X(OPERATION, "operation", "the first READ or ATOMIC without an answer")                                        \
	X(COUNT_UNKNOWN, "count_unknown", "nothing more: the responder's MSN is not known exactly yet")                \
	X(FAILED, "failed", "the position that the responder refused")

/* X(enumerator, printed name, how a flow ended at this edge) */
#define FLOW_ENDS(X)                                                                                                   \
	X(NONE, "", "it has not ended")                                                                                \
	X(CLOSED, "closed", "the other edge closed the flow")                                                          \
	X(FAILED, "failed", "the responder refused, or was given up")                                                  \
	X(UNANSWERED, "unanswered", "the responder never answered, and the requester gave up")                         \
	X(REPLACED, "replaced", "the flow's queue pair was reset and used again")                                      \
	X(FORGOTTEN, "forgotten",                                                                                      \
	  "the flow was idle, and was closed to make place for others or because its connection was over")

#define X(e, name, text) CEILING_##e,
enum ceiling_reason { CEILING_REASONS(X) CEILING_REASON_COUNT };
#undef X

#define X(e, name, text) FLOW_END_##e,
enum flow_end { FLOW_ENDS(X) FLOW_END_COUNT };
#undef X

struct flow_counts {
#define X(member, name, text) uint32_t member;
	FLOW_COUNTS(X)
#undef X
};

/* Times and values that a flow keeps beside its counts. */
struct flow_notes {
	struct flow_counts n;
	uint32_t most_unacked;
	uint64_t opened_ns, paired_ns, repeat_ns, rnr_ns;
	uint64_t begun_repeat_ns; /* 0: the host never repeated after a silence */
	uint64_t round_ns;        /* when the host last began a round */
	uint8_t rnr_timer;        /* code of the responder's last RNR NAK */
};

struct flow_facts {
	struct flow_counts n;
	enum ceiling_reason why;
	enum flow_end end;
	uint64_t ended_ns; /* 0: the flow goes on */
#define X(member, name, unit, text) uint64_t member;
	FLOW_VALUES(X)
#undef X
};

const char *ceiling_reason_name(enum ceiling_reason r);
const char *ceiling_reason_text(enum ceiling_reason r);
const char *flow_end_name(enum flow_end e);
const char *flow_end_text(enum flow_end e);

#endif
