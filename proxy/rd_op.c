/* SPDX-License-Identifier: Apache-2.0 */
/* rd_op.c - the shard's pool of small records: open READs and ATOMICs of both roles, FLOW_CLOSE frames to be sent. */
#include "core.h"

struct rd_op *rd_op_take(struct proxy *p)
{
	struct dnode *n = dlist_first(&p->ops_free);

	if (!n)
		return NULL;
	dlist_remove(n);
	return dlist_entry(n, struct rd_op, node);
}

void rd_op_give(struct proxy *p, struct rd_op *op)
{
	dlist_remove(&op->node);
	dlist_append(&p->ops_free, &op->node);
}
