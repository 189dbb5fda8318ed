/* SPDX-License-Identifier: Apache-2.0 */
/* far_state.c - the life of a far flow: which state follows which, and what every such step does.
 *
 *     FREE --> NAMED --> KEYED --> OPEN --> FAILED or LOST       each --far_close()--> FREE
 *
 * A rebuild goes the same way at once. KEYED fails there, too, if the table of host pairs has no place for a flow that
 * had failed: only FLOW_OPEN opens a flow. */
#include "far_priv.h"

#include "proxy/util/probe.h"

bool far_may_become(enum far_state from, enum far_state to)
{
	static const uint8_t follows[FAR_STATES] = {
	    [FAR_FREE] = 1u << FAR_NAMED,
	    [FAR_NAMED] = 1u << FAR_KEYED | 1u << FAR_FREE,
	    [FAR_KEYED] = 1u << FAR_OPEN | 1u << FAR_FAILED | 1u << FAR_LOST | 1u << FAR_FREE,
	    [FAR_OPEN] = 1u << FAR_FAILED | 1u << FAR_LOST | 1u << FAR_FREE,
	    [FAR_FAILED] = 1u << FAR_FREE,
	    [FAR_LOST] = 1u << FAR_FREE,
	};

	return follows[from] >> to & 1;
}

void far_become(struct proxy *p, struct far_flow *f, enum far_state to)
{
	bool was_keyed = far_is_keyed(f);

#ifdef PROXY_FAULTS
	if (!far_may_become(f->state, to))
		__builtin_trap();
#endif
	PROBE4(far_state, f->idx, f->inc, f->state, to);
	f->state = to;
	if (to == FAR_NAMED) {
		idx_hash_put(&p->far_by_peer, far_peer_hash(f->peer_flow), f->idx);
		p->far_used++;
	} else if (to == FAR_FREE) {
		idx_hash_del(&p->far_by_peer, far_peer_hash(f->peer_flow), f->idx);
		p->far_used--;
	}
	if (far_is_keyed(f) && !was_keyed)
		idx_hash_put(&p->far_by_dest, far_dest_hash(p, &f->src, &f->dst, f->dest_qpn), f->idx);
	else if (was_keyed && !far_is_keyed(f))
		idx_hash_del(&p->far_by_dest, far_dest_hash(p, &f->src, &f->dst, f->dest_qpn), f->idx);
	if (far_has_failed(f))
		timer_cancel(&p->timers, &f->rto);
}
