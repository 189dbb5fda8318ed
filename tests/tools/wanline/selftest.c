// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "relay.h"
#include "selftest.h"
#include "spy.h"
#include "tests/tools/rcperf/pattern.h"
#include "units.h"

static int failures;

static void check(bool ok, const char *what, double got, double want)
{
	if (!ok)
		failures++;
	printf("  %-4s %-58s %.6g (expected %.6g)\n", ok ? "ok" : "FAIL", what, got, want);
}

/* --- the model, in virtual time --- */

#define MODEL_FRAMES 200000u
#define MODEL_LEN    1000u
#define MODEL_GAP_NS 10000u

struct tally {
	uint64_t out, overtaken, runs, wrong_bits;
	uint64_t first_due_ns, last_due_ns;
	double delay_sum_ns, delay_min_ns, delay_max_ns;
};

static void count_bits(struct tally *t, const uint8_t *got, uint32_t seq)
{
	uint8_t want[MODEL_LEN] = {0};

	memcpy(want + MODEL_LEN - sizeof(seq), &seq, sizeof(seq));
	for (uint32_t i = 0; i < MODEL_LEN; i++)
		t->wrong_bits += (uint64_t)__builtin_popcount((unsigned int)(got[i] ^ want[i]));
}

static void drain(struct line *l, uint64_t now_ns, struct tally *t, uint64_t *highest)
{
	struct line_out out[PORT_BATCH];
	uint32_t n, seq;

	while ((n = line_pop(l, now_ns, out, PORT_BATCH)) > 0) {
		for (uint32_t i = 0; i < n; i++) {
			double delay;

			memcpy(&seq, out[i].data + MODEL_LEN - sizeof(seq), sizeof(seq));
			if (l->p.corrupt <= 0) {
				delay = (double)out[i].due_ns - (double)seq * MODEL_GAP_NS;
				t->delay_sum_ns += delay;
				t->delay_min_ns = t->out == 0 || delay < t->delay_min_ns ? delay : t->delay_min_ns;
				t->delay_max_ns = delay > t->delay_max_ns ? delay : t->delay_max_ns;
				if (seq > *highest + 1)
					t->runs++;
				if (seq < *highest)
					t->overtaken++;
				else
					*highest = seq;
				count_bits(t, out[i].data, seq);
			} else {
				t->wrong_bits += 1; /* counted by the line: see model_corrupt() */
			}
			t->last_due_ns = out[i].due_ns;
			t->out++;
		}
		line_release(l);
	}
}

/* Feeds MODEL_FRAMES frames through a line and checks that every one is accounted for. */
static void model_run(const char *name, const struct line_params *p, uint64_t gap_ns, struct line_counters *n,
                      struct tally *t)
{
	uint8_t frame[MODEL_LEN] = {0};
	struct line_frame f = {.data = frame, .len = MODEL_LEN};
	uint64_t highest = 0, gone;
	struct line l;
	char text[96];

	memset(t, 0, sizeof(*t));
	if (line_init(&l, p, line_mem_needed(p), 7) < 0)
		abort();
	for (uint32_t seq = 0; seq < MODEL_FRAMES; seq++) {
		memcpy(frame + MODEL_LEN - sizeof(seq), &seq, sizeof(seq));
		line_push(&l, seq * gap_ns, &f);
		drain(&l, seq * gap_ns, t, &highest);
	}
	drain(&l, LINE_NEVER - 1, t, &highest);
	*n = l.n;
	gone = n->out_frames + n->lost_random + n->lost_queue + n->lost_cut + n->emu_no_room + n->emu_oversize;
	snprintf(text, sizeof(text), "%s: every frame is accounted for", name);
	check(gone == n->in_frames + n->duplicated && l.held == 0 && t->out == n->out_frames, text, (double)gone,
	      (double)(n->in_frames + n->duplicated));
	line_destroy(&l);
}

static bool near(double got, double want, double share)
{
	return fabs(got - want) <= want * share;
}

static struct line_params model_params(void)
{
	struct line_params p[DIR_COUNT];

	params_default(p);
	p[0].delay_ns = 1500 * NS_PER_US;
	return p[0];
}

static void model_loss(double loss, double burst)
{
	struct line_params p = model_params();
	struct line_counters n;
	struct tally t;
	double lost;

	p.loss = loss;
	p.loss_burst = burst;
	model_run("loss", &p, MODEL_GAP_NS, &n, &t);
	lost = (double)n.lost_random;
	check(near(lost / MODEL_FRAMES, loss, 0.15), "loss: share", lost / MODEL_FRAMES, loss);
	check(near(lost / (double)t.runs, burst, 0.1), "loss: mean length of a run", lost / (double)t.runs,
	      burst > 1 ? burst : 1 / (1 - loss));
	check(t.overtaken == 0 && t.wrong_bits == 0, "loss: the rest comes in order and whole", (double)t.overtaken, 0);
}

static void model_delay(void)
{
	struct line_params p = model_params();
	struct line_counters n;
	struct tally t;

	p.rate_bps = 1000000000;
	model_run("delay", &p, MODEL_GAP_NS, &n, &t);
	check(near(t.delay_min_ns, 1500000 + (MODEL_LEN + 24) * 8, 1e-9) && t.delay_max_ns <= t.delay_min_ns,
	      "delay and serialization of each frame, ns", t.delay_max_ns, 1500000 + (MODEL_LEN + 24) * 8);
	p.jitter_ns = 300 * NS_PER_US;
	model_run("jitter", &p, MODEL_GAP_NS, &n, &t);
	check(t.overtaken == 0 && t.delay_max_ns > t.delay_min_ns + 200000, "jitter: spread without overtaking, ns",
	      t.delay_max_ns - t.delay_min_ns, 300000);
}

static void model_rate(void)
{
	struct line_params p = model_params();
	struct line_counters n;
	struct tally t;
	double gbps;

	/* 8 Gbit/s offered to 1 Gbit/s with 2 ms of queue. */
	p.rate_bps = 1000000000;
	p.queue_ns = 2 * NS_PER_MS;
	model_run("rate", &p, 1000, &n, &t);
	gbps = (double)t.out * (MODEL_LEN + 24) * 8 / ((double)(t.last_due_ns - p.delay_ns));
	check(near(gbps, 1, 0.001), "rate: what comes out, Gbit/s on the wire", gbps, 1);
	check(n.lost_queue > MODEL_FRAMES * 8 / 10, "rate: the rest is dropped before the line", (double)n.lost_queue,
	      MODEL_FRAMES * 0.87);
}

static void model_disorder(void)
{
	struct line_params p = model_params();
	struct line_counters n;
	struct tally t;

	p.reorder = 0.02;
	p.reorder_ns = 100 * NS_PER_US;
	p.dup = 0.01;
	model_run("reorder, dup", &p, MODEL_GAP_NS, &n, &t);
	check(near((double)n.reordered, MODEL_FRAMES * 0.0202, 0.15), "reorder: frames held back", (double)n.reordered,
	      MODEL_FRAMES * 0.0202);
	check(near((double)t.overtaken, (double)n.reordered, 0.05), "reorder: frames that came too late",
	      (double)t.overtaken, (double)n.reordered);
	check(near((double)n.duplicated, MODEL_FRAMES * 0.01, 0.15), "dup: frames that came twice",
	      (double)n.duplicated, MODEL_FRAMES * 0.01);
	check(t.wrong_bits == 0, "reorder, dup: contents", (double)t.wrong_bits, 0);
}

static void model_corrupt(void)
{
	struct line_params p = model_params();
	struct line_counters n;
	struct tally t;

	p.corrupt = 0.01;
	model_run("corrupt", &p, MODEL_GAP_NS, &n, &t);
	check(near((double)n.corrupted, MODEL_FRAMES * 0.01, 0.15), "corrupt: frames", (double)n.corrupted,
	      MODEL_FRAMES * 0.01);
}

/* A packet to RoCEv2's port over IPv4, with a text in it; then the same to another port, and a frame cut short. */
static void model_spy(void)
{
	static const uint8_t headers[] = {
	    [12] = 0x08, [14] = 0x45, [23] = 17, [34] = 0xc0, [36] = 0x12, [37] = 0xb7, [41] = 0};
	uint8_t frame[64] = {0};
	struct line_frame f = {.data = frame, .len = sizeof(frame)};

	memcpy(frame, headers, sizeof(headers));
	memcpy(frame + 50, "secret", 6);
	check(!spy_is_payload(&f), "spy: no payload", spy_is_payload(&f), 0);
	check(spy_is_roce(&f) && spy_holds(&f, "secret"), "spy: RoCEv2 and a text", spy_is_roce(&f), 1);
	check(!spy_holds(&f, "secrets") && !spy_holds(&f, NULL), "spy: another text", 0, 0);
	frame[37]--;
	check(!spy_is_roce(&f), "spy: another port", spy_is_roce(&f), 0);
	frame[37]++;
	f.len = 36;
	check(!spy_is_roce(&f), "spy: a frame cut short", spy_is_roce(&f), 0);
}

/* rcperf's pattern, at an odd place of a longer frame; then one word of each three wrong. */
static void model_spy_payload(void)
{
	uint8_t frame[400] = {0};
	struct line_frame f = {.data = frame, .len = sizeof(frame)};
	uint64_t word = 12345;

	for (uint32_t at = 101; at + sizeof(word) <= 101 + 160; at += sizeof(word), word += PAT_WORD)
		memcpy(frame + at, &word, sizeof(word));
	check(spy_is_payload(&f), "spy: payload", spy_is_payload(&f), 1);
	for (uint32_t at = 101; at + sizeof(word) <= 101 + 160; at += 2 * sizeof(word))
		frame[at] ^= 1;
	check(!spy_is_payload(&f), "spy: not quite payload", spy_is_payload(&f), 0);
}

static void model(void)
{
	printf("The model, in virtual time:\n");
	model_delay();
	model_rate();
	model_loss(0.01, 1);
	model_loss(0.01, 6);
	model_disorder();
	model_corrupt();
	model_spy();
	model_spy_payload();
}

/* --- the clock, measured over real interfaces in a namespace of our own --- */

#define TEST_ETHERTYPE 0x88b5 /* IEEE local experimental */
#define TICK_NS        (200 * NS_PER_US)
#define LOAD_LEN       4150u /* a 4096-byte RoCE packet */

static const char topology[] = "ip link add wlgen mtu 9000 type veth peer name wla mtu 9000 && "
                               "ip link add wlb mtu 9000 type veth peer name wlsink mtu 9000 && "
                               "for i in wlgen wla wlb wlsink; do "
                               "echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; ip link set $i up; done";

struct trial {
	const char *name;
	double gbps; /* 0: one small frame per millisecond */
	uint64_t delay_ns;
};

struct result {
	uint64_t sent, got, sink_drops, early;
	struct line_counters n;
	struct hist error; /* of the delay, seen from outside */
	double gbps;
};

static void *line_thread(void *arg)
{
	relay_run(arg, 0);
	return NULL;
}

static uint64_t real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void sink(struct port *p, struct result *r, uint64_t delay_ns)
{
	struct line_frame f;
	uint64_t at_ns, sent_ns, error_ns;
	bool cut_short;

	while (port_next(p, &f, &at_ns, &cut_short)) {
		if (f.len > 22 && f.data[12] == TEST_ETHERTYPE >> 8) {
			memcpy(&sent_ns, f.data + 14, sizeof(sent_ns));
			error_ns = at_ns - sent_ns;
			hist_add(&r->error, error_ns > delay_ns ? error_ns - delay_ns : 0);
			r->early += error_ns < delay_ns;
			r->got++;
		}
		port_done(p);
	}
}

static uint32_t build_batch(uint8_t *mem, uint32_t len, uint32_t n, struct line_out *out)
{
	uint64_t now_ns = real_ns();

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *f = mem + (size_t)i * LOAD_LEN;

		memset(f, 0xff, 12);
		f[12] = TEST_ETHERTYPE >> 8;
		f[13] = TEST_ETHERTYPE & 0xff;
		memcpy(f + 14, &now_ns, sizeof(now_ns));
		out[i].data = f;
		out[i].len = len;
	}
	return n;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec ts = {0, (long)ns};

	nanosleep(&ts, NULL);
}

/* Sends at the trial's pace for `seconds`, then waits for the line to empty. */
static void generate(const struct trial *t, double seconds, struct port *gen, struct port *end, struct result *r)
{
	static uint8_t mem[PORT_BATCH * LOAD_LEN];
	struct line_out out[PORT_BATCH];
	uint32_t len = t->gbps > 0 ? LOAD_LEN : 200;
	uint64_t start_ns = relay_now_ns(), elapsed_ns;
	double per_ns = t->gbps > 0 ? t->gbps / 8 / len : 1e-6;

	while ((elapsed_ns = relay_now_ns() - start_ns) < (uint64_t)(seconds * 1e9)) {
		uint64_t owed = (uint64_t)((double)elapsed_ns * per_ns) - r->sent;

		if (owed > 4 * PORT_BATCH && t->gbps > 0) { /* we were late ourselves: do not catch up in one burst */
			start_ns += (uint64_t)((double)(owed - 4 * PORT_BATCH) / per_ns);
			owed = 4 * PORT_BATCH;
			seconds -= 1e-6;
		}
		while (owed > 0) {
			uint32_t most = t->gbps > 2 ? 16 : 4; /* few, for an exact time of sending */
			uint32_t n = owed < most ? (uint32_t)owed : most;

			r->sent += port_send(gen, out, build_batch(mem, len, n, out));
			owed -= n;
		}
		sink(end, r, t->delay_ns);
		sleep_ns(TICK_NS);
	}
	r->gbps = (double)r->sent * len * 8 / (double)(relay_now_ns() - start_ns);
	for (int i = 0; i < 50; i++) {
		sleep_ns(NS_PER_MS);
		sink(end, r, t->delay_ns);
	}
}

static bool run_trial(const struct trial *t, double seconds, struct result *r)
{
	static struct relay relay;
	struct relay_options o;
	struct port gen, end;
	volatile bool stop = false;
	pthread_t thread;
	char err[256];

	memset(r, 0, sizeof(*r));
	relay_options_default(&o);
	o.ifname[0] = "wla";
	o.ifname[1] = "wlb";
	o.params[DIR_AB].delay_ns = o.params[DIR_BA].delay_ns = t->delay_ns;
	if (relay_open(&relay, &o, err, sizeof(err)) < 0 || port_open(&gen, "wlgen", 64, err, sizeof(err)) < 0 ||
	    port_open(&end, "wlsink", 4096, err, sizeof(err)) < 0) {
		printf("  FAIL %s\n", err);
		failures++;
		return false;
	}
	relay.stop_flag = &stop;
	pthread_create(&thread, NULL, line_thread, &relay);
	sleep_ns(20 * NS_PER_MS);
	generate(t, seconds, &gen, &end, r);
	stop = true;
	pthread_join(thread, NULL);
	r->n = relay.line[DIR_AB].n;
	r->n.emu_ring_drops = port_drops(&relay.port[DIR_AB]);
	r->sink_drops = port_drops(&end);
	if (r->early > 0)
		failures++; /* a frame must never come early */
	relay_close(&relay);
	port_close(&gen);
	port_close(&end);
	return true;
}

static uint64_t lost_here(const struct result *r)
{
	return r->sent - r->got - r->sink_drops;
}

static void print_trial(const struct trial *t, const struct result *r)
{
	printf("  %-30s %5.2f Gbit/s; delay error us: p50 %.0f, p99 %.0f, worst %.0f; early %llu; lost here %llu of "
	       "%llu\n",
	       t->name, r->gbps, (double)hist_quantile(&r->error, 0.5) / 1e3,
	       (double)hist_quantile(&r->error, 0.99) / 1e3, (double)r->error.max_ns / 1e3,
	       (unsigned long long)r->early, (unsigned long long)lost_here(r), (unsigned long long)r->sent);
	if (lost_here(r) > 0)
		printf("      memory %llu, send %llu, not read in time %llu\n", (unsigned long long)r->n.emu_no_room,
		       (unsigned long long)r->n.emu_send_errors, (unsigned long long)r->n.emu_ring_drops);
}

static void precision(double seconds)
{
	static const struct trial trials[] = {
	    {"no delay, 1000 small frames/s", 0, 0},     {"300 km, 1000 small frames/s", 0, 1500 * NS_PER_US},
	    {"300 km, 1 Gbit/s", 1, 1500 * NS_PER_US},   {"300 km, 2 Gbit/s", 2, 1500 * NS_PER_US},
	    {"3000 km, 2 Gbit/s", 2, 15000 * NS_PER_US},
	};
	static struct result r;

	printf("The clock, measured from outside (kernel receive stamp - send time - delay), frames of %u bytes:\n",
	       LOAD_LEN);
	for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
		if (!run_trial(&trials[i], seconds, &r))
			return;
		print_trial(&trials[i], &r);
		if (r.got == 0)
			failures++;
	}
}

/* Rates doubled and then stepped until the emulator itself loses frames. */
static void top_rate(double seconds)
{
	static const double steps[] = {4, 6, 8, 10, 12, 16};
	static struct result r;
	double best = 0;

	printf("The top rate without a frame lost by the emulator (generator and sink on the same machine):\n");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct trial t = {"300 km", steps[i], 1500 * NS_PER_US};

		if (!run_trial(&t, seconds, &r))
			return;
		print_trial(&t, &r);
		if (lost_here(&r) > 0)
			break;
		best = r.gbps;
		if (r.gbps < steps[i] * 0.9)
			break; /* the generator is at its end, not the line */
	}
	printf("  top rate: %.1f Gbit/s\n", best);
}

int selftest(double seconds)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	model();
	if (seconds <= 0) {
		printf("%d failed\n", failures);
		return failures != 0;
	}
	if (unshare(CLONE_NEWNET) < 0) {
		printf("cannot measure: a network namespace: %s\n", strerror(errno));
		return 1;
	}
	if (system(topology) != 0) {
		printf("cannot measure: making the interfaces failed\n");
		return 1;
	}
	precision(seconds);
	top_rate(seconds / 2);
	printf("%d failed\n", failures);
	return failures != 0;
}
