/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs.h - librdmacm and libibverbs without a device: both ends of each connection in one process, for unit tests.
 *
 * A REQ comes to the listener at once, a SEND goes into the peer's next receive, READs and WRITEs are copied if the
 * key, the address and the rights fit, and break the queue pair if not, as RC does. fake.fail names a function whose
 * next calls fail, after fake.fail_after good ones; fake.hold keeps READs and WRITEs under way until fake_release();
 * fake.silent cuts the LAN: nothing arrives, nothing completes, and fake.deaf is the last peer whose DREQ was lost. All
 * that was made and not given back is counted in fake.live. */
#ifndef TESTS_UNIT_FAKE_VERBS_H
#define TESTS_UNIT_FAKE_VERBS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/lr_verbs.h"

#define FAKE_MRS    512
#define FAKE_EVENTS 64
#define FAKE_WCS    1024
#define FAKE_RECVS  256
#define FAKE_HELD   512

struct fake_channel {
	struct rdma_event_channel ch;
	struct {
		struct rdma_cm_event ev;
		uint8_t data[56];
	} event[FAKE_EVENTS];
	uint32_t first, n;
};

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc wc[FAKE_WCS];
	uint32_t first, n;
	bool armed, told; /* told: an event is in the completion channel */
	struct fake_comp *comp;
};

struct fake_comp {
	struct ibv_comp_channel ch;
	struct fake_cq *cq[64];
};

struct fake_qp {
	struct ibv_qp qp;
	struct fake_id *id;
	struct fake_cq *cq;
	struct ibv_recv_wr recv[FAKE_RECVS];
	struct ibv_sge sge[FAKE_RECVS];
	uint32_t first, n;
	bool error;
};

struct fake_id {
	struct rdma_cm_id id;
	struct fake_id *peer;
	struct fake_channel *ch;
	bool connected;
	struct ibv_sa_path_rec path;
};

struct fake_work {
	struct fake_id *from;
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

static struct {
	struct ibv_context device;
	struct ibv_mr mr[FAKE_MRS];
	int access[FAKE_MRS];
	uint64_t iova[FAKE_MRS];        /* added to the address in a request */
	uint8_t dmabuf[1 << 14];
	uint64_t dmabuf_offset;
	uint64_t unknown;               /* LR_RDMA_KNOWS_* that the hellos of REQ and REP do not say: of older ends */
	struct fake_id *listener;
	const char *fail;
	unsigned fail_after;
	bool hold, silent;
	uint64_t silent_ns; /* time that passes when silence swallows a SEND */
	struct fake_id *deaf;
	struct fake_work held[FAKE_HELD];
	uint32_t nheld;
	int live;
	unsigned nreads, nwrites, nsends, nprobes; /* that arrived; nprobes: WRITEs of no bytes */
	bool rtu_is_lost;               /* the accepting end hears of no ESTABLISHED */
	uint64_t accept_ns;             /* that an accept() takes */
	void (*passes)(uint64_t ns);    /* time passes */
	struct rdma_cm_id *timeout_of;  /* whose ACK timeout was set last */
	void (*pump)(void); /* the other end has something to do */
} fake;

static bool fails(const char *name)
{
	if (!fake.fail || strcmp(fake.fail, name) != 0)
		return false;
	if (fake.fail_after > 0) {
		fake.fail_after--;
		return false;
	}
	errno = ENOMEM;
	return true;
}

static void fake_tell(int fd)
{
	if (write(fd, &(uint64_t){1}, 8) < 0)
		abort();
}

static void fake_pump(void)
{
	if (fake.pump)
		fake.pump();
}

/* --- rdma_cm --- */

static struct rdma_event_channel *fake_create_event_channel(void)
{
	struct fake_channel *c = fails("create_event_channel") ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ch.fd = eventfd(0, EFD_CLOEXEC);
	fake.live++;
	return &c->ch;
}

static void fake_destroy_event_channel(struct rdma_event_channel *ch)
{
	close(ch->fd);
	fake.live--;
	free(ch);
}

static void fake_event(struct fake_id *to, enum rdma_cm_event_type type, const struct rdma_conn_param *p)
{
	struct fake_channel *c = to->ch;
	uint32_t at = (c->first + c->n) % FAKE_EVENTS;

	if (c->n == FAKE_EVENTS)
		abort();
	c->event[at].ev = (struct rdma_cm_event){.event = type, .id = &to->id};
	if (p) {
		c->event[at].ev.param.conn = *p;
		memset(c->event[at].data, 0, 56);
		if (p->private_data_len > 0)
			memcpy(c->event[at].data, p->private_data, p->private_data_len);
		c->event[at].ev.param.conn.private_data = c->event[at].data;
		c->event[at].ev.param.conn.private_data_len = 56;
	}
	c->n++;
	fake_tell(c->ch.fd);
}

static int fake_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
{
	struct fake_id *i = fails("create_id") ? NULL : calloc(1, sizeof(*i));

	(void)ps;
	if (!i)
		return -1;
	i->id.context = context;
	i->ch = (struct fake_channel *)ch;
	*id = &i->id;
	fake.live++;
	return 0;
}

/* Nobody hears of an id that is destroyed. */
static void fake_forget_events(const struct fake_id *i)
{
	struct fake_channel *c = i->ch;
	uint32_t n = c ? c->n : 0, kept = 0;
	uint64_t told;

	for (uint32_t k = 0; k < n; k++) {
		uint32_t from = (c->first + k) % FAKE_EVENTS, to = (c->first + kept) % FAKE_EVENTS;

		if (c->event[from].ev.id == &i->id)
			continue;
		c->event[to] = c->event[from];
		if (c->event[to].ev.param.conn.private_data)
			c->event[to].ev.param.conn.private_data = c->event[to].data;
		kept++;
	}
	if (n > 0 && kept == 0 && read(c->ch.fd, &told, 8) < 0)
		abort();
	if (c)
		c->n = kept;
}

static int fake_destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *i = (struct fake_id *)id;

	if (id->qp)
		abort(); /* it is destroyed before */
	fake_forget_events(i);
	if (fake.listener == i)
		fake.listener = NULL;
	if (i->peer)
		i->peer->peer = NULL;
	free(i);
	fake.live--;
	return 0;
}

static int fake_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)addr;
	id->verbs = fails("device") ? NULL : &fake.device;
	return fails("bind_addr") ? -1 : 0;
}

static int fake_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	if (fails("listen"))
		return -1;
	fake.listener = (struct fake_id *)id;
	return 0;
}

static int fake_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms)
{
	(void)src;
	(void)dst;
	(void)ms;
	id->verbs = &fake.device;
	fake_event((struct fake_id *)id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	return 0;
}

static int fake_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)ms;
	fake_event((struct fake_id *)id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	return 0;
}

static uint32_t fake_client_address = 0x0201010au; /* 10.1.1.2, as it lies in memory: what its REQ says */
static uint32_t fake_client_gid = 0x0201010au;     /* and where its path leads */

/* The hello of an older end. */
static void fake_forget(const struct rdma_conn_param *p)
{
	uint8_t *knows = (uint8_t *)(uintptr_t)p->private_data + 16;

	for (unsigned i = 0; fake.unknown && i < 8; i++)
		knows[i] &= (uint8_t)~(fake.unknown >> (56 - 8 * i));
}

static int fake_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct fake_id *i = (struct fake_id *)id, *s;
	struct rdma_conn_param turned = *p;
	struct sockaddr_in *from;

	if (fake.silent) {
		fake_event(i, RDMA_CM_EVENT_UNREACHABLE, NULL); /* rdma_cm says so after some seconds */
		return 0;
	}
	if (!fake.listener) {
		fake_event(i, RDMA_CM_EVENT_REJECTED, &(struct rdma_conn_param){0});
		return 0;
	}
	s = calloc(1, sizeof(*s));
	fake.live++;
	s->ch = fake.listener->ch;
	s->peer = i;
	i->peer = s;
	s->id.verbs = &fake.device;
	s->id.context = fake.listener->id.context;
	from = (struct sockaddr_in *)(void *)&s->id.route.addr.dst_addr;
	from->sin_family = AF_INET;
	from->sin_addr.s_addr = fake_client_address;
	s->path.dgid.raw[10] = s->path.dgid.raw[11] = 0xff;
	memcpy(s->path.dgid.raw + 12, &fake_client_gid, 4);
	s->id.route.path_rec = &s->path;
	s->id.route.num_paths = 1;
	fake_forget(p);
	turned.initiator_depth = p->responder_resources;
	turned.responder_resources = p->initiator_depth;
	fake_event(s, RDMA_CM_EVENT_CONNECT_REQUEST, &turned);
	fake_pump();
	return 0;
}

static int fake_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct fake_id *s = (struct fake_id *)id;

	if (fake.accept_ns)
		fake.passes(fake.accept_ns);
	if (fails("accept"))
		return -1;
	if (!s->peer)
		return 0;
	s->connected = s->peer->connected = true;
	fake_forget(p);
	fake_event(s->peer, RDMA_CM_EVENT_ESTABLISHED, p);
	if (!fake.rtu_is_lost)
		fake_event(s, RDMA_CM_EVENT_ESTABLISHED, NULL);
	return 0;
}

static int fake_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	struct fake_id *s = (struct fake_id *)id;

	if (s->peer)
		fake_event(s->peer, RDMA_CM_EVENT_REJECTED,
		           &(struct rdma_conn_param){.private_data = data, .private_data_len = len});
	return 0;
}

static void fake_complete(struct fake_id *i, uint64_t wr_id, enum ibv_wc_status status, uint32_t len)
{
	struct fake_cq *cq = ((struct fake_qp *)i->id.qp)->cq;

	if (cq->n == FAKE_WCS)
		abort();
	cq->wc[(cq->first + cq->n++) % FAKE_WCS] = (struct ibv_wc){.wr_id = wr_id, .status = status, .byte_len = len};
	if (cq->armed && !cq->told) {
		cq->told = true;
		cq->armed = false;
		fake_tell(cq->comp->ch.fd);
	}
}

/* To the error state: what was posted comes back. */
static void fake_break(struct fake_id *i)
{
	struct fake_qp *q = i ? (struct fake_qp *)i->id.qp : NULL;

	if (!q || q->error)
		return;
	q->error = true;
	for (uint32_t k = 0; k < fake.nheld; k++)
		if (fake.held[k].from == i) {
			fake_complete(i, fake.held[k].wr.wr_id, IBV_WC_WR_FLUSH_ERR, 0);
			fake.held[k].from = NULL;
		}
	while (q->n > 0) {
		fake_complete(i, q->recv[q->first].wr_id, IBV_WC_WR_FLUSH_ERR, 0);
		q->first = (q->first + 1) % FAKE_RECVS;
		q->n--;
	}
}

static int fake_disconnect(struct rdma_cm_id *id)
{
	struct fake_id *i = (struct fake_id *)id;

	if (i->connected && i->peer && fake.silent) {
		fake.deaf = i->peer;
	} else if (i->connected && i->peer && i->peer->connected) {
		i->peer->connected = false;
		fake_event(i->peer, RDMA_CM_EVENT_DISCONNECTED, NULL);
	}
	i->connected = false;
	fake_break(i);
	return 0;
}

static int fake_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *q = fails("create_qp") ? NULL : calloc(1, sizeof(*q));

	(void)pd;
	if (!q)
		return -1;
	q->id = (struct fake_id *)id;
	q->cq = (struct fake_cq *)attr->send_cq;
	id->qp = &q->qp;
	fake.live++;
	return 0;
}

static void fake_destroy_qp(struct rdma_cm_id *id)
{
	struct fake_id *i = (struct fake_id *)id;

	for (uint32_t k = 0; k < fake.nheld; k++)
		if (fake.held[k].from == i)
			fake.held[k].from = NULL;
	free(id->qp);
	id->qp = NULL;
	fake.live--;
}

static int fake_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	struct fake_channel *c = (struct fake_channel *)ch;
	uint64_t n;

	if (c->n == 0) {
		errno = EAGAIN;
		return -1;
	}
	*ev = &c->event[c->first].ev;
	c->first = (c->first + 1) % FAKE_EVENTS;
	c->n--;
	if (c->n == 0 && read(ch->fd, &n, 8) < 0)
		abort();
	return 0;
}

static int fake_ack_cm_event(struct rdma_cm_event *ev)
{
	(void)ev;
	return 0;
}

static int fake_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
	(void)level;
	(void)value;
	(void)len;
	if (name == RDMA_OPTION_ID_ACK_TIMEOUT)
		fake.timeout_of = id;
	return 0;
}

/* --- verbs --- */

static int fake_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
	return fails("query_device") ? -1 : 0;
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *ctx)
{
	(void)ctx;
	fake.live += !(fake.fail && strcmp(fake.fail, "alloc_pd") == 0);
	return fails("alloc_pd") ? NULL : calloc(1, sizeof(struct ibv_pd));
}

static int fake_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	fake.live--;
	return 0;
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	if (fails("reg_mr"))
		return NULL;
	for (uint32_t i = 0; i < FAKE_MRS; i++) {
		if (fake.mr[i].pd)
			continue;
		fake.mr[i] = (struct ibv_mr){.pd = pd, .addr = addr, .length = len, .lkey = i + 1, .rkey = 0x1000 + i};
		fake.access[i] = access;
		fake.live++;
		return &fake.mr[i];
	}
	return NULL;
}

static struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access)
{
	struct ibv_mr *mr = offset + len <= sizeof(fake.dmabuf) ? fake_reg_mr(pd, fake.dmabuf + offset, len, access) : NULL;

	(void)fd;
	if (!mr)
		return NULL;
	fake.dmabuf_offset = offset;
	fake.iova[mr - fake.mr] = (uintptr_t)fake.dmabuf + offset - iova;
	return mr;
}

static int fake_dereg_mr(struct ibv_mr *mr)
{
	mr->pd = NULL;
	fake.iova[mr - fake.mr] = 0;
	fake.live--;
	return 0;
}

static struct ibv_comp_channel *fake_create_comp_channel(struct ibv_context *ctx)
{
	struct fake_comp *c = fails("create_comp_channel") ? NULL : calloc(1, sizeof(*c));

	(void)ctx;
	if (!c)
		return NULL;
	c->ch.fd = eventfd(0, EFD_CLOEXEC);
	fake.live++;
	return &c->ch;
}

static int fake_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	close(ch->fd);
	free(ch);
	fake.live--;
	return 0;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *ctx, int n, void *context, struct ibv_comp_channel *ch, int vector)
{
	struct fake_comp *comp = (struct fake_comp *)ch;
	struct fake_cq *cq = fails("create_cq") ? NULL : calloc(1, sizeof(*cq));

	(void)ctx;
	(void)n;
	(void)vector;
	if (!cq)
		return NULL;
	cq->cq.cq_context = context;
	cq->comp = comp;
	for (unsigned i = 0; i < 64; i++)
		if (!comp->cq[i]) {
			comp->cq[i] = cq;
			break;
		}
	fake.live++;
	return &cq->cq;
}

static int fake_destroy_cq(struct ibv_cq *cq)
{
	struct fake_cq *c = (struct fake_cq *)cq;

	for (unsigned i = 0; i < 64; i++)
		if (c->comp->cq[i] == c)
			c->comp->cq[i] = NULL;
	free(c);
	fake.live--;
	return 0;
}

static int fake_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
	struct fake_comp *comp = (struct fake_comp *)ch;
	uint64_t n;

	for (unsigned i = 0; i < 64; i++)
		if (comp->cq[i] && comp->cq[i]->told) {
			comp->cq[i]->told = false;
			*cq = &comp->cq[i]->cq;
			*context = (*cq)->cq_context;
			return 0;
		}
	if (eventfd_read(ch->fd, &n) < 0)
		n = 0;
	errno = EAGAIN;
	return -1;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	(void)n;
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)solicited;
	((struct fake_cq *)cq)->armed = true;
	return fails("req_notify_cq") ? -1 : 0;
}

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake_cq *c = (struct fake_cq *)cq;
	int got = 0;

	if (fails("poll_cq"))
		return -1;
	for (; got < n && c->n > 0; got++, c->n--) {
		wc[got] = c->wc[c->first];
		c->first = (c->first + 1) % FAKE_WCS;
	}
	return got;
}

static bool fake_has_key(uint32_t key, bool local, uint64_t addr, uint64_t len, int access)
{
	for (uint32_t i = 0; i < FAKE_MRS; i++) {
		const struct ibv_mr *mr = &fake.mr[i];

		if (mr->pd && (local ? mr->lkey : mr->rkey) == key)
			return addr >= (uintptr_t)mr->addr && addr + len <= (uintptr_t)mr->addr + mr->length &&
			       (fake.access[i] & access) == access;
	}
	return false;
}

/* Where the address lies that a request names. */
static uint64_t fake_address(uint32_t rkey, uint64_t addr)
{
	for (uint32_t i = 0; i < FAKE_MRS; i++)
		if (fake.mr[i].pd && fake.mr[i].rkey == rkey)
			return addr + fake.iova[i];
	return addr;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	uint32_t at = (q->first + q->n) % FAKE_RECVS;

	(void)bad;
	if (fails("post_recv") || q->n == FAKE_RECVS || !fake_has_key(wr->sg_list->lkey, true, wr->sg_list->addr,
	                                                              wr->sg_list->length, IBV_ACCESS_LOCAL_WRITE))
		return ENOMEM;
	q->recv[at] = *wr;
	q->sge[at] = *wr->sg_list;
	q->n++;
	return 0;
}

static void fake_run(struct fake_work *w)
{
	struct fake_id *i = w->from, *p = i->peer;
	bool is_read = w->wr.opcode == IBV_WR_RDMA_READ;
	uint64_t remote = fake_address(w->wr.wr.rdma.rkey, w->wr.wr.rdma.remote_addr);

	if (!p || !p->id.qp || ((struct fake_qp *)p->id.qp)->error) {
		fake_complete(i, w->wr.wr_id, IBV_WC_RETRY_EXC_ERR, 0);
		fake_break(i);
		return;
	}
	if (w->wr.num_sge == 0) { /* of no bytes: no key is looked at */
		fake.nprobes++;
		fake_complete(i, w->wr.wr_id, IBV_WC_SUCCESS, 0);
		return;
	}
	if (!fake_has_key(w->sge.lkey, true, w->sge.addr, w->sge.length, is_read ? IBV_ACCESS_LOCAL_WRITE : 0)) {
		fake_complete(i, w->wr.wr_id, IBV_WC_LOC_PROT_ERR, 0);
		fake_break(i);
		return;
	}
	if (!fake_has_key(w->wr.wr.rdma.rkey, false, remote, w->sge.length,
	                  is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE)) {
		fake_complete(i, w->wr.wr_id, IBV_WC_REM_ACCESS_ERR, 0);
		fake_break(i);
		fake_break(p);
		return;
	}
	if (is_read)
		memcpy((void *)(uintptr_t)w->sge.addr, (void *)(uintptr_t)remote, w->sge.length);
	else
		memcpy((void *)(uintptr_t)remote, (void *)(uintptr_t)w->sge.addr, w->sge.length);
	fake.nreads += is_read;
	fake.nwrites += !is_read;
	fake_complete(i, w->wr.wr_id, IBV_WC_SUCCESS, 0);
}

static void fake_release(void)
{
	uint32_t n = fake.nheld;

	fake.hold = false;
	for (uint32_t k = 0; k < n; k++)
		if (fake.held[k].from)
			fake_run(&fake.held[k]);
	fake.nheld = 0;
}

static void fake_send(struct fake_id *i, const struct ibv_send_wr *wr)
{
	struct fake_id *p = i->peer;
	struct fake_qp *to = p ? (struct fake_qp *)p->id.qp : NULL;
	uint32_t at;

	if (!to || to->error) {
		fake_complete(i, wr->wr_id, IBV_WC_RETRY_EXC_ERR, 0);
		fake_break(i);
		return;
	}
	if (fake.silent)
		fake.passes(fake.silent_ns);
	if (to->n == 0 || fake.silent)
		return; /* receiver not ready, or no answer: for ever */
	at = to->first;
	if (wr->sg_list->length > to->sge[at].length) {
		to->n--;
		to->first = (to->first + 1) % FAKE_RECVS;
		fake_complete(p, to->recv[at].wr_id, IBV_WC_LOC_LEN_ERR, 0);
		fake_break(p);
		fake_complete(i, wr->wr_id, IBV_WC_REM_INV_REQ_ERR, 0);
		fake_break(i);
		return;
	}
	memcpy((void *)(uintptr_t)to->sge[at].addr, (void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
	to->first = (to->first + 1) % FAKE_RECVS;
	to->n--;
	fake.nsends++;
	fake_complete(p, to->recv[at].wr_id, IBV_WC_SUCCESS, wr->sg_list->length);
	fake_complete(i, wr->wr_id, IBV_WC_SUCCESS, 0);
	fake_pump();
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_id *i = ((struct fake_qp *)qp)->id;
	struct fake_work w = {.from = i, .wr = *wr, .sge = wr->num_sge ? *wr->sg_list : (struct ibv_sge){0}};

	(void)bad;
	if (fails("post_send"))
		return ENOMEM;
	if (((struct fake_qp *)qp)->error)
		fake_complete(i, wr->wr_id, IBV_WC_WR_FLUSH_ERR, 0);
	else if (wr->opcode == IBV_WR_SEND)
		fake_send(i, wr);
	else if (!fake.hold && !fake.silent)
		fake_run(&w);
	else if (fake.nheld < FAKE_HELD)
		fake.held[fake.nheld++] = w;
	else
		abort();
	return 0;
}

static const struct lr_verbs fake_verbs = {
    .create_event_channel = fake_create_event_channel,
    .destroy_event_channel = fake_destroy_event_channel,
    .create_id = fake_create_id,
    .destroy_id = fake_destroy_id,
    .bind_addr = fake_bind_addr,
    .listen = fake_listen,
    .resolve_addr = fake_resolve_addr,
    .resolve_route = fake_resolve_route,
    .connect = fake_connect,
    .accept = fake_accept,
    .reject = fake_reject,
    .disconnect = fake_disconnect,
    .create_qp = fake_create_qp,
    .destroy_qp = fake_destroy_qp,
    .get_cm_event = fake_get_cm_event,
    .ack_cm_event = fake_ack_cm_event,
    .set_option = fake_set_option,
    .query_device = fake_query_device,
    .alloc_pd = fake_alloc_pd,
    .dealloc_pd = fake_dealloc_pd,
    .reg_mr = fake_reg_mr,
    .reg_dmabuf_mr = fake_reg_dmabuf_mr,
    .dereg_mr = fake_dereg_mr,
    .create_comp_channel = fake_create_comp_channel,
    .destroy_comp_channel = fake_destroy_comp_channel,
    .create_cq = fake_create_cq,
    .destroy_cq = fake_destroy_cq,
    .get_cq_event = fake_get_cq_event,
    .ack_cq_events = fake_ack_cq_events,
    .post_send = fake_post_send,
    .post_recv = fake_post_recv,
    .poll_cq = fake_poll_cq,
    .req_notify_cq = fake_req_notify_cq,
};

#endif
