/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/util/units.c"

typedef int read_fn(const char *, uint64_t *);
typedef void write_fn(char *, size_t, uint64_t);

static void reads(read_fn *fn, const char *text, uint64_t want)
{
	uint64_t got = 0;
	int r = fn(text, &got);

	if (r != 0 || got != want)
		fail_msg("\"%s\": %d, %llu; expected %llu", text, r, (unsigned long long)got, (unsigned long long)want);
}

static void refuses(read_fn *fn, const char *text, int want)
{
	uint64_t got;
	int r = fn(text, &got);

	if (r != want)
		fail_msg("\"%s\": %d; expected %d", text, r, want);
}

static void units_read_rate__all_spellings(void **state)
{
	(void)state;
	reads(units_read_rate, "100G", 100000000000ull);
	reads(units_read_rate, "2.5Gbit/s", 2500000000ull);
	reads(units_read_rate, "2.5 Gbit/s", 2500000000ull);
	reads(units_read_rate, "400Gbps", 400000000000ull);
	reads(units_read_rate, "1.6T", 1600000000000ull);
	reads(units_read_rate, "10M", 10000000ull);
	reads(units_read_rate, "64kbit/s", 64000ull);
	reads(units_read_rate, "1200", 1200ull);
	reads(units_read_rate, "0", 0);
}

static void units_read_rate__refuses_what_is_none(void **state)
{
	static const char *const bad[] = {"",     "fast", "G",    "-1G",   "+1G",  "1e9",  "1.G",  ".5G",
	                                  "1,5G", "10g",  "10GB", "10 GG", " 10G", "10G ", "0x10", "10Gbit/s/s"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuses(units_read_rate, bad[i], -EINVAL);
}

static void units_read_rate__refuses_what_does_not_fit(void **state)
{
	(void)state;
	refuses(units_read_rate, "99999999999T", -ERANGE);
	refuses(units_read_rate, "99999999999999999999999999999999999999", -ERANGE);
	refuses(units_read_rate, "0.0001k", -ERANGE);
	reads(units_read_rate, "18446744073709551615", UINT64_MAX);
	refuses(units_read_rate, "18446744073709551616", -ERANGE);
}

static void units_read_time__all_spellings(void **state)
{
	(void)state;
	reads(units_read_time, "1.5ms", 1500000);
	reads(units_read_time, "30us", 30000);
	reads(units_read_time, "30 \xc2\xb5s", 30000);
	reads(units_read_time, "30\xce\xbcs", 30000);
	reads(units_read_time, "2s", 2000000000);
	reads(units_read_time, "7ns", 7);
	refuses(units_read_time, "7", -EINVAL); /* of what? */
	refuses(units_read_time, "1.5ns", -ERANGE);
	refuses(units_read_time, "1min", -EINVAL);
}

static void units_read_distance__all_spellings(void **state)
{
	(void)state;
	reads(units_read_distance, "300km", 300000);
	reads(units_read_distance, "1.5km", 1500);
	reads(units_read_distance, "40m", 40);
	refuses(units_read_distance, "300", -EINVAL);
	refuses(units_read_distance, "300mi", -EINVAL);
}

static void units_read_bytes__binary_and_decimal(void **state)
{
	(void)state;
	reads(units_read_bytes, "9KiB", 9216);
	reads(units_read_bytes, "9K", 9216);
	reads(units_read_bytes, "64M", 64ull << 20);
	reads(units_read_bytes, "1GB", 1000000000);
	reads(units_read_bytes, "1GiB", 1ull << 30);
	reads(units_read_bytes, "0.5MiB", 512 << 10);
	reads(units_read_bytes, "9000", 9000);
	reads(units_read_bytes, "9000B", 9000);
	refuses(units_read_bytes, "9Kib", -EINVAL);
}

static void units_write__can_be_read_back(void **state)
{
	static const struct {
		read_fn *read;
		write_fn *write;
	} kinds[] = {
	    {units_read_rate, units_write_rate},   {units_read_distance, units_write_distance},
	    {units_read_time, units_write_time},   {units_read_bytes, units_write_bytes},
	    {units_read_count, units_write_count},
	};
	static const uint64_t values[] = {0,    1,          999,        1000,          1024,
	                                  1500, 2500000000, 1ull << 30, 3000000000001, UINT64_MAX};
	char text[UNITS_TEXT_MAX];

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			kinds[k].write(text, sizeof(text), values[i]);
			reads(kinds[k].read, text, values[i]);
		}
}

static void units_write__uses_the_unit_one_would(void **state)
{
	char text[UNITS_TEXT_MAX];

	(void)state;
	units_write_rate(text, sizeof(text), 100000000000ull);
	assert_string_equal(text, "100G");
	units_write_time(text, sizeof(text), 30000);
	assert_string_equal(text, "30us");
	units_write_time(text, sizeof(text), 1500000);
	assert_string_equal(text, "1500us");
	units_write_bytes(text, sizeof(text), 64ull << 20);
	assert_string_equal(text, "64MiB");
	units_write_distance(text, sizeof(text), 300000);
	assert_string_equal(text, "300km");
}

static void units_show__three_digits(void **state)
{
	char buf[UNITS_TEXT_MAX];

	(void)state;
	assert_string_equal(units_show_rate(buf, 13.7e9), "13.7 Gbit/s");
	assert_string_equal(units_show_rate(buf, 0), "0 bit/s");
	assert_string_equal(units_show_rate(buf, 999.9e6), "1.00 Gbit/s");
	assert_string_equal(units_show_rate(buf, 123456), "123 kbit/s");
	assert_string_equal(units_show_time(buf, 3.014e6), "3.01 ms");
	assert_string_equal(units_show_bytes(buf, 1536), "1.50 KiB");
	assert_string_equal(units_show_distance(buf, 301200), "301 km");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(units_read_rate__all_spellings),
	    cmocka_unit_test(units_read_rate__refuses_what_is_none),
	    cmocka_unit_test(units_read_rate__refuses_what_does_not_fit),
	    cmocka_unit_test(units_read_time__all_spellings),
	    cmocka_unit_test(units_read_distance__all_spellings),
	    cmocka_unit_test(units_read_bytes__binary_and_decimal),
	    cmocka_unit_test(units_write__can_be_read_back),
	    cmocka_unit_test(units_write__uses_the_unit_one_would),
	    cmocka_unit_test(units_show__three_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
