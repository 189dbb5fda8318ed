/* SPDX-License-Identifier: Apache-2.0 */
#include "seal/hkdf.h"

#include <assert.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

/* struct { uint16 length; opaque label<7..255> = "tls13 " + label; opaque context<0..255>; } and the block's number. */
void hkdf_expand_label(const uint8_t secret[SEAL_SECRET_LEN], const char *label, const uint8_t *context,
                       size_t context_len, uint8_t *out, size_t out_len)
{
	uint8_t info[2 + 1 + 6 + HKDF_LABEL_MAX + 1 + HKDF_CONTEXT_MAX + 1], block[32];
	size_t n = strlen(label), at = 0;
	unsigned len = sizeof(block);
	const uint8_t *mac;

	assert(n <= HKDF_LABEL_MAX && context_len <= HKDF_CONTEXT_MAX && out_len <= sizeof(block));
	info[at++] = (uint8_t)(out_len >> 8);
	info[at++] = (uint8_t)out_len;
	info[at++] = (uint8_t)(6 + n);
	memcpy(info + at, "tls13 ", 6);
	memcpy(info + at + 6, label, n);
	at += 6 + n;
	info[at++] = (uint8_t)context_len;
	if (context_len > 0)
		memcpy(info + at, context, context_len);
	at += context_len;
	info[at++] = 1;
	mac = HMAC(EVP_sha256(), secret, SEAL_SECRET_LEN, info, at, block, &len);
	assert(mac != NULL); /* it does not fail */
	(void)mac;
	memcpy(out, block, out_len);
	OPENSSL_cleanse(block, sizeof(block));
}
