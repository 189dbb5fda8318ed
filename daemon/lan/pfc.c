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
#define LATE_NS        30000 /* wake-up after a timer: 26 us at the median; the room above XOFF is for later ones */
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
	static const uint8_t to[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01}; /* bridges do not forward this address */

	memset(frame, 0, PFC_FRAME_BYTES);
	memcpy(frame, to, 6);
	memcpy(frame + 6, mac, 6);
	put16(frame + 12, ETHERTYPE_MAC);
	put16(frame + 14, OPCODE_PFC);
	put16(frame + 16, 1u << (priority & 7));
	put16(frame + 18 + 2 * (priority & 7), quanta);
}

/* The packets that arrive from XOFF's threshold until the hosts are silent, and the link's times. */
static int reckon(uint64_t rate_bps, uint64_t look_ns, uint64_t *frames, struct headroom_plan *times)
{
	char why[HEADROOM_ERROR_MAX];
	struct headroom_result r;
	struct headroom_in in;

	headroom_defaults(&in);
	in.length_m = LAN_LENGTH_M;
	in.rate_bps = rate_bps;
	in.port_mtu = LAN_MTU;
	in.small_percent = 0;
	if (headroom_compute(HEADROOM_PHYSICS, &in, &r, why) < 0 ||
	    headroom_plan_link(HEADROOM_PHYSICS, &in, times, why) < 0)
		return -EINVAL;
	*frames = (r.headroom_bytes + rate_bps / 8000 * (REACTION_LOOKS * look_ns / 1000) / 1000) / PACKET_BYTES + 1;
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void plan_thresholds(struct pfc_plan *p, uint64_t frames)
{
	p->tight = p->ring_frames < frames + XOFF_MIN;
	p->xoff_frames = p->tight ? XOFF_MIN : p->ring_frames - (uint32_t)frames;
	p->xon_frames = p->xoff_frames / 2;
}

/* At 400G a pause lasts 84 us, less than a look and its wake-up take otherwise. */
static void plan_refresh(struct pfc_plan *p, uint64_t pause_ns, uint64_t look_ns)
{
	uint64_t next_ns;

	p->paused_look_ns = least(look_ns, pause_ns / 4);
	next_ns = p->paused_look_ns + LATE_NS;
	p->refresh_ns = next_ns < pause_ns ? least(pause_ns / 2, pause_ns - next_ns) : 0;
	p->tight |= next_ns >= pause_ns;
}

int pfc_replan(struct pfc_plan *p, uint64_t rate_bps, uint64_t look_ns)
{
	struct headroom_plan times;
	uint64_t frames;

	if (reckon(rate_bps, look_ns, &frames, &times) < 0)
		return -EINVAL;
	p->rate_bps = rate_bps;
	plan_thresholds(p, frames);
	plan_refresh(p, times.pause_ns, look_ns);
	return 0;
}

int pfc_plan(struct pfc_plan *p, uint64_t rate_bps, uint64_t look_ns, uint64_t watchdog_ns)
{
	struct headroom_plan times;
	uint64_t frames;

	if (reckon(rate_bps, look_ns, &frames, &times) < 0)
		return -EINVAL;
	*p = (struct pfc_plan){.ring_frames = RING_MIN, .watchdog_ns = watchdog_ns};
	while (p->ring_frames < RING_MAX && p->ring_frames < frames + 2 * XOFF_MIN)
		p->ring_frames *= 2;
	return pfc_replan(p, rate_bps, look_ns);
}

static enum pfc_say begin(struct pfc_port *p, struct pfc_ring *r, uint64_t now_ns)
{
	r->asks = true;
	if (p->asking++ > 0)
		return PFC_NOTHING;
	p->since_ns = p->said_ns = now_ns;
	r->xoffs++;
	return PFC_XOFF;
}

enum pfc_say pfc_leave(struct pfc_port *p, struct pfc_ring *r)
{
	if (!r->asks)
		return PFC_NOTHING;
	r->asks = false;
	return --p->asking == 0 ? PFC_XON : PFC_NOTHING;
}

static enum pfc_say while_asking(struct pfc_port *p, struct pfc_ring *r, uint64_t now_ns, bool below_xon)
{
	if (below_xon)
		return pfc_leave(p, r);
	if (now_ns - p->since_ns >= r->plan->watchdog_ns) {
		r->given_up = true;
		r->watchdogs++;
		return pfc_leave(p, r);
	}
	if (now_ns - p->said_ns < r->plan->refresh_ns)
		return PFC_NOTHING;
	p->said_ns = now_ns;
	return PFC_XOFF;
}

enum pfc_say pfc_look(struct pfc_port *p, struct pfc_ring *r, uint64_t now_ns, bool above_xoff, bool below_xon)
{
	if (r->asks)
		return while_asking(p, r, now_ns, below_xon);
	if (below_xon)
		r->given_up = false;
	return above_xoff && !r->given_up ? begin(p, r, now_ns) : PFC_NOTHING;
}

enum pfc_say pfc_sent(const struct pfc_port *p, enum pfc_say sent)
{
	if (sent == PFC_XON && p->asking > 0)
		return PFC_XOFF;
	if (sent == PFC_XOFF && p->asking == 0)
		return PFC_XON;
	return PFC_NOTHING;
}
