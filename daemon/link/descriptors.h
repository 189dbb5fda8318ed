/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h - open files that the running links may need, and the process's limit of them (RLIMIT_NOFILE). Main
 * thread. */
#ifndef DAEMON_DESCRIPTORS_H
#define DAEMON_DESCRIPTORS_H

#include "daemon/config/config.h"

/* The most open files of a link with that configuration. Pure. */
uint64_t descriptors_of(const struct link_config *c);
/* For a link that starts: raises the limit if need be. 0, or -EMFILE with err a sentence. */
int descriptors_take(const struct link_config *c, char err[CONFIG_ERR_MAX]);
/* When the link has stopped. n: descriptors_of() the configuration that it was taken for. */
void descriptors_release(uint64_t n);

#endif
