/* SPDX-License-Identifier: Apache-2.0 */
/* Any first bytes of a connection, before anything is known of who sent them.
 *
 * Beside memory safety: what is found lies within the bytes, a prefix of a whole ClientHello is never refused, more
 * bytes behind it change nothing, and no proof holds that was not made with the key. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"

#include "daemon/peer/tls_proof.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[TLS_PROOF_KEY_LEN] = {1}, ends[TLS_PROOF_ENDS_LEN] = {2};
	struct tls_first_flight f, part;
	int r = tls_first_flight_read(data, size, &f);

	REQUIRE(r == 1 || r == 0 || r == -EPROTO);
	if (r != 1)
		return 0;
	REQUIRE(f.random >= data && f.random + 32 <= data + size);
	REQUIRE(!f.proof || (f.proof > f.random && f.proof + TLS_PROOF_LEN <= data + size));
	for (size_t n = 0; n < size && n < 64; n++)
		REQUIRE(tls_first_flight_read(data, n, &part) >= 0);
	if (f.proof) {
		uint8_t made[TLS_PROOF_LEN];

		tls_proof_make(key, f.random, ends, made);
		REQUIRE(tls_proof_holds(&f, key, ends) == (memcmp(made, f.proof, sizeof(made)) == 0));
	}
	return 0;
}
