/* SPDX-License-Identifier: Apache-2.0 */
/* wan_udp.h - a datagram of the WAN as it is on the wire: Ethernet, IPv4 or IPv6, UDP. Pure.
 *
 * Does the work of the kernel's UDP sockets for ports without a socket (wan_engine.h). */
#ifndef DAEMON_WAN_UDP_H
#define DAEMON_WAN_UDP_H

#include <stddef.h>
#include <stdint.h>

#include "proxy/roce/roce.h"

#define WAN_UDP_HDR_MAX 48 /* IPv6 and UDP */

/* Both ends of a path. Addresses of one family. */
struct wan_udp_ends {
	struct ip_addr local, remote;
	uint16_t port;  /* UDP destination port of both ends */
	uint8_t mac[6]; /* of the local interface */
};

/* Writes the IP and UDP headers in front of the payload, towards ends->remote, with finished checksums (RFC 791, 768,
 * 8200). payload: `len` bytes, at least WAN_UDP_HDR_MAX writable bytes before them; len: at most 65,507. tos: DSCP and
 * ECN. An IPv4 packet has DF set and identification 0 (RFC 6864), an IPv6 packet a flow label that follows from the ports
 * (RFC 6438). Returns the length of both headers, 28 or 48. */
size_t wan_udp_put(const struct wan_udp_ends *ends, uint16_t sport, uint8_t tos, uint8_t *payload, size_t len);

enum wan_udp_kind {
	WAN_UDP_OURS,
	WAN_UDP_NOT_OURS,     /* no UDP to the local address and port: the kernel's */
	WAN_UDP_FOREIGN,      /* to this address and port, from another address than the other edge's */
	WAN_UDP_BAD_LENGTH,   /* from the other edge: lengths contradict each other or the frame's, or a first fragment */
	WAN_UDP_BAD_CHECKSUM, /* from the other edge: of the IPv4 header, or UDP's */
};

struct wan_udp_in {
	uint8_t *payload; /* within the frame */
	size_t len;       /* of the payload, bytes */
	uint16_t sport;
	uint8_t ecn; /* 0 to 3 */
};

/* Reads a frame of `len` bytes that begins with its Ethernet header, which may have one VLAN tag. *in is filled in with
 * WAN_UDP_OURS only. A packet with IPv6 extension headers is WAN_UDP_NOT_OURS: no edge sends one. */
enum wan_udp_kind wan_udp_get(const struct wan_udp_ends *ends, uint8_t *frame, size_t len,
                                    struct wan_udp_in *in);

#endif
