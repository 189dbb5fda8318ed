/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fallocate */
#endif
#include "arena_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <isa-l/crc.h>

#include "daemon/util/log.h"
#include "page_lock.h"

#define TRAILER_MAGIC 0x4c52545241494c31ull
#define MAP_ALIGN     (2ull << 20) /* a huge page, and the largest chunk */
#define SET_ASIDE_MAX 4            /* damaged files kept for one name: each takes up as much memory as a buffer */

enum trailer_acks { ACKS_UNKNOWN, ACKS_EARLY, ACKS_LATE }; /* unknown: written by a version without this field */

/* Whether an arena before this one was lost with its contents, and whether the other edge has heard so. */
enum trailer_loss {
	LOSS_UNKNOWN, /* written by a version without this field */
	LOSS_NONE,    /* the arena before had drained */
	LOSS_UNTOLD,  /* an arena before, if there was one, is lost; no session was heard since */
	LOSS_TOLD,    /* such an arena is lost, and the other edge has begun a session that knows this arena */
};

enum trailer_state { TRAILER_EMPTY = 1, TRAILER_IN_USE = 2 };

/* First bytes of the last MAP_ALIGN of the file. All fields but `state` and those behind the CRC are written before the
 * file gets its name. */
struct trailer {
	uint64_t magic;
	uint64_t epoch;
	uint64_t len;
	uint32_t chunk_size, max_flows;
	uint32_t shard, nshards;
	uint32_t reserve_percent;
	uint32_t state; /* enum trailer_state */
	uint64_t lanes; /* 0: written by a version without this field */
	uint32_t crc;   /* CRC-32 of all fields that do not change; 0: written by a version without a CRC */
	uint32_t owes_nothing; /* 1: no packet of a host is in the arena. 0: there may be some, or written by a version
	                        * without this field */
	/* The process whose devices may write into the arena. Not in the CRC. */
	uint32_t owner_pid;   /* 0: none, or written by a version without this field */
	uint32_t acks;        /* enum trailer_acks, of the packets in the arena. Not in the CRC, either */
	uint64_t owner_start; /* start time of that process, from /proc/PID/stat: another process may have the same PID
	                       * later */
	uint64_t peer_epoch;  /* epoch of the other edge's arena in the last session; 0: none, or written by a version
	                       * without this field. Not in the CRC, as `loss` */
	uint32_t loss;        /* enum trailer_loss */
	uint32_t pad;
	uint8_t boot[16]; /* random id of the machine's boot in which the arena was in use: bytes that were not written
	                   * to a disk before a power loss are missing. Zeros: the process stopped in order, or
	                   * a version without this field. Not in the CRC */
};

static uint32_t trailer_crc(const struct trailer *t)
{
	struct trailer fixed = *t;

	fixed.state = fixed.crc = fixed.owes_nothing = 0;
	return crc32_gzip_refl(0, (const uint8_t *)&fixed, offsetof(struct trailer, owner_pid));
}

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

void arena_file_name(char *path, size_t size, const char *dir, const char *link, uint32_t shard)
{
	snprintf(path, size, "%s/%s.%u.arena", dir, link, shard);
}

enum lock_times {
	LOCK_WAIT_MS = 200, /* for processes that only look at the trailer: they take the lock for microseconds */
	LOCK_LOOK_MS = 2,
};

static bool lock_fd(int fd)
{
	for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited_ms += LOCK_LOOK_MS) {
		if (errno != EWOULDBLOCK || waited_ms >= LOCK_WAIT_MS)
			return false;
		poll(NULL, 0, LOCK_LOOK_MS);
		errno = EWOULDBLOCK;
	}
	return true;
}

/* For a look at a file: false if a daemon has it open. Looks are in nobody else's way but of a start, which waits. */
static bool lock_to_look(int fd)
{
	return flock(fd, LOCK_SH | LOCK_NB) == 0;
}

static int lock(const struct arena_file *f, char *err, size_t errlen)
{
	if (lock_fd(f->fd))
		return 0;
	if (errno != EWOULDBLOCK)
		return complain(f, err, errlen, "cannot lock");
	snprintf(err, errlen, "%s: locked: another longreachd runs this link", f->path);
	return -EBUSY;
}

/* True if the open file still has the name that it was opened by: the process that had locked it may have removed
 * it. */
static bool has_name(const struct arena_file *f)
{
	struct stat open_one, named;

	return fstat(f->fd, &open_one) == 0 && lstat(f->path, &named) == 0 && open_one.st_ino == named.st_ino &&
	       open_one.st_dev == named.st_dev;
}

static void close_fd(struct arena_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

/* 1: there is a file, open and locked; 0: there is none; or negative errno. */
static int open_existing(struct arena_file *f, char *err, size_t errlen)
{
	int r;

	do {
		close_fd(f);
		f->fd = open(f->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		if (f->fd < 0 && errno == ENOENT)
			return 0;
		if (f->fd < 0)
			return complain(f, err, errlen, "cannot open the buffer's file (Directory= in [Buffer])");
		r = lock(f, err, errlen);
		if (r < 0)
			return r;
	} while (!has_name(f));
	return 1;
}

/* --- file systems on a disk --- */

static bool in_memory(const struct statfs *fs)
{
	return fs->f_type == HUGETLBFS_MAGIC || fs->f_type == TMPFS_MAGIC || fs->f_type == RAMFS_MAGIC;
}

static bool on_disk(const struct arena_file *f)
{
	struct statfs fs = {0};

	return fstatfs(f->fd, &fs) == 0 && !in_memory(&fs);
}

/* The random id of this boot of the machine. Zeros: the kernel does not tell. */
static void read_boot(uint8_t boot[16])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned n = 0;
	int c;

	memset(boot, 0, 16);
	while (f && n < 32 && (c = fgetc(f)) != EOF) {
		if (!isxdigit(c))
			continue;
		boot[n / 2] = (uint8_t)(boot[n / 2] << 4 | (isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10));
		n++;
	}
	if (f)
		fclose(f);
}

static bool of_other_boot(const struct trailer *t)
{
	static const uint8_t none[16];
	uint8_t boot[16];

	if (memcmp(t->boot, none, sizeof(none)) == 0)
		return false;
	read_boot(boot);
	return memcmp(t->boot, boot, sizeof(boot)) != 0;
}

/* Waits until the trailer, and the file's name, are on the disk. */
static void sync_trailer(const struct arena_file *f)
{
	char dir[sizeof(f->path)];
	int fd;

	if (!on_disk(f))
		return;
	if (msync(trailer_of(f), MAP_ALIGN, MS_SYNC) < 0)
		log_warn("%s: cannot write the buffer's last page to the disk: %s", f->path, strerror(errno));
	snprintf(dir, sizeof(dir), "%s", f->path);
	*strrchr(dir, '/') = '\0';
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

/* --- what a file holds --- */

enum content {
	CONTENT_EMPTY, /* the trailer says that nothing was left in the file; or the file has no bytes */
	CONTENT_IN_USE,
	CONTENT_PARTIAL, /* in use when the machine stopped: what was not written back to the disk is missing */
	CONTENT_UNKNOWN, /* unknown content: the file must not be changed */
};

/* Mappings of the file begin and end at multiples of this unit: the file system's huge pages may be of 1 GiB. */
static uint64_t map_unit(int fd)
{
	struct statfs fs = {0};
	bool huge = fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC;

	return huge && (uint64_t)fs.f_bsize > MAP_ALIGN ? (uint64_t)fs.f_bsize : MAP_ALIGN;
}

/* Length of the file of a region: the trailer has the last MAP_ALIGN to itself. */
static uint64_t file_len(uint64_t region_len, uint64_t unit)
{
	return round_up(round_up(region_len, MAP_ALIGN) + MAP_ALIGN, unit);
}

uint64_t arena_file_bytes(uint64_t region_len, uint64_t page_bytes)
{
	return file_len(region_len, page_bytes > MAP_ALIGN ? page_bytes : MAP_ALIGN);
}

/* False if a file of that size has no place for a trailer. */
static bool read_trailer(int fd, uint64_t size, struct trailer *t)
{
	uint64_t unit = map_unit(fd);
	uint8_t *end;

	if (size < 2 * MAP_ALIGN || size % unit)
		return false;
	/* mapped, not read: on hugetlbfs before Linux 6.4, read() returns nothing for untouched pages; pread() is no
	 * shorter */
	end = mmap(NULL, unit, PROT_READ, MAP_SHARED, fd, (off_t)(size - unit));
	if (end == MAP_FAILED)
		return false;
	memcpy(t, end + unit - MAP_ALIGN, sizeof(*t));
	munmap(end, unit);
	return true;
}

static enum content content_of(int fd, struct trailer *t)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return CONTENT_UNKNOWN;
	if (st.st_size == 0)
		return CONTENT_EMPTY;
	if (!read_trailer(fd, (uint64_t)st.st_size, t) || t->magic != TRAILER_MAGIC ||
	    (t->crc != 0 && t->crc != trailer_crc(t)))
		return CONTENT_UNKNOWN;
	if (t->state == TRAILER_IN_USE)
		return of_other_boot(t) ? CONTENT_PARTIAL : CONTENT_IN_USE;
	return t->state == TRAILER_EMPTY ? CONTENT_EMPTY : CONTENT_UNKNOWN;
}

/* --- setting aside --- */

static uint32_t count_set_aside(const struct arena_file *f)
{
	char pattern[sizeof(f->path) + sizeof(ARENA_SET_ASIDE) + 1];
	uint32_t n = 0;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s" ARENA_SET_ASIDE "*", f->path);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
		n = (uint32_t)found.gl_pathc;
		globfree(&found);
	}
	return n;
}

/* Renames to an unused name: two files may be set aside in one second. */
static int rename_aside(struct arena_file *f)
{
	time_t now = time(NULL);
	struct tm utc;
	char when[24];

	gmtime_r(&now, &utc);
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &utc);
	for (unsigned i = 0; i <= SET_ASIDE_MAX; i++) {
		int n = snprintf(f->set_aside, sizeof(f->set_aside), "%s" ARENA_SET_ASIDE "%s", f->path, when);

		if (i > 0)
			snprintf(f->set_aside + n, sizeof(f->set_aside) - (size_t)n, ".%u", i);
		if (renameat2(AT_FDCWD, f->path, AT_FDCWD, f->set_aside, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return -errno;
}

int arena_file_set_aside(struct arena_file *f, const char *why, char *err, size_t errlen)
{
	int r;

	if (count_set_aside(f) >= SET_ASIDE_MAX) {
		snprintf(
		    err, errlen,
		    "%s: %s. %d files with that name and " ARENA_SET_ASIDE
		    "* behind it were set aside already: move those that you need elsewhere, and remove the others",
		    f->path, why, SET_ASIDE_MAX);
		return -EMLINK;
	}
	r = rename_aside(f);
	if (r < 0) {
		snprintf(err, errlen, "%s: %s; longreachd cannot set the file aside, as it cannot rename it: %s",
		         f->path, why, strerror(-r));
		f->set_aside[0] = '\0';
		return r;
	}
	log_err("%s: %s: packets that hosts believe delivered may be lost. The file was set aside as %s, and the link "
	        "begins with an empty buffer; remove the set-aside file when you no longer need it",
	        f->path, why, f->set_aside);
	arena_file_close(f, false);
	return 0;
}

/* --- whose devices may write into it --- */

/* A kill closes descriptors one after the other: the lock may be gone while a network card still writes into slots that
 * the next process has begun to read. A process has ended completely only when its pidfd says so. */
static int owner_wait_ms = 5000;

/* Start time of a process. 0: there is no such process, or it cannot be seen. */
static uint64_t process_start(uint32_t pid)
{
	char path[32], line[1024] = "";
	const char *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	at = strrchr(line, ')'); /* behind the name, which may have blanks: field 3 and so on */
	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static void say_owner(struct arena_file *f)
{
	struct trailer *t = trailer_of(f);
	uint32_t pid = (uint32_t)getpid();

	__atomic_store_n(&t->owner_pid, 0, __ATOMIC_RELEASE);
	t->owner_start = process_start(pid);
	__atomic_store_n(&t->owner_pid, pid, __ATOMIC_RELEASE);
}

/* Waits until the process that had the arena before is dead, and with it all devices that it had opened. */
static int await_owner(const struct arena_file *f, const struct trailer *t, char *err, size_t errlen)
{
	struct pollfd dead = {.events = POLLIN};
	int r = 0;

	if (t->owner_pid == 0 || t->owner_pid == (uint32_t)getpid())
		return 0;
	dead.fd = (int)syscall(SYS_pidfd_open, (pid_t)t->owner_pid, 0);
	if (dead.fd < 0) /* no such process; or this kernel has no pidfd, and the lock alone counts */
		return 0;
	if (process_start(t->owner_pid) == t->owner_start && poll(&dead, 1, 0) == 0) {
		log_notice("%s: waiting until process %u ends, which used this buffer before", f->path, t->owner_pid);
		r = poll(&dead, 1, owner_wait_ms) == 1 ? 0 : -EBUSY;
	}
	close(dead.fd);
	if (r < 0)
		snprintf(err, errlen,
		         "%s: process %u, which used this buffer before, does not end, and its network cards may still "
		         "write into the buffer: /proc/%u/stack shows what it waits for; start this link again when "
		         "the process has ended",
		         f->path, t->owner_pid, t->owner_pid);
	return r;
}

/* --- is it ours? --- */

static bool same_lanes(const struct trailer *t, const struct arena_file_params *p)
{
	return t->lanes == p->spread.lanes || t->lanes == 0;
}

static bool same_flows(const struct trailer *t, const struct arena_file_params *p)
{
	return t->shard == p->shard && t->nshards == p->spread.nshards && same_lanes(t, p);
}

/* False: packets of hosts are in the arena, or may be. */
static bool owes_nothing(const struct trailer *t)
{
	return t->owes_nothing == 1;
}

static int refuse_other_flows(const struct arena_file *f, const struct arena_file_params *p, const struct trailer *t,
                              char *err, size_t errlen)
{
	if (!same_lanes(t, p))
		snprintf(err, errlen,
		         "%s: holds packets of a link with another Lanes= or other groups in [Host]: put the former "
		         "values back until the buffer has drained, or remove the file and lose the packets",
		         f->path);
	else
		snprintf(err, errlen,
		         "%s: holds packets of a link with Workers=%u: put that value back until the buffer has "
		         "drained, or remove the file and lose the packets",
		         f->path, t->nshards);
	return -EEXIST;
}

/* --- the mapping --- */

/* Room for the trailer alone. */
static bool take_trailer_room(const struct arena_file *f)
{
	uint64_t unit = map_unit(f->fd);

	return fallocate(f->fd, 0, (off_t)(f->map_len - unit), (off_t)unit) == 0;
}

/* Gives back the room of all but the trailer. */
static void give_room_back(int fd)
{
	uint64_t unit = map_unit(fd);
	struct stat st;

	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size > unit)
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)((uint64_t)st.st_size - unit));
}

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
	return complain(f, err, errlen,
	                "cannot allocate the buffer's memory (Directory= must be on tmpfs or hugetlbfs)");
}

/* Maps at a multiple of unit: chunks are naturally aligned and huge pages possible. */
static void *map_aligned(int fd, size_t len, size_t unit)
{
	uint8_t *room = mmap(NULL, len + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *at;
	void *region;

	if (room == MAP_FAILED)
		return NULL;
	at = (uint8_t *)(uintptr_t)round_up((uintptr_t)room, unit);
	region = mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (region == MAP_FAILED) {
		munmap(room, len + unit);
		return NULL;
	}
	if (at > room)
		munmap(room, (size_t)(at - room));
	munmap(at + len, unit - (size_t)(at - room));
	return region;
}

static int map_file(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen)
{
	struct statfs fs = {0};
	bool huge = fstatfs(f->fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC;

	f->map_len = file_len(f->geometry.len, map_unit(f->fd));
	if (ftruncate(f->fd, (off_t)f->map_len) < 0)
		return complain(f, err, errlen, "cannot set the size of");
	f->region = map_aligned(f->fd, f->map_len, map_unit(f->fd));
	if (!f->region)
		return complain(f, err, errlen, "cannot map");
	page_lock_bind_node(f->region, f->map_len, p->numa_ifname, f->path);
	madvise(f->region, f->map_len, MADV_DONTDUMP);
	if (!huge)
		madvise(f->region, f->map_len, MADV_HUGEPAGE);
	return 0;
}

static struct trailer trailer_for(const struct arena_file *f, const struct arena_file_params *p)
{
	struct trailer t = {.magic = TRAILER_MAGIC,
	                    .epoch = f->epoch,
	                    .len = f->geometry.len,
	                    .chunk_size = f->geometry.chunk_size,
	                    .max_flows = f->geometry.max_flows,
	                    .shard = p->shard,
	                    .nshards = p->spread.nshards,
	                    .reserve_percent = f->geometry.reserve_percent,
	                    .lanes = p->spread.lanes,
	                    .state = TRAILER_EMPTY,
	                    .peer_epoch = f->peer_epoch,
	                    .loss = f->former_kept ? LOSS_NONE : LOSS_UNTOLD};
	t.crc = trailer_crc(&t);
	return t;
}

/* --- making and opening --- */

static void give_up(struct arena_file *f)
{
	if (f->region)
		munmap(f->region, f->map_len);
	f->region = NULL;
	close_fd(f);
}

/* Maps the trailer alone: a mapping of the whole file would reserve all its huge pages. NULL: it cannot, see errno. */
static struct trailer *map_trailer(int fd)
{
	uint64_t unit = map_unit(fd);
	uint8_t *end = MAP_FAILED;
	struct stat st;

	if (fstat(fd, &st) == 0)
		end = mmap(NULL, unit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)((uint64_t)st.st_size - unit));
	return end == MAP_FAILED ? NULL : (struct trailer *)(void *)(end + unit - MAP_ALIGN);
}

static void unmap_trailer(int fd, struct trailer *t)
{
	uint64_t unit = map_unit(fd);

	munmap((uint8_t *)t + MAP_ALIGN - unit, unit);
}

static int write_trailer(const struct arena_file *f, const struct trailer *t, char *err, size_t errlen)
{
	struct trailer *to = map_trailer(f->fd);

	if (to == NULL)
		return complain(f, err, errlen, "cannot map the last page of");
	*to = *t;
	unmap_trailer(f->fd, to);
	return 0;
}

/* Takes the place of the drained arena `former`, -1: there is none. What its trailer says of it and of the other edge
 * is kept by this rename(), whatever becomes of the rest of the start. */
static int name_file(struct arena_file *f, const struct arena_file_params *p, int former, const char *unfinished,
                     char *err, size_t errlen)
{
	struct trailer t = trailer_for(f, p);
	int r;

	f->map_len = file_len(p->geometry.len, map_unit(f->fd));
	if (ftruncate(f->fd, (off_t)f->map_len) < 0)
		return complain(f, err, errlen, "cannot set the size of");
	/* the second time: both trailers have no room on a mount of one huge page */
	if (!take_trailer_room(f) && (former < 0 || ftruncate(former, 0) < 0 || !take_trailer_room(f))) {
		r = take_room(f, err, errlen);
		if (r < 0)
			return r;
	}
	r = write_trailer(f, &t, err, errlen);
	if (r == 0 && renameat2(AT_FDCWD, unfinished, AT_FDCWD, f->path, former < 0 ? RENAME_NOREPLACE : 0u) < 0)
		return complain(f, err, errlen, "cannot give the buffer's file its name");
	return r;
}

/* A new file gets its name when its trailer is written: so a file with that name and without a trailer was damaged. The
 * trailer says that the arena is empty; room for the arena is taken later. */
static int make_file(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen)
{
	char unfinished[sizeof(f->path) + 8];
	int former = f->fd, r;

	snprintf(unfinished, sizeof(unfinished), "%s.new", f->path);
	f->fd = open(unfinished, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = f->fd < 0 ? complain(f, err, errlen, "cannot open the buffer's file (Directory= in [Buffer])")
	              : lock(f, err, errlen);
	if (r == 0 && ftruncate(f->fd, 0) < 0) /* the rest of a start that was killed */
		r = complain(f, err, errlen, "cannot empty");
	if (r == 0) {
		f->fresh = true;
		f->geometry = p->geometry;
		f->former_kept &= !p->former_lost;
		f->epoch = p->new_epoch;
		r = name_file(f, p, former, unfinished, err, errlen);
		if (r < 0)
			unlink(unfinished);
	}
	if (former >= 0)
		close(former); /* and with it the lock of the name */
	return r;
}

static int say_empty(const struct arena_file *f, char *err, size_t errlen)
{
	struct trailer *t = map_trailer(f->fd);

	if (t == NULL)
		return complain(f, err, errlen, "cannot map the last page of");
	__atomic_store_n(&t->state, (uint32_t)TRAILER_EMPTY, __ATOMIC_RELEASE);
	unmap_trailer(f->fd, t);
	return 0;
}

/* Nothing needs to be kept but what the trailer says, which the next arena passes on. The next arena needs the room,
 * and its start may fail: so the file stays, and its trailer. Returns as look_at_existing(); the file stays open. */
static int empty_existing(struct arena_file *f, const struct trailer *t, char *err, size_t errlen)
{
	int r = 0;

	if (t->magic == TRAILER_MAGIC) {
		f->former_kept = t->loss != LOSS_UNTOLD; /* the next arena has to tell the other edge */
		f->peer_epoch = t->peer_epoch;
		if (t->state != TRAILER_EMPTY)
			r = say_empty(f, err, errlen);
	}
	if (r == 0)
		give_room_back(f->fd);
	return r;
}

/* Takes up the arena's own geometry. Returns as look_at_existing(). */
static int take_up_existing(struct arena_file *f, const struct trailer *t, char *err, size_t errlen)
{
	struct stat st;
	int r;

	if (fstat(f->fd, &st) < 0)
		return complain(f, err, errlen, "cannot read the size of");
	if ((uint64_t)st.st_size != file_len(t->len, map_unit(f->fd)))
		return arena_file_set_aside(f, "it has another length than its last page names", err, errlen);
	f->geometry = (struct arena_geometry){.len = t->len,
	                                      .chunk_size = t->chunk_size,
	                                      .max_flows = t->max_flows,
	                                      .reserve_percent = (uint8_t)t->reserve_percent};
	r = await_owner(f, t, err, errlen);
	return r < 0 ? r : 1;
}

/* 0: nothing with that name needs to be kept, and a new file can take the name. 1: there is one to go on with. */
static int look_at_existing(struct arena_file *f, const struct arena_file_params *p, struct trailer *t, char *err,
                            size_t errlen)
{
	int r = open_existing(f, err, errlen);

	if (r <= 0)
		return r;
	switch (content_of(f->fd, t)) {
	case CONTENT_IN_USE:
		if (same_flows(t, p))
			return take_up_existing(f, t, err, errlen);
		if (!owes_nothing(t))
			return refuse_other_flows(f, p, t, err, errlen);
		log_notice("%s: the link begins with an empty buffer, as Workers=, Lanes= or the groups in [Host] are "
		           "others now: nothing is owed to any host",
		           f->path);
		break;
	case CONTENT_PARTIAL:
		f->peer_epoch = t->peer_epoch;
		return arena_file_set_aside(
		    f,
		    "was in use when the machine lost power or crashed, or was copied here while "
		    "in use: what had not been written to the disk is missing",
		    err, errlen);
	case CONTENT_UNKNOWN:
		return arena_file_set_aside(f, "its last page is not the last page of a buffer, or is damaged", err,
		                            errlen);
	case CONTENT_EMPTY:
		break;
	}
	return empty_existing(f, t, err, errlen);
}

/* Checks that the directory is in memory: the hosts' packets must not land on a disk because a mount is missing. */
static int check_memory(const struct arena_file_params *p, char *err, size_t errlen)
{
	struct statfs fs;

	if (statfs(p->dir, &fs) < 0) /* opening the file will fail, with a message */
		return 0;
	if (in_memory(&fs))
		return 0;
	if (p->on_disk) {
		log_warn(
		    "%s: is on a file system that writes to a disk, which OnDisk=yes allows: longreachd writes "
		    "every packet of the hosts there, not encrypted; after a power loss the packets are lost all the "
		    "same",
		    p->dir);
		return 0;
	}
	snprintf(err, errlen,
	         "%s: is not on hugetlbfs or tmpfs: the hosts' packets would be written to a disk. Mount one of the "
	         "two there, or name another Directory= in [Buffer] (OnDisk=yes allows a disk)",
	         p->dir);
	return -EMEDIUMTYPE;
}

int arena_file_open(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen)
{
	struct trailer old = {0};
	int r;

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->former_kept = p->shard >= p->nformer;
	arena_file_name(f->path, sizeof(f->path), p->dir, p->link, p->shard);
	r = check_memory(p, err, errlen);
	if (r == 0)
		r = look_at_existing(f, p, &old, err, errlen);
	if (r == 0) {
		r = make_file(f, p, err, errlen);
	} else if (r > 0) {
		f->epoch = old.epoch;
		f->former_kept = old.loss == LOSS_UNKNOWN || old.loss == LOSS_NONE;
		f->peer_epoch = old.peer_epoch;
		r = 0;
	}
	if (r == 0)
		r = map_file(f, p, err, errlen);
	if (r == 0)
		r = take_room(f, err, errlen);
	if (r < 0 && f->fresh)
		give_room_back(f->fd); /* nothing is in it, and the operator may need the room */
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
	say_owner(f); /* only after the file was understood: a file that is set aside stays unchanged */
	read_boot(trailer_of(f)->boot);
	set_state(f, TRAILER_IN_USE);
	sync_trailer(f); /* a trailer on the disk that says less than this one would hide a loss */
}

void arena_file_say_owed(struct arena_file *f, bool owed)
{
	__atomic_store_n(&trailer_of(f)->owes_nothing, owed ? 0u : 1u, __ATOMIC_RELEASE);
}

void arena_file_say_early(struct arena_file *f, bool early)
{
	__atomic_store_n(&trailer_of(f)->acks, early ? (uint32_t)ACKS_EARLY : (uint32_t)ACKS_LATE, __ATOMIC_RELEASE);
}

bool arena_file_was_early(const struct arena_file *f)
{
	return trailer_of(f)->acks != ACKS_LATE;
}

void arena_file_say_told(struct arena_file *f)
{
	struct trailer *t = trailer_of(f);

	if (t->loss == LOSS_UNTOLD)
		__atomic_store_n(&t->loss, (uint32_t)LOSS_TOLD, __ATOMIC_RELEASE);
}

void arena_file_say_peer(struct arena_file *f, uint64_t peer_epoch)
{
	__atomic_store_n(&trailer_of(f)->peer_epoch, peer_epoch, __ATOMIC_RELEASE);
}

void arena_file_close(struct arena_file *f, bool empty)
{
	if (f->region && empty) {
		set_state(f, TRAILER_EMPTY);
		sync_trailer(f);
	}
	if (f->region && trailer_of(f)->owner_pid == (uint32_t)getpid())
		__atomic_store_n(&trailer_of(f)->owner_pid, 0, __ATOMIC_RELEASE);
	give_up(f);
}

/* --- files of others, and of a start with more workers --- */

bool arena_file_left(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct trailer t;
	bool left;

	if (fd < 0)
		return false;
	left = lock_to_look(fd) && content_of(fd, &t) != CONTENT_EMPTY;
	close(fd);
	return left;
}

static bool may_owe(enum content content, const struct trailer *t)
{
	return content == CONTENT_UNKNOWN || content == CONTENT_PARTIAL ||
	       (content == CONTENT_IN_USE && !owes_nothing(t));
}

static int check_other(const char *path, bool *untold, char *err, size_t errlen)
{
	struct trailer t = {0};
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool owes;

	if (fd < 0)
		return 0;
	owes = !lock_fd(fd) || may_owe(content_of(fd, &t), &t);
	close(fd);
	if (owes) {
		snprintf(err, errlen,
		         "%s: holds packets of a start with more Workers=: set the former Workers= until the buffer "
		         "has drained, or remove the file and lose the packets",
		         path);
		return -EBUSY;
	}
	*untold |= t.magic == TRAILER_MAGIC && t.loss == LOSS_UNTOLD;
	unlink(path);
	return 0;
}

int arena_file_check_others(const char *dir, const char *link, uint32_t nshards, bool *untold, char *err, size_t errlen)
{
	char path[320];

	*untold = false;
	for (uint32_t shard = nshards; shard < SHARDS_MAX; shard++) {
		int r;

		arena_file_name(path, sizeof(path), dir, link, shard);
		r = check_other(path, untold, err, errlen);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A file with that trailer and without an arena. False: there is a file already, or no room. */
static bool leave_trailer(struct arena_file *f, const struct trailer *t)
{
	char unfinished[sizeof(f->path) + 8], err[8];
	bool left;

	snprintf(unfinished, sizeof(unfinished), "%s.new", f->path);
	f->fd = open(unfinished, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return false;
	f->map_len = file_len(MAP_ALIGN, map_unit(f->fd));
	left = ftruncate(f->fd, 0) == 0 && ftruncate(f->fd, (off_t)f->map_len) == 0 && take_trailer_room(f) &&
	       write_trailer(f, t, err, sizeof(err)) == 0 &&
	       renameat2(AT_FDCWD, unfinished, AT_FDCWD, f->path, RENAME_NOREPLACE) == 0;
	if (!left)
		unlink(unfinished);
	close_fd(f);
	return left;
}

static void move_one(const char *from, const char *to)
{
	int fd = open(from, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct arena_file f = {.fd = -1};
	struct trailer t = {0};

	if (fd < 0)
		return;
	snprintf(f.path, sizeof(f.path), "%s", to);
	if (lock_fd(fd) && !may_owe(content_of(fd, &t), &t) && t.magic == TRAILER_MAGIC) {
		t.state = TRAILER_EMPTY;
		if (leave_trailer(&f, &t))
			unlink(from);
	}
	close(fd);
}

/* The file's boot is this one, so the kernel has all of it: then the disk has, too. */
static void settle_one(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct trailer t, *in_file = NULL;

	if (fd < 0)
		return;
	if (lock_fd(fd) && content_of(fd, &t) == CONTENT_IN_USE) {
		if (fsync(fd) == 0)
			in_file = map_trailer(fd);
		if (in_file == NULL)
			log_warn("%s: cannot write the buffer to the disk: %s", path, strerror(errno));
	}
	if (in_file != NULL) {
		memset(in_file->boot, 0, sizeof(in_file->boot));
		unmap_trailer(fd, in_file);
		fsync(fd);
	}
	close(fd);
}

void arena_file_settle(const char *dir, const char *link)
{
	char path[320];

	for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
		arena_file_name(path, sizeof(path), dir, link, shard);
		settle_one(path);
	}
}

void arena_file_move(const char *from_dir, const char *to_dir, const char *link)
{
	char from[320], to[320];

	mkdir(to_dir, 0700); /* the start says what is wrong with it */
	for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
		arena_file_name(from, sizeof(from), from_dir, link, shard);
		arena_file_name(to, sizeof(to), to_dir, link, shard);
		move_one(from, to);
	}
}

/* Takes no lock: the fields that are read do not change while a file has its name. */
static enum content content_at(const char *path, struct trailer *t)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	enum content content;

	memset(t, 0, sizeof(*t));
	if (fd < 0)
		return CONTENT_EMPTY;
	content = content_of(fd, t);
	close(fd);
	return content;
}

uint32_t arena_file_former(const char *dir, const char *link)
{
	char path[320];
	struct trailer t;

	arena_file_name(path, sizeof(path), dir, link, 0);
	return content_at(path, &t) != CONTENT_UNKNOWN && t.nshards > 0 ? t.nshards : SHARDS_MAX;
}

bool arena_file_spread(const char *dir, const char *link, struct arena_spread *s)
{
	bool found = false;
	char path[320];
	struct trailer t;

	for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
		arena_file_name(path, sizeof(path), dir, link, shard);
		if (content_at(path, &t) != CONTENT_IN_USE || (found && owes_nothing(&t)))
			continue;
		found = true;
		*s = (struct arena_spread){.nshards = t.nshards, .lanes = t.lanes};
		if (!owes_nothing(&t))
			break;
	}
	return found;
}

enum arena_debt arena_file_debt_of(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	enum arena_debt debt = ARENA_CLEAR;
	enum content content;
	struct trailer t;

	if (fd < 0)
		return errno == ENOENT ? ARENA_CLEAR : ARENA_OWES;
	if (!lock_to_look(fd)) {
		close(fd);
		return ARENA_LOCKED;
	}
	content = content_of(fd, &t);
	if (may_owe(content, &t))
		debt = ARENA_OWES;
	close(fd);
	return debt;
}

enum arena_debt arena_file_debt(const char *dir, const char *link)
{
	enum arena_debt most = ARENA_CLEAR;
	char path[320];

	for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
		enum arena_debt debt;

		arena_file_name(path, sizeof(path), dir, link, shard);
		debt = arena_file_debt_of(path);
		if (debt > most)
			most = debt;
	}
	return most;
}

/* Takes no lock: the process that holds it has written the trailer before its packets were acknowledged early. */
static bool owes_early(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	enum content content;
	struct trailer t;
	bool owes;

	if (fd < 0)
		return false;
	content = content_of(fd, &t);
	owes = (content == CONTENT_PARTIAL || (content == CONTENT_IN_USE && !owes_nothing(&t))) && t.acks != ACKS_LATE;
	close(fd);
	return owes;
}

bool arena_file_owes_early(const char *dir, const char *link)
{
	char path[320];

	for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
		arena_file_name(path, sizeof(path), dir, link, shard);
		if (owes_early(path))
			return true;
	}
	return false;
}
