/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - one thread that runs one shard of a link: its core, its arena, its sockets.
 *
 * Main thread: worker_open_arena(), worker_open_wan(), worker_open_lan(), worker_run(); then worker_command() and the
 * answers and events that come back through rings (notify_fd is written when there are any); worker_stop(),
 * worker_close(). */
#ifndef DAEMON_WORKER_H
#define DAEMON_WORKER_H

#include "daemon/config/config.h"
#include "daemon/lan/lan_pause.h"
#include "daemon/util/flow_filter.h"
#include "flow_trace.h"
#include "latency.h"
#include "stage_cost.h"
#include "trace.h"

struct worker_params {
	const struct link_config *config;
	uint32_t shard;
	struct wan_pacer *pacers; /* of the link, one for each path */
	const char *pcap_dir;    /* NULL: no capture */
	uint64_t new_epoch;      /* for an arena that begins anew */
	bool former_lost;        /* such an arena has to report a lost one: arena_file_check_others() */
	uint32_t nformer;        /* arena_file_former() */
	int notify_fd;           /* eventfd of the main thread */
	bool may_spin;           /* there are enough cores to poll instead of sleeping a few microseconds */
	int cpu;                 /* -1: anywhere */
};

/* Flows with all facts, and other facts that the request asks for; of a worker, and in a link's snapshot of all
 * workers. */
struct flow_views {
	struct proxy_flow_view *list; /* those that have ended have facts.ended_ns */
	uint32_t n;
	uint32_t left_out; /* beyond FLOW_VIEWS_MAX */
	uint64_t running_ns; /* how long the worker has been running: it knows nothing of the time before */
	uint64_t heard_ns[3]; /* proxy_host_heard() of the filter's host, src and dst */
};
#define FLOW_VIEWS_MAX 4096u /* of a worker: 2 MiB */

/* The state of one shard. Filled in by the worker, owned by whoever holds the pointer. */
struct worker_snapshot {
	void *request; /* the asker's */
	uint32_t shard;
	bool with_flows;
	bool with_views; /* of flows that fit the filter */
	struct flow_filter filter;
	bool out_of_memory;
	struct proxy_counters counters;
	struct proxy_link_status status;
	struct proxy_path_status paths[PATHS_MAX]; /* those that the link has */
	struct proxy_flow_status *flows;
	uint32_t nflows;
	struct flow_views views;
	uint64_t lan_ring_drops, lan_truncated, lan_not_ours, lan_tx_errors;
	uint64_t wan_no_socket;
	uint64_t wan_tx_errors, wan_rx_drops, wan_unmatched_drops, wan_foreign;
	uint64_t wan_not_ours, wan_bad_length, wan_bad_checksum, wan_no_route;
	uint64_t no_route, unknown_hosts;
	uint64_t failures_unnamed;
	struct seal_stats seal;
	struct lan_pause_stats pause;
	struct latencies latency;
	struct stage_costs costs;
};

enum worker_cmd_type {
	WORKER_SESSION,
	WORKER_RX_KEYS,
	WORKER_RECONFIGURE,
	WORKER_SNAPSHOT,
	WORKER_REBIND,
	WORKER_WATCH,
};

struct worker_cmd {
	enum worker_cmd_type type;
	struct proxy_session session;     /* SESSION */
	struct seal_keys *keys; /* SESSION: to seal with, NULL: not sealed. RX_KEYS: to open with, NULL when taken */
	uint32_t serial;                  /* RX_KEYS: the asker's */
	struct proxy_config *config;      /* RECONFIGURE: comes back in the answer */
	struct worker_snapshot *snapshot; /* SNAPSHOT: comes back in the answer */
	uint32_t lan_port;                /* REBIND: the port whose interface is another one now */
	struct flow_watch *watch; /* WATCH: the watch from now on, NULL: none. In the answer the former watch, which
	                           * belongs to the caller again */
	int result;                       /* REBIND: 0 or negative errno, in the answer */
};

struct burst_ring;
struct worker;
struct route_worker;

/* The ports of each worker: the link's LAN ports and the workers' end of its IP port (ip_port.h). */
uint32_t worker_ports(const struct link_config *c);
void worker_port_name(const struct link_config *c, uint32_t port, char ifname[IF_NAMESIZE]);

/* Takes or makes the arena and starts the core on it. 0 or negative errno with err (of errlen bytes) a sentence. */
int worker_open_arena(struct worker **w, const struct worker_params *p, char *err, size_t errlen);
/* In the order of the shards (wan_port.h). */
int worker_open_wan(struct worker *w, char *err, size_t errlen);
/* Call after worker_open_wan(). From now on packets of hosts wait in the ports: the caller must have set the rules that
 * keep the kernel from forwarding them. routes: the worker's end of the link's struct routes. */
int worker_open_lan(struct worker *w, struct route_worker *routes, char *err, size_t errlen);
int worker_run(struct worker *w, char *err, size_t errlen);

/* False if the worker has not taken up earlier commands for long. */
bool worker_command(struct worker *w, const struct worker_cmd *cmd);
/* Takes a command that was carried out. False: there is none. */
bool worker_answer(struct worker *w, struct worker_cmd *cmd);
bool worker_event(struct worker *w, struct proxy_event *ev);
/* Events ever lost for lack of room, without those of failed flows. */
uint64_t worker_events_lost(const struct worker *w);

/* The trace of its paths; any thread may read it as long as the worker exists. */
const struct trace *worker_trace(const struct worker *w);

/* Received bytes of a LAN port over time, NULL: the port is not open; any thread may read it as long as the worker
 * exists. */
const struct burst_ring *worker_bursts(const struct worker *w, uint32_t lan_port);

/* True if the worker has made a turn since the last call. Asks for another turn, and wakes an idle worker for it. Main
 * thread. */
bool worker_alive(struct worker *w);
/* Index of the interface that a port takes packets from, 0: that port is not open; from any thread. */
int worker_lan_ifindex(const struct worker *w, uint32_t lan_port);
/* MAC address, 48 bits, whose frames a port takes, 0: the port compares none, or is not open; from any thread. */
uint64_t worker_lan_mac(const struct worker *w, uint32_t lan_port);
/* An interface of LanPort= may be another one, or have another rate: with Pfc=, frames and thresholds follow it, and
 * the log says if the ring is too small for the rate. Main thread. */
void worker_follow_pause(const struct worker *w, uint32_t lan_port);

/* Ends and joins the thread. Commands that it did not carry out any more come out of worker_answer(). */
void worker_stop(struct worker *w);
/* Call after worker_stop(). True if the arena holds no packet: without its flows' descriptors nothing is lost. */
bool worker_drained(const struct worker *w);
/* True if the arena was in use when worker_open_arena() took it up: by then there may have been flows in it. */
bool worker_took_up(const struct worker *w);
/* keeps_flows: keeps the flows' descriptors even if no packet is left; else a drained arena begins anew at the next
 * start. */
void worker_close(struct worker *w, bool keeps_flows);

/* Of the arena: link_plan_geometry(), or what an arena had that was in use before the start. */
const struct arena_geometry *worker_geometry(const struct worker *w);
uint64_t worker_epoch(const struct worker *w);
/* False: an arena before the present one, if there was one, is lost, and every hello of the present one has to say so;
 * arena_file.former_kept. */
bool worker_arena_kept(const struct worker *w);
/* Epoch of the other edge's arena that the arena's file remembered at the start; 0: none. */
uint64_t worker_peer_epoch(const struct worker *w);

#endif
