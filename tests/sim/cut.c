/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Hosts like ConnectX (seven retries, the first after 2, 4, 8 and 16 ms) have WRITEs, READs, ATOMICs and all of them
 * mixed outstanding when the WAN is cut. Each run says what must become of their queue pairs: all go on after the cut,
 * or all are dead by their own retries, within the time that longreach.conf(5) gives. */
#include "cut.h"

#include <stdio.h>
#include <string.h>

#include "named.h"
#include "runner.h"
#include "scenario.h"

#define MSEC 1000000ull
#define SEC  1000000000ull

#define CUT_AT_NS (50 * MSEC)
#define AFTER_NS  (1 * SEC)

struct cut {
	const char *name;
	bool direct;
	enum ack_mode mode;
	bool cm;
	uint8_t rnr_retry;                 /* 7: for ever */
	uint64_t cut_ns;
	uint64_t dies_from_ns, dies_to_ns; /* after the beginning of the cut; 0: it lives */
};

/* The retries of the model, one after the other: 2 + 4 + 8 + 16 + 4 x 67 ms. And some to get there: what was ACKed
 * last, and RNR NAKs as many as it stands. */
#define RETRIES_NS   (290 * MSEC)
#define RETRIES_MAX  (500 * MSEC)
#define GIVE_UP_NS   (60 * SEC) /* the default */

static const struct cut runs[] = {
    {"near", false, ACK_MODE_NEAR, true, 7, 10 * SEC, 0, 0},
    {"near-without-cm", false, ACK_MODE_NEAR, false, 7, 10 * SEC, 0, 0},
    {"far", false, ACK_MODE_FAR, true, 7, 10 * SEC, 0, 0},
    {"host", false, ACK_MODE_HOST, true, 7, 10 * SEC, 0, 0},
    {"near-rnr-retry-3", false, ACK_MODE_NEAR, true, 3, 10 * SEC, RETRIES_NS, RETRIES_MAX},
    {"far-rnr-retry-3", false, ACK_MODE_FAR, true, 3, 10 * SEC, RETRIES_NS, RETRIES_MAX},
    {"host-rnr-retry-3", false, ACK_MODE_HOST, true, 3, 10 * SEC, RETRIES_NS, RETRIES_MAX},
    {"host-rnr-retry-0", false, ACK_MODE_HOST, true, 0, 10 * SEC, RETRIES_NS, RETRIES_MAX},
    {"near-70-s", false, ACK_MODE_NEAR, true, 7, 70 * SEC, GIVE_UP_NS, GIVE_UP_NS + RETRIES_MAX},
    {"host-70-s", false, ACK_MODE_HOST, true, 7, 70 * SEC, GIVE_UP_NS, GIVE_UP_NS + RETRIES_MAX},
    {"direct", true, ACK_MODE_HOST, true, 7, 10 * SEC, RETRIES_NS, RETRIES_MAX},
};

enum work { WORK_WRITES, WORK_READS, WORK_ATOMICS, WORK_MIXED, WORKS };
static const char *const work_names[WORKS] = {"WRITE", "READ", "ATOMIC", "mixed"};

static struct world world;

static struct conn_cfg connection(const struct scenario *s, const struct cut *r, enum work work)
{
	struct conn_cfg k = s->conn[0];
	struct msg_plan *plan = &k.plan[0];

	k.cm = r->cm;
	k.rnr_retry = r->rnr_retry;
	k.depth[0] = k.depth[1] = 32;
	memset(plan->weight, 0, sizeof(plan->weight));
	plan->weight[OP_WRITE] = work == WORK_WRITES || work == WORK_MIXED;
	plan->weight[OP_READ] = work == WORK_READS || work == WORK_MIXED;
	plan->weight[OP_FETCH_ADD] = work == WORK_ATOMICS || work == WORK_MIXED;
	return k;
}

static void set_up(const struct cut *r, struct scenario *s)
{
	scenario_plain(s, SEC, 1500000, 4096);
	s->cfg.mode = r->mode;
	s->cfg.direct = r->direct;
	s->cfg.errors_allowed = true; /* what dies is judged here */
	s->cfg.chunk_size = 256 << 10;
	s->cfg.wan.ncuts = 1;
	s->cfg.wan.cut[0].from_ns = CUT_AT_NS;
	s->cfg.wan.cut[0].to_ns = CUT_AT_NS + r->cut_ns;
	if (r->direct)
		s->cfg.wan.overhead_bytes = s->cfg.lan.overhead_bytes;
	for (int i = WORKS - 1; i >= 0; i--) /* the first one is what the others are made from */
		s->conn[i] = connection(s, r, (enum work)i);
	s->cfg.nconns = WORKS;
}

/* What became of one. False: not what must. */
static bool judge(const struct cut *r, enum work work, uint64_t done_before, uint64_t done_at_end)
{
	const struct requester *q = &world.conn[work].qp[0]->req;
	uint64_t lived_ns = q->failed_ns - CUT_AT_NS;

	if (!q->failed) {
		printf(" %s %s", work_names[work], q->msg_completed > done_at_end ? "lives" : "HANGS");
		return !r->dies_to_ns && q->msg_completed > done_at_end && done_before > 0;
	}
	printf(" %s dead after %.2f s", work_names[work], (double)lived_ns / 1e9);
	return r->dies_to_ns && lived_ns >= r->dies_from_ns && lived_ns <= r->dies_to_ns;
}

static bool run(const struct cut *r)
{
	uint64_t before[WORKS], at_end[WORKS];
	struct scenario s;
	bool ok = true;

	set_up(r, &s);
	world_start(&world, &s.cfg);
	world_run_until(&world, CUT_AT_NS);
	for (int i = 0; i < WORKS; i++)
		before[i] = world.conn[i].qp[0]->req.msg_completed;
	world_run_until(&world, CUT_AT_NS + r->cut_ns);
	for (int i = 0; i < WORKS; i++)
		at_end[i] = world.conn[i].qp[0]->req.msg_completed;
	world_run_until(&world, CUT_AT_NS + r->cut_ns + AFTER_NS);
	printf("%-18s", r->name);
	for (int i = 0; i < WORKS; i++)
		ok &= judge(r, (enum work)i, before[i], at_end[i]);
	printf("; wanted: ");
	if (r->dies_to_ns)
		printf("dead after %.1f to %.1f s", (double)r->dies_from_ns / 1e9, (double)r->dies_to_ns / 1e9);
	else
		printf("all live");
	printf(": %s\n", ok && !world.violation[0] ? "ok" : "MISSED");
	fflush(stdout);
	if (world.violation[0]) {
		run_report(&world, r->name, false);
		ok = false;
	}
	world_end(&world);
	return ok;
}

static const char *name_of(size_t i)
{
	return runs[i].name;
}

static bool run_nth(size_t i)
{
	return run(&runs[i]);
}

int cut_run(const char *name)
{
	static const struct named_runs all = {
	    .option = "--cut", .n = sizeof(runs) / sizeof(runs[0]), .name = name_of, .run = run_nth};

	return named_run(&all, name, &world);
}
