/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/util/addr.h"
#include "exporter.h"
#include "daemon/util/units.h"

#define LOOPBACK "127.0.0.1"

static int read_port(const char *text, uint16_t *port)
{
	uint64_t n;

	if (units_read_count(text, &n) < 0 || n == 0 || n > UINT16_MAX)
		return -EINVAL;
	*port = (uint16_t)n;
	return 0;
}

int exporter_read_address(const char *where, struct sockaddr_storage *ss, socklen_t *len)
{
	const char *colon = strrchr(where, ':'), *host = where;
	size_t n = colon != NULL ? (size_t)(colon - where) : 0;
	char text[ADDR_TEXT_MAX] = LOOPBACK;
	struct ip_addr a;
	uint16_t port;

	if (read_port(colon != NULL ? colon + 1 : where, &port) < 0)
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
