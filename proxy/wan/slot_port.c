/* SPDX-License-Identifier: Apache-2.0 */
/* slot_port.c - slots lent to ports: blanks that a device writes packets into, bodies that it sends later.
 *
 * Theory of operation
 *
 * A port that copies needs none of this. A port whose device writes into the arena holds blanks, which are in no index
 * and belong to no flow. A packet that has come into one is looked at like any other (proxy_lan_rx()), and admitted
 * like any other: slot_take() finds it a slot, out of the same shares and reserves. Only then the two slots change
 * places instead of a copy: the blank gets flow, position and index entry of the slot, and the slot is the port's next
 * blank (arena_adopt()). So rings never run dry for lack of a slot, no promise depends on how packets come in, and a
 * refused packet keeps no memory.
 *
 * Short packets are copied to their own size class, and the device fills their blank again: small packets never take
 * slots of the largest class.
 *
 * The bytes of blanks, and of freed slots that are still pinned, do not count in their pool's capacity
 * (arena_capacity()), from which all shares, credits, minima and reserves follow. */
#include "wan.h"

#define LENT_PART 4 /* blanks take 1/LENT_PART of the pool at most */

uint32_t proxy_blank(struct proxy *p)
{
	uint64_t capacity = arena_capacity(p->arena, POOL_LAN),
	         blanks = (uint64_t)(arena_blanks(p->arena, POOL_LAN) + 1) * PROXY_BLANK_BYTES;

	if (blanks > (capacity + arena_lent(p->arena, POOL_LAN)) / LENT_PART ||
	    pool_free(p, POOL_LAN) < pool_reserve(p, POOL_LAN) + PROXY_BLANK_BYTES)
		return SLOT_NONE;
	return arena_blank(p->arena, POOL_LAN);
}

uint8_t *proxy_blank_data(struct proxy *p, uint32_t slot)
{
	return arena_data(p->arena, slot);
}

void proxy_blank_return(struct proxy *p, uint32_t slot)
{
	arena_blank_return(p->arena, slot);
}

uint32_t slot_adopt_landed(struct proxy *p, uint32_t slot)
{
	uint32_t blank = p->landed.slot;

	if (arena_class_bytes(arena_hdr(p->arena, slot)->len) != PROXY_BLANK_BYTES ||
	    !arena_adopt(p->arena, slot, blank, p->landed.off))
		return slot;
	p->landed.slot = slot;
	p->landed.l3 = NULL; /* the core owns the packet now: no second slot_adopt_landed() */
	return blank;
}

bool proxy_lan_pin(struct proxy *p, const struct lan_tx *tx)
{
	return tx->slot != SLOT_NONE && tx->body_len && arena_pin(p->arena, tx->slot);
}

void proxy_lan_unpin(struct proxy *p, uint32_t slot)
{
	arena_unpin(p->arena, slot);
}
