/* SPDX-License-Identifier: Apache-2.0 */
/* relay_rdma_priv.h - what relay_rdma.c (connections) and relay_rdma_work.c (what is posted on them) share. */
#ifndef DAEMON_RELAY_RDMA_PRIV_H
#define DAEMON_RELAY_RDMA_PRIV_H

#include "daemon/util/addr.h"
#include "daemon/util/log.h"
#include "lib/lr_rdma_wire.h"
#include "relay_priv.h"

#define POSTED_MAX (RDMA_WORKS + RDMA_SENDS + 1)

#define BUFFER_BYTES 512 /* of one message */
_Static_assert(LR_RDMA_REQUEST_MAX <= BUFFER_BYTES && LR_RDMA_EVENT_MAX <= BUFFER_BYTES, "a message fits its buffer");

/* Kind of a work request, in the upper half of wr_id; its index is in the lower half. */
enum wr_kind { WR_RECV = 1, WR_SEND, WR_WORK, WR_PROBE };

/* What a connection has to do. Works of a kind are posted in the order in which they came. */
enum rdma_kind {
	WORK_READ,         /* of memory, into a slot of this site's chunk */
	WORK_WRITE_OF_GET, /* of what the other site has answered, into memory of an operation */
	WORK_WRITE_OF_PUT, /* of what the other site puts, into a region */
	WORK_NOTICE,       /* SEND of the notice of a put into a region */
	WORK_KINDS
};

/* A READ or WRITE of a client's memory, or a notice. */
struct rdma_work {
	struct dnode node;
	struct rdma_conn *conn; /* NULL: it has gone, or this is over */
	enum rdma_kind kind;
	uint64_t queued_ns;
	enum lr_status status;
	struct relay_remote memory;
	uint64_t offset;
	uint8_t *at;
	uint32_t len, lkey;
	struct relay_channel_out *ch; /* READ */
	struct relay_take *take;
	struct relay_chunk chunk;
	uint64_t op;                  /* WRITE */
};

/* Memory that a client exports. */
struct rdma_memory {
	struct dnode node;      /* in rdma_conn.exported */
	struct rdma_conn *conn; /* NULL: it has gone */
	struct relay_region *region; /* NULL: withdrawn */
	char name[LR_NAME_MAX];
	uint64_t address;
	uint32_t rkey;
	uint32_t nworks;        /* struct rdma_work of it */
	bool answers;           /* the client's request `serial` is answered when nworks is 0 */
	uint32_t serial;
};

struct rdma_unsent {
	struct dnode node;
	struct lr_rdma_event event;
};

struct rdma_conn {
	struct relay_client client;
	struct relay_thread *r;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buffers; /* RDMA_RECEIVES to receive into, RDMA_SENDS to send from */
	bool established, broken, has_qp;
	bool more; /* completions are left for the next turn */
	enum lr_status why;  /* of the end */
	uint64_t why_op;
	char why_region[LR_NAME_MAX]; /* why_op is LR_RDMA_NO_OP */
	uint32_t number;     /* that the client has drawn */
	struct ip_addr from;
	char from_text[ADDR_TEXT_MAX];
	uint32_t posted;     /* sends and works in the send queue */
	uint32_t oldest;     /* of them, in posted_ns */
	uint64_t posted_ns[POSTED_MAX]; /* a ring: the send queue completes in order. Of a READ: queued_ns */
	uint32_t nworks;
	struct rdma_work *work[RDMA_WORKS];
	struct dnode waiting[WORK_KINDS]; /* struct rdma_work */
	enum rdma_kind last_write; /* of the WRITE that was posted last */
	struct dnode exported; /* struct rdma_memory */
	uint32_t nexported;
	bool sending[RDMA_SENDS];
	struct rdma_work *notice[RDMA_SENDS]; /* that is sent; NULL: another message */
	uint64_t knows;            /* LR_RDMA_KNOWS_* of the client */
	uint64_t nnotices, ntaken; /* notices that were sent; that the program has taken */
	uint64_t out_ns;           /* since then there has been no credit for a notice, if there is none */
	bool is_said;              /* the log has said that notices are refused */
	uint32_t nunsent;
	struct dnode unsent;
	uint32_t nahead;
	uint64_t since_ns, progress_ns; /* of the REQ; of the last completion */
};

struct relay_rdma {
	struct lr_verbs v;
	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *completions;
	struct ibv_mr *arena[WORKERS_MAX];
	struct rdma_conn *conn[RDMA_CLIENTS];
	struct dnode done[WORKERS_MAX];            /* struct rdma_work that needs room in that worker's ring only */
	struct dnode answering[RELAY_CHANNELS_MAX]; /* that also needs room for an answer to that channel's request */
	bool gone;         /* the device is gone: everything is released in the next turn */
	bool said;         /* the log has said why there is no listener */
	uint64_t tried_ns, looked_ns;
	uint64_t accept_ns; /* before this time no REQ is accepted */
	struct log_limit refusals, ends; /* any host of the LAN may connect and disconnect */
	struct {
		uint32_t number;
		struct ip_addr from;
		enum lr_status status;
		uint64_t op;
		char region[LR_NAME_MAX];
	} end[RDMA_ENDS];
	uint32_t nends;
};

static inline uint64_t wr_id(enum wr_kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

/* relay_rdma.c. Marks the connection as broken; only the first reason is kept. The next turn drops it. op: as in
 * lr_rdma_hello. what: for the log; NULL: nothing is logged. */
void relay_rdma_break_off(struct rdma_conn *c, enum lr_status why, uint64_t op, const char *what);
/* Drops connections that are broken, so that they hold neither names nor places; not `except`, NULL: all. */
void relay_rdma_drop_broken(struct relay_thread *r, const struct rdma_conn *except);

/* relay_rdma_work.c. A work request was posted to the send queue, or has completed. since_ns: the time that the client has
 * for it counts from there. */
void relay_rdma_note_posted(struct rdma_conn *c, uint64_t since_ns);
void relay_rdma_note_completed(struct rdma_conn *c);
/* A READ or WRITE has ended: relay_rdma_finish_done() tells who began it. */
void relay_rdma_work_over(struct relay_thread *r, struct rdma_work *w, enum lr_status status);
void relay_rdma_post_waiting(struct rdma_conn *c);
/* The longest that a READ, or anything that is posted, has taken: since when. UINT64_MAX: there is none. */
uint64_t relay_rdma_oldest(const struct rdma_conn *c);
/* Finishes what has ended, as far as the workers' rings and the answering channels have room. False: some is left. */
bool relay_rdma_finish_done(struct relay_thread *r);
/* The relay's end: nobody is told. */
void relay_rdma_drop_done(struct relay_rdma *d);
/* Sends a message to the client, or keeps it until the client has received those before. */
void relay_rdma_say(struct rdma_conn *c, const struct lr_rdma_event *e);
void relay_rdma_say_unsent(struct rdma_conn *c);
/* The SEND from that buffer has completed. */
void relay_rdma_sent(struct rdma_conn *c, uint32_t buffer, bool well);
/* LR_RDMA_TAKEN. False: no correct client sends that. */
bool relay_rdma_taken(struct rdma_conn *c, uint64_t taken);
/* True if a notice has waited for credit too long. relay_rdma_refuse_notices(): ends those with LR_NO_ROOM. */
bool relay_rdma_notices_late(const struct rdma_conn *c);
void relay_rdma_refuse_notices(struct rdma_conn *c);
/* Exports memory of the client: 0, or a negative errno for it. */
int relay_rdma_export(struct rdma_conn *c, const struct lr_rdma_request *q);
/* The connection has gone, and with it the device's access to its memory. */
void relay_rdma_exported_gone(struct rdma_conn *c);

#endif
