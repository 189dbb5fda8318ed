/* SPDX-License-Identifier: Apache-2.0 */
/* start_watch.h - what keeps a link from starting though its interfaces are there: memory, key files, UDP and TCP ports
 * that somebody else has, the wall clock.
 *
 * Main thread, while a link does not run. start_watch_take() before an attempt; if that fails, start_watch_changed() says
 * whether something has changed since, also while the attempt went on, so that the next one need not wait for its turn.
 * The attempt itself gives back what room it takes. Each costs a handful of system calls that read no file. */
#ifndef DAEMON_START_WATCH_H
#define DAEMON_START_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/config.h"

struct start_view {
	struct {
		bool there;
		uint64_t device, type; /* of the file system that is mounted there */
		uint64_t blocks, free; /* of it; free: for whoever has no privileges */
	} memory;                      /* where Directory= in [Buffer] is */
	struct {
		uint64_t device, inode; /* 0: there is no file */
		int64_t changed_s, changed_ns;
	} files[4];             /* Certificate=, Key=, CA=, PSKFile= */
	uint32_t ports_free;    /* a bit for UDP and one for TCP of each path: LocalAddress= and Port= can be bound */
	int64_t clock_ahead_ns; /* of the wall clock, to the one that nobody sets */
};

/* What there is now. */
void start_watch_take(struct start_view *v, const struct link_config *c);
/* True if a start that failed when it was `before` may work at `now`. A wall clock that an NTP daemon slews has not
 * changed. Pure. */
bool start_watch_differs(const struct start_view *before, const struct start_view *now);
/* Whether it differs from `before`. */
bool start_watch_changed(const struct start_view *before, const struct link_config *c);

#endif
