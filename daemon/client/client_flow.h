/* SPDX-License-Identifier: Apache-2.0 */
/* client_flow.h - `longreach flow`, all that an edge knows of a flow, and `longreach trace FLOW`, its time line. */
#ifndef DAEMON_CLIENT_FLOW_H
#define DAEMON_CLIENT_FLOW_H

#include <stdbool.h>

/* argv[0] is the command's word, control_path what --control said before it. The exit code. */
int flow_main(int argc, char **argv, const char *control_path);
int flow_trace_main(int argc, char **argv, const char *control_path);

/* The words behind "trace" name a flow, and not a link alone. */
bool flow_trace_wanted(int argc, char **argv);

#endif
