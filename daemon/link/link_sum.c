/* SPDX-License-Identifier: Apache-2.0 */
#include "link_sum.h"

#include "path_counters.h"

static uint64_t path_sum_SUM(uint64_t a, uint64_t b)
{
	return a + b;
}

static uint64_t path_sum_MOST(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

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
	if (b->acked_bytes && (!a->acked_bytes || s->loss_age_ns < sum->loss_age_ns))
		sum->loss_age_ns = s->loss_age_ns;
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
#define X(member, op, json, metric, help) a->member = path_sum_##op(a->member, b->member);
	PATH_COUNTERS(X)
#undef X
}

/* For each path takes the FEC figures of the worker that has seen most of the path lately. */
static void link_sum_fec(struct proxy_link_status *sum, const struct proxy_link_status *s, bool first)
{
	sum->npaths = s->npaths;
	for (uint32_t i = 0; i < s->npaths; i++)
		if (first || s->fec[i].measured > sum->fec[i].measured)
			sum->fec[i] = s->fec[i];
}

void link_sum_status(struct proxy_link_status *sum, const struct proxy_link_status *s, bool first)
{
	sum->wan_up = first ? s->wan_up : sum->wan_up && s->wan_up;
	sum->mismatch |= s->mismatch;
	sum->keys_used_up |= s->keys_used_up;
	link_sum_fec(sum, s, first);
	if (s->rtt_min_ns && (!sum->rtt_min_ns || s->rtt_min_ns < sum->rtt_min_ns))
		sum->rtt_min_ns = s->rtt_min_ns;
	sum->wan_in_flight_bytes += s->wan_in_flight_bytes;
	for (unsigned i = 0; i < POOL_COUNT; i++) {
		sum->pool_used[i] += s->pool_used[i];
		sum->pool_capacity[i] += s->pool_capacity[i];
		sum->pool_stuck[i] |= s->pool_stuck[i];
	}
	sum->near_flows += s->near_flows;
	sum->far_flows += s->far_flows;
	sum->max_flows += s->max_flows;
	sum->pairs_end_to_end += s->pairs_end_to_end;
	sum->flows_learning += s->flows_learning;
	sum->flows_rnr_back_pressure += s->flows_rnr_back_pressure;
	sum->flows_stalled += s->flows_stalled;
	sum->flows_rnr += s->flows_rnr;
	sum->barrier = s->barrier;
	sum->barrier_waiting += s->barrier_waiting;
	sum->ip_used_bytes += s->ip_used_bytes;
	sum->ip_capacity_bytes += s->ip_capacity_bytes;
}

void link_sum_counters(struct proxy_counters *sum, const struct proxy_counters *c)
{
	for (unsigned i = 0; i < DROP_COUNT; i++)
		sum->drop[i] += c->drop[i];
	for (unsigned i = 0; i < CTR_COUNT; i++)
		sum->ctr[i] += c->ctr[i];
}
