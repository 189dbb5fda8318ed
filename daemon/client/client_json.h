/* SPDX-License-Identifier: Apache-2.0 */
/* client_json.h - reading the daemon's answers with json-c.
 *
 * Looking up a missing member gives NULL, and NULL reads as 0, false and "": a client of a newer version shows an older
 * daemon's answer with gaps. */
#ifndef DAEMON_CLIENT_JSON_H
#define DAEMON_CLIENT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

/* 0, -EINVAL (no JSON, or nested deeper than 16), -ENOMEM. */
int jdoc_parse(struct json_object **root, const char *text);
void jdoc_free(struct json_object **root);

/* An answer of the daemon, and the text that it was parsed from. Zeros: none. */
struct j_answer {
	char *text;
	struct json_object *doc;
};

/* Takes text over, malloc'ed; NULL: there is none. 0, or what jdoc_parse() returns, and -ENOENT without a text; The
 * caller must call j_answer_free() in any case, and may call it twice. */
int j_answer_take(struct j_answer *a, char *text);
void j_answer_free(struct j_answer *a);

/* Member of an object. */
const struct json_object *j_get(const struct json_object *object, const char *key);
/* Element of an array; NULL behind the last one. */
const struct json_object *j_at(const struct json_object *array, size_t i);
/* An element that is a string, else "". */
const char *j_string(const struct json_object *value);
/* Calls fn for each member of an object that is a number. */
void j_each_uint(const struct json_object *object, void (*fn)(void *arg, const char *key, uint64_t value), void *arg);

const char *j_text(const struct json_object *object, const char *key);
double j_number(const struct json_object *object, const char *key);
uint64_t j_uint(const struct json_object *object, const char *key);
/* True if there is such a member, even if it is null. */
bool j_has(const struct json_object *object, const char *key);
/* An element that is a number, else 0. */
uint64_t j_value(const struct json_object *value);
bool j_bool(const struct json_object *object, const char *key);

#endif
