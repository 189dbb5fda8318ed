/* SPDX-License-Identifier: Apache-2.0 */
/* drill.c - what no round of verified messages can show: a refusal, a word by another way, an end right after the
 * last completion. Each is a few WRITEs into slots of the window, all of the same size. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rccheck.h"

#define POLL_US 200

const char *const drill_names[DRILLS] = {"none", "refuse-busy", "refuse-next", "refuse-idle", "tell", "part"};

const char *const refusal_names[REFUSALS] = {"rkey", "length", "gone"};

static size_t window_offset(const struct check *c, const struct qp *q, uint32_t slot)
{
	return c->at.window + ((size_t)q->index * c->opt.iters + slot) * c->at.stride;
}

void drill_post(struct check *c, struct qp *q, uint32_t slot, uint32_t rkey)
{
	uint32_t place = q->index * c->opt.depth + q->next_post % c->opt.depth;
	uint8_t *tx = c->mem + c->at.tx + place * c->at.stride;
	struct ibv_sge sge = {.addr = (uintptr_t)tx, .length = c->opt.size, .lkey = c->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_RDMA_WRITE,
	                         .wr_id = (uint64_t)q->index << 32 | q->next_post},
	                   *bad;

	pattern_fill(tx, c->opt.size, message_key(c, c->server, q->index, slot));
	wr.wr.rdma.remote_addr = c->peer_mem + window_offset(c, q, slot);
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(q->qp, &wr, &bad))
		fatal("ibv_post_send: %s", strerror(errno));
	q->next_post++;
}

void drill_post_too_long(struct check *c, struct qp *q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(c->mem + c->at.tx), /* two places in a row, there are at least two */
	                      .length = (uint32_t)(2 * c->at.stride),
	                      .lkey = c->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_SEND,
	                         .wr_id = (uint64_t)q->index << 32 | q->next_post},
	                   *bad;

	if (ibv_post_send(q->qp, &wr, &bad))
		fatal("ibv_post_send: %s", strerror(errno));
	q->next_post++;
}

bool drill_poll(struct check *c, const struct qp *q, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(c->cq, 1, wc);

	if (n < 0)
		fatal("ibv_poll_cq failed");
	if (n == 0)
		usleep(POLL_US);
	return n > 0 && ((uint32_t)(wc->wr_id >> 32) & 0x7fffffff) == q->index;
}

bool drill_slot_right(const struct check *c, const struct qp *q, uint32_t slot)
{
	uint64_t key = message_key(c, !c->server, q->index, slot);

	return pattern_check(c->mem + window_offset(c, q, slot), c->opt.size, key) == c->opt.size;
}

bool drill_slot_untouched(const struct check *c, const struct qp *q, uint32_t slot)
{
	return fill_check(c->mem + window_offset(c, q, slot), c->at.stride, FILL_BACKGROUND) == c->at.stride;
}

/* WRITEs into slots 0..n-1 of a queue pair, all completed when this returns. */
static void write_all(struct check *c, struct qp *q, uint32_t n)
{
	uint64_t start_ns = now_ns();
	struct ibv_wc wc;

	q->next_post = q->next_done = 0;
	while (q->next_done < n) {
		while (q->next_post < n && q->next_post - q->next_done < c->opt.depth)
			drill_post(c, q, q->next_post, c->peer_rkey);
		if (!drill_poll(c, q, &wc)) {
			if (now_ns() - start_ns > c->opt.stall_s * 1000000000ULL)
				fatal("qp %u: WRITE %u did not complete in %u s", q->index, q->next_done,
				      c->opt.stall_s);
			continue;
		}
		if (wc.status != IBV_WC_SUCCESS)
			fatal("qp %u: WRITE %u failed: %s", q->index, q->next_done, ibv_wc_status_str(wc.status));
		q->next_done++;
	}
}

static uint32_t wrong_slots(const struct check *c, const struct qp *q)
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < c->opt.iters; slot++)
		n += !drill_slot_right(c, q, slot);
	return n;
}

/* The bytes must be there when the word by TCP is. */
static void tell(struct check *c)
{
	struct ctl m = {0};
	uint32_t early = 0;

	for (c->round = 0; c->round < c->opt.rounds; c->round++) {
		m.type = CTL_TOLD;
		if (c->server) {
			uint32_t wrong = 0;

			control_expect(c, CTL_TOLD, &m);
			for (uint32_t i = 0; i < c->opt.qps; i++)
				wrong += wrong_slots(c, &c->qps[i]);
			early += wrong > 0;
			if (wrong)
				complain(c, "telling %u: %u of %u WRITEs were not there yet", c->round, wrong,
				         c->opt.qps * c->opt.iters);
			control_send(c, &m);
			continue;
		}
		for (uint32_t i = 0; i < c->opt.qps; i++)
			write_all(c, &c->qps[i], c->opt.iters);
		control_send(c, &m);
		control_expect(c, CTL_TOLD, &m); /* looked at: the slots may be written again */
	}
	if (c->server)
		printf("told %u times, too early %u times\n", c->opt.rounds, early);
}

/* --- part: the queue pair ends as soon as the last WRITE has completed; called by cm.c around that --- */

void part_before(struct check *c, struct qp *q)
{
	if (c->opt.drill == DRILL_PART && !c->server)
		write_all(c, q, c->opt.iters);
}

void part_after(struct check *c, struct qp *q)
{
	uint32_t wrong;

	if (c->opt.drill != DRILL_PART || !c->server)
		return;
	wrong = wrong_slots(c, q);
	if (wrong)
		complain(c, "qp %u: disconnected, and %u of %u completed WRITEs are not there", q->index, wrong,
		         c->opt.iters);
}

void drill_run(struct check *c)
{
	c->phase = PHASE_WRITE;
	for (uint32_t i = 0; i < c->opt.qps; i++)
		memset(c->mem + window_offset(c, &c->qps[i], 0), FILL_BACKGROUND, c->opt.iters * c->at.stride);
	control_sync(c, c->opt.drill);
	if (c->opt.drill == DRILL_TELL)
		tell(c);
	else if (c->opt.drill != DRILL_PART)
		for (uint32_t i = 0; i < c->opt.qps; i++)
			refuse(c, &c->qps[i]);
}
