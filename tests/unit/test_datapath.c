/* SPDX-License-Identifier: Apache-2.0 */
/* The small pure parts of the daemon's data path: checksum, rings, headers, kernel rules, sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>

#include "daemon/config/distance.c"
#include "daemon/config/host_groups.c"
#include "daemon/config/link_plan.c"
#include "daemon/util/spsc.h"
#include "daemon/lan/l4_csum.c"

/* --- UDP checksum --- */

static uint32_t fold_all(const uint8_t *l3, size_t addr_off, size_t addr_len, size_t udp)
{
	uint64_t sum = IPPROTO_UDP + get_be16(l3 + udp + 4);

	sum = sum_words(l3 + addr_off, addr_len, sum);
	sum = sum_words(l3 + udp, get_be16(l3 + udp + 4), sum);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint32_t)sum;
}

static void csum__known_packet(void **state)
{
	/* 10.0.0.1:1 -> 10.0.0.2:2, one byte 'a': worked out by hand:
	 * 0a00+0001+0a00+0002 + 0011+0009 + 0001+0002+0009+6100 = 0x7529, inverted 0x8ad6 */
	uint8_t p[29] = {0x45, 0,  0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0,  0,
	                 1,    10, 0, 0,  2, 0, 1, 0, 2,  0,  9, 9, 9,  'a'};

	(void)state;
	assert_true(l4_csum_fill(p, sizeof(p)));
	assert_int_equal(get_be16(p + 26), 0x8ad6);
}

static void csum__verifies_for_both_families_and_any_length(void **state)
{
	uint8_t p[200];

	(void)state;
	for (uint16_t n = 0; n < 100; n++) {
		for (size_t i = 0; i < sizeof(p); i++)
			p[i] = (uint8_t)(i * 37 + n * 11);
		p[0] = 0x45;
		p[9] = IPPROTO_UDP;
		put_be16(p + 2, (uint16_t)(28 + n));
		put_be16(p + 6, 0x4000);
		put_be16(p + 24, (uint16_t)(8 + n));
		assert_true(l4_csum_fill(p, 28u + n));
		assert_int_equal(fold_all(p, 12, 8, 20), 0xffff);
		p[0] = 0x60;
		p[6] = IPPROTO_UDP;
		put_be16(p + 4, (uint16_t)(8 + n));
		put_be16(p + 44, (uint16_t)(8 + n));
		assert_true(l4_csum_fill(p, 48u + n));
		assert_int_equal(fold_all(p, 8, 32, 40), 0xffff);
		assert_int_not_equal(get_be16(p + 46), 0);
	}
}

/* TCP's sum over the pseudo header and all of the segment, with an IP option in front of it. */
static void csum__tcp(void **state)
{
	uint8_t p[128];

	(void)state;
	for (uint16_t n = 0; n < 60; n++) {
		uint64_t sum = IPPROTO_TCP + 20u + n;

		for (size_t i = 0; i < sizeof(p); i++)
			p[i] = (uint8_t)(i * 37 + n * 11);
		p[0] = 0x46;
		p[9] = IPPROTO_TCP;
		put_be16(p + 2, (uint16_t)(24 + 20 + n));
		put_be16(p + 6, 0);
		assert_true(l4_csum_fill(p, 64u + n));
		sum = sum_words(p + 12, 8, sum);
		sum = sum_words(p + 24, 20u + n, sum);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		assert_int_equal(sum, 0xffff);
	}
	put_be16(p + 6, 0x2000); /* a fragment: the sum is over more than this */
	assert_false(l4_csum_fill(p, sizeof(p)));
}

static void csum__refuses_what_it_does_not_understand(void **state)
{
	uint8_t p[64] = {0x45, [3] = 64, [9] = 132}, copy[64];

	(void)state;
	memcpy(copy, p, sizeof(p));
	assert_false(l4_csum_fill(p, sizeof(p))); /* SCTP */
	p[9] = copy[9] = IPPROTO_UDP;
	put_be16(p + 24, 60); /* longer than the packet */
	put_be16(copy + 24, 60);
	assert_false(l4_csum_fill(p, sizeof(p)));
	put_be16(p + 24, 7); /* shorter than its header */
	put_be16(copy + 24, 7);
	assert_false(l4_csum_fill(p, sizeof(p)));
	assert_false(l4_csum_fill(p, 27));
	assert_memory_equal(p, copy, sizeof(p));
}

/* --- ring --- */

static void spsc__full_and_empty(void **state)
{
	struct spsc q;
	uint32_t v;

	(void)state;
	assert_true(spsc_init(&q, 4, sizeof(v)));
	assert_false(spsc_take(&q, &v));
	for (uint32_t round = 0; round < 10; round++) {
		for (v = 0; v < 4; v++)
			assert_true(spsc_put(&q, &v));
		assert_false(spsc_put(&q, &v));
		for (uint32_t want = 0; want < 4; want++) {
			assert_true(spsc_take(&q, &v));
			assert_int_equal(v, want);
		}
		assert_false(spsc_take(&q, &v));
	}
	spsc_free(&q);
}

enum { SPSC_ITEMS = 200000 };

static void *produce(void *arg)
{
	for (uint32_t i = 0; i < SPSC_ITEMS;)
		i += spsc_put(arg, &i);
	return NULL;
}

static void spsc__two_threads_keep_order(void **state)
{
	struct spsc q;
	pthread_t t;
	uint32_t v;

	(void)state;
	assert_true(spsc_init(&q, 64, sizeof(v)));
	assert_int_equal(pthread_create(&t, NULL, produce, &q), 0);
	for (uint32_t want = 0; want < SPSC_ITEMS;) {
		if (!spsc_take(&q, &v))
			continue;
		assert_int_equal(v, want);
		want++;
	}
	pthread_join(t, NULL);
	spsc_free(&q);
}

/* --- sizes --- */

static struct link_config config_of(uint64_t rate_bps, uint64_t distance_m, uint32_t workers)
{
	struct link_config c = {.npaths = 1, .distance_m = distance_m, .workers = workers, .max_flows = 1024};

	c.paths[0].remote.b[10] = c.paths[0].remote.b[11] = 0xff;
	c.paths[0].mtu = 9000;
	c.paths[0].rate_bps = rate_bps;
	c.paths[0].weight = 1;
	return c;
}

static void plan__rtt_follows_the_fibre(void **state)
{
	struct link_config c = config_of(1000000000, 300000, 1);

	(void)state;
	assert_int_equal(link_plan_rtt_ns(&c), 3000000 + 200000);
	c.distance_m = 0;
	assert_int_equal(link_plan_rtt_ns(&c), 10000000 + 200000);
}

/* Beside the buffer: what each flow takes in the arena. */
static uint64_t tables_of(const struct arena_geometry *g)
{
	return g->max_flows * (FP_RING * sizeof(uint32_t) + 1024);
}

static void plan__tables_are_beside_the_buffer(void **state)
{
	struct link_config c = config_of(1000000000, 1000, 1);
	struct arena_geometry g;

	(void)state;
	for (uint32_t flows = 16; flows <= 1 << 16; flows *= 4) {
		c.max_flows = flows;
		g = link_plan_geometry(&c);
		assert_in_range(g.len - g.max_flows * FP_RING * sizeof(uint32_t), 64 << 20,
		                (64 << 20) + (uint64_t)flows * 2048 + (1 << 20));
	}
}

static void plan__arena_is_four_bdp_each_way(void **state)
{
	struct link_config c = config_of(400000000000ull, 1000000, 1);
	uint64_t bdp = 400000000000ull / 8 / 1000 * 10200 / 1000;
	struct arena_geometry g;

	(void)state;
	g = link_plan_geometry(&c);
	assert_in_range(g.len, 8 * bdp + tables_of(&g), 8 * bdp + 2 * tables_of(&g) + (2 << 20));
	c.workers = 4;
	g = link_plan_geometry(&c);
	assert_in_range(g.len, 2 * bdp + tables_of(&g), 2 * bdp + 2 * tables_of(&g) + (2 << 20));
	assert_int_equal(link_plan_geometry(&c).chunk_size, 2 << 20);
}

static void plan__small_arenas_get_small_chunks(void **state)
{
	struct link_config c = config_of(1000000000, 1000, 1);
	struct arena_geometry g = link_plan_geometry(&c);

	(void)state;
	assert_in_range(g.len, (64 << 20) + tables_of(&g), (64 << 20) + 2 * tables_of(&g));
	assert_int_equal(g.chunk_size, 512 << 10);
	c.arena_bytes = 16 << 20;
	c.max_flows = 64;
	g = link_plan_geometry(&c);
	assert_in_range(g.len, (16 << 20) + tables_of(&g), (16 << 20) + 2 * tables_of(&g) + g.chunk_size);
	assert_int_equal(g.chunk_size, 128 << 10);
	c.workers = 16;
	g = link_plan_geometry(&c);
	assert_int_equal(g.chunk_size, 64 << 10);
	assert_true(g.len >= arena_min_len(g.chunk_size, g.max_flows));
	assert_true(arena_heap_size(&g) > 0);
}

static void plan__flows_leave_room_for_hash_luck(void **state)
{
	struct link_config c = config_of(1000000000, 1000, 1);

	(void)state;
	assert_int_equal(link_plan_geometry(&c).max_flows, 1024);
	c.workers = 4;
	assert_int_equal(link_plan_geometry(&c).max_flows, 512);
	c.max_flows = 16;
	assert_int_equal(link_plan_geometry(&c).max_flows, 16);
}

static void plan__core_gets_the_file_s_values(void **state)
{
	struct link_config c = config_of(1000000000, 1000, 2);
	struct wan_pacer pacers[PATHS_MAX];
	struct proxy_config p;

	(void)state;
	c.lanes = 64;
	c.ack_mode = ACK_MODE_NEAR;
	c.stall_ns = 77;
	p = link_plan_proxy(&c, 1, pacers);
	assert_int_equal(p.shard, 1);
	assert_int_equal(p.nshards, 2);
	assert_int_equal(p.nlanes, 64);
	assert_int_equal(p.mode, ACK_MODE_NEAR);
	assert_int_equal(p.stall_ns, 77);
	assert_int_equal(p.path[0].payload_max, 8972);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(csum__known_packet),
	    cmocka_unit_test(csum__verifies_for_both_families_and_any_length),
	    cmocka_unit_test(csum__tcp),
	    cmocka_unit_test(csum__refuses_what_it_does_not_understand),
	    cmocka_unit_test(spsc__full_and_empty),
	    cmocka_unit_test(spsc__two_threads_keep_order),
	    cmocka_unit_test(plan__rtt_follows_the_fibre),
	    cmocka_unit_test(plan__tables_are_beside_the_buffer),
	    cmocka_unit_test(plan__arena_is_four_bdp_each_way),
	    cmocka_unit_test(plan__small_arenas_get_small_chunks),
	    cmocka_unit_test(plan__flows_leave_room_for_hash_luck),
	    cmocka_unit_test(plan__core_gets_the_file_s_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
