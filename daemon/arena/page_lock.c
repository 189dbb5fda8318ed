/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the first touch of a page is a fault that finds a page and fills it with zeros, of a huge page
 * half a millisecond's work or more. If the packet path touches the pages first, a link's first messages wait for tens
 * of such faults. */
#define _GNU_SOURCE /* a thread's name */
#include "page_lock.h"

#include <errno.h>
#include <net/if.h>
#include <numa.h>
#include <numaif.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/util/log.h"
#include "daemon/util/thread.h"

#define NODE_PATH_MAX 64
#define WHAT_MAX      80
#define NICE          10
#define STEP          ((size_t)2 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

/* --- placement --- */

static int numa_node_of(const char *ifname)
{
	char path[NODE_PATH_MAX + IF_NAMESIZE];
	FILE *file;
	int node = -1;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/numa_node", ifname);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}

/* Preferred, not bound: a full node is no reason to fail. */
void page_lock_bind_node(void *at, size_t len, const char *ifname, const char *what)
{
	struct bitmask *nodes;
	int node;

	if (!ifname || numa_available() < 0 || numa_max_node() == 0)
		return;
	node = numa_node_of(ifname);
	if (node < 0)
		return;
	nodes = numa_allocate_nodemask();
	numa_bitmask_setbit(nodes, (unsigned)node);
	if (mbind(at, len, MPOL_PREFERRED, nodes->maskp, nodes->size + 1, 0) < 0)
		log_warn("%s: the kernel does not place it on NUMA node %d: %s", what, node, strerror(errno));
	numa_free_nodemask(nodes);
}

/* --- taking pages --- */

struct page_lock {
	pthread_t thread;
	_Atomic bool stop;
	struct page_lock_piece piece[PAGE_LOCK_PIECES];
	char what[WHAT_MAX];
	bool locks; /* the thread's: false once the kernel refused a lock */
};

/* For older kernels: touches each page. Another thread may write into the same page, so a word is rewritten unchanged
 * in one atomic step. */
static void touch(uint8_t *at, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < len; i += page)
		__atomic_fetch_or((uint64_t *)(void *)(at + i), 0, __ATOMIC_RELAXED);
}

/* Takes the pages in steps, so that page_lock_stop() does not wait long. */
static void take(struct page_lock *r, const struct page_lock_piece *p)
{
	for (size_t i = 0; i < p->len && !atomic_load_explicit(&r->stop, memory_order_relaxed); i += STEP) {
		size_t n = p->len - i < STEP ? p->len - i : STEP;

		if (madvise(p->at + i, n, MADV_POPULATE_WRITE) < 0 && errno == EINVAL)
			touch(p->at + i, n);
		if (r->locks && mlock(p->at + i, n) < 0) {
			log_warn("%s: its memory can be swapped out, as the kernel does not lock it: %s (raise "
			         "LimitMEMLOCK= of the service)",
			         r->what, strerror(errno));
			r->locks = false;
		}
	}
}

static void *take_all(void *arg)
{
	struct page_lock *r = arg;

	pthread_setname_np(pthread_self(), "lr:memory");
	setpriority(PRIO_PROCESS, 0, NICE); /* packets first */
	for (unsigned i = 0; i < PAGE_LOCK_PIECES; i++)
		take(r, &r->piece[i]);
	return NULL;
}

struct page_lock *page_lock_start(const struct page_lock_piece *piece, const char *what)
{
	struct page_lock *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	atomic_init(&r->stop, false);
	r->locks = true;
	memcpy(r->piece, piece, sizeof(r->piece));
	snprintf(r->what, sizeof(r->what), "%s", what);
	if (thread_start(&r->thread, take_all, r) < 0) {
		free(r);
		return NULL;
	}
	return r;
}

void page_lock_stop(struct page_lock *r)
{
	if (!r)
		return;
	atomic_store_explicit(&r->stop, true, memory_order_relaxed);
	pthread_join(r->thread, NULL);
	free(r);
}
