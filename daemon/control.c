/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the daemon's Unix socket.
 *
 * Theory of operation
 *
 * A client sends one line and gets one. What it can cost is bounded: CLIENTS_MAX at a time, CONTROL_LINE_MAX bytes in,
 * and a client that neither asks nor reads is dropped after CLIENT_PATIENCE_S.
 *
 * A status takes time: each link asks its workers. struct query collects the answers; the last one makes the reply. The
 * client may be gone by then, and a link may have been stopped: the query outlives both, and looks links up by name. */
#include "daemon/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>

#include "daemon/sites.h"
#include "daemon/status.h"
#include "daemon/version.h"

enum control_limits {
	CLIENTS_MAX = 16,
	CLIENT_PATIENCE_S = 10,
	WORDS_MAX = 8,
};

struct query;

struct client {
	struct control *control;
	struct bufferevent *bev;
	struct query *query; /* under way */
};

struct control {
	struct event_base *base;
	struct evconnlistener *listener;
	struct sites *sites;
	int (*reload)(void *arg, char *report);
	void *arg;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct client *clients[CLIENTS_MAX];
};

/* One link's part of a query. */
struct answer {
	struct query *query;
	char name[LINK_NAME_MAX];
	bool have;
	struct link_snapshot snap;
};

struct query {
	struct client *client; /* NULL: gone */
	struct sites *sites;
	enum status_detail detail;
	uint32_t missing;
	uint32_t n;
	struct answer answers[SITES_MAX];
};

/* --- clients --- */

static void client_close(struct client *c)
{
	for (unsigned i = 0; i < CLIENTS_MAX; i++)
		if (c->control->clients[i] == c)
			c->control->clients[i] = NULL;
	if (c->query != NULL)
		c->query->client = NULL;
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
	/* One that has shut down its writing side still waits for its answer. */
	if ((what & BEV_EVENT_EOF) && (c->query != NULL || evbuffer_get_length(bufferevent_get_output(bev)) > 0))
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

static void query_free(struct query *q)
{
	for (uint32_t i = 0; i < q->n; i++)
		free(q->answers[i].snap.flows);
	free(q);
}

static void write_links(struct json *j, const struct query *q)
{
	json_array(j, "links");
	for (uint32_t i = 0; i < q->n; i++) {
		const struct answer *a = &q->answers[i];
		const struct site *s = sites_find(q->sites, a->name);

		if (s != NULL)
			status_write(j, s, a->have ? &a->snap : NULL, q->detail);
	}
	json_array_end(j);
}

static void query_finish(struct query *q)
{
	struct json j = {.out = q->client != NULL ? evbuffer_new() : NULL};

	if (q->client != NULL)
		q->client->query = NULL;
	if (j.out != NULL) {
		begin_answer(&j, NULL);
		write_links(&j, q);
		json_object_end(&j);
		client_reply(q->client, j.out);
		evbuffer_free(j.out);
	} else if (q->client != NULL) {
		client_close(q->client);
	}
	query_free(q);
}

static void query_settle(struct query *q)
{
	if (--q->missing == 0)
		query_finish(q);
}

static void on_snapshot(void *arg, struct link *l, struct link_snapshot *snap)
{
	struct answer *a = arg;

	(void)l;
	if (snap != NULL) {
		a->snap = *snap;
		a->have = true;
	}
	query_settle(a->query);
}

static void ask(struct query *q, const struct site *s)
{
	struct answer *a = &q->answers[q->n++];

	a->query = q;
	snprintf(a->name, sizeof(a->name), "%s", site_config(s)->name);
	if (site_link(s) == NULL)
		return;
	q->missing++;
	link_snapshot(site_link(s), true, on_snapshot, a);
}

/* name NULL: all links. */
static void query_start(struct client *c, enum status_detail detail, const char *name)
{
	struct sites *sites = c->control->sites;
	struct query *q = calloc(1, sizeof(*q));

	if (q == NULL) {
		reply_short(c, "the daemon is out of memory", NULL);
		return;
	}
	q->client = c;
	q->sites = sites;
	q->detail = detail;
	c->query = q;
	q->missing = 1; /* held until every link was asked: some answer at once */
	for (uint32_t i = 0; i < sites->n; i++)
		if (name == NULL || strcmp(site_config(sites->list[i])->name, name) == 0)
			ask(q, sites->list[i]);
	query_settle(q);
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
	query_start(c, detail, name);
}

/* --- requests --- */

static void do_reload(struct client *c)
{
	static char report[SITES_REPORT_MAX];
	int r = c->control->reload(c->control->arg, report);

	reply_short(c, r < 0 ? report : NULL, r < 0 ? NULL : report);
}

static void do_request(struct client *c, char **words, unsigned n)
{
	if (n < 2 || strcmp(words[0], CONTROL_PROTOCOL) != 0)
		reply_short(c, "expected " CONTROL_PROTOCOL " and a command: is the client of another version?", NULL);
	else if (strcmp(words[1], "status") == 0)
		do_status(c, words + 2, n - 2);
	else if (strcmp(words[1], "reload") == 0 && n == 2)
		do_reload(c);
	else if (strcmp(words[1], "version") == 0 && n == 2)
		reply_short(c, NULL, NULL);
	else
		reply_short(c, "unknown command: expected status, reload or version", NULL);
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

	if (c->query != NULL)
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

/* --- the socket --- */

static int make_parent(const char *path, char err[CONFIG_ERR_MAX])
{
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == NULL || slash == dir)
		return 0;
	*slash = '\0';
	if (mkdir(dir, 0755) == 0 || errno == EEXIST)
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "cannot make %s for the control socket: %s", dir, strerror(errno));
	return -errno;
}

/* True if something answers at the socket: another daemon. */
static bool is_alive(const struct sockaddr_un *sun)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool alive;

	if (fd < 0)
		return false;
	alive = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 || errno == EAGAIN;
	close(fd);
	return alive;
}

static int open_socket(const char *path, char err[CONFIG_ERR_MAX])
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	mode_t old_mask;
	int fd, r;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (is_alive(&sun)) {
		snprintf(err, CONFIG_ERR_MAX,
		         "%s: another longreachd is running: stop it, or give --control another path", path);
		return -EADDRINUSE;
	}
	unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	old_mask = umask(0177);
	r = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(old_mask);
	if (r == 0)
		return fd;
	r = -errno;
	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make the control socket: %s", path, strerror(-r));
	close(fd);
	return r;
}

int control_start(struct control **out, const char *path, struct event_base *base, struct sites *sites,
                  int (*reload)(void *arg, char *report), void *arg, char err[CONFIG_ERR_MAX])
{
	struct control *c = calloc(1, sizeof(*c));
	int fd;

	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make the control socket", path);
	if (c == NULL)
		return -ENOMEM;
	if (strlen(path) >= sizeof(c->path)) {
		snprintf(err, CONFIG_ERR_MAX, "%s: too long for a socket: at most %zu characters", path,
		         sizeof(c->path) - 1);
		free(c);
		return -ENAMETOOLONG;
	}
	c->base = base;
	c->sites = sites;
	c->reload = reload;
	c->arg = arg;
	snprintf(c->path, sizeof(c->path), "%s", path);
	fd = make_parent(path, err);
	if (fd == 0)
		fd = open_socket(path, err);
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
