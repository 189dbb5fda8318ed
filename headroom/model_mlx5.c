/* SPDX-License-Identifier: Apache-2.0 */
/* model_mlx5.c - what the Linux driver of ConnectX programs into the NIC.
 *
 * Source: Linux drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c, calculate_xoff() and
 * update_xoff_threshold(); en_dcbnl.c takes a cable length of 1 to 999 m and ignores any other. All in integers, with
 * the division where the driver has it. The driver gets the size of the buffer from the operator; where `buffer_bytes`
 * is not given it is twice the headroom, which leaves as much below XOFF as above and meets the driver's minimum.
 *
 * XON is below XOFF by the largest MTU that the port accepts, whatever its MTU is (netdev->max_mtu, 9216 at least, see
 * mlx5e_port_manual_buffer_config()): ConnectX reports 9978, which `ip -d link` shows as maxmtu. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "headroom/model.h"

#define SPEED_MIN_MBPS  40000u /* the driver's SPEED_40000 */
#define MAX_MTU         9978u  /* netdev->max_mtu of ConnectX; MINIMUM_MAX_MTU is below it */
#define CELL_BYTES      128u   /* where the NIC does not tell (MLX5E_BUFFER_CELL_SHIFT) */
#define LENGTH_LIMIT_M  1000u  /* MLX5E_MAX_CABLE_LENGTH */
#define SOURCE_FUNCTION "calculate_xoff(): "

static uint64_t headroom(const struct headroom_in *in, uint64_t length_m, struct headroom_result *r)
{
	uint64_t speed = in->rate_bps / 1000000, line, mtu;

	if (speed < SPEED_MIN_MBPS)
		speed = SPEED_MIN_MBPS;
	line = (301 + 216 * length_m / 100) * speed / 1000;
	mtu = 272ull * in->port_mtu / 100;
	model_term(r, HEADROOM_NOTE, "of_it_cable", (double)(216 * length_m / 100 * speed / 1000),
	           SOURCE_FUNCTION "2.16 bytes per metre and Gbit/s, in what follows");
	model_term(r, HEADROOM_BYTES, "line", (double)line,
	           SOURCE_FUNCTION "(301 + 2.16 x metres) x Gbit/s, at least 40 Gbit/s: cable, peer, PHY");
	model_term(r, HEADROOM_BYTES, "frames", (double)mtu,
	           SOURCE_FUNCTION "2.72 x MTU: the frames begun at both ends");
	return line + mtu;
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	uint64_t length_m = model_length_m(in, 5050), need, max_mtu, above;
	uint64_t cell = in->cell_bytes != 0 ? in->cell_bytes : CELL_BYTES;

	if (length_m < 1 || length_m >= LENGTH_LIMIT_M) {
		snprintf(why, HEADROOM_ERROR_MAX,
		         "the mlx5 driver ignores a cable length of %" PRIu64 " m: it accepts 1 to 999 m", length_m);
		return -ERANGE;
	}
	above = headroom(in, length_m, r);
	max_mtu = in->port_mtu > MAX_MTU ? in->port_mtu : MAX_MTU;
	need = above + max_mtu + cell;
	r->size = in->buffer_bytes != 0 ? in->buffer_bytes : 2 * above;
	if (r->size < need) {
		snprintf(why, HEADROOM_ERROR_MAX,
		         "the mlx5 driver refuses a lossless buffer of %" PRIu64 " bytes here: it needs %" PRIu64
		         " or more (headroom, largest MTU, one cell)",
		         r->size, need);
		return -ERANGE;
	}
	r->xoff = r->size - above;
	r->xon = r->xoff - max_mtu;
	model_term(r, HEADROOM_NOTE, "max_mtu", (double)max_mtu, "update_xoff_threshold(): xon is this far below xoff");
	model_thresholds(r, r->xon, r->xoff, above, r->size);
	return 0;
}

const struct headroom_model_ops model_mlx5 = {
    .name = "mlx5",
    .source = "Linux drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c",
    .knows = HEADROOM_X_BUFFER,
    .compute = compute,
};
