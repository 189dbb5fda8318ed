/* SPDX-License-Identifier: Apache-2.0 */
/* hkdf.h - HKDF-Expand-Label of TLS 1.3 (RFC 8446 7.1) with SHA-256. */
#ifndef SEAL_HKDF_H
#define SEAL_HKDF_H

#include <stddef.h>
#include <stdint.h>

#include "seal/seal.h"

#define HKDF_LABEL_MAX   32
#define HKDF_CONTEXT_MAX 16

/* label without its "tls13 "; out_len at most 32. */
void hkdf_expand_label(const uint8_t secret[SEAL_SECRET_LEN], const char *label, const uint8_t *context,
                       size_t context_len, uint8_t *out, size_t out_len);

#endif
