/* SPDX-License-Identifier: Apache-2.0 */
/* start_watch.c - notices that the cause which kept a link from starting has changed.
 *
 * It polls because the kernel notifies neither freed room, nor an enlarged mount, nor huge pages, nor a port that was
 * closed; and inotify loses a file that an editor replaces, and a directory that is mounted over. statfs(2), stat(2)
 * and bind(2) cost some microseconds, and only a link that does not run needs them. */
#include "start_watch.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/util/tcp_socket.h"

/* A wall clock that differs by this much was set: slewing takes a quarter of an hour for it. */
#define CLOCK_SET_NS ((int64_t)NS_PER_S / 2)

static void read_memory(struct start_view *v, const char *dir)
{
	struct statfs fs;
	struct stat st;

	if (dir[0] == '\0' || statfs(dir, &fs) < 0 || stat(dir, &st) < 0)
		return;
	v->memory.there = true;
	v->memory.device = (uint64_t)st.st_dev;
	v->memory.type = (uint64_t)fs.f_type;
	v->memory.blocks = (uint64_t)fs.f_blocks;
	v->memory.free = (uint64_t)fs.f_bavail;
}

/* Reads the time at which the file's inode changed: it covers contents, owner and mode, all of which a start checks. */
static void read_file(struct start_view *v, unsigned i, const char *path)
{
	struct stat st;

	if (path[0] == '\0' || stat(path, &st) < 0)
		return;
	v->files[i].device = (uint64_t)st.st_dev;
	v->files[i].inode = (uint64_t)st.st_ino;
	v->files[i].changed_s = (int64_t)st.st_ctim.tv_sec;
	v->files[i].changed_ns = (int64_t)st.st_ctim.tv_nsec;
}

_Static_assert(2 * PATHS_MAX <= 32, "ports_free has a bit for each");

static bool can_bind(const struct ip_addr *addr, uint16_t port, int type)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(addr, port, &ss);
	int fd = type == SOCK_STREAM ? tcp_socket_bound(addr, port)
	                             : socket(ss.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool can = fd >= 0 && (type == SOCK_STREAM || bind(fd, (struct sockaddr *)&ss, len) == 0);

	if (fd >= 0)
		close(fd);
	return can;
}

static void read_ports(struct start_view *v, const struct link_config *c)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		const struct path_config *p = &c->paths[i];

		v->ports_free |= (uint32_t)can_bind(&p->local, p->port, SOCK_DGRAM) << 2 * i;
		v->ports_free |= (uint32_t)can_bind(&p->local, p->port, SOCK_STREAM) << (2 * i + 1);
	}
}

static int64_t clock_ahead_ns(void)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	return (int64_t)wall.tv_sec * (int64_t)NS_PER_S + (int64_t)wall.tv_nsec - (int64_t)clock_now_ns();
}

void start_watch_take(struct start_view *v, const struct link_config *c)
{
	memset(v, 0, sizeof(*v));
	read_memory(v, c->arena_dir);
	read_file(v, 0, c->certificate_file);
	read_file(v, 1, c->key_file);
	read_file(v, 2, c->ca_file);
	read_file(v, 3, c->psk_file);
	read_ports(v, c);
	v->clock_ahead_ns = clock_ahead_ns();
}

/* True if there is another file system, or more room; with less room a start fails as before. */
static bool memory_differs(const struct start_view *before, const struct start_view *now)
{
	return now->memory.there != before->memory.there || now->memory.device != before->memory.device ||
	       now->memory.type != before->memory.type || now->memory.blocks != before->memory.blocks ||
	       now->memory.free > before->memory.free;
}

bool start_watch_differs(const struct start_view *before, const struct start_view *now)
{
	int64_t moved_ns = now->clock_ahead_ns - before->clock_ahead_ns;

	return memory_differs(before, now) || (now->ports_free & ~before->ports_free) != 0 || memcmp(before->files, now->files, sizeof(now->files)) != 0 ||
	       moved_ns > CLOCK_SET_NS || moved_ns < -CLOCK_SET_NS;
}

bool start_watch_changed(const struct start_view *before, const struct link_config *c)
{
	struct start_view now;

	start_watch_take(&now, c);
	return start_watch_differs(before, &now);
}
