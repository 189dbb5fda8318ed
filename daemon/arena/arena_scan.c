/* SPDX-License-Identifier: Apache-2.0 */
#include "arena_scan.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arena_file.h"

#define SUFFIX ".arena"

struct scan {
	const struct arena_claim *claims;
	uint32_t nclaims;
	struct arena_stray *out;
	uint32_t n, max;
	bool all;
};

/* "LINK.SHARD.arena", and for one set aside more behind it. False: no arena's name. */
static bool parse_name(const char *name, struct arena_stray *s)
{
	const char *aside = strstr(name, SUFFIX ARENA_SET_ASIDE);
	const char *end = aside ? aside : name + strlen(name) - (strlen(name) > strlen(SUFFIX) ? strlen(SUFFIX) : 0);
	const char *dot = end;

	if (!aside && strcmp(end, SUFFIX) != 0)
		return false;
	while (dot > name && isdigit((unsigned char)dot[-1]))
		dot--;
	if (dot == end || dot < name + 2 || dot[-1] != '.' || (size_t)(dot - 1 - name) >= sizeof(s->link))
		return false;
	s->kind = aside ? STRAY_SET_ASIDE : STRAY_UNCLAIMED;
	memcpy(s->link, name, (size_t)(dot - 1 - name));
	return true;
}

static bool is_claimed(const struct scan *scan, const char *dir, const char *link)
{
	for (uint32_t i = 0; i < scan->nclaims; i++)
		if (strcmp(scan->claims[i].link, link) == 0 && strcmp(scan->claims[i].dir, dir) == 0)
			return true;
	return false;
}

static void look_at(struct scan *scan, const char *dir, const char *name)
{
	struct arena_stray s = {0};
	struct stat st;

	if (!parse_name(name, &s))
		return;
	if ((size_t)snprintf(s.path, sizeof(s.path), "%s/%s", dir, name) >= sizeof(s.path) ||
	    lstat(s.path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (s.kind == STRAY_UNCLAIMED && (is_claimed(scan, dir, s.link) || !arena_file_left(s.path)))
		return;
	if (scan->n == scan->max) {
		scan->all = false;
		return;
	}
	s.bytes = (uint64_t)st.st_size;
	scan->out[scan->n++] = s;
}

static void scan_dir(struct scan *scan, const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		look_at(scan, dir, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	else if (errno != ENOENT)
		scan->all = false;
}

/* Whether a claim before this one has the same directory. */
static bool seen(const struct arena_claim *claims, uint32_t n, const char *dir)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(claims[i].dir, dir) == 0)
			return true;
	return false;
}

uint32_t arena_scan(const struct arena_claim *claims, uint32_t nclaims, struct arena_stray *out, uint32_t max, bool *all)
{
	struct scan scan = {.claims = claims, .nclaims = nclaims, .out = out, .max = max, .all = true};

	for (uint32_t i = 0; i < nclaims; i++)
		if (!seen(claims, i, claims[i].dir))
			scan_dir(&scan, claims[i].dir);
	if (!seen(claims, nclaims, ARENA_DIR_DEFAULT))
		scan_dir(&scan, ARENA_DIR_DEFAULT);
	if (all)
		*all = scan.all;
	return scan.n;
}

const char *stray_text(const struct arena_stray *s, char text[STRAY_TEXT_MAX])
{
	if (s->kind == STRAY_SET_ASIDE)
		snprintf(text, STRAY_TEXT_MAX,
		         "%s: a damaged buffer of link %s that was set aside: packets that hosts believe delivered may "
		         "have been lost with it; remove the file when you no longer need it",
		         s->path, s->link);
	else
		snprintf(text, STRAY_TEXT_MAX,
		         "%s: holds packets that hosts believe delivered, of a link %s that has no link file with this "
		         "Directory=: put the link file %s.conf back until the buffer has drained, or remove the "
		         "buffer and lose the packets",
		         s->path, s->link, s->link);
	return text;
}
