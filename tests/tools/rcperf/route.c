// SPDX-License-Identifier: Apache-2.0
#include "route.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "addr.h"

enum {
	ANSWER_TRIES = 300, /* times 10 ms until the neighbour must be known */
	DISCARD_PORT = 9,
};

struct request {
	struct nlmsghdr nl;
	union {
		struct rtmsg route;
		struct ndmsg neigh;
	} u;
	uint8_t attrs[128];
};

static const uint8_t *raw(const struct ip_addr *a, size_t *len)
{
	*len = ip_addr_is4(a) ? 4 : 16;
	return ip_addr_is4(a) ? a->b + 12 : a->b;
}

static void add_attr(struct request *r, uint16_t type, const void *data, size_t len)
{
	struct rtattr *a = (void *)((uint8_t *)r + NLMSG_ALIGN(r->nl.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	r->nl.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->nl.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

/* Sends one request and receives one answer message into buf. */
static int ask(struct request *r, uint8_t *buf, size_t cap, struct nlmsghdr **answer)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (send(fd, r, r->nl.nlmsg_len, 0) < 0 || (n = recv(fd, buf, cap, 0)) < 0) {
		int err = -errno;

		close(fd);
		return err;
	}
	close(fd);
	*answer = (void *)buf;
	if (!NLMSG_OK(*answer, (size_t)n))
		return -EPROTO;
	if ((*answer)->nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(*answer);

		return e->error != 0 ? e->error : -EPROTO;
	}
	return 0;
}

/* Finds an attribute behind a fixed header of `fixed` bytes. */
static const void *find_attr(struct nlmsghdr *h, size_t fixed, uint16_t type, size_t len)
{
	struct rtattr *a = (void *)((uint8_t *)NLMSG_DATA(h) + NLMSG_ALIGN(fixed));
	uint8_t *end = (uint8_t *)h + h->nlmsg_len;

	while ((uint8_t *)a + sizeof(*a) <= end && a->rta_len >= sizeof(*a) && (uint8_t *)a + a->rta_len <= end) {
		if (a->rta_type == type && RTA_PAYLOAD(a) == len)
			return RTA_DATA(a);
		a = (void *)((uint8_t *)a + RTA_ALIGN(a->rta_len));
	}
	return NULL;
}

static int next_hop_ip(int ifindex, const struct ip_addr *src, const struct ip_addr *dst, struct ip_addr *hop)
{
	struct request r = {.nl = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
	                           .nlmsg_type = RTM_GETROUTE,
	                           .nlmsg_flags = NLM_F_REQUEST}};
	uint8_t buf[4096] __attribute__((aligned(8)));
	struct nlmsghdr *answer;
	const void *gateway;
	size_t len;
	const uint8_t *p = raw(dst, &len);
	int err;

	r.u.route.rtm_family = (uint8_t)addr_family(dst);
	r.u.route.rtm_dst_len = (uint8_t)(len * 8);
	add_attr(&r, RTA_DST, p, len);
	add_attr(&r, RTA_SRC, raw(src, &len), len);
	r.u.route.rtm_src_len = (uint8_t)(len * 8);
	add_attr(&r, RTA_OIF, &ifindex, sizeof(ifindex));
	err = ask(&r, buf, sizeof(buf), &answer);
	if (err != 0)
		return err;
	*hop = *dst;
	gateway = find_attr(answer, sizeof(struct rtmsg), RTA_GATEWAY, len);
	if (gateway != NULL)
		memcpy(hop->b + 16 - len, gateway, len);
	return 0;
}

static int neighbour_mac(int ifindex, const struct ip_addr *hop, uint8_t mac[6])
{
	struct request r = {.nl = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg)),
	                           .nlmsg_type = RTM_GETNEIGH,
	                           .nlmsg_flags = NLM_F_REQUEST}};
	uint8_t buf[4096] __attribute__((aligned(8)));
	struct nlmsghdr *answer;
	const struct ndmsg *nd;
	const void *lladdr;
	size_t len;
	const uint8_t *p = raw(hop, &len);
	int err;

	r.u.neigh.ndm_family = (uint8_t)addr_family(hop);
	r.u.neigh.ndm_ifindex = ifindex;
	add_attr(&r, NDA_DST, p, len);
	err = ask(&r, buf, sizeof(buf), &answer);
	if (err != 0)
		return err;
	nd = NLMSG_DATA(answer);
	lladdr = find_attr(answer, sizeof(*nd), NDA_LLADDR, 6);
	if (lladdr == NULL || (nd->ndm_state & (NUD_INCOMPLETE | NUD_FAILED)) != 0)
		return -EHOSTUNREACH;
	memcpy(mac, lladdr, 6);
	return 0;
}

/* One byte to the discard port makes the kernel resolve the next hop. */
static void poke(const struct ip_addr *dst)
{
	struct sockaddr_storage to;
	socklen_t len = addr_to_sockaddr(dst, DISCARD_PORT, &to);
	int fd = socket(addr_family(dst), SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	(void)sendto(fd, "", 1, 0, (struct sockaddr *)&to, len);
	close(fd);
}

int route_next_hop(int ifindex, const struct ip_addr *src, const struct ip_addr *dst, uint8_t mac[6])
{
	struct ip_addr hop;
	int err = next_hop_ip(ifindex, src, dst, &hop);

	for (int i = 0; err == 0 && i < ANSWER_TRIES; i++) {
		if (neighbour_mac(ifindex, &hop, mac) == 0)
			return 0;
		if (i % 100 == 0)
			poke(dst);
		usleep(10000);
	}
	return err != 0 ? err : -EHOSTUNREACH;
}
