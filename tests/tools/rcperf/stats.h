/* SPDX-License-Identifier: Apache-2.0 */
/* stats.h - everything that an endpoint counts, each named and described once.
 *
 * The table is what the JSON output, the failure text and the exchange of results are made from. Rows marked BAD are
 * things that must never happen, whatever the network does: any of them fails the test. */
#ifndef RCPERF_STATS_H
#define RCPERF_STATS_H

#include <stdint.h>

#define STAT_OK  0
#define STAT_BAD 1

/* X(name, bad, what is counted) */
#define STATS(X)                                                                                                       \
	/* requester */                                                                                                \
	X(msgs_posted, STAT_OK, "messages posted")                                                                     \
	X(msgs_done, STAT_OK, "messages completed")                                                                    \
	X(bytes_done, STAT_OK, "payload bytes of completed messages")                                                  \
	X(read_bytes_verified, STAT_OK, "bytes of READ responses found right")                                         \
	X(retries, STAT_OK, "times the requester went back to its oldest unanswered packet")                           \
	X(packets_resent, STAT_OK, "request packets sent again")                                                       \
	X(timeouts, STAT_OK, "local ACK timeouts")                                                                     \
	X(naks_rx, STAT_OK, "sequence error NAKs received")                                                            \
	X(rnr_rx, STAT_OK, "RNR NAKs received")                                                                        \
	X(implied_naks, STAT_OK, "answers beyond an unanswered READ or atomic")                                        \
	X(acks_rx, STAT_OK, "ACKs received")                                                                           \
	X(acks_stale, STAT_OK, "answers to what was answered before")                                                  \
	X(resp_stale, STAT_OK, "READ responses to a request that was repeated since")                                  \
	X(ghost_acks, STAT_BAD, "answers to PSNs that were never sent")                                                \
	X(msn_wrong, STAT_BAD, "answers whose MSN does not fit their PSN")                                             \
	X(resp_malformed, STAT_BAD, "READ or atomic responses of the wrong kind, length or place")                     \
	X(read_wrong, STAT_BAD, "READ response packets with wrong bytes")                                              \
	X(atomic_wrong, STAT_BAD, "atomics whose original value shows that one ran twice, never or early")             \
	/* responder */                                                                                                \
	X(msgs_exec, STAT_OK, "messages executed")                                                                     \
	X(bytes_exec, STAT_OK, "payload bytes of executed messages")                                                   \
	X(bytes_verified, STAT_OK, "bytes received and found right")                                                   \
	X(gaps, STAT_OK, "gaps in the PSNs of requests")                                                               \
	X(behind_gap, STAT_OK, "request packets dropped behind a gap")                                                 \
	X(duplicates, STAT_OK, "request packets received before")                                                      \
	X(reads_replayed, STAT_OK, "duplicate READs answered again")                                                   \
	X(atomics_replayed, STAT_OK, "duplicate atomics answered from the saved result")                               \
	X(dup_unknown, STAT_OK, "duplicate READs and atomics too old to be answered")                                  \
	X(queue_full, STAT_OK, "requests dropped because too many answers were waiting")                               \
	X(acks_tx, STAT_OK, "ACKs sent")                                                                               \
	X(naks_tx, STAT_OK, "sequence error NAKs sent")                                                                \
	X(rnr_tx, STAT_OK, "RNR NAKs sent")                                                                            \
	X(refused_tx, STAT_BAD, "requests refused for good")                                                           \
	X(packets_wrong, STAT_BAD, "request packets with wrong bytes")                                                 \
	X(order_wrong, STAT_BAD, "messages executed that were not due")                                                \
	X(memory_wrong, STAT_BAD, "QPs whose memory differs at the end")                                               \
	X(missing, STAT_BAD, "messages completed but never executed")                                                  \
	X(missing_at_done, STAT_OK, "messages not yet executed when the other end had its completions")                \
	X(missing_at_dreq, STAT_BAD, "messages not yet executed when the DREQ that follows them arrived")              \
	/* port */                                                                                                     \
	X(rx_packets, STAT_OK, "packets received")                                                                     \
	X(tx_packets, STAT_OK, "packets sent")                                                                         \
	X(rx_ring_drops, STAT_OK, "packets lost for want of room in the receive ring")                                 \
	X(rx_dropped_at_will, STAT_OK, "packets dropped by --drop")                                                    \
	X(rx_unsound, STAT_OK, "packets that are no sound RoCEv2")                                                     \
	X(rx_bad_icrc, STAT_OK, "packets with a wrong invariant CRC")                                                  \
	X(rx_foreign, STAT_OK, "packets for QPs that are not ours")                                                    \
	X(ce_rx, STAT_OK, "packets marked congestion experienced")                                                     \
	X(cnps_rx, STAT_OK, "congestion notifications received")

struct stats {
#define X(name, bad, text) uint64_t name;
	STATS(X)
#undef X
};

#endif
