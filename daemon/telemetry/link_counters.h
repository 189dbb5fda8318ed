/* SPDX-License-Identifier: Apache-2.0 */
/* link_counters.h - what the daemon counts beside the core (proxy/util/counters.h), for status and metrics alike. */
#ifndef DAEMON_LINK_COUNTERS_H
#define DAEMON_LINK_COUNTERS_H

/* X(name, field of struct link_snapshot, what is counted) */
#define LINK_COUNTERS(X)                                                                                               \
	X(rekeys_tx, seal.tx_updates, "times that a lane went on to its next key, sending")                            \
	X(rekeys_rx, seal.rx_updates, "times that a lane went on to its next key, receiving")                          \
	X(lan_send_errors, lan_send_errors, "packets that a LAN port refused to send")                                 \
	X(wan_send_errors, wan_send_errors, "datagrams that a WAN socket or device refused to send")                   \
	X(rules_restored, rules_restored,                                                                              \
	  "times that another program changed nft rules of the link and longreachd put them back")                     \
	X(lan_port_rebinds, lan_port_rebinds,                                                                          \
	  "times that the workers moved to a new interface with a LAN port's name")                                    \
	X(failures_unnamed, failures_unnamed, "failed flows beyond those that `longreach failed` can name")            \
	X(lan_pauses, lan_pauses, "PFC pauses that the edge sent to hosts (Pfc=)")                                     \
	X(lan_pause_watchdog, lan_pause_watchdog, "PFC pauses that Tuning.PfcWatchdog= ended")                         \
	X(lan_not_ours, lan_not_ours, "frames from devices of LanDevice= that this link does not carry")               \
	X(wan_not_ours, wan_not_ours, "frames from devices of WanDevice= that are no datagrams of this link")

/* X(name, field of struct link_snapshot, what happened): drops before or behind the core */
#define LINK_DROPS(X)                                                                                                  \
	X(lan_kernel, lan_kernel_drops, "receive ring of a LAN port overflowed")                                       \
	X(lan_ring_truncated, lan_truncated,                                                                           \
	  "frame larger than a slot of the receive ring: a host on this machine sends with TSO")                       \
	X(wan_kernel, wan_kernel_drops, "receive buffer of a WAN socket overflowed")                                   \
	X(wan_flood, wan_unmatched_drops,                                                                              \
	  "datagram that is not of this session, beyond the number that the edge examines one by one")                 \
	X(wan_foreign, wan_foreign, "datagram from another address than the other edge's")                             \
	X(wan_no_socket, wan_no_socket,                                                                                \
	  "datagram for which no socket could be opened: check LimitNOFILE= and the log")                              \
	X(wan_no_route, wan_no_route, "datagram for a device of WanDevice= without a usable next hop")                 \
	X(wan_bad_length, wan_bad_length,                                                                              \
	  "datagram from a device of WanDevice= that is truncated, or whose lengths are wrong")                        \
	X(wan_bad_checksum, wan_bad_checksum, "datagram from a device of WanDevice= with a wrong checksum")            \
	X(no_route, no_route, "packet for a host without a usable next hop")                                           \
	X(unknown_hosts, unknown_hosts,                                                                                \
	  "packet for a host without a known next hop, as the edge was asking about too many others")

/* X(name, field of struct view in metrics.c, what is counted): of a link whether it runs or not */
#define SITE_COUNTERS(X)                                                                                               \
	X(distance_steps, distance->steps, "times that the path to the other edge became longer or shorter")           \
	X(ingress_bins_missed, bursts_missed,                                                                          \
	  "bins of 100 us with frames of hosts that are in no histogram, as the daemon read them too late")            \
	X(clock_jumps, peer.clock_jumps,                                                                               \
	  "times that this machine's clock was set by half a second or more while the link ran; NTP slews instead")    \
	X(sessions, peer.sessions,                                                                                     \
	  "sessions begun with the other edge; if there are more than a few a day, read the logs of both edges")

#endif
