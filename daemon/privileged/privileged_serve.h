/* SPDX-License-Identifier: Apache-2.0 */
/* privileged_serve.h - the parent's side of privileged.h: it does what the child asks for, and nothing else. */
#ifndef DAEMON_PRIVILEGED_SERVE_H
#define DAEMON_PRIVILEGED_SERVE_H

#include <sys/types.h>

#include "privileged_wire.h"

/* From here on it is this child that asks. */
void privileged_serve_begin(pid_t child);
/* Takes one question and answers it, a malformed one with -EINVAL. False: the child is gone. */
bool privileged_serve_ask(int ask_fd);
/* Takes what the child has told, as much as there is up to a limit, and does it. */
void privileged_serve_tell(int tell_fd);
/* The child that asked is gone: what it held of the host's settings is given back. */
void privileged_serve_end(void);

/* What they carry out, for a process without a parent. privileged.h's conditions. */
int privileged_open_packet_socket(int sndbuf);
int privileged_open_rules_socket(void);
void privileged_do(const struct tell *t, int fd);

/* The link that the child's words make up, for unit tests: false if a rule could not be made from them. */
bool privileged_read_link(const struct ask_link *l, struct link_config *c);

#endif
