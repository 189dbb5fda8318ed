/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - one direction of a wire: rate, queue, delay, and everything that can go wrong on it. */
#ifndef SIM_LINK_H
#define SIM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "eventq.h"
#include "pkt.h"
#include "rng.h"

#define LINK_CUTS 4

struct link_cfg {
	uint64_t rate_bps;                           /* bits per second on the wire */
	uint64_t delay_ns;                           /* one way */
	uint64_t queue_bytes;                        /* waiting for the wire; beyond it the tail is dropped. 0: never */
	/* ECN: nothing is marked with less than that waiting, all with more than mark_to_bytes, in between by chance,
	 * more and more. 0: never */
	uint64_t mark_from_bytes, mark_to_bytes;
	double mark; /* share of packets that are marked whatever is waiting here: by another queue on the way */
	bool bleach; /* the ECN field of datagrams between edges is cleared */
	uint32_t overhead_bytes;                     /* on the wire, beside the packet */
	double loss;                                 /* of each packet */
	double burst_enter, burst_leave, burst_loss; /* Gilbert: into the bad state, out of it, loss in it */
	double reorder;                              /* share of packets that take reorder_ns longer, at most */
	uint64_t reorder_ns;
	double duplicate;
	uint32_t mtu;          /* bytes of a datagram between edges that the wire carries; 0: all ... */
	uint64_t mtu_from_ns;  /* ... from then on */
	uint8_t members, dead_member; /* a bundle of so many, of which that one delivers nothing; 0: none */
	uint64_t police_bps, police_bytes; /* a policer: what is beyond that rate and bucket is dropped; 0: none */
	double corrupt; /* share of packets with one to three flipped bits */
	struct {
		uint64_t from_ns, to_ns;
	} cut[LINK_CUTS]; /* nothing enters the wire between these */
	uint32_t ncuts;
};

struct link_stats {
	uint64_t sent, delivered, lost, cut, overflowed, reordered, duplicated, corrupted, marked;
	uint64_t queue_peak_ps; /* longest time that a packet waited for the wire */
	uint64_t wire_bytes, queue_most_bytes;
};

enum link_fate { LINK_SENT, LINK_LOST, LINK_CUT, LINK_OVERFLOW, LINK_REORDERED, LINK_DUPLICATED, LINK_CORRUPTED };

struct link {
	struct link_cfg cfg;
	struct eventq *q;
	struct rng rng;
	void (*deliver)(void *obj, struct pkt *p);                         /* takes p */
	void (*tell)(void *obj, const struct pkt *p, enum link_fate fate); /* each packet's fate; may be NULL */
	void *obj;
	uint64_t busy_until_ps; /* picoseconds: at 400 Gbit/s an ACK lasts 2 ns */
	uint64_t police_free_ns; /* when its bucket is full again */
	bool in_burst;
	uint64_t burst_ns; /* when that last changed */
	struct pkt *head, *tail; /* under way in order */
	struct pkt *late;        /* under way on a longer way */
	struct link_stats stats;
};

void link_init(struct link *l, const struct link_cfg *cfg, struct eventq *q, uint64_t seed,
               void (*deliver)(void *obj, struct pkt *p), void *obj);
/* That share of packets gets lost, at random or in bursts of that mean length (Gilbert-Elliott: all in the bad
 * state). */
void link_lossy(struct link_cfg *c, double loss, double burst);
/* Takes p. */
void link_send(struct link *l, struct pkt *p);
/* Whatever is under way now never arrives. */
void link_lose(struct link *l);
/* Gives back what is still under way; the event queue must not run any more. */
void link_drain(struct link *l);

/* When the wire will have sent what it was given. */
static inline uint64_t link_free_ns(const struct link *l)
{
	return l->busy_until_ps / 1000;
}

#endif
