/* SPDX-License-Identifier: Apache-2.0 */
/* model_annex_o.c - IEEE 802.1Q Annex O's delay value, in the form that Linux ixgbe gives it.
 *
 * Source: Linux drivers/net/ethernet/intel/ixgbe/ixgbe_type.h, IXGBE_DV(), IXGBE_LOW_DV(), their _X540 forms,
 * IXGBE_BT2KB(), called as ixgbe_hpbthresh() and ixgbe_lpbthresh() do. All in bit times and integers. The header is for
 * 10 Gbit/s and 100 m; for other rates the delays of interface and higher layer stay the same times, and the cable's
 * delay follows its length. ixgbe always assumes copper (5556 bit times per 100 m), so --medium copper at 10G and 100 m
 * is the driver's value exactly. Annex O's own sum, without the factor of 36/25 for packing packets into the buffer, is
 * the term delay_value. */
#include <string.h>

#include "headroom/model.h"

#define PFC_BITS        672u
#define CABLE_OPTICAL   5000u /* per 100 m at 10 Gbit/s: 5.000 ns/m */
#define CABLE_COPPER    5556u
#define HIGHER_BITS     6144u
#define PCI_BITS        10000u
#define INTERFACE_82599 (4096u + 2 * 1024u + 12800u) /* MAC, XAUI, PHY */
#define INTERFACE_X540  (8192u + 2 * 2048u + 25600u)
#define FRAME_EXTRA     18u /* Ethernet header and FCS */
#define FRAMING_EXTRA   20u /* preamble and gap: IXGBE_ETH_FRAMING */
#define REFERENCE_BPS   10000000000ull
#define SOURCE_DV       "IXGBE_DV(): "

/* Bit times at 10 Gbit/s to those at the link's rate. */
static uint64_t at_rate(const struct headroom_in *in, uint64_t bits)
{
	return mul_div_up(bits, in->rate_bps, REFERENCE_BPS);
}

/* IXGBE_BT2KB(), in bytes. */
static uint64_t bits_to_kib(uint64_t bits)
{
	return (bits + (8 * 1024 - 1)) / (8 * 1024) * 1024;
}

static double term_bits(struct headroom_result *r, enum headroom_unit unit, const char *name, uint64_t bits,
                        const char *source)
{
	return model_term(r, unit, name, (double)bits / 8, source);
}

static bool is_x540(const struct headroom_in *in)
{
	return strcmp(in->asic->name, "x540") == 0;
}

/* IXGBE_LOW_DV() is twice IXGBE_LOW_DV_X540(). */
static uint64_t low_water_bits(const struct headroom_in *in)
{
	uint64_t frame_bits = (in->port_mtu + FRAME_EXTRA) * 8ull, x540 = 2 * frame_bits + 36ull * PCI_BITS / 25 + 1;

	return is_x540(in) ? x540 : 2 * x540;
}

static uint64_t delay_bits(const struct headroom_in *in, uint64_t frame_bits, struct headroom_result *r)
{
	bool copper = in->medium == HEADROOM_COPPER;
	uint64_t cable_per_100m = copper ? CABLE_COPPER : CABLE_OPTICAL, cable, interface, higher;
	uint64_t length_m = model_length_m(in, copper ? 5556 : 5000);

	cable = mul_div_up(cable_per_100m * length_m, in->rate_bps, REFERENCE_BPS * 100);
	interface = at_rate(in, is_x540(in) ? INTERFACE_X540 : INTERFACE_82599);
	higher = at_rate(in, HIGHER_BITS);
	term_bits(r, HEADROOM_BYTES, "max_frame", frame_bits, SOURCE_DV "a frame that the receiver had begun to send");
	term_bits(r, HEADROOM_BYTES, "pfc_frame", PFC_BITS, SOURCE_DV "IXGBE_PFC_D, the pause frame");
	term_bits(r, HEADROOM_BYTES, "cable", 2 * cable, SOURCE_DV "2 x IXGBE_CABLE_DO or _DC, there and back");
	term_bits(r, HEADROOM_BYTES, "interface", 2 * interface,
	          SOURCE_DV "2 x IXGBE_ID: MAC, XAUI and PHY of both ends");
	term_bits(r, HEADROOM_BYTES, "higher_layer", higher, SOURCE_DV "IXGBE_HD: the peer's MAC control");
	return frame_bits + PFC_BITS + 2 * cable + 2 * interface + higher;
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	uint64_t link_bits = (in->port_mtu + FRAME_EXTRA + FRAMING_EXTRA) * 8ull;
	uint64_t sum, dv, low = low_water_bits(in);

	(void)why;
	sum = delay_bits(in, link_bits, r);
	dv = 36 * sum / 25 + 1 + 2 * link_bits;
	model_term(r, HEADROOM_FACTOR, "packing", 1.44, SOURCE_DV "36/25: packets do not fill the buffer's units");
	term_bits(r, HEADROOM_NOTE, "max_frame_tc", 2 * link_bits,
	          SOURCE_DV "the packet that crossed the threshold and the one that the peer had begun");
	term_bits(r, HEADROOM_NOTE, "delay_value", sum + link_bits,
	          "802.1Q Annex O: 2 frames + 672 + 2 cable + 2 interface + higher layer, without packing");
	term_bits(r, HEADROOM_NOTE, "low_water", low,
	          "IXGBE_LOW_DV(), IXGBE_LOW_DV_X540(): frames and 10000 bit times of PCI");
	r->xoff = bits_to_kib(dv);
	r->xon = bits_to_kib(low);
	r->size = r->xoff + r->xon;
	model_thresholds(r, r->xon, r->size - r->xoff, r->xoff, r->size);
	return 0;
}

const struct headroom_model_ops model_annex_o = {
    .name = "annex-o",
    .source = "IEEE 802.1Q Annex O as in Linux drivers/net/ethernet/intel/ixgbe/ixgbe_type.h",
    .asic = "82599",
    .knows = HEADROOM_X_MEDIUM,
    .compute = compute,
};
