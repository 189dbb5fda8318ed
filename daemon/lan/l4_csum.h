/* SPDX-License-Identifier: Apache-2.0 */
/* l4_csum.h - finishing checksums that a sender on this very machine left to its hardware. */
#ifndef DAEMON_L4_CSUM_H
#define DAEMON_L4_CSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills in the UDP or TCP checksum of a packet that starts at its IP header; IPv6 without extension headers. False if
 * the packet is neither UDP nor TCP, or its lengths contradict each other: nothing was changed. RFC 768, RFC 9293
 * 3.1. */
bool l4_csum_fill(uint8_t *l3, size_t len);

#endif
