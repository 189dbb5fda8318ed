/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - writing one JSON document into an evbuffer, commas and quotes taken care of. */
#ifndef DAEMON_JSON_H
#define DAEMON_JSON_H

#include <stdbool.h>
#include <stdint.h>

struct evbuffer;

struct json {
	struct evbuffer *out;
	bool comma; /* something stands before, at this depth */
};

/* `key` is NULL for elements of an array and for the outermost value. */
void json_object(struct json *j, const char *key);
void json_object_end(struct json *j);
void json_array(struct json *j, const char *key);
void json_array_end(struct json *j);
void json_string(struct json *j, const char *key, const char *value);
void json_uint(struct json *j, const char *key, uint64_t value);
void json_real(struct json *j, const char *key, double value); /* six digits; finite */
void json_bool(struct json *j, const char *key, bool value);

#endif
