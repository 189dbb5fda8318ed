/* SPDX-License-Identifier: Apache-2.0 */
/* wan_path.h - one WAN route of a link, and what a lane has under way on it.
 *
 * What belongs to the route, whichever lane uses it: round trip, sending time, size of datagrams. What belongs to a lane on a
 * route is a packet number space (RFC 9000 12.3): the numbers it has sent and heard there, and what they tell of losses
 * and of silence. Since numbers count per lane *and* path, reordering between paths can be no loss. */
#ifndef PROXY_WAN_PATH_H
#define PROXY_WAN_PATH_H

#include "fec_plan.h"
#include "fec_tx.h"
#include "wan_arrivals.h"
#include "wan_pacer.h"
#include "wan_recv.h"
#include "wan_rtt.h"
#include "wan_sent.h"

#define REORDER_MIN_NS 50000ull /* least reordering window: below it bursts of one switch look like losses */

struct wan_path {
	uint8_t id;
	struct wan_pacer *pacer;
	uint16_t payload_max; /* UDP payload of a datagram, tag included */
	struct wan_rtt rtt;
	struct {
		struct fec_plan plan; /* of blocks that begin now */
		uint64_t changed_ns;
		struct fec_measure measure; /* of what it loses, as the peer says */
		struct fec_budget budget;
	} fec;
};

/* One lane's packet numbers on one path. */
struct pn_space {
	uint8_t path;
	struct wan_sent sent;
	struct wan_recv recv;
	uint64_t reorder_ns;       /* a datagram named missing is lost if one sent so much later has arrived. RFC 8985 */
	uint64_t acked_end;        /* the highest number that the peer reported as received, + 1 */
	uint64_t last_progress_ns; /* of the last datagram that was found to have arrived, or probe */
	uint32_t pto_count;        /* probes in a row that brought nothing */
	bool probe_due, ping_due, report_due; /* frames for the next datagram */
	struct wan_arrivals arrivals;         /* of the peer's datagrams here */
	struct wan_arrivals_frame peer_sum;   /* of ours there, as last told */
	struct fec_space *fec;                /* wan_fec.h; NULL: FEC is off */
};

void wan_path_init(struct wan_path *path, uint8_t id, const struct wan_path_config *c, uint64_t rtt_hint_ns);

/* page_ring: ring_len (power of two) words for the sent map; rx_bits: WAN_RECV_WORDS words of zeroes. */
void pn_space_init(struct pn_space *s, uint8_t path, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len,
                   uint64_t *rx_bits);
/* A new session: numbers begin again. */
void pn_space_reset(struct pn_space *s, uint64_t now_ns);

/* The probe timeout after the probes that brought nothing so far, ns. RFC 9002 6.2. */
uint64_t pn_space_pto_ns(const struct pn_space *s, const struct wan_path *path);
/* Widens the reordering window after losses that were none, narrows it slowly else. */
void pn_space_adapt_reorder(struct pn_space *s, const struct wan_path *path, const struct wan_sent_result *res);

#endif
