/* SPDX-License-Identifier: Apache-2.0 */
/* copy_send.c - items on their way: what is to be done, in batches and pieces, over as many losses as there are.
 *
 * Theory of operation
 *
 * An item is one thing to be done at the other end: a file to be looked at, then written; a link; a directory's mode. It
 * has a stage, and each reply of the server moves it to the next or ends it. Items wait in `todo`; next_batch() puts as
 * many as fit into a message, and as many messages are under way as the server's window says: so a round trip costs
 * nothing but at the end of a phase. Large files that are open are in `sending`; their pieces are puts of the relay.
 *
 * Phases follow one another, each when nothing of the one before is under way: the trees; hard links; what is to be
 * removed (listed, files, directories); the modes and times of directories, which everything before would change.
 * Directories are made by whatever needs them first, as batches overtake each other.
 *
 * When the session is lost (a daemon or the server started again, a link that was down for long), the connection is
 * closed and opened again, and every item that was under way begins once more: a file is looked at again, and the server
 * knows from its journal what of it is there. Nothing else is kept, here or there. */
#include "copy_send.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "copy/wire/copy_hash.h"
#include "copy_progress.h"
#include "copy_source.h"
#include "copy_walk.h"
#include "lib/longreach.h"
#include "proxy/util/dlist.h"

enum send_limits {
	OPEN_MAX = 64,            /* large files at a time */
	OPENS_WAITING = 1024,     /* before no more is taken from the trees */
	PUTS_MAX = 960,           /* of the relay's 1,024 for a program */
	BATCHES_MAX = 62,
	TRIES_MAX = 12,
	ROUNDS_MAX = 4,           /* of a file that changes, or arrives wrong */
	TURN_PIECES = 8,          /* between looks at what has come */
	NAMES_MAX = 40 << 10,     /* bytes of names in an EXTRAS */
};

#define WINDOW_LEAST (8u << 20)   /* bytes of puts under way */
#define WINDOW_MOST  (512u << 20)

#define SIGN_OF_LIFE_S 0.3

enum stage {
	STAGE_CHECK,
	STAGE_DIR,
	STAGE_FILE,
	STAGE_OPEN,
	STAGE_SENDING,
	STAGE_COMMIT,
	STAGE_SYMLINK,
	STAGE_LINK,
	STAGE_META,
	STAGE_EXTRAS,
	STAGE_REMOVE,
};

enum phase { PHASE_TREES, PHASE_LINKS, PHASE_LIST, PHASE_UNLINK, PHASE_RMDIR, PHASE_DIRS, PHASE_END };

/* A large file that is open at both ends. */
struct large {
	int fd;
	char region[COPY_REGION_MAX];
	struct source_piece *piece;
	uint32_t n, next, under_way;
	uint64_t counted; /* of it in progress.bytes */
};

struct item {
	struct dnode node; /* in todo, opens or sending */
	enum stage stage;
	uint8_t tries, rounds;
	bool anew;
	uint8_t kind; /* REMOVE */
	struct stat st;
	char *src, *dst;
	char *target;        /* SYMLINK: text; LINK: dst of the first name; EXTRAS: `after` */
	char *upto;          /* EXTRAS */
	uint8_t *names;      /* EXTRAS: what is kept */
	size_t names_len;
	uint64_t given;      /* bytes of it that were given to the relay, ever */
	struct large *large;
};

struct items {
	struct item **v;
	size_t n, room, next;
};

struct batch {
	bool used;
	uint64_t op;
	uint32_t n;
	struct item *item[COPY_ENTRIES_MAX];
};

struct put {
	uint64_t op;
	struct item *item; /* NULL: nobody waits for it */
	uint32_t piece;
};

/* A directory that is walked now: the names in it, for --delete. */
struct walked {
	struct walked *above;
	char *dst;
	struct copy_out names;
	size_t room;
};

struct name_of_inode {
	dev_t dev;
	ino_t ino;
	char *dst;
};

struct sender {
	const struct copy_options *o;
	struct lr *lr;
	uint64_t session;
	char base[COPY_PATH_MAX + 1];
	char *name;      /* of the only source, if it gets another one */
	bool fresh;      /* nothing is there: no need to look */
	bool nothing;    /* and no session either: a dry run */
	bool lost;
	enum phase phase;
	struct walk *walk;
	struct walked *walked;
	struct dnode todo, opens, sending;
	uint32_t nopens, nopen; /* waiting; open, or asked for */
	struct batch *batch; /* BATCHES_MAX */
	uint32_t nbatches, window;
	struct put put[PUTS_MAX];
	uint32_t nputs;
	uint64_t put_bytes, put_window;
	double window_s; /* when it was worked out */
	double alive_s;  /* when something came last */
	double said_s;   /* when a batch went last */
	struct items links, dirs, lists, files_there, dirs_there;
	struct name_of_inode *inode; /* a table of ninodes_room places */
	size_t ninodes, ninodes_room;
	struct progress progress;
	int code;        /* of what went wrong, 0: nothing */
	bool fatal, source_errors;
	uint8_t message[COPY_MSG_MAX], data[COPY_PIECE_MAX], xattrs[COPY_XATTRS_MAX];
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* --- what is said --- */

static void complain(struct sender *s, const char *name, const char *what, int error)
{
	char text[512];

	progress_hide(&s->progress);
	progress_name(text, sizeof(text), name);
	fprintf(stderr, "longreach: copy: %s: %s%s%s\n", text, what, error ? ": " : "", error ? strerror(error) : "");
}

static void set_code(struct sender *s, int code)
{
	if (s->code == 0 || (s->code == COPY_EXIT_VANISHED && code == COPY_EXIT_PARTIAL))
		s->code = code;
}

static void give_up(struct sender *s, int code, const char *what)
{
	progress_hide(&s->progress);
	fprintf(stderr, "longreach: copy: %s\n", what);
	s->code = code;
	s->fatal = true;
}

static void say_name(struct sender *s, const char *verb, const char *dst, const char *tail)
{
	char text[COPY_PATH_MAX + 256];

	if (!s->o->verbose && !s->o->dry_run)
		return;
	progress_hide(&s->progress);
	progress_name(text, sizeof(text), dst);
	fprintf(s->o->json ? stderr : stdout, "%s%s%s\n", verb, text, tail);
}

/* --- items --- */

static struct item *item_new(enum stage stage, const char *src, const char *dst, const struct stat *st)
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

static void large_free(struct sender *s, struct item *it)
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

static void item_free(struct sender *s, struct item *it)
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

static bool items_add(struct items *v, struct item *it)
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

static void no_memory(struct sender *s)
{
	give_up(s, COPY_EXIT_MEMORY, "no memory");
}

/* To be done: `opens` if it needs a place among the open files. */
static void item_wait(struct sender *s, struct item *it)
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
	return S_ISREG(it->st.st_mode) && it->stage != STAGE_LINK && it->stage != STAGE_REMOVE && it->stage != STAGE_EXTRAS;
}

static void item_done(struct sender *s, struct item *it, bool copied)
{
	if (is_file(it)) {
		s->progress.files++;
		s->progress.bytes += (uint64_t)it->st.st_size - (it->large ? it->large->counted : 0);
		if (it->large)
			it->large->counted = 0; /* it stays counted */
		s->progress.copied += copied;
		s->progress.unchanged += !copied;
	}
	if (it->stage == STAGE_LINK)
		s->progress.links++;
	if (it->stage == STAGE_REMOVE)
		s->progress.removed++;
	item_free(s, it);
}

static void item_failed(struct sender *s, struct item *it, const char *what, int error)
{
	complain(s, it->src ? it->src : it->dst, what, error);
	s->progress.errors++;
	set_code(s, COPY_EXIT_PARTIAL);
	item_free(s, it);
}

/* Here. What is gone is no error of the copy. */
static void source_failed(struct sender *s, struct item *it, int error)
{
	if (error != ENOENT) {
		s->source_errors = true;
		item_failed(s, it, "cannot be read", error);
		return;
	}
	complain(s, it->src, "has vanished", 0);
	s->progress.vanished++;
	set_code(s, COPY_EXIT_VANISHED);
	item_free(s, it);
}

/* From the beginning, or as before: what an item needs that was under way when the session was lost. */
static void item_again(struct sender *s, struct item *it)
{
	large_free(s, it);
	if (it->stage == STAGE_OPEN || it->stage == STAGE_SENDING || it->stage == STAGE_COMMIT)
		it->stage = STAGE_CHECK;
	item_wait(s, it);
}

/* The file is another one than before, or did not arrive as it is. */
static void item_anew(struct sender *s, struct item *it, const struct stat *st)
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

/* --- encoding --- */

/* Opens the source, which must be what it was. -1: it is not, and the item is gone or waits anew. */
static int open_source(struct sender *s, struct item *it)
{
	struct stat st;
	int fd = open(it->src, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		source_failed(s, it, error);
		return -1;
	}
	if (!S_ISREG(st.st_mode)) {
		close(fd);
		source_failed(s, it, ENOENT);
		return -1;
	}
	if ((st.st_size > COPY_SMALL_MAX) != (it->st.st_size > COPY_SMALL_MAX)) {
		close(fd);
		item_anew(s, it, &st);
		return -1;
	}
	it->st = st;
	return fd;
}

/* 1: it is in the message; 0: no room in this one; -1: the item is gone. */
static int put_entry(struct copy_out *o, const struct copy_entry *e)
{
	return copy_entry_put(o, e);
}

static int encode_file(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	int fd, r;

	/* before it is read: most batches end here */
	if (o->cap - o->len < (size_t)it->st.st_size + strlen(it->dst) + 64)
		return 0;
	fd = open_source(s, it);
	if (fd < 0)
		return -1;
	r = source_read(fd, s->data, (size_t)it->st.st_size, 0);
	if (r == 0) {
		source_meta(&it->st, &e->meta);
		source_xattrs(fd, NULL, s->xattrs, &e->meta);
	}
	close(fd);
	if (r == -ENODATA) {
		item_anew(s, it, NULL);
		return -1;
	}
	if (r < 0) {
		source_failed(s, it, -r);
		return -1;
	}
	e->type = COPY_FILE;
	e->data = (struct copy_bytes){s->data, (size_t)it->st.st_size};
	e->hash = copy_hash(s->data, (size_t)it->st.st_size);
	r = put_entry(o, e);
	if (r == 1) {
		s->progress.sent += (uint64_t)it->st.st_size;
		if (it->given)
			s->progress.again += (uint64_t)it->st.st_size;
		it->given = (uint64_t)it->st.st_size;
	}
	return r;
}

static int encode_open(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	struct large *l;
	int fd;

	if (o->cap - o->len < strlen(it->dst) + 64)
		return 0;
	fd = open_source(s, it);
	if (fd < 0)
		return -1;
	l = calloc(1, sizeof(*l));
	if (!l) {
		close(fd);
		no_memory(s);
		item_free(s, it);
		return -1;
	}
	l->fd = fd;
	it->large = l;
	s->nopen++;
	l->piece = source_pieces(fd, (uint64_t)it->st.st_size, &l->n);
	if (!l->piece) {
		source_failed(s, it, ENOMEM);
		return -1;
	}
	e->type = COPY_OPEN;
	e->anew = it->anew;
	e->size = (uint64_t)it->st.st_size;
	source_meta(&it->st, &e->meta);
	return put_entry(o, e);
}

static bool same_source(const struct item *it)
{
	struct stat st;

	return fstat(it->large->fd, &st) == 0 && st.st_size == it->st.st_size &&
	       st.st_mtim.tv_sec == it->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == it->st.st_mtim.tv_nsec;
}

static int encode_commit(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	const struct large *l = it->large;
	struct copy_digest d;

	if (!same_source(it)) {
		struct stat st;

		item_anew(s, it, fstat(l->fd, &st) == 0 ? &st : NULL);
		return -1;
	}
	e->type = COPY_COMMIT;
	memcpy(e->region, l->region, sizeof(e->region));
	e->size = (uint64_t)it->st.st_size;
	source_meta(&it->st, &e->meta);
	source_xattrs(l->fd, NULL, s->xattrs, &e->meta);
	copy_digest_begin(&d);
	for (uint32_t i = 0; i < l->n; i++)
		copy_digest_add(&d, l->piece[i].offset, l->piece[i].length, l->piece[i].hash);
	copy_digest_end(&d, e->digest);
	return put_entry(o, e);
}

static int encode_check(const struct item *it, struct copy_out *o, struct copy_entry *e)
{
	e->type = COPY_CHECK;
	e->kind = S_ISREG(it->st.st_mode) ? COPY_REGULAR : S_ISDIR(it->st.st_mode) ? COPY_DIRECTORY : COPY_SYMLINK;
	e->size = (uint64_t)it->st.st_size;
	source_meta(&it->st, &e->meta);
	if (it->target)
		e->target = copy_text(it->target);
	return put_entry(o, e);
}

static int encode_meta(struct sender *s, struct item *it, struct copy_out *o, struct copy_entry *e)
{
	e->type = COPY_META;
	source_meta(&it->st, &e->meta);
	source_xattrs(-1, it->src, s->xattrs, &e->meta);
	return put_entry(o, e);
}

static int encode(struct sender *s, struct item *it, struct copy_out *o)
{
	struct copy_entry e = {.path = copy_text(it->dst)};

	switch (it->stage) {
	case STAGE_CHECK:
		return encode_check(it, o, &e);
	case STAGE_FILE:
		return encode_file(s, it, o, &e);
	case STAGE_OPEN:
		return encode_open(s, it, o, &e);
	case STAGE_COMMIT:
		return encode_commit(s, it, o, &e);
	case STAGE_META:
		return encode_meta(s, it, o, &e);
	case STAGE_SYMLINK:
		e.type = COPY_LINK_SYM;
		source_meta(&it->st, &e.meta);
		e.target = copy_text(it->target);
		return put_entry(o, &e);
	case STAGE_LINK:
		e.type = COPY_LINK_HARD;
		e.target = copy_text(it->target);
		return put_entry(o, &e);
	case STAGE_EXTRAS:
		e.type = COPY_EXTRAS;
		if (it->target)
			e.after = copy_text(it->target);
		if (it->upto)
			e.upto = copy_text(it->upto);
		e.data = (struct copy_bytes){it->names, it->names_len};
		return put_entry(o, &e);
	default:
		e.type = it->stage == STAGE_DIR ? COPY_DIR : COPY_REMOVE;
		return put_entry(o, &e);
	}
}

/* --- where items come from --- */

/* The first name of a file with several; NULL: this is it, and is remembered. */
static const char *first_name(struct sender *s, const struct stat *st, const char *dst)
{
	size_t at;

	if (2 * (s->ninodes + 1) > s->ninodes_room) {
		size_t more = s->ninodes_room ? 2 * s->ninodes_room : 1024;
		struct name_of_inode *grown = calloc(more, sizeof(*grown));

		if (!grown)
			return NULL; /* then it is copied as a file of its own */
		for (size_t i = 0; i < s->ninodes_room; i++) {
			if (!s->inode[i].dst)
				continue;
			for (at = (size_t)s->inode[i].ino & (more - 1); grown[at].dst; at = (at + 1) & (more - 1))
				;
			grown[at] = s->inode[i];
		}
		free(s->inode);
		s->inode = grown;
		s->ninodes_room = more;
	}
	for (at = (size_t)st->st_ino & (s->ninodes_room - 1); s->inode[at].dst; at = (at + 1) & (s->ninodes_room - 1))
		if (s->inode[at].dev == st->st_dev && s->inode[at].ino == st->st_ino)
			return s->inode[at].dst;
	s->inode[at] = (struct name_of_inode){st->st_dev, st->st_ino, strdup(dst)};
	s->ninodes += s->inode[at].dst != NULL;
	return NULL;
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
			no_memory(s);
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
		no_memory(s);
		return;
	}
	d->above = s->walked;
	s->walked = d;
}

/* One question about a directory: the names from names[from] on that are in it, up to `upto`. */
static void list_add(struct sender *s, const struct walked *d, size_t from, size_t to, const char *after, const char *upto)
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
		no_memory(s);
}

/* The directory is through: what else is there is asked for, as many names at a time as a message holds. */
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

static char *read_target(const char *src)
{
	char text[COPY_PATH_MAX + 1];
	ssize_t n = readlink(src, text, sizeof(text) - 1);

	if (n < 0)
		return NULL;
	text[n] = '\0';
	return strdup(text);
}

static struct item *take_directory(struct sender *s, const struct walk_entry *e)
{
	struct item *meta = item_new(STAGE_META, e->src, e->dst, &e->st);

	if (!items_add(&s->dirs, meta))
		no_memory(s);
	if (s->o->remove)
		walked_push(s, e->dst);
	if (!e->dst[0])
		return NULL;
	return item_new(s->o->dry_run ? STAGE_CHECK : STAGE_DIR, e->src, e->dst, &e->st);
}

/* NULL: nothing to be done about it now. */
static struct item *take_entry(struct sender *s, const struct walk_entry *e)
{
	const char *first = NULL;
	struct item *it;

	if (s->o->remove)
		walked_add(s, e->dst);
	if (S_ISDIR(e->st.st_mode))
		return take_directory(s, e);
	if (S_ISREG(e->st.st_mode) && e->st.st_nlink > 1)
		first = first_name(s, &e->st, e->dst);
	it = item_new(first ? STAGE_LINK : STAGE_CHECK, e->src, e->dst, &e->st);
	if (!it) {
		no_memory(s);
		return NULL;
	}
	if (first) {
		it->target = strdup(first);
		if (!it->target || !items_add(&s->links, it))
			no_memory(s);
		return NULL;
	}
	if (S_ISLNK(e->st.st_mode)) {
		it->target = read_target(e->src);
		if (!it->target) {
			source_failed(s, it, errno);
			return NULL;
		}
	}
	if (s->fresh && !s->o->dry_run) {
		it->stage = S_ISLNK(e->st.st_mode)               ? STAGE_SYMLINK
		            : e->st.st_size > COPY_SMALL_MAX ? STAGE_OPEN
		                                                 : STAGE_FILE;
		say_name(s, "", it->dst, "");
	}
	return it;
}

static void walk_problem(struct sender *s, const struct walk_entry *e)
{
	if (e->what == WALK_OTHER) {
		complain(s, e->src, "is no file, directory or symbolic link: left out", 0);
		s->progress.skipped++;
		return;
	}
	complain(s, e->src, "cannot be read", e->error);
	s->progress.errors++;
	s->source_errors = true;
	set_code(s, COPY_EXIT_PARTIAL);
}

/* The next item of the trees, NULL: there is no more. */
static struct item *from_trees(struct sender *s)
{
	static struct walk_entry e;

	while (!s->fatal && s->walk && walk_next(s->walk, &e)) {
		struct item *it = NULL;

		if (e.what == WALK_ENTRY)
			it = take_entry(s, &e);
		else if (e.what != WALK_LEFT)
			walk_problem(s, &e);
		if (s->o->remove && s->walked && (e.what == WALK_LEFT || (e.what == WALK_ERROR && strcmp(s->walked->dst, e.dst) == 0)))
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

/* The last one first: a directory behind what is in it. */
static struct item *from_end(struct items *v)
{
	return v->n > 0 ? v->v[--v->n] : NULL;
}

/* Something that the phase has not begun with yet. */
static struct item *from_phase(struct sender *s)
{
	switch (s->phase) {
	case PHASE_TREES:
		return s->nopens < OPENS_WAITING ? from_trees(s) : NULL;
	case PHASE_LINKS:
		return from_list(&s->links);
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

static struct item *next_item(struct sender *s)
{
	struct dnode *n = dlist_first(&s->todo);
	bool open = !n && s->nopen < OPEN_MAX && (n = dlist_first(&s->opens));
	struct item *it;

	if (n) {
		dlist_remove(n);
		s->nopens -= open;
		return dlist_entry(n, struct item, node);
	}
	it = from_phase(s);
	if (it && it->stage == STAGE_OPEN && s->nopen >= OPEN_MAX) {
		item_wait(s, it);
		return next_item(s);
	}
	return it;
}

/* --- batches --- */

static uint32_t window(const struct sender *s)
{
	/* what must be in order goes one by one */
	return s->phase == PHASE_RMDIR || s->phase == PHASE_DIRS ? 1 : s->window < BATCHES_MAX ? s->window : BATCHES_MAX;
}

static struct batch *batch_place(struct sender *s)
{
	for (uint32_t i = 0; i < BATCHES_MAX; i++)
		if (!s->batch[i].used)
			return &s->batch[i];
	return NULL;
}

static uint8_t type_of(const struct item *it)
{
	return it->stage == STAGE_OPEN ? COPY_OPEN : it->stage == STAGE_COMMIT ? COPY_COMMIT : COPY_DIR;
}

/* An item back in front of those that wait. */
static void item_first(struct sender *s, struct item *it)
{
	if (it->stage == STAGE_OPEN && it->large) {
		large_free(s, it); /* it was opened, and had no room */
	}
	dlist_insert_before(it->stage == STAGE_OPEN ? s->opens.next : s->todo.next, &it->node);
	s->nopens += it->stage == STAGE_OPEN;
}

/* As many items as fit. False: there are none. */
static bool fill_batch(struct sender *s, struct batch *b, struct copy_out *o)
{
	struct copy_head h = {.op = COPY_BATCH, .session = s->session};
	size_t reply = 64;
	struct item *it;

	b->n = 0;
	copy_head_put(o, &h);
	while (!s->fatal && b->n < COPY_ENTRIES_MAX && reply + copy_result_max(COPY_OPEN) < COPY_MSG_MAX && (it = next_item(s))) {
		int r;

		if (it->stage == STAGE_EXTRAS && b->n > 0) { /* its answer may be as large as a message */
			item_first(s, it);
			break;
		}
		r = encode(s, it, o);
		if (r == 0 && b->n > 0) {
			item_first(s, it);
			break;
		}
		if (r == 0)
			item_failed(s, it, "is too long to be said", 0);
		if (r != 1)
			continue;
		reply += copy_result_max(type_of(it));
		b->item[b->n++] = it;
		if (it->stage == STAGE_EXTRAS)
			break;
	}
	return b->n > 0;
}

static void send_batch(struct sender *s, struct batch *b, const struct copy_out *o)
{
	char service[LR_NAME_MAX];

	snprintf(service, sizeof(service), COPY_SERVICE_PREFIX "%s", s->o->export);
	b->used = true;
	s->nbatches++;
	s->said_s = progress_seconds();
	if (lr_call(s->lr, service, o->buf, o->len, &b->op) < 0)
		s->lost = true; /* the batch is taken apart then */
}

static void send_batches(struct sender *s)
{
	while (!s->lost && !s->fatal && s->nbatches < window(s)) {
		struct copy_out o = {.buf = s->message, .cap = sizeof(s->message)};
		struct batch *b = batch_place(s);

		if (!b || !fill_batch(s, b, &o))
			return;
		send_batch(s, b, &o);
	}
}

/* Puts alone would not tell that the server has gone: after a start of its daemon they wait for their region to come back.
 * A batch of nothing is answered, or fails at once; and the server sees that the session lives. */
static void send_sign_of_life(struct sender *s)
{
	struct copy_out o = {.buf = s->message, .cap = sizeof(s->message)};
	struct copy_head h = {.op = COPY_BATCH, .session = s->session};
	struct batch *b = batch_place(s);

	if (s->lost || s->fatal || s->nbatches > 0 || s->nputs == 0 || progress_seconds() - s->said_s < SIGN_OF_LIFE_S)
		return;
	copy_head_put(&o, &h);
	b->n = 0;
	send_batch(s, b, &o);
}

/* --- pieces --- */

static void work_out_window(struct sender *s)
{
	double now = progress_seconds();
	struct lr_rate rate;
	uint64_t bytes;

	if (now - s->window_s < 1 && s->put_window)
		return;
	s->window_s = now;
	s->put_window = WINDOW_LEAST;
	if (lr_rate(s->lr, &rate) < 0)
		return;
	bytes = WINDOW_LEAST + (uint64_t)(2 * (double)rate.line_bps / 8 * (double)rate.rtt_ns / 1e9);
	s->put_window = bytes < WINDOW_MOST ? bytes : WINDOW_MOST;
}

static void item_all_sent(struct sender *s, struct item *it)
{
	struct large *l = it->large;

	if (l->next < l->n || l->under_way > 0)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->piece[i].state == PIECE_TODO) {
			l->next = i; /* failed on its way */
			return;
		}
	dlist_remove(&it->node);
	it->stage = STAGE_COMMIT;
	item_wait(s, it);
}

/* False: no more can be given now, or the item is gone. */
static bool put_piece(struct sender *s, struct item *it, uint32_t i)
{
	struct source_piece *p = &it->large->piece[i];
	uint8_t notice[COPY_NOTICE_LEN];
	struct lr_transfer t = {.fd = it->large->fd,
	                        .offset = p->offset,
	                        .length = p->length,
	                        .region = it->large->region,
	                        .region_offset = p->offset,
	                        .promise = LR_DONE,
	                        .notice = notice,
	                        .notice_len = sizeof(notice)};
	struct put *put = &s->put[s->nputs];
	int r;

	copy_notice_put(notice, p->hash);
	r = lr_put(s->lr, &t, &put->op);
	if (r < 0) {
		s->lost |= r != -EAGAIN;
		return false;
	}
	put->item = it;
	put->piece = i;
	s->nputs++;
	s->put_bytes += p->length;
	it->large->under_way++;
	p->state = PIECE_UNDER_WAY;
	s->progress.sent += p->length;
	return true;
}

/* One piece of it. False: see put_piece(). */
static bool send_piece(struct sender *s, struct item *it)
{
	struct large *l = it->large;
	struct source_piece *p = &l->piece[l->next];
	int r;

	if (!p->hashed) {
		r = source_read(l->fd, s->data, p->length, p->offset);
		if (r < 0) {
			dlist_remove(&it->node);
			if (r == -ENODATA)
				item_anew(s, it, NULL);
			else
				source_failed(s, it, -r);
			return false;
		}
		p->hash = copy_hash(s->data, p->length);
		p->hashed = true;
	}
	if (p->state == PIECE_TODO && !put_piece(s, it, l->next))
		return false;
	l->next++;
	item_all_sent(s, it);
	return true;
}

static struct item *with_pieces(struct sender *s)
{
	for (struct dnode *n = s->sending.next; n != &s->sending; n = n->next) {
		struct item *it = dlist_entry(n, struct item, node);

		if (it->large->next < it->large->n)
			return it;
	}
	return NULL;
}

/* Returns whether there is more that could go at once. */
static bool send_pieces(struct sender *s)
{
	struct item *it;

	for (unsigned i = 0; i < TURN_PIECES; i++) {
		if (s->lost || s->nputs == PUTS_MAX || s->put_bytes >= s->put_window || !(it = with_pieces(s)))
			return false;
		if (!send_piece(s, it))
			return false;
	}
	return true;
}

/* --- results --- */

static void take_ranges(struct sender *s, struct item *it, const struct copy_result *r)
{
	struct large *l = it->large;

	s->progress.bytes -= l->counted;
	l->counted = 0;
	for (uint32_t i = 0; i < l->n; i++) {
		struct source_piece *p = &l->piece[i];

		p->state = source_is_there(p, r->range, r->nranges) ? PIECE_THERE : PIECE_TODO;
		if (p->state == PIECE_THERE)
			l->counted += p->length;
	}
	s->progress.bytes += l->counted;
	l->next = 0;
}

static void on_opened(struct sender *s, struct item *it, const struct copy_result *r)
{
	struct large *l = it->large;

	memcpy(l->region, r->region, sizeof(l->region));
	take_ranges(s, it, r);
	s->progress.present += l->counted;
	/* given before by this process, and not there: it goes a second time */
	if (it->given > l->counted)
		s->progress.again += it->given - l->counted;
	it->given = 0;
	it->anew = false;
	it->stage = STAGE_SENDING;
	dlist_append(&s->sending, &it->node);
	item_all_sent(s, it);
}

static void on_commit(struct sender *s, struct item *it, const struct copy_result *r)
{
	struct large *l = it->large;
	uint64_t there;

	if (r->state == COPY_DONE) {
		item_done(s, it, true);
		return;
	}
	take_ranges(s, it, r);
	there = l->counted;
	if (++it->rounds > ROUNDS_MAX) {
		item_failed(s, it, "does not arrive as it is: does it change?", 0);
		return;
	}
	for (uint32_t i = 0; i < l->n; i++)
		if (l->piece[i].state == PIECE_TODO) {
			l->piece[i].hashed = false; /* read while it changed, perhaps */
			s->progress.again += l->piece[i].length;
		}
	it->stage = STAGE_SENDING;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->piece[i].state == PIECE_TODO) {
			dlist_append(&s->sending, &it->node);
			return;
		}
	s->progress.again += there;
	item_anew(s, it, NULL); /* all is there, and is not it */
}

/* What is not, or not so, at the other end. */
static void transfer(struct sender *s, struct item *it)
{
	if (S_ISDIR(it->st.st_mode)) {
		say_name(s, "", it->dst, "/");
		item_done(s, it, true);
		return;
	}
	say_name(s, "", it->dst, "");
	if (s->o->dry_run) {
		item_done(s, it, true);
		return;
	}
	it->stage = S_ISLNK(it->st.st_mode)              ? STAGE_SYMLINK
	            : it->st.st_size > COPY_SMALL_MAX ? STAGE_OPEN
	                                                 : STAGE_FILE;
	item_wait(s, it);
}

static void on_check(struct sender *s, struct item *it, const struct copy_result *r)
{
	if (r->state == COPY_DONE) {
		item_done(s, it, false);
	} else if (r->state == COPY_META_DIFFERS && S_ISREG(it->st.st_mode) && !s->o->dry_run) {
		it->stage = STAGE_META;
		item_wait(s, it);
	} else if (r->state == COPY_META_DIFFERS) {
		item_done(s, it, false);
	} else {
		transfer(s, it);
	}
}

/* One entry there that is not here: to be removed, a directory with all that is in it. */
static void on_extra(struct sender *s, const char *dir, uint8_t kind, const char *name)
{
	char path[COPY_PATH_MAX + COPY_NAME_MAX + 2];
	struct item *it, *list;

	snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", name);
	if (strncmp(name, ".longreach-", 11) != 0 && walk_excludes(s->o, path, kind == COPY_DIRECTORY))
		return;
	say_name(s, "removed: ", path, kind == COPY_DIRECTORY ? "/" : "");
	it = item_new(STAGE_REMOVE, NULL, path, NULL);
	if (it)
		it->kind = kind;
	if (!items_add(kind == COPY_DIRECTORY ? &s->dirs_there : &s->files_there, it)) {
		no_memory(s);
		return;
	}
	if (kind != COPY_DIRECTORY)
		return;
	list = item_new(STAGE_EXTRAS, NULL, path, NULL);
	if (!list)
		no_memory(s);
	else
		item_wait(s, list);
}

static void on_extras(struct sender *s, struct item *it, const struct copy_result *r)
{
	struct copy_in in = {r->list.p, r->list.len};
	char name[COPY_NAME_MAX + 1] = "";
	uint8_t kind;

	while (r->list.len > 0 && copy_name_next(&in, &kind, name))
		on_extra(s, it->dst, kind, name);
	if (r->state != COPY_MORE || !*name) {
		item_free(s, it);
		return;
	}
	free(it->target);
	it->target = strdup(name);
	item_wait(s, it);
}

/* What may be otherwise the next time: a directory that is made by a batch that came later, a file whose region has gone,
 * a server that has many files open. */
static bool may_pass(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE || error == EMFILE || error == EEXIST;
}

static void on_error(struct sender *s, struct item *it, int error)
{
	if (it->stage == STAGE_REMOVE && it->kind == COPY_DIRECTORY && error == ENOTEMPTY) {
		item_free(s, it); /* something in it is excluded */
		return;
	}
	if (it->stage == STAGE_EXTRAS && (error == ENOENT || error == ENOTDIR)) {
		item_free(s, it); /* a dry run: it is not there yet */
		return;
	}
	if (may_pass(error) && ++it->tries < TRIES_MAX) {
		item_again(s, it);
		return;
	}
	item_failed(s, it, "at the other end", error);
}

static void on_result(struct sender *s, struct item *it, const struct copy_result *r)
{
	if (r->error) {
		on_error(s, it, r->error);
		return;
	}
	switch (it->stage) {
	case STAGE_CHECK:
		on_check(s, it, r);
		break;
	case STAGE_OPEN:
		on_opened(s, it, r);
		break;
	case STAGE_COMMIT:
		on_commit(s, it, r);
		break;
	case STAGE_EXTRAS:
		on_extras(s, it, r);
		break;
	case STAGE_FILE:
		if (r->state == COPY_CORRUPT)
			item_anew(s, it, NULL);
		else
			item_done(s, it, true);
		break;
	case STAGE_META:
		item_done(s, it, false);
		break;
	default:
		item_done(s, it, true);
		break;
	}
}

/* Its items wait again. */
static void batch_again(struct sender *s, struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		item_again(s, b->item[i]);
	b->used = false;
	s->nbatches--;
}

static void on_reply(struct sender *s, struct batch *b, const struct lr_event *ev)
{
	static struct copy_result r;
	static uint8_t reply[COPY_MSG_MAX];
	struct copy_in in = {reply, ev->len};
	struct copy_head h;
	uint32_t i = 0;

	if (ev->status == LR_OK && ev->len <= sizeof(reply))
		memcpy(reply, ev->data, ev->len); /* results ask the library for more */
	if (ev->status == LR_NO_ROOM) {
		batch_again(s, b);
		return;
	}
	if (ev->status == LR_PERMISSION || ev->len > sizeof(reply)) {
		give_up(s, COPY_EXIT_PROTOCOL, "the other edge does not understand: is it of another version?");
		return;
	}
	if (ev->status != LR_OK || !copy_head_get(&in, &h) || h.window == 0) {
		s->lost = true;
		return;
	}
	s->window = h.window;
	for (; i < b->n && copy_result_get(&in, &r); i++)
		on_result(s, b->item[i], &r);
	if (i < b->n)
		give_up(s, COPY_EXIT_PROTOCOL, "the other edge's reply makes no sense: is it of another version?");
	b->used = false;
	s->nbatches--;
}

static void on_put(struct sender *s, struct put *put, enum lr_status status)
{
	struct item *it = put->item;
	uint32_t i = put->piece;
	struct source_piece *p;

	*put = s->put[--s->nputs];
	if (!it)
		return;
	p = &it->large->piece[i];
	it->large->under_way--;
	s->put_bytes -= p->length;
	if (status == LR_OK) {
		p->state = PIECE_THERE;
		it->large->counted += p->length;
		s->progress.bytes += p->length;
		it->given += p->length;
	} else {
		p->state = PIECE_TODO;
		s->progress.again += p->length;
		if (status == LR_NO_REGION || status == LR_NO_RELAY || status == LR_PEER_RESTARTED) {
			s->lost = true;
			return;
		}
		if (++it->tries >= TRIES_MAX) {
			dlist_remove(&it->node);
			item_failed(s, it, lr_strerror(status), 0);
			return;
		}
	}
	item_all_sent(s, it);
}

static void on_done(struct sender *s, const struct lr_event *ev)
{
	for (uint32_t i = 0; i < s->nputs; i++)
		if (s->put[i].op == ev->id) {
			on_put(s, &s->put[i], ev->status);
			return;
		}
	for (uint32_t i = 0; i < BATCHES_MAX; i++)
		if (s->batch[i].used && s->batch[i].op == ev->id) {
			on_reply(s, &s->batch[i], ev);
			return;
		}
}

/* --- the session --- */

static void pause_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&ts, NULL);
}

static bool timed_out(const struct sender *s)
{
	return progress_seconds() - s->alive_s > s->o->timeout_s;
}

/* Asks for a session. 0: *a says what became of it; else 1 + enum lr_status, or -errno. */
static int ask_session(struct sender *s, const char *path, uint8_t flags, struct copy_session *a)
{
	struct copy_head h = {.op = COPY_SESSION};
	struct copy_out o = {.buf = s->message, .cap = sizeof(s->message)};
	char service[LR_NAME_MAX];
	struct lr_event ev;
	uint64_t op = 0;
	int r;

	if (getrandom(&s->session, sizeof(s->session), 0) < 0)
		s->session = (uint64_t)(progress_seconds() * 1e9);
	h.session = s->session;
	copy_head_put(&o, &h);
	copy_session_ask_put(&o, copy_text(path), flags);
	snprintf(service, sizeof(service), COPY_SERVICE_PREFIX "%s", s->o->export);
	r = lr_call(s->lr, service, o.buf, o.len, &op);
	while (r >= 0 && !interrupted) {
		struct copy_in in;

		r = lr_wait(s->lr, &ev, 200);
		if (r == 0 && timed_out(s))
			return -ETIMEDOUT;
		if (r == 0)
			progress_show(&s->progress, "the other edge");
		if (r != 1 || ev.type != LR_EV_DONE || ev.id != op)
			continue;
		in = (struct copy_in){ev.data, ev.len};
		if (ev.status != LR_OK)
			return 1 + (int)ev.status;
		if (!copy_head_get(&in, &h) || !copy_session_get(&in, a))
			return 1 + LR_PERMISSION;
		s->window = h.window;
		return 0;
	}
	return r < 0 ? r : -EINTR;
}

static int connect_relay(struct sender *s)
{
	lr_close(s->lr);
	s->lr = NULL;
	return lr_open(s->o->link, s->o->socket, &s->lr);
}

static bool cannot_connect(struct sender *s, int r)
{
	char text[256];

	if (r == -EACCES)
		snprintf(text, sizeof(text), "link %s: not allowed: root and members of [Relay] Group= may use it", s->o->link);
	else if (r == -ENOENT || r == -ECONNREFUSED)
		snprintf(text, sizeof(text), "link %s has no relay here: is longreachd running, with [Relay] Enable=yes?",
		         s->o->link);
	else
		snprintf(text, sizeof(text), "link %s: %s", s->o->link, strerror(-r));
	give_up(s, COPY_EXIT_SOCKET, text);
	return false;
}

static bool cannot_start(struct sender *s, int r, const struct copy_session *a)
{
	char text[COPY_PATH_MAX + 256];

	if (r == 1 + LR_NO_SERVICE)
		snprintf(text, sizeof(text), "nobody serves the export %s at the other site: is it in the link file there, and "
		                             "longreachd --exports running?", s->o->export);
	else if (r == 1 + LR_PERMISSION)
		snprintf(text, sizeof(text), "the server of the export %s does not understand: is it of another version?",
		         s->o->export);
	else if (r > 0)
		snprintf(text, sizeof(text), "the other site: %s", lr_strerror((enum lr_status)(r - 1)));
	else if (r < 0)
		snprintf(text, sizeof(text), "the other site: %s", strerror(-r));
	else if (a->error == EXDEV)
		snprintf(text, sizeof(text), "%s/%s leads out of the export", s->o->export, s->base);
	else
		snprintf(text, sizeof(text), "%s/%s at the other site: %s", s->o->export, s->base, strerror(a->error));
	give_up(s, r == -ETIMEDOUT ? COPY_EXIT_TIMEOUT : r == 1 + LR_PERMISSION ? COPY_EXIT_PROTOCOL : COPY_EXIT_START, text);
	return false;
}

/* Whether it is worth asking again: something there has started anew. */
static bool is_passing(int r)
{
	return r == 1 + LR_PEER_RESTARTED || r == 1 + LR_PROVIDER_GONE || r == 1 + LR_NO_ROOM || r == -EPIPE;
}

static bool ask_until_answered(struct sender *s, const char *path, uint8_t flags, struct copy_session *a)
{
	int r;

	while ((r = ask_session(s, path, flags, a)) != 0) {
		if (!is_passing(r) || timed_out(s))
			return cannot_start(s, r, a);
		pause_ms(100);
		if (r == -EPIPE)
			connect_relay(s); /* if it fails, the next call says so */
		if (!s->lr)
			return cannot_connect(s, -ECONNREFUSED);
	}
	s->alive_s = progress_seconds();
	return true;
}

static bool is_one_file(const struct copy_options *o)
{
	size_t len;
	struct stat st;

	walk_name_of(o->source[0], &len);
	return o->nsources == 1 && len > 0 && lstat(o->source[0], &st) == 0 && !S_ISDIR(st.st_mode);
}

/* The last component becomes the name of the only source. */
static void split_base(struct sender *s)
{
	char *slash = strrchr(s->base, '/');

	s->name = strdup(slash ? slash + 1 : s->base);
	*(slash ? slash : s->base) = '\0';
}

/* What the place is decides what the sources are called there, as with cp and rsync. */
static bool begin_session(struct sender *s)
{
	struct copy_session a = {0};
	uint8_t make = s->o->dry_run ? 0 : COPY_MAKE;

	memcpy(s->base, s->o->path, sizeof(s->base));
	if (!ask_until_answered(s, s->base, 0, &a))
		return false;
	if (!(a.flags & COPY_WRITABLE) && !s->o->dry_run) {
		give_up(s, COPY_EXIT_START, "the other site's Mode= does not let this export be written");
		return false;
	}
	if (a.error == 0)
		return true;
	if (is_one_file(s->o) && !s->o->into && (a.error == ENOENT || a.error == ENOTDIR))
		split_base(s);
	else if (a.error != ENOENT)
		return cannot_start(s, 0, &a);
	if (!ask_until_answered(s, s->base, make, &a))
		return false;
	s->fresh = a.flags & COPY_FRESH;
	s->nothing = a.error == ENOENT && s->o->dry_run;
	return a.error == 0 || s->nothing || cannot_start(s, 0, &a);
}

/* All that was under way waits again. */
static void take_apart(struct sender *s)
{
	struct dnode *n;

	for (uint32_t i = 0; i < s->nputs; i++)
		if (s->put[i].item)
			s->progress.again += s->put[i].item->large->piece[s->put[i].piece].length;
	for (uint32_t i = 0; i < BATCHES_MAX; i++)
		if (s->batch[i].used)
			batch_again(s, &s->batch[i]);
	while ((n = dlist_first(&s->sending))) {
		dlist_remove(n);
		item_again(s, dlist_entry(n, struct item, node));
	}
	/* those that wait for their commit */
	for (n = s->todo.next; n != &s->todo; n = n->next) {
		struct item *it = dlist_entry(n, struct item, node);

		if (it->large) {
			large_free(s, it);
			it->stage = STAGE_CHECK;
		}
	}
	s->nputs = 0;
	s->put_bytes = 0;
}

/* Until there is a session again, or it has taken too long. */
static void begin_again(struct sender *s)
{
	struct copy_session a = {0};
	int r = -EPIPE;

	s->progress.interruptions++;
	take_apart(s);
	s->fresh = false;
	s->lost = false;
	while (!interrupted && !timed_out(s)) {
		r = s->lr ? 0 : -EPIPE;
		if (r == 0 || (r = connect_relay(s)) == 0)
			r = ask_session(s, s->base, COPY_MAKE, &a);
		if (r == 0 && a.error == 0) {
			s->alive_s = progress_seconds();
			return;
		}
		lr_close(s->lr);
		s->lr = NULL;
		progress_show(&s->progress, r < 0 ? "this edge" : "the other edge");
		pause_ms(100);
	}
	if (interrupted)
		return;
	progress_hide(&s->progress);
	fprintf(stderr, "longreach: copy: nothing from the other end for %u s: the same command goes on later\n", s->o->timeout_s);
	s->code = COPY_EXIT_TIMEOUT;
	s->fatal = true;
}

/* --- the loop --- */

static bool is_idle(const struct sender *s)
{
	return dlist_empty(&s->todo) && dlist_empty(&s->opens) && dlist_empty(&s->sending) && s->nbatches == 0;
}

/* A dry run into nothing: all of it is absent. */
static void count_only(struct sender *s)
{
	struct item *it;

	while (!s->fatal && (it = from_trees(s)))
		transfer(s, it);
	s->phase = PHASE_END;
}

static void next_phase(struct sender *s)
{
	s->phase++;
	if (s->phase == PHASE_LINKS && s->o->dry_run)
		s->phase++;
	if (s->phase == PHASE_LIST && (!s->o->remove || s->source_errors)) {
		if (s->o->remove)
			complain(s, "--delete", "nothing is removed, as not all of the source could be read", 0);
		s->phase = PHASE_DIRS;
	}
}

static void take_events(struct sender *s, int timeout_ms)
{
	struct lr_event ev;
	int r;

	while (!s->fatal && !s->lost && (r = lr_wait(s->lr, &ev, timeout_ms)) != 0) {
		if (r < 0) {
			s->lost = true;
			return;
		}
		s->alive_s = progress_seconds();
		if (ev.type == LR_EV_DONE)
			on_done(s, &ev);
		timeout_ms = 0;
	}
}

static void run(struct sender *s)
{
	while (s->phase != PHASE_END && !s->fatal && !interrupted) {
		bool more;

		if (s->lost)
			begin_again(s);
		if (s->fatal || interrupted)
			break;
		work_out_window(s);
		more = send_pieces(s);
		send_batches(s);
		send_sign_of_life(s);
		if (!s->lost && is_idle(s)) {
			struct item *it = from_phase(s);

			if (it)
				item_wait(s, it); /* the window is closed: never so when nothing is under way */
			else
				next_phase(s);
			continue;
		}
		take_events(s, more ? 0 : 200);
		progress_show(&s->progress, progress_seconds() - s->alive_s > 2 ? "the other edge" : NULL);
		if (timed_out(s))
			s->lost = true;
	}
}

static void scan(struct sender *s)
{
	static struct walk_entry e;
	struct walk *w = walk_open(s->o, s->name);

	while (w && !interrupted && walk_next(w, &e)) {
		if (e.what != WALK_ENTRY || !S_ISREG(e.st.st_mode))
			continue;
		s->progress.all_files++;
		s->progress.all_bytes += (uint64_t)e.st.st_size;
	}
	walk_close(w);
}

/* --delete looks at whole directories: each must have one source. */
static bool sources_fit(const struct copy_options *o)
{
	for (int i = 0; i < o->nsources && o->remove; i++)
		for (int j = 0; j < o->nsources; j++) {
			size_t a, b;
			const char *x = walk_name_of(o->source[i], &a), *y = walk_name_of(o->source[j], &b);

			if (i == j || (a != 0 && (a != b || memcmp(x, y, a) != 0)))
				continue;
			fprintf(stderr, "longreach: copy: --delete: %s and %s would become one directory\n", o->source[i], o->source[j]);
			return false;
		}
	return true;
}

static void free_items(struct sender *s, struct items *v)
{
	for (size_t i = 0; i < v->n; i++)
		item_free(s, v->v[i]);
	free(v->v);
}

static void free_list(struct sender *s, struct dnode *list)
{
	struct dnode *n;

	while ((n = dlist_first(list))) {
		dlist_remove(n);
		item_free(s, dlist_entry(n, struct item, node));
	}
}

static void sender_free(struct sender *s)
{
	struct items *all[] = {&s->links, &s->dirs, &s->lists, &s->files_there, &s->dirs_there};

	lr_close(s->lr);
	walk_close(s->walk);
	for (uint32_t i = 0; i < BATCHES_MAX; i++)
		for (uint32_t j = 0; s->batch[i].used && j < s->batch[i].n; j++)
			item_free(s, s->batch[i].item[j]);
	free_list(s, &s->todo);
	free_list(s, &s->opens);
	free_list(s, &s->sending);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free_items(s, all[i]);
	for (size_t i = 0; i < s->ninodes_room; i++)
		free(s->inode[i].dst);
	free(s->inode);
	free(s->batch);
	free(s->name);
	free(s);
}

static void hear_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

int copy_send(const struct copy_options *o)
{
	struct sender *s;
	int r, code;

	if (!sources_fit(o))
		return COPY_EXIT_USAGE;
	s = calloc(1, sizeof(*s));
	if (!s || !(s->batch = calloc(BATCHES_MAX, sizeof(*s->batch)))) {
		free(s);
		return COPY_EXIT_MEMORY;
	}
	s->o = o;
	dlist_init(&s->todo);
	dlist_init(&s->opens);
	dlist_init(&s->sending);
	hear_signals();
	s->alive_s = progress_seconds();
	progress_begin(&s->progress, o);
	r = connect_relay(s);
	if (r < 0 ? cannot_connect(s, r) : begin_session(s)) {
		if (o->progress)
			scan(s);
		s->walk = walk_open(o, s->name);
		if (s->nothing)
			count_only(s);
		else
			run(s);
	}
	if (interrupted && !s->fatal) {
		progress_hide(&s->progress);
		fprintf(stderr, "longreach: copy: interrupted: the same command goes on\n");
		s->code = COPY_EXIT_SIGNAL;
	}
	code = s->code;
	progress_end(&s->progress, o, code);
	sender_free(s);
	return code;
}

int copy_main(int argc, char **argv)
{
	struct copy_options o;
	int code = COPY_EXIT_USAGE;

	if (copy_options_parse(argc, argv, &o, &code))
		code = copy_send(&o);
	free(o.exclude);
	return code;
}
