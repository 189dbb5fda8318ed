/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

static void log_line(int priority, const char *fmt, va_list ap)
{
	char line[LINE_MAX_BYTES];
	size_t n = 0;
	int r;

	if (!isatty(STDERR_FILENO))
		n = (size_t)snprintf(line, sizeof(line), "<%d>", priority);
	r = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	if (r < 0)
		return;
	n = strlen(line);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return; /* nowhere left to complain */
}

void log_info(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_INFO, fmt, ap);
	va_end(ap);
}

void log_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_WARNING, fmt, ap);
	va_end(ap);
}

void log_err(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_ERR, fmt, ap);
	va_end(ap);
}
