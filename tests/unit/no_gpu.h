/* SPDX-License-Identifier: Apache-2.0 */
/* no_gpu.h - no GPU, as on a machine without one: for tests that include relay_gpu.c. A test may give its own memory. */
#ifndef TESTS_NO_GPU_H
#define TESTS_NO_GPU_H

#include <errno.h>

#include "daemon/gpu/gpu.h"

int gpu_start(struct gpu **out, int notify_fd)
{
	(void)out, (void)notify_fd;
	return -ENODEV;
}

bool gpu_stop(struct gpu *g)
{
	(void)g;
	return true;
}

bool gpu_open(struct gpu *g, struct gpu_memory *m)
{
	(void)g, (void)m;
	return false;
}

void gpu_close(struct gpu *g, struct gpu_memory *m)
{
	(void)g, (void)m;
}

struct gpu_block *gpu_take(struct gpu_memory *m, bool to_device)
{
	(void)m, (void)to_device;
	return NULL;
}

void gpu_give(struct gpu_block *b)
{
	(void)b;
}

void gpu_copy(struct gpu *g, struct gpu_block *b)
{
	(void)g, (void)b;
}

void gpu_wake(struct gpu *g)
{
	(void)g;
}

bool gpu_note(struct gpu *g, struct gpu_note *n)
{
	(void)g, (void)n;
	return false;
}

#endif
