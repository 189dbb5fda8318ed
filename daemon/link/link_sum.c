/* SPDX-License-Identifier: Apache-2.0 */
#include "link_sum.h"

void link_sum_rtt(uint64_t *mean_ns, uint32_t *n, uint64_t rtt_ns)
{
	if (!rtt_ns)
		return;
	*mean_ns = (*mean_ns * *n + rtt_ns) / (*n + 1);
	++*n;
}

void link_sum_path(struct proxy_path_status *sum, const struct proxy_path_status *s, bool first, uint32_t *rtts)
{
	struct wan_path_stats *a = &sum->stats;
	const struct wan_path_stats *b = &s->stats;
	uint64_t mean_ns = sum->rtt_smoothed_ns;

	link_sum_rtt(&mean_ns, rtts, s->rtt_smoothed_ns);
	if (first) {
		*sum = *s;
		return;
	}
	sum->rtt_smoothed_ns = mean_ns;
	if (s->state == PATH_DEAD || sum->state == PATH_UP)
		sum->state = s->state;
	sum->usable &= s->usable;
	sum->since_ns = s->since_ns > sum->since_ns ? s->since_ns : sum->since_ns;
	sum->payload_max = s->payload_max < sum->payload_max ? s->payload_max : sum->payload_max;
	if (s->rtt_min_ns && (!sum->rtt_min_ns || s->rtt_age_ns < sum->rtt_age_ns))
		sum->rtt_age_ns = s->rtt_age_ns;
	if (s->rtt_min_ns && (!sum->rtt_min_ns || s->rtt_min_ns < sum->rtt_min_ns))
		sum->rtt_min_ns = s->rtt_min_ns;
	sum->rtt_p99_ns = s->rtt_p99_ns > sum->rtt_p99_ns ? s->rtt_p99_ns : sum->rtt_p99_ns;
	sum->loss_ppm = s->loss_ppm > sum->loss_ppm ? s->loss_ppm : sum->loss_ppm;
	sum->searching |= s->searching;
	sum->black_holes += s->black_holes;
	sum->loss_runs += s->loss_runs;
	if (s->loss_run_longest > sum->loss_run_longest)
		sum->loss_run_longest = s->loss_run_longest;
	if (s->reorder_window_ns > sum->reorder_window_ns)
		sum->reorder_window_ns = s->reorder_window_ns;
	sum->delivery_bps += s->delivery_bps;
	sum->in_flight_bytes += s->in_flight_bytes;
	a->tx_dgrams += b->tx_dgrams;
	a->tx_bytes += b->tx_bytes;
	a->rx_dgrams += b->rx_dgrams;
	a->rx_bytes += b->rx_bytes;
	a->tx_control += b->tx_control;
	a->tx_control_bytes += b->tx_control_bytes;
	a->acked_bytes += b->acked_bytes;
	a->lost += b->lost;
	a->spurious += b->spurious;
	a->moved += b->moved;
	a->repairs += b->repairs;
	a->spared += b->spared;
	a->probes += b->probes;
	a->rebuilt += b->rebuilt;
	a->reordered += b->reordered;
	a->reorder_most = b->reorder_most > a->reorder_most ? b->reorder_most : a->reorder_most;
	a->marked += b->marked;
	a->deaths += b->deaths;
}
