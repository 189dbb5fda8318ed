/* SPDX-License-Identifier: Apache-2.0 */
/* put_gpu.c - an example: puts a buffer of a GPU's memory into a region of the other site.
 *
 *     put_gpu LINK REGION BYTES
 *
 * The buffer holds the 32-bit numbers 0, 1, 2, ... Before that, export the region at the other site:
 *
 *     longreach export LINK:REGION --gpu 0 --size BYTES       (or --file FILE --access w)
 *
 * The link file must have Enable=yes in [Relay] at both edges, and GPU=yes at an edge whose programs use a GPU.
 *
 *     cc put_gpu.c -o put_gpu -llongreach -lcuda
 *
 * Exit status: 0 the bytes are in the region; 1 failed, with a reason on stderr, and some bytes may be in the region;
 * 2 usage. */
#include <cuda.h>
#include <errno.h>
#include <longreach.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* exit() releases the region, the operation and the GPU memory. */
static void fail(const char *what, const char *why)
{
	fprintf(stderr, "put_gpu: %s: %s\n", what, why);
	exit(1);
}

static void must(CUresult e, const char *call)
{
	const char *name;

	if (e != CUDA_SUCCESS)
		fail(call, cuGetErrorName(e, &name) == CUDA_SUCCESS ? name : "an error that CUDA has no name for");
}
#define CUDA(function, ...) must(function(__VA_ARGS__), #function)

static void lr_must(int r, const char *what)
{
	if (r < 0)
		fail(what, r == -EPIPE ? "the daemon has gone" : strerror(-r));
}

/* Returns a GPU buffer with numbers in it, where a real program has its tensors. The bytes must be in GPU memory before
 * the put, because the daemon does not wait for work that this program has queued on the GPU: a program that launches
 * kernels must synchronise, too. */
static CUdeviceptr fill_buffer(size_t bytes)
{
	size_t words = bytes / 4 + 1;
	uint32_t *numbers = malloc(words * 4);
	CUdeviceptr buffer;

	if (!numbers)
		fail("malloc", strerror(errno));
	for (size_t i = 0; i < words; i++)
		numbers[i] = (uint32_t)i;
	CUDA(cuMemAlloc, &buffer, bytes);
	CUDA(cuMemcpyHtoD, buffer, numbers, bytes);
	CUDA(cuCtxSynchronize);
	free(numbers);
	return buffer;
}

/* Fills *memory with all that the daemon needs to open the buffer by CUDA IPC. The buffer may be a part of an
 * allocation, hence the offset. */
static void describe(CUdeviceptr buffer, size_t bytes, CUdevice device, struct lr_gpu *memory)
{
	CUipcMemHandle handle;
	CUdeviceptr base;
	size_t all;

	CUDA(cuMemGetAddressRange, &base, &all, buffer);
	CUDA(cuIpcGetMemHandle, &handle, buffer);
	CUDA(cuDeviceGetPCIBusId, memory->pci_bus_id, sizeof(memory->pci_bus_id), device);
	memcpy(memory->handle, &handle, sizeof(memory->handle));
	memory->offset = buffer - base;
	memory->size = bytes;
}

static void put(struct lr *h, const char *local, size_t bytes, const char *region)
{
	struct lr_transfer t = {.fd = -1, .local = local, .length = bytes, .region = region, .promise = LR_DONE};
	struct lr_event ev;
	uint64_t op;

	lr_must(lr_put(h, &t, &op), "lr_put");
	do
		lr_must(lr_wait(h, &ev, -1), "lr_wait");
	while (ev.type != LR_EV_DONE || ev.id != op);
	if (ev.status != LR_OK)
		fail(region, lr_strerror(ev.status));
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;
	struct lr_gpu memory = {0};
	char name[LR_NAME_MAX];
	CUdeviceptr buffer;
	CUcontext context;
	CUdevice device;
	struct lr *h;

	if (bytes == 0) {
		fputs("usage: put_gpu LINK REGION BYTES\n", stderr);
		return 2;
	}
	CUDA(cuInit, 0);
	CUDA(cuDeviceGet, &device, 0);
	CUDA(cuDevicePrimaryCtxRetain, &context, device);
	CUDA(cuCtxSetCurrent, context);
	buffer = fill_buffer(bytes);
	describe(buffer, bytes, device, &memory);

	lr_must(lr_open(argv[1], NULL, &h), "lr_open");
	/* Access 0: only this program's operations may use the region, the other site cannot name it. All programs of
	 * the link share the names of regions, so the name contains the process id. */
	snprintf(name, sizeof(name), "put-gpu-%d", (int)getpid());
	lr_must(lr_export_gpu(h, name, &memory, 0), "lr_export_gpu");
	put(h, name, bytes, argv[2]);
	printf("%zu bytes are in %s\n", bytes, argv[2]);

	/* The daemon must close the memory before the program frees it. */
	lr_must(lr_unexport(h, name), "lr_unexport");
	lr_close(h);
	CUDA(cuMemFree, buffer);
	CUDA(cuDevicePrimaryCtxRelease, device);
	return 0;
}
