/* SPDX-License-Identifier: Apache-2.0 */
/* bench_msg.c - messages over one TCP connection, to compare with: how long until each is there and that is known.
 *
 *     bench_msg serve ADDR PORT                         answers each message with one byte, one connection after the other
 *     bench_msg ask ADDR PORT SIZE DEPTH MBPS SECONDS CC
 *                                                       messages of SIZE bytes, no more than DEPTH under way and MBPS
 *                                                       started, by the congestion control CC; prints "n p50 p99 p99.9"
 *                                                       in microseconds
 *
 * A message's time runs from when its first byte is given to the kernel. bench_wan.sh makes the table. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE_MAX_BYTES = 1 << 20, DEPTH_MAX = 256, SAMPLES_MAX = 1 << 22 };

static uint8_t buf[SIZE_MAX_BYTES];

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

/* The size comes first, in four bytes of the sender's order: both ends are one machine. */
static void answer(int fd)
{
	uint32_t size;
	uint64_t got = 0;
	ssize_t n;

	if (recv(fd, &size, sizeof(size), MSG_WAITALL) != sizeof(size) || size == 0)
		return;
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		uint64_t before = got / size;

		got += (uint64_t)n;
		for (uint64_t i = before; i < got / size; i++)
			if (send(fd, "", 1, MSG_NOSIGNAL) != 1)
				return;
	}
}

static int serve(char **arg)
{
	struct sockaddr_in own = address(arg[0], arg[1]);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0 || listen(fd, 1) < 0)
		die("cannot listen");
	for (;;) {
		int c = accept(fd, NULL, NULL);

		if (c < 0)
			die("accept");
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		answer(c);
		close(c);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile_us(const uint64_t *v, size_t n, double q)
{
	return n ? (double)v[(size_t)(q * (double)(n - 1))] * 1e-3 : 0;
}

static int ask(char **arg)
{
	static uint64_t begun[DEPTH_MAX], sample[SAMPLES_MAX];
	struct sockaddr_in to = address(arg[0], arg[1]);
	uint32_t size = (uint32_t)strtoul(arg[2], NULL, 10), depth = (uint32_t)strtoul(arg[3], NULL, 10);
	uint64_t start, end, started = 0, answered = 0, sent_of = 0;
	double apart_ns = 8e3 * size / (strtod(arg[4], NULL) + 1e-9);
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (size == 0 || size > SIZE_MAX_BYTES || depth == 0 || depth > DEPTH_MAX)
		die("size or depth");
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, arg[6], (socklen_t)strlen(arg[6])) < 0)
		die(arg[6]);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("cannot connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (send(fd, &size, sizeof(size), 0) != sizeof(size))
		die("send");
	start = now_ns();
	end = start + strtoull(arg[5], NULL, 10) * 1000000000u;
	while (now_ns() < end && answered < SAMPLES_MAX) {
		bool due = (double)(now_ns() - start) >= (double)started * apart_ns;
		bool more = sent_of > 0 || (due && started - answered < depth);
		struct pollfd p = {.fd = fd, .events = (short)(POLLIN | (more ? POLLOUT : 0))};
		ssize_t n;

		if (poll(&p, 1, 1) < 0)
			die("poll");
		if (p.revents & POLLIN) {
			n = recv(fd, buf, DEPTH_MAX, MSG_DONTWAIT);
			if (n == 0)
				die("closed");
			for (ssize_t i = 0; i < n; i++, answered++)
				sample[answered] = now_ns() - begun[answered % depth];
		}
		if (!more || !(p.revents & POLLOUT))
			continue;
		if (sent_of == 0)
			begun[started++ % depth] = now_ns();
		n = send(fd, buf, size - sent_of, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			sent_of = (sent_of + (uint64_t)n) % size;
		else if (n < 0 && errno != EAGAIN)
			die("send");
	}
	qsort(sample, answered, sizeof(sample[0]), compare);
	printf("%llu %.0f %.0f %.0f\n", (unsigned long long)answered, quantile_us(sample, answered, 0.5),
	       quantile_us(sample, answered, 0.99), quantile_us(sample, answered, 0.999));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		return serve(argv + 2);
	if (argc == 9 && strcmp(argv[1], "ask") == 0)
		return ask(argv + 2);
	fprintf(stderr, "usage: bench_msg serve ADDR PORT | ask ADDR PORT SIZE DEPTH MBPS SECONDS CC\n");
	return 2;
}
