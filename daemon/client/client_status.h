/* SPDX-License-Identifier: Apache-2.0 */
/* client_status.h - the daemon's status for people. */
#ifndef DAEMON_CLIENT_STATUS_H
#define DAEMON_CLIENT_STATUS_H

#include <stdbool.h>
#include <stdio.h>

#include "client_json.h"

/* `before` is an earlier answer, for the rates of flows, and for costs that are not those since the start; NULL: none.
 * Flows are shown if the answer has them. costs: shows where the workers' time goes. */
void status_show(FILE *out, const struct json_object *answer, const struct json_object *before, bool costs);

/* True if there is a link, every link is up, and there is no buffer that no link will drain. Writes a line to
 * complaints for each condition that fails. */
bool status_is_well(FILE *complaints, const struct json_object *answer);

/* The answer to `failed`: a line for each flow. */
void status_show_failed(FILE *out, const struct json_object *answer);

#endif
