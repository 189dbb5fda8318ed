// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* memmem */
#include "spy.h"

#include <string.h>

#include "proxy/util/bytes.h"
#include "tests/tools/rcperf/pattern.h"

enum {
	MACS_LEN = 12,
	TAG_LEN = 4,
	TYPE_VLAN = 0x8100,
	TYPE_IP4 = 0x0800,
	TYPE_IP6 = 0x86dd,
	IP4_LEN = 20,
	IP6_LEN = 40,
	IPPROTO_OF_UDP = 17,
	ROCE_PORT = 4791,
};

static bool is_roce_udp(const uint8_t *udp, uint32_t len, uint8_t protocol)
{
	return protocol == IPPROTO_OF_UDP && len >= 4 && get_be16(udp + 2) == ROCE_PORT;
}

bool spy_is_roce(const struct line_frame *f)
{
	uint32_t at = MACS_LEN, ip_len;
	const uint8_t *ip;

	if (f->len >= at + TAG_LEN + 2 && get_be16(f->data + at) == TYPE_VLAN)
		at += TAG_LEN;
	if (f->len < at + 2 + IP4_LEN)
		return false;
	ip = f->data + at + 2;
	switch (get_be16(f->data + at)) {
	case TYPE_IP4:
		ip_len = (ip[0] & 0xfu) * 4u;
		return f->len >= at + 2 + ip_len && is_roce_udp(ip + ip_len, f->len - at - 2 - ip_len, ip[9]);
	case TYPE_IP6:
		return f->len >= at + 2 + IP6_LEN && is_roce_udp(ip + IP6_LEN, f->len - at - 2 - IP6_LEN, ip[6]);
	default:
		return false;
	}
}

static bool is_pattern(const uint8_t *p)
{
	uint64_t w[3];

	memcpy(w, p, sizeof(w));
	return w[1] - w[0] == PAT_WORD && w[2] - w[1] == PAT_WORD;
}

bool spy_is_payload(const struct line_frame *f)
{
	enum { STRIDE = 128, WORD = 8, NEEDED = 3 * WORD };

	for (uint32_t at = 0; at + NEEDED + WORD <= f->len; at += STRIDE)
		for (uint32_t i = 0; i < WORD; i++)
			if (is_pattern(f->data + at + i))
				return true;
	return false;
}

bool spy_holds(const struct line_frame *f, const char *text)
{
	return text != NULL && memmem(f->data, f->len, text, strlen(text)) != NULL;
}
