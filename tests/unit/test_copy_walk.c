/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of the source trees: the order of what it finds, directories that cannot be read to their end, and trees
 * that change meanwhile. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int reads_left; /* before readdir() fails, -1: never */

static struct dirent *read_directory(DIR *dir)
{
	if (reads_left == 0) {
		errno = EIO;
		return NULL;
	}
	reads_left -= reads_left > 0;
	return readdir(dir);
}

#define readdir read_directory

#include "copy/client/copy_source.c"
#include "copy/client/copy_walk.c"
#include "copy/wire/copy_wire.c"

static char top[64];
static char found[4096];

/* --- a tree, and what is found in it --- */

static const char *in_top(const char *name)
{
	static char path[4][256];
	static int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", top, name);
	return path[i];
}

static void make_file(const char *name)
{
	FILE *f = fopen(in_top(name), "w");

	assert_non_null(f);
	fclose(f);
}

static void make_directory(const char *name)
{
	assert_int_equal(mkdir(in_top(name), 0755), 0);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/test_walk.XXXXXX");
	assert_non_null(mkdtemp(top));
	reads_left = -1;
	make_directory("src");
	make_directory("src/d");
	make_directory("src/d/empty");
	make_file("src/d/f");
	make_file("src/a");
	make_file("src/z");
	assert_int_equal(symlink("nowhere", in_top("src/link")), 0);
	assert_int_equal(mkfifo(in_top("src/pipe"), 0600), 0);
	make_directory("secret");
	make_file("secret/f");
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void note(const struct walk_entry *e)
{
	static const char *const what[] = {"", "left ", "other ", "error "};
	size_t at = strlen(found);

	snprintf(found + at, sizeof(found) - at, "%s%s%s%s, ", what[e->what], e->dst,
	         e->what == WALK_ENTRY && S_ISDIR(e->st.st_mode) ? "/" : "",
	         e->what == WALK_ERROR ? strerrorname_np(e->error) : "");
}

/* All that a walk finds. change: called when it has found the entry with that name. */
static const char *walk_all(const struct copy_options *o, const char *name, const char *changed, void (*change)(void))
{
	static struct walk_entry e;
	struct walk *w = walk_open(o, name);

	assert_non_null(w);
	found[0] = '\0';
	while (walk_next(w, &e)) {
		note(&e);
		if (changed && e.what == WALK_ENTRY && strcmp(e.dst, changed) == 0)
			change();
	}
	walk_close(w);
	return found;
}

static struct copy_options options(const char *source)
{
	static char *sources[2];

	free(sources[0]);
	sources[0] = strdup(source);
	return (struct copy_options){.source = sources, .nsources = 1};
}

/* --- cases --- */

static void walk__is_in_the_order_of_names(void **state)
{
	struct copy_options o = options(in_top("src"));

	(void)state;
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "src/, src/a, src/d/, src/d/empty/, left src/d/empty, src/d/f, "
	                                                    "left src/d, src/link, other src/pipe, src/z, left src, ");
	o = options(in_top("src/"));
	assert_string_equal(walk_all(&o, NULL, NULL, NULL),
	                    "/, a, d/, d/empty/, left d/empty, d/f, left d, link, other pipe, z, left , ");
	o = options(in_top("src/d"));
	assert_string_equal(walk_all(&o, "new", NULL, NULL), "new/, new/empty/, left new/empty, new/f, left new, ");
	o = options(in_top("src/a"));
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "a, ");
	o = options(in_top("src/link"));
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "link, ");
}

static void walk__leaves_out_what_is_excluded(void **state)
{
	struct copy_options o = options(in_top("src/"));
	char *patterns[] = {"d/", "z", "p*"};

	(void)state;
	o.exclude = patterns;
	o.nexcludes = 3;
	make_file("src/.longreach-part.1");
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "/, a, link, left , ");
}

static void walk__says_what_entries_are(void **state)
{
	struct copy_options o = options(in_top("src//"));
	struct source_roots roots = {.source = o.source};
	static struct walk_entry e;
	struct walk *w = walk_open(&o, NULL);
	int fd;

	(void)state;
	while (walk_next(w, &e)) {
		if (strcmp(e.dst, "link") == 0)
			assert_string_equal(e.target, "nowhere");
		else
			assert_null(e.target);
		if (strcmp(e.dst, "d/f") != 0)
			continue;
		assert_string_equal(e.src, in_top("src/d/f"));
		fd = source_open(&roots, e.src, e.at, O_RDONLY);
		assert_true(fd >= 0);
		close(fd);
	}
	walk_close(w);
	source_roots_close(&roots);
}

/* The tree looks complete then, and --delete would remove at the other site what was not listed. */
static void walk__says_that_a_directory_was_not_read_to_its_end(void **state)
{
	struct copy_options o = options(in_top("src/d/"));

	(void)state;
	reads_left = 0;
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "/, error EIO, ");
	o = options(in_top("secret"));
	reads_left = 3; /* . and .. and the file */
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "secret/, secret/f, error secretEIO, ");
}

static void walk__of_nothing_is_an_error(void **state)
{
	struct copy_options o = options("");

	(void)state;
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "error ENOENT, ");
	o = options(in_top("missing"));
	assert_string_equal(walk_all(&o, NULL, NULL, NULL), "error missingENOENT, ");
}

static void replace_by_link(void)
{
	assert_int_equal(rename(in_top("src/d"), in_top("moved")), 0);
	assert_int_equal(symlink(in_top("secret"), in_top("src/d")), 0);
}

/* The tree's owner may replace a directory by a link, and root, who copies the tree, could read what lies there. */
static void walk__is_not_led_out_by_a_link(void **state)
{
	struct copy_options o = options(in_top("src/"));
	struct source_roots roots = {.source = o.source};
	struct source_path at = {0, (uint32_t)strlen(in_top("src/"))};

	(void)state;
	assert_string_equal(walk_all(&o, NULL, "a", replace_by_link),
	                    "/, a, d/, error dENOTDIR, link, other pipe, z, left , ");
	assert_int_equal(source_open(&roots, in_top("src/d/f"), at, O_RDONLY), -ELOOP);
	assert_int_equal(source_open(&roots, in_top("src/d"), at, O_RDONLY), -ELOOP);
	assert_int_equal(source_open(&roots, in_top("src/link"), (struct source_path){0, 0}, O_RDONLY), -ELOOP);
	source_roots_close(&roots);
}

/* Many sources take few descriptors, and each path goes to its own. */
static void roots__are_opened_again(void **state)
{
	char *sources[SOURCE_ROOTS + 1];
	struct source_roots roots = {.source = sources};
	struct source_path at = {0, (uint32_t)strlen(in_top("src")) + 1};
	int fd;

	(void)state;
	for (uint32_t i = 0; i < SOURCE_ROOTS; i++)
		sources[i] = strdup(in_top("src"));
	sources[SOURCE_ROOTS] = strdup(in_top("secret"));
	for (uint32_t i = 0; i < 2 * SOURCE_ROOTS; i++) {
		at.source = i % 2 ? SOURCE_ROOTS : 0;
		fd = source_open(&roots, in_top("src/a"), at, O_RDONLY);
		assert_int_equal(fd, i % 2 ? -ENOENT : fd);
		if (i % 2 == 0) {
			assert_true(fd >= 0);
			close(fd);
		}
	}
	source_roots_close(&roots);
	for (uint32_t i = 0; i <= SOURCE_ROOTS; i++)
		free(sources[i]);
}

/* Paths grow too long before descriptors or the stack run out. */
static void walk__of_a_deep_tree_ends(void **state)
{
	static char name[256];
	static struct walk_entry e;
	struct copy_options o = options(in_top("src/"));
	int dir = open(in_top("src/d"), O_PATH), middle = -1, deep = 0, errors = 0;
	struct walk *w;

	(void)state;
	memset(name, 'n', 255);
	for (int i = 0; i < 20; i++) {
		int next;

		assert_int_equal(mkdirat(dir, name, 0755), 0);
		next = openat(dir, name, O_PATH);
		if (i == 10)
			middle = dir;
		else
			close(dir);
		dir = next;
	}
	close(dir);
	w = walk_open(&o, NULL);
	while (walk_next(w, &e)) {
		deep += e.what == WALK_ENTRY && strncmp(e.dst, "d/n", 3) == 0;
		errors += e.what == WALK_ERROR && e.error == ENAMETOOLONG;
	}
	walk_close(w);
	assert_int_equal(errors, 1);
	assert_int_equal(deep, 15);
	assert_int_equal(renameat(middle, name, AT_FDCWD, in_top("rest")), 0); /* paths that tear_down() can remove */
	close(middle);
}

int main(void)
{
#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    IN_TREE(walk__is_in_the_order_of_names),
	    IN_TREE(walk__leaves_out_what_is_excluded),
	    IN_TREE(walk__says_what_entries_are),
	    IN_TREE(walk__says_that_a_directory_was_not_read_to_its_end),
	    IN_TREE(walk__of_nothing_is_an_error),
	    IN_TREE(walk__is_not_led_out_by_a_link),
	    IN_TREE(roots__are_opened_again),
	    IN_TREE(walk__of_a_deep_tree_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
