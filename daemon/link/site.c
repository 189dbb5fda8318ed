/* SPDX-License-Identifier: Apache-2.0 */
/* site.c - a link as the main thread sees it. */
#include "site.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "daemon/util/addr.h"
#include "daemon/arena/arena_file.h"
#include "daemon/closed/closed.h"
#include "daemon/util/clock.h"
#include "failed_record.h"
#include "daemon/config/link_plan.h"
#include "daemon/util/log.h"
#include "daemon/privileged/sandbox.h"
#include "port_watch.h"
#include "start_watch.h"
#include "daemon/util/units.h"
#include "headroom/headroom.h"

#define MIB       (1ull << 20)
#define WAITS_MAX (3 * CONFIG_ERR_MAX) /* two sentences with names of files and directories */

enum site_times {
	RETRY_MS = 2000,      /* between attempts to start a link when no change was seen */
	LOOK_MS = 200,        /* between looks at what keeps a link from starting */
	RETRY_LEAST_MS = 500, /* between attempts, however often things change */
	SAMPLE_S = 1,
	PORTS_AGAIN_MS = 100, /* between looks at LAN ports that are not in place yet */
	EVENT_WINDOW_S = 10,
	EVENTS_PER_WINDOW = 10, /* events of one type that are logged; further ones are only counted */
	OFFER_SLOW_S = 3,       /* an offer of keys that waits so long is reported: the other edge takes keys within a
	                         * round trip and some milliseconds */
};

/* Why a link does not run or carry, or not as it should. Several may hold at a time. Those of a link that does not run
 * are TROUBLE_RULES and TROUBLE_START. */
enum trouble {
	TROUBLE_START,   /* the link cannot be started, or an operator has stopped it */
	TROUBLE_RULES,   /* the kernel's rules cannot be set */
	TROUBLE_PORT,    /* a LAN port, address or route does not work */
	TROUBLE_SESSION, /* a worker is not in the session */
	TROUBLE_KEYS,    /* a worker cannot take the keys that the other edge is about to use */
	TROUBLE_OFFER,   /* the other edge does not take the keys that this edge is about to use */
	TROUBLES,
};

/* The sums that rates are computed from. */
struct sample {
	uint64_t taken_ns; /* 0: none */
	uint64_t lan_rx_bytes, lan_tx_bytes, wan_tx_bytes, wan_rx_bytes;
	uint64_t wan_tx_dgrams, wan_lost;
};

struct site {
	struct link_config config;
	struct event_base *base;
	const char *pcap_dir;
	struct failed_record *failed; /* NULL: none is kept */
	struct link *link;
	struct peer *peer;
	struct port_watch *ports;
	struct {
		char text[CONFIG_ERR_MAX]; /* empty: none */
		uint64_t number;           /* a larger one is newer */
	} trouble[TROUBLES];
	uint64_t ntroubles;                         /* that there were */
	char troubles[TROUBLES * CONFIG_ERR_MAX];   /* present troubles, the newest first; empty: none */
	char follow_error[CONFIG_ERR_MAX];          /* why LAN ports are not taken up yet; empty: they are */
	struct event *follow;            /* restarts the link because the other edge's barrier has changed:
	                                  * barrier_follows */
	bool barrier_follows;            /* Barrier=auto is to be pair */
	struct event *timer;             /* samples a running link, tries to start one that failed */
	struct start_view stands;        /* of a link that does not run: the state of files, ports and memory before the
	                                  * last attempt */
	uint64_t tried_ns;               /* the last attempt */
	bool rests;                      /* the link does not run, and its rules are set */
	uint64_t rested_ns;              /* the last attempt to set them */
	struct log_limit start_said;
	struct sample last, before;
	struct proxy_link_status status; /* at the sample `last` */
	bool sampling; /* a snapshot was requested and not answered yet */
	struct distance distance;
	struct log_limit events[EV_COUNT];
	uint64_t event_counts[EV_COUNT];
	struct log_limit rules_said;
	uint64_t truncated; /* frames larger than a place in a LAN port's ring, so far */
	struct log_limit truncated_said, ports_said, keys_said;
	bool buffer_said; /* the log has said how many queue pairs the buffer serves */
	bool halted;      /* stopped by an operator */
	char waits[WAITS_MAX];            /* why its file is not in force; empty: it is */
	char buffer_note[CONFIG_ERR_MAX]; /* how its buffer differs from the configured one; empty: not at all */
};

/* --- what is wrong with a link --- */

static bool has_trouble(const struct site *s, enum trouble t)
{
	return s->trouble[t].text[0] != '\0';
}

static void write_troubles(struct site *s)
{
	uint64_t below = UINT64_MAX;
	size_t len = 0;

	s->troubles[0] = '\0';
	for (;;) {
		int newest = -1;

		for (int i = 0; i < TROUBLES; i++)
			if (has_trouble(s, (enum trouble)i) && s->trouble[i].number < below &&
			    (newest < 0 || s->trouble[i].number > s->trouble[newest].number))
				newest = i;
		if (newest < 0)
			return;
		below = s->trouble[newest].number;
		len += (size_t)snprintf(s->troubles + len, sizeof(s->troubles) - len, "%s%s", len > 0 ? "; " : "",
		                        s->trouble[newest].text);
		if (len >= sizeof(s->troubles))
			return;
	}
}

/* Sets or, with an empty text, ends a trouble. True if it changed. */
static bool set_trouble(struct site *s, enum trouble t, const char *text)
{
	if (strcmp(text, s->trouble[t].text) == 0)
		return false;
	snprintf(s->trouble[t].text, sizeof(s->trouble[t].text), "%s", text);
	s->trouble[t].number = ++s->ntroubles;
	write_troubles(s);
	return true;
}

static void end_troubles(struct site *s)
{
	for (int i = 0; i < TROUBLES; i++)
		set_trouble(s, (enum trouble)i, "");
	s->follow_error[0] = '\0';
}

/* --- events of the core --- */

static enum log_level event_level(enum proxy_event_type type)
{
	switch (proxy_event_severity(type)) {
	case 'e':
		return LOG_LEVEL_ERR;
	case 'w':
		return LOG_LEVEL_WARN;
	default:
		return LOG_LEVEL_INFO;
	}
}

/* "10.1.0.1 -> 10.2.0.1 QP 0x12 (from QP 0x34): ", or nothing for events of the whole link. */
static void describe_flow(const struct proxy_event *ev, char *text, size_t cap)
{
	char src[ADDR_TEXT_MAX], dst[ADDR_TEXT_MAX], from[32] = "";

	text[0] = '\0';
	if (addr_is_unspecified(&ev->dst))
		return;
	if (ev->requester_qpn != 0)
		snprintf(from, sizeof(from), " (from QP 0x%x)", ev->requester_qpn);
	snprintf(text, cap, "%s -> %s QP 0x%x%s: ", addr_write(&ev->src, src, sizeof(src)),
	         addr_write(&ev->dst, dst, sizeof(dst)), ev->dest_qpn, from);
}

static void describe_extent(const struct proxy_event *ev, char *text, size_t cap)
{
	text[0] = '\0';
	if (ev->type == EV_FLOW_FAILED)
		snprintf(text, cap, ", %" PRIu64 " bytes from position %" PRIu64 ": %s", ev->value, ev->pos,
		         proxy_failure_text(ev->failure));
}

static void on_link_event(void *arg, struct link *l, const struct proxy_event *ev)
{
	char flow[160], extent[160], more[80] = "";
	struct site *s = arg;
	uint32_t missed;

	(void)l;
	if (ev->type >= EV_COUNT)
		return;
	s->event_counts[ev->type]++;
	if ((ev->type == EV_FLOW_FAILED || ev->type == EV_FLOW_IN_DOUBT) && s->failed != NULL)
		failed_record_add(s->failed, s->config.name, ev);
	if (!log_limit_pass(&s->events[ev->type], clock_now_ns(), &missed))
		return;
	if (missed > 0 && s->events[ev->type].burst > 1)
		snprintf(more, sizeof(more), " (%u more of these before%s)", missed,
		         ev->type == EV_FLOW_FAILED || ev->type == EV_FLOW_IN_DOUBT ? ": `longreach failed` names them" : "");
	describe_flow(ev, flow, sizeof(flow));
	describe_extent(ev, extent, sizeof(extent));
	log_at(event_level(ev->type), "link %s: %s%s%s [%s]%s", s->config.name, flow, proxy_event_text(ev->type),
	       extent, proxy_event_name(ev->type), more);
}

static void init_event_limits(struct site *s)
{
	for (unsigned i = 0; i < EV_COUNT; i++)
		s->events[i] = (struct log_limit){.window_ns = EVENT_WINDOW_S * NS_PER_S, .burst = EVENTS_PER_WINDOW};
	/* Each shard pushes these events: one log line is enough. */
	s->events[EV_WAN_UP] = (struct log_limit){.window_ns = NS_PER_S / 10, .burst = 1};
	s->ports_said = s->rules_said = s->start_said = s->events[0];
	s->truncated_said = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
	s->keys_said = s->truncated_said;
	s->events[EV_WAN_DEAD] = s->events[EV_REBUILT] = s->events[EV_BUFFER_LOST] = s->events[EV_WAN_UP];
}

/* --- samples --- */

/* Tells what the measured round trip means for the buffer, and whether the present buffer is large enough. A running
 * buffer is not enlarged: its table of chunks and everything behind it would have to move under packets that were
 * acknowledged. Shares and thresholds are fractions of the present buffer, and follow the round trip at once. */
static void describe_buffer(const struct site *s, const struct link_snapshot *snap, char *text, size_t cap)
{
	char want[UNITS_TEXT_MAX], is[UNITS_TEXT_MAX], size[UNITS_TEXT_MAX];
	uint64_t rtt_ns = distance_in_force_rtt_ns(&s->distance);
	struct headroom_deep d;
	int n;

	text[0] = '\0';
	if (link_plan_deep(&s->config, rtt_ns, snap->status.pool_capacity[POOL_LAN], 1, &d) < 0)
		return;
	units_show_bytes(want, (double)d.wanted_bytes);
	units_show_bytes(is, (double)d.capacity_bytes);
	units_write_bytes(size, sizeof(size), (link_plan_arena_bytes(&s->config, rtt_ns) + MIB - 1) / MIB * MIB);
	n = snprintf(text, cap, "; the buffer wants %s per direction and has %s", want, is);
	if (!d.stands_loss && n > 0 && (size_t)n < cap)
		snprintf(text + n, cap - (size_t)n, ": %s; set [Buffer] Size=%s and restart the link",
		         d.fills_the_line ? "losses will slow the link down" : "too little to fill the line", size);
}

static void say_distance(const struct site *s, const struct link_snapshot *snap, enum distance_news what,
                         uint64_t before_ns)
{
	const struct distance *d = &s->distance;
	char rtt[UNITS_TEXT_MAX], before[UNITS_TEXT_MAX], measured[UNITS_TEXT_MAX], rules[UNITS_TEXT_MAX];
	char configured[UNITS_TEXT_MAX], buffer[256];

	units_show_time(rtt, (double)d->least_ns);
	units_show_time(before, (double)before_ns);
	units_show_distance(measured, (double)distance_measured_m(d));
	units_show_distance(rules, (double)distance_in_force_m(d));
	units_write_distance(configured, sizeof(configured), d->configured_m);
	describe_buffer(s, snap, buffer, sizeof(buffer));
	if (what == DISTANCE_MEASURED)
		log_info("link %s: round trip %s, at most %s of fibre%s", s->config.name, rtt, measured, buffer);
	else
		log_notice("link %s: the path has become %s: round trip %s instead of %s, at most %s of fibre%s",
		           s->config.name, what == DISTANCE_LONGER ? "longer" : "shorter", rtt, before, measured,
		           buffer);
	if (distance_differs(d))
		log_warn("link %s: Distance=%s, but the round trip of %s is that of %s of fibre: buffers are sized for "
		         "%s, the larger",
		         s->config.name, configured, rtt, measured, rules);
}

/* Logs once how many queue pairs the buffer serves. More queue pairs are no fault: none of them loses a packet. */
static void say_buffer(struct site *s, const struct link_snapshot *snap)
{
	uint64_t cap = snap->status.pool_capacity[POOL_LAN];
	char is[UNITS_TEXT_MAX];
	struct headroom_deep d;

	if (s->buffer_said || cap == 0 ||
	    link_plan_deep(&s->config, distance_in_force_rtt_ns(&s->distance), cap, 1, &d) < 0)
		return;
	s->buffer_said = true;
	log_info("link %s: a buffer of %s per direction serves %" PRIu64 " busy queue pairs at once, and %" PRIu64
	         " in turns; beyond that, packets of hosts that ignore CNPs find no room; queue pairs beyond "
	         "MaxFlows=%u are carried end to end",
	         s->config.name, units_show_bytes(is, (double)cap), d.qps_at_once, d.qps_in_turns,
	         link_took_up_buffer(s->link) ? snap->status.max_flows : s->config.max_flows);
}

/* The least round trip of the longest path in use, for which the buffer must be large enough. 0: none is fresh. */
static uint64_t longest_rtt_ns(const struct link_snapshot *snap)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < snap->status.npaths && snap->status.wan_up; i++) {
		const struct proxy_path_status *p = &snap->paths[i];

		if (p->usable && p->rtt_age_ns < DISTANCE_FRESH_NS && p->rtt_min_ns > longest)
			longest = p->rtt_min_ns;
	}
	return longest;
}

static void measure_distance(struct site *s, const struct link_snapshot *snap)
{
	uint64_t before_ns = s->distance.said_ns;
	enum distance_news what = distance_sample(&s->distance, longest_rtt_ns(snap));

	if (what != DISTANCE_SAME)
		say_distance(s, snap, what, before_ns);
}

/* Warns about frames of 64 KiB: no cable carries them, only a host on this machine, over a virtual Ethernet, can send
 * one. The frame is RoCEv2: the kernel cuts other IP to wire size. */
static void watch_truncated(struct site *s, const struct link_snapshot *snap)
{
	uint64_t before = s->truncated;

	s->truncated = snap->lan_truncated;
	if (s->truncated > before && log_limit_pass(&s->truncated_said, clock_now_ns(), NULL))
		log_warn("link %s: %" PRIu64
		         " frames larger than any packet on a wire arrived at a LAN port and were lost: a host on this "
		         "machine joins its packets, and an edge cannot split them; on the host's interface run "
		         "`ethtool -K NAME tso off gso off tx-udp-segmentation off` [lan_ring_truncated]",
		         s->config.name, s->truncated - before);
}

/* A lane whose key is used up sends nothing more on that path, and no answer can renew the key: after a path was dead
 * for weeks, or the line for a day. A session brings new keys; without a control connection it comes with the next. */
static void renew_used_up_keys(struct site *s, const struct link_snapshot *snap)
{
	if (!snap->status.keys_used_up || s->peer == NULL)
		return;
	if (log_limit_pass(&s->keys_said, clock_now_ns(), NULL))
		log_notice("link %s: a key has sealed all that it may without an answer of the other edge: the edges begin a "
		           "new session as soon as their control connection stands [keys_used_up]",
		           s->config.name);
	peer_renew(s->peer);
}

static void take_sample(void *arg, struct link *l, struct link_snapshot *snap)
{
	struct site *s = arg;
	const uint64_t *ctr;

	(void)l;
	s->sampling = false;
	if (snap == NULL)
		return;
	ctr = snap->counters.ctr;
	s->before = s->last;
	s->status = snap->status;
	s->last = (struct sample){
	    .taken_ns = snap->taken_ns,
	    .lan_rx_bytes = ctr[CTR_LAN_RX_BYTES],
	    .lan_tx_bytes = ctr[CTR_LAN_TX_BYTES],
	    .wan_tx_bytes = ctr[CTR_WAN_TX_BYTES],
	    .wan_rx_bytes = ctr[CTR_WAN_RX_BYTES],
	    .wan_tx_dgrams = ctr[CTR_WAN_TX_DGRAMS],
	    .wan_lost = ctr[CTR_WAN_LOST] - ctr[CTR_WAN_SPURIOUS],
	};
	say_buffer(s, snap);
	measure_distance(s, snap);
	watch_truncated(s, snap);
	renew_used_up_keys(s, snap);
	free(snap->flows);
}

static double per_second(uint64_t before, uint64_t now, uint64_t ns)
{
	return now > before ? (double)(now - before) * 1e9 / (double)ns : 0;
}

void site_rates(const struct site *s, struct site_rates *r)
{
	const struct sample *a = &s->before, *b = &s->last;
	uint64_t ns = b->taken_ns - a->taken_ns;
	uint64_t sent = b->wan_tx_dgrams - a->wan_tx_dgrams;

	memset(r, 0, sizeof(*r));
	if (a->taken_ns == 0 || b->taken_ns <= a->taken_ns)
		return;
	r->valid = true;
	r->lan_rx_bps = 8 * per_second(a->lan_rx_bytes, b->lan_rx_bytes, ns);
	r->lan_tx_bps = 8 * per_second(a->lan_tx_bytes, b->lan_tx_bytes, ns);
	r->wan_tx_bps = 8 * per_second(a->wan_tx_bytes, b->wan_tx_bytes, ns);
	r->wan_rx_bps = 8 * per_second(a->wan_rx_bytes, b->wan_rx_bytes, ns);
	if (sent > 0 && b->wan_lost > a->wan_lost)
		r->wan_loss = (double)(b->wan_lost - a->wan_lost) / (double)sent;
	if (r->wan_loss > 1)
		r->wan_loss = 1; /* losses of datagrams sent before the sample */
}

/* --- starting --- */

/* Logs a trouble each time that it begins, ends, or changes. */
static void say_session(struct site *s, enum trouble t, const char *err, const char *until)
{
	if (!set_trouble(s, t, err))
		return;
	if (err[0] != '\0')
		log_err("link %s: %s: %s [session_incomplete]", s->config.name, err, until);
	else if (!has_trouble(s, TROUBLE_SESSION) && !has_trouble(s, TROUBLE_KEYS))
		log_notice("link %s: all workers have the session and its keys again", s->config.name);
}

static void on_session(void *arg, const struct proxy_session *session, const struct seal_secret *tx)
{
	struct site *s = arg;
	char err[CONFIG_ERR_MAX];

	link_session(s->link, session, tx, err);
	say_session(s, TROUBLE_SESSION, err, "the edge begins another session every second until all workers have it");
}

static void on_keys(void *arg, const struct seal_secret *rx, uint32_t serial)
{
	struct site *s = arg;
	char err[CONFIG_ERR_MAX];

	link_rx_keys(s->link, rx, serial, err);
	say_session(s, TROUBLE_KEYS, err,
	            "the edge makes the keys again every second, and the other edge waits for them");
}

/* Runs every second: repairs a session that some worker is not in, as the next control connection may be weeks away. */
static void look_at_session(struct site *s)
{
	struct peer_status peer;
	char err[CONFIG_ERR_MAX] = "";

	if (s->peer == NULL)
		return;
	if (has_trouble(s, TROUBLE_SESSION))
		peer_renew(s->peer);
	if (has_trouble(s, TROUBLE_KEYS) && !peer_take_keys_again(s->peer))
		set_trouble(s, TROUBLE_KEYS, ""); /* the keys were for a connection that has ended */
	site_peer_status(s, &peer);
	if (peer.offer_age_ns >= OFFER_SLOW_S * NS_PER_S)
		snprintf(err, sizeof(err),
		         "the other edge has not taken the keys that this edge offered for a session, and may open no "
		         "datagram of this edge until then: status and log of the other edge say why");
	if (set_trouble(s, TROUBLE_OFFER, err) && err[0] != '\0')
		log_err("link %s: %s; this edge offers the keys again every few seconds [session_incomplete]",
		        s->config.name, err);
}

static void on_keys_taken(void *arg, struct link *l, uint32_t serial)
{
	struct site *s = arg;

	(void)l;
	if (s->peer != NULL)
		peer_keys_taken(s->peer, serial);
}

/* The session in force may have early ACKs, and goes on while the edges agree on another one, or cannot agree: holds
 * early ACKs meanwhile. */
static void on_agreed(void *arg, bool agreed)
{
	struct site *s = arg;

	if (s->link != NULL)
		link_hold_promises(s->link, LINK_HOLD_PEER, !agreed);
}

/* --- Barrier=auto where no ACKs are early --- */

/* The barrier is on at both edges as long as the buffer of one edge owes packets that were acknowledged early: that
 * edge says so in its hello. The barrier goes off again when this edge owes nothing, and the other edge has come back
 * without a barrier. */
static void on_barrier(void *arg, enum barrier_mode there, bool owed)
{
	static const struct timeval at_once = {0};
	struct site *s = arg;
	struct link_config *c = &s->config;
	bool on = config_barrier(c) != BARRIER_OFF;

	if (c->barrier != BARRIER_AUTO || config_acks_early(c))
		return;
	if (owed && there != BARRIER_OFF)
		s->barrier_follows = true;
	else
		s->barrier_follows = on && (there != BARRIER_OFF || arena_file_owes_early(c->arena_dir, c->name));
	if (s->barrier_follows != on)
		event_add(s->follow, &at_once); /* deferred: the handler stops the peer, which is the caller here */
}

static void on_follow(evutil_socket_t fd, short what, void *arg)
{
	struct site *s = arg;
	struct link_config c = s->config;
	char waits[WAITS_MAX];

	(void)fd;
	(void)what;
	if (s->link == NULL || s->halted)
		return;
	memcpy(waits, s->waits, sizeof(waits));
	log_notice("link %s: %s: the link is restarted to turn its barrier %s, by Barrier=auto", c.name,
	           s->barrier_follows ? "the other edge's buffer owes packets that were acknowledged early"
	                              : "neither edge owes packets that were acknowledged early",
	           s->barrier_follows ? "on" : "off");
	c.barrier_kept = s->barrier_follows;
	c.barrier_owed = false;
	site_restart(s, &c);
	site_set_waits(s, waits); /* the file was not read again */
}

/* --- a start on a buffer in use --- */

/* One more reason why the link's file is not in force. */
static void add_waits(struct site *s, const char *why)
{
	size_t len = strlen(s->waits);
	int n = snprintf(s->waits + len, sizeof(s->waits) - len, "%s%s", len > 0 ? "; " : "", why);

	if (n >= 0)
		log_warn("link %s: %s", s->config.name, why);
}

/* Packets that hosts believe delivered may be in the buffer of the former Directory=, and nothing would look for them
 * there any more: the link goes on with that buffer until nothing is owed to any host. */
static void take_file(struct site *s, const struct link_config *c)
{
	char dir[sizeof(c->arena_dir)], why[WAITS_MAX];
	bool on_disk = s->config.arena_on_disk;

	memcpy(dir, s->config.arena_dir, sizeof(dir));
	s->config = *c;
	s->waits[0] = '\0';
	if (strcmp(dir, c->arena_dir) == 0)
		return;
	if (arena_file_debt(dir, c->name) == ARENA_CLEAR) {
		arena_file_move(dir, c->arena_dir, c->name);
		return;
	}
	memcpy(s->config.arena_dir, dir, sizeof(dir));
	s->config.arena_on_disk = on_disk;
	snprintf(why, sizeof(why),
	         "%s: goes on with Directory=%s, not %s: its buffer there holds packets that hosts believe delivered, "
	         "and `longreach restart %s` takes the file up when the buffer is empty",
	         c->path, dir, c->arena_dir, c->name);
	add_waits(s, why);
}

/* Flows are in the files of their workers, and on the lanes of these: a link whose buffer is in use goes on with as
 * many workers and lanes as before, whatever its file says now. If it cannot, the start refuses the buffer. */
static void spread_as_in_use(struct site *s)
{
	struct link_config *c = &s->config;
	uint32_t workers = c->workers, lanes = c->lanes;
	struct arena_spread in_use;
	char why[CONFIG_ERR_MAX];

	if (!arena_file_spread(c->arena_dir, c->name, &in_use) ||
	    !link_plan_spread_as(c, in_use.nshards, in_use.lanes) || (c->workers == workers && c->lanes == lanes))
		return;
	snprintf(why, sizeof(why),
	         "%s: goes on with Workers=%u and Lanes=%u, not %u and %u: its buffer is in use by so many, and "
	         "`longreach restart %s` takes the file up when the buffer is empty",
	         c->path, c->workers, c->lanes, workers, lanes, c->name);
	add_waits(s, why);
}

bool site_buffer_is_of(const struct site *s, const struct link_config *c)
{
	return s->link != NULL && link_buffer_is_of(s->link, c);
}

const char *site_buffer_note(struct site *s)
{
	char size[UNITS_TEXT_MAX];
	uint64_t bytes;
	uint32_t flows;

	s->buffer_note[0] = '\0';
	if (s->link == NULL || link_buffer_is_of(s->link, &s->config))
		return s->buffer_note;
	link_buffer_size(s->link, &bytes, &flows);
	snprintf(s->buffer_note, sizeof(s->buffer_note),
	         "its buffer stays as it was made, with %s and places for %u flows: Size=, MaxFlows=, Rate= and "
	         "Distance= ask for another, which `longreach restart %s` makes when the buffer is empty",
	         units_show_bytes(size, (double)bytes), flows, s->config.name);
	return s->buffer_note;
}

/* The link has started. */
static void note_buffer(struct site *s)
{
	const char *note = site_buffer_note(s);

	if (note[0] != '\0')
		log_warn("link %s: %s", s->config.name, note);
}

static void take_ports(struct site *s);

/* Opens keys and the port of the control channel first: a start that fails there has changed nothing else. */
static int start(struct site *s, char err[CONFIG_ERR_MAX])
{
	const struct peer_user user = {
	    .session = on_session, .keys = on_keys, .agreed = on_agreed, .barrier = on_barrier, .arg = s};
	struct arena_life life;
	struct peer *peer;
	int r = peer_open(&s->config, s->base, &user, &peer, err);

	if (r < 0)
		return r;
	r = link_start(&s->config, s->base, s->pcap_dir, on_link_event, on_keys_taken, s, &s->link, err);
	if (r < 0) {
		peer_stop(peer);
		s->link = NULL;
		return r;
	}
	life.epoch = link_arena_epoch(s->link);
	life.former = link_arena_kept(s->link) ? FORMER_KEPT : FORMER_LOST;
	life.peer_epoch = link_peer_arena_epoch(s->link);
	s->peer = peer;
	peer_run(peer, &s->config, &life);
	return 0;
}

static void log_started(const struct site *s)
{
	const struct link_config *c = &s->config;

	log_notice("link %s: started, ack mode %s", c->name, ack_mode_name(c->ack_mode));
	if (c->barrier_owed)
		log_notice("link %s: its buffer owes packets that an earlier start acknowledged early: Barrier=auto "
		           "means pair until the buffer owes nothing and the link is started again",
		           c->name);
	if (c->encryption != SEAL_NONE)
		log_notice("link %s: datagrams are sealed with %s, computed by %s", c->name,
		           seal_cipher_name(c->encryption), seal_provider(c->encryption));
	else
		log_warn("link %s: the WAN is not sealed: packets cross it as plain UDP, unencrypted and "
		         "unauthenticated; use it on a line you trust only",
		         c->name);
}

/* err: why the rules of a link that does not run are not set; empty: they are. on_timer() repeats a failure, as nothing
 * else may happen that would. */
static void note_rest(struct site *s, const char *err)
{
	s->rested_ns = clock_now_ns();
	s->rests = err[0] == '\0';
	if (!set_trouble(s, TROUBLE_RULES, err))
		return;
	if (s->rests)
		log_notice("link %s: the rules that keep the kernel from forwarding this link's packets are set now",
		           s->config.name);
	else if (log_limit_pass(&s->rules_said, s->rested_ns, NULL))
		log_err("link %s: %s; longreachd tries again every second", s->config.name, err);
}

static void close_at_rest(struct site *s)
{
	char err[CONFIG_ERR_MAX] = "";

	note_rest(s, closed_rest(&s->config, err, sizeof(err)) < 0 ? err : "");
}

static void try_start(struct site *s)
{
	char err[CONFIG_ERR_MAX] = "unknown error";

	/* taken before the attempt: a change during the attempt may come too late for it */
	start_watch_take(&s->stands, &s->config);
	spread_as_in_use(s);
	closed_note_owed(&s->config);
	if (start(s, err) == 0) {
		s->rests = false;
		set_trouble(s, TROUBLE_START, "");
		set_trouble(s, TROUBLE_RULES, ""); /* link_start() has set them */
		log_started(s);
		note_buffer(s);
		take_ports(s);
		return;
	}
	if (set_trouble(s, TROUBLE_START, err) && log_limit_pass(&s->start_said, clock_now_ns(), NULL))
		log_err("link %s: does not start: %s; longreachd tries again every %d s, and at once when ports, "
		        "addresses or files change",
		        s->config.name, err, RETRY_MS / 1000);
	s->tried_ns = clock_now_ns();
	if (!s->rests && !has_trouble(s, TROUBLE_RULES))
		close_at_rest(s);
}

static bool retry_is_due(const struct site *s)
{
	uint64_t waited_ns = clock_now_ns() - s->tried_ns;

	if (s->halted)
		return false;
	return waited_ns >= RETRY_MS * NS_PER_MS ||
	       (waited_ns >= RETRY_LEAST_MS * NS_PER_MS && start_watch_changed(&s->stands, &s->config));
}

/* --- what it stands on --- */

static void say_ports(struct site *s, const char *error)
{
	if (!set_trouble(s, TROUBLE_PORT, error))
		return;
	if (!log_limit_pass(&s->ports_said, clock_now_ns(), NULL))
		return; /* one that comes and goes */
	if (error[0] != '\0')
		log_err("link %s: %s", s->config.name, error);
	else
		log_notice("link %s: LAN ports and WAN address work again", s->config.name);
}

/* Looks at ports, addresses and routes. Reports what does not work first; ports that are only being taken up may be
 * ready at the next look. While workers take ports up, link_follow_ports() gives no text, and its last text stays. */
static void look_at_ports(struct site *s)
{
	char error[CONFIG_ERR_MAX], follow[CONFIG_ERR_MAX];
	int r = link_follow_ports(s->link, port_watch_rules(s->ports), follow);

	port_watch_trouble(s->ports, &s->config, error);
	if (r < 0)
		port_watch_again(s->ports, PORTS_AGAIN_MS);
	if (r == 0 || follow[0] != '\0')
		snprintf(s->follow_error, sizeof(s->follow_error), "%s", r < 0 ? follow : "");
	say_ports(s, error[0] != '\0' ? error : s->follow_error);
}

void site_look_at_rules(struct site *s)
{
	char err[CONFIG_ERR_MAX] = "";
	int r;

	if (s->link == NULL) {
		close_at_rest(s);
		return;
	}
	r = link_keep_rules(s->link, err);
	if (r != 0 && log_limit_pass(&s->rules_said, clock_now_ns(), NULL))
		log_warn("link %s: another program removed or changed %s, as `nft flush ruleset` does%s [rules_changed]",
		         s->config.name,
		         r > 0 && err[0] != '\0' ? err : "rules that keep the kernel from forwarding this link's packets",
		         r > 0 ? ": longreachd has put the rules back" : "");
	if (r > 0)
		err[0] = '\0';
	if (set_trouble(s, TROUBLE_RULES, err) && err[0] != '\0')
		log_err("link %s: %s; no packet is acknowledged early until the rules are set", s->config.name, err);
}

static void arm(struct site *s)
{
	struct timeval wait = {.tv_sec = SAMPLE_S};

	if (s->link == NULL)
		wait = (struct timeval){.tv_usec = LOOK_MS * 1000};

	event_add(s->timer, &wait);
}

/* True if rules that could not be set are to be tried again. */
static bool rules_are_due(const struct site *s)
{
	return has_trouble(s, TROUBLE_RULES) &&
	       (s->link != NULL || clock_now_ns() - s->rested_ns >= SAMPLE_S * NS_PER_S);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct site *s = arg;

	(void)fd;
	(void)what;
	if (rules_are_due(s))
		site_look_at_rules(s);
	look_at_session(s);
	if (s->link != NULL)
		link_tell_again(s->link);
	if (s->failed != NULL)
		failed_record_write(s->failed);
	if (s->link == NULL) {
		if (retry_is_due(s))
			try_start(s);
	} else if (!s->sampling) {
		s->sampling = true;
		link_snapshot(s->link, false, NULL, take_sample, s);
	}
	arm(s);
}

/* The kernel has changed interfaces, addresses or routes, perhaps those of this link. */
static void on_ports(void *arg)
{
	struct site *s = arg;
	bool changed = port_watch_look(s->ports, &s->config), had_error = has_trouble(s, TROUBLE_PORT);

	if (s->link != NULL) {
		look_at_ports(s);
		if (had_error && !has_trouble(s, TROUBLE_PORT))
			peer_retry(s->peer);
		return;
	}
	if (port_watch_rules(s->ports)) /* a stopped link stays closed */
		close_at_rest(s);
	if (changed && !s->halted) {
		try_start(s);
		arm(s);
	}
}

struct site *site_new(const struct link_config *c, struct event_base *base, const char *pcap_dir,
                      struct failed_record *failed)
{
	struct site *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->config = *c;
	s->base = base;
	s->pcap_dir = pcap_dir;
	s->failed = failed;
	s->timer = evtimer_new(base, on_timer, s);
	s->follow = evtimer_new(base, on_follow, s);
	if (s->timer == NULL || s->follow == NULL || port_watch_open(&s->ports, base, on_ports, s) < 0) {
		if (s->timer != NULL)
			event_free(s->timer);
		if (s->follow != NULL)
			event_free(s->follow);
		free(s);
		return NULL;
	}
	port_watch_look(s->ports, c);
	init_event_limits(s);
	distance_init(&s->distance, c->distance_m);
	try_start(s);
	arm(s);
	return s;
}

/* A reload accepts the LAN ports' present MTUs. */
static void take_ports(struct site *s)
{
	port_watch_look(s->ports, &s->config);
	port_watch_accept(s->ports);
	look_at_ports(s);
}

void site_reconfigure(struct site *s, const struct link_config *c)
{
	bool kept = c->barrier_kept && !s->config.barrier_kept;

	if (s->link == NULL) {
		take_file(s, c);
		if (!s->halted)
			try_start(s);
		arm(s);
		return;
	}
	s->config = *c;
	log_notice("link %s: takes up its changed file", c->name);
	if (kept)
		log_notice("link %s: there are no early ACKs any more; Barrier=auto stays pair, as at the start, until "
		           "`longreach restart %s` at both edges",
		           c->name, c->name);
	take_ports(s);
	/* The peer comes first: if the edges now disagree, early ACKs end before the mode changes. */
	peer_reconfigure(s->peer, c);
	link_reconfigure(s->link, c);
	site_buffer_note(s);
}

bool site_reread_keys(struct site *s)
{
	if (s->link != NULL)
		take_ports(s);
	return s->peer != NULL && peer_reread_keys(s->peer, &s->config);
}

static void stop(struct site *s, enum link_end end)
{
	char err[CONFIG_ERR_MAX] = "";
	struct link *l = s->link;

	if (s->peer != NULL)
		peer_stop(s->peer);
	s->peer = NULL;
	s->link = NULL; /* snapshots in progress must not find the link any more */
	s->buffer_note[0] = '\0';
	if (l == NULL && end == LINK_ENDS)
		arena_file_settle(s->config.arena_dir, s->config.name);
	if (l == NULL)
		return;
	end_troubles(s);
	s->last = s->before = (struct sample){0}; /* else the link would seem to carry for as long as it is stopped */
	if (link_stop(l, end, err) < 0)
		note_rest(s, err);
	else
		s->rests = end == LINK_ENDS;
	if (end == LINK_ENDS) /* the rules come first: a disk takes its time */
		arena_file_settle(s->config.arena_dir, s->config.name);
	log_notice("link %s: stopped", s->config.name);
}

void site_go(struct site *s, const struct link_config *c)
{
	if (s->distance.configured_m != c->distance_m)
		distance_init(&s->distance, c->distance_m);
	take_file(s, c);
	s->halted = false;
	set_trouble(s, TROUBLE_START, ""); /* ended so that this attempt's error is logged */
	s->buffer_said = false;
	try_start(s);
	arm(s);
}

static void restart(struct site *s, const struct link_config *c, enum link_end end)
{
	stop(s, end);
	site_go(s, c); /* if it does not start: it has left rules for a link that takes the hosts' IP, which try_start()
	                  ends */
}

void site_restart(struct site *s, const struct link_config *c)
{
	restart(s, c, LINK_RESTARTS);
}

void site_restart_anew(struct site *s, const struct link_config *c)
{
	restart(s, c, site_buffer_is_of(s, c) ? LINK_RESTARTS : LINK_RESTARTS_DRAINED);
}

void site_halt(struct site *s)
{
	char why[CONFIG_ERR_MAX];
	bool owes;

	if (s->peer != NULL)
		peer_say_stopped(s->peer);
	stop(s, LINK_ENDS);
	owes = arena_file_debt(s->config.arena_dir, s->config.name) != ARENA_CLEAR;
	s->halted = true;
	s->waits[0] = '\0'; /* the next start reads the file */
	snprintf(
	    why, sizeof(why),
	    "stopped by `longreach stop`; RoCE between its prefixes stays closed%s; `longreach start %s` starts the "
	    "link again",
	    owes
	        ? ", and so does all IP that a barrier holds, as packets that hosts believe delivered are in its buffer"
	        : "",
	    s->config.name);
	set_trouble(s, TROUBLE_START, why);
}

bool site_halted(const struct site *s)
{
	return s->halted;
}

void site_set_waits(struct site *s, const char *why)
{
	snprintf(s->waits, sizeof(s->waits), "%s", why);
}

bool site_is_held(const struct site *s)
{
	return s->waits[0] != '\0';
}

const char *site_waits(const struct site *s)
{
	if (site_is_held(s) || s->link == NULL)
		return s->waits;
	if (s->config.relay_gpu && !sandbox_allows(SANDBOX_GPU))
		return "GPU=yes was in no readable link file when longreachd started, which limits its system calls for good: "
		       "`systemctl restart longreachd`";
	if (link_took_up_buffer(s->link))
		return s->buffer_note;
	return s->waits;
}

void site_free(struct site *s)
{
	stop(s, LINK_ENDS);
	event_free(s->timer);
	event_free(s->follow);
	port_watch_close(s->ports);
	free(s);
}

void site_remove(struct site *s)
{
	if (s->peer != NULL)
		peer_say_stopped(s->peer);
	site_free(s);
}

/* --- state --- */

enum site_state site_state(bool running, const struct peer_status *peer, const struct proxy_link_status *s)
{
	if (!running)
		return SITE_FAILED;
	if (!peer->met)
		return SITE_WAITING;
	if (peer->verdict == HELLO_REFUSED)
		return SITE_REFUSED;
	if (!s || (!s->wan_up && !peer->settling))
		return peer->stopped_there ? SITE_PEER_STOPPED : SITE_DEAD;
	if (s->pool_stuck[POOL_LAN] || s->pool_stuck[POOL_WAN])
		return SITE_STUCK;
	return peer->verdict == HELLO_MISMATCH ? SITE_MISMATCH : SITE_UP;
}

#define SAMPLE_STALE_NS (5 * NS_PER_S) /* samples are taken once a second */

/* NULL: unknown. Too many requests under way, or a lack of memory, tell nothing of the link: the last sample does. */
static const struct proxy_link_status *core_status(const struct site *s, const struct link_snapshot *snap)
{
	bool known = s->last.taken_ns != 0 && clock_now_ns() - s->last.taken_ns < SAMPLE_STALE_NS;

	return snap != NULL ? &snap->status : known ? &s->status : NULL;
}

enum site_state site_state_now(const struct site *s, const struct link_snapshot *snap)
{
	struct peer_status peer;

	if (has_trouble(s, TROUBLE_RULES))
		return SITE_OPEN;
	if (s->halted)
		return SITE_STOPPED;
	if (has_trouble(s, TROUBLE_PORT))
		return SITE_PORT;
	if (has_trouble(s, TROUBLE_SESSION) || has_trouble(s, TROUBLE_KEYS) || has_trouble(s, TROUBLE_OFFER))
		return SITE_DEAD;
	site_peer_status(s, &peer);
	return site_state(s->link != NULL, &peer, core_status(s, snap));
}

const char *site_state_name(enum site_state state)
{
#define X(e, name, text) [SITE_##e] = name,
	static const char *const names[] = {SITE_STATES(X)};
#undef X

	return state < SITE_STATE_COUNT ? names[state] : "unknown";
}

const struct link_config *site_config(const struct site *s)
{
	return &s->config;
}

struct link *site_link(const struct site *s)
{
	return s->link;
}

const char *site_error(const struct site *s)
{
	return s->troubles;
}

const struct distance *site_distance(const struct site *s)
{
	return &s->distance;
}

uint64_t site_event_count(const struct site *s, enum proxy_event_type type)
{
	return s->event_counts[type];
}

void site_peer_status(const struct site *s, struct peer_status *p)
{
	memset(p, 0, sizeof(*p));
	if (s->peer != NULL)
		peer_status(s->peer, p);
}
