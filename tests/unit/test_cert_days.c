/* SPDX-License-Identifier: Apache-2.0 */
/* When it is said that a certificate expires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/peer/cert_days.c"

#define END 1800000000

static int at(struct cert_days *d, double days_before)
{
	return cert_days_look(d, END - (int64_t)(days_before * DAY_S));
}

static void look__says_each_once(void **state)
{
	struct cert_days d;

	(void)state;
	cert_days_init(&d, END);
	assert_int_equal(at(&d, 800), -1);
	assert_int_equal(at(&d, 30.01), -1);
	assert_int_equal(at(&d, 29.99), 30);
	assert_int_equal(at(&d, 29), -1);
	assert_int_equal(at(&d, 7), 7);
	assert_int_equal(at(&d, 20), -1); /* the clock was set back */
	assert_int_equal(at(&d, 6.9), -1);
	assert_int_equal(at(&d, 0.5), 1);
	assert_int_equal(at(&d, 0), 0);
	assert_int_equal(at(&d, -3), -1);
}

static void look__says_at_once_what_is_late(void **state)
{
	struct cert_days d;

	(void)state;
	cert_days_init(&d, END);
	assert_int_equal(at(&d, 3), 7); /* a start */
	assert_int_equal(at(&d, 3), -1);
	cert_days_init(&d, END);
	assert_int_equal(at(&d, -1), 0);
	cert_days_init(&d, 0);
	assert_int_equal(at(&d, -1), -1); /* a pre-shared key */
}

static void left__rounds_down(void **state)
{
	(void)state;
	assert_int_equal(cert_days_left(END, END - 2 * DAY_S), 2);
	assert_int_equal(cert_days_left(END, END - 2 * DAY_S + 1), 1);
	assert_int_equal(cert_days_left(END, END), 0);
	assert_int_equal(cert_days_left(END, END + 1), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(look__says_each_once),
	    cmocka_unit_test(look__says_at_once_what_is_late),
	    cmocka_unit_test(left__rounds_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
