/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - two sites, their hosts, two edges (or none) and the wire between them.
 *
 *     site A                                                        site B
 *     host 0 ====\                                              /==== host 0
 *     host 1 ===== edge (1..n shards) ===== WAN ===== edge (1..m shards)
 *     ...    ====/                                              \==== ...
 *
 * With a `port` there is a switch between the hosts and the edge, with a queue in front of each of its ports.
 *
 * In a direct world plain routers stand where the edges are: the same hosts on the same wire, without longreach. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "conn.h"
#include "crowd.h"
#include "edge.h"
#include "eventq.h"
#include "host.h"
#include "latency.h"
#include "link.h"
#include "pktlog.h"
#include "relay_peer.h"
#include "proxy/proxy.h"

#define HOSTS_MAX 40

/* What the edges are told to be one machine. */
enum world_groups {
	GROUPS_NONE, /* each address is one */
	GROUPS_HOST, /* both addresses of a host */
	GROUPS_SITE, /* all addresses of a site: hosts that know of each other's completions */
};

struct world_cfg {
	uint64_t seed;
	bool direct;
	enum ack_mode mode;
	enum barrier_mode barrier;
	enum world_groups groups;
	uint32_t word_every; /* completions; 0: hosts say nothing */
	uint32_t nhosts[2];
	const struct host_model *model[2][HOSTS_MAX];
	uint32_t skip_qpns[2][HOSTS_MAX]; /* QPNs that other programs have taken */
	struct link_cfg lan, wan;         /* both directions alike */
	struct link_cfg port; /* of an edge: all hosts of the site share it. rate_bps 0: it has one per host */
	struct {                          /* further paths between the edges */
		struct link_cfg wan;
		uint64_t pacer_bps;
		uint16_t payload_max;
		uint32_t weight;
	} more[SIM_PATHS_MAX - 1];
	uint32_t nmore;
	bool mtu_search; /* of all paths */
	bool paths_survive; /* the cuts are of paths of which another one lives: hosts must not notice */
	/* edges */
	uint32_t nshards[2];
	uint16_t nlanes;
	uint16_t wan_payload_max;
	uint32_t wan_overhead; /* per datagram: UDP, IP and link layer */
	uint64_t pacer_bps;
	uint32_t pacer_burst_ns; /* sending time that path 0 may save up; 0: pacer_burst_ns() in edge.c */
	enum rate_controller control; /* of every path */
	struct fec_config fec;
	uint64_t arena_len; /* per shard; 0: what the product of rate and delay asks for */
	uint32_t chunk_size;
	bool big_reads;        /* READs that are larger than an edge's pool */
	uint32_t arena_chunks; /* beside what the arena needs at least; 0: as many as the line asks for */
	uint32_t max_flows;
	uint32_t max_flows_b; /* of edge B; 0: as many as A */
	uint32_t lan_window_bytes;
	uint64_t reorder_ns, give_up_ns; /* of the edges; 0: the default */
	uint64_t
	    arp_ns[2]; /* from the first packet for a host of that site until its edge knows where it is; 0: it knows */
	uint16_t relay_channels; /* at most RELAY_PEER_CHANNELS; 0: the edges have no relay */
	bool relay_bulk;         /* one put as fast as it goes, instead of a few chunks */
	uint64_t batch_ns[2];    /* an edge looks at its ports every so often, and takes what has come; 0: at once */
	bool batch_wan_first[2];
	uint64_t tick_late_ns;   /* a busy worker: no proxy_tick() sooner after the one before, whatever is asked for */
	struct {
		uint64_t at_ns[8]; /* both edges live, and begin a session anew: their control connection was lost */
		uint64_t apart_ns; /* the other edge does it so much later, or a part of it */
		uint32_t n;
	} resession;
	bool late_ports;         /* the edges' LAN ports land packets in the arena and send from it: late_port.c */
	/* what happens to the edges */
	struct {
		uint64_t at_ns, down_ns;
		uint8_t sites; /* bit 0: A, bit 1: B */
		bool lost;     /* the arena is gone too: the edge starts afresh */
		uint32_t steps, stores; /* of the core from at_ns on: an edge is killed there, within a call; both 0: between two */
		uint64_t wait_ns; /* so long for that, then between two calls */
		bool ring_lost; /* and what it had sent to its hosts and they do not have yet */
	} crash[4];
	uint32_t ncrashes;
	struct { /* machines that stand still, and take what came meanwhile afterwards */
		uint64_t at_ns, for_ns;
		uint8_t site, host;
	} pause[4];
	uint32_t npauses;
	uint64_t host_dies_ns; /* host 0 of site B; SIM_NEVER: lives */
	uint64_t attack_pps;   /* of the last host of each site, which has no work; 0: there is none. attack.h */
	uint64_t attack_ns;    /* when it begins */
	uint32_t attack_pkts;  /* of each site, then it ends */
	bool attack_spoofs;    /* also from addresses that nobody has: new hosts get no pair meanwhile */
	/* work */
	struct conn_cfg *conn;
	uint32_t nconns;
	struct crowd_cfg crowd;
	uint64_t cm_retry_ns;
	uint64_t deadline_ns;   /* all work must be done by then; 0: it need not end (a measurement) */
	uint64_t events_max;    /* what takes more goes round in circles; 0: any */
	bool errors_allowed;    /* queue pairs may run out of retries */
	bool audit;             /* every 1,000 events */
	uint64_t edges_from_ns; /* before that the hosts' packets go past them */
	bool no_place;          /* queue pairs may have no flow: what the responder says itself crosses */
	bool recycle;           /* QPNs of queue pairs that are gone are taken again, by whoever comes */
	bool failed_reuse;      /* queue pairs that failed are recovered, or their QPNs go to others: heirs in conn.h */
	bool warned;            /* no edge sends anybody away before it has asked it to send more slowly */
	bool lan_clean;         /* nothing is lost or reordered on the LANs */
};

struct port {
	struct world *w;
	uint8_t site, host;
};

struct world {
	struct world_cfg cfg;
	struct eventq q;
	struct host host[2][HOSTS_MAX];
	struct edge edge[2];
	struct link up[2][HOSTS_MAX], down[2][HOSTS_MAX]; /* host to edge, edge to host */
	struct link in[2], out[2];                        /* switch to edge, edge to switch */
	struct link wan[2], more[2][SIM_PATHS_MAX - 1];   /* from site */
	struct port port[2][HOSTS_MAX], wan_port[2];
	uint64_t hop_ns[2][HOSTS_MAX]; /* when the edge knows where the host is; 0: nobody has asked yet */
	struct conn *conn;
	uint32_t nconns, conns_over;
	struct relay_world relay;
	struct pktlog log;
	bool log_packets;
	uint64_t dropped_marked[2]; /* crowd.c */
	struct {
		struct pkt *head, **tail;
	} batch[2][2]; /* what waits until the edge looks at its LAN port, and at its WAN port */
	unsigned edge_later; /* the site that begins the session second */
	uint32_t sessions; /* begun so far: what belongs to an earlier one begins no more */
	uint32_t to_crash; /* index + 1 of the crash that waits for the middle of a call; 0: none does */
	/* outcome */
	char violation[512]; /* empty: none */
	uint64_t completions, lan_pkts, words_heard;
	struct latency *latency; /* of messages, from site A; NULL: nobody wants to know */
	uint64_t done_ns; /* when the last connection was over */
};

/* Sets everything up; w->log is initialised already. */
void world_start(struct world *w, const struct world_cfg *cfg);
/* An edge that was to be killed in the middle of a call has been. */
void world_edge_killed(struct world *w, uint8_t site);
/* Until all work is done and the edges are empty, the deadline, or a violation. */
void world_run(struct world *w);
/* Until virtual time now_ns or a violation. */
void world_run_until(struct world *w, uint64_t now_ns);
void world_end(struct world *w);
/* Gives back what is kept from world to world. */
void world_free(struct world *w);

/* True if there may be times when nothing crosses. */
bool world_cfg_is_cut(const struct world_cfg *c);
/* When that crash is over at the latest. */
uint64_t world_cfg_crash_over_ns(const struct world_cfg *c, uint32_t crash);
/* Sending rate of all paths together, bits per second. */
uint64_t world_cfg_pacers_bps(const struct world_cfg *c);
/* Host to host and back by the longest path, without queues. */
uint64_t world_cfg_rtt_ns(const struct world_cfg *c);
uint64_t world_rtt_ns(const struct world *w);
struct ip_addr world_addr(uint8_t site, uint8_t host, bool ip6);
/* Which host an address belongs to; false if none. */
bool world_host_of(const struct world *w, const struct ip_addr *a, uint8_t *site, uint8_t *host);
void world_conn_over(struct world *w);
/* A packet of the edge for a host on its LAN; takes p. */
void world_lan_send(struct world *w, uint8_t site, uint8_t host, struct pkt *p);

void world_log(struct world *w, enum pktlog_kind kind, const char *what, uint8_t site, uint8_t host,
               const struct pkt *p);
#define world_note(w, site, ...)                                                                                       \
	do {                                                                                                           \
		if ((w)->log_packets)                                                                                  \
			pktlog_note(&(w)->log, (w)->q.now_ns, (site), __VA_ARGS__);                                    \
	} while (0)

#endif
