/* SPDX-License-Identifier: Apache-2.0 */
/* aead_evp.c - the ciphers of OpenSSL's libcrypto. One context per key, which is set once; per datagram only the IV. */
#include <string.h>

#include <openssl/evp.h>

#include "seal/aead.h"

struct state {
	EVP_CIPHER_CTX *seal, *open;
};

static const EVP_CIPHER *cipher_of(enum seal_cipher c)
{
	switch (c) {
	case SEAL_AES_256_GCM:
		return EVP_aes_256_gcm();
	case SEAL_AES_128_GCM:
		return EVP_aes_128_gcm();
	case SEAL_CHACHA20_POLY1305:
		return EVP_chacha20_poly1305();
	default:
		return NULL;
	}
}

static bool evp_init(void *state, enum seal_cipher c)
{
	struct state *s = state;
	const EVP_CIPHER *cipher = cipher_of(c);

	s->seal = EVP_CIPHER_CTX_new();
	s->open = EVP_CIPHER_CTX_new();
	return cipher != NULL && s->seal != NULL && s->open != NULL &&
	       EVP_EncryptInit_ex(s->seal, cipher, NULL, NULL, NULL) == 1 &&
	       EVP_DecryptInit_ex(s->open, cipher, NULL, NULL, NULL) == 1;
}

static bool evp_set_key(void *state, const uint8_t *key)
{
	struct state *s = state;

	return EVP_EncryptInit_ex(s->seal, NULL, NULL, key, NULL) == 1 &&
	       EVP_DecryptInit_ex(s->open, NULL, NULL, key, NULL) == 1;
}

static bool encrypt(EVP_CIPHER_CTX *c, uint8_t *to, const uint8_t *from, size_t len)
{
	int n;

	return len == 0 || EVP_EncryptUpdate(c, to, &n, from, (int)len) == 1;
}

static bool encrypt_all(EVP_CIPHER_CTX *c, uint8_t *data, size_t len, const struct wan_seal_part *part, unsigned n)
{
	size_t at = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!encrypt(c, data + at, data + at, part[i].off - at) ||
		    !encrypt(c, data + part[i].off, part[i].from, part[i].len))
			return false;
		at = (size_t)part[i].off + part[i].len;
	}
	return encrypt(c, data + at, data + at, len - at);
}

static void evp_seal(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
                     const struct wan_seal_part *part, unsigned nparts, uint8_t tag[WAN_TAG_LEN])
{
	struct state *s = state;
	int n;

	if (EVP_EncryptInit_ex(s->seal, NULL, NULL, NULL, iv) == 1 &&
	    EVP_EncryptUpdate(s->seal, NULL, &n, aad, 16) == 1 && encrypt_all(s->seal, data, len, part, nparts) &&
	    EVP_EncryptFinal_ex(s->seal, tag, &n) == 1 &&
	    EVP_CIPHER_CTX_ctrl(s->seal, EVP_CTRL_AEAD_GET_TAG, WAN_TAG_LEN, tag) == 1)
		return;
	memset(data, 0, len); /* nothing that is not encrypted leaves */
	memset(tag, 0, WAN_TAG_LEN);
}

static bool evp_open(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
                     const uint8_t tag[WAN_TAG_LEN])
{
	struct state *s = state;
	uint8_t none[WAN_TAG_LEN];
	int n;

	return EVP_DecryptInit_ex(s->open, NULL, NULL, NULL, iv) == 1 &&
	       EVP_CIPHER_CTX_ctrl(s->open, EVP_CTRL_AEAD_SET_TAG, WAN_TAG_LEN, (void *)(uintptr_t)tag) == 1 &&
	       EVP_DecryptUpdate(s->open, NULL, &n, aad, 16) == 1 &&
	       EVP_DecryptUpdate(s->open, data, &n, data, (int)len) == 1 &&
	       EVP_DecryptFinal_ex(s->open, none, &n) == 1;
}

static void evp_wipe(void *state)
{
	struct state *s = state;

	EVP_CIPHER_CTX_free(s->seal); /* which wipes it */
	EVP_CIPHER_CTX_free(s->open);
	*s = (struct state){0};
}

const struct seal_aead seal_aead_evp = {.name = "OpenSSL",
                                        .key_size = sizeof(struct state),
                                        .init = evp_init,
                                        .set_key = evp_set_key,
                                        .seal = evp_seal,
                                        .open = evp_open,
                                        .wipe = evp_wipe};
