/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the daemon's Unix socket, for the program longreach and for monitoring.
 *
 * One request per connection: a line "longreach/1 COMMAND [WORD...]". The answer is one line of JSON, then the daemon
 * closes; a trace goes on until the client does. Every answer has "protocol", "version", "ok", and if not ok "error", a
 * sentence.
 *
 *     version
 *     status [flows] [link NAME]     "links": array, see status.h
 *     flow [link NAME] [WORD VALUE]...     the same with "flows" whole, see flow_status.h; which: flow_filter.h
 *     failed [link NAME]             "failed": array, the record of failed flows
 *     trace link NAME [path NAME] [past]   see trace_stream.h
 *     trace link NAME src A dst B dst_qpn N   see flow_stream.h
 *     reload                         "report": what was done, one line per link; "held": how many of the links go on
 *                                    with another file than there is now
 *     start|stop|restart NAME        "report": what was done
 *
 * A second socket beside it, control_status_path(), is for users who may only look: version, status, flow and
 * failed. */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include <stdio.h>
#include <string.h>

#include "daemon/config/config.h"

#define CONTROL_PATH     "/run/longreach/control"
#define CONTROL_PROTOCOL "longreach/1"
#define CONTROL_PATH_CAP 256
#define CONTROL_LINE_MAX 256

/* Path of the read-only socket: "status" beside a socket named "control", else the same name with ".status". */
static inline const char *control_status_path(const char *path, char text[CONTROL_PATH_CAP])
{
	size_t len = strlen(path), tail = strlen("/control");

	if (len >= tail && strcmp(path + len - tail, "/control") == 0)
		snprintf(text, CONTROL_PATH_CAP, "%.*s/status", (int)(len - tail), path);
	else
		snprintf(text, CONTROL_PATH_CAP, "%s.status", path);
	return text;
}

struct event_base;
struct sites;
struct control;

/* Callbacks for clients that may change something. */
struct control_user {
	int (*reload)(void *arg, char *report); /* does what SIGHUP does; result and report as sites_reload() */
	void (*changed)(void *arg);             /* a link runs with another file, or one more link runs */
	void *arg;
};

enum control_rights {
	CONTROL_ALL,   /* mode 0600: the daemon's user, and root */
	CONTROL_LOOKS, /* mode 0660: its group, too */
};

/* Makes the socket (its directory 0755). 0, or negative errno with err a sentence. */
int control_start(struct control **c, const char *path, enum control_rights rights, struct event_base *base,
                  struct sites *sites, const struct control_user *user, char err[CONFIG_ERR_MAX]);
void control_stop(struct control *c);

#endif
