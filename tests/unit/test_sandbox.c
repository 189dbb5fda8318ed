/* SPDX-License-Identifier: Apache-2.0 */
/* What the child's filter refuses and grants of priorities and processors. */
#define _GNU_SOURCE /* cpu_set_t */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>

#include "daemon/privileged/sandbox.c"
#include "no_log.h"

/* Runs try in a process behind the filter. Its status. */
static int behind_filter(int (*try)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || limit_calls() < 0 ? 99 : try());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool refused(long r)
{
	return r < 0 && errno == EPERM;
}

/* struct sched_attr, as attention.h has it; flags: keep the policy and all parameters */
static long set_attr(pid_t of)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t a, b, c;
	} attr = {.size = sizeof(attr), .flags = 0x18};

	return syscall(SYS_sched_setattr, of, &attr, 0u);
}

static int at_itself(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0 || sched_setaffinity(0, sizeof(set), &set) < 0)
		return 1;
	if (setpriority(PRIO_PROCESS, 0, 19) < 0)
		return 2;
	return set_attr(0) < 0 && errno != EINVAL ? 3 : 0; /* the flags are newer than some kernels */
}

static int at_others(void)
{
	static const struct sched_param idle = {0};
	pid_t other = getppid();
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	if (!refused(sched_setaffinity(other, sizeof(set), &set)))
		return 1;
	if (!refused(setpriority(PRIO_PROCESS, (id_t)other, 19)))
		return 2;
	if (!refused(setpriority(PRIO_USER, 0, 19)) || !refused(setpriority(PRIO_PGRP, 0, 19)))
		return 3;
	if (!refused(sched_setscheduler(other, SCHED_OTHER, &idle)))
		return 4;
	return refused(set_attr(other)) ? 0 : 5;
}

static void filter__lets_a_thread_set_its_own(void **state)
{
	(void)state;
	if (SANITIZED)
		skip();
	assert_int_equal(behind_filter(at_itself), 0);
}

static void filter__refuses_those_of_others(void **state)
{
	(void)state;
	if (SANITIZED)
		skip();
	assert_int_equal(behind_filter(at_others), 0);
}

/* As a library's, that was started with rights. */
static _Atomic int thread_may, thread_looks;

static void *thread_of_a_library(void *arg)
{
	(void)arg;
	while (!thread_looks)
		usleep(1000);
	thread_may = thread_has_rights("thread-self") || !refused(syscall(SYS_getpgid, 0)) ? 1 : 2;
	return NULL;
}

static int with_a_thread(void)
{
	char tid[32];
	pthread_t t;

	if (pthread_create(&t, NULL, thread_of_a_library, NULL) != 0)
		return 1;
	if (keep_capabilities(0) < 0 || give_away_in_threads() < 0)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || limit_calls() < 0)
		return 3;
	snprintf(tid, sizeof(tid), "%d", (int)gettid());
	if (thread_has_rights(tid) || tell_threads() != 0)
		return 4;
	thread_looks = 1;
	pthread_join(t, NULL);
	return thread_may == 2 ? 0 : 5;
}

static void sandbox__holds_for_threads_that_are_there(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (SANITIZED)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(with_a_thread());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sandbox__holds_for_threads_that_are_there),
	    cmocka_unit_test(filter__lets_a_thread_set_its_own),
	    cmocka_unit_test(filter__refuses_those_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
