/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "headroom/headroom.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What the Lua scripts of sonic-swss (github.com/sonic-net/sonic-swss, master of August 2026) return, run by lua5.1
 * with a redis stub that answers from ASIC_TABLE (sonic-buildimage platform/{mellanox,barefoot}/asic_table.j2) and the
 * columns here. lmtu and percent are LOSSLESS_TRAFFIC_PATTERN's mtu and small_packet_percentage. */
struct sonic_vector {
	const char *asic;
	uint64_t speed_mbps, length_m;
	uint32_t port_mtu;
	uint64_t gearbox_ns;
	unsigned lanes;
	int percent;
	bool pool;
	uint32_t lmtu;
	uint64_t xon, xoff, size;
};

/* cfgmgr/buffer_headroom_mellanox.lua. The first five are also in the project's table of check values. */
static const struct sonic_vector mellanox[] = {
    {"spectrum-4", 100000, 5, 9100, 0, 4, 100, false, 1024, 19456, 113664, 133120},
    {"spectrum-4", 400000, 40, 9100, 0, 4, 100, false, 1024, 19456, 283648, 303104},
    {"spectrum-4", 800000, 40, 9100, 0, 8, 100, false, 1024, 38912, 362496, 410624},
    {"spectrum-4", 100000, 10000, 9100, 0, 4, 50, true, 1024, 19456, 1606656, 19456},
    {"spectrum-4", 400000, 80000, 9100, 0, 4, 50, true, 1024, 19456, 50003968, 19456},
    {"spectrum", 10000, 5, 9100, 0, 1, 100, false, 1024, 19456, 29696, 49152},
    {"spectrum", 25000, 40, 9100, 0, 1, 100, false, 1024, 19456, 33792, 53248},
    {"spectrum", 40000, 300, 9100, 0, 4, 100, false, 1024, 19456, 66560, 86016},
    {"spectrum", 50000, 300, 1500, 0, 2, 100, false, 1024, 19456, 62464, 81920},
    {"spectrum", 100000, 300, 9100, 0, 4, 50, true, 1024, 19456, 82944, 19456},
    {"spectrum", 1000, 5, 9100, 0, 1, 100, false, 1024, 19456, 21504, 40960},
    {"spectrum", 100, 5, 1500, 0, 1, 100, false, 1024, 19456, 6144, 25600},
    {"spectrum-2", 100000, 40, 9100, 0, 4, 100, false, 1024, 19456, 121856, 141312},
    {"spectrum-2", 200000, 300, 9100, 0, 4, 50, true, 1024, 19456, 143360, 19456},
    {"spectrum-2", 50000, 5, 9100, 0, 1, 50, false, 1024, 19456, 27648, 47104},
    {"spectrum-2", 100000, 300, 9100, 800, 4, 50, true, 1024, 19456, 115712, 19456},
    {"spectrum-3", 400000, 300, 9100, 0, 8, 50, false, 1024, 38912, 274432, 322560},
    {"spectrum-3", 400000, 300, 9100, 0, 8, 50, true, 1024, 38912, 272384, 38912},
    {"spectrum-3", 100000, 40, 9100, 0, 4, 50, false, 1024, 19456, 53248, 72704},
    {"spectrum-3", 400000, 2000, 9100, 9, 8, 100, true, 1024, 38912, 3237888, 38912},
    {"spectrum-3", 200000, 10000, 9216, 0, 4, 0, false, 4200, 19456, 2649088, 2668544},
    {"spectrum-4", 800000, 300, 9100, 0, 8, 50, false, 1024, 38912, 476160, 524288},
    {"spectrum-4", 200000, 40, 9100, 0, 4, 50, false, 1024, 19456, 67584, 87040},
    {"spectrum-4", 200000, 40, 9100, 0, 4, 50, true, 1024, 19456, 65536, 19456},
    {"spectrum-4", 400000, 1, 9100, 0, 4, 100, false, 1024, 19456, 224256, 243712},
    {"spectrum-4", 400000, 1113, 9100, 0, 4, 50, true, 1024, 19456, 787456, 19456},
    {"spectrum-4", 400000, 120000, 9100, 0, 4, 50, true, 1024, 19456, 74958848, 19456},
    {"spectrum-4", 10000, 2000, 1500, 0, 1, 10, false, 1500, 19456, 38912, 58368},
    {"spectrum-4", 400000, 500, 4200, 0, 4, 0, true, 4200, 19456, 335872, 19456},
    {"spectrum-4", 400000, 500, 4200, 0, 4, 100, true, 4200, 19456, 968704, 19456},
    {"spectrum-4", 1600000, 40, 9100, 0, 8, 50, true, 1024, 38912, 148480, 38912},
    {"spectrum-4", 100000, 300000, 4200, 0, 4, 50, true, 4200, 19456, 40190976, 19456},
    {"spectrum-5", 800000, 40, 9100, 0, 8, 50, true, 1024, 38912, 150528, 38912},
    {"spectrum-5", 800000, 500, 9100, 0, 8, 100, false, 1024, 38912, 1756160, 1804288},
    {"spectrum-5", 400000, 2000, 9100, 100, 4, 50, false, 4200, 19456, 1166336, 1185792},
    {"spectrum-5", 200000, 7, 1500, 0, 2, 33, false, 1024, 19456, 46080, 65536},
    {"spectrum-6", 800000, 40, 9100, 0, 4, 50, true, 1024, 43008, 166912, 43008},
    {"spectrum-6", 800000, 300, 9100, 0, 8, 100, false, 1024, 86016, 1503232, 1598464},
    {"spectrum-6", 1600000, 5, 9100, 0, 8, 50, false, 1024, 86016, 54272, 149504},
    {"spectrum-6", 400000, 10000, 9216, 0, 4, 75, false, 2048, 43008, 6896640, 6939648},
    {"spectrum", 100000, 13, 9100, 0, 4, 99, false, 1024, 19456, 72704, 92160},
    {"spectrum-2", 40000, 77, 2048, 250, 4, 17, false, 512, 19456, 24576, 44032},
    {"spectrum-4", 100000, 1000, 9100, 0, 4, 50, false, 1024, 19456, 204800, 224256},
    {"spectrum-4", 400000, 300, 9100, 0, 4, 1, false, 9100, 19456, 240640, 260096},
};

/* cfgmgr/buffer_headroom_barefoot.lua */
static const struct sonic_vector barefoot[] = {
    {"tofino-2", 10000, 5, 9100, 0, 4, 100, true, 1024, 69632, 40960, 69632},
    {"tofino-2", 25000, 40, 9100, 0, 4, 100, true, 1024, 69632, 46080, 69632},
    {"tofino-2", 40000, 300, 9100, 0, 4, 100, true, 1024, 69632, 90112, 69632},
    {"tofino-2", 50000, 300, 1500, 0, 4, 50, true, 1024, 69632, 58368, 69632},
    {"tofino-2", 100000, 5, 9100, 0, 4, 100, true, 1024, 69632, 100352, 69632},
    {"tofino-2", 100000, 300, 9100, 0, 4, 50, true, 1024, 69632, 137216, 69632},
    {"tofino-2", 100000, 10000, 9100, 500, 4, 100, true, 1024, 69632, 3522560, 69632},
    {"tofino-2", 200000, 40, 9100, 0, 4, 100, true, 1024, 69632, 135168, 69632},
    {"tofino-2", 400000, 5, 9100, 0, 4, 100, true, 1024, 69632, 354304, 69632},
    {"tofino-2", 400000, 40, 9100, 0, 4, 50, true, 1024, 69632, 274432, 69632},
    {"tofino-2", 400000, 80000, 9216, 0, 4, 75, true, 4200, 69632, 91540480, 69632},
    {"tofino-2", 800000, 40, 9100, 0, 4, 100, true, 1024, 69632, 162816, 69632},
    {"tofino-2", 1000, 2000, 1500, 30, 4, 10, true, 1500, 69632, 8192, 69632},
};

/* Results "by lua" in the description of sonic-swss pull request 3235 (2024, before the compensation): RDMA MTU 1024,
 * small packets 50 %, no pool. */
static const struct sonic_vector mellanox_2024[] = {
    {"spectrum-3", 400000, 300, 9100, 0, 8, 50, false, 1024, 38912, 272384, 320512},
    {"spectrum-3", 100000, 40, 9100, 0, 4, 50, false, 1024, 19456, 51200, 70656},
    {"spectrum-4", 800000, 300, 9100, 0, 8, 50, false, 1024, 38912, 474112, 522240},
    {"spectrum-4", 200000, 40, 9100, 0, 4, 50, false, 1024, 19456, 65536, 84992},
};

/* The driver's integer formulas (torvalds/linux mlx5 en/port_buffer.c), worked out apart from this code. The first two
 * headrooms are in the project's table of check values. buffer 0: twice the headroom. XON is 9978 below XOFF at any
 * MTU: update_xoff_threshold() takes netdev->max_mtu. */
struct mlx5_vector {
	uint64_t length_m, speed_mbps;
	uint32_t mtu;
	uint64_t buffer;
	uint64_t headroom, size, xoff, xon;
};

static const struct mlx5_vector mlx5[] = {
    {100, 100000, 9000, 0, 76180, 152360, 76180, 66202},
    {999, 400000, 9000, 0, 1007680, 2015360, 1007680, 997702},
    {999, 400000, 1500, 0, 987280, 1974560, 987280, 977302},
    {7, 100000, 1500, 0, 35680, 71360, 35680, 25702},
    {7, 25000, 1500, 0, 16720, 33440, 16720, 6742},
    {1, 10000, 9000, 0, 36600, 73200, 36600, 26622},
    {40, 400000, 4200, 0, 166224, 332448, 166224, 156246},
    {300, 200000, 9978, 0, 216940, 433880, 216940, 206962},
    {5, 800000, 9000, 0, 273280, 546560, 273280, 263302},
    {999, 1600000, 9000, 0, 3957280, 7914560, 3957280, 3947302},
    {40, 400000, 4200, 500000, 166224, 500000, 333776, 323798},
};

/* The same of Mellanox/nic-kernel; `buffer` is the cell's size, 0 the driver's default of 128. */
static const struct mlx5_vector mlx5_next[] = {
    {7, 25000, 1500, 0, 19679, 43983, 24304, 21304},
    {7, 10000, 1500, 0, 19478, 41706, 22228, 19228},
    {40, 100000, 9022, 0, 107065, 235652, 128587, 110543},
    {40, 400000, 4222, 0, 217408, 489038, 271630, 263186},
    {300, 200000, 9022, 0, 225965, 485952, 259987, 241943},
    {1000, 400000, 9022, 0, 966108, 1991238, 1025130, 1007086},
    {5, 800000, 9022, 0, 382562, 874146, 491584, 473540},
    {1000, 1600000, 9022, 0, 3796226, 7801474, 4005248, 3987204},
    {100, 40000, 1522, 0, 34466, 75454, 40988, 37944},
    {40, 400000, 4222, 144, 244056, 542334, 298278, 289834},
    {40, 50000, 4222, 192, 134587, 279646, 145059, 136615},
};

/* IXGBE_BT2KB(IXGBE_DV()) and IXGBE_BT2KB(IXGBE_LOW_DV()) of Linux ixgbe_type.h at 10 Gbit/s and 100 m, likewise;
 * X540 by IXGBE_DV_X540() and IXGBE_LOW_DV_X540(). The driver itself has copper. */
static const struct {
	uint32_t mtu;
	enum headroom_medium medium;
	const char *asic;
	uint64_t xoff, xon;
} ixgbe[] = {
    {1500, HEADROOM_OPTICAL, "82599", 15360, 10240}, {1500, HEADROOM_OPTICAL, "x540", 22528, 5120},
    {1500, HEADROOM_COPPER, "82599", 15360, 10240},  {1500, HEADROOM_COPPER, "x540", 22528, 5120},
    {9000, HEADROOM_OPTICAL, "82599", 40960, 39936}, {9000, HEADROOM_OPTICAL, "x540", 48128, 20480},
    {9000, HEADROOM_COPPER, "82599", 41984, 39936},  {9000, HEADROOM_COPPER, "x540", 48128, 20480},
    {4200, HEADROOM_OPTICAL, "82599", 24576, 20480}, {4200, HEADROOM_COPPER, "82599", 25600, 20480},
};

static struct headroom_in link_of(uint64_t length_m, uint64_t speed_mbps, uint32_t mtu)
{
	struct headroom_in in;

	headroom_defaults(&in);
	in.length_m = length_m;
	in.rate_bps = speed_mbps * 1000000;
	in.port_mtu = mtu;
	return in;
}

static struct headroom_in sonic_link(const struct sonic_vector *v)
{
	struct headroom_in in = link_of(v->length_m, v->speed_mbps, v->port_mtu);

	in.asic = headroom_asic_find(v->asic);
	assert_non_null(in.asic);
	in.gearbox_ns = v->gearbox_ns;
	in.lanes = v->lanes;
	in.small_percent = v->percent;
	in.pool = v->pool;
	in.lossless_mtu = v->lmtu;
	return in;
}

static void expect(enum headroom_model model, const struct headroom_in *in, size_t row, uint64_t xon, uint64_t xoff,
                   uint64_t size)
{
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX] = "";
	int err = headroom_compute(model, in, &r, why);

	if (err != 0 || r.xon != xon || r.xoff != xoff || r.size != size)
		fail_msg("%s, row %zu: %d %s, xon %llu xoff %llu size %llu; expected %llu %llu %llu",
		         headroom_model_name(model), row, err, why, (unsigned long long)r.xon,
		         (unsigned long long)r.xoff, (unsigned long long)r.size, (unsigned long long)xon,
		         (unsigned long long)xoff, (unsigned long long)size);
}

static void headroom_compute__sonic_mellanox_is_the_script(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mellanox); i++) {
		struct headroom_in in = sonic_link(&mellanox[i]);

		expect(HEADROOM_SONIC_MELLANOX, &in, i, mellanox[i].xon, mellanox[i].xoff, mellanox[i].size);
	}
}

static void headroom_compute__sonic_mellanox_before_the_compensation(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mellanox_2024); i++) {
		struct headroom_in in = sonic_link(&mellanox_2024[i]);

		in.compensation = false;
		expect(HEADROOM_SONIC_MELLANOX, &in, i, mellanox_2024[i].xon, mellanox_2024[i].xoff,
		       mellanox_2024[i].size);
	}
}

static uint64_t xoff_of(const struct headroom_in *in)
{
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX] = "";

	assert_int_equal(headroom_compute(HEADROOM_SONIC_MELLANOX, in, &r, why), 0);
	return r.xoff;
}

/* 2 KiB more, where that is still below what a link of small packets alone would need; never with a shared pool. */
static void headroom_compute__compensation_stays_below_the_worst_case(void **state)
{
	uint32_t short_of_it[4] = {0}; /* links that lack so many KiB of the worst case */

	(void)state;
	for (uint64_t length_m = 1; length_m < 60; length_m++)
		for (int percent = 0; percent < 100; percent++) {
			struct sonic_vector v = {"spectrum", 10000, length_m, 1500, 0, 1,
			                         percent,    false, 1024,     0,    0, 0};
			struct headroom_in in = sonic_link(&v);
			uint64_t plain, worst, with;

			with = xoff_of(&in);
			in.compensation = false;
			plain = xoff_of(&in);
			in.small_percent = 100;
			worst = xoff_of(&in);
			assert_int_equal(with, plain + 2048 < worst ? plain + 2048 : plain);
			if (worst - plain <= 3 * 1024)
				short_of_it[(worst - plain) / 1024]++;
			in.small_percent = percent;
			in.compensation = in.pool = true;
			assert_int_equal(xoff_of(&in), plain);
		}
	for (size_t i = 0; i < COUNT(short_of_it); i++)
		assert_true(short_of_it[i] > 0);
}

static void headroom_compute__sonic_barefoot_is_the_script(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(barefoot); i++) {
		struct headroom_in in = sonic_link(&barefoot[i]);

		expect(HEADROOM_SONIC_BAREFOOT, &in, i, barefoot[i].xon, barefoot[i].xoff, barefoot[i].size);
	}
}

static void headroom_compute__mlx5_is_the_driver(void **state)
{
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(mlx5); i++) {
		struct headroom_in in = link_of(mlx5[i].length_m, mlx5[i].speed_mbps, mlx5[i].mtu);

		in.buffer_bytes = mlx5[i].buffer;
		expect(HEADROOM_MLX5, &in, i, mlx5[i].xon, mlx5[i].xoff, mlx5[i].size);
		assert_int_equal(headroom_compute(HEADROOM_MLX5, &in, &r, why), 0);
		assert_int_equal(r.headroom_bytes, mlx5[i].headroom);
	}
}

static void headroom_compute__mlx5_next_is_the_driver(void **state)
{
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	for (size_t i = 0; i < COUNT(mlx5_next); i++) {
		struct headroom_in in = link_of(mlx5_next[i].length_m, mlx5_next[i].speed_mbps, mlx5_next[i].mtu);

		in.cell_bytes = (uint32_t)mlx5_next[i].buffer;
		expect(HEADROOM_MLX5_NEXT, &in, i, mlx5_next[i].xon, mlx5_next[i].xoff, mlx5_next[i].size);
		assert_int_equal(headroom_compute(HEADROOM_MLX5_NEXT, &in, &r, why), 0);
		assert_int_equal(r.headroom_bytes, mlx5_next[i].headroom);
	}
}

static void headroom_compute__annex_o_is_ixgbe(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(ixgbe); i++) {
		struct headroom_in in = link_of(100, 10000, ixgbe[i].mtu);

		in.medium = ixgbe[i].medium;
		in.asic = headroom_asic_find(ixgbe[i].asic);
		expect(HEADROOM_ANNEX_O, &in, i, ixgbe[i].xon, ixgbe[i].xoff, ixgbe[i].xon + ixgbe[i].xoff);
	}
}

static double term(const struct headroom_result *r, const char *name)
{
	for (unsigned i = 0; i < r->n_terms; i++)
		if (strcmp(r->terms[i].name, name) == 0)
			return r->terms[i].value;
	fail_msg("no term %s", name);
	return 0;
}

/* DV = 2 MaxFrame + 672 + 2 cable + 2 interface + higher layer, by hand: 2 x 12304 + 672 + 2 x 5000 + 2 x 18944 +
 * 6144 */
static void headroom_compute__annex_o_delay_value(void **state)
{
	struct headroom_in in = link_of(100, 10000, 1500);
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	assert_int_equal(headroom_compute(HEADROOM_ANNEX_O, &in, &r, why), 0);
	assert_true(term(&r, "delay_value") * 8 == 79312);
	assert_true(term(&r, "cable") * 8 == 10000);
}

/* 100 Gbit/s over 40 m, MTU 4200 and 1024, no small packets, no cells. By hand:
 * own frame 4220, pause 84, MAC and PHY 2 x 410, fibre 2 x 200 ns x 12.5 = 2 x 2500, peer 394 x 64 = 25216,
 * peer's frame 1044; and the packet that crossed, 1024. */
static void headroom_compute__physics_by_hand(void **state)
{
	struct headroom_in in = link_of(40, 100000, 4200);
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];
	uint64_t loop = 4220 + 84 + 2 * 410 + 2 * 2500 + 25216 + 1044;

	(void)state;
	in.lossless_mtu = 1024;
	in.small_percent = 0;
	assert_int_equal(headroom_compute(HEADROOM_PHYSICS, &in, &r, why), 0);
	assert_int_equal(r.headroom_bytes, loop + 1024);
	assert_int_equal(r.xon_fill_bytes, loop);
	assert_int_equal(r.xoff_fill_bytes, loop + 2 * 4200);
	assert_int_equal(r.size, r.xoff_fill_bytes + r.headroom_bytes);
	in.drain_bps = 50000000000;
	assert_int_equal(headroom_compute(HEADROOM_PHYSICS, &in, &r, why), 0);
	assert_int_equal(r.xon_fill_bytes, loop / 2);
	in.transponder_ns = 1000;
	in.macsec_bytes = 32;
	assert_int_equal(headroom_compute(HEADROOM_PHYSICS, &in, &r, why), 0);
	assert_int_equal(r.headroom_bytes, loop + 2 * 12500 + 2 * 32 + 1024);
}

/* Small packets take whole cells: 64 bytes are 84 on the wire and 192 in the buffer. */
static void headroom_compute__physics_cells(void **state)
{
	struct headroom_in in = link_of(40, 100000, 4200);
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	in.small_percent = 100;
	in.cell_bytes = 192;
	assert_int_equal(headroom_compute(HEADROOM_PHYSICS, &in, &r, why), 0);
	assert_true(term(&r, "cell_occupancy") > 2.2857 && term(&r, "cell_occupancy") < 2.2858);
	assert_true(term(&r, "crossing_packet") == 22 * 192);
}

/* In every model the headroom is above the threshold, and the sum of the parts is the buffer. */
static void headroom_compute__fields_agree(void **state)
{
	static const uint64_t lengths[] = {1, 40, 300, 999};
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		for (size_t i = 0; i < COUNT(lengths); i++) {
			struct headroom_in in = link_of(lengths[i], 400000, 4200);

			assert_int_equal(headroom_compute(m, &in, &r, why), 0);
			assert_true(r.xon_fill_bytes <= r.xoff_fill_bytes);
			assert_int_equal(r.xoff_fill_bytes - r.xon_fill_bytes, r.xon_delta_bytes);
			if (m != HEADROOM_SONIC_BAREFOOT && m != HEADROOM_SONIC_BROADCOM) /* always a pool */
				assert_int_equal(r.xoff_fill_bytes + r.headroom_bytes, r.size);
			assert_true(r.xoff_reserved_bytes <= r.reserved_bytes);
			assert_true(r.n_terms > 3 && r.n_terms < HEADROOM_TERMS_MAX);
		}
}

static void headroom_compute__grows_with_the_line(void **state)
{
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		uint64_t before = 0;

		for (uint64_t length = 1; length < 1000; length += 37) {
			struct headroom_in in = link_of(length, 400000, 4200);

			assert_int_equal(headroom_compute(m, &in, &r, why), 0);
			assert_true(r.headroom_bytes >= before);
			before = r.headroom_bytes;
		}
	}
}

/* 3 ms there and back are 300 km at 5 us/km. */
static void headroom_compute__measured_round_trip(void **state)
{
	struct headroom_in far = link_of(300000, 100000, 4200), measured = link_of(0, 100000, 4200);
	struct headroom_result a, b;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	measured.rtt_ns = 3000000;
	assert_int_equal(headroom_compute(HEADROOM_PHYSICS, &far, &a, why), 0);
	assert_int_equal(headroom_compute(HEADROOM_PHYSICS, &measured, &b, why), 0);
	assert_int_equal(a.headroom_bytes, b.headroom_bytes);
	assert_int_equal(headroom_compute(HEADROOM_ANNEX_O, &far, &a, why), 0);
	assert_int_equal(headroom_compute(HEADROOM_ANNEX_O, &measured, &b, why), 0);
	assert_int_equal(a.headroom_bytes, b.headroom_bytes);
}

static void headroom_compute__what_a_driver_ignores_is_refused(void **state)
{
	struct headroom_in in = link_of(1000, 100000, 4200);
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	assert_true(headroom_compute(HEADROOM_MLX5, &in, &r, why) < 0);
	assert_non_null(strstr(why, "1 to 999 m"));
	assert_int_equal(headroom_compute(HEADROOM_MLX5_NEXT, &in, &r, why), 0);
	in.length_m = 1001;
	assert_true(headroom_compute(HEADROOM_MLX5_NEXT, &in, &r, why) < 0);
	in.length_m = 100;
	in.buffer_bytes = 40000;
	assert_true(headroom_compute(HEADROOM_MLX5, &in, &r, why) < 0);
	assert_non_null(strstr(why, "40000"));
	/* (301 + 2) x 100 + 272 x 9100 / 100 = 55052, the largest MTU of 9978, a cell of 128 */
	in = link_of(1, 100000, 9100);
	in.buffer_bytes = 65157;
	assert_true(headroom_compute(HEADROOM_MLX5, &in, &r, why) < 0);
	assert_non_null(strstr(why, "it needs 65158 or more"));
	in.buffer_bytes = 65158;
	assert_int_equal(headroom_compute(HEADROOM_MLX5, &in, &r, why), 0);
	assert_int_equal(r.xoff_fill_bytes - r.xon_fill_bytes, 9978);
	in.cell_bytes = 192;
	assert_true(headroom_compute(HEADROOM_MLX5, &in, &r, why) < 0);
}

static void refuses(struct headroom_in in, const char *about)
{
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX] = "";

	assert_true(headroom_compute(HEADROOM_PHYSICS, &in, &r, why) < 0);
	if (strstr(why, about) == NULL)
		fail_msg("\"%s\" does not speak of %s", why, about);
}

static void headroom_compute__nonsense_is_refused(void **state)
{
	struct headroom_in good = link_of(40, 100000, 4200), in;

	(void)state;
#define WITH(field, value, about) (in = good, in.field = (value), refuses(in, about))
	WITH(length_m, 0, "distance");
	WITH(length_m, HEADROOM_LENGTH_MAX_M + 1, "distance");
	WITH(rtt_ns, HEADROOM_RTT_MAX_NS + 1, "round trip");
	WITH(rate_bps, 0, "rate");
	WITH(rate_bps, UINT64_MAX, "rate");
	WITH(drain_bps, UINT64_MAX, "drain");
	WITH(port_mtu, 63, "port MTU");
	WITH(port_mtu, UINT32_MAX, "port MTU");
	WITH(lossless_mtu, 4201, "at most the port MTU");
	WITH(lossless_mtu, 1, "lossless MTU");
	WITH(small_percent, 101, "small");
	WITH(small_percent, -2, "small");
	WITH(cell_bytes, UINT32_MAX, "cell");
	WITH(lanes, 0, "lanes");
	WITH(gearbox_ns, UINT64_MAX, "gearbox");
	WITH(transponder_ns, HEADROOM_DELAY_MAX_NS + 1, "transponder");
	WITH(macsec_bytes, 1025, "MACsec");
	WITH(peer_quanta, 65536, "quanta");
	WITH(buffer_bytes, UINT64_MAX, "buffer");
	WITH(n_priorities, 0, "priorities");
	WITH(n_priorities, 9, "priorities");
	WITH(priorities[0].number, 8, "priority");
	WITH(priorities[1].lossless_mtu, 9000, "MTU");
	WITH(ports, 0, "ports");
	WITH(oversubscribe, 0, "over-subscription");
#undef WITH
}

/* Everything at its largest: no overflow, no crash; refusals are fine. */
static void headroom_compute__extremes(void **state)
{
	struct headroom_in in = link_of(HEADROOM_LENGTH_MAX_M, HEADROOM_RATE_MAX_BPS / 1000000, HEADROOM_MTU_MAX);
	struct headroom_result r;
	struct headroom_plan plan;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	in.gearbox_ns = in.transponder_ns = HEADROOM_DELAY_MAX_NS;
	in.peer_quanta = HEADROOM_QUANTA_MAX;
	in.cell_bytes = HEADROOM_CELL_MAX;
	in.small_percent = 100;
	in.ports = HEADROOM_PORTS_MAX;
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		if (headroom_compute(m, &in, &r, why) == 0)
			assert_true(r.headroom_bytes > (uint64_t)1 << 33);
		headroom_plan_link(m, &in, &plan, why);
	}
	in.rtt_ns = HEADROOM_RTT_MAX_NS;
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		headroom_plan_link(m, &in, &plan, why);
}

/* 64 MiB at 1 Gbit/s, and 16 GiB at the same rate, which has a packet of more than the line serves in turns. */
static void headroom_deep__busy_queue_pairs(void **state)
{
	struct headroom_deep_in in = {
	    .rate_bps = 1000000000, .rtt_ns = 3000000, .capacity_bytes = 64 << 20, .alpha = 1, .flows = 1};
	char why[HEADROOM_ERROR_MAX];
	struct headroom_deep d;

	(void)state;
	assert_int_equal(headroom_deep(&in, &d, why), 0);
	assert_int_equal(d.qps_at_once, 963);   /* 64 MiB / 16 / 4,352 */
	assert_int_equal(d.qps_in_turns, 1049); /* 125 MB/s x 0.55 s / 64 KiB */
	in.capacity_bytes = 16ull << 30;
	assert_int_equal(headroom_deep(&in, &d, why), 0);
	assert_int_equal(d.qps_at_once, 246723);
	assert_int_equal(d.qps_in_turns, d.qps_at_once);
	in.rate_bps = 400000000000;
	in.capacity_bytes = 1ull << 30;
	assert_int_equal(headroom_deep(&in, &d, why), 0);
	assert_int_equal(d.qps_in_turns, 419616);
}

static void headroom_plan_link__times(void **state)
{
	struct headroom_in in = link_of(300000, 100000, 4200);
	struct headroom_plan p;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	assert_int_equal(headroom_plan_link(HEADROOM_PHYSICS, &in, &p, why), 0);
	assert_int_equal(p.one_way_ns, 1500000);
	assert_int_equal(p.bdp_bytes, 37500000); /* 100 Gbit/s x 3 ms */
	assert_int_equal(p.deep_buffer_bytes, 150000000);
	assert_int_equal(p.qps_at_once, 2154);
	assert_int_equal(p.qps_in_turns, 104904);
	assert_int_equal(p.pause_ns, 335539); /* 65535 x 512 bits at 100 Gbit/s */
	assert_int_equal(p.events[0].at_ns, 0);
	assert_int_equal(p.events[p.n_events - 1].at_ns, p.loop_ns);
	assert_true(p.loop_ns > 3000000 && p.loop_ns < 3010000);
	assert_true(p.pauses_in_flight == (p.loop_ns + p.refresh_ns - 1) / p.refresh_ns && p.pauses_in_flight > 1);
	assert_true(p.no_underrun_xon_bytes >= p.bdp_bytes);
	for (unsigned i = 1; i < p.n_events; i++)
		assert_true(p.events[i].at_ns >= p.events[i - 1].at_ns);
}

static void headroom_plan_link__pause_outlasts_a_short_link_at_400g(void **state)
{
	struct headroom_in near = link_of(1000, 400000, 4200), far = link_of(8400, 400000, 4200);
	struct headroom_plan p;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	assert_int_equal(headroom_plan_link(HEADROOM_PHYSICS, &near, &p, why), 0);
	assert_int_equal(p.pause_ns, 83884); /* 84 us */
	assert_true(p.loop_ns < p.pause_ns);
	assert_int_equal(headroom_plan_link(HEADROOM_PHYSICS, &far, &p, why), 0);
	assert_true(p.loop_ns > p.pause_ns);
}

static void headroom_plan_link__priorities_and_pool(void **state)
{
	struct headroom_in in = link_of(40, 400000, 9100);
	struct headroom_result large, small;
	struct headroom_plan p;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	in.priorities[0] = (struct headroom_priority){3, 9100};
	in.priorities[1] = (struct headroom_priority){5, 1500};
	in.ports = 4;
	in.oversubscribe = 2;
	assert_int_equal(headroom_plan_link(HEADROOM_PHYSICS, &in, &p, why), 0);
	in.lossless_mtu = 9100;
	headroom_compute(HEADROOM_PHYSICS, &in, &large, why);
	in.lossless_mtu = 1500;
	headroom_compute(HEADROOM_PHYSICS, &in, &small, why);
	assert_int_equal(p.n_priorities, 2);
	assert_int_equal(p.priorities[0].headroom_bytes, large.headroom_bytes);
	assert_int_equal(p.priorities[1].headroom_bytes, small.headroom_bytes);
	assert_int_equal(p.pool_bytes, (large.headroom_bytes + small.headroom_bytes) * 4 / 2);
	assert_int_equal(p.pool_pauses, p.pool_bytes / large.headroom_bytes);
}

/* sonic-swss buffer_pool_mellanox.lua: ceil((sum of xoff - 10 KiB per port) / over_subscribe_ratio) */
static void headroom_plan_link__sonic_pool(void **state)
{
	struct headroom_in in = link_of(40, 400000, 9100);
	struct headroom_plan p;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	in.asic = headroom_asic_find("spectrum-4");
	in.small_percent = 100;
	in.pool = true;
	in.ports = 32;
	in.oversubscribe = 3;
	assert_int_equal(headroom_plan_link(HEADROOM_SONIC_MELLANOX, &in, &p, why), 0);
	assert_int_equal(p.pool_bytes, (32ull * (2 * 283648 - 10240) + 2) / 3);
}

/* (8192 + 20) cells of 192 bytes on a port, two lossless priorities at 400G: 1.1 km. */
static void headroom_judge__spectrum_4_at_400g(void **state)
{
	struct headroom_in in = link_of(1000, 400000, 9100);
	struct headroom_verdict v;
	char why[HEADROOM_ERROR_MAX];

	(void)state;
	assert_int_equal(headroom_judge(headroom_asic_find("spectrum-4"), &in, &v, why), 0);
	assert_int_equal(v.limit_bytes, 8212 * 192);
	assert_true(v.fits && v.longest_m >= 1100 && v.longest_m < 1150);
	in.length_m = v.longest_m;
	assert_int_equal(headroom_judge(headroom_asic_find("spectrum-4"), &in, &v, why), 0);
	assert_true(v.fits);
	in.length_m = v.longest_m + 3; /* the script rounds to KiB, which is 2 m */
	assert_int_equal(headroom_judge(headroom_asic_find("spectrum-4"), &in, &v, why), 0);
	assert_false(v.fits);
	assert_true(headroom_judge(headroom_asic_find("tofino-2"), &in, &v, why) < 0);
}

static void headroom_model_find__names(void **state)
{
	(void)state;
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		assert_int_equal(headroom_model_find(headroom_model_name(m)), m);
		assert_true(strlen(headroom_model_source(m)) > 10);
	}
	assert_int_equal(headroom_model_find("sonic"), HEADROOM_MODELS);
	assert_null(headroom_asic_find("spectrum-7"));
	assert_ptr_equal(headroom_asic_find("spectrum-1"), headroom_asic_find("spectrum"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(headroom_compute__sonic_mellanox_is_the_script),
	    cmocka_unit_test(headroom_compute__sonic_mellanox_before_the_compensation),
	    cmocka_unit_test(headroom_compute__compensation_stays_below_the_worst_case),
	    cmocka_unit_test(headroom_compute__sonic_barefoot_is_the_script),
	    cmocka_unit_test(headroom_compute__mlx5_is_the_driver),
	    cmocka_unit_test(headroom_compute__mlx5_next_is_the_driver),
	    cmocka_unit_test(headroom_compute__annex_o_is_ixgbe),
	    cmocka_unit_test(headroom_compute__annex_o_delay_value),
	    cmocka_unit_test(headroom_compute__physics_by_hand),
	    cmocka_unit_test(headroom_compute__physics_cells),
	    cmocka_unit_test(headroom_compute__fields_agree),
	    cmocka_unit_test(headroom_compute__grows_with_the_line),
	    cmocka_unit_test(headroom_compute__measured_round_trip),
	    cmocka_unit_test(headroom_compute__what_a_driver_ignores_is_refused),
	    cmocka_unit_test(headroom_compute__nonsense_is_refused),
	    cmocka_unit_test(headroom_compute__extremes),
	    cmocka_unit_test(headroom_deep__busy_queue_pairs),
	    cmocka_unit_test(headroom_plan_link__times),
	    cmocka_unit_test(headroom_plan_link__pause_outlasts_a_short_link_at_400g),
	    cmocka_unit_test(headroom_plan_link__priorities_and_pool),
	    cmocka_unit_test(headroom_plan_link__sonic_pool),
	    cmocka_unit_test(headroom_judge__spectrum_4_at_400g),
	    cmocka_unit_test(headroom_model_find__names),
	};

	return cmocka_run_group_tests_name("headroom", tests, NULL, NULL);
}
