/* SPDX-License-Identifier: Apache-2.0 */
/* quanta.c - how soon a port must stop after a pause frame. */
#include <stddef.h>

#include "headroom/headroom.h"

/* IEEE 802.3 31B.3.7, in quanta of 512 bit times; as sonic-swss buffer_headroom_mellanox.lua has it. At 800G that
 * script keeps 400G's 905; the Linux driver of model_mlx5_next.c doubles them, as the same time needs. */
static const struct {
	uint64_t rate_bps;
	uint32_t quanta;
} table[] = {
    {100000000ull, 1},      {1000000000ull, 2},     {10000000000ull, 67},   {25000000000ull, 80},
    {40000000000ull, 118},  {50000000000ull, 147},  {100000000000ull, 394}, {200000000000ull, 453},
    {400000000000ull, 905}, {800000000000ull, 905},
};

uint32_t headroom_quanta(uint64_t rate_bps)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].rate_bps == rate_bps)
			return table[i].quanta;
	return 0;
}
