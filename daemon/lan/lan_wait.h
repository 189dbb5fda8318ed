/* SPDX-License-Identifier: Apache-2.0 */
/* lan_wait.h - packets for hosts whose MAC address is being asked for.
 *
 * The first packet for a host often finds its neighbour unresolved. Dropping the packet would be sound (RC sends it
 * again), but it may decide how fast a connection starts, so a few packets wait for the answer, as in the kernel.
 * Bounded, per host and in all, and in time. One per worker.
 *
 * Answers wait for LAN_ANSWER_NS only: the host repeats a request without an answer, and a late answer might meet
 * another life of its queue pair. Probes never wait here (struct lan_tx): several of them would go out at once, and all
 * would get the same answer. */
#ifndef DAEMON_LAN_WAIT_H
#define DAEMON_LAN_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/proxy.h"

enum lan_wait_limits {
	LAN_WAIT_MAX = 64,
	LAN_WAIT_PER_HOST = 16,
};

#define LAN_WAIT_NS 500000000ull

struct waiting_packet {
	struct ip_addr dst;
	uint64_t until_ns;
	uint16_t vlan_tci;
	uint16_t len;
	bool routed; /* as in struct lan_tx */
	uint8_t bytes[LAN_IP_MAX];
};

struct lan_wait {
	uint32_t n;
	uint8_t order[LAN_WAIT_MAX]; /* indices of those that wait, oldest first; behind them the free ones */
	struct waiting_packet packet[LAN_WAIT_MAX];
};

void lan_wait_init(struct lan_wait *w);
/* True if a packet for that host waits: later packets must wait behind it. */
bool lan_wait_holds(const struct lan_wait *w, const struct ip_addr *dst);
/* Copies the packet. False if there is no room. */
bool lan_wait_put(struct lan_wait *w, const struct lan_tx *tx, uint64_t now_ns);

/* The i-th oldest, i < n. */
static inline const struct waiting_packet *lan_wait_at(const struct lan_wait *w, uint32_t i)
{
	return &w->packet[w->order[i]];
}

/* Removes the i-th packet; those behind it move up. Its bytes stay valid until the next lan_wait_put(). */
void lan_wait_remove(struct lan_wait *w, uint32_t i);

#endif
