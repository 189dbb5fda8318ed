/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fallocate */
#endif
#include "arena_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "log.h"
#include "resident.h"

#define TRAILER_MAGIC 0x4c52545241494c31ull
#define MAP_ALIGN     (2ull << 20) /* a huge page, and the largest chunk */

enum trailer_state { TRAILER_EMPTY = 1, TRAILER_IN_USE = 2 };

/* Last page of the file. `state` is stored last. */
struct trailer {
	uint64_t magic;
	uint64_t epoch;
	uint64_t len;
	uint32_t chunk_size, max_flows;
	uint32_t shard, nshards;
	uint32_t reserve_percent;
	uint32_t state; /* enum trailer_state */
	uint64_t lanes; /* 0: of a version that did not say */
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static struct trailer *trailer_of(const struct arena_file *f)
{
	return (struct trailer *)(void *)((uint8_t *)f->region + f->map_len - MAP_ALIGN);
}

static int complain(const struct arena_file *f, char *err, size_t errlen, const char *what)
{
	int e = errno;

	snprintf(err, errlen, "%s: %s: %s", f->path, what, strerror(e));
	return -e;
}

static void name_file(char *path, size_t size, const char *dir, const char *link, uint32_t shard)
{
	snprintf(path, size, "%s/%s.%u.arena", dir, link, shard);
}

static int open_locked(struct arena_file *f, char *err, size_t errlen)
{
	f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return complain(f, err, errlen, "cannot open the buffer's file (Directory= in [Buffer])");
	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return complain(f, err, errlen, "cannot lock");
	snprintf(err, errlen, "%s: locked: another longreachd runs this link", f->path);
	return -EBUSY;
}

/* Reads the trailer of a file of whatever size. False if there is none. */
static bool read_trailer(int fd, struct trailer *t)
{
	struct stat st;
	void *page;

	if (fstat(fd, &st) < 0 || st.st_size < (off_t)(2 * MAP_ALIGN) || st.st_size % (off_t)MAP_ALIGN)
		return false;
	/* mapped, not read: hugetlbfs before Linux 6.4 reads nothing that was never touched, and pread() is no
	 * shorter */
	page = mmap(NULL, MAP_ALIGN, PROT_READ, MAP_SHARED, fd, st.st_size - (off_t)MAP_ALIGN);
	if (page == MAP_FAILED)
		return false;
	memcpy(t, page, sizeof(*t));
	munmap(page, MAP_ALIGN);
	return t->magic == TRAILER_MAGIC;
}

static bool holds_something(int fd, struct trailer *t)
{
	return read_trailer(fd, t) && t->state != TRAILER_EMPTY;
}

static bool same_shape(const struct trailer *t, const struct arena_file_params *p)
{
	return t->len == p->geometry.len && t->chunk_size == p->geometry.chunk_size &&
	       t->max_flows == p->geometry.max_flows && t->reserve_percent == p->geometry.reserve_percent &&
	       t->shard == p->shard && t->nshards == p->nshards && (t->lanes == p->lanes || t->lanes == 0);
}

/* Is there an arena to go on with? 1, 0 (begin anew), or negative errno if there is one that does not fit. */
static int look_inside(const struct arena_file *f, const struct arena_file_params *p, struct trailer *t, char *err,
                       size_t errlen)
{
	if (!holds_something(f->fd, t))
		return 0;
	if (same_shape(t, p))
		return 1;
	if (t->lanes != p->lanes && t->lanes != 0) {
		snprintf(err, errlen,
		         "%s: holds packets of a link with another Lanes= or other groups in [Host]; start with the "
		         "configuration it was made with until it has drained, or remove the file and lose them",
		         f->path);
		return -EEXIST;
	}
	snprintf(err, errlen,
	         "%s: holds packets of a link with Workers=%u, %llu bytes and MaxFlows %u per worker; start with the "
	         "configuration it was made with until it has drained, or remove the file and lose them",
	         f->path, t->nshards, (unsigned long long)t->len, t->max_flows);
	return -EEXIST;
}

/* --- the mapping --- */

static int take_room(struct arena_file *f, char *err, size_t errlen)
{
	struct statfs fs = {0};

	if (fallocate(f->fd, 0, 0, (off_t)f->map_len) == 0)
		return 0;
	if (errno == ENOSPC || errno == ENOMEM) {
		fstatfs(f->fd, &fs);
		snprintf(err, errlen,
		         "%s: no room for %llu MiB (%llu MiB free there): make the mount larger, or Size= in [Buffer] "
		         "smaller",
		         f->path, (unsigned long long)(f->map_len >> 20),
		         (unsigned long long)((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >> 20));
		return -ENOSPC;
	}
	return complain(f, err, errlen, "cannot take room (Directory= must be on tmpfs or hugetlbfs)");
}

/* Maps at a multiple of MAP_ALIGN: chunks are naturally aligned and huge pages possible. */
static void *map_aligned(int fd, size_t len)
{
	uint8_t *room = mmap(NULL, len + MAP_ALIGN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *at;
	void *region;

	if (room == MAP_FAILED)
		return NULL;
	at = (uint8_t *)(uintptr_t)round_up((uintptr_t)room, MAP_ALIGN);
	region = mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (region == MAP_FAILED) {
		munmap(room, len + MAP_ALIGN);
		return NULL;
	}
	if (at > room)
		munmap(room, (size_t)(at - room));
	munmap(at + len, MAP_ALIGN - (size_t)(at - room));
	return region;
}

static int map_file(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen)
{
	struct statfs fs = {0};
	bool known = fstatfs(f->fd, &fs) == 0, huge = known && fs.f_type == HUGETLBFS_MAGIC;

	if (known && !huge && fs.f_type != TMPFS_MAGIC)
		log_warn("%s: is not on tmpfs or hugetlbfs: every packet will be written to a disk", f->path);
	f->map_len = round_up(p->geometry.len, MAP_ALIGN) + MAP_ALIGN;
	if (huge)
		f->map_len = round_up(f->map_len, (uint64_t)fs.f_bsize);
	if (f->fresh && ftruncate(f->fd, 0) < 0)
		return complain(f, err, errlen, "cannot empty");
	if (ftruncate(f->fd, (off_t)f->map_len) < 0)
		return complain(f, err, errlen, "cannot set the size of");
	f->region = map_aligned(f->fd, f->map_len);
	if (!f->region)
		return complain(f, err, errlen, "cannot map");
	resident_place(f->region, f->map_len, p->numa_ifname, f->path);
	madvise(f->region, f->map_len, MADV_DONTDUMP);
	if (!huge)
		madvise(f->region, f->map_len, MADV_HUGEPAGE);
	return take_room(f, err, errlen);
}

static void write_trailer(struct arena_file *f, const struct arena_file_params *p)
{
	struct trailer *t = trailer_of(f);

	*t = (struct trailer){.magic = TRAILER_MAGIC,
	                      .epoch = f->epoch,
	                      .len = p->geometry.len,
	                      .chunk_size = p->geometry.chunk_size,
	                      .max_flows = p->geometry.max_flows,
	                      .shard = p->shard,
	                      .nshards = p->nshards,
	                      .reserve_percent = p->geometry.reserve_percent,
	                      .lanes = p->lanes,
	                      .state = TRAILER_EMPTY};
}

static void give_up(struct arena_file *f)
{
	if (f->region)
		munmap(f->region, f->map_len);
	if (f->fd >= 0)
		close(f->fd);
	f->region = NULL;
	f->fd = -1;
}

static int open_file(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen)
{
	struct trailer old = {0};
	int r = open_locked(f, err, errlen);

	if (r < 0)
		return r;
	r = look_inside(f, p, &old, err, errlen);
	if (r < 0)
		return r;
	f->fresh = r == 0;
	f->epoch = f->fresh ? p->new_epoch : old.epoch;
	r = map_file(f, p, err, errlen);
	if (r == 0 && f->fresh)
		write_trailer(f, p);
	return r;
}

int arena_file_open(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen)
{
	int r;

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	name_file(f->path, sizeof(f->path), p->dir, p->link, p->shard);
	r = open_file(f, p, err, errlen);
	if (r < 0)
		give_up(f);
	return r;
}

static void set_state(struct arena_file *f, enum trailer_state state)
{
	__atomic_store_n(&trailer_of(f)->state, (uint32_t)state, __ATOMIC_RELEASE);
}

void arena_file_in_use(struct arena_file *f)
{
	set_state(f, TRAILER_IN_USE);
}

void arena_file_close(struct arena_file *f, bool empty)
{
	if (f->region && empty)
		set_state(f, TRAILER_EMPTY);
	give_up(f);
}

/* --- files of a start with more workers --- */

static int check_other(const char *path, char *err, size_t errlen)
{
	struct trailer t;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool full;

	if (fd < 0)
		return 0;
	full = flock(fd, LOCK_EX | LOCK_NB) < 0 || holds_something(fd, &t);
	close(fd);
	if (full) {
		snprintf(err, errlen,
		         "%s: holds packets of a start with more Workers=; start with that number until it has "
		         "drained, or remove the file and lose them",
		         path);
		return -EBUSY;
	}
	unlink(path);
	return 0;
}

int arena_file_check_others(const char *dir, const char *link, uint32_t nshards, char *err, size_t errlen)
{
	char path[320];

	for (uint32_t shard = nshards; shard < SHARDS_MAX; shard++) {
		int r;

		name_file(path, sizeof(path), dir, link, shard);
		r = check_other(path, err, errlen);
		if (r < 0)
			return r;
	}
	return 0;
}
