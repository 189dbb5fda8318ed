/* SPDX-License-Identifier: Apache-2.0 */
/* close_watch.h - `longreachd --close --watch`: keeps the kernel's rules in force while no daemon runs.
 *
 * The rules that close RoCE are the kernel's, and stay when this process or a daemon ends. Another program can remove
 * them (`nft flush ruleset`, `ip rule flush`). A daemon hears of that and restores them; this process does so while
 * there is no daemon: stopped, crashed, or not started yet.
 *
 * The two never set rules against each other. Before each change this process looks for a daemon at the control socket.
 * If one answers, this process changes nothing until that daemon's process has ended. Unlike a file's content, a
 * daemon's links may have rules that only the daemon knows (its configuration until a reload, the other edge's
 * barrier).
 *
 * A change by another program is answered by closed_restore(), which removes no link's rules: only the start and
 * SIGHUP, which somebody has asked for, do all that `longreachd --close` does. While all RoCE is closed because a link
 * file cannot be understood, this process also calls closed_restore() every few seconds: the file may come with a
 * mount. `longreachd --close` by hand beside this process is a change like any other, and leaves nothing to restore:
 * both read the same files. */
#ifndef DAEMON_CLOSE_WATCH_H
#define DAEMON_CLOSE_WATCH_H

#include <stdint.h>

#include "options.h"

enum close_cause {
	CLOSE_CHANGED,   /* the kernel's rules have changed, by this process as well */
	CLOSE_RELOAD,    /* SIGHUP */
	CLOSE_FAILED,    /* rules could not be set */
	CLOSE_ENDED,     /* the daemon has ended; another one may be about to start */
	CLOSE_UNWATCHED, /* a daemon runs whose end this process does not hear of */
	CLOSE_UNREAD     /* all RoCE is closed, as a link file cannot be understood */
};

struct close_timing {
	uint64_t due_ns;    /* when the rules are examined next; 0: not before the next cause */
	uint64_t looked_ns; /* when they were examined last; 0: never */
};

/* The next due_ns: a cause never delays what is due already. */
uint64_t close_watch_due(const struct close_timing *t, enum close_cause cause, uint64_t now_ns);

/* Runs until SIGTERM or SIGINT, and leaves the rules in force. systemd hears that it is ready when the rules are set, or a
 * link file's error has closed all RoCE, or a daemon answers. Returns the exit status: EXIT_FAILURE if rules could not be
 * set at the start, and nothing is left undone that was possible. */
int close_watch_run(const struct options *o);

#endif
