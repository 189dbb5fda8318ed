/* SPDX-License-Identifier: Apache-2.0 */
/* resident.h - memory that the packet path may touch at any time: near its NIC, there before it is needed, never
 * swapped out. */
#ifndef DAEMON_RESIDENT_H
#define DAEMON_RESIDENT_H

#include <stddef.h>
#include <stdint.h>

/* Wishes a fresh mapping onto the NUMA node of ifname (NULL, or one that has none: no wish). To be called before any of
 * its pages is touched. what: for the log. */
void resident_place(void *at, size_t len, const char *ifname, const char *what);

#define RESIDENT_PIECES 2

/* Whole pages, writable. */
struct resident_piece {
	uint8_t *at;
	size_t len;
};

struct resident;

/* Takes every page of RESIDENT_PIECES pieces and locks it, on a thread of its own: gigabytes take seconds, and hosts wait for a
 * daemon that comes back. They can be used meanwhile, and keep what they hold. Room for them must have been taken
 * (fallocate), or a full tmpfs ends the process. If they may not all be locked, they are taken all the same, and that
 * is logged once, with what in front. NULL if there is no thread: pages then come when they are touched. */
struct resident *resident_start(const struct resident_piece *pieces, const char *what);
/* Before one of the pieces is unmapped, ready or not. NULL does nothing. */
void resident_stop(struct resident *r);

#endif
