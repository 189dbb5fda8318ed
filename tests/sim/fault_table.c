/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * For each fault the first seed is sought that fails with it and not without it. One process has the table and says what
 * is to be done next; the jobs, processes of their own, do one thing after the other:
 *
 *     table                              job
 *       | struct task: fault, seed -----> runs it
 *       | <------ struct result: how it failed, how many events, which faults it came by
 *
 * Fault by fault, the seeds in their order. Each fault has one job as long as there are faults enough, so that none idles
 * and few seeds are run in vain beyond the one that fails.
 *
 * Before a seed is run with a fault it is run without, once for all of them. If it fails then it is left out. If it never
 * came by the place of the fault (proxy_fault_asked) it would be the same run with it: it is not run at all, and counts
 * as one that does not fail. With the fault it may have so many times the events that it had without; what takes more
 * goes round in circles.
 *
 * A seed counts if it fails by a violation that the fault is known by (faults_shown_by). One that fails by another does not
 * show that anybody looks at the rule: it is counted apart.
 *
 * A job that dies has failed its seed; there is a new one for the next. */
#include "fault_table.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "scenario.h"
#include "proxy/util/fault.h"

#define SEED_LIMIT_S  60 /* of processor time: what spins within one event dies then */
#define EVENTS_TIMES  20
#define EVENTS_MORE   1000000ull
#define PROGRESS_S    10
#define NO_SEED       UINT64_MAX

/* --- what is known of the faults --- */

/* Faults that no seed shows. */
static const struct untold {
	enum proxy_fault fault;
	const char *test, *why;
} untold[] = {
    {FAULT_FAILURE_STORED_LAST, "kill__a_failure_is_known_before_what_was_acked_is_gone",
     "a kill must fall between two stores of one call: no seed of a thousand"},
    {FAULT_PAIR_STORED_HALF, "kill__a_pair_at_the_far_edge_is_whole",
     "a kill must fall between two stores of one call: no seed of a thousand"},
    {FAULT_HELD_MSN_KEPT, "kill__what_was_held_is_counted_anew",
     "a kill must fall within the call that fills a gap: no seed of a thousand"},
    {FAULT_RESP_LENGTH_NOT_ADOPTED, "kill__a_first_response_tells_the_pmtu",
     "a kill must fall between two stores of one call: one seed of thousands, in one build"},
    {FAULT_NEXT_ANSWER_HELD, "reads__what_waits_behind_one_that_ends_is_given",
     "a host must ask again for what it has already, and its responder must have forgotten it: no seed of ten thousand"},
    {FAULT_EVICTED_IS_GONE, "barrier__an_evicted_flow_is_not_done",
     "a flow must be evicted, go on, lose its first packet, and a word must come right behind: no seed of a thousand"},
    {FAULT_RELAY_UNWEIGHED, "relay__a_channel_has_a_flows_part",
     "flows wait longer for a line that chunks fill: later, and nothing is lost"},
    {FAULT_LENT_COUNTED_FREE, "blank__is_no_room_for_packets",
     "a packet that finds no room is refused and comes again: later, and nothing is lost"},
    {FAULT_ROOM_NOT_RESERVED, "near_reserve__without_it_the_request_waits_and_its_host_is_held_off",
     "what of a READ finds no room is dropped at the far edge, and read again: later, and nothing is lost"},
    {FAULT_PATH_SILENCE_EXCUSED, "wan_path__always_late",
     "timeouts bring what a dead path has taken over the others: later, and nothing is lost"},
    {FAULT_EXPENDABLE_UNASKED, "wan_ip__is_counted_as_delivered",
     "the rate sinks under bulk TCP, which no model host sends: later, and nothing is lost"},
    {FAULT_PATH_UNWOKEN, "wan_path__new_one_answers_after_all",
     "one seed of two thousand, and none once lateness is forgiven once: the path is dead before it answers"},
    {FAULT_CREDIT_UNTOLD, "reads__the_near_edge_grants_what_it_has_room_for",
     "three seeds of ten thousand: more than half of what crosses must be refused, a thousand times"},
    {FAULT_UNPAIRED_UNBOUNDED, "unpaired__all_sources_have_the_share",
     "a flow without a place is carried end to end: later, and nothing is lost"},
    {FAULT_FORGET_ANSWERS, "reads__atomic_is_replayed_after_a_restart",
     "a READ is read again: an ATOMIC's answer must be lost, and its edge restart before the host asks again"},
    {FAULT_FIRST_SEEN_IS_FIRST, "near__base_extends_downwards",
     "the first packets must be overtaken, and the host must not send them again as another life"},
    {FAULT_UNSENT_ACK_TAKEN, "far__ack_of_unsent_is_dropped",
     "no host acknowledges what it was not sent; a late answer of another flow is nobody's before it gets here"},
    {FAULT_RESPONSES_TWICE, "far__lost_response_repeats_the_read",
     "the copies are dropped at the other edge: the line has more to carry, and nothing is lost"},
    {FAULT_RELAY_LIFE_KEPT, "relay__lost_arena_is_another_life",
     "an edge must lose its arena within a put, and the next chunk must cross before the channel begins anew"},
    {FAULT_RESERVE_UNUSED, "share__the_reserve_is_for_urgent_packets",
     "a flow gives up what else it holds for its next packet: later, and nothing is lost"},
    {FAULT_NO_MINIMUM, "share__always_the_minimum",
     "half of what is left of the part for everyone is never nothing: later, and nothing is lost"},
    {FAULT_NO_QUARANTINE, "pair__unanswered_probe_means_quarantine",
     "an answer that two flows could be meant by is nobody's: it takes more questions, and nothing is wrong"},
    {FAULT_NO_RESTART_QUARANTINE, "pair__late_answers_after_a_restart",
     "whoever has no pair may have been asked before: it takes more questions, and nothing is wrong"},
    {FAULT_PROBE_WAITS, "pair__probes_do_not_wait_for_a_next_hop",
     "the answers come together, and it takes more questions to tell them apart"},
    {FAULT_PAIR_UNCORRECTED, "pair__wrong_after_an_ack_fails",
     "no pair is wrong, and a forged first answer RC itself believes"},
    {FAULT_ROUNDS_KEPT, "far_evict__rounds_begin_anew_with_a_far_restart",
     "credit stays what it is at the beginning of a session: later, and nothing is lost"},
    {FAULT_FORGOTTEN_NOT_RESENT, "far_table__forgotten_before_the_near_edge_knew",
     "no seed loses each report of a flow for the second that it takes to be forgotten"},
    {FAULT_FIRST_ANSWER_CONFIRMS, "pair__second_answer_confirms",
     "no host gives a wrong first answer, and a forged one RC itself believes"},
    {FAULT_REST_ASKED, "reads__rest_that_an_edge_lacks_is_not_asked_of_rxe",
     "losses on both LANs must meet in one READ, and what was given be forgotten: in guests, and in no seed yet"},
    {FAULT_END_TO_END_ON_TIME, "end_to_end__late_answers_are_in_doubt",
     "a full table, a responder that stands still for over a second, and a place that becomes free just then"},
    {FAULT_LATE_TURN_ENDS, "pair__turn_goes_on_while_late_answers_are_in_doubt",
     "a responder that always takes longer than a turn, and a number used again, meet in guests, and in no seed yet"},
    {FAULT_RNR_IN_REST, "reads__what_may_be_the_rest_of_one_is_no_place_for_rxe",
     "the flow must be in doubt within a READ, and its responder slow: in guests, and in no seed yet"},
    {FAULT_LAST_UNCOUNTED, "pair__number_used_again_for_the_rest_of_a_read",
     "a READ of which one packet is left, a flow in doubt and late answers meet in guests, and in no seed yet"},
    {FAULT_LARGEST_UNKEPT, "pools__packets_of_each_size_find_a_slot_in_the_least_arena",
     "a relay and full pools of the least size have met in seed 121373 alone"},
    {FAULT_LOST_UNTOLD, "ack_mode__near_arena_lost_fails_by_name",
     "model hosts meet silence without it as well, and what is said of a failure no check reads"},
    {FAULT_WRONG_OPCODE_UNANSWERED, "near_reset__host_that_lost_count_is_refused",
     "no host loses count, but in worlds of --hard lost-count, where its connection never ends"},
    {FAULT_UNASKED_IGNORED, "pair__answers_to_what_went_past_the_edges",
     "no host talks past the edges, but in worlds of --hard late-edges, of which some fail without it"},
};

/* What the scenario of a seed must say for the fault to have a chance, where that is few of them and coming by its place
 * does not tell: the others count as seeds that do not fail. */
static const char *where(int fault)
{
	static const char *const said[FAULT_COUNT] = {
	    [FAULT_NO_REFRAME] = ", cuts",
	    [FAULT_RNR_IN_READ] = ", crashes",
	    [FAULT_STALE_FLOW_OVERTAKEN] = ", words after an arena is lost",
	    [FAULT_STALE_FLOW_DROPPED] = ", crashes",
	    [FAULT_LATE_MSN_TRUSTED] = ", crashes",
	    [FAULT_NO_DEMOTION] = ", a host dies",
	    [FAULT_MODE_OF_THE_MOMENT] = ", outage in mode far",
	    [FAULT_LATE_ANSWER_PAIRS] = ", machines stand still",
	    [FAULT_UNCONFIRMED_ACKED] = ", LAN trouble",
	    [FAULT_MIDDLE_IS_REPETITION] = ", LAN trouble",
	    [FAULT_NEAR_FREES_FIRST] = ", crashes",
	    [FAULT_FAR_FREES_FIRST] = ", crashes",
	    [FAULT_ARENA_EPOCH] = ", crashes",
	    [FAULT_ANY_LAYOUT] = ", crashes",
	    [FAULT_PIN_IGNORED] = ", late ports",
	    [FAULT_BLANK_FILLED_AGAIN] = ", late ports",
	    [FAULT_QUEUE_STALE] = ", crashes",
	    [FAULT_REQUESTER_SHARED] = ", QPNs again",
	    [FAULT_PAIR_FOR_EVER] = ", QPNs again",
	    [FAULT_REBUILT_REFUSED] = ", rebuilt for nothing",
	    [FAULT_RNR_WAITED_FOR] = ", late receives",
	    [FAULT_FIRST_SEEN_IS_FIRST] = ", first packets late",
	    [FAULT_BASE_NOT_LOWERED] = ", first packets lost",
	    [FAULT_OLD_LIFE_OVERTAKEN] = ", reset early",
	    [FAULT_RNR_TO_FINITE] = ", cuts",
	    [FAULT_ONE_POOL] = ", both ways full",
	    [FAULT_NO_CREDIT] = ", dead responders",
	    [FAULT_NO_EVICT] = ", dead responders",
	    [FAULT_WINDOW_UNTOLD] = ", dead responders",
	    [FAULT_NO_TURNS] = ", incast",
	    [FAULT_NO_HOST_WINDOW] = ", incast",
	    [FAULT_CNP_IGNORED] = ", incast",
	    [FAULT_NO_SOFT_CNP] = ", more than the line",
	    [FAULT_MARKS_IGNORED] = ", marked",
	    [FAULT_END_TO_END_CLAIMED] = ", no place",
	};

	return said[fault];
}

const char *fault_table_unit_test(int fault)
{
	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		if ((int)untold[i].fault == fault)
			return untold[i].test;
	return NULL;
}

static const struct untold *untold_for(int fault)
{
	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		if ((int)untold[i].fault == fault)
			return &untold[i];
	return NULL;
}

/* --- what a job does --- */

struct task {
	int fault; /* FAULT_COUNT: without one */
	uint64_t seed;
	uint64_t events_max; /* of the seed; 0: any */
};

struct result {
	bool failed;
	char what[64]; /* how */
	uint64_t events;
	double took_s;
	bool asked[FAULT_COUNT]; /* it came by their places */
};

static void do_seed(struct world *w, const struct task *t, struct result *r)
{
	const struct itimerval limit = {.it_value.tv_sec = SEED_LIMIT_S};

	setitimer(ITIMER_VIRTUAL, &limit, NULL);
	memset(proxy_fault_asked, 0, sizeof(proxy_fault_asked));
	run_quietly(w, t->seed, t->events_max);
	memcpy(r->asked, proxy_fault_asked, sizeof(r->asked));
	r->events = w->q.fired;
	r->failed = w->violation[0] != 0;
	snprintf(r->what, sizeof(r->what), "%.*s", (int)strcspn(w->violation, ":"), w->violation);
}

static void job_main(int fd)
{
	static struct world w;
	struct task t;

	pktlog_init(&w.log, 16);
	while (recv(fd, &t, sizeof(t), 0) == (ssize_t)sizeof(t)) {
		struct result r = {.failed = false};
		double start = run_seconds();

		faults_only(t.fault);
		do_seed(&w, &t, &r);
		r.took_s = run_seconds() - start;
		if (send(fd, &r, sizeof(r), MSG_NOSIGNAL) != (ssize_t)sizeof(r))
			break;
	}
	_exit(0);
}

/* --- the table --- */

/* A fault that seeds are to find. */
struct row {
	uint64_t next;  /* seed: those before were run, are under way or need not be run */
	uint64_t found; /* the lowest that failed; NO_SEED: none yet */
	uint32_t busy;  /* jobs that run a seed with it */
	char what[64];  /* how that one failed */
	char other[64]; /* how a seed failed that does not count */
	uint32_t others; /* so many of these */
	double took_s;  /* of all jobs together */
};

/* A seed without a fault. */
struct bare {
	enum { BARE_UNKNOWN, BARE_UNDER_WAY, BARE_SOUND, BARE_FAILS } state;
	uint64_t events;
	bool asked[FAULT_COUNT];
};

struct job {
	pid_t pid;
	int fd;
	bool busy;
	struct task task;
};

static struct {
	uint64_t first, last;
	uint32_t njobs;
	struct job job[RUN_JOBS_MAX];
	struct row row[FAULT_COUNT];
	struct bare *bare;                       /* of the seeds from the first on */
	int printed;                             /* rows */
	uint32_t missed;
	uint64_t nruns; /* of seeds */
} table;

static bool by_seeds(int fault)
{
	return !untold_for(fault);
}

static struct bare *bare_of(uint64_t seed)
{
	return &table.bare[seed - table.first];
}

static bool is_decided(const struct row *r)
{
	return !r->busy && r->next > (r->found == NO_SEED ? table.last : r->found - 1);
}

/* The scenario of the seed says so. */
static bool says(uint64_t seed, const char *text)
{
	struct scenario s;

	if (!text)
		return true;
	scenario_make(&s, seed, false);
	return strstr(s.text, text) != NULL;
}

/* The row's next seed that must be run, without the fault at first. False: none, or it waits for another job. */
static bool next_seed(int fault, struct task *t)
{
	struct row *r = &table.row[fault];
	uint64_t end = r->found == NO_SEED ? table.last + 1 : r->found;

	for (; r->next < end; r->next++) {
		struct bare *b = bare_of(r->next);

		if (b->state == BARE_FAILS || (b->state == BARE_SOUND && !b->asked[fault]) || !says(r->next, where(fault)))
			continue;
		if (b->state == BARE_UNDER_WAY)
			return false;
		*t = (struct task){.fault = FAULT_COUNT, .seed = r->next};
		if (b->state == BARE_UNKNOWN) {
			b->state = BARE_UNDER_WAY;
			return true;
		}
		t->fault = fault;
		t->events_max = EVENTS_TIMES * b->events + EVENTS_MORE;
		r->next++;
		r->busy++;
		return true;
	}
	return false;
}

static bool next_task(struct task *t)
{
	for (int shared = 0; shared < 2; shared++)
		for (int fault = table.printed; fault < FAULT_COUNT; fault++)
			if (by_seeds(fault) && (shared || !table.row[fault].busy) && next_seed(fault, t))
				return true;
	return false;
}

static void note_bare(const struct task *t, const struct result *r)
{
	struct bare *b = bare_of(t->seed);

	b->state = r->failed ? BARE_FAILS : BARE_SOUND;
	b->events = r->events;
	memcpy(b->asked, r->asked, sizeof(b->asked));
	if (r->failed)
		printf("lrsim: seed %llu fails without a fault, and is left out: %s\n", (unsigned long long)t->seed, r->what);
}

static void note(const struct task *t, const struct result *r)
{
	struct row *row;

	table.nruns++;
	if (t->fault == FAULT_COUNT) {
		note_bare(t, r);
		return;
	}
	row = &table.row[t->fault];
	row->busy--;
	row->took_s += r->took_s;
	if (!r->failed)
		return;
	if (!faults_shown_by(t->fault) || !check_named(faults_shown_by(t->fault), r->what)) {
		row->others++;
		memcpy(row->other, r->what, sizeof(row->other));
	} else if (t->seed < row->found) {
		row->found = t->seed;
		memcpy(row->what, r->what, sizeof(row->what));
	}
}

/* --- printing --- */

static void print_row(int fault, const char *seeds)
{
	printf("%-24s %-58s %8s ", faults_name(fault), faults_rule(fault), seeds);
}

/* False: it is not decided yet. */
static bool print_seeds(int fault)
{
	const struct row *r = &table.row[fault];
	char seeds[24] = "MISSED";

	if (!is_decided(r))
		return false;
	if (r->found != NO_SEED)
		snprintf(seeds, sizeof(seeds), "%llu", (unsigned long long)(r->found - table.first + 1));
	print_row(fault, seeds);
	printf("%8.1f  %s", r->took_s, r->what);
	if (r->others)
		printf("%s%u otherwise: %s", r->found != NO_SEED ? ", " : "", r->others, r->other);
	printf("\n");
	table.missed += r->found == NO_SEED;
	return true;
}

static bool print_untold(int fault)
{
	print_row(fault, "-");
	printf("%8s  unit test %s: %s\n", "", untold_for(fault)->test, untold_for(fault)->why);
	return true;
}

/* In their order, as far as they are known. */
static void print_rows(void)
{
	for (; table.printed < FAULT_COUNT; table.printed++)
		if (untold_for(table.printed) ? !print_untold(table.printed) : !print_seeds(table.printed))
			return;
}

static void print_progress(double start_s, double *next_s)
{
	uint32_t decided = 0;

	if (run_seconds() < *next_s)
		return;
	*next_s = run_seconds() + PROGRESS_S;
	for (int i = 0; i < FAULT_COUNT; i++)
		decided += i < table.printed || (by_seeds(i) && is_decided(&table.row[i]));
	fprintf(stderr, "lrsim: %u of %d faults, %llu runs of seeds, %.0f s\n", decided, FAULT_COUNT,
	        (unsigned long long)table.nruns, run_seconds() - start_s);
}

/* --- jobs --- */

static void job_start(struct job *j)
{
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) != 0) {
		perror("lrsim: socketpair");
		exit(2);
	}
	fflush(stdout);
	j->pid = fork();
	if (j->pid < 0) {
		perror("lrsim: fork");
		exit(2);
	}
	if (j->pid == 0) {
		for (uint32_t i = 0; i < table.njobs; i++)
			if (&table.job[i] != j && table.job[i].pid)
				close(table.job[i].fd);
		close(fd[0]);
		job_main(fd[1]);
	}
	close(fd[1]);
	j->fd = fd[0];
	j->busy = false;
}

static void job_died(struct job *j, struct result *r)
{
	int status = 0;

	close(j->fd);
	waitpid(j->pid, &status, 0);
	*r = (struct result){.failed = true};
	snprintf(r->what, sizeof(r->what), WIFSIGNALED(status) ? "died of signal %d" : "died with %d",
	         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	job_start(j);
}

static void job_heard(struct job *j)
{
	struct task t = j->task;
	struct result r;

	j->busy = false;
	if (recv(j->fd, &r, sizeof(r), 0) != (ssize_t)sizeof(r))
		job_died(j, &r);
	note(&t, &r);
}

/* Gives those work that have none. False: nobody has any. */
static bool give_work(void)
{
	bool any = false;

	for (uint32_t i = 0; i < table.njobs; i++) {
		struct job *j = &table.job[i];

		if (!j->busy && next_task(&j->task))
			j->busy = send(j->fd, &j->task, sizeof(j->task), MSG_NOSIGNAL) == (ssize_t)sizeof(j->task);
		any |= j->busy;
	}
	return any;
}

static void hear(void)
{
	struct pollfd fds[RUN_JOBS_MAX];

	for (uint32_t i = 0; i < table.njobs; i++)
		fds[i] = (struct pollfd){.fd = table.job[i].busy ? table.job[i].fd : -1, .events = POLLIN};
	if (poll(fds, table.njobs, PROGRESS_S * 1000) <= 0)
		return;
	for (uint32_t i = 0; i < table.njobs; i++)
		if (fds[i].revents)
			job_heard(&table.job[i]);
}

int fault_table(const struct run_options *o)
{
	double start_s = run_seconds(), next_s = start_s + PROGRESS_S;

	table.first = o->first;
	table.last = o->last;
	table.njobs = o->jobs;
	table.bare = calloc(o->last - o->first + 1, sizeof(*table.bare));
	if (!table.bare) {
		perror("lrsim: fault table");
		return 2;
	}
	for (int i = 0; i < FAULT_COUNT; i++)
		table.row[i] = (struct row){.next = o->first, .found = NO_SEED};
	setvbuf(stdout, NULL, _IOLBF, 0); /* a line each, as it comes */
	printf("%-24s %-58s %8s %8s\n", "fault", "rule", "seeds", "seconds");
	for (uint32_t i = 0; i < table.njobs; i++)
		job_start(&table.job[i]);
	while (give_work()) {
		hear();
		print_rows();
		print_progress(start_s, &next_s);
	}
	print_rows(); /* those at the end of which nothing was to be run */
	for (uint32_t i = 0; i < table.njobs; i++) {
		close(table.job[i].fd);
		waitpid(table.job[i].pid, NULL, 0);
	}
	free(table.bare);
	printf("lrsim: %d faults, %u missed by seeds %llu-%llu; %llu runs of seeds, %.0f s with %u jobs\n", FAULT_COUNT,
	       table.missed, (unsigned long long)o->first, (unsigned long long)o->last, (unsigned long long)table.nruns,
	       run_seconds() - start_s, table.njobs);
	return table.missed ? 1 : 0;
}
