/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* F_DUPFD_CLOEXEC, fallocate, sync_file_range */
#include "copy_partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy/wire/copy_hash.h"
#include "daemon/util/clock.h"
#include "daemon/util/file_io.h"
#include "proxy/util/bytes.h"

#define JOURNAL_MAGIC  0x4c524a3031000000ull /* "LRJ01" */
#define JOURNAL_HEAD   32
#define JOURNAL_RECORD 32
#define SYNC_BYTES     (64u << 20) /* written to the disk between looks at the clock */

/* --- pieces --- */

/* The most pieces that a sender makes: each is full, or has a hole behind it. */
static uint64_t pieces_max(const struct partial *f)
{
	return 2 * (f->size / COPY_HOLE_MIN) + 16;
}

static uint32_t find(const struct partial *f, uint64_t offset)
{
	uint32_t low = 0, high = f->npieces;

	if (high > 0 && f->piece[high - 1].offset < offset)
		return high;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (f->piece[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool insert(struct partial *f, const struct piece *p)
{
	uint32_t at = find(f, p->offset);

	if (at < f->npieces && f->piece[at].offset == p->offset) {
		f->piece[at] = *p;
		return true;
	}
	if (f->npieces >= pieces_max(f))
		return false;
	if (f->npieces == f->room) {
		uint32_t more = f->room ? 2 * f->room : 64;
		struct piece *grown = realloc(f->piece, more * sizeof(*grown));

		if (!grown)
			return false;
		f->piece = grown;
		f->room = more;
	}
	memmove(f->piece + at + 1, f->piece + at, (f->npieces - at) * sizeof(*f->piece));
	f->piece[at] = *p;
	f->npieces++;
	return true;
}

static bool is_as_it_should_be(const struct partial *f, const struct piece *p)
{
	static uint8_t buf[COPY_PIECE_MAX];

	if (p->length == 0 || p->length > COPY_PIECE_MAX || p->offset > f->size || p->length > f->size - p->offset)
		return false;
	return pread_all(f->fd, buf, (size_t)p->length, p->offset) == 0 && copy_hash(buf, (size_t)p->length) == p->hash;
}

/* --- the journal --- */

static void put_record(uint8_t record[JOURNAL_RECORD], const struct piece *p)
{
	put_be64(record, p->offset);
	put_be64(record + 8, p->length);
	put_be64(record + 16, p->hash);
	put_be64(record + 24, copy_hash(record, 24));
}

static void put_journal_head(const struct partial *f, uint8_t head[JOURNAL_HEAD])
{
	put_be64(head, JOURNAL_MAGIC);
	put_be64(head + 8, f->size);
	put_be64(head + 16, (uint64_t)f->mtime_s);
	put_be64(head + 24, f->mtime_ns);
}

/* Stops at an incomplete record. */
bool partial_read_back(struct partial *f, uint64_t until_ns)
{
	uint8_t record[JOURNAL_RECORD];

	if (f->journal_at == 0)
		return true;
	while (pread_all(f->journal, record, sizeof(record), f->journal_at) == 0) {
		struct piece p = {get_be64(record), get_be64(record + 8), get_be64(record + 16)};

		if (get_be64(record + 24) != copy_hash(record, 24))
			break;
		if (is_as_it_should_be(f, &p))
			insert(f, &p);
		f->journal_at += sizeof(record);
		if (clock_now_ns() >= until_ns)
			return false;
	}
	if (ftruncate(f->journal, (off_t)f->journal_at) < 0 || lseek(f->journal, 0, SEEK_END) < 0)
		f->npieces = 0;
	f->journal_at = 0;
	return true;
}

static bool belongs(const struct partial *f)
{
	uint8_t head[JOURNAL_HEAD], wanted[JOURNAL_HEAD];
	struct stat st;

	put_journal_head(f, wanted);
	return pread_all(f->journal, head, sizeof(head), 0) == 0 && memcmp(head, wanted, sizeof(head)) == 0 &&
	       fstat(f->fd, &st) == 0 && (uint64_t)st.st_size == f->size;
}

/* --- life --- */

enum { OWN_FLAGS = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

/* Opens a file of an earlier try, if it belongs to this user alone: somebody else may have put a file there. -1: none.
 */
static int open_own(int dir, const char *name)
{
	int fd = openat(dir, name, OWN_FLAGS);
	struct stat st;

	if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid()))
		return fd;
	close(fd);
	return -1;
}

/* Makes a file in place of what has the name. A descriptor, or -errno. */
static int make_own(int dir, const char *name)
{
	int fd = openat(dir, name, OWN_FLAGS | O_CREAT | O_EXCL, 0600);

	if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0)
		fd = openat(dir, name, OWN_FLAGS | O_CREAT | O_EXCL, 0600);
	return fd < 0 ? -errno : fd;
}

static void close_both(struct partial *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->journal >= 0)
		close(f->journal);
	f->fd = f->journal = -1;
}

/* Opens what an earlier try has left. False: there is nothing of this source. */
static bool take_up(struct partial *f)
{
	f->journal = open_own(f->dir, f->journal_name);
	f->fd = f->journal >= 0 ? open_own(f->dir, f->temporary) : -1;
	if (f->fd < 0 || !belongs(f))
		return false;
	f->journal_at = JOURNAL_HEAD;
	return true;
}

/* Makes both files anew. Writes of the former try may still come by the daemon's descriptor: they go into its own file,
 * which has no name any more. */
static int begin_anew(struct partial *f)
{
	uint8_t head[JOURNAL_HEAD];

	close_both(f);
	f->fd = make_own(f->dir, f->temporary);
	if (f->fd < 0)
		return f->fd;
	f->journal = make_own(f->dir, f->journal_name);
	if (f->journal < 0)
		return f->journal;
	if (ftruncate(f->fd, (off_t)f->size) < 0)
		return -errno;
	put_journal_head(f, head);
	return write(f->journal, head, sizeof(head)) == (ssize_t)sizeof(head) ? 0 : -EIO;
}

int partial_open(struct partial *f, const struct place *p, const struct copy_entry *e)
{
	int r = 0;

	*f = (struct partial){.dir = fcntl(p->fd, F_DUPFD_CLOEXEC, 0),
	                      .fd = -1,
	                      .journal = -1,
	                      .size = e->size,
	                      .mtime_s = e->meta.mtime_s,
	                      .mtime_ns = e->meta.mtime_ns};
	if (f->dir < 0)
		return -errno;
	memcpy(f->name, p->name, sizeof(f->name));
	beneath_temporary(p->name, "part", f->temporary);
	beneath_temporary(p->name, "journal", f->journal_name);
	if (e->anew || !take_up(f))
		r = begin_anew(f);
	if (r < 0)
		partial_close(f);
	return r;
}

void partial_close(struct partial *f)
{
	close_both(f);
	close(f->dir);
	free(f->piece);
	f->piece = NULL;
}

bool partial_enter(struct partial *f, const struct piece *p)
{
	uint8_t record[JOURNAL_RECORD];

	put_record(record, p);
	if (!is_as_it_should_be(f, p) || !insert(f, p))
		return false;
	return f->journal_at > 0 || write(f->journal, record, sizeof(record)) == (ssize_t)sizeof(record);
}

/* The first range that is missing, as much of it as one put brings. */
static struct copy_range first_missing(const struct partial *f)
{
	uint64_t offset = 0, end = f->size;
	uint32_t i = 0;

	for (; i < f->npieces && f->piece[i].offset <= offset; i++)
		if (f->piece[i].offset + f->piece[i].length > offset)
			offset = f->piece[i].offset + f->piece[i].length;
	if (i < f->npieces)
		end = f->piece[i].offset;
	if (end > offset + COPY_PIECE_MAX)
		end = offset + COPY_PIECE_MAX;
	return (struct copy_range){offset, end > offset ? end - offset : 0};
}

int partial_make_room(struct partial *f)
{
	struct copy_range r = first_missing(f);

	if (r.length == 0 || fallocate(f->fd, FALLOC_FL_KEEP_SIZE, (off_t)r.offset, (off_t)r.length) == 0)
		return 0;
	return errno == EINTR || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -errno;
}

uint32_t partial_ranges(const struct partial *f, struct copy_range range[COPY_RANGES_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->npieces; i++) {
		const struct piece *p = &f->piece[i];

		if (n > 0 && range[n - 1].offset + range[n - 1].length == p->offset)
			range[n - 1].length += p->length;
		else if (n == COPY_RANGES_MAX)
			return n;
		else
			range[n++] = (struct copy_range){p->offset, p->length};
	}
	return n;
}

static bool has_digest(const struct partial *f, const uint64_t digest[2])
{
	struct copy_digest d;
	uint64_t is[2];

	copy_digest_begin(&d);
	for (uint32_t i = 0; i < f->npieces; i++)
		copy_digest_add(&d, f->piece[i].offset, f->piece[i].length, f->piece[i].hash);
	copy_digest_end(&d, is);
	return is[0] == digest[0] && is[1] == digest[1];
}

/* Writes the file to the disk. A file of many GB takes minutes, so parts of it come first. -EAGAIN: not all by that
 * time. */
static int sync_bytes(struct partial *f, uint64_t until_ns)
{
	const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	for (; f->size - f->synced > SYNC_BYTES; f->synced += SYNC_BYTES) {
		if (clock_now_ns() >= until_ns)
			return -EAGAIN;
		if (sync_file_range(f->fd, (off_t)f->synced, SYNC_BYTES, all) < 0)
			return -errno;
	}
	return fdatasync(f->fd) < 0 ? -errno : 0;
}

/* The next copy trusts name, size and time: no power loss may leave them without the bytes. The kernel reports a failed
 * write-back once, and takes the lost pages for written afterwards: so nothing of the file is trusted after that. */
static int sync_or_discard(struct partial *f, uint64_t until_ns)
{
	int r = sync_bytes(f, until_ns);

	if (r == 0 || r == -EAGAIN)
		return r;
	unlinkat(f->dir, f->temporary, 0);
	unlinkat(f->dir, f->journal_name, 0);
	return r;
}

int partial_commit(struct partial *f, const struct copy_entry *e, uint64_t until_ns)
{
	struct place p = {.fd = f->dir};
	struct stat st;
	int r;

	if (e->size != f->size || fstat(f->fd, &st) < 0 || (uint64_t)st.st_size != f->size || !has_digest(f, e->digest))
		return 1;
	memcpy(p.name, f->name, sizeof(p.name));
	r = beneath_set_meta(f->fd, &e->meta);
	if (r == 0)
		r = sync_or_discard(f, until_ns);
	if (r == 0)
		r = beneath_rename(&p, f->temporary);
	if (r == 0)
		unlinkat(f->dir, f->journal_name, 0);
	return r;
}
