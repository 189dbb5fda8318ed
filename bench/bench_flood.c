/* SPDX-License-Identifier: Apache-2.0 */
/* bench_flood.c - sends foreign datagrams to an edge's UDP port; for comparison, discards datagrams at a socket.
 *
 *     bench_flood send SRC DST PORT RATE SECONDS KIND    RATE datagrams/s; prints the number sent
 *         KIND  noise    1400 random bytes
 *               header   the same after a header of the right version: lane 0, made-up session, number and tag
 *     bench_flood discard ADDR PORT     receives and discards datagrams as cheaply as a process can: batches of 64 by
 *                                       recvmmsg; prints the number received (on SIGTERM)
 *
 * Addresses are IPv4. SRC must be an address of this machine: to send from the peer's address, run on the peer's
 * machine. bench_flood.sh makes the table. */
#define _GNU_SOURCE /* recvmmsg, sendmmsg */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proxy/wan/dgram/wan_frame.h"

enum { LEN = 1400, BATCH = 64, VARIANTS = 256 };

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_flood: %s: %s\n", what, strerror(errno));
	exit(1);
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

static int open_socket(const struct sockaddr_in *own)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (const struct sockaddr *)own, sizeof(*own)) < 0)
		die("cannot bind");
	return fd;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void make_garbage(uint8_t (*d)[LEN], const char *kind)
{
	uint64_t x = 88172645463325252u;

	for (int i = 0; i < VARIANTS; i++) {
		struct wan_hdr h = {.flags = WAN_FLAG_SEALED};

		for (int j = 0; j < LEN; j++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			d[i][j] = (uint8_t)x;
		}
		h.epoch = (uint32_t)x;
		h.wan_pn = x >> 32;
		if (strcmp(kind, "header") == 0)
			wan_hdr_put(d[i], &h);
	}
}

static int send_garbage(char **arg)
{
	static uint8_t garbage[VARIANTS][LEN];
	struct sockaddr_in src = address(arg[0], "0"), dst = address(arg[1], arg[2]);
	uint64_t rate = strtoull(arg[3], NULL, 10), sent = 0, start, end;
	struct mmsghdr m[BATCH];
	struct iovec iov[BATCH];
	int fd = open_socket(&src);

	make_garbage(garbage, arg[5]);
	if (connect(fd, (struct sockaddr *)&dst, sizeof(dst)) < 0)
		die("cannot connect");
	memset(m, 0, sizeof(m));
	for (int i = 0; i < BATCH; i++)
		m[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	start = now_ns();
	end = start + strtoull(arg[4], NULL, 10) * 1000000000u;
	while (now_ns() < end) {
		uint64_t due = (uint64_t)((double)(now_ns() - start) * 1e-9 * (double)rate);
		uint64_t n = due > sent ? due - sent : 0;
		int done;

		if (n == 0) {
			usleep(200);
			continue;
		}
		n = n > BATCH ? BATCH : n;
		for (uint64_t i = 0; i < n; i++)
			iov[i] = (struct iovec){garbage[(sent + i) % VARIANTS], LEN};
		done = sendmmsg(fd, m, (unsigned)n, 0);
		if (done < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
			die("cannot send");
		sent += done > 0 ? (uint64_t)done : 0;
	}
	printf("%llu\n", (unsigned long long)sent);
	return 0;
}

static int discard(char **arg)
{
	static uint8_t buf[BATCH][2048];
	struct sockaddr_in own = address(arg[0], arg[1]);
	struct mmsghdr m[BATCH];
	struct iovec iov[BATCH];
	struct sigaction sa = {.sa_handler = stop};
	unsigned long long came = 0;
	int fd = open_socket(&own), buffer = 32 << 20; /* as an edge's socket has */

	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	sigaction(SIGTERM, &sa, NULL);
	memset(m, 0, sizeof(m));
	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){buf[i], sizeof(buf[i])};
		m[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
	}
	while (!stopped) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int n = poll(&p, 1, -1) > 0 ? recvmmsg(fd, m, BATCH, MSG_DONTWAIT, NULL) : 0;

		came += n > 0 ? (unsigned)n : 0;
	}
	printf("%llu\n", came);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 8 && strcmp(argv[1], "send") == 0)
		return send_garbage(argv + 2);
	if (argc == 4 && strcmp(argv[1], "discard") == 0)
		return discard(argv + 2);
	fprintf(stderr, "usage: bench_flood send SRC DST PORT RATE SECONDS noise|header | discard ADDR PORT\n");
	return 2;
}
