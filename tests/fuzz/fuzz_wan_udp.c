/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a frame off a WAN device. What is taken lies within the frame, and is what the other edge would have sent. */
#include <string.h>

#include "fuzz.h"

#include "daemon/lan/l4_csum.c"
#include "daemon/wan/wan_udp.c"

static const struct wan_udp_ends ends4 = {.local = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}},
                                          .remote = {.b = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 2}},
                                          .port = 4790,
                                          .mac = {2, 0, 0, 0, 0, 1}};
static const struct wan_udp_ends ends6 = {.local = {.b = {0x20, 1, 0xd, 0xb8, [15] = 1}},
                                          .remote = {.b = {0x20, 1, 0xd, 0xb8, [15] = 2}},
                                          .port = 4790,
                                          .mac = {2, 0, 0, 0, 0, 1}};

/* Bits of the first byte: what is made right, so that the tests behind it are reached. */
enum { V6 = 1, TAGGED = 2, ADDRESSED = 4, SUMMED = 8 };

static void address(const struct wan_udp_ends *e, uint8_t *f, size_t len, unsigned how)
{
	size_t eth = how & TAGGED ? ETH_HLEN + TAG_LEN : ETH_HLEN, addr_len = how & V6 ? 16 : 4;
	uint8_t *ip = f + eth, *addrs = ip + (how & V6 ? 8 : 12);

	if (len < eth + IP6_LEN + UDP_LEN)
		return;
	memcpy(f, e->mac, sizeof(e->mac));
	put_be16(f + 12, ETH_P_8021Q);
	put_be16(ip - 2, how & V6 ? ETH_P_IPV6 : ETH_P_IP);
	ip[0] = how & V6 ? 0x60 : 0x45;
	ip[how & V6 ? 6 : 9] = IPPROTO_UDP;
	memcpy(addrs, e->remote.b + 16 - addr_len, addr_len);
	memcpy(addrs + addr_len, e->local.b + 16 - addr_len, addr_len);
	put_be16(ip + (how & V6 ? IP6_LEN : IP4_LEN) + 2, e->port);
	if (!(how & SUMMED))
		return;
	l4_csum_fill(ip, len - eth);
	if (!(how & V6)) {
		put_be16(ip + 10, 0);
		put_sum(ip + 10, (uint16_t)~fold(sum_bytes(ip, IP4_LEN, 0)));
	}
}

/* The same payload, as this edge's answer: its other edge takes it. */
static void is_taken_there(const struct wan_udp_ends *e, const struct wan_udp_in *in)
{
	const struct wan_udp_ends there = {.local = e->remote, .remote = e->local, .port = e->port, .mac = {4}};
	size_t room = ETH_HLEN + TAG_LEN + WAN_UDP_HDR_MAX, hdr;
	uint8_t *bytes = malloc(room + in->len);
	struct wan_udp_in back;

	REQUIRE(bytes);
	memcpy(bytes + room, in->payload, in->len);
	hdr = wan_udp_put(e, in->sport, in->ecn, bytes + room, in->len) + ETH_HLEN;
	memcpy(bytes + room - hdr, there.mac, sizeof(there.mac));
	put_be16(bytes + room - hdr + 12, ip_addr_is4(&e->local) ? ETH_P_IP : ETH_P_IPV6);
	REQUIRE(wan_udp_get(&there, bytes + room - hdr, hdr + in->len, &back) == WAN_UDP_OURS);
	REQUIRE(back.len == in->len && back.sport == in->sport && back.ecn == in->ecn);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct wan_udp_ends *e = size && data[0] & V6 ? &ends6 : &ends4;
	struct wan_udp_in in;
	uint8_t *frame;

	if (size < 1 || size > 4096)
		return 0;
	frame = malloc(size > 1 ? size - 1 : 1); /* sanitizers see where it ends */
	REQUIRE(frame);
	memcpy(frame, data + 1, size - 1);
	if (data[0] & ADDRESSED)
		address(e, frame, size - 1, data[0]);
	if (wan_udp_get(e, frame, size - 1, &in) == WAN_UDP_OURS) {
		REQUIRE(in.payload >= frame && in.payload + in.len <= frame + size - 1 && in.ecn < 4);
		is_taken_there(e, &in);
	}
	free(frame);
	return 0;
}
