/* SPDX-License-Identifier: Apache-2.0 */
/* wan_pmtu.h - how large a datagram a path carries (DPLPMTUD, RFC 8899). Sizes are UDP payloads in bytes.
 *
 * Theory of operation
 *
 * A path begins at PMTU_BASE, which every path carries, and the size configured for it is the first one tried: on most
 * paths one round trip settles it. If several probes of it do not come through, the search goes on between what came
 * through and what did not, first at the payload of an Ethernet, then by halves, to PMTU_CLOSE bytes. A probe is a
 * datagram of its own, padded, with nothing in it that would be missed; its loss is no loss of the path.
 *
 * How many probes tell a size that is too large from a line that loses many? PMTU_TRIES, if hardly any others were lost
 * meanwhile, of sizes that are known to come through; if more were, up to four times as many.
 *
 * Black hole: it is doubted that a size comes through when PMTU_HOLE datagrams above the base are lost, none as large as
 * any of them comes through after it, nor has for PMTU_SILENT_RTTS half round trips one as large as all of them; smaller
 * ones may. So it goes on a full line, too, whose queue takes small ones more often than large ones. So the largest that
 * failed is tried in twice PMTU_TRIES probes, or four times as many where datagrams of the base are lost as well; and data
 * goes in those meanwhile: in a hole each larger one is lost, and the rate controller takes each loss for congestion. If
 * neither a probe comes through nor anything else as large, the path is back at the base and the search begins again, below
 * that size. What is too large now goes in pieces.
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
	bool search;    /* else the configured size is believed */
	uint16_t max;   /* configured */
	uint16_t size;  /* in force, unless it is doubted */
	uint16_t failed; /* the least that did not come through, max + 1: none */
	uint16_t probe; /* size to try, 0: the search is over */
	bool under_way; /* it was sent ... */
	uint32_t came, missed; /* ... and since then so many others came or were lost */
	bool doubt;       /* the probe is of a size in force */
	uint8_t evidence; /* of probes that were lost, in quarters of one on a line that loses hardly any others */
	uint16_t lost[PMTU_HOLE]; /* sizes of losses above the base, if none so large came through since; 0: no loss */
	uint64_t came_ns; /* when one came through that was as large as all of these, or might first have */
	uint64_t raise_ns; /* when to try larger ones again */
	uint64_t holes; /* ever */
};

void wan_pmtu_init(struct wan_pmtu *m, uint16_t max, bool search);
/* A session begins. */
void wan_pmtu_restart(struct wan_pmtu *m, uint64_t now_ns);
/* The largest datagram that data may go in now. */
uint16_t wan_pmtu_in_force(const struct wan_pmtu *m);
/* A probe of so many bytes is to be sent now; 0: none. */
uint16_t wan_pmtu_due(const struct wan_pmtu *m);
void wan_pmtu_sent(struct wan_pmtu *m);
/* A datagram of so many bytes came through, or was lost. True if a further probe is due. */
bool wan_pmtu_came(struct wan_pmtu *m, uint32_t bytes, bool probe, uint64_t now_ns);
bool wan_pmtu_lost(struct wan_pmtu *m, uint32_t bytes, bool probe, uint64_t rtt_ns, uint64_t now_ns);
/* Now and then. True if a probe is due. */
bool wan_pmtu_on_timer(struct wan_pmtu *m, uint64_t now_ns);

#endif
