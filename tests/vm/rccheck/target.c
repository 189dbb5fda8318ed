/* SPDX-License-Identifier: Apache-2.0 */
/* target.c - looks at what the other side's requests did to this side's memory and receive queue. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "rccheck.h"

static uint32_t receive_buffers(const struct check *c)
{
	return 2 * c->opt.depth;
}

static uint8_t *receive_buffer(const struct check *c, const struct qp *q, uint64_t i)
{
	uint32_t n = receive_buffers(c);

	return c->mem + c->at.rx + ((size_t)q->index * n + i % n) * c->at.stride;
}

static uint8_t *window_slot(const struct check *c, const struct qp *q, uint32_t seq)
{
	return c->mem + c->at.window + ((size_t)q->index * c->opt.iters + seq) * c->at.stride;
}

static uint64_t peer_key(const struct check *c, const struct qp *q, uint32_t seq)
{
	return message_key(c, !c->server, q->index, seq);
}

static uint64_t *cell(const struct check *c, uint32_t qp, enum op op)
{
	return (uint64_t *)(void *)(c->mem + cell_offset(c, qp, op));
}

static void post_receive(struct check *c, struct qp *q, uint64_t i)
{
	uint8_t *buf = receive_buffer(c, q, i);
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = (uint32_t)c->at.stride, .lkey = c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1ULL << 63 | (uint64_t)q->index << 32 | (uint32_t)i,
	                         .sg_list = &sge,
	                         .num_sge = 1},
	                   *bad;

	memset(buf, FILL_BACKGROUND, c->at.stride);
	if (ibv_post_recv(q->qp, &wr, &bad))
		fatal("ibv_post_recv: %s", strerror(errno));
}

void target_post_receives(struct check *c, struct qp *q)
{
	for (uint32_t i = 0; i < receive_buffers(c); i++)
		post_receive(c, q, i);
}

/* A slow receiver lets the queue run dry, so that the responder must say RNR. */
static void repost(struct check *c, struct qp *q)
{
	q->recvs_owed++;
	if (c->opt.slow_receiver) {
		if (q->recvs_owed < receive_buffers(c))
			return;
		usleep(3000);
	}
	for (; q->recvs_owed > 0; q->recvs_owed--)
		post_receive(c, q, q->recvs + receive_buffers(c) - q->recvs_owed);
}

static uint32_t next_receive(const struct check *c, const struct qp *q, uint32_t seq)
{
	while (seq < c->opt.iters && !op_has_receive(op_of(c, peer_key(c, q, seq))))
		seq++;
	return seq;
}

static bool phase_uses_window(enum phase_id phase)
{
	return phase == PHASE_WRITE || phase == PHASE_IMM || phase == PHASE_MIX || phase == PHASE_LAT;
}

void target_check_poison(struct check *c, struct qp *q)
{
	size_t len = c->opt.iters * c->at.stride, at;

	if (!q->poisoned)
		return;
	at = fill_check(window_slot(c, q, 0), len, FILL_POISON);
	if (at < len)
		complain(c, "qp %u slot %zu was written again at byte %zu after all had been verified", q->index,
		         at / c->at.stride, at % c->at.stride);
	q->poisoned = false;
}

void target_start(struct check *c, struct qp *q)
{
	q->next_rx = next_receive(c, q, 0);
	q->verified = false;
	*cell(c, q->index, OP_FADD) = 0;
	*cell(c, q->index, OP_CAS) = 0;
	*cell(c, c->opt.qps, OP_FADD_SHARED) = 0;
	if (!phase_uses_window(c->phase))
		return;
	target_check_poison(c, q);
	memset(window_slot(c, q, 0), FILL_BACKGROUND, c->opt.iters * c->at.stride);
}

/* Whose bytes are these? Looks among the neighbours; -1 if nobody's. */
static int64_t owner_of(const struct check *c, const struct qp *q, uint32_t seq, const uint8_t *p)
{
	for (int64_t d = -512; d <= 512; d++) {
		int64_t s = (int64_t)seq + d;

		if (s >= 0 && s < c->opt.iters && pattern_check(p, 8, peer_key(c, q, (uint32_t)s)) == 8)
			return s;
	}
	return -1;
}

/* A message of len bytes in a place of stride bytes that was all background before. */
static void check_message(struct check *c, const struct qp *q, uint32_t seq, uint32_t len, const uint8_t *p,
                          const char *what)
{
	size_t at = pattern_check(p, len, peer_key(c, q, seq));

	if (at < len)
		complain(c, "qp %u seq %u round %u: %s of %u bytes: byte %zu is 0x%02x, wrong; it starts like seq %lld",
		         q->index, seq, c->round, what, len, at, p[at], (long long)owner_of(c, q, seq, p));
	at = len + fill_check(p + len, c->at.stride - len, FILL_BACKGROUND);
	if (at < c->at.stride)
		complain(c, "qp %u seq %u round %u: %s of %u bytes wrote byte %zu", q->index, seq, c->round, what, len,
		         at);
}

static void check_send(struct check *c, struct qp *q, const struct ibv_wc *wc, uint32_t len)
{
	if (wc->opcode != IBV_WC_RECV)
		complain(c, "qp %u seq %u: receive opcode %d for a SEND", q->index, q->next_rx, wc->opcode);
	if (wc->byte_len != len)
		complain(c, "qp %u seq %u: SEND of %u bytes, %u came", q->index, q->next_rx, len, wc->byte_len);
	check_message(c, q, q->next_rx, len, receive_buffer(c, q, q->recvs), "SEND");
}

static void check_imm(struct check *c, struct qp *q, const struct ibv_wc *wc, uint32_t len)
{
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(wc->wc_flags & IBV_WC_WITH_IMM))
		complain(c, "qp %u seq %u: receive opcode %d for a WRITE with immediate", q->index, q->next_rx,
		         wc->opcode);
	else if (ntohl(wc->imm_data) != q->next_rx)
		complain(c, "qp %u: immediate %u where %u was due", q->index, ntohl(wc->imm_data), q->next_rx);
	if (wc->byte_len != len)
		complain(c, "qp %u seq %u: WRITE with immediate of %u bytes, %u came", q->index, q->next_rx, len,
		         wc->byte_len);
	check_message(c, q, q->next_rx, len, window_slot(c, q, q->next_rx), "WRITE with immediate");
}

void target_receive(struct check *c, struct qp *q, const struct ibv_wc *wc)
{
	uint32_t seq = q->next_rx;

	if (wc->status != IBV_WC_SUCCESS)
		fatal("qp %u: receive before seq %u of phase %s failed: %s", q->index, seq, phase_names[c->phase],
		      ibv_wc_status_str(wc->status));
	if ((uint32_t)wc->wr_id != (uint32_t)q->recvs)
		complain(c, "qp %u: receive %u completed where %u was due", q->index, (uint32_t)wc->wr_id,
		         (uint32_t)q->recvs);
	if (seq > c->opt.iters) {
		complain(c, "qp %u: a receive of %u bytes after the end of phase %s", q->index, wc->byte_len,
		         phase_names[c->phase]);
	} else if (seq == c->opt.iters) {
		check_send(c, q, wc, MARKER_BYTES);
		q->next_rx++;
		if (c->opt.early_acks)
			target_verify(c, q);
	} else {
		uint64_t key = peer_key(c, q, seq);

		if (op_of(c, key) == OP_IMM)
			check_imm(c, q, wc, message_len(c, key));
		else
			check_send(c, q, wc, message_len(c, key));
		q->next_rx = next_receive(c, q, seq + 1);
	}
	q->recvs++;
	repost(c, q);
}

/* The initiator has seen this WRITE complete. */
void target_probe(struct check *c, struct qp *q, uint32_t seq)
{
	uint64_t key = peer_key(c, q, seq);

	if (seq < c->opt.iters && op_of(c, key) == OP_WRITE)
		check_message(c, q, seq, message_len(c, key), window_slot(c, q, seq), "completed WRITE");
}

static void verify_window(struct check *c, struct qp *q)
{
	for (uint32_t seq = 0; seq < c->opt.iters; seq++) {
		uint64_t key = peer_key(c, q, seq);

		if (op_writes_slot(op_of(c, key)))
			check_message(c, q, seq, message_len(c, key), window_slot(c, q, seq), "WRITE");
		else
			check_message(c, q, seq, 0, window_slot(c, q, seq), "nothing");
	}
	memset(window_slot(c, q, 0), FILL_POISON, c->opt.iters * c->at.stride);
	q->poisoned = true;
}

static uint32_t count_op(const struct check *c, const struct qp *q, enum op op)
{
	uint32_t n = 0;

	for (uint32_t seq = 0; seq < c->opt.iters; seq++)
		n += op_of(c, peer_key(c, q, seq)) == op;
	return n;
}

static void verify_cell(struct check *c, uint32_t qp, enum op op, uint64_t want)
{
	uint64_t got = *cell(c, qp, op);

	if (got != want)
		complain(c, "cell %u of %s holds %llu, must be %llu", qp, op == OP_CAS ? "CMP_SWAP" : "FETCH_ADD",
		         (unsigned long long)got, (unsigned long long)want);
}

void target_verify(struct check *c, struct qp *q)
{
	if (q->next_rx < c->opt.iters)
		complain(c, "qp %u: all completed, yet seq %u was not received", q->index, q->next_rx);
	if (phase_uses_window(c->phase))
		verify_window(c, q);
	verify_cell(c, q->index, OP_FADD, count_op(c, q, OP_FADD));
	verify_cell(c, q->index, OP_CAS, cas_value_before(count_op(c, q, OP_CAS)));
	q->verified = true;
}

void target_finish(struct check *c)
{
	uint64_t want = 0;

	for (uint32_t i = 0; i < c->opt.qps; i++)
		want += count_op(c, &c->qps[i], OP_FADD_SHARED);
	verify_cell(c, c->opt.qps, OP_FADD_SHARED, want);
}
