/* SPDX-License-Identifier: Apache-2.0 */
/* client_top.h - `longreach top`: links, paths and flows on a terminal. */
#ifndef DAEMON_CLIENT_TOP_H
#define DAEMON_CLIENT_TOP_H

/* link NULL: begins with all links. Returns an exit code of longreach(1). */
int client_top(const char *control_path, const char *link);

#endif
