/* SPDX-License-Identifier: Apache-2.0 */
/* cnp_rate.h - the rate at which the edge may send a flow to a host after CNPs. Theory: cnp_rate.c. */
#ifndef PROXY_CNP_RATE_H
#define PROXY_CNP_RATE_H

#include "core.h"

/* Called when a CNP about the flow came. */
void cnp_rate_cut(const struct proxy *p, struct cnp_rate *r);
/* cnp_rate_wait_until() of a flow that a CNP has slowed down. */
uint64_t cnp_rate_slowed_until(const struct proxy *p, struct cnp_rate *r);
/* Returns 0 if the next packet may go now, else the time from which it may. */
static inline uint64_t cnp_rate_wait_until(const struct proxy *p, struct cnp_rate *r)
{
	return r->rate_bps ? cnp_rate_slowed_until(p, r) : 0;
}
/* Called when a packet of len bytes has gone to the host. */
static inline void cnp_rate_sent(const struct proxy *p, struct cnp_rate *r, size_t len)
{
	if (r->rate_bps)
		r->next_ns = max_u64(r->next_ns, p->now_ns) + len * 8000000000ull / r->rate_bps;
}

#endif
