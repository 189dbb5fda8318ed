/* SPDX-License-Identifier: Apache-2.0 */
/* addr.c - IP addresses and prefixes as text, and for the socket calls. */
#include "addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "units.h"

#define IP4_PREFIX_BITS 96 /* of ::ffff:0:0/96, where IPv4 addresses are stored */

static void set_ip4(struct ip_addr *a, const void *in4)
{
	memset(a, 0, sizeof(*a));
	a->b[10] = 0xff;
	a->b[11] = 0xff;
	memcpy(a->b + 12, in4, 4);
}

int addr_read(const char *text, struct ip_addr *a)
{
	uint8_t in4[4];

	if (inet_pton(AF_INET, text, in4) == 1) {
		set_ip4(a, in4);
		return 0;
	}
	/* One address has one spelling: refuses IPv4-mapped IPv6 addresses. */
	if (inet_pton(AF_INET6, text, a->b) == 1 && !ip_addr_is4(a))
		return 0;
	return -EINVAL;
}

int addr_read_prefix(const char *text, struct ip_prefix *p)
{
	const char *slash = strchr(text, '/');
	char addr[ADDR_TEXT_MAX];
	uint64_t len;
	bool ip4;

	if (slash != NULL && (size_t)(slash - text) >= sizeof(addr))
		return -EINVAL;
	snprintf(addr, sizeof(addr), "%.*s", slash != NULL ? (int)(slash - text) : (int)sizeof(addr) - 1, text);
	if (addr_read(addr, &p->addr) < 0)
		return -EINVAL;
	ip4 = ip_addr_is4(&p->addr);
	len = ip4 ? 32 : 128;
	if (slash != NULL && (units_read_count(slash + 1, &len) < 0 || len > (ip4 ? 32 : 128)))
		return -EINVAL;
	p->len = (uint8_t)(ip4 ? len + IP4_PREFIX_BITS : len);
	return 0;
}

const char *addr_write(const struct ip_addr *a, char *text, size_t cap)
{
	bool ip4 = ip_addr_is4(a);

	if (inet_ntop(ip4 ? AF_INET : AF_INET6, ip4 ? a->b + 12 : a->b, text, (socklen_t)cap) == NULL && cap > 0)
		text[0] = '\0';
	return text;
}

const char *addr_write_prefix(const struct ip_prefix *p, char *text, size_t cap)
{
	char addr[INET6_ADDRSTRLEN];
	bool ip4 = ip_addr_is4(&p->addr) && p->len >= IP4_PREFIX_BITS;

	addr_write(&p->addr, addr, sizeof(addr));
	snprintf(text, cap, "%s/%u", addr, ip4 ? p->len - IP4_PREFIX_BITS : p->len);
	return text;
}

bool addr_is_unspecified(const struct ip_addr *a)
{
	static const uint8_t zero[16];

	return memcmp(a->b + 12, zero, 4) == 0 && (ip_addr_is4(a) || memcmp(a->b, zero, sizeof(zero)) == 0);
}

bool addr_is_multicast(const struct ip_addr *a)
{
	return ip_addr_is4(a) ? a->b[12] >= 224 : a->b[0] == 0xff;
}

bool addr_is_link_local(const struct ip_addr *a)
{
	return ip_addr_is4(a) ? a->b[12] == 169 && a->b[13] == 254 : a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

void addr_mask(struct ip_prefix *p)
{
	for (unsigned i = 0; i < sizeof(p->addr.b); i++) {
		unsigned bits = p->len > i * 8 ? p->len - i * 8 : 0;

		if (bits < 8)
			p->addr.b[i] &= (uint8_t)(0xff00u >> bits);
	}
}

bool addr_prefix_eq(const struct ip_prefix *a, const struct ip_prefix *b)
{
	return a->len == b->len && ip_addr_eq(&a->addr, &b->addr);
}

bool addr_prefixes_overlap(const struct ip_prefix *a, const struct ip_prefix *b)
{
	struct ip_prefix x = *a, y = *b;

	x.len = y.len = a->len < b->len ? a->len : b->len;
	addr_mask(&x);
	addr_mask(&y);
	return ip_addr_eq(&x.addr, &y.addr);
}

bool addr_prefix_swallows_ip4(const struct ip_prefix *p)
{
	struct ip_prefix all_ip4 = {.len = IP4_PREFIX_BITS};

	set_ip4(&all_ip4.addr, (const uint8_t[4]){0});
	return p->len < IP4_PREFIX_BITS && addr_prefixes_overlap(p, &all_ip4);
}

socklen_t addr_to_sockaddr(const struct ip_addr *a, uint16_t port, struct sockaddr_storage *ss)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(ss, 0, sizeof(*ss));
	if (ip_addr_is4(a)) {
		memcpy(&in4.sin_addr, a->b + 12, 4);
		memcpy(ss, &in4, sizeof(in4));
		return sizeof(in4);
	}
	memcpy(&in6.sin6_addr, a->b, 16);
	memcpy(ss, &in6, sizeof(in6));
	return sizeof(in6);
}

bool addr_from_sockaddr(const struct sockaddr *sa, struct ip_addr *a)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in4;

	if (sa->sa_family == AF_INET) {
		memcpy(&in4, sa, sizeof(in4));
		set_ip4(a, &in4.sin_addr);
		return true;
	}
	if (sa->sa_family != AF_INET6)
		return false;
	memcpy(&in6, sa, sizeof(in6));
	memcpy(a->b, &in6.sin6_addr, sizeof(a->b));
	return true;
}

/* --- where to listen --- */

#define ENDPOINT_LOOPBACK "127.0.0.1"

static int read_endpoint_port(const char *text, uint16_t *port)
{
	uint64_t n;

	if (units_read_count(text, &n) < 0 || n == 0 || n > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

int addr_bind_ahead(int fd, int family)
{
	int one = 1;

	return family == AF_INET ? setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one))
	                         : setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof(one));
}

int addr_read_endpoint(const char *where, struct sockaddr_storage *ss, socklen_t *len)
{
	const char *colon = strrchr(where, ':'), *host = where;
	size_t n = colon != NULL ? (size_t)(colon - where) : 0;
	char text[ADDR_TEXT_MAX] = ENDPOINT_LOOPBACK;
	struct ip_addr a;
	uint16_t port;

	if (read_endpoint_port(colon != NULL ? colon + 1 : where, &port) < 0)
		return -EINVAL;
	if (colon != NULL) {
		bool bracketed = n >= 2 && host[0] == '[' && host[n - 1] == ']';

		if (bracketed) {
			host++;
			n -= 2;
		}
		if (n == 0 || n >= sizeof(text) || bracketed != (memchr(host, ':', n) != NULL))
			return -EINVAL;
		memcpy(text, host, n);
		text[n] = '\0';
	}
	if (addr_read(text, &a) < 0)
		return -EINVAL;
	*len = addr_to_sockaddr(&a, port, ss);
	return 0;
}
