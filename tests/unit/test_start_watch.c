/* SPDX-License-Identifier: Apache-2.0 */
/* What lets a link be tried again at once that did not start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/link/start_watch.c"
#include "daemon/util/addr.c"
#include "daemon/util/units.c"
#include "daemon/util/tcp_socket.c"

static struct link_config config;
static struct start_view before, now;
static char dir[] = "/tmp/start_watch.XXXXXX";

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/start_watch.XXXXXX");
	assert_non_null(mkdtemp(dir));
	config = (struct link_config){0};
	snprintf(config.arena_dir, sizeof(config.arena_dir), "%s", dir);
	snprintf(config.key_file, sizeof(config.key_file), "%s/key", dir);
	write_file(config.key_file, "one");
	before = (struct start_view){.memory = {.there = true, .device = 3, .type = 4, .blocks = 100, .free = 10},
	                             .files = {{.device = 1, .inode = 2, .changed_s = 3, .changed_ns = 4}},
	                             .clock_ahead_ns = -1000};
	now = before;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(config.key_file);
	rmdir(dir);
	return 0;
}

static void differs__not_by_itself(void **state)
{
	(void)state;
	assert_false(start_watch_differs(&before, &now));
}

static void differs__with_more_room_only(void **state)
{
	(void)state;
	now.memory.free = 9;
	assert_false(start_watch_differs(&before, &now));
	now.memory.free = 11;
	assert_true(start_watch_differs(&before, &now));
}

static void differs__with_another_mount(void **state)
{
	(void)state;
	now.memory.device = 5;
	assert_true(start_watch_differs(&before, &now));
	now = before;
	now.memory.blocks = 200;
	assert_true(start_watch_differs(&before, &now));
	now = before;
	now.memory.there = false;
	assert_true(start_watch_differs(&before, &now));
}

static void differs__with_a_clock_that_was_set(void **state)
{
	(void)state;
	now.clock_ahead_ns += 10 * (int64_t)NS_PER_MS; /* slewed */
	assert_false(start_watch_differs(&before, &now));
	now.clock_ahead_ns = before.clock_ahead_ns + (int64_t)NS_PER_S;
	assert_true(start_watch_differs(&before, &now));
	now.clock_ahead_ns = before.clock_ahead_ns - (int64_t)NS_PER_S;
	assert_true(start_watch_differs(&before, &now));
}

static void take__sees_the_clock_stand(void **state)
{
	(void)state;
	start_watch_take(&before, &config);
	start_watch_take(&now, &config);
	assert_in_range((uint64_t)llabs(now.clock_ahead_ns - before.clock_ahead_ns), 0, CLOCK_SET_NS);
	assert_true(before.memory.there);
	assert_int_not_equal(before.files[1].inode, 0);
	assert_int_equal(before.files[0].inode, 0);
}

static void changed__when_a_file_is_written_replaced_or_gone(void **state)
{
	char other[512];

	(void)state;
	before.memory.free = 0;
	start_watch_take(&before, &config);
	before.memory.free = UINT64_MAX; /* others use that file system, too */
	assert_false(start_watch_changed(&before, &config));
	usleep(20000); /* two writes within a tick of the kernel's clock look alike */
	write_file(config.key_file, "two");
	assert_true(start_watch_changed(&before, &config));

	start_watch_take(&before, &config);
	before.memory.free = UINT64_MAX;
	snprintf(other, sizeof(other), "%s/other", dir);
	write_file(other, "two");
	assert_int_equal(rename(other, config.key_file), 0);
	assert_true(start_watch_changed(&before, &config));

	start_watch_take(&before, &config);
	before.memory.free = UINT64_MAX;
	assert_false(start_watch_changed(&before, &config));
	unlink(config.key_file);
	assert_true(start_watch_changed(&before, &config));
}

static void changed__when_the_folder_is_made(void **state)
{
	(void)state;
	snprintf(config.arena_dir, sizeof(config.arena_dir), "%s/not-there", dir);
	start_watch_take(&before, &config);
	assert_false(before.memory.there);
	assert_false(start_watch_changed(&before, &config));
	snprintf(config.arena_dir, sizeof(config.arena_dir), "%s", dir);
	assert_true(start_watch_changed(&before, &config));
}

static void changed__when_a_port_is_given_back(void **state)
{
	static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	(void)state;
	config.npaths = 1;
	assert_int_equal(addr_read("127.0.0.1", &config.paths[0].local), 0);
	for (unsigned i = 0; i < 2; i++) {
		int fd = socket(AF_INET, types[i], 0);

		at.sin_port = 0;
		assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
		if (types[i] == SOCK_STREAM)
			assert_int_equal(listen(fd, 1), 0);
		config.paths[0].port = ntohs(at.sin_port);
		start_watch_take(&before, &config);
		assert_false(start_watch_changed(&before, &config));
		close(fd);
		assert_true(start_watch_changed(&before, &config));
	}
	start_watch_take(&before, &config);
	before.ports_free = 3;
	now = before;
	now.ports_free = 1; /* taken meanwhile: makes nothing possible */
	assert_false(start_watch_differs(&before, &now));
	config.npaths = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(differs__not_by_itself, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(differs__with_more_room_only, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(differs__with_another_mount, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(differs__with_a_clock_that_was_set, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(take__sees_the_clock_stand, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(changed__when_a_file_is_written_replaced_or_gone, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(changed__when_the_folder_is_made, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(changed__when_a_port_is_given_back, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
