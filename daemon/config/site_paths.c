/* SPDX-License-Identifier: Apache-2.0 */
#include "site_paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void site_report(char *report, const char *fmt, ...)
{
	size_t n = strlen(report);
	va_list ap;

	if (n != 0 && n + 1 < SITES_REPORT_MAX) {
		report[n++] = '\n';
		report[n] = '\0';
	}
	va_start(ap, fmt);
	vsnprintf(report + n, SITES_REPORT_MAX - n, fmt, ap);
	va_end(ap);
}

static int is_link_file(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return e->d_name[0] != '.' && n > 5 && strcmp(e->d_name + n - 5, ".conf") == 0;
}

/* The files in a directory by name; their number, or -EINVAL with a sentence in report. */
static int list_dir(const char *dir, struct site_paths *out, char *report)
{
	struct dirent **names;
	int n = scandir(dir, &names, is_link_file, alphasort);

	if (n < 0) {
		site_report(report, "%s: cannot be read: %s", dir, strerror(errno));
		return -EINVAL;
	}
	for (int i = 0; i < n; i++) {
		if (out->n < SITES_MAX &&
		    (size_t)snprintf(out->path[out->n], SITE_PATH_MAX, "%s/%s", dir, names[i]->d_name) < SITE_PATH_MAX)
			out->n++;
		else
			site_report(report, "%s/%s: too many links, at most %d, or a name too long", dir, names[i]->d_name,
			    SITES_MAX);
		free(names[i]);
	}
	free(names);
	return (int)out->n == n ? 0 : -EINVAL;
}

int site_paths_read(const struct site_sources *src, struct site_paths *out, char *report)
{
	int r = src->doubtful ? -EINVAL : 0;

	out->n = 0;
	if (src->doubtful)
		site_report(report, "an option of longreachd is not understood, and may name other link files");
	if (src->nfiles == 0 && list_dir(src->dir, out, report) < 0)
		r = -EINVAL;
	for (; out->n < src->nfiles; out->n++)
		snprintf(out->path[out->n], SITE_PATH_MAX, "%s", src->files[out->n]);
	return r;
}
