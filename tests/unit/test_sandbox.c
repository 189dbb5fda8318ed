/* SPDX-License-Identifier: Apache-2.0 */
/* What the child's filter refuses and grants: of priorities and processors, by calls; of everything, by its program, held
 * against the table in docs/DAEMON.md. */
#define _GNU_SOURCE /* cpu_set_t */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "daemon/privileged/sandbox.c"
#include "no_log.h"

/* Runs try in a process behind the filter. Its status. */
static int behind_filter(int (*try)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || limit_calls(0) < 0 ? 99 : try());
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

static int memory = -1; /* a program's */

static int look_at_memory(void)
{
	return fcntl(memory, F_GET_SEALS) >= 0 ? 0 : 1;
}

/* The relay tells by it what always answers from what a server is behind. */
static void filter__lets_memory_be_told_from_files(void **state)
{
	(void)state;
	if (SANITIZED)
		skip();
	memory = memfd_create("memory", MFD_CLOEXEC);
	assert_true(memory >= 0);
	assert_int_equal(behind_filter(look_at_memory), 0);
	close(memory);
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

/* --- the list in docs/DAEMON.md --- */

enum { CALLS_MAX = 1024, PROGRAM_MAX = 4096 };

static struct sock_filter program[PROGRAM_MAX];
static unsigned program_len;

/* The program that limit_calls() would load. */
static void export_program(unsigned more)
{
	FILE *f = tmpfile();
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));

	assert_true(f != NULL && ctx != NULL);
	assert_int_equal(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), 0);
	assert_int_equal(allow_all(ctx, more), 0);
	assert_int_equal(seccomp_export_bpf(ctx, fileno(f)), 0);
	rewind(f);
	program_len = (unsigned)fread(program, sizeof(program[0]), PROGRAM_MAX, f);
	assert_in_range(program_len, 10, PROGRAM_MAX - 1);
	fclose(f);
	seccomp_release(ctx);
}

static bool jumps(uint16_t op, uint32_t a, uint32_t k)
{
	switch (op) {
	case BPF_JA:
		return true;
	case BPF_JEQ:
		return a == k;
	case BPF_JGT:
		return a > k;
	case BPF_JGE:
		return a >= k;
	default:
		return a & k; /* BPF_JSET */
	}
}

/* As the kernel runs it: loads of words, an AND, jumps, and what it returns. */
static uint32_t run_program(const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (unsigned at = 0; at < program_len; at++) {
		const struct sock_filter *i = &program[at];

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
			assert_int_equal(i->code, BPF_LD | BPF_W | BPF_ABS);
			assert_in_range(i->k, 0, sizeof(*d) - 4);
			memcpy(&a, (const uint8_t *)d + i->k, 4);
			break;
		case BPF_ALU:
			assert_int_equal(i->code, BPF_ALU | BPF_AND | BPF_K);
			a &= i->k;
			break;
		case BPF_JMP:
			at += BPF_OP(i->code) == BPF_JA ? i->k : jumps(BPF_OP(i->code), a, i->k) ? i->jt : i->jf;
			break;
		case BPF_RET:
			return i->k;
		default:
			fail_msg("instruction %u has code 0x%x", at, i->code);
		}
	}
	fail_msg("it ends without an answer");
	return 0;
}

static uint32_t answer(int nr, uint64_t first, uint64_t second)
{
	struct seccomp_data d = {.nr = nr, .args = {first, second, 0, 0, 0, 0}};

#ifdef __x86_64__
	d.arch = AUDIT_ARCH_X86_64;
#else
	d.arch = AUDIT_ARCH_AARCH64;
#endif
	return run_program(&d);
}

#define NONSENSE 0x7eadbeefull /* no family, request, command or process */

enum grant { GRANT_NONE, GRANT_SOME, GRANT_ALL, GRANT_UNKNOWN };

static enum grant granted(int nr)
{
	const uint64_t firsts[] = {0, AF_UNIX, CLONE_THREAD, PR_SET_NAME, (uint64_t)getpid()};
	const uint64_t seconds[] = {0, F_GETFD, FIONBIO};

	if (answer(nr, NONSENSE & ~(uint64_t)CLONE_THREAD, NONSENSE) == SECCOMP_RET_ALLOW)
		return GRANT_ALL;
	if (answer(nr, 0, 0) == (SECCOMP_RET_ERRNO | ENOSYS))
		return GRANT_UNKNOWN;
	for (size_t i = 0; i < COUNT(firsts); i++)
		for (size_t k = 0; k < COUNT(seconds); k++)
			if (answer(nr, firsts[i], seconds[k]) == SECCOMP_RET_ALLOW)
				return GRANT_SOME;
	assert_int_equal(answer(nr, 0, 0), SECCOMP_RET_ERRNO | EPERM);
	return GRANT_NONE;
}

static enum grant of_row(const char *row)
{
	if (strncmp(row, "| with certain", 14) == 0)
		return GRANT_SOME;
	return strncmp(row, "| ENOSYS", 8) == 0 ? GRANT_UNKNOWN : GRANT_ALL;
}

/* What the table says of each number; of those that this architecture does not have it may say anything. */
static unsigned read_table(enum grant said[CALLS_MAX])
{
	FILE *f = fopen("docs/DAEMON.md", "r");
	char row[4096], *name, *rest;
	bool inside = false;
	unsigned n = 0;

	assert_non_null(f);
	memset(said, 0, CALLS_MAX * sizeof(said[0]));
	while (fgets(row, sizeof(row), f)) {
		if (strncmp(row, "## ", 3) == 0)
			inside = strcmp(row, "## The child's system calls\n") == 0;
		if (!inside || row[0] != '|')
			continue;
		for (name = strchr(row, '`'); name; name = strchr(rest + 1, '`')) {
			int nr;

			rest = strchr(name + 1, '`');
			assert_non_null(rest);
			*rest = '\0';
			nr = seccomp_syscall_resolve_name(name + 1);
			if (nr == __NR_SCMP_ERROR)
				fail_msg("there is no system call %s", name + 1);
			if (nr >= 0 && nr < CALLS_MAX)
				said[nr] = of_row(row);
			n++;
		}
	}
	fclose(f);
	return n;
}

static void filter__is_what_the_documentation_says(void **state)
{
	static const char *const words[] = {"refused", "granted with some arguments", "granted", "unknown (ENOSYS)"};
	static enum grant said[CALLS_MAX];
	int wrong = 0;

	(void)state;
	assert_true(read_table(said) > 100);
	export_program(0);
	for (int nr = 0; nr < CALLS_MAX; nr++) {
		enum grant is = granted(nr);
		char *name;

		if (is == said[nr])
			continue;
		name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
		print_error("%s (%d) is %s; docs/DAEMON.md says %s\n", name ? name : "?", nr, words[is], words[said[nr]]);
		free(name);
		wrong++;
	}
	assert_int_equal(wrong, 0);
}

/* Of another architecture's numbers none means what was meant. */
static void filter__refuses_other_architectures(void **state)
{
	struct seccomp_data d = {.nr = SCMP_SYS(read), .arch = AUDIT_ARCH_I386};

	(void)state;
	export_program(0);
	assert_int_not_equal(run_program(&d), SECCOMP_RET_ALLOW);
}

static bool asks(int nr, uint64_t second)
{
	return answer(nr, 3, second) == SECCOMP_RET_ALLOW;
}

/* Requests of CUDA's driver, as strace showed them; and the like of other devices. */
static void filter__grants_the_requests_of_a_gpu_where_they_are_wanted(void **state)
{
	static const uint64_t gpu[] = {0xc020462a, 0xc030462b, 0xc00446c9, 0xc01046cf, 0xffffffffc020462aull,
	                               0x30000001, 0x30000002, 25, 75, 127},
	                      others[] = {0x4601 /* FBIOPUT_VSCREENINFO */, TIOCSTI, TIOCLINUX, 0x400454ca /* TUNSETIFF */,
	                                  0x30000004, 128, 0xc0204601 ^ 0x80000000, SIOCSIFFLAGS};

	(void)state;
	export_program(0);
	for (size_t i = 0; i < COUNT(gpu); i++)
		assert_false(asks(SCMP_SYS(ioctl), gpu[i]));
	assert_false(asks(SCMP_SYS(sched_get_priority_max), 0));
	export_program(SANDBOX_GPU);
	for (size_t i = 0; i < COUNT(gpu); i++)
		assert_true(asks(SCMP_SYS(ioctl), gpu[i]));
	for (size_t i = 0; i < COUNT(others); i++)
		assert_false(asks(SCMP_SYS(ioctl), others[i]));
	assert_true(asks(SCMP_SYS(sched_get_priority_max), 0));
	assert_true(asks(SCMP_SYS(ioctl), FIONBIO));
	assert_false(asks(SCMP_SYS(execve), 0) || asks(SCMP_SYS(ptrace), 0));
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
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || limit_calls(0) < 0)
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
	    cmocka_unit_test(filter__lets_memory_be_told_from_files),
	    cmocka_unit_test(filter__lets_a_thread_set_its_own),
	    cmocka_unit_test(filter__refuses_those_of_others),
	    cmocka_unit_test(filter__is_what_the_documentation_says),
	    cmocka_unit_test(filter__refuses_other_architectures),
	    cmocka_unit_test(filter__grants_the_requests_of_a_gpu_where_they_are_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
