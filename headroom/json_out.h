/* SPDX-License-Identifier: Apache-2.0 */
/* json_out.h - a JSON document on a stream. For headroom/ alone: the daemon's writer fills libevent's buffers. */
#ifndef HEADROOM_JSON_OUT_H
#define HEADROOM_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json_out {
	FILE *out;
	unsigned depth;
	bool comma;
};

/* `key` is NULL in arrays and for the outermost value. */
void jo_open(struct json_out *j, const char *key, char bracket);
void jo_close(struct json_out *j, char bracket);
void jo_string(struct json_out *j, const char *key, const char *value);
void jo_uint(struct json_out *j, const char *key, uint64_t value);
void jo_real(struct json_out *j, const char *key, double value);
void jo_bool(struct json_out *j, const char *key, bool value);

#endif
