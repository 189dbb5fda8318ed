/* SPDX-License-Identifier: Apache-2.0 */
#include "notify.h"

#include <inttypes.h>

#include <systemd/sd-daemon.h>

#include "daemon/util/clock.h"

/* Not being heard changes nothing here: what sd_notify() returns is left alone. */

void notify_ready(unsigned links)
{
	sd_notifyf(0, "READY=1\nSTATUS=%u link%s", links, links == 1 ? "" : "s");
}

void notify_reloading(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_ns() / 1000);
}

void notify_stopping(void)
{
	sd_notify(0, "STOPPING=1");
}
