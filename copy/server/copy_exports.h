/* SPDX-License-Identifier: Apache-2.0 */
/* copy_exports.h - longreachd --exports: a server for each [Export] of the link files, each as its own user.
 *
 * This process keeps the right to change its user, and reads no input of others. It starts a process per export, which
 * connects to the relay, changes to the user for good, and only then opens a file or reads messages of the other site.
 * SIGHUP reads the link files again: what has changed is started anew.
 *
 * An export has two processes: one writes and looks (copy_serve.h), the other sends what is there to the other site. */
#ifndef COPY_EXPORTS_H
#define COPY_EXPORTS_H

#include "daemon/config/site_paths.h"
#include "lib/longreach.h"

/* Serves copies out of an export whose root is this process's, as its user. Returns when the daemon has gone. */
typedef int (*copy_offer_fn)(struct lr *h, const char *export);

/* Returns the exit status. offer: the second process of each export, which may see nothing but what is beneath its path
 * (chroot(2)): symbolic links, and directories that are replaced meanwhile, cannot lead it out. */
int copy_exports_run(const struct site_sources *sources, copy_offer_fn offer);

#endif
