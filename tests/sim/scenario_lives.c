/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_lives.c - programs that repeat themselves, on LANs that are no better than a WAN. Its own stream of random
 * numbers: other seeds stay what they are.
 *
 *   same words     queue pairs that begin again at PSN 0 after a quarter of a second to a minute, at one end or at
 * both, and say the same in each life; often every message of a life is the same, too. Nobody but the responder can
 * tell a new life from a repetition long messages  longer than the host's window, so that no end of one is outstanding
 * when an ACK gets lost bad LAN        loses, reorders and doubles; half of the time all that is asked for are READs,
 * so that nothing else stands behind a gap */
#include "scenario_lives.h"

#include "rng.h"

#define MSEC 1000000ull
#define SEC  1000000000ull

/* As on a WAN that is not good; a ConnectX stands no more within the responses of a long READ. */
static void trouble(struct world_cfg *c, struct rng *r)
{
	struct link_cfg *l = &c->lan;

	if (rng_chance(r, 0.7))
		l->loss = (double)rng_log_range(r, 100, 10000) / 1e6;
	if (rng_chance(r, 0.3))
		l->reorder = (double)rng_log_range(r, 1000, 30000) / 1e6;
	if (rng_chance(r, 0.3))
		l->duplicate = (double)rng_log_range(r, 1000, 20000) / 1e6;
	c->lan_clean = l->loss + l->corrupt + l->reorder + l->duplicate == 0;
	for (uint32_t i = 0; i < c->nconns; i++) {
		c->conn[i].confuse = 0;
		c->conn[i].pause_ns += LOST_ACK_NS;
		c->conn[i].rnr_retry = 7;
	}
}

static void without_cm(struct conn_cfg *k)
{
	k->cm = k->ud = false;
	k->confuse = 0;
	k->rnr_retry = 7;
	k->post_every_ns = 0;
}

static const char *same_words(struct world_cfg *c, struct rng *r)
{
	bool bad_lan = rng_chance(r, 0.4);

	if (bad_lan)
		trouble(c, r);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		without_cm(k);
		k->reuse = k->same_words = true;
		k->recur = (uint8_t)rng_range(r, 1, 3);
		k->rounds = (uint32_t)rng_range(r, 2, 4);
		k->psn_start[0] = k->psn_start[1] = 0;
		k->gap_ns = rng_log_range(r, 250 * MSEC, rng_chance(r, 0.3) ? 60 * SEC : SEC); /* see REBIRTH_MIN_NS */
		if (!c->lan_clean || c->ncrashes > 0)
			k->pause_ns += LOST_ACK_NS;
		for (int side = 0; side < 2; side++) {
			struct msg_plan *plan = &k->plan[side];

			plan->constant = rng_chance(r, 0.6);
			if (plan->nmsgs)
				plan->nmsgs = rng_log_range(r, 1, 60);
			if (plan->len_max > 20u * k->pmtu)
				plan->len_max = 20u * k->pmtu;
			if (plan->len_min > plan->len_max)
				plan->len_min = plan->len_max;
		}
		k->pmtu_next = rng_chance(r, 0.2) && k->pmtu < 4096 ? (uint16_t)(2 * k->pmtu) : 0;
	}
	return ", same words";
}

static void all_hosts(struct world_cfg *c, const struct host_model *model)
{
	for (int site = 0; site < 2; site++)
		for (uint32_t h = 0; h < c->nhosts[site]; h++)
			c->model[site][h] = model;
}

static const char *long_messages(struct world_cfg *c, struct rng *r)
{
	trouble(c, r);
	all_hosts(c, rng_chance(r, 0.5) ? &host_model_rxe : &host_model_cx_window);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &c->conn[i];

		without_cm(k);
		k->reuse = false;
		k->rounds = 1;
		k->plan[0] = (struct msg_plan){.nmsgs = rng_range(r, 1, 4)};
		k->plan[0].weight[rng_chance(r, 0.5) ? OP_WRITE : OP_SEND] = 1;
		k->plan[0].len_min = k->plan[0].len_max = (uint32_t)rng_range(r, 150, 800) * k->pmtu;
		k->plan[1].nmsgs = 0;
	}
	return ", long messages";
}

static const char *bad_lan(struct world_cfg *c, struct rng *r)
{
	trouble(c, r);
	if (rng_chance(r, 0.3))
		all_hosts(c, &host_model_cx_window);
	for (uint32_t i = 0; i < c->nconns && rng_chance(r, 0.5); i++) {
		struct conn_cfg *k = &c->conn[i];

		k->reuse = false;
		for (int side = 0; side < 2; side++) {
			struct msg_plan *plan = &k->plan[side];
			uint64_t n = plan->nmsgs;

			*plan = (struct msg_plan){.nmsgs = n, .len_min = 1, .len_max = plan->len_max};
			plan->weight[OP_READ] = 4;
			plan->weight[OP_FETCH_ADD] = (uint8_t)rng_below(r, 2);
		}
	}
	return ", bad LAN";
}

const char *scenario_words(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	struct rng r;
	uint64_t kind;

	rng_init(&r, rng_hash(c->seed, 0x11fe5));
	kind = rng_below(&r, 100);
	if (c->direct || c->attack_pps || c->host_dies_ns != SIM_NEVER || c->edges_from_ns)
		return "";
	if (kind < 20)
		return same_words(c, &r);
	if (kind < 26)
		return long_messages(c, &r);
	return kind < 36 ? bad_lan(c, &r) : "";
}
