/* SPDX-License-Identifier: Apache-2.0 */
/* rd_op.c - the shard's pool of small records: open READs and ATOMICs of both roles, FLOW_CLOSE frames to be sent. */
#include "core.h"

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
