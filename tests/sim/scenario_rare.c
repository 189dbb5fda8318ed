/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_rare.c - coincidences that a rule of the core stands against and that chance alone brings about in one seed of
 * thousands. Its own stream of random numbers: other seeds stay what they are.
 *
 *   arena lost       mode far, slow responders, a near edge that comes back without its memory
 *   outage           mode far, a far edge that is away for longer than StallAfter, and then a near edge without its memory
 *   words after it   the same with hosts that are always ready but far away, and others that go on: nothing is waived
 *   CM again         connection after connection, whose CM messages come again while it lives, and after that
 *   late receives    one every second or so, as if a word were needed for each
 *   slow and many    responders that take a message now and then, more of them than the far edge has room for
 *   answers lost     an edge goes down with all that lay in its transmit ring: answers that it has counted as given
 *   cut in a READ    rxe, which takes no RNR NAK there
 *   late answers     of responders that a host cannot tell apart: same hosts, same PSNs
 *   besieged         an attack that begins before any pair is known
 *   restart in turns the same answers, and the far edge restarts meanwhile: whose they are it does not know any more
 *   lost beginnings  queue pairs that begin again, and the first packet of each life is lost
 *   cut, restart     the far edge restarts when the near one has much to send again
 *   old hands        QPNs that go from hand to hand, at both ends
 *   no place         more queue pairs than the tables of flows have places for
 *   rebuilt, no room slow and many, and FEC brings back what there is no room for */
#include "scenario_rare.h"

#include <string.h>

#include "rng.h"

#define MSEC 1000000ull

/* A world without other troubles; its hosts, addresses, PSNs, lanes and sizes stay as they were drawn. */
static void quiet(struct world_cfg *c)
{
	uint64_t rate = c->wan.rate_bps, delay_ns = c->wan.delay_ns;
	uint32_t overhead = c->wan.overhead_bytes;

	c->wan = (struct link_cfg){.rate_bps = rate, .delay_ns = delay_ns, .overhead_bytes = overhead};
	c->lan.loss = c->lan.corrupt = c->lan.reorder = c->lan.duplicate = 0;
	c->lan_clean = true;
	c->ncrashes = 0;
	c->arena_chunks = c->nmore = 0;
	c->paths_survive = false;
	c->host_dies_ns = SIM_NEVER;
	c->edges_from_ns = 0;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		k->confuse = 0;
		k->answer_late_ns = k->post_every_ns = 0;
		k->receive_every_ns = 0;
		k->rnr_retry = 7;
		k->reuse = false;
	}
}

static void all_hosts(struct world_cfg *c, const struct host_model *model)
{
	for (int site = 0; site < 2; site++)
		for (uint32_t h = 0; h < c->nhosts[site]; h++)
			c->model[site][h] = model;
}

/* One direction, one kind of message. */
static void only(struct conn_cfg *k, int side, enum msg_op op, uint32_t len, uint64_t nmsgs)
{
	struct msg_plan *plan = &k->plan[side];

	memset(k->plan, 0, sizeof(k->plan));
	plan->weight[op] = 1;
	plan->len_min = plan->len_max = len;
	plan->nmsgs = nmsgs;
}

static void arena_lost(struct world_cfg *c, struct rng *r)
{
	int side = (int)rng_below(r, 2);

	c->mode = ACK_MODE_FAR;
	for (uint32_t i = 0; i < c->nconns; i++) {
		only(&c->conn[i], side, OP_SEND, (uint32_t)rng_range(r, 1, 2000), 500);
		c->conn[i].receive_every_ns = rng_range(r, 1, 3) * MSEC; /* all of it within BarrierMax */
		c->conn[i].receives = 2;
		c->conn[i].depth[side] = 64;
		c->conn[i].open_ns = 0;
	}
	c->ncrashes = 1;
	c->crash[0].at_ns = 8 * c->wan.delay_ns + rng_range(r, 30, 60) * MSEC;
	c->crash[0].down_ns = rng_log_range(r, 10000, 20 * MSEC);
	c->crash[0].sites = (uint8_t)(1 << side);
	c->crash[0].lost = true;
}

/* The far edge has much that its hosts take slowly, as it waits long for their answers. Of the queue pairs half send all
 * they have at once, the others one message now and then, before and after: what these say, and what disconnects, comes
 * from a life of the near edge that knows nothing of the first. */
static void words_after_loss(struct world_cfg *c, struct rng *r)
{
	int side = (int)rng_below(r, 2);

	c->mode = ACK_MODE_FAR;
	c->lan.delay_ns = rng_range(r, 300000, 1000000);
	c->lan_window_bytes = 16384;
	c->nconns = (uint32_t)rng_range(r, 4, 8);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];
		bool all_at_once = i % 2 == 0;

		*k = c->conn[0];
		k->cm = rng_chance(r, 0.5);
		k->psn_start[side] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		only(k, side, OP_WRITE, all_at_once ? (uint32_t)rng_range(r, 1000, 2000) : 50, all_at_once ? 500 : 60);
		k->post_every_ns = all_at_once ? 0 : rng_range(r, 1, 4) * MSEC;
		k->depth[side] = 128;
		k->rounds = 1;
		k->open_ns = 0;
	}
	c->ncrashes = 1;
	c->crash[0].at_ns = 8 * c->wan.delay_ns + rng_range(r, 5, 40) * MSEC;
	c->crash[0].down_ns = rng_log_range(r, 10000, 5 * MSEC);
	c->crash[0].sites = (uint8_t)(1 << side);
	c->crash[0].lost = true;
}

static void cm_again(struct world_cfg *c, struct rng *r)
{
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		k->cm = true;
		k->ud = false;
		k->rounds = 3;
		k->cm_echo_ns = rng_log_range(r, 200000, 20 * MSEC);
	}
}

static void late_receives(struct world_cfg *c, struct rng *r)
{
	c->mode = ACK_MODE_NEAR;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		only(k, 0, OP_SEND, (uint32_t)rng_range(r, 1, 3u * k->pmtu), 12);
		k->cm = k->ud = false; /* a DREQ waits for BarrierMax */
		k->receive_every_ns = rng_range(r, 1100, 1500) * MSEC;
		k->receives = 1;
		k->depth[0] = 4;
		k->rounds = 1;
		k->open_ns = 0;
		k->pause_ns += 2000 * MSEC;
	}
}

static void slow_and_many(struct world_cfg *c, struct rng *r)
{
	c->mode = ACK_MODE_NEAR;
	c->wan.loss = 0.01;
	c->arena_chunks = (uint32_t)rng_range(r, 8, 16);
	c->nconns = 12;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		*k = c->conn[0];
		k->cm = k->ud = false;
		only(k, 0, OP_SEND, (uint32_t)rng_range(r, 4, 30) * k->pmtu, 60);
		k->receive_every_ns = rng_range(r, 2, 8) * MSEC;
		k->receives = 1;
		k->depth[0] = 60;
		k->rounds = 1;
		k->open_ns = i * 100000;
		k->pause_ns += 2000 * MSEC;
	}
}

static void outage_in_mode_far(struct world_cfg *c, struct rng *r)
{
	uint64_t rtt_ns = 2 * c->wan.delay_ns;

	slow_and_many(c, r);
	c->mode = ACK_MODE_FAR;
	all_hosts(c, &host_model_rxe); /* others give up before the edge is back */
	c->ncrashes = 2;
	c->crash[0].at_ns = 4 * rtt_ns + rng_range(r, 5, 60) * MSEC;
	c->crash[0].down_ns = 2 * rtt_ns + rng_range(r, 500, 900) * MSEC;
	c->crash[0].sites = 2;
	c->crash[0].lost = false;
	c->crash[1].at_ns = c->crash[0].at_ns + c->crash[0].down_ns + 4 * rtt_ns + rng_range(r, 5, 200) * MSEC;
	c->crash[1].down_ns = rng_log_range(r, 10000, 20 * MSEC);
	c->crash[1].sites = 1;
	c->crash[1].lost = true;
}

static void rebuilt_for_nothing(struct world_cfg *c, struct rng *r)
{
	slow_and_many(c, r);
	c->wan.loss = 0.08;
	c->arena_chunks = 12;
	c->fec = (struct fec_config){.mode = FEC_FIXED, .k = (uint8_t)rng_range(r, 4, 12), .m = 2};
}

static void answers_lost(struct world_cfg *c, struct rng *r)
{
	static const enum msg_op op[] = {OP_READ, OP_FETCH_ADD, OP_CMP_SWAP};
	uint64_t at_ns = 8 * c->wan.delay_ns + rng_range(r, 1, 5) * MSEC;

	c->mode = rng_chance(r, 0.5) ? ACK_MODE_NEAR : ACK_MODE_FAR;
	c->lan.delay_ns = 20000;
	c->lan_clean = false; /* what lay in the ring is lost on a LAN */
	for (uint32_t i = 0; i < c->nconns; i++) {
		only(&c->conn[i], 0, op[rng_below(r, 3)], 64, 3000);
		c->conn[i].depth[0] = 64;
		c->conn[i].max_rd = 16;
		c->conn[i].open_ns = 0;
		c->conn[i].pause_ns += 2000 * MSEC;
	}
	for (c->ncrashes = 0; c->ncrashes < 3; c->ncrashes++) {
		c->crash[c->ncrashes].at_ns = at_ns;
		c->crash[c->ncrashes].down_ns = rng_log_range(r, 10000, MSEC);
		c->crash[c->ncrashes].sites = 1;
		c->crash[c->ncrashes].lost = false;
		c->crash[c->ncrashes].ring_lost = true;
		at_ns += c->crash[c->ncrashes].down_ns + 8 * c->wan.delay_ns + rng_range(r, 5, 10) * MSEC;
	}
}

static void cut_in_a_read(struct world_cfg *c, struct rng *r)
{
	c->mode = ACK_MODE_NEAR;
	all_hosts(c, &host_model_rxe);
	c->wan.rate_bps = c->pacer_bps = 1000000000;
	for (uint32_t i = 0; i < c->nconns; i++) {
		only(&c->conn[i], 0, OP_READ, 100u * c->conn[i].pmtu, 20);
		c->conn[i].depth[0] = c->conn[i].max_rd = 4;
		c->conn[i].open_ns = 0;
		c->conn[i].pause_ns += 2000 * MSEC;
	}
	c->wan.ncuts = 1;
	c->wan.cut[0].from_ns = 8 * c->wan.delay_ns + 2 * c->cm_retry_ns + rng_range(r, 200, 2000) * 1000;
	c->wan.cut[0].to_ns = c->wan.cut[0].from_ns + 1000 * MSEC;
}

static void late_answers(struct world_cfg *c, struct rng *r)
{
	c->nconns = (uint32_t)rng_range(r, 3, 4);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		*k = c->conn[0];
		k->cm = k->ud = false;
		k->psn_start[0] = k->psn_start[1] = 0;
		k->rounds = 1;
		k->open_ns = i * 1000;
		only(k, 0, OP_WRITE, 100, 100);
		k->answer_late_ns = rng_range(r, 21, 39) * MSEC; /* after its turn, in that of the next one */
		k->pause_ns += LOST_ACK_NS;
	}
}

/* The far edge goes down when an answer to the first of them is late, or to the second, and begins with the first. */
static void restart_in_turns(struct world_cfg *c, struct rng *r)
{
	late_answers(c, r);
	c->ncrashes = 1;
	c->crash[0].at_ns = c->wan.delay_ns + rng_range(r, 2, 150) * MSEC;
	c->crash[0].down_ns = rng_log_range(r, 10000, MSEC);
	c->crash[0].sites = 2;
	c->crash[0].lost = c->crash[0].ring_lost = false;
}

static void lost_beginnings(struct world_cfg *c, struct rng *r)
{
	c->mode = rng_chance(r, 0.7) ? ACK_MODE_NEAR : ACK_MODE_FAR;
	c->lan_clean = false;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		k->cm = k->ud = false;
		k->reuse = k->first_lost = true;
		k->psn_start[0] = k->psn_start[1] = 0;
		only(k, 0, rng_chance(r, 0.5) ? OP_WRITE : OP_SEND, (uint32_t)rng_range(r, 3, 12) * k->pmtu, 20);
		k->rounds = 3;
		k->pause_ns += LOST_ACK_NS;
	}
}

/* What was lost while nothing crossed is known to be lost and not sent again yet when the other edge restarts. */
static void cut_and_restart(struct world_cfg *c, struct rng *r)
{
	uint64_t rtt_ns = world_cfg_rtt_ns(c), from_ns = 4 * rtt_ns + rng_range(r, 1, 5) * MSEC;

	c->mode = ACK_MODE_NEAR;
	c->wan.loss = 0.05;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		k->cm = k->ud = false;
		only(k, 0, OP_WRITE, 20u * k->pmtu, 12000 / 20 / c->nconns);
		k->depth[0] = 64;
		k->rounds = 1;
		k->open_ns = 0;
		k->pause_ns += LOST_ACK_NS;
	}
	c->wan.ncuts = 1;
	c->wan.cut[0].from_ns = from_ns;
	c->wan.cut[0].to_ns = from_ns + 3 * rtt_ns;
	c->ncrashes = 1;
	c->crash[0].at_ns = c->wan.cut[0].to_ns + rng_range(r, 100, 500) * rtt_ns / 100;
	c->crash[0].down_ns = 10000;
	c->crash[0].sites = 2;
	c->crash[0].lost = c->crash[0].ring_lost = false;
}

static void old_hands(struct world_cfg *c, struct rng *r)
{
	c->recycle = true;
	c->nconns = (uint32_t)rng_range(r, 6, 12);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		*k = c->conn[0];
		k->host[0] = (uint8_t)rng_below(r, c->nhosts[0]);
		k->host[1] = (uint8_t)rng_below(r, c->nhosts[1]);
		k->cm = k->ud = false;
		k->psn_start[0] = (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		only(k, 0, OP_WRITE, (uint32_t)rng_range(r, 1, 6) * k->pmtu, rng_range(r, 3, 40));
		k->plan[0].weight[OP_READ] = (uint8_t)rng_below(r, 3);
		k->rounds = 4;
		k->open_ns = rng_range(r, 0, 20) * MSEC;
		k->pause_ns = c->conn[0].pause_ns;
	}
}

static void besieged(struct world_cfg *c, struct rng *r)
{
	all_hosts(c, &host_model_cx);
	for (int site = 0; site < 2; site++)
		c->model[site][c->nhosts[site]++] = &host_model_rxe;
	c->attack_ns = 1;
	c->attack_pps = rng_log_range(r, 20000, 50000);
	c->attack_pkts = (uint32_t)c->attack_pps * 6 / 10; /* for longer than ConnectX repeats */
	for (uint32_t i = 0; i < c->nconns; i++) {
		c->conn[i].cm = false;
		c->conn[i].open_ns = rng_range(r, 50, 100) * MSEC;
	}
}

static void no_place(struct world_cfg *c, struct rng *r)
{
	c->no_place = true;
	c->lan_clean = false; /* answers to a flow that is given up for going end to end are lost to their requester */
	c->nshards[0] = c->nshards[1] = 1; /* as many near flows as the other edge has places for them */
	c->max_flows = 16;
	all_hosts(c, &host_model_rxe); /* ConnectX asks again long before an answer can have come from so far */
	c->nconns = (uint32_t)rng_range(r, 24, 64);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		*k = c->conn[0];
		k->host[0] = (uint8_t)rng_below(r, c->nhosts[0]);
		k->host[1] = (uint8_t)rng_below(r, c->nhosts[1]);
		k->cm = rng_chance(r, 0.2);
		k->ud = false;
		k->psn_start[0] = k->psn_start[1] = rng_chance(r, 0.7) ? 0 : (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
		for (int side = 0; side < 2; side++) {
			struct msg_plan *plan = &k->plan[side];

			*plan = (struct msg_plan){.len_min = 1, .len_max = 8u * k->pmtu, .nmsgs = rng_range(r, 5, 60)};
			for (int op = 0; op < OP_COUNT; op++)
				plan->weight[op] = (uint8_t)rng_below(r, 3);
			plan->weight[OP_WRITE]++;
		}
		k->rounds = (uint32_t)rng_range(r, 1, 2);
		k->open_ns = rng_log_range(r, 1000, 100 * MSEC);
		k->pause_ns = 2000 * MSEC; /* longer than a pair of hosts is kept from learning */
	}
	if (rng_chance(r, 0.5)) {
		c->wan.loss = 0.01;
		c->wan.reorder = 0.01;
	}
}

static const struct {
	const char *name;
	void (*make)(struct world_cfg *c, struct rng *r);
} kinds[] = {
    {", arena lost", arena_lost},     {", answers lost", answers_lost}, {", cut in a READ", cut_in_a_read},
    {", late answers", late_answers}, {", besieged", besieged},
    {", words after an arena is lost", words_after_loss},
    {", CM again", cm_again},
    {", late receives", late_receives},
    {", slow and many", slow_and_many},
    {", restart in turns", restart_in_turns},
    {", lost beginnings", lost_beginnings},
    {", cut, restart", cut_and_restart},
    {", old hands", old_hands},
    {", rebuilt for nothing", rebuilt_for_nothing},
    {", no place", no_place},
    {", outage in mode far", outage_in_mode_far},
};

#define KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define ONE_IN 45 /* worlds of each kind, of those that may be changed */

const char *scenario_rare(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	uint64_t kind;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x4a4e));
	kind = rng_below(&r, ONE_IN);
	if (kind >= KINDS || c->direct || c->attack_pkts)
		return "";
	quiet(c);
	kinds[kind].make(c, &r);
	return kinds[kind].name;
}
