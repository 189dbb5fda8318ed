/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - the control connection between client and server: lines of text over TCP, "word key=value ...". */
#ifndef RCPERF_WIRE_H
#define RCPERF_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/roce/roce.h"

enum wire_limits {
	WIRE_LINE_MAX = 1024,
	WIRE_BUFFER = 64 << 10,
};

struct wire {
	int fd;
	char in[WIRE_BUFFER];
	size_t begin, end; /* bytes received and not yet taken */
	bool closed;       /* the other end has gone, or sent nonsense */
};

int wire_listen(const struct ip_addr *addr, uint16_t port);
int wire_accept(struct wire *w, int listen_fd);
/* Tries for up to wait_ns: the server may be starting. */
int wire_connect(struct wire *w, const struct ip_addr *from, const struct ip_addr *to, uint16_t port, uint64_t wait_ns);
void wire_close(struct wire *w);

/* One line, without its newline. Waits if the connection is slow; marks it closed if that takes too long. */
void wire_send(struct wire *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The next line if there is one, else NULL. Valid until the next call. */
char *wire_poll(struct wire *w);
/* The same, waiting up to wait_ns for it. */
char *wire_wait(struct wire *w, uint64_t wait_ns);

/* Is this line's first word `word`? */
bool wire_is(const char *line, const char *word);
/* The value of key=, or `otherwise`. */
uint64_t wire_u64(const char *line, const char *key, uint64_t otherwise);
/* All behind key=, to the end of the line. */
const char *wire_rest(const char *line, const char *key);

#endif
