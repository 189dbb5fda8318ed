/* SPDX-License-Identifier: Apache-2.0 */
/* near_flow.h - a near flow: one direction of an RC connection, seen beside its requester. near/ works on it. */
#ifndef PROXY_NEAR_FLOW_H
#define PROXY_NEAR_FLOW_H

#include "flow.h"

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

#endif
