/* SPDX-License-Identifier: Apache-2.0 */
/* relay_gpu.c - regions of GPU memory: copies that the relay's thread begins and never waits for.
 *
 * Theory of operation. A slot of the arena holds 4 KiB, and a copy costs CUDA's driver some microseconds to begin: so
 * bytes go through pinned blocks of 1 MiB, and moving one block's bytes into slots overlaps the copies of others.
 *
 *     read    a stream has up to RELAY_AHEAD blocks. The channel gets only loaded bytes, so that another stream has its
 *             turn meanwhile
 *     write   chunks wait for a block, with their slots; a block takes up to 256 of them, in runs of bytes that lie
 *             together. A slot is done when its bytes are in the GPU: kill -9 in between has it written once more
 *
 * If memory is broken, or its region is gone, its streams and chunks fail with its status at once; blocks under way are
 * given back when their copies are over, and the last of them closes the memory. */
#include "relay_gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/log.h"
#include "relay_priv.h"

/* A block under way: the user of struct gpu_block. */
struct relay_copy {
	struct dnode node; /* in relay_thread.copies */
	struct relay_memory *memory;
	struct relay_reader *reader; /* NULL: the reader is gone, or this block writes */
	struct dnode writes;
};

/* --- memory --- */

struct relay_memory *relay_memory_ref(struct relay_memory *mem)
{
	mem->refs++;
	return mem;
}

/* Closes the descriptor as soon as possible: it keeps the program's allocation alive. */
static void close_descriptor(struct relay_thread *r, struct relay_memory *mem)
{
	relay_file_close(r, mem->gpu.fd); /* the descriptor may be any file, so closing it may block */
	mem->gpu.fd = -1;
}

static void memory_free(struct relay_thread *r, struct relay_memory *mem)
{
	close_descriptor(r, mem);
	dlist_remove(&mem->node);
	free(mem);
}

void relay_memory_unref(struct relay_thread *r, struct relay_memory *mem)
{
	if (--mem->refs > 0)
		return;
	if (mem->is_open) {
		gpu_close(r->gpu, &mem->gpu);
		r->gpu_wake = true;
	} else {
		memory_free(r, mem);
	}
}

static enum lr_status status_of(enum gpu_end end)
{
	switch (end) {
	case GPU_OK:
		return LR_OK;
	case GPU_LOST:
		return LR_GPU_LOST;
	case GPU_CONTEXT:
		return LR_GPU_CONTEXT;
	case GPU_NO_MEMORY:
		return LR_GPU_NO_MEMORY;
	default:
		return LR_GPU_FAILED;
	}
}

static void answer_later(struct relay_thread *r, struct relay_memory *mem, int rc)
{
	struct lr_msg m = {.type = LRM_ANSWER, .serial = mem->serial, .result = rc};

	if (mem->client)
		relay_client_event(r, mem->client, &m, NULL, 0);
	mem->client = NULL;
}

static int start_thread(struct relay_thread *r)
{
	return r->gpu ? 0 : gpu_start(&r->gpu, r->notify_fd);
}

int relay_gpu_export(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, const uint8_t *data,
                     size_t len, int fd)
{
	struct relay_region *g = NULL;
	struct relay_memory *mem;
	struct lr_gpu at;
	int rc;

	if (!r->config.relay_gpu)
		return -EOPNOTSUPP;
	if (len != sizeof(at))
		return -EINVAL;
	memcpy(&at, data, sizeof(at));
	if (at.size == 0 || at.offset > INT64_MAX || at.size > INT64_MAX - at.offset ||
	    (fd >= 0 && (m->length > INT64_MAX || at.offset + at.size > m->length)))
		return -EINVAL;
	rc = start_thread(r);
	mem = rc == 0 ? calloc(1, sizeof(*mem)) : NULL;
	if (!mem)
		return rc < 0 ? rc : -ENOMEM;
	rc = relay_region_add_memory(r, cl, m, mem, at.size, &g);
	if (rc < 0) {
		free(mem);
		return rc;
	}
	mem->region = g;
	mem->refs = 2; /* the region's, and until it is open */
	mem->client = cl;
	mem->serial = m->serial;
	memcpy(mem->name, m->name, LR_NAME_MAX);
	memcpy(&mem->gpu.handle, at.handle, sizeof(mem->gpu.handle));
	memcpy(mem->gpu.id, at.pci_bus_id, sizeof(mem->gpu.id));
	mem->gpu.id[sizeof(mem->gpu.id) - 1] = '\0';
	mem->gpu.fd = -1;
	mem->gpu.allocation = m->length;
	mem->gpu.offset = at.offset;
	mem->gpu.size = at.size;
	mem->gpu.user = mem;
	dlist_init(&mem->writes);
	dlist_append(&r->memories, &mem->node);
	if (fd >= 0 && (mem->gpu.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
		mem->client = NULL;
		mem->refs--;
		relay_region_drop(r, g);
		return -EMFILE;
	}
	if (!gpu_open(r->gpu, &mem->gpu)) {
		mem->client = NULL;
		mem->refs--;
		relay_region_drop(r, g);
		return -ENOSPC;
	}
	r->gpu_wake = true;
	return 0;
}

static void on_opened(struct relay_thread *r, struct relay_memory *mem, int rc)
{
	mem->is_open = rc == 0;
	close_descriptor(r, mem);
	if (rc < 0) {
		log_warn("link %s: GPU memory %s cannot be opened: %s", r->config.name, mem->name, mem->gpu.why);
		if (mem->region)
			relay_region_drop(r, mem->region);
	} else if (mem->region) {
		mem->region->opening = false;
	}
	answer_later(r, mem, rc);
	relay_memory_unref(r, mem);
}

void relay_gpu_forget(struct relay_thread *r, struct relay_memory *mem, struct relay_client *client, uint32_t serial)
{
	mem->region = NULL;
	if (mem->status == LR_OK)
		mem->status = LR_NO_REGION;
	if (client) {
		mem->client = client;
		mem->serial = serial;
	}
	relay_op_memory_gone(r, mem);
	relay_memory_unref(r, mem);
}

void relay_gpu_client_gone(struct relay_thread *r, const struct relay_client *cl)
{
	for (struct dnode *n = r->memories.next; n != &r->memories; n = n->next) {
		struct relay_memory *mem = dlist_entry(n, struct relay_memory, node);

		if (mem->client == cl)
			mem->client = NULL;
	}
}

/* --- blocks --- */

static struct gpu_block *take_block(struct relay_thread *r, struct relay_memory *mem, bool to_device,
                                    struct relay_copy **copy)
{
	struct relay_copy *c = calloc(1, sizeof(*c));
	struct gpu_block *b = c ? gpu_take(&mem->gpu, to_device) : NULL;

	if (!b) {
		free(c);
		return NULL;
	}
	c->memory = relay_memory_ref(mem);
	dlist_init(&c->writes);
	dlist_append(&r->copies, &c->node);
	b->user = c;
	*copy = c;
	return b;
}

static void start_copy(struct relay_thread *r, struct gpu_block *b)
{
	gpu_copy(r->gpu, b);
	r->gpu_wake = true;
}

static void copy_free(struct relay_thread *r, struct relay_copy *c)
{
	struct relay_memory *mem = c->memory;

	dlist_remove(&c->node);
	free(c);
	relay_memory_unref(r, mem);
}

/* --- reading --- */

struct relay_reader *relay_reader_new(struct relay_thread *r, struct relay_memory *mem, struct relay_stream *s)
{
	struct relay_reader *rd = calloc(1, sizeof(*rd));

	if (!rd)
		return NULL;
	rd->memory = relay_memory_ref(mem);
	rd->stream = s;
	dlist_append(&r->readers, &rd->node);
	return rd;
}

void relay_reader_free(struct relay_thread *r, struct relay_reader *rd)
{
	for (uint32_t i = 0; i < rd->n; i++) {
		struct relay_ahead *a = &rd->ahead[(rd->first + i) % RELAY_AHEAD];
		struct relay_copy *c = a->block->user;

		c->reader = NULL;
		if (!a->is_loaded)
			continue; /* GPU_COPIED gives the block back */
		gpu_give(a->block);
		copy_free(r, c);
	}
	dlist_remove(&rd->node);
	relay_memory_unref(r, rd->memory);
	free(rd);
}

static bool read_ahead(struct relay_thread *r, struct relay_reader *rd)
{
	const struct relay_stream *s = rd->stream;
	uint64_t left = s->length - rd->asked;
	uint32_t nruns = 0;
	struct relay_ahead *a = &rd->ahead[(rd->first + rd->n) % RELAY_AHEAD];
	struct relay_copy *c;

	if (left == 0 || rd->n == RELAY_AHEAD)
		return false;
	*a = (struct relay_ahead){.offset = rd->asked};
	a->block = take_block(r, rd->memory, false, &c);
	if (!a->block)
		return false;
	c->reader = rd;
	while (nruns < GPU_RUNS && left > 0 && a->len < GPU_BLOCK_BYTES) {
		uint64_t at = a->offset + a->len, room = GPU_BLOCK_BYTES - a->len;
		uint64_t len = relay_pieces_run(s->pieces, at, left < room ? left : room);

		a->block->run[nruns++] = (struct gpu_run){.offset = s->fd_offset + relay_pieces_source(s->pieces, at),
		                                          .at = a->len,
		                                          .len = (uint32_t)len};
		a->len += (uint32_t)len;
		left -= len;
	}
	a->block->nruns = nruns;
	a->left = a->len;
	rd->asked += a->len;
	rd->n++;
	start_copy(r, a->block);
	return true;
}

static void on_loaded(struct relay_thread *r, struct relay_reader *rd, const struct gpu_block *b)
{
	bool all = true;

	(void)r;
	for (uint32_t i = 0; i < rd->n; i++) {
		struct relay_ahead *a = &rd->ahead[(rd->first + i) % RELAY_AHEAD];

		if (a->block == b)
			a->is_loaded = true;
		all &= a->is_loaded;
		if (all)
			rd->loaded = a->offset + a->len;
	}
}

uint64_t relay_reader_run(const struct relay_reader *rd, uint64_t offset, uint64_t left)
{
	for (uint32_t i = 0; i < rd->n; i++) {
		const struct relay_ahead *a = &rd->ahead[(rd->first + i) % RELAY_AHEAD];

		if (offset >= a->offset && offset - a->offset < a->len && a->len - (offset - a->offset) < left)
			return a->len - (offset - a->offset);
	}
	return left;
}

/* Chunks are filled in any order: a block is given back when all of its chunks are filled. */
void relay_reader_take(struct relay_reader *rd, uint8_t *to, uint64_t offset, uint32_t len)
{
	for (uint32_t i = 0; i < rd->n; i++) {
		struct relay_ahead *a = &rd->ahead[(rd->first + i) % RELAY_AHEAD];

		if (offset < a->offset || offset - a->offset >= a->len)
			continue;
		memcpy(to, a->block->bytes + (offset - a->offset), len);
		a->left -= len;
		return;
	}
}

static void give_emptied(struct relay_thread *r, struct relay_reader *rd)
{
	while (rd->n > 0 && rd->ahead[rd->first].left == 0) {
		struct gpu_block *b = rd->ahead[rd->first].block;
		struct relay_copy *c = b->user;

		gpu_give(b);
		copy_free(r, c);
		rd->first = (rd->first + 1) % RELAY_AHEAD;
		rd->n--;
	}
}

/* Gives each reader in turn a block, while there are free ones. */
static void run_readers(struct relay_thread *r)
{
	struct dnode *n, *next;
	bool more = true;

	for (n = r->readers.next; n != &r->readers; n = next) {
		struct relay_reader *rd = dlist_entry(n, struct relay_reader, node);

		next = n->next;
		give_emptied(r, rd);
		if (rd->memory->status != LR_OK) {
			relay_stream_fail(r, rd->stream, rd->memory->status);
			next = r->readers.next; /* others may have gone with it */
		}
	}
	while (more) {
		more = false;
		for (n = r->readers.next; n != &r->readers; n = n->next)
			more |= read_ahead(r, dlist_entry(n, struct relay_reader, node));
	}
	dlist_rotate(&r->readers);
}

/* --- writing --- */

enum lr_status relay_gpu_write(struct relay_thread *r, const struct relay_write *w)
{
	struct relay_memory *mem = w->memory;
	struct relay_write *kept;

	(void)r;
	if (mem->status != LR_OK)
		return mem->status;
	if (w->offset > mem->gpu.size || w->len > mem->gpu.size - w->offset)
		return LR_OUT_OF_BOUNDS;
	kept = malloc(sizeof(*kept));
	if (!kept)
		return LR_NO_ROOM;
	*kept = *w;
	kept->memory = relay_memory_ref(mem);
	dlist_append(&mem->writes, &kept->node);
	mem->nwrites++;
	return LR_OK;
}

/* Adds a chunk's bytes to the block, in one run with the last chunk if they are adjacent in the memory. */
static uint32_t add_run(struct gpu_block *b, const struct relay_write *w, uint32_t at)
{
	struct gpu_run *last = b->nruns > 0 ? &b->run[b->nruns - 1] : NULL;

	memcpy(b->bytes + at, w->data, w->len);
	if (last && last->offset + last->len == w->offset)
		last->len += w->len;
	else
		b->run[b->nruns++] = (struct gpu_run){.offset = w->offset, .at = at, .len = w->len};
	return at + w->len;
}

static bool write_block(struct relay_thread *r, struct relay_memory *mem)
{
	struct relay_copy *c;
	struct gpu_block *b = take_block(r, mem, true, &c);
	uint32_t at = 0;
	struct dnode *n;

	if (!b)
		return false;
	while (b->nruns < GPU_RUNS && (n = dlist_first(&mem->writes))) {
		struct relay_write *w = dlist_entry(n, struct relay_write, node);

		if (w->len > GPU_BLOCK_BYTES - at)
			break;
		at = add_run(b, w, at);
		relay_count(&r->count.relay_copied_bytes, w->len);
		dlist_remove(n);
		dlist_append(&c->writes, n);
		mem->nwrites--;
	}
	mem->nwriting++;
	start_copy(r, b);
	return true;
}

static void writes_over(struct relay_thread *r, struct dnode *writes, enum lr_status status)
{
	struct dnode *n;

	while ((n = dlist_first(writes))) {
		struct relay_write *w = dlist_entry(n, struct relay_write, node);

		dlist_remove(n);
		w->status = status;
		dlist_append(&r->written[relay_write_is_answered(w)], n);
	}
}


static bool wants_block(const struct relay_memory *mem)
{
	return mem->nwrites >= GPU_RUNS ? mem->nwriting < RELAY_WRITING : mem->nwrites > 0 && mem->nwriting < RELAY_PARTIAL;
}

static void run_writes(struct relay_thread *r)
{
	for (struct dnode *n = r->memories.next; n != &r->memories; n = n->next) {
		struct relay_memory *mem = dlist_entry(n, struct relay_memory, node);

		if (mem->status != LR_OK) {
			writes_over(r, &mem->writes, mem->status);
			mem->nwrites = 0;
		}
		while (wants_block(mem) && write_block(r, mem))
			;
	}
	dlist_rotate(&r->memories);
}

/* Their slots go back, as far as the workers' rings, or the answering channels, have room. False: not all of them. */
static bool finish_written(struct relay_thread *r, struct dnode *written)
{
	struct dnode *n;

	while ((n = dlist_first(written))) {
		struct relay_write *w = dlist_entry(n, struct relay_write, node);

		if (!relay_execute_has_room(r, w))
			return false;
		dlist_remove(n);
		relay_execute_written(r, w);
		relay_memory_unref(r, w->memory);
		free(w);
	}
	return true;
}

/* --- notes --- */

/* Tells the other site before the program, which may unexport the region: chunks of blocks under way fail at once, as
 * the blocks hold their bytes. */
static void on_broken(struct relay_thread *r, struct relay_memory *mem, enum gpu_end end)
{
	struct lr_msg m = {.type = LRM_EVENT, .flags = LR_EV_LOST, .status = status_of(end)};

	log_err("link %s: the relay gives GPU memory %s up: %s", r->config.name, mem->name, mem->gpu.why);
	if (mem->status == LR_OK)
		mem->status = status_of(end);
	for (struct dnode *n = r->copies.next; n != &r->copies; n = n->next) {
		struct relay_copy *c = dlist_entry(n, struct relay_copy, node);

		if (c->memory == mem)
			writes_over(r, &c->writes, mem->status);
	}
	memcpy(m.name, mem->name, LR_NAME_MAX);
	if (mem->region)
		relay_client_event(r, mem->region->client, &m, NULL, 0);
}

static void on_copied(struct relay_thread *r, struct gpu_block *b, enum gpu_end end)
{
	struct relay_copy *c = b->user;

	if (c->reader && end == GPU_OK) {
		on_loaded(r, c->reader, b);
		return;
	}
	if (c->reader) { /* the memory is broken: run_readers() ends the stream */
		for (uint32_t i = 0; i < RELAY_AHEAD; i++)
			if (c->reader->ahead[i].block == b)
				c->reader->ahead[i].is_loaded = true;
		return;
	}
	writes_over(r, &c->writes, status_of(end));
	if (b->to_device)
		c->memory->nwriting--;
	gpu_give(b);
	copy_free(r, c);
}

static void take_notes(struct relay_thread *r)
{
	struct gpu_note n;

	while (gpu_note(r->gpu, &n)) {
		struct relay_memory *mem = n.memory ? n.memory->user : NULL;

		switch (n.type) {
		case GPU_OPENED:
			on_opened(r, mem, n.rc);
			break;
		case GPU_BROKEN:
			on_broken(r, mem, n.end);
			break;
		case GPU_COPIED:
			on_copied(r, n.block, n.end);
			break;
		case GPU_CLOSED:
			answer_later(r, mem, 0);
			memory_free(r, mem);
			break;
		}
	}
}

bool relay_gpu_turn(struct relay_thread *r)
{
	bool all;

	if (!r->gpu)
		return false;
	take_notes(r);
	run_readers(r);
	run_writes(r);
	all = finish_written(r, &r->written[0]);
	all &= finish_written(r, &r->written[1]);
	if (r->gpu_wake)
		gpu_wake(r->gpu);
	r->gpu_wake = false;
	return !all;
}

/* --- the end --- */

static void free_writes(struct dnode *list)
{
	struct dnode *n;

	while ((n = dlist_first(list))) {
		dlist_remove(n);
		free(dlist_entry(n, struct relay_write, node));
	}
}

void relay_gpu_close(struct relay_thread *r)
{
	struct dnode *n;

	if (!r->gpu)
		return;
	if (!gpu_stop(r->gpu)) {
		log_err("link %s: a GPU's driver hangs: its memory stays in use until the daemon ends", r->config.name);
		return;
	}
	r->gpu = NULL;
	free_writes(&r->written[0]);
	free_writes(&r->written[1]);
	while ((n = dlist_first(&r->copies))) {
		struct relay_copy *c = dlist_entry(n, struct relay_copy, node);

		free_writes(&c->writes);
		dlist_remove(n);
		free(c);
	}
	while ((n = dlist_first(&r->memories))) {
		struct relay_memory *mem = dlist_entry(n, struct relay_memory, node);

		free_writes(&mem->writes);
		memory_free(r, mem);
	}
}
