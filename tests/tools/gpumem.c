/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem.c - a program whose bytes are in a GPU: puts a file from GPU memory, or gets a region into it.
 *
 *     gpumem put FILE LINK:REGION [near|far|done]    FILE -> GPU memory -> region of the other site
 *     gpumem get LINK:REGION FILE BYTES              region of the other site -> GPU memory -> FILE
 *     gpumem copy BYTES                              GPU memory -> pinned memory of the host -> other GPU memory
 *
 * With $GPUMEM_VMM the memory is of cuMemCreate(), and goes to the daemon as a descriptor.
 * The relay's socket: $LONGREACH_RELAY, or that of LINK. Exit status: 0 done, 1 it failed and says why, 2 usage. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/client/client_gpu.h"

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "gpumem: %s: %s\n", what, why);
	return 1;
}

static uint8_t *read_file(const char *path, uint64_t *size)
{
	FILE *f = fopen(path, "r");
	uint8_t *bytes = NULL;

	if (!f || fseek(f, 0, SEEK_END) < 0)
		return NULL;
	*size = (uint64_t)ftell(f);
	rewind(f);
	bytes = malloc(*size);
	if (bytes && fread(bytes, 1, *size, f) != *size)
		bytes = NULL;
	fclose(f);
	return bytes;
}

static int write_file(const char *path, const uint8_t *bytes, uint64_t size)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(bytes, 1, size, f) != size || fclose(f) != 0)
		return complain(path, strerror(errno));
	return 0;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int report(uint64_t bytes, double took)
{
	printf("%llu bytes in %.3f s, %.3f Gbit/s\n", (unsigned long long)bytes, took, (double)bytes * 8 / took / 1e9);
	return 0;
}

/* The rate of a program that has both memories: one block after the other goes out of a GPU and into it again. */
static int copy(uint64_t size)
{
	static const uint64_t block = 64 << 20;
	uint8_t *host = aligned_alloc(4096, block);
	struct client_gpu from, to;
	struct lr_gpu memory;
	CUresult e = CUDA_SUCCESS;
	char err[160];
	double since;

	if (!host || size == 0 || client_gpu_alloc(&from, 0, size, &memory, err, sizeof(err)) < 0 ||
	    client_gpu_alloc(&to, 0, size, &memory, err, sizeof(err)) < 0)
		return complain("copy", host && size > 0 ? err : "no bytes");
	memset(host, 0x5a, block);
	if (from.cuda.mem_host_register(host, block, 0) != CUDA_SUCCESS)
		return complain("copy", "no pinned memory");
	since = seconds();
	for (uint64_t at = 0, n; at < size && e == CUDA_SUCCESS; at += n) {
		n = size - at < block ? size - at : block;
		e = from.cuda.memcpy_dtoh(host, from.memory + at, n);
		if (e == CUDA_SUCCESS)
			e = to.cuda.memcpy_htod(to.memory + at, host, n);
	}
	if (e == CUDA_SUCCESS)
		e = to.cuda.ctx_synchronize();
	if (e != CUDA_SUCCESS)
		return complain("copy", cuda_api_error(&to.cuda, e, err, sizeof(err)));
	report(size, seconds() - since);
	from.cuda.mem_host_unregister(host);
	client_gpu_free(&from);
	client_gpu_free(&to);
	free(host);
	return 0;
}

static int run(struct lr *h, const struct lr_transfer *t, int is_put)
{
	double since = seconds();
	struct lr_event ev;
	uint64_t op;
	int rc = is_put ? lr_put(h, t, &op) : lr_get(h, t, &op);

	if (rc < 0)
		return complain(t->region, strerror(-rc));
	while ((rc = lr_wait(h, &ev, -1)) == 1 && (ev.type != LR_EV_DONE || ev.id != op))
		;
	if (rc != 1)
		return complain(t->region, "the daemon has gone");
	if (ev.status != LR_OK)
		return complain(t->region, lr_strerror(ev.status));
	return report(ev.bytes, seconds() - since);
}

/* An allocation of cuMemCreate(), mapped here. Its descriptor, or -1. bytes: what was created. */
static int create(struct client_gpu *gpu, uint64_t size, uint64_t *bytes)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t granularity;
	int fd = -1;

	if (gpu->cuda.mem_get_allocation_granularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS)
		return -1;
	*bytes = (size + granularity - 1) / granularity * granularity;
	if (gpu->cuda.mem_create(&handle, *bytes, &prop, 0) != CUDA_SUCCESS ||
	    gpu->cuda.mem_export_to_shareable_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS ||
	    gpu->cuda.mem_address_reserve(&gpu->memory, *bytes, 0, 0, 0) != CUDA_SUCCESS ||
	    gpu->cuda.mem_map(gpu->memory, *bytes, 0, handle, 0) != CUDA_SUCCESS ||
	    gpu->cuda.mem_set_access(gpu->memory, *bytes, &access, 1) != CUDA_SUCCESS)
		return -1;
	gpu->cuda.mem_release(handle); /* it is mapped */
	return fd;
}

static void destroy(struct client_gpu *gpu, uint64_t bytes)
{
	gpu->cuda.mem_unmap(gpu->memory, bytes);
	gpu->cuda.mem_address_free(gpu->memory, bytes);
	gpu->memory = 0;
}

int main(int argc, char **argv)
{
	int is_put = argc > 1 && strcmp(argv[1], "put") == 0, rc;
	char *place = argc > 3 ? argv[is_put ? 3 : 2] : NULL, *colon = place ? strchr(place, ':') : NULL;
	const char *file = argc > 3 ? argv[is_put ? 2 : 3] : NULL;
	struct lr_transfer t = {.fd = -1, .local = "gpumem-own", .promise = LR_DONE};
	struct client_gpu gpu;
	struct lr_gpu memory;
	uint8_t *bytes;
	uint64_t size, created = 0;
	char err[160];
	struct lr *h;
	int fd = -1;

	if (argc == 3 && strcmp(argv[1], "copy") == 0)
		return copy(strtoull(argv[2], NULL, 0));
	if (!colon || (!is_put && argc != 5)) {
		fputs("usage: gpumem put FILE LINK:REGION [near|far|done] | gpumem get LINK:REGION FILE BYTES | gpumem copy BYTES\n",
		      stderr);
		return 2;
	}
	*colon = '\0';
	t.region = colon + 1;
	if (is_put && argc > 4)
		t.promise = strcmp(argv[4], "near") == 0 ? LR_NEAR : strcmp(argv[4], "far") == 0 ? LR_FAR : LR_DONE;
	size = is_put ? 0 : strtoull(argv[4], NULL, 0);
	bytes = is_put ? read_file(file, &size) : calloc(1, size);
	if (!bytes)
		return complain(file, strerror(errno));
	if (client_gpu_alloc(&gpu, 0, size, &memory, err, sizeof(err)) < 0)
		return complain("GPU", err);
	if (getenv("GPUMEM_VMM")) {
		client_gpu_free(&gpu); /* its context is what is wanted */
		fd = create(&gpu, size, &created);
		memory.offset = 0;
		if (fd < 0)
			return complain("GPU", "no allocation that can be shared as a descriptor");
	}
	/* a copy from pageable memory returns when its bytes are staged: the relay's copy could be ahead of it */
	if (is_put && (gpu.cuda.memcpy_htod(gpu.memory, bytes, size) != CUDA_SUCCESS ||
	               gpu.cuda.ctx_synchronize() != CUDA_SUCCESS))
		return complain("GPU", "cannot be written");
	rc = lr_open(place, NULL, &h);
	if (rc < 0)
		return complain(place, strerror(-rc));
	rc = fd >= 0 ? lr_export_gpu_fd(h, t.local, fd, created, &memory, 0) : lr_export_gpu(h, t.local, &memory, 0);
	if (rc < 0)
		return complain("export", strerror(-rc));
	t.length = size;
	rc = run(h, &t, is_put);
	if (lr_unexport(h, t.local) < 0 && rc == 0)
		rc = complain(t.local, "cannot be taken back");
	if (rc == 0 && !is_put && gpu.cuda.memcpy_dtoh(bytes, gpu.memory, size) != CUDA_SUCCESS)
		rc = complain("GPU", "cannot be read");
	if (rc == 0 && !is_put)
		rc = write_file(file, bytes, size);
	lr_close(h);
	if (fd >= 0)
		destroy(&gpu, created);
	client_gpu_free(&gpu);
	free(bytes);
	return rc;
}
