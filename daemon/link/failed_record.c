/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fallocate, renameat2 */
#include "failed_record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <isa-l/crc.h>

#include "daemon/util/log.h"

#define RECORD_MAGIC 0x4c52666c6f777331ull /* "LRflows1" */
#define FOREIGN_MAX  9                     /* files that are no record and were kept: PATH.old, PATH.old.1 ... */

struct header {
	uint64_t magic;
	uint32_t entry_len, entries;
	uint64_t total;
};

struct failed_record {
	int fd; /* -1: it could not be opened yet */
	char path[256];
	struct header head;
	uint64_t written;   /* entries below this number are in the file, as far as its ring keeps them */
	uint64_t unwritten; /* entries ever that were overwritten before they could be written */
	bool due;           /* the file lacks something */
	bool failing;       /* the last attempt to write the file failed; the log said so */
	struct failed_flow entry[FAILED_RECORD_MAX];
};

static uint32_t crc_of(const struct failed_flow *f, uint64_t number)
{
	return crc32_gzip_refl((uint32_t)number, (const uint8_t *)f, offsetof(struct failed_flow, crc));
}

/* True if the file is a record of this build. */
static bool load(int fd, struct failed_record *r)
{
	struct header h;

	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != RECORD_MAGIC ||
	    h.entry_len != sizeof(struct failed_flow) || h.entries != FAILED_RECORD_MAX)
		return false;
	r->head = h;
	r->written = h.total;
	/* entries that were never written are missing, or zeros */
	return pread(fd, r->entry, sizeof(r->entry), sizeof(h)) >= 0;
}

static int open_file(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Renames a file that is no record to a name that no file has. -1 and errno: the file stays as it is; EEXIST: all
 * FOREIGN_MAX names are taken. */
static int keep_foreign(const char *path, int fd)
{
	char old[sizeof(((struct failed_record *)0)->path) + 8];
	int r = -1;

	close(fd);
	for (unsigned i = 0; i < FOREIGN_MAX && r < 0; i++) {
		int n = snprintf(old, sizeof(old), "%s.old", path);

		if (i > 0)
			snprintf(old + n, sizeof(old) - (size_t)n, ".%u", i);
		r = renameat2(AT_FDCWD, path, AT_FDCWD, old, RENAME_NOREPLACE);
		if (r < 0 && errno != EEXIST)
			break;
	}
	if (r < 0)
		return -1;
	log_warn("%s: is not a record of failed flows of this version: kept as %s", path, old);
	return open_file(path);
}

static struct failed_record *new_record(const char *path)
{
	struct failed_record *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->fd = -1;
	r->head = (struct header){
	    .magic = RECORD_MAGIC, .entry_len = sizeof(struct failed_flow), .entries = FAILED_RECORD_MAX};
	snprintf(r->path, sizeof(r->path), "%s", path);
	return r;
}

/* The entry gets the next number. */
static void append(struct failed_record *r, const struct failed_flow *f)
{
	struct failed_flow *to = &r->entry[r->head.total % FAILED_RECORD_MAX];

	*to = *f;
	to->crc = crc_of(to, r->head.total);
	r->head.total++;
	if (r->head.total - r->written > FAILED_RECORD_MAX) {
		r->written++;
		r->unwritten++;
	}
}

/* Takes the room of all entries at once, so that a disk that is full later does no harm. */
static void reserve(const struct failed_record *r)
{
	if (fallocate(r->fd, 0, 0, (off_t)(sizeof(r->head) + sizeof(r->entry))) < 0)
		return; /* not all file systems can; a failing write reports itself later */
}

/* Writes at an offset. A short write counts as a full disk, which the next write would report. */
static int put_at(const struct failed_record *r, const void *data, size_t len, off_t at)
{
	ssize_t n = pwrite(r->fd, data, len, at);

	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? -errno : -ENOSPC;
}

/* The header counts the entries that are in the file. 0, or negative errno. */
static int write_header(const struct failed_record *r)
{
	struct header h = r->head;

	h.total = r->written;
	return put_at(r, &h, sizeof(h), 0);
}

/* Opens the file; entries added while there was no file come behind the file's. 0, -ENOMEM, or errno of open(2) or
 * renameat2(2), negative. */
static int take_file(struct failed_record *r)
{
	struct failed_record *in_file;
	int fd = open_file(r->path), e;

	if (fd < 0)
		return -errno;
	in_file = new_record(r->path);
	if (in_file == NULL) {
		close(fd);
		return -ENOMEM;
	}
	if (!load(fd, in_file) && lseek(fd, 0, SEEK_END) > 0) {
		fd = keep_foreign(r->path, fd);
		if (fd < 0) {
			e = -errno;
			free(in_file);
			return e;
		}
	}
	for (uint32_t i = 0; i < failed_record_count(r); i++) {
		const struct failed_flow *f = failed_record_at(r, i);

		if (f != NULL)
			append(in_file, f);
	}
	in_file->unwritten += r->unwritten;
	in_file->due = r->due;
	in_file->failing = r->failing;
	in_file->fd = fd;
	*r = *in_file;
	free(in_file);
	if (write_header(r) == 0) /* first: a file of zeros only is no record; write_due() reports a failure */
		reserve(r);
	return 0;
}

/* Writes the entries first, so that all entries that the header counts are there. */
static int write_due(struct failed_record *r)
{
	int e = 0, e_head;

	while (r->written < r->head.total && e == 0) {
		uint64_t slot = r->written % FAILED_RECORD_MAX;

		e = put_at(r, &r->entry[slot], sizeof(r->entry[0]),
		           (off_t)(sizeof(r->head) + slot * sizeof(r->entry[0])));
		r->written += e == 0;
	}
	e_head = write_header(r);
	return e == 0 ? e_head : e;
}

static const char *why_not_written(int e)
{
	return e == -EEXIST
	           ? "it is not a record of this version, and FILE.old, FILE.old.1 ... exist: move them elsewhere, or "
	             "remove them"
	           : strerror(-e);
}

void failed_record_write(struct failed_record *r)
{
	uint64_t n = failed_record_waiting(r);
	int e;

	if (!r->due)
		return;
	e = r->fd < 0 ? take_file(r) : 0;
	if (e == 0)
		e = write_due(r);
	if (e < 0 && !r->failing)
		log_err("%s: cannot be written: %s: `longreach failed` names the last %d failed flows from memory; "
		        "longreachd tries to write again every second",
		        r->path, why_not_written(e), FAILED_RECORD_MAX);
	if (e == 0 && r->failing)
		log_notice("%s: can be written again: longreachd has added %" PRIu64
		           " waiting failed flows to it; %" PRIu64 " others are lost",
		           r->path, n, r->unwritten);
	r->failing = e < 0;
	r->due = e < 0;
}

struct failed_record *failed_record_open(const char *path)
{
	struct failed_record *r = new_record(path);

	if (r == NULL)
		return NULL;
	r->due = true;
	failed_record_write(r);
	return r;
}

void failed_record_close(struct failed_record *r)
{
	if (r == NULL)
		return;
	failed_record_write(r);
	if (failed_record_waiting(r) > 0)
		log_err("%s: cannot be written: the names of %" PRIu64
		        " failed flows are lost with this process; %" PRIu64 " more were lost before",
		        r->path, failed_record_waiting(r), r->unwritten);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

void failed_record_add(struct failed_record *r, const char *link, const struct proxy_event *ev)
{
	struct failed_flow f = {.pos = ev->pos,
	                        .bytes = ev->value,
	                        .src = ev->src,
	                        .dst = ev->dst,
	                        .dest_qpn = ev->dest_qpn,
	                        .requester_qpn = ev->requester_qpn,
	                        .side = (uint8_t)ev->side,
	                        .failure = (uint8_t)ev->failure,
	                        .syndrome = ev->syndrome};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	f.wall_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
	snprintf(f.link, sizeof(f.link), "%s", link);
	append(r, &f);
	r->due = true;
	if (!r->failing)
		failed_record_write(r);
}

uint64_t failed_record_waiting(const struct failed_record *r)
{
	return r->head.total - r->written;
}

uint64_t failed_record_unwritten(const struct failed_record *r)
{
	return r->unwritten;
}

uint64_t failed_record_total(const struct failed_record *r)
{
	return r->head.total;
}

uint32_t failed_record_count(const struct failed_record *r)
{
	return r->head.total < FAILED_RECORD_MAX ? (uint32_t)r->head.total : FAILED_RECORD_MAX;
}

const struct failed_flow *failed_record_at(const struct failed_record *r, uint32_t i)
{
	uint64_t number = r->head.total - failed_record_count(r) + i;
	const struct failed_flow *f = &r->entry[number % FAILED_RECORD_MAX];

	return f->crc == crc_of(f, number) && f->link[sizeof(f->link) - 1] == '\0' ? f : NULL;
}
