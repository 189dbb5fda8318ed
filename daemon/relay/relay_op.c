/* SPDX-License-Identifier: Apache-2.0 */
/* relay_op.c - operations of this site's programs, from their beginning to their end.
 *
 *     put   a stream of RW_PUT on a request channel, RW_PUT_END; answered by RW_STATUS
 *     get   RW_GET; answered by a stream of RW_GET_DATA and RW_GET_END, or by RW_STATUS
 *     call  RW_CALL, in parts; answered by RW_REPLY, in parts, or by RW_STATUS
 *
 * A put whose promise is near ends when its last chunk is committed here, far when all of it has arrived in the other
 * edge's buffer, done when RW_STATUS says so. The operation is kept until RW_STATUS has come in any case: if that names
 * an error, the program gets LR_EV_LATE. When a client disconnects, its operations end, except puts whose bytes are all
 * in the buffer; those of RDMA clients are bounded by RELAY_OPS_GONE, as a client may connect again and again while the
 * line is down. A get or call that ends before its answer is cancelled at the other edge (RW_CANCEL). */
#include "relay_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/clock.h"
#include "daemon/util/file_io.h"
#include "daemon/util/log.h"
#include "proxy/util/bytes.h"

#define INDEX_BITS 12 /* of an id; above it a count, and the instance */
_Static_assert(RELAY_OPS == 1 << INDEX_BITS, "an index fits its bits");

/* --- the table --- */

void relay_ops_init(struct relay_thread *r)
{
	r->late = (struct log_limit){.window_ns = 10000000000ull, .burst = 10};
}

struct relay_op *relay_op_find(struct relay_thread *r, uint64_t id)
{
	struct relay_op *op = id ? r->op[id & (RELAY_OPS - 1)] : NULL;

	return op && op->id == id ? op : NULL;
}

static struct relay_op *op_new(struct relay_thread *r)
{
	struct relay_op *op;

	if (r->nops == RELAY_OPS)
		return NULL;
	op = calloc(1, sizeof(*op));
	if (!op)
		return NULL;
	do
		r->op_gen++;
	while (r->op[r->op_gen & (RELAY_OPS - 1)]);
	op->id = (uint64_t)r->instance << 32 | r->op_gen;
	r->op[op->id & (RELAY_OPS - 1)] = op;
	r->nops++;
	return op;
}

static void op_free(struct relay_thread *r, struct relay_op *op)
{
	r->op[op->id & (RELAY_OPS - 1)] = NULL;
	r->nops--;
	if (op->unsaid > 0)
		relay_forget(op->ch, op->id);
	r->nwaiting -= op->waits;
	r->nfar -= op->kind == RELAY_OP_PUT && op->promise == LR_FAR;
	r->ngone -= op->is_gone;
	if (op->client) {
		dlist_remove(&op->client_node);
		op->client->nops--;
	}
	if (op->stream) {
		struct relay_stream *s = op->stream;

		op->stream = NULL;
		s->op = 0;
		relay_stream_kill(r, s);
	}
	if (op->memory)
		relay_memory_unref(r, op->memory);
	relay_file_unref(op->file);
	relay_pieces_unref(op->pieces);
	free(op->request);
	free(op->reply);
	free(op);
}

/* --- what the program hears --- */

/* One host may cause many of these: it may put, and go. */
static void log_late(struct relay_thread *r, const struct relay_op *op, enum lr_status status)
{
	uint32_t missed = 0;
	char more[LOG_MORE_MAX];

	if (!log_limit_pass(&r->late, clock_now_ns(), &missed))
		return;
	log_limit_more(missed, more);
	log_warn("link %s: a put of %llu bytes into %s has failed after its promise: %s%s", r->config.name,
	         (unsigned long long)op->length, op->name, lr_strerror(status), more);
}

static void tell(struct relay_thread *r, struct relay_op *op, enum lr_event_type type, enum lr_status status)
{
	struct lr_msg m = {.type = LRM_EVENT,
	                   .flags = type,
	                   .id = op->id,
	                   .status = status,
	                   .promise = op->promise,
	                   .length = op->bytes};

	if (op->client && !(op->told && type == LR_EV_DONE))
		relay_client_event(r, op->client, &m, op->reply, status == LR_OK ? op->reply_len : 0);
	else if (type == LR_EV_LATE)
		log_late(r, op, status);
	op->told = true;
}

static void start(struct relay_thread *r, struct relay_op *op);

/* Begins, or fails, the operations that name this one as `after`. */
static void go_on(struct relay_thread *r, uint64_t id, enum lr_status status)
{
	for (uint32_t i = 0; r->nwaiting > 0 && i < RELAY_OPS; i++) {
		struct relay_op *op = r->op[i];

		if (!op || !op->waits || op->after != id)
			continue;
		op->waits = false;
		r->nwaiting--;
		if (status == LR_OK)
			start(r, op);
		else
			relay_op_end(r, op->id, LR_BEFORE_FAILED);
	}
}

void relay_op_end(struct relay_thread *r, uint64_t id, enum lr_status status)
{
	struct relay_op *op = relay_op_find(r, id);
	bool first;

	if (!op)
		return;
	first = !op->told;
	if (status != LR_OK)
		relay_count(&r->count.relay_operations_failed, 1);
	if (first && status != LR_OK)
		r->unwell[id & (RELAY_OPS - 1)] = id;
	if (first && status == LR_OK && op->kind == RELAY_OP_PUT) {
		r->nfar -= op->promise == LR_FAR;
		op->promise = LR_DONE;
	}
	if (first)
		tell(r, op, LR_EV_DONE, status);
	else if (status != LR_OK)
		tell(r, op, LR_EV_LATE, status);
	op_free(r, op);
	if (first)
		go_on(r, id, status);
}

/* The put's promise is fulfilled: tells the program; RW_STATUS is still to come. */
static void promise_kept(struct relay_thread *r, struct relay_op *op)
{
	if (op->told)
		return;
	op->bytes = op->length;
	tell(r, op, LR_EV_DONE, LR_OK);
	go_on(r, op->id, LR_OK);
}

/* --- beginning --- */

/* Programs are spread over the request channels. */
static struct relay_channel_out *channel_for(struct relay_thread *r, const struct relay_op *op)
{
	return &r->channel[relay_request_channel(r, (uint32_t)(op->id % (r->nchannels / 2)))];
}

static int start_put(struct relay_thread *r, struct relay_op *op)
{
	struct relay_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct relay_stream){
	    .remote = op->remote,
	    .fd_offset = op->fd_offset,
	    .pieces = relay_pieces_ref(op->pieces),
	    .length = op->length,
	    .op = op->id,
	    .head = {.type = RW_PUT, .value = r->peer_instance, .op = op->id, .offset = op->region_offset},
	    .end = {.fence = true,
	            .type = RW_PUT_END,
	            .value = r->peer_instance,
	            .op = op->id,
	            .offset = op->region_offset,
	            .length = op->length},
	    .notice_len = op->notice_len};
	op->peer_start = r->peer_instance;
	memcpy(s->head.name, op->name, LR_NAME_MAX);
	memcpy(s->end.name, op->name, LR_NAME_MAX);
	memcpy(s->notice, op->notice, op->notice_len);
	if (op->pieces)
		relay_pieces_span(op->pieces, &s->end.offset, &s->end.length);
	if ((op->memory && !(s->reader = relay_reader_new(r, op->memory, s))) ||
	    (op->file && op->file->mount && !(s->ahead = relay_file_reader_new(r, s)))) {
		relay_pieces_unref(s->pieces);
		free(s);
		return -ENOMEM;
	}
	if (op->file)
		s->file = relay_file_ref(op->file);
	op->stream = s;
	relay_stream_start(op->ch, s);
	return 0;
}

static int start_get(struct relay_op *op)
{
	struct relay_head h = {.type = RW_GET, .op = op->id, .offset = op->region_offset, .length = op->length};

	uint8_t pieces[LR_PIECES_MAX * RELAY_PIECE_LEN];

	memcpy(h.name, op->name, LR_NAME_MAX);
	h.value = op->pieces ? op->pieces->n : 0;
	for (uint32_t i = 0; i < h.value; i++) {
		put_be64(pieces + i * RELAY_PIECE_LEN, op->pieces->piece[i].source);
		put_be64(pieces + i * RELAY_PIECE_LEN + 8, op->pieces->piece[i].length);
	}
	op->unsaid++;
	return relay_say(op->ch, &h, pieces, h.value * RELAY_PIECE_LEN, op->id);
}

static int start_call(struct relay_op *op)
{
	struct relay_head h = {.type = RW_CALL, .op = op->id, .value = (uint32_t)op->request_len};
	int rc = 0;

	memcpy(h.name, op->name, LR_NAME_MAX);
	do {
		size_t left = op->request_len - (size_t)h.offset, n = left < RELAY_DATA_MAX ? left : RELAY_DATA_MAX;

		op->unsaid++;
		rc = relay_say(op->ch, &h, op->request + h.offset, n, op->id);
		h.offset += n;
	} while (rc == 0 && h.offset < op->request_len);
	return rc;
}

/* True if the other relay does not know vectors and this is a get of pieces. A put of pieces needs nothing there: each
 * chunk names its offset. */
static bool lacks_pieces(const struct relay_thread *r, const struct relay_op *op)
{
	return op->kind == RELAY_OP_GET && op->pieces && r->peer_instance && !(r->peer_knows & RELAY_KNOWS_PIECES);
}

static void start(struct relay_thread *r, struct relay_op *op)
{
	int rc;

	if (lacks_pieces(r, op)) {
		relay_op_end(r, op->id, LR_OLD_PEER);
		return;
	}
	rc = op->kind == RELAY_OP_PUT ? start_put(r, op) : op->kind == RELAY_OP_GET ? start_get(op) : start_call(op);

	if (rc < 0)
		relay_op_end(r, op->id, LR_NO_ROOM);
}

static enum lr_promise promise_of(const struct relay_thread *r, uint32_t asked)
{
	if (asked != LR_LINK)
		return (enum lr_promise)asked;
	return r->config.ack_mode == ACK_MODE_NEAR ? LR_NEAR : r->config.ack_mode == ACK_MODE_FAR ? LR_FAR : LR_DONE;
}

static bool is_vector(const struct lr_msg *m)
{
	return m->type == LRM_PUTV || m->type == LRM_GETV;
}

/* Turns a vector request into a put or get and its pieces, which precede the notice. */
static int take_pieces(struct lr_msg *m, const uint8_t **data, size_t *len, struct relay_pieces **out)
{
	bool put = m->type == LRM_PUTV;
	struct relay_pieces *p;
	uint64_t sum = 0;
	int rc = 0;

	if (m->id == 0 || m->id > LR_PIECES_MAX || *len < m->id * sizeof(struct lr_piece) || m->offset || m->region_offset)
		return -EINVAL;
	p = relay_pieces_new((uint32_t)m->id);
	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < p->n; i++) {
		struct lr_piece q;

		memcpy(&q, *data + i * sizeof(q), sizeof(q));
		if (!relay_pieces_set(p, i, put ? q.offset : q.region_offset, put ? q.region_offset : q.offset, q.length) ||
		    q.offset > INT64_MAX - q.length || q.region_offset > INT64_MAX - q.length)
			rc = -EINVAL;
		sum += q.length;
	}
	if (rc == 0 && sum != m->length)
		rc = -EINVAL;
	if (rc < 0) {
		relay_pieces_unref(p);
		return rc;
	}
	*data += p->n * sizeof(struct lr_piece);
	*len -= p->n * sizeof(struct lr_piece);
	m->type = put ? LRM_PUT : LRM_GET;
	*out = p;
	return 0;
}

static int check(const struct lr_msg *m, size_t len, int fd)
{
	bool put = m->type == LRM_PUT;

	if (!m->name[0])
		return -EINVAL;
	if (m->type == LRM_CALL)
		return len <= LR_CALL_MAX ? 0 : -EMSGSIZE;
	if (m->local[0] && fd >= 0)
		return -EINVAL;
	if (m->flags > LR_DONE || m->offset > INT64_MAX || m->length > INT64_MAX - m->offset ||
	    m->region_offset > INT64_MAX || m->length > INT64_MAX - m->region_offset || len > LR_NOTICE_MAX ||
	    (!put && len > 0) || ((m->length > 0 || !put) && fd < 0 && !m->local[0]))
		return -EINVAL;
	return !m->local[0] && (m->length > 0 || !put) ? relay_file_check(fd, put, !put) : 0;
}

bool relay_op_takes_fd(const struct lr_msg *m)
{
	return !m->local[0] && (m->type == LRM_GET || is_vector(m) || (m->type == LRM_PUT && m->length > 0));
}

/* True if the bytes that the operation reads or writes at this site lie in that region of the program. */
static bool is_within(const struct relay_op *op, const struct lr_msg *m, uint64_t size)
{
	for (uint32_t i = 0; op->pieces && i < op->pieces->n; i++) {
		const struct relay_piece *p = &op->pieces->piece[i];
		uint64_t at = op->kind == RELAY_OP_PUT ? p->source : p->target;

		if (at > size || p->length > size - at)
			return false;
	}
	return op->pieces || (m->offset <= size && m->length <= size - m->offset);
}

/* Uses a region of the program in place of a descriptor. */
static int use_local(struct relay_thread *r, const struct relay_client *cl, const struct lr_msg *m, struct relay_op *op)
{
	struct relay_region *g = relay_region_find(r, m->local);

	if (!g || g->client != cl)
		return -ENOENT;
	if (!is_within(op, m, g->size))
		return -ERANGE;
	op->fd_max = g->size - m->offset;
	if (g->memory) {
		op->memory = relay_memory_ref(g->memory);
		return 0;
	}
	op->fd_offset += g->offset;
	op->file = relay_file_ref(g->file);
	return relay_file_check(g->file->fd, op->kind == RELAY_OP_PUT, op->kind == RELAY_OP_GET);
}

static int use_descriptor(struct relay_thread *r, struct relay_op *op, int fd)
{
	op->file = relay_file_new(r, fd, op->name);
	if (!op->file)
		return -EMFILE;
	op->file->is_read = op->kind == RELAY_OP_PUT;
	return 0;
}

/* fd, or the client's memory; neither if remote is NULL and fd negative. pieces: the caller keeps its reference. */
static int op_begin(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data, size_t len,
                    int fd, const struct relay_remote *remote, struct relay_pieces *pieces, uint64_t *id)
{
	struct relay_op *op, *before;
	int rc;

	if (cl->nops >= RELAY_OPS_OF_CLIENT || !(op = op_new(r)))
		return -EAGAIN;
	op->kind = m->type == LRM_PUT ? RELAY_OP_PUT : m->type == LRM_GET ? RELAY_OP_GET : RELAY_OP_CALL;
	op->fd_offset = m->offset;
	op->fd_max = INT64_MAX - m->offset;
	op->length = m->length;
	op->region_offset = m->region_offset;
	op->promise = m->type == LRM_PUT ? promise_of(r, m->flags) : LR_DONE;
	op->pieces = relay_pieces_ref(pieces);
	memcpy(op->name, m->name, LR_NAME_MAX);
	if (op->kind == RELAY_OP_CALL && !(op->request = malloc(len + 1))) {
		op_free(r, op);
		return -ENOMEM;
	}
	if (op->kind == RELAY_OP_CALL) {
		memcpy(op->request, data, len);
		op->request_len = len;
	} else {
		memcpy(op->notice, data, len);
		op->notice_len = len;
	}
	if (remote)
		op->remote = *remote;
	op->client = cl;
	cl->nops++;
	dlist_append(&cl->ops, &op->client_node);
	op->ch = channel_for(r, op);
	r->nfar += op->kind == RELAY_OP_PUT && op->promise == LR_FAR;
	rc = m->local[0] && op->kind != RELAY_OP_CALL ? use_local(r, cl, m, op) : 0;
	if (!remote && relay_op_takes_fd(m))
		rc = use_descriptor(r, op, fd);
	if (rc < 0) {
		op_free(r, op);
		return rc;
	}
	*id = op->id;
	relay_count(&r->count.relay_operations, 1);
	op->after = m->after;
	before = relay_op_find(r, m->after);
	op->waits = before ? !before->told : m->after && r->unwell[m->after & (RELAY_OPS - 1)] == m->after;
	if (op->waits)
		r->nwaiting++;
	else
		start(r, op);
	return 0;
}

int relay_op_begin(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data,
                   size_t len, int fd, uint64_t *id)
{
	struct relay_pieces *pieces = NULL;
	struct lr_msg one = *m;
	int rc = is_vector(m) ? take_pieces(&one, &data, &len, &pieces) : 0;

	if (rc == 0)
		rc = check(&one, len, fd);
	if (rc == 0)
		rc = op_begin(r, cl, &one, data, len, fd, NULL, pieces, id);
	relay_pieces_unref(pieces);
	return rc;
}

int relay_op_begin_remote(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data,
                          size_t len, const struct relay_remote *remote, uint64_t *id)
{
	if (m->type == LRM_PUT && r->ngone >= RELAY_OPS_GONE)
		return -EAGAIN;
	return op_begin(r, cl, m, data, len, -1, remote, NULL, id);
}

void relay_op_begun(struct relay_thread *r, uint64_t id)
{
	struct relay_op *op = relay_op_find(r, id);

	if (op && op->waits && !relay_op_find(r, op->after))
		relay_op_end(r, id, LR_BEFORE_FAILED);
}

/* Ends the operation before its answer has come. RW_CANCEL is a fence, so it does not overtake the chunks that it
 * cancels. */
static void op_give_up(struct relay_thread *r, struct relay_op *op, enum lr_status status)
{
	struct relay_head h = {.fence = true, .type = RW_CANCEL, .op = op->id};

	if (op->kind != RELAY_OP_PUT && op->sent)
		relay_say(op->ch, &h, NULL, 0, 0);
	relay_op_end(r, op->id, status);
}

void relay_op_cancel(struct relay_thread *r, struct relay_op *op)
{
	op_give_up(r, op, LR_CANCELLED);
}

/* --- on its way --- */

void relay_op_taken(struct relay_thread *r, uint64_t id, const struct relay_chunk *c, bool last)
{
	struct relay_op *op = relay_op_find(r, id);

	if (!op)
		return;
	if (!op->sent)
		op->life = op->ch->status.life;
	op->sent = true;
	if (op->unsaid > 0)
		op->unsaid--;
	if (last) {
		op->end_known = true;
		op->end_pos = c->pos;
	}
}

void relay_op_committed(struct relay_thread *r, uint64_t id)
{
	struct relay_op *op = relay_op_find(r, id);

	if (op && op->kind == RELAY_OP_PUT && op->promise == LR_NEAR)
		promise_kept(r, op);
}

void relay_op_stream_over(struct relay_thread *r, const struct relay_stream *s)
{
	struct relay_op *op = relay_op_find(r, s->op);

	if (!op || op->stream != s)
		return;
	op->stream = NULL;
	if (op->memory) /* its bytes are in the buffer; RW_STATUS may come hours later */
		relay_memory_unref(r, op->memory);
	op->memory = NULL;
}

/* The channel's life is over: repeats gets; other operations with chunks under way have failed. */
static void life_over(struct relay_thread *r, struct relay_op *op)
{
	if (op->kind != RELAY_OP_GET) {
		op_give_up(r, op, LR_PEER_RESTARTED);
		return;
	}
	op->sent = false;
	start(r, op);
}

void relay_op_moved(struct relay_thread *r, struct relay_channel_out *ch, uint32_t life_before)
{
	bool changed = ch->status.life && life_before && ch->status.life != life_before;

	for (uint32_t i = 0; (changed || r->nfar > 0) && i < RELAY_OPS; i++) {
		struct relay_op *op = r->op[i];

		if (!op || op->ch != ch || !op->sent)
			continue;
		if (changed && op->life != ch->status.life)
			life_over(r, op);
		else if (op->kind == RELAY_OP_PUT && op->promise == LR_FAR && op->end_known &&
		         ch->status.out_received > op->end_pos)
			promise_kept(r, op);
	}
}

void relay_op_peer_restarted(struct relay_thread *r)
{
	for (uint32_t i = 0; r->nops > 0 && i < RELAY_OPS; i++) {
		struct relay_op *op = r->op[i];

		if (op && op->sent && (op->kind != RELAY_OP_PUT || !op->peer_start))
			life_over(r, op);
	}
}

void relay_op_memory_gone(struct relay_thread *r, const struct relay_memory *mem)
{
	for (uint32_t i = 0; r->nops > 0 && i < RELAY_OPS; i++)
		if (r->op[i] && r->op[i]->memory == mem)
			op_give_up(r, r->op[i], mem->status);
}

void relay_op_client_gone(struct relay_thread *r, struct relay_client *cl)
{
	struct dnode *n;

	while ((n = dlist_first(&cl->ops))) {
		struct relay_op *op = dlist_entry(n, struct relay_op, client_node);

		dlist_remove(n);
		cl->nops--;
		op->client = NULL;
		if (op->kind != RELAY_OP_PUT || !op->end_known) {
			op_give_up(r, op, LR_CANCELLED);
			continue;
		}
		op->is_gone = op->remote.conn != NULL;
		r->ngone += op->is_gone;
	}
}

/* --- answers --- */

/* False: the chunk is kept until it is written. A range that wraps cannot come: relay_head_get(). */
static bool get_data(struct relay_thread *r, struct relay_op *op, const struct relay_chunk *c, const struct relay_head *h,
                     const uint8_t *data, size_t len)
{
	uint64_t length = op->length ? op->length : op->fd_max;
	uint64_t at;
	enum lr_status status;

	if (op->kind != RELAY_OP_GET)
		return true;
	if (h->offset > length || len > length - h->offset) {
		if (!op->length && op->memory)
			op_give_up(r, op, LR_OUT_OF_BOUNDS); /* the region there is larger than the memory here */
		return true;
	}
	if (op->pieces && relay_pieces_run(op->pieces, h->offset, len) < len) {
		op_give_up(r, op, LR_OUT_OF_BOUNDS); /* no correct relay sends bytes of two pieces in one chunk */
		return true;
	}
	at = op->fd_offset + relay_pieces_target(op->pieces, h->offset);
	if (op->remote.conn) {
		status = relay_rdma_write(r, &op->remote, h->offset, c, data, (uint32_t)len, op->id);
		if (status != LR_OK)
			op_give_up(r, op, status);
		return status != LR_OK;
	}
	if (op->memory) {
		status = relay_gpu_write(r, &(struct relay_write){.memory = op->memory, .chunk = *c, .op = op->id,
		                                                  .offset = at, .data = data,
		                                                  .len = (uint32_t)len, .is_get = true});
		if (status != LR_OK)
			op_give_up(r, op, status);
		return status != LR_OK;
	}
	if (op->file->mount) {
		status = relay_file_write(r, &(struct relay_write){.file = op->file, .chunk = *c, .op = op->id, .offset = at,
		                                                   .data = data, .len = (uint32_t)len, .is_get = true});
		if (status != LR_OK)
			op_give_up(r, op, status);
		return status != LR_OK;
	}
	if (pwrite_all(op->file->fd, data, len, at) < 0) {
		op_give_up(r, op, LR_IO_LOCAL);
		return true;
	}
	op->bytes += len;
	relay_count(&r->count.relay_copied_bytes, len);
	return true;
}

void relay_op_written(struct relay_thread *r, const struct relay_write *w)
{
	struct relay_op *op = relay_op_find(r, w->op);

	if (op && w->status == LR_OK)
		op->bytes += w->len;
	else if (op)
		op_give_up(r, op, w->status);
}

static void reply(struct relay_thread *r, struct relay_op *op, const struct relay_head *h, const uint8_t *data, size_t len)
{
	if (op->kind != RELAY_OP_CALL || h->value > LR_CALL_MAX || h->offset > h->value || len > h->value - h->offset)
		return;
	if (!op->reply) {
		op->reply = calloc(1, (size_t)h->value + 1); /* zeroed, as parts may come twice and leave gaps: a reply
		                                              * must not show this process's memory */
		op->reply_len = h->value;
	}
	if (!op->reply || op->reply_len != h->value) {
		relay_op_end(r, op->id, LR_NO_ROOM);
		return;
	}
	memcpy(op->reply + h->offset, data, len);
	op->reply_got += len;
	if (op->reply_got >= op->reply_len)
		relay_op_end(r, op->id, (enum lr_status)h->status);
}

/* The other relay has started again: tells it of this start, which only its predecessor has heard of. */
static void peer_started(struct relay_thread *r, uint32_t instance, uint64_t knows)
{
	if (instance == r->peer_instance)
		return;
	r->peer_knows = knows;
	r->peer_before = r->peer_instance;
	r->peer_instance = instance;
	relay_say_hello(r);
	relay_execute_peer_started(r);
	if (r->peer_before)
		relay_op_peer_restarted(r);
	for (uint32_t i = 0; r->nops > 0 && i < RELAY_OPS; i++)
		if (r->op[i] && r->op[i]->sent && lacks_pieces(r, r->op[i]))
			relay_op_end(r, r->op[i]->id, LR_OLD_PEER); /* the get was sent before the peer's version was
			                                             * known */
}

bool relay_op_answer(struct relay_thread *r, const struct relay_chunk *c, const struct relay_head *h, const uint8_t *data,
                     size_t len)
{
	struct relay_op *op = relay_op_find(r, h->op);

	if (h->type == RW_HELLO) {
		peer_started(r, h->value, h->length);
		return true;
	}
	if (!op)
		return true; /* the operation was cancelled, or belongs to an earlier start */
	switch (h->type) {
	case RW_STATUS:
		if (h->status == LR_OK)
			op->bytes = op->length;
		relay_op_end(r, op->id, (enum lr_status)h->status);
		return true;
	case RW_GET_DATA:
		return get_data(r, op, c, h, data, len);
	case RW_GET_END:
		if (op->kind == RELAY_OP_GET) {
			op->bytes = h->length;
			relay_op_end(r, op->id, (enum lr_status)h->status);
		}
		return true;
	default:
		reply(r, op, h, data, len);
		return true;
	}
}
