/* SPDX-License-Identifier: Apache-2.0 */
/* copy_item.c - how items (struct item) wait, and how they end. */
#define _GNU_SOURCE /* strdup */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy_send_priv.h"

/* --- what is said --- */

void sender_complain(struct sender *s, const char *name, const char *what, int error)
{
	char text[512];

	progress_hide(&s->progress);
	progress_name(text, sizeof(text), name);
	fprintf(stderr, "longreach: copy: %s: %s%s%s\n", text, what, error ? ": " : "", error ? strerror(error) : "");
}

void sender_set_code(struct sender *s, int code)
{
	if (s->code == 0 || (s->code == COPY_EXIT_VANISHED && code == COPY_EXIT_PARTIAL))
		s->code = code;
}

void sender_give_up(struct sender *s, int code, const char *what)
{
	progress_hide(&s->progress);
	fprintf(stderr, "longreach: copy: %s\n", what);
	s->code = code;
	s->fatal = true;
}

void sender_say_name(struct sender *s, const char *verb, const char *dst, const char *tail)
{
	char text[COPY_PATH_MAX + 256];

	if (!s->o->verbose && !s->o->dry_run)
		return;
	progress_hide(&s->progress);
	progress_name(text, sizeof(text), dst);
	fprintf(s->o->json ? stderr : stdout, "%s%s%s\n", verb, text, tail);
}

/* --- items --- */

struct item *item_new(enum stage stage, const char *src, const char *dst, const struct stat *st)
{
	struct item *it = calloc(1, sizeof(*it));

	if (!it)
		return NULL;
	it->stage = stage;
	it->src = src ? strdup(src) : NULL;
	it->dst = strdup(dst);
	if (st)
		it->st = *st;
	if (it->dst && (it->src || !src))
		return it;
	free(it->src);
	free(it->dst);
	free(it);
	return NULL;
}

void large_free(struct sender *s, struct item *it)
{
	struct large *l = it->large;

	if (!l)
		return;
	for (uint32_t i = 0; i < s->nputs; i++)
		if (s->put[i].item == it)
			s->put[i].item = NULL;
	if (l->fd >= 0)
		close(l->fd);
	s->progress.bytes -= l->counted;
	s->nopen--;
	free(l->piece);
	free(l);
	it->large = NULL;
}

void item_free(struct sender *s, struct item *it)
{
	if (!it)
		return;
	large_free(s, it);
	free(it->src);
	free(it->dst);
	free(it->target);
	free(it->upto);
	free(it->names);
	free(it);
}

bool items_add(struct items *v, struct item *it)
{
	if (it && v->n == v->room) {
		size_t more = v->room ? 2 * v->room : 64;
		struct item **grown = realloc(v->v, more * sizeof(*grown));

		if (!grown)
			return false;
		v->v = grown;
		v->room = more;
	}
	if (!it)
		return false;
	v->v[v->n++] = it;
	return true;
}

void sender_no_memory(struct sender *s)
{
	sender_give_up(s, COPY_EXIT_MEMORY, "no memory");
}

/* Queues an item: in `opens` if it needs a place among the open files, else in `todo`. */
void item_wait(struct sender *s, struct item *it)
{
	if (it->stage == STAGE_OPEN) {
		dlist_append(&s->opens, &it->node);
		s->nopens++;
	} else {
		dlist_append(&s->todo, &it->node);
	}
}

static bool is_file(const struct item *it)
{
	return S_ISREG(it->st.st_mode) && it->stage != STAGE_LINK && it->stage != STAGE_REMOVE &&
	       it->stage != STAGE_EXTRAS;
}

void item_done(struct sender *s, struct item *it, bool copied)
{
	if (is_file(it)) {
		s->progress.files++;
		s->progress.bytes += (uint64_t)it->st.st_size - (it->large ? it->large->counted : 0);
		if (it->large)
			it->large->counted = 0; /* it stays counted */
		copied |= it->given > 0;        /* the file was found complete when checked again after a lost
		                                 * session */
		s->progress.copied += copied;
		s->progress.unchanged += !copied;
		s->progress.again += it->given > it->once ? it->given - it->once : 0;
	}
	if (it->stage == STAGE_LINK)
		s->progress.links++;
	if (it->stage == STAGE_REMOVE)
		s->progress.removed++;
	item_free(s, it);
}

/* Its other names cannot be links to it. */
static void inode_failed(const struct item *it)
{
	if (it->inode && it->stage != STAGE_LINK)
		it->inode->failed = true;
}

void item_failed(struct sender *s, struct item *it, const char *what, int error)
{
	sender_complain(s, it->src ? it->src : it->dst, what, error);
	s->progress.errors++;
	sender_set_code(s, COPY_EXIT_PARTIAL);
	inode_failed(it);
	item_free(s, it);
}

/* The source could not be read here. A source that has vanished is no error of the copy. */
void source_failed(struct sender *s, struct item *it, int error)
{
	if (error != ENOENT) {
		s->source_errors = true;
		item_failed(s, it, "cannot be read", error);
		return;
	}
	sender_complain(s, it->src, "has vanished", 0);
	s->progress.vanished++;
	sender_set_code(s, COPY_EXIT_VANISHED);
	inode_failed(it);
	item_free(s, it);
}

/* Queues an item that was under way when the session was lost: from its first stage, or from the same one. */
void item_again(struct sender *s, struct item *it)
{
	large_free(s, it);
	if (it->stage == STAGE_OPEN || it->stage == STAGE_SENDING || it->stage == STAGE_COMMIT)
		it->stage = STAGE_CHECK;
	item_wait(s, it);
}

/* Queues the file from the beginning: it has changed, or its digest at the other end differs. */
void item_anew(struct sender *s, struct item *it, const struct stat *st)
{
	large_free(s, it);
	if (++it->rounds > ROUNDS_MAX) {
		item_failed(s, it, "changes while it is copied", 0);
		return;
	}
	if (st)
		it->st = *st;
	it->anew = true;
	it->stage = it->st.st_size > COPY_SMALL_MAX ? STAGE_OPEN : STAGE_FILE;
	item_wait(s, it);
}

void item_anew_source(struct sender *s, struct item *it)
{
	struct stat st;

	item_anew(s, it, fstat(it->large->fd, &st) == 0 ? &st : NULL);
}
