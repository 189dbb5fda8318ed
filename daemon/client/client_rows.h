/* SPDX-License-Identifier: Apache-2.0 */
/* client_rows.h - makes the rows of a trace from its samples. Pure.
 *
 * A sample tells of one worker and one path and holds sums since the worker began. A row tells of one path and all
 * workers together: rates since each worker's sample in an earlier row, sums since the trace began. */
#ifndef DAEMON_CLIENT_ROWS_H
#define DAEMON_CLIENT_ROWS_H

#include "client_json.h"
#include "daemon/worker/trace_sums.h"

#define ROWS_PATHS_MAX   8
#define ROWS_WORKERS_MAX 16

struct rows_sums {
#define X(field, name, member) uint64_t field;
	TRACE_SUMS(X)
#undef X
};

struct rows_worker {
	bool known;
	uint64_t now_ns;         /* of the sample in its last row */
	struct rows_sums at_row, now;
	double tx_bps, acked_bps;
	double in_flight_bytes;
};

struct rows_path {
	struct rows_worker worker[ROWS_WORKERS_MAX];
	struct rows_sums since_begin;
	uint64_t row_ns;    /* of its last row */
	char marks[160];    /* marks since the last row, separated by blanks */
};

struct rows {
	uint64_t every_ns; /* least time between two rows of a path */
	uint64_t begin_ns; /* of the first sample */
	struct rows_path path[ROWS_PATHS_MAX];
};

struct row {
	double s; /* since the first sample */
	uint64_t now_ns;
	const char *path, *control, *state;
	double tx_bps, acked_bps, pace_bps;
	double rtt_ns, in_flight_bytes;
	struct rows_sums sums;
	unsigned payload_max;
	char marks[160];
};

/* r: zeroed memory but for every_ns. True: the sample completes a row. The row's texts point into the sample. */
bool rows_take(struct rows *r, const struct json_object *sample, struct row *row);
/* The sums begin at 0 again. */
void rows_begin_again(struct rows *r);

#endif
