/* SPDX-License-Identifier: Apache-2.0 */
/* relay_rdma_work.c - what the edge posts on the queue pairs of RDMA clients: READs and WRITEs of their memory, and messages.
 *
 * READs and WRITEs wait in rdma_conn.waiting until the send queue has room. READs are posted first: the slot of a READ has
 * its position, so all that is behind it in its channel waits for it. WRITEs of answers and of requests of the other site
 * (rdma_kind) are posted in turn: an answer never waits behind a request.
 *
 * What has ended is finished as far as the workers' rings have room. Only a WRITE of a put that has failed and a notice are
 * answered, and wait for room in the answering channel, in a list of their own: that room may come only from READs, whose
 * completions commit the slots in front of the answers.
 *
 * A notice is caused by others, at any rate. So it takes credit (lr_rdma_wire.h), and ordinary messages go first: however many
 * notices come, the client has receives left for what its own requests cause. A put with a notice is answered when the SEND has
 * completed. RW_PUT_END is a fence, so it holds up the ends of all puts behind it in its channel: a notice waits for credit for
 * NOTICE_NS, and no longer than NOTICE_NS after the credit ran out; then its put ends with LR_NO_ROOM.
 *
 * A region of a client (struct rdma_memory) is read and written like the memory of an operation. When it is withdrawn,
 * what waits for it ends at once, and the client is answered when what was posted has completed: then the device touches
 * the memory no more. The other site hears LR_NO_REGION, as of a program at the socket that has gone; LR_IO_REMOTE if the
 * client's device refused the access. */
#include "relay_rdma_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/util/clock.h"

#define NOTICE_NS 10000000000ull

/* --- what is posted --- */

void relay_rdma_work_over(struct relay_thread *r, struct rdma_work *w, enum lr_status status)
{
	struct relay_rdma *d = r->rdma;
	uint32_t channel = w->kind == WORK_READ ? w->ch->idx : w->chunk.channel;

	w->conn = NULL;
	w->status = status;
	if (w->kind == WORK_NOTICE || (w->kind == WORK_WRITE_OF_PUT && status != LR_OK))
		dlist_append(&d->answering[channel], &w->node);
	else
		dlist_append(&d->done[r->channel[channel].worker], &w->node);
}

void relay_rdma_note_posted(struct rdma_conn *c, uint64_t since_ns)
{
	c->posted_ns[(c->oldest + c->posted++) % POSTED_MAX] = since_ns;
}

void relay_rdma_note_completed(struct rdma_conn *c)
{
	c->progress_ns = clock_now_ns();
	if (c->posted == 0)
		return;
	c->posted--;
	c->oldest = (c->oldest + 1) % POSTED_MAX;
}

static uint32_t lkey_of(const struct relay_rdma *d, const uint8_t *at, uint32_t len)
{
	for (uint32_t i = 0; i < WORKERS_MAX; i++) {
		const struct ibv_mr *mr = d->arena[i];

		if (mr && at >= (uint8_t *)mr->addr && at + len <= (uint8_t *)mr->addr + mr->length)
			return mr->lkey;
	}
	return 0;
}

static bool post_work(struct rdma_conn *c, struct rdma_work *w, uint32_t i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)w->at, .length = w->len, .lkey = w->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = wr_id(WR_WORK, i),
	                               .sg_list = &sge,
	                               .num_sge = 1,
	                               .opcode = w->kind == WORK_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
	                               .send_flags = IBV_SEND_SIGNALED,
	                               .wr.rdma = {.remote_addr = w->memory.address + w->offset, .rkey = w->memory.rkey}};

	if (c->r->rdma->v.post_send(c->id->qp, &wr, &bad) != 0)
		return false;
	c->work[i] = w;
	c->nworks++;
	relay_rdma_note_posted(c, w->kind == WORK_READ ? w->queued_ns : clock_now_ns());
	if (w->kind != WORK_READ)
		c->last_write = w->kind;
	return true;
}

/* --- regions --- */

/* Frees the memory when its region is withdrawn and nothing of it is under way, and tells the client. */
static void memory_look(struct rdma_memory *mem)
{
	struct rdma_conn *c = mem->conn;

	if (mem->region || mem->nworks > 0)
		return;
	if (c && mem->answers)
		relay_rdma_say(c, &(struct lr_rdma_event){.type = LRM_ANSWER, .serial = mem->serial});
	if (c) {
		dlist_remove(&mem->node);
		c->nexported--;
	}
	free(mem);
}

int relay_rdma_export(struct rdma_conn *c, const struct lr_rdma_request *q)
{
	struct lr_msg m = {.type = LRM_EXPORT, .flags = q->promise, .length = q->bytes};
	struct rdma_memory *mem;
	int rc;

	if (c->nexported >= RDMA_REGIONS_OF_CLIENT)
		return -ENOSPC;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	*mem = (struct rdma_memory){.conn = c, .address = q->address, .rkey = q->rkey};
	memcpy(m.name, q->name, LR_NAME_MAX);
	memcpy(mem->name, q->name, LR_NAME_MAX);
	relay_rdma_drop_broken(c->r, c); /* the name may be one of theirs */
	rc = relay_region_add_rdma(c->r, &c->client, &m, mem, &mem->region);
	if (rc < 0) {
		free(mem);
		return rc;
	}
	dlist_append(&c->exported, &mem->node);
	c->nexported++;
	return 0;
}

struct relay_remote relay_rdma_exported(struct rdma_memory *mem)
{
	return (struct relay_remote){.conn = mem->conn, .address = mem->address, .rkey = mem->rkey, .exported = mem};
}

struct relay_region *relay_rdma_region(const struct rdma_memory *mem)
{
	return mem->region;
}

static void cancel_waiting(struct relay_thread *r, struct dnode *waiting, const struct rdma_memory *mem)
{
	struct dnode *n, *next;

	for (n = waiting->next; n != waiting; n = next) {
		struct rdma_work *w = dlist_entry(n, struct rdma_work, node);

		next = n->next;
		if (w->memory.exported != mem)
			continue;
		dlist_remove(n);
		relay_rdma_work_over(r, w, LR_CANCELLED);
	}
}

void relay_rdma_forget(struct relay_thread *r, struct rdma_memory *mem, const struct relay_client *client, uint32_t serial)
{
	mem->region = NULL;
	mem->answers = client != NULL;
	mem->serial = serial;
	relay_execute_memory_gone(r, mem);
	for (unsigned k = 0; k < WORK_KINDS; k++)
		cancel_waiting(r, &mem->conn->waiting[k], mem);
	memory_look(mem);
}

void relay_rdma_exported_gone(struct rdma_conn *c)
{
	struct dnode *n;

	while ((n = dlist_first(&c->exported))) {
		struct rdma_memory *mem = dlist_entry(n, struct rdma_memory, node);

		dlist_remove(n); /* works of it that have ended free it */
		mem->conn = NULL;
	}
}

/* --- READs and WRITEs --- */

/* False: the client was told that the operation has ended, or has withdrawn the region. */
static bool is_wanted(struct relay_thread *r, const struct rdma_work *w)
{
	return w->memory.exported ? w->memory.exported->region != NULL : relay_op_find(r, w->op) != NULL;
}

/* The work to post next; NULL: none waits. */
static struct dnode *next_waiting(struct rdma_conn *c)
{
	enum rdma_kind turn = c->last_write == WORK_WRITE_OF_GET ? WORK_WRITE_OF_PUT : WORK_WRITE_OF_GET;
	struct dnode *n = dlist_first(&c->waiting[WORK_READ]);

	if (!n)
		n = dlist_first(&c->waiting[turn]);
	return n ? n : dlist_first(&c->waiting[c->last_write]);
}

void relay_rdma_post_waiting(struct rdma_conn *c)
{
	struct dnode *n;

	for (uint32_t i = 0; i < RDMA_WORKS && !c->broken && (n = next_waiting(c)); i++) {
		struct rdma_work *w = dlist_entry(n, struct rdma_work, node);

		if (c->work[i])
			continue;
		dlist_remove(n);
		if (!is_wanted(c->r, w)) {
			relay_rdma_work_over(c->r, w, LR_CANCELLED);
			i--;
			continue;
		}
		if (!post_work(c, w, i)) {
			dlist_append(&c->waiting[w->kind], n);
			relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "its queue pair takes no work requests");
		}
	}
}

uint64_t relay_rdma_oldest(const struct rdma_conn *c)
{
	const struct dnode *n = c->waiting[WORK_READ].next;
	uint64_t oldest_ns = n != &c->waiting[WORK_READ] ? dlist_entry(n, struct rdma_work, node)->queued_ns : UINT64_MAX;

	for (uint32_t i = 0; i < c->posted; i++) {
		uint64_t since_ns = c->posted_ns[(c->oldest + i) % POSTED_MAX];

		oldest_ns = since_ns < oldest_ns ? since_ns : oldest_ns;
	}
	return oldest_ns;
}

/* Of a region's memory: the status for the other site. */
static enum lr_status told(const struct relay_remote *m, enum lr_status status)
{
	if (!m->exported || status == LR_OK || status == LR_NO_ROOM)
		return status;
	return status == LR_CLIENT_MEMORY || status == LR_RDMA_FAILED ? LR_IO_REMOTE : LR_NO_REGION;
}

static enum lr_status start_work(struct relay_thread *r, const struct rdma_work *like)
{
	struct rdma_conn *c = like->memory.conn;
	struct rdma_work *w;

	if (!c->client.used || c->broken)
		return told(&like->memory, LR_CLIENT_GONE);
	w = malloc(sizeof(*w));
	if (!w)
		return LR_NO_ROOM;
	*w = *like;
	w->conn = c;
	w->queued_ns = clock_now_ns();
	w->lkey = lkey_of(r->rdma, w->at, w->len);
	if (w->memory.exported)
		w->memory.exported->nworks++;
	dlist_append(&c->waiting[w->kind], &w->node);
	relay_rdma_post_waiting(c);
	return LR_OK;
}

enum lr_status relay_rdma_read(struct relay_thread *r, const struct relay_remote *m, uint64_t offset, uint32_t len,
                               struct relay_channel_out *ch, struct relay_take *t, const struct relay_chunk *c)
{
	return start_work(r, &(struct rdma_work){.kind = WORK_READ,
	                                         .memory = *m,
	                                         .offset = offset,
	                                         .at = c->data + RELAY_HEAD_LEN,
	                                         .len = len,
	                                         .ch = ch,
	                                         .take = t,
	                                         .op = t->op,
	                                         .chunk = *c});
}

enum lr_status relay_rdma_write(struct relay_thread *r, const struct relay_remote *m, uint64_t offset,
                                const struct relay_chunk *c, const uint8_t *data, uint32_t len, uint64_t op)
{
	return start_work(r, &(struct rdma_work){.kind = m->exported ? WORK_WRITE_OF_PUT : WORK_WRITE_OF_GET,
	                                         .memory = *m,
	                                         .offset = offset,
	                                         .at = (uint8_t *)(uintptr_t)data,
	                                         .len = len,
	                                         .chunk = *c,
	                                         .op = op});
}

bool relay_rdma_may_take(const struct relay_remote *m, const struct relay_channel_out *ch)
{
	return m->conn->nahead < RDMA_AHEAD && ch->nremote < RDMA_AHEAD_CHANNEL;
}

void relay_rdma_took(const struct relay_remote *m, struct relay_channel_out *ch, int n)
{
	struct rdma_conn *c = m->conn;

	c->nahead += (uint32_t)n;
	ch->nremote += (uint32_t)n;
	if (c->nahead == 0 && !c->client.used)
		free(c);
}

/* Frees a work that was finished, and the memory if it waited for that. */
static void work_free(struct rdma_work *w)
{
	struct rdma_memory *mem = w->memory.exported;

	free(w);
	if (!mem)
		return;
	mem->nworks--;
	memory_look(mem);
}

/* Tells who began it. False: there is no room for that yet. */
static bool finish(struct relay_thread *r, struct rdma_work *w)
{
	const struct relay_write written = {.is_get = !w->memory.exported,
	                                    .rdma = w->memory.exported,
	                                    .chunk = w->chunk,
	                                    .op = w->op,
	                                    .len = w->len,
	                                    .status = told(&w->memory, w->status)};
	bool has_room = w->kind == WORK_READ     ? relay_port_has_room(r->port[w->ch->worker])
	                : w->kind == WORK_NOTICE ? relay_execute_may_answer(r, w->chunk.channel)
	                                         : relay_execute_has_room(r, &written);

	if (!has_room)
		return false;
	dlist_remove(&w->node);
	if (w->kind == WORK_READ)
		relay_channel_filled(r, w->ch, w->take, &w->chunk, written.status);
	else if (w->kind == WORK_NOTICE)
		relay_execute_noticed(r, &w->chunk, written.status);
	else
		relay_execute_written(r, &written);
	work_free(w);
	return true;
}

static bool finish_list(struct relay_thread *r, struct dnode *list)
{
	struct dnode *n;

	while ((n = dlist_first(list)))
		if (!finish(r, dlist_entry(n, struct rdma_work, node)))
			return false;
	return true;
}

bool relay_rdma_finish_done(struct relay_thread *r)
{
	bool all = true;

	for (uint32_t i = 0; i < r->nworkers; i++)
		all &= finish_list(r, &r->rdma->done[i]);
	for (uint32_t i = 0; i < r->nchannels; i++)
		all &= finish_list(r, &r->rdma->answering[i]);
	return all;
}

static void drop_list(struct dnode *list)
{
	struct dnode *n;

	while ((n = dlist_first(list))) {
		dlist_remove(n);
		work_free(dlist_entry(n, struct rdma_work, node));
	}
}

void relay_rdma_drop_done(struct relay_rdma *d)
{
	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		drop_list(&d->done[i]);
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++)
		drop_list(&d->answering[i]);
}

/* --- messages to the client --- */

static uint32_t free_buffer(const struct rdma_conn *c)
{
	uint32_t i = 0;

	while (i < RDMA_SENDS && c->sending[i])
		i++;
	return i;
}

/* False: no buffer is free. notice: it is the message; NULL: the message is another one. */
static bool post_message(struct rdma_conn *c, const struct lr_rdma_event *e, struct rdma_work *notice)
{
	uint32_t i = free_buffer(c);
	uint8_t *at;
	struct ibv_sge sge;
	/* fenced: when the client hears of an operation's end, no READ of its memory is under way any more */
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
	                               .num_sge = 1,
	                               .opcode = IBV_WR_SEND,
	                               .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE};

	if (i == RDMA_SENDS)
		return false;
	at = c->buffers + (size_t)(RDMA_RECEIVES + i) * BUFFER_BYTES;
	sge = (struct ibv_sge){.addr = (uintptr_t)at, .length = (uint32_t)lr_rdma_event_put(at, e), .lkey = c->mr->lkey};
	wr.wr_id = wr_id(WR_SEND, i);
	if (c->r->rdma->v.post_send(c->id->qp, &wr, &bad) != 0) {
		relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "its queue pair takes no messages");
		if (notice)
			relay_rdma_work_over(c->r, notice, LR_CLIENT_GONE);
		return true;
	}
	c->sending[i] = true;
	c->notice[i] = notice;
	relay_rdma_note_posted(c, clock_now_ns());
	return true;
}

void relay_rdma_say(struct rdma_conn *c, const struct lr_rdma_event *e)
{
	struct rdma_unsent *u;

	if (!c->client.used || c->broken || (dlist_empty(&c->unsent) && post_message(c, e, NULL)))
		return;
	u = c->nunsent < RDMA_UNSENT ? malloc(sizeof(*u)) : NULL;
	if (!u) {
		relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "it does not receive the relay's events");
		return;
	}
	u->event = *e;
	c->nunsent++;
	dlist_append(&c->unsent, &u->node);
}

/* --- notices --- */

static bool has_credit(const struct rdma_conn *c)
{
	return !(c->knows & LR_RDMA_KNOWS_TAKEN) || c->nnotices - c->ntaken < LR_RDMA_NOTICES;
}

static void post_notice(struct rdma_conn *c, struct rdma_work *w)
{
	struct lr_rdma_event e = {.type = LRM_EVENT, .kind = LR_EV_NOTICE};
	const uint8_t *data;
	struct relay_head h;

	relay_head_get(w->chunk.data, w->chunk.len, &h, &data, &e.notice_len); /* relay_execute() has parsed it before */
	e.id = h.op;
	e.bytes = h.length;
	e.offset = h.offset;
	memcpy(e.name, h.name, LR_NAME_MAX);
	memcpy(e.notice, data, e.notice_len);
	c->nnotices++;
	if (!has_credit(c))
		c->out_ns = clock_now_ns();
	post_message(c, &e, w);
}

static void post_notices(struct rdma_conn *c)
{
	struct dnode *n;

	while (!c->broken && dlist_empty(&c->unsent) && has_credit(c) && free_buffer(c) < RDMA_SENDS &&
	       (n = dlist_first(&c->waiting[WORK_NOTICE]))) {
		dlist_remove(n);
		post_notice(c, dlist_entry(n, struct rdma_work, node));
	}
}

enum lr_status relay_rdma_notice(struct relay_thread *r, const struct relay_remote *m, const struct relay_chunk *c)
{
	enum lr_status status = start_work(r, &(struct rdma_work){.kind = WORK_NOTICE, .memory = *m, .chunk = *c});

	if (status == LR_OK)
		post_notices(m->conn);
	return status;
}

bool relay_rdma_taken(struct rdma_conn *c, uint64_t taken)
{
	if (!(c->knows & LR_RDMA_KNOWS_TAKEN) || taken < c->ntaken || taken > c->nnotices)
		return false;
	c->is_said &= taken == c->ntaken;
	c->ntaken = taken;
	return true;
}

bool relay_rdma_notices_late(const struct rdma_conn *c)
{
	const struct dnode *n = c->waiting[WORK_NOTICE].next;
	uint64_t now_ns;

	if (n == &c->waiting[WORK_NOTICE] || has_credit(c))
		return false;
	now_ns = clock_now_ns();
	return now_ns - c->out_ns > NOTICE_NS || now_ns - dlist_entry(n, struct rdma_work, node)->queued_ns > NOTICE_NS;
}

static void log_notices(struct rdma_conn *c)
{
	if (!c->is_said && log_limit_pass(&c->r->rdma->ends, clock_now_ns(), NULL))
		log_warn("link %s: RDMA client %s does not take its notices: puts with a notice into its regions end with an error",
		         c->r->config.name, c->from_text);
	c->is_said = true;
}

void relay_rdma_refuse_notices(struct rdma_conn *c)
{
	while (relay_rdma_notices_late(c)) {
		struct dnode *n = dlist_first(&c->waiting[WORK_NOTICE]);

		dlist_remove(n);
		relay_count(&c->r->count.relay_rdma_notices_refused, 1);
		log_notices(c);
		relay_rdma_work_over(c->r, dlist_entry(n, struct rdma_work, node), LR_NO_ROOM);
	}
}

/* --- messages that have come, or may go --- */

void relay_rdma_sent(struct rdma_conn *c, uint32_t i, bool well)
{
	struct rdma_work *w = c->notice[i];

	c->sending[i] = false;
	c->notice[i] = NULL;
	if (w)
		relay_rdma_work_over(c->r, w, well ? LR_OK : LR_CLIENT_GONE);
}

void relay_rdma_say_unsent(struct rdma_conn *c)
{
	struct dnode *n;

	while (!c->broken && (n = dlist_first(&c->unsent)) &&
	       post_message(c, &dlist_entry(n, struct rdma_unsent, node)->event, NULL)) {
		dlist_remove(n);
		c->nunsent--;
		free(dlist_entry(n, struct rdma_unsent, node));
	}
	post_notices(c);
}

void relay_rdma_event(struct relay_thread *r, struct rdma_conn *c, const struct lr_msg *m)
{
	struct lr_rdma_event e = {.type = (uint8_t)m->type,
	                          .kind = (uint8_t)m->flags,
	                          .status = (uint8_t)m->status,
	                          .promise = (uint8_t)m->promise,
	                          .serial = m->serial,
	                          .result = m->result,
	                          .id = m->id,
	                          .bytes = m->length};

	(void)r;
	relay_rdma_say(c, &e);
}
