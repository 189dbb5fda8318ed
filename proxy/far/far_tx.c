/* SPDX-License-Identifier: Apache-2.0 */
/* far_tx.c - requests to the responder, with window and timers.
 *
 * Theory of operation
 *
 * The window towards the host is made for the LAN: it bounds the bytes in flight, grows with ACKs, and is halved on
 * loss. AckReq bits of the requester stay; AckReq is added where the window would otherwise run dry without an answer.
 * Packets are sent as they are stored: only AckReq is ever changed, and the ICRC patched for it, so a bit flipped in
 * memory is refused by the host.
 *
 * A sequence NAK makes the flow go back to the PSN that the responder asks for. An RNR NAK makes the flow wait for the
 * time that the NAK carries. A timeout, which doubles, makes the flow go back to the oldest unanswered packet. If a
 * responder is slower than LanTimeout, the timeout follows the measured time of its answers. If a responder makes no
 * progress for StallAfter, the flow is reported as stalled, which demotes it to mode host; after GiveUp the flow
 * fails. */
#include "far_priv.h"

#include "proxy/carry/barrier.h"
#include "proxy/shard/cnp_rate.h"
#include "lan_host.h"
#include "pair.h"

#define ACKREQ_EVERY_PKTS 32
#define WINDOW_MIN_BYTES  16384u
#define PART_RETRIES      3 /* timeouts in a row until more than the rest of a READ is sent again; rxe may answer that
                               alone (rd_op_ask_from()), and is asked both in turn */
#define PROBE_REPEATS     3 /* in a turn, after 1/8, 1/4 and 1/2 of LanTimeout; the turn ends after all of it */

/* True if the request at pos_tx is here and may be sent. A request that pos_rx has not passed yet (far_advance_rx() had
 * no work left) waits: an ACK would free its slot before pos_rx could move over it. The exception is a READ of unknown
 * length in PSNs: its response tells the length, so the READ may be sent, and nothing behind it. */
static bool tx_available(struct proxy *p, struct far_flow *f)
{
	bool counted = f->pos_tx < f->pos_rx;
	const struct slot_hdr *h;
	uint32_t slot;

	if (counted && p->cfg.barrier != BARRIER_CAUSAL)
		return true;
	if (f->pos_tx > f->pos_rx)
		return false;
	slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_tx);
	if (slot == SLOT_NONE)
		return false;
	h = arena_hdr(p->arena, slot);
	return h->state == SLOT_COMMITTED && (counted || h->psns == 0) && !barrier_start_waits(p, f, slot);
}

/* True if the request behind h may have to wait for other flows, which may wait for h. */
static bool next_may_wait(const struct proxy *p, const struct far_flow *f, const struct slot_hdr *h)
{
	uint32_t slot;

	if (p->cfg.barrier != BARRIER_CAUSAL)
		return false;
	slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, h->pos + (h->psns ? h->psns : 1));
	return slot != SLOT_NONE && arena_hdr(p->arena, slot)->waits != 0;
}

/* The window in bytes. One packet for a responder that has not answered two retries, and for a repeated probe, unless
 * the responder is ahead (send_whole_window() in pair.c). After an RNR NAK one packet, and more with each that is
 * ACKed. */
static uint32_t window_of(const struct far_flow *f)
{
	bool learning = f->pairing == PAIR_LEARNING;

	if (learning && f->probe_more)
		return UINT32_MAX;
	if (learning ? (f->probe_repeats || f->retries) && !f->pos_ahead : f->retries >= 2)
		return 1;
	return f->rnr_bytes && f->rnr_bytes < f->window_bytes ? f->rnr_bytes : f->window_bytes;
}

void far_schedule(struct proxy *p, struct far_flow *f)
{
	if (f->state != FAR_OPEN || f->rnr || f->successor_of != NONE || !tx_available(p, f))
		return;
	if ((f->bytes_out && f->bytes_out >= window_of(f)) || timer_armed(&f->pace))
		return;
	if (f->pairing != PAIR_LEARNING)
		lan_drr_ready(p, f);
	else if (pair_turn(p, f))
		lan_drr_probe(p, f);
}

/* --- how long a responder may take --- */

uint64_t far_answer_ns(const struct proxy *p, const struct far_flow *f)
{
	return clamp_u64(f->lan_srtt_ns + 4 * f->lan_var_ns, p->cfg.lan_timeout_ns, 25 * p->cfg.lan_timeout_ns);
}

static uint64_t lan_rto(const struct proxy *p, const struct far_flow *f)
{
	if (f->pairing == PAIR_LEARNING)
		return p->cfg.lan_timeout_ns >>
		       (f->probe_repeats ? PROBE_REPEATS + 1 - f->probe_repeats : PROBE_REPEATS);
	return far_answer_ns(p, f) << (f->retries < 4 ? f->retries : 4);
}

void far_arm_rto(struct proxy *p, struct far_flow *f)
{
	timer_set(&p->timers, &f->rto, p->now_ns + lan_rto(p, f));
}

static void rtt_begin(const struct proxy *p, struct far_flow *f, uint64_t pos)
{
	if (f->rtt_pos || pos < f->pos_tx_max)
		return; /* Karn: a repeated packet measures nothing */
	f->rtt_pos = pos;
	f->rtt_sent_ns = p->now_ns;
}

void far_rtt_end(const struct proxy *p, struct far_flow *f)
{
	uint64_t rtt = p->now_ns - f->rtt_sent_ns, err;

	if (!f->rtt_pos || f->pos_acked <= f->rtt_pos)
		return;
	f->rtt_pos = 0;
	err = rtt > f->lan_srtt_ns ? rtt - f->lan_srtt_ns : f->lan_srtt_ns - rtt;
	f->lan_var_ns = f->lan_srtt_ns ? (3 * f->lan_var_ns + err) / 4 : rtt / 2;
	f->lan_srtt_ns = f->lan_srtt_ns ? (7 * f->lan_srtt_ns + rtt) / 8 : rtt;
}

/* --- one packet --- */

/* True if the packet needs AckReq: it fills the window of the flow or of its host, or none follows that could ask. */
static bool wants_ackreq(const struct proxy *p, const struct far_flow *f, const struct slot_hdr *h)
{
	if ((h->flags & SF_ACK_REQ) || f->probe_more || f->pkts_since_ackreq + 1 >= ACKREQ_EVERY_PKTS)
		return true;
	if (next_may_wait(p, f, h) || f->bytes_out + h->len >= window_of(f) || lan_drr_should_ask(p, f, h->len))
		return true;
	return h->pos + h->psns >= f->pos_rx; /* no packet behind it that could ask */
}

static void set_ackreq(const struct slot_hdr *h, struct lan_tx *tx)
{
	size_t at = (size_t)h->bth_off + 8;
	uint8_t diff = 0x80;
	uint32_t crc;

	if (tx->hdr[at] & 0x80)
		return;
	tx->hdr[at] |= 0x80;
	if (FAULT(FAULT_ICRC_UNPATCHED))
		return;
	put_be16(tx->hdr + h->bth_off - 2, 0); /* a UDP checksum would be wrong now */
	crc = (uint32_t)tx->trailer[0] | (uint32_t)tx->trailer[1] << 8 | (uint32_t)tx->trailer[2] << 16 |
	      (uint32_t)tx->trailer[3] << 24;
	crc = icrc_patch(crc, &diff, 1, (size_t)tx->hdr_len - at - 1 + tx->body_len);
	for (int i = 0; i < 4; i++)
		tx->trailer[i] = (uint8_t)(crc >> (8 * i));
}

/* The request at pos_tx, SLOT_NONE if it may not go to the host now. */
static uint32_t next_slot(struct proxy *p, struct far_flow *f)
{
	const struct slot_hdr *h;
	uint64_t wait_ns;
	uint32_t slot;

	if (far_has_failed(f) || f->rnr || !tx_available(p, f) || (f->bytes_out && f->bytes_out >= window_of(f)))
		return SLOT_NONE;
	slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_tx);
	if (slot == SLOT_NONE)
		return SLOT_NONE;
	h = arena_hdr(p->arena, slot);
	if ((h->flags & SF_OWN_RESPONSE) && (f->nops >= READS_PER_FLOW || !rd_op_left(p, OP_FOR_FAR)))
		return SLOT_NONE; /* the answer to an earlier operation schedules the flow again */
	wait_ns = cnp_rate_wait_until(p, &f->rate);
	if (wait_ns)
		timer_set(&p->timers, &f->pace, wait_ns);
	return wait_ns ? SLOT_NONE : slot;
}

uint16_t far_lan_next(struct proxy *p, struct far_flow *f, uint32_t *slot)
{
	*slot = SLOT_NONE;
	if (!far_has_failed(f) && (f->part_due || far_again_due(f)))
		return FAR_PART_LEN;
	*slot = next_slot(p, f);
	return *slot == SLOT_NONE ? 0 : arena_hdr(p->arena, *slot)->len;
}

/* A READ that asks for missing responses; 0: none is due now. */
static size_t read_tx(struct proxy *p, struct far_flow *f, struct lan_tx *tx)
{
	size_t len = f->part_due ? far_part_tx(p, f, tx) : 0;

	return !len && far_again_due(f) ? far_again_tx(p, f, tx) : len;
}

size_t far_lan_tx(struct proxy *p, struct far_flow *f, uint32_t slot, struct lan_tx *tx)
{
	const struct slot_hdr *h;

	if (slot == SLOT_NONE) {
		size_t len = read_tx(p, f, tx);

		slot = len ? SLOT_NONE : next_slot(p, f);
		if (slot == SLOT_NONE)
			return len;
	}
	h = arena_hdr(p->arena, slot);
	cnp_rate_sent(p, &f->rate, h->len);
	arena_meta(p->arena, slot)->due_ns = p->now_ns;
	slot_to_tx(p, slot, h, tx);
	tx->vlan_tci = h->vlan_tci;
	tx->dst = f->dst;
	if (wants_ackreq(p, f, h)) {
		set_ackreq(h, tx);
		rtt_begin(p, f, h->pos);
		f->pkts_since_ackreq = 0;
	} else {
		f->pkts_since_ackreq++;
	}
	if (h->flags & SF_OWN_RESPONSE) {
		far_op_begin(p, f, h);
		far_cnp_learn(p, f, slot);
	}
	tx->probe = f->pairing == PAIR_LEARNING && !FAULT(FAULT_PROBE_WAITS);
	tx->flow = f->idx;
	pair_sent(p, f);
	if (f->pos_tx < f->pos_tx_max) {
		count(p, CTR_LAN_RETRIES, 1);
		f->notes.n.repeats++;
		f->retried_ns = p->now_ns;
	}
	if (f->pos_acked == f->pos_tx_max)
		f->last_progress_ns = p->now_ns; /* the responder owed no answer, so it was not silent */
	f->probe_more = false;
	f->bytes_out += h->len;
	lan_host_sent(p, f, h->len);
	f->pos_tx += h->psns ? h->psns : 1;
	f->pos_tx_max = max_u64(f->pos_tx_max, f->pos_tx);
	if (!timer_armed(&f->rto))
		far_arm_rto(p, f);
	return (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;
}

/* --- retries --- */

void far_go_back(struct proxy *p, struct far_flow *f, uint64_t pos)
{
	if (pos < f->pos_acked)
		pos = f->pos_acked;
	if (pos < f->pos_tx)
		f->pos_tx = pos;
	f->bytes_out = 0;
	f->rtt_pos = 0;
	for (uint64_t at = f->pos_acked; at < f->pos_tx;) {
		uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, at);

		if (slot == SLOT_NONE || !work_take(p))
			break; /* bytes_out is too low then, and more may be out for a while */
		f->bytes_out += arena_hdr(p->arena, slot)->len;
		at += arena_hdr(p->arena, slot)->psns ? arena_hdr(p->arena, slot)->psns : 1;
	}
	lan_host_less(p, f);
	far_schedule(p, f);
}

void far_on_loss(struct proxy *p, struct far_flow *f)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_acked);

	if (slot != SLOT_NONE)
		lan_host_lost(p, f, arena_meta(p->arena, slot)->due_ns);
	if (f->pos_acked < f->pos_recover)
		return;
	f->pos_recover = f->pos_tx_max;
	f->window_bytes = f->window_bytes / 2 > WINDOW_MIN_BYTES ? f->window_bytes / 2 : WINDOW_MIN_BYTES;
}

static void check_stall(struct proxy *p, struct far_flow *f)
{
	if (f->stalled || p->now_ns < f->last_progress_ns + p->cfg.stall_ns)
		return;
	f->stalled = true;
	f->notes.n.stalls++;
	proxy_event_push(p, EV_FLOW_STALLED, NULL, f, f->pos_acked, f->held_bytes);
	far_report(p, f, true);
	barrier_progress(p, f);
}

void far_ask_again(struct proxy *p, struct far_flow *f)
{
	f->probe_repeats = 1; /* one packet, and the rest of the turn's waits */
	far_arm_rto(p, f);
	f->probe_more = f->pos_tx < f->pos_rx;
	if (f->probe_more)
		far_schedule(p, f);
	else
		far_go_back(p, f, f->pos_acked);
}

bool far_overdue(struct proxy *p, struct far_flow *f)
{
	if (far_awaits_credit(f))
		f->last_progress_ns = p->now_ns; /* the responder was asked nothing */
	check_stall(p, f);
	if (p->now_ns < f->last_progress_ns + p->cfg.give_up_ns || f->pos_rx <= f->pos_acked)
		return false;
	far_fail(p, f, f->pos_acked, 0);
	return true;
}

void far_on_timer(struct proxy *p, struct far_flow *f)
{
	if (f->stale_epoch && far_stale_over(p, f))
		return;
	if (f->pairing == PAIR_LEARNING && !f->probing) { /* has waited for another try */
		far_schedule(p, f);
		return;
	}
	if (far_overdue(p, f))
		return;
	if (f->rnr) {
		f->rnr = false;
		barrier_mark_stale(p, f);
		far_go_back(p, f, f->pos_acked);
		return;
	}
	if (f->pos_tx == f->pos_acked && !f->nops)
		return;
	if (f->part_wanted && far_part_now(p, f))
		return;
	count(p, CTR_LAN_TIMEOUTS, 1);
	f->notes.n.timeouts++;
	if (f->pairing == PAIR_LEARNING && f->probe_repeats < PROBE_REPEATS) {
		f->probe_repeats++;
		far_arm_rto(p, f);
		far_go_back(p, f, f->pos_acked);
		return;
	}
	if (f->retries < UINT8_MAX)
		f->retries++;
	if (f->pairing == PAIR_LEARNING) {
		pair_unanswered(p, f);
		return;
	}
	if (far_first_op(f))
		far_first_op(f)->again_ns = p->now_ns;
	if (far_first_op(f) && f->resp_next > far_first_op(f)->pos &&
	    (f->retries < PART_RETRIES || (f->forward_only && f->retries % 2)) && far_part_now(p, f)) {
		far_arm_rto(p, f);
		return;
	}
	far_on_loss(p, f);
	far_arm_rto(p, f);
	far_go_back(p, f, f->pos_acked);
}
