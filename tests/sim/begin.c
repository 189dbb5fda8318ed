/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A queue pair of which nothing is known begins, and its first packet is overtaken by the next, or lost on the LAN. The
 * edges must find its beginning without help: rxe, which sends here, repeats nothing for 72 ms, and all must be
 * complete long before that: whatever goes wrong, a host's repetition mends it in the end.
 *
 * And one that begins again too early for its responder: its program has seen all completions, resets it and sends at
 * once, from PSN 0 as before, while the edges still have most of its old life, which a responder in RNR takes a message
 * every 3 ms. The responder is reset when it has all. Were the new life's packets not to wait, they would pass for
 * repetitions of the old one's. */
#include "begin.h"

#include <stdio.h>
#include <string.h>

#include "named.h"
#include "runner.h"
#include "scenario.h"

#define MSEC     1000000ull
#define MESSAGES 100
#define ONE_WAY  (1500 * 1000ull)

static const struct begin {
	const char *name;
	bool lost, overtaken;
	uint64_t within_ns;
} runs[] = {
    /* QPNs cross out of band (3 times one way), there and back until the responder is heard; and if the host must be
     * asked for what is lost, there and back once more. A millisecond of patience and LANs. */
    {"lost", true, false, 7 * ONE_WAY + MSEC},
    {"overtaken", false, true, 5 * ONE_WAY + MSEC},
};

static struct world world;

static bool run(const struct begin *b)
{
	uint64_t complete;
	struct scenario s;
	bool ok;

	scenario_plain(&s, 10000000000ull, ONE_WAY, 4096);
	s.cfg.model[0][0] = s.cfg.model[1][0] = &host_model_rxe;
	s.conn[0].plan[0] = (struct msg_plan){
	    .weight[OP_WRITE] = 1, .nmsgs = MESSAGES, .len_min = 1000, .len_max = 1000};
	s.conn[0].psn_start[0] = 1000;
	s.conn[0].pause_ns = 1000 * MSEC;
	s.conn[0].first_lost = b->lost;
	s.conn[0].first_late = b->overtaken;
	world_start(&world, &s.cfg);
	world_run_until(&world, b->within_ns);
	complete = world.conn[0].qp[0]->req.msg_completed;
	ok = world.violation[0] == 0 && complete == MESSAGES;
	printf("%-10s %llu of %d messages complete after %.1f ms: %s\n", b->name, (unsigned long long)complete,
	       MESSAGES, (double)b->within_ns / 1e6, ok ? "ok" : "MISSED");
	if (world.violation[0])
		run_report(&world, b->name, false);
	world_end(&world);
	return ok;
}

#define RESET_MESSAGES 60
#define RESET_WITHIN   (1000 * MSEC)

static bool run_reset(void)
{
	uint64_t complete, executed;
	struct scenario s;
	bool ok;

	scenario_plain(&s, 10000000000ull, ONE_WAY, 4096);
	s.conn[0].plan[0] =
	    (struct msg_plan){.weight[OP_SEND] = 1, .nmsgs = RESET_MESSAGES, .len_min = 1000, .len_max = 1000};
	s.cfg.model[0][0] = s.cfg.model[1][0] = &host_model_rxe;
	s.conn[0].receive_every_ns = 3 * MSEC; /* all of it takes longer than rxe needs to insist */
	s.conn[0].receives = 1;
	s.conn[0].rnr_timer = 8;
	s.conn[0].pause_ns = 10 * RESET_WITHIN;
	s.conn[0].lives = 2;
	world_start(&world, &s.cfg);
	world_run_until(&world, RESET_WITHIN);
	complete = world.conn[0].qp[0]->req.msg_completed;
	executed = world.conn[0].qp[1]->resp.msg;
	ok = world.violation[0] == 0 && complete == RESET_MESSAGES && executed == RESET_MESSAGES;
	printf("%-10s %llu and of these %llu executed, of the %d messages after the reset: %s\n", "reset",
	       (unsigned long long)complete, (unsigned long long)executed, RESET_MESSAGES, ok ? "ok" : "MISSED");
	if (world.violation[0])
		run_report(&world, "reset", false);
	world_end(&world);
	return ok;
}

#define NRUNS (sizeof(runs) / sizeof(runs[0]))

static const char *name_of(size_t i)
{
	return i < NRUNS ? runs[i].name : "reset";
}

static bool run_nth(size_t i)
{
	return i < NRUNS ? run(&runs[i]) : run_reset();
}

int begin_run(const char *name)
{
	static const struct named_runs all = {
	    .option = "--begin", .n = NRUNS + 1, .name = name_of, .run = run_nth};

	return named_run(&all, name, &world);
}
