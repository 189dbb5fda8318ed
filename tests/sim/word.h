/* SPDX-License-Identifier: Apache-2.0 */
/* word.h - what a program says to the other host by another channel than RC: "so much of it is done".
 *
 * A host that has seen completions sends a packet of TCP's looks that names how many messages of each connection to
 * that host are complete. When it arrives, they must have been executed there. It may get lost; it never comes
 * again. */
#ifndef SIM_WORD_H
#define SIM_WORD_H

#include <stdbool.h>

#include "conn.h"
#include "pkt.h"

/* A message of side `side` is complete: it may be told. */
void word_on_completion(struct conn *c, int side);
/* Do both connections run now between the same two machines, as the edges see them? */
bool word_same_machines(const struct conn *c, const struct conn *other);
/* Does the packet look like one? */
bool word_is(const struct pkt *p);
/* It has arrived. */
void word_heard(struct host *h, const struct pkt *p);

#endif
