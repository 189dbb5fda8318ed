// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The table of stats.h, to walk over. */
static const struct stat_row {
	const char *name;
	bool bad;
	const char *text;
} rows[] = {
#define X(name, bad, text) {#name, bad, text},
    STATS(X)
#undef X
};

#define NROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t *value(struct stats *s, size_t row)
{
	return (uint64_t *)(void *)s + row;
}

static uint64_t value_of(const struct stats *s, size_t row)
{
	return ((const uint64_t *)(const void *)s)[row];
}

_Static_assert(sizeof(struct stats) == NROWS * sizeof(uint64_t), "struct stats is the table");

void report_collect(const struct engine *e, struct end_report *r)
{
	r->stats = e->stats;
	r->stats.rx_packets = e->port.rx_packets;
	r->stats.tx_packets = e->port.tx_packets;
	r->stats.rx_dropped_at_will = e->port.rx_dropped_at_will;
	r->stats.rx_unsound += e->port.rx_truncated;
	r->done_gbps = meter_gbps(&e->done);
	r->exec_gbps = meter_gbps(&e->exec);
	r->done_mps = meter_msgs_per_s(&e->done);
	r->lat_n = e->latency.n;
	r->lat_p1 = hist_quantile(&e->latency, 0.01);
	r->lat_p50 = hist_quantile(&e->latency, 0.5);
	r->lat_p99 = hist_quantile(&e->latency, 0.99);
	r->lat_p999 = hist_quantile(&e->latency, 0.999);
	r->lat_max = e->latency.max_ns;
}

void report_send(struct wire *w, const struct end_report *r)
{
	for (size_t i = 0; i < NROWS; i++)
		if (value_of(&r->stats, i) != 0)
			wire_send(w, "stat %s=%" PRIu64, rows[i].name, value_of(&r->stats, i));
	wire_send(w,
	          "stat done_bps=%.0f exec_bps=%.0f mps=%.0f p50=%" PRIu64 " p99=%" PRIu64 " p999=%" PRIu64
	          " max=%" PRIu64 " lat_n=%" PRIu64,
	          r->done_gbps * 1e9, r->exec_gbps * 1e9, r->done_mps, r->lat_p50, r->lat_p99, r->lat_p999, r->lat_max,
	          r->lat_n);
}

bool report_take(const char *line, struct end_report *r)
{
	if (!wire_is(line, "stat"))
		return false;
	for (size_t i = 0; i < NROWS; i++)
		*value(&r->stats, i) = wire_u64(line, rows[i].name, value_of(&r->stats, i));
	r->done_gbps = (double)wire_u64(line, "done_bps", (uint64_t)(r->done_gbps * 1e9)) * 1e-9;
	r->exec_gbps = (double)wire_u64(line, "exec_bps", (uint64_t)(r->exec_gbps * 1e9)) * 1e-9;
	r->done_mps = (double)wire_u64(line, "mps", (uint64_t)r->done_mps);
	r->lat_p50 = wire_u64(line, "p50", r->lat_p50);
	r->lat_p99 = wire_u64(line, "p99", r->lat_p99);
	r->lat_p999 = wire_u64(line, "p999", r->lat_p999);
	r->lat_max = wire_u64(line, "max", r->lat_max);
	r->lat_n = wire_u64(line, "lat_n", r->lat_n);
	return true;
}

static bool nothing_bad(const struct stats *s)
{
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i].bad && value_of(s, i) != 0)
			return false;
	return true;
}

bool report_ok(const struct session *s)
{
	const struct stats *a = &s->mine.stats, *b = &s->peers.stats;

	if (s->e.failure[0] != 0 || s->peer_failure[0] != 0 || !s->have_peers)
		return false;
	if (a->msgs_done != a->msgs_posted || b->msgs_done != b->msgs_posted)
		return false;
	return a->msgs_posted == b->msgs_exec && b->msgs_posted == a->msgs_exec && nothing_bad(a) && nothing_bad(b);
}

/* ---- for people ---- */

static void print_bad(const char *whose, const struct stats *s)
{
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i].bad && value_of(s, i) != 0)
			printf("  %s: %s: %" PRIu64 "\n", whose, rows[i].text, value_of(s, i));
}

static uint64_t verified(const struct session *s)
{
	return s->mine.stats.read_bytes_verified + s->mine.stats.bytes_verified + s->peers.stats.read_bytes_verified +
	       s->peers.stats.bytes_verified;
}

static void print_line(const struct session *s, bool ok)
{
	const struct opt *o = &s->opt;
	const struct end_report *q = s->self_active ? &s->mine : &s->peers;
	const struct stats *st = &q->stats;

	printf("%s %s %u B x %u qps=%u mtu=%u%s: %.3f Gbit/s", ok ? "ok" : "FAILED", plan_kind_name(o->kind), o->size,
	       o->depth, o->qps, o->mtu, o->bidir ? " bidir" : "", q->done_gbps);
	if (o->bidir)
		printf(" + %.3f back", (s->self_active ? &s->peers : &s->mine)->done_gbps);
	printf(", %" PRIu64 " messages (%.0f/s), %" PRIu64 " bytes verified, retries %" PRIu64 " (NAK %" PRIu64
	       ", timeout %" PRIu64 ", implied %" PRIu64 "), RNR %" PRIu64 ", latency us p50 %.0f p99 %.0f p99.9 %.0f",
	       st->msgs_done, q->done_mps, verified(s), st->retries, st->naks_rx, st->timeouts, st->implied_naks,
	       st->rnr_rx, (double)q->lat_p50 * 1e-3, (double)q->lat_p99 * 1e-3, (double)q->lat_p999 * 1e-3);
	if (s->self_active)
		printf(", drained after %.1f ms", (double)s->drained_ns * 1e-6);
	if (s->dreq_over)
		printf(", disconnected after %.1f ms", (double)s->dreq_ns * 1e-6);
	printf("\n");
}

static void print_text(const struct session *s, bool ok)
{
	print_line(s, ok);
	if (s->e.failure[0] != 0)
		printf("  here: %s\n", s->e.failure);
	if (s->peer_failure[0] != 0)
		printf("  other end: %s\n", s->peer_failure);
	if (!s->have_peers)
		printf("  no result from the other end\n");
	print_bad("here", &s->mine.stats);
	print_bad("other end", &s->peers.stats);
}

/* ---- for programs ---- */

static void json_text(const char *name, const char *text)
{
	printf("\"%s\":\"", name);
	for (; *text != 0; text++)
		if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	putchar('"');
}

static void json_end(const char *name, const struct end_report *r)
{
	printf(",\"%s\":{\"goodput_gbps\":%.6f,\"executed_gbps\":%.6f,\"msgs_per_s\":%.1f", name, r->done_gbps,
	       r->exec_gbps, r->done_mps);
	printf(",\"latency_us\":{\"n\":%" PRIu64 ",\"p1\":%.1f,\"p50\":%.1f,\"p99\":%.1f,\"p99_9\":%.1f,\"max\":%.1f}", r->lat_n,
	       (double)r->lat_p1 * 1e-3, (double)r->lat_p50 * 1e-3, (double)r->lat_p99 * 1e-3, (double)r->lat_p999 * 1e-3,
	       (double)r->lat_max * 1e-3);
	for (size_t i = 0; i < NROWS; i++)
		printf(",\"%s\":%" PRIu64, rows[i].name, value_of(&r->stats, i));
	printf("}");
}

static void print_json(const struct session *s, bool ok)
{
	const struct opt *o = &s->opt;
	const struct end_report *q = s->self_active ? &s->mine : &s->peers;

	printf("{\"ok\":%s,\"op\":\"%s\",\"size\":%u,\"depth\":%u,\"qps\":%u,\"mtu\":%u,\"bidir\":%s,\"cm\":%s,"
	       "\"seed\":%" PRIu64,
	       ok ? "true" : "false", plan_kind_name(o->kind), o->size, o->depth, o->qps, o->mtu,
	       o->bidir ? "true" : "false", o->cm ? "true" : "false", o->seed);
	printf(",\"goodput_gbps\":%.6f,\"messages\":%" PRIu64 ",\"verified_bytes\":%" PRIu64
	       ",\"drained_ms\":%.3f,\"disconnected_ms\":%.3f",
	       q->done_gbps, q->stats.msgs_done, verified(s), (double)s->drained_ns * 1e-6, (double)s->dreq_ns * 1e-6);
	json_end("here", &s->mine);
	json_end("there", &s->peers);
	printf(",");
	json_text("failure", s->e.failure);
	printf(",");
	json_text("peer_failure", s->peer_failure);
	printf("}\n");
}

void report_print(const struct session *s)
{
	bool ok = report_ok(s);

	if (s->opt.json)
		print_json(s, ok);
	else
		print_text(s, ok);
	fflush(stdout);
}

void report_progress(struct session *s)
{
	uint64_t now = s->e.now_ns, bytes = s->self_active ? s->e.stats.bytes_done : s->e.stats.bytes_exec;
	double t = (double)(now - s->started_ns) * 1e-9;
	double gbps = (double)(bytes - s->shown_bytes) * 8 / (double)(now - s->shown_ns);

	if (s->opt.json)
		printf("{\"t_s\":%.3f,\"gbps\":%.6f,\"messages\":%" PRIu64 ",\"retries\":%" PRIu64 "}\n", t, gbps,
		       s->e.stats.msgs_done, s->e.stats.retries);
	else
		printf("%8.3f s %9.3f Gbit/s  messages %" PRIu64 "  retries %" PRIu64 "  RNR %" PRIu64 "\n", t, gbps,
		       s->e.stats.msgs_done, s->e.stats.retries, s->e.stats.rnr_rx);
	fflush(stdout);
	s->shown_ns = now;
	s->shown_bytes = bytes;
}
