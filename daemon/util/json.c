/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - writing one JSON document (RFC 8259). */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/buffer.h>

static void put(struct json *j, const char *text, size_t len)
{
	if (j->stream != NULL)
		fwrite(text, 1, len, j->stream);
	else
		evbuffer_add(j->out, text, len);
}

static void put_text(struct json *j, const char *text)
{
	put(j, text, strlen(text));
}

static void put_line(struct json *j)
{
	if (j->stream == NULL)
		return;
	put(j, "\n", 1);
	for (unsigned i = 0; i < j->depth; i++)
		put(j, "  ", 2);
}

/* Bytes from 0x20 on, UTF-8 included, are written as they are; bytes that would break the line or the quotes are
 * escaped. */
static void put_quoted(struct json *j, const char *text)
{
	char escape[8];

	put_text(j, "\"");
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			put(j, (const char[]){'\\', (char)c}, 2);
		else if (c == '\n')
			put_text(j, "\\n");
		else if (c < 0x20 || c == 0x7f)
			put(j, escape, (size_t)snprintf(escape, sizeof(escape), "\\u%04x", c));
		else
			put(j, text, 1);
	}
	put_text(j, "\"");
}

static void put_key(struct json *j, const char *key)
{
	if (j->comma)
		put_text(j, ",");
	if (j->depth > 0)
		put_line(j);
	j->comma = true;
	if (key == NULL)
		return;
	put_quoted(j, key);
	put_text(j, j->stream != NULL ? ": " : ":");
}

static void put_opening(struct json *j, const char *key, const char *bracket)
{
	put_key(j, key);
	put_text(j, bracket);
	j->depth++;
	j->comma = false;
}

static void put_closing(struct json *j, const char *bracket)
{
	j->depth--;
	if (j->comma)
		put_line(j);
	put_text(j, bracket);
	j->comma = true;
	if (j->depth == 0)
		put_line(j);
}

void json_object(struct json *j, const char *key)
{
	put_opening(j, key, "{");
}

void json_object_end(struct json *j)
{
	put_closing(j, "}");
}

void json_array(struct json *j, const char *key)
{
	put_opening(j, key, "[");
}

void json_array_end(struct json *j)
{
	put_closing(j, "]");
}

void json_string(struct json *j, const char *key, const char *value)
{
	put_key(j, key);
	put_quoted(j, value);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	put_key(j, key);
	put(j, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, value));
}

void json_real(struct json *j, const char *key, double value)
{
	char text[32];

	put_key(j, key);
	put(j, text, (size_t)snprintf(text, sizeof(text), "%.*g", j->stream != NULL ? 12 : 6, value));
}

void json_bool(struct json *j, const char *key, bool value)
{
	put_key(j, key);
	put_text(j, value ? "true" : "false");
}
