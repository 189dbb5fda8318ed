/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h - slots of the arena as a shard counts them: by flow, by lane, and those under way. */
#ifndef PROXY_SLOT_H
#define PROXY_SLOT_H

#include "proxy/shard/core.h"

/* Takes a slot and accounts for it. SLOT_NONE if there is no room; `urgent` may use the reserve of the pool. */
uint32_t slot_take(struct proxy *p, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos, uint16_t len,
                   uint16_t lane, bool urgent);
/* Puts a packet of a host into its slot, with one hop taken from its TTL and without the CE mark of this LAN, and
 * describes it in the header. A packet that a device has landed in a blank is not copied: the blank takes the slot's
 * place, and *slot names the blank. Returns the header. */
struct slot_hdr *slot_fill(struct proxy *p, uint32_t *slot, const uint8_t *l3, const struct roce_pkt *pkt,
                           uint16_t vlan_tci);
/* Fills in the header of a slot from its packet; the caller sets psns, msn and fp and commits. */
void slot_describe(struct slot_hdr *h, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* The packet in a slot as three parts for a host: header copied, body in place, ICRC copied. The caller sets VLAN and
 * next hop. */
void slot_to_tx(const struct proxy *p, uint32_t slot, const struct slot_hdr *h, struct lan_tx *tx);
/* The blank of the landed packet takes the place of `slot`, and the port owns `slot` from here on. Returns the slot
 * that the packet is in now: `slot` itself if the packet has to be copied. */
uint32_t slot_adopt_landed(struct proxy *p, uint32_t slot);
/* L3 bytes of the packet in the slot, without the barrier's entries behind it. */
static inline uint16_t slot_packet_len(const struct slot_hdr *h)
{
	return (uint16_t)(h->len - h->waits * BARRIER_ENTRY_LEN);
}
/* Keeps a request that the responder has in its slot: the WAN has nothing to do with the slot any more. */
void slot_keep(struct proxy *p, uint32_t slot);
/* slot_sent(): the slot goes to the other edge for the first time. slot_unsent(): nothing sent of the slot counts any
 * more. */
void slot_sent(struct proxy *p, const struct slot_hdr *h, struct slot_meta *m);
void slot_unsent(struct proxy *p, uint32_t slot);
/* Notes which list the slot is on (SQ_NONE: none); tells the slot's source if it begins or ceases to wait to be
 * sent. */
void slot_set_queue(struct proxy *p, uint32_t slot, enum slot_queue q);
/* Called when the slot's list is emptied: tells the source that the slot does not wait any more, whatever m->queued
 * says. */
void slot_waits_no_more(struct proxy *p, uint32_t slot);
/* Frees a slot wherever it is queued, keeping held and lane counts right. */
void slot_release(struct proxy *p, uint32_t slot);
/* slot_given(): the host was given this response; the slot counts as free and may be freed when its room is needed.
 * slot_given_release(): frees such a slot. */
void slot_given(struct proxy *p, uint32_t slot);
void slot_given_release(struct proxy *p, uint32_t slot);
/* Frees up to n given responses, the oldest first. False: there was none. */
bool slot_given_free(struct proxy *p, unsigned n);
/* Checks whether a pool is full without progress. Called now and then. */
void slot_look_stuck(struct proxy *p);
/* TK_GIVEN: frees given responses older than GIVEN_NS. */
void slot_given_on_timer(struct proxy *p);
/* Bytes of a pool that are free, given responses included. */
static inline uint64_t pool_free(const struct proxy *p, enum arena_pool pool)
{
	uint64_t cap = arena_capacity(p->arena, pool), used = arena_used(p->arena, pool);

	if (pool == POOL_WAN)
		used -= p->given_bytes;
	return cap > used ? cap - used : 0;
}

/* The part of a pool's bytes that only urgent packets may take. */
static inline uint64_t pool_reserve(const struct proxy *p, enum arena_pool pool)
{
	return arena_capacity(p->arena, pool) / 8;
}

static inline uint32_t slot_of_meta(struct proxy *p, const struct slot_meta *m)
{
	return (uint32_t)(m - arena_meta(p->arena, 0));
}

#endif
