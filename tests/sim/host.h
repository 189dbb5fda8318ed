/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - model hosts: a NIC with RC queue pairs that are no kinder than the real ones.
 *
 * A queue pair has a requester half (host_requester.c) and a responder half (host_responder.c). Positions count
 * packets of one incarnation in 64 bits from 0; the PSN is psn_start + position, 24 bits. Message `i` of a direction is
 * a pure function of the direction's plan (payload.h), so a queue pair stores no data and the responder knows what must
 * come.
 *
 * Two profiles: `rxe` as measured on the kernel's driver, `cx` like a ConnectX. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "eventq.h"
#include "link.h"
#include "payload.h"
#include "rng.h"
#include "proxy/roce/roce.h"
#include "tests/tools/rcperf/reaction.h"

struct world;
struct conn;
struct host;

struct host_model {
	const char *name;
	uint32_t window_psns;   /* most beyond the last ACK; 0: no bound but the queue depth */
	bool migreq;            /* BTH.MigReq of its packets */
	uint32_t ack_req_every; /* packets of a long message; its last one asks always */
	uint64_t timeout_ns;
	bool adaptive;       /* first four retries after 2, 4, 8, 16 ms whatever timeout_ns says */
	uint32_t retries;    /* without progress; UINT32_MAX: for ever */
	bool one_retry;      /* a go-back is not begun again before there is progress or a timeout */
	bool nak_behind_rnr; /* an RNR NAK is followed by a sequence NAK for what was behind it */
	bool rnr_nak_waits;  /* a sequence NAK does not end the wait of an RNR NAK */
	bool rnr_in_read_kills; /* an RNR NAK within a READ's responses fails the QP, also after asking again */
	bool rest_is_middle; /* it answers the repeated rest of a READ with MIDDLE and LAST, never with FIRST or ONLY */
	bool forward_only;   /* it answers no repeated READ from before where it was asked last */
	bool takes_middle_again; /* after asking again it also takes a response that goes on as before */
	bool ack_each_duplicate;
	bool ghost_ack_completes; /* an ACK ahead of what was sent completes work; else it is fatal */
	bool msn_by_now;          /* a READ that is repeated is answered with the count of all that was executed since */
	bool checks_msn;          /* an ACK whose MSN does not fit its PSN is ignored */
	bool credits;             /* tells how many receives are posted, and sends no more than it was told */
	bool ack_from_zero;       /* never asked for anything, it says PSN -1 to what lies behind */
	bool confused_retry;      /* a timeout that overtakes a completion: see confuse() in host_requester.c */
};

/* cx_window: a ConnectX with a send window, shorter than many a message. */
extern const struct host_model host_model_rxe, host_model_cx, host_model_cx_window;

#define AT_EDGE_BITS 8192

/* A posted work request. */
struct wqe {
	uint64_t pos_first, pos_last;
	uint64_t pos_request; /* READ: where its latest request began ... */
	uint64_t request_ns;  /* ... and when it was sent */
	struct msg msg;
	uint64_t own_before; /* READs and ATOMICs posted before it */
	uint64_t orig;       /* ATOMIC: what must come back */
	uint64_t posted_ns;
};

struct requester {
	struct msg_plan plan;
	uint32_t psn_start;
	uint32_t depth;  /* messages posted and not completed */
	uint32_t max_rd; /* READs and ATOMICs outstanding */
	uint64_t pos_una, pos_next, pos_sent,
	    pos_posted; /* unACKed, next to send, highest sent + 1, end of what is posted */
	uint64_t msg_completed, msg_next, msg_posted; /* msg_next: the one that pos_next is in */
	uint64_t own_posted;
	uint64_t counter; /* what the responder's counter will hold after all that is posted */
	struct wqe *ring; /* by message number; keeps completed ones for a while */
	uint64_t ring_mask;
	struct evtimer retry, rnr_wait;
	uint32_t tries; /* without progress */
	bool retrying, failed, asked;
	uint64_t failed_ns;
	uint64_t asked_ns; /* when its first packet left */
	uint64_t waits_ns; /* since when the oldest message has been outstanding, and nothing completed */
	uint32_t rnr_tries;      /* RNR NAKs without progress */
	uint64_t credit_msgs;    /* messages that have a receive, as the responder said; UINT64_MAX: it does not say */
	uint64_t confused_until; /* all before is sent again one PSN too high; 0: in its right mind */
	bool confused_start;     /* and first the one that began it */
	uint32_t confusions;
	bool lost_count; /* and it is never right again */
	uint32_t wrong_rounds;
	uint64_t implied_at; /* pos_una + 1 of the last implied NAK that was heeded; 0: none since the timer */
	/* what an observer of the wire knows */
	uint64_t pos_at_edge;                /* everything before has reached the near edge */
	uint64_t at_edge[AT_EDGE_BITS / 64]; /* and what of the positions from there on */
	uint64_t pos_at_far;                 /* everything before is, or was, committed at the far edge */
	uint64_t post_ns;                    /* when the next message may be posted */
	uint64_t completed_at_loss;          /* messages, when the near edge lost its arena */
	uint64_t executed_at_loss, loss_ns;  /* what its responder had executed of them then, and when that was */
	bool only_near;                      /* the far edge has lost its arena: what it had must come again */
	bool gone_for_good;                  /* and the near edge before it had */
	uint64_t bytes_completed;
	uint64_t naks, rnrs, timeouts, implied_naks, resent;
	uint64_t flushed; /* messages that ended with the queue pair */
};

/* Credits of an AETH: what code n stands for. IBTA 9.7.5.1.1, table 45. */
uint32_t aeth_credits(uint8_t code);

enum reply_kind { REPLY_AETH, REPLY_READ, REPLY_ATOMIC, REPLY_EMPTY }; /* empty: a READ response without a byte */

struct reply {
	enum reply_kind kind;
	uint8_t syndrome;
	uint64_t pos;                 /* READ: of the next response */
	uint64_t pos_first, pos_last; /* READ */
	uint64_t va;                  /* READ: of pos_first */
	uint32_t len;                 /* READ: of pos_first .. pos_last */
	bool goes_on;                 /* READ: not with FIRST or ONLY */
	uint32_t msn;
	uint64_t orig;
};

/* A READ, ATOMIC, FLUSH or ATOMIC WRITE that can be answered again. */
struct own_kept {
	uint64_t pos_first, pos_last, orig;
	uint64_t pos_asked; /* where the latest request for it began */
	uint32_t msn;
	enum reply_kind kind;
};

#define REPLIES_MAX  256
#define OWN_KEPT_MAX 128

#define RESPONDER_NAMED 512
struct responder {
	struct msg_plan plan;
	uint32_t psn_start;
	uint64_t pos_expected;
	uint64_t msg; /* the one that pos_expected is in = messages executed */
	uint32_t off; /* bytes of it taken */
	uint32_t msn;
	bool in_message, nak_sent;
	bool in_send; /* in_message: it is a SEND */
	bool dying;   /* a NAK is on its way out with which the queue pair ends */
	uint64_t counter;
	uint64_t pos_acked;        /* everything before was acknowledged on the wire, by ACK, NAK or response */
	uint32_t receives;         /* posted */
	uint64_t receive_every_ns; /* one more so often; 0: always enough */
	bool receive_due;
	uint64_t silent_until_ns;  /* it is busy with something else; 0: nothing came yet */
	struct reply *reply; /* REPLIES_MAX */
	uint32_t reply_head, reply_n;
	struct own_kept kept[OWN_KEPT_MAX];
	uint64_t kept_n;
	uint32_t kept_max; /* max_dest_rd_atomic */
	uint64_t bytes_executed, executed_ns;
	uint64_t duplicates;
	uint64_t named[RESPONDER_NAMED]; /* positions that its last ACKs named */
	uint32_t nnamed;
};

enum qp_state { QP_INIT, QP_READY, QP_ERROR, QP_CLOSED };

struct qp {
	struct host *host;
	struct conn *conn;
	struct qp *peer;
	int side; /* 0: site A's end of conn */
	uint32_t qpn, dest_qpn;
	enum qp_state state;
	bool can_send; /* RTS, else RTR */
	const struct host_model *model;
	struct ip_addr addr, peer_addr;
	bool ip6;
	uint16_t vlan_tci, pkey, pmtu, sport;
	uint8_t tos;
	struct requester req;
	struct responder resp;
	uint64_t cnp_ns[2]; /* when the edge last sent one for it, and before that; 0: never */
	uint32_t cnps_sent; /* to its peer, by its host; until the pair is known they may arrive together */
	struct reaction rp; /* to CNPs: host_cnp.c */
	uint64_t cnp_told_ns; /* when it last sent a CNP itself */
	bool rate_waits;      /* an event is on its way for rp.next_ns */
	bool active;     /* in the host's ring of queue pairs with something to send */
	struct qp *next_active;
	struct qp *next_gone;
};

#define FREE_QPNS 64

struct host {
	struct world *w;
	uint8_t site, index;
	const struct host_model *model;
	struct link *up; /* towards the edge */
	struct evtimer tx;
	struct qp *active_tail; /* circular; next_active is whose turn it is */
	struct qp **qps;        /* by QPN - QPN_FIRST */
	uint32_t nqps, qps_cap;
	struct qp *gone; /* their QPNs were taken again */
	uint32_t free_qpn[FREE_QPNS];
	uint32_t nfree;
	struct pkt *mad_head, *mad_tail; /* CM messages on their way out */
	uint64_t dead_ns;                /* SIM_NEVER: lives */
	uint64_t frozen_until_ns;        /* hears, says and times nothing before */
	bool keeps;                      /* meanwhile: what comes is taken afterwards */
	struct pkt *kept_head, *kept_tail;
	uint64_t requests_sent;          /* packets of requests, repeated ones too */
	uint64_t rx_sent_ns;             /* when its edge sent the packet that is being received */
	struct rng rng;
	uint8_t scratch[4096];
};

#define QPN_FIRST 0x11u

void host_init(struct host *h, struct world *w, uint8_t site, uint8_t index, const struct host_model *model);
void host_free(struct host *h);
/* A packet from the LAN; takes p. */
void host_rx(struct host *h, struct pkt *p);
/* There is something to send. */
void host_kick(struct host *h);
bool host_is_dead(const struct host *h);
/* Stops the whole machine, its timers too, for so long; then it goes on as if nothing had been. */
void host_freeze(struct host *h, uint64_t for_ns);
/* The same, but what comes meanwhile is not lost: a virtual machine that is not scheduled, a NIC that PFC has stopped.
 */
void host_pause(struct host *h, uint64_t for_ns);
bool host_is_frozen(const struct host *h);
/* A MAD for QP1 of the other end; takes p. */
void host_send_mad(struct host *h, struct pkt *p);
/* Congestion, as a NIC deals with it. A packet came: a CNP is obeyed, a mark is answered. */
void host_cnp_rx(struct qp *q, const struct roce_pkt *pkt);
/* True if the queue pair must wait before it sends more; it is activated when the time has come. */
bool host_cnp_waits(struct qp *q);
/* It has sent so many bytes. */
void host_cnp_sent(struct qp *q, uint32_t len);
/* NULL: never existed. */
struct qp *host_find_qp(const struct host *h, uint32_t qpn);
/* The queue pair is gone, its number may be taken again. */
void host_release_qpn(struct host *h, uint32_t qpn);
void host_skip_qpns(struct host *h, uint32_t n);

void qp_create(struct qp *q, struct host *h, struct conn *c, int side);
void qp_activate(struct qp *q);
/* A packet of its own from the queue pair's fields. */
void qp_packet(const struct qp *q, struct roce_pkt *pkt, enum roce_opcode op, uint32_t psn);
/* Builds and wraps it. */
struct pkt *qp_build(const struct qp *q, struct roce_pkt *pkt, const uint8_t *payload, size_t len);

void requester_init(struct qp *q, const struct msg_plan *plan, uint32_t psn_start, uint32_t depth, uint32_t max_rd);
void requester_free(struct qp *q);
void requester_post(struct qp *q);
struct pkt *requester_next(struct qp *q);
void requester_rx(struct qp *q, const uint8_t *l3, const struct roce_pkt *pkt);
/* What a responder's MSN is when it has acknowledged everything before `pos`. False: too long ago to tell. */
bool requester_msn_before(const struct requester *r, uint64_t pos, uint32_t *msn);
/* The oldest unfinished message is a READ that has got some of its bytes. */
bool requester_inside_read(const struct requester *r);
/* The oldest unfinished message is a READ or ATOMIC. */
bool requester_wants_answer(const struct requester *r);
/* 64-bit position of a PSN near what was sent; may be negative. */
int64_t requester_pos(const struct requester *r, uint32_t psn);

void responder_init(struct qp *q, const struct msg_plan *plan, uint32_t psn_start, uint32_t kept_max);
void responder_free(struct qp *q);
struct pkt *responder_next(struct qp *q);
void responder_rx(struct qp *q, const uint8_t *l3, const struct roce_pkt *pkt);
/* The queue pair ends with a NAK. */
void responder_refuse(struct qp *q, uint8_t syndrome);
/* A packet without a byte, in its order. */
void responder_take_nothing(struct qp *q);

static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t packets_of(uint32_t len, uint32_t pmtu)
{
	return len == 0 ? 1 : (len + pmtu - 1) / pmtu;
}

#endif
