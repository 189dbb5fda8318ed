/* SPDX-License-Identifier: Apache-2.0 */
/* wan_seal.h - what protects a datagram: the last WAN_TAG_LEN bytes.
 *
 * Until links are sealed by an AEAD the tag is a CRC-32 of the datagram and twelve zero bytes: it keeps a damaged datagram
 * from being believed (UDP's own checksum misses some, and may be absent), and it keeps nobody out. */
#ifndef PROXY_WAN_SEAL_H
#define PROXY_WAN_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "counters.h"
#include "limits.h"

/* Appends the tag to `len` bytes; buf has room for WAN_TAG_LEN more. Returns the new length. */
size_t wan_seal(uint8_t *buf, size_t len);

/* Checks the tag and takes it off: *len becomes the length without it. */
enum proxy_drop wan_open(const uint8_t *buf, size_t *len);

#endif
