/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Many queue pairs share one line, and the edges' memory is small beside what all of them have outstanding.
 *
 *     20 hosts --10G or more each, 20 us--> edge A == line, 300 km ==> edge B --> 20 hosts
 *
 * Each queue pair has DEPTH messages of 64 KiB posted at any time. The delay of the LAN stands for what an edge takes
 * to receive a packet and to answer it: a host that is sent away has sent more by the time it hears so. The hosts obey
 * CNPs, or are deaf to them. Measured after the beginning, over some turns of all queue pairs (proxy/near_turn.c):
 *
 *     dead       requesters whose queue pair failed: none may
 *     Jain       Jain's index of the packets that each responder has taken
 *     line       share of the line's payload ceiling; has a limit where the buffer holds two products of rate and
 *                delay
 *     packets    packets that hosts have sent for each one that a responder has taken
 *     p99        from posting a message to its execution
 *
 * `--crowd grid` prints that as a table. One run is between two hosts alone, on LANs that lose packets: there nothing
 * is judged but that nobody dies.
 *
 * A deaf host's burst is in vain when it comes back, but for its quantum. An RNR NAK can send it away for 655 ms at
 * most, so where the line drains less than a message for each queue pair in that time the limit of `packets` is what
 * such bursts cost. */
#include "crowd_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fullscale.h"
#include "named.h"
#include "runner.h"
#include "scenario.h"
#include "proxy/shard/core.h"

#define GBIT    1000000000ull
#define MSEC    1000000ull
#define MIB     (1ull << 20)
#define HOSTS   20
#define DEPTH   4
#define MSG     65536
#define PMTU    4096
#define LAN_NS  20000
#define TURN_NS (550 * MSEC) /* the longest turn: proxy/near_turn.c */
#define OPEN_NS 100000ull /* no more than an eighth of MaxFlows= may be without a pair */
#define TURNS   6            /* measured */

#define JAIN_WANTED  0.95
#define LINE_WANTED  0.97
#define DEAF_MOST    2.0
#define OBEYING_MOST 1.1

enum hosts { DEAF, OBEY };
enum runs { NAMED, SHORT, PAIR, GRID };

struct crowd_case {
	const char *name;
	enum runs of;
	uint32_t qps, buffer_mib; /* of slots */
	uint64_t rate_gbps;
	enum hosts hosts;
	uint32_t workers;    /* of each edge, which divide the buffer; 0: 1 */
	uint64_t found_gbps; /* Rate= with RateControl=auto, which finds rate_gbps; 0: fixed */
	double lan_loss;     /* one host at each site and a line of half of rate_gbps; 0: none is lost, HOSTS hosts */
};

static const struct crowd_case runs[] = {
    {"1000qp-44m-1g", NAMED, 1000, 44, 1, DEAF, 0, 0, 0}, /* the default of 64 MiB, with MaxFlows=4096 */
    {"1000qp-44m-1g-cnp", NAMED, 1000, 44, 1, OBEY, 0, 0, 0},
    {"1000qp-512m-1g", NAMED, 1000, 512, 1, DEAF, 0, 0, 0},
    {"100qp-44m-1g", SHORT, 100, 44, 1, DEAF, 0, 0, 0},
    {"100qp-44m-1g-cnp", SHORT, 100, 44, 1, OBEY, 0, 0, 0},
    {"1000qp-64m-10g", SHORT, 1000, 64, 10, DEAF, 0, 0, 0},
    {"200qp-44m-1pair-lossy", PAIR, 200, 44, 1, DEAF, 0, 0, 0.05},
    {"10qp-8m-1g", GRID, 10, 8, 1, DEAF, 0, 0, 0},
    {"10qp-64m-10g", GRID, 10, 64, 10, DEAF, 0, 0, 0},
    {"10qp-256m-100g", GRID, 10, 256, 100, DEAF, 0, 0, 0},
    {"10qp-1024m-400g", GRID, 10, 1024, 400, DEAF, 0, 0, 0},
    {"100qp-8m-1g", GRID, 100, 8, 1, DEAF, 0, 0, 0},
    {"100qp-8m-10g-cnp", GRID, 100, 8, 10, OBEY, 0, 0, 0},
    {"100qp-64m-10g", GRID, 100, 64, 10, DEAF, 0, 0, 0},
    {"100qp-256m-100g-cnp", GRID, 100, 256, 100, OBEY, 0, 0, 0},
    {"100qp-1024m-400g", GRID, 100, 1024, 400, DEAF, 0, 0, 0},
    {"1000qp-8m-1g", GRID, 1000, 8, 1, DEAF, 0, 0, 0},
    {"1000qp-8m-1g-cnp", GRID, 1000, 8, 1, OBEY, 0, 0, 0},
    {"1000qp-64m-10g-cnp", GRID, 1000, 64, 10, OBEY, 0, 0, 0},
    {"1000qp-256m-100g", GRID, 1000, 256, 100, DEAF, 0, 0, 0},
    {"1000qp-1024m-400g", GRID, 1000, 1024, 400, DEAF, 0, 0, 0},
    {"1000qp-64m-10g-4-workers", GRID, 1000, 64, 10, DEAF, 4, 0, 0},
    {"100qp-64m-10g-4-workers-cnp", SHORT, 100, 64, 10, OBEY, 4, 0, 0},
    {"100qp-256m-100g-3-workers", GRID, 100, 256, 100, DEAF, 3, 0, 0},
    {"100qp-64m-1g-of-10g-auto-4-workers", GRID, 100, 64, 1, DEAF, 4, 10, 0},
    {"20qp-64m-10g-4-workers", GRID, 20, 64, 10, DEAF, 4, 0, 0},
    {"100qp-44m-1g-of-10g-auto", GRID, 100, 44, 1, DEAF, 1, 10, 0},
    {"100qp-44m-1g-of-10g-auto-cnp", GRID, 100, 44, 1, OBEY, 1, 10, 0},
    {"10000qp-64m-1g", GRID, 10000, 64, 1, DEAF, 0, 0, 0},
    {"10000qp-64m-10g", GRID, 10000, 64, 10, DEAF, 0, 0, 0},
    {"10000qp-64m-10g-cnp", GRID, 10000, 64, 10, OBEY, 0, 0, 0},
    {"10000qp-1024m-100g", GRID, 10000, 1024, 100, DEAF, 0, 0, 0},
};

#define NRUNS (sizeof(runs) / sizeof(runs[0]))

static struct world world;
static struct latency latency;
static bool as_table; /* a row of a table instead of a line of text */

struct measured {
	uint32_t dead;
	uint64_t sent, taken; /* packets of requests, and of these taken by responders */
	double jain, slowest;
};

static uint64_t nic_bps(const struct crowd_case *r)
{
	return (r->rate_gbps > 10 ? r->rate_gbps : 10) * GBIT;
}

static uint64_t packets_sent(void)
{
	uint64_t n = 0;

	for (uint32_t h = 0; h < world.cfg.nhosts[0]; h++)
		n += world.host[0][h].requests_sent;
	return n;
}

static uint64_t packets_taken(const struct conn *c)
{
	return c->qp[1] ? c->qp[1]->resp.pos_expected : 0;
}

static void prepare(const struct crowd_case *r, struct scenario *s, struct conn_cfg *conn)
{
	struct world_cfg *c = &s->cfg;

	scenario_plain(s, r->rate_gbps * GBIT, 1500000, PMTU);
	c->nhosts[0] = c->nhosts[1] = HOSTS;
	for (int h = 0; h < HOSTS; h++)
		c->model[0][h] = c->model[1][h] = &host_model_cx;
	c->lan.rate_bps = nic_bps(r);
	c->lan.delay_ns = LAN_NS;
	c->chunk_size = 256 << 10;
	c->nshards[0] = c->nshards[1] = r->workers ? r->workers : 1;
	c->arena_chunks = (uint32_t)(r->buffer_mib * MIB / c->chunk_size / c->nshards[0]);
	if (r->lan_loss > 0) {
		c->nhosts[0] = c->nhosts[1] = 1;
		c->wan.rate_bps = c->pacer_bps = r->rate_gbps * GBIT / 2;
		c->lan.loss = r->lan_loss;
	}
	if (r->found_gbps) {
		c->control = RATE_auto;
		c->pacer_bps = r->found_gbps * GBIT;
		c->wan.queue_bytes = (uint32_t)(r->rate_gbps * GBIT / 8 * 3 / 1000);
	}
	c->max_flows = r->qps > 2000 ? 2 * r->qps : 4096;
	c->errors_allowed = true;
	c->conn = conn;
	c->nconns = r->qps;
	for (uint32_t i = 0; i < r->qps; i++) {
		conn[i] = s->conn[0];
		conn[i].host[0] = (uint8_t)(i % c->nhosts[0]);
		conn[i].host[1] = (uint8_t)((i + i / HOSTS) % c->nhosts[1]);
		conn[i].depth[0] = DEPTH;
		conn[i].plan[0].len_min = conn[i].plan[0].len_max = MSG;
		conn[i].ignores_cnps = r->hosts == DEAF;
		conn[i].open_ns = r->of == NAMED || r->of == PAIR ? 0 : i * OPEN_NS;
	}
}

/* In which each queue pair has got its window across, or all have had their turns. */
static uint64_t turn_ns(const struct crowd_case *r)
{
	uint64_t all_ns = (uint64_t)r->qps * DEPTH * MSG * 8 / r->rate_gbps;

	return all_ns < TURN_NS ? all_ns : TURN_NS;
}

static void measure(const struct crowd_case *r, uint64_t from_ns, uint64_t to_ns, struct measured *m)
{
	double sum = 0, squares = 0, least = 1e18;

	world_run_until(&world, from_ns);
	for (uint32_t i = 0; i < r->qps; i++)
		world.conn[i].bytes_marked = packets_taken(&world.conn[i]);
	m->sent = packets_sent();
	world_run_until(&world, to_ns);
	m->sent = packets_sent() - m->sent;
	m->dead = 0;
	for (uint32_t i = 0; i < r->qps; i++) {
		const struct conn *c = &world.conn[i];
		double n = c->excused ? 0 : (double)(packets_taken(c) - c->bytes_marked);

		m->dead += c->excused;
		sum += n;
		squares += n * n;
		least = n < least ? n : least;
	}
	m->taken = (uint64_t)sum;
	m->jain = squares > 0 ? sum * sum / (r->qps * squares) : 0;
	m->slowest = least * r->qps / (sum + 1);
}

/* What a host sends until it hears that it is sent away. */
static double burst_packets(const struct crowd_case *r)
{
	double n = (double)nic_bps(r) * 2 * LAN_NS / 8e9 / PMTU;

	return (n < DEPTH * MSG / PMTU ? n : DEPTH * MSG / PMTU) + 2;
}

static double packets_most(const struct crowd_case *r)
{
	double each = (double)r->rate_gbps * TURN_NS / 8 / r->qps / PMTU; /* drained in a turn */

	if (r->hosts == OBEY)
		return each < 8 ? DEAF_MOST : OBEYING_MOST;
	return each < MSG / PMTU ? 1.5 + burst_packets(r) / (each < 1 ? 1 : (double)(int)each) : DEAF_MOST;
}

/* A verdict on the limits that are missed. False: one is, somebody is dead, or a rule is violated. */
static bool say_verdict(bool missed, bool all_live)
{
	printf("%s%s\n", missed || !all_live ? "MISSED" : "ok", as_table ? " |" : "");
	fflush(stdout);
	return all_live && !missed;
}

/* A line of the table that `--crowd grid` prints. */
static void say_row(const struct crowd_case *r, const struct measured *m, double line, double packets, const char *limit)
{
	double p99 = (double)latency_quantile_ns(&latency, 0.99) / 1e6;

	printf("| %5u | %4u MiB | %3llu Gbit/s | %-5s | %u | %3u | %.3f | %5.1f %% (%s) | %5.2f (%.2f) | ", r->qps, r->buffer_mib,
	       (unsigned long long)r->rate_gbps, r->hosts == OBEY ? "obey" : "deaf", r->workers ? r->workers : 1, m->dead,
	       m->jain, 100 * line, limit, packets, packets_most(r));
	if (latency.n)
		printf("%.1f ms | ", p99);
	else
		printf("none done | "); /* posted and executed within the time that was measured */
}

static void say_heads(void)
{
	printf("Jain at least %.2f, nobody dead; in brackets: share of the line at least, packets at most\n\n", JAIN_WANTED);
	printf("|   QPs |   buffer |       line | CNPs  | workers | dead | Jain | share of line | packets per delivered | p99 of a "
	       "message | |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
}

static bool run_case(const struct crowd_case *r)
{
	struct conn_cfg *conn = calloc(r->qps, sizeof(*conn));
	uint64_t from_ns = 60 * MSEC + 2 * r->qps * OPEN_NS + 4 * turn_ns(r);
	uint64_t to_ns = from_ns + 30 * MSEC + TURNS * turn_ns(r);
	struct measured m;
	struct scenario s;
	double line, packets;
	bool ok, holds_two, missed;

	if (!conn)
		exit(2);
	prepare(r, &s, conn);
	world_start(&world, &s.cfg);
	memset(&latency, 0, sizeof(latency));
	latency.from_ns = from_ns;
	world.latency = &latency;
	measure(r, from_ns, to_ns, &m);
	s.cfg.pacer_bps = r->lan_loss > 0 ? r->rate_gbps * GBIT / 2 : r->rate_gbps * GBIT;
	line = (double)m.taken * PMTU * 8 / (double)(to_ns - from_ns) / fullscale_ceiling_gbps(&s.cfg, PMTU);
	packets = (double)m.sent / ((double)m.taken + 1e-9);
	holds_two = (double)r->buffer_mib * MIB / 2 >= 2 * 3e-3 * (double)r->rate_gbps * GBIT / 8;
	missed = m.jain < JAIN_WANTED || (holds_two && line < LINE_WANTED) || packets > packets_most(r);
	if (r->lan_loss > 0)
		missed = false; /* what the hosts' go-back-N makes of such a LAN is not the edges': but nobody dies */
	if (world.violation[0])
		run_report(&world, r->name, false);
	if (as_table)
		say_row(r, &m, line, packets, holds_two ? "97" : "any");
	else
		printf("%-34s %5u QPs, %4u MiB, %3llu Gbit/s: %u dead, Jain %.3f (wanted %.2f), slowest %3.0f %%, line %5.1f %% "
	       "(%s), packets %5.2f (at most %.2f), p99 %6.1f ms: ",
	       r->name, r->qps, r->buffer_mib, (unsigned long long)r->rate_gbps, m.dead, m.jain, JAIN_WANTED,
	       100 * m.slowest, 100 * line, holds_two ? "97 %" : "any", packets, packets_most(r),
	       (double)latency_quantile_ns(&latency, 0.99) / 1e6);
	ok = say_verdict(missed, m.dead == 0 && !world.violation[0]);
	world.latency = NULL;
	world_end(&world);
	free(conn);
	return ok;
}

static size_t nth(enum runs of, size_t i)
{
	size_t k = 0;

	for (; k < NRUNS; k++)
		if (runs[k].of == of && i-- == 0)
			break;
	return k;
}

static const char *name_of(size_t i)
{
	return runs[i].name;
}

static bool run_nth(size_t i)
{
	return run_case(&runs[i]);
}

static bool run_short(size_t i)
{
	return run_case(&runs[nth(SHORT, i)]);
}

static bool run_grid(size_t i)
{
	if (i == 0)
		say_heads();
	return run_case(&runs[nth(GRID, i)]);
}

static size_t count_of(enum runs of)
{
	size_t n = 0;

	for (size_t i = 0; i < NRUNS; i++)
		n += runs[i].of == of;
	return n;
}

int crowd_run(const char *name)
{
	struct named_runs all = {.option = "--crowd", .n = NRUNS, .name = name_of, .run = run_nth};

	if (strcmp(name, "short") == 0)
		all = (struct named_runs){.n = count_of(SHORT), .run = run_short};
	as_table = strcmp(name, "grid") == 0;
	if (as_table)
		all = (struct named_runs){.n = count_of(GRID), .run = run_grid};
	return named_run(&all, all.name ? name : "all", &world);
}
