/* SPDX-License-Identifier: Apache-2.0 */
/* client_top_model.h - the state of `longreach top`: the last answer, rates since the answer before, short histories.
 * Pure: no terminal, no clock.
 *
 * Call top_take() for each answer of the daemon; then read the links in its order, and the flows as top_sort() leaves
 * them. Pointers into an answer are valid until the next top_take(). */
#ifndef DAEMON_CLIENT_TOP_MODEL_H
#define DAEMON_CLIENT_TOP_MODEL_H

#include "client_json.h"

#define TOP_LINKS_MAX   64
#define TOP_NAME_MAX    64
#define TOP_FILTER_MAX  48
#define TOP_SERIES_MAX  64
#define TOP_FLOWS_MAX   20000 /* most flows that the daemon lists */

/* The last values, the oldest first. */
struct top_series {
	double v[TOP_SERIES_MAX];
	unsigned n;
};

void top_series_put(struct top_series *s, double v);

/* Writes the last `width` values, right-aligned, one cell each: 0 is a blank, `most` (0: the greatest shown) and above a
 * full block. utf8: blocks of eighths, else characters of ASCII. */
void top_spark(char *buf, size_t cap, const struct top_series *s, unsigned width, double most, bool utf8);

struct top_link {
	char name[TOP_NAME_MAX];
	const struct json_object *json;
	bool present;               /* in the last answer */
	struct top_series out, in;  /* bit/s from hosts, and to hosts */
	struct top_series fill;     /* share of the buffer from hosts */
};

/* X(enumerator, printed name) */
#define TOP_SORTS(X)                                                                                                   \
	X(RATE, "rate")                                                                                                \
	X(BUFFER, "buffered")                                                                                          \
	X(BYTES, "bytes")                                                                                              \
	X(HOST, "host")                                                                                                \
	X(STATE, "state")

#define X(e, name) TOP_SORT_##e,
enum top_sort { TOP_SORTS(X) TOP_SORT_COUNT };
#undef X

const char *top_sort_name(enum top_sort sort);

struct top_flow {
	uint64_t key; /* of the flow, as long as it lives */
	const struct json_object *json;
	double bytes;
	double bps; /* negative: not known yet */
};

struct top {
	struct json_object *doc;
	struct top_link link[TOP_LINKS_MAX];
	unsigned nlinks;
	/* of the link whose flows were asked for */
	struct top_flow *flows, *before; /* `before`: by key */
	unsigned nflows, nbefore;
	char flows_of[TOP_NAME_MAX];
	double taken_ns, before_ns;
	uint64_t left_out;
	struct top_flow **shown; /* flows that pass the filter, sorted */
	unsigned nshown;
};

/* Takes `doc` over, an answer to "status" or "status flows link NAME". False: no memory; nothing was changed. */
bool top_take(struct top *t, struct json_object *doc);
void top_free(struct top *t);

/* Filters and sorts the flows. A flow passes if its line contains every word of `filter`. */
void top_sort(struct top *t, enum top_sort sort, bool reverse, const char *filter);
/* Index of the flow among the shown ones; -1: it is not shown. */
int top_find(const struct top *t, uint64_t key);

/* "learning", "stalled", "RNR heard" (of the responder), "RNR sent" (no room here) or "". */
const char *top_flow_state(const struct json_object *flow);

/* `text` with everything that could move a cursor made a question mark. Returns buf. */
const char *top_printable(char *buf, size_t cap, const char *text);

#endif
