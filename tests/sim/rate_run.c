/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Two model flows (flow.h) over one bottleneck, each sending all that its congestion control lets it; what each
 * delivers is counted after a warm-up. A *spot* is a line (rate, round trip) with a queue of so many bandwidth-delay
 * products. On each spot run, from the same seeds,
 *
 *     auto + auto     the larger may be APART above an equal share
 *     auto + cubic    auto has a quarter of the line at least; and cubic no less than BBR leaves it, or than half
 *                     (less NOISE: two CUBICs are further apart)
 *     auto + bbr      each has a quarter at least
 *     bbr + cubic     BBR (version 1): what auto is compared with
 *
 * A seed says who comes first and how much later the other one does: in every other one more than LATE_ROUNDS round
 * trips, when the first has the line and the queue to itself. What is held to the quarter and to APART is the worst of
 * all seeds, what cubic keeps is the mean of them.
 *
 * *late*: two of ours whose workers are woken late (flow.h), each by chances of its own, up to LATE_TIMES as often as the
 * other's. On two processors that others kept busy, 8 of 1000 wakings came more than 0.4 ms late, one in 1000 more than
 * 5 ms, and the latest 31 ms. The line is that of bench/bench_fair.sh. Shares swing for tens of seconds, so a minute
 * counts. Of an eighth of the seeds at most may the smaller have less than EVEN of the larger.
 *
 * Beside the spots: one alone, with random loss; and two where routers mark, to see that marks are obeyed. */
#include "rate_run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beside.h"
#include "flow.h"
#include "moving.h"

#define TRACE_NS    20000000ull
#define LATE_ROUNDS 30
#define APART       0.2
#define QUARTER     0.25
#define NOISE       0.02
#define MARKED      0.15 /* of all packets, where a queue marks ... */
#define MARKED_USED 0.9  /* ... and its line is to be used so far */
#define LATE_SEEDS  50
#define LATE_PPM    1000 /* of the wakings, at least; and at most so many times that: */
#define LATE_TIMES  10
#define EVEN        0.8
#define EVEN_MEAN   0.87
#define SPIN_NS     20000 /* burst of a worker that spins; of one that sleeps: */
#define SLEEP_NS    400000
#define MSEC        1000000ull
#define SEC         1000000000ull
#define MBIT        1000000ull

struct rate_line {
	const char *name;
	uint64_t bps, rtt_ns, warm_ns, run_ns;
	uint32_t seeds;      /* in "all"; 0: not there */
	uint32_t more_seeds; /* in "grid" */
};

static const struct rate_line lines[] = {
    {"200m-10ms", 200 * MBIT, 10 * MSEC, 10 * SEC, 60 * SEC, 4, 8},
    {"200m-100ms", 200 * MBIT, 100 * MSEC, 60 * SEC, 240 * SEC, 4, 8},
    {"1g-5ms", 1000 * MBIT, 5 * MSEC, 10 * SEC, 60 * SEC, 2, 8},
    {"1g-20ms", 1000 * MBIT, 20 * MSEC, 10 * SEC, 60 * SEC, 4, 8},
    {"1g-100ms", 1000 * MBIT, 100 * MSEC, 60 * SEC, 240 * SEC, 0, 8},
    {"10g-4ms", 10000 * MBIT, 4 * MSEC, 10 * SEC, 60 * SEC, 2, 4},
    {"10g-10ms", 10000 * MBIT, 10 * MSEC, 10 * SEC, 60 * SEC, 0, 4},
    {"10g-100ms", 10000 * MBIT, 100 * MSEC, 60 * SEC, 240 * SEC, 0, 2},
};

static const struct {
	const char *name;
	double bdps;
} buffers[] = {{"0.5bdp", 0.5}, {"1bdp", 1}, {"4bdp", 4}};

enum pair { AUTO_AUTO, AUTO_CUBIC, AUTO_BBR, BBR_CUBIC, PAIRS };

static const struct flow_cc *const pairs[PAIRS][2] = {[AUTO_AUTO] = {&flow_auto, &flow_auto},
                                                      [AUTO_CUBIC] = {&flow_auto, &flow_cubic},
                                                      [AUTO_BBR] = {&flow_auto, &flow_bbr},
                                                      [BBR_CUBIC] = {&flow_bbr, &flow_cubic}};

static const struct alone {
	const char *name;
	double bdps, loss, want;
} alone[] = {
    {"alone", 1, 0, 0.95},          {"alone-shallow", 0.25, 0, 0.95},          {"alone-loss0.1", 1, 0.001, 0.95},
    {"alone-loss1", 1, 0.01, 0.95}, {"alone-loss1-shallow", 0.25, 0.01, 0.90},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Two flows, or one, on a line. */
struct rate_case {
	char name[64];
	const struct rate_line *line;
	double bdps, loss, marks; /* marks: from that many products on, all from twice as many; 0: none */
	const struct flow_cc *cc[2]; /* the second may be NULL */
	bool late;
};

static struct eventq queue;
static struct link wire;
static struct flow flow[2];
static bool there[2];
static FILE *trace_file;
static bool tracing;

static void on_packet(void *obj, struct pkt *p)
{
	(void)obj;
	flow_arrived(&flow[flow_of_pkt(p)], p);
}

static struct flow_cfg cfg_of(const struct rate_case *r, uint32_t seed, uint8_t i)
{
	struct flow_cfg c = {
	    .id = i, .cc = r->cc[i], .ceiling_bps = 4 * r->line->bps, .burst_ns = SPIN_NS, .seed = seed};
	struct rng rng;

	if (!r->late)
		return c;
	rng_init(&rng, rng_hash(seed, i));
	c.ceiling_bps = r->line->bps;
	c.burst_ns = SLEEP_NS;
	c.lateness = (struct flow_lateness){
	    .usual_ns = MSEC / 10,
	    .share = (double)rng_log_range(&rng, LATE_PPM, (uint64_t)LATE_PPM * LATE_TIMES) / 1e6,
	    .least_ns = MSEC / 10,
	    .most_ns = 30 * MSEC};
	return c;
}

static void start(void *obj, uint64_t i)
{
	const struct flow_cfg *c = obj;

	there[i] = true;
	flow_start(&flow[i], &c[i], &queue, &wire);
}

static void trace(const struct rate_case *r, uint64_t *before)
{
	for (int i = 0; i < 2; i++) {
		const struct flow *f = &flow[i];
		bool mine = there[i] && f->cc == &flow_auto;

		if (!there[i])
			continue;
		fprintf(trace_file, "%s,%d,%s,%.6f,%.3f,%.3f,%.3f,%llu,%llu,%s\n", r->name, i, f->cc->name,
		        (double)queue.now_ns / 1e9,
		        (double)((f->delivered - before[i]) * FLOW_WIRE) * 8e3 / (double)TRACE_NS,
		        mine ? (double)atomic_load(&f->lr.pacer.rate_bps) / 1e6 : 0.0, (double)f->srtt_ns / 1e6,
		        (unsigned long long)f->in_flight * FLOW_WIRE, (unsigned long long)f->lost,
		        mine ? atomic_load(&f->lr.pacer.control.state_name) : "-");
		before[i] = f->delivered;
	}
}

static void run_until(const struct rate_case *r, uint64_t ns)
{
	static uint64_t next_ns, before[2];

	if (queue.now_ns == 0)
		next_ns = before[0] = before[1] = 0;
	while (queue.n && queue.heap[0].when_ns <= ns) {
		if (trace_file && tracing && queue.now_ns >= next_ns) {
			trace(r, before);
			next_ns = queue.now_ns + TRACE_NS;
		}
		eventq_step(&queue);
	}
}

/* When each of the two begins, by the seed. */
static void begins(const struct rate_line *l, uint32_t seed, uint64_t at_ns[2])
{
	struct rng rng;
	uint64_t later;

	rng_init(&rng, seed);
	later = rng_below(&rng, 2 * l->rtt_ns) + l->rtt_ns * (seed / 2 % 2 ? LATE_ROUNDS : 2);
	at_ns[seed % 2] = 0;
	at_ns[!(seed % 2)] = later;
}

/* Shares of the bottleneck after the warm-up. */
static void shares(const struct rate_case *r, uint32_t seed, double share[2])
{
	const struct rate_line *l = r->line;
	struct link_cfg c = {
	    .rate_bps = l->bps, .delay_ns = l->rtt_ns / 2, .overhead_bytes = FLOW_OVERHEAD, .loss = r->loss};
	const struct flow_cfg cfg[2] = {cfg_of(r, seed, 0), cfg_of(r, seed, 1)};
	uint64_t from[2] = {0, 0}, at_ns[2];

	c.queue_bytes = (uint64_t)(r->bdps * (double)l->bps / 8e9 * (double)l->rtt_ns);
	c.mark_from_bytes = (uint64_t)(r->marks * (double)l->bps / 8e9 * (double)l->rtt_ns);
	c.mark_to_bytes = 2 * c.mark_from_bytes;
	eventq_reset(&queue);
	link_init(&wire, &c, &queue, 1 + seed, on_packet, NULL);
	there[0] = there[1] = false;
	begins(l, r->cc[1] ? seed : 0, at_ns);
	for (uint64_t i = 0; i < 2 && r->cc[i]; i++)
		eventq_at(&queue, at_ns[i], start, (void *)(uintptr_t)cfg, i);
	run_until(r, l->warm_ns);
	for (int i = 0; i < 2 && r->cc[i]; i++)
		from[i] = flow[i].delivered;
	run_until(r, l->run_ns);
	for (int i = 0; i < 2; i++)
		share[i] = !r->cc[i] ? 0
		                     : (double)(flow[i].delivered - from[i]) * FLOW_WIRE * 8e9 /
		                           (double)(l->run_ns - l->warm_ns) / (double)l->bps;
	link_drain(&wire);
	for (int i = 0; i < 2 && r->cc[i]; i++)
		flow_end(&flow[i]);
}

/* --- a spot --- */

struct seen {
	double least[2], mean[2], apart; /* of each flow; most that the larger of the two was above an equal share */
};

static void see(struct seen *s, const double share[2], uint32_t seeds)
{
	double more = share[0] > share[1] ? share[0] : share[1], a = 2 * more / (share[0] + share[1]) - 1;

	for (int i = 0; i < 2; i++) {
		s->least[i] = share[i] < s->least[i] ? share[i] : s->least[i];
		s->mean[i] += share[i] / seeds;
	}
	s->apart = a > s->apart ? a : s->apart;
}

static struct seen run_pair(const struct rate_line *l, size_t buffer, enum pair pair, uint32_t seeds, bool verbose)
{
	struct rate_case r = {.line = l, .bdps = buffers[buffer].bdps, .cc = {pairs[pair][0], pairs[pair][1]}};
	struct seen s = {.least = {1, 1}};
	double share[2];

	for (uint32_t seed = 0; seed < seeds; seed++) {
		snprintf(r.name, sizeof(r.name), "%s-%s-%s-%s-%u", r.cc[0]->name, r.cc[1]->name, l->name,
		         buffers[buffer].name, seed);
		shares(&r, seed, share);
		see(&s, share, seeds);
		if (verbose)
			printf("  %-36s %s %5.1f %% %s %5.1f %%\n", r.name, r.cc[0]->name, 100 * share[0],
			       r.cc[1]->name, 100 * share[1]);
	}
	return s;
}

static bool verdict(bool ok)
{
	printf("%s", ok ? "" : " MISSED");
	return ok;
}

static bool run_spot(const struct rate_line *l, size_t buffer, uint32_t seeds, bool verbose)
{
	struct seen s[PAIRS];
	double bearable;
	bool ok = true;

	for (enum pair p = 0; p < PAIRS; p++)
		s[p] = run_pair(l, buffer, p, seeds, verbose);
	bearable = s[BBR_CUBIC].mean[1] < 0.5 - NOISE ? s[BBR_CUBIC].mean[1] : 0.5 - NOISE;
	printf("%-10s %-6s | auto+auto %4.1f %% apart, %4.1f %% of the line", l->name, buffers[buffer].name,
	       100 * s[AUTO_AUTO].apart, 100 * (s[AUTO_AUTO].mean[0] + s[AUTO_AUTO].mean[1]));
	ok &= verdict(s[AUTO_AUTO].apart <= APART);
	printf(" | cubic keeps %4.1f %% beside auto, %4.1f %% beside bbr", 100 * s[AUTO_CUBIC].mean[1],
	       100 * s[BBR_CUBIC].mean[1]);
	ok &= verdict(s[AUTO_CUBIC].mean[1] >= bearable);
	printf(" | beside cubic auto has %4.1f %% (bbr %4.1f %%)", 100 * s[AUTO_CUBIC].least[0],
	       100 * s[BBR_CUBIC].least[0]);
	ok &= verdict(s[AUTO_CUBIC].least[0] >= QUARTER);
	printf(" | beside bbr %4.1f %%, bbr %4.1f %%", 100 * s[AUTO_BBR].least[0], 100 * s[AUTO_BBR].least[1]);
	ok &= verdict(s[AUTO_BBR].least[0] >= QUARTER && s[AUTO_BBR].least[1] >= QUARTER);
	printf(" : %s\n", ok ? "ok" : "MISSED");
	fflush(stdout);
	return ok;
}

/* "auto-cubic-1g-20ms-4bdp": those two there, and only printed. */
static bool run_two(const char *name, const struct rate_line *l, size_t buffer)
{
	char two[64];

	for (enum pair p = 0; p < PAIRS; p++) {
		snprintf(two, sizeof(two), "%s-%s-%s-%s", pairs[p][0]->name, pairs[p][1]->name, l->name,
		         buffers[buffer].name);
		if (strcmp(name, two) == 0) {
			run_pair(l, buffer, p, l->more_seeds, true);
			return true;
		}
	}
	return false;
}

/* --- workers that are late --- */

static bool run_late(size_t buffer, uint32_t seeds, bool verbose)
{
	static const struct rate_line line = {"200m-20ms", 200 * MBIT, 20 * MSEC, 20 * SEC, 80 * SEC, 0, 0};
	struct rate_case r = {
	    .line = &line, .bdps = buffers[buffer].bdps, .cc = {&flow_auto, &flow_auto}, .late = true};
	double share[2], even, mean = 0, least = 1;
	uint32_t uneven = 0;
	bool ok;

	for (uint32_t seed = 0; seed < seeds; seed++) {
		snprintf(r.name, sizeof(r.name), "late-%s-%u", buffers[buffer].name, seed);
		shares(&r, seed, share);
		even = share[0] < share[1] ? share[0] / share[1] : share[1] / share[0];
		mean += even / seeds;
		least = even < least ? even : least;
		uneven += even < EVEN;
		if (verbose)
			printf("  %-16s %5.1f %% %5.1f %%\n", r.name, 100 * share[0], 100 * share[1]);
	}
	ok = mean >= EVEN_MEAN && 8 * uneven <= seeds;
	printf("late-%-15s auto+auto: the smaller by the larger %.2f, wanted %.2f; least %.2f; below %.2f in %u of %u, "
	       "at most an eighth: %s\n",
	       buffers[buffer].name, mean, EVEN_MEAN, least, EVEN, uneven, seeds, ok ? "ok" : "MISSED");
	return ok;
}

/* --- one alone --- */

static bool run_alone(const struct alone *a)
{
	static const struct rate_line line = {"1g-20ms", 1000 * MBIT, 20 * MSEC, 10 * SEC, 60 * SEC, 1, 1};
	struct rate_case r = {.line = &line, .bdps = a->bdps, .loss = a->loss, .cc = {&flow_auto, NULL}};
	double share[2];

	snprintf(r.name, sizeof(r.name), "%s", a->name);
	shares(&r, 0, share);
	printf("%-20s auto %5.1f %%; wanted %.0f %%: %s\n", a->name, 100 * share[0], 100 * a->want,
	       share[0] >= a->want ? "ok" : "MISSED");
	return share[0] >= a->want;
}

/* --- marks --- */

/* Two of ours on a line that would hold four products in its queue, and marks long before that. */
static bool run_marked(void)
{
	static const struct rate_line line = {"1g-20ms", 1000 * MBIT, 20 * MSEC, 10 * SEC, 60 * SEC, 1, 1};
	struct rate_case r = {
	    .name = "marked", .line = &line, .bdps = 4, .marks = 0.05, .cc = {&flow_auto, &flow_auto}};
	double share[2], marked;
	bool ok;

	shares(&r, 0, share);
	marked = (double)(flow[0].marked + flow[1].marked) / (double)(flow[0].narrived + flow[1].narrived);
	ok = marked <= MARKED && share[0] + share[1] >= MARKED_USED;
	printf("%-20s auto+auto %5.1f %% of the line, wanted %.0f %%; marked %4.1f %%, at most %.0f %%: %s\n", r.name,
	       100 * (share[0] + share[1]), 100 * MARKED_USED, 100 * marked, 100 * MARKED, ok ? "ok" : "MISSED");
	return ok;
}

/* --- which --- */

/* One line of output with its verdict. */
struct item {
	const struct alone *alone;    /* one alone; or */
	const struct rate_line *line; /* a spot: with that buffer; or */
	bool (*other)(size_t number); /* the run of that number in moving.c or beside.c; or */
	bool late;                    /* late workers: with that buffer; or, none of these: marks */
	size_t number;
	size_t buffer;
	uint32_t seeds;
	bool verbose;
};

#define OTHER_MAX 64

static struct item items[COUNT(alone) + 1 + (COUNT(lines) + 1) * COUNT(buffers) + 2 * OTHER_MAX];
static size_t nitems;

static bool run_item(const struct item *i)
{
	if (i->alone)
		return run_alone(i->alone);
	if (i->other)
		return i->other(i->number);
	if (i->late)
		return run_late(i->buffer, i->seeds, i->verbose);
	return i->line ? run_spot(i->line, i->buffer, i->seeds, i->verbose) : run_marked();
}

static bool chosen(const char *name, const char *all, const char *one)
{
	if (strcmp(name, "list") == 0)
		printf("%s\n", one);
	return strcmp(name, all) == 0 || strcmp(name, one) == 0;
}

static void choose_late(const char *name, const char *all)
{
	for (size_t b = 0; b < COUNT(buffers); b++) {
		char late[16];
		bool one;

		snprintf(late, sizeof(late), "late-%s", buffers[b].name);
		one = strcmp(name, late) == 0;
		if (chosen(name, all, late))
			items[nitems++] =
			    (struct item){.late = true,
			                  .buffer = b,
			                  .seeds = LATE_SEEDS,
			                  .verbose = one};
	}
}

static bool run_moving(size_t number)
{
	return moving_run(number, trace_file);
}

/* Those of another file, which `group` names all. */
static void choose_other(const char *name, const char *all, const char *group, const char *(*name_of)(size_t i),
                         bool (*run)(size_t i))
{
	for (size_t i = 0; name_of(i) && i < OTHER_MAX; i++)
		if (chosen(name, all, name_of(i)) || strcmp(name, group) == 0)
			items[nitems++] = (struct item){.other = run, .number = i};
}

/* False: there is none of that name. */
static bool choose(const char *name)
{
	bool found = strcmp(name, "list") == 0, grid = strcmp(name, "grid") == 0;
	const char *all = grid ? "grid" : "all";

	for (size_t i = COUNT(lines); i-- > 0;) /* those first that take long */
		for (size_t b = 0; b < COUNT(buffers); b++) {
			const struct rate_line *l = &lines[i];
			char spot[48];
			bool one;

			snprintf(spot, sizeof(spot), "%s-%s", l->name, buffers[b].name);
			one = strcmp(name, spot) == 0;
			found |= run_two(name, l, b);
			if (!chosen(name, all, spot) || (!one && !grid && !l->seeds))
				continue;
			items[nitems++] = (struct item){.line = l,
			                                .buffer = b,
			                                .seeds = one || grid ? l->more_seeds : l->seeds,
			                                .verbose = one};
		}
	choose_late(name, all);
	choose_other(name, all, "moving", moving_name, run_moving);
	choose_other(name, all, "beside", beside_name, beside_run);
	for (size_t i = 0; i < COUNT(alone); i++)
		if (chosen(name, all, alone[i].name))
			items[nitems++] = (struct item){.alone = &alone[i]};
	if (chosen(name, all, "marked"))
		items[nitems++] = (struct item){.alone = NULL};
	return found || nitems;
}

/* Each process takes the next item that nobody has. */
static bool run_items(_Atomic size_t *taken)
{
	bool ok = true;

	for (size_t i; (i = atomic_fetch_add(taken, 1)) < nitems;) {
		ok &= run_item(&items[i]);
		fflush(stdout);
	}
	return ok;
}

static bool run_in_jobs(uint32_t jobs)
{
	_Atomic size_t *taken =
	    mmap(NULL, sizeof(*taken), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool ok;
	int status;

	if (taken == MAP_FAILED) {
		perror("lrsim: mmap");
		exit(2);
	}
	fflush(stdout);
	for (uint32_t j = 1; j < jobs; j++)
		if (fork() == 0)
			_exit(run_items(taken) ? 0 : 1);
	ok = run_items(taken);
	for (uint32_t j = 1; j < jobs; j++)
		ok &= wait(&status) > 0 && status == 0;
	munmap(taken, sizeof(*taken));
	return ok;
}

static void trace_start(const char *path)
{
	trace_file = fopen(path, "w");
	if (!trace_file) {
		perror(path);
		exit(2);
	}
	tracing = true;
	fprintf(trace_file, "run,flow,control,s,mbit_s,pace_mbit_s,rtt_ms,in_flight_bytes,lost,state\n");
}

int rate_run(const char *name, uint32_t jobs, const char *trace_path)
{
	bool ok;

	if (trace_path)
		trace_start(trace_path);
	nitems = 0;
	if (!choose(name)) {
		fprintf(stderr, "lrsim: no rate run is called '%s'; try --rate list\n", name);
		return 2;
	}
	ok = run_in_jobs(trace_path ? 1 : jobs); /* one file, one writer */
	eventq_free(&queue);
	if (trace_file)
		fclose(trace_file);
	trace_file = NULL;
	return ok ? 0 : 1;
}
