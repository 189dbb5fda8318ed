/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_frame.h"

#include "proxy/util/bytes.h"

size_t wan_hdr_put(uint8_t *buf, const struct wan_hdr *h)
{
	buf[0] = WAN_VERSION;
	buf[1] = h->lane;
	buf[2] = h->path;
	buf[3] = h->flags;
	put_be32(buf + 4, h->epoch);
	put_be64(buf + 8, h->wan_pn);
	return WAN_HDR_LEN;
}

enum proxy_drop wan_hdr_get(const uint8_t *buf, size_t len, struct wan_hdr *h)
{
	if (len < WAN_HDR_LEN)
		return DROP_WAN_TRUNCATED;
	if (buf[0] != WAN_VERSION)
		return DROP_WAN_BAD_VERSION;
	h->lane = buf[1];
	h->path = buf[2];
	h->flags = buf[3];
	h->epoch = get_be32(buf + 4);
	h->wan_pn = get_be64(buf + 8);
	return DROP_NONE;
}

int wan_frame_next(const uint8_t *buf, size_t len, size_t *off, struct wan_frame *f)
{
	if (*off == len)
		return 0;
	if (len - *off < WAN_FRAME_HDR_LEN)
		return -1;
	f->type = buf[*off];
	f->flags = buf[*off + 1];
	f->len = get_be16(buf + *off + 2);
	if (len - *off - WAN_FRAME_HDR_LEN < f->len)
		return -1;
	f->body = buf + *off + WAN_FRAME_HDR_LEN;
	*off += WAN_FRAME_HDR_LEN + (size_t)f->len;
	return 1;
}

/* Frame header for a body of `len` bytes; NULL if it does not fit. */
uint8_t *wan_frame_begin(uint8_t *buf, size_t cap, uint8_t type, uint8_t flags, size_t len)
{
	if (cap < WAN_FRAME_HDR_LEN + len)
		return NULL;
	buf[0] = type;
	buf[1] = flags;
	put_be16(buf + 2, (uint16_t)len);
	return buf + WAN_FRAME_HDR_LEN;
}

size_t wan_packet_put(uint8_t *buf, size_t cap, const struct wan_packet *p)
{
	size_t n = wan_packet_put_head(buf, cap, p);

	if (n)
		memcpy(buf + WAN_PACKET_OVERHEAD, p->data, p->len);
	return n;
}

size_t wan_packet_put_head(uint8_t *buf, size_t cap, const struct wan_packet *p)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_PACKET, 0, WAN_PACKET_BODY_LEN + (size_t)p->len);

	if (!b)
		return 0;
	put_be32(b, p->flow);
	put_be32(b + 4, p->inc);
	put_be64(b + 8, p->pos);
	put_be16(b + 16, p->total);
	put_be16(b + 18, p->offset);
	put_be16(b + 20, p->vlan_tci);
	b[22] = p->kind;
	b[23] = 0;
	return WAN_PACKET_OVERHEAD + (size_t)p->len;
}

bool wan_packet_get(const struct wan_frame *f, struct wan_packet *p)
{
	const uint8_t *b = f->body;

	if (f->len <= WAN_PACKET_BODY_LEN)
		return false;
	p->flow = get_be32(b);
	p->inc = get_be32(b + 4);
	p->pos = get_be64(b + 8);
	p->total = get_be16(b + 16);
	p->offset = get_be16(b + 18);
	p->vlan_tci = get_be16(b + 20);
	p->kind = b[22];
	p->len = (uint16_t)(f->len - WAN_PACKET_BODY_LEN);
	p->data = b + WAN_PACKET_BODY_LEN;
	if (p->kind >= WAN_PACKET_KINDS || p->total > LAN_PKT_MAX || p->offset % PIECE_UNIT != 0)
		return false;
	if (p->offset + p->len > p->total)
		return false;
	return p->len % PIECE_UNIT == 0 || p->offset + p->len == p->total;
}

size_t wan_lane_credit_put(uint8_t *buf, size_t cap, const struct wan_lane_credit *c)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_LANE_CREDIT, 0, 16);

	if (!b)
		return 0;
	put_be64(b, c->window_bytes);
	put_be32(b + 8, c->flow_initial_bytes);
	put_be32(b + 12, 0);
	return WAN_FRAME_HDR_LEN + 16;
}

bool wan_lane_credit_get(const struct wan_frame *f, struct wan_lane_credit *c)
{
	if (f->len != 16)
		return false;
	c->window_bytes = get_be64(f->body);
	c->flow_initial_bytes = get_be32(f->body + 8);
	return true;
}

size_t wan_report_put(uint8_t *buf, size_t cap, uint8_t type, const struct wan_report *r, const uint64_t *words)
{
	uint8_t *b = wan_frame_begin(buf, cap, type, 0, WAN_REPORT_BODY_LEN + 8 * (size_t)r->words);

	if (!b)
		return 0;
	put_be64(b, r->base);
	put_be64(b + 8, r->largest);
	put_be64(b + 16, r->delay_ns);
	put_be16(b + 24, r->words);
	put_be24(b + 26, r->ecn.ect0);
	put_be24(b + 29, r->ecn.ce);
	for (uint32_t w = 0; w < r->words; w++)
		put_be64(b + WAN_REPORT_BODY_LEN + 8 * (size_t)w, words[w]);
	return WAN_FRAME_HDR_LEN + WAN_REPORT_BODY_LEN + 8 * (size_t)r->words;
}

bool wan_report_get(const struct wan_frame *f, struct wan_report *r)
{
	const uint8_t *b = f->body;

	if (f->len < WAN_REPORT_BODY_LEN)
		return false;
	r->base = get_be64(b);
	r->largest = get_be64(b + 8);
	r->delay_ns = get_be64(b + 16);
	r->words = get_be16(b + 24);
	r->ecn = (struct wan_ecn_counts){.ect0 = get_be24(b + 26), .ce = get_be24(b + 29)};
	r->bits = b + WAN_REPORT_BODY_LEN;
	return r->base % 64 == 0 && r->base >> 62 == 0 && r->largest >> 62 == 0 && r->words >= 1 &&
	       r->words <= WAN_REPORT_WORDS_MAX && f->len == WAN_REPORT_BODY_LEN + 8 * r->words;
}

uint64_t wan_report_word(const struct wan_report *r, uint32_t w)
{
	return get_be64(r->bits + 8 * (size_t)w);
}

size_t wan_probe_put(uint8_t *buf, size_t cap, uint64_t from_pn)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_PROBE, 0, 8);

	if (!b)
		return 0;
	put_be64(b, from_pn);
	return WAN_FRAME_HDR_LEN + 8;
}

bool wan_probe_get(const struct wan_frame *f, uint64_t *from_pn)
{
	if (f->len != 8)
		return false;
	*from_pn = get_be64(f->body);
	return true;
}

size_t wan_pad_put(uint8_t *buf, size_t cap)
{
	if (cap < WAN_FRAME_HDR_LEN || cap - WAN_FRAME_HDR_LEN > UINT16_MAX)
		return 0;
	memset(wan_frame_begin(buf, cap, WF_PAD, 0, cap - WAN_FRAME_HDR_LEN), 0, cap - WAN_FRAME_HDR_LEN);
	return cap;
}

size_t wan_ping_put(uint8_t *buf, size_t cap)
{
	return wan_frame_begin(buf, cap, WF_PING, 0, 0) ? WAN_FRAME_HDR_LEN : 0;
}

size_t wan_fec_frame_put(uint8_t *buf, size_t cap, const struct wan_fec *w)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_FEC, 0, WAN_FEC_BODY_LEN + (size_t)w->len);

	if (!b)
		return 0;
	put_be64(b, w->base);
	put_be16(b + 8, w->span);
	b[10] = w->depth;
	b[11] = w->group;
	b[12] = w->row;
	b[13] = w->rows;
	put_be16(b + 14, 0);
	memcpy(b + WAN_FEC_BODY_LEN, w->data, w->len);
	return WAN_FEC_OVERHEAD + (size_t)w->len;
}

bool wan_fec_frame_get(const struct wan_frame *f, struct wan_fec *w)
{
	const uint8_t *b = f->body;

	if (f->len <= WAN_FEC_BODY_LEN)
		return false;
	w->base = get_be64(b);
	w->span = get_be16(b + 8);
	w->depth = b[10];
	w->group = b[11];
	w->row = b[12];
	w->rows = b[13];
	w->len = (uint16_t)(f->len - WAN_FEC_BODY_LEN);
	w->data = b + WAN_FEC_BODY_LEN;
	if (w->depth < 1 || w->depth > FEC_DEPTH_MAX || w->group >= w->depth || w->span <= w->group)
		return false;
	if (w->span > FEC_BLOCK_MAX || w->span > FEC_PLACES_MAX * w->depth)
		return false;
	return w->row < w->rows && w->rows <= FEC_M_MAX && w->base >> 62 == 0;
}

size_t wan_rebuilt_put(uint8_t *buf, size_t cap, const uint64_t *numbers, uint32_t n)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_REBUILT, 0, 8 * (size_t)n);

	if (!b)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		put_be64(b + 8 * (size_t)i, numbers[i]);
	return WAN_FRAME_HDR_LEN + 8 * (size_t)n;
}

bool wan_rebuilt_get(const struct wan_frame *f, struct wan_rebuilt *r)
{
	r->n = f->len / 8;
	r->numbers = f->body;
	return f->len % 8 == 0 && r->n >= 1 && r->n <= WAN_REBUILT_MAX;
}

uint64_t wan_rebuilt_number(const struct wan_rebuilt *r, uint32_t i)
{
	return get_be64(r->numbers + 8 * (size_t)i);
}

size_t wan_arrivals_put(uint8_t *buf, size_t cap, const struct wan_arrivals_frame *a)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_ARRIVALS, 0, 24);

	if (!b)
		return 0;
	put_be64(b, a->numbers);
	put_be64(b + 8, a->lost);
	put_be64(b + 16, a->bursts);
	return WAN_FRAME_HDR_LEN + 24;
}

bool wan_arrivals_get(const struct wan_frame *f, struct wan_arrivals_frame *a)
{
	if (f->len != 24)
		return false;
	a->numbers = get_be64(f->body);
	a->lost = get_be64(f->body + 8);
	a->bursts = get_be64(f->body + 16);
	return a->numbers >> 62 == 0 && a->bursts <= a->lost && a->lost <= a->numbers;
}
