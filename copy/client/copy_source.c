/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* SEEK_DATA, O_PATH */
#include "copy_source.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAMES_MAX (64 << 10) /* XATTR_LIST_MAX */

int source_open_beneath(int root, const char *path, int flags)
{
	struct open_how how = {.flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
	                       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	long fd;

	do
		fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
	while (fd < 0 && (errno == EAGAIN || errno == EINTR)); /* EAGAIN: somebody renamed a directory meanwhile */
	return fd < 0 ? -errno : (int)fd;
}

/* The directory that a source is, or -errno. */
static int root_of(struct source_roots *r, uint32_t source)
{
	uint32_t i = source % SOURCE_ROOTS;
	int fd;

	if (r->at[i].next == source + 1)
		return r->at[i].fd;
	fd = open(r->source[source], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (r->at[i].next > 0)
		close(r->at[i].fd);
	r->at[i].next = source + 1;
	r->at[i].fd = fd;
	return fd;
}

int source_open(struct source_roots *r, const char *path, struct source_path at, int flags)
{
	int fd;

	if (at.skip == 0) {
		fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	fd = root_of(r, at.source);
	return fd < 0 ? fd : source_open_beneath(fd, path + at.skip, flags);
}

void source_roots_close(struct source_roots *r)
{
	for (uint32_t i = 0; i < SOURCE_ROOTS; i++)
		if (r->at[i].next > 0)
			close(r->at[i].fd);
}

void source_meta(const struct stat *st, struct copy_meta *m)
{
	*m = (struct copy_meta){.mode = st->st_mode & 07777u,
	                        .uid = st->st_uid,
	                        .gid = st->st_gid,
	                        .mtime_s = st->st_mtim.tv_sec,
	                        .mtime_ns = (uint32_t)st->st_mtim.tv_nsec};
}

void source_xattrs(int fd, uint8_t buf[COPY_XATTRS_MAX], struct copy_meta *m)
{
	static char names[NAMES_MAX];
	static uint8_t value[COPY_XATTRS_MAX];
	struct copy_out o = {.buf = buf, .cap = COPY_XATTRS_MAX};
	ssize_t n = flistxattr(fd, names, sizeof(names));

	for (const char *name = names; n > 0 && name < names + n; name += strlen(name) + 1) {
		ssize_t len;

		if (strncmp(name, "user.", 5) != 0)
			continue;
		len = fgetxattr(fd, name, value, sizeof(value));
		if (len >= 0)
			copy_xattr_put(&o, name, value, (size_t)len);
	}
	m->xattrs = (struct copy_bytes){buf, o.len};
}

/* --- pieces --- */

struct pieces {
	struct source_piece *piece;
	uint32_t n, room;
};

static bool add(struct pieces *v, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t end = (from / COPY_PIECE_MAX + 1) * COPY_PIECE_MAX;

		if (end > to)
			end = to;
		if (v->n == v->room) {
			uint32_t more = v->room ? 2 * v->room : 16;
			struct source_piece *grown = realloc(v->piece, more * sizeof(*grown));

			if (!grown)
				return false;
			v->piece = grown;
			v->room = more;
		}
		v->piece[v->n++] = (struct source_piece){.offset = from, .length = (uint32_t)(end - from)};
		from = end;
	}
	return true;
}

/* The next data from `at` on, short holes in it taken along. False: there is none. */
static bool next_data(int fd, uint64_t at, uint64_t size, uint64_t *from, uint64_t *to)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA);

	*from = at;
	*to = size;
	if (data < 0)
		return errno != ENXIO; /* no such thing here: all is data */
	*from = (uint64_t)data;
	if (*from >= size)
		return false;
	for (;;) {
		off_t hole = lseek(fd, data, SEEK_HOLE);

		if (hole < 0 || (uint64_t)hole >= size)
			return true;
		data = lseek(fd, hole, SEEK_DATA);
		if (data < 0 || data - hole >= COPY_HOLE_MIN) {
			*to = (uint64_t)hole;
			return true;
		}
	}
}

struct source_piece *source_pieces(int fd, uint64_t size, uint32_t *n)
{
	struct pieces v = {.piece = malloc(sizeof(*v.piece)), .room = 1};
	uint64_t at = 0, from, to;

	while (v.piece && at < size && next_data(fd, at, size, &from, &to)) {
		if (!add(&v, from, to)) {
			free(v.piece);
			return NULL;
		}
		at = to;
	}
	*n = v.n;
	return v.piece;
}

bool source_is_there(const struct source_piece *p, const struct copy_range *range, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (p->offset >= range[i].offset && p->offset - range[i].offset <= range[i].length &&
		    p->length <= range[i].length - (p->offset - range[i].offset))
			return true;
	return false;
}
