/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be the same in two headers of CUDA's driver API: numbers, and the sizes of types. Included by two compilations,
 * one with declarations of our own, one with a toolkit's cuda.h: CUDA_FACTS is a table in each of them. */
#ifndef TESTS_CUDA_FACTS_H
#define TESTS_CUDA_FACTS_H

#include "daemon/gpu/cuda_api.h"

struct cuda_fact {
	const char *name;
	long long value;  /* a number's; a type's size */
	size_t alignment; /* 0: a number */
};

extern const struct cuda_fact cuda_own_facts[];
extern const size_t cuda_own_nfacts;

#define NUMBER(name) {#name, (long long)(name), 0}
#define TYPE(name)   {#name, (long long)sizeof(name), _Alignof(name)}
/* Whether a type has a sign, which its size does not tell. */
#define SIGN(name) {#name " is signed", (double)((name)-1) < 0, 0}

#define CUDA_FACTS \
	NUMBER(CUDA_SUCCESS), NUMBER(CUDA_ERROR_INVALID_VALUE), NUMBER(CUDA_ERROR_OUT_OF_MEMORY), \
	NUMBER(CUDA_ERROR_NOT_INITIALIZED), NUMBER(CUDA_ERROR_DEINITIALIZED), NUMBER(CUDA_ERROR_DEVICE_UNAVAILABLE), \
	NUMBER(CUDA_ERROR_NO_DEVICE), NUMBER(CUDA_ERROR_INVALID_DEVICE), NUMBER(CUDA_ERROR_INVALID_CONTEXT), \
	NUMBER(CUDA_ERROR_ECC_UNCORRECTABLE), NUMBER(CUDA_ERROR_OPERATING_SYSTEM), NUMBER(CUDA_ERROR_INVALID_HANDLE), \
	NUMBER(CUDA_ERROR_NOT_READY), NUMBER(CUDA_ERROR_ILLEGAL_ADDRESS), NUMBER(CUDA_ERROR_CONTEXT_IS_DESTROYED), \
	NUMBER(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), NUMBER(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED), \
	NUMBER(CUDA_ERROR_NVLINK_UNCORRECTABLE), NUMBER(CUDA_ERROR_LAUNCH_TIMEOUT), NUMBER(CUDA_ERROR_ASSERT), \
	NUMBER(CUDA_ERROR_HARDWARE_STACK_ERROR), NUMBER(CUDA_ERROR_LAUNCH_FAILED), NUMBER(CUDA_ERROR_UNKNOWN), \
	NUMBER(CU_STREAM_DEFAULT), NUMBER(CU_STREAM_NON_BLOCKING), NUMBER(CU_EVENT_DEFAULT), \
	NUMBER(CU_EVENT_DISABLE_TIMING), NUMBER(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), NUMBER(CU_MEMHOSTREGISTER_PORTABLE), \
	NUMBER(CU_IPC_HANDLE_SIZE), TYPE(CUresult), TYPE(CUstream_flags), TYPE(CUevent_flags), TYPE(CUipcMem_flags), \
	TYPE(CUdevice), TYPE(CUdeviceptr), TYPE(CUcontext), TYPE(CUstream), TYPE(CUevent), TYPE(CUipcMemHandle), \
	NUMBER(CU_MEM_HANDLE_TYPE_NONE), NUMBER(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), \
	NUMBER(CU_MEM_ALLOCATION_TYPE_INVALID), NUMBER(CU_MEM_ALLOCATION_TYPE_PINNED), \
	NUMBER(CU_MEM_LOCATION_TYPE_INVALID), NUMBER(CU_MEM_LOCATION_TYPE_DEVICE), NUMBER(CU_MEM_ACCESS_FLAGS_PROT_NONE), \
	NUMBER(CU_MEM_ACCESS_FLAGS_PROT_READWRITE), NUMBER(CU_MEM_ALLOC_GRANULARITY_MINIMUM), \
	TYPE(CUmemGenericAllocationHandle), TYPE(CUmemAllocationHandleType), TYPE(CUmemAllocationType), \
	TYPE(CUmemLocationType), TYPE(CUmemAccess_flags), TYPE(CUmemAllocationGranularity_flags), TYPE(CUmemLocation), \
	TYPE(CUmemAccessDesc), TYPE(CUmemAllocationProp), NUMBER(offsetof(CUmemLocation, id)), \
	NUMBER(offsetof(CUmemAccessDesc, flags)), NUMBER(offsetof(CUmemAllocationProp, requestedHandleTypes)), \
	NUMBER(offsetof(CUmemAllocationProp, location)), NUMBER(offsetof(CUmemAllocationProp, allocFlags)), \
	SIGN(CUresult), SIGN(CUdevice), SIGN(CUdeviceptr), SIGN(CUmemGenericAllocationHandle)

#endif
