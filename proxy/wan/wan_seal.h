/* SPDX-License-Identifier: Apache-2.0 */
/* wan_seal.h - protection of a datagram by its last WAN_TAG_LEN bytes.
 *
 * On a sealed link they are the tag of an AEAD (proxy_config.seal) that encrypts the frames and vouches for the header.
 * On an unsealed link they are a CRC-32 of the datagram and twelve zero bytes: the CRC detects damaged datagrams (UDP's
 * own checksum misses some, and may be absent), and protects against no attacker.
 *
 * wan_open_datagram() runs before anything of a datagram but its header is read, and before anything is noted about
 * it. */
#ifndef PROXY_WAN_SEAL_H
#define PROXY_WAN_SEAL_H

#include "proxy/proxy.h"
#include "proxy/wan/dgram/wan_frame.h"

/* 0 if a datagram with this header may be sealed now, else WAN_SEAL_NO_KEY or WAN_SEAL_USED_UP. Sets the header's
 * flags. acked_end: see struct wan_seal_ops. */
int wan_seal_ready(const struct proxy_config *c, struct wan_hdr *h, uint64_t acked_end);
/* Copies the parts to their places in buf. */
void wan_seal_gather(uint8_t *buf, const struct wan_seal_part *part, unsigned n);
/* Seals `len` bytes, whose header is h; buf has room for WAN_TAG_LEN more. n parts of the bytes are not in buf yet.
 * Returns the new length. */
size_t wan_seal_datagram(const struct proxy_config *c, const struct wan_hdr *h, uint8_t *buf, size_t len,
                         const struct wan_seal_part *part, unsigned n);
/* Opens a datagram in place: *len becomes the length without the tag. */
enum proxy_drop wan_open_datagram(const struct proxy_config *c, const struct wan_hdr *h, uint8_t *buf, size_t *len);

/* Sealing and opening with the CRC. */
size_t wan_seal(uint8_t *buf, size_t len);
enum proxy_drop wan_open(const uint8_t *buf, size_t *len);

#endif
