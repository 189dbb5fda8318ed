/* SPDX-License-Identifier: Apache-2.0 */
/* flow_history.h - for status: flows that have ended, and hosts that are known to route this way.
 *
 * Both are bounded, written where a flow ends or a connection begins, and forgotten with the shard. */
#ifndef PROXY_FLOW_HISTORY_H
#define PROXY_FLOW_HISTORY_H

#include "core.h"

/* How many flows of either kind are remembered. */
uint32_t flow_history_len(const struct proxy_config *c);
/* views: 2 * flow_history_len(). */
void flow_history_init(struct proxy *p, struct proxy_flow_view *views);

/* A flow ends. v: what is to be remembered of it; its time is now. */
void flow_history_add(struct proxy *p, const struct proxy_flow_view *v);

/* Something came from a local host that only comes where its route leads. */
void flow_history_heard(struct proxy *p, const struct ip_addr *host);

#endif
