/* SPDX-License-Identifier: Apache-2.0 */
/* copy_exports.h - longreachd --exports: a server for each [Export] of the link files, each as its own user.
 *
 * This process keeps the right to become another user, and hears nobody. It starts a process per export, which connects
 * to the relay, becomes the user for good, and only then opens a file or hears the other site. SIGHUP reads the link
 * files again: what has changed is started anew. */
#ifndef COPY_EXPORTS_H
#define COPY_EXPORTS_H

#include "daemon/config/site_paths.h"

/* Returns the exit status. */
int copy_exports_run(const struct site_sources *sources);

#endif
