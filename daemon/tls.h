/* SPDX-License-Identifier: Apache-2.0 */
/* tls.h - the control channel's TLS: 1.3 only, both ends prove who they are (certificates of the link's own CA, or a
 * pre-shared key), and what goes wrong is said in a sentence. */
#ifndef DAEMON_TLS_H
#define DAEMON_TLS_H

#include "daemon/config.h"
#include "seal/seal.h"

struct ssl_st;
struct tls;

#define TLS_WHY_MAX 320

/* Reads the files that the configuration names. 0 (*t NULL: Encryption=none), or negative errno with err a sentence. */
int tls_open(const struct link_config *c, struct tls **t, char err[CONFIG_ERR_MAX]);
void tls_close(struct tls *t);

/* For one connection; belongs to the caller. NULL: no memory. */
struct ssl_st *tls_connection(struct tls *t);

/* The handshake is done and the other end is who it should be: asked once more before anything is said. */
bool tls_proven(const struct tls *t, struct ssl_st *ssl);
/* A secret that both ends of the connection work out alike. False: the handshake is not done. */
bool tls_export(struct ssl_st *ssl, const uint8_t *context, size_t len, uint8_t out[SEAL_SECRET_LEN]);

/* Why the last connection failed. error: as OpenSSL queued it, 0: not known. */
void tls_why(const struct tls *t, unsigned long error, char why[TLS_WHY_MAX]);

/* An alert that arrived before a write on the connection failed, as OpenSSL queues errors; 0: none. Reads it. */
unsigned long tls_last_words(struct ssl_st *ssl);

#endif
