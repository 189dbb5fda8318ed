/* SPDX-License-Identifier: Apache-2.0 */
/* units.h - numbers with units, as people write them: 1.5ms, 300km, 2G, 64K, 0.1%. */
#ifndef WANLINE_UNITS_H
#define WANLINE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull
#define NS_PER_KM 5000ull /* light in glass, rounded as Cisco and ixgbe do: 5 us per km, one way */

/* Each returns false if the whole text is not a number with a unit that it knows. */
bool units_duration(const char *text, uint64_t *ns); /* s, ms, us, ns, km; a unit must be given, but for 0 */
bool units_rate(const char *text, uint64_t *bps);    /* bits per second: k, M, G in powers of ten */
bool units_bytes(const char *text, uint64_t *bytes); /* k/K, M, G in powers of two */
bool units_probability(const char *text, double *p); /* 0.001, 1e-3 or 0.1%; 0 to 1 */
bool units_count(const char *text, double *n);       /* a number of at least 0 */

#endif
