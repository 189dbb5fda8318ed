/* SPDX-License-Identifier: Apache-2.0 */
/* host_cnp.c - DCQCN in the model NICs (Zhu et al., SIGCOMM 2015).
 *
 * Notification point: a packet with payload that a switch marked is answered with a CNP, at most one per NP_GAP_NS and
 * queue pair. Reaction point (reaction.c): a CNP cuts the rate of what the queue pair sends, be it requests or READ
 * responses. */
#include "host.h"

#include "conn.h"
#include "world.h"

#define NP_GAP_NS 50000

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

	if (q->cnp_told_ns && now_of(q) < q->cnp_told_ns + NP_GAP_NS)
		return;
	q->cnp_told_ns = now_of(q);
	q->cnps_sent++;
	qp_packet(q, &pkt, ROCE_CNP, 0);
	pkt.becn = true;
	pkt.tos &= (uint8_t)~ECN_MASK;
	host_send_mad(q->host, qp_build(q, &pkt, reserved, sizeof(reserved)));
}

void host_cnp_rx(struct qp *q, const struct roce_pkt *pkt)
{
	if (pkt->class == ROCE_CNP_CLASS) {
		if (!q->conn->cfg.ignores_cnps)
			reaction_cnp(&q->rp, nic_bps(q), now_of(q));
	} else if ((pkt->tos & ECN_MASK) == ECN_CE && pkt->payload_len > 0) {
		tell(q);
	}
}

static void on_time(void *obj, uint64_t arg)
{
	struct qp *q = obj;

	(void)arg;
	q->rate_waits = false;
	qp_activate(q);
}

bool host_cnp_waits(struct qp *q)
{
	uint64_t next_ns = reaction_next_ns(&q->rp, nic_bps(q), now_of(q));

	if (!next_ns)
		return false;
	if (!q->rate_waits)
		eventq_at(&q->host->w->q, next_ns, on_time, q, 0);
	q->rate_waits = true;
	return true;
}

void host_cnp_sent(struct qp *q, uint32_t len)
{
	reaction_sent(&q->rp, len, now_of(q));
}
