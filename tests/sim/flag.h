/* SPDX-License-Identifier: Apache-2.0 */
/* flag.h - what a program says to the other host by a message on another queue pair: "so much of it is done".
 *
 * With Barrier=causal a message that is posted when others are complete may rely on them: whoever executes it finds
 * them executed. What was complete is noted when a message is posted, and looked up when it is executed. */
#ifndef SIM_FLAG_H
#define SIM_FLAG_H

#include "conn.h"

/* Message number msg of side `side` is posted. */
void flag_posted(struct conn *c, int side, uint64_t msg);
/* The other side has executed it. */
void flag_executed(struct conn *c, int side, uint64_t msg);
void flag_free(struct conn *c);

#endif
