/* SPDX-License-Identifier: Apache-2.0 */
/* pfc.h - when a LAN port pauses its hosts, and the pause frame (IEEE 802.1Qbb, 802.3 annex 31D). Pure. */
#ifndef DAEMON_PFC_H
#define DAEMON_PFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFC_FRAME_BYTES 60 /* without FCS */
#define PFC_QUANTA_MAX  65535u

/* A pause frame for one priority; quanta (of 512 bit times) 0: go on. */
void pfc_frame(uint8_t frame[PFC_FRAME_BYTES], const uint8_t mac[6], uint8_t priority, uint16_t quanta);

struct pfc_plan {
	uint64_t rate_bps; /* of the port */
	uint32_t ring_frames;
	uint32_t xoff_frames, xon_frames; /* fills of the ring */
	uint64_t refresh_ns;     /* XOFF is repeated at the first look so long after the last one: half of the time
	                          * of 65535 quanta, and less where the look after that would be too late */
	uint64_t paused_look_ns; /* time between looks while the port is paused */
	uint64_t watchdog_ns;    /* longest pause without an end */
	bool tight; /* the ring has less room above XOFF than the packets that arrive until the hosts are silent, or a
	             * pause expires before the next look can repeat it */
};

/* For a port of that rate, watched every look_ns while it is not paused. 0, or -EINVAL: no such rate. */
int pfc_plan(struct pfc_plan *p, uint64_t rate_bps, uint64_t look_ns, uint64_t watchdog_ns);
/* The port has another rate now; the ring's size and the watchdog remain. 0, or -EINVAL: the plan remains. */
int pfc_replan(struct pfc_plan *p, uint64_t rate_bps, uint64_t look_ns);

enum pfc_say { PFC_NOTHING, PFC_XOFF, PFC_XON };

/* A device and priority, shared by all rings that hosts behind the port can fill: an XON ends the pause for all of
 * them. Zeros: not paused. */
struct pfc_port {
	unsigned asking;   /* rings that need the pause; 0: XON is in force */
	uint64_t since_ns; /* begin of the pause */
	uint64_t said_ns;  /* last XOFF */
};

struct pfc_ring {
	const struct pfc_plan *plan; /* of the LAN port */
	bool asks;                   /* counts in the port's asking */
	bool given_up;             /* the watchdog has withdrawn the request; the ring asks again when it has emptied */
	uint64_t xoffs, watchdogs; /* pauses that this ring began; requests that the watchdog withdrew */
};

/* One look at a ring: at least xoff_frames wait; fewer than xon_frames do. The port is paused as long as one of its
 * rings asks. The watchdog counts from the begin of the port's pause. Returns the frame that the port sends. */
enum pfc_say pfc_look(struct pfc_port *p, struct pfc_ring *r, uint64_t now_ns, bool above_xoff, bool below_xon);
/* The ring is no longer there. */
enum pfc_say pfc_leave(struct pfc_port *p, struct pfc_ring *r);
/* A thread has sent that frame, and other threads may have sent theirs in between, which then count for nothing.
 * Returns the frame that has to follow, PFC_NOTHING if the hosts do what the port needs. */
enum pfc_say pfc_sent(const struct pfc_port *p, enum pfc_say sent);

#endif
