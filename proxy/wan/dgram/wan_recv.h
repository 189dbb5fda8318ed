/* SPDX-License-Identifier: Apache-2.0 */
/* wan_recv.h - the packet numbers of one lane that have arrived, and the reports about them.
 *
 * A bitmap over the last WAN_RX_BITS numbers serves as replay window and as the source of reports. A report begins
 * where the REPORTS_TOLDth report before it ended, so that each number is told in REPORTS_TOLD reports, or further back
 * at the lowest number that arrived since the last report. */
#ifndef PROXY_WAN_RECV_H
#define PROXY_WAN_RECV_H

#include <stdbool.h>
#include <stdint.h>

#include "proxy/util/limits.h"
#include "wan_ecn.h"
#include "wan_frame.h"

#define REPORTS_TOLD   8 /* a burst of losses takes several reports in a row */
#define REPORTS_TOLD_LEAST 2 /* on a slow way back, where each bit counts; the peer probes for numbers that no report
                              * told it */
#define WAN_RECV_WORDS (WAN_RX_BITS / 64)

struct wan_recv {
	uint64_t *bits; /* WAN_RECV_WORDS words: received */
	uint64_t next;  /* highest number received + 1 */
	uint64_t largest_ns;
	struct wan_ecn_counts ecn;
	uint64_t ended[REPORTS_TOLD]; /* where the last reports ended, oldest first */
	uint64_t resume;     /* a report too long for one frame continues at this number, UINT64_MAX: none */
	uint64_t lowest;     /* lowest number since the last report, UINT64_MAX: none */
	uint32_t unreported; /* datagrams since the last report that ask for one */
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
/* Notes a number that FEC rebuilt. REBUILT tells such numbers (wan_arrivals.h), and reports do not reach back for them:
 * these numbers are far back and many, and reports would hardly get to new ones. */
void wan_recv_mark_rebuilt(struct wan_recv *r, uint64_t pn, uint64_t now_ns, bool wants_report);
/* Notes a number as refused: it stays unseen. False if it does not fit beside the noted ones (it counts as lost
 * then). */
bool wan_recv_refuse(struct wan_recv *r, uint64_t pn);
/* Called when the peer asks about everything from pn on. */
void wan_recv_probe(struct wan_recv *r, uint64_t pn, uint64_t now_ns);

/* The next REPORT: fills in rep (bits unset) and up to max_words words, from where the told-th report before it ended
 * (told: 1..REPORTS_TOLD). False if nothing was ever received. A report that would need more than max_words leaves the
 * rest for the next one (then unreported stays > 0). */
bool wan_recv_report(struct wan_recv *r, uint64_t now_ns, unsigned told, struct wan_report *rep, uint64_t *words,
                     uint32_t max_words);

#endif
