/* SPDX-License-Identifier: Apache-2.0 */
/* flow_status.h - a flow as JSON: a line of it, or all that is known. The fields are described in longreach(1); they are
 * added to, never renamed. */
#ifndef DAEMON_FLOW_STATUS_H
#define DAEMON_FLOW_STATUS_H

#include "daemon/link/link.h"
#include "daemon/util/json.h"

/* The members of one flow, of an object that is open. */
void flow_status_write(struct json *j, const struct proxy_flow_status *f);

/* "flows", "flows_left_out", "running_ns" and "hosts_heard_age_ns": flows whole, those that have ended among them. */
void flow_status_write_views(struct json *j, const struct flow_views *v, uint64_t now_ns);

#endif
