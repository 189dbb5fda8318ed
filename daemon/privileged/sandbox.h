/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - rights that a process of longreachd drops for good, before it reads any input. */
#ifndef DAEMON_SANDBOX_H
#define DAEMON_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sandbox_user {
	uid_t uid;
	gid_t gid;
};

enum sandbox_need { SANDBOX_NEEDS_TO_RUN, SANDBOX_NEEDS_TO_CLOSE };

/* Checks that this process has the capabilities that it needs to begin. 0, or -EPERM with err a sentence that names
 * those that it lacks. */
int sandbox_check_rights(enum sandbox_need need, char *err, size_t errlen);

/* The limits that a process without rights cannot raise: open files, locked memory, priorities of threads. A limit that
 * cannot be raised stays. */
void sandbox_raise_limits(void);

/* Keeps only CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, CAP_NET_RAW and CAP_SYS_NICE and, with a user, the capabilities to
 * start a process of that user and to send it signals; limits programs that it starts in the same way. 0 or negative
 * errno. */
int sandbox_keep_network_rights(const struct sandbox_user *user);

/* What a process may do beyond the least. */
enum sandbox_more {
	SANDBOX_GPU = 1, /* the requests of CUDA's driver to its devices */
};

/* Becomes the user (NULL: stays who it is), gives away every capability, and from then on can do only the system calls
 * of sandbox.c's list; all others fail with EPERM. That holds for every thread of the process, also those that a library
 * has started. more: enum sandbox_more. 0 or negative errno with err a sentence. */
int sandbox_enter(const struct sandbox_user *user, unsigned more, char *err, size_t errlen);

/* True if this process may do that: also where no sandbox was entered, as in tests. */
bool sandbox_allows(enum sandbox_more what);

#endif
