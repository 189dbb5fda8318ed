/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <event2/buffer.h>

#include "daemon/link/path_counters.h"

struct source {
	uint64_t cursor;
	bool have;
	struct trace_sample next;
};

struct trace_stream {
	const struct sites *sites;
	char link[LINK_NAME_MAX];
	char path[PATH_NAME_MAX];
	bool all_paths;
	uint64_t life; /* of the link that the cursors are of; 0: none yet */
	bool past;     /* begin with the oldest samples of each life */
	uint64_t missed, missed_said;
	struct source source[WORKERS_MAX];
};

static const struct link *the_link(const struct trace_stream *t)
{
	const struct site *s = sites_find(t->sites, t->link);

	return s != NULL ? site_link(s) : NULL;
}

static bool has_path(const struct link_config *c, const char *name)
{
	for (uint32_t i = 0; i < c->npaths; i++)
		if (strcmp(c->paths[i].name, name) == 0)
			return true;
	return false;
}

/* Follows the link through restarts. After a restart the trace begins with the first sample. */
static void meet(struct trace_stream *t, const struct link *l)
{
	if (l == NULL || link_life(l) == t->life)
		return;
	for (uint32_t i = 0; i < link_workers(l); i++)
		t->source[i] = (struct source){.cursor = t->past ? 0 : trace_end(link_trace(l, i))};
	t->life = link_life(l);
	t->past = true;
}

struct trace_stream *trace_stream_open(const struct sites *sites, const char *link, const char *path, bool past,
                                       char *err, size_t errlen)
{
	const struct site *s = sites_find(sites, link);
	struct trace_stream *t;

	if (s == NULL) {
		snprintf(err, errlen, "there is no link %.64s", link);
		return NULL;
	}
	if (path != NULL && !has_path(site_config(s), path)) {
		snprintf(err, errlen, "link %.64s has no path %.64s", link, path);
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t == NULL) {
		snprintf(err, errlen, "the daemon is out of memory");
		return NULL;
	}
	t->sites = sites;
	snprintf(t->link, sizeof(t->link), "%s", site_config(s)->name);
	snprintf(t->path, sizeof(t->path), "%s", path != NULL ? path : "");
	t->all_paths = path == NULL;
	t->past = past;
	meet(t, site_link(s));
	t->past = true;
	return t;
}

void trace_stream_close(struct trace_stream *t)
{
	free(t);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void trace_stream_begin(const struct trace_stream *t, struct json *j)
{
	const struct link_config *c = site_config(sites_find(t->sites, t->link));

	json_string(j, "link", t->link);
	json_array(j, "paths");
	for (uint32_t i = 0; i < c->npaths; i++)
		json_string(j, NULL, c->paths[i].name);
	json_array_end(j);
	json_uint(j, "now_ns", clock_ns(CLOCK_MONOTONIC));
	json_uint(j, "unix_ns", clock_ns(CLOCK_REALTIME));
}

/* --- samples --- */

static void write_sample(struct evbuffer *out, const struct link_config *c, uint32_t worker,
                         const struct trace_sample *s)
{
	struct json j = {.out = out};

	json_object(&j, NULL);
	json_uint(&j, "now_ns", s->now_ns);
	json_string(&j, "path", c->paths[s->path].name);
	json_uint(&j, "path_number", s->path);
	json_uint(&j, "worker", worker);
	json_string(&j, "state", path_state_name(s->state));
	json_uint(&j, "epoch", s->epoch);
#define X(field, name, member) json_uint(&j, name, s->field);
	TRACE_SUMS(X)
#undef X
	json_uint(&j, "key_updates", s->rekeys);
	json_uint(&j, "rtt_ns", s->rtt_ns);
	json_uint(&j, "rtt_min_ns", s->rtt_min_ns);
	json_string(&j, "rate_control", s->control);
	json_string(&j, "rate_state", s->control_state != NULL ? s->control_state : "");
	json_uint(&j, "pace_bps", s->pace_bps);
	json_uint(&j, "in_flight_bytes", s->in_flight_bytes);
	json_uint(&j, "payload_max", s->payload_max);
	json_array(&j, "marks");
	for (unsigned i = 0; i < TRACE_MARK_COUNT; i++)
		if (s->marks & 1u << i)
			json_string(&j, NULL, trace_mark_name((enum trace_mark)i));
	json_array_end(&j);
	json_object_end(&j);
	evbuffer_add(out, "\n", 1);
}

static bool wanted(const struct trace_stream *t, const struct link_config *c, const struct trace_sample *s)
{
	return s->path < c->npaths && (t->all_paths || strcmp(c->paths[s->path].name, t->path) == 0);
}

/* The oldest that some worker has. */
static int oldest(struct trace_stream *t, const struct link *l)
{
	int best = -1;

	for (uint32_t i = 0; i < link_workers(l); i++) {
		struct source *s = &t->source[i];

		while (!s->have && trace_next(link_trace(l, i), &s->cursor, &t->missed, &s->next))
			s->have = wanted(t, link_config(l), &s->next);
		if (s->have && (best < 0 || s->next.now_ns < t->source[best].next.now_ns))
			best = (int)i;
	}
	return best;
}

bool trace_stream_more(struct trace_stream *t, struct evbuffer *out)
{
	const struct link *l = the_link(t);
	uint64_t life = t->life;
	int i;

	if (sites_find(t->sites, t->link) == NULL)
		return false;
	meet(t, l);
	if (t->life != life && life != 0)
		evbuffer_add_printf(out, "{\"begins_again\":true}\n");
	for (int n = 0; l != NULL && n < TRACE_STREAM_MAX && (i = oldest(t, l)) >= 0; n++) {
		write_sample(out, link_config(l), (uint32_t)i, &t->source[i].next);
		t->source[i].have = false;
	}
	if (t->missed != t->missed_said) {
		evbuffer_add_printf(out, "{\"missed\":%llu}\n", (unsigned long long)(t->missed - t->missed_said));
		t->missed_said = t->missed;
	}
	return true;
}
