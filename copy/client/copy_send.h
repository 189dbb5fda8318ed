/* SPDX-License-Identifier: Apache-2.0 */
/* copy_send.h - the sender: brings source trees to an export of the other site. */
#ifndef COPY_SEND_H
#define COPY_SEND_H

#include "copy_options.h"
#include "lib/longreach.h"

/* Returns the exit code, when everything has been said. h: a connection that is used, and not closed; calls that come by it
 * are refused with LR_NO_ROOM, and when it breaks or nobody serves the export any more, that is the end. NULL: the relay is
 * connected to, and again when it has gone. */
int copy_send(const struct copy_options *o, struct lr *h);

#endif
