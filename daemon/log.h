/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - lines for the journal: stderr, one write per line, with systemd's "<n>" priority when stderr is not a
 * terminal. Any thread may call. */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_err(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
