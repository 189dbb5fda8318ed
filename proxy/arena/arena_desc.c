/* SPDX-License-Identifier: Apache-2.0 */
/* arena_desc.c - flow descriptors in two copies, and the fingerprint rings beside them.
 *
 * A store goes to the copy that is not the newest, so that there is a whole descriptor at every instant. The copy's
 * first word (CRC and sequence) is zero while the rest is written and appears in one store: a copy that a kill cut
 * short counts as absent, and a copy with a wrong CRC was damaged by something else.
 *
 * The lowest bit of a sequence number is the number of its copy, so the newest number says where it is. */
#include "arena_priv.h"

static struct arena_desc_copy *desc_copies(const struct arena *a, uint32_t entry)
{
	return &a->desc[2 * (size_t)entry];
}

/* CRC of the used bytes, begun with place and sequence, so that right bytes in a wrong place are invalid. */
static uint32_t copy_crc(const struct arena_desc_copy *c, uint32_t entry, uint32_t seq)
{
	size_t from = offsetof(struct arena_desc_copy, len);

	return crc32_gzip_refl(entry ^ seq * 0x9e3779b1u, (const uint8_t *)c + from,
	                       offsetof(struct arena_desc_copy, data) - from + c->len);
}

static bool copy_valid(const struct arena_desc_copy *c, uint32_t entry, unsigned which)
{
	return c->seq && (c->seq & 1) == which && c->len <= ARENA_DESC_MAX && c->crc == copy_crc(c, entry, c->seq);
}

/* The newest valid copy. NULL: neither is valid. */
static const struct arena_desc_copy *desc_newest(const struct arena *a, uint32_t entry)
{
	const struct arena_desc_copy *c = desc_copies(a, entry);
	bool valid0 = copy_valid(&c[0], entry, 0), valid1 = copy_valid(&c[1], entry, 1);

	if (valid0 && valid1)
		return (int32_t)(c[1].seq - c[0].seq) > 0 ? &c[1] : &c[0];
	if (valid0)
		return &c[0];
	return valid1 ? &c[1] : NULL;
}

/* The next sequence number, which names the other copy. Skips 0, which means an empty copy, and 1 with it. */
static uint32_t seq_after(uint32_t seq)
{
	return seq == UINT32_MAX ? 2 : seq + 1;
}

static bool entry_of(const struct arena *a, enum desc_table t, uint32_t idx, uint32_t *entry)
{
	if (t >= DESC_TABLES || idx >= (t == DESC_RELAY ? DESC_RELAY_ENTRIES : a->max_flows))
		return false;
	*entry = (uint32_t)t * a->max_flows + idx;
	return true;
}

void arena_desc_store(struct arena *a, enum desc_table t, uint32_t idx, const void *desc, size_t len)
{
	struct arena_desc_copy *c, head = {0};
	uint32_t entry;

	if (!entry_of(a, t, idx, &entry) || len > ARENA_DESC_MAX) {
		a->misused++;
		return;
	}
	head.seq = seq_after(a->desc_seq[entry]);
	c = &desc_copies(a, entry)[head.seq & 1];
	__atomic_store_n(&c->word, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	c->len = (uint16_t)len;
	memset(c->reserved, 0, sizeof(c->reserved));
	memcpy(c->data, desc, len);
	head.crc = copy_crc(c, entry, head.seq);
	__atomic_store_n(&c->word, head.word, __ATOMIC_RELEASE);
	a->desc_seq[entry] = head.seq;
}

bool arena_desc_load(const struct arena *a, enum desc_table t, uint32_t idx, void *desc, size_t len)
{
	const struct arena_desc_copy *c;
	uint32_t entry;
	size_t n;

	if (!entry_of(a, t, idx, &entry))
		return false;
	c = desc_newest(a, entry);
	if (!c)
		return false;
	n = c->len < len ? c->len : len;
	memcpy(desc, c->data, n);
	memset((uint8_t *)desc + n, 0, len - n);
	return true;
}

void arena_desc_clear_all(struct arena *a)
{
	size_t n = (size_t)arena_desc_entries(a->max_flows) * 2;

	for (size_t i = 0; i < n; i++)
		a->desc[i].word = 0;
}

void arena_desc_attach_all(struct arena *a)
{
	uint32_t n = arena_desc_entries(a->max_flows);

	for (uint32_t entry = 0; entry < n; entry++) {
		struct arena_desc_copy *c = desc_copies(a, entry);
		const struct arena_desc_copy *best;

		for (unsigned which = 0; which < 2; which++) {
			if (!c[which].word || copy_valid(&c[which], entry, which))
				continue;
			a->damaged++;
			c[which].word = 0;
		}
		best = desc_newest(a, entry);
		a->desc_seq[entry] = best ? best->seq : 0;
	}
}
