/* SPDX-License-Identifier: Apache-2.0 */
/* client_cost.h - a table of where the processor time of a link's workers goes. */
#ifndef DAEMON_CLIENT_COST_H
#define DAEMON_CLIENT_COST_H

#include <stdio.h>

#include "client_json.h"

/* Of the time between the earlier answer about the link and this one; before NULL: since the link was started. */
void cost_show(FILE *out, const struct json_object *link, const struct json_object *before);

/* Packets in a busy turn, of the stage that had most. */
double cost_batch(const struct json_object *worker, const struct json_object *before);

/* The part of that time that the worker had something to do, 0 to 1. Negative: not known. */
double cost_load(const struct json_object *worker, const struct json_object *before);

#endif
