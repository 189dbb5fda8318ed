/* SPDX-License-Identifier: Apache-2.0 */
/* relay_channel.c - makes chunks of messages and streams: short messages first, streams in turn. */
#include "relay_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/file_io.h"
#include "daemon/util/log.h"

void relay_channel_init(struct relay_thread *r, uint32_t idx)
{
	struct relay_channel_out *ch = &r->channel[idx];

	ch->idx = idx;
	ch->worker = idx % r->config.lanes % r->nworkers;
	dlist_init(&ch->messages);
	dlist_init(&ch->streams);
}

void relay_tell_worker(struct relay_thread *r, uint32_t worker, const struct relay_command *c)
{
	if (!relay_port_command(r->port[worker], c))
		log_err("link %s: the relay's ring to worker %u is full: a slot of the buffer is lost until the link "
		        "starts again",
		        r->config.name, worker);
	r->wake[worker] = true;
}

uint64_t relay_channel_queued(const struct relay_channel_out *ch)
{
	uint64_t bytes = ch->status.out_held_bytes;

	for (const struct dnode *n = ch->streams.next; n != &ch->streams; n = n->next) {
		const struct relay_stream *s = dlist_entry(n, struct relay_stream, node);

		bytes += s->length - s->next;
	}
	return bytes;
}

/* --- what is to be said --- */

static struct relay_message *message_new(struct relay_channel_out *ch, const struct relay_head *h, size_t len)
{
	struct relay_message *m = malloc(sizeof(*m) + len);

	if (!m)
		return NULL;
	*m = (struct relay_message){.head = *h, .len = len};
	dlist_append(&ch->messages, &m->node);
	ch->nmessages++;
	return m;
}

int relay_say(struct relay_channel_out *ch, const struct relay_head *h, const void *data, size_t len,
              uint64_t op)
{
	struct relay_message *m = message_new(ch, h, len);

	if (!m)
		return -ENOMEM;
	m->op = op;
	if (len > 0)
		memcpy(m->data, data, len);
	return 0;
}

int relay_say_answer(struct relay_channel_out *ch, const struct relay_head *h, const struct relay_request *q)
{
	struct relay_message *m = message_new(ch, h, 0);

	if (!m)
		return -ENOMEM;
	m->request = *q;
	return 0;
}

void relay_stream_start(struct relay_channel_out *ch, struct relay_stream *s)
{
	s->ch = ch;
	dlist_append(&ch->streams, &s->node);
}

static void end_reading(struct relay_thread *r, struct relay_stream *s)
{
	if (s->reader)
		relay_reader_free(r, s->reader);
	if (s->ahead)
		relay_file_reader_free(s->ahead);
	s->reader = NULL;
	s->ahead = NULL;
}

/* Ends a stream: nothing more of it is sent. */
static void stream_dead(struct relay_thread *r, struct relay_stream *s)
{
	s->dead = true;
	dlist_remove(&s->node);
	end_reading(r, s);
}

static void close_stream(struct relay_thread *r, struct relay_stream *s)
{
	end_reading(r, s);
	relay_file_unref(s->file);
	relay_pieces_unref(s->pieces);
	free(s);
}

static void stream_free(struct relay_thread *r, struct relay_stream *s)
{
	dlist_remove(&s->node);
	relay_execute_stream_over(r, s);
	relay_op_stream_over(r, s);
	close_stream(r, s);
}

static void look_over(struct relay_thread *r, struct relay_stream *s)
{
	if (s->refs == 0 && (s->dead || s->ended))
		stream_free(r, s);
}

void relay_stream_kill(struct relay_thread *r, struct relay_stream *s)
{
	stream_dead(r, s);
	look_over(r, s);
}

void relay_forget(struct relay_channel_out *ch, uint64_t op)
{
	struct dnode *n, *next;

	for (n = ch->messages.next; n != &ch->messages; n = next) {
		struct relay_message *m = dlist_entry(n, struct relay_message, node);

		next = n->next;
		if (m->op != op)
			continue;
		dlist_remove(n);
		ch->nmessages--;
		free(m);
	}
}

/* --- slots --- */

static struct relay_take *take_new(struct relay_channel_out *ch, uint64_t *token)
{
	for (uint32_t i = 0; i < 2 * RELAY_TAKES; i++)
		if (!ch->take[i].used) {
			ch->take[i] = (struct relay_take){.used = true};
			*token = i;
			return &ch->take[i];
		}
	return NULL;
}

static bool plan_message(struct relay_channel_out *ch, struct relay_take *t)
{
	struct dnode *n = dlist_first(&ch->messages);

	if (!n)
		return false;
	dlist_remove(n);
	t->message = dlist_entry(n, struct relay_message, node);
	t->len = (uint16_t)(RELAY_HEAD_LEN + t->message->len);
	return true;
}

/* True if the stream can use a slot now: its file or GPU data is loaded, or its RDMA client may have another slot. A
 * stream that waits lets others go first. The end of an RDMA client's stream waits until all its READs have ended: a
 * failed READ leaves a void chunk, and with an end behind it the other site would take the put for complete. */
static bool stream_ready(const struct relay_stream *s)
{
	if (s->remote.conn)
		return s->next == s->length ? s->refs == 0 : relay_rdma_may_take(&s->remote, s->ch);
	return s->next == s->length || ((!s->reader || s->next < s->reader->loaded) && (!s->ahead || s->next < s->ahead->loaded));
}

/* The next stream in turn, which moves to the end of the list. */
static struct relay_stream *next_stream(struct relay_channel_out *ch)
{
	for (struct dnode *n = ch->streams.next; n != &ch->streams; n = n->next) {
		struct relay_stream *s = dlist_entry(n, struct relay_stream, node);

		if (!stream_ready(s))
			continue;
		dlist_remove(n);
		dlist_append(&ch->streams, n);
		return s;
	}
	return NULL;
}

static bool plan_stream(struct relay_channel_out *ch, struct relay_take *t)
{
	struct relay_stream *s = next_stream(ch);
	uint64_t left;

	if (!s)
		return false;
	left = relay_pieces_run(s->pieces, s->next, s->length - s->next);
	if (s->reader && left > 0)
		left = relay_reader_run(s->reader, s->next, left);
	if (s->ahead && left > 0)
		left = relay_file_reader_run(s->ahead, s->next, left);
	t->stream = s;
	t->offset = s->next;
	t->ends = left == 0;
	t->len = (uint16_t)(RELAY_HEAD_LEN + (t->ends ? s->notice_len : left < RELAY_DATA_MAX ? left : RELAY_DATA_MAX));
	s->refs++;
	if (s->remote.conn)
		relay_rdma_took(&s->remote, ch, 1);
	if (t->ends) {
		s->ended = true;
		dlist_remove(&s->node);
	} else {
		s->next += (uint64_t)t->len - RELAY_HEAD_LEN;
	}
	return true;
}

static void channel_pump(struct relay_thread *r, struct relay_channel_out *ch)
{
	while (ch->ntakes < RELAY_TAKES) {
		struct relay_command c = {.type = RELAY_TAKE, .channel = ch->idx, .answer = !relay_is_for_requests(r, ch->idx)};
		struct relay_take *t = take_new(ch, &c.token);

		if (!t)
			return;
		if (!plan_message(ch, t) && !plan_stream(ch, t)) {
			t->used = false;
			return;
		}
		c.len = t->len;
		ch->ntakes++;
		relay_tell_worker(r, ch->worker, &c);
	}
}

/* An RDMA client has one number of places for READs on all channels (RDMA_AHEAD): each turn begins with another channel, so
 * that no channel takes all of them again and again. */
void relay_channels_pump(struct relay_thread *r)
{
	for (uint32_t i = 0; i < r->nchannels; i++)
		channel_pump(r, &r->channel[(r->first_channel + i) % r->nchannels]);
	r->first_channel = (r->first_channel + 1) % r->nchannels;
}

/* --- a slot is there --- */

static void message_free(struct relay_channel_out *ch, struct relay_take *t)
{
	ch->nmessages--;
	free(t->message);
	t->message = NULL;
}

static void fill_message(struct relay_channel_out *ch, struct relay_take *t, uint8_t *to)
{
	struct relay_message *m = t->message;

	relay_head_put(to, &m->head);
	memcpy(to + RELAY_HEAD_LEN, m->data, m->len);
	t->op = m->op;
	t->request = m->request;
	message_free(ch, t);
}

/* Returns LR_OK, or why there is nothing to send. */
static enum lr_status fill_stream(struct relay_thread *r, const struct relay_take *t, uint8_t *to)
{
	const struct relay_stream *s = t->stream;
	struct relay_head h = t->ends ? s->end : s->head;

	if (s->dead)
		return LR_CANCELLED;
	if (t->ends) {
		memcpy(to + RELAY_HEAD_LEN, s->notice, s->notice_len);
	} else {
		h.offset += relay_pieces_target(s->pieces, t->offset);
		h.length = (uint64_t)t->len - RELAY_HEAD_LEN;
		if (s->reader)
			relay_reader_take(s->reader, to + RELAY_HEAD_LEN, t->offset, (uint32_t)h.length);
		else if (s->ahead)
			relay_file_reader_take(s->ahead, to + RELAY_HEAD_LEN, t->offset, (uint32_t)h.length);
		else if (pread_all(s->file->fd, to + RELAY_HEAD_LEN, (size_t)h.length,
		                   s->fd_offset + relay_pieces_source(s->pieces, t->offset)) < 0)
			return LR_IO_LOCAL;
		relay_count(&r->count.relay_copied_bytes, h.length);
	}
	relay_head_put(to, &h);
	return LR_OK;
}

/* The stream cannot be read: its operation fails here, or the other site is told why its get has failed. */
static void stream_failed(struct relay_thread *r, struct relay_stream *s, enum lr_status status)
{
	struct relay_head h = {
	    .type = RW_STATUS, .op = s->head.op, .status = (uint8_t)(status == LR_IO_LOCAL ? LR_IO_REMOTE : status)};

	if (s->dead)
		return;
	stream_dead(r, s);
	if (s->op)
		relay_op_end(r, s->op, status);
	else
		relay_say(s->ch, &h, NULL, 0, 0);
}

void relay_stream_fail(struct relay_thread *r, struct relay_stream *s, enum lr_status status)
{
	s->refs++; /* the end of its operation would free it */
	stream_failed(r, s, status);
	s->refs--;
	look_over(r, s);
}

static void give_up(struct relay_thread *r, struct relay_channel_out *ch, uint32_t slot)
{
	relay_tell_worker(r, ch->worker, &(struct relay_command){.type = RELAY_GIVE_UP, .slot = slot});
}

static void take_over(struct relay_thread *r, struct relay_take *t)
{
	struct relay_stream *s = t->stream;

	t->used = t->committing;
	t->stream = NULL;
	if (!s)
		return;
	if (s->remote.conn)
		relay_rdma_took(&s->remote, s->ch, -1);
	s->refs--;
	look_over(r, s);
}

static void commit(struct relay_thread *r, struct relay_channel_out *ch, struct relay_take *t, const struct relay_chunk *c,
                   bool last)
{
	struct relay_command cmd = {
	    .type = RELAY_COMMIT, .channel = ch->idx, .slot = c->slot, .token = (uint64_t)(t - ch->take)};

	if (t->op)
		relay_op_taken(r, t->op, c, last);
	cmd.tell = t->committing = (t->op && last) || t->request.held;
	relay_tell_worker(r, ch->worker, &cmd);
}

static bool is_read_by_rdma(const struct relay_take *t)
{
	return !t->message && !t->ends && t->stream->remote.conn && !t->stream->dead;
}

/* The operation is told of its slot now, not at the commit: the slot's life of the channel is known now. */
static enum lr_status start_read(struct relay_thread *r, struct relay_channel_out *ch, struct relay_take *t,
                                 const struct relay_chunk *c)
{
	const struct relay_stream *s = t->stream;
	struct relay_head h = s->head;

	h.offset += relay_pieces_target(s->pieces, t->offset);
	h.length = (uint64_t)t->len - RELAY_HEAD_LEN;
	relay_head_put(c->data, &h);
	t->op = s->op;
	relay_op_taken(r, t->op, c, false);
	return relay_rdma_read(r, &s->remote, s->fd_offset + relay_pieces_source(s->pieces, t->offset), (uint32_t)h.length, ch,
	                       t, c);
}

void relay_channel_filled(struct relay_thread *r, struct relay_channel_out *ch, struct relay_take *t,
                          const struct relay_chunk *c, enum lr_status status)
{
	if (status == LR_OK && !t->stream->dead) {
		commit(r, ch, t, c, false);
	} else {
		give_up(r, ch, c->slot);
		stream_failed(r, t->stream, status);
	}
	take_over(r, t);
}

static void on_taken(struct relay_thread *r, struct relay_channel_out *ch, struct relay_take *t, const struct relay_chunk *c)
{
	enum lr_status status = LR_OK;
	bool last = t->ends || t->message;

	ch->ntakes--;
	if (t->message && t->message->op && !relay_op_find(r, t->message->op)) {
		message_free(ch, t);
		give_up(r, ch, c->slot);
		take_over(r, t);
		return;
	}
	if (is_read_by_rdma(t)) {
		status = start_read(r, ch, t, c);
		if (status != LR_OK)
			relay_channel_filled(r, ch, t, c, status);
		return;
	}
	if (t->message) {
		fill_message(ch, t, c->data);
	} else {
		status = fill_stream(r, t, c->data);
		t->op = t->stream->op;
	}
	if (status == LR_OK) {
		commit(r, ch, t, c, last);
	} else {
		give_up(r, ch, c->slot);
		stream_failed(r, t->stream, status);
	}
	take_over(r, t);
}

/* The peer has no relay. */
static void on_refused(struct relay_thread *r, struct relay_channel_out *ch, struct relay_take *t)
{
	uint64_t op = t->message ? t->message->op : t->stream->op;

	ch->ntakes--;
	if (t->message) {
		if (t->message->request.held)
			relay_execute_answered(r, &t->message->request);
		message_free(ch, t);
	} else {
		stream_dead(r, t->stream);
	}
	if (op)
		relay_op_end(r, op, LR_NO_RELAY);
	take_over(r, t);
}

void relay_channel_note(struct relay_thread *r, const struct relay_note *n)
{
	struct relay_channel_out *ch = &r->channel[n->channel];
	struct relay_take *t = n->type == RELAY_MOVED ? NULL : &ch->take[n->token % (2 * RELAY_TAKES)];
	uint32_t life = ch->status.life;

	switch (n->type) {
	case RELAY_TAKEN:
		on_taken(r, ch, t, &n->chunk);
		return;
	case RELAY_REFUSED:
		on_refused(r, ch, t);
		return;
	case RELAY_COMMITTED:
		t->used = t->committing = false;
		if (t->op)
			relay_op_committed(r, t->op);
		if (t->request.held)
			relay_execute_answered(r, &t->request);
		return;
	case RELAY_MOVED:
		ch->status = n->status;
		if (ch->idx == 1 && life && n->status.life && n->status.life != life)
			relay_say_hello(r);
		relay_op_moved(r, ch, life);
		return;
	default:
		return;
	}
}

void relay_channel_free(struct relay_thread *r, struct relay_channel_out *ch)
{
	struct dnode *n;

	while ((n = dlist_first(&ch->messages))) {
		dlist_remove(n);
		free(dlist_entry(n, struct relay_message, node));
	}
	for (uint32_t i = 0; i < 2 * RELAY_TAKES; i++) {
		struct relay_stream *s = ch->take[i].stream;

		if (!ch->take[i].used)
			continue;
		free(ch->take[i].message);
		if (s && s->remote.conn)
			relay_rdma_took(&s->remote, ch, -1);
		if (s && --s->refs == 0 && (s->ended || s->dead))
			close_stream(r, s);
	}
	while ((n = dlist_first(&ch->streams))) {
		struct relay_stream *s = dlist_entry(n, struct relay_stream, node);

		dlist_remove(n);
		close_stream(r, s);
	}
}
