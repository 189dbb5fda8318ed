/* SPDX-License-Identifier: Apache-2.0 */
/* still_fuse.h - a mount with one file, whose server can be told to stand still: what is asked of the file then waits in the
 * kernel, as with NFS whose server is away. The kernel's own FUSE, in a namespace of the test's. The server is a process of its
 * own, which ends with the test: a thread of one that waits for itself could not even be killed. */
#ifndef TESTS_STILL_FUSE_H
#define TESTS_STILL_FUSE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STILL_BYTES 65536 /* of the file */

/* Shared with the server. */
struct still_fuse {
	_Atomic bool still;
	_Atomic unsigned writes; /* that came through */
	char dir[96];
	uint8_t bytes[STILL_BYTES];
	uint8_t in[STILL_BYTES + 8192], out[STILL_BYTES + 8192];
};

static struct still_fuse *fuse;
static pid_t still_server;

static struct fuse_attr still_attr(uint64_t node)
{
	return node == FUSE_ROOT_ID ? (struct fuse_attr){.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2}
	                            : (struct fuse_attr){.ino = 2, .mode = S_IFREG | 0666, .nlink = 1, .size = STILL_BYTES};
}

/* Returns the answer's length behind its header; negative errno; 1 << 30: there is none. */
static int still_serve(const struct fuse_in_header *h, const void *arg, void *out)
{
	switch (h->opcode) {
	case FUSE_INIT:
		*(struct fuse_init_out *)out = (struct fuse_init_out){
		    .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = STILL_BYTES, .max_background = 16};
		return sizeof(struct fuse_init_out);
	case FUSE_LOOKUP:
		*(struct fuse_entry_out *)out = (struct fuse_entry_out){.nodeid = 2, .attr_valid = 1, .attr = still_attr(2)};
		return sizeof(struct fuse_entry_out);
	case FUSE_GETATTR:
		*(struct fuse_attr_out *)out = (struct fuse_attr_out){.attr = still_attr(h->nodeid)};
		return sizeof(struct fuse_attr_out);
	case FUSE_OPEN:
		*(struct fuse_open_out *)out = (struct fuse_open_out){.open_flags = FOPEN_DIRECT_IO};
		return sizeof(struct fuse_open_out);
	case FUSE_READ: {
		const struct fuse_read_in *r = arg;

		memcpy(out, fuse->bytes + r->offset, r->size);
		return (int)r->size;
	}
	case FUSE_WRITE: {
		const struct fuse_write_in *w = arg;

		memcpy(fuse->bytes + w->offset, w + 1, w->size);
		*(struct fuse_write_out *)out = (struct fuse_write_out){.size = w->size};
		fuse->writes++;
		return sizeof(struct fuse_write_out);
	}
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		return 0;
	case FUSE_FORGET:
	case FUSE_INTERRUPT:
		return 1 << 30;
	default:
		return -ENOSYS;
	}
}

static void still_main(int fd)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		struct fuse_in_header h;
		struct fuse_out_header o = {0};
		int n;

		if (fuse->still) {
			usleep(1000);
			continue;
		}
		if (poll(&p, 1, 10) <= 0 || read(fd, fuse->in, sizeof(fuse->in)) < (ssize_t)sizeof(h))
			continue;
		memcpy(&h, fuse->in, sizeof(h));
		n = still_serve(&h, fuse->in + sizeof(h), fuse->out + sizeof(o));
		if (n == 1 << 30)
			continue;
		o = (struct fuse_out_header){.unique = h.unique, .error = n < 0 ? n : 0, .len = (uint32_t)(sizeof(o) + (size_t)(n < 0 ? 0 : n))};
		memcpy(fuse->out, &o, sizeof(o));
		if (write(fd, fuse->out, o.len) < 0)
			continue; /* who asked has gone */
	}
}

static void still_map(const char *path, unsigned id)
{
	char text[32];
	int fd = open(path, O_WRONLY | O_CLOEXEC), n = snprintf(text, sizeof(text), "0 %u 1", id);

	if (fd >= 0) {
		(void)!write(fd, text, (size_t)n);
		close(fd);
	}
}

/* A mount namespace, and a user namespace for who is not root. Before the process has threads. */
static bool still_namespace(void)
{
	unsigned uid = geteuid(), gid = getegid();

	if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return false;
	if (uid != 0) {
		int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);

		if (fd >= 0) {
			(void)!write(fd, "deny", 4);
			close(fd);
		}
		still_map("/proc/self/uid_map", uid);
		still_map("/proc/self/gid_map", gid);
	}
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* False: this machine has no FUSE. */
static bool still_open(const char *dir)
{
	char options[96];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || mkdir(dir, 0700) < 0 || mount("still", dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		close(fd);
		return false;
	}
	fuse = mmap(NULL, sizeof(*fuse), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(fuse->dir, sizeof(fuse->dir), "%s", dir);
	still_server = fork();
	if (still_server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		still_main(fd);
	}
	close(fd);
	return still_server > 0;
}

/* Also where a test has failed: a process that waits for the file cannot end. */
static void still_close(void)
{
	if (!fuse)
		return;
	fuse->still = false;
	umount2(fuse->dir, MNT_DETACH);
	kill(still_server, SIGKILL);
	waitpid(still_server, NULL, 0);
	munmap(fuse, sizeof(*fuse));
	fuse = NULL;
}

#endif
