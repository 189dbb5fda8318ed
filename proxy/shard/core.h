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
 * A position is a packet's 64-bit place in its incarnation. The low 24 bits of a position are the PSN. The first packet
 * seen gets POS_ORIGIN + PSN, so that lower positions are left for packets that were overtaken. */
#ifndef PROXY_CORE_H
#define PROXY_CORE_H

#include <errno.h>

#include "proxy/arena/arena_slot.h"
#include "proxy/util/dlist.h"
#include "proxy/util/fault.h"
#include "proxy/util/idx_hash.h"
#include "ip_pool.h"
#include "proxy/proxy.h"
#include "proxy/util/timer.h"

/* The first position, and a bound that no position reaches within a hundred years of a thousand million packets per
 * second. */
#ifdef PROXY_FAULTS
extern uint64_t proxy_pos_origin; /* the simulator begins just below values that may be a limit */
#define POS_ORIGIN proxy_pos_origin
#else
#define POS_ORIGIN (1ull << 40)
#endif
#define POS_END (1ull << 62)
#define RESP_AHEAD 512 /* READ responses may overtake each other by so many */
#define NONE       UINT32_MAX
#define TURN_BINS  258        /* of the longest wait of an RNR NAK, and both ends */

/* An open or kept READ, ATOMIC or unknown request. The operation owns the positions [pos, pos + psns). Records come
 * from the shard's pool and are in order of positions in their flow's list. */
struct rd_op {
	struct dnode node; /* ops of its flow, or ops_free of the shard */
	uint64_t pos;
	uint32_t psns;     /* far: 0 while not known */
	uint32_t msn;      /* near: relative MSN with this operation counted. far: unused */
	uint32_t len;      /* READ: bytes asked for */
	uint64_t begun_ns; /* near: when the host asked first */
	uint64_t done_ns;  /* near: when the host was given the last response; 0: not yet */
	uint64_t again_ns; /* near: when the host last asked again. far: when it was last sent again */
	uint64_t next;     /* near: next response for the host, while `due` */
	uint64_t from;     /* near: where the host's latest request for it began: FIRST is there, LAST at the end. far:
	                      where a responder that is forward_only is asked from */
	uint64_t seen_upto; /* near, READ: responses before were here once; those not here any more are read again */
	uint64_t again_from, again_upto; /* near, READ: the range of the last READ_AGAIN */
	uint64_t again_heard_ns;         /* near: when that READ_AGAIN was due, or its last response came. far: last
	                                    progress */
	uint64_t again_got;              /* far, read again: responses that overtook `next`, a bit each from there on */
	uint32_t rkey;     /* near, READ: R_Key, and the end of the memory: the same in every repetition */
	uint64_t end_va;
	uint32_t fp;        /* near: fingerprint of the request */
	uint32_t room;      /* near: responses for which room is reserved, that have not come yet */
	uint16_t room_each; /* near: slot bytes of each of these responses */
	uint8_t opcode;
	bool due; /* near: the host is owed responses from `next` on; true while done_ns is 0. far: is to be sent */
	bool reread; /* near, READ: missing responses below `seen_upto` may be read again: the host has asked for them,
	                or they were given up here */
	bool again_due; /* near, READ: a READ_AGAIN frame for [again_from, again_upto) is to go */
	bool again_lost;     /* far, read again: a response came that found no room */
	uint8_t again_tries; /* far, read again: times it was sent again since it last progressed */
	bool resumed;   /* near: began before a restart of this edge, which does not know how much the host was given */
	bool windowed;  /* near, READ: needs more room than one READ may have, and is taken a window at a time */
};

/* Bytes and positions that a flow has drained lately, and the time since when it holds slots: share.c computes from
 * them how much the flow may hold. */
struct share {
	uint64_t since_ns;                   /* the flow holds slots since then */
	uint64_t span_ns;                    /* when the current span of counting began */
	uint64_t bytes, positions;           /* drained in the current span */
	uint64_t last_bytes, last_positions; /* drained in the span before */
};

/* How fast a flow may be sent to a host, after CNPs (cnp_rate.c). All zero: as fast as it can. */
struct cnp_rate {
	uint64_t rate_bps, target_bps;
	uint32_t alpha, steps;    /* estimate of congestion, in 1/65536; steps of recovery since the last CNP */
	uint64_t cnp_ns, step_ns; /* when the last CNP counted; up to when steps are made */
	uint64_t next_ns;         /* no packet before */
};

/* Tells whether the host must still be told that ACKed work has failed. near_error.c. */
enum near_error {
	TELL_NOTHING, /* the host knows, or there is nothing to tell */
	TELL_LATER,   /* the host is to be told if it stays idle */
	TELL_TRYING,  /* an invalid request was sent: the host's answer, or fail_timer, comes next */
	TELL_DUE      /* as TELL_TRYING, and the next invalid request is due */
};

/* Life of a near flow. near_state.c: which state may follow which. */
enum near_state {
	NEAR_FREE,    /* no flow. Slots of the last one may be left, which near_work() frees; then the place is free */
	NEAR_ENDED,   /* closed. The descriptor names `loss` until LOSS_FETCHED_NS after it, then NEAR_FREE follows. No
	                 packet and no frame finds the flow */
	NEAR_OPEN,    /* takes the host's packets, ACKs, crosses */
	NEAR_FAILING, /* the responder refused fail_pos, or is given up. Nothing at or beyond fail_pos is ACKed; READs and
	                 ATOMICs before it are answered first. At most ANSWERS_NS */
	NEAR_FAILED,  /* holds no request and sends none across. The host gets the responder's NAK at fail_pos whenever it
	                 comes, or silence (nak_syndrome 0) */
	NEAR_STATES
};

/* What is known of the responder's MSN, which the edge's ACKs carry. near_wan.c. */
enum near_msn {
	MSN_UNKNOWN, /* no ACK is sent, nothing is settled */
	MSN_LATE,    /* msn_offset may be too large, by the messages that the responder had executed behind a repeated
	                READ. Responses lower it. Nothing is ACKed until an ACK of the responder, or a response to the
	                last request taken, has told the exact value */
	MSN_EXACT
};

/* The FLOW_OPEN of a near flow in this session. near_source.c. */
enum near_announcement {
	ANNOUNCE_NOTHING, /* none is due and none was sent: no session has begun since the flow was rebuilt */
	ANNOUNCE_FIRST,   /* due, none was sent */
	ANNOUNCE_DONE,    /* sent, none is due */
	ANNOUNCE_AGAIN    /* sent, and due again: it was lost, or says something new */
};

/* near_demoted() at the last look, and whether an event said so. near_ceiling.c. */
enum near_demotion { DEMOTED_NOT, DEMOTED_UNSAID, DEMOTED_SAID };

enum near_due { DUE_NONE, DUE_ACK, DUE_NAK, DUE_RNR };

/* Rounds of a host that begin at one position with one packet. */
struct near_rounds {
	uint64_t pos;
	uint32_t fp;
	uint8_t n; /* in a row */
	uint64_t first_ns, last_ns;
};

/* Signs that the QP of a near flow was reset. near_reset.c. */
struct near_reset {
	bool suspected;     /* the QP was perhaps reset: all packets are dropped until that is known */
	uint8_t rounds;     /* rounds of the host since `suspected` was set */
	uint64_t pos;       /* position of the suspicious packet */
	uint32_t fp;        /* fingerprint of the suspicious packet */
	uint64_t pos_last;  /* of the packet before: a packet at or below it begins a round */
	uint64_t round_ns;  /* when the round began */
	struct near_rounds ahead; /* rounds that begin beyond pos_next */
	struct near_rounds wrong; /* rounds with an opcode at pos_next that cannot follow op_last */
	uint64_t lost_count_ns;   /* when a packet known one position lower came; 0: none since the last in order */
	bool counts;              /* since `suspected` was set, two packets came that were not known one position lower */
	uint64_t new_pos;         /* position of the first of them; 0: none came */
};

/* A failure that was raised for a near flow. */
struct near_loss {
	uint64_t ns; /* when the failure was raised; 0: none was */
	uint64_t pos, bytes;
	enum proxy_failure why;
};

/* One direction of an RC connection, seen beside its requester. Positions: base <= settled <= next <= max. */
struct near_flow {
	enum near_state state;
	uint32_t idx, inc; /* place in the table, and incarnation of that place */
	uint64_t born; /* counts up over all near flows of the arena: the lower one of two incarnations is older */
	uint16_t lane;
	uint16_t vlan_tci;                /* 0: untagged */
	struct ip_addr src, dst;          /* requester, responder */
	uint32_t dest_qpn, requester_qpn; /* the second is valid unless PAIR_LEARNING */
	enum flow_pairing pairing;
	enum ack_mode mode;      /* as configured; see near_mode() */
	uint16_t pmtu;           /* bytes of payload, 0: not known yet */
	bool base_fixed;         /* the responder expects pos_base first: no packet below it belongs here */
	uint32_t fp_count;       /* messages ever noted in the fingerprint ring */
	bool fp_before;          /* the ring has fingerprints of the incarnation before, below pos_base */
	struct timer fail_timer; /* limit of NEAR_FAILING; then steps of telling the host (tell) */
	uint64_t fail_pos;       /* NEAR_FAILING, NEAR_FAILED: the position of the NAK */
	uint32_t fail_msn;       /* NEAR_FAILED: the relative MSN of the NAK */
	enum near_msn msn;       /* what is known of msn_offset */
	bool early_stored;       /* the stored descriptor says that everything in the arena may have been ACKed. Else at
	                            most the descriptor's pos_acked, or what the responder has (mode far: pos_acked) */
	uint32_t msn_late_first; /* 1 + MSN of the first response that came while MSN_LATE; 0: none came */
	struct near_loss loss;   /* the last failure that was raised */
	bool requester_known;    /* it is in proxy.near_by_requester */
	bool superseded;         /* the requester's QPN is in a younger connection: no packet goes to the host */
	uint64_t stalled_ns;     /* since when the far edge reports no progress or failure, and mode host is in force;
	                            0: it does not. near_is_stalled() */
	bool rnr_back_pressure;  /* the host's next packet was refused, and none was taken since */
	uint64_t turn_ns;        /* when the host's turn is; 0: none is booked. near_turn.c */
	uint64_t back_ns;        /* when the host was told to come back, turn or not; 0: not away */
	uint64_t turn_bytes;     /* quantum booked for the turn */
	uint64_t turn_left, turn_taken_ns; /* allowance left when a packet was taken last; and when */
	uint8_t turn_cnps;       /* CNPs that the host is still to get before it comes back */
	struct timer turn;       /* for the next of turn_cnps, or the end of a turn that lapses */
	bool psns_unknown;       /* the last READ counts as one PSN in pos_next, as the PMTU is not known yet */
	uint8_t rnr_retry;       /* RNR Retry Count of the host, as CM told or as configured */

	uint64_t pos_base;     /* where it began */
	uint64_t pos_next;     /* next expected from the host: everything before is committed */
	uint64_t pos_max;      /* highest seen + 1 */
	uint64_t pos_held;     /* the flow has no slot at or beyond it */
	uint64_t pos_acked;    /* ACKed to the host */
	uint64_t pos_reported; /* delivered, as the far edge reported */
	uint64_t pos_far;      /* committed at the far edge, as it reported: reported <= far <= next */
	uint64_t pos_settled;  /* slots before are free, or about to be; never past an unanswered READ */
	uint64_t pos_freed, pos_free_to; /* slots between the two are to be freed */
	uint64_t back_at, back_to; /* slots between the two still have to be marked unsent, because the far edge has
	                              given them up; no request is sent before that */
	uint64_t pos_wan;      /* next to be sent to the far edge for the first time in this session */
	bool sent_before;      /* requests of the flow were sent in an earlier session */
	uint64_t pos_credit;   /* the far edge takes requests before it */
	uint16_t again_round;  /* of the last report: changes when the far edge has given up requests */
	bool credit_known;     /* a report has set pos_credit in this session */
	bool far_keeps;        /* the far edge has said that it gives up nothing before pos_far */
	uint32_t msn_next, msn_settled, msn_acked; /* relative MSNs: messages in [base, that position) */
	uint32_t msn_offset;                       /* the responder's MSN minus the relative one, 24 bits */

	bool op_known; /* op_last is the opcode of the packet before pos_next */
	uint8_t op_last;
	struct near_reset reset;
	uint64_t silent_ns; /* how long the host was silent before its last packet */
	bool reset_possible; /* without a pair: the host was once silent for so long that its QP may have been reset */
	uint64_t alive_ns;  /* when the last packet came that can only belong to this incarnation */
	uint64_t stored_ns;  /* when the descriptor was stored last */
	uint64_t rebuilt_ns; /* when the flow was rebuilt from the arena; 0: it began since this edge's start */
	uint64_t alive_pos; /* position of the packet of alive_ns: packets behind it continue the same round */
	bool doubted;       /* the first packet may be a repetition: the responder's answer decides */
	bool begins_inside; /* pos_base is within a READ, whose beginning the responder has counted */
	uint32_t inside_psn, inside_n; /* doubted: PSNs within a READ: n from inside_psn (24 bits) on */
	uint32_t psn_origin; /* 24 bits: where incarnations of the queue pair begin, as far as is known */
	uint64_t acked_ns;   /* when pos_acked moved last */
	bool replaces;       /* the far edge is to forget replaced_flow first: the incarnation before */
	uint32_t replaced_flow, replaced_inc;
	uint32_t cm_tag; /* cm_tag() of the connection that began the flow; 0: none */
	uint64_t msn_hint_pos; /* doubted: if it is the incarnation before, the MSN was msn_hint at this position */
	uint32_t msn_hint, msn_hint_span; /* msn_hint_span - 1 messages followed behind msn_hint_pos; 0: not known */
	bool pair_wanted;                 /* the far edge is to send FLOW_PAIR again when more of the flow is here */

	/* gaps */
	uint64_t pos_last_rx;  /* of the last packet: a lower one begins a new round of the host */
	uint64_t gap_naked;    /* pos_next for which a NAK went out, 0: none */
	uint64_t naks_at;      /* the ceiling of the last NAK, in front of pos_next */
	uint8_t naks_row;      /* NAKs at that ceiling */
	uint64_t naked_ns;     /* when */
	uint32_t ooo_pkts;     /* held beyond pos_next */
	uint64_t pos_lacking;  /* end of the last request beyond a gap that was not held; 0: none since a NAK */
	struct timer patience; /* with a gap, before it is NAKed */

	/* what ack_tx.c is to send */
	struct dnode ack_tx_node; /* in proxy.ack_tx */
	enum near_due due;
	bool cnp_due;                     /* a CNP is due, too */
	uint64_t cnp_sent_ns;             /* when the last CNP went out */
	enum near_error tell;             /* NEAR_FAILED: whether the idle host is to be told */
	uint8_t error_tries;              /* invalid requests that have been due */
	uint32_t error_psn;               /* PSN of the next invalid request, 24 bits */
	uint32_t error_hint;              /* the PSN that the host expects by its last ACK; NONE: not known yet */
	uint64_t error_ns;                /* since when `tell` is set, in this life of the edge */
	uint64_t failed_ns;               /* when the flow failed, in this life of the edge or an earlier one */
	uint64_t tell_since_ns;           /* TELL_TRYING, TELL_DUE: since when */
	uint64_t elsewhere_ns;            /* when the requester's QPN last answered another host than dst; 0: never */
	uint64_t slow_look_ns, slow_held; /* slow_down(): when to look next, and near_held() at the last look */
	uint8_t nak_syndrome;             /* NEAR_FAILING, NEAR_FAILED: the responder's syndrome; 0: it is silent */
	bool ack_owed;                    /* an ACK waits for repeated responses, or for the exact MSN */
	bool ack_asked;                   /* an AckReq beyond pos_acked */
	uint64_t pos_ack_asked;           /* behind the packet with that AckReq */
	uint64_t rnr_sent_ns;             /* when the last RNR NAK went out */
	uint64_t rnr_at; /* ceiling of the last RNR NAK, relative MSN there, and RNR NAKs in a row */
	uint32_t rnr_msn;
	uint8_t rnr_row;
	uint64_t repeated_ceiling; /* ceiling to which the host keeps coming back */
	uint8_t ceiling_repeats;   /* times that the host came back to repeated_ceiling */

	/* READ and ATOMIC */
	struct dnode ops;                     /* struct rd_op: answered ones that are kept, then open ones */
	struct dnode ops_dead;                /* forgotten operations whose slots are not freed yet */
	struct rd_op *op_open;                /* the first without an answer, NULL: all are answered */
	uint32_t nops, ops_done;              /* all, and those answered */
	uint32_t repeats;                     /* answered operations that are owed again */
	uint64_t asked_again, asked_again_ns; /* where the host last repeated an operation, and when; 0: never */
	bool migreq;                          /* BTH.MigReq of the host's packets: rxe leaves it clear, others set it */
	bool forward_only;                    /* the responder is rxe, by MigReq: rd_op_ask_from() */
	uint32_t agains_due;                  /* operations with again_due */
	uint64_t again_lost_ns;               /* when a READ_AGAIN was found lost last */
	struct dnode resps;                   /* slots of responses not given to the host yet, and results of ATOMICs */
	uint64_t resp_bytes;                  /* their slot bytes */
	uint64_t reserved_bytes;              /* of POOL_WAN, reserved for responses */
	uint64_t resp_credit_sent;            /* the credit of the last RESP_CREDIT of this session */
	uint64_t resp_credit_ns;              /* when that RESP_CREDIT went */
	uint32_t resp_credit_round;           /* number of that RESP_CREDIT; 0: none went */
	bool resp_credit_due;                 /* a RESP_CREDIT is to go */
	struct dnode reserve_node; /* in proxy.reserve_waiting: no room for the responses of its next request */
	struct dnode unheld_node;  /* in proxy.reserve_unheld as well: its host gives up soon */
	uint64_t reserve_wait_ns;  /* since when it is in reserve_waiting */
	uint64_t unheld_look_ns;   /* in reserve_unheld: when it is looked at */
	struct dnode resp_node;    /* has responses to deliver */
	struct cnp_rate resp_rate; /* of these responses */
	struct timer resp_pace;    /* end of a wait that the rate asks for */
	struct timer retire;       /* looks for answered operations, or a flow without answers, that may go */

	struct dnode lag_node; /* in barrier_pair.lagging: pos_acked > pos_reported */

	struct unpaired_source *unpaired_source; /* while PAIR_LEARNING */
	struct dnode unpaired_node; /* in its flows */
	bool src_unknown;           /* its source had no paired flow when it began */
	struct dnode between_node;  /* not given up: in the ring of unpaired flows between the same hosts, by age */
	bool between_first;         /* the first of that ring, which proxy.unpaired.by_hosts names */

	/* WAN */
	struct dnode wan_node; /* in lane.ready[SOURCE_NEAR] */
	bool goes_first;       /* in front of others in ready[]: no request of the flow was sent yet */
	enum near_announcement announce;
	uint64_t held_bytes;   /* slot bytes in use by requests */
	uint64_t kept_bytes;   /* part of held_bytes: of operations that were answered and are kept */
	uint64_t out_bytes;    /* of held_bytes, those sent and not settled */
	bool responder_behind; /* the far edge holds many requests that the responder has not taken */
	struct share share;    /* of POOL_LAN */

	struct dnode free_node;      /* in proxy.near_free: the place has neither flow nor slots */
	struct dnode work_node;      /* in proxy.near_work: the next tick goes on with the flow */
	bool absorbing;              /* packets held from pos_next on are in order and are left for the next tick */
	struct near_flow *older;     /* incarnation before, still draining: this one does not send until it is gone */
	struct near_flow *newer;     /* incarnation after: this one drains, and is not in the table of keys */
	struct timer drain;          /* checks of a flow that drains; NEAR_ENDED: for the end of its descriptor */
	bool drain_pinged;           /* a PING was sent since the line was last heard */
	uint64_t line_back_ns;       /* while the flow drained the line was silent until then */
	uint64_t last_rx_ns;         /* last packet from the host */
	uint64_t last_progress_ns;   /* last progress at the responder */
	uint64_t heard_ns;           /* last sign of life of the responder, or since when it owes an answer */
	struct timer liveness;       /* while the responder owes an answer: patience with heard_ns */
	enum near_demotion demotion;
	uint64_t bytes, messages;    /* taken in order since it began: L3 bytes, message ends */
	uint8_t template_len;
	uint8_t template[TEMPLATE_MAX]; /* an ACK of the responder (or made from its CM messages) */
	struct flow_notes notes; /* for status and history */
};

static inline bool near_in_use(const struct near_flow *f)
{
	return f->state >= NEAR_OPEN;
}

/* The responder has refused, or was given up: NEAR_FAILING or NEAR_FAILED. */
static inline bool near_is_refused(const struct near_flow *f)
{
	return f->state >= NEAR_FAILING;
}

/* The far edge reports no progress or failure: mode host is in force. */
static inline bool near_is_stalled(const struct near_flow *f)
{
	return f->stalled_ns != 0;
}

/* Near flows without a pair, by source. near_unpaired.c. */
#define UNPAIRED_KNOWN 16384
enum unpaired_kind { UNPAIRED_ALL, UNPAIRED_UNKNOWN, UNPAIRED_KINDS }; /* UNKNOWN: had no paired flow as they began */
struct near_unpaired {
	struct unpaired_source {
		struct dnode flows; /* the one heard longest ago first; of a free place: in sources_free */
		struct dnode rank_node[UNPAIRED_KINDS];
		uint32_t n[UNPAIRED_KINDS];
		struct ip_addr addr;
	} *source; /* max_flows */
	struct dnode sources_free;
	struct idx_hash by_source;
	struct unpaired_ranking {
		struct dnode *rank; /* sources with so many flows; the last: with so many or more */
		uint32_t len, top;  /* top: the highest rank with a source; 0: none */
	} ranking[UNPAIRED_KINDS];
	uint32_t paired[UNPAIRED_KNOWN]; /* paired flows, by a hash of their source */
	uint32_t n[UNPAIRED_KINDS];      /* of all sources */
	uint64_t bytes;                  /* slot bytes that they hold */
	struct idx_hash by_hosts;        /* one unpaired flow per pair of hosts: near_flow.between_first */
};

/* What waits at the barrier for a stale flow: nothing any more, as it has delivered all; every packet; DREQ and DREP
 * alone, as it is in RNR or its host has sent a DREQ; nothing, as it has failed or is stalled. */
enum stale_class { STALE_OVER, STALE_AWAITED, STALE_NOT_READY, STALE_STUCK, STALE_CLASSES };

/* Header fields of a requester's packets, for packets that the far edge makes in its name. */
struct requester_hdr {
	uint16_t sport, pkey;
	uint8_t tos;
	bool migreq, known;
};

/* Life of a far flow. far_state.c: which state may follow which. */
enum far_state {
	FAR_FREE,   /* no flow. Slots of the last one may be left; then the place is free */
	FAR_NAMED,  /* a frame or packet has named peer_flow and inc, and no more is known: packets are held */
	FAR_KEYED,  /* src, dst and dest_qpn are known, from FLOW_OPEN or from the first packet: packets are held */
	FAR_OPEN,   /* FLOW_OPEN arrived: base, VLAN and mode are known. Requests go to the host */
	FAR_FAILED, /* the responder refused, or was given up: no request is sent or taken any more */
	FAR_LOST,   /* FAR_FAILED, because lost_pos did not come */
	FAR_STATES
};

/* Whether a far flow is about to be forgotten. */
enum far_leaving {
	FAR_STAYS,
	FAR_EVICTED, /* closed for want of a place: the near edge may go on with it */
	FAR_GONE     /* closed */
};

/* How exact pair_msn is. The first answer may be a response, whose MSN may count later requests, too: FLOW_PAIR tells
 * the MSN of the last ACK instead, once there is one. */
enum pair_count { /* also far_desc.pair_count */
	COUNT_BY_ACK = 0, /* the first answer was an ACK */
	COUNT_LATE = 1,   /* the first answer was a response, and no ACK has come yet */
	COUNT_EXACT = 2   /* the first answer was a response, and an ACK has corrected the count */
};

/* One direction of an RC connection, seen beside its responder. base <= acked <= tx <= rx <= rx_max. */
struct far_flow {
	enum far_state state;
	uint32_t idx;            /* place in the table */
	uint32_t peer_flow, inc; /* the near edge's wire id (shard and place) and incarnation */
	uint64_t peer_epoch;     /* epoch of the peer's arena in which peer_flow and inc are counted */
	uint16_t lane;
	uint16_t vlan_tci;
	struct ip_addr src, dst;          /* requester, responder */
	uint32_t dest_qpn, requester_qpn; /* the second is valid unless PAIR_LEARNING */
	enum flow_pairing pairing;
	enum ack_mode mode;    /* at the near edge while the responder is heard: which reports its host waits for */
	bool was_near;         /* mode near was in force once: the host may have ACKs of what never came */
	bool keeps_all;        /* mode far was in force once: its packets may have been ACKed because they are here */
	bool base_fixed;       /* nothing below pos_base belongs to the flow */
	uint32_t cm_tag;       /* cm_tag() of its connection; 0: none, or not told */
	uint32_t replaced_by;  /* cm_tag() of a connection of dest_qpn that CM has opened since; 0: none */
	bool stale_epoch;      /* the near edge lost its arena: the flow delivers requests that came, and reports to no
	                          edge */
	uint32_t stale_since;  /* session since which stale_epoch is set, proxy.sessions */
	uint32_t successor_of; /* index of the stale flow of the same queue pair, which goes first; NONE */
	uint64_t lost_pos;     /* the responder waits for this lost position: far_lost.c. 0: it does not */
	uint64_t lost_to;      /* the first position that came in this incarnation */
	bool stalled;          /* no progress for stall_ns; an event told so */
	bool rnr;              /* the responder sent an RNR NAK: rto ends the wait */
	bool leaving;          /* the responder's host has sent a DREQ: the barrier does not wait for the flow */
	uint64_t leaving_pos;  /* leaving: pos_rx_max at that DREQ; an ACK beyond says that the responder lives on */
	uint8_t syndrome;      /* FAR_FAILED: of the responder's NAK, 0: silence */
	bool forward_only;     /* the responder is rxe, by MigReq: rd_op_ask_from() */
	uint16_t pmtu;         /* bytes of payload, 0: not known yet */
	uint64_t pos_base;     /* where it begins */
	uint64_t pos_acked;    /* the responder has everything before */
	uint64_t pos_freed;    /* slots from here to pos_acked are to be freed */
	uint64_t pos_tx;       /* next to be sent to the responder */
	uint64_t pos_tx_max;   /* highest ever sent + 1: below it the responder may ACK */
	bool resumed;          /* more may have been delivered before a restart: the responder may be ahead */
	bool doubted;          /* the incarnation before may have delivered more; the near edge knows how far */
	uint64_t pos_ahead;    /* position beyond pos_tx_max that the responder ACKed to a repetition; 0: none */
	uint64_t pos_rx;       /* everything before has come over the WAN */
	uint64_t pos_rx_max;   /* highest that has come + 1 */
	uint64_t pos_credit;   /* granted; lowered only by eviction of the packets beyond (far_evict.c) */
	uint16_t again_round;  /* changes with each eviction; not 0: packets are to come again */
	uint64_t again_from;   /* evicted packets are to come again from here on */
	uint64_t pos_ack_seen; /* end of an ACK that stopped in front of an operation, or is not settled yet */
	uint64_t pos_low;      /* lowest that ever arrived */
	uint64_t nak_pos;      /* FAR_FAILED: position of the refusal */
	uint32_t msgs_acked;   /* messages in [base, acked) */

	/* sending to the host */
	struct dnode lan_node;         /* in hostpair.ready: may send */
	uint32_t deficit;              /* bytes that it may send in its turn */
	uint32_t bytes_out;            /* bytes between acked and tx */
	uint32_t counted_out;          /* part of bytes_out that bytes_out of its host counts */
	struct dnode out_node;         /* in lan_host.out, while counted_out is not 0 */
	uint64_t out_ns;               /* when the host last ACKed some of counted_out */
	uint32_t window_bytes;         /* grows with ACKs, halves on loss */
	uint32_t rnr_bytes;            /* window after an RNR NAK; doubles with ACKs. 0: window_bytes alone */
	uint32_t pkts_since_ackreq;    /* packets sent since the last one with AckReq */
	uint64_t rtt_pos, rtt_sent_ns; /* an AckReq under way, not repeated, that measures the responder. 0: none */
	uint64_t lan_srtt_ns, lan_var_ns; /* of the responder, smoothed; RFC 6298. 0: not measured */
	uint8_t retries;                  /* timeouts in a row; of a flow that is learning, turns without an answer */
	struct cnp_rate rate;
	struct timer pace;         /* end of a wait that the rate asks for */
	struct timer rto;          /* retry, or end of an RNR wait */
	uint64_t last_progress_ns; /* last sign of life of the responder */
	uint64_t pos_recover;      /* one window cut per loss: until this is acked */

	/* pairing */
	uint32_t hostpair;      /* index of struct hostpair, NONE: not joined */
	struct dnode pair_node; /* in hostpair.waiting: waits for its turn to be probed */
	struct dnode doubted_node; /* in hostpair.doubted_owners */
	bool probing;           /* has its turn */
	uint8_t probe_repeats;  /* in this turn, since its last answer that could be another flow's */
	uint16_t probes;        /* packets sent in this turn */
	uint16_t probes_sent[2]; /* while it had no pair: since probes_sent_since_ns, and in the PAIR_LATE_NS before */
	uint64_t probes_sent_since_ns;
	bool probe_more;             /* the next packet may be sent beyond the window of a probe */
	uint64_t tx_max_before;      /* pos_tx_max before the packet that was sent last */
	uint64_t progress_before_ns; /* last_progress_ns when the turn began */
	bool probe_unsent;           /* its last turn was taken back, as there was no next hop to the host */
	bool was_paired;             /* has or had a pair: requester_qpn is the last one */
	uint16_t repeated;           /* packets sent again lately while paired: late answers to them may come */
	uint64_t retried_ns;    /* when a packet was last sent to the host again */
	bool pair_due;          /* FLOW_PAIR to be sent */
	uint64_t pair_at_pos;   /* position before which the responder counts pair_msn */
	uint32_t pair_msn;      /* the responder's MSN before pair_at_pos (24 bits) */
	enum pair_count pair_count; /* of pair_msn */

	/* end, and what waits at the barrier */
	enum far_leaving going;
	struct dnode start_node;  /* in barrier.starts: its next message waits for other flows */
	struct dnode start_pair_node; /* in barrier_pair->starts, at the same time */
	struct dnode stale_node;  /* in proxy.stale_flows */
	struct barrier_far_pair *barrier_pair; /* of its machines, while it is stale or its message waits; else NULL */
	enum stale_class stale_class;
	struct dnode stale_class_node; /* in barrier_pair->stale[stale_class] */
	uint64_t start_since_ns;  /* since when it is in barrier.starts */
	uint64_t start_passed;    /* behind the last message that was let go */
	uint64_t start_pos;       /* the message that waits, or was looked at last */
	uint16_t start_at;        /* its first entry that may not be delivered yet */
	bool start_waived;        /* an entry before start_at was not waited for */

	/* READ and ATOMIC */
	struct dnode ops;         /* struct rd_op, sent and not answered, oldest first */
	uint32_t nops;
	struct dnode agains; /* struct rd_op: parts of answered READs that the near edge reads again. far_again.c */
	uint32_t nagains;
	uint64_t part_end;  /* the first READ was sent again for its responses before this; 0: it was not */
	uint64_t resp_lost; /* responses before this were dropped: their READs are to be sent again */
	uint64_t resp_credit;       /* responses before it may be taken, by the last RESP_CREDIT */
	uint32_t resp_credit_round; /* round of that RESP_CREDIT; 0: none in this session */
	bool part_wanted;   /* responses of the first READ were lost: the timer or a credit sets part_due */
	bool part_due;      /* the first READ is to be sent again for its missing responses, nothing else with it */
	uint64_t resp_next;                 /* next response expected, within the first operation */
	uint64_t resp_got[RESP_AHEAD / 64]; /* responses that overtook it: bit pos % RESP_AHEAD */

	struct requester_hdr requester_hdr;
	struct dnode cnp_node; /* in proxy.far_cnps */
	uint64_t cnp_sent_ns;

	/* reports */
	struct dnode report_node; /* in far_lane.reports */
	uint64_t report_at_ns;    /* when it is due; 0: at once */
	struct timer ask_near;    /* asks the near edge whether it knows the flow */
	struct timer read_again;  /* asks the responder again for what is read again */

	struct dnode free_node; /* in proxy.far_free: the place has neither flow nor slots */
	struct dnode work_node; /* in proxy.far_work: the next tick goes on with the flow */
	bool settling;          /* positions up to pos_ack_seen are left to be settled */
	struct dnode slots;     /* of requests, by slot_meta.node */
	uint32_t nresps;        /* slots of responses that the near edge does not have yet */
	uint32_t resps_to_go;   /* part of nresps that is to be sent now, for the first time or again */
	uint64_t resp_una;      /* no response of nresps is before this position */
	uint64_t resp_retry;    /* the next refused response to go again is sought from here on */
	uint64_t resp_retry_ns; /* when that search last began at resp_una */

	uint64_t held_bytes;      /* slot bytes in use by requests */
	struct share share;       /* of POOL_WAN */
	uint64_t bytes, messages; /* came over the WAN: L3 bytes, message ends */
	uint8_t template_len;
	uint8_t template[TEMPLATE_MAX]; /* an ACK made from the responder's first answer */
	struct flow_notes notes; /* for status and history */
};

/* A host here that far flows send to. lan_host.c. */
struct lan_host {
	bool used;
	struct dnode free_node; /* in proxy.hosts_free */
	struct ip_addr addr;
	uint32_t pairs;           /* host pairs whose responder it is; freed with the last one */
	uint64_t bytes_out;       /* on their way to it */
	uint64_t window_bytes;    /* a packet may be sent while bytes_out is below */
	uint64_t threshold_bytes; /* up to here the window grows by the bytes that are ACKed */
	uint64_t grown_bytes;     /* ACKed since the window grew by a packet */
	uint64_t cut_ns;          /* when the window was cut last */
	struct dnode waiting;     /* host pairs that would send */
	struct dnode out;         /* far flows with something out, the one heard longest ago first */
	struct timer overdue;     /* while pairs wait: bytes that are out for too long are written off */
};

#define PAIR_OUTSTANDING_MAX 8
#define PAIR_HEARD_MAX 4

/* Packets of a flow that were sent and whose answers may still come. pair.c. */
struct pair_outstanding {
	uint64_t until_ns;  /* no answer comes from then on */
	uint32_t flow;      /* index; NONE: of flows that are gone, or of several */
	uint32_t qpn;       /* the QPN that answers go to; NONE: it is not known */
	uint32_t psn, span; /* answers are about PSNs psn .. psn + span, both 24 bits */
	uint32_t n;         /* packets that were sent, each of which may be answered */
	bool ahead;         /* the responder may answer beyond that: it had more before a restart of an edge */
};

/* RC traffic from src to dst: unpaired flows are probed one at a time, and those that may send take turns. */
struct hostpair {
	bool used;
	struct dnode place_node; /* without flows: in proxy.pairs_free, pairs_unasked or pairs_left */
	struct ip_addr src, dst;
	uint32_t flows;          /* far flows between them; freed with the last one, or when its quarantine ends */
	uint32_t last_prober;    /* the flow whose probe was not answered in time: a late answer is its; NONE */
	uint32_t prober;         /* far flow whose turn it is, NONE */
	uint64_t since_ns;       /* when it was first heard of */
	uint64_t refused_ns;     /* first refusal of the row that has put off turns */
	uint64_t refused_until_ns; /* turns are put off until then; 0: no refusal since the last turn */
	uint32_t interrupted;    /* flow whose turn was taken back, and which has the next one; NONE */
	struct dnode doubted_owners; /* silent flows whose answers could be another's: asked before the next turn */
	bool had_turn;           /* one of its flows has had a turn */
	bool doubted;            /* an answer in this turn may be the prober's, or an old one of another flow */
	struct dnode waiting;    /* far flows that wait for their turn to be probed */
	struct timer quarantine; /* until it ends no flow is probed: a late answer would be taken for its */
	uint8_t unsent_row;      /* probes in a row that could not be sent */
	uint32_t probes_in_doubt; /* packets of this turn sent after an answer that may be another flow's */
	uint32_t noutstanding, nheard;
	struct pair_outstanding outstanding[PAIR_OUTSTANDING_MAX];
	struct {
		uint32_t qpn;
		uint32_t n, lasts; /* answers to that QPN in this turn that could be the prober's, or another flow's:
		                    * all but READ_RESP_LAST, and READ_RESP_LAST */
	} heard[PAIR_HEARD_MAX];
	uint32_t lan_host;       /* index: dst */
	struct dnode turn_node;  /* in proxy.lan_ready or lan_host.waiting */
	struct dnode ready;      /* far flows that may send */
	uint32_t deficit;        /* bytes that they may send in the pair's turn */
};

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
static inline bool far_is_keyed(const struct far_flow *f)
{
	return f->state >= FAR_KEYED;
}

/* FLOW_OPEN has arrived, whatever became of the flow. */
static inline bool far_is_open(const struct far_flow *f)
{
	return f->state >= FAR_OPEN;
}

static inline bool far_has_failed(const struct far_flow *f)
{
	return f->state >= FAR_FAILED;
}

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
