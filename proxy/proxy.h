/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.h - the core of longreach: the only way into proxy/.
 *
 * One struct proxy is one *shard* of one link at one edge: the lanes with lane % nshards == shard, with all state and
 * an arena of their own. A shard is driven from one thread, makes no system call, reads no clock, and allocates nothing
 * after proxy_init(). Time is an argument (now_ns: any monotonic nanosecond clock, never going back).
 *
 * Life of a shard:
 *
 *     proxy_heap_size() -> proxy_init()            heap and arena memory come from the caller
 *     proxy_session_start()                        whenever both edges have said hello (again)
 *     loop:
 *         proxy_lan_rx() or proxy_lan_rx_slot() for each packet from hosts
 *         proxy_wan_rx() for each datagram from the other edge
 *         proxy_tick()   timers
 *         proxy_lan_tx() until 0: packets for hosts
 *         proxy_wan_tx() until 0: datagrams for the other edge (it paces: 0 may mean "not yet")
 *         proxy_event_next() until false
 *         sleep until proxy_next_wake() or input
 *
 * Vocabulary: near = beside the requester, far = beside the responder; each edge is both, for the two
 * directions. */
#ifndef PROXY_PROXY_H
#define PROXY_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/arena/arena.h"
#include "proxy/util/bytes.h"
#include "proxy/roce/cm.h"
#include "proxy/util/counters.h"
#include "proxy/wan/fec/fec_config.h"
#include "proxy/util/flow_facts.h"
#include "proxy/roce/icrc.h"
#include "proxy/util/limits.h"
#include "proxy/wan/cc/rate.h"
#include "proxy/roce/roce.h"
#include "proxy/wan/dgram/wan_ecn.h"
#include "proxy/wan/cc/wan_pacer.h"

/* The point up to which requests are ACKed (the promise to the requester). */
enum ack_mode {
	ACK_MODE_HOST = 0, /* what the responder itself has ACKed */
	ACK_MODE_NEAR = 1, /* what is committed in the near edge's arena */
	ACK_MODE_FAR = 2,  /* what is committed in the far edge's arena, too */
};

/* The packets that wait for RC requests which were ACKed early: barrier.c. */
enum barrier_mode {
	BARRIER_OFF,  /* DREQ and DREP */
	BARRIER_PAIR, /* every packet between the two hosts that is not RC: the port takes all IP */
	BARRIER_CAUSAL, /* as BARRIER_PAIR, and RC messages on other queue pairs between the two hosts */
};

/* A further address of a machine: counts as `host`, for the barrier and for lanes. Both edges have the same list. */
struct host_alias {
	struct ip_addr addr, host;
};

struct ip_prefix {
	struct ip_addr addr; /* v4 prefixes are v4-mapped: 96 + their length */
	uint8_t len;         /* 0..128 */
};

static inline bool ip_prefix_is4(const struct ip_prefix *p)
{
	return p->len >= 96 && ip_addr_is4(&p->addr);
}

/* True if the address lies in the prefix; in any of n prefixes. */
bool ip_prefix_holds(const struct ip_prefix *p, const struct ip_addr *a);
bool ip_prefix_any(const struct ip_prefix *list, uint32_t n, const struct ip_addr *a);

/* Another mode than the link's, for requests between a local and a remote host in either direction. */
struct pair_mode {
	struct ip_prefix local, remote;
	enum ack_mode mode;
};

/* The values that a datagram's seal depends on. All are in the datagram's header. */
struct wan_seal_id {
	uint32_t epoch;
	uint64_t wan_pn;
	uint8_t lane, path;
	uint8_t phase; /* 0..3: which of the successive keys */
};

/* Bytes of a datagram that lie elsewhere until it is sealed, which saves a copy. Parts are in order and do not
 * overlap. */
struct wan_seal_part {
	const uint8_t *from;
	uint16_t off, len; /* where in the datagram, from the end of its header on */
};

enum {
	WAN_SEAL_NO_KEY = -1,  /* there is none for this session */
	WAN_SEAL_USED_UP = -2, /* it has sealed all that it may, and the peer has taken nothing of it */
};

/* The cipher that seals datagrams. The core has none of its own. The core seals each wan_pn once per session, lane and
 * path, and changes no state for a datagram that open() refuses. */
struct wan_seal_ops {
	/* The phase in which id (without its phase) is to be sealed. WAN_SEAL_NO_KEY, WAN_SEAL_USED_UP: nothing can be
	 * sent on this lane and path in this session. acked_end: the peer has taken a datagram of this lane and session
	 * below it, and none at or above it as far as is known. */
	int (*phase)(void *ctx, const struct wan_seal_id *id, uint64_t acked_end);
	/* Encrypts the bytes behind the header (WAN_HDR_LEN bytes, authenticated, too) in buf, and writes WAN_TAG_LEN
	 * bytes behind `len`. The plain text is in buf, except the n parts, which are read where they lie. */
	void (*seal)(void *ctx, const struct wan_seal_id *id, uint8_t *buf, size_t len,
	             const struct wan_seal_part *part, unsigned n);
	/* Opens in place: len without the tag, which follows. DROP_NONE, or the reason; then buf may hold anything. */
	enum proxy_drop (*open)(void *ctx, const struct wan_seal_id *id, uint8_t *buf, size_t len);
};

/* One WAN route between the edges. */
struct wan_path_config {
	struct wan_pacer *pacer;
	uint16_t payload_max; /* UDP payload of a datagram: path MTU - IP - UDP header. The sealing tag is inside. */
	bool payload_search;  /* payload_max is an upper bound: the core searches for what the path carries */
	uint32_t weight;      /* preference over paths that are as quick; 0: used only if no other lives. default 1 */
};

enum path_state { PATH_NEW, PATH_UP, PATH_DEAD };

struct proxy_config {
	uint8_t shard, nshards; /* shard < nshards <= SHARDS_MAX */
	uint16_t nlanes;        /* 1..LANES_MAX, the same at both edges */
	enum ack_mode mode;
	struct ip_prefix local[PREFIXES_MAX], remote[PREFIXES_MAX];
	uint32_t nlocal, nremote;
	struct pair_mode pair_modes[PAIR_MODES_MAX]; /* the first that fits counts; none: `mode` */
	uint32_t npair_modes;
	bool no_early_acks; /* the link's nft rules are not in force: all modes count as host for now */
	uint32_t max_flows; /* per shard: near flows, and as many far ones. 16..FLOWS_MAX */

	/* barrier */
	enum barrier_mode barrier;
	uint64_t barrier_max_ns; /* longest wait. default 1 s */
	uint32_t ip_pool_bytes;  /* for IP packets that are not RoCEv2, both directions; 0 only with BARRIER_OFF */
	uint16_t barrier_skip[BARRIER_SKIP_MAX]; /* TCP and UDP ports whose packets never wait */
	uint32_t nbarrier_skip;
	struct host_alias alias[HOST_ALIASES_MAX]; /* by address, ascending */
	uint32_t naliases;

	/* relay */
	uint16_t relay_channels; /* 0: no relay; at most RELAY_CHANNELS_MAX and max_flows */
	uint32_t relay_window;   /* chunks of a channel under way: a power of two, 64 .. 2^20. default 2^16 */
	uint8_t relay_percent;   /* of each pool that chunks may hold in any case: 1..75. default 25. Chunks may hold
	                            half of the bytes that nobody else holds, if that is more */
	uint8_t relay_weight;    /* a channel's part of a line that is full, in parts of a flow's: 1..255. default 16 is one
	                            flow's */

	/* WAN */
	struct wan_path_config path[PATHS_MAX];
	uint32_t npaths;        /* 1..PATHS_MAX, the same at both edges and in the same order */
	struct fec_config fec;  /* of datagrams sent here; off: repairs that arrive are not used, either */
	uint64_t rtt_hint_ns;   /* expected round trip: sizes the sent map; measured values rule afterwards */
	uint64_t rate_hint_bps; /* of all paths together: sizes the sent map with rtt_hint_ns: 4 round trips */
	const struct wan_seal_ops *seal; /* NULL: not sealed, a CRC-32 in place of the tag */
	void *seal_ctx;
	uint64_t dead_peer_ns;  /* silence after which the other edge counts as dead. default 2 s */
	uint64_t keepalive_ns;  /* default 250 ms */

	/* LAN */
	uint64_t reorder_ns;       /* patience with a gap before a NAK: overtaken packets come so late. default 30 us */
	uint32_t lan_window_bytes; /* far edge: most in flight to one QP. default 1 MiB */
	uint32_t lan_host_window_bytes; /* far edge: most in flight to one host. default 4 MiB */
	uint64_t
	    lan_timeout_ns;  /* far edge: first retry of an unanswered responder, doubling to 16 times. default 20 ms */
	uint64_t stall_ns;   /* no progress at a responder for so long: event, flow demoted to host. default 500 ms */
	uint64_t give_up_ns; /* no progress at a responder for so long: the flow fails, with an event. default 60 s */
	uint64_t quarantine_ns;  /* host pair after an unanswered probe. default 100 ms */
	bool rnr_retry_infinite; /* requesters without CM have rnr_retry 7. default true */

	uint64_t hash_seed; /* of all tables with keys that hosts choose: random, and no host may know it. A host that
	                       knows it can make keys that share one place, and each look at them walks past all */
};

/* Sensible values for everything but prefixes, pacer and sizes. */
void proxy_config_defaults(struct proxy_config *c);

struct proxy;

/* Zeroed heap bytes (64-byte aligned) that proxy_init() needs, without the arena's region. 0: bad config or
 * geometry. */
size_t proxy_heap_size(const struct proxy_config *c, const struct arena_geometry *g);

enum proxy_start {
	PROXY_START_FRESH,   /* format the arena */
	PROXY_START_REBUILD, /* rebuild the state from the arena */
};

/* region: the arena's memory (geometry g.len bytes, chunk-aligned). epoch: new arena's id (FRESH only).
 * Returns 0, -EINVAL, or what arena_attach() says. */
int proxy_init(struct proxy **p, void *heap, void *region, const struct proxy_config *c, const struct arena_geometry *g,
               enum proxy_start start, uint64_t epoch, uint64_t now_ns);

/* Changes values that may change while running: mode and pair_modes (open flows take the new mode: requests that were
 * ACKed stay ACKed, and the new ceiling holds from here on), pacer rate, lan_*, reorder_ns, *_ns; fec, but not off and
 * on. -EINVAL, with nothing changed, if any other value differs. */
int proxy_reconfigure(struct proxy *p, const struct proxy_config *c, uint64_t now_ns);

/* --- session with the other edge --- */

struct proxy_session {
	uint32_t epoch_tx; /* in datagrams that we send; the peer's epoch_rx. New for each session */
	uint32_t epoch_rx;
	uint64_t peer_arena_epoch; /* the life of the peer's arena; 0: not known. Flows of an earlier life are over */
	uint32_t peer_boot_id;     /* of the peer's start: another one numbers its raw packets from 0 again. 0: not known */
	bool peer_without_fec;     /* the peer would not use repairs */
	bool peer_kept_arena;      /* a new peer_arena_epoch means no loss: the arena before had drained */
	bool arena_lost;           /* the peer knew an arena of ours that is gone, and was not known to have drained */
	bool mismatch;             /* the two ends' configs disagree: carry, never ACK early */
	uint16_t peer_relay_channels; /* that the peer takes; 0: it has no relay */
};

/* Both edges have said hello: packet numbers start again, and everything that the peer may lack is sent again. */
void proxy_session_start(struct proxy *p, const struct proxy_session *s, uint64_t now_ns);

/* --- steering (any thread) --- */

/* Lane of a pair of machines: symmetric in the two. */
uint16_t proxy_lane(const struct ip_addr *a, const struct ip_addr *b, uint16_t nlanes);
/* The machine that has this address: c->alias. */
const struct ip_addr *proxy_machine(const struct proxy_config *c, const struct ip_addr *a);
/* Lane of packets between two addresses. */
uint16_t proxy_lane_between(const struct proxy_config *c, const struct ip_addr *a, const struct ip_addr *b);
/* Lane of a received datagram, -1 if it is none of ours (too short, unknown version). */
int proxy_wan_lane(const uint8_t *dgram, size_t len);

/* --- packets in --- */

/* One packet from a host, from its IP header on. vlan_tci 0: untagged. Takes RoCEv2 between the prefixes, and with
 * BARRIER_PAIR all other IP; everything else is dropped by name. The bytes are copied or not needed after return. */
enum proxy_drop proxy_lan_rx(struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len, uint16_t vlan_tci);

/* A port whose device writes packets straight into the arena is lent blanks for it:
 *
 *     slot = proxy_blank()              for each place of the receive ring
 *     (the device writes a frame to proxy_blank_data(): its headers, and behind them the packet)
 *     proxy_lan_rx_slot(&slot, ...)     slot is now a blank to be filled: the same one, or another if the core kept it
 *     proxy_blank_return(slot)          when the port closes, once the device writes no more
 *
 * The port never loses a blank: the core keeps a packet only if it has another slot to give for it. A device may write
 * into its blanks at any time. A device must not write into a slot that was kept or given back, nor into any slot once
 * another process rebuilds from the arena: the device has to be closed before. */

/* A blank of PROXY_BLANK_BYTES. SLOT_NONE: no room for more, or a quarter of the pool is lent already. Then the port copies:
 * proxy_lan_rx(). */
#define PROXY_BLANK_BYTES ARENA_BLANK_BYTES
uint32_t proxy_blank(struct proxy *p);
uint8_t *proxy_blank_data(struct proxy *p, uint32_t slot);
void proxy_blank_return(struct proxy *p, uint32_t slot);
/* As proxy_lan_rx(), of a packet that lies `off` bytes behind the beginning of that blank. Large ones are not copied. */
enum proxy_drop proxy_lan_rx_slot(struct proxy *p, uint64_t now_ns, uint32_t *slot, uint16_t off, size_t len,
                                  uint16_t vlan_tci);

/* One datagram (UDP payload) from the other edge, opened in place, and the ECN field that it came with. */
enum proxy_drop proxy_wan_rx(struct proxy *p, uint64_t now_ns, uint8_t *dgram, size_t len, uint8_t ecn);

/* Runs the timers that are due, and work that earlier calls have left. */
void proxy_tick(struct proxy *p, uint64_t now_ns);

/* --- packets out --- */

/* A packet for a host in three parts, to be sent as one: header (patched copy), body (in the arena, valid until the
 * next call into the shard that is not proxy_lan_tx), ICRC. */
struct lan_tx {
	uint8_t hdr[128];
	uint16_t hdr_len;
	uint16_t body_len; /* may be 0 */
	const uint8_t *body;
	uint32_t slot;        /* slot in which body lies, SLOT_NONE: none that could be pinned */
	uint8_t trailer[4];   /* ICRC */
	uint16_t trailer_len; /* 4, or 0 when hdr holds a whole packet or body ends with it */
	uint16_t vlan_tci;
	struct ip_addr dst; /* the host whose next hop the port uses */
	uint8_t dscp_ecn;
	bool probe; /* of a flow without a pair: sent now, or proxy_lan_unsent() is called. Never kept for later, as the
	               time of sending tells its answer from others */
	uint32_t flow; /* with `probe`: which far flow */
	bool answer;   /* acknowledges something: the port drops it if it is not sent within LAN_ANSWER_NS, as a queue
	                  pair that is used again might take it for its own */
	bool routed;   /* IP that is not RoCEv2: a router takes it to its host, with TTL and policy */
};

#define LAN_ANSWER_NS 1000000u /* no queue pair is reset, agreed upon and used again sooner */

/* Next packet for a host. Returns its L3 length, 0 if there is none now. */
size_t proxy_lan_tx(struct proxy *p, uint64_t now_ns, struct lan_tx *tx);

/* For a port whose device reads the body later. The body stays valid and unchanged until proxy_lan_unpin() was called
 * as often for its slot, whatever becomes of the packet. Call it right after proxy_lan_tx(), before any other call.
 * False: the body cannot be pinned, and has to be copied now. An edge's changes (AckReq, ICRC, AETH) are in hdr and
 * trailer, and are never written into the slot. */
bool proxy_lan_pin(struct proxy *p, const struct lan_tx *tx);
void proxy_lan_unpin(struct proxy *p, uint32_t slot);

/* The probe that proxy_lan_tx() gave last has no next hop now and was dropped: its flow is probed again later. Bodies
 * of packets given before stay valid. */
void proxy_lan_unsent(struct proxy *p, uint64_t now_ns, const struct lan_tx *tx);

struct wan_tx {
	uint8_t lane;
	uint8_t path;
	uint8_t moves; /* when this changes, use another source port: the lane's datagrams get lost */
	bool ect;      /* to be sent as ECT(0), else as not ECN-capable */
};

/* Builds the next datagram in buf (capacity at least the payload_max of every path). Returns its length, 0 if there is
 * nothing to send or the pacer says not yet. */
size_t proxy_wan_tx(struct proxy *p, uint64_t now_ns, uint8_t *buf, size_t cap, struct wan_tx *tx);

/* When to call again if nothing comes in: now or earlier means at once; UINT64_MAX never. */
uint64_t proxy_next_wake(const struct proxy *p, uint64_t now_ns);

/* --- relay: chunks between the daemons of the two edges ---
 *
 * A channel takes chunks from the daemon at one edge and hands them to the daemon at the other, in each direction.
 * A chunk is at most RELAY_CHUNK_MAX bytes, and its first byte holds enum relay_flags; the core reads nothing else.
 *
 *     proxy_relay_take()    a slot of the arena, and the chunk's position in its channel
 *     (fill it)             any thread: the slot is the caller's until the next call
 *     proxy_relay_commit()  the chunk survives kill -9 from here on, and crosses; or proxy_relay_void()
 *
 *     proxy_relay_next()    a chunk that has come, in any order but for fences
 *     (execute it)          any thread
 *     proxy_relay_done()    the chunk counts as executed, and its slot is free
 *
 * Promises. A committed chunk crosses unless the arena of either edge is lost; then the channel begins a new life
 * (relay_status.life), EV_RELAY_LOST tells how much was lost, and chunks of the life before are handed over no more.
 * A chunk without RELAY_FENCE may be handed over again after a kill of the receiver, but never after a later fence of
 * its channel was handed over. A fence is handed over when all chunks of its channel before it are done, and again only
 * if the receiver was killed before proxy_relay_done() of it.
 *
 * After a rebuild committed chunks go on. Positions that were taken and not committed cross as void chunks, which the
 * other core discards.
 *
 * The shard of a channel is (channel % nlanes) % nshards. */
#define RELAY_CHUNK_MAX    LAN_PKT_MAX
#define RELAY_CHANNELS_MAX 64

enum relay_flags {
	RELAY_FENCE = 1, /* handed over when all before it are done */
	RELAY_VOID = 2,  /* the core's own: nothing to hand over */
};

struct relay_chunk {
	uint32_t channel;
	uint32_t slot; /* names it until commit, void or done */
	uint64_t pos;
	uint8_t *data;
	uint16_t len;
};

/* A slot for a chunk of len bytes, 1..RELAY_CHUNK_MAX. answer: the chunk answers a request that is not done before, and
 * may take a slot where requests find the relay's part of the buffer full. Returns 0; -EAGAIN: the relay's part of the buffer or the
 * window is full, or the channel has not been opened yet: try again after proxy_relay_status() moves; -ENOTCONN: the
 * peer has no relay, or not that channel; -EINVAL: not a channel of this shard, or bad len. */
int proxy_relay_take(struct proxy *p, uint64_t now_ns, uint32_t channel, uint16_t len, bool answer,
                     struct relay_chunk *c);
void proxy_relay_commit(struct proxy *p, uint64_t now_ns, uint32_t slot);
/* The chunk is not sent: a void one takes its position. */
void proxy_relay_void(struct proxy *p, uint64_t now_ns, uint32_t slot);

/* The next chunk to execute; *c stays valid until proxy_relay_done(). Channels take turns. False: there is none. */
bool proxy_relay_next(struct proxy *p, uint64_t now_ns, struct relay_chunk *c);
void proxy_relay_done(struct proxy *p, uint64_t now_ns, uint32_t slot);

struct relay_status {
	uint32_t life;         /* of what is sent; 0: not open yet. Changes if chunks were lost */
	uint64_t out_next;     /* position of the next chunk taken */
	uint64_t out_received; /* the peer's arena has every chunk before */
	uint64_t out_done;     /* the peer's daemon has executed every chunk before */
	uint64_t in_done;      /* every chunk before is executed here */
	uint64_t out_held_bytes, in_held_bytes; /* slot bytes of the channel here */
};

/* False: not a channel of this shard. */
bool proxy_relay_status(const struct proxy *p, uint32_t channel, struct relay_status *s);

/* --- events and status --- */

enum flow_side { FLOW_NEAR, FLOW_FAR };

struct proxy_event {
	enum proxy_event_type type;
	uint64_t now_ns;
	struct ip_addr src, dst; /* of the flow: requester, responder */
	uint32_t dest_qpn, requester_qpn;
	uint32_t flow;
	uint64_t pos;   /* position in the flow; or a lane, path, pool or channel, as the type says */
	uint64_t value; /* bytes, nanoseconds, a count or a QPN, as the type says */
	/* of EV_FLOW_FAILED and EV_FLOW_IN_DOUBT: */
	enum flow_side side;
	enum proxy_failure failure;
	uint8_t syndrome; /* of the responder's NAK; 0: there was none */
};

/* The oldest event that was not fetched yet, failed flows before all others. False: none. There is room for a failure
 * of each flow that the tables hold; of other events EVENT_RING are kept, and later ones are lost. */
bool proxy_event_next(struct proxy *p, struct proxy_event *ev);
/* True if packets of hosts are held, in either role: while none are, nothing is owed to a host. O(1). */
bool proxy_holds(const struct proxy *p);
/* The number of events lost so far: of failed flows, and of all others. */
uint64_t proxy_failures_lost(const struct proxy *p);
uint64_t proxy_events_lost(const struct proxy *p);

/* The shard's counters, growing from its start on (counters.h says what each means). */
const struct proxy_counters *proxy_counters(const struct proxy *p);

/* FEC on a path, for what is sent. */
struct proxy_fec_status {
	struct fec_plan plan; /* in force; k 0: none */
	double measured;      /* datagrams over which `loss` and `burst` are measured; old ones fade */
	double loss;          /* share of datagrams lost before FEC, as the other edge reports */
	double burst; /* mean length of bursts of losses, in datagrams of a lane; at least 1; a guess while unknown */
	bool burst_known;
	double load;          /* share of the line's time that all but repairs took lately */
	bool full;            /* with repairs the line was full */
};

struct proxy_link_status {
	struct proxy_fec_status fec[PATHS_MAX];
	uint32_t npaths;
	bool wan_up; /* heard from the peer within dead_peer_ns in this session */
	bool mismatch;
	bool keys_used_up; /* a lane sends nothing more on some path before the next session (WAN_SEAL_USED_UP) */
	uint64_t rtt_min_ns, rtt_smoothed_ns; /* of the fastest usable path; 0: not measured */
	uint64_t wan_in_flight_bytes;
	uint64_t pool_used[POOL_COUNT], pool_capacity[POOL_COUNT];
	bool pool_stuck[POOL_COUNT]; /* full, and nothing of it has been freed for POOL_STUCK_NS */
	uint32_t near_flows, far_flows, max_flows;
	uint32_t pairs_end_to_end; /* pairs of hosts with queue pairs beyond max_flows, carried without early ACKs */
	uint32_t flows_learning; /* far flows whose requester QPN is not known yet */
	uint32_t flows_rnr_back_pressure; /* near flows whose next packet was refused, and of which none was taken since */
	uint32_t flows_stalled;  /* of either side: the responder makes no progress */
	uint32_t flows_rnr;      /* far flows whose responder is in RNR */
	enum barrier_mode barrier;
	uint32_t barrier_waiting; /* packets for hosts here that wait for RC bytes */
	uint64_t ip_used_bytes, ip_capacity_bytes; /* of the memory for IP packets */
};

/* The link as this shard sees it. Walks the flow tables as far as flows are in them: not for every packet. */
void proxy_link_status(const struct proxy *p, uint64_t now_ns, struct proxy_link_status *s);

/* Counters of a path since the shard began. */
struct wan_path_stats {
	uint64_t tx_dgrams, tx_bytes, rx_dgrams, rx_bytes;
	uint64_t tx_control, tx_control_bytes; /* part of tx_dgrams and tx_bytes: datagrams without packets */
	uint64_t acked_bytes;                  /* bytes that the peer has reported as received */
	uint64_t lost, spurious;               /* datagrams found lost; of these, those that had arrived */
	uint64_t moved;                        /* datagrams whose contents went by another path when this one died */
	uint64_t repairs;                      /* packets or pieces sent on it again */
	uint64_t spared; /* datagrams that the line lost and the peer rebuilt by FEC in time: not among `lost` */
	uint64_t probes;                       /* probe timeouts */
	uint64_t rebuilt;                      /* datagrams of the peer that FEC rebuilt */
	uint64_t reordered;                    /* datagrams of the peer that a later one had overtaken */
	uint64_t reorder_most;                 /* most numbers by which one was overtaken */
	uint64_t marked;                       /* datagrams that the peer reported with CE, and that were obeyed */
	uint64_t deaths;
};

struct proxy_path_status {
	enum path_state state;
	uint64_t since_ns; /* since when the path is in that state, with several paths */
	enum ecn_state ecn;
	bool usable;       /* packets may take it */
	uint32_t epoch_tx; /* of the session, 0: there is none */
	uint16_t payload_max; /* in force */
	bool searching;       /* for a larger one */
	uint64_t black_holes; /* times that it became smaller */
	uint64_t rtt_min_ns, rtt_smoothed_ns, rtt_p99_ns; /* 0: not measured */
	uint64_t rtt_age_ns;                 /* since the last measurement of a round trip; 0 if there was none */
	uint64_t loss_age_ns;                /* since the last report of what had arrived; 0: there was none */
	uint32_t loss_ppm;                   /* of late: of a million datagrams */
	uint64_t loss_runs;                  /* runs of losses ever: stats.lost in so many rows */
	uint32_t loss_run_longest;
	uint64_t reorder_window_ns;          /* widest of any lane */
	const char *control, *control_state; /* who sets the rate, and what it is doing */
	uint64_t pace_bps;                   /* what may be sent now, of all shards */
	uint64_t in_flight_max_bytes;        /* UINT64_MAX: any */
	uint64_t delivery_bps; /* UDP payload that the peer said to have, in the last round trip or 10 ms */
	uint64_t in_flight_bytes;
	struct wan_path_stats stats;
};

#define PATH_STALE_NS 3000000000ull /* older figures say nothing of the path now: keepalives measure once a second */

static inline bool path_rtt_stale(const struct proxy_path_status *s)
{
	return s->rtt_age_ns > PATH_STALE_NS;
}

/* Like path_rtt_stale(), for loss. */
static inline bool path_loss_stale(const struct proxy_path_status *s)
{
	return s->loss_age_ns > PATH_STALE_NS;
}

/* The counters of a path. The pointer is valid as long as the shard is. */
const struct wan_path_stats *proxy_path_stats(const struct proxy *p, uint32_t path);

/* False: there is no such path. */
bool proxy_path_status(const struct proxy *p, uint32_t path, uint64_t now_ns, struct proxy_path_status *s);

enum flow_pairing { PAIR_LEARNING, PAIR_PROVISIONAL, PAIR_CONFIRMED };

struct proxy_flow_status {
	enum flow_side side;
	uint32_t flow, inc;
	struct ip_addr src, dst; /* requester, responder */
	uint16_t vlan_tci;
	uint32_t dest_qpn, requester_qpn; /* requester_qpn valid unless PAIR_LEARNING */
	enum flow_pairing pairing;
	enum ack_mode mode;      /* in force now: demotion shown */
	uint16_t pmtu;           /* bytes, 0 unknown */
	uint64_t pos_base;       /* first position of the incarnation */
	uint64_t pos_next;       /* near: next expected from the host; far: next missing from the WAN */
	uint64_t pos_acked;      /* near: ACKed to the host up to here; far: sent to the host up to here */
	uint64_t pos_delivered;  /* ACKed by the responder up to here, as known here */
	uint64_t buffered_bytes; /* slot bytes held */
	uint64_t bytes;          /* L3 bytes taken in over the flow's life */
	uint64_t messages;
	bool rnr_back_pressure; /* its next packet was refused, and none was taken since */
	bool stalled;  /* responder makes no progress */
	bool rnr;      /* responder is in RNR */
};

/* Walks the flows; *cursor starts at 0. False at the end. */
bool proxy_flow_next(const struct proxy *p, uint32_t *cursor, struct proxy_flow_status *s);

/* A flow's status and its history. */
struct proxy_flow_view {
	struct proxy_flow_status status;
	struct flow_facts facts;
};

/* The facts of a flow that proxy_flow_next() has given, with no other call in between. */
void proxy_flow_facts(const struct proxy *p, const struct proxy_flow_status *s, struct flow_facts *facts);
/* Flows that have ended, as they were then; the last FLOWS_ENDED_MAX of either kind at most. *cursor starts at 0. NULL at
 * the end. */
const struct proxy_flow_view *proxy_flow_ended_next(const struct proxy *p, uint32_t *cursor);
/* The flow of either side that a packet belongs to: requester src, responder dst, and the responder's QPN. False: none. */
bool proxy_flow_find(struct proxy *p, enum flow_side side, const struct ip_addr *src, const struct ip_addr *dst,
                     uint32_t dest_qpn, uint16_t vlan_tci, struct proxy_flow_view *v);
/* The time at which a host here last sent a packet which shows that its route leads to this edge: the beginning or end
 * of a TCP connection (where Barrier= takes TCP at all), or CM. 0: not known. */
uint64_t proxy_host_heard(const struct proxy *p, const struct ip_addr *host);

/* --- for tests: the invariants --- */

/* Everything an outside observer needs to hold an ACK to its promise: the bound below which the near flow
 * (requester src, responder dst, DestQP) may be ACKed now. False if there is no such flow. */
bool proxy_ceiling(const struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst, uint32_t dest_qpn,
                   uint64_t *ceiling_pos, uint64_t *delivered_pos);

/* Whole audit of a shard (arena, indexes, lists, counts). 0, or a negative number naming the check. Slow. */
int proxy_audit(struct proxy *p);

#endif
