// SPDX-License-Identifier: Apache-2.0
#include "meter.h"

void meter_start(struct meter *m, uint64_t now_ns, uint64_t run_ns, uint64_t msgs, double warmup)
{
	*m = (struct meter){.first_ns = now_ns, .end_ns = UINT64_MAX};
	if (run_ns > 0) {
		m->warm_ns = now_ns + (uint64_t)((double)run_ns * warmup);
		m->end_ns = now_ns + run_ns;
	} else {
		m->warm_msgs = (uint64_t)((double)msgs * warmup);
	}
}

void meter_add(struct meter *m, uint64_t now_ns, uint64_t bytes)
{
	m->msgs++;
	m->bytes += bytes;
	if (now_ns < m->warm_ns || m->msgs <= m->warm_msgs) {
		m->first_ns = now_ns;
		m->first_bytes = m->bytes;
		m->first_msgs = m->msgs;
	} else if (now_ns <= m->end_ns) {
		m->last_ns = now_ns;
		m->last_bytes = m->bytes;
		m->last_msgs = m->msgs;
	}
}

static double seconds(const struct meter *m)
{
	return m->last_ns > m->first_ns ? (double)(m->last_ns - m->first_ns) * 1e-9 : 0;
}

double meter_gbps(const struct meter *m)
{
	double s = seconds(m);

	return s > 0 ? (double)(m->last_bytes - m->first_bytes) * 8e-9 / s : 0;
}

double meter_msgs_per_s(const struct meter *m)
{
	double s = seconds(m);

	return s > 0 ? (double)(m->last_msgs - m->first_msgs) / s : 0;
}
