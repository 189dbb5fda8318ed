/* SPDX-License-Identifier: Apache-2.0 */
/* client_status.h - the daemon's status for people. */
#ifndef DAEMON_CLIENT_STATUS_H
#define DAEMON_CLIENT_STATUS_H

#include <stdbool.h>
#include <stdio.h>

#include "client_json.h"

/* `before` is an earlier answer, for the rates of flows; NULL: none. Flows are shown if the answer has them. */
void status_show(FILE *out, const struct jnode *answer, const struct jnode *before);

/* Whether every link is up and no buffer lies about that no link will drain; each such buffer is a line of complaints. */
bool status_is_well(FILE *complaints, const struct jnode *answer);

/* The answer to `failed`: a line for each flow. */
void status_show_failed(FILE *out, const struct jnode *answer);

#endif
