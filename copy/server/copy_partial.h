/* SPDX-License-Identifier: Apache-2.0 */
/* copy_partial.h - a file that has not all arrived: its bytes under a temporary name, and the journal of its pieces.
 *
 * A piece is entered when its bytes, read back, have the sender's hash. The journal lies beside the file and outlives
 * this process and the machine. The journal may be ahead of the bytes then, as nothing is synced: so pieces entered by
 * an earlier process are read back once more before they count. A journal with another size or time of the source is
 * ignored. */
#ifndef COPY_PARTIAL_H
#define COPY_PARTIAL_H

#include "copy_beneath.h"

struct piece {
	uint64_t offset, length, hash;
};

struct partial {
	int dir; /* its own descriptor of the directory */
	int fd, journal;
	char name[COPY_NAME_MAX + 1];
	char temporary[TEMPORARY_MAX], journal_name[TEMPORARY_MAX];
	uint64_t size;
	int64_t mtime_s; /* of the source */
	uint32_t mtime_ns;
	uint64_t journal_at; /* up to here it was read back, 0: all of it */
	uint64_t synced;     /* bytes that were written to the disk for a COMMIT that is not through */
	struct piece *piece; /* by offset */
	uint32_t npieces, room;
};

/* Opens or makes both files. anew: discards what an earlier try has left. 0 or -errno. */
int partial_open(struct partial *f, const struct place *p, const struct copy_entry *e);
/* Reads back what the journal says, until that time (clock_now_ns()), and one piece at least. False: not all. Pieces
 * that are entered meanwhile are not in the journal: they are sent again if this process ends. */
bool partial_read_back(struct partial *f, uint64_t until_ns);
/* Closes it; what is there stays for a later try. */
void partial_close(struct partial *f);
/* Reads the piece back. True: its hash is right, and it is entered. */
bool partial_enter(struct partial *f, const struct piece *p);
/* Makes room for the first range that is missing: takes the blocks for it, without a change of its bytes. A
 * put that found no room there has told the sender only that it failed. 0, or -errno: -ENOSPC, -EDQUOT, -EIO ... */
int partial_make_room(struct partial *f);
/* Lists the ranges that are there, adjacent pieces as one range: at most COPY_RANGES_MAX. */
uint32_t partial_ranges(const struct partial *f, struct copy_range range[COPY_RANGES_MAX]);
/* Gives the file its name. 1: the digest differs, and the file stays partial. -EAGAIN: not all is on the disk by
 * that time (clock_now_ns()), and the next call goes on. 0, or another -errno: it is to be closed. If its bytes could
 * not be written to the disk, they and the journal are gone, and a later try begins anew. */
int partial_commit(struct partial *f, const struct copy_entry *e, uint64_t until_ns);

#endif
