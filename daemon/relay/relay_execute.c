/* SPDX-License-Identifier: Apache-2.0 */
/* relay_execute.c - carries out the chunks of the other site.
 *
 * Bounds and rights are looked up for each chunk: a region may be gone since the last chunk. Once the failure of a put
 * is committed, its other chunks fail without an answer, and so does its end.
 *
 * A region that is exported again under its name may be other memory, and bytes that were written before went with the
 * memory of before. So a put is bound to the export whose memory it has written (struct relay_bound), and fails in any
 * other one. A file keeps its bytes: puts into it go on.
 *
 * The end of a put, and a failing chunk of it, are finished when their answer is committed: after a kill the requester
 * neither waits for ever nor takes a failed put for done. Gets and calls need no such care: RW_HELLO ends them.
 *
 * The end of a put is answered when its notice is delivered: in the socket of the region's program, or, as the SEND has
 * completed, in the memory of an RDMA client (relay_rdma_notice()).
 *
 * A request that wants an answer waits (deferred) while the answering channel's queue is long, so that the other site's
 * requests take bounded memory; and for a while after a start, if the region or service that it names is not there yet.
 * Answers never wait. */
#include "relay_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/clock.h"
#include "daemon/util/file_io.h"
#include "proxy/util/bytes.h"

static struct relay_channel_out *answers_to(struct relay_thread *r, uint32_t channel)
{
	return &r->channel[channel ^ 1];
}

static void finish(struct relay_thread *r, uint32_t channel, uint32_t slot)
{
	struct relay_command cmd = {.type = RELAY_FINISH, .slot = slot};

	relay_tell_worker(r, r->channel[channel].worker, &cmd);
}

static void say_status(struct relay_channel_out *ch, uint64_t op, enum lr_status status, uint64_t length)
{
	struct relay_head h = {.fence = true, .type = RW_STATUS, .op = op, .status = (uint8_t)status, .length = length};

	relay_say(ch, &h, NULL, 0, 0);
}

/* True if a part of the operation has failed and the other site was told so: then its end is no success. */
static bool has_failed(const struct relay_thread *r, uint64_t op)
{
	return r->failed[op % RELAY_FAILED] == op && op;
}

static void note_failed(struct relay_thread *r, uint64_t op)
{
	r->failed[op % RELAY_FAILED] = op;
}

/* Answers a put. True: its chunk is finished when the answer is committed. */
static bool answer_put(struct relay_channel_out *ch, const struct relay_chunk *c, uint64_t op, enum lr_status status,
                       uint64_t length)
{
	struct relay_head h = {.fence = true, .type = RW_STATUS, .op = op, .status = (uint8_t)status, .length = length};
	struct relay_request q = {.held = true, .channel = c->channel, .slot = c->slot, .failed = status != LR_OK ? op : 0};

	return relay_say_answer(ch, &h, &q) == 0;
}

void relay_execute_answered(struct relay_thread *r, const struct relay_request *q)
{
	if (q->failed)
		note_failed(r, q->failed);
	finish(r, q->channel, q->slot);
}

/* --- put --- */

static struct relay_bound *bound_find(struct relay_thread *r, uint64_t op)
{
	struct relay_bound *b = r->bound[op % RELAY_OPS];

	for (unsigned i = 0; i < RELAY_STARTS; i++)
		if (b[i].serial && b[i].op == op)
			return &b[i];
	return NULL;
}

static bool has_lived(const struct relay_region *g, uint32_t start)
{
	for (unsigned i = 0; i < LR_STARTS; i++)
		if (g->lived[i] == start)
			return true;
	return false;
}

/* Whether the put may go on in that region, or end well there. If it began in an earlier start of this relay, only the
 * program can know if this is the memory that it may have written then. value 0: it began before the other relay knew
 * of any start, or that relay is an older version. */
static enum lr_status bound_check(struct relay_thread *r, const struct relay_head *h, const struct relay_region *g)
{
	const struct relay_bound *b = bound_find(r, h->op);

	if (b)
		return b->serial == g->serial ? LR_OK : LR_NO_REGION;
	if (!g->is_memory || !h->value || h->value == r->instance || has_lived(g, h->value))
		return LR_OK;
	return LR_PEER_RESTARTED;
}

/* A put that writes into memory is bound to it. It takes the place of a put of the same start with the same low bits,
 * which is over at the other site, else of the one that was bound first: a put that survives RELAY_STARTS starts. */
static void bind_put(struct relay_thread *r, uint64_t op, const struct relay_region *g)
{
	struct relay_bound *b = r->bound[op % RELAY_OPS];
	unsigned i = 0;

	if (!g->is_memory || bound_find(r, op))
		return;
	while (i < RELAY_STARTS - 1 && b[i].serial && b[i].op >> 32 != op >> 32)
		i++;
	memmove(b + 1, b, i * sizeof(*b));
	b[0] = (struct relay_bound){.op = op, .serial = g->serial};
}

static void unbind_put(struct relay_thread *r, uint64_t op)
{
	struct relay_bound *b = bound_find(r, op);

	if (b)
		*b = (struct relay_bound){0};
}

/* Writes a chunk's bytes into the region. *later: relay_execute_written() hears of the end, if this returns LR_OK. */
static enum lr_status write_chunk(struct relay_thread *r, const struct relay_region *g, const struct relay_chunk *c,
                                  const struct relay_head *h, const uint8_t *data, size_t len, bool *later)
{
	struct relay_write w = {.chunk = *c, .op = h->op, .offset = h->offset, .data = data, .len = (uint32_t)len};

	*later = true;
	if (g->memory) {
		w.memory = g->memory;
		return relay_gpu_write(r, &w);
	}
	if (g->rdma) {
		const struct relay_remote m = relay_rdma_exported(g->rdma);

		return relay_rdma_write(r, &m, h->offset, c, data, (uint32_t)len, h->op);
	}
	w.offset += g->offset;
	if (g->file->mount) {
		w.file = g->file;
		return relay_file_write(r, &w);
	}
	*later = false;
	return pwrite_all(g->file->fd, data, len, w.offset) < 0 ? LR_IO_REMOTE : LR_OK;
}

/* True: the chunk is finished when its answer is committed. So is put_end(). */
static bool put(struct relay_thread *r, struct relay_channel_out *ch, const struct relay_chunk *c,
                const struct relay_head *h, const uint8_t *data, size_t len)
{
	struct relay_region *g = relay_region_find(r, h->name);
	enum lr_status status = relay_region_check(g, LR_PEER_WRITE, h->offset, len);
	bool later = false;

	if (status == LR_OK)
		status = bound_check(r, h, g);
	if (status == LR_OK)
		bind_put(r, h->op, g);
	if (status == LR_OK)
		status = write_chunk(r, g, c, h, data, len, &later);
	if (status == LR_OK && later)
		return true; /* relay_execute_written() finishes it */
	if (status == LR_OK) {
		relay_count(&r->count.relay_copied_bytes, len);
		g->bytes_in += len;
		return false;
	}
	return !has_failed(r, h->op) && answer_put(ch, c, h->op, status, 0);
}

/* A write that succeeded is not answered, so it needs no room for that: nothing that has ended waits behind requests of the
 * other site whose answers have to wait. */
bool relay_execute_has_room(struct relay_thread *r, const struct relay_write *w)
{
	return relay_write_is_answered(w) ? relay_execute_may_answer(r, w->chunk.channel)
	                                  : relay_port_has_room(r->port[r->channel[w->chunk.channel].worker]);
}

bool relay_execute_may_answer(struct relay_thread *r, uint32_t channel)
{
	return relay_port_has_room(r->port[r->channel[channel].worker]) && answers_to(r, channel)->nmessages < RELAY_MESSAGES;
}

void relay_execute_written(struct relay_thread *r, const struct relay_write *w)
{
	const struct relay_chunk *c = &w->chunk;
	struct relay_region *g = w->file     ? w->file->region
	                         : w->memory ? w->memory->region
	                         : w->rdma   ? relay_rdma_region(w->rdma)
	                                     : NULL;

	if (w->is_get)
		relay_op_written(r, w);
	else if (w->status == LR_OK && g)
		g->bytes_in += w->len;
	else if (w->status != LR_OK && !has_failed(r, w->op) &&
	         answer_put(answers_to(r, c->channel), c, w->op, w->status, 0))
		return;
	finish(r, c->channel, c->slot);
}

/* Gives the notice to the region's owner. *later: relay_execute_noticed() hears of the end, if this returns LR_OK. */
static enum lr_status give_notice(struct relay_thread *r, const struct relay_region *g, const struct relay_chunk *c,
                                  const struct relay_head *h, const uint8_t *data, size_t len, bool *later)
{
	struct lr_msg m = {.type = LRM_EVENT,
	                   .flags = LR_EV_NOTICE,
	                   .id = h->op,
	                   .offset = h->offset,
	                   .length = h->length};

	if (g->rdma) {
		const struct relay_remote remote = relay_rdma_exported(g->rdma);

		*later = true;
		return relay_rdma_notice(r, &remote, c);
	}
	memcpy(m.name, h->name, LR_NAME_MAX);
	relay_client_event(r, g->client, &m, data, len);
	return LR_OK;
}

void relay_execute_noticed(struct relay_thread *r, const struct relay_chunk *c, enum lr_status status)
{
	const uint8_t *data;
	struct relay_head h;
	size_t len;

	relay_head_get(c->data, c->len, &h, &data, &len); /* it was parsed before */
	if (!answer_put(answers_to(r, c->channel), c, h.op, status, h.length))
		finish(r, c->channel, c->slot);
}

static bool put_end(struct relay_thread *r, struct relay_channel_out *ch, const struct relay_chunk *c,
                    const struct relay_head *h, const uint8_t *data, size_t len)
{
	const struct relay_region *g = relay_region_find(r, h->name);
	enum lr_status status = relay_region_check(g, LR_PEER_WRITE, h->offset, h->length);
	bool later = false;

	if (status == LR_OK && len > LR_NOTICE_MAX)
		status = LR_OUT_OF_BOUNDS;
	if (status == LR_OK)
		status = bound_check(r, h, g);
	unbind_put(r, h->op);
	if (has_failed(r, h->op))
		return false;
	if (status == LR_OK && len > 0)
		status = give_notice(r, g, c, h, data, len, &later);
	if (status == LR_OK && later)
		return true; /* relay_execute_noticed() answers */
	return answer_put(ch, c, h->op, status, h->length);
}

/* --- get --- */

static struct relay_get *get_find(struct relay_thread *r, uint64_t op)
{
	for (uint32_t i = 0; i < RELAY_GETS; i++)
		if (r->get[i].used && r->get[i].op == op)
			return &r->get[i];
	return NULL;
}

static struct relay_get *get_new(struct relay_thread *r)
{
	for (uint32_t i = 0; i < RELAY_GETS; i++)
		if (!r->get[i].used)
			return &r->get[i];
	return NULL;
}

/* Opens the stream's source. The region may be removed while the stream reads: a file stays open, memory of an RDMA
 * client ends the stream (relay_execute_memory_gone()). */
static bool open_source(struct relay_thread *r, struct relay_stream *s, const struct relay_region *g)
{
	if (g->memory)
		return (s->reader = relay_reader_new(r, g->memory, s)) != NULL;
	if (g->rdma) {
		s->remote = relay_rdma_exported(g->rdma);
		return true;
	}
	if (g->file->mount && !(s->ahead = relay_file_reader_new(r, s)))
		return false;
	s->file = relay_file_ref(g->file);
	return true;
}

/* The pieces that a get asks for, each of which must lie in the region. */
static enum lr_status read_pieces(const struct relay_region *g, const struct relay_head *h, const uint8_t *data, size_t len,
                                  struct relay_pieces **out)
{
	enum lr_status status = h->value <= LR_PIECES_MAX && len == (size_t)h->value * RELAY_PIECE_LEN ? LR_OK : LR_OUT_OF_BOUNDS;
	struct relay_pieces *p = status == LR_OK ? relay_pieces_new(h->value) : NULL;
	uint64_t at = 0;

	if (!p)
		return status == LR_OK ? LR_NO_ROOM : status;
	for (uint32_t i = 0; status == LR_OK && i < h->value; i++) {
		uint64_t offset = get_be64(data + i * RELAY_PIECE_LEN), length = get_be64(data + i * RELAY_PIECE_LEN + 8);

		status = relay_region_check(g, LR_PEER_READ, offset, length);
		if (status == LR_OK && !relay_pieces_set(p, i, offset, at, length))
			status = LR_OUT_OF_BOUNDS;
		at += length;
	}
	if (status == LR_OK && at != h->length)
		status = LR_OUT_OF_BOUNDS;
	if (status == LR_OK)
		*out = p;
	else
		relay_pieces_unref(p);
	return status;
}

static enum lr_status get_start(struct relay_thread *r, struct relay_channel_out *ch, const struct relay_head *h,
                                const uint8_t *data, size_t len)
{
	struct relay_region *g = relay_region_find(r, h->name);
	enum lr_status status = relay_region_check(g, LR_PEER_READ, h->offset, h->value ? 0 : h->length);
	struct relay_get *get = get_new(r);
	struct relay_pieces *pieces = NULL;
	struct relay_stream *s;
	uint64_t length;

	if (status == LR_OK && h->value && h->offset)
		status = LR_OUT_OF_BOUNDS; /* pieces count from the region's beginning */
	if (status == LR_OK && h->value)
		status = read_pieces(g, h, data, len, &pieces);
	if (status != LR_OK)
		return status;
	length = h->length ? h->length : g->size - h->offset;
	s = get ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		relay_pieces_unref(pieces);
		return LR_NO_ROOM;
	}
	*s = (struct relay_stream){.fd_offset = g->offset + h->offset,
	                           .length = length,
	                           .pieces = pieces,
	                           .head = {.type = RW_GET_DATA, .op = h->op},
	                           .end = {.fence = true, .type = RW_GET_END, .op = h->op, .length = length}};
	if (!open_source(r, s, g)) {
		relay_pieces_unref(pieces);
		free(s);
		return LR_NO_ROOM;
	}
	g->bytes_out += length;
	*get = (struct relay_get){.used = true, .op = h->op, .stream = s};
	relay_stream_start(ch, s);
	return LR_OK;
}

static void cancel_get(struct relay_thread *r, uint64_t op)
{
	struct relay_get *get = get_find(r, op);

	if (get)
		relay_stream_kill(r, get->stream);
}

/* True if an earlier start of the other relay asked for it: nobody waits for the answer. */
static bool is_of_before(const struct relay_thread *r, uint64_t op)
{
	return r->peer_before && op >> 32 == r->peer_before;
}

/* A get that is asked for again replaces the one under way. */
static void get(struct relay_thread *r, struct relay_channel_out *ch, const struct relay_head *h, const uint8_t *data, size_t len)
{
	enum lr_status status;

	if (is_of_before(r, h->op))
		return;
	cancel_get(r, h->op);
	status = get_start(r, ch, h, data, len);
	if (status != LR_OK)
		say_status(ch, h->op, status, 0);
}

void relay_execute_stream_over(struct relay_thread *r, struct relay_stream *s)
{
	for (uint32_t i = 0; i < RELAY_GETS; i++)
		if (r->get[i].used && r->get[i].stream == s)
			r->get[i].used = false;
}

void relay_execute_memory_gone(struct relay_thread *r, const struct rdma_memory *mem)
{
	for (uint32_t i = 0; i < RELAY_GETS; i++)
		if (r->get[i].used && r->get[i].stream->remote.exported == mem)
			relay_stream_fail(r, r->get[i].stream, LR_NO_REGION);
}

/* --- calls --- */

static struct relay_service *service_find(struct relay_thread *r, const char *name)
{
	for (uint32_t i = 0; i < RELAY_SERVICES; i++)
		if (r->service[i].client && strcmp(r->service[i].name, name) == 0)
			return &r->service[i];
	return NULL;
}

static struct relay_call *call_of(struct relay_thread *r, uint64_t op)
{
	struct relay_call *spare = NULL;

	for (uint32_t i = 0; i < RELAY_CALLS; i++) {
		if (r->call[i].used && r->call[i].op == op)
			return &r->call[i];
		if (!r->call[i].used && !spare)
			spare = &r->call[i];
	}
	return spare;
}

static void call_free(struct relay_call *c)
{
	free(c->data);
	*c = (struct relay_call){.gen = c->gen + 1};
}

static void call_failed(struct relay_thread *r, struct relay_channel_out *ch, struct relay_call *c, uint64_t op,
                        enum lr_status status)
{
	if (c)
		call_free(c);
	if (!has_failed(r, op))
		say_status(ch, op, status, 0);
	note_failed(r, op);
}

static void give_to_service(struct relay_thread *r, struct relay_channel_out *ch, struct relay_call *c)
{
	struct relay_service *s = service_find(r, c->name);
	struct lr_msg m = {.type = LRM_EVENT,
	                   .flags = LR_EV_CALL,
	                   .id = (uint64_t)c->gen << 32 | (uint32_t)(c - r->call),
	                   .length = c->len};

	if (!s) {
		call_failed(r, ch, c, c->op, LR_NO_SERVICE);
		return;
	}
	memcpy(m.name, c->name, LR_NAME_MAX);
	c->given = true;
	c->client = s->client;
	relay_client_event(r, s->client, &m, c->data, c->len);
	free(c->data);
	c->data = NULL;
}

static void call(struct relay_thread *r, struct relay_channel_out *ch, const struct relay_head *h, const uint8_t *data,
                 size_t len)
{
	struct relay_call *c = call_of(r, h->op);

	if (has_failed(r, h->op) || is_of_before(r, h->op))
		return;
	if (h->value > LR_CALL_MAX || h->offset > h->value || len > h->value - h->offset || !c) {
		call_failed(r, ch, NULL, h->op, LR_NO_ROOM);
		return;
	}
	if (!c->used) {
		*c = (struct relay_call){
		    .used = true, .op = h->op, .ch = ch, .gen = c->gen, .data = calloc(1, (size_t)h->value + 1), .len = h->value};
		memcpy(c->name, h->name, LR_NAME_MAX);
	}
	if (c->given)
		return;
	if (!c->data || c->len != h->value) {
		call_failed(r, ch, c, h->op, LR_NO_ROOM);
		return;
	}
	memcpy(c->data + h->offset, data, len);
	c->got += len;
	if (c->got >= c->len)
		give_to_service(r, ch, c);
}

int relay_execute_reply(struct relay_thread *r, struct relay_client *cl, uint64_t id, enum lr_status status,
                        const uint8_t *data, size_t len)
{
	struct relay_call *c = &r->call[(uint32_t)id % RELAY_CALLS];
	struct relay_head h = {.type = RW_REPLY, .op = c->op, .status = (uint8_t)status, .value = (uint32_t)len};
	int rc = 0;

	if ((uint32_t)id >= RELAY_CALLS || !c->used || !c->given || c->gen != id >> 32 || c->client != cl)
		return -ENOENT;
	if (len > LR_CALL_MAX || status >= LR_STATUSES)
		return -EINVAL;
	do {
		size_t left = len - (size_t)h.offset, n = left < RELAY_DATA_MAX ? left : RELAY_DATA_MAX;

		rc = relay_say(c->ch, &h, data + h.offset, n, 0);
		h.offset += n;
	} while (rc == 0 && h.offset < len);
	call_free(c);
	return rc;
}

void relay_execute_client_gone(struct relay_thread *r, struct relay_client *cl)
{
	for (uint32_t i = 0; i < RELAY_SERVICES; i++)
		if (r->service[i].client == cl)
			r->service[i].client = NULL;
	for (uint32_t i = 0; i < RELAY_CALLS; i++) {
		struct relay_call *c = &r->call[i];

		if (!c->used || !c->given || c->client != cl)
			continue;
		say_status(c->ch, c->op, LR_PROVIDER_GONE, 0);
		call_free(c);
	}
}

/* Cancels a call whose parts have not all come. */
static void cancel_call(struct relay_thread *r, uint64_t op)
{
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		if (r->call[i].used && !r->call[i].given && r->call[i].op == op)
			call_free(&r->call[i]);
}

/* Its instance is in the upper half of its operations' numbers. */
void relay_execute_peer_started(struct relay_thread *r)
{
	for (uint32_t i = 0; i < RELAY_GETS; i++)
		if (r->get[i].used && r->get[i].op >> 32 != r->peer_instance)
			relay_stream_kill(r, r->get[i].stream);
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		if (r->call[i].used && !r->call[i].given && r->call[i].op >> 32 != r->peer_instance)
			call_free(&r->call[i]);
}

int relay_execute_serve(struct relay_thread *r, struct relay_client *cl, const char *name)
{
	if (!name[0])
		return -EINVAL;
	if (service_find(r, name))
		return -EEXIST;
	for (uint32_t i = 0; i < RELAY_SERVICES; i++) {
		struct relay_service *s = &r->service[i];

		if (s->client)
			continue;
		memcpy(s->name, name, LR_NAME_MAX);
		s->client = cl;
		return 0;
	}
	return -ENOSPC;
}

/* --- chunks --- */

static void request(struct relay_thread *r, const struct relay_chunk *c, const struct relay_head *h, const uint8_t *data,
                    size_t len)
{
	struct relay_channel_out *ch = answers_to(r, c->channel);
	bool answered = false;

	switch (h->type) {
	case RW_PUT:
		answered = put(r, ch, c, h, data, len);
		break;
	case RW_PUT_END:
		answered = put_end(r, ch, c, h, data, len);
		break;
	case RW_GET:
		get(r, ch, h, data, len);
		break;
	case RW_CALL:
		call(r, ch, h, data, len);
		break;
	default:
		cancel_get(r, h->op);
		cancel_call(r, h->op);
		break;
	}
	if (!answered)
		finish(r, c->channel, c->slot);
}

/* True while a missing region or service may still come: after a start of the daemon, programs reconnect one by one. */
static bool may_come(struct relay_thread *r, const struct relay_head *h)
{
	if (clock_now_ns() >= r->started_ns + RELAY_GRACE_NS)
		return false;
	return h->type == RW_CALL ? !service_find(r, h->name) : h->type != RW_CANCEL && !relay_region_find(r, h->name);
}

static bool can_execute(struct relay_thread *r, uint32_t channel, const struct relay_head *h)
{
	return answers_to(r, channel)->nmessages < RELAY_MESSAGES && !may_come(r, h);
}

static bool defer(struct relay_thread *r, const struct relay_chunk *c)
{
	struct relay_deferred *d = malloc(sizeof(*d));

	if (!d)
		return false;
	*d = (struct relay_deferred){.chunk = *c};
	dlist_append(&r->deferred, &d->node);
	return true;
}

void relay_execute(struct relay_thread *r, const struct relay_chunk *c)
{
	const uint8_t *data;
	struct relay_head h;
	size_t len;

	if (!relay_head_get(c->data, c->len, &h, &data, &len) || !relay_may_carry(c->channel, h.type)) {
		r->malformed++;
		finish(r, c->channel, c->slot);
		return;
	}
	if (h.type >= RW_ANSWERS) {
		if (relay_op_answer(r, c, &h, data, len))
			finish(r, c->channel, c->slot);
		return;
	}
	if ((dlist_empty(&r->deferred) && can_execute(r, c->channel, &h)) || !defer(r, c))
		request(r, c, &h, data, len);
}

void relay_execute_deferred(struct relay_thread *r)
{
	struct dnode *n, *next;

	for (n = r->deferred.next; n != &r->deferred; n = next) {
		struct relay_deferred *d = dlist_entry(n, struct relay_deferred, node);
		const uint8_t *data;
		struct relay_head h;
		size_t len;

		next = n->next;
		if (!relay_port_has_room(r->port[r->channel[d->chunk.channel].worker]))
			return;
		relay_head_get(d->chunk.data, d->chunk.len, &h, &data, &len); /* it was parsed before */
		if (!can_execute(r, d->chunk.channel, &h))
			continue;
		dlist_remove(n);
		request(r, &d->chunk, &h, data, len);
		free(d);
	}
}
