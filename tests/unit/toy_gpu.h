/* SPDX-License-Identifier: Apache-2.0 */
/* toy_gpu.h - a GPU without a thread or a driver: for tests that include relay_gpu.c. All memory begins at the same byte;
 * copies are done at once, or wait for toy_finish(). */
#ifndef TESTS_TOY_GPU_H
#define TESTS_TOY_GPU_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/gpu/gpu.h"

#define TOY_BYTES (4u << 20)

struct gpu {
	struct gpu_note note[2048];
	unsigned first, nnotes;
	struct gpu_block *under_way[GPU_BLOCKS];
	unsigned nunder_way, nopen, ntaken;
	bool waits;  /* copies are not done by themselves */
	int open_rc; /* what becomes of memory that is opened */
	uint8_t memory[TOY_BYTES];
};

static struct gpu toy;

static void toy_note(struct gpu_note n)
{
	assert(toy.nnotes < 2048);
	toy.note[(toy.first + toy.nnotes++) % 2048] = n;
}

static void toy_copy(const struct gpu_block *b)
{
	for (uint32_t i = 0; i < b->nruns; i++) {
		const struct gpu_run *r = &b->run[i];

		assert(r->offset + r->len <= b->memory->size && r->at + r->len <= GPU_BLOCK_BYTES);
		if (r->offset + r->len > TOY_BYTES)
			continue; /* larger than a toy's */
		if (b->to_device)
			memcpy(toy.memory + r->offset, b->bytes + r->at, r->len);
		else
			memcpy(b->bytes + r->at, toy.memory + r->offset, r->len);
	}
}

/* What is under way is over. */
static void toy_finish(enum gpu_end end)
{
	for (unsigned i = 0; i < toy.nunder_way; i++) {
		if (end == GPU_OK)
			toy_copy(toy.under_way[i]);
		toy_note((struct gpu_note){.type = GPU_COPIED, .block = toy.under_way[i], .end = end});
	}
	toy.nunder_way = 0;
}

int gpu_start(struct gpu **out, int notify_fd)
{
	(void)notify_fd;
	*out = &toy;
	return 0;
}

bool gpu_stop(struct gpu *g)
{
	(void)g;
	return true;
}

bool gpu_open(struct gpu *g, struct gpu_memory *m)
{
	if (g->nopen == 4)
		return false;
	g->nopen += g->open_rc == 0;
	toy_note((struct gpu_note){.type = GPU_OPENED, .memory = m, .rc = g->open_rc});
	return true;
}

void gpu_close(struct gpu *g, struct gpu_memory *m)
{
	for (unsigned i = 0; i < g->nunder_way; i++)
		assert(g->under_way[i]->memory != m);
	g->nopen--;
	toy_note((struct gpu_note){.type = GPU_CLOSED, .memory = m});
}

struct gpu_block *gpu_take(struct gpu_memory *m, bool to_device)
{
	struct gpu_block *b;

	if (toy.ntaken == GPU_BLOCKS)
		return NULL;
	b = calloc(1, sizeof(*b));
	assert(b);
	b->bytes = malloc(GPU_BLOCK_BYTES);
	assert(b->bytes);
	b->memory = m;
	b->to_device = to_device;
	toy.ntaken++;
	return b;
}

void gpu_give(struct gpu_block *b)
{
	toy.ntaken--;
	free(b->bytes);
	free(b);
}

void gpu_copy(struct gpu *g, struct gpu_block *b)
{
	g->under_way[g->nunder_way++] = b;
	if (!g->waits)
		toy_finish(GPU_OK);
}

void gpu_wake(struct gpu *g)
{
	(void)g;
}

bool gpu_note(struct gpu *g, struct gpu_note *n)
{
	if (g->nnotes == 0)
		return false;
	*n = g->note[g->first];
	g->first = (g->first + 1) % 2048;
	g->nnotes--;
	return true;
}

#endif
