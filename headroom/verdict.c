/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - how far a device can be lossless. */
#include <errno.h>
#include <stdio.h>

#include "headroom/headroom.h"
#include "headroom/model.h"

#define RESERVED_CELLS 20u /* port_reserved_shp; twice with 8 lanes */

uint64_t headroom_of_asic(const struct headroom_asic *asic, const struct headroom_in *in, uint64_t port_bytes)
{
	return asic->max_of_chip ? mul_div_up(port_bytes, in->ports, in->oversubscribe) : port_bytes;
}

/* Sum of the priorities' shared headrooms at a length, of all ports that share the ASIC's limit. */
static int needed(const struct headroom_in *in, uint64_t length_m, uint64_t *bytes, char *why)
{
	struct headroom_in at = *in;
	struct headroom_plan plan;
	int err;

	at.length_m = length_m;
	at.rtt_ns = 0;
	err = headroom_plan_link(in->asic->model, &at, &plan, why);
	*bytes = headroom_of_asic(in->asic, in, plan.port_bytes);
	return err;
}

/* The headroom grows with the length: halve the interval. */
static int longest(const struct headroom_in *in, uint64_t limit, uint64_t *length_m, char *why)
{
	uint64_t fits = 0, too_long = HEADROOM_LENGTH_MAX_M, bytes;
	int err;

	while (too_long - fits > 1) {
		uint64_t middle = fits + (too_long - fits) / 2;

		err = needed(in, middle, &bytes, why);
		if (err < 0 && err != -ERANGE) /* a table ends there */
			return err;
		if (err == 0 && bytes <= limit)
			fits = middle;
		else
			too_long = middle;
	}
	*length_m = fits;
	return 0;
}

int headroom_judge(const struct headroom_asic *asic, const struct headroom_in *in, struct headroom_verdict *v,
                   char why[HEADROOM_ERROR_MAX])
{
	struct headroom_in pooled = *in;
	struct headroom_result r;
	int err;

	*v = (struct headroom_verdict){.asic = asic, .limit_bytes = asic->port_max_bytes};
	if (asic->port_max_bytes == 0) {
		snprintf(why, HEADROOM_ERROR_MAX, "the largest headroom of %s is not published", asic->name);
		return -EINVAL;
	}
	if (in->lanes == 8 && asic->generation > 0)
		v->limit_bytes += (uint64_t)RESERVED_CELLS * asic->cell_bytes;
	pooled.asic = asic;
	pooled.pool = true;
	err = headroom_compute(asic->model, &pooled, &r, why);
	if (err < 0 && err != -ERANGE)
		return err;
	v->no_row = err < 0;
	err = longest(&pooled, v->limit_bytes, &v->longest_m, why);
	if (err < 0)
		return err;
	for (unsigned i = 0; !v->no_row && i < in->n_priorities; i++) {
		struct headroom_in one = pooled;

		if (in->priorities[i].lossless_mtu != 0)
			one.lossless_mtu = in->priorities[i].lossless_mtu;
		err = headroom_compute(asic->model, &one, &r, why);
		if (err < 0)
			return err;
		v->needed_bytes += r.headroom_bytes;
	}
	v->needed_bytes = headroom_of_asic(asic, in, v->needed_bytes);
	v->fits = !v->no_row && v->needed_bytes <= v->limit_bytes;
	return 0;
}
