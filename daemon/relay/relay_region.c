/* SPDX-License-Identifier: Apache-2.0 */
/* relay_region.c - what programs of this site export, by name. */
#include "relay_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static struct relay_region *by_name(struct relay_thread *r, const char *name)
{
	uint32_t hint = r->region_hint;

	if (hint < r->nregions && r->region[hint].used && strcmp(r->region[hint].name, name) == 0)
		return &r->region[hint];
	for (uint32_t i = 0; i < r->nregions; i++)
		if (r->region[i].used && strcmp(r->region[i].name, name) == 0) {
			r->region_hint = i;
			return &r->region[i];
		}
	return NULL;
}

struct relay_region *relay_region_find(struct relay_thread *r, const char *name)
{
	struct relay_region *g = by_name(r, name);

	return g && !g->opening ? g : NULL;
}

static struct relay_region *place(struct relay_thread *r)
{
	for (uint32_t i = 0; i < r->nregions; i++)
		if (!r->region[i].used)
			return &r->region[i];
	return r->nregions < RELAY_REGIONS ? &r->region[r->nregions++] : NULL;
}

/* True if its bytes go with its last descriptor: a memfd, or a file in memory that has no name any more. */
static bool is_unnamed(const struct relay_file *f)
{
	struct stat st;

	return !f->mount && fstat(f->fd, &st) == 0 && st.st_nlink == 0;
}

int relay_region_add(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, int fd)
{
	struct relay_region *g;
	struct relay_file *f;
	int rc;

	if (fd < 0 || !m->name[0] || m->flags == 0 || m->flags & ~(uint32_t)(LR_PEER_READ | LR_PEER_WRITE) ||
	    m->offset > INT64_MAX || m->length > INT64_MAX - m->offset)
		return -EINVAL;
	rc = relay_file_check(fd, m->flags & LR_PEER_READ, m->flags & LR_PEER_WRITE);
	if (rc < 0)
		return rc;
	if (by_name(r, m->name))
		return -EEXIST;
	g = place(r);
	if (!g)
		return -ENOSPC;
	f = relay_file_new(r, fd, m->name);
	if (!f)
		return -EMFILE;
	*g = (struct relay_region){.used = true,
	                           .client = cl,
	                           .file = f,
	                           .is_memory = is_unnamed(f),
	                           .serial = ++r->nexported,
	                           .offset = m->offset,
	                           .size = m->length,
	                           .access = m->flags};
	memcpy(g->name, m->name, LR_NAME_MAX);
	memcpy(g->lived, m->local, sizeof(g->lived));
	f->region = g;
	return 0;
}

int relay_region_add_memory(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m,
                            struct relay_memory *mem, uint64_t size, struct relay_region **out)
{
	struct relay_region *g;

	if (!m->name[0] || m->flags & ~(uint32_t)(LR_PEER_READ | LR_PEER_WRITE))
		return -EINVAL;
	if (by_name(r, m->name))
		return -EEXIST;
	g = place(r);
	if (!g)
		return -ENOSPC;
	*g = (struct relay_region){.used = true,
	                           .client = cl,
	                           .memory = mem,
	                           .opening = true,
	                           .is_memory = true,
	                           .serial = ++r->nexported,
	                           .size = size,
	                           .access = m->flags};
	memcpy(g->name, m->name, LR_NAME_MAX);
	memcpy(g->lived, m->local, sizeof(g->lived));
	*out = g;
	return 0;
}

int relay_region_add_rdma(struct relay_thread *r, struct relay_client *cl, const struct lr_msg *m, struct rdma_memory *mem,
                          struct relay_region **out)
{
	int rc = relay_region_add_memory(r, cl, m, NULL, m->length, out);

	if (rc < 0)
		return rc;
	(*out)->rdma = mem;
	(*out)->opening = false;
	return 0;
}

/* client: is answered when its memory is not used any more. */
static void remove_region(struct relay_thread *r, struct relay_region *g, struct relay_client *client, uint32_t serial)
{
	g->used = false;
	if (g->memory)
		relay_gpu_forget(r, g->memory, client, serial);
	if (g->rdma)
		relay_rdma_forget(r, g->rdma, client, serial);
	if (g->file) {
		g->file->region = NULL;
		g->file->withdrawn = true;
		relay_file_unref(g->file);
	}
	while (r->nregions > 0 && !r->region[r->nregions - 1].used)
		r->nregions--;
}

void relay_region_drop(struct relay_thread *r, struct relay_region *g)
{
	remove_region(r, g, NULL, 0);
}

int relay_region_remove(struct relay_thread *r, struct relay_client *cl, const char *name, uint32_t serial)
{
	struct relay_region *g = relay_region_find(r, name);
	bool later;

	if (!g)
		return -ENOENT;
	if (g->client != cl)
		return -EPERM;
	later = g->memory != NULL || g->rdma != NULL;
	remove_region(r, g, cl, serial);
	return later;
}

enum lr_status relay_region_check(const struct relay_region *g, unsigned access, uint64_t offset, uint64_t length)
{
	if (!g)
		return LR_NO_REGION;
	if (!(g->access & access))
		return LR_PERMISSION;
	if (g->memory && g->memory->status != LR_OK)
		return g->memory->status;
	return offset > g->size || length > g->size - offset ? LR_OUT_OF_BOUNDS : LR_OK;
}

void relay_region_client_gone(struct relay_thread *r, const struct relay_client *cl)
{
	for (uint32_t i = r->nregions; i-- > 0;)
		if (i < r->nregions && r->region[i].used && r->region[i].client == cl)
			relay_region_drop(r, &r->region[i]);
}
