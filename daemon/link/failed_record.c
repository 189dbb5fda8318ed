/* SPDX-License-Identifier: Apache-2.0 */
#include "failed_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <isa-l/crc.h>

#include "daemon/util/log.h"

#define RECORD_MAGIC 0x4c52666c6f777331ull /* "LRflows1" */

struct header {
	uint64_t magic;
	uint32_t entry_len, entries;
	uint64_t total;
};

struct failed_record {
	int fd; /* -1: it could not be opened, or not be written */
	char path[256];
	struct header head;
	struct failed_flow entry[FAILED_RECORD_MAX];
};

static uint32_t crc_of(const struct failed_flow *f, uint64_t number)
{
	return crc32_gzip_refl((uint32_t)number, (const uint8_t *)f, offsetof(struct failed_flow, crc));
}

static void give_up(struct failed_record *r, const char *what)
{
	log_err("%s: %s: %s: flows that fail are named in the log and by `longreach failed` until the daemon ends, no "
	        "longer",
	        r->path, what, strerror(errno));
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
}

/* True if the file is a record of this build. */
static bool load(struct failed_record *r)
{
	struct header h;

	if (pread(r->fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != RECORD_MAGIC ||
	    h.entry_len != sizeof(struct failed_flow) || h.entries != FAILED_RECORD_MAX)
		return false;
	r->head = h;
	/* what was never written is shorter, or a hole */
	return pread(r->fd, r->entry, sizeof(r->entry), sizeof(h)) >= 0;
}

static int open_file(const char *path)
{
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void keep_foreign(struct failed_record *r)
{
	char old[sizeof(r->path) + 8];

	snprintf(old, sizeof(old), "%s.old", r->path);
	if (rename(r->path, old) == 0)
		log_warn("%s: is no record of failed flows that this version knows: kept as %s", r->path, old);
	close(r->fd);
	r->fd = open_file(r->path);
}

struct failed_record *failed_record_open(const char *path)
{
	const struct header empty = {
	    .magic = RECORD_MAGIC, .entry_len = sizeof(struct failed_flow), .entries = FAILED_RECORD_MAX};
	struct failed_record *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	snprintf(r->path, sizeof(r->path), "%s", path);
	r->fd = open_file(path);
	if (r->fd >= 0 && load(r))
		return r;
	r->head = empty;
	memset(r->entry, 0, sizeof(r->entry));
	if (r->fd >= 0 && lseek(r->fd, 0, SEEK_END) > 0)
		keep_foreign(r);
	if (r->fd < 0)
		give_up(r, "cannot be opened");
	else if (pwrite(r->fd, &r->head, sizeof(r->head), 0) != sizeof(r->head))
		give_up(r, "cannot be written");
	return r;
}

void failed_record_close(struct failed_record *r)
{
	if (r == NULL)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

/* The entry first: what the header counts is there. */
static void write_entry(struct failed_record *r, uint32_t slot)
{
	off_t at = (off_t)(sizeof(r->head) + slot * sizeof(r->entry[0]));

	if (r->fd >= 0 &&
	    (pwrite(r->fd, &r->entry[slot], sizeof(r->entry[0]), at) != (ssize_t)sizeof(r->entry[0]) ||
	     pwrite(r->fd, &r->head, sizeof(r->head), 0) != (ssize_t)sizeof(r->head)))
		give_up(r, "cannot be written");
}

void failed_record_add(struct failed_record *r, const char *link, const struct proxy_event *ev)
{
	uint32_t slot = (uint32_t)(r->head.total % FAILED_RECORD_MAX);
	struct failed_flow *f = &r->entry[slot];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	memset(f, 0, sizeof(*f));
	f->wall_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
	f->pos = ev->pos;
	f->bytes = ev->value;
	f->src = ev->src;
	f->dst = ev->dst;
	f->dest_qpn = ev->dest_qpn;
	f->requester_qpn = ev->requester_qpn;
	f->side = (uint8_t)ev->side;
	f->failure = (uint8_t)ev->failure;
	f->syndrome = ev->syndrome;
	snprintf(f->link, sizeof(f->link), "%s", link);
	f->crc = crc_of(f, r->head.total);
	r->head.total++;
	write_entry(r, slot);
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
