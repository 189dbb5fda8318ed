/* SPDX-License-Identifier: Apache-2.0 */
/* wan_seal.h - what protects a datagram: the last WAN_TAG_LEN bytes.
 *
 * On a sealed link they are the tag of an AEAD (proxy_config.seal) that encrypts the frames and vouches for the header.
 * Without, a CRC-32 of the datagram and twelve zero bytes: it keeps a damaged datagram from being believed (UDP's own
 * checksum misses some, and may be absent), and it keeps nobody out.
 *
 * A datagram is opened before anything of it but its header is looked at, and before anything is noted about it. */
#ifndef PROXY_WAN_SEAL_H
#define PROXY_WAN_SEAL_H

#include "proxy/proxy.h"
#include "proxy/wan/dgram/wan_frame.h"

/* May a datagram with this header be sealed now? Sets its flags. acked_end: see struct wan_seal_ops. */
bool wan_seal_ready(const struct proxy_config *c, struct wan_hdr *h, uint64_t acked_end);
/* Puts the parts where they belong. */
void wan_seal_gather(uint8_t *buf, const struct wan_seal_part *part, unsigned n);
/* Seals `len` bytes, whose header is h; buf has room for WAN_TAG_LEN more. n parts of them are elsewhere. Returns the
 * new length. */
size_t wan_seal_datagram(const struct proxy_config *c, const struct wan_hdr *h, uint8_t *buf, size_t len,
                         const struct wan_seal_part *part, unsigned n);
/* Opens a datagram in place: *len becomes the length without the tag. */
enum proxy_drop wan_open_datagram(const struct proxy_config *c, const struct wan_hdr *h, uint8_t *buf, size_t *len);

/* The two with the CRC. */
size_t wan_seal(uint8_t *buf, size_t len);
enum proxy_drop wan_open(const uint8_t *buf, size_t *len);

#endif
