/* SPDX-License-Identifier: Apache-2.0 */
/* latency.c - one request of a host, and one packet for a host, followed by looks at their flows. */
#include "latency.h"

#define ARRIVES_WITHIN_NS 100000000ull /* if the far side's followed flow has no further packet within this time,
                                        * another flow is followed */
#define LOOK_PART         64u

const uint64_t latency_bounds_ns[] = {
#define X(bound) bound##ull,
    LATENCY_BOUNDS(X)
#undef X
};

const char *latency_name(enum latency l)
{
#define X(e, name, text) name,
	static const char *const names[] = {LATENCIES(X)};
#undef X

	return (unsigned)l < LATENCY_COUNT ? names[l] : "";
}

/* --- histograms --- */

static void take_sample(struct latency_histogram *h, uint64_t ns)
{
	unsigned i = 0;

	while (i < LATENCY_BOUND_COUNT && ns > latency_bounds_ns[i])
		i++;
	h->n[i]++;
	h->sum_ns += ns;
}

void latencies_add(struct latencies *sum, const struct latencies *l)
{
	for (unsigned k = 0; k < LATENCY_COUNT; k++) {
		for (unsigned i = 0; i <= LATENCY_BOUND_COUNT; i++)
			sum->of[k].n[i] += l->of[k].n[i];
		sum->of[k].sum_ns += l->of[k].sum_ns;
	}
}

uint64_t latency_count(const struct latency_histogram *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i <= LATENCY_BOUND_COUNT; i++)
		n += h->n[i];
	return n;
}

/* --- following --- */

static bool find(const struct latency_probe *b, struct proxy *p, enum flow_side side, struct proxy_flow_view *v)
{
	return proxy_flow_find(p, side, &b->key.src, &b->key.dst, b->key.dest_qpn, b->key.vlan_tci, v);
}

static void end(struct latency_sampler *s, enum flow_side side, uint64_t now_ns)
{
	s->side[side].on = false;
	s->next_ns[side] = now_ns + LATENCY_EVERY_NS;
}

static struct flow_key key_of(const struct roce_pkt *pkt, uint16_t vlan_tci)
{
	return (struct flow_key){.src = pkt->src, .dst = pkt->dst, .dest_qpn = pkt->dest_qpn, .vlan_tci = vlan_tci};
}

/* A SEND or WRITE, which an ACK answers. */
static bool is_request(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_REQUEST && (roce_op(pkt->opcode)->flags & ROP_OWN_RESPONSE) == 0;
}

bool latency_request(struct latency_sampler *s, struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len,
                     uint16_t vlan_tci)
{
	struct latency_probe *b = &s->side[FLOW_NEAR];
	struct proxy_flow_view v;
	struct roce_pkt pkt;

	s->next_ns[FLOW_NEAR] = now_ns + LATENCY_AGAIN_NS;
	if (roce_parse(l3, len, &pkt) != DROP_NONE || !is_request(&pkt) || !pkt.ack_req)
		return false;
	*b = (struct latency_probe){.key = key_of(&pkt, vlan_tci), .began_ns = now_ns};
	/* only the packet that was expected, not a repetition */
	if (!find(b, p, FLOW_NEAR, &v) || ((v.status.pos_next - 1) & ROCE_PSN_MASK) != pkt.psn ||
	    v.status.pos_acked >= v.status.pos_next)
		return false;
	b->on = true;
	b->inc = v.status.inc;
	b->pos = v.status.pos_next - 1;
	b->waits_for = 1u << LATENCY_ACKED | 1u << LATENCY_DELIVERED;
	return true;
}

void latency_outgoing(struct latency_sampler *s, struct proxy *p, uint64_t now_ns, const struct lan_tx *tx)
{
	struct latency_probe *b = &s->side[FLOW_FAR];
	struct proxy_flow_view v;
	struct roce_pkt pkt;
	size_t len = (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;

	s->next_ns[FLOW_FAR] = now_ns + LATENCY_AGAIN_NS;
	if (tx->hdr_len == 0 || tx->routed)
		return;
	/* The headers are all in hdr. A copy of the body would lie on the stack, which is in core dumps. */
	if (roce_parse(tx->hdr, len, &pkt) != DROP_NONE || !is_request(&pkt))
		return;
	*b = (struct latency_probe){.key = key_of(&pkt, tx->vlan_tci), .began_ns = now_ns};
	if (!find(b, p, FLOW_FAR, &v))
		return;
	b->on = b->arrives = true;
	b->inc = v.status.inc;
	b->pos = v.status.pos_next;
}

/* Far: begins to follow the flow's next packet once it has arrived. */
static void look_for_arrival(struct latency_sampler *s, struct latency_probe *b, const struct proxy_flow_view *v,
                             uint64_t now_ns)
{
	if (v->status.pos_next > b->pos) {
		*b = (struct latency_probe){.on = true,
		                            .waits_for = 1u << LATENCY_INWARD,
		                            .key = b->key,
		                            .inc = b->inc,
		                            .pos = v->status.pos_next - 1,
		                            .began_ns = now_ns};
	} else if (now_ns - b->began_ns > ARRIVES_WITHIN_NS) {
		end(s, FLOW_FAR, now_ns);
	}
}

static void reach(struct latency_sampler *s, struct latency_probe *b, enum latency l, bool there, uint64_t now_ns)
{
	if (!there || (b->waits_for & 1u << l) == 0)
		return;
	take_sample(&s->sums.of[l], now_ns - b->began_ns);
	b->waits_for &= ~(1u << l);
}

static void look(struct latency_sampler *s, struct proxy *p, enum flow_side side, uint64_t now_ns)
{
	struct latency_probe *b = &s->side[side];
	struct proxy_flow_view v;
	bool over = now_ns - b->began_ns > LATENCY_MOST_NS;

	if (!find(b, p, side, &v) || v.status.inc != b->inc) {
		end(s, side, now_ns);
		return;
	}
	if (b->arrives) {
		look_for_arrival(s, b, &v, now_ns);
		return;
	}
	reach(s, b, LATENCY_ACKED, over || v.status.pos_acked > b->pos, now_ns);
	reach(s, b, LATENCY_DELIVERED, over || v.status.pos_delivered > b->pos, now_ns);
	reach(s, b, LATENCY_INWARD, over || v.status.pos_delivered > b->pos, now_ns);
	b->look_ns = now_ns + (now_ns - b->began_ns) / LOOK_PART;
	if (b->waits_for == 0)
		end(s, side, now_ns);
}

void latency_look(struct latency_sampler *s, struct proxy *p, uint64_t now_ns)
{
	for (int side = FLOW_NEAR; side <= FLOW_FAR; side++)
		if (s->side[side].on && now_ns >= s->side[side].look_ns)
			look(s, p, (enum flow_side)side, now_ns);
}
