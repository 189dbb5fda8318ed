/* SPDX-License-Identifier: Apache-2.0 */
/* Taking up an arena that someone left: what is believed, what is dropped, and that a kill at any moment loses nothing
 * that was committed. */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena_fixture.h"

/* --- superblock --- */

static int try_attach(struct fixture *f)
{
	fix_new_heap(f);
	return arena_attach(&f->a, f->region, &f->g, f->heap);
}

/* Attach refuses with rc and leaves every byte of the region as it was. */
static void assert_refused(struct fixture *f, int rc)
{
	uint8_t *before = malloc(f->g.len);

	assert_non_null(before);
	memcpy(before, f->region, f->g.len);
	assert_int_equal(try_attach(f), rc);
	assert_null(f->a);
	assert_memory_equal(before, f->region, f->g.len);
	free(before);
}

static void attach__no_arena_there(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	memset(f.region, 0, f.g.len);
	assert_refused(&f, -ENOENT);
	memset(f.region, 0xff, f.g.len);
	assert_refused(&f, -ENOENT);
	fix_close(&f);
}

/* The version is told even if the rest of the superblock has moved. */
static void attach__unknown_version_is_left_alone(void **state)
{
	(void)state;
	struct fixture f;
	struct arena_superblock *s;

	fix_open(&f, FIX_CHUNK, 8, 25);
	fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 1000);
	s = (void *)f.region;
	s->layout = ARENA_LAYOUT_VERSION + 1;
	s->crc ^= 0x1234;
	assert_refused(&f, -EPROTO);
	fix_close(&f);
}

static void attach__other_geometry_is_left_alone(void **state)
{
	(void)state;
	struct fixture f;
	struct arena_geometry good;

	fix_open(&f, FIX_CHUNK, 16, 25);
	good = f.g;
	f.g.len -= FIX_CHUNK;
	assert_refused(&f, -EINVAL);
	f.g = good;
	f.g.max_flows--;
	assert_refused(&f, -EINVAL);
	f.g = good;
	f.g.chunk_size = 1 << 17;
	f.g.max_flows = 2;
	assert_refused(&f, -EINVAL);
	f.g = good;
	f.g.chunk_size = 3;
	assert_int_equal(arena_attach(&f.a, f.region, &f.g, f.heap), -EINVAL);
	f.g = good;
	assert_int_equal(arena_attach(&f.a, f.region + 8, &f.g, f.heap), -EINVAL);
	fix_close(&f);
}

static void attach__each_bit_of_the_superblock_counts(void **state)
{
	(void)state;
	struct fixture f;
	uint8_t *heap;

	fix_open(&f, FIX_CHUNK, 8, 25);
	heap = f.heap;
	for (unsigned bit = 0; bit < 64 * 8; bit++) {
		int rc;

		memset(heap, 0, arena_heap_size(&f.g));
		f.region[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rc = arena_attach(&f.a, f.region, &f.g, heap);
		assert_int_equal(rc, bit < 64 ? -ENOENT : bit < 96 ? -EPROTO : -EINVAL);
		f.region[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(try_attach(&f), 0);
	fix_close(&f);
}

static void attach__reserve_may_change(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	f.g.reserve_percent = 50;
	fix_reattach(&f);
	assert_int_equal(f.a->reserve, 4);
	fix_close(&f);
}

/* --- what is found --- */

static void attach__finds_what_was_committed(void **state)
{
	(void)state;
	struct fixture f;
	struct slot_hdr *h;
	uint32_t slot;

	fix_open(&f, FIX_CHUNK, 8, 25);
	slot = arena_alloc(f.a, SLOT_RESP_FAR, 3, 4, 1ull << 33, 2000);
	fix_fill(f.a, slot);
	h = arena_hdr(f.a, slot);
	h->opcode = 0x0a;
	h->psns = 17;
	h->msn = 0xabcdef;
	h->fp = 0xdeadbeef;
	h->flags = SF_ACK_REQ | SF_MSG_END;
	h->vlan_tci = 0x2064;
	arena_commit(f.a, slot);
	fix_reattach(&f);
	assert_int_equal(arena_epoch(f.a), FIX_EPOCH);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_int_equal(arena_find(f.a, SLOT_RESP_FAR, 3, 1ull << 33), slot);
	h = arena_hdr(f.a, slot);
	assert_int_equal(h->psns, 17);
	assert_int_equal(h->msn, 0xabcdef);
	assert_int_equal(h->fp, 0xdeadbeef);
	assert_int_equal(h->inc, 4);
	assert_int_equal(h->vlan_tci, 0x2064);
	assert_int_equal(arena_meta(f.a, slot)->next, SLOT_NONE);
	fix_check(f.a, slot);
	assert_int_equal(arena_used(f.a, POOL_LAN), 2176);
	assert_int_equal(fix_count_committed(f.a), 1);
	fix_close(&f);
}

static void attach__frees_filling_and_raw(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t kept;

	fix_open(&f, FIX_CHUNK, 8, 25);
	arena_alloc(f.a, SLOT_REQ_NEAR, 1, 1, 1, 100);
	fix_put(f.a, SLOT_RAW_LAN, 2, 1, 1, 100);
	kept = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 2, 100);
	fix_put(f.a, SLOT_RAW_WAN, 2, 1, 1, 4000);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_int_equal(fix_count_committed(f.a), 1);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 2), kept);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 1), SLOT_NONE);
	assert_int_equal(arena_find(f.a, SLOT_RAW_LAN, 2, 1), SLOT_NONE);
	assert_int_equal(arena_used(f.a, POOL_LAN), 512);
	assert_int_equal(arena_used(f.a, POOL_WAN), 0);
	fix_reattach(&f);
	assert_int_equal(fix_count_committed(f.a), 1);
	fix_close(&f);
}

static void attach__twice_is_the_same_and_work_goes_on(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t n = 0;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (uint64_t pos = 0; pos < 40; pos++)
		fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos, 4156);
	for (uint64_t pos = 0; pos < 40; pos += 2)
		arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 1, pos));
	fix_reattach(&f);
	fix_reattach(&f);
	assert_int_equal(fix_count_committed(f.a), 20);
	/* The holes are used again before new chunks are. */
	for (uint64_t pos = 100; pos < 122; pos++)
		n += fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos, 4156) != SLOT_NONE;
	assert_int_equal(n, 22);
	assert_int_equal(f.a->owned[POOL_LAN], 3);
	assert_int_equal(arena_audit(f.a), 0);
	fix_close(&f);
}

static void attach__empty_chunks_are_free_for_all(void **state)
{
	(void)state;
	struct fixture f;
	uint32_t n = 0;

	fix_open(&f, FIX_CHUNK, 8, 10);
	for (uint64_t pos = 0; fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos, 512) != SLOT_NONE; pos++)
		n++;
	while (n)
		arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 1, --n));
	fix_reattach(&f);
	while (fix_put(f.a, SLOT_REQ_FAR, 1, 1, n, 4224) != SLOT_NONE)
		n++;
	assert_int_equal(n, 7 * (FIX_CHUNK / (ARENA_BLANK_BYTES + 64)));
	fix_close(&f);
}

/* --- what is not believed --- */

/* Any flipped bit of a committed header: the slot is dropped and counted once, its neighbours stay. */
static void attach__a_damaged_header_is_counted_and_dropped(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (unsigned bit = 0; bit < 64 * 8; bit++) {
		uint32_t slot, other;
		bool to_free = bit == 1; /* SLOT_COMMITTED to SLOT_FREE: cannot be told from a free slot */

		memset(f.heap, 0, arena_heap_size(&f.g));
		assert_int_equal(arena_format(&f.a, f.region, &f.g, 1, f.heap), 0);
		slot = fix_put(f.a, SLOT_REQ_FAR, 1, 1, 8, 300);
		other = fix_put(f.a, SLOT_REQ_FAR, 1, 1, 9, 300);
		((uint8_t *)arena_hdr(f.a, slot))[bit / 8] ^= (uint8_t)(1u << bit % 8);
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), to_free ? 0 : 1);
		assert_int_equal(arena_find(f.a, SLOT_REQ_FAR, 1, 8), SLOT_NONE);
		assert_int_equal(arena_find(f.a, SLOT_REQ_FAR, 1, 9), other);
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 0);
		assert_int_equal(fix_count_committed(f.a), 1);
	}
	fix_close(&f);
}

/* A header of another life, with a CRC that is right, lies where a new chunk begins its own. */
static void attach__headers_of_an_earlier_life_do_not_count(void **state)
{
	(void)state;
	static const uint16_t lens[] = {512, 4224, 1152, 512, 2176, 512};
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		uint32_t slot;

		for (uint64_t pos = 0; fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos, lens[i]) != SLOT_NONE; pos++)
			;
		memset(f.heap, 0, arena_heap_size(&f.g));
		assert_int_equal(arena_format(&f.a, f.region, &f.g, i, f.heap), 0);
		assert_int_equal(fix_count_committed(f.a), 0);
		slot = fix_put(f.a, SLOT_REQ_NEAR, 2, 2, 2, lens[i]);
		fix_reattach(&f);
		assert_int_equal(arena_epoch(f.a), i);
		assert_int_equal(arena_damaged(f.a), 0);
		assert_int_equal(fix_count_committed(f.a), 1);
		assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 2, 2), slot);
	}
	fix_close(&f);
}

/* Packets whose bytes are whole arrays of believable headers, freed, and then the chunk gets a class with more
 * headers. */
static void attach__data_that_looks_like_headers_does_not_count(void **state)
{
	(void)state;
	struct fixture f;
	struct slot_hdr forged;
	uint32_t slot;

	fix_open(&f, FIX_CHUNK, 8, 10);
	forged = *arena_hdr(f.a, fix_put(f.a, SLOT_REQ_NEAR, 9, 1, 9, 512));
	arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 9, 9));
	for (uint64_t pos = 0; (slot = arena_alloc(f.a, SLOT_REQ_FAR, 1, 1, pos, 4224)) != SLOT_NONE; pos++) {
		for (unsigned i = 0; i < 66; i++)
			memcpy(arena_data(f.a, slot) + i * 64, &forged, 64);
		arena_commit(f.a, slot);
	}
	for (uint64_t pos = 0; (slot = arena_find(f.a, SLOT_REQ_FAR, 1, pos)) != SLOT_NONE; pos++)
		arena_free(f.a, slot);
	for (uint64_t pos = 0; pos < 7; pos++)
		for (unsigned i = 0; i < FIX_CHUNK / 576; i++)
			fix_put(f.a, SLOT_REQ_NEAR, 1, 1, pos * 1000 + i, 512);
	for (uint64_t pos = 0; pos < 7; pos++)
		for (unsigned i = 1; i < FIX_CHUNK / 576; i++)
			arena_free(f.a, arena_find(f.a, SLOT_REQ_NEAR, 1, pos * 1000 + i));
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 0);
	assert_int_equal(fix_count_committed(f.a), 7);
	assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 9, 9), SLOT_NONE);
	fix_close(&f);
}

/* A header that is right in itself, but of another pool, class or table size than its place. */
static void attach__a_header_in_the_wrong_place_is_dropped(void **state)
{
	(void)state;
	static const struct {
		enum slot_kind kind;
		uint32_t flow;
		uint16_t len;
	} wrong[] = {{SLOT_REQ_FAR, 1, 512}, {SLOT_REQ_NEAR, 1, 513}, {SLOT_REQ_NEAR, FIX_FLOWS, 512}};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct fixture f;
		uint32_t from, to;

		fix_open(&f, FIX_CHUNK, 8, 25);
		to = fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 512);
		from = fix_put(f.a, wrong[i].kind, wrong[i].flow, 1, 2, wrong[i].len);
		*arena_hdr(f.a, to) = *arena_hdr(f.a, from);
		if (from >> f.a->lay.shift != to >> f.a->lay.shift)
			arena_hdr(f.a, from)->state = SLOT_FREE;
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), wrong[i].flow < FIX_FLOWS ? 1 : 2);
		assert_int_equal(fix_count_committed(f.a), 0);
		fix_close(&f);
	}
}

static void attach__of_duplicates_the_younger_incarnation_stays(void **state)
{
	(void)state;
	for (unsigned order = 0; order < 2; order++) {
		struct fixture f;
		uint32_t first, second;

		fix_open(&f, FIX_CHUNK, 8, 25);
		first = fix_put(f.a, SLOT_REQ_NEAR, 1, order ? 2 : 1, 5, 512);
		second = fix_put(f.a, SLOT_REQ_NEAR, 1, order ? 1 : 2, 5, order ? 512 : 4000);
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 0);
		assert_int_equal(fix_count_committed(f.a), 1);
		assert_int_equal(arena_find(f.a, SLOT_REQ_NEAR, 1, 5), order ? first : second);
		assert_int_equal(arena_hdr(f.a, order ? first : second)->inc, 2);
		fix_close(&f);
	}
}

static void attach__the_same_position_twice_is_damage(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 5, 512);
	fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 5, 512);
	fix_reattach(&f);
	assert_int_equal(arena_damaged(f.a), 1);
	assert_int_equal(fix_count_committed(f.a), 1);
	fix_close(&f);
}

static void attach__a_damaged_chunk_table_costs_that_chunk(void **state)
{
	(void)state;
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (unsigned bit = 0; bit < 64; bit++) {
		memset(f.heap, 0, arena_heap_size(&f.g));
		assert_int_equal(arena_format(&f.a, f.region, &f.g, 1, f.heap), 0);
		fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 512);
		fix_put(f.a, SLOT_REQ_FAR, 1, 1, 1, 512);
		f.a->table[0] ^= 1ull << bit;
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 1);
		assert_int_equal(fix_count_committed(f.a), 1);
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 0);
		assert_int_not_equal(fix_put(f.a, SLOT_REQ_NEAR, 1, 1, 1, 512), SLOT_NONE);
		fix_reattach(&f);
		assert_int_equal(arena_damaged(f.a), 0);
		assert_int_equal(fix_count_committed(f.a), 2);
	}
	fix_close(&f);
}

/* A region of noise under a right superblock: nothing is believed, nothing is touched out of bounds. */
static void attach__noise_is_not_believed(void **state)
{
	(void)state;
	struct rng r = rng_seeded(7);
	struct fixture f;

	fix_open(&f, FIX_CHUNK, 8, 25);
	for (unsigned round = 0; round < 20; round++) {
		uint64_t *w = (void *)f.region;

		for (size_t i = ARENA_SUPERBLOCK / 8; i < f.g.len / 8; i++)
			w[i] = rng_next(&r);
		for (uint32_t c = 0; c < f.a->lay.nchunks; c++)
			f.a->table[c] = arena_table_word(c, (uint8_t)(c & 1), (uint8_t)(c & 3));
		fix_reattach(&f);
		assert_int_equal(fix_count_committed(f.a), 0);
		assert_true(arena_damaged(f.a) > 0);
		assert_int_equal(f.a->nfree, f.a->lay.nchunks);
	}
	fix_close(&f);
}

/* --- stops --- */

enum { KEYS = 600, KEY_FLOWS = 8 };

/* What a worker has done, in memory that outlives it. `pending` is the key whose state is just changing: there both
 * the old and the new state are right. */
struct journal {
	uint8_t committed[KEYS];
	uint32_t desc_version[FIX_FLOWS];
	_Atomic uint32_t pending_key;  /* KEYS: none */
	_Atomic uint32_t pending_desc; /* FIX_FLOWS: none */
	_Atomic uint64_t steps;
};

static uint16_t key_len(uint32_t key)
{
	static const uint16_t lens[] = {60, 1084, 2108, 4156};

	return lens[key / 7 % 4];
}

static enum slot_kind key_kind(uint32_t key)
{
	return key % 2 ? SLOT_REQ_NEAR : SLOT_RESP_NEAR;
}

static void key_flip(struct fixture *f, struct journal *j, uint32_t key)
{
	uint32_t flow = key % KEY_FLOWS, slot;
	uint64_t pos = key;

	j->pending_key = key;
	slot = arena_find(f->a, key_kind(key), flow, pos);
	if (slot != SLOT_NONE) {
		arena_free(f->a, slot);
		j->committed[key] = 0;
	} else if (fix_put(f->a, key_kind(key), flow, 1, pos, key_len(key)) != SLOT_NONE) {
		j->committed[key] = 1;
	}
	j->pending_key = KEYS;
}

static void desc_bump(struct fixture *f, struct journal *j, uint32_t idx)
{
	uint32_t desc[50];

	for (unsigned i = 0; i < 50; i++)
		desc[i] = (j->desc_version[idx] + 1) * 1000 + i;
	j->pending_desc = idx;
	arena_desc_store(f->a, DESC_FAR, idx, desc, sizeof(desc));
	j->desc_version[idx]++;
	j->pending_desc = FIX_FLOWS;
}

static void work(struct fixture *f, struct journal *j, struct rng *r, uint32_t steps)
{
	while (steps--) {
		if (rng_below(r, 4))
			key_flip(f, j, rng_below(r, KEYS));
		else
			desc_bump(f, j, rng_below(r, FIX_FLOWS));
		j->steps++;
	}
}

/* Attaches and holds what is found against the journal, which is then made to agree in what was pending. */
static void check_journal(struct fixture *f, struct journal *j)
{
	uint32_t committed = 0;

	fix_reattach(f);
	assert_int_equal(arena_damaged(f->a), 0);
	for (uint32_t key = 0; key < KEYS; key++) {
		uint32_t slot = arena_find(f->a, key_kind(key), key % KEY_FLOWS, key);

		if (key == j->pending_key)
			j->committed[key] = slot != SLOT_NONE;
		assert_int_equal(slot != SLOT_NONE, j->committed[key]);
		if (slot == SLOT_NONE)
			continue;
		fix_check(f->a, slot);
		committed++;
	}
	assert_int_equal(fix_count_committed(f->a), committed);
	for (uint32_t idx = 0; idx < FIX_FLOWS; idx++) {
		uint32_t desc[50], version;
		bool there = arena_desc_load(f->a, DESC_FAR, idx, desc, sizeof(desc));

		version = there ? desc[0] / 1000 : 0;
		if (idx == j->pending_desc && version == j->desc_version[idx] + 1)
			j->desc_version[idx]++;
		assert_int_equal(version, j->desc_version[idx]);
		for (unsigned i = 0; there && i < 50; i++)
			assert_int_equal(desc[i], version * 1000 + i);
	}
	j->pending_key = KEYS;
	j->pending_desc = FIX_FLOWS;
}

static struct journal *journal_open(void)
{
	struct journal *j = fix_map(sizeof(*j));

	j->pending_key = KEYS;
	j->pending_desc = FIX_FLOWS;
	return j;
}

/* Between two steps the region is copied, taken up elsewhere and compared; the original goes on. */
static void attach__after_a_random_stop(void **state)
{
	(void)state;
	struct rng r = rng_seeded(2);
	struct fixture f, copy;
	struct journal *j = journal_open();

	fix_open(&f, FIX_CHUNK, 24, 25);
	fix_open(&copy, FIX_CHUNK, 24, 25);
	for (unsigned stop = 0; stop < 200; stop++) {
		work(&f, j, &r, rng_below(&r, 300));
		memcpy(copy.region, f.region, f.g.len);
		check_journal(&copy, j);
		assert_int_equal(arena_audit(f.a), 0);
	}
	fix_close(&f);
	fix_close(&copy);
	munmap(j, sizeof(*j));
}

/* A process works on the arena until SIGKILL hits it in the middle of whatever it does; the next one takes over. */
static void attach__after_kill(void **state)
{
	(void)state;
	struct rng r = rng_seeded(3);
	struct fixture f;
	struct journal *j = journal_open();

	fix_open(&f, FIX_CHUNK, 24, 25);
	for (unsigned life = 0; life < 100; life++) {
		uint64_t before = j->steps;
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (!pid) {
			work(&f, j, &r, UINT32_MAX);
			_exit(1);
		}
		while (j->steps == before)
			usleep(20);
		usleep(rng_below(&r, 1000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		check_journal(&f, j);
	}
	assert_true(j->steps > 1000);
	fix_close(&f);
	munmap(j, sizeof(*j));
}

/* Fills every chunk with packets of the largest class whose bytes are headers that could be believed, and frees them:
 * the worst that a chunk which then gets another class can have in it. */
static void leave_forged_headers(struct arena *a)
{
	uint32_t slot = fix_put(a, SLOT_REQ_NEAR, 9, 1, 9, 60);
	struct slot_hdr forged = *arena_hdr(a, slot);

	arena_free(a, slot);
	for (uint64_t pos = 0; (slot = arena_alloc(a, SLOT_REQ_NEAR, 1, 1, pos, 4224)) != SLOT_NONE; pos++) {
		for (unsigned i = 0; i < 66; i++)
			memcpy(arena_data(a, slot) + i * 64, &forged, 64);
		arena_commit(a, slot);
	}
	for (uint64_t pos = 0; (slot = arena_find(a, SLOT_REQ_NEAR, 1, pos)) != SLOT_NONE; pos++)
		arena_free(a, slot);
}

/* A packet that a device landed: its blank, its place, and then it counts. Another blank is the device's for good. */
static void key_land(struct fixture *f, struct journal *j, uint32_t key)
{
	uint32_t blank = arena_blank(f->a, arena_pool_of((uint8_t)key_kind(key))), slot, other;
	const uint8_t *from;
	uint8_t *d = arena_data(f->a, blank) + 142;

	assert_int_not_equal(blank, SLOT_NONE);
	j->pending_key = key;
	slot = arena_alloc(f->a, key_kind(key), key % KEY_FLOWS, 1, key, key_len(key));
	from = fix_bytes(arena_hdr(f->a, slot));
	for (uint32_t i = 0; i < key_len(key); i += 256)
		memcpy(d + i, from + i, key_len(key) - i < 256 ? key_len(key) - i : 256);
	assert_true(arena_adopt(f->a, slot, blank, 142));
	other = slot;
	arena_commit(f->a, blank);
	j->committed[key] = 1;
	j->pending_key = KEYS;
	for (uint32_t i = 0; i < ARENA_BLANK_BYTES; i += 256)
		memset(arena_data(f->a, other) + i, 0x99, 256);
}

/* A packet that a device sends while it is freed, and that a new one of its class follows once it is sent. */
static void key_send(struct fixture *f, struct journal *j, uint32_t key, uint32_t next)
{
	uint32_t slot = arena_find(f->a, key_kind(key), key % KEY_FLOWS, key);

	assert_true(arena_pin(f->a, slot));
	key_flip(f, j, key);
	key_flip(f, j, next);
	arena_unpin(f->a, slot);
	key_flip(f, j, next);
	key_flip(f, j, next);
}

/* A packet whose header is written anew: it is there or gone, and never damaged. */
static void key_amend(struct fixture *f, struct journal *j, uint32_t key)
{
	uint32_t slot = arena_find(f->a, key_kind(key), key % KEY_FLOWS, key);
	struct slot_hdr h = *arena_hdr(f->a, slot);

	j->pending_key = key;
	arena_amend(f->a, slot, h.psns + 1, h.msn + 1);
	arena_amend(f->a, slot, h.psns, h.msn);
	j->pending_key = KEYS;
}

/* What is stopped at every instruction: chunks taken by each class, a slot freed among others, the last of a chunk
 * freed, a header amended, descriptors stored into both copies. */
static void work_stepped(struct fixture *f, struct journal *j)
{
	for (uint32_t key = 0; key < 35; key += 7)
		key_flip(f, j, key);
	for (uint32_t version = 0; version < 3; version++)
		desc_bump(f, j, 5);
	key_flip(f, j, 14);
	key_flip(f, j, 14);
	key_amend(f, j, 14);
	key_flip(f, j, 0);
	key_land(f, j, 21 + 28);
	key_land(f, j, 21 + 56);
	key_send(f, j, 21 + 28, 21 + 84);
	key_send(f, j, 7, 7 + 28);
}

/* Starts a child that waits before work_stepped(). 0: tracing is not allowed here. */
static pid_t start_stepped(struct fixture *f, struct journal *j)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(2);
		raise(SIGSTOP);
		work_stepped(f, j);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSTOPPED(status) ? pid : 0;
}

/* The arena as it is after every single instruction is taken up and compared. */
static void attach__at_every_instruction(void **state)
{
	(void)state;
	struct fixture f, copy;
	struct journal *j = journal_open(), now;
	uint8_t *before;
	unsigned looked = 0;
	int status = 0;
	pid_t pid;

	fix_open(&f, FIX_CHUNK, 8, 10);
	fix_open(&copy, FIX_CHUNK, 8, 10);
	leave_forged_headers(f.a);
	before = malloc(f.g.len);
	assert_non_null(before);
	memcpy(before, f.region, f.g.len);
	pid = start_stepped(&f, j);
	if (!pid) {
		print_message("skipped: no ptrace here: a kill at every instruction is not tried\n");
		skip();
	}
	while (!ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (!memcmp(before, f.region, f.g.len))
			continue;
		memcpy(before, f.region, f.g.len);
		memcpy(copy.region, f.region, f.g.len);
		now = *j;
		check_journal(&copy, &now);
		looked++;
	}
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(looked > 200);
	free(before);
	fix_close(&f);
	fix_close(&copy);
	munmap(j, sizeof(*j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(attach__no_arena_there),
	    cmocka_unit_test(attach__unknown_version_is_left_alone),
	    cmocka_unit_test(attach__other_geometry_is_left_alone),
	    cmocka_unit_test(attach__each_bit_of_the_superblock_counts),
	    cmocka_unit_test(attach__reserve_may_change),
	    cmocka_unit_test(attach__finds_what_was_committed),
	    cmocka_unit_test(attach__frees_filling_and_raw),
	    cmocka_unit_test(attach__twice_is_the_same_and_work_goes_on),
	    cmocka_unit_test(attach__empty_chunks_are_free_for_all),
	    cmocka_unit_test(attach__a_damaged_header_is_counted_and_dropped),
	    cmocka_unit_test(attach__headers_of_an_earlier_life_do_not_count),
	    cmocka_unit_test(attach__data_that_looks_like_headers_does_not_count),
	    cmocka_unit_test(attach__a_header_in_the_wrong_place_is_dropped),
	    cmocka_unit_test(attach__of_duplicates_the_younger_incarnation_stays),
	    cmocka_unit_test(attach__the_same_position_twice_is_damage),
	    cmocka_unit_test(attach__a_damaged_chunk_table_costs_that_chunk),
	    cmocka_unit_test(attach__noise_is_not_believed),
	    cmocka_unit_test(attach__after_a_random_stop),
	    cmocka_unit_test(attach__after_kill),
	    cmocka_unit_test(attach__at_every_instruction),
	};

	return cmocka_run_group_tests_name("arena_attach", tests, NULL, NULL);
}
