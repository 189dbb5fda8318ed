/* SPDX-License-Identifier: Apache-2.0 */
/* fec_config.h - FEC as an operator configures it, and FEC as it is in force on a path. */
#ifndef PROXY_FEC_CONFIG_H
#define PROXY_FEC_CONFIG_H

#include <stdint.h>

enum fec_mode { FEC_OFF, FEC_FIXED, FEC_AUTO };

struct fec_config {
	enum fec_mode mode;
	uint8_t k, m; /* FEC_FIXED: m repair datagrams for k others. 1..FEC_K_MAX, 1..FEC_M_MAX */
};

/* Groups of k datagrams with m repairs each; `depth` groups take turns. */
struct fec_plan {
	uint8_t k, m, depth; /* k 0: off */
};

#endif
