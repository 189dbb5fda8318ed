/* SPDX-License-Identifier: Apache-2.0 */
/* aead.h - who computes the cipher: a table of functions per library. */
#ifndef SEAL_AEAD_H
#define SEAL_AEAD_H

#include "seal/seal.h"

#define SEAL_KEY_ALIGN 64

struct seal_aead {
	const char *name;
	size_t key_size; /* bytes of a key's state; its memory is zeroed and aligned to SEAL_KEY_ALIGN */
	/* Makes a key's state for a cipher, without a key in it yet. False: this library does not have the cipher. */
	bool (*init)(void *state, enum seal_cipher c);
	/* Puts a key in; the one before is gone. */
	bool (*set_key)(void *state, const uint8_t *key);
	/* Encrypts into `data` and writes the tag. The plain bytes are in place, but for n parts of them. */
	void (*seal)(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
	             const struct wan_seal_part *part, unsigned n, uint8_t tag[WAN_TAG_LEN]);
	/* Decrypts in place. False: the tag is wrong. */
	bool (*open)(void *state, const uint8_t iv[SEAL_IV_LEN], const uint8_t aad[16], uint8_t *data, size_t len,
	             const uint8_t tag[WAN_TAG_LEN]);
	void (*wipe)(void *state);
};

/* All that were built in, NULL at the end. */
extern const struct seal_aead *const seal_aeads[];

#define SEAL_LIBRARIES_MAX 2

/* Nanoseconds to seal and open `len` bytes (at most 16384) by each of seal_aeads, the best of some; 0: it does not have
 * the cipher. Takes a few milliseconds. */
void seal_aead_measure_all(enum seal_cipher c, size_t len, double ns[SEAL_LIBRARIES_MAX]);
/* The fastest for a cipher, measured so at the first call. NULL: none has it. */
const struct seal_aead *seal_aead_best(enum seal_cipher c);

unsigned seal_key_len(enum seal_cipher c);

#endif
