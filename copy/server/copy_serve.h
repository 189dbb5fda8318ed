/* SPDX-License-Identifier: Apache-2.0 */
/* copy_serve.h - the server of one export: carries out requests of the other site's senders, with the rights of its
 * user.
 *
 * One process, one thread, one connection to the relay. Its memory is bounded: sessions, open files, and the pieces of
 * each by the file's size. A session's state is not needed to go on: a sender that finds a new server opens a new
 * session, and arrived pieces are in the journals (copy_partial.h). */
#ifndef COPY_SERVE_H
#define COPY_SERVE_H

#include <stdbool.h>

#include "lib/longreach.h"

/* Callbacks for a program that does other work while it serves. Each returns false to end the serving. */
struct copy_hooks {
	void *arg;
	bool (*serving)(void *arg, struct lr *h);                           /* the service is there */
	bool (*event)(void *arg, struct lr *h, const struct lr_event *ev);  /* called after the server has handled the
	                                                                     * event */
	bool (*tick)(void *arg, struct lr *h);                              /* at least five times a second */
	void (*say)(void *arg, uint8_t stream, const uint8_t *text, size_t len); /* COPY_SAY */
};

struct copy_export {
	const char *name;
	const char *path; /* the directory: opened for each session, as a mount may come later or go. NULL: root */
	int root;         /* the directory, -1: path */
	bool writable;
	bool is_pulled; /* a copy from the other site fills it: its files are regions copy.pull.HASH, which any user's
	                 * program may export (relay_client.c) */
	const struct copy_hooks *hooks; /* NULL: none */
	uint64_t files, bytes;          /* received so far, for display */
};

/* Serves until the daemon has gone: -EPIPE; or a hook says so: 0. -EEXIST: somebody else serves this export. */
int copy_serve(struct lr *h, struct copy_export *export);

#endif
