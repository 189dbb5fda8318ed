/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - one running link: its workers, ports and arena. Main thread's view.
 *
 * The main thread (libevent) calls these; the data path runs in worker threads that share nothing with it but
 * single-producer rings: a command goes to a worker, its answer (a snapshot) comes back. */
#ifndef DAEMON_LINK_H
#define DAEMON_LINK_H

#include "daemon/config/config.h"
#include "daemon/relay/relay_counters.h"
#include "daemon/worker/trace.h"
#include "daemon/worker/worker.h"

struct bursts;
struct event_base;
struct link;

/* Called on the main thread for each event of the core. */
typedef void (*link_event_fn)(void *arg, struct link *l, const struct proxy_event *ev);
/* All workers can open datagrams sealed with the keys of link_rx_keys(serial). */
typedef void (*link_keys_fn)(void *arg, struct link *l, uint32_t serial);

/* Opens ports, arena and workers. pcap_dir NULL: no capture. 0 or negative errno with err a sentence. */
int link_start(const struct link_config *c, struct event_base *base, const char *pcap_dir, link_event_fn fn,
               link_keys_fn keys_fn, void *arg, struct link **l, char err[CONFIG_ERR_MAX]);

/* Takes up changes that are allowed while running (the caller has checked config_reloadable()). */
void link_reconfigure(struct link *l, const struct link_config *c);

enum link_hold {
	LINK_HOLD_RULES = 1, /* the kernel's rules may be missing: link_keep_rules() */
	LINK_HOLD_PEER = 2,  /* the edges do not agree */
};

/* Sets or clears a reason why nothing is acknowledged early. */
void link_hold_promises(struct link *l, enum link_hold why, bool hold);
/* Every second: gives the last configuration again to a worker that could not take it; it may hold the reasons of
 * link_hold_promises(). */
void link_tell_again(struct link *l);

/* How many workers have not taken the configuration in force and go on with the one before: the link's file, and
 * whether ACKs may be early. 0: all have taken it. */
uint32_t link_untold(const struct link *l);
/* True if, by the configuration in force, nothing is acknowledged early: link_hold_promises(). */
bool link_holds_promises(const struct link *l);

/* Checks the link's rules in the kernel, and restores them if they were changed. Nothing is acknowledged early until
 * the result is known. 0: the rules were in force; 1: they were restored, and err names those that were gone, or is
 * empty if none was; negative errno with err a sentence: they cannot be restored, and early ACKs wait for a call that
 * succeeds. */
int link_keep_rules(struct link *l, char err[CONFIG_ERR_MAX]);

/* Both edges have said hello on the control channel: (re)starts the session in every shard. tx: what its datagrams are
 * sealed with, NULL: not sealed. 0, or -EAGAIN with err a sentence: some worker is still in the session before, in
 * which the peer does not hear it, and the caller must begin another session. */
int link_session(struct link *l, const struct proxy_session *s, const struct seal_secret *tx, char err[CONFIG_ERR_MAX]);
/* The other edge is about to seal with rx. 0: answered by link_keys_fn, unless another call comes first. -EAGAIN with err
 * a sentence: some worker could not open what is sealed with it; link_keys_fn is not called, and the caller calls again with
 * the same rx and serial. */
int link_rx_keys(struct link *l, const struct seal_secret *rx, uint32_t serial, char err[CONFIG_ERR_MAX]);

/* Call when the LAN ports may have changed: moves rules, offloads and sockets to the interfaces that have the ports'
 * names now, makes devices take frames to their MAC addresses, and restores missing parts of the IP port. rules: the
 * rules in front of the routing tables may have changed, too. 0: everything is in place (or there is no interface);
 * -EAGAIN: workers are still rebinding, call again; other negative errno with err a sentence. */
int link_follow_ports(struct link *l, bool rules, char err[CONFIG_ERR_MAX]);

enum link_end {
	LINK_ENDS,     /* the kernel's rules are those of a link at rest; a drained buffer begins anew at the next
	                * start, and flows are forgotten */
	LINK_RESTARTS, /* started again at once: the rules stay, and so do the flows of a drained buffer */
	LINK_RESTARTS_DRAINED, /* started again at once: the rules stay, and a drained buffer begins anew */
	LINK_START_FAILED, /* link_start() has failed: rules as for LINK_ENDS; a buffer that was in use stays in use */
};

/* Stops the workers, restores the interfaces' offloads, unmaps the arena (kept in its file). LINK_ENDS and
 * LINK_START_FAILED: sets the rules of a link at rest: 0, or negative errno of closed_rest() with err a sentence. */
int link_stop(struct link *l, enum link_end end, char err[CONFIG_ERR_MAX]);

/* True if the buffer of the link is the one that a start with c would make: directory, workers, lanes and geometry. */
bool link_buffer_is_of(const struct link *l, const struct link_config *c);
/* True if the link was started on a buffer in use of another size, or for other numbers of flows, than configured. */
bool link_took_up_buffer(const struct link *l);
/* Bytes of the buffer's arenas, flow tables included, and the flows that they have places for. */
void link_buffer_size(const struct link *l, uint64_t *bytes, uint32_t *flows);

/* True if every worker has made a turn since the last call; asks each worker for another turn. */
bool link_alive(struct link *l);

const struct link_config *link_config(const struct link *l);
/* Random id of this life of the arena; in hello. */
uint64_t link_arena_epoch(const struct link *l);
/* True if no arena before the present one can have been lost with packets in it; a loss that the other edge heard of in
 * an earlier arena does not count. The same at each start on this arena. */
bool link_arena_kept(const struct link *l);
/* Epoch of the other edge's arena in the last session before this start; 0: not known. */
uint64_t link_peer_arena_epoch(const struct link *l);

/* State of all shards, gathered from the workers. `flows` is malloc'ed, the caller frees it. */
struct link_snapshot {
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	struct proxy_counters counters; /* sum */
	struct proxy_link_status status; /* sum; RTT: smallest and mean */
	struct proxy_path_status paths[PATHS_MAX]; /* npaths: sum of the shards; state: the worst; RTT like status */
	uint32_t npaths;
	struct proxy_flow_status *flows;
	uint32_t nflows;
	struct flow_views views; /* its list is malloc'ed, the caller frees it */
	uint64_t lan_kernel_drops; /* receive ring overruns of the LAN ports */
	uint64_t lan_truncated;	   /* frames longer than any RoCEv2 packet */
	uint64_t lan_not_ours;	   /* frames of Engine=dpdk's devices that are not this link's */
	uint64_t lan_send_errors;  /* packets that a LAN port refused */
	uint64_t wan_send_errors;
	uint64_t wan_kernel_drops; /* receive buffer overruns of the WAN sockets for our datagrams */
	uint64_t wan_unmatched_drops; /* receive buffer overruns of the sockets for strays */
	uint64_t wan_no_socket;    /* datagrams for which no socket could be opened */
	uint64_t wan_foreign;	   /* datagrams from other addresses than the other edge's */
	/* of WanDevice='s devices: */
	uint64_t wan_not_ours;	   /* frames that are not this link's */
	uint64_t wan_bad_length;   /* datagrams whose lengths contradict each other or the frame's */
	uint64_t wan_bad_checksum; /* datagrams with a wrong checksum */
	uint64_t wan_no_route;	   /* datagrams without a next hop */
	uint64_t failures_unnamed; /* failed flows without an event, because there were too many */
	struct seal_stats seal;
	struct latencies latency;  /* of samples, since the link was started */
	struct stage_costs costs[WORKERS_MAX]; /* by worker, nworkers of them */
	uint32_t nworkers;
	uint64_t lan_pauses;	   /* pauses that hosts were asked for (Pfc=) */
	uint64_t lan_pause_watchdog; /* ended by the watchdog */
	uint64_t rules_restored;	   /* times that the kernel's rules were put back */
	uint64_t lan_port_rebinds;   /* LAN ports that were made again and taken up */
	uint64_t no_route;	   /* packets for hosts without a usable next hop */
	uint64_t unknown_hosts;	   /* packets for hosts about which no question was sent, because of ROUTE_ASKS_PER_S */
	struct relay_counts relay; /* zeros: the link has no relay */
};

/* Workers' traces: trace.h. A link that was stopped and started again has another life. */
uint64_t link_life(const struct link *l);
uint32_t link_workers(const struct link *l);
const struct trace *link_trace(const struct link *l, uint32_t worker);

/* Received bytes from hosts in bins of 100 us, up to the last snapshot. */
const struct bursts *link_bursts(const struct link *l);

/* Watches a flow (flow_trace.h): one at a time. 0, -EBUSY, -ENOMEM. The watches end with the link. */
int link_watch_start(struct link *l, const struct flow_key *key);
void link_watch_stop(struct link *l);
/* The watch of a worker, while a flow is watched; take its rows on the main thread. */
struct flow_watch *link_watch(const struct link *l, uint32_t worker);

typedef void (*link_snapshot_fn)(void *arg, struct link *l, struct link_snapshot *s);
/* Asks every worker; calls back on the main thread once all have answered (s is NULL if the link stops before). views:
 * which flows are wanted whole; NULL: none. */
void link_snapshot(struct link *l, bool with_flows, const struct flow_filter *views, link_snapshot_fn fn, void *arg);

#endif
