/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_link.c - the doctor's checks of what the daemon tells of a link. */
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client_answer.h"
#include "client_cost.h"
#include "daemon/config/link_plan.h"
#include "daemon/util/addr.h"
#include "daemon/util/port_holder.h"
#include "daemon/util/units.h"

#define RETRIES_AT_LEAST 20   /* least repetitions within the second between two looks ... */
#define CLOCKS_APART_S   1.0  /* with a smaller difference, logs of both edges can be read side by side */
#define CLOCK_SET_AGE_S  3600 /* so long after a step of the clock it is reported, for somebody who looks after a
                               * failure */
#define FLOWS_LOOKED_AT  2000 /* most flows with a fault now that are looked for in the first look */
#define RETRIES_SHARE    0.1  /* ... and of all packets from hosts */
#define STRANGERS_SHARE  0.2  /* share of the packets from hosts; below it, answers without a flow may be of new flows */
#define LOAD_MOST        0.95 /* part of a second that a worker is busy; above it, the worker is near its limit ... */
#define LOAD_BATCH       8.0  /* ... if it takes so many packets at a time; turns of fewer packets can grow */

/* --- the two looks --- */

static bool state_is(const struct doctor_link *l, const char *state)
{
	return l->now != NULL && strcmp(j_text(l->now, "state"), state) == 0;
}

static bool runs(const struct doctor_link *l)
{
	return l->now != NULL && j_get(l->now, "counters") != NULL;
}

/* How much a counter of a group has grown between the looks; 0 if the link began in between. */
static uint64_t growth(const struct doctor_link *l, const char *group, const char *name)
{
	uint64_t is = j_uint(j_get(l->now, group), name), was = j_uint(j_get(l->before, group), name);

	return l->before != NULL && j_get(l->before, group) != NULL && is > was ? is - was : 0;
}

static const struct json_object *path_at(const struct json_object *look, size_t i)
{
	return j_at(j_get(look, "paths"), i);
}

static const char *path_name(const struct json_object *path, char text[64])
{
	const char *name = j_text(path, "name");

	snprintf(text, 64, "%s%.40s", *name != '\0' ? "path " : "the path", name);
	return text;
}

/* --- the link as a whole --- */

/* The process that has a port which the daemon could not open: the daemon may not look into other users' processes, but
 * root may. */
static const char *port_holder_of(const struct doctor_link *l, char text[PORT_HOLDER_TEXT_MAX])
{
	text[0] = '\0';
	if (strstr(j_text(l->now, "error"), "is held by") == NULL)
		return text;
	for (uint32_t i = 0; l->has_config && i < l->config.npaths && text[0] == '\0'; i++) {
		const struct path_config *p = &l->config.paths[i];

		if (*port_holder_text(PORT_UDP, &p->local, p->port, text) == '\0')
			port_holder_text(PORT_TCP, &p->local, p->port, text);
	}
	return text;
}

/* True if the link is dead for a reason that the daemon knows: a worker, here or at the other edge, lacks the session
 * or its keys. The line may be sound. */
static bool session_is_incomplete(const struct doctor_link *l)
{
	return state_is(l, "dead") && j_text(l->now, "error")[0] != '\0';
}

void doctor_link_failed(struct doctor *d, const struct doctor_link *l)
{
	char holder[PORT_HOLDER_TEXT_MAX];

	if (state_is(l, "stopped"))
		doctor_find(d, "%s\nask the operator who stopped the link why, then run `longreach start` here",
		            j_text(l->now, "error"));
	if (state_is(l, "peer_stopped"))
		doctor_find(d,
		            "an operator has stopped the link at the other edge: RoCE between its prefixes stays "
		            "closed\nrun `longreach start` at the other edge, or remove the link file at both edges");
	if (session_is_incomplete(l))
		doctor_find(
		    d,
		    "the link is dead: %s\nlook at the memory of that edge (MemoryMax= of the unit, locked memory); "
		    "longreachd tries to complete the session every few seconds",
		    j_text(l->now, "error"));
	if (!state_is(l, "failed"))
		return;
	port_holder_of(l, holder);
	doctor_find(d,
	            "the link does not start: %s%s%s%s\ncorrect the cause: longreachd tries to start the link again "
	            "every two seconds",
	            j_text(l->now, "error"), holder[0] != '\0' ? " (" : "", holder, holder[0] != '\0' ? ")" : "");
}

void doctor_edges_differ(struct doctor *d, const struct doctor_link *l)
{
	const char *difference = j_text(j_get(l->now, "peer"), "difference");

	if (difference[0] != '\0')
		doctor_find(d,
		            "the link files of the two edges disagree: %s\nmake them mirror images and run `longreach "
		            "reload` at both; until then %s",
		            difference,
		            state_is(l, "refused") ? "nothing is carried" : "nothing is acknowledged early");
}

/* Both looks: a worker that is busy takes a new configuration a moment later. */
void doctor_workers(struct doctor *d, const struct doctor_link *l)
{
	char text[ANSWER_TEXT_MAX];

	if (j_uint(l->before, "workers_not_reconfigured") > 0 && answer_workers_text(l->now, text))
		doctor_find(
		    d, "%s\nlongreachd gives them the new one every second: if this lasts, run `longreach restart %s`",
		    text, j_text(l->now, "name"));
}

void doctor_keys(struct doctor *d, const struct doctor_link *l)
{
	char text[ANSWER_TEXT_MAX];

	if (answer_keys_text(l->now, text))
		doctor_find(d, "%s\ninstall keys of one set at both edges, and run `longreach reload` at both", text);
}

/* True if the control connection failed because of the other end's name. */
static bool is_about_name(const char *trouble)
{
	return strstr(trouble, "PeerName=") != NULL;
}

void doctor_peer_name(struct doctor *d, const struct doctor_link *l)
{
	const char *trouble = j_text(j_get(l->now, "peer"), "trouble");

	if (trouble[0] != '\0' && is_about_name(trouble))
		doctor_find(
		    d, "%s\nwrite the name in the other edge's certificate into PeerName= %s, and run `longreach reload`",
		    trouble, strstr(trouble, "its PeerName=") != NULL ? "there" : "here");
}

void doctor_control(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *peer = j_get(l->now, "peer");
	const char *trouble = j_text(peer, "trouble");

	/* a control connection that was remade between the looks is not reported */
	if (!runs(l) || state_is(l, "peer_stopped") || j_bool(peer, "connected") ||
	    j_bool(j_get(l->before, "peer"), "connected") || is_about_name(trouble))
		return;
	doctor_find(d,
	            "no control connection to the other edge at %s%s%s\ncheck that longreachd runs there, that "
	            "RemoteAddress= is right, that no firewall closes TCP %" PRIu64
	            ", and that both edges have keys of one set",
	            j_text(l->now, "remote_address"), trouble[0] != '\0' ? ": " : "", trouble, j_uint(l->now, "port"));
}

void doctor_rates_apart(struct doctor *d, const struct doctor_link *l)
{
	const char *rates = j_text(j_get(l->now, "peer"), "rates");

	if (rates[0] != '\0')
		doctor_find(
		    d,
		    "%s\nwrite into Rate= of each link file what the line carries in the direction away from that edge",
		    rates);
}

/* --- clocks --- */

/* A time for a sentence: 1.5 s, 12 min, 3.2 h, 41 days. */
static const char *show_time(char text[32], double s)
{
	if (s < 120)
		snprintf(text, 32, "%.*f s", s < 10 ? 1 : 0, s);
	else if (s < 7200)
		snprintf(text, 32, "%.0f min", s / 60);
	else if (s < 2 * 86400)
		snprintf(text, 32, "%.1f h", s / 3600);
	else
		snprintf(text, 32, "%.0f days", s / 86400);
	return text;
}

/* Reports a difference only if both looks show it: a late message on the control channel looks like a clock error. */
void doctor_clocks_apart(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *now = j_get(l->now, "peer"), *was = j_get(l->before, "peer");
	double ahead = j_number(now, "clock_ahead_s"), before = j_number(was, "clock_ahead_s");
	double apart = ahead < 0 ? -ahead : ahead;
	char t[32];

	if (apart <= CLOCKS_APART_S || (before < 0 ? -before : before) <= CLOCKS_APART_S)
		return;
	doctor_find(d,
	            "the clocks of the two edges are %s apart: this edge's clock is %s. Times in their logs do not "
	            "match, and certificates begin and end at different times\nrun `chronyc tracking` or `timedatectl` "
	            "at both edges: one clock is not synchronised",
	            show_time(t, apart), ahead < 0 ? "ahead" : "behind");
}

void doctor_clock_set(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *clock = j_get(l->now, "clock");
	double by = j_number(clock, "last_jump_s"), age = j_number(clock, "last_jump_age_ns") / 1e9;
	char t[2][32];

	if (j_uint(clock, "jumps") == 0 || age > CLOCK_SET_AGE_S)
		return;
	doctor_find(
	    d,
	    "this machine's clock was set %s by %s, %s ago: earlier log lines carry times of the clock before the "
	    "step\nlet chrony or systemd-timesyncd set the clock: both step it at boot and slew it afterwards",
	    by < 0 ? "back" : "forward", show_time(t[0], by < 0 ? -by : by), show_time(t[1], age));
}

/* --- paths --- */

static bool is_down(const struct json_object *path)
{
	return strcmp(j_text(path, "state"), "up") != 0;
}

/* True if datagrams came on the path between the two looks. */
static bool is_heard(const struct doctor_link *l, size_t i)
{
	return l->before != NULL &&
	       j_uint(path_at(l->now, i), "rx_datagrams") > j_uint(path_at(l->before, i), "rx_datagrams");
}

/* True for a path that both looks found down. A new path needs a moment; a path to a stopped link is expected to be
 * down, and so is a path of a worker without the session. */
static bool stays_down(const struct doctor_link *l, size_t i)
{
	return !state_is(l, "peer_stopped") && !session_is_incomplete(l) && is_down(path_at(l->now, i)) &&
	       path_at(l->before, i) != NULL && is_down(path_at(l->before, i));
}

void doctor_path_down(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *p;
	char name[64];

	for (size_t i = 0; (p = path_at(l->now, i)) != NULL; i++)
		if (stays_down(l, i) && !is_heard(l, i))
			doctor_find(d,
			            "no datagram arrives on %s from %s\ncheck whether the line is cut, the other edge "
			            "is off, a firewall on the way drops UDP %" PRIu64
			            ", or MTU= is larger than the line carries",
			            path_name(p, name), j_text(p, "remote_address"), j_uint(p, "port"));
}

void doctor_path_asymmetric(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *p;
	char name[64];

	for (size_t i = 0; (p = path_at(l->now, i)) != NULL; i++)
		if (stays_down(l, i) && is_heard(l, i))
			doctor_find(d,
			            "%s works in one direction only: datagrams of %s arrive here, and this edge's "
			            "datagrams do not arrive there\nlook for a firewall that drops UDP %" PRIu64
			            " at the other edge or on the way, and for a wrong route",
			            path_name(p, name), j_text(p, "remote_address"), j_uint(p, "port"));
}

void doctor_path_mtu(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *p;
	char name[64];

	for (size_t i = 0; l->has_config && i < l->config.npaths && (p = path_at(l->now, i)) != NULL; i++) {
		uint64_t mtu = j_uint(p, "mtu"), was = j_uint(path_at(l->before, i), "mtu"),
		         wanted = l->config.paths[i].mtu;

		if (is_down(p) || j_bool(p, "mtu_search") || mtu == 0 || mtu >= wanted || mtu != was)
			continue;
		doctor_find(d,
		            "%s carries packets of %" PRIu64 " bytes at most, and MTU= is %" PRIu64
		            "\nraise the MTU of the line, or write MTU=%" PRIu64 " into the link file",
		            path_name(p, name), mtu, wanted, mtu);
	}
}

void doctor_distance(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *distance = j_get(l->now, "distance");
	char t[2][UNITS_TEXT_MAX];

	if (!j_bool(distance, "differs") || j_bool(distance, "stale") || !runs(l))
		return;
	doctor_find(d,
	            "Distance=%s, and by the measured round trip the line is %s long\nif Rate= is more than the line "
	            "carries, lower it: the round trip includes a queue on the line; else write the measured length, "
	            "or auto, into Distance=: longreachd computes the buffer's size from it",
	            units_show_distance(t[0], j_number(distance, "configured_m")),
	            units_show_distance(t[1], j_number(distance, "measured_m")));
}

void doctor_not_reloaded(struct doctor *d, const struct doctor_link *l)
{
	const char *waits = j_text(l->now, "restart_needed"), *digest = j_text(l->now, "config_digest");
	char file[17];

	if (waits[0] != '\0')
		doctor_find(d, "%s%s", waits,
		            strstr(waits, "systemctl") != NULL
		                ? ""
		                : "\nrun `longreach restart` with this link's name: other links go on");
	if (waits[0] != '\0' || digest[0] == '\0' || l->config.digest == 0)
		return;
	snprintf(file, sizeof(file), "%016" PRIx64, l->config.digest);
	if (strcmp(file, digest) != 0)
		doctor_find(d, "%s has other values than the daemon runs with\nrun `longreach reload`", l->config.path);
}

/* --- buffers and flows --- */

void doctor_buffer_full(struct doctor *d, const struct doctor_link *l)
{
	static const char *const pools[][3] = {
	    {"from_lan", "outward",
	     "hosts here send more than the line carries or the hosts at the other site take: run `longreach doctor` "
	     "at the other edge; a larger [Buffer] Size= holds more"},
	    {"from_wan", "inward",
	     "hosts here take less than arrives from the WAN: look for flows that are stalled or in RNR (`longreach "
	     "status --flows`)"}};
	char t[UNITS_TEXT_MAX];

	for (int i = 0; i < 2; i++) {
		const struct json_object *p = j_get(j_get(l->now, "buffer"), pools[i][0]);
		const struct json_object *was = j_get(j_get(l->before, "buffer"), pools[i][0]);
		double cap = j_number(p, "capacity_bytes"), used = j_number(p, "used_bytes");

		if (cap <= 0 || (!j_bool(p, "stuck") && (used < LINK_BUFFER_FULL * cap ||
		                                         j_number(was, "used_bytes") < LINK_BUFFER_FULL * cap)))
			continue;
		doctor_find(d, "the buffer %s is %s: %.0f %% of %s\n%s", pools[i][1],
		            j_bool(p, "stuck") ? "full, and no packet has left it for seconds" : "so full that senders are held back",
		            used / cap * 100, units_show_bytes(t, cap), pools[i][2]);
	}
}

/* Hosts with a fault: the first of them by name, and whether there are others. */
struct hosts {
	const char *name[4];
	uint32_t n; /* at most one above the number of names */
	char text[4 * (ADDR_TEXT_MAX + 2)];
};

static void add_host(struct hosts *h, const char *host)
{
	uint32_t max = sizeof(h->name) / sizeof(h->name[0]);
	size_t len = strlen(h->text);

	for (uint32_t i = 0; i < h->n && i < max; i++)
		if (strcmp(h->name[i], host) == 0)
			return;
	if (h->n < max) {
		h->name[h->n] = host;
		snprintf(h->text + len, sizeof(h->text) - len, "%s%s", len > 0 ? ", " : "", host);
	}
	h->n += h->n <= max;
}

void doctor_rnr_timer(struct doctor *d, const struct doctor_link *l)
{
	uint64_t n = growth(l, "counters", "rnr_timer_zero_rx"); /* such a wait is over within the second */
	const struct json_object *flows = j_get(l->now, "flows"), *f;
	struct hosts in_rnr = {0};

	if (n == 0)
		return;
	for (size_t i = 0; (f = j_at(flows, i)) != NULL; i++)
		if (strcmp(j_text(f, "side"), "far") == 0 && j_bool(f, "rnr"))
			add_host(&in_rnr, j_text(f, "dst"));
	doctor_find(d,
	            "a responder here has RNR timer 0, which makes its requester wait 655 ms whenever no receive is "
	            "posted (%" PRIu64 " RNR NAKs in a second%s%s)\nset min_rnr_timer of its queue pairs to about 12 (0.64 "
	                               "ms): 0 is the longest wait, not none; and post more receives",
	            n, in_rnr.n > 0 ? "; in RNR now: " : "", in_rnr.text);
}

void doctor_retry_early(struct doctor *d, const struct doctor_link *l)
{
	uint64_t again = growth(l, "drops", "lan_duplicate") + growth(l, "drops", "lan_read_retry");
	uint64_t all = growth(l, "counters", "lan_rx_packets"), gaps = growth(l, "drops", "lan_gap");

	if (again < RETRIES_AT_LEAST || (double)again < RETRIES_SHARE * (double)all)
		return;
	if (gaps > 0) { /* the NAK for a gap sends a host back over packets that are held here */
		doctor_find(d,
		            "hosts here repeat packets after gaps: %" PRIu64 " of %" PRIu64
		            " packets in a second were here already, %" PRIu64
		            " came behind a gap: the LAN between hosts and this edge loses or reorders packets\ncheck drops "
		            "and pauses of the switch ports between, PFC on the RoCE priority; `longreach explain` names the hosts",
		            again, all, gaps);
		return;
	}
	doctor_find(d,
	            "hosts here repeat packets that this edge has already: %" PRIu64 " of %" PRIu64
	            " packets in a second\nraise their local ACK timeout (timeout of the queue pair, NCCL_IB_TIMEOUT, "
	            "UCX_RC_TIMEOUT) if it is shorter than the time to an ACK%s; if it is longer, the LAN loses ACKs",
	            again, all,
	            strcmp(j_text(l->now, "ack_mode"), "near") != 0
	                ? ", which is a round trip of the line in this ack mode"
	                : "");
}

/* True if no answer has ever come, and packets wait for one. */
static bool is_unanswered(const struct json_object *f)
{
	return strcmp(j_text(f, "pairing"), "learning") == 0 && j_uint(f, "pos_next") > j_uint(f, "pos_delivered");
}

/* True if the responder answered earlier, and is silent now. */
static bool is_stalled(const struct json_object *f)
{
	return j_bool(f, "stalled") && !j_bool(f, "rnr") && strcmp(j_text(f, "pairing"), "learning") != 0;
}

/* Far flows of which fn is true at both looks, without an answer in between; their responders are added to `h`. Only
 * those of which fn is true now are looked for in the first look: an answer lists thousands of near flows first. */
static uint32_t far_flows(const struct doctor_link *l, bool (*fn)(const struct json_object *f), struct hosts *h)
{
	const struct json_object *flows = j_get(l->now, "flows"), *before = j_get(l->before, "flows"), *f, *was;
	uint32_t n = 0, looked_at = 0;
	size_t at = 0;

	for (size_t i = 0; (f = j_at(flows, i)) != NULL && looked_at < FLOWS_LOOKED_AT; i++) {
		if (strcmp(j_text(f, "side"), "far") != 0 || !fn(f))
			continue;
		looked_at++;
		was = answer_flow(before, f, &at);
		if (was == NULL || !fn(was) || j_uint(f, "pos_delivered") != j_uint(was, "pos_delivered"))
			continue;
		add_host(h, j_text(f, "dst"));
		n++;
	}
	return n;
}

void doctor_return_path(struct doctor *d, const struct doctor_link *l)
{
	struct hosts silent = {0};
	uint32_t n = far_flows(l, is_unanswered, &silent);

	if (n > 0)
		doctor_find(d,
		            "%u flow(s) have had no answer through this edge from their responders: %s%s\ncheck that "
		            "these hosts are up and that their route to the other site leads through this edge: `ip "
		            "route get` at the host",
		            n, silent.text, silent.n > 4 ? " and others" : "");
}

void doctor_stalled(struct doctor *d, const struct doctor_link *l)
{
	struct hosts still = {0};
	uint32_t n = far_flows(l, is_stalled, &still);

	if (j_uint(l->now, "flows_left_out") > 0)
		doctor_cannot(d, "%" PRIu64 " flows are not in the daemon's answer, and were not looked at",
		              j_uint(l->now, "flows_left_out"));
	if (n > 0)
		doctor_find(
		    d,
		    "%u flow(s) make no progress: their responders answered earlier and are silent now: %s%s\ncheck "
		    "that these hosts are up and that their route to the other site still leads through this edge",
		    n, still.text, still.n > 4 ? " and others" : "");
}

void doctor_request_path(struct doctor *d, const struct doctor_link *l)
{
	uint64_t n = growth(l, "drops", "lan_ack_unmatched");
	/* while a queue pair is being paired, its host's answers may fit no flow */
	bool begins = growth(l, "counters", "flows_opened") > 0 || j_uint(j_get(l->now, "flow_counts"), "learning") > 0 ||
	              j_uint(j_get(l->before, "flow_counts"), "learning") > 0;

	if (n > 0 && (!begins || (double)n > STRANGERS_SHARE * (double)growth(l, "counters", "lan_rx_packets")))
		doctor_find(
		    d,
		    "%" PRIu64
		    " answers of hosts here in a second belong to no flow of this edge\nthe other site's requests "
		    "reach these hosts around the edges: routes of the other site must lead through its edge",
		    n);
}

void doctor_overrun(struct doctor *d, const struct doctor_link *l)
{
	uint64_t lan = growth(l, "drops", "lan_kernel"), wan = growth(l, "drops", "wan_kernel");

	if (lan > 0 || wan > 0)
		doctor_find(d,
		            "this machine is too slow for the packets that arrive: the kernel dropped %" PRIu64
		            " packets of LAN ports and %" PRIu64
		            " of the WAN in a second\nraise Workers=, give the workers processors of their own "
		            "(CPUs=), raise MTU=, or run fewer programs on this machine",
		            lan, wan);
}

/* What makes a worker cheaper, or shares its work. */
static const char *load_remedy(const struct doctor_link *l)
{
	if (l->has_config && l->config.engine == ENGINE_DPDK)
		return "give the worker a faster processor (CPUs=), or raise MTU=";
	return "raise Workers= (one pair of hosts stays on one worker), raise MTU=, or use Engine=dpdk";
}

/* Queue pairs without a flow are not acknowledged early: the line's length slows them down, and nothing else tells why. */
void doctor_end_to_end(struct doctor *d, const struct doctor_link *l)
{
	uint64_t n = j_uint(j_get(l->now, "flow_counts"), "pairs_end_to_end");

	if (n > 0)
		doctor_find(d,
		            "queue pairs of %" PRIu64 " pairs of hosts found no place in the table of flows (MaxFlows=, %" PRIu64
		            " in use): they cross unaccelerated\nraise MaxFlows= at both edges, and run `longreach restart %s`",
		            n, j_uint(j_get(l->now, "flow_counts"), "near") + j_uint(j_get(l->now, "flow_counts"), "far"),
		            j_text(l->now, "name"));
}

void doctor_load(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *workers = j_get(l->now, "worker_costs"), *former = j_get(l->before, "worker_costs"), *w;

	for (size_t i = 0; (w = j_at(workers, i)) != NULL; i++) {
		const struct json_object *was = j_at(former, i);
		double load = cost_load(w, was);

		if (was == NULL || j_number(w, "running_ns") < j_number(was, "running_ns")) /* it was started in between */
			continue;
		if (load > LOAD_MOST && cost_batch(w, was) >= LOAD_BATCH)
			doctor_find(d,
			            "worker %zu had something to do %.0f %% of a second, %.0f packets at a time: it limits what "
			            "this link carries\n`longreach status %s --cycles` shows where its time goes; %s",
			            i, load * 100, cost_batch(w, was), j_text(l->now, "name"), load_remedy(l));
	}
}
