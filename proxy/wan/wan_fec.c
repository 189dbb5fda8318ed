/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_fec.h"

#include "wan_seal.h"

#define HOLD_MIN_NS   50000ull
#define BLOCK_SMALL   32     /* datagrams that a block may wait for on a slow line, for a quarter of a round trip at
                                most */
#define LOOK_NUMBERS  16384  /* load is measured over the time of this many datagrams: a burst of the pacer is 0.1 % of
                                it */
#define LOOK_NS       50000000ull /* longest such time: a line that fills up must give up repairs within the first
                                     second */
#define LOOK_SLACK    16     /* datagrams of such a burst */
#define LOOKS_MOST    16     /* looks that load is averaged over */
#define BUSY_LEAST    32     /* datagrams without a pause that make a line full, or its worker */
#define BLOCK_LEAST   11     /* datagrams that a block may wait for, for a round trip at most: a message of 64 KiB */
#define FILLED_FADE   4096.0 /* datagrams over which the rate of lanes is averaged */
#define LANE_LEAST    8      /* datagrams of a block: a lane that sends fewer is idle, its line not slow */
#define SPARE_LOAD    0.125  /* on a line less loaded than that blocks may close with an eighth of their members */
#define FULL_LANES    4      /* lanes that send at full depth at a time: there are buffers for so many */
#define SHORT_LANES   16     /* lanes for which there are buffers for blocks of one group each, too */

/* --- memory --- */

uint32_t wan_fec_stride(const struct proxy_config *c)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < c->npaths; i++)
		most = c->path[i].payload_max > most ? c->path[i].payload_max : most;
	return c->fec.mode == FEC_OFF ? 0 : (most + 63) & ~63u;
}

static uint64_t rtt_datagrams(const struct proxy_config *c)
{
	return c->rate_hint_bps / 8 * (c->rtt_hint_ns / 1000) / 1000000 / wan_fec_stride(c);
}

/* Buffers for any plan, because the plan may change while the link runs. A lane that finds no buffer left sends a block
 * without repairs. */
uint32_t wan_fec_pool_bufs(const struct proxy_config *c)
{
	uint64_t lanes = min_u64((uint64_t)c->nlanes / c->nshards + 1, SHORT_LANES), full;

	if (c->fec.mode == FEC_OFF)
		return 0;
	full = clamp_u64(rtt_datagrams(c) / FEC_REPAIRS_PART, FEC_M_MAX, FEC_BLOCK_PARITY_MAX);
	return (uint32_t)(2 * (FULL_LANES * full + FEC_M_MAX * lanes));
}

/* Datagrams that the line carries in half a round trip. Two blocks are fewer: a block takes 1/FEC_BLOCK_PART of a round
 * trip, on a slow line up to a quarter (part_ns()). */
uint32_t wan_fec_kept(const struct proxy_config *c)
{
	if (c->fec.mode == FEC_OFF)
		return 0;
	return (uint32_t)clamp_u64(min_u64(rtt_datagrams(c) / 2, FEC_KEEP_BYTES_MAX / wan_fec_stride(c)), FEC_KEEP_MIN,
	                           60000);
}

void wan_fec_init_space(struct pn_space *s, struct fec_space *f, uint64_t *cells, uint32_t id)
{
	s->fec = f;
	fec_tx_init(&f->tx);
	f->seen = (struct fec_seen){.space = id, .cell = cells};
	s->sent.block_done_ns = f->done_ns;
	s->sent.nblocks = FEC_BLOCKS;
}

/* --- the plan of a path --- */

/* Datagrams that the line carries in `ns`. */
static double datagrams_carried(const struct wan_path *path, uint64_t ns)
{
	uint64_t rate = atomic_load_explicit(&path->pacer->rate_bps, memory_order_relaxed);

	return (double)rate * (double)ns / 8e9 / (path->payload_max + path->pacer->overhead_bytes);
}

/* The time that a block may take: 1/part of a round trip; more on a line so slow that this holds too few datagrams. */
static uint64_t part_ns(const struct wan_path *path, unsigned part)
{
	uint64_t rtt = wan_rtt_min_ns(&path->rtt), datagram = (uint64_t)(1 / datagrams_carried(path, 1));

	return max_u64(rtt / part, max_u64(min_u64(rtt / 4, BLOCK_SMALL * datagram), min_u64(rtt, BLOCK_LEAST * datagram)));
}

/* The time that a block may wait for more datagrams while its lane has packets. */
static uint64_t hold_ns(const struct wan_path *path)
{
	return max_u64(part_ns(path, FEC_HOLD_PART), HOLD_MIN_NS);
}

/* The time that a block may wait for more datagrams while its lane has no packets. */
static uint64_t hold_dry_ns(const struct wan_path *path)
{
	return max_u64(wan_rtt_min_ns(&path->rtt) / FEC_HOLD_PART, HOLD_MIN_NS);
}

/* The time at which the block that is being filled is old enough to be closed. */
static uint64_t closes_ns(const struct wan_path *path, const struct lane *l, const struct fec_tx *t)
{
	return t->fill.opened_ns + (wan_lane_has_packets(l) ? hold_ns(path) : hold_dry_ns(path));
}

/* Called when a block was closed: averages the datagrams that its lane sends in hold_ns(), weighted by datagrams, so
 * that busy lanes count most. */
static void note_filled(struct wan_path *path, const struct fec_block *b, uint64_t now_ns)
{
	double most = datagrams_carried(path, hold_ns(path)), n = b->members;

	if (now_ns > b->opened_ns && n * (double)hold_ns(path) < most * (double)(now_ns - b->opened_ns))
		most = n * (double)hold_ns(path) / (double)(now_ns - b->opened_ns);
	path->fec.filled += n;
	path->fec.filled_rate += n * most;
	while (path->fec.filled > FILLED_FADE) {
		path->fec.filled /= 2;
		path->fec.filled_rate /= 2;
	}
}

/* Datagrams that a block may be planned for. A line with room can afford to close blocks with a part of their members
 * and all of their repairs. */
static double lane_room(const struct wan_path *path, const struct fec_line *line)
{
	double sends = path->fec.filled_rate / path->fec.filled * FEC_HOLD_PART / (FEC_HOLD_PART + 1);
	double load = line->load > SPARE_LOAD ? line->load : SPARE_LOAD;
	double spare = line->full ? 0 : fec_load_most(line) / load - 1;

	return spare > 0 ? sends * (1 + spare) : sends;
}

static struct fec_line line_of(const struct proxy *p, const struct wan_path *path)
{
	struct fec_line line = {.block_datagrams = datagrams_carried(path, part_ns(path, FEC_BLOCK_PART)),
	                        .rtt_datagrams = datagrams_carried(path, wan_rtt_min_ns(&path->rtt)),
	                        .load = path->fec.load,
	                        .slack = path->fec.slack > FEC_SLACK ? path->fec.slack : FEC_SLACK,
	                        .full = path->fec.full};
	double lane = path->fec.filled > 0 ? lane_room(path, &line) : line.block_datagrams;

	if (p->cfg.fec.mode == FEC_AUTO && lane < line.block_datagrams) {
		double least = line.block_datagrams < LANE_LEAST ? line.block_datagrams : LANE_LEAST;

		line.block_datagrams = lane > least ? lane : least;
	}
	return line;
}

static uint64_t growth_since(_Atomic uint64_t *sum, uint64_t *before)
{
	uint64_t was = *before;

	*before = atomic_load_explicit(sum, memory_order_relaxed);
	return *before - was;
}

static uint64_t look_after_ns(const struct wan_path *path)
{
	uint64_t numbers_ns = (uint64_t)(LOOK_NUMBERS / datagrams_carried(path, 1));

	return max_u64(wan_rtt_min_ns(&path->rtt), min_u64(numbers_ns, LOOK_NS));
}

/* Averages the load with earlier looks that found about the same: path->fec.slack shrinks with each of them. */
static void note_load(struct wan_path *path, double load, double slack)
{
	struct fec_load *look = &path->fec.look;
	double off = load - path->fec.load;

	if (!look->looks || off > slack || off < -slack) {
		look->looks = 0;
		path->fec.load = load;
	}
	look->looks += look->looks < LOOKS_MOST;
	path->fec.load += (load - path->fec.load) / look->looks;
	path->fec.slack = slack / look->looks > FEC_SLACK ? slack / look->looks : FEC_SLACK;
}

/* Measures the share of the line that all shards took lately. Packets often go one per datagram while the line has
 * room, and several per datagram when it has none. So the load is what the line would carry if all datagrams were full,
 * with as many repairs each as now. */
static void look_at_load(struct proxy *p, struct wan_path *path)
{
	struct fec_load *look = &path->fec.look;
	double datagrams = datagrams_carried(path, p->now_ns - look->ns), line, data, around, with = 1;
	bool full;

	line = datagrams * (path->payload_max + path->pacer->overhead_bytes);
	around = look->packed_data > 0
	             ? look->packed_line / look->packed_data
	             : 1 + (double)(WAN_HDR_LEN + WAN_TAG_LEN + path->pacer->overhead_bytes) / path->payload_max;
	data = (double)growth_since(&path->pacer->data_bytes, &look->data_bytes) * around;
	if (look->packed > 0 && look->datagrams > 0)
		with += look->repairs / look->datagrams / (look->packed_line / look->packed);
	note_load(path, (data + (double)growth_since(&path->pacer->other_bytes, &look->other_bytes)) / line,
	          LOOK_SLACK / datagrams);
	full = path->fec.load * with >= fec_load_full(path->fec.slack) || (!look->idle && look->datagrams >= BUSY_LEAST);
	path->fec.full = full ? path->fec.full + 1 : 0;
	look->idle = !p->wan->rate_waits_told;
	look->repairs = look->datagrams = 0;
	look->packed /= 2;
	look->packed_data /= 2;
	look->packed_line /= 2;
	look->ns = p->now_ns;
	look->next_ns = p->now_ns + look_after_ns(path);
}

static void replan(struct proxy *p, struct wan_path *path)
{
	struct fec_line line = line_of(p, path);

	path->fec.plan_due = false;
	if (p->session.peer_without_fec) {
		path->fec.plan.k = 0;
		return;
	}
	fec_plan_update(&path->fec.plan, &path->fec.changed_ns, &p->cfg.fec, &path->fec.measure, &line, p->now_ns);
}

void wan_fec_note_load(struct wan_build *b, size_t len)
{
	struct wan_pacer *pacer = b->path->pacer;
	struct fec_load *look = &b->path->fec.look;
	uint64_t line = len + pacer->overhead_bytes, data = b->off - WAN_HDR_LEN;

	if (!b->s->fec)
		return;
	if (b->p->now_ns >= look->next_ns) {
		look_at_load(b->p, b->path);
		replan(b->p, b->path);
	} else if (b->path->fec.plan_due) {
		replan(b->p, b->path);
	}
	if (b->repair) {
		look->repairs += (double)line;
		return;
	}
	if (!b->data) {
		atomic_fetch_add_explicit(&pacer->other_bytes, line, memory_order_relaxed);
		return;
	}
	atomic_fetch_add_explicit(&pacer->data_bytes, data, memory_order_relaxed);
	look->datagrams++;
	if (wan_lane_has_packets(b->l)) {
		look->packed++;
		look->packed_data += (double)data;
		look->packed_line += (double)line;
	}
}

void wan_fec_session_start(struct proxy *p)
{
	if (!p->wan->fec)
		return;
	fec_rx_reset(&p->wan->fec->rx);
	p->wan->fec->rebuilt_tail = p->wan->fec->rebuilt_head;
	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		struct wan_path *path = &p->wan->path[i];

		path->fec.measure.found = 0;
		path->fec.look.ns = p->now_ns;
		path->fec.look.idle = true;
		path->fec.look.next_ns = p->now_ns + look_after_ns(path);
		growth_since(&path->pacer->data_bytes, &path->fec.look.data_bytes);
		growth_since(&path->pacer->other_bytes, &path->fec.look.other_bytes);
		replan(p, path);
	}
}

void wan_fec_reconfigured(struct proxy *p)
{
	for (uint32_t i = 0; p->wan->fec && i < p->wan->npaths; i++) {
		p->wan->path[i].fec.plan.k = 0;
		p->wan->path[i].fec.changed_ns = 0;
		replan(p, &p->wan->path[i]);
	}
}

void wan_fec_reset_space(struct proxy *p, struct lane *l, struct pn_space *s)
{
	memset(&s->arrivals, 0, sizeof(s->arrivals));
	memset(&s->peer_sum, 0, sizeof(s->peer_sum));
	if (!s->fec)
		return;
	l->fec_sending = 0;
	fec_tx_reset(&s->fec->tx, &p->wan->fec->pool);
	fec_seen_reset(&p->wan->fec->rx, &s->fec->seen);
}

/* --- sending --- */

static uint64_t hold_most_ns(const struct wan_path *path)
{
	return max_u64(wan_rtt_min_ns(&path->rtt) / 4, hold_ns(path));
}

/* The part of the line's rate that this shard's budget counts on. */
static uint64_t share_bps(const struct proxy *p, const struct wan_path *path)
{
	return pacer_part_bps(&path->part, p->cfg.nshards, atomic_load_explicit(&path->pacer->rate_bps, memory_order_relaxed));
}

bool wan_fec_waiting(const struct pn_space *s)
{
	return s->fec && s->fec->tx.sending;
}

static void block_done(struct pn_space *s, uint32_t id, uint64_t now_ns)
{
	s->sent.block_done_ns[id % FEC_BLOCKS] = now_ns;
}

void wan_fec_abandon(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct fec_tx *t = s->fec ? &s->fec->tx : NULL;

	if (!t)
		return;
	if (t->filling)
		block_done(s, t->fill.id, p->now_ns);
	if (t->sending)
		block_done(s, t->out.id, p->now_ns);
	l->fec_sending = (uint8_t)(l->fec_sending - t->sending);
	fec_tx_reset(t, &p->wan->fec->pool);
}

void wan_fec_put(struct wan_build *b)
{
	struct fec_tx *t = &b->s->fec->tx;
	struct wan_fec f;
	size_t n;

	fec_tx_next(t, &b->p->wan->fec->pool, &f);
	n = wan_fec_frame_put(b->buf + b->off, b->cap - b->off, &f); /* 0: the path's datagrams have become smaller
	                                                              * meanwhile */
	b->off += n;
	b->data = b->repair = n > 0;
	count(b->p, CTR_FEC_TX, n > 0);
	if (!t->out.paid)
		fec_budget_spend(&b->path->fec.budget, &t->out.plan, f.len, share_bps(b->p, b->path),
		                 b->p->now_ns + hold_ns(b->path));
	if (!fec_tx_sent(t, &b->p->wan->fec->pool))
		return;
	block_done(b->s, t->done_id, b->p->now_ns);
	if (t->filling)
		wan_lane_wake_at(b->p, b->l, closes_ns(b->path, b->l, t));
	b->l->fec_sending = (uint8_t)(b->l->fec_sending - !t->sending);
}

void wan_fec_protect(struct wan_build *b)
{
	struct fec_shard *shard = b->p->wan->fec;
	struct wan_sent *sent = &b->s->sent;
	uint8_t *symbol = b->buf + WAN_HDR_LEN - FEC_SYMBOL_HDR; /* overwrites the end of the header, which is written
	                                                          * again afterwards */
	struct fec_tx *t;
	bool was_filling, was_sending;

	if (!b->s->fec || !(b->data || b->e->nrefs))
		return;
	t = &b->s->fec->tx;
	was_filling = t->filling;
	was_sending = t->sending;
	if (!was_filling && !(b->path->fec.plan.k && wan_paths_usable(b->p) & 1u << b->path->id))
		return;
	wan_seal_gather(b->buf, b->part, b->nparts);
	b->nparts = 0;
	fec_symbol_hdr(symbol, b->off - WAN_HDR_LEN);
	if (fec_tx_add(t, &shard->pool, &shard->code, &b->path->fec.plan, sent->block + 1, b->h.wan_pn, symbol,
	               b->off - WAN_HDR_LEN + FEC_SYMBOL_HDR, b->p->now_ns)) {
		b->h.flags |= WAN_FLAG_FEC;
		if (t->last_id != sent->block)
			block_done(b->s, sent->block = t->last_id, UINT64_MAX);
		b->e->block = t->last_id;
	} else {
		count(b->p, CTR_FEC_UNPROTECTED, 1);
	}
	wan_hdr_put(b->buf, &b->h);
	if (t->sending && !was_sending) {
		note_filled(b->path, &t->out, b->p->now_ns);
		b->l->fec_sending++;
	}
	if (t->filling)
		wan_lane_wake_at(b->p, b->l, closes_ns(b->path, b->l, t));
	if (t->sending)
		wan_lane_schedule(b->p, b->l);
}

void wan_fec_on_timer(struct proxy *p, struct lane *l, struct pn_space *s)
{
	struct wan_path *path = &p->wan->path[s->path];
	struct fec_tx *t = s->fec ? &s->fec->tx : NULL;
	uint64_t when, last;
	unsigned rows, least;

	if (!t || !t->filling)
		return;
	when = closes_ns(path, l, t);
	if (t->sending || p->now_ns < when) {
		wan_lane_wake_at(p, l, t->sending ? p->now_ns + hold_dry_ns(path) : when);
		return;
	}
	last = t->fill.opened_ns + hold_ns(path);
	least = p->now_ns < last && t->fill.plan.m > 1 ? 2 : 1;
	rows = fec_budget_rows(&path->fec.budget, &t->fill.plan, least, fec_tx_row_bytes(t), share_bps(p, path),
	                       hold_ns(path), p->now_ns, &when);
	last = least > 1 ? last : t->fill.opened_ns + hold_most_ns(path);
	if (!rows && p->now_ns < last) {
		wan_lane_wake_at(p, l, min_u64(when, last));
		return;
	}
	t->fill.paid = true;
	note_filled(path, &t->fill, p->now_ns);
	fec_tx_close(t, &p->wan->fec->pool, rows);
	if (rows) {
		l->fec_sending++;
		wan_lane_schedule(p, l);
	} else {
		block_done(s, t->out.id, p->now_ns);
		count(p, CTR_FEC_BUDGET_SPENT, 1);
	}
}

static uint32_t bufs_of(const struct fec_block *b)
{
	return (uint32_t)b->plan.depth * b->plan.m;
}

int wan_fec_audit(const struct proxy *p)
{
	uint32_t n = p->wan->fec ? p->wan->fec->pool.nfree : 0;

	for (uint32_t i = 0; p->wan->fec && i < p->cfg.nlanes; i++) {
		unsigned sending = 0;

		for (uint32_t k = 0; k < p->wan->npaths && proxy_owns_lane(p, i); k++) {
			const struct fec_tx *t = &p->wan->lanes[i].space[k].fec->tx;

			n += (t->filling ? bufs_of(&t->fill) : 0) + (t->sending ? bufs_of(&t->out) : 0);
			sending += t->sending;
		}
		if (sending != p->wan->lanes[i].fec_sending)
			return -140;
	}
	return !p->wan->fec || n == p->wan->fec->pool.n ? 0 : -140;
}

/* --- receiving --- */

void wan_fec_came(struct proxy *p, struct pn_space *s, const struct wan_hdr *h, const uint8_t *frames, size_t len)
{
	if (!s->fec)
		return;
	if (h->flags & WAN_FLAG_FEC)
		fec_rx_keep(&p->wan->fec->rx, &s->fec->seen, h->wan_pn, frames, len, p->now_ns);
	else
		fec_rx_no_member(&p->wan->fec->rx, &s->fec->seen, h->wan_pn);
}

struct rebuilt_ctx {
	struct proxy *p;
	struct lane *l;
	struct pn_space *s;
	bool full; /* a datagram found no place in the queue: it stays missing */
};

static void on_rebuilt(void *arg, uint64_t pn, uint8_t *dgram, size_t len, uint64_t due_ns)
{
	struct rebuilt_ctx *c = arg;
	struct fec_shard *fec = c->p->wan->fec;

	if (fec->rebuilt_head - fec->rebuilt_tail == FEC_REBUILT_MAX) {
		c->full = true;
		return;
	}
	fec_rx_keep(&fec->rx, &c->s->fec->seen, pn, dgram + WAN_HDR_LEN, len - WAN_HDR_LEN, c->p->now_ns);
	fec->rebuilt[fec->rebuilt_head++ % FEC_REBUILT_MAX] = (struct fec_rebuilt){
	    .pn = pn, .due_ns = due_ns, .lane = c->l->id, .path = c->s->path};
}

static void take_rebuilt(struct proxy *p, const struct fec_rebuilt *r)
{
	struct lane *l = lane_of(p, r->lane);
	struct pn_space *s = &l->space[r->path];
	struct wan_hdr h = {.lane = r->lane, .path = r->path, .epoch = p->session.epoch_rx, .wan_pn = r->pn};
	const uint8_t *frames;
	size_t len;

	if (wan_recv_seen(&s->recv, r->pn))
		return; /* it has come itself in the meantime */
	frames = fec_rx_kept(&p->wan->fec->rx, &s->fec->seen, r->pn, &len);
	if (!frames) {
		drop(p, DROP_FEC_FORGOTTEN);
		s->report_due = true;
		wan_lane_schedule(p, l);
		return;
	}
	if (wan_lane_rx_rebuilt(p, l, &h, frames, len) == DROP_WAN_NO_ROOM && !FAULT(FAULT_REBUILT_REFUSED))
		return; /* refused, like a received datagram, and not told as rebuilt */
	count(p, CTR_FEC_REBUILT, 1);
	p->wan->path[r->path].stats.rebuilt++;
	count(p, CTR_FEC_DELAY_US, r->due_ns ? (p->now_ns - r->due_ns + 500) / 1000 : 0);
	wan_arrivals_rebuilt(&s->arrivals, r->pn);
}

void wan_fec_take_rebuilt(struct proxy *p, uint32_t rest)
{
	struct fec_shard *fec = p->wan->fec;

	while (wan_fec_has_rebuilt(p) && p->work_left > rest && work_take(p))
		take_rebuilt(p, &fec->rebuilt[fec->rebuilt_tail++ % FEC_REBUILT_MAX]);
}

bool wan_fec_on_repair(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_hdr *h,
                       const struct wan_frame *f, bool *hole)
{
	struct rebuilt_ctx c = {p, l, s, false};
	struct wan_fec w;

	if (!wan_fec_frame_get(f, &w))
		return false;
	if (!s->fec) {
		drop(p, DROP_FEC_OFF);
		return true;
	}
	count(p, CTR_FEC_RX, 1);
	switch (fec_rx_repair(&p->wan->fec->rx, &s->fec->seen, &s->recv, h->wan_pn, &w, on_rebuilt, &c)) {
	case FEC_WAITS_FOR_MORE:
		*hole = true;
		break;
	case FEC_BEYOND:
		count(p, CTR_FEC_BEYOND, 1);
		*hole = true;
		break;
	case FEC_FORGOTTEN:
		drop(p, DROP_FEC_FORGOTTEN);
		*hole = true;
		break;
	case FEC_NONSENSE:
		return false;
	default:
		*hole |= c.full;
		break;
	}
	return true;
}

void wan_fec_found_lost(struct proxy *p, struct wan_path *path)
{
	if (!p->wan->fec || path->fec.measure.found++)
		return;
	path->fec.plan_due = !path->fec.plan.k; /* the plan is made with the next datagram: this call has a report to
	                                         * work off */
}

void wan_fec_found_late(struct proxy *p, struct wan_path *path, uint64_t n)
{
	if (p->wan->fec)
		path->fec.measure.found -= min_u64(n, path->fec.measure.found);
}

bool wan_fec_on_arrivals(struct proxy *p, struct pn_space *s, const struct wan_frame *f)
{
	struct wan_path *path = &p->wan->path[s->path];
	struct wan_arrivals_frame a, *old = &s->peer_sum;

	if (!wan_arrivals_get(f, &a) || a.numbers > s->sent.pn_next)
		return false;
	if (a.numbers <= old->numbers || a.lost < old->lost || a.bursts < old->bursts)
		return true; /* a newer frame has overtaken this one */
	fec_measure_add(&path->fec.measure, a.numbers - old->numbers, a.lost - old->lost, a.bursts - old->bursts);
	*old = a;
	if (!path->fec.plan.k)
		replan(p, path);
	return true;
}
