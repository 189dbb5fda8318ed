/* SPDX-License-Identifier: Apache-2.0 */
/* copy_send.h - the sender: brings source trees to an export of the other site. */
#ifndef COPY_SEND_H
#define COPY_SEND_H

#include "copy_options.h"

/* Returns the exit code, when everything has been said. */
int copy_send(const struct copy_options *o);

/* `longreach copy`. */
int copy_main(int argc, char **argv);

#endif
