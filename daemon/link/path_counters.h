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
	  "Datagrams received. None while the other edge sends: look for a firewall.")                                 \
	X(rx_bytes, SUM, "rx_bytes", "path_rx_bytes", "UDP payload received.")                                         \
	X(tx_control, SUM, "tx_control_datagrams", "path_tx_control_datagrams",                                        \
	  "Datagrams sent without packets of hosts in them.")                                                          \
	X(tx_control_bytes, SUM, "tx_control_bytes", "path_tx_control_bytes", "UDP payload of these.")                 \
	X(acked_bytes, SUM, "acked_bytes", "path_acked_bytes", "UDP payload that the other edge said to have.")        \
	X(lost, SUM, "lost", "path_lost",                                                                              \
	  "Datagrams found lost and repaired. Rises on every shared line; see path_loss_ratio.")                       \
	X(spurious, SUM, "lost_spuriously", "path_lost_spuriously",                                                    \
	  "Of these, datagrams that had arrived after all: the line reorders by more than is waited for.")             \
	X(moved, SUM, "moved", "path_moved",                                                                           \
	  "Datagrams whose contents were sent again on another path when this path died.")                             \
	X(repairs, SUM, "repaired_by_retransmission", "path_repairs", "Packets or pieces of packets sent again.")      \
	X(spared, SUM, "repaired_by_fec", "path_repaired_by_fec",                                                      \
	  "Lost datagrams that the other edge rebuilt by FEC.")                                                        \
	X(probes, SUM, "probe_timeouts", "path_probe_timeouts",                                                        \
	  "Probes sent since no report had come: the line is silent or its round trip grew.")                          \
	X(rebuilt, SUM, "rebuilt_by_fec", "path_rebuilt",                                                              \
	  "Lost datagrams of the other edge that were rebuilt here by FEC.")                                           \
	X(reordered, SUM, "reordered", "path_reordered",                                                               \
	  "Datagrams of the other edge that arrived behind a later one.")                                              \
	X(reorder_most, MOST, "reordered_by_most", "path_reordered_by_most_datagrams",                                 \
	  "By how many datagrams the line reordered at most.")                                                         \
	X(marked, SUM, "marked", "path_marked",                                                                        \
	  "Datagrams marked CE by a router: a queue on the way is filling, and the rate goes down.")                   \
	X(deaths, SUM, "deaths", "path_deaths",                                                                        \
	  "Times that the path did not answer and traffic moved to the others.")

/* proxy_path_status.loss_runs */
#define PATH_LOSS_BURSTS_TEXT "Runs of datagrams found lost: against path_lost, how bursty the line is."

/* X(enumerator, printed name, what it means) */
#define PATH_STATES(X)                                                                                                 \
	X(NEW, "new", "nothing has been answered on it yet")                                                           \
	X(UP, "up", "it answers")                                                                                      \
	X(DEAD, "dead", "it does not answer any more: its traffic takes the others, or waits")

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
