/* SPDX-License-Identifier: Apache-2.0 */
#include "held_sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/addr.h"

#define HELD_MAX  4096 /* most sockets that a child may have held */
#define HELD_GROW 64

struct held {
	char name[HELD_NAME_MAX];
	int fd;
	bool wanted;
};

static struct held *held;
static unsigned nheld, places;

char *held_name(const struct ip_addr *local, uint16_t port, char name[HELD_NAME_MAX])
{
	char t[ADDR_TEXT_MAX];

	snprintf(name, HELD_NAME_MAX, "%s port %u,", addr_write(local, t, sizeof(t)), port);
	return name;
}

static struct held *find(const char *name)
{
	for (unsigned i = 0; i < nheld; i++)
		if (strcmp(held[i].name, name) == 0)
			return &held[i];
	return NULL;
}

static struct held *add(const char *name)
{
	struct held *more;

	if (nheld == HELD_MAX || strlen(name) >= HELD_NAME_MAX)
		return NULL;
	if (nheld == places) {
		more = realloc(held, (places + HELD_GROW) * sizeof(*held));
		if (more == NULL)
			return NULL;
		held = more;
		places += HELD_GROW;
	}
	held[nheld].fd = -1;
	held[nheld].wanted = false;
	snprintf(held[nheld].name, HELD_NAME_MAX, "%s", name);
	return &held[nheld++];
}

int held_put(const char *name, int fd)
{
	struct held *h = find(name);

	if (h == NULL)
		h = add(name);
	if (h == NULL)
		return -ENOSPC;
	if (h->fd >= 0)
		close(h->fd);
	h->fd = fd;
	return 0;
}

int held_get(const char *name)
{
	const struct held *h = find(name);
	int fd = h != NULL ? fcntl(h->fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (h == NULL)
		return -ENOENT;
	return fd < 0 ? -errno : fd;
}

static bool begins(const struct held *h, const char *prefix)
{
	return strncmp(h->name, prefix, strlen(prefix)) == 0;
}

/* Closes the socket; the last entry of the list moves to its place. */
static void let_go(struct held *h)
{
	if (h->fd >= 0)
		close(h->fd);
	*h = held[--nheld];
}

void held_drop(const char *prefix)
{
	for (unsigned i = nheld; i-- > 0;)
		if (begins(&held[i], prefix))
			let_go(&held[i]);
}

void held_want(const char *prefix)
{
	for (unsigned i = 0; i < nheld; i++)
		held[i].wanted |= begins(&held[i], prefix);
}

void held_drop_unwanted(void)
{
	for (unsigned i = nheld; i-- > 0;)
		if (!held[i].wanted)
			let_go(&held[i]);
	for (unsigned i = 0; i < nheld; i++)
		held[i].wanted = false;
}
