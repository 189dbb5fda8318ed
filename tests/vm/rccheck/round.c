/* SPDX-License-Identifier: Apache-2.0 */
/* round.c - drives both roles through one round: completions and control messages in, until both sides are through. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "rccheck.h"

#define BATCH        32
#define WAIT_MS      200
#define CAS_MISS_NTH 4

static enum op op_of_mix(uint64_t h)
{
	switch (h % 10) {
	case 0:
	case 1:
	case 2:
		return OP_WRITE;
	case 3:
	case 4:
		return OP_SEND;
	case 5:
		return OP_IMM;
	case 6:
		return OP_READBACK;
	case 7:
		return OP_READ;
	case 8:
		return OP_FADD;
	default:
		return OP_CAS;
	}
}

enum op op_of(const struct check *c, uint64_t key)
{
	uint64_t h = mix64(key ^ 0x6f70);

	switch (c->phase) {
	case PHASE_SEND:
		return OP_SEND;
	case PHASE_IMM:
		return OP_IMM;
	case PHASE_READ:
		return OP_READ;
	case PHASE_FADD:
		return h & 1 ? OP_FADD_SHARED : OP_FADD;
	case PHASE_CAS:
		return OP_CAS;
	case PHASE_MIX:
		return op_of_mix(h);
	default:
		return OP_WRITE;
	}
}

bool op_has_receive(enum op op)
{
	return op == OP_SEND || op == OP_IMM;
}

bool op_writes_slot(enum op op)
{
	return op == OP_WRITE || op == OP_IMM;
}

bool cas_must_miss(uint32_t n)
{
	return n % CAS_MISS_NTH == CAS_MISS_NTH - 1;
}

uint32_t cas_value_before(uint32_t n)
{
	return n - n / CAS_MISS_NTH;
}

static bool drain_cq(struct check *c)
{
	struct ibv_wc wc[BATCH];
	bool any = false;
	int n;

	while ((n = ibv_poll_cq(c->cq, BATCH, wc)) > 0) {
		any = true;
		for (int i = 0; i < n; i++) {
			uint32_t qp = (uint32_t)(wc[i].wr_id >> 32) & 0x7fffffff;

			if (qp >= c->opt.qps)
				fatal("completion of unknown queue pair %u", qp);
			if (wc[i].wr_id >> 63)
				target_receive(c, &c->qps[qp], &wc[i]);
			else
				initiator_completion(c, &c->qps[qp], &wc[i]);
		}
	}
	if (n < 0)
		fatal("ibv_poll_cq failed");
	return any;
}

static void handle_control(struct check *c)
{
	struct ctl m;

	control_recv(c, &m);
	if (m.type == CTL_END) {
		c->peer_ended = true;
		return;
	}
	if ((m.type != CTL_DONE && m.type != CTL_PROBE) || m.w[0] >= c->opt.qps)
		fatal("control message %u in the middle of a round", m.type);
	drain_cq(c); /* what was executed before the message was sent has its completion here by now */
	if (m.type == CTL_DONE)
		target_verify(c, &c->qps[m.w[0]]);
	else
		target_probe(c, &c->qps[m.w[0]], m.w[1]);
}

static void ack_cq_event(struct check *c)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(c->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

static void state_of(const struct check *c)
{
	for (uint32_t i = 0; i < c->opt.qps; i++) {
		const struct qp *q = &c->qps[i];

		complain((struct check *)c, "qp %u: posted %u, completed %u, received up to %u, %s", i, q->next_post,
		         q->next_done, q->next_rx, q->verified ? "verified" : "not verified");
	}
}

/* Sleeps until there is something to do; gives up when there was nothing for too long. */
static bool wait_input(struct check *c)
{
	struct pollfd p[2] = {{.fd = c->channel->fd, .events = POLLIN}, {.fd = c->control, .events = POLLIN}};

	if (poll(p, 2, WAIT_MS) < 0 && errno != EINTR)
		fatal("poll: %s", strerror(errno));
	if (p[0].revents)
		ack_cq_event(c);
	if (p[1].revents) {
		handle_control(c);
		return true;
	}
	return false;
}

static bool step(struct check *c)
{
	bool any = drain_cq(c);

	if (is_initiator(c))
		for (uint32_t i = 0; i < c->opt.qps; i++)
			initiator_post(c, &c->qps[i]);
	if (any)
		return true;
	if (ibv_req_notify_cq(c->cq, 0))
		fatal("ibv_req_notify_cq: %s", strerror(errno));
	if (drain_cq(c))
		return true;
	return wait_input(c);
}

static bool all_posted_done(const struct check *c)
{
	for (uint32_t i = 0; i < c->opt.qps; i++)
		if (!initiator_done(c, &c->qps[i]))
			return false;
	return true;
}

static bool all_received(const struct check *c)
{
	for (uint32_t i = 0; i < c->opt.qps; i++)
		if (!c->qps[i].verified || c->qps[i].next_rx <= c->opt.iters)
			return false;
	return true;
}

static void start(struct check *c)
{
	c->shared_posted = 0;
	c->end_sent = c->peer_ended = false;
	memset(c->shared_seen, 0, (size_t)c->opt.qps * c->opt.iters);
	for (uint32_t i = 0; i < c->opt.qps; i++) {
		initiator_start(c, &c->qps[i]);
		target_start(c, &c->qps[i]);
	}
	control_sync(c, (uint32_t)c->phase << 16 | c->round);
}

static void run(struct check *c)
{
	uint64_t start_ns = now_ns();
	bool mine = !is_initiator(c), theirs = !is_target(c);

	c->progress_ns = start_ns;
	while (!c->end_sent || !c->peer_ended) {
		if (step(c))
			c->progress_ns = now_ns();
		else if (now_ns() - c->progress_ns > c->opt.stall_s * 1000000000ULL) {
			state_of(c);
			fatal("phase %s round %u: nothing moved for %u s", phase_names[c->phase], c->round,
			      c->opt.stall_s);
		}
		if (!mine && all_posted_done(c)) {
			mine = true;
			c->result[c->phase].busy_ns += now_ns() - start_ns;
		}
		theirs = theirs || all_received(c);
		if (mine && theirs && !c->end_sent) {
			struct ctl m = {.type = CTL_END};

			control_send(c, &m);
			c->end_sent = true;
		}
	}
}

void round_run(struct check *c, enum phase_id phase, uint32_t round)
{
	c->phase = phase;
	c->round = round;
	start(c);
	run(c);
	if (is_initiator(c))
		initiator_finish(c);
	if (is_target(c))
		target_finish(c);
}
