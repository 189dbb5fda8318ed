/* SPDX-License-Identifier: Apache-2.0 */
/* lan_drr.c - turns at a host, by deficit round robin over host pairs, then over queue pairs.
 *
 * Theory of operation
 *
 * Deficit round robin (Shreedhar and Varghese, 1995) in two stages: host pairs take turns, and within a pair its flows.
 * The pair or flow that has the turn may send as many bytes as its deficit. If the deficit does not suffice for the
 * next packet, a quantum is added and the pair or flow goes to the end.
 *
 *     proxy.lan_ready -> host pair -> host pair -> ...          those whose responder's host may be sent more
 *                          |  ready -> flow -> flow -> ...
 *     lan_host.waiting -> host pair -> ...                      those whose responder's host has its window full
 *
 * A pair that meets a full window waits in the order in which its turn would have come, and goes on with what is left
 * of its deficit. So does a flow that its rate has interrupted. A requester with a thousand queue pairs gets no more of
 * a responder's port than one with a single one.
 *
 * The flow of a host pair that is being probed goes first, even into a full window (probe_may_go()): all other flows of
 * the pair without a requester QPN wait for its answer, and their hosts give up after some 300 ms. When probes waited
 * for a round of all paired flows, over a window that losses kept small, 112 of 200 queue pairs failed before they had
 * got a byte across (`lrsim --crowd 200qp-44m-1pair-lossy`).
 */
#include "far.h"
#include "lan_host.h"

void lan_drr_ready(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp = &p->pairs[f->hostpair];

	dlist_append_once(f->deficit ? hp->ready.next : &hp->ready, &f->lan_node);
	dlist_append_once(&p->lan_ready, &hp->turn_node);
}

void lan_drr_probe(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp = &p->pairs[f->hostpair];

	if (dnode_on(&f->lan_node))
		return;
	f->deficit = (uint32_t)max_u64(f->deficit, LAN_PKT_MAX);
	hp->deficit = (uint32_t)max_u64(hp->deficit, LAN_PKT_MAX);
	dlist_append(hp->ready.next, &f->lan_node);
	dlist_remove(&hp->turn_node);
	dlist_append(p->lan_ready.next, &hp->turn_node);
}

void lan_drr_resume(struct proxy *p, struct lan_host *h)
{
	struct dnode *n;

	while ((n = dlist_first(&h->waiting))) {
		dlist_remove(n);
		dlist_append(&p->lan_ready, n);
	}
	timer_cancel(&p->timers, &h->overdue);
}

static void wait_for_host(struct proxy *p, struct hostpair *hp, struct lan_host *h)
{
	dlist_remove(&hp->turn_node);
	dlist_append(&h->waiting, &hp->turn_node);
	if (!timer_armed(&h->overdue))
		timer_set(&p->timers, &h->overdue, p->now_ns);
}

/* True if the deficit suffices for len bytes; else adds a quantum and moves the list's first node to the end. */
static bool has_turn(uint32_t *deficit, uint32_t quantum, uint32_t len, struct dnode *list)
{
	if (*deficit >= len || FAULT(FAULT_NO_TURNS))
		return true;
	*deficit += quantum;
	dlist_rotate(list);
	return false;
}

bool lan_drr_should_ask(const struct proxy *p, const struct far_flow *f, uint32_t len)
{
	const struct hostpair *hp = &p->pairs[f->hostpair];
	const struct lan_host *h = &p->lan_hosts[hp->lan_host];
	bool last = f->deficit < len || hp->deficit < len || f->rate.rate_bps;

	return h->bytes_out + len >= h->window_bytes || (last && h->bytes_out + len > h->window_bytes / 2);
}

/* True if the probe may go although the window is full. Bounded, as a thousand hosts may probe one responder's host. */
static bool probe_may_go(const struct lan_host *h, const struct far_flow *f)
{
	return f->probing && h->bytes_out < 2 * h->window_bytes;
}

size_t lan_drr_tx(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n, *m;

	while ((n = dlist_first(&p->lan_ready)) && work_take(p)) {
		struct hostpair *hp = dlist_entry(n, struct hostpair, turn_node);
		struct lan_host *h = &p->lan_hosts[hp->lan_host];
		struct far_flow *f;
		uint32_t len, slot;

		m = dlist_first(&hp->ready);
		if (!m) {
			hp->deficit = 0;
			dlist_remove(n);
			continue;
		}
		f = dlist_entry(m, struct far_flow, lan_node);
		len = far_lan_next(p, f, &slot);
		if (!len) {
			if (!timer_armed(&f->pace))
				f->deficit = 0;
			dlist_remove(m);
			continue;
		}
		if (h->bytes_out >= h->window_bytes && !probe_may_go(h, f) && !FAULT(FAULT_NO_HOST_WINDOW)) {
			wait_for_host(p, hp, h);
			continue;
		}
		if (!has_turn(&hp->deficit, LAN_TURN_BYTES, len, &p->lan_ready) ||
		    !has_turn(&f->deficit, LAN_TURN_BYTES, len, &hp->ready))
			continue;
		hp->deficit -= FAULT(FAULT_NO_TURNS) ? 0 : len;
		f->deficit -= FAULT(FAULT_NO_TURNS) ? 0 : len;
		return far_lan_tx(p, f, slot, tx);
	}
	return 0;
}
