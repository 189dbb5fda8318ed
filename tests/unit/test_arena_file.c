/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind an arena: what is taken up again, what is refused, and what is kept when it is refused. */
#define _GNU_SOURCE /* fallocate, before any header */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/arena_file.c"
#include "daemon/resident.c"
#include "no_log.h"
#include "no_numa.h"

#define LEN (4u << 20)

static char dir[] = "/dev/shm/test_arena_file.XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int empty_dir(void **state)
{
	char path[128];

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		name_file(path, sizeof(path), dir, "t", i);
		unlink(path);
	}
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

static struct arena_file_params params_of(uint32_t shard, uint32_t nshards)
{
	return (struct arena_file_params){
	    .dir = dir,
	    .link = "t",
	    .shard = shard,
	    .nshards = nshards,
	    .geometry = {.len = LEN, .chunk_size = 65536, .max_flows = 16, .reserve_percent = 25},
	    .new_epoch = 1111,
	};
}

static void open_ok(struct arena_file *f, const struct arena_file_params *p, bool fresh)
{
	char err[512] = "";

	if (arena_file_open(f, p, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	assert_int_equal(f->fresh, fresh);
}

static int open_err(const struct arena_file_params *p, char err[512])
{
	struct arena_file f;
	int r = arena_file_open(&f, p, err, 512);

	assert_int_equal(f.fd, -1);
	assert_null(f.region);
	return r;
}

static void file__new_one_is_fresh_and_aligned(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	struct stat st;

	(void)state;
	open_ok(&f, &p, true);
	assert_int_equal(f.epoch, 1111);
	assert_int_equal((uintptr_t)f.region % MAP_ALIGN, 0);
	memset(f.region, 0x55, LEN);
	assert_int_equal(fstat(f.fd, &st), 0);
	/* all room is taken, not only promised */
	assert_true((uint64_t)st.st_blocks * 512 >= LEN);
	assert_int_equal(st.st_mode & 0777, 0600);
	arena_file_close(&f, true);
}

static void file__used_one_comes_back_with_its_epoch(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	((uint8_t *)f.region)[LEN - 1] = 0x77;
	arena_file_close(&f, false);
	p.new_epoch = 2222;
	open_ok(&f, &p, false);
	assert_int_equal(f.epoch, 1111);
	assert_int_equal(((uint8_t *)f.region)[LEN - 1], 0x77);
	arena_file_close(&f, true);
}

static void file__empty_one_begins_anew(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	memset(f.region, 0x77, LEN);
	arena_file_close(&f, true);
	p.new_epoch = 2222;
	p.geometry.len = 2 * LEN; /* another size is no matter then */
	open_ok(&f, &p, true);
	assert_int_equal(f.epoch, 2222);
	assert_int_equal(((uint8_t *)f.region)[0], 0);
	arena_file_close(&f, true);
}

static void file__never_formatted_one_begins_anew(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	open_ok(&f, &p, true);
	arena_file_close(&f, false); /* the core never started on it */
	open_ok(&f, &p, true);
	arena_file_close(&f, true);
}

static void file__other_shape_is_refused_and_kept(void **state)
{
	struct arena_file_params p = params_of(0, 2), q;
	struct arena_file f;
	char err[512];

	(void)state;
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	((uint8_t *)f.region)[5] = 0x77;
	arena_file_close(&f, false);
	q = params_of(0, 1);
	assert_int_equal(open_err(&q, err), -EEXIST);
	assert_non_null(strstr(err, "Workers=2"));
	q = params_of(0, 2);
	q.geometry.len = 2 * LEN;
	assert_int_equal(open_err(&q, err), -EEXIST);
	q = params_of(0, 2);
	q.geometry.max_flows = 32;
	assert_int_equal(open_err(&q, err), -EEXIST);
	open_ok(&f, &p, false);
	assert_int_equal(((uint8_t *)f.region)[5], 0x77);
	arena_file_close(&f, true);
}

static void file__locked_one_is_somebody_else_s(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	char err[512];

	(void)state;
	open_ok(&f, &p, true);
	assert_int_equal(open_err(&p, err), -EBUSY);
	assert_non_null(strstr(err, "another longreachd"));
	arena_file_close(&f, true);
}

static void file__garbage_is_not_taken_for_an_arena(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	char path[128];
	FILE *g;

	(void)state;
	name_file(path, sizeof(path), dir, "t", 0);
	g = fopen(path, "w");
	assert_non_null(g);
	for (int i = 0; i < 100000; i++)
		fputs("not an arena ", g);
	fclose(g);
	open_ok(&f, &p, true);
	arena_file_close(&f, true);
	assert_int_equal(truncate(path, 7), 0);
	open_ok(&f, &p, true);
	arena_file_close(&f, true);
}

static void file__links_are_not_followed(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char path[128], err[512];

	(void)state;
	name_file(path, sizeof(path), dir, "t", 0);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_true(open_err(&p, err) < 0);
}

static void file__missing_directory_is_a_sentence(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char err[512];

	(void)state;
	p.dir = "/nonexistent";
	assert_int_equal(open_err(&p, err), -ENOENT);
	assert_non_null(strstr(err, "/nonexistent/t.0.arena"));
	assert_non_null(strstr(err, "Directory="));
}

static void others__full_ones_stop_the_start_and_empty_ones_go(void **state)
{
	struct arena_file_params p = params_of(2, 3);
	struct arena_file f;
	char err[512], path[128];

	(void)state;
	assert_int_equal(arena_file_check_others(dir, "t", 1, err, sizeof(err)), 0);
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	assert_int_equal(arena_file_check_others(dir, "t", 3, err, sizeof(err)), 0);
	assert_int_equal(arena_file_check_others(dir, "t", 2, err, sizeof(err)), -EBUSY);
	assert_non_null(strstr(err, "t.2.arena"));
	open_ok(&f, &p, false);
	arena_file_close(&f, true);
	assert_int_equal(arena_file_check_others(dir, "t", 2, err, sizeof(err)), 0);
	name_file(path, sizeof(path), dir, "t", 2);
	assert_int_equal(access(path, F_OK), -1);
}

/* Flows would be looked for on other lanes. */
static void file__of_other_lanes_is_refused_and_kept(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	char err[512];

	(void)state;
	p.lanes = 64;
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	p.lanes = 32;
	assert_int_equal(open_err(&p, err), -EEXIST);
	assert_non_null(strstr(err, "another Lanes= or other groups in [Host]"));
	p.lanes = 64;
	open_ok(&f, &p, false);
	arena_file_close(&f, true);
	p.lanes = 32; /* empty: no matter */
	open_ok(&f, &p, true);
	arena_file_close(&f, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(file__new_one_is_fresh_and_aligned, empty_dir),
	    cmocka_unit_test_teardown(file__used_one_comes_back_with_its_epoch, empty_dir),
	    cmocka_unit_test_teardown(file__empty_one_begins_anew, empty_dir),
	    cmocka_unit_test_teardown(file__never_formatted_one_begins_anew, empty_dir),
	    cmocka_unit_test_teardown(file__other_shape_is_refused_and_kept, empty_dir),
	    cmocka_unit_test_teardown(file__locked_one_is_somebody_else_s, empty_dir),
	    cmocka_unit_test_teardown(file__garbage_is_not_taken_for_an_arena, empty_dir),
	    cmocka_unit_test_teardown(file__links_are_not_followed, empty_dir),
	    cmocka_unit_test_teardown(file__missing_directory_is_a_sentence, empty_dir),
	    cmocka_unit_test_teardown(file__of_other_lanes_is_refused_and_kept, empty_dir),
	    cmocka_unit_test_teardown(others__full_ones_stop_the_start_and_empty_ones_go, empty_dir),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
