/* SPDX-License-Identifier: Apache-2.0 */
/* copy_send.c - sends items in batches and pieces, and goes on after lost sessions.
 *
 * Theory of operation
 *
 * An item is one task at the other end: a file to be checked, then written; a link; a directory's mode. An item has a
 * stage, and each reply of the server moves it to the next stage or ends it. Items wait in `todo`; next_batch() puts as
 * many as fit into a message, and as many messages are under way as the server's window says: so a round trip costs
 * nothing but at the end of a phase. Large files that are open are in `sending`; their pieces are puts of the relay.
 *
 * Phases follow one another, each when nothing of the one before is under way: the trees; hard links; removals (lists,
 * files, directories); the modes and times of directories, which all earlier phases would change. The first entry that
 * needs a directory makes it, as batches overtake each other.
 *
 * When the session is lost (a daemon or the server started again, a link that was down for long), the connection is
 * closed and opened again, and every item that was under way begins once more: a file is looked at again, and the
 * server knows from its journal what of it is there. Nothing else is kept, here or there. */
#include "copy_send.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "copy_send_priv.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
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

/* Refuses calls on a lent connection: its owner sends one copy at a time. */
static void refuse_call(struct sender *s, const struct lr_event *ev)
{
	if (ev->type == LR_EV_CALL)
		lr_reply(s->lr, ev->id, LR_NO_ROOM, NULL, 0);
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
		if (r == 1)
			refuse_call(s, &ev);
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
	if (s->lent)
		return -EPIPE;
	lr_close(s->lr);
	s->lr = NULL;
	return lr_open(s->o->link, s->o->socket, &s->lr);
}

static bool cannot_connect(struct sender *s, int r)
{
	char text[256];

	if (r == -EACCES)
		snprintf(text, sizeof(text),
		         "link %s: not allowed: root and members of [Relay] Group= may use the relay", s->o->link);
	else if (r == -ENOENT || r == -ECONNREFUSED)
		snprintf(
		    text, sizeof(text),
		    "link %s has no relay here: check that longreachd runs and the link file says [Relay] Enable=yes",
		    s->o->link);
	else
		snprintf(text, sizeof(text), "link %s: %s", s->o->link, strerror(-r));
	sender_give_up(s, COPY_EXIT_SOCKET, text);
	return false;
}

static bool cannot_start(struct sender *s, int r, const struct copy_session *a)
{
	char text[COPY_PATH_MAX + 256];

	if (r == 1 + LR_NO_SERVICE)
		snprintf(text, sizeof(text),
		         "no process at the other site serves the export %s: check that the link file there has "
		         "this [Export NAME] and that longreachd --exports runs there",
		         s->o->export);
	else if (r == 1 + LR_PERMISSION)
		snprintf(text, sizeof(text),
		         "the server of the export %s does not know this request: check that longreach has one version "
		         "at both edges",
		         s->o->export);
	else if (r > 0)
		snprintf(text, sizeof(text), "the other site: %s", lr_strerror((enum lr_status)(r - 1)));
	else if (r < 0)
		snprintf(text, sizeof(text), "%s%s", r == -EOPNOTSUPP ? "" : "the other site: ",
		         r == -EOPNOTSUPP ? COPY_NEEDS_RELAY : strerror(-r));
	else if (a->error == EXDEV)
		snprintf(text, sizeof(text), "%s/%s leads out of the export", s->o->export, s->base);
	else
		snprintf(text, sizeof(text), "%s/%s at the other site: %s", s->o->export, s->base, strerror(a->error));
	sender_give_up(s,
	               r == -ETIMEDOUT          ? COPY_EXIT_TIMEOUT
	               : r == 1 + LR_PERMISSION ? COPY_EXIT_PROTOCOL
	                                        : COPY_EXIT_START,
	               text);
	return false;
}

/* True if asking again may help: something at the other end has started anew. */
static bool is_passing(int r)
{
	return r == 1 + LR_PEER_RESTARTED || r == 1 + LR_PROVIDER_GONE || r == 1 + LR_NO_ROOM || r == -EPIPE;
}

static bool ask_until_answered(struct sender *s, const char *path, uint8_t flags, struct copy_session *a)
{
	int r;

	while ((r = ask_session(s, path, flags, a)) != 0) {
		if (interrupted)
			return false; /* copy_send() says so */
		if (!is_passing(r) || timed_out(s))
			return cannot_start(s, r, a);
		if (s->lent && r == -EPIPE)
			return cannot_connect(s, r);
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

/* How the place is made: if it is itself a copy of a source's directory, its mode comes last. */
static uint8_t how_to_make(const struct copy_options *o)
{
	struct stat st;

	for (int i = 0; i < o->nsources && !o->dry_run; i++) {
		size_t len;

		walk_name_of(o->source[i], &len);
		if (len == 0 && stat(o->source[i], &st) == 0 && S_ISDIR(st.st_mode))
			return COPY_MAKE | COPY_PRIVATE;
	}
	return o->dry_run ? 0 : COPY_MAKE;
}

/* The last component becomes the name of the only source. */
static void split_base(struct sender *s)
{
	char *slash = strrchr(s->base, '/');

	s->name = strdup(slash ? slash + 1 : s->base);
	*(slash ? slash : s->base) = '\0';
}

/* Begins the session. The kind of the place decides the sources' names there, as with cp and rsync. */
static bool begin_session(struct sender *s)
{
	struct copy_session a = {0};
	uint8_t make = how_to_make(s->o);

	memcpy(s->base, s->o->path, sizeof(s->base));
	if (!ask_until_answered(s, s->base, 0, &a))
		return false;
	if (!(a.flags & COPY_WRITABLE) && !s->o->dry_run) {
		sender_give_up(s, COPY_EXIT_START, "Mode= of this export at the other site is read: expected write");
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

/* Queues everything that was under way again. */
static void take_apart(struct sender *s)
{
	struct dnode *n;

	for (uint32_t i = 0; i < BATCHES_MAX; i++)
		if (s->batch[i].used)
			transfer_batch_again(s, &s->batch[i]);
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

/* Tries until there is a session again, or too much time has passed. */
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
			r = ask_session(s, s->base, how_to_make(s->o), &a);
		if (r == 0 && a.error == 0) {
			s->alive_s = progress_seconds();
			return;
		}
		if (s->lent && (r == -EPIPE || r == 1 + LR_NO_SERVICE)) {
			cannot_start(s, r, &a);
			return;
		}
		if (!s->lent) {
			lr_close(s->lr);
			s->lr = NULL;
		}
		progress_show(&s->progress, r < 0 ? "this edge" : "the other edge");
		pause_ms(100);
	}
	if (interrupted)
		return;
	progress_hide(&s->progress);
	fprintf(stderr,
	        "longreach: copy: no answer from the other edge for %u s: run the same command again to continue\n",
	        s->o->timeout_s);
	s->code = COPY_EXIT_TIMEOUT;
	s->fatal = true;
}

/* --- the loop --- */

static bool is_idle(const struct sender *s)
{
	return dlist_empty(&s->todo) && dlist_empty(&s->opens) && dlist_empty(&s->sending) && s->nbatches == 0;
}

/* A dry run to a place that does not exist: counts everything as absent. */
static void count_only(struct sender *s)
{
	struct item *it;

	while (!s->fatal && (it = trees_next(s)))
		item_transfer(s, it);
	s->phase = PHASE_END;
}

static void next_phase(struct sender *s)
{
	s->phase++;
	if (s->phase == PHASE_LINKS && s->o->dry_run)
		s->phase++;
	if (s->phase == PHASE_LIST && (!s->o->remove || s->source_errors)) {
		if (s->o->remove)
			sender_complain(s, "--delete", "nothing is removed, as some of the source could not be read",
			                0);
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
			transfer_on_done(s, &ev);
		else
			refuse_call(s, &ev);
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
		transfer_work_out_window(s);
		more = transfer_pieces(s);
		transfer_batches(s);
		transfer_sign_of_life(s);
		if (!s->lost && is_idle(s)) {
			struct item *it = phase_next(s);

			if (it)
				item_wait(s, it); /* the window is closed; it never is when nothing is under way */
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
			fprintf(stderr,
			        "longreach: copy: --delete: %s and %s have the same name at the other site: copy them "
			        "in two commands\n",
			        o->source[i], o->source[j]);
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

	if (!s->lent)
		lr_close(s->lr);
	walk_close(s->walk);
	source_roots_close(&s->roots);
	for (uint32_t i = 0; i < BATCHES_MAX; i++)
		for (uint32_t j = 0; s->batch[i].used && j < s->batch[i].n; j++)
			item_free(s, s->batch[i].item[j]);
	free_list(s, &s->todo);
	free_list(s, &s->opens);
	free_list(s, &s->sending);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free_items(s, all[i]);
	for (size_t i = 0; i < s->ninodes_room; i++) {
		if (s->inode[i])
			free(s->inode[i]->dst);
		free(s->inode[i]);
	}
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

int copy_send(const struct copy_options *o, struct lr *h)
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
	s->roots.source = o->source;
	dlist_init(&s->todo);
	dlist_init(&s->opens);
	dlist_init(&s->sending);
	hear_signals();
	s->alive_s = progress_seconds();
	progress_begin(&s->progress, o);
	s->lr = h;
	s->lent = h != NULL;
	r = s->lent ? 0 : connect_relay(s);
	if (r < 0 ? cannot_connect(s, r) : begin_session(s)) {
		if (o->progress) {
			scan(s);
			s->alive_s = progress_seconds(); /* the other end was not asked meanwhile */
		}
		s->walk = walk_open(o, s->name);
		if (s->nothing)
			count_only(s);
		else
			run(s);
	}
	if (interrupted && !s->fatal) {
		progress_hide(&s->progress);
		fprintf(stderr, "longreach: copy: interrupted: run the same command again to continue\n");
		s->code = COPY_EXIT_SIGNAL;
	}
	code = s->code;
	progress_end(&s->progress, o, code);
	sender_free(s);
	return code;
}
