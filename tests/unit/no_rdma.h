/* SPDX-License-Identifier: Apache-2.0 */
/* no_rdma.h - no clients by RDMA: for tests that include files of the relay's thread without relay_rdma.c. */
#ifndef TESTS_NO_RDMA_H
#define TESTS_NO_RDMA_H

#include "daemon/relay/relay_rdma.h"

enum lr_status relay_rdma_read(struct relay_thread *r, const struct relay_remote *m, uint64_t offset, uint32_t len,
                     struct relay_channel_out *ch, struct relay_take *t, const struct relay_chunk *c)
{
	(void)r, (void)m, (void)offset, (void)len, (void)ch, (void)t, (void)c;
	return LR_NO_ROOM;
}

enum lr_status relay_rdma_write(struct relay_thread *r, const struct relay_remote *m, uint64_t offset,
                                const struct relay_chunk *c, const uint8_t *data, uint32_t len, uint64_t op)
{
	(void)r, (void)m, (void)offset, (void)c, (void)data, (void)len, (void)op;
	return LR_NO_ROOM;
}

bool relay_rdma_may_take(const struct relay_remote *m, const struct relay_channel_out *ch)
{
	(void)m, (void)ch;
	return false;
}

void relay_rdma_took(const struct relay_remote *m, struct relay_channel_out *ch, int n)
{
	(void)m, (void)ch, (void)n;
}

enum lr_status relay_rdma_notice(struct relay_thread *r, const struct relay_remote *m, const struct relay_chunk *c)
{
	(void)r, (void)m, (void)c;
	return LR_NO_ROOM;
}

void relay_rdma_event(struct relay_thread *r, struct rdma_conn *conn, const struct lr_msg *m)
{
	(void)r, (void)conn, (void)m;
}

struct relay_remote relay_rdma_exported(struct rdma_memory *mem)
{
	(void)mem;
	return (struct relay_remote){0};
}

struct relay_region *relay_rdma_region(const struct rdma_memory *mem)
{
	(void)mem;
	return NULL;
}

void relay_rdma_forget(struct relay_thread *r, struct rdma_memory *mem, const struct relay_client *client, uint32_t serial)
{
	(void)r, (void)mem, (void)client, (void)serial;
}

#endif
