/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - lines on stderr. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_MAX 1024

static bool log_verbose;
static bool log_to_journal;

void log_init(bool verbose)
{
	log_verbose = verbose;
	log_to_journal = getenv("JOURNAL_STREAM") != NULL || getenv("INVOCATION_ID") != NULL;
}

static void make_harmless(char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

static const char *level_word(enum log_level level)
{
	switch (level) {
	case LOG_LEVEL_ERR:
		return "error: ";
	case LOG_LEVEL_WARN:
		return "warning: ";
	case LOG_LEVEL_NOTICE:
	case LOG_LEVEL_INFO:
	case LOG_LEVEL_DEBUG:
		break;
	}
	return "";
}

/* Puts time and name in front, unless the journal does that itself. */
static int put_head(char *line, size_t cap, enum log_level level)
{
	struct timespec now;
	struct tm day;

	if (log_to_journal)
		return snprintf(line, cap, "<%d>", (int)level);
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &day);
	return snprintf(line, cap, "%02d:%02d:%02d.%03ld longreachd: %s", day.tm_hour, day.tm_min, day.tm_sec,
	                now.tv_nsec / 1000000, level_word(level));
}

static void write_all(const char *p, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* a failure to log cannot be logged */
		p += n;
		len -= (size_t)n;
	}
}

void log_at(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	char line[LOG_LINE_MAX];
	int head, body;
	size_t len;
	va_list ap;

	if (level == LOG_LEVEL_DEBUG && !log_verbose)
		return;
	head = put_head(line, sizeof(line), level);
	va_start(ap, fmt);
	body = vsnprintf(line + head, sizeof(line) - 1 - (size_t)head, fmt, ap);
	va_end(ap);
	if (body < 0)
		return;
	make_harmless(line + head);
	len = (size_t)head + (size_t)body;
	if (len > sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	write_all(line, len);
	errno = saved_errno;
}

bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed)
{
	if (missed != NULL)
		*missed = 0;
	if (l->begun_ns == 0 || now_ns - l->begun_ns >= l->window_ns) {
		if (missed != NULL)
			*missed = l->suppressed;
		l->begun_ns = now_ns == 0 ? 1 : now_ns;
		l->passed = 0;
		l->suppressed = 0;
	}
	if (l->passed >= l->burst) {
		l->suppressed++;
		return false;
	}
	l->passed++;
	return true;
}
