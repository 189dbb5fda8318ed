/* SPDX-License-Identifier: Apache-2.0 */
/* wan_recv.h - which packet numbers of one lane have arrived, and what to report about them.
 *
 * A bitmap over the last WAN_RX_BITS numbers serves as replay window and as the source of reports. A report covers
 * the numbers from where the REPORTS_TOLDth report before it ended, so that each number is spoken of in so many, and
 * further back to the lowest one that arrived since. */
#ifndef PROXY_WAN_RECV_H
#define PROXY_WAN_RECV_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/util/limits.h"
#include "wan_ecn.h"
#include "wan_frame.h"

#define REPORTS_TOLD   8 /* a burst of losses takes several reports in a row */
#define REPORTS_TOLD_LEAST 2 /* where the way back is so thin that bits are dear: else the peer asks */
#define WAN_RECV_WORDS (WAN_RX_BITS / 64)

struct wan_recv {
	uint64_t *bits; /* WAN_RECV_WORDS words: received */
	uint64_t next;  /* highest number received + 1 */
	uint64_t largest_ns;
	struct wan_ecn_counts ecn;
	uint64_t ended[REPORTS_TOLD]; /* where the last reports ended, oldest first */
	uint64_t resume;     /* a report too long for one frame goes on from here, UINT64_MAX: none */
	uint64_t lowest;     /* lowest number since the last report, UINT64_MAX: none */
	uint32_t unreported; /* datagrams since that want a report */
	uint64_t first_unreported_ns;
	/* refused numbers wait here until told */
	uint64_t refused_base; /* multiple of 64 */
	uint64_t refused_bits; /* 0: none */
};

void wan_recv_init(struct wan_recv *r, uint64_t *bits);
void wan_recv_reset(struct wan_recv *r);

/* True if the number was received before or is older than the window. */
bool wan_recv_seen(const struct wan_recv *r, uint64_t pn);
/* Notes a number as received. */
void wan_recv_mark(struct wan_recv *r, uint64_t pn, uint64_t now_ns, bool wants_report);
/* The same for one that FEC rebuilt, which is told by name (wan_arrivals.h): reports do not reach back for it. Far back
 * as it is, and as often as it happens, they would hardly get to what is new. */
void wan_recv_mark_rebuilt(struct wan_recv *r, uint64_t pn, uint64_t now_ns, bool wants_report);
/* Notes a number as refused: it stays unseen. False if it does not fit beside the ones noted (counts as lost then). */
bool wan_recv_refuse(struct wan_recv *r, uint64_t pn);
/* The peer asks about everything from pn on. */
void wan_recv_probe(struct wan_recv *r, uint64_t pn, uint64_t now_ns);

/* The next REPORT: fills in rep (bits unset) and up to max_words words, from where the told-th report before it ended
 * (1..REPORTS_TOLD). False if nothing was ever received. Reports that were to cover more than max_words leave the rest
 * for the next one (returns with unreported > 0 still). */
bool wan_recv_report(struct wan_recv *r, uint64_t now_ns, unsigned told, struct wan_report *rep, uint64_t *words,
                     uint32_t max_words);

#endif
