/* SPDX-License-Identifier: Apache-2.0 */
/* relay_priv.h - what the files of the relay's thread share. */
#ifndef DAEMON_RELAY_PRIV_H
#define DAEMON_RELAY_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/util/log.h"
#include "lib/lr_wire.h"
#include "proxy/util/dlist.h"
#include "relay.h"
#include "relay_counters.h"
#include "relay_file.h"
#include "relay_gpu.h"
#include "relay_pieces.h"
#include "relay_rdma.h"
#include "relay_wire.h"

enum relay_limits {
	RELAY_CLIENTS = 64,
	RELAY_REGIONS = 4096,      /* of all clients */
	RELAY_SERVICES = 64,
	RELAY_OPS = 4096,          /* under way, of all clients */
	RELAY_OPS_OF_CLIENT = 1024,
	RELAY_OPS_GONE = RELAY_OPS / 4, /* puts of RDMA clients that have gone; with more, no RDMA client may begin one */
	RELAY_CALLS = 256,         /* of the other site, not replied to */
	RELAY_GETS = 256,          /* of the other site, under way */
	RELAY_MESSAGES = 1024,     /* messages that wait on an answering channel before requests of the other site have
	                            * to wait */
	RELAY_FAILED = 4096,       /* as many as the operations that the other site may have under way */
	RELAY_STARTS = 4,          /* of the other relay, puts of which may be unfinished with the same number */
	RELAY_TAKES = 64,          /* slots asked for on a channel at a time */
	RELAY_UNSENT = 4 << 20,    /* unread bytes after which a client is disconnected */
};

/* epoll's data: clients by their index, and these. */
enum relay_watched { EV_LISTEN = RELAY_CLIENTS, EV_NOTIFY, EV_RDMA };

#define RELAY_GRACE_NS 5000000000ull /* time for programs to reconnect after a start */

struct relay_client;
struct relay_op;

/* A chunk of the other site that is finished when its answer is committed here: a kill in between leaves the chunk, and
 * it is answered after the next start. */
struct relay_request {
	bool held;
	uint32_t channel, slot;
	uint64_t failed; /* operation whose failure the answer tells, 0: none */
};

/* A short message: one chunk. */
struct relay_message {
	struct dnode node;
	struct relay_head head;
	uint64_t op; /* hears of its being committed; 0: nobody */
	struct relay_request request; /* that it answers */
	size_t len;
	uint8_t data[];
};

/* A stream: data chunks that are read from a descriptor, and an end chunk. */
struct relay_stream {
	struct dnode node;    /* in relay_channel.streams */
	struct relay_channel_out *ch;
	struct relay_file *file;     /* or */
	struct relay_reader *reader; /* of GPU memory, or */
	struct relay_remote remote;  /* of an RDMA client */
	struct relay_file_reader *ahead; /* of a file that is not in memory */
	uint64_t fd_offset;          /* in the file, or in the memory */
	struct relay_pieces *pieces; /* NULL: one */
	uint64_t next, length;
	struct relay_head head; /* of data chunks; offset: of the first */
	struct relay_head end;
	uint8_t notice[LR_NOTICE_MAX];
	size_t notice_len;
	uint64_t op;           /* a put of this site; 0: a get of the other one */
	uint32_t refs;         /* slots asked for */
	bool dead;             /* no more chunks of it are sent */
	bool ended;            /* a slot for its end was asked for */
};

/* A slot that was asked for. */
struct relay_take {
	bool used;
	struct relay_message *message; /* or */
	struct relay_stream *stream;
	uint64_t offset;
	uint16_t len;
	bool ends;
	uint64_t op; /* it is for; 0: nobody waits for it */
	struct relay_request request; /* that it answers */
	bool committing;
};

struct relay_channel_out {
	uint32_t idx, worker;
	struct relay_status status;
	struct dnode messages, streams;
	uint32_t nmessages, ntakes;
	uint32_t nremote; /* takes of streams of RDMA clients */
	struct relay_take take[2 * RELAY_TAKES];
};

enum relay_op_kind { RELAY_OP_PUT, RELAY_OP_GET, RELAY_OP_CALL };

/* An operation of a client of this site. */
struct relay_op {
	struct dnode client_node; /* in relay_client.ops, if the client lives */
	uint64_t id;
	enum relay_op_kind kind;
	struct relay_client *client; /* NULL: it has gone */
	struct relay_channel_out *ch;
	struct relay_stream *stream; /* PUT */
	struct relay_file *file;     /* PUT: read; GET: written to. Or */
	struct relay_memory *memory; /* of this program's GPU, or */
	struct relay_remote remote;  /* of an RDMA client */
	uint64_t fd_max;             /* bytes behind fd_offset that may be written */
	uint64_t fd_offset, length, region_offset, bytes;
	struct relay_pieces *pieces; /* NULL: one */
	char name[LR_NAME_MAX];
	enum lr_promise promise;
	uint64_t after;
	bool waits;        /* for `after` */
	bool told;         /* the client has heard of its end */
	bool is_gone;      /* PUT of an RDMA client that has gone: one of relay_thread.ngone */
	bool sent;         /* a chunk of it has a slot */
	uint32_t unsaid;   /* GET, CALL: messages without a slot yet */
	uint32_t life;     /* life of the channel at that time */
	uint32_t peer_start; /* PUT: peer_instance when it began; 0: not known */
	bool end_known;
	uint64_t end_pos;  /* of its last chunk */
	enum lr_status status; /* the first error */
	uint8_t *request, *reply; /* CALL */
	size_t request_len, reply_len, reply_got;
	uint8_t notice[LR_NOTICE_MAX];
	size_t notice_len;
};

struct relay_region {
	bool used;
	char name[LR_NAME_MAX];
	struct relay_client *client;
	struct relay_file *file;     /* or */
	struct relay_memory *memory; /* of a GPU, or */
	struct rdma_memory *rdma;    /* of an RDMA client */
	bool opening;                /* the memory is being opened; the name is reserved */
	bool is_memory;              /* its bytes go with it: a memfd, GPU memory, an RDMA client's memory */
	uint64_t serial;             /* of this export: a name that is exported again has another one. From 1 */
	uint32_t lived[LR_STARTS];   /* earlier starts of this relay with the same memory; 0: none */
	uint64_t offset, size;
	unsigned access;
	uint64_t bytes_in, bytes_out;
};

/* A put of the other site that has written into memory. */
struct relay_bound {
	uint64_t op, serial; /* of the region; 0: no put */
};

struct relay_service {
	char name[LR_NAME_MAX];
	struct relay_client *client; /* NULL: no service */
};

/* A call of the other site. */
struct relay_call {
	bool used, given; /* given: to the service's client */
	uint64_t op;
	struct relay_channel_out *ch; /* to answer on */
	struct relay_client *client;
	uint32_t gen;
	char name[LR_NAME_MAX];
	uint8_t *data;
	size_t len, got;
};

/* A get of the other site. */
struct relay_get {
	bool used;
	uint64_t op;
	struct relay_stream *stream;
};

struct relay_unsent {
	struct relay_unsent *next;
	size_t len;
	uint8_t bytes[];
};

struct relay_client {
	bool used, greeted;
	bool is_privileged; /* its user was root or the daemon's when it connected */
	bool is_filled;     /* it has served copy:pull.*: a copy from the other site comes to it */
	int fd;
	struct rdma_conn *rdma; /* NULL: it is at the socket */
	uint64_t refused; /* relay_file_is_refused(), of a descriptor that it has sent; 0: of none */
	uint32_t nops;
	struct dnode ops;
	struct relay_unsent *unsent, **unsent_last;
	size_t unsent_bytes;
};

/* A chunk that waits for room for its answer. */
struct relay_deferred {
	struct dnode node;
	struct relay_chunk chunk;
};

/* RELAY_COUNTERS, counted by the relay's thread and read by the main one. */
#define X(name, text) _Atomic uint64_t name;
struct relay_counting {
	RELAY_COUNTERS(X)
	_Atomic uint32_t rdma_clients;
};
#undef X

struct relay_thread {
	struct link_config config;
	struct relay_counting count;
	char path[LINK_FILE_MAX];
	uint32_t nchannels, first_channel; /* first: that the next turn begins with */
	struct worker *const *worker;
	uint32_t nworkers;
	struct relay_port *port[WORKERS_MAX];
	bool wake[WORKERS_MAX];
	struct relay_channel_out channel[RELAY_CHANNELS_MAX];
	uint32_t instance, peer_instance, peer_before; /* of this start, the other relay's, and the one before that */
	uint64_t peer_knows; /* RELAY_KNOWS_* of it, when its instance is known */
	uint64_t started_ns;
	int listen_fd, notify_fd, epoll_fd;
	pthread_t thread;
	bool running;
	_Atomic bool stop;
	struct relay_client client[RELAY_CLIENTS];
	struct relay_region *region; /* RELAY_REGIONS */
	uint32_t nregions, region_hint;
	uint64_t nexported; /* regions, ever */
	struct relay_service service[RELAY_SERVICES];
	struct relay_op *op[RELAY_OPS];
	uint32_t nops, op_gen, nwaiting;
	uint32_t nfar; /* puts that wait until the other edge has them */
	uint32_t ngone; /* puts of RDMA clients that have gone, in the buffer and not answered yet */
	struct log_limit late; /* lines about puts that failed after their promise */
	struct relay_call call[RELAY_CALLS];
	struct relay_get get[RELAY_GETS];
	uint64_t unwell[RELAY_OPS]; /* operations of this site that have failed, by their low bits */
	struct gpu *gpu; /* NULL: no GPU memory was exported yet */
	bool gpu_wake;   /* it has commands */
	struct dnode memories, readers, copies; /* relay_gpu.h */
	struct dnode written[2]; /* struct relay_write of GPU memory, to be finished; [1]: relay_write_is_answered() */
	struct relay_files files;
	struct relay_rdma *rdma; /* NULL: no RelayListen= */
	struct dnode deferred; /* of the other site's requests */
	struct relay_bound bound[RELAY_OPS][RELAY_STARTS]; /* by their low bits; the last one first */
	uint64_t failed[RELAY_FAILED]; /* operations of the other site that were told that they failed, by their low bits */
	uint64_t malformed;    /* chunks that no correct relay sends */
	/* Buffers of the thread (each link has one): a program's message, and the list of regions for a program. */
	uint8_t message[LR_MSG_MAX];
	struct lr_region list[(LR_MSG_MAX - sizeof(struct lr_msg)) / sizeof(struct lr_region)];
	struct { /* of the line, by worker */
		uint64_t pace_bps, free_bps, rtt_ns;
	} line[WORKERS_MAX];
};

/* Adds to a counter of r->count: there is one writer. */
static inline void relay_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* relay.c: tells the other edge that this relay has started: requests to its predecessor are forgotten. */
void relay_say_hello(struct relay_thread *r);

/* The channel of a pair on which requests go to the peer as it is known now: relay_wire.h. */
static inline uint32_t relay_request_channel(const struct relay_thread *r, uint32_t pair)
{
	return 2 * pair + (r->peer_knows & RELAY_KNOWS_SPREAD ? (uint32_t)__builtin_parity(pair) : 0);
}

static inline bool relay_is_for_requests(const struct relay_thread *r, uint32_t channel)
{
	return relay_request_channel(r, channel / 2) == channel;
}

/* relay_channel.c: chunks out. */
void relay_channel_init(struct relay_thread *r, uint32_t idx);
/* Queues a message on the channel. Returns 0 or -ENOMEM. op: the operation that is told of the commit; 0: none. */
int relay_say(struct relay_channel_out *ch, const struct relay_head *h, const void *data, size_t len, uint64_t op);
/* Queues a message that answers a request. */
int relay_say_answer(struct relay_channel_out *ch, const struct relay_head *h, const struct relay_request *q);
/* Drops the queued messages of that operation. */
void relay_forget(struct relay_channel_out *ch, uint64_t op);
void relay_stream_start(struct relay_channel_out *ch, struct relay_stream *s);
/* Sends no more of the stream, and frees it when no slot is under way for it. */
void relay_stream_kill(struct relay_thread *r, struct relay_stream *s);
/* The stream's source cannot be read: its operation, or the other site's get, ends with that status. */
void relay_stream_fail(struct relay_thread *r, struct relay_stream *s, enum lr_status status);
/* Asks for slots for queued messages and streams of all channels, at least one. */
void relay_channels_pump(struct relay_thread *r);
void relay_channel_note(struct relay_thread *r, const struct relay_note *n);
/* An RDMA READ that fills a slot has ended. */
void relay_channel_filled(struct relay_thread *r, struct relay_channel_out *ch, struct relay_take *t,
                          const struct relay_chunk *c, enum lr_status status);
void relay_channel_free(struct relay_thread *r, struct relay_channel_out *ch);
/* A command to the channel's worker; there is always room for one per note. */
void relay_tell_worker(struct relay_thread *r, uint32_t worker, const struct relay_command *c);
/* Bytes in slots, and bytes of streams that have no slot yet. */
uint64_t relay_channel_queued(const struct relay_channel_out *ch);

/* relay_op.c: operations of this site's clients. */
void relay_ops_init(struct relay_thread *r);

/* Empty lists, files, operations and channels of a relay whose config, nworkers and nchannels are set. */
static inline void relay_thread_init(struct relay_thread *r)
{
	dlist_init(&r->deferred);
	dlist_init(&r->memories);
	dlist_init(&r->readers);
	dlist_init(&r->copies);
	dlist_init(&r->written[0]);
	dlist_init(&r->written[1]);
	relay_files_init(r);
	relay_ops_init(r);
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_init(r, i);
}
/* Whether such an operation has a descriptor: relay_op_begin() takes it over if it returns 0. Others stay the caller's. */
bool relay_op_takes_fd(const struct lr_msg *m);
int relay_op_begin(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data,
                   size_t len, int fd, uint64_t *id);
/* The same with an RDMA client's memory in place of a descriptor. -EAGAIN also: RELAY_OPS_GONE. */
int relay_op_begin_remote(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data,
                          size_t len, const struct relay_remote *remote, uint64_t *id);
void relay_op_cancel(struct relay_thread *r, struct relay_op *op);
/* The program has been told the id: ends the operation now if the one named by `after` had already failed. */
void relay_op_begun(struct relay_thread *r, uint64_t id);
struct relay_op *relay_op_find(struct relay_thread *r, uint64_t id);
/* Progress of an operation, by its id; ignored if the operation is over. relay_op_end(): it has ended, well or not;
 * others: a chunk of it has a slot; its last chunk is committed; its stream is gone. */
void relay_op_end(struct relay_thread *r, uint64_t id, enum lr_status status);
void relay_op_taken(struct relay_thread *r, uint64_t id, const struct relay_chunk *c, bool last);
void relay_op_committed(struct relay_thread *r, uint64_t id);
void relay_op_stream_over(struct relay_thread *r, const struct relay_stream *s);
/* The channel's status has changed: arrived positions, or another life. */
void relay_op_moved(struct relay_thread *r, struct relay_channel_out *ch, uint32_t life_before);
/* The other edge's relay has started again: repeats gets that it has forgotten, fails calls, and puts
 * that began before this relay knew any start of it. Other puts go on, or fail there (relay_execute.c). */
void relay_op_peer_restarted(struct relay_thread *r);
void relay_op_client_gone(struct relay_thread *r, struct relay_client *cl);
/* The region that the memory was is gone: operations that still read or write the memory end with its status. */
void relay_op_memory_gone(struct relay_thread *r, const struct relay_memory *mem);
/* Answers of the peer. False: the chunk is kept until its bytes are in a GPU or a file, and relay_op_written() hears of that. */
bool relay_op_answer(struct relay_thread *r, const struct relay_chunk *c, const struct relay_head *h, const uint8_t *data,
                     size_t len);
void relay_op_written(struct relay_thread *r, const struct relay_write *w);

/* relay_execute.c: requests of the other site. */
void relay_execute(struct relay_thread *r, const struct relay_chunk *c);
/* The other relay has started anew: requests of its predecessor are over. */
void relay_execute_peer_started(struct relay_thread *r);
/* The request's answer is committed, or not needed any more. */
void relay_execute_answered(struct relay_thread *r, const struct relay_request *q);
/* True for a write that has failed and is answered: its end waits for room in the answering channel. That room may come from
 * ends of other writes, so those wait in a list of their own. */
static inline bool relay_write_is_answered(const struct relay_write *w)
{
	return !w->is_get && w->status != LR_OK;
}

/* True if the worker's ring has room to finish the chunk, and the channel for an answer about it: check before
 * relay_execute_written(). */
bool relay_execute_has_room(struct relay_thread *r, const struct relay_write *w);
/* The same of a request of that channel that is answered: check before relay_execute_noticed(). */
bool relay_execute_may_answer(struct relay_thread *r, uint32_t channel);
/* A chunk's bytes are in a GPU or a file, or cannot be. */
void relay_execute_written(struct relay_thread *r, const struct relay_write *w);
/* The notice of RW_PUT_END has been delivered, or cannot be. */
void relay_execute_noticed(struct relay_thread *r, const struct relay_chunk *c, enum lr_status status);
/* Executes requests that waited for room. */
void relay_execute_deferred(struct relay_thread *r);
int relay_execute_reply(struct relay_thread *r, struct relay_client *cl, uint64_t call, enum lr_status status,
                        const uint8_t *data, size_t len);
int relay_execute_serve(struct relay_thread *r, struct relay_client *cl, const char *name);
void relay_execute_client_gone(struct relay_thread *r, struct relay_client *cl);
/* The memory is no region any more: gets of the other site that read it fail. */
void relay_execute_memory_gone(struct relay_thread *r, const struct rdma_memory *mem);
void relay_execute_stream_over(struct relay_thread *r, struct relay_stream *s);

/* relay_region.c: regions exported at this site. */
/* Takes the descriptor over if it returns 0. */
int relay_region_add(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, int fd);
/* The same of GPU memory, of so many bytes, that is being opened. */
int relay_region_add_memory(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m,
                            struct relay_memory *mem, uint64_t size, struct relay_region **g);
/* The same of an RDMA client's memory. */
int relay_region_add_rdma(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, struct rdma_memory *mem,
                          struct relay_region **g);
/* 1: it is answered when its memory, a GPU's or an RDMA client's, is not used any more. */
int relay_region_remove(struct relay_thread *r, struct relay_client *cl, const char *name, uint32_t serial);
void relay_region_drop(struct relay_thread *r, struct relay_region *g);
struct relay_region *relay_region_find(struct relay_thread *r, const char *name);
/* Checks whether the other site may access those bytes: enum lr_status. */
enum lr_status relay_region_check(const struct relay_region *g, unsigned access, uint64_t offset, uint64_t length);
void relay_region_client_gone(struct relay_thread *r, const struct relay_client *cl);

/* relay_client.c: programs. */
int relay_client_listen(struct relay_thread *r, char err[CONFIG_ERR_MAX]);
void relay_client_accept(struct relay_thread *r);
void relay_client_ready(struct relay_thread *r, struct relay_client *cl, uint32_t events);
void relay_client_drop(struct relay_thread *r, struct relay_client *cl);
/* Whether the client may export a region of that name. */
bool relay_client_may_export(const struct relay_client *cl, const char *name);
/* Sends an event, or keeps it until the program reads. */
void relay_client_event(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const void *data,
                        size_t len);

#endif
