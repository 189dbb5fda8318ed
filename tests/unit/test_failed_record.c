/* SPDX-License-Identifier: Apache-2.0 */
/* The record of failed flows: names survive the daemon, the oldest make room, and what was lost is counted. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>

/* A kill at the moment when the room is taken. */
static int killed_fallocate(int fd, int mode, off_t at, off_t len);

#define fallocate killed_fallocate
#include "daemon/link/failed_record.c"
#undef fallocate
#include "no_log.h"

static bool dies_at_fallocate;

static int killed_fallocate(int fd, int mode, off_t at, off_t len)
{
	int r = fallocate(fd, mode, at, len);

	if (dies_at_fallocate)
		_exit(7);
	return r;
}

static char dir[] = "/dev/shm/test_failed_record.XXXXXX";
static char path[64];

static int make_dir(void **state)
{
	(void)state;
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/failed", dir);
	return 0;
}

static int remove_files(void **state)
{
	char old[80];

	(void)state;
	snprintf(old, sizeof(old), "%s.old", path);
	unlink(old);
	for (unsigned i = 1; i < FOREIGN_MAX; i++) {
		snprintf(old, sizeof(old), "%s.old.%u", path, i);
		unlink(old);
	}
	unlink(path);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void add(struct failed_record *r, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n; i++)
		failed_record_add(r, "osaka",
		                  &(struct proxy_event){.type = EV_FLOW_FAILED,
		                                        .dest_qpn = i,
		                                        .requester_qpn = i + 1,
		                                        .pos = 1000 + i,
		                                        .value = 4096,
		                                        .side = FLOW_FAR,
		                                        .failure = FAILURE_REFUSED,
		                                        .syndrome = 0x62,
		                                        .src = {.b = {1}},
		                                        .dst = {.b = {2}}});
}

static void expect(struct failed_record *r, uint64_t total, uint32_t first)
{
	assert_int_equal(failed_record_total(r), total);
	for (uint32_t i = 0; i < failed_record_count(r); i++) {
		const struct failed_flow *f = failed_record_at(r, i);

		assert_non_null(f);
		assert_int_equal(f->dest_qpn, first + i);
		assert_int_equal(f->requester_qpn, first + i + 1);
		assert_int_equal(f->pos, 1000 + first + i);
		assert_string_equal(f->link, "osaka");
		assert_int_equal(f->syndrome, 0x62);
	}
}

static void record__survives_the_daemon(void **state)
{
	struct failed_record *r = failed_record_open(path);

	(void)state;
	assert_non_null(r);
	expect(r, 0, 0);
	add(r, 0, 1000);
	failed_record_close(r);
	r = failed_record_open(path);
	assert_int_equal(failed_record_count(r), 1000);
	expect(r, 1000, 0);
	add(r, 1000, 3);
	expect(r, 1003, 0);
	failed_record_close(r);
}

static void record__full_one_keeps_the_last_and_the_count(void **state)
{
	struct failed_record *r = failed_record_open(path);

	(void)state;
	add(r, 0, FAILED_RECORD_MAX + 7);
	failed_record_close(r);
	r = failed_record_open(path);
	assert_int_equal(failed_record_count(r), FAILED_RECORD_MAX);
	expect(r, FAILED_RECORD_MAX + 7, 7);
	failed_record_close(r);
}

static void record__damaged_entry_is_none(void **state)
{
	struct failed_record *r = failed_record_open(path);
	int fd;

	(void)state;
	add(r, 0, 3);
	failed_record_close(r);
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, "x", 1, (off_t)(sizeof(struct header) + sizeof(struct failed_flow) + 20)), 1);
	close(fd);
	r = failed_record_open(path);
	assert_int_equal(failed_record_total(r), 3);
	assert_non_null(failed_record_at(r, 0));
	assert_null(failed_record_at(r, 1));
	assert_non_null(failed_record_at(r, 2));
	failed_record_close(r);
}

static void record__foreign_file_is_kept(void **state)
{
	struct failed_record *r;
	char old[80];
	FILE *f = fopen(path, "w");

	(void)state;
	fputs("something else", f);
	fclose(f);
	r = failed_record_open(path);
	expect(r, 0, 0);
	add(r, 0, 1);
	failed_record_close(r);
	snprintf(old, sizeof(old), "%s.old", path);
	assert_int_equal(access(old, F_OK), 0);
	r = failed_record_open(path);
	expect(r, 1, 0);
	failed_record_close(r);
}

static void write_text(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect_text(const char *suffix, const char *want)
{
	char name[80], text[32] = "";
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	f = fopen(name, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, want);
}

/* Another version's record that cannot be set aside, as all names are taken, is not written over. */
static void record__foreign_files_do_not_overwrite_each_other(void **state)
{
	char text[2] = "0", suffix[8], third[80];
	struct failed_record *r;

	(void)state;
	for (unsigned i = 0; i < FOREIGN_MAX; i++, text[0]++) {
		write_text(text);
		failed_record_close(failed_record_open(path));
	}
	write_text("last");
	r = failed_record_open(path);
	add(r, 0, 1);
	expect(r, 1, 0);
	assert_int_equal(failed_record_waiting(r), 1);
	expect_text("", "last");
	expect_text(".old", "0");
	for (unsigned i = 1; i < FOREIGN_MAX; i++) {
		snprintf(suffix, sizeof(suffix), ".old.%u", i);
		text[0] = (char)('0' + i);
		expect_text(suffix, text);
	}
	snprintf(third, sizeof(third), "%s.old.3", path);
	assert_int_equal(unlink(third), 0);
	failed_record_write(r);
	assert_int_equal(failed_record_waiting(r), 0);
	expect_text(".old.3", "last");
	failed_record_close(r);
}

static void record__a_kill_while_it_is_made_leaves_a_record(void **state)
{
	struct failed_record *r;
	char old[80];
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		dies_at_fallocate = true;
		failed_record_open(path);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	r = failed_record_open(path);
	add(r, 0, 1);
	failed_record_close(r);
	snprintf(old, sizeof(old), "%s.old", path);
	assert_int_not_equal(access(old, F_OK), 0);
}

static void record__without_a_file_is_in_memory(void **state)
{
	struct failed_record *r = failed_record_open("/nonexistent/failed");

	(void)state;
	assert_non_null(r);
	add(r, 0, 5);
	expect(r, 5, 0);
	failed_record_close(r);
}

/* As on a disk that is full: no file may be larger. RLIM_INFINITY: there is room. */
static void disk_ends_at(rlim_t bytes)
{
	struct rlimit l;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &l), 0);
	l.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &l), 0);
}

static void expect_in_file(uint64_t total, uint32_t first)
{
	struct failed_record *r = failed_record_open(path);

	expect(r, total, first);
	failed_record_close(r);
}

static void record__on_a_full_disk_is_written_when_there_is_room(void **state)
{
	struct failed_record *r;

	(void)state;
	disk_ends_at(sizeof(struct header) + 2 * sizeof(struct failed_flow));
	r = failed_record_open(path);
	add(r, 0, 10);
	failed_record_write(r);
	expect(r, 10, 0);
	assert_int_equal(failed_record_waiting(r), 8);
	expect_in_file(2, 0);
	disk_ends_at(RLIM_INFINITY);
	expect_in_file(2, 0);
	failed_record_write(r);
	assert_int_equal(failed_record_waiting(r), 0);
	assert_int_equal(failed_record_unwritten(r), 0);
	expect_in_file(10, 0);
	add(r, 10, 1);
	expect_in_file(11, 0);
	failed_record_close(r);
}

/* The room is there from the beginning. */
static void record__a_disk_that_fills_up_later_does_no_harm(void **state)
{
	struct failed_record *r = failed_record_open(path);
	struct stat st;

	(void)state;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, sizeof(struct header) + FAILED_RECORD_MAX * sizeof(struct failed_flow));
	assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
	failed_record_close(r);
}

static void record__what_had_to_make_room_unwritten_is_counted(void **state)
{
	struct failed_record *r;

	(void)state;
	disk_ends_at(sizeof(struct header));
	r = failed_record_open(path);
	add(r, 0, FAILED_RECORD_MAX + 5);
	assert_int_equal(failed_record_waiting(r), FAILED_RECORD_MAX);
	assert_int_equal(failed_record_unwritten(r), 5);
	disk_ends_at(RLIM_INFINITY);
	failed_record_write(r);
	assert_int_equal(failed_record_waiting(r), 0);
	assert_int_equal(failed_record_unwritten(r), 5);
	expect(r, FAILED_RECORD_MAX + 5, 5);
	expect_in_file(FAILED_RECORD_MAX + 5, 5);
	failed_record_close(r);
}

/* A folder that is mounted late has a record of its own. */
static void record__that_can_be_opened_late_goes_behind_the_old_one(void **state)
{
	struct failed_record *old = failed_record_open(path), *r;
	char away[80];

	(void)state;
	add(old, 0, 3);
	failed_record_close(old);
	snprintf(away, sizeof(away), "%s.away", dir);
	assert_int_equal(rename(dir, away), 0);
	r = failed_record_open(path);
	add(r, 3, 4);
	failed_record_write(r);
	assert_int_equal(failed_record_waiting(r), 4);
	assert_int_equal(rename(away, dir), 0);
	failed_record_write(r);
	assert_int_equal(failed_record_waiting(r), 0);
	expect(r, 7, 0);
	add(r, 7, 1);
	expect_in_file(8, 0);
	failed_record_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(record__survives_the_daemon, remove_files),
	    cmocka_unit_test_teardown(record__full_one_keeps_the_last_and_the_count, remove_files),
	    cmocka_unit_test_teardown(record__damaged_entry_is_none, remove_files),
	    cmocka_unit_test_teardown(record__foreign_file_is_kept, remove_files),
	    cmocka_unit_test_teardown(record__foreign_files_do_not_overwrite_each_other, remove_files),
	    cmocka_unit_test_teardown(record__a_kill_while_it_is_made_leaves_a_record, remove_files),
	    cmocka_unit_test_teardown(record__without_a_file_is_in_memory, remove_files),
	    cmocka_unit_test_teardown(record__on_a_full_disk_is_written_when_there_is_room, remove_files),
	    cmocka_unit_test_teardown(record__a_disk_that_fills_up_later_does_no_harm, remove_files),
	    cmocka_unit_test_teardown(record__what_had_to_make_room_unwritten_is_counted, remove_files),
	    cmocka_unit_test_teardown(record__that_can_be_opened_late_goes_behind_the_old_one, remove_files),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
