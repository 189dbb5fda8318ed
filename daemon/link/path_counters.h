/* SPDX-License-Identifier: Apache-2.0 */
/* path_counters.h - what a path counts (struct wan_path_stats), for sums over workers, status and metrics alike; and the
 * names of its states. */
#ifndef DAEMON_PATH_COUNTERS_H
#define DAEMON_PATH_COUNTERS_H

#include "proxy/proxy.h"

/* X(member, SUM or MOST: how workers' values are made one, its name in status, its name as a metric, what it means to
 * an operator) */
#define PATH_COUNTERS(X)                                                                                               \
	X(tx_dgrams, SUM, "tx_datagrams", "path_tx_datagrams", "Datagrams sent.")                                      \
	X(tx_bytes, SUM, "tx_bytes", "path_tx_bytes", "UDP payload sent.")                                             \
	X(rx_dgrams, SUM, "rx_datagrams", "path_rx_datagrams",                                                         \
	  "Datagrams received. If this stays 0 while the other edge sends, look for a firewall.")                      \
	X(rx_bytes, SUM, "rx_bytes", "path_rx_bytes", "UDP payload received.")                                         \
	X(tx_control, SUM, "tx_control_datagrams", "path_tx_control_datagrams",                                        \
	  "Datagrams sent without packets of hosts in them.")                                                          \
	X(tx_control_bytes, SUM, "tx_control_bytes", "path_tx_control_bytes",                                          \
	  "UDP payload of path_tx_control_datagrams.")                                                                 \
	X(acked_bytes, SUM, "acked_bytes", "path_acked_bytes",                                                         \
	  "UDP payload that the other edge has reported as received.")                                                 \
	X(lost, SUM, "lost", "path_lost",                                                                              \
	  "Datagrams found lost and repaired. Every shared line loses some; see path_loss_ratio.")                     \
	X(spurious, SUM, "lost_spuriously", "path_lost_spuriously",                                                    \
	  "Datagrams of path_lost that had arrived after all: the line reorders by more than the edge waits for.")     \
	X(moved, SUM, "moved", "path_moved",                                                                           \
	  "Datagrams whose contents were sent again on another path because this path died.")                          \
	X(repairs, SUM, "repaired_by_retransmission", "path_repairs", "Packets or pieces of packets sent again.")      \
	X(spared, SUM, "repaired_by_fec", "path_repaired_by_fec",                                                      \
	  "Lost datagrams that the other edge rebuilt by FEC.")                                                        \
	X(probes, SUM, "probe_timeouts", "path_probe_timeouts",                                                        \
	  "Probes sent because no report had come: the line is silent or its round trip grew.")                        \
	X(rebuilt, SUM, "rebuilt_by_fec", "path_rebuilt",                                                              \
	  "Lost datagrams of the other edge that this edge rebuilt by FEC.")                                           \
	X(reordered, SUM, "reordered", "path_reordered",                                                               \
	  "Datagrams of the other edge that arrived after a later one.")                                               \
	X(reorder_most, MOST, "reordered_by_most", "path_reordered_by_most_datagrams",                                 \
	  "Largest number of datagrams by which the line reordered.")                                                  \
	X(marked, SUM, "marked", "path_marked",                                                                        \
	  "Datagrams that a router marked CE: a queue on the path is filling, and the edge lowers its rate.")          \
	X(deaths, SUM, "deaths", "path_deaths", "Times that the path died and its traffic moved to other paths.")

/* proxy_path_status.loss_runs */
#define PATH_LOSS_BURSTS_TEXT "Runs of datagrams found lost: against path_lost, how bursty the line is."

/* X(enumerator, printed name, what it means) */
#define PATH_STATES(X)                                                                                                 \
	X(NEW, "new", "no datagram has been answered on it yet")                                                       \
	X(UP, "up", "it answers")                                                                                      \
	X(DEAD, "dead", "it does not answer any more: its traffic takes other paths, or waits")

static inline const char *path_state_name(enum path_state state)
{
#define X(e, name, text) [PATH_##e] = name,
	static const char *const names[] = {PATH_STATES(X)};
#undef X

	return names[state];
}

/* A counter that is not in the list is in no status and no metric. */
#define X(member, op, json, metric, help) +sizeof(((struct wan_path_stats *)0)->member)
_Static_assert(0 PATH_COUNTERS(X) == sizeof(struct wan_path_stats), "every member is listed");
#undef X

#endif
