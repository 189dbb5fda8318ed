/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to a worker: who owns what they bring, whenever the link stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
