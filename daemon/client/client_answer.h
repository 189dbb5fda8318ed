/* SPDX-License-Identifier: Apache-2.0 */
/* client_answer.h - links and flows in two answers of the daemon, the later one beside the earlier one. */
#ifndef DAEMON_CLIENT_ANSWER_H
#define DAEMON_CLIENT_ANSWER_H

#include <stddef.h>

#include "client_json.h"

/* The link of that name; NULL: there is none. */
const struct json_object *answer_link(const struct json_object *answer, const char *name);

/* Finds the same life of a flow in `flows` of an earlier answer. Both answers list flows in the same order, but for
 * those that came or went: the search begins at *at, which is 0 for the first flow, and goes round. NULL: it was not
 * there yet, or had ended. */
const struct json_object *answer_flow(const struct json_object *flows, const struct json_object *flow, size_t *at);

#endif
