/* SPDX-License-Identifier: Apache-2.0 */
/* model_sonic_barefoot.c - what SONiC programs into a Tofino-2 switch.
 *
 * Source: sonic-swss cfgmgr/buffer_headroom_barefoot.lua. An older sister of the Mellanox script: small packets by
 * count, no rounding of the cell factor, 1024 where the other has 1000, and a doubled peer response at 400G. The
 * headroom always comes from the shared pool. In doubles, operation by operation. */
#include "headroom/model.h"

#define LIGHT_M_S   198000000.0
#define SMALL_BYTES 64.0

static double cell_occupancy(double cell, double small_percent)
{
	double worst = cell > 2 * SMALL_BYTES ? cell / SMALL_BYTES : 2 * cell / (1 + cell);

	return (100 - small_percent + rounded(small_percent * worst)) / 100;
}

/* Its table of quanta ends at 400G: beyond, the ASIC's 9 KiB stand for 113 KiB, and a port with 40 m at 800G gets less
 * than half of what it got at 400G. */
static const char *falls(const struct headroom_in *in)
{
	if (in->rate_bps <= 400000000000ull || in->peer_quanta != 0)
		return NULL;
	return "SONiC's script has no pause quanta above 400G and uses 9 KiB for the peer's response, which is too "
	       "little. Set --peer-quanta (1810 at 800G)";
}

static double peer_response(const struct headroom_in *in)
{
	uint32_t quanta = in->peer_quanta;

	if (quanta == 0 && in->rate_bps <= 400000000000ull)
		quanta = headroom_quanta(in->rate_bps);
	return (quanta != 0 ? quanta * 512.0 / 8 : in->asic->peer_kib * 1024) *
	       (in->rate_bps == 400000000000ull ? 2 : 1);
}

static double propagation(const struct headroom_in *in, struct headroom_result *r)
{
	double speed = (double)in->rate_bps / 1000000, length = (double)model_length_m(in, 5050);
	double cable, gearbox = 0, sum;

	cable = 2 * length * speed * 1000000000 / LIGHT_M_S / (8 * 1024);
	if (in->gearbox_ns != 0)
		gearbox = speed * (double)in->gearbox_ns / (8 * 1024);
	sum = model_term(r, HEADROOM_BYTES, "port_mtu", in->port_mtu,
	                 "port_mtu: a frame that the receiver had begun to send");
	sum += model_term(r, HEADROOM_BYTES, "bytes_on_cable", cable,
	                  "bytes_on_cable: there and back at 198000 km/s, divided by 8 x 1024");
	sum += rounded(2 * gearbox);
	model_term(r, HEADROOM_BYTES, "bytes_on_gearbox", 2 * gearbox, "bytes_on_gearbox, twice");
	sum += model_term(r, HEADROOM_BYTES, "mac_phy_delay", in->asic->mac_phy_kib * 1024, "ASIC_TABLE mac_phy_delay");
	sum += model_term(r, HEADROOM_BYTES, "peer_response_time", peer_response(in),
	                  "peer_response_time: IEEE 802.3 31B.3.7 pause quanta, doubled at 400G, or ASIC_TABLE");
	return sum;
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	double sum = propagation(in, r), factor, pipeline = in->asic->pipeline_kib * 1024;

	(void)why;
	r->warning = falls(in);
	factor = model_term(r, HEADROOM_FACTOR, "cell_occupancy", cell_occupancy(in->cell_bytes, in->small_percent),
	                    "cell_occupancy: buffer used per byte, small packets counted as if by byte");
	model_term(r, HEADROOM_NOTE, "lossless_mtu", in->lossless_mtu,
	           "lossless_mtu: the packet that crossed the threshold, after the factor");
	model_term(r, HEADROOM_NOTE, "pipeline_latency", pipeline, "ASIC_TABLE pipeline_latency: xon");
	r->xoff = (uint64_t)ceil_kib(in->lossless_mtu + rounded(sum * factor));
	r->xon = (uint64_t)ceil_kib(pipeline);
	r->size = r->xon;
	model_thresholds(r, r->xon, r->size, r->xoff, r->size);
	return 0;
}

const struct headroom_model_ops model_sonic_barefoot = {
    .name = "sonic-barefoot",
    .source = "sonic-swss cfgmgr/buffer_headroom_barefoot.lua",
    .asic = "tofino-2",
    .lossless_mtu = 1024,
    .small_percent = 100,
    .knows = HEADROOM_X_GEARBOX | HEADROOM_X_QUANTA | HEADROOM_X_SMALL | HEADROOM_X_POOL | HEADROOM_X_LOSSLESS_MTU,
    .compute = compute,
};
