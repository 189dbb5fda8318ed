/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - lines on stderr, with systemd's priority prefixes when a journal reads them, else with the time of day.
 *
 * Any thread may log: each line is one write(2). Control characters in a line are shown as '?', so that nothing a
 * peer sent can forge a line. */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Priorities as in syslog(3) and sd-daemon(3). */
enum log_level { LOG_LEVEL_ERR = 3, LOG_LEVEL_WARN = 4, LOG_LEVEL_NOTICE = 5, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* Once, before the first line. verbose: debug lines too. */
void log_init(bool verbose);

void log_at(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_err(...)    log_at(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(...)   log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_notice(...) log_at(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...)   log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)  log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* Keeps a repeated message from filling the disk: `burst` lines per window, then silence. Zero-initialise the
 * counts. */
struct log_limit {
	uint64_t window_ns;
	uint32_t burst;
	uint32_t passed;
	uint32_t suppressed; /* in the window that runs */
	uint64_t begun_ns;   /* of the window; 0: none yet */
};

/* True if the line may go out. *missed (may be NULL): how many lines were suppressed before this one, for its text. */
bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed);

#define LOG_MORE_MAX 48

/* The end of that line: how many were suppressed before it; empty if none was. */
static inline void log_limit_more(uint32_t missed, char more[LOG_MORE_MAX])
{
	more[0] = '\0';
	if (missed > 0)
		snprintf(more, LOG_MORE_MAX, " (%u more of these before)", missed);
}

#endif
