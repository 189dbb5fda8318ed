/* SPDX-License-Identifier: Apache-2.0 */
/* ack_tx.h - the one place from which an AETH, or a CNP, leaves for a requester.
 *
 * A NAK, an RNR NAK and a READ response also acknowledge everything before their PSN. So every packet with an AETH is
 * held to the ceiling here, and gets credits 31 ("no credits") and the MSN that the responder itself would send. */
#ifndef PROXY_ACK_TX_H
#define PROXY_ACK_TX_H

#include "proxy/wan/wan.h"
#include "near.h"

/* Builds the AETH packet, CNP or invalid request that the flow has due into tx. Returns its length, 0: none
 * after all. */
size_t ack_tx_next(struct proxy *p, struct near_flow *f, struct lan_tx *tx);

/* Asks the requester to send more slowly: a CNP (IBTA A17.9) that looks like the responder's goes out with the next
 * proxy_lan_tx(), at most one per 50 us and flow however often this is called. Does nothing while the pair is not
 * known: there is neither a QPN to send to nor a template. */
void ack_tx_cnp(struct proxy *p, struct near_flow *f);

/* Rewrites the AETH of a response that is about to go to the host, in a copy of its header, and patches the ICRC.
 * `after` is the number of bytes between the AETH and the ICRC. Everything before acks_before counts as ACKed then. */
void ack_tx_response(struct proxy *p, struct near_flow *f, uint8_t *aeth, size_t after, uint32_t msn,
                     uint64_t acks_before, uint8_t icrc[4]);

/* A template for ACKs of a responder of which only CM messages were seen. Returns its length (<= TEMPLATE_MAX). */
size_t ack_tx_template_from_cm(uint8_t *buf, const struct near_cm_info *ci);

#endif
