/* SPDX-License-Identifier: Apache-2.0 */
/* wan_recovery.c - loss recovery: the fate of datagrams that were sent.
 *
 * Theory of operation
 *
 * A datagram arrived, was lost, or was refused because the peer had no room. In each case the sent map names the
 * references that the datagram carried.
 *
 *   arrived   units of a slot are the peer's. A whole packet is freed, unless its source keeps it.
 *   lost      units go again, doubled (wan_pack.c); the source of a frame is told.
 *   refused   no loss: one copy goes again a little later. Repetitions to a peer without room are in vain, so they have
 *             a pace of their own: it halves with each round trip in which most are refused, REFUSED_SLOW times at
 *             most, and doubles when most are taken. The source chooses the slot that goes first.
 *   moved     its path is dead: one copy goes again at once, on another.
 *
 * Losses are found after RACK (RFC 8985, wan_sent.h). The reordering window grows with each spurious loss, up to a
 * quarter of the round trip, and shrinks slowly. While most losses turn out spurious, the line reorders rather than
 * loses: then the window may be a round trip (RFC 8985 6.2), and a lost packet goes again in one copy, not two. */
#include "wan_lane_priv.h"

#include "wan_fec.h"
#include "proxy/util/probe.h"
#include "proxy/wan/dgram/wan_units.h"

#define REFUSED_WAIT_NS  500000ull
#define REFUSED_SLOW     6 /* halvings: 1.6 % of the line */
#define REFUSED_MOST     4 /* most are taken: this many times as many were taken as refused */
#define REPAIR_SENDS_MAX 200

struct lane_ctx {
	struct proxy *p;
	struct lane *l;
	struct pn_space *s;
	struct rate_pick pick; /* of the datagrams that the report tells to have arrived */
	uint32_t ect_acked;    /* of these datagrams, the number sent as ECT(0) */
};

static bool ref_slot(struct proxy *p, const struct wan_ref *r, struct slot_meta **m)
{
	*m = arena_meta(p->arena, r->id);
	if ((*m)->gen != r->gen)
		return false;
	if ((*m)->in_flight)
		(*m)->in_flight--;
	return true;
}

static void queue_repair(struct proxy *p, struct lane *l, uint32_t slot, uint8_t copies)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	m->copies = copies;
	if (m->queued != SQ_REPAIR)
		wan_queue_slot(p, &l->repair, slot, SQ_REPAIR);
	wan_lane_schedule(p, l);
}

static uint8_t copies_of(const struct slot_meta *m)
{
	return m->sends == 2 ? 2 : 3;
}

/* A lost copy was not repaired while another datagram with the slot was under way. That datagram held only a piece, so
 * the remaining lost units are repaired now. */
static void repair_rest(struct proxy *p, struct lane *l, uint32_t slot)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	if (!m->in_flight && !m->queued && (m->lost[0] | m->lost[1]))
		queue_repair(p, l, slot, copies_of(m));
}

/* Adjusts the pace of refused slots: half as fast after a round trip in which most of them were refused once more,
 * twice as fast after an eighth of a round trip in which most were taken. */
static void refused_pace(struct proxy *p, bool taken)
{
	uint64_t rtt = proxy_rtt_ns(p);
	bool most_taken;

	p->wan->refused_taken += taken;
	p->wan->refused_again += !taken;
	most_taken = p->wan->refused_taken > REFUSED_MOST * p->wan->refused_again;
	if (p->now_ns < p->wan->refused_look_ns + max_u64(most_taken ? rtt / 8 : rtt, REFUSED_WAIT_NS))
		return;
	if (most_taken && p->wan->refused_slow)
		p->wan->refused_slow--;
	if (p->wan->refused_again > p->wan->refused_taken && p->wan->refused_slow < REFUSED_SLOW)
		p->wan->refused_slow++;
	p->wan->refused_taken = p->wan->refused_again = 0;
	p->wan->refused_look_ns = p->now_ns;
}

static void slot_acked(struct proxy *p, struct lane *l, const struct wan_ref *r)
{
	struct slot_meta *m;
	const struct slot_hdr *h = arena_hdr(p->arena, r->id);
	uint64_t mask[2];

	if (!ref_slot(p, r, &m))
		return;
	if (m->sends > 1)
		refused_pace(p, true);
	units_mask(r->off, r->n, mask);
	m->units[0] |= mask[0];
	m->units[1] |= mask[1];
	m->lost[0] &= ~mask[0];
	m->lost[1] &= ~mask[1];
	if (!units_all(m->units, units_of(h->len))) {
		repair_rest(p, l, r->id);
		return;
	}
	if (!p->wan->transport.of_slot[h->kind]->keeps_slots)
		slot_release(p, r->id); /* the peer is responsible for the packet now */
	else if (m->queued)
		wan_unqueue(p, m);
}

void wan_lane_send_again(struct proxy *p, struct lane *l, uint32_t slot)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	if (!m->sends || m->in_flight || m->queued)
		return;
	units_mask(0, units_of(arena_hdr(p->arena, slot)->len), m->lost);
	m->units[0] = m->units[1] = 0;
	count(p, CTR_FLOWS_ASKED, 1);
	queue_repair(p, l, slot, 1);
}

void wan_lane_send_now(struct proxy *p, struct lane *l, uint32_t slot)
{
	if (arena_meta(p->arena, slot)->queued == SQ_REFUSED)
		wan_queue_slot(p, &l->repair, slot, SQ_ALONE);
	wan_lane_schedule(p, l);
}

static bool is_given_up(struct proxy *p, uint32_t slot)
{
	const struct wan_source *s = p->wan->transport.of_slot[arena_hdr(p->arena, slot)->kind];

	return s->gives_up && s->gives_up(p, slot);
}

enum how { HOW_LOST, HOW_DOUBTED /* found lost while most losses were spurious */, HOW_REFUSED, HOW_MOVED };

static void slot_lost(struct proxy *p, struct lane *l, const struct wan_ref *r, enum how how)
{
	struct slot_meta *m;
	const struct slot_hdr *h = arena_hdr(p->arena, r->id);
	uint64_t mask[2];
	bool whole;

	if (!ref_slot(p, r, &m))
		return;
	units_mask(r->off, r->n, mask);
	mask[0] &= ~m->units[0];
	mask[1] &= ~m->units[1];
	if (!(mask[0] | mask[1])) {
		repair_rest(p, l, r->id);
		return;
	}
	if (wan_packet_over(p, h) || is_given_up(p, r->id)) {
		slot_release(p, r->id);
		return;
	}
	m->lost[0] |= mask[0];
	m->lost[1] |= mask[1];
	if (m->sends < REPAIR_SENDS_MAX)
		m->sends++;
	whole = r->off == 0 && r->n == units_of(h->len);
	if (whole && (m->in_flight || m->queued == SQ_SPACED || m->queued == SQ_REFUSED))
		return; /* another copy is under way */
	if ((how == HOW_REFUSED && FAULT(FAULT_REFUSED_FORGOTTEN)) ||
	    (how == HOW_MOVED && FAULT(FAULT_DEAD_PATH_KEEPS)))
		return;
	if (how == HOW_REFUSED) {
		if (m->sends > 2)
			refused_pace(p, false);
		m->copies = 1;
		m->due_ns = p->now_ns + REFUSED_WAIT_NS;
		wan_queue_slot(p, &l->refused, r->id, SQ_REFUSED);
		wan_lane_wake_at(p, l, m->due_ns);
		return;
	}
	queue_repair(p, l, r->id, how == HOW_LOST ? copies_of(m) : 1);
}

static void control_lost(struct proxy *p, struct lane *l, const struct wan_ref *r)
{
	const struct wan_source *source;

	switch (r->kind) {
	case REF_FRAME:
		source = p->wan->transport.sender_of[r->n];
		if (source->frame_lost)
			source->frame_lost(p, l, r->n, r->id, r->gen);
		break;
	case REF_LANE_CREDIT:
		l->credit_due = true;
		wan_lane_schedule(p, l);
		break;
	default:
		break;
	}
}

static struct rate_control *control_of(const struct lane_ctx *c)
{
	return &c->p->wan->path[c->s->path].pacer->control;
}

static bool is_size_probe(const struct sent_entry *e)
{
	return e->nrefs == 1 && e->ref[0].kind == REF_MTU;
}

static void slots_acked(struct lane_ctx *c, const struct sent_entry *e)
{
	work_done(c->p, 1u + e->nrefs);
	for (unsigned i = 0; i < e->nrefs; i++)
		if (e->ref[i].kind == REF_SLOT)
			slot_acked(c->p, c->l, &e->ref[i]);
}

static void entry_acked(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	rate_on_arrived(control_of(c), &c->pick, &e->mark, e->sent_ns, c->p->now_ns);
	c->ect_acked += e->sent_ns >= c->p->wan->path[c->s->path].ecn.since_ns;
	wan_path_size_came(c->p, &c->p->wan->path[c->s->path], e->bytes, is_size_probe(e));
	slots_acked(c, e);
}

/* The peer has rebuilt the datagram: its contents count as arrived, but the line lost it. */
static void entry_rebuilt(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	rate_on_lost(control_of(c), &e->mark, c->p->now_ns);
	slots_acked(c, e);
}

static void entry_gone(struct lane_ctx *c, const struct sent_entry *e, enum how how)
{
	work_done(c->p, 1u + e->nrefs);
	for (unsigned i = 0; i < e->nrefs; i++) {
		if (e->ref[i].kind == REF_SLOT)
			slot_lost(c->p, c->l, &e->ref[i], how);
		else
			control_lost(c->p, c->l, &e->ref[i]);
	}
}

static void entry_lost(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	wan_path_size_lost(c->p, &c->p->wan->path[c->s->path], e->bytes, is_size_probe(e));
	if (is_size_probe(e)) {
		rate_on_gone(control_of(c), e->mark.bytes); /* a lost size probe says nothing of how full the path is */
		return;
	}
	count(c->p, CTR_WAN_LOST, 1);
	PROBE4(wan_lost, c->l->id, c->s->path, e->bytes, c->p->now_ns - e->sent_ns);
	rate_on_lost(control_of(c), &e->mark, c->p->now_ns);
	if (e->block)
		count(c->p, CTR_FEC_SENT_AGAIN, 1);
	wan_path_lost(&c->p->wan->path[c->s->path], e->place);
	if (!pn_space_mostly_spurious(c->s))
		wan_fec_found_lost(c->p, &c->p->wan->path[c->s->path]);
	entry_gone(c, e, pn_space_mostly_spurious(c->s) ? HOW_DOUBTED : HOW_LOST);
	pn_space_found_lost(c->s);
}

static void entry_refused(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	count(c->p, CTR_WAN_REFUSED, 1);
	rate_on_arrived(control_of(c), &c->pick, &e->mark, e->sent_ns, c->p->now_ns); /* the line did its part */
	entry_gone(c, e, HOW_REFUSED);
}

static void entry_moved(void *arg, const struct sent_entry *e)
{
	struct lane_ctx *c = arg;

	wan_path_size_lost(c->p, &c->p->wan->path[c->s->path], is_size_probe(e) ? e->bytes : 0, is_size_probe(e));
	count(c->p, CTR_WAN_MOVED, 1);
	rate_on_gone(control_of(c), e->mark.bytes);
	c->p->wan->path[c->s->path].stats.moved++;
	entry_gone(c, e, HOW_MOVED);
}

/* --- reports --- */

void wan_detect_losses(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct lane_ctx c = {.p = p, .l = l, .s = s};
	uint64_t rtt = wan_rtt_ns(&p->wan->path[s->path].rtt);

	s->sent.told_ns = wan_rtt_pto_ns(&p->wan->path[s->path].rtt) - rtt;
	if (p->now_ns > rtt)
		wan_sent_detect(&s->sent, p->now_ns, s->reorder_ns, rtt, entry_lost, &c);
	wan_sent_advance(&s->sent, p->now_ns, rtt);
	if (wan_sent_any_missing(&s->sent))
		wan_lane_wake_at(p, l, p->now_ns + (p->work_left ? s->reorder_ns : 0));
}

void wan_give_up_oldest(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct lane_ctx c = {.p = p, .l = l, .s = s};

	wan_sent_give_up_oldest(&s->sent, p->now_ns, entry_lost, &c);
	wan_sent_advance(&s->sent, p->now_ns, 0);
}

void wan_move_all(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct lane_ctx c = {.p = p, .l = l, .s = s};

	if (!s->moving)
		s->moved_end = s->sent.pn_next;
	wan_fec_abandon(p, l, s);
	if (wan_sent_give_up_all(&s->sent, entry_moved, &c))
		wan_lane_schedule(p, l);
	wan_sent_advance(&s->sent, p->now_ns, 0);
	s->moving = s->sent.entries_in_flight != 0;
	if (s->moving)
		wan_lane_wake_at(p, l, p->now_ns);
	s->pto_count = 0;
}

/* Keeps the rest of a report that was too much work for one call: the lane's timer goes on with it. A newer report
 * replaces it. */
static void keep_rest(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_report *r, bool cut)
{
	if (!cut) {
		s->rest.words = 0;
		return;
	}
	if (r != &s->rest) {
		memcpy(s->rest_bits, r->bits, 8 * (size_t)r->words);
		s->rest = *r;
		s->rest.bits = s->rest_bits;
	}
	wan_lane_wake_at(p, l, p->now_ns);
}

void wan_on_report(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_report *r)
{
	struct wan_path *path = &p->wan->path[s->path];
	struct lane_ctx c = {.p = p, .l = l, .s = s};
	struct wan_sent_result res;
	uint64_t rtt_ns = 0;
	uint32_t marks = 0;

	wan_sent_report(&s->sent, r, entry_acked, &c, &res);
	if (r->largest < s->sent.pn_next && r->largest >= s->acked_end) {
		s->acked_end = r->largest + 1;
		if (path->state == PATH_DEAD && r->largest < s->moved_end)
			wan_path_was_slow(p, path);
	}
	wan_path_answered(p, path, &res);
	if (res.largest_sent_ns && p->now_ns > res.largest_sent_ns && wan_rtt_delay_counts(r->delay_ns)) {
		wan_path_round_trip(p, path, p->now_ns - res.largest_sent_ns, r->delay_ns);
		rtt_ns = path->rtt.latest_ns;
	}
	if (res.newly_acked) {
		s->pto_count = 0;
		s->moves_in_vain = 0;
		s->last_progress_ns = p->now_ns;
	}
	count(p, CTR_WAN_SPURIOUS, res.spurious);
	s->found_spurious += (uint32_t)res.spurious;
	wan_fec_found_late(p, path, res.spurious);
	rate_on_spurious(&path->pacer->control, res.spurious_marked);
	pn_space_adapt_reorder(s, path, &res);
	wan_detect_losses(p, l, s);
	s->ect_acked += c.ect_acked;
	if (!res.cut) {
		marks = wan_ecn_told(&path->ecn, &s->ecn_heard, r->ecn, s->ect_acked);
		path->stats.marked += marks;
		s->ect_acked = 0;
	}
	rate_on_report(&path->pacer->control, &c.pick, p->now_ns, rtt_ns, marks);
	if (wan_lane_has_data(l))
		wan_lane_schedule(p, l); /* the sent map may have been full */
	keep_rest(p, l, s, r, res.cut);
}

/* Keeps a word of a REFUSED for which the call has no work left: the lane's timer goes on with it. An edge says one at a
 * time; of what a peer says beyond that, only the first is kept, and the rest counts as lost. */
static void keep_refused(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_report *r)
{
	if (s->refused_rest.words)
		return;
	memmove(s->refused_rest_bits, r->bits, sizeof(s->refused_rest_bits));
	s->refused_rest = (struct wan_report){.base = r->base, .words = 1, .bits = s->refused_rest_bits};
	wan_lane_wake_at(p, l, p->now_ns);
}

void wan_on_refused(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_report *r)
{
	struct lane_ctx c = {.p = p, .l = l, .s = s};

	for (uint32_t w = 0; w < r->words; w++) {
		struct wan_report word = {.base = r->base + 64ull * w, .words = 1, .bits = r->bits + 8 * (size_t)w};

		if (!p->work_left) {
			keep_refused(p, l, s, &word);
			return;
		}
		wan_sent_refused(&s->sent, &word, entry_refused, &c);
	}
}

static void refused_go_on(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct wan_report r = s->refused_rest;

	s->refused_rest.words = 0;
	wan_on_refused(p, l, s, &r);
}

void wan_go_on(struct proxy *p, struct lane *l, struct pn_space *s)
{
	if (s->refused_rest.words)
		refused_go_on(p, l, s);
	if (s->rest.words)
		wan_on_report(p, l, s, &s->rest);
	s->moving &= p->wan->path[s->path].state == PATH_DEAD;
	if (s->moving)
		wan_move_all(p, l, s);
}

bool wan_on_rebuilt(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_frame *f)
{
	struct lane_ctx c = {.p = p, .l = l, .s = s};
	struct wan_rebuilt r;
	struct wan_sent_result res = {0};
	uint64_t before = p->counters.ctr[CTR_FEC_RETRANSMITS_SAVED];

	if (!wan_rebuilt_get(f, &r))
		return false;
	for (uint32_t i = 0; i < r.n; i++) {
		unsigned was = wan_sent_rebuilt(&s->sent, wan_rebuilt_number(&r, i), entry_rebuilt, &c);

		count(p, CTR_FEC_RETRANSMITS_SAVED, was == 1);
		p->wan->path[s->path].stats.spared += was == 1;
		count(p, CTR_FEC_LATE, was == 2);
		res.spurious += was == 2; /* the sender repeated the datagram before FEC's repair was told: the window
		                           * was too short */
	}
	if (res.spurious)
		pn_space_adapt_reorder(s, &p->wan->path[s->path], &res);
	if (p->counters.ctr[CTR_FEC_RETRANSMITS_SAVED] != before)
		s->last_progress_ns = p->now_ns;
	return true;
}
