/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind an arena: what is taken up again, what is refused, and what is kept when it is refused. */
#define _GNU_SOURCE /* fallocate, before any header */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "daemon/arena/arena_file.c"
#include "daemon/arena/page_lock.c"
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
	char pattern[128];
	glob_t found;

	(void)state;
	snprintf(pattern, sizeof(pattern), "%s/*", dir);
	if (glob(pattern, 0, NULL, &found) != 0)
		return 0;
	for (size_t i = 0; i < found.gl_pathc; i++)
		unlink(found.gl_pathv[i]);
	globfree(&found);
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
	    .spread = {.nshards = nshards},
	    .geometry = {.len = LEN, .chunk_size = 65536, .max_flows = 16, .reserve_percent = 25},
	    .new_epoch = 1111,
	    .nformer = SHARDS_MAX,
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

/* What `longreachd --close` goes by, after whatever end. */
static void file__says_what_is_owed(void **state)
{
	struct arena_file_params p = params_of(1, 2);
	struct arena_file f;
	uint8_t *trailer;

	(void)state;
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_CLEAR);
	open_ok(&f, &p, true);
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_LOCKED);
	arena_file_in_use(&f);
	arena_file_close(&f, false); /* of a version that does not say */
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_OWES);
	open_ok(&f, &p, false);
	arena_file_say_owed(&f, false);
	arena_file_close(&f, false);
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_CLEAR);
	assert_int_equal(arena_file_debt(dir, "u"), ARENA_CLEAR);
	open_ok(&f, &p, false);
	arena_file_say_owed(&f, true);
	arena_file_close(&f, false);
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_OWES);
	open_ok(&f, &p, false);
	arena_file_say_owed(&f, false);
	trailer = (uint8_t *)trailer_of(&f);
	trailer[0] ^= 1;
	arena_file_close(&f, false);
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_OWES); /* it cannot be told */
}

/* What Barrier=auto of a later life without early ACKs goes by, whether somebody has the file open or not. */
static void file__says_whether_what_is_owed_was_acknowledged_early(void **state)
{
	struct arena_file_params p = params_of(1, 2);
	struct arena_file f;

	(void)state;
	assert_false(arena_file_owes_early(dir, "t"));
	open_ok(&f, &p, true);
	arena_file_in_use(&f); /* of a version that does not say */
	assert_true(arena_file_was_early(&f));
	assert_true(arena_file_owes_early(dir, "t"));
	arena_file_say_early(&f, false);
	assert_false(arena_file_was_early(&f));
	assert_false(arena_file_owes_early(dir, "t"));
	arena_file_say_early(&f, true);
	arena_file_say_owed(&f, false);
	assert_false(arena_file_owes_early(dir, "t"));
	arena_file_say_owed(&f, true);
	arena_file_close(&f, false);
	assert_true(arena_file_owes_early(dir, "t"));
	assert_false(arena_file_owes_early(dir, "u"));
	open_ok(&f, &p, false);
	assert_true(arena_file_was_early(&f));
	arena_file_close(&f, true); /* nothing is left in it */
	assert_false(arena_file_owes_early(dir, "t"));
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

/* A process that has lost its lock and still writes, as a killed one's network card does. */
static pid_t start_owner(const struct arena_file_params *p, unsigned writes_ms)
{
	int said[2];
	char word;
	pid_t pid;

	assert_int_equal(pipe(said), 0);
	pid = fork();
	if (pid == 0) {
		struct arena_file f;
		char err[512];

		if (arena_file_open(&f, p, err, sizeof(err)) != 0)
			_exit(1);
		arena_file_in_use(&f);
		flock(f.fd, LOCK_UN);
		if (write(said[1], "x", 1) != 1)
			_exit(1);
		for (unsigned i = 0; i < writes_ms; i++) {
			memset(f.region, (int)(i & 0xff), LEN);
			usleep(1000);
		}
		_exit(0);
	}
	close(said[1]);
	assert_int_equal(read(said[0], &word, 1), 1);
	close(said[0]);
	return pid;
}

static void file__of_a_process_that_still_writes_is_waited_for(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	pid_t pid = start_owner(&p, 200);
	uint8_t *canaries = malloc(LEN);
	struct arena_file f;

	(void)state;
	open_ok(&f, &p, false);
	assert_non_null(canaries);
	memcpy(canaries, f.region, LEN);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), pid);
	assert_memory_equal(canaries, f.region, LEN);
	free(canaries);
	arena_file_close(&f, false);
	open_ok(&f, &p, false); /* it is this process's own now */
	arena_file_close(&f, false);
}

static void file__of_a_process_that_does_not_end_is_refused_and_kept(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	pid_t pid = start_owner(&p, 60000);
	int patience = owner_wait_ms;
	struct arena_file f;
	char err[512];

	(void)state;
	owner_wait_ms = 30;
	assert_int_equal(open_err(&p, err), -EBUSY);
	assert_non_null(strstr(err, "does not end"));
	owner_wait_ms = patience;
	kill(pid, SIGKILL);
	open_ok(&f, &p, false);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), pid);
	/* the number is another process's by now */
	trailer_of(&f)->owner_pid = 1;
	munmap(f.region, f.map_len);
	close(f.fd);
	open_ok(&f, &p, false);
	arena_file_close(&f, false);
}

static void change_bytes(off_t at, const void *bytes, size_t len)
{
	char path[128];
	int fd;

	arena_file_name(path, sizeof(path), dir, "t", 0);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, at), len);
	close(fd);
}

/* As of a daemon that was killed. */
static void leave_owing(const struct arena_file_params *p, bool owes)
{
	struct arena_file f;

	open_ok(&f, p, true);
	arena_file_in_use(&f);
	arena_file_say_owed(&f, owes);
	((uint8_t *)f.region)[5] = 0x77;
	arena_file_close(&f, false);
}

/* The configuration asks for another size: for its flows an arena in use goes on in its own, whether it owes or not. */
static void expect_taken_up(const struct arena_file_params *p, const struct arena_file_params *q)
{
	struct arena_file f;
	struct stat st;

	open_ok(&f, q, false);
	assert_true(arena_file_same_geometry(&f.geometry, &p->geometry));
	assert_false(arena_file_same_geometry(&f.geometry, &q->geometry));
	assert_int_equal(((uint8_t *)f.region)[5], 0x77);
	assert_int_equal(fstat(f.fd, &st), 0);
	assert_int_equal(st.st_size, file_len(p->geometry.len, MAP_ALIGN));
	arena_file_close(&f, false);
}

static void file__in_use_is_taken_up_with_its_own_geometry(void **state)
{
	struct arena_file_params p = params_of(0, 2), q;
	struct arena_file f;

	(void)state;
	for (int owes = 1; owes >= 0; owes--) {
		leave_owing(&p, owes);
		q = params_of(0, 2);
		q.geometry.len = 2 * LEN;
		expect_taken_up(&p, &q);
		q.geometry.len = LEN / 2;
		expect_taken_up(&p, &q);
		q = params_of(0, 2);
		q.geometry.max_flows = 32;
		expect_taken_up(&p, &q);
		q = params_of(0, 2);
		q.geometry.chunk_size *= 2;
		expect_taken_up(&p, &q);
		open_ok(&f, &q, false);
		arena_file_close(&f, true);
		open_ok(&f, &q, true); /* drained: the configuration decides */
		assert_true(arena_file_same_geometry(&f.geometry, &q.geometry));
		arena_file_close(&f, true);
	}
}

/* The trailer is whole, and says another length than the file has: whatever is in it is kept. */
static void file__of_another_length_than_it_says_is_set_aside(void **state)
{
	off_t trailer = (off_t)file_len(LEN, MAP_ALIGN) - (off_t)MAP_ALIGN;
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	struct trailer t;

	(void)state;
	leave_owing(&p, true);
	open_ok(&f, &p, false);
	t = *trailer_of(&f);
	arena_file_close(&f, false);
	t.len = 1ull << 50;
	t.crc = trailer_crc(&t);
	change_bytes(trailer, &t, sizeof(t));
	open_ok(&f, &p, true);
	assert_non_null(strstr(f.set_aside, "t.0.arena.damaged-2"));
	arena_file_close(&f, true);
}

/* Flows would be looked for in other files. */
static void file__of_other_workers_is_kept_if_it_owes_and_else_replaced(void **state)
{
	struct arena_file_params p = params_of(0, 2), q = params_of(0, 1);
	struct arena_file f;
	char err[512];

	(void)state;
	leave_owing(&p, true);
	assert_int_equal(open_err(&q, err), -EEXIST);
	assert_non_null(strstr(err, "holds packets of a link with Workers=2: put that value back"));
	open_ok(&f, &p, false);
	assert_int_equal(((uint8_t *)f.region)[5], 0x77);
	arena_file_say_owed(&f, false);
	arena_file_say_peer(&f, 77);
	arena_file_close(&f, false);
	q.new_epoch = 2222;
	open_ok(&f, &q, true);
	assert_int_equal(f.epoch, 2222);
	assert_int_equal(f.peer_epoch, 77);
	assert_int_equal(((uint8_t *)f.region)[5], 0);
	assert_string_equal(f.set_aside, "");
	arena_file_close(&f, true);
}

static void spread__is_that_of_files_in_use_and_first_of_those_that_owe(void **state)
{
	struct arena_file_params p = params_of(0, 2), q = params_of(1, 3);
	struct arena_spread s;
	struct arena_file f;

	(void)state;
	p.spread.lanes = 64;
	q.spread.lanes = 32;
	assert_false(arena_file_spread(dir, "t", &s));
	leave_owing(&p, false);
	leave_owing(&q, true);
	assert_true(arena_file_spread(dir, "t", &s));
	assert_int_equal(s.nshards, 3);
	assert_int_equal(s.lanes, 32);
	assert_false(arena_file_spread(dir, "u", &s));
	open_ok(&f, &q, false);
	arena_file_close(&f, true);
	assert_true(arena_file_spread(dir, "t", &s));
	assert_int_equal(s.nshards, 2);
	assert_int_equal(s.lanes, 64);
	open_ok(&f, &p, false);
	arena_file_close(&f, true);
	assert_false(arena_file_spread(dir, "t", &s));
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

/* Takes the lock for so long, as one who only looks at the file, or as one who opens it. */
static pid_t hold_lock(int how, unsigned ms)
{
	char path[128], word;
	int said[2];
	pid_t pid;

	arena_file_name(path, sizeof(path), dir, "t", 0);
	assert_int_equal(pipe(said), 0);
	pid = fork();
	if (pid == 0) {
		int fd = open(path, O_RDWR);

		if (flock(fd, how) != 0 || write(said[1], "x", 1) != 1)
			_exit(1);
		usleep(ms * 1000);
		_exit(0);
	}
	close(said[1]);
	assert_int_equal(read(said[0], &word, 1), 1);
	close(said[0]);
	return pid;
}

/* longreach-closed or `longreachd --owed` looks at the file at the moment of a start. */
static void lock__of_a_short_look_is_waited_for(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	bool untold;
	char err[512];
	pid_t pid;

	(void)state;
	leave_owing(&p, false);
	pid = hold_lock(LOCK_EX, 50);
	open_ok(&f, &p, false);
	arena_file_close(&f, false);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	pid = hold_lock(LOCK_SH, 50);
	assert_int_equal(arena_file_check_others(dir, "t", 0, &untold, err, sizeof(err)), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Who looks is in the way of nobody else who looks. */
static void lock__of_one_look_is_no_daemon_s(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char path[128];
	pid_t pid;

	(void)state;
	leave_owing(&p, true);
	arena_file_name(path, sizeof(path), dir, "t", 0);
	pid = hold_lock(LOCK_SH, 50);
	assert_int_equal(arena_file_debt_of(path), ARENA_OWES);
	assert_true(arena_file_left(path));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A file with four words in it where a host's bytes would be, as a killed daemon leaves it. */
static void leave_in_use(void)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	open_ok(&f, &p, true);
	memset(f.region, 0x77, LEN);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
}

/* Opens it, and expects that what was there is found in a file of its own, byte for byte where nobody changed it. */
static void expect_set_aside(uint8_t byte_inside)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	uint8_t byte = 0;
	int fd;

	p.new_epoch = 2222;
	open_ok(&f, &p, true);
	assert_int_equal(f.epoch, 2222);
	assert_false(f.former_kept);
	assert_non_null(strstr(f.set_aside, "t.0.arena.damaged-2"));
	fd = open(f.set_aside, O_RDONLY);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 999), 1);
	assert_int_equal(byte, byte_inside);
	close(fd);
	arena_file_close(&f, true);
}

static void file__garbage_is_set_aside(void **state)
{
	char path[128];
	FILE *g;

	(void)state;
	arena_file_name(path, sizeof(path), dir, "t", 0);
	g = fopen(path, "w");
	assert_non_null(g);
	for (int i = 0; i < 100000; i++)
		fputs("not an arena ", g);
	fclose(g);
	expect_set_aside((uint8_t)"not an arena "[999 % 13]);
}

static void file__without_a_byte_is_no_loss(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	char path[128];

	(void)state;
	arena_file_name(path, sizeof(path), dir, "t", 0);
	close(open(path, O_RDWR | O_CREAT, 0600));
	open_ok(&f, &p, true);
	assert_string_equal(f.set_aside, "");
	assert_false(f.former_kept);
	arena_file_close(&f, true);
}

/* Eight bytes of zeroes, or one bit, in each place where the trailer says something. */
static void file__damaged_trailer_is_set_aside(void **state)
{
	static const uint8_t zeroes[8];
	off_t trailer = (off_t)file_len(LEN, MAP_ALIGN) - (off_t)MAP_ALIGN;
	struct trailer t;

	(void)state;
	for (size_t at = 0; at < offsetof(struct trailer, lanes); at += 8) {
		leave_in_use();
		change_bytes(trailer + (off_t)at, zeroes, 8);
		expect_set_aside(0x77);
		empty_dir(NULL);
	}
	for (size_t bit = 0; bit < 8 * offsetof(struct trailer, crc); bit++) {
		struct arena_file_params p = params_of(0, 1);
		struct arena_file f;
		uint8_t changed;

		leave_in_use();
		open_ok(&f, &p, false);
		t = *trailer_of(&f);
		arena_file_close(&f, false);
		changed = (uint8_t)(((uint8_t *)&t)[bit / 8] ^ 1u << bit % 8);
		change_bytes(trailer + (off_t)(bit / 8), &changed, 1);
		expect_set_aside(0x77);
		empty_dir(NULL);
	}
}

static off_t trailer_at(size_t field)
{
	return (off_t)(file_len(LEN, MAP_ALIGN) - MAP_ALIGN + field);
}

/* After a power loss a disk has what was written back by then, pages of different times. */
static void file__in_use_of_another_boot_is_set_aside(void **state)
{
	static const uint8_t other[16] = "another boot's";
	struct arena_spread spread;

	(void)state;
	leave_in_use();
	assert_true(arena_file_spread(dir, "t", &spread));
	change_bytes(trailer_at(offsetof(struct trailer, boot)), other, sizeof(other));
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_OWES);
	assert_true(arena_file_owes_early(dir, "t"));
	assert_false(arena_file_spread(dir, "t", &spread)); /* the next start does not go on with it */
	arena_file_settle(dir, "t");                        /* nor does an orderly end make it whole */
	expect_set_aside(0x77);
}

/* An orderly stop has written all to the disk. An older version does not say. */
static void file__of_no_boot_is_taken_up(void **state)
{
	static const uint8_t none[16];
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	leave_in_use();
	change_bytes(trailer_at(offsetof(struct trailer, boot)), none, sizeof(none));
	open_ok(&f, &p, false);
	assert_true(memcmp(trailer_of(&f)->boot, none, sizeof(none)) == 0);
	arena_file_in_use(&f);
	assert_true(memcmp(trailer_of(&f)->boot, none, sizeof(none)) != 0);
	arena_file_close(&f, false);
	open_ok(&f, &p, false); /* of this boot: the process was killed */
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	arena_file_settle(dir, "t");
	open_ok(&f, &p, false);
	assert_true(memcmp(trailer_of(&f)->boot, none, sizeof(none)) == 0);
	arena_file_in_use(&f);
	arena_file_settle(dir, "t"); /* somebody has it open */
	assert_true(memcmp(trailer_of(&f)->boot, none, sizeof(none)) != 0);
	arena_file_close(&f, true);
}

/* Nothing is left in it: another boot may use it, and tells the other edge of no loss. */
static void file__empty_one_of_another_boot_is_no_loss(void **state)
{
	static const uint8_t other[16] = "another boot's";
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	open_ok(&f, &p, true);
	arena_file_say_told(&f);
	arena_file_in_use(&f);
	arena_file_close(&f, true);
	change_bytes(trailer_at(offsetof(struct trailer, boot)), other, sizeof(other));
	open_ok(&f, &p, true);
	assert_true(f.former_kept);
	assert_string_equal(f.set_aside, "");
	arena_file_close(&f, true);
}

static void file__cut_short_is_set_aside(void **state)
{
	char path[128];

	(void)state;
	leave_in_use();
	arena_file_name(path, sizeof(path), dir, "t", 0);
	assert_int_equal(truncate(path, LEN - 4096), 0);
	expect_set_aside(0x77);
}

static void file__set_aside_are_kept_up_to_a_bound(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char path[128], err[512];

	(void)state;
	arena_file_name(path, sizeof(path), dir, "t", 0);
	for (int i = 0; i < SET_ASIDE_MAX; i++) {
		leave_in_use();
		assert_int_equal(truncate(path, LEN), 0);
		expect_set_aside(0x77);
	}
	leave_in_use();
	assert_int_equal(truncate(path, LEN), 0);
	assert_int_equal(open_err(&p, err), -EMLINK);
	assert_non_null(strstr(err, "t.0.arena"));
	assert_non_null(strstr(err, "remove the others"));
	assert_int_equal(access(path, F_OK), 0);
}

/* Killed while it was made: it never had the name, and whatever it had begun is no obstacle. */
static void file__unfinished_one_is_made_again(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char path[128], unfinished[140];
	struct arena_file f;

	(void)state;
	arena_file_name(path, sizeof(path), dir, "t", 0);
	leave_in_use();
	snprintf(unfinished, sizeof(unfinished), "%s.new", path);
	assert_int_equal(rename(path, unfinished), 0);
	open_ok(&f, &p, true);
	assert_string_equal(f.set_aside, "");
	assert_int_equal(access(unfinished, F_OK), -1);
	assert_int_equal(((uint8_t *)f.region)[999], 0);
	arena_file_close(&f, true);
}

/* What a version without a checksum in the trailer has left is taken up. */
static void file__of_an_earlier_version_comes_back(void **state)
{
	static const uint8_t none[4];
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	leave_in_use();
	change_bytes((off_t)(file_len(LEN, MAP_ALIGN) - MAP_ALIGN + offsetof(struct trailer, crc)), none, 4);
	open_ok(&f, &p, false);
	arena_file_close(&f, true);
}

/* The arena of a start that finds the file damaged. */
static void lose(struct arena_file *f, struct arena_file_params *p)
{
	leave_in_use();
	change_bytes((off_t)(file_len(LEN, MAP_ALIGN) - MAP_ALIGN), "\0\0\0\0", 4);
	p->new_epoch = 2222;
	open_ok(f, p, true);
	assert_false(f->former_kept);
}

/* Each start on the arena that follows a lost one reports the loss: an earlier start may have been killed before its hello. */
static void loss__is_said_by_each_start_on_the_next_arena(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	lose(&f, &p);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	open_ok(&f, &p, false);
	assert_int_equal(f.epoch, 2222);
	assert_false(f.former_kept);
	arena_file_say_told(&f);
	arena_file_close(&f, false);
	open_ok(&f, &p, false); /* the other edge may be started anew, and its flows of the lost arena are rebuilt */
	assert_false(f.former_kept);
	arena_file_close(&f, false);
}

/* The arena that follows a lost one has drained, or was never used, and no session was heard on it: the next arena reports
 * the loss. */
static void loss__passes_on_until_it_is_told(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	lose(&f, &p);
	arena_file_close(&f, false); /* killed before the core was in it */
	open_ok(&f, &p, true);
	assert_false(f.former_kept);
	arena_file_in_use(&f);
	arena_file_close(&f, true);
	p.geometry.len = 2 * LEN;
	open_ok(&f, &p, true);
	assert_false(f.former_kept);
	arena_file_in_use(&f);
	arena_file_say_told(&f);
	arena_file_close(&f, true);
	open_ok(&f, &p, true);
	assert_true(f.former_kept);
	arena_file_in_use(&f);
	arena_file_say_told(&f); /* there is nothing to tell */
	arena_file_close(&f, false);
	open_ok(&f, &p, false);
	assert_true(f.former_kept);
	arena_file_close(&f, true);
}

/* A trailer of a version without the field: the arena is taken up, or had drained, and nothing is known of a loss. */
static void loss__is_not_said_of_an_earlier_version_s_arena(void **state)
{
	static const uint8_t none[4];
	const off_t at = (off_t)(file_len(LEN, MAP_ALIGN) - MAP_ALIGN + offsetof(struct trailer, loss));
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	leave_in_use();
	change_bytes(at, none, sizeof(none));
	open_ok(&f, &p, false);
	assert_true(f.former_kept);
	arena_file_say_told(&f);
	assert_int_equal(trailer_of(&f)->loss, LOSS_UNKNOWN);
	arena_file_close(&f, true);
	open_ok(&f, &p, true);
	assert_true(f.former_kept);
	arena_file_close(&f, true);
}

/* The other edge's arena is remembered over restarts, and by the arena behind one that has drained. */
static void peer_epoch__outlives_the_process_and_a_drained_arena(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;

	(void)state;
	open_ok(&f, &p, true);
	assert_true(f.peer_epoch == 0);
	arena_file_in_use(&f);
	arena_file_say_peer(&f, 0x123456789abcdef0);
	arena_file_close(&f, false);
	open_ok(&f, &p, false);
	assert_true(f.peer_epoch == 0x123456789abcdef0);
	arena_file_close(&f, true);
	open_ok(&f, &p, true);
	assert_true(f.peer_epoch == 0x123456789abcdef0);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	open_ok(&f, &p, false);
	assert_true(f.peer_epoch == 0x123456789abcdef0);
	arena_file_close(&f, true);
}

/* An arena that has drained, as an orderly stop leaves it. */
static void leave_drained(const struct arena_file_params *p)
{
	struct arena_file f;

	open_ok(&f, p, true);
	arena_file_say_told(&f);
	arena_file_in_use(&f);
	memset(f.region, 0x77, LEN);
	arena_file_say_peer(&f, 77);
	arena_file_close(&f, true);
}

static void expect_nothing_lost(const struct arena_file_params *p)
{
	struct arena_file f;

	open_ok(&f, p, true);
	assert_true(f.former_kept);
	assert_true(f.peer_epoch == 77);
	assert_int_equal(((uint8_t *)f.region)[5], 0);
	arena_file_close(&f, true);
}

/* No room for the next arena, or the process is killed before the arena is complete: what the former arena says is kept
 * until a start succeeds. */
static void room__that_is_missing_makes_no_loss_of_a_drained_arena(void **state)
{
	struct arena_file_params p = params_of(0, 1), too_large = p;
	char path[128], unfinished[140], err[512];

	(void)state;
	leave_drained(&p);
	too_large.geometry.len = 1ull << 44;
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_err(&too_large, err), -ENOSPC);
	assert_non_null(strstr(err, "no room for"));
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_CLEAR);
	arena_file_name(path, sizeof(path), dir, "t", 0);
	snprintf(unfinished, sizeof(unfinished), "%s.new", path);
	assert_int_equal(access(unfinished, F_OK), -1);
	expect_nothing_lost(&p);
}

/* Another Directory=: the arena there is the next one after that which has drained here. */
static void move__takes_along_what_the_trailer_says(void **state)
{
	struct arena_file_params p = params_of(0, 1), there = p;
	char to[sizeof(dir) + 16], path[128];

	(void)state;
	snprintf(to, sizeof(to), "%s/there", dir);
	there.dir = to;
	leave_drained(&p);
	arena_file_move(dir, to, "t");
	arena_file_name(path, sizeof(path), dir, "t", 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(arena_file_former(to, "t"), 1);
	expect_nothing_lost(&there);
	arena_file_name(path, sizeof(path), to, "t", 0);
	assert_int_equal(unlink(path), 0);
	leave_owing(&p, true);
	arena_file_move(dir, to, "t"); /* never one that owes */
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(arena_file_debt(dir, "t"), ARENA_OWES);
	rmdir(to);
}

/* An attempt that fails takes no memory from others: the mount may have to be made larger first. */
static void room__of_a_start_that_fails_is_given_back(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct stat st;
	char path[128], err[512];

	(void)state;
	leave_drained(&p);
	p.geometry.len = 1ull << 44;
	assert_int_equal(open_err(&p, err), -ENOSPC);
	arena_file_name(path, sizeof(path), dir, "t", 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 <= MAP_ALIGN);
}

/* The arena of another spread owes nothing, and goes as well. */
static void room__that_is_missing_makes_no_loss_of_an_arena_of_other_workers(void **state)
{
	struct arena_file_params p = params_of(0, 2), q = params_of(0, 1);
	struct arena_file f;
	char err[512];

	(void)state;
	leave_drained(&p);
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	arena_file_say_owed(&f, false);
	arena_file_close(&f, false);
	q.geometry.len = 1ull << 44;
	assert_int_equal(open_err(&q, err), -ENOSPC);
	q.geometry.len = LEN;
	expect_nothing_lost(&q);
}

/* With pages of 1 GiB all lengths and addresses are multiples of these. */
static void map__of_huge_pages_of_any_size(void **state)
{
	const uint64_t gib = 1ull << 30;
	uint8_t *region;
	char path[128];
	int fd;

	(void)state;
	assert_int_equal(file_len(LEN, MAP_ALIGN), LEN + MAP_ALIGN);
	assert_int_equal(file_len(LEN + 1, MAP_ALIGN), LEN + 2 * MAP_ALIGN);
	assert_int_equal(file_len(LEN, gib), gib);
	assert_int_equal(file_len(gib - MAP_ALIGN, gib), gib);
	assert_int_equal(file_len(gib, gib), 2 * gib); /* the trailer needs room of its own */
	arena_file_name(path, sizeof(path), dir, "t", 0);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(2 * gib)), 0); /* a hole: takes no memory */
	region = map_aligned(fd, 2 * gib, gib);
	assert_non_null(region);
	assert_int_equal((uintptr_t)region % gib, 0);
	region[2 * gib - 1] = 1;
	munmap(region, 2 * gib);
	close(fd);
}

static void file__links_are_not_followed(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char path[128], err[512];

	(void)state;
	arena_file_name(path, sizeof(path), dir, "t", 0);
	assert_int_equal(symlink("/dev/null", path), 0);
	assert_true(open_err(&p, err) < 0);
}

/* The test's own directory is on tmpfs; what holds the sources is not. */
static void file__not_on_a_disk_unless_told(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	char on_disk[] = "./test_arena_file.XXXXXX", path[64], err[512];
	struct arena_file f;
	struct statfs fs;

	(void)state;
	assert_non_null(mkdtemp(on_disk));
	assert_int_equal(statfs(on_disk, &fs), 0);
	p.dir = on_disk;
	if (fs.f_type == TMPFS_MAGIC) {
		rmdir(on_disk);
		skip();
	}
	assert_int_equal(open_err(&p, err), -EMEDIUMTYPE);
	assert_non_null(strstr(err, "Mount one of the two there"));
	assert_int_equal(rmdir(on_disk), 0); /* nothing was written */
	assert_int_equal(mkdir(on_disk, 0700), 0);
	p.on_disk = true;
	open_ok(&f, &p, true);
	arena_file_close(&f, true);
	snprintf(path, sizeof(path), "%s/t.0.arena", on_disk);
	unlink(path);
	rmdir(on_disk);
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
	bool untold;
	char err[512], path[128];

	(void)state;
	assert_int_equal(arena_file_check_others(dir, "t", 1, &untold, err, sizeof(err)), 0);
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	assert_int_equal(arena_file_check_others(dir, "t", 3, &untold, err, sizeof(err)), 0);
	assert_int_equal(arena_file_check_others(dir, "t", 2, &untold, err, sizeof(err)), -EBUSY);
	assert_non_null(strstr(err, "t.2.arena"));
	open_ok(&f, &p, false);
	arena_file_close(&f, true);
	assert_int_equal(arena_file_check_others(dir, "t", 2, &untold, err, sizeof(err)), 0);
	arena_file_name(path, sizeof(path), dir, "t", 2);
	assert_int_equal(access(path, F_OK), -1);
	leave_owing(&p, false); /* in use, but nothing is owed */
	assert_int_equal(arena_file_check_others(dir, "t", 2, &untold, err, sizeof(err)), 0);
	assert_int_equal(access(path, F_OK), -1);
}

/* The arena that followed a lost one is removed, as Workers= is smaller now, before the other edge heard of the loss: the
 * arenas that stay report it. */
static void others__a_loss_that_was_not_told_passes_to_those_that_stay(void **state)
{
	struct arena_file_params p = params_of(1, 2), stays = params_of(0, 1);
	struct arena_file f;
	char err[512];
	bool untold;

	(void)state;
	open_ok(&f, &stays, true);
	arena_file_say_told(&f);
	arena_file_close(&f, true);
	open_ok(&f, &p, true); /* the first of its name may follow a lost one */
	arena_file_close(&f, true);
	assert_int_equal(arena_file_check_others(dir, "t", 1, &untold, err, sizeof(err)), 0);
	assert_true(untold);
	stays.former_lost = untold;
	open_ok(&f, &stays, true);
	assert_false(f.former_kept);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	assert_int_equal(arena_file_check_others(dir, "t", 1, &untold, err, sizeof(err)), 0);
	assert_false(untold);
	stays.former_lost = untold;
	open_ok(&f, &stays, false);
	assert_false(f.former_kept);
	arena_file_close(&f, true);
	open_ok(&f, &p, true);
	arena_file_say_told(&f);
	arena_file_close(&f, true);
	assert_int_equal(arena_file_check_others(dir, "t", 1, &untold, err, sizeof(err)), 0);
	assert_false(untold);
}

/* Workers= grows: the new files follow no arena, so no loss is to be told. After a loss of all files they may. */
static void loss__is_none_of_shards_that_the_start_before_had_not(void **state)
{
	struct arena_file_params first = params_of(0, 1), second = params_of(1, 2);
	struct arena_file f;

	(void)state;
	assert_int_equal(arena_file_former(dir, "t"), SHARDS_MAX);
	second.nformer = arena_file_former(dir, "t");
	open_ok(&f, &second, true);
	assert_false(f.former_kept);
	arena_file_close(&f, true);
	empty_dir(NULL);
	open_ok(&f, &first, true);
	arena_file_in_use(&f);
	arena_file_say_told(&f);
	arena_file_close(&f, true);
	assert_int_equal(arena_file_former(dir, "t"), 1);
	second.nformer = 1;
	open_ok(&f, &second, true);
	assert_true(f.former_kept);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	second.nformer = SHARDS_MAX;
	open_ok(&f, &second, false);
	assert_true(f.former_kept);
	arena_file_close(&f, true);
}

/* Flows would be looked for on other lanes. */
static void file__of_other_lanes_is_refused_and_kept(void **state)
{
	struct arena_file_params p = params_of(0, 1);
	struct arena_file f;
	char err[512];

	(void)state;
	p.spread.lanes = 64;
	open_ok(&f, &p, true);
	arena_file_in_use(&f);
	arena_file_close(&f, false);
	p.spread.lanes = 32;
	assert_int_equal(open_err(&p, err), -EEXIST);
	assert_non_null(strstr(err, "another Lanes= or other groups in [Host]"));
	p.spread.lanes = 64;
	open_ok(&f, &p, false);
	arena_file_close(&f, true);
	p.spread.lanes = 32; /* empty: no matter */
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
	    cmocka_unit_test_teardown(file__of_a_process_that_still_writes_is_waited_for, empty_dir),
	    cmocka_unit_test_teardown(file__of_a_process_that_does_not_end_is_refused_and_kept, empty_dir),
	    cmocka_unit_test_teardown(file__in_use_is_taken_up_with_its_own_geometry, empty_dir),
	    cmocka_unit_test_teardown(file__of_another_length_than_it_says_is_set_aside, empty_dir),
	    cmocka_unit_test_teardown(file__of_other_workers_is_kept_if_it_owes_and_else_replaced, empty_dir),
	    cmocka_unit_test_teardown(spread__is_that_of_files_in_use_and_first_of_those_that_owe, empty_dir),
	    cmocka_unit_test_teardown(file__locked_one_is_somebody_else_s, empty_dir),
	    cmocka_unit_test_teardown(file__garbage_is_set_aside, empty_dir),
	    cmocka_unit_test_teardown(file__without_a_byte_is_no_loss, empty_dir),
	    cmocka_unit_test_teardown(file__damaged_trailer_is_set_aside, empty_dir),
	    cmocka_unit_test_teardown(file__cut_short_is_set_aside, empty_dir),
	    cmocka_unit_test_teardown(file__set_aside_are_kept_up_to_a_bound, empty_dir),
	    cmocka_unit_test_teardown(file__unfinished_one_is_made_again, empty_dir),
	    cmocka_unit_test_teardown(file__of_an_earlier_version_comes_back, empty_dir),
	    cmocka_unit_test_teardown(loss__is_said_by_each_start_on_the_next_arena, empty_dir),
	    cmocka_unit_test_teardown(loss__passes_on_until_it_is_told, empty_dir),
	    cmocka_unit_test_teardown(loss__is_not_said_of_an_earlier_version_s_arena, empty_dir),
	    cmocka_unit_test_teardown(loss__is_none_of_shards_that_the_start_before_had_not, empty_dir),
	    cmocka_unit_test_teardown(peer_epoch__outlives_the_process_and_a_drained_arena, empty_dir),
	    cmocka_unit_test_teardown(file__in_use_of_another_boot_is_set_aside, empty_dir),
	    cmocka_unit_test_teardown(file__of_no_boot_is_taken_up, empty_dir),
	    cmocka_unit_test_teardown(file__empty_one_of_another_boot_is_no_loss, empty_dir),
	    cmocka_unit_test_teardown(room__that_is_missing_makes_no_loss_of_a_drained_arena, empty_dir),
	    cmocka_unit_test_teardown(move__takes_along_what_the_trailer_says, empty_dir),
	    cmocka_unit_test_teardown(room__of_a_start_that_fails_is_given_back, empty_dir),
	    cmocka_unit_test_teardown(room__that_is_missing_makes_no_loss_of_an_arena_of_other_workers, empty_dir),
	    cmocka_unit_test_teardown(lock__of_a_short_look_is_waited_for, empty_dir),
	    cmocka_unit_test_teardown(lock__of_one_look_is_no_daemon_s, empty_dir),
	    cmocka_unit_test_teardown(map__of_huge_pages_of_any_size, empty_dir),
	    cmocka_unit_test_teardown(file__links_are_not_followed, empty_dir),
	    cmocka_unit_test_teardown(file__says_what_is_owed, empty_dir),
	    cmocka_unit_test_teardown(file__says_whether_what_is_owed_was_acknowledged_early, empty_dir),
	    cmocka_unit_test_teardown(file__not_on_a_disk_unless_told, empty_dir),
	    cmocka_unit_test_teardown(file__missing_directory_is_a_sentence, empty_dir),
	    cmocka_unit_test_teardown(file__of_other_lanes_is_refused_and_kept, empty_dir),
	    cmocka_unit_test_teardown(others__full_ones_stop_the_start_and_empty_ones_go, empty_dir),
	    cmocka_unit_test_teardown(others__a_loss_that_was_not_told_passes_to_those_that_stay, empty_dir),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
