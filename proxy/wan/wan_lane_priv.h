/* SPDX-License-Identifier: Apache-2.0 */
/* wan_lane_priv.h - interface between the files of a lane: wan_lane.c, wan_build.c, wan_pack.c, wan_recovery.c,
 * wan_receive.c. */
#ifndef PROXY_WAN_LANE_PRIV_H
#define PROXY_WAN_LANE_PRIV_H

#include "wan_lane.h"

/* --- queues and time: wan_lane.c --- */

/* Puts a slot at the end of a list, off whatever list it was on. */
void wan_queue_slot(struct proxy *p, struct dnode *list, uint32_t slot, enum slot_queue q);
/* Takes a slot off its list. */
void wan_unqueue(struct proxy *p, struct slot_meta *m);
/* True if the source says that no flow waits for the packet in the slot any more. */
static inline bool wan_packet_over(const struct proxy *p, const struct slot_hdr *h)
{
	const struct wan_source *s = p->wan->transport.of_slot[h->kind];

	return s->packet_over && s->packet_over(p, h);
}
/* The time that a report may wait for further arrivals, ns: a part of the round trip. */
uint64_t wan_report_delay(const struct wan_path *path);

/* --- a datagram in the making: wan_build.c, wan_pack.c --- */

struct wan_build {
	struct proxy *p;
	struct lane *l;
	struct wan_path *path;
	struct pn_space *s; /* of the lane on that path */
	uint8_t *buf;
	size_t cap, off;      /* bytes: room without the tag, and how far it is filled */
	size_t fec_room;      /* kept free, for the bytes that a FEC repair has in front of its data */
	struct sent_entry *e; /* its entry in the sent map */
	struct wan_hdr h;
	bool data; /* has packets in it */
	bool repair; /* it is one of FEC */
	unsigned nparts;
	struct wan_seal_part part[WAN_REFS_MAX]; /* the references' bytes, which stay in their slots until sealing */
};

static inline bool wan_build_refs_full(const struct wan_build *b)
{
	return b->e->nrefs >= WAN_REFS_MAX;
}

/* Notes a reference to something that must not be lost. False: the entry has no place left. */
static inline bool wan_build_ref(struct wan_build *b, enum wan_ref_kind kind, uint32_t id, uint16_t gen, unsigned off,
                                 unsigned n)
{
	if (wan_build_refs_full(b))
		return false;
	b->e->ref[b->e->nrefs++] = (struct wan_ref){
	    .id = id, .gen = gen, .off = (uint8_t)off, .n = (uint8_t)n, .kind = (uint8_t)kind};
	return true;
}

/* Lost units, oldest loss first. */
void wan_pack_repairs(struct wan_build *b);
void wan_pack_copies(struct wan_build *b);
/* Slots that were queued and never sent. */
void wan_pack_firsts(struct wan_build *b);
/* New packets of the sources; each source in turn has the first place. */
void wan_pack_new(struct wan_build *b);

/* --- fate of datagrams: wan_recovery.c --- */

/* Takes a REPORT of the peer. */
void wan_on_report(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_report *r);
/* Takes a REFUSED of the peer. */
void wan_on_refused(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_report *r);
/* Takes a REBUILT of the peer. False: malformed. */
bool wan_on_rebuilt(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_frame *f);
/* Declares lost the datagrams that are lost by RFC 8985. */
void wan_detect_losses(struct proxy *p, struct lane *l, struct pn_space *s);
/* Called when the space's path is dead: everything under way on that path goes again, on another path. */
void wan_move_all(struct proxy *p, struct lane *l, struct pn_space *s);
/* Goes on with work that an earlier call has left: the rest of a report, or of wan_move_all(). */
void wan_go_on(struct proxy *p, struct lane *l, struct pn_space *s);
/* Called when the sent map is full and nothing is heard: the contents of the oldest page go again under new numbers. */
void wan_give_up_oldest(struct proxy *p, struct lane *l, struct pn_space *s);

#endif
