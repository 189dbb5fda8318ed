/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c - three times in WatchdogSec= each worker is asked for a turn. If all have made one since they were asked
 * the time before, systemd is told (WATCHDOG=1); if one has not, or the event loop does not come here, it is not, and
 * systemd ends the daemon and starts it again: what was acknowledged is in the buffers. */
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>

#include <event2/event.h>
#include <systemd/sd-daemon.h>

#include "daemon/util/clock.h"
#include "daemon/util/log.h"

#define TICKS_PER_TIMEOUT 3

struct watchdog {
	const struct sites *sites;
	struct event *tick;
	struct log_limit said;
};

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct watchdog *w = arg;
	bool alive = true;

	(void)fd;
	(void)what;
	for (uint32_t i = 0; i < w->sites->n; i++) {
		struct link *l = site_link(w->sites->list[i]);

		if (l == NULL || link_alive(l))
			continue;
		alive = false;
		if (log_limit_pass(&w->said, clock_now_ns(), NULL))
			log_err(
			    "link %s: a worker has not made a turn since it was asked to: systemd's watchdog is not "
			    "told that all is well",
			    site_config(w->sites->list[i])->name);
	}
	if (alive)
		sd_notify(0, "WATCHDOG=1");
}

int watchdog_start(struct watchdog **out, struct event_base *base, const struct sites *sites)
{
	uint64_t timeout_us = 0, tick_us;
	struct timeval every;
	struct watchdog *w;

	*out = NULL;
	if (sd_watchdog_enabled(0, &timeout_us) <= 0 || timeout_us == 0)
		return 0;
	tick_us = timeout_us / TICKS_PER_TIMEOUT;
	every = (struct timeval){.tv_sec = (time_t)(tick_us / 1000000), .tv_usec = (suseconds_t)(tick_us % 1000000)};
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return -ENOMEM;
	w->sites = sites;
	w->said = (struct log_limit){.window_ns = 10 * NS_PER_S, .burst = 1};
	w->tick = event_new(base, -1, EV_PERSIST, on_tick, w);
	if (w->tick == NULL || event_add(w->tick, &every) < 0) {
		watchdog_stop(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

void watchdog_stop(struct watchdog *w)
{
	if (w == NULL)
		return;
	if (w->tick != NULL)
		event_free(w->tick);
	free(w);
}
