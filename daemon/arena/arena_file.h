/* SPDX-License-Identifier: Apache-2.0 */
/* arena_file.h - the memory of one shard's arena: a named, locked file that outlives the process.
 *
 * `<dir>/<link>.<shard>.arena` holds the arena's region and behind it one page of our own, the trailer: which arena
 * this is (shard of how many, geometry, epoch) and whether anything was left in it. The core's own superblock inside
 * the region is not read here.
 *
 * An arena in use decides its shape, not the configuration: a start takes up the geometry in the trailer, whatever
 * Size=, MaxFlows=, Rate= or Distance= ask for by then. The number of shards, and the lanes, are common to all files of
 * a link, so the caller has to start with those of arena_file_spread(). The next arena begun has the shape that the
 * configuration asks for: a file is emptied by arena_file_close().
 *
 * A file gets its name when its trailer has been written, and takes the place of the drained arena before it in one
 * step: what that arena's trailer says of earlier arenas and of the other edge outlives a start that finds no room. A
 * file was damaged if it has the name but no valid trailer, or if the core does not find the arena that the trailer
 * promises. A damaged file is never formatted, as packets that hosts believe delivered may be in it, but renamed to
 * `...arena.damaged-<time>`, and a new file is made.
 *
 * The trailer names the boot of the machine in which the arena was last in use. An arena of another boot that was not
 * written to its disk by arena_file_settle() is set aside as well: the disk has pages of different times.
 *
 * arena_file_open() waits until the process that had the file before has ended, not only until its lock is gone: until
 * then that process's network cards may write into the arena.
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

/* How a link's flows are spread over its files. */
struct arena_spread {
	uint32_t nshards;
	uint64_t lanes; /* link_plan_lanes(): decides which lane a flow is on */
};

struct arena_file_params {
	const char *dir, *link;
	bool on_disk; /* dir may be on a file system that writes to a disk */
	uint32_t shard;
	struct arena_spread spread;
	struct arena_geometry geometry; /* of an arena that begins anew */
	uint64_t new_epoch;      /* if the file begins a new life */
	bool former_lost;        /* such a life has to report a lost arena of another shard: arena_file_check_others() */
	uint32_t nformer;        /* arena_file_former(): an arena of a later shard follows none that could be lost */
	const char *numa_ifname; /* place near this interface; NULL: anywhere */
};

struct arena_file {
	int fd;
	void *region;
	size_t map_len;
	struct arena_geometry geometry; /* an arena that was in use keeps its own */
	uint64_t epoch;
	bool former_kept; /* no arena before this one is lost with packets in it, or the other edge heard of that loss
	                   * in an earlier arena. The same at each start on this arena: a start may be killed before
	                   * its hello */
	uint64_t peer_epoch; /* epoch of the other edge's arena, as an earlier process wrote it; 0: not known */
	bool fresh; /* the arena is empty: format it. Otherwise rebuild */
	char path[320];
	char set_aside[360]; /* new name of a file that was set aside; empty: none was */
};

/* Opens or makes the file, locks and maps it. An arena in use is taken up with its own geometry. If its flows are
 * spread in another way, it is replaced if nothing is owed to any host, else kept: -EEXIST, and err (of errlen bytes)
 * says what would drain it. 0 or negative errno. */
int arena_file_open(struct arena_file *f, const struct arena_file_params *p, char *err, size_t errlen);

/* The core does not understand what is in the file: renames and closes it, so that the next arena_file_open() makes a
 * new one. why: what is wrong with the file, for a log line, behind its name. 0; -EMLINK if too many are kept already,
 * or another negative errno, with a sentence in err: then the file is as it was. */
int arena_file_set_aside(struct arena_file *f, const char *why, char *err, size_t errlen);

/* The core has formatted or rebuilt the arena: from now on it counts as in use, by this boot of the machine. */
void arena_file_in_use(struct arena_file *f);

/* Writes into the trailer whether packets of hosts are in the arena, for arena_file_debt() after a kill. Call before
 * the packets are acknowledged. */
void arena_file_say_owed(struct arena_file *f, bool owed);

/* Writes into the trailer whether packets in the arena may have been acknowledged before their responder had them, for
 * arena_file_owes_early(). Call before the first such ACK. */
void arena_file_say_early(struct arena_file *f, bool early);
/* The last value of arena_file_say_early(), of an earlier process, too; true if unknown. */
bool arena_file_was_early(const struct arena_file *f);

/* Writes into the trailer that the other edge has begun a session in which it knows this arena's epoch: if an arena
 * before is lost, the arenas that follow when this one has drained need not say so again. */
void arena_file_say_told(struct arena_file *f);

/* Writes the epoch of the other edge's arena into the trailer, for arena_file.peer_epoch of the next start. Call when
 * the core has begun the session with that arena: the flows of an earlier one are named then. */
void arena_file_say_peer(struct arena_file *f, uint64_t peer_epoch);

/* empty: nothing in it needs to be kept. */
void arena_file_close(struct arena_file *f, bool empty);

/* True if there is a file that holds packets, or may, and that no process has open. */
bool arena_file_left(const char *path);

/* How many shards the link had when its first file was made; SHARDS_MAX: not known. Call before arena_file_open(). */
uint32_t arena_file_former(const char *dir, const char *link);

/* Call when the link ends, or ends without having run: another boot of the machine may take up what is left in its
 * arenas. Waits until all of it is on the disk, if the file system has one. */
void arena_file_settle(const char *dir, const char *link);

/* The spread of the link's files in use, first of those that may owe something to a host. False: none is in use. */
bool arena_file_spread(const char *dir, const char *link, struct arena_spread *s);

static inline bool arena_file_same_geometry(const struct arena_geometry *a, const struct arena_geometry *b)
{
	return a->len == b->len && a->chunk_size == b->chunk_size && a->max_flows == b->max_flows &&
	       a->reserve_percent == b->reserve_percent;
}

/* Refuses (-EBUSY) if arenas of this link from a start with more shards may owe something; removes them if not.
 * untold: whether one that was removed had a lost arena before it, of which the other edge has not heard. */
int arena_file_check_others(const char *dir, const char *link, uint32_t nshards, bool *untold, char *err,
                            size_t errlen);

/* Directory= is another one, and nothing is owed to any host: removes the link's files in from_dir, and leaves in
 * to_dir what their trailers say of earlier arenas and of the other edge, for the next arenas. Files that cannot be
 * moved stay. */
void arena_file_move(const char *from_dir, const char *to_dir, const char *link);

enum arena_debt {
	ARENA_CLEAR,  /* nothing is owed to any host, or there is no file */
	ARENA_OWES,   /* packets of hosts are in it, or may be */
	ARENA_LOCKED, /* a daemon runs the link and has the file open: the file may owe, and that daemon answers for
	               * it */
};

/* The debt of all files of this link together. */
enum arena_debt arena_file_debt(const char *dir, const char *link);
/* The debt of one file. */
enum arena_debt arena_file_debt_of(const char *path);

/* Whether a file of this link, open somewhere or not, holds packets that may have been acknowledged early. */
bool arena_file_owes_early(const char *dir, const char *link);

#endif
