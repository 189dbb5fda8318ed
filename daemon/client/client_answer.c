/* SPDX-License-Identifier: Apache-2.0 */
#include "client_answer.h"

#include <inttypes.h>
#include <stdio.h>
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

bool answer_keys_text(const struct json_object *link, char text[ANSWER_TEXT_MAX])
{
	const struct json_object *r = j_get(j_get(link, "peer"), "reauthentication");
	const char *state = j_text(r, "state"), *trouble = j_text(r, "trouble");

	text[0] = '\0';
	if (strcmp(state, "failed") == 0)
		snprintf(text, ANSWER_TEXT_MAX,
		         "there is no session: keys have changed, and the other edge did not prove itself within "
		         "ReauthWithin=%s%s",
		         trouble[0] != '\0' ? ": " : "", trouble);
	else if (strcmp(state, "due") == 0 && trouble[0] != '\0')
		snprintf(text, ANSWER_TEXT_MAX,
		         "its session ends in %" PRIu64
		         " s: the other edge has not proven itself under the changed keys: %s",
		         j_uint(r, "left_s"), trouble);
	else if (strcmp(state, "asked") == 0 && trouble[0] != '\0')
		snprintf(
		    text, ANSWER_TEXT_MAX,
		    "its session ends soon: this edge has not proven itself under the other edge's changed keys: %s",
		    trouble);
	return text[0] != '\0';
}

bool answer_workers_text(const struct json_object *link, char text[ANSWER_TEXT_MAX])
{
	uint64_t n = j_uint(link, "workers_not_reconfigured");

	text[0] = '\0';
	if (n > 0)
		snprintf(text, ANSWER_TEXT_MAX,
		         "%" PRIu64 " of %" PRIu64 " workers go on with the configuration before the last change%s", n,
		         j_uint(link, "workers"),
		         j_bool(link, "early_acks_held") ? ", and may acknowledge early, which the new one forbids"
		                                         : "");
	return n > 0;
}
