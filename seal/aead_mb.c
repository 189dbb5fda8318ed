/* SPDX-License-Identifier: Apache-2.0 */
/* aead_mb.c - the ciphers of intel-ipsec-mb, where it was there to build with: several blocks at a time through the
 * vector units, one call per datagram. */
#ifdef HAVE_IPSEC_MB
#include <string.h>

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include "seal/aead.h"

#define BLOCK 16u /* of AES; ChaCha20 has larger ones, and cares less */

struct state {
	struct gcm_key_data gcm;
	uint8_t chacha[SEAL_KEY_MAX];
	enum seal_cipher cipher;
};

/* A table of functions: nothing in it changes but an error number that nobody reads. */
static IMB_MGR *manager(void)
{
	static IMB_MGR *mgr;

	if (mgr == NULL) {
		mgr = alloc_mb_mgr(0);
		if (mgr != NULL)
			init_mb_mgr_auto(mgr, NULL);
	}
	return mgr;
}

static bool mb_init(void *state, enum seal_cipher c)
{
	struct state *s = state;

	s->cipher = c;
	return manager() != NULL;
}

static bool mb_set_key(void *state, const uint8_t *key)
{
	struct state *s = state;

	switch (s->cipher) {
	case SEAL_AES_256_GCM:
		IMB_AES256_GCM_PRE(manager(), key, &s->gcm);
		return true;
	case SEAL_AES_128_GCM:
		IMB_AES128_GCM_PRE(manager(), key, &s->gcm);
		return true;
	case SEAL_CHACHA20_POLY1305:
		memcpy(s->chacha, key, sizeof(s->chacha));
		return true;
	default:
		return false;
	}
}

/* A datagram on its way through a cipher. */
struct pass {
	IMB_MGR *m;
	struct state *s;
	union {
		struct gcm_context_data gcm;
		struct chacha20_poly1305_context_data chacha;
	};
};

static void begin(struct pass *p, const uint8_t *iv, const uint8_t *aad)
{
	if (p->s->cipher == SEAL_AES_256_GCM)
		IMB_AES256_GCM_INIT(p->m, &p->s->gcm, &p->gcm, iv, aad, 16);
	else if (p->s->cipher == SEAL_AES_128_GCM)
		IMB_AES128_GCM_INIT(p->m, &p->s->gcm, &p->gcm, iv, aad, 16);
	else
		IMB_CHACHA20_POLY1305_INIT(p->m, p->s->chacha, &p->chacha, iv, aad, 16);
}

static void encrypt(struct pass *p, uint8_t *to, const uint8_t *from, size_t len)
{
	if (p->s->cipher == SEAL_AES_256_GCM)
		IMB_AES256_GCM_ENC_UPDATE(p->m, &p->s->gcm, &p->gcm, to, from, len);
	else if (p->s->cipher == SEAL_AES_128_GCM)
		IMB_AES128_GCM_ENC_UPDATE(p->m, &p->s->gcm, &p->gcm, to, from, len);
	else
		IMB_CHACHA20_POLY1305_ENC_UPDATE(p->m, p->s->chacha, &p->chacha, to, from, len);
}

static void end(struct pass *p, uint8_t *tag)
{
	if (p->s->cipher == SEAL_AES_256_GCM)
		IMB_AES256_GCM_ENC_FINALIZE(p->m, &p->s->gcm, &p->gcm, tag, WAN_TAG_LEN);
	else if (p->s->cipher == SEAL_AES_128_GCM)
		IMB_AES128_GCM_ENC_FINALIZE(p->m, &p->s->gcm, &p->gcm, tag, WAN_TAG_LEN);
	else
		IMB_CHACHA20_POLY1305_ENC_FINALIZE(p->m, &p->chacha, tag, WAN_TAG_LEN);
}

/* Encrypts what stands before a part, from `at` on, and of the part its whole blocks: one that is cut in two costs as
 * much as many whole ones. What is left of the part at either end is copied, and goes with what stands around it.
 * Returns up to where all is encrypted. */
static size_t encrypt_part(struct pass *p, uint8_t *data, size_t at, const struct wan_seal_part *part)
{
	size_t head = -(size_t)part->off % BLOCK, end = (size_t)part->off + part->len, body;

	if (part->len < head + BLOCK) {
		memcpy(data + part->off, part->from, part->len);
		return at;
	}
	body = (part->len - head) / BLOCK * BLOCK;
	memcpy(data + part->off, part->from, head);
	encrypt(p, data + at, data + at, (size_t)part->off + head - at);
	encrypt(p, data + part->off + head, part->from + head, body);
	at = (size_t)part->off + head + body;
	memcpy(data + at, part->from + head + body, end - at);
	return at;
}

static void seal_parts(struct state *s, const uint8_t *iv, const uint8_t *aad, uint8_t *data, size_t len,
                       const struct wan_seal_part *part, unsigned n, uint8_t *tag)
{
	struct pass p = {.m = manager(), .s = s};
	size_t at = 0;

	begin(&p, iv, aad);
	for (unsigned i = 0; i < n; i++)
		at = encrypt_part(&p, data, at, &part[i]);
	encrypt(&p, data + at, data + at, len - at);
	end(&p, tag);
}

static void mb_seal(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
                    const struct wan_seal_part *part, unsigned n, uint8_t tag[WAN_TAG_LEN])
{
	struct gcm_context_data ctx;
	struct state *s = state;

	if (n || s->cipher == SEAL_CHACHA20_POLY1305)
		seal_parts(s, iv, aad, data, len, part, n, tag);
	else if (s->cipher == SEAL_AES_256_GCM)
		IMB_AES256_GCM_ENC(manager(), &s->gcm, &ctx, data, data, len, iv, aad, 16, tag, WAN_TAG_LEN);
	else
		IMB_AES128_GCM_ENC(manager(), &s->gcm, &ctx, data, data, len, iv, aad, 16, tag, WAN_TAG_LEN);
}

/* The tag that the datagram should have had. */
static void chacha_open(const struct state *s, const uint8_t *iv, const uint8_t *aad, uint8_t *data, size_t len,
                        uint8_t *tag)
{
	struct chacha20_poly1305_context_data ctx;
	IMB_MGR *m = manager();

	IMB_CHACHA20_POLY1305_INIT(m, s->chacha, &ctx, iv, aad, 16);
	IMB_CHACHA20_POLY1305_DEC_UPDATE(m, s->chacha, &ctx, data, data, len);
	IMB_CHACHA20_POLY1305_DEC_FINALIZE(m, &ctx, tag, WAN_TAG_LEN);
}

static bool mb_open(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
                    const uint8_t tag[WAN_TAG_LEN])
{
	struct gcm_context_data ctx;
	uint8_t right[WAN_TAG_LEN];
	struct state *s = state;

	if (s->cipher == SEAL_AES_256_GCM)
		IMB_AES256_GCM_DEC(manager(), &s->gcm, &ctx, data, data, len, iv, aad, 16, right, WAN_TAG_LEN);
	else if (s->cipher == SEAL_AES_128_GCM)
		IMB_AES128_GCM_DEC(manager(), &s->gcm, &ctx, data, data, len, iv, aad, 16, right, WAN_TAG_LEN);
	else
		chacha_open(s, iv, aad, data, len, right);
	return CRYPTO_memcmp(right, tag, WAN_TAG_LEN) == 0;
}

static void mb_wipe(void *state)
{
	OPENSSL_cleanse(state, sizeof(struct state));
}

extern const struct seal_aead seal_aead_mb;
const struct seal_aead seal_aead_mb = {.name = "intel-ipsec-mb",
                                       .key_size = sizeof(struct state),
                                       .init = mb_init,
                                       .set_key = mb_set_key,
                                       .seal = mb_seal,
                                       .open = mb_open,
                                       .wipe = mb_wipe};
#endif
