/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd.h"

#include "check.h"
#include "world.h"

void crowd_mark(struct world *w)
{
	for (uint32_t i = 0; i < w->nconns; i++)
		w->conn[i].bytes_marked = conn_bytes_executed(&w->conn[i]);
	w->dropped_marked[0] = w->in[0].stats.overflowed;
	w->dropped_marked[1] = w->down[1][0].stats.overflowed;
}

void crowd_see(const struct world *w, struct crowd_seen *s)
{
	uint64_t least = UINT64_MAX;
	uint32_t n = 0, unpaired = 0;
	double squares = 0;

	*s = (struct crowd_seen){.dropped_in = w->in[0].stats.overflowed - w->dropped_marked[0],
	                         .dropped_out = w->down[1][0].stats.overflowed - w->dropped_marked[1]};
	for (uint32_t i = 0; i < w->nconns; i++) {
		uint64_t bytes = conn_bytes_executed(&w->conn[i]) - w->conn[i].bytes_marked;

		if (conn_bytes_executed(&w->conn[i]) == 0 && unpaired++ < w->cfg.crowd.unpaired_most)
			continue;
		n++;
		s->bytes += bytes;
		squares += (double)bytes * (double)bytes;
		least = bytes < least ? bytes : least;
	}
	s->jain = squares > 0 ? (double)s->bytes * (double)s->bytes / (n * squares) : 0;
	s->slowest = (double)least * n / ((double)s->bytes + 1);
}

static void on_from(void *obj, uint64_t arg)
{
	(void)arg;
	crowd_mark(obj);
}

static void on_to(void *obj, uint64_t arg)
{
	struct world *w = obj;
	const struct crowd_cfg *c = &w->cfg.crowd;
	struct crowd_seen s;
	double used;

	(void)arg;
	crowd_see(w, &s);
	if (s.dropped_in > c->drops_most || s.dropped_out > c->drops_most)
		check_fail(
		    w, "port-overrun", "dropped since %.1f ms: %llu at the port of edge A, %llu at that of the host",
		    (double)c->from_ns / 1e6, (unsigned long long)s.dropped_in, (unsigned long long)s.dropped_out);
	if (s.jain * 100 < c->jain_percent)
		check_fail(w, "unequal",
		           "since %.1f ms Jain's index of %u is %.2f, the slowest got %.0f %% of an equal share",
		           (double)c->from_ns / 1e6, w->nconns, s.jain, 100 * s.slowest);
	used = (double)s.bytes * 8e11 / (double)(c->to_ns - c->from_ns) / (double)w->cfg.wan.rate_bps;
	if (c->line_percent && used > c->line_percent)
		check_fail(w, "marks-ignored",
		           "since %.1f ms %.0f %% of the WAN was used, which marked %.0f %% of all datagrams",
		           (double)c->from_ns / 1e6, used, 100 * w->cfg.wan.mark);
}

void crowd_start(struct world *w)
{
	if (w->cfg.crowd.to_ns == 0)
		return;
	eventq_at(&w->q, w->cfg.crowd.from_ns, on_from, w, 0);
	eventq_at(&w->q, w->cfg.crowd.to_ns, on_to, w, 0);
}
