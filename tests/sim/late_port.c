/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * The device may do with its blanks what it likes: before a packet comes it fills the blank with rubbish, and what the
 * core did not keep, or gave for what it kept, it fills with other rubbish at once. Whatever the core still had there is
 * gone: the next host that gets it finds a wrong ICRC.
 *
 * It sends out of pinned slots some microseconds later, and reads each byte only then. A packet whose slot was freed
 * meanwhile, and is another's, has a wrong ICRC.
 *
 * When its process is killed, the device writes once more into all of its blanks, and is closed before the rebuild. */
#include "late_port.h"

#include <string.h>

#include "check.h"
#include "edge.h"
#include "rng.h"
#include "world.h"

#define FRAME_OFF   (ARENA_HEADROOM + 14) /* as DPDK lays out a receive buffer: an Ethernet header behind its headroom */
#define VLAN_LEN    4
#define SEND_NS_MAX 5000

static void scribble(uint8_t *bytes, size_t len, uint32_t with)
{
	memset(bytes, 0x5a ^ (int)(with * 37 & 0xff), len);
}

static void device_writes(struct edge_shard *s, uint32_t slot)
{
	scribble(proxy_blank_data(s->p, slot), PROXY_BLANK_BYTES, s->port.writes++);
}

static void fill_ring(struct edge_shard *s)
{
	while (s->port.nblanks < LATE_PORT_BLANKS) {
		uint32_t slot = proxy_blank(s->p);

		if (slot == SLOT_NONE)
			return;
		s->port.blank[s->port.nblanks++] = slot;
		device_writes(s, slot);
	}
}

void late_port_open(struct edge_shard *s)
{
	s->port.nblanks = s->port.nsends = s->port.first = 0;
	s->port.life++;
	fill_ring(s);
}

void late_port_kill(struct edge_shard *s)
{
	for (uint32_t i = 0; i < s->port.nblanks; i++)
		device_writes(s, s->port.blank[i]);
	s->port.nblanks = s->port.nsends = 0;
	s->port.life++;
}

enum proxy_drop late_port_rx(struct edge_shard *s, const struct pkt *p)
{
	uint16_t off = (uint16_t)(FRAME_OFF + (p->vlan_tci ? VLAN_LEN : 0));
	uint64_t now_ns = s->edge->w->q.now_ns;
	enum proxy_drop d;
	uint32_t slot;

	fill_ring(s);
	if (!s->port.nblanks || p->len > (uint32_t)(PROXY_BLANK_BYTES - off))
		return proxy_lan_rx(s->p, now_ns, p->data, p->len, p->vlan_tci);
	slot = s->port.blank[0];
	memcpy(proxy_blank_data(s->p, slot) + off, p->data, p->len);
	memmove(s->port.blank, s->port.blank + 1, --s->port.nblanks * sizeof(s->port.blank[0])); /* it is landed */
	d = proxy_lan_rx_slot(s->p, now_ns, &slot, off, p->len, p->vlan_tci);
	s->port.blank[s->port.nblanks++] = slot;
	device_writes(s, slot);
	return d;
}

static struct late_send *send_at(struct late_port *port, uint32_t i)
{
	return &port->send[(port->first + i) % LATE_PORT_SENDS];
}

static void send_first(struct edge_shard *s)
{
	struct late_port *port = &s->port;
	struct late_send *send = send_at(port, 0);

	edge_emit_lan(s->edge, &send->tx);
	if (send->pinned)
		proxy_lan_unpin(s->p, send->tx.slot);
	port->first = (port->first + 1) % LATE_PORT_SENDS;
	port->nsends--;
}

static void on_due(void *obj, uint64_t life)
{
	struct edge_shard *s = obj;
	struct late_port *port = &s->port;

	while (port->life == life && port->nsends && send_at(port, 0)->at_ns <= s->edge->w->q.now_ns)
		send_first(s);
}

void late_port_tx(struct edge_shard *s, const struct lan_tx *tx)
{
	struct late_port *port = &s->port;
	uint64_t now_ns = s->edge->w->q.now_ns, at_ns = now_ns + rng_hash(port->writes, now_ns) % SEND_NS_MAX;
	struct late_send *send;

	if (port->nsends == LATE_PORT_SENDS)
		send_first(s);
	if (port->nsends && send_at(port, port->nsends - 1)->at_ns > at_ns)
		at_ns = send_at(port, port->nsends - 1)->at_ns; /* in order */
	send = send_at(port, port->nsends++);
	send->tx = *tx;
	send->at_ns = at_ns;
	send->pinned = proxy_lan_pin(s->p, tx);
	if (!send->pinned) {
		memcpy(send->copy, tx->body_len ? tx->body : send->copy, tx->body_len);
		send->tx.body = send->copy;
	}
	eventq_at(&s->edge->w->q, at_ns, on_due, s, port->life);
}
