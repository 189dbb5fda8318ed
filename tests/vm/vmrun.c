/* SPDX-License-Identifier: Apache-2.0 */
/* vmrun.c - runs a command in a test guest: vmrun [-n NETNS] [-p PORT] [-t SECONDS] [-w SECONDS] [--] COMMAND...
 *
 *   -n  network namespace in which the guest's QEMU listens
 *   -p  its port (7000)
 *   -t  kill the command after so long (60); status 124
 *   -w  wait at most so long for the guest to answer (5)
 *
 * Output goes where the command sent it, the exit status is the command's. 125: the guest could not be reached.
 * The protocol is told in agent.c. Ending vmrun ends the command.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STATUS_NO_GUEST 125
#define CMD_MAX         16384

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void enter_netns(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET)) {
		fprintf(stderr, "vmrun: network namespace %s: %s\n", name, strerror(errno));
		exit(STATUS_NO_GUEST);
	}
	close(fd);
}

static bool read_all(int fd, void *buf, size_t len)
{
	char *p = buf;

	while (len > 0) {
		ssize_t n = recv(fd, p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

/* Connected and greeted, or -1. */
static int connect_once(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval patience = {.tv_sec = 2}, none = {0};
	char greeting[4];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (struct sockaddr *)&a, sizeof(a)) && read_all(fd, greeting, 4) &&
	    !memcmp(greeting, "LR1\n", 4)) {
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
		return fd;
	}
	close(fd);
	return -1;
}

static int connect_guest(uint16_t port, double wait_s)
{
	double end_s = now_s() + wait_s;

	for (;;) {
		int fd = connect_once(port);

		if (fd >= 0)
			return fd;
		if (now_s() >= end_s) {
			fprintf(stderr, "vmrun: no answer from the guest on port %u\n", port);
			exit(STATUS_NO_GUEST);
		}
		usleep(100000);
	}
}

static void send_request(int fd, double timeout_s, char **words, int n)
{
	char cmd[CMD_MAX], head[64];
	size_t len = 0;

	for (int i = 0; i < n; i++) {
		int w = snprintf(cmd + len, sizeof(cmd) - len, "%s%s", i ? " " : "", words[i]);

		len += (size_t)w;
		if (len >= sizeof(cmd)) {
			fprintf(stderr, "vmrun: the command is longer than %d bytes\n", CMD_MAX - 1);
			exit(STATUS_NO_GUEST);
		}
	}
	snprintf(head, sizeof(head), "%lu %zu\n", (unsigned long)(timeout_s * 1000), len);
	if (!write_all(fd, head, strlen(head)) || !write_all(fd, cmd, len))
		exit(STATUS_NO_GUEST);
}

/* Copies output until the exit status comes. */
static int receive(int fd)
{
	uint8_t hdr[5], buf[65536];
	uint32_t len;

	while (read_all(fd, hdr, sizeof(hdr))) {
		memcpy(&len, hdr + 1, 4);
		len = ntohl(len);
		if (len > sizeof(buf) || !read_all(fd, buf, len))
			break;
		if (hdr[0] == 'x' && len == 4) {
			memcpy(&len, buf, 4);
			return (int)ntohl(len);
		}
		write_all(hdr[0] == '2' ? 2 : 1, buf, len);
	}
	fprintf(stderr, "vmrun: the guest broke off\n");
	return STATUS_NO_GUEST;
}

int main(int argc, char **argv)
{
	double timeout_s = 60, wait_s = 5;
	uint16_t port = 7000;
	int opt, fd;

	while ((opt = getopt(argc, argv, "+n:p:t:w:")) != -1) {
		switch (opt) {
		case 'n':
			enter_netns(optarg);
			break;
		case 'p':
			port = (uint16_t)atoi(optarg);
			break;
		case 't':
			timeout_s = atof(optarg);
			break;
		case 'w':
			wait_s = atof(optarg);
			break;
		default:
			return 2;
		}
	}
	if (optind == argc) {
		fprintf(stderr, "usage: vmrun [-n NETNS] [-p PORT] [-t SECONDS] [-w SECONDS] [--] COMMAND...\n");
		return 2;
	}
	fd = connect_guest(port, wait_s);
	send_request(fd, timeout_s, argv + optind, argc - optind);
	return receive(fd);
}
