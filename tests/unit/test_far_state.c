/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a far flow as a table: each state, each event that can meet it, the state behind the event, and whether
 * the host gets a request. Frames are written by hand, and the WAN is cut: the other edge knows nothing of the flow. */
#include "state_table.h"

#include "proxy/far/far_priv.h"

enum { FLOW = 3, INC = 9 };

/* --- frames --- */

static struct lane *lane(struct core *c)
{
	struct ip_addr src = core_ip(1, 2), dst = core_ip(2, 2);

	return lane_of(c->b.p, proxy_lane(&src, &dst, c->b.cfg.nlanes));
}

/* The packet of that PSN, or its first `len` bytes. */
static void packet(struct core *c, uint32_t inc, uint32_t psn, size_t len)
{
	struct roce_pkt h = core_req(RC_WRITE_ONLY, psn);
	struct wan_packet w = {.kind = WP_REQUEST, .flow = FLOW, .inc = inc, .pos = POS_ORIGIN + psn};
	uint8_t l3[LAN_PKT_MAX];

	w.total = (uint16_t)roce_build(l3, sizeof(l3), &h, core_payload(0, psn), 512);
	w.len = (uint16_t)min_u64(len, w.total);
	w.data = l3;
	assert_true(far_on_packet(c->b.p, lane(c), &w));
	core_pump(c);
}

static void whole(struct core *c, uint32_t inc, uint32_t psn)
{
	packet(c, inc, psn, SIZE_MAX);
}

static void flow_open(struct core *c, uint32_t inc)
{
	struct wan_flow_open o = {.flow = FLOW,
	                          .inc = inc,
	                          .pos_base = POS_ORIGIN,
	                          .dest_qpn = CORE_QPN,
	                          .requester_qpn = CORE_QPN,
	                          .flags = WOF_PAIRED | WOF_BASE_FIXED,
	                          .src = core_ip(1, 2),
	                          .dst = core_ip(2, 2)};

	far_on_open(c->b.p, lane(c), &o);
	core_pump(c);
}

/* --- states --- */

static void make_named(struct core *c)
{
	packet(c, INC, 0, 128);
}

static void make_keyed(struct core *c)
{
	whole(c, INC, 0);
}

static void make_open(struct core *c)
{
	whole(c, INC, 0);
	flow_open(c, INC);
}

static void make_failed(struct core *c)
{
	make_open(c);
	core_ack(c, 0, AETH_NAK_REM_ACCESS, 0);
}

/* A request before PSN 0 was in an arena that the near edge has lost, and the responder waits for it. */
static void make_lost(struct core *c)
{
	struct far_flow *f;

	make_open(c);
	f = far_by_peer(c->b.p, FLOW);
	f->lost_pos = f->pos_base;
	far_fail_lost(c->b.p, f, 0);
	core_pump(c);
}

static void make_free(struct core *c)
{
	make_open(c);
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = FLOW, .inc = INC});
	core_pump(c);
}

/* --- events --- */

static void rest_of_packet(struct core *c)
{
	whole(c, INC, 0);
}

static void next_packet(struct core *c)
{
	whole(c, INC, 1);
}

static void opened(struct core *c)
{
	flow_open(c, INC);
}

static void closed(struct core *c)
{
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = FLOW, .inc = INC});
	core_pump(c);
}

static void closed_before(struct core *c)
{
	far_on_close(c->b.p, &(struct wan_flow_close){.flow = FLOW, .inc = INC - 1});
	core_pump(c);
}

static void packet_of_next_incarnation(struct core *c)
{
	whole(c, INC + 1, 0);
}

static void packet_of_incarnation_before(struct core *c)
{
	whole(c, INC - 1, 5);
}

static void responder_acks(struct core *c)
{
	core_ack(c, 0, AETH_ACK_NO_CREDITS, 1);
}

static void responder_refuses(struct core *c)
{
	core_ack(c, 0, AETH_NAK_REM_ACCESS, 0);
}

static void silence(struct core *c)
{
	core_wait(c, c->b.cfg.give_up_ns + 5 * STATE_SECOND);
}

static void restart(struct core *c)
{
	core_rebuild(&c->b);
	c->epoch++;
	proxy_session_start(c->b.p,
	                    &(struct proxy_session){.epoch_tx = 0x20000, .epoch_rx = 0x30000, .peer_arena_epoch = 1},
	                    c->now_ns);
	core_pump(c);
}

/* The near edge comes back with an empty arena, in which the flow was not numbered. */
static void near_edge_loses_arena(struct core *c)
{
	proxy_session_start(c->b.p,
	                    &(struct proxy_session){.epoch_tx = 0x20000, .epoch_rx = 0x30000, .peer_arena_epoch = 2},
	                    c->now_ns);
	core_pump(c);
}

/* The columns are in the order of enum far_state. SENT: a request went to the host. */
enum { SENT = 0x10, FREE = FAR_FREE, NAMED = FAR_NAMED, KEYED = FAR_KEYED, OPEN = FAR_OPEN, FAILED = FAR_FAILED, LOST = FAR_LOST };

static const struct state_event event[] = {
    /* clang-format off */
    /*                                                                      FREE   NAMED  KEYED        OPEN           FAILED  LOST */
    {"the rest of the first packet",         rest_of_packet,               {KEYED, KEYED, KEYED,       OPEN,          FAILED, LOST}},
    {"the next packet",                      next_packet,                  {KEYED, KEYED, KEYED,       OPEN | SENT,   FAILED, LOST}},
    {"FLOW_OPEN",                            opened,                       {OPEN,  OPEN,  OPEN | SENT, OPEN,          FAILED, LOST}},
    {"FLOW_CLOSE",                           closed,                       {FREE,  FREE,  FREE,        FREE,          FREE,   FREE}},
    {"FLOW_CLOSE of the incarnation before", closed_before,                {FREE,  NAMED, KEYED,       OPEN,          FAILED, LOST}},
    {"a packet of the next incarnation",     packet_of_next_incarnation,   {KEYED, KEYED, KEYED,       KEYED,         KEYED,  KEYED}},
    /* FREE: no incarnation is remembered; the near edge, asked for FLOW_OPEN, sends FLOW_CLOSE */
    {"a packet of the incarnation before",   packet_of_incarnation_before, {KEYED, NAMED, KEYED,       OPEN,          FAILED, LOST}},
    {"the responder's ACK",                  responder_acks,               {FREE,  NAMED, KEYED,       OPEN,          FAILED, LOST}},
    {"the responder's refusal",              responder_refuses,            {FREE,  NAMED, KEYED,       FAILED,        FAILED, LOST}},
    /* NAMED, KEYED: until the near edge is heard, which knows no such flow */
    {"silence until GiveUp=",                silence,                      {FREE,  NAMED, KEYED,       FAILED | SENT, FAILED, LOST}},
    /* NAMED, KEYED: the near edge sends again what no far edge has reported */
    {"a restart of this edge",               restart,                      {FREE,  FREE,  FREE,        OPEN | SENT,   FAILED, LOST}},
    /* OPEN: stale, and what has come is delivered */
    {"a new arena of the near edge",         near_edge_loses_arena,        {FREE,  FREE,  FREE,        OPEN | SENT,   FREE,   FREE}},
    /* clang-format on */
};

static unsigned int sent_to_host(struct core *c)
{
	bool sent = false;
	const struct core_pkt *k;

	while ((k = core_take(&c->b)))
		sent |= k->h.class == ROCE_RC_REQUEST;
	return sent ? SENT : 0;
}

static const char *sent_name(unsigned int r)
{
	return r & SENT ? "a request" : "nothing";
}

/* Of the one flow in the table; no frame finds a stale one. */
static unsigned int state_of_flow(struct core *c)
{
	for (uint32_t i = 0; i < CORE_FLOWS; i++)
		if (c->b.p->far[i].state != FAR_FREE)
			return c->b.p->far[i].state;
	return FAR_FREE;
}

static bool may_become(unsigned int from, unsigned int to)
{
	return far_may_become(from, to);
}

static const struct state_table table = {
    .nstates = FAR_STATES,
    .name = {"free", "named", "keyed", "open", "failed", "lost"},
    .make = {make_free, make_named, make_keyed, make_open, make_failed, make_lost},
    .given = core_given,
    .cut = true,
    .state_of_flow = state_of_flow,
    .host_gets = sent_to_host,
    .gets_name = sent_name,
    .event = event,
    .nevents = sizeof(event) / sizeof(event[0]),
    .may_become = may_become,
    .may = {".x....", "x.x...", "x..xxx", "x...xx", "x.....", "x....."},
};

static void far_state__each_event_in_each_state(void **state)
{
	(void)state;
	state_table_holds(&table);
}

static void far_state__what_may_follow(void **state)
{
	(void)state;
	state_table_allows(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(far_state__each_event_in_each_state),
	    cmocka_unit_test(far_state__what_may_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
