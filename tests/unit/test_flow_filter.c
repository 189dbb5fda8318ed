/* SPDX-License-Identifier: Apache-2.0 */
/* Which flows are meant by what somebody types, and by the words that go over the socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/util/addr.c"
#include "daemon/util/flow_filter.c"

static struct proxy_flow_status flow(const char *src, uint32_t requester, const char *dst, uint32_t dest)
{
	struct proxy_flow_status s = {.side = FLOW_NEAR, .flow = 3, .pairing = PAIR_CONFIRMED};

	assert_int_equal(addr_read(src, &s.src), 0);
	assert_int_equal(addr_read(dst, &s.dst), 0);
	s.requester_qpn = requester;
	s.dest_qpn = dest;
	return s;
}

static bool means(const char *text, const struct proxy_flow_status *s)
{
	struct flow_filter f;
	const char *what;

	assert_int_equal(flow_filter_parse(&f, text, &what), 0);
	return flow_filter_fits(&f, s);
}

static void flow_filter__what_people_type(void **state)
{
	static const char *const yes[] = {"10.1.0.2",       "10.2.0.2",         "10.1.0.2:0x12",  "10.2.0.2:21",
	                                  "[10.2.0.2]:21",  "0x12",             "21",             "10.1.0.2>10.2.0.2",
	                                  "10.1.0.2->10.2.0.2:0x15", "10.1.0.2:18>10.2.0.2:21", "near:3"};
	static const char *const no[] = {"10.1.0.3",           "10.1.0.2:21",       "10.2.0.2:18", "22",
	                                 "10.2.0.2>10.1.0.2",  "10.1.0.2:19>10.2.0.2", "far:3",    "near:4"};
	struct proxy_flow_status s = flow("10.1.0.2", 0x12, "10.2.0.2", 0x15);

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!means(yes[i], &s))
			fail_msg("%s does not mean it", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (means(no[i], &s))
			fail_msg("%s means it", no[i]);
}

static void flow_filter__ip6_takes_a_qpn_in_brackets_alone(void **state)
{
	struct proxy_flow_status s = flow("fd01::2", 0x12, "fd02::2", 0x15);

	(void)state;
	assert_true(means("fd01::2", &s));
	assert_true(means("[fd01::2]:18", &s));
	assert_true(means("[fd01::2]:0x12>[fd02::2]:0x15", &s));
	assert_false(means("[fd01::2]:21", &s));
}

/* Nobody knows yet which queue pair of the host it is: it is not hidden from who asks. */
static void flow_filter__a_flow_that_learns_may_be_any_of_its_host(void **state)
{
	struct proxy_flow_status s = flow("10.1.0.2", 0, "10.2.0.2", 0x15);

	(void)state;
	s.pairing = PAIR_LEARNING;
	assert_true(means("10.1.0.2:0x777", &s));
	assert_false(means("0x777", &s));
	assert_false(means("10.2.0.2:0x777", &s));
}

static void flow_filter__refuses_what_is_none(void **state)
{
	static const char *const bad[] = {"",          "host",        "10.1.0",      "10.1.0.2:",     "10.1.0.2:0x1000000",
	                                  "10.1.0.2:x", ">10.2.0.2",  "10.1.0.2>",   "near:",         "near:-1",
	                                  "[10.1.0.2",  "[fd01::2]x", "-5",          "0x",            "10.1.0.2>10.2.0.2>10.3.0.3",
	                                  "16777216",   "12 13"};
	char longer[1000];
	struct flow_filter f;
	const char *what;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (flow_filter_parse(&f, bad[i], &what) != -EINVAL)
			fail_msg("\"%s\" is taken", bad[i]);
	memset(longer, '1', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(flow_filter_parse(&f, longer, &what), -EINVAL);
}

/* What the client says is what the daemon reads. */
static void flow_filter__words_go_there_and_back(void **state)
{
	static const char *const texts[] = {"10.1.0.2", "[fd01::2]:18", "0xffffff", "10.1.0.2:1>10.2.0.2:2", "far:4294967295"};
	struct flow_filter f, back;
	char text[512], *save, *word;
	const char *what;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(flow_filter_parse(&f, texts[i], &what), 0);
		flow_filter_write(&f, text, sizeof(text));
		memset(&back, 0, sizeof(back));
		for (word = strtok_r(text, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
			assert_int_equal(flow_filter_read(&back, word, strtok_r(NULL, " ", &save)), 0);
		assert_memory_equal(&f, &back, sizeof(f));
	}
	assert_int_equal(flow_filter_read(&back, "colour", "red"), -ENOENT);
	assert_int_equal(flow_filter_read(&back, "vlan", "4096"), -EINVAL);
	assert_int_equal(flow_filter_read(&back, "host", ""), -EINVAL);
	assert_int_equal(flow_filter_read(&back, "side", "left"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(flow_filter__what_people_type),
	    cmocka_unit_test(flow_filter__ip6_takes_a_qpn_in_brackets_alone),
	    cmocka_unit_test(flow_filter__a_flow_that_learns_may_be_any_of_its_host),
	    cmocka_unit_test(flow_filter__refuses_what_is_none),
	    cmocka_unit_test(flow_filter__words_go_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
