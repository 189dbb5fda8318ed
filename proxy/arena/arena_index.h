/* SPDX-License-Identifier: Apache-2.0 */
/* arena_index.h - the arena's hash table from (kind, flow, position) to slot.
 *
 * Theory of operation
 *
 * Open addressing, linear probing, backward-shift deletion: no tombstones, so a table that has turned over a billion
 * times probes as short as a new one. The table never grows: it is sized for every slot that the region could ever
 * hold, at a load of at most one half, and so never refuses.
 *
 * An entry is 8 bytes: the slot (plus one, so that zeroed memory is an empty table) and 32 bits of hash, the tag.
 * The entry's home is the tag's low bits. That is why deletion never looks at a slot header, and why a lookup looks
 * only at headers whose tag agrees.
 *
 * Packets of a flow come and go in order, so 32 consecutive positions have their homes side by side: only the
 * position's upper bits are mixed, the lower five choose the place in a run of four cache lines. So only one lookup in
 * eight touches a new cache line, and only one in four of these lines is far from the line before. The price is longer
 * probes when the table is at its fullest, which takes an arena full of the smallest packets; even there runs of 32
 * cost no more than they save.
 *
 * An entry that a probe went past on its way to a free place is marked as passed. No later entry depends on an entry
 * without the mark, so the removal of such an entry looks at no others. Packets of a flow are removed in order, from
 * the front of a full run: without the mark each removal would look at all the rest of the run. A mark may outlast the
 * entry that it was set for, and goes with the marked entry.
 *
 * The table does not compare keys, it yields candidates; arena.c looks at the header. One key may be there more than
 * once (two incarnations of a flow); removal is by slot. */
#ifndef PROXY_ARENA_INDEX_H
#define PROXY_ARENA_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#define ARENA_INDEX_PASSED 0x80000000u

struct arena_index_entry {
	uint32_t slot1; /* slot + 1, and ARENA_INDEX_PASSED; 0: empty */
	uint32_t tag;
};

struct arena_index {
	struct arena_index_entry *tab; /* mask + 1 entries, a power of two */
	uint32_t mask;
	uint32_t n; /* entries in use */
};

enum {
	ARENA_INDEX_RUN_LOG2 = 5,
	ARENA_INDEX_RUN = 1 << ARENA_INDEX_RUN_LOG2, /* positions of a flow whose homes are beside each other */
	ARENA_INDEX_LINE = 8,                        /* entries in a cache line */
};

static inline uint32_t arena_index_tag(uint8_t kind, uint32_t flow, uint64_t pos)
{
	uint64_t x = (pos >> ARENA_INDEX_RUN_LOG2) + ((uint64_t)flow << 4 | kind) * 0x9e3779b97f4a7c15ull;

	/* Two rounds: after one multiplication the runs of two flows stay beside each other (seed 7756: a removal then
	 * looks at 218 entries). */
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return ((uint32_t)x & ~(uint32_t)(ARENA_INDEX_RUN - 1)) | (uint32_t)(pos & (ARENA_INDEX_RUN - 1));
}

static inline const struct arena_index_entry *arena_index_home(const struct arena_index *ix, uint32_t tag)
{
	return &ix->tab[tag & ix->mask];
}

static inline void arena_index_insert(struct arena_index *ix, uint32_t tag, uint32_t slot)
{
	uint32_t i = tag & ix->mask;

	for (; ix->tab[i].slot1; i = (i + 1) & ix->mask)
		ix->tab[i].slot1 |= ARENA_INDEX_PASSED;
	ix->tab[i] = (struct arena_index_entry){slot + 1, tag};
	ix->n++;
}

static inline uint32_t arena_index_slot(const struct arena_index *ix, uint32_t i)
{
	return (ix->tab[i].slot1 & ~ARENA_INDEX_PASSED) - 1;
}

/* Place of the next entry with that tag at or after *i, which starts at tag & mask. False: there is none. */
static inline bool arena_index_candidate(const struct arena_index *ix, uint32_t tag, uint32_t *i)
{
	while (ix->tab[*i].slot1) {
		if (ix->tab[*i].tag == tag)
			return true;
		*i = (*i + 1) & ix->mask;
	}
	return false;
}

/* Place of this slot. False: it is not there. */
static inline bool arena_index_locate(const struct arena_index *ix, uint32_t tag, uint32_t slot, uint32_t *i)
{
	for (*i = tag & ix->mask; arena_index_candidate(ix, tag, i); *i = (*i + 1) & ix->mask)
		if (arena_index_slot(ix, *i) == slot)
			return true;
	return false;
}

/* Empties place `hole` and pulls back the entries behind it that the hole would cut off from their homes: none, unless
 * one of them went past the hole. An entry that is pulled into a place takes over that place's passed mark. Returns
 * how many entries it looked at. */
static inline uint32_t arena_index_close(struct arena_index *ix, uint32_t hole)
{
	uint32_t mask = ix->mask, first = (hole + 1) & mask, i;

	for (i = first; ix->tab[hole].slot1 & ARENA_INDEX_PASSED && ix->tab[i].slot1; i = (i + 1) & mask) {
		uint32_t from_home = (i - ix->tab[i].tag) & mask;

		if (from_home < ((i - hole) & mask))
			continue;
		ix->tab[hole] = (struct arena_index_entry){ix->tab[i].slot1 | ARENA_INDEX_PASSED, ix->tab[i].tag};
		hole = i;
	}
	ix->tab[hole] = (struct arena_index_entry){0, 0};
	ix->n--;
	return (i - first) & mask;
}

/* False: it was not there. *looks: how many entries of others it looked at. */
static inline bool arena_index_remove(struct arena_index *ix, uint32_t tag, uint32_t slot, uint32_t *looks)
{
	uint32_t i;

	*looks = 0;
	if (!arena_index_locate(ix, tag, slot, &i))
		return false;
	*looks = arena_index_close(ix, i);
	return true;
}

#endif
