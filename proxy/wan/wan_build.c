/* SPDX-License-Identifier: Apache-2.0 */
/* wan_build.c - puts the next datagram of a lane together.
 *
 * Theory of operation
 *
 * Contents of a datagram of a path (wan_path_sched.c chooses the path), in this order: report and refusals, probe,
 * frames of the sources, repairs, slots that were queued, new packets of the sources in turn, second copies of repairs,
 * credits; and in what is left, reports that would be due soon. Each thing that must arrive leaves a reference in the
 * sent map; when the datagram is lost the reference says what to send again - its newest state (the source's, if it is
 * a frame of one), never the old bytes of a frame. A datagram of nothing but reports asks for no report, and needs no
 * entry.
 *
 * A datagram of nothing but expendable packets asks for no report either. So that a lane without other packets hears of
 * them all the same (for the rate, for keys, for a source port that brings no answer), a PING goes along while none of
 * the lane's datagrams on the path waits for a report, and with every ASK_EVERY-th such datagram. It stands for the ones
 * before it: one that is lost must not look like the loss of a round trip. */
#include "wan_lane_priv.h"

#include "wan_fec.h"
#include "proxy/wan/cc/wan_pacer.h"
#include "wan_seal.h"
#include "wan_path_sched.h"

#define RIDE_ROOM 256 /* a report of 16 words, two of flows */
#define ASK_EVERY 8 /* datagrams: finer than a rate controller looks at losses */

/* --- about datagrams and the lane --- */

/* Puts in REBUILT (numbers that FEC made up for) and, now and then, ARRIVALS. */
static void put_arrivals(struct wan_build *b)
{
	struct wan_arrivals *a = &b->s->arrivals;
	uint64_t numbers[WAN_REBUILT_MAX];
	uint32_t n;

	if (b->cap - b->off < 1000)
		return;
	n = wan_arrivals_tell_rebuilt(a, numbers, WAN_REBUILT_MAX);
	if (n)
		b->off += wan_rebuilt_put(b->buf + b->off, b->cap - b->off, numbers, n);
	if (!wan_arrivals_due(a))
		return;
	b->off += wan_arrivals_put(b->buf + b->off, b->cap - b->off, &a->sum);
	a->told_numbers = a->sum.numbers;
}

static void put_report(struct wan_build *b)
{
	struct wan_report rep;
	uint64_t words[WAN_REPORT_WORDS_MAX];
	size_t room = b->cap - b->off, n;
	uint32_t max_words;
	bool thin;

	if (room < WAN_FRAME_HDR_LEN + WAN_REPORT_BODY_LEN + 8)
		return;
	max_words = (uint32_t)((room - WAN_FRAME_HDR_LEN - WAN_REPORT_BODY_LEN) / 8);
	if (max_words > WAN_REPORT_WORDS_MAX)
		max_words = WAN_REPORT_WORDS_MAX;
	put_arrivals(b);
	room = b->cap - b->off;
	b->s->report_due = false;
	thin = wan_pacer_reports_ahead_ns(b->path->pacer, b->p->now_ns) > 0;
	if (!wan_recv_report(&b->s->recv, b->p->now_ns, thin ? REPORTS_TOLD_LEAST : REPORTS_TOLD, &rep, words, max_words))
		return;
	n = wan_report_put(b->buf + b->off, room, WF_REPORT, &rep, words);
	b->off += n;
	if (b->s->recv.unreported)
		b->s->report_due = true; /* the report did not hold everything */
}

static void put_refused(struct wan_build *b)
{
	struct wan_recv *r = &b->s->recv;
	struct wan_report rep = {.base = r->refused_base, .largest = r->next ? r->next - 1 : 0, .words = 1};
	size_t n = wan_report_put(b->buf + b->off, b->cap - b->off, WF_REFUSED, &rep, &r->refused_bits);

	if (n)
		r->refused_bits = 0;
	b->off += n;
}

static void put_probe(struct wan_build *b)
{
	uint64_t from = 0, sent_ns;
	size_t n;

	if (!wan_sent_oldest(&b->s->sent, &from, &sent_ns))
		from = b->h.wan_pn; /* all has arrived meanwhile */
	n = wan_probe_put(b->buf + b->off, b->cap - b->off, from);
	if (n && wan_build_ref(b, REF_PING, 0, 0, 0, 0)) {
		b->off += n;
		b->s->probe_due = false;
	}
}

static void put_ping(struct wan_build *b)
{
	size_t n = wan_ping_put(b->buf + b->off, b->cap - b->off);

	if (n && wan_build_ref(b, REF_PING, 0, 0, 0, 0)) {
		b->off += n;
		b->s->ping_due = false;
	}
}

/* Puts a PING into a datagram of only expendable packets, if it is time to ask. A datagram that is full leaves the PING
 * to the next one: no packet is cut for it. */
static void ask_for_expendable(struct wan_build *b)
{
	if (!b->data || b->e->nrefs || FAULT(FAULT_EXPENDABLE_UNASKED))
		return;
	if (b->s->sent.entries_in_flight > 1 && ++b->s->unasked < ASK_EVERY)
		return;
	b->s->ping_due = true;
	put_ping(b);
	if (b->s->ping_due)
		wan_lane_schedule(b->p, b->l);
}

/* A probe of a doubted size in force needs no sending time of the pacer: while every datagram of that size is lost, the
 * rate controller takes the losses for a full line and grants no time, and the path would stand still. One probe is
 * under way at a time. */
static bool size_probe_goes(const struct wan_build *b, enum wan_contents what)
{
	if (!wan_path_probe_lane(b->p, b->l) || b->s->report_due)
		return false;
	return what == WAN_ALL || (what == WAN_CONTROL && b->path->pmtu.doubt);
}

/* A probe of a size (wan_pmtu.h): a datagram of its own. */
static bool put_size_probe(struct wan_build *b, size_t cap)
{
	uint16_t size = wan_pmtu_due(&b->path->pmtu);
	size_t kept = b->cap;

	if (!size || size > cap || !wan_build_ref(b, REF_MTU, size, 0, 0, 0))
		return false;
	b->cap = (size_t)size - WAN_TAG_LEN;
	b->off += wan_ping_put(b->buf + b->off, b->cap - b->off);
	b->off += wan_pad_put(b->buf + b->off, b->cap - b->off);
	b->cap = kept;
	wan_pmtu_sent(&b->path->pmtu);
	return true;
}

/* The window that the lane may have now: the bytes that it holds, and half of the free ones, 2 x CREDIT_MIN_BYTES at
 * least. */
static uint64_t lane_window(const struct proxy *p, const struct lane *l)
{
	uint64_t half = pool_free(p, POOL_WAN) / 2;

	return l->rx_held_bytes + (half > 2 * CREDIT_MIN_BYTES ? half : 2 * CREDIT_MIN_BYTES);
}

/* True if the peer must hear of a new window: the granted one is off by more than an eighth; or less than half of the
 * room beyond the held bytes is granted, and the pool has that room. The second condition is for bytes held for dead
 * flows: these never come back, so no other change would cause a grant. */
static bool credit_is_old(const struct proxy *p, const struct lane *l, uint64_t window)
{
	uint64_t held = l->rx_held_bytes, granted = l->granted_bytes, beyond = window - held;
	uint64_t diff = window > granted ? window - granted : granted - window;

	return diff > granted / 8 ||
	       (granted < held + beyond / 2 && arena_has_room(p->arena, POOL_WAN, LAN_PKT_MAX, beyond) &&
	        !FAULT(FAULT_WINDOW_UNTOLD));
}

static void put_credit(struct wan_build *b)
{
	struct lane *l = b->l;
	uint64_t window = lane_window(b->p, l);
	struct wan_lane_credit c = {.window_bytes = window};
	size_t n;

	if (!l->credit_due && !credit_is_old(b->p, l, window))
		return;
	c.flow_initial_bytes = (uint32_t)clamp_u64(pool_free(b->p, POOL_WAN) / 64, CREDIT_MIN_BYTES, 16u << 20);
	if (wan_build_refs_full(b))
		return;
	n = wan_lane_credit_put(b->buf + b->off, b->cap - b->off, &c);
	if (!n)
		return;
	wan_build_ref(b, REF_LANE_CREDIT, 0, 0, 0, 0);
	b->off += n;
	l->granted_bytes = window;
	l->credit_due = false;
}

/* --- for sources: transport.h --- */

uint8_t *wan_build_room(struct wan_build *b, size_t *room)
{
	*room = b->cap - b->off;
	return b->buf + b->off;
}

size_t wan_build_room_max(const struct wan_build *b)
{
	return (size_t)b->path->payload_max - WAN_TAG_LEN - WAN_HDR_LEN - b->fec_room;
}

unsigned wan_build_places(const struct wan_build *b)
{
	return WAN_REFS_MAX - b->e->nrefs;
}

void wan_build_frame(struct wan_build *b, size_t len, uint8_t type, uint32_t id, uint16_t gen)
{
	wan_build_ref(b, REF_FRAME, id, gen, 0, type);
	b->off += len;
}

void wan_build_expendable(struct wan_build *b, size_t len)
{
	b->off += len;
	b->data = true;
}

bool wan_build_keeps_order(const struct wan_build *b)
{
	return wan_path_sched_keeps_order(b->p, b->l, b->path);
}

/* --- the datagram --- */

/* Puts in the sources' frames that are due by until_ns. */
static void put_control(struct wan_build *b, uint64_t until_ns)
{
	const struct transport *t = &b->p->wan->transport;

	for (unsigned i = 0; i < t->ntalkers; i++)
		t->talker[i]->put_control(b->p, b->l, b, until_ns);
}

/* The most urgent control_due() of all sources. */
static enum wan_due due_of_sources(const struct wan_build *b)
{
	const struct transport *t = &b->p->wan->transport;
	enum wan_due most = WAN_DUE_NOT;

	for (unsigned i = 0; i < t->ntalkers; i++) {
		const struct wan_source *s = t->talker[i];
		enum wan_due due = s->control_due ? s->control_due(b->p, b->l) : WAN_DUE_NOT;

		if (due > most)
			most = due;
	}
	return most;
}

/* Control of all lanes together has a part of the line (wan_pacer.c). A lane's control may go once it has waited for as
 * long as all control is ahead of that part. */
static bool control_waits(struct wan_build *b, enum wan_due due)
{
	uint64_t ahead_ns = wan_pacer_reports_ahead_ns(b->path->pacer, b->p->now_ns), *since_ns = &b->s->told_late_ns;

	if (due == WAN_DUE_NOT && !b->s->report_due)
		return false;
	if (!ahead_ns || due == WAN_DUE_AT_ONCE) {
		*since_ns = 0;
		return false;
	}
	if (!*since_ns)
		*since_ns = b->p->now_ns;
	if (b->p->now_ns - *since_ns >= ahead_ns)
		return false;
	wan_lane_wake_at(b->p, b->l, *since_ns + (b->p->now_ns - *since_ns + ahead_ns + 1) / 2);
	return true;
}

/* A datagram that goes anyway takes along reports that have waited for half of their time and would soon need a
 * datagram of their own. The datagram takes along no earlier reports: streams in both directions would tell of each
 * number within the next few datagrams, and one burst of losses could take all of these. Reports come last, so that no
 * packet is cut in two for them. waited: a due report was held back by control_waits(). */
static void put_soon_due(struct wan_build *b, bool of_sources, bool waited)
{
	uint64_t ahead_ns = wan_report_delay(b->path) / 2;
	const struct wan_recv *r = &b->s->recv;

	if (b->off == WAN_HDR_LEN || b->cap - b->off < RIDE_ROOM)
		return;
	if (b->s->report_due ? waited : r->unreported && b->p->now_ns >= r->first_unreported_ns + ahead_ns)
		put_report(b);
	if (of_sources)
		put_control(b, b->p->now_ns + ahead_ns);
}

static bool begin(struct wan_build *b)
{
	int no_key;

	b->h = (struct wan_hdr){
	    .lane = b->l->id, .path = b->path->id, .epoch = b->p->session.epoch_tx, .wan_pn = b->s->sent.pn_next};
	no_key = wan_seal_ready(&b->p->cfg, &b->h, b->s->acked_end);
	b->p->wan->keys_used_up |= no_key == WAN_SEAL_USED_UP;
	if (no_key)
		return false; /* a new key comes with a new session, which proxy_link_status.keys_used_up asks for */
	if (!wan_sent_has_room(&b->s->sent)) {
		/* Gives up noticing late arrivals: room is worth more. */
		wan_sent_advance(&b->s->sent, b->p->now_ns, 0);
		if (!wan_sent_has_room(&b->s->sent)) {
			wan_lane_wake_at(b->p, b->l, b->p->now_ns + wan_rtt_pto_ns(&b->path->rtt));
			return false;
		}
	}
	b->e = wan_sent_push(&b->s->sent, b->p->now_ns, &b->h.wan_pn);
	b->off = wan_hdr_put(b->buf, &b->h);
	return true;
}

/* Tells the path's controller of the datagram. The bytes of a datagram that is never acknowledged count with the next
 * one that is. */
static void mark(struct wan_build *b)
{
	struct rate_control *c = &b->path->pacer->control;
	uint32_t bytes = (uint32_t)b->off + b->path->pacer->overhead_bytes;

	if (!rate_tracks(c))
		return;
	if (!b->e->nrefs) {
		b->s->unmarked += b->s->sent.marked_in_flight ? bytes : 0;
		return;
	}
	rate_on_sent(c, &b->e->mark, b->p->now_ns, bytes + b->s->unmarked);
	b->s->sent.marked_in_flight += b->e->mark.bytes;
	b->s->unmarked = 0;
}

static void finish(struct wan_build *b)
{
	b->e->bytes = (uint32_t)b->off;
	b->s->sent.bytes_in_flight += b->off;
	count(b->p, CTR_WAN_TX_DGRAMS, 1);
	count(b->p, CTR_WAN_TX_BYTES, b->off);
	if (!b->data) {
		count(b->p, CTR_WAN_TX_CONTROL, 1);
		b->path->stats.tx_control++;
		b->path->stats.tx_control_bytes += b->off;
		wan_pacer_reported(b->path->pacer, b->p->now_ns, b->off);
	}
	mark(b);
	b->e->place = wan_path_sent(b->p, b->path, b->off, b->e->nrefs > 0);
	if (b->e->nrefs) {
		b->s->unasked = 0;
		wan_lane_wake_at(b->p, b->l, b->p->now_ns + pn_space_pto_ns(b->s, b->path));
	} else {
		wan_sent_forget_last(&b->s->sent);
	}
}

/* Returns the length of the finished datagram; 0 if there is nothing in it. */
static size_t seal(struct wan_build *b)
{
	if (b->off == WAN_HDR_LEN) {
		wan_sent_unpush(&b->s->sent);
		return 0;
	}
	wan_fec_note_load(b, b->off + WAN_TAG_LEN);
	b->off = wan_seal_datagram(&b->p->cfg, &b->h, b->buf, b->off, b->part, b->nparts);
	finish(b);
	return b->off;
}

size_t wan_lane_build(struct proxy *p, struct lane *l, struct wan_path *path, uint8_t *buf, size_t cap,
                      enum wan_contents what)
{
	struct pn_space *s = &l->space[path->id];
	struct wan_build b;
	bool control;

	memset(&b, 0, offsetof(struct wan_build, part)); /* of part[], nparts entries hold something */
	b.p = p;
	b.l = l;
	b.path = path;
	b.s = s;
	b.buf = buf;
	b.cap = min_u64(cap, path->payload_max) - WAN_TAG_LEN;
	if (!begin(&b))
		return 0;
	while (what == WAN_ALL && wan_fec_waiting(s)) {
		wan_fec_put(&b);
		if (b.off > WAN_HDR_LEN)
			return seal(&b);
	}
	if (size_probe_goes(&b, what) && put_size_probe(&b, cap))
		return seal(&b);
	b.fec_room = wan_fec_room(path, s);
	b.cap -= b.fec_room;
	control = !control_waits(&b, due_of_sources(&b)); /* else put_soon_due() adds it behind the packets, if there is
	                                                   * room */
	if (control && s->report_due)
		put_report(&b);
	if (s->recv.refused_bits)
		put_refused(&b);
	if (s->probe_due)
		put_probe(&b);
	if (s->ping_due)
		put_ping(&b);
	if (control && what >= WAN_CONTROL)
		put_control(&b, p->now_ns);
	if (control)
		s->told_late_ns = 0;
	if (what == WAN_ALL) {
		wan_pack_repairs(&b);
		wan_pack_firsts(&b);
		wan_pack_repairs(&b); /* packets too large for a datagram go in pieces */
		wan_pack_new(&b);
		wan_pack_copies(&b);
	}
	if (what >= WAN_CONTROL && (b.off > WAN_HDR_LEN || l->credit_due))
		put_credit(&b);
	ask_for_expendable(&b);
	put_soon_due(&b, what >= WAN_CONTROL, !control);
	if (b.off > WAN_HDR_LEN)
		wan_fec_protect(&b);
	return seal(&b);
}
