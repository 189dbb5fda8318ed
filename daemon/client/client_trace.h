/* SPDX-License-Identifier: Apache-2.0 */
/* client_trace.h - `longreach trace`: what the paths of a link do over time, as a table, CSV, JSON or a picture. */
#ifndef DAEMON_CLIENT_TRACE_H
#define DAEMON_CLIENT_TRACE_H

/* The whole command line, with the word "trace" in it. The exit code. */
int trace_main(int argc, char **argv);

#endif
