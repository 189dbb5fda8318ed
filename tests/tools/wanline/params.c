// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "units.h"

enum kind { K_DURATION, K_KM, K_RATE, K_BYTES, K_QUEUE, K_PROB, K_COUNT, K_REORDER };

struct key {
	const char *name;
	enum kind kind;
	size_t off;
	const char *example, *help;
};

#define OFF(f) offsetof(struct line_params, f)

static const struct key keys[] = {
    {"delay", K_DURATION, OFF(delay_ns), "1.5ms", "one-way delay of the fibre"},
    {"km", K_KM, OFF(delay_ns), "300", "the same as a distance, 5 us per km"},
    {"rate", K_RATE, OFF(rate_bps), "2G", "bits per second on the wire; 0: no limit"},
    {"overhead", K_BYTES, OFF(overhead_bytes), "24", "bytes that each frame costs besides itself"},
    {"queue", K_QUEUE, OFF(queue_bytes), "10ms", "room in front of the line, in time or bytes"},
    {"loss", K_PROB, OFF(loss), "0.1%", "share of frames lost"},
    {"burst", K_COUNT, OFF(loss_burst), "5", "mean length of a run of losses (Gilbert); 1: independent"},
    {"jitter", K_DURATION, OFF(jitter_ns), "100us", "random delay added, 0 to this; keeps the order"},
    {"reorder", K_REORDER, OFF(reorder), "1%,200us", "share of frames held back, and for how long"},
    {"dup", K_PROB, OFF(dup), "0.1%", "share of frames that come twice"},
    {"corrupt", K_PROB, OFF(corrupt), "1e-4", "share of frames with one bit flipped"},
};

void params_default(struct line_params p[DIR_COUNT])
{
	for (int i = 0; i < DIR_COUNT; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		p[i].queue_ns = 10 * NS_PER_MS;
		p[i].loss_burst = 1;
		p[i].overhead_bytes = 24;
	}
}

static const struct key *find(const char *name)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

bool params_known(const char *key)
{
	return find(key) != NULL;
}

static bool set_queue(struct line_params *p, const char *value)
{
	p->queue_bytes = 0;
	p->queue_ns = 0;
	return units_bytes(value, &p->queue_bytes) || units_duration(value, &p->queue_ns);
}

static bool set_reorder(struct line_params *p, const char *value)
{
	char share[32];
	const char *comma = strchr(value, ',');

	if (strcmp(value, "0") == 0) {
		p->reorder = 0;
		return true;
	}
	if (comma == NULL || (size_t)(comma - value) >= sizeof(share))
		return false;
	memcpy(share, value, (size_t)(comma - value));
	share[comma - value] = '\0';
	return units_probability(share, &p->reorder) && units_duration(comma + 1, &p->reorder_ns);
}

static bool set_km(void *field, const char *value)
{
	double km;

	if (!units_count(value, &km) || km > 1e6)
		return false;
	*(uint64_t *)field = (uint64_t)(km * (double)NS_PER_KM);
	return true;
}

static bool set_one(struct line_params *p, const struct key *k, const char *value)
{
	void *field = (char *)p + k->off;

	switch (k->kind) {
	case K_DURATION:
		return units_duration(value, field);
	case K_KM:
		return set_km(field, value);
	case K_RATE:
		return units_rate(value, field);
	case K_BYTES:
		return units_bytes(value, field);
	case K_QUEUE:
		return set_queue(p, value);
	case K_PROB:
		return units_probability(value, field);
	case K_COUNT:
		return units_count(value, field);
	case K_REORDER:
		return set_reorder(p, value);
	}
	return false;
}

bool params_set(struct line_params p[DIR_COUNT], const char *key, const char *value, char err[PARAMS_ERR_MAX])
{
	const struct key *k = find(key);
	int from = DIR_AB, to = DIR_BA;

	if (k == NULL) {
		snprintf(err, PARAMS_ERR_MAX, "\"%.64s\" is not a property of the line (see wanline --help)", key);
		return false;
	}
	if (strncmp(value, "ab:", 3) == 0)
		to = DIR_AB;
	else if (strncmp(value, "ba:", 3) == 0)
		from = DIR_BA;
	if (from == to)
		value += 3;
	for (int i = from; i <= to; i++) {
		if (set_one(&p[i], k, value))
			continue;
		snprintf(err, PARAMS_ERR_MAX, "%s: cannot make sense of \"%.64s\"; it looks like %s", key, value,
		         k->example);
		return false;
	}
	return true;
}

void params_help(FILE *f)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		fprintf(f, "  --%-8s %-10s %s\n", keys[i].name, keys[i].example, keys[i].help);
}

void params_describe(const struct line_params *p, char *buf, size_t cap)
{
	int n = snprintf(buf, cap, "%.3f ms (%.0f km)", (double)p->delay_ns / 1e6,
	                 (double)p->delay_ns / (double)NS_PER_KM);

	if (p->rate_bps != 0 && n >= 0 && (size_t)n < cap)
		n += snprintf(buf + n, cap - (size_t)n, ", %.3f Gbit/s", (double)p->rate_bps / 1e9);
	if (p->loss > 0 && n >= 0 && (size_t)n < cap)
		snprintf(buf + n, cap - (size_t)n, ", %.4g %% loss", p->loss * 100);
}
