/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to a worker: who owns what they bring, whenever the link stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/worker_command.c"
#include "no_log.h"

/* Of ports: nothing here asks them. */
void wan_port_stats(struct wan_port *w, struct wan_port_stats *s)
{
	(void)w;
	memset(s, 0, sizeof(*s));
}

void wan_port_session(struct wan_port *w, uint32_t epoch)
{
	(void)w;
	(void)epoch;
}

void lan_pause_stats(struct lan_pause *p, struct lan_pause_stats *s)
{
	(void)p;
	memset(s, 0, sizeof(*s));
}

static int rebound = -1;

int lan_pause_follow(struct lan_pause *p, uint32_t port, const char *ifname)
{
	(void)p;
	(void)port;
	(void)ifname;
	return 0;
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
	w.lan_ops = &ops;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(command__keys_that_were_taken_are_not_in_the_answer),
	    cmocka_unit_test(command__a_port_that_cannot_be_bound_is_in_the_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
