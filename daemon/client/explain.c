/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_answer.h"
#include "client_conn.h"
#include "client_wrap.h"
#include "daemon/telemetry/control.h"
#include "daemon/util/addr.h"
#include "daemon/util/flow_filter.h"
#include "daemon/util/json.h"
#include "daemon/util/units.h"
#include "doctor.h"

/* longreach(1) promises them. */
enum { EXIT_HEALTHY = 0, EXIT_FOUND = 1, EXIT_CANNOT_LOOK = 2, EXIT_NO_DAEMON = 3 };

#define BETWEEN_S	1	/* two looks at the daemon */
#define FOUND_MAX	200
#define FLOWS_SHOWN	8	/* most flows that are shown with nothing wrong */
#define DEAF_MAX	64	/* hosts for which the ARP result is remembered */
#define AROUND_MAX	16	/* hosts whose other flows are asked for */
#define LATELY_NS	30000000000ull

static const char usage[] =
    "usage: longreach explain [LINK] [FLOW|HOST] [--error N] [--json] [--list] [--control PATH]\n"
    "\n"
    "Explains why a queue pair is dead, failed or slow, from what this edge has seen. Flows that have ended count too.\n"
    "Run it as root, at both edges: each edge has seen its own site only.\n"
    "\n"
    "  HOST              10.1.0.2                   all queue pairs of that host\n"
    "  HOST:QPN          10.1.0.2:0x12, [fd00::2]:18\n"
    "  QPN               0x12 or 18                 of whichever host\n"
    "  SRC>DST           '10.1.0.2>10.2.0.2'        requests of SRC to DST; QPNs may follow: 'A:0x12>B:0x15'\n"
    "  near:N, far:N     a flow's number in `longreach status --flows`\n"
    "  (nothing)         all flows; prints those with a fault\n"
    "\n"
    "  --error N         the completion status that the program saw: 12, IBV_WC_RETRY_EXC_ERR, ...\n"
    "  --json            print JSON\n"
    "  --list            list the causes\n"
    "\n"
    "Exit code: 0 no fault; 1 a cause was found, or this edge knows no such flow or host; 2 the state could not be read,\n"
    "or not all flows were looked at and these have no fault; 3 no daemon answers.\n";

struct request {
	const char *control_path, *link, *target;
	const struct explain_error *error;
	struct flow_filter filter;
	bool json;
};

struct found {
	const struct explain_cause *cause; /* NULL: `name` */
	const char *name;
	const char *link;
	const struct json_object *flow; /* NULL: of no flow */
	uint32_t flows;                 /* flows between the same hosts with the same finding */
	struct explain_finding text;
};

struct explain {
	const struct request *r;
	struct found *found;
	uint32_t n, left_out;
	uint32_t looked_at;     /* flows */
	uint64_t not_looked_at; /* flows that the daemon's answer leaves out */
	struct {
		struct ip_addr host;
		bool deaf;
	} deaf[DEAF_MAX];
	uint32_t ndeaf;
	struct {
		struct ip_addr host;
		struct j_answer answer; /* all flows of the host; empty: the daemon gave none */
	} around[AROUND_MAX];
	uint32_t naround;
};

/* --- answers of the daemon --- */

/* Asks the daemon. EXIT_HEALTHY: a is filled in; else another exit code after a message. */
static int ask(const struct request *r, struct j_answer *a)
{
	char request[CONTROL_LINE_MAX], words[CONTROL_LINE_MAX];
	int parsed;

	snprintf(request, sizeof(request), "flow%s%s%s", r->link != NULL ? " link " : "", r->link != NULL ? r->link : "",
	         flow_filter_write(&r->filter, words, sizeof(words)));
	parsed = j_answer_take(a, client_ask(r->control_path, request));
	if (a->text == NULL)
		return EXIT_NO_DAEMON;
	if (parsed < 0) {
		fprintf(stderr, "longreach explain: cannot read the daemon's answer: run `longreach version` to see "
		                "whether the daemon is of another version\n");
		return EXIT_NO_DAEMON;
	}
	if (j_bool(a->doc, "ok"))
		return EXIT_HEALTHY;
	fprintf(stderr, "longreach explain: %s\n", j_text(a->doc, "error"));
	return EXIT_CANNOT_LOOK;
}

/* --- what is known around a flow --- */

static bool is_deaf(struct explain *e, const char *host)
{
	struct ip_addr a;

	if (addr_read(host, &a) < 0)
		return false;
	for (uint32_t i = 0; i < e->ndeaf; i++)
		if (ip_addr_eq(&e->deaf[i].host, &a))
			return e->deaf[i].deaf;
	if (e->ndeaf == DEAF_MAX)
		return false;
	e->deaf[e->ndeaf].host = a;
	e->deaf[e->ndeaf].deaf = doctor_host_is_deaf(&a);
	return e->deaf[e->ndeaf++].deaf;
}

static bool is_near(const struct json_object *flow)
{
	return strcmp(j_text(flow, "side"), "near") == 0;
}

/* All flows of a host at this edge. NULL: not known. */
static const struct json_object *flows_of_host(struct explain *e, const char *link, const char *host)
{
	struct request r = {.control_path = e->r->control_path, .filter = {.has_host = true}};
	uint32_t i;

	if (addr_read(host, &r.filter.host) < 0)
		return NULL;
	for (i = 0; i < e->naround; i++)
		if (ip_addr_eq(&e->around[i].host, &r.filter.host))
			break;
	if (i == AROUND_MAX)
		return NULL;
	if (i == e->naround) {
		e->naround++;
		e->around[i].host = r.filter.host;
		(void)ask(&r, &e->around[i].answer);
	}
	return j_get(answer_link(e->around[i].answer.doc, link), "flows");
}

/* True if that host was heard by flow f since `flow` began, or within LATELY_NS before. */
static bool heard_since(const struct json_object *f, const char *age, const struct json_object *flow)
{
	const struct json_object *facts = j_get(f, "facts");

	return !j_bool(f, "ended") && j_has(facts, age) &&
	       j_uint(facts, age) < j_uint(j_get(flow, "facts"), "opened_age_ns") + LATELY_NS;
}

/* True if another queue pair of a far flow's responder answers at this edge, or sends requests here, by these flows. */
static bool answers_elsewhere(const struct json_object *flows, const struct json_object *flow)
{
	const char *host = j_text(flow, "dst");
	const struct json_object *f;

	for (size_t i = 0; (f = j_at(flows, i)) != NULL; i++) {
		if (f == flow)
			continue;
		if (is_near(f) && strcmp(j_text(f, "src"), host) == 0 && heard_since(f, "host_heard_age_ns", flow))
			return true;
		if (!is_near(f) && strcmp(j_text(f, "dst"), host) == 0 &&
		    strcmp(j_text(f, "pairing"), "learning") != 0 &&
		    j_uint(f, "dest_qpn") != j_uint(flow, "dest_qpn") &&
		    j_uint(f, "pos_delivered") > j_uint(f, "pos_base") &&
		    heard_since(f, "responder_heard_age_ns", flow))
			return true;
	}
	return false;
}

/* True if a far flow waits for its responder. Of others nothing is asked: there is room for DEAF_MAX and AROUND_MAX hosts. */
static bool waits_for_host(const struct json_object *flow)
{
	return strcmp(j_text(flow, "pairing"), "learning") == 0 || j_uint(j_get(flow, "facts"), "undelivered") > 0;
}

/* The same, although somebody has named a single flow: the daemon's answer then lacks the host's other flows. */
static bool host_answers(struct explain *e, const char *link, const struct json_object *flows,
                         const struct json_object *flow)
{
	bool asks = e->r->target != NULL && waits_for_host(flow);

	return answers_elsewhere(flows, flow) ||
	       (asks && answers_elsewhere(flows_of_host(e, link, j_text(flow, "dst")), flow));
}

/* True if an earlier life of a near flow was given up, and this one began within LATELY_NS: the packets now are its
 * requester's repetitions, or the program's next try. */
static bool failed_before(const struct json_object *flows, const struct json_object *flow)
{
	const struct json_object *f;

	for (size_t i = 0; (f = j_at(flows, i)) != NULL; i++)
		if (f != flow && is_near(f) && j_bool(j_get(f, "facts"), "failed") &&
		    j_uint(f, "ended_age_ns") < j_uint(j_get(flow, "facts"), "opened_age_ns") + LATELY_NS &&
		    j_uint(f, "dest_qpn") == j_uint(flow, "dest_qpn") &&
		    strcmp(j_text(f, "src"), j_text(flow, "src")) == 0 &&
		    strcmp(j_text(f, "dst"), j_text(flow, "dst")) == 0)
			return true;
	return false;
}

/* --- findings --- */

static struct found *place_for(struct explain *e, const char *name, const char *link, const struct json_object *flow)
{
	for (uint32_t i = 0; flow != NULL && i < e->n; i++) {
		struct found *f = &e->found[i];

		if (f->flow != NULL && strcmp(f->name, name) == 0 && strcmp(f->link, link) == 0 &&
		    strcmp(j_text(f->flow, "side"), j_text(flow, "side")) == 0 &&
		    j_bool(f->flow, "ended") == j_bool(flow, "ended") &&
		    strcmp(j_text(f->flow, "src"), j_text(flow, "src")) == 0 &&
		    strcmp(j_text(f->flow, "dst"), j_text(flow, "dst")) == 0) {
			f->flows++;
			return NULL;
		}
	}
	if (e->n == FOUND_MAX) {
		e->left_out++;
		return NULL;
	}
	e->found[e->n] = (struct found){.name = name, .link = link, .flow = flow, .flows = 1};
	return &e->found[e->n++];
}

static void explain_flow(struct explain *e, const struct explain_flow *f)
{
	struct explain_finding text;
	bool ended = false;

	e->looked_at++;
	for (uint32_t i = 0; i < explain_ncauses; i++) {
		const struct explain_cause *c = &explain_causes[i];
		struct found *place;

		if (ended || !c->look(f, &text))
			continue;
		ended = c->ends;
		place = place_for(e, c->name, j_text(f->link, "name"), f->flow);
		if (place == NULL)
			continue;
		place->cause = c;
		place->text = text;
	}
}

static void explain_link(struct explain *e, const struct json_object *link, const struct json_object *link_before)
{
	const struct json_object *flows = j_get(link, "flows"), *flow;
	double ns = j_number(link, "taken_ns") - j_number(link_before, "taken_ns");
	size_t at = 0;

	e->not_looked_at += j_uint(link, "flows_left_out");
	for (size_t i = 0; (flow = j_at(flows, i)) != NULL; i++) {
		struct explain_flow f = {.link = link,
		                         .link_before = link_before,
		                         .flow = flow,
		                         .facts = j_get(flow, "facts"),
		                         .seconds = ns > 0 ? ns / 1e9 : BETWEEN_S,
		                         .near = is_near(flow)};

		if (!j_bool(flow, "ended"))
			f.before = answer_flow(j_get(link_before, "flows"), flow, &at);
		f.host_deaf = !f.near && waits_for_host(flow) && is_deaf(e, j_text(flow, "dst"));
		f.failed_before = f.near && strcmp(j_text(flow, "pairing"), "learning") == 0 && failed_before(flows, flow);
		f.host_answers = !f.near && host_answers(e, j_text(link, "name"), flows, flow);
		explain_flow(e, &f);
	}
}

/* --- nothing is known --- */

static bool in_prefixes(const struct json_object *list, const struct ip_addr *a)
{
	const struct json_object *p;
	struct ip_prefix prefix;

	for (size_t i = 0; (p = j_at(list, i)) != NULL; i++)
		if (addr_read_prefix(j_string(p), &prefix) == 0 && ip_prefix_any(&prefix, 1, a))
			return true;
	return false;
}

/* The link that covers a host: on this side (local) or on the other. */
static const struct json_object *covering(const struct j_answer *a, const struct ip_addr *host, bool *local)
{
	const struct json_object *links = j_get(a->doc, "links"), *l;

	for (size_t i = 0; (l = j_at(links, i)) != NULL; i++) {
		*local = in_prefixes(j_get(l, "local_prefixes"), host);
		if (*local || in_prefixes(j_get(l, "remote_prefixes"), host))
			return l;
	}
	return NULL;
}

static void find(struct explain *e, const char *name, const char *link, const struct explain_finding *text)
{
	struct found *place = place_for(e, name, link, NULL);

	if (place != NULL)
		place->text = *text;
}

/* Text: how many RoCEv2 packets came and were dropped. */
static void refused_packets(const struct json_object *link, char *text, size_t cap)
{
	static const char *const drops[][2] = {
	    {"lan_ttl", "with a hop limit of 1: the program must set one above 1, which ibv_rc_pingpong does not"},
	    {"lan_bad_icrc", "with a wrong ICRC: a NAT or a tunnel on the way changed them"},
	    {"lan_foreign", "from or to addresses outside the link's prefixes"},
	    {"lan_unpaired_full", "of hosts with too many queue pairs that no responder answers"}};
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(drops) / sizeof(drops[0]); i++) {
		uint64_t n = j_uint(j_get(link, "drops"), drops[i][0]);

		if (n > 0 && at < cap)
			at += (size_t)snprintf(text + at, cap - at, "; this edge dropped %" PRIu64 " packets %s", n,
			                       drops[i][1]);
	}
}

/* True if queue pairs of hosts cross without a flow: an unknown host may be one of them. */
static bool crosses_without_flow(struct explain *e, const struct json_object *link, const char *host)
{
	uint64_t pairs = j_uint(j_get(link, "flow_counts"), "pairs_end_to_end");
	struct explain_finding text;

	if (pairs == 0)
		return false;
	explain_say(&text,
	            "no flow: this edge has no flow of %s, and its table is full: queue pairs of %" PRIu64
	            " pairs of hosts cross unaccelerated and leave no facts\nraise MaxFlows= at both edges, and restart the link",
	            host, pairs);
	find(e, "no_place", j_text(link, "name"), &text);
	return true;
}

static void unknown_host(struct explain *e, const struct j_answer *a, const struct ip_addr *host, const char *seen_key)
{
	char t[ADDR_TEXT_MAX], age[2][UNITS_TEXT_MAX], dropped[400], key[40];
	const struct json_object *link, *seen;
	struct explain_finding text;
	bool local;

	addr_write(host, t, sizeof(t));
	link = covering(a, host, &local);
	if (link == NULL) {
		explain_say(&text,
		            "address: %s is in no LocalPrefix= and no RemotePrefix= of any link here: its packets are "
		            "not carried\ncheck that the RDMA device uses this address (GID index: perftest -x, "
		            "NCCL_IB_GID_INDEX, `show_gids`), and add its prefix to the link files of both edges",
		            t);
		find(e, "address", "", &text);
		return;
	}
	if (crosses_without_flow(e, link, t))
		return;
	units_show_time(age[0], j_number(link, "running_ns"));
	snprintf(key, sizeof(key), "%s_age_ns", seen_key);
	seen = j_get(link, "connections_seen");
	refused_packets(link, dropped, sizeof(dropped));
	if (local && j_has(seen, key))
		explain_say(&text,
		            "GID: this edge has no flow of %s, and remembers none of the last that ended in %s; a TCP connection of "
		            "that host began %s ago: the host's route leads here, its RDMA device does not use that route%s\ncheck "
		            "which GID the program uses (perftest -x, NCCL_IB_GID_INDEX; `show_gids` on the host): it "
		            "must be RoCE v2, with an address in LocalPrefix=",
		            t, age[0], units_show_time(age[1], j_number(seen, key)), dropped);
	else if (local)
		explain_say(&text,
		            "route: this edge has no flow of %s for the other site, and remembers none of the last that ended "
		            "in the %s since it started: if that host has sent RoCEv2 lately, its route does not lead "
		            "here%s\non that host `ip route get ADDRESS-THERE from %s` must name this edge's LAN address as "
		            "next hop; then check the switches and the VLAN between, and the GID (`show_gids`)",
		            t, age[0], dropped, t);
	else
		explain_say(&text,
		            "nothing known: in the %s since it started this edge has seen no flow with %s, which is at "
		            "the other site\nrun `longreach explain %s` at the other edge, and `longreach explain` "
		            "here with the address of the host that talks to it",
		            age[0], t, t);
	find(e, local ? j_has(seen, key) ? "gid" : "route" : "not_seen", j_text(link, "name"), &text);
}

static void nothing_known(struct explain *e, const struct j_answer *a)
{
	const struct flow_filter *f = &e->r->filter;
	const struct json_object *link = j_at(j_get(a->doc, "links"), 0);
	struct explain_finding text;
	char age[UNITS_TEXT_MAX];

	if (link == NULL) {
		explain_say(&text, "this daemon has no link\nput a link file that ends with .conf into /etc/longreach and run "
		                   "`longreach reload`");
		find(e, "no_link", "", &text);
		return;
	}
	if (f->has_src)
		unknown_host(e, a, &f->src, "src");
	if (f->has_dst && e->n == 0)
		unknown_host(e, a, &f->dst, "dst");
	if (f->has_host)
		unknown_host(e, a, &f->host, "host");
	if (e->n > 0)
		return;
	explain_say(&text,
	            "nothing known: this edge has no such flow, and remembers none of the last that ended in the %s since it "
	            "started\n`longreach status --flows` lists the flows; check that this is the right edge, and that "
	            "the QPN is the NIC's (`rdma resource show qp`)",
	            units_show_time(age, j_number(link, "running_ns")));
	find(e, "not_seen", "", &text);
}

/* True if the link carries one of the hosts that somebody named, or nobody named one. */
static bool concerns(const struct explain *e, const struct json_object *link)
{
	const struct flow_filter *f = &e->r->filter;
	const struct ip_addr *named[] = {f->has_host ? &f->host : NULL, f->has_src ? &f->src : NULL,
	                                 f->has_dst ? &f->dst : NULL};
	bool any = false;

	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		any |= named[i] != NULL;
		if (named[i] != NULL && (in_prefixes(j_get(link, "local_prefixes"), named[i]) ||
		                         in_prefixes(j_get(link, "remote_prefixes"), named[i])))
			return true;
	}
	return !any;
}

/* A link that does not run has no flows that a cause could look at. */
static void link_at_rest(struct explain *e, const struct json_object *link)
{
	const char *error = j_text(link, "error"), *name = j_text(link, "name");
	struct explain_finding text;

	if (j_get(link, "counters") != NULL || !concerns(e, link))
		return;
	explain_say(&text,
	            "line: no packet crosses between the edges now: the link does not run (%s%s%s)\n`longreach doctor %s` "
	            "says what to do",
	            j_text(link, "state"), error[0] != '\0' ? ": " : "", error, name);
	find(e, "line_down", name, &text);
}

/* --- what is said --- */

static bool fits_error(const struct request *r, const struct found *f)
{
	return r->error == NULL || f->cause == NULL || (f->cause->errors & 1u << r->error->number) != 0;
}

static void print_finding(FILE *out, const struct explain *e, const struct found *f)
{
	char name[200] = "", ended[64] = "", t[UNITS_TEXT_MAX], more[48] = "";

	if (f->flow != NULL) {
		explain_flow_name(f->flow, name, sizeof(name));
		if (j_bool(f->flow, "ended"))
			snprintf(ended, sizeof(ended), " (ended %s ago)", units_show_time(t, j_number(f->flow, "ended_age_ns")));
	}
	if (f->flows > 1)
		snprintf(more, sizeof(more), " and %u more between these hosts", f->flows - 1);
	fprintf(out, "%s%s%s%s%s%s%s%s: %s%s%s\n", f->link, f->link[0] != '\0' ? ": " : "", f->name, name[0] != '\0' ? ": " : "",
	        name, ended, more, fits_error(e->r, f) ? "" : " [leads to other errors]", f->text.what,
	        f->text.todo[0] != '\0' ? " -> " : "", f->text.todo);
}

static void print_healthy(FILE *out, const struct explain *e, const struct j_answer *a)
{
	const struct json_object *links = j_get(a->doc, "links"), *link, *flow;
	char name[200], t[UNITS_TEXT_MAX], ago[32 + UNITS_TEXT_MAX];
	uint32_t shown = 0;

	fprintf(out, "nothing is wrong with %u flow%s here", e->looked_at, e->looked_at == 1 ? "" : "s");
	fprintf(out, e->r->target != NULL ? ":\n" : "\n");
	for (size_t i = 0; e->r->target != NULL && (link = j_at(links, i)) != NULL; i++)
		for (size_t k = 0; (flow = j_at(j_get(link, "flows"), k)) != NULL && shown < FLOWS_SHOWN;
		     k++, shown++) {
			const struct json_object *facts = j_get(flow, "facts");
			const char *heard = is_near(flow) ? "host_heard_age_ns" : "responder_heard_age_ns";

			if (j_has(facts, heard))
				snprintf(ago, sizeof(ago), "heard %s ago", units_show_time(t, j_number(facts, heard)));
			else
				snprintf(ago, sizeof(ago), "not heard since this edge started");
			fprintf(out, "  %s%s: %" PRIu64 " messages, %s, %" PRIu64 " packets not delivered, host %s\n",
			        explain_flow_name(flow, name, sizeof(name)), j_bool(flow, "ended") ? " (ended)" : "",
			        j_uint(flow, "messages"), units_show_bytes(t, j_number(flow, "bytes")),
			        j_uint(facts, "undelivered"), ago);
		}
	if (e->r->target != NULL && shown < e->looked_at)
		fprintf(out, "  and %u more\n", e->looked_at - shown);
}

static void print_text(FILE *out, const struct explain *e, const struct j_answer *a)
{
	const struct explain_error *error = e->r->error;
	bool fits = false;

	if (error != NULL)
		fprintf(out, "error %u, IBV_WC_%s: %s\n", error->number, error->name, error->text);
	for (unsigned other = 0; other < 2; other++)
		for (uint32_t i = 0; i < e->n; i++)
			if (fits_error(e->r, &e->found[i]) == (other == 0)) {
				print_finding(out, e, &e->found[i]);
				fits |= other == 0;
			}
	if (e->left_out > 0)
		fprintf(out, "and %u more findings: name a host to see fewer\n", e->left_out);
	if (e->n == 0)
		print_healthy(out, e, a);
	if (e->not_looked_at > 0)
		fprintf(out,
		        "%" PRIu64
		        " more flows were not looked at, of those without a fault that shows at once: name a host\n",
		        e->not_looked_at);
	if (error != NULL && !fits)
		fprintf(out,
		        "no finding of this edge explains error %u: run `longreach explain` at the other edge, and "
		        "`longreach doctor`\n",
		        error->number);
}

static void print_json(const struct explain *e)
{
	struct json j = {.stream = stdout};

	json_object(&j, NULL);
	json_bool(&j, "healthy", e->n == 0 && e->not_looked_at == 0);
	json_uint(&j, "flows_looked_at", e->looked_at);
	json_uint(&j, "flows_left_out", e->not_looked_at);
	json_uint(&j, "left_out", e->left_out);
	json_array(&j, "findings");
	for (uint32_t i = 0; i < e->n; i++) {
		const struct found *f = &e->found[i];
		char name[200];

		json_object(&j, NULL);
		json_string(&j, "link", f->link);
		json_string(&j, "cause", f->name);
		json_bool(&j, "fits_error", fits_error(e->r, f));
		json_uint(&j, "flows", f->flow != NULL ? f->flows : 0);
		if (f->flow != NULL) {
			json_string(&j, "flow", explain_flow_name(f->flow, name, sizeof(name)));
			json_string(&j, "side", j_text(f->flow, "side"));
			json_uint(&j, "id", j_uint(f->flow, "id"));
			json_string(&j, "src", j_text(f->flow, "src"));
			json_string(&j, "dst", j_text(f->flow, "dst"));
			json_uint(&j, "requester_qpn", j_uint(f->flow, "requester_qpn"));
			json_uint(&j, "dest_qpn", j_uint(f->flow, "dest_qpn"));
			json_bool(&j, "ended", j_bool(f->flow, "ended"));
			if (j_bool(f->flow, "ended"))
				json_uint(&j, "ended_age_ns", j_uint(f->flow, "ended_age_ns"));
		}
		json_string(&j, "what", f->text.what);
		json_string(&j, "do", f->text.todo);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_object_end(&j);
	putchar('\n');
}

static void print_wrapped(const struct explain *e, const struct j_answer *a)
{
	unsigned columns = wrap_columns(stdout);
	char *text = NULL;
	size_t len;
	FILE *f = columns != 0 ? open_memstream(&text, &len) : NULL;

	print_text(f != NULL ? f : stdout, e, a);
	if (f != NULL && fclose(f) == 0)
		wrap_write(stdout, text, columns);
	free(text);
}

/* --- the command --- */

static void explain_all(struct explain *e, const struct j_answer *before, const struct j_answer *now)
{
	const struct json_object *links = j_get(now->doc, "links"), *link;

	for (size_t i = 0; (link = j_at(links, i)) != NULL; i++) {
		explain_link(e, link, answer_link(before->doc, j_text(link, "name")));
		link_at_rest(e, link);
	}
	if (e->looked_at == 0 && e->n == 0 && (e->r->target != NULL || j_at(links, 0) == NULL))
		nothing_known(e, now);
}

static int explain(const struct request *r)
{
	struct explain *e = calloc(1, sizeof(*e));
	struct j_answer before = {0}, now = {0};
	int code;

	if (e != NULL)
		e->found = calloc(FOUND_MAX, sizeof(*e->found));
	if (e == NULL || e->found == NULL) {
		fputs("longreach explain: not enough memory\n", stderr);
		free(e);
		return EXIT_CANNOT_LOOK;
	}
	e->r = r;
	code = ask(r, &before);
	if (code == EXIT_HEALTHY) {
		sleep(BETWEEN_S);
		code = ask(r, &now);
	}
	if (code == EXIT_HEALTHY) {
		explain_all(e, &before, &now);
		if (r->json)
			print_json(e);
		else
			print_wrapped(e, &now);
		code = e->n > 0 ? EXIT_FOUND : e->not_looked_at > 0 ? EXIT_CANNOT_LOOK : EXIT_HEALTHY;
	}
	j_answer_free(&before);
	j_answer_free(&now);
	for (uint32_t i = 0; i < e->naround; i++)
		j_answer_free(&e->around[i].answer);
	free(e->found);
	free(e);
	return code;
}

static int list_causes(void)
{
	puts("route: a host here has never sent RoCEv2 to this edge: its route does not lead here");
	puts("gid: a host here sends TCP to this edge, and has never sent RoCEv2");
	puts("address: an address that no prefix of any link contains");
	puts("not_seen: this edge has seen no such flow or host");
	puts("no_place: the table of flows is full, and queue pairs cross without a flow");
	puts("no_link: the daemon has no link");
	for (uint32_t i = 0; i < explain_ncauses; i++)
		printf("%s: %s\n", explain_causes[i].name, explain_causes[i].text);
	return EXIT_HEALTHY;
}

static int bad_usage(const char *what, const char *about)
{
	fprintf(stderr, "longreach explain: %s%s\n%s", what, about, usage);
	return EXIT_CANNOT_LOOK;
}

/* The words behind the options: [LINK] [FLOW|HOST]. A word that is neither a host nor a number is a link. */
static int take_words(struct request *r, int argc, char **argv)
{
	const char *what;

	if (optind < argc && flow_filter_parse(&r->filter, argv[optind], &what) < 0) {
		if (strpbrk(argv[optind], ":>. \t") != NULL && optind + 1 == argc && strchr(argv[optind], ':') != NULL)
			return bad_usage("expected a link, HOST, HOST:QPN, QPN, SRC>DST, near:N or far:N, not ", what);
		r->link = argv[optind++];
		memset(&r->filter, 0, sizeof(r->filter));
	}
	if (optind < argc) {
		r->target = argv[optind++];
		if (flow_filter_parse(&r->filter, r->target, &what) < 0)
			return bad_usage("expected HOST, HOST:QPN, QPN, SRC>DST, near:N or far:N, not ", what);
	}
	if (optind < argc)
		return bad_usage("expected [LINK] and one flow or host, not also ", argv[optind]);
	if (r->link != NULL && strpbrk(r->link, " \t\r\n") != NULL)
		return bad_usage("expected a link's name without blanks, not ", r->link);
	return EXIT_HEALTHY;
}

int explain_main(int argc, char **argv, const char *control_path)
{
	static const struct option options[] = {
	    {"json", no_argument, NULL, 'j'},          {"list", no_argument, NULL, 'l'},
	    {"error", required_argument, NULL, 'e'},   {"control", required_argument, NULL, 'c'},
	    {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
	struct request r = {.control_path = control_path};
	int opt, code;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			return EXIT_HEALTHY;
		}
		if (opt == 'l')
			return list_causes();
		if (opt == 'j')
			r.json = true;
		else if (opt == 'c')
			r.control_path = optarg;
		else if (opt == 'e')
			r.error = explain_error_find(optarg);
		else
			return EXIT_CANNOT_LOOK;
		if (opt == 'e' && r.error == NULL)
			return bad_usage(
			    "expected a completion status that a network can cause (--help names two), not ", optarg);
	}
	code = take_words(&r, argc, argv);
	return code == EXIT_HEALTHY ? explain(&r) : code;
}
