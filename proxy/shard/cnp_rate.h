/* SPDX-License-Identifier: Apache-2.0 */
/* cnp_rate.h - the rate at which the edge may send a flow to a host after CNPs. Theory: cnp_rate.c. */
#ifndef PROXY_CNP_RATE_H
#define PROXY_CNP_RATE_H

#include "core.h"

/* A CNP about the flow came. */
void cnp_rate_cut(const struct proxy *p, struct cnp_rate *r);
/* 0: the next packet may go now; else when. */
uint64_t cnp_rate_wait_until(const struct proxy *p, struct cnp_rate *r);
/* A packet of so many bytes has gone to the host. */
void cnp_rate_sent(const struct proxy *p, struct cnp_rate *r, size_t len);

#endif
