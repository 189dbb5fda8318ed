/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h - slots of the arena as a shard counts them: by flow, by lane, and as far as they are under way. */
#ifndef PROXY_SLOT_H
#define PROXY_SLOT_H

#include "proxy/shard/core.h"

/* Takes a slot and accounts for it. SLOT_NONE if there is no room; `urgent` may use the reserve of the pool. */
uint32_t slot_take(struct proxy *p, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos, uint16_t len,
                   uint16_t lane, bool urgent);
/* Puts a packet of a host into its slot, as it goes on: one hop less to go, and without the mark of this LAN. One that a
 * device has landed in a blank is not copied: the blank takes the slot's place. Returns the slot that it is in now. */
uint32_t slot_fill(struct proxy *p, uint32_t slot, const uint8_t *l3, const struct roce_pkt *pkt);
/* Fills in the header of a slot from its packet; the caller sets psns, msn and fp and commits. */
void slot_describe(struct proxy *p, uint32_t slot, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* The packet in a slot as three parts for a host: header copied, body in place, ICRC copied. The caller sets VLAN and
 * next hop. */
void slot_to_tx(struct proxy *p, uint32_t slot, struct lan_tx *tx);
/* The landed packet's blank takes the place of its slot, and the slot is the port's from here on. Returns the slot that
 * the packet is in now: the same one, if it has to be copied. */
uint32_t slot_adopt_landed(struct proxy *p, uint32_t slot);
/* L3 bytes of the packet in it, the barrier's entries behind it left aside. */
static inline uint16_t slot_packet_len(const struct slot_hdr *h)
{
	return (uint16_t)(h->len - h->waits * BARRIER_ENTRY_LEN);
}
/* A request that the responder has, but that stays in its slot: the WAN has nothing to do with it any more. */
void slot_keep(struct proxy *p, uint32_t slot);
/* The slot goes to the other edge for the first time; or what was sent of it counts for nothing any more. */
void slot_sent(struct proxy *p, const struct slot_hdr *h, struct slot_meta *m);
void slot_unsent(struct proxy *p, uint32_t slot);
/* The slot is put on that list, or off all of them (SQ_NONE): its source hears whether it waits to be sent. */
void slot_set_queue(struct proxy *p, uint32_t slot, enum slot_queue q);
/* The list that it is on is emptied: it does not wait, whatever is written about it. */
void slot_waits_no_more(struct proxy *p, uint32_t slot);
/* Frees a slot wherever it is queued, keeping held and lane counts right. */
void slot_release(struct proxy *p, uint32_t slot);
/* A response that its host was given goes on the list of those, where it counts as free; and off it, for good. */
void slot_given(struct proxy *p, uint32_t slot);
void slot_given_release(struct proxy *p, uint32_t slot);
/* Frees up to n of these, the oldest first. False: there was none. */
bool slot_given_free(struct proxy *p, unsigned n);
/* Looks whether a pool is full without progress: now and then. */
void slot_look_stuck(struct proxy *p);
/* TK_GIVEN: those go that nobody has asked for. */
void slot_given_on_timer(struct proxy *p);
/* Bytes that a pool has free, or at once if they are needed; and how much of it only urgent packets may take. */
uint64_t pool_free(const struct proxy *p, enum arena_pool pool);
uint64_t pool_reserve(const struct proxy *p, enum arena_pool pool);

static inline uint32_t slot_of_meta(struct proxy *p, const struct slot_meta *m)
{
	return (uint32_t)(m - arena_meta(p->arena, 0));
}

#endif
