/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes on the control channel, as a stream of messages.
 *
 * Beside memory safety: a message never takes more bytes than there are, the same bytes never give two readings, a
 * hello that was understood reads the same after being written again, and two edges come to mirrored verdicts and
 * epochs. */
#include <string.h>

#include "fuzz.h"

#include "daemon/util/units.c"
#include "daemon/util/addr.c"
#include "daemon/peer/hello.c"
#include "daemon/config/host_groups.c"

static void check_pair(const struct hello *a, const struct hello *b)
{
	char here[HELLO_TEXT_MAX], there[HELLO_TEXT_MAX];
	struct proxy_session sa, sb;
	enum hello_verdict v = hello_compare(a, b, here);

	REQUIRE(v == hello_compare(b, a, there));
	REQUIRE((v == HELLO_AGREED) == (here[0] == '\0'));
	REQUIRE(strlen(here) < HELLO_TEXT_MAX && strlen(there) < HELLO_TEXT_MAX);
	hello_epochs(a, b, &sa);
	hello_epochs(b, a, &sb);
	REQUIRE(sa.epoch_tx == sb.epoch_rx && sa.epoch_rx == sb.epoch_tx);
	REQUIRE(sa.epoch_tx != 0 && sa.epoch_rx != 0);
}

static void check_hello(const struct hello *h)
{
	uint8_t body[PEER_BODY_MAX];
	uint16_t len = hello_encode(h, body);
	struct hello again;

	REQUIRE(len <= PEER_BODY_MAX);
	REQUIRE(hello_decode(body, len, &again) == 0);
	REQUIRE(memcmp(h, &again, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hello last = {0}, h;
	struct peer_msg m;
	int n;

	while ((n = peer_msg_next(data, size, &m)) > 0) {
		REQUIRE((size_t)n <= size && m.body + m.len == data + n && m.len <= PEER_BODY_MAX);
		if (m.type == MSG_HELLO && hello_decode(m.body, m.len, &h) == 0) {
			check_hello(&h);
			check_pair(&h, &last);
			last = h;
		}
		data += n;
		size -= (size_t)n;
	}
	REQUIRE(n == 0 || n == -EPROTO);
	return 0;
}
