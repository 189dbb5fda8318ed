/* SPDX-License-Identifier: Apache-2.0 */
/* client_gpu.c - a program's GPU memory, for the relay. */
#include "client_gpu.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((struct lr_gpu *)NULL)->handle) == sizeof(CUipcMemHandle), "a handle of CUDA's");

static CUresult allocate(struct client_gpu *gpu, int ordinal, uint64_t size, struct lr_gpu *memory, const char **call)
{
	CUdeviceptr base;
	CUcontext context;
	CUipcMemHandle handle;
	CUdevice device;
	size_t bytes;
	CUresult e;

	*call = "cuDeviceGet";
	e = gpu->cuda.device_get(&device, ordinal);
	if (e == CUDA_SUCCESS)
		*call = "cuDeviceGetPCIBusId", e = gpu->cuda.device_get_pci_bus_id(memory->pci_bus_id, sizeof(memory->pci_bus_id), device);
	if (e == CUDA_SUCCESS)
		*call = "cuDevicePrimaryCtxRetain", e = gpu->cuda.primary_ctx_retain(&context, device);
	if (e == CUDA_SUCCESS)
		*call = "cuCtxSetCurrent", e = gpu->cuda.ctx_set_current(context);
	if (e == CUDA_SUCCESS)
		*call = "cuMemAlloc", e = gpu->cuda.mem_alloc(&gpu->memory, size);
	if (e == CUDA_SUCCESS)
		*call = "cuMemGetAddressRange", e = gpu->cuda.mem_get_address_range(&base, &bytes, gpu->memory);
	if (e == CUDA_SUCCESS)
		*call = "cuIpcGetMemHandle", e = gpu->cuda.ipc_get_mem_handle(&handle, gpu->memory);
	if (e != CUDA_SUCCESS)
		return e;
	memcpy(memory->handle, &handle, sizeof(handle));
	memory->offset = gpu->memory - base;
	memory->size = size;
	return CUDA_SUCCESS;
}

int client_gpu_alloc(struct client_gpu *gpu, int device, uint64_t size, struct lr_gpu *memory, char *err, size_t cap)
{
	const char *call;
	char text[64];
	CUresult e;

	memset(memory, 0, sizeof(*memory));
	gpu->memory = 0;
	if (cuda_api_load(&gpu->cuda, err, cap) < 0)
		return -1;
	e = allocate(gpu, device, size, memory, &call);
	if (e == CUDA_SUCCESS)
		return 0;
	snprintf(err, cap, "%s: %s", call, cuda_api_error(&gpu->cuda, e, text, sizeof(text)));
	client_gpu_free(gpu);
	return -1;
}

void client_gpu_free(struct client_gpu *gpu)
{
	if (gpu->memory)
		gpu->cuda.mem_free(gpu->memory);
	gpu->memory = 0;
}
