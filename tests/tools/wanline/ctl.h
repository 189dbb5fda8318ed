/* SPDX-License-Identifier: Apache-2.0 */
/* ctl.h - changing a running line: one datagram of text in, one out, on a unix socket.
 *
 *   cut [ab|ba]     lose everything, also what is on its way
 *   uncut [ab|ba]
 *   set KEY=VALUE [KEY=VALUE ...]
 *   stats           the counters as JSON
 *   show            the line in words
 *   quit */
#ifndef WANLINE_CTL_H
#define WANLINE_CTL_H

#include <stddef.h>

struct relay;

/* The socket, or -errno with a sentence in err. A stale socket file is replaced. */
int ctl_listen(const char *path, char *err, size_t err_cap);
void ctl_answer(struct relay *r, int fd);

/* The client: sends the words, prints the answer. The exit status. */
int ctl_client(const char *path, int argc, char **argv);

#endif
