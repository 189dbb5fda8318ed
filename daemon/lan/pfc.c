/* SPDX-License-Identifier: Apache-2.0 */
/* pfc.c - thresholds, state machine and frame.
 *
 * The headroom above XOFF is that of headroom/'s physics plus the packets that arrive until the thread looks at the
 * ring again and has a processor: REACTION_LOOKS looks. A ring counts packets, not bytes, so the headroom is for
 * packets of 1024 bytes of payload: smaller ones, at line rate for that long, can overrun the ring. */
#include "pfc.h"

#include <errno.h>
#include <string.h>

#include "headroom/headroom.h"

#define LAN_LENGTH_M   100
#define LAN_MTU        9216
#define PACKET_BYTES   1082u /* Ethernet, IPv4, UDP, BTH, 1024, ICRC */
#define REACTION_LOOKS 3     /* a look just missed, the next, and one for a processor that was late */
#define RING_MIN       4096u
#define RING_MAX       32768u
#define XOFF_MIN       512u /* least XOFF: a shorter burst causes no pause */
#define ETHERTYPE_MAC  0x8808u
#define OPCODE_PFC     0x0101u

static void put16(uint8_t *b, unsigned v)
{
	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

void pfc_frame(uint8_t frame[PFC_FRAME_BYTES], const uint8_t mac[6], uint8_t priority, uint16_t quanta)
{
	static const uint8_t to[6] = {0x01, 0x80, 0xc2,
	                              0x00, 0x00, 0x01}; /* bridges do not forward this address */

	memset(frame, 0, PFC_FRAME_BYTES);
	memcpy(frame, to, 6);
	memcpy(frame + 6, mac, 6);
	put16(frame + 12, ETHERTYPE_MAC);
	put16(frame + 14, OPCODE_PFC);
	put16(frame + 16, 1u << (priority & 7));
	put16(frame + 18 + 2 * (priority & 7), quanta);
}

int pfc_plan(struct pfc_plan *p, uint64_t rate_bps, uint64_t look_ns, uint64_t watchdog_ns)
{
	char why[HEADROOM_ERROR_MAX];
	struct headroom_result r;
	struct headroom_plan times;
	struct headroom_in in;
	uint64_t bytes, frames;

	headroom_defaults(&in);
	in.length_m = LAN_LENGTH_M;
	in.rate_bps = rate_bps;
	in.port_mtu = LAN_MTU;
	in.small_percent = 0;
	if (headroom_compute(HEADROOM_PHYSICS, &in, &r, why) < 0 ||
	    headroom_plan_link(HEADROOM_PHYSICS, &in, &times, why) < 0)
		return -EINVAL;
	bytes = r.headroom_bytes + rate_bps / 8000 * (REACTION_LOOKS * look_ns / 1000) / 1000;
	frames = bytes / PACKET_BYTES + 1;
	*p = (struct pfc_plan){.ring_frames = RING_MIN, .refresh_ns = times.refresh_ns, .watchdog_ns = watchdog_ns};
	while (p->ring_frames < RING_MAX && p->ring_frames < frames + 2 * XOFF_MIN)
		p->ring_frames *= 2;
	p->tight = p->ring_frames < frames + XOFF_MIN;
	p->xoff_frames = p->tight ? XOFF_MIN : p->ring_frames - (uint32_t)frames;
	p->xon_frames = p->xoff_frames / 2;
	return 0;
}

static enum pfc_say end_pause(struct pfc *f)
{
	f->paused = false;
	f->xons++;
	return PFC_XON;
}

static enum pfc_say while_paused(struct pfc *f, uint64_t now_ns, bool below_xon)
{
	if (below_xon)
		return end_pause(f);
	if (now_ns - f->since_ns >= f->plan.watchdog_ns) {
		f->given_up = true;
		f->watchdogs++;
		return end_pause(f);
	}
	if (now_ns - f->said_ns < f->plan.refresh_ns)
		return PFC_NOTHING;
	f->said_ns = now_ns;
	return PFC_XOFF;
}

enum pfc_say pfc_look(struct pfc *f, uint64_t now_ns, bool above_xoff, bool below_xon)
{
	if (f->paused)
		return while_paused(f, now_ns, below_xon);
	if (below_xon)
		f->given_up = false;
	if (!above_xoff || f->given_up)
		return PFC_NOTHING;
	f->paused = true;
	f->since_ns = f->said_ns = now_ns;
	f->xoffs++;
	return PFC_XOFF;
}
