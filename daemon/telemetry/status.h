/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - the state of a link as JSON. The fields are described in longreach(1); they are added to, never
 * renamed. */
#ifndef DAEMON_STATUS_H
#define DAEMON_STATUS_H

#include "daemon/arena/arena_scan.h"
#include "daemon/util/json.h"
#include "daemon/link/sites.h"

enum status_detail { STATUS_LINK, STATUS_FLOWS, STATUS_VIEWS };

/* One object. snap NULL: the link does not run, or did not answer. */
void status_write(struct json *j, const struct site *s, const struct link_snapshot *snap, enum status_detail detail);

/* Of the daemon: why the link files are not in force since they were read last, and whether all RoCE is closed. */
void status_write_files(struct json *j, const struct sites *s);

/* Buffers that no link will drain: those of a link, or of all (link NULL). */
void status_write_strays(struct json *j, const struct arena_stray *list, uint32_t n, const char *link);

void status_write_address(struct json *j, const char *key, const struct ip_addr *a);

/* The record of failed flows, the oldest first: those of a link, or of all (link NULL). */
void status_write_failed(struct json *j, const struct failed_record *r, const char *link);

#endif
