/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - the inside of a shard: what its modules share. Not for other folders.
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
 * near/ is the responder's role beside a requester, far/ the requester's beside a responder, carry/ what is not RC;
 * wan/ packs, numbers, reports and repairs what these three give it (transport.h), in slots that slot.c takes and gives
 * back. proxy.c is the entrance and owns nothing but the order of calls, proxy_init.c the memory. Which folder may use
 * which: tests/rooms.txt. A role's inner header (near_priv.h, far_priv.h, wan_lane_priv.h) is for its own files only.
 *
 * Positions: a packet's 64-bit place in its incarnation. Their low 24 bits are the PSN, the first packet seen gets
 * POS_ORIGIN + PSN, so that there is room below for packets that were overtaken. */
#ifndef PROXY_CORE_H
#define PROXY_CORE_H

#include <errno.h>

#include "proxy/arena/arena.h"
#include "proxy/util/dlist.h"
#include "proxy/util/fault.h"
#include "proxy/util/idx_hash.h"
#include "ip_pool.h"
#include "proxy/proxy.h"
#include "proxy/util/timer.h"

/* Where positions begin, and what no position reaches: at a thousand million packets per second in a hundred years. */
#ifdef PROXY_FAULTS
extern uint64_t proxy_pos_origin; /* the simulator begins just below whatever may be a limit */
#define POS_ORIGIN proxy_pos_origin
#else
#define POS_ORIGIN (1ull << 40)
#endif
#define POS_END (1ull << 62)
#define RESP_AHEAD 512 /* READ responses may overtake each other by so many */
#define NONE       UINT32_MAX
#define TURN_BINS  258        /* of the longest wait of an RNR NAK, and both ends */

/* An open or kept READ, ATOMIC or unknown request: it owns the PSNs pos .. pos + psns. From a pool, in order per
 * flow. */
struct rd_op {
	struct dnode node; /* ops of its flow, or ops_free of the shard */
	uint64_t pos;
	uint32_t psns;     /* far: 0 while not known */
	uint32_t msn;      /* near: relative MSN with this operation counted. far: unused */
	uint32_t len;      /* READ: bytes asked for */
	uint64_t begun_ns; /* near: when the host asked first */
	uint64_t done_ns;  /* near: when the host was given the last response; 0: never yet */
	uint64_t again_ns; /* near: when the host last asked again. far: when it was last sent again */
	uint64_t next;     /* near: next response for the host, while `due` */
	uint64_t from;     /* near: where the host's latest request for it began: FIRST is there, LAST at the end */
	uint64_t given;    /* near, READ: what lies before was here once; what of it is not here is read again */
	uint64_t again_from, again_upto; /* near, READ: was asked of the far edge again, ... */
	uint64_t again_heard_ns;         /* ... and when, or when the last of it came. far: when it last progressed */
	uint64_t again_got;              /* far, read again: what has overtaken `next`, a bit each from there on */
	uint32_t rkey;     /* near, READ: of the memory, and its end: the same in every repetition */
	uint64_t end_va;
	uint32_t fp;        /* near: fingerprint of the request */
	uint32_t room;      /* near: responses for which room is reserved, that have not come yet ... */
	uint16_t room_each; /* ... with so many slot bytes each */
	uint8_t opcode;
	bool due; /* near: the host is owed its responses from `next` on; never false while done_ns is 0. far: is to be
	             sent */
	bool reread;    /* near, READ: what is missing below `given` may be read again: its host has asked, or it was
	                   given up here */
	bool again_due; /* near, READ: a READ_AGAIN frame for [again_from, again_upto) is to go */
	bool again_lost;     /* far, read again: something came that found no place */
	uint8_t again_tries; /* ... it was sent again so often since it last progressed */
	bool resumed;   /* near: from an earlier life of this edge: how much its host was given is not known */
	bool windowed;  /* near, READ: larger than all the room that one may have: that is kept for what comes next */
};

/* What a flow has drained lately, and since when it has held something: what it may hold follows from it (share.c). */
struct share {
	uint64_t since_ns;                   /* it was empty before */
	uint64_t span_ns;                    /* when the span began in which is counted ... */
	uint64_t bytes, positions;           /* ... what was drained, */
	uint64_t last_bytes, last_positions; /* and in the span before */
};

/* How fast a flow may be sent to a host, after CNPs (cnp_rate.c). All zero: as fast as it can. */
struct cnp_rate {
	uint64_t rate_bps, target_bps;
	uint32_t alpha, steps;    /* estimate of congestion, in 1/65536; steps of recovery since the last CNP */
	uint64_t cnp_ns, step_ns; /* when the last CNP counted; up to when steps are made */
	uint64_t next_ns;         /* no packet before */
};

/* Whether the host must still learn that ACKed work has failed. near_error.c. */
enum near_error { TELL_NOTHING, TELL_LATER, TELL_ASKED };

enum near_due { DUE_NONE, DUE_ACK, DUE_NAK, DUE_RNR };

/* Rounds of a host that begin at one place with one packet. */
struct near_rounds {
	uint64_t pos;
	uint32_t fp;
	uint8_t n; /* in a row */
	uint64_t first_ns, last_ns;
};

/* What a near flow has seen that speaks for a new life of its QP. near_reset.c. */
struct near_reset {
	bool waits;         /* the QP was perhaps reset: all is dropped until that is known */
	uint8_t rounds;     /* of the host since then */
	uint64_t pos;       /* its place */
	uint32_t fp;        /* and fingerprint */
	uint64_t pos_last;  /* of the packet before: one at or below it begins a round */
	uint64_t round_ns;  /* when the round began */
	struct near_rounds ahead; /* begin beyond what is expected */
	struct near_rounds wrong; /* have brought at pos_next an opcode that cannot follow the one before */
	uint64_t lost_count_ns;   /* when a packet came that was known one place lower; 0: none since the last in order */
};

/* One direction of an RC connection, seen beside its requester. Positions: base <= settled <= next <= max. */
struct near_flow {
	bool used;
	uint32_t idx, inc; /* place in the table, and which life of that place */
	uint64_t born; /* counts up over all near flows of the arena: which of two lives of a key is the older one */
	uint16_t lane;
	uint16_t vlan_tci;                /* 0: untagged */
	struct ip_addr src, dst;          /* requester, responder */
	uint32_t dest_qpn, requester_qpn; /* the second is valid unless PAIR_LEARNING */
	enum flow_pairing pairing;
	enum ack_mode mode;      /* as configured; see near_mode() */
	uint16_t pmtu;           /* bytes of payload, 0: not known yet */
	bool base_fixed;         /* the responder expects pos_base first: no packet below it belongs here */
	uint32_t fp_count;       /* messages ever noted in the fingerprint ring */
	bool fp_before;          /* it remembers some of the life before, below pos_base: perhaps it is the same */
	bool failing;            /* it refused, and what was executed before that is still to be answered */
	struct timer fail_timer; /* of that, and of telling the host (tell) */
	uint64_t fail_pos;       /* failed: where the NAK goes */
	uint32_t fail_msn;       /* and with which relative MSN */
	bool msn_known;          /* msn_offset is */
	bool early_stored;       /* its descriptor says that all that is here may have been ACKed; else pos_acked there, or what
	                            the responder has, is all that was (mode far: pos_acked always is) */
	bool msn_late;           /* ... or is too large, by what the responder had executed behind a repeated READ: it gets
	                            smaller with each response, and until an ACK, or responses to two operations, have
	                            told what it is nothing is ACKed */
	uint32_t msn_late_op;    /* 1 + relative MSN of the operation whose response told msn_offset; 0: none did */
	bool failed;             /* the responder refused: silent from here on */
	bool requester_known;    /* it is in proxy.near_by_requester */
	bool superseded;         /* its requester's QPN is in a younger connection: it has nobody to speak to */
	uint64_t stalled_ns;     /* since when the far edge says so */
	bool stalled;            /* far edge says so: in force like host mode */
	bool rnr_back_pressure;  /* its host was sent away for want of room, and has not been back */
	uint64_t turn_ns;        /* when it is its turn to come back; 0: nothing is booked. near_turn.c */
	uint64_t back_ns;        /* when its host will come, turn or not */
	uint64_t turn_bytes;     /* what it may bring then */
	uint64_t turn_left, turn_taken_ns; /* what was left of its allowance when it took something last */
	uint8_t turn_cnps;       /* CNPs that it is still to get before */
	struct timer turn;       /* for these, or to forget it */
	bool psns_unknown;       /* pos_next is right only if the last READ fitted one packet: PMTU not known yet */
	uint8_t rnr_retry;       /* as CM told */

	uint64_t pos_base;     /* where it began */
	uint64_t pos_next;     /* next expected from the host: all before is committed */
	uint64_t pos_max;      /* highest seen + 1 */
	uint64_t pos_held;     /* no slot at or beyond it */
	uint64_t pos_acked;    /* ACKed to the host */
	uint64_t pos_reported; /* delivered, as the far edge reported */
	uint64_t pos_far;      /* committed at the far edge, as it reported: reported <= far <= next */
	uint64_t pos_settled;  /* slots before are free, or about to be; never past an unanswered READ */
	uint64_t pos_freed, pos_free_to; /* slots between the two are to be freed */
	uint64_t back_at, back_to; /* the far edge has given up what it had from pos_wan on: between the two slots still
	                              have to be told, and nothing is sent before */
	uint64_t pos_wan;      /* next to be sent to the far edge for the first time in this session */
	bool sent_before;      /* some of it was sent in an earlier one */
	uint64_t pos_credit;   /* the far edge takes requests before it */
	uint16_t again_round;  /* changes when the far edge has given up what it had */
	bool credit_known;     /* a report has set pos_credit in this session */
	uint32_t msn_next, msn_settled, msn_acked; /* relative: messages in [base, that position) */
	uint32_t msn_offset;                       /* to what the responder counts */

	bool op_known; /* op_last is the opcode of the packet before pos_next */
	uint8_t op_last;
	struct near_reset reset;
	uint64_t silent_ns; /* how long its host said nothing before the last packet */
	uint64_t alive_ns;  /* when the last packet came that can only have been of this life, ... */
	uint64_t stored_ns;  /* when the arena was told of it last */
	uint64_t rebuilt_ns; /* when it was taken from the arena; 0: it began in this life of the edge */
	uint64_t alive_pos; /* ... and its place: what the host sends behind it goes on with the same round */
	bool doubted;       /* began with what may be a repetition: the life before stands until the responder answers */
	bool begins_inside; /* pos_base is within a READ, of which the responder counted the beginning */
	uint32_t inside_psn, inside_n; /* doubted: there are such places, n from that PSN (24 bits) on */
	uint32_t psn_origin; /* 24 bits: where the queue pair's lives begin, as far as is known */
	uint64_t acked_ns;   /* when pos_acked moved last */
	bool replaces;       /* the far edge is to forget this flow first: the life before */
	uint32_t replaced_flow, replaced_inc;
	uint32_t cm_tag; /* of the connection that began it, cm_tag(); 0: none, or forgotten by a restart */
	uint64_t msn_hint_pos; /* doubted: if it is the life before, the responder's MSN was msn_hint at this place, ... */
	uint32_t msn_hint, msn_hint_span; /* ... and so many messages minus 1 followed; span 0: not known */
	bool pair_wanted;                 /* the far edge is to tell the pair again when more of the flow is here */

	/* gaps */
	uint64_t pos_last_rx;  /* of the packet before: a lower one begins a new round of the host */
	uint64_t gap_naked;    /* pos_next for which a NAK went out, 0: none */
	uint64_t naked_ns;     /* when */
	uint32_t ooo_pkts;     /* held beyond pos_next */
	uint64_t pos_lacking;  /* behind the last request that came beyond a gap and was not held; 0: none since a NAK */
	struct timer patience; /* with a gap, before it is NAKed */

	/* what the ACK generator has to say */
	struct dnode ack_tx_node; /* in proxy.ack_tx */
	enum near_due due;
	bool cnp_due;                     /* and a CNP */
	uint64_t cnp_said_ns;             /* when the last one went out */
	enum near_error tell;             /* failed: the host is to be told without having asked ... */
	bool error_due;                   /* ... now, by a request that cannot be, ... */
	uint8_t error_tries;              /* ... after so many ... */
	uint32_t error_psn;               /* ... at this PSN, 24 bits */
	uint32_t error_hint;              /* what its last ACK said that it expects; NONE: nothing yet */
	uint64_t error_ns;                /* since when */
	uint64_t asked_ns;                /* TELL_ASKED: when the first such request went */
	uint64_t elsewhere_ns;            /* when the host last answered another one than dst on the requester's QPN; 0: never */
	uint64_t slow_look_ns, slow_held; /* when to look next whether the buffer fills, and what was held last time */
	uint8_t nak_syndrome;             /* failed: what the responder said, 0: nothing */
	bool ack_owed;                    /* something was kept back until repeated responses are out */
	bool ack_asked;                   /* an AckReq beyond pos_acked */
	uint64_t pos_ack_asked;           /* behind the packet with that AckReq */
	uint64_t rnr_said_ns;             /* when the last RNR NAK went out */
	uint64_t rnr_at; /* ceiling of the last RNR NAK, messages before it, and how many came in a row */
	uint32_t rnr_msn;
	uint8_t rnr_row;
	uint64_t waits_at; /* ceiling at which the host keeps coming back ... */
	uint8_t waits;     /* ... so many times */

	/* READ and ATOMIC */
	struct dnode ops;                     /* struct rd_op: answered ones that are kept, then open ones */
	struct dnode ops_dead;                /* forgotten, but not their slots yet */
	struct rd_op *op_open;                /* the first without an answer, NULL: all are answered */
	uint32_t nops, ops_done;              /* all, and those answered */
	uint32_t repeats;                     /* answered ones that are owed again */
	uint64_t asked_again, asked_again_ns; /* where the host last asked for one again, and when; 0: never */
	bool migreq;                          /* BTH.MigReq of the host's packets: rxe leaves it clear, others set it */
	uint32_t agains_due;                  /* operations with again_due */
	uint64_t again_lost_ns;               /* when a READ_AGAIN was found lost last */
	struct dnode resps;                   /* slots of responses that are here and were not given to the host yet; */
	uint64_t resp_bytes;                  /* their slot bytes; results of ATOMICs stay among them */
	uint64_t reserved_bytes;              /* reserved for responses */
	uint64_t resp_credit_said;            /* what the last RESP_CREDIT of this session says, ... */
	uint64_t resp_credit_ns;              /* ... when it went, ... */
	uint32_t resp_credit_round;           /* ... and how many there were; 0: none */
	bool resp_credit_due;                 /* one is to go */
	struct dnode reserve_node; /* in proxy.reserve_waiting: its next request finds no room for what it brings ... */
	uint64_t reserve_wait_ns;  /* ... since then */
	struct dnode resp_node;    /* has responses to deliver */
	struct cnp_rate resp_rate; /* of these */
	struct timer resp_pace;    /* end of a wait that the rate asks for */
	struct timer retire;       /* looks for answered operations, or a flow without answers, that may go */

	struct dnode lag_node; /* in barrier_pair.lagging: something was ACKed that is not reported yet */

	struct dnode unpaired_node; /* in proxy.unpaired, while PAIR_LEARNING */
	bool src_unknown;           /* its source had no paired flow when it began */
	struct dnode between_node;  /* those that were not given up: a ring of all between the same hosts, by age ... */
	bool between_first;         /* ... and proxy.unpaired.by_hosts leads to this one */

	/* WAN */
	struct dnode wan_node; /* in lane.ready[SOURCE_NEAR] */
	bool begins;           /* and in front of others there: nothing of it was sent yet */
	bool open_due;         /* the far edge lacks something that FLOW_OPEN says */
	bool open_sent;        /* one went out in this session */
	uint64_t held_bytes;   /* slot bytes in use by requests */
	uint64_t kept_bytes;   /* of these, by operations that were answered and are kept */
	uint64_t out_bytes;    /* of these sent and not settled */
	bool responder_behind; /* the far edge holds much that its responder has not taken */
	struct share share;    /* of POOL_LAN */

	struct dnode free_node;      /* in proxy.near_free: nothing is left of its last flow */
	struct dnode work_node;      /* in proxy.near_work: what a call has left for the next tick */
	bool absorbing;              /* of that: packets held from pos_next on are in order */
	struct near_flow *older;     /* incarnation before, still draining: this one does not send until it is gone */
	struct near_flow *newer;     /* incarnation after: this one drains, and is not in the table of keys */
	struct timer drain;          /* an older one must make progress by then */
	bool drain_pinged;           /* the far edge was asked for a sign of life since the line was last heard */
	uint64_t line_back_ns;       /* until then the line was silent while it drained */
	uint64_t last_rx_ns;         /* from the host */
	uint64_t last_progress_ns;   /* at the responder */
	uint64_t heard_ns;           /* last sign of life of the responder, or since when it has something to answer */
	struct timer liveness;       /* while it has: tells when that is too long ago */
	bool demoted, demotion_said; /* no early ACKs since then; and an event told so */
	uint64_t bytes, messages;    /* taken in order since it began: L3 bytes, message ends */
	uint8_t template_len;
	uint8_t template[TEMPLATE_MAX]; /* an ACK of the responder (or made from its CM messages) */
	struct flow_notes notes; /* for whoever asks what became of it */
};

/* Near flows without a pair, by a hash of their source, the one heard longest ago first. near_table.c. */
#define UNPAIRED_BUCKETS 256
#define UNPAIRED_KNOWN   16384
struct near_unpaired {
	struct unpaired_source {
		struct dnode flows;
		uint32_t n, n_unknown; /* all; those of sources that had no paired flow */
	} source[UNPAIRED_BUCKETS];
	uint32_t paired[UNPAIRED_KNOWN]; /* paired flows, by a hash of their source */
	uint32_t n;                      /* of all sources */
	uint32_t n_unknown;              /* of sources that had no paired flow */
	uint64_t bytes;                  /* slot bytes that they hold */
	struct idx_hash by_hosts;        /* of those between two hosts one: near_flow.between_first */
};

/* What a requester's packets look like, for those that an edge makes in its place. */
struct asks_like {
	uint16_t sport, pkey;
	uint8_t tos;
	bool migreq, known;
};

/* The same direction, seen beside its responder. base <= acked <= tx <= rx <= rx_max. */
struct far_flow {
	bool used;
	bool named;              /* src, dst and dest_qpn are known: from FLOW_OPEN or from the first packet */
	bool open;               /* FLOW_OPEN arrived: base and addresses are known */
	uint32_t idx;            /* place in the table */
	uint32_t peer_flow, inc; /* as the near edge names it: shard and place, and which life of that place */
	uint64_t peer_epoch;     /* the life of the peer's arena that flow and incarnation are counted in */
	uint16_t lane;
	uint16_t vlan_tci;
	struct ip_addr src, dst;          /* requester, responder */
	uint32_t dest_qpn, requester_qpn; /* the second is valid unless PAIR_LEARNING */
	enum flow_pairing pairing;
	enum ack_mode mode;    /* in force at the near edge: what of the reports a host waits for */
	bool base_fixed;       /* nothing below pos_base belongs to the flow */
	bool failed;           /* refused or given up: nothing is sent or taken any more */
	uint32_t cm_tag;       /* of the connection that it is, cm_tag(); 0: none, or not told */
	uint32_t replaced_by;  /* tag of the connection of dest_qpn that CM has opened since; 0: of none */
	bool stale_epoch;      /* the near edge lost its arena: what came is delivered, and nobody is told ... */
	uint32_t stale_since;  /* ... from that session on, proxy.sessions */
	uint32_t successor_of; /* index of the stale flow of the same queue pair, which goes first; NONE */
	uint64_t lost_pos;     /* the responder waits for this, which a life that is lost had: far_lost.c. 0: it does not */
	uint64_t lost_to;      /* the first position that came in this life */
	bool lost;             /* failed for that */
	bool stalled;          /* no progress for stall_ns, and said so */
	bool rnr;              /* the responder said not ready: rto ends the wait */
	bool leaving;          /* its host has sent a DREQ: nothing waits for it any more */
	uint8_t syndrome;      /* failed: of the responder's NAK, 0: it never answered */
	uint16_t pmtu;         /* bytes of payload, 0: not known yet */
	uint64_t pos_base;     /* where it begins */
	uint64_t pos_acked;    /* the responder has all before */
	uint64_t pos_freed;    /* slots from here to pos_acked are to be freed */
	uint64_t pos_tx;       /* next to be sent to it */
	uint64_t pos_tx_max;   /* highest ever sent + 1: what may be ACKed */
	bool resumed;          /* an earlier life of this edge may have delivered more: the responder may be ahead */
	bool doubted;          /* so may the life before of the queue pair, and the near edge knows how far */
	uint64_t pos_ahead;    /* it names this place, though not that far was sent, when asked again and again; 0: none */
	uint64_t pos_rx;       /* all before has come over the WAN */
	uint64_t pos_rx_max;   /* highest that has come + 1 */
	uint64_t pos_credit;   /* granted; taken back only with what is here beyond it (far_evict.c) ... */
	uint16_t again_round;  /* ... and then this changes: not 0, something is to come again ... */
	uint64_t again_from;   /* ... from here on */
	uint64_t pos_ack_seen; /* an ACK that overtook a READ response covers so much */
	uint64_t pos_low;      /* lowest that ever arrived */
	uint64_t nak_pos;      /* failed: where */
	uint32_t msgs_acked;   /* messages in [base, acked) */

	/* sending to the host */
	struct dnode lan_node;         /* in hostpair.ready: may send */
	uint32_t deficit;              /* bytes that it may send in its turn */
	uint32_t bytes_out;            /* between acked and tx ... */
	uint32_t counted_out;          /* ... of these, in bytes_out of its host */
	struct dnode out_node;         /* in lan_host.out, while counted_out is not 0 */
	uint64_t out_ns;               /* when the host was heard last about these */
	uint32_t window_bytes;         /* grows with ACKs, halves on loss */
	uint32_t rnr_bytes;            /* what may be out since the responder was in RNR; doubles with ACKs. 0: all */
	uint32_t pkts_since_ackreq;    /* packets sent without asking for an ACK */
	uint64_t rtt_pos, rtt_sent_ns; /* an AckReq under way that was not repeated: measures the responder. 0: none */
	uint64_t lan_srtt_ns, lan_var_ns; /* of the responder, smoothed; RFC 6298. 0: not measured */
	uint8_t retries;                  /* timeouts in a row; of a flow that is learning, turns without an answer */
	struct cnp_rate rate;
	struct timer pace;         /* end of a wait that the rate asks for */
	struct timer rto;          /* retry, or end of an RNR wait */
	uint64_t last_progress_ns; /* last sign of life of the responder */
	uint64_t pos_recover;      /* one window cut per loss: until this is acked */

	/* pairing */
	uint32_t hostpair;      /* index of struct hostpair, NONE: not joined */
	struct dnode pair_node; /* waiting for its turn to be probed */
	bool probing;           /* has its turn */
	uint8_t probe_repeats;  /* in this turn, since its last answer that could be another flow's */
	uint16_t probes;        /* packets sent in this turn */
	uint16_t asked[2];      /* sent while it had no pair: since asked_since_ns, and in the PAIR_LATE_NS before */
	uint64_t asked_since_ns;
	bool probe_more;             /* the next packet may be sent on top of what is unanswered */
	uint64_t tx_max_before;      /* pos_tx_max before the packet that was sent last */
	uint64_t progress_before_ns; /* last_progress_ns when the turn began */
	bool unsent;                 /* its last turn was taken back, as there was no way to the host */
	bool bound;                  /* it has or had a pair: requester_qpn is the last one */
	uint16_t repeated;           /* packets sent again lately, while it had a pair: late answers may come to them */
	uint64_t retried_ns;    /* last time something was sent to the host again */
	bool pair_due;          /* FLOW_PAIR to be sent */
	uint64_t pair_at_pos;   /* the first answer said: before this position ... */
	uint32_t pair_msn;      /* ... the responder counts so many messages (24 bits) */
	bool pair_by_response;  /* that answer was a response, perhaps to a repetition, and may count what was executed behind
	                           its request, too. So the last ACK is told instead, as soon as there is one */
	bool pair_msn_late;     /* there is none yet */

	/* READ and ATOMIC */
	bool gone;                /* about to be forgotten */
	struct dnode start_node;  /* in barrier.starts: its next message waits for other flows */
	struct dnode stale_node;  /* in proxy.stale_flows */
	uint64_t start_since_ns;  /* since when */
	uint64_t start_passed;    /* position of the last message that was let go */
	struct dnode ops;         /* struct rd_op, sent and not answered, oldest first */
	uint32_t nops;
	struct dnode agains; /* struct rd_op: parts of answered READs that the near edge asks for again. far_again.c */
	uint32_t nagains;
	uint64_t part_end;  /* the first operation, a READ, was sent again for what lies before this; 0: it was not */
	uint64_t resp_lost; /* responses before this were dropped: their READs are to be sent again */
	uint64_t resp_credit;       /* responses before it may be taken: RESP_CREDIT ... */
	uint32_t resp_credit_round; /* ... of this round; 0: none in this session */
	bool part_wanted;   /* something of the first operation was lost: the timer sends it again for the rest of it */
	bool part_due;      /* the first operation is to be sent again for the rest of it, nothing else with it */
	uint64_t resp_next;                 /* next response expected, within the first operation */
	uint64_t resp_got[RESP_AHEAD / 64]; /* those that overtook it: bit pos % RESP_AHEAD */

	struct asks_like asks;
	struct dnode cnp_node; /* in proxy.far_cnps */
	uint64_t cnp_said_ns;

	/* reports */
	struct dnode report_node; /* in far_lane.reports */
	uint64_t report_at_ns;    /* when it is due; 0: at once */
	struct timer ask;         /* asks the near edge whether it knows the flow */
	struct timer again;       /* asks the responder again for what is read again */

	struct dnode free_node; /* in proxy.far_free: nothing is left of its last flow */
	struct dnode work_node; /* in proxy.far_work: what a call has left for the next tick */
	bool settling;          /* of that: up to pos_ack_seen the responder has it */
	struct dnode slots;     /* of requests, by slot_meta.node */
	uint32_t nresps;        /* slots of responses that the near edge does not have yet, ... */
	uint32_t resps_to_go;   /* ... of these to be sent now, for the first time or again, ... */
	uint64_t resp_una;      /* ... none of them before this position */
	uint64_t resp_retry;    /* of those refused the next one to go again is sought from here on, ... */
	uint64_t resp_retry_ns; /* ... and that began then at resp_una */

	uint64_t held_bytes;      /* slot bytes in use by requests */
	struct share share;       /* of POOL_WAN */
	uint64_t bytes, messages; /* that came over the WAN: L3 bytes, message ends */
	uint8_t template_len;
	uint8_t template[TEMPLATE_MAX]; /* an ACK made from the responder's first answer */
	struct flow_notes notes; /* for whoever asks what became of it */
};

/* A host here that far flows send to. lan_host.c. */
struct lan_host {
	bool used;
	struct dnode free_node; /* in proxy.hosts_free */
	struct ip_addr addr;
	uint32_t pairs;           /* host pairs whose responder it is; with the last one it goes */
	uint64_t bytes_out;       /* on their way to it */
	uint64_t window_bytes;    /* as much may be: all but the packet that exceeds it */
	uint64_t threshold_bytes; /* up to here the window grows by what is acknowledged */
	uint64_t grown_bytes;     /* acknowledged since it grew by a packet */
	uint64_t cut_ns;          /* when it was cut */
	struct dnode waiting;     /* host pairs that would send */
	struct dnode out;         /* far flows with something out, the one heard longest ago first */
	struct timer overdue;     /* while pairs wait: what is out for too long does not count */
};

#define PAIR_ASKED_MAX 8
#define PAIR_HEARD_MAX 4

/* What a flow has asked without being paired by an answer: one may come at any time. pair.c. */
struct pair_asked {
	uint64_t until_ns;  /* no answer comes from then on */
	uint32_t flow;      /* index; NONE: of flows that are gone, or of several */
	uint32_t qpn;       /* answers go to this one; NONE: it is not known */
	uint32_t psn, span; /* about PSNs psn .. psn + span, both 24 bits */
	uint32_t n;         /* packets that were sent, each of which may be answered */
	bool ahead;         /* its responder may answer beyond that: it had more from an earlier life of an edge */
};

/* RC traffic from src to dst: unpaired flows are probed one at a time, and those that may send take turns. */
struct hostpair {
	bool used;
	struct dnode place_node; /* without flows: in proxy.pairs_free, pairs_unasked or pairs_left */
	struct ip_addr src, dst;
	uint32_t flows;          /* far flows between them; with the last one it goes, or when its quarantine ends */
	uint32_t last_prober;    /* whose probe was not answered in time: a late answer is its; NONE */
	uint32_t prober;         /* far flow whose turn it is, NONE */
	uint64_t since_ns;       /* when it was first heard of */
	uint64_t refused_ns;     /* the first refusal of those that have put off turns, ... */
	uint64_t refused_until_ns; /* ... which begin no sooner than that; 0: no refusal since the last turn */
	uint32_t interrupted;    /* whose turn was taken back, and is the next; NONE */
	uint32_t doubted_owner;  /* a silent flow whose answers could be another's: it is asked before the next turn; NONE */
	bool asked;              /* one of its flows has had a turn */
	bool doubted;            /* an answer in this turn may have been the prober's, or an old one of another flow */
	struct dnode waiting;    /* far flows */
	struct timer quarantine; /* nobody is probed before: a late answer would be taken for the next one's */
	uint8_t unsent_row;      /* probes that could not be sent, in a row */
	uint32_t asked_in_doubt; /* packets of this turn, each after an answer that may be another's */
	uint32_t nasked, nheard;
	struct pair_asked asked_of[PAIR_ASKED_MAX];
	struct {
		uint32_t qpn, n; /* n answers to it in this turn that could be the prober's, or another flow's */
	} heard[PAIR_HEARD_MAX];
	uint32_t lan_host;       /* index: dst */
	struct dnode turn_node;  /* in proxy.lan_ready or lan_host.waiting */
	struct dnode ready;      /* far flows that may send */
	uint32_t deficit;        /* bytes that they may send in the pair's turn */
};

/* Sources of the transport, by id (transport.h). */
enum source_id { SOURCE_NEAR, SOURCE_FAR, SOURCE_RAW, SOURCE_IP, SOURCE_RELAY };

/* What the sources hold of each lane. */
struct near_lane {
	struct dnode closes; /* struct rd_op: FLOW_CLOSE frames to send */
};

struct far_lane {
	struct dnode reports; /* far flows with something to report, by report_at_ns */
};

struct raw_lane {
	struct dnode partial; /* RAW_WAN slots that lack pieces, oldest first */
	uint32_t npartial;
	uint64_t seq_tx;   /* next number of an expendable packet */
	uint64_t seq_rx;   /* highest + 1 */
	uint64_t seen[16]; /* bitmap of the 1024 before it */
	uint32_t peer_boot_id; /* of the start of the other edge that numbers them; 0: not known */
	uint64_t next;     /* everything before has come, or is not waited for any more */
	struct dnode held; /* RAW_WAN slots of RC packets that overtook others, in their order */
	uint32_t nheld;
};

struct ip_lane {
	struct dnode partial; /* struct ip_buf: that lack pieces, oldest first */
	uint32_t npartial;
	uint64_t seq_tx; /* number of the last IP packet that was given one */
};

/* A packet that is not RC at the edge beside its receiver: behind a barrier, or on its way to the host. */
struct held_packet {
	struct dnode node;   /* in barrier_queue.waiting, proxy.held_packets or barrier.held_packets_free */
	uint64_t until_ns;   /* longest wait */
	uint64_t peer_epoch; /* its snapshot names flows as in that life of the near edge's arena */
	uint32_t id;         /* a RAW_WAN slot; or the place of a struct ip_buf */
	uint16_t n, at;      /* entries of its snapshot, and the first that may not be there yet */
	uint32_t session;    /* proxy.sessions when it came: what was a stale flow by then is older */
	bool ip;             /* which of the two */
	bool held;           /* waits for stale flows between its machines: no exemption */
	bool patient;        /* DREQ, DREP: waits for its own responder in RNR or leaving, too: ... */
	uint32_t ends_qpn;   /* ... this one; NONE: there is no telling, it may be any */
	bool waived;         /* an entry was not waited for */
	bool in_order;       /* stays behind whatever waits between its machines, though it has no snapshot itself */
};

/* Near: requests from one host to another, as far as something of them was ACKed and is not reported yet. */
struct barrier_pair {
	bool used;
	struct ip_addr src, dst; /* of the machines: barrier_host() */
	struct dnode lagging;    /* near flows */
	uint32_t nlagging;
};

/* Far: what waits on the way from one host to another, in order of arrival. */
struct barrier_queue {
	bool used;
	struct ip_addr src, dst;
	struct dnode waiting; /* struct held packet */
	struct timer limit;   /* the first one has waited for long enough */
};

struct barrier {
	struct barrier_pair *pairs;   /* max_flows: each has a lagging flow */
	struct barrier_queue *queues; /* BARRIER_QUEUES */
	uint32_t pair_hint, queue_hint, queues_used;
	struct idx_hash pair_by_hosts, queue_by_hosts;
	struct dnode held_packets_free;
	uint32_t waiting; /* held packets in queues */
	struct {
		uint64_t peer_epoch; /* names are those of one life of the near edge's arena */
		uint32_t peer_flow, inc;
	} gone[BARRIER_GONE];      /* far flows that were forgotten last: nothing is waited for */
	uint32_t ngone;            /* ever */
	struct dnode starts;       /* far flows whose next message waits for other flows, longest first */
	struct timer starts_limit; /* the first one has waited for long enough */
	uint64_t expired_said_ns;  /* when an event last told that a wait was too long */
	struct ip_pool ip_near, ip_far;
};

/* Queue pairs that have no flow; by a hash of requester and responder. end_to_end.c. */
struct end_to_end {
	uint64_t begun_ns[END_TO_END_PLACES]; /* when a request of a local requester was carried last; 0: never */
	uint64_t since_ns[END_TO_END_PLACES]; /* and the first one since they were quiet */
	uint64_t asked_ns[END_TO_END_PLACES]; /* when one was delivered to a local responder last; 0: never */
	struct timer hold;                    /* RC packets that overtook others look again whether to wait */
	uint64_t held_bytes;                  /* slot bytes of such packets on their way to the other edge */
};

/* What a timer is for; its owner is the index of a near flow (first seven), far flow (four), host pair, host, lane,
 * barrier queue or path. */
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
	TK_ASK,
	TK_AGAIN,
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

/* Where a flow has ended whose near edge lost its arena. */
struct lost_life {
	struct ip_addr src, dst;
	uint32_t dest_qpn;
	uint32_t session;  /* proxy.sessions; 0: a free place */
	uint64_t from, to; /* the responder's last word lies there */
	uint32_t asked_psn; /* what is missing: the responder waits for it */
	uint64_t asked_ns, looked_ns; /* what is missing has been asked for, and last found missing; 0: not yet */
};

/* A host here that opened or ended a TCP connection with the other site, or spoke CM with it: its packets come this way.
 * flow_history.c. */
struct host_heard {
	struct ip_addr addr;
	uint64_t at_ns; /* the last time; 0: a free place */
};

/* The last flows that have ended, in two rings, each overwriting its oldest: those that something had happened to are not
 * pushed out by those that ended well, nor by such as a host that sprays QPNs opens. flow_history.c. */
struct flow_history {
	struct proxy_flow_view *ring[2]; /* n each */
	uint32_t n;
	uint64_t count[2]; /* ever */
};

/* What CM says of one direction of a connection: requester src (local) sends from start_psn to dest_qpn at dst. */
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

/* What carry/, which is below near/ and far/, has these do. */
struct role_calls {
	void (*cm_open)(struct proxy *p, const struct near_cm_info *ci);
	void (*cm_over)(struct proxy *p, const struct near_cm_info *ci);
	void (*far_cm_open)(struct proxy *p, const struct near_cm_info *ci);
	void (*far_schedule)(struct proxy *p, struct far_flow *f); /* it waits for other flows no more */
};

/* A shard. */
struct proxy {
	struct proxy_config cfg;
	struct arena *arena;
	struct proxy_counters counters;
	struct proxy_session session;
	uint32_t sessions;               /* begun since the start */
	bool session_on;                 /* there was a hello: datagrams may be sent and taken */
	bool unanswered;                 /* the other edge is heard and answers nothing */
	uint64_t keepalive_due_ns;
	bool wan_up;                     /* and the peer was heard within dead_peer_ns */
	uint64_t wan_heard_since_ns;     /* without a pause of two keepalives */
	bool mismatch;                   /* the ends disagree: nothing is ACKed early */
	uint64_t now_ns;                 /* of the call that is going on */
	uint64_t last_rx_ns, last_tx_ns; /* of the WAN */
	uint64_t silence_said_ns;        /* last_rx_ns of the silence of which an event told */

	struct near_flow *near; /* max_flows of each of the three */
	struct far_flow *far;
	struct hostpair *pairs;
	struct lan_host *lan_hosts;
	struct near_lane *near_lanes; /* nlanes of each of the four; only those of the shard are used */
	struct far_lane *far_lanes;
	struct raw_lane *raw_lanes;
	struct ip_lane *ip_lanes;
	struct dnode ops_free; /* struct rd_op that nobody uses */
	uint32_t nops_free, nops;
	uint64_t reserved_bytes;            /* of POOL_WAN, for responses of READs and ATOMICs that are under way */
	struct dnode reserve_waiting;       /* near flows */
	struct {
		const uint8_t *l3; /* the packet of the call that is going on, if it lies in a blank */
		uint32_t slot;     /* that blank; once the core has kept it, the one that the port gets for it */
		uint16_t off;      /* of l3 in it */
	} landed;                           /* slot_port.c */
	uint64_t released[POOL_COUNT];      /* slots ever freed; and how many that were when it was looked last */
	uint64_t released_then[POOL_COUNT];
	uint64_t full_ns[POOL_COUNT]; /* since when the pool is full and none of it is freed; 0: it is not */
	bool stuck[POOL_COUNT];       /* for so long that an event has told so */
	struct dnode given;        /* READ responses that hosts were given, oldest first: kept while nobody needs room */
	uint64_t given_bytes;      /* their slot bytes: they count as free */
	struct timer given_timer;  /* the oldest have been there for long enough */
	uint64_t room_exceeded_ns; /* when one whose host can be held off went across without room all the same */
	struct timer reserve_timer;
	struct {
		uint32_t away;      /* near flows whose hosts were sent away, each with a turn */
		uint64_t bytes;     /* that these will bring */
		uint64_t bin, due[TURN_BINS]; /* bytes that will come in each bin of time, from that one on */
		struct share drain; /* of all near flows together */
		uint64_t in_force_until_ns; /* shares alone decide from then on: rounds of turns have been short */
	} turns;                    /* near_turn.c */
	uint32_t near_busy;         /* near flows that hold what their responders do not have yet: near_count_held() */
	struct near_unpaired unpaired;
	struct end_to_end end_to_end;
	uint64_t near_full_until_ns; /* the table of near flows was full of busy ones: no use to look again before */
	uint32_t near_used, far_used;
	uint32_t telling;      /* near flows that wait for an answer of their own: TELL_ASKED */
	uint32_t far_evict_at; /* the flow that gives room next, if it drains nothing; and when all ... */
	uint64_t far_evict_ns; /* ... are looked at again */
	struct dnode near_free, far_free;       /* places, the one that was given back first in front */
	uint32_t near_evict_at, far_idle_at;    /* where a flow that may go is sought first */
	uint32_t work_left;                     /* of CALL_WORK, in the call that is going on */
	struct dnode near_work, far_work;       /* flows with something left to do ... */
	struct dnode dead_slots;                /* ... and slots that are to be freed, by slot_meta.node */
	struct dnode pairs_free, hosts_free;
	struct dnode pairs_unasked, pairs_left; /* nothing but a quarantine, oldest first: never had a flow; had some */
	uint32_t *near_inc;                     /* last incarnation of each near index: never used twice */
	uint64_t births;                        /* near flows ever opened in this arena */
	struct near_flow *near_found;           /* the last one found by its key: packets of a flow come in runs */
	struct ip_addr carried_from, carried_to; /* a pair that proxy_carries(), if carries_any */
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

	struct dnode ack_tx;    /* near flows with an AETH to say */
	struct dnode resp_list; /* near flows with responses to deliver */
	struct dnode held_packets; /* struct held packet: packets for hosts that are not RC */
	struct dnode far_cnps;  /* far flows whose responder is to send READ responses more slowly */
	struct dnode lan_ready; /* struct hostpair with far flows that may send to their host */
	uint64_t begins_ns;     /* a clock of flows' first packets, which go in front, at half of the rate */
	struct lost_life *lost; /* nlost of them, a power of two */
	uint32_t nlost;
	struct dnode stale_flows; /* far flows of arenas that the peer has lost */

	struct proxy_event events[EVENT_RING];
	uint32_t ev_head, ev_tail; /* written, read */
	struct proxy_event *failures; /* 2 * max_flows: those of failed flows are not among the others */
	uint32_t failures_head, failures_tail;
	uint64_t events_lost, failures_lost;
	struct flow_history history; /* flows that have ended */
	struct host_heard hosts_heard[HOSTS_HEARD];
};

/* --- bounded work ---
 *
 * What came in may concern any number of packets: a report that settles a million, a flow that ends with all that it
 * holds. No call works off more than CALL_WORK of them; flows are put on near_work or far_work with what is left, and
 * proxy_tick() goes on, at once, as proxy_next_wake() says. Places of a flow are not used again before all its slots
 * are free, since a slot is found by place and position. */

/* One more packet or position may be looked at. False: not in this call. */
static inline bool work_take(struct proxy *p)
{
	if (!p->work_left)
		return false;
	p->work_left--;
	return true;
}

/* So many were looked at. */
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

/* True for what goes from a local host to a remote one, on a lane of this shard. What decides that stays as it is while
 * the shard lives (proxy_reconfigure()), so it is not worked out again for the pair of the packet before. */
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

/* rd_op.c: what a record is taken for, and how many percent of all must be left after that: an operation that waits for
 * one here may wait for one that only the other role can end. */
enum rd_op_use { OP_FOR_CLOSE = 0, OP_FOR_FAR = 5, OP_FOR_NEAR = 25, OP_FOR_KEPT = 50 };
bool rd_op_left(const struct proxy *p, enum rd_op_use use);
/* A record from the shard's pool, NULL: none is left for that use. And back, off whatever list it is on. */
struct rd_op *rd_op_take(struct proxy *p, enum rd_op_use use);
void rd_op_give(struct proxy *p, struct rd_op *op);

/* proxy_config.c: true if a shard can work with these values. */
bool proxy_config_sane(const struct proxy_config *c);
/* proxy_config.c: the mode for what a local host asks of a remote one. */
enum ack_mode proxy_mode_for(const struct proxy_config *c, const struct ip_addr *local, const struct ip_addr *remote);

/* event.c: notes that something happened to a near or a far flow (both may be NULL). Lost if nobody reads. */
/* EV_FLOW_FAILED: pos is the first position that was not delivered, bytes what is held from there on. */
void proxy_failure_push(struct proxy *p, enum proxy_failure why, const struct near_flow *n, const struct far_flow *f,
                        uint64_t pos, uint64_t bytes);
void proxy_event_push(struct proxy *p, enum proxy_event_type type, const struct near_flow *n, const struct far_flow *f,
                      uint64_t pos, uint64_t value);

#endif
