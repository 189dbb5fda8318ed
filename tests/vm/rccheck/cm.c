/* SPDX-License-Identifier: Apache-2.0 */
/* cm.c - the queue pairs by rdma_cm, as most programs make theirs: one connection each, one after the other. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rccheck.h"

#define STEP_TIMEOUT_MS 2000
/* A lost REQ is repeated after some seconds only, and more than one may be lost. */
#define EVENT_WAIT_S 60

struct cm_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	uint8_t data; /* first private byte */
	int status;
};

static struct cm_event take_event(struct check *c, enum rdma_cm_event_type due)
{
	struct pollfd p = {.fd = c->cm_channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	struct cm_event e = {.data = QPS_MAX};

	if (poll(&p, 1, EVENT_WAIT_S * 1000) <= 0)
		fatal("rdma_cm: no event for %u s, %s was due", EVENT_WAIT_S, rdma_event_str(due));
	if (rdma_get_cm_event(c->cm_channel, &ev))
		fatal("rdma_get_cm_event: %s", strerror(errno));
	e.type = ev->event;
	e.id = ev->id;
	e.status = ev->status;
	if (e.type == RDMA_CM_EVENT_CONNECT_REQUEST && ev->param.conn.private_data_len > 0)
		e.data = *(const uint8_t *)ev->param.conn.private_data;
	rdma_ack_cm_event(ev);
	return e;
}

/* The end of time-wait is of no interest, and comes when it likes. */
static struct cm_event any_event(struct check *c, enum rdma_cm_event_type due)
{
	struct cm_event e;

	do {
		e = take_event(c, due);
	} while (e.type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	return e;
}

/* The next event, which must be `want`; returns whose it is. */
static struct rdma_cm_id *next_event(struct check *c, enum rdma_cm_event_type want)
{
	struct cm_event e = any_event(c, want);

	if (e.type != want)
		fatal("rdma_cm: %s (status %d) where %s was due", rdma_event_str(e.type), e.status,
		      rdma_event_str(want));
	return e.id;
}

static struct rdma_conn_param conn_param(uint8_t *index)
{
	return (struct rdma_conn_param){.private_data = index,
	                                .private_data_len = 1,
	                                .responder_resources = RD_ATOMIC,
	                                .initiator_depth = RD_ATOMIC,
	                                .retry_count = 7,
	                                .rnr_retry_count = 7};
}

static void make_qp(struct check *c, struct qp *q, const struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr a = *attr;

	if (rdma_create_qp(q->id, c->pd, &a))
		fatal("rdma_create_qp: %s", strerror(errno));
	q->qp = q->id->qp;
}

static void local_and_remote(const struct check *c, struct sockaddr_storage *local, struct sockaddr_storage *remote)
{
	socklen_t len = sizeof(*local);

	if (getsockname(c->control, (struct sockaddr *)local, &len))
		fatal("getsockname: %s", strerror(errno));
	len = sizeof(*remote);
	if (getpeername(c->control, (struct sockaddr *)remote, &len))
		fatal("getpeername: %s", strerror(errno));
}

/* The two families keep the port at the same place. */
static void set_port(struct sockaddr_storage *ss, uint16_t port)
{
	((struct sockaddr_in *)ss)->sin_port = htons(port);
}

/* The control connection's address may be an IPv4 one in IPv6 clothes, which rdma_cm does not take. */
static void unmap(struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in in4 = {.sin_family = AF_INET};

	if (ss->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return;
	memcpy(&in4.sin_addr, in6->sin6_addr.s6_addr + 12, 4);
	memcpy(ss, &in4, sizeof(in4));
}

/* An id bound to our address only names the device. */
struct ibv_context *cm_device(struct check *c)
{
	struct sockaddr_storage local, remote;
	struct rdma_cm_id *id;

	c->cm_channel = rdma_create_event_channel();
	if (!c->cm_channel || rdma_create_id(c->cm_channel, &id, NULL, RDMA_PS_TCP))
		fatal("rdma_create_id: %s", strerror(errno));
	local_and_remote(c, &local, &remote);
	unmap(&local);
	set_port(&local, 0);
	if (rdma_bind_addr(id, (struct sockaddr *)&local) || !id->verbs)
		fatal("no RDMA device at the address of the control connection");
	return id->verbs;
}

static void active_side(struct check *c, uint16_t port, const struct ibv_qp_init_attr *attr)
{
	struct sockaddr_storage local, remote;

	local_and_remote(c, &local, &remote);
	unmap(&remote);
	set_port(&remote, port);
	for (uint32_t i = 0; i < c->opt.qps; i++) {
		uint8_t index = (uint8_t)i;
		struct rdma_conn_param param = conn_param(&index);
		struct qp *q = &c->qps[i];

		if (rdma_create_id(c->cm_channel, &q->id, NULL, RDMA_PS_TCP) ||
		    rdma_resolve_addr(q->id, NULL, (struct sockaddr *)&remote, STEP_TIMEOUT_MS))
			fatal("rdma_resolve_addr: %s", strerror(errno));
		next_event(c, RDMA_CM_EVENT_ADDR_RESOLVED);
		if (rdma_resolve_route(q->id, STEP_TIMEOUT_MS))
			fatal("rdma_resolve_route: %s", strerror(errno));
		next_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED);
		make_qp(c, q, attr);
		if (rdma_connect(q->id, &param))
			fatal("rdma_connect: %s", strerror(errno));
		next_event(c, RDMA_CM_EVENT_ESTABLISHED);
	}
}

static void accept_request(struct check *c, struct qp *q, struct rdma_cm_id *id, const struct ibv_qp_init_attr *attr)
{
	uint8_t index = (uint8_t)q->index;
	struct rdma_conn_param param = conn_param(&index);

	q->id = id;
	make_qp(c, q, attr);
	if (rdma_accept(id, &param))
		fatal("rdma_accept: %s", strerror(errno));
}

static void passive_side(struct check *c, uint16_t port, const struct ibv_qp_init_attr *attr)
{
	struct sockaddr_storage local, remote;
	struct rdma_cm_id *listener;

	local_and_remote(c, &local, &remote);
	unmap(&local);
	set_port(&local, port);
	if (rdma_create_id(c->cm_channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&local) || rdma_listen(listener, QPS_MAX))
		fatal("rdma_listen: %s", strerror(errno));
	control_sync(c, 0);
	/* When an RTU is lost, the next request comes before the word that the one before is established. */
	for (uint32_t accepted = 0, established = 0; established < c->opt.qps;) {
		struct cm_event e = any_event(c, RDMA_CM_EVENT_ESTABLISHED);

		if (e.type == RDMA_CM_EVENT_ESTABLISHED)
			established++;
		else if (e.type == RDMA_CM_EVENT_CONNECT_REQUEST && e.data == accepted && accepted < c->opt.qps)
			accept_request(c, &c->qps[accepted++], e.id, attr);
		else
			fatal("rdma_cm: %s (status %d, for queue pair %u) after %u of %u were accepted",
			      rdma_event_str(e.type), e.status, e.data, accepted, c->opt.qps);
	}
	rdma_destroy_id(listener);
}

void cm_connect(struct check *c, uint16_t port, const struct ibv_qp_init_attr *qp_attr)
{
	if (c->server) {
		passive_side(c, port, qp_attr);
		return;
	}
	control_sync(c, 0);
	active_side(c, port, qp_attr);
}

void cm_disconnect(struct check *c)
{
	for (uint32_t i = 0; i < c->opt.qps; i++) {
		part_before(c, &c->qps[i]);
		if (!c->server && rdma_disconnect(c->qps[i].id))
			complain(c, "rdma_disconnect: %s", strerror(errno));
		if (next_event(c, RDMA_CM_EVENT_DISCONNECTED) != c->qps[i].id)
			complain(c, "rdma_cm: queue pairs end out of order");
		part_after(c, &c->qps[i]);
		if (c->server)
			rdma_disconnect(c->qps[i].id); /* answers with DREP */
	}
}
