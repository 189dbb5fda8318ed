/* SPDX-License-Identifier: Apache-2.0 */
/* copy_source.h - a file of the source: how it is opened, its metadata, its data between holes, in pieces.
 *
 * The owner of a source tree may replace a directory by a symbolic link while another user copies the tree. So what lies
 * in a source is opened beneath the source's own directory with openat2(2): no path leads out of that, and no link is
 * followed. */
#ifndef COPY_SOURCE_H
#define COPY_SOURCE_H

#include <sys/stat.h>

#include "copy/wire/copy_wire.h"

enum piece_state { PIECE_TODO, PIECE_UNDER_WAY, PIECE_THERE };

struct source_piece {
	uint64_t offset, hash;
	uint32_t length;
	uint8_t state;
	bool hashed;
};

#define SOURCE_ROOTS 16

/* Where a path of the source leads. */
struct source_path {
	uint32_t source; /* its index */
	uint32_t skip;   /* bytes of the path in front of what lies beneath the source; 0: the path is the source's own */
};

/* Directories of sources, kept open. */
struct source_roots {
	char *const *source; /* their paths */
	struct {
		uint32_t next; /* 1 + the source's index, 0: this place is free */
		int fd;
	} at[SOURCE_ROOTS];
};

/* Opens what path is beneath the directory. A descriptor, or -errno. */
int source_open_beneath(int root, const char *path, int flags);
/* Opens a path of the source, which is no symbolic link. A descriptor, or -errno. */
int source_open(struct source_roots *r, const char *path, struct source_path at, int flags);
void source_roots_close(struct source_roots *r);

/* Mode, times, owner. */
void source_meta(const struct stat *st, struct copy_meta *m);
/* And the xattrs of a file or a directory, as many as fit: they lie in buf then. */
void source_xattrs(int fd, uint8_t buf[COPY_XATTRS_MAX], struct copy_meta *m);
/* The data of a file in pieces, to be freed. NULL: no memory, or a file that cannot be read. */
struct source_piece *source_pieces(int fd, uint64_t size, uint32_t *n);
/* True if the piece lies in the ranges that the other end has. A hole between two ranges is not there. */
bool source_is_there(const struct source_piece *p, const struct copy_range *range, uint32_t n);

#endif
