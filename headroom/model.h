/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - what the models share. For headroom/ alone. */
#ifndef HEADROOM_MODEL_H
#define HEADROOM_MODEL_H

#include "headroom/headroom.h"

#define QUANTUM_BYTES 64u /* 512 bit times */

struct headroom_model_ops {
	const char *name;
	const char *source;
	const char *asic;      /* default; NULL: none */
	uint32_t lossless_mtu; /* default; 0: the port's */
	int small_percent;     /* default */
	unsigned knows;        /* enum headroom_extra */
	/* `in` has no defaults left to fill in. */
	int (*compute)(const struct headroom_in *in, struct headroom_result *r, char *why);
};

extern const struct headroom_model_ops model_physics, model_sonic_mellanox, model_sonic_barefoot, model_annex_o,
    model_mlx5, model_mlx5_next, model_sonic_broadcom;

/* Adds a term and returns its value. */
double model_term(struct headroom_result *r, enum headroom_unit unit, const char *name, double value,
                  const char *source);

/* Fills in the fields of the result that follow from a fill, a headroom and the reserved part. */
void model_thresholds(struct headroom_result *r, uint64_t xon_fill, uint64_t xoff_fill, uint64_t headroom,
                      uint64_t reserved);

/* Length of the cable: as given, or from the measured round trip at `ps_per_m`, rounded up. */
uint64_t model_length_m(const struct headroom_in *in, uint64_t ps_per_m);

/* a * b / c, rounded up or down, in 128 bits. */
uint64_t mul_div_up(uint64_t a, uint64_t b, uint64_t c);
uint64_t mul_div_down(uint64_t a, uint64_t b, uint64_t c);

/* Rounded to what a double holds, so that no compiler fuses it into a multiply-add: sources that calculate in doubles
 * are followed operation by operation. */
double rounded(double x);

/* math.ceil() of what is not negative and below 2^53; no libm for that. */
double ceil_up(double x);

/* x up to a multiple of 1024, as Lua's math.ceil(x / 1024) * 1024. */
double ceil_kib(double x);

#endif
