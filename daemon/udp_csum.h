/* SPDX-License-Identifier: Apache-2.0 */
/* udp_csum.h - finishing a UDP checksum that the sender left to hardware. */
#ifndef DAEMON_UDP_CSUM_H
#define DAEMON_UDP_CSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Works out the UDP checksum of a whole IPv4 or IPv6 packet and stores it. False (packet untouched) if it is not UDP
 * without options or extensions, or shorter than its headers say. */
bool udp_csum_fill(uint8_t *l3, size_t len);

#endif
