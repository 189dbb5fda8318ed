/* SPDX-License-Identifier: Apache-2.0 */
/* bench_msg.c - messages over TCP, for comparison: time until the sender knows that a message has arrived.
 *
 *     bench_msg serve ADDR PORT                answers each message with one byte, any number of connections
 *     bench_msg ask ADDR PORT SIZE MBPS SECONDS CC TIMES [BULK_MBPS one|two]
 *                                              sends messages of SIZE bytes at MBPS, with the congestion control CC;
 *                                              writes to the file TIMES when each was due and done (bench_times.c).
 *                                              With BULK_MBPS sends a second stream of messages beside the first, on
 *                                              the same connection or on its own, and prints the stream's Mbit/s
 *
 * A message's time begins when the message is due, even if the connection cannot take the message then, and ends when
 * the answer arrives. A message without an answer counts as done DRAIN_NS after the last message was due. Messages of
 * the first stream go first. Messages of the second stream are short (BULK_SIZE), and at most NOTSENT_BYTES wait unsent
 * in the kernel, so messages wait for each other only as long as TCP itself makes them wait. A message begins with its
 * size in four bytes of the sender's byte order, as both ends run on the same machine. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/util/sched_latency.h"

enum {
	SIZE_MAX_BYTES = 1 << 20,
	BULK_SIZE = 16 << 10,
	NOTSENT_BYTES = 16 << 10,
	UNDER_WAY_MAX = 4096, /* unanswered messages of a connection, both streams */
	BULK_DEPTH = 512,
};

struct stream {
	uint32_t size;
	double apart_ns;
	uint64_t depth, started, answered;
	uint8_t *message;
};

struct conn {
	int fd;
	struct stream *stream[2]; /* streams of the connection, the more urgent one first; NULL: none */
	struct stream *now;       /* stream whose message is being sent, NULL: none */
	uint32_t sent;            /* bytes sent of that message */
	struct {
		struct stream *of;
		uint64_t due_ns;
	} way[UNDER_WAY_MAX]; /* unanswered messages first .. end - 1, in the order of their answers */
	uint64_t first, end;
};

#define DRAIN_NS 2000000000ull

static FILE *times;
static uint64_t start_ns, end_ns;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_msg: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1) {
		errno = EINVAL;
		die(ip);
	}
	return a;
}

/* --- serving --- */

static void answer(int fd)
{
	static uint8_t buf[SIZE_MAX_BYTES];
	uint32_t size;

	while (recv(fd, &size, sizeof(size), MSG_WAITALL) == sizeof(size) && size >= sizeof(size) &&
	       size <= SIZE_MAX_BYTES) {
		size_t rest = size - sizeof(size);

		if (rest && recv(fd, buf, rest, MSG_WAITALL) != (ssize_t)rest)
			return;
		if (send(fd, "", 1, MSG_NOSIGNAL) != 1)
			return;
	}
}

static int serve(char **arg)
{
	struct sockaddr_in own = address(arg[0], arg[1]);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 || listen(fd, 8) < 0)
		die("cannot listen");
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int c = accept(fd, NULL, NULL);

		if (c < 0)
			die("accept");
		if (fork() == 0) {
			setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			answer(c);
			_exit(0);
		}
		close(c);
	}
}

/* --- asking --- */

static void stream_init(struct stream *s, uint32_t size, double mbps, uint64_t depth)
{
	*s = (struct stream){.size = size, .apart_ns = 8e3 * size / mbps, .depth = depth};
	s->message = calloc(1, size);
	if (!s->message)
		die("memory");
	memcpy(s->message, &size, sizeof(size));
}

static void conn_open(struct conn *c, char **arg, const char *cc)
{
	struct sockaddr_in to = address(arg[0], arg[1]);
	int on = 1, notsent = NOTSENT_BYTES;

	c->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (c->fd < 0 || setsockopt(c->fd, IPPROTO_TCP, TCP_CONGESTION, cc, (socklen_t)strlen(cc)) < 0)
		die(cc);
	if (connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("cannot connect");
	if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent, sizeof(notsent)) < 0)
		die("socket options");
}

static uint64_t due_ns(const struct stream *s)
{
	return start_ns + (uint64_t)((double)s->started * s->apart_ns);
}

/* The stream of the next message for a connection that sends none now; NULL: no message is due. */
static struct stream *next_of(const struct conn *c, uint64_t at_ns)
{
	if (c->end - c->first == UNDER_WAY_MAX || at_ns >= end_ns)
		return NULL;
	for (int i = 0; i < 2; i++) {
		struct stream *s = c->stream[i];

		if (s && s->started - s->answered < s->depth && at_ns >= due_ns(s))
			return s;
	}
	return NULL;
}

static void push(struct conn *c)
{
	ssize_t n;

	if (!c->now) {
		c->now = next_of(c, now_ns());
		if (!c->now)
			return;
		c->way[c->end % UNDER_WAY_MAX].of = c->now;
		c->way[c->end++ % UNDER_WAY_MAX].due_ns = due_ns(c->now);
		c->now->started++;
		c->sent = 0;
	}
	n = send(c->fd, c->now->message + c->sent, c->now->size - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN)
		die("send");
	c->sent += n > 0 ? (uint32_t)n : 0;
	if (c->sent == c->now->size)
		c->now = NULL;
}

static void note(uint64_t due_ns)
{
	fprintf(times, "%" PRIu64 " %" PRIu64 "\n", due_ns, now_ns());
}

static void pull(struct conn *c, const struct stream *timed)
{
	static uint8_t buf[UNDER_WAY_MAX];
	ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n == 0)
		die("closed");
	for (ssize_t i = 0; i < n; i++) {
		struct stream *s = c->way[c->first % UNDER_WAY_MAX].of;

		if (s == timed)
			note(c->way[c->first % UNDER_WAY_MAX].due_ns);
		s->answered++;
		c->first++;
	}
}

static bool all_answered(const struct conn *c, unsigned nconns)
{
	for (unsigned i = 0; i < nconns; i++)
		if (c[i].first != c[i].end)
			return false;
	return true;
}

static void give_up(const struct conn *c, const struct stream *timed)
{
	for (uint64_t i = c->first; i < c->end; i++)
		if (c->way[i % UNDER_WAY_MAX].of == timed)
			note(c->way[i % UNDER_WAY_MAX].due_ns);
}

static void run(struct conn *c, unsigned nconns, const struct stream *timed)
{
	while (now_ns() < end_ns || (now_ns() < end_ns + DRAIN_NS && !all_answered(c, nconns))) {
		struct pollfd p[2];

		for (unsigned i = 0; i < nconns; i++) {
			bool more = c[i].now || next_of(&c[i], now_ns());

			p[i] = (struct pollfd){.fd = c[i].fd, .events = (short)(POLLIN | (more ? POLLOUT : 0))};
		}
		if (poll(p, nconns, 1) < 0)
			die("poll");
		for (unsigned i = 0; i < nconns; i++) {
			if (p[i].revents & POLLIN)
				pull(&c[i], timed);
			if (p[i].revents & POLLOUT)
				push(&c[i]);
		}
	}
}

/* ADDR PORT SIZE MBPS SECONDS CC TIMES [BULK_MBPS one|two] */
static int ask(int n, char **arg)
{
	static struct conn c[2];
	struct stream timed, bulk = {0};
	uint64_t size = strtoull(arg[2], NULL, 10);
	double mbps = strtod(arg[3], NULL), seconds = strtod(arg[4], NULL),
	       bulk_mbps = n > 7 ? strtod(arg[7], NULL) : 0;
	unsigned nconns = bulk_mbps > 0 && strcmp(arg[8], "two") == 0 ? 2 : 1;

	if (size < 4 || size > SIZE_MAX_BYTES || mbps <= 0 || seconds <= 0) {
		errno = EINVAL;
		die("size, rate or time");
	}
	times = fopen(arg[6], "w");
	if (!times)
		die(arg[6]);
	stream_init(&timed, (uint32_t)size, mbps, UNDER_WAY_MAX / 2);
	for (unsigned i = 0; i < nconns; i++)
		conn_open(&c[i], arg, arg[5]);
	c[0].stream[0] = &timed;
	if (bulk_mbps > 0) {
		stream_init(&bulk, BULK_SIZE, bulk_mbps, BULK_DEPTH);
		c[nconns - 1].stream[1] = &bulk;
	}
	start_ns = now_ns();
	end_ns = start_ns + (uint64_t)(seconds * 1e9);
	run(c, nconns, &timed);
	for (unsigned i = 0; i < nconns; i++)
		give_up(&c[i], &timed);
	fclose(times);
	if (bulk_mbps > 0)
		printf("%.0f\n", (double)bulk.answered * BULK_SIZE * 8e3 / (double)(now_ns() - start_ns));
	return 0;
}

int main(int argc, char **argv)
{
	sched_low_latency(-10); /* as rcperf does */
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv + 2);
	if ((argc == 9 || argc == 11) && strcmp(argv[1], "ask") == 0)
		return ask(argc - 2, argv + 2);
	fprintf(stderr, "usage: bench_msg serve ADDR PORT | ask ADDR PORT SIZE MBPS SECONDS CC TIMES [BULK_MBPS one|two]\n");
	return 2;
}
