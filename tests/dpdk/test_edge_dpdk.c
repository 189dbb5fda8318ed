/* SPDX-License-Identifier: Apache-2.0 */
/* Two edges under Engine=dpdk between two hosts (edge_pair.h): what crosses, and what is left of it when the process is
 * killed again and again while devices write into the arenas and read out of them. KILLS= says how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "edge_pair.h"
#include "../unit/no_log.h"

enum { PACKETS = 20000, SECONDS_MAX = 60 };

static struct pair_hosts *hosts;
static struct pair_params params;
static char dir[] = "/tmp/test_edge_dpdk.XXXXXX", plugins[512];

/* Of the whole of a process's life: it does not come back. */
static void carry(uint32_t goal)
{
	static struct pair t;
	char err[512];
	const char *wrong;
	uint64_t began;

	if (!pair_open(&t, &params, hosts, err, sizeof(err))) {
		fprintf(stderr, "%s\n", err);
		_exit(1);
	}
	began = pair_clock_ns();
	hosts->moved_ns = began;
	hosts->running = true;
	while (hosts->expected < goal || hosts->acked < goal) {
		pair_turn(&t, hosts->next < goal ? goal - hosts->next : 0);
		if (pair_clock_ns() - began > SECONDS_MAX * 1000000000ull) {
			fprintf(stderr, "host A has sent %u packets and %u were acknowledged; host B has %u\n",
			        hosts->next, hosts->acked, hosts->expected);
			_exit(2);
		}
	}
	if (params.lend && (t.a.landed < 1000 || t.a.copied > t.a.landed)) {
		fprintf(stderr, "%llu packets landed, %llu were copied\n", (unsigned long long)t.a.landed,
		        (unsigned long long)t.a.copied);
		_exit(3);
	}
	wrong = pair_close(&t);
	if (wrong)
		fprintf(stderr, "%s\n", wrong);
	_exit(wrong ? 4 : 0);
}

static pid_t start(uint32_t goal)
{
	pid_t pid;

	hosts->running = false;
	pid = fork();
	if (pid == 0)
		carry(goal);
	assert_true(pid > 0);
	return pid;
}

static void finish(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(hosts->wrong, 0);
}

static int begin(void **state)
{
	(void)state;
	memset(hosts, 0, sizeof(*hosts));
	params.life = 0;
	return 0;
}

static void edge__what_lands_crosses(void **state)
{
	(void)state;
	params.lend = true;
	finish(start(PACKETS));
}

static void edge__what_is_copied_crosses(void **state)
{
	(void)state;
	params.lend = false;
	finish(start(PACKETS));
}

/* All that host A was told arrived arrives, as it was, whenever the process is killed. A killed process leaves the
 * sockets of its devices. */
static void edge__killed_under_load(void **state)
{
	unsigned kills = getenv("KILLS") ? (unsigned)atoi(getenv("KILLS")) : 4;
	uint32_t acked = 0;

	(void)state;
	params.lend = true;
	for (; params.life < kills; params.life++) {
		pid_t pid = start(UINT32_MAX);
		uint32_t before = hosts->acked;

		for (unsigned i = 0; i < 20000 && (!hosts->running || hosts->acked < before + 500); i++)
			usleep(500);
		assert_true(hosts->acked >= before + 500);
		usleep(1000 * (7 * params.life % 29));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(hosts->wrong, 0);
		acked = hosts->acked;
	}
	assert_true(acked > hosts->expected || acked > 500 * kills / 2);
	finish(start(hosts->next + 5000));
	assert_true(hosts->expected >= acked + 5000);
	fprintf(stderr, "%u kills, %u packets\n", kills, hosts->expected);
}

static int set_up(void **state)
{
	(void)state;
	hosts = pair_map(sizeof(*hosts), MAP_SHARED);
	params = (struct pair_params){.plugins = plugins, .dir = dir, .len = PAIR_ARENA, .cipher = SEAL_NONE};
	params.region[0] = pair_map(PAIR_ARENA, MAP_SHARED);
	params.region[1] = pair_map(PAIR_ARENA, MAP_SHARED);
	return hosts && params.region[0] && params.region[1] && mkdtemp(dir) ? 0 : -1;
}

/* Sockets that the last process has left would be in the way of rmdir(). */
static int tear_down(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(edge__what_lands_crosses, begin),
	    cmocka_unit_test_setup(edge__what_is_copied_crosses, begin),
	    cmocka_unit_test_setup(edge__killed_under_load, begin),
	};
	const char *slash = strrchr(argv[0], '/');

	(void)argc;
	snprintf(plugins, sizeof(plugins), "%.*s/../plugins", slash ? (int)(slash - argv[0]) : 1,
	         slash ? argv[0] : ".");
	return cmocka_run_group_tests_name("edge_dpdk", tests, set_up, tear_down);
}
