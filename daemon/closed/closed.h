/* SPDX-License-Identifier: Apache-2.0 */
/* closed.h - sets the kernel's rules as the link files ask for them, whether a daemon runs or not. */
#ifndef DAEMON_CLOSED_H
#define DAEMON_CLOSED_H

#include <stdio.h>

#include "daemon/config/site_paths.h"

/* Barrier=auto is on for a link without early ACKs as long as its buffer owes packets that were acknowledged early,
 * under an earlier AckMode=: notes in c whether this holds now. */
void closed_note_owed(struct link_config *c);

/* Closes one link: all IP that it carries if its buffers owe something, or a daemon runs it; else RoCE only. 0 or
 * negative errno with err (of errlen bytes) a sentence. Main thread only. */
int closed_rest(const struct link_config *c, char *err, size_t errlen);

/* The configurations that this daemon's links run with, which may differ from their files: running links keep their
 * rules. */
struct closed_running {
	const struct link_config *list[SITES_MAX];
	uint32_t n;
};

/* Closes RoCE between the prefixes of every link file, and all IP of a link whose buffers owe packets. A file that
 * cannot be understood, or a directory that cannot be read, closes all RoCE that the kernel would forward. Removes
 * rules of links whose files are gone and that owe nothing, if src is a directory that could be listed completely.
 * Links that a daemon runs keep their rules. running: NULL if this is no daemon.
 *
 * 0; -EINVAL if there was such a file or directory; -EIO if rules could not be set. In any case everything that can be
 * closed is closed, and report says what was wrong. */
int closed_apply(const struct site_sources *src, const struct closed_running *running, char *report);

/* Prints a line for each arena file that holds packets of hosts, or may: of the link files' links, also while a daemon
 * runs them, and of links whose files are gone; and a line for each link file that cannot be understood, since its
 * buffers are unknown. Changes nothing. 0; -EINVAL if there was such a file, or a directory cannot be read, or there
 * were too many to list. */
int closed_list_owed(const struct site_sources *src, FILE *out);

/* Call after a change of the kernel's rules. Puts back the table that closes all RoCE if it was there at the last call
 * and is gone, unless every link file can be understood again (`longreachd --close` has then removed it). 1 if the
 * table was put back; 0; negative errno with err (CONFIG_ERR_MAX) a sentence, and the next call tries again. Main
 * thread only. */
int closed_keep_all(const struct site_sources *src, char *err);

#endif
