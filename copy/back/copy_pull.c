/* SPDX-License-Identifier: Apache-2.0 */
/* copy_pull.c - a copy from the other site to here: this program serves the place, and the sender of the export fills it.
 *
 * Theory of operation. During the copy the place is an export of this program, under a name that nobody can guess, with
 * all checks of an export's server: no message of the other site leads out of it. One call asks the sender, which
 * answers when it has finished. If the call ends early, because the sender's process or a daemon has ended, it is
 * repeated with the same number: the arrived pieces are in the journals. */
#define _GNU_SOURCE /* O_PATH */
#include "copy_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "copy/client/copy_progress.h"
#include "copy/client/copy_send.h"
#include "copy/server/copy_serve.h"
#include "copy/wire/copy_wire.h"

#define AGAIN_S 0.3 /* between two tries */
#define FIRST_S 2.0 /* how long to wait for the export's server to come */

struct pull {
	const struct copy_options *o;
	uint64_t number;
	char name[COPY_EXPORT_MAX];
	char *path; /* of the place, beneath root */
	bool into;
	struct copy_export export;
	struct progress progress;
	uint64_t op;           /* the call, 0: none is under way */
	double asked_s;        /* when it was made last */
	double alive_s;        /* when something came last */
	uint64_t seen_bytes, seen_files;
	bool answered;         /* the sender has been there */
	const char *waiting;   /* who is waited for */
	int code;
	bool over;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static bool give_up(struct pull *p, int code, const char *what)
{
	progress_hide(&p->progress);
	fprintf(stderr, "longreach: copy: %s\n", what);
	p->code = code;
	p->over = true;
	return false;
}

/* --- the call --- */

static int ask(struct pull *p, struct lr *h)
{
	static uint8_t message[COPY_MSG_MAX];
	static struct copy_push a;
	struct copy_out out = {.buf = message, .cap = sizeof(message)};
	const struct copy_options *o = p->o;
	char service[LR_NAME_MAX];

	a = (struct copy_push){.path = copy_text(p->path),
	                       .flags = (uint8_t)((p->into ? COPY_PUSH_INTO : 0) | (o->remove ? COPY_PUSH_REMOVE : 0) |
	                                          (o->dry_run ? COPY_PUSH_DRY_RUN : 0) | (o->json ? COPY_PUSH_JSON : 0) |
	                                          (o->verbose ? COPY_PUSH_VERBOSE : 0)),
	                       .timeout_s = (uint16_t)(o->timeout_s < UINT16_MAX ? o->timeout_s : UINT16_MAX),
	                       .nsources = (uint16_t)o->nsources,
	                       .nexcludes = (uint16_t)o->nexcludes};
	memcpy(a.export, p->name, sizeof(a.export));
	for (int i = 0; i < o->nsources; i++)
		a.source[i] = copy_text(o->source[i]);
	for (int i = 0; i < o->nexcludes; i++)
		a.exclude[i] = copy_text(o->exclude[i]);
	copy_head_put(&out, &(struct copy_head){.op = COPY_PUSH, .session = p->number});
	copy_push_put(&out, &a);
	if (out.full)
		return -E2BIG;
	snprintf(service, sizeof(service), COPY_PUSH_PREFIX "%s", o->export);
	p->asked_s = progress_seconds();
	return lr_call(h, service, out.buf, out.len, &p->op);
}

static bool serving(void *arg, struct lr *h)
{
	struct pull *p = arg;
	int r = ask(p, h);

	if (r == -E2BIG)
		return give_up(p, COPY_EXIT_USAGE, "too many sources and patterns for a copy to here");
	return r >= 0 || r == -EPIPE || give_up(p, COPY_EXIT_SOCKET, strerror(-r));
}

/* Judges the status that ended the call. True: asks once more. */
static bool passes(struct pull *p, enum lr_status status)
{
	char text[256];

	p->waiting = status == LR_NO_ROOM ? "another copy out of the export" : "the other edge";
	if (status == LR_NO_ROOM) {
		p->answered = true;
		return true;
	}
	if (status == LR_PEER_RESTARTED || status == LR_PROVIDER_GONE)
		return true;
	if (status == LR_NO_SERVICE) {
		if (p->answered || progress_seconds() - p->progress.began < FIRST_S)
			return true;
		snprintf(text, sizeof(text),
		         "no process at the other site sends from the export %s: check that the link file there has "
		         "this [Export NAME] and that longreachd --exports runs there as root",
		         p->o->export);
		return give_up(p, COPY_EXIT_START, text);
	}
	if (status == LR_PERMISSION)
		return give_up(p, COPY_EXIT_PROTOCOL,
		               "the sender of the export does not know this request: check that longreach has one "
		               "version at both edges");
	snprintf(text, sizeof(text), "the other site: %s", lr_strerror(status));
	return give_up(p, COPY_EXIT_START, text);
}

static bool on_event(void *arg, struct lr *h, const struct lr_event *ev)
{
	struct pull *p = arg;
	struct copy_in in = {ev->data, ev->len};
	struct copy_head head;
	uint8_t code;

	(void)h;
	if (ev->type != LR_EV_DONE || ev->status == LR_OK || ev->status == LR_NO_ROOM)
		p->alive_s = progress_seconds(); /* a living sender calls several times a second */
	if (ev->type != LR_EV_DONE || ev->id != p->op)
		return true;
	p->op = 0;
	if (ev->status != LR_OK) {
		p->progress.interruptions += ev->status != LR_NO_ROOM && p->answered;
		return passes(p, ev->status);
	}
	if (!copy_head_get(&in, &head) || head.op != COPY_PUSH || !copy_pushed_get(&in, &code))
		return give_up(p, COPY_EXIT_PROTOCOL,
		               "the sender of the export gave an answer that this version cannot read");
	progress_hide(&p->progress);
	p->code = code;
	p->over = true;
	return false;
}

static bool tick(void *arg, struct lr *h)
{
	struct pull *p = arg;
	double now = progress_seconds();

	if (p->export.bytes != p->seen_bytes || p->export.files != p->seen_files) {
		p->seen_bytes = p->progress.bytes = p->export.bytes;
		p->seen_files = p->progress.files = p->export.files;
		p->alive_s = now;
		p->answered = true;
		p->waiting = NULL;
	}
	progress_show(&p->progress, p->waiting);
	if (interrupted)
		return give_up(p, COPY_EXIT_SIGNAL, "interrupted: the same command goes on");
	if (now - p->alive_s > p->o->timeout_s)
		return give_up(
		    p, COPY_EXIT_TIMEOUT,
		    "no answer from the other edge within --timeout: run the same command again to continue");
	if (p->op == 0 && now - p->asked_s >= AGAIN_S && ask(p, h) < 0)
		return true; /* the daemon is gone: copy_serve() ends by itself */
	return true;
}

/* Prints text of the other site, perhaps on a terminal: without control characters except newlines. */
static void on_say(void *arg, uint8_t stream, const uint8_t *text, size_t len)
{
	struct pull *p = arg;
	FILE *to = stream == 1 ? stdout : stderr;

	progress_hide(&p->progress);
	for (size_t i = 0; i < len; i++)
		fputc((text[i] < 0x20 && text[i] != '\n' && text[i] != '\t') || text[i] == 0x7f ? '?' : text[i], to);
	fflush(to);
}

/* --- the place --- */

/* Opens the place: its parent directory is the export, its name is the path, so that a single file may get another
 * name. */
static int open_place(struct pull *p)
{
	const char *place = p->o->place;
	size_t len = strlen(place);
	char *copy, *slash;
	struct stat st;
	int fd;

	while (len > 1 && place[len - 1] == '/')
		len--;
	p->into = len > 0 && place[len] == '/';
	if (stat(place, &st) == 0 && S_ISDIR(st.st_mode)) {
		p->path = strdup("");
		p->into = true;
		return open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	copy = strndup(place, len);
	slash = copy ? strrchr(copy, '/') : NULL;
	p->path = copy ? strdup(slash ? slash + 1 : copy) : NULL;
	if (!p->path) {
		free(copy);
		return -1;
	}
	if (slash)
		slash[slash == copy] = '\0';
	fd = open(slash ? copy : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	return fd;
}

static void hear_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

/* Runs the copy; connects to the relay again whenever needed. */
static void run(struct pull *p)
{
	static const struct timespec pause = {.tv_nsec = 100000000};
	bool was_there = false;
	struct lr *h = NULL;
	char text[256];
	int r;

	while (!p->over) {
		r = lr_open(p->o->link, p->o->socket, &h);
		if (r < 0 && !was_there) {
			snprintf(
			    text, sizeof(text), "link %s: %s", p->o->link,
			    r == -EACCES ? "not allowed: root and members of [Relay] Group= may use the relay"
			    : r == -ENOENT || r == -ECONNREFUSED
			        ? "no relay here: check that longreachd runs and the link file says [Relay] Enable=yes"
			        : strerror(-r));
			give_up(p, COPY_EXIT_SOCKET, text);
			return;
		}
		if (r == 0) {
			was_there = true;
			p->op = 0;
			r = copy_serve(h, &p->export);
			lr_close(h);
			if (r < 0 && r != -EPIPE)
				give_up(p, COPY_EXIT_SOCKET, r == -EOPNOTSUPP ? COPY_NEEDS_RELAY : strerror(-r));
			p->progress.interruptions += r < 0;
			p->answered = true; /* a lost server may need longer to come back than a first one */
		}
		p->waiting = "this edge";
		progress_show(&p->progress, p->waiting);
		if (interrupted && !p->over)
			give_up(p, COPY_EXIT_SIGNAL, "interrupted: the same command goes on");
		else if (!p->over && progress_seconds() - p->alive_s > p->o->timeout_s)
			give_up(p, COPY_EXIT_TIMEOUT,
			        "no relay here within --timeout: run the same command again to continue");
		else if (!p->over)
			nanosleep(&pause, NULL);
	}
}

static int copy_pull(const struct copy_options *o)
{
	static struct pull p;
	struct copy_hooks hooks = {&p, serving, on_event, tick, on_say};

	p = (struct pull){.o = o, .code = COPY_EXIT_FILES};
	if (getrandom(&p.number, sizeof(p.number), 0) != sizeof(p.number))
		return COPY_EXIT_MEMORY;
	p.number |= 1;
	p.export = (struct copy_export){
	    .name = p.name, .root = open_place(&p), .writable = !o->dry_run, .is_pulled = true, .hooks = &hooks};
	if (p.export.root < 0) {
		fprintf(stderr, "longreach: copy: %s: %s\n", o->place, strerror(errno));
		free(p.path);
		return COPY_EXIT_FILES;
	}
	if (!copy_path_is_sound(copy_text(p.path))) {
		fprintf(stderr,
		        "longreach: copy: %s: expected a directory, or a path that ends in the new file's name\n",
		        o->place);
		p.over = true;
	}
	snprintf(p.name, sizeof(p.name), "pull.%016" PRIx64, p.number);
	hear_signals();
	progress_begin(&p.progress, o);
	p.alive_s = progress_seconds();
	if (!p.over)
		run(&p);
	close(p.export.root);
	free(p.path);
	return p.code;
}

int copy_main(int argc, char **argv)
{
	struct copy_options o;
	int code = COPY_EXIT_USAGE;

	if (copy_options_parse(argc, argv, &o, &code))
		code = o.pull ? copy_pull(&o) : copy_send(&o, NULL);
	free(o.exclude);
	return code;
}
