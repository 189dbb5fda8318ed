/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_wire.h"

#include <string.h>

#include "proxy/util/bytes.h"

#define NOTICE_MAGIC 0x4c524350u /* "LRCP" */

/* --- writing --- */

static uint8_t *room(struct copy_out *o, size_t n)
{
	uint8_t *at = o->buf + o->len;

	if (o->full || n > o->cap - o->len) {
		o->full = true;
		return NULL;
	}
	o->len += n;
	return at;
}

static void put8(struct copy_out *o, uint8_t v)
{
	uint8_t *at = room(o, 1);

	if (at)
		*at = v;
}

static void put16(struct copy_out *o, uint16_t v)
{
	uint8_t *at = room(o, 2);

	if (at)
		put_be16(at, v);
}

static void put32(struct copy_out *o, uint32_t v)
{
	uint8_t *at = room(o, 4);

	if (at)
		put_be32(at, v);
}

static void put64(struct copy_out *o, uint64_t v)
{
	uint8_t *at = room(o, 8);

	if (at)
		put_be64(at, v);
}

static void put_bytes(struct copy_out *o, struct copy_bytes b)
{
	uint8_t *at;

	if (b.len > UINT16_MAX) {
		o->full = true;
		return;
	}
	put16(o, (uint16_t)b.len);
	at = room(o, b.len);
	if (at && b.len > 0)
		memcpy(at, b.p, b.len);
}

/* Takes back what was written of an element that did not fit. */
static bool whole(struct copy_out *o, size_t before)
{
	if (!o->full)
		return true;
	o->len = before;
	o->full = false;
	return false;
}

void copy_head_put(struct copy_out *o, const struct copy_head *h)
{
	put8(o, COPY_VERSION);
	put8(o, h->op);
	put16(o, h->window);
	put64(o, h->session);
}

void copy_session_ask_put(struct copy_out *o, struct copy_bytes path, uint8_t flags)
{
	put8(o, flags);
	put_bytes(o, path);
}

void copy_session_put(struct copy_out *o, const struct copy_session *s)
{
	put16(o, s->error);
	put8(o, s->kind);
	put8(o, s->flags);
}

void copy_push_put(struct copy_out *o, const struct copy_push *p)
{
	put_bytes(o, copy_text(p->export));
	put_bytes(o, p->path);
	put8(o, p->flags);
	put16(o, p->timeout_s);
	put16(o, p->nsources);
	for (uint32_t i = 0; i < p->nsources; i++)
		put_bytes(o, p->source[i]);
	put16(o, p->nexcludes);
	for (uint32_t i = 0; i < p->nexcludes; i++)
		put_bytes(o, p->exclude[i]);
}

void copy_pushed_put(struct copy_out *o, uint8_t code)
{
	put8(o, code);
}

void copy_say_put(struct copy_out *o, uint8_t stream, struct copy_bytes text)
{
	put8(o, stream);
	put_bytes(o, text);
}

static void put_mtime(struct copy_out *o, const struct copy_meta *m)
{
	put64(o, (uint64_t)m->mtime_s);
	put32(o, m->mtime_ns);
}

static void put_meta(struct copy_out *o, const struct copy_meta *m)
{
	put32(o, m->mode);
	put32(o, m->uid);
	put32(o, m->gid);
	put_mtime(o, m);
	put_bytes(o, m->xattrs);
}

static void put_region(struct copy_out *o, const char *region)
{
	put_bytes(o, (struct copy_bytes){(const uint8_t *)region, strnlen(region, COPY_REGION_MAX - 1)});
}

bool copy_entry_put(struct copy_out *o, const struct copy_entry *e)
{
	size_t before = o->len;

	put8(o, e->type);
	put_bytes(o, e->path);
	switch (e->type) {
	case COPY_CHECK:
		put8(o, e->kind);
		put_meta(o, &e->meta);
		put64(o, e->size);
		put_bytes(o, e->target);
		break;
	case COPY_FILE:
		put_meta(o, &e->meta);
		put64(o, e->hash);
		put_bytes(o, e->data);
		break;
	case COPY_OPEN:
		put8(o, e->anew);
		put64(o, e->size);
		put_mtime(o, &e->meta);
		break;
	case COPY_COMMIT:
		put_region(o, e->region);
		put_meta(o, &e->meta);
		put64(o, e->size);
		put64(o, e->digest[0]);
		put64(o, e->digest[1]);
		break;
	case COPY_LINK_SYM:
		put_meta(o, &e->meta);
		put_bytes(o, e->target);
		break;
	case COPY_LINK_HARD:
		put_bytes(o, e->target);
		break;
	case COPY_META:
		put_meta(o, &e->meta);
		break;
	case COPY_EXTRAS:
		put_bytes(o, e->after);
		put_bytes(o, e->upto);
		put_bytes(o, e->data);
		break;
	default: /* DIR, REMOVE: a path alone */
		break;
	}
	return whole(o, before);
}

bool copy_result_put(struct copy_out *o, const struct copy_result *r)
{
	size_t before = o->len;

	put8(o, r->type);
	put8(o, r->state);
	put16(o, r->error);
	if (r->type == COPY_OPEN || r->type == COPY_COMMIT) {
		put_region(o, r->region);
		put16(o, (uint16_t)r->nranges);
		for (uint32_t i = 0; i < r->nranges; i++) {
			put64(o, r->range[i].offset);
			put64(o, r->range[i].length);
		}
	}
	if (r->type == COPY_EXTRAS)
		put_bytes(o, r->list);
	return whole(o, before);
}

size_t copy_result_max(uint8_t type)
{
	if (type == COPY_OPEN || type == COPY_COMMIT)
		return 4 + 2 + COPY_REGION_MAX + 2 + COPY_RANGES_MAX * 16;
	return type == COPY_EXTRAS ? 6 : 4;
}

bool copy_name_put(struct copy_out *o, uint8_t kind, const char *name)
{
	size_t before = o->len;

	put8(o, kind);
	put_bytes(o, copy_text(name));
	return whole(o, before);
}

bool copy_xattr_put(struct copy_out *o, const char *name, const void *value, size_t len)
{
	size_t before = o->len;

	put_bytes(o, copy_text(name));
	put_bytes(o, (struct copy_bytes){value, len});
	return whole(o, before);
}

void copy_notice_put(uint8_t out[COPY_NOTICE_LEN], uint64_t hash)
{
	put_be32(out, NOTICE_MAGIC);
	put_be64(out + 4, hash);
}

/* --- reading --- */

static const uint8_t *take(struct copy_in *in, size_t n)
{
	const uint8_t *at = in->p;

	if (!at || n > in->left) {
		in->p = NULL;
		in->left = 0;
		return NULL;
	}
	in->p += n;
	in->left -= n;
	return at;
}

static uint8_t get8(struct copy_in *in)
{
	const uint8_t *at = take(in, 1);

	return at ? *at : 0;
}

static uint16_t get16(struct copy_in *in)
{
	const uint8_t *at = take(in, 2);

	return at ? get_be16(at) : 0;
}

static uint32_t get32(struct copy_in *in)
{
	const uint8_t *at = take(in, 4);

	return at ? get_be32(at) : 0;
}

static uint64_t get64(struct copy_in *in)
{
	const uint8_t *at = take(in, 8);

	return at ? get_be64(at) : 0;
}

static struct copy_bytes get_bytes(struct copy_in *in, size_t max)
{
	size_t len = get16(in);
	const uint8_t *at = len <= max ? take(in, len) : take(in, SIZE_MAX);

	return (struct copy_bytes){at, at ? len : 0};
}

static void refuse(struct copy_in *in)
{
	take(in, SIZE_MAX);
}

static bool is_component(const uint8_t *p, size_t len)
{
	return len > 0 && len <= COPY_NAME_MAX && !memchr(p, '\0', len) && !memchr(p, '/', len) &&
	       !(len == 1 && p[0] == '.') && !(len == 2 && p[0] == '.' && p[1] == '.');
}

bool copy_path_is_sound(struct copy_bytes path)
{
	const uint8_t *p = path.p;
	size_t left = path.len;

	if (left == 0)
		return true;
	if (left > COPY_PATH_MAX)
		return false;
	for (;;) {
		const uint8_t *slash = memchr(p, '/', left);
		size_t len = slash ? (size_t)(slash - p) : left;

		if (!is_component(p, len))
			return false;
		if (!slash)
			return true;
		p = slash + 1;
		left -= len + 1;
	}
}

static struct copy_bytes get_path(struct copy_in *in)
{
	struct copy_bytes path = get_bytes(in, COPY_PATH_MAX);

	if (!copy_path_is_sound(path))
		refuse(in);
	return path;
}

/* Text of a symbolic link: not empty, without NUL. */
static struct copy_bytes get_target(struct copy_in *in, bool optional)
{
	struct copy_bytes t = get_bytes(in, COPY_PATH_MAX);

	if (in->p && ((t.len == 0 && !optional) || (t.len > 0 && memchr(t.p, '\0', t.len))))
		refuse(in);
	return t;
}

/* A bound of EXTRAS: a name, or nothing. */
static struct copy_bytes get_bound(struct copy_in *in)
{
	struct copy_bytes b = get_bytes(in, COPY_NAME_MAX);

	if (b.len > 0 && !is_component(b.p, b.len))
		refuse(in);
	return b;
}

static void get_region(struct copy_in *in, char region[COPY_REGION_MAX])
{
	struct copy_bytes b = get_bytes(in, COPY_REGION_MAX - 1);

	memset(region, 0, COPY_REGION_MAX);
	if (b.len > 0 && memchr(b.p, '\0', b.len))
		refuse(in);
	else if (b.len > 0)
		memcpy(region, b.p, b.len);
}

bool copy_head_get(struct copy_in *in, struct copy_head *h)
{
	uint8_t version = get8(in);

	h->op = get8(in);
	h->window = get16(in);
	h->session = get64(in);
	return in->p && version == COPY_VERSION && h->op > 0 && h->op < COPY_OPS;
}

bool copy_session_ask_get(struct copy_in *in, struct copy_bytes *path, uint8_t *flags)
{
	*flags = get8(in);
	*path = get_path(in);
	return in->p && in->left == 0;
}

bool copy_session_get(struct copy_in *in, struct copy_session *s)
{
	s->error = get16(in);
	s->kind = get8(in);
	s->flags = get8(in);
	return in->p && s->kind < COPY_KINDS;
}

bool copy_source_is_sound(struct copy_bytes source)
{
	if (source.len > 1 && source.p[source.len - 1] == '/')
		source.len--;
	return copy_path_is_sound(source);
}

static void get_source(struct copy_in *in, struct copy_bytes *source)
{
	*source = get_bytes(in, COPY_PATH_MAX);
	if (!copy_source_is_sound(*source))
		refuse(in);
}

bool copy_push_get(struct copy_in *in, struct copy_push *p)
{
	struct copy_bytes export = get_bytes(in, COPY_EXPORT_MAX - 1);

	*p = (struct copy_push){.path = get_path(in)};
	if (!in->p || !is_component(export.p, export.len))
		return false;
	memcpy(p->export, export.p, export.len);
	p->flags = get8(in);
	p->timeout_s = get16(in);
	p->nsources = get16(in);
	if (p->nsources == 0 || p->nsources > COPY_SOURCES_MAX)
		return false;
	for (uint32_t i = 0; i < p->nsources; i++)
		get_source(in, &p->source[i]);
	p->nexcludes = get16(in);
	if (p->nexcludes > COPY_EXCLUDES_MAX)
		return false;
	for (uint32_t i = 0; i < p->nexcludes; i++)
		p->exclude[i] = get_target(in, false);
	return in->p && in->left == 0;
}

bool copy_pushed_get(struct copy_in *in, uint8_t *code)
{
	*code = get8(in);
	return in->p && in->left == 0;
}

bool copy_say_get(struct copy_in *in, uint8_t *stream, struct copy_bytes *text)
{
	*stream = get8(in);
	*text = get_bytes(in, COPY_SAY_MAX);
	return in->p && in->left == 0 && (*stream == 1 || *stream == 2);
}

static void get_mtime(struct copy_in *in, struct copy_meta *m)
{
	m->mtime_s = (int64_t)get64(in);
	m->mtime_ns = get32(in);
	if (m->mtime_ns >= 1000000000)
		refuse(in);
}

static void get_meta(struct copy_in *in, struct copy_meta *m)
{
	m->mode = get32(in);
	m->uid = get32(in);
	m->gid = get32(in);
	get_mtime(in, m);
	m->xattrs = get_bytes(in, COPY_XATTRS_MAX);
	if (m->mode & ~07777u)
		refuse(in);
}

bool copy_entry_get(struct copy_in *in, struct copy_entry *e)
{
	*e = (struct copy_entry){.type = get8(in)};
	e->path = get_path(in);
	switch (e->type) {
	case COPY_CHECK:
		e->kind = get8(in);
		get_meta(in, &e->meta);
		e->size = get64(in);
		e->target = get_target(in, true);
		break;
	case COPY_FILE:
		get_meta(in, &e->meta);
		e->hash = get64(in);
		e->data = get_bytes(in, COPY_SMALL_MAX);
		break;
	case COPY_OPEN:
		e->anew = get8(in) != 0;
		e->size = get64(in);
		get_mtime(in, &e->meta);
		break;
	case COPY_COMMIT:
		get_region(in, e->region);
		get_meta(in, &e->meta);
		e->size = get64(in);
		e->digest[0] = get64(in);
		e->digest[1] = get64(in);
		break;
	case COPY_LINK_SYM:
		get_meta(in, &e->meta);
		e->target = get_target(in, false);
		break;
	case COPY_LINK_HARD:
		e->target = get_path(in);
		if (e->target.len == 0)
			refuse(in);
		break;
	case COPY_META:
		get_meta(in, &e->meta);
		break;
	case COPY_EXTRAS:
		e->after = get_bound(in);
		e->upto = get_bound(in);
		e->data = get_bytes(in, COPY_MSG_MAX);
		break;
	case COPY_DIR:
	case COPY_REMOVE:
		break;
	default:
		refuse(in);
		break;
	}
	/* Only META, EXTRAS, CHECK and DIR may name the session's directory itself, by an empty path. */
	if (e->path.len == 0 && e->type != COPY_META && e->type != COPY_EXTRAS && e->type != COPY_CHECK &&
	    e->type != COPY_DIR)
		refuse(in);
	return in->p && e->size <= INT64_MAX && e->kind < COPY_KINDS;
}

bool copy_result_get(struct copy_in *in, struct copy_result *r)
{
	r->type = get8(in);
	r->state = get8(in);
	r->error = get16(in);
	r->region[0] = '\0';
	r->nranges = 0;
	r->list = (struct copy_bytes){0};
	if (r->type == COPY_OPEN || r->type == COPY_COMMIT) {
		get_region(in, r->region);
		r->nranges = get16(in);
		if (r->nranges > COPY_RANGES_MAX)
			return false;
		for (uint32_t i = 0; i < r->nranges; i++) {
			r->range[i].offset = get64(in);
			r->range[i].length = get64(in);
			if (r->range[i].offset > INT64_MAX || r->range[i].length > INT64_MAX)
				refuse(in);
		}
	}
	if (r->type == COPY_EXTRAS)
		r->list = get_bytes(in, COPY_MSG_MAX);
	return in->p && r->type > 0 && r->type < COPY_TYPES && r->state < COPY_STATES;
}

bool copy_name_next(struct copy_in *in, uint8_t *kind, char name[COPY_NAME_MAX + 1])
{
	struct copy_bytes b;

	if (!in->p || in->left == 0)
		return false;
	*kind = get8(in);
	b = get_bytes(in, COPY_NAME_MAX);
	if (in->p && !is_component(b.p, b.len))
		refuse(in);
	if (!in->p)
		return false;
	memcpy(name, b.p, b.len);
	name[b.len] = '\0';
	return true;
}

bool copy_xattr_next(struct copy_in *in, char name[COPY_NAME_MAX + 1], struct copy_bytes *value)
{
	struct copy_bytes b;

	if (!in->p || in->left == 0)
		return false;
	b = get_bytes(in, COPY_NAME_MAX);
	*value = get_bytes(in, COPY_XATTRS_MAX);
	if (in->p && (b.len == 0 || memchr(b.p, '\0', b.len)))
		refuse(in);
	if (!in->p)
		return false;
	memcpy(name, b.p, b.len);
	name[b.len] = '\0';
	return true;
}

bool copy_notice_get(const void *data, size_t len, uint64_t *hash)
{
	const uint8_t *p = data;

	if (len != COPY_NOTICE_LEN || get_be32(p) != NOTICE_MAGIC)
		return false;
	*hash = get_be64(p + 4);
	return true;
}
