/* SPDX-License-Identifier: Apache-2.0 */
/* Flow descriptors: two copies, of which one is whole at every instant; and the fingerprint rings. */
#include "arena_fixture.h"

enum { LEN = 208 };

/* Contents that tell table, index and version. */
static void make_desc(uint8_t *d, enum desc_table t, uint32_t idx, uint32_t version)
{
	for (uint32_t i = 0; i < LEN; i++)
		d[i] = (uint8_t)(version * 101 + idx * 13 + (uint32_t)t * 7 + i);
}

static void store(struct fixture *f, enum desc_table t, uint32_t idx, uint32_t version)
{
	uint8_t d[LEN];

	make_desc(d, t, idx, version);
	arena_desc_store(f->a, t, idx, d, LEN);
}

static void assert_version(struct fixture *f, enum desc_table t, uint32_t idx, uint32_t version)
{
	uint8_t want[LEN], got[LEN];

	make_desc(want, t, idx, version);
	assert_true(arena_desc_load(f->a, t, idx, got, LEN));
	assert_memory_equal(want, got, LEN);
}

static struct arena_desc_copy *copy_of(struct fixture *f, enum desc_table t, uint32_t idx, unsigned which)
{
	return &f->a->desc[2 * ((uint32_t)t * FIX_FLOWS + idx) + which];
}

/* Which copy the last store went to. */
static unsigned newest_copy(struct fixture *f, enum desc_table t, uint32_t idx)
{
	return f->a->desc_seq[(uint32_t)t * FIX_FLOWS + idx] & 1;
}

static void desc_load__nothing_stored(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t d[LEN];

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (uint32_t idx = 0; idx < FIX_FLOWS; idx++) {
		assert_false(arena_desc_load(f.a, DESC_NEAR, idx, d, LEN));
		assert_false(arena_desc_load(f.a, DESC_FAR, idx, d, LEN));
	}
	assert_false(arena_desc_load(f.a, DESC_NEAR, FIX_FLOWS, d, LEN));
	assert_false(arena_desc_load(f.a, DESC_TABLES, 0, d, LEN));
	assert_int_equal(arena_audit(f.a), 0);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_false(arena_desc_load(f.a, DESC_FAR, FIX_FLOWS - 1, d, LEN));
	fix_close(&f);
}

static void desc_store__each_place_has_its_own(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (uint32_t version = 1; version < 6; version++) {
		for (uint32_t idx = 0; idx < FIX_FLOWS; idx++) {
			store(&f, DESC_NEAR, idx, version + idx % 3);
			store(&f, DESC_FAR, idx, version);
		}
		if (version % 2)
			fix_reattach(&f);
		for (uint32_t idx = 0; idx < FIX_FLOWS; idx++) {
			assert_version(&f, DESC_NEAR, idx, version + idx % 3);
			assert_version(&f, DESC_FAR, idx, version);
		}
	}
	assert_int_equal(arena_damaged(f.a), 0);
	fix_close(&f);
}

static void desc_load__other_lengths(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t d[ARENA_DESC_MAX], full[ARENA_DESC_MAX], zero[ARENA_DESC_MAX] = {0};

	fix_open(&f, FIX_CHUNK, 8, 25);
	memset(full, 0x77, sizeof(full));
	arena_desc_store(f.a, DESC_NEAR, 1, full, sizeof(full));
	memset(d, 0, sizeof(d));
	assert_true(arena_desc_load(f.a, DESC_NEAR, 1, d, sizeof(d)));
	assert_memory_equal(d, full, sizeof(d));
	/* A shorter one over a longer one, twice, so that both copies had the long one. */
	arena_desc_store(f.a, DESC_NEAR, 1, full, sizeof(full));
	arena_desc_store(f.a, DESC_NEAR, 1, full, 10);
	memset(d, 0xff, sizeof(d));
	assert_true(arena_desc_load(f.a, DESC_NEAR, 1, d, sizeof(d)));
	assert_memory_equal(d, full, 10);
	assert_memory_equal(d + 10, zero, sizeof(d) - 10);
	/* Asked for less: no more is written. */
	memset(d, 0xff, sizeof(d));
	assert_true(arena_desc_load(f.a, DESC_NEAR, 1, d, 4));
	assert_int_equal(d[3], 0x77);
	assert_int_equal(d[4], 0xff);
	fix_close(&f);
}

static void desc_store__bad_arguments_write_nothing_and_are_seen(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t big[ARENA_DESC_MAX + 1] = {0};

	fix_open(&f, FIX_CHUNK, 8, 25);
	store(&f, DESC_NEAR, 0, 1);
	arena_desc_store(f.a, DESC_NEAR, 0, big, sizeof(big));
	assert_version(&f, DESC_NEAR, 0, 1);
	assert_int_not_equal(arena_audit(f.a), 0);
	arena_desc_store(f.a, DESC_NEAR, FIX_FLOWS, big, 10);
	arena_desc_store(f.a, DESC_FAR, FIX_FLOWS, big, 10);
	arena_desc_store(f.a, DESC_TABLES, 0, big, 10);
	fix_reattach(&f);
	assert_false(arena_desc_load(f.a, DESC_FAR, 0, big, 10));
	fix_close(&f);
}

/* Any flipped bit in the newest copy: the one before counts, before and after a restart, and storing goes on. */
static void desc_load__damaged_copy_falls_back_to_the_other(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	store(&f, DESC_FAR, 3, 0);
	for (unsigned bit = 0; bit < (16 + LEN) * 8; bit++) {
		uint8_t *byte;

		/* An odd step, so that both copies have their turn in being the newest. */
		store(&f, DESC_FAR, 3, 3 * bit + 1);
		store(&f, DESC_FAR, 3, 3 * bit + 2);
		if (bit / 3 % 2)
			store(&f, DESC_FAR, 3, 3 * bit + 3);
		byte = (uint8_t *)copy_of(&f, DESC_FAR, 3, newest_copy(&f, DESC_FAR, 3)) + bit / 8;
		*byte ^= (uint8_t)(1u << bit % 8);
		assert_version(&f, DESC_FAR, 3, 3 * bit + (bit / 3 % 2 ? 2 : 1));
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 1);
		assert_version(&f, DESC_FAR, 3, 3 * bit + (bit / 3 % 2 ? 2 : 1));
	}
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	fix_close(&f);
}

/* The same in the older copy changes nothing but the count. */
static void desc_load__damage_in_the_older_copy(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	store(&f, DESC_NEAR, 3, 1);
	store(&f, DESC_NEAR, 3, 2);
	copy_of(&f, DESC_NEAR, 3, !newest_copy(&f, DESC_NEAR, 3))->data[5] ^= 1;
	assert_version(&f, DESC_NEAR, 3, 2);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 1);
	assert_version(&f, DESC_NEAR, 3, 2);
	store(&f, DESC_NEAR, 3, 3);
	assert_version(&f, DESC_NEAR, 3, 3);
	fix_close(&f);
}

static void desc_load__both_damaged_is_none(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t d[LEN];

	fix_open(&f, FIX_CHUNK, 8, 25);
	store(&f, DESC_NEAR, 3, 1);
	store(&f, DESC_NEAR, 3, 2);
	copy_of(&f, DESC_NEAR, 3, 0)->data[5] ^= 1;
	copy_of(&f, DESC_NEAR, 3, 1)->len = 9999;
	assert_false(arena_desc_load(f.a, DESC_NEAR, 3, d, LEN));
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 2);
	assert_false(arena_desc_load(f.a, DESC_NEAR, 3, d, LEN));
	store(&f, DESC_NEAR, 3, 7);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_version(&f, DESC_NEAR, 3, 7);
	fix_close(&f);
}

/* A store cut short after any number of bytes: not damage, the one before counts. */
static void desc_store__cut_short_is_no_damage(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (unsigned cut = 0; cut <= LEN; cut += 8) {
		struct arena_desc_copy *c;
		uint8_t d[LEN];

		store(&f, DESC_NEAR, 3, cut);
		c = copy_of(&f, DESC_NEAR, 3, !newest_copy(&f, DESC_NEAR, 3));
		make_desc(d, DESC_NEAR, 3, cut + 1);
		c->word = 0;
		memcpy(c->data, d, cut);
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 0);
		assert_version(&f, DESC_NEAR, 3, cut);
	}
	fix_close(&f);
}

static void desc_load__a_copy_in_the_wrong_place_is_not_believed(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t d[LEN];

	fix_open(&f, FIX_CHUNK, 8, 25);
	store(&f, DESC_NEAR, 3, 1);
	*copy_of(&f, DESC_NEAR, 4, 1) = *copy_of(&f, DESC_NEAR, 3, 1);
	*copy_of(&f, DESC_FAR, 3, 1) = *copy_of(&f, DESC_NEAR, 3, 1);
	*copy_of(&f, DESC_NEAR, 3, 0) = *copy_of(&f, DESC_NEAR, 3, 1);
	assert_false(arena_desc_load(f.a, DESC_NEAR, 4, d, LEN));
	assert_false(arena_desc_load(f.a, DESC_FAR, 3, d, LEN));
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 3);
	assert_version(&f, DESC_NEAR, 3, 1);
	fix_close(&f);
}

static void desc_store__sequence_wraps(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	f.a->desc_seq[3] = UINT32_MAX - 5;
	for (uint32_t version = 1; version < 20; version++) {
		store(&f, DESC_NEAR, 3, version);
		assert_version(&f, DESC_NEAR, 3, version);
		if (version % 3 == 0)
			fix_reattach(&f);
		assert_version(&f, DESC_NEAR, 3, version);
	}
	assert_int_equal(arena_damaged(f.a), 0);
	assert_true(f.a->desc_seq[3] < 100);
	fix_close(&f);
}

static void format__forgets_descriptors(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t d[LEN];

	fix_open(&f, FIX_CHUNK, 8, 25);
	store(&f, DESC_NEAR, 3, 1);
	memset(f.heap, 0, arena_heap_size(&f.g));
	assert_int_equal(arena_format(&f.a, f.region, &f.g, FIX_EPOCH, f.heap), 0);
	assert_false(arena_desc_load(f.a, DESC_NEAR, 3, d, LEN));
	fix_reattach(&f);
	assert_false(arena_desc_load(f.a, DESC_NEAR, 3, d, LEN));
	fix_close(&f);
}

/* Rings do not overlap each other or anything else, and survive. */
static void fingerprints__one_ring_per_flow(void **state)
{
	(void)state;
	struct fixture f;
	uint64_t pos = 0;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (uint32_t idx = 0; idx < FIX_FLOWS; idx++) {
		store(&f, DESC_NEAR, idx, 5);
		store(&f, DESC_FAR, idx, 6);
	}
	while (fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos, 4000) != SLOT_NONE)
		pos++;
	for (uint32_t idx = 0; idx < FIX_FLOWS; idx++)
		for (uint32_t i = 0; i < FP_RING; i++)
			arena_fingerprints(f.a, idx)[i] = idx << 16 | i;
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_int_equal(fix_count_committed(f.a), pos);
	for (uint32_t idx = 0; idx < FIX_FLOWS; idx++) {
		assert_version(&f, DESC_NEAR, idx, 5);
		assert_version(&f, DESC_FAR, idx, 6);
		for (uint32_t i = 0; i < FP_RING; i++)
			assert_int_equal(arena_fingerprints(f.a, idx)[i], idx << 16 | i);
	}
	fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(desc_load__nothing_stored),
	    cmocka_unit_test(desc_store__each_place_has_its_own),
	    cmocka_unit_test(desc_load__other_lengths),
	    cmocka_unit_test(desc_store__bad_arguments_write_nothing_and_are_seen),
	    cmocka_unit_test(desc_load__damaged_copy_falls_back_to_the_other),
	    cmocka_unit_test(desc_load__damage_in_the_older_copy),
	    cmocka_unit_test(desc_load__both_damaged_is_none),
	    cmocka_unit_test(desc_store__cut_short_is_no_damage),
	    cmocka_unit_test(desc_load__a_copy_in_the_wrong_place_is_not_believed),
	    cmocka_unit_test(desc_store__sequence_wraps),
	    cmocka_unit_test(format__forgets_descriptors),
	    cmocka_unit_test(fingerprints__one_ring_per_flow),
	};

	return cmocka_run_group_tests_name("arena_desc", tests, NULL, NULL);
}
