/* SPDX-License-Identifier: Apache-2.0 */
/* physics.c - the way from XOFF to silence, part by part. */
#include "headroom/physics.h"

#include "headroom/model.h"

#define OPTICAL_PS_PER_M  5000u /* Cisco, ixgbe; G.652 glass itself has 4900 */
#define COPPER_PS_PER_M   5556u /* ixgbe: 5556 bit times at 10 Gbit/s per 100 m */
#define PREAMBLE_AND_GAP  20u
#define PAUSE_FRAME_BYTES 64u
#define MAC_PHY_KIB       0.8 /* as SONiC's ASIC tables; half of it for each way */
#define PS_PER_NS         1000u
#define BYTE_NS           8000000000ull /* bits in a byte x ns in a second */

uint64_t physics_ns(uint64_t bytes, uint64_t rate_bps)
{
	return mul_div_up(bytes, BYTE_NS, rate_bps);
}

uint64_t physics_bytes(uint64_t ns, uint64_t rate_bps)
{
	return mul_div_up(ns, rate_bps, BYTE_NS);
}

uint64_t physics_fibre_ns(const struct headroom_in *in)
{
	if (in->rtt_ns != 0)
		return (in->rtt_ns + 1) / 2;
	return mul_div_up(in->length_m, in->medium == HEADROOM_COPPER ? COPPER_PS_PER_M : OPTICAL_PS_PER_M, PS_PER_NS);
}

/* 802.3's limit for the first rate that is not below: a port behind a shaper may stop as slowly as a port of the line's
 * rate. From 800G on the value of the Linux driver of model_mlx5_next.c, which is twice SONiC's. */
static uint64_t peer_bytes(uint64_t rate_bps)
{
	static const struct {
		uint64_t rate_bps;
		uint64_t quanta;
	} table[] = {
	    {100000000ull, 1},      {1000000000ull, 2},      {10000000000ull, 67},     {25000000000ull, 80},
	    {40000000000ull, 118},  {50000000000ull, 147},   {100000000000ull, 394},   {200000000000ull, 453},
	    {400000000000ull, 905}, {800000000000ull, 1810}, {1600000000000ull, 3620},
	};
	size_t last = sizeof(table) / sizeof(table[0]) - 1;

	for (size_t i = 0; i <= last; i++)
		if (rate_bps <= table[i].rate_bps)
			return table[i].quanta * QUANTUM_BYTES;
	return mul_div_up(table[last].quanta * QUANTUM_BYTES, rate_bps, table[last].rate_bps);
}

static uint64_t mac_phy_bytes(const struct headroom_in *in)
{
	double kib = in->asic != NULL && in->asic->mac_phy_kib > 0 ? in->asic->mac_phy_kib : MAC_PHY_KIB;

	return (uint64_t)(kib * 512) + 1;
}

void physics_work_out(const struct headroom_in *in, struct physics_parts *p)
{
	uint64_t extra = PREAMBLE_AND_GAP + in->macsec_bytes;

	p->own_frame = in->port_mtu + extra;
	p->pause_frame = PAUSE_FRAME_BYTES + PREAMBLE_AND_GAP;
	p->devices = mac_phy_bytes(in) + physics_bytes(in->gearbox_ns + in->transponder_ns, in->rate_bps);
	p->fibre = physics_bytes(physics_fibre_ns(in), in->rate_bps);
	p->peer = in->peer_quanta != 0 ? (uint64_t)in->peer_quanta * QUANTUM_BYTES : peer_bytes(in->rate_bps);
	p->peer_frame = in->lossless_mtu + extra;
}

uint64_t physics_loop(const struct physics_parts *p)
{
	return p->own_frame + p->pause_frame + 2 * p->devices + 2 * p->fibre + p->peer + p->peer_frame;
}
