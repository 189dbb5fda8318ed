/* SPDX-License-Identifier: Apache-2.0 */
/* ack_tx.h - the one place from which an AETH, or a CNP, leaves for a requester.
 *
 * A NAK or RNR NAK also acknowledges everything before it, and so does a READ response: whatever carries an AETH is
 * held to the ceiling here, gets credits 31 ("no credits") and the MSN that the responder itself would send. */
#ifndef PROXY_ACK_TX_H
#define PROXY_ACK_TX_H

#include "proxy/wan/wan.h"
#include "near.h"

/* Says what the flow has due: one packet into tx. Returns its length, 0 if there was nothing to say after all. */
size_t ack_tx_next(struct proxy *p, struct near_flow *f, struct lan_tx *tx);

/* Asks the requester to send more slowly: a CNP (IBTA A17.9) in the responder's own words goes out with the next
 * proxy_lan_tx(), at most one per 50 us and flow however often this is called. Nothing happens while the pair is not
 * known, as there is neither a QPN to send to nor a template. */
void ack_tx_cnp(struct proxy *p, struct near_flow *f);

/* Rewrites the AETH of a response that is about to go to the host, in a copy of its header, and patches the ICRC.
 * `after` is the number of bytes between the AETH and the ICRC. Notes what it acknowledges. */
void ack_tx_response(struct proxy *p, struct near_flow *f, uint8_t *aeth, size_t after, uint32_t msn,
                     uint64_t acks_before, uint8_t icrc[4]);

/* A template for ACKs of a responder of which only CM messages were seen. Returns its length (<= TEMPLATE_MAX). */
size_t ack_tx_template_from_cm(uint8_t *buf, const struct near_cm_info *ci);

#endif
