/* SPDX-License-Identifier: Apache-2.0 */
/* The server of an export, in a directory of its own: names beneath it, files that are not whole, sessions. The relay
 * is played here: a region is the descriptor that was exported. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "no_log.h"

static bool disk_fails;
static int nsynced;

static int sync_data(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	nsynced++;
	errno = EIO;
	return disk_fails ? -1 : fdatasync(fd);
}

static int disk_error; /* of fallocate() */

static int allocate(int fd, int mode, off_t offset, off_t length)
{
	errno = disk_error;
	return disk_error ? -1 : fallocate(fd, mode, offset, length);
}

#define fdatasync sync_data
#define fallocate allocate

#include "copy/server/copy_beneath.c"
#include "copy/server/copy_partial.c"
#include "copy/server/copy_serve.c"
#include "copy/wire/copy_wire.c"

static char top[64];
static struct copy_export export;
static struct server *server;
static int nregions;
static uint8_t answer[COPY_MSG_MAX];
static size_t answer_len;
static enum lr_status answer_status;

int lr_export(struct lr *h, const char *name, int fd, uint64_t offset, uint64_t size, unsigned access)
{
	struct stat st;

	(void)h;
	assert_true(strlen(name) < LR_NAME_MAX && offset == 0 && access == LR_PEER_WRITE);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true((uint64_t)st.st_size == size);
	nregions++;
	return 0;
}

int lr_unexport(struct lr *h, const char *name)
{
	(void)h;
	(void)name;
	nregions--;
	return 0;
}

int lr_serve(struct lr *h, const char *service)
{
	(void)h;
	(void)service;
	return 0;
}

int lr_wait(struct lr *h, struct lr_event *ev, int timeout_ms)
{
	(void)h;
	(void)ev;
	(void)timeout_ms;
	return -EPIPE;
}

int lr_reply(struct lr *h, uint64_t call, enum lr_status status, const void *reply, size_t len)
{
	(void)h;
	(void)call;
	answer_status = status;
	answer_len = len;
	memcpy(answer, reply, len);
	return 0;
}

/* --- a directory: top/root is exported, top/secret is beside it --- */

static void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const char *read_file(const char *name)
{
	static char text[256];
	char path[256];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	f = fopen(path, "r");
	if (!f)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static int set_up(void **state)
{
	char path[128];

	(void)state;
	snprintf(top, sizeof(top), "/tmp/test_copy.XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(path, sizeof(path), "%s/root", top);
	assert_int_equal(mkdir(path, 0755), 0);
	export = (struct copy_export){.name = "test", .root = open(path, O_PATH | O_DIRECTORY), .writable = true};
	snprintf(path, sizeof(path), "%s/secret", top);
	assert_int_equal(mkdir(path, 0755), 0);
	write_file("secret/file", "private");
	assert_int_equal(mkdirat(export.root, "d", 0755), 0);
	assert_int_equal(symlinkat("../secret", export.root, "out"), 0);
	assert_int_equal(symlinkat("d", export.root, "in"), 0);
	server = calloc(1, sizeof(*server));
	server->export = &export;
	nregions = 0;
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
	free_all(server);
	close(export.root);
	return nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- names --- */

static void base__follows_links_that_stay_beneath(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(beneath_open_base(export.root, "out", 0), -EXDEV);
	assert_int_equal(beneath_open_base(export.root, "out/new", 0755), -EXDEV);
	assert_int_equal(beneath_open_base(export.root, "missing", 0), -ENOENT);
	fd = beneath_open_base(export.root, "in", 0);
	assert_true(fd >= 0);
	close(fd);
	fd = beneath_open_base(export.root, "a/b/c", 0755);
	assert_true(fd >= 0);
	close(fd);
}

static void place__follows_no_link(void **state)
{
	struct beneath b;
	struct place p;

	(void)state;
	beneath_init(&b, beneath_open_base(export.root, "", 0));
	assert_int_equal(beneath_place(&b, copy_text("out/file"), true, &p), -ELOOP);
	assert_int_equal(beneath_place(&b, copy_text("in/file"), true, &p), -ELOOP);
	assert_int_equal(beneath_place(&b, copy_text("x/y/file"), false, &p), -ENOENT);
	assert_int_equal(beneath_place(&b, copy_text("x/y/file"), true, &p), 0);
	assert_string_equal(p.name, "file");
	assert_int_equal(beneath_place(&b, copy_text(""), true, &p), -EINVAL);
	beneath_close(&b);
}

/* --- files that are not whole --- */

#define LARGE (3u << 20)

static struct copy_entry large_entry(void)
{
	return (struct copy_entry){.type = COPY_OPEN, .path = copy_text("large"), .size = LARGE, .meta.mtime_s = 7};
}

static struct piece write_piece(const struct partial *f, uint64_t offset, uint64_t length, uint8_t with)
{
	uint8_t *data = malloc(length);
	struct piece p = {offset, length, 0};

	memset(data, with, length);
	assert_int_equal(pwrite(f->fd, data, length, (off_t)offset), length);
	p.hash = copy_hash(data, length);
	free(data);
	return p;
}

static void open_large(struct partial *f, const struct copy_entry *e)
{
	struct place p = {.fd = export.root, .name = "large"};

	assert_int_equal(partial_open(f, &p, e), 0);
	assert_true(partial_read_back(f, UINT64_MAX));
}

static void partial__goes_on_where_it_was(void **state)
{
	struct copy_entry e = large_entry();
	struct copy_range range[COPY_RANGES_MAX];
	struct partial f;
	struct piece a, b;

	(void)state;
	open_large(&f, &e);
	a = write_piece(&f, 0, 1 << 20, 'a');
	b = write_piece(&f, 1 << 20, 1 << 20, 'b');
	assert_true(partial_enter(&f, &b));
	assert_true(partial_enter(&f, &a));
	partial_close(&f);
	open_large(&f, &e);
	assert_int_equal(partial_ranges(&f, range), 1);
	assert_true(range[0].offset == 0 && range[0].length == 2 << 20);
	partial_close(&f);
}

static void partial__enters_only_what_has_its_hash(void **state)
{
	struct copy_entry e = large_entry();
	struct copy_range range[COPY_RANGES_MAX];
	struct partial f;
	struct piece p;

	(void)state;
	open_large(&f, &e);
	p = write_piece(&f, 0, 4096, 'a');
	p.hash++;
	assert_false(partial_enter(&f, &p));
	p = (struct piece){LARGE - 1, 2, 0};
	assert_false(partial_enter(&f, &p)); /* leaves the file */
	p = (struct piece){UINT64_MAX, 2, 0};
	assert_false(partial_enter(&f, &p));
	p = (struct piece){0, 0, 0};
	assert_false(partial_enter(&f, &p));
	p = (struct piece){0, COPY_PIECE_MAX + 1, 0};
	assert_false(partial_enter(&f, &p));
	assert_int_equal(partial_ranges(&f, range), 0);
	partial_close(&f);
}

/* As after a loss of power: the journal was written, the bytes were not. */
static void partial__reads_back_what_the_journal_says(void **state)
{
	struct copy_entry e = large_entry();
	struct copy_range range[COPY_RANGES_MAX];
	struct partial f;
	struct piece a, b;

	(void)state;
	open_large(&f, &e);
	a = write_piece(&f, 0, 4096, 'a');
	b = write_piece(&f, 65536, 4096, 'b');
	assert_true(partial_enter(&f, &a) && partial_enter(&f, &b));
	write_piece(&f, 100, 1, 'x');
	assert_int_equal(write(f.journal, "torn", 4), 4);
	partial_close(&f);
	open_large(&f, &e);
	assert_int_equal(partial_ranges(&f, range), 1);
	assert_true(range[0].offset == 65536 && range[0].length == 4096);
	a = write_piece(&f, 0, 4096, 'a'); /* and what is entered behind the torn record counts */
	assert_true(partial_enter(&f, &a));
	partial_close(&f);
	open_large(&f, &e);
	assert_int_equal(partial_ranges(&f, range), 2);
	partial_close(&f);
}

static void partial__of_another_source_begins_anew(void **state)
{
	struct copy_entry e = large_entry(), later = large_entry(), anew = large_entry();
	struct copy_range range[COPY_RANGES_MAX];
	struct partial f;
	struct piece a;

	(void)state;
	open_large(&f, &e);
	a = write_piece(&f, 0, 4096, 'a');
	assert_true(partial_enter(&f, &a));
	partial_close(&f);
	anew.anew = true;
	open_large(&f, &anew);
	assert_int_equal(partial_ranges(&f, range), 0);
	a = write_piece(&f, 0, 4096, 'a');
	assert_true(partial_enter(&f, &a));
	partial_close(&f);
	later.meta.mtime_ns = 1;
	open_large(&f, &later);
	assert_int_equal(partial_ranges(&f, range), 0);
	partial_close(&f);
}

/* Puts of the former try that the daemon still has are written by its own descriptor: not into the new version. */
static void partial__that_begins_anew_takes_no_writes_of_the_former_try(void **state)
{
	struct copy_entry e = large_entry(), later = large_entry(), commit = large_entry();
	struct copy_digest d;
	struct partial f;
	struct piece a;
	int former, fd;
	char byte;

	(void)state;
	open_large(&f, &e);
	former = fcntl(f.fd, F_DUPFD_CLOEXEC, 0);
	a = write_piece(&f, 0, 4096, 'a');
	assert_true(partial_enter(&f, &a));
	partial_close(&f);
	later.meta.mtime_s = commit.meta.mtime_s = 8;
	commit.meta.mode = 0644;
	open_large(&f, &later);
	a = write_piece(&f, 0, 4096, 'b');
	assert_true(partial_enter(&f, &a));
	assert_int_equal(pwrite(former, "old", 3, 1 << 20), 3); /* a hole of the later version */
	close(former);
	copy_digest_begin(&d);
	copy_digest_add(&d, a.offset, a.length, a.hash);
	copy_digest_end(&d, commit.digest);
	assert_int_equal(partial_commit(&f, &commit, UINT64_MAX), 0);
	partial_close(&f);
	fd = openat(export.root, "large", O_RDONLY);
	assert_int_equal(pread(fd, &byte, 1, 1 << 20), 1);
	assert_int_equal(byte, 0);
	close(fd);
}

static void partial__is_not_what_somebody_has_put_there(void **state)
{
	struct copy_entry e = large_entry();
	char temporary[TEMPORARY_MAX];
	struct partial f;

	(void)state;
	beneath_temporary("large", "part", temporary);
	assert_int_equal(symlinkat("../secret/file", export.root, temporary), 0);
	open_large(&f, &e);
	write_piece(&f, 0, 4096, 'a');
	partial_close(&f);
	assert_string_equal(read_file("secret/file"), "private");
}

static void partial__has_its_name_when_it_is_whole(void **state)
{
	struct copy_entry e = large_entry(), commit = large_entry();
	struct copy_digest d;
	struct partial f;
	struct piece a;
	struct stat st;

	(void)state;
	commit.meta.mode = 0640;
	open_large(&f, &e);
	a = write_piece(&f, 4096, 4096, 'a');
	copy_digest_begin(&d);
	copy_digest_add(&d, a.offset, a.length, a.hash);
	copy_digest_end(&d, commit.digest);
	assert_int_equal(partial_commit(&f, &commit, UINT64_MAX), 1); /* the piece is not entered yet */
	assert_true(partial_enter(&f, &a));
	commit.size--;
	assert_int_equal(partial_commit(&f, &commit, UINT64_MAX), 1);
	commit.size++;
	nsynced = 0;
	assert_int_equal(partial_commit(&f, &commit, UINT64_MAX), 0);
	assert_int_equal(nsynced, 1);
	partial_close(&f);
	assert_int_equal(fstatat(export.root, "large", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_mtim.tv_sec, 7);
	assert_true(st.st_size == LARGE && st.st_blocks * 512 < LARGE); /* the holes are */
	beneath_temporary("large", "journal", f.journal_name);
	assert_int_equal(faccessat(export.root, f.journal_name, F_OK, 0), -1);
}

/* A sender that is not sane could make a journal grow: not beyond what the file's size allows. */
static void partial__keeps_a_bounded_number_of_pieces(void **state)
{
	struct copy_entry e = large_entry();
	struct partial f;
	uint32_t entered = 0;

	(void)state;
	open_large(&f, &e);
	for (uint32_t i = 0; i < 4096; i++) {
		struct piece p = write_piece(&f, i, 1, 'x');

		entered += partial_enter(&f, &p);
	}
	assert_int_equal(entered, 2 * (LARGE / COPY_HOLE_MIN) + 16);
	partial_close(&f);
}

/* --- requests --- */

static struct copy_out request(uint8_t op, uint64_t session)
{
	static uint8_t buf[COPY_MSG_MAX];
	struct copy_out o = {.buf = buf, .cap = sizeof(buf)};
	struct copy_head h = {.op = op, .session = session};

	copy_head_put(&o, &h);
	return o;
}

static struct copy_in call(const struct copy_out *o, struct copy_head *h)
{
	struct lr_event ev = {.type = LR_EV_CALL, .data = o->buf, .len = o->len};
	struct copy_in in = {answer, 0};

	on_call(server, &ev);
	in.left = answer_len;
	if (answer_status == LR_OK)
		assert_true(copy_head_get(&in, h));
	return in;
}

static struct copy_session begin(uint64_t id, const char *path, uint8_t flags)
{
	struct copy_out o = request(COPY_SESSION, id);
	struct copy_session a;
	struct copy_head h;
	struct copy_in in;

	copy_session_ask_put(&o, copy_text(path), flags);
	in = call(&o, &h);
	assert_int_equal(answer_status, LR_OK);
	assert_true(copy_session_get(&in, &a));
	return a;
}

/* One entry, and its result. */
static const struct copy_result *ask(uint64_t session, const struct copy_entry *e)
{
	static struct copy_result r;
	struct copy_out o = request(COPY_BATCH, session);
	struct copy_head h;
	struct copy_in in;

	assert_true(copy_entry_put(&o, e));
	in = call(&o, &h);
	assert_int_equal(answer_status, LR_OK);
	assert_true(h.window > 0);
	assert_true(copy_result_get(&in, &r) && in.left == 0);
	assert_int_equal(r.type, e->type);
	return &r;
}

static void session__is_needed(void **state)
{
	struct copy_out o = request(COPY_BATCH, 5);
	struct copy_entry e = {.type = COPY_DIR, .path = copy_text("made")};
	struct copy_head h;

	(void)state;
	copy_entry_put(&o, &e);
	call(&o, &h);
	assert_int_equal(h.window, 0);
	assert_int_equal(faccessat(export.root, "made", F_OK, 0), -1);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(export.root, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

/* A private directory of the source is not open to others while the copy runs, nor after an interruption. */
static void directory__is_its_owners_until_its_mode_comes(void **state)
{
	struct copy_entry e = {.type = COPY_FILE,
	                       .path = copy_text("x/y/file"),
	                       .data = copy_text("text"),
	                       .hash = copy_hash("text", 4),
	                       .meta.mode = 0644};
	struct copy_entry dir = {.type = COPY_DIR}, meta = {.type = COPY_META, .meta.mode = 0555};

	(void)state;
	umask(0022);
	assert_int_equal(begin(1, "above/private", COPY_MAKE | COPY_PRIVATE).error, 0);
	assert_int_equal(mode_of("above"), 0755); /* it is no directory of the source */
	assert_int_equal(mode_of("above/private"), 0700);
	assert_int_equal(ask(1, &e)->error, 0);
	assert_int_equal(mode_of("above/private/x"), 0700);
	assert_int_equal(mode_of("above/private/x/y"), 0700);
	assert_int_equal(ask(1, &meta)->error, 0);
	assert_int_equal(mode_of("above/private"), 0555);
	assert_int_equal(ask(1, &dir)->error, 0); /* the next copy writes into it again */
	assert_int_equal(mode_of("above/private"), 0755);
	assert_int_equal(begin(2, "shared", COPY_MAKE).error, 0);
	assert_int_equal(mode_of("shared"), 0755);
}

static void session__says_what_is_there(void **state)
{
	struct copy_session a;

	(void)state;
	write_file("root/file", "");
	a = begin(1, "", 0);
	assert_true(a.error == 0 && a.kind == COPY_DIRECTORY && (a.flags & COPY_WRITABLE));
	a = begin(1, "missing", 0);
	assert_true(a.error == ENOENT && a.kind == COPY_NOTHING);
	a = begin(1, "file", 0);
	assert_true(a.error == ENOTDIR);
	a = begin(1, "out", 0);
	assert_true(a.error == EXDEV);
	a = begin(1, "new/er", COPY_MAKE);
	assert_true(a.error == 0 && (a.flags & COPY_FRESH));
	a = begin(1, "new/er", COPY_MAKE);
	assert_true(a.error == 0 && !(a.flags & COPY_FRESH));
	export.writable = false;
	a = begin(1, "never", COPY_MAKE);
	assert_true(a.error == ENOENT && !(a.flags & COPY_WRITABLE));
}

/* A mount that comes after the server's start covers the directory that Path= was. */
static void session__is_at_what_the_path_is_then(void **state)
{
	struct copy_entry e = {
	    .type = COPY_FILE, .path = copy_text("file"), .hash = copy_hash("", 0), .meta.mode = 0600};
	char path[128], covered[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/root", top);
	snprintf(covered, sizeof(covered), "%s/covered", top);
	close(export.root);
	export.path = path;
	export.root = -1;
	begin(1, "", 0);
	assert_int_equal(rename(path, covered), 0);
	assert_int_equal(begin(2, "", COPY_MAKE).error, ENOENT);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(begin(3, "", 0).error, 0);
	assert_int_equal(ask(3, &e)->error, 0);
	assert_non_null(read_file("root/file"));
	assert_null(read_file("covered/file"));
	export.root = open(path, O_PATH | O_DIRECTORY);
}

static void sessions__share_the_window(void **state)
{
	struct copy_out o;
	struct copy_head h;

	(void)state;
	for (uint64_t id = 0; id < 4; id++)
		begin(id, "", 0);
	o = request(COPY_BATCH, 0);
	call(&o, &h);
	assert_int_equal(h.window, WINDOW_ALL / 4);
	for (uint64_t id = 4; id < SESSIONS; id++)
		begin(id, "", 0);
	for (uint32_t i = 0; i < SESSIONS; i++)
		server->session[i].used_ns = clock_now_ns() + NS_PER_S; /* however long that took */
	assert_int_equal(begin(SESSIONS, "", 0).error, EBUSY); /* none has been idle */
}

static void entry__writes_files_links_and_directories(void **state)
{
	struct copy_entry e = {
	    .type = COPY_FILE, .path = copy_text("x/file"), .data = copy_text("text"), .meta.mode = 0600};

	(void)state;
	begin(1, "", 0);
	assert_int_equal(ask(1, &e)->state, COPY_CORRUPT);
	e.hash = copy_hash("text", 4);
	assert_int_equal(ask(1, &e)->error, 0);
	assert_string_equal(read_file("root/x/file"), "text");
	e = (struct copy_entry){
	    .type = COPY_LINK_SYM, .path = copy_text("x/sym"), .target = copy_text("../../secret/file")};
	assert_int_equal(ask(1, &e)->error, 0);
	e = (struct copy_entry){.type = COPY_LINK_HARD, .path = copy_text("x/hard"), .target = copy_text("x/file")};
	assert_int_equal(ask(1, &e)->error, 0);
	assert_string_equal(read_file("root/x/hard"), "text");
	/* a link takes the place of a link, and is not followed */
	e = (struct copy_entry){
	    .type = COPY_FILE, .path = copy_text("x/sym"), .hash = copy_hash("", 0), .meta.mode = 0600};
	assert_int_equal(ask(1, &e)->error, 0);
	assert_string_equal(read_file("secret/file"), "private");
	e = (struct copy_entry){.type = COPY_META, .path = copy_text("out"), .meta.mode = 0777};
	assert_int_equal(ask(1, &e)->error, ELOOP);
	e = (struct copy_entry){.type = COPY_DIR, .path = copy_text("x/hard")};
	assert_int_equal(ask(1, &e)->error, 0); /* a file in its place goes */
	e = (struct copy_entry){.type = COPY_REMOVE, .path = copy_text("x")};
	assert_int_equal(ask(1, &e)->error, ENOTEMPTY);
	e.path = copy_text("x/hard");
	assert_int_equal(ask(1, &e)->error, 0);
	assert_int_equal(ask(1, &e)->error, 0); /* and once more is no error */
}

static void entry__changes_nothing_of_what_is_exported_for_reading(void **state)
{
	(void)state;
	export.writable = false;
	begin(1, "", 0);
	for (uint8_t type = COPY_CHECK; type < COPY_TYPES; type++) {
		struct copy_entry e = {.type = type, .path = copy_text("d"), .target = copy_text("t"), .size = 1};
		int error = ask(1, &e)->error;

		assert_int_equal(error, type == COPY_CHECK || type == COPY_EXTRAS ? 0 : EROFS);
	}
}

static void entry__names_what_else_is_there(void **state)
{
	struct copy_entry e = {.type = COPY_EXTRAS, .path = copy_text("d")};
	uint8_t names[64], kind;
	struct copy_out kept = {.buf = names, .cap = sizeof(names)};
	char name[COPY_NAME_MAX + 1];
	struct copy_in list;

	(void)state;
	write_file("root/d/a", "");
	write_file("root/d/b", "");
	write_file("root/d/c", "");
	write_file("root/d/d", "");
	copy_name_put(&kept, 0, "b");
	e.data = (struct copy_bytes){names, kept.len};
	e.after = copy_text("a");
	e.upto = copy_text("c");
	begin(1, "", 0);
	list.p = ask(1, &e)->list.p;
	list.left = ask(1, &e)->list.len;
	assert_true(copy_name_next(&list, &kind, name));
	assert_string_equal(name, "c");
	assert_int_equal(kind, COPY_REGULAR);
	assert_false(copy_name_next(&list, &kind, name));
}

/* The file of a sender that was killed: another session goes on with it, and the region stays. */
static void file__is_taken_over(void **state)
{
	struct copy_entry e = large_entry(), commit = {.type = COPY_COMMIT, .path = copy_text("large"), .size = LARGE};
	char region[COPY_REGION_MAX];
	uint8_t notice[COPY_NOTICE_LEN];
	struct lr_event ev = {.type = LR_EV_NOTICE, .bytes = 4096, .data = notice, .len = sizeof(notice)};
	struct piece p;

	(void)state;
	begin(1, "", 0);
	assert_int_equal(ask(1, &e)->state, COPY_OPENED);
	memcpy(region, ask(1, &e)->region, sizeof(region));
	assert_int_equal(nregions, 1);
	begin(2, "", 0);
	assert_string_equal(ask(2, &e)->region, region);
	assert_int_equal(nregions, 1);
	p = write_piece(&server->file[0].partial, 0, 4096, 'z');
	copy_notice_put(notice, p.hash);
	memcpy(ev.name, region, sizeof(ev.name));
	on_notice(server, &ev);
	assert_int_equal(ask(2, &e)->nranges, 1);
	memcpy(commit.region, region, sizeof(region));
	assert_int_equal(ask(1, &commit)->error, ESTALE); /* it is the other's now */
	assert_int_equal(ask(2, &commit)->state, COPY_INCOMPLETE);
	e.meta.mtime_s++; /* another source: another region */
	assert_string_not_equal(ask(2, &e)->region, region);
	assert_int_equal(nregions, 1);
	on_notice(server, &ev); /* nobody's */
}

/* The kernel reports a failed write-back once, and the next fdatasync() succeeds: the bytes must come again. */
static void file__whose_bytes_are_not_on_the_disk_begins_anew(void **state)
{
	struct copy_entry e = large_entry(), commit = {.type = COPY_COMMIT, .path = copy_text("large"), .size = LARGE};
	struct copy_digest d;
	struct piece p;

	(void)state;
	begin(1, "", 0);
	memcpy(commit.region, ask(1, &e)->region, sizeof(commit.region));
	p = write_piece(&server->file[0].partial, 4096, 4096, 'a');
	assert_true(partial_enter(&server->file[0].partial, &p));
	copy_digest_begin(&d);
	copy_digest_add(&d, p.offset, p.length, p.hash);
	copy_digest_end(&d, commit.digest);
	nsynced = 0;
	disk_fails = true;
	assert_int_equal(ask(1, &commit)->error, EIO);
	assert_int_equal(nsynced, 1);
	disk_fails = false;
	assert_int_equal(ask(1, &commit)->error, ESTALE);
	assert_int_equal(faccessat(export.root, "large", F_OK, 0), -1);
	assert_int_equal(nregions, 0);
	assert_int_equal(ask(1, &e)->state, COPY_OPENED);
	assert_int_equal(ask(1, &e)->nranges, 0);
}

/* A put that finds no room tells the sender only that it failed: the sender opens the file again, and is told why. */
static void file__for_which_there_is_no_room_is_refused(void **state)
{
	struct copy_entry e = large_entry();
	struct partial *f = &server->file[0].partial;
	uint8_t is[2 * 4096];
	struct piece p;

	(void)state;
	begin(1, "", 0);
	disk_error = EOPNOTSUPP;
	assert_int_equal(ask(1, &e)->state, COPY_OPENED);
	p = write_piece(f, 0, 4096, 'a');
	assert_true(partial_enter(f, &p));
	write_piece(f, 4096, 4096, 'b'); /* its notice is still to come */
	disk_error = ENOSPC;
	assert_int_equal(ask(1, &e)->error, ENOSPC);
	disk_error = 0;
	assert_int_equal(ask(1, &e)->state, COPY_OPENED);
	assert_int_equal(pread(f->fd, is, sizeof(is), 0), sizeof(is));
	assert_int_equal(is[4095], 'a');
	assert_int_equal(is[4096], 'b');
	assert_int_equal(first_missing(f).offset, 4096);
	p = write_piece(f, 8192, 4096, 'c');
	assert_true(partial_enter(f, &p));
	assert_int_equal(first_missing(f).length, 4096);
}

/* To read back or to sync 100 GB takes minutes: nobody waits so long for an answer. */
static void file__is_read_back_and_synced_in_slices(void **state)
{
	struct copy_entry e = large_entry(), commit = large_entry();
	struct copy_digest d;
	struct partial f;

	(void)state;
	begin(1, "", 0);
	e.size = commit.size = 3ull * SYNC_BYTES;
	commit.type = COPY_COMMIT;
	open_large(&f, &e);
	copy_digest_begin(&d);
	for (uint64_t i = 0; i < 3; i++) {
		struct piece p = write_piece(&f, i << 20, 4096, 'a');

		assert_true(partial_enter(&f, &p));
		copy_digest_add(&d, p.offset, p.length, p.hash);
	}
	copy_digest_end(&d, commit.digest);
	partial_close(&f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(1, &e)->error, EAGAIN); /* server->slice_ns is 0: one piece each time */
	assert_int_equal(ask(1, &e)->state, COPY_OPENED);
	memcpy(commit.region, ask(1, &e)->region, sizeof(commit.region));
	assert_int_equal(ask(1, &e)->nranges, 3);
	nsynced = 0;
	assert_int_equal(ask(1, &commit)->error, EAGAIN);
	assert_int_equal(nsynced, 0);
	assert_int_equal(faccessat(export.root, "large", F_OK, 0), -1);
	server->slice_ns = NS_PER_S;
	assert_int_equal(ask(1, &commit)->error, 0);
	assert_int_equal(nsynced, 1);
	assert_int_equal(faccessat(export.root, "large", F_OK, 0), 0);
}

/* A piece that comes while the journal is read back counts, and the journal stays sound. */
static void partial__takes_pieces_while_it_is_read_back(void **state)
{
	struct copy_entry e = large_entry();
	struct place at = {.fd = export.root, .name = "large"};
	struct copy_range range[COPY_RANGES_MAX];
	struct partial f;
	struct piece a, b, c;

	(void)state;
	open_large(&f, &e);
	a = write_piece(&f, 0, 4096, 'a');
	b = write_piece(&f, 65536, 4096, 'b');
	assert_true(partial_enter(&f, &a) && partial_enter(&f, &b));
	partial_close(&f);
	assert_int_equal(partial_open(&f, &at, &e), 0);
	assert_false(partial_read_back(&f, 0));
	c = write_piece(&f, 131072, 4096, 'c');
	assert_true(partial_enter(&f, &c));
	assert_true(partial_read_back(&f, UINT64_MAX));
	assert_int_equal(partial_ranges(&f, range), 3);
	partial_close(&f);
	open_large(&f, &e);
	assert_int_equal(partial_ranges(&f, range), 2);
	partial_close(&f);
}

/* A kill between the rename and the removal of the journal: the next look at the file removes the journal. */
static void file__that_has_its_name_keeps_no_journal(void **state)
{
	struct copy_entry e = large_entry(), check = large_entry(), other = large_entry();
	struct partial f;
	struct stat st;

	(void)state;
	check.type = COPY_CHECK;
	check.kind = COPY_REGULAR;
	check.meta.mode = 0644;
	begin(1, "", 0);
	open_large(&f, &e);
	assert_int_equal(beneath_set_meta(f.fd, &check.meta), 0);
	assert_int_equal(renameat(export.root, f.temporary, export.root, "large"), 0);
	partial_close(&f);
	export.writable = false;
	assert_int_equal(ask(1, &check)->state, COPY_DONE);
	assert_int_equal(fstatat(export.root, f.journal_name, &st, 0), 0);
	export.writable = true;
	assert_int_equal(ask(1, &check)->state, COPY_DONE);
	assert_int_equal(fstatat(export.root, f.journal_name, &st, 0), -1);
	other.meta.mtime_s++; /* and the journal of its next version stays */
	assert_int_equal(ask(1, &other)->state, COPY_OPENED);
	assert_int_equal(ask(1, &check)->state, COPY_DONE);
	assert_int_equal(fstatat(export.root, f.journal_name, &st, 0), 0);
}

static void files__are_bounded(void **state)
{
	struct copy_entry e = large_entry();
	char path[16];

	(void)state;
	begin(1, "", 0);
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "f%d", i);
		e.path = copy_text(path);
		assert_int_equal(ask(1, &e)->error, 0);
	}
	for (int i = 0; i < FILES; i++)
		server->file[i].used_ns = clock_now_ns() + NS_PER_S; /* however long that took */
	e.path = copy_text("more");
	assert_int_equal(ask(1, &e)->error, EMFILE);
	server->file[7].used_ns -= 2 * ACTIVE_NS; /* its sender has gone silent */
	assert_int_equal(ask(1, &e)->error, 0);
	assert_int_equal(nregions, FILES);
}

static void request__of_nonsense_is_refused(void **state)
{
	struct copy_out o;
	struct copy_entry e = {.type = COPY_DIR, .path = copy_text("d")};
	struct copy_head h;

	(void)state;
	begin(1, "", 0);
	o = request(COPY_BATCH, 1);
	copy_entry_put(&o, &e);
	o.len--;
	call(&o, &h);
	assert_int_equal(answer_status, LR_PERMISSION);
	o = request(COPY_BATCH, 1);
	for (uint32_t i = 0; i <= COPY_ENTRIES_MAX; i++)
		copy_entry_put(&o, &e);
	call(&o, &h);
	assert_int_equal(answer_status, LR_PERMISSION);
	o.len = 3;
	call(&o, &h);
	assert_int_equal(answer_status, LR_PERMISSION);
	assert_int_equal(server->malformed, 3);
}

int main(void)
{
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    IN_DIRECTORY(base__follows_links_that_stay_beneath),
	    IN_DIRECTORY(place__follows_no_link),
	    IN_DIRECTORY(partial__goes_on_where_it_was),
	    IN_DIRECTORY(partial__enters_only_what_has_its_hash),
	    IN_DIRECTORY(partial__reads_back_what_the_journal_says),
	    IN_DIRECTORY(partial__of_another_source_begins_anew),
	    IN_DIRECTORY(partial__that_begins_anew_takes_no_writes_of_the_former_try),
	    IN_DIRECTORY(partial__is_not_what_somebody_has_put_there),
	    IN_DIRECTORY(partial__has_its_name_when_it_is_whole),
	    IN_DIRECTORY(partial__keeps_a_bounded_number_of_pieces),
	    IN_DIRECTORY(session__is_needed),
	    IN_DIRECTORY(session__says_what_is_there),
	    IN_DIRECTORY(session__is_at_what_the_path_is_then),
	    IN_DIRECTORY(directory__is_its_owners_until_its_mode_comes),
	    IN_DIRECTORY(sessions__share_the_window),
	    IN_DIRECTORY(entry__writes_files_links_and_directories),
	    IN_DIRECTORY(entry__changes_nothing_of_what_is_exported_for_reading),
	    IN_DIRECTORY(entry__names_what_else_is_there),
	    IN_DIRECTORY(file__is_taken_over),
	    IN_DIRECTORY(file__for_which_there_is_no_room_is_refused),
	    IN_DIRECTORY(file__whose_bytes_are_not_on_the_disk_begins_anew),
	    IN_DIRECTORY(file__is_read_back_and_synced_in_slices),
	    IN_DIRECTORY(partial__takes_pieces_while_it_is_read_back),
	    IN_DIRECTORY(file__that_has_its_name_keeps_no_journal),
	    IN_DIRECTORY(files__are_bounded),
	    IN_DIRECTORY(request__of_nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
