/* SPDX-License-Identifier: Apache-2.0 */
/* aead_mb.c - the ciphers of intel-ipsec-mb, where it was there to build with: several blocks at a time through the
 * vector units, one call per datagram. */
#ifdef HAVE_IPSEC_MB
#include <string.h>

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include "seal/aead.h"

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

static void chacha(const struct state *s, bool encrypt, const uint8_t *iv, const uint8_t *aad, uint8_t *data, size_t len,
                   uint8_t *tag)
{
	struct chacha20_poly1305_context_data ctx;
	IMB_MGR *m = manager();

	IMB_CHACHA20_POLY1305_INIT(m, s->chacha, &ctx, iv, aad, 16);
	if (encrypt)
		IMB_CHACHA20_POLY1305_ENC_UPDATE(m, s->chacha, &ctx, data, data, len);
	else
		IMB_CHACHA20_POLY1305_DEC_UPDATE(m, s->chacha, &ctx, data, data, len);
	IMB_CHACHA20_POLY1305_ENC_FINALIZE(m, &ctx, tag, WAN_TAG_LEN);
}

static void mb_seal(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
                    uint8_t tag[WAN_TAG_LEN])
{
	struct gcm_context_data ctx;
	struct state *s = state;

	if (s->cipher == SEAL_AES_256_GCM)
		IMB_AES256_GCM_ENC(manager(), &s->gcm, &ctx, data, data, len, iv, aad, 16, tag, WAN_TAG_LEN);
	else if (s->cipher == SEAL_AES_128_GCM)
		IMB_AES128_GCM_ENC(manager(), &s->gcm, &ctx, data, data, len, iv, aad, 16, tag, WAN_TAG_LEN);
	else
		chacha(s, true, iv, aad, data, len, tag);
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
		chacha(s, false, iv, aad, data, len, right);
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
