/* SPDX-License-Identifier: Apache-2.0 */
/* dcb_msg.c - the netlink messages that read and set a port's PFC and buffers. */
#include "headroom/dcb_msg.h"

#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

_Static_assert(sizeof(struct ieee_pfc) == 136, "the kernel checks the exact size");
_Static_assert(sizeof(struct dcbnl_buffer) == 44, "the kernel checks the exact size");

/* NLA_HDRLEN, NLA_TYPE_MASK and NLA_ALIGN() are signed. */
#define MSG_HEAD       sizeof(struct nlmsghdr)
#define ATTR_HEAD      sizeof(struct nlattr)
#define ATTR_TYPE_MASK 0x3fffu

static size_t padded(size_t len)
{
	return (len + 3) & ~(size_t)3;
}

struct writer {
	uint8_t *buf;
	size_t len;
};

static void put(struct writer *w, uint16_t type, const void *data, size_t len)
{
	struct nlattr a = {.nla_len = (uint16_t)(ATTR_HEAD + len), .nla_type = type};

	memcpy(w->buf + w->len, &a, sizeof(a));
	memcpy(w->buf + w->len + ATTR_HEAD, data, len);
	w->len += padded(ATTR_HEAD + len); /* the padding is zero: the buffer was */
}

static int begin(struct writer *w, void *buf, uint16_t type, uint8_t cmd, const char *dev, uint32_t seq)
{
	struct nlmsghdr h = {.nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK, .nlmsg_seq = seq};
	struct dcbmsg d = {.dcb_family = 0, .cmd = cmd}; /* AF_UNSPEC */
	size_t name = strlen(dev);

	if (name == 0 || name >= IFNAMSIZ)
		return -EINVAL;
	*w = (struct writer){buf, MSG_HEAD + sizeof(d)};
	memset(buf, 0, DCB_MSG_MAX);
	memcpy(w->buf, &h, sizeof(h));
	memcpy(w->buf + MSG_HEAD, &d, sizeof(d));
	put(w, DCB_ATTR_IFNAME, dev, name + 1);
	return 0;
}

static int finish(struct writer *w)
{
	uint32_t len = (uint32_t)w->len;

	memcpy(w->buf + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
	return (int)w->len;
}

int dcb_msg_get(void *buf, const char *dev, uint32_t seq)
{
	struct writer w;
	int r = begin(&w, buf, RTM_GETDCB, DCB_CMD_IEEE_GET, dev, seq);

	return r < 0 ? r : finish(&w);
}

static void put_pfc(struct writer *w, const struct dcb_settings *s)
{
	struct ieee_pfc pfc = {.pfc_cap = s->pfc_cap, .pfc_en = s->pfc_en, .mbc = s->mbc, .delay = s->delay};

	put(w, DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
}

static void put_buffer(struct writer *w, const struct dcb_settings *s)
{
	struct dcbnl_buffer b = {.total_size = s->total_size};

	memcpy(b.prio2buffer, s->prio2buffer, sizeof(b.prio2buffer));
	memcpy(b.buffer_size, s->buffer_size, sizeof(b.buffer_size));
	put(w, DCB_ATTR_DCB_BUFFER, &b, sizeof(b));
}

int dcb_msg_set(void *buf, const char *dev, uint32_t seq, const struct dcb_settings *s)
{
	struct writer w;
	struct nlattr nest = {.nla_type = DCB_ATTR_IEEE | (uint16_t)NLA_F_NESTED};
	int r = begin(&w, buf, RTM_SETDCB, DCB_CMD_IEEE_SET, dev, seq);
	size_t at;

	if (r < 0)
		return r;
	at = w.len;
	w.len += ATTR_HEAD;
	if (s->has_pfc)
		put_pfc(&w, s);
	if (s->has_buffer)
		put_buffer(&w, s);
	nest.nla_len = (uint16_t)(w.len - at);
	memcpy(w.buf + at, &nest, sizeof(nest));
	return finish(&w);
}

/* A payload of attributes, walked with every length checked. */
struct reader {
	const uint8_t *at, *end;
};

/* The next attribute; NULL at the end or where a length makes no sense. */
static const uint8_t *next(struct reader *r, uint16_t *type, size_t *len)
{
	size_t left = (size_t)(r->end - r->at);
	const uint8_t *data = r->at + ATTR_HEAD;
	struct nlattr a;

	if (left < sizeof(a))
		return NULL;
	memcpy(&a, r->at, sizeof(a));
	if (a.nla_len < ATTR_HEAD || a.nla_len > left)
		return NULL;
	*type = (uint16_t)(a.nla_type & ATTR_TYPE_MASK);
	*len = a.nla_len - ATTR_HEAD;
	r->at = padded(a.nla_len) >= left ? r->end : r->at + padded(a.nla_len);
	return data;
}

/* NLMSG_ERROR: 0 is an ACK. Always <= 0. */
static int error_of(const uint8_t *buf, const struct nlmsghdr *h)
{
	int error;

	if (h->nlmsg_len < MSG_HEAD + sizeof(error))
		return -EBADMSG;
	memcpy(&error, buf + MSG_HEAD, sizeof(error));
	return error > 0 ? -EBADMSG : error;
}

/* Which priorities a packet without a VLAN tag can have. Default priority: selector EtherType, protocol 0. */
static uint8_t read_app_table(struct reader r)
{
	uint8_t priorities = 0;
	const uint8_t *data;
	struct dcb_app app;
	uint16_t type;
	size_t len;

	while ((data = next(&r, &type, &len)) != NULL) {
		if (type != DCB_ATTR_IEEE_APP || len < sizeof(app))
			continue;
		memcpy(&app, data, sizeof(app));
		if (app.priority < HEADROOM_PRIORITIES &&
		    (app.selector == IEEE_8021QAZ_APP_SEL_DSCP ||
		     (app.selector == IEEE_8021QAZ_APP_SEL_ETHERTYPE && app.protocol == 0)))
			priorities |= (uint8_t)(1u << app.priority);
	}
	return priorities;
}

static void read_ieee(struct reader r, struct dcb_settings *s)
{
	struct dcbnl_buffer b;
	struct ieee_pfc pfc;
	const uint8_t *data;
	uint16_t type;
	size_t len;

	while ((data = next(&r, &type, &len)) != NULL) {
		if (type == DCB_ATTR_IEEE_PFC && len >= sizeof(pfc)) {
			memcpy(&pfc, data, sizeof(pfc));
			s->has_pfc = true;
			s->pfc_cap = pfc.pfc_cap;
			s->pfc_en = pfc.pfc_en;
			s->mbc = pfc.mbc;
			s->delay = pfc.delay;
		}
		if (type == DCB_ATTR_DCB_BUFFER && len >= sizeof(b)) {
			memcpy(&b, data, sizeof(b));
			s->has_buffer = true;
			memcpy(s->prio2buffer, b.prio2buffer, sizeof(s->prio2buffer));
			memcpy(s->buffer_size, b.buffer_size, sizeof(s->buffer_size));
			s->total_size = b.total_size;
		}
		if (type == DCB_ATTR_IEEE_APP_TABLE) {
			s->has_app = true;
			s->app_priorities = read_app_table((struct reader){data, data + len});
		}
	}
}

/* Opens an answer of that type. 1: *ieee is the content of its DCB_ATTR_IEEE; 0: the answer is an ACK; negative: the
 * kernel's error, or -EBADMSG. */
static int open_answer(const void *buf, size_t len, uint32_t seq, uint16_t wanted, struct reader *ieee)
{
	const uint8_t *bytes = buf, *data;
	struct nlmsghdr h;
	struct reader r;
	uint16_t type;
	size_t size;

	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, buf, sizeof(h));
	if (h.nlmsg_len < MSG_HEAD || h.nlmsg_len > len || h.nlmsg_seq != seq)
		return -EBADMSG;
	if (h.nlmsg_type == NLMSG_ERROR)
		return error_of(bytes, &h);
	if (h.nlmsg_type != wanted || h.nlmsg_len < MSG_HEAD + sizeof(struct dcbmsg))
		return -EBADMSG;
	r = (struct reader){bytes + MSG_HEAD + sizeof(struct dcbmsg), bytes + h.nlmsg_len};
	while ((data = next(&r, &type, &size)) != NULL)
		if (type == DCB_ATTR_IEEE) {
			*ieee = (struct reader){data, data + size};
			return 1;
		}
	return -EBADMSG;
}

int dcb_msg_read(const void *buf, size_t len, uint32_t seq, struct dcb_settings *s)
{
	struct reader ieee;
	int r = open_answer(buf, len, seq, RTM_GETDCB, &ieee);

	*s = (struct dcb_settings){0};
	if (r <= 0)
		return r == 0 ? -EBADMSG : r; /* an ACK has no settings */
	read_ieee(ieee, s);
	return 0;
}

/* The kernel answers a set with RTM_SETDCB and one byte in DCB_ATTR_IEEE: 0, or the error truncated to 8 bits. */
int dcb_msg_acked(const void *buf, size_t len, uint32_t seq)
{
	struct reader ieee;
	int r = open_answer(buf, len, seq, RTM_SETDCB, &ieee);

	if (r <= 0)
		return r;
	if (ieee.at == ieee.end)
		return -EBADMSG;
	return (int8_t)*ieee.at > 0 ? -EBADMSG : (int8_t)*ieee.at;
}

unsigned dcb_compare(const struct dcb_settings *want, const struct dcb_settings *is)
{
	unsigned diff = 0;

	if (want->has_pfc && (!is->has_pfc || want->pfc_en != is->pfc_en))
		diff |= DCB_DIFF_PFC_EN;
	if (want->has_pfc && (!is->has_pfc || want->delay != is->delay))
		diff |= DCB_DIFF_DELAY;
	if (!want->has_buffer)
		return diff;
	if (!is->has_buffer || memcmp(want->prio2buffer, is->prio2buffer, sizeof(want->prio2buffer)) != 0)
		diff |= DCB_DIFF_PRIO2BUFFER;
	for (int i = 0; i < HEADROOM_PRIORITIES; i++)
		if (!is->has_buffer || is->buffer_size[i] < want->buffer_size[i] ||
		    is->buffer_size[i] - want->buffer_size[i] >= DCB_CELLS_BYTES)
			diff |= DCB_DIFF_BUFFER_SIZE;
	return diff;
}
