/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - the control channel's TLS: 1.3 only, both ends authenticate (certificates of the link's own CA, or a
 * pre-shared key), and failures are told in a sentence. */
#ifndef DAEMON_TLS_H
#define DAEMON_TLS_H

#include "daemon/config/config.h"
#include "tls_proof.h"
#include "seal/seal.h"

struct ssl_st;
struct tls;

#define TLS_WHY_MAX         320
#define TLS_FINGERPRINT_LEN 32 /* SHA-256 */

/* Reads the files that the configuration names. 0 (*t NULL: Encryption=none), or negative errno with err a sentence. */
int tls_open(const struct link_config *c, struct tls **t, char err[CONFIG_ERR_MAX]);
void tls_close(struct tls *t);

/* Fills in the `ends` for tls_proof_make(): addresses and ports of a connected socket. client: fd is the connecting
 * side's. */
bool tls_ends(int fd, bool client, uint8_t ends[TLS_PROOF_ENDS_LEN]);
/* When this edge's certificate and the CA's that signed it expire, CLOCK_REALTIME seconds; 0: there is none. */
struct tls_expiry {
	int64_t certificate_s, ca_s;
};
struct tls_expiry tls_expiry(const struct tls *t); /* t may be NULL */

/* A digest of everything that authenticates: PeerName=, the CAs, this edge's certificate, or the pre-shared key. The
 * same for files with the same contents. TLS_FINGERPRINT_LEN bytes, valid until tls_close(). */
const uint8_t *tls_fingerprint(const struct tls *t);

/* True if this edge's own certificate is for that name. */
bool tls_is_named(const struct tls *t, const char *name);

/* True if users other than its owner may read the CA= file: they can make the proof, too. */
bool tls_proof_is_public(const struct tls *t);
/* True if the Certificate= file contains a root certificate. tls.c does not send it: whoever has the root certificate
 * of CA= can make the proof. */
bool tls_root_is_left_out(const struct tls *t);
/* True if the sender of the first flight has this link's keys, or an earlier set of the same CA. */
bool tls_first_flight_proven(const struct tls *t, const struct tls_first_flight *f,
                             const uint8_t ends[TLS_PROOF_ENDS_LEN]);

/* For one connection; belongs to the caller. NULL: no memory. */
struct ssl_st *tls_connection(struct tls *t);

/* True if the handshake is done and the other end is authenticated: checked once more before any message. */
bool tls_proven(const struct tls *t, struct ssl_st *ssl);
/* Exports a secret that both ends of the connection compute alike. False: the handshake is not done. */
bool tls_export(struct ssl_st *ssl, const uint8_t *context, size_t len, uint8_t out[SEAL_SECRET_LEN]);

/* Why the last connection failed. error: from OpenSSL's queue, 0: unknown. */
void tls_why(const struct tls *t, unsigned long error, char why[TLS_WHY_MAX]);

/* True if the other end has sent at least one byte. */
bool tls_was_answered(struct ssl_st *ssl);

/* Hands the bytes to the kernel as far as it takes them at once; for a connection that is about to be closed. */
void tls_write_last(struct ssl_st *ssl, const void *data, size_t len);

/* An alert that arrived before a write on the connection failed, as OpenSSL queues errors; 0: none. Reads it. */
unsigned long tls_last_words(struct ssl_st *ssl);

#endif
