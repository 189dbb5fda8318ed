/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker knows of next hops, and when it asks: what is known is used, what nobody has is asked about in
 * bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/lan/route_table.c"

#define MS    1000000ull
#define SEC   (1000 * MS)
#define START (100 * SEC)

static struct ip_addr host(uint32_t n)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}};
}

static int setup(void **state)
{
	struct route_table *t = calloc(1, sizeof(*t));

	route_table_init(t);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* A packet for the host: what is known. *asks counts the questions. */
static enum route_answer look(struct route_table *t, uint32_t n, uint64_t now_ns, uint32_t *asks)
{
	struct ip_addr dst = host(n);
	struct route_entry *e = route_table_get(t, &dst, now_ns);

	if (!e)
		return ROUTE_REFUSED;
	*asks += route_table_ask(t, e, now_ns);
	return e->found.answer;
}

static void answer(struct route_table *t, uint32_t n, enum route_answer what, uint32_t via, uint64_t now_ns)
{
	struct route_found f = {.answer = what, .ifindex = what == ROUTE_NONE ? 0 : 3, .via = host(via)};
	struct ip_addr dst = host(n);

	f.hop.dst_mac[5] = (uint8_t)via;
	route_table_found(t, &dst, &f, now_ns);
}

static void know(struct route_table *t, uint32_t n, uint64_t now_ns)
{
	uint32_t asks = 0;

	look(t, n, now_ns, &asks);
	assert_int_equal(asks, 1);
	answer(t, n, ROUTE_OK, n, now_ns);
}

/* Packets for n hosts that nobody has, other ones each time. Returns how many questions they make. */
static uint32_t spray(struct route_table *t, uint32_t n, uint64_t now_ns)
{
	static uint32_t next;
	uint32_t asks = 0;

	for (uint32_t i = 0; i < n; i++)
		look(t, 0x10000 + next++ % 0xff0000, now_ns, &asks);
	return asks;
}

/* --- asking --- */

static void route_table__one_question_while_none_is_answered(void **state)
{
	struct route_table *t = *state;
	struct ip_addr dst = host(1);
	uint32_t asks = 0;

	for (uint64_t ms = 0; ms < 100; ms++)
		assert_int_equal(look(t, 1, START + ms * MS, &asks), ROUTE_RESOLVING);
	assert_int_equal(asks, 1);
	answer(t, 1, ROUTE_OK, 7, START + 100 * MS);
	assert_int_equal(look(t, 1, START + 101 * MS, &asks), ROUTE_OK);
	assert_int_equal(asks, 1);
	assert_int_equal(find(t, &dst)->found.hop.dst_mac[5], 7);
}

/* Once a second while it is used, and what is known is used until there is an answer, be it after minutes. */
static void route_table__what_is_known_is_used_meanwhile(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0;

	know(t, 1, START);
	assert_int_equal(look(t, 1, START + 999 * MS, &asks), ROUTE_OK);
	assert_int_equal(asks, 0);
	for (uint64_t ms = 1000; ms < 60000; ms += 10)
		assert_int_equal(look(t, 1, START + ms * MS, &asks), ROUTE_OK);
	assert_in_range(asks, 58, 60); /* again after a second: it may have been lost */
	answer(t, 1, ROUTE_NONE, 0, START + 60 * SEC);
	assert_int_equal(look(t, 1, START + 60 * SEC, &asks), ROUTE_NONE);
}

static void route_table__no_next_hop_is_asked_about_sooner(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0;

	look(t, 1, START, &asks);
	answer(t, 1, ROUTE_RESOLVING, 1, START);
	assert_int_equal(look(t, 1, START + 99 * MS, &asks), ROUTE_RESOLVING);
	assert_int_equal(asks, 1);
	look(t, 1, START + 100 * MS, &asks);
	assert_int_equal(asks, 2);
}

/* --- bounds --- */

static void route_table__so_many_questions_at_once_and_per_second(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0;

	assert_int_equal(spray(t, 50000, START), ROUTE_ASKS_AT_ONCE);
	assert_int_equal(look(t, 1, START, &asks), ROUTE_REFUSED);
	for (uint64_t ms = 0; ms < 10000; ms++)
		asks += spray(t, 100, START + ms * MS);
	assert_in_range(asks, 10 * ROUTE_ASKS_PER_S - 10, 10 * ROUTE_ASKS_PER_S);
	assert_int_equal(look(t, 1, START + 11 * SEC, &asks), ROUTE_RESOLVING); /* it is over */
}

/* However many there are: known hosts keep their places, and their questions are free. */
static void route_table__addresses_that_nobody_has_cost_known_hosts_nothing(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0;

	for (uint32_t n = 0; n < 1000; n++)
		know(t, n, START);
	for (uint64_t ms = 0; ms < 900; ms++)
		spray(t, 10, START + ms * MS);
	for (uint32_t n = 0; n < 1000; n++)
		assert_int_equal(look(t, n, START + 900 * MS, &asks), ROUTE_OK);
	assert_int_equal(asks, 0);
	for (uint32_t n = 0; n < 1000; n++)
		assert_int_equal(look(t, n, START + 1100 * MS, &asks), ROUTE_OK);
	assert_int_equal(asks, 1000);
}

/* Nor do hosts that are known and silent give their places to those that the kernel has tried and found nobody. */
static void route_table__silent_hosts_keep_their_places(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0;

	for (uint32_t n = 0; n < 1000; n++)
		know(t, n, START);
	for (uint32_t i = 0; i < 20000; i++) {
		uint64_t now_ns = START + 5 * SEC + i * MS;

		look(t, 0x10000 + i, now_ns, &asks);
		answer(t, 0x10000 + i, ROUTE_RESOLVING, 0x10000 + i, now_ns);
	}
	for (uint32_t n = 0; n < 1000; n++)
		assert_int_equal(look(t, n, START + 30 * SEC, &asks), ROUTE_OK);
}

/* --- changes --- */

static void route_table__a_change_is_asked_about_at_once(void **state)
{
	struct route_table *t = *state;
	struct ip_addr via = host(50);
	uint32_t asks = 0;

	for (uint32_t n = 1; n <= 3; n++)
		look(t, n, START, &asks);
	for (uint32_t n = 1; n <= 3; n++)
		answer(t, n, ROUTE_OK, n == 3 ? 60 : 50, START);
	asks = 0;
	route_table_changed(t, 4, &via); /* on another interface */
	for (uint32_t n = 1; n <= 3; n++)
		assert_int_equal(look(t, n, START + MS, &asks), ROUTE_OK);
	assert_int_equal(asks, 0);
	route_table_changed(t, 3, &via);
	for (uint32_t n = 1; n <= 3; n++)
		assert_int_equal(look(t, n, START + MS, &asks), ROUTE_OK);
	assert_int_equal(asks, 2);
}

/* A neighbour that answers while too much is being asked for: its hosts do not wait for that. */
static void route_table__a_change_is_asked_about_for_nothing(void **state)
{
	struct route_table *t = *state;
	struct ip_addr via = host(1);
	uint32_t asks = 0;

	look(t, 1, START, &asks);
	answer(t, 1, ROUTE_RESOLVING, 1, START);
	spray(t, 50 * ROUTE_ASKS_AT_ONCE, START + 200 * MS);
	asks = 0;
	look(t, 1, START + 200 * MS, &asks);
	assert_int_equal(asks, 0);
	route_table_changed(t, 3, &via);
	look(t, 1, START + 200 * MS, &asks);
	look(t, 1, START + 200 * MS, &asks);
	assert_int_equal(asks, 1);
}

/* Routes changed, or something that the thread had to say was lost, an answer perhaps. */
static void route_table__everything_is_asked_about_again(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0;

	know(t, 1, START);
	look(t, 2, START, &asks);
	asks = 0;
	route_table_changed_all(t);
	assert_int_equal(look(t, 1, START + MS, &asks), ROUTE_OK);
	assert_int_equal(look(t, 2, START + MS, &asks), ROUTE_RESOLVING);
	assert_int_equal(look(t, 3, START + MS, &asks), ROUTE_RESOLVING);
	assert_int_equal(asks, 3);
}

/* Places change hands while answers are on their way, and what a neighbour's change concerns follows. */
static void route_table__places_change_hands(void **state)
{
	struct route_table *t = *state;
	uint32_t asks = 0, found = 0, listed = 0;
	uint64_t now_ns = START;

	for (uint32_t n = 0; n < 20000; n++) {
		now_ns += 2 * MS;
		look(t, n, now_ns, &asks);
		if (n >= 100)
			answer(t, n - 100, n % 3 ? ROUTE_OK : ROUTE_NONE, n % 7, now_ns);
	}
	for (uint32_t n = 0; n < 20000; n++) {
		struct ip_addr dst = host(n);
		const struct route_entry *e = find(t, &dst);

		found += e && e->found.ifindex;
	}
	for (uint32_t via = 0; via < ROUTE_SETS; via++)
		for (const struct dnode *n = t->by_via[via].next; n != &t->by_via[via]; n = n->next)
			listed++;
	assert_in_range(found, 1000, ROUTE_SETS * ROUTE_WAYS);
	assert_int_equal(listed, found);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(route_table__one_question_while_none_is_answered),
	    TEST(route_table__what_is_known_is_used_meanwhile),
	    TEST(route_table__no_next_hop_is_asked_about_sooner),
	    TEST(route_table__so_many_questions_at_once_and_per_second),
	    TEST(route_table__addresses_that_nobody_has_cost_known_hosts_nothing),
	    TEST(route_table__silent_hosts_keep_their_places),
	    TEST(route_table__a_change_is_asked_about_at_once),
	    TEST(route_table__a_change_is_asked_about_for_nothing),
	    TEST(route_table__everything_is_asked_about_again),
	    TEST(route_table__places_change_hands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
