/* SPDX-License-Identifier: Apache-2.0 */
/* copy_beneath.h - operations on names beneath a directory that cannot leave it.
 *
 * Directories are opened with openat2(2): RESOLVE_BENEATH keeps a path from leading out of the directory that it begins
 * at, and RESOLVE_NO_MAGICLINKS from going through /proc. Beneath a session's directory no symbolic link is followed at
 * all (RESOLVE_NO_SYMLINKS): the other site may have put a link there. Everything else is done with (directory, one
 * component), and never follows a link. */
#ifndef COPY_BENEATH_H
#define COPY_BENEATH_H

#include <stdbool.h>
#include <sys/stat.h>

#include "copy/wire/copy_wire.h"

#define TEMPORARY_PREFIX ".longreach-" /* names that are not of users */
#define TEMPORARY_MAX    40

/* A directory of a session. Caches the last directory looked up, as the entries of a batch are mostly in the same
 * one. */
struct beneath {
	int base;
	int last; /* -1: none */
	char last_path[COPY_PATH_MAX + 1];
};

/* A name in a directory. fd is the directory's, and stays the struct beneath's. */
struct place {
	int fd;
	char name[COPY_NAME_MAX + 1];
};

/* A directory of an export; links in it that stay beneath the root are followed. mode: it is made with that if it is
 * not there, and those above it; 0: it is not made. An O_PATH descriptor, or -errno. */
int beneath_open_base(int root, const char *path, mode_t mode);
/* Takes base over. */
void beneath_init(struct beneath *b, int base);
void beneath_close(struct beneath *b);
/* Looks the directory up again, the next time. */
void beneath_forget(struct beneath *b);
/* Where path is; make: with the directories above it. 0 or -errno. */
int beneath_place(struct beneath *b, struct copy_bytes path, bool make, struct place *p);
/* The directory that path is, the empty path the base itself: for reading, or -errno. */
int beneath_open_dir(struct beneath *b, struct copy_bytes path);
/* A name for what is not yet whole, made from the name that it will have. */
void beneath_temporary(const char *name, const char *kind, char temporary[TEMPORARY_MAX]);
/* Renames a temporary name to its final one. Replaces what has that name, a directory only if it is empty. 0 or
 * -errno. */
int beneath_rename(const struct place *p, const char *temporary);

int beneath_check(const struct place *p, const struct copy_entry *e, uint8_t *state);
int beneath_make_dir(const struct place *p);
/* Lets the directory's owner write in it until its own mode comes. fd may be of O_PATH. */
int beneath_make_usable(int fd);
int beneath_write_file(const struct place *p, const struct copy_entry *e);
int beneath_make_symlink(const struct place *p, const struct copy_entry *e);
int beneath_make_link(const struct place *from, const struct place *p);
int beneath_remove(const struct place *p);
/* Mode, times, owner, xattrs of an open file or directory. xattrs that cannot be set there are left out. */
int beneath_set_meta(int fd, const struct copy_meta *m);
/* The same by its name. */
int beneath_set_meta_at(const struct place *p, const struct copy_meta *m);
uint8_t beneath_kind(mode_t mode);

#endif
