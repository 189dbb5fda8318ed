/* SPDX-License-Identifier: Apache-2.0 */
/* no_numa.h - one node, as libnuma says on a machine without NUMA: for tests that include page_lock.c or gpu.c. */
#ifndef TESTS_NO_NUMA_H
#define TESTS_NO_NUMA_H

#include <numa.h>
#include <numaif.h>
#include <stddef.h>

int numa_available(void)
{
	return -1;
}

int numa_max_node(void)
{
	return 0;
}

/* So nothing below is reached. */
struct bitmask *numa_allocate_nodemask(void)
{
	return NULL;
}

struct bitmask *numa_bitmask_setbit(struct bitmask *m, unsigned n)
{
	(void)n;
	return m;
}

void numa_bitmask_free(struct bitmask *m)
{
	(void)m;
}

void numa_tonode_memory(void *start, size_t len, int node)
{
	(void)start, (void)len, (void)node;
}

long mbind(void *start, unsigned long len, int mode, const unsigned long *nmask, unsigned long maxnode, unsigned flags)
{
	(void)start, (void)len, (void)mode, (void)nmask, (void)maxnode, (void)flags;
	return -1;
}

#endif
