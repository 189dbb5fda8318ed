/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_PATH */
#include "copy_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
	char *name;
	char *target; /* of a symbolic link */
	int error;    /* errno of what could not be asked about it, 0: none */
	struct stat st;
};

/* A directory on the way to the entry. What is in it was read at once, so that no descriptor stays open. */
struct level {
	struct level *above;
	struct stat st;
	size_t path_len; /* of struct walk's path */
	struct entry *entry;
	size_t n, room, next;
	int error; /* errno, if the directory was not read to its end */
};

struct walk {
	const struct copy_options *o;
	const char *name; /* of the only source, NULL: its own */
	int next;         /* source */
	int root;         /* the directory that the source is, or -errno */
	struct entry own; /* the source itself */
	struct level *level;
	char *path;         /* of the entry */
	size_t skip;        /* bytes of it in front of what lies beneath the source */
	const char *prefix; /* at the other end in front of that */
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

static int by_name(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void entry_ask(struct entry *f, int dir, const char *name)
{
	char text[COPY_PATH_MAX + 1];
	ssize_t n;

	if (fstatat(dir, name, &f->st, AT_SYMLINK_NOFOLLOW) < 0) {
		f->error = errno;
		return;
	}
	if (!S_ISLNK(f->st.st_mode))
		return;
	n = readlinkat(dir, name, text, sizeof(text));
	if (n < 0)
		f->error = errno;
	else if ((size_t)n == sizeof(text))
		f->error = ENAMETOOLONG;
	else if (!(f->target = strndup(text, (size_t)n)))
		f->error = ENOMEM;
}

static struct entry *entry_add(struct level *l, const char *name)
{
	struct entry *f;

	if (l->n == l->room) {
		size_t more = l->room ? 2 * l->room : 16;
		struct entry *grown = realloc(l->entry, more * sizeof(*grown));

		if (!grown)
			return NULL;
		l->entry = grown;
		l->room = more;
	}
	f = &l->entry[l->n];
	*f = (struct entry){.name = strdup(name)};
	l->n += f->name != NULL;
	return f->name ? f : NULL;
}

/* True if the directory lies in itself, by a mount. */
static bool is_loop(const struct level *l)
{
	for (const struct level *up = l->above; up; up = up->above)
		if (up->st.st_dev == l->st.st_dev && up->st.st_ino == l->st.st_ino)
			return true;
	return false;
}

/* 0 or an errno: what was read before stays. */
static int level_read(struct level *l, int root, const char *path)
{
	int fd = root < 0 ? root : source_open_beneath(root, path, O_RDONLY | O_DIRECTORY), error = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	if (!dir) {
		error = fd < 0 ? -fd : errno;
		if (fd >= 0)
			close(fd);
		return error;
	}
	while (error == 0) {
		struct entry *f;

		errno = 0; /* readdir(3) returns NULL for the end as well as for an error */
		d = readdir(dir);
		if (!d) {
			error = errno;
			break;
		}
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		f = entry_add(l, d->d_name);
		if (f)
			entry_ask(f, fd, f->name);
		else
			error = ENOMEM;
	}
	closedir(dir);
	return error;
}

static bool level_enter(struct walk *w, const struct stat *st)
{
	struct level *l = calloc(1, sizeof(*l));

	if (!l)
		return false;
	*l = (struct level){.above = w->level, .st = *st, .path_len = strlen(w->path)};
	l->error = is_loop(l) ? ELOOP : level_read(l, w->root, l->above ? w->path + w->skip : ".");
	if (l->n > 0)
		qsort(l->entry, l->n, sizeof(*l->entry), by_name);
	w->level = l;
	return true;
}

static void level_leave(struct walk *w)
{
	struct level *l = w->level;

	for (size_t i = 0; i < l->n; i++) {
		free(l->entry[i].name);
		free(l->entry[i].target);
	}
	free(l->entry);
	w->level = l->above;
	free(l);
}

/* Names what is at w->path; `beneath` a source: not the source itself. */
static void set_names(const struct walk *w, struct walk_entry *e, bool beneath)
{
	const char *rest = beneath ? w->path + w->skip : "";
	int n = snprintf(e->dst, sizeof(e->dst), "%.*s%s%s", (int)w->prefix_len, w->prefix,
	                 w->prefix_len > 0 && *rest ? "/" : "", rest);

	e->src = beneath ? w->path : w->o->source[w->next - 1];
	e->at = (struct source_path){(uint32_t)w->next - 1, beneath ? (uint32_t)w->skip : 0};
	if (n < 0 || (size_t)n >= sizeof(e->dst)) {
		e->what = WALK_ERROR;
		e->error = ENAMETOOLONG;
	}
}

static void describe(const struct walk *w, struct walk_entry *e, const struct entry *f, bool beneath)
{
	mode_t mode = f->st.st_mode;

	e->what = f->error ? WALK_ERROR : S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) ? WALK_ENTRY : WALK_OTHER;
	e->error = f->error;
	e->st = f->st;
	e->target = f->target;
	set_names(w, e, beneath);
}

static void enter(struct walk *w, struct walk_entry *e)
{
	if (e->what == WALK_ENTRY && S_ISDIR(e->st.st_mode) && !level_enter(w, &e->st)) {
		e->what = WALK_ERROR;
		e->error = ENOMEM;
	}
}

static void source_leave(struct walk *w)
{
	if (w->root >= 0)
		close(w->root);
	w->root = -EBADF;
	free(w->own.target);
	free(w->path);
	w->path = NULL;
}

static void visit_source(struct walk *w, struct walk_entry *e)
{
	const char *source = w->o->source[w->next++];
	size_t len = strlen(source);

	source_leave(w);
	w->own = (struct entry){.error = 0};
	w->prefix = w->name ? w->name : walk_name_of(source, &w->prefix_len);
	if (w->name)
		w->prefix_len = strlen(w->name);
	entry_ask(&w->own, AT_FDCWD, source);
	/* room for a name before it is found to be too long */
	w->path = malloc(len + COPY_PATH_MAX + COPY_NAME_MAX + 3);
	if (!w->path)
		w->own.error = ENOMEM;
	describe(w, e, &w->own, false);
	if (e->what != WALK_ENTRY || !S_ISDIR(e->st.st_mode))
		return;
	memcpy(w->path, source, len + 1);
	while (len > 0 && source[len - 1] == '/')
		len--;
	w->path[len] = '\0';
	w->skip = len + 1;
	w->root = open(source, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (w->root < 0)
		w->root = -errno;
	enter(w, e);
}

/* False: the entry is excluded. */
static bool visit_entry(struct walk *w, struct walk_entry *e, const struct entry *f)
{
	size_t len = w->level->path_len;

	w->path[len] = '/';
	memcpy(w->path + len + 1, f->name, strlen(f->name) + 1);
	describe(w, e, f, true);
	if (walk_excludes(w->o, e->dst, !f->error && S_ISDIR(f->st.st_mode)))
		return false;
	enter(w, e);
	return true;
}

static void visit_end(struct walk *w, struct walk_entry *e)
{
	const struct level *l = w->level;

	w->path[l->path_len] = '\0';
	e->what = l->error ? WALK_ERROR : WALK_LEFT;
	e->error = l->error;
	e->st = l->st;
	e->target = NULL;
	set_names(w, e, l->above != NULL);
	level_leave(w);
}

bool walk_next(struct walk *w, struct walk_entry *e)
{
	for (;;) {
		struct level *l = w->level;

		if (!l && w->next == w->o->nsources)
			return false;
		if (!l)
			visit_source(w, e);
		else if (l->next == l->n)
			visit_end(w, e);
		else if (!visit_entry(w, e, &l->entry[l->next++]))
			continue;
		return true;
	}
}

struct walk *walk_open(const struct copy_options *o, const char *name)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (w)
		*w = (struct walk){.o = o, .name = name, .root = -EBADF};
	return w;
}

void walk_close(struct walk *w)
{
	if (!w)
		return;
	while (w->level)
		level_leave(w);
	source_leave(w);
	free(w);
}
