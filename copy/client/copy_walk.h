/* SPDX-License-Identifier: Apache-2.0 */
/* copy_walk.h - the source trees, entry by entry, by their names: a directory before what is in it, and again behind it.
 *
 * A directory is opened beneath its source's own, and no symbolic link is followed on the way (source_open_beneath()). */
#ifndef COPY_WALK_H
#define COPY_WALK_H

#include <stdbool.h>
#include <sys/stat.h>

#include "copy_options.h"
#include "copy_source.h"

struct walk;

enum walk_what {
	WALK_ENTRY, /* a file, directory, or symbolic link */
	WALK_LEFT,  /* the directory is through */
	WALK_OTHER, /* a device, socket or pipe: is not copied */
	WALK_ERROR, /* error: errno. In place of WALK_LEFT: the directory was not read to its end */
};

struct walk_entry {
	enum walk_what what;
	int error;
	const char *src;             /* valid until the next call */
	struct source_path at;       /* of src: see source_open() */
	const char *target;          /* of a symbolic link, valid until the next call */
	char dst[COPY_PATH_MAX + 1]; /* relative to the place that is copied to; empty: that place itself */
	struct stat st;
};

/* name: what the only source is called there; NULL: as here. NULL: no memory. */
struct walk *walk_open(const struct copy_options *o, const char *name);
void walk_close(struct walk *w);
/* False: that was all. */
bool walk_next(struct walk *w, struct walk_entry *e);
/* Whether an --exclude fits: path is relative to the place that is copied to. */
bool walk_excludes(const struct copy_options *o, const char *path, bool is_directory);
/* The name of a source at the other end: empty if the source ends in a slash. Points into source or name. Its length in
 * *len. */
const char *walk_name_of(const char *source, size_t *len);

#endif
