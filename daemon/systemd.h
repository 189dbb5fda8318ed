/* SPDX-License-Identifier: Apache-2.0 */
/* systemd.h - tells systemd the state of the service, by sd_notify(3)'s protocol. Nothing happens without
 * $NOTIFY_SOCKET. Main thread. */
#ifndef DAEMON_SYSTEMD_H
#define DAEMON_SYSTEMD_H

#include "daemon/link/sites.h"

void systemd_ready(const struct sites *sites);
void systemd_reloading(void);
void systemd_stopping(void);
/* `longreachd --close --watch` is ready; state: what `systemctl status` shows. */
void systemd_closed(const char *state);

/* Tells systemd that the daemon works: the event loop and every worker make turns. */
struct watchdog;

/* 0 (*w NULL: the unit has no WatchdogSec=), -ENOMEM. */
int systemd_watchdog_start(struct watchdog **w, struct event_base *base, const struct sites *sites);
void systemd_watchdog_stop(struct watchdog *w); /* NULL does nothing */

#endif
