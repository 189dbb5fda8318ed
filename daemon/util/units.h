/* SPDX-License-Identifier: Apache-2.0 */
/* units.h - numbers with units: reading what people write, writing what people read.
 *
 * units_read_X() reads a whole string; -EINVAL if it is no such quantity, -ERANGE if it does not fit in 64 bits or is
 * finer than the base unit. Spaces between number and unit are allowed, signs and exponents are not. units_write_X() is
 * exact and can be read back; units_show_X() is rounded to three digits, for tables. */
#ifndef DAEMON_UNITS_H
#define DAEMON_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT_MAX 32 /* enough for any of the texts below */

int units_read_rate(const char *text, uint64_t *bps);    /* 100G, 2.5Gbit/s, 400Gbps: powers of 1000 */
int units_read_distance(const char *text, uint64_t *m);  /* 300km, 40m */
int units_read_time(const char *text, uint64_t *ns);     /* 1.5ms, 30us, 1s, 100ns */
int units_read_bytes(const char *text, uint64_t *bytes); /* 9KiB, 64M (powers of 1024), 1GB (10^9), 512B */
int units_read_count(const char *text, uint64_t *count); /* 64 */

void units_write_rate(char *buf, size_t cap, uint64_t bps);
void units_write_distance(char *buf, size_t cap, uint64_t m);
void units_write_time(char *buf, size_t cap, uint64_t ns);
void units_write_bytes(char *buf, size_t cap, uint64_t bytes);
void units_write_count(char *buf, size_t cap, uint64_t count);

const char *units_show_rate(char buf[UNITS_TEXT_MAX], double bps);    /* 13.7 Gbit/s */
const char *units_show_bytes(char buf[UNITS_TEXT_MAX], double bytes); /* 1.20 GiB */
const char *units_show_time(char buf[UNITS_TEXT_MAX], double ns);     /* 3.01 ms */
const char *units_show_distance(char buf[UNITS_TEXT_MAX], double m);  /* 300 km */

#endif
