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

/* What a program that serves and does other things at the same time hears. Each returns false to end the serving. */
struct copy_hooks {
	void *arg;
	bool (*serving)(void *arg, struct lr *h);                           /* the service is there */
	bool (*event)(void *arg, struct lr *h, const struct lr_event *ev);  /* behind what the server does with it */
	bool (*tick)(void *arg, struct lr *h);                              /* at least five times a second */
	void (*say)(void *arg, uint8_t stream, const uint8_t *text, size_t len); /* COPY_SAY */
};

struct copy_export {
	const char *name;
	int root; /* the directory */
	bool writable;
	const struct copy_hooks *hooks; /* NULL: none */
	uint64_t files, bytes;          /* that have come, for who shows it */
};

/* Serves until the daemon has gone: -EPIPE; or a hook says so: 0. -EEXIST: somebody else serves this export. */
int copy_serve(struct lr *h, struct copy_export *export);

#endif
