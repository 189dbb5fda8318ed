/* SPDX-License-Identifier: Apache-2.0 */
/* privileged_serve.h - the parent's side of privileged.h: it carries out the child's requests, and nothing else. */
#ifndef DAEMON_PRIVILEGED_SERVE_H
#define DAEMON_PRIVILEGED_SERVE_H

#include <sys/types.h>

#include "privileged_wire.h"

/* From here on requests come from this child. */
void privileged_serve_begin(pid_t child);
/* Takes one question and answers it, a malformed one with -EINVAL. False: the child is gone. */
bool privileged_serve_ask(int ask_fd);
/* Takes the messages of the child that need no answer, up to a limit, and carries them out. */
void privileged_serve_tell(int tell_fd);
/* The child is gone: restores the host's settings that it had changed. */
void privileged_serve_end(void);

/* The operations themselves, for a process without a parent. Conditions as in privileged.h. */
int privileged_open_packet_socket(int sndbuf);
int privileged_open_rules_socket(void);
void privileged_do(const struct tell *t, int fd);

/* Reads a link from the child's message, for unit tests: false if no rule could be made from it. */
bool privileged_read_link(const struct ask_link *l, struct link_config *c);

#endif
