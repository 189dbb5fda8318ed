/* SPDX-License-Identifier: Apache-2.0 */
/* start_watch.h - watches what may keep a link from starting although its interfaces exist: memory, key files, UDP and
 * TCP ports that another process has, the wall clock.
 *
 * Main thread, while a link does not run. Call start_watch_take() before an attempt; if the attempt fails,
 * start_watch_changed() tells whether something has changed since, during the attempt, too, so that the next attempt
 * need not wait. A failed attempt frees the room that it took. Each call costs a handful of system calls that read no
 * file. */
#ifndef DAEMON_START_WATCH_H
#define DAEMON_START_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/config.h"

struct start_view {
	struct {
		bool there;
		uint64_t device, type; /* of the file system that is mounted there */
		uint64_t blocks, free; /* blocks of it; free: those available without privileges */
	} memory;                      /* where Directory= in [Buffer] is */
	struct {
		uint64_t device, inode; /* 0: there is no file */
		int64_t changed_s, changed_ns;
	} files[4];             /* Certificate=, Key=, CA=, PSKFile= */
	uint32_t ports_free;    /* a bit for UDP and one for TCP of each path: LocalAddress= and Port= can be bound */
	int64_t clock_ahead_ns; /* of the wall clock against the monotonic one */
};

/* Reads the present state. */
void start_watch_take(struct start_view *v, const struct link_config *c);
/* True if a start that failed when it was `before` may work at `now`. A wall clock that an NTP daemon slews has not
 * changed. Pure. */
bool start_watch_differs(const struct start_view *before, const struct start_view *now);
/* Whether it differs from `before`. */
bool start_watch_changed(const struct start_view *before, const struct link_config *c);

#endif
