/* SPDX-License-Identifier: Apache-2.0 */
/* page_lock.h - memory of the packet path: on the NUMA node of its NIC, taken before it is touched, never swapped
 * out. */
#ifndef DAEMON_PAGE_LOCK_H
#define DAEMON_PAGE_LOCK_H

#include <stddef.h>
#include <stdint.h>

/* Asks for the memory of a fresh mapping on the NUMA node of ifname (NULL, or no node: no request). Call before any of
 * its pages is touched. what: for the log. */
void page_lock_bind_node(void *at, size_t len, const char *ifname, const char *what);

#define PAGE_LOCK_PIECES 2

/* Whole pages, writable. */
struct page_lock_piece {
	uint8_t *at;
	size_t len;
};

struct page_lock;

/* Takes every page of PAGE_LOCK_PIECES pieces and locks it, on a thread of its own: gigabytes take seconds, and hosts
 * wait for a daemon that comes back. The pages can be used meanwhile, and keep their contents. Room for them must have
 * been taken (fallocate), or a full tmpfs ends the process. Pages that may not be locked are taken all the same, and
 * one log line says so, with `what` in front. NULL if no thread could be started: pages are then taken when they are
 * touched. */
struct page_lock *page_lock_start(const struct page_lock_piece *pieces, const char *what);
/* Call before one of the pieces is unmapped, whether the thread is done or not. NULL does nothing. */
void page_lock_stop(struct page_lock *r);

#endif
