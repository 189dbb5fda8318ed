/* SPDX-License-Identifier: Apache-2.0 */
/* page_lock.h - memory of the packet path: on the NUMA node of its NIC, taken before it is touched, never swapped
 * out. */
#ifndef DAEMON_PAGE_LOCK_H
#define DAEMON_PAGE_LOCK_H

#include <stddef.h>
#include <stdint.h>

/* Wishes a fresh mapping onto the NUMA node of ifname (NULL, or one that has none: no wish). To be called before any of
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
 * wait for a daemon that comes back. They can be used meanwhile, and keep what they hold. Room for them must have been taken
 * (fallocate), or a full tmpfs ends the process. If they may not all be locked, they are taken all the same, and that
 * is logged once, with what in front. NULL if there is no thread: pages then come when they are touched. */
struct page_lock *page_lock_start(const struct page_lock_piece *pieces, const char *what);
/* Before one of the pieces is unmapped, ready or not. NULL does nothing. */
void page_lock_stop(struct page_lock *r);

#endif
