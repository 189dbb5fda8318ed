/* SPDX-License-Identifier: Apache-2.0 */
/* worker_command.c - commands of the main thread to a worker. */
#include "worker_priv.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/util/log.h"

/* --- flows whole --- */

/* True for flows with trouble: they come first if there are too many flows. */
static bool is_troubled(const struct proxy_flow_status *f)
{
	return f->stalled || f->rnr || f->rnr_back_pressure || f->pairing == PAIR_LEARNING || f->pos_delivered < f->pos_next;
}

/* A place for one more view; NULL: FLOW_VIEWS_MAX are reached, or no memory. */
static struct proxy_flow_view *add_view(struct worker_snapshot *s, uint32_t *room)
{
	struct flow_views *v = &s->views;
	struct proxy_flow_view *more;

	if (v->n == FLOW_VIEWS_MAX) {
		v->left_out++;
		return NULL;
	}
	if (v->n == *room) {
		*room = *room ? *room * 2 : 16;
		more = realloc(v->list, *room * sizeof(*more));
		if (!more) {
			s->out_of_memory = true;
			return NULL;
		}
		v->list = more;
	}
	return &v->list[v->n++];
}

static void view_flows(struct worker *w, struct worker_snapshot *s, bool troubled, uint32_t *room)
{
	struct proxy_flow_status flow;
	uint32_t cursor = 0;

	while (!s->out_of_memory && proxy_flow_next(w->core, &cursor, &flow)) {
		struct proxy_flow_view *v;

		if (is_troubled(&flow) != troubled || !flow_filter_fits(&s->filter, &flow))
			continue;
		v = add_view(s, room);
		if (!v)
			continue;
		v->status = flow;
		proxy_flow_facts(w->core, &flow, &v->facts);
	}
}

static void view_ended(struct worker *w, struct worker_snapshot *s, uint32_t *room)
{
	const struct proxy_flow_view *ended;
	uint32_t cursor = 0;

	while (!s->out_of_memory && (ended = proxy_flow_ended_next(w->core, &cursor))) {
		struct proxy_flow_view *v = flow_filter_fits(&s->filter, &ended->status) ? add_view(s, room) : NULL;

		if (!v)
			continue;
		*v = *ended;
		v->facts.connection_ns = proxy_host_heard(w->core, v->status.side == FLOW_NEAR ? &v->status.src : &v->status.dst);
	}
}

static void take_views(struct worker *w, struct worker_snapshot *s)
{
	const struct flow_filter *f = &s->filter;
	uint32_t room = 0;

	s->views.running_ns = w->now_ns - w->started_ns;
	s->views.heard_ns[0] = f->has_host ? proxy_host_heard(w->core, &f->host) : 0;
	s->views.heard_ns[1] = f->has_src ? proxy_host_heard(w->core, &f->src) : 0;
	s->views.heard_ns[2] = f->has_dst ? proxy_host_heard(w->core, &f->dst) : 0;
	view_flows(w, s, true, &room);
	view_ended(w, s, &room);
	view_flows(w, s, false, &room);
}

static void take_snapshot(struct worker *w, struct worker_snapshot *s)
{
	struct wan_port_stats wan;
	uint32_t cursor = 0, room = 0;
	struct proxy_flow_status flow;

	s->shard = w->params.shard;
	s->counters = *proxy_counters(w->core);
	proxy_link_status(w->core, w->now_ns, &s->status);
	s->failures_unnamed = proxy_failures_lost(w->core);
	s->no_route = w->no_route;
	s->unknown_hosts = w->unknown_hosts;
	for (uint32_t i = 0; i < w->nlan; i++) {
		struct lan_port_stats lan;

		w->lan_ops[i]->stats(w->lan[i], &lan);
		s->lan_ring_drops += lan.rx_ring_drops;
		s->lan_truncated += lan.rx_truncated;
		s->lan_not_ours += lan.rx_not_ours;
		s->lan_tx_errors += lan.tx_errors;
	}
	if (w->seal)
		seal_stats(w->seal, &s->seal);
	if (w->pause)
		lan_pause_stats(w->pause, &s->pause);
	s->latency = w->latency.sums;
	stage_meter_read(&w->stages, worker_clock_ns(CLOCK_MONOTONIC), &s->costs);
	for (uint32_t i = 0; i < w->config.npaths; i++)
		proxy_path_status(w->core, i, w->now_ns, &s->paths[i]);
	w->wan_ops->stats(w->wan, &wan);
	s->wan_tx_errors = wan.tx_errors;
	s->wan_no_socket = wan.tx_no_socket;
	s->wan_rx_drops = wan.rx_kernel_drops;
	s->wan_unmatched_drops = wan.rx_unmatched_drops;
	s->wan_foreign = wan.rx_foreign;
	s->wan_not_ours = wan.rx_not_ours;
	s->wan_bad_length = wan.rx_bad_length;
	s->wan_bad_checksum = wan.rx_bad_checksum;
	s->wan_no_route = wan.tx_no_route;
	if (s->with_views)
		take_views(w, s);
	while (s->with_flows && proxy_flow_next(w->core, &cursor, &flow)) {
		if (s->nflows == room) {
			struct proxy_flow_status *more;

			room = room ? room * 2 : 64;
			more = realloc(s->flows, room * sizeof(*more));
			if (!more) {
				s->out_of_memory = true;
				return;
			}
			s->flows = more;
		}
		s->flows[s->nflows++] = flow;
	}
}

/* Takes up a new configuration. Settings that size tables, which may be the arena's or follow from Rate=, and values
 * drawn at the start stay as they were. */
static void reconfigure(struct worker *w, struct proxy_config *pc)
{
	pc->max_flows = w->core_config.max_flows;
	pc->ip_pool_bytes = w->core_config.ip_pool_bytes;
	pc->relay_window = w->core_config.relay_window;
	pc->hash_seed = w->core_config.hash_seed;
	pc->rtt_hint_ns = w->core_config.rtt_hint_ns;
	pc->rate_hint_bps = w->core_config.rate_hint_bps;
	pc->seal = w->core_config.seal;
	pc->seal_ctx = w->core_config.seal_ctx;
	w->acks_early = worker_acks_early(pc);
	worker_say_owed(w);
	if (proxy_reconfigure(w->core, pc, w->now_ns) < 0)
		log_err("link %s: the core refused the new configuration and keeps the old one", w->label);
}

/* Begins a session together with its keys: packet numbers begin again, and no two sessions share a key. A hello of the
 * other edge stays in force for all sessions over its connection: it may be older than the report of a lost arena. */
static void begin_session(struct worker *w, const struct worker_cmd *cmd)
{
	struct proxy_session session = cmd->session;

	session.arena_lost &= !w->loss_said;
	w->loss_said |= session.arena_lost;
	if (w->seal)
		seal_take_tx(w->seal, cmd->keys);
	w->epoch_rx = cmd->session.epoch_rx;
	w->wan_ops->session(w->wan, w->epoch_rx);
	w->unmatched_at_ns = 0; /* some strays may belong to this session */
	proxy_session_start(w->core, &session, w->now_ns);
	arena_file_say_peer(&w->arena, cmd->session.peer_arena_epoch);
}

static int rebind(struct worker *w, uint32_t port)
{
	char ifname[IF_NAMESIZE];

	worker_port_name(&w->config, port, ifname);
	return w->lan_ops[port]->rebind(w->lan[port], ifname);
}

static void watch(struct worker *w, struct worker_cmd *cmd)
{
	struct flow_watch *before = w->watch;

	w->watch = cmd->watch;
	w->tapped = w->pcap_lan || w->watch;
	cmd->watch = before;
}

static void carry_out(struct worker *w, struct worker_cmd *cmd)
{
	switch (cmd->type) {
	case WORKER_SESSION:
		begin_session(w, cmd);
		return;
	case WORKER_RX_KEYS:
		seal_take_rx(w->seal, cmd->keys, w->epoch_rx);
		cmd->keys = NULL; /* the seal owns the keys now */
		break;
	case WORKER_RECONFIGURE:
		reconfigure(w, cmd->config);
		break;
	case WORKER_SNAPSHOT:
		take_snapshot(w, cmd->snapshot);
		break;
	case WORKER_REBIND:
		cmd->result = rebind(w, cmd->lan_port);
		break;
	case WORKER_WATCH:
		watch(w, cmd);
		break;
	}
	/* never full: the main thread does not send more commands than there is room for answers */
	spsc_put(&w->answers, cmd);
	w->tell_main = true;
}

unsigned worker_run_commands(struct worker *w)
{
	struct worker_cmd cmd;
	unsigned n = 0;

	while (spsc_take(&w->commands, &cmd)) {
		carry_out(w, &cmd);
		n++;
	}
	return n;
}

static void notify_main(struct worker *w)
{
	uint64_t one = 1;

	if (!w->tell_main)
		return;
	w->tell_main = false;
	if (write(w->params.notify_fd, &one, sizeof(one)) < 0)
		return; /* the counter is full: the main thread has been told already */
}

/* Events for which the ring to the main thread has no room stay in the core. */
unsigned worker_pass_events(struct worker *w)
{
	struct proxy_event ev;
	unsigned n = 0;

	while (n < EVENTS_BUDGET && !spsc_full(&w->events) && proxy_event_next(w->core, &ev)) {
		if (ev.type == EV_WAN_UP) /* the other edge's core has begun the session, too */
			arena_file_say_told(&w->arena);
		spsc_put(&w->events, &ev);
		n++;
	}
	w->tell_main |= n > 0;
	atomic_store_explicit(&w->events_lost, proxy_events_lost(w->core), memory_order_relaxed);
	notify_main(w);
	return n;
}
