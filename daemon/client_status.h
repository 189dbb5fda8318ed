/* SPDX-License-Identifier: Apache-2.0 */
/* client_status.h - the daemon's status for people. */
#ifndef DAEMON_CLIENT_STATUS_H
#define DAEMON_CLIENT_STATUS_H

#include <stdio.h>

#include "daemon/client_json.h"

/* `before` is an earlier answer, for the rates of flows; NULL: none. Flows are shown if the answer has them. */
void status_show(FILE *out, const struct jnode *answer, const struct jnode *before);

#endif
