/* SPDX-License-Identifier: Apache-2.0 */
/* copy_trees.c - the source of items: the source trees, and the tasks that they leave for later phases. */
#define _GNU_SOURCE /* strdup */
#include <stdlib.h>
#include <string.h>

#include "copy_send_priv.h"

/* --- where items come from --- */

/* The place of an inode in a table, or the free one where it belongs. */
static struct name_of_inode **inode_place(struct name_of_inode **table, size_t room, dev_t dev, ino_t ino)
{
	size_t at = (size_t)ino & (room - 1);

	while (table[at] && (table[at]->dev != dev || table[at]->ino != ino))
		at = (at + 1) & (room - 1);
	return &table[at];
}

static bool inodes_grow(struct sender *s)
{
	size_t more = s->ninodes_room ? 2 * s->ninodes_room : 1024;
	struct name_of_inode **grown = calloc(more, sizeof(struct name_of_inode *));

	if (!grown)
		return false;
	for (size_t i = 0; i < s->ninodes_room; i++)
		if (s->inode[i])
			*inode_place(grown, more, s->inode[i]->dev, s->inode[i]->ino) = s->inode[i];
	free(s->inode);
	s->inode = grown;
	s->ninodes_room = more;
	return true;
}

/* The first name of a file with several links: dst, if it has none yet. NULL: no memory, and it is copied as a file of
 * its own. */
static struct name_of_inode *first_name(struct sender *s, const struct stat *st, const char *dst)
{
	struct name_of_inode **at, *n;

	if (2 * (s->ninodes + 1) > s->ninodes_room && !inodes_grow(s))
		return NULL;
	at = inode_place(s->inode, s->ninodes_room, st->st_dev, st->st_ino);
	if (*at)
		return *at;
	n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct name_of_inode){.dev = st->st_dev, .ino = st->st_ino, .dst = strdup(dst)};
	if (!n->dst) {
		free(n);
		return NULL;
	}
	*at = n;
	s->ninodes++;
	return n;
}

static void walked_add(struct sender *s, const char *dst)
{
	const char *slash = strrchr(dst, '/'), *name = slash ? slash + 1 : dst;
	struct walked *d = s->walked;

	if (!d || !*name)
		return;
	while (!copy_name_put(&d->names, 0, name)) {
		size_t more = d->names.cap ? 2 * d->names.cap : 4096;
		uint8_t *grown = realloc(d->names.buf, more);

		if (!grown) {
			sender_no_memory(s);
			return;
		}
		d->names.buf = grown;
		d->names.cap = more;
	}
}

static void walked_push(struct sender *s, const char *dst)
{
	struct walked *d = calloc(1, sizeof(*d));

	if (!d || !(d->dst = strdup(dst))) {
		free(d);
		sender_no_memory(s);
		return;
	}
	d->above = s->walked;
	s->walked = d;
}

/* One question about a directory: the names from names[from] on that are in it, up to `upto`. */
static void list_add(struct sender *s, const struct walked *d, size_t from, size_t to, const char *after,
                     const char *upto)
{
	struct item *it = item_new(STAGE_EXTRAS, NULL, d->dst, NULL);

	if (it) {
		it->names = malloc(to - from + 1);
		it->names_len = to - from;
		if (it->names)
			memcpy(it->names, d->names.buf + from, to - from);
		it->target = *after ? strdup(after) : NULL;
		it->upto = upto ? strdup(upto) : NULL;
	}
	if (!it || !it->names || !items_add(&s->lists, it))
		sender_no_memory(s);
}

/* A directory is complete: asks for all other entries there (EXTRAS), with as many names at a time as a message
 * holds. */
static void walked_pop(struct sender *s)
{
	struct walked *d = s->walked;
	char name[COPY_NAME_MAX + 1], after[COPY_NAME_MAX + 1] = "";
	struct copy_in in = {.p = d->names.buf, .left = d->names.len};
	size_t from = 0;
	uint8_t kind;

	while (d->names.len > 0 && copy_name_next(&in, &kind, name)) {
		size_t to = d->names.len - in.left;

		if (to - from < NAMES_MAX || in.left == 0)
			continue;
		list_add(s, d, from, to, after, name);
		memcpy(after, name, sizeof(after));
		from = to;
	}
	list_add(s, d, from, d->names.len, after, NULL);
	s->walked = d->above;
	free(d->names.buf);
	free(d->dst);
	free(d);
}

/* An item of an entry of the trees. NULL: no memory. */
static struct item *item_of(enum stage stage, const struct walk_entry *e)
{
	struct item *it = item_new(stage, e->src, e->dst, &e->st);

	if (it)
		it->at = e->at;
	return it;
}

static struct item *take_directory(struct sender *s, const struct walk_entry *e)
{
	struct item *meta = item_of(STAGE_META, e);

	if (!items_add(&s->dirs, meta))
		sender_no_memory(s);
	if (s->o->remove)
		walked_push(s, e->dst);
	if (!e->dst[0] && s->o->dry_run)
		return NULL;
	return item_of(s->o->dry_run ? STAGE_CHECK : STAGE_DIR, e);
}

/* NULL: nothing to be done about it now. */
static struct item *take_entry(struct sender *s, const struct walk_entry *e)
{
	struct name_of_inode *inode = NULL;
	struct item *it;
	bool first;

	if (s->o->remove)
		walked_add(s, e->dst);
	if (S_ISDIR(e->st.st_mode))
		return take_directory(s, e);
	if (S_ISREG(e->st.st_mode) && e->st.st_nlink > 1)
		inode = first_name(s, &e->st, e->dst);
	first = !inode || strcmp(inode->dst, e->dst) == 0;
	it = item_of(first ? STAGE_CHECK : STAGE_LINK, e);
	if (it && e->target)
		it->target = strdup(e->target);
	if (!it || (e->target && !it->target)) {
		item_free(s, it);
		sender_no_memory(s);
		return NULL;
	}
	it->inode = inode;
	if (!first) {
		it->target = strdup(inode->dst);
		if (!it->target || !items_add(&s->links, it))
			sender_no_memory(s);
		return NULL;
	}
	if (s->fresh && !s->o->dry_run) {
		it->stage = S_ISLNK(e->st.st_mode)           ? STAGE_SYMLINK
		            : e->st.st_size > COPY_SMALL_MAX ? STAGE_OPEN
		                                             : STAGE_FILE;
		sender_say_name(s, "", it->dst, "");
	}
	return it;
}

static void walk_problem(struct sender *s, const struct walk_entry *e)
{
	if (e->what == WALK_OTHER) {
		sender_complain(s, e->src, "skipped: it is neither a file, a directory nor a symbolic link", 0);
		s->progress.skipped++;
		return;
	}
	sender_complain(s, e->src, "cannot be read", e->error);
	s->progress.errors++;
	s->source_errors = true;
	sender_set_code(s, COPY_EXIT_PARTIAL);
}

/* The next item of the trees, NULL: there is no more. */
struct item *trees_next(struct sender *s)
{
	static struct walk_entry e;

	while (!s->fatal && s->walk && walk_next(s->walk, &e)) {
		struct item *it = NULL;

		if (e.what == WALK_ENTRY)
			it = take_entry(s, &e);
		else if (e.what != WALK_LEFT)
			walk_problem(s, &e);
		if (s->o->remove && s->walked &&
		    (e.what == WALK_LEFT || (e.what == WALK_ERROR && strcmp(s->walked->dst, e.dst) == 0)))
			walked_pop(s);
		if (it)
			return it;
	}
	walk_close(s->walk);
	s->walk = NULL;
	return NULL;
}

static struct item *from_list(struct items *v)
{
	struct item *it = v->next < v->n ? v->v[v->next] : NULL;

	if (it)
		v->v[v->next++] = NULL;
	return it;
}

/* A link whose first name was not copied is copied as a file of its own. */
static struct item *next_link(struct sender *s)
{
	struct item *it = from_list(&s->links);

	if (it && it->inode->failed) {
		it->stage = STAGE_CHECK;
		free(it->target);
		it->target = NULL;
	}
	return it;
}

/* Takes items from the end, so that a directory comes after its contents. */
static struct item *from_end(struct items *v)
{
	return v->n > 0 ? v->v[--v->n] : NULL;
}

/* The next item of the phase that was not begun yet. */
struct item *phase_next(struct sender *s)
{
	switch (s->phase) {
	case PHASE_TREES:
		return s->nopens < OPENS_WAITING ? trees_next(s) : NULL;
	case PHASE_LINKS:
		return next_link(s);
	case PHASE_LIST:
		return from_list(&s->lists);
	case PHASE_UNLINK:
		return s->o->dry_run ? NULL : from_list(&s->files_there);
	case PHASE_RMDIR:
		return s->o->dry_run ? NULL : from_end(&s->dirs_there);
	case PHASE_DIRS:
		return s->o->dry_run ? NULL : from_end(&s->dirs);
	default:
		return NULL;
	}
}

struct item *sender_next_item(struct sender *s)
{
	struct dnode *n = dlist_first(&s->todo);
	bool open = !n && s->nopen < OPEN_MAX && (n = dlist_first(&s->opens));
	struct item *it;

	if (n) {
		dlist_remove(n);
		s->nopens -= open;
		return dlist_entry(n, struct item, node);
	}
	it = phase_next(s);
	if (it && it->stage == STAGE_OPEN && s->nopen >= OPEN_MAX) {
		item_wait(s, it);
		return sender_next_item(s);
	}
	return it;
}
