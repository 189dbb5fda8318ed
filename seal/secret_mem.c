/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* MADV_DONTDUMP, MADV_WIPEONFORK */
#include "seal/secret_mem.h"

#include <sys/mman.h>

#include <openssl/crypto.h>

void *secret_map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, MADV_DONTDUMP);
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
