/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * RFC 8446 5.1, 4.1.2: a record (type 22, version, length), in it a handshake message (type 1, 24-bit length): version,
 * random, session id, cipher suites, compression methods, extensions. No edge sends a ClientHello that is spread over
 * several records.
 *
 * Every step takes bytes off the front of a span, which is marked broken when they are not there. */
#include "tls_proof.h"

#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define RECORD_HANDSHAKE 22
#define RECORD_HDR       5
#define CLIENT_HELLO     1
#define RANDOM_LEN       32

struct span {
	const uint8_t *at;
	size_t len;
	bool broken;
};

static const uint8_t *take(struct span *s, size_t n)
{
	const uint8_t *at = s->at;

	if (s->broken || n > s->len) {
		s->broken = true;
		return NULL;
	}
	s->at += n;
	s->len -= n;
	return at;
}

static size_t take_number(struct span *s, unsigned bytes)
{
	const uint8_t *b = take(s, bytes);
	size_t v = 0;

	for (unsigned i = 0; b && i < bytes; i++)
		v = v << 8 | b[i];
	return v;
}

/* A vector with its length in front. */
static struct span take_vector(struct span *s, unsigned length_bytes)
{
	size_t n = take_number(s, length_bytes);
	const uint8_t *at = take(s, n);

	return (struct span){at, at ? n : 0, at == NULL};
}

static void find_proof(struct span *extensions, struct tls_first_flight *f)
{
	while (extensions->len > 0 && !extensions->broken) {
		size_t type = take_number(extensions, 2);
		struct span body = take_vector(extensions, 2);

		if (type == TLS_PROOF_EXT && body.len == TLS_PROOF_LEN)
			f->proof = body.at;
	}
}

int tls_first_flight_read(const uint8_t *data, size_t len, struct tls_first_flight *f)
{
	struct span record, message, extensions;

	*f = (struct tls_first_flight){0};
	if (len > 0 && data[0] != RECORD_HANDSHAKE)
		return -EPROTO;
	if (len < RECORD_HDR)
		return 0;
	record = (struct span){data + RECORD_HDR, (size_t)data[3] << 8 | data[4], false};
	if (record.len > TLS_PROOF_HELLO_MAX - RECORD_HDR)
		return -EPROTO;
	if (record.len > len - RECORD_HDR)
		return 0;
	if (take_number(&record, 1) != CLIENT_HELLO)
		return -EPROTO;
	message = take_vector(&record, 3);
	take(&message, 2);
	f->random = take(&message, RANDOM_LEN);
	take_vector(&message, 1);
	take_vector(&message, 2);
	take_vector(&message, 1);
	extensions = take_vector(&message, 2);
	find_proof(&extensions, f);
	return record.broken || message.broken || extensions.broken ? -EPROTO : 1;
}

void tls_proof_make(const uint8_t key[TLS_PROOF_KEY_LEN], const uint8_t random[32],
                    const uint8_t ends[TLS_PROOF_ENDS_LEN], uint8_t proof[TLS_PROOF_LEN])
{
	uint8_t text[RANDOM_LEN + TLS_PROOF_ENDS_LEN];

	memcpy(text, random, RANDOM_LEN);
	memcpy(text + RANDOM_LEN, ends, TLS_PROOF_ENDS_LEN);
	/* without memory: zeros, a proof that never holds */
	memset(proof, 0, TLS_PROOF_LEN);
	(void)HMAC(EVP_sha256(), key, TLS_PROOF_KEY_LEN, text, sizeof(text), proof, NULL);
}

bool tls_proof_holds(const struct tls_first_flight *f, const uint8_t key[TLS_PROOF_KEY_LEN],
                     const uint8_t ends[TLS_PROOF_ENDS_LEN])
{
	uint8_t want[TLS_PROOF_LEN], zeros[TLS_PROOF_LEN] = {0};

	if (!f->proof)
		return false;
	tls_proof_make(key, f->random, ends, want);
	return CRYPTO_memcmp(want, f->proof, sizeof(want)) == 0 && CRYPTO_memcmp(want, zeros, sizeof(want)) != 0;
}
