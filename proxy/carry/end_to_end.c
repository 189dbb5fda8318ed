/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A queue pair is carried even if the table of near flows is full of paired flows in use. The packets of such a queue
 * pair cross like those that are not RC (raw.c): at most once, repaired, and in order; the requester repeats packets
 * that come too late. The responder's answers come back the same way. No edge ACKs these packets, so no other packet
 * waits at the barrier for them.
 *
 *     host A --request--> near: no place --raw--> far: notes that A asks --> host B
 *            <---answer-- near: it was asked <--raw-- far: no flow has that QPN <--answer--
 *
 * An answer carries only the QPN that it goes to. Between two hosts with such a queue pair an answer to an unknown QPN
 * could be for a flow that is being probed or for an end-to-end request, so it pairs no flow. Hence the unit is the
 * pair of hosts: while requests between them go end to end, no flow between them is opened that would have to learn its
 * pair. Flows that have not learned theirs are closed (nothing of them was ACKed), but only once no FLOW_PAIR of the
 * far edge can be under way (end_to_end_settled()): the far edge has consumed the answer that made the pair, and it
 * does not come twice. Flows that CM opens, and paired flows, go on. So a queue pair gets a flow only BEGUN_QUIET_NS
 * after the last end-to-end packet between the hosts. A responder that stood still may answer later than that: for a
 * while its answers are in doubt (pair_end_to_end_asked()).
 *
 * Pairs of hosts share places by a hash. Two pairs that share a place are both carried end to end: slower, but safe. */
#include "end_to_end.h"

#include "barrier.h"
#include "raw.h"
#include "proxy/shard/flow_find.h"

#define BEGUN_QUIET_NS 1000000000ull /* since the last request: hardly an answer to one is under way any more */
#define ASKED_QUIET_NS 500000000ull  /* less: the far edge pairs flows again before the near edge opens them */
#define SETTLE_MORE_NS 1000000ull    /* and three round trips: a FLOW_PAIR is here by then, repaired if it was lost */
#define POOL_PART      8             /* such packets hold at most 1/8 of the pool: only the host's window paces them */

static uint32_t place_of(const struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder)
{
	uint64_t h = (uint64_t)addr_hash(p->cfg.hash_seed, requester) << 32 | addr_hash(p->cfg.hash_seed, responder);

	return (uint32_t)hash_mix(h) % END_TO_END_PLACES;
}

static bool lately(const struct proxy *p, uint64_t at_ns, uint64_t quiet_ns)
{
	return at_ns && p->now_ns < at_ns + quiet_ns;
}

bool end_to_end_begun(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	return lately(p, p->end_to_end.begun_ns[place_of(p, src, dst)], BEGUN_QUIET_NS);
}

bool end_to_end_asked(const struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder)
{
	return lately(p, p->end_to_end.asked_ns[place_of(p, requester, responder)], ASKED_QUIET_NS);
}

bool end_to_end_settled(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	uint64_t since_ns = p->end_to_end.since_ns[place_of(p, src, dst)];

	return end_to_end_begun(p, src, dst) && p->now_ns >= since_ns + 3 * proxy_rtt_ns(p) + SETTLE_MORE_NS;
}

enum proxy_drop end_to_end_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	uint32_t place = place_of(p, &pkt->src, &pkt->dst);
	uint64_t *begun_ns = &p->end_to_end.begun_ns[place];

	if (!lately(p, *begun_ns, BEGUN_QUIET_NS)) {
		struct near_flow who = {.src = pkt->src, .dst = pkt->dst, .dest_qpn = pkt->dest_qpn, .idx = NONE};

		p->end_to_end.since_ns[place] = p->now_ns;
		proxy_event_push(p, EV_END_TO_END, &who, NULL, 0, p->near_used);
	}
	*begun_ns = p->now_ns;
	return raw_rx(p, l3, pkt, vlan_tci);
}

bool end_to_end_may_hold(const struct proxy *p, uint32_t bytes)
{
	return p->end_to_end.held_bytes + bytes <= arena_capacity(p->arena, POOL_LAN) / POOL_PART;
}

bool end_to_end_admit(struct proxy *p, const struct roce_pkt *pkt)
{
	if (pkt->class == ROCE_RC_RESPONSE)
		return end_to_end_begun(p, &pkt->dst, &pkt->src) && !near_awaits(p, &pkt->dst, &pkt->src, pkt->dest_qpn);
	if (barrier_stale_flow_to(p, &pkt->src, &pkt->dst, pkt->dest_qpn))
		return false; /* the packet is dropped, and its host repeats it */
	p->end_to_end.asked_ns[place_of(p, &pkt->src, &pkt->dst)] = p->now_ns;
	p->roles->end_to_end_asked(p, pkt);
	return true;
}

uint32_t end_to_end_pairs(const struct proxy *p, uint64_t now_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < END_TO_END_PLACES; i++)
		n += p->end_to_end.begun_ns[i] && now_ns < p->end_to_end.begun_ns[i] + BEGUN_QUIET_NS;
	return n;
}
