// SPDX-License-Identifier: Apache-2.0
/* memory.c - what the memory of a QP is at the end, and what it must be. */
#include <stdlib.h>
#include <string.h>

#include "pattern.h"
#include "responder.h"

uint64_t rsp_memory_digest(const struct responder *r)
{
	return pat_digest(r->init_seed, r->mem, r->mem_bytes);
}

/* Makes the contents of one slot after `msgs` messages. Every WRITE begins at the start of its slot, so going back from
 * the last one each older one shows only behind the end of all newer ones. */
static void slot_contents(const struct plan *p, uint64_t seed, uint64_t init_seed, uint64_t msgs, uint32_t slot,
                          uint8_t *out)
{
	uint64_t no = msgs - (msgs % p->nslots) + slot, begin;
	uint32_t covered = 0;
	struct plan_msg m;

	pat_fill(out, p->slot_bytes, pat_base(init_seed, slot), 0);
	for (; covered < p->slot_bytes; no -= p->nslots) {
		if (no < msgs) {
			plan_get(p, no, &m);
			begin = covered / 8 * 8;
			if (rc_op_writes(m.op) && m.len > covered) {
				uint8_t keep[8];

				memcpy(keep, out + begin, covered - begin);
				pat_fill(out + begin, m.len - begin, pat_base(seed, no), begin);
				memcpy(out + begin, keep, covered - begin);
				covered = m.len;
			}
		}
		if (no < p->nslots || covered >= p->size)
			break;
	}
}

uint64_t rsp_expected_digest(const struct plan *p, uint64_t seed, uint64_t init_seed, uint64_t msgs,
                             const uint64_t words[ATOMIC_WORDS])
{
	uint64_t h = init_seed;
	uint8_t *slot = aligned_alloc(64, p->slot_bytes);

	if (slot == NULL)
		return 0;
	for (uint32_t i = 0; i < p->nslots; i++) {
		slot_contents(p, seed, init_seed, msgs, i, slot);
		h = pat_digest(h, slot, p->slot_bytes);
	}
	free(slot);
	return pat_digest(h, (const uint8_t *)words, ATOMIC_WORDS * 8);
}
