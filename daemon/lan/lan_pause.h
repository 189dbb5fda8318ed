/* SPDX-License-Identifier: Apache-2.0 */
/* lan_pause.h - a thread that watches the receive rings of one worker's LAN ports and pauses the hosts before they run
 * over. It is a separate thread because it exists for the case that the worker stalls. Rings of other workers and links
 * on the same interface take part in the same pause: it ends when no ring needs it any more. */
#ifndef DAEMON_LAN_PAUSE_H
#define DAEMON_LAN_PAUSE_H

#include "lan_port.h"
#include "pfc.h"

struct lan_pause;

struct lan_pause_params {
	const struct lan_port_ops *ops;
	uint8_t priority; /* 0..7 */
	uint64_t watchdog_ns;
};

struct lan_pause_stats {
	uint64_t xoffs, watchdogs; /* pauses begun by these rings; rings that the watchdog let go on, because they did
	                            * not empty */
};

/* Plans the thresholds of a ring on that interface; an unknown rate counts as 100G. -EINVAL: no pause can be planned at
 * its rate. */
int lan_pause_plan(struct pfc_plan *p, const char *ifname, uint64_t watchdog_ns);

/* 0 or negative errno with err (of errlen bytes) a sentence. The ports stay open until lan_pause_stop(). */
int lan_pause_open(struct lan_pause **l, const struct lan_pause_params *params, char *err, size_t errlen);
int lan_pause_watch(struct lan_pause *l, const struct lan_port *port, const char *ifname, const struct pfc_plan *plan,
                    char *err, size_t errlen);
/* The interface of that name has been made anew, or has another MAC address or another rate; the rate may not have been
 * known at the start. 0; 1: at this new rate the ring cannot always be kept from overflowing; or negative errno. port:
 * as counted by lan_pause_watch(). Main thread: the kernel may take long for the rate. */
int lan_pause_follow(struct lan_pause *l, uint32_t port, const char *ifname);
int lan_pause_run(struct lan_pause *l);
void lan_pause_stats(struct lan_pause *l, struct lan_pause_stats *s); /* any thread */
void lan_pause_stop(struct lan_pause *l); /* sends XON on ports that only its rings pause; frees l */

#endif
