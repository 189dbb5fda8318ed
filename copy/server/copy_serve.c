/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* fdopendir, F_DUPFD_CLOEXEC, O_PATH */
#include "copy_serve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "copy/wire/copy_hash.h"
#include "copy_partial.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"

enum serve_limits {
	SESSIONS = 32,
	FILES = 512,     /* open, of all sessions */
	WINDOW_ALL = 48, /* calls under way: the daemon buffers 4 MiB for a busy program */
	WINDOW_LEAST = 2,
	LIST_MAX = 48 << 10, /* bytes of names in a result */
};

#define SESSION_IDLE_NS (120 * NS_PER_S) /* then another one may have its place */
#define FILE_IDLE_NS    (120 * NS_PER_S) /* then it is closed, and what is there waits for a later try */
#define SLICE_NS        NS_PER_S         /* of work on files of one request: others wait, and a sender for --timeout */
#define ACTIVE_NS       (10 * NS_PER_S)
#define SWEEP_MS        1000
#define TICK_MS         200

struct session {
	bool used;
	uint64_t id, used_ns;
	struct beneath at;
};

struct file {
	bool used;
	char region[COPY_REGION_MAX];
	uint64_t session; /* the last session that has opened the file */
	uint64_t used_ns;
	struct stat dir; /* the directory that the file will be in */
	struct partial partial;
};

struct server {
	struct lr *lr;
	struct copy_export *export;
	uint32_t instance, nanew;
	uint64_t slice_ns, until_ns; /* SLICE_NS; the end of that of this request */
	struct session session[SESSIONS];
	struct file file[FILES];
	uint64_t malformed, spoiled; /* requests that no correct sender makes; pieces with a wrong hash */
	uint8_t request[COPY_MSG_MAX], reply[COPY_MSG_MAX], list[LIST_MAX];
};

/* --- open files --- */

static void file_close(struct server *s, struct file *f)
{
	lr_unexport(s->lr, f->region);
	partial_close(&f->partial);
	f->used = false;
}

static struct file *file_by_region(struct server *s, const char *region)
{
	for (uint32_t i = 0; i < FILES; i++)
		if (s->file[i].used && strcmp(s->file[i].region, region) == 0)
			return &s->file[i];
	return NULL;
}

static struct file *file_at(struct server *s, const struct stat *dir, const char *name)
{
	for (uint32_t i = 0; i < FILES; i++) {
		struct file *f = &s->file[i];

		if (f->used && f->dir.st_dev == dir->st_dev && f->dir.st_ino == dir->st_ino &&
		    strcmp(f->partial.name, name) == 0)
			return f;
	}
	return NULL;
}

/* A free place, or that of one whose sender has gone silent. */
static struct file *file_place(struct server *s)
{
	for (uint32_t i = 0; i < FILES; i++)
		if (!s->file[i].used)
			return &s->file[i];
	for (uint32_t i = 0; i < FILES; i++)
		if (clock_now_ns() > s->file[i].used_ns + ACTIVE_NS) {
			file_close(s, &s->file[i]);
			return &s->file[i];
		}
	return NULL;
}

static void sweep(struct server *s)
{
	uint64_t now = clock_now_ns();

	for (uint32_t i = 0; i < FILES; i++)
		if (s->file[i].used && now > s->file[i].used_ns + FILE_IDLE_NS)
			file_close(s, &s->file[i]);
	for (uint32_t i = 0; i < SESSIONS; i++)
		if (s->session[i].used && now > s->session[i].used_ns + SESSION_IDLE_NS) {
			beneath_close(&s->session[i].at);
			s->session[i].used = false;
		}
}

/* Names a region. The name follows from the file and its source, so that puts under way still arrive after this server
 * has started anew, instead of waiting for a region that never returns. A file that is opened anew gets an unused name,
 * so that puts of the former try are not written. */
static void name_region(struct server *s, struct file *f, const struct stat *dir, bool anew)
{
	uint8_t text[COPY_EXPORT_MAX + COPY_NAME_MAX + 1 + 6 * 8] = {0};
	uint8_t *at = text + COPY_EXPORT_MAX;
	const uint64_t number[] = {dir->st_dev,         dir->st_ino,
	                           f->partial.size,     (uint64_t)f->partial.mtime_s,
	                           f->partial.mtime_ns, anew ? (uint64_t)s->instance << 32 | ++s->nanew : 0};

	snprintf((char *)text, COPY_EXPORT_MAX, "%s", s->export->name);
	for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++, at += 8)
		put_be64(at, number[i]);
	memcpy(at, f->partial.name, strlen(f->partial.name));
	snprintf(f->region, sizeof(f->region), "copy.%s%016llx", s->export->is_pulled ? "pull." : "",
	         (unsigned long long)copy_hash(text, sizeof(text)));
}

static int export_file(struct server *s, struct file *f)
{
	return lr_export(s->lr, f->region, f->partial.fd, 0, f->partial.size, LR_PEER_WRITE);
}

/* True if the same file of the same source is opened again: it keeps its region, so that puts under way arrive. */
static bool is_the_same(const struct file *f, const struct copy_entry *e)
{
	return f->partial.size == e->size && f->partial.mtime_s == e->meta.mtime_s &&
	       f->partial.mtime_ns == e->meta.mtime_ns && !e->anew;
}

/* *was_open: it has been open already, for this session or another. */
static int file_open(struct server *s, const struct session *n, const struct place *p, const struct copy_entry *e,
                     struct file **out, bool *was_open)
{
	struct file *f;
	struct stat dir;
	int r;

	if (fstat(p->fd, &dir) < 0)
		return -errno;
	f = file_at(s, &dir, p->name);
	if (f && !is_the_same(f, e)) {
		file_close(s, f);
		f = NULL;
	}
	*was_open = f;
	if (!f) {
		f = file_place(s);
		if (!f)
			return -EMFILE;
		r = partial_open(&f->partial, p, e);
		if (r < 0)
			return r;
		name_region(s, f, &dir, e->anew);
		r = export_file(s, f);
		if (r < 0) {
			partial_close(&f->partial);
			return r;
		}
		f->used = true;
		f->dir = dir;
	}
	f->session = n->id;
	f->used_ns = clock_now_ns();
	*out = f;
	return 0;
}

/* --- entries --- */

static int serve_open(struct server *s, struct session *n, const struct copy_entry *e, struct copy_result *r)
{
	struct place p;
	struct file *f = NULL;
	bool was_open = false;
	int rc = beneath_place(&n->at, e->path, true, &p);

	if (rc == 0)
		rc = file_open(s, n, &p, e, &f, &was_open);
	if (rc == 0 && !partial_read_back(&f->partial, s->until_ns))
		rc = -EAGAIN;    /* to be opened again */
	if (rc == 0 && was_open) /* not at first: the range may be a hole of the source */
		rc = partial_make_room(&f->partial);
	if (rc < 0)
		return rc;
	r->state = COPY_OPENED;
	memcpy(r->region, f->region, sizeof(r->region));
	r->nranges = partial_ranges(&f->partial, r->range);
	return 0;
}

static int serve_commit(struct server *s, const struct session *n, const struct copy_entry *e, struct copy_result *r)
{
	struct file *f = file_by_region(s, e->region);
	int rc;

	if (!f || f->session != n->id)
		return -ESTALE; /* to be opened again */
	f->used_ns = clock_now_ns();
	rc = partial_commit(&f->partial, e, s->until_ns);
	if (rc == -EAGAIN)
		return rc;
	if (rc == 1) {
		r->state = COPY_INCOMPLETE;
		memcpy(r->region, f->region, sizeof(r->region));
		r->nranges = partial_ranges(&f->partial, r->range);
		return 0;
	}
	file_close(s, f);
	s->export->files += rc == 0;
	return rc;
}

static int serve_link(struct session *n, const struct copy_entry *e)
{
	struct place from, p;
	int rc = beneath_place(&n->at, e->target, false, &from), fd;

	if (rc < 0)
		return rc;
	fd = fcntl(from.fd, F_DUPFD_CLOEXEC, 0); /* the next place may close it */
	if (fd < 0)
		return -errno;
	from.fd = fd;
	rc = beneath_place(&n->at, e->path, true, &p);
	if (rc == 0)
		rc = beneath_make_link(&from, &p);
	close(fd);
	return rc;
}

/* --- EXTRAS --- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
	char **name;
	size_t n, room;
};

static bool names_add(struct names *v, const char *name)
{
	if (v->n == v->room) {
		size_t more = v->room ? 2 * v->room : 256;
		char **grown = realloc(v->name, more * sizeof(*grown));

		if (!grown)
			return false;
		v->name = grown;
		v->room = more;
	}
	v->name[v->n] = strdup(name);
	return v->name[v->n] && ++v->n;
}

static void names_free(struct names *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->name[i]);
	free(v->name);
}

/* True for the temporary name of an open file: such names are not listed as extras. */
static bool is_open_here(struct server *s, const struct stat *dir, const char *name)
{
	for (uint32_t i = 0; i < FILES && strncmp(name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0; i++) {
		const struct file *f = &s->file[i];

		if (f->used && f->dir.st_dev == dir->st_dev && f->dir.st_ino == dir->st_ino &&
		    (strcmp(f->partial.temporary, name) == 0 || strcmp(f->partial.journal_name, name) == 0))
			return true;
	}
	return false;
}

static int compare_bound(const char *name, struct copy_bytes bound)
{
	size_t len = strlen(name), n = len < bound.len ? len : bound.len;
	int c = memcmp(name, bound.p, n);

	return c ? c : len < bound.len ? -1 : len > bound.len;
}

static int read_names(struct server *s, DIR *dir, const struct copy_entry *e, struct names *there)
{
	const struct dirent *d;
	struct stat st;

	if (fstat(dirfd(dir), &st) < 0)
		return -errno;
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 || is_open_here(s, &st, d->d_name))
			continue;
		if ((e->after.len && compare_bound(d->d_name, e->after) <= 0) ||
		    (e->upto.len && compare_bound(d->d_name, e->upto) > 0))
			continue;
		if (!names_add(there, d->d_name))
			return -ENOMEM;
	}
	return 0;
}

static int read_kept(const struct copy_entry *e, struct names *kept)
{
	struct copy_in in = {e->data.p, e->data.len};
	char name[COPY_NAME_MAX + 1];
	uint8_t kind;

	while (copy_name_next(&in, &kind, name))
		if (!names_add(kept, name))
			return -ENOMEM;
	return in.p || e->data.len == 0 ? 0 : -EINVAL;
}

static void list_extras(struct server *s, DIR *dir, const struct names *there, const struct names *kept,
                        struct copy_result *r)
{
	struct copy_out o = {.buf = s->list, .cap = sizeof(s->list)};
	struct stat st;

	r->state = COPY_DONE;
	for (size_t i = 0; i < there->n; i++) {
		char *name = there->name[i];

		if (kept->n > 0 && bsearch(&name, kept->name, kept->n, sizeof(name), by_name))
			continue;
		if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* gone */
		if (!copy_name_put(&o, beneath_kind(st.st_mode), name)) {
			r->state = COPY_MORE;
			break;
		}
	}
	r->list = (struct copy_bytes){s->list, o.len};
}

static int serve_extras(struct server *s, struct session *n, const struct copy_entry *e, struct copy_result *r)
{
	struct names there = {0}, kept = {0};
	int fd = beneath_open_dir(&n->at, e->path), rc;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir) {
		rc = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = read_kept(e, &kept);
	if (rc == 0)
		rc = read_names(s, dir, e, &there);
	if (rc == 0 && there.n > 0)
		qsort(there.name, there.n, sizeof(*there.name), by_name);
	if (rc == 0 && kept.n > 0)
		qsort(kept.name, kept.n, sizeof(*kept.name), by_name);
	if (rc == 0)
		list_extras(s, dir, &there, &kept, r);
	names_free(&there);
	names_free(&kept);
	closedir(dir);
	return rc;
}

/* --- batches --- */

/* Removes the journal of a file that has its name: a kill right after the rename leaves the journal behind. */
static void drop_journal(struct server *s, const struct place *p, const struct copy_entry *e)
{
	char name[TEMPORARY_MAX];
	struct stat dir;

	if (!s->export->writable || e->kind != COPY_REGULAR || e->size <= COPY_SMALL_MAX)
		return;
	if (fstat(p->fd, &dir) < 0 || file_at(s, &dir, p->name))
		return; /* the file is being replaced */
	beneath_temporary(p->name, "journal", name);
	unlinkat(p->fd, name, 0);
}

static int serve_check(struct server *s, struct session *n, const struct copy_entry *e, struct copy_result *r)
{
	struct place p;
	int rc = beneath_place(&n->at, e->path, false, &p);

	if (rc == 0) {
		rc = beneath_check(&p, e, &r->state);
		if (rc == 0 && (r->state == COPY_DONE || r->state == COPY_META_DIFFERS))
			drop_journal(s, &p, e);
		return rc;
	}
	r->state = COPY_ABSENT;
	return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP ? 0 : rc;
}

static int serve_meta(struct session *n, const struct copy_entry *e)
{
	struct place p;
	int rc, fd;

	if (e->path.len > 0) {
		rc = beneath_place(&n->at, e->path, false, &p);
		return rc < 0 ? rc : beneath_set_meta_at(&p, &e->meta);
	}
	fd = beneath_open_dir(&n->at, e->path);
	if (fd < 0)
		return fd;
	rc = beneath_set_meta(fd, &e->meta);
	close(fd);
	return rc;
}

/* Carries out entries that need only their place. */
static int serve_at_place(struct server *s, struct session *n, const struct copy_entry *e, struct copy_result *r)
{
	struct place p;
	int rc = beneath_place(&n->at, e->path, e->type != COPY_REMOVE, &p);

	if (rc < 0)
		return rc == -ENOENT && e->type == COPY_REMOVE ? 0 : rc;
	switch (e->type) {
	case COPY_DIR:
		return beneath_make_dir(&p);
	case COPY_FILE:
		if (copy_hash(e->data.p, e->data.len) == e->hash) {
			s->export->files++;
			s->export->bytes += e->data.len;
			return beneath_write_file(&p, e);
		}
		r->state = COPY_CORRUPT;
		return 0;
	case COPY_LINK_SYM:
		return beneath_make_symlink(&p, e);
	default:
		return beneath_remove(&p);
	}
}

static int serve_entry(struct server *s, struct session *n, const struct copy_entry *e, struct copy_result *r)
{
	if (e->type == COPY_CHECK)
		return serve_check(s, n, e, r);
	if (e->type == COPY_EXTRAS)
		return serve_extras(s, n, e, r);
	if (!s->export->writable)
		return -EROFS;
	switch (e->type) {
	case COPY_OPEN:
		return serve_open(s, n, e, r);
	case COPY_COMMIT:
		return serve_commit(s, n, e, r);
	case COPY_LINK_HARD:
		return serve_link(n, e);
	case COPY_META:
		return serve_meta(n, e);
	case COPY_DIR:
		if (e->path.len == 0)
			return beneath_make_usable(n->at.base);
		return serve_at_place(s, n, e, r);
	default:
		return serve_at_place(s, n, e, r);
	}
}

/* False: no correct sender makes this request. */
static bool serve_batch(struct server *s, struct session *n, struct copy_in *in, struct copy_out *out)
{
	static struct copy_result r;
	struct copy_entry e;

	for (uint32_t i = 0; in->left > 0; i++) {
		int rc;

		if (i == COPY_ENTRIES_MAX || !copy_entry_get(in, &e))
			return false;
		if (copy_result_max(e.type) + (e.type == COPY_EXTRAS ? LIST_MAX : 0) > out->cap - out->len)
			return false; /* it asks for more than a reply holds */
		r = (struct copy_result){.type = e.type};
		rc = serve_entry(s, n, &e, &r);
		if (rc < 0) {
			r.error = (uint16_t)-rc;
			beneath_forget(&n->at); /* the cached directory may have been replaced by now */
		} else if (e.type == COPY_REMOVE || e.type == COPY_DIR) {
			beneath_forget(&n->at);
		}
		if (!copy_result_put(out, &r))
			return false;
	}
	return true;
}

/* --- sessions --- */

static struct session *session_by_id(struct server *s, uint64_t id)
{
	for (uint32_t i = 0; i < SESSIONS; i++)
		if (s->session[i].used && s->session[i].id == id)
			return &s->session[i];
	return NULL;
}

static struct session *session_place(struct server *s, uint64_t id)
{
	struct session *n = session_by_id(s, id), *idlest = &s->session[0];

	for (uint32_t i = 0; i < SESSIONS && !n; i++) {
		if (!s->session[i].used)
			n = &s->session[i];
		else if (s->session[i].used_ns < idlest->used_ns)
			idlest = &s->session[i];
	}
	if (!n && clock_now_ns() > idlest->used_ns + ACTIVE_NS)
		n = idlest;
	if (n && n->used)
		beneath_close(&n->at);
	return n;
}

static uint16_t window(const struct server *s)
{
	uint64_t now = clock_now_ns();
	uint32_t active = 0, each;

	for (uint32_t i = 0; i < SESSIONS; i++)
		active += s->session[i].used && now < s->session[i].used_ns + ACTIVE_NS;
	each = WINDOW_ALL / (active ? active : 1);
	return (uint16_t)(each > WINDOW_LEAST ? each : WINDOW_LEAST);
}

/* Opens the place of a session, an O_PATH descriptor or -errno. *fresh: it was made. */
static int open_place(const struct copy_export *e, const char *path, uint8_t flags, bool *fresh)
{
	int root = e->path ? open(e->path, O_PATH | O_DIRECTORY | O_CLOEXEC) : e->root, base;

	*fresh = false;
	if (root < 0)
		return -errno;
	base = beneath_open_base(root, path, 0);
	if (base == -ENOENT && flags & COPY_MAKE && e->writable) {
		base = beneath_open_base(root, path, flags & COPY_PRIVATE ? 0700 : 0755);
		*fresh = true;
	}
	if (e->path)
		close(root);
	return base;
}

static void open_session(struct server *s, uint64_t id, struct copy_bytes path, uint8_t flags, struct copy_session *a)
{
	char text[COPY_PATH_MAX + 1];
	struct session *n;
	struct stat st;
	bool fresh;
	int base;

	memcpy(text, path.p ? path.p : (const uint8_t *)"", path.len);
	text[path.len] = '\0';
	*a = (struct copy_session){.flags = s->export->writable ? COPY_WRITABLE : 0};
	base = open_place(s->export, text, flags, &fresh);
	a->flags |= fresh ? COPY_FRESH : 0;
	a->kind = base == -ENOENT ? COPY_NOTHING : base == -ENOTDIR ? COPY_REGULAR : COPY_DIRECTORY;
	if (base < 0) {
		a->error = (uint16_t)-base;
		return;
	}
	n = session_place(s, id);
	if (!n || fstat(base, &st) < 0) {
		a->error = EBUSY;
		close(base);
		return;
	}
	*n = (struct session){.used = true, .id = id, .used_ns = clock_now_ns()};
	beneath_init(&n->at, base);
}

static size_t serve_say(struct server *s, struct copy_in *in, const struct copy_head *h, struct copy_out *out)
{
	const struct copy_hooks *hooks = s->export->hooks;
	struct copy_bytes text;
	uint8_t stream;

	if (!hooks || !copy_say_get(in, &stream, &text))
		return 0;
	hooks->say(hooks->arg, stream, text.p, text.len);
	copy_head_put(out, h);
	return out->len;
}

/* The reply's length; 0: the request makes no sense. */
static size_t serve_request(struct server *s, struct copy_in *in)
{
	struct copy_out out = {.buf = s->reply, .cap = sizeof(s->reply)};
	struct copy_session a;
	struct copy_bytes path;
	struct session *n;
	struct copy_head h;
	uint8_t flags;

	if (!copy_head_get(in, &h))
		return 0;
	if (h.op == COPY_SESSION) {
		if (!copy_session_ask_get(in, &path, &flags))
			return 0;
		open_session(s, h.session, path, flags, &a);
		h.window = window(s);
		copy_head_put(&out, &h);
		copy_session_put(&out, &a);
		return out.len;
	}
	if (h.op == COPY_SAY)
		return serve_say(s, in, &h, &out);
	if (h.op != COPY_BATCH)
		return 0;
	n = session_by_id(s, h.session);
	if (n)
		n->used_ns = clock_now_ns();
	h.window = n ? window(s) : 0; /* 0: there is no such session, and nothing was done */
	copy_head_put(&out, &h);
	return !n || serve_batch(s, n, in, &out) ? out.len : 0;
}

/* --- events --- */

static void on_call(struct server *s, const struct lr_event *ev)
{
	struct copy_in in = {s->request, ev->len};
	uint64_t id = ev->id;
	size_t len = 0;

	if (ev->len <= sizeof(s->request)) {
		s->until_ns = clock_now_ns() + s->slice_ns;
		memcpy(s->request, ev->data, ev->len); /* the event is valid only until the next call of the library */
		len = serve_request(s, &in);
	}
	if (len == 0 && s->malformed++ == 0)
		log_warn("export %s: the other site sent a request that this version cannot read: use one version of "
		         "longreach at both edges",
		         s->export->name);
	lr_reply(s->lr, id, len ? LR_OK : LR_PERMISSION, s->reply, len);
}

static void on_notice(struct server *s, const struct lr_event *ev)
{
	struct file *f = file_by_region(s, ev->name);
	struct piece p = {.offset = ev->offset, .length = ev->bytes};

	if (!f || !copy_notice_get(ev->data, ev->len, &p.hash))
		return;
	f->used_ns = clock_now_ns();
	s->export->bytes += p.length;
	if (!partial_enter(&f->partial, &p) && s->spoiled++ == 0)
		log_warn(
		    "export %s: a piece differs from its checksum: the source changed meanwhile, or the disk is full",
		    s->export->name);
}

static void free_all(struct server *s)
{
	for (uint32_t i = 0; i < FILES; i++)
		if (s->file[i].used)
			partial_close(&s->file[i].partial);
	for (uint32_t i = 0; i < SESSIONS; i++)
		if (s->session[i].used)
			beneath_close(&s->session[i].at);
	free(s);
}

/* False: a hook ends the serving. */
static bool go_on(struct server *s, int r, const struct lr_event *ev)
{
	const struct copy_hooks *hooks = s->export->hooks;

	if (!hooks)
		return true;
	if (r == 1 && !hooks->event(hooks->arg, s->lr, ev))
		return false;
	return hooks->tick(hooks->arg, s->lr);
}

int copy_serve(struct lr *h, struct copy_export *export)
{
	struct server *s = calloc(1, sizeof(*s));
	bool more = true;
	char service[LR_NAME_MAX];
	struct lr_event ev;
	int r;

	if (!s)
		return -ENOMEM;
	s->lr = h;
	s->export = export;
	s->slice_ns = SLICE_NS;
	if (getrandom(&s->instance, sizeof(s->instance), 0) < 0)
		s->instance = (uint32_t)getpid();
	snprintf(service, sizeof(service), COPY_SERVICE_PREFIX "%s", export->name);
	r = lr_serve(h, service);
	if (r >= 0 && export->hooks)
		more = export->hooks->serving(export->hooks->arg, h);
	while (more && r >= 0 && (r = lr_wait(h, &ev, export->hooks ? TICK_MS : SWEEP_MS)) >= 0) {
		if (r == 0)
			sweep(s);
		else if (ev.type == LR_EV_CALL)
			on_call(s, &ev);
		else if (ev.type == LR_EV_NOTICE)
			on_notice(s, &ev);
		more = go_on(s, r, &ev);
	}
	free_all(s);
	return r < 0 ? r : 0;
}
