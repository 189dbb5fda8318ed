/* SPDX-License-Identifier: Apache-2.0 */
/* counters.h - every drop reason, counter and event of the core, each named and described once.
 *
 * X-macro lists: status output, metrics and documents are generated from them. */
#ifndef PROXY_COUNTERS_H
#define PROXY_COUNTERS_H

#include <stdint.h>

/* X(enumerator, printed name, what happened) */
#define PROXY_DROPS(X)                                                                                                 \
	X(NONE, "none", "not dropped")                                                                                 \
	X(LAN_TRUNCATED, "lan_truncated", "packet shorter than its headers say")                                       \
	X(LAN_NOT_IP, "lan_not_ip", "neither IPv4 without options nor IPv6 without extensions")                        \
	X(LAN_FRAGMENT, "lan_fragment", "IP fragment: RoCEv2 never fragments")                                         \
	X(LAN_NOT_ROCE, "lan_not_roce", "not UDP to port 4791")                                                        \
	X(LAN_BAD_LENGTH, "lan_bad_length", "lengths in IP, UDP and BTH contradict each other, or a READ is too long")   \
	X(LAN_BAD_ICRC, "lan_bad_icrc", "invariant CRC does not match")                                                \
	X(LAN_BAD_VERSION, "lan_bad_version", "BTH transport version is not 0")                                        \
	X(LAN_TTL, "lan_ttl", "time to live used up")                                                                  \
	X(LAN_TOO_BIG, "lan_too_big", "larger than a slot")                                                            \
	X(LAN_FOREIGN, "lan_foreign", "source or destination outside the prefixes of the link")                        \
	X(LAN_FLOW_TABLE_FULL, "lan_flow_table_full", "the table of near flows is full")                               \
	X(LAN_UNPAIRED_FULL, "lan_unpaired_full", "the source has too many QPs that no responder has answered yet")    \
	X(LAN_NO_ROOM, "lan_no_room",                                                                                  \
	  "no free slot: the request is held off by an RNR NAK, the READ response is read again")                      \
	X(LAN_GAP, "lan_gap", "request behind a gap in PSNs that was NAKed already")                                   \
	X(LAN_FAILED, "lan_failed", "request to a queue pair whose responder refused or vanished")                     \
	X(LAN_DUPLICATE, "lan_duplicate", "request packet received before")                                            \
	X(LAN_RESET_SUSPECTED, "lan_reset_suspected",                                                                  \
	  "packet that may show a reset of its QP: dropped until a repetition decides")                                \
	X(LAN_SEQUENCE, "lan_sequence", "opcode that cannot follow the one before it")                                 \
	X(LAN_WINDOW, "lan_window", "PSN too far from the expected one")                                               \
	X(LAN_READ_RETRY, "lan_read_retry", "repeated READ or ATOMIC answered from kept responses")                    \
	X(LAN_READS_FULL, "lan_reads_full", "too many READs and ATOMICs open or kept, in one flow or in all")          \
	X(LAN_ACK_UNMATCHED, "lan_ack_unmatched", "response that belongs to no known flow")                            \
	X(LAN_ACK_STALE, "lan_ack_stale", "response for a position that was answered before")                          \
	X(LAN_ACK_UNSENT, "lan_ack_unsent", "response for a PSN that was never sent")                                  \
	X(LAN_RESP_ORDER, "lan_resp_order", "READ response out of order: the READ is repeated")                        \
	X(LAN_RESP_CREDIT, "lan_resp_credit",                                                                          \
	  "READ response beyond the credit of the other edge: the READ is repeated")                                   \
	X(LAN_RAW_NO_ROOM, "lan_raw_no_room", "no session or no free slot for a packet that is carried as it is")      \
	X(LAN_IP_NO_ROOM, "lan_ip_no_room", "no session or no free memory for an IP packet that is not RoCEv2")        \
	X(RAW_LOST, "raw_lost", "packet carried as it is that the WAN lost too often; CNP that it lost once")          \
	X(IP_STALE, "ip_stale", "IP packet that waited too long for the WAN")                                          \
	X(IP_PIECES, "ip_pieces", "IP packet of which pieces were lost")                                               \
	X(BARRIER_FULL, "barrier_full", "no free memory for a packet that the barrier holds")                          \
	X(WAN_TRUNCATED, "wan_truncated", "datagram or frame shorter than its headers say")                            \
	X(WAN_BAD_VERSION, "wan_bad_version", "unknown datagram version")                                              \
	X(WAN_BAD_TAG, "wan_bad_tag", "datagram damaged or forged")                                                    \
	X(WAN_UNSEALED, "wan_unsealed", "datagram without a seal on a sealed link")                                    \
	X(WAN_BAD_KEY, "wan_bad_key", "datagram sealed with a key that is unknown or expired")                         \
	X(WAN_REFLECTED, "wan_reflected", "one of this edge's own datagrams came back")                                \
	X(WAN_BAD_LANE, "wan_bad_lane", "lane out of range or not of this shard")                                      \
	X(WAN_BAD_PATH, "wan_bad_path", "path that the link does not have")                                            \
	X(WAN_BAD_EPOCH, "wan_bad_epoch", "datagram of another session")                                               \
	X(WAN_DUPLICATE, "wan_duplicate", "packet number received before or too old")                                  \
	X(WAN_BAD_FRAME, "wan_bad_frame", "frame with impossible contents")                                            \
	X(WAN_UNKNOWN_FRAME, "wan_unknown_frame", "frame of an unknown type, skipped")                                 \
	X(WAN_POSITION_OLD, "wan_position_old", "packet already delivered or already held")                            \
	X(WAN_UNWANTED, "wan_unwanted", "response for a flow that a younger one has replaced")                         \
	X(WAN_FAILED, "wan_failed", "request for a queue pair that failed")                                            \
	X(FEC_OFF, "fec_off", "repair datagram where FEC is off")                                                      \
	X(FEC_FORGOTTEN, "fec_forgotten",                                                                              \
	  "repair of a FEC group, or datagram rebuilt and not taken yet, that is too old to be kept")                  \
	X(WAN_STALE_INCARNATION, "wan_stale_incarnation",                                                              \
	  "frame of an earlier incarnation of a flow or relay channel")                                                \
	X(WAN_UNKNOWN_FLOW, "wan_unknown_flow", "report for a flow that does not exist")                               \
	X(WAN_FLOW_TABLE_FULL, "wan_flow_table_full", "the table of far flows is full")                                \
	X(WAN_NO_ROOM, "wan_no_room", "datagram refused: no free slot")                                                \
	X(WAN_BEYOND_CREDIT, "wan_beyond_credit", "position beyond the credit granted")

/* X(enumerator, printed name, what is counted) */
#define PROXY_COUNTERS(X)                                                                                              \
	X(LAN_RX_PKTS, "lan_rx_packets", "packets from hosts")                                                         \
	X(LAN_RX_BYTES, "lan_rx_bytes", "layer 3 bytes from hosts")                                                    \
	X(LAN_TX_PKTS, "lan_tx_packets", "packets to hosts")                                                           \
	X(LAN_TX_BYTES, "lan_tx_bytes", "layer 3 bytes to hosts")                                                      \
	X(ACKS_TX, "acks_tx", "ACKs to requesters")                                                                    \
	X(NAKS_TX, "naks_tx", "sequence error NAKs to requesters")                                                     \
	X(RNR_NAKS_TX, "rnr_naks_tx", "RNR NAKs to requesters (hold-off)")                                             \
	X(CNPS_TX, "cnps_tx", "CNPs to hosts: requests to send more slowly")                                           \
	X(CNPS_RX, "cnps_rx", "CNPs from hosts about packets that this edge sends to them")                            \
	X(ACKS_RX, "acks_rx", "ACKs from responders")                                                                  \
	X(NAKS_RX, "naks_rx", "sequence error NAKs from responders")                                                   \
	X(RNR_NAKS_RX, "rnr_naks_rx", "RNR NAKs from responders")                                                      \
	X(RNR_TIMER_ZERO_RX, "rnr_timer_zero_rx", "RNR NAKs from responders with RNR timer 0: a wait of 655 ms")       \
	X(ERR_NAKS_RX, "err_naks_rx", "fatal NAKs from responders")                                                    \
	X(LAN_TIMEOUTS, "lan_timeouts", "retry timeouts: a responder did not answer in time")                          \
	X(LAN_RETRIES, "lan_retries", "packets sent to a responder again")                                             \
	X(DEMOTIONS, "demotions",                                                                                      \
	  "near flows that lost their early ACKs: the responder was silent or made no progress")                       \
	X(RAW_CARRIED, "raw_carried", "packets carried as they are (UD, UC, QP1, unknown)")                            \
	X(END_TO_END, "end_to_end",                                                                                    \
	  "RC packets carried end to end, without a flow and without early ACKs: MaxFlows= was used up")               \
	X(FLOWS_OPENED, "flows_opened", "near flows opened")                                                           \
	X(FLOWS_CLOSED, "flows_closed", "near flows closed")                                                           \
	X(UNPAIRED_EVICTED, "unpaired_evicted",                                                                        \
	  "near flows without an answer yet that were closed to make place for others")                                \
	X(REQUESTERS_SUPERSEDED, "requesters_superseded",                                                              \
	  "connections whose requester's QPN was found in a younger one")                                              \
	X(INCARNATIONS, "incarnations", "QP resets recognised")                                                        \
	X(DOUBTS, "doubts",                                                                                            \
	  "packets that repeat earlier ones or begin a new incarnation: the responder's answer decides")               \
	X(BASE_LOWERED, "base_lowered",                                                                                \
	  "flows whose first packet was overtaken: they begin at a lower PSN than the first packet seen")              \
	X(PAIRED_CM, "paired_cm", "QPN pairs learned from CM messages")                                                \
	X(PAIRED_PROBE, "paired_probe", "QPN pairs learned from the responder's first answer")                         \
	X(PAIR_QUARANTINES, "pair_quarantines",                                                                        \
	  "unanswered turns of probing: no flow of the host pair is probed for a while")                               \
	X(PAIR_DOUBTS, "pair_doubts",                                                                                  \
	  "answers that may be meant for more than one queue pair: the responder is asked again")                      \
	X(PAIRS_UNSENT, "pairs_unsent", "probes that had no next hop yet")                                             \
	X(PAIRS_CORRECTED, "pairs_corrected", "pairs found wrong before anything was acknowledged by them")            \
	X(WAN_TX_DGRAMS, "wan_tx_datagrams", "datagrams to the other edge")                                            \
	X(WAN_TX_BYTES, "wan_tx_bytes", "UDP payload bytes to the other edge")                                         \
	X(WAN_RX_DGRAMS, "wan_rx_datagrams", "datagrams from the other edge")                                          \
	X(WAN_RX_BYTES, "wan_rx_bytes", "UDP payload bytes from the other edge")                                       \
	X(WAN_TX_CONTROL, "wan_tx_control", "datagrams without packets in them")                                       \
	X(WAN_LOST, "wan_lost", "datagrams found lost")                                                                \
	X(WAN_MOVED, "wan_moved", "datagrams of a dead path whose contents were sent again on another path")           \
	X(WAN_PATH_SLOW, "wan_path_slow", "paths found dead that answered afterwards: they were slow")                 \
	X(WAN_SPURIOUS, "wan_spurious", "datagrams found lost that had arrived after all")                             \
	X(WAN_REPAIRS, "wan_repairs", "packets or pieces sent again")                                                  \
	X(FEC_TX, "fec_tx_repairs", "repair datagrams of FEC to the other edge")                                       \
	X(FEC_RX, "fec_rx_repairs", "repair datagrams of FEC from the other edge")                                     \
	X(FEC_REBUILT, "fec_rebuilt", "lost datagrams that FEC rebuilt here, without a round trip")                    \
	X(FEC_DELAY_US, "fec_delay_us",                                                                                \
	  "delay of the datagrams that FEC rebuilt here, against their expected arrival: sum in microseconds")         \
	X(FEC_BEYOND, "fec_beyond", "FEC groups that lost more datagrams than their repair datagrams can rebuild")     \
	X(FEC_RETRANSMITS_SAVED, "fec_retransmits_saved",                                                              \
	  "lost datagrams that the other edge rebuilt: not sent again")                                                \
	X(FEC_LATE, "fec_late", "lost datagrams that the other edge rebuilt after they were sent again")               \
	X(FEC_SENT_AGAIN, "fec_sent_again", "lost datagrams of FEC groups that were sent again")                       \
	X(FEC_BUDGET_SPENT, "fec_budget_spent",                                                                        \
	  "FEC blocks sent without repair datagrams: FEC's share of the line was used up")                             \
	X(FEC_UNPROTECTED, "fec_unprotected",                                                                          \
	  "datagrams sent outside of any FEC group: no free buffer for repair datagrams")                              \
	X(WAN_REFUSED, "wan_refused", "datagrams that the other edge had no free slot for")                            \
	X(FLOWS_ASKED, "flows_asked", "packets sent again to find out whether the far edge still knows the flow")      \
	X(CREDIT_REVOKED, "credit_revoked",                                                                            \
	  "times that a far edge dropped packets of a flow: they are sent again later")                                \
	X(WAN_PROBES, "wan_probes", "probe timeouts")                                                                  \
	X(WAN_ASKED, "wan_asked", "probes about datagrams that the reports of the other edge left out")                \
	X(EVICTED, "evicted",                                                                                          \
	  "unacknowledged packets dropped to free slots for others: their sender can send them again")                 \
	X(BYTES_DELIVERED, "bytes_delivered", "payload bytes that responders acknowledged")                            \
	X(BYTES_FAILED, "bytes_failed", "acknowledged payload bytes that could not be delivered")                      \
	X(ARENA_DAMAGED, "arena_damaged", "packets and flows found damaged in the buffer at a start")                  \
	X(IP_CARRIED, "ip_carried", "IP packets that are not RoCEv2, carried as they are")                             \
	X(BARRIER_HELD, "barrier_held", "packets that waited for RC bytes acknowledged before them")                   \
	X(BARRIER_EXEMPT, "barrier_exempt", "packets that the barrier does not hold: BarrierSkip=, bare TCP ACKs")     \
	X(BARRIER_WAIVED, "barrier_waived",                                                                            \
	  "packets delivered without a wait for some RC bytes: the flow cannot go on, or too many flows lag")          \
	X(BARRIER_EXPIRED, "barrier_expired",                                                                          \
	  "packets delivered before RC bytes acknowledged before them: BarrierMax= was over")                          \
	X(READS_HELD, "reads_held",                                                                                    \
	  "READs and ATOMICs that waited for buffer space for their responses before they crossed")                    \
	X(READS_AGAIN, "reads_again",                                                                                  \
	  "READs that the responder is asked for again: a host lost responses that this edge has freed")               \
	X(RELAY_TX, "relay_chunks_tx", "chunks of the relay committed to this edge's buffer")                          \
	X(RELAY_RX, "relay_chunks_rx", "chunks of the relay that came from the other edge")                            \
	X(RELAY_DONE, "relay_chunks_done", "chunks of the relay that came from the other edge and were executed here") \
	X(RELAY_LOST, "relay_chunks_lost", "chunks of the relay that were given up with a buffer that was lost")       \
	X(REQUESTER_QPS_FAILED, "requester_qps_failed",                                                                \
	  "queue pairs of idle requesters that were made to fail: acknowledged work was lost")

/* X(enumerator, printed name, severity: 'i'nfo 'w'arning 'e'rror, what happened) */
#define PROXY_EVENTS(X)                                                                                                \
	X(WAN_UP, "wan_up", 'i', "the other edge answers")                                                             \
	X(WAN_DEAD, "wan_dead", 'w', "nothing heard from the other edge")                                              \
	X(WAN_UNHEARD, "wan_unheard", 'w', "the other edge is heard but answers nothing: it does not hear this edge")  \
	X(LANE_MOVED, "lane_moved", 'w',                                                                               \
	  "a lane gets no answers while other lanes do: the lane takes another source port")                           \
	X(PATH_UP, "path_up", 'i', "a path answers")                                                                   \
	X(PATH_NARROWER, "path_narrower", 'w', "a path does not carry datagrams as large as before")                   \
	X(PATH_DEAD, "path_dead", 'w', "a path does not answer")                                                       \
	X(FLOW_OPENED, "flow_opened", 'i', "first packet of an RC flow")                                               \
	X(FLOW_PAIRED, "flow_paired", 'i', "the requester's QPN is known")                                             \
	X(FLOW_DOUBTED, "flow_doubted", 'i',                                                                           \
	  "a packet repeats an earlier one or begins a new incarnation: the responder's answer decides")               \
	X(FLOW_RESET, "flow_reset", 'i', "the host reset its QP: a new incarnation begins")                            \
	X(FLOW_CLOSED, "flow_closed", 'i', "flow forgotten")                                                           \
	X(FLOW_FAILED, "flow_failed", 'e', "bytes that were acknowledged could not be delivered")                      \
	X(REQUESTER_QP_FAILED, "requester_qp_failed", 'w',                                                             \
	  "acknowledged work of an idle requester failed: its queue pair was made to fail")                            \
	X(REQUESTER_UNREACHABLE, "requester_unreachable", 'w',                                                         \
	  "acknowledged work of an idle requester failed, and the requester does not answer")                          \
	X(FLOW_EPOCH_STALE, "flow_epoch_stale", 'w',                                                                   \
	  "the other edge lost its buffer: requests that came before are still delivered")                             \
	X(FLOW_STALLED, "flow_stalled", 'w', "the responder makes no progress")                                        \
	X(FLOW_RESUMED, "flow_resumed", 'i', "the responder answers again")                                            \
	X(FLOW_DEMOTED, "flow_demoted", 'w', "no early ACKs: the responder is silent or makes no progress")            \
	X(FLOW_RNR_BACK_PRESSURE, "flow_rnr_back_pressure", 'w',                                                       \
	  "requester refused for now: no room or not its turn (normal on a full line), too many READs, or a READ "     \
	  "too long")                                                                                                  \
	X(PAIR_QUARANTINED, "pair_quarantined", 'w', "a probe was not answered")                                       \
	X(PAIR_WRONG, "pair_wrong", 'e',                                                                               \
	  "answers of another queue pair were taken for this one's: this queue pair is made to fail")                  \
	X(BARRIER_EXPIRED, "barrier_expired", 'w',                                                                     \
	  "packets were delivered before RC bytes acknowledged before them: BarrierMax= was over")                     \
	X(TABLE_FULL, "table_full", 'w', "a bounded table is full")                                                    \
	X(END_TO_END, "end_to_end", 'w',                                                                               \
	  "MaxFlows= is used up: new queue pairs between two hosts are carried without early ACKs")                    \
	X(POOL_STUCK, "pool_stuck", 'e', "a buffer is full, and none of its slots was freed for seconds")              \
	X(REBUILT, "rebuilt", 'i', "state rebuilt from the arena")                                                     \
	X(FLOW_IN_DOUBT, "flow_in_doubt", 'w',                                                                         \
	  "the edge beside the requester came back without its buffer: requests that it acknowledged from here on "    \
	  "are lost")                                                                                                  \
	X(BUFFER_LOST, "buffer_lost", 'e',                                                                             \
	  "this edge came back without its buffer: bytes that were acknowledged to hosts and are not at the other "    \
	  "edge are lost")                                                                                             \
	X(RELAY_LOST, "relay_lost", 'w',                                                                               \
	  "a buffer was lost: chunks of a relay channel were given up, and their operations fail")                     \
	X(ARENA_DAMAGED, "arena_damaged", 'e',                                                                         \
	  "packets or flows in the buffer were damaged: each flow that lacks a packet fails with an event of its own") \
	X(ARENA_SET_ASIDE, "arena_set_aside", 'e',                                                                     \
	  "a buffer's file was damaged and is set aside: packets that were acknowledged to hosts may be lost with it")

/* X(enumerator, printed name, why the bytes of a flow that were acknowledged could not be delivered) */
#define PROXY_FAILURES(X)                                                                                              \
	X(REFUSED, "refused", "the responder refused the requests")                                                    \
	X(SILENT, "silent", "the responder did not answer any more")                                                   \
	X(REPLACED, "replaced", "the queue pair was used again before its responder had these bytes")                  \
	X(BUFFER_LOST, "buffer_lost", "the edge beside the requester came back without its buffer")                    \
	X(PERHAPS_LOST, "perhaps_lost",                                                                                \
	  "the edge beside the requester came back without its buffer, and only it knew how far it had acknowledged")  \
	X(DAMAGED, "damaged", "the slots of these bytes were damaged while the daemon was down")                       \
	X(MISPAIRED, "mispaired", "answers of another queue pair were taken for this one's")

#define X(e, name, text) DROP_##e,
enum proxy_drop { PROXY_DROPS(X) DROP_COUNT };
#undef X

#define X(e, name, text) CTR_##e,
enum proxy_counter { PROXY_COUNTERS(X) CTR_COUNT };
#undef X

#define X(e, name, text) FAILURE_##e,
enum proxy_failure { PROXY_FAILURES(X) FAILURE_COUNT };
#undef X

#define X(e, name, sev, text) EV_##e,
enum proxy_event_type { PROXY_EVENTS(X) EV_COUNT };
#undef X

struct proxy_counters {
	uint64_t drop[DROP_COUNT];
	uint64_t ctr[CTR_COUNT];
};

const char *proxy_drop_name(enum proxy_drop d);
const char *proxy_drop_text(enum proxy_drop d);
const char *proxy_counter_name(enum proxy_counter c);
const char *proxy_counter_text(enum proxy_counter c);
const char *proxy_event_name(enum proxy_event_type e);
const char *proxy_event_text(enum proxy_event_type e);
const char *proxy_failure_name(enum proxy_failure f);
const char *proxy_failure_text(enum proxy_failure f);
char proxy_event_severity(enum proxy_event_type e);

#endif
