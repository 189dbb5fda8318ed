/* SPDX-License-Identifier: Apache-2.0 */
/* check_config.h - `longreachd --check-config`: every error of every link file, and what does not fit this machine. */
#ifndef DAEMON_CHECK_CONFIG_H
#define DAEMON_CHECK_CONFIG_H

#include "options.h"

/* Prints a line for each file that is well and one, to standard error, for each error. o->offline: of the files
 * alone, whatever machine this is. Returns the exit status. */
int check_config(const struct options *o);

#endif
