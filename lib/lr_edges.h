/* SPDX-License-Identifier: Apache-2.0 */
/* lr_edges.h - /etc/longreach/edges: names the edge of this site that has a link's relay, for hosts without a relay.
 *
 * Each line is LINK ADDRESS[:PORT], as of RelayListen=; # begins a comment. The first line of a link counts. */
#ifndef LR_EDGES_H
#define LR_EDGES_H

#include <stddef.h>

#define LR_EDGES_FILE "/etc/longreach/edges"

/* The address of that link's edge, as text. 0; -ENOENT: the file is not there, or does not name the link; -EINVAL: its line
 * makes no sense. */
int lr_edges_find(const char *path, const char *link, char *address, size_t cap);

#endif
