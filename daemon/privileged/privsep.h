/* SPDX-License-Identifier: Apache-2.0 */
/* privsep.h - two processes in place of one: the parent keeps the rights, the child does the work.
 *
 * The child dies with the parent. A child that crashes is started again by the parent, a few times a minute; signals
 * to stop and to read the link files again are passed on to it, and its exit status is the parent's. */
#ifndef DAEMON_PRIVSEP_H
#define DAEMON_PRIVSEP_H

#include <stddef.h>

#define SERVICE_USER "longreach" /* of the units: systemd/longreach.sysusers */

/* Returns in the child, each time one is started, with privileged.h asking the parent and sandbox.h entered: 0. The
 * parent exits with the child's status. user: whom the child becomes, NULL: nobody else. Call before the first thread,
 * event loop or open file. with_rights (may be NULL) is called in each child while the child has its parent's rights:
 * it may start threads, opens what cannot be opened later, and returns what the child may do (enum sandbox_more). If there
 * is to be no child: negative errno with err (of errlen bytes) a sentence. */
int privsep_split(const char *user, unsigned (*with_rights)(void *arg), void *arg, char *err, size_t errlen);

#endif
