/* SPDX-License-Identifier: Apache-2.0 */
/* client_answer.h - links and flows in answers of the daemon, a later one beside an earlier one, and sentences about a
 * link that several commands print. */
#ifndef DAEMON_CLIENT_ANSWER_H
#define DAEMON_CLIENT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "client_json.h"

/* The link of that name; NULL: there is none. */
const struct json_object *answer_link(const struct json_object *answer, const char *name);

/* Finds the same life of a flow in `flows` of an earlier answer. Both answers list flows in the same order, but for
 * those that came or went: the search begins at *at, which is 0 for the first flow, and goes round. NULL: it was not
 * there yet, or had ended. */
const struct json_object *answer_flow(const struct json_object *flows, const struct json_object *flow, size_t *at);

#define ANSWER_TEXT_MAX 768

/* Why the link's session will end, or has ended, although the line is sound: changed keys under which an edge has not
 * proven itself. "its session ends in 240 s: ...". False, with an empty text: the keys in force proved the session, or
 * no attempt has failed yet. */
bool answer_keys_text(const struct json_object *link, char text[ANSWER_TEXT_MAX]);

/* "1 of 4 workers go on with the configuration before the last change". False, with an empty text: none does. */
bool answer_workers_text(const struct json_object *link, char text[ANSWER_TEXT_MAX]);

#endif
