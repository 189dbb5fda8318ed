// SPDX-License-Identifier: Apache-2.0
#include "addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

bool addr_read(const char *text, struct ip_addr *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memcpy(a->b, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, a->b + 12) == 1 || inet_pton(AF_INET6, text, a->b) == 1;
}

const char *addr_write(const struct ip_addr *a, char text[ADDR_TEXT_MAX])
{
	const uint8_t *raw = ip_addr_is4(a) ? a->b + 12 : a->b;

	return inet_ntop(addr_family(a), raw, text, ADDR_TEXT_MAX);
}

socklen_t addr_to_sockaddr(const struct ip_addr *a, uint16_t port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (void *)ss;
	struct sockaddr_in6 *in6 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = (sa_family_t)addr_family(a);
	if (ss->ss_family == AF_INET) {
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->b + 12, 4);
		return sizeof(*in);
	}
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, a->b, 16);
	return sizeof(*in6);
}
