/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - copies between GPU memory of programs and pinned memory of the host, by a thread that may wait for a GPU.
 *
 * Theory of operation. Commands and notes go through two rings. The thread begins a block's copies on the stream of its
 * memory and direction, records the block's event behind them, and asks the events of all blocks under way, first every
 * 20 us, then with intervals that grow by a quarter each time, up to a millisecond. If an event cannot be recorded or
 * queried, the state of the copies before it is unknown: such a block is done when its stream is idle (by_stream); the
 * block's memory is broken, so nothing more is put on that stream.
 *
 * A context that is broken does nothing more: its blocks are done at once, and then it is released with all that it
 * holds. A driver may refuse to close a single handle in it, and a program whose memory is closed may free it. */
#define _GNU_SOURCE /* on_exit, ppoll, pthread_timedjoin_np */
#include "gpu.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cuda_api.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/util/spsc.h"
#include "daemon/util/thread.h"

enum {
	RING = 2048, /* room for all blocks of all GPUs, and for the open, error and close of each memory */
	POLL_NS = 20000,
	POLL_NS_MAX = 1000000,
};
_Static_assert(GPU_DEVICES * GPU_BLOCKS + 3 * GPU_MEMORIES <= RING, "no ring runs over");

static unsigned stop_ms = 2000; /* how long gpu_stop() waits for copies under way */

enum command_type { COMMAND_OPEN, COMMAND_COPY, COMMAND_CLOSE };

struct command {
	enum command_type type;
	struct gpu_memory *memory;
	struct gpu_block *block;
};

/* A GPU, as long as there is memory of it. */
struct gpu_device {
	struct gpu_device *next;
	char id[GPU_ID_MAX]; /* as in /sys/bus/pci/devices */
	CUdevice device;
	CUcontext context;
	bool has_context, has_pinned;
	enum gpu_end end; /* GPU_OK, or what broke its context */
	uint32_t nmemories;
	uint32_t nunder_way; /* blocks */
	uint8_t *bytes;      /* of all blocks */
	struct gpu_block block[GPU_BLOCKS];
	/* Written by the user, from the first GPU_OPENED on. */
	struct gpu_block *free;
	uint32_t ntaken[2];
};

struct gpu {
	struct spsc commands, notes;
	int notify_fd, command_fd;
	uint32_t nopen; /* the user's */
	pthread_t thread;
	_Atomic bool stop;
	/* Written by the thread. */
	struct cuda_api cuda;
	CUcontext current;
	bool loaded, tell;
	struct gpu_device *devices;
	struct gpu_memory *memories;
	struct gpu_block *first, **last; /* under way */
};

/* --- the user's side --- */

struct gpu_block *gpu_take(struct gpu_memory *m, bool to_device)
{
	struct gpu_device *d = m->device;
	struct gpu_block *b = d->free;

	if (!b || d->ntaken[to_device] == GPU_BLOCKS / 2)
		return NULL;
	d->free = b->next;
	d->ntaken[to_device]++;
	b->memory = m;
	b->to_device = to_device;
	b->nruns = 0;
	b->user = NULL;
	return b;
}

void gpu_give(struct gpu_block *b)
{
	b->device->ntaken[b->to_device]--;
	b->next = b->device->free;
	b->device->free = b;
}

/* Gives a command. The ring has room for all commands that can be under way. */
static void command(struct gpu *g, enum command_type type, struct gpu_memory *m, struct gpu_block *b)
{
	spsc_put(&g->commands, &(struct command){.type = type, .memory = m, .block = b});
}

bool gpu_open(struct gpu *g, struct gpu_memory *m)
{
	if (g->nopen == GPU_MEMORIES)
		return false;
	g->nopen++;
	m->end = GPU_OK;
	m->device = NULL;
	m->is_open = m->is_reserved = false;
	m->stream[0] = m->stream[1] = NULL;
	m->why[0] = '\0';
	command(g, COMMAND_OPEN, m, NULL);
	return true;
}

void gpu_close(struct gpu *g, struct gpu_memory *m)
{
	command(g, COMMAND_CLOSE, m, NULL);
}

void gpu_copy(struct gpu *g, struct gpu_block *b)
{
	command(g, COMMAND_COPY, b->memory, b);
}

static void write_event(int fd)
{
	static const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* it is set already */
}

void gpu_wake(struct gpu *g)
{
	write_event(g->command_fd);
}

bool gpu_note(struct gpu *g, struct gpu_note *n)
{
	if (!spsc_take(&g->notes, n))
		return false;
	if (n->type == GPU_CLOSED || (n->type == GPU_OPENED && n->rc < 0))
		g->nopen--;
	return true;
}

/* --- errors --- */

/* After these CUDA does no more work in the process, and cuda.h of CUDA 11.0 does not name them yet: CONTAINED,
 * TENSOR_MEMORY_LEAK, MPS_CLIENT_TERMINATED, EXTERNAL_DEVICE. */
static bool is_newer_fatal(CUresult e)
{
	static const int fatal[] = {226, 721, 810, 911};

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		if ((int)e == fatal[i])
			return true;
	return false;
}

static enum gpu_end end_of(CUresult e)
{
	if (is_newer_fatal(e))
		return GPU_LOST;
	switch (e) {
	case CUDA_ERROR_OUT_OF_MEMORY:
		return GPU_NO_MEMORY;
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_INVALID_CONTEXT:
	case CUDA_ERROR_DEINITIALIZED:
		return GPU_CONTEXT;
	case CUDA_ERROR_DEVICE_UNAVAILABLE:
	case CUDA_ERROR_NO_DEVICE:
	case CUDA_ERROR_INVALID_DEVICE:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
		return GPU_LOST;
	default:
		/* 714 to 719: a kernel has failed */
		return e >= CUDA_ERROR_HARDWARE_STACK_ERROR && e <= CUDA_ERROR_LAUNCH_FAILED ? GPU_LOST : GPU_FAILED;
	}
}

static bool breaks_context(CUresult e)
{
	return end_of(e) == GPU_LOST || end_of(e) == GPU_CONTEXT;
}

/* True of what a call says about the handle that it was given, for example that of another GPU's memory. */
static bool is_of_handle(CUresult e)
{
	return e == CUDA_ERROR_INVALID_DEVICE || e == CUDA_ERROR_NO_DEVICE || e == CUDA_ERROR_DEVICE_UNAVAILABLE ||
	       e == CUDA_ERROR_INVALID_CONTEXT;
}

static int errno_of(CUresult e)
{
	if (e == CUDA_ERROR_OUT_OF_MEMORY)
		return -ENOMEM;
	if (e == CUDA_ERROR_INVALID_VALUE || e == CUDA_ERROR_INVALID_HANDLE || e == CUDA_ERROR_INVALID_CONTEXT)
		return -EINVAL;
	return e == CUDA_ERROR_NO_DEVICE || e == CUDA_ERROR_INVALID_DEVICE ? -ENODEV : -EIO;
}

static void note(struct gpu *g, const struct gpu_note *n)
{
	spsc_put(&g->notes, n);
	g->tell = true;
}

/* Marks the memory as broken; only the first cause is noted. */
static void memory_broken(struct gpu *g, struct gpu_memory *m, enum gpu_end end, const char *why)
{
	if (m->end != GPU_OK)
		return;
	snprintf(m->why, sizeof(m->why), "%s", why);
	m->end = end;
	note(g, &(struct gpu_note){.type = GPU_BROKEN, .memory = m, .end = end});
}

static void describe(struct gpu *g, char why[GPU_WHY_MAX], const char *call, CUresult e)
{
	char text[64];

	snprintf(why, GPU_WHY_MAX, "%s: %s", call, cuda_api_error(&g->cuda, e, text, sizeof(text)));
}

static void failed(struct gpu *g, struct gpu_memory *m, const char *call, CUresult e)
{
	char why[GPU_WHY_MAX];

	describe(g, why, call, e);
	if (breaks_context(e)) {
		if (m->device->end == GPU_OK)
			m->device->end = end_of(e);
		for (struct gpu_memory *other = g->memories; other; other = other->next)
			if (other->device == m->device)
				memory_broken(g, other, m->device->end, why);
	}
	memory_broken(g, m, end_of(e), why);
}

static CUresult use_context(struct gpu *g, CUcontext context)
{
	CUresult e = g->current == context ? CUDA_SUCCESS : g->cuda.ctx_set_current(context);

	if (e == CUDA_SUCCESS)
		g->current = context;
	return e;
}

static CUresult use_device(struct gpu *g, const struct gpu_device *d)
{
	return use_context(g, d->context);
}

/* --- a GPU --- */

/* Places the blocks' pages on the GPU's NUMA node, if the kernel knows it. */
static void place_near(const struct gpu_device *d, size_t bytes)
{
	char path[64];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", d->id);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%d", &node) == 1 && node >= 0 && numa_available() >= 0)
		numa_tonode_memory(d->bytes, bytes, node);
	fclose(f);
}

static CUresult make_blocks(struct gpu *g, struct gpu_device *d, const char **call)
{
	size_t bytes = (size_t)GPU_BLOCKS * GPU_BLOCK_BYTES;
	CUresult e;

	*call = "mmap";
	d->bytes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d->bytes == MAP_FAILED) {
		d->bytes = NULL;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	madvise(d->bytes, bytes, MADV_DONTDUMP); /* they are programs' bytes */
	place_near(d, bytes);
	*call = "cuMemHostRegister";
	e = g->cuda.mem_host_register(d->bytes, bytes, CU_MEMHOSTREGISTER_PORTABLE);
	d->has_pinned = e == CUDA_SUCCESS;
	*call = "cuEventCreate";
	for (uint32_t i = 0; i < GPU_BLOCKS && e == CUDA_SUCCESS; i++) {
		struct gpu_block *b = &d->block[i];

		b->device = d;
		b->bytes = d->bytes + (size_t)i * GPU_BLOCK_BYTES;
		b->next = d->free;
		d->free = b;
		e = g->cuda.event_create(&b->event, CU_EVENT_DISABLE_TIMING);
	}
	if (!d->has_pinned)
		*call = "cuMemHostRegister";
	return e;
}

/* Destroys what is in the context, as far as it allows, and gives the context back: with its last user the driver frees
 * the rest. */
static CUresult context_release(struct gpu *g, struct gpu_device *d)
{
	CUresult e;

	if (use_device(g, d) == CUDA_SUCCESS) {
		for (uint32_t i = 0; i < GPU_BLOCKS; i++)
			if (d->block[i].event)
				g->cuda.event_destroy(d->block[i].event);
		if (d->has_pinned)
			g->cuda.mem_host_unregister(d->bytes);
	}
	use_context(g, NULL);
	g->current = NULL;
	e = g->cuda.primary_ctx_release(d->device);
	d->has_context = d->has_pinned = false;
	return e;
}

static void device_free(struct gpu *g, struct gpu_device *d)
{
	struct gpu_device **at = &g->devices;

	while (*at && *at != d)
		at = &(*at)->next;
	if (*at)
		*at = d->next;
	if (d->has_context)
		context_release(g, d);
	if (d->bytes)
		munmap(d->bytes, (size_t)GPU_BLOCKS * GPU_BLOCK_BYTES);
	free(d);
}

static CUresult device_init(struct gpu *g, struct gpu_device *d, const char **call)
{
	CUresult e;

	*call = "cuDevicePrimaryCtxRetain";
	e = g->cuda.primary_ctx_retain(&d->context, d->device);
	if (e != CUDA_SUCCESS)
		return e;
	d->has_context = true;
	*call = "cuCtxSetCurrent";
	e = use_device(g, d);
	return e == CUDA_SUCCESS ? make_blocks(g, d, call) : e;
}

/* name: as a program writes it. id: as /sys has it, in lower case. */
static CUresult find_device(struct gpu *g, const char *name, CUdevice *device, char id[GPU_ID_MAX], const char **call)
{
	CUresult e;

	*call = "cuDeviceGetByPCIBusId";
	e = g->cuda.device_get_by_pci_bus_id(device, name);
	if (e != CUDA_SUCCESS)
		return e == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_INVALID_DEVICE : e;
	*call = "cuDeviceGetPCIBusId";
	e = g->cuda.device_get_pci_bus_id(id, GPU_ID_MAX, *device);
	for (char *c = id; e == CUDA_SUCCESS && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return e;
}

/* Finds or makes the device. A broken device serves no new memory: it stays until its last memory is closed. */
static struct gpu_device *device_of(struct gpu *g, const char *name, CUresult *e, const char **call)
{
	char id[GPU_ID_MAX] = "";
	struct gpu_device *d;
	CUdevice device;
	uint32_t n = 0;

	*e = find_device(g, name, &device, id, call);
	if (*e != CUDA_SUCCESS)
		return NULL;
	for (d = g->devices; d; d = d->next, n++)
		if (d->device == device && d->end == GPU_OK)
			return d;
	*e = CUDA_ERROR_OUT_OF_MEMORY;
	*call = "malloc";
	d = n < GPU_DEVICES ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	memcpy(d->id, id, sizeof(d->id));
	d->device = device;
	*e = device_init(g, d, call);
	if (*e != CUDA_SUCCESS) {
		device_free(g, d);
		return NULL;
	}
	d->next = g->devices;
	g->devices = d;
	return d;
}

/* --- memory --- */

/* Maps the allocation into this process; the mapping keeps the allocation, so the handle is released. */
static CUresult map_descriptor(struct gpu *g, struct gpu_memory *m, const char **call)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m->device->device},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUresult e;

	*call = "cuMemImportFromShareableHandle";
	e = g->cuda.mem_import_from_shareable_handle(&handle, (void *)(intptr_t)m->fd,
	                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (e != CUDA_SUCCESS)
		return e;
	*call = "cuMemAddressReserve";
	e = g->cuda.mem_address_reserve(&m->base, m->allocation, 0, 0, 0);
	m->is_reserved = e == CUDA_SUCCESS;
	if (e == CUDA_SUCCESS) {
		*call = "cuMemMap";
		e = g->cuda.mem_map(m->base, m->allocation, 0, handle, 0);
		m->is_open = e == CUDA_SUCCESS;
	}
	if (e == CUDA_SUCCESS) {
		*call = "cuMemSetAccess";
		e = g->cuda.mem_set_access(m->base, m->allocation, &access, 1);
	}
	g->cuda.mem_release(handle);
	return e;
}

static CUresult unmap_descriptor(struct gpu *g, struct gpu_memory *m, const char **call)
{
	CUresult e = CUDA_SUCCESS;

	if (m->is_open) {
		*call = "cuMemUnmap";
		e = g->cuda.mem_unmap(m->base, m->allocation);
		m->is_open = e != CUDA_SUCCESS;
	}
	if (e == CUDA_SUCCESS) {
		*call = "cuMemAddressFree";
		e = g->cuda.mem_address_free(m->base, m->allocation);
		m->is_reserved = e != CUDA_SUCCESS;
	}
	return e;
}

static CUresult close_handle(struct gpu *g, struct gpu_memory *m, const char **call)
{
	CUresult e = CUDA_SUCCESS;

	if (m->is_reserved)
		return unmap_descriptor(g, m, call);
	if (m->is_open) {
		*call = "cuIpcCloseMemHandle";
		e = g->cuda.ipc_close_mem_handle(m->base);
		m->is_open = e != CUDA_SUCCESS;
	}
	return e;
}

/* bytes: of the allocation, from m->base on. */
static CUresult open_ipc(struct gpu *g, struct gpu_memory *m, size_t *bytes, const char **call)
{
	CUdeviceptr base;
	CUresult e;

	*call = "cuIpcOpenMemHandle";
	e = g->cuda.ipc_open_mem_handle(&m->base, m->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (e != CUDA_SUCCESS)
		return e;
	m->is_open = true;
	*call = "cuMemGetAddressRange";
	e = g->cuda.mem_get_address_range(&base, bytes, m->base);
	if (e == CUDA_SUCCESS)
		*bytes -= m->base - base; /* a driver takes small allocations out of larger ones */
	return e;
}

static CUresult open_handle(struct gpu *g, struct gpu_memory *m, const char **call)
{
	size_t bytes = m->allocation;
	CUresult e = m->fd >= 0 ? map_descriptor(g, m, call) : open_ipc(g, m, &bytes, call);

	if (e != CUDA_SUCCESS)
		return e;
	*call = "size"; /* the part exceeds the allocation */
	if (m->offset > bytes || m->size > bytes - m->offset)
		return CUDA_ERROR_INVALID_VALUE;
	*call = "cuStreamCreate";
	for (unsigned i = 0; i < 2 && e == CUDA_SUCCESS; i++)
		e = g->cuda.stream_create(&m->stream[i], CU_STREAM_NON_BLOCKING);
	return e;
}

/* Streams, and the handle. */
static CUresult memory_close(struct gpu *g, struct gpu_memory *m, const char **call)
{
	CUresult e;

	*call = "cuCtxSetCurrent";
	e = use_device(g, m->device);
	if (e != CUDA_SUCCESS)
		return e;
	for (unsigned i = 0; i < 2; i++)
		if (m->stream[i])
			g->cuda.stream_destroy(m->stream[i]);
	m->stream[0] = m->stream[1] = NULL;
	return close_handle(g, m, call);
}

/* Releases a broken context with all that it holds. No block of it is under way. Where two links have memory of one
 * GPU, the driver frees what is in the context when both have released it. */
static void context_end(struct gpu *g, struct gpu_device *d)
{
	const char *call;
	CUresult e;

	for (struct gpu_memory *m = g->memories; m; m = m->next)
		if (m->device == d)
			memory_close(g, m, &call);
	e = context_release(g, d);
	for (struct gpu_memory *m = g->memories; m; m = m->next) {
		if (m->device != d)
			continue;
		if (m->is_reserved)
			unmap_descriptor(g, m, &call); /* the mapping is the process's, not the context's */
		else if (e == CUDA_SUCCESS)
			m->is_open = false;
	}
}

static unsigned ask_blocks(struct gpu *g);

/* Broken contexts end, with their blocks. */
static void end_broken(struct gpu *g)
{
	struct gpu_device *d = g->devices;

	while (d) {
		if (d->end == GPU_OK || !d->has_context) {
			d = d->next;
		} else if (d->nunder_way > 0) {
			ask_blocks(g); /* its blocks are done; another context may break */
			d = g->devices;
		} else {
			context_end(g, d);
		}
	}
}

/* Closes the memory. An error that breaks its context ends that. */
static void memory_end(struct gpu *g, struct gpu_memory *m)
{
	char why[GPU_WHY_MAX];
	const char *call = "";
	CUresult e;

	end_broken(g);
	e = m->device->has_context ? memory_close(g, m, &call) : close_handle(g, m, &call);
	if (breaks_context(e)) {
		if (m->end == GPU_OK)
			m->end = end_of(e); /* its user closes it, and hears nothing of it any more */
		failed(g, m, call, e);
		end_broken(g);
	}
	if (!m->is_open && !m->is_reserved)
		return;
	describe(g, why, call, e);
	log_err("GPU %s: memory that a program exported stays in use: %s", m->device->id, why);
}

/* Frees all parts of the memory that exist. */
static void memory_free(struct gpu *g, struct gpu_memory *m)
{
	struct gpu_device *d = m->device;
	struct gpu_memory **at = &g->memories;

	if (d)
		memory_end(g, m);
	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	m->device = NULL;
	if (d && --d->nmemories == 0)
		device_free(g, d);
}

static int load(struct gpu *g, struct gpu_memory *m)
{
	int rc = g->loaded ? 0 : cuda_api_load(&g->cuda, m->why, sizeof(m->why));

	g->loaded |= rc == 0;
	return rc;
}

static int memory_open(struct gpu *g, struct gpu_memory *m)
{
	CUresult e = CUDA_SUCCESS;
	const char *call = "";
	bool in_context = false;
	int rc = load(g, m);

	if (rc < 0)
		return rc;
	m->device = device_of(g, m->id, &e, &call);
	if (m->device) {
		m->device->nmemories++;
		m->next = g->memories;
		g->memories = m;
		call = "cuCtxSetCurrent";
		e = use_device(g, m->device);
		in_context = e == CUDA_SUCCESS;
		if (in_context)
			e = open_handle(g, m, &call);
	}
	if (e == CUDA_SUCCESS)
		return 0;
	if (m->device && breaks_context(e) && !(in_context && is_of_handle(e)))
		failed(g, m, call, e); /* breaks all other memory of this GPU, too */
	describe(g, m->why, call, e);
	memory_free(g, m);
	return errno_of(e);
}

/* --- copies --- */

static void append(struct gpu *g, struct gpu_block *b)
{
	b->next = NULL;
	b->device->nunder_way++;
	*g->last = b;
	g->last = &b->next;
}

static void copied(struct gpu *g, struct gpu_block *b)
{
	note(g, &(struct gpu_note){.type = GPU_COPIED, .block = b, .end = b->end});
}

/* Begins a block's copies. If one cannot be begun, the block fails after the copies already begun have ended. */
static CUresult begin_runs(struct gpu *g, const struct gpu_block *b, uint32_t *begun, const char **call)
{
	const struct gpu_memory *m = b->memory;
	CUdeviceptr base = m->base + m->offset;
	CUresult e;

	*call = "cuCtxSetCurrent";
	e = use_device(g, b->device);
	for (*begun = 0; e == CUDA_SUCCESS && *begun < b->nruns; *begun += e == CUDA_SUCCESS) {
		const struct gpu_run *r = &b->run[*begun];

		*call = b->to_device ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync";
		e = b->to_device ? g->cuda.memcpy_htod_async(base + r->offset, b->bytes + r->at, r->len, m->stream[1])
		                 : g->cuda.memcpy_dtoh_async(b->bytes + r->at, base + r->offset, r->len, m->stream[0]);
	}
	return e;
}

static void block_begin(struct gpu *g, struct gpu_block *b)
{
	struct gpu_memory *m = b->memory;
	uint32_t begun = 0;
	const char *call;
	CUresult e;

	b->end = m->end;
	b->by_stream = false;
	if (m->end != GPU_OK) {
		copied(g, b);
		return;
	}
	e = begin_runs(g, b, &begun, &call);
	if (e != CUDA_SUCCESS) {
		failed(g, m, call, e);
	} else {
		e = g->cuda.event_record(b->event, m->stream[b->to_device]);
		if (e != CUDA_SUCCESS)
			failed(g, m, "cuEventRecord", e);
	}
	b->end = m->end;
	b->by_stream = e != CUDA_SUCCESS;
	if (e == CUDA_SUCCESS || (begun > 0 && b->device->end == GPU_OK))
		append(g, b);
	else
		copied(g, b);
}

/* CUDA_ERROR_NOT_READY, or the block's final result. */
static CUresult ask_block(struct gpu *g, struct gpu_block *b)
{
	const char *call = "cuCtxSetCurrent";
	bool again = b->by_stream;
	CUresult e;

	if (b->device->end != GPU_OK)
		return CUDA_SUCCESS;
	e = use_device(g, b->device);
	if (e == CUDA_SUCCESS) {
		call = b->by_stream ? "cuStreamQuery" : "cuEventQuery";
		e = b->by_stream ? g->cuda.stream_query(b->memory->stream[b->to_device])
		                 : g->cuda.event_query(b->event);
	}
	if (e == CUDA_SUCCESS || e == CUDA_ERROR_NOT_READY)
		return e;
	failed(g, b->memory, call, e);
	b->by_stream = true;
	return again ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static unsigned ask_blocks(struct gpu *g)
{
	struct gpu_block **at = &g->first, *b;
	unsigned n = 0;

	while ((b = *at)) {
		if (ask_block(g, b) == CUDA_ERROR_NOT_READY) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		b->device->nunder_way--;
		if (b->memory->end != GPU_OK)
			b->end = b->memory->end;
		copied(g, b);
		n++;
	}
	g->last = at;
	return n;
}

/* --- the thread --- */

static unsigned run_commands(struct gpu *g)
{
	struct command c;
	unsigned n = 0;

	while (spsc_take(&g->commands, &c)) {
		n++;
		if (c.type == COMMAND_COPY) {
			block_begin(g, c.block);
		} else if (c.type == COMMAND_OPEN) {
			note(g, &(struct gpu_note){
			            .type = GPU_OPENED, .memory = c.memory, .rc = memory_open(g, c.memory)});
		} else {
			memory_free(g, c.memory);
			note(g, &(struct gpu_note){.type = GPU_CLOSED, .memory = c.memory});
		}
	}
	return n;
}

static void wait_for_work(struct gpu *g, long *poll_ns)
{
	struct pollfd p = {.fd = g->command_fd, .events = POLLIN};
	struct timespec ts = {.tv_sec = g->first ? 0 : 1, .tv_nsec = g->first ? *poll_ns : 0};
	uint64_t count;

	if (ppoll(&p, 1, &ts, NULL) > 0 && read(g->command_fd, &count, sizeof(count)) < 0)
		return;
	*poll_ns = *poll_ns + *poll_ns / 4 < POLL_NS_MAX ? *poll_ns + *poll_ns / 4 : POLL_NS_MAX;
}

static void tell_of_copies(const struct gpu *g)
{
	for (const struct gpu_device *d = g->devices; d; d = d->next)
		if (d->nunder_way > 0)
			log_err("GPU %s: %u copies are not done after %u ms: their memory stays in use until the "
			        "daemon ends",
			        d->id, d->nunder_way, stop_ms);
}

/* Frees everything but GPUs that have not finished a block: its pages may still be written. */
static void clean_up(struct gpu *g)
{
	uint64_t until_ns = clock_now_ns() + stop_ms * 1000000ull;
	struct gpu_memory *m, *next;
	long poll_ns = POLL_NS_MAX;

	run_commands(g);
	while (g->first && clock_now_ns() < until_ns) {
		ask_blocks(g);
		wait_for_work(g, &poll_ns);
	}
	tell_of_copies(g);
	for (m = g->memories; m; m = next) {
		next = m->next;
		if (m->device->nunder_way == 0)
			memory_free(g, m);
	}
}

static void *gpu_main(void *arg)
{
	struct gpu *g = arg;
	long poll_ns = POLL_NS;

	pthread_setname_np(pthread_self(), "lr:gpu");
	while (!atomic_load_explicit(&g->stop, memory_order_acquire)) {
		unsigned n = run_commands(g) + ask_blocks(g);

		end_broken(g);
		if (g->tell)
			write_event(g->notify_fd);
		g->tell = false;
		if (n > 0)
			poll_ns = POLL_NS;
		else
			wait_for_work(g, &poll_ns);
	}
	clean_up(g);
	return NULL;
}

static void gpu_free(struct gpu *g)
{
	spsc_free(&g->commands);
	spsc_free(&g->notes);
	if (g->command_fd >= 0)
		close(g->command_fd);
	if (g->notify_fd >= 0)
		close(g->notify_fd);
	free(g);
}

int gpu_start(struct gpu **out, int notify_fd)
{
	struct gpu *g = calloc(1, sizeof(*g));
	int rc = -ENOMEM;

	if (!g)
		return rc;
	g->notify_fd = fcntl(notify_fd, F_DUPFD_CLOEXEC, 0); /* a descriptor of the thread's own: a thread that hangs
	                                                      * outlives its user */
	g->last = &g->first;
	g->command_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (g->command_fd >= 0 && g->notify_fd >= 0 && spsc_init(&g->commands, RING, sizeof(struct command)) &&
	    spsc_init(&g->notes, RING, sizeof(struct gpu_note)))
		rc = thread_start(&g->thread, gpu_main, g);
	if (rc < 0) {
		gpu_free(g);
		return rc;
	}
	*out = g;
	return 0;
}

/* libcuda.so.1's own handlers would wait for locks of the call that hangs; they were registered before, and so come
 * after. */
static void end_at_once(int status, void *arg)
{
	(void)arg;
	fflush(NULL);
	_exit(status);
}

bool gpu_stop(struct gpu *g)
{
	struct timespec until;
	uint64_t ns;

	atomic_store_explicit(&g->stop, true, memory_order_release);
	gpu_wake(g);
	clock_gettime(CLOCK_REALTIME, &until);
	ns = (uint64_t)until.tv_nsec + 2 * stop_ms * 1000000ull;
	until.tv_sec += (time_t)(ns / 1000000000);
	until.tv_nsec = (long)(ns % 1000000000);
	if (pthread_timedjoin_np(g->thread, NULL, &until) != 0) {
		on_exit(end_at_once, NULL);
		return false;
	}
	gpu_free(g);
	return true;
}
