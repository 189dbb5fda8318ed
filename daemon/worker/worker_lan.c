/* SPDX-License-Identifier: Apache-2.0 */
/* worker_lan.c - packets for hosts: next hops, and packets that wait for one.
 *
 * Theory of operation
 *
 * Packet bodies lie in the arena and are valid only until the core is called for something else. So a batch is
 * fetched, addressed, and sent or copied before anything else happens but proxy_lan_unsent().
 *
 * Other IP goes to the kernel, which decides whether and how to forward it; but only if the kernel's own route leads
 * out of a LAN port, or ends at this machine.
 *
 * A device that takes nothing more makes its port "blocked": the core is then not asked for packets for hosts, and the
 * send is tried again after a short sleep. There is no event to wait for: a full device queue has none. A port that
 * stays blocked stops the others only once, for BLOCKED_NS: then its frames are dropped until it takes some again. */
#include "worker_priv.h"

#include "daemon/kernel/ip_port.h"
#include "daemon/util/clock.h"
#include "daemon/util/next_hop.h"

#define BLOCKED_NS (50 * NS_PER_MS) /* ConnectX gives up after 300 ms; PFC stops a port for less */

static void capture_lan_tx(struct worker *w, const struct lan_tx *t)
{
	struct iovec parts[3] = {{(void *)(uintptr_t)t->hdr, t->hdr_len},
	                         {(void *)(uintptr_t)t->body, t->body_len},
	                         {(void *)(uintptr_t)t->trailer, t->trailer_len}};

	pcap_packet(w->pcap_lan, w->wall_ns, PCAP_OUT, parts, 3);
}

static void show_lan_tx(struct worker *w, const struct lan_tx *t)
{
	if (w->pcap_lan)
		capture_lan_tx(w, t);
	if (w->watch)
		flow_watch_out(w->watch, w->core, w->now_ns, t);
}

/* A packet without a next hop waits or is dropped. Probes do not wait: the core sends them again. */
static void no_way(struct worker *w, const struct lan_tx *t, enum route_answer answer)
{
	if (t->probe)
		proxy_lan_unsent(w->core, w->now_ns, t);
	if (answer == ROUTE_REFUSED)
		w->unknown_hosts++;
	else if (answer == ROUTE_NONE || (!t->probe && !lan_wait_put(&w->waiting, t, w->now_ns)))
		w->no_route++;
}

/* By which port and hop a packet goes to its host. */
static enum route_answer find_hop(struct worker *w, const struct ip_addr *dst, bool routed, struct next_hop *hop)
{
	const struct next_hop *known;
	enum route_answer answer = route_lookup(w->routes, dst, w->now_ns, &known);
	uint32_t ip_port = worker_ip_port(w);

	if (!routed) {
		if (answer == ROUTE_OK)
			*hop = *known;
		return answer == ROUTE_HERE ? ROUTE_NONE : answer;
	}
	if (answer != ROUTE_OK && answer != ROUTE_HERE)
		return answer;
	if (ip_port >= w->nlan)
		return ROUTE_NONE;
	*hop = ip_port_hop((uint8_t)ip_port);
	return ROUTE_OK;
}

static void put_header(struct lan_frame *f, const struct next_hop *hop, const struct ip_addr *dst, bool routed,
                       uint16_t tci)
{
	f->port = hop->port;
	f->eth_len = (uint8_t)next_hop_eth(hop, !ip_addr_is4(dst), routed ? 0 : tci, f->eth);
}

/* Puts the Ethernet header in front. False if there is no way to that host now: the packet is dropped or waits. */
static bool address_frame(struct worker *w, struct lan_frame *f)
{
	struct next_hop hop;
	enum route_answer answer = find_hop(w, &f->pkt.dst, f->pkt.routed, &hop);

	if (answer != ROUTE_OK || lan_wait_holds(&w->waiting, &f->pkt.dst)) {
		no_way(w, &f->pkt, answer);
		return false;
	}
	put_header(f, &hop, &f->pkt.dst, f->pkt.routed, f->pkt.vlan_tci);
	return true;
}

/* Sends the frames of one port; they stay in order. */
static void send_port(struct worker *w, uint8_t port, unsigned n)
{
	const struct lan_frame *out[LAN_TX_BATCH];
	unsigned nout = 0;

	for (unsigned i = 0; i < n; i++)
		if (w->frames[i].port == port)
			out[nout++] = &w->frames[i];
	if (!nout)
		return;
	w->lan_takes[port].was_given = true;
	w->lan_ops[port]->tx_batch(w->lan[port], out, nout);
}

static void send_frames(struct worker *w, unsigned n)
{
	for (uint32_t port = 0; n && port < w->nlan; port++)
		send_port(w, (uint8_t)port, n);
}

static bool build_packet(struct worker *w, struct lan_tx *t)
{
	enum stage was = stage_enter(&w->stages, STAGE_LAN_BUILD);
	bool any = proxy_lan_tx(w->core, w->now_ns, t);

	if (any)
		stage_packet(&w->stages, STAGE_LAN_BUILD);
	stage_enter(&w->stages, was);
	return any;
}

/* One batch from the core to the ports. Returns how many packets the core gave. */
static unsigned send_lan_batch(struct worker *w)
{
	unsigned n = 0, got;

	for (got = 0; got < LAN_TX_BATCH; got++) {
		struct lan_frame *f = &w->frames[n];

		if (!build_packet(w, &f->pkt))
			break;
		if (w->tapped)
			show_lan_tx(w, &f->pkt);
		if (latency_wants(&w->latency, FLOW_FAR, w->now_ns))
			latency_outgoing(&w->latency, w->core, w->now_ns, &f->pkt);
		n += address_frame(w, f);
	}
	send_frames(w, n);
	return got;
}

/* Makes a frame of a packet that waited, if its next hop is known now. */
static enum route_answer address_waiting(struct worker *w, const struct waiting_packet *p, struct lan_frame *f)
{
	struct next_hop hop;
	enum route_answer answer = find_hop(w, &p->dst, p->routed, &hop);

	if (answer != ROUTE_OK)
		return answer;
	put_header(f, &hop, &p->dst, p->routed, p->vlan_tci);
	f->pkt.hdr_len = f->pkt.trailer_len = 0;
	f->pkt.slot = SLOT_NONE;
	f->pkt.body = p->bytes;
	f->pkt.body_len = p->len;
	return ROUTE_OK;
}

/* Sends waiting packets whose next hop is known now, drops those without a route, or that waited too long. */
static void send_waiting(struct worker *w)
{
	unsigned n = 0;

	_Static_assert(LAN_WAIT_MAX <= LAN_TX_BATCH, "all that wait fit into one batch");
	for (uint32_t i = 0; i < w->waiting.n;) {
		const struct waiting_packet *p = lan_wait_at(&w->waiting, i);

		enum route_answer answer = address_waiting(w, p, &w->frames[n]);

		if (answer == ROUTE_OK && p->until_ns > w->now_ns) {
			n++;
		} else if (answer != ROUTE_NONE && p->until_ns > w->now_ns) {
			i++;
			continue;
		} else {
			w->no_route++;
		}
		lan_wait_remove(&w->waiting, i);
	}
	send_frames(w, n);
}

static void drop_kept(struct worker *w, uint32_t port)
{
	struct lan_takes *t = &w->lan_takes[port];

	w->lan_ops[port]->tx_drop(w->lan[port]);
	t->was_given = false;
	if (log_limit_pass(&t->said, w->now_ns, NULL))
		log_warn("link %s: %s %u takes no packets, and longreachd drops those for it", w->label,
		         port < w->config.nlan_ports ? "LAN port" : "the IP port, port", port + 1);
}

/* True if the port has kept frames, and its worker is to wait for it. A port that takes nothing for BLOCKED_NS is not
 * waited for until it has taken all that it was given: the hosts behind other ports would get no ACK meanwhile, and an
 * ACK that a port has kept for long may meet another life of its queue pair. */
static bool port_is_blocked(struct worker *w, uint32_t port)
{
	const struct lan_port_ops *ops = w->lan_ops[port];
	struct lan_takes *t = &w->lan_takes[port];

	if (ops->tx_blocked(w->lan[port]))
		ops->tx_retry(w->lan[port]);
	if (!ops->tx_blocked(w->lan[port])) {
		if (t->was_given)
			t->blocked_ns = 0;
		t->was_given = false;
		return false;
	}
	if (t->blocked_ns == 0)
		t->blocked_ns = w->now_ns;
	if (w->now_ns < t->blocked_ns + BLOCKED_NS)
		return true;
	drop_kept(w, port);
	return false;
}

bool worker_lan_blocked(struct worker *w)
{
	bool blocked = false;

	for (uint32_t i = 0; i < w->nlan; i++)
		blocked |= port_is_blocked(w, i);
	return blocked;
}

unsigned worker_send_lan(struct worker *w)
{
	if (worker_lan_blocked(w))
		return 0;
	if (w->waiting.n) {
		send_waiting(w);
		if (worker_lan_blocked(w))
			return 0;
	}
	return send_lan_batch(w);
}
