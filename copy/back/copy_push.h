/* SPDX-License-Identifier: Apache-2.0 */
/* copy_push.h - the sender of an export: sends what is there to a program of the other site that asks for it.
 *
 * One copy at a time: whoever asks meanwhile is told LR_NO_ROOM, and asks again. A request that comes twice, as its reply was
 * lost, is carried out once, if none came in between. */
#ifndef COPY_PUSH_H
#define COPY_PUSH_H

#include "lib/longreach.h"

/* Serves until the daemon has gone: -EPIPE. The export is this process's root. */
int copy_push_serve(struct lr *h, const char *export);

#endif
