/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a packet from a host. Input: the packet from its IP header on.
 *
 * Beside memory safety it checks what the rest of the core relies on: offsets within the packet, an ICRC that agrees
 * with a bitwise one, patches that agree with recomputing, and that what was read can be written again. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "proxy/roce/icrc.h"
#include "proxy/util/limits.h"
#include "proxy/roce/roce.h"
#include "tests/unit/slow_icrc.h"

static void check_offsets(const struct roce_pkt *pkt, size_t size)
{
	REQUIRE(pkt->len <= size && pkt->len <= LAN_PKT_MAX);
	REQUIRE(pkt->ext_off == pkt->bth_off + ROCE_BTH_LEN);
	REQUIRE(pkt->hdr_len == pkt->ext_off + roce_op(pkt->opcode)->ext_len);
	REQUIRE(pkt->hdr_len <= ROCE_HDR_MAX);
	REQUIRE(pkt->hdr_len + pkt->payload_len + pkt->pad + ROCE_ICRC_LEN == pkt->len);
	REQUIRE(pkt->psn <= ROCE_PSN_MASK && pkt->dest_qpn <= ROCE_QPN_MASK);
}

static void check_icrc(const uint8_t *l3, const struct roce_pkt *pkt)
{
	uint32_t right = slow_icrc(l3, pkt->len), crc = 0;

	REQUIRE(icrc_compute(l3, pkt) == right);
	REQUIRE(icrc_check(l3, pkt, &crc) == (icrc_load(l3, pkt) == right));
	if (icrc_load(l3, pkt) == right)
		REQUIRE(crc == slow_crc(0, l3 + pkt->hdr_len, (size_t)pkt->payload_len + pkt->pad));
}

/* Sets PSN and AckReq as the far edge does. */
static void check_patch(uint8_t *l3, const struct roce_pkt *pkt)
{
	uint8_t *at = l3 + pkt->bth_off + 8;
	uint8_t diff[4] = {0x80, l3[0] ^ 0x33, l3[pkt->len - 1], 0x01};

	icrc_store(l3, pkt, icrc_compute(l3, pkt));
	for (int i = 0; i < 4; i++)
		at[i] ^= diff[i];
	icrc_store(l3, pkt, icrc_patch(icrc_load(l3, pkt), diff, 4, (size_t)(pkt->len - pkt->bth_off - 12 - 4)));
	REQUIRE(icrc_load(l3, pkt) == slow_icrc(l3, pkt->len));
}

static void check_changes(uint8_t *l3, const struct roce_pkt *pkt)
{
	struct roce_pkt again;
	uint8_t ttl = pkt->ttl;

	REQUIRE(roce_dec_ttl(l3, pkt) == (ttl > 1));
	REQUIRE(roce_parse(l3, pkt->len, &again) == DROP_NONE);
	REQUIRE(again.ttl == (ttl > 1 ? ttl - 1 : ttl));
	REQUIRE(icrc_check(l3, pkt, NULL));
}

/* Written again and read again, it is the same packet. Hosts may pad otherwise than by need. */
static void check_round_trip(const uint8_t *l3, const struct roce_pkt *pkt)
{
	uint8_t buf[LAN_PKT_MAX];
	struct roce_pkt built = *pkt, again;
	size_t len = roce_build(buf, sizeof(buf), &built, l3 + pkt->hdr_len, pkt->payload_len);

	if (len == 0) {
		REQUIRE((pkt->payload_len & 3) && pkt->len > LAN_PKT_MAX - 4);
		return;
	}
	REQUIRE(roce_parse(buf, len, &again) == DROP_NONE);
	REQUIRE(memcmp(&again.src, &pkt->src, 2 * sizeof(pkt->src)) == 0);
	REQUIRE(again.opcode == pkt->opcode && again.class == pkt->class && again.payload_len == pkt->payload_len);
	REQUIRE(again.psn == pkt->psn && again.dest_qpn == pkt->dest_qpn && again.pkey == pkt->pkey);
	REQUIRE(again.ack_req == pkt->ack_req && again.solicited == pkt->solicited && again.migreq == pkt->migreq);
	REQUIRE(again.tos == pkt->tos && again.ttl == pkt->ttl && again.udp_sport == pkt->udp_sport);
	REQUIRE(memcmp(buf + again.ext_off, l3 + pkt->ext_off, 4) == 0 || pkt->hdr_len == pkt->ext_off ||
	        roce_op(pkt->opcode)->flags & ROP_DETH);
	REQUIRE(memcmp(buf + again.hdr_len, l3 + pkt->hdr_len, pkt->payload_len) == 0);
	REQUIRE(icrc_check(buf, &again, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct roce_pkt pkt;
	uint8_t *l3;

	if (roce_parse(data, size, &pkt) != DROP_NONE)
		return 0;
	check_offsets(&pkt, size);
	check_icrc(data, &pkt);
	check_round_trip(data, &pkt);
	l3 = malloc(pkt.len); /* ends where the packet ends */
	REQUIRE(l3);
	memcpy(l3, data, pkt.len);
	check_patch(l3, &pkt);
	check_changes(l3, &pkt);
	free(l3);
	return 0;
}
