/* SPDX-License-Identifier: Apache-2.0 */
/* worker_priv.h - what the files of the worker share. */
#ifndef DAEMON_WORKER_PRIV_H
#define DAEMON_WORKER_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "daemon/arena/arena_file.h"
#include "daemon/lan/lan_pause.h"
#include "daemon/lan/lan_port.h"
#include "daemon/lan/lan_wait.h"
#include "pcap.h"
#include "daemon/lan/route.h"
#include "daemon/util/log.h"
#include "daemon/util/spsc.h"
#include "trace.h"
#include "daemon/wan/wan_port.h"
#include "worker.h"
#include "worker_relay.h"

enum worker_limits {
	COMMANDS = 256,
	EVENTS = 4096,
	LAN_RING_FRAMES = 4096, /* about a millisecond at 100 Gbit/s and 4 KiB */
	LAN_RX_BUDGET = 64,     /* per port and turn */
	EVENTS_BUDGET = 64,
	RETRY_NS = 50000,                /* a blocked port is tried again */
	POLL_NS = 20000,                 /* a port without a descriptor is looked at, when nothing comes */
	SPIN_NS = 50000,                 /* waits shorter than this are spun over, if at all */
	STRAYS_NS = 2000000,             /* strays are looked at once in so long, at most ... */
	STRAYS_IDLE_NS = STRAYS_NS * 16, /* ... and at least */
	IDLE_TURNS_MAX = 16,             /* turns without work while the core's deadline is now, before a short sleep */
	LOOK_EVERY = 256,    /* turns between looks at epoll while busy, for errors that an interface left */
};

struct worker {
	struct worker_params params;
	struct link_config config; /* as started with */
	char label[LINK_NAME_MAX + 8];
	/* core */
	struct proxy *core;
	struct proxy_config core_config; /* as started with */
	struct arena_file arena;
	bool acks_early; /* early ACKs are configured for some pair of hosts */
	bool owed_said; /* what arena_file_say_owed() was told last */
	bool early_said; /* what arena_file_say_early() was told last */
	struct seal *seal;       /* NULL: Encryption=none */
	uint32_t epoch_rx;       /* of the session, 0: none yet */
	void *heap;
	size_t heap_len;
	struct page_lock *page_lock; /* heap and arena */
	/* ports */
	/* those of the link, its IP port behind them; each with the functions of its engine */
	const struct lan_port_ops *lan_ops[LAN_PORTS_MAX + 1];
	struct lan_port *lan[LAN_PORTS_MAX + 1];
	/* Of each port, whether it takes frames: worker_lan_blocked(). */
	struct lan_takes {
		uint64_t blocked_ns;   /* it has taken nothing since; 0: it takes frames */
		bool was_given;        /* it was given frames since worker_lan_blocked() last looked */
		struct log_limit said; /* that its frames are dropped */
	} lan_takes[LAN_PORTS_MAX + 1];
	uint32_t nlan;    /* all of them */
	bool polled;      /* some port, of LAN or WAN, has no descriptor that says that packets wait: it is looked at */
	struct lan_pause *pause; /* NULL: Pfc=off */
	const struct wan_port_ops *wan_ops;
	struct wan_port *wan;
	struct route_worker *routes;
	struct relay_port *relay; /* NULL: the link has no relay */
	struct lan_frame frames[LAN_TX_BATCH];
	struct lan_wait waiting;
	uint64_t no_route, unknown_hosts;
	struct pcap *pcap_lan, *pcap_wan;
	struct flow_watch *watch; /* NULL: nobody watches a flow */
	struct latency_sampler latency;
	struct stage_meter stages;
	uint32_t lan_rx; /* the port whose packets are being taken */
	bool tapped; /* packets of hosts are shown to a capture or to a watch */
	uint64_t wall_ns;          /* CLOCK_REALTIME of this turn, for captures */
	uint64_t now_ns;           /* of this turn */
	uint64_t started_ns;       /* the core is from then on */
	bool loss_said;            /* the core has reported that the arena before this one is lost */
	uint64_t unmatched_at_ns;  /* from this time on strays may be taken ... */
	uint64_t unmatched_latest_ns; /* ... and at this time the worker wakes for them */
	uint64_t unmatched_gap_ns;    /* between the last look and the latest */
	uint32_t turn, idle_turns;
	/* main thread */
	struct spsc commands, answers, events;
	struct trace trace;
	_Atomic uint64_t events_lost;
	_Atomic bool stop;
	_Atomic uint64_t turns; /* ever, for worker_alive() */
	uint64_t turns_seen;    /* the main thread's */
	int command_fd, epoll_fd;
	bool tell_main; /* something was put into a ring this turn */
	pthread_t thread;
	bool running;
};

static inline uint64_t worker_clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Index among the ports of the one that leads to the kernel, for IP that it routes; nlan or more: there is none. */
static inline uint32_t worker_ip_port(const struct worker *w)
{
	return w->config.nlan_ports;
}

/* True if a worker with that configuration acknowledges anything early. */
static inline bool worker_acks_early(const struct proxy_config *c)
{
	bool early = c->mode != ACK_MODE_HOST;

	for (uint32_t i = 0; i < c->npair_modes; i++)
		early |= c->pair_modes[i].mode != ACK_MODE_HOST;
	return early;
}

/* worker.c: the thread. */
void *worker_main(void *arg);
/* Writes into the arena's trailer whether packets are held, and whether they may have been acknowledged early, if that has
 * changed. */
void worker_say_owed(struct worker *w);
/* arg: the worker. A packet that a device wrote into a blank: lan_rx_slot_fn. */
void worker_lan_landed(void *arg, uint32_t *slot, uint16_t off, size_t len, uint16_t vlan_tci);

/* worker_command.c: carries out the main thread's commands of a turn. Returns how many there were. */
unsigned worker_run_commands(struct worker *w);
/* Returns how many went to the main thread. */
unsigned worker_pass_events(struct worker *w);

/* worker_lan.c: sends at most one batch to hosts. Returns how many packets the core gave. */
unsigned worker_send_lan(struct worker *w);
/* Sends again frames that a port did not take; true if some are still left. */
bool worker_lan_blocked(struct worker *w);

#endif
