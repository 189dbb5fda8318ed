/* SPDX-License-Identifier: Apache-2.0 */
/* lan_host.h - far flows share the way to their host: how much may be on it, and whose turn it is. lan_host.c,
 * lan_drr.c.
 *
 *     lan_host_join()    a host pair begins
 *     lan_drr_ready()   one of its flows may send
 *     lan_drr_tx()      the next packet of all that may
 *     lan_host_sent()    so much more is on its way ...
 *     lan_host_acked()   ... and has come; or
 *     lan_host_lost()    was lost, or
 *     lan_host_cnp()     was marked
 *     lan_host_leave()   the host pair ends */
#ifndef PROXY_LAN_HOST_H
#define PROXY_LAN_HOST_H

#include "proxy/wan/wan.h"

/* What a flow sends in a turn: a few packets, so that one ACK can answer for all of them. */
#define LAN_TURN_BYTES (4u * LAN_PKT_MAX)

/* No hosts: at the beginning. */
void lan_host_init(struct proxy *p);
/* The host of a pair's responder. */
void lan_host_join(struct proxy *p, struct hostpair *hp);
void lan_host_leave(struct proxy *p, struct hostpair *hp);

/* A packet of so many bytes went to the host, counted in bytes_out already. */
void lan_host_sent(struct proxy *p, struct far_flow *f, uint32_t len);
/* bytes_out of the flow has become less, for whatever reason: room for others. */
void lan_host_less(struct proxy *p, struct far_flow *f);
/* The responder has acknowledged so many bytes: less is out already. */
void lan_host_acked(struct proxy *p, struct far_flow *f, uint32_t bytes);
/* What was sent at sent_ns did not arrive. */
void lan_host_lost(struct proxy *p, struct far_flow *f, uint64_t sent_ns);
/* A packet of the flow was marked by a switch. */
void lan_host_cnp(struct proxy *p, struct far_flow *f);
/* True if others than this flow have something on its way to the host. */
bool lan_host_shared(const struct proxy *p, const struct far_flow *f);
/* While host pairs wait: what the host has not answered for long is written off. */
void lan_host_on_timer(struct proxy *p, struct lan_host *h);

/* The flow may send: it waits for its turn. It must have joined a host pair. */
void lan_drr_ready(struct proxy *p, struct far_flow *f);
/* The same for a flow that is to be probed: it goes first. */
void lan_drr_probe(struct proxy *p, struct far_flow *f);
/* The next request for a host into tx. Returns its L3 length, 0: none may go now. */
size_t lan_drr_tx(struct proxy *p, struct lan_tx *tx);
/* The flow is about to send len bytes of its turn: true if it should ask for an answer, as others go on before it does,
 * and its host's window fills. */
bool lan_drr_should_ask(const struct proxy *p, const struct far_flow *f, uint32_t len);
/* A host has room again: the pairs that waited for it. */
void lan_drr_resume(struct proxy *p, struct lan_host *h);

#endif
