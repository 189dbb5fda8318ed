/* SPDX-License-Identifier: Apache-2.0 */
/* stage_cost.c - laps between stages, summed up by turn. */
#include "stage_cost.h"

#include <string.h>

static const struct {
	const char *name;
	enum stage of;
} stages[STAGE_COUNT] = {
#define X(e, name, of, text) {name, STAGE_##of},
    STAGES(X)
#undef X
};

const char *stage_name(enum stage s)
{
	return (unsigned)s < STAGE_COUNT ? stages[s].name : "";
}

bool stage_has_packets(enum stage s, enum stage *of)
{
	if ((unsigned)s >= STAGE_TIMERS)
		return false;
	*of = stages[s].of;
	return true;
}

double stage_ns(const struct stage_costs *c, uint64_t ticks)
{
	return c->running_ticks ? (double)ticks * ((double)c->running_ns / (double)c->running_ticks) : 0;
}

void stage_meter_start(struct stage_meter *m, uint64_t now_ns)
{
	*m = (struct stage_meter){.started_ns = now_ns, .started_ticks = ticks_now(), .stage = STAGE_REST};
}

void stage_meter_read(const struct stage_meter *m, uint64_t now_ns, struct stage_costs *c)
{
	*c = m->sums;
	c->running_ns = now_ns - m->started_ns;
	c->running_ticks = ticks_now() - m->started_ticks;
}

void stage_turn_begin(struct stage_meter *m)
{
	m->began_ticks = ticks_now();
	m->sampled = m->sums.turns++ % STAGE_EVERY == 0;
	if (!m->sampled)
		return;
	memset(m->ticks, 0, sizeof(m->ticks));
	memset(m->packets, 0, sizeof(m->packets));
	m->lap_ticks = m->began_ticks;
	m->stage = STAGE_REST;
}

void stage_lap(struct stage_meter *m, enum stage s)
{
	uint64_t now = ticks_now();

	if (now > m->lap_ticks) /* a thread that moves to another processor may see its counter a little behind */
		m->ticks[m->stage] += now - m->lap_ticks;
	m->lap_ticks = now;
	m->stage = s;
}

void stage_turn_end(struct stage_meter *m, bool worked)
{
	struct stage_costs *c = &m->sums;
	uint64_t now = ticks_now(), took = now > m->began_ticks ? now - m->began_ticks : 0;

	if (!worked)
		return;
	c->busy_turns++;
	c->busy_ticks += took;
	if (!m->sampled)
		return;
	stage_lap(m, STAGE_REST);
	c->sampled_turns++;
	c->sampled_ticks += took;
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		c->ticks[s] += m->ticks[s];
		c->packets[s] += m->packets[s];
	}
}
