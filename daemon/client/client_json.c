/* SPDX-License-Identifier: Apache-2.0 */
/* client_json.c - reading JSON (RFC 8259), as far as the daemon writes it. */
#include "client_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16

struct reader {
	struct jdoc *d;
	char *p;
	unsigned depth;
};

static int read_value(struct reader *r, const char *key);

static void skip_blanks(struct reader *r)
{
	r->p += strspn(r->p, " \t\r\n");
}

/* Index of a new node, or -ENOMEM. Pointers to nodes do not survive this. */
static int new_node(struct jdoc *d, enum jtype type, const char *key)
{
	if (d->n == d->cap) {
		uint32_t cap = d->cap == 0 ? 256 : d->cap * 2;
		struct jnode *nodes = realloc(d->nodes, cap * sizeof(*nodes));

		if (nodes == NULL)
			return -ENOMEM;
		d->nodes = nodes;
		d->cap = cap;
	}
	d->nodes[d->n] = (struct jnode){.type = type, .key = key, .text = "", .span = 1};
	return (int)d->n++;
}

/* \u00XX below 0x80 is all that the daemon writes; anything else reads as '?'. */
static int read_unicode(char **from, char *to)
{
	char digits[5] = "";
	unsigned long c;

	if (strspn(*from + 1, "0123456789abcdefABCDEF") < 4)
		return -EINVAL;
	memcpy(digits, *from + 1, 4);
	c = strtoul(digits, NULL, 16);
	*to = c > 0 && c < 0x80 ? (char)c : '?';
	*from += 5;
	return 0;
}

/* *from stands behind the backslash. */
static int read_escape(char **from, char *to)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *letter;

	if (**from == 'u')
		return read_unicode(from, to);
	letter = **from != '\0' ? strchr(letters, **from) : NULL;
	if (letter == NULL)
		return -EINVAL;
	*to = meant[letter - letters];
	(*from)++;
	return 0;
}

/* The string in place, its end marked with a zero. p stands behind the first quote. */
static int read_string(struct reader *r, const char **text)
{
	char *from = r->p, *to = r->p;

	*text = to;
	while (*from != '"') {
		if ((unsigned char)*from < 0x20)
			return -EINVAL;
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (read_escape(&from, to++) < 0)
			return -EINVAL;
	}
	r->p = from + 1;
	*to = '\0';
	return 0;
}

static int read_string_node(struct reader *r, const char *key)
{
	const char *text;
	int i;

	r->p++;
	if (read_string(r, &text) < 0)
		return -EINVAL;
	i = new_node(r->d, J_STRING, key);
	if (i < 0)
		return i;
	r->d->nodes[i].text = text;
	return 0;
}

static int read_word(struct reader *r, const char *key)
{
	static const struct {
		const char *word;
		enum jtype type;
		bool truth;
	} words[] = {{"true", J_BOOL, true}, {"false", J_BOOL, false}, {"null", J_NULL, false}};

	for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
		size_t len = strlen(words[k].word);
		int i;

		if (strncmp(r->p, words[k].word, len) != 0)
			continue;
		i = new_node(r->d, words[k].type, key);
		if (i < 0)
			return i;
		r->d->nodes[i].truth = words[k].truth;
		r->p += len;
		return 0;
	}
	return -EINVAL;
}

/* The text stays where it is: what follows a number (, ] } or a blank) ends strtod() and strtoull(). */
static int read_number(struct reader *r, const char *key)
{
	size_t len = strspn(r->p, "0123456789+-.eE");
	int i = new_node(r->d, J_NUMBER, key);

	if (i < 0)
		return i;
	r->d->nodes[i].text = r->p;
	r->p += len;
	return 0;
}

static int read_key(struct reader *r, const char **key)
{
	skip_blanks(r);
	if (*r->p != '"')
		return -EINVAL;
	r->p++;
	if (read_string(r, key) < 0)
		return -EINVAL;
	skip_blanks(r);
	return *r->p++ == ':' ? 0 : -EINVAL;
}

/* Members up to `end`. p stands behind the opening bracket. */
static int read_members(struct reader *r, uint32_t parent, char end)
{
	const char *key = NULL;
	int err;

	for (;;) {
		skip_blanks(r);
		if (*r->p == end && r->d->nodes[parent].count == 0)
			break;
		if (end == '}' && (err = read_key(r, &key)) < 0)
			return err;
		err = read_value(r, key);
		if (err < 0)
			return err;
		r->d->nodes[parent].count++;
		skip_blanks(r);
		if (*r->p != ',')
			break;
		r->p++;
	}
	if (*r->p != end)
		return -EINVAL;
	r->p++;
	r->d->nodes[parent].span = r->d->n - parent;
	return 0;
}

static int read_container(struct reader *r, const char *key, enum jtype type)
{
	int i = new_node(r->d, type, key), err;

	if (i < 0)
		return i;
	if (++r->depth > DEPTH_MAX)
		return -EINVAL;
	r->p++;
	err = read_members(r, (uint32_t)i, type == J_OBJECT ? '}' : ']');
	r->depth--;
	return err;
}

static int read_value(struct reader *r, const char *key)
{
	skip_blanks(r);
	switch (*r->p) {
	case '{':
		return read_container(r, key, J_OBJECT);
	case '[':
		return read_container(r, key, J_ARRAY);
	case '"':
		return read_string_node(r, key);
	case 't':
	case 'f':
	case 'n':
		return read_word(r, key);
	default:
		return strchr("-0123456789", *r->p) != NULL && *r->p != '\0' ? read_number(r, key) : -EINVAL;
	}
}

int jdoc_parse(struct jdoc *d, char *text)
{
	struct reader r = {.d = d, .p = text};
	int err;

	*d = (struct jdoc){0};
	err = read_value(&r, NULL);
	skip_blanks(&r);
	if (err == 0 && *r.p != '\0')
		err = -EINVAL;
	if (err < 0)
		jdoc_free(d);
	return err;
}

void jdoc_free(struct jdoc *d)
{
	free(d->nodes);
	*d = (struct jdoc){0};
}

const struct jnode *jdoc_root(const struct jdoc *d)
{
	return d->n > 0 ? &d->nodes[0] : NULL;
}

const struct jnode *j_next(const struct jnode *parent, const struct jnode *member)
{
	const struct jnode *next;

	if (parent == NULL || (parent->type != J_ARRAY && parent->type != J_OBJECT))
		return NULL;
	next = member == NULL ? parent + 1 : member + member->span;
	return next < parent + parent->span ? next : NULL;
}

const struct jnode *j_get(const struct jnode *object, const char *key)
{
	const struct jnode *m = NULL;

	while ((m = j_next(object, m)) != NULL)
		if (m->key != NULL && strcmp(m->key, key) == 0)
			return m;
	return NULL;
}

const char *j_text(const struct jnode *object, const char *key)
{
	const struct jnode *n = j_get(object, key);

	return n != NULL && n->type == J_STRING ? n->text : "";
}

double j_number(const struct jnode *object, const char *key)
{
	const struct jnode *n = j_get(object, key);

	return n != NULL && n->type == J_NUMBER ? strtod(n->text, NULL) : 0;
}

uint64_t j_uint(const struct jnode *object, const char *key)
{
	const struct jnode *n = j_get(object, key);

	return n != NULL && n->type == J_NUMBER ? strtoull(n->text, NULL, 10) : 0;
}

bool j_bool(const struct jnode *object, const char *key)
{
	const struct jnode *n = j_get(object, key);

	return n != NULL && n->type == J_BOOL && n->truth;
}
