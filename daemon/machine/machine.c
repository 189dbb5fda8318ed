/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/util/addr.h"

bool machine_port_read(const char *ifname, struct machine_port *p)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};

	*p = (struct machine_port){.index = if_nametoindex(ifname)};
	if (fd < 0 || p->index == 0) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr) == 0) {
		p->up = (ifr.ifr_flags & IFF_UP) != 0;
		p->carrier = (ifr.ifr_flags & IFF_RUNNING) != 0;
	}
	if (ioctl(fd, SIOCGIFMTU, &ifr) == 0)
		p->mtu = (uint32_t)ifr.ifr_mtu;
	if (ioctl(fd, SIOCGIFHWADDR, &ifr) == 0)
		p->ethernet = ifr.ifr_hwaddr.sa_family == ARPHRD_ETHER;
	close(fd);
	return true;
}

/* Calls fn for each address of each interface until it says true. */
static bool each_address(bool (*fn)(void *arg, const char *ifname, const struct ip_addr *a), void *arg)
{
	struct ifaddrs *all, *i;
	struct ip_addr a;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (i = all; i != NULL && !found; i = i->ifa_next)
		if (i->ifa_addr != NULL && addr_from_sockaddr(i->ifa_addr, &a))
			found = fn(arg, i->ifa_name, &a);
	freeifaddrs(all);
	return found;
}

struct search {
	const struct ip_addr *a;
	char *ifname;
};

static bool is_the_one(void *arg, const char *ifname, const struct ip_addr *a)
{
	struct search *s = arg;

	if (!ip_addr_eq(a, s->a))
		return false;
	snprintf(s->ifname, IF_NAMESIZE, "%.*s", IF_NAMESIZE - 1, ifname);
	return true;
}

bool machine_port_of(const struct ip_addr *a, char ifname[IF_NAMESIZE])
{
	struct search s = {.a = a, .ifname = ifname};

	return each_address(is_the_one, &s);
}

struct list {
	char *text;
	size_t len, cap;
	bool ip4;
};

static void list_add(struct list *l, const char *word, const char *more)
{
	if (l->len < l->cap)
		l->len += (size_t)snprintf(l->text + l->len, l->cap - l->len, "%s%s%s", l->len > 0 ? ", " : "", word,
		                           more);
}

const char *machine_port_list(char *text, size_t cap)
{
	struct if_nameindex *all = if_nameindex();
	struct list l = {.text = text, .cap = cap};

	for (unsigned i = 0; all != NULL && all[i].if_index != 0; i++)
		if (strcmp(all[i].if_name, "lo") != 0)
			list_add(&l, all[i].if_name, "");
	if (all != NULL)
		if_freenameindex(all);
	return l.len > 0 ? text : "none";
}

static bool list_address(void *arg, const char *ifname, const struct ip_addr *a)
{
	char t[ADDR_TEXT_MAX], more[IF_NAMESIZE + 4];
	struct list *l = arg;

	if (ip_addr_is4(a) != l->ip4 || addr_is_link_local(a) || strcmp(ifname, "lo") == 0)
		return false;
	snprintf(more, sizeof(more), " (%.*s)", IF_NAMESIZE - 1, ifname);
	list_add(l, addr_write(a, t, sizeof(t)), more);
	return false;
}

const char *machine_address_list(bool ip4, char *text, size_t cap)
{
	struct list l = {.text = text, .cap = cap, .ip4 = ip4};

	each_address(list_address, &l);
	return l.len > 0 ? text : "none";
}

bool machine_has_address(const struct ip_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(a, 0, &ss);
	int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ours = fd >= 0 && bind(fd, (struct sockaddr *)&ss, len) == 0;

	if (fd >= 0)
		close(fd);
	return ours;
}

/* --- file systems and memory --- */

/* A figure of the huge page pool, which limits a hugetlbfs mount without a size. */
static int64_t huge_pages(uint64_t page_bytes, const char *what)
{
	char path[128];
	int64_t n;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/%s", page_bytes >> 10, what);
	return machine_number(path, &n) && n >= 0 ? n : 0;
}

static void limit_by_pool(struct machine_fs *fs)
{
	uint64_t all = (uint64_t)huge_pages(fs->page_bytes, "nr_hugepages") +
	               (uint64_t)huge_pages(fs->page_bytes, "nr_overcommit_hugepages");
	uint64_t left = (uint64_t)huge_pages(fs->page_bytes, "free_hugepages") +
	                (uint64_t)huge_pages(fs->page_bytes, "nr_overcommit_hugepages");

	if (fs->total_bytes == 0 || all * fs->page_bytes < fs->total_bytes)
		fs->total_bytes = all * fs->page_bytes;
	if (left * fs->page_bytes < fs->free_bytes)
		fs->free_bytes = left * fs->page_bytes;
}

/* Finds an existing directory: dir, or its parent, in which the daemon makes dir. */
static int find_dir(const char *dir, char path[512], bool *made)
{
	struct stat st;
	char *slash;

	snprintf(path, 512, "%s", dir);
	*made = stat(path, &st) == 0;
	if (*made)
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	slash = strrchr(path, '/');
	if (slash == NULL)
		return -ENOENT;
	slash[slash == path] = '\0';
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int machine_fs_read(const char *dir, struct machine_fs *fs)
{
	struct statfs s;
	char path[512];
	int r;

	memset(fs, 0, sizeof(*fs));
	r = find_dir(dir, path, &fs->made);
	if (r < 0)
		return r;
	if (statfs(path, &s) < 0)
		return -errno;
	fs->page_bytes = (uint64_t)s.f_bsize;
	fs->total_bytes = (uint64_t)s.f_blocks * fs->page_bytes;
	fs->free_bytes = s.f_blocks != 0 ? (uint64_t)s.f_bavail * fs->page_bytes : UINT64_MAX;
	fs->kind = s.f_type == HUGETLBFS_MAGIC                          ? MACHINE_FS_HUGE
	           : s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC ? MACHINE_FS_MEMORY
	                                                                : MACHINE_FS_DISK;
	if (fs->kind == MACHINE_FS_HUGE)
		limit_by_pool(fs);
	return 0;
}

uint64_t machine_memory_bytes(void)
{
	struct sysinfo s;

	return sysinfo(&s) == 0 ? (uint64_t)s.totalram * s.mem_unit : 0;
}

bool machine_number(const char *path, int64_t *value)
{
	FILE *f = fopen(path, "re");
	bool ok = f != NULL && fscanf(f, "%" SCNd64, value) == 1;

	if (f != NULL)
		fclose(f);
	return ok;
}
