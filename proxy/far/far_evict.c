/* SPDX-License-Identifier: Apache-2.0 */
/* far_evict.c - flows that drain nothing give up packets for others.
 *
 * Theory of operation
 *
 * Credit bounds what flows may hold, but a responder may die after its rate has earned it a large credit, and one after
 * another may do so. The near edge holds each packet, too, until the responder has it. So when the pool runs low, flows
 * that drain nothing give up their highest packets, down to the guaranteed minimum, and the near edge is told to send
 * them again later:
 *
 *     acked ... tx ........ keep ........ rx .... rx_max
 *           sent     minimum     given up, from the top
 *
 * FLOW_REPORT tells the near edge so by a new again_round and again_from. No round may be missed: if two rounds pass
 * before the near edge hears of one, the later one carries the lower again_from. The credit now ends where the flow's
 * packets end. Packets beyond it that were sent before are dropped as they arrive, and the near edge ignores
 * acknowledgements of them (mark_unsent_from() in near_wan.c).
 *
 * The packet that a flow needs next is always admitted: if there is no room, the flow's highest packet beyond the gap
 * is given up. */
#include "far_priv.h"

#include "proxy/wan/share.h"

#define EVICT_STEP    16         /* packets at a time: each arriving packet may make room for more than itself */
#define LOOK_STEP     64         /* flows at a time */
#define LOOK_AGAIN_NS 1000000ull /* after a walk over all flows */

/* The end of the packets that the flow keeps: its guaranteed minimum; packets that were sent to the host, while an
 * operation waits for its answer; and in mode far all in order, which were ACKed because they are here. */
static uint64_t keep_until(struct proxy *p, const struct far_flow *f)
{
	uint64_t pos = f->pos_acked, bytes = 0;

	for (; pos < f->pos_rx && bytes < CREDIT_MIN_BYTES; work_done(p, 1)) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, pos);

		if (slot == SLOT_NONE)
			break;
		bytes += arena_class_bytes(arena_hdr(p->arena, slot)->len);
		pos += max_u64(arena_hdr(p->arena, slot)->psns, 1);
	}
	if (bytes < CREDIT_MIN_BYTES)
		pos += (CREDIT_MIN_BYTES - bytes) / arena_class_bytes(LAN_PKT_MAX);
	if (f->keeps_all && !(FAULT(FAULT_MODE_OF_THE_MOMENT) && f->mode != ACK_MODE_FAR))
		pos = max_u64(pos, f->pos_rx);
	return max_u64(pos, f->nops ? f->pos_tx_max : f->pos_tx);
}

/* Gives up to `most` positions from the top, none below `keep`. False: nothing was there. */
static bool evict_top(struct proxy *p, struct far_flow *f, uint64_t keep, uint32_t most)
{
	uint64_t from = 0;

	for (; f->pos_rx_max > keep && most; most--) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, --f->pos_rx_max);

		if (slot == SLOT_NONE)
			continue;
		slot_release(p, slot);
		count(p, CTR_EVICTED, 1);
		from = f->pos_rx_max;
	}
	if (!from)
		return false;
	f->pos_rx = min_u64(f->pos_rx, from);
	f->pos_credit = from; /* to begin with */
	f->again_from = f->again_from > f->pos_acked ? min_u64(f->again_from, from) : from;
	if (++f->again_round == 0)
		f->again_round = 1;
	far_report(p, f, true);
	return true;
}

bool far_evict_own(struct proxy *p, struct far_flow *f)
{
	if (FAULT(FAULT_NO_EVICT))
		return false;
	return f->state == FAR_OPEN && evict_top(p, f, f->pos_rx + 1, EVICT_STEP);
}

static bool gives_way(struct proxy *p, struct far_flow *f)
{
	return f->state == FAR_OPEN && !f->stale_epoch && f->held_bytes > CREDIT_MIN_BYTES &&
	       share_stuck(p, &f->share, f->held_bytes) && evict_top(p, f, keep_until(p, f), EVICT_STEP);
}

void far_evict_for(struct proxy *p)
{
	if (share_left(p, POOL_WAN) >= arena_capacity(p->arena, POOL_WAN) / 2 || FAULT(FAULT_NO_EVICT))
		return;
	if (p->now_ns < p->far_evict_ns)
		return;
	for (uint32_t i = 0; i < LOOK_STEP && work_take(p); i++) {
		if (gives_way(p, &p->far[p->far_evict_at])) {
			work_done(p, EVICT_STEP);
			return;
		}
		p->far_evict_at = (p->far_evict_at + 1) % p->cfg.max_flows;
		if (p->far_evict_at == 0) {
			p->far_evict_ns = p->now_ns + LOOK_AGAIN_NS;
			return;
		}
	}
}
