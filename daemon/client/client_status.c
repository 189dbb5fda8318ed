/* SPDX-License-Identifier: Apache-2.0 */
/* client_status.c - the daemon's status for people.
 *
 *     link: up, ack mode near, sealed with aes-256-gcm (intel-ipsec-mb)
 *       peer      link at 192.0.2.2, control connected
 *       wan       rtt 6.35 ms, least 3.25 ms; loss 0.0726 % now, 0.0901 % in all; repaired 59; in flight 392 KiB
 *       path      up, rtt 6.35 ms (least 3.25 ms, p99 12.3 ms), MTU 9000, delivers 367 Mbit/s of 400 Mbit/s
 *                 the line loses 0.0851 %, in bursts of 1.0; lost 30 in 30 bursts, longest 1; reordered 0; ...
 *       distance  measured: at most 317 km, auto; reckons with 317 km
 *       outward   400 Mbit/s from hosts, 368 Mbit/s to peer
 *       inward    1.21 Mbit/s from peer, 264 kbit/s to hosts
 *       buffer    outward 4.84 MiB of 31.0 MiB (16 %), inward 0 B of 31.0 MiB (0 %)
 *       plan      a direction wants 619 KiB; one flow is held off at 23.2 MiB, needs 232 KiB to fill the line
 *                 serves 469 busy queue pairs at once, 469 in turns
 *       flows     2 near, 0 far (at most 16384 of each); 0 learning, 2 held off, 0 stalled, 0 in RNR
 *       barrier   pair; 0 waiting, 0 have waited, 0 waived, 0 after BarrierMax=; 11 IP packets carried
 *       drops     lan_no_room 12334
 */
#include "client_status.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "client_answer.h"
#include "client_cost.h"
#include "daemon/util/units.h"

static const char *state_text(const char *state)
{
	static const char *const texts[][2] = {
	    {"stopped", "stopped by an operator"},
	    {"failed", "does not start"},
	    {"waiting", "waiting for peer"},
	    {"refused", "refused: the edges cannot work together"},
	    {"open", "open: rules that keep the kernel from forwarding cannot be set, no packet is acknowledged early"},
	    {"port", "port: a LAN port or the WAN address does not work"},
	    {"peer_stopped", "stopped by an operator at the other edge"},
	    {"dead", "dead: no datagram arrives from the other edge, or a worker lacks the session"},
	    {"mismatch", "mismatch: packets are carried, none is acknowledged early"},
	    {"stuck", "stuck: a buffer is full, and no packet has left it for seconds"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(state, texts[i][0]) == 0)
			return texts[i][1];
	return state;
}

/* Tells that the running session was proven with keys that are no longer in force, here or at the other edge. */
static void show_reauth(FILE *out, const struct json_object *peer)
{
	const struct json_object *r = j_get(peer, "reauthentication");
	const char *state = j_text(r, "state"), *trouble = j_text(r, "trouble");

	if (strcmp(state, "due") == 0)
		fprintf(out,
		        "  keys      have changed: the other edge has %" PRIu64 " s to prove itself under the new keys",
		        j_uint(r, "left_s"));
	else if (strcmp(state, "asked") == 0)
		fputs("  keys      of the other edge have changed: this edge has to prove itself again", out);
	else if (strcmp(state, "failed") == 0)
		fputs("  keys      have changed, and the other edge did not prove itself within ReauthWithin=: there "
		      "is no session",
		      out);
	else
		return;
	fprintf(out, "%s%s\n", trouble[0] != '\0' ? ": " : "", trouble);
}

/* Tells that workers go on with a former configuration. False: none does. */
static bool show_untold(FILE *out, const struct json_object *l, const char *before)
{
	char text[ANSWER_TEXT_MAX];

	if (!answer_workers_text(l, text))
		return false;
	fprintf(out, "%s%s: they are given the new one every second; if this lasts, `longreach restart %s`\n", before,
	        text, j_text(l, "name"));
	return true;
}

static void show_head(FILE *out, const struct json_object *l)
{
	const struct json_object *peer = j_get(l, "peer");

	fprintf(out, "%s: %s, ack mode %s, ", j_text(l, "name"), state_text(j_text(l, "state")), j_text(l, "ack_mode"));
	if (j_bool(l, "sealed"))
		fprintf(out, "sealed with %s (%s)\n", j_text(l, "encryption"), j_text(l, "encryption_provider"));
	else
		fputs("not sealed\n", out);
	if (j_text(l, "error")[0] != '\0')
		fprintf(out, "  error     %s\n", j_text(l, "error"));
	if (j_text(l, "restart_needed")[0] != '\0')
		fprintf(out, "  file      is not in force: %s\n", j_text(l, "restart_needed"));
	show_untold(out, l, "  workers   ");
	if (j_text(peer, "difference")[0] != '\0')
		fprintf(out, "  differs   %s\n", j_text(peer, "difference"));
	if (j_text(peer, "rates")[0] != '\0')
		fprintf(out, "  rates     %s\n", j_text(peer, "rates"));
	if (j_text(peer, "trouble")[0] != '\0')
		fprintf(out, "  control   %s\n", j_text(peer, "trouble"));
	show_reauth(out, peer);
}

static void show_peer(FILE *out, const struct json_object *l)
{
	const struct json_object *peer = j_get(l, "peer");

	if (j_bool(peer, "met"))
		fprintf(out, "  peer      %s at %s, control %s\n", j_text(peer, "name"), j_text(l, "remote_address"),
		        j_bool(peer, "connected") ? "connected" : "not connected");
	else
		fprintf(out, "  peer      %s, not met yet\n", j_text(l, "remote_address"));
}

static void show_certificates(FILE *out, const struct json_object *l)
{
	static const char *const what[][2] = {{"certificate", "certificate"}, {"ca", "CA"}};
	const char *gap = "  keys      ";

	for (int i = 0; i < 2; i++) {
		const struct json_object *c = j_get(l, what[i][0]);
		double left = j_number(c, "days_left");

		if (c == NULL)
			continue;
		if (left < 0)
			fprintf(out, "%s%s has expired", gap, what[i][1]);
		else
			fprintf(out, "%s%s valid for %.0f days", gap, what[i][1], left);
		gap = ", ";
	}
	if (gap[0] == ',')
		fputc('\n', out);
}

static void show_wan(FILE *out, const struct json_object *l)
{
	const struct json_object *counters = j_get(l, "counters");
	double sent = j_number(counters, "wan_tx_datagrams");
	double lost = j_number(counters, "wan_lost") - j_number(counters, "wan_spurious");
	double rtt_min_ns = j_number(l, "rtt_min_ns");
	char t[2][UNITS_TEXT_MAX];

	if (rtt_min_ns > 0)
		fprintf(out, "  wan       rtt %s, least %s", units_show_time(t[0], j_number(l, "rtt_ns")),
		        units_show_time(t[1], rtt_min_ns));
	else
		fprintf(out, "  wan       rtt not measured");
	fprintf(out, "; loss %.3g %% now, %.3g %% in all; repaired %" PRIu64 "; in flight %s\n",
	        j_number(j_get(l, "rates"), "wan_loss") * 100, sent > 0 && lost > 0 ? lost / sent * 100 : 0,
	        j_uint(counters, "wan_repairs"), units_show_bytes(t[0], j_number(l, "wan_in_flight_bytes")));
}

/* Shows one line about the path's state, one about its losses. */
static void show_path(FILE *out, const struct json_object *p)
{
	double lost = j_number(p, "lost") - j_number(p, "lost_spuriously"), bursts = j_number(p, "loss_bursts");
	const char *name = j_text(p, "name");
	char t[5][UNITS_TEXT_MAX];

	fprintf(out, "  path      %s%s%s", name, *name != '\0' ? ": " : "", j_text(p, "state"));
	if (strcmp(j_text(p, "state"), "up") == 0 && !j_bool(p, "in_use"))
		fprintf(out, ", standby");
	if (j_number(p, "rtt_min_ns") > 0)
		fprintf(out, ", rtt %s (least %s, p99 %s)", units_show_time(t[0], j_number(p, "rtt_ns")),
		        units_show_time(t[1], j_number(p, "rtt_min_ns")),
		        units_show_time(t[2], j_number(p, "rtt_p99_ns")));
	if (j_bool(p, "rtt_stale"))
		fprintf(out, ", stale: measured %s ago", units_show_time(t[0], j_number(p, "rtt_age_ns")));
	fprintf(out, ", MTU %" PRIu64 ", delivers %s of %s\n", j_uint(p, "mtu"),
	        units_show_rate(t[3], j_number(p, "delivery_bps")), units_show_rate(t[4], j_number(p, "rate_bps")));
	fprintf(out, "            the line loses %.3g %%", j_number(p, "line_loss") * 100);
	if (j_number(p, "line_loss") > 0 && j_get(p, "line_loss_burst") != NULL)
		fprintf(out, ", in bursts of %.1f", j_number(p, "line_loss_burst"));
	fprintf(out,
	        "; lost %.0f in %.0f bursts, longest %" PRIu64 "; reordered %" PRIu64 "; repaired %" PRIu64 ", by FEC %" PRIu64,
	        lost > 0 ? lost : 0, bursts, j_uint(p, "loss_burst_longest"), j_uint(p, "reordered"),
	        j_uint(p, "repaired_by_retransmission"), j_uint(p, "repaired_by_fec"));
	if (j_bool(p, "loss_stale"))
		fprintf(out, "; stale: told %s ago", units_show_time(t[0], j_number(p, "loss_age_ns")));
	fprintf(out, "\n");
	if (strcmp(j_text(p, "rate_control"), "fixed") != 0)
		fprintf(out, "            rate %s: %s, %s, at most %s in flight\n", j_text(p, "rate_control"),
		        j_text(p, "rate_state"), units_show_rate(t[0], j_number(p, "pace_bps")),
		        units_show_bytes(t[1], j_number(p, "in_flight_max_bytes")));
	if (j_uint(p, "marked") > 0 || strcmp(j_text(p, "ecn"), "failed") == 0)
		fprintf(out, "            ECN %s: %" PRIu64 " marks obeyed\n", j_text(p, "ecn"), j_uint(p, "marked"));
	if (j_uint(p, "deaths") > 0)
		fprintf(out,
		        "            died %" PRIu64 " times, %" PRIu64 " datagrams were sent again on other paths\n",
		        j_uint(p, "deaths"), j_uint(p, "moved"));
}

static void show_paths(FILE *out, const struct json_object *l)
{
	const struct json_object *paths = j_get(l, "paths");
	const struct json_object *p;

	for (size_t i = 0; (p = j_at(paths, i)) != NULL; i++)
		show_path(out, p);
}

static void show_fec(FILE *out, const struct json_object *l)
{
	const struct json_object *f = j_get(l, "fec"), *paths = j_get(f, "paths"), *p;
	char t[UNITS_TEXT_MAX];

	if (f == NULL || strcmp(j_text(f, "mode"), "off") == 0)
		return;
	fprintf(out, "  fec       %s", j_text(f, "mode"));
	for (size_t i = 0; (p = j_at(paths, i)) != NULL; i++) {
		if (j_uint(p, "k") != 0)
			fprintf(out, "; %" PRIu64 "+%" PRIu64 " x %" PRIu64, j_uint(p, "k"), j_uint(p, "m"),
			        j_uint(p, "depth"));
		else
			fprintf(out, "; none now");
		fprintf(out, " at %.3g %% loss in bursts of %.1f", j_number(p, "loss") * 100, j_number(p, "burst"));
	}
	fprintf(out,
	        "; rebuilt %" PRIu64 " here (%s late on average) and %" PRIu64
	        " there; sent again although rebuilt %" PRIu64 "; overhead %.1f %%\n",
	        j_uint(f, "rebuilt"), units_show_time(t, j_number(f, "mean_delay_ns")), j_uint(f, "spared"),
	        j_uint(f, "sent_again"), j_number(f, "overhead") * 100);
}

static void show_distance(FILE *out, const struct json_object *l)
{
	const struct json_object *d = j_get(l, "distance");
	double configured = j_number(d, "configured_m"), measured = j_number(d, "measured_m");
	char t[4][UNITS_TEXT_MAX], age[32 + UNITS_TEXT_MAX] = "";

	units_show_distance(t[0], measured);
	units_show_distance(t[1], configured);
	units_show_distance(t[2], j_number(d, "in_force_m"));
	if (j_bool(d, "stale"))
		snprintf(age, sizeof(age), " (stale: measured %s ago)", units_show_time(t[3], j_number(d, "age_ns")));
	fprintf(out, "  distance  %s%s%s, %s%s; reckons with %s%s\n",
	        measured > 0 ? "measured: at most " : "not measured", measured > 0 ? t[0] : "", age,
	        configured > 0 ? "configured " : "auto", configured > 0 ? t[1] : "", t[2],
	        j_bool(d, "differs") ? ". THE TWO DIFFER" : "");
}

static void show_traffic(FILE *out, const struct json_object *l)
{
	const struct json_object *r = j_get(l, "rates");
	char t[4][UNITS_TEXT_MAX];

	if (!j_bool(r, "valid"))
		return;
	fprintf(out, "  outward   %s from hosts, %s to peer\n", units_show_rate(t[0], j_number(r, "lan_rx_bps")),
	        units_show_rate(t[1], j_number(r, "wan_tx_bps")));
	fprintf(out, "  inward    %s from peer, %s to hosts\n", units_show_rate(t[2], j_number(r, "wan_rx_bps")),
	        units_show_rate(t[3], j_number(r, "lan_tx_bps")));
}

/* The least bound that 99 of 100 samples stay below, nanoseconds; 0: they exceed all bounds. */
static double latency_p99_ns(const struct json_object *bounds, const struct json_object *stage)
{
	const struct json_object *histogram = j_get(stage, "histogram"), *n, *bound;
	double samples = j_number(stage, "samples"), seen = 0;

	for (size_t i = 0; (n = j_at(histogram, i)) != NULL && (bound = j_at(bounds, i)) != NULL; i++) {
		seen += (double)j_value(n);
		if (seen >= 0.99 * samples)
			return (double)j_value(bound);
	}
	return 0;
}

static void show_latency(FILE *out, const struct json_object *l)
{
	static const char *const stages[][2] = {{"acked", "ACK"}, {"delivered", "delivered"}, {"inward", "inward"}};
	const struct json_object *latency = j_get(l, "latency"), *bounds = j_get(latency, "bounds_ns");
	const char *gap = "  latency   ";
	char t[2][UNITS_TEXT_MAX];

	for (int i = 0; i < 3; i++) {
		const struct json_object *s = j_get(latency, stages[i][0]);
		double p99 = latency_p99_ns(bounds, s);

		if (j_number(s, "samples") <= 0)
			continue;
		fprintf(out, "%s%s %s (99 %%: %s)", gap, stages[i][1], units_show_time(t[0], j_number(s, "mean_ns")),
		        p99 > 0 ? units_show_time(t[1], p99) : "more than 5 s");
		gap = ", ";
	}
	if (gap[0] == ',')
		fputs("; means since the start\n", out);
}

static void show_pool(FILE *out, const struct json_object *pool, const char *before)
{
	double used = j_number(pool, "used_bytes"), cap = j_number(pool, "capacity_bytes");
	char t[2][UNITS_TEXT_MAX];

	fprintf(out, "%s%s of %s (%.0f %%)", before, units_show_bytes(t[0], used), units_show_bytes(t[1], cap),
	        cap > 0 ? used / cap * 100 : 0);
}

/* Shows what the buffer's size means at this distance. */
static void show_plan(FILE *out, const struct json_object *l)
{
	const struct json_object *p = j_get(l, "buffer_plan");
	char t[4][UNITS_TEXT_MAX], more[96] = "";

	if (p == NULL)
		return;
	if (!j_bool(p, "stands_loss"))
		snprintf(more, sizeof(more), ": %s; Size=auto would be %s at this distance",
		         j_bool(p, "fills_the_line") ? "losses will slow it down" : "TOO SMALL",
		         units_show_bytes(t[3], j_number(p, "size_wanted_bytes")));
	fprintf(out, "  plan      a direction wants %s; one flow is held off at %s, needs %s to fill the line%s\n",
	        units_show_bytes(t[0], j_number(p, "wanted_bytes")), units_show_bytes(t[1], j_number(p, "xoff_bytes")),
	        units_show_bytes(t[2], j_number(p, "no_underrun_xon_bytes")), more);
	if (j_uint(p, "busy_qps_in_turns"))
		fprintf(out, "            serves %" PRIu64 " busy queue pairs at once, %" PRIu64 " in turns\n",
		        j_uint(p, "busy_qps_at_once"), j_uint(p, "busy_qps_in_turns"));
}

static void show_buffer(FILE *out, const struct json_object *l)
{
	const struct json_object *b = j_get(l, "buffer");

	show_pool(out, j_get(b, "from_lan"), "  buffer    outward ");
	show_pool(out, j_get(b, "from_wan"), ", inward ");
	fputc('\n', out);
}

static void show_flow_counts(FILE *out, const struct json_object *l)
{
	const struct json_object *n = j_get(l, "flow_counts");

	fprintf(out,
	        "  flows     %" PRIu64 " near, %" PRIu64 " far (at most %" PRIu64 " of each); %" PRIu64
	        " learning, %" PRIu64 " held off, %" PRIu64 " stalled, %" PRIu64 " in RNR\n",
	        j_uint(n, "near"), j_uint(n, "far"), j_uint(n, "max"), j_uint(n, "learning"),
	        j_uint(n, "rnr_back_pressure"), j_uint(n, "stalled"), j_uint(n, "rnr"));
	if (j_uint(n, "pairs_end_to_end"))
		fprintf(out,
		        "            MaxFlows= is reached: new queue pairs of %" PRIu64
		        " host pairs are carried without early ACKs\n",
		        j_uint(n, "pairs_end_to_end"));
}

static void show_barrier(FILE *out, const struct json_object *l)
{
	const struct json_object *b = j_get(l, "barrier"), *c = j_get(l, "counters");

	if (b == NULL)
		return;
	fprintf(out,
	        "  barrier   %s; %" PRIu64 " waiting, %" PRIu64 " have waited, %" PRIu64 " waived, %" PRIu64
	        " after BarrierMax=; %" PRIu64 " IP packets carried\n",
	        j_text(b, "mode"), j_uint(b, "waiting"), j_uint(c, "barrier_held"), j_uint(c, "barrier_waived"),
	        j_uint(c, "barrier_expired"), j_uint(c, "ip_carried"));
}

static void show_silent_file(FILE *out, const struct json_object *l)
{
	if (j_text(l, "relay_silent_file")[0] != '\0')
		fprintf(
		    out,
		    "  relay     %s does not answer: operations on files of its mount fail until it answers; %" PRIu64
		    " descriptors wait to be closed\n",
		    j_text(l, "relay_silent_file"), j_uint(l, "relay_unclosed_descriptors"));
}

struct drop_list {
	FILE *out;
	const char *before; /* the separator in front of the next item */
};

static void show_drop(void *arg, const char *reason, uint64_t n)
{
	struct drop_list *d = arg;

	if (n == 0)
		return;
	fprintf(d->out, "%s%s %" PRIu64, d->before, reason, n);
	d->before = ", ";
}

static void show_drops(FILE *out, const struct json_object *l)
{
	struct drop_list d = {.out = out, .before = "  drops     "};

	j_each_uint(j_get(l, "drops"), show_drop, &d);
	if (strcmp(d.before, ", ") == 0)
		fputc('\n', out);
}

/* --- flows --- */

static const char *flow_rate(char t[UNITS_TEXT_MAX], const struct json_object *now, const struct json_object *before,
                             double seconds)
{
	double bytes = before != NULL ? j_number(now, "bytes") - j_number(before, "bytes") : -1;

	if (bytes < 0 || seconds <= 0) {
		snprintf(t, UNITS_TEXT_MAX, "-");
		return t;
	}
	return units_show_rate(t, bytes * 8 / seconds);
}

static const char *flow_trouble(const struct json_object *f)
{
	return j_bool(f, "stalled")             ? ", stalled"
	       : j_bool(f, "rnr")               ? ", RNR"
	       : j_bool(f, "rnr_back_pressure") ? ", RNR back-pressure"
	                                        : "";
}

static void show_flow(FILE *out, const struct json_object *f, const struct json_object *before, double seconds)
{
	char from[24] = "?", name[32], t[2][UNITS_TEXT_MAX];

	if (strcmp(j_text(f, "pairing"), "learning") != 0)
		snprintf(from, sizeof(from), "0x%" PRIx64, j_uint(f, "requester_qpn"));
	snprintf(name, sizeof(name), "%.8s:%" PRIu64, j_text(f, "side"), j_uint(f, "id"));
	fprintf(out,
	        "    %-9s %s QP %s -> %s QP 0x%" PRIx64 ": %s, %s, life %" PRIu64
	        ", %s, buffered %s, delivered %" PRIu64 "%s\n",
	        name, j_text(f, "src"), from, j_text(f, "dst"), j_uint(f, "dest_qpn"),
	        j_text(f, "pairing"), j_text(f, "ack_mode"), j_uint(f, "incarnation"),
	        flow_rate(t[0], f, before, seconds), units_show_bytes(t[1], j_number(f, "buffered_bytes")),
	        j_uint(f, "pos_delivered") - j_uint(f, "pos_base"), flow_trouble(f));
}

static void show_flows(FILE *out, const struct json_object *l, const struct json_object *before)
{
	double seconds = (j_number(l, "taken_ns") - j_number(before, "taken_ns")) / 1e9;
	const struct json_object *flows = j_get(l, "flows"), *f;
	size_t at = 0;

	for (size_t i = 0; (f = j_at(flows, i)) != NULL; i++)
		show_flow(out, f, answer_flow(j_get(before, "flows"), f, &at), before != NULL ? seconds : 0);
	if (j_uint(l, "flows_left_out") > 0)
		fprintf(out, "    and %" PRIu64 " more\n", j_uint(l, "flows_left_out"));
}

static void show_link(FILE *out, const struct json_object *l, const struct json_object *before, bool costs)
{
	show_head(out, l);
	show_peer(out, l);
	show_certificates(out, l);
	if (j_get(l, "counters") == NULL)
		return;
	show_wan(out, l);
	show_paths(out, l);
	show_fec(out, l);
	show_distance(out, l);
	show_traffic(out, l);
	show_latency(out, l);
	show_buffer(out, l);
	show_plan(out, l);
	show_flow_counts(out, l);
	show_barrier(out, l);
	show_silent_file(out, l);
	show_drops(out, l);
	if (costs)
		cost_show(out, l, before);
	if (j_get(l, "flows") != NULL)
		show_flows(out, l, before);
}

/* Prints each line of why the link files are not in force. */
static void put_refusals(const struct json_object *answer, FILE *out, const char *before)
{
	for (const char *line = j_text(answer, "refused"); *line != '\0';) {
		size_t len = strcspn(line, "\n");

		fprintf(out, "%s%.*s\n", before, (int)len, line);
		line += len + (line[len] == '\n');
	}
}

static const char all_roce_closed[] =
    "all RoCE that this machine would forward is closed, because a link file cannot be understood: mend it, and run "
    "`longreach reload`";

static void show_files(FILE *out, const struct json_object *answer, const char *gap)
{
	if (j_text(answer, "refused")[0] != '\0')
		fprintf(out, "%sthe link files are not in force; mend them, and run `longreach reload`:\n", gap);
	put_refusals(answer, out, "  ");
	if (j_bool(answer, "all_roce_closed"))
		fprintf(out, "%s%s\n", j_text(answer, "refused")[0] != '\0' ? "" : gap, all_roce_closed);
}

static void show_unserved(FILE *out, const struct json_object *answer, const char *gap)
{
	if (j_text(answer, "metrics_error")[0] != '\0')
		fprintf(out, "%sno metrics are served: %s\n", gap, j_text(answer, "metrics_error"));
}

static void show_strays(FILE *out, const struct json_object *answer, const char *gap)
{
	const struct json_object *strays = j_get(answer, "stray_buffers"), *s;

	for (size_t i = 0; (s = j_at(strays, i)) != NULL; i++) {
		fprintf(out, "%s%s\n", gap, j_text(s, "text"));
		gap = "";
	}
}

static void show_failed_flow(FILE *out, const struct json_object *f)
{
	char when[32], from[24] = "?", t[UNITS_TEXT_MAX];
	time_t s = (time_t)(j_uint(f, "time_ns") / 1000000000u);
	struct tm utc;

	gmtime_r(&s, &utc);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
	if (j_uint(f, "requester_qpn") != 0)
		snprintf(from, sizeof(from), "0x%" PRIx64, j_uint(f, "requester_qpn"));
	fprintf(out, "%s.%03uZ %s %s: %s QP %s -> %s QP 0x%" PRIx64 ": %s from position %" PRIu64 ": %s", when,
	        (unsigned)(j_uint(f, "time_ns") / 1000000u % 1000u), j_text(f, "link"), j_text(f, "side"),
	        j_text(f, "src"), from, j_text(f, "dst"), j_uint(f, "dest_qpn"),
	        units_show_bytes(t, j_number(f, "bytes")), j_uint(f, "position"), j_text(f, "text"));
	if (j_uint(f, "syndrome") != 0)
		fprintf(out, " (AETH syndrome 0x%" PRIx64 ")", j_uint(f, "syndrome"));
	fputc('\n', out);
}

void status_show_failed(FILE *out, const struct json_object *answer)
{
	const struct json_object *flows = j_get(answer, "failed"), *f;

	if (j_uint(answer, "lost") > 0)
		fprintf(out, "the names of %" PRIu64 " older failed flows are not kept\n", j_uint(answer, "lost"));
	if (j_uint(answer, "unwritten") > 0)
		fprintf(out, "%" PRIu64 " of these are not in the record file: it could not be written\n",
		        j_uint(answer, "unwritten"));
	if (j_uint(answer, "waiting") > 0)
		fprintf(out,
		        "the last %" PRIu64 " are in the daemon's memory only: the record file cannot be written\n",
		        j_uint(answer, "waiting"));
	for (size_t i = 0; (f = j_at(flows, i)) != NULL; i++)
		show_failed_flow(out, f);
}

/* "longreach: link tokyo is port: LAN port lan0: no carrier". */
static void say_why(FILE *complaints, const struct json_object *l)
{
	const struct json_object *peer = j_get(l, "peer");
	const char *why = j_text(l, "error");

	if (why[0] == '\0')
		why = j_text(peer, "difference");
	if (why[0] == '\0')
		why = j_text(peer, "trouble");
	fprintf(complaints, "longreach: link %s is %s%s%s\n", j_text(l, "name"), j_text(l, "state"),
	        why[0] != '\0' ? ": " : "", why);
}

/* Complains about a link whose session will end soon: "longreach: link tokyo: its session ends in 240 s: ...". */
static bool reauth_is_well(FILE *complaints, const struct json_object *l)
{
	char text[ANSWER_TEXT_MAX];

	if (!answer_keys_text(l, text))
		return true;
	fprintf(complaints, "longreach: link %s: %s\n", j_text(l, "name"), text);
	return false;
}

/* Complains if the link's file differs from the running configuration: after a reboot the link would behave
 * differently. */
static void say_not_in_force(FILE *complaints, const struct json_object *l)
{
	if (j_text(l, "restart_needed")[0] != '\0')
		fprintf(complaints, "longreach: link %s: its link file is not in force: %s\n", j_text(l, "name"),
		        j_text(l, "restart_needed"));
}

bool status_is_well(FILE *complaints, const struct json_object *answer)
{
	const struct json_object *links = j_get(answer, "links"), *strays = j_get(answer, "stray_buffers"), *n;
	bool well = true, refused = j_text(answer, "refused")[0] != '\0';
	char before[128];

	/* A daemon without links is not healthy: perhaps a link's file was renamed. */
	if (j_at(links, 0) == NULL) {
		fprintf(complaints, "longreach: no link is loaded: %s\n",
		        refused ? "link files are refused" : "the daemon has no link file that ends with .conf");
		well = false;
	}
	put_refusals(answer, complaints, "longreach: the link files are not in force: ");
	if (j_bool(answer, "all_roce_closed")) {
		fprintf(complaints, "longreach: %s\n", all_roce_closed);
		well = false;
	}
	for (size_t i = 0; (n = j_at(links, i)) != NULL; i++) {
		say_not_in_force(complaints, n);
		snprintf(before, sizeof(before), "longreach: link %s: ", j_text(n, "name"));
		well &= !show_untold(complaints, n, before);
		if (strcmp(j_text(n, "state"), "up") == 0) {
			well &= reauth_is_well(complaints, n);
			continue;
		}
		say_why(complaints, n);
		well = false;
	}
	for (size_t i = 0; (n = j_at(strays, i)) != NULL; i++) {
		fprintf(complaints, "%s\n", j_text(n, "text"));
		well = false;
	}
	return well;
}

void status_show(FILE *out, const struct json_object *answer, const struct json_object *before, bool costs)
{
	const struct json_object *links = j_get(answer, "links"), *l;
	const char *gap = "";

	for (size_t i = 0; (l = j_at(links, i)) != NULL; i++) {
		fputs(gap, out);
		show_link(out, l, answer_link(before, j_text(l, "name")), costs);
		gap = "\n";
	}
	show_files(out, answer, gap);
	show_unserved(out, answer, gap);
	show_strays(out, answer, gap);
	if (gap[0] == '\0' && j_text(answer, "refused")[0] == '\0')
		fputs("no links: put a link file NAME.conf into /etc/longreach and run `longreach reload`\n", out);
}
