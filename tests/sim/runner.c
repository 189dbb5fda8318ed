/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"
#include "scenario.h"
#include "steps.h"

#define LOG_LINES 200
#define LOG_CAP   16384

struct run_totals {
	uint64_t seeds, packets, events, completions, given_up;
	uint64_t violations; /* with expect_failure: those that the fault is known by, of seeds that are sound without it */
	uint64_t others;     /* with expect_failure: all others */
	uint64_t first_violation; /* seed; UINT64_MAX: none */
	double took_s;
	struct steps_call most, longest;
};

static const struct world *guarded;

double run_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void run_report(const struct world *w, const char *text, bool direct)
{
	printf("\nSEED=%llu\n  %s\n  violated: %s\n  at %.6f ms, event %llu\n  replay: make sim SEED=%llu%s\n",
	       (unsigned long long)w->cfg.seed, text, w->violation, (double)w->q.now_ns / 1e6,
	       (unsigned long long)w->q.fired, (unsigned long long)w->cfg.seed,
	       direct ? "   (lrsim --direct --seeds)" : "");
	printf("  last packet events:\n");
	pktlog_print(&w->log, stdout, LOG_LINES);
	fflush(stdout);
}

static void on_crash_signal(int sig)
{
	if (guarded) {
		printf(
		    "\nSEED=%llu\n  violated: the process got signal %d\n  at %.6f ms\n  replay: make sim SEED=%llu\n",
		    (unsigned long long)guarded->cfg.seed, sig, (double)guarded->q.now_ns / 1e6,
		    (unsigned long long)guarded->cfg.seed);
		pktlog_print(&guarded->log, stdout, LOG_LINES);
		fflush(stdout);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

void run_guard(struct world *w)
{
	guarded = w;
	signal(SIGABRT, on_crash_signal);
	signal(SIGSEGV, on_crash_signal);
	signal(SIGBUS, on_crash_signal);
	signal(SIGFPE, on_crash_signal);
}

static void print_edge(const struct world *w, int site)
{
	const struct edge *e = &w->edge[site];

	printf("    edge %c:", 'A' + site);
	for (int c = 0; c < CTR_COUNT; c++)
		if (edge_counter(e, (enum proxy_counter)c))
			printf(" %s=%llu", proxy_counter_name((enum proxy_counter)c),
			       (unsigned long long)edge_counter(e, (enum proxy_counter)c));
	for (int d = 1; d < DROP_COUNT; d++)
		if (edge_drops(e, (enum proxy_drop)d))
			printf(" drop:%s=%llu", proxy_drop_name((enum proxy_drop)d),
			       (unsigned long long)edge_drops(e, (enum proxy_drop)d));
	putchar('\n');
}

static void print_seed(const struct world *w, const char *text, double took_s)
{
	printf("seed %llu: %s\n    done at %.3f ms, %llu events, %llu packets, %llu messages, %.3f s\n",
	       (unsigned long long)w->cfg.seed, text, (double)w->done_ns / 1e6, (unsigned long long)w->q.fired,
	       (unsigned long long)w->lan_pkts, (unsigned long long)w->completions, took_s);
	if (w->cfg.direct || w->edge[0].down || w->edge[1].down)
		return;
	print_edge(w, 0);
	print_edge(w, 1);
}

static void note_violation(struct run_totals *t, uint64_t seed)
{
	t->violations++;
	t->first_violation = seed < t->first_violation ? seed : t->first_violation;
}

static void end_world(struct world *w)
{
	world_end(w);
	if (pkt_live() != 0) {
		fprintf(stderr, "lrsim: seed %llu: the simulator itself has lost %zu packets\n",
		        (unsigned long long)w->cfg.seed, pkt_live());
		exit(2);
	}
}

/* A seed has failed as its faults must; it must be they that did it. */
static bool is_sound_without(struct world *w, uint64_t seed)
{
	struct fault_set set = faults_off();

	run_quietly(w, seed, 0);
	faults_on(&set);
	if (w->violation[0])
		printf("lrsim: seed %llu fails without a fault: %s\n", (unsigned long long)seed, w->violation);
	return !w->violation[0];
}

static void note_expected(struct world *w, uint64_t seed, struct run_totals *t)
{
	char violation[sizeof(w->violation)];

	memcpy(violation, w->violation, sizeof(violation));
	if (faults_show(violation) && is_sound_without(w, seed)) {
		note_violation(t, seed);
		printf("lrsim: seed %llu, as it must: %s\n", (unsigned long long)seed, violation);
		return;
	}
	t->others++;
	printf("lrsim: seed %llu, by no rule of the fault: %s\n", (unsigned long long)seed, violation);
}

static void run_one(struct world *w, uint64_t seed, const struct run_options *o, struct run_totals *t)
{
	struct scenario s;
	double start = run_seconds();

	scenario_make(&s, seed, o->direct);
	if (o->where && !strstr(s.text, o->where))
		return;
	world_start(w, &s.cfg);
	world_run(w);
	t->seeds++;
	t->packets += w->lan_pkts;
	t->events += w->q.fired;
	t->completions += w->completions;
	for (uint32_t i = 0; i < w->nconns; i++)
		t->given_up += w->conn[i].excused;
	if (o->verbose)
		print_seed(w, s.text, run_seconds() - start);
	if (w->violation[0] && !o->expect_failure) {
		note_violation(t, seed);
		run_report(w, s.text, o->direct);
	}
	end_world(w);
	if (w->violation[0] && o->expect_failure)
		note_expected(w, seed, t);
}

void run_quietly(struct world *w, uint64_t seed, uint64_t events_max)
{
	struct scenario s;

	scenario_make(&s, seed, false);
	s.cfg.events_max = events_max;
	world_start(w, &s.cfg);
	world_run(w);
	end_world(w);
}

static void progress(const struct run_options *o, uint64_t seed, const struct run_totals *t, double *next)
{
	double now = run_seconds();

	if (now < *next)
		return;
	*next = now + 2;
	fprintf(stderr, "lrsim: seed %llu of %llu..%llu, %llu packets, %llu violations\n", (unsigned long long)seed,
	        (unsigned long long)o->first, (unsigned long long)o->last, (unsigned long long)t->packets,
	        (unsigned long long)t->violations);
}

/* What the processes of a run know of each other. */
static struct shared {
	uint64_t first_failed; /* the first seed that failed in any part: none goes beyond it, unless all are wanted */
	uint64_t at[RUN_JOBS_MAX]; /* the seed that each is at */
	pid_t pid[RUN_JOBS_MAX];
} *shared;

static bool beyond_first(const struct run_options *o, uint64_t seed)
{
	return shared && !o->keep_going && seed > __atomic_load_n(&shared->first_failed, __ATOMIC_RELAXED);
}

static void note_failed(uint64_t seed)
{
	uint64_t was = shared ? __atomic_load_n(&shared->first_failed, __ATOMIC_RELAXED) : 0;

	while (seed < was && !__atomic_compare_exchange_n(&shared->first_failed, &was, seed, false, __ATOMIC_RELAXED,
	                                                  __ATOMIC_RELAXED))
		;
}

/* Every jobs-th seed, beginning with the part-th. */
static void run_part(const struct run_options *o, uint32_t part, struct run_totals *t)
{
	static struct world w;
	double next = run_seconds() + 2;

	pktlog_init(&w.log, LOG_CAP);
	w.log_packets = true;
	if (o->log_path)
		w.log.live = strcmp(o->log_path, "-") == 0 ? stdout : fopen(o->log_path, "w");
	run_guard(&w);
	for (uint64_t seed = o->first + part; seed <= o->last; seed += o->jobs) {
		if (beyond_first(o, seed))
			break;
		if (shared)
			shared->at[part] = seed;
		run_one(&w, seed, o, t);
		if (part == 0)
			progress(o, seed, t, &next);
		if (t->violations)
			note_failed(t->first_violation);
		if (t->violations && !o->keep_going)
			break;
	}
	world_free(&w);
	t->most = steps_most;
	t->longest = steps_longest;
}

static void add(struct run_totals *sum, const struct run_totals *t)
{
	sum->seeds += t->seeds;
	sum->packets += t->packets;
	sum->events += t->events;
	sum->completions += t->completions;
	sum->violations += t->violations;
	sum->others += t->others;
	sum->given_up += t->given_up;
	if (t->most.steps > sum->most.steps)
		sum->most = t->most;
	if (t->longest.ns > sum->longest.ns)
		sum->longest = t->longest;
	if (t->first_violation < sum->first_violation)
		sum->first_violation = t->first_violation;
}

/* In a child. */
static void run_part_for(const struct run_options *o, uint32_t part, int fd)
{
	struct run_totals t = {.first_violation = UINT64_MAX};

	run_part(o, part, &t);
	fflush(stdout);
	_exit(write(fd, &t, sizeof(t)) == (ssize_t)sizeof(t) ? 0 : 2);
}

/* A child has ended. False: not well; then its seed has failed, and it ends the others' way like any that does. */
static bool part_ended(const struct run_options *o, pid_t pid, int status)
{
	uint32_t part = 0;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	while (part + 1 < o->jobs && shared->pid[part] != pid)
		part++;
	note_failed(shared->at[part]);
	return false;
}

/* A child per part; each writes its totals into a pipe. False: one died. */
static bool run_children(const struct run_options *o, struct run_totals *sum)
{
	bool sound = true;
	int fd[2], status;

	if (pipe(fd) != 0)
		return false;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return false;
	shared->first_failed = UINT64_MAX;
	for (uint32_t part = 0; part < o->jobs; part++) {
		shared->pid[part] = fork();
		if (shared->pid[part] == 0)
			run_part_for(o, part, fd[1]);
	}
	for (uint32_t part = 0; part < o->jobs; part++) {
		pid_t pid = wait(&status);

		sound &= pid > 0 && part_ended(o, pid, status);
	}
	close(fd[1]);
	for (struct run_totals t; read(fd[0], &t, sizeof(t)) == (ssize_t)sizeof(t);)
		add(sum, &t);
	close(fd[0]);
	munmap(shared, sizeof(*shared));
	shared = NULL;
	return sound;
}

static int verdict(const struct run_options *o, const struct run_totals *t, bool sound)
{
	if (!o->expect_failure)
		return sound && t->violations == 0 ? 0 : 1;
	if (t->violations == 0) {
		printf("lrsim: the deliberate fault was not found in %llu seeds, of which %llu fail by other rules\n",
		       (unsigned long long)t->seeds, (unsigned long long)t->others);
		return 1;
	}
	printf("lrsim: the deliberate fault was found after %llu seeds (seed %llu)\n", (unsigned long long)t->seeds,
	       (unsigned long long)t->first_violation);
	return 0;
}

/* Runs the seeds until one fails (or all). False: a process died. */
static bool run_all(const struct run_options *o, struct run_totals *t)
{
	double start = run_seconds();
	bool sound = true;

	*t = (struct run_totals){.first_violation = UINT64_MAX};
	fflush(stdout);
	if (o->jobs > 1)
		sound = run_children(o, t);
	else
		run_part(o, 0, t);
	t->took_s = run_seconds() - start;
	return sound;
}

int run_seeds(const struct run_options *o)
{
	struct run_totals t;
	bool sound = run_all(o, &t);

	printf("lrsim: %llu seeds, %llu packets, %llu events, %llu messages, %llu connections given up, %.1f s, %llu "
	       "violations%s\n",
	       (unsigned long long)t.seeds, (unsigned long long)t.packets, (unsigned long long)t.events,
	       (unsigned long long)t.completions, (unsigned long long)t.given_up, t.took_s,
	       (unsigned long long)t.violations, sound ? "" : ", and a process died");
	if (o->verbose && t.most.what)
		printf("lrsim: most steps %llu (%s, %.1f us), longest call %.1f us (%s, %llu steps)\n",
		       (unsigned long long)t.most.steps, t.most.what, (double)t.most.ns / 1e3,
		       (double)t.longest.ns / 1e3, t.longest.what, (unsigned long long)t.longest.steps);
	return verdict(o, &t, sound);
}
