/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - counters, drops and events out of the same lists as status; what else there is, out of GAUGES
 * and PATH_FAMILIES.
 *
 * All samples of a family stand together, so the loops are turned inside out: family by family, and in each link by
 * link. A link that does not run has a state and nothing else. */
#include "metrics.h"

#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>

#include "link_counters.h"
#include "daemon/config/link_plan.h"
#include "daemon/link/bursts.h"
#include "daemon/link/path_counters.h"
#include "daemon/util/version.h"
#include "headroom/headroom.h"

/* A link as the lists below see it. */
struct view {
	const struct site *site;
	const struct link_snapshot *snap; /* NULL: not running */
	const struct link_config *config;
	const struct distance *distance;
	const struct bursts *bursts; /* NULL: not running */
	uint64_t bursts_missed;
	struct peer_status peer;
	struct headroom_deep deep; /* zeros if it cannot be worked out */
};

#define SECONDS(ns) ((double)(ns) / 1e9)

/* X(identifier, family, what it is, further label with its value or "", expression of `v`). Rows of a family stand
 * together; the first one's text counts. */
#define GAUGES(X)                                                                                                      \
	X(RTT, "rtt_seconds",                                                                                          \
	  "Round trip to the other edge, smoothed; 0: not measured. Twice its least: a queue stands on the line.", "", \
	  SECONDS(v->snap->status.rtt_smoothed_ns))                                                                    \
	X(RTT_LEAST, "rtt_least_seconds", "Least round trip of the last seconds: what distances are made of.", "",     \
	  SECONDS(v->distance->least_ns))                                                                              \
	X(DISTANCE, "distance_measured_meters", "Fibre that makes the least round trip: an upper bound.", "",          \
	  distance_measured_m(v->distance))                                                                            \
	X(DISTANCE_AGE, "distance_age_seconds", "Time since the distance was last measured.", "",                      \
	  SECONDS(distance_age_ns(v->distance)))                                                                       \
	X(DISTANCE_STALE, "distance_stale", "1: not measured for three seconds; it tells of a way that was.", "",      \
	  distance_stale(v->distance))                                                                                 \
	X(DISTANCE_FILE, "distance_configured_meters", "Distance= of the link file; 0: auto.", "",                     \
	  v->distance->configured_m)                                                                                   \
	X(DISTANCE_RULES, "distance_in_force_meters", "What buffers are worked out for: the larger one.", "",          \
	  distance_in_force_m(v->distance))                                                                            \
	X(DISTANCE_DIFFERS, "distance_differs",                                                                        \
	  "1: measurement and link file differ by more than 5 percent: correct Distance=, or ask for the route.", "",  \
	  distance_differs(v->distance))                                                                               \
	X(LAN_POOL, "buffer_used_bytes", "Buffer in use, by direction.", ",pool=\"from_lan\"",                         \
	  v->snap->status.pool_used[POOL_LAN])                                                                         \
	X(WAN_POOL, "buffer_used_bytes", "", ",pool=\"from_wan\"", v->snap->status.pool_used[POOL_WAN])                \
	X(LAN_ROOM, "buffer_capacity_bytes", "Buffer that there is, by direction.", ",pool=\"from_lan\"",              \
	  v->snap->status.pool_capacity[POOL_LAN])                                                                     \
	X(WAN_ROOM, "buffer_capacity_bytes", "", ",pool=\"from_wan\"", v->snap->status.pool_capacity[POOL_WAN])        \
	X(WANTED, "buffer_wanted_bytes",                                                                               \
	  "Buffer that the distance in force wants for one direction. More than the capacity: raise Size=.", "",       \
	  v->deep.wanted_bytes)                                                                                        \
	X(XOFF, "buffer_xoff_bytes",                                                                                   \
	  "Fill at which a flow that is alone is held off by RNR NAKs: near it, hosts are slowed down.", "",           \
	  v->deep.xoff_bytes)                                                                                          \
	X(UNDERRUN, "buffer_no_underrun_xon_bytes",                                                                    \
	  "Fill below which the line runs dry before a host is back: capacity below it costs speed.", "",              \
	  v->deep.no_underrun_xon_bytes)                                                                               \
	X(BDP, "bandwidth_delay_product_bytes", "Rate= times the round trip in force.", "", v->deep.bdp_bytes)         \
	X(RATE, "rate_bits_per_second", "Rate= of the link file.", "", config_rate_bps(v->config))                     \
	X(IN_FLIGHT, "wan_in_flight_bytes", "Sent to the other edge and not reported yet.", "",                        \
	  v->snap->status.wan_in_flight_bytes)                                                                         \
	X(NEAR, "flows", "Directions of RC connections, by role of this edge.", ",role=\"near\"",                      \
	  v->snap->status.near_flows)                                                                                  \
	X(FAR, "flows", "", ",role=\"far\"", v->snap->status.far_flows)                                                \
	X(FLOWS_MAX, "flows_max", "Most flows of either role (MaxFlows=). Beyond it there are no early ACKs.", "",     \
	  v->snap->status.max_flows)                                                                                   \
	X(PAIRS_END_TO_END, "pairs_end_to_end",                                                                        \
	  "Pairs of hosts with queue pairs beyond MaxFlows=, carried without early ACKs.", "",                         \
	  v->snap->status.pairs_end_to_end)                                                                            \
	X(LEARNING, "flows_in_state",                                                                                  \
	  "Flows that are not simply going on: rnr_back_pressure for long wants buffer, stalled or rnr name a slow "   \
	  "host.",                                                                                                     \
	  ",state=\"learning\"", v->snap->status.flows_learning)                                                       \
	X(RNR_BACK_PRESSURE, "flows_in_state", "", ",state=\"rnr_back_pressure\"",                                     \
	  v->snap->status.flows_rnr_back_pressure)                                                                     \
	X(STALLED, "flows_in_state", "", ",state=\"stalled\"", v->snap->status.flows_stalled)                          \
	X(RNR, "flows_in_state", "", ",state=\"rnr\"", v->snap->status.flows_rnr)                                      \
	X(BARRIER_WAITS, "barrier_waiting_packets",                                                                    \
	  "Packets for hosts here that wait for RC bytes. For long: a responder does not take them.", "",              \
	  v->snap->status.barrier_waiting)                                                                             \
	X(IP_USED, "ip_used_bytes", "Memory for IP packets that are not RoCEv2, in use.", "",                          \
	  v->snap->status.ip_used_bytes)                                                                               \
	X(IP_ROOM, "ip_capacity_bytes", "Memory for IP packets that are not RoCEv2.", "",                              \
	  v->snap->status.ip_capacity_bytes)                                                                           \
	X(CERTIFICATE, "certificate_expires_timestamp_seconds",                                                        \
	  "When this edge's certificate and its CA's expire; 0: a pre-shared key, or none.", ",certificate=\"edge\"",  \
	  v->peer.expiry.certificate_s)                                                                                \
	X(CA, "certificate_expires_timestamp_seconds", "", ",certificate=\"ca\"", v->peer.expiry.ca_s)                 \
	X(CONTROL, "control_connected",                                                                                \
	  "1: the control channel to the other edge is up. 0 for minutes: no new session can begin.", "",              \
	  v->peer.connected)

#define X(id, family, help, label, value) GAUGE_##id,
enum gauge { GAUGES(X) GAUGE_COUNT };
#undef X

static double gauge(enum gauge g, const struct view *v)
{
	switch (g) {
#define X(id, family, help, label, value)                                                                              \
	case GAUGE_##id:                                                                                               \
		return (double)(value);
		GAUGES(X)
#undef X
	default:
		return 0;
	}
}

static const struct {
	const char *family, *help, *label;
} gauges[] = {
#define X(id, family, help, label, value) {family, help, label},
    GAUGES(X)
#undef X
};

/* --- paths --- */

/* X(identifier, family, suffix, type, what it is, expression of `s`, the path, and `fec`, its FEC) */
#define PATH_FAMILIES(X)                                                                                               \
	X(UP, "path_up", "", "gauge", "1: the path answers. 0: its traffic takes the others, or waits.", s->state == PATH_UP)                                     \
	X(USABLE, "path_in_use", "", "gauge", "1: packets may take the path.", s->usable)                              \
	X(RTT, "path_rtt_seconds", "", "gauge", "Round trip, smoothed; 0: not measured.", SECONDS(s->rtt_smoothed_ns)) \
	X(RTT_AGE, "path_rtt_age_seconds", "", "gauge", "Time since the last measurement of the round trip.",          \
	  SECONDS(s->rtt_age_ns))                                                                                      \
	X(LOSS_AGE, "path_loss_age_seconds", "", "gauge",                                                              \
	  "Time since the other edge last said what had come: of loss and delivery.", SECONDS(s->loss_age_ns))         \
	X(STALE, "path_stale", "", "gauge",                                                                            \
	  "1: no round trip, or nothing of what came, was measured for three seconds; these tell of a path that was.", \
	  path_rtt_stale(s) || path_loss_stale(s))                                                                     \
	X(RTT_LEAST, "path_rtt_least_seconds", "", "gauge", "Least round trip.", SECONDS(s->rtt_min_ns))               \
	X(RTT_P99, "path_rtt_p99_seconds", "", "gauge", "What 99 of 100 round trips stay below.",                      \
	  SECONDS(s->rtt_p99_ns))                                                                                      \
	X(EPOCH, "path_epoch", "", "gauge", "Of the session; 0: there is none.", s->epoch_tx)                          \
	X(LOSS, "path_loss_ratio", "", "gauge", "Share of the datagrams that were lost of late. Above 0.01, ask the carrier, or set FEC=.",                      \
	  (double)s->loss_ppm / 1e6)                                                                                   \
	X(LINE_LOSS, "path_line_loss_ratio", "", "gauge",                                                              \
	  "Share of the datagrams that did not come by themselves, says the other edge; FEC made up for some.",        \
	  fec->loss)                                                                                                   \
	X(LINE_BURST, "path_line_loss_burst_datagrams", "", "gauge", "Mean length of bursts of these; 0: not known.",  \
	  fec->burst_known ? fec->burst : 0)                                                                           \
	X(BURST_LONGEST, "path_loss_burst_longest_datagrams", "", "gauge",                                             \
	  "Most datagrams in a row that were found lost.", s->loss_run_longest)                                        \
	X(FEC_GROUP, "path_fec_group_datagrams", "", "gauge", "K of the K+M in force; 0: none.", fec->plan.k)          \
	X(FEC_REPAIRS, "path_fec_group_repairs", "", "gauge", "M of the K+M in force.", fec->plan.k ? fec->plan.m : 0) \
	X(DELIVERY, "path_delivery_bits_per_second", "", "gauge", "UDP payload that the other edge said to have.",     \
	  s->delivery_bps)                                                                                             \
	X(IN_FLIGHT, "path_in_flight_bytes", "", "gauge", "Sent and not reported yet.", s->in_flight_bytes)            \
	X(BURSTS, "path_loss_bursts", "_total", "counter", PATH_LOSS_BURSTS_TEXT, s->loss_runs)

/* The same of each PATH_COUNTERS, where X is defined. */
#define PATH_SUFFIX_SUM  "_total"
#define PATH_SUFFIX_MOST ""
#define PATH_TYPE_SUM    "counter"
#define PATH_TYPE_MOST   "gauge"
#define PATH_COUNTER(member, op, json, metric, help)                                                                   \
	X(member, metric, PATH_SUFFIX_##op, PATH_TYPE_##op, help, s->stats.member)

#define X(id, family, suffix, type, help, value) PATH_FAMILY_##id,
enum path_family { PATH_FAMILIES(X) PATH_COUNTERS(PATH_COUNTER) PATH_FAMILY_COUNT };
#undef X

static const struct {
	const char *family, *suffix, *type, *help;
} path_families[] = {
#define X(id, family, suffix, type, help, value) {family, suffix, type, help},
    PATH_FAMILIES(X) PATH_COUNTERS(PATH_COUNTER)
#undef X
};

static double path_value(enum path_family f, const struct proxy_path_status *s, const struct proxy_fec_status *fec)
{
	switch (f) {
#define X(id, family, suffix, type, help, value)                                                                       \
	case PATH_FAMILY_##id:                                                                                         \
		return (double)(value);
		PATH_FAMILIES(X)
		PATH_COUNTERS(PATH_COUNTER)
#undef X
	default:
		return 0;
	}
}

/* --- the format --- */

/* HELP and TYPE of the family longreach_FAMILYSUFFIX. */
static void put_head(struct evbuffer *out, const char *family, const char *suffix, const char *type, const char *help)
{
	evbuffer_add_printf(out, "# HELP longreach_%s%s %s\n# TYPE longreach_%s%s %s\n", family, suffix, help, family,
	                    suffix, type);
}

/* A label's value in its quotes: what a link file or the other edge chose. */
static void put_quoted(struct evbuffer *out, const char *text)
{
	evbuffer_add(out, "\"", 1);
	for (; *text != '\0'; text++)
		if (*text == '"' || *text == '\\')
			evbuffer_add_printf(out, "\\%c", *text);
		else
			evbuffer_add_printf(out, "%c", *text < ' ' || *text > '~' ? '?' : *text);
	evbuffer_add(out, "\"", 1);
}

/* longreach_FAMILY{link="NAME" and no closing brace */
static void begin_sample(struct evbuffer *out, const char *family, const char *suffix, const struct view *v)
{
	evbuffer_add_printf(out, "longreach_%s%s{link=", family, suffix);
	put_quoted(out, v->config->name);
}

static void put_counter(struct evbuffer *out, const char *family, const struct view *v, const char *label,
                        const char *label_value, uint64_t value)
{
	begin_sample(out, family, "_total", v);
	if (label != NULL)
		evbuffer_add_printf(out, ",%s=\"%s\"", label, label_value);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", value);
}

/* --- families --- */

static void put_info(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_head(out, "build_info", "", "gauge", "The daemon's version.");
	evbuffer_add_printf(out, "longreach_build_info{version=\"%s\"} 1\n", LONGREACH_VERSION);
	put_head(out, "link_info", "", "gauge",
	             "What a link is: its mode, and the name that the other edge has for it.");
	for (uint32_t i = 0; i < n; i++) {
		const struct view *v = &views[i];

		begin_sample(out, "link_info", "", v);
		evbuffer_add_printf(out, ",ack_mode=\"%s\",barrier=\"%s\",encryption=\"%s\",edge=",
		                    ack_mode_name(v->config->ack_mode), barrier_mode_name(config_barrier(v->config)),
		                    seal_cipher_name(v->config->encryption));
		put_quoted(out, v->peer.met ? v->peer.there.name : "");
		evbuffer_add_printf(out, "} 1\n");
	}
}

static void put_states(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_head(out, "link_state", "", "gauge", "1 for the state that the link is in.");
	for (uint32_t i = 0; i < n; i++) {
		const struct view *v = &views[i];
		enum site_state is = site_state_now(v->site, v->snap);

		for (unsigned s = 0; s < SITE_STATE_COUNT; s++) {
			begin_sample(out, "link_state", "", v);
			evbuffer_add_printf(out, ",state=\"%s\"} %d\n", site_state_name((enum site_state)s), s == is);
		}
	}
}

static void put_gauges(struct evbuffer *out, const struct view *views, uint32_t n)
{
	for (unsigned g = 0; g < GAUGE_COUNT; g++) {
		if (g == 0 || strcmp(gauges[g].family, gauges[g - 1].family) != 0)
			put_head(out, gauges[g].family, "", "gauge", gauges[g].help);
		for (uint32_t i = 0; i < n; i++) {
			if (views[i].snap == NULL)
				continue;
			begin_sample(out, gauges[g].family, "", &views[i]);
			evbuffer_add_printf(out, "%s} %.15g\n", gauges[g].label, gauge((enum gauge)g, &views[i]));
		}
	}
}

static void put_counters(struct evbuffer *out, const struct view *views, uint32_t n)
{
	for (unsigned c = 0; c < CTR_COUNT; c++) {
		const char *name = proxy_counter_name((enum proxy_counter)c);

		put_head(out, name, "_total", "counter", proxy_counter_text((enum proxy_counter)c));
		for (uint32_t i = 0; i < n; i++)
			if (views[i].snap != NULL)
				put_counter(out, name, &views[i], NULL, NULL, views[i].snap->counters.ctr[c]);
	}
#define X(name, field, text)                                                                                           \
	put_head(out, #name, "_total", "counter", text);                                                           \
	for (uint32_t i = 0; i < n; i++)                                                                               \
		if (views[i].snap != NULL)                                                                             \
			put_counter(out, #name, &views[i], NULL, NULL, views[i].snap->field);
	LINK_COUNTERS(X)
#undef X
}

static void put_drops(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_head(out, "drops", "_total", "counter", "Packets and frames that went no further, by reason.");
	for (uint32_t i = 0; i < n; i++) {
		const struct view *v = &views[i];

		if (v->snap == NULL)
			continue;
		for (unsigned d = DROP_NONE + 1; d < DROP_COUNT; d++)
			put_counter(out, "drops", v, "reason", proxy_drop_name((enum proxy_drop)d),
			            v->snap->counters.drop[d]);
#define X(name, field, text) put_counter(out, "drops", v, "reason", #name, v->snap->field);
		LINK_DROPS(X)
#undef X
	}
}

static void put_path_sample(struct evbuffer *out, enum path_family f, const struct link_config *c, uint32_t path,
                       const struct link_snapshot *snap)
{
	double value = path_value(f, &snap->paths[path], &snap->status.fec[path]);

	evbuffer_add_printf(out, "longreach_%s%s{link=", path_families[f].family, path_families[f].suffix);
	put_quoted(out, c->name);
	evbuffer_add_printf(out, ",path=");
	put_quoted(out, c->paths[path].name);
	if (path_families[f].suffix[0] != '\0') /* counters are whole; a double holds 2^53 of them */
		evbuffer_add_printf(out, "} %" PRIu64 "\n", (uint64_t)value);
	else
		evbuffer_add_printf(out, "} %.15g\n", value);
}

static void put_paths(struct evbuffer *out, const struct gathered *links, uint32_t n)
{
	for (unsigned f = 0; f < PATH_FAMILY_COUNT; f++) {
		put_head(out, path_families[f].family, path_families[f].suffix, path_families[f].type, path_families[f].help);
		for (uint32_t i = 0; i < n; i++) {
			const struct link_config *c = site_config(links[i].site);

			for (uint32_t p = 0; links[i].snap != NULL && p < c->npaths && p < links[i].snap->npaths; p++)
				put_path_sample(out, (enum path_family)f, c, p, links[i].snap);
		}
	}
}

/* --- bursts --- */

/* longreach_FAMILYSUFFIX{link="NAME",port="PORT",bin="BIN" and no closing brace; port "" is the whole link */
static void begin_burst(struct evbuffer *out, const char *family, const char *suffix, const struct view *v,
                        uint32_t port, unsigned bin)
{
	begin_sample(out, family, suffix, v);
	evbuffer_add_printf(out, ",port=");
	put_quoted(out, port < v->bursts->nports ? v->config->lan_ports[port] : "");
	evbuffer_add_printf(out, ",bin=\"%s\"", burst_bin_name((enum burst_bin)bin));
}

static void put_burst_histogram(struct evbuffer *out, const struct view *v, uint32_t port, unsigned bin)
{
	const struct burst_series *s = &v->bursts->port[port];
	uint64_t n = 0;

	for (unsigned i = 0; i < BURST_BOUND_COUNT; i++) {
		n += s->histogram[bin][i];
		begin_burst(out, "ingress_bits_per_second", "_bucket", v, port, bin);
		evbuffer_add_printf(out, ",le=\"%" PRIu64 "\"} %" PRIu64 "\n", burst_bounds_bps[i], n);
	}
	n += s->histogram[bin][BURST_BOUND_COUNT];
	begin_burst(out, "ingress_bits_per_second", "_bucket", v, port, bin);
	evbuffer_add_printf(out, ",le=\"+Inf\"} %" PRIu64 "\n", n);
	begin_burst(out, "ingress_bits_per_second", "_sum", v, port, bin);
	evbuffer_add_printf(out, "} %.15g\n", (double)s->bytes * (double)burst_bps(1, (enum burst_bin)bin));
	begin_burst(out, "ingress_bits_per_second", "_count", v, port, bin);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", n);
}

static void put_burst_most(struct evbuffer *out, const struct view *v, uint32_t port, unsigned bin)
{
	const struct burst_second *most = burst_second_most(&v->bursts->port[port], (enum burst_bin)bin);

	begin_burst(out, "ingress_most_bits_per_second", "", v, port, bin);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", most ? burst_bps(most->most_bytes[bin], (enum burst_bin)bin) : 0);
}

static void each_burst(struct evbuffer *out, const struct view *views, uint32_t n,
                       void (*put)(struct evbuffer *out, const struct view *v, uint32_t port, unsigned bin))
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t port = 0; views[i].bursts != NULL && port <= views[i].bursts->nports; port++)
			for (unsigned bin = 0; bin < BURST_BIN_COUNT; bin++)
				put(out, &views[i], port, bin);
}

static void put_bursts(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_head(out, "ingress_bits_per_second", "", "histogram",
	         "RoCEv2 from hosts in bins of 100 us and 1 ms, as a rate; port=\"\": all ports of the link; le=\"0\": "
	         "bins without a frame.");
	each_burst(out, views, n, put_burst_histogram);
	put_head(out, "ingress_most_bits_per_second", "", "gauge",
	         "Greatest bin of the last 60 s. Near the port's rate while the mean is low: hosts send in bursts.");
	each_burst(out, views, n, put_burst_most);
}

static void put_events(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_head(out, "events", "_total", "counter", "What the log tells, also where it was kept short.");
	for (uint32_t i = 0; i < n; i++)
		for (unsigned e = 0; e < EV_COUNT; e++)
			put_counter(out, "events", &views[i], "event", proxy_event_name((enum proxy_event_type)e),
			            site_event_count(views[i].site, (enum proxy_event_type)e));
#define X(name, field, text)                                                                                           \
	put_head(out, #name, "_total", "counter", text);                                                               \
	for (uint32_t i = 0; i < n; i++)                                                                               \
		put_counter(out, #name, &views[i], NULL, NULL, views[i].field);
	SITE_COUNTERS(X)
#undef X
}

static void look_at(struct view *v, const struct gathered *g)
{
	*v = (struct view){.site = g->site,
	                   .snap = g->snap,
	                   .config = site_config(g->site),
	                   .distance = site_distance(g->site)};
	site_peer_status(g->site, &v->peer);
	if (g->snap != NULL && site_link(g->site) != NULL)
		v->bursts = link_bursts(site_link(g->site));
	if (v->bursts != NULL)
		v->bursts_missed = v->bursts->missed;
	if (g->snap != NULL)
		(void)link_plan_deep(v->config, distance_in_force_rtt_ns(v->distance),
		                     g->snap->status.pool_capacity[POOL_LAN], g->snap->status.near_flows, &v->deep);
}

void metrics_write_strays(struct evbuffer *out, const struct arena_stray *list, uint32_t n)
{
	uint32_t of_kind[2] = {0};

	for (uint32_t i = 0; i < n; i++)
		of_kind[list[i].kind == STRAY_SET_ASIDE]++;
	put_head(out, "stray_buffers", "", "gauge", "Buffers on this machine that no link will drain, by kind.");
	evbuffer_add_printf(out, "longreach_stray_buffers{kind=\"%s\"} %u\n", stray_kind_name(STRAY_UNCLAIMED),
	                    of_kind[0]);
	evbuffer_add_printf(out, "longreach_stray_buffers{kind=\"%s\"} %u\n", stray_kind_name(STRAY_SET_ASIDE),
	                    of_kind[1]);
}

void metrics_write(struct evbuffer *out, const struct gathered *links, uint32_t n)
{
	static struct view views[SITES_MAX]; /* of the main thread, the only one that comes here */

	for (uint32_t i = 0; i < n; i++)
		look_at(&views[i], &links[i]);
	put_info(out, views, n);
	put_states(out, views, n);
	put_gauges(out, views, n);
	put_counters(out, views, n);
	put_drops(out, views, n);
	put_paths(out, links, n);
	put_bursts(out, views, n);
	put_events(out, views, n);
}
