/* SPDX-License-Identifier: Apache-2.0 */
#include "client_rows.h"

#include <stdio.h>
#include <string.h>

#define STALE_NS 1000000000ull /* a worker without a sample for so long counts as sending nothing */

static struct rows_sums sums_of(const struct json_object *sample)
{
	return (struct rows_sums){
#define X(field, name, member) .field = j_uint(sample, name),
	    TRACE_SUMS(X)
#undef X
	};
}

static void add_growth(struct rows_sums *to, const struct rows_sums *now, const struct rows_sums *before)
{
#define X(field, name, member) to->field += now->field - before->field;
	TRACE_SUMS(X)
#undef X
}

/* Notes each mark once. */
static void note_marks(struct rows_path *p, const struct json_object *sample)
{
	const struct json_object *marks = j_get(sample, "marks"), *m;

	for (size_t i = 0; (m = j_at(marks, i)) != NULL; i++) {
		const char *name = j_string(m);
		size_t used = strlen(p->marks);

		if (name[0] == '\0' || strstr(p->marks, name) != NULL)
			continue;
		snprintf(p->marks + used, sizeof(p->marks) - used, "%s%s", used ? " " : "", name);
	}
}

static void note_worker(struct rows_worker *w, uint64_t now_ns, const struct json_object *sample)
{
	w->in_flight_bytes = j_number(sample, "in_flight_bytes");
	if (now_ns <= w->now_ns)
		return;
	w->tx_bps = (double)(w->now.tx_bytes - w->at_row.tx_bytes) * 8e9 / (double)(now_ns - w->now_ns);
	w->acked_bps = (double)(w->now.acked_bytes - w->at_row.acked_bytes) * 8e9 / (double)(now_ns - w->now_ns);
	w->at_row = w->now;
	w->now_ns = now_ns;
}

static void sum_up(const struct rows_path *p, struct row *row)
{
	for (unsigned i = 0; i < ROWS_WORKERS_MAX; i++) {
		const struct rows_worker *w = &p->worker[i];

		if (!w->known || row->now_ns > w->now_ns + STALE_NS)
			continue;
		row->tx_bps += w->tx_bps;
		row->acked_bps += w->acked_bps;
		row->in_flight_bytes += w->in_flight_bytes;
	}
}

bool rows_take(struct rows *r, const struct json_object *sample, struct row *row)
{
	uint64_t path = j_uint(sample, "path_number"), worker = j_uint(sample, "worker"),
	         now_ns = j_uint(sample, "now_ns");
	struct rows_path *p = &r->path[path % ROWS_PATHS_MAX];
	struct rows_worker *w = &p->worker[worker % ROWS_WORKERS_MAX];
	struct rows_sums now = sums_of(sample);

	if (path >= ROWS_PATHS_MAX || worker >= ROWS_WORKERS_MAX || now_ns == 0)
		return false;
	if (r->begin_ns == 0)
		r->begin_ns = now_ns;
	if (!w->known) {
		*w = (struct rows_worker){.known = true, .now_ns = now_ns, .at_row = now, .now = now};
		return false;
	}
	add_growth(&p->since_begin, &now, &w->now);
	w->now = now;
	note_marks(p, sample);
	if (now_ns < w->now_ns + r->every_ns)
		return false;
	note_worker(w, now_ns, sample);
	if (now_ns < p->row_ns + r->every_ns)
		return false;
	p->row_ns = now_ns;
	*row = (struct row){.s = (double)(now_ns - r->begin_ns) / 1e9,
	                    .now_ns = now_ns,
	                    .path = j_text(sample, "path"),
	                    .control = j_text(sample, "rate_control"),
	                    .state = j_text(sample, "state"),
	                    .pace_bps = j_number(sample, "pace_bps"),
	                    .rtt_ns = j_number(sample, "rtt_ns"),
	                    .sums = p->since_begin,
	                    .payload_max = (unsigned)j_uint(sample, "payload_max")};
	memcpy(row->marks, p->marks, sizeof(row->marks));
	p->marks[0] = '\0';
	sum_up(p, row);
	return true;
}

void rows_begin_again(struct rows *r)
{
	for (unsigned i = 0; i < ROWS_PATHS_MAX; i++)
		memset(r->path[i].worker, 0, sizeof(r->path[i].worker));
}
