/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A lane has packet numbers, sent map, receive window and reports of its own on each path (struct pn_space); the round
 * trip is the path's. Its parts:
 * wan_build.c puts a datagram together, wan_pack.c the packets in it, wan_receive.c takes one apart, wan_recovery.c
 * does what follows from its arriving, being lost or refused. Here: the queues between them, and time.
 *
 * A slot that is to be sent is in at most one queue: first (packets that were never sent), repair (units were lost),
 * spaced (another copy, later), copies (another copy, when nothing else would go). Other packets are not queued slot by
 * slot: a flow with new packets is on its source's list lane.ready[], and the source knows which packet comes next.
 *
 * Lanes with something to send take turns, and the bytes that a lane sends are divided by the number of flows that wait
 * in it: a lane with 30 flows has its turn 30 times as often as a lane with one. A hash of the hosts' addresses decides
 * which flows share a lane, and this must not decide a flow's share. With equal turns for lanes Jain's index of 100 QPs
 * between 100 pairs of hosts in 8 lanes was 0.35. A lane that had nothing to send comes first, so messages between
 * hosts with little to say do not wait for a round of all others. (Start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM
 * 1996.)
 *
 * One timer (wan_lane_on_timer()) does all that a lane does by time: report delay, spaced copies, flow reports, probe.
 *
 * Probe timeout (RFC 9002 6.2): the lane asks the peer about all numbers from the oldest unresolved one on. The peer's
 * report names the missing ones, and only such a report makes a loss. */
#include "wan_lane_priv.h"

#include "wan_fec.h"

#define REFUSED_LEAST    8 /* least number of refused slots that go again in a round trip or REFUSED_LEAST_NS, if half
                              of the line is enough for them */
#define REFUSED_LEAST_NS 4000000ull /* if that is longer than a round trip */
#define MOVE_PTOS     2          /* probe timeouts without an answer after which a lane may change its source port */
#define MOVE_LEAST_NS 200000000ull /* least silence before that: reports over a slow way back are late, not lost */
#define MOVE_VAIN_MAX 6
#define REFUSED_BURST_NS 200000ull /* refused slots due within this time go together: timers are late by as much */
#define REPORT_DELAY_MIN   50000ull
#define REPORT_DELAY_MAX   1000000ull
#define WINDOW_FIRST_BYTES (4u << 20)
#define PPM                1000000
#define COPY_WORTH         4ull
#define TURN_UNITS         1024ull /* of lane.turn in a byte */
#define TURN_AHEAD_MOST    (65536 * TURN_UNITS) /* more than a datagram */

void wan_lane_init(struct proxy *p, struct lane *l, uint8_t id, uint32_t *page_rings, uint32_t ring_len,
                   uint64_t *rx_bits)
{
	l->id = id;
	for (uint8_t i = 0; i < p->wan->npaths; i++)
		pn_space_init(&l->space[i], i, &p->wan->sent_pool, page_rings + (size_t)ring_len * i, ring_len,
		              rx_bits + (size_t)WAN_RECV_WORDS * i);
	for (uint8_t i = 0; i < p->wan->npaths; i++)
		l->space[i].sent.work = &p->work_left;
	timer_init(&l->service, TK_LANE, id);
	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
		dlist_init(&l->ready[i]);
	dlist_init(&l->first);
	dlist_init(&l->repair);
	dlist_init(&l->spaced);
	dlist_init(&l->refused);
	dlist_init(&l->copies);
	l->window_bytes = WINDOW_FIRST_BYTES;
	l->flow_initial_bytes = CREDIT_MIN_BYTES;
}

static void empty_list(struct dnode *head)
{
	while (!dlist_empty(head))
		dlist_remove(dlist_first(head));
}

/* Empties a list of slots that wait to be sent. requeue_slots() of proxy.c queues each slot anew, or frees it. */
static void empty_waiting(struct proxy *p, struct dnode *head)
{
	struct dnode *n;

	while ((n = dlist_first(head))) {
		slot_waits_no_more(p, slot_of_meta(p, dlist_entry(n, struct slot_meta, node)));
		dlist_remove(n);
	}
}

void wan_lane_session_start(struct proxy *p, struct lane *l)
{
	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		rate_on_gone(&p->wan->path[i].pacer->control, l->space[i].sent.marked_in_flight);
		pn_space_reset(&l->space[i], p->now_ns);
		wan_fec_reset_space(p, l, &l->space[i]);
		l->space[i].ping_due = i == 0 || l->id == p->cfg.shard; /* one lane is enough to try a path */
	}
	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
		if (p->wan->transport.source[i] && p->wan->transport.source[i]->session_start)
			p->wan->transport.source[i]->session_start(p, l);
	empty_waiting(p, &l->first);
	empty_waiting(p, &l->repair);
	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++) {
		empty_list(&l->ready[i]);
		l->nwaiting[i] = 0;
	}
	l->nfirst = 0;
	empty_list(&l->spaced);
	empty_list(&l->refused);
	empty_list(&l->copies);
	l->out_bytes = 0;
	l->granted_bytes = 0;
	l->window_bytes = WINDOW_FIRST_BYTES;
	l->flow_initial_bytes = CREDIT_MIN_BYTES;
	l->credit_due = true;
	wan_lane_schedule(p, l);
}

static inline const struct lane *lane_on(const struct dnode *n)
{
	return dlist_entry(n, struct lane, node);
}

/* Turns wrap around (18 PB of a flow), so only their differences count. */
static inline bool turn_before(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}

/* True if the lane on lane_list goes before one that is put there now: by its turn, or because only the one on the list
 * goes before others, or both do. Without branches: it is asked for each lane that is passed. */
static inline bool precedes(const struct dnode *n, bool before_others, uint64_t place)
{
	const struct lane *l = lane_on(n);

	return (unsigned)(l->before_others << 1 | turn_before(l->place, place)) > before_others;
}

/* The first lane on lane_list that does not precede; the new lane goes in front of it. The search begins at the end
 * that is nearer by turns: a lane that was idle goes to the front, a busy lane that has just sent to the back. */
static struct dnode *first_not_before(struct proxy *p, bool before_others, uint64_t place)
{
	struct dnode *list = &p->wan->lane_list, *n = list->next;

	if (n == list || !precedes(n, before_others, place))
		return n;
	if (precedes(list->prev, before_others, place))
		return list;
	if (before_others || place - lane_on(n)->place < lane_on(list->prev)->place - place) {
		while (precedes(n, before_others, place))
			n = n->next;
		return n;
	}
	for (n = list->prev; !precedes(n->prev, before_others, place); n = n->prev)
		;
	return n;
}

/* Puts the lane on lane_list by its turn, before the lanes with the same turn or behind them. A lane with nfirst > 0
 * goes behind the other such lanes. */
static void enter_lane_list(struct proxy *p, struct lane *l, bool behind_equals)
{
	dlist_remove(&l->node);
	l->before_others = l->nfirst > 0;
	l->place = l->turn;
	dlist_insert_before(first_not_before(p, l->before_others, l->place + behind_equals), &l->node);
}

/* True if the lane has had its turn, and so comes later than the lanes that wait. No turn is further ahead than a
 * datagram: what seems to be was idle for half of all turns. */
static bool is_ahead(const struct proxy *p, const struct lane *l)
{
	return l->turn - p->wan->lane_turn <= TURN_AHEAD_MOST;
}

uint32_t wan_lane_waiting(const struct lane *l)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
		n += l->nwaiting[i];
	return n;
}

void wan_lane_schedule(struct proxy *p, struct lane *l)
{
	if (!p->session_on || (dnode_on(&l->node) && (l->before_others || !l->nfirst)))
		return;
	if (!is_ahead(p, l))
		l->turn = p->wan->lane_turn;
	enter_lane_list(p, l, false);
}

void wan_lane_took_turn(struct proxy *p, struct lane *l, size_t bytes, uint32_t flows)
{
	if (is_ahead(p, l))
		p->wan->lane_turn = l->turn;
	l->turn += bytes * TURN_UNITS / max_u64(flows, 1);
	enter_lane_list(p, l, true);
}

void wan_lane_wake_at(struct proxy *p, struct lane *l, uint64_t when_ns)
{
	timer_set_earlier(&p->timers, &l->service, when_ns);
}

/* --- queues --- */

void wan_queue_slot(struct proxy *p, struct dnode *list, uint32_t slot, enum slot_queue q)
{
	struct slot_meta *m = arena_meta(p->arena, slot);

	dlist_remove(&m->node);
	slot_set_queue(p, slot, q);
	dlist_append(list, &m->node);
}

void wan_unqueue(struct proxy *p, struct slot_meta *m)
{
	dlist_remove(&m->node);
	slot_set_queue(p, slot_of_meta(p, m), SQ_NONE);
}

void wan_lane_queue_first(struct proxy *p, struct lane *l, uint32_t slot)
{
	wan_queue_slot(p, &l->first, slot, SQ_FIRST);
	wan_lane_schedule(p, l);
}

bool wan_lane_has_packets(const struct lane *l)
{
	bool any = !dlist_empty(&l->repair) || !dlist_empty(&l->first) || !dlist_empty(&l->copies);

	for (unsigned i = 0; i < WAN_SOURCES_MAX && !any; i++)
		any = !dlist_empty(&l->ready[i]);
	return any;
}

bool wan_lane_has_data(const struct lane *l)
{
	return l->fec_sending || wan_lane_has_packets(l);
}

/* --- by time --- */

uint64_t wan_report_delay(const struct wan_path *path)
{
	return clamp_u64(wan_rtt_min_ns(&path->rtt) / 16, REPORT_DELAY_MIN, REPORT_DELAY_MAX);
}

/* Bytes that wait at the peer while this slot is missing there. */
static uint64_t waiting_behind(const struct proxy *p, const struct lane *l, const struct slot_hdr *h)
{
	const struct wan_source *s = p->wan->transport.of_slot[h->kind];

	return s->waiting_behind ? s->waiting_behind(p, h) : l->out_bytes;
}

/* The largest loss of all paths, because the path that a copy will take is not known yet. */
static uint64_t worst_loss_ppm(const struct proxy *p)
{
	uint64_t ppm = 0;

	for (uint32_t i = 0; i < p->wan->npaths; i++)
		ppm = max_u64(ppm, p->wan->path[i].loss_ppm);
	return ppm;
}

/* True if the second copy of a slot that was lost once may wait until nothing else would go. On a full line the second
 * copy takes the place of a packet. Without it, if the first copy is lost as well, all bytes behind the slot wait for
 * another round trip. Waiting costs nothing while other flows fill the line and the flow may hold that much, so a
 * quarter of these bytes counts (COPY_WORTH). If the expected value of that quarter is less than the packet's length,
 * the copy is not worth its place. */
static bool can_wait(const struct proxy *p, const struct lane *l, uint32_t slot)
{
	const struct slot_hdr *h = arena_hdr(p->arena, slot);
	const struct slot_meta *m = arena_meta(p->arena, slot);

	return m->sends == 2 && m->in_flight && waiting_behind(p, l, h) * worst_loss_ppm(p) / PPM < COPY_WORTH * h->len;
}

static uint32_t refused_first(struct proxy *p, uint32_t slot)
{
	const struct wan_source *s = p->wan->transport.of_slot[arena_hdr(p->arena, slot)->kind];

	return s->refused_first ? s->refused_first(p, slot) : slot;
}

/* Takes work for one more slot. False: none is left in this call, and the lane's timer goes on in the next one. */
static bool may_go_on(struct proxy *p, struct lane *l)
{
	if (work_take(p))
		return true;
	wan_lane_wake_at(p, l, p->now_ns);
	return false;
}

/* Another slot of its flow goes instead of m (refused_first()): m waits behind the slots of all other flows, or its flow
 * alone would go. */
static void refused_stands_back(struct lane *l, struct slot_meta *m)
{
	dlist_remove(&m->node);
	dlist_append(&l->refused, &m->node);
}

/* Refused slots go again at a pace of their own (wan_recovery.c): otherwise slots that the peer has no room for would
 * fill the line, and the packets that would free its room would never arrive. */
static void release_refused(struct proxy *p, struct lane *l)
{
	uint64_t line;
	struct dnode *n;

	if (dlist_empty(&l->refused))
		return;
	line = wan_line_bps(p);
	while ((n = dlist_first(&l->refused)) && may_go_on(p, l)) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);
		uint64_t bits, bps;
		uint32_t slot;

		if (m->due_ns > p->now_ns || p->wan->refused_next_ns > p->now_ns + REFUSED_BURST_NS) {
			wan_lane_wake_at(p, l, max_u64(m->due_ns, p->wan->refused_next_ns));
			return;
		}
		slot = refused_first(p, slot_of_meta(p, m));
		if (slot != slot_of_meta(p, m))
			refused_stands_back(l, m);
		bits = arena_hdr(p->arena, slot)->len * 8ull;
		bps = max_u64(line >> p->wan->refused_slow,
		              min_u64(line / 2, REFUSED_LEAST * bits * 1000000000 /
		                                    max_u64(proxy_rtt_ns(p), REFUSED_LEAST_NS)));
		p->wan->refused_next_ns = max_u64(p->wan->refused_next_ns, p->now_ns) + bits * 1000000000 / max_u64(bps, 1);
		/* alone: the peer refuses a whole datagram if one of its packets finds no room */
		wan_queue_slot(p, &l->repair, slot, p->wan->refused_slow > 1 ? SQ_ALONE : SQ_REPAIR);
		wan_lane_schedule(p, l);
	}
}

static void release_spaced(struct proxy *p, struct lane *l)
{
	struct dnode *n;

	while ((n = dlist_first(&l->spaced)) && may_go_on(p, l)) {
		struct slot_meta *m = dlist_entry(n, struct slot_meta, node);

		if (m->due_ns > p->now_ns) {
			wan_lane_wake_at(p, l, m->due_ns);
			return;
		}
		if (can_wait(p, l, slot_of_meta(p, m)))
			wan_queue_slot(p, &l->copies, slot_of_meta(p, m), SQ_COPY);
		else
			wan_queue_slot(p, &l->repair, slot_of_meta(p, m), SQ_REPAIR);
		wan_lane_schedule(p, l);
	}
}

/* A burst of losses can take all reports that would have told of a number. Later reports keep coming, so no probe
 * timeout asks about the number, its page is never given back, and the sent map fills. So the lane asks about such a
 * number in addition to check_pto(). */
static void check_untold(struct proxy *p, struct lane *l, struct pn_space *s, uint64_t pn, uint64_t sent_ns)
{
	const struct wan_path *path = &p->wan->path[s->path];
	uint64_t due = max_u64(sent_ns + wan_rtt_ns(&path->rtt) / 2, s->asked_ns) + wan_rtt_pto_ns(&path->rtt);

	if (pn >= s->acked_end)
		return; /* no report told of a later number either: check_pto() asks */
	if (p->now_ns < due) {
		wan_lane_wake_at(p, l, due);
		return;
	}
	count(p, CTR_WAN_ASKED, 1);
	s->asked_ns = p->now_ns;
	s->probe_due = true;
	wan_lane_schedule(p, l);
	wan_lane_wake_at(p, l, p->now_ns + wan_rtt_pto_ns(&path->rtt));
}

/* Switches choose the member of a bundle (LAG, ECMP) by ports, and a member may deliver nothing. So a lane that is not
 * answered while other lanes on its path are takes another source port from the next datagram on (Google's PRR; RFC
 * 9000 section 9 allows it). After each change in vain the lane waits twice as long before the next. */
static void look_moved(struct proxy *p, struct lane *l, struct pn_space *s, uint64_t sent_ns)
{
	uint64_t silent_ns = p->now_ns - min_u64(p->now_ns, sent_ns);

	if (s->pto_count < MOVE_PTOS || silent_ns < MOVE_LEAST_NS << s->moves_in_vain ||
	    p->wan->path[s->path].answered_ns + silent_ns / 2 < p->now_ns)
		return;
	s->moves++;
	if (s->moves_in_vain < MOVE_VAIN_MAX)
		s->moves_in_vain++;
	s->pto_count = 0;
	proxy_event_push(p, EV_LANE_MOVED, NULL, NULL, l->id, silent_ns);
}

static void check_pto(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct wan_path *path = &p->wan->path[s->path];
	uint64_t pn, sent_ns, deadline, pto = pn_space_pto_ns(s, path);

	if (!wan_sent_oldest(&s->sent, &pn, &sent_ns))
		return;
	check_untold(p, l, s, pn, sent_ns);
	deadline = max_u64(sent_ns, s->last_progress_ns) + pto;
	if (p->now_ns < deadline) {
		wan_lane_wake_at(p, l, deadline);
		return;
	}
	count(p, CTR_WAN_PROBES, 1);
	path->stats.probes++;
	s->pto_count++;
	look_moved(p, l, s, sent_ns);
	s->last_progress_ns = p->now_ns;
	s->probe_due = true;
	if (!wan_sent_has_room(&s->sent))
		wan_give_up_oldest(p, l, s);
	wan_lane_schedule(p, l);
	wan_lane_wake_at(p, l, p->now_ns + pto);
}

static void check_report(struct proxy *p, struct lane *l, struct pn_space *s)
{
	uint64_t due = s->recv.first_unreported_ns + wan_report_delay(&p->wan->path[s->path]);

	if (!s->recv.unreported)
		return;
	if (p->now_ns >= due) {
		s->report_due = true;
		wan_lane_schedule(p, l);
	} else {
		wan_lane_wake_at(p, l, due);
	}
}

void wan_lane_on_timer(struct proxy *p, struct lane *l)
{
	bool due = false;

	if (!p->session_on)
		return;
	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
		if (p->wan->transport.source[i] && p->wan->transport.source[i]->on_timer)
			p->wan->transport.source[i]->on_timer(p, l);
	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		struct pn_space *s = &l->space[i];

		check_report(p, l, s);
		wan_go_on(p, l, s);
		wan_detect_losses(p, l, s);
		if (wan_paths_usable(p) & 1u << i || p->wan->path[i].state == PATH_UP)
			check_pto(p, l, s); /* what is under way on a dead path goes again when another path is up */
		wan_fec_on_timer(p, l, s);
		due |= s->report_due || s->probe_due;
	}
	release_spaced(p, l);
	release_refused(p, l);
	if (due || wan_lane_has_data(l))
		wan_lane_schedule(p, l); /* the sent map was full when it had its turn */
}
