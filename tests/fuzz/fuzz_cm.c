/* SPDX-License-Identifier: Apache-2.0 */
/* Any sequence of CM messages between three hosts.
 *
 * Input: steps of 2 + 36 bytes. The first byte says who sends to whom, the second the CM attribute; the rest are the
 * first bytes of the MAD's data, with ids cut down to few values so that messages meet. A first byte of 0xff takes the
 * bytes behind it as a whole packet instead.
 *
 * Checked: a pair opens only by a REP to a REQ that is still open, once, ends once, repeats change nothing, and the
 * pointer given out lies in the table and belongs to the two hosts. */
#include <string.h>

#include "fuzz.h"
#include "proxy/util/bytes.h"
#include "proxy/roce/cm.h"
#include "proxy/util/limits.h"

enum { CONNS = 5, STEP_DATA = 36, MAD_LEN = 256 };

static struct ip_addr host(unsigned i)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)i}};
}

static unsigned in_state(const struct cm_table *t, enum cm_conn_state state)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < CONNS; i++)
		n += t->conns[i].state == state;
	return n;
}

static unsigned paired(const struct cm_table *t)
{
	return in_state(t, CMC_PAIRED);
}

static void check_conn(const struct cm_table *t, const struct cm_conn *c, const struct ip_addr *src,
                       const struct ip_addr *dst)
{
	REQUIRE(c >= t->conns && c < t->conns + CONNS);
	REQUIRE(c->state != CMC_FREE && c->state <= CMC_DISCONNECTING);
	REQUIRE((ip_addr_eq(&c->a, src) && ip_addr_eq(&c->b, dst)) ||
	        (ip_addr_eq(&c->a, dst) && ip_addr_eq(&c->b, src)));
	REQUIRE(c->state == CMC_REQ_SEEN || (c->qpn_a > 1 && c->qpn_b > 1));
}

static void observe(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst, const struct cm_msg *msg)
{
	unsigned before = paired(t), empty = in_state(t, CMC_FREE), after;
	bool few_half = CONNS - before - empty <= CONNS / 4;
	struct cm_conn *c = NULL, *again = NULL;
	enum cm_change change = cm_observe(t, src, dst, msg, &c);

	after = paired(t);
	if (c)
		check_conn(t, c, src, dst);
	switch (change) {
	case CM_OPENED:
		REQUIRE(msg->type == CM_REP && c && c->state == CMC_PAIRED);
		REQUIRE(after == before + 1 || after == before); /* ids used again end what bore them before */
		REQUIRE(c->comm_a == msg->remote_comm_id && c->comm_b == msg->local_comm_id);
		break;
	case CM_DISCONNECTING_:
		REQUIRE(msg->type == CM_DREQ || msg->type == CM_DREP);
		REQUIRE(c && c->state == CMC_DISCONNECTING && after + 1 == before);
		break;
	case CM_NO_CHANGE:
		/* a REQ may take the place of a pair when the table is full, and hardly anything else is in it */
		REQUIRE(after == before || (msg->type == CM_REQ && !empty && few_half && after + 1 == before));
		break;
	}
	REQUIRE(cm_observe(t, src, dst, msg, &again) == CM_NO_CHANGE);
	if (msg->type != CM_REJ) /* with few ids it may fit another connection now */
		REQUIRE(again == c);
	REQUIRE(paired(t) == after);
}

/* Reads a packet that need not be CM at all. */
static void feed_packet(struct cm_table *t, const uint8_t *l3, size_t len)
{
	struct roce_pkt pkt;
	struct cm_msg msg;

	if (roce_parse(l3, len, &pkt) != DROP_NONE)
		return;
	cm_parse(l3, &pkt, &msg);
	REQUIRE(msg.pmtu == 0 || (msg.type == CM_REQ && msg.pmtu >= 256 && msg.pmtu <= 4096));
	REQUIRE(msg.qpn <= ROCE_QPN_MASK && msg.starting_psn <= ROCE_PSN_MASK);
	REQUIRE(msg.rnr_retry <= 7 && msg.retry_cnt <= 7 && msg.ack_timeout <= 31);
	observe(t, &pkt.src, &pkt.dst, &msg);
}

/* Builds the packet of one step. */
static void feed_step(struct cm_table *t, const uint8_t *step)
{
	unsigned from = step[0] & 3, to = step[0] >> 2 & 3;
	struct roce_pkt pkt = {.src = host(from),
	                       .dst = host(to == from ? (from + 1) & 3 : to),
	                       .opcode = UD_SEND_ONLY,
	                       .dest_qpn = 1,
	                       .deth_qkey = 0x80010000,
	                       .deth_src_qpn = 1,
	                       .ttl = 64};
	uint8_t mad[MAD_LEN] = {1, 7, 2, 3, [17] = 0x10 + step[1] % 11};
	uint8_t buf[MAD_LEN + 128];
	size_t len;

	mad[15] = step[1] >> 6; /* transaction */
	memcpy(mad + 24, step + 2, STEP_DATA);
	put_be32(mad + 24, step[2] & 3);
	put_be32(mad + 28, step[6] & 3);
	len = roce_build(buf, sizeof(buf), &pkt, mad, sizeof(mad));
	REQUIRE(len > 0);
	feed_packet(t, buf, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cm_conn conns[CONNS];
	struct idx_hash_cell cells[2 * 16 + 4 * CONNS]; /* twice idx_hash_size() */
	struct cm_table t;

	cm_table_init(&t, conns, cells, CONNS, 0);
	while (size >= 2 + STEP_DATA && data[0] != 0xff) {
		feed_step(&t, data);
		data += 2 + STEP_DATA;
		size -= 2 + STEP_DATA;
	}
	if (size > 0 && data[0] == 0xff)
		feed_packet(&t, data + 1, size - 1);
	return 0;
}
