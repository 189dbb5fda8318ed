/* SPDX-License-Identifier: Apache-2.0 */
/* sim_main.c - lrsim: longreach in virtual time. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attack.h"
#include "begin.h"
#include "check.h"
#include "crowd_run.h"
#include "cut.h"
#include "fair.h"
#include "fault_table.h"
#include "faults.h"
#include "frozen.h"
#include "full_arena.h"
#include "fec_run.h"
#include "fullscale.h"
#include "incast.h"
#include "lame.h"
#include "pause_link.h"
#include "rate_run.h"
#include "reads.h"
#include "relay_rate.h"
#include "runner.h"
#include "scenario_work.h"
#include "thin.h"

static const char usage[] =
    "usage: lrsim --seeds A[-B] [--jobs N] [--direct] [--keep-going] [--fault NAME "
    "[--expect-failure]] [-v] [--log FILE]\n"
    "                         [--ignore INVARIANT,...] [--hard first-lost,old-cm,late-edges,failed,lost-count] [--where TEXT]\n"
    "       lrsim --full NAME      full scale: 400 Gbit/s x 1000 km; `--full list` lists them\n"
    "       lrsim --fec NAME       what FEC is worth there; `--fec list` lists the runs\n"
    "       lrsim --many-qps N     N queue pairs from PSN 0 with equal QPNs at both ends\n"
    "       lrsim --latency        completion latency over distance, modes near and host\n"
    "       lrsim --attack         what a hostile host at each site costs the others\n"
    "       lrsim --pause-link     a lossless link with the computed headroom, and with a little less\n"
    "       lrsim --begin NAME     how soon a queue pair is answered whose first packet went wrong; `--begin list`\n"
    "       lrsim --fair NAME      what flows leave each other; `--fair list` lists them\n"
    "       lrsim --cut NAME       what lives through a WAN that is cut for 10 s; `--cut list` lists them\n"
    "       lrsim --crowd NAME     many queue pairs over little memory; `--crowd list` lists the runs\n"
    "       lrsim --thin NAME      a line that is much thinner one way, full both ways; `--thin list` lists them\n"
    "       lrsim --lame NAME      lines that are dead one way, or of which a member is; `--lame list` lists them\n"
    "       lrsim --incast         256 queue pairs of 32 hosts into one port with a shallow queue\n"
    "       lrsim --relay NAME     one put on a channel of the relay; `--relay list` lists them, all\n"
    "       lrsim --reads NAME     READs at 400 Gbit/s; `--reads list` lists them\n"
    "       lrsim --frozen         what a host that stands still costs all others, both edges full\n"
    "       lrsim --full-arena     how soon hosts send again when there is room again\n"
    "       lrsim [--jobs N] [--trace FILE] --rate NAME   how the rate controllers share a bottleneck; `--rate list` "
    "lists "
    "them\n"
    "       lrsim --faults         the deliberate bugs for --fault, each with its rule and the violations it must show\n"
    "       lrsim --fault-table [--seeds A-B]   after how many seeds each is found (1-1500)\n";

static int fail(const char *what, const char *arg)
{
	fprintf(stderr, "lrsim: %s: '%s'\n%s", what, arg, usage);
	return 2;
}

static bool parse_range(const char *s, struct run_options *o)
{
	char *end;

	o->first = o->last = strtoull(s, &end, 10);
	if (end == s)
		return false;
	if (*end == '-') {
		s = end + 1;
		o->last = strtoull(s, &end, 10);
		if (end == s)
			return false;
	}
	return *end == 0 && o->first <= o->last;
}

enum {
	OPT_SEEDS = 256,
	OPT_JOBS,
	OPT_FAULT,
	OPT_EXPECT,
	OPT_FAULTS,
	OPT_HARD,
	OPT_TABLE,
	OPT_FULL,
	OPT_FEC,
	OPT_FAIR,
	OPT_CUT,
	OPT_CROWD,
	OPT_BEGIN,
	OPT_MANY,
	OPT_LATENCY,
	OPT_ATTACK,
	OPT_PAUSE,
	OPT_INCAST,
	OPT_ARENA,
	OPT_FROZEN,
	OPT_READS,
	OPT_RELAY,
	OPT_RATE,
	OPT_THIN,
	OPT_LAME,
	OPT_TRACE,
	OPT_LOG,
	OPT_DIRECT,
	OPT_KEEP,
	OPT_IGNORE,
	OPT_WHERE
};

static const struct option options[] = {
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"jobs", required_argument, NULL, OPT_JOBS},
    {"fault", required_argument, NULL, OPT_FAULT},
    {"expect-failure", no_argument, NULL, OPT_EXPECT},
    {"full", required_argument, NULL, OPT_FULL},
    {"fec", required_argument, NULL, OPT_FEC},
    {"many-qps", required_argument, NULL, OPT_MANY},
    {"pause-link", no_argument, NULL, OPT_PAUSE},
    {"attack", no_argument, NULL, OPT_ATTACK},
    {"incast", no_argument, NULL, OPT_INCAST},
    {"reads", required_argument, NULL, OPT_READS},
    {"relay", required_argument, NULL, OPT_RELAY},
    {"frozen", no_argument, NULL, OPT_FROZEN},
    {"full-arena", no_argument, NULL, OPT_ARENA},
    {"latency", no_argument, NULL, OPT_LATENCY},
    {"lame", required_argument, NULL, OPT_LAME},
    {"thin", required_argument, NULL, OPT_THIN},
    {"rate", required_argument, NULL, OPT_RATE},
    {"trace", required_argument, NULL, OPT_TRACE},
    {"log", required_argument, NULL, OPT_LOG},
    {"direct", no_argument, NULL, OPT_DIRECT},
    {"keep-going", no_argument, NULL, OPT_KEEP},
    {"ignore", required_argument, NULL, OPT_IGNORE},
    {"where", required_argument, NULL, OPT_WHERE},
    {"faults", no_argument, NULL, OPT_FAULTS},
    {"fault-table", no_argument, NULL, OPT_TABLE},
    {"fair", required_argument, NULL, OPT_FAIR},
    {"cut", required_argument, NULL, OPT_CUT},
    {"crowd", required_argument, NULL, OPT_CROWD},
    {"begin", required_argument, NULL, OPT_BEGIN},
    {"hard", required_argument, NULL, OPT_HARD},
    {NULL, 0, NULL, 0},
};

/* 0: go on; otherwise an exit code + 1 */
static int take_option(int opt, const char *arg, struct run_options *o)
{
	switch (opt) {
	case OPT_SEEDS:
		return parse_range(arg, o) ? 0 : 1 + fail("seeds are a number or a range like 1-40", arg);
	case OPT_JOBS:
		o->jobs = (uint32_t)atoi(arg);
		return o->jobs >= 1 && o->jobs <= RUN_JOBS_MAX ? 0 : 1 + fail("jobs are 1 to 64", arg);
	case OPT_FAULT:
		return faults_set(arg) ? 0 : 1 + fail("no such fault; --faults lists them", arg);
	case OPT_EXPECT:
		o->expect_failure = true;
		return 0;
	case OPT_HARD:
		scenario_hard(arg);
		return 0;
	case OPT_FAULTS:
		return 1 + faults_list();
	case OPT_TABLE:
		o->fault_table = true;
		return 0;
	case OPT_FULL:
		return 1 + fullscale_run(arg);
	case OPT_FEC:
		return 1 + fec_run(arg);
	case OPT_BEGIN:
		return 1 + begin_run(arg);
	case OPT_FAIR:
		return 1 + fair_run(arg);
	case OPT_CUT:
		return 1 + cut_run(arg);
	case OPT_CROWD:
		return 1 + crowd_run(arg);
	case OPT_MANY:
		return 1 + fullscale_many_qps((uint32_t)atoi(arg));
	case OPT_ATTACK:
		return 1 + attack_run();
	case OPT_PAUSE:
		return 1 + pause_link_run();
	case OPT_INCAST:
		return 1 + incast_run();
	case OPT_RELAY:
		return 1 + relay_rate_run(arg);
	case OPT_READS:
		return 1 + reads_run(arg);
	case OPT_LAME:
		return 1 + lame_run(arg);
	case OPT_THIN:
		return 1 + thin_run(arg);
	case OPT_FROZEN:
		return 1 + frozen_run();
	case OPT_ARENA:
		return 1 + full_arena_run();
	case OPT_LATENCY:
		return 1 + fullscale_latency();
	case OPT_TRACE:
		o->trace_path = arg;
		return 0;
	case OPT_RATE:
		return 1 + rate_run(arg, o->jobs, o->trace_path);
	case OPT_LOG:
		o->log_path = arg;
		return 0;
	case OPT_DIRECT:
		o->direct = true;
		return 0;
	case OPT_IGNORE:
		check_ignore(arg);
		return 0;
	case OPT_WHERE:
		o->where = arg;
		return 0;
	case OPT_KEEP:
		o->keep_going = true;
		return 0;
	case 'v':
		o->verbose = true;
		return 0;
	default:
		fputs(usage, stderr);
		return 3;
	}
}

int main(int argc, char **argv)
{
	struct run_options o = {.jobs = 1};
	int opt, done;

	while ((opt = getopt_long(argc, argv, "v", options, NULL)) != -1) {
		done = take_option(opt, optarg, &o);
		if (done)
			return done - 1;
	}
	if (optind < argc)
		return fail("unexpected argument", argv[optind]);
	if (o.last == 0 && o.fault_table)
		o.first = 1, o.last = 1500;
	if (o.last == 0) {
		fputs(usage, stderr);
		return 2;
	}
	return o.fault_table ? fault_table(&o) : run_seeds(&o);
}
