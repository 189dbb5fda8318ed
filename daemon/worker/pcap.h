/* SPDX-License-Identifier: Apache-2.0 */
/* pcap.h - captures of what a worker sees, for Wireshark.
 *
 * pcapng files with one interface of raw IP packets, nanosecond timestamps and the direction of each packet. Buffered;
 * a file stops growing at PCAP_FILE_MAX, with a line in the log. Owned by one worker. */
#ifndef DAEMON_PCAP_H
#define DAEMON_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proxy/roce/roce.h"

#define PCAP_FILE_MAX (1ull << 30)

enum pcap_dir { PCAP_IN = 1, PCAP_OUT = 2 };

struct pcap;

/* Makes `<dir>/<link>-<side>.<worker>.pcapng`. NULL with err (of errlen bytes) a sentence. */
struct pcap *pcap_open(const char *dir, const char *link, const char *side, uint32_t worker, char *err, size_t errlen);
void pcap_close(struct pcap *p);

/* One IP packet in n parts. wall_ns: CLOCK_REALTIME. p may be NULL. */
void pcap_packet(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct iovec *parts, unsigned n);
/* A UDP datagram, with IP and UDP headers made for it. */
void pcap_udp(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct ip_addr *src, uint16_t sport,
              const struct ip_addr *dst, uint16_t dport, const uint8_t *payload, size_t len, bool ce);
/* Writes what is buffered. */
void pcap_flush(struct pcap *p);

#endif
