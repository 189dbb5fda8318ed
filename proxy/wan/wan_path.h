/* SPDX-License-Identifier: Apache-2.0 */
/* wan_path.h - one WAN route of a link, and the packet numbers of a lane on it.
 *
 * struct wan_path holds what belongs to the route, whichever lane uses it: round trip, sending time, size of datagrams,
 * life. struct pn_space, a packet number space (RFC 9000 12.3), holds what belongs to a lane on a route: the numbers
 * that the lane has sent and heard there, and the losses and the silence that follow from them. Since numbers count per
 * lane *and* path, reordering between paths can be no loss. wan_path.c tells when a path is dead, wan_path_sched.c
 * which path a datagram takes. */
#ifndef PROXY_WAN_PATH_H
#define PROXY_WAN_PATH_H

#include "proxy/wan/fec/fec_plan.h"
#include "proxy/wan/fec/fec_tx.h"
#include "proxy/wan/dgram/wan_arrivals.h"
#include "proxy/wan/dgram/wan_ecn.h"
#include "proxy/util/loss_runs.h"
#include "proxy/util/timer.h"
#include "proxy/wan/cc/pacer_part.h"
#include "proxy/wan/cc/wan_pacer.h"
#include "proxy/wan/dgram/wan_pmtu.h"
#include "proxy/wan/dgram/wan_recv.h"
#include "proxy/wan/dgram/wan_rtt.h"
#include "proxy/wan/dgram/wan_sent.h"

struct proxy;
struct lane;

#define REORDER_MIN_NS 50000ull /* least reordering window: with less of it, bursts of one switch look like losses */

struct wan_path {
	uint8_t id;
	uint32_t weight;      /* 0: used only if no other path lives */
	struct wan_pacer *pacer;
	struct pacer_part part; /* this shard's part of the pacer's time */
	uint16_t payload_max; /* UDP payload of a datagram, tag included: pmtu.size */
	struct wan_pmtu pmtu;
	struct wan_rtt rtt;
	struct wan_ecn ecn;
	struct {
		struct fec_plan plan; /* of blocks that begin now */
		uint64_t changed_ns;
		bool plan_due; /* a loss was found: the plan is to be made with the next datagram */
		struct fec_measure measure; /* of the path's losses, as the peer tells them */
		struct fec_budget budget;
		/* the load of the path */
		struct fec_load {
			uint64_t ns, data_bytes, other_bytes; /* at the last look: when, and the pacer's sums */
			uint64_t next_ns;                     /* when to look again */
			bool idle;                            /* since the last look this shard once had nothing
			                                       * waiting */
			unsigned looks;                       /* looks in a row that found about the same load */
			/* of this shard since the last look: bytes of repairs on the line, and other datagrams with
			 * packets */
			double repairs, datagrams;
			/* of these datagrams, the full ones: their number, bytes within, bytes on the line */
			double packed, packed_data, packed_line;
		} look;
		double load; /* share of the line's time for all but repairs, if datagrams were full */
		double slack; /* how far load may be off */
		unsigned full; /* the last looks in a row that found no time left, repairs included */
		/* sums over datagrams in blocks: their number, and how many datagrams their lane sends in a block's
		 * time */
		double filled, filled_rate;
	} fec;
	/* life: used only with several paths */
	enum path_state state;
	uint64_t since_ns;    /* of that state */
	uint64_t waiting_ns;  /* since when a sent datagram is without an answer; 0: none is */
	uint32_t waiting;     /* datagrams sent since waiting_ns that want an answer */
	bool late_excused;    /* this worker was late in this silence: forgiven once */
	uint32_t answers;     /* dead: probes answered in a row */
	uint32_t unanswered;  /* dead: probes since the last answer */
	uint32_t flaps;       /* deaths soon after coming back: the path needs more answers to be used again */
	uint32_t wrong_deaths; /* doublings of the floor, for deaths that were wrong */
	uint64_t probe_ns;    /* dead: time between probes */
	uint64_t asked_ns;    /* when a datagram that wants an answer was last sent */
	uint64_t answered_ns; /* when a datagram of any lane was last found to have arrived */
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
	struct wan_ecn_counts ecn_heard; /* of our datagrams, as the peer counts */
	uint64_t reorder_ns; /* a datagram named missing is lost if one sent this much later has arrived. RFC 8985 */
	uint32_t found_lost, found_spurious; /* recent ones; both are halved now and then */
	uint64_t acked_end;        /* the highest number that the peer reported as received, + 1 */
	uint64_t moved_end;        /* all numbers below were taken back because the path seemed dead */
	uint64_t last_progress_ns; /* when a datagram was last found to have arrived, or a probe was sent */
	uint64_t asked_ns;         /* when the lane last asked about a number that no report told of */
	uint32_t pto_count;        /* probes in a row without an answer */
	bool probe_due, ping_due, report_due; /* frames for the next datagram */
	uint64_t told_late_ns; /* since when control of this space waits, because all control is ahead of its part; 0:
	                        * it does not */
	uint8_t moves_in_vain; /* changes of the source port since the last answer */
	uint8_t moves; /* changes of the source port: the lane was not answered and others were, or no probe of a dead
	                * path was */
	bool moving;                          /* datagrams under way are being taken back, in portions */
	struct wan_report rest;               /* unfinished part of the last report; words 0: none */
	uint8_t rest_bits[8 * WAN_REPORT_WORDS_MAX];
	struct wan_report refused_rest;       /* a word of a REFUSED that is to be worked off; words 0: none */
	uint8_t refused_rest_bits[8];
	uint32_t ect_acked;           /* datagrams sent as ECT(0) that the finished part of that report tells to have
	                                 arrived */
	struct wan_arrivals arrivals; /* of the peer's datagrams here */
	struct wan_arrivals_frame peer_sum;   /* of our datagrams, as the peer told last */
	struct fec_space *fec;                /* wan_fec.h; NULL: FEC is off */
	uint32_t unmarked;                    /* bytes sent since the last rate_mark */
	uint32_t unasked; /* datagrams of expendable packets since the last one that asked for a report */
};

void wan_path_init(struct wan_path *path, uint8_t id, const struct wan_path_config *c, uint64_t rtt_hint_ns);

/* page_ring: ring_len (power of two) words for the sent map; rx_bits: WAN_RECV_WORDS words of zeroes. */
void pn_space_init(struct pn_space *s, uint8_t path, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len,
                   uint64_t *rx_bits);
/* A new session: numbers begin again. */
void pn_space_reset(struct pn_space *s, uint64_t now_ns);

/* The probe timeout, doubled for each probe in a row without an answer, ns; not doubled while the peer answers other
 * lanes of the path. RFC 9002 6.2, which resets the backoff at an acknowledgment in any packet number space. */
uint64_t pn_space_pto_ns(const struct pn_space *s, const struct wan_path *path);
/* Counts one more datagram in found_lost. wan_on_report() adds res->spurious to found_spurious. */
void pn_space_found_lost(struct pn_space *s);
/* True if most datagrams found lost lately had arrived: the path reorders. */
bool pn_space_mostly_spurious(const struct pn_space *s);
/* Widens the reordering window after spurious losses; narrows it slowly otherwise. */
void pn_space_adapt_reorder(struct pn_space *s, const struct wan_path *path, const struct wan_sent_result *res);

/* --- life --- */

/* True if no path has answered for as long as the other edge may be silent. */
bool wan_paths_unheard(const struct proxy *p, uint64_t now_ns);

/* Called when a session begins: nothing is known of any path. */
void wan_paths_session_start(struct proxy *p);
/* Notes that a datagram of so many bytes was sent; `asks`: the peer will report its arrival. Returns the datagram's
 * place on the path. */
uint64_t wan_path_sent(struct proxy *p, struct wan_path *path, size_t bytes, bool asks);
/* Called when a report was worked off. */
void wan_path_answered(struct proxy *p, struct wan_path *path, const struct wan_sent_result *res);
/* Notes that a datagram was answered this long after it was sent, the peer's own delay included. */
void wan_path_round_trip(struct proxy *p, struct wan_path *path, uint64_t rtt_ns, uint64_t peer_delay_ns);
/* Called when a path found dead has answered a datagram sent before that: the path was only slow, like an edge whose
 * processor is taken away. The path is used again at once, and has more time from now on. */
void wan_path_was_slow(struct proxy *p, struct wan_path *path);
/* Notes that the datagram sent at that place is lost. */
void wan_path_lost(struct wan_path *path, uint64_t place);
/* These note that a datagram of so many bytes came or was lost; `probe`: it was a probe of the path's size. */
void wan_path_size_came(struct proxy *p, struct wan_path *path, uint32_t bytes, bool probe);
void wan_path_size_lost(struct proxy *p, struct wan_path *path, uint32_t bytes, bool probe);
/* True for the lane that probes the path's size and life. */
bool wan_path_probe_lane(const struct proxy *p, const struct lane *l);
void wan_path_on_timer(struct proxy *p, struct wan_path *path);
/* The time that a path may be silent before it counts as dead, ns: a round trip if much was sent, else two, and a
 * floor. */
uint64_t wan_path_patience_ns(const struct proxy *p, const struct wan_path *path);

/* Bit mask of the paths that packets may take. Never 0. */
uint32_t wan_paths_usable(const struct proxy *p);
/* Rate of all usable paths together now, bits per second, as their controllers have set it: for all shards, overhead
 * included. 0: no path is usable. */
uint64_t wan_line_bps(const struct proxy *p);
/* This shard's part of wan_line_bps(), by the flows that want sending time here and in the other shards. */
uint64_t wan_line_part_bps(const struct proxy *p);
/* The flows of all shards that want sending time, as wan_paths_tell_flows() last told them: of several shards. */
uint32_t wan_line_flows(const struct proxy *p);
/* Tells the other shards, from time to time, how many flows of this one want sending time. */
void wan_paths_tell_flows(struct proxy *p);

#endif
