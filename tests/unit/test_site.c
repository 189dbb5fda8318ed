/* SPDX-License-Identifier: Apache-2.0 */
/* What a site does about a session that is not whole, and what it says is wrong with its link: link, peer and ports are
 * played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config/distance.c"
#include "daemon/config/link_plan.c"
#include "daemon/config/host_groups.c"
#include "daemon/link/site.c"
#include "daemon/util/addr.c"
#include "daemon/util/units.c"
#include "no_log.h"
#include "no_log_limit.h"

struct link {
	int nothing;
};

struct peer {
	int nothing;
};

struct port_watch {
	int nothing;
};

/* What is played, and what was asked for. */
static struct {
	struct link link;
	struct peer peer;
	struct port_watch ports;
	struct peer_user user;
	const char *session_error, *keys_error, *rules_error, *follow_error, *port_trouble; /* NULL: none */
	const char *rules_removed; /* by another program; they are put back. NULL: none */
	bool following; /* workers are at it, and link_follow_ports() has no words for that */
	struct peer_status status;
	unsigned sessions, keys, renewals;
	bool key_is_void; /* it came over a connection that has ended */
	bool no_conn;     /* nothing can be renewed */
	bool held; /* nothing is acknowledged early */
	bool ip_rules_changed;
	unsigned closed; /* times that a link at rest was closed */
	const char *rest_error, *start_error; /* NULL: none */
	uint32_t flows;                       /* that the running link's buffer has places for */
	bool took_up_buffer;
	bool no_gpu; /* the daemon's system-call filter refuses a GPU's driver */
	enum link_end end;          /* of the last link_stop() */
	struct arena_spread in_use; /* of the buffer's files; 0 shards: none is in use */
	unsigned settled;           /* times that buffers were written to their disk */
	char moved[512];            /* from which Directory= to which */
	const char *owing_dir;      /* where the link's files owe packets to hosts; NULL: nowhere */
	struct link_config started; /* the last start's */
} played;

static struct event_base *base;

/* --- the link --- */

static int say(const char *what, char err[CONFIG_ERR_MAX])
{
	snprintf(err, CONFIG_ERR_MAX, "%s", what ? what : "");
	return what ? -EAGAIN : 0;
}

int link_start(const struct link_config *c, struct event_base *b, const char *pcap_dir, link_event_fn fn,
               link_keys_fn keys_fn, void *arg, struct link **l, char err[CONFIG_ERR_MAX])
{
	(void)b, (void)pcap_dir, (void)fn, (void)keys_fn, (void)arg;
	played.started = *c;
	*l = &played.link;
	return say(played.start_error, err);
}

int link_stop(struct link *l, enum link_end end, char err[CONFIG_ERR_MAX])
{
	(void)l;
	played.end = end;
	return end == LINK_ENDS ? say(played.rest_error, err) : 0;
}

bool link_buffer_is_of(const struct link *l, const struct link_config *c)
{
	(void)l;
	return c->max_flows == played.flows;
}

bool link_took_up_buffer(const struct link *l)
{
	(void)l;
	return played.took_up_buffer;
}

bool sandbox_allows(enum sandbox_more what)
{
	return what == SANDBOX_GPU && !played.no_gpu;
}

void link_buffer_size(const struct link *l, uint64_t *bytes, uint32_t *flows)
{
	(void)l;
	*bytes = 64 << 20;
	*flows = played.flows;
}

bool arena_file_spread(const char *dir, const char *link, struct arena_spread *s)
{
	(void)dir, (void)link;
	*s = played.in_use;
	return played.in_use.nshards > 0;
}

void link_reconfigure(struct link *l, const struct link_config *c)
{
	(void)l, (void)c;
}

uint64_t link_arena_epoch(const struct link *l)
{
	(void)l;
	return 1;
}

bool link_arena_kept(const struct link *l)
{
	(void)l;
	return true;
}

uint64_t link_peer_arena_epoch(const struct link *l)
{
	(void)l;
	return 98;
}

int link_session(struct link *l, const struct proxy_session *s, const struct seal_secret *tx, char err[CONFIG_ERR_MAX])
{
	(void)l, (void)s, (void)tx;
	played.sessions++;
	return say(played.session_error, err);
}

int link_rx_keys(struct link *l, const struct seal_secret *rx, uint32_t serial, char err[CONFIG_ERR_MAX])
{
	(void)l, (void)rx, (void)serial;
	played.keys++;
	return say(played.keys_error, err);
}

void link_hold_promises(struct link *l, enum link_hold why, bool hold)
{
	(void)l;
	assert_int_equal(why, LINK_HOLD_PEER);
	played.held = hold;
}

void link_tell_again(struct link *l)
{
	(void)l;
}

int link_keep_rules(struct link *l, char err[CONFIG_ERR_MAX])
{
	(void)l;
	if (played.rules_removed != NULL)
		return say(played.rules_removed, err) == 0 ? 0 : 1;
	return say(played.rules_error, err);
}

int link_follow_ports(struct link *l, bool rules, char err[CONFIG_ERR_MAX])
{
	(void)l, (void)rules;
	say(played.following ? NULL : played.follow_error, err);
	return played.following || played.follow_error ? -EAGAIN : 0;
}

void link_snapshot(struct link *l, bool with_flows, const struct flow_filter *views, link_snapshot_fn fn, void *arg)
{
	(void)with_flows, (void)views;
	fn(arg, l, NULL);
}

/* --- the control channel --- */

int peer_open(const struct link_config *c, struct event_base *b, const struct peer_user *user, struct peer **p,
              char err[CONFIG_ERR_MAX])
{
	(void)c, (void)b, (void)err;
	played.user = *user;
	*p = &played.peer;
	return 0;
}

void peer_run(struct peer *p, const struct link_config *c, const struct arena_life *life)
{
	(void)p, (void)c;
	assert_int_equal(life->peer_epoch, 98);
}

/* Both edges say a session to be another one, and it begins. */
void peer_renew(struct peer *p)
{
	static const struct proxy_session session = {.epoch_tx = 3, .epoch_rx = 4};

	(void)p;
	played.renewals++;
	if (!played.no_conn)
		played.user.session(played.user.arg, &session, NULL);
}

bool peer_take_keys_again(struct peer *p)
{
	static const struct seal_secret rx = {.epoch = 4};

	(void)p;
	if (!played.key_is_void)
		played.user.keys(played.user.arg, &rx, 1);
	return !played.key_is_void;
}

void peer_status(const struct peer *p, struct peer_status *s)
{
	(void)p;
	*s = played.status;
}

void peer_keys_taken(struct peer *p, uint32_t serial)
{
	(void)p, (void)serial;
}

bool peer_reread_keys(struct peer *p, const struct link_config *c)
{
	(void)p, (void)c;
	return false;
}

void peer_reconfigure(struct peer *p, const struct link_config *c)
{
	(void)p, (void)c;
}

void peer_retry(struct peer *p)
{
	(void)p;
}

void peer_say_stopped(struct peer *p)
{
	(void)p;
}

void peer_stop(struct peer *p)
{
	(void)p;
}

/* --- ports --- */

int port_watch_open(struct port_watch **w, struct event_base *b, void (*fn)(void *arg), void *arg)
{
	(void)b, (void)fn, (void)arg;
	*w = &played.ports;
	return 0;
}

void port_watch_close(struct port_watch *w)
{
	(void)w;
}

bool port_watch_look(struct port_watch *w, const struct link_config *c)
{
	(void)w, (void)c;
	return false;
}

bool port_watch_rules(struct port_watch *w)
{
	bool changed = played.ip_rules_changed;

	(void)w;
	played.ip_rules_changed = false;
	return changed;
}

void port_watch_accept(struct port_watch *w)
{
	(void)w;
}

void port_watch_trouble(const struct port_watch *w, const struct link_config *c, char text[CONFIG_ERR_MAX])
{
	(void)w, (void)c;
	say(played.port_trouble, text);
}

void port_watch_again(struct port_watch *w, unsigned ms)
{
	(void)w, (void)ms;
}

/* --- what no session asks for --- */

void start_watch_take(struct start_view *v, const struct link_config *c)
{
	(void)c;
	memset(v, 0, sizeof(*v));
}

bool start_watch_changed(const struct start_view *before, const struct link_config *c)
{
	(void)before, (void)c;
	return false;
}

void closed_note_owed(struct link_config *c)
{
	(void)c;
}

int closed_rest(const struct link_config *c, char *err, size_t errlen)
{
	(void)c;
	assert_int_equal(errlen, CONFIG_ERR_MAX);
	played.closed++;
	return say(played.rest_error, err);
}

enum arena_debt arena_file_debt(const char *dir, const char *link)
{
	(void)link;
	return played.owing_dir != NULL && strcmp(dir, played.owing_dir) == 0 ? ARENA_OWES : ARENA_CLEAR;
}

void arena_file_move(const char *from_dir, const char *to_dir, const char *link)
{
	assert_string_equal(link, "tokyo");
	snprintf(played.moved, sizeof(played.moved), "%s to %s", from_dir, to_dir);
}

void arena_file_settle(const char *dir, const char *link)
{
	(void)dir, (void)link;
	played.settled++;
}

bool arena_file_owes_early(const char *dir, const char *link)
{
	(void)dir, (void)link;
	return false;
}

void failed_record_add(struct failed_record *r, const char *link, const struct proxy_event *ev)
{
	(void)r, (void)link, (void)ev;
}

void failed_record_write(struct failed_record *r)
{
	(void)r;
}

const char *ack_mode_name(enum ack_mode m)
{
	(void)m;
	return "near";
}

/* --- a site that runs --- */

static int set_up(void **state)
{
	struct link_config *c = calloc(1, sizeof(*c));

	memset(&played, 0, sizeof(played));
	snprintf(c->name, sizeof(c->name), "tokyo");
	base = event_base_new();
	*state = site_new(c, base, NULL, NULL);
	free(c);
	assert_non_null(*state);
	assert_ptr_equal(site_link(*state), &played.link);
	return 0;
}

static int tear_down(void **state)
{
	site_free(*state);
	event_base_free(base);
	return 0;
}

static void begin_session(void)
{
	static const struct proxy_session session = {.epoch_tx = 1, .epoch_rx = 2};

	played.user.session(played.user.arg, &session, NULL);
}

static void offer_keys(void)
{
	static const struct seal_secret rx = {.epoch = 2};

	played.user.keys(played.user.arg, &rx, 1);
}

static void a_second_passes(struct site *s)
{
	on_timer(-1, 0, s);
}

static enum site_state state_of(const struct site *s)
{
	static struct link_snapshot up;

	up.status.wan_up = true;
	played.status.met = true;
	return site_state_now(s, &up);
}

static const char left_out[] = "worker 2 of 4 has no session: no memory for its keys";
static const char no_keys[] = "worker 2 of 4 cannot open the other edge's next datagrams: no memory for the keys";

/* Too many requests are under way, or memory is short. */
static void site_state_now__goes_by_the_last_sample_if_no_snapshot_can_be_taken(void **state)
{
	struct link_snapshot up = {.status.wan_up = true, .taken_ns = clock_now_ns()};
	struct site *s = *state;

	begin_session();
	assert_int_equal(state_of(s), SITE_UP);
	assert_int_equal(site_state_now(s, NULL), SITE_DEAD); /* nothing was ever seen of it */
	take_sample(s, s->link, &up);
	assert_int_equal(site_state_now(s, NULL), SITE_UP);
	up.status.pool_stuck[POOL_LAN] = true;
	take_sample(s, s->link, &up);
	assert_int_equal(site_state_now(s, NULL), SITE_STUCK);
	up = (struct link_snapshot){.status.wan_up = true, .taken_ns = clock_now_ns() - SAMPLE_STALE_NS};
	take_sample(s, s->link, &up);
	assert_int_equal(site_state_now(s, NULL), SITE_DEAD);
	site_halt(s);
	assert_int_equal(site_state_now(s, NULL), SITE_STOPPED);
}

/* --- a worker that is left without a session --- */

static void session__that_a_worker_lacks_is_begun_again_every_second(void **state)
{
	struct site *s = *state;

	played.session_error = left_out;
	begin_session();
	assert_int_equal(state_of(s), SITE_DEAD);
	assert_string_equal(site_error(s), left_out);
	assert_int_equal(played.renewals, 0); /* not from within the peer's call */
	for (unsigned i = 1; i <= 3; i++) {
		a_second_passes(s);
		assert_int_equal(played.renewals, i);
		assert_int_equal(state_of(s), SITE_DEAD);
	}
	played.session_error = NULL;
	a_second_passes(s);
	assert_int_equal(played.renewals, 4);
	assert_int_equal(state_of(s), SITE_UP);
	assert_string_equal(site_error(s), "");
	a_second_passes(s);
	assert_int_equal(played.renewals, 4); /* one that is whole is left alone */
	assert_int_equal(played.sessions, 5);
}

/* The other edge is away: what the worker lacks, it still lacks. */
static void session__that_cannot_be_begun_again_is_still_said(void **state)
{
	struct site *s = *state;

	played.session_error = left_out;
	begin_session();
	played.no_conn = true;
	played.session_error = NULL;
	a_second_passes(s);
	assert_string_equal(site_error(s), left_out);
	assert_int_equal(state_of(s), SITE_DEAD);
	played.no_conn = false;
	a_second_passes(s);
	assert_int_equal(state_of(s), SITE_UP);
}

static void session__of_a_link_that_was_stopped_is_of_the_past(void **state)
{
	struct site *s = *state;

	played.session_error = left_out;
	begin_session();
	site_halt(s);
	a_second_passes(s);
	assert_int_equal(played.renewals, 0);
	assert_int_equal(state_of(s), SITE_STOPPED);
	assert_null(strstr(site_error(s), left_out));
	site_go(s, site_config(s));
	assert_string_equal(site_error(s), "");
	assert_int_equal(state_of(s), SITE_UP);
}

/* --- a worker that cannot open what the other edge is about to send --- */

static void keys__that_a_worker_lacks_are_made_again_every_second(void **state)
{
	struct site *s = *state;

	played.keys_error = no_keys;
	offer_keys();
	assert_int_equal(state_of(s), SITE_DEAD);
	assert_string_equal(site_error(s), no_keys);
	for (unsigned i = 2; i <= 4; i++) {
		a_second_passes(s);
		assert_int_equal(played.keys, i);
		assert_int_equal(state_of(s), SITE_DEAD);
	}
	played.keys_error = NULL;
	a_second_passes(s);
	assert_int_equal(played.keys, 5);
	assert_int_equal(state_of(s), SITE_UP);
	assert_string_equal(site_error(s), "");
	a_second_passes(s);
	assert_int_equal(played.keys, 5);
	assert_int_equal(played.renewals, 0); /* the session of this direction is not disturbed */
}

/* The connection that they were offered over has ended: the next one brings others. */
static void keys__of_a_connection_that_has_ended_are_of_the_past(void **state)
{
	struct site *s = *state;

	played.keys_error = no_keys;
	offer_keys();
	played.key_is_void = true;
	a_second_passes(s);
	assert_int_equal(played.keys, 1);
	assert_string_equal(site_error(s), "");
}

static void keys__that_the_other_edge_does_not_take_are_said(void **state)
{
	struct site *s = *state;

	played.status.offer_age_ns = 2 * NS_PER_S;
	a_second_passes(s);
	assert_int_equal(state_of(s), SITE_UP);
	played.status.offer_age_ns = 3 * NS_PER_S;
	a_second_passes(s);
	assert_int_equal(state_of(s), SITE_DEAD);
	assert_non_null(strstr(site_error(s), "the other edge has not taken the keys"));
	played.status.offer_age_ns = 0;
	a_second_passes(s);
	assert_int_equal(state_of(s), SITE_UP);
	assert_string_equal(site_error(s), "");
}

/* No session with another mode need come about for that: the other edge may be refused, or without keys. */
static void agreed__nothing_is_acknowledged_early_while_the_edges_do_not(void **state)
{
	struct site *s = *state;

	begin_session();
	assert_false(played.held);
	played.user.agreed(played.user.arg, false);
	assert_true(played.held);
	a_second_passes(s);
	assert_true(played.held);
	played.user.agreed(played.user.arg, true);
	assert_false(played.held);
}

/* --- several things at a time --- */

static void site_error__newest_first_and_nothing_that_is_over(void **state)
{
	struct site *s = *state;

	played.port_trouble = "LAN port lan0: no carrier";
	on_ports(s);
	assert_string_equal(site_error(s), "LAN port lan0: no carrier");
	assert_int_equal(state_of(s), SITE_PORT);
	played.session_error = left_out;
	begin_session();
	assert_string_equal(site_error(s), "worker 2 of 4 has no session: no memory for its keys; LAN port lan0: no carrier");
	played.rules_error = "cannot keep the kernel from forwarding";
	site_look_at_rules(s);
	assert_int_equal(strncmp(site_error(s), "cannot keep", 11), 0);
	assert_int_equal(state_of(s), SITE_OPEN);
	played.port_trouble = "LAN port lan1: no carrier"; /* another one is news */
	on_ports(s);
	assert_int_equal(strncmp(site_error(s), "LAN port lan1", 13), 0);
	assert_null(strstr(site_error(s), "lan0"));
	played.session_error = played.rules_error = NULL;
	played.rules_removed = "the nft table inet longreach_tokyo"; /* and put back */
	a_second_passes(s);
	assert_string_equal(site_error(s), "LAN port lan1: no carrier");
	assert_int_equal(state_of(s), SITE_PORT);
	played.port_trouble = NULL;
	on_ports(s);
	assert_string_equal(site_error(s), "");
	assert_int_equal(state_of(s), SITE_UP);
}

/* While workers take ports up there are no words for it: what stands is what was said of that, and not what else was wrong
 * before and is solved. */
static void site_error__ports_that_are_being_taken_up(void **state)
{
	struct site *s = *state;

	played.port_trouble = "WAN address 192.0.2.1: is gone";
	played.follow_error = "LAN port lan0: is a new interface, and not all workers use it yet";
	on_ports(s);
	assert_string_equal(site_error(s), "WAN address 192.0.2.1: is gone");
	played.port_trouble = NULL;
	played.following = true;
	on_ports(s);
	assert_string_equal(site_error(s), "LAN port lan0: is a new interface, and not all workers use it yet");
	played.following = false;
	played.follow_error = NULL;
	on_ports(s);
	assert_string_equal(site_error(s), "");
}

/* `ip rule flush`, after `longreach stop`. */
static void on_ports__rules_of_a_link_that_was_stopped_are_put_back(void **state)
{
	struct site *s = *state;

	site_halt(s);
	on_ports(s);
	assert_int_equal(played.closed, 0);
	played.ip_rules_changed = true;
	on_ports(s);
	assert_int_equal(played.closed, 1);
	on_ports(s);
	assert_int_equal(played.closed, 1);
	assert_int_equal(state_of(s), SITE_STOPPED);
}

static const char no_nft[] = "cannot set the rules: nft: no";

static void expect_open_until_nft_works(struct site *s, enum site_state then)
{
	unsigned before = played.closed;

	assert_int_equal(state_of(s), SITE_OPEN);
	assert_non_null(strstr(site_error(s), no_nft));
	a_second_passes(s); /* at once after the last attempt */
	assert_int_equal(played.closed, before);
	usleep(1010000);
	a_second_passes(s);
	assert_int_equal(played.closed, before + 1);
	assert_int_equal(state_of(s), SITE_OPEN);
	played.rest_error = NULL;
	usleep(1010000);
	a_second_passes(s);
	assert_int_equal(played.closed, before + 2);
	assert_int_equal(state_of(s), then);
	assert_null(strstr(site_error(s), no_nft));
}

/* `nft flush ruleset`, after `longreach stop`, while nft fails: no further event follows. */
static void rules__of_a_stopped_link_that_cannot_be_set_are_tried_again(void **state)
{
	struct site *s = *state;

	site_halt(s);
	played.rest_error = no_nft;
	site_look_at_rules(s);
	assert_non_null(strstr(site_error(s), "stopped by `longreach stop`"));
	expect_open_until_nft_works(s, SITE_STOPPED);
	assert_int_equal(strncmp(site_error(s), "stopped by", 10), 0);
}

static void rules__that_a_stop_cannot_set_are_tried_again(void **state)
{
	struct site *s = *state;

	played.rest_error = no_nft;
	site_halt(s);
	expect_open_until_nft_works(s, SITE_STOPPED);
}

static void rules__of_a_link_that_does_not_start_are_tried_again(void **state)
{
	struct site *s = *state;

	played.start_error = "port 4790 is held by process 7";
	played.rest_error = no_nft;
	site_restart(s, site_config(s));
	assert_null(site_link(s));
	assert_non_null(strstr(site_error(s), played.start_error));
	expect_open_until_nft_works(s, SITE_FAILED);
	assert_string_equal(site_error(s), played.start_error);
	played.start_error = NULL;
	site_go(s, site_config(s));
	assert_int_equal(state_of(s), SITE_UP);
	assert_string_equal(site_error(s), "");
}

/* --- the buffer's shape --- */

static struct link_config config_of(const struct site *s, uint32_t flows, uint32_t workers)
{
	struct link_config c = *site_config(s);

	c.max_flows = flows;
	c.workers = workers;
	c.lanes = 64;
	return c;
}

/* What an operator has changed is in force, and the flows stay if the buffer has not changed. */
static void restart__of_an_operator_asks_for_the_configured_buffer(void **state)
{
	struct site *s = *state;
	struct link_config c = config_of(s, 32, 1);

	played.flows = 16;
	site_restart_anew(s, &c);
	assert_int_equal(played.end, LINK_RESTARTS_DRAINED);
	played.flows = 32;
	site_restart_anew(s, &c);
	assert_int_equal(played.end, LINK_RESTARTS);
	assert_string_equal(site_buffer_note(s), "");
}

/* The daemon's own restarts never cost a flow. */
static void restart__of_the_daemon_keeps_the_buffer(void **state)
{
	struct site *s = *state;
	struct link_config c = config_of(s, 32, 1);

	played.flows = 16;
	site_restart(s, &c);
	assert_int_equal(played.end, LINK_RESTARTS);
}

static void move_to(const struct site *s, const char *dir, struct link_config *c)
{
	*c = *site_config(s);
	snprintf(c->path, sizeof(c->path), "/etc/longreach/tokyo.conf");
	snprintf(c->arena_dir, sizeof(c->arena_dir), "%s", dir);
	c->max_flows++;
}

static void expect_directory(const struct site *s, const char *dir)
{
	assert_string_equal(played.started.arena_dir, dir);
	assert_string_equal(site_config(s)->arena_dir, dir);
}

/* The packets that hosts believe delivered are in the former Directory=, where no other start would look for them. */
static void restart__with_another_directory_goes_on_with_a_buffer_that_owes(void **state)
{
	struct site *s = *state;
	struct link_config c;

	move_to(s, "/dev/hugepages", &c);
	site_restart_anew(s, &c); /* the former one has drained */
	expect_directory(s, "/dev/hugepages");
	assert_string_equal(site_waits(s), "");
	move_to(s, "/mnt/longreach", &c);
	c.arena_on_disk = true;
	played.owing_dir = "/dev/hugepages";
	site_restart_anew(s, &c);
	expect_directory(s, "/dev/hugepages");
	assert_string_equal(played.moved, " to /dev/hugepages");
	assert_false(site_config(s)->arena_on_disk);
	assert_int_equal(site_config(s)->max_flows, c.max_flows); /* all else is in force */
	assert_true(site_is_held(s));
	assert_non_null(strstr(site_waits(s), "/etc/longreach/tokyo.conf: goes on with Directory=/dev/hugepages, not "
	                                      "/mnt/longreach"));
	assert_non_null(strstr(site_waits(s), "`longreach restart tokyo` takes the file up when the buffer is empty"));
	played.owing_dir = NULL;
	site_restart_anew(s, &c);
	expect_directory(s, "/mnt/longreach");
	assert_string_equal(played.moved, "/dev/hugepages to /mnt/longreach");
	assert_true(site_config(s)->arena_on_disk);
	assert_string_equal(site_waits(s), "");
}

static void start__after_a_stop_goes_on_with_a_buffer_that_owes_elsewhere(void **state)
{
	struct site *s = *state;
	struct link_config c;

	move_to(s, "/dev/hugepages", &c);
	site_restart_anew(s, &c);
	played.owing_dir = "/dev/hugepages";
	site_halt(s);
	move_to(s, "/mnt/longreach", &c);
	site_reconfigure(s, &c); /* a reload while it is stopped */
	assert_string_equal(site_config(s)->arena_dir, "/dev/hugepages");
	site_go(s, &c);
	expect_directory(s, "/dev/hugepages");
	assert_non_null(strstr(site_waits(s), "not /mnt/longreach"));
	played.in_use = (struct arena_spread){.nshards = 4, .lanes = link_plan_lanes(&c)};
	site_go(s, &c); /* both sentences */
	assert_non_null(strstr(site_waits(s), "not /mnt/longreach"));
}

/* A restart need not wait for a disk: this boot goes on with the buffer. */
static void buffer__is_written_to_its_disk_when_the_link_ends(void **state)
{
	struct site *s = *state;

	site_restart(s, site_config(s));
	assert_int_equal(played.settled, 0);
	site_halt(s);
	assert_int_equal(played.settled, 1);
	played.start_error = "port 4790 is held by process 7"; /* the attempt has taken the buffer up */
	site_go(s, site_config(s));
	assert_int_equal(played.settled, 1);
	site_halt(s);
	assert_int_equal(played.settled, 2);
}

static void waits__says_which_buffer_a_start_has_taken_up(void **state)
{
	struct site *s = *state;
	struct link_config c = config_of(s, 32, 1);

	played.flows = 16;
	site_reconfigure(s, &c); /* the plan is another one since a reload: the reload says so, and no restart is due */
	assert_non_null(strstr(site_buffer_note(s), "places for 16 flows"));
	assert_string_equal(site_waits(s), "");
	played.took_up_buffer = true;
	site_restart(s, &c);
	assert_non_null(strstr(site_waits(s), "places for 16 flows: Size=, MaxFlows=, Rate= and Distance="));
	assert_non_null(strstr(site_waits(s), "longreach restart tokyo"));
	assert_false(site_is_held(s));
	c.max_flows = 16;
	site_reconfigure(s, &c);
	assert_string_equal(site_waits(s), "");
}

/* A restart of the link does not help GPU=, so the buffer's reason does not hide it. */
static void waits__says_that_gpu_came_after_the_daemons_start(void **state)
{
	struct site *s = *state;
	struct link_config c = config_of(s, 32, 1);

	played.no_gpu = true;
	played.flows = 32;
	site_restart(s, &c);
	assert_string_equal(site_waits(s), "");
	c.relay_gpu = true;
	site_restart(s, &c);
	assert_non_null(strstr(site_waits(s), "GPU=yes was in no readable link file when longreachd started"));
	assert_non_null(strstr(site_waits(s), "`systemctl restart longreachd`"));
	played.flows = 16;
	played.took_up_buffer = true;
	site_restart(s, &c);
	assert_non_null(strstr(site_waits(s), "`systemctl restart longreachd`"));
	played.no_gpu = false;
	assert_non_null(strstr(site_waits(s), "places for 16 flows"));
}

/* A change of Workers= and Lanes= waited for a restart, and the daemon was killed meanwhile. */
static void start__goes_on_with_the_workers_and_lanes_of_a_buffer_in_use(void **state)
{
	struct site *s = *state;
	struct link_config c = config_of(s, 32, 2), was = config_of(s, 32, 4);

	played.flows = 32;
	was.lanes = 128;
	played.in_use = (struct arena_spread){.nshards = 4, .lanes = link_plan_lanes(&was)};
	c.ncpus = 2;
	site_restart(s, &c);
	assert_int_equal(played.started.workers, 4);
	assert_int_equal(played.started.lanes, 128);
	assert_int_equal(played.started.ncpus, 0);
	assert_true(site_is_held(s));
	assert_non_null(strstr(site_waits(s), "Workers=4 and Lanes=128, not 2 and 64"));
	played.in_use.nshards = 0; /* drained */
	site_restart_anew(s, &c);
	assert_int_equal(played.started.workers, 2);
	assert_int_equal(played.started.lanes, 64);
	assert_string_equal(site_waits(s), "");
}

/* The file is not read again when the barrier follows the other edge's. */
static void waits__outlive_a_restart_of_the_daemon(void **state)
{
	struct site *s = *state;

	site_set_waits(s, "Size= was changed");
	on_follow(-1, 0, s);
	assert_string_equal(site_waits(s), "Size= was changed");
}

/* Takes a sample: so many bytes from hosts by then. */
static void sample(struct site *s, uint64_t taken_s, uint64_t bytes)
{
	struct link_snapshot snap = {.taken_ns = taken_s * NS_PER_S};

	snap.counters.ctr[CTR_LAN_RX_BYTES] = bytes;
	take_sample(s, s->link, &snap);
}

static void rates__of_a_link_that_was_stopped_are_of_the_past(void **state)
{
	struct site *s = *state;
	struct site_rates r;

	sample(s, 10, 1000);
	sample(s, 11, 1250);
	site_rates(s, &r);
	assert_true(r.valid && r.lan_rx_bps == 2000);
	site_halt(s);
	site_rates(s, &r);
	assert_true(!r.valid && r.lan_rx_bps == 0);
	/* nor is the first sample of its next life compared with the last one of this life */
	site_go(s, site_config(s));
	sample(s, 20, 9000);
	site_rates(s, &r);
	assert_false(r.valid);
	sample(s, 21, 9125);
	site_rates(s, &r);
	assert_true(r.valid && r.lan_rx_bps == 1000);
}

static void link_plan_spread_as__refuses_what_the_link_cannot_be(void **state)
{
	struct link_config c = config_of(*state, 32, 2), groups = c;

	assert_false(link_plan_spread_as(&c, 0, 0));
	assert_false(link_plan_spread_as(&c, WORKERS_MAX + 1, 0));
	groups.nhost_groups = 1;
	groups.host_groups[0].n = 2;
	groups.host_groups[0].addr[0].b[15] = 1;
	groups.host_groups[0].addr[1].b[15] = 2;
	assert_false(link_plan_spread_as(&c, 4, link_plan_lanes(&groups)));
	assert_int_equal(c.workers, 2);
	assert_int_equal(c.lanes, 64);
	assert_false(link_plan_spread_as(&c, 4, 2)); /* fewer lanes than workers */
	assert_true(link_plan_spread_as(&c, 4, 0));  /* of a version that does not say */
	assert_int_equal(c.workers, 4);
	assert_int_equal(c.lanes, 64);
	c.engine = ENGINE_DPDK;
	assert_false(link_plan_spread_as(&c, 2, 0));
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(site_state_now__goes_by_the_last_sample_if_no_snapshot_can_be_taken),
	    TEST(session__that_a_worker_lacks_is_begun_again_every_second),
	    TEST(session__that_cannot_be_begun_again_is_still_said),
	    TEST(session__of_a_link_that_was_stopped_is_of_the_past),
	    TEST(keys__that_a_worker_lacks_are_made_again_every_second),
	    TEST(keys__of_a_connection_that_has_ended_are_of_the_past),
	    TEST(keys__that_the_other_edge_does_not_take_are_said),
	    TEST(agreed__nothing_is_acknowledged_early_while_the_edges_do_not),
	    TEST(site_error__newest_first_and_nothing_that_is_over),
	    TEST(site_error__ports_that_are_being_taken_up),
	    TEST(on_ports__rules_of_a_link_that_was_stopped_are_put_back),
	    TEST(rules__of_a_stopped_link_that_cannot_be_set_are_tried_again),
	    TEST(rules__that_a_stop_cannot_set_are_tried_again),
	    TEST(rules__of_a_link_that_does_not_start_are_tried_again),
	    TEST(restart__of_an_operator_asks_for_the_configured_buffer),
	    TEST(restart__of_the_daemon_keeps_the_buffer),
	    TEST(buffer__is_written_to_its_disk_when_the_link_ends),
	    TEST(restart__with_another_directory_goes_on_with_a_buffer_that_owes),
	    TEST(start__after_a_stop_goes_on_with_a_buffer_that_owes_elsewhere),
	    TEST(waits__says_that_gpu_came_after_the_daemons_start),
	    TEST(waits__says_which_buffer_a_start_has_taken_up),
	    TEST(start__goes_on_with_the_workers_and_lanes_of_a_buffer_in_use),
	    TEST(waits__outlive_a_restart_of_the_daemon),
	    TEST(rates__of_a_link_that_was_stopped_are_of_the_past),
	    TEST(link_plan_spread_as__refuses_what_the_link_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
