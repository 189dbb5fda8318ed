/* SPDX-License-Identifier: Apache-2.0 */
/* client_keygen.h - `longreach keygen`: the certificates of a new link. */
#ifndef DAEMON_CLIENT_KEYGEN_H
#define DAEMON_CLIENT_KEYGEN_H

/* argv[0] is "keygen". Returns the exit code. */
int keygen_main(int argc, char **argv);

#endif
