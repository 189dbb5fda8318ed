/* SPDX-License-Identifier: Apache-2.0 */
/* tls_proof.h - a proof, in the first bytes of a TLS connection, that their sender has the link's keys. Pure.
 *
 * A ClientHello carries, in an extension of private use, a MAC over its own random bytes and the connection's addresses
 * and ports, under a key that both edges derive from a secret that they share anyway: the pre-shared key, or the CA's
 * certificate. The MAC can be checked before any work for TLS. It is no authentication, which TLS does: it tells which
 * connections to serve first. An edge that does not know the extension ignores it (RFC 8446 4.2). */
#ifndef DAEMON_TLS_PROOF_H
#define DAEMON_TLS_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_PROOF_EXT       0xff4c /* RFC 8446 11: private use */
#define TLS_PROOF_LEN       32     /* HMAC-SHA-256 */
#define TLS_PROOF_KEY_LEN   32
#define TLS_PROOF_ENDS_LEN  36   /* client's address and port, server's address and port */
#define TLS_PROOF_HELLO_MAX 2048 /* bytes that are read; our ClientHello takes some 300 */

struct tls_first_flight {
	const uint8_t *random; /* 32 bytes of the ClientHello */
	const uint8_t *proof;  /* TLS_PROOF_LEN bytes; NULL: it has none */
};

/* 1: data begins with a whole ClientHello, described in f. 0: it may become one. -EPROTO: it never does. */
int tls_first_flight_read(const uint8_t *data, size_t len, struct tls_first_flight *f);

void tls_proof_make(const uint8_t key[TLS_PROOF_KEY_LEN], const uint8_t random[32],
                    const uint8_t ends[TLS_PROOF_ENDS_LEN], uint8_t proof[TLS_PROOF_LEN]);
/* In constant time. */
bool tls_proof_holds(const struct tls_first_flight *f, const uint8_t key[TLS_PROOF_KEY_LEN],
                     const uint8_t ends[TLS_PROOF_ENDS_LEN]);

#endif
