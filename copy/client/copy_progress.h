/* SPDX-License-Identifier: Apache-2.0 */
/* copy_progress.h - what has been done: the line on a terminal, and the sums at the end. */
#ifndef COPY_PROGRESS_H
#define COPY_PROGRESS_H

#include "copy_options.h"

struct progress {
	bool shown;
	double began, shown_at, line_s;
	uint64_t line_bytes; /* done when the rate was last worked out */
	double rate;         /* bytes per second, of the last seconds */
	/* of all there is to do; 0: not known */
	uint64_t all_files, all_bytes;
	/* done so far: of files that are the same there, or have become so */
	uint64_t files, bytes;
	uint64_t copied, unchanged, links, removed, errors, vanished, skipped;
	uint64_t sent;    /* bytes of contents that were given to the relay */
	uint64_t present; /* bytes of pieces that an earlier try had brought */
	uint64_t again;   /* bytes that were given to the relay before, by this process */
	uint64_t interruptions;
};

double progress_seconds(void);
void progress_begin(struct progress *p, const struct copy_options *o);
/* Now and then: the line, if one is wanted. waiting: for whom, NULL: nobody. */
void progress_show(struct progress *p, const char *waiting);
/* Wipes the line, before something else is printed. */
void progress_hide(struct progress *p);
void progress_end(struct progress *p, const struct copy_options *o, int code);
/* A name as it can be shown. */
void progress_name(char *out, size_t cap, const char *name);

#endif
