/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fts */
#include "copy_walk.h"

#include <errno.h>
#include <fnmatch.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
	const struct copy_options *o;
	const char *name; /* of the only source, NULL: its own */
	int next;         /* source */
	FTS *fts;
	size_t skip;        /* characters of fts_path that are the source itself */
	const char *prefix; /* in front of what is behind them */
	size_t prefix_len;
};

const char *walk_name_of(const char *source, size_t *len)
{
	const char *end = source + strlen(source), *from;

	*len = 0;
	if (end > source && end[-1] == '/')
		return end;
	from = end;
	while (from > source && from[-1] != '/')
		from--;
	if (strcmp(from, ".") == 0 || strcmp(from, "..") == 0)
		return end;
	*len = (size_t)(end - from);
	return from;
}

/* --- --exclude --- */

/* A pattern with a slash inside matches paths: whole ones if it begins with a slash, else the ends of paths, too. */
static bool fits(const char *pattern, const char *path, bool is_directory)
{
	char text[COPY_PATH_MAX + 1];
	size_t len = strlen(pattern);
	bool anchored = *pattern == '/';
	const char *at = path;
	int flags;

	pattern += anchored;
	len -= anchored;
	if (len == 0 || len > COPY_PATH_MAX)
		return false;
	memcpy(text, pattern, len + 1);
	if (text[len - 1] == '/') {
		if (!is_directory)
			return false;
		text[len - 1] = '\0';
	}
	flags = strstr(text, "**") ? 0 : FNM_PATHNAME;
	if (!anchored && !strchr(text, '/')) {
		const char *slash = strrchr(path, '/');

		return fnmatch(text, slash ? slash + 1 : path, 0) == 0;
	}
	for (;;) {
		if (fnmatch(text, at, flags) == 0)
			return true;
		at = strchr(at, '/');
		if (anchored || !at)
			return false;
		at++;
	}
}

bool walk_excludes(const struct copy_options *o, const char *path, bool is_directory)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	/* temporary files of another copy are no user files */
	if (strncmp(name, ".longreach-", 11) == 0)
		return true;
	for (int i = 0; i < o->nexcludes; i++)
		if (fits(o->exclude[i], path, is_directory))
			return true;
	return false;
}

/* --- trees --- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

struct walk *walk_open(const struct copy_options *o, const char *name)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (w)
		*w = (struct walk){.o = o, .name = name};
	return w;
}

void walk_close(struct walk *w)
{
	if (w && w->fts)
		fts_close(w->fts);
	free(w);
}

static bool open_next(struct walk *w)
{
	char *source, *roots[2];

	if (w->next == w->o->nsources)
		return false;
	source = w->o->source[w->next++];
	roots[0] = source;
	roots[1] = NULL;
	w->skip = strlen(source);
	w->prefix = w->name ? w->name : walk_name_of(source, &w->prefix_len);
	if (w->name)
		w->prefix_len = strlen(w->name);
	w->fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	return true;
}

/* False: it is too long. */
static bool set_dst(const struct walk *w, const FTSENT *f, char dst[COPY_PATH_MAX + 1])
{
	const char *rest = f->fts_path + (f->fts_level > 0 ? w->skip : strlen(f->fts_path));
	int n;

	rest += strspn(rest, "/");
	n = snprintf(dst, COPY_PATH_MAX + 1, "%.*s%s%s", (int)w->prefix_len, w->prefix,
	             w->prefix_len > 0 && *rest ? "/" : "", rest);
	return n >= 0 && n <= COPY_PATH_MAX;
}

static enum walk_what what_of(const FTSENT *f)
{
	switch (f->fts_info) {
	case FTS_D:
	case FTS_F:
	case FTS_SL:
	case FTS_SLNONE:
		return WALK_ENTRY;
	case FTS_DP:
		return WALK_LEFT;
	case FTS_DEFAULT:
		return WALK_OTHER;
	default:
		return WALK_ERROR;
	}
}

bool walk_next(struct walk *w, struct walk_entry *e)
{
	for (;;) {
		FTSENT *f;

		if (!w->fts && !open_next(w))
			return false;
		errno = 0;
		f = w->fts ? fts_read(w->fts) : NULL;
		if (!f) {
			if (w->fts)
				fts_close(w->fts);
			w->fts = NULL;
			continue;
		}
		e->what = what_of(f);
		e->error = f->fts_errno ? f->fts_errno : EIO;
		e->src = f->fts_path;
		if (f->fts_statp)
			e->st = *f->fts_statp;
		if (!set_dst(w, f, e->dst)) {
			e->what = WALK_ERROR;
			e->error = ENAMETOOLONG;
			return true;
		}
		if (f->fts_level == 0 || !walk_excludes(w->o, e->dst, f->fts_info == FTS_D || f->fts_info == FTS_DP))
			return true;
		if (f->fts_info == FTS_D)
			fts_set(w->fts, f, FTS_SKIP);
	}
}
