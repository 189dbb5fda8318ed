/* SPDX-License-Identifier: Apache-2.0 */
/* copy_source.h - a file of the source: its metadata, its data between holes, in pieces. */
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

/* Mode, times, owner. */
void source_meta(const struct stat *st, struct copy_meta *m);
/* And the xattrs of a file (fd) or a directory (path), as many as fit: they lie in buf then. */
void source_xattrs(int fd, const char *path, uint8_t buf[COPY_XATTRS_MAX], struct copy_meta *m);
/* The data of a file in pieces, to be freed. NULL: no memory, or a file that cannot be read. */
struct source_piece *source_pieces(int fd, uint64_t size, uint32_t *n);
/* True if the piece lies in the ranges that the other end has. A hole between two ranges is not there. */
bool source_is_there(const struct source_piece *p, const struct copy_range *range, uint32_t n);

#endif
