/* SPDX-License-Identifier: Apache-2.0 */
/* pair.h - finds the requester QPN of a far flow, and the flow that an answer is for: an answer carries only that
 * QPN. */
#ifndef PROXY_PAIR_H
#define PROXY_PAIR_H

#include "proxy/wan/wan.h"

/* Makes the table of host pairs empty. */
void pair_init(struct proxy *p);
/* Adds the flow, whose hosts are known, to the flows between these hosts. False: there is no place for another host
 * pair. */
bool pair_join(struct proxy *p, struct far_flow *f);
/* Called when the flow has a packet to send and no pair: the flow waits for its turn. True if the flow has its turn. */
bool pair_turn(struct proxy *p, struct far_flow *f);
/* For an answer to a QPN without an owner, or after PAIR_ANSWER_TO_PROBED: returns the flow that the answer must be
 * for, now paired; NULL: there is none. */
struct far_flow *pair_claim(struct proxy *p, const struct roce_pkt *pkt);
/* Called when a packet of a flow without a pair was given to the port, or a packet of a paired flow once more. */
void pair_sent(struct proxy *p, struct far_flow *f);
/* Called when the packet that was sent last has no next hop to the host: the flow's turn is taken back, and comes again
 * soon. */
void pair_unsent(struct proxy *p, struct far_flow *f);
/* Called for a flow that was here before a restart: if it has no pair, or has failed, an answer to it may still be on
 * its way. */
void pair_after_restart(struct proxy *p, struct far_flow *f);
/* Called when the flow whose turn it was got no answer in time: no flow of the host pair is probed for quarantine_ns,
 * and from the third time on this flow waits longer and longer. */
void pair_unanswered(struct proxy *p, struct far_flow *f);
/* Called when the flow may not send for now: its turn is taken back, and it waits for none until far_schedule() is
 * called again. */
void pair_put_off(struct proxy *p, struct far_flow *f);
/* Called for a request that has no flow, when it goes to its responder: the answer may come late, when flows between
 * these hosts are probed again. */
void pair_end_to_end_asked(struct proxy *p, const struct roce_pkt *request);
/* Called at the end of a quarantine. */
void pair_on_timer(struct proxy *p, struct hostpair *hp);

/* The flow that an answer to a paired QPN is for. */
enum pair_answer_to {
	PAIR_ANSWER_TO_OWNER,  /* the flow that has the QPN */
	PAIR_ANSWER_TO_PROBED, /* only the flow that pair_claim() finds, if any, which gets the QPN then */
	PAIR_ANSWER_AMBIGUOUS, /* more than one flow is possible: the owner has been asked again */
};

enum pair_answer_to pair_answer_to(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt);
/* Gives the QPN to the flow, as CM, an answer or a descriptor says. The flow that had the QPN before learns its pair
 * again. */
void pair_enter(struct proxy *p, struct far_flow *f, uint32_t requester_qpn);
/* Called for a flow without a pair that has nothing to send: the near edge reads again for its host, so the host has
 * the pair still that became void here. Gives the flow its last pair back if no other flow can have the QPN. True: the
 * flow has a pair. */
bool pair_resume(struct proxy *p, struct far_flow *f);
/* Takes its pair from the flow. */
void pair_remove(struct proxy *p, struct far_flow *f);
/* The flow leaves its host pair, and gives up its turn and its requester's QPN. f->pairing stays: FLOW_PAIR of a failed
 * flow still tells the pair, as the near edge needs the QPN for its NAK. */
void pair_leave(struct proxy *p, struct far_flow *f);

#endif
