/* SPDX-License-Identifier: Apache-2.0 */
/* far_cnp.c - CE marks on READ responses, and CNPs of the responder's host.
 *
 * Theory of operation
 *
 * READ responses cross the responder's LAN on their way to the far edge, which is their receiver there as the requester
 * would be without an edge: it answers their CE marks with CNPs to the responder (IBTA A17.9), at most one per 50 us
 * and flow, and the responder's NIC slows down. These CNPs look like the requester's own packets: their header fields
 * are those of the requester's last READ.
 *
 * A CNP of a local host slows down what the edge sends to that queue pair (cnp_rate.c). */
#include "far_priv.h"

#include "lan_host.h"
#include "proxy/shard/cnp_rate.h"

#define CNP_GAP_NS 50000ull

void far_cnp_learn(const struct proxy *p, struct far_flow *f, uint32_t slot)
{
	struct roce_pkt pkt;

	if (roce_parse(arena_data(p->arena, slot), arena_hdr(p->arena, slot)->len, &pkt) != DROP_NONE)
		return;
	f->requester_hdr = (struct requester_hdr){
	    .sport = pkt.udp_sport, .pkey = pkt.pkey, .tos = pkt.tos, .migreq = pkt.migreq, .known = true};
}

void far_cnp_due(struct proxy *p, struct far_flow *f)
{
	if (!f->requester_hdr.known || (f->cnp_sent_ns && p->now_ns < f->cnp_sent_ns + CNP_GAP_NS))
		return;
	dlist_append_once(&p->far_cnps, &f->cnp_node);
}

size_t far_cnp_tx(struct proxy *p, struct lan_tx *tx)
{
	static const uint8_t reserved[ROCE_CNP_PAYLOAD];
	struct dnode *n = dlist_first(&p->far_cnps);
	struct far_flow *f;
	struct roce_pkt pkt;

	if (!n)
		return 0;
	dlist_remove(n);
	f = dlist_entry(n, struct far_flow, cnp_node);
	f->cnp_sent_ns = p->now_ns;
	count(p, CTR_CNPS_TX, 1);
	pkt = far_as_requester(f, ROCE_CNP);
	pkt.tos &= (uint8_t)~ECN_MASK; /* no host answers a mark on a CNP */
	pkt.becn = true;
	tx->hdr_len = (uint16_t)roce_build(tx->hdr, sizeof(tx->hdr), &pkt, reserved, sizeof(reserved));
	tx->body_len = tx->trailer_len = 0;
	tx->body = NULL;
	tx->vlan_tci = f->vlan_tci;
	tx->dst = f->dst;
	tx->dscp_ecn = pkt.tos;
	return tx->hdr_len;
}

/* --- from hosts --- */

/* A queue pair is a responder to one flow and the requester of another: the CNP may be about either's packets. */
enum proxy_drop cnp_rx(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci, bool *cross)
{
	struct far_flow *f = pair_find(p, &pkt->dst, &pkt->src, pkt->dest_qpn);
	struct near_flow *n = near_find(p, &pkt->src, &pkt->dst, pkt->dest_qpn, vlan_tci);

	*cross = f ? f->mode == ACK_MODE_HOST : !n || n->mode == ACK_MODE_HOST;
	if (!f && !n)
		return DROP_NONE;
	count(p, CTR_CNPS_RX, 1);
	if (FAULT(FAULT_CNP_IGNORED))
		return DROP_NONE;
	if (f) {
		if (f->bytes_out > LAN_TURN_BYTES || !lan_host_shared(p, f))
			cnp_rate_cut(p, &f->rate);
		lan_host_cnp(p, f);
	}
	if (n)
		cnp_rate_cut(p, &n->resp_rate);
	return DROP_NONE;
}
