/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - the state of a link as JSON. */
#include "status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/peer/cert_days.h"
#include "daemon/link/failed_record.h"
#include "flow_status.h"
#include "link_counters.h"
#include "daemon/config/link_plan.h"
#include "daemon/link/bursts.h"
#include "daemon/link/path_counters.h"
#include "headroom/headroom.h"

/* Bounds the memory that one client can make the daemon use. */
#define STATUS_FLOWS_MAX 20000

void status_write_address(struct json *j, const char *key, const struct ip_addr *a)
{
	char t[ADDR_TEXT_MAX];

	json_string(j, key, addr_write(a, t, sizeof(t)));
}

static void write_prefixes(struct json *j, const char *key, const struct ip_prefix *list, uint32_t n)
{
	char t[ADDR_TEXT_MAX];

	json_array(j, key);
	for (uint32_t i = 0; i < n; i++)
		json_string(j, NULL, addr_write_prefix(&list[i], t, sizeof(t)));
	json_array_end(j);
}

static void write_config(struct json *j, const struct link_config *c)
{
	char digest[17];

	snprintf(digest, sizeof(digest), "%016" PRIx64, c->digest);
	json_string(j, "config_digest", digest);
	json_string(j, "ack_mode", ack_mode_name(c->ack_mode));
	json_bool(j, "sealed", c->encryption != SEAL_NONE);
	json_string(j, "encryption", seal_cipher_name(c->encryption));
	json_string(j, "encryption_provider", seal_provider(c->encryption));
	json_uint(j, "rate_bps", config_rate_bps(c));
	json_uint(j, "wan_mtu", c->paths[0].mtu);
	json_uint(j, "lanes", c->lanes);
	json_uint(j, "workers", c->workers);
	json_uint(j, "configured_distance_m", c->distance_m);
	status_write_address(j, "local_address", &c->paths[0].local);
	status_write_address(j, "remote_address", &c->paths[0].remote);
	json_uint(j, "port", c->paths[0].port);
	write_prefixes(j, "local_prefixes", c->local, c->nlocal);
	write_prefixes(j, "remote_prefixes", c->remote, c->nremote);
}

static void write_reauth(struct json *j, const struct peer_status *p)
{
#define X(e, name, text) [REAUTH_##e] = name,
	static const char *const names[] = {REAUTH_STATES(X)};
#undef X

	json_object(j, "reauthentication");
	json_string(j, "state", names[p->reauth]);
	if (p->reauth == REAUTH_DUE)
		json_uint(j, "left_s", p->reauth_left_ns / NS_PER_S);
	if (p->reauth != REAUTH_NONE)
		json_string(j, "trouble", p->reauth_trouble);
	json_object_end(j);
}

static void write_peer(struct json *j, const struct peer_status *p)
{
	json_object(j, "peer");
	json_bool(j, "connected", p->connected);
	json_bool(j, "met", p->met);
	json_bool(j, "mismatch", p->met && p->verdict != HELLO_AGREED);
	json_string(j, "difference", p->met ? p->text : "");
	json_string(j, "rates", p->met ? p->rates : "");
	json_string(j, "trouble", p->connected ? "" : p->trouble);
	write_reauth(j, p);
	json_uint(j, "sessions", p->sessions);
	json_uint(j, "control_rtt_ns", p->rtt_ns);
	json_uint(j, "refused_connections", p->refused_connections);
	json_uint(j, "unproven_connections", p->unproven_connections);
	if (p->clock_known)
		json_real(j, "clock_ahead_s", (double)p->clock_ahead_ns / 1e9);
	if (p->met) {
		json_string(j, "name", p->there.name);
		json_uint(j, "protocol", p->there.version);
		json_string(j, "ack_mode", ack_mode_name(p->there.ack_mode));
		json_uint(j, "rate_bps", p->there.rate_bps);
		json_uint(j, "wan_mtu", p->there.wan_mtu);
	}
	json_object_end(j);
}

static void write_clock(struct json *j, const struct peer_status *p)
{
	json_object(j, "clock");
	json_uint(j, "jumps", p->clock_jumps);
	if (p->clock_jumps > 0) {
		json_real(j, "last_jump_s", (double)p->clock_jump_ns / 1e9);
		json_uint(j, "last_jump_age_ns", p->clock_jump_age_ns);
	}
	json_object_end(j);
}

static void write_expiry(struct json *j, const char *key, int64_t expires_s)
{
	json_object(j, key);
	json_uint(j, "expires_unix_s", (uint64_t)expires_s);
	json_real(j, "days_left", (double)cert_days_left(expires_s, (int64_t)time(NULL)));
	json_object_end(j);
}

/* Writes the certificates' expiry; nothing for a pre-shared key, or while the link does not run. */
static void write_certificates(struct json *j, const struct tls_expiry *e)
{
	if (e->certificate_s != 0)
		write_expiry(j, "certificate", e->certificate_s);
	if (e->ca_s != 0)
		write_expiry(j, "ca", e->ca_s);
}

static void write_rates(struct json *j, const struct site *s)
{
	struct site_rates r;

	site_rates(s, &r);
	json_object(j, "rates");
	json_bool(j, "valid", r.valid);
	json_uint(j, "lan_rx_bps", (uint64_t)r.lan_rx_bps);
	json_uint(j, "lan_tx_bps", (uint64_t)r.lan_tx_bps);
	json_uint(j, "wan_tx_bps", (uint64_t)r.wan_tx_bps);
	json_uint(j, "wan_rx_bps", (uint64_t)r.wan_rx_bps);
	json_real(j, "wan_loss", r.wan_loss);
	json_object_end(j);
}

static void write_pools(struct json *j, const struct proxy_link_status *s)
{
	static const char *const names[POOL_COUNT] = {[POOL_LAN] = "from_lan", [POOL_WAN] = "from_wan"};

	json_object(j, "buffer");
	for (unsigned i = 0; i < POOL_COUNT; i++) {
		json_object(j, names[i]);
		json_uint(j, "used_bytes", s->pool_used[i]);
		json_uint(j, "capacity_bytes", s->pool_capacity[i]);
		json_bool(j, "stuck", s->pool_stuck[i]);
		json_object_end(j);
	}
	json_object_end(j);
}

static void write_barrier(struct json *j, const struct proxy_link_status *s)
{
	json_object(j, "barrier");
	json_string(j, "mode", barrier_mode_name(s->barrier));
	json_uint(j, "waiting", s->barrier_waiting);
	json_uint(j, "ip_used_bytes", s->ip_used_bytes);
	json_uint(j, "ip_capacity_bytes", s->ip_capacity_bytes);
	json_object_end(j);
}

/* Writes the FEC plan of each path, and FEC's figures, which are among the counters, too. */
static void write_fec(struct json *j, const struct link_config *c, const struct link_snapshot *snap)
{
	const uint64_t *n = snap->counters.ctr;
	char mode[16];

	config_fec_name(&c->fec, mode, sizeof(mode));
	json_object(j, "fec");
	json_string(j, "mode", mode);
	json_uint(j, "rebuilt", n[CTR_FEC_REBUILT]);
	json_uint(j, "mean_delay_ns", n[CTR_FEC_REBUILT] ? 1000 * n[CTR_FEC_DELAY_US] / n[CTR_FEC_REBUILT] : 0);
	json_uint(j, "beyond_repair", n[CTR_FEC_BEYOND]);
	json_uint(j, "spared", n[CTR_FEC_RETRANSMITS_SAVED]);
	json_uint(j, "sent_again", n[CTR_FEC_SENT_AGAIN]);
	json_real(j, "overhead", n[CTR_WAN_TX_DGRAMS] ? (double)n[CTR_FEC_TX] / (double)n[CTR_WAN_TX_DGRAMS] : 0);
	json_array(j, "paths");
	for (uint32_t i = 0; i < snap->status.npaths; i++) {
		const struct proxy_fec_status *s = &snap->status.fec[i];

		json_object(j, NULL);
		json_uint(j, "k", s->plan.k);
		json_uint(j, "m", s->plan.m);
		json_uint(j, "depth", s->plan.depth);
		json_real(j, "loss", s->loss);
		json_real(j, "burst", s->burst);
		json_real(j, "load", s->load);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void write_latencies(struct json *j, const struct latencies *l)
{
	json_object(j, "latency");
	json_array(j, "bounds_ns");
	for (unsigned i = 0; i < LATENCY_BOUND_COUNT; i++)
		json_uint(j, NULL, latency_bounds_ns[i]);
	json_array_end(j);
	for (unsigned s = 0; s < LATENCY_COUNT; s++) {
		const struct latency_histogram *h = &l->of[s];
		uint64_t n = latency_count(h);

		json_object(j, latency_name((enum latency)s));
		json_uint(j, "samples", n);
		json_uint(j, "mean_ns", n > 0 ? h->sum_ns / n : 0);
		json_array(j, "histogram");
		for (unsigned i = 0; i <= LATENCY_BOUND_COUNT; i++)
			json_uint(j, NULL, h->n[i]);
		json_array_end(j);
		json_object_end(j);
	}
	json_object_end(j);
}

static void write_worker_cost(struct json *j, uint32_t worker, int32_t cpu, const struct stage_costs *c)
{
	enum stage of;

	json_object(j, NULL);
	json_uint(j, "worker", worker);
	if (cpu >= 0)
		json_uint(j, "cpu", (uint64_t)cpu);
	json_uint(j, "running_ns", c->running_ns);
	json_uint(j, "busy_ns", (uint64_t)stage_ns(c, c->busy_ticks));
	json_uint(j, "turns", c->turns);
	json_uint(j, "busy_turns", c->busy_turns);
	json_uint(j, "sampled_turns", c->sampled_turns);
	json_uint(j, "sampled_ns", (uint64_t)stage_ns(c, c->sampled_ticks));
	json_real(j, "ticks_per_ns", c->running_ns ? (double)c->running_ticks / (double)c->running_ns : 0);
	json_array(j, "stages");
	for (unsigned s = 0; s < STAGE_COUNT; s++) {
		json_object(j, NULL);
		json_string(j, "stage", stage_name((enum stage)s));
		json_uint(j, "ns", (uint64_t)stage_ns(c, c->ticks[s]));
		if (stage_has_packets((enum stage)s, &of))
			json_uint(j, "packets", c->packets[of]);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void write_worker_costs(struct json *j, const struct link_config *c, const struct link_snapshot *snap)
{
	json_array(j, "worker_costs");
	for (uint32_t i = 0; i < snap->nworkers; i++)
		write_worker_cost(j, i, c->cpus[i], &snap->costs[i]);
	json_array_end(j);
}

static void write_flow_counts(struct json *j, const struct link_snapshot *snap)
{
	json_object(j, "flow_counts");
	json_uint(j, "near", snap->status.near_flows);
	json_uint(j, "far", snap->status.far_flows);
	json_uint(j, "max", snap->status.max_flows);
	json_uint(j, "learning", snap->status.flows_learning);
	json_uint(j, "rnr_back_pressure", snap->status.flows_rnr_back_pressure);
	json_uint(j, "stalled", snap->status.flows_stalled);
	json_uint(j, "rnr", snap->status.flows_rnr);
	json_uint(j, "pairs_end_to_end", snap->status.pairs_end_to_end);
	json_object_end(j);
}

static void write_counters(struct json *j, const struct site *site, const struct link_snapshot *snap)
{
	json_object(j, "counters");
	for (unsigned i = 0; i < CTR_COUNT; i++)
		json_uint(j, proxy_counter_name((enum proxy_counter)i), snap->counters.ctr[i]);
#define X(name, field, text) json_uint(j, #name, snap->field);
	LINK_COUNTERS(X)
#undef X
#define X(name, text) json_uint(j, #name, snap->relay.name);
	RELAY_COUNTERS(X)
#undef X
	json_object_end(j);
	json_object(j, "drops");
	for (unsigned i = DROP_NONE + 1; i < DROP_COUNT; i++)
		json_uint(j, proxy_drop_name((enum proxy_drop)i), snap->counters.drop[i]);
#define X(name, field, text) json_uint(j, #name, snap->field);
	LINK_DROPS(X)
#undef X
	json_object_end(j);
	json_object(j, "events");
	for (unsigned i = 0; i < EV_COUNT; i++)
		json_uint(j, proxy_event_name((enum proxy_event_type)i),
		          site_event_count(site, (enum proxy_event_type)i));
	json_object_end(j);
}

static void write_flows(struct json *j, const struct link_snapshot *snap)
{
	uint32_t n = snap->nflows < STATUS_FLOWS_MAX ? snap->nflows : STATUS_FLOWS_MAX;

	json_uint(j, "flows_left_out", snap->nflows - n);
	json_array(j, "flows");
	for (uint32_t i = 0; i < n; i++) {
		json_object(j, NULL);
		flow_status_write(j, &snap->flows[i]);
		json_object_end(j);
	}
	json_array_end(j);
}

static void write_distance(struct json *j, const struct distance *d)
{
	json_object(j, "distance");
	json_uint(j, "configured_m", d->configured_m);
	json_uint(j, "measured_m", distance_measured_m(d));
	json_uint(j, "in_force_m", distance_in_force_m(d));
	json_uint(j, "least_rtt_ns", d->least_ns);
	json_uint(j, "age_ns", distance_age_ns(d));
	json_bool(j, "stale", distance_stale(d));
	json_uint(j, "floor_ns", DISTANCE_FLOOR_NS);
	json_bool(j, "differs", distance_differs(d));
	json_uint(j, "steps", d->steps);
	json_object_end(j);
}

/* Writes one direction of the buffer at the distance in force: the size that it should have, and what the present size
 * means. */
static void write_deep_buffer(struct json *j, const struct site *s, const struct link_snapshot *snap)
{
	struct headroom_deep d;

	if (link_plan_deep(site_config(s), distance_in_force_rtt_ns(site_distance(s)),
	                   snap->status.pool_capacity[POOL_LAN], snap->status.near_flows, &d) < 0)
		return;
	json_object(j, "buffer_plan");
	json_uint(j, "bdp_bytes", d.bdp_bytes);
	json_uint(j, "wanted_bytes", d.wanted_bytes);
	json_uint(j, "capacity_bytes", d.capacity_bytes);
	json_uint(j, "size_wanted_bytes",
	          link_plan_arena_bytes(site_config(s), distance_in_force_rtt_ns(site_distance(s))));
	json_uint(j, "xoff_bytes", d.xoff_bytes);
	json_uint(j, "no_underrun_xon_bytes", d.no_underrun_xon_bytes);
	json_uint(j, "flow_share_bytes", d.flow_share_bytes);
	json_uint(j, "busy_qps_at_once", d.qps_at_once);
	json_uint(j, "busy_qps_in_turns", d.qps_in_turns);
	json_bool(j, "fills_the_line", d.fills_the_line);
	json_bool(j, "stands_loss", d.stands_loss);
	json_object_end(j);
}

static void write_path(struct json *j, const struct path_config *c, const struct proxy_path_status *s,
                       const struct proxy_fec_status *fec)
{
	json_object(j, NULL);
	json_string(j, "name", c->name);
	status_write_address(j, "local_address", &c->local);
	status_write_address(j, "remote_address", &c->remote);
	json_uint(j, "port", c->port);
	json_uint(j, "rate_bps", c->rate_bps);
	json_uint(j, "weight", c->weight);
	json_string(j, "state", path_state_name(s->state));
	json_bool(j, "in_use", s->usable);
	json_uint(j, "since_ns", s->since_ns);
	json_uint(j, "epoch", s->epoch_tx);
	json_uint(j, "mtu",
	          s->payload_max ? (uint64_t)s->payload_max + c->mtu - config_payload_max(&c->remote, c->mtu) : 0);
	json_bool(j, "mtu_search", s->searching);
	json_uint(j, "mtu_black_holes", s->black_holes);
	json_uint(j, "rtt_min_ns", s->rtt_min_ns);
	json_uint(j, "rtt_ns", s->rtt_smoothed_ns);
	json_uint(j, "rtt_p99_ns", s->rtt_p99_ns);
	json_uint(j, "rtt_age_ns", s->rtt_age_ns);
	json_bool(j, "rtt_stale", path_rtt_stale(s));
	json_uint(j, "loss_age_ns", s->loss_age_ns);
	json_bool(j, "loss_stale", path_loss_stale(s));
	json_uint(j, "loss_ppm", s->loss_ppm);
	json_real(j, "line_loss", fec->loss);
	if (fec->burst_known)
		json_real(j, "line_loss_burst", fec->burst);
	json_uint(j, "loss_bursts", s->loss_runs);
	json_uint(j, "loss_burst_longest", s->loss_run_longest);
	json_string(j, "ecn", ecn_state_name(s->ecn));
	json_uint(j, "reorder_window_ns", s->reorder_window_ns);
	json_uint(j, "delivery_bps", s->delivery_bps);
	json_string(j, "rate_control", rate_ops_of(c->rate_control)->name);
	json_string(j, "rate_state", s->control_state ? s->control_state : "");
	json_uint(j, "pace_bps", s->pace_bps);
	if (s->in_flight_max_bytes < UINT64_MAX)
		json_uint(j, "in_flight_max_bytes", s->in_flight_max_bytes);
	json_uint(j, "in_flight_bytes", s->in_flight_bytes);
#define X(member, op, json, metric, help) json_uint(j, json, s->stats.member);
	PATH_COUNTERS(X)
#undef X
	json_object_end(j);
}

static void write_paths(struct json *j, const struct link_config *c, const struct link_snapshot *snap)
{
	json_array(j, "paths");
	for (uint32_t i = 0; i < c->npaths && i < snap->npaths; i++)
		write_path(j, &c->paths[i], &snap->paths[i], &snap->status.fec[i]);
	json_array_end(j);
}

static void write_snapshot(struct json *j, const struct site *s, const struct link_snapshot *snap,
                           enum status_detail detail)
{
	json_uint(j, "taken_ns", snap->taken_ns);
	json_uint(j, "rtt_ns", snap->status.rtt_smoothed_ns);
	json_uint(j, "rtt_min_ns", snap->status.rtt_min_ns);
	json_uint(j, "wan_in_flight_bytes", snap->status.wan_in_flight_bytes);
	write_pools(j, &snap->status);
	write_latencies(j, &snap->latency);
	write_worker_costs(j, site_config(s), snap);
	write_flow_counts(j, snap);
	write_barrier(j, &snap->status);
	write_fec(j, site_config(s), snap);
	json_uint(j, "relay_rdma_clients", snap->relay.rdma_clients);
	json_uint(j, "relay_unclosed_descriptors", snap->relay.unclosed);
	json_string(j, "relay_silent_file", snap->relay.silent_file);
	write_counters(j, s, snap);
	if (detail == STATUS_FLOWS)
		write_flows(j, snap);
	if (detail == STATUS_VIEWS)
		flow_status_write_views(j, &snap->views, snap->taken_ns);
}

/* Greatest of the seconds that are kept. */
static void write_burst_most(struct json *j, const struct burst_series *s, unsigned priority)
{
	char key[48];

	for (unsigned b = 0; b < BURST_BIN_COUNT; b++) {
		const struct burst_sum *most = burst_sum_most(s, priority, (enum burst_bin)b);

		snprintf(key, sizeof(key), "most_%s_bps", burst_bin_name((enum burst_bin)b));
		json_uint(j, key, most ? burst_bps(most->most_bytes[b], (enum burst_bin)b) : 0);
		snprintf(key, sizeof(key), "most_%s_time_ns", burst_bin_name((enum burst_bin)b));
		json_uint(j, key, most ? most->most_ns[b] : 0);
	}
}

static void write_burst_second(struct json *j, const struct burst_second *sec)
{
	const struct burst_sum *s = &sec->sum[BURST_ALL];
	char key[48];

	json_object(j, NULL);
	json_uint(j, "unix_s", sec->unix_s);
	json_uint(j, "bytes", s->bytes);
	for (unsigned b = 0; b < BURST_BIN_COUNT; b++) {
		snprintf(key, sizeof(key), "most_%s_bps", burst_bin_name((enum burst_bin)b));
		json_uint(j, key, burst_bps(s->most_bytes[b], (enum burst_bin)b));
		snprintf(key, sizeof(key), "most_%s_time_ns", burst_bin_name((enum burst_bin)b));
		json_uint(j, key, s->most_ns[b]);
	}
	json_object_end(j);
}

/* Bare numbers: one for each second of the history. */
static void write_priority(struct json *j, const struct burst_series *s, unsigned priority)
{
	const struct burst_second *sec;
	char key[48];

	json_object(j, NULL);
	json_uint(j, "priority", priority);
	json_uint(j, "bytes", s->bytes[priority]);
	write_burst_most(j, s, priority);
	for (unsigned b = 0; b < BURST_BIN_COUNT; b++) {
		snprintf(key, sizeof(key), "history_%s_bps", burst_bin_name((enum burst_bin)b));
		json_array(j, key);
		for (uint32_t i = 0; (sec = burst_second_at(s, i)) != NULL; i++)
			json_uint(j, NULL, burst_bps(sec->sum[priority].most_bytes[b], (enum burst_bin)b));
		json_array_end(j);
	}
	json_object_end(j);
}

static void write_burst_series(struct json *j, const char *port, const struct burst_series *s)
{
	const struct burst_second *sec;
	char key[48];

	json_object(j, NULL);
	json_string(j, "port", port);
	json_uint(j, "bytes", s->bytes[BURST_ALL]);
	write_burst_most(j, s, BURST_ALL);
	for (unsigned b = 0; b < BURST_BIN_COUNT; b++) {
		snprintf(key, sizeof(key), "histogram_%s", burst_bin_name((enum burst_bin)b));
		json_array(j, key);
		for (unsigned i = 0; i <= BURST_BOUND_COUNT; i++)
			json_uint(j, NULL, s->histogram[b][i]);
		json_array_end(j);
	}
	json_array(j, "history");
	for (uint32_t i = 0; (sec = burst_second_at(s, i)) != NULL; i++)
		write_burst_second(j, sec);
	json_array_end(j);
	json_array(j, "priorities");
	for (unsigned p = 0; p < BURST_PRIORITIES; p++)
		if (s->bytes[p] != 0)
			write_priority(j, s, p);
	json_array_end(j);
	json_object_end(j);
}

static void write_bursts(struct json *j, const struct link_config *c, const struct bursts *b)
{
	json_object(j, "bursts");
	json_uint(j, "missed", b->missed);
	json_array(j, "bounds_bps");
	for (unsigned i = 0; i < BURST_BOUND_COUNT; i++)
		json_uint(j, NULL, burst_bounds_bps[i]);
	json_array_end(j);
	json_array(j, "ports");
	for (uint32_t i = 0; i <= b->nports; i++)
		write_burst_series(j, i < b->nports ? c->lan_ports[i] : "", &b->port[i]);
	json_array_end(j);
	json_object_end(j);
}

static void write_failed_flow(struct json *j, const struct failed_flow *f)
{
	json_object(j, NULL);
	json_uint(j, "time_ns", f->wall_ns);
	json_string(j, "link", f->link);
	json_string(j, "side", f->side == FLOW_NEAR ? "near" : "far");
	status_write_address(j, "src", &f->src);
	status_write_address(j, "dst", &f->dst);
	json_uint(j, "dest_qpn", f->dest_qpn);
	json_uint(j, "requester_qpn", f->requester_qpn);
	json_uint(j, "position", f->pos);
	json_uint(j, "bytes", f->bytes);
	json_string(j, "reason", proxy_failure_name((enum proxy_failure)f->failure));
	json_string(j, "text", proxy_failure_text((enum proxy_failure)f->failure));
	json_uint(j, "syndrome", f->syndrome);
	json_object_end(j);
}

void status_write_failed(struct json *j, const struct failed_record *r, const char *link)
{
	uint32_t n = failed_record_count(r);
	uint64_t lost = failed_record_total(r) - n;

	json_array(j, "failed");
	for (uint32_t i = 0; i < n; i++) {
		const struct failed_flow *f = failed_record_at(r, i);

		if (f == NULL)
			lost++;
		else if (link == NULL || strcmp(link, f->link) == 0)
			write_failed_flow(j, f);
	}
	json_array_end(j);
	json_uint(j, "total", failed_record_total(r));
	json_uint(j, "lost", lost);
	json_uint(j, "waiting", failed_record_waiting(r));
	json_uint(j, "unwritten", failed_record_unwritten(r));
}

void status_write_files(struct json *j, const struct sites *s)
{
	json_string(j, "refused", s->refused);
	json_bool(j, "all_roce_closed", sites_all_closed());
	json_string(j, "metrics_error", s->unserved);
}

void status_write_strays(struct json *j, const struct arena_stray *list, uint32_t n, const char *link)
{
	char text[STRAY_TEXT_MAX];

	json_array(j, "stray_buffers");
	for (uint32_t i = 0; i < n; i++) {
		const struct arena_stray *s = &list[i];

		if (link != NULL && strcmp(link, s->link) != 0)
			continue;
		json_object(j, NULL);
		json_string(j, "kind", stray_kind_name(s->kind));
		json_string(j, "path", s->path);
		json_string(j, "link", s->link);
		json_uint(j, "bytes", s->bytes);
		json_string(j, "text", stray_text(s, text));
		json_object_end(j);
	}
	json_array_end(j);
}

void status_write(struct json *j, const struct site *s, const struct link_snapshot *snap, enum status_detail detail)
{
	static const char peer_stopped_error[] = "an operator has stopped the link at the other edge: RoCE between its "
	                                         "prefixes stays closed until `longreach start` there";
	enum site_state state = site_state_now(s, snap);
	struct peer_status peer;

	site_peer_status(s, &peer);
	json_object(j, NULL);
	json_string(j, "name", site_config(s)->name);
	json_string(j, "config", site_config(s)->path);
	json_string(j, "state", site_state_name(state));
	json_string(j, "error", state == SITE_PEER_STOPPED ? peer_stopped_error : site_error(s));
	json_string(j, "restart_needed", site_waits(s));
	json_uint(j, "workers_not_reconfigured", site_link(s) != NULL ? link_untold(site_link(s)) : 0);
	json_bool(j, "early_acks_held", site_link(s) != NULL && link_holds_promises(site_link(s)));
	write_config(j, site_config(s));
	write_peer(j, &peer);
	write_clock(j, &peer);
	write_certificates(j, &peer.expiry);
	write_rates(j, s);
	json_uint(j, "measured_distance_m", distance_measured_m(site_distance(s)));
	write_distance(j, site_distance(s));
	if (snap != NULL) {
		write_deep_buffer(j, s, snap);
		write_paths(j, site_config(s), snap);
		if (site_link(s) != NULL)
			write_bursts(j, site_config(s), link_bursts(site_link(s)));
		write_snapshot(j, s, snap, detail);
	}
	json_object_end(j);
}
