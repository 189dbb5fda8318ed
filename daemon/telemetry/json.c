/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - writing one JSON document (RFC 8259). */
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>

static void put(struct json *j, const char *text)
{
	evbuffer_add(j->out, text, strlen(text));
}

/* Bytes from 0x20 on stand for themselves, also those of UTF-8; what could break the line or the quotes does not. */
static void put_quoted(struct json *j, const char *text)
{
	put(j, "\"");
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			evbuffer_add_printf(j->out, "\\%c", c);
		else if (c == '\n')
			put(j, "\\n");
		else if (c < 0x20 || c == 0x7f)
			evbuffer_add_printf(j->out, "\\u%04x", c);
		else
			evbuffer_add(j->out, text, 1);
	}
	put(j, "\"");
}

static void put_key(struct json *j, const char *key)
{
	if (j->comma)
		put(j, ",");
	j->comma = true;
	if (key == NULL)
		return;
	put_quoted(j, key);
	put(j, ":");
}

void json_object(struct json *j, const char *key)
{
	put_key(j, key);
	put(j, "{");
	j->comma = false;
}

void json_object_end(struct json *j)
{
	put(j, "}");
	j->comma = true;
}

void json_array(struct json *j, const char *key)
{
	put_key(j, key);
	put(j, "[");
	j->comma = false;
}

void json_array_end(struct json *j)
{
	put(j, "]");
	j->comma = true;
}

void json_string(struct json *j, const char *key, const char *value)
{
	put_key(j, key);
	put_quoted(j, value);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	put_key(j, key);
	evbuffer_add_printf(j->out, "%" PRIu64, value);
}

void json_real(struct json *j, const char *key, double value)
{
	put_key(j, key);
	evbuffer_add_printf(j->out, "%.6g", value);
}

void json_bool(struct json *j, const char *key, bool value)
{
	put_key(j, key);
	put(j, value ? "true" : "false");
}
