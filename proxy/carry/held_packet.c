/* SPDX-License-Identifier: Apache-2.0 */
/* held_packet.c - packets that are not RC at the edge beside their receiver. Their bytes lie in a slot of raw.c or in a
 * buffer of ip_carry.c. */
#include "barrier.h"
#include "proxy/roce/ip.h"

static size_t packet_len(struct proxy *p, const struct held_packet *pc)
{
	size_t all = pc->ip ? p->barrier.ip_far.bufs[pc->id].total : arena_hdr(p->arena, pc->id)->len;

	return all - (size_t)pc->n * BARRIER_ENTRY_LEN;
}

uint8_t *held_packet_entries(struct proxy *p, const struct held_packet *pc)
{
	if (pc->ip)
		return p->barrier.ip_far.bufs[pc->id].data;
	return arena_data(p->arena, pc->id) + packet_len(p, pc);
}

static uint8_t *packet_of(struct proxy *p, const struct held_packet *pc)
{
	if (pc->ip)
		return p->barrier.ip_far.bufs[pc->id].data + (size_t)pc->n * BARRIER_ENTRY_LEN;
	return arena_data(p->arena, pc->id);
}

size_t held_packet_lan_tx(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n = dlist_first(&p->held_packets);
	struct held_packet *pc;
	struct ip_pkt pkt;
	size_t len;

	if (!n)
		return 0;
	pc = dlist_entry(n, struct held_packet, node);
	dlist_remove(n);
	len = packet_len(p, pc);
	tx->body = packet_of(p, pc); /* freed buffers keep their bytes until the next packet comes in */
	ip_parse(tx->body, len, &pkt);
	tx->hdr_len = pkt.hdr_len;
	memcpy(tx->hdr, tx->body, pkt.hdr_len);
	tx->body += pkt.hdr_len;
	tx->body_len = (uint16_t)(len - pkt.hdr_len);
	tx->trailer_len = 0;
	tx->dst = pkt.dst;
	tx->dscp_ecn = pkt.tos;
	tx->routed = pc->ip && !pkt.to_roce;
	if (pc->ip) {
		tx->vlan_tci = p->barrier.ip_far.bufs[pc->id].vlan_tci;
		ip_pool_give(&p->barrier.ip_far, &p->barrier.ip_far.bufs[pc->id]);
	} else {
		tx->vlan_tci = arena_hdr(p->arena, pc->id)->vlan_tci;
		slot_release(p, pc->id);
	}
	dlist_append(&p->barrier.held_packets_free, &pc->node);
	return len;
}
