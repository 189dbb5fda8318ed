/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to a worker: who owns what they bring, whenever the link stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#define CORE_FLOWS 1024
#include "core_fixture.h"
#include "daemon/worker/worker_command.c"
#include "no_log.h"

/* Of ports: nothing here asks them. */
void lan_pause_stats(struct lan_pause *p, struct lan_pause_stats *s)
{
	(void)p;
	memset(s, 0, sizeof(*s));
}

/* What the arena's trailer was told, and what the core did at that time. */
static bool said_early;
static enum ack_mode mode_then;

void worker_say_owed(struct worker *w)
{
	said_early = w->acks_early;
	mode_then = w->core->cfg.mode;
}

static uint64_t said_peer;
static uint64_t sessions_then;
static unsigned times_told;
static struct worker *saying;

void arena_file_say_peer(struct arena_file *f, uint64_t peer_epoch)
{
	(void)f;
	said_peer = peer_epoch;
	sessions_then = saying->core->sessions;
}

void arena_file_say_told(struct arena_file *f)
{
	(void)f;
	times_told++;
}

/* Rate= changes what a start would plan for tables of a fixed size, and an arena in use may have other flows than
 * planned: a reload is taken up all the same. */
static void command__sizes_of_the_start_stay(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	static struct worker w;
	struct proxy_config next = c->a.cfg;
	struct worker_cmd cmd = {.type = WORKER_RECONFIGURE, .config = &next};

	assert_true(spsc_init(&w.answers, COMMANDS, sizeof(cmd)));
	w.core = c->a.p;
	w.core_config = c->a.cfg;
	next.max_flows *= 2;
	next.ip_pool_bytes += 1 << 20;
	next.relay_window *= 2;
	next.no_early_acks = true;
	carry_out(&w, &cmd);
	assert_true(w.core->cfg.no_early_acks);
	assert_int_equal(w.core->cfg.max_flows, c->a.cfg.max_flows);
	assert_int_equal(w.core->cfg.ip_pool_bytes, c->a.cfg.ip_pool_bytes);
	assert_int_equal(w.core->cfg.relay_window, c->a.cfg.relay_window);
	spsc_free(&w.answers);
}

static int rebound = -1;

void worker_port_name(const struct link_config *c, uint32_t port, char ifname[IF_NAMESIZE])
{
	snprintf(ifname, IF_NAMESIZE, "%s", c->lan_ports[port]);
}

static int fake_rebind(struct lan_port *p, const char *ifname)
{
	(void)p;
	assert_string_equal(ifname, "lan1");
	rebound = 1;
	return -ENODEV;
}

/* The main thread tries again: it must hear that, and why. */
static void command__a_port_that_cannot_be_bound_is_in_the_answer(void **state)
{
	static const struct lan_port_ops ops = {.rebind = fake_rebind};
	static struct worker w;
	struct worker_cmd cmd = {.type = WORKER_REBIND, .lan_port = 1};

	(void)state;
	w.lan_ops[1] = &ops;
	strcpy(w.config.lan_ports[1], "lan1");
	assert_true(spsc_init(&w.commands, COMMANDS, sizeof(cmd)) && spsc_init(&w.answers, COMMANDS, sizeof(cmd)));
	assert_true(spsc_put(&w.commands, &cmd));
	assert_int_equal(worker_run_commands(&w), 1);
	assert_true(spsc_take(&w.answers, &cmd));
	assert_int_equal(cmd.result, -ENODEV);
	assert_int_equal(rebound, 1);
	spsc_free(&w.commands);
	spsc_free(&w.answers);
}

/* A kill between the two must not leave early ACKs that nobody knows of. */
static void command__early_acks_are_said_before_there_are_any(void **state)
{
	struct core *c = core_given(state, ACK_MODE_HOST);
	static struct worker w;
	struct proxy_config next = c->a.cfg;
	struct worker_cmd cmd = {.type = WORKER_RECONFIGURE, .config = &next};

	assert_true(spsc_init(&w.answers, COMMANDS, sizeof(cmd)));
	w.core = c->a.p;
	w.core_config = c->a.cfg;
	next.mode = ACK_MODE_NEAR;
	carry_out(&w, &cmd);
	assert_true(said_early);
	assert_int_equal(mode_then, ACK_MODE_HOST);
	assert_int_equal(w.core->cfg.mode, ACK_MODE_NEAR);
	next.mode = ACK_MODE_HOST;
	carry_out(&w, &cmd);
	assert_false(said_early);
	next.npair_modes = 1;
	next.pair_modes[0].mode = ACK_MODE_NEAR;
	carry_out(&w, &cmd);
	assert_true(said_early);
	spsc_free(&w.answers);
}

static void fake_wan_session(struct wan_port *p, uint32_t epoch)
{
	(void)p;
	assert_int_equal(epoch, 0x20001);
}

/* The trailer gets the epoch of the other edge's arena after the core has begun the session. The trailer says that the other
 * edge knows this arena after a datagram of that session was heard. */
static void command__a_session_is_written_into_the_arena_s_trailer(void **state)
{
	static const struct wan_port_ops ops = {.session = fake_wan_session};
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct worker w = {.core = c->a.p, .wan_ops = &ops, .params.notify_fd = eventfd(0, EFD_NONBLOCK)};
	struct worker_cmd cmd = {
	    .type = WORKER_SESSION,
	    .session = {.epoch_tx = 0x20000, .epoch_rx = 0x20001, .peer_arena_epoch = 0x123456789abcdef0}};
	const struct proxy_session there = {.epoch_tx = 0x20001, .epoch_rx = 0x20000};
	uint64_t sessions = c->a.p->sessions;

	core_wait(c, CORE_MS);
	saying = &w;
	w.now_ns = c->now_ns;
	assert_true(spsc_init(&w.events, 1024, sizeof(struct proxy_event)));
	while (worker_pass_events(&w))
		;
	times_told = 0;
	carry_out(&w, &cmd);
	assert_true(said_peer == 0x123456789abcdef0);
	assert_int_equal(sessions_then, sessions + 1);
	worker_pass_events(&w);
	assert_int_equal(times_told, 0);
	proxy_session_start(c->b.p, &there, c->now_ns);
	core_wait(c, 1000 * CORE_MS);
	worker_pass_events(&w);
	assert_int_equal(times_told, 1);
	close(w.params.notify_fd);
	spsc_free(&w.events);
}

static unsigned losses_said(struct worker *w, struct worker_cmd *cmd)
{
	struct proxy_event ev;
	unsigned n = 0;

	carry_out(w, cmd);
	while (proxy_event_next(w->core, &ev))
		n += ev.type == EV_BUFFER_LOST;
	return n;
}

/* The other edge's last hello is of the time before it knew this arena, as long as the connection stands: each session
 * over it finds the buffer lost. */
static void command__a_lost_buffer_is_said_once_in_a_worker_s_life(void **state)
{
	static const struct wan_port_ops ops = {.session = fake_wan_session};
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct worker w = {.core = c->a.p, .wan_ops = &ops, .now_ns = c->now_ns};
	struct worker_cmd cmd = {.type = WORKER_SESSION, .session = {.epoch_tx = 0x20000, .epoch_rx = 0x20001}};

	saying = &w;
	assert_int_equal(losses_said(&w, &cmd), 0);
	cmd.session.arena_lost = true;
	assert_int_equal(losses_said(&w, &cmd), 1);
	assert_int_equal(losses_said(&w, &cmd), 0);
	assert_int_equal(losses_said(&w, &cmd), 0);
}

/* The answer may be read when the worker has ended, by who frees all that was not taken. */
static void command__keys_that_were_taken_are_not_in_the_answer(void **state)
{
	const struct seal_secret secret = {.cipher = SEAL_AES_128_GCM, .epoch = 7, .bytes = {1}};
	const struct seal_scope of = {
	    .nlanes = 2, .npaths = 1, .nshards = 1, .limits = {.datagrams = 1000, .bytes = 1 << 20}};
	struct worker w = {.seal = seal_new()};
	struct worker_cmd cmd = {.type = WORKER_RX_KEYS, .serial = 3, .keys = seal_keys_new(&secret, SEAL_RX, &of)};

	(void)state;
	assert_non_null(cmd.keys);
	assert_true(spsc_init(&w.commands, COMMANDS, sizeof(cmd)) && spsc_init(&w.answers, COMMANDS, sizeof(cmd)));
	assert_true(spsc_put(&w.commands, &cmd));
	assert_int_equal(worker_run_commands(&w), 1);
	assert_true(w.tell_main);
	assert_true(spsc_take(&w.answers, &cmd));
	assert_int_equal(cmd.serial, 3);
	assert_null(cmd.keys);
	seal_free(w.seal);
	spsc_free(&w.commands);
	spsc_free(&w.answers);
}

/* A thousand queue pairs fail at once, and the ring to the main thread holds few: whoever waits long enough has all. */
static void events__of_all_failed_flows_come_through(void **state)
{
	struct core *c = core_given(state, ACK_MODE_NEAR);
	struct worker w = {.core = c->a.p, .params.notify_fd = eventfd(0, EFD_NONBLOCK)};
	struct far_flow f = {0};
	struct proxy_event ev;
	uint32_t next = 0;

	while (proxy_event_next(c->a.p, &ev))
		;
	assert_true(spsc_init(&w.events, 16, sizeof(ev)));
	for (f.dest_qpn = 0; f.dest_qpn < 1000; f.dest_qpn++)
		proxy_failure_push(c->a.p, FAILURE_SILENT, NULL, &f, 0, 0);
	for (int turn = 0; turn < 200 && next < 1000; turn++) {
		worker_pass_events(&w);
		while (spsc_take(&w.events, &ev))
			assert_int_equal(ev.dest_qpn, next++);
	}
	assert_int_equal(next, 1000);
	assert_int_equal(w.events_lost, 0);
	close(w.params.notify_fd);
	spsc_free(&w.events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(events__of_all_failed_flows_come_through),
	    CORE_TEST(command__early_acks_are_said_before_there_are_any),
	    CORE_TEST(command__sizes_of_the_start_stay),
	    CORE_TEST(command__a_session_is_written_into_the_arena_s_trailer),
	    CORE_TEST(command__a_lost_buffer_is_said_once_in_a_worker_s_life),
	    cmocka_unit_test(command__keys_that_were_taken_are_not_in_the_answer),
	    cmocka_unit_test(command__a_port_that_cannot_be_bound_is_in_the_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
