/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_paths.h - what is told of each path of a link. */
#ifndef DAEMON_METRICS_PATHS_H
#define DAEMON_METRICS_PATHS_H

#include "gather.h"

struct evbuffer;

void metrics_paths(struct evbuffer *out, const struct gathered *links, uint32_t n);

#endif
