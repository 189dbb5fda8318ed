/* SPDX-License-Identifier: Apache-2.0 */
/* link_priv.h - what link.c, which starts and stops a link, and link_workers.c, which talks with its workers, share. */
#ifndef DAEMON_LINK_PRIV_H
#define DAEMON_LINK_PRIV_H

#include "link.h"

#include "bursts.h"
#include "daemon/relay/relay.h"
#include "daemon/worker/worker.h"

struct link {
	struct link_config config;
	uint64_t life;
	struct event_base *base;
	struct event *notify_event;
	int notify_fd;
	link_event_fn event_fn;
	void *event_arg;
	struct wan_pacer pacers[PATHS_MAX];
	struct routes *routes;
	struct worker *worker[WORKERS_MAX];
	uint32_t nworkers;
	bool took_up_buffer;        /* a buffer that was in use has kept another geometry than planned */
	struct relay_thread *relay; /* NULL: Relay.Enable=no */
	link_keys_fn keys_fn;
	uint32_t keys_serial;  /* of the last link_rx_keys() ... */
	uint32_t keys_call;    /* ... and its number: a serial may be handed over more than once */
	uint32_t keys_missing; /* workers that have not taken the keys */
	unsigned requests; /* under way, per worker */
	bool offloads_held;
	unsigned holds; /* bits of enum link_hold: why nothing is acknowledged early */
	uint32_t untold; /* workers that have not taken the configuration in force */
	uint64_t descriptors;           /* open files that descriptors_take() has reserved for the link */
	int lan_ifindex[LAN_PORTS_MAX +
	                1]; /* of the workers' ports, the interface that the rules are for; 0: it has gone */
	uint64_t lan_port_rebinds, rules_restored;
	unsigned rebinding; /* commands under way */
	int rebind_error;   /* of the last one that failed, 0: none since */
	uint64_t events_lost_said;
	struct bursts bursts;
	struct flow_watch *watch[WORKERS_MAX]; /* one of each worker, while a flow is watched */
	uint32_t watches_out; /* commands under way */
};

/* Event handler of notify_fd: some worker has answers or events. */
void link_on_notify(int fd, short what, void *arg);
/* Hands the configuration in force to all workers. */
void link_tell_workers(struct link *l);
/* Ends all workers, and takes their last answers and events. */
void link_stop_workers(struct link *l);

#endif
