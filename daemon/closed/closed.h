/* SPDX-License-Identifier: Apache-2.0 */
/* closed.h - the kernel's rules as the link files ask for them, whether a daemon runs or not. */
#ifndef DAEMON_CLOSED_H
#define DAEMON_CLOSED_H

#include <stdio.h>

#include "daemon/config/site_paths.h"

/* Barrier=auto of a link that acknowledges nothing early is on as long as its buffer owes what was, in a life with another
 * AckMode=: notes in c whether that is so now. */
void closed_note_owed(struct link_config *c);

/* Of one link, as its buffers ask for: all that it takes if something is owed, or a daemon runs it; else RoCE. 0 or
 * negative errno with err (of errlen bytes) a sentence. Main thread only. */
int closed_rest(const struct link_config *c, char *err, size_t errlen);

/* What this daemon's links run with, which may be other than what their files say by now: they keep their rules. */
struct closed_running {
	const struct link_config *list[SITES_MAX];
	uint32_t n;
};

/* RoCE between the prefixes of every link file is closed, and what its buffers owe; a file that cannot be understood, or
 * a directory that cannot be read, closes all RoCE that the kernel would forward. Rules of links whose files are gone
 * and that owe nothing are removed, if src is a directory and all of it could be listed. Links that a daemon runs keep what
 * they have. running: NULL if this is no daemon.
 *
 * 0; -EINVAL if there was such a file; -EIO if rules could not be set. Either way everything that can be closed is, and
 * report says what was wrong. */
int closed_apply(const struct site_sources *src, const struct closed_running *running, char *report);

/* A line for each file in which packets of hosts are, or may be: of the link files' links, also while a daemon runs them, and
 * of links whose files are gone; and one for each link file that cannot be understood, since nobody knows where its buffers
 * are. Nothing is changed. 0; -EINVAL if there was such a file, or a directory cannot be read, or there were too many to
 * list. */
int closed_list_owed(const struct site_sources *src, FILE *out);

/* After a change of the kernel's rules. If the table that closes all RoCE was there at the last call and has gone, it is
 * put back, unless every link file can be understood again (`longreachd --close` has then removed it). 1 if it was put
 * back; 0; negative errno with err (CONFIG_ERR_MAX) a sentence, and the next call tries again. Main thread only. */
int closed_keep_all(const struct site_sources *src, char *err);

#endif
