/* SPDX-License-Identifier: Apache-2.0 */
/* secret_mem.h - memory for keys, and for what hosts send: in no core dump, not swapped out if the limits allow it. */
#ifndef SEAL_SECRET_MEM_H
#define SEAL_SECRET_MEM_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, aligned to a page. NULL: no memory. */
void *secret_map(size_t len);
/* Wipes it first. p may be NULL. */
void secret_unmap(void *p, size_t len);
/* Memory that somebody else has mapped, whole pages of it, is in no core dump from here on. */
void secret_hide(void *p, size_t len);

/* All of OpenSSL's memory is such from here on: keys of TLS, and what it computes from them. Once, before OpenSSL is
 * used for the first time. False: it stays ordinary memory. */
bool secret_openssl(void);

#endif
