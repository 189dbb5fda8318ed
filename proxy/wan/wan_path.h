/* SPDX-License-Identifier: Apache-2.0 */
/* wan_path.h - one WAN route of a link, and what a lane has under way on it.
 *
 * What belongs to the route, whichever lane uses it: round trip, sending time, size of datagrams, whether it is alive.
 * What belongs to a lane on a route is a packet number space (RFC 9000 12.3): the numbers it has sent and heard there,
 * and what they tell of losses and of silence. Since numbers count per lane *and* path, reordering between paths can be
 * no loss. The theory of life and death is in wan_path.c, of spreading in wan_path_sched.c. */
#ifndef PROXY_WAN_PATH_H
#define PROXY_WAN_PATH_H

#include "proxy/wan/fec/fec_plan.h"
#include "proxy/wan/fec/fec_tx.h"
#include "proxy/wan/dgram/wan_arrivals.h"
#include "proxy/wan/dgram/wan_ecn.h"
#include "proxy/util/loss_runs.h"
#include "proxy/util/timer.h"
#include "proxy/wan/cc/wan_pacer.h"
#include "proxy/wan/dgram/wan_pmtu.h"
#include "proxy/wan/dgram/wan_recv.h"
#include "proxy/wan/dgram/wan_rtt.h"
#include "proxy/wan/dgram/wan_sent.h"

struct proxy;
struct lane;

#define REORDER_MIN_NS 50000ull /* least reordering window: below it bursts of one switch look like losses */

struct wan_path {
	uint8_t id;
	uint32_t weight;      /* 0: used only if no other lives */
	struct wan_pacer *pacer;
	uint16_t payload_max; /* UDP payload of a datagram, tag included: pmtu.size */
	struct wan_pmtu pmtu;
	struct wan_rtt rtt;
	struct wan_ecn ecn;
	struct {
		struct fec_plan plan; /* of blocks that begin now */
		uint64_t changed_ns;
		bool plan_due; /* a loss was found: the plan is to be made with the next datagram */
		struct fec_measure measure; /* of what it loses, as the peer says */
		struct fec_budget budget;
		/* what it carries */
		struct fec_load {
			uint64_t ns, data_bytes, other_bytes; /* at the last look: when, and the pacer's sums */
			uint64_t next_ns;                     /* when to look again */
			bool idle;                            /* since then this shard had nothing waiting once */
			unsigned looks;                       /* in a row that found about the same load */
			/* of this shard since: bytes on the line, and other ones with packets */
			double repairs, datagrams;
			/* of these, as full as can be: their number, bytes within, on the line */
			double packed, packed_data, packed_line;
		} look;
		double load; /* share of its time for all but repairs, if datagrams were full */
		double slack; /* how far that may be off */
		unsigned full; /* with repairs, nothing was left, at the last so many looks */
		/* sums over datagrams in blocks: their number, and what their lane sends in a block's time */
		double filled, filled_rate;
	} fec;
	/* life: only if there are others */
	enum path_state state;
	uint64_t since_ns;    /* of that state */
	uint64_t waiting_ns;  /* since when something sent is without an answer; 0: nothing is */
	uint32_t waiting;     /* datagrams sent since that want one */
	bool held_up;         /* in that time this worker was: it has been forgiven once */
	uint32_t answers;     /* dead: to probes, in a row */
	uint32_t flaps;       /* deaths not long after coming back: more answers are asked for */
	uint32_t hasty;       /* doublings of the floor, for deaths that were none */
	uint64_t probe_ns;    /* dead: time between probes */
	uint64_t asked_ns;    /* when something that wants an answer was last sent */
	uint64_t answered_ns; /* when something was last found to have arrived, of any lane */
	struct timer look;
	/* figures */
	uint64_t places;      /* datagrams ever sent: the next one's place */
	uint32_t loss_ppm;    /* smoothed over some hundreds of datagrams */
	uint64_t rate_from_ns, rate_from_bytes, rate_bps; /* delivery rate, a window at a time */
	struct loss_runs runs;
	struct wan_path_stats stats;
};

/* One lane's packet numbers on one path. */
struct pn_space {
	uint8_t path;
	struct wan_sent sent;
	struct wan_recv recv;
	struct wan_ecn_counts ecn_heard; /* of ours there */
	uint64_t reorder_ns; /* a datagram named missing is lost if one sent so much later has arrived. RFC 8985 */
	uint32_t found_lost, found_spurious; /* of late; both are halved now and then */
	uint64_t acked_end;        /* the highest number that the peer reported as received, + 1 */
	uint64_t moved_end;        /* all below it was taken back because the path seemed dead */
	uint64_t last_progress_ns; /* of the last datagram that was found to have arrived, or probe */
	uint64_t asked_ns;         /* when it last asked about one that no report spoke of */
	uint32_t pto_count;        /* probes in a row that brought nothing */
	bool probe_due, ping_due, report_due; /* frames for the next datagram */
	uint64_t told_late_ns; /* since when control has waited, as that of all lanes is ahead of its part; 0: it has not */
	uint8_t moves_in_vain; /* since the last answer */
	uint8_t moves; /* to another source port, as the lane was not answered and others were */
	bool moving;                          /* what is under way is taken back, in portions */
	struct wan_report rest;               /* the last report, as long as it is not worked off; words 0: it is ... */
	uint8_t rest_bits[8 * WAN_REPORT_WORDS_MAX];
	uint32_t ect_acked;           /* ... and what it said so far to have arrived, sent as ECT(0) */
	struct wan_arrivals arrivals; /* of the peer's datagrams here */
	struct wan_arrivals_frame peer_sum;   /* of ours there, as last told */
	struct fec_space *fec;                /* wan_fec.h; NULL: FEC is off */
	uint32_t unmarked;                    /* bytes sent since the last rate_mark */
};

void wan_path_init(struct wan_path *path, uint8_t id, const struct wan_path_config *c, uint64_t rtt_hint_ns);

/* page_ring: ring_len (power of two) words for the sent map; rx_bits: WAN_RECV_WORDS words of zeroes. */
void pn_space_init(struct pn_space *s, uint8_t path, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len,
                   uint64_t *rx_bits);
/* A new session: numbers begin again. */
void pn_space_reset(struct pn_space *s, uint64_t now_ns);

/* The probe timeout after the probes that brought nothing so far, ns. RFC 9002 6.2. */
uint64_t pn_space_pto_ns(const struct pn_space *s, const struct wan_path *path);
/* One more was found lost; res->spurious of them had arrived: found_spurious, by whoever takes the report. */
void pn_space_found_lost(struct pn_space *s);
/* Of what was found lost lately most had arrived: the path reorders. */
bool pn_space_mostly_spurious(const struct pn_space *s);
/* Widens the reordering window after losses that were none, narrows it slowly else. */
void pn_space_adapt_reorder(struct pn_space *s, const struct wan_path *path, const struct wan_sent_result *res);

/* --- life --- */

/* Nothing that was sent is answered, on any path, for as long as another edge's silence may last. */
bool wan_paths_unheard(const struct proxy *p, uint64_t now_ns);

/* A session begins: nothing is known of any path. */
void wan_paths_session_start(struct proxy *p);
/* A datagram of so many bytes was sent; `asks`: the peer will say that it came. Returns its place on the path. */
uint64_t wan_path_sent(struct proxy *p, struct wan_path *path, size_t bytes, bool asks);
/* The peer has said of some that they came. */
void wan_path_answered(struct proxy *p, struct wan_path *path, const struct wan_sent_result *res);
/* Something was answered so long after it was sent, the peer's own delay included. */
void wan_path_round_trip(struct proxy *p, struct wan_path *path, uint64_t rtt_ns, uint64_t peer_delay_ns);
/* It was found dead, and has answered what was sent before: it was only slow, as an edge is whose processor is taken
 * away. Used again at once, and given more time from now on. */
void wan_path_was_slow(struct proxy *p, struct wan_path *path);
/* One that was sent at that place is lost. */
void wan_path_lost(struct wan_path *path, uint64_t place);
/* What became of a datagram of so many bytes; a probe of the path's size or not. */
void wan_path_size_came(struct proxy *p, struct wan_path *path, uint32_t bytes, bool probe);
void wan_path_size_lost(struct proxy *p, struct wan_path *path, uint32_t bytes, bool probe);
/* The lane that asks for the path itself: its size, its life. */
bool wan_path_asker(const struct proxy *p, const struct lane *l);
void wan_path_on_timer(struct proxy *p, struct wan_path *path);
/* So long may a path not answer before it counts as dead, ns: one round trip if much was sent, else two, and a
 * floor. */
uint64_t wan_path_patience_ns(const struct proxy *p, const struct wan_path *path);

/* Bit mask of the paths that packets may take. Never 0. */
uint32_t wan_paths_usable(const struct proxy *p);
/* Bits per second of all usable paths together now, as their controllers have found it: of all shards, overhead
 * included. 0: no path is usable. */
uint64_t wan_line_bps(const struct proxy *p);

#endif
