/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an HTTP request, as they come in pieces: what is decided of a beginning stays decided, and a path that
 * was taken is a path. */
#include <string.h>

#include "fuzz.h"

#include "daemon/telemetry/http_request.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct http_request r;
	enum http_status whole = http_request_parse(text, size, &r), begun = HTTP_INCOMPLETE;

	if (whole == HTTP_OK)
		REQUIRE(r.path[0] == '/' && memchr(r.path, '\0', sizeof(r.path)) && !strpbrk(r.path, " ?\r\n"));
	if (whole == HTTP_OK)
		(void)http_host_is_local(r.host);
	for (size_t n = 0; n < size && begun == HTTP_INCOMPLETE; n++)
		begun = http_request_parse(text, n, &r);
	REQUIRE(begun == HTTP_INCOMPLETE || begun == whole);
	return 0;
}
