/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - two ports, the line between them, and the clock.
 *
 * Theory of operation. One thread moves frames from each port's receive ring into that direction's line and sends what
 * is due. A frame's delay counts from the kernel's own receive time stamp, so reading late costs no precision while
 * the delay is longer than the lateness; what is left is how late the frame is sent. Nothing is ever sent early.
 *
 * Sleeping: after a round the thread sleeps until the next frame is due, but not less than `grain_ns`, so that a busy
 * line sends in batches and leaves the processor to others. It asks to be woken a little early (the running mean of
 * how much the kernel oversleeps) and looks at the clock for the last microseconds. Received frames wake it only if
 * the line is empty or short.
 *
 * Precision is measured all the time: `late` holds, for every frame, how long after its due time the send call
 * returned. */
#ifndef WANLINE_RELAY_H
#define WANLINE_RELAY_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "hist.h"
#include "params.h"
#include "port.h"

struct relay_options {
	const char *ifname[DIR_COUNT]; /* frames that come in here go in direction AB, BA */
	struct line_params params[DIR_COUNT];
	uint64_t max_delay_ns; /* memory is for at least this delay */
	uint64_t grain_ns;
	uint64_t seed;
	uint32_t ring_frames;
	const char *ctl_path;  /* NULL: none */
	const char *json_path; /* where the counters go at the end; NULL: nowhere, "-": standard output */
	const char *spy_text;  /* frames that hold it are counted; NULL: none */
	uint64_t run_ns;       /* 0: until a signal */
};

struct relay {
	struct port port[DIR_COUNT];
	struct line line[DIR_COUNT];
	struct hist late[DIR_COUNT];
	struct line_params params[DIR_COUNT];
	const char *spy_text;
	uint64_t grain_ns, oversleep_ns, start_ns, started_cpu_ns;
	int ctl_fd, signal_fd;
	bool stop;
	volatile bool *stop_flag; /* another thread's wish to stop; NULL if there is none */
};

void relay_options_default(struct relay_options *o);

/* 0 or -errno with a sentence in err. */
int relay_open(struct relay *r, const struct relay_options *o, char *err, size_t err_cap);
void relay_run(struct relay *r, uint64_t run_ns);
void relay_close(struct relay *r);

/* Changes the line while it runs; false with a sentence in err, and then nothing has changed. */
bool relay_set(struct relay *r, const char *key, const char *value, char err[PARAMS_ERR_MAX]);
void relay_cut(struct relay *r, int dir, bool cut);

void relay_json(struct relay *r, FILE *f);
/* In words: the precision kept, and what the emulator itself did wrong. */
void relay_report(struct relay *r, FILE *f);

uint64_t relay_now_ns(void); /* CLOCK_MONOTONIC */

#endif
