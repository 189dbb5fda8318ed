/* SPDX-License-Identifier: Apache-2.0 */
/* secret_mem.h - memory for keys: in no core dump, not swapped out if the limits allow it, wiped when it is freed. */
#ifndef SEAL_SECRET_MEM_H
#define SEAL_SECRET_MEM_H

#include <stddef.h>

/* Zeroed, aligned to a page. NULL: no memory. */
void *secret_map(size_t len);
void secret_unmap(void *p, size_t len);

#endif
