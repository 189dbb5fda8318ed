/* SPDX-License-Identifier: Apache-2.0 */
/* model_sonic_broadcom.c - what SONiC programs into two Broadcom switches: rows of a table, not a formula.
 *
 * Source: sonic-buildimage device/arista, pg_profile_lookup.ini and buffers_defaults_*.j2 of Arista-7280DR3A-36
 * (Jericho-2) and of Arista-7060X6-64PE-B-P32O64 (Tomahawk-5); the 4 km rows of Jericho-2 are of
 * sonic-buildimage#28846. SONiC looks a port's speed and cable length up and takes the row as it is. A row also serves
 * a lower rate and a shorter cable, at the cost of some memory (sonic-buildimage#24903): the smallest one that covers
 * the link is taken, and a link that none covers is refused.
 *
 * Between its rows for 80 and 120 km Jericho-2's table grows by 13.3 ns at line rate per metre; light in fibre takes
 * 10 ns there and back. Broadcom does not say why. Its headroom is therefore a quarter to a third above physics on a
 * long cable: 708608 against 553460 bytes at 100G and 4 km.
 *
 * XOFF comes at a share of the pool that depends on how full it is: the fill here is that of an empty pool. XON is
 * xon_offset below it. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "headroom/model.h"

struct row {
	uint32_t speed_mbps, length_m;
	uint64_t size, xon, xoff;
	int threshold; /* XOFF at 2^threshold times what is free of the pool */
	uint64_t xon_offset;
};

struct table {
	const char *asic, *board;
	uint64_t pool_bytes; /* ingress_lossless_pool size */
	const struct row *rows;
	size_t n;
};

/* In the order of speed, then length. */
static const struct row jericho2[] = {
    {40000, 30, 0, 2560, 61440, -6, 181753},         {40000, 300, 0, 2560, 69632, -6, 181753},
    {40000, 1000, 0, 2560, 114688, -6, 181753},      {40000, 2000, 0, 2560, 184320, -6, 181753},
    {40000, 80000, 0, 2560, 5369856, -6, 181753},    {40000, 120000, 0, 2560, 8036352, -6, 181753},
    {100000, 30, 0, 2560, 73728, -6, 363506},        {100000, 300, 0, 2560, 110592, -6, 363506},
    {100000, 1000, 0, 2560, 225280, -6, 363506},     {100000, 2000, 0, 2560, 393216, -6, 363506},
    {100000, 4000, 0, 2560, 708608, -6, 363506},     {100000, 80000, 0, 2560, 13357056, -6, 363506},
    {100000, 120000, 0, 2560, 20013056, -6, 363506}, {400000, 30, 0, 2560, 184320, -5, 1454025},
    {400000, 300, 0, 2560, 315392, -5, 1454025},     {400000, 1000, 0, 2560, 778240, -5, 1454025},
    {400000, 2000, 0, 2560, 1445888, -5, 1454025},   {400000, 4000, 0, 2560, 2727936, -5, 1454025},
    {400000, 80000, 0, 2560, 53305344, -5, 1454025}, {400000, 120000, 0, 2560, 79953920, -5, 1454025},
};

static const struct row tomahawk5[] = {
    {100000, 500, 8636, 0, 1136396, 0, 3556}, {400000, 5, 8636, 0, 425958, 0, 3556},
    {400000, 30, 8636, 0, 425958, 0, 3556},   {400000, 300, 8636, 0, 839216, 0, 3556},
    {400000, 500, 8636, 0, 1136396, 0, 3556}, {800000, 5, 8636, 0, 724662, 0, 3556},
    {800000, 40, 8636, 0, 1621536, 0, 3556},  {800000, 300, 8636, 0, 1621536, 0, 3556},
};

#define ROWS(t) (t), sizeof(t) / sizeof((t)[0])

static const struct table tables[] = {
    {"jericho-2", "Arista-7280DR3A-36", 6441610000, ROWS(jericho2)},
    {"tomahawk-5", "Arista-7060X6-64PE-B-P32O64", 164619432, ROWS(tomahawk5)},
};

static const struct table *find_table(const char *asic)
{
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (strcmp(tables[i].asic, asic) == 0)
			return &tables[i];
	return &tables[0];
}

/* The first that covers both: of the lowest speed that has one. */
static const struct row *find_row(const struct table *t, uint64_t rate_bps, uint64_t length_m)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].speed_mbps * 1000000ull >= rate_bps && t->rows[i].length_m >= length_m)
			return &t->rows[i];
	return NULL;
}

/* alpha / (1 + alpha) of the pool, alpha = 2^threshold: what one queue may fill alone. */
static uint64_t alone(const struct table *t, const struct row *row)
{
	return row->threshold <= 0 ? t->pool_bytes / (1 + (1ull << -row->threshold)) : t->pool_bytes / 2;
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	const struct table *t = find_table(in->asic->name);
	uint64_t length_m = model_length_m(in, 5050), xoff_fill;
	const struct row *row = find_row(t, in->rate_bps, length_m);

	if (row == NULL) {
		snprintf(why, HEADROOM_ERROR_MAX,
		         "SONiC's table for %s has no row for %" PRIu64 " m at %" PRIu64 " Mbit/s", t->board, length_m,
		         in->rate_bps / 1000000);
		return -ERANGE;
	}
	model_term(r, HEADROOM_BYTES, "row_xoff", (double)row->xoff,
	           "pg_profile_lookup.ini: the row that covers this rate and length");
	model_term(r, HEADROOM_NOTE, "row_speed_mbps", row->speed_mbps, "its speed, in Mbit/s and not bytes");
	model_term(r, HEADROOM_NOTE, "row_length_m", row->length_m, "its cable, in metres and not bytes");
	model_term(r, HEADROOM_NOTE, "xon_offset", (double)row->xon_offset, "XON is this far below XOFF");
	xoff_fill = alone(t, row);
	r->xon = row->xon;
	r->xoff = row->xoff;
	r->size = row->size;
	r->threshold = row->threshold;
	r->xon_offset_bytes = row->xon_offset;
	model_thresholds(r, xoff_fill - row->xon_offset, xoff_fill, row->xoff, row->size);
	return 0;
}

const struct headroom_model_ops model_sonic_broadcom = {
    .name = "sonic-broadcom",
    .source = "sonic-buildimage device/arista pg_profile_lookup.ini",
    .asic = "jericho-2",
    .knows = HEADROOM_X_POOL,
    .compute = compute,
};
