/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Each flow has a window of its own, but hundreds of flows may go to one port. The packets of all these flows under way
 * must fit the queue of the switch in front of the port, and only the edge, which sends all of them, can ensure it. So
 * each host has a window, too, in bytes, which its flows share by turns (lan_drr.c):
 *
 *     begins with     HOST_WINDOW_FIRST, and doubles per round trip until something is lost or marked
 *     acknowledged    one packet more per window, while it is the window that limits
 *     a CNP           an eighth less, at most once per CNP_GAP_NS
 *     a loss          a half, if the lost packet was sent after the last cut
 *     at most         LanHostWindow=
 *
 * A flow that has much under way when a CNP names it slows down by itself as well (cnp_rate.c).
 *
 * Packets to a dead responder are never answered. While host pairs wait, bytes that the host has not answered for
 * overdue_ns() are written off: they do not count in bytes_out any more, be they lost or only late. */
#include "lan_host.h"

#define HOST_WINDOW_FIRST (128u << 10)
#define HOST_WINDOW_MIN   (4u * LAN_PKT_MAX)
#define CNP_GAP_NS        50000ull /* a notification point sends at most one CNP per flow in such a time */
#define OVERDUE_MIN_NS    1000000ull

static struct lan_host *host_find(struct proxy *p, const struct ip_addr *a)
{
	uint32_t h = addr_hash(p->cfg.hash_seed, a), i = h, idx;

	while ((idx = idx_hash_next(&p->host_by_addr, h, &i)) != NONE)
		if (ip_addr_eq(&p->lan_hosts[idx].addr, a))
			return &p->lan_hosts[idx];
	return NULL;
}

void lan_host_init(struct proxy *p)
{
	dlist_init(&p->hosts_free);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		dlist_append(&p->hosts_free, &p->lan_hosts[i].free_node);
}

/* A free place always exists: there are as many places as host pairs, and each pair has one host. */
static struct lan_host *host_new(struct proxy *p, const struct ip_addr *a)
{
	struct lan_host *h = dlist_entry(dlist_first(&p->hosts_free), struct lan_host, free_node);
	uint32_t idx = (uint32_t)(h - p->lan_hosts);

	dlist_remove(&h->free_node);
	*h = (struct lan_host){.used = true, .addr = *a, .threshold_bytes = UINT64_MAX};
	h->window_bytes = min_u64(HOST_WINDOW_FIRST, p->cfg.lan_host_window_bytes);
	dlist_init(&h->waiting);
	dlist_init(&h->out);
	timer_init(&h->overdue, TK_LAN_HOST, idx);
	idx_hash_put(&p->host_by_addr, addr_hash(p->cfg.hash_seed, a), idx);
	return h;
}

static struct lan_host *host_of(struct proxy *p, const struct far_flow *f)
{
	return f->hostpair == NONE ? NULL : &p->lan_hosts[p->pairs[f->hostpair].lan_host];
}

void lan_host_join(struct proxy *p, struct hostpair *hp)
{
	struct lan_host *h = host_find(p, &hp->dst);

	if (!h)
		h = host_new(p, &hp->dst);
	h->pairs++;
	hp->lan_host = (uint32_t)(h - p->lan_hosts);
	dlist_init(&hp->ready);
}

void lan_host_leave(struct proxy *p, struct hostpair *hp)
{
	struct lan_host *h = &p->lan_hosts[hp->lan_host];

	dlist_remove(&hp->turn_node);
	if (--h->pairs)
		return;
	timer_cancel(&p->timers, &h->overdue);
	idx_hash_del(&p->host_by_addr, addr_hash(p->cfg.hash_seed, &h->addr), hp->lan_host);
	h->used = false;
	dlist_append(&p->hosts_free, &h->free_node);
}

/* --- what is on its way --- */

/* The time after which packets of f count as lost, or sent to a dead responder. */
static uint64_t overdue_ns(const struct proxy *p, const struct far_flow *f)
{
	return clamp_u64(4 * f->lan_srtt_ns, OVERDUE_MIN_NS, p->cfg.lan_timeout_ns);
}

static void count_down(struct proxy *p, struct lan_host *h, struct far_flow *f, uint32_t left)
{
	h->bytes_out -= f->counted_out - left;
	f->counted_out = left;
	if (!left)
		dlist_remove(&f->out_node);
	if (h->bytes_out < h->window_bytes)
		lan_drr_resume(p, h);
}

void lan_host_sent(struct proxy *p, struct far_flow *f, uint32_t len)
{
	struct lan_host *h = host_of(p, f);

	if (!f->counted_out) {
		f->out_ns = p->now_ns;
		dlist_append(&h->out, &f->out_node);
	}
	f->counted_out += len;
	h->bytes_out += len;
}

void lan_host_less(struct proxy *p, struct far_flow *f)
{
	struct lan_host *h = host_of(p, f);

	if (h && f->counted_out > f->bytes_out)
		count_down(p, h, f, f->bytes_out);
}

/* The flow heard longest ago is first in h->out: a flow that is heard goes to the end. */
static void note_flow_heard(struct proxy *p, struct lan_host *h, struct far_flow *f)
{
	f->out_ns = p->now_ns;
	if (!dnode_on(&f->out_node))
		return;
	dlist_remove(&f->out_node);
	dlist_append(&h->out, &f->out_node);
}

static void write_off(struct proxy *p, struct lan_host *h)
{
	struct dnode *n;

	while ((n = dlist_first(&h->out))) {
		struct far_flow *f = dlist_entry(n, struct far_flow, out_node);

		if (p->now_ns < f->out_ns + overdue_ns(p, f)) {
			if (!dlist_empty(&h->waiting))
				timer_set(&p->timers, &h->overdue, f->out_ns + overdue_ns(p, f));
			return;
		}
		count_down(p, h, f, 0);
	}
}

void lan_host_on_timer(struct proxy *p, struct lan_host *h)
{
	if (h->used && !dlist_empty(&h->waiting))
		write_off(p, h);
}

bool lan_host_shared(const struct proxy *p, const struct far_flow *f)
{
	return p->lan_hosts[p->pairs[f->hostpair].lan_host].bytes_out > f->counted_out;
}

/* --- the window --- */

static void cut_window(const struct proxy *p, struct lan_host *h, uint64_t by_bytes)
{
	h->window_bytes = max_u64(h->window_bytes - by_bytes, HOST_WINDOW_MIN);
	h->threshold_bytes = h->window_bytes;
	h->grown_bytes = 0;
	h->cut_ns = p->now_ns;
}

void lan_host_acked(struct proxy *p, struct far_flow *f, uint32_t bytes)
{
	struct lan_host *h = host_of(p, f);

	if (!h)
		return;
	note_flow_heard(p, h, f);
	if (h->bytes_out + bytes < h->window_bytes / 2)
		return; /* the window is not the limit */
	if (h->window_bytes < h->threshold_bytes) {
		h->window_bytes += bytes;
	} else {
		h->grown_bytes += bytes;
		if (h->grown_bytes >= h->window_bytes) {
			h->grown_bytes -= h->window_bytes;
			h->window_bytes += LAN_PKT_MAX;
		}
	}
	h->window_bytes = min_u64(h->window_bytes, p->cfg.lan_host_window_bytes);
	if (h->bytes_out < h->window_bytes)
		lan_drr_resume(p, h);
}

void lan_host_lost(struct proxy *p, struct far_flow *f, uint64_t sent_ns)
{
	struct lan_host *h = host_of(p, f);

	if (h && sent_ns > h->cut_ns)
		cut_window(p, h, h->window_bytes / 2);
}

void lan_host_cnp(struct proxy *p, struct far_flow *f)
{
	struct lan_host *h = host_of(p, f);

	if (h && p->now_ns >= h->cut_ns + max_u64(CNP_GAP_NS, f->lan_srtt_ns))
		cut_window(p, h, h->window_bytes / 8);
}
