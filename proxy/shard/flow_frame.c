/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_frame.h"

#include <string.h>

#include "proxy/util/bytes.h"

size_t wan_flow_open_put(uint8_t *buf, size_t cap, const struct wan_flow_open *o)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_FLOW_OPEN, o->flags, 64);

	if (!b)
		return 0;
	put_be32(b, o->flow);
	put_be32(b + 4, o->inc);
	put_be64(b + 8, o->pos_base);
	put_be32(b + 16, o->dest_qpn);
	put_be32(b + 20, o->requester_qpn);
	put_be16(b + 24, o->vlan_tci);
	put_be16(b + 26, o->pmtu);
	put_be32(b + 28, o->cm_tag);
	memcpy(b + 32, o->src.b, 16);
	memcpy(b + 48, o->dst.b, 16);
	return WAN_FRAME_HDR_LEN + 64;
}

bool wan_flow_open_get(const struct wan_frame *f, struct wan_flow_open *o)
{
	const uint8_t *b = f->body;

	if (f->len != 64)
		return false;
	o->flags = f->flags;
	o->flow = get_be32(b);
	o->inc = get_be32(b + 4);
	o->pos_base = get_be64(b + 8);
	o->dest_qpn = get_be32(b + 16) & ROCE_QPN_MASK;
	o->requester_qpn = get_be32(b + 20) & ROCE_QPN_MASK;
	o->vlan_tci = get_be16(b + 24);
	o->pmtu = get_be16(b + 26);
	o->cm_tag = get_be32(b + 28);
	memcpy(o->src.b, b + 32, 16);
	memcpy(o->dst.b, b + 48, 16);
	return o->pos_base >> 62 == 0;
}

#define WAN_FLOW_REPORT_LEN 52            /* body */
enum { WRF_LOST = 1, WRF_KEEPS_ALL = 2 }; /* flags of FLOW_REPORT */

size_t wan_flow_report_put(uint8_t *buf, size_t cap, const struct wan_flow_report *r)
{
	uint8_t flags = (uint8_t)((r->lost ? WRF_LOST : 0) | (r->keeps_all ? WRF_KEEPS_ALL : 0));
	uint8_t *b = wan_frame_begin(buf, cap, WF_FLOW_REPORT, flags, WAN_FLOW_REPORT_LEN);

	if (!b)
		return 0;
	put_be32(b, r->flow);
	put_be32(b + 4, r->inc);
	put_be64(b + 8, r->received);
	put_be64(b + 16, r->delivered);
	put_be64(b + 24, r->credit);
	put_be64(b + 32, r->nak_pos);
	b[40] = r->state;
	b[41] = r->syndrome;
	put_be16(b + 42, r->again_round);
	put_be64(b + 44, r->again_from);
	return WAN_FRAME_HDR_LEN + WAN_FLOW_REPORT_LEN;
}

bool wan_flow_report_get(const struct wan_frame *f, struct wan_flow_report *r)
{
	const uint8_t *b = f->body;

	if (f->len != WAN_FLOW_REPORT_LEN)
		return false;
	r->flow = get_be32(b);
	r->inc = get_be32(b + 4);
	r->received = get_be64(b + 8);
	r->delivered = get_be64(b + 16);
	r->credit = get_be64(b + 24);
	r->nak_pos = get_be64(b + 32);
	r->state = b[40];
	r->syndrome = b[41];
	r->again_round = get_be16(b + 42);
	r->again_from = get_be64(b + 44);
	r->lost = f->flags & WRF_LOST;
	r->keeps_all = f->flags & WRF_KEEPS_ALL;
	return r->state <= WFS_FAILED && r->delivered <= r->received;
}

enum { WPF_CONFIRMED = 1, WPF_MSN_LATE = 2 };

size_t wan_flow_pair_put(uint8_t *buf, size_t cap, const struct wan_flow_pair *r)
{
	uint8_t flags = (uint8_t)((r->confirmed ? WPF_CONFIRMED : 0) | (r->msn_late ? WPF_MSN_LATE : 0));
	uint8_t *b = wan_frame_begin(buf, cap, WF_FLOW_PAIR, flags, 36 + (size_t)r->template_len);

	if (!b)
		return 0;
	put_be32(b, r->flow);
	put_be32(b + 4, r->inc);
	put_be64(b + 8, r->pos_base);
	put_be64(b + 16, r->at_pos);
	put_be32(b + 24, r->msn);
	put_be32(b + 28, r->requester_qpn);
	put_be16(b + 32, r->template_len);
	put_be16(b + 34, 0);
	memcpy(b + 36, r->template, r->template_len);
	return WAN_FRAME_HDR_LEN + 36 + (size_t)r->template_len;
}

bool wan_flow_pair_get(const struct wan_frame *f, struct wan_flow_pair *r)
{
	const uint8_t *b = f->body;

	if (f->len < 36)
		return false;
	r->confirmed = f->flags & WPF_CONFIRMED;
	r->msn_late = f->flags & WPF_MSN_LATE;
	r->flow = get_be32(b);
	r->inc = get_be32(b + 4);
	r->pos_base = get_be64(b + 8);
	r->at_pos = get_be64(b + 16);
	r->msn = get_be32(b + 24) & ROCE_PSN_MASK;
	r->requester_qpn = get_be32(b + 28) & ROCE_QPN_MASK;
	r->template_len = get_be16(b + 32);
	r->template = b + 36;
	return r->template_len == f->len - 36 && r->template_len <= TEMPLATE_MAX && r->pos_base <= r->at_pos;
}

#define WAN_READ_AGAIN_LEN 24 /* body without the packet */

size_t wan_read_again_put(uint8_t *buf, size_t cap, const struct wan_read_again *r)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_READ_AGAIN, 0, WAN_READ_AGAIN_LEN + (size_t)r->packet_len);

	if (!b)
		return 0;
	put_be32(b, r->flow);
	put_be32(b + 4, r->inc);
	put_be64(b + 8, r->pos);
	put_be32(b + 16, r->psns);
	put_be16(b + 20, r->packet_len);
	put_be16(b + 22, r->forward_only);
	memcpy(b + WAN_READ_AGAIN_LEN, r->packet, r->packet_len);
	return WAN_FRAME_HDR_LEN + WAN_READ_AGAIN_LEN + (size_t)r->packet_len;
}

bool wan_read_again_get(const struct wan_frame *f, struct wan_read_again *r)
{
	const uint8_t *b = f->body;

	if (f->len < WAN_READ_AGAIN_LEN)
		return false;
	r->flow = get_be32(b);
	r->inc = get_be32(b + 4);
	r->pos = get_be64(b + 8);
	r->psns = get_be32(b + 16);
	r->packet_len = get_be16(b + 20);
	r->forward_only = get_be16(b + 22) & 1;
	r->packet = b + WAN_READ_AGAIN_LEN;
	return f->len == WAN_READ_AGAIN_LEN + r->packet_len && r->psns > 0 && r->psns <= FLOW_SPAN_MAX / 2;
}

#define WAN_RESP_CREDIT_LEN 20

size_t wan_resp_credit_put(uint8_t *buf, size_t cap, const struct wan_resp_credit *c)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_RESP_CREDIT, 0, WAN_RESP_CREDIT_LEN);

	if (!b)
		return 0;
	put_be32(b, c->flow);
	put_be32(b + 4, c->inc);
	put_be32(b + 8, c->round);
	put_be64(b + 12, c->credit);
	return WAN_FRAME_HDR_LEN + WAN_RESP_CREDIT_LEN;
}

bool wan_resp_credit_get(const struct wan_frame *f, struct wan_resp_credit *c)
{
	if (f->len != WAN_RESP_CREDIT_LEN)
		return false;
	c->flow = get_be32(f->body);
	c->inc = get_be32(f->body + 4);
	c->round = get_be32(f->body + 8);
	c->credit = get_be64(f->body + 12);
	return true;
}

size_t wan_flow_close_put(uint8_t *buf, size_t cap, const struct wan_flow_close *c)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_FLOW_CLOSE, 0, 8);

	if (!b)
		return 0;
	put_be32(b, c->flow);
	put_be32(b + 4, c->inc);
	return WAN_FRAME_HDR_LEN + 8;
}

bool wan_flow_close_get(const struct wan_frame *f, struct wan_flow_close *c)
{
	if (f->len != 8)
		return false;
	c->flow = get_be32(f->body);
	c->inc = get_be32(f->body + 4);
	return true;
}
