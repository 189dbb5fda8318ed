/* SPDX-License-Identifier: Apache-2.0 */
/* near_liveness.c - whether a flow's responder is heard.
 *
 * Theory of operation
 *
 * A keepalive must not be answered for a responder that may be dead. So a flow loses its early ACKs while the far edge
 * says that its responder makes no progress, or while nothing was heard of it at all for StallAfter and what news take,
 * with an answer owed: it may be dead, or its edge, or the line may be. near_mode() asks at each ACK; the timer here is
 * for those who look at the link, and for them alone: it says when that has become so. One timer per flow, which runs
 * while something is owed and is late by what was heard meanwhile.
 *
 * While the whole line is silent one flow speaks for all. */
#include "near_priv.h"

#include "proxy/wan/wan_lane.h"

static uint64_t patience_ns(const struct proxy *p)
{
	return p->cfg.stall_ns + 2 * proxy_rtt_ns(p);
}

static bool owed(const struct near_flow *f)
{
	return f->pos_reported < f->pos_next;
}

bool near_demoted(const struct proxy *p, const struct near_flow *f)
{
	return f->stalled || (owed(f) && p->now_ns >= f->heard_ns + patience_ns(p));
}

/* False: it was said already, of another flow, that the line is silent. */
static bool worth_saying(struct proxy *p)
{
	bool line_silent = p->now_ns >= p->last_rx_ns + p->cfg.stall_ns, said = p->silence_said_ns == p->last_rx_ns;

	if (line_silent)
		p->silence_said_ns = p->last_rx_ns;
	return !(line_silent && said);
}

void near_demotion_look(struct proxy *p, struct near_flow *f)
{
	bool early = f->mode != ACK_MODE_HOST && f->pairing != PAIR_LEARNING, now = early && near_demoted(p, f);

	if (now && !f->demoted) {
		count(p, CTR_DEMOTIONS, 1);
		f->demotion_said = worth_saying(p);
		if (f->demotion_said)
			proxy_event_push(p, EV_FLOW_DEMOTED, f, NULL, f->pos_reported, near_held(f));
	} else if (!now && f->demoted && f->demotion_said) {
		proxy_event_push(p, EV_FLOW_RESUMED, f, NULL, f->pos_reported, 0);
	}
	f->demoted = now;
}

void near_liveness_seen(struct proxy *p, struct near_flow *f)
{
	f->heard_ns = p->now_ns;
	if (owed(f) && !timer_armed(&f->liveness))
		timer_set(&p->timers, &f->liveness, f->heard_ns + patience_ns(p));
}

/* The far edge may have forgotten the flow to make room for another one, and its last reports may be lost: then neither
 * edge has anything to send. The oldest packet that the far edge is believed to have goes once more: an edge that does
 * not know the flow asks for its beginning, one that does drops the packet. Nothing is asked while the far edge itself
 * says that the responder is silent, or while the line is; nor without a pair, as that far flow waits for its answer
 * and is not forgotten. */
static void ask(struct proxy *p, struct near_flow *f)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_NEAR, f->idx, f->pos_settled);

	if (slot != SLOT_NONE && f->pos_wan > f->pos_settled && !f->stalled && f->pairing != PAIR_LEARNING &&
	    p->now_ns < p->last_rx_ns + p->cfg.stall_ns)
		wan_lane_send_again(p, lane_of(p, f->lane), slot);
}

void near_liveness_on_timer(struct proxy *p, struct near_flow *f)
{
	uint64_t from_ns = f->heard_ns;

	near_demotion_look(p, f);
	if (!owed(f))
		return;
	if (near_demoted(p, f)) {
		ask(p, f);
		from_ns = p->now_ns;
	}
	timer_set(&p->timers, &f->liveness, from_ns + patience_ns(p));
}
