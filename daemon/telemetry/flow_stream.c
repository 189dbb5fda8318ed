/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <event2/buffer.h>

struct flow_stream {
	const struct sites *sites;
	char link[LINK_NAME_MAX];
	uint64_t life; /* of the link whose flow is watched */
	uint64_t missed_said;
};

/* The link, if it still runs as when the watch began. NULL: it was stopped, which ended the watch. */
static struct link *watched(const struct flow_stream *t)
{
	const struct site *s = sites_find(t->sites, t->link);
	struct link *l = s != NULL ? site_link(s) : NULL;

	return l != NULL && link_life(l) == t->life ? l : NULL;
}

struct flow_stream *flow_stream_open(const struct sites *sites, const char *link, const struct flow_key *key, char *err,
                                     size_t errlen)
{
	const struct site *s = sites_find(sites, link);
	struct link *l = s != NULL ? site_link(s) : NULL;
	struct flow_stream *t;
	int r;

	if (l == NULL) {
		snprintf(err, errlen, s != NULL ? "link %.64s is not running" : "there is no link %.64s", link);
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	r = t != NULL ? link_watch_start(l, key) : -ENOMEM;
	if (r < 0) {
		snprintf(err, errlen, r == -EBUSY ? "link %.64s: another flow is being traced: end that trace first"
		                                  : "link %.64s: the daemon is out of memory", link);
		free(t);
		return NULL;
	}
	t->sites = sites;
	t->life = link_life(l);
	snprintf(t->link, sizeof(t->link), "%s", site_config(s)->name);
	return t;
}

void flow_stream_close(struct flow_stream *t)
{
	struct link *l = t != NULL ? watched(t) : NULL;

	if (l != NULL)
		link_watch_stop(l);
	free(t);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void flow_stream_begin(const struct flow_stream *t, struct json *j)
{
	json_string(j, "link", t->link);
	json_uint(j, "now_ns", clock_ns(CLOCK_MONOTONIC));
	json_uint(j, "unix_ns", clock_ns(CLOCK_REALTIME));
}

static void write_packet(struct json *j, const struct flow_trace_row *r)
{
	json_string(j, "opcode", roce_op(r->opcode)->name[0] != '\0' ? roce_op(r->opcode)->name : "unknown");
	json_uint(j, "opcode_number", r->opcode);
	json_uint(j, "psn", r->psn);
	json_uint(j, "bytes", r->len);
	json_bool(j, "ack_req", r->ack_req);
	if (r->aeth) {
		json_uint(j, "syndrome", r->syndrome);
		json_uint(j, "msn", r->msn);
	}
	if (r->what == FLOW_TRACE_IN)
		json_string(j, "drop", proxy_drop_name((enum proxy_drop)r->drop));
}

static void write_row(struct evbuffer *out, const struct flow_trace_row *r)
{
	static const char *const what[] = {[FLOW_TRACE_IN] = "in", [FLOW_TRACE_OUT] = "out", [FLOW_TRACE_STATE] = "state"};
	struct json j = {.out = out};

	json_object(&j, NULL);
	json_uint(&j, "now_ns", r->now_ns);
	json_string(&j, "what", what[r->what]);
	json_string(&j, "side", r->side == FLOW_NEAR ? "near" : "far");
	if (r->what != FLOW_TRACE_STATE)
		write_packet(&j, r);
	json_uint(&j, "pos_next", r->pos_next);
	json_uint(&j, "pos_acked", r->pos_acked);
	json_uint(&j, "pos_delivered", r->pos_delivered);
	json_uint(&j, "pos_ceiling", r->pos_ceiling);
	json_string(&j, "ceiling_reason", ceiling_reason_name((enum ceiling_reason)r->why));
	json_array(&j, "marks");
	for (unsigned i = 0; i < FLOW_TRACE_MARK_COUNT; i++)
		if (r->marks & 1u << i)
			json_string(&j, NULL, flow_trace_mark_name((enum flow_trace_mark)i));
	json_array_end(&j);
	json_object_end(&j);
	evbuffer_add(out, "\n", 1);
}

bool flow_stream_more(struct flow_stream *t, struct evbuffer *out)
{
	struct link *l = watched(t);
	struct flow_trace_row row;
	uint64_t missed = 0;

	if (l == NULL)
		return false;
	/* the flow is one worker's: the other ones have no rows */
	for (uint32_t i = 0; i < link_workers(l); i++) {
		struct flow_watch *w = link_watch(l, i);

		if (w == NULL)
			continue;
		for (int n = 0; n < FLOW_STREAM_MAX && spsc_take(&w->rows, &row); n++)
			write_row(out, &row);
		missed += atomic_load_explicit(&w->missed, memory_order_relaxed);
	}
	if (missed != t->missed_said)
		evbuffer_add_printf(out, "{\"missed\":%llu}\n", (unsigned long long)(missed - t->missed_said));
	t->missed_said = missed;
	return true;
}
