/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_api.h - the CUDA driver API, loaded when it is wanted.
 *
 * longreach is built and runs without CUDA: libcuda.so.1 belongs to a machine's driver, and comes in by dlopen(3). */
#ifndef DAEMON_CUDA_API_H
#define DAEMON_CUDA_API_H

#include "cuda_types.h"

/* X(member of the table, function, version that cuda.h appends to its name, parameters).
 *
 * The version is that of the functions' symbols: cuda.h turns cuMemAlloc into cuMemAlloc_v2. */
#define CUDA_FUNCTIONS(X) \
	X(init, cuInit, , (unsigned int flags)) \
	X(get_error_name, cuGetErrorName, , (CUresult error, const char **name)) \
	X(device_get, cuDeviceGet, , (CUdevice * device, int ordinal)) \
	X(device_get_pci_bus_id, cuDeviceGetPCIBusId, , (char *id, int len, CUdevice device)) \
	X(device_get_by_pci_bus_id, cuDeviceGetByPCIBusId, , (CUdevice * device, const char *id)) \
	X(primary_ctx_retain, cuDevicePrimaryCtxRetain, , (CUcontext * context, CUdevice device)) \
	X(primary_ctx_release, cuDevicePrimaryCtxRelease, _v2, (CUdevice device)) \
	X(ctx_set_current, cuCtxSetCurrent, , (CUcontext context)) \
	X(ctx_synchronize, cuCtxSynchronize, , (void)) \
	X(mem_alloc, cuMemAlloc, _v2, (CUdeviceptr * memory, size_t bytes)) \
	X(mem_free, cuMemFree, _v2, (CUdeviceptr memory)) \
	X(mem_get_address_range, cuMemGetAddressRange, _v2, (CUdeviceptr * base, size_t *bytes, CUdeviceptr memory)) \
	X(mem_host_register, cuMemHostRegister, _v2, (void *host, size_t bytes, unsigned int flags)) \
	X(mem_host_unregister, cuMemHostUnregister, , (void *host)) \
	X(memcpy_htod, cuMemcpyHtoD, _v2, (CUdeviceptr to, const void *from, size_t bytes)) \
	X(memcpy_dtoh, cuMemcpyDtoH, _v2, (void *to, CUdeviceptr from, size_t bytes)) \
	X(memcpy_htod_async, cuMemcpyHtoDAsync, _v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(memcpy_dtoh_async, cuMemcpyDtoHAsync, _v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
	X(stream_create, cuStreamCreate, , (CUstream * stream, unsigned int flags)) \
	X(stream_destroy, cuStreamDestroy, _v2, (CUstream stream)) \
	X(stream_query, cuStreamQuery, , (CUstream stream)) \
	X(event_create, cuEventCreate, , (CUevent * event, unsigned int flags)) \
	X(event_record, cuEventRecord, , (CUevent event, CUstream stream)) \
	X(event_query, cuEventQuery, , (CUevent event)) \
	X(event_destroy, cuEventDestroy, _v2, (CUevent event)) \
	X(ipc_get_mem_handle, cuIpcGetMemHandle, , (CUipcMemHandle * handle, CUdeviceptr memory)) \
	X(ipc_open_mem_handle, cuIpcOpenMemHandle, _v2, (CUdeviceptr * memory, CUipcMemHandle handle, unsigned int flags)) \
	X(ipc_close_mem_handle, cuIpcCloseMemHandle, , (CUdeviceptr memory)) \
	X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, , \
	  (size_t * bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)) \
	X(mem_create, cuMemCreate, , \
	  (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)) \
	X(mem_release, cuMemRelease, , (CUmemGenericAllocationHandle handle)) \
	X(mem_export_to_shareable_handle, cuMemExportToShareableHandle, , \
	  (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)) \
	X(mem_import_from_shareable_handle, cuMemImportFromShareableHandle, , \
	  (CUmemGenericAllocationHandle * handle, void *shareable, CUmemAllocationHandleType type)) \
	X(mem_address_reserve, cuMemAddressReserve, , \
	  (CUdeviceptr * at, size_t bytes, size_t alignment, CUdeviceptr wish, unsigned long long flags)) \
	X(mem_address_free, cuMemAddressFree, , (CUdeviceptr at, size_t bytes)) \
	X(mem_map, cuMemMap, , \
	  (CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
	X(mem_unmap, cuMemUnmap, , (CUdeviceptr at, size_t bytes)) \
	X(mem_set_access, cuMemSetAccess, , (CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n))

/* All of them, by their members' names: cuda.mem_alloc(&memory, bytes). */
struct cuda_api {
#define CUDA_MEMBER(member, function, version, parameters) CUresult (*member) parameters;
	CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
	void *library; /* never closed: a driver has threads of its own */
};

/* Loads libcuda.so.1, as the dynamic linker finds it, and calls cuInit(). err: why there is no CUDA here, at most cap bytes.
 * Returns 0; -ENODEV: no library, no driver or no GPU; -ENOSYS: the library is older than 11.0 and lacks a function. */
int cuda_api_load(struct cuda_api *cuda, char *err, size_t cap);

/* "CUDA_ERROR_ILLEGAL_ADDRESS (700)". Returns text. */
const char *cuda_api_error(const struct cuda_api *cuda, CUresult error, char *text, size_t cap);

#endif
