/* SPDX-License-Identifier: Apache-2.0 */
/* client_rows.h - rows of a trace out of its samples. Pure.
 *
 * A sample is of one worker and one path and holds sums since the worker began. A row is of one path, all workers
 * together: rates since the worker's sample in an earlier row, sums since the trace began. */
#ifndef DAEMON_CLIENT_ROWS_H
#define DAEMON_CLIENT_ROWS_H

#include "client_json.h"

#define ROWS_PATHS_MAX   8
#define ROWS_WORKERS_MAX 16

/* X(field, its name in a sample) */
#define ROWS_SUMS(X)                                                                                                   \
	X(tx_bytes, "tx_bytes")                                                                                        \
	X(acked_bytes, "acked_bytes")                                                                                  \
	X(lost, "lost")                                                                                                \
	X(resent, "resent")                                                                                            \
	X(spared, "spared_by_fec")                                                                                     \
	X(rebuilt, "rebuilt_by_fec")                                                                                   \
	X(probes, "probe_timeouts")

struct rows_sums {
#define X(field, name) uint64_t field;
	ROWS_SUMS(X)
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
	char marks[160];    /* since then, with blanks between them */
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

/* Zeroed memory but for every_ns. True: the sample makes a row. Its texts are those of the sample. */
bool rows_take(struct rows *r, const struct jnode *sample, struct row *row);
/* The sums begin at 0 again. */
void rows_begin_again(struct rows *r);

#endif
