/* SPDX-License-Identifier: Apache-2.0 */
/* lr_verbs.h - librdmacm and libibverbs as a table of functions, loaded at run time.
 *
 * They are loaded and not linked, so that neither an edge nor a program without RDMA needs them, and so that tests have a
 * table of their own. Members are named as the functions, without rdma_ and ibv_. */
#ifndef LR_VERBS_H
#define LR_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

#undef ibv_reg_mr
#undef ibv_query_port

struct lr_verbs {
	/* librdmacm */
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *ch);
	int (*create_id)(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *p);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *p);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t len);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(struct rdma_cm_id *id);
	int (*get_cm_event)(struct rdma_event_channel *ch, struct rdma_cm_event **ev);
	int (*ack_cm_event)(struct rdma_cm_event *ev);
	int (*set_option)(struct rdma_cm_id *id, int level, int name, void *value, size_t len);
	/* libibverbs */
	int (*query_device)(struct ibv_context *ctx, struct ibv_device_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *ctx);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access); /* NULL:
	                                                                                     * rdma-core before 34 */
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *ctx);
	int (*destroy_comp_channel)(struct ibv_comp_channel *ch);
	struct ibv_cq *(*create_cq)(struct ibv_context *ctx, int n, void *context, struct ibv_comp_channel *ch, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
	/* inline functions of the headers, which go through the device's context */
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited);
};

/* Fills in the table. 0, or -ENOENT with why (of whylen bytes) a sentence. The libraries stay loaded. */
int lr_verbs_load(struct lr_verbs *v, char *why, size_t whylen);

#endif
