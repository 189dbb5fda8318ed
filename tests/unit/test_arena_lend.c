/* SPDX-License-Identifier: Apache-2.0 */
/* Slots lent to devices: blanks that become packets, and pinned slots whose bytes stay after they were freed. */
#include "arena_fixture.h"

enum { ROOM = 20 }; /* of a chunk more than its slots: pools of fix_open(, , 8, ) hold fewer */

static uint32_t fill(struct arena *a, enum slot_kind kind, uint64_t *pos)
{
	uint32_t n = 0;

	while (fix_put(a, kind, 1, 1, *pos, LAN_PKT_MAX) != SLOT_NONE) {
		++*pos;
		n++;
	}
	return n;
}

/* As a port and the core do it: the device writes first, the place comes afterwards. */
static uint32_t land(struct arena *a, uint32_t *blank, uint64_t pos, uint16_t len, uint16_t off)
{
	uint32_t slot = arena_alloc(a, SLOT_REQ_NEAR, 1, 1, pos, len), was = *blank;

	assert_int_not_equal(slot, SLOT_NONE);
	assert_int_equal(arena_find(a, SLOT_REQ_NEAR, 1, pos), slot); /* it may be remembered */
	memcpy(arena_data(a, was) + off, fix_bytes(arena_hdr(a, slot)), len);
	assert_true(arena_adopt(a, slot, was, off));
	assert_int_equal(arena_find(a, SLOT_REQ_NEAR, 1, pos), was);
	*blank = slot;
	arena_commit(a, was);
	return was;
}

static void blank__belongs_to_nobody(void **state)
{
	(void)state;
	const struct arena_class *large;
	struct fixture f;
	uint32_t blank, cursor = 0;
	uint64_t capacity;

	fix_open(&f, FIX_CHUNK, 8, 25);
	capacity = arena_capacity(f.a, POOL_LAN);
	blank = arena_blank(f.a, POOL_LAN);
	assert_int_not_equal(blank, SLOT_NONE);
	memset(arena_data(f.a, blank), 0x5a, ARENA_BLANK_BYTES);
	assert_int_equal(arena_used(f.a, POOL_LAN), 0);
	large = &f.a->lay.class[ARENA_LARGEST];
	assert_int_equal(arena_capacity(f.a, POOL_LAN),
	                 capacity - f.a->lay.chunk_bytes + large->nslots * large->stride - ARENA_BLANK_BYTES);
	assert_int_equal(arena_capacity(f.a, POOL_WAN), capacity);
	assert_int_equal(arena_next_committed(f.a, &cursor), SLOT_NONE);
	assert_int_equal(arena_audit(f.a), 0);
	arena_blank_return(f.a, blank);
	assert_int_equal(arena_capacity(f.a, POOL_LAN), capacity);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* As many packets fewer find a place as there are blanks, and no other pool or class pays. */
static void blank__is_no_room_for_packets(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t whole, blanks[ROOM];
	uint64_t pos = 0, room;

	fix_open(&f, FIX_CHUNK, 8, 25);
	whole = fill(f.a, SLOT_REQ_NEAR, &pos);
	while (pos)
		arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 1, --pos));
	for (unsigned i = 0; i < ROOM; i++)
		assert_int_not_equal(blanks[i] = arena_blank(f.a, POOL_LAN), SLOT_NONE);
	room = arena_room(f.a, POOL_LAN, LAN_PKT_MAX);
	assert_int_equal(room, (uint64_t)(whole - ROOM) * ARENA_BLANK_BYTES);
	assert_int_equal(fill(f.a, SLOT_REQ_NEAR, &pos), whole - ROOM);
	assert_int_equal(arena_blank(f.a, POOL_LAN), SLOT_NONE);
	assert_int_equal(arena_audit(f.a), 0);
	for (unsigned i = 0; i < ROOM; i++)
		arena_blank_return(f.a, blanks[i]);
	assert_int_equal(fill(f.a, SLOT_REQ_NEAR, &pos), ROOM);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

static void adopt__takes_the_place_of_the_slot(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t blank, first, second;

	fix_open(&f, FIX_CHUNK, 8, 25);
	blank = first = arena_blank(f.a, POOL_LAN);
	assert_int_equal(land(f.a, &blank, 7, 4180, 142), first);
	assert_int_not_equal(blank, first);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 7), first);
	assert_int_equal(arena_hdr(f.a, first)->data_off, 142);
	assert_int_equal(arena_used(f.a, POOL_LAN), ARENA_BLANK_BYTES);
	assert_int_equal(arena_blanks(f.a, POOL_LAN), 1);
	assert_int_equal(arena_audit(f.a), 0);
	second = blank;
	land(f.a, &blank, 8, 4100, 146);
	memset(arena_data(f.a, blank), 0xee, ARENA_BLANK_BYTES); /* a device writes what and when it likes */
	fix_check(f.a, first);
	fix_check(f.a, second);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_int_equal(fix_count_committed(f.a), 2);
	assert_int_equal(arena_blanks(f.a, POOL_LAN), 0);
	fix_check(f.a, first);
	fix_check(f.a, second);
	arena_free(f.a, first);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* A copied packet lies at the beginning of its slot, whatever landed there before. */
static void adopt__leaves_no_offset_behind(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t blank, slot;

	fix_open(&f, FIX_CHUNK, 8, 25);
	blank = arena_blank(f.a, POOL_LAN);
	slot = land(f.a, &blank, 7, 4180, 142);
	arena_free(f.a, slot);
	assert_int_equal(fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 9, LAN_PKT_MAX), slot);
	assert_int_equal(arena_hdr(f.a, slot)->data_off, 0);
	fix_check(f.a, slot);
	land(f.a, &blank, 10, 4180, 142);
	assert_int_equal(arena_hdr(f.a, blank)->data_off, 0);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* What does not fit is refused, and nothing has changed. */
static void adopt__refuses(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t lan, wan, small, large, committed;

	fix_open(&f, FIX_CHUNK, 8, 25);
	lan = arena_blank(f.a, POOL_LAN);
	wan = arena_blank(f.a, POOL_WAN);
	small = arena_alloc(f.a, SLOT_REQ_NEAR, 1, 1, 1, 60);
	large = arena_alloc(f.a, SLOT_REQ_NEAR, 1, 1, 2, LAN_PKT_MAX);
	committed = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 3, LAN_PKT_MAX);
	assert_false(arena_adopt(f.a, small, lan, 0));
	assert_false(arena_adopt(f.a, committed, lan, 0));
	assert_false(arena_adopt(f.a, large, wan, 0));
	assert_false(arena_adopt(f.a, large, committed, 0));
	assert_false(arena_adopt(f.a, large, large, 0));
	assert_false(arena_adopt(f.a, lan, lan, 0));
	assert_false(arena_adopt(f.a, large, lan, ARENA_HEADROOM + 1));
	assert_int_equal(arena_audit(f.a), 0);
	assert_true(arena_adopt(f.a, large, lan, ARENA_HEADROOM));
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* Blanks are neither freed nor committed as packets are, and no packet is returned as a blank. */
static void blank__misuse_is_ignored_and_seen(void **state)
{
	(void)state;
	for (unsigned which = 0; which < 5; which++) {
		struct fixture f;
		uint32_t blank, slot;

		fix_open(&f, FIX_CHUNK, 8, 25);
		blank = arena_blank(f.a, POOL_LAN);
		slot = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, LAN_PKT_MAX);
		if (which == 0)
			arena_free(f.a, blank);
		else if (which == 1)
			arena_commit(f.a, blank);
		else if (which == 2)
			arena_blank_return(f.a, slot);
		else if (which == 3)
			arena_unpin(f.a, slot);
		else
			arena_blank_return(f.a, UINT32_MAX - 1);
		assert_int_not_equal(arena_audit(f.a), 0);
		assert_int_equal(f.a->misused, 1);
		assert_int_equal(arena_hdr(f.a, blank)->state, SLOT_BLANK);
		assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 1), slot);
		fix_close(&f);
	}
}

/* Header and index at once, the bytes and the place when the last pin goes. */
static void pin__keeps_the_bytes_of_a_freed_slot(void **state)
{
	(void)state;
	static const uint16_t lens[] = {60, 1100, 2100, LAN_PKT_MAX};

	for (unsigned i = 0; i < 4; i++) {
		struct fixture f;
		uint32_t slot, other;
		uint64_t pos = 100;
		uint8_t sent[LAN_PKT_MAX];

		fix_open(&f, FIX_CHUNK, 8, 25);
		slot = fix_put(f.a, SLOT_REQ_FAR, 1, 1, 1, lens[i]);
		memcpy(sent, arena_data(f.a, slot), lens[i]);
		assert_true(arena_pin(f.a, slot));
		assert_true(arena_pin(f.a, slot));
		arena_free(f.a, slot);
		assert_int_equal(arena_hdr(f.a, slot)->state, SLOT_FREE);
		assert_int_equal(arena_find(f.a, SLOT_REQ_FAR, 1, 1), SLOT_NONE);
		assert_int_equal(arena_used(f.a, POOL_WAN), 0);
		assert_int_equal(arena_lent(f.a, POOL_WAN), arena_class_bytes(lens[i]));
		assert_int_equal(arena_audit(f.a), 0);
		while ((other = fix_put(f.a, SLOT_REQ_FAR, 1, 1, pos++, lens[i])) != SLOT_NONE)
			assert_int_not_equal(other, slot);
		assert_memory_equal(arena_data(f.a, slot), sent, lens[i]);
		arena_unpin(f.a, slot);
		assert_int_equal(fix_put(f.a, SLOT_REQ_FAR, 1, 1, pos, lens[i]), SLOT_NONE);
		arena_unpin(f.a, slot);
		assert_int_equal(arena_lent(f.a, POOL_WAN), 0);
		assert_int_equal(fix_put(f.a, SLOT_REQ_FAR, 1, 1, pos, lens[i]), slot);
		assert_int_equal(arena_audit(f.a), 0);
		fix_close(&f);
	}
}

/* A chunk goes to nobody else while a device reads from it. */
static void pin__keeps_the_chunk(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t slot;
	uint64_t pos = 0;

	fix_open(&f, FIX_CHUNK, 8, 10);
	slot = fix_put(f.a, SLOT_REQ_FAR, 1, 1, 1, 60);
	assert_true(arena_pin(f.a, slot));
	arena_free(f.a, slot);
	fill(f.a, SLOT_REQ_NEAR, &pos);
	assert_int_equal(f.a->owned[POOL_WAN], 1);
	assert_int_equal(arena_audit(f.a), 0);
	arena_unpin(f.a, slot);
	assert_int_equal(f.a->owned[POOL_WAN], 0);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

static void pin__of_what_is_not_committed_is_refused(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t filling, slot;

	fix_open(&f, FIX_CHUNK, 8, 25);
	filling = arena_alloc(f.a, SLOT_REQ_FAR, 1, 1, 1, 60);
	slot = fix_put(f.a, SLOT_REQ_FAR, 1, 1, 2, 60);
	assert_false(arena_pin(f.a, filling));
	assert_false(arena_pin(f.a, arena_blank(f.a, POOL_LAN)));
	for (unsigned i = 0; i < ARENA_PINS_MAX; i++)
		assert_true(arena_pin(f.a, slot));
	assert_false(arena_pin(f.a, slot));
	arena_free(f.a, slot);
	assert_false(arena_pin(f.a, slot));
	for (unsigned i = 0; i < ARENA_PINS_MAX; i++)
		arena_unpin(f.a, slot);
	assert_int_equal(arena_lent(f.a, POOL_WAN), 0);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

/* A rebuild knows nothing of devices: all that was lent is free. */
static void lent__is_free_after_a_kill(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t slot;
	uint64_t capacity;

	fix_open(&f, FIX_CHUNK, 8, 25);
	capacity = arena_capacity(f.a, POOL_LAN);
	for (unsigned i = 0; i < ROOM; i++)
		memset(arena_data(f.a, arena_blank(f.a, POOL_LAN)), 0x77, ARENA_BLANK_BYTES);
	slot = fix_put(f.a, SLOT_REQ_FAR, 1, 1, 1, 2000);
	assert_true(arena_pin(f.a, slot));
	arena_free(f.a, slot);
	fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 5, 2000);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_int_equal(fix_count_committed(f.a), 1);
	assert_int_equal(arena_lent(f.a, POOL_LAN) + arena_lent(f.a, POOL_WAN), 0);
	assert_int_equal(arena_capacity(f.a, POOL_LAN), capacity);
	fix_close(&f);
}

/* Everything in any order, held against the audit. */
static void lent__any_order(void **state)
{
	(void)state;
	enum { KEYS = 60, BLANKS = 12, PINS = 40 };
	struct rng r = rng_seeded(11);
	struct fixture f;
	uint32_t blanks[BLANKS], nblanks = 0, pins[PINS], npins = 0;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (unsigned step = 0; step < 20000; step++) {
		uint64_t pos = rng_below(&r, KEYS);
		uint32_t slot = arena_find(f.a, SLOT_REQ_NEAR, 1, pos), i = rng_below(&r, BLANKS);

		switch (rng_below(&r, 5)) {
		case 0:
			if (nblanks < BLANKS && (blanks[nblanks] = arena_blank(f.a, POOL_LAN)) != SLOT_NONE)
				memset(arena_data(f.a, blanks[nblanks++]), 0xbb, ARENA_BLANK_BYTES);
			break;
		case 1:
			if (nblanks && rng_below(&r, 4) == 0)
				arena_blank_return(f.a, blanks[--nblanks]);
			break;
		case 2:
			if (npins < PINS && slot != SLOT_NONE && arena_pin(f.a, slot))
				pins[npins++] = slot;
			else if (npins)
				arena_unpin(f.a, pins[--npins]);
			break;
		default:
			if (slot != SLOT_NONE) {
				fix_check(f.a, slot);
				arena_free(f.a, slot);
			} else if (i < nblanks && arena_room(f.a, POOL_LAN, 4180) > 0) {
				land(f.a, &blanks[i], pos, (uint16_t)(2177 + rng_below(&r, 2000)), 142);
				memset(arena_data(f.a, blanks[i]), 0xbb, ARENA_BLANK_BYTES);
			} else {
				fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos, (uint16_t)(1 + rng_below(&r, LAN_PKT_MAX)));
			}
		}
		if (step % 16 == 0)
			assert_int_equal(arena_audit(f.a), 0);
	}
	fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(blank__belongs_to_nobody),
	    cmocka_unit_test(blank__is_no_room_for_packets),
	    cmocka_unit_test(blank__misuse_is_ignored_and_seen),
	    cmocka_unit_test(adopt__takes_the_place_of_the_slot),
	    cmocka_unit_test(adopt__leaves_no_offset_behind),
	    cmocka_unit_test(adopt__refuses),
	    cmocka_unit_test(pin__keeps_the_bytes_of_a_freed_slot),
	    cmocka_unit_test(pin__keeps_the_chunk),
	    cmocka_unit_test(pin__of_what_is_not_committed_is_refused),
	    cmocka_unit_test(lent__is_free_after_a_kill),
	    cmocka_unit_test(lent__any_order),
	};

	return cmocka_run_group_tests_name("arena_lend", tests, NULL, NULL);
}
