/* SPDX-License-Identifier: Apache-2.0 */
/* relay_rdma.c - clients of the relay that connect by RDMA.
 *
 * Theory of operation. The edge listens with rdma_cm; each client has a queue pair here, beside those that the edge
 * proxies. A request names the client's memory by address and key. The arenas of the link are registered once for the
 * device, for local access only: no client can address them.
 *
 *     put   a slot is taken, an RDMA READ fills it, its completion commits it
 *     get   a chunk that came is RDMA WRITTEN out of its slot, and its completion finishes it
 *
 * Memory that a client exports is a region: gets of the other site READ it, puts of the other site WRITE it.
 *
 * A connection ends at its first error, after which RC's queue pair cannot be used. The code that finds an error marks
 * the connection (broken), and the next turn drops it: destroys the queue pair, after which the device touches no slot,
 * and then ends all posted work. The reason is kept for the client's next REQ, whose REJ tells it.
 *
 * A client counts as silent if its memory does not answer (the device's own retries, WORK_NS), it does not take
 * messages (RDMA_UNSENT, WORK_NS), it never finishes connecting (CONNECT_NS), or its host is gone (PROBE_NS: a WRITE of
 * no bytes). */
#define _GNU_SOURCE
#include "relay_rdma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/util/clock.h"
#include "relay_rdma_priv.h"

#define CONNECT_NS  5000000000ull
#define WORK_NS     10000000000ull /* a connection is dropped that takes longer for something posted, or for a READ */
#define PROBE_NS    10000000000ull
#define LISTEN_NS   2000000000ull  /* interval of attempts to make a listener */
#define LOOK_NS     100000000ull
#define BACKLOG     16
#define CM_EVENTS_OF_TURN   16
#define COMPLETIONS_OF_TURN 64 /* of one client */
#define ACCEPT_NS   100000000ull /* an accept() that takes longer has asked for a host that does not answer */
#define ACCEPT_PAUSE 20          /* times as long as that one took, no REQ is accepted */
#define ACK_TIMEOUT 16 /* 4.096 us << 16: 268 ms, seven times; rdma_cm's own 19 is 15 s in all */

/* --- the end of a connection --- */

void relay_rdma_break_off(struct rdma_conn *c, enum lr_status why, uint64_t op, const char *what)
{
	uint32_t missed = 0;
	char more[LOG_MORE_MAX];

	if (c->broken)
		return;
	c->broken = true;
	c->why = why;
	c->why_op = op;
	if (why != LR_OK)
		relay_count(&c->r->count.relay_rdma_broken, 1);
	if (!what || !log_limit_pass(&c->r->rdma->ends, clock_now_ns(), &missed))
		return;
	log_limit_more(missed, more);
	log_warn("link %s: the relay ends the connection of RDMA client %s: %s%s", c->r->config.name, c->from_text, what,
	         more);
}

static void remember_end(struct relay_rdma *d, const struct rdma_conn *c)
{
	if (c->why == LR_OK)
		return;
	d->end[d->nends % RDMA_ENDS].number = c->number;
	d->end[d->nends % RDMA_ENDS].from = c->from;
	d->end[d->nends % RDMA_ENDS].status = c->why;
	d->end[d->nends % RDMA_ENDS].op = c->why_op;
	memcpy(d->end[d->nends % RDMA_ENDS].region, c->why_region, LR_NAME_MAX);
	d->nends++;
}

/* Destroys the queue pair first: afterwards the device touches neither slots nor buffers. */
static void conn_free(struct relay_rdma *d, struct rdma_conn *c)
{
	struct relay_thread *r = c->r;
	struct dnode *n;

	if (c->has_qp) {
		d->v.disconnect(c->id);
		d->v.destroy_qp(c->id);
	}
	for (uint32_t i = 0; i < RDMA_WORKS; i++)
		if (c->work[i])
			relay_rdma_work_over(r, c->work[i], LR_CLIENT_GONE);
	for (uint32_t i = 0; i < RDMA_SENDS; i++)
		if (c->notice[i])
			relay_rdma_work_over(r, c->notice[i], LR_CLIENT_GONE);
	for (unsigned k = 0; k < WORK_KINDS; k++)
		while ((n = dlist_first(&c->waiting[k]))) {
			dlist_remove(n);
			relay_rdma_work_over(r, dlist_entry(n, struct rdma_work, node), LR_CLIENT_GONE);
		}
	while ((n = dlist_first(&c->unsent))) {
		dlist_remove(n);
		free(dlist_entry(n, struct rdma_unsent, node));
	}
	if (c->cq)
		d->v.destroy_cq(c->cq);
	if (c->mr)
		d->v.dereg_mr(c->mr);
	if (c->id)
		d->v.destroy_id(c->id);
	free(c->buffers);
}

static void conn_drop(struct relay_thread *r, uint32_t i)
{
	struct relay_rdma *d = r->rdma;
	struct rdma_conn *c = d->conn[i];

	if (c->established)
		atomic_fetch_sub_explicit(&r->count.rdma_clients, 1, memory_order_relaxed);
	c->client.used = false; /* gets no more events */
	c->broken = true;
	remember_end(d, c);
	conn_free(d, c);
	relay_op_client_gone(r, &c->client);
	relay_region_client_gone(r, &c->client);
	relay_rdma_exported_gone(c);
	d->conn[i] = NULL;
	if (c->nahead == 0)
		free(c);
	/* else slots granted to its streams must come back first: relay_rdma_took() frees the connection */
}

void relay_rdma_drop_broken(struct relay_thread *r, const struct rdma_conn *except)
{
	for (uint32_t i = 0; i < RDMA_CLIENTS; i++) {
		struct rdma_conn *c = r->rdma->conn[i];

		if (c && c->broken && c != except)
			conn_drop(r, i);
	}
}

/* --- requests --- */

/* "ckpt-*" is all that begins so. */
static bool name_matches(const char *pattern, const char *name)
{
	size_t n = strlen(pattern);

	return n > 0 && pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : strcmp(pattern, name) == 0;
}

/* Whether RelayAllow= permits this host the access `need` to that region of the other site, or to export one of that
 * name. need 0: any access to any region. */
static bool may_use(const struct link_config *c, const struct ip_addr *from, unsigned need, const char *name)
{
	for (uint32_t i = 0; i < c->nrelay_allow; i++) {
		const struct relay_allow *a = &c->relay_allow[i];

		if (ip_prefix_any(&a->prefix, 1, from) && (need == 0 || ((a->access & need) && name_matches(a->name, name))))
			return true;
	}
	return false;
}

static int begin(struct rdma_conn *c, const struct lr_rdma_request *q, uint64_t *id)
{
	struct lr_msg m = {.type = q->type,
	                   .flags = q->promise,
	                   .after = q->after,
	                   .length = q->bytes,
	                   .region_offset = q->region_offset};
	struct relay_remote memory = {.conn = c, .address = q->address, .rkey = q->rkey};

	if (!may_use(&c->r->config, &c->from, q->type == LRM_PUT ? LR_PEER_WRITE : LR_PEER_READ, q->name))
		return -EACCES;
	if (c->client.nops >= RDMA_OPS_OF_CLIENT)
		return -EAGAIN;
	memcpy(m.name, q->name, LR_NAME_MAX);
	return relay_op_begin_remote(c->r, &c->client, &m, q->notice, q->notice_len, &memory, id);
}

static int export(struct rdma_conn *c, const struct lr_rdma_request *q)
{
	if (!may_use(&c->r->config, &c->from, RELAY_ALLOW_EXPORT, q->name) || !relay_client_may_export(&c->client, q->name))
		return -EACCES;
	return lr_rdma_name_is_plain(q->name) ? relay_rdma_export(c, q) : -EINVAL;
}

static int cancel(struct rdma_conn *c, uint64_t id)
{
	struct relay_op *op = relay_op_find(c->r, id);

	if (!op || op->client != &c->client || op->told)
		return -ENOENT;
	relay_op_cancel(c->r, op);
	return 0;
}

static void count_refused_request(struct relay_counting *n, int why)
{
	relay_count(why == -EACCES   ? &n->relay_rdma_requests_refused_region
	            : why == -EAGAIN ? &n->relay_rdma_requests_refused_too_many
	                             : &n->relay_rdma_requests_refused,
	            1);
}

static void request(struct rdma_conn *c, const uint8_t *data, size_t len)
{
	struct lr_rdma_event answer = {.type = LRM_ANSWER};
	struct lr_rdma_request q;

	if (!lr_rdma_request_get(data, len, &q)) {
		c->r->malformed++;
		relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "it sent a message that is no request");
		return;
	}
	if (q.type == LR_RDMA_TAKEN) {
		if (!relay_rdma_taken(c, q.id)) {
			c->r->malformed++;
			relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "it has taken notices that it did not get");
		}
		return;
	}
	relay_count(&c->r->count.relay_rdma_requests, 1);
	answer.serial = q.serial;
	switch (q.type) {
	case LRM_CANCEL:
		answer.result = cancel(c, q.id);
		break;
	case LRM_EXPORT:
		answer.result = export(c, &q);
		break;
	case LRM_UNEXPORT:
		answer.result = relay_region_remove(c->r, &c->client, q.name, q.serial);
		if (answer.result > 0)
			return; /* answered when the memory is not used any more */
		break;
	default:
		answer.result = begin(c, &q, &answer.id);
	}
	if (answer.result < 0)
		count_refused_request(&c->r->count, answer.result);
	relay_rdma_say(c, &answer);
	relay_op_begun(c->r, answer.id);
}

static bool post_receive(struct rdma_conn *c, uint32_t i)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)(c->buffers + (size_t)i * BUFFER_BYTES), .length = BUFFER_BYTES, .lkey = c->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id(WR_RECV, i), .sg_list = &sge, .num_sge = 1};

	return c->r->rdma->v.post_recv(c->id->qp, &wr, &bad) == 0;
}

/* --- completions --- */

/* The status for the client, from the device's status of a READ or WRITE of its memory. */
static enum lr_status status_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return LR_OK;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return LR_CLIENT_MEMORY;
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return LR_CLIENT_GONE;
	default:
		return LR_RDMA_FAILED;
	}
}

/* Ends the connection for a completion that says so. What was only flushed was no cause, and is not logged. */
static void break_off_for(struct rdma_conn *c, const struct ibv_wc *wc, const char *of, uint64_t op)
{
	enum lr_status status = status_of(wc->status);
	char text[120];

	if (status == LR_CLIENT_MEMORY)
		snprintf(text, sizeof(text), "the key and address that it named do not allow access to its memory");
	else if (status == LR_CLIENT_GONE)
		snprintf(text, sizeof(text), "it does not answer");
	else
		snprintf(text, sizeof(text), "%s ended with the work completion status %d of the RDMA device, vendor %#x",
		         of, (int)wc->status, wc->vendor_err);
	relay_rdma_break_off(c, status, op, wc->status == IBV_WC_WR_FLUSH_ERR ? NULL : text);
}

/* A READ or WRITE has failed: the operation, or the region, hears the device's reason. A client that does not answer is nobody's
 * fault: all hear that. */
static void break_off_for_work(struct rdma_conn *c, const struct rdma_work *w, const struct ibv_wc *wc)
{
	const struct rdma_memory *mem = w->memory.exported;
	bool its = mem && status_of(wc->status) != LR_CLIENT_GONE;

	if (its && !c->broken)
		memcpy(c->why_region, mem->name, LR_NAME_MAX);
	break_off_for(c, wc, w->kind == WORK_READ ? "a READ" : "a WRITE", its ? LR_RDMA_NO_OP : mem ? 0 : w->op);
}

static void on_work(struct rdma_conn *c, uint32_t i, const struct ibv_wc *wc)
{
	struct rdma_work *w = i < RDMA_WORKS ? c->work[i] : NULL;
	enum lr_status status = status_of(wc->status);

	if (!w)
		return;
	c->work[i] = NULL;
	c->nworks--;
	if (status != LR_OK)
		break_off_for_work(c, w, wc);
	else
		relay_count(w->kind == WORK_READ ? &c->r->count.relay_rdma_read_bytes : &c->r->count.relay_rdma_written_bytes,
		            w->len);
	relay_rdma_work_over(c->r, w, status);
}

/* Once: by the event, or by what only a connection brings, as the client's RTU may be lost. */
static void note_established(struct rdma_conn *c)
{
	if (c->established)
		return;
	c->established = true;
	relay_count(&c->r->count.relay_rdma_connections, 1);
	atomic_fetch_add_explicit(&c->r->count.rdma_clients, 1, memory_order_relaxed);
}

static void on_receive(struct rdma_conn *c, uint32_t i, const struct ibv_wc *wc)
{
	if (c->broken)
		return;
	if (wc->status != IBV_WC_SUCCESS || i >= RDMA_RECEIVES) {
		c->r->malformed += wc->status != IBV_WC_WR_FLUSH_ERR;
		break_off_for(c, wc, "a message", 0);
		return;
	}
	note_established(c);
	request(c, c->buffers + (size_t)i * BUFFER_BYTES, wc->byte_len <= BUFFER_BYTES ? wc->byte_len : 0);
	if (!c->broken && !post_receive(c, i))
		relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "its queue pair takes no receives");
}

static void on_completion(struct rdma_conn *c, const struct ibv_wc *wc)
{
	uint32_t i = (uint32_t)wc->wr_id;
	enum wr_kind kind = (enum wr_kind)(wc->wr_id >> 32);

	if (kind == WR_RECV) { /* no progress: a client that takes no message must not stay alive by requests */
		on_receive(c, i, wc);
		return;
	}
	relay_rdma_note_completed(c);
	if (kind == WR_WORK) {
		on_work(c, i, wc);
		return;
	}
	if (kind == WR_SEND && i < RDMA_SENDS)
		relay_rdma_sent(c, i, wc->status == IBV_WC_SUCCESS);
	if (wc->status != IBV_WC_SUCCESS)
		break_off_for(c, wc, kind == WR_SEND ? "a message to it" : "a probe", 0);
}

/* Polls a client's completions, a bounded number in a turn. */
static void poll_conn(struct rdma_conn *c)
{
	struct ibv_wc wc[16];
	int n = 0;

	c->more = false;
	for (uint32_t taken = 0; !c->broken && !c->more; taken += (uint32_t)n) {
		n = c->r->rdma->v.poll_cq(c->cq, 16, wc);
		if (n == 0)
			break;
		if (n < 0) {
			relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "its completions cannot be read");
			return;
		}
		for (int i = 0; i < n; i++)
			on_completion(c, &wc[i]);
		c->more = taken + (uint32_t)n >= COMPLETIONS_OF_TURN;
	}
	if (c->broken)
		return;
	relay_rdma_post_waiting(c);
	relay_rdma_say_unsent(c);
}

static void take_completions(struct relay_rdma *d)
{
	struct ibv_cq *cq;
	void *context;

	for (int i = 0; i < RDMA_CLIENTS && d->completions && d->v.get_cq_event(d->completions, &cq, &context) == 0; i++) {
		struct rdma_conn *c = context;

		d->v.ack_cq_events(cq, 1);
		d->v.req_notify_cq(cq, 0); /* before polling: a completion in between causes another event */
		poll_conn(c);
	}
}

/* --- connecting --- */

static void say_rejected(struct relay_rdma *d, struct rdma_cm_id *id, const struct lr_rdma_hello *h)
{
	uint8_t reason[LR_RDMA_REASON_LEN];

	lr_rdma_reason_put(reason, h);
	d->v.reject(id, reason, sizeof(reason));
}

static void refuse(struct relay_rdma *d, struct rdma_cm_id *id, const struct lr_rdma_hello *h)
{
	say_rejected(d, id, h);
	d->v.destroy_id(id);
}

/* True if the client asks why its last connection has ended, and has been told. */
static bool tell_end(struct relay_rdma *d, struct rdma_cm_id *id, const struct ip_addr *from, uint32_t number)
{
	struct lr_rdma_hello h = {.value = ECONNABORTED};

	for (uint32_t i = 0; number && i < RDMA_ENDS; i++)
		if (d->end[i].number == number && ip_addr_eq(&d->end[i].from, from)) {
			h.status = (uint8_t)d->end[i].status;
			h.op = d->end[i].op;
			memcpy(h.name, d->end[i].region, LR_NAME_MAX);
			refuse(d, id, &h);
			d->end[i].number = 0;
			return true;
		}
	return false;
}

static void count_refused(struct relay_counting *n, int why)
{
	relay_count(why == -EACCES            ? &n->relay_rdma_refused_address
	            : why == -EPROTONOSUPPORT ? &n->relay_rdma_refused_version
	            : why == -EINVAL          ? &n->relay_rdma_refused_no_reads
	            : why == -EMFILE          ? &n->relay_rdma_refused_too_many
	                                      : &n->relay_rdma_refused_device,
	            1);
}

/* Creates all device objects of a connection. False: conn_free() frees those that were made. */
static bool equip(struct relay_rdma *d, struct rdma_conn *c)
{
	size_t bytes = (size_t)(RDMA_RECEIVES + RDMA_SENDS) * BUFFER_BYTES;
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
	                              .cap = {.max_send_wr = POSTED_MAX,
	                                      .max_recv_wr = RDMA_RECEIVES,
	                                      .max_send_sge = 1,
	                                      .max_recv_sge = 1}};

	c->buffers = calloc(1, bytes);
	if (!c->buffers)
		return false;
	c->mr = d->v.reg_mr(d->pd, c->buffers, bytes, IBV_ACCESS_LOCAL_WRITE);
	c->cq = c->mr ? d->v.create_cq(d->device, POSTED_MAX + RDMA_RECEIVES, c, d->completions, 0) : NULL;
	if (!c->cq || d->v.req_notify_cq(c->cq, 0) != 0)
		return false;
	qp.send_cq = qp.recv_cq = c->cq;
	c->has_qp = d->v.create_qp(c->id, d->pd, &qp) == 0;
	for (uint32_t i = 0; c->has_qp && i < RDMA_RECEIVES; i++)
		if (!post_receive(c, i))
			return false;
	return c->has_qp;
}

/* The kernel asks for the MAC address of the REQ's GID within rdma_accept(), for up to a second, and a REQ may name a
 * host that does not answer. So the thread does not stand still for more than a small part of the time. */
static bool accept_now(struct relay_rdma *d, struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	uint64_t begun_ns = clock_now_ns(), took_ns;
	bool ok = d->v.accept(id, p) == 0;

	took_ns = clock_now_ns() - begun_ns;
	if (took_ns > ACCEPT_NS)
		d->accept_ns = begun_ns + (1 + ACCEPT_PAUSE) * took_ns;
	return ok;
}

static bool accept_it(struct relay_rdma *d, struct rdma_conn *c, uint8_t peer_reads)
{
	uint8_t hello[LR_RDMA_HELLO_LEN], timeout = ACK_TIMEOUT;
	struct ibv_device_attr attr = {0};
	struct rdma_conn_param p = {.private_data = hello,
	                            .private_data_len = sizeof(hello),
	                            .responder_resources = 0, /* no client READs of the edge */
	                            .rnr_retry_count = 7};

	if (d->v.query_device(d->device, &attr) != 0)
		return false;
	/* the client's responder resources; librdmacm has swapped the REQ's two fields */
	p.initiator_depth = peer_reads < attr.max_qp_init_rd_atom ? peer_reads : (uint8_t)attr.max_qp_init_rd_atom;
	lr_rdma_hello_put(hello, &(struct lr_rdma_hello){.value = RDMA_REQUESTS, .op = LR_RDMA_KNOWS_EXPORT | LR_RDMA_KNOWS_TAKEN});
	/* else the client's REQ would set it; an id does not take its listener's */
	d->v.set_option(c->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
	return accept_now(d, c->id, &p);
}

/* Decides about a REQ. 0, or a negative errno for the client. */
static int judge(struct relay_thread *r, const struct rdma_cm_id *id, const struct ip_addr *from, bool is_sound,
                 uint8_t reads, uint32_t *place)
{
	struct relay_rdma *d = r->rdma;
	uint32_t of_host = 0;

	*place = RDMA_CLIENTS;
	for (uint32_t i = 0; i < RDMA_CLIENTS; i++) {
		of_host += d->conn[i] && ip_addr_eq(&d->conn[i]->from, from);
		if (!d->conn[i])
			*place = i;
	}
	if (!may_use(&r->config, from, 0, ""))
		return -EACCES;
	if (!is_sound)
		return -EPROTONOSUPPORT;
	if (reads == 0)
		return -EINVAL; /* the edge could not READ the client's memory */
	if (*place == RDMA_CLIENTS || of_host >= RDMA_CLIENTS_OF_HOST)
		return -EMFILE;
	if (clock_now_ns() < d->accept_ns)
		return -EAGAIN;
	return id->verbs != d->device || d->gone ? -ENODEV : 0;
}

/* True if the client is the host that its REQ names. The sender writes the REQ's address into its private data, and the
 * kernel checks only the local port. The connection goes to the GID of the path: only if this GID is the address, the
 * address is genuine. */
static bool is_who_it_says(const struct rdma_cm_id *id, const struct ip_addr *from)
{
	return id->route.num_paths > 0 && id->route.path_rec &&
	       memcmp(id->route.path_rec[0].dgid.raw, from->b, sizeof(from->b)) == 0;
}

static void on_request(struct relay_thread *r, struct rdma_cm_id *id, const struct rdma_conn_param *p,
                       const struct lr_rdma_hello *hello)
{
	struct relay_rdma *d = r->rdma;
	struct ip_addr from = {0};
	struct rdma_conn *c;
	char text[ADDR_TEXT_MAX];
	uint32_t place;
	int rc;

	relay_rdma_drop_broken(r, NULL);
	rc = addr_from_sockaddr(&id->route.addr.dst_addr, &from) && is_who_it_says(id, &from)
	         ? judge(r, id, &from, hello != NULL, p->initiator_depth, &place)
	         : -EACCES;
	addr_write(&from, text, sizeof(text));
	if (rc == 0 && tell_end(d, id, &from, hello->value))
		return;
	c = rc == 0 ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		rc = rc < 0 ? rc : -ENOMEM;
		count_refused(&r->count, rc);
		if (log_limit_pass(&d->refusals, clock_now_ns(), NULL))
			log_warn("link %s: the relay refuses RDMA client %s: %s", r->config.name, text, strerror(-rc));
		refuse(d, id, &(struct lr_rdma_hello){.value = (uint32_t)-rc});
		return;
	}
	*c = (struct rdma_conn){.client = {.used = true, .greeted = true, .fd = -1, .rdma = c},
	                        .r = r,
	                        .id = id,
	                        .number = hello->value,
	                        .knows = hello->op,
	                        .from = from,
	                        .since_ns = clock_now_ns(),
	                        .progress_ns = clock_now_ns()};
	memcpy(c->from_text, text, sizeof(text));
	dlist_init(&c->client.ops);
	c->last_write = WORK_WRITE_OF_PUT;
	for (unsigned k = 0; k < WORK_KINDS; k++)
		dlist_init(&c->waiting[k]);
	dlist_init(&c->unsent);
	dlist_init(&c->exported);
	id->context = c;
	d->conn[place] = c;
	if (equip(d, c) && accept_it(d, c, p->initiator_depth))
		return;
	if (log_limit_pass(&d->refusals, clock_now_ns(), NULL))
		log_warn("link %s: the relay refuses RDMA client %s: cannot make a queue pair: %s", r->config.name,
		         text, strerror(errno));
	count_refused(&r->count, -ENOMEM);
	say_rejected(d, id, &(struct lr_rdma_hello){.value = ENOMEM});
	conn_drop(r, place);
}

static void on_cm_event(struct relay_thread *r, const struct rdma_cm_event *ev)
{
	struct relay_rdma *d = r->rdma;
	struct rdma_conn *c = ev->id == d->listener ? NULL : ev->id->context;

	switch (ev->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		if (c)
			note_established(c);
		return;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (!d->gone)
			log_err("link %s: the RDMA device of RelayListen= has gone", r->config.name);
		d->gone = true;
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		if (c)
			relay_rdma_break_off(c, LR_OK, 0, NULL);
		return;
	default: /* CONNECT_ERROR, UNREACHABLE, REJECTED: the connection was never made */
		if (c)
			relay_rdma_break_off(c, LR_OK, 0, NULL);
		return;
	}
}

/* Acknowledges an event before its id may be destroyed. */
static void take_cm_events(struct relay_thread *r)
{
	struct relay_rdma *d = r->rdma;
	struct rdma_cm_event *ev;

	for (int i = 0; i < CM_EVENTS_OF_TURN && d->events && d->v.get_cm_event(d->events, &ev) == 0; i++) {
		struct rdma_cm_event copy = *ev;
		struct lr_rdma_hello hello;
		bool sound = lr_rdma_hello_get(ev->param.conn.private_data, ev->param.conn.private_data_len, &hello);

		d->v.ack_cm_event(ev);
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			on_request(r, copy.id, &copy.param.conn, sound ? &hello : NULL);
		else
			on_cm_event(r, &copy);
	}
}

void relay_rdma_ready(struct relay_thread *r)
{
	if (!r->rdma)
		return;
	take_cm_events(r);
	take_completions(r->rdma);
}

/* --- the device --- */

static void unwatch(struct relay_thread *r, int fd)
{
	epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Releases the listener, its connections and its memory. */
static void let_go(struct relay_thread *r)
{
	struct relay_rdma *d = r->rdma;

	for (uint32_t i = 0; i < RDMA_CLIENTS; i++)
		if (d->conn[i]) {
			relay_rdma_break_off(d->conn[i], LR_RDMA_FAILED, 0, NULL);
			conn_drop(r, i);
		}
	if (d->listener)
		d->v.destroy_id(d->listener);
	if (d->completions) {
		unwatch(r, d->completions->fd);
		d->v.destroy_comp_channel(d->completions);
	}
	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		if (d->arena[i])
			d->v.dereg_mr(d->arena[i]);
	if (d->pd)
		d->v.dealloc_pd(d->pd);
	if (d->events) {
		unwatch(r, d->events->fd);
		d->v.destroy_event_channel(d->events);
	}
	d->listener = NULL;
	d->completions = NULL;
	memset(d->arena, 0, sizeof(d->arena));
	d->pd = NULL;
	d->events = NULL;
	d->device = NULL;
	d->gone = false;
}

static int watch_fd(struct relay_thread *r, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = EV_RDMA};

	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Makes the listener. NULL, or the step that failed; errno says why. */
static const char *listen_on(struct relay_thread *r)
{
	struct relay_rdma *d = r->rdma;
	struct sockaddr_storage at;

	addr_to_sockaddr(&r->config.relay_listen, (uint16_t)r->config.relay_port, &at);
	d->events = d->v.create_event_channel();
	if (!d->events || watch_fd(r, d->events->fd) < 0)
		return "cannot make an event channel of rdma_cm (`modprobe rdma_ucm` if it is not loaded)";
	if (d->v.create_id(d->events, &d->listener, NULL, RDMA_PS_TCP) != 0) {
		d->listener = NULL;
		return "cannot make an rdma_cm id";
	}
	if (d->v.bind_addr(d->listener, (struct sockaddr *)&at) != 0)
		return "cannot bind to this address";
	d->device = d->listener->verbs;
	if (!d->device) {
		errno = ENODEV;
		return "no RDMA device has this address";
	}
	d->pd = d->v.alloc_pd(d->device);
	if (!d->pd)
		return "cannot make a protection domain";
	for (uint32_t i = 0; i < r->nworkers; i++) {
		size_t len;
		void *at_arena = worker_relay_arena(r->worker[i], &len);

		d->arena[i] = d->v.reg_mr(d->pd, at_arena, len, IBV_ACCESS_LOCAL_WRITE);
		if (!d->arena[i])
			return "the device cannot register the buffer (check LimitMEMLOCK= of the service)";
	}
	d->completions = d->v.create_comp_channel(d->device);
	if (!d->completions || watch_fd(r, d->completions->fd) < 0)
		return "cannot make a completion channel";
	return d->v.listen(d->listener, BACKLOG) == 0 ? NULL : "cannot listen";
}

static void try_listening(struct relay_thread *r)
{
	struct relay_rdma *d = r->rdma;
	char text[ADDR_TEXT_MAX];
	const char *what = listen_on(r);
	int why = errno;

	addr_write(&r->config.relay_listen, text, sizeof(text));
	if (!what) {
		log_info("link %s: RDMA clients of the relay may connect to %s port %u", r->config.name, text,
		         (unsigned)r->config.relay_port);
		d->said = false;
		return;
	}
	let_go(r);
	if (!d->said)
		log_warn("link %s: RelayListen=%s: %s: %s; the relay tries again every 2 s", r->config.name, text, what,
		         strerror(why));
	d->said = true;
}

/* --- life --- */

void relay_rdma_open(struct relay_thread *r, const struct lr_verbs *verbs)
{
	struct relay_rdma *d;
	char why[256] = "no memory";
	struct lr_verbs v;

	if (!config_relay_listens(&r->config))
		return;
	if (!verbs && lr_verbs_load(&v, why, sizeof(why)) < 0) {
		log_err("link %s: RelayListen=: %s: no RDMA client can connect (Debian: install librdmacm1 and "
		        "ibverbs-providers)",
		        r->config.name, why);
		return;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return;
	d->v = verbs ? *verbs : v;
	d->refusals = d->ends = (struct log_limit){.window_ns = 10000000000ull, .burst = 10};
	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		dlist_init(&d->done[i]);
	for (uint32_t i = 0; i < RELAY_CHANNELS_MAX; i++)
		dlist_init(&d->answering[i]);
	r->rdma = d;
	d->tried_ns = clock_now_ns();
	try_listening(r);
}

static void probe(struct rdma_conn *c)
{
	struct ibv_send_wr *bad,
	    wr = {.wr_id = wr_id(WR_PROBE, 0), .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	if (c->r->rdma->v.post_send(c->id->qp, &wr, &bad) != 0) {
		relay_rdma_break_off(c, LR_RDMA_FAILED, 0, "its queue pair takes no work requests");
		return;
	}
	relay_rdma_note_posted(c, clock_now_ns());
}

/* What a client has not done in time. NULL: nothing. */
static const char *overdue(const struct rdma_conn *c)
{
	uint64_t now_ns = clock_now_ns(), oldest_ns = relay_rdma_oldest(c);

	if (!c->established && now_ns - c->since_ns > CONNECT_NS)
		return "it did not finish connecting";
	if (oldest_ns < now_ns && now_ns - oldest_ns > WORK_NS)
		return "it does not answer";
	return NULL;
}

/* It may be this thread that was late: what has come is taken before a client is given up. */
static void look_at(struct relay_thread *r, uint32_t i)
{
	struct rdma_conn *c = r->rdma->conn[i];
	const char *what = overdue(c);

	if (what) {
		take_cm_events(r);
		c = r->rdma->conn[i];
		if (!c || c->broken)
			return; /* a REQ drops what is broken */
		poll_conn(c);
		what = overdue(c);
	}
	if (what)
		relay_rdma_break_off(c, LR_CLIENT_GONE, 0, what);
	else if (!c->broken && c->established && c->posted == 0 && clock_now_ns() - c->progress_ns > PROBE_NS)
		probe(c);
}

bool relay_rdma_turn(struct relay_thread *r)
{
	struct relay_rdma *d = r->rdma;
	uint64_t now_ns;
	bool look, more = false;

	if (!d)
		return false;
	now_ns = clock_now_ns();
	look = now_ns - d->looked_ns >= LOOK_NS;
	if (look)
		d->looked_ns = now_ns;
	for (uint32_t i = 0; i < RDMA_CLIENTS; i++) {
		struct rdma_conn *c = d->conn[i];

		if (c && look && !c->broken)
			look_at(r, i);
		c = d->conn[i];
		if (c && !c->broken && (c->more || relay_rdma_notices_late(c)))
			poll_conn(c); /* late: it may be this thread that was */
		if (c && !c->broken)
			relay_rdma_refuse_notices(c);
		if (c && c->broken)
			conn_drop(r, i);
		more |= d->conn[i] && d->conn[i]->more;
	}
	if (d->gone)
		let_go(r);
	if (!d->listener && now_ns - d->tried_ns >= LISTEN_NS) {
		d->tried_ns = now_ns;
		try_listening(r);
	}
	return !relay_rdma_finish_done(r) || more;
}

void relay_rdma_close(struct relay_thread *r)
{
	if (!r->rdma)
		return;
	let_go(r);
	relay_rdma_drop_done(r->rdma);
	free(r->rdma);
	r->rdma = NULL;
}
