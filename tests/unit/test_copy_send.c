/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of a copy, with sources in a directory of its own: what it reads, and what becomes of items. The relay and
 * the other site are played here; so is the time. */
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

static void (*while_reading)(void); /* called once, in the middle of a read */

static ssize_t read_source(int fd, void *buf, size_t n, off_t offset)
{
	void (*change)(void) = while_reading;
	ssize_t half;

	if (!change || n < 2)
		return pread(fd, buf, n, offset);
	half = pread(fd, buf, n / 2, offset);
	while_reading = NULL;
	change();
	return half;
}

static double now_s;
static int slow_entries; /* that take ten seconds each to be listed */

static struct dirent *read_slowly(DIR *dir)
{
	if (slow_entries > 0) {
		slow_entries--;
		now_s += 10;
	}
	return readdir(dir);
}

#define pread read_source
#define readdir read_slowly

#include "copy/client/copy_encode.c"
#include "copy/client/copy_item.c"
#include "copy/client/copy_send.c"
#include "copy/client/copy_source.c"
#include "copy/client/copy_trees.c"
#include "copy/client/copy_transfer.c"
#include "copy/client/copy_walk.c"
#include "copy/wire/copy_wire.c"

static char top[64];
static char *sources[4];
static struct copy_options options;
static struct sender *sender;
static uint64_t nops; /* begun */
static uint64_t session_op; /* the call that asks for a session, 0: none waits for its answer */

/* --- the relay, the terminal --- */

int lr_call(struct lr *h, const char *service, const void *request, size_t len, uint64_t *op)
{
	(void)h;
	(void)service;
	assert_true(len > 1);
	*op = ++nops;
	if (((const uint8_t *)request)[1] == COPY_SESSION)
		session_op = *op;
	return 0;
}

int lr_put(struct lr *h, const struct lr_transfer *t, uint64_t *op)
{
	(void)h;
	(void)t;
	*op = ++nops;
	return 0;
}

int lr_wait(struct lr *h, struct lr_event *ev, int timeout_ms)
{
	static uint8_t reply[64];
	struct copy_out o = {.buf = reply, .cap = sizeof(reply)};

	(void)h;
	if (session_op == 0) { /* nothing else is answered */
		now_s += timeout_ms / 1e3;
		return 0;
	}
	copy_head_put(&o, &(struct copy_head){.op = COPY_SESSION, .window = 48});
	copy_session_put(&o, &(struct copy_session){.kind = COPY_DIRECTORY, .flags = COPY_WRITABLE});
	*ev = (struct lr_event){.type = LR_EV_DONE, .id = session_op, .status = LR_OK, .data = reply, .len = o.len};
	session_op = 0;
	return 1;
}

int lr_rate(struct lr *h, struct lr_rate *rate)
{
	(void)h;
	(void)rate;
	return -EPIPE;
}

int lr_open(const char *link, const char *path, struct lr **h)
{
	(void)link;
	(void)path;
	(void)h;
	return -ECONNREFUSED;
}

void lr_close(struct lr *h)
{
	(void)h;
}

int lr_reply(struct lr *h, uint64_t call, enum lr_status status, const void *reply, size_t len)
{
	(void)h;
	(void)call;
	(void)status;
	(void)reply;
	(void)len;
	return 0;
}

const char *lr_strerror(enum lr_status status)
{
	(void)status;
	return "failed";
}

double progress_seconds(void)
{
	return now_s;
}

void progress_begin(struct progress *p, const struct copy_options *o)
{
	(void)p;
	(void)o;
}

void progress_show(struct progress *p, const char *waiting)
{
	(void)p;
	(void)waiting;
}

void progress_hide(struct progress *p)
{
	(void)p;
}

void progress_end(struct progress *p, const struct copy_options *o, int code)
{
	(void)p;
	(void)o;
	(void)code;
}

void progress_name(char *out, size_t cap, const char *name)
{
	snprintf(out, cap, "%s", name);
}

/* --- sources, and a sender in a session --- */

static const char *in_top(const char *name)
{
	static char path[4][256];
	static int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", top, name);
	return path[i];
}

static void write_file(const char *name, size_t bytes, uint8_t with)
{
	FILE *f = fopen(in_top(name), "w");

	assert_non_null(f);
	for (size_t i = 0; i < bytes; i++)
		fputc(with, f);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/test_send.XXXXXX");
	assert_non_null(mkdtemp(top));
	assert_int_equal(mkdir(in_top("src"), 0755), 0);
	now_s = 1000;
	slow_entries = 0;
	session_op = 0;
	nops = 0;
	while_reading = NULL;
	sources[0] = strdup(in_top("src/"));
	options = (struct copy_options){.source = sources, .nsources = 1, .link = "l", .export = "e", .timeout_s = 60};
	sender = calloc(1, sizeof(*sender));
	sender->batch = calloc(BATCHES_MAX, sizeof(*sender->batch));
	sender->o = &options;
	sender->roots.source = sources;
	sender->window = 48;
	sender->alive_s = now_s;
	dlist_init(&sender->todo);
	dlist_init(&sender->opens);
	dlist_init(&sender->sending);
	sender->walk = walk_open(&options, NULL);
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
	sender_free(sender);
	free(sources[0]);
	return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The item of a name, out of the trees; others are dropped. */
static struct item *find_item(const char *dst)
{
	struct item *it;

	while ((it = trees_next(sender)) && strcmp(it->dst, dst) != 0)
		item_free(sender, it);
	assert_non_null(it);
	return it;
}

/* --- small files --- */

static struct copy_entry encoded(struct item *it)
{
	static uint8_t message[COPY_MSG_MAX];
	struct copy_out o = {.buf = message, .cap = sizeof(message)};
	struct copy_in in = {.p = message};
	struct copy_entry e = {0};

	it->stage = STAGE_FILE;
	assert_int_equal(item_encode(sender, it, &o), 1);
	in.left = o.len;
	assert_true(copy_entry_get(&in, &e));
	assert_int_equal(e.hash, copy_hash(e.data.p, e.data.len));
	return e;
}

static void rewrite(void)
{
	write_file("src/file", 1000, 'b');
}

static void append(void)
{
	FILE *f = fopen(in_top("src/file"), "a");

	fputc('c', f);
	fclose(f);
}

static void grow_large(void)
{
	write_file("src/file", COPY_SMALL_MAX + 1, 'd');
}

static void file__is_as_it_was_at_one_time(void **state)
{
	struct copy_entry e;
	struct item *it;

	(void)state;
	write_file("src/file", 1000, 'a');
	it = find_item("file");
	usleep(20000); /* the kernel's clock for files goes in steps */
	while_reading = rewrite;
	e = encoded(it);
	assert_int_equal(e.data.len, 1000);
	assert_true(e.data.p[0] == 'b' && e.data.p[999] == 'b');
	usleep(20000);
	while_reading = append;
	e = encoded(it);
	assert_int_equal(e.data.len, 1001);
	assert_true(e.data.p[0] == 'b' && e.data.p[1000] == 'c');
	item_free(sender, it);
}

static void file__that_grows_is_sent_in_pieces(void **state)
{
	static uint8_t message[COPY_MSG_MAX];
	struct copy_out o = {.buf = message, .cap = sizeof(message)};
	struct item *it;

	(void)state;
	write_file("src/file", 1000, 'a');
	it = find_item("file");
	it->stage = STAGE_FILE;
	while_reading = grow_large;
	assert_int_equal(item_encode(sender, it, &o), -1);
	assert_int_equal(it->stage, STAGE_OPEN);
	assert_int_equal(sender->nopens, 1);
	assert_int_equal(o.len, 0);
}

/* --- large files --- */

/* The server's reply to an OPEN: an error, or 0. */
static void open_it(struct item *it, uint16_t error)
{
	static uint8_t message[COPY_MSG_MAX];
	static struct copy_result r;
	struct copy_out o = {.buf = message, .cap = sizeof(message)};

	it->stage = STAGE_OPEN;
	assert_int_equal(item_encode(sender, it, &o), 1);
	r = (struct copy_result){.type = COPY_OPEN, .error = error, .state = COPY_OPENED, .region = "region"};
	on_result(sender, it, &r);
}

/* A file that is open at both ends: its pieces can go. */
static struct item *opened(const char *dst)
{
	struct item *it = find_item(dst);

	open_it(it, 0);
	return it;
}

/* What cannot be written there is opened again, which tells why. */
static void open_again(uint16_t error)
{
	struct item *it;

	assert_int_equal(sender->nopens, 1);
	it = dlist_entry(dlist_first(&sender->opens), struct item, node);
	dlist_remove(&it->node);
	sender->nopens--;
	open_it(it, error);
}

static uint32_t pieces_gone(void)
{
	transfer_work_out_window(sender);
	while (transfer_pieces(sender))
		;
	return sender->nputs;
}

static void end_all_puts(enum lr_status status)
{
	while (sender->nputs > 0)
		transfer_on_done(sender, &(struct lr_event){.id = sender->put[0].op, .status = status});
}

/* The daemon fails all requests at once for a mount that does not answer. */
static void file__waits_for_a_mount_that_does_not_answer(void **state)
{
	struct item *it;

	(void)state;
	write_file("src/file", 5u << 20, 'a');
	it = opened("file");
	assert_int_equal(pieces_gone(), 5);
	end_all_puts(LR_IO_REMOTE);
	open_again(0);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(pieces_gone(), 0); /* not before a second has passed */
		now_s += 1.1;
		assert_int_equal(pieces_gone(), 1);
		end_all_puts(i % 2 ? LR_IO_LOCAL : LR_IO_REMOTE);
		if (i % 2 == 0)
			open_again(0);
		assert_false(dlist_empty(&sender->sending));
	}
	now_s += 1.1;
	assert_int_equal(pieces_gone(), 1);
	end_all_puts(LR_OK);
	assert_true(pieces_gone() > 1); /* as many as there is room for */
	while (pieces_gone() > 0)
		end_all_puts(LR_OK);
	assert_int_equal(it->stage, STAGE_COMMIT);
	assert_int_equal(sender->progress.errors, 0);
}

static void file__does_not_wait_longer_than_the_timeout(void **state)
{
	int tries = 0;

	(void)state;
	write_file("src/a", 2u << 20, 'a');
	write_file("src/b", 2u << 20, 'b');
	opened("a");
	for (; sender->progress.errors == 0; tries++) {
		pieces_gone();
		end_all_puts(LR_IO_REMOTE);
		if (sender->progress.errors == 0)
			open_again(0);
		now_s += 1.1;
	}
	assert_in_range(tries, 50, 60);
	opened("b"); /* a disk that is full: not as long once more */
	pieces_gone();
	end_all_puts(LR_IO_REMOTE);
	assert_int_equal(sender->progress.errors, 2);
	assert_int_equal(sender->code, COPY_EXIT_PARTIAL);
}

/* Its server says so once it is opened again, and nothing is waited for. */
static void file__for_which_a_disk_has_no_room_ends_at_once(void **state)
{
	(void)state;
	write_file("src/file", 3u << 20, 'a');
	opened("file");
	assert_int_equal(pieces_gone(), 3);
	transfer_on_done(sender, &(struct lr_event){.id = sender->put[0].op, .status = LR_IO_REMOTE});
	assert_int_equal(sender->nopens, 0); /* not before all pieces are back */
	end_all_puts(LR_IO_REMOTE);
	open_again(ENOSPC);
	assert_int_equal(sender->progress.errors, 1);
	assert_int_equal(sender->code, COPY_EXIT_PARTIAL);
	assert_int_equal(pieces_gone(), 0);
}

/* Failures are counted from the last piece that has arrived. */
static void file__with_progress_does_not_fail(void **state)
{
	(void)state;
	write_file("src/file", 200u << 10, 'a');
	opened("file");
	for (int i = 0; i < 2 * TRIES_MAX; i++) {
		struct item *it = dlist_entry(dlist_first(&sender->sending), struct item, node);

		assert_int_equal(pieces_gone(), 1);
		it->large->under_way++; /* another piece arrives */
		sender->put[sender->nputs++] = (struct put){.op = ++nops, .item = it};
		transfer_on_done(sender, &(struct lr_event){.id = nops, .status = LR_OK});
		end_all_puts(LR_NO_ROOM);
		assert_int_equal(sender->progress.errors, 0);
	}
}

static void cut_file(void)
{
	assert_int_equal(truncate(in_top("src/file"), 100), 0);
}

static void file__that_becomes_shorter_is_sent_anew(void **state)
{
	struct item *it;

	(void)state;
	write_file("src/file", 2u << 20, 'a');
	it = opened("file");
	assert_int_equal(pieces_gone(), 2);
	cut_file();
	end_all_puts(LR_IO_LOCAL);
	assert_int_equal(it->stage, STAGE_FILE);
	assert_true(dlist_empty(&sender->sending) && !dlist_empty(&sender->todo));
	assert_int_equal(sender->progress.errors, 0);
}

/* A server that reads back or syncs many GB says EAGAIN each second. */
static void file__is_asked_for_until_the_server_is_through(void **state)
{
	struct copy_result again = {.type = COPY_OPEN, .error = EAGAIN};
	struct item *it;

	(void)state;
	write_file("src/file", 200u << 10, 'a');
	it = opened("file");
	dlist_remove(&it->node);
	for (int i = 0; i < 2 * TRIES_MAX; i++) {
		it->stage = STAGE_COMMIT;
		on_result(sender, it, &again);
		assert_ptr_equal(sender_next_item(sender), it);
		assert_int_equal(it->stage, STAGE_COMMIT);
		assert_non_null(it->large);
	}
	it->stage = STAGE_OPEN;
	on_result(sender, it, &again);
	assert_int_equal(sender->nopen, 0);
	assert_ptr_equal(sender_next_item(sender), it);
	assert_int_equal(it->stage, STAGE_OPEN);
	assert_int_equal(sender->progress.errors, 0);
	item_free(sender, it);
}

/* --- several names --- */

/* What has the first name at the other site may be an older file. */
static void link__to_what_was_not_copied_is_a_file(void **state)
{
	struct item *it, *other;

	(void)state;
	write_file("src/a", 10, 'a');
	assert_int_equal(link(in_top("src/a"), in_top("src/b")), 0);
	write_file("src/c", 10, 'c');
	assert_int_equal(link(in_top("src/c"), in_top("src/d")), 0);
	it = find_item("a");
	other = find_item("c");
	item_done(sender, other, true);
	while ((other = trees_next(sender)))
		item_free(sender, other);
	item_failed(sender, it, "cannot be read", EIO);
	sender->phase = PHASE_LINKS;
	it = phase_next(sender);
	assert_string_equal(it->dst, "b");
	assert_int_equal(it->stage, STAGE_CHECK);
	item_free(sender, it);
	it = phase_next(sender);
	assert_string_equal(it->dst, "d");
	assert_int_equal(it->stage, STAGE_LINK);
	assert_string_equal(it->target, "c");
	item_free(sender, it);
	assert_null(phase_next(sender));
}

static void names__of_many_files_are_kept(void **state)
{
	char name[32], other[32];
	struct item *it;

	(void)state;
	for (int i = 0; i < 700; i++) {
		snprintf(name, sizeof(name), "src/a%03d", i);
		snprintf(other, sizeof(other), "src/b%03d", i);
		write_file(name, 1, 'a');
		assert_int_equal(link(in_top(name), in_top(other)), 0);
	}
	while ((it = trees_next(sender)))
		item_free(sender, it);
	sender->phase = PHASE_LINKS;
	for (int i = 0; i < 700; i++) {
		it = phase_next(sender);
		assert_non_null(it);
		assert_int_equal(it->dst[0], 'b');
		assert_int_equal(it->target[0], 'a');
		assert_string_equal(it->dst + 1, it->target + 1);
		item_free(sender, it);
	}
}

/* --- the place --- */

static void place__is_made_private_if_it_is_a_copy_of_a_directory(void **state)
{
	(void)state;
	assert_int_equal(how_to_make(&options), COPY_MAKE | COPY_PRIVATE);
	sources[0][strlen(sources[0]) - 1] = '\0';
	assert_int_equal(how_to_make(&options), COPY_MAKE);
	options.dry_run = true;
	assert_int_equal(how_to_make(&options), 0);
}

/* The sums for the progress line may take long: the other end was not asked meanwhile. */
static void scan__is_no_silence_of_the_other_end(void **state)
{
	double began = now_s;

	(void)state;
	for (int i = 0; i < 10; i++)
		write_file((char[]){'s', 'r', 'c', '/', (char)('a' + i), 0}, 10, 'a');
	options.progress = true;
	slow_entries = 10; /* of the scan */
	assert_int_equal(copy_send(&options, (struct lr *)&options), COPY_EXIT_TIMEOUT);
	assert_true(now_s > began + 10 * 10 + options.timeout_s);
}

static void session__that_is_interrupted_has_that_exit_code(void **state)
{
	(void)state;
	interrupted = 1;
	assert_int_equal(copy_send(&options, (struct lr *)&options), COPY_EXIT_SIGNAL);
	interrupted = 0;
}

int main(void)
{
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    IN_DIRECTORY(file__is_as_it_was_at_one_time),
	    IN_DIRECTORY(file__that_grows_is_sent_in_pieces),
	    IN_DIRECTORY(file__waits_for_a_mount_that_does_not_answer),
	    IN_DIRECTORY(file__does_not_wait_longer_than_the_timeout),
	    IN_DIRECTORY(file__for_which_a_disk_has_no_room_ends_at_once),
	    IN_DIRECTORY(file__with_progress_does_not_fail),
	    IN_DIRECTORY(file__that_becomes_shorter_is_sent_anew),
	    IN_DIRECTORY(file__is_asked_for_until_the_server_is_through),
	    IN_DIRECTORY(link__to_what_was_not_copied_is_a_file),
	    IN_DIRECTORY(names__of_many_files_are_kept),
	    IN_DIRECTORY(session__that_is_interrupted_has_that_exit_code),
	    IN_DIRECTORY(scan__is_no_silence_of_the_other_end),
	    IN_DIRECTORY(place__is_made_private_if_it_is_a_copy_of_a_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
