// SPDX-License-Identifier: Apache-2.0
#include "opt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"

enum val_type { V_FLAG, V_U32, V_U64, V_SIZE, V_MS, V_SECS, V_SHARE, V_GBPS, V_ADDR, V_TEXT, V_KIND, V_PSN };

/* One option. Ranges are in the unit of the command line. */
struct option_row {
	const char *name;
	enum val_type type;
	size_t off;
	double min, max;
	const char *arg, *text;
};

#define F(f) offsetof(struct opt, f)

static const struct option_row rows[] = {
    {"dev", V_TEXT, F(dev), 0, 0, "IF", "network interface"},
    {"addr", V_ADDR, F(addr), 0, 0, "IP", "own address, configured on the interface"},
    {"peer", V_ADDR, F(peer), 0, 0, "IP", "client: the server's address"},
    {"ctl", V_ADDR, F(ctl), 0, 0, "IP", "the server's address for TCP [that of the data]"},
    {"ctl-from", V_ADDR, F(ctl_from), 0, 0, "IP", "client: own address for TCP [--addr]"},
    {"port", V_U32, F(ctl_port), 1, 65535, "N", "TCP port to exchange QPNs and results [18515]"},
    {"op", V_KIND, F(kind), 0, 0, "OP", "write, send, read, fadd, write-imm or mix [write]"},
    {"size", V_SIZE, F(size), 0, SIZE_MAX_BYTES, "BYTES", "message size, k and M allowed [65536]"},
    {"depth", V_U32, F(depth), 1, DEPTH_MAX, "N", "messages in flight per QP [128]"},
    {"qps", V_U32, F(qps), 1, QPS_MAX, "N", "queue pairs [1]"},
    {"mtu", V_U32, F(mtu), 256, 4096, "N", "path MTU: 256, 512, 1024, 2048 or 4096 [4096]"},
    {"rd-atomic", V_U32, F(rd_atomic), 1, RD_ATOMIC_MAX, "N", "READs and atomics in flight per QP [16]"},
    {"secs", V_SECS, F(secs_ns), 0.001, 86400, "S", "run that long [5]"},
    {"iters", V_U64, F(iters), 1, 1e15, "N", "or: run so many messages per QP"},
    {"bidir", V_FLAG, F(bidir), 0, 0, NULL, "the server is a requester too"},
    {"cm", V_FLAG, F(cm), 0, 0, NULL, "set the QPs up and down by CM on QP1 (REQ, REP, RTU, DREQ, DREP)"},
    {"seed", V_U64, F(seed), 0, 1e18, "N", "seed of contents and of dropped packets [random]"},
    {"qpn", V_U32, F(qpn), 2, 0xfff000, "N", "first QPN [random]"},
    {"psn", V_PSN, F(psn), 0, 0xffffff, "N", "first PSN, or random [random]"},
    {"retry", V_U32, F(retry), 0, 7, "N", "retry_cnt, finite also at 7 [7]"},
    {"rnr-retry", V_U32, F(rnr_retry), 0, 7, "N", "rnr_retry, 7 is for ever [7]"},
    {"timeout-ms", V_MS, F(timeout_ns), 0.1, 1e6, "MS", "local ACK timeout [67]"},
    {"adaptive-retrans", V_FLAG, F(adaptive_retrans), 0, 0, NULL,
     "repeat after 2, 4, 8, 16, 16... ms as ConnectX; give up after --retry times --timeout-ms"},
    {"recv-depth", V_U32, F(recv_depth), 1, 65536, "N", "receives posted per QP [512]"},
    {"rnr-timer-ms", V_MS, F(rnr_timer_ns), 0.01, 655.36, "MS", "wait asked for in RNR NAKs [0.64]"},
    {"freeze-ms", V_MS, F(freeze_ns), 0, 1e6, "MS", "post no receives for that long, once"},
    {"freeze-after", V_U64, F(freeze_after), 0, 1e15, "N", "... after so many messages [1000]"},
    {"hang-ms", V_MS, F(hang_ns), 0, 1e6, "MS", "stand still for that long, once"},
    {"hang-after", V_SECS, F(hang_after_ns), 0, 86400, "S", "... so long after the start [1]"},
    {"pfc", V_U32, F(pfc), 1, 8, "N", "honour 802.1Qbb pauses of priority N - 1"},
    {"drop", V_SHARE, F(drop), 0, 0.9, "P", "drop this share of the packets received"},
    {"dcqcn", V_GBPS, F(dcqcn_bps), 0.0001, 1000, "GBIT", "obey CNPs (DCQCN), as a NIC of that rate"},
    {"rate", V_GBPS, F(rate_bps), 0.0001, 1000, "GBIT", "send no faster, Gbit/s at layer 3"},
    {"every-ms", V_MS, F(every_ns), 0.001, 1e6, "MS",
     "post a message so often, per QP, and time it from when it was due"},
    {"warmup", V_SHARE, F(warmup), 0, 0.9, "P", "share of the run before measuring [0.2]"},
    {"drain-s", V_SECS, F(drain_ns), 0, 86400, "S", "how long the server may need to execute the rest [60]"},
    {"interval", V_SECS, F(interval_ns), 0.01, 3600, "S", "a line of progress that often"},
    {"ring", V_SIZE, F(ring_bytes), 1 << 20, 1u << 30, "BYTES", "receive ring [32M]"},
    {"bad-rkey-at", V_U64, F(bad_rkey_at), 0, 1e15, "N", "message N gets a wrong R_Key: the responder must refuse"},
    {"bad-byte-at", V_U64, F(bad_byte_at), 0, 1e15, "N", "message N gets one wrong byte: the responder must notice"},
    {"times", V_TEXT, F(times), 0, 0, "FILE", "for each message, when it was due and when it was done (monotonic ns)"},
    {"json", V_FLAG, F(json), 0, 0, NULL, "one JSON object instead of a summary line"},
    {"once", V_FLAG, F(once), 0, 0, NULL, "server: end after one test"},
    {"quiet", V_FLAG, F(quiet), 0, 0, NULL, "server: no summaries"},
};

#undef F

#define NROWS (sizeof(rows) / sizeof(rows[0]))

void opt_usage(FILE *out)
{
	fprintf(out, "usage: rcperf server --dev IF --addr IP [options]\n"
	             "       rcperf client --dev IF --addr IP --peer IP [options]\n\n"
	             "An RC endpoint in user space: RoCEv2 over a packet socket, every byte verified.\n"
	             "The client says what is tested; timers, PSNs and faults are each end's own.\n\n");
	for (size_t i = 0; i < NROWS; i++) {
		char left[40];

		snprintf(left, sizeof(left), "--%s %s", rows[i].name, rows[i].arg != NULL ? rows[i].arg : "");
		fprintf(out, "  %-22s %s\n", left, rows[i].text);
	}
	fprintf(out,
	        "\nExit status: 0 everything executed exactly once, in order, with the right bytes; 1 it was not;\n"
	        "2 usage or set-up.\n");
}

static bool read_number(const struct option_row *row, const char *text, double *v)
{
	char *end;

	errno = 0;
	*v = strtod(text, &end);
	if (end == text || errno != 0)
		return false;
	if (row->type == V_SIZE && (*end == 'k' || *end == 'M')) {
		*v *= *end == 'k' ? 1024 : 1024 * 1024;
		end++;
	}
	return *end == 0 && *v >= row->min && *v <= row->max;
}

static void store(const struct option_row *row, uint8_t *field, double v)
{
	switch (row->type) {
	case V_U32:
	case V_SIZE:
	case V_PSN:
		if (row->off == offsetof(struct opt, ctl_port))
			*(uint16_t *)(void *)field = (uint16_t)v;
		else
			*(uint32_t *)(void *)field = (uint32_t)v;
		break;
	case V_U64:
		*(uint64_t *)(void *)field = (uint64_t)v;
		break;
	case V_MS:
		*(uint64_t *)(void *)field = (uint64_t)(v * 1e6);
		break;
	case V_SECS:
		*(uint64_t *)(void *)field = (uint64_t)(v * 1e9);
		break;
	case V_GBPS:
		*(double *)(void *)field = v * 1e9;
		break;
	default:
		*(double *)(void *)field = v;
		break;
	}
}

static bool set_value(const struct option_row *row, uint8_t *field, const char *text)
{
	double v;

	switch (row->type) {
	case V_TEXT:
		*(const char **)(void *)field = text;
		return true;
	case V_ADDR:
		return addr_read(text, (struct ip_addr *)(void *)field);
	case V_KIND:
		return plan_kind_parse(text, (enum plan_kind *)(void *)field);
	case V_PSN:
		if (strcmp(text, "random") == 0) {
			*(uint32_t *)(void *)field = PSN_RANDOM;
			return true;
		}
		break;
	default:
		break;
	}
	if (!read_number(row, text, &v))
		return false;
	store(row, field, v);
	return true;
}

static const struct option_row *find_row(const char *arg)
{
	if (strncmp(arg, "--", 2) != 0)
		return NULL;
	for (size_t i = 0; i < NROWS; i++)
		if (strcmp(arg + 2, rows[i].name) == 0)
			return &rows[i];
	return NULL;
}

/* Takes one option and its value; returns how many arguments that were, 0 on error. */
static int take(struct opt *o, char **argv, int left)
{
	const struct option_row *row = find_row(argv[0]);
	uint8_t *base = (uint8_t *)o;

	if (row == NULL) {
		fprintf(stderr, "rcperf: unknown option \"%s\"; `rcperf help` lists them\n", argv[0]);
		return 0;
	}
	if (row->type == V_FLAG) {
		*(bool *)(void *)(base + row->off) = true;
		return 1;
	}
	if (left < 2) {
		fprintf(stderr, "rcperf: --%s needs a value\n", row->name);
		return 0;
	}
	if (!set_value(row, base + row->off, argv[1])) {
		fprintf(stderr, "rcperf: --%s \"%s\": expected %s", row->name, argv[1], row->text);
		if (row->max > 0)
			fprintf(stderr, ", %g to %g", row->min, row->max);
		fputc('\n', stderr);
		return 0;
	}
	return 2;
}

static bool complain(const char *text)
{
	fprintf(stderr, "rcperf: %s\n", text);
	return false;
}

static void set_ctl(struct opt *o)
{
	static const struct ip_addr none;

	if (ip_addr_eq(&o->ctl, &none))
		o->ctl = o->server ? o->addr : o->peer;
	if (ip_addr_eq(&o->ctl_from, &none))
		o->ctl_from = o->addr;
}

static bool check(const struct opt *o)
{
	static const struct ip_addr none;

	if (o->dev == NULL)
		return complain("--dev is missing");
	if (ip_addr_eq(&o->addr, &none))
		return complain("--addr is missing");
	if (o->server)
		return true;
	if (ip_addr_eq(&o->peer, &none))
		return complain("--peer is missing");
	if (ip_addr_is4(&o->addr) != ip_addr_is4(&o->peer))
		return complain("--addr and --peer are of different families");
	if ((o->mtu & (o->mtu - 1)) != 0)
		return complain("--mtu must be 256, 512, 1024, 2048 or 4096");
	if ((uint64_t)roce_read_psns(o->size, o->mtu) * o->depth > 1u << 22)
		return complain("--size times --depth is more than 2^22 packets in flight");
	return true;
}

static void set_defaults(struct opt *o)
{
	*o = (struct opt){
	    .ctl_port = 18515,
	    .kind = PLAN_WRITE,
	    .size = 65536,
	    .depth = 128,
	    .qps = 1,
	    .mtu = 4096,
	    .rd_atomic = 16,
	    .secs_ns = 5000000000,
	    .qpn = QPN_RANDOM,
	    .psn = PSN_RANDOM,
	    .retry = 7,
	    .rnr_retry = RETRY_INFINITE,
	    .timeout_ns = 67000000,
	    .recv_depth = 512,
	    .rnr_timer_ns = 640000,
	    .freeze_after = 1000,
	    .hang_after_ns = 1000000000,
	    .warmup = 0.2,
	    .drain_ns = 60000000000,
	    .ring_bytes = 32 << 20,
	    .tos = 2, /* ECT(0): as NICs with congestion control send */
	    .ttl = 64,
	    .bad_rkey_at = -1,
	    .bad_byte_at = -1,
	};
}

bool opt_parse(struct opt *o, int argc, char **argv)
{
	set_defaults(o);
	if (argc < 2 || (strcmp(argv[1], "server") != 0 && strcmp(argv[1], "client") != 0)) {
		opt_usage(stderr);
		return false;
	}
	o->server = argv[1][0] == 's';
	for (int i = 2; i < argc;) {
		int n = take(o, argv + i, argc - i);

		if (n == 0)
			return false;
		i += n;
	}
	set_ctl(o);
	return check(o);
}
