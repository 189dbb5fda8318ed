/* SPDX-License-Identifier: Apache-2.0 */
/* pair.h - which requester QPN a far flow has: which flow is an answer for that carries only this QPN? */
#ifndef PROXY_PAIR_H
#define PROXY_PAIR_H

#include "proxy/wan/wan.h"

/* At the start: the table of host pairs is empty. */
void pair_init(struct proxy *p);
/* The flow's hosts are known: it joins the flows between them. False: no place for another host pair. */
bool pair_join(struct proxy *p, struct far_flow *f);
/* The flow has a packet to send and no pair: it waits for its turn. True if it has its turn. */
bool pair_turn(struct proxy *p, struct far_flow *f);
/* An answer to a QPN without an owner, or after PAIR_ANOTHERS: the flow that it must be for, now paired; NULL: none. */
struct far_flow *pair_claim(struct proxy *p, const struct roce_pkt *pkt);
/* A packet of a flow without a pair was given to the port; or one of a paired flow once more. */
void pair_sent(struct proxy *p, struct far_flow *f);
/* The packet that was sent last has no way to the host: the flow's turn is taken back, and comes again soon. */
void pair_unsent(struct proxy *p, struct far_flow *f);
/* The flow was here before a restart: if it has no pair, or has failed, an answer to it may still be on its way. */
void pair_after_restart(struct proxy *p, struct far_flow *f);
/* The flow whose turn it was got no answer in time: quarantine_ns for the host pair, longer and longer for the flow. */
void pair_unanswered(struct proxy *p, struct far_flow *f);
/* The flow may not send for now: its turn is taken back, and it waits for none until far_schedule() is called again. */
void pair_put_off(struct proxy *p, struct far_flow *f);
/* The end of a quarantine. */
void pair_on_timer(struct proxy *p, struct hostpair *hp);

/* Which flow an answer to a paired QPN is for. */
enum pair_whose {
	PAIR_ITS_OWNERS, /* the flow that has the QPN */
	PAIR_ANOTHERS,   /* only the flow that pair_claim() finds, if any, which gets the QPN then */
	PAIR_NOBODYS,    /* more than one flow is possible: the owner has been asked again */
};

enum pair_whose pair_whose(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt);
/* The QPN is the flow's, as CM, an answer or a descriptor says. The flow that had it before learns its pair again. */
void pair_enter(struct proxy *p, struct far_flow *f, uint32_t requester_qpn);
/* The flow has no pair (any more). */
void pair_remove(struct proxy *p, struct far_flow *f);
/* The flow leaves its host pair, and gives up its turn and its requester's QPN. f->pairing stays: FLOW_PAIR of a failed
 * flow still tells the pair, as the near edge needs the QPN for its NAK. */
void pair_leave(struct proxy *p, struct far_flow *f);

#endif
