/* SPDX-License-Identifier: Apache-2.0 */
/* ip.h - parser of IP packets that are not RoCEv2: addresses, ports, and whether the packet can carry data of a
 * program. Sources: RFC 791, RFC 8200, RFC 9293. */
#ifndef PROXY_IP_H
#define PROXY_IP_H

#include "roce.h"

struct ip_pkt {
	struct ip_addr src, dst;
	uint16_t len; /* from the IP header to its end: padding behind it is cut */
	uint8_t ttl, tos;
	bool ip6;
	uint8_t hdr_len; /* of the IP header without options and extensions */
	bool bare_ack;   /* TCP, no data, no flag but ACK, ECE, CWR, PSH: tells a program nothing */
	bool begins_or_ends; /* TCP with SYN, FIN or RST */
	bool has_ports;  /* TCP or UDP, not a later fragment */
	bool to_roce;    /* UDP to port 4791, also if roce_parse() rejects the packet */
	uint16_t sport, dport; /* valid if has_ports */
};

/* Options and extension headers are allowed; the latter hide ports. Returns DROP_NONE, or the reason if the packet is
 * malformed. */
enum proxy_drop ip_parse(const uint8_t *l3, size_t len, struct ip_pkt *pkt);
/* Takes one hop from TTL or hop limit, mending the IPv4 checksum. False if none is left. */
bool ip_dec_ttl(uint8_t *l3, bool ip6);

#endif
