/* SPDX-License-Identifier: Apache-2.0 */
/* rccheck.c - options, the order of phases, the report. What is checked is told in rccheck.h. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rccheck.h"

const char *const phase_names[PHASES] = {"send", "write", "imm", "read", "fadd", "cas", "mix", "lat"};

const char *const break_names[BREAKS] = {"nothing", "byte", "order", "atomic", "late"};

static const char usage[] =
    "rccheck -S [-p PORT] [--timeout S]      wait for one client\n"
    "rccheck [options] ADDRESS               be the client\n"
    "  -p PORT       control connection and rdma_cm (18600)\n"
    "  -q N          queue pairs (1)            -n N   requests per round, phase and queue pair (64)\n"
    "  -r N          rounds per phase (1)       -d N   outstanding per queue pair (16)\n"
    "  -s BYTES      largest message (65536)    -m MTU path MTU (4096)\n"
    "  -t S          go on with rounds for so many seconds per phase\n"
    "  -P LIST       phases of send,write,imm,read,fadd,cas,mix,lat (all)\n"
    "  -b            both ways at once          -R     connect by rdma_cm\n"
    "  --fixed       every message -s bytes     --seed N\n"
    "  --same        every message of a queue pair has the same contents\n"
    "  --psn N       the first PSN, at both ends; not with -R (each its own, random)\n"
    "  --rnr         the receivers are slow\n"
    "  --early-acks  completions may come before the responder has executed\n"
    "  --lat-min US  no completion may come sooner than this\n"
    "  --lat-max US  the median latency of phase lat must not be above this\n"
    "  --stall S     give up when nothing moves for so long (40)\n"
    "  --timeout S   give up when not through after so long (300)\n"
    "  --ack-timeout E  4.096 us x 2^E (14)      --retry N, --rnr-retry N   before a queue pair gives up (7)\n"
    "  --drill refuse-busy|refuse-next|refuse-idle|tell|part   instead of phases; see rccheck.h\n"
    "  --refusal rkey|length|gone      what the drills refuse-* do (rkey)\n"
    "  --break byte|order|atomic|late  do this wrong, to see it found\n";

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void complain(struct check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->failures++ >= COMPLAINTS_MAX)
		return;
	printf("WRONG [%s, %s]: ", c->server ? "server" : "client", phase_names[c->phase]);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

void fatal(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	printf("FATAL: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n{\"verdict\":\"fatal\"}\n");
	fflush(stdout);
	_exit(1);
}

static void out_of_time(int sig)
{
	static const char text[] = "FATAL: not through in time\n{\"verdict\":\"timeout\"}\n";

	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(3);
	_exit(1);
}

bool is_initiator(const struct check *c)
{
	return !c->server || c->opt.bidir;
}

bool is_target(const struct check *c)
{
	return c->server || c->opt.bidir;
}

uint64_t cell_offset(const struct check *c, uint32_t qp, enum op op)
{
	if (op == OP_FADD_SHARED)
		qp = c->opt.qps;
	return c->at.cells + (uint64_t)qp * 64 + (op == OP_CAS ? 8 : 0);
}

static uint32_t parse_phases(char *list)
{
	uint32_t mask = 0;

	for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
		int i = 0;

		while (i < PHASES && strcmp(name, phase_names[i]) != 0)
			i++;
		if (i == PHASES)
			fatal("no such phase: %s", name);
		mask |= 1u << i;
	}
	return mask;
}

static uint32_t number(const char *text, uint32_t min, uint32_t max)
{
	char *end;
	unsigned long v = strtoul(text, &end, 0);

	if (!*text || *end || v < min || v > max)
		fatal("'%s' is not a number from %u to %u", text, min, max);
	return (uint32_t)v;
}

static uint32_t index_of(const char *name, const char *const *names, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	fatal("there is no '%s', only %s to %s", name, names[0], names[n - 1]);
}

struct arguments {
	const char *host;
	uint16_t port;
	uint32_t timeout_s;
};

enum {
	LONG_FIXED = 256,
	LONG_SEED,
	LONG_RNR,
	LONG_EARLY,
	LONG_LAT_MIN,
	LONG_LAT_MAX,
	LONG_STALL,
	LONG_TIMEOUT,
	LONG_ACK_TIMEOUT,
	LONG_BREAK,
	LONG_DRILL,
	LONG_REFUSAL,
	LONG_PSN,
	LONG_SAME,
	LONG_RETRY,
	LONG_RNR_RETRY
};

static const struct option long_options[] = {
    {"fixed", no_argument, NULL, LONG_FIXED},
    {"seed", required_argument, NULL, LONG_SEED},
    {"rnr", no_argument, NULL, LONG_RNR},
    {"early-acks", no_argument, NULL, LONG_EARLY},
    {"lat-min", required_argument, NULL, LONG_LAT_MIN},
    {"lat-max", required_argument, NULL, LONG_LAT_MAX},
    {"stall", required_argument, NULL, LONG_STALL},
    {"timeout", required_argument, NULL, LONG_TIMEOUT},
    {"ack-timeout", required_argument, NULL, LONG_ACK_TIMEOUT},
    {"retry", required_argument, NULL, LONG_RETRY},
    {"rnr-retry", required_argument, NULL, LONG_RNR_RETRY},
    {"break", required_argument, NULL, LONG_BREAK},
    {"drill", required_argument, NULL, LONG_DRILL},
    {"refusal", required_argument, NULL, LONG_REFUSAL},
    {"psn", required_argument, NULL, LONG_PSN},
    {"same", no_argument, NULL, LONG_SAME},
    {"server", no_argument, NULL, 'S'},
    {NULL, 0, NULL, 0},
};

static void long_option(struct options *o, struct arguments *a, int opt)
{
	switch (opt) {
	case LONG_FIXED:
		o->fixed_size = 1;
		break;
	case LONG_SEED:
		o->seed = number(optarg, 0, UINT32_MAX);
		break;
	case LONG_RNR:
		o->slow_receiver = 1;
		break;
	case LONG_EARLY:
		o->early_acks = 1;
		break;
	case LONG_LAT_MIN:
		o->lat_min_us = number(optarg, 0, UINT32_MAX);
		break;
	case LONG_LAT_MAX:
		o->lat_max_us = number(optarg, 0, UINT32_MAX);
		break;
	case LONG_STALL:
		o->stall_s = number(optarg, 1, 3600);
		break;
	case LONG_TIMEOUT:
		a->timeout_s = number(optarg, 1, 86400);
		break;
	case LONG_RETRY:
		o->retry = number(optarg, 0, 7);
		break;
	case LONG_RNR_RETRY:
		o->rnr_retry = number(optarg, 0, 7);
		break;
	case LONG_BREAK:
		o->misbehave = index_of(optarg, break_names, BREAKS);
		break;
	case LONG_DRILL:
		o->drill = index_of(optarg, drill_names, DRILLS);
		break;
	case LONG_REFUSAL:
		o->refusal = index_of(optarg, refusal_names, REFUSALS);
		break;
	case LONG_PSN:
		o->first_psn = number(optarg, 0, 0xffffff);
		break;
	case LONG_SAME:
		o->same = 1;
		break;
	case LONG_ACK_TIMEOUT:
		o->ack_timeout = number(optarg, 0, 31);
		break;
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static void parse(struct check *c, struct arguments *a, int argc, char **argv)
{
	struct options *o = &c->opt;
	int opt;

	while ((opt = getopt_long(argc, argv, "Sp:q:n:r:t:d:s:m:P:bR", long_options, NULL)) != -1) {
		switch (opt) {
		case 'S':
			c->server = true;
			break;
		case 'p':
			a->port = (uint16_t)number(optarg, 1, 65535);
			break;
		case 'q':
			o->qps = number(optarg, 1, QPS_MAX);
			break;
		case 'n':
			o->iters = number(optarg, 1, 1u << 20);
			break;
		case 'r':
			o->rounds = number(optarg, 1, 65535);
			break;
		case 't':
			o->seconds = number(optarg, 0, 3600);
			break;
		case 'd':
			o->depth = number(optarg, 2, DEPTH_MAX);
			break;
		case 's':
			o->size = number(optarg, MARKER_BYTES, 8u << 20);
			break;
		case 'm':
			o->mtu = number(optarg, 256, 4096);
			break;
		case 'P':
			o->phases = parse_phases(optarg);
			break;
		case 'b':
			o->bidir = 1;
			break;
		case 'R':
			o->cm = 1;
			break;
		default:
			long_option(o, a, opt);
		}
	}
	if (c->server != (optind == argc)) {
		fputs(usage, stderr);
		exit(2);
	}
	if (o->drill == DRILL_PART && !o->cm)
		fatal("the drill 'part' ends connections of rdma_cm: -R");
	if (o->same && o->phases & ~(1u << PHASE_SEND | 1u << PHASE_WRITE | 1u << PHASE_IMM | 1u << PHASE_LAT))
		fatal("--same goes with -P send,write,imm,lat: what the others do follows from their contents");
	a->host = argv[optind];
}

/* The client's options become the server's. */
static void agree(struct check *c, const struct arguments *a)
{
	struct ctl m = {.type = CTL_OPTIONS};

	_Static_assert(sizeof(c->opt) <= sizeof(m.w), "options fit into one message");
	if (c->server) {
		int listener = control_listen(a->port);

		c->control = control_accept(listener);
		close(listener);
		control_expect(c, CTL_OPTIONS, &m);
		memcpy(&c->opt, m.w, sizeof(c->opt));
		return;
	}
	c->control = control_connect(a->host, a->port, 20);
	memcpy(m.w, &c->opt, sizeof(c->opt));
	control_send(c, &m);
}

/* What the other side may read, under a key that is no phase's. */
static void fill_source(struct check *c)
{
	c->phase = PHASES;
	c->round = 0;
	for (uint32_t q = 0; q < c->opt.qps; q++)
		for (uint32_t i = 0; i < c->opt.iters; i++)
			pattern_fill(c->mem + c->at.source + ((size_t)q * c->opt.iters + i) * c->at.stride,
			             c->at.stride, message_key(c, c->server, q, i));
	c->phase = PHASE_SEND;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void finish_phase(struct check *c, enum phase_id phase)
{
	struct phase_result *r = &c->result[phase];
	uint32_t n = c->nlat < LAT_SAMPLES ? c->nlat : LAT_SAMPLES;

	c->nlat = 0;
	if (!r->messages)
		return;
	qsort(c->lat_samples, n, sizeof(c->lat_samples[0]), by_value);
	r->lat_median_ns = c->lat_samples[n / 2];
	printf("%-5s %6llu messages %8.2f MiB %7.2f s %8.4f Gbit/s  latency us min %llu median %llu max %llu\n",
	       phase_names[phase], (unsigned long long)r->messages, (double)r->bytes / 1048576,
	       (double)r->busy_ns / 1e9, (double)r->bytes * 8 / (double)r->busy_ns,
	       (unsigned long long)r->lat_min_ns / 1000, (unsigned long long)r->lat_median_ns / 1000,
	       (unsigned long long)r->lat_max_ns / 1000);
	fflush(stdout);
	if (phase == PHASE_LAT && c->opt.lat_max_us && r->lat_median_ns > c->opt.lat_max_us * 1000ULL)
		complain(c, "median latency %llu us, at most %u allowed", (unsigned long long)r->lat_median_ns / 1000,
		         c->opt.lat_max_us);
}

/* The client decides whether there is another round. */
static bool another_round(struct check *c, uint32_t round, uint64_t phase_start_ns)
{
	struct ctl m = {.type = CTL_ROUND};

	if (c->server) {
		control_expect(c, CTL_ROUND, &m);
		return m.w[0];
	}
	if (c->opt.seconds)
		m.w[0] = now_ns() - phase_start_ns < c->opt.seconds * 1000000000ULL;
	else
		m.w[0] = round < c->opt.rounds;
	control_send(c, &m);
	return m.w[0];
}

static void run_phases(struct check *c)
{
	uint64_t start_ns;

	for (enum phase_id p = 0; p < PHASES; p++) {
		if (!(c->opt.phases & 1u << p))
			continue;
		start_ns = now_ns();
		for (uint32_t round = 0; another_round(c, round, start_ns); round++)
			round_run(c, p, round);
		finish_phase(c, p);
	}
	for (uint32_t i = 0; i < c->opt.qps; i++)
		target_check_poison(c, &c->qps[i]);
}

static bool both_clean(struct check *c)
{
	struct ctl m = {.type = CTL_RESULT, .w = {c->failures > 0}};

	control_send(c, &m);
	control_expect(c, CTL_RESULT, &m);
	if (m.w[0])
		printf("the other side found something wrong\n");
	return !c->failures && !m.w[0];
}

static void report(const struct check *c, bool clean)
{
	const char *comma = "";

	printf("{\"verdict\":\"%s\",\"wrong\":%llu,\"qps\":%u,\"phases\":[", clean ? "pass" : "fail",
	       (unsigned long long)c->failures, c->opt.qps);
	for (int p = 0; p < PHASES; p++) {
		const struct phase_result *r = &c->result[p];

		if (!r->messages)
			continue;
		printf("%s{\"name\":\"%s\",\"messages\":%llu,\"bytes\":%llu,\"seconds\":%.3f,\"gbps\":%.4f,"
		       "\"lat_min_us\":%llu,\"lat_median_us\":%llu,\"lat_max_us\":%llu}",
		       comma, phase_names[p], (unsigned long long)r->messages, (unsigned long long)r->bytes,
		       (double)r->busy_ns / 1e9, (double)r->bytes * 8 / (double)r->busy_ns,
		       (unsigned long long)r->lat_min_ns / 1000, (unsigned long long)r->lat_median_ns / 1000,
		       (unsigned long long)r->lat_max_ns / 1000);
		comma = ",";
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	static struct check c = {.opt = {.qps = 1,
	                                 .iters = 64,
	                                 .rounds = 1,
	                                 .depth = 16,
	                                 .size = 65536,
	                                 .mtu = 4096,
	                                 .phases = (1u << PHASES) - 1,
	                                 .seed = 1,
	                                 .stall_s = 40,
	                                 .ack_timeout = 14,
	                                 .retry = 7,
	                                 .rnr_retry = 7,
	                                 .first_psn = PSN_RANDOM}};
	struct arguments a = {.port = 18600, .timeout_s = 300};
	bool clean;

	parse(&c, &a, argc, argv);
	signal(SIGALRM, out_of_time);
	alarm(a.timeout_s);
	agree(&c, &a);
	wire_open(&c);
	c.shared_seen = calloc(c.opt.qps, c.opt.iters);
	if (!c.shared_seen)
		fatal("no memory");
	fill_source(&c);
	wire_connect(&c, a.port);
	if (c.opt.drill)
		drill_run(&c);
	else
		run_phases(&c);
	wire_close(&c);
	clean = both_clean(&c);
	report(&c, clean);
	return clean ? 0 : 1;
}
