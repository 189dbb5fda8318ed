/* SPDX-License-Identifier: Apache-2.0 */
/* aead.c - which library computes a cipher fastest here. */
#include "seal/aead.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECORD_MAX  16384
#define RECORD_LEN  8192 /* a datagram of a 9000-byte path */
#define MEASURE_NS  250000
#define BATCH       8
#define ROUNDS      5 /* in turns, so that what slows this machine down for a moment decides nothing */

extern const struct seal_aead seal_aead_evp;
#ifdef HAVE_IPSEC_MB
extern const struct seal_aead seal_aead_mb;
#endif

const struct seal_aead *const seal_aeads[] = {
    &seal_aead_evp,
#ifdef HAVE_IPSEC_MB
    &seal_aead_mb,
#endif
    NULL,
};
_Static_assert(sizeof(seal_aeads) / sizeof(seal_aeads[0]) <= SEAL_LIBRARIES_MAX + 1, "SEAL_LIBRARIES_MAX");

const char *seal_cipher_name(unsigned c)
{
#define X(e, name, key_len) [SEAL_##e] = name,
	static const char *const names[] = {SEAL_CIPHERS(X)};
#undef X

	return c < SEAL_CIPHER_COUNT ? names[c] : "unknown";
}

unsigned seal_key_len(enum seal_cipher c)
{
#define X(e, name, key_len) [SEAL_##e] = key_len,
	static const uint8_t lens[] = {SEAL_CIPHERS(X)};
#undef X

	return c < SEAL_CIPHER_COUNT ? lens[c] : 0;
}

/* The processor time of this thread: what others do meanwhile is not the cipher's fault. */
static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double best_batch(const struct seal_aead *a, void *state, uint8_t *record, size_t len)
{
	static const uint8_t iv[SEAL_IV_LEN] = {1}, aad[16] = {2};
	uint64_t begun = clock_ns(), best = UINT64_MAX;
	uint8_t tag[WAN_TAG_LEN];

	while (clock_ns() - begun < MEASURE_NS) {
		uint64_t t0 = clock_ns(), ns;

		for (int i = 0; i < BATCH; i++) {
			a->seal(state, iv, aad, record, len, NULL, 0, tag);
			if (!a->open(state, iv, aad, record, len, tag))
				return 0;
		}
		ns = clock_ns() - t0;
		best = ns < best ? ns : best;
	}
	return (double)best / BATCH;
}

static double measure(const struct seal_aead *a, enum seal_cipher c, size_t len)
{
	static const uint8_t key[SEAL_KEY_MAX] = {3};
	size_t size = (a->key_size + SEAL_KEY_ALIGN - 1) / SEAL_KEY_ALIGN * SEAL_KEY_ALIGN;
	void *state = aligned_alloc(SEAL_KEY_ALIGN, size);
	uint8_t *record = calloc(1, RECORD_MAX);
	double ns = 0;

	if (state != NULL && record != NULL && len <= RECORD_MAX) {
		memset(state, 0, size);
		if (a->init(state, c) && a->set_key(state, key))
			ns = best_batch(a, state, record, len);
		a->wipe(state);
	}
	free(state);
	free(record);
	return ns;
}

void seal_aead_measure_all(enum seal_cipher c, size_t len, double ns[SEAL_LIBRARIES_MAX])
{
	for (unsigned i = 0; seal_aeads[i] != NULL; i++)
		ns[i] = 0;
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; seal_aeads[i] != NULL; i++) {
			double took = measure(seal_aeads[i], c, len);

			if (took > 0 && (ns[i] == 0 || took < ns[i]))
				ns[i] = took;
		}
	}
}

const struct seal_aead *seal_aead_best(enum seal_cipher c)
{
	static const struct seal_aead *best[SEAL_CIPHER_COUNT];
	double ns[SEAL_LIBRARIES_MAX], least = 0;

	if (best[c] != NULL)
		return best[c];
	seal_aead_measure_all(c, RECORD_LEN, ns);
	for (unsigned i = 0; seal_aeads[i] != NULL; i++) {
		if (ns[i] > 0 && (least == 0 || ns[i] < least)) {
			best[c] = seal_aeads[i];
			least = ns[i];
		}
	}
	return best[c];
}

const char *seal_provider(enum seal_cipher c)
{
	const struct seal_aead *a = c == SEAL_NONE ? NULL : seal_aead_best(c);

	return a != NULL ? a->name : "none";
}
