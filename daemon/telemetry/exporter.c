/* SPDX-License-Identifier: Apache-2.0 */
/* exporter.c - GET /metrics, the web page, and its events.
 *
 * Theory of operation
 *
 * One request per connection, then it is closed. The cost of clients is bounded: CLIENTS_MAX connections, HTTP_HEAD_MAX
 * bytes of each, PATIENCE_S from the first byte to the last, however slowly they come. A connection that finds all
 * places taken gets the place of the oldest one that has not sent a request yet. libevent's own HTTP server bounds
 * neither connections nor time, and brings bodies, chunks and keep-alive, which are not needed here.
 *
 * GET /events goes on: server-sent events (WHATWG HTML, section 9.2), one a second, made once for all readers, and none
 * without readers. At most STREAMS_MAX of the connections are streams. A reader that has not read the last event gets
 * no new one, so that at most one event waits for it; after UNREAD_MAX skipped events its connection is closed.
 *
 * A page of another web site cannot read these answers (there is no Access-Control-Allow-Origin), unless its host name
 * resolves to a loopback address: while listening on such an address, / and /events are answered only if Host is
 * local. */
#include "exporter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "http_request.h"
#include "daemon/util/log.h"
#include "live.h"
#include "metrics.h"
#include "unix_socket.h"
#include "web_page.h"

enum exporter_limits {
	CLIENTS_MAX = 12,
	STREAMS_MAX = 4,
	PATIENCE_S = 10,
	UNREAD_MAX = 15,
	STREAM_SNDBUF = 64 << 10,
};

#define PAGE_CONTENT_TYPE "text/html; charset=utf-8"

struct client {
	struct exporter *exporter; /* NULL: the place is free */
	struct bufferevent *bev;
	struct event *deadline;
	struct gather *asked;
	uint64_t order;
	bool answered; /* its answer is on the way out */
	bool head_only;
	bool stream;     /* is sent events */
	unsigned unread; /* events in a row that were left out */
};

struct exporter {
	struct event_base *base;
	struct sites *sites;
	struct evconnlistener *listener;
	char path[UNIX_SOCKET_PATH_MAX]; /* of a Unix socket; else empty */
	struct client clients[CLIENTS_MAX];
	uint64_t accepted;
	bool loopback; /* listens on an address of this machine alone */
	char policy[WEB_PAGE_POLICY_MAX];
	struct live live;
	struct event *tick;         /* pending while there are streams */
	struct gather *live_asked;
	bool live_flows;            /* flows were requested */
};

static void client_close(struct client *c)
{
	gather_forget(&c->asked);
	event_free(c->deadline);
	bufferevent_free(c->bev);
	*c = (struct client){0};
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	client_close(arg);
}

static void on_written(struct bufferevent *bev, void *arg)
{
	(void)bev;
	client_close(arg);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct client *c = arg;

	/* A client that has shut down its writing side still waits for its answer. */
	if ((what & BEV_EVENT_EOF) && (c->asked != NULL || evbuffer_get_length(bufferevent_get_output(bev)) > 0))
		return;
	client_close(c);
}

/* --- answers --- */

static void reply(struct client *c, enum http_status status, const char *type, struct evbuffer *body)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	c->answered = true;
	bufferevent_disable(c->bev, EV_READ);
	bufferevent_setcb(c->bev, NULL, on_written, on_event, c);
	evbuffer_add_printf(out,
	                    "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nX-Content-Type-Options: "
	                    "nosniff\r\n%sConnection: close\r\n",
	                    (int)status, http_status_text(status), type, evbuffer_get_length(body),
	                    status == HTTP_BAD_METHOD ? "Allow: GET, HEAD\r\n" : "");
	if (status == HTTP_OK && strcmp(type, PAGE_CONTENT_TYPE) == 0)
		evbuffer_add_printf(out,
		                    "Content-Security-Policy: %s\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"
		                    "Cross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n",
		                    c->exporter->policy);
	evbuffer_add(out, "\r\n", 2);
	if (!c->head_only)
		evbuffer_add_buffer(out, body);
}

static void reply_text(struct client *c, enum http_status status, const char *text)
{
	struct evbuffer *body = evbuffer_new();

	if (body == NULL) {
		client_close(c);
		return;
	}
	evbuffer_add_printf(body, "%s\n", text);
	reply(c, status, "text/plain; charset=utf-8", body);
	evbuffer_free(body);
}

static void write_strays(struct evbuffer *body, const struct sites *sites)
{
	struct arena_stray *found = calloc(STRAYS_MAX, sizeof(*found));
	uint32_t n = found != NULL ? sites_strays(sites, found, STRAYS_MAX) : 0;

	metrics_write_strays(body, found, n);
	free(found);
}

static void on_gathered(void *arg, const struct gathered *links, uint32_t n)
{
	struct evbuffer *body = evbuffer_new();
	struct client *c = arg;

	if (body == NULL) {
		client_close(c);
		return;
	}
	metrics_write(body, links, n);
	metrics_write_process(body, c->exporter->sites);
	metrics_write_files(body, c->exporter->sites);
	write_strays(body, c->exporter->sites);
	reply(c, HTTP_OK, METRICS_CONTENT_TYPE, body);
	evbuffer_free(body);
}

static void reply_page(struct client *c)
{
	struct evbuffer *body = evbuffer_new();

	if (body == NULL || evbuffer_add_reference(body, web_page, web_page_len(), NULL, NULL) < 0)
		client_close(c);
	else
		reply(c, HTTP_OK, PAGE_CONTENT_TYPE, body);
	if (body != NULL)
		evbuffer_free(body);
}

/* --- events --- */

static unsigned count_streams(const struct exporter *e)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		n += e->clients[i].stream;
	return n;
}

static void send_event(struct client *c, struct evbuffer *event)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);

	if (evbuffer_get_length(out) == 0) {
		c->unread = 0;
		evbuffer_add(out, evbuffer_pullup(event, -1), evbuffer_get_length(event));
	} else if (++c->unread >= UNREAD_MAX) {
		client_close(c);
	}
}

static void on_live(void *arg, const struct gathered *links, uint32_t n)
{
	struct evbuffer *event = evbuffer_new();
	struct exporter *e = arg;
	struct timespec wall;

	if (event == NULL)
		return;
	clock_gettime(CLOCK_REALTIME, &wall);
	evbuffer_add(event, "data: ", 6);
	live_write(&e->live, event, links, n, e->live_flows, clock_now_ns(),
	           (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec);
	evbuffer_add(event, "\n\n", 2);
	for (unsigned i = 0; i < CLIENTS_MAX && evbuffer_pullup(event, -1) != NULL; i++)
		if (e->clients[i].stream)
			send_event(&e->clients[i], event);
	evbuffer_free(event);
}

/* Runs once a second until the last reader has gone. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct exporter *e = arg;

	(void)fd;
	(void)what;
	if (count_streams(e) == 0) {
		event_del(e->tick);
		live_free(&e->live);
		return;
	}
	if (e->live_asked != NULL)
		return;
	e->live_flows = live_wants_flows(&e->live);
	(void)gather_start(&e->live_asked, e->sites, NULL, e->live_flows, NULL, on_live, e);
}

/* Ignores further input of a reader. */
static void on_stream_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);

	(void)arg;
	evbuffer_drain(in, evbuffer_get_length(in));
}

/* A reader that has shut down its writing side may still read; a closed connection fails the next write. */
static void on_stream_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	if ((what & BEV_EVENT_EOF) == 0)
		client_close(arg);
}

static void begin_stream(struct client *c)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
	                           "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 3000\n\n";
	const struct timeval period = {.tv_sec = 1};
	struct exporter *e = c->exporter;
	int size = STREAM_SNDBUF;

	if (count_streams(e) >= STREAMS_MAX) {
		reply_text(c, HTTP_NO_MEMORY, "too many pages are open: close one");
		return;
	}
	setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	c->stream = c->answered = true;
	event_del(c->deadline);
	bufferevent_setcb(c->bev, on_stream_read, NULL, on_stream_event, c);
	bufferevent_write(c->bev, head, sizeof(head) - 1);
	if (!event_pending(e->tick, EV_TIMEOUT, NULL))
		event_add(e->tick, &period);
	event_active(e->tick, EV_TIMEOUT, 0); /* the first event does not wait */
}

static bool is_for_browsers(const char *path)
{
	return strcmp(path, "/") == 0 || strcmp(path, "/events") == 0;
}

static void answer(struct client *c, const struct http_request *r)
{
	c->head_only = r->head_only;
	if (is_for_browsers(r->path) && c->exporter->loopback && !http_host_is_local(r->host))
		reply_text(c, HTTP_FORBIDDEN, "the Host header names another machine: use localhost");
	else if (strcmp(r->path, "/") == 0)
		reply_page(c);
	else if (strcmp(r->path, "/events") == 0 && !r->head_only)
		begin_stream(c);
	else if (strcmp(r->path, "/metrics") != 0)
		reply_text(c, HTTP_NOT_FOUND, http_status_text(HTTP_NOT_FOUND));
	else if (gather_start(&c->asked, c->exporter->sites, NULL, false, NULL, on_gathered, c) < 0)
		reply_text(c, HTTP_NO_MEMORY, http_status_text(HTTP_NO_MEMORY));
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t len = evbuffer_get_length(in);
	struct http_request r;
	enum http_status status;
	struct client *c = arg;
	const char *text;

	if (c->asked != NULL)
		return;
	text = (const char *)evbuffer_pullup(in, -1);
	if (text == NULL)
		return;
	status = http_request_parse(text, len, &r);
	if (status == HTTP_OK)
		answer(c, &r);
	else if (status != HTTP_INCOMPLETE)
		reply_text(c, status, http_status_text(status));
}

/* --- connections --- */

/* NULL: all are being answered, or read events. */
static struct client *make_place(struct exporter *e)
{
	struct client *idle = NULL;

	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		struct client *c = &e->clients[i];

		if (c->exporter == NULL)
			return c;
		if (c->asked == NULL && !c->answered && (idle == NULL || c->order < idle->order))
			idle = c;
	}
	if (idle != NULL)
		client_close(idle);
	return idle;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int from_len, void *arg)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct exporter *e = arg;
	struct client *c = make_place(e);
	struct bufferevent *bev = c != NULL ? bufferevent_socket_new(e->base, fd, BEV_OPT_CLOSE_ON_FREE) : NULL;
	struct event *deadline = bev != NULL ? evtimer_new(e->base, on_deadline, c) : NULL;

	(void)l;
	(void)from;
	(void)from_len;
	if (deadline == NULL) {
		if (bev != NULL)
			bufferevent_free(bev);
		else
			close(fd);
		return;
	}
	*c = (struct client){.exporter = e, .bev = bev, .deadline = deadline, .order = ++e->accepted};
	event_add(deadline, &patience);
	bufferevent_setcb(bev, on_read, NULL, on_event, c);
	bufferevent_setwatermark(bev, EV_READ, 0, HTTP_HEAD_MAX);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

/* --- the socket --- */

static bool is_loopback(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *six = (const void *)ss;
	const struct sockaddr_in *four = (const void *)ss;

	if (ss->ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static int tcp_socket_open(const char *where, bool *loopback, char err[CONFIG_ERR_MAX])
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd, one = 1, r;

	if (addr_read_endpoint(where, &ss, &len) < 0) {
		snprintf(err, CONFIG_ERR_MAX,
		         "--metrics %s: expected a port, like 9470 (of 127.0.0.1), ADDRESS:PORT, [ADDRESS]:PORT or the "
		         "/PATH of a Unix socket",
		         where);
		return -EINVAL;
	}
	*loopback = is_loopback(&ss);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	    bind(fd, (const struct sockaddr *)&ss, len) == 0)
		return fd;
	r = -errno;
	snprintf(err, CONFIG_ERR_MAX, "--metrics %s: cannot listen: %s", where, strerror(-r));
	if (fd >= 0)
		close(fd);
	return r;
}

int exporter_start(struct exporter **out, const char *where, struct event_base *base, struct sites *sites,
                   char err[CONFIG_ERR_MAX])
{
	struct exporter *e = calloc(1, sizeof(*e));
	int fd;

	snprintf(err, CONFIG_ERR_MAX, "--metrics %s: cannot listen", where);
	if (e == NULL)
		return -ENOMEM;
	e->base = base;
	e->sites = sites;
	fd = where[0] == '/' ? unix_socket_open(where, 0666, "the socket for metrics (--metrics)", err)
	                     : tcp_socket_open(where, &e->loopback, err);
	e->tick = event_new(base, -1, EV_PERSIST, on_tick, e);
	if (fd >= 0 && e->tick != NULL && web_page_policy(e->policy) == 0)
		e->listener = evconnlistener_new(base, on_accept, e, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC,
		                                 CLIENTS_MAX, fd);
	if (e->listener == NULL) {
		if (fd >= 0)
			close(fd);
		if (e->tick != NULL)
			event_free(e->tick);
		free(e);
		return fd < 0 ? fd : -ENOMEM;
	}
	if (where[0] == '/')
		snprintf(e->path, sizeof(e->path), "%s", where);
	log_notice("metrics at %s", where);
	*out = e;
	return 0;
}

void exporter_stop(struct exporter *e)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (e->clients[i].exporter != NULL)
			client_close(&e->clients[i]);
	evconnlistener_free(e->listener);
	gather_forget(&e->live_asked);
	event_free(e->tick);
	live_free(&e->live);
	if (e->path[0] != '\0')
		unlink(e->path);
	free(e);
}
