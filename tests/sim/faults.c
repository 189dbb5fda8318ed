/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "begin.h"
#include "cut.h"
#include "fair.h"
#include "incast.h"
#include "rate_run.h"
#include "proxy/fault.h"

struct fault {
	const char *name, *rule, *what;
};

static const struct fault faults[FAULT_COUNT] = {
#define X(name, rule, what) {#name, rule, what},
#include "proxy/fault_list.h"
#undef X
};

/* "WRONG_MSN" is called wrong_msn. */
static const char *lower(const char *name)
{
	static char s[64];
	size_t i;

	for (i = 0; name[i] && i < sizeof(s) - 1; i++)
		s[i] = (char)tolower((unsigned char)name[i]);
	s[i] = 0;
	return s;
}

bool faults_set(const char *name)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (strcmp(name, lower(faults[i].name)) == 0) {
			proxy_faults[i] = true;
			return true;
		}
	}
	return false;
}

void faults_list(void)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		printf("%-24s %-58s %s\n", lower(faults[i].name), faults[i].rule, faults[i].what);
}

static int rate(const char *name)
{
	return rate_run(name, NULL);
}

static int incast(const char *name)
{
	(void)name;
	return incast_run();
}

/* Faults that no seed shows, since hosts mend what they break, only later; and those that cost others their rate. */
static const struct directed {
	enum proxy_fault fault;
	const char *how; /* with its argument, if it has one */
	int (*run)(const char *name);
} directed[] = {
    {FAULT_FIRST_SEEN_IS_FIRST, "--begin overtaken", begin_run},
    {FAULT_BASE_NOT_LOWERED, "--begin lost", begin_run},
    {FAULT_OLD_LIFE_OVERTAKEN, "--begin reset", begin_run},
    {FAULT_RNR_TO_FINITE, "--cut near-rnr-retry-3", cut_run},
    {FAULT_ONE_POOL, "--fair dead-near", fair_run},
    {FAULT_NO_CREDIT, "--fair dead-near", fair_run},
    {FAULT_NO_EVICT, "--fair dead-near", fair_run},
    {FAULT_NO_TURNS, "--incast", incast},
    {FAULT_NO_HOST_WINDOW, "--incast", incast},
    {FAULT_CNP_IGNORED, "--incast", incast},
    {FAULT_NO_SOFT_CNP, "--incast", incast},
    {FAULT_MARKS_IGNORED, "--rate marked", rate},
};

/* Faults that no simulated world shows. */
static const struct untold {
	enum proxy_fault fault;
	const char *test, *why;
} untold[] = {
    {FAULT_NEXT_NOT_URGENT, "share__the_reserve_is_for_urgent_packets",
     "a flow gives up what else it holds for its next packet: later, and nothing is lost"},
    {FAULT_NO_MINIMUM, "share__always_the_minimum",
     "half of what is left of the part for everyone is never nothing: later, and nothing is lost"},
    {FAULT_RESPONSES_TWICE, "far__lost_response_repeats_the_read",
     "the near edge drops what it has had: only the line carries it twice"},
    {FAULT_FIRST_DECIDES, "pair__second_answer_confirms",
     "no host gives a wrong first answer, and a forged one RC itself believes"},
};

/* What the scenario of a seed must say for the fault to have a chance, where that is few of them: the others are not run
 * with it. The seeds are the same, and so is the number of the first that fails. */
static const char *where(int fault)
{
	static const char *const said[FAULT_COUNT] = {
	    [FAULT_ROOM_NOT_KEPT] = ", cuts",
	    [FAULT_NO_REFRAME] = ", cuts",
	    [FAULT_RNR_IN_READ] = ", crashes",
	    [FAULT_ORPHAN_OVERTAKEN] = ", words after an arena is lost",
	    [FAULT_ORPHAN_DROPPED] = ", crashes",
	    [FAULT_NO_DEMOTION] = ", a host dies",
	    [FAULT_RESTART_AT_ONCE] = ", crashes",
	    [FAULT_UNCONFIRMED_ACKED] = ", LAN trouble",
	    [FAULT_MIDDLE_BELIEVED] = ", LAN trouble",
	    [FAULT_NEAR_FREES_FIRST] = ", crashes",
	    [FAULT_FAR_FREES_FIRST] = ", crashes",
	    [FAULT_ARENA_EPOCH] = ", crashes",
	    [FAULT_ANY_LAYOUT] = ", crashes",
	    [FAULT_QUEUE_STALE] = ", crashes",
	    [FAULT_REQUESTER_SHARED] = ", QPNs again",
	    [FAULT_PAIR_FOR_EVER] = ", QPNs again",
	    [FAULT_REBUILT_REFUSED] = ", rebuilt for nothing",
	    [FAULT_RNR_WAITED_FOR] = ", late receives",
	};

	return said[fault];
}

static const struct untold *untold_for(int fault)
{
	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		if ((int)untold[i].fault == fault)
			return &untold[i];
	return NULL;
}

static const struct directed *directed_for(int fault)
{
	for (size_t i = 0; i < sizeof(directed) / sizeof(directed[0]); i++)
		if ((int)directed[i].fault == fault)
			return &directed[i];
	return NULL;
}

/* In a process of its own, without its words: true if it ends well. */
static bool ends_well(const struct directed *d)
{
	const char *space = strchr(d->how, ' ');
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(2);
		_exit(d->run(space ? space + 1 : ""));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether it ends well without a fault. Faults that one run shows stand behind each other in the list. */
static bool is_sound(const struct directed *d)
{
	static const char *last;
	static bool sound;

	if (last && strcmp(last, d->how) == 0)
		return sound;
	memset(proxy_faults, 0, sizeof(proxy_faults));
	last = d->how;
	sound = ends_well(d);
	return sound;
}

/* True if the run tells the fault; without it the run must end well. */
static bool show_directed(const struct directed *d)
{
	const struct fault *f = &faults[d->fault];
	bool sound, shown;

	sound = is_sound(d);
	memset(proxy_faults, 0, sizeof(proxy_faults));
	proxy_faults[d->fault] = true;
	shown = !ends_well(d);
	printf("%-24s %-58s %8s           %s%s\n", lower(f->name), f->rule, shown ? "-" : "MISSED", d->how,
	       sound ? "" : ", which fails without it, too");
	return sound && shown;
}

/* The first seed that fails with the fault and does not fail without it. False: there is none. */
static bool first_seed(int fault, const struct run_options *o, struct run_totals *t)
{
	struct run_options each = *o;
	struct run_totals without;
	double took_s = 0;

	each.quiet = true;
	each.where = where(fault);
	for (;;) {
		memset(proxy_faults, 0, sizeof(proxy_faults));
		proxy_faults[fault] = true;
		run_totals(&each, t);
		t->took_s += took_s;
		if (!t->violations)
			return false;
		memset(proxy_faults, 0, sizeof(proxy_faults));
		run_totals(&(struct run_options){.first = t->first_violation, .last = t->first_violation, .jobs = 1, .quiet = true},
		           &without);
		if (!without.violations)
			return true;
		printf("lrsim: seed %llu fails without a fault, and is left out\n", (unsigned long long)t->first_violation);
		each.first = t->first_violation + 1;
		took_s = t->took_s + without.took_s;
		if (each.first > each.last)
			return false;
	}
}

static bool show_seeds(int fault, const struct run_options *o)
{
	const struct fault *f = &faults[fault];
	struct run_totals t;
	bool found = first_seed(fault, o, &t);

	if (found)
		printf("%-24s %-58s %8llu %8.1f  %.60s\n", lower(f->name), f->rule,
		       (unsigned long long)(t.first_violation - o->first + 1), t.took_s, t.violation);
	else
		printf("%-24s %-58s %8s %8.1f\n", lower(f->name), f->rule, "MISSED", t.took_s);
	return found;
}

/* True if it is shown, wherever. */
static bool show(int fault, const struct run_options *o)
{
	const struct untold *u = untold_for(fault);

	if (u) {
		printf("%-24s %-58s %8s           unit test %s: %s\n", lower(faults[fault].name), faults[fault].rule, "-",
		       u->test, u->why);
		return true;
	}
	return directed_for(fault) ? show_directed(directed_for(fault)) : show_seeds(fault, o);
}

int faults_table(const struct run_options *o)
{
	uint32_t missed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0); /* a line each, as it comes */
	printf("%-24s %-58s %8s %8s\n", "fault", "rule", "seeds", "seconds");
	for (int i = 0; i < FAULT_COUNT; i++)
		missed += !show(i, o);
	printf("lrsim: %d faults, %u missed by seeds %llu-%llu\n", FAULT_COUNT, missed, (unsigned long long)o->first,
	       (unsigned long long)o->last);
	return missed ? 1 : 0;
}
