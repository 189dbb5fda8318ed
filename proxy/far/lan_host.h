/* SPDX-License-Identifier: Apache-2.0 */
/* lan_host.h - far flows share the way to their host: the window of bytes in flight to the host (lan_host.c), and turns
 * (lan_drr.c).
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

/* Bytes that a flow sends in a turn: a few packets, so that one ACK can answer for all of them. */
#define LAN_TURN_BYTES (4u * LAN_PKT_MAX)

/* Makes the table of hosts empty. */
void lan_host_init(struct proxy *p);
/* Gives the pair the host of its responder. */
void lan_host_join(struct proxy *p, struct hostpair *hp);
void lan_host_leave(struct proxy *p, struct hostpair *hp);

/* Called when a packet of len bytes went to the host; bytes_out counts the packet already. */
void lan_host_sent(struct proxy *p, struct far_flow *f, uint32_t len);
/* Called when bytes_out of the flow has become less: others may send. */
void lan_host_less(struct proxy *p, struct far_flow *f);
/* Called when the responder has acknowledged so many bytes; bytes_out is lower by them already. */
void lan_host_acked(struct proxy *p, struct far_flow *f, uint32_t bytes);
/* Called when a packet sent at sent_ns did not arrive. */
void lan_host_lost(struct proxy *p, struct far_flow *f, uint64_t sent_ns);
/* Called when a switch has marked a packet of the flow. */
void lan_host_cnp(struct proxy *p, struct far_flow *f);
/* True if others than this flow have something on its way to the host. */
bool lan_host_shared(const struct proxy *p, const struct far_flow *f);
/* Called by a timer while host pairs wait: writes off bytes that the host has not answered for long. */
void lan_host_on_timer(struct proxy *p, struct lan_host *h);

/* Makes a flow that may send wait for its turn. The flow must have joined a host pair. */
void lan_drr_ready(struct proxy *p, struct far_flow *f);
/* Like lan_drr_ready(), for a flow that is to be probed: that flow goes first. */
void lan_drr_probe(struct proxy *p, struct far_flow *f);
/* The next request for a host into tx. Returns its L3 length, 0: none may go now. */
size_t lan_drr_tx(struct proxy *p, struct lan_tx *tx);
/* True if the flow, which is about to send len bytes of its turn, should ask for an answer: other flows send before it
 * does again, and the window of its host fills. */
bool lan_drr_should_ask(const struct proxy *p, const struct far_flow *f, uint32_t len);
/* Called when the window of a host has room again: the pairs that waited for it go on. */
void lan_drr_resume(struct proxy *p, struct lan_host *h);

#endif
