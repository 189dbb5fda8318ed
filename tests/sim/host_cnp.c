/* SPDX-License-Identifier: Apache-2.0 */
/* host_cnp.c - DCQCN in the model NICs (Zhu et al., SIGCOMM 2015), written from the paper, not from the core's.
 *
 * Notification point: a packet with payload that a switch marked is answered with a CNP, at most one per NP_GAP_NS and
 * queue pair. Reaction point: a CNP cuts the rate of what the queue pair sends, be it requests or READ responses. */
#include "host.h"

#include "conn.h"
#include "world.h"

#define NP_GAP_NS  50000
#define STEP_NS    300000 /* ConnectX: rpg_time_reset */
#define FAST_STEPS 5
#define GAIN       (1.0 / 256)

static uint64_t now_of(const struct qp *q)
{
	return q->host->w->q.now_ns;
}

static double nic_bps(const struct qp *q)
{
	return (double)q->host->up->cfg.rate_bps;
}

static void tell(struct qp *q)
{
	static const uint8_t reserved[ROCE_CNP_PAYLOAD];
	struct roce_pkt pkt;

	if (q->rp.told_ns && now_of(q) < q->rp.told_ns + NP_GAP_NS)
		return;
	q->rp.told_ns = now_of(q);
	q->cnps_sent++;
	qp_packet(q, &pkt, ROCE_CNP, 0);
	pkt.becn = true;
	pkt.tos &= (uint8_t)~ECN_MASK;
	host_send_mad(q->host, qp_build(q, &pkt, reserved, sizeof(reserved)));
}

static void recover(struct qp *q)
{
	struct reaction *r = &q->rp;

	for (; r->rate_bps > 0 && now_of(q) >= r->step_ns + STEP_NS; r->step_ns += STEP_NS) {
		r->alpha *= 1 - GAIN;
		if (r->steps++ >= FAST_STEPS)
			r->target_bps += nic_bps(q) / 200;
		if (r->target_bps > nic_bps(q))
			r->target_bps = nic_bps(q);
		r->rate_bps = (r->rate_bps + r->target_bps) / 2;
		if (r->rate_bps > 0.995 * nic_bps(q))
			r->rate_bps = 0;
	}
}

static void cut(struct qp *q)
{
	struct reaction *r = &q->rp;

	recover(q);
	if (r->cuts && now_of(q) < r->cut_ns + NP_GAP_NS)
		return;
	if (r->rate_bps <= 0) {
		r->rate_bps = nic_bps(q);
		r->alpha = 1;
	}
	r->target_bps = r->rate_bps;
	r->rate_bps *= 1 - r->alpha / 2;
	r->alpha = (1 - GAIN) * r->alpha + GAIN;
	if (r->rate_bps < nic_bps(q) / 4096)
		r->rate_bps = nic_bps(q) / 4096;
	r->steps = 0;
	r->cut_ns = r->step_ns = now_of(q);
	r->cuts++;
}

void host_cnp_rx(struct qp *q, const struct roce_pkt *pkt)
{
	if (pkt->class == ROCE_CNP_CLASS) {
		if (!q->conn->cfg.ignores_cnps)
			cut(q);
	} else if ((pkt->tos & ECN_MASK) == ECN_CE && pkt->payload_len > 0) {
		tell(q);
	}
}

static void on_time(void *obj, uint64_t arg)
{
	struct qp *q = obj;

	(void)arg;
	q->rp.waits = false;
	qp_activate(q);
}

bool host_cnp_waits(struct qp *q)
{
	struct reaction *r = &q->rp;

	recover(q);
	if (r->rate_bps <= 0 || now_of(q) >= r->next_ns)
		return false;
	if (!r->waits)
		eventq_at(&q->host->w->q, r->next_ns, on_time, q, 0);
	r->waits = true;
	return true;
}

void host_cnp_sent(struct qp *q, uint32_t len)
{
	if (q->rp.rate_bps > 0)
		q->rp.next_ns = now_of(q) + (uint64_t)(len * 8e9 / q->rp.rate_bps);
}
