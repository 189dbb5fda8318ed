/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Model flows (flow.h) over one bottleneck, each sending all that its congestion control lets it.
 *
 *   beside    One of ours and a CUBIC or a BBR (version 1), on a line that changes once. Its queue holds two products of
 *             the larger rate and the larger round trip. What was queued before the step goes at the old rate; from
 *             SETTLE_RTTS round trips after that, at least SETTLE_NS,
 *                 the two together have WANT of the line in the first FIRST_NS, and until END_NS, and the neighbour
 *                 has KEEPS of it until END_NS: the means of all seeds;
 *                 and in no WINDOW_NS less than KEEPS of its half, or, if that is less, than half of what it has there
 *                 at least beside one of its own kind. BBR keeps a least round trip for ten seconds, and on a longer
 *                 way it sends next to nothing until then: its windows begin there;
 *                 of ours, less than WANT_LOST get lost.
 *             From the step on the two have less than half of the line for no longer than HALF_NS.
 *             A seed says who comes first.
 *   autos     Several of ours, as the links of one NIC: to one site, or to sites at different distances, one after the
 *             other or all at once. The line is full, and the least of them has EVEN of an equal share, or FAR of it where
 *             one way is many times as long as another.
 */
#include "beside.h"

#include <stdio.h>
#include <string.h>

#include "flow.h"

#define MBIT        1000000ull
#define MSEC        1000000ull
#define SEC         1000000000ull
#define STEP_NS     (20 * SEC)
#define END_NS      (60 * SEC)
#define LATER_NS    (2 * SEC)
#define SLICE_NS    (100 * MSEC)
#define SLICES      (END_NS / SLICE_NS)
#define SETTLE_RTTS 20
#define SETTLE_NS   (1 * SEC)
#define FIRST_NS    (10 * SEC)
#define WINDOW_NS   (10 * SEC)
#define FOUND_NS    (10 * SEC)
#define WANT        0.9
#define KEEPS       0.3
#define WANT_LOST   0.05
#define HALF_NS     (2 * SEC)
#define SEEDS       4
#define BURST_NS    20000
#define AUTOS_MOST  FLOWS_RUN_MAX
#define EVEN        0.6
#define FAR         0.3

struct line {
	uint64_t bps, rtt_ns;
};

static const struct step {
	const char *name;
	struct line before, after;
	uint64_t queue_bytes; /* 0: two products */
	double lost;          /* 0: WANT_LOST */
	bool drowned; /* the queue holds 250 products of the later line, two seconds: only means are judged */
} steps[] = {
    {.name = "rate-1000-500", .before = {1000 * MBIT, 10 * MSEC}, .after = {500 * MBIT, 10 * MSEC}},
    {.name = "rate-1000-100", .before = {1000 * MBIT, 10 * MSEC}, .after = {100 * MBIT, 10 * MSEC}},
    {.name = "rate-1000-10", .before = {1000 * MBIT, 10 * MSEC}, .after = {10 * MBIT, 10 * MSEC}, .drowned = true},
    {.name = "rate-1000-10-short",
     .before = {1000 * MBIT, 10 * MSEC},
     .after = {10 * MBIT, 10 * MSEC},
     .queue_bytes = 250000,
     .lost = 0.1}, /* of 28 datagrams that fit into the queue ours never has fewer than four in flight */
    {.name = "rate-500-1000", .before = {500 * MBIT, 10 * MSEC}, .after = {1000 * MBIT, 10 * MSEC}},
    {.name = "rate-100-1000", .before = {100 * MBIT, 10 * MSEC}, .after = {1000 * MBIT, 10 * MSEC}},
    {.name = "rate-10-1000", .before = {10 * MBIT, 10 * MSEC}, .after = {1000 * MBIT, 10 * MSEC}},
    {.name = "delay-5-10", .before = {400 * MBIT, 5 * MSEC}, .after = {400 * MBIT, 10 * MSEC}},
    {.name = "delay-10-5", .before = {400 * MBIT, 10 * MSEC}, .after = {400 * MBIT, 5 * MSEC}},
    {.name = "delay-1-10", .before = {400 * MBIT, 1 * MSEC}, .after = {400 * MBIT, 10 * MSEC}},
    {.name = "delay-10-1", .before = {400 * MBIT, 10 * MSEC}, .after = {400 * MBIT, 1 * MSEC}},
    {.name = "delay-1-100", .before = {400 * MBIT, 1 * MSEC}, .after = {400 * MBIT, 100 * MSEC}},
    {.name = "delay-100-1", .before = {400 * MBIT, 100 * MSEC}, .after = {400 * MBIT, 1 * MSEC}},
};

static const struct flow_cc *const neighbours[] = {&flow_cubic, &flow_bbr};

static const struct autos {
	const char *name;
	uint64_t bps;
	uint32_t n;
	uint64_t rtt_ns[AUTOS_MOST];
	uint64_t later_ns; /* each after the one before it */
	double queue;      /* products of the longest */
	double least;      /* of an equal share */
} autos[] = {
    {"autos-one-site", 1000 * MBIT, 4, {10 * MSEC, 10 * MSEC, 10 * MSEC, 10 * MSEC}, 0, 1, EVEN},
    {"autos-one-by-one", 1000 * MBIT, 4, {10 * MSEC, 10 * MSEC, 10 * MSEC, 10 * MSEC}, 3 * SEC, 1, EVEN},
    {"autos-short-queue", 1000 * MBIT, 4, {10 * MSEC, 10 * MSEC, 10 * MSEC, 10 * MSEC}, 0, 0.25, EVEN},
    {"autos-long-queue", 1000 * MBIT, 4, {10 * MSEC, 10 * MSEC, 10 * MSEC, 10 * MSEC}, 0, 4, EVEN},
    {"autos-two-sites", 10000 * MBIT, 4, {3 * MSEC, 3 * MSEC, 10 * MSEC, 10 * MSEC}, 0, 1, FAR},
    {"autos-far-sites", 1000 * MBIT, 4, {3 * MSEC, 10 * MSEC, 30 * MSEC, 100 * MSEC}, 0, 1, FAR},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct eventq queue;
static struct link wire;
static struct flow flow[FLOWS_RUN_MAX];
static struct flow_cfg cfg[FLOWS_RUN_MAX];
static uint64_t more_ns[FLOWS_RUN_MAX]; /* of each, its way back is longer than the wire */
static uint64_t got[FLOWS_RUN_MAX][SLICES];

/* --- a run --- */

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static double min_of(double a, double b)
{
	return a < b ? a : b;
}

static void on_packet(void *obj, struct pkt *p)
{
	(void)obj;
	flow_arrived(&flow[flow_of_pkt(p)], p);
}

static void measure_way(struct flow *f)
{
	f->back_ns = wire.cfg.delay_ns + more_ns[f->id];
	f->rtt_ns = wire.cfg.delay_ns + f->back_ns;
}

static void start(void *obj, uint64_t i)
{
	(void)obj;
	flow_start(&flow[i], &cfg[i], &queue, &wire);
	measure_way(&flow[i]);
}

static void begin(const struct line *l, uint64_t queue_bytes, uint32_t seed)
{
	struct link_cfg c = {.rate_bps = l->bps,
	                     .delay_ns = l->rtt_ns / 2,
	                     .overhead_bytes = FLOW_OVERHEAD,
	                     .queue_bytes = queue_bytes};

	eventq_reset(&queue);
	link_init(&wire, &c, &queue, 1 + seed, on_packet, NULL);
	memset(flow, 0, sizeof(flow));
	memset(more_ns, 0, sizeof(more_ns));
}

static void add(uint8_t i, const struct flow_cc *cc, uint64_t ceiling_bps, uint32_t seed, uint64_t at_ns)
{
	cfg[i] = (struct flow_cfg){
	    .id = i, .cc = cc, .ceiling_bps = ceiling_bps, .burst_ns = BURST_NS, .seed = seed};
	eventq_at(&queue, at_ns, start, NULL, i);
}

static void run_slice(size_t s, uint32_t n)
{
	uint64_t before[FLOWS_RUN_MAX];

	for (uint32_t i = 0; i < n; i++)
		before[i] = flow[i].delivered;
	while (queue.n && queue.heap[0].when_ns <= (s + 1) * SLICE_NS)
		eventq_step(&queue);
	for (uint32_t i = 0; i < n; i++)
		got[i][s] = flow[i].delivered - before[i];
}

static void end(uint32_t n)
{
	link_drain(&wire);
	for (uint32_t i = 0; i < n; i++)
		flow_end(&flow[i]);
}

/* Of the line, in slices from one to before another. */
static double share(uint32_t i, size_t from, size_t to, uint64_t bps)
{
	uint64_t n = 0;

	for (size_t s = from; s < to; s++)
		n += got[i][s];
	return (double)(n * FLOW_WIRE) * 8e9 / (double)((to - from) * SLICE_NS) / (double)bps;
}

/* --- beside a neighbour --- */

struct seen {
	double ours, theirs; /* means until the end */
	double first;        /* the same of both, in the first seconds */
	double window;       /* least of theirs in one */
	double lost;         /* most, of ours */
	uint64_t half_ns;           /* longest */
};

static void step_line(const struct line *l)
{
	wire.cfg.rate_bps = l->bps;
	wire.cfg.delay_ns = l->rtt_ns / 2;
	measure_way(&flow[0]);
	measure_way(&flow[1]);
}

static bool finds_late(const struct step *m, const struct flow_cc *cc)
{
	return cc == &flow_bbr && m->after.rtt_ns > m->before.rtt_ns;
}

static size_t settled(const struct step *m, uint64_t queued_ns)
{
	uint64_t ns = STEP_NS + queued_ns + max_of(SETTLE_RTTS * m->after.rtt_ns, SETTLE_NS);

	return (ns + SLICE_NS - 1) / SLICE_NS;
}

static void see(struct seen *v, const struct step *m, size_t from)
{
	size_t theirs = from + (finds_late(m, flow[1].cc) ? FOUND_NS / SLICE_NS : 0);
	uint64_t bps = m->after.bps, half_ns = 0;
	size_t window = WINDOW_NS / SLICE_NS, first = FIRST_NS / SLICE_NS;

	v->ours += share(0, from, SLICES, bps) / SEEDS;
	v->theirs += share(1, from, SLICES, bps) / SEEDS;
	v->first += (share(0, from, from + first, bps) + share(1, from, from + first, bps)) / SEEDS;
	for (size_t s = theirs; s + window <= SLICES; s++)
		v->window = min_of(v->window, share(1, s, s + window, bps));
	for (size_t s = from - SETTLE_NS / SLICE_NS; s < SLICES; s++) {
		half_ns = share(0, s, s + 1, bps) + share(1, s, s + 1, bps) < 0.5 ? half_ns + SLICE_NS : 0;
		v->half_ns = max_of(v->half_ns, half_ns);
	}
}

static void run_seed(struct seen *v, const struct step *m, const struct flow_cc *cc[2], uint32_t seed)
{
	uint64_t bps = max_of(m->before.bps, m->after.bps), rtt_ns = max_of(m->before.rtt_ns, m->after.rtt_ns);
	uint64_t queued_ns, lost = 0, delivered = 0;
	size_t s, from = SLICES;

	begin(&m->before, m->queue_bytes ? m->queue_bytes : 2 * bps / 8000 * (rtt_ns / 1000) / 1000, seed);
	for (uint8_t i = 0; i < 2; i++)
		add(i, cc[i], 4 * bps, seed, i == seed % 2 ? LATER_NS + seed * MSEC : 0);
	for (s = 0; s < SLICES; s++) {
		if (s == STEP_NS / SLICE_NS) {
			queued_ns = max_of(link_free_ns(&wire), queue.now_ns) - queue.now_ns;
			from = settled(m, queued_ns);
			step_line(&m->after);
		}
		if (s == from) {
			lost = flow[0].lost;
			delivered = flow[0].delivered;
		}
		run_slice(s, 2);
	}
	see(v, m, from);
	lost = flow[0].lost - lost;
	delivered = flow[0].delivered - delivered;
	if ((double)lost / (double)(lost + delivered + 1) > v->lost)
		v->lost = (double)lost / (double)(lost + delivered + 1);
	end(2);
}

static struct seen run_seeds_of(const struct step *m, const struct flow_cc *one, const struct flow_cc *other)
{
	struct seen v = {.window = 1};
	const struct flow_cc *cc[2] = {one, other};

	for (uint32_t seed = 0; seed < SEEDS; seed++)
		run_seed(&v, m, cc, seed);
	return v;
}

static bool run_step(const struct step *m, const struct flow_cc *neighbour, const char *name)
{
	struct seen v = run_seeds_of(m, &flow_auto, neighbour), kind = run_seeds_of(m, neighbour, neighbour);
	double window = min_of(KEEPS / 2, kind.window / 2);
	double both = v.ours + v.theirs, lost = m->lost > 0 ? m->lost : WANT_LOST;
	bool calm = m->drowned || (v.window >= window && v.lost < lost);
	bool ok = both >= WANT && v.first >= WANT && v.theirs >= KEEPS && calm && v.half_ns <= HALF_NS;

	printf("%-27s %s keeps %.2f, wanted %.1f; in %llu s at least %.3f, wanted %.3f; ours %.2f, both %.2f, at first %.2f, "
	       "wanted %.1f; lost of ours %5.2f %%, wanted less than %.0f%s; below half for %.1f s, at most %.1f: %s\n",
	       name, neighbour->name, v.theirs, KEEPS, (unsigned long long)(WINDOW_NS / SEC), v.window, window, v.ours, both,
	       v.first, WANT, 100 * v.lost, 100 * lost, m->drowned ? " (of both: elsewhere)" : "",
	       (double)v.half_ns / 1e9, (double)HALF_NS / 1e9, ok ? "ok" : "MISSED");
	return ok;
}

/* --- several of ours --- */

static bool run_autos(const struct autos *a)
{
	uint64_t nearest_ns = UINT64_MAX, farthest_ns = 0;
	double all = 0, least = 1;
	bool ok;

	for (uint32_t i = 0; i < a->n; i++) {
		nearest_ns = a->rtt_ns[i] < nearest_ns ? a->rtt_ns[i] : nearest_ns;
		farthest_ns = max_of(farthest_ns, a->rtt_ns[i]);
	}
	begin(&(struct line){a->bps, nearest_ns}, (uint64_t)(a->queue * (double)(a->bps / 8000 * (farthest_ns / 1000) / 1000)),
	      0);
	for (uint8_t i = 0; i < a->n; i++) {
		add(i, &flow_auto, 4 * a->bps, i, i * a->later_ns);
		more_ns[i] = a->rtt_ns[i] - nearest_ns;
	}
	for (size_t s = 0; s < SLICES; s++)
		run_slice(s, a->n);
	printf("%-27s", a->name);
	for (uint32_t i = 0; i < a->n; i++) {
		double part = share(i, STEP_NS / SLICE_NS, SLICES, a->bps);

		printf(" %.3f", part);
		all += part;
		least = min_of(least, part * a->n);
	}
	end(a->n);
	ok = all >= WANT && least >= a->least;
	printf(" of the line, together %.2f, wanted %.1f; the least has %.2f of an equal share, wanted %.1f: %s\n", all, WANT,
	       least, a->least, ok ? "ok" : "MISSED");
	return ok;
}

/* --- which --- */

#define STEPS_ALL (COUNT(steps) * COUNT(neighbours))

const char *beside_name(size_t i)
{
	static char name[64];

	if (i >= STEPS_ALL)
		return i < STEPS_ALL + COUNT(autos) ? autos[i - STEPS_ALL].name : NULL;
	snprintf(name, sizeof(name), "beside-%s-%s", neighbours[i % COUNT(neighbours)]->name,
	         steps[i / COUNT(neighbours)].name);
	return name;
}

bool beside_run(size_t i)
{
	bool ok = i >= STEPS_ALL
	              ? run_autos(&autos[i - STEPS_ALL])
	              : run_step(&steps[i / COUNT(neighbours)], neighbours[i % COUNT(neighbours)], beside_name(i));

	fflush(stdout);
	return ok;
}
