/* SPDX-License-Identifier: Apache-2.0 */
/* client_gpu.h - a program's GPU memory, for the relay. */
#ifndef DAEMON_CLIENT_GPU_H
#define DAEMON_CLIENT_GPU_H

#include "daemon/gpu/cuda_api.h"
#include "lib/longreach.h"

struct client_gpu {
	struct cuda_api cuda;
	CUdeviceptr memory;
};

/* Allocates memory on that GPU and fills in what lr_export_gpu() needs. err: why this failed. 0 or -1. */
int client_gpu_alloc(struct client_gpu *gpu, int device, uint64_t size, struct lr_gpu *memory, char *err, size_t cap);
/* Frees the memory. Call after lr_unexport() or lr_close(). */
void client_gpu_free(struct client_gpu *gpu);

#endif
