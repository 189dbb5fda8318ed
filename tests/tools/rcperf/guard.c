// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addr.h"
#include "proxy/util/bytes.h"

static int open_udp(const struct ip_addr *addr)
{
	struct sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = {.len = 1, .filter = &refuse};
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(addr, ROCE_UDP_PORT, &ss);
	int one = 1, fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) == 0 &&
	    bind(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* True if nft took it. */
static bool run_nft(const char *script)
{
	FILE *f = popen("PATH=$PATH:/usr/sbin:/sbin exec nft -f - 2>/dev/null", "w");

	if (f == NULL)
		return false;
	fputs(script, f);
	return pclose(f) == 0;
}

static void open_nft(struct guard *g, int ifindex, const char *dev, const struct ip_addr *addr)
{
	char script[512], text[ADDR_TEXT_MAX];

	snprintf(g->table, sizeof(g->table), "rcperf_%d_%08x", ifindex, get_be32(addr->b + 12));
	snprintf(script, sizeof(script),
	         "add table netdev %s\n"
	         "delete table netdev %s\n"
	         "table netdev %s {\n"
	         "chain in {\n"
	         "type filter hook ingress device \"%s\" priority -400\n"
	         "%s daddr %s udp dport %d drop\n"
	         "}\n}\n",
	         g->table, g->table, g->table, dev, ip_addr_is4(addr) ? "ip" : "ip6", addr_write(addr, text),
	         ROCE_UDP_PORT);
	if (!run_nft(script))
		g->table[0] = 0;
}

int guard_open(struct guard *g, int ifindex, const char *dev, const struct ip_addr *addr)
{
	g->table[0] = 0;
	g->udp_fd = open_udp(addr);
	if (g->udp_fd < 0)
		return g->udp_fd;
	open_nft(g, ifindex, dev, addr);
	return 0;
}

void guard_close(struct guard *g)
{
	char script[128];

	if (g->udp_fd >= 0)
		close(g->udp_fd);
	g->udp_fd = -1;
	if (g->table[0] == 0)
		return;
	snprintf(script, sizeof(script), "delete table netdev %s\n", g->table);
	(void)run_nft(script);
	g->table[0] = 0;
}
