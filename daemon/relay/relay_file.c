/* SPDX-License-Identifier: Apache-2.0 */
/* relay_file.c - files of programs, and the threads of their mounts. */
#define _GNU_SOURCE /* statx, F_GET_SEALS, O_PATH, pthread_setname_np */
#include "relay_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/util/clock.h"
#include "daemon/util/file_io.h"
#include "daemon/util/log.h"
#include "daemon/util/thread.h"
#include "relay_priv.h"

uint64_t relay_silent_ns = 10000000000ull;

/* --- the threads of mounts --- */

enum file_what { FILE_READ, FILE_WRITE, FILE_CLOSE };

/* A job owns its bytes: the kernel may still access them long after all users have given the job up. */
struct file_job {
	struct dnode node;         /* in file_mount.queue or relay_mount.done */
	struct relay_mount *owner; /* NULL: nobody waits for it any more */
	struct relay_io *io;       /* of its owner */
	struct relay_files *closes; /* FILE_CLOSE: the link that counts it; NULL: the link has gone */
	enum file_what what;
	int fd, result;
	uint64_t offset;
	uint32_t len;
	uint8_t data[];
};

struct file_mount {
	struct dnode node; /* in mounts */
	uint64_t device;
	uint32_t users;    /* relay_mount */
	uint32_t nunclosed; /* descriptors that wait to be closed, or are being closed */
	struct dnode queue;
	struct file_job *now; /* the job that the thread is at ... */
	uint64_t since_ns;    /* ... since then */
	pthread_cond_t wake;
};

static pthread_mutex_t mounts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct dnode mounts = {&mounts, &mounts}; /* struct file_mount */

static void run_job(struct file_job *j)
{
	switch (j->what) {
	case FILE_READ:
		j->result = pread_all(j->fd, j->data, j->len, j->offset);
		return;
	case FILE_WRITE:
		j->result = pwrite_all(j->fd, j->data, j->len, j->offset);
		return;
	case FILE_CLOSE:
		close(j->fd);
		return;
	}
}

/* Under the lock, which keeps the owner's notify_fd open. */
static void hand_back(struct file_mount *d, struct file_job *j)
{
	static const uint64_t one = 1;
	struct relay_mount *m = j->owner;
	bool first;

	d->nunclosed -= j->what == FILE_CLOSE;
	if (j->closes)
		j->closes->nunclosed--;
	if (!m) {
		free(j);
		return;
	}
	first = dlist_empty(&m->done);
	dlist_append(&m->done, &j->node);
	if (first && write(m->relay->notify_fd, &one, sizeof(one)) < 0)
		return; /* it is set already */
}

static void *mount_main(void *arg)
{
	struct file_mount *d = arg;
	struct dnode *n;

	pthread_setname_np(pthread_self(), "lr:files");
	pthread_mutex_lock(&mounts_lock);
	for (;;) {
		while (!(n = dlist_first(&d->queue)) && d->users > 0)
			pthread_cond_wait(&d->wake, &mounts_lock);
		if (!n)
			break;
		dlist_remove(n);
		d->now = dlist_entry(n, struct file_job, node);
		d->since_ns = clock_now_ns();
		pthread_mutex_unlock(&mounts_lock);
		run_job(d->now);
		pthread_mutex_lock(&mounts_lock);
		hand_back(d, d->now);
		d->now = NULL;
	}
	dlist_remove(&d->node);
	pthread_mutex_unlock(&mounts_lock);
	pthread_cond_destroy(&d->wake);
	free(d);
	return NULL;
}

/* Under the lock. NULL: it has no thread. */
static struct file_mount *mount_find(uint64_t device)
{
	for (struct dnode *n = mounts.next; n != &mounts; n = n->next) {
		struct file_mount *d = dlist_entry(n, struct file_mount, node);

		if (d->device == device)
			return d;
	}
	return NULL;
}

/* Under the lock. */
static bool is_silent(const struct file_mount *d)
{
	return d->now && clock_now_ns() >= d->since_ns + relay_silent_ns;
}

/* True if no more files of the mount may be opened. Under the lock. */
static bool is_refused(const struct file_mount *d)
{
	return d && is_silent(d) && d->nunclosed >= RELAY_UNCLOSED_SILENT;
}

/* Finds or starts the mount's thread, which runs as long as it has users or jobs. Under the lock. NULL: no thread could
 * be started. */
static struct file_mount *mount_get(uint64_t device)
{
	struct file_mount *d = mount_find(device);
	pthread_t thread;

	if (d) {
		d->users++;
		return d;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	*d = (struct file_mount){.device = device, .users = 1};
	dlist_init(&d->queue);
	pthread_cond_init(&d->wake, NULL);
	if (thread_start(&thread, mount_main, d) < 0) {
		pthread_cond_destroy(&d->wake);
		free(d);
		return NULL;
	}
	pthread_detach(thread);
	dlist_append(&mounts, &d->node);
	return d;
}

static void mount_put(struct file_mount *d)
{
	d->users--;
	pthread_cond_signal(&d->wake);
}

static void add_job(struct file_mount *d, struct file_job *j)
{
	dlist_append(&d->queue, &j->node);
	pthread_cond_signal(&d->wake);
}

/* --- descriptors --- */

/* statx() of attributes that the kernel has cached: waits for no server. */
static int look(int fd, struct statx *st)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, st) < 0 ? -errno : 0;
}

/* Refuses pipes and sockets, which have no offsets and could block a thread for ever, and O_APPEND, which ignores
 * offsets. */
int relay_file_check(int fd, bool read, bool write)
{
	int flags = fcntl(fd, F_GETFL), how = flags & O_ACCMODE, rc;
	struct statx st;

	if (flags < 0)
		return -errno;
	rc = look(fd, &st);
	if (rc < 0)
		return rc;
	if ((!S_ISREG(st.stx_mode) && !S_ISBLK(st.stx_mode)) || (flags & O_PATH))
		return -EINVAL;
	if ((read && how == O_WRONLY) || (write && (how == O_RDONLY || (flags & O_APPEND))))
		return -EBADF;
	return 0;
}

/* Only what is in memory has seals. */
static bool is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

/* Device number of the file system, or of the block device itself. */
static uint64_t device_of(int fd)
{
	struct statx st;

	if (look(fd, &st) < 0)
		return 0;
	return S_ISBLK(st.stx_mode) ? 1ull << 63 | (uint64_t)st.stx_rdev_major << 32 | st.stx_rdev_minor
	                            : (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
}

/* "/mnt/nas", or "device 0:45" if this process sees no mount point of it. */
static void name_mount(uint64_t device, char *text, size_t cap)
{
	unsigned want_major = (unsigned)(device >> 32 & 0x7fffffff), want_minor = (unsigned)(device & UINT32_MAX), major, minor;
	FILE *f = device >> 63 ? NULL : fopen("/proc/self/mountinfo", "re");
	char line[1024], path[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*u %*u %u:%u %*s %255s", &major, &minor, path) == 3 && major == want_major &&
		        minor == want_minor;
	if (f)
		fclose(f);
	if (found)
		snprintf(text, cap, "%.*s", (int)cap - 1, path);
	else
		snprintf(text, cap, "%sdevice %u:%u", device >> 63 ? "block " : "", want_major, want_minor);
}

bool relay_files_take(const struct relay_thread *r, uint64_t refused)
{
	bool take;

	pthread_mutex_lock(&mounts_lock);
	take = r->files.nunclosed < RELAY_UNCLOSED && (refused == 0 || !is_refused(mount_find(refused)));
	pthread_mutex_unlock(&mounts_lock);
	return take;
}

static void say_refused(struct relay_thread *r, uint64_t device)
{
	char name[RELAY_SILENT_FILE_MAX - sizeof("a file of ") + 1];

	name_mount(device, name, sizeof(name));
	log_err("link %s: %s does not answer, and descriptors of %u of its files wait to be closed: the relay refuses "
	        "more (EIO) until it answers",
	        r->config.name, name, RELAY_UNCLOSED_SILENT);
	pthread_mutex_lock(&mounts_lock);
	r->files.refused = device;
	snprintf(r->files.refused_name, sizeof(r->files.refused_name), "a file of %s", name);
	pthread_mutex_unlock(&mounts_lock);
}

bool relay_file_is_refused(struct relay_thread *r, int fd, uint64_t *refused)
{
	uint64_t device = is_memory(fd) ? 0 : device_of(fd);
	bool is, is_news;

	pthread_mutex_lock(&mounts_lock);
	is = device && is_refused(mount_find(device));
	is_news = is && r->files.refused != device;
	pthread_mutex_unlock(&mounts_lock);
	if (is)
		*refused = device;
	if (is_news)
		say_refused(r, device);
	return is;
}

void relay_file_close(struct relay_thread *r, int fd)
{
	struct file_job *j = fd >= 0 && !is_memory(fd) ? calloc(1, sizeof(*j)) : NULL;
	struct file_mount *d = NULL;

	if (fd < 0)
		return;
	if (j) {
		*j = (struct file_job){.what = FILE_CLOSE, .fd = fd, .closes = r->files.is_over ? NULL : &r->files};
		pthread_mutex_lock(&mounts_lock);
		d = mount_get(device_of(fd));
		if (d) {
			d->nunclosed++;
			r->files.nunclosed += j->closes != NULL;
			add_job(d, j);
			mount_put(d);
		}
		pthread_mutex_unlock(&mounts_lock);
	}
	if (!d) {
		free(j);
		close(fd);
	}
}

static bool is_idle(const struct relay_mount *m)
{
	return m->nfiles == 0 && dlist_empty(&m->waiting) && dlist_empty(&m->asked);
}

/* Under the lock. */
static struct relay_mount *place_for(struct relay_thread *r, uint64_t device)
{
	struct relay_mount *place = NULL;

	for (uint32_t i = 0; i < RELAY_MOUNTS; i++) {
		struct relay_mount *m = &r->files.mount[i];

		if (m->mount && m->mount->device == device)
			return m;
		if (!place && is_idle(m) && dlist_empty(&m->done))
			place = m;
	}
	if (place && place->mount)
		mount_put(place->mount);
	if (place) {
		place->mount = mount_get(device);
		place->silent = false;
		place->silent_file[0] = '\0';
	}
	return place && place->mount ? place : NULL;
}

struct relay_file *relay_file_new(struct relay_thread *r, int fd, const char *name)
{
	struct relay_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->relay = r;
	f->fd = fd;
	f->refs = 1;
	memcpy(f->name, name, LR_NAME_MAX);
	if (is_memory(fd))
		return f;
	pthread_mutex_lock(&mounts_lock);
	f->mount = place_for(r, device_of(fd));
	pthread_mutex_unlock(&mounts_lock);
	if (!f->mount) {
		free(f);
		return NULL;
	}
	f->mount->nfiles++;
	return f;
}

struct relay_file *relay_file_ref(struct relay_file *f)
{
	f->refs++;
	return f;
}

void relay_file_unref(struct relay_file *f)
{
	if (!f || --f->refs > 0)
		return;
	if (f->mount)
		f->mount->nfiles--;
	relay_file_close(f->relay, f->fd);
	free(f);
}

/* --- what is asked of a mount --- */

/* A write of a chunk, or a block of a reader. */
struct relay_io {
	struct dnode node;       /* in relay_mount.waiting or .asked, or in relay_files.over */
	struct relay_file *file; /* a reference */
	struct file_job *job;    /* NULL: it has none yet, or it has ended */
	struct relay_file_reader *reader; /* of a block; NULL: the stream has gone, or it is a write */
	bool is_block;
	struct relay_write write;
};

static struct relay_io *io_new(struct relay_file *f)
{
	struct relay_io *io = calloc(1, sizeof(*io));

	if (io)
		io->file = relay_file_ref(f);
	return io;
}

static void io_free(struct relay_io *io)
{
	dlist_remove(&io->node);
	relay_file_unref(io->file);
	free(io);
}

static bool io_ask(struct relay_io *io, enum file_what what, uint64_t offset, const uint8_t *data, uint32_t len)
{
	struct relay_mount *m = io->file->mount;
	struct file_job *j = malloc(sizeof(*j) + len);

	if (!j)
		return false;
	*j = (struct file_job){
	    .owner = m, .io = io, .what = what, .fd = io->file->fd, .offset = offset, .len = len};
	if (data)
		memcpy(j->data, data, len);
	io->job = j;
	dlist_remove(&io->node);
	dlist_append(&m->asked, &io->node);
	pthread_mutex_lock(&mounts_lock);
	add_job(m->mount, j);
	pthread_mutex_unlock(&mounts_lock);
	return true;
}

/* Nobody waits for the job any more: drops it, or leaves it to its thread if that is at it. Under the lock. */
static void forget_job(struct file_mount *d, struct file_job *j)
{
	if (d->now == j) {
		j->owner = NULL;
		return;
	}
	dlist_remove(&j->node);
	free(j);
}

/* --- writing --- */

enum lr_status relay_file_write(struct relay_thread *r, const struct relay_write *w)
{
	struct relay_mount *m = w->file->mount;
	struct relay_io *io;

	(void)r;
	if (m->silent)
		return w->is_get ? LR_IO_LOCAL : LR_IO_REMOTE;
	io = io_new(w->file);
	if (!io)
		return LR_NO_ROOM;
	io->write = *w;
	dlist_append(&m->waiting, &io->node);
	return LR_OK;
}

static void write_over(struct relay_thread *r, struct relay_io *io, int result)
{
	struct relay_write *w = &io->write;

	w->status = result == -ESTALE ? LR_NO_REGION : result == 0 ? LR_OK : w->is_get ? LR_IO_LOCAL : LR_IO_REMOTE;
	dlist_remove(&io->node);
	dlist_append(&r->files.over[relay_write_is_answered(w)], &io->node);
}

static void run_writes(struct relay_thread *r, struct relay_mount *m)
{
	struct dnode *n;

	while (m->nwrites < RELAY_FILE_WRITES && (n = dlist_first(&m->waiting))) {
		struct relay_io *io = dlist_entry(n, struct relay_io, node);
		const struct relay_write *w = &io->write;

		if (io->file->withdrawn && !w->is_get)
			write_over(r, io, -ESTALE);
		else if (io_ask(io, FILE_WRITE, w->offset, w->data, w->len))
			m->nwrites++;
		else
			write_over(r, io, -ENOMEM);
	}
}

/* Their slots go back, as far as the workers' rings, or the answering channels, have room. False: not all of them. */
static bool finish_writes(struct relay_thread *r, struct dnode *over)
{
	struct dnode *n;

	while ((n = dlist_first(over))) {
		struct relay_io *io = dlist_entry(n, struct relay_io, node);
		const struct relay_write *w = &io->write;

		if (!relay_execute_has_room(r, w))
			return false;
		dlist_remove(n);
		if (w->status == LR_OK)
			relay_count(&r->count.relay_copied_bytes, w->len);
		relay_execute_written(r, w);
		io_free(io);
	}
	return true;
}

/* --- reading --- */

struct relay_file_reader *relay_file_reader_new(struct relay_thread *r, struct relay_stream *s)
{
	struct relay_file_reader *rd = calloc(1, sizeof(*rd));

	if (!rd)
		return NULL;
	rd->stream = s;
	dlist_append(&r->files.readers, &rd->node);
	return rd;
}

static void block_free(struct relay_file_reader *rd, struct relay_file_block *b)
{
	rd->stream->file->mount->nblocks -= b->io == NULL;
	if (b->io)
		b->io->reader = NULL; /* its job's end counts it off */
	free(b->job);
}

void relay_file_reader_free(struct relay_file_reader *rd)
{
	for (uint32_t i = 0; i < rd->n; i++)
		block_free(rd, &rd->block[(rd->first + i) % RELAY_FILE_AHEAD]);
	dlist_remove(&rd->node);
	free(rd);
}

/* The next block of a reader, of one piece. */
static void read_ahead(struct relay_file_reader *rd)
{
	const struct relay_stream *s = rd->stream;
	struct relay_mount *m = s->file->mount;
	uint64_t left = s->length - rd->asked;
	struct relay_file_block *b = &rd->block[(rd->first + rd->n) % RELAY_FILE_AHEAD];
	struct relay_io *io;

	if (left == 0 || rd->failed || rd->n == RELAY_FILE_AHEAD || (rd->n > 0 && m->nblocks >= RELAY_FILE_BLOCKS))
		return;
	left = relay_pieces_run(s->pieces, rd->asked, left < RELAY_FILE_BLOCK ? left : RELAY_FILE_BLOCK);
	io = io_new(s->file);
	if (!io)
		return; /* in the next turn, perhaps */
	io->is_block = true;
	io->reader = rd;
	if (!io_ask(io, FILE_READ, s->fd_offset + relay_pieces_source(s->pieces, rd->asked), NULL, (uint32_t)left)) {
		io_free(io);
		return;
	}
	*b = (struct relay_file_block){.io = io, .offset = rd->asked, .len = (uint32_t)left, .left = (uint32_t)left};
	m->nblocks++;
	rd->n++;
	rd->asked += left;
}

static void give_emptied(struct relay_file_reader *rd)
{
	while (rd->n > 0 && rd->block[rd->first].left == 0) {
		block_free(rd, &rd->block[rd->first]);
		rd->first = (rd->first + 1) % RELAY_FILE_AHEAD;
		rd->n--;
	}
}

/* j: holds the bytes, and belongs to the reader from now on; NULL: no bytes. */
static void block_over(struct relay_io *io, struct file_job *j, int result)
{
	struct relay_file_reader *rd = io->reader;

	if (!rd) {
		io->file->mount->nblocks--;
		free(j);
		return;
	}
	rd->failed |= result < 0;
	for (uint32_t i = 0; i < rd->n; i++) {
		struct relay_file_block *b = &rd->block[(rd->first + i) % RELAY_FILE_AHEAD];

		if (b->io == io) {
			b->io = NULL;
			b->job = j;
		}
		if (b->io)
			return;
		if (!rd->failed)
			rd->loaded = b->offset + b->len;
	}
}

static const struct relay_file_block *block_at(const struct relay_file_reader *rd, uint64_t offset)
{
	for (uint32_t i = 0; i < rd->n; i++) {
		const struct relay_file_block *b = &rd->block[(rd->first + i) % RELAY_FILE_AHEAD];

		if (offset >= b->offset && offset - b->offset < b->len)
			return b;
	}
	return NULL;
}

uint64_t relay_file_reader_run(const struct relay_file_reader *rd, uint64_t offset, uint64_t left)
{
	const struct relay_file_block *b = block_at(rd, offset);

	return b && b->len - (offset - b->offset) < left ? b->len - (offset - b->offset) : left;
}

void relay_file_reader_take(struct relay_file_reader *rd, uint8_t *to, uint64_t offset, uint32_t len)
{
	for (uint32_t i = 0; i < rd->n; i++) {
		struct relay_file_block *b = &rd->block[(rd->first + i) % RELAY_FILE_AHEAD];

		if (offset < b->offset || offset - b->offset >= b->len)
			continue;
		memcpy(to, b->job->data + (offset - b->offset), len);
		b->left -= len;
		return;
	}
}

static void run_readers(struct relay_thread *r)
{
	struct dnode *n, *next;

	for (n = r->files.readers.next; n != &r->files.readers; n = next) {
		struct relay_file_reader *rd = dlist_entry(n, struct relay_file_reader, node);

		next = n->next;
		give_emptied(rd);
		if (rd->failed || rd->stream->file->mount->silent) {
			relay_stream_fail(r, rd->stream, LR_IO_LOCAL);
			next = r->files.readers.next; /* others may have gone with it */
			continue;
		}
		while (rd->n < RELAY_FILE_AHEAD) {
			uint32_t before = rd->n;

			read_ahead(rd);
			if (rd->n == before)
				break;
		}
	}
	dlist_rotate(&r->files.readers);
}

/* --- a mount that has answered, or does not --- */

/* j NULL: it never will. */
static void io_over(struct relay_thread *r, struct relay_io *io, struct file_job *j, int result)
{
	struct relay_mount *m = io->file->mount;

	io->job = NULL;
	if (io->is_block) {
		block_over(io, j, result);
		io_free(io);
		return;
	}
	m->nwrites--;
	free(j);
	write_over(r, io, result);
}

static void take_done(struct relay_thread *r, struct relay_mount *m)
{
	struct dnode done, *n;

	dlist_init(&done);
	pthread_mutex_lock(&mounts_lock);
	while ((n = dlist_first(&m->done))) {
		dlist_remove(n);
		dlist_append(&done, n);
	}
	pthread_mutex_unlock(&mounts_lock);
	while ((n = dlist_first(&done))) {
		struct file_job *j = dlist_entry(n, struct file_job, node);

		dlist_remove(n);
		io_over(r, j->io, j, j->result);
	}
}

/* Fails all requests to the mount; none of them is begun any more. */
static void fail_all(struct relay_thread *r, struct relay_mount *m)
{
	struct dnode *n;

	pthread_mutex_lock(&mounts_lock);
	for (n = m->asked.next; n != &m->asked; n = n->next)
		forget_job(m->mount, dlist_entry(n, struct relay_io, node)->job);
	pthread_mutex_unlock(&mounts_lock);
	while ((n = dlist_first(&m->asked)))
		io_over(r, dlist_entry(n, struct relay_io, node), NULL, -ETIMEDOUT);
	while ((n = dlist_first(&m->waiting)))
		write_over(r, dlist_entry(n, struct relay_io, node), -ETIMEDOUT);
}

/* The file that the mount's thread is at, if it belongs to a program of this link; else one that waits behind it. */
static const struct relay_file *silent_file(const struct relay_mount *m, const struct file_job *now)
{
	const struct dnode *n = dlist_first(&m->asked) ? dlist_first(&m->asked) : dlist_first(&m->waiting);

	if (now && now->owner == m)
		return now->io->file;
	return n ? dlist_entry(n, struct relay_io, node)->file : NULL;
}

static void set_silent_file(struct relay_mount *m, const char *text)
{
	pthread_mutex_lock(&mounts_lock);
	snprintf(m->silent_file, sizeof(m->silent_file), "%s", text);
	pthread_mutex_unlock(&mounts_lock);
}

static void say_silent(struct relay_thread *r, struct relay_mount *m, const struct relay_file *f)
{
	const char *what = f->region ? "region" : f->is_read ? "the file of a put into" : "the file of a get of";
	char text[RELAY_SILENT_FILE_MAX], mount[RELAY_SILENT_FILE_MAX];

	snprintf(text, sizeof(text), "%s %.*s", what, LR_NAME_MAX, f->name);
	name_mount(m->mount->device, mount, sizeof(mount));
	log_err("link %s: %s does not answer: operations on files of its mount, %s, fail until it answers",
	        r->config.name, text, mount);
	relay_count(&r->count.relay_files_silent, 1);
	set_silent_file(m, text);
}

static void say_answers(struct relay_thread *r, struct relay_mount *m)
{
	log_notice("link %s: files of a mount that did not answer do so again", r->config.name);
	set_silent_file(m, "");
}

static void look_at_mount(struct relay_thread *r, struct relay_mount *m)
{
	const struct relay_file *file = NULL;
	bool silent;

	take_done(r, m);
	pthread_mutex_lock(&mounts_lock);
	silent = m->mount->now && clock_now_ns() >= m->mount->since_ns + relay_silent_ns;
	if (silent)
		file = silent_file(m, m->mount->now);
	pthread_mutex_unlock(&mounts_lock);
	if (silent && !m->silent && file)
		say_silent(r, m, file);
	if (!silent && m->silent)
		say_answers(r, m);
	m->silent = silent && (file || m->silent);
	if (m->silent)
		fail_all(r, m);
	else
		run_writes(r, m);
}

/* --- life --- */

void relay_files_init(struct relay_thread *r)
{
	dlist_init(&r->files.readers);
	dlist_init(&r->files.over[0]);
	dlist_init(&r->files.over[1]);
	for (uint32_t i = 0; i < RELAY_MOUNTS; i++) {
		struct relay_mount *m = &r->files.mount[i];

		m->relay = r;
		dlist_init(&m->waiting);
		dlist_init(&m->asked);
		dlist_init(&m->done);
	}
}

/* Forgets a refused mount that answers again, so that its next refusal is logged. */
static void look_at_refused(struct relay_thread *r)
{
	bool answers;

	pthread_mutex_lock(&mounts_lock);
	answers = r->files.refused && !is_refused(mount_find(r->files.refused));
	if (answers)
		r->files.refused = 0;
	pthread_mutex_unlock(&mounts_lock);
	if (answers)
		log_notice("link %s: %s answers again: the relay takes descriptors as before", r->config.name,
		           r->files.refused_name);
}

bool relay_files_turn(struct relay_thread *r)
{
	bool all;

	if (r->files.refused)
		look_at_refused(r);
	for (uint32_t i = 0; i < RELAY_MOUNTS; i++)
		if (r->files.mount[i].mount && (!is_idle(&r->files.mount[i]) || r->files.mount[i].silent))
			look_at_mount(r, &r->files.mount[i]);
	run_readers(r);
	all = finish_writes(r, &r->files.over[0]);
	all &= finish_writes(r, &r->files.over[1]);
	return !all;
}

void relay_files_silent(const struct relay_thread *r, char text[RELAY_SILENT_FILE_MAX])
{
	text[0] = '\0';
	pthread_mutex_lock(&mounts_lock);
	for (uint32_t i = 0; i < RELAY_MOUNTS && text[0] == '\0'; i++)
		memcpy(text, r->files.mount[i].silent_file, RELAY_SILENT_FILE_MAX);
	if (text[0] == '\0' && r->files.refused && is_refused(mount_find(r->files.refused)))
		memcpy(text, r->files.refused_name, RELAY_SILENT_FILE_MAX);
	pthread_mutex_unlock(&mounts_lock);
}

uint32_t relay_files_unclosed(const struct relay_thread *r)
{
	uint32_t n;

	pthread_mutex_lock(&mounts_lock);
	n = r->files.nunclosed;
	pthread_mutex_unlock(&mounts_lock);
	return n;
}

static void count_no_more(const struct relay_files *files, struct file_job *j)
{
	if (j && j->closes == files)
		j->closes = NULL;
}

/* Takes the link off its descriptors that are still to be closed. */
static void leave_closing(struct relay_files *files)
{
	pthread_mutex_lock(&mounts_lock);
	files->is_over = true;
	for (struct dnode *n = mounts.next; n != &mounts; n = n->next) {
		struct file_mount *d = dlist_entry(n, struct file_mount, node);

		count_no_more(files, d->now);
		for (struct dnode *q = d->queue.next; q != &d->queue; q = q->next)
			count_no_more(files, dlist_entry(q, struct file_job, node));
	}
	pthread_mutex_unlock(&mounts_lock);
}

void relay_files_close(struct relay_thread *r)
{
	struct dnode *n;

	for (uint32_t i = 0; i < RELAY_MOUNTS; i++) {
		struct relay_mount *m = &r->files.mount[i];

		if (!m->mount)
			continue;
		pthread_mutex_lock(&mounts_lock);
		while ((n = dlist_first(&m->asked))) {
			struct relay_io *io = dlist_entry(n, struct relay_io, node);

			forget_job(m->mount, io->job);
			dlist_remove(n);
			dlist_append(&r->files.over[0], n);
		}
		mount_put(m->mount);
		pthread_mutex_unlock(&mounts_lock);
		while ((n = dlist_first(&m->waiting))) {
			dlist_remove(n);
			dlist_append(&r->files.over[0], n);
		}
		m->mount = NULL;
	}
	for (unsigned i = 0; i < 2; i++)
		while ((n = dlist_first(&r->files.over[i])))
			io_free(dlist_entry(n, struct relay_io, node));
	leave_closing(&r->files);
}
