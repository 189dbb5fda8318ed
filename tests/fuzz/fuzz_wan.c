/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile datagrams at a live shard: whatever a broken or malicious peer says in a datagram with the right epoch and
 * tag.
 *
 * Steps beside ordinary life: frames of any type with any body; frames of known types whose names and positions lie
 * near real ones; real datagrams with bytes changed. Each with any ECN field, and counts of marks near those heard. */
#include "fuzz_core.h"

static size_t put_hdr(uint8_t *buf, const struct fz_edge *to, uint64_t pn)
{
	struct wan_hdr h = {.lane = 0, .epoch = to->p->session.epoch_rx, .wan_pn = pn};

	return wan_hdr_put(buf, &h);
}

static void deliver(struct fz_edge *to, size_t len, uint8_t ecn)
{
	len = wan_seal(fz.dgram, len);
	fz_wan_rx(to, len, ecn & ECN_MASK);
}

/* Some flow of either table, by number; NULL if there is none. */
static const struct near_flow *some_near(const struct fz_edge *e, uint8_t n)
{
	for (unsigned i = 0; i < FZ_FLOWS; i++)
		if (near_in_use(&e->p->near[(n + i) % FZ_FLOWS]))
			return &e->p->near[(n + i) % FZ_FLOWS];
	return NULL;
}

static const struct far_flow *some_far(const struct fz_edge *e, uint8_t n)
{
	for (unsigned i = 0; i < FZ_FLOWS; i++)
		if (e->p->far[(n + i) % FZ_FLOWS].state != FAR_FREE)
			return &e->p->far[(n + i) % FZ_FLOWS];
	return NULL;
}

/* A number near `ref`, or any. */
static uint64_t near_to(uint64_t ref, struct input *in)
{
	uint8_t how = in_u8(in);

	if (how == 0xff)
		return in_u64(in);
	if (how >= 0xf0)
		return ref + ((uint64_t)in_u32(in) - 0x80000000u);
	return ref + how - 120u;
}

static size_t frame_raw(uint8_t *b, size_t cap, struct input *in)
{
	size_t n = in_u8(in);

	if (cap < WAN_FRAME_HDR_LEN)
		return 0;
	b[0] = in_u8(in);
	b[1] = in_u8(in);
	n = in_bytes(in, b + WAN_FRAME_HDR_LEN, n < cap - WAN_FRAME_HDR_LEN ? n : cap - WAN_FRAME_HDR_LEN);
	put_be16(b + 2, (uint16_t)n);
	return WAN_FRAME_HDR_LEN + n;
}

/* A packet for a far flow, or a response for a near one: a sound RoCE packet most of the time, whole or in part. */
static size_t frame_packet(const struct fz_edge *to, uint8_t *b, size_t cap, struct input *in)
{
	static uint8_t l3[LAN_PKT_MAX + 128];
	static const uint8_t zero[LAN_PKT_MAX];
	uint8_t kind = in_u8(in) % 3;
	const struct far_flow *f = some_far(to, in_u8(in));
	const struct near_flow *nf = some_near(to, in_u8(in));
	struct wan_packet w = {.kind = kind, .vlan_tci = in_u8(in)};
	struct roce_pkt h = fz_hdr(&fz.e[to == &fz.e[0]], RC_WRITE_ONLY, 0x10, 0);
	size_t n;

	if (kind == WP_REQUEST && f) {
		w.flow = f->peer_flow;
		w.inc = f->inc + (in_u8(in) & 3) % 3 - 1u + 1u;
		w.pos = near_to(f->pos_rx, in);
	} else if (kind == WP_RESPONSE && nf) {
		w.flow = nf->idx;
		w.inc = nf->inc;
		w.pos = near_to(nf->op_open ? nf->op_open->next : nf->pos_next, in);
	} else {
		w.flow = in_u8(in);
		w.inc = in_u8(in);
		w.pos = near_to(kind == WP_RAW ? to->p->raw_lanes[0].seq_rx : POS_ORIGIN, in);
	}
	h.opcode = in_u8(in) % 0x20;
	if (kind == WP_RAW)
		h.opcode = UD_SEND_ONLY;
	h.psn = pos_psn(w.pos);
	h.reth_len = in_u16(in);
	n = roce_build(l3, sizeof(l3), &h, zero, fz_payload_len(h.opcode) + in_u8(in) % 4u);
	if (!n)
		return 0;
	if (in_u8(in) == 0)
		l3[in_u16(in) % n] ^= in_u8(in);
	w.total = (uint16_t)(n + (in_u8(in) == 0));
	w.data = l3;
	w.len = w.total;
	if (in_u8(in) % 4 == 0) { /* a piece */
		w.offset = (uint16_t)(in_u8(in) % 8 * PIECE_UNIT);
		w.len = (uint16_t)(w.offset < w.total ? w.total - w.offset : 1);
		if (w.len > PIECE_UNIT)
			w.len = PIECE_UNIT;
		w.data = l3 + w.offset;
	}
	return wan_packet_put(b, cap, &w);
}

static size_t frame_flow(const struct fz_edge *to, uint8_t *b, size_t cap, struct input *in)
{
	const struct near_flow *nf = some_near(to, in_u8(in));
	const struct far_flow *f = some_far(to, in_u8(in));
	uint64_t ref = nf ? nf->pos_next : POS_ORIGIN;
	struct wan_flow_report r = {.flow = nf ? nf->idx : 0, .inc = nf ? nf->inc : 1};
	struct wan_flow_pair pr = {.flow = r.flow, .inc = r.inc};
	struct wan_flow_open o = {.flow = f ? f->peer_flow : 0};
	struct wan_flow_close c = {.flow = o.flow, .inc = f ? f->inc : 0};
	struct wan_lane_credit lc = {.window_bytes = in_u32(in), .flow_initial_bytes = in_u16(in)};
	struct wan_resp_credit rc = {.flow = o.flow, .inc = c.inc};
	struct roce_pkt ack = fz_hdr(&fz.e[to == &fz.e[0]], RC_ACK, 0x10, 0);
	uint8_t template[TEMPLATE_MAX];

	switch (in_u8(in) % 6) {
	case 0:
		r.received = near_to(ref, in);
		r.delivered = near_to(ref, in);
		if (r.delivered > r.received)
			r.received = r.delivered;
		r.credit = near_to(ref, in);
		r.nak_pos = near_to(ref, in);
		r.state = in_u8(in) % 4;
		r.syndrome = in_u8(in);
		r.again_round = r.syndrome % 8;
		r.again_from = near_to(ref, in);
		return wan_flow_report_put(b, cap, &r);
	case 1:
		pr.pos_base = near_to(nf ? nf->pos_base : POS_ORIGIN, in);
		pr.at_pos = near_to(ref, in);
		pr.msn = in_u8(in);
		pr.requester_qpn = in_u8(in);
		pr.confirmed = in_u8(in) & 1;
		pr.template = template;
		pr.template_len = (uint16_t)roce_build(template, sizeof(template), &ack, NULL, 0);
		if (in_u8(in) == 0)
			template[in_u8(in) % sizeof(template)] ^= in_u8(in);
		return wan_flow_pair_put(b, cap, &pr);
	case 2:
		o.inc = (f ? f->inc : 1) + in_u8(in) % 3 - 1u;
		o.pos_base = near_to(f ? f->pos_base : POS_ORIGIN, in);
		o.dest_qpn = 0x10 + in_u8(in) % 3u;
		o.requester_qpn = in_u8(in);
		o.pmtu = in_u8(in) % 3 ? FZ_PMTU : in_u16(in);
		o.flags = in_u8(in);
		o.flow = in_u8(in) % 4 ? o.flow : in_u8(in) % (2u * FZ_FLOWS);
		o.src = fz_ip(3u - to->site, 2);
		o.dst = fz_ip(in_u8(in) ? to->site : in_u8(in), 2);
		return wan_flow_open_put(b, cap, &o);
	case 3:
		return wan_flow_close_put(b, cap, &c);
	case 4:
		rc.round = in_u8(in);
		rc.credit = in_u8(in) % 4 ? near_to(f ? f->resp_next : POS_ORIGIN, in) : RESP_CREDIT_ALL;
		return wan_resp_credit_put(b, cap, &rc);
	default:
		return wan_lane_credit_put(b, cap, &lc);
	}
}

static size_t frame_lane(const struct fz_edge *to, uint8_t *b, size_t cap, struct input *in)
{
	const struct wan_sent *s = &to->p->wan->lanes[0].space[0].sent;
	const struct wan_ecn_counts *heard = &to->p->wan->lanes[0].space[0].ecn_heard;
	uint64_t words[4];
	struct wan_report r = {.words = (uint16_t)(1 + in_u8(in) % 4)};

	if (in_u8(in) % 4 == 0)
		return wan_probe_put(b, cap, near_to(to->p->wan->lanes[0].space[0].recv.next, in));
	r.base = near_to(s->pn_floor, in) & ~63ull;
	r.largest = near_to(s->pn_next, in);
	r.delay_ns = in_u8(in) ? in_u16(in) : in_u64(in);
	for (unsigned i = 0; i < 4; i++)
		words[i] = in_u8(in) & 1 ? ~0ull : in_u32(in) * 0x100000001ull;
	r.ecn.ect0 = (uint32_t)near_to(heard->ect0, in) & ECN_COUNT_MASK;
	r.ecn.ce = (uint32_t)near_to(heard->ce, in) & ECN_COUNT_MASK;
	return wan_report_put(b, cap, in_u8(in) & 1 ? WF_REPORT : WF_REFUSED, &r, words);
}

/* Repairs of groups near what came, with sums of anything; and what the peer says of its own. */
static size_t frame_fec(const struct fz_edge *to, uint8_t *b, size_t cap, struct input *in)
{
	static uint8_t sum[1400];
	const struct pn_space *s = &to->p->wan->lanes[0].space[0];
	struct wan_fec f = {.data = sum};
	struct wan_arrivals_frame a;
	uint64_t numbers[3];

	switch (in_u8(in) % 4) {
	case 0:
		for (unsigned i = 0; i < 3; i++)
			numbers[i] = near_to(s->sent.pn_floor, in);
		return wan_rebuilt_put(b, cap, numbers, 1 + in_u8(in) % 3u);
	case 1:
		a.numbers = near_to(s->peer_sum.numbers + 64, in);
		a.lost = near_to(s->peer_sum.lost, in);
		a.bursts = near_to(s->peer_sum.bursts, in);
		return wan_arrivals_put(b, cap, &a);
	default:
		f.base = near_to(s->recv.next, in);
		f.span = in_u8(in) ? in_u8(in) : in_u16(in);
		f.depth = in_u8(in) % (FEC_DEPTH_MAX + 2);
		f.group = f.depth ? in_u8(in) % (f.depth + 1u) : 0;
		f.row = in_u8(in) % 4;
		f.rows = in_u8(in) % 5;
		f.len = in_u16(in) % sizeof(sum);
		in_bytes(in, sum, in_u8(in));
		return wan_fec_frame_put(b, cap, &f);
	}
}

/* One datagram with one or two frames. */
static void forge(struct fz_edge *to, struct input *in)
{
	struct fz_edge *from = &fz.e[to == &fz.e[0]];
	uint8_t how = in_u8(in);
	size_t cap = from->cfg.path[0].payload_max - WAN_TAG_LEN, off;
	uint64_t pn = how & 0x80 ? near_to(to->p->wan->lanes[0].space[0].recv.next, in) : fz.hostile_pn++;

	off = put_hdr(fz.dgram, to, pn);
	if (how & 0x20)
		fz.dgram[3] |= WAN_FLAG_FEC;
	for (unsigned i = 0; i <= (how >> 6 & 1u); i++) {
		uint8_t *b = fz.dgram + off;

		uint8_t kind = in_u8(in);

		if (kind >= 0xc0) {
			off += frame_fec(to, b, cap - off, in);
			continue;
		}
		switch (kind % 4) {
		case 0:
			off += frame_raw(b, cap - off, in);
			break;
		case 1:
			off += frame_packet(to, b, cap - off, in);
			break;
		case 2:
			off += frame_flow(to, b, cap - off, in);
			break;
		default:
			off += frame_lane(to, b, cap - off, in);
			break;
		}
	}
	deliver(to, off, how);
}

/* The next real datagram with some bytes changed. */
static void change(struct fz_edge *to, struct input *in)
{
	struct fz_edge *from = &fz.e[to == &fz.e[0]];
	uint8_t ecn;
	size_t n = fz_dgram(from, &ecn);

	if (n < WAN_HDR_LEN + WAN_TAG_LEN)
		return;
	for (unsigned i = in_u8(in) % 4u + 1; i; i--)
		fz.dgram[in_u16(in) % (n - WAN_TAG_LEN)] ^= in_u8(in);
	deliver(to, n - WAN_TAG_LEN, ecn);
}

/* A real datagram twice, or cut short. */
static void replay(struct fz_edge *to, struct input *in)
{
	struct fz_edge *from = &fz.e[to == &fz.e[0]];
	uint8_t ecn;
	size_t n = fz_dgram(from, &ecn), cut = in_u16(in);

	if (n < WAN_HDR_LEN + WAN_TAG_LEN)
		return;
	fz_wan_rx(to, cut % n, ecn);
	fz_wan_rx(to, n, ecn);
	fz_wan_rx(to, n, (uint8_t)(cut & ECN_MASK)); /* by another way */
}

static void hostile(uint8_t what, struct input *in)
{
	struct fz_edge *to = &fz.e[what & 1];

	switch (what >> 1) {
	case 0:
		change(to, in);
		break;
	case 1:
		replay(to, in);
		break;
	default:
		forge(to, in);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fz_run(data, size, hostile);
	return 0;
}
