/* SPDX-License-Identifier: Apache-2.0 */
/* rd_op.c - the shard's pool of small records: open READs and ATOMICs of both roles, FLOW_CLOSE frames to be sent. */
#include "core.h"

#define ASK_BACK_PARTS 8 /* beyond what rxe is asked back for, so small a part of that is asked for at least */

bool rd_op_left(const struct proxy *p, enum rd_op_use use)
{
	return (uint64_t)p->nops_free * 100 > (uint64_t)p->nops * (uint32_t)use;
}

struct rd_op *rd_op_take(struct proxy *p, enum rd_op_use use)
{
	struct dnode *n = dlist_first(&p->ops_free);

	if (!n || !rd_op_left(p, use))
		return NULL;
	dlist_remove(n);
	p->nops_free--;
	return dlist_entry(n, struct rd_op, node);
}

void rd_op_give(struct proxy *p, struct rd_op *op)
{
	dlist_remove(&op->node);
	dlist_append(&p->ops_free, &op->node);
	p->nops_free++;
}

uint32_t rd_op_ask_back(uint16_t pmtu)
{
	return pmtu ? (uint32_t)RD_OP_ASK_BACK_BYTES / pmtu : 0;
}

bool rd_op_is_forward_only(const uint8_t *ack, uint16_t len)
{
	struct roce_pkt pkt;

	return roce_parse(ack, len, &pkt) == DROP_NONE && !pkt.migreq;
}

/* rxe keeps for a READ the address from which it was asked last, and drops any later request that begins before it
 * (duplicate_request() of rxe_resp.c: va_org). So if it were asked for the rest that an edge lacks, nobody could ask it
 * for an earlier response again, if the host has lost that one. A host never asks from before its latest request. */
uint64_t rd_op_ask_from(const struct rd_op *op, uint64_t next, uint16_t pmtu, uint64_t n)
{
	uint64_t back = rd_op_ask_back(pmtu);

	if (next < op->from || FAULT(FAULT_REST_ASKED))
		return next;
	if (next - op->from <= back)
		return op->from;
	return next - min_u64(max_u64(n, back / ASK_BACK_PARTS), back);
}
