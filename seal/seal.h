/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h - the cipher of a link's datagrams: keys and their life, and the functions that the core seals and opens with.
 *
 * In call order:
 *
 *     seal_new()                           one per shard; goes into proxy_config with seal_ops
 *     both ends take a struct seal_secret from their TLS connection, one for each direction
 *     seal_keys_new() -> seal_take_rx()    at the receiver, for each of its shards
 *     seal_keys_new() -> seal_take_tx()    at the sender, when the receiver is ready; with it the session begins
 *
 * seal_keys_new() may be called by any thread and does all that takes long; the rest belongs to the shard's thread.
 *
 * Theory of operation
 *
 * One secret per direction and session. From it, by HKDF-Expand-Label (RFC 8446 7.1), one for each path and lane; from
 * that the AEAD's key, a static IV, and the secret of the next generation, as QUIC does (RFC 9001 5 and 6). The nonce
 * is the IV XOR the packet number; the associated data are the 16 bytes of the header.
 *
 * A lane's sender goes on to the next generation by itself, after so many datagrams or bytes; two bits in the header
 * (the phase) say which generation it is. The receiver keeps three: the one before, for what is still under way, the
 * current one, and the next one, made in advance. A datagram that is authentic under the next one moves the receiver
 * on. The sender may move only when the peer has taken a datagram of the current generation, so the two are never more
 * than one apart. Nothing waits for anybody; the control channel is not needed. */
#ifndef SEAL_SEAL_H
#define SEAL_SEAL_H

#include "proxy/proxy.h"

/* X(enumerator, printed name, key bytes) */
#define SEAL_CIPHERS(X)                                                                                                \
	X(NONE, "none", 0)                                                                                             \
	X(AES_256_GCM, "aes-256-gcm", 32)                                                                              \
	X(AES_128_GCM, "aes-128-gcm", 16)                                                                              \
	X(CHACHA20_POLY1305, "chacha20-poly1305", 32)

#define X(e, name, key_len) SEAL_##e,
enum seal_cipher { SEAL_CIPHERS(X) SEAL_CIPHER_COUNT };
#undef X

const char *seal_cipher_name(unsigned c);

#define SEAL_SECRET_LEN 32
#define SEAL_IV_LEN     12
#define SEAL_KEY_MAX    32

/* What both ends of a direction know and nobody else. */
struct seal_secret {
	enum seal_cipher cipher; /* not SEAL_NONE */
	uint32_t epoch;          /* of the session, in this direction */
	uint8_t bytes[SEAL_SECRET_LEN];
};

/* What one generation of a key may be used for, per lane. Far below what the ciphers bear: with 2^34 bytes of 16-byte
 * blocks the distinguishing advantage of GCM stays below 2^-65 (draft-irtf-cfrg-aead-limits), and QUIC stops at 2^23
 * packets (RFC 9001 6.6). A generation that cannot be left (the peer is silent) ends for good at SEAL_HARD times. */
#define SEAL_DATAGRAMS_MAX (1ull << 22)
#define SEAL_BYTES_MAX     (1ull << 34)
#define SEAL_HARD          16

struct seal_limits {
	uint64_t datagrams, bytes;
};

struct seal_scope {
	uint16_t nlanes;
	uint8_t npaths; /* 0 is 1 */
	uint8_t shard, nshards; /* whose lanes: lane % nshards == shard */
	struct seal_limits limits;
};

enum seal_direction { SEAL_TX, SEAL_RX };

struct seal_keys;

/* All keys of one shard, direction and session. NULL: no memory, or no such cipher in this OpenSSL. */
struct seal_keys *seal_keys_new(const struct seal_secret *secret, enum seal_direction dir, const struct seal_scope *of);
/* Wipes them. NULL is allowed. */
void seal_keys_free(struct seal_keys *k);

struct seal;

struct seal *seal_new(void);
void seal_free(struct seal *s);

/* proxy_config.seal; its ctx is a struct seal. */
extern const struct wan_seal_ops seal_ops;

/* With proxy_session_start(), before anything is sent: the datagrams of the new session are sealed with k. */
void seal_take_tx(struct seal *s, struct seal_keys *k);
/* The peer is about to use k. epoch_in_use: of the session that goes on (0: none), whose keys are kept. */
void seal_take_rx(struct seal *s, struct seal_keys *k, uint32_t epoch_in_use);

struct seal_stats {
	uint64_t tx_updates, rx_updates; /* generations begun after the first ones of their sessions, all lanes */
};

void seal_stats(const struct seal *s, struct seal_stats *st);

/* --- providers --- */

/* Who computes the cipher here: the fastest that this machine has, measured once. "OpenSSL" or "intel-ipsec-mb". */
const char *seal_provider(enum seal_cipher c);

#endif
