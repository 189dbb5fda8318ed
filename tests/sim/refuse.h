/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.h - a responder that refuses one message, or is gone from there on, and a requester that must learn of it,
 * idle or not. */
#ifndef SIM_REFUSE_H
#define SIM_REFUSE_H

#include "check.h"

/* The packet is the one that the responder does not take: its queue pair fails, with a NAK or without. */
bool refuse_packet(struct qp *q, const struct roce_pkt *pkt);
/* The packet is out of the order of opcodes. True: that is how an edge tells an idle host of a late error, and the host
 * does as hosts do: NAK, error state. False: nobody should have sent it. */
bool refuse_impossible(struct qp *q, const struct roce_pkt *pkt);
/* A NAK that ends the queue pair has gone out. */
void refuse_said(struct qp *q, uint8_t syndrome);
/* A request that no requester sends: with its like an edge tells of a failure. */
bool refuse_tells(const struct roce_pkt *pkt);
/* A request for q that its requester has never sent: whether an edge may have made it. */
bool refuse_may_tell(const struct qp *q, const struct roce_pkt *pkt);

#endif
