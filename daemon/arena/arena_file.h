/* SPDX-License-Identifier: Apache-2.0 */
/* arena_file.h - the memory of one shard's arena: a named, locked file that outlives the process.
 *
 * `<dir>/<link>.<shard>.arena` holds the arena's region and behind it one page of our own, the trailer: who
 * this is (shard of how many, geometry, epoch) and whether anything was left in it. The core's own superblock inside
 * the region is not read here.
 *
 * A file gets its name when its trailer has been written. One that has the name and no trailer that can be believed, or
 * in which the core does not find the arena that the trailer promises, was damaged: it is never formatted, as packets
 * that hosts believe delivered may be in it, but renamed to `...arena.damaged-<time>`, and a new one is made.
 *
 * Who opens a file waits until the process that had it before has ended, not only until its lock is gone: until then
 * that one's network cards may write into the arena.
 *
 * All room is taken at start, so that a full file system is an error message and not a SIGBUS in the middle of a
 * packet. The file is placed on the NUMA node of the LAN port, in huge pages where the mount has them, and left
 * out of core dumps. */
#ifndef DAEMON_ARENA_FILE_H
#define DAEMON_ARENA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/proxy.h"

#define ARENA_SET_ASIDE ".damaged-" /* behind the name of a file that was set aside; then the time */

/* Length of the file of a region on a file system with pages of that size, and its name. */
uint64_t arena_file_bytes(uint64_t region_len, uint64_t page_bytes);
void arena_file_name(char *path, size_t size, const char *dir, const char *link, uint32_t shard);

struct arena_file_params {
	const char *dir, *link;
	bool on_disk; /* dir may be on a file system that writes to a disk */
	uint32_t shard, nshards;
	uint64_t lanes; /* what decides which lane a flow is on: link_plan_lanes() */
	struct arena_geometry geometry;
	uint64_t new_epoch;      /* if the file begins a new life */
	const char *numa_ifname; /* place near this interface; NULL: anywhere */
};

struct arena_file {
	int fd;
	void *region; /* geometry.len bytes */
	size_t map_len;
	uint64_t epoch;
	bool drained; /* fresh, and the one before says that nothing was left in it */
	bool fresh; /* nothing in it: format. Otherwise rebuild */
	char path[320];
	char set_aside[360]; /* what the file that was there is called now; empty: there was none, or it is this one */
};

/* Opens or makes the file, locks and maps it. An arena that holds something is only taken up with the same geometry
 * and number of shards; otherwise it is kept and err (of errlen bytes) says what would drain it.
 * 0 or negative errno. */
int arena_file_open(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen);

/* The core does not understand what is in the file: renames and closes it, so that the next arena_file_open() makes a new
 * one. why: what is wrong with it, to be said behind its name. 0; -EMLINK if too many are kept already, or another
 * negative errno, with a sentence in err: then the file is as it was. */
int arena_file_set_aside(struct arena_file *f, const char *why, char *err, size_t errlen);

/* The core has formatted or rebuilt the arena: from now on it counts as in use. */
void arena_file_in_use(struct arena_file *f);

/* Whether packets of hosts are in it, for arena_file_debt() after a sudden end: said before they are acknowledged. */
void arena_file_say_owed(struct arena_file *f, bool owed);

/* Whether what is held in it may have been acknowledged before its responder had it, for arena_file_owes_early(): said
 * before the first packet is. */
void arena_file_say_early(struct arena_file *f, bool early);
/* What was said of it last; true if nothing was. */
bool arena_file_was_early(const struct arena_file *f);

/* empty: nothing in it needs to be kept. */
void arena_file_close(struct arena_file *f, bool empty);

/* Whether there is a file that holds something, or may, and that nobody has open. */
bool arena_file_left(const char *path);

/* Refuses (-EBUSY) if arenas of this link from a start with more shards still hold something; removes them if not. */
int arena_file_check_others(const char *dir, const char *link, uint32_t nshards, char *err, size_t errlen);

enum arena_debt {
	ARENA_CLEAR,  /* nothing is owed to anybody, or there is no file */
	ARENA_OWES,   /* packets of hosts are in it, or may be */
	ARENA_LOCKED, /* a daemon runs the link and has it open: it may owe, and answers for that itself */
};

/* Of all files of this link. */
enum arena_debt arena_file_debt(const char *dir, const char *link);
/* Of one of them. */
enum arena_debt arena_file_debt_of(const char *path);

/* Whether a file of this link, open somewhere or not, holds packets that may have been acknowledged early. */
bool arena_file_owes_early(const char *dir, const char *link);

#endif
