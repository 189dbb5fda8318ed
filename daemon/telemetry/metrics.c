/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - counters, drops and events from the same lists as status; all other metrics from GAUGES and
 * PATH_FAMILIES.
 *
 * All samples of a family stand together, so the loops are turned inside out: family by family, and in each link by
 * link. A link that does not run has a state and nothing else. */
#include "metrics.h"

#include <inttypes.h>
#include <string.h>

#include <event2/buffer.h>

#include "link_counters.h"
#include "metric_families.h"
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

#define X(id, family, suffix, type, help) OTHER_##id,
enum other_family { OTHER_FAMILIES(X) OTHER_FAMILY_COUNT };
#undef X

static void put_other_head(struct evbuffer *out, enum other_family f)
{
	static const struct {
		const char *family, *suffix, *type, *help;
	} others[] = {
#define X(id, family, suffix, type, help) {family, suffix, type, help},
	    OTHER_FAMILIES(X)
#undef X
	};

	put_head(out, others[f].family, others[f].suffix, others[f].type, others[f].help);
}

/* Writes a label's value in quotes: a link file or the other edge may have chosen it. */
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
	put_other_head(out, OTHER_BUILD);
	evbuffer_add_printf(out, "longreach_build_info{version=\"%s\"} 1\n", LONGREACH_VERSION);
	put_other_head(out, OTHER_LINK);
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
	put_other_head(out, OTHER_STATE);
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
#define X(name, text)                                                                                                  \
	put_head(out, #name, "_total", "counter", text);                                                           \
	for (uint32_t i = 0; i < n; i++)                                                                               \
		if (views[i].snap != NULL)                                                                             \
			put_counter(out, #name, &views[i], NULL, NULL, views[i].snap->relay.name);
	RELAY_COUNTERS(X)
#undef X
}

static void put_drops(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_other_head(out, OTHER_DROPS);
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
	evbuffer_add_printf(out, "} %.15g\n", (double)s->bytes[BURST_ALL] * (double)burst_bps(1, (enum burst_bin)bin));
	begin_burst(out, "ingress_bits_per_second", "_count", v, port, bin);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", n);
}

static void put_burst_most(struct evbuffer *out, const struct view *v, uint32_t port, unsigned bin)
{
	const struct burst_sum *most = burst_sum_most(&v->bursts->port[port], BURST_ALL, (enum burst_bin)bin);

	begin_burst(out, "ingress_most_bits_per_second", "", v, port, bin);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", most ? burst_bps(most->most_bytes[bin], (enum burst_bin)bin) : 0);
}

/* Writes only priorities that frames have had since the link started: on most links one or two. */
static void put_priority_most(struct evbuffer *out, const struct view *v, uint32_t port, unsigned bin)
{
	const struct burst_series *s = &v->bursts->port[port];

	for (unsigned p = 0; p < BURST_PRIORITIES; p++) {
		const struct burst_sum *most = burst_sum_most(s, p, (enum burst_bin)bin);

		if (s->bytes[p] == 0)
			continue;
		begin_burst(out, "ingress_priority_most_bits_per_second", "", v, port, bin);
		evbuffer_add_printf(out, ",priority=\"%u\"} %" PRIu64 "\n", p,
		                    most ? burst_bps(most->most_bytes[bin], (enum burst_bin)bin) : 0);
	}
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
	put_other_head(out, OTHER_INGRESS);
	each_burst(out, views, n, put_burst_histogram);
	put_other_head(out, OTHER_INGRESS_MOST);
	each_burst(out, views, n, put_burst_most);
	put_other_head(out, OTHER_INGRESS_PRIORITY);
	each_burst(out, views, n, put_priority_most);
}

/* longreach_latency_secondsSUFFIX{link="NAME",stage="STAGE" and no closing brace */
static void begin_latency(struct evbuffer *out, const char *suffix, const struct view *v, enum latency stage)
{
	begin_sample(out, "latency_seconds", suffix, v);
	evbuffer_add_printf(out, ",stage=\"%s\"", latency_name(stage));
}

static void put_latency(struct evbuffer *out, const struct view *v, enum latency stage)
{
	const struct latency_histogram *h = &v->snap->latency.of[stage];
	uint64_t n = 0;

	for (unsigned i = 0; i < LATENCY_BOUND_COUNT; i++) {
		n += h->n[i];
		begin_latency(out, "_bucket", v, stage);
		evbuffer_add_printf(out, ",le=\"%.15g\"} %" PRIu64 "\n", SECONDS(latency_bounds_ns[i]), n);
	}
	n += h->n[LATENCY_BOUND_COUNT];
	begin_latency(out, "_bucket", v, stage);
	evbuffer_add_printf(out, ",le=\"+Inf\"} %" PRIu64 "\n", n);
	begin_latency(out, "_sum", v, stage);
	evbuffer_add_printf(out, "} %.15g\n", SECONDS(h->sum_ns));
	begin_latency(out, "_count", v, stage);
	evbuffer_add_printf(out, "} %" PRIu64 "\n", n);
}

static void put_latencies(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_other_head(out, OTHER_LATENCY);
	for (uint32_t i = 0; i < n; i++)
		for (unsigned s = 0; views[i].snap != NULL && s < LATENCY_COUNT; s++)
			put_latency(out, &views[i], (enum latency)s);
}

static void put_workers(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_other_head(out, OTHER_WORKER_BUSY);
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t w = 0; views[i].snap != NULL && w < views[i].snap->nworkers; w++) {
			const struct stage_costs *c = &views[i].snap->costs[w];

			begin_sample(out, "worker_busy_seconds", "_total", &views[i]);
			evbuffer_add_printf(out, ",worker=\"%u\"} %.9f\n", w, SECONDS(stage_ns(c, c->busy_ticks)));
		}
}

static void put_events(struct evbuffer *out, const struct view *views, uint32_t n)
{
	put_other_head(out, OTHER_EVENTS);
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
	put_other_head(out, OTHER_STRAYS);
	evbuffer_add_printf(out, "longreach_stray_buffers{kind=\"%s\"} %u\n", stray_kind_name(STRAY_UNCLAIMED),
	                    of_kind[0]);
	evbuffer_add_printf(out, "longreach_stray_buffers{kind=\"%s\"} %u\n", stray_kind_name(STRAY_SET_ASIDE),
	                    of_kind[1]);
}

void metrics_write_process(struct evbuffer *out, const struct sites *s)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %.3f\n", PROCESS_START_FAMILY, PROCESS_START_TEXT,
	                    PROCESS_START_FAMILY, PROCESS_START_FAMILY, SECONDS(s->started_ns));
}

void metrics_write_files(struct evbuffer *out, const struct sites *s)
{
	put_other_head(out, OTHER_LINKS);
	evbuffer_add_printf(out, "longreach_links %u\n", s->n);
	put_other_head(out, OTHER_REFUSED);
	evbuffer_add_printf(out, "longreach_link_files_refused %d\n", s->refused[0] != '\0');
	put_other_head(out, OTHER_ALL_CLOSED);
	evbuffer_add_printf(out, "longreach_all_roce_closed %d\n", sites_all_closed());
}

void metrics_write(struct evbuffer *out, const struct gathered *links, uint32_t n)
{
	static struct view views[SITES_MAX]; /* only the main thread calls this */

	for (uint32_t i = 0; i < n; i++)
		look_at(&views[i], &links[i]);
	put_info(out, views, n);
	put_states(out, views, n);
	put_gauges(out, views, n);
	put_counters(out, views, n);
	put_drops(out, views, n);
	put_paths(out, links, n);
	put_bursts(out, views, n);
	put_latencies(out, views, n);
	put_workers(out, views, n);
	put_events(out, views, n);
}
