/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a near flow as a table: each state, each event that can meet it, the state behind the event, and what the
 * host gets. Mode near, so that the flow owes requests that it has ACKed. */
#include "core_fixture.h"

#include "proxy/near/near_priv.h"

#define SECOND (1000 * CORE_MS)

static const char *const state_name[NEAR_STATES] = {"free", "ended", "open", "failing", "failed"};

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
	near_close(c->a.p, core_near(c));
	core_pump(c);
}

static void make_free(struct core *c)
{
	make_ended(c);
	core_wait(c, 2 * LOSS_FETCHED_NS);
}

static void (*const make[NEAR_STATES])(struct core *c) = {
    [NEAR_FREE] = make_free,       [NEAR_ENDED] = make_ended,   [NEAR_OPEN] = make_open,
    [NEAR_FAILING] = make_failing, [NEAR_FAILED] = make_failed,
};

/* The last PSN that the host has sent in each state. */
static const uint32_t last_psn[NEAR_STATES] = {1, 1, 1, 2, 1};

/* --- events --- */

struct meeting {
	struct core *c;
	struct near_flow *f;
	enum near_state state;
};

static void next_request(const struct meeting *m)
{
	core_send(m->c, RC_WRITE_ONLY, last_psn[m->state] + 1);
}

static void repeated_request(const struct meeting *m)
{
	core_send(m->c, RC_WRITE_ONLY, last_psn[m->state]);
}

static void responder_acks(const struct meeting *m)
{
	core_ack(m->c, last_psn[m->state], AETH_ACK_NO_CREDITS, last_psn[m->state] + 1);
}

static void responder_refuses(const struct meeting *m)
{
	core_ack(m->c, last_psn[m->state], AETH_NAK_REM_ACCESS, last_psn[m->state]);
}

/* A report that the flow has failed, of the incarnation before. */
static void stale_report(const struct meeting *m)
{
	struct wan_flow_report r = {.flow = near_wire_id(m->c->a.p, m->f),
	                            .inc = m->f->inc - 1,
	                            .state = WFS_FAILED,
	                            .received = m->f->pos_base,
	                            .delivered = m->f->pos_base,
	                            .nak_pos = m->f->pos_base,
	                            .syndrome = AETH_NAK_REM_ACCESS};

	near_on_report(m->c->a.p, lane_of(m->c->a.p, m->f->lane), &r);
	core_pump(m->c);
}

/* GiveUp= passes, the line is up, and the responder says nothing. */
static void silence(const struct meeting *m)
{
	core_wait(m->c, m->c->a.cfg.give_up_ns + 11 * SECOND);
}

/* The host's queue pair was reset: other bytes from PSN 0 on, twice. */
static void reset(const struct meeting *m)
{
	m->c->salt++;
	core_insist(m->c, RC_WRITE_ONLY, 0);
}

/* CM has opened another connection to the same queue pair. */
static void another_connection(const struct meeting *m)
{
	struct near_cm_info ci = {.src = core_ip(1, 2),
	                          .dst = core_ip(2, 2),
	                          .dest_qpn = CORE_QPN,
	                          .requester_qpn = 0x99,
	                          .start_psn = 0x5000,
	                          .rnr_retry = 7,
	                          .pmtu = CORE_PMTU,
	                          .tag = 7};

	near_cm_open(m->c->a.p, &ci);
	core_wait(m->c, CORE_MS);
}

/* And the WAN carries everything again: responses and reports share datagrams. */
static void restart(const struct meeting *m)
{
	m->c->wan = NULL;
	core_rebuild(&m->c->a);
	core_hello(m->c, 1, 1);
	core_wait(m->c, 50 * CORE_MS);
}

static void far_edge_loses_arena(const struct meeting *m)
{
	core_lose(m->c, &m->c->b, 2);
}

/* The state behind the event, for each state in front of it, in the order of enum near_state; and what the host gets:
 * nothing, an ACK, or the responder's NAK. */
enum { ACK = 0x10, NAK = 0x20, FREE = NEAR_FREE, ENDED = NEAR_ENDED, OPEN = NEAR_OPEN, FAILING = NEAR_FAILING, FAILED = NEAR_FAILED };

static const struct event {
	const char *name;
	void (*meet)(const struct meeting *m);
	uint8_t then[NEAR_STATES];
} event[] = {
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

/* False, with a line that says so: another state, or another packet for the host, than the table has. */
static bool meets(struct core *c, const struct event *e, enum near_state s)
{
	struct meeting m = {.c = c, .f = core_near(c), .state = s};
	unsigned int want = e->then[s], then;
	uint32_t idx = m.f->idx;

	make[s](c);
	if (m.f->state != s)
		fail_msg("%s: the flow is %s before the event", state_name[s], state_name[m.f->state]);
	core_forget(&c->a);
	core_forget(&c->b);
	e->meet(&m);
	then = c->a.p->near[idx].state | answer_to_host(c); /* after a restart the table is another one */
	if (then != want)
		print_error("%s, %s: %s, and the host gets %s; expected %s and %s\n", state_name[s], e->name,
		            state_name[then & 0xf], answer_name(then), state_name[want & 0xf], answer_name(want));
	return then == want;
}

static void near_state__each_event_in_each_state(void **state)
{
	bool ok = true;

	(void)state;
	for (size_t i = 0; i < sizeof(event) / sizeof(event[0]); i++) {
		for (enum near_state s = 0; s < NEAR_STATES; s++) {
			void *one = NULL;
			struct core *c = core_given_pair(&one, ACK_MODE_NEAR);

			core_know_epochs(c);
			ok &= meets(c, &event[i], s);
			core_done(&one);
		}
	}
	assert_true(ok);
}

/* FREE, ENDED, OPEN, FAILING, FAILED; from the line's to the column's. */
static void near_state__what_may_follow(void **state)
{
	static const char *const may[NEAR_STATES] = {".xx.x", "x....", "xx.x.", "xx..x", "xx..."};

	(void)state;
	for (enum near_state from = 0; from < NEAR_STATES; from++)
		for (enum near_state to = 0; to < NEAR_STATES; to++)
			if (near_may_become(from, to) != (may[from][to] == 'x'))
				fail_msg("%s -> %s", state_name[from], state_name[to]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(near_state__each_event_in_each_state),
	    cmocka_unit_test(near_state__what_may_follow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
