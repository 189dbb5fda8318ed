/* SPDX-License-Identifier: Apache-2.0 */
/* attack.h - a host on a LAN that means harm: what it can send, and what the others feel of it. */
#ifndef SIM_ATTACK_H
#define SIM_ATTACK_H

struct world;

/* Lets the last host of each site send cfg.attack_pps packets a second to its edge, from cfg.attack_ns on. */
void attack_start(struct world *w);

/* `lrsim --attack`: the same work with and without it. 0: the others keep 90 % of their rate. */
int attack_run(void);

#endif
