/* SPDX-License-Identifier: Apache-2.0 */
/* copy_hash.h - the hash of a piece, and the digest of a file: XXH3 of libxxhash.
 *
 * They detect transfer errors, and a source that changed while it was read. They are no signature: the link decides who
 * may write to an export. */
#ifndef COPY_HASH_H
#define COPY_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_STATIC_LINKING_ONLY /* for a state that lives on the stack */
#include <xxhash.h>

#include "proxy/util/bytes.h"

static inline uint64_t copy_hash(const void *data, size_t len)
{
	return XXH3_64bits(data, len);
}

/* Of all pieces of a file, by their offsets. */
struct copy_digest {
	XXH3_state_t state;
};

static inline void copy_digest_begin(struct copy_digest *d)
{
	XXH3_128bits_reset(&d->state);
}

static inline void copy_digest_add(struct copy_digest *d, uint64_t offset, uint64_t length, uint64_t hash)
{
	uint8_t record[24];

	put_be64(record, offset);
	put_be64(record + 8, length);
	put_be64(record + 16, hash);
	XXH3_128bits_update(&d->state, record, sizeof(record));
}

static inline void copy_digest_end(const struct copy_digest *d, uint64_t digest[2])
{
	XXH128_hash_t h = XXH3_128bits_digest(&d->state);

	digest[0] = h.high64;
	digest[1] = h.low64;
}

#endif
