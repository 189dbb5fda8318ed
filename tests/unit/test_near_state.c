/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a near flow as a table: each state, each event that can meet it, the state behind the event, and what the
 * host gets. Mode near, so that the flow owes requests that it has ACKed. */
#include "state_table.h"

#include "proxy/near/near_priv.h"

/* The one flow; after a restart its table is another one. */
static struct near_flow *flow(struct core *c)
{
	return &c->a.p->near[0];
}

/* --- states --- */

static bool lose_packets_of_b(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	struct wan_hdr h;
	struct wan_frame f;
	size_t at = WAN_HDR_LEN;

	if (from != &c->b || wan_hdr_get(dgram, len, &h) != DROP_NONE)
		return true;
	while (wan_frame_next(dgram, len - WAN_TAG_LEN, &at, &f) == 1)
		if (f.type == WF_PACKET)
			return false;
	return true;
}

/* PSN 1 is ACKed and not delivered. */
static void make_open(struct core *c)
{
	core_send(c, RC_WRITE_ONLY, 1);
}

/* The responder has executed the ATOMIC of PSN 1, whose response is lost on the WAN, and has refused PSN 2. */
static void make_failing(struct core *c)
{
	c->wan = lose_packets_of_b;
	core_send(c, RC_FETCH_ADD, 1);
	core_send(c, RC_WRITE_ONLY, 2);
	core_in(&c->b, core_answer(RC_ATOMIC_ACK, CORE_QPN, 1, AETH_ACK_NO_CREDITS, 2), 0, 0);
	core_pump(c);
	core_ack(c, 2, AETH_NAK_REM_ACCESS, 2);
	core_wait(c, 5 * CORE_MS);
}

/* The responder has refused PSN 1, which was ACKed. */
static void make_failed(struct core *c)
{
	core_send(c, RC_WRITE_ONLY, 1);
	core_ack(c, 1, AETH_NAK_REM_ACCESS, 1);
}

static void make_ended(struct core *c)
{
	make_failed(c);
	near_close(c->a.p, flow(c));
	core_pump(c);
}

static void make_free(struct core *c)
{
	make_ended(c);
	core_wait(c, 2 * LOSS_FETCHED_NS);
}

/* The last PSN that the host has sent in each state. */
static const uint32_t last_psn[NEAR_STATES] = {1, 1, 1, 2, 1};

/* --- events --- */

static void next_request(struct core *c)
{
	core_send(c, RC_WRITE_ONLY, last_psn[state_met] + 1);
}

static void repeated_request(struct core *c)
{
	core_send(c, RC_WRITE_ONLY, last_psn[state_met]);
}

static void responder_acks(struct core *c)
{
	core_ack(c, last_psn[state_met], AETH_ACK_NO_CREDITS, last_psn[state_met] + 1);
}

static void responder_refuses(struct core *c)
{
	core_ack(c, last_psn[state_met], AETH_NAK_REM_ACCESS, last_psn[state_met]);
}

/* A report that the flow has failed, of the incarnation before. */
static void stale_report(struct core *c)
{
	struct wan_flow_report r = {.flow = near_wire_id(c->a.p, flow(c)),
	                            .inc = flow(c)->inc - 1,
	                            .state = WFS_FAILED,
	                            .received = flow(c)->pos_base,
	                            .delivered = flow(c)->pos_base,
	                            .nak_pos = flow(c)->pos_base,
	                            .syndrome = AETH_NAK_REM_ACCESS};

	near_on_report(c->a.p, lane_of(c->a.p, flow(c)->lane), &r);
	core_pump(c);
}

/* GiveUp= passes, the line is up, and the responder says nothing. */
static void silence(struct core *c)
{
	core_wait(c, c->a.cfg.give_up_ns + 11 * STATE_SECOND);
}

/* The host's queue pair was reset: other bytes from PSN 0 on, twice. */
static void reset(struct core *c)
{
	c->salt++;
	core_insist(c, RC_WRITE_ONLY, 0);
}

/* CM has opened another connection to the same queue pair. */
static void another_connection(struct core *c)
{
	struct near_cm_info ci = {.src = core_ip(1, 2),
	                          .dst = core_ip(2, 2),
	                          .dest_qpn = CORE_QPN,
	                          .requester_qpn = 0x99,
	                          .start_psn = 0x5000,
	                          .rnr_retry = 7,
	                          .pmtu = CORE_PMTU,
	                          .tag = 7};

	near_cm_open(c->a.p, &ci);
	core_wait(c, CORE_MS);
}

/* And the WAN carries everything again: responses and reports share datagrams. */
static void restart(struct core *c)
{
	c->wan = NULL;
	core_rebuild(&c->a);
	core_hello(c, 1, 1);
	core_wait(c, 50 * CORE_MS);
}

static void far_edge_loses_arena(struct core *c)
{
	core_lose(c, &c->b, 2);
}

/* The columns are in the order of enum near_state. The host gets nothing, an ACK, or the responder's NAK. */
enum { ACK = 0x10, NAK = 0x20, FREE = NEAR_FREE, ENDED = NEAR_ENDED, OPEN = NEAR_OPEN, FAILING = NEAR_FAILING, FAILED = NEAR_FAILED };

static const struct state_event event[] = {
    /* clang-format off */
    /*                                                                  FREE  ENDED  OPEN        FAILING       FAILED */
    {"the next request",                   next_request,               {FREE, ENDED, OPEN | ACK, FAILING,      FAILED | NAK}},
    /* FAILED: the host has sent nothing behind what it was ACKed, and would drop the NAK of the next PSN */
    {"a repeated request",                 repeated_request,           {FREE, ENDED, OPEN | ACK, FAILING,      FAILED}},
    {"the responder's ACK",                responder_acks,             {FREE, ENDED, OPEN,       FAILING,      FAILED}},
    {"the responder's refusal",            responder_refuses,          {FREE, ENDED, FAILED,     FAILING,      FAILED}},
    {"a report of the incarnation before", stale_report,               {FREE, ENDED, OPEN,       FAILING,      FAILED}},
    /* ENDED: the daemon has fetched the failure. FAILING: the ATOMIC is not waited for any more */
    {"silence until GiveUp=",              silence,                    {FREE, FREE,  FAILED,     FAILED | NAK, FAILED}},
    /* OPEN: drains. FAILING: nothing that was ACKed is lost, so no failure is to be told */
    {"a reset of the queue pair",          reset,                      {FREE, ENDED, OPEN,       FREE,         ENDED}},
    {"another connection",                 another_connection,         {FREE, ENDED, OPEN,       FREE,         ENDED}},
    {"a restart of this edge",             restart,                    {FREE, ENDED, OPEN,       FAILED | NAK, FAILED}},
    {"a new arena of the other edge",      far_edge_loses_arena,       {FREE, ENDED, OPEN,       FAILING,      FAILED}},
    /* clang-format on */
};

static unsigned int answer_to_host(struct core *c)
{
	unsigned int r = 0;
	const struct core_pkt *k;

	while ((k = core_take(&c->a)))
		if (k->h.opcode == RC_ACK)
			r = k->h.aeth_syndrome == AETH_NAK_REM_ACCESS ? NAK : ACK;
	return r;
}

static const char *answer_name(unsigned int r)
{
	return r & NAK ? "a NAK" : r & ACK ? "an ACK" : "nothing";
}

static unsigned int state_of_flow(struct core *c)
{
	return flow(c)->state;
}

static bool may_become(unsigned int from, unsigned int to)
{
	return near_may_become(from, to);
}

static const struct state_table table = {
    .nstates = NEAR_STATES,
    .name = {"free", "ended", "open", "failing", "failed"},
    .make = {make_free, make_ended, make_open, make_failing, make_failed},
    .given = core_given_pair,
    .state_of_flow = state_of_flow,
    .host_gets = answer_to_host,
    .gets_name = answer_name,
    .event = event,
    .nevents = sizeof(event) / sizeof(event[0]),
    .may_become = may_become,
    .may = {".xx.x", "x....", "xx.x.", "xx..x", "xx..."},
};

static void near_state__each_event_in_each_state(void **state)
{
	(void)state;
	state_table_holds(&table);
}

static void near_state__what_may_follow(void **state)
{
	(void)state;
	state_table_allows(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(near_state__each_event_in_each_state),
	    cmocka_unit_test(near_state__what_may_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
