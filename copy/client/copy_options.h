/* SPDX-License-Identifier: Apache-2.0 */
/* copy_options.h - the command line of `longreach copy`, and its exit codes. */
#ifndef COPY_OPTIONS_H
#define COPY_OPTIONS_H

#include <stdbool.h>

#include "copy/wire/copy_wire.h"

/* As rsync(1) has them. */
enum copy_exit {
	COPY_EXIT_DONE = 0,
	COPY_EXIT_USAGE = 1,
	COPY_EXIT_PROTOCOL = 2, /* the other end has another version */
	COPY_EXIT_FILES = 3,    /* the sources, or the place to copy to, make no sense */
	COPY_EXIT_START = 5,    /* no such export there, or it may not be written */
	COPY_EXIT_SOCKET = 10,  /* no relay here */
	COPY_EXIT_SIGNAL = 20,
	COPY_EXIT_MEMORY = 22,
	COPY_EXIT_PARTIAL = 23,  /* some files could not be copied */
	COPY_EXIT_VANISHED = 24, /* some source files were gone when their turn came */
	COPY_EXIT_TIMEOUT = 30,
};

/* Message for a handle by RDMA, which has no calls and services. */
#define COPY_NEEDS_RELAY "copy needs a relay on this machine: an RDMA client can only put and get"

struct copy_options {
	bool pull;         /* from the other site to here: sources are beneath the export, which the other site sends */
	const char *place; /* pull: where to */
	char **source;
	int nsources;
	char link[64];
	char export[COPY_EXPORT_MAX];
	char path[COPY_PATH_MAX + 1]; /* beneath the export; empty: its root */
	bool into;                    /* it ends in a slash: a directory */
	char **exclude;
	int nexcludes;
	bool remove, dry_run, json, verbose, progress;
	unsigned timeout_s;
	const char *socket;
};

/* True: go on. False: *code is the exit code. */
bool copy_options_parse(int argc, char **argv, struct copy_options *o, int *code);

#endif
