/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#define LATE_NS      5000ull
#define BURST_MAX_NS 20000000ull /* a bad state that few packets pass does not become a cut by that */

void link_init(struct link *l, const struct link_cfg *cfg, struct eventq *q, uint64_t seed,
               void (*deliver)(void *obj, struct pkt *p), void *obj)
{
	*l = (struct link){.cfg = *cfg, .q = q, .deliver = deliver, .obj = obj};
	rng_init(&l->rng, seed);
}

void link_lossy(struct link_cfg *c, double loss, double burst)
{
	c->loss = burst > 1 ? 0 : loss;
	c->burst_leave = burst > 1 ? 1 / burst : 0;
	c->burst_enter = burst > 1 ? loss / (1 - loss) / burst : 0;
	c->burst_loss = 1;
}

static void arrive(struct link *l, struct pkt *p)
{
	if (p->gone) {
		pkt_free(p);
		return;
	}
	l->stats.delivered++;
	l->deliver(l->obj, p);
}

static void link_deliver_head(void *obj, uint64_t arg)
{
	struct link *l = obj;
	struct pkt *p = l->head;

	(void)arg;
	l->head = p->next;
	if (l->head)
		eventq_at(l->q, l->head->deliver_ns, link_deliver_head, l, 0);
	else
		l->tail = NULL;
	p->next = NULL;
	arrive(l, p);
}

/* A packet that took a longer way. */
static void link_deliver_late(void *obj, uint64_t arg)
{
	struct link *l = obj;
	struct pkt *p = (struct pkt *)(uintptr_t)arg, **at = &l->late;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->next = NULL;
	arrive(l, p);
}

static bool link_is_cut(const struct link *l, uint64_t now_ns)
{
	for (uint32_t i = 0; i < l->cfg.ncuts; i++)
		if (now_ns >= l->cfg.cut[i].from_ns && now_ns < l->cfg.cut[i].to_ns)
			return true;
	return false;
}

static bool link_loses(struct link *l)
{
	const struct link_cfg *c = &l->cfg;

	if (c->burst_enter > 0) {
		bool over = l->in_burst && l->q->now_ns >= l->burst_ns + BURST_MAX_NS;

		if (over || rng_chance(&l->rng, l->in_burst ? c->burst_leave : c->burst_enter)) {
			l->in_burst = !l->in_burst;
			l->burst_ns = l->q->now_ns;
		}
		if (l->in_burst && rng_chance(&l->rng, c->burst_loss))
			return true;
	}
	return rng_chance(&l->rng, c->loss);
}

/* As switches are set up for DCQCN: by chance in between, all above. */
static bool link_marks(struct link *l, uint64_t waiting)
{
	const struct link_cfg *c = &l->cfg;

	if (rng_chance(&l->rng, c->mark))
		return true;
	if (!c->mark_from_bytes || waiting <= c->mark_from_bytes)
		return false;
	return rng_chance(&l->rng,
	                  (double)(waiting - c->mark_from_bytes) / (double)(c->mark_to_bytes - c->mark_from_bytes));
}

static void link_tell(struct link *l, const struct pkt *p, enum link_fate fate)
{
	if (l->tell)
		l->tell(l->obj, p, fate);
}

static void link_drop(struct link *l, struct pkt *p, uint64_t *count, enum link_fate fate)
{
	(*count)++;
	link_tell(l, p, fate);
	pkt_free(p);
}

static void link_flip_bits(struct link *l, struct pkt *p)
{
	for (uint64_t n = rng_range(&l->rng, 1, 3); n > 0; n--) {
		uint64_t bit = rng_below(&l->rng, 8ull * p->len);

		p->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	p->damaged = true;
	l->stats.corrupted++;
	link_tell(l, p, LINK_CORRUPTED);
}

/* Puts p on the wire, to arrive `extra_ns` later than its turn. Packets in turn share one event, that of the head. */
static void link_fly(struct link *l, struct pkt *p, uint64_t extra_ns)
{
	p->deliver_ns = (l->busy_until_ps + 999) / 1000 + l->cfg.delay_ns + extra_ns;
	if (extra_ns > 0) {
		p->next = l->late;
		l->late = p;
		eventq_at(l->q, p->deliver_ns, link_deliver_late, l, (uintptr_t)p);
		return;
	}
	if (l->head) {
		l->tail->next = p;
		if (p->deliver_ns < l->tail->deliver_ns)
			p->deliver_ns = l->tail->deliver_ns; /* the wire has become shorter */
	} else {
		l->head = p;
	}
	l->tail = p;
	if (l->head == p)
		eventq_at(l->q, p->deliver_ns, link_deliver_head, l, 0);
}

/* True if its bucket has not as much. */
static bool link_polices(struct link *l, uint64_t bytes)
{
	const struct link_cfg *c = &l->cfg;
	uint64_t now_ns = l->q->now_ns, full_ns, cost_ns;

	if (!c->police_bps)
		return false;
	cost_ns = bytes * 8000000000ull / c->police_bps;
	full_ns = c->police_bytes * 8000000 / (c->police_bps / 1000);
	if (l->police_free_ns < now_ns)
		l->police_free_ns = now_ns;
	if (l->police_free_ns + cost_ns > now_ns + full_ns)
		return true;
	l->police_free_ns += cost_ns;
	return false;
}

void link_send(struct link *l, struct pkt *p)
{
	const struct link_cfg *c = &l->cfg;
	uint64_t now_ps = l->q->now_ns * 1000, bits = 8ull * (p->len + c->overhead_bytes), extra_ns = 0, waiting;

	p->sent_ns = l->q->now_ns;
	if (link_is_cut(l, l->q->now_ns)) {
		link_drop(l, p, &l->stats.cut, LINK_CUT);
		return;
	}
	if (c->mtu && !p->plain && p->len > c->mtu && l->q->now_ns >= c->mtu_from_ns) {
		link_drop(l, p, &l->stats.lost, LINK_LOST);
		return;
	}
	if (link_polices(l, p->len + c->overhead_bytes)) {
		link_drop(l, p, &l->stats.overflowed, LINK_OVERFLOW);
		return;
	}
	if (c->members && p->member % c->members == c->dead_member) {
		link_drop(l, p, &l->stats.lost, LINK_LOST);
		return;
	}
	if (l->busy_until_ps < now_ps)
		l->busy_until_ps = now_ps;
	waiting = (uint64_t)((double)(l->busy_until_ps - now_ps) * (double)c->rate_bps / 8e12);
	if (waiting > l->stats.queue_most_bytes)
		l->stats.queue_most_bytes = waiting;
	if (c->queue_bytes && waiting > c->queue_bytes) {
		link_drop(l, p, &l->stats.overflowed, LINK_OVERFLOW);
		return;
	}
	if (link_marks(l, waiting) && pkt_mark_ce(p))
		l->stats.marked++;
	if (c->bleach)
		p->ecn = 0;
	if (l->busy_until_ps - now_ps > l->stats.queue_peak_ps)
		l->stats.queue_peak_ps = l->busy_until_ps - now_ps;
	l->busy_until_ps += (uint64_t)((double)bits * 1e12 / (double)c->rate_bps);
	l->stats.sent++;
	l->stats.wire_bytes += p->len + c->overhead_bytes;
	if (link_loses(l)) {
		link_drop(l, p, &l->stats.lost, LINK_LOST);
		return;
	}
	if (rng_chance(&l->rng, c->corrupt))
		link_flip_bits(l, p);
	if (p->late)
		extra_ns = LATE_NS;
	if (rng_chance(&l->rng, c->reorder)) {
		extra_ns = rng_range(&l->rng, 1, c->reorder_ns);
		l->stats.reordered++;
		link_tell(l, p, LINK_REORDERED);
	}
	if (rng_chance(&l->rng, c->duplicate)) {
		l->stats.duplicated++;
		link_tell(l, p, LINK_DUPLICATED);
		link_fly(l, pkt_dup(p), extra_ns + rng_below(&l->rng, c->reorder_ns + 1));
	}
	link_fly(l, p, extra_ns);
}

static void free_list(struct pkt *p)
{
	while (p) {
		struct pkt *next = p->next;

		pkt_free(p);
		p = next;
	}
}

void link_lose(struct link *l)
{
	for (struct pkt *p = l->head; p; p = p->next)
		p->gone = true;
	for (struct pkt *p = l->late; p; p = p->next)
		p->gone = true;
}

void link_drain(struct link *l)
{
	free_list(l->head);
	free_list(l->late);
	l->head = l->tail = l->late = NULL;
}
