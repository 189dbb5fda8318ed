/* SPDX-License-Identifier: Apache-2.0 */
/* near_rebuild.c - descriptors, and a flow after a restart.
 *
 * Theory of operation
 *
 * Of a near flow its descriptor and the requests committed at and beyond pos_settled survive a restart. All else is
 * rebuilt from these in three steps: near_rebuild() reads the descriptors, proxy_init.c counts the slots of the whole
 * arena, and near_rebuild_finish() walks each flow's slots in order up to the first hole and orders two incarnations of
 * one key by `born`.
 *
 * A descriptor is stored before an ACK that it must vouch for is sent, and before a slot is freed that it makes
 * superfluous. */
#include "near_priv.h"

#include "near_fp.h"

/* DESC_ENDED: the flow is closed, and the event of its failure was perhaps not fetched. Older versions of the program
 * take it for DESC_FREE. */
enum desc_state { DESC_FREE, DESC_USED, DESC_ENDED };

/* The descriptor of a near flow: the part of it that survives a restart beside its slots. */
struct near_desc {
	uint32_t state; /* enum desc_state */
	uint32_t inc;
	struct ip_addr src, dst;
	uint32_t dest_qpn, requester_qpn;
	uint64_t born, pos_base, pos_settled;
	uint64_t pos_acked; /* mode far: stored before each ACK; else as it was at the last store */
	uint64_t alive_ns;  /* as in near_flow, or up to HEARD_STORE_NS older; FAILED_UNTOLD: the time of failure, if
	                       later. A time of another boot is most often in the future */
	uint32_t msn_settled, msn_offset;
	uint32_t cm_tag;
	uint16_t lane, vlan_tci, pmtu;
	uint8_t pairing, begins, msn_known, failed, rnr_retry, template_len;
	uint8_t template[TEMPLATE_MAX];

	/* Stored only if one of them is not 0; an older version of the program ignores them. */
	uint32_t replaced_flow, replaced_inc; /* as in near_flow, while `replaces`; replaced_inc 0: it does not */
	uint64_t loss_pos, loss_bytes;        /* as in near_flow.loss, while that failure is fresh */
	uint8_t loss_why;                     /* 1 + enum proxy_failure of loss_pos; 0: no fresh failure */
};

_Static_assert(sizeof(struct near_desc) <= ARENA_DESC_MAX, "near descriptor fits");

/* near_desc.failed: 0: the flow has not failed; else the syndrome of the responder's NAK, or FAILED_SILENT;
 * FAILED_UNTOLD is added while the host must still be told. */
#define FAILED_SILENT 1
#define FAILED_UNTOLD 0x80

static uint8_t failure_of(const struct near_flow *f)
{
	if (f->state != NEAR_FAILED)
		return 0;
	return (uint8_t)((f->nak_syndrome ? f->nak_syndrome : FAILED_SILENT) |
	                 (f->tell != TELL_NOTHING ? FAILED_UNTOLD : 0));
}

/* near_desc.alive_ns. While the host must still be told of a failure, TELL_MAX_NS counts from the failure. */
static uint64_t alive_of(const struct near_flow *f)
{
	return f->tell != TELL_NOTHING ? max_u64(f->alive_ns, f->failed_ns) : f->alive_ns;
}

static uint8_t syndrome_of(const struct near_desc *d)
{
	uint8_t how = d->failed & (uint8_t)~FAILED_UNTOLD;

	return how == FAILED_SILENT ? 0 : how;
}

static void recover_failure(struct proxy *p, struct near_flow *f, const struct near_desc *d)
{
	near_become(p, f, d->failed ? NEAR_FAILED : NEAR_OPEN);
	f->nak_syndrome = syndrome_of(d);
	f->fail_pos = d->pos_settled;
	f->fail_msn = d->msn_settled;
	if (d->loss_why)
		near_loss_raise(p, f, d->loss_why - 1, d->loss_pos, d->loss_bytes);
	if (d->failed & FAILED_UNTOLD) {
		f->alive_ns = 0; /* the descriptor has another time there */
		near_error_resume(p, f, d->alive_ns);
	}
	near_loss_wait(p, f);
}

/* near_desc.begins: what is known of the flow's beginning, and of the packet before pos_settled if nothing was taken
 * behind it: it ended a message, or a WRITE or a SEND goes on behind it. A request taken later is in the arena. */
enum {
	BEGINS_FIXED = 1,
	BEGINS_IN_DOUBT = 2,
	BEGINS_INSIDE = 4,
	BEGINS_MSN_LATE = 8,
	BEGINS_EARLY = 16, /* near_mode() is near */
	BEGINS_BETWEEN = 32,
	BEGINS_IN_WRITE = 64,
	BEGINS_IN_SEND = 128
};

static uint8_t begins_after_last(const struct near_flow *f)
{
	uint16_t was = roce_op(f->op_last)->flags;

	if (f->state == NEAR_FAILED || !f->op_known || f->pos_settled != f->pos_next || !(was & ROP_REQUEST))
		return 0;
	if (was & ROP_END)
		return BEGINS_BETWEEN;
	return roce_may_follow(f->op_last, RC_WRITE_MIDDLE) ? BEGINS_IN_WRITE : BEGINS_IN_SEND;
}

/* Sets op_last to an opcode that may be followed by the same opcodes as the last packet before the restart. */
static void recover_last(struct near_flow *f, uint8_t begins)
{
	f->op_known = begins & (BEGINS_BETWEEN | BEGINS_IN_WRITE | BEGINS_IN_SEND);
	if (begins & BEGINS_BETWEEN)
		f->op_last = RC_SEND_ONLY;
	else
		f->op_last = begins & BEGINS_IN_WRITE ? RC_WRITE_MIDDLE : RC_SEND_MIDDLE;
}

static uint8_t begins_of(const struct proxy *p, const struct near_flow *f)
{
	return (uint8_t)((f->base_fixed ? BEGINS_FIXED : 0) | (f->doubted ? BEGINS_IN_DOUBT : 0) |
	                 (f->begins_inside ? BEGINS_INSIDE : 0) | (f->msn == MSN_LATE ? BEGINS_MSN_LATE : 0) |
	                 (near_mode(p, f) == ACK_MODE_NEAR ? BEGINS_EARLY : 0) | begins_after_last(f));
}

/* Bytes of the descriptor that need be stored: loading fills the rest with 0. */
static size_t stored_len(const struct near_desc *d)
{
	return d->replaced_inc || d->loss_why ? sizeof(*d) : offsetof(struct near_desc, template) + d->template_len;
}

void near_store(struct proxy *p, struct near_flow *f)
{
	bool lost = (f->state == NEAR_FAILED || f->state == NEAR_ENDED) && near_loss_is_fresh(p, f);
	struct near_desc d = {
	    .state = f->state == NEAR_ENDED ? DESC_ENDED : near_in_use(f) ? DESC_USED : DESC_FREE,
	    .inc = f->inc,
	    .src = f->src,
	    .dst = f->dst,
	    .dest_qpn = f->dest_qpn,
	    .requester_qpn = f->requester_qpn,
	    .born = f->born,
	    .pos_base = f->pos_base,
	    .pos_settled = f->state == NEAR_FAILED ? f->fail_pos : f->pos_settled,
	    .pos_acked = f->pos_acked,
	    .alive_ns = alive_of(f),
	    .msn_settled = f->state == NEAR_FAILED ? f->fail_msn : f->msn_settled,
	    .msn_offset = f->msn_offset,
	    .cm_tag = f->cm_tag,
	    .lane = f->lane,
	    .vlan_tci = f->vlan_tci,
	    .pmtu = f->pmtu,
	    .pairing = (uint8_t)f->pairing,
	    .begins = begins_of(p, f),
	    .msn_known = f->msn != MSN_UNKNOWN,
	    .failed = failure_of(f),
	    .rnr_retry = f->rnr_retry,
	    .template_len = f->template_len,
	    .replaced_flow = f->replaces ? f->replaced_flow : 0,
	    .replaced_inc = f->replaces ? f->replaced_inc : 0,
	    .loss_pos = lost ? f->loss.pos : 0,
	    .loss_bytes = lost ? f->loss.bytes : 0,
	    .loss_why = (uint8_t)(lost ? f->loss.why + 1 : 0),
	};

	memcpy(d.template, f->template, f->template_len);
	f->stored_ns = p->now_ns;
	f->early_stored = d.begins & BEGINS_EARLY;
	arena_desc_store(p->arena, DESC_NEAR, f->idx, &d, stored_len(&d));
}

void near_take_mode(struct proxy *p, struct near_flow *f, enum ack_mode mode)
{
	f->mode = mode;
	near_store(p, f);
}

static void rebuild_flow(struct proxy *p, uint32_t idx, const struct near_desc *d)
{
	struct near_flow *f = &p->near[idx];

	near_flow_init(p, f, idx);
	f->inc = d->inc;
	f->born = d->born;
	p->births = max_u64(p->births, d->born);
	f->lane = d->lane;
	f->vlan_tci = d->vlan_tci;
	f->src = d->src;
	f->dst = d->dst;
	f->mode = proxy_mode_for(&p->cfg, &f->src, &f->dst);
	f->dest_qpn = d->dest_qpn;
	f->requester_qpn = d->requester_qpn;
	f->pairing = d->pairing;
	f->pmtu = d->pmtu;
	f->base_fixed = d->begins & BEGINS_FIXED;
	f->rnr_retry = d->rnr_retry;
	near_set_base(f, d->pos_settled);
	recover_last(f, d->begins);
	f->psn_origin = pos_psn(d->pos_base);
	f->sent_before = true;
	f->pos_base = d->pos_base;
	f->pos_acked = max_u64(d->pos_acked, d->pos_settled);
	f->msn_settled = f->msn_next = f->msn_acked = d->msn_settled;
	f->msn_offset = d->msn_offset;
	f->cm_tag = d->cm_tag;
	f->doubted = d->begins & BEGINS_IN_DOUBT;
	f->begins_inside = d->begins & BEGINS_INSIDE;
	f->msn = !d->msn_known ? MSN_UNKNOWN : d->begins & BEGINS_MSN_LATE ? MSN_LATE : MSN_EXACT;
	f->early_stored = d->begins & BEGINS_EARLY;
	f->template_len = d->template_len;
	memcpy(f->template, d->template, d->template_len);
	f->forward_only = rd_op_is_forward_only(f->template, f->template_len);
	f->replaces = d->replaced_inc != 0;
	f->replaced_flow = d->replaced_flow;
	f->replaced_inc = d->replaced_inc;
	f->last_rx_ns = f->rebuilt_ns = p->now_ns;
	f->alive_ns = d->alive_ns <= p->now_ns ? d->alive_ns : 0;
	f->alive_pos = UINT64_MAX; /* not known: no packet continues the host's round */
	recover_failure(p, f, d);
	if (f->pairing != PAIR_LEARNING)
		near_requester_enter(p, f);
}

/* Raises the failure of a closed flow again. The flow keeps its place until the event was fetched. */
static void rebuild_ended(struct proxy *p, uint32_t idx, const struct near_desc *d)
{
	struct near_flow *f = &p->near[idx];

	near_flow_init(p, f, idx);
	timer_cancel(&p->timers, &f->retire);
	near_become(p, f, NEAR_ENDED);
	f->inc = d->inc;
	f->src = d->src;
	f->dst = d->dst;
	f->dest_qpn = d->dest_qpn;
	f->requester_qpn = d->requester_qpn;
	f->nak_syndrome = syndrome_of(d);
	near_loss_raise(p, f, d->loss_why - 1, d->loss_pos, d->loss_bytes);
	timer_set(&p->timers, &f->drain, p->now_ns + LOSS_FETCHED_NS);
}

void near_rebuild(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct near_desc d;

		if (!arena_desc_load(p->arena, DESC_NEAR, idx, &d, sizeof(d)))
			continue;
		p->near_inc[idx] = d.inc;
		if (d.state == DESC_ENDED && d.loss_why)
			rebuild_ended(p, idx, &d);
		if (d.state == DESC_USED && d.lane < p->cfg.nlanes && d.template_len <= TEMPLATE_MAX)
			rebuild_flow(p, idx, &d);
	}
}

/* Enters the flow into the table of keys. Of two incarnations of one key the younger one is entered, and the older one
 * drains. */
static void link_lives(struct proxy *p, struct near_flow *f)
{
	struct near_flow *other = near_find(p, &f->src, &f->dst, f->dest_qpn, f->vlan_tci);
	struct near_flow *older = other && other->born < f->born ? other : f;
	struct near_flow *newer = older == f ? other : f;

	if (other && newer == f)
		near_key_del(p, other);
	if (!other || newer == f)
		near_key_put(p, f);
	if (!other)
		return;
	near_link_lives(p, older, newer);
	timer_set(&p->timers, &older->drain, p->now_ns + DRAIN_STALL_NS);
}

/* The mode that was in force before the restart. An operator may have changed the mode since; a flow that was demoted,
 * or whose peer disagreed, was ACKed as in mode host. */
static enum ack_mode mode_before(const struct near_flow *f)
{
	if (f->early_stored)
		return ACK_MODE_NEAR;
	return f->mode == ACK_MODE_NEAR ? ACK_MODE_HOST : f->mode;
}

/* Sets pos_acked to the furthest position that may have been ACKed by the descriptor and the mode. A flow in mode near
 * that was not ACKed early gets no early ACKs until its responder is heard (heard_ns = 0). */
static void rebuild_acked(struct proxy *p, struct near_flow *f)
{
	uint64_t acked = min_u64(f->pos_acked, f->pos_next);

	f->pos_acked = f->pos_settled;
	if (f->pairing != PAIR_LEARNING)
		acked = max_u64(acked, near_ceiling_in(f, mode_before(f)));
	if (f->mode == ACK_MODE_NEAR && !f->early_stored)
		f->heard_ns = 0;
	near_acked(p, f, acked);
	near_early_look(p, f); /* the mode in force may be another one now */
}

/* A packet that was held beyond a gap may not be what comes next (near_absorb_held()). A kill may have come before it
 * was dropped. was_held: its MSN shows that it was not taken in order. */
static bool held_slot_follows(struct proxy *p, const struct near_flow *f, uint32_t slot, bool was_held)
{
	return near_in_sequence(f, arena_hdr(p->arena, slot)->opcode) &&
	       !(was_held && near_held_may_be_rest(p, f, slot));
}

/* Before the restart each READ or ATOMIC that was taken in order or is kept had a record, within the bound OP_FOR_NEAR.
 * So each of them finds a record again: no far flow has one yet, and the few held requests that become in order only
 * here (near_absorb_held() was about to take them) fit between the bounds OP_FOR_NEAR and OP_FOR_FAR. A request without
 * a record was held beyond a gap and has not crossed, or is damaged. Such a request is given up, as in
 * near_absorb_held(): it was not ACKed, its host repeats it, and a second slot of one position would count as damage in
 * the next rebuild. */
static void rebuild_run(struct proxy *p, struct near_flow *f)
{
	uint32_t slot, msn;

	near_fp_recover(p, f);
	while ((slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_next)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);

		msn = f->msn_next + ((h->flags & (SF_MSG_END | SF_OWN_RESPONSE)) != 0);
		if (!held_slot_follows(p, f, slot, h->msn != msn)) {
			near_drop_held(p, f, slot);
			break;
		}
		f->psns_unknown = false; /* a READ in front of it owned one PSN */
		if ((h->flags & SF_OWN_RESPONSE) && !near_op_begin_held(p, f, slot, OP_FOR_FAR)) {
			near_drop_held(p, f, slot);
			break;
		}
		if (h->flags & SF_OWN_RESPONSE)
			near_op_resume(near_op_at(f, h->pos));
		if (h->msn != msn && !FAULT(FAULT_HELD_MSN_KEPT)) /* it was held beyond a gap: its MSN was a guess */
			arena_amend(p->arena, slot, h->psns, msn);
		near_in_order(p, f, slot);
		f->ooo_pkts--;
	}
	f->pos_max = max_u64(f->pos_next, f->pos_held);
	f->pos_last_rx = f->pos_next;
	rebuild_acked(p, f);
	f->acked_ns = 0; /* not known; alive_ns is used instead */
}

void near_rebuild_finish(struct proxy *p)
{
	for (uint32_t idx = 0; idx < p->cfg.max_flows; idx++) {
		struct near_flow *f = &p->near[idx];

		if (!near_in_use(f))
			continue;
		rebuild_run(p, f);
		link_lives(p, f);
		near_unpaired_enter(p, f);
		timer_set(&p->timers, &f->retire, p->now_ns);
		if (f->op_open)
			dlist_append_once(&p->resp_list, &f->resp_node);
	}
}
