/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_failed.c - queue pairs that failed are recovered, and QPNs of failed ones are given to others: at once or
 * later, and also while the edges still hold bytes of the life before. A few families of connections, each one heir to
 * the other; families share nothing but the hosts. Its own stream of random numbers: other seeds stay what they are.
 *
 *   failed and recovered  a responder refuses; both ends recover the same queue pairs (error, reset, ready), with the
 *                         same PSNs and the same words or with others
 *   QPN reused            a responder refuses or falls silent; the requester's QPN goes to a new queue pair, which
 *                         talks to another one of the same responder host. Or the responder's QPN does
 *   bytes are owed        the same while the edges hold bytes for a responder that is gone
 *   arena is lost         the near edge's, and the far edge brings what the responder refuses; then the queue pairs
 *                         are recovered
 *   CM lives              CM opens life after life on the same queue pairs, and nobody says that the one before is
 *                         over, which still drains; in some the line is cut meanwhile
 *
 * What the edges do not stand is drawn by `--hard failed` alone: work both ways (what is owed to the other half of a
 * refused requester goes to its heir). Nor do they stand that a responder refuses, and its near edge loses its arena, more
 * than a round trip before that edge's next life opens a flow for the queue pair: nobody can tell whether the flow is
 * older. */
#include "scenario_failed.h"

#include "rng.h"
#include "scenario_work.h"

#define USEC 1000ull
#define MSEC 1000000ull
#define SEC  1000000000ull
#define MBIT 1000000ull

/* What a new life may take beside its work: an edge that is asked again for all it has, and turns of queue pairs that
 * are not paired yet. */
#define SERVED_NS (5 * SEC)

#define REBIRTH_MIN_NS (250 * MSEC) /* as in scenario_lives.c */
#define SILENT_NS      (100 * MSEC) /* two retries in vain of the far edge */

static const uint8_t refusals[] = {AETH_NAK_REM_ACCESS, AETH_NAK_REM_ACCESS, AETH_NAK_INV_REQ, AETH_NAK_REM_OP};

static uint8_t any_refusal(struct rng *r)
{
	return refusals[rng_below(r, sizeof(refusals))];
}

static void pick_hosts(struct world_cfg *c, struct rng *r)
{
	uint64_t kind = rng_below(r, 3); /* all rxe, all cx, mixed */

	for (int site = 0; site < 2; site++) {
		c->nhosts[site] = (uint32_t)rng_range(r, 1, 2);
		for (uint32_t h = 0; h < c->nhosts[site]; h++)
			c->model[site][h] = kind == 0 || (kind == 2 && rng_chance(r, 0.5)) ? &host_model_rxe
			                                                                   : &host_model_cx;
	}
}

static void pick_world(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;
	uint64_t seed = c->seed;

	scenario_plain(s, rng_log_range(r, 1000 * MBIT, 50000 * MBIT), rng_log_range(r, 100 * USEC, 10 * MSEC),
	               (uint16_t)(256u << rng_below(r, 5)));
	c->seed = seed;
	c->audit = c->failed_reuse = true;
	c->chunk_size = 64u << 10 << rng_below(r, 2);
	c->max_flows = 128;
	c->mode = rng_chance(r, 0.6) ? ACK_MODE_NEAR : rng_chance(r, 0.5) ? ACK_MODE_HOST : ACK_MODE_FAR;
	c->nshards[0] = (uint32_t)rng_range(r, 1, 2);
	c->nshards[1] = (uint32_t)rng_range(r, 1, 2);
	c->give_up_ns = rng_log_range(r, SEC, 20 * SEC);
	if (rng_chance(r, 0.3))
		c->wan.loss = (double)rng_log_range(r, 100, 20000) / 1e6;
	if (rng_chance(r, 0.4)) {
		c->word_every = (uint32_t)rng_log_range(r, 1, 30);
		c->barrier = rng_chance(r, 0.6) ? BARRIER_PAIR : BARRIER_CAUSAL;
	}
	c->cm_retry_ns = rng_log_range(r, 50 * MSEC, SEC) + world_cfg_rtt_ns(c);
	pick_hosts(c, r);
}

static uint32_t pick_psn(struct rng *r)
{
	return rng_chance(r, 0.4) ? 0 : (uint32_t)rng_u64(r) & ROCE_PSN_MASK;
}

static void pick_plan(struct msg_plan *plan, struct rng *r, uint16_t pmtu, uint64_t nmsgs)
{
	*plan = (struct msg_plan){.nmsgs = nmsgs, .len_min = 1, .len_max = (uint32_t)rng_log_range(r, 1, 12) * pmtu};
	plan->weight[rng_chance(r, 0.5) ? OP_WRITE : OP_SEND] = 4;
	if (rng_chance(r, 0.3))
		plan->weight[OP_READ] = (uint8_t)rng_range(r, 1, 3);
	if (rng_chance(r, 0.2))
		plan->weight[OP_FETCH_ADD] = 1;
}

/* Side 0 asks; in some, side 1 does, too. */
static struct conn_cfg *first_life(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;
	struct conn_cfg *k = &s->conn[c->nconns++];

	*k = (struct conn_cfg){.pmtu = s->conn[0].pmtu,
	                       .pkey = 0xffff,
	                       .rounds = 1,
	                       .rnr_retry = 7,
	                       .rnr_timer = (uint8_t)rng_range(r, 1, 12),
	                       .pause_ns = 10 * MSEC};
	for (int side = 0; side < 2; side++) {
		k->host[side] = (uint8_t)rng_below(r, c->nhosts[side]);
		k->psn_start[side] = pick_psn(r);
		k->depth[side] = (uint32_t)rng_log_range(r, 1, 64);
	}
	k->ip6 = rng_chance(r, 0.25);
	k->max_rd = (uint32_t)rng_range(r, 1, 16);
	k->open_ns = rng_below(r, 20) * MSEC;
	pick_plan(&k->plan[0], r, k->pmtu, rng_log_range(r, 2, 100));
	if (rng_chance(r, 0.3))
		pick_plan(&k->plan[1], r, k->pmtu, rng_log_range(r, 1, 40));
	return k;
}

static bool all_of_it(void)
{
	return scenario_is_hard("failed");
}

/* What the life before would have done, or other work from other PSNs on; nothing goes wrong in it. */
static struct conn_cfg *next_life(struct scenario *s, struct rng *r, const struct conn_cfg *before, uint8_t inherits)
{
	struct world_cfg *c = &s->cfg;
	struct conn_cfg *k = &s->conn[c->nconns++];

	*k = *before;
	k->heir_of = (uint32_t)(before - s->conn) + 1;
	k->inherits = inherits;
	k->refuse_msg = 0;
	k->leaves = false;
	k->receive_every_ns = 0;
	k->inherits_words = rng_chance(r, 0.3);
	if (!k->inherits_words) {
		pick_plan(&k->plan[0], r, k->pmtu, rng_log_range(r, 1, 100));
		if (rng_chance(r, 0.5))
			k->psn_start[0] = pick_psn(r);
		if (rng_chance(r, 0.5))
			k->psn_start[1] = pick_psn(r);
	}
	return k;
}

static void refuses(struct conn_cfg *k, struct rng *r, uint8_t syndrome)
{
	k->refuse_msg = rng_chance(r, 0.4) ? k->plan[0].nmsgs : rng_range(r, 1, k->plan[0].nmsgs);
	k->refuse_syndrome = syndrome;
	if (!syndrome || !all_of_it()) /* nobody can know that the other half of a silent one is gone, too */
		k->plan[1].nmsgs = 0;
}

/* Nothing, or up to that. */
static uint64_t wait(struct rng *r, uint64_t max_ns)
{
	return rng_chance(r, 0.2) ? 0 : rng_log_range(r, 100 * USEC, max_ns);
}

/* Who says the same from the same PSN on begins when no repetition of the life before can come any more, and who is
 * answered at PSNs that a dead responder owes when its edge has seen that it is silent. */
static void opens_after(struct scenario *s, struct conn_cfg *k, uint64_t ns)
{
	const struct conn_cfg *before = &s->conn[k->heir_of - 1];
	bool dead = before->refuse_msg && !before->refuse_syndrome;

	k->open_ns = ns;
	if (k->cm)
		return;
	if (k->inherits_words)
		k->open_ns += REBIRTH_MIN_NS;
	else if (dead && k->psn_start[0] == before->psn_start[0])
		k->open_ns += SILENT_NS;
}

static void serve(struct world_cfg *c, struct conn_cfg *k)
{
	k->within_ns = SERVED_NS + (k->plan[0].nmsgs + k->plan[1].nmsgs) * (3 * world_cfg_rtt_ns(c) + 2 * MSEC);
}

static void recovered(struct scenario *s, struct rng *r)
{
	for (uint64_t n = rng_range(r, 1, 3); n > 0; n--) {
		struct conn_cfg *k = first_life(s, r);

		for (uint64_t lives = rng_range(r, 1, 2); lives > 0; lives--) {
			refuses(k, r, any_refusal(r));
			k->leaves = rng_chance(r, 0.4);
			k->leaves_ns = wait(r, SEC);
			k = next_life(s, r, k, 3);
			opens_after(s, k, wait(r, 3 * SEC));
			serve(&s->cfg, k);
		}
	}
}

static void qpn_reused(struct scenario *s, struct rng *r)
{
	for (uint64_t n = rng_range(r, 1, 3); n > 0; n--) {
		struct conn_cfg *k = first_life(s, r);

		refuses(k, r, rng_chance(r, 0.7) ? any_refusal(r) : 0);
		k->leaves = rng_chance(r, 0.3);
		k->leaves_ns = wait(r, SEC);
		k = next_life(s, r, k, rng_chance(r, 0.8) ? 1 : 2);
		opens_after(s, k, wait(r, rng_chance(r, 0.5) ? SEC : 60 * SEC));
		serve(&s->cfg, k);
	}
}

static void bytes_owed(struct scenario *s, struct rng *r)
{
	for (uint64_t n = rng_range(r, 1, 3); n > 0; n--) {
		struct conn_cfg *k = first_life(s, r);

		pick_plan(&k->plan[0], r, k->pmtu, rng_range(r, 10, 100));
		k->depth[0] = 64;
		refuses(k, r, 0);
		k->leaves = true;
		k->leaves_ns = wait(r, s->cfg.give_up_ns);
		k = next_life(s, r, k, 1);
		opens_after(s, k, wait(r, s->cfg.give_up_ns));
		serve(&s->cfg, k);
	}
}

/* The far edge has much that its host takes slowly: its window on the LAN is small and the host far away. */
static void arena_lost(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;

	c->lan.delay_ns = rng_range(r, 300, 1000) * USEC;
	c->lan_window_bytes = 16384;
	for (uint64_t n = rng_range(r, 1, 3); n > 0; n--) {
		struct conn_cfg *k = first_life(s, r);

		k->open_ns = 0;
		k->plan[0] = (struct msg_plan){.nmsgs = 500, .len_min = 1000, .len_max = 2000};
		k->plan[0].weight[OP_WRITE] = 1;
		k->plan[1].nmsgs = 0;
		k->depth[0] = 128;
		k->refuse_msg = rng_range(r, 20, 300);
		k->refuse_syndrome = any_refusal(r);
		k->leaves = rng_chance(r, 0.7);
		k->leaves_ns = wait(r, SEC);
		k = next_life(s, r, k, rng_chance(r, 0.7) ? 3 : 1);
		opens_after(s, k, wait(r, 3 * SEC));
		serve(c, k);
	}
	c->ncrashes = 1;
	c->crash[0].at_ns = 8 * c->wan.delay_ns + rng_range(r, 2, 40) * MSEC;
	c->crash[0].down_ns = rng_log_range(r, 10 * USEC, 20 * MSEC);
	c->crash[0].sites = 1;
	c->crash[0].lost = true;
}

static void cm_lives(struct scenario *s, struct rng *r)
{
	struct world_cfg *c = &s->cfg;

	for (uint64_t n = rng_range(r, 1, 2); n > 0; n--) {
		struct conn_cfg *k = first_life(s, r);

		k->cm = true;
		for (uint64_t lives = rng_range(r, 2, 3); lives > 1; lives--) {
			pick_plan(&k->plan[0], r, k->pmtu, rng_range(r, 10, 100));
			k->depth[0] = 64;
			k->leaves = true;
			k->leaves_ns = rng_log_range(r, 100 * USEC, 100 * MSEC);
			if (rng_chance(r, 0.3))
				refuses(k, r, 0);
			else
				k->receive_every_ns = rng_log_range(r, MSEC, 20 * MSEC);
			k->receives = 1;
			k = next_life(s, r, k, 3);
			opens_after(s, k, wait(r, 300 * MSEC));
			serve(c, k);
			k->within_ns += c->give_up_ns + c->cm_retry_ns;
		}
	}
	if (rng_chance(r, 0.5)) {
		c->wan.ncuts = 1;
		c->wan.cut[0].from_ns = 4 * world_cfg_rtt_ns(c) + rng_log_range(r, MSEC, 500 * MSEC);
		c->wan.cut[0].to_ns = c->wan.cut[0].from_ns + rng_log_range(r, 20 * MSEC, 5 * SEC);
	}
}

static const struct {
	const char *name;
	void (*make)(struct scenario *s, struct rng *r);
} kinds[] = {
    {", failed and recovered", recovered},
    {", failed and QPN reused", qpn_reused},
    {", QPN reused while bytes are owed", bytes_owed},
    {", refused after an arena is lost", arena_lost},
    {", CM lives", cm_lives},
};

#define KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define ONE_IN 120 /* worlds of each kind */

const char *scenario_failed(struct scenario *s)
{
	uint64_t kind;
	struct rng r;

	rng_init(&r, rng_hash(s->cfg.seed, 0xfa11ed));
	kind = rng_below(&r, ONE_IN);
	if (kind >= KINDS || s->cfg.direct)
		return "";
	pick_world(s, &r);
	s->cfg.nconns = 0;
	kinds[kind].make(s, &r);
	return kinds[kind].name;
}
