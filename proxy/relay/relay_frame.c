/* SPDX-License-Identifier: Apache-2.0 */
/* relay_frame.c - RELAY_OPEN and RELAY_CREDIT, to and from bytes. */
#include "relay_frame.h"

#include "proxy/util/bytes.h"

#define OPEN_LEN   16 /* bodies */
#define CREDIT_LEN 32
#define POS_BITS   62

static bool is_position(uint64_t pos)
{
	return pos >> POS_BITS == 0;
}

size_t wan_relay_open_put(uint8_t *buf, size_t cap, const struct wan_relay_open *o)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_RELAY_OPEN, 0, OPEN_LEN);

	if (!b)
		return 0;
	put_be16(b, o->channel);
	put_be16(b + 2, 0);
	put_be32(b + 4, o->life);
	put_be64(b + 8, o->base);
	return WAN_FRAME_HDR_LEN + OPEN_LEN;
}

bool wan_relay_open_get(const struct wan_frame *f, struct wan_relay_open *o)
{
	if (f->len != OPEN_LEN)
		return false;
	o->channel = get_be16(f->body);
	o->life = get_be32(f->body + 4);
	o->base = get_be64(f->body + 8);
	return o->life != 0 && is_position(o->base);
}

size_t wan_relay_credit_put(uint8_t *buf, size_t cap, const struct wan_relay_credit *c)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_RELAY_CREDIT, 0, CREDIT_LEN);

	if (!b)
		return 0;
	put_be16(b, c->channel);
	put_be16(b + 2, 0);
	put_be32(b + 4, c->life);
	put_be64(b + 8, c->done);
	put_be64(b + 16, c->received);
	put_be64(b + 24, c->limit);
	return WAN_FRAME_HDR_LEN + CREDIT_LEN;
}

bool wan_relay_credit_get(const struct wan_frame *f, struct wan_relay_credit *c)
{
	if (f->len != CREDIT_LEN)
		return false;
	c->channel = get_be16(f->body);
	c->life = get_be32(f->body + 4);
	c->done = get_be64(f->body + 8);
	c->received = get_be64(f->body + 16);
	c->limit = get_be64(f->body + 24);
	return c->life != 0 && is_position(c->limit) && c->done <= c->received && c->received <= c->limit;
}
