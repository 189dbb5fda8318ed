/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.h - telling systemd that the daemon works: the event loop turns, and so does every worker. Main thread. */
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include "daemon/link/sites.h"

struct watchdog;

/* 0 (*w NULL: the unit has no WatchdogSec=), -ENOMEM. */
int watchdog_start(struct watchdog **w, struct event_base *base, const struct sites *sites);
void watchdog_stop(struct watchdog *w); /* NULL does nothing */

#endif
