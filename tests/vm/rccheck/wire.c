/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - the device, the memory region and the queue pairs, connected with what the control connection carries. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rccheck.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* The address of our end of the control connection, as a GID. */
static void control_gid(const struct check *c, union ibv_gid *gid)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getsockname(c->control, (struct sockaddr *)&ss, &len))
		fatal("getsockname: %s", strerror(errno));
	memset(gid, 0, sizeof(*gid));
	if (ss.ss_family == AF_INET6) {
		memcpy(gid->raw, &((struct sockaddr_in6 *)&ss)->sin6_addr, 16);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	memcpy(gid->raw + 12, &((struct sockaddr_in *)&ss)->sin_addr, 4);
}

/* Index of the RoCEv2 GID, -1 if the device has none such. */
static int gid_index(struct ibv_context *dev, const union ibv_gid *gid)
{
	struct ibv_gid_entry e;

	for (uint32_t i = 0; i < 16; i++)
		if (!ibv_query_gid_ex(dev, 1, i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(&e.gid, gid, sizeof(*gid)))
			return (int)i;
	return -1;
}

static struct ibv_context *device_of(const union ibv_gid *gid)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *dev = NULL;

	for (int i = 0; list && list[i] && !dev; i++) {
		dev = ibv_open_device(list[i]);
		if (dev && gid_index(dev, gid) < 0) {
			ibv_close_device(dev);
			dev = NULL;
		}
	}
	ibv_free_device_list(list);
	if (!dev)
		fatal("no RDMA device has a RoCEv2 GID of the address of the control connection");
	return dev;
}

static void lay_out(struct check *c)
{
	const struct options *o = &c->opt;
	struct layout *l = &c->at;
	size_t at = 0;

	l->stride = (o->size + GUARD_BYTES + 63) & ~(size_t)63;
	l->tx = at;
	at += o->qps * o->depth * l->stride;
	l->rx = at;
	at += o->qps * 2 * o->depth * l->stride;
	l->landing = at;
	at += o->qps * o->depth * l->stride;
	l->window = at;
	at += o->qps * o->iters * l->stride;
	l->source = at;
	at += o->qps * o->iters * l->stride;
	l->results = at;
	at += o->qps * o->depth * 8;
	l->cells = (at + 63) & ~(size_t)63;
	l->total = l->cells + (o->qps + 1) * 64;
}

void wire_open(struct check *c)
{
	uint32_t cqe = c->opt.qps * (3 * c->opt.depth + 2);
	union ibv_gid gid;

	lay_out(c);
	if (c->at.total > MEMORY_MAX)
		fatal("qps x iters x size needs %zu MiB", c->at.total >> 20);
	control_gid(c, &gid);
	c->dev = c->opt.cm ? cm_device(c) : device_of(&gid);
	c->pd = ibv_alloc_pd(c->dev);
	c->channel = ibv_create_comp_channel(c->dev);
	c->cq = c->pd && c->channel ? ibv_create_cq(c->dev, (int)cqe, NULL, c->channel, 0) : NULL;
	if (!c->cq)
		fatal("no completion queue: %s", strerror(errno));
	fcntl(c->channel->fd, F_SETFL, O_NONBLOCK);
	c->mem = mmap((void *)MEMORY_AT, c->at.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->mem == MAP_FAILED)
		fatal("no memory for %zu bytes", c->at.total);
	c->mr = ibv_reg_mr(c->pd, c->mem, c->at.total, ACCESS);
	if (!c->mr)
		fatal("ibv_reg_mr: %s", strerror(errno));
}

static struct ibv_qp_init_attr qp_attributes(const struct check *c)
{
	return (struct ibv_qp_init_attr){.send_cq = c->cq,
	                                 .recv_cq = c->cq,
	                                 .qp_type = IBV_QPT_RC,
	                                 .sq_sig_all = 1,
	                                 .cap = {.max_send_wr = c->opt.depth + 1,
	                                         .max_recv_wr = 2 * c->opt.depth + 1,
	                                         .max_send_sge = 1,
	                                         .max_recv_sge = 1}};
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	for (enum ibv_mtu m = IBV_MTU_256; m <= IBV_MTU_4096; m++)
		if (128u << m == bytes)
			return m;
	fatal("%u is not an MTU of InfiniBand", bytes);
}

static void to_init(struct qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};

	if (ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fatal("queue pair %u to INIT: %s", q->index, strerror(errno));
}

static void to_rtr(const struct check *c, struct qp *q, uint32_t qpn, uint32_t psn, const union ibv_gid *gid,
                   int sgid_index)
{
	struct ibv_qp_attr a = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = mtu_code(c->opt.mtu),
	    .dest_qp_num = qpn,
	    .rq_psn = psn,
	    .max_dest_rd_atomic = RD_ATOMIC,
	    .min_rnr_timer = 12,
	    .ah_attr = {.is_global = 1,
	                .port_num = 1,
	                .grh = {.dgid = *gid, .hop_limit = 64, .sgid_index = (uint8_t)sgid_index}},
	};

	if (ibv_modify_qp(q->qp, &a,
	                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fatal("queue pair %u to RTR: %s", q->index, strerror(errno));
}

static void to_rts(const struct check *c, struct qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
	                        .timeout = (uint8_t)c->opt.ack_timeout,
	                        .retry_cnt = c->opt.refusal == REFUSAL_GONE ? 4 : (uint8_t)c->opt.retry,
	                        .rnr_retry = (uint8_t)c->opt.rnr_retry,
	                        .sq_psn = q->psn,
	                        .max_rd_atomic = RD_ATOMIC};

	if (ibv_modify_qp(q->qp, &a,
	                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                      IBV_QP_MAX_QP_RD_ATOMIC))
		fatal("queue pair %u to RTS: %s", q->index, strerror(errno));
}

static void tell_qp(struct check *c, const struct qp *q, const union ibv_gid *gid)
{
	struct ctl m = {.type = CTL_QP, .w = {q->index, q->qp->qp_num, q->psn}};

	memcpy(&m.w[3], gid, sizeof(*gid));
	control_send(c, &m);
}

static void connect_qp(struct check *c, struct qp *q, int sgid_index)
{
	union ibv_gid gid;
	struct ctl m;

	control_expect(c, CTL_QP, &m);
	if (m.w[0] != q->index)
		fatal("queue pair %u where %u was due", m.w[0], q->index);
	memcpy(&gid, &m.w[3], sizeof(gid));
	if (c->opt.first_psn != PSN_RANDOM)
		printf("qp %u: QPN %u to %u, PSN %u\n", q->index, q->qp->qp_num, m.w[1], q->psn);
	to_rtr(c, q, m.w[1], m.w[2], &gid, sgid_index);
	to_rts(c, q);
}

static void connect_all(struct check *c)
{
	struct ibv_qp_init_attr attr = qp_attributes(c);
	union ibv_gid gid;
	int sgid_index;

	control_gid(c, &gid);
	sgid_index = gid_index(c->dev, &gid);
	for (uint32_t i = 0; i < c->opt.qps; i++) {
		struct qp *q = &c->qps[i];

		q->qp = ibv_create_qp(c->pd, &attr);
		if (!q->qp)
			fatal("ibv_create_qp: %s", strerror(errno));
		q->psn = c->opt.first_psn != PSN_RANDOM ? c->opt.first_psn : (uint32_t)mix64(now_ns() + i) & 0xffffff;
		to_init(q);
		tell_qp(c, q, &gid);
	}
	for (uint32_t i = 0; i < c->opt.qps; i++)
		connect_qp(c, &c->qps[i], sgid_index);
}

static void swap_memory_keys(struct check *c)
{
	uint64_t addr = (uintptr_t)c->mem;
	struct ctl m = {.type = CTL_MEMORY, .w = {(uint32_t)(addr >> 32), (uint32_t)addr, c->mr->rkey}};

	control_send(c, &m);
	control_expect(c, CTL_MEMORY, &m);
	c->peer_mem = (uint64_t)m.w[0] << 32 | m.w[1];
	c->peer_rkey = m.w[2];
}

void wire_connect(struct check *c, uint16_t port)
{
	struct ibv_qp_init_attr attr = qp_attributes(c);

	for (uint32_t i = 0; i < c->opt.qps; i++)
		c->qps[i].index = i;
	swap_memory_keys(c);
	if (c->opt.cm)
		cm_connect(c, port, &attr);
	else
		connect_all(c);
	for (uint32_t i = 0; i < c->opt.qps; i++)
		target_post_receives(c, &c->qps[i]);
}

void wire_close(struct check *c)
{
	if (c->opt.cm)
		cm_disconnect(c);
	for (uint32_t i = 0; i < c->opt.qps; i++) {
		if (c->qps[i].id)
			rdma_destroy_qp(c->qps[i].id);
		else
			ibv_destroy_qp(c->qps[i].qp);
	}
}
