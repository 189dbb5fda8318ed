/* SPDX-License-Identifier: Apache-2.0 */
/* units.c - numbers with units. */
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Largest first. The first name of a size is the one written. */
struct unit {
	const char *name;
	uint64_t size;
};

#define KILO 1000ull
#define MEGA (1000 * KILO)
#define GIGA (1000 * MEGA)
#define TERA (1000 * GIGA)
#define KIBI 1024ull
#define MEBI (1024 * KIBI)
#define GIBI (1024 * MEBI)
#define TEBI (1024 * GIBI)

static const struct unit rate_units[] = {
    {"T", TERA}, {"G", GIGA}, {"M", MEGA}, {"k", KILO}, {"K", KILO}, {"", 1}, {NULL, 0},
};
static const char *const rate_endings[] = {"", "bit/s", "bit", "bps", "b/s", NULL};

static const struct unit distance_units[] = {{"km", KILO}, {"m", 1}, {NULL, 0}};

static const struct unit time_units[] = {
    {"s", GIGA},         {"ms", MEGA}, {"us", KILO}, {"\xc2\xb5s", KILO}, /* micro sign */
    {"\xce\xbcs", KILO},                                                  /* Greek mu */
    {"ns", 1},           {NULL, 0},
};

static const struct unit byte_units[] = {
    {"TiB", TEBI}, {"T", TEBI},   {"TB", TERA}, {"GiB", GIBI}, {"G", GIBI}, {"GB", GIGA}, {"MiB", MEBI}, {"M", MEBI},
    {"MB", MEGA},  {"KiB", KIBI}, {"K", KIBI},  {"kB", KILO},  {"B", 1},    {"", 1},      {NULL, 0},
};

static const struct unit count_units[] = {{"", 1}, {NULL, 0}};
static const char *const no_endings[] = {"", NULL};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A decimal number as digits * 10^-places: exact, no floating point. */
struct decimal {
	uint64_t digits;
	unsigned places;
};

static int add_digit(struct decimal *d, char c)
{
	if (__builtin_mul_overflow(d->digits, 10u, &d->digits) ||
	    __builtin_add_overflow(d->digits, (uint64_t)(c - '0'), &d->digits))
		return -ERANGE;
	return 0;
}

/* Returns where the number ends, NULL if there is none; *err says -ERANGE of too many digits. */
static const char *read_decimal(const char *s, struct decimal *d, int *err)
{
	*d = (struct decimal){0};
	*err = 0;
	if (!is_digit(*s))
		return NULL;
	for (; is_digit(*s); s++)
		if (add_digit(d, *s) < 0)
			*err = -ERANGE;
	if (*s != '.')
		return s;
	if (!is_digit(*++s))
		return NULL;
	for (; is_digit(*s); s++, d->places++)
		if (add_digit(d, *s) < 0)
			*err = -ERANGE;
	return s;
}

/* The unit that `name` is, with one of the endings; NULL if none. */
static const struct unit *find_unit(const char *name, const struct unit *units, const char *const *endings)
{
	for (const struct unit *u = units; u->name != NULL; u++) {
		size_t n = strlen(u->name);

		if (strncmp(name, u->name, n) != 0)
			continue;
		for (const char *const *e = endings; *e != NULL; e++)
			if (strcmp(name + n, *e) == 0)
				return u;
	}
	return NULL;
}

static int scale(const struct decimal *d, uint64_t size, uint64_t *value)
{
	__uint128_t v = (__uint128_t)d->digits * size;

	for (unsigned i = 0; i < d->places; i++) {
		if (v % 10 != 0)
			return -ERANGE;
		v /= 10;
	}
	if (v > UINT64_MAX)
		return -ERANGE;
	*value = (uint64_t)v;
	return 0;
}

static int read_quantity(const char *text, const struct unit *units, const char *const *endings, uint64_t *value)
{
	const struct unit *u;
	struct decimal d;
	const char *end;
	int err;

	end = read_decimal(text, &d, &err);
	if (end == NULL)
		return -EINVAL;
	while (*end == ' ')
		end++;
	u = find_unit(end, units, endings);
	if (u == NULL)
		return -EINVAL;
	return err < 0 ? err : scale(&d, u->size, value);
}

int units_read_rate(const char *text, uint64_t *bps)
{
	return read_quantity(text, rate_units, rate_endings, bps);
}

int units_read_distance(const char *text, uint64_t *m)
{
	return read_quantity(text, distance_units, no_endings, m);
}

int units_read_time(const char *text, uint64_t *ns)
{
	return read_quantity(text, time_units, no_endings, ns);
}

int units_read_bytes(const char *text, uint64_t *bytes)
{
	return read_quantity(text, byte_units, no_endings, bytes);
}

int units_read_count(const char *text, uint64_t *count)
{
	return read_quantity(text, count_units, no_endings, count);
}

/* In the largest unit of the table that divides the value; `step` tells the family of sizes that may be written. */
static void write_quantity(char *buf, size_t cap, uint64_t value, const struct unit *units)
{
	const struct unit *u = units;

	while (u[1].name != NULL && (value < u->size || value % u->size != 0))
		u++;
	snprintf(buf, cap, "%" PRIu64 "%s", value / u->size, u->name);
}

void units_write_rate(char *buf, size_t cap, uint64_t bps)
{
	write_quantity(buf, cap, bps, rate_units);
}

void units_write_distance(char *buf, size_t cap, uint64_t m)
{
	write_quantity(buf, cap, m, distance_units);
}

void units_write_time(char *buf, size_t cap, uint64_t ns)
{
	write_quantity(buf, cap, ns, time_units);
}

void units_write_bytes(char *buf, size_t cap, uint64_t bytes)
{
	write_quantity(buf, cap, bytes, byte_units);
}

void units_write_count(char *buf, size_t cap, uint64_t count)
{
	write_quantity(buf, cap, count, count_units);
}

/* Three digits and a unit out of `names`, which go up by `step`, beginning with the base unit. */
static const char *show(char *buf, double v, double step, const char *const *names)
{
	while (names[1] != NULL && v >= step * 0.9995) {
		v /= step;
		names++;
	}
	snprintf(buf, UNITS_TEXT_MAX, "%.*f %s", v >= 99.95 || v < 0.0005 ? 0 : v >= 9.995 ? 1 : 2, v, names[0]);
	return buf;
}

const char *units_show_rate(char buf[UNITS_TEXT_MAX], double bps)
{
	static const char *const names[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", NULL};

	return show(buf, bps, 1000, names);
}

const char *units_show_bytes(char buf[UNITS_TEXT_MAX], double bytes)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL};

	return show(buf, bytes, 1024, names);
}

const char *units_show_time(char buf[UNITS_TEXT_MAX], double ns)
{
	static const char *const names[] = {"ns", "us", "ms", "s", NULL};

	return show(buf, ns, 1000, names);
}

const char *units_show_distance(char buf[UNITS_TEXT_MAX], double m)
{
	static const char *const names[] = {"m", "km", NULL};

	return show(buf, m, 1000, names);
}
