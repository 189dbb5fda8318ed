/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_timed.c - worlds with a promise about time. Most of what an edge does wrong hosts make up for, only later:
 * who knows how soon all must be done, or what each must have got by then, sees it. Little else happens in these
 * worlds. They are small sisters of the named runs (begin.c, fair.c, incast.c), each of another size; what they promise
 * all sizes keep with much to spare, and no edge that breaks the rule. Their own stream of random numbers: other seeds
 * stay what they are.
 *
 *   first packets late   overtaken by the next ones
 *   first packets lost   and to be asked for
 *   reset early          by programs that see all completions while the edges still have most of it
 *   both ways full       edges with very little memory, and as much to carry in each direction
 *   dead responders      which leave the edges full of their bytes
 *   incast               of 64 queue pairs into one port
 *   more than the line   carries is what hosts have, and edges have little room for it
 *   marked               datagrams, by a queue that others fill */
#include "scenario_timed.h"

#include "rng.h"

#define MSEC 1000000ull
#define MBIT 1000000ull

/* What all of them begin with. */
static struct world_cfg *plain(struct scenario *s, struct rng *r, uint64_t bps_min, uint64_t bps_max, uint64_t ns_max)
{
	uint64_t seed = s->cfg.seed;
	struct world_cfg *c = &s->cfg;
	struct conn_cfg *k = &s->conn[0];

	scenario_plain(s, rng_log_range(r, bps_min, bps_max), rng_log_range(r, 100000, ns_max),
	               (uint16_t)(1024u << rng_below(r, 3)));
	c->seed = seed;
	c->audit = true;
	c->chunk_size = 64u << 10 << rng_below(r, 2);
	c->max_flows = 256;
	k->ip6 = rng_chance(r, 0.25);
	k->vlan_tci = rng_chance(r, 0.2) ? (uint16_t)rng_range(r, 2, 4000) : 0;
	k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
	k->psn_start[1] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
	return c;
}

static uint64_t bytes_in(uint64_t bps, uint64_t ns)
{
	return (uint64_t)((double)bps / 8e9 * (double)ns);
}

static struct msg_plan plan(enum msg_op op, uint32_t len, uint64_t nmsgs)
{
	struct msg_plan p = {.len_min = len, .len_max = len, .nmsgs = nmsgs};

	p.weight[op] = 1;
	return p;
}

static void hosts(struct world_cfg *c, uint32_t n, const struct host_model *model)
{
	for (int site = 0; site < 2; site++) {
		c->nhosts[site] = n;
		for (uint32_t h = 0; h < n; h++)
			c->model[site][h] = model;
	}
}

static enum ack_mode any_mode(struct rng *r)
{
	return rng_chance(r, 0.5) ? ACK_MODE_NEAR : rng_chance(r, 0.5) ? ACK_MODE_FAR : ACK_MODE_HOST;
}

/* One queue pair between each two hosts. Three round trips to pair, to ask for what is lost and to answer, and long
 * before rxe, which sends here, repeats anything: after 72 ms. */
static struct world_cfg *beginnings(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = plain(s, r, 1000 * MBIT, 100000 * MBIT, 5 * MSEC);

	c->mode = any_mode(r);
	hosts(c, (uint32_t)rng_range(r, 1, 3), &host_model_rxe);
	c->nconns = c->nhosts[0];
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		*k = s->conn[0];
		k->host[0] = k->host[1] = (uint8_t)i;
		k->plan[0] = plan(rng_chance(r, 0.5) ? OP_WRITE : OP_SEND, (uint32_t)rng_range(r, 1, 1000),
		                  rng_range(r, 2, 100));
		k->rounds = (uint32_t)rng_range(r, 1, 2);
		k->within_ns = 3 * world_cfg_rtt_ns(c) + 20 * MSEC;
		k->open_ns = rng_range(r, 0, 10) * MSEC;
	}
	return c;
}

static void first_late(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = beginnings(s, r);

	for (uint32_t i = 0; i < c->nconns; i++)
		s->conn[i].first_late = true;
}

static void first_lost(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = beginnings(s, r);

	for (uint32_t i = 0; i < c->nconns; i++)
		s->conn[i].first_lost = true;
}

/* A life takes its responder longer than rxe needs to insist. Were the next one's packets not to wait, they would pass
 * for repetitions of it. */
static void reset_early(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = plain(s, r, 1000 * MBIT, 100000 * MBIT, 5 * MSEC);
	struct conn_cfg *k = &s->conn[0];

	c->mode = rng_chance(r, 0.7) ? ACK_MODE_NEAR : ACK_MODE_FAR;
	hosts(c, 1, &host_model_rxe);
	k->psn_start[0] = 0;
	k->plan[0] = plan(OP_SEND, (uint32_t)rng_range(r, 1, k->pmtu), rng_range(r, 30, 100));
	k->lives = (uint32_t)rng_range(r, 2, 3);
	k->receive_every_ns = rng_range(r, 3, 5) * MSEC;
	k->receives = 1;
	k->rnr_timer = (uint8_t)rng_range(r, 1, 12);
	k->within_ns = k->lives * k->plan[0].nmsgs * k->receive_every_ns * 2 + 1000 * MSEC;
}

/* Each may have as much as is kept for one flow, and so many have it that those of one direction would take every
 * chunk: then nothing could cross, either way. */
static void both_full(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = plain(s, r, 1000 * MBIT, 10000 * MBIT, 3 * MSEC);

	c->arena_chunks = (uint32_t)rng_range(r, 4, 7);
	c->nconns = 24;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		*k = s->conn[0];
		k->psn_start[i % 2] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		k->plan[!(i % 2)].nmsgs = 0;
		k->plan[i % 2] = plan(OP_WRITE, 32768, 8);
		k->depth[0] = k->depth[1] = 8;
		k->within_ns = 2000 * MSEC; /* all together have work for 25 ms at most */
	}
}

/* Of one host at each site. The others, old ones and new ones that open afterwards, between those hosts and between
 * others, have the line to themselves soon, and work for 200 ms. The arena holds twice what is kept for each flow: with
 * less, who is new would find nothing. */
static void dead_responders(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = plain(s, r, 2000 * MBIT, 4000 * MBIT, 2 * MSEC);
	uint32_t dying = (uint32_t)rng_range(r, 12, 16);

	hosts(c, 2, &host_model_cx);
	c->nconns = 2 * (8 + dying);
	c->arena_chunks = 2 * c->nconns * 65536 / c->chunk_size;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];
		bool dies = i >= 16;

		*k = s->conn[0];
		k->host[0] = k->host[1] = !dies && i % 4 < 2;
		k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		k->plan[0].nmsgs = k->plan[1].nmsgs = 0;
		k->plan[i % 2] = plan(OP_WRITE, 65536, dies ? 1000 : bytes_in(c->wan.rate_bps, 100 * MSEC) / 8 / 65536);
		k->dies_ns = dies ? 30 * MSEC : 0;
		k->open_ns = !dies && i >= 8 ? 60 * MSEC : 0;
		k->within_ns = dies ? 0 : 500 * MSEC + 10 * world_cfg_rtt_ns(c);
	}
}

/* As incast.c draws it, but for lower rates. Each has work for longer than is measured. */
static void incast(struct scenario *s, struct rng *r)
{
	uint64_t port_bps = rng_range(r, 10, 20) * 1000 * MBIT, queue_bytes = rng_range(r, 64, 300) << 10;
	struct world_cfg *c = plain(s, r, 2 * port_bps, 2 * port_bps, MSEC / 2);

	c->chunk_size = 512 << 10;
	c->nhosts[0] = 8;
	for (uint32_t h = 0; h < c->nhosts[0]; h++)
		c->model[0][h] = &host_model_cx;
	scenario_shallow_ports(c, port_bps, queue_bytes);
	c->lan_clean = false; /* before the windows have settled */
	c->nconns = 64;
	c->crowd = (struct crowd_cfg){.from_ns = 30 * MSEC,
	                              .to_ns = 50 * MSEC,
	                              .drops_most = 4,
	                              .jain_percent = 92,
	                              .unpaired_most = c->nconns / c->nhosts[0]};
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		*k = s->conn[0];
		k->host[0] = (uint8_t)(i % c->nhosts[0]);
		k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		k->plan[0] = plan(OP_WRITE, 65536, 1 + bytes_in(port_bps, 60 * MSEC) / c->nconns / 65536);
		k->pmtu = 4096;
		k->tos = 26 << 2 | 2; /* ECT(0) */
		k->depth[0] = 16;
		k->open_ns = i * 100000; /* else each sends all it may into nothing before anybody is paired */
	}
}

/* So an edge must send hosts away, but not before it has asked them to send more slowly. */
static void more_than_the_line(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = plain(s, r, 1000 * MBIT, 4000 * MBIT, 2 * MSEC);

	c->warned = true;
	c->lan.rate_bps = rng_range(r, 4, 16) * c->wan.rate_bps;
	hosts(c, 2, &host_model_cx);
	c->nconns = (uint32_t)rng_range(r, 1, 8);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		*k = s->conn[0];
		k->host[0] = (uint8_t)rng_below(r, 2);
		k->host[1] = (uint8_t)rng_below(r, 2);
		k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		k->plan[0] = plan(OP_WRITE, 65536, 300 / c->nconns);
	}
}

/* A line that is ours alone up to a router with a queue of others': much is marked, whatever we send. No probe brings
 * more, so a controller that obeys marks gives a fifth after each, and probes for two or three of at least
 * twenty rounds: in 342 worlds it uses 0.58 to 0.845 of the line. One that does not obey uses 0.86 to 0.97. Startup's
 * overshoot is over after 400 ms. */
static void marked(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = plain(s, r, 200 * MBIT, 1000 * MBIT, MSEC);

	c->control = RATE_auto;
	c->wan.delay_ns = rng_range(r, 1000, 3000) * 1000;
	c->wan.queue_bytes = 4 * bytes_in(c->wan.rate_bps, world_cfg_rtt_ns(c)) + 100000;
	c->wan.mark = 0.3;
	c->pacer_bps = 4 * c->wan.rate_bps;
	c->lan.rate_bps = 8 * c->wan.rate_bps;
	c->crowd = (struct crowd_cfg){.from_ns = 400 * MSEC, .to_ns = 1000 * MSEC, .line_percent = 85};
	c->nconns = 4;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		*k = s->conn[0];
		k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		k->plan[0] = plan(OP_WRITE, 65536, 1 + bytes_in(c->wan.rate_bps, 1000 * MSEC) / c->nconns / 65536);
	}
}

static const struct {
	const char *name;
	void (*make)(struct scenario *s, struct rng *r);
} kinds[] = {
    {", first packets late", first_late},
    {", first packets lost", first_lost},
    {", reset early", reset_early},
    {", both ways full", both_full},
    {", dead responders", dead_responders},
    {", incast", incast},
    {", more than the line", more_than_the_line},
    {", marked", marked},
};

#define KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define ONE_IN 60 /* worlds of each kind */

const char *scenario_timed(struct scenario *s)
{
	uint64_t kind;
	struct rng r;

	rng_init(&r, rng_hash(s->cfg.seed, 0x713ed));
	kind = rng_below(&r, ONE_IN);
	if (kind >= KINDS || s->cfg.direct)
		return "";
	kinds[kind].make(s, &r);
	return kinds[kind].name;
}
