/* SPDX-License-Identifier: Apache-2.0 */
/* metric_families.h - the families of metrics that are no counters of the core: names and help texts.
 * longreach-counters(7) is made from the same lists (etc/man/counters_page.c). */
#ifndef DAEMON_METRIC_FAMILIES_H
#define DAEMON_METRIC_FAMILIES_H

/* X(identifier, family, what it is, further label with its value or "", expression of `v`). Rows of a family stand
 * together; the first one's text counts. */
#define GAUGES(X)                                                                                                      \
	X(RTT, "rtt_seconds",                                                                                          \
	  "Round trip to the other edge, smoothed; 0: not measured. At twice its least value of an idle line a queue " \
	  "stands on the line.",                                                                                       \
	  "", SECONDS(v->snap->status.rtt_smoothed_ns))                                                                \
	X(RTT_LEAST, "rtt_least_seconds",                                                                              \
	  "Least round trip of the last 30 s; longreachd computes the distance from it. A queue that stands as long "  \
	  "is part of it.",                                                                                            \
	  "", SECONDS(v->distance->least_ns))                                                                          \
	X(DISTANCE, "distance_measured_meters", "Length of fibre with that least round trip: an upper bound.", "",     \
	  distance_measured_m(v->distance))                                                                            \
	X(DISTANCE_AGE, "distance_age_seconds", "Time since the distance was last measured.", "",                      \
	  SECONDS(distance_age_ns(v->distance)))                                                                       \
	X(DISTANCE_STALE, "distance_stale",                                                                            \
	  "1: the distance was not measured for three seconds, and may be that of a former path.", "",                 \
	  distance_stale(v->distance))                                                                                 \
	X(DISTANCE_FILE, "distance_configured_meters", "Distance= of the link file; 0: auto.", "",                     \
	  v->distance->configured_m)                                                                                   \
	X(DISTANCE_RULES, "distance_in_force_meters",                                                                  \
	  "Distance that buffers are computed for: the larger of configured and measured.", "",                        \
	  distance_in_force_m(v->distance))                                                                            \
	X(DISTANCE_DIFFERS, "distance_differs",                                                                        \
	  "1: measurement and link file differ by more than 5 percent: correct Distance=, or ask the carrier for the " \
	  "route.",                                                                                                    \
	  "", distance_differs(v->distance))                                                                           \
	X(LAN_POOL, "buffer_used_bytes", "Buffer in use, by direction.", ",pool=\"from_lan\"",                         \
	  v->snap->status.pool_used[POOL_LAN])                                                                         \
	X(WAN_POOL, "buffer_used_bytes", "", ",pool=\"from_wan\"", v->snap->status.pool_used[POOL_WAN])                \
	X(LAN_ROOM, "buffer_capacity_bytes", "Buffer capacity, by direction.", ",pool=\"from_lan\"",                   \
	  v->snap->status.pool_capacity[POOL_LAN])                                                                     \
	X(WAN_ROOM, "buffer_capacity_bytes", "", ",pool=\"from_wan\"", v->snap->status.pool_capacity[POOL_WAN])        \
	X(LAN_FULL, "buffer_full_bytes",                                                                               \
	  "Fill from which the buffer is full: hosts are held off above it. The rest is room for packets that flows "  \
	  "wait for.",                                                                                                 \
	  ",pool=\"from_lan\"", (double)v->snap->status.pool_capacity[POOL_LAN] * LINK_BUFFER_FULL)                    \
	X(WAN_FULL, "buffer_full_bytes", "", ",pool=\"from_wan\"",                                                     \
	  (double)v->snap->status.pool_capacity[POOL_WAN] * LINK_BUFFER_FULL)                                          \
	X(WANTED, "buffer_wanted_bytes",                                                                               \
	  "Buffer that one direction needs at the distance in force. If it exceeds the capacity, raise Size=.", "",    \
	  v->deep.wanted_bytes)                                                                                        \
	X(XOFF, "buffer_xoff_bytes",                                                                                   \
	  "Fill at which RNR NAKs hold off a flow that is alone on the link: near it, hosts are slowed down.", "",     \
	  v->deep.xoff_bytes)                                                                                          \
	X(UNDERRUN, "buffer_no_underrun_xon_bytes",                                                                    \
	  "Fill below which the line runs dry before a host sends again: a smaller capacity costs speed.", "",         \
	  v->deep.no_underrun_xon_bytes)                                                                               \
	X(QPS_AT_ONCE, "busy_queue_pairs_at_once",                                                                     \
	  "Largest number of busy queue pairs that each have a packet in the buffer at any time. More take turns.",    \
	  "", v->deep.qps_at_once)                                                                                     \
	X(QPS_IN_TURNS, "busy_queue_pairs_in_turns",                                                                   \
	  "Largest number of busy queue pairs that take turns. Beyond it, packets of hosts that ignore CNPs find no "  \
	  "room.",                                                                                                     \
	  "", v->deep.qps_in_turns)                                                                                    \
	X(BDP, "bandwidth_delay_product_bytes", "Rate= times the round trip in force.", "", v->deep.bdp_bytes)         \
	X(RATE, "rate_bits_per_second", "Rate= of the link file.", "", config_rate_bps(v->config))                     \
	X(IN_FLIGHT, "wan_in_flight_bytes", "Bytes sent to the other edge and not reported yet.", "",                  \
	  v->snap->status.wan_in_flight_bytes)                                                                         \
	X(NEAR, "flows", "Directions of RC connections, by role of this edge.", ",role=\"near\"",                      \
	  v->snap->status.near_flows)                                                                                  \
	X(FAR, "flows", "", ",role=\"far\"", v->snap->status.far_flows)                                                \
	X(FLOWS_MAX, "flows_max", "Most flows of either role (MaxFlows=). Beyond it there are no early ACKs.", "",     \
	  v->snap->status.max_flows)                                                                                   \
	X(PAIRS_END_TO_END, "pairs_end_to_end",                                                                        \
	  "Pairs of hosts with queue pairs beyond MaxFlows=, carried without early ACKs.", "",                         \
	  v->snap->status.pairs_end_to_end)                                                                            \
	X(LEARNING, "flows_in_state",                                                                                  \
	  "Flows in a state other than normal. rnr_back_pressure: hosts are held off, normal on a full line; else a "  \
	  "responder is slow, or Size= is too small. stalled, rnr: a host is slow.",                                   \
	  ",state=\"learning\"", v->snap->status.flows_learning)                                                       \
	X(RNR_BACK_PRESSURE, "flows_in_state", "", ",state=\"rnr_back_pressure\"",                                     \
	  v->snap->status.flows_rnr_back_pressure)                                                                     \
	X(STALLED, "flows_in_state", "", ",state=\"stalled\"", v->snap->status.flows_stalled)                          \
	X(RNR, "flows_in_state", "", ",state=\"rnr\"", v->snap->status.flows_rnr)                                      \
	X(BARRIER_WAITS, "barrier_waiting_packets",                                                                    \
	  "Packets for hosts here that wait behind the barrier for RC bytes. If for long, a responder does not take "  \
	  "these bytes.",                                                                                              \
	  "", v->snap->status.barrier_waiting)                                                                         \
	X(IP_USED, "ip_used_bytes", "Memory for IP packets that are not RoCEv2, in use.", "",                          \
	  v->snap->status.ip_used_bytes)                                                                               \
	X(IP_ROOM, "ip_capacity_bytes", "Memory for IP packets that are not RoCEv2.", "",                              \
	  v->snap->status.ip_capacity_bytes)                                                                           \
	X(UNCLOSED, "relay_unclosed_descriptors",                                                                      \
	  "Descriptors of programs' files that wait to be closed, as their mounts do not answer.", "",                 \
	  v->snap->relay.unclosed)                                                                                     \
	X(RDMA_CLIENTS, "relay_rdma_clients", "RDMA clients of the relay that are connected.", "",                     \
	  v->snap->relay.rdma_clients)                                                                                 \
	X(CERTIFICATE, "certificate_expires_timestamp_seconds",                                                        \
	  "When this edge's certificate and its CA's expire; 0: a pre-shared key, or none.", ",certificate=\"edge\"",  \
	  v->peer.expiry.certificate_s)                                                                                \
	X(CA, "certificate_expires_timestamp_seconds", "", ",certificate=\"ca\"", v->peer.expiry.ca_s)                 \
	X(RESTART, "link_restart_needed",                                                                              \
	  "1: the link file has changed in keys that only `longreach restart LINK` takes up, and is not in force.",    \
	  "", site_waits(v->site)[0] != '\0')                                                                          \
	X(UNTOLD, "workers_not_reconfigured",                                                                          \
	  "Workers that have not taken the configuration in force and go on with the one before.", "",                 \
	  site_link(v->site) != NULL ? link_untold(site_link(v->site)) : 0)                                            \
	X(PEER_CLOCK, "peer_clock_ahead_seconds",                                                                      \
	  "The other edge's wall clock minus this edge's, to within half of the control channel's round trip; 0: not " \
	  "known.",                                                                                                    \
	  "", v->peer.clock_known ? (double)v->peer.clock_ahead_ns / 1e9 : 0)                                          \
	X(REAUTH, "reauthentication_due",                                                                              \
	  "1: keys have changed at either edge; session or control connection is of the former keys and ends after "   \
	  "ReauthWithin=, unless the edges prove themselves under the new keys.",                                      \
	  "", v->peer.reauth == REAUTH_DUE || v->peer.reauth == REAUTH_ASKED)                                          \
	X(CONTROL, "control_connected",                                                                                \
	  "1: the control channel to the other edge is up. While it is 0, no new session can begin.", "",              \
	  v->peer.connected)

/* X(identifier, family, suffix, type, what it is, expression of `s`, the path, and `fec`, its FEC) */
#define PATH_FAMILIES(X)                                                                                               \
	X(UP, "path_up", "", "gauge", "1: the path answers. 0: its traffic takes other paths, or waits.",              \
	  s->state == PATH_UP)                                                                                         \
	X(USABLE, "path_in_use", "", "gauge", "1: packets may take the path.", s->usable)                              \
	X(RTT, "path_rtt_seconds", "", "gauge", "Round trip, smoothed; 0: not measured.", SECONDS(s->rtt_smoothed_ns)) \
	X(RTT_AGE, "path_rtt_age_seconds", "", "gauge", "Time since the last measurement of the round trip.",          \
	  SECONDS(s->rtt_age_ns))                                                                                      \
	X(LOSS_AGE, "path_loss_age_seconds", "", "gauge",                                                              \
	  "Time since the other edge last reported loss and delivery.", SECONDS(s->loss_age_ns))                       \
	X(STALE, "path_stale", "", "gauge",                                                                            \
	  "1: round trip, or loss and delivery, were not measured for three seconds: the values may be old.",          \
	  path_rtt_stale(s) || path_loss_stale(s))                                                                     \
	X(RTT_LEAST, "path_rtt_least_seconds", "", "gauge",                                                            \
	  "Least round trip of the last two seconds. A queue that stands as long is part of it.",                      \
	  SECONDS(s->rtt_min_ns))                                                                                      \
	X(RTT_P99, "path_rtt_p99_seconds", "", "gauge", "99th percentile of the round trip.", SECONDS(s->rtt_p99_ns))  \
	X(EPOCH, "path_epoch", "", "gauge", "Epoch of the session; 0: there is no session.", s->epoch_tx)              \
	X(LOSS, "path_loss_ratio", "", "gauge",                                                                        \
	  "Share of recent datagrams that were lost. Above 0.01, ask the carrier, or set FEC=.",                       \
	  (double)s->loss_ppm / 1e6)                                                                                   \
	X(LINE_LOSS, "path_line_loss_ratio", "", "gauge",                                                              \
	  "Share of datagrams that the line lost, by the other edge's reports, including those that FEC rebuilt.",     \
	  fec->loss)                                                                                                   \
	X(LINE_BURST, "path_line_loss_burst_datagrams", "", "gauge",                                                   \
	  "Mean burst length of the line's losses; 0: not known.", fec->burst_known ? fec->burst : 0)                  \
	X(BURST_LONGEST, "path_loss_burst_longest_datagrams", "", "gauge", "Longest run of datagrams found lost.",     \
	  s->loss_run_longest)                                                                                         \
	X(FEC_GROUP, "path_fec_group_datagrams", "", "gauge", "K of the K+M in force; 0: none.", fec->plan.k)          \
	X(FEC_REPAIRS, "path_fec_group_repairs", "", "gauge", "M of the K+M in force.", fec->plan.k ? fec->plan.m : 0) \
	X(DELIVERY, "path_delivery_bits_per_second", "", "gauge",                                                      \
	  "UDP payload that the other edge reports as received.", s->delivery_bps)                                     \
	X(IN_FLIGHT, "path_in_flight_bytes", "", "gauge", "Bytes sent and not reported yet.", s->in_flight_bytes)      \
	X(BURSTS, "path_loss_bursts", "_total", "counter", PATH_LOSS_BURSTS_TEXT, s->loss_runs)

/* X(identifier, family, suffix, type, what it is) */
#define OTHER_FAMILIES(X)                                                                                              \
	X(BUILD, "build_info", "", "gauge", "The daemon's version.")                                                   \
	X(LINK, "link_info", "", "gauge",                                                                              \
	  "Settings of a link: ACK mode, barrier, encryption, and its name at the other edge.")                        \
	X(STATE, "link_state", "", "gauge", "1 for the state that the link is in.")                                    \
	X(DROPS, "drops", "_total", "counter", "Packets and frames that went no further, by reason.")                  \
	X(INGRESS, "ingress_bits_per_second", "", "histogram",                                                         \
	  "RoCEv2 from hosts in bins of 100 us and 1 ms, as a rate; port=\"\": all ports of the link; le=\"0\": "      \
	  "bins without a frame.")                                                                                     \
	X(LATENCY, "latency_seconds", "", "histogram",                                                                 \
	  "Time of single requests since their frame came in. stage=\"acked\": until the ACK left for the host here; " \
	  "delivered: until the other edge reported that the responder has it (time in the outward buffer); inward: "  \
	  "of a packet from the WAN, until the responder here had it (time in the inward buffer).")                    \
	X(WORKER_BUSY, "worker_busy_seconds", "_total", "counter",                                                     \
	  "Time that a worker had something to do. Its rate is the worker's load: near 1 the worker is the limit, "    \
	  "whatever processor time it takes.")                                                                         \
	X(INGRESS_MOST, "ingress_most_bits_per_second", "", "gauge",                                                   \
	  "Fullest bin of the last 60 s. If it is near the port's rate and the mean is low, hosts send in bursts.")    \
	X(INGRESS_PRIORITY, "ingress_priority_most_bits_per_second", "", "gauge",                                      \
	  "Fullest bin of the last 60 s by priority: the PCP of the VLAN tag, without a tag DSCP / 8.")                \
	X(EVENTS, "events", "_total", "counter",                                                                       \
	  "Events, including those that the log leaves out when there are many.")                                      \
	X(STRAYS, "stray_buffers", "", "gauge", "Buffers on this machine that no link will drain, by kind.")           \
	X(LINKS, "links", "", "gauge",                                                                                 \
	  "Links that are loaded, whatever their state. 0: the daemon carries nothing: `longreach status` says why.")  \
	X(REFUSED, "link_files_refused", "", "gauge",                                                                  \
	  "1: the link files were refused when they were read last, and are not in force: `longreach status` says "    \
	  "why.")                                                                                                      \
	X(ALL_CLOSED, "all_roce_closed", "", "gauge",                                                                  \
	  "1: this machine forwards no RoCE at all, because a link file cannot be understood.")

/* The name that Prometheus' own client libraries use, so it has no prefix. */
#define PROCESS_START_FAMILY "process_start_time_seconds"
#define PROCESS_START_TEXT                                                                                             \
	"When the daemon started, in seconds since 1970. If it changes again and again, the daemon dies and is "       \
	"restarted."

#endif
