/* SPDX-License-Identifier: Apache-2.0 */
/* cnp_rate.h - the rate at which the edge may send a flow to a host after CNPs. Theory: cnp_rate.c. */
#ifndef PROXY_CNP_RATE_H
#define PROXY_CNP_RATE_H

#include "core.h"

/* Called when a CNP about the flow came. */
void cnp_rate_cut(const struct proxy *p, struct cnp_rate *r);
/* Returns 0 if the next packet may go now, else the time from which it may. */
uint64_t cnp_rate_wait_until(const struct proxy *p, struct cnp_rate *r);
/* Called when a packet of len bytes has gone to the host. */
void cnp_rate_sent(const struct proxy *p, struct cnp_rate *r, size_t len);

#endif
