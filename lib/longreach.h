/* SPDX-License-Identifier: Apache-2.0 */
/* longreach.h - liblongreach: put and get memory and files at the other site of a link, through the edge.
 *
 * A program connects to the relay of one link (lr_open). It may export *regions*: parts of a file or a memfd that
 * programs at the other site may read or write, by name. It may put bytes of a descriptor of its own into a region of
 * the other site, get bytes out of one, and call a service there.
 *
 *     struct lr *h;
 *     lr_open("site-b", NULL, &h);
 *     uint64_t op;
 *     lr_put(h, &(struct lr_transfer){.fd = fd, .length = n, .region = "checkpoint"}, &op);
 *     struct lr_event ev;
 *     while (lr_wait(h, &ev, -1) == 1 && !(ev.type == LR_EV_DONE && ev.id == op))
 *             ;
 *
 * Operations are asynchronous. Their ends and all notices come as events, in lr_wait() or, with poll(2) on lr_fd(),
 * without waiting. Operations of one program are carried out in any order; an operation whose `after` names another one
 * begins when the other has ended well.
 *
 * Promises. An operation ends with LR_OK when its `promise` is fulfilled (enum lr_promise). If an operation that ended
 * early fails later, LR_EV_LATE tells it: after the loss of a buffer, or if the region's owner is gone.
 *
 * Not thread-safe: one handle belongs to one thread at a time. Functions return 0 or what their comment says, and a
 * negative errno. */
#ifndef LONGREACH_H
#define LONGREACH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LR_NAME_MAX   32            /* of regions and services, with the terminating NUL */
#define LR_NOTICE_MAX 256           /* bytes of a notice */
#define LR_CALL_MAX   (60u << 10)   /* bytes of a call, and of its reply */
#define LR_PIECES_MAX 256           /* of a vector */

struct lr;

/* How an operation ended. */
enum lr_status {
	LR_OK = 0,
	LR_NO_REGION = 1,      /* no program exports a region of that name there */
	LR_OUT_OF_BOUNDS = 2,  /* offset and length exceed the region */
	LR_PERMISSION = 3,     /* the region may not be read, or not be written, from here */
	LR_NO_SERVICE = 4,     /* no program serves it there */
	LR_NO_RELAY = 5,       /* the other edge has no relay */
	LR_PEER_RESTARTED = 6, /* the other edge started again, or a buffer was lost: the operation may have happened in part */
	LR_IO_LOCAL = 7,       /* this site's descriptor could not be read or written, for example because it is
	                        * shorter */
	LR_IO_REMOTE = 8,      /* the region could not be read or written */
	LR_CANCELLED = 9,
	LR_PROVIDER_GONE = 10, /* the program that serves the call is gone, without a reply */
	LR_NO_ROOM = 11,       /* too much at the other site at once. Of a put with a notice also: the region's owner, a program
	                        * that exports by RDMA, takes no notices. The bytes are written then */
	LR_BEFORE_FAILED = 12, /* the operation named by `after` did not end well */
	LR_GPU_LOST = 13,      /* the GPU of one of the ends: CUDA has broken the daemon's context, or the GPU has gone */
	LR_GPU_CONTEXT = 14,   /* the daemon's context on the GPU was destroyed */
	LR_GPU_NO_MEMORY = 15, /* CUDA found no memory for a copy */
	LR_GPU_FAILED = 16,    /* another error of CUDA: the daemon's log names it */
	LR_CLIENT_MEMORY = 17, /* RDMA: the program's memory may not be read or written with the key and address that came with it */
	LR_CLIENT_GONE = 18,   /* RDMA: the program's memory does not answer, or its connection has ended */
	LR_RDMA_FAILED = 19,   /* RDMA: another error: the daemon's log names it */
	LR_OLD_PEER = 20,      /* the other edge is of a version that does not know vectors */
	LR_STATUSES
};

/* The state that the end of a put promises. */
enum lr_promise {
	LR_LINK = 0, /* what the link's AckMode= promises to RDMA hosts */
	LR_NEAR = 1, /* all bytes are in this edge's buffer, which outlives the daemon */
	LR_FAR = 2,  /* and in the other edge's */
	LR_DONE = 3, /* and written to the region, and the notice is delivered: lr_wait() of the region's owner returns it,
	              * unless the owner goes before */
};

/* Access of the other site to a region. */
enum lr_access {
	LR_PEER_READ = 1,
	LR_PEER_WRITE = 2,
};

/* Bytes between a descriptor here and a region there. */
struct lr_transfer {
	int fd;                /* of a file, a memfd or, by RDMA, a dma-buf: read for a put, written for a get. It may be
	                        * closed at once */
	uint64_t offset;       /* in it */
	uint64_t length;       /* number of bytes; 0: a put only delivers its notice, a get reads to the region's end */
	const char *region;    /* at the other site */
	uint64_t region_offset;
	enum lr_promise promise; /* of a put */
	const void *notice;    /* of a put: delivered to the region's owner when all bytes are there */
	size_t notice_len;     /* at most LR_NOTICE_MAX; 0: no notice */
	uint64_t after;        /* an operation of this handle; 0: begins at once */
	const char *local;     /* a region that this handle exports, in place of fd, for example GPU memory; offset
	                        * counts in the region. NULL: fd */
	void *memory;          /* memory of this program, in place of fd; offset counts in it. The program must not
	                        * change its bytes until LR_EV_DONE */
};

/* A piece of a vector: length bytes, from offset on in the transfer's descriptor or memory, and from region_offset on
 * in the region. */
struct lr_piece {
	uint64_t offset, region_offset, length;
};

enum lr_event_type {
	LR_EV_DONE,   /* operation id has ended: status, promise, bytes; data: the reply of a call */
	LR_EV_LATE,   /* operation id had ended well early, and has failed later: status */
	LR_EV_NOTICE, /* a put into region `name` is complete: data is its notice, offset and bytes where */
	LR_EV_CALL,   /* service `name` is called: id is for lr_reply(), data the request */
	LR_EV_LOST,   /* region `name`, which is GPU memory, is broken: status. Its operations fail until it is
	               * unexported. By RDMA: the connection has ended with that status, and the region with it */
};

/* Valid until the next call with the handle. */
struct lr_event {
	enum lr_event_type type;
	uint64_t id;
	enum lr_status status;
	enum lr_promise promise;
	uint64_t bytes;
	uint64_t offset;
	char name[LR_NAME_MAX];
	const void *data;
	size_t len;
};

/* Connects to the relay of a link. path: its socket, NULL: $LONGREACH_RELAY, or /run/longreach/LINK.relay. -EACCES: the
 * caller is neither root nor in the link's [Relay] Group=.
 *
 * With neither path nor $LONGREACH_RELAY, on a machine without that socket, lr_open() connects by RDMA, as below, to
 * the edge that /etc/longreach/edges names for the link, unless $LONGREACH_RDMA=no. -ENOENT: neither the socket nor a
 * line for the link exists; -EINVAL: the link's line in the file is malformed. If the first existing choice fails, no
 * other is tried.
 *
 * A path of rdma:ADDRESS[:PORT] connects by RDMA to the edge with that RelayListen=, from this host or another: the
 * edge reads and writes this program's memory itself. Such a handle can put, get, export (lr_export(),
 * lr_export_memory()), unexport, cancel and wait; all other calls return -EOPNOTSUPP. The length of a get must be given, and its file is enlarged for it at once; if the get fails, the
 * bytes that it added are cut off again, unless the file's size has changed meanwhile. -EACCES: RelayAllow= does not name this host (or, of lr_put(),
 * lr_get() and lr_export(), not for that region); -ENODEV: no RDMA here, or none there; -ECONNREFUSED: no edge listens there;
 * -EPROTONOSUPPORT: another version; -EMFILE: too many clients. */
int lr_open(const char *link, const char *path, struct lr **h);
/* After -EPIPE from lr_wait(): connects the handle to its relay again, which has started again. The handle has no
 * exports, services and operations then; it exports and serves again what is to go on. Memory that is exported under
 * the name that it had before must be the same: puts of the other site that began before go on in it. Puts into a memfd
 * or GPU memory that a program exports by another handle end with LR_PEER_RESTARTED if they began before the relay's
 * start. Errors as of lr_open(): call it again. By RDMA puts that began before never go on in memory. */
int lr_reopen(struct lr *h);
/* Closes the handle: its exports are removed, operations whose bytes are not all in the buffer are given up. */
void lr_close(struct lr *h);
/* For poll(2): readable when events come. Events that came during another call do not make it readable: take events
 * with timeout 0 until there are none, then poll. By RDMA it also becomes readable every 10 s without an event:
 * lr_wait() checks then whether the edge still answers. */
int lr_fd(const struct lr *h);

/* Exports size bytes of fd, from offset on. The daemon reads and writes it by pread(2) and pwrite(2) on its own
 * copy of the descriptor, which must be open for what access allows. access: enum lr_access. -EEXIST: the name is
 * taken; -EINVAL; -ENOSPC: too many.
 *
 * Puts that have written into a memfd or GPU memory never end well after its region was withdrawn (lr_unexport(), the
 * end of the handle): LR_NO_REGION, even if the name is exported again. A file keeps its bytes: puts go on in the next
 * region of the name.
 *
 * By RDMA the edge reads and writes the descriptor's pages, or a dma-buf's memory, itself, until lr_unexport(): no
 * processor copies at this site. fd must be open for reading and writing (-EACCES), the file long enough (-ERANGE) and
 * not truncated meanwhile; the region counts as memory. The name must have no control characters (-EINVAL). The program
 * must take its notices: lr_wait(). A dma-buf may be memory of a GPU: cuMemGetHandleForAddressRange() gives its descriptor.
 * -EACCES also: RelayAllow= has no export: of that name for this host; -EOPNOTSUPP: the edge's version, or rdma-core's,
 * does not know it; errors of ibv_reg_mr(3). */
int lr_export(struct lr *h, const char *name, int fd, uint64_t offset, uint64_t size, unsigned access);
/* The same of this program's memory: by RDMA only (-EOPNOTSUPP), as the daemon cannot reach the memory of another process.
 * The memory must stay until lr_unexport() or lr_close(). */
int lr_export_memory(struct lr *h, const char *name, void *memory, uint64_t size, unsigned access);
/* When lr_unexport() returns, the daemon has released GPU memory: the program may free it. Operations of this handle
 * that still read or write that memory, or wait for another one, end with LR_NO_REGION; a put whose bytes are all in
 * the buffer goes on. By RDMA, too, nothing touches the memory any more when lr_unexport() returns, well or not. */
int lr_unexport(struct lr *h, const char *name);

/* GPU memory of this program, as CUDA's driver shares it with another process. */
struct lr_gpu {
	char handle[64];       /* cuIpcGetMemHandle() */
	char pci_bus_id[16];   /* of its GPU: cuDeviceGetPCIBusId() */
	uint64_t offset, size; /* of the part that is exported, in the allocation: cuMemGetAddressRange() tells its base */
};
/* Exports GPU memory. The daemon copies the memory by CUDA, in another process: writes of the program's kernels and
 * copies must be complete (cuCtxSynchronize()) before a put from it begins, and bytes written by a put are visible to
 * kernels that begin after the notice. access may be 0: the region is for this handle's own operations
 * (lr_transfer.local). -EOPNOTSUPP: the link has no [Relay] GPU=yes; -ENODEV: no CUDA or no such GPU there; -ENOMEM;
 * -EINVAL: no such memory; -EIO: another error of CUDA, which the daemon's log names. */
int lr_export_gpu(struct lr *h, const char *name, const struct lr_gpu *memory, unsigned access);

/* The same for memory of cuMemCreate(), which has no such handle: fd is what cuMemExportToShareableHandle() gave
 * (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), and may be closed at once; allocation: the size that was created.
 * memory->handle is ignored; memory->offset counts in the allocation. */
int lr_export_gpu_fd(struct lr *h, const char *name, int fd, uint64_t allocation, const struct lr_gpu *memory, unsigned access);

/* Begin an operation; *op names it in events. -EAGAIN: too many are under way; by RDMA also, of lr_put(), that
 * too many puts of clients that have gone wait for the other edge. -EINVAL. */
int lr_put(struct lr *h, const struct lr_transfer *t, uint64_t *op);
int lr_get(struct lr *h, const struct lr_transfer *t, uint64_t *op);
/* The same with n pieces, 1 to LR_PIECES_MAX, as one operation: its end, promise and notice are of all of them. offset,
 * length and region_offset of t are 0; no piece is of 0 bytes. Pieces may lie in any order; if two overlap where they
 * are written, the bytes of either may be there. A put's notice names the range that encloses the pieces. Not over
 * RDMA: -EOPNOTSUPP. */
int lr_putv(struct lr *h, const struct lr_transfer *t, const struct lr_piece *piece, size_t n, uint64_t *op);
int lr_getv(struct lr *h, const struct lr_transfer *t, const struct lr_piece *piece, size_t n, uint64_t *op);
/* Ends the operation with LR_CANCELLED, unless it ends first. Bytes under way are still written. */
int lr_cancel(struct lr *h, uint64_t op);

/* Serves calls of that name. -EEXIST: another program serves it; -EPERM: the name is of a link file's [Export], and the
 * caller's user was neither root nor the daemon's when it connected. lr_export() refuses such names, too (copy.*). */
int lr_serve(struct lr *h, const char *service);
/* Calls a service at the other site. len: at most LR_CALL_MAX. A call that ends with LR_PEER_RESTARTED may have been
 * carried out. */
int lr_call(struct lr *h, const char *service, const void *request, size_t len, uint64_t *op);
/* Answers LR_EV_CALL. status: LR_OK, or the status for the caller. */
int lr_reply(struct lr *h, uint64_t call, enum lr_status status, const void *reply, size_t len);

/* Takes the next event. 1: *ev is filled in; 0: none came in timeout_ms (-1: waits for ever); -EPIPE: the daemon is
 * gone, and with it all operations of the handle that are not in its buffer. By RDMA an edge that does not answer for
 * 20 s counts as gone: the operations end with LR_CLIENT_GONE, and then -EPIPE is returned. When any call has returned
 * -EPIPE, the edge reads and writes no memory of the handle any more. */
int lr_wait(struct lr *h, struct lr_event *ev, int timeout_ms);

/* The rates of the link now. */
struct lr_rate {
	uint64_t line_bps;     /* the most that all workers may send now */
	uint64_t free_bps;     /* the part of it that RDMA and the relay left free in the last second */
	uint64_t queued_bytes; /* bytes of the relay that wait in this edge's buffer and in front of it */
	uint64_t rtt_ns;
};
int lr_rate(struct lr *h, struct lr_rate *r);

/* One region of this site. */
struct lr_region {
	char name[LR_NAME_MAX];
	uint64_t size;
	unsigned access;
	uint64_t bytes_in, bytes_out; /* written to it and read from it by the other site */
};
/* Fills in up to n regions. Returns how many regions there are. */
int lr_regions(struct lr *h, struct lr_region *list, size_t n);

const char *lr_strerror(enum lr_status status);

#ifdef __cplusplus
}
#endif

#endif
