/* SPDX-License-Identifier: Apache-2.0 */
/* client_json.h - reading the daemon's answers: a JSON document as a tree in one array.
 *
 * Looking for what is not there gives NULL, and NULL reads as 0, false and "": a client of a newer version shows an
 * older daemon's answer with gaps. */
#ifndef DAEMON_CLIENT_JSON_H
#define DAEMON_CLIENT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jtype { J_NULL, J_BOOL, J_NUMBER, J_STRING, J_ARRAY, J_OBJECT };

struct jnode {
	enum jtype type;
	const char *key;  /* of a member of an object, else NULL */
	const char *text; /* strings, and numbers as written */
	bool truth;
	uint32_t span;  /* nodes from here to behind all that this one holds */
	uint32_t count; /* of members */
};

struct jdoc {
	struct jnode *nodes;
	uint32_t n, cap;
};

/* Parses in place: `text` is changed and must live as long as the document. 0, -EINVAL (no JSON, or nested deeper than
 * 16), -ENOMEM. */
int jdoc_parse(struct jdoc *d, char *text);
void jdoc_free(struct jdoc *d);

const struct jnode *jdoc_root(const struct jdoc *d);
/* Member of an object. */
const struct jnode *j_get(const struct jnode *object, const char *key);
/* Walks the members of an array or object: begins with NULL, ends with NULL. */
const struct jnode *j_next(const struct jnode *parent, const struct jnode *member);

const char *j_text(const struct jnode *object, const char *key);
double j_number(const struct jnode *object, const char *key);
uint64_t j_uint(const struct jnode *object, const char *key);
bool j_bool(const struct jnode *object, const char *key);

#endif
