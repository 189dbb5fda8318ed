/* SPDX-License-Identifier: Apache-2.0 */
/* arena_scan.h - buffers in the links' directories that no link will ever drain: buffers of a link whose file was
 * renamed or removed, and buffers that were set aside as damaged. Packets that hosts believe delivered may be in
 * them. */
#ifndef DAEMON_ARENA_SCAN_H
#define DAEMON_ARENA_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/config.h"

enum stray_kind {
	STRAY_UNCLAIMED, /* in use, of a link that is not configured */
	STRAY_SET_ASIDE, /* damaged: arena_file_set_aside() */
};

#define STRAYS_MAX     256 /* strays that are listed */
#define STRAY_PATH_MAX 512
#define STRAY_TEXT_MAX (STRAY_PATH_MAX + LINK_NAME_MAX + 256)

struct arena_stray {
	enum stray_kind kind;
	char path[STRAY_PATH_MAX];
	char link[LINK_NAME_MAX]; /* the link that its name tells */
	uint64_t bytes;           /* of the file */
};

/* A link that is configured, and where its buffers are. */
struct arena_claim {
	const char *link, *dir;
};

/* Looks through the directories of the claims and ARENA_DIR_DEFAULT. Skips buffers that another process has open.
 * Returns how many were found, at most max, by directory and name. *all false: there may be more, as max were found or
 * a directory cannot be read; all may be NULL. */
uint32_t arena_scan(const struct arena_claim *claims, uint32_t nclaims, struct arena_stray *out, uint32_t max, bool *all);

static inline const char *stray_kind_name(enum stray_kind kind)
{
	return kind == STRAY_SET_ASIDE ? "set_aside" : "unclaimed";
}

/* A sentence: what the buffer is and what to do about it. Returns text. */
const char *stray_text(const struct arena_stray *s, char text[STRAY_TEXT_MAX]);

#endif
