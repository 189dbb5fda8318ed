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

static int incast(const char *name)
{
	(void)name;
	return incast_run();
}

/* Faults that no seed shows, since hosts mend what they break, only later; and those that cost others their rate. */
static const struct directed {
	enum proxy_fault fault;
	const char *how; /* with its argument, if it has one; what a unit test shows: its name */
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
    {FAULT_NEXT_NOT_URGENT, "share__the_reserve_is_for_urgent_packets", NULL},
    {FAULT_QUEUE_STALE, "proxy__loss_in_two_sessions", NULL},
    {FAULT_REQUESTER_SHARED, "stranger__of_a_connection_that_is_gone", NULL},
    {FAULT_MIDDLE_BELIEVED, "stranger__whose_beginning_was_lost", NULL},
    {FAULT_NO_MINIMUM, "share__always_the_minimum", NULL},
    {FAULT_ANY_LAYOUT, "attach__unknown_version_is_left_alone", NULL},
};

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

	if (!d->run) {
		printf("%-24s %-58s %8s           unit test %s\n", lower(f->name), f->rule, "-", d->how);
		return true;
	}
	sound = is_sound(d);
	memset(proxy_faults, 0, sizeof(proxy_faults));
	proxy_faults[d->fault] = true;
	shown = !ends_well(d);
	printf("%-24s %-58s %8s           %s%s\n", lower(f->name), f->rule, shown ? "-" : "MISSED", d->how,
	       sound ? "" : ", which fails without it, too");
	return sound && shown;
}

int faults_table(const struct run_options *o)
{
	struct run_options each = *o;
	struct run_totals sound_ones;
	uint32_t missed = 0;

	/* What fails without a fault proves nothing about one. */
	each.quiet = each.keep_going = true;
	run_totals(&each, &sound_ones);
	if (sound_ones.nfailed)
		printf("lrsim: %u seeds fail without a fault, and are left out\n", sound_ones.nfailed);
	each.keep_going = false;
	each.expect_failure = true;
	each.skip = sound_ones.failed;
	each.nskip = sound_ones.nfailed;
	printf("%-24s %-58s %8s %8s\n", "fault", "rule", "seeds", "seconds");
	for (int i = 0; i < FAULT_COUNT; i++) {
		struct run_totals t;
		bool sound;

		if (directed_for(i)) {
			missed += !show_directed(directed_for(i));
			continue;
		}
		memset(proxy_faults, 0, sizeof(proxy_faults));
		proxy_faults[i] = true;
		sound = run_totals(&each, &t);
		if (t.violations)
			printf("%-24s %-58s %8llu %8.1f  %.60s\n", lower(faults[i].name), faults[i].rule,
			       (unsigned long long)(t.first_violation - o->first + 1), t.took_s, t.violation);
		else
			printf("%-24s %-58s %8s %8.1f\n", lower(faults[i].name), faults[i].rule,
			       sound ? "MISSED" : "died", t.took_s);
		fflush(stdout);
		missed += t.violations == 0 && sound;
	}
	printf("lrsim: %d faults, %u missed by seeds %llu-%llu\n", FAULT_COUNT, missed, (unsigned long long)o->first,
	       (unsigned long long)o->last);
	return missed ? 1 : 0;
}
