/* SPDX-License-Identifier: Apache-2.0 */
/* secret_mem.c - what is not to be in a core dump.
 *
 * OpenSSL keeps private keys, pre-shared keys, traffic secrets and key schedules wherever malloc() puts them. It has a
 * heap of its own for secrets (CRYPTO_secure_malloc(3)), but uses it only for what a program asks it to. So all that
 * OpenSSL allocates is taken from that heap here; what does not fit is ordinary memory, as before. */
#define _GNU_SOURCE /* MADV_DONTDUMP */
#include "seal/secret_mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <openssl/crypto.h>

/* A connection takes some 100 KB; pages are there when they are used. A power of two. */
#define HEAP_BYTES (64u << 20)
#define HEAP_LEAST 32 /* bytes of an allocation */

void *secret_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	secret_hide(p, len);
	mlock(p, len); /* best effort: RLIMIT_MEMLOCK may be small */
	return p;
}

void secret_unmap(void *p, size_t len)
{
	if (p == NULL)
		return;
	OPENSSL_cleanse(p, len);
	munmap(p, len);
}

void secret_hide(void *p, size_t len)
{
	madvise(p, len, MADV_DONTDUMP);
}

/* --- OpenSSL's --- */

/* Until the heap is there, which is made with these. Without file and line it raises no error when it is full. */
static void *heap_malloc(size_t len, const char *file, int line)
{
	void *p = CRYPTO_secure_malloc_initialized() ? CRYPTO_secure_malloc(len, NULL, 0) : NULL;

	(void)file;
	(void)line;
	return p != NULL ? p : malloc(len);
}

static void heap_free(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	if (p != NULL && CRYPTO_secure_allocated(p))
		CRYPTO_secure_clear_free(p, CRYPTO_secure_actual_size(p), NULL, 0);
	else
		free(p);
}

static void *heap_realloc(void *p, size_t len, const char *file, int line)
{
	size_t had;
	void *q;

	if (p == NULL)
		return heap_malloc(len, file, line);
	if (!CRYPTO_secure_allocated(p))
		return realloc(p, len);
	had = CRYPTO_secure_actual_size(p);
	if (len <= had && len > 0)
		return p;
	q = len > 0 ? heap_malloc(len, file, line) : NULL;
	if (q != NULL)
		memcpy(q, p, had);
	if (q != NULL || len == 0)
		heap_free(p, file, line);
	return q;
}

bool secret_openssl(void)
{
	return CRYPTO_set_mem_functions(heap_malloc, heap_realloc, heap_free) == 1 &&
	       CRYPTO_secure_malloc_init(HEAP_BYTES, HEAP_LEAST) != 0;
}
