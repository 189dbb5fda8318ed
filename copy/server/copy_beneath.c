/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_PATH, AT_EMPTY_PATH */
#include "copy_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <xxhash.h>

#define RESOLVE_BASE (RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
#define RESOLVE_PATH (RESOLVE_BASE | RESOLVE_NO_SYMLINKS)

static int open_beneath(int dir, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC), .resolve = resolve};
	long fd;

	do
		fd = syscall(SYS_openat2, dir, *path ? path : ".", &how, sizeof(how));
	while (fd < 0 && (errno == EAGAIN || errno == EINTR)); /* EAGAIN: somebody renamed a directory meanwhile */
	return fd < 0 ? -errno : (int)fd;
}

/* Modes of directories that are made. */
struct made {
	mode_t above, last; /* those above the last one; 0: none are made */
};

/* Opens the directory; makes missing directories of its path. */
static int open_making(int dir, const char *path, struct made mode, uint64_t resolve)
{
	char part[COPY_PATH_MAX + 1];
	const char *slash = path;
	int fd = open_beneath(dir, path, O_PATH | O_DIRECTORY, resolve);

	if (fd != -ENOENT || !mode.last)
		return fd;
	do {
		int above;

		slash = strchrnul(slash, '/');
		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = '\0';
		above = open_beneath(dir, part, O_PATH | O_DIRECTORY, resolve);
		if (above == -ENOENT) {
			char *last = strrchr(part, '/');
			int r;

			if (last)
				*last = '\0';
			above = open_beneath(dir, last ? part : "", O_PATH | O_DIRECTORY, resolve);
			if (above < 0)
				return above;
			r = mkdirat(above, last ? last + 1 : part, *slash ? mode.above : mode.last);
			r = r < 0 && errno != EEXIST ? -errno : 0;
			close(above);
			if (r < 0)
				return r;
		} else if (above < 0) {
			return above;
		} else {
			close(above);
		}
	} while (*slash++);
	return open_beneath(dir, path, O_PATH | O_DIRECTORY, resolve);
}

int beneath_open_base(int root, const char *path, mode_t mode)
{
	return open_making(root, path, (struct made){mode ? 0755 : 0, mode}, RESOLVE_BASE);
}

void beneath_init(struct beneath *b, int base)
{
	*b = (struct beneath){.base = base, .last = -1};
}

void beneath_forget(struct beneath *b)
{
	if (b->last >= 0)
		close(b->last);
	b->last = -1;
}

void beneath_close(struct beneath *b)
{
	beneath_forget(b);
	close(b->base);
}

int beneath_place(struct beneath *b, struct copy_bytes path, bool make, struct place *p)
{
	const uint8_t *slash = memrchr(path.p, '/', path.len);
	size_t above = slash ? (size_t)(slash - path.p) : 0, from = slash ? above + 1 : 0;

	if (path.len == 0 || path.len - from > COPY_NAME_MAX)
		return -EINVAL;
	memcpy(p->name, path.p + from, path.len - from);
	p->name[path.len - from] = '\0';
	if (above == 0) {
		p->fd = b->base;
		return 0;
	}
	if (b->last < 0 || strlen(b->last_path) != above || memcmp(b->last_path, path.p, above) != 0) {
		beneath_forget(b);
		memcpy(b->last_path, path.p, above);
		b->last_path[above] = '\0';
		/* as beneath_make_dir() makes them: their own modes come last */
		b->last = open_making(b->base, b->last_path, make ? (struct made){0700, 0700} : (struct made){0},
		                      RESOLVE_PATH);
		if (b->last < 0) {
			int r = b->last;

			b->last = -1;
			return r;
		}
	}
	p->fd = b->last;
	return 0;
}

int beneath_open_dir(struct beneath *b, struct copy_bytes path)
{
	char text[COPY_PATH_MAX + 1];

	memcpy(text, path.p ? path.p : (const uint8_t *)"", path.len);
	text[path.len] = '\0';
	return open_beneath(b->base, text, O_RDONLY | O_DIRECTORY, RESOLVE_PATH);
}

void beneath_temporary(const char *name, const char *kind, char temporary[TEMPORARY_MAX])
{
	snprintf(temporary, TEMPORARY_MAX, TEMPORARY_PREFIX "%s.%016llx", kind,
	         (unsigned long long)XXH3_64bits(name, strlen(name)));
}

int beneath_rename(const struct place *p, const char *temporary)
{
	struct stat st;

	if (renameat(p->fd, temporary, p->fd, p->name) == 0)
		return 0;
	if (errno != EISDIR && errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	if (fstatat(p->fd, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
	    unlinkat(p->fd, p->name, AT_REMOVEDIR) < 0 || renameat(p->fd, temporary, p->fd, p->name) < 0)
		return -errno;
	return 0;
}

uint8_t beneath_kind(mode_t mode)
{
	return S_ISREG(mode)   ? COPY_REGULAR
	       : S_ISDIR(mode) ? COPY_DIRECTORY
	       : S_ISLNK(mode) ? COPY_SYMLINK
	                       : COPY_OTHER;
}

/* --- metadata --- */

static int set_xattrs(int fd, struct copy_bytes list)
{
	struct copy_in in = {list.p, list.len};
	char name[COPY_NAME_MAX + 1];
	struct copy_bytes value;

	while (copy_xattr_next(&in, name, &value)) {
		if (strncmp(name, "user.", 5) != 0)
			continue; /* xattrs of other kinds grant rights, or belong to this machine */
		if (fsetxattr(fd, name, value.p, value.len, 0) < 0 && errno != ENOTSUP && errno != EPERM)
			return -errno;
	}
	return 0;
}

int beneath_set_meta(int fd, const struct copy_meta *m)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = m->mtime_s, .tv_nsec = (long)m->mtime_ns}};
	bool owner = geteuid() == 0 && fchown(fd, m->uid, m->gid) == 0;
	/* setuid and setgid are not copied without the owner */
	mode_t mode = m->mode & (owner ? 07777u : 01777u);
	int r = set_xattrs(fd, m->xattrs);

	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0 && futimens(fd, times) < 0)
		r = -errno;
	return r;
}

int beneath_set_meta_at(const struct place *p, const struct copy_meta *m)
{
	int fd = openat(p->fd, p->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = beneath_set_meta(fd, m);
	close(fd);
	return r;
}

/* --- entries --- */

static bool same_target(const struct place *p, const struct copy_entry *e)
{
	char target[COPY_PATH_MAX + 1];
	ssize_t n = readlinkat(p->fd, p->name, target, sizeof(target));

	return n >= 0 && (size_t)n == e->target.len && memcmp(target, e->target.p, e->target.len) == 0;
}

static bool same_meta(const struct stat *st, const struct copy_meta *m)
{
	bool owner = geteuid() != 0 || (st->st_uid == m->uid && st->st_gid == m->gid);
	mode_t compared = geteuid() == 0 ? 07777 : 01777;

	return owner && (st->st_mode & compared) == (m->mode & compared);
}

int beneath_check(const struct place *p, const struct copy_entry *e, uint8_t *state)
{
	struct stat st;
	bool same;

	*state = COPY_ABSENT;
	if (fstatat(p->fd, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	same = beneath_kind(st.st_mode) == e->kind;
	if (same && e->kind == COPY_REGULAR)
		same = (uint64_t)st.st_size == e->size && st.st_mtim.tv_sec == e->meta.mtime_s &&
		       (uint32_t)st.st_mtim.tv_nsec == e->meta.mtime_ns;
	if (same && e->kind == COPY_SYMLINK)
		same = same_target(p, e);
	*state = !same                                                  ? COPY_DIFFERENT
	         : e->kind != COPY_SYMLINK && !same_meta(&st, &e->meta) ? COPY_META_DIFFERS
	                                                                : COPY_DONE;
	return 0;
}

int beneath_make_usable(int fd)
{
	char self[32];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 0700) == 0700)
		return 0;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd); /* fchmod(2) takes no descriptor of O_PATH */
	return chmod(self, (st.st_mode & 07777u) | 0700u) < 0 ? -errno : 0;
}

/* A directory that may not be read cannot be opened but with O_PATH. */
static int make_usable_at(const struct place *p)
{
	int fd = openat(p->fd, p->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = beneath_make_usable(fd);
	close(fd);
	return r;
}

int beneath_make_dir(const struct place *p)
{
	struct stat st;
	int r;

	if (mkdirat(p->fd, p->name, 0700) == 0)
		return 0;
	r = -errno;
	if (r != -EEXIST || fstatat(p->fd, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return r;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(p->fd, p->name, 0) < 0 || mkdirat(p->fd, p->name, 0700) < 0 ? -errno : 0;
	return (st.st_mode & 0700) == 0700 ? 0 : make_usable_at(p); /* its own mode comes last */
}

static int write_all(int fd, struct copy_bytes data)
{
	while (data.len > 0) {
		ssize_t n = write(fd, data.p, data.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data.p += n;
		data.len -= (size_t)n;
	}
	return 0;
}

static int create(const struct place *p, const char *temporary)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, fd = openat(p->fd, temporary, flags, 0600);

	if (fd < 0 && errno == EEXIST && unlinkat(p->fd, temporary, 0) == 0)
		fd = openat(p->fd, temporary, flags, 0600);
	return fd < 0 ? -errno : fd;
}

int beneath_write_file(const struct place *p, const struct copy_entry *e)
{
	char temporary[TEMPORARY_MAX];
	int fd, r;

	beneath_temporary(p->name, "new", temporary);
	fd = create(p, temporary);
	if (fd < 0)
		return fd;
	r = write_all(fd, e->data);
	if (r == 0)
		r = beneath_set_meta(fd, &e->meta);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0)
		r = beneath_rename(p, temporary);
	if (r < 0)
		unlinkat(p->fd, temporary, 0);
	return r;
}

int beneath_make_symlink(const struct place *p, const struct copy_entry *e)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
	                            {.tv_sec = e->meta.mtime_s, .tv_nsec = (long)e->meta.mtime_ns}};
	char temporary[TEMPORARY_MAX], target[COPY_PATH_MAX + 1];
	int r;

	memcpy(target, e->target.p, e->target.len);
	target[e->target.len] = '\0';
	beneath_temporary(p->name, "new", temporary);
	if (symlinkat(target, p->fd, temporary) < 0 &&
	    (errno != EEXIST || unlinkat(p->fd, temporary, 0) < 0 || symlinkat(target, p->fd, temporary) < 0))
		return -errno;
	if (geteuid() == 0 && fchownat(p->fd, temporary, e->meta.uid, e->meta.gid, AT_SYMLINK_NOFOLLOW) < 0)
		errno = 0; /* as with files: what cannot be kept is not */
	utimensat(p->fd, temporary, times, AT_SYMLINK_NOFOLLOW);
	r = beneath_rename(p, temporary);
	if (r < 0)
		unlinkat(p->fd, temporary, 0);
	return r;
}

int beneath_make_link(const struct place *from, const struct place *p)
{
	char temporary[TEMPORARY_MAX];
	struct stat a, b;
	int r;

	if (fstatat(from->fd, from->name, &a, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (fstatat(p->fd, p->name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return 0;
	beneath_temporary(p->name, "new", temporary);
	if (linkat(from->fd, from->name, p->fd, temporary, 0) < 0 &&
	    (errno != EEXIST || unlinkat(p->fd, temporary, 0) < 0 ||
	     linkat(from->fd, from->name, p->fd, temporary, 0) < 0))
		return -errno;
	r = beneath_rename(p, temporary);
	if (r < 0)
		unlinkat(p->fd, temporary, 0);
	return r;
}

int beneath_remove(const struct place *p)
{
	struct stat st;

	if (fstatat(p->fd, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (unlinkat(p->fd, p->name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	return 0;
}
