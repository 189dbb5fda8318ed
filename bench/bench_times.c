/* SPDX-License-Identifier: Apache-2.0 */
/* bench_times.c - latencies of messages, without the moments in which this machine stood still.
 *
 *     bench_times watch FILE                       records when a processor stood still, until SIGTERM; root
 *     bench_times quantiles STALLS MS TIMES...     prints "n p50 p99 p99.9 left-out", in us, of all TIMES together
 *
 * Theory of operation
 *
 * When a hypervisor takes a processor away, or the kernel uses the processor, its processes wait, sometimes for tens of
 * milliseconds, and about every second on a small virtual machine. The 99.9th percentile of any latency there shows
 * only these stalls. To find the stalls, a thread of the highest priority on each processor wakes up every LOOK_NS: if
 * the thread wakes up late by STALL_NS, no process could run.
 *
 * The time when a message was due decides whether the message is left out, not its latency: a message is left out if it
 * was due between MS milliseconds (the latency without losses) before a stall and AFTER_NS after the stall, when
 * delayed messages have left. So the same part of each system's messages is left out, slow or fast. A line of STALLS is
 * "from to", a line of TIMES "due done", both CLOCK_MONOTONIC in nanoseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS  500000ull
#define STALL_NS 1000000ull
#define AFTER_NS 5000000ull

struct span {
	uint64_t from_ns, to_ns;
};

struct spans {
	struct span *v;
	size_t n, room;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_times: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* --- watching --- */

static FILE *stalls_out;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *watch_cpu(void *arg)
{
	const struct sched_param first = {.sched_priority = 90};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)(uintptr_t)arg, &set);
	errno = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (!errno)
		errno = pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
	if (errno)
		die("cannot run first on each processor");
	for (;;) {
		uint64_t due = now_ns() + LOOK_NS, now;
		struct timespec t = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		now = now_ns();
		if (now > due + STALL_NS)
			fprintf(stalls_out, "%" PRIu64 " %" PRIu64 "\n", due, now);
	}
	return NULL;
}

static int watch(const char *path)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t thread;

	stalls_out = fopen(path, "w");
	if (!stalls_out)
		die(path);
	setvbuf(stalls_out, NULL, _IOLBF, 0);
	for (long i = 0; i < cpus; i++) {
		errno = pthread_create(&thread, NULL, watch_cpu, (void *)(uintptr_t)i);
		if (errno)
			die("thread");
	}
	for (;;)
		pause();
}

/* --- quantiles --- */

static void add(struct spans *s, struct span span)
{
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 1024;
		s->v = realloc(s->v, s->room * sizeof(*s->v));
		if (!s->v)
			die("memory");
	}
	s->v[s->n++] = span;
}

static void read_spans(struct spans *s, const char *path)
{
	FILE *f = fopen(path, "r");
	struct span span;

	if (!f)
		die(path);
	while (fscanf(f, "%" SCNu64 " %" SCNu64, &span.from_ns, &span.to_ns) == 2)
		add(s, span);
	fclose(f);
}

static bool in_a_stall(const struct spans *stalls, uint64_t due_ns, uint64_t before_ns)
{
	for (size_t i = 0; i < stalls->n; i++)
		if (due_ns + before_ns >= stalls->v[i].from_ns && due_ns <= stalls->v[i].to_ns + AFTER_NS)
			return true;
	return false;
}

static int shorter(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	uint64_t tx = x->to_ns - x->from_ns, ty = y->to_ns - y->from_ns;

	return (tx > ty) - (tx < ty);
}

static double quantile_us(const struct spans *s, double q)
{
	const struct span *m = &s->v[(size_t)(q * (double)(s->n - 1))];

	return (double)(m->to_ns - m->from_ns) * 1e-3;
}

static int quantiles(const char *stalls_path, const char *ms, int n, char **path)
{
	struct spans stalls = {0}, all = {0}, kept = {0};
	uint64_t before_ns = (uint64_t)(strtod(ms, NULL) * 1e6);

	read_spans(&stalls, stalls_path);
	for (int i = 0; i < n; i++)
		read_spans(&all, path[i]);
	for (size_t i = 0; i < all.n; i++)
		if (!in_a_stall(&stalls, all.v[i].from_ns, before_ns))
			add(&kept, all.v[i]);
	if (kept.n == 0) {
		fprintf(stderr, "bench_times: none of %zu messages was due while this machine ran\n", all.n);
		return 1;
	}
	qsort(kept.v, kept.n, sizeof(kept.v[0]), shorter);
	printf("%zu %.0f %.0f %.0f %zu\n", kept.n, quantile_us(&kept, 0.5), quantile_us(&kept, 0.99),
	       quantile_us(&kept, 0.999), all.n - kept.n);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "watch") == 0)
		return watch(argv[2]);
	if (argc > 4 && strcmp(argv[1], "quantiles") == 0)
		return quantiles(argv[2], argv[3], argc - 4, argv + 4);
	fprintf(stderr, "usage: bench_times watch FILE | quantiles STALLS MS TIMES...\n");
	return 2;
}
