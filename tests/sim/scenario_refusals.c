/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_refusals.c - responders that refuse a message, or are gone from it on; often the last one, so that its
 * requester has nothing more to ask for. Its own stream of random numbers: other seeds stay what they are. */
#include "scenario_refusals.h"

#include "rng.h"

#define SEC 1000000000ull

static void refusing(struct conn_cfg *k, struct rng *r)
{
	static const uint8_t how[] = {AETH_NAK_REM_ACCESS, AETH_NAK_REM_ACCESS, AETH_NAK_INV_REQ, AETH_NAK_REM_OP, 0};

	if (k->plan[0].nmsgs == 0 || rng_chance(r, 0.3))
		return;
	k->refuse_msg = rng_chance(r, 0.6) ? k->plan[0].nmsgs : rng_range(r, 1, k->plan[0].nmsgs);
	k->refuse_syndrome = how[rng_below(r, sizeof(how))];
}

void scenario_refusals(struct scenario *s)
{
	struct world_cfg *c = &s->cfg;
	struct rng r;

	rng_init(&r, rng_hash(c->seed, 0x4ef5));
	if (rng_below(&r, 10) || c->direct || c->attack_pkts || c->wan.ncuts || c->host_dies_ns != SIM_NEVER)
		return;
	for (uint32_t i = 0; i < c->ncrashes; i++)
		c->crash[i].lost = false;
	c->give_up_ns = 2 * SEC;
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn_cfg *k = &s->conn[i];

		k->cm = k->reuse = false;
		k->rounds = 1;
		k->rnr_retry = 7;
		k->confuse = 0;
		refusing(k, &r);
	}
}
