/* SPDX-License-Identifier: Apache-2.0 */
/* site_paths.h - which link files there are. */
#ifndef DAEMON_SITE_PATHS_H
#define DAEMON_SITE_PATHS_H

#include <stdint.h>

#include "config.h"

#define SITES_MAX        64
#define SITES_REPORT_MAX 4096 /* sentences, one per line */

/* Where link files come from: the files named, else every *.conf in the directory. */
struct site_sources {
	const char *files[SITES_MAX];
	uint32_t nfiles;
	const char *dir;
	bool doubtful; /* an option was not understood, and may name others */
};

#define SITE_PATH_MAX 512

struct site_paths {
	char path[SITES_MAX][SITE_PATH_MAX];
	uint32_t n;
};

/* Lists the link files, readable or not. 0, or -EINVAL with a sentence in report, always for doubtful sources; out has
 * the files that could be listed. */
int site_paths_read(const struct site_sources *src, struct site_paths *out, char *report);

/* Adds a line to a report (SITES_REPORT_MAX). */
void site_report(char *report, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
