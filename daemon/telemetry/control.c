/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the daemon's Unix socket.
 *
 * Theory of operation
 *
 * Two sockets, each a struct control: one for all requests, one for those that change nothing and show no packet.
 *
 * A client sends one line and gets one. The cost of clients is bounded: CLIENTS_MAX at a time, CONTROL_LINE_MAX bytes
 * in, and a client that neither asks nor reads is dropped after CLIENT_PATIENCE_S.
 *
 * A status takes time: gather.h collects it, and the client may be gone before it is complete.
 *
 * A trace has no end: the client gets more rows every STREAM_EVERY_MS until it closes, but none while it has not read
 * the earlier ones. */
#define _GNU_SOURCE /* struct ucred */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "daemon/link/failed_record.h"
#include "flow_stream.h"
#include "gather.h"
#include "status.h"
#include "trace_stream.h"
#include "unix_socket.h"
#include "daemon/util/log.h"
#include "daemon/util/version.h"

enum control_limits {
	CLIENTS_MAX = 16,
	CLIENT_PATIENCE_S = 10,
	WORDS_MAX = 4 + FLOW_FILTER_WORDS,
	STREAM_EVERY_MS = 100,
	STREAM_BACKLOG = 256 << 10, /* bytes that a reader of a trace may be behind */
};

struct client {
	struct control *control;
	struct bufferevent *bev;
	struct gather *asked; /* a status is under way */
	struct trace_stream *stream;
	struct flow_stream *flow_stream; /* instead: of one flow */
	struct event *tick; /* of the stream */
	enum status_detail detail;
	char link[LINK_NAME_MAX]; /* whose status; empty: of all */
};

struct control {
	struct event_base *base;
	struct evconnlistener *listener;
	struct sites *sites;
	struct control_user user;
	char path[UNIX_SOCKET_PATH_MAX];
	enum control_rights rights;
	struct client *clients[CLIENTS_MAX];
};

/* --- clients --- */

static void client_close(struct client *c)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (c->control->clients[i] == c)
			c->control->clients[i] = NULL;
	gather_forget(&c->asked);
	if (c->tick != NULL)
		event_free(c->tick);
	trace_stream_close(c->stream);
	flow_stream_close(c->flow_stream);
	bufferevent_free(c->bev);
	free(c);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	(void)bev;
	client_close(arg);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct client *c = arg;

	(void)bev;
	/* A client that has shut down its writing side still waits for its answer. */
	if ((what & BEV_EVENT_EOF) && (c->asked != NULL || evbuffer_get_length(bufferevent_get_output(bev)) > 0))
		return;
	client_close(c);
}

/* The answer is complete: nothing more is read, and the connection ends when it is written. */
static void client_reply(struct client *c, struct evbuffer *answer)
{
	evbuffer_add(answer, "\n", 1);
	bufferevent_disable(c->bev, EV_READ);
	bufferevent_setcb(c->bev, NULL, on_written, on_event, c);
	bufferevent_write_buffer(c->bev, answer);
}

static void begin_answer(struct json *j, const char *error)
{
	json_object(j, NULL);
	json_uint(j, "protocol", 1);
	json_string(j, "version", LONGREACH_VERSION);
	json_bool(j, "ok", error == NULL);
	if (error != NULL)
		json_string(j, "error", error);
}

/* Replies with nothing, an error, or a report. */
static void reply_short(struct client *c, const char *error, const char *report)
{
	struct json j = {.out = evbuffer_new()};

	if (j.out == NULL) {
		client_close(c);
		return;
	}
	begin_answer(&j, error);
	if (report != NULL)
		json_string(&j, "report", report);
	json_object_end(&j);
	client_reply(c, j.out);
	evbuffer_free(j.out);
}

/* --- status --- */

static void write_strays(struct json *j, const struct client *c)
{
	struct arena_stray *found = calloc(STRAYS_MAX, sizeof(*found));
	uint32_t n = found != NULL ? sites_strays(c->control->sites, found, STRAYS_MAX) : 0;

	status_write_strays(j, found, n, c->link[0] != '\0' ? c->link : NULL);
	free(found);
}

static void write_status(void *arg, const struct gathered *links, uint32_t n)
{
	struct client *c = arg;
	struct json j = {.out = evbuffer_new()};

	if (j.out == NULL) {
		client_close(c);
		return;
	}
	begin_answer(&j, NULL);
	json_array(&j, "links");
	for (uint32_t i = 0; i < n; i++)
		status_write(&j, links[i].site, links[i].snap, c->detail);
	json_array_end(&j);
	status_write_files(&j, c->control->sites);
	write_strays(&j, c);
	json_object_end(&j);
	client_reply(c, j.out);
	evbuffer_free(j.out);
}

static void do_status(struct client *c, char **words, unsigned n)
{
	enum status_detail detail = STATUS_LINK;
	const char *name = NULL;
	char error[CONTROL_LINE_MAX];

	for (unsigned i = 0; i < n; i++) {
		if (strcmp(words[i], "flows") == 0) {
			detail = STATUS_FLOWS;
		} else if (strcmp(words[i], "link") == 0 && i + 1 < n) {
			name = words[++i];
		} else {
			reply_short(c, "status: expected [flows] [link NAME]", NULL);
			return;
		}
	}
	if (name != NULL && sites_find(c->control->sites, name) == NULL) {
		snprintf(error, sizeof(error), "there is no link %.64s", name);
		reply_short(c, error, NULL);
		return;
	}
	c->detail = detail;
	snprintf(c->link, sizeof(c->link), "%s", name != NULL ? name : "");
	if (gather_start(&c->asked, c->control->sites, name, detail == STATUS_FLOWS, NULL, write_status, c) < 0)
		reply_short(c, "the daemon is out of memory", NULL);
}

/* --- flows whole --- */

/* [link NAME] and the words of a filter. False: `error` says which makes no sense. */
static bool read_filter(char **words, unsigned n, const char **link, struct flow_filter *f, char *error, size_t len)
{
	for (unsigned i = 0; i < n; i += 2) {
		const char *value = i + 1 < n ? words[i + 1] : "";

		if (strcmp(words[i], "link") == 0 && value[0] != '\0') {
			*link = value;
		} else if (flow_filter_read(f, words[i], value) < 0) {
			snprintf(error, len, "%.64s %.64s: expected link, side, flow, host, qpn, src, src_qpn, dst, dst_qpn, vlan",
			         words[i], value);
			return false;
		}
	}
	return true;
}

static void do_flow(struct client *c, char **words, unsigned n)
{
	struct flow_filter f = {0};
	char error[CONTROL_LINE_MAX];
	const char *name = NULL;

	if (!read_filter(words, n, &name, &f, error, sizeof(error))) {
		reply_short(c, error, NULL);
		return;
	}
	if (name != NULL && sites_find(c->control->sites, name) == NULL) {
		snprintf(error, sizeof(error), "there is no link %.64s", name);
		reply_short(c, error, NULL);
		return;
	}
	c->detail = STATUS_VIEWS;
	snprintf(c->link, sizeof(c->link), "%s", name != NULL ? name : "");
	if (gather_start(&c->asked, c->control->sites, name, false, &f, write_status, c) < 0)
		reply_short(c, "the daemon is out of memory", NULL);
}

/* --- failed flows --- */

static void do_failed(struct client *c, char **words, unsigned n)
{
	struct json j = {.out = evbuffer_new()};
	const struct failed_record *r = c->control->sites->failed;
	const char *link = n == 2 && strcmp(words[0], "link") == 0 ? words[1] : NULL;

	if (j.out == NULL) {
		client_close(c);
		return;
	}
	if (n != 0 && link == NULL) {
		evbuffer_free(j.out);
		reply_short(c, "failed: expected [link NAME]", NULL);
		return;
	}
	begin_answer(&j, r == NULL ? "the daemon has no memory for a record of failed flows" : NULL);
	if (r != NULL)
		status_write_failed(&j, r, link);
	json_object_end(&j);
	client_reply(c, j.out);
	evbuffer_free(j.out);
}

/* --- traces --- */

static bool stream_more(struct client *c, struct evbuffer *out)
{
	return c->flow_stream != NULL ? flow_stream_more(c->flow_stream, out) : trace_stream_more(c->stream, out);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval again = {.tv_usec = STREAM_EVERY_MS * 1000};
	struct client *c = arg;
	struct evbuffer *out = bufferevent_get_output(c->bev);

	(void)fd;
	(void)what;
	if (evbuffer_get_length(out) < STREAM_BACKLOG && !stream_more(c, out)) {
		client_close(c);
		return;
	}
	event_add(c->tick, &again);
}

/* Ignores input from a client that reads a trace; notices when it closes. */
static void on_said_more(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);

	(void)arg;
	evbuffer_drain(in, evbuffer_get_length(in));
}

static void on_stream_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	client_close(arg);
}

static void stream(struct client *c)
{
	const struct timeval patience = {.tv_sec = CLIENT_PATIENCE_S};
	struct json j = {.out = bufferevent_get_output(c->bev)};

	c->tick = evtimer_new(c->control->base, on_tick, c);
	if (c->tick == NULL) {
		client_close(c);
		return;
	}
	bufferevent_setcb(c->bev, on_said_more, NULL, on_stream_event, c);
	bufferevent_set_timeouts(c->bev, NULL, &patience);
	begin_answer(&j, NULL);
	if (c->flow_stream != NULL)
		flow_stream_begin(c->flow_stream, &j);
	else
		trace_stream_begin(c->stream, &j);
	json_object_end(&j);
	evbuffer_add(j.out, "\n", 1);
	on_tick(-1, 0, c);
}

/* Traces one flow, named by requester, responder and the responder's queue pair. */
static void do_trace_flow(struct client *c, char **words, unsigned n)
{
	struct flow_filter f = {0};
	struct flow_key key;
	char error[CONTROL_LINE_MAX];
	const char *link = NULL;

	if (!read_filter(words, n, &link, &f, error, sizeof(error))) {
		reply_short(c, error, NULL);
		return;
	}
	if (link == NULL || !f.has_src || !f.has_dst || !f.has_dst_qpn) {
		reply_short(c, "trace of a flow: expected link NAME src A dst B dst_qpn N", NULL);
		return;
	}
	key = (struct flow_key){.src = f.src, .dst = f.dst, .dest_qpn = f.dst_qpn, .vlan_tci = (uint16_t)f.vlan};
	c->flow_stream = flow_stream_open(c->control->sites, link, &key, error, sizeof(error));
	if (c->flow_stream == NULL)
		reply_short(c, error, NULL);
	else
		stream(c);
}

static bool has_word(char **words, unsigned n, const char *word)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

static void do_trace(struct client *c, char **words, unsigned n)
{
	const char *link = NULL, *path = NULL;
	char error[CONTROL_LINE_MAX];
	bool past = false;

	for (unsigned i = 0; i < n; i++) {
		if (strcmp(words[i], "past") == 0) {
			past = true;
		} else if (strcmp(words[i], "link") == 0 && i + 1 < n) {
			link = words[++i];
		} else if (strcmp(words[i], "path") == 0 && i + 1 < n) {
			path = words[++i];
		} else {
			link = NULL;
			break;
		}
	}
	if (link == NULL) {
		reply_short(c, "trace: expected link NAME [path NAME] [past]", NULL);
		return;
	}
	c->stream = trace_stream_open(c->control->sites, link, path, past, error, sizeof(error));
	if (c->stream == NULL)
		reply_short(c, error, NULL);
	else
		stream(c);
}

/* --- requests --- */

/* Logs who asked: after a `stop` the next operator on duty must know who wanted it. */
static void log_asked(const struct client *c, const char *what, const char *link)
{
	struct ucred who = {0};
	socklen_t len = sizeof(who);

	if (getsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_PEERCRED, &who, &len) == 0)
		log_notice("`longreach %s%s%s` by user %u, process %d", what, *link != '\0' ? " " : "", link, (unsigned)who.uid,
		           (int)who.pid);
}

static void do_reload(struct client *c)
{
	static char report[SITES_REPORT_MAX];
	struct json j = {.out = evbuffer_new()};
	int r;

	if (j.out == NULL) {
		client_close(c);
		return;
	}
	log_asked(c, "reload", "");
	r = c->control->user.reload(c->control->user.arg, report);
	begin_answer(&j, r < 0 ? report : NULL);
	if (r >= 0) {
		json_string(&j, "report", report);
		json_uint(&j, "held", (uint64_t)r);
	}
	json_object_end(&j);
	client_reply(c, j.out);
	evbuffer_free(j.out);
}

static void do_verb(struct client *c, enum sites_verb verb, const char *link)
{
	static char report[SITES_REPORT_MAX];
	int r;

	log_asked(c, verb == SITES_START ? "start" : verb == SITES_STOP ? "stop" : "restart", link);
	r = sites_do(c->control->sites, verb, link, report);

	if (r == 0 && verb != SITES_STOP)
		c->control->user.changed(c->control->user.arg);
	reply_short(c, r < 0 ? report : NULL, r < 0 ? NULL : report);
}

static bool only_looks(const char *command)
{
	return strcmp(command, "status") == 0 || strcmp(command, "flow") == 0 || strcmp(command, "failed") == 0 ||
	       strcmp(command, "version") == 0;
}

static void do_request(struct client *c, char **words, unsigned n)
{
	if (n >= 2 && c->control->rights == CONTROL_LOOKS && !only_looks(words[1]))
		reply_short(c,
		            "not allowed: members of the daemon's group may run status, flow, failed and version only; "
		            "run longreach as root",
		            NULL);
	else if (n < 2 || strcmp(words[0], CONTROL_PROTOCOL) != 0)
		reply_short(c,
		            "expected " CONTROL_PROTOCOL " and a command: use longreach and longreachd of one version",
		            NULL);
	else if (strcmp(words[1], "status") == 0)
		do_status(c, words + 2, n - 2);
	else if (strcmp(words[1], "flow") == 0)
		do_flow(c, words + 2, n - 2);
	else if (strcmp(words[1], "failed") == 0)
		do_failed(c, words + 2, n - 2);
	else if (strcmp(words[1], "trace") == 0 && has_word(words + 2, n - 2, "src"))
		do_trace_flow(c, words + 2, n - 2);
	else if (strcmp(words[1], "trace") == 0)
		do_trace(c, words + 2, n - 2);
	else if (strcmp(words[1], "reload") == 0 && n == 2)
		do_reload(c);
	else if (sites_verb_of(words[1]) != SITES_VERB_COUNT && n == 3)
		do_verb(c, sites_verb_of(words[1]), words[2]);
	else if (strcmp(words[1], "version") == 0 && n == 2)
		reply_short(c, NULL, NULL);
	else
		reply_short(c, "unknown command: expected status, flow, failed, trace, reload, start, stop, restart or version", NULL);
}

static unsigned split(char *line, char *words[WORDS_MAX])
{
	unsigned n = 0;
	char *save;

	for (char *w = strtok_r(line, " \t\r", &save); w != NULL && n < WORDS_MAX; w = strtok_r(NULL, " \t\r", &save))
		words[n++] = w;
	return n;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct client *c = arg;
	char *words[WORDS_MAX];
	char *line;

	if (c->asked != NULL)
		return; /* one request per connection */
	line = evbuffer_readln(in, NULL, EVBUFFER_EOL_LF);
	if (line != NULL) {
		do_request(c, words, split(line, words));
		free(line);
	} else if (evbuffer_get_length(in) >= CONTROL_LINE_MAX) {
		reply_short(c, "the request is too long", NULL);
	}
}

static struct client **free_place(struct control *ctl)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (ctl->clients[i] == NULL)
			return &ctl->clients[i];
	return NULL;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int from_len, void *arg)
{
	const struct timeval patience = {.tv_sec = CLIENT_PATIENCE_S};
	struct control *ctl = arg;
	struct client **place = free_place(ctl);
	struct client *c = place != NULL ? calloc(1, sizeof(*c)) : NULL;

	(void)l;
	(void)from;
	(void)from_len;
	if (c != NULL)
		c->bev = bufferevent_socket_new(ctl->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (c == NULL || c->bev == NULL) {
		free(c);
		close(fd);
		return;
	}
	c->control = ctl;
	*place = c;
	bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, CONTROL_LINE_MAX);
	bufferevent_set_timeouts(c->bev, &patience, &patience);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
}

int control_start(struct control **out, const char *path, enum control_rights rights, struct event_base *base,
                  struct sites *sites, const struct control_user *user, char err[CONFIG_ERR_MAX])
{
	struct control *c = calloc(1, sizeof(*c));
	int fd;

	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make the control socket", path);
	if (c == NULL)
		return -ENOMEM;
	c->base = base;
	c->sites = sites;
	c->user = *user;
	snprintf(c->path, sizeof(c->path), "%s", path);
	c->rights = rights;
	fd = unix_socket_open(path, rights == CONTROL_ALL ? 0600 : 0660, "the control socket (--control)", err);
	if (fd >= 0)
		c->listener = evconnlistener_new(base, on_accept, c, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
		                                 CLIENTS_MAX, fd);
	if (c->listener == NULL) {
		free(c);
		return fd < 0 ? fd : -ENOMEM;
	}
	*out = c;
	return 0;
}

void control_stop(struct control *c)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (c->clients[i] != NULL)
			client_close(c->clients[i]);
	evconnlistener_free(c->listener);
	unlink(c->path);
	free(c);
}
