/* SPDX-License-Identifier: Apache-2.0 */
/* wan_lane.h - one lane: puts datagrams together, takes received ones apart, and sends lost contents again.
 *
 * In call order: a source queues a slot or schedules the lane; proxy.c finds the lane on wan.lane_list and calls
 * wan_lane_build(); wan_lane_rx() takes the peer's reports, which tell what is to be sent again; wan_lane_on_timer()
 * does everything that is due by time. */
#ifndef PROXY_WAN_LANE_H
#define PROXY_WAN_LANE_H

#include "wan.h"
#include "proxy/wan/dgram/wan_frame.h"

/* page_rings, rx_bits: the memory that pn_space_init() wants, for each path of the link, one behind another. */
void wan_lane_init(struct proxy *p, struct lane *l, uint8_t id, uint32_t *page_rings, uint32_t ring_len,
                   uint64_t *rx_bits);
/* A new session: packet numbers start again; sources queue anew the slots that wait for the peer. */
void wan_lane_session_start(struct proxy *p, struct lane *l);

/* --- something is to be sent --- */

/* Queues a slot that was never sent, behind the slots that were queued before. */
void wan_lane_queue_first(struct proxy *p, struct lane *l, uint32_t slot);
/* Sends one more copy of a slot that was sent before. Does nothing while a copy of the slot is queued or under way. */
void wan_lane_send_again(struct proxy *p, struct lane *l, uint32_t slot);
/* Called when the peer waits for this slot: if the slot was refused, it goes again before its due_ns. */
void wan_lane_send_now(struct proxy *p, struct lane *l, uint32_t slot);
/* Puts the lane on wan.lane_list, by its turn; while lane.nfirst is not 0, in front of all lanes whose nfirst is 0. */
void wan_lane_schedule(struct proxy *p, struct lane *l);
/* Number of flows that have something to send, over all sources. */
uint32_t wan_lane_waiting(const struct lane *l);
/* Called when the lane has sent a datagram of `bytes`, with sending time of the pacer; `flows` flows had something to
 * send before. */
void wan_lane_took_turn(struct proxy *p, struct lane *l, size_t bytes, uint32_t flows);
/* Runs wan_lane_on_timer() at when_ns or earlier. */
void wan_lane_wake_at(struct proxy *p, struct lane *l, uint64_t when_ns);

/* --- datagrams --- */

/* True if packets or FEC repairs wait to be sent. */
bool wan_lane_has_data(const struct lane *l);
/* True if packets wait to be sent. */
bool wan_lane_has_packets(const struct lane *l);
/* Contents that a datagram may have. */
enum wan_contents {
	WAN_OF_PATH, /* frames about the path itself: the path is not in use */
	WAN_CONTROL, /* these and all frames that the pacer does not hold back */
	WAN_ALL,
};

/* Builds one sealed datagram for a path in buf. Returns its length in bytes, 0: nothing to send. */
size_t wan_lane_build(struct proxy *p, struct lane *l, struct wan_path *path, uint8_t *buf, size_t cap,
                      enum wan_contents what);
/* Takes apart a received datagram that was opened, len without its tag. The datagram came by the path in its header.
 * Returns DROP_NONE, or the drop reason of the last part of the datagram that was dropped. */
enum proxy_drop wan_lane_rx(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *dgram, size_t len,
                            uint8_t ecn);
/* Like wan_lane_rx(), for the frames of a datagram that FEC has rebuilt, and that fec_rx keeps. */
enum proxy_drop wan_lane_rx_rebuilt(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *frames,
                                    size_t len);
/* Copies a piece into its slot, whose length is w->total. True if the packet is whole now. */
bool wan_piece_take(struct proxy *p, uint32_t slot, const struct wan_packet *w);

/* Does everything that is due by time: reports, copies of repairs, losses (RFC 8985), probes (RFC 9002 6.2). */
void wan_lane_on_timer(struct proxy *p, struct lane *l);

#endif
