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
	const char *where;    /* only seeds whose scenario says so; NULL: all */
	const char *log_path;
	const char *trace_path; /* every packet event; NULL: only the last ones of a failing seed */
};

/* Runs the seeds and prints failures and the summary. Exit code. */
int run_seeds(const struct run_options *o);
/* One seed without a word: w->violation, w->q.fired and such are there afterwards. events_max: as in world_cfg. */
void run_quietly(struct world *w, uint64_t seed, uint64_t events_max);
/* Of a clock that only goes forward. */
double run_seconds(void);

/* Prints the seed, what was violated, how to see it again, and the last packet events. */
void run_report(const struct world *w, const char *text, bool direct);
/* For crashes within a seed: prints the seed before dying. */
void run_guard(struct world *w);

#endif
