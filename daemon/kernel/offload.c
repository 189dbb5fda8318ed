/* SPDX-License-Identifier: Apache-2.0 */
#include "offload.h"

#include <dirent.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/util/log.h"

#define PORTS_MAX    64
#define LOWERS_MAX   16
#define DEPTH_MAX    4 /* a VLAN on a bond on ports, and one to spare */
#define FEATURES_MAX 256
#define BLOCKS_MAX   (FEATURES_MAX / 32)

/* The kernel's names (net/ethtool/common.c), without regard to whether this kernel or driver has them. */
static const char *const unwanted[] = {
    "rx-gro", "rx-lro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding",
};

#define NUNWANTED (sizeof(unwanted) / sizeof(unwanted[0]))

struct port {
	char ifname[IF_NAMESIZE];
	char lower[LOWERS_MAX][IF_NAMESIZE]; /* interfaces below the port: packets are joined there, too */
	unsigned nlowers;
	unsigned ifindex;      /* index at the last look at its offloads */
	unsigned users;        /* 0: free entry */
	uint32_t switched_off; /* bit per unwanted[]: features that were on, and will be restored */
	uint32_t stays_on;     /* bit per unwanted[]: features that cannot be switched off; the log said so */
	int bit[NUNWANTED];    /* feature number, -1: the kernel has no such feature */
};

static struct port ports[PORTS_MAX];

static int ethtool(int fd, const char *ifname, void *data)
{
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	ifr.ifr_data = data;
	return ioctl(fd, SIOCETHTOOL, &ifr);
}

/* The kernel's requests end in arrays: unions give them room. */
union sset_request {
	struct ethtool_sset_info info;
	uint8_t room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
};

union feature_state {
	struct ethtool_gfeatures get;
	uint8_t room[sizeof(struct ethtool_gfeatures) + BLOCKS_MAX * sizeof(struct ethtool_get_features_block)];
};

union feature_change {
	struct ethtool_sfeatures set;
	uint8_t room[sizeof(struct ethtool_sfeatures) + BLOCKS_MAX * sizeof(struct ethtool_set_features_block)];
};

static uint32_t count_features(int fd, const char *ifname)
{
	union sset_request q = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
	uint32_t n;

	if (ethtool(fd, ifname, &q) < 0 || !(q.info.sset_mask & (1ull << ETH_SS_FEATURES)))
		return 0;
	n = q.info.data[0];
	return n < FEATURES_MAX ? n : FEATURES_MAX;
}

/* Fills in p->bit from the kernel's list of names. Returns how many features there are. */
static uint32_t find_features(int fd, struct port *p)
{
	uint32_t n = count_features(fd, p->ifname);
	struct ethtool_gstrings *s = calloc(1, sizeof(*s) + (size_t)FEATURES_MAX * ETH_GSTRING_LEN);

	for (unsigned u = 0; u < NUNWANTED; u++)
		p->bit[u] = -1;
	if (!s)
		return 0;
	s->cmd = ETHTOOL_GSTRINGS;
	s->string_set = ETH_SS_FEATURES;
	s->len = n;
	if (n == 0 || ethtool(fd, p->ifname, s) < 0)
		n = 0;
	for (uint32_t i = 0; i < n; i++)
		for (unsigned u = 0; u < NUNWANTED; u++)
			if (strncmp((char *)s->data + (size_t)i * ETH_GSTRING_LEN, unwanted[u], ETH_GSTRING_LEN) == 0)
				p->bit[u] = (int)i;
	free(s);
	return n;
}

static bool read_features(int fd, const char *ifname, union feature_state *f)
{
	memset(f, 0, sizeof(*f));
	f->get.cmd = ETHTOOL_GFEATURES;
	f->get.size = BLOCKS_MAX;
	return ethtool(fd, ifname, f) == 0;
}

static bool is_on(const union feature_state *f, int bit)
{
	return bit >= 0 && (f->get.features[bit / 32].active >> (bit % 32) & 1);
}

/* Switches the features of `mask` (bits of unwanted[]). 0 or negative errno. */
static int write_features(int fd, const struct port *p, uint32_t nfeatures, uint32_t mask, bool on)
{
	union feature_change f = {.set = {.cmd = ETHTOOL_SFEATURES, .size = (nfeatures + 31) / 32}};

	for (unsigned u = 0; u < NUNWANTED; u++) {
		struct ethtool_set_features_block *block;

		if (!(mask >> u & 1) || p->bit[u] < 0)
			continue;
		block = &f.set.features[p->bit[u] / 32];
		block->valid |= 1u << (p->bit[u] % 32);
		if (on)
			block->requested |= 1u << (p->bit[u] % 32);
	}
	return ethtool(fd, p->ifname, &f) < 0 ? -errno : 0;
}

static uint32_t unwanted_on(const struct port *p, const union feature_state *f)
{
	uint32_t on = 0;

	for (unsigned u = 0; u < NUNWANTED; u++)
		if (is_on(f, p->bit[u]))
			on |= 1u << u;
	return on;
}

static void say_each(const struct port *p, uint32_t which, const char *what)
{
	for (unsigned u = 0; u < NUNWANTED; u++)
		if (which >> u & 1)
			log_warn("LAN port %s: %s %s", p->ifname, unwanted[u], what);
}

/* Switches off unwanted features. known: the interface is the same as before, so a feature that is on was switched on
 * by somebody else. */
static void switch_off(int fd, struct port *p, bool known)
{
	uint32_t n = find_features(fd, p), on, stays_on;
	union feature_state f;
	int r;

	if (n == 0 || !read_features(fd, p->ifname, &f)) {
		log_warn("LAN port %s: cannot read its offloads: make sure that GRO and LRO are off", p->ifname);
		return;
	}
	on = unwanted_on(p, &f);
	if (known)
		say_each(p, on & ~p->stays_on,
		         "was switched on by another program: longreachd has switched it off again");
	p->switched_off |= on;
	r = on ? write_features(fd, p, n, on, false) : 0;
	if (r < 0)
		log_warn("LAN port %s: cannot switch off its receive offloads: %s", p->ifname, strerror(-r));
	if (!read_features(fd, p->ifname, &f))
		return;
	stays_on = unwanted_on(p, &f);
	say_each(p, stays_on & ~p->stays_on, "stays on: the edge will drop joined packets");
	p->stays_on = stays_on;
}

static struct port *find(const char *ifname, bool create)
{
	struct port *free_entry = NULL;

	for (unsigned i = 0; i < PORTS_MAX; i++) {
		if (ports[i].users && strcmp(ports[i].ifname, ifname) == 0)
			return &ports[i];
		if (!ports[i].users && !free_entry)
			free_entry = &ports[i];
	}
	return create ? free_entry : NULL;
}

/* The interfaces under a VLAN, bond or bridge, as sysfs names them. */
static void find_lowers(struct port *p)
{
	char path[64];
	struct dirent *e;
	DIR *d;

	p->nlowers = 0;
	snprintf(path, sizeof(path), "/sys/class/net/%s", p->ifname);
	d = opendir(path);
	while (d && p->nlowers < LOWERS_MAX && (e = readdir(d))) {
		if (strncmp(e->d_name, "lower_", 6) == 0 && strlen(e->d_name + 6) < IF_NAMESIZE)
			strcpy(p->lower[p->nlowers++], e->d_name + 6);
	}
	if (d)
		closedir(d);
}

static void acquire(const char *ifname, int depth)
{
	struct port *p = find(ifname, true);
	int fd;

	if (!p || p->users++)
		return;
	snprintf(p->ifname, sizeof(p->ifname), "%s", ifname);
	p->switched_off = p->stays_on = 0;
	p->ifindex = if_nametoindex(ifname);
	find_lowers(p);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		switch_off(fd, p, false);
		close(fd);
	}
	for (unsigned i = 0; depth < DEPTH_MAX && i < p->nlowers; i++)
		acquire(p->lower[i], depth + 1);
}

static void release(const char *ifname, int depth)
{
	struct port *p = find(ifname, false);
	int fd;

	if (!p || --p->users)
		return;
	fd = p->switched_off ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	if (fd >= 0) {
		/* the interface may be gone by now: then there is nothing to restore */
		write_features(fd, p, count_features(fd, p->ifname), p->switched_off, true);
		close(fd);
	}
	for (unsigned i = 0; depth < DEPTH_MAX && i < p->nlowers; i++)
		release(p->lower[i], depth + 1);
}

static void release_list(char list[LOWERS_MAX][IF_NAMESIZE], unsigned n, int depth)
{
	for (unsigned i = 0; depth < DEPTH_MAX && i < n; i++)
		release(list[i], depth + 1);
}

/* The interfaces below the port may have changed: acquires the new ones before releasing the old ones. */
static void refresh_lowers(struct port *p, int depth)
{
	char old[LOWERS_MAX][IF_NAMESIZE];
	unsigned nold = p->nlowers;

	memcpy(old, p->lower, sizeof(old));
	find_lowers(p);
	for (unsigned i = 0; depth < DEPTH_MAX && i < p->nlowers; i++)
		acquire(p->lower[i], depth + 1);
	release_list(old, nold, depth);
}

static void refresh(const char *ifname, int depth)
{
	struct port *p = find(ifname, false);
	unsigned ifindex = if_nametoindex(ifname);
	int fd = p && ifindex ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

	if (fd < 0)
		return;
	switch_off(fd, p, p->ifindex == ifindex);
	close(fd);
	p->ifindex = ifindex;
	refresh_lowers(p, depth);
	for (unsigned i = 0; depth < DEPTH_MAX && i < p->nlowers; i++)
		refresh(p->lower[i], depth + 1);
}

void offload_refresh(const char *ifname)
{
	refresh(ifname, 0);
}

void offload_acquire(const char *ifname)
{
	acquire(ifname, 0);
}

void offload_release(const char *ifname)
{
	release(ifname, 0);
}

void offload_release_all(void)
{
	for (unsigned i = 0; i < PORTS_MAX; i++) {
		if (ports[i].users == 0)
			continue;
		ports[i].users = 1;
		release(ports[i].ifname, DEPTH_MAX); /* interfaces below it have entries of their own */
	}
}
