/* SPDX-License-Identifier: Apache-2.0 */
/* fakecuda.c - a libcuda.so.1 for machines without a GPU: the functions that longreach uses, with what makes them hard.
 *
 * Device memory is files in $FAKECUDA_DIR (default /dev/shm/fakecuda), so that another process can open it by its handle.
 * Its addresses are no addresses of the program: who reads through one crashes.
 *
 * Copies are asynchronous in earnest. Each stream is a thread. A copy takes the time that fault.h says and moves its bytes
 * at the end of it: what reads the destination early finds 0xa5, and what reuses the source early sends the wrong bytes.
 * Host memory of a copy must be registered.
 *
 * An error that breaks a context stays: every later call with it returns the same. After an illegal address or a failed
 * kernel the process gets nothing else until it ends, as CUDA's manual says; after a destroyed context, a new one is sound.
 *
 * What a driver would leave undefined - memory that is freed, closed or unregistered with a copy under way - is written
 * into the file "misuse" in the directory: tests look for it.
 *
 *     FAKECUDA_DIR       where device memory is
 *     FAKECUDA_DEVICES   how many there are: 1
 *     FAKECUDA_MEMORY    bytes of a device: 8 GiB
 *     FAKECUDA_FAIL, FAKECUDA_CTL: fault.h */
#define _GNU_SOURCE
#define CUDA_OWN_TYPES
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/gpu/cuda_api.h"
#include "fault.h"

#define DEVICES_MAX  8
#define FIRST_VA     0x0200000000000000ull /* no program has memory there */
#define GARBAGE      0xa5
#define STREAM_STACK (128u << 10)

struct allocation {
	struct allocation *next;
	CUdeviceptr va;
	size_t bytes;
	uint8_t *host; /* where this process has it mapped */
	CUdevice device;
	char name[40];
	bool opened;   /* of another process */
	bool is_mapping, has_access; /* cuMemMap(), cuMemSetAccess() */
	unsigned refs; /* opened so often */
	unsigned busy; /* copies under way */
	bool gone;     /* freed, with a copy under way */
};

struct host_range {
	struct host_range *next;
	uint8_t *start;
	size_t bytes;
	unsigned busy;
	bool gone;
	struct CUctx_st *context;
};

struct CUctx_st {
	CUdevice device;
	unsigned refs;
	unsigned life; /* of as many before it */
	CUresult error; /* it stays */
};

struct CUevent_st {
	struct CUevent_st *next;
	unsigned pending;
	bool destroyed;
	struct CUctx_st *context;
};

struct task {
	struct task *next;
	CUevent event; /* or a copy */
	uint8_t *to;
	const uint8_t *from;
	size_t bytes;
	struct allocation *allocation;
	struct host_range *range;
	unsigned life; /* of the context, then */
};

struct CUstream_st {
	struct CUstream_st *next;
	struct CUctx_st *context;
	pthread_t thread;
	pthread_cond_t more;
	struct task *first, **last;
	unsigned pending;
	bool destroyed;
};

/* What another process is told, in a CUipcMemHandle. */
struct ipc {
	uint32_t magic;
	int32_t device;
	uint64_t bytes;
	char name[40];
};
_Static_assert(sizeof(struct ipc) <= CU_IPC_HANDLE_SIZE, "it fits the handle");
#define IPC_MAGIC 0xfa6ecdaau

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_up;
static CUresult process_error;
static struct CUctx_st primary[DEVICES_MAX];
static struct allocation *allocations;
static struct host_range *ranges;
static struct CUstream_st *streams;
static struct CUevent_st *events;
static CUdeviceptr next_va = FIRST_VA;
static unsigned next_name;
static size_t used_bytes[DEVICES_MAX];
static __thread CUcontext current;

static const char *directory(void)
{
	const char *dir = getenv("FAKECUDA_DIR");

	return dir ? dir : "/dev/shm/fakecuda";
}

static int ndevices(void)
{
	const char *n = getenv("FAKECUDA_DEVICES");
	int devices = n ? atoi(n) : 1;

	return devices < 0 || devices > DEVICES_MAX ? 1 : devices;
}

static size_t device_bytes(void)
{
	const char *n = getenv("FAKECUDA_MEMORY");

	return n ? strtoull(n, NULL, 0) : 8ull << 30;
}

static void misuse(const char *what)
{
	char path[256];
	int fd;

	fprintf(stderr, "fakecuda: %s\n", what);
	snprintf(path, sizeof(path), "%s/misuse", directory());
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	dprintf(fd, "%d: %s\n", getpid(), what);
	close(fd);
}

/* --- errors --- */

static bool breaks_process(CUresult e)
{
	return e == CUDA_ERROR_ILLEGAL_ADDRESS || e == CUDA_ERROR_LAUNCH_TIMEOUT || e == CUDA_ERROR_ASSERT ||
	       (e >= CUDA_ERROR_HARDWARE_STACK_ERROR && e <= CUDA_ERROR_LAUNCH_FAILED) || (int)e == 226 || (int)e == 721 ||
	       (int)e == 810 || (int)e == 911; /* CONTAINED, TENSOR_MEMORY_LEAK, MPS_CLIENT_TERMINATED, EXTERNAL_DEVICE */
}

static bool breaks_context(CUresult e)
{
	return breaks_process(e) || e == CUDA_ERROR_CONTEXT_IS_DESTROYED || e == CUDA_ERROR_ECC_UNCORRECTABLE ||
	       e == CUDA_ERROR_NVLINK_UNCORRECTABLE;
}

static void note_error(struct CUctx_st *context, CUresult e)
{
	if (breaks_process(e))
		process_error = e;
	if (context && breaks_context(e) && context->error == CUDA_SUCCESS)
		context->error = e;
}

/* What each call begins with: the fault that is due, or what has gone wrong before. */
static CUresult begin(const char *function, struct CUctx_st *context)
{
	CUresult e = (CUresult)fault_now(function);

	if (e != CUDA_SUCCESS)
		note_error(context, e);
	else if (process_error != CUDA_SUCCESS)
		e = process_error;
	else if (context)
		e = context->error;
	return e;
}

#define LOCKED(function, context) \
	CUresult rc; \
	pthread_mutex_lock(&lock); \
	rc = is_up ? begin(function, context) : CUDA_ERROR_NOT_INITIALIZED; \
	if (rc != CUDA_SUCCESS) { \
		pthread_mutex_unlock(&lock); \
		return rc; \
	}

/* The same of a call that needs a context. */
#define LOCKED_IN_CONTEXT(function) \
	LOCKED(function, current) \
	if (!current) { \
		pthread_mutex_unlock(&lock); \
		return CUDA_ERROR_INVALID_CONTEXT; \
	}

#define DONE(result) \
	do { \
		CUresult done = (result); \
		pthread_mutex_unlock(&lock); \
		return done; \
	} while (0)

/* --- the driver, devices, contexts --- */

CUresult cuInit(unsigned int flags)
{
	CUresult e;

	pthread_mutex_lock(&lock);
	e = flags ? CUDA_ERROR_INVALID_VALUE : begin("cuInit", NULL);
	if (e == CUDA_SUCCESS && ndevices() == 0)
		e = CUDA_ERROR_NO_DEVICE;
	if (e == CUDA_SUCCESS) {
		if (mkdir(directory(), 01777) == 0)
			chmod(directory(), 01777);
		next_va += (CUdeviceptr)getpid() << 32; /* another process has other addresses */
		is_up = true;
	}
	DONE(e);
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
	static const struct {
		CUresult error;
		const char *name;
	} names[] = {
#define NAME(e) {e, #e}
	    NAME(CUDA_SUCCESS), NAME(CUDA_ERROR_INVALID_VALUE), NAME(CUDA_ERROR_OUT_OF_MEMORY),
	    NAME(CUDA_ERROR_NOT_INITIALIZED), NAME(CUDA_ERROR_DEINITIALIZED), NAME(CUDA_ERROR_DEVICE_UNAVAILABLE),
	    NAME(CUDA_ERROR_NO_DEVICE), NAME(CUDA_ERROR_INVALID_DEVICE), NAME(CUDA_ERROR_INVALID_CONTEXT),
	    NAME(CUDA_ERROR_ECC_UNCORRECTABLE), NAME(CUDA_ERROR_OPERATING_SYSTEM), NAME(CUDA_ERROR_INVALID_HANDLE),
	    NAME(CUDA_ERROR_NOT_READY), NAME(CUDA_ERROR_ILLEGAL_ADDRESS), NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED),
	    NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
	    NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE), NAME(CUDA_ERROR_LAUNCH_TIMEOUT), NAME(CUDA_ERROR_ASSERT),
	    NAME(CUDA_ERROR_HARDWARE_STACK_ERROR), NAME(CUDA_ERROR_LAUNCH_FAILED), NAME(CUDA_ERROR_UNKNOWN),
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error) {
			*name = names[i].name;
			return CUDA_SUCCESS;
		}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	LOCKED("cuDeviceGet", NULL)
	*device = ordinal;
	DONE(ordinal >= 0 && ordinal < ndevices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice device)
{
	LOCKED("cuDeviceGetPCIBusId", NULL)
	snprintf(id, (size_t)len, "0000:%02X:00.0", 0xe0 + device); /* upper case, as a driver */
	DONE(CUDA_SUCCESS);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
	unsigned bus;
	LOCKED("cuDeviceGetByPCIBusId", NULL)
	if (sscanf(id, "0000:%x:00.0", &bus) != 1 || bus < 0xe0 || (int)bus >= 0xe0 + ndevices())
		DONE(CUDA_ERROR_INVALID_DEVICE);
	*device = (CUdevice)bus - 0xe0;
	DONE(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	LOCKED("cuDevicePrimaryCtxRetain", NULL)
	if (device < 0 || device >= ndevices())
		DONE(CUDA_ERROR_INVALID_DEVICE);
	primary[device].device = device;
	primary[device].refs++;
	*context = &primary[device];
	DONE(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	LOCKED("cuCtxSetCurrent", context)
	current = context;
	DONE(CUDA_SUCCESS);
}

/* --- device memory --- */

static struct allocation *find_allocation(CUdeviceptr va, size_t bytes)
{
	for (struct allocation *a = allocations; a; a = a->next)
		if ((!a->is_mapping || a->has_access) && va >= a->va && va - a->va <= a->bytes && bytes <= a->bytes - (va - a->va))
			return a;
	return NULL;
}

/* fd is closed. */
static struct allocation *add_allocation(int fd, size_t bytes, CUdevice device, const char *name)
{
	struct allocation *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (a->host == MAP_FAILED) {
		free(a);
		return NULL;
	}
	a->va = next_va;
	next_va += (bytes + (4u << 20)) & ~(CUdeviceptr)0x1fffff;
	a->bytes = bytes;
	a->device = device;
	snprintf(a->name, sizeof(a->name), "%s", name);
	a->next = allocations;
	allocations = a;
	return a;
}

static CUresult remove_allocation(struct allocation *a, const char *function)
{
	struct allocation **at = &allocations;

	if (a->busy > 0 && function) {
		char what[64];

		snprintf(what, sizeof(what), "%s with a copy under way", function);
		misuse(what);
	}
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	if (a->busy > 0) {
		a->gone = true;
		return CUDA_SUCCESS; /* the copy finds it gone */
	}
	munmap(a->host, a->bytes);
	free(a);
	return CUDA_SUCCESS;
}

static int open_memory(const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory(), name);
	fd = open(path, flags | O_CLOEXEC, 0666);
	if (fd >= 0 && (flags & O_CREAT))
		fchmod(fd, 0666);
	return fd;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes);
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
	struct allocation *a;
	char name[40];
	int fd;
	LOCKED_IN_CONTEXT("cuMemAlloc")
	if (bytes == 0)
		DONE(CUDA_ERROR_INVALID_VALUE);
	if (bytes > device_bytes() - used_bytes[current->device])
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	snprintf(name, sizeof(name), "%d-%u", getpid(), next_name++);
	fd = open_memory(name, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0) {
		if (fd >= 0)
			close(fd);
		DONE(CUDA_ERROR_OPERATING_SYSTEM);
	}
	a = add_allocation(fd, bytes, current->device, name);
	if (!a)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	used_bytes[a->device] += bytes;
	*memory = a->va;
	DONE(CUDA_SUCCESS);
}

CUresult cuMemFree_v2(CUdeviceptr memory);
CUresult cuMemFree_v2(CUdeviceptr memory)
{
	struct allocation *a;
	char path[256];
	LOCKED_IN_CONTEXT("cuMemFree")
	a = find_allocation(memory, 0);
	if (!a || a->va != memory || a->opened)
		DONE(CUDA_ERROR_INVALID_VALUE);
	snprintf(path, sizeof(path), "%s/%s", directory(), a->name);
	unlink(path);
	used_bytes[a->device] -= a->bytes;
	DONE(remove_allocation(a, "cuMemFree"));
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr memory);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr memory)
{
	struct allocation *a;
	LOCKED_IN_CONTEXT("cuMemGetAddressRange")
	a = find_allocation(memory, 1);
	if (!a)
		DONE(CUDA_ERROR_INVALID_VALUE);
	*base = a->va;
	*bytes = a->bytes;
	DONE(CUDA_SUCCESS);
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory)
{
	struct allocation *a;
	struct ipc ipc = {.magic = IPC_MAGIC};
	LOCKED_IN_CONTEXT("cuIpcGetMemHandle")
	a = find_allocation(memory, 1);
	if (!a || a->opened)
		DONE(CUDA_ERROR_INVALID_VALUE);
	ipc.device = a->device;
	ipc.bytes = a->bytes;
	memcpy(ipc.name, a->name, sizeof(ipc.name));
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ipc, sizeof(ipc));
	DONE(CUDA_SUCCESS);
}

static struct allocation *opened_before(const char *name)
{
	for (struct allocation *a = allocations; a; a = a->next)
		if (a->opened && strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUipcMemHandle handle, unsigned int flags);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUipcMemHandle handle, unsigned int flags)
{
	struct allocation *a;
	struct stat st;
	struct ipc ipc;
	int fd;
	LOCKED_IN_CONTEXT("cuIpcOpenMemHandle")
	memcpy(&ipc, &handle, sizeof(ipc));
	if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		DONE(CUDA_ERROR_INVALID_VALUE);
	if (ipc.magic != IPC_MAGIC || !memchr(ipc.name, 0, sizeof(ipc.name)) || strchr(ipc.name, '/'))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	if (atoi(ipc.name) == getpid())
		DONE(CUDA_ERROR_INVALID_CONTEXT); /* a process has no business with its own */
	a = opened_before(ipc.name);
	if (!a) {
		fd = open_memory(ipc.name, O_RDWR);
		if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != ipc.bytes) {
			if (fd >= 0)
				close(fd);
			DONE(CUDA_ERROR_INVALID_HANDLE);
		}
		a = add_allocation(fd, ipc.bytes, ipc.device, ipc.name);
		if (!a)
			DONE(CUDA_ERROR_OUT_OF_MEMORY);
		a->opened = true;
	}
	a->refs++;
	*memory = a->va;
	DONE(CUDA_SUCCESS);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
	struct allocation *a;
	LOCKED_IN_CONTEXT("cuIpcCloseMemHandle")
	a = find_allocation(memory, 0);
	if (!a || a->va != memory || !a->opened)
		DONE(CUDA_ERROR_INVALID_VALUE);
	DONE(--a->refs == 0 ? remove_allocation(a, "cuIpcCloseMemHandle") : CUDA_SUCCESS);
}

/* --- allocations that are mapped --- */

#define GRANULARITY (2u << 20)

struct created {
	struct created *next;
	CUmemGenericAllocationHandle handle;
	int fd;
	size_t bytes;
	CUdevice device;
};

struct reserved {
	struct reserved *next;
	CUdeviceptr va;
	size_t bytes;
};

static struct created *created;
static struct reserved *reserved;
static CUmemGenericAllocationHandle next_handle = 0x7001;

static struct created *add_created(int fd, size_t bytes, CUdevice device)
{
	struct created *c = fd >= 0 ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	*c = (struct created){created, next_handle++, fd, bytes, device};
	created = c;
	return c;
}

static struct created **find_created(CUmemGenericAllocationHandle handle)
{
	struct created **at = &created;

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	return at;
}

static bool is_plain(const CUmemAllocationProp *prop)
{
	return prop->type == CU_MEM_ALLOCATION_TYPE_PINNED && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       prop->location.id >= 0 && prop->location.id < ndevices();
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
	LOCKED("cuMemGetAllocationGranularity", NULL)
	*bytes = GRANULARITY;
	DONE(is_plain(prop) && option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
	struct created *c;
	int fd;
	LOCKED("cuMemCreate", NULL)
	if (flags || bytes == 0 || bytes % GRANULARITY || !is_plain(prop) ||
	    prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		DONE(CUDA_ERROR_INVALID_VALUE);
	fd = memfd_create("fakecuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	c = add_created(fd, bytes, prop->location.id);
	if (!c)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	*handle = c->handle;
	DONE(CUDA_SUCCESS);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct created **at, *c;
	LOCKED("cuMemRelease", NULL)
	at = find_created(handle);
	c = *at;
	if (!c)
		DONE(CUDA_ERROR_INVALID_VALUE);
	*at = c->next;
	close(c->fd);
	free(c);
	DONE(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
	struct created *c;
	int fd;
	LOCKED("cuMemExportToShareableHandle", NULL)
	c = *find_created(handle);
	if (!c || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		DONE(CUDA_ERROR_INVALID_VALUE);
	fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	memcpy(shareable, &fd, sizeof(fd));
	DONE(fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)
{
	int fd = (int)(intptr_t)shareable;
	struct created *c;
	struct stat st;
	LOCKED("cuMemImportFromShareableHandle", NULL)
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &st) < 0 || !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
		DONE(CUDA_ERROR_INVALID_VALUE);
	c = add_created(fcntl(fd, F_DUPFD_CLOEXEC, 0), (size_t)st.st_size, 0);
	if (!c)
		DONE(CUDA_ERROR_OPERATING_SYSTEM);
	*handle = c->handle;
	DONE(CUDA_SUCCESS);
}

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags)
{
	struct reserved *v;
	LOCKED("cuMemAddressReserve", NULL)
	if (bytes == 0 || bytes % GRANULARITY || alignment || wish || flags)
		DONE(CUDA_ERROR_INVALID_VALUE);
	v = calloc(1, sizeof(*v));
	if (!v)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	*v = (struct reserved){reserved, next_va, bytes};
	next_va += bytes + GRANULARITY;
	reserved = v;
	*at = v->va;
	DONE(CUDA_SUCCESS);
}

static struct allocation *mapped_at(CUdeviceptr at)
{
	struct allocation *a = allocations;

	while (a && (a->va != at || !a->is_mapping))
		a = a->next;
	return a;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
	struct reserved **v = &reserved, *gone;
	LOCKED("cuMemAddressFree", NULL)
	while (*v && ((*v)->va != at || (*v)->bytes != bytes))
		v = &(*v)->next;
	gone = *v;
	if (!gone)
		DONE(CUDA_ERROR_INVALID_VALUE);
	if (mapped_at(at))
		misuse("cuMemAddressFree of addresses that are mapped");
	*v = gone->next;
	free(gone);
	DONE(CUDA_SUCCESS);
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	const struct reserved *v = reserved;
	CUdeviceptr next = next_va;
	struct allocation *a;
	struct created *c;
	LOCKED("cuMemMap", NULL)
	while (v && v->va != at)
		v = v->next;
	c = *find_created(handle);
	if (!v || !c || offset || flags || bytes % GRANULARITY || bytes > v->bytes || bytes > c->bytes || mapped_at(at))
		DONE(CUDA_ERROR_INVALID_VALUE);
	a = add_allocation(fcntl(c->fd, F_DUPFD_CLOEXEC, 0), bytes, c->device, "");
	if (!a)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	next_va = next;
	a->va = at;
	a->is_mapping = true;
	DONE(CUDA_SUCCESS);
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes)
{
	struct allocation *a;
	LOCKED("cuMemUnmap", NULL)
	a = mapped_at(at);
	DONE(a && a->bytes == bytes ? remove_allocation(a, "cuMemUnmap") : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
	struct allocation *a;
	LOCKED("cuMemSetAccess", NULL)
	a = mapped_at(at);
	if (!a || a->bytes != bytes || n != 1 || access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		DONE(CUDA_ERROR_INVALID_VALUE);
	a->has_access = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	DONE(CUDA_SUCCESS);
}

/* --- host memory --- */

static struct host_range *find_range(const void *host, size_t bytes)
{
	const uint8_t *p = host;

	for (struct host_range *r = ranges; r; r = r->next)
		if (p >= r->start && p < r->start + r->bytes && bytes <= (size_t)(r->start + r->bytes - p))
			return r;
	return NULL;
}

CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags);
CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags)
{
	struct host_range *r;
	LOCKED_IN_CONTEXT("cuMemHostRegister")
	if (!host || bytes == 0 || flags & ~(unsigned)CU_MEMHOSTREGISTER_PORTABLE)
		DONE(CUDA_ERROR_INVALID_VALUE);
	if (find_range(host, 1))
		DONE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	r = calloc(1, sizeof(*r));
	if (!r)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	*r = (struct host_range){.next = ranges, .start = host, .bytes = bytes, .context = current};
	ranges = r;
	DONE(CUDA_SUCCESS);
}

static void remove_range(struct host_range *r)
{
	struct host_range **at = &ranges;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	if (r->busy > 0)
		r->gone = true;
	else
		free(r);
}

CUresult cuMemHostUnregister(void *host)
{
	struct host_range *r;
	LOCKED_IN_CONTEXT("cuMemHostUnregister")
	r = find_range(host, 1);
	if (!r || r->start != host)
		DONE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	if (r->busy > 0)
		misuse("cuMemHostUnregister with a copy under way");
	remove_range(r);
	DONE(CUDA_SUCCESS);
}

/* --- the end of a context --- */

static void end_stream(CUstream s)
{
	CUstream *at = &streams;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->destroyed = true;
	pthread_cond_signal(&s->more);
}

static void end_event(CUevent event)
{
	CUevent *at = &events;

	while (*at != event)
		at = &(*at)->next;
	*at = event->next;
	if (event->pending > 0)
		event->destroyed = true;
	else
		free(event);
}

static void end_context(struct CUctx_st *context)
{
	struct host_range *r, *next_range;
	struct allocation *a, *next;
	CUstream s, next_stream;
	CUevent event, next_event;

	for (event = events; event; event = next_event) {
		next_event = event->next;
		if (event->context == context)
			end_event(event);
	}

	for (s = streams; s; s = next_stream) {
		next_stream = s->next;
		if (s->context == context)
			end_stream(s);
	}
	for (r = ranges; r; r = next_range) {
		next_range = r->next;
		if (r->context == context)
			remove_range(r);
	}
	for (a = allocations; a; a = next) {
		next = a->next;
		if (a->device == context->device && a->opened)
			remove_allocation(a, NULL);
	}
	context->life++;
	context->error = CUDA_SUCCESS;
}

/* The last one that lets go of it ends it with all that is of it: after a broken one there is room for a sound one. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult e;

	pthread_mutex_lock(&lock);
	e = (CUresult)fault_now("cuDevicePrimaryCtxRelease"); /* what has broken the process does not hinder this */
	if (e == CUDA_SUCCESS && (device < 0 || device >= ndevices() || primary[device].refs == 0))
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (e == CUDA_SUCCESS && --primary[device].refs == 0)
		end_context(&primary[device]);
	DONE(e);
}

/* --- copies --- */

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	struct allocation *a;
	LOCKED_IN_CONTEXT("cuMemcpyHtoD")
	a = find_allocation(to, bytes);
	if (!a)
		DONE(CUDA_ERROR_INVALID_VALUE);
	memcpy(a->host + (to - a->va), from, bytes);
	DONE(CUDA_SUCCESS);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	struct allocation *a;
	LOCKED_IN_CONTEXT("cuMemcpyDtoH")
	a = find_allocation(from, bytes);
	if (!a)
		DONE(CUDA_ERROR_INVALID_VALUE);
	memcpy(to, a->host + (from - a->va), bytes);
	DONE(CUDA_SUCCESS);
}

static CUresult append(CUstream stream, const struct task *task)
{
	struct task *t = malloc(sizeof(*t));

	if (!t)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*t = *task;
	t->next = NULL;
	*stream->last = t;
	stream->last = &t->next;
	stream->pending++;
	pthread_cond_signal(&stream->more);
	return CUDA_SUCCESS;
}

static CUresult append_copy(CUstream stream, CUdeviceptr va, uint8_t *host, size_t bytes, bool to_device)
{
	struct allocation *a = find_allocation(va, bytes);
	struct host_range *r = find_range(host, bytes);
	struct task t = {.bytes = bytes, .allocation = a, .range = r, .life = stream ? stream->context->life : 0};
	CUresult e;

	if (!stream || !a || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!r)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED; /* a driver would wait for the copy */
	t.to = to_device ? a->host + (va - a->va) : host;
	t.from = to_device ? host : a->host + (va - a->va);
	e = append(stream, &t);
	if (e != CUDA_SUCCESS)
		return e;
	a->busy++;
	r->busy++;
	if (!to_device)
		memset(host, GARBAGE, bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	LOCKED_IN_CONTEXT("cuMemcpyHtoDAsync")
	DONE(append_copy(stream, to, (uint8_t *)(uintptr_t)from, bytes, true));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	LOCKED_IN_CONTEXT("cuMemcpyDtoHAsync")
	DONE(append_copy(stream, from, to, bytes, false));
}

/* --- streams and events --- */

static void take_time(uint32_t copy_us, unsigned *seed)
{
	uint64_t us = copy_us / 2 + (uint64_t)rand_r(seed) % (copy_us + 1);
	struct timespec ts = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000)};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static void let_go(const struct task *t)
{
	if (--t->allocation->busy == 0 && t->allocation->gone) {
		munmap(t->allocation->host, t->allocation->bytes);
		free(t->allocation);
	}
	if (--t->range->busy == 0 && t->range->gone)
		free(t->range);
}

/* Under the lock, but while it takes its time. What a broken context was to copy, or one that has ended, is never copied. */
static void run_copy(CUstream stream, const struct task *t, unsigned *seed)
{
	CUresult e = CUDA_ERROR_CONTEXT_IS_DESTROYED;

	pthread_mutex_unlock(&lock);
	if (fault_copy_us() > 0)
		take_time(fault_copy_us(), seed);
	pthread_mutex_lock(&lock);
	if (t->life == stream->context->life) {
		e = begin("copy", stream->context);
		note_error(stream->context, e);
	}
	if (e == CUDA_SUCCESS && !t->allocation->gone && !t->range->gone)
		memcpy(t->to, t->from, t->bytes);
	let_go(t);
}

static void run_task(CUstream stream, struct task *t, unsigned *seed)
{
	if (!t->event) {
		run_copy(stream, t, seed);
	} else if (--t->event->pending == 0 && t->event->destroyed) {
		free(t->event);
	}
	stream->pending--;
	free(t);
}

static void *stream_main(void *arg)
{
	CUstream s = arg;
	unsigned seed = (unsigned)(uintptr_t)s;
	struct task *t;

	pthread_mutex_lock(&lock);
	while (s->first || !s->destroyed) {
		t = s->first;
		if (!t) {
			pthread_cond_wait(&s->more, &lock);
			continue;
		}
		s->first = t->next;
		if (!s->first)
			s->last = &s->first;
		run_task(s, t, &seed);
	}
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&s->more);
	free(s);
	return NULL;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	pthread_attr_t attr;
	CUstream s;
	int failed;
	LOCKED_IN_CONTEXT("cuStreamCreate")
	(void)flags;
	s = calloc(1, sizeof(*s));
	if (!s)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	s->context = current;
	s->last = &s->first;
	pthread_cond_init(&s->more, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STREAM_STACK);
	failed = pthread_create(&s->thread, &attr, stream_main, s);
	pthread_attr_destroy(&attr);
	if (failed) {
		free(s);
		DONE(CUDA_ERROR_OPERATING_SYSTEM);
	}
	s->next = streams;
	streams = s;
	*stream = s;
	DONE(CUDA_SUCCESS);
}

CUresult cuStreamQuery(CUstream stream)
{
	LOCKED_IN_CONTEXT("cuStreamQuery")
	DONE(stream->pending > 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

/* For programs; longreach does not call it. Waits until no copy of the context is under way. */
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize(void)
{
	LOCKED_IN_CONTEXT("cuCtxSynchronize")
	for (CUstream s = streams; s;) {
		if (s->context != current || s->pending == 0) {
			s = s->next;
			continue;
		}
		pthread_mutex_unlock(&lock);
		usleep(100);
		pthread_mutex_lock(&lock);
		s = streams;
	}
	DONE(current->error);
}

/* What is under way is still done. */
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream)
{
	LOCKED_IN_CONTEXT("cuStreamDestroy")
	end_stream(stream);
	DONE(CUDA_SUCCESS);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	LOCKED_IN_CONTEXT("cuEventCreate")
	(void)flags;
	*event = calloc(1, sizeof(**event));
	if (!*event)
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	(*event)->context = current;
	(*event)->next = events;
	events = *event;
	DONE(CUDA_SUCCESS);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	LOCKED_IN_CONTEXT("cuEventRecord")
	rc = append(stream, &(struct task){.event = event});
	event->pending += rc == CUDA_SUCCESS;
	DONE(rc);
}

CUresult cuEventQuery(CUevent event)
{
	LOCKED("cuEventQuery", event->context)
	DONE(event->pending > 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventDestroy_v2(CUevent event)
{
	LOCKED_IN_CONTEXT("cuEventDestroy")
	end_event(event);
	DONE(CUDA_SUCCESS);
}

/* For tests: what this process holds of the driver. */
unsigned fakecuda_held(void);
unsigned fakecuda_held(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (const struct allocation *a = allocations; a; a = a->next)
		n++;
	for (const struct created *c = created; c; c = c->next)
		n++;
	for (const struct reserved *v = reserved; v; v = v->next)
		n++;
	for (const struct host_range *r = ranges; r; r = r->next)
		n++;
	for (const struct CUstream_st *s = streams; s; s = s->next)
		n++;
	for (const struct CUevent_st *e = events; e; e = e->next)
		n++;
	for (int i = 0; i < DEVICES_MAX; i++)
		n += primary[i].refs;
	pthread_mutex_unlock(&lock);
	return n;
}
