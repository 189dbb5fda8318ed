/* SPDX-License-Identifier: Apache-2.0 */
/* relay_gpu.h - regions of GPU memory: copies that the relay's thread begins and never waits for. */
#ifndef DAEMON_RELAY_GPU_H
#define DAEMON_RELAY_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/gpu/gpu.h"
#include "lib/lr_wire.h"
#include "proxy/proxy.h"
#include "proxy/util/dlist.h"

enum relay_gpu_limits {
	RELAY_AHEAD = 4,     /* blocks that one stream reads ahead */
	RELAY_WRITING = 4,   /* blocks of one region that are written at a time */
	RELAY_PARTIAL = 2,   /* of these, blocks that may begin before they are full */
};

struct relay_thread;
struct relay_client;
struct relay_file;
struct relay_region;
struct relay_stream;

/* A region's GPU memory. It outlives the region until no copy is under way. */
struct relay_memory {
	struct dnode node; /* in relay_thread.memories */
	struct gpu_memory gpu;
	struct relay_region *region; /* NULL: it has gone */
	char name[LR_NAME_MAX];
	uint32_t refs;               /* of the region, its opening, streams, operations, blocks */
	enum lr_status status;       /* LR_OK, or why the memory cannot be used any more */
	bool is_open;
	struct dnode writes;         /* struct relay_write: chunks that wait for a block */
	uint32_t nwrites, nwriting;  /* those; blocks */
	struct relay_client *client; /* the client to answer when the memory is open, or closed. NULL: none */
	uint32_t serial;             /* of the client's request */
};

/* A chunk for GPU memory, for a file that is not in memory, or for an RDMA client's memory. Its slot is held until its
 * bytes are there. */
struct relay_write {
	struct dnode node;
	struct relay_memory *memory; /* or */
	struct relay_file *file;     /* or */
	struct rdma_memory *rdma;    /* a region's; NULL with the others: an operation's */
	struct relay_chunk chunk;
	uint64_t op;
	uint64_t offset; /* in the memory or the file */
	const uint8_t *data;
	uint32_t len;
	bool is_get;     /* of an operation of this site */
	enum lr_status status;
};

/* Part of a stream that is read ahead. */
struct relay_ahead {
	struct gpu_block *block;
	uint64_t offset; /* in the stream */
	uint32_t len, left;
	bool is_loaded;
};

/* Read-ahead of a stream from GPU memory. */
struct relay_reader {
	struct dnode node; /* in relay_thread.readers */
	struct relay_memory *memory;
	struct relay_stream *stream;
	uint64_t asked, loaded; /* bytes of the stream: that blocks were taken for; that are here, from its beginning on */
	uint32_t first, n;
	struct relay_ahead ahead[RELAY_AHEAD];
};

/* Exports GPU memory, data: struct lr_gpu. fd: an allocation's descriptor, -1: its handle counts; it stays the caller's.
 * 0: the program is answered later. */
int relay_gpu_export(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data,
                     size_t len, int fd);
/* The region is gone: all uses of the memory fail, and operations of this site that need it end. client: answered when
 * the memory is closed; NULL: none. */
void relay_gpu_forget(struct relay_thread *r, struct relay_memory *mem, struct relay_client *client, uint32_t serial);
void relay_gpu_client_gone(struct relay_thread *r, const struct relay_client *cl);
struct relay_memory *relay_memory_ref(struct relay_memory *mem);
void relay_memory_unref(struct relay_thread *r, struct relay_memory *mem);

/* A stream that reads the memory, from the stream's fd_offset on. NULL: no memory. */
struct relay_reader *relay_reader_new(struct relay_thread *r, struct relay_memory *mem, struct relay_stream *s);
void relay_reader_free(struct relay_thread *r, struct relay_reader *rd);
/* How many bytes from there on, which are loaded, lie in one block: at most left. */
uint64_t relay_reader_run(const struct relay_reader *rd, uint64_t offset, uint64_t left);
/* Bytes that are loaded, of one block: each once. */
void relay_reader_take(struct relay_reader *rd, uint8_t *to, uint64_t offset, uint32_t len);

/* Writes a chunk's bytes. LR_OK: relay_execute_written() is called when they are there, or cannot be. */
enum lr_status relay_gpu_write(struct relay_thread *r, const struct relay_write *w);

/* One turn's work for the GPUs. True: something waits for room in a worker's ring. */
bool relay_gpu_turn(struct relay_thread *r);
/* The relay's end, when all clients and streams have gone. */
void relay_gpu_close(struct relay_thread *r);

#endif
