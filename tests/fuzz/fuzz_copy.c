/* SPDX-License-Identifier: Apache-2.0 */
/* An export's server before a sender that may say anything, in a directory of its own; and replies before a sender.
 * Input: who(1), then what they say: 0 a reply of batches, 1 a reply about a session, 2 a request to the server, 3 an
 * entry that is read and written again, 4 a request to the sender of an export.
 *
 * Nothing may be read beyond the message, what is accepted is the same again when it is said again, no name leads out
 * of the directory, and beside it nothing changes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "tests/unit/no_log.h"

#include "copy/server/copy_beneath.c"
#include "copy/server/copy_partial.c"
#include "copy/server/copy_serve.c"
#include "copy/wire/copy_wire.c"

/* The relay: regions are nobody's. */
int lr_export(struct lr *h, const char *name, int fd, uint64_t offset, uint64_t size, unsigned access)
{
	REQUIRE(strlen(name) < LR_NAME_MAX && fd >= 0 && offset == 0 && size <= INT64_MAX && access == LR_PEER_WRITE);
	(void)h;
	return 0;
}

int lr_unexport(struct lr *h, const char *name)
{
	(void)h;
	(void)name;
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
	REQUIRE(len <= LR_CALL_MAX);
	(void)h;
	(void)call;
	(void)status;
	(void)reply;
	return 0;
}

static void on_say(void *arg, uint8_t stream, const uint8_t *text, size_t len)
{
	(void)arg;
	REQUIRE(stream == 1 || stream == 2);
	for (size_t i = 0; i < len; i++)
		REQUIRE(text[i] <= 0xff);
}

static char top[] = "/tmp/fuzz_copy.XXXXXX";
static const struct copy_hooks hooks = {.say = on_say};
static struct copy_export export = {.name = "fuzz", .writable = true, .hooks = &hooks};
static struct server *server;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void make_anew(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/root", top);
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	mkdir(path, 0755);
	export.root = open(path, O_PATH | O_DIRECTORY);
	mkdirat(export.root, "d", 0755);
	if (symlinkat("../secret", export.root, "out") < 0 || symlinkat("/", export.root, "root") < 0)
		abort();
	fd = openat(export.root, "f", O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		abort();
	close(fd);
}

static void clean_up(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/root", top);
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/secret", top);
	unlink(path);
	rmdir(top);
}

static void begin(void)
{
	int fd, dir;

	atexit(clean_up);
	if (!mkdtemp(top))
		abort();
	dir = open(top, O_PATH | O_DIRECTORY);
	fd = openat(dir, "secret", O_WRONLY | O_CREAT, 0644);
	if (fd < 0 || write(fd, "private", 7) != 7)
		abort();
	close(fd);
	close(dir);
}

/* A session, number 0, and what the input asks of it. */
static void serve_input(const uint8_t *data, size_t len)
{
	struct copy_bytes none = {0};
	struct copy_session a;
	struct lr_event ev = {.type = LR_EV_CALL, .data = data, .len = len};
	char path[64], text[16];
	struct stat st;
	int fd;

	make_anew();
	server = calloc(1, sizeof(*server));
	server->export = &export;
	open_session(server, 0, none, 0, &a);
	REQUIRE(a.error == 0);
	on_call(server, &ev);
	for (uint32_t i = 0; i < FILES; i++) {
		struct lr_event notice = {.type = LR_EV_NOTICE, .data = data, .len = len, .bytes = len};

		if (!server->file[i].used)
			continue;
		memcpy(notice.name, server->file[i].region, sizeof(notice.name));
		on_notice(server, &notice);
	}
	free_all(server);
	close(export.root);
	snprintf(path, sizeof(path), "%s/secret", top);
	fd = open(path, O_RDONLY);
	REQUIRE(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == 7 && (st.st_mode & 07777) == 0644);
	REQUIRE(read(fd, text, sizeof(text)) == 7 && memcmp(text, "private", 7) == 0);
	close(fd);
}

static void read_results(const uint8_t *data, size_t len)
{
	static struct copy_result r;
	struct copy_in in = {data, len}, list;
	char name[COPY_NAME_MAX + 1];
	struct copy_head h;
	uint8_t kind;

	if (!copy_head_get(&in, &h))
		return;
	while (copy_result_get(&in, &r)) {
		REQUIRE(r.nranges <= COPY_RANGES_MAX && strnlen(r.region, COPY_REGION_MAX) < COPY_REGION_MAX);
		list = (struct copy_in){r.list.p, r.list.len};
		while (r.list.len > 0 && copy_name_next(&list, &kind, name))
			REQUIRE(!strchr(name, '/') && strcmp(name, "..") != 0 && strcmp(name, ".") != 0 && *name);
	}
}

static void read_entries(const uint8_t *data, size_t len)
{
	static uint8_t again[1 << 20];
	struct copy_in in = {data, len};
	struct copy_entry e, twice;

	for (;;) {
		struct copy_out o = {.buf = again, .cap = sizeof(again)};
		struct copy_in back = {again, 0};

		if (!copy_entry_get(&in, &e))
			return;
		REQUIRE(copy_path_is_sound(e.path));
		REQUIRE(copy_entry_put(&o, &e));
		back.left = o.len;
		REQUIRE(copy_entry_get(&back, &twice) && back.left == 0 && twice.type == e.type &&
		        twice.path.len == e.path.len);
	}
}

static void read_push(const uint8_t *data, size_t len)
{
	static uint8_t again[1 << 20];
	static struct copy_push p, twice;
	struct copy_out o = {.buf = again, .cap = sizeof(again)};
	struct copy_in in = {data, len}, back;

	if (!copy_push_get(&in, &p))
		return;
	REQUIRE(p.export[0] && !strchr(p.export, '/') && copy_path_is_sound(p.path));
	REQUIRE(p.nsources > 0 && p.nsources <= COPY_SOURCES_MAX && p.nexcludes <= COPY_EXCLUDES_MAX);
	for (uint32_t i = 0; i < p.nsources; i++)
		REQUIRE(copy_source_is_sound(p.source[i]));
	for (uint32_t i = 0; i < p.nexcludes; i++)
		REQUIRE(p.exclude[i].len > 0 && p.exclude[i].len <= COPY_PATH_MAX && !memchr(p.exclude[i].p, 0, p.exclude[i].len));
	copy_push_put(&o, &p);
	back = (struct copy_in){again, o.len};
	REQUIRE(!o.full && o.len == len && memcmp(again, data, len) == 0 && copy_push_get(&back, &twice));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct copy_session a;
	struct copy_head h;
	struct copy_in in;

	if (strstr(top, "XXXXXX"))
		begin();
	if (len < 1 || len > COPY_MSG_MAX)
		return 0;
	in = (struct copy_in){data + 1, len - 1};
	switch (data[0] % 5) {
	case 0:
		read_results(data + 1, len - 1);
		break;
	case 1:
		if (copy_head_get(&in, &h) && copy_session_get(&in, &a))
			REQUIRE(a.kind < COPY_KINDS);
		break;
	case 2:
		serve_input(data + 1, len - 1);
		break;
	case 3:
		read_entries(data + 1, len - 1);
		break;
	default:
		read_push(data + 1, len - 1);
		break;
	}
	return 0;
}
