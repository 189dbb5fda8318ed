/* SPDX-License-Identifier: Apache-2.0 */
/* asic.c - the devices that the models' sources have tables for.
 *
 * Spectrum: sonic-buildimage platform/mellanox/asic_table.j2. Its port_max_shp and port_reserved_shp are in cells:
 * sonic-swss buffer_check_headroom_mellanox.lua refuses a port whose shared headroom passes (port_max_shp +
 * port_reserved_shp) * cell_size. A Spectrum port has 8 lanes at most: of 50 Gbit/s in Spectrum-2 and -3, of 100 in
 * Spectrum-4; Spectrum-1 has four of 25. Of Spectrum-5 and -6 the fastest port is not known here. Tofino-2:
 * platform/barefoot/asic_table.j2; its 64 MB are Intel's product brief's. Jericho-2 and Tomahawk-5: the "xoff" of
 * ingress_lossless_pool in buffers_defaults_*.j2 of the boards in model_sonic_broadcom.c, which all ports share. 82599
 * and X540: Linux ixgbe_type.h, whose delays are in model_annex_o.c; their cells are not published. */
#include <string.h>

#include "headroom/headroom.h"

#define SPECTRUM(n, cell, pipeline, max_cells, max_gbps)                                                               \
	.generation = (n), .cell_bytes = (cell), .pipeline_kib = (pipeline), .mac_phy_kib = 0.8, .peer_kib = 3.8,      \
	.port_max_bytes = ((max_cells) + 20ull) * (cell), .port_max_bps = (max_gbps)*1000000000ull,                    \
	.model = HEADROOM_SONIC_MELLANOX

static const struct headroom_asic asics[] = {
    {.name = "spectrum", SPECTRUM(1, 96, 19, 8192, 100)},
    {.name = "spectrum-2", SPECTRUM(2, 144, 19, 8192, 400)},
    {.name = "spectrum-3", SPECTRUM(3, 144, 19, 8192, 400)},
    {.name = "spectrum-4", SPECTRUM(4, 192, 19, 8192, 800)},
    {.name = "spectrum-5", SPECTRUM(5, 192, 19, 6144, 0)},
    {.name = "spectrum-6", SPECTRUM(6, 256, 42, 6144, 0)},
    {.name = "tofino-2",
     .cell_bytes = 176,
     .pipeline_kib = 68,
     .mac_phy_kib = 0.8,
     .peer_kib = 9,
     .memory_bytes = 64ull << 20,
     .model = HEADROOM_SONIC_BAREFOOT},
    {.name = "jericho-2",
     .port_max_bytes = 793368576,
     .max_of_chip = true,
     .memory_bytes = 6441610000,
     .model = HEADROOM_SONIC_BROADCOM},
    {.name = "tomahawk-5",
     .cell_bytes = 254,
     .port_max_bytes = 33690560,
     .max_of_chip = true,
     .memory_bytes = 164619432,
     .model = HEADROOM_SONIC_BROADCOM},
    {.name = "82599", .model = HEADROOM_ANNEX_O},
    {.name = "x540", .model = HEADROOM_ANNEX_O},
    {.name = NULL},
};

const struct headroom_asic *headroom_asics(void)
{
	return asics;
}

const struct headroom_asic *headroom_asic_find(const char *name)
{
	if (strcmp(name, "spectrum-1") == 0)
		name = "spectrum";
	for (const struct headroom_asic *a = asics; a->name != NULL; a++)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}
