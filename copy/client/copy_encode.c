/* SPDX-License-Identifier: Apache-2.0 */
/* copy_encode.c - items become entries of a batch. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy/wire/copy_hash.h"
#include "copy_send_priv.h"
#include "daemon/util/file_io.h"

/* --- encoding --- */

enum { READ_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

/* Opens the source of a large file. -1: it is none any more, and the item has ended or waits anew. */
static int open_source(struct sender *s, struct item *it)
{
	struct stat st;
	int fd = source_open(&s->roots, it->src, it->at, READ_FLAGS);

	if (fd < 0 || fstat(fd, &st) < 0) {
		int error = fd < 0 ? -fd : errno;

		if (fd >= 0)
			close(fd);
		source_failed(s, it, error);
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		source_failed(s, it, ENOENT);
		return -1;
	}
	if (st.st_size <= COPY_SMALL_MAX) {
		close(fd);
		item_anew(s, it, &st);
		return -1;
	}
	it->st = st;
	return fd;
}

/* 1: it is in the message; 0: no room in this one; -1: the item is gone. */
static int put_entry(struct copy_out *o, const struct copy_entry *e)
{
	return copy_entry_put(o, e);
}

static bool same_version(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Reads a small file into s->data, as it was at one time: what is known of it before is compared with what it is
 * afterwards. 0 or -errno; -EAGAIN: it changes each time; -EFBIG: it has grown. */
static int read_small(struct sender *s, struct item *it, int fd)
{
	for (uint32_t i = 0; i < ROUNDS_MAX; i++) {
		struct stat before = it->st;
		int r = pread_all(fd, s->data, (size_t)before.st_size, 0);

		if (fstat(fd, &it->st) < 0)
			return -errno;
		if (!S_ISREG(it->st.st_mode))
			return -ENOENT;
		if (r < 0 && r != -ENODATA)
			return r;
		if (r == 0 && same_version(&before, &it->st))
			return 0;
		if (it->st.st_size > COPY_SMALL_MAX)
			return -EFBIG;
	}
	return -EAGAIN;
}

static int encode_file(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	int fd, r;

	/* checked before reading: most batches end here */
	if (o->cap - o->len < (size_t)it->st.st_size + strlen(it->dst) + 64)
		return 0;
	fd = source_open(&s->roots, it->src, it->at, READ_FLAGS);
	if (fd < 0) {
		source_failed(s, it, -fd);
		return -1;
	}
	r = read_small(s, it, fd);
	if (r == 0) {
		source_meta(&it->st, &e->meta);
		source_xattrs(fd, s->xattrs, &e->meta);
	}
	close(fd);
	if (r == -EAGAIN || r == -EFBIG) {
		item_anew(s, it, NULL);
		return -1;
	}
	if (r < 0) {
		source_failed(s, it, -r);
		return -1;
	}
	e->type = COPY_FILE;
	e->data = (struct copy_bytes){s->data, (size_t)it->st.st_size};
	e->hash = copy_hash(s->data, (size_t)it->st.st_size);
	r = put_entry(o, e);
	if (r == 1) {
		s->progress.sent += (uint64_t)it->st.st_size;
		it->given += (uint64_t)it->st.st_size;
		it->once = (uint64_t)it->st.st_size;
	}
	return r;
}

static int encode_open(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	struct large *l;
	int fd;

	if (o->cap - o->len < strlen(it->dst) + 64)
		return 0;
	fd = open_source(s, it);
	if (fd < 0)
		return -1;
	l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		sender_no_memory(s);
		item_free(s, it);
		return -1;
	}
	l->fd = fd;
	it->large = l;
	s->nopen++;
	l->piece = source_pieces(fd, (uint64_t)it->st.st_size, &l->n);
	if (!l->piece) {
		source_failed(s, it, ENOMEM);
		return -1;
	}
	e->type = COPY_OPEN;
	e->anew = it->anew;
	e->size = (uint64_t)it->st.st_size;
	source_meta(&it->st, &e->meta);
	return put_entry(o, e);
}

bool item_has_same_source(const struct item *it)
{
	struct stat st;

	return fstat(it->large->fd, &st) == 0 && st.st_size == it->st.st_size &&
	       st.st_mtim.tv_sec == it->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == it->st.st_mtim.tv_nsec;
}

static int encode_commit(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	const struct large *l = it->large;
	struct copy_digest d;

	if (!item_has_same_source(it)) {
		item_anew_source(s, it);
		return -1;
	}
	e->type = COPY_COMMIT;
	memcpy(e->region, l->region, sizeof(e->region));
	e->size = (uint64_t)it->st.st_size;
	source_meta(&it->st, &e->meta);
	source_xattrs(l->fd, s->xattrs, &e->meta);
	copy_digest_begin(&d);
	for (uint32_t i = 0; i < l->n; i++)
		copy_digest_add(&d, l->piece[i].offset, l->piece[i].length, l->piece[i].hash);
	copy_digest_end(&d, e->digest);
	return put_entry(o, e);
}

static int encode_check(const struct item *it, struct copy_out *o, struct copy_entry *e)
{
	e->type = COPY_CHECK;
	e->kind = S_ISREG(it->st.st_mode) ? COPY_REGULAR : S_ISDIR(it->st.st_mode) ? COPY_DIRECTORY : COPY_SYMLINK;
	e->size = (uint64_t)it->st.st_size;
	source_meta(&it->st, &e->meta);
	if (it->target)
		e->target = copy_text(it->target);
	return put_entry(o, e);
}

static int encode_meta(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	int fd = source_open(&s->roots, it->src, it->at, READ_FLAGS);

	e->type = COPY_META;
	source_meta(&it->st, &e->meta);
	if (fd >= 0) { /* else its xattrs cannot be read */
		source_xattrs(fd, s->xattrs, &e->meta);
		close(fd);
	}
	return put_entry(o, e);
}

int item_encode(struct sender *s, struct item *it, struct copy_out *o)
{
	struct copy_entry e = {.path = copy_text(it->dst)};

	switch (it->stage) {
	case STAGE_CHECK:
		return encode_check(it, o, &e);
	case STAGE_FILE:
		return encode_file(s, it, o, &e);
	case STAGE_OPEN:
		return encode_open(s, it, o, &e);
	case STAGE_COMMIT:
		return encode_commit(s, it, o, &e);
	case STAGE_META:
		return encode_meta(s, it, o, &e);
	case STAGE_SYMLINK:
		e.type = COPY_LINK_SYM;
		source_meta(&it->st, &e.meta);
		e.target = copy_text(it->target);
		return put_entry(o, &e);
	case STAGE_LINK:
		e.type = COPY_LINK_HARD;
		e.target = copy_text(it->target);
		return put_entry(o, &e);
	case STAGE_EXTRAS:
		e.type = COPY_EXTRAS;
		if (it->target)
			e.after = copy_text(it->target);
		if (it->upto)
			e.upto = copy_text(it->upto);
		e.data = (struct copy_bytes){it->names, it->names_len};
		return put_entry(o, &e);
	default:
		e.type = it->stage == STAGE_DIR ? COPY_DIR : COPY_REMOVE;
		return put_entry(o, &e);
	}
}
