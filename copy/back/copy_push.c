/* SPDX-License-Identifier: Apache-2.0 */
/* copy_push.c - the sender of an export.
 *
 * The sender's output goes into two memfds, and from there to the requesting program, as this process has no terminal.
 * Text beyond TEXT_MAX is dropped. */
#define _GNU_SOURCE /* memfd_create */
#include "copy_push.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "copy/client/copy_send.h"
#include "copy/wire/copy_wire.h"
#include "daemon/util/log.h"

#define TEXT_MAX (16u << 20)
#define SAY_MS   10000

struct push {
	struct lr *lr;
	const char *export;
	int text[2], own[2]; /* memfds in place of standard output and error; those */
	uint64_t last;       /* last request that was carried out, 0: none */
	uint8_t last_code;
	struct copy_push ask;
	char source[COPY_SOURCES_MAX][COPY_PATH_MAX + 3]; /* "./" in front, so that none is empty */
	char exclude[COPY_EXCLUDES_MAX][COPY_PATH_MAX + 1];
	char *sources[COPY_SOURCES_MAX], *excludes[COPY_EXCLUDES_MAX];
	uint8_t request[COPY_MSG_MAX], message[COPY_SAY_MAX + 64];
};

/* --- what is printed --- */

static bool redirect(struct push *p)
{
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		if (ftruncate(p->text[i], 0) < 0 || lseek(p->text[i], 0, SEEK_SET) < 0 || dup2(p->text[i], 1 + i) < 0)
			return false;
	}
	return true;
}

static void restore(const struct push *p)
{
	fflush(stdout);
	for (int i = 0; i < 2; i++)
		dup2(p->own[i], 1 + i);
}

/* Makes one call and waits for its answer. False: the requester is gone. */
static bool say(struct push *p, uint64_t session, uint8_t stream, const uint8_t *text, size_t len)
{
	struct copy_out o = {.buf = p->message, .cap = sizeof(p->message)};
	char service[LR_NAME_MAX];
	struct lr_event ev;
	uint64_t op = 0;
	int r, waited = 0;

	snprintf(service, sizeof(service), COPY_SERVICE_PREFIX "%s", p->ask.export);
	copy_head_put(&o, &(struct copy_head){.op = COPY_SAY, .session = session});
	copy_say_put(&o, stream, (struct copy_bytes){text, len});
	r = lr_call(p->lr, service, o.buf, o.len, &op);
	while (r >= 0 && waited <= SAY_MS && (r = lr_wait(p->lr, &ev, 200)) >= 0) {
		if (r == 0)
			waited += 200;
		else if (ev.type == LR_EV_CALL)
			lr_reply(p->lr, ev.id, LR_NO_ROOM, NULL, 0);
		else if (ev.type == LR_EV_DONE && ev.id == op)
			return ev.status == LR_OK;
	}
	return false;
}

static void say_all(struct push *p, uint64_t session)
{
	static uint8_t text[COPY_SAY_MAX];

	for (int i = 0; i < 2; i++) {
		off_t at = 0;
		ssize_t n;

		while ((n = pread(p->text[i], text, sizeof(text), at)) > 0) {
			if (!say(p, session, (uint8_t)(1 + i), text, (size_t)n))
				return;
			at += n;
		}
	}
}

/* --- a copy --- */

static void set_text(char *to, const char *before, struct copy_bytes b)
{
	size_t n = strlen(before);

	memcpy(to, before, n);
	if (b.len > 0)
		memcpy(to + n, b.p, b.len);
	to[n + b.len] = '\0';
}

static uint8_t carry_out(struct push *p, uint64_t session)
{
	const struct copy_push *a = &p->ask;
	static struct copy_options o;
	int code;

	o = (struct copy_options){.source = p->sources,
	                          .nsources = a->nsources,
	                          .link = "link",
	                          .into = a->flags & COPY_PUSH_INTO,
	                          .exclude = p->excludes,
	                          .nexcludes = a->nexcludes,
	                          .remove = a->flags & COPY_PUSH_REMOVE,
	                          .dry_run = a->flags & COPY_PUSH_DRY_RUN,
	                          .json = a->flags & COPY_PUSH_JSON,
	                          .verbose = a->flags & COPY_PUSH_VERBOSE,
	                          .timeout_s = a->timeout_s};
	memcpy(o.export, a->export, sizeof(o.export));
	set_text(o.path, "", a->path);
	for (uint32_t i = 0; i < a->nsources; i++) {
		set_text(p->source[i], "./", a->source[i]);
		p->sources[i] = p->source[i];
	}
	for (uint32_t i = 0; i < a->nexcludes; i++) {
		set_text(p->exclude[i], "", a->exclude[i]);
		p->excludes[i] = p->exclude[i];
	}
	if (!redirect(p)) {
		restore(p);
		return COPY_EXIT_MEMORY;
	}
	code = copy_send(&o, p->lr);
	restore(p);
	if (code == COPY_EXIT_SIGNAL)
		_exit(EXIT_SUCCESS); /* this process was told to end */
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	log_info("export %s: a copy to the other site ended with exit code %d", p->export, code);
	say_all(p, session);
	return (uint8_t)code;
}

static void on_call(struct push *p, const struct lr_event *ev)
{
	struct copy_in in = {p->request, ev->len};
	struct copy_out o = {.buf = p->message, .cap = sizeof(p->message)};
	uint64_t call = ev->id;
	struct copy_head h;

	if (ev->len > sizeof(p->request)) {
		lr_reply(p->lr, call, LR_PERMISSION, NULL, 0);
		return;
	}
	memcpy(p->request, ev->data, ev->len); /* the event is gone with the next call of the library */
	if (!copy_head_get(&in, &h) || h.op != COPY_PUSH || h.session == 0 || !copy_push_get(&in, &p->ask)) {
		log_warn("export %s: the other site sent a request that this version cannot read: use one version of "
		         "longreach at both edges",
		         p->export);
		lr_reply(p->lr, call, LR_PERMISSION, NULL, 0);
		return;
	}
	if (h.session != p->last) {
		p->last_code = carry_out(p, h.session);
		p->last = h.session;
	}
	copy_head_put(&o, &(struct copy_head){.op = COPY_PUSH, .session = h.session});
	copy_pushed_put(&o, p->last_code);
	lr_reply(p->lr, call, LR_OK, o.buf, o.len);
}

static bool push_open(struct push *p)
{
	struct rlimit most = {TEXT_MAX, TEXT_MAX};

	signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &most) < 0)
		return false;
	for (int i = 0; i < 2; i++) {
		p->text[i] = memfd_create("text", MFD_CLOEXEC);
		p->own[i] = dup(1 + i);
		if (p->text[i] < 0 || p->own[i] < 0)
			return false;
	}
	return true;
}

int copy_push_serve(struct lr *h, const char *export)
{
	struct push *p = calloc(1, sizeof(*p));
	char service[LR_NAME_MAX];
	struct lr_event ev;
	int r;

	if (!p)
		return -ENOMEM;
	p->lr = h;
	p->export = export;
	snprintf(service, sizeof(service), COPY_PUSH_PREFIX "%s", export);
	r = push_open(p) ? lr_serve(h, service) : -errno;
	while (r >= 0 && (r = lr_wait(h, &ev, -1)) >= 0)
		if (r == 1 && ev.type == LR_EV_CALL)
			on_call(p, &ev);
	free(p);
	return r;
}
