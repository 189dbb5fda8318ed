/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - the state of a shard, which the modules of proxy/ share. Not for files outside of proxy/.
 *
 *      hosts                                                       other edge
 *        |  lan_rx                                                     |
 *        v                                                             v wan_rx
 *     proxy.c --request--> near.c --slots--> wan_lane.c ==datagrams==> wan_lane.c --> far.c ----> hosts
 *        |                   ^                                            |             |
 *        |                 ack_tx.c (every AETH packet)                    |             |
 *        +---response--> far.c --RESP slots--> wan_lane.c ==============> near.c (answers)
 *        +---other-----> raw.c --RAW slots---> wan_lane.c ==============> raw.c
 *
 * near/ is the responder's role beside a requester, far/ the requester's role beside a responder. carry/ carries
 * packets that are not RC, relay/ chunks of the daemons. wan/ numbers, reports and repairs the packets of these four
 * sources (transport.h), in slots that slot.c takes and gives back. proxy.c is the entrance and owns nothing but the
 * order of calls, proxy_init.c the memory. Which folder may use which: tests/rooms.txt. A role's inner header
 * (near_priv.h, far_priv.h, wan_lane_priv.h) is for its own files only.
 *
 * The flows of the two roles are in near_flow.h and far_flow.h: here and not in near/ and far/, because carry/ and
 * flow_find.c look into flows of both. */
#ifndef PROXY_CORE_H
#define PROXY_CORE_H

#include <errno.h>

#include "proxy/arena/arena_slot.h"
#include "proxy/util/fault.h"
#include "far_flow.h"
#include "ip_pool.h"
#include "near_flow.h"

#define TURN_BINS 258 /* of the longest wait of an RNR NAK, and both ends */

/* Sources of the transport, by id (transport.h). */
enum source_id { SOURCE_NEAR, SOURCE_FAR, SOURCE_RAW, SOURCE_IP, SOURCE_RELAY };

/* State of the sources for each lane. */
struct near_lane {
	struct dnode closes; /* struct rd_op as records of FLOW_CLOSE frames to send */
};

struct far_lane {
	struct dnode reports; /* far flows with something to report, by report_at_ns */
};

struct raw_lane {
	struct dnode partial; /* RAW_WAN slots that lack pieces, oldest first */
	uint32_t npartial;
	uint64_t seq_tx;   /* next number of an expendable packet */
	uint64_t seq_rx;   /* highest + 1 */
	uint64_t seen[RAW_SEEN_MAX / 64]; /* bitmap of those before it */
	uint32_t peer_boot_id; /* of the other edge's start, which numbers them; 0: not known */
	uint64_t next;     /* everything before has come, or is not waited for any more */
	struct dnode held; /* RAW_WAN slots of RC packets that overtook others, in order */
	uint32_t nheld;
};

struct ip_lane {
	struct dnode partial; /* struct ip_buf of packets that lack pieces, oldest first */
	uint32_t npartial;
	uint64_t seq_tx; /* number of the last IP packet that was given one */
};

/* A packet that is not RC at the edge beside its receiver: behind a barrier, or on its way to the host. */
struct held_packet {
	struct dnode node;   /* in barrier_queue.waiting, proxy.held_packets or barrier.held_packets_free */
	uint64_t until_ns;   /* end of the longest wait */
	uint64_t peer_epoch; /* epoch of the near edge's arena in which its snapshot names flows */
	uint32_t id;         /* a RAW_WAN slot; or the place of a struct ip_buf */
	uint16_t n, at;      /* entries of its snapshot, and the first that may not be delivered yet */
	uint32_t session;    /* proxy.sessions when it came: it waits for flows that were stale by then */
	bool ip;             /* true: id is the place of a struct ip_buf */
	bool held;           /* waits for stale flows between its machines */
	bool patient;        /* DREQ, DREP: waits for the flow to ends_qpn even in RNR or after a DREQ */
	uint32_t ends_qpn;   /* NONE: not known, patient waits so for every flow */
	bool waived;         /* an entry was not waited for */
	bool in_order;       /* queues behind packets that wait between its machines, though without a snapshot */
};

/* From one machine to another: the first member of each place of a barrier_table. */
struct barrier_way {
	struct dnode free_node;  /* in barrier_table.free: the place is free */
	struct ip_addr src, dst; /* of the machines: barrier_host() */
};

/* Places, one for each way in use. barrier.h. */
struct barrier_table {
	void *places;
	size_t size; /* of a place */
	uint32_t used;
	struct idx_hash by_machines;
	struct dnode free;
};

/* Near: two machines with flows between them that lag (pos_acked > pos_reported). Exists only while one does. */
struct barrier_pair {
	struct barrier_way way;
	struct dnode lagging; /* near flows */
	uint32_t nlagging;
};

/* Far: two machines between which flows are stale, or wait in front of a message. Exists only while one does. */
struct barrier_far_pair {
	struct barrier_way way;
	struct dnode wake_node;            /* in barrier.waking: to_wake is not 0 */
	uint32_t users;                    /* stale flows and flows of `starts`; a flow may be both */
	struct dnode stale[STALE_CLASSES]; /* far flows by enum stale_class, by stale_since */
	struct dnode starts;               /* far flows whose next message waits */
	uint32_t nstarts;
	uint32_t to_wake; /* so many of `starts`, from the first on, are to be looked at again */
};

/* Far: packets that wait on the way from one machine to another, in order of arrival. */
struct barrier_queue {
	struct barrier_way way;
	struct dnode waiting; /* struct held packet */
	struct timer limit;   /* the first packet's until_ns */
};

struct barrier {
	struct barrier_table pairs;     /* max_flows struct barrier_pair: each has a lagging flow */
	struct barrier_table far_pairs; /* max_flows struct barrier_far_pair: each has a user */
	struct barrier_table queues;    /* BARRIER_QUEUES struct barrier_queue: each has a packet */
	struct idx_hash stale_by_dest; /* stale flows, by machines and dest_qpn */
	struct dnode held_packets_free;
	uint32_t waiting; /* held packets in queues */
	struct {
		uint64_t peer_epoch; /* epoch of the near edge's arena in which peer_flow and inc count */
		uint32_t peer_flow, inc;
		uint64_t upto; /* end of what the responder had of a flow that was evicted; else UINT64_MAX */
	} gone[BARRIER_GONE];      /* far flows that were forgotten last: no packet waits for them */
	uint32_t ngone;            /* ever */
	struct dnode starts;       /* far flows whose next message waits for other flows, longest first */
	struct dnode waking;       /* pairs of machines with starts left to look at */
	struct timer starts_limit; /* barrier_max_ns of the first one of starts; at once while `waking` is not empty */
	uint64_t expired_said_ns;  /* when an event last told that a wait was too long */
	struct ip_pool ip_near, ip_far;
};

/* Queue pairs without a flow, by a hash of requester and responder. end_to_end.c. */
struct end_to_end {
	uint64_t begun_ns[END_TO_END_PLACES]; /* when a request of a local requester was carried last; 0: never */
	uint64_t since_ns[END_TO_END_PLACES]; /* when the first one was carried since they were quiet */
	uint64_t asked_ns[END_TO_END_PLACES]; /* when a request was delivered to a local responder last; 0: never */
	struct timer hold;                    /* end of the wait of RC packets that overtook others */
	uint64_t held_bytes;                  /* slot bytes of end-to-end packets on their way to the other edge */
};

/* The purpose of a timer. Its owner is the index of a near flow (the first seven kinds), a far flow (the next four), a
 * host pair, host, lane, barrier queue or path. */
enum timer_kind {
	TK_PATIENCE,
	TK_RETIRE,
	TK_DRAIN,
	TK_RESP_PACE,
	TK_LIVENESS,
	TK_FAIL,
	TK_TURN,
	TK_RTO,
	TK_PACE,
	TK_ASK_NEAR,
	TK_READ_AGAIN,
	TK_QUARANTINE,
	TK_LAN_HOST,
	TK_LANE,
	TK_BARRIER,
	TK_STARTS,
	TK_KEEPALIVE,
	TK_ROOM,
	TK_RAW_HOLD,
	TK_GIVEN,
	TK_PATH
};

/* Which list a slot is on. SQ_ALONE: that of repairs, and it goes in a datagram of its own. SQ_RELAY_IN: a whole chunk;
 * SQ_RELAY_HANDED: the daemon has it. */
enum slot_queue {
	SQ_NONE,
	SQ_FIRST,
	SQ_REPAIR,
	SQ_ALONE,
	SQ_SPACED,
	SQ_REFUSED,
	SQ_COPY,
	SQ_RAW_RX,
	SQ_GIVEN,
	SQ_RELAY_IN,
	SQ_RELAY_HANDED,
};

/* A far flow that was closed for want of a place, or whose FLOW_OPEN found none: if it comes again, the near edge is
 * asked for FLOW_OPEN at once. A later one in the same place takes it over; the near edge of the earlier one is then
 * asked after a second. */
struct evicted_flow {
	uint32_t peer_flow, inc;
};

enum { EVICTED_PLACES = 256 };

/* The end of a far flow whose near edge lost its arena. far_lost.c. */
struct lost_life {
	struct ip_addr src, dst;
	uint32_t dest_qpn;
	uint32_t session;  /* proxy.sessions; 0: a free place */
	uint64_t from, to; /* the responder expects a position in [from, to] next */
	uint32_t asked_psn; /* the missing PSN that the responder waits for */
	uint64_t asked_ns, looked_ns; /* when asked_psn was first asked for, and last found missing; 0: not yet */
};

/* A host here that opened or ended a TCP connection with the other site, or exchanged CM messages with it: its route
 * leads to this edge. flow_history.c. */
struct host_heard {
	struct ip_addr addr;
	uint64_t at_ns; /* the last such packet; 0: a free place */
};

/* The last flows that have ended, in two rings, each overwriting its oldest. Flows with problems have a ring of their
 * own, so neither flows that ended well nor those that a host spraying QPNs opens push them out. flow_history.c. */
struct flow_history {
	struct proxy_flow_view *ring[2]; /* n each */
	uint32_t n;
	uint64_t count[2]; /* ever */
};

/* CM's description of one direction of a connection: requester src (local) sends from start_psn to dest_qpn at dst. */
struct near_cm_info {
	struct ip_addr src, dst;
	uint32_t tag;                                /* cm_tag() */
	uint32_t dest_qpn, requester_qpn, start_psn; /* 24 bits each */
	uint16_t pmtu;                               /* bytes of payload */
	uint16_t vlan_tci;
	uint16_t pkey;
	uint8_t rnr_retry;          /* 7: infinite */
	struct cm_traits responder; /* for the template of its ACKs */
};

/* Calls of carry/ into near/ and far/, which it may not include. */
struct role_calls {
	void (*cm_open)(struct proxy *p, const struct near_cm_info *ci);
	void (*cm_over)(struct proxy *p, const struct near_cm_info *ci);
	void (*far_cm_open)(struct proxy *p, const struct near_cm_info *ci);
	void (*far_schedule)(struct proxy *p, struct far_flow *f); /* f need not wait for other flows any more */
	void (*end_to_end_asked)(struct proxy *p, const struct roce_pkt *request); /* it goes to its responder now */
};

/* A shard. */
struct proxy {
	struct proxy_config cfg;
	struct arena *arena;
	struct proxy_counters counters;
	struct proxy_session session;
	uint32_t sessions;               /* begun since the start */
	bool session_on;                 /* a session has begun: datagrams may be sent and taken */
	bool unanswered;                 /* the other edge is heard but answers nothing */
	uint64_t keepalive_due_ns;
	bool wan_up;                     /* session_on, and the peer was heard within dead_peer_ns */
	uint64_t wan_heard_since_ns;     /* since then the peer was heard without a pause of two keepalives */
	bool mismatch;                   /* the edges' configs disagree: nothing is ACKed early */
	uint64_t now_ns;                 /* of the current call */
	uint64_t last_rx_ns, last_tx_ns; /* of the WAN */
	uint64_t silence_said_ns;        /* last_rx_ns of the silence for which an event was raised */

	struct near_flow *near; /* max_flows of each of the three */
	struct far_flow *far;
	struct hostpair *pairs;
	struct lan_host *lan_hosts;
	struct near_lane *near_lanes; /* nlanes of each of the four; only those of the shard are used */
	struct far_lane *far_lanes;
	struct raw_lane *raw_lanes;
	struct ip_lane *ip_lanes;
	struct dnode ops_free; /* struct rd_op that are free */
	uint32_t nops_free, nops;
	uint64_t reserved_bytes;            /* of POOL_WAN, for responses of READs and ATOMICs that are under way */
	struct dnode reserve_waiting;       /* near flows, by when they began to wait */
	struct dnode reserve_unheld;        /* those whose hosts cannot be held off, by unheld_look_ns */
	struct {
		const uint8_t *l3; /* the packet of the current call, if it lies in a blank */
		uint32_t slot;     /* that blank; once the core has kept it, the one that the port gets for it */
		uint16_t off;      /* of l3 in the blank */
	} landed;                           /* slot_port.c */
	uint64_t released[POOL_COUNT];      /* slots ever freed */
	uint64_t released_then[POOL_COUNT]; /* `released` at the last look */
	uint64_t full_ns[POOL_COUNT]; /* since when the pool is full and no slot of it was freed; 0: it is not */
	bool stuck[POOL_COUNT];       /* full for so long that an event was raised */
	struct dnode given_resps;     /* READ responses that hosts were given, oldest first: kept while there is room */
	uint64_t given_bytes;      /* their slot bytes: they count as free */
	struct timer given_timer;  /* frees the oldest */
	uint64_t room_exceeded_ns; /* when a READ last crossed without room although its host can be held off */
	struct timer reserve_timer;
	struct {
		uint32_t away;      /* near flows with a booked turn */
		uint64_t bytes;     /* quanta booked for these */
		uint64_t bin, due[TURN_BINS]; /* bytes due in each bin of time, from `bin` on */
		struct share drain; /* of all near flows together */
		uint64_t in_force_until_ns; /* turns are in force at least until then */
	} turns;                    /* near_turn.c */
	uint32_t near_busy;         /* near flows with near_held() != 0: near_count_held() */
	uint32_t near_wanting;      /* near flows with near_wants_line() */
	struct near_unpaired unpaired;
	struct end_to_end end_to_end;
	uint64_t near_full_until_ns; /* the near table was full of busy flows: not searched again before */
	uint32_t near_used, far_used;
	uint32_t telling;      /* near flows in TELL_TRYING */
	uint32_t far_evict_at; /* index of the far flow that far_evict_for() looks at next */
	uint64_t far_evict_ns; /* far_evict_for() looks at no flow before then */
	struct dnode near_free, far_free;       /* free places, the one freed first in front */
	uint32_t near_evict_at, far_idle_at;    /* indexes from which a flow to close is sought */
	uint32_t work_left;                     /* of CALL_WORK, in the current call */
	struct dnode near_work, far_work;       /* flows with work left for the next tick */
	struct dnode dead_slots;                /* slots that the next tick is to free, by slot_meta.node */
	struct dnode pairs_free, hosts_free;
	struct dnode pairs_unasked, pairs_left; /* host pairs in quarantine: never had a flow; have none left */
	uint32_t *near_inc;                     /* last incarnation of each near index: never used twice */
	uint64_t births;                        /* near flows ever opened in this arena */
	struct near_flow *near_found;           /* the last flow found by its key: packets of a flow come in runs */
	struct ip_addr carried_from, carried_to; /* the last pair for which proxy_carries() was true, if carries_any */
	bool carries_any;
	struct idx_hash near_by_key, near_by_requester, far_by_peer, far_by_qpn, far_by_dest, pair_by_hosts,
	    host_by_addr;

	struct relay *relay; /* NULL: there is none. relay/relay_priv.h */
	struct barrier barrier;
	struct cm_table cm;
	struct wan *wan; /* the transport: wan/wan.h */
	const struct role_calls *roles;
	struct timer_heap timers;
	struct timer keepalive;

	struct dnode ack_tx;    /* near flows with an AETH, CNP or invalid request to send */
	struct dnode resp_list; /* near flows with responses to deliver */
	struct dnode held_packets; /* struct held packet: packets for hosts that are not RC */
	struct dnode far_cnps;  /* far flows whose responder is to be sent a CNP */
	struct dnode lan_ready; /* struct hostpair with far flows that may send to their host */
	uint64_t begins_ns;     /* pacing clock of flows' first packets, which go in front. near_wan.c */
	struct lost_life *lost_lives; /* nlost_lives of them, a power of two */
	uint32_t nlost_lives;
	struct evicted_flow evicted[EVICTED_PLACES]; /* by hash of peer_flow */
	struct dnode stale_flows; /* far flows of arenas that the peer has lost */

	struct proxy_event events[EVENT_RING];
	uint32_t ev_head, ev_tail; /* written, read */
	struct proxy_event *failures; /* 2 * max_flows events of failed flows, apart from the others */
	uint32_t failures_head, failures_tail;
	uint64_t events_lost, failures_lost;
	struct flow_history history; /* flows that have ended */
	struct host_heard hosts_heard[HOSTS_HEARD];
};

/* --- bounded work ---
 *
 * One input may concern any number of packets: a report that settles a million, or the end of a flow that holds as
 * many. No call works off more than CALL_WORK of them. Flows with work left are put on near_work or far_work;
 * proxy_next_wake() then says "at once", and proxy_tick() goes on. The place of a flow is not used again before all
 * slots of the flow are free, since a slot is found by place and position. */

/* Takes one unit of work, for a packet or position. False: none is left in this call. */
static inline bool work_take(struct proxy *p)
{
	if (!p->work_left)
		return false;
	p->work_left--;
	return true;
}

/* Takes n units of work that were done already. */
static inline void work_done(struct proxy *p, uint32_t n)
{
	p->work_left -= p->work_left < n ? p->work_left : n;
}

/* --- small things --- */

static inline void count(struct proxy *p, enum proxy_counter c, uint64_t n)
{
	p->counters.ctr[c] += n;
}

static inline enum proxy_drop drop(struct proxy *p, enum proxy_drop d)
{
	p->counters.drop[d]++;
	return d;
}

/* The position with that PSN which is nearest to ref. */
static inline uint64_t pos_near(uint64_t ref, uint32_t psn)
{
	uint32_t d = (psn - (uint32_t)ref) & ROCE_PSN_MASK;

	return d < PSN_HALF ? ref + d : ref - (0x1000000u - d);
}

static inline uint32_t pos_psn(uint64_t pos)
{
	return (uint32_t)pos & ROCE_PSN_MASK;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t clamp_u64(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

/* True if the lane is this shard's. */
static inline bool proxy_owns_lane(const struct proxy *p, uint32_t lane)
{
	return lane < p->cfg.nlanes && lane % p->cfg.nshards == p->cfg.shard;
}

/* True for a packet from a local host to a remote one, on a lane of this shard. Prefixes and lanes do not change while
 * the shard lives (proxy_reconfigure()), so the result for the last pair is remembered. */
static inline bool proxy_carries(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	if (p->carries_any && ip_addr_eq(&p->carried_from, src) && ip_addr_eq(&p->carried_to, dst))
		return true;
	if (!ip_prefix_any(p->cfg.local, p->cfg.nlocal, src) || !ip_prefix_any(p->cfg.remote, p->cfg.nremote, dst) ||
	    !proxy_owns_lane(p, proxy_lane_between(&p->cfg, src, dst)))
		return false;
	p->carried_from = *src;
	p->carried_to = *dst;
	p->carries_any = true;
	return true;
}

/* --- shared, by file --- */

/* rd_op.c: the use of a record; the value is the percentage of all records that must be left afterwards. Without these
 * margins one role could use up the records that the other role needs to end operations. */
enum rd_op_use { OP_FOR_CLOSE = 0, OP_FOR_FAR = 5, OP_FOR_NEAR = 25, OP_FOR_KEPT = 50 };
bool rd_op_left(const struct proxy *p, enum rd_op_use use);
/* rd_op_take() takes a record from the shard's pool; NULL: none is left for that use. rd_op_give() gives a record back,
 * and takes it off its list. */
struct rd_op *rd_op_take(struct proxy *p, enum rd_op_use use);
void rd_op_give(struct proxy *p, struct rd_op *op);
/* The position from which a responder that is forward_only is asked, so that `n` responses from `next` on come: where
 * the host's latest request for the READ began. If that is more than rd_op_ask_back() responses back, it is as many
 * responses before `next` as are wanted, at least an eighth of these. */
uint64_t rd_op_ask_from(const struct rd_op *op, uint64_t next, uint16_t pmtu, uint64_t n);
uint32_t rd_op_ask_back(uint16_t pmtu);
/* True if the responder whose ACK that is, from its IP header, is rxe: it leaves MigReq 0. */
bool rd_op_is_forward_only(const uint8_t *ack, uint16_t len);

/* proxy_config.c: true if a shard can work with these values. */
bool proxy_config_sane(const struct proxy_config *c);
/* proxy_config.c: the mode for requests between a local and a remote host. */
enum ack_mode proxy_mode_for(const struct proxy_config *c, const struct ip_addr *local, const struct ip_addr *remote);

/* True while all modes count as host: the edges' configurations disagree, or this edge's nft rules are not in force. */
static inline bool proxy_early_acks_off(const struct proxy *p)
{
	return p->mismatch || p->cfg.no_early_acks;
}

/* event.c: both functions raise an event about a near or a far flow (both may be NULL). An event is lost if its ring is
 * full. */
/* proxy_failure_push() raises EV_FLOW_FAILED: pos is the first position that was not delivered, bytes are the slot
 * bytes held from there on. */
void proxy_failure_push(struct proxy *p, enum proxy_failure why, const struct near_flow *n, const struct far_flow *f,
                        uint64_t pos, uint64_t bytes);
void proxy_event_push(struct proxy *p, enum proxy_event_type type, const struct near_flow *n, const struct far_flow *f,
                      uint64_t pos, uint64_t value);

#endif
