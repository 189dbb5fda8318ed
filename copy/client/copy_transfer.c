/* SPDX-License-Identifier: Apache-2.0 */
/* copy_transfer.c - batches and pieces under way, and their results. */
#define _GNU_SOURCE /* strdup */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy/wire/copy_hash.h"
#include "copy_send_priv.h"
#include "daemon/util/file_io.h"

/* --- batches --- */

static uint32_t window(const struct sender *s)
{
	/* batches that must be in order go one by one */
	return s->phase == PHASE_RMDIR || s->phase == PHASE_DIRS ? 1
	       : s->window < BATCHES_MAX                         ? s->window
	                                                         : BATCHES_MAX;
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
		large_free(s, it); /* the file had been opened, but the message had no room */
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
	while (!s->fatal && b->n < COPY_ENTRIES_MAX && reply + copy_result_max(COPY_OPEN) < COPY_MSG_MAX &&
	       (it = sender_next_item(s))) {
		int r;

		if (it->stage == STAGE_EXTRAS && b->n > 0) { /* its answer may fill a message */
			item_first(s, it);
			break;
		}
		r = item_encode(s, it, o);
		if (r == 0 && b->n > 0) {
			item_first(s, it);
			break;
		}
		if (r == 0)
			item_failed(s, it, "its path, target or attributes are too long for a request", 0);
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

void transfer_batches(struct sender *s)
{
	while (!s->lost && !s->fatal && s->nbatches < window(s)) {
		struct copy_out o = {.buf = s->message, .cap = sizeof(s->message)};
		struct batch *b = batch_place(s);

		if (!b || !fill_batch(s, b, &o))
			return;
		send_batch(s, b, &o);
	}
}

/* Sends an empty batch while only puts are under way: puts do not show that the server is gone, as after a start of its
 * daemon they wait for their region to come back. An empty batch is answered, or fails at once; and the server sees
 * that the session is alive. */
void transfer_sign_of_life(struct sender *s)
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

void transfer_work_out_window(struct sender *s)
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

/* False: no more pieces can be given to the relay now, or the item has ended. */
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
	put->length = p->length;
	s->nputs++;
	s->put_bytes += p->length;
	it->large->under_way++;
	p->state = PIECE_UNDER_WAY;
	s->progress.sent += p->length;
	it->given += p->length;
	return true;
}

/* One piece of it. False: see put_piece(). */
static bool send_piece(struct sender *s, struct item *it)
{
	struct large *l = it->large;
	struct source_piece *p = &l->piece[l->next];
	int r;

	if (!p->hashed) {
		r = pread_all(l->fd, s->data, p->length, p->offset);
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

/* A file that cannot be read or written is tried with one piece after each pause. */
static bool is_held_back(const struct item *it)
{
	return it->stalled_s > 0 && (it->large->under_way > 0 || progress_seconds() < it->again_s);
}

static struct item *with_pieces(struct sender *s)
{
	for (struct dnode *n = s->sending.next; n != &s->sending; n = n->next) {
		struct item *it = dlist_entry(n, struct item, node);

		if (it->large->next < it->large->n && !is_held_back(it))
			return it;
	}
	return NULL;
}

/* Returns whether there is more that could go at once. */
bool transfer_pieces(struct sender *s)
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
	if (!it->opened) {
		s->progress.present += l->counted;
		for (uint32_t i = 0; i < l->n; i++)
			it->once += l->piece[i].state == PIECE_TODO ? l->piece[i].length : 0;
		it->opened = true;
	}
	it->anew = false;
	it->stage = STAGE_SENDING;
	dlist_append(&s->sending, &it->node);
	item_all_sent(s, it);
}

static void on_commit(struct sender *s, struct item *it, const struct copy_result *r)
{
	struct large *l = it->large;

	if (r->state == COPY_DONE) {
		item_done(s, it, true);
		return;
	}
	take_ranges(s, it, r);
	if (++it->rounds > ROUNDS_MAX) {
		item_failed(s, it, "arrives with another checksum each time: another program may be writing it", 0);
		return;
	}
	for (uint32_t i = 0; i < l->n; i++)
		if (l->piece[i].state == PIECE_TODO)
			l->piece[i].hashed = false; /* read while it changed, perhaps */
	it->stage = STAGE_SENDING;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->piece[i].state == PIECE_TODO) {
			dlist_append(&s->sending, &it->node);
			return;
		}
	item_anew(s, it, NULL); /* all pieces are there, but the digest differs */
}

/* Starts the transfer of an item that is absent or different at the other end. */
void item_transfer(struct sender *s, struct item *it)
{
	if (S_ISDIR(it->st.st_mode)) {
		sender_say_name(s, "", it->dst, "/");
		item_done(s, it, true);
		return;
	}
	sender_say_name(s, "", it->dst, "");
	if (s->o->dry_run) {
		item_done(s, it, true);
		return;
	}
	it->stage = S_ISLNK(it->st.st_mode) ? STAGE_SYMLINK : it->st.st_size > COPY_SMALL_MAX ? STAGE_OPEN : STAGE_FILE;
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
		item_transfer(s, it);
	}
}

/* Queues the removal of an entry that exists only there; a directory with everything in it. */
static void on_extra(struct sender *s, const char *dir, uint8_t kind, const char *name)
{
	char path[COPY_PATH_MAX + COPY_NAME_MAX + 2];
	struct item *it, *list;

	snprintf(path, sizeof(path), "%s%s%s", dir, *dir ? "/" : "", name);
	if (strncmp(name, ".longreach-", 11) != 0 && walk_excludes(s->o, path, kind == COPY_DIRECTORY))
		return;
	sender_say_name(s, "removed: ", path, kind == COPY_DIRECTORY ? "/" : "");
	it = item_new(STAGE_REMOVE, NULL, path, NULL);
	if (it)
		it->kind = kind;
	if (!items_add(kind == COPY_DIRECTORY ? &s->dirs_there : &s->files_there, it)) {
		sender_no_memory(s);
		return;
	}
	if (kind != COPY_DIRECTORY)
		return;
	list = item_new(STAGE_EXTRAS, NULL, path, NULL);
	if (!list)
		sender_no_memory(s);
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

/* True for errors that a repetition may cure: a directory that a later batch makes, a file whose region is gone, a
 * server with too many open files. */
static bool may_pass(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE || error == EMFILE ||
	       error == EEXIST;
}

/* The same request once more: the server is still reading back or syncing the file, or is asked what is wrong. */
static void ask_once_more(struct sender *s, struct item *it)
{
	if (it->stage == STAGE_OPEN)
		large_free(s, it);
	item_wait(s, it);
}

static void on_error(struct sender *s, struct item *it, int error)
{
	if (error == EAGAIN && (it->stage == STAGE_OPEN || it->stage == STAGE_COMMIT)) {
		ask_once_more(s, it);
		return;
	}
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
	item_failed(s, it, "cannot be written at the other site", error);
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
void transfer_batch_again(struct sender *s, struct batch *b)
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
		memcpy(reply, ev->data, ev->len); /* copied, as handling the results calls the library again */
	if (ev->status == LR_NO_ROOM) {
		transfer_batch_again(s, b);
		return;
	}
	if (ev->status == LR_PERMISSION || ev->len > sizeof(reply)) {
		sender_give_up(
		    s, COPY_EXIT_PROTOCOL,
		    "the other edge does not know this request: check that longreach has one version at both edges");
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
		sender_give_up(
		    s, COPY_EXIT_PROTOCOL,
		    "cannot read the other edge's reply: check that longreach has one version at both edges");
	b->used = false;
	s->nbatches--;
}

/* True if it is time to give up. A mount that does not answer fails all requests at once (LR_IO_LOCAL, LR_IO_REMOTE):
 * --timeout counts from the first one, of this file or of all, so that a full disk is not waited for with each file. */
static bool has_stalled(struct sender *s, struct item *it)
{
	double now = progress_seconds();

	if (it->stalled_s == 0)
		it->stalled_s = now;
	if (s->stalled_s == 0)
		s->stalled_s = now;
	it->again_s = now + STALL_PAUSE_S;
	return now - it->stalled_s > s->o->timeout_s || now - s->stalled_s > s->o->timeout_s;
}

static void piece_arrived(struct sender *s, struct item *it, struct source_piece *p)
{
	p->state = PIECE_THERE;
	it->large->counted += p->length;
	s->progress.bytes += p->length;
	it->tries = 0;
	it->stalled_s = s->stalled_s = 0;
}

/* False: the item has ended, or waits anew, or the session is lost. */
static bool piece_failed(struct sender *s, struct item *it, enum lr_status status)
{
	bool io = status == LR_IO_LOCAL || status == LR_IO_REMOTE;

	if (status == LR_NO_REGION || status == LR_NO_RELAY || status == LR_PEER_RESTARTED) {
		s->lost = true;
		return false;
	}
	if (status == LR_IO_LOCAL && !item_has_same_source(it)) {
		dlist_remove(&it->node);
		item_anew_source(s, it); /* it has become shorter */
		return false;
	}
	if (io ? !has_stalled(s, it) : ++it->tries < TRIES_MAX)
		return true;
	dlist_remove(&it->node);
	item_failed(s, it, lr_strerror(status), 0);
	return false;
}

/* Opens the file again: the server says what is wrong there, a full disk most often. */
static void ask_why(struct sender *s, struct item *it)
{
	dlist_remove(&it->node);
	it->stage = STAGE_OPEN;
	ask_once_more(s, it);
}

static void on_put(struct sender *s, struct put *put, enum lr_status status)
{
	struct item *it = put->item;
	struct source_piece *p = it ? &it->large->piece[put->piece] : NULL;

	s->put_bytes -= put->length;
	*put = s->put[--s->nputs];
	if (!it)
		return;
	it->large->under_way--;
	if (status == LR_OK) {
		piece_arrived(s, it, p);
	} else {
		p->state = PIECE_TODO;
		if (!piece_failed(s, it, status))
			return;
		if (status == LR_IO_REMOTE && it->large->under_way == 0) {
			ask_why(s, it);
			return;
		}
	}
	item_all_sent(s, it);
}

void transfer_on_done(struct sender *s, const struct lr_event *ev)
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
