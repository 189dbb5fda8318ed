/* SPDX-License-Identifier: Apache-2.0 */
/* model_physics.c - the headroom from first principles.
 *
 * Theory of operation. When the fill passes the threshold, the receiver decides to send XOFF. It first has to finish a
 * frame of its own; the pause frame goes out, passes MAC, PHY, gearbox, transponders and the fibre; the peer takes its
 * response time (802.3 limits it) and finishes the frame that it had begun; and the fibre is still full of the peer's
 * earlier bytes. All this time bytes arrive at line rate. Each part is a number of bytes on the wire, rounded up. A
 * byte on the wire may take more than a byte of the buffer, since packets are kept in cells: the factor is that of the
 * traffic mix, and never below 1. The packet that crossed the threshold is added: perhaps only one byte of it was
 * below.
 *
 * XON is high enough that the link does not starve: from XON to the first new byte the same loop passes, during which
 * the receiver drains its fill. XOFF is two frames above, so that one packet does not make both. */
#include "headroom/model.h"
#include "headroom/physics.h"

#define SMALL_BYTES 64u
#define WIRE_EXTRA  20u

static uint64_t in_cells(uint64_t bytes, uint64_t cell)
{
	return cell == 0 ? bytes : (bytes + cell - 1) / cell * cell;
}

/* Of the mix: buffer over wire, as a fraction that is not below 1. */
struct occupancy {
	uint64_t buffer, wire;
};

static struct occupancy occupancy(const struct headroom_in *in)
{
	uint64_t small = (uint64_t)in->small_percent, large = 100 - small, mtu = in->lossless_mtu;
	struct occupancy o;

	o.buffer = small * in_cells(SMALL_BYTES, in->cell_bytes) + large * in_cells(mtu, in->cell_bytes);
	o.wire = small * (SMALL_BYTES + WIRE_EXTRA) + large * (mtu + WIRE_EXTRA + in->macsec_bytes);
	if (o.buffer < o.wire)
		o.buffer = o.wire;
	return o;
}

static void add_terms(const struct headroom_in *in, const struct physics_parts *p, struct headroom_result *r)
{
	uint64_t added = physics_bytes(in->gearbox_ns + in->transponder_ns, in->rate_bps);

	model_term(r, HEADROOM_BYTES, "own_frame", (double)p->own_frame,
	           "802.1Q Annex O: the pause frame waits for a frame of the receiver's own, with preamble and gap");
	model_term(r, HEADROOM_BYTES, "pause_frame", (double)p->pause_frame, "802.1Qbb: 64 bytes, preamble and gap");
	model_term(r, HEADROOM_BYTES, "mac_phy", (double)(2 * (p->devices - added)),
	           "SONiC ASIC_TABLE mac_phy_delay, 0.8 KiB at any rate; FEC is a time: give it with --gearbox");
	if (added != 0)
		model_term(r, HEADROOM_BYTES, "gearbox_transponder", (double)(2 * added), "as given, there and back");
	model_term(r, HEADROOM_BYTES, "propagation", (double)(2 * p->fibre),
	           in->rtt_ns != 0 ? "the measured round trip"
	                           : "there and back, 5.000 us/km in fibre, 5.556 in copper");
	model_term(r, HEADROOM_BYTES, "peer_response", (double)p->peer, "IEEE 802.3 31B.3.7: pause quanta of 64 bytes");
	model_term(r, HEADROOM_BYTES, "peer_frame", (double)p->peer_frame,
	           "802.1Q Annex O: the lossless frame that the peer had begun");
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	uint64_t drain = in->drain_bps != 0 ? in->drain_bps : in->rate_bps, loop, crossing, frame;
	struct occupancy o = occupancy(in);
	struct physics_parts p;

	(void)why;
	physics_work_out(in, &p);
	add_terms(in, &p, r);
	loop = physics_loop(&p);
	crossing = in_cells(in->lossless_mtu, in->cell_bytes);
	model_term(r, HEADROOM_FACTOR, "cell_occupancy", (double)o.buffer / (double)o.wire,
	           "buffer over wire of the traffic mix: packets take whole cells");
	model_term(r, HEADROOM_NOTE, "crossing_packet", (double)crossing,
	           "the packet that crossed the threshold, after the factor");
	frame = in_cells(in->port_mtu, in->cell_bytes);
	r->xoff = mul_div_up(loop, o.buffer, o.wire) + crossing;
	r->xon = mul_div_up(mul_div_up(loop, drain, in->rate_bps), o.buffer, o.wire);
	r->size = r->xon + 2 * frame + r->xoff;
	model_thresholds(r, r->xon, r->xon + 2 * frame, r->xoff, r->size);
	return 0;
}

const struct headroom_model_ops model_physics = {
    .name = "physics",
    .source = "IEEE 802.1Q Annex O, IEEE 802.3 31B, speed of light",
    .small_percent = 50,
    .knows = HEADROOM_X_MACSEC | HEADROOM_X_TRANSPONDER | HEADROOM_X_GEARBOX | HEADROOM_X_QUANTA | HEADROOM_X_SMALL |
             HEADROOM_X_DRAIN | HEADROOM_X_LOSSLESS_MTU | HEADROOM_X_MEDIUM,
    .compute = compute,
};
