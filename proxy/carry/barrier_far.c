/* SPDX-License-Identifier: Apache-2.0 */
/* barrier_far.c - the far end of the barrier: packets wait until the responders have the requests that the snapshots
 * name.
 *
 * Theory of operation
 *
 * A packet that came with a snapshot (barrier.c) waits in the queue of its pair of machines until the responders have
 * all positions that the snapshot names. Only the first packet of a queue is looked at, and of it only the first open
 * entry: packets behind wait for at least as much, as snapshots of one pair grow, and order is kept. A queue is looked
 * at when a flow between its machines moves on, and exists only while packets wait in it.
 *
 * An entry is done when the responder has ACKed the position, or when the flow has begun a later life. An entry is
 * *waived*, and the packet counted, when waiting would be for nothing or for ever: the flow has failed, makes no
 * progress (StallAfter=), its host has sent a DREQ, or its responder is in RNR - a program may be about to say over TCP
 * "post receives". DREQ and DREP wait for the flow of their own queue pair in RNR as well, and for a host that has sent
 * a DREQ: it may still live. A flow that is not known here yet is waited for: its first packets are behind this one on
 * the line. A packet that has waited for barrier_max_ns goes all the same.
 *
 * An entry names a flow by wire id and incarnation in the near edge's epoch in which the entry was written. By that
 * epoch an entry finds stale flows (far_stale.c), too. A flow of an earlier epoch that never sent a packet does not
 * come any more, and its entry is waived. Snapshots of the next epoch cannot name the stale flows, although hosts saw
 * their completions. So every packet that the barrier holds, with or without a snapshot, and every DREQ and DREP, waits
 * for the stale flows between its two machines. Each pair of machines has lists of its stale flows (struct
 * barrier_far_pair), one for each reason to wait for them or not (enum stale_class). So the number of stale flows costs
 * nothing, neither a packet of other machines nor one of theirs.
 *
 * With Barrier=causal a request that begins a message carries entries, too, of the other flows of its pair. The flow of
 * that request stops in front of it until the entries are done. No cycle is possible: an entry names requests committed
 * before. Each time when a flow moves on, all flows between its machines that have stopped look again at their first
 * open entry. Those that the call has no work for are looked at in the next ticks (barrier_far_pair.to_wake). */
#include "barrier.h"
#include "proxy/shard/flow_find.h"

#define SAY_EVERY_NS        1000000000ull
#define GONE_LOOKS_PER_WORK 32 /* places of barrier.gone, which one unit of CALL_WORK pays for */

static struct barrier_queue *find_queue(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	return barrier_find(p, &p->barrier.queues, src, dst);
}

static struct barrier_queue *new_queue(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct barrier_queue *q = barrier_take(p, &p->barrier.queues, src, dst);

	if (q)
		dlist_init(&q->waiting);
	return q;
}

static void free_queue(struct proxy *p, struct barrier_queue *q)
{
	timer_cancel(&p->timers, &q->limit);
	barrier_release(p, &p->barrier.queues, &q->way);
}

/* --- entries --- */

enum verdict { WAITS, DONE, WAIVED };

/* True if the flow, or a later incarnation, was here and was forgotten, and the request that ends at pos is delivered
 * or never will be. */
static bool is_gone(struct proxy *p, uint32_t peer_flow, uint32_t inc, uint64_t pos, uint64_t epoch)
{
	const struct barrier *b = &p->barrier;

	work_done(p, BARRIER_GONE / GONE_LOOKS_PER_WORK);
	for (uint32_t i = 0; i < b->ngone && i < BARRIER_GONE; i++)
		if (b->gone[i].peer_flow == peer_flow && b->gone[i].peer_epoch == epoch &&
		    ((int32_t)(b->gone[i].inc - inc) > 0 || (b->gone[i].inc == inc && pos <= b->gone[i].upto)))
			return true;
	return false;
}

/* The verdict while the responder of f lacks the position. pc: the packet that waits; NULL: a message of another queue
 * pair. */
static enum verdict verdict_while_lacking(const struct far_flow *f, const struct held_packet *pc)
{
	bool patient = pc && pc->patient && (pc->ends_qpn == NONE || pc->ends_qpn == f->dest_qpn);

	if (far_has_failed(f) || f->stalled)
		return WAIVED;
	return (f->leaving || f->rnr) && !patient && !FAULT(FAULT_RNR_WAITED_FOR) ? WAIVED : WAITS;
}

/* epoch: of the near edge's arena when the entry was written. */
static enum verdict entry_verdict(struct proxy *p, const uint8_t *entry, uint64_t epoch, const struct held_packet *pc)
{
	const struct far_flow *f = far_by_peer_of(p, get_be32(entry), epoch);
	uint32_t inc = get_be32(entry + 4);
	uint64_t pos = get_be64(entry + 8);

	if (!f || f->going != FAR_STAYS || (f->inc != inc && (int32_t)(f->inc - inc) < 0)) {
		if (is_gone(p, get_be32(entry), inc, pos, epoch))
			return DONE;
		return p->session.peer_arena_epoch && epoch != p->session.peer_arena_epoch ? WAIVED : WAITS;
	}
	if (f->inc != inc || (far_is_open(f) && f->pos_acked >= pos))
		return DONE;
	return verdict_while_lacking(f, pc);
}

/* --- stale flows --- */

#define STALE_LOOKS                                                                                                    \
	64 /* stale flows of one QPN that are looked at: a packet waits for the last one if there are more */

static struct barrier_far_pair *find_far_pair(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	return barrier_find(p, &p->barrier.far_pairs, src, dst);
}

/* A free place always exists: each used one has a flow, and there are as many places as flows. */
static struct barrier_far_pair *new_far_pair(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct barrier_far_pair *bp = barrier_take(p, &p->barrier.far_pairs, src, dst);

	*bp = (struct barrier_far_pair){.way = bp->way};
	for (int i = 0; i < STALE_CLASSES; i++)
		dlist_init(&bp->stale[i]);
	dlist_init(&bp->starts);
	return bp;
}

static struct barrier_far_pair *join_far_pair(struct proxy *p, struct far_flow *f)
{
	if (!f->barrier_pair)
		f->barrier_pair = find_far_pair(p, &f->src, &f->dst);
	if (!f->barrier_pair)
		f->barrier_pair = new_far_pair(p, &f->src, &f->dst);
	f->barrier_pair->users++;
	return f->barrier_pair;
}

static void leave_far_pair(struct proxy *p, struct far_flow *f)
{
	struct barrier_far_pair *bp = f->barrier_pair;

	if (!dnode_on(&f->stale_class_node) && !dnode_on(&f->start_node))
		f->barrier_pair = NULL;
	if (--bp->users)
		return;
	barrier_release(p, &p->barrier.far_pairs, &bp->way);
}

static enum stale_class stale_class_of(const struct far_flow *f)
{
	if (f->pos_acked >= f->pos_rx)
		return STALE_OVER;
	if (verdict_while_lacking(f, NULL) == WAITS)
		return STALE_AWAITED;
	return far_has_failed(f) || f->stalled ? STALE_STUCK : STALE_NOT_READY;
}

/* Puts the flow on the list of its class. It goes to the end if it has just become stale, and to the front if it is of
 * the earliest session. It is between others only if the near edge has lost its arena a third time meanwhile. */
static void list_stale(struct proxy *p, struct far_flow *f)
{
	struct dnode *head = &f->barrier_pair->stale[f->stale_class], *at = head, *n = dlist_first(head);

	if (n && dlist_entry(n, struct far_flow, stale_class_node)->stale_since >= f->stale_since)
		at = n;
	else
		for (; at->prev != head; at = at->prev, work_done(p, 1))
			if (dlist_entry(at->prev, struct far_flow, stale_class_node)->stale_since <= f->stale_since)
				break;
	dlist_insert_before(at, &f->stale_class_node);
}

static uint32_t stale_hash(const struct proxy *p, const struct far_flow *f)
{
	return far_dest_hash(p, &f->barrier_pair->way.src, &f->barrier_pair->way.dst, f->dest_qpn);
}

void barrier_flow_stale(struct proxy *p, struct far_flow *f)
{
	join_far_pair(p, f);
	f->stale_class = stale_class_of(f);
	list_stale(p, f);
	idx_hash_put(&p->barrier.stale_by_dest, stale_hash(p, f), f->idx);
}

void barrier_mark_stale(struct proxy *p, struct far_flow *f)
{
	enum stale_class class;

	if (!dnode_on(&f->stale_class_node))
		return;
	class = stale_class_of(f);
	if (class == f->stale_class)
		return;
	dlist_remove(&f->stale_class_node);
	f->stale_class = class;
	list_stale(p, f);
}

static void forget_stale(struct proxy *p, struct far_flow *f)
{
	if (!dnode_on(&f->stale_class_node))
		return;
	idx_hash_del(&p->barrier.stale_by_dest, stale_hash(p, f), f->idx);
	dlist_remove(&f->stale_class_node);
	leave_far_pair(p, f);
}

bool barrier_stale_flow_to(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn)
{
	uint32_t h, i, idx, looks = 0;

	if (dlist_empty(&p->stale_flows))
		return false;
	h = i = far_dest_hash(p, barrier_host(p, src), barrier_host(p, dst), dest_qpn);
	while ((idx = idx_hash_next(&p->barrier.stale_by_dest, h, &i)) != NONE) {
		const struct far_flow *f = &p->far[idx];

		if ((f->dest_qpn == dest_qpn && ip_addr_eq(&f->src, src) && ip_addr_eq(&f->dst, dst)) ||
		    ++looks == STALE_LOOKS)
			return true;
	}
	return false;
}

/* A flow of the class that was stale in that session; NULL: none. */
static const struct far_flow *first_stale(const struct barrier_far_pair *bp, enum stale_class class, uint32_t session)
{
	const struct dnode *n = dlist_first(&bp->stale[class]);
	const struct far_flow *f = n ? dlist_entry(n, struct far_flow, stale_class_node) : NULL;

	return f && f->stale_since <= session ? f : NULL;
}

/* A flow to that queue pair, ready or not, that was stale in that session; NULL: none. */
static const struct far_flow *stale_of_qp(struct proxy *p, const struct barrier_far_pair *bp, uint32_t dest_qpn,
                                          uint32_t session)
{
	uint32_t h = far_dest_hash(p, &bp->way.src, &bp->way.dst, dest_qpn), i = h, idx, looks = 0;

	while ((idx = idx_hash_next(&p->barrier.stale_by_dest, h, &i)) != NONE) {
		const struct far_flow *f = &p->far[idx];

		if (f->barrier_pair == bp && f->dest_qpn == dest_qpn && f->stale_since <= session &&
		    (f->stale_class == STALE_AWAITED || f->stale_class == STALE_NOT_READY))
			return f;
		if (++looks == STALE_LOOKS)
			return f;
	}
	return NULL;
}

/* A stale flow of that session or an earlier one that must be waited for; NULL: none, *waived tells if one is not
 * waited for. pc: the packet that waits; NULL: a message of another queue pair. */
static const struct far_flow *stale_epoch_in_front(struct proxy *p, const struct ip_addr *src,
                                                   const struct ip_addr *dst, uint32_t session,
                                                   const struct held_packet *pc, bool *waived)
{
	const struct barrier_far_pair *bp = dlist_empty(&p->stale_flows) ? NULL : find_far_pair(p, src, dst);
	const struct far_flow *f;

	if (!bp || FAULT(FAULT_STALE_FLOW_OVERTAKEN))
		return NULL;
	f = first_stale(bp, STALE_AWAITED, session);
	if (!f && pc && pc->patient)
		f = pc->ends_qpn == NONE ? first_stale(bp, STALE_NOT_READY, session)
		                         : stale_of_qp(p, bp, pc->ends_qpn, session);
	if (!f)
		*waived |= first_stale(bp, STALE_NOT_READY, session) || first_stale(bp, STALE_STUCK, session);
	return f;
}

/* --- packets --- */

/* Moves pc->at to the first entry that must be waited for. False: there is one, or a stale flow. */
static bool packet_passes(struct proxy *p, struct held_packet *pc, const struct ip_addr *src, const struct ip_addr *dst)
{
	const uint8_t *entries = held_packet_entries(p, pc);
	uint64_t epoch = far_epoch(p, pc->peer_epoch);

	if (FAULT(FAULT_BARRIER_OFF))
		return true;
	for (; pc->at < pc->n; pc->at++) {
		enum verdict v = work_take(p)
		                     ? entry_verdict(p, entries + (size_t)pc->at * BARRIER_ENTRY_LEN, epoch, pc)
		                     : WAITS;

		if (v == WAITS)
			return false;
		pc->waived |= v == WAIVED;
	}
	return !pc->held || !stale_epoch_in_front(p, src, dst, pc->session, pc, &pc->waived);
}

/* --- queues --- */

static void release_packet(struct proxy *p, struct held_packet *pc)
{
	dlist_remove(&pc->node);
	if (pc->waived)
		count(p, CTR_BARRIER_WAIVED, 1);
	dlist_append(&p->held_packets, &pc->node);
}

static void say_expired(struct proxy *p, const struct far_flow *f)
{
	count(p, CTR_BARRIER_EXPIRED, 1);
	if (p->barrier.expired_said_ns && p->now_ns < p->barrier.expired_said_ns + SAY_EVERY_NS)
		return;
	p->barrier.expired_said_ns = p->now_ns;
	proxy_event_push(p, EV_BARRIER_EXPIRED, NULL, f, f ? f->pos_acked : 0, p->cfg.barrier_max_ns);
}

static void expire_packet(struct proxy *p, const struct barrier_queue *q, const struct held_packet *pc)
{
	const uint8_t *entry = held_packet_entries(p, pc) + (size_t)pc->at * BARRIER_ENTRY_LEN;
	bool waived = false;

	if (pc->at < pc->n)
		say_expired(p, far_by_peer_of(p, get_be32(entry), far_epoch(p, pc->peer_epoch)));
	else
		say_expired(p, stale_epoch_in_front(p, &q->way.src, &q->way.dst, pc->session, pc, &waived));
}

/* Releases the packets that need not wait any more, in order. */
static void run_queue(struct proxy *p, struct barrier_queue *q)
{
	struct dnode *n;

	while ((n = dlist_first(&q->waiting))) {
		struct held_packet *pc = dlist_entry(n, struct held_packet, node);

		if (!work_take(p)) {
			timer_set(&p->timers, &q->limit, p->now_ns);
			return;
		}
		if (!packet_passes(p, pc, &q->way.src, &q->way.dst)) {
			if (!p->work_left) {
				timer_set(&p->timers, &q->limit, p->now_ns);
				return;
			}
			if (p->now_ns < pc->until_ns) {
				timer_set(&p->timers, &q->limit, pc->until_ns);
				return;
			}
			expire_packet(p, q, pc);
		}
		p->barrier.waiting--;
		release_packet(p, pc);
	}
	free_queue(p, q);
}

/* --- messages that wait for other queue pairs --- */

static void start_leaves(struct proxy *p, struct far_flow *f)
{
	struct barrier_far_pair *bp = f->barrier_pair;

	if (!dnode_on(&f->start_node))
		return;
	dlist_remove(&f->start_node);
	dlist_remove(&f->start_pair_node);
	bp->nstarts--;
	bp->to_wake = bp->to_wake < bp->nstarts ? bp->to_wake : bp->nstarts;
	if (!bp->to_wake)
		dlist_remove(&bp->wake_node);
	leave_far_pair(p, f);
	if (dlist_empty(&p->barrier.starts))
		timer_cancel(&p->timers, &p->barrier.starts_limit);
}

static void start_goes(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	start_leaves(p, f);
	f->start_passed = pos + 1;
}

static void start_stays(struct proxy *p, struct far_flow *f)
{
	struct barrier_far_pair *bp;

	if (dnode_on(&f->start_node))
		return;
	bp = join_far_pair(p, f);
	f->start_since_ns = p->now_ns;
	dlist_append(&p->barrier.starts, &f->start_node);
	dlist_append(&bp->starts, &f->start_pair_node);
	bp->nstarts++;
	count(p, CTR_BARRIER_HELD, 1);
	if (!timer_armed(&p->barrier.starts_limit))
		timer_set(&p->timers, &p->barrier.starts_limit, p->now_ns + p->cfg.barrier_max_ns);
}

/* Flows of the pair are left to look at: the timer goes on with them in the next tick. */
static void wake_later(struct proxy *p, struct barrier_far_pair *bp)
{
	dlist_append_once(&p->barrier.waking, &bp->wake_node);
	timer_set(&p->timers, &p->barrier.starts_limit, p->now_ns);
}

/* No work is left to look at more entries of the flow's message: the flow is the first to be looked at in the next
 * tick. */
static void look_at_rest_later(struct proxy *p, struct far_flow *f)
{
	struct barrier_far_pair *bp;

	start_stays(p, f);
	bp = f->barrier_pair;
	dlist_remove(&f->start_pair_node);
	dlist_append(bp->starts.next, &f->start_pair_node);
	bp->to_wake += bp->to_wake < bp->nstarts;
	wake_later(p, bp);
}

/* True if the message in the slot, f's next one, must wait for a stale flow or for one of its entries. Moves
 * f->start_at to that entry. */
static bool start_is_behind(struct proxy *p, struct far_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	const uint8_t *entries = arena_data(p->arena, slot) + slot_packet_len(h);
	uint32_t session = f->stale_epoch ? f->stale_since - 1 : p->sessions;

	if (stale_epoch_in_front(p, &f->src, &f->dst, session, NULL, &f->start_waived)) {
		start_stays(p, f);
		return true;
	}
	for (; f->start_at < h->waits; f->start_at++) {
		enum verdict v;

		if (!work_take(p)) {
			look_at_rest_later(p, f);
			return true;
		}
		v = entry_verdict(p, entries + (size_t)f->start_at * BARRIER_ENTRY_LEN, far_epoch(p, f->peer_epoch),
		                  NULL);
		if (v == WAITS) {
			start_stays(p, f);
			return true;
		}
		f->start_waived |= v == WAIVED;
	}
	return false;
}

bool barrier_start_waits(struct proxy *p, struct far_flow *f, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	bool begins = h->flags & (SF_MSG_START | SF_OWN_RESPONSE);

	if (!begins || h->pos < f->start_passed || FAULT(FAULT_CAUSAL_IGNORED))
		return false;
	if (f->start_pos != h->pos) {
		f->start_pos = h->pos;
		f->start_at = 0;
		f->start_waived = false;
	}
	if (start_is_behind(p, f, slot))
		return true;
	if (f->start_waived)
		count(p, CTR_BARRIER_WAIVED, 1);
	start_goes(p, f, h->pos);
	return false;
}

/* Flows of the pair that are left to look at try again, as far as half of the call's work goes: the caller needs work,
 * too. */
static void wake_some(struct proxy *p, struct barrier_far_pair *bp)
{
	while (bp->to_wake && p->work_left > CALL_WORK / 2 && work_take(p)) {
		struct far_flow *f = dlist_entry(dlist_first(&bp->starts), struct far_flow, start_pair_node);

		dlist_rotate(&bp->starts);
		if (--bp->to_wake == 0)
			dlist_remove(&bp->wake_node);
		p->roles->far_schedule(p, f); /* bp may be free now; then bp->to_wake is 0 */
	}
	if (bp->to_wake)
		wake_later(p, bp);
}

/* Flows between the same machines whose next message waits try again. */
static void wake_starts(struct proxy *p, struct far_flow *moved)
{
	struct barrier_far_pair *bp = moved->barrier_pair;

	if (!bp && far_is_keyed(moved))
		bp = find_far_pair(p, &moved->src, &moved->dst);
	if (!bp)
		return;
	bp->to_wake = bp->nstarts;
	wake_some(p, bp);
}

/* Flows that have waited for barrier_max_ns go on, as far as the call's work goes. */
static void expire_starts(struct proxy *p)
{
	struct dnode *n;

	while ((n = dlist_first(&p->barrier.starts))) {
		struct far_flow *f = dlist_entry(n, struct far_flow, start_node);

		if (p->now_ns < f->start_since_ns + p->cfg.barrier_max_ns || !work_take(p))
			return;
		say_expired(p, f);
		start_goes(p, f, f->pos_tx);
		p->roles->far_schedule(p, f);
	}
}

void barrier_on_starts_timer(struct proxy *p)
{
	struct barrier *b = &p->barrier;
	struct dnode *n;

	while ((n = dlist_first(&b->waking)) && p->work_left > CALL_WORK / 2) {
		dlist_rotate(&b->waking);
		wake_some(p, dlist_entry(n, struct barrier_far_pair, wake_node));
	}
	expire_starts(p);
	n = dlist_first(&b->starts);
	if (!dlist_empty(&b->waking))
		timer_set(&p->timers, &b->starts_limit, p->now_ns);
	else if (n)
		timer_set(&p->timers, &b->starts_limit,
		          dlist_entry(n, struct far_flow, start_node)->start_since_ns + p->cfg.barrier_max_ns);
}

/* --- queues again --- */

void barrier_on_timer(struct proxy *p, struct barrier_queue *q)
{
	if (!dnode_on(&q->way.free_node))
		run_queue(p, q);
}

bool barrier_admit(struct proxy *p, const struct held_packet *what, const struct ip_addr *src,
                   const struct ip_addr *dst)
{
	struct dnode *n = dlist_first(&p->barrier.held_packets_free);
	struct barrier_queue *q;
	struct held_packet *pc;

	if (!n)
		return false;
	pc = dlist_entry(n, struct held_packet, node);
	dlist_remove(n);
	*pc = *what;
	pc->node = (struct dnode){0};
	pc->until_ns = p->now_ns + p->cfg.barrier_max_ns;
	pc->peer_epoch = p->session.peer_arena_epoch;
	pc->session = p->sessions;
	q = pc->n || pc->in_order || (pc->held && !dlist_empty(&p->stale_flows)) ? find_queue(p, src, dst) : NULL;
	if (!q && packet_passes(p, pc, src, dst)) {
		release_packet(p, pc);
		return true;
	}
	if (!q)
		q = new_queue(p, src, dst);
	if (!q) {
		dlist_append(&p->barrier.held_packets_free, &pc->node);
		return false;
	}
	dlist_append(&q->waiting, &pc->node);
	p->barrier.waiting++;
	count(p, CTR_BARRIER_HELD, 1);
	run_queue(p, q);
	return true;
}

void barrier_progress(struct proxy *p, struct far_flow *f)
{
	struct barrier_queue *q = p->barrier.queues.used && far_is_keyed(f) ? find_queue(p, &f->src, &f->dst) : NULL;

	barrier_mark_stale(p, f);
	if (far_has_failed(f))
		start_leaves(p, f);
	if (q)
		run_queue(p, q);
	if (!dlist_empty(&p->barrier.starts))
		wake_starts(p, f);
}

void barrier_flow_gone(struct proxy *p, struct far_flow *f, enum far_leaving how)
{
	struct barrier *b = &p->barrier;
	struct barrier_queue *q = p->barrier.queues.used && far_is_keyed(f) ? find_queue(p, &f->src, &f->dst) : NULL;

	start_leaves(p, f);
	forget_stale(p, f);
	f->going = how;
	b->gone[b->ngone % BARRIER_GONE].peer_epoch = far_epoch(p, f->peer_epoch);
	b->gone[b->ngone % BARRIER_GONE].peer_flow = f->peer_flow;
	b->gone[b->ngone % BARRIER_GONE].upto = how == FAR_EVICTED ? f->pos_acked : UINT64_MAX;
	b->gone[b->ngone++ % BARRIER_GONE].inc = f->inc;
	if (q)
		run_queue(p, q);
	if (!dlist_empty(&b->starts))
		wake_starts(p, f);
}

/* --- audit --- */

/* True if the pair's waiting flows are counted, and those left to look at have a timer. Adds to *n. */
static bool audit_starts(const struct proxy *p, const struct barrier_far_pair *bp, uint32_t *n)
{
	uint32_t starts = 0;

	for (const struct dnode *d = bp->starts.next; d != &bp->starts; d = d->next, starts++)
		if (dlist_entry(d, struct far_flow, start_pair_node)->barrier_pair != bp)
			return false;
	*n += starts;
	return starts == bp->nstarts && bp->to_wake <= starts && (bp->to_wake != 0) == dnode_on(&bp->wake_node) &&
	       (!bp->to_wake || timer_armed(&p->barrier.starts_limit));
}

/* True if the pair's lists hold flows of the pair and of their class, ascending by stale_since. Adds to *n. */
static bool audit_stale_lists(const struct barrier_far_pair *bp, uint32_t *n)
{
	for (int class = 0; class < STALE_CLASSES; class ++) {
		uint32_t since = 0;

		for (const struct dnode *d = bp->stale[class].next; d != &bp->stale[class]; d = d->next, (*n)++) {
			const struct far_flow *f = dlist_entry(d, struct far_flow, stale_class_node);

			if (f->barrier_pair != bp || (int)f->stale_class != class ||
			    stale_class_of(f) != f->stale_class || f->stale_since < since)
				return false;
			since = f->stale_since;
		}
	}
	return true;
}

/* True if the flow is on the lists that its state asks for, and they are those of its machines. */
static bool audit_far_flow(struct proxy *p, const struct far_flow *f)
{
	bool stale = f->state != FAR_FREE && f->stale_epoch, waits = dnode_on(&f->start_node);

	if (stale != dnode_on(&f->stale_class_node) || stale != dnode_on(&f->stale_node) ||
	    waits != dnode_on(&f->start_pair_node) || (stale || waits) != (f->barrier_pair != NULL))
		return false;
	if (f->barrier_pair && find_far_pair(p, &f->src, &f->dst) != f->barrier_pair)
		return false;
	return !stale || barrier_stale_flow_to(p, &f->src, &f->dst, f->dest_qpn);
}

int barrier_far_audit(struct proxy *p)
{
	const struct barrier_far_pair *pairs = p->barrier.far_pairs.places;
	uint32_t users = 0, listed = 0;

	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		const struct barrier_far_pair *bp = &pairs[i];
		const struct far_flow *f = &p->far[i];
		uint32_t n = 0;

		if (!audit_far_flow(p, f))
			return -137;
		users += (uint32_t)dnode_on(&f->stale_class_node) + dnode_on(&f->start_node);
		if (dnode_on(&bp->way.free_node))
			continue;
		if (!audit_stale_lists(bp, &n) || !audit_starts(p, bp, &n) || n == 0 || n != bp->users)
			return -138;
		listed += n;
	}
	return users == listed ? 0 : -139;
}
