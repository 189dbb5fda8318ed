/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that no link will drain: which are found, and which are somebody's affair. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/arena/arena_file.c"
#include "daemon/arena/arena_scan.c"
#include "daemon/arena/page_lock.c"
#include "no_log.h"
#include "no_numa.h"

static char dir[] = "/dev/shm/test_arena_scan.XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char pattern[128];
	glob_t found;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
		globfree(&found);
	}
	return rmdir(dir);
}

static void open_arena(struct arena_file *f, const char *link, bool in_use)
{
	struct arena_file_params p = {
	    .dir = dir,
	    .link = link,
	    .spread = {.nshards = 1},
	    .geometry = {.len = 4 << 20, .chunk_size = 65536, .max_flows = 16, .reserve_percent = 25},
	    .new_epoch = 1,
	};
	char err[512];

	assert_int_equal(arena_file_open(f, &p, err, sizeof(err)), 0);
	if (in_use)
		arena_file_in_use(f);
}

static uint32_t scan_ours(const struct arena_claim *claims, uint32_t n, struct arena_stray *out)
{
	uint32_t all = arena_scan(claims, n, out, 16, NULL), ours = 0;

	for (uint32_t i = 0; i < all; i++) /* /run/longreach is looked through as well */
		if (strncmp(out[i].path, dir, strlen(dir)) == 0)
			out[ours++] = out[i];
	return ours;
}

static void scan__names_what_nobody_will_drain(void **state)
{
	struct arena_claim claims[] = {{"mine", dir}, {"other", dir}};
	struct arena_file f, running;
	struct arena_stray found[16];
	char path[160], text[STRAY_TEXT_MAX];

	(void)state;
	open_arena(&f, "mine", true);
	arena_file_close(&f, false);
	open_arena(&f, "a.left", true);
	arena_file_close(&f, false);
	open_arena(&f, "drained", true);
	arena_file_close(&f, true);
	open_arena(&running, "running", true);
	snprintf(path, sizeof(path), "%s/garbage.0.arena", dir);
	close(open(path, O_RDWR | O_CREAT, 0600));
	assert_int_equal(truncate(path, 77), 0);
	snprintf(path, sizeof(path), "%s/mine.3.arena.damaged-20260101T000000Z", dir);
	close(open(path, O_RDWR | O_CREAT, 0600));
	snprintf(path, sizeof(path), "%s/notes.arena", dir);
	close(open(path, O_RDWR | O_CREAT, 0600));
	assert_int_equal(scan_ours(claims, 2, found), 3);
	assert_string_equal(found[0].link, "a.left");
	assert_int_equal(found[0].kind, STRAY_UNCLAIMED);
	assert_true(found[0].bytes > 4 << 20);
	assert_non_null(strstr(stray_text(&found[0], text), "put the link file a.left.conf back"));
	assert_string_equal(found[1].link, "garbage");
	assert_string_equal(found[2].link, "mine");
	assert_int_equal(found[2].kind, STRAY_SET_ASIDE);
	assert_non_null(strstr(stray_text(&found[2], text), "remove the file when you no longer need it"));
	arena_file_close(&running, true);
}

/* The same name in another directory is another buffer. */
static void scan__a_claim_is_of_one_directory(void **state)
{
	struct arena_claim claims[] = {{"x", dir}, {"mine", "/nonexistent"}};
	struct arena_stray found[16];
	bool all = true;

	(void)state;
	assert_int_equal(scan_ours(claims, 2, found), 4);
	assert_string_equal(found[2].link, "mine");
	assert_int_equal(found[2].kind, STRAY_UNCLAIMED);
	assert_int_equal(arena_scan(claims, 2, found, 1, &all), 1); /* bounded */
	assert_false(all);
	arena_scan(claims, 2, found, 16, &all);
	assert_true(all); /* what there is not holds nothing */
}

static void scan__a_directory_that_cannot_be_read(void **state)
{
	struct arena_claim claims[] = {{"x", "/dev/null"}};
	struct arena_stray found[16];
	bool all = true;

	(void)state;
	arena_scan(claims, 1, found, 16, &all);
	assert_false(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(scan__names_what_nobody_will_drain),
	    cmocka_unit_test(scan__a_claim_is_of_one_directory),
	    cmocka_unit_test(scan__a_directory_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
