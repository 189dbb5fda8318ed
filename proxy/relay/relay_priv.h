/* SPDX-License-Identifier: Apache-2.0 */
/* relay_priv.h - a relay channel's two streams, shared by the files of this folder. */
#ifndef PROXY_RELAY_PRIV_H
#define PROXY_RELAY_PRIV_H

#include "relay.h"
#include "relay_frame.h"

#include "proxy/wan/slot.h"
#include "proxy/shard/flow_frame.h"
#include "proxy/wan/wan_lane.h"

/* The stream to the peer. Positions: freed <= done <= sent <= next. */
struct relay_out {
	uint32_t life;       /* 0: none yet */
	uint64_t peer_epoch; /* epoch of the peer's arena in that life */
	uint64_t next;       /* the next chunk taken */
	uint64_t sent;       /* the next chunk to be sent in this session */
	uint64_t done;       /* every chunk before is executed at the peer, or given up */
	uint64_t received;   /* every chunk before is in the peer's arena, or done */
	uint64_t limit;      /* positions before may be sent in this session */
	uint64_t freed;      /* the slot of every chunk before is free, or the daemon holds it */
	uint64_t fill;       /* after a rebuild: positions from here (>= done) to next are still to be searched for holes */
	bool rebuilt;        /* holes are not filled yet: nothing is taken or sent */
	bool fill_waits;     /* a hole found no slot for its void chunk: tried again by the lane's timer */
	bool credited;       /* the peer has granted credit in this session */
	uint64_t held_bytes; /* slot bytes */
	struct dnode wan_node;  /* in lane.ready[SOURCE_RELAY] */
	uint8_t counts_as;      /* flows that it counts as in lane.nwaiting while it is there, by Weight= */
	struct dnode open_node; /* in relay_lane.opens */
};

/* The stream from the peer. */
struct relay_in {
	uint32_t life;
	uint64_t done;       /* every chunk before is executed */
	uint64_t stored;     /* `done` as the descriptor has it */
	uint64_t have;       /* every chunk before has come or is done */
	uint64_t ahead;      /* chunks from `have` on that have come or are done */
	uint64_t limit;      /* granted */
	uint64_t told_done, told_limit;
	uint64_t *bits;      /* relay_window bits, by position: done out of order */
	uint64_t held_bytes;
	bool advancing;           /* not all bits from `done` on were looked at yet */
	uint64_t credit_ns;       /* when credit is due */
	struct dnode credit_node; /* in relay_lane.credits */
	struct dnode ready_node;  /* in relay.ready */
	struct dnode partial;     /* slots that lack pieces */
	struct dnode ready;       /* whole chunks that may be handed over */
	struct dnode fences;      /* whole chunks that may not be handed over yet */
	struct dnode handed;      /* chunks that the daemon holds */
};

struct relay_channel {
	uint32_t idx;
	struct relay_out out;
	struct relay_in in;
	struct dnode work_node; /* in relay.work */
};

struct relay_lane {
	struct dnode opens;   /* channels whose RELAY_OPEN is due */
	struct dnode credits; /* by credit_ns, as near as the coalescing allows */
	int64_t allowance;    /* bytes that channels may send while flows wait as well */
};

struct relay {
	uint32_t nchannels; /* channels of the link; those of other shards are not used */
	struct relay_channel *channel;
	struct relay_lane *lane; /* nlanes */
	struct dnode ready;      /* channels with chunks to hand over */
	struct dnode work;       /* channels with something left to do */
	uint64_t held_bytes[POOL_COUNT];
};

static inline struct lane *relay_lane_of(struct proxy *p, const struct relay_channel *c)
{
	return lane_of(p, (uint16_t)(c->idx % p->cfg.nlanes));
}

static inline struct relay_lane *relay_frames_of(struct proxy *p, const struct relay_channel *c)
{
	return &p->relay->lane[c->idx % p->cfg.nlanes];
}

/* The channel. NULL: it is not one of this shard. */
static inline struct relay_channel *relay_channel_at(const struct proxy *p, uint32_t idx)
{
	if (!p->relay || idx >= p->relay->nchannels || !proxy_owns_lane(p, idx % p->cfg.nlanes))
		return NULL;
	return &p->relay->channel[idx];
}

/* Slot bytes of the pool that chunks may hold: their part of the pool, or half of the bytes that nobody else holds. A
 * cumulative `done` waits for the last repair, and the chunks that come behind it in two or three round trips are
 * many. */
static inline uint64_t relay_budget(const struct proxy *p, enum arena_pool pool)
{
	return max_u64(arena_capacity(p->arena, pool) / 100 * p->cfg.relay_percent,
	               (p->relay->held_bytes[pool] + pool_free(p, pool)) / 2);
}

static inline void relay_work_later(struct proxy *p, struct relay_channel *c)
{
	dlist_append_once(&p->relay->work, &c->work_node);
}

/* relay_out.c */
void relay_out_rebuild(struct proxy *p, struct relay_channel *c);
void relay_out_adopt(struct relay_channel *c, const struct slot_hdr *h);
/* Every chunk that the peer has not executed goes again, or is given up with its life. */
void relay_out_session_start(struct proxy *p, struct relay_channel *c);
void relay_out_credit(struct proxy *p, struct relay_channel *c, const struct wan_relay_credit *f);
void relay_out_schedule(struct proxy *p, struct relay_channel *c);
/* While flows wait as well, channels may send only their part of each datagram: adds this part, for a datagram with
 * that room, to the lane's allowance. False: the allowance is used up. */
bool relay_out_allowed(const struct proxy *p, const struct lane *l, struct relay_lane *rl, size_t room);
void relay_out_put_new(struct proxy *p, struct lane *l, struct wan_build *b);
void relay_out_on_timer(struct proxy *p, struct relay_channel *c);
/* Frees slots and fills holes as far as this call's work budget allows. True if nothing is left to do. */
bool relay_out_work(struct proxy *p, struct relay_channel *c);

/* relay_in.c */
void relay_in_rebuild(struct proxy *p, struct relay_channel *c);
void relay_in_adopt(struct proxy *p, struct relay_channel *c, uint32_t slot);
void relay_in_open(struct proxy *p, struct relay_channel *c, const struct wan_relay_open *f);
void relay_in_credit_frame(struct proxy *p, struct relay_channel *c, struct wan_relay_credit *f);
/* Schedules RELAY_CREDIT, at once or coalesced. */
void relay_in_tell(struct proxy *p, struct relay_channel *c, bool at_once);
bool relay_in_packet(struct proxy *p, struct lane *l, const struct wan_packet *w);
bool relay_in_work(struct proxy *p, struct relay_channel *c);
/* Counts relay_in.ahead anew. Slow. */
uint64_t relay_in_count_ahead(struct proxy *p, const struct relay_channel *c);

#endif
