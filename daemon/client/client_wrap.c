/* SPDX-License-Identifier: Apache-2.0 */
#include "client_wrap.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	FIELD_INDENT = 12, /* where the text behind "  wan       " begins */
	PLAIN_INDENT = 4,
	COLUMNS_MIN = 40, /* on narrower terminals wrapping does not help */
};

unsigned wrap_columns(FILE *out)
{
	struct winsize w;
	int fd = fileno(out);

	if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &w) < 0)
		return 0;
	return w.ws_col;
}

/* How many of the len characters go into so many columns: up to a blank, or as many as fit if there is no blank. */
static size_t break_at(const char *line, size_t len, size_t columns, size_t indent)
{
	size_t at = columns;

	if (len <= columns)
		return len;
	while (at > indent && line[at] != ' ')
		at--;
	return at > indent ? at : columns;
}

static void write_line(FILE *out, const char *line, size_t len, size_t columns)
{
	size_t indent = line[0] == ' ' ? FIELD_INDENT : PLAIN_INDENT;
	size_t n = break_at(line, len, columns, indent);

	fprintf(out, "%.*s\n", (int)n, line);
	for (line += n, len -= n; len > 0; line += n, len -= n) {
		while (len > 0 && *line == ' ') {
			line++;
			len--;
		}
		n = break_at(line, len, columns - indent, 0);
		fprintf(out, "%*s%.*s\n", (int)indent, "", (int)n, line);
	}
}

void wrap_write(FILE *out, const char *text, unsigned columns)
{
	if (columns < COLUMNS_MIN) {
		fputs(text, out);
		return;
	}
	while (*text != '\0') {
		size_t len = strcspn(text, "\n");

		write_line(out, text, len, columns);
		text += len + (text[len] == '\n');
	}
}
