/* SPDX-License-Identifier: Apache-2.0 */
/* relay_rdma.h - clients of the relay that connect by RDMA: the edge READs and WRITEs their memory itself. */
#ifndef DAEMON_RELAY_RDMA_H
#define DAEMON_RELAY_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/lr_rdma_wire.h"
#include "lib/lr_verbs.h"
#include "lib/lr_wire.h"
#include "proxy/proxy.h"

enum relay_rdma_limits {
	RDMA_CLIENTS = 32,       /* connections, of these */
	RDMA_CLIENTS_OF_HOST = 8,
	RDMA_OPS_OF_CLIENT = 64, /* under way */
	RDMA_REGIONS_OF_CLIENT = 64,
	RDMA_REQUESTS = 32,      /* of a client, unanswered */
	RDMA_RECEIVES = RDMA_REQUESTS + LR_RDMA_NOTICES, /* that are posted: each notice may be taken by a message of its own */
	RDMA_SENDS = 32,         /* messages to a client that it has not taken yet */
	RDMA_UNSENT = 256,       /* messages that wait behind those before the client is disconnected */
	RDMA_WORKS = 64,         /* READs and WRITEs of a client's memory under way */
	RDMA_AHEAD = 48,         /* slots that READs of one client's memory may hold */
	RDMA_AHEAD_CHANNEL = 64, /* slots that READs of all clients may hold on one channel: half of what it can hold */
	RDMA_ENDS = 64,          /* clients whose connection failed, for which the reason is kept */
};

struct relay_client;
struct relay_region;
struct relay_thread;
struct relay_rdma;
struct relay_take;
struct relay_channel_out;
struct rdma_conn;
struct rdma_memory;

/* Memory of a client. conn NULL: it is none. */
struct relay_remote {
	struct rdma_conn *conn;
	uint64_t address;
	uint32_t rkey;
	struct rdma_memory *exported; /* it is a region of the client; NULL: of one of its operations */
};

/* The relay's start: the listener and its memory, if the config has a RelayListen=. Logs a failure and tries again
 * later: other programs need no RDMA. verbs: of a test, NULL: the machine's. */
void relay_rdma_open(struct relay_thread *r, const struct lr_verbs *verbs);
/* Handles an RDMA event of the relay's epoll. */
void relay_rdma_ready(struct relay_thread *r);
/* One turn's work for RDMA clients. True: something waits for room in a worker's ring, or for the next turn. */
bool relay_rdma_turn(struct relay_thread *r);
/* The relay's end. */
void relay_rdma_close(struct relay_thread *r);

/* READs len bytes of the memory, from offset on, into a slot. LR_OK: relay_channel_filled() hears of the end. */
enum lr_status relay_rdma_read(struct relay_thread *r, const struct relay_remote *m, uint64_t offset, uint32_t len,
                               struct relay_channel_out *ch, struct relay_take *t, const struct relay_chunk *c);
/* WRITEs a chunk's data into the memory. LR_OK: relay_execute_written() hears of the end, and finishes the chunk. */
enum lr_status relay_rdma_write(struct relay_thread *r, const struct relay_remote *m, uint64_t offset,
                                const struct relay_chunk *c, const uint8_t *data, uint32_t len, uint64_t op);
/* relay_rdma_may_take(): true if a stream of that client may ask for another slot. relay_rdma_took(): it has asked for
 * one, or given it back. */
bool relay_rdma_may_take(const struct relay_remote *m, const struct relay_channel_out *ch);
void relay_rdma_took(const struct relay_remote *m, struct relay_channel_out *ch, int n);
/* SENDs the notice of RW_PUT_END to the region's client. LR_OK: relay_execute_noticed() hears of the end. */
enum lr_status relay_rdma_notice(struct relay_thread *r, const struct relay_remote *m, const struct relay_chunk *c);
/* A message to the client, from relay_client_event(). */
void relay_rdma_event(struct relay_thread *r, struct rdma_conn *conn, const struct lr_msg *m);

/* Memory that a client exports. It outlives its region until no READ or WRITE of it is under way.
 *
 * relay_rdma_exported(): as the source or target of what the other site asks for. relay_rdma_region(): NULL: it is
 * withdrawn. relay_rdma_forget(): the region is withdrawn: what waits for the memory ends with LR_NO_REGION, and nothing
 * new begins. client: the request `serial` is answered when nothing is under way; NULL: none is. */
struct relay_remote relay_rdma_exported(struct rdma_memory *mem);
struct relay_region *relay_rdma_region(const struct rdma_memory *mem);
void relay_rdma_forget(struct relay_thread *r, struct rdma_memory *mem, const struct relay_client *client, uint32_t serial);

#endif
