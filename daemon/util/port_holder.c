/* SPDX-License-Identifier: Apache-2.0 */
/* port_holder.c - /proc/net tells a socket's uid and inode to everybody; which process has that inode open, /proc tells
 * root and the process' own user. */
#include "port_holder.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TCP_IS_LISTENING 0x0a

/* --- the socket --- */

/* "0100007F", or four such words: each 32 bits of the address as this machine reads them. */
static bool read_address(const char *text, struct ip_addr *a)
{
	unsigned words = (unsigned)strlen(text) / 8;

	if (words != 1 && words != 4)
		return false;
	*a = (struct ip_addr){.b = {[10] = 0xff, [11] = 0xff}};
	for (unsigned i = 0; i < words; i++) {
		char hex[9] = "";
		uint32_t word;

		memcpy(hex, text + 8 * i, 8);
		word = (uint32_t)strtoul(hex, NULL, 16);
		memcpy(a->b + (words == 1 ? 12 : 4 * i), &word, sizeof(word));
	}
	return true;
}

/* A socket bound to :: takes the IPv4 port as well, unless it is IPV6_V6ONLY, which /proc does not tell. */
static bool is_any(const struct ip_addr *a)
{
	static const struct ip_addr any4 = {.b = {[10] = 0xff, [11] = 0xff}};

	return ip_addr_eq(a, &any4) || ip_addr_eq(a, &(struct ip_addr){.b = {0}});
}

static bool read_line(const char *line, enum port_protocol protocol, const struct ip_addr *addr, uint16_t port,
                      struct port_holder *h)
{
	unsigned is_port, state, uid;
	struct ip_addr is;
	char text[33];

	if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%4x %*s %2x %*s %*s %*s %u %*u %" SCNu64, text, &is_port, &state, &uid,
	           &h->inode) != 5)
		return false;
	h->uid = (uid_t)uid;
	return is_port == port && (protocol != PORT_TCP || state == TCP_IS_LISTENING) && read_address(text, &is) &&
	       (ip_addr_eq(&is, addr) || is_any(&is));
}

static bool find_in(const char *path, enum port_protocol protocol, const struct ip_addr *addr, uint16_t port,
                    struct port_holder *h)
{
	FILE *f = fopen(path, "re");
	bool found = false;
	char line[512];

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = read_line(line, protocol, addr, port, h);
	if (f != NULL)
		fclose(f);
	return found;
}

/* --- the process --- */

static bool has_open(const char *pid, const char *link)
{
	char path[64], is[64];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	d = opendir(path);
	while (d != NULL && !found && (e = readdir(d)) != NULL) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, is, sizeof(is) - 1);

		if (n > 0) {
			is[n] = '\0';
			found = strcmp(is, link) == 0;
		}
	}
	if (d != NULL)
		closedir(d);
	return found;
}

static void read_comm(struct port_holder *h)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)h->pid);
	f = fopen(path, "re");
	if (f == NULL || fgets(h->comm, sizeof(h->comm), f) == NULL)
		snprintf(h->comm, sizeof(h->comm), "?");
	h->comm[strcspn(h->comm, "\n")] = '\0';
	for (char *c = h->comm; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?'; /* into a log */
	if (f != NULL)
		fclose(f);
}

static void find_process(struct port_holder *h)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	char link[64];

	snprintf(link, sizeof(link), "socket:[%" PRIu64 "]", h->inode);
	while (d != NULL && h->pid == 0 && (e = readdir(d)) != NULL)
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && has_open(e->d_name, link))
			h->pid = (pid_t)strtol(e->d_name, NULL, 10);
	if (d != NULL)
		closedir(d);
	if (h->pid != 0)
		read_comm(h);
}

bool port_holder_find(enum port_protocol protocol, const struct ip_addr *addr, uint16_t port, struct port_holder *h)
{
	static const char *const files[][2] = {[PORT_UDP] = {"/proc/net/udp", "/proc/net/udp6"},
	                                       [PORT_TCP] = {"/proc/net/tcp", "/proc/net/tcp6"}};

	*h = (struct port_holder){0};
	for (unsigned i = 0; i < 2; i++)
		if (find_in(files[protocol][i], protocol, addr, port, h)) {
			find_process(h);
			return true;
		}
	return false;
}

char *port_holder_text(enum port_protocol protocol, const struct ip_addr *addr, uint16_t port,
                       char text[PORT_HOLDER_TEXT_MAX])
{
	const char *name = protocol == PORT_UDP ? "UDP" : "TCP";
	struct port_holder h;

	text[0] = '\0';
	if (!port_holder_find(protocol, addr, port, &h))
		return text;
	if (h.pid != 0)
		snprintf(text, PORT_HOLDER_TEXT_MAX, "%s port %u is held by process %d (%s) of uid %u", name, port, (int)h.pid,
		         h.comm, (unsigned)h.uid);
	else
		snprintf(text, PORT_HOLDER_TEXT_MAX,
		         "%s port %u is held by a process of uid %u (`ss -%clnp sport = :%u` as root names it)", name, port,
		         (unsigned)h.uid, protocol == PORT_UDP ? 'u' : 't', port);
	return text;
}
