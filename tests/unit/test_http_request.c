/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/util/addr.c"
#include "daemon/telemetry/http_request.c"
#include "daemon/util/units.c"

static struct http_request req;

static enum http_status parse(const char *text)
{
	memset(&req, 0xff, sizeof(req));
	return http_request_parse(text, strlen(text), &req);
}

static void http_request_parse__what_prometheus_sends(void **state)
{
	(void)state;
	assert_int_equal(parse("GET /metrics HTTP/1.1\r\nHost: edge:9470\r\nUser-Agent: Prometheus/2.42.0\r\n"
	                       "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n"),
	                 HTTP_OK);
	assert_string_equal(req.path, "/metrics");
	assert_string_equal(req.host, "edge:9470");
	assert_false(req.head_only);
	assert_int_equal(parse("HEAD /metrics?collect=all HTTP/1.0\r\n\r\n"), HTTP_OK);
	assert_string_equal(req.path, "/metrics");
	assert_true(req.head_only);
	assert_int_equal(parse("GET / HTTP/1.1\n\n"), HTTP_OK); /* bare line feeds: RFC 9112 2.2 allows it */
	assert_string_equal(req.path, "/");
}

/* However it comes in pieces: incomplete to the last byte. */
static void http_request_parse__byte_by_byte(void **state)
{
	static const char text[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

	(void)state;
	for (size_t n = 0; n < sizeof(text) - 1; n++)
		assert_int_equal(http_request_parse(text, n, &req), HTTP_INCOMPLETE);
	assert_int_equal(http_request_parse(text, sizeof(text) - 1, &req), HTTP_OK);
}

static void http_request_parse__hostile(void **state)
{
	static const struct {
		const char *text;
		enum http_status status;
	} cases[] = {
	    {"\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET /metrics\r\n\r\n", HTTP_BAD_REQUEST}, /* HTTP/0.9 */
	    {"GET  HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {" / HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET / HTTP/2.0\r\n\r\n", HTTP_BAD_VERSION},
	    {"GET / HTTP/1.1 \r\n\r\n", HTTP_BAD_VERSION},
	    {"GET /a b HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET /\x7f HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET /\x01 HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET metrics HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {"GET http://edge/metrics HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
	    {"POST /metrics HTTP/1.1\r\nContent-Length: 9999999999999\r\n\r\n", HTTP_BAD_METHOD},
	    {"get /metrics HTTP/1.1\r\n\r\n", HTTP_BAD_METHOD},
	    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP_BAD_VERSION},
	    {"\x16\x03\x01\x02", HTTP_INCOMPLETE}, /* TLS */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (parse(cases[i].text) != cases[i].status)
			fail_msg("case %zu", i);
}

static void http_request_parse__bounds(void **state)
{
	static char text[HTTP_HEAD_MAX + 64];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "GET /", 5);
	assert_int_equal(http_request_parse(text, HTTP_HEAD_MAX - 1, &req), HTTP_INCOMPLETE);
	assert_int_equal(http_request_parse(text, HTTP_HEAD_MAX, &req), HTTP_HEAD_TOO_LARGE);
	assert_int_equal(http_request_parse(text, sizeof(text), &req), HTTP_HEAD_TOO_LARGE);
	/* a path as long as there is room, and one byte longer */
	memcpy(text + 4 + HTTP_PATH_MAX - 1, " HTTP/1.1\r\n\r\n", 13);
	assert_int_equal(http_request_parse(text, sizeof(text), &req), HTTP_OK);
	assert_int_equal(strlen(req.path), HTTP_PATH_MAX - 1);
	text[4 + HTTP_PATH_MAX - 1] = 'a';
	memcpy(text + 4 + HTTP_PATH_MAX, " HTTP/1.1\r\n\r\n", 13);
	assert_int_equal(http_request_parse(text, sizeof(text), &req), HTTP_NOT_FOUND);
	/* the empty line just beyond the limit does not count */
	memset(text, 'a', sizeof(text));
	memcpy(text, "GET / HTTP/1.1\r\n", 16);
	memcpy(text + HTTP_HEAD_MAX - 2, "\r\n\r\n", 4);
	assert_int_equal(http_request_parse(text, sizeof(text), &req), HTTP_HEAD_TOO_LARGE);
}

static void http_request_parse__host(void **state)
{
	static char text[HTTP_HEAD_MAX];

	(void)state;
	assert_int_equal(parse("GET / HTTP/1.1\r\nX: Host: a\r\nhOST:  [::1]:9\r\nZ:\r\n\r\n"), HTTP_OK);
	assert_string_equal(req.host, "[::1]:9");
	assert_int_equal(parse("GET / HTTP/1.0\r\nHostess: a\r\n\r\n"), HTTP_OK);
	assert_string_equal(req.host, "");
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), HTTP_BAD_REQUEST);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n"), HTTP_BAD_REQUEST);
	assert_int_equal(parse("GET / HTTP/1.1\r\nHost:\r\n\r\n"), HTTP_OK);
	for (size_t n = HTTP_HOST_MAX - 1; n <= HTTP_HOST_MAX; n++) {
		snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %0*d\r\n\r\n", (int)n, 0);
		assert_int_equal(parse(text), n < HTTP_HOST_MAX ? HTTP_OK : HTTP_BAD_REQUEST);
	}
}

static void http_host_is_local__names(void **state)
{
	static const char *const local[] = {"", "localhost", "LOCALHOST:9470", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:9470"};
	static const char *const other[] = {"edge", "localhost.example.org", "127.0.0.1.example.org:9470", "192.0.2.1", "[::2]:1",
	                                    "::1", "[", "[]", ":", "127.0.0.1@evil", "[127.0.0.1.evil"};

	(void)state;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (!http_host_is_local(local[i]))
			fail_msg("%s is local", local[i]);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		if (http_host_is_local(other[i]))
			fail_msg("%s is not local", other[i]);
}

static void addr_read_endpoint__forms(void **state)
{
	struct sockaddr_storage ss;
	struct ip_addr a;
	char text[ADDR_TEXT_MAX];
	socklen_t len;

	(void)state;
	assert_int_equal(addr_read_endpoint("9470", &ss, &len), 0);
	assert_true(addr_from_sockaddr((struct sockaddr *)&ss, &a));
	assert_string_equal(addr_write(&a, text, sizeof(text)), "127.0.0.1");
	assert_int_equal(addr_read_endpoint("192.0.2.1:65535", &ss, &len), 0);
	assert_true(addr_from_sockaddr((struct sockaddr *)&ss, &a));
	assert_string_equal(addr_write(&a, text, sizeof(text)), "192.0.2.1");
	assert_int_equal(addr_read_endpoint("[::1]:1", &ss, &len), 0);
	assert_int_equal(ss.ss_family, AF_INET6);
}

static void addr_read_endpoint__nonsense(void **state)
{
	static const char *const cases[] = {
	    "",           "0",         "65536",   "x",        ":9470",      "9470:", "[]:1",
	    "[127.0.0.1]:1", "::1:9470", "[::1]",   "[::1:9470", "localhost:1", "1.2.3:1", "10.0.0.1:-1",
	    "1234567890123456789012345678901234567890123456789012345678901234567890:1",
	};
	struct sockaddr_storage ss;
	socklen_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (addr_read_endpoint(cases[i], &ss, &len) != -EINVAL)
			fail_msg("%s was taken", cases[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(http_request_parse__what_prometheus_sends),
	    cmocka_unit_test(http_request_parse__byte_by_byte),
	    cmocka_unit_test(http_request_parse__hostile),
	    cmocka_unit_test(http_request_parse__bounds),
	    cmocka_unit_test(http_request_parse__host),
	    cmocka_unit_test(http_host_is_local__names),
	    cmocka_unit_test(addr_read_endpoint__forms),
	    cmocka_unit_test(addr_read_endpoint__nonsense),
	};

	return cmocka_run_group_tests_name("http_request", tests, NULL, NULL);
}
