/* SPDX-License-Identifier: Apache-2.0 */
/* wan_lane.h - one lane: what goes into the next datagram, what a received one means, what is to be sent again.
 *
 * In call order: a module queues a slot or kicks the lane; proxy.c finds it on its list and has a datagram built; the
 * peer's reports come in by wan_lane_rx() and tell what is to be sent again; everything that is due by time is done in
 * wan_lane_on_timer(). */
#ifndef PROXY_WAN_LANE_H
#define PROXY_WAN_LANE_H

#include "wan.h"
#include "proxy/wan/dgram/wan_frame.h"

/* page_rings, rx_bits: for each path of the link what pn_space_init() wants, one behind another. */
void wan_lane_init(struct proxy *p, struct lane *l, uint8_t id, uint32_t *page_rings, uint32_t ring_len,
                   uint64_t *rx_bits);
/* A new session: numbers start again; slots that wait for the peer are queued anew by their owners. */
void wan_lane_session_start(struct proxy *p, struct lane *l);

/* --- something is to be sent --- */

/* A slot to be sent for the first time, behind those that were queued before. */
void wan_lane_queue_first(struct proxy *p, struct lane *l, uint32_t slot);
/* A slot that was sent goes once more, in one copy. Nothing happens while it is still under way. */
void wan_lane_send_again(struct proxy *p, struct lane *l, uint32_t slot);
/* The peer waits for this one: if it was refused it does not wait for its turn. */
void wan_lane_send_now(struct proxy *p, struct lane *l, uint32_t slot);
/* There is something to send; while lane.nfirst is not 0, before all lanes of which that is not so. */
void wan_lane_schedule(struct proxy *p, struct lane *l);
/* How many flows of all sources have something to send. */
uint32_t wan_lane_waiting(const struct lane *l);
/* It has sent a datagram of so many bytes, at the pacer's time; so many flows had something to send before. */
void wan_lane_took_turn(struct proxy *p, struct lane *l, size_t bytes, uint32_t flows);
/* There will be at that time. */
void wan_lane_wake_at(struct proxy *p, struct lane *l, uint64_t when_ns);

/* --- datagrams --- */

/* True if packets wait to be sent. */
bool wan_lane_has_data(const struct lane *l);
/* Packets among it. */
bool wan_lane_has_packets(const struct lane *l);
/* What may be in a datagram. */
enum wan_contents {
	WAN_OF_PATH, /* what is about the path itself: it is not in use */
	WAN_CONTROL, /* what the pacer does not hold back */
	WAN_ALL,
};

/* Builds one sealed datagram for a path in buf. Returns its length in bytes, 0: nothing to send. */
size_t wan_lane_build(struct proxy *p, struct lane *l, struct wan_path *path, uint8_t *buf, size_t cap,
                      enum wan_contents what);
/* Takes one apart, which came by the path in its header: opened, len without its tag. DROP_NONE, or the last thing in
 * it that was dropped. */
enum proxy_drop wan_lane_rx(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *dgram, size_t len,
                            uint8_t ecn);
/* The same for one that FEC has rebuilt. */
enum proxy_drop wan_lane_rx_rebuilt(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *dgram,
                                    size_t len);
/* Copies a piece into its slot, whose length is w->total. True if the packet is whole now. */
bool wan_piece_take(struct proxy *p, uint32_t slot, const struct wan_packet *w);

/* What is due by time: reports, copies of repairs, losses (RFC 8985), probes (RFC 9002 6.2). */
void wan_lane_on_timer(struct proxy *p, struct lane *l);

#endif
