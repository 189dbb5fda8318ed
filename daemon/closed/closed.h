/* SPDX-License-Identifier: Apache-2.0 */
/* closed.h - the kernel's rules as the link files ask for them, whether a daemon runs or not. */
#ifndef DAEMON_CLOSED_H
#define DAEMON_CLOSED_H

#include "daemon/config/site_paths.h"

/* Of one link, as its buffers ask for: all that it takes if something is owed, or a daemon runs it; else RoCE. 0 or
 * negative errno with err (of errlen bytes) a sentence. Main thread only. */
int closed_rest(const struct link_config *c, char *err, size_t errlen);

/* RoCE between the prefixes of every link file is closed, and what its buffers owe; a file that cannot be understood, or
 * a directory that cannot be read, closes all RoCE that the kernel would forward. Rules of links whose files are gone
 * and that owe nothing are removed, if src is a directory and all of it could be listed. Links that a daemon runs keep what
 * they have.
 *
 * 0; -EINVAL if there was such a file; -EIO if rules could not be set. Either way everything that can be closed is, and
 * report says what was wrong. */
int closed_apply(const struct site_sources *src, char *report);

#endif
