/* SPDX-License-Identifier: Apache-2.0 */
/* far_again.c - asks the responder once more for a READ's responses.
 *
 * Theory of operation
 *
 * A host has lost READ responses that its edge gave it, and has asked again (near_again.c). READ_AGAIN carries a
 * request for them. The responder executes the request anew, and the responses cross to their positions, which lie
 * below those that the flow itself waits for:
 *
 *     | answered: parts of it are read again | resp_next: the first operation | later ones
 *
 * The near edge waits for the first of these responses. So the first one may use the pool's reserve: the pool may be
 * full of later responses for which the near edge has no room. Responses may overtake each other by AGAIN_AHEAD.
 * The flow may have lost its pair (pair_answer_to()). It has no packet to send, so no turn would come in which it could
 * learn the pair again: it takes up its last pair once nobody else can have the QPN (pair_resume()).
 * Responses lost on this LAN are asked for again, with all that follow: AGAIN_QUIET_NS after the last one came, or
 * after far_answer_ns() without any, AGAIN_TRIES times in a row. Beyond that the host repeats what it lacks. So a record
 * lives for at most AGAIN_NS after its last progress, and may be freed for others. */
#include "far_priv.h"

#include "proxy/roce/icrc.h"
#include "lan_host.h"
#include "pair.h"
#include "proxy/wan/wan_lane.h"

#define AGAINS_MAX     64
#define REFUSED_NOW    16
#define AGAIN_NS       2000000000ull
#define AGAIN_QUIET_NS 500000ull
#define AGAIN_AHEAD    64 /* bits of rd_op.again_got */
#define AGAIN_TRIES    3

static struct rd_op *first_again(const struct far_flow *f)
{
	return dlist_empty(&f->agains) ? NULL : dlist_entry(dlist_first(&f->agains), struct rd_op, node);
}

static void again_end(struct proxy *p, struct far_flow *f, struct rd_op *op)
{
	f->nagains--;
	rd_op_give(p, op);
}

void far_again_free(struct proxy *p, struct far_flow *f)
{
	while (first_again(f))
		again_end(p, f, first_again(f));
}

void far_again_expire(struct proxy *p, struct far_flow *f)
{
	while (first_again(f) && p->now_ns > first_again(f)->again_heard_ns + AGAIN_NS)
		again_end(p, f, first_again(f));
}

static struct rd_op *again_at(const struct far_flow *f, uint64_t pos)
{
	for (struct dnode *n = f->agains.next; n != &f->agains; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (pos >= op->pos && pos < op->pos + op->psns)
			return op;
	}
	return NULL;
}

/* Takes a record for one more READ_AGAIN; frees the oldest record if it made no progress for AGAIN_NS, or if there are
 * AGAINS_MAX. */
static struct rd_op *again_take(struct proxy *p, struct far_flow *f)
{
	struct rd_op *op = first_again(f);

	if (op && (f->nagains >= AGAINS_MAX || p->now_ns > op->again_heard_ns + AGAIN_NS))
		again_end(p, f, op);
	op = rd_op_take(p, OP_FOR_FAR);
	if (!op)
		return NULL;
	*op = (struct rd_op){.node = op->node};
	dlist_append(&f->agains, &op->node);
	f->nagains++;
	return op;
}

/* True if the request in the frame is a READ of the flow that ends with the frame's positions, and begins at *from. */
static bool read_again_fits(const struct far_flow *f, const struct wan_read_again *r, struct roce_pkt *pkt,
                            uint64_t *from)
{
	if (roce_parse(r->packet, r->packet_len, pkt) != DROP_NONE || pkt->len != r->packet_len)
		return false;
	*from = r->pos + r->psns - roce_read_psns(pkt->reth_len, f->pmtu ? f->pmtu : LAN_MTU_PAYLOAD_MAX);
	return pkt->opcode == RC_READ_REQUEST && *from <= r->pos && r->pos - *from <= rd_op_ask_back(f->pmtu) &&
	       pkt->psn == pos_psn(*from) && pkt->dest_qpn == f->dest_qpn && ip_addr_eq(&pkt->src, &f->src) &&
	       ip_addr_eq(&pkt->dst, &f->dst) && icrc_check(r->packet, pkt, NULL);
}

/* True if the responder has executed the READ at pos and the flow itself does not wait for that response. */
static bool responder_answered(const struct far_flow *f, uint64_t pos)
{
	return pos < (far_first_op(f) ? f->resp_next : f->pos_acked);
}

/* The near edge lacks the response that the flow itself waits for. If nothing has come for as long as a responder mostly
 * takes, it is lost: far_answer_ns() may be much longer, where transfers of whole READs were measured. Asking sets the
 * retry timer anew, so the limits that the timer checks are checked here, too. */
static void ask_for_awaited(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	const struct rd_op *op = far_first_op(f);

	if (op && pos == f->resp_next && pos > op->pos &&
	    p->now_ns >= max_u64(op->again_ns, f->last_progress_ns) + p->cfg.lan_timeout_ns && !far_overdue(p, f))
		far_part_now(p, f);
}

/* Sends responses of that range at once that are still here because the near edge refused them. True: all of
 * them are. */
static bool send_refused(struct proxy *p, struct lane *l, const struct far_flow *f, const struct wan_read_again *r)
{
	uint32_t n = 0;

	for (; n < r->psns && n < REFUSED_NOW; n++) {
		uint32_t slot = arena_find(p->arena, SLOT_RESP_FAR, f->idx, r->pos + n);

		if (slot == SLOT_NONE)
			return false;
		wan_lane_send_now(p, l, slot);
	}
	return n == r->psns;
}

void far_on_again(struct proxy *p, struct lane *l, const struct wan_read_again *r)
{
	struct far_flow *f = far_by_peer(p, r->flow);
	struct roce_pkt pkt;
	struct rd_op *op;
	uint64_t from;
	bool full;

	if (!f && (f = far_flow_for(p, l, r->flow, r->inc, &full)))
		far_report(p, f, true); /* evicted: the near edge opens it again, and the host asks again */
	if (!f || f->inc != r->inc || f->state != FAR_OPEN || f->hostpair == NONE)
		return; /* the host asks again */
	if (f->lane == l->id && !f->pmtu && r->psns > 1)
		return; /* FLOW_OPEN brings it */
	if (f->lane != l->id || r->pos + FLOW_SPAN_MAX < f->pos_acked || !read_again_fits(f, r, &pkt, &from)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return;
	}
	f->forward_only |= r->forward_only;
	far_host_asks_from(p, f, from);
	if (send_refused(p, l, f, r))
		return;
	if (!responder_answered(f, r->pos)) { /* the responses come anyway */
		ask_for_awaited(p, f, r->pos);
		return;
	}
	if (!pair_resume(p, f))
		return; /* the host asks again */
	op = again_at(f, r->pos);
	if (op && op->pos + op->psns == r->pos + r->psns && p->now_ns < op->again_heard_ns + AGAIN_QUIET_NS)
		return; /* a copy */
	if (!op)
		op = again_take(p, f);
	if (!op)
		return;
	op->pos = op->next = r->pos;
	op->from = from;
	op->psns = r->psns;
	op->rkey = pkt.reth_rkey;
	op->len = pkt.reth_len;
	op->end_va = pkt.reth_va + pkt.reth_len;
	op->again_heard_ns = p->now_ns;
	op->again_got = 0;
	op->again_tries = 0;
	op->due = true;
	f->requester_hdr = (struct requester_hdr){
	    .sport = pkt.udp_sport, .pkey = pkt.pkey, .tos = pkt.tos, .migreq = pkt.migreq, .known = true};
	lan_drr_ready(p, f);
}

struct rd_op *far_again_first_due(const struct far_flow *f)
{
	for (struct dnode *n = f->agains.next; n != &f->agains; n = n->next)
		if (dlist_entry(n, struct rd_op, node)->due)
			return dlist_entry(n, struct rd_op, node);
	return NULL;
}

/* The time at which the responder is asked for the rest of op once more. */
static uint64_t again_at_ns(const struct proxy *p, const struct far_flow *f, const struct rd_op *op)
{
	bool hole = op->again_got || op->again_lost;

	return max_u64(op->again_ns, op->again_heard_ns) + (hole ? AGAIN_QUIET_NS : far_answer_ns(p, f));
}

void far_again_on_timer(struct proxy *p, struct far_flow *f)
{
	uint64_t next_ns = UINT64_MAX;

	for (struct dnode *n = f->agains.next; n != &f->agains; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (op->due || op->again_tries >= AGAIN_TRIES)
			continue;
		if (p->now_ns < again_at_ns(p, f, op)) {
			next_ns = min_u64(next_ns, again_at_ns(p, f, op));
			continue;
		}
		op->again_tries++;
		op->due = true;
	}
	if (next_ns != UINT64_MAX)
		timer_set(&p->timers, &f->read_again, next_ns);
	if (far_again_due(f))
		lan_drr_ready(p, f);
}

static void ask_from(const struct far_flow *f, struct rd_op *op, uint64_t from)
{
	op->len -= (uint32_t)((from - op->from) * f->pmtu);
	op->from = from;
}

void far_agains_from(struct far_flow *f, uint64_t from)
{
	for (struct dnode *n = f->agains.next; n != &f->agains; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (from > op->from && from <= op->next)
			ask_from(f, op, from);
	}
}

size_t far_again_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx)
{
	struct rd_op *op = far_again_first_due(f);
	uint64_t from = f->forward_only ? rd_op_ask_from(op, op->next, f->pmtu, 0) : op->next;

	ask_from(f, op, from);
	far_asked_from(f, from);
	op->due = op->again_lost = false;
	op->again_ns = p->now_ns;
	f->retried_ns = p->now_ns;
	timer_set_earlier(&p->timers, &f->read_again, again_at_ns(p, f, op));
	count(p, CTR_LAN_RETRIES, 1);
	return far_build_read(f, from, op->end_va - op->len, op->rkey, op->len, tx);
}

static bool keep_again_response(struct proxy *p, struct far_flow *f, const struct rd_op *op, const uint8_t *l3,
                                const struct roce_pkt *pkt, uint64_t pos, uint16_t vlan_tci)
{
	bool urgent = pos == op->pos || pool_free(p, POOL_LAN) > pool_reserve(p, POOL_LAN) / 2;

	return far_keep_response(p, f, l3, pkt, pos, vlan_tci, urgent);
}

/* A response before the one that is wanted, of what a forward_only responder was asked for: the wanted one is on its
 * way. */
static void is_on_its_way(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	for (struct dnode *n = f->agains.next; n != &f->agains; n = n->next) {
		struct rd_op *op = dlist_entry(n, struct rd_op, node);

		if (pos >= op->from && pos < op->next)
			op->again_heard_ns = p->now_ns;
	}
}

bool far_again_rx(struct proxy *p, struct far_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                  uint16_t vlan_tci)
{
	struct rd_op *op = pkt->opcode == RC_ATOMIC_ACK ? NULL : again_at(f, pos);
	uint64_t ahead;

	if (f->forward_only && f->nagains)
		is_on_its_way(p, f, pos);
	if (!op || !op->again_ns || pos < op->next)
		return false;
	ahead = pos - op->next;
	if (ahead < AGAIN_AHEAD && op->again_got >> ahead & 1)
		return false;
	if (ahead < AGAIN_AHEAD && keep_again_response(p, f, op, l3, pkt, pos, vlan_tci)) {
		op->again_got |= 1ull << ahead;
		for (; op->again_got & 1; op->again_got >>= 1)
			op->next++;
		op->again_tries = 0;
		op->again_heard_ns = f->last_progress_ns = p->now_ns;
	} else {
		op->again_lost = true;
	}
	if (op->next == op->pos + op->psns)
		again_end(p, f, op);
	else
		timer_set_earlier(&p->timers, &f->read_again, again_at_ns(p, f, op));
	return true;
}
