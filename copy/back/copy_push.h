/* SPDX-License-Identifier: Apache-2.0 */
/* copy_push.h - the sender of an export: sends the export's files to a program of the other site that asks for them.
 *
 * One copy at a time: another request meanwhile gets LR_NO_ROOM, and is repeated. A request that comes twice, because
 * its reply was lost, is carried out once, unless another came in between. */
#ifndef COPY_PUSH_H
#define COPY_PUSH_H

#include "lib/longreach.h"

/* Serves until the daemon has gone: -EPIPE. The export is this process's root. */
int copy_push_serve(struct lr *h, const char *export);

#endif
