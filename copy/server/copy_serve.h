/* SPDX-License-Identifier: Apache-2.0 */
/* copy_serve.h - the server of one export: carries out what senders of the other site ask for, as the user that it is.
 *
 * One process, one thread, one connection to the relay. What it keeps is bounded: sessions, open files, and the pieces
 * of each by the file's size. Nothing of a session is needed for going on with it: a sender that finds another server
 * opens another session, and what had arrived is in the journals (copy_partial.h). */
#ifndef COPY_SERVE_H
#define COPY_SERVE_H

#include <stdbool.h>

#include "lib/longreach.h"

struct copy_export {
	const char *name;
	int root; /* the directory */
	bool writable;
};

/* Serves until the daemon has gone: -EPIPE. -EEXIST: somebody else serves this export. */
int copy_serve(struct lr *h, const struct copy_export *export);

#endif
