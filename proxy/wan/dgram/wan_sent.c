/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_sent.h"

#include <string.h>

#define NO_PN UINT64_MAX
#define FEC_GRACE_MIN_NS 200000 /* FEC blocks wait for at least 50 us */

void sent_pool_init(struct sent_pool *pool, struct sent_page *pages, uint32_t n, uint32_t lanes)
{
	pool->reserve = SENT_PAGES_OWN * lanes;
	pool->pages = pages;
	pool->n = n;
	pool->free_count = n;
	pool->free_head = n ? 0 : SENT_PAGE_NONE;
	for (uint32_t i = 0; i < n; i++)
		pages[i].next_free = i + 1 < n ? i + 1 : SENT_PAGE_NONE;
}

static void page_release(struct sent_pool *pool, uint32_t idx)
{
	pool->pages[idx].next_free = pool->free_head;
	pool->free_head = idx;
	pool->free_count++;
}

static uint32_t page_take(struct sent_pool *pool)
{
	uint32_t idx = pool->free_head;
	struct sent_page *pg = &pool->pages[idx];

	pool->free_head = pg->next_free;
	pool->free_count--;
	pg->resolved = pg->missing = pg->lost = pg->lost_ns = 0;
	pg->queued = 0;
	return idx;
}

static struct sent_page *page_at(const struct wan_sent *s, uint64_t pn)
{
	return &s->pool->pages[s->page_of[(pn / 64) & s->ring_mask]];
}

static struct sent_entry *entry_at(const struct wan_sent *s, uint64_t pn)
{
	return &page_at(s, pn)->entry[pn % 64];
}

void wan_sent_init(struct wan_sent *s, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len)
{
	memset(s, 0, sizeof(*s));
	s->pool = pool;
	s->page_of = page_ring;
	s->ring_mask = ring_len - 1;
	s->missing_head = s->missing_tail = NO_PN;
}

void wan_sent_reset(struct wan_sent *s)
{
	struct sent_pool *pool = s->pool;
	uint32_t *ring = s->page_of;
	const uint32_t *work = s->work;
	uint32_t len = s->ring_mask + 1, nblocks;
	uint64_t *done;

	for (uint64_t pn = s->pn_floor, held = 0; pn < s->pn_next; pn += 64) {
		page_release(pool, s->page_of[(pn / 64) & s->ring_mask]);
		pool->reserve += held++ < SENT_PAGES_OWN;
	}
	done = s->block_done_ns;
	nblocks = s->nblocks;
	wan_sent_init(s, pool, ring, len);
	s->work = work;
	s->block_done_ns = done;
	s->nblocks = nblocks;
}

bool wan_sent_has_room(const struct wan_sent *s)
{
	uint64_t held = (s->pn_next - s->pn_floor) / 64;

	if (s->pn_next % 64 != 0)
		return true;
	if (s->pn_next - s->pn_floor >= WAN_PN_SPAN || held > s->ring_mask)
		return false;
	return s->pool->free_count > (held < SENT_PAGES_OWN ? 0 : s->pool->reserve);
}

static uint64_t pages_held(const struct wan_sent *s)
{
	return (s->pn_next - s->pn_floor + 63) / 64;
}

/* After a page was given back: reserves the pages that the lane may claim again. */
static void claim_again(struct wan_sent *s)
{
	if (pages_held(s) < SENT_PAGES_OWN)
		s->pool->reserve++;
}

struct sent_entry *wan_sent_push(struct wan_sent *s, uint64_t now_ns, uint64_t *pn)
{
	struct sent_entry *e;

	if (s->pn_next % 64 == 0) {
		if (pages_held(s) < SENT_PAGES_OWN)
			s->pool->reserve--;
		s->page_of[(s->pn_next / 64) & s->ring_mask] = page_take(s->pool);
	}
	*pn = s->pn_next++;
	e = entry_at(s, *pn);
	e->sent_ns = now_ns;
	e->missing_next = NO_PN;
	e->place = 0;
	e->bytes = 0;
	e->nrefs = 0;
	e->mark.bytes = 0;
	e->block = 0;
	s->entries_in_flight++;
	return e;
}

void wan_sent_unpush(struct wan_sent *s)
{
	s->pn_next--;
	s->entries_in_flight--;
	if (s->pn_next % 64 == 0) {
		page_release(s->pool, s->page_of[(s->pn_next / 64) & s->ring_mask]);
		claim_again(s);
	}
}

static void settle_entry(struct wan_sent *s, struct sent_page *pg, const struct sent_entry *e, unsigned bit)
{
	pg->resolved |= 1ull << bit;
	s->entries_in_flight--;
	s->bytes_in_flight -= e->bytes;
	s->marked_in_flight -= e->mark.bytes;
}

static bool work_left(const struct wan_sent *s)
{
	return !s->work || *s->work;
}

/* Settles the entries that `bits` names, and calls fn() for each. Returns how many. */
static uint64_t settle_each(struct wan_sent *s, struct sent_page *pg, uint64_t bits, wan_sent_fn fn, void *arg)
{
	uint64_t n = 0;

	for (; bits; bits &= bits - 1, n++) {
		unsigned bit = (unsigned)__builtin_ctzll(bits);

		settle_entry(s, pg, &pg->entry[bit], bit);
		fn(arg, &pg->entry[bit]);
	}
	return n;
}

static void missing_append(struct wan_sent *s, uint64_t pn)
{
	entry_at(s, pn)->missing_next = NO_PN;
	page_at(s, pn)->queued++;
	if (s->missing_head == NO_PN)
		s->missing_head = pn;
	else
		entry_at(s, s->missing_tail)->missing_next = pn;
	s->missing_tail = pn;
}

/* Mask of the bits of the word at `base` whose numbers are in [from, to). */
static uint64_t word_mask(uint64_t base, uint64_t from, uint64_t to)
{
	uint64_t mask = ~0ull;

	if (to <= base || from >= base + 64)
		return 0;
	if (from > base)
		mask &= ~0ull << (from - base);
	if (to < base + 64)
		mask &= ~0ull >> (base + 64 - to);
	return mask;
}

static void report_word(struct wan_sent *s, uint64_t base, uint64_t word, uint64_t largest, wan_sent_fn acked,
                        void *arg, struct wan_sent_result *res)
{
	struct sent_page *pg = page_at(s, base);
	uint64_t valid = word_mask(base, s->pn_floor, s->pn_next);
	uint64_t fresh = word & valid & ~pg->resolved;
	uint64_t late = word & valid & pg->lost;
	uint64_t missing = ~word & valid & ~pg->resolved & ~pg->missing & word_mask(base, 0, largest);

	for (; fresh && work_left(s); fresh &= fresh - 1) {
		unsigned bit = (unsigned)__builtin_ctzll(fresh);
		struct sent_entry *e = &pg->entry[bit];

		settle_entry(s, pg, e, bit);
		if (e->sent_ns > s->rack_sent_ns)
			s->rack_sent_ns = e->sent_ns;
		res->newly_acked++;
		res->newly_acked_bytes += e->bytes;
		acked(arg, e);
	}
	for (; late; late &= late - 1) {
		unsigned bit = (unsigned)__builtin_ctzll(late);
		const struct sent_entry *e = &pg->entry[bit];

		pg->lost &= ~(1ull << bit);
		res->spurious++;
		res->spurious_marked += e->mark.bytes;
		if (s->rack_sent_ns > e->sent_ns && s->rack_sent_ns - e->sent_ns > res->spurious_ns)
			res->spurious_ns = s->rack_sent_ns - e->sent_ns;
	}
	res->cut = fresh != 0;
	pg->missing |= missing;
	for (; missing; missing &= missing - 1)
		missing_append(s, base + (unsigned)__builtin_ctzll(missing));
}

/* Only the largest number of a report gives a round trip, once per number (RFC 9002 5.1). A number that was resolved
 * when it was sent counts, too: data and reports fall into step, and then the largest number that a report tells is
 * always that of a datagram with nothing but a report. */
static void note_largest(struct wan_sent *s, uint64_t largest, struct wan_sent_result *res)
{
	if (largest < s->told_end)
		return;
	s->told_end = largest + 1;
	if (largest >= s->pn_floor)
		res->largest_sent_ns = entry_at(s, largest)->sent_ns;
}

void wan_sent_report(struct wan_sent *s, const struct wan_report *r, wan_sent_fn acked, void *arg,
                     struct wan_sent_result *res)
{
	memset(res, 0, sizeof(*res));
	if (r->largest >= s->pn_next)
		return; /* tells of a number that was never sent */
	note_largest(s, r->largest, res);
	for (uint32_t w = 0; w < r->words && !res->cut; w++) {
		uint64_t base = r->base + 64ull * w;

		if (base >= s->pn_floor && base < s->pn_next)
			report_word(s, base, wan_report_word(r, w), r->largest, acked, arg, res);
	}
}

unsigned wan_sent_rebuilt(struct wan_sent *s, uint64_t pn, wan_sent_fn acked, void *arg)
{
	struct sent_page *pg;
	uint64_t bit = 1ull << (pn % 64);

	if (pn < s->pn_floor || pn >= s->pn_next)
		return 0;
	pg = page_at(s, pn);
	if (pg->resolved & bit) {
		bool lost = pg->lost & bit;

		pg->lost &= ~bit;
		return lost ? 2 : 0;
	}
	settle_entry(s, pg, entry_at(s, pn), (unsigned)(pn % 64));
	acked(arg, entry_at(s, pn));
	return 1;
}

uint64_t wan_sent_refused(struct wan_sent *s, const struct wan_report *r, wan_sent_fn refused, void *arg)
{
	uint64_t n = 0;

	for (uint32_t w = 0; w < r->words; w++) {
		uint64_t base = r->base + 64ull * w, bits;
		struct sent_page *pg;

		if (base < s->pn_floor || base >= s->pn_next)
			continue;
		pg = page_at(s, base);
		bits = wan_report_word(r, w) & word_mask(base, s->pn_floor, s->pn_next) & ~pg->resolved;
		n += settle_each(s, pg, bits, refused, arg);
	}
	return n;
}

/* The time at which the entry counts as sent (wan_sent.h). */
static uint64_t protected_until(const struct wan_sent *s, const struct sent_entry *e, uint64_t rtt_ns)
{
	uint64_t done, most = e->sent_ns + (rtt_ns > FEC_GRACE_MIN_NS ? rtt_ns : FEC_GRACE_MIN_NS);

	if (!e->block || !s->block_done_ns || s->block - e->block >= s->nblocks)
		return e->sent_ns;
	done = s->block_done_ns[e->block % s->nblocks];
	return done < e->sent_ns ? e->sent_ns : done < most ? done : most;
}

uint64_t wan_sent_detect(struct wan_sent *s, uint64_t now_ns, uint64_t reorder_ns, uint64_t rtt_ns, wan_sent_fn lost,
                         void *arg)
{
	uint64_t n = 0;

	while (s->missing_head != NO_PN) {
		uint64_t pn = s->missing_head;
		struct sent_page *pg = page_at(s, pn);
		struct sent_entry *e = &pg->entry[pn % 64];
		uint64_t bit = 1ull << (pn % 64);

		if (!(pg->resolved & bit)) {
			uint64_t sent_ns = protected_until(s, e, rtt_ns);
			uint64_t told_ns = sent_ns + rtt_ns + reorder_ns + (e->block ? s->told_ns : 0);

			if ((sent_ns + reorder_ns > s->rack_sent_ns && told_ns > now_ns) || !work_left(s))
				return n;
			settle_entry(s, pg, e, (unsigned)(pn % 64));
			pg->lost |= bit;
			pg->lost_ns = now_ns;
			lost(arg, e);
			n++;
		}
		pg->queued--;
		s->missing_head = e->missing_next;
	}
	s->missing_tail = NO_PN;
	return n;
}

void wan_sent_advance(struct wan_sent *s, uint64_t now_ns, uint64_t keep_ns)
{
	while (s->pn_floor + 64 <= s->pn_next) {
		struct sent_page *pg = page_at(s, s->pn_floor);

		if (pg->resolved != ~0ull || pg->queued)
			return;
		if (pg->lost && now_ns < pg->lost_ns + keep_ns &&
		    s->pool->free_count > s->pool->reserve + s->pool->n / 8)
			return;
		page_release(s->pool, s->page_of[(s->pn_floor / 64) & s->ring_mask]);
		s->pn_floor += 64;
		claim_again(s);
	}
}

bool wan_sent_oldest(const struct wan_sent *s, uint64_t *pn, uint64_t *sent_ns)
{
	for (uint64_t base = s->pn_floor; base < s->pn_next; base += 64) {
		uint64_t open = ~page_at(s, base)->resolved & word_mask(base, s->pn_floor, s->pn_next);

		if (open) {
			*pn = base + (unsigned)__builtin_ctzll(open);
			*sent_ns = entry_at(s, *pn)->sent_ns;
			return true;
		}
	}
	return false;
}

bool wan_sent_any_missing(const struct wan_sent *s)
{
	return s->missing_head != NO_PN;
}

void wan_sent_forget_last(struct wan_sent *s)
{
	uint64_t pn = s->pn_next - 1;

	settle_entry(s, page_at(s, pn), entry_at(s, pn), (unsigned)(pn % 64));
}

uint64_t wan_sent_give_up_oldest(struct wan_sent *s, uint64_t now_ns, wan_sent_fn lost, void *arg)
{
	struct sent_page *pg;
	uint64_t open;

	if (s->pn_floor + 64 > s->pn_next)
		return 0;
	pg = page_at(s, s->pn_floor);
	open = ~pg->resolved;
	if (open) {
		pg->lost |= open;
		pg->lost_ns = now_ns;
	}
	return settle_each(s, pg, open, lost, arg);
}

uint64_t wan_sent_give_up_all(struct wan_sent *s, wan_sent_fn moved, void *arg)
{
	uint64_t n = 0;

	for (uint64_t base = s->pn_floor; base < s->pn_next && work_left(s); base += 64) {
		struct sent_page *pg = page_at(s, base);
		uint64_t open = ~pg->resolved & word_mask(base, s->pn_floor, s->pn_next);

		n += settle_each(s, pg, open, moved, arg);
	}
	return n;
}
