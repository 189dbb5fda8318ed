/* SPDX-License-Identifier: Apache-2.0 */
/* wan_pmtu.h - search for the largest datagram that a path carries (DPLPMTUD, RFC 8899). Sizes are UDP payloads in
 * bytes.
 *
 * Theory of operation
 *
 * A path begins at PMTU_BASE, which every path carries, and the size configured for it is the first one tried: on most
 * paths one round trip settles the search. If several probes of that size do not come through, the search goes on
 * between the largest size that came through and the least that did not, first at the payload of an Ethernet, then by
 * halves, to PMTU_CLOSE bytes. A probe is a padded datagram of its own that holds nothing else; its loss does not count
 * as a loss of the path.
 *
 * Lost probes of a size show that it is too large: PMTU_TRIES of them, if hardly any datagrams of sizes known to come
 * through were lost meanwhile; up to four times as many on a line that loses more.
 *
 * Black hole: a size is doubted when PMTU_HOLE datagrams above the base are lost, no datagram as large as any of them
 * comes through afterwards, and none as large as all of them has come through for PMTU_SILENT_RTTS half round trips;
 * smaller ones may come. The same happens on a full line, whose queue takes small datagrams more often than large ones.
 * So the largest lost size is tried in twice PMTU_TRIES probes, or in four times as many where datagrams of the base
 * size are lost as well. Data goes in datagrams of the base size meanwhile: in a hole each larger one is lost, and the
 * rate controller takes each loss for congestion. If neither a probe nor another datagram as large comes through, the
 * path is back at the base and the search begins again, below that size. Packets that are too large then go in pieces.
 * Every PMTU_RAISE_NS a search that ended below the configured size is tried again from there. */
#ifndef PROXY_WAN_PMTU_H
#define PROXY_WAN_PMTU_H

#include <stdbool.h>
#include <stdint.h>

#define PMTU_BASE        1200 /* RFC 8899 5.1.2 */
#define PMTU_TRIES       3
#define PMTU_CLOSE       32
#define PMTU_HOLE        4 /* losses, at least */
#define PMTU_SILENT_RTTS 3
#define PMTU_RAISE_NS    600000000000ull

struct wan_pmtu {
	bool search;    /* else the configured size is taken as given */
	uint16_t max;   /* configured */
	uint16_t size;  /* in force, unless it is doubted */
	uint16_t failed; /* the least size that did not come through, max + 1: none */
	uint16_t probe; /* size to try, 0: the search is over */
	bool under_way; /* the probe was sent */
	uint32_t came, missed; /* other datagrams that came or were lost since the probe was sent */
	bool doubt;       /* the probe is of a size in force */
	uint8_t evidence; /* of lost probes, in quarters of a probe on a line that loses hardly any other datagrams */
	uint16_t lost[PMTU_HOLE]; /* sizes of lost datagrams above the base, if none so large came through since; 0: no
	                           * loss */
	uint64_t came_ns; /* when a datagram as large as all of lost[] last came through, or when the search began */
	uint64_t raise_ns; /* when to try larger sizes again */
	uint64_t holes; /* ever */
};

void wan_pmtu_init(struct wan_pmtu *m, uint16_t max, bool search);
/* Called when a session begins. */
void wan_pmtu_restart(struct wan_pmtu *m, uint64_t now_ns);
/* The largest datagram for data now. */
uint16_t wan_pmtu_in_force(const struct wan_pmtu *m);
/* The size of a probe that is to be sent now, bytes; 0: none. */
static inline uint16_t wan_pmtu_due(const struct wan_pmtu *m)
{
	return m->under_way ? 0 : m->probe;
}
void wan_pmtu_sent(struct wan_pmtu *m);
/* These note that a datagram of so many bytes came through, or was lost. True if a further probe is due. */
bool wan_pmtu_came(struct wan_pmtu *m, uint32_t bytes, bool probe, uint64_t now_ns);
bool wan_pmtu_lost(struct wan_pmtu *m, uint32_t bytes, bool probe, uint64_t rtt_ns, uint64_t now_ns);
/* Called now and then. True if a probe is due. */
bool wan_pmtu_on_timer(struct wan_pmtu *m, uint64_t now_ns);

#endif
