/* SPDX-License-Identifier: Apache-2.0 */
/* edge.h - drives the real core, as the daemon does, in virtual time. */
#ifndef SIM_EDGE_H
#define SIM_EDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "eventq.h"
#include "late_port.h"
#include "pkt.h"
#include "daemon/lan/lan_wait.h"
#include "proxy/proxy.h"

struct world;
struct edge;

#define EDGE_SHARDS_MAX 4
#define SIM_PATHS_MAX   4

struct edge_shard {
	struct edge *edge;
	struct proxy *p;
	struct proxy_config cfg;
	struct arena_geometry geometry;
	void *heap, *region, *region_map; /* kept from world to world; region lies aligned in region_map */
	size_t heap_cap, heap_len, region_cap;
	struct evtimer wake;
	uint64_t tick_ns; /* no proxy_tick() before */
	struct late_port port; /* if the edge's LAN ports are late ones */
	struct lan_wait waiting; /* packets for hosts whose MAC address is being asked for */
	uint64_t woken_ns; /* virtual time of the last run, and how often in a row it stood still */
	uint32_t spins;
};

struct edge {
	struct world *w;
	uint8_t site;
	uint32_t nshards;
	struct edge_shard shard[EDGE_SHARDS_MAX];
	struct wan_pacer pacer[SIM_PATHS_MAX];
	bool down;
	bool paused; /* its machine stands still: what comes overflows its rings */
	bool killed_within;   /* it was once killed in the middle of a call */
	uint64_t kill_after;  /* steps of the core from now on, then it is killed in the middle of a call; or ... */
	uint32_t kill_stores; /* ... at that store into its arena. Both 0: it is not */
	uint64_t up_ns; /* since when it runs */
	uint32_t restarts;
	uint32_t arena_lives; /* how often its arenas were made anew: its arena epoch, as the hello tells it */
	uint64_t waived;      /* by lives before this one: see edge_waived() */
	uint64_t events[EV_COUNT];
};

void edge_start(struct edge *e, struct world *w, uint8_t site);
/* Lets a shard do what is to be done. */
void edge_shard_run(struct edge_shard *s);
/* Packets in; both take p. */
void edge_lan_rx(struct edge *e, uint8_t host, struct pkt *p);
void edge_wan_rx(struct edge *e, struct pkt *p);
/* A packet goes to the wire. */
void edge_emit_lan(struct edge *e, const struct lan_tx *tx);
/* A session between the two edges, told to both. */
void edge_session(struct edge *e, uint32_t epoch_tx, uint32_t epoch_rx);
/* The machine stands still, and goes on. */
void edge_pause(struct edge *e);
void edge_resume(struct edge *e);
/* Power off: the heap is lost, the region stays. */
void edge_crash(struct edge *e);
/* The core does so many steps more, or stores; then, within a call, world_edge_killed() is told. */
void edge_kill_after(struct edge *e, uint64_t steps, uint32_t stores);
void edge_restart(struct edge *e, enum proxy_start start);
/* Gives the memory back. */
void edge_free(struct edge *e);

struct edge_shard *edge_shard_of(struct edge *e, const struct ip_addr *a, const struct ip_addr *b);
uint64_t edge_counter(const struct edge *e, enum proxy_counter c);
uint64_t edge_drops(const struct edge *e, enum proxy_drop d);
/* By which a bundle of lines chooses: from the lane's source port after so many moves. */
uint8_t edge_member(uint16_t lane, uint8_t moves);
/* Packets that the barrier let go early. */
uint64_t edge_waived(const struct edge *e);
/* Slot bytes in use. */
uint64_t edge_used(const struct edge *e);
/* Returns true if its arenas hold any slot. */
bool edge_holds(const struct edge *e);

#endif
