/* SPDX-License-Identifier: Apache-2.0 */
/* physics.h - the way from XOFF to silence, part by part. For headroom/ alone. */
#ifndef HEADROOM_PHYSICS_H
#define HEADROOM_PHYSICS_H

#include "headroom/headroom.h"

/* Everything in bytes on the wire at the link's rate: a time and an amount at once. One way where it says so. */
struct physics_parts {
	uint64_t own_frame; /* a frame of the receiver's own that the pause frame waits for */
	uint64_t pause_frame;
	uint64_t devices;    /* MAC, PHY, gearbox and transponders, one way */
	uint64_t fibre;      /* one way */
	uint64_t peer;       /* until the peer begins no more frames */
	uint64_t peer_frame; /* the one that it had begun */
};

void physics_work_out(const struct headroom_in *in, struct physics_parts *p);
uint64_t physics_loop(const struct physics_parts *p); /* XOFF decided to the last byte in */

uint64_t physics_ns(uint64_t bytes, uint64_t rate_bps);  /* rounded up */
uint64_t physics_bytes(uint64_t ns, uint64_t rate_bps);  /* rounded up */
uint64_t physics_fibre_ns(const struct headroom_in *in); /* one way, rounded up */

#endif
