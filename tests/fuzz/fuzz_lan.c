/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile hosts at a live shard: any packet that a host can make, with a right ICRC, at either edge.
 *
 * Steps beside ordinary life: packets of any opcode, PSN near the expected one or anywhere, lengths that contradict
 * each other, answers to what was never sent, connection management, and plain bytes with the ICRC put right. */
#include "fuzz_core.h"

/* A PSN near what the flow to that QPN expects, or any. */
static uint32_t some_psn(const struct fz_edge *e, unsigned qpn, struct input *in)
{
	uint8_t how = in_u8(in);

	if (how == 0xff)
		return in_u32(in) & ROCE_PSN_MASK;
	return (e->psn[qpn % FZ_QPNS] + how - 100u) & ROCE_PSN_MASK;
}

static struct roce_pkt some_hdr(const struct fz_edge *e, struct input *in)
{
	unsigned qpn = in_u8(in) % 4;
	struct roce_pkt h = fz_hdr(e, RC_WRITE_ONLY, 0x10 + qpn, some_psn(e, qpn, in));
	uint8_t bits = in_u8(in);

	h.ack_req = bits & 1;
	h.migreq = bits & 2;
	if (bits & 4)
		h.src = fz_ip(e->site, 2 + (bits >> 6));
	if (bits & 8)
		h.dst = fz_ip(3u - e->site, 2 + (bits >> 6));
	if (bits & 16)
		h.ttl = bits >> 5;
	return h;
}

static void request(struct fz_edge *e, struct input *in)
{
	struct roce_pkt h = some_hdr(e, in);
	uint8_t how = in_u8(in);

	h.opcode = in_u8(in) % 0x20;
	h.reth_len = how & 1 ? in_u32(in) : in_u16(in);
	h.aeth_syndrome = in_u8(in);
	h.aeth_msn = in_u16(in);
	fz_lan(e, h, how & 2 ? fz_payload_len(h.opcode) : in_u16(in) % 4200u, how & 4 ? in_u16(in) : 0);
}

/* Answers to the site's requester: PSN near what was sent to its responder last. */
static void answer(struct fz_edge *e, struct input *in)
{
	static const uint8_t ops[] = {
	    RC_ACK,        RC_ACK, RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST, RC_READ_RESP_ONLY,
	    RC_ATOMIC_ACK, RC_ACK};
	struct roce_pkt h = some_hdr(e, in);
	uint8_t how = in_u8(in);

	h.opcode = ops[how & 7];
	if (e->got && how & 8)
		h.psn = (e->last.psn + (how >> 4) - 4u) & ROCE_PSN_MASK;
	h.aeth_syndrome = how & 0x80 ? in_u8(in) : AETH_ACK_NO_CREDITS;
	h.aeth_msn = in_u8(in);
	fz_lan(e, h, h.opcode == RC_ACK || h.opcode == RC_ATOMIC_ACK ? 0 : fz_payload_len(h.opcode) + (how & 16u), 0);
}

/* A CM message between the two hosts, with ids from few so that messages meet. */
static void cm(struct fz_edge *e, struct input *in)
{
	static uint8_t buf[1024];
	struct roce_pkt h = fz_hdr(e, UD_SEND_ONLY, 1, 0);
	uint8_t mad[256] = {1, 7, 2, 3}, *d = mad + 24;
	size_t n;

	h.deth_qkey = 0x80010000;
	h.deth_src_qpn = 1;
	mad[15] = in_u8(in) & 1;
	mad[17] = (uint8_t)(0x10 + in_u8(in) % 8);
	in_bytes(in, d + 8, 20);
	put_be32(d, in_u8(in) & 3);
	put_be32(d + 4, in_u8(in) & 3);
	put_be24(d + 12, 0x10 + in_u8(in) % 3u);
	put_be24(d + 32, 0x10 + in_u8(in) % 3u);
	put_be24(d + 44, e->psn[0] + in_u8(in));
	d[50] = in_u8(in);
	n = roce_build(buf, sizeof(buf), &h, mad, sizeof(mad));
	fz_lan_rx(e, buf, n, 0);
}

/* Plain bytes; if they are a packet, its ICRC is put right. */
static void bytes(struct fz_edge *e, struct input *in)
{
	static uint8_t buf[512];
	struct roce_pkt pkt;
	size_t n = in_u8(in);

	n = in_bytes(in, buf, n);
	if (roce_parse(buf, n, &pkt) == DROP_NONE && pkt.len <= n)
		icrc_store(buf, &pkt, icrc_compute(buf, &pkt));
	fz_lan_rx(e, buf, n, 0);
}

/* A sound packet with header bytes changed and the ICRC put right again. */
static void bent(struct fz_edge *e, struct input *in)
{
	static uint8_t buf[LAN_PKT_MAX + 128];
	static const uint8_t zero[FZ_PMTU];
	struct roce_pkt h = some_hdr(e, in), pkt;
	size_t n;

	h.opcode = in_u8(in) % 0x20;
	n = roce_build(buf, sizeof(buf), &h, zero, fz_payload_len(h.opcode));
	for (unsigned i = in_u8(in) % 4u; i; i--)
		buf[in_u8(in) % 80u] ^= in_u8(in);
	if (roce_parse(buf, n, &pkt) == DROP_NONE && pkt.len <= n)
		icrc_store(buf, &pkt, icrc_compute(buf, &pkt));
	fz_lan_rx(e, buf, n, 0);
}

static void hostile(uint8_t what, struct input *in)
{
	struct fz_edge *e = &fz.e[what & 1];

	switch (what >> 1) {
	case 0:
	case 1:
	case 2:
		request(e, in);
		break;
	case 3:
	case 4:
		answer(e, in);
		break;
	case 5:
		cm(e, in);
		break;
	case 6:
		bytes(e, in);
		break;
	default:
		bent(e, in);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fz_run(data, size, hostile);
	return 0;
}
