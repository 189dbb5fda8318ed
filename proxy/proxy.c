/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.c - the entrance of the core: sessions, the module that gets a packet, and the order in which modules send.
 *
 * Theory of operation
 *
 * A packet from a host is a request (near), an answer (far) or neither (raw), by its opcode; it is taken only between
 * the link's prefixes, whole, with a good ICRC, and on the shard whose lane its host pair has. A datagram from the
 * other edge is taken on its lane, in the session's epoch, with a good tag.
 *
 * Packets for hosts are sent in this order: answers that the edge makes itself (ack_tx.c; hosts wait for them), packets
 * that are not RC, responses, requests (lan_drr.c). Flows take turns within each. Datagrams for the other edge are
 * built lane by lane, by the flows that wait in each (wan_lane.c), when the pacer allows; the pacer does not hold back
 * reports and other control.
 *
 * All timers are in one heap, and each belongs to a module (on_timer). */
#include "proxy/carry/barrier.h"
#include "proxy/shard/cnp_rate.h"
#include "proxy/far/far.h"
#include "proxy/carry/ip_carry.h"
#include "proxy/far/lan_host.h"
#include "proxy/near/ack_tx.h"
#include "proxy/near/near.h"
#include "proxy/far/pair.h"
#include "proxy/carry/raw.h"
#include "proxy/relay/relay.h"
#include "proxy/wan/wan_fec.h"
#include "proxy/wan/wan_lane.h"
#include "proxy/wan/wan_seal.h"
#include "proxy/wan/wan_path_sched.h"

/* --- session --- */

/* Slots that wait for the peer are sent again: the peer knows no numbers of the session before. */
static void requeue_slots(struct proxy *p)
{
	uint32_t cursor = 0, slot;

	while ((slot = arena_next_committed(p->arena, &cursor)) != SLOT_NONE) {
		const struct slot_hdr *h = arena_hdr(p->arena, slot);
		struct slot_meta *m = arena_meta(p->arena, slot);

		if (h->kind != SLOT_REQ_NEAR && h->kind != SLOT_RESP_FAR && h->kind != SLOT_RAW_LAN &&
		    h->kind != SLOT_RELAY_OUT)
			continue;
		m->units[0] = m->units[1] = m->lost[0] = m->lost[1] = 0;
		m->sends = m->in_flight = m->copies = 0;
		m->queued = FAULT(FAULT_QUEUE_STALE) ? m->queued : SQ_NONE; /* the lanes' lists are empty */
		if (h->kind == SLOT_REQ_NEAR || h->kind == SLOT_RELAY_OUT)
			continue;
		wan_lane_queue_first(p, lane_of(p, m->lane), slot);
	}
}

void proxy_session_start(struct proxy *p, const struct proxy_session *s, uint64_t now_ns)
{
	p->now_ns = now_ns;
	p->work_left = UINT32_MAX; /* of everything that is here */
	p->session = *s;
	p->session_on = true;
	p->sessions++;
	p->mismatch = s->mismatch;
	p->wan_up = p->unanswered = p->wan->keys_used_up = false;
	p->last_rx_ns = now_ns;
	p->keepalive_due_ns = 0;
	if (s->arena_lost)
		proxy_event_push(p, EV_BUFFER_LOST, NULL, NULL, 0, 0);
	wan_fec_session_start(p);
	wan_paths_session_start(p);
	for (uint32_t i = 0; i < p->cfg.nlanes; i++)
		if (proxy_owns_lane(p, i))
			wan_lane_session_start(p, &p->wan->lanes[i]);
	requeue_slots(p);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++) {
		if (near_in_use(&p->near[i]))
			near_session_start(p, &p->near[i]);
		if (p->far[i].state != FAR_FREE)
			far_session_start(p, &p->far[i]);
	}
	relay_session_start(p);
	timer_set(&p->timers, &p->keepalive, now_ns + p->cfg.keepalive_ns);
}

/* --- steering --- */

static uint32_t fold(const struct ip_addr *a)
{
	if (ip_addr_is4(a))
		return get_be32(a->b + 12);
	return get_be32(a->b) ^ get_be32(a->b + 4) ^ get_be32(a->b + 8) ^ get_be32(a->b + 12);
}

uint16_t proxy_lane(const struct ip_addr *a, const struct ip_addr *b, uint16_t nlanes)
{
	uint32_t h = (fold(a) ^ (FAULT(FAULT_LANE_ASYMMETRIC) ? 3 * fold(b) : fold(b))) * 0x9e3779b1u;

	return (uint16_t)((h >> 16) % nlanes);
}

const struct ip_addr *proxy_machine(const struct proxy_config *c, const struct ip_addr *a)
{
	uint32_t lo = 0, hi = c->naliases;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		int order = memcmp(c->alias[mid].addr.b, a->b, sizeof(a->b));

		if (order == 0)
			return &c->alias[mid].host;
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return a;
}

uint16_t proxy_lane_between(const struct proxy_config *c, const struct ip_addr *a, const struct ip_addr *b)
{
	return proxy_lane(proxy_machine(c, a), proxy_machine(c, b), c->nlanes);
}

int proxy_wan_lane(const uint8_t *dgram, size_t len)
{
	struct wan_hdr h;

	return wan_hdr_get(dgram, len, &h) == DROP_NONE ? h.lane : -1;
}

static void begin_call(struct proxy *p, uint64_t now_ns)
{
	p->now_ns = now_ns;
	p->work_left = FAULT(FAULT_WORK_UNBOUNDED) ? UINT32_MAX : CALL_WORK;
}

/* --- packets in --- */

enum proxy_drop proxy_lan_rx(struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	struct roce_pkt pkt;
	enum proxy_drop d;
	uint32_t payload_crc;
	bool cross;

	arena_fetch(p->arena);
	d = roce_parse(l3, len, &pkt);
	begin_call(p, now_ns);
	if (p->cfg.barrier != BARRIER_OFF && (d == DROP_LAN_NOT_ROCE || d == DROP_LAN_FRAGMENT || d == DROP_LAN_NOT_IP))
		return ip_rx(p, l3, len, vlan_tci, d);
	if (d != DROP_NONE)
		return drop(p, d);
	arena_fetch(p->arena);
	if (!proxy_carries(p, &pkt.src, &pkt.dst))
		return drop(p, DROP_LAN_FOREIGN);
	if (pkt.ttl <= 1)
		return drop(p, DROP_LAN_TTL);
	arena_fetch(p->arena);
	if (!icrc_check(l3, &pkt, &payload_crc) && !FAULT(FAULT_ICRC_UNCHECKED))
		return drop(p, DROP_LAN_BAD_ICRC);
	count(p, CTR_LAN_RX_PKTS, 1);
	count(p, CTR_LAN_RX_BYTES, pkt.len);
	switch (pkt.class) {
	case ROCE_RC_REQUEST:
	case ROCE_RC_UNKNOWN:
		return near_rx(p, l3, &pkt, vlan_tci, payload_crc);
	case ROCE_RC_RESPONSE:
		if (p->telling && near_error_answered(p, &pkt, vlan_tci))
			return DROP_NONE;
		return far_rx(p, l3, &pkt, vlan_tci);
	case ROCE_CNP_CLASS:
		d = cnp_rx(p, &pkt, vlan_tci, &cross);
		return cross ? raw_rx(p, l3, &pkt, vlan_tci) : d;
	default:
		return raw_rx(p, l3, &pkt, vlan_tci);
	}
}

enum proxy_drop proxy_lan_rx_slot(struct proxy *p, uint64_t now_ns, uint32_t *slot, uint16_t off, size_t len,
                                  uint16_t vlan_tci)
{
	enum proxy_drop d;

	if (off > PROXY_BLANK_BYTES || len > (size_t)(PROXY_BLANK_BYTES - off))
		return drop(p, DROP_LAN_BAD_LENGTH);
	p->landed.slot = *slot;
	p->landed.off = off;
	p->landed.l3 = proxy_blank_data(p, *slot) + off;
	d = proxy_lan_rx(p, now_ns, p->landed.l3, len, vlan_tci);
	p->landed.l3 = NULL;
	if (!FAULT(FAULT_BLANK_FILLED_AGAIN))
		*slot = p->landed.slot;
	return d;
}

enum proxy_drop proxy_wan_rx(struct proxy *p, uint64_t now_ns, uint8_t *dgram, size_t len, uint8_t ecn)
{
	struct wan_hdr h;
	enum proxy_drop d = wan_hdr_get(dgram, len, &h);

	begin_call(p, now_ns);
	if (d != DROP_NONE)
		return drop(p, d);
	if (!proxy_owns_lane(p, h.lane))
		return drop(p, DROP_WAN_BAD_LANE);
	if (h.path >= p->wan->npaths)
		return drop(p, DROP_WAN_BAD_PATH);
	if (!p->session_on || h.epoch != p->session.epoch_rx)
		return drop(p,
		            p->session_on && h.epoch == p->session.epoch_tx ? DROP_WAN_REFLECTED : DROP_WAN_BAD_EPOCH);
	d = wan_open_datagram(&p->cfg, &h, dgram, &len);
	if (d != DROP_NONE)
		return drop(p, d);
	if (h.wan_pn >> 62)
		return drop(p, DROP_WAN_BAD_FRAME);
	count(p, CTR_WAN_RX_DGRAMS, 1);
	count(p, CTR_WAN_RX_BYTES, len);
	p->wan->path[h.path].stats.rx_dgrams++;
	p->wan->path[h.path].stats.rx_bytes += len;
	if (!p->wan_up || now_ns >= p->last_rx_ns + 2 * p->cfg.keepalive_ns)
		p->wan_heard_since_ns = now_ns;
	p->last_rx_ns = now_ns;
	if (!p->wan_up) {
		p->wan_up = true;
		proxy_event_push(p, EV_WAN_UP, NULL, NULL, 0, 0);
	}
	d = wan_lane_rx(p, &p->wan->lanes[h.lane], &h, dgram, len, ecn);
	wan_fec_take_rebuilt(p, CALL_WORK / 2);
	return d;
}

/* --- time --- */

/* If this machine stood still for a while, the peer was not silent: silence counts from now. */
static void stood_still(struct proxy *p)
{
	uint64_t late_ns = p->now_ns - min_u64(p->now_ns, p->keepalive_due_ns);

	if (!p->keepalive_due_ns || late_ns < p->cfg.keepalive_ns)
		return;
	p->last_rx_ns = min_u64(p->now_ns, p->last_rx_ns + late_ns);
	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (p->wan->path[i].waiting_ns)
			p->wan->path[i].waiting_ns = min_u64(p->now_ns, p->wan->path[i].waiting_ns + late_ns);
}

/* Hearing the peer does not mean that the WAN is up: all datagrams in the other direction may be lost. */
static void look_heard(struct proxy *p)
{
	bool unanswered = p->wan_up && wan_paths_unheard(p, p->now_ns);

	if (unanswered && !p->unanswered)
		proxy_event_push(p, EV_WAN_UNHEARD, NULL, NULL, 0, 0);
	else if (!unanswered && p->unanswered && p->wan_up)
		proxy_event_push(p, EV_WAN_UP, NULL, NULL, 0, 0);
	p->unanswered = unanswered;
}

/* True if no datagram was sent lately that the peer answers: reports are not answered. */
static bool asks_nothing(const struct proxy *p)
{
	uint64_t asked_ns = p->wan->npaths == 1 ? min_u64(p->last_tx_ns, p->wan->path[0].asked_ns) : p->last_tx_ns;

	return p->now_ns >= asked_ns + p->cfg.keepalive_ns;
}

static void on_keepalive(struct proxy *p)
{
	stood_still(p);
	if (p->wan_up && p->now_ns >= p->last_rx_ns + p->cfg.dead_peer_ns) {
		p->wan_up = false;
		proxy_event_push(p, EV_WAN_DEAD, NULL, NULL, 0, p->now_ns - p->last_rx_ns);
	}
	look_heard(p);
	if (asks_nothing(p) || !p->wan_up) {
		struct lane *l = &p->wan->lanes[p->cfg.shard]; /* the shard's first lane */

		l->space[0].ping_due = true;
		wan_lane_schedule(p, l);
	}
	slot_look_stuck(p);
	wan_path_sched_sort(p);
	for (uint32_t i = 0; i < p->wan->npaths; i++)
		if (wan_pmtu_on_timer(&p->wan->path[i].pmtu, p->now_ns))
			wan_lane_schedule(p, &p->wan->lanes[p->cfg.shard]);
	p->keepalive_due_ns = p->now_ns + p->cfg.keepalive_ns;
	timer_set(&p->timers, &p->keepalive, p->keepalive_due_ns);
}

static void on_timer(struct proxy *p, const struct timer *t)
{
	switch (t->kind) {
	case TK_RTO:
		far_on_timer(p, &p->far[t->owner]);
		break;
	case TK_PACE:
		far_schedule(p, &p->far[t->owner]);
		break;
	case TK_ASK_NEAR:
		far_ask(p, &p->far[t->owner]);
		break;
	case TK_LAN_HOST:
		lan_host_on_timer(p, &p->lan_hosts[t->owner]);
		break;
	case TK_READ_AGAIN:
		far_again_on_timer(p, &p->far[t->owner]);
		break;
	case TK_QUARANTINE:
		pair_on_timer(p, &p->pairs[t->owner]);
		break;
	case TK_BARRIER:
		barrier_on_timer(p, (struct barrier_queue *)(void *)barrier_way_at(&p->barrier.queues, t->owner));
		break;
	case TK_STARTS:
		barrier_on_starts_timer(p);
		break;
	case TK_LANE:
		wan_lane_on_timer(p, &p->wan->lanes[t->owner]);
		break;
	case TK_PATH:
		wan_path_on_timer(p, &p->wan->path[t->owner]);
		break;
	case TK_KEEPALIVE:
		on_keepalive(p);
		break;
	case TK_RAW_HOLD:
		raw_on_timer(p);
		break;
	case TK_GIVEN:
		slot_given_on_timer(p);
		break;
	case TK_ROOM:
		near_reserve_look(p);
		break;
	default:
		near_on_timer(p, &p->near[t->owner], t->kind);
		break;
	}
}

#define TIMER_WORK 4 /* of CALL_WORK: the work of a timer beside its packets */

/* Near flows with work left get all of it in turn, until no more than `rest` is left. */
static void near_goes_on(struct proxy *p, uint32_t rest)
{
	struct dnode *n;

	while ((n = dlist_first(&p->near_work)) && p->work_left > rest && work_take(p)) {
		dlist_rotate(&p->near_work);
		near_work(p, dlist_entry(n, struct near_flow, work_node));
	}
}

/* Works off what earlier calls have left. Neither role may take all of the work call after call. */
static void go_on(struct proxy *p)
{
	struct dnode *n;

	wan_fec_take_rebuilt(p, p->work_left / 2);
	near_goes_on(p, p->work_left / 2);
	while ((n = dlist_first(&p->far_work)) && work_take(p))
		far_work(p, dlist_entry(n, struct far_flow, work_node));
	while ((n = dlist_first(&p->dead_slots)) && work_take(p))
		slot_release(p, slot_of_meta(p, dlist_entry(n, struct slot_meta, node)));
	near_goes_on(p, 0);
	relay_work(p);
}

void proxy_tick(struct proxy *p, uint64_t now_ns)
{
	struct timer *t;

	begin_call(p, now_ns);
	while (p->work_left > CALL_WORK / 2 && (t = timer_pop(&p->timers, now_ns))) {
		on_timer(p, t);
		work_done(p, TIMER_WORK);
	}
	go_on(p);
}

uint64_t proxy_next_wake(const struct proxy *p, uint64_t now_ns)
{
	uint64_t next = timer_next(&p->timers);

	if (!dlist_empty(&p->near_work) || !dlist_empty(&p->far_work) || !dlist_empty(&p->dead_slots) ||
	    relay_has_work(p) || wan_fec_has_rebuilt(p))
		return now_ns;
	if (!dlist_empty(&p->ack_tx) || !dlist_empty(&p->far_cnps) || !dlist_empty(&p->lan_ready) ||
	    !dlist_empty(&p->held_packets) || !dlist_empty(&p->resp_list))
		return now_ns;
	if (!dlist_empty(&p->wan->lane_list))
		next = min_u64(next, p->wan->pacer_blocked ? wan_path_sched_next_ns(p) : now_ns);
	return next;
}

/* --- packets out --- */

static size_t tx_acks(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n;
	size_t len;

	while ((n = dlist_first(&p->ack_tx)) && work_take(p)) {
		dlist_remove(n);
		len = ack_tx_next(p, dlist_entry(n, struct near_flow, ack_tx_node), tx);
		if (len)
			return len;
	}
	return 0;
}

static size_t tx_response(struct proxy *p, struct lan_tx *tx)
{
	struct dnode *n;
	size_t len;

	while ((n = dlist_first(&p->resp_list)) && work_take(p)) {
		len = near_resp_tx(p, dlist_entry(n, struct near_flow, resp_node), tx);
		if (len) {
			dlist_rotate(&p->resp_list);
			return len;
		}
	}
	return 0;
}

size_t proxy_lan_tx(struct proxy *p, uint64_t now_ns, struct lan_tx *tx)
{
	size_t len;

	begin_call(p, now_ns);
	tx->probe = tx->routed = false;
	tx->slot = SLOT_NONE;
	len = tx_acks(p, tx);
	tx->answer = len > 0;
	if (!len && !dlist_empty(&p->far_cnps))
		len = far_cnp_tx(p, tx);
	if (!len && !dlist_empty(&p->held_packets))
		len = held_packet_lan_tx(p, tx);
	if (!len) {
		len = tx_response(p, tx);
		tx->answer = len > 0;
	}
	if (!len)
		len = lan_drr_tx(p, tx);
	if (len) {
		count(p, CTR_LAN_TX_PKTS, 1);
		count(p, CTR_LAN_TX_BYTES, len);
	}
	return len;
}

void proxy_lan_unsent(struct proxy *p, uint64_t now_ns, const struct lan_tx *tx)
{
	begin_call(p, now_ns);
	if (tx->probe)
		pair_unsent(p, &p->far[tx->flow]);
}

static void note_waiting(struct proxy *p, bool waits)
{
	if (p->wan->rate_waits_told == waits)
		return;
	p->wan->rate_waits_told = waits;
	for (uint32_t i = 0; i < p->wan->npaths; i++) {
		rate_waits(&p->wan->path[i].pacer->control, waits);
		p->wan->path[i].fec.look.idle |= !waits;
	}
}

/* A lane held back by the pacer keeps its place while control of other lanes goes out. Otherwise lanes with much to
 * report would get more turns for data as well, and so have even more to report. */
size_t proxy_wan_tx(struct proxy *p, uint64_t now_ns, uint8_t *buf, size_t cap, struct wan_tx *tx)
{
	struct dnode *n = p->wan->lane_list.next, *next, *last = p->wan->lane_list.prev;
	bool more = n != &p->wan->lane_list;

	begin_call(p, now_ns);
	wan_paths_tell_flows(p);
	p->wan->pacer_blocked = false;
	if (cap < wan_path_sched_payload_max(p))
		return 0;
	for (; more; n = next) {
		struct lane *l = dlist_entry(n, struct lane, node);
		struct wan_path *path;
		uint32_t flows = wan_lane_waiting(l);
		bool begins = l->nfirst != 0, packets = flows || wan_lane_has_packets(l);
		bool held;
		size_t len = wan_path_sched_build(p, l, buf, cap, &path, &held);

		more = n != last;
		next = n->next;
		if (len) {
			if (wan_path_sched_has_time(path, begins, now_ns)) {
				wan_lane_took_turn(p, l, len, flows);
				pacer_part_take(&path->part, path->pacer, now_ns, len);
				if (packets)
					p->wan->packets_sent_ns = now_ns;
			} else {
				wan_pacer_take_past(path->pacer, now_ns, len);
			}
			if (wan_lane_has_data(l))
				note_waiting(p, true);
			p->last_tx_ns = now_ns;
			tx->lane = l->id;
			tx->path = path->id;
			tx->moves = l->space[path->id].moves;
			tx->ect = wan_ecn_sends(&path->ecn, now_ns, rate_tracks(&path->pacer->control));
			return len;
		}
		if (held)
			p->wan->pacer_blocked = true;
		else if (p->work_left || !wan_lane_has_packets(l))
			dlist_remove(n); /* else it has more to look at in the next call */
	}
	note_waiting(p, p->wan->pacer_blocked);
	return 0;
}
