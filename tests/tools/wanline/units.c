// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

struct unit {
	const char *suffix;
	double factor;
};

static bool parse(const char *text, const struct unit *units, double max, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !isfinite(v) || v < 0)
		return false;
	for (; units->suffix != NULL; units++) {
		if (strcmp(end, units->suffix) != 0)
			continue;
		*out = v * units->factor;
		return *out <= max;
	}
	return false;
}

static bool parse_u64(const char *text, const struct unit *units, uint64_t *out)
{
	double v;

	if (!parse(text, units, 1e18, &v))
		return false;
	*out = (uint64_t)(v + 0.5);
	return true;
}

bool units_duration(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"km", (double)NS_PER_KM},
	                                    {NULL, 0}};

	if (strcmp(text, "0") == 0) {
		*ns = 0;
		return true;
	}
	return parse_u64(text, units, ns);
}

bool units_rate(const char *text, uint64_t *bps)
{
	static const struct unit units[] = {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {NULL, 0}};

	return parse_u64(text, units, bps);
}

bool units_bytes(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {{"", 1},       {"k", 0x1p10}, {"K", 0x1p10},
	                                    {"M", 0x1p20}, {"G", 0x1p30}, {NULL, 0}};

	return parse_u64(text, units, bytes);
}

bool units_probability(const char *text, double *p)
{
	static const struct unit units[] = {{"", 1}, {"%", 0.01}, {NULL, 0}};

	return parse(text, units, 1.0, p);
}

bool units_count(const char *text, double *n)
{
	static const struct unit units[] = {{"", 1}, {NULL, 0}};

	return parse(text, units, 1e12, n);
}
