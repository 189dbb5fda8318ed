/* SPDX-License-Identifier: Apache-2.0 */
/* lr_edges.c - /etc/longreach/edges. */
#include "lr_edges.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SPACE " \t\r\n"

int lr_edges_find(const char *path, const char *link, char *address, size_t cap)
{
	FILE *f = fopen(path, "re");
	char line[256];
	int r = -ENOENT;

	if (!f)
		return errno == ENOENT ? -ENOENT : -errno;
	while (r == -ENOENT && fgets(line, sizeof(line), f)) {
		char *save, *name, *where;

		line[strcspn(line, "#")] = '\0';
		name = strtok_r(line, SPACE, &save);
		if (!name || strcmp(name, link) != 0)
			continue;
		where = strtok_r(NULL, SPACE, &save);
		if (!where || strtok_r(NULL, SPACE, &save) || strlen(where) >= cap) {
			r = -EINVAL;
		} else {
			strcpy(address, where);
			r = 0;
		}
	}
	fclose(f);
	return r;
}
