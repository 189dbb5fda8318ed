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

/* Bytes of one priority. `by_physics` gets the bits of struct headroom_verdict. */
static int priority_needs(const struct headroom_in *in, uint64_t *bytes, unsigned *by_physics, char *why)
{
	struct headroom_in full = *in;
	struct headroom_result of_asic, physics;
	int err = headroom_compute(in->asic->model, in, &of_asic, why);

	if (err < 0)
		return err;
	*bytes = of_asic.headroom_bytes;
	*by_physics = of_asic.unused & headroom_fill_in(HEADROOM_PHYSICS, &full);
	if (*by_physics == 0)
		return 0;
	err = headroom_compute(HEADROOM_PHYSICS, in, &physics, why);
	if (err == 0 && physics.headroom_bytes > *bytes)
		*bytes = physics.headroom_bytes;
	return err;
}

/* Sum of the priorities' shared headrooms, of all ports that share the ASIC's limit. */
static int link_needs(const struct headroom_in *in, uint64_t *bytes, unsigned *by_physics, char *why)
{
	uint64_t sum = 0, one_bytes;

	for (unsigned i = 0; i < in->n_priorities; i++) {
		struct headroom_in one = *in;
		int err;

		if (in->priorities[i].lossless_mtu != 0)
			one.lossless_mtu = in->priorities[i].lossless_mtu;
		err = priority_needs(&one, &one_bytes, by_physics, why);
		if (err < 0)
			return err;
		sum += one_bytes;
	}
	*bytes = headroom_of_asic(in->asic, in, sum);
	return 0;
}

static int needed_at(const struct headroom_in *in, uint64_t length_m, uint64_t *bytes, char *why)
{
	struct headroom_in at = *in;
	unsigned by_physics;

	at.length_m = length_m;
	at.rtt_ns = 0;
	return link_needs(&at, bytes, &by_physics, why);
}

/* The headroom grows with the length: halve the interval. */
static int longest(const struct headroom_in *in, uint64_t limit, uint64_t *length_m, char *why)
{
	uint64_t fits = 0, too_long = HEADROOM_LENGTH_MAX_M, bytes;
	int err;

	while (too_long - fits > 1) {
		uint64_t middle = fits + (too_long - fits) / 2;

		err = needed_at(in, middle, &bytes, why);
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
	err = link_needs(&pooled, &v->needed_bytes, &v->by_physics, why);
	if (err < 0 && err != -ERANGE)
		return err;
	v->no_row = err < 0;
	v->too_fast = asic->port_max_bps != 0 && in->rate_bps > asic->port_max_bps;
	v->fits = !v->no_row && !v->too_fast && v->needed_bytes <= v->limit_bytes;
	if (v->too_fast)
		return 0;
	return longest(&pooled, v->limit_bytes, &v->longest_m, why);
}
