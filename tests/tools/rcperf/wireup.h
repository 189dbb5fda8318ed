/* SPDX-License-Identifier: Apache-2.0 */
/* wireup.h - the first lines of a session: what is tested, which QPs there are. In call order, client and server. */
#ifndef RCPERF_WIREUP_H
#define RCPERF_WIREUP_H

#include <stdbool.h>
#include <stdint.h>

#include "session.h"

/* How long the other end may take for each step that needs no traffic. */
#define STEP_NS (20 * 1000000000ull)

/* Never 0. */
uint64_t wireup_random_seed(void);

void wireup_send_hello(struct session *s);
/* Takes over what the client wants tested. False if it makes no sense. */
bool wireup_take_hello(struct session *s, const char *line);

/* Opens the port and makes the QPs. 0, or -errno with a sentence in err. */
int wireup_make_qps(struct session *s, char err[256]);
/* Learns the next hop to the other end. */
int wireup_find_peer(struct session *s, char err[256]);
void wireup_send_qps(struct session *s);
/* Reads the other end's QPs up to "ready". False with a sentence in err. */
bool wireup_take_qps(struct session *s, char err[256]);

#endif
