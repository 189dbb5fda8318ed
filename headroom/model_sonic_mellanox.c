/* SPDX-License-Identifier: Apache-2.0 */
/* model_sonic_mellanox.c - what SONiC programs into a Spectrum switch.
 *
 * Source: sonic-swss cfgmgr/buffer_headroom_mellanox.lua, August 2026. Lua's numbers are doubles, so this is in
 * doubles, operation by operation. Two parts of it are young: 18 KiB more on Spectrum-6, and, without a shared pool
 * and with less than 100 % small packets, 2 KiB more where that is still below the worst case (`compensation`). */
#include "headroom/model.h"

#define LIGHT_M_S       198000000.0
#define SMALL_BYTES     64.0
#define SPECTRUM6_BYTES (18.0 * 1024)
#define SPARE_BYTES     (2.0 * 1024)

struct work {
	double speed_mbps;
	double worst_factor; /* buffer per byte of 64-byte packets */
	double occupancy;    /* the same of the traffic mix */
	double propagation;  /* everything that is multiplied by it */
};

static double worst_case_factor(double cell)
{
	return ceil_up(cell > 2 * SMALL_BYTES ? cell / SMALL_BYTES : 2 * cell / (1 + cell));
}

/* The percentage counts packets; their share of the bytes is smaller. */
static double small_percent_by_byte(double percent, double lossless_mtu)
{
	return 100 * SMALL_BYTES / ((rounded(percent * SMALL_BYTES) + rounded((100 - percent) * lossless_mtu)) / 100);
}

static double peer_response(const struct headroom_in *in)
{
	uint32_t quanta = in->peer_quanta != 0 ? in->peer_quanta : headroom_quanta(in->rate_bps);

	return quanta != 0 ? quanta * 512.0 / 8 : in->asic->peer_kib * 1024;
}

static void occupancy(const struct headroom_in *in, struct work *w, struct headroom_result *r)
{
	double small = small_percent_by_byte(in->small_percent, in->lossless_mtu);

	w->worst_factor = worst_case_factor(in->cell_bytes);
	w->occupancy = (100 - small + rounded(small * w->worst_factor)) / 100;
	model_term(r, HEADROOM_FACTOR, "cell_occupancy", w->occupancy,
	           "cell_occupancy: buffer used per byte of the traffic mix, a 64-byte packet taking whole cells");
}

static void propagation(const struct headroom_in *in, struct work *w, struct headroom_result *r)
{
	double length = (double)model_length_m(in, 5050), cable, gearbox = 0, tile = 0, sum;

	cable = 2 * length * w->speed_mbps * 1000000000 / LIGHT_M_S / (8 * 1000);
	if (in->gearbox_ns != 0)
		gearbox = w->speed_mbps * (double)in->gearbox_ns / (8 * 1024);
	if (in->asic->generation == 4 || in->asic->generation == 5)
		tile = w->speed_mbps / 1000 * 120 / 8;
	sum = model_term(r, HEADROOM_BYTES, "port_mtu", in->port_mtu,
	                 "port_mtu: a frame that the receiver had begun to send");
	sum += model_term(r, HEADROOM_BYTES, "bytes_on_cable", cable, "bytes_on_cable: there and back at 198000 km/s");
	sum += rounded(2 * gearbox);
	model_term(r, HEADROOM_BYTES, "bytes_on_gearbox", 2 * gearbox, "bytes_on_gearbox, twice");
	sum += model_term(r, HEADROOM_BYTES, "mac_phy_delay", in->asic->mac_phy_kib * 1024, "ASIC_TABLE mac_phy_delay");
	sum += model_term(r, HEADROOM_BYTES, "peer_response_time", peer_response(in),
	                  "peer_response_time: IEEE 802.3 31B.3.7 pause quanta, or ASIC_TABLE");
	sum += model_term(r, HEADROOM_BYTES, "bytes_on_tile", tile, "kb_on_tile: 120 ns of Spectrum-4 and -5");
	w->propagation = sum;
}

/* Compensation: spare room if the share of small packets is low enough. */
static double compensate(const struct headroom_in *in, const struct work *w, double xoff, struct headroom_result *r)
{
	double worst = ceil_kib(in->lossless_mtu + rounded(w->propagation * w->worst_factor));

	if (in->pool || !in->compensation || in->small_percent == 100 || xoff + SPARE_BYTES >= worst)
		return xoff;
	return xoff + model_term(r, HEADROOM_NOTE, "headroom_compensation", SPARE_BYTES,
	                         "headroom_compensation: no pool, small packets below 100 %");
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	struct work w = {.speed_mbps = (double)in->rate_bps / 1000000};
	double pipeline = in->asic->pipeline_kib * 1024, overhead = 0, xoff, xon, size;

	(void)why;
	if (in->lanes == 8) {
		pipeline *= 2;
		overhead = in->port_mtu;
	}
	propagation(in, &w, r);
	occupancy(in, &w, r);
	model_term(r, HEADROOM_NOTE, "lossless_mtu", in->lossless_mtu,
	           "lossless_mtu: the packet that crossed the threshold, after the factor");
	xoff = ceil_kib(in->lossless_mtu + rounded(w.propagation * w.occupancy));
	if (in->asic->generation == 6)
		xoff += model_term(r, HEADROOM_NOTE, "spectrum6_headroom_compensation", SPECTRUM6_BYTES,
		                   "spectrum6_headroom_compensation");
	xoff = compensate(in, &w, xoff, r);
	xon = ceil_kib(pipeline);
	size = ceil_kib(in->pool ? xon : xoff + xon + overhead);
	model_term(r, HEADROOM_NOTE, "pipeline_latency", pipeline,
	           "ASIC_TABLE pipeline_latency, twice with 8 lanes: xon");
	if (overhead > 0)
		model_term(r, HEADROOM_NOTE, "speed_overhead", overhead,
		           "speed_overhead: a port MTU with 8 lanes, in size");
	r->xon = (uint64_t)xon;
	r->xoff = (uint64_t)xoff;
	r->size = (uint64_t)size;
	model_thresholds(r, r->xon, in->pool ? r->size : r->size - r->xoff, r->xoff, r->size);
	return 0;
}

const struct headroom_model_ops model_sonic_mellanox = {
    .name = "sonic-mellanox",
    .source = "sonic-swss cfgmgr/buffer_headroom_mellanox.lua",
    .asic = "spectrum-4",
    .lossless_mtu = 1024,
    .small_percent = 50,
    .knows = HEADROOM_X_GEARBOX | HEADROOM_X_QUANTA | HEADROOM_X_SMALL | HEADROOM_X_POOL | HEADROOM_X_LOSSLESS_MTU,
    .compute = compute,
};
