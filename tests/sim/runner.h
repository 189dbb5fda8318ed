/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h - many seeds, one after another or in several processes. */
#ifndef SIM_RUNNER_H
#define SIM_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

#define RUN_JOBS_MAX 64

struct run_options {
	uint64_t first, last; /* seeds */
	uint32_t jobs;
	bool direct, verbose, keep_going;
	bool expect_failure, fault_table;
	bool quiet;           /* no progress, and in processes of its own: one that dies is a violation of its seed */
	const char *where;    /* only seeds whose scenario says so; NULL: all */
	const char *log_path;
	const char *trace_path; /* every packet event; NULL: only the last ones of a failing seed */
};

struct run_totals {
	uint64_t seeds, packets, events, completions, given_up, violations;
	uint64_t first_violation;        /* seed; UINT64_MAX: none */
	char violation[64];              /* the first one's name */
	double took_s;
};

/* Runs the seeds until one fails (or all). False: a process died. */
bool run_totals(const struct run_options *o, struct run_totals *t);
/* Runs the seeds and prints failures and the summary. Exit code. */
int run_seeds(const struct run_options *o);

/* Prints the seed, what was violated, how to see it again, and the last packet events. */
void run_report(const struct world *w, const char *text, bool direct);
/* For crashes within a seed: prints the seed before dying. */
void run_guard(struct world *w);

#endif
