/* SPDX-License-Identifier: Apache-2.0 */
#include "client_answer.h"

#include <string.h>

const struct json_object *answer_link(const struct json_object *answer, const char *name)
{
	const struct json_object *links = j_get(answer, "links"), *l;

	for (size_t i = 0; (l = j_at(links, i)) != NULL; i++)
		if (strcmp(j_text(l, "name"), name) == 0)
			return l;
	return NULL;
}

/* Hosts and queue pair count as well: each worker of a link numbers its flows from 0. */
static bool same_life(const struct json_object *a, const struct json_object *b)
{
	return j_uint(a, "id") == j_uint(b, "id") && j_uint(a, "dest_qpn") == j_uint(b, "dest_qpn") &&
	       j_uint(a, "incarnation") == j_uint(b, "incarnation") &&
	       strcmp(j_text(a, "side"), j_text(b, "side")) == 0 && strcmp(j_text(a, "src"), j_text(b, "src")) == 0 &&
	       strcmp(j_text(a, "dst"), j_text(b, "dst")) == 0 && !j_bool(b, "ended");
}

const struct json_object *answer_flow(const struct json_object *flows, const struct json_object *flow, size_t *at)
{
	const struct json_object *f;

	for (size_t i = *at; (f = j_at(flows, i)) != NULL; i++)
		if (same_life(flow, f)) {
			*at = i + 1;
			return f;
		}
	for (size_t i = 0; i < *at && (f = j_at(flows, i)) != NULL; i++)
		if (same_life(flow, f))
			return f;
	return NULL;
}
