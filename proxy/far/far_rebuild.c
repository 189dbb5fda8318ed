/* SPDX-License-Identifier: Apache-2.0 */
/* far_rebuild.c - descriptors, and a flow after a restart.
 *
 * Theory of operation
 *
 * Of a far flow its descriptor, the requests committed at and beyond pos_acked, and the responses that wait for the WAN
 * survive a restart. far_rebuild() reads the descriptors, the caller counts the slots (proxy_init.c), and
 * far_rebuild_finish() moves pos_rx over contiguous requests. Requests that were sent to the host and not ACKed are
 * sent again; the host recognises them by their PSNs. */
#include "far_priv.h"

#include "pair.h"

struct far_desc {
	uint32_t state; /* 1: in use */
	uint32_t inc;
	struct ip_addr src, dst;
	uint32_t peer_flow, dest_qpn, requester_qpn, msgs_acked;
	uint64_t pos_base, pos_acked;
	uint64_t resp_next; /* failed: nak_pos, or 0 of earlier versions: pos_acked */
	uint64_t pair_at_pos, peer_epoch;
	uint32_t pair_msn, cm_tag;
	uint16_t lane, vlan_tci, pmtu;
	uint8_t pairing, base, failed, syndrome, pair_count, template_len;
	uint8_t template[TEMPLATE_MAX];
};

/* far_desc.base: base_fixed; CM has opened another connection since; was_near; keeps_all. Arenas of earlier versions have
 * neither of the last two: the configuration tells. */
enum { BASE_FIXED = 1, BASE_REPLACED = 2, BASE_WAS_NEAR = 4, BASE_KEEPS_ALL = 8 };
enum { FAILED = 1, FAILED_LOST = 2 };       /* far_desc.failed; 0: the flow has not failed */

_Static_assert(sizeof(struct far_desc) <= ARENA_DESC_MAX, "far descriptor fits");

/* False as well if the connection's tag was not told yet: the flow may be the connection that CM has opened. */
static bool replaced_for_sure(const struct far_flow *f)
{
	return f->replaced_by == TAG_OF_ANOTHER || (f->cm_tag && far_is_replaced(f));
}

static uint8_t base_of(const struct far_flow *f)
{
	return (uint8_t)((f->base_fixed ? BASE_FIXED : 0) | (replaced_for_sure(f) ? BASE_REPLACED : 0) |
	                 (f->was_near ? BASE_WAS_NEAR : 0) | (f->keeps_all ? BASE_KEEPS_ALL : 0));
}

void far_store(struct proxy *p, const struct far_flow *f)
{
	struct far_desc d = {
	    .state = far_is_open(f),
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .peer_flow = f->peer_flow,
	    .peer_epoch = f->peer_epoch,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .msgs_acked = f->msgs_acked,
	    .pos_base = f->pos_base,
	    .pos_acked = f->pos_acked,
	    .resp_next = far_has_failed(f) ? f->nak_pos : f->resp_next,
	    .pair_at_pos = f->pair_at_pos,
	    .pair_msn = f->pair_msn,
	    .cm_tag = f->cm_tag,
	    .lane = f->lane,
	    .vlan_tci = f->vlan_tci,
	    .pmtu = f->pmtu,
	    .pairing = (uint8_t)f->pairing,
	    .base = base_of(f),
	    .failed = f->state == FAR_LOST ? FAILED_LOST : f->state == FAR_FAILED ? FAILED : 0,
	    .syndrome = f->syndrome,
	    .pair_count = (uint8_t)f->pair_count,
	    .template_len = f->template_len,
	};

	memcpy(d.template, f->template, f->template_len);
	arena_desc_store(p->arena, DESC_FAR, f->idx, &d, offsetof(struct far_desc, template) + f->template_len);
}

static void rebuild_flow(struct proxy *p, uint32_t idx, const struct far_desc *d)
{
	struct far_flow *f = &p->far[idx];

	far_flow_init(p, f, idx);
	f->inc = d->inc;
	f->src = d->src;
	f->dst = d->dst;
	f->peer_flow = d->peer_flow;
	f->peer_epoch = d->peer_epoch;
	f->dest_qpn = d->dest_qpn;
	f->lane = d->lane;
	f->vlan_tci = d->vlan_tci;
	f->pmtu = d->pmtu;
	f->base_fixed = d->base & BASE_FIXED;
	f->replaced_by = d->base & BASE_REPLACED ? TAG_OF_ANOTHER : 0;
	f->syndrome = d->syndrome;
	f->mode = proxy_mode_for(&p->cfg, &f->dst, &f->src); /* until FLOW_OPEN tells */
	f->was_near = (d->base & BASE_WAS_NEAR) || f->mode == ACK_MODE_NEAR;
	f->keeps_all = (d->base & BASE_KEEPS_ALL) || f->mode == ACK_MODE_FAR;
	far_begin_at(p, f, d->pos_acked);
	f->pos_base = d->pos_base;
	f->msgs_acked = d->msgs_acked;
	if (d->failed)
		f->nak_pos = d->resp_next ? d->resp_next : d->pos_acked;
	else
		f->resp_next = d->resp_next;
	f->pair_at_pos = d->pair_at_pos;
	f->pair_msn = d->pair_msn;
	f->cm_tag = d->cm_tag;
	f->pair_count = d->pair_count;
	f->template_len = d->template_len;
	memcpy(f->template, d->template, d->template_len);
	f->forward_only = rd_op_is_forward_only(f->template, f->template_len);
	far_become(p, f, FAR_NAMED);
	far_become(p, f, FAR_KEYED);
	if (pair_join(p, f))
		far_become(p, f, FAR_OPEN);
	if (d->failed)
		far_become(p, f, d->failed == FAILED_LOST ? FAR_LOST : FAR_FAILED);
	f->pairing = d->pairing;
	f->requester_qpn = d->requester_qpn;
	pair_after_restart(p, f);
	if (far_has_failed(f))
		pair_leave(p, f); /* its QPN may be another flow's */
	else if (f->pairing != PAIR_LEARNING)
		pair_enter(p, f, d->requester_qpn);
}

void far_rebuild(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct far_desc d;

		if (arena_desc_load(p->arena, DESC_FAR, idx, &d, sizeof(d)) && d.state == 1 && d.lane < p->cfg.nlanes &&
		    d.template_len <= TEMPLATE_MAX)
			rebuild_flow(p, idx, &d);
	}
}

/* resp_next: behind the contiguous responses that are still here, from the descriptor's resp_next on. */
void far_rebuild_finish(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct far_flow *f = &p->far[idx];

		if (f->state == FAR_FREE)
			continue;
		far_advance_rx(p, f);
		while (f->resp_next && arena_find(p->arena, SLOT_RESP_FAR, idx, f->resp_next) != SLOT_NONE)
			f->resp_next++;
		f->pos_tx_max = f->pos_rx; /* everything may have been sent: answers count */
		far_schedule(p, f);
	}
}
