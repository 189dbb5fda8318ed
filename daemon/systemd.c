/* SPDX-License-Identifier: Apache-2.0 */
/* systemd.c - tells the service manager the state of the service. Failures of sd_notify() are ignored.
 *
 * Watchdog: three times in WatchdogSec= each worker is asked for a turn. If all workers have made one since the last
 * time, systemd gets WATCHDOG=1. If one has not, or the event loop hangs, systemd gets nothing, ends the daemon and
 * starts it again: acknowledged bytes are in the buffers. */
#include "systemd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <event2/event.h>
#include <systemd/sd-daemon.h>

#include "daemon/util/clock.h"
#include "daemon/util/log.h"

void systemd_ready(const struct sites *sites)
{
	sd_notifyf(0, "READY=1\nSTATUS=%u link%s%s", sites->n, sites->n == 1 ? "" : "s",
	           sites->refused[0] != '\0' ? "; link files are refused: `longreach status` says why" : "");
}

void systemd_reloading(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
}

void systemd_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}

void systemd_closed(const char *state)
{
	sd_notifyf(0, "READY=1\nSTATUS=%s", state);
}

/* --- watchdog --- */

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
			log_err("link %s: a worker hangs: it has made no turn since the last check, so longreachd does "
			        "not reset systemd's watchdog",
			        site_config(w->sites->list[i])->name);
	}
	if (alive)
		sd_notify(0, "WATCHDOG=1");
}

int systemd_watchdog_start(struct watchdog **out, struct event_base *base, const struct sites *sites)
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
		systemd_watchdog_stop(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

void systemd_watchdog_stop(struct watchdog *w)
{
	if (w == NULL)
		return;
	if (w->tick != NULL)
		event_free(w->tick);
	free(w);
}
