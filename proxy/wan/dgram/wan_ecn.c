/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_ecn.h"

#include "proxy/roce/roce.h"

const char *ecn_state_name(enum ecn_state s)
{
	static const char *const names[] = {
	    [ECN_UNUSED] = "unused", [ECN_TRYING] = "trying", [ECN_USED] = "used", [ECN_FAILED] = "failed"};

	return names[s];
}

void wan_ecn_restart(struct wan_ecn *e)
{
	*e = (struct wan_ecn){.state = ECN_UNUSED};
}

bool wan_ecn_sends(struct wan_ecn *e, uint64_t now_ns, bool obeyed)
{
	if (e->state == ECN_FAILED)
		return false;
	if (!obeyed)
		wan_ecn_restart(e);
	else if (e->state == ECN_UNUSED)
		*e = (struct wan_ecn){.state = ECN_TRYING, .since_ns = now_ns};
	return obeyed;
}

void wan_ecn_came(struct wan_ecn_counts *c, uint8_t ecn)
{
	if ((ecn & ECN_MASK) == ECN_CE)
		c->ce = (c->ce + 1) & ECN_COUNT_MASK;
	else if ((ecn & ECN_MASK) == ECN_ECT0)
		c->ect0 = (c->ect0 + 1) & ECN_COUNT_MASK;
}

static void judge(struct wan_ecn *e)
{
	bool first = e->state == ECN_TRYING;

	e->state = ECN_USED;
	if (e->counted < e->acked / 2 || (first && e->marked == e->counted))
		e->state = ECN_FAILED;
	e->acked = e->counted = e->marked = 0;
}

uint32_t wan_ecn_told(struct wan_ecn *e, struct wan_ecn_counts *heard, struct wan_ecn_counts told, uint32_t acked)
{
	uint32_t ect0 = (told.ect0 - heard->ect0) & ECN_COUNT_MASK, ce = (told.ce - heard->ce) & ECN_COUNT_MASK;

	if (ect0 > ECN_COUNT_MASK / 2 || ce > ECN_COUNT_MASK / 2)
		ect0 = ce = 0; /* a later report has overtaken this one */
	else
		*heard = told;
	if (e->state != ECN_TRYING && e->state != ECN_USED)
		return 0;
	e->acked += acked;
	e->counted += ect0 + ce;
	e->marked += ce;
	if (e->acked >= ECN_TRIAL)
		judge(e);
	return e->state == ECN_FAILED ? 0 : ce;
}
