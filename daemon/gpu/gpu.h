/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - copies between GPU memory of programs and pinned memory of the host, by a thread that may wait for a GPU.
 *
 * The user, one thread, never waits: it gives commands and takes notes. In call order:
 *
 *     gpu_start     a thread; CUDA's driver is loaded when the first memory is opened
 *     gpu_open      memory of another process, by its IPC handle: a note tells the result
 *     gpu_take      a block of pinned memory, NULL: none is free now
 *     gpu_copy      fills it from the GPU, or empties it into the GPU; a note says when
 *     gpu_give      the block is free again
 *     gpu_close     when no block of the memory is under way or held; a note says when it is closed
 *     gpu_stop
 *
 * A GPU's error breaks the memory that it happened to; an error that destroys the context breaks all memory of that
 * GPU. GPU_BROKEN is noted once for each broken memory, before any block that failed for this reason, and all later
 * copies of that memory fail. The user must still close it. A broken context is released at once with all that it holds,
 * and the next gpu_open() begins with a new one; when all memory of a GPU is closed, context, streams and pinned blocks
 * are freed. After an illegal address or a
 * failed kernel CUDA refuses a process until it ends; then gpu_open() fails until the daemon is started again. */
#ifndef DAEMON_GPU_H
#define DAEMON_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_types.h"

enum gpu_limits {
	GPU_BLOCK_BYTES = 1 << 20, /* starting a copy takes the driver microseconds: too long for a single slot of the
	                            * arena */
	GPU_BLOCKS = 32,           /* blocks of a GPU; half of them for each direction */
	GPU_RUNS = 256,            /* pieces of GPU memory that a block is spread over */
	GPU_DEVICES = 16,
	GPU_MEMORIES = 256,        /* open at a time */
	GPU_ID_MAX = 16,           /* "0000:3b:00.0" */
	GPU_WHY_MAX = 128,
};

/* Why a copy was not done. */
enum gpu_end {
	GPU_OK,
	GPU_LOST,      /* the GPU is not usable, or CUDA has broken the context: an illegal address, a failed kernel, ECC */
	GPU_CONTEXT,   /* its context was destroyed */
	GPU_NO_MEMORY, /* CUDA found no memory for the copy */
	GPU_FAILED,    /* anything else */
};

struct gpu;
struct gpu_device;

struct gpu_memory {
	/* Written by the user before gpu_open(). */
	CUipcMemHandle handle; /* or */
	int fd;                /* of an allocation of cuMemCreate() that was exported as a descriptor; -1: the handle counts.
	                        * It may be closed after the note GPU_OPENED */
	uint64_t allocation;   /* bytes of that */
	char id[GPU_ID_MAX];   /* of the GPU: its address on the PCI bus, in either case */
	uint64_t offset, size; /* of the part that may be used, in the allocation */
	void *user;
	/* Written by the thread. To be read after a note of this memory. */
	char why[GPU_WHY_MAX]; /* if the memory could not be opened, or is broken: CUDA's call and its error */
	enum gpu_end end;
	/* The thread's. */
	struct gpu_device *device;
	CUdeviceptr base;
	CUstream stream[2]; /* from the GPU, to the GPU */
	bool is_open;       /* the IPC handle is open, or the descriptor's allocation is mapped */
	bool is_reserved;   /* addresses for a descriptor's allocation are reserved */
	struct gpu_memory *next;
};

struct gpu_run {
	uint64_t offset;  /* in the memory's part */
	uint32_t at, len; /* in the block */
};

struct gpu_block {
	uint8_t *bytes; /* GPU_BLOCK_BYTES of them */
	/* Written by the user before gpu_copy(). */
	bool to_device;
	uint32_t nruns;
	struct gpu_run run[GPU_RUNS];
	void *user;
	/* Written by gpu_take(). */
	struct gpu_memory *memory;
	/* The thread's. */
	struct gpu_device *device;
	CUevent event;
	enum gpu_end end;
	bool by_stream; /* the block is done when its stream is idle; no event tells it */
	struct gpu_block *next; /* in the list of free blocks, or of blocks under way */
};

enum gpu_note_type {
	GPU_OPENED, /* memory, rc: 0; -ENODEV: no CUDA or no such GPU; -ENOMEM; -EINVAL: no such memory; -EIO: a GPU's error */
	GPU_COPIED, /* block, end */
	GPU_BROKEN, /* memory: its `end` tells the cause */
	GPU_CLOSED, /* memory */
};

struct gpu_note {
	enum gpu_note_type type;
	int rc;
	enum gpu_end end;
	struct gpu_memory *memory;
	struct gpu_block *block;
};

/* notify_fd: an eventfd that is written when there are notes. 0 or negative errno. */
int gpu_start(struct gpu **out, int notify_fd);
/* Ends the thread, and frees everything that the GPUs release within two seconds; the log tells of copies that are not done
 * by then. False: the thread hangs in a driver, and is left behind with all memory that it may touch; exit(3) then runs none
 * of the exit handlers that came before, of which the driver has some. */
bool gpu_stop(struct gpu *g);
/* False: GPU_MEMORIES are open. */
bool gpu_open(struct gpu *g, struct gpu_memory *m);
void gpu_close(struct gpu *g, struct gpu_memory *m);
struct gpu_block *gpu_take(struct gpu_memory *m, bool to_device);
void gpu_give(struct gpu_block *b);
void gpu_copy(struct gpu *g, struct gpu_block *b);
/* Call after giving commands: wakes the thread. */
void gpu_wake(struct gpu *g);
bool gpu_note(struct gpu *g, struct gpu_note *n);

#endif
