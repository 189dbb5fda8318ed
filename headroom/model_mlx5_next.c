/* SPDX-License-Identifier: Apache-2.0 */
/* model_mlx5_next.c - what the next Linux driver of ConnectX will program.
 *
 * Source: NVIDIA's NIC kernel (github.com/Mellanox/nic-kernel) mlx5/core/en/port_buffer.c,
 * mlx5e_calculate_buf_sz_and_thresholds(): it sets the buffer's size itself and knows quanta and cells. In integers,
 * with the division where the driver has it; the driver then rounds each value up to whole cells. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "headroom/model.h"

#define CABLE_FACTOR       1262u /* 1000 x there and back x 10^9 / (198 x 10^6 m/s x 8) */
#define CABLE_ACCURACY     1000u
#define CELL_ACCURACY      100u
#define INTER_PACKET_GAP   20u
#define SMALL_BYTES        64u
#define CELL_DEFAULT_BYTES 128u /* where the NIC does not tell (MLX5E_BUFFER_CELL_SHIFT) */
#define LENGTH_MAX_M       1000u
#define SOURCE_FUNCTION    "mlx5e_calculate_buf_sz_and_thresholds(): "

/* mlx5e_pause_quanta_tbl: the first whose speed is not below the port's, else the last. */
static uint32_t pause_quanta(uint64_t speed_mbps)
{
	static const struct {
		uint32_t mbps, quanta;
	} table[] = {
	    {25000, 80}, {40000, 118}, {100000, 394}, {200000, 453}, {400000, 905}, {800000, 1810}, {1600000, 3620},
	};
	size_t i = 0;

	while (i < sizeof(table) / sizeof(table[0]) - 1 && speed_mbps > table[i].mbps)
		i++;
	return table[i].quanta;
}

static int compute(const struct headroom_in *in, struct headroom_result *r, char *why)
{
	uint64_t length_m = model_length_m(in, 5050), speed = in->rate_bps / 1000000, cable, mac, factor, above;
	uint64_t cell = in->cell_bytes != 0 ? in->cell_bytes : CELL_DEFAULT_BYTES, mtu = in->port_mtu;

	if (length_m < 1 || length_m > LENGTH_MAX_M) {
		snprintf(why, HEADROOM_ERROR_MAX,
		         "the mlx5 driver refuses a cable length of %" PRIu64 " m: it accepts 1 to %u m", length_m,
		         LENGTH_MAX_M);
		return -ERANGE;
	}
	cable = length_m * (speed / 1000) * CABLE_FACTOR / CABLE_ACCURACY;
	mac = (uint64_t)(in->peer_quanta != 0 ? in->peer_quanta : pause_quanta(speed)) * QUANTUM_BYTES;
	factor = cell * CELL_ACCURACY / (INTER_PACKET_GAP + SMALL_BYTES);
	above = (cable + 2 * mac + mtu) * factor / CELL_ACCURACY + mtu;
	model_term(r, HEADROOM_BYTES, "cable_len_bytes", (double)cable,
	           SOURCE_FUNCTION "there and back at 198000 km/s");
	model_term(r, HEADROOM_BYTES, "mac_rsp_time_bytes", (double)(2 * mac),
	           SOURCE_FUNCTION "pause quanta of 802.3 31B.3.7 at both ends");
	model_term(r, HEADROOM_BYTES, "oper_mtu", (double)mtu,
	           SOURCE_FUNCTION "a frame that the receiver had begun to send");
	model_term(r, HEADROOM_FACTOR, "cell_factor", (double)factor / CELL_ACCURACY,
	           SOURCE_FUNCTION "a cell over a 64-byte packet with its gap of 20");
	model_term(r, HEADROOM_NOTE, "oper_mtu_last", (double)mtu, SOURCE_FUNCTION "the frame that the peer had begun");
	r->xon = above - mtu + speed / 8;
	r->xoff = r->xon + 2 * mtu;
	r->size = above + r->xoff;
	model_term(r, HEADROOM_NOTE, "one_microsecond", (double)(speed / 8),
	           SOURCE_FUNCTION "xon is a headroom and this");
	model_thresholds(r, r->xon, r->xoff, above, r->size);
	return 0;
}

const struct headroom_model_ops model_mlx5_next = {
    .name = "mlx5-next",
    .source = "Mellanox/nic-kernel drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c",
    .knows = HEADROOM_X_QUANTA,
    .compute = compute,
};
