/* SPDX-License-Identifier: Apache-2.0 */
/* flow_history.h - for status: flows that have ended, and hosts that are known to route this way.
 *
 * Both are bounded, written where a flow ends or a connection begins, and forgotten with the shard. */
#ifndef PROXY_FLOW_HISTORY_H
#define PROXY_FLOW_HISTORY_H

#include "core.h"

/* The number of flows of either kind that are remembered. */
uint32_t flow_history_len(const struct proxy_config *c);
/* views: 2 * flow_history_len(). */
void flow_history_init(struct proxy *p, struct proxy_flow_view *views);

/* Adds a flow that ends now. v: the view that is remembered. */
void flow_history_add(struct proxy *p, const struct proxy_flow_view *v);

/* Notes that a packet came from a local host which comes only where the host's route leads. */
void flow_history_heard(struct proxy *p, const struct ip_addr *host);

#endif
