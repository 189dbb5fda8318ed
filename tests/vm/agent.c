/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - runs commands in a test guest on behalf of vmrun. It is the guest's init.
 *
 * Theory of operation
 *
 * One TCP connection is one command. The agent greets with "LR1\n", so that the other end can tell a guest that is up
 * from QEMU's forwarder that accepts before anybody listens. The client sends "<timeout_ms> <bytes>\n" and that many
 * bytes of shell command. Back come frames: a type byte, a length in 4 bytes (big-endian) and the payload; '1' is
 * stdout, '2' stderr, 'x' (4 bytes, big-endian) the exit status, which is the last frame.
 *
 * The command gets a session of its own. It is killed when its time is up (status 124) and when the client goes
 * away: to run something in the background, keep the connection; to end it, close it. Whatever the command has left
 * running in its session is killed with it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CMD_MAX        16384
#define STATUS_TIMEOUT 124
#define STATUS_NO_RUN  125

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static bool write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool send_frame(int sock, char type, const void *payload, uint32_t len)
{
	uint8_t hdr[5] = {(uint8_t)type};
	uint32_t be = htonl(len);

	memcpy(hdr + 1, &be, 4);
	return write_all(sock, hdr, sizeof(hdr)) && write_all(sock, payload, len);
}

static void send_status(int sock, uint32_t status)
{
	uint32_t be = htonl(status);

	send_frame(sock, 'x', &be, 4);
}

/* Reads up to and without '\n'. */
static bool read_line(int sock, char *line, size_t cap)
{
	for (size_t i = 0; i + 1 < cap; i++) {
		if (recv(sock, line + i, 1, 0) != 1)
			return false;
		if (line[i] == '\n') {
			line[i] = 0;
			return true;
		}
	}
	return false;
}

static bool read_request(int sock, uint64_t *timeout_ms, char *cmd)
{
	char line[64];
	unsigned long ms, len;

	if (!read_line(sock, line, sizeof(line)) || sscanf(line, "%lu %lu", &ms, &len) != 2 || len >= CMD_MAX)
		return false;
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(sock, cmd + got, len - got, 0);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	cmd[len] = 0;
	*timeout_ms = ms;
	return true;
}

static pid_t start_command(const char *cmd, int *out, int *err)
{
	int o[2], e[2];
	pid_t pid;

	if (pipe2(o, O_CLOEXEC) || pipe2(e, O_CLOEXEC))
		return -1;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY);

		setsid();
		dup2(null, 0);
		dup2(o[1], 1);
		dup2(e[1], 2);
		execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	close(o[1]);
	close(e[1]);
	*out = o[0];
	*err = e[0];
	return pid;
}

/* Passes on what is in a pipe. False when the client is gone; *fd becomes -1 at end of file. */
static bool forward(int sock, char type, int *fd)
{
	char buf[16384];
	ssize_t n = read(*fd, buf, sizeof(buf));

	if (n > 0)
		return send_frame(sock, type, buf, (uint32_t)n);
	if (n == 0 || errno != EINTR) {
		close(*fd);
		*fd = -1;
	}
	return true;
}

/* What the command wrote before it ended, without waiting for what it left running. */
static void drain(int sock, char type, int fd)
{
	char buf[16384];
	ssize_t n;

	if (fd < 0)
		return;
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		send_frame(sock, type, buf, (uint32_t)n);
}

static uint32_t exit_status(int wstatus)
{
	return WIFEXITED(wstatus) ? (uint32_t)WEXITSTATUS(wstatus) : 128 + (uint32_t)WTERMSIG(wstatus);
}

/* Forwards until the command ends, its time is up or the client goes. False: it had to be killed for time. */
static bool supervise(int sock, pid_t pid, int *out, int *err, uint64_t timeout_ms)
{
	uint64_t end_ms = now_ms() + timeout_ms;
	int pidfd = pidfd_open(pid, 0);
	bool in_time = false;

	for (;;) {
		struct pollfd p[4] = {{.fd = pidfd, .events = POLLIN},
		                      {.fd = sock, .events = POLLIN},
		                      {.fd = *out, .events = POLLIN},
		                      {.fd = *err, .events = POLLIN}};
		uint64_t now = now_ms();
		int n;

		if (now >= end_ms)
			break;
		n = poll(p, 4, (int)(end_ms - now));
		if (n < 0 && errno != EINTR)
			break;
		if (n <= 0)
			continue;
		if (p[2].revents && !forward(sock, '1', out))
			break;
		if (p[3].revents && !forward(sock, '2', err))
			break;
		if (p[0].revents) {
			in_time = true;
			break;
		}
		if (p[1].revents) /* it has nothing more to say: it is gone */
			break;
	}
	close(pidfd);
	return in_time;
}

static void serve(int sock)
{
	static char cmd[CMD_MAX];
	uint64_t timeout_ms;
	int out, err, wstatus = 0;
	bool in_time;
	pid_t pid;

	if (!write_all(sock, "LR1\n", 4) || !read_request(sock, &timeout_ms, cmd))
		return;
	pid = start_command(cmd, &out, &err);
	if (pid < 0) {
		send_status(sock, STATUS_NO_RUN);
		return;
	}
	in_time = supervise(sock, pid, &out, &err, timeout_ms);
	kill(-pid, SIGKILL);
	waitpid(pid, &wstatus, 0);
	drain(sock, '1', out);
	drain(sock, '2', err);
	send_status(sock, in_time ? exit_status(wstatus) : STATUS_TIMEOUT);
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 16)) {
		perror("agent");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	int fd, one = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: agent PORT\n");
		return 2;
	}
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* as init it must not collect zombies */
	fd = listen_on((uint16_t)atoi(argv[1]));
	for (;;) {
		int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (sock < 0)
			continue;
		setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (fork() == 0) {
			signal(SIGCHLD, SIG_DFL);
			signal(SIGPIPE, SIG_DFL);
			serve(sock);
			_exit(0);
		}
		close(sock);
	}
}
