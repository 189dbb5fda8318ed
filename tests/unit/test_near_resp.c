/* SPDX-License-Identifier: Apache-2.0 */
/* READ responses at the near edge while its memory is scarce, and pieces with wrong lengths or offsets. */
#include "core_fixture.h"
#include "proxy/near/near_priv.h"

enum { READ_PSN = 2, READ_PKTS = 3 };

static const uint8_t three[] = {RC_READ_RESP_FIRST, RC_READ_RESP_MIDDLE, RC_READ_RESP_LAST};

/* A READ of three packets has crossed. */
static struct core *given_read(void **state)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, READ_PSN);
	struct core *c = core_given_pmtu(state, ACK_MODE_NEAR);

	h.reth_len = READ_PKTS * CORE_PMTU;
	assert_int_equal(core_in(&c->a, h, 0, 0), DROP_NONE);
	core_pump(c);
	core_expect(&c->b, RC_READ_REQUEST, READ_PSN);
	return c;
}

static void respond(struct core *c, uint32_t i)
{
	struct roce_pkt h = core_answer(three[i], CORE_QPN, READ_PSN + i, AETH_ACK_NO_CREDITS, 2);

	assert_int_equal(core_in(&c->b, h, CORE_PMTU, 0), DROP_NONE);
	core_pump(c);
}

/* Other flows fill the pool up to the limit of unsolicited packets. */
static uint32_t crowd(struct core *c)
{
	uint32_t n = 0;

	while (slot_take(c->a.p, SLOT_RAW_WAN, 0, 0, n, LAN_PKT_MAX, 0, false) != SLOT_NONE)
		n++;
	while (slot_take(c->a.p, SLOT_RAW_WAN, 0, 0, n, CORE_PMTU, 0, false) != SLOT_NONE)
		n++;
	assert_true(n > 0);
	return n;
}

static void crowd_goes(struct core *c, uint32_t n)
{
	while (n--)
		slot_release(c->a.p, arena_find(c->a.p->arena, SLOT_RAW_WAN, 0, n));
}

/* The end of a READ comes first: the slots reserved for the READ hold its responses in whatever order they come. */
static void near_resp__reserved_room_is_for_any_of_the_responses(void **state)
{
	struct core *c = given_read(state);
	uint32_t n;

	n = crowd(c);
	respond(c, 2);
	respond(c, 1);
	assert_int_equal(core_ctr(&c->b, CTR_WAN_REFUSED), 0);
	assert_int_not_equal(arena_find(c->a.p->arena, SLOT_RESP_NEAR, core_near(c)->idx, POS_ORIGIN + 4), SLOT_NONE);
	respond(c, 0);
	for (uint32_t i = 0; i < READ_PKTS; i++)
		core_expect(&c->a, three[i], READ_PSN + i);
	crowd_goes(c, n);
}

/* The responder was silent for so long that no slot is reserved any more. The response that the host waits for next
 * still gets a slot; other responses do not. */
static void near_resp__the_next_one_needs_no_reserved_room(void **state)
{
	struct core *c = given_read(state);
	uint32_t n;

	core_wait(c, 2 * c->a.cfg.stall_ns);
	assert_true(near_is_stalled(core_near(c)));
	assert_int_equal(c->a.p->reserved_bytes, 0);
	core_forget(&c->b);
	n = crowd(c);
	respond(c, 2);
	assert_int_equal(arena_find(c->a.p->arena, SLOT_RESP_NEAR, core_near(c)->idx, POS_ORIGIN + 4), SLOT_NONE);
	respond(c, 0);
	core_expect(&c->a, RC_READ_RESP_FIRST, READ_PSN);
	respond(c, 1);
	core_expect(&c->a, RC_READ_RESP_MIDDLE, READ_PSN + 1);
	core_wait(c, 5 * CORE_MS); /* the last response was refused, and comes again */
	core_expect(&c->a, RC_READ_RESP_LAST, READ_PSN + 2);
	crowd_goes(c, n);
}

/* --- pieces --- */

struct piece {
	uint8_t l3[LAN_PKT_MAX];
	struct wan_packet w;
};

/* The first `len` bytes of the READ's first response, as the far edge sends them. */
static void piece_of_first(struct core *c, struct piece *pc, uint16_t len)
{
	struct roce_pkt h = core_answer(RC_READ_RESP_FIRST, CORE_QPN, READ_PSN, AETH_ACK_NO_CREDITS, 2);

	pc->w = (struct wan_packet){.flow = near_wire_id(c->a.p, core_near(c)),
	                            .inc = core_near(c)->inc,
	                            .pos = POS_ORIGIN + READ_PSN,
	                            .kind = WP_RESPONSE,
	                            .len = len,
	                            .data = pc->l3};
	pc->w.total = (uint16_t)roce_build(pc->l3, sizeof(pc->l3), &h, core_payload(0, READ_PSN), CORE_PMTU);
	assert_true(pc->w.total > len);
}

static void take(struct core *c, const struct piece *pc)
{
	assert_true(near_on_packet(c->a.p, lane_of(c->a.p, core_near(c)->lane), &pc->w));
}

/* The host never gets half of a response, whatever makes the edge check its responses. */
static void near_resp__half_a_response_is_not_given(void **state)
{
	struct core *c = given_read(state);
	struct piece pc;

	piece_of_first(c, &pc, 64 * 4);
	take(c, &pc);
	dlist_append_once(&c->a.p->resp_list, &core_near(c)->resp_node);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	pc.w.offset = pc.w.len;
	pc.w.data = pc.l3 + pc.w.len;
	pc.w.len = (uint16_t)(pc.w.total - pc.w.len);
	take(c, &pc);
	core_pump(c);
	core_expect(&c->a, RC_READ_RESP_FIRST, READ_PSN);
	take(c, &pc); /* a copy of a piece that the edge has */
	assert_int_equal(core_drops(&c->a, DROP_WAN_POSITION_OLD), 1);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
}

/* A late copy of a piece comes after the host got its response, lost it and repeated the READ: the copy's length
 * differs from that of the response read again, and it takes no slot of that response. */
static void near_resp__late_piece_of_another_gives_way(void **state)
{
	struct core *c = given_read(state);
	struct piece pc;

	piece_of_first(c, &pc, 64 * 4);
	pc.w.total = (uint16_t)(pc.w.total - 4); /* a MIDDLE, which has no AETH */
	take(c, &pc);
	for (uint32_t i = 0; i < READ_PKTS; i++)
		respond(c, i);
	for (uint32_t i = 0; i < READ_PKTS; i++)
		core_expect(&c->a, three[i], READ_PSN + i);
	assert_int_equal(c->a.p->reserved_bytes, 0);
}

/* A bit flipped in the near edge's memory is not hidden by a new ICRC where a MIDDLE becomes a FIRST: the edge reads
 * that response again. */
static void near_resp__flipped_bit_is_not_framed_anew(void **state)
{
	struct roce_pkt h = core_req(RC_READ_REQUEST, READ_PSN + 1);
	struct core *c = given_read(state);
	uint32_t slot;

	for (uint32_t i = 0; i < READ_PKTS; i++)
		respond(c, i);
	core_forget(&c->a);
	slot = arena_find(c->a.p->arena, SLOT_RESP_NEAR, core_near(c)->idx, POS_ORIGIN + READ_PSN + 1);
	assert_int_not_equal(slot, SLOT_NONE);
	core_forget(&c->b);
	arena_data(c->a.p->arena, slot)[500] ^= 4;
	c->now_ns += CORE_MS;
	h.reth_va += CORE_PMTU;
	h.reth_len = (READ_PKTS - 1) * CORE_PMTU;
	core_in(&c->a, h, 0, 0);
	core_pump(c);
	assert_int_equal(core_pending(&c->a), 0);
	core_expect(&c->b, RC_READ_REQUEST, READ_PSN + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(near_resp__reserved_room_is_for_any_of_the_responses),
	    CORE_TEST(near_resp__the_next_one_needs_no_reserved_room),
	    CORE_TEST(near_resp__half_a_response_is_not_given),
	    CORE_TEST(near_resp__late_piece_of_another_gives_way),
	    CORE_TEST(near_resp__flipped_bit_is_not_framed_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
