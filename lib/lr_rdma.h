/* SPDX-License-Identifier: Apache-2.0 */
/* lr_rdma.h - the relay of a link over RDMA: what longreach.c calls for a handle that was opened by an address. */
#ifndef LR_RDMA_H
#define LR_RDMA_H

#include "longreach.h"

struct lr_rdma;
struct lr_verbs;

#define LR_RDMA_SCHEME "rdma:" /* ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT */

/* verbs: of a test, NULL: the machine's. Errors as lr_open()'s. */
int lr_rdma_open(const char *address, const struct lr_verbs *verbs, struct lr_rdma **out);
void lr_rdma_close(struct lr_rdma *c);
int lr_rdma_fd(const struct lr_rdma *c);
int lr_rdma_transfer(struct lr_rdma *c, uint32_t type, const struct lr_transfer *t, uint64_t *op);
int lr_rdma_cancel(struct lr_rdma *c, uint64_t op);
/* lr_export(), or with memory lr_export_memory(). */
int lr_rdma_export(struct lr_rdma *c, const char *name, int fd, void *memory, uint64_t offset, uint64_t size, unsigned access);
int lr_rdma_unexport(struct lr_rdma *c, const char *name);
/* Ends the connection, and makes another one to the same edge. The caller closes the old one. */
int lr_rdma_reopen(struct lr_rdma *old, struct lr_rdma **out);
int lr_rdma_wait(struct lr_rdma *c, struct lr_event *ev, int timeout_ms);

#endif
