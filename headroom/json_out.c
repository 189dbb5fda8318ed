/* SPDX-License-Identifier: Apache-2.0 */
/* json_out.c - a JSON document on a stream. */
#include "headroom/json_out.h"

#include <inttypes.h>

static void quoted(struct json_out *j, const char *text)
{
	fputc('"', j->out);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(j->out, "\\%c", c);
		else if (c < 0x20)
			fprintf(j->out, "\\u%04x", c);
		else
			fputc(c, j->out);
	}
	fputc('"', j->out);
}

static void new_line(struct json_out *j)
{
	fputc('\n', j->out);
	for (unsigned i = 0; i < j->depth; i++)
		fputs("  ", j->out);
}

static void begin(struct json_out *j, const char *key)
{
	if (j->comma)
		fputc(',', j->out);
	if (j->depth > 0)
		new_line(j);
	if (key != NULL) {
		quoted(j, key);
		fputs(": ", j->out);
	}
	j->comma = true;
}

void jo_open(struct json_out *j, const char *key, char bracket)
{
	begin(j, key);
	fputc(bracket, j->out);
	j->depth++;
	j->comma = false;
}

void jo_close(struct json_out *j, char bracket)
{
	j->depth--;
	if (j->comma)
		new_line(j);
	fputc(bracket, j->out);
	j->comma = true;
	if (j->depth == 0)
		fputc('\n', j->out);
}

void jo_string(struct json_out *j, const char *key, const char *value)
{
	begin(j, key);
	quoted(j, value);
}

void jo_uint(struct json_out *j, const char *key, uint64_t value)
{
	begin(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void jo_real(struct json_out *j, const char *key, double value)
{
	begin(j, key);
	fprintf(j->out, "%.12g", value);
}

void jo_bool(struct json_out *j, const char *key, bool value)
{
	begin(j, key);
	fputs(value ? "true" : "false", j->out);
}
