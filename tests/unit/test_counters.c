/* SPDX-License-Identifier: Apache-2.0 */
/* Names of drops, counters and events: there, fit for metrics, each once, and safe to ask for. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/counters.h"

/* The three lists behind one shape. */
static const char *drop_name(unsigned i)
{
	return proxy_drop_name((enum proxy_drop)i);
}

static const char *drop_text(unsigned i)
{
	return proxy_drop_text((enum proxy_drop)i);
}

static const char *counter_name(unsigned i)
{
	return proxy_counter_name((enum proxy_counter)i);
}

static const char *counter_text(unsigned i)
{
	return proxy_counter_text((enum proxy_counter)i);
}

static const char *event_name(unsigned i)
{
	return proxy_event_name((enum proxy_event_type)i);
}

static const char *event_text(unsigned i)
{
	return proxy_event_text((enum proxy_event_type)i);
}

static const struct {
	unsigned n;
	const char *(*name)(unsigned i);
	const char *(*text)(unsigned i);
} lists[] = {
    {DROP_COUNT, drop_name, drop_text},
    {CTR_COUNT, counter_name, counter_text},
    {EV_COUNT, event_name, event_text},
};

#define NLISTS (sizeof(lists) / sizeof(lists[0]))

static void names__are_metric_names(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLISTS; l++)
		for (unsigned i = 0; i < lists[l].n; i++) {
			const char *name = lists[l].name(i);

			assert_true(islower((unsigned char)name[0]));
			for (; *name; name++)
				assert_true(islower((unsigned char)*name) || *name == '_');
			assert_true(strlen(lists[l].text(i)) > 5);
		}
}

static void names__are_unique(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLISTS; l++)
		for (unsigned i = 0; i < lists[l].n; i++)
			for (unsigned j = 0; j < i; j++)
				assert_string_not_equal(lists[l].name(i), lists[l].name(j));
}

static void names__belong_to_their_enumerators(void **state)
{
	(void)state;
	assert_string_equal(proxy_drop_name(DROP_NONE), "none");
	assert_string_equal(proxy_drop_name(DROP_LAN_BAD_ICRC), "lan_bad_icrc");
	assert_string_equal(proxy_counter_name(CTR_ACKS_TX), "acks_tx");
	assert_string_equal(proxy_event_name(EV_WAN_DEAD), "wan_dead");
}

static void names__out_of_range(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLISTS; l++) {
		assert_string_equal(lists[l].name(lists[l].n), "unknown");
		assert_string_equal(lists[l].name((unsigned)-1), "unknown");
		assert_string_equal(lists[l].text(lists[l].n), "unknown");
	}
}

static void proxy_event_severity__is_one_of_three(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EV_COUNT; i++)
		assert_non_null(strchr("iwe", proxy_event_severity((enum proxy_event_type)i)));
	assert_int_equal(proxy_event_severity(EV_FLOW_FAILED), 'e');
	assert_int_equal(proxy_event_severity(EV_COUNT), 'w');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names__are_metric_names),
	    cmocka_unit_test(names__are_unique),
	    cmocka_unit_test(names__belong_to_their_enumerators),
	    cmocka_unit_test(names__out_of_range),
	    cmocka_unit_test(proxy_event_severity__is_one_of_three),
	};

	return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
