/* SPDX-License-Identifier: Apache-2.0 */
/* What a scrape says of links that this file makes up. The format as a whole is checked by
 * tests/netns/test_metrics.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/config/distance.c"
#include "daemon/lan/burst_ring.c"
#include "daemon/link/bursts.c"
#include "daemon/telemetry/metrics.c"
#include "daemon/worker/latency.c"
#define COUNTERS_PAGE_TEST
#include "etc/man/counters_page.c"

struct site {
	struct link_config config;
	struct distance distance;
	struct peer_status peer;
	bool runs;
	uint32_t untold;
};

const struct link_config *site_config(const struct site *s)
{
	return &s->config;
}

struct link *site_link(const struct site *s)
{
	return s->runs ? (struct link *)(uintptr_t)s : NULL;
}

static struct bursts bursts;

const struct bursts *link_bursts(const struct link *l)
{
	(void)l;
	return &bursts;
}

uint32_t link_untold(const struct link *l)
{
	return ((const struct site *)(const void *)l)->untold;
}

static bool closes_all;

bool sites_all_closed(void)
{
	return closes_all;
}

const struct distance *site_distance(const struct site *s)
{
	return &s->distance;
}

void site_peer_status(const struct site *s, struct peer_status *p)
{
	*p = s->peer;
}

uint64_t site_event_count(const struct site *s, enum proxy_event_type type)
{
	(void)s;
	return 1000 + type;
}

const char *site_waits(const struct site *s)
{
	(void)s;
	return "";
}

enum site_state site_state_now(const struct site *s, const struct link_snapshot *snap)
{
	return !s->runs ? SITE_FAILED : snap && snap->status.wan_up ? SITE_UP : SITE_DEAD;
}

const char *site_state_name(enum site_state state)
{
#define X(e, name, text) [SITE_##e] = name,
	static const char *const names[] = {SITE_STATES(X)};
#undef X

	return names[state];
}

const char *ack_mode_name(unsigned mode)
{
	return mode == ACK_MODE_NEAR ? "near" : "host";
}

const char *barrier_mode_name(unsigned mode)
{
	return mode == BARRIER_OFF ? "off" : "pair";
}

int link_plan_deep(const struct link_config *c, uint64_t rtt_ns, uint64_t capacity_bytes, unsigned flows,
                   struct headroom_deep *d)
{
	(void)c;
	*d = (struct headroom_deep){.wanted_bytes = rtt_ns, .capacity_bytes = capacity_bytes, .xoff_bytes = flows,
	                            .qps_at_once = 71, .qps_in_turns = 17000};
	return 0;
}

static struct site sites[2];
static struct link_snapshot snap;
static char *text;

static void take(struct evbuffer *out)
{
	size_t len = evbuffer_get_length(out);

	free(text);
	text = calloc(1, len + 1);
	assert_non_null(text);
	evbuffer_remove(out, text, len);
	evbuffer_free(out);
}

static void scrape(void)
{
	struct gathered links[2] = {{&sites[0], &snap}, {&sites[1], NULL}};
	struct evbuffer *out = evbuffer_new();

	assert_non_null(out);
	metrics_write(out, links, 2);
	take(out);
}

/* With what is of no link. */
static void scrape_all(void)
{
	static const struct sites files;
	struct gathered links[2] = {{&sites[0], &snap}, {&sites[1], NULL}};
	struct evbuffer *out = evbuffer_new();

	assert_non_null(out);
	metrics_write(out, links, 2);
	metrics_write_strays(out, NULL, 0);
	metrics_write_files(out, &files);
	metrics_write_process(out, &files);
	take(out);
}

static int setup(void **state)
{
	(void)state;
	memset(sites, 0, sizeof(sites));
	memset(&snap, 0, sizeof(snap));
	snprintf(sites[0].config.name, sizeof(sites[0].config.name), "wakkanai");
	snprintf(sites[1].config.name, sizeof(sites[1].config.name), "kushiro");
	sites[0].runs = true;
	snap.status.wan_up = true;
	snap.nworkers = 1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

static void says(const char *line)
{
	size_t len = strlen(line);

	for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
		if ((at == text || at[-1] == '\n') && at[len] == '\n')
			return;
	fail_msg("no line \"%s\" in\n%s", line, text);
}

static void metrics_write__every_counter_and_drop(void **state)
{
	char line[256];
	int ctr_of_relay = 1000;

	(void)state;
	for (unsigned i = 0; i < CTR_COUNT; i++)
		snap.counters.ctr[i] = 7 + i;
	for (unsigned i = 0; i < DROP_COUNT; i++)
		snap.counters.drop[i] = 9000000000000000000ull + i;
	snap.lan_truncated = 5;
	snap.lan_pauses = 6;
#define X(name, text) snap.relay.name = (uint64_t)(ctr_of_relay++);
	RELAY_COUNTERS(X)
#undef X
	snap.relay.rdma_clients = 3;
	scrape();
	ctr_of_relay = 1000;
#define X(name, text)                                                                                                  \
	snprintf(line, sizeof(line), "longreach_%s_total{link=\"wakkanai\"} %d", #name, ctr_of_relay++);               \
	says(line);
	RELAY_COUNTERS(X)
#undef X
	says("longreach_relay_rdma_clients{link=\"wakkanai\"} 3");
	for (unsigned i = 0; i < CTR_COUNT; i++) {
		snprintf(line, sizeof(line), "longreach_%s_total{link=\"wakkanai\"} %u",
		         proxy_counter_name((enum proxy_counter)i), 7 + i);
		says(line);
	}
	for (unsigned i = DROP_NONE + 1; i < DROP_COUNT; i++) {
		snprintf(line, sizeof(line),
		         "longreach_drops_total{link=\"wakkanai\",reason=\"%s\"} 9000000000000000%03u",
		         proxy_drop_name((enum proxy_drop)i), i);
		says(line);
	}
	says("longreach_drops_total{link=\"wakkanai\",reason=\"lan_ring_truncated\"} 5");
	says("longreach_lan_pauses_total{link=\"wakkanai\"} 6");
	snprintf(line, sizeof(line), "longreach_events_total{link=\"kushiro\",event=\"flow_failed\"} %d",
	         1000 + EV_FLOW_FAILED);
	says(line);
}

static void metrics_write__distance_and_buffer(void **state)
{
	(void)state;
	distance_init(&sites[0].distance, 100000);
	distance_sample(&sites[0].distance, 3400000);
	distance_sample(&sites[0].distance, 3400000);
	snap.status.rtt_smoothed_ns = 3500000;
	snap.status.pool_capacity[POOL_LAN] = 1ull << 40;
	snap.status.near_flows = 3;
	snap.status.flows_stalled = 2;
	scrape();
	says("longreach_rtt_seconds{link=\"wakkanai\"} 0.0035");
	says("longreach_distance_measured_meters{link=\"wakkanai\"} 340000");
	says("longreach_distance_configured_meters{link=\"wakkanai\"} 100000");
	says("longreach_distance_in_force_meters{link=\"wakkanai\"} 340000");
	says("longreach_distance_differs{link=\"wakkanai\"} 1");
	says("longreach_buffer_capacity_bytes{link=\"wakkanai\",pool=\"from_lan\"} 1099511627776");
	says("longreach_buffer_full_bytes{link=\"wakkanai\",pool=\"from_lan\"} 659706976665.6");
	says("longreach_buffer_wanted_bytes{link=\"wakkanai\"} 3400000");
	says("longreach_busy_queue_pairs_at_once{link=\"wakkanai\"} 71");
	says("longreach_busy_queue_pairs_in_turns{link=\"wakkanai\"} 17000");
	says("longreach_flows_in_state{link=\"wakkanai\",state=\"stalled\"} 2");
}

static void metrics_write__reauthentication(void **state)
{
	static const bool due[] = {
	    [REAUTH_NONE] = false, [REAUTH_ASKED] = true, [REAUTH_DUE] = true, [REAUTH_FAILED] = false};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		sites[0].peer.reauth = (enum peer_reauth)i;
		scrape();
		says(due[i] ? "longreach_reauthentication_due{link=\"wakkanai\"} 1"
		            : "longreach_reauthentication_due{link=\"wakkanai\"} 0");
	}
}

static void metrics_write__each_path(void **state)
{
	(void)state;
	sites[0].config.npaths = snap.npaths = 2;
	snprintf(sites[0].config.paths[1].name, sizeof(sites[0].config.paths[1].name), "north");
	snap.paths[1].state = PATH_UP;
	snap.paths[1].loss_ppm = 1500;
	snap.paths[1].stats.tx_bytes = 1ull << 50;
	scrape();
	says("longreach_path_up{link=\"wakkanai\",path=\"\"} 0");
	says("longreach_path_up{link=\"wakkanai\",path=\"north\"} 1");
	says("longreach_path_loss_ratio{link=\"wakkanai\",path=\"north\"} 0.0015");
	says("longreach_path_tx_bytes_total{link=\"wakkanai\",path=\"north\"} 1125899906842624");
}

static void metrics_write__a_link_that_does_not_run(void **state)
{
	(void)state;
	scrape();
	says("longreach_link_state{link=\"kushiro\",state=\"failed\"} 1");
	says("longreach_link_state{link=\"wakkanai\",state=\"failed\"} 0");
	says("longreach_link_state{link=\"wakkanai\",state=\"up\"} 1");
	assert_null(strstr(text, "longreach_flows{link=\"kushiro\""));
	assert_null(strstr(text, "longreach_acks_tx_total{link=\"kushiro\""));
}

static void metrics_write__stray_buffers(void **state)
{
	const struct arena_stray strays[] = {{.kind = STRAY_SET_ASIDE}, {.kind = STRAY_UNCLAIMED}, {.kind = STRAY_SET_ASIDE}};
	struct evbuffer *out = evbuffer_new();
	const char *said;

	(void)state;
	metrics_write_strays(out, strays, 3);
	evbuffer_add(out, "", 1);
	said = (const char *)evbuffer_pullup(out, -1);
	assert_non_null(strstr(said, "longreach_stray_buffers{kind=\"unclaimed\"} 1\n"));
	assert_non_null(strstr(said, "longreach_stray_buffers{kind=\"set_aside\"} 2\n"));
	evbuffer_free(out);
}

static void files(const struct sites *s, const char *refused, const char *closed)
{
	struct evbuffer *out = evbuffer_new();

	metrics_write_files(out, s);
	take(out);
	says(refused);
	says(closed);
}

static void metrics_write__files_that_are_not_in_force(void **state)
{
	static struct sites s;

	(void)state;
	s.refused[0] = '\0';
	closes_all = false;
	files(&s, "longreach_link_files_refused 0", "longreach_all_roce_closed 0");
	s.refused[0] = '?';
	files(&s, "longreach_link_files_refused 1", "longreach_all_roce_closed 0");
	closes_all = true;
	files(&s, "longreach_link_files_refused 1", "longreach_all_roce_closed 1");
}

/* A daemon without links has no longreach_link_state: the number alone says that something is wrong. */
static void metrics_write__how_many_links(void **state)
{
	static struct sites s;

	(void)state;
	s.n = 0;
	s.refused[0] = '?';
	files(&s, "longreach_links 0", "longreach_link_files_refused 1");
	s.n = 2;
	files(&s, "longreach_links 2", "longreach_link_files_refused 1");
}

/* Under the name that Prometheus' own libraries have, and the same at each scrape, whoever sets the clock. */
static void metrics_write__process_start(void **state)
{
	static const struct sites s = {.started_ns = 1767225600125000000};
	struct evbuffer *out = evbuffer_new();

	(void)state;
	metrics_write_process(out, &s);
	take(out);
	says("# TYPE process_start_time_seconds gauge");
	says("process_start_time_seconds 1767225600.125");
}

static void metrics_write__workers_that_keep_a_former_configuration(void **state)
{
	(void)state;
	sites[0].untold = 2;
	scrape();
	says("longreach_workers_not_reconfigured{link=\"wakkanai\"} 2");
}

static void metrics_write__latency(void **state)
{
	struct latency_histogram *h = &snap.latency.of[LATENCY_DELIVERED];

	(void)state;
	h->n[0] = 2;
	h->n[9] = 5;
	h->n[LATENCY_BOUND_COUNT] = 1;
	h->sum_ns = 12500000000;
	scrape();
	says("# TYPE longreach_latency_seconds histogram");
	says("longreach_latency_seconds_bucket{link=\"wakkanai\",stage=\"delivered\",le=\"1e-05\"} 2");
	says("longreach_latency_seconds_bucket{link=\"wakkanai\",stage=\"delivered\",le=\"0.01\"} 7");
	says("longreach_latency_seconds_bucket{link=\"wakkanai\",stage=\"delivered\",le=\"+Inf\"} 8");
	says("longreach_latency_seconds_sum{link=\"wakkanai\",stage=\"delivered\"} 12.5");
	says("longreach_latency_seconds_count{link=\"wakkanai\",stage=\"delivered\"} 8");
	says("longreach_latency_seconds_count{link=\"wakkanai\",stage=\"acked\"} 0");
}

/* The other edge's name goes into a label: it can neither end it nor begin a line of its own. */
static void metrics_write__load_of_each_worker(void **state)
{
	(void)state;
	snap.nworkers = 2;
	snap.costs[1] = (struct stage_costs){.running_ns = 4000000000, .running_ticks = 8000000000, .busy_ticks = 3000000000};
	scrape();
	says("# TYPE longreach_worker_busy_seconds_total counter");
	says("longreach_worker_busy_seconds_total{link=\"wakkanai\",worker=\"0\"} 0.000000000");
	says("longreach_worker_busy_seconds_total{link=\"wakkanai\",worker=\"1\"} 1.500000000");
	assert_null(strstr(text, "worker=\"2\""));
}

static void metrics_write__hostile_name(void **state)
{
	(void)state;
	sites[0].peer.met = true;
	snprintf(sites[0].peer.there.name, sizeof(sites[0].peer.there.name), "a\"} 1\n\\b\xff");
	scrape();
	says(
	    "longreach_link_info{link=\"wakkanai\",ack_mode=\"host\",barrier=\"off\",encryption=\"none\",edge=\"a\\\"} "
	    "1?\\\\b?\"} 1");
}

static void metrics_write__bursts_of_each_port(void **state)
{
	(void)state;
	bursts = (struct bursts){.nports = 1, .missed = 4};
	sites[0].config.nlan_ports = 1;
	snprintf(sites[0].config.lan_ports[0], sizeof(sites[0].config.lan_ports[0]), "lan0");
	bursts.port[0].seconds = 1;
	bursts.port[0].history[0] = (struct burst_second){.unix_s = 1};
	bursts.port[0].history[0].sum[BURST_ALL] = (struct burst_sum){.most_bytes = {1250000, 1250000}};
	bursts.port[0].histogram[BURST_100US][0] = 9999;
	bursts.port[0].histogram[BURST_100US][11] = 1;
	bursts.port[0].bytes[BURST_ALL] = 1250000;
	scrape();
	says("# TYPE longreach_ingress_bits_per_second histogram");
	says("longreach_ingress_bits_per_second_bucket{link=\"wakkanai\",port=\"lan0\",bin=\"100us\",le=\"0\"} 9999");
	says("longreach_ingress_bits_per_second_bucket{link=\"wakkanai\",port=\"lan0\",bin=\"100us\","
	     "le=\"50000000000\"} 9999");
	says("longreach_ingress_bits_per_second_bucket{link=\"wakkanai\",port=\"lan0\",bin=\"100us\","
	     "le=\"100000000000\"} 10000");
	says("longreach_ingress_bits_per_second_bucket{link=\"wakkanai\",port=\"lan0\",bin=\"100us\",le=\"+Inf\"} 10000");
	says("longreach_ingress_bits_per_second_count{link=\"wakkanai\",port=\"lan0\",bin=\"100us\"} 10000");
	says("longreach_ingress_bits_per_second_sum{link=\"wakkanai\",port=\"lan0\",bin=\"100us\"} 100000000000");
	says("longreach_ingress_most_bits_per_second{link=\"wakkanai\",port=\"lan0\",bin=\"100us\"} 100000000000");
	says("longreach_ingress_most_bits_per_second{link=\"wakkanai\",port=\"lan0\",bin=\"1ms\"} 10000000000");
	says("longreach_ingress_bits_per_second_count{link=\"wakkanai\",port=\"\",bin=\"1ms\"} 0");
	says("longreach_ingress_bins_missed_total{link=\"wakkanai\"} 4");
	assert_null(strstr(text, "longreach_ingress_most_bits_per_second{link=\"kushiro\""));
}

/* Those that frames have had and no other: eight labels for each port and bin would be mostly zeros. */
static void metrics_write__bursts_of_each_priority(void **state)
{
	struct burst_second *sec = &bursts.port[0].history[0];

	(void)state;
	bursts = (struct bursts){.nports = 1};
	sites[0].config.nlan_ports = 1;
	snprintf(sites[0].config.lan_ports[0], sizeof(sites[0].config.lan_ports[0]), "lan0");
	bursts.port[0].seconds = 2;
	sec[0].unix_s = 1;
	sec[0].sum[3].most_bytes[BURST_100US] = 1250000;
	sec[1].unix_s = 2;
	sec[1].sum[3].most_bytes[BURST_1MS] = 1250000;
	bursts.port[0].bytes[3] = 2500000;
	bursts.port[0].bytes[6] = 64; /* more than a minute ago */
	bursts.port[0].bytes[BURST_ALL] = 2500064;
	scrape();
	says("# TYPE longreach_ingress_priority_most_bits_per_second gauge");
	says("longreach_ingress_priority_most_bits_per_second{link=\"wakkanai\",port=\"lan0\",bin=\"100us\",priority=\"3\"} "
	     "100000000000");
	says("longreach_ingress_priority_most_bits_per_second{link=\"wakkanai\",port=\"lan0\",bin=\"1ms\",priority=\"3\"} "
	     "10000000000");
	says("longreach_ingress_priority_most_bits_per_second{link=\"wakkanai\",port=\"lan0\",bin=\"1ms\",priority=\"6\"} 0");
	assert_null(strstr(text, "priority=\"0\""));
	assert_null(strstr(text, "port=\"\",bin=\"1ms\",priority"));
}

/* Whether the page has an entry of that name, one with it in parentheses, or one under the metric's whole name. */
static bool page_names(const char *page, const char *name, int len)
{
	char entry[128], metric[128], whole[128];

	/* each reason and event has an entry of its own */
	if ((len == 5 && strncmp(name, "drops", 5) == 0) || (len == 6 && strncmp(name, "events", 6) == 0))
		return true;
	snprintf(entry, sizeof(entry), "\n.B %.*s", len, name);
	snprintf(metric, sizeof(metric), "(%.*s)", len, name);
	for (const char *at = page; (at = strstr(at, entry)) != NULL; at++)
		if (strchr(" \n", at[strlen(entry)]) != NULL)
			return true;
	snprintf(whole, sizeof(whole), "\n.B longreach_%.*s_total\n", len, name);
	return strstr(page, metric) != NULL || strstr(page, whole) != NULL;
}

/* What stands between two marks in a scrape is in the page, wherever it stands. Returns how often. */
static unsigned all_named(const char *page, const char *before, const char *after)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, before)) != NULL;) {
		const char *end;

		at += strlen(before);
		end = strstr(at, after);
		if (end == NULL)
			break;
		if (memchr(at, '\n', (size_t)(end - at)) != NULL)
			continue;
		if (!page_names(page, at, (int)(end - at)))
			fail_msg("longreach-counters(7) has no %.*s", (int)(end - at), at);
		n++;
	}
	return n;
}

static void counters_page__names_all_that_metrics_count(void **state)
{
	size_t len;
	char *page;
	FILE *f = open_memstream(&page, &len);

	(void)state;
	counters_page(f);
	fclose(f);
	scrape();
	assert_true(all_named(page, ",reason=\"", "\"") >= DROP_COUNT - 1);
	assert_true(all_named(page, ",event=\"", "\"") >= EV_COUNT);
	assert_true(all_named(page, "# TYPE longreach_", "_total counter\n") >= CTR_COUNT);
	free(page);
}

static char *slurp(const char *name)
{
	FILE *f = fopen(name, "r");
	char *all = NULL;
	size_t room = 0;

	assert_non_null(f);
	assert_true(getdelim(&all, &room, '\0', f) > 0);
	fclose(f);
	return all;
}

/* Every family, whatever its type, has an entry: under its whole name, or as a counter under that of status. */
static void counters_page__names_every_family(void **state)
{
	size_t len;
	char *page, name[96], entry[128];
	FILE *f = open_memstream(&page, &len);
	unsigned n = 0;

	(void)state;
	counters_page(f);
	fclose(f);
	scrape();
	for (const char *at = text; (at = strstr(at, "# TYPE longreach_")) != NULL; n++) {
		at += strlen("# TYPE longreach_");
		assert_int_equal(sscanf(at, "%95[a-z0-9_]", name), 1);
		snprintf(entry, sizeof(entry), "\n.B longreach_%s\n", name);
		if (strstr(page, entry) != NULL)
			continue;
		if (strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0)
			name[strlen(name) - 6] = '\0';
		if (!page_names(page, name, (int)strlen(name)))
			fail_msg("longreach-counters(7) has no longreach_%s", name);
	}
	assert_true(n > CTR_COUNT + GAUGE_COUNT / 2 + PATH_FAMILY_COUNT);
	assert_non_null(strstr(page, "\n.B process_start_time_seconds\n"));
	free(page);
}

/* longreach(1), STATES, and what an operator looks up in longreach(7). */
static void manual__names_every_state(void **state)
{
	char *page = slurp("etc/man/longreach.1"), entry[64];

	(void)state;
	for (unsigned s = 0; s < SITE_STATE_COUNT; s++) {
		snprintf(entry, sizeof(entry), "\n.B %s\n", site_state_name((enum site_state)s));
		if (strstr(strstr(page, "\n.SH STATES"), entry) == NULL)
			fail_msg("longreach(1), STATES, has no %s", site_state_name((enum site_state)s));
	}
	free(page);
}

/* The next name of a metric at or behind *at, which is moved behind it; false: there is none. Names of rules
 * (longreach:link_up) and of label values are none. */
static bool next_metric(const char **at, char name[96])
{
	while ((*at = strstr(*at, "longreach_")) != NULL) {
		size_t len = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_");

		assert_in_range(len, 1, 95);
		snprintf(name, 96, "%.*s", (int)len, *at);
		*at += len;
		return true;
	}
	return false;
}

/* The scrape has a sample of that name. */
static bool is_served(const char *name)
{
	char sample[2][100];

	snprintf(sample[0], sizeof(sample[0]), "\n%s{", name);
	snprintf(sample[1], sizeof(sample[1]), "\n%s ", name);
	return strstr(text, sample[0]) != NULL || strstr(text, sample[1]) != NULL;
}

/* The values that a selector names, all of them if it is a plain regular expression, are in the scrape under that label.
 * at: behind the brace. Returns how many. */
static unsigned all_labels_served(const char *at, const char *file)
{
	unsigned n = 0;

	for (size_t len; *at != '}' && *at != '\0'; at += *at == ',') {
		char label[32], value[200], *rest = value, *one, pair[250];

		assert_int_equal(sscanf(at, "%31[a-z_]%*[=~!]\"%199[^\"]", label, value), 2);
		for (bool any = strpbrk(value, "$*") != NULL; !any && (one = strsep(&rest, "|")) != NULL; n++) {
			snprintf(pair, sizeof(pair), "%s=\"%s\"", label, one);
			if (strstr(text, pair) == NULL)
				fail_msg("%s asks for %s, which is in no scrape", file, pair);
		}
		len = strcspn(strchr(at, '"') + 1, "\"");
		at = strchr(at, '"') + len + 2;
	}
	return n;
}

/* Quotes are quotes, in JSON as in YAML. */
static char *without_backslashes(const char *page)
{
	char *plain = strdup(page), *to = plain;

	assert_non_null(plain);
	for (const char *from = page; *from != '\0'; from++)
		if (*from != '\\')
			*to++ = *from;
	*to = '\0';
	return plain;
}

static unsigned all_served(const char *page, const char *file, unsigned *labels)
{
	char *plain = without_backslashes(page), name[96];
	unsigned n = 0;

	*labels = 0;
	for (const char *at = plain; next_metric(&at, name); n++) {
		if (!is_served(name))
			fail_msg("%s asks for %s, which is in no scrape", file, name);
		if (*at == '{')
			*labels += all_labels_served(at + 1, file);
	}
	free(plain);
	return n;
}

/* What a panel or an alert asks for is served: the same of a daemon is seen by tests/netns/test_metrics.sh. */
static void dashboard__asks_for_what_is_served(void **state)
{
	char *board = slurp("etc/grafana/longreach.json"), *rules = slurp("etc/prometheus/longreach.rules.yml");

	unsigned labels;

	(void)state;
	sites[0].config.npaths = snap.npaths = 1;
	sites[0].config.ack_mode = ACK_MODE_NEAR;
	bursts.port[bursts.nports].bytes[3] = 1; /* series of a priority begin with its first frame */
	scrape_all();
	assert_true(all_served(board, "the dashboard", &labels) > 60);
	assert_true(labels >= 4);
	assert_true(all_served(rules, "an alert rule", &labels) > 20);
	assert_true(labels >= 8);
	free(board);
	free(rules);
}

/* Whoever is woken by an alert finds what it looks at on the dashboard. */
static void dashboard__shows_what_alerts_look_at(void **state)
{
	char *board = slurp("etc/grafana/longreach.json"), *rules = slurp("etc/prometheus/longreach.rules.yml");
	char name[96], asked[128];

	(void)state;
	for (const char *at = rules; next_metric(&at, name);) {
		snprintf(asked, sizeof(asked), "%s{instance=", name);
		if (strstr(board, asked) == NULL)
			fail_msg("an alert looks at %s, which no panel of the dashboard shows", name);
	}
	free(board);
	free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(metrics_write__every_counter_and_drop, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__distance_and_buffer, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__reauthentication, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__each_path, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__bursts_of_each_port, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__bursts_of_each_priority, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__a_link_that_does_not_run, setup, teardown),
	    cmocka_unit_test(metrics_write__stray_buffers),
	    cmocka_unit_test_setup_teardown(metrics_write__files_that_are_not_in_force, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__process_start, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__how_many_links, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__workers_that_keep_a_former_configuration, setup, teardown),
	    cmocka_unit_test_setup_teardown(counters_page__names_all_that_metrics_count, setup, teardown),
	    cmocka_unit_test_setup_teardown(counters_page__names_every_family, setup, teardown),
	    cmocka_unit_test(manual__names_every_state),
	    cmocka_unit_test_setup_teardown(dashboard__asks_for_what_is_served, setup, teardown),
	    cmocka_unit_test(dashboard__shows_what_alerts_look_at),
	    cmocka_unit_test_setup_teardown(metrics_write__latency, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__load_of_each_worker, setup, teardown),
	    cmocka_unit_test_setup_teardown(metrics_write__hostile_name, setup, teardown),
	};

	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
