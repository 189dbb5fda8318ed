/* SPDX-License-Identifier: Apache-2.0 */
/* far_flow.h - a far flow: one direction of an RC connection, seen beside its responder; the hosts that far flows send
 * to, and the pairs of hosts. far/ works on them. */
#ifndef PROXY_FAR_FLOW_H
#define PROXY_FAR_FLOW_H

#include "flow.h"

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

#endif
