/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attack.h"
#include "check.h"
#include "flag.h"
#include "host_cm.h"
#include "proxy/wan/wan.h"

/* After the last work: the edges report, repair and free what is left. */
#define DRAIN_STEP_NS 10000000ull
#define DRAIN_MAX_NS  30000000000ull /* longer than answers are kept for hosts that ask again */
#define DRAIN_DEAF_NS 60000000000ull /* and than GiveUp: the last answers came to an edge that stood still, and then their
                                      * queue pairs were gone */
/* An audit reads every slot: this often is enough to put a violation beside its cause. */
#define AUDIT_EVENTS 1000

uint64_t world_cfg_rtt_ns(const struct world_cfg *c)
{
	uint64_t one_way_ns = c->wan.delay_ns;

	for (uint32_t i = 0; i < c->nmore; i++)
		if (c->more[i].wan.delay_ns > one_way_ns)
			one_way_ns = c->more[i].wan.delay_ns;
	return 2 * one_way_ns + 4 * c->lan.delay_ns;
}

uint64_t world_cfg_crash_over_ns(const struct world_cfg *c, uint32_t crash)
{
	return c->crash[crash].at_ns + c->crash[crash].wait_ns + c->crash[crash].down_ns;
}

bool world_cfg_is_cut(const struct world_cfg *c)
{
	return c->wan.ncuts > 0 && !c->paths_survive;
}

uint64_t world_cfg_pacers_bps(const struct world_cfg *c)
{
	uint64_t bps = c->pacer_bps;

	for (uint32_t i = 0; i < c->nmore; i++)
		bps += c->more[i].pacer_bps;
	return bps;
}

uint64_t world_rtt_ns(const struct world *w)
{
	return world_cfg_rtt_ns(&w->cfg);
}

/* 10.(1 + site).0.(1 + host), fd00:(1 + site)::(1 + host) */
struct ip_addr world_addr(uint8_t site, uint8_t host, bool ip6)
{
	struct ip_addr a = {.b = {0xfd, 0, 0, (uint8_t)(site + 1), [15] = (uint8_t)(host + 1)}};

	if (!ip6)
		a = (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, (uint8_t)(site + 1), 0, (uint8_t)(host + 1)}};
	return a;
}

bool world_host_of(const struct world *w, const struct ip_addr *a, uint8_t *site, uint8_t *host)
{
	struct ip_addr back;
	bool ip6 = !ip_addr_is4(a);

	*site = (uint8_t)(a->b[ip6 ? 3 : 13] - 1);
	*host = (uint8_t)(a->b[15] - 1);
	if (*site > 1 || *host >= w->cfg.nhosts[*site])
		return false;
	back = world_addr(*site, *host, ip6);
	return ip_addr_eq(&back, a);
}

void world_log(struct world *w, enum pktlog_kind kind, const char *what, uint8_t site, uint8_t host,
               const struct pkt *p)
{
	if (w->log_packets)
		pktlog_add(&w->log, w->q.now_ns, kind, what, site, host, p->data, p->len);
}

/* --- wires --- */

static const char *fate_name(enum link_fate fate)
{
	static const char *const name[] = {"sent", "lost", "cut", "overflow", "reordered", "doubled", "corrupted"};

	return name[fate];
}

static void tell_lan(void *obj, const struct pkt *p, enum link_fate fate)
{
	struct port *port = obj;

	world_log(port->w, LOG_LAN, fate_name(fate), port->site, port->host, p);
}

static void tell_wan(void *obj, const struct pkt *p, enum link_fate fate)
{
	struct port *port = obj;

	world_log(port->w, port->w->cfg.direct || p->plain ? LOG_LAN : LOG_WAN, fate_name(fate), port->site,
	          PKTLOG_EDGE, p);
}

/* The router of a direct world. */
static void route(struct world *w, uint8_t from, struct pkt *p)
{
	struct roce_pkt pkt;
	uint8_t site, host;

	if (roce_parse(p->data, p->len, &pkt) != DROP_NONE || !world_host_of(w, &pkt.dst, &site, &host))
		pkt_free(p);
	else if (site != from)
		link_send(&w->wan[from], p);
	else
		link_send(&w->down[site][host], p);
}

/* The edges are not in the way yet. */
static void go_past(struct world *w, uint8_t site, struct pkt *p)
{
	struct roce_pkt pkt;

	if (roce_parse(p->data, p->len, &pkt) == DROP_NONE)
		check_edge_rx(w, p, &pkt);
	p->plain = true;
	route(w, site, p);
}

static void to_edge(void *obj, struct pkt *p)
{
	struct port *port = obj;

	edge_lan_rx(&port->w->edge[port->site], p->host, p);
}

static void from_edge(void *obj, struct pkt *p)
{
	struct port *port = obj;

	link_send(&port->w->down[port->site][p->host], p);
}

enum { BATCH_WAN = 1, BATCH_SITE = 2 }; /* bits of an event's argument */

/* The first of what waits. */
static void batched_rx(void *obj, uint64_t port)
{
	struct world *w = obj;
	unsigned site = (unsigned)port / BATCH_SITE;
	bool wan = port & BATCH_WAN;
	struct pkt *p = w->batch[site][wan].head;

	w->batch[site][wan].head = p->next;
	if (!p->next)
		w->batch[site][wan].tail = &w->batch[site][wan].head;
	if (wan)
		edge_wan_rx(&w->edge[site], p);
	else
		edge_lan_rx(&w->edge[site], p->host, p);
}

/* When the edge looks at that port next: one after the other, all that has come to each. */
static uint64_t looks_ns(const struct world *w, unsigned site, bool wan)
{
	uint64_t every_ns = w->cfg.batch_ns[site];

	return (w->q.now_ns / every_ns + 1) * every_ns + (wan != w->cfg.batch_wan_first[site]);
}

static void to_batch(struct world *w, unsigned site, bool wan, struct pkt *p)
{
	p->next = NULL;
	*w->batch[site][wan].tail = p;
	w->batch[site][wan].tail = &p->next;
	eventq_at(&w->q, looks_ns(w, site, wan), batched_rx, w, site * BATCH_SITE + (wan ? BATCH_WAN : 0));
}

static void to_edge_lan(struct world *w, unsigned site, struct pkt *p)
{
	if (w->cfg.batch_ns[site])
		to_batch(w, site, false, p);
	else
		edge_lan_rx(&w->edge[site], p->host, p);
}

static void deliver_up(void *obj, struct pkt *p)
{
	struct port *port = obj;
	struct world *w = port->w;

	p->host = port->host;

	w->lan_pkts++;
	if (w->cfg.direct)
		route(w, port->site, p);
	else if (w->q.now_ns < w->cfg.edges_from_ns)
		go_past(w, port->site, p);
	else if (w->cfg.port.rate_bps)
		link_send(&w->in[port->site], p);
	else
		to_edge_lan(w, port->site, p);
}

static void deliver_down(void *obj, struct pkt *p)
{
	struct port *port = obj;

	host_rx(&port->w->host[port->site][port->host], p);
}

static void deliver_wan(void *obj, struct pkt *p)
{
	struct port *port = obj;
	uint8_t to = !port->site;

	if (port->w->cfg.direct || p->plain)
		route(port->w, to, p);
	else if (port->w->cfg.batch_ns[to])
		to_batch(port->w, to, true, p);
	else
		edge_wan_rx(&port->w->edge[to], p);
}

void world_lan_send(struct world *w, uint8_t site, uint8_t host, struct pkt *p)
{
	world_log(w, LOG_LAN, "edge tx", site, host, p);
	check_edge_tx(w, site, host, p);
	p->host = host;
	link_send(w->cfg.port.rate_bps ? &w->out[site] : &w->down[site][host], p);
}

/* --- setting up --- */

static void start_site(struct world *w, uint8_t site)
{
	const struct world_cfg *c = &w->cfg;
	uint64_t seed = rng_hash(c->seed, 1000 + site);

	for (unsigned wan = 0; wan < 2; wan++) {
		w->batch[site][wan].head = NULL; /* the world before may have ended with some */
		w->batch[site][wan].tail = &w->batch[site][wan].head;
	}
	w->wan_port[site] = (struct port){w, site, PKTLOG_EDGE};
	link_init(&w->wan[site], &c->wan, &w->q, rng_hash(seed, 1), deliver_wan, &w->wan_port[site]);
	w->wan[site].tell = tell_wan;
	link_init(&w->in[site], &c->port, &w->q, rng_hash(seed, 501), to_edge, &w->wan_port[site]);
	link_init(&w->out[site], &c->port, &w->q, rng_hash(seed, 502), from_edge, &w->wan_port[site]);
	w->out[site].cfg.queue_bytes = 0; /* a driver waits for its NIC */
	for (uint32_t i = 0; i < c->nmore; i++) {
		link_init(&w->more[site][i], &c->more[i].wan, &w->q, rng_hash(seed, 0x9a74 + i), deliver_wan,
		          &w->wan_port[site]);
		w->more[site][i].tell = tell_wan;
	}
	for (uint8_t h = 0; h < c->nhosts[site]; h++) {
		struct port *port = &w->port[site][h];

		*port = (struct port){w, site, h};
		link_init(&w->up[site][h], &c->lan, &w->q, rng_hash(seed, 2 + h * 2u), deliver_up, port);
		link_init(&w->down[site][h], &c->lan, &w->q, rng_hash(seed, 3 + h * 2u), deliver_down, port);
		w->up[site][h].tell = w->down[site][h].tell = tell_lan;
		host_init(&w->host[site][h], w, site, h, c->model[site][h]);
		w->host[site][h].up = &w->up[site][h];
		host_skip_qpns(&w->host[site][h], c->skip_qpns[site][h]);
	}
}

static void start_at(struct world *w, unsigned site, uint32_t epoch)
{
	edge_session(&w->edge[site], epoch + site, epoch + 1 - site);
}

static void start_session(void *obj, uint64_t epoch)
{
	struct world *w = obj;

	w->sessions++;
	start_at(w, 0, (uint32_t)epoch);
	start_at(w, 1, (uint32_t)epoch);
}

#define RESESSION_EPOCH 1000u

static void start_second(void *obj, uint64_t sessions)
{
	struct world *w = obj;

	if (w->sessions == sessions)
		start_at(w, w->edge_later, RESESSION_EPOCH + 2 * w->sessions);
}

/* The edges live, one of them learns of the new session first. */
static void start_resession(void *obj, uint64_t i)
{
	struct world *w = obj;
	uint64_t seed = rng_hash(w->cfg.seed, 0x5e55 + i), apart_ns = w->cfg.resession.apart_ns;

	w->sessions++;
	w->edge_later = seed & 1;
	world_note(w, (uint8_t)!w->edge_later, "a session begins anew");
	start_at(w, !w->edge_later, RESESSION_EPOCH + 2 * w->sessions);
	eventq_at(&w->q, w->q.now_ns + (apart_ns ? seed / 2 % apart_ns : 0), start_second, w, w->sessions);
}

static void give_up(void *obj, uint64_t conn)
{
	struct world *w = obj;

	check_outlived(&w->conn[conn]);
	conn_abandon(&w->conn[conn]);
}

/* What was ACKed early and lay in a lost arena is lost: nothing is promised about connections that are open. */
static void excuse_open(struct world *w)
{
	for (uint32_t i = 0; i < w->nconns; i++) {
		if (w->conn[i].state == CONN_WAITING || w->conn[i].state == CONN_OVER)
			continue;
		w->conn[i].excused = w->conn[i].given_up_later = true;
		eventq_at(&w->q, w->q.now_ns + DEATH_NS, give_up, w, i);
	}
}

static void on_edge_up(void *obj, uint64_t arg)
{
	struct world *w = obj;
	bool lost = w->cfg.crash[arg].lost;

	for (uint8_t site = 0; site < 2; site++)
		if (w->edge[site].down)
			edge_restart(&w->edge[site], lost ? PROXY_START_FRESH : PROXY_START_REBUILD);
	if (lost)
		excuse_open(w);
	/* hello goes there and back before both know of the new session */
	eventq_at(&w->q, w->q.now_ns + world_rtt_ns(w), start_session, w, 10 * (arg + 2));
}

static void crash(struct world *w, uint64_t arg)
{
	w->to_crash = 0;
	check_crash(w, w->cfg.crash[arg].sites, w->cfg.crash[arg].lost);
	relay_peer_crash(w, w->cfg.crash[arg].lost);
	for (uint8_t site = 0; site < 2; site++)
		if (w->cfg.crash[arg].sites & 1u << site) {
			edge_crash(&w->edge[site]);
			for (uint32_t h = 0; h < w->cfg.nhosts[site] && w->cfg.crash[arg].ring_lost; h++)
				link_lose(&w->down[site][h]);
		}
	eventq_at(&w->q, w->q.now_ns + w->cfg.crash[arg].down_ns, on_edge_up, w, arg);
}

void world_edge_killed(struct world *w, uint8_t site)
{
	world_note(w, site, "the edge is killed in the middle of a call");
	w->edge[site].killed_within = true;
	crash(w, w->to_crash - 1);
}

/* Nothing was to be done in time. */
static void crash_at_last(void *obj, uint64_t arg)
{
	struct world *w = obj;

	if (w->to_crash == arg + 1)
		crash(w, arg);
}

/* The first of its edges that has done so much is killed in the middle of a call, and the other one between two. */
static void on_crash(void *obj, uint64_t arg)
{
	struct world *w = obj;

	if (!w->cfg.crash[arg].steps && !w->cfg.crash[arg].stores) {
		crash(w, arg);
		return;
	}
	w->to_crash = (uint32_t)arg + 1;
	for (uint8_t site = 0; site < 2; site++)
		if (w->cfg.crash[arg].sites & 1u << site)
			edge_kill_after(&w->edge[site], w->cfg.crash[arg].steps, w->cfg.crash[arg].stores);
	eventq_at(&w->q, w->q.now_ns + w->cfg.crash[arg].wait_ns, crash_at_last, w, arg);
}

static void start_edges(struct world *w)
{
	for (uint8_t site = 0; site < 2; site++)
		edge_start(&w->edge[site], w, site);
	start_session(w, 1);
	for (uint32_t i = 0; i < w->cfg.ncrashes; i++)
		eventq_at(&w->q, w->cfg.crash[i].at_ns, on_crash, w, i);
	for (uint32_t i = 0; i < w->cfg.resession.n; i++)
		eventq_at(&w->q, w->cfg.resession.at_ns[i], start_resession, w, i);
}

/* No promise is left about connections with the dead host; at last they are given up. */
static void on_death(void *obj, uint64_t give_up)
{
	struct world *w = obj;

	for (uint32_t i = 0; i < w->nconns; i++) {
		if (w->conn[i].cfg.host[1] != 0)
			continue;
		w->conn[i].excused = true;
		if (give_up)
			conn_abandon(&w->conn[i]);
	}
}

static void on_pause(void *obj, uint64_t i)
{
	struct world *w = obj;

	host_pause(&w->host[w->cfg.pause[i].site][w->cfg.pause[i].host], w->cfg.pause[i].for_ns);
}

static void start_death(struct world *w)
{
	w->host[1][0].dead_ns = w->cfg.host_dies_ns;
	if (w->cfg.host_dies_ns == SIM_NEVER)
		return;
	eventq_at(&w->q, w->cfg.host_dies_ns, on_death, w, false);
	eventq_at(&w->q, w->cfg.host_dies_ns + DEATH_NS, on_death, w, true);
}

/* Where positions begin: in half of the seeds where they do in the field, else a round of PSNs below the end of a field
 * of some width, which a flow passes whose PSNs wrap. Below the end of all positions are two: none reaches that. */
static uint64_t pos_origin(uint64_t seed)
{
	static const uint8_t widths[] = {32, 42, 48, 62};
	uint64_t h = rng_hash(seed, 0x905), end = 1ull << widths[h / 2 % sizeof(widths)];

	if (h % 2)
		return 1ull << 40;
	return end - (end == POS_END ? 2ull : 1ull) * (ROCE_PSN_MASK + 1);
}

void world_start(struct world *w, const struct world_cfg *cfg)
{
	w->to_crash = 0;
	w->cfg = *cfg;
	proxy_pos_origin = pos_origin(cfg->seed);
	eventq_reset(&w->q);
	pktlog_reset(&w->log);
	w->violation[0] = 0;
	w->completions = w->lan_pkts = w->words_heard = w->done_ns = 0;
	w->nconns = w->conns_over = 0;
	relay_peer_start(w);
	for (uint8_t site = 0; site < 2; site++)
		start_site(w, site);
	if (!cfg->direct)
		start_edges(w);
	start_death(w);
	memset(w->hop_ns, 0, sizeof(w->hop_ns));
	for (uint32_t i = 0; i < cfg->npauses; i++)
		eventq_at(&w->q, cfg->pause[i].at_ns, on_pause, w, i);
	w->conn = calloc(cfg->nconns, sizeof(*w->conn));
	if (!w->conn) {
		perror("lrsim: connections");
		exit(2);
	}
	for (; w->nconns < cfg->nconns; w->nconns++)
		conn_init(&w->conn[w->nconns], w, w->nconns, &cfg->conn[w->nconns]);
	attack_start(w);
	crowd_start(w);
}

/* --- running --- */

void world_conn_over(struct world *w)
{
	if (++w->conns_over == w->nconns)
		w->done_ns = w->q.now_ns;
}

static bool step(struct world *w)
{
	if (w->violation[0] || !eventq_step(&w->q))
		return false;
	if (w->cfg.events_max && w->q.fired > w->cfg.events_max)
		check_fail(w, "endless", "more than %llu events", (unsigned long long)w->cfg.events_max);
	if (w->cfg.audit && !w->cfg.direct && w->q.fired % AUDIT_EVENTS == 0)
		check_audit(w);
	return true;
}

void world_run_until(struct world *w, uint64_t now_ns)
{
	while (w->q.n > 0 && w->q.heap[0].when_ns <= now_ns && step(w))
		;
	if (w->q.now_ns < now_ns)
		w->q.now_ns = now_ns;
}

static bool edges_up(const struct world *w)
{
	return !w->edge[0].down && !w->edge[1].down;
}

/* Gives the edges time to empty themselves. */
static void drain(struct world *w)
{
	uint64_t until_ns = w->q.now_ns + DRAIN_MAX_NS + (w->cfg.npauses ? DRAIN_DEAF_NS : 0);

	if (w->cfg.direct)
		return;
	while (w->violation[0] == 0 && w->q.now_ns < until_ns) {
		world_run_until(w, w->q.now_ns + DRAIN_STEP_NS);
		if (edges_up(w) && !edge_holds(&w->edge[0]) && !edge_holds(&w->edge[1]))
			break;
	}
}

static void say_what_hangs(struct world *w)
{
	for (uint32_t i = 0; i < w->nconns; i++) {
		const struct conn *c = &w->conn[i];

		if (c->state == CONN_OVER)
			continue;
		check_fail(
		    w, "progress",
		    "at %.3f s connection %u round %u (state %d) is not done: A>B completed %llu executed %llu of "
		    "%llu, "
		    "B>A completed %llu executed %llu of %llu",
		    (double)w->q.now_ns / 1e9, c->id, c->round, c->state,
		    c->qp[0] ? (unsigned long long)c->qp[0]->req.msg_completed : 0,
		    c->qp[1] ? (unsigned long long)c->qp[1]->resp.msg : 0, (unsigned long long)c->cfg.plan[0].nmsgs,
		    c->qp[1] ? (unsigned long long)c->qp[1]->req.msg_completed : 0,
		    c->qp[0] ? (unsigned long long)c->qp[0]->resp.msg : 0, (unsigned long long)c->cfg.plan[1].nmsgs);
		return;
	}
}

void world_run(struct world *w)
{
	while (w->conns_over < w->nconns && w->q.now_ns < w->cfg.deadline_ns && step(w))
		;
	if (w->violation[0])
		return;
	if (w->conns_over < w->nconns)
		say_what_hangs(w);
	drain(w);
	if (w->violation[0] == 0)
		check_end(w);
}

static void free_batch(struct pkt *p)
{
	for (struct pkt *next; p; p = next) {
		next = p->next;
		pkt_free(p);
	}
}

void world_end(struct world *w)
{
	for (uint8_t site = 0; site < 2; site++) {
		free_batch(w->batch[site][0].head);
		free_batch(w->batch[site][1].head);
		link_drain(&w->wan[site]);
		link_drain(&w->in[site]);
		link_drain(&w->out[site]);
		for (uint32_t i = 0; i < w->cfg.nmore; i++)
			link_drain(&w->more[site][i]);
		for (uint8_t h = 0; h < w->cfg.nhosts[site]; h++) {
			link_drain(&w->up[site][h]);
			link_drain(&w->down[site][h]);
			host_free(&w->host[site][h]);
		}
	}
	for (uint32_t i = 0; i < w->nconns; i++) {
		host_cm_free(&w->conn[i]);
		flag_free(&w->conn[i]);
	}
	free(w->conn);
	w->conn = NULL;
}

void world_free(struct world *w)
{
	for (uint8_t site = 0; site < 2; site++)
		edge_free(&w->edge[site]);
	relay_peer_free(w);
	eventq_free(&w->q);
	pktlog_free(&w->log);
}
