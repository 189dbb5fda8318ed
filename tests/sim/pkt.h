/* SPDX-License-Identifier: Apache-2.0 */
/* pkt.h - packets and datagrams under way, from three free lists that live as long as the process. */
#ifndef SIM_PKT_H
#define SIM_PKT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pkt {
	struct pkt *next;
	uint64_t sent_ns, deliver_ns; /* by a link */
	uint32_t len;
	uint32_t cap;
	uint16_t vlan_tci;
	uint8_t size_class;
	bool damaged; /* bits were flipped under way */
	bool strange; /* its sender numbered it wrongly */
	bool lost;    /* its own wire loses it */
	bool late;    /* or takes it on a longer way */
	bool gone;    /* so does the one that it is on, with its sender */
	bool plain;   /* went past the edges */
	bool dgram;   /* a UDP payload between edges, without its headers ... */
	uint8_t ecn;  /* ... of which this is the ECN field */
	uint8_t member; /* what a bundle of lines chooses by, from lane and source port */
	uint8_t host; /* whose it is, while it waits in the port of an edge */
	uint8_t data[];
};

#define PKT_MAX 9344

struct pkt *pkt_new(size_t cap);
struct pkt *pkt_dup(const struct pkt *p);
void pkt_free(struct pkt *p);
/* A switch marks it CE, if its sender is ECN-capable. RFC 3168. False: it is not. */
bool pkt_mark_ce(struct pkt *p);
/* Packets taken and not given back: 0 between two worlds. */
size_t pkt_live(void);

#endif
