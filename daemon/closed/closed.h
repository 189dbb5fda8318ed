/* SPDX-License-Identifier: Apache-2.0 */
/* closed.h - sets the kernel's rules as the link files ask for them, whether a daemon runs or not. */
#ifndef DAEMON_CLOSED_H
#define DAEMON_CLOSED_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/config/site_paths.h"

/* Barrier=auto is on for a link without early ACKs as long as its buffer owes packets that were acknowledged early,
 * under an earlier AckMode=: notes in c whether this holds now. */
void closed_note_owed(struct link_config *c);

/* Closes one link: all IP that it carries if its buffers owe something, or a daemon runs it; else RoCE only. Logs what
 * another program had removed of the rules that this process had set. 0, or 1 if that was something; negative errno with
 * err (of errlen bytes) a sentence. Main thread only. */
int closed_rest(const struct link_config *c, char *err, size_t errlen);

/* The configurations of this daemon's links, which may differ from their files: these links keep their rules. */
struct closed_links {
	const struct link_config *list[SITES_MAX];
	bool runs[SITES_MAX];
	uint32_t n;
	const struct link_config *gone; /* ngone links that it has just stopped because their files are gone */
	uint32_t ngone;
};

/* Closes RoCE between the prefixes of every link file, and all IP of a link whose buffers owe packets. A file that
 * cannot be understood, or a directory that cannot be read, closes all RoCE that the kernel would forward. Removes
 * rules of links whose files are gone and that owe nothing, if src is a directory that could be listed completely;
 * those of links->gone in any case, behind all that is closed. Links that a daemon runs keep their rules. links: NULL
 * if this is no daemon. A file that cannot be understood closes nothing more if its link runs.
 *
 * 0; -EINVAL if there was such a file or directory; -EIO if rules could not be set. In any case everything that can be
 * closed is closed, and report says what was wrong. */
int closed_apply(const struct site_sources *src, const struct closed_links *links, char *report);

/* As closed_apply() of a process that is no daemon, for a moment that nobody has chosen: sets and removes nothing
 * because a file is gone, which may be on its way from one name to another. What closes all RoCE stays as long as its
 * nft table does, or until all files that could not be understood are there and have been understood, with the same
 * content, at calls of three seconds or more: call it again every few seconds while closed_all(). */
int closed_restore(const struct site_sources *src, char *report);

/* A daemon sets the rules from here on: closed_restore() takes none for removed by another program only because this
 * process had set others before. Not for the daemon itself. Main thread only. */
void closed_forget(void);

/* Logs the lines of a report (SITES_REPORT_MAX) that are not in `said`, and adds them there. The report is cut up. */
void closed_log(char *report, char *said);

/* Prints a line for each arena file that holds packets of hosts, or may: of the link files' links, also while a daemon
 * runs them, and of links whose files are gone; and a line for each link file that cannot be understood, since its
 * buffers are unknown. Changes nothing. 0; -EINVAL if there was such a file, or a directory cannot be read, or there
 * were too many to list. */
int closed_list_owed(const struct site_sources *src, FILE *out);

/* Call after a change of the kernel's rules. Puts back what closes all RoCE, the nft table and the rules in front of the
 * routing tables, and logs that, if closed_apply() or, seen at an earlier call, `longreachd --close` has set it, unless
 * the table is gone and every link file can be understood again (`--close` has then removed it). 1 if something was put
 * back; 0; negative errno with err (CONFIG_ERR_MAX) a sentence, and the next call tries again. Main thread only. */
int closed_keep_all(const struct site_sources *src, char *err);

/* True while all RoCE is closed because a link file cannot be understood, as of the last call of closed_apply() or
 * closed_keep_all(). Main thread only. */
bool closed_all(void);

#endif
