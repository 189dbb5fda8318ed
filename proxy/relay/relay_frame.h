/* SPDX-License-Identifier: Apache-2.0 */
/* relay_frame.h - frames between the two ends of a relay channel.
 *
 * Big-endian, as all frames (wan_frame.h). Both frames are reliable: after a loss a frame with the newest values
 * follows. */
#ifndef PROXY_RELAY_FRAME_H
#define PROXY_RELAY_FRAME_H

#include "proxy/wan/dgram/wan_frame.h"

/* Values beside those of enum flow_frame_type. */
enum relay_frame_type {
	WF_RELAY_OPEN = 0x0a,
	WF_RELAY_CREDIT = 0x0b,
};

/* RELAY_OPEN, sender to receiver, when a session starts: channel(2) zero(2) life(4) base(8) */
struct wan_relay_open {
	uint16_t channel;
	uint32_t life;
	uint64_t base; /* oldest position that the sender still answers for */
};

/* RELAY_CREDIT, receiver to sender, cumulative: channel(2) zero(2) life(4) done(8) received(8) limit(8) */
struct wan_relay_credit {
	uint16_t channel;
	uint32_t life;
	uint64_t done;     /* every chunk before is executed, and the receiver's arena records that */
	uint64_t received; /* every chunk before is committed in the receiver's arena, or done */
	uint64_t limit;    /* positions before may be sent */
};

/* Writers return the bytes written, 0 if `cap` is too small. The readers get a frame's body; false: malformed. */
size_t wan_relay_open_put(uint8_t *buf, size_t cap, const struct wan_relay_open *o);
bool wan_relay_open_get(const struct wan_frame *f, struct wan_relay_open *o);
size_t wan_relay_credit_put(uint8_t *buf, size_t cap, const struct wan_relay_credit *c);
bool wan_relay_credit_get(const struct wan_frame *f, struct wan_relay_credit *c);

#endif
