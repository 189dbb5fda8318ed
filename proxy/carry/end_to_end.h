/* SPDX-License-Identifier: Apache-2.0 */
/* end_to_end.h - RC packets for which the table of near flows has no place: carried as they are, never ACKed here.
 *
 * In the order of a request's way: end_to_end_begun() and end_to_end_rx() beside the requester, end_to_end_admit()
 * beside the responder, end_to_end_asked() when the responder answers, end_to_end_admit() for the answer. */
#ifndef PROXY_END_TO_END_H
#define PROXY_END_TO_END_H

#include "proxy/wan/wan.h"

/* True if requests from src to dst were carried without a flow lately: no flow that would have to learn its pair is
 * opened between them. */
bool end_to_end_begun(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst);
/* True if requests have gone end to end for so long that no FLOW_PAIR of a flow between the hosts is under way. */
bool end_to_end_settled(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst);
/* Takes a request of a local host that has no flow. As raw_rx(). */
enum proxy_drop end_to_end_rx(struct proxy *p, const uint8_t *l3, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* True if end-to-end requests of requester came to the local responder lately: an answer to a QPN without a flow may be
 * to one of these, and is carried end to end, too. */
bool end_to_end_asked(const struct proxy *p, const struct ip_addr *requester, const struct ip_addr *responder);
/* Takes a whole RC packet that came as a raw one from the other edge. False: the packet is not to be delivered. */
bool end_to_end_admit(struct proxy *p, const struct roce_pkt *pkt);
/* True if so many bytes more may be held of such packets. */
bool end_to_end_may_hold(const struct proxy *p, uint32_t bytes);
/* Pairs of hosts here between which requests were carried so lately; as many as have places of their own. */
uint32_t end_to_end_pairs(const struct proxy *p, uint64_t now_ns);

static inline bool is_rc(const struct roce_pkt *pkt)
{
	return pkt->class == ROCE_RC_REQUEST || pkt->class == ROCE_RC_RESPONSE || pkt->class == ROCE_RC_UNKNOWN;
}

#endif
