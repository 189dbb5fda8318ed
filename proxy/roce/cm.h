/* SPDX-License-Identifier: Apache-2.0 */
/* cm.h - reading InfiniBand connection management messages that pass through (QP1, MAD class 7).
 *
 * Nothing here changes a message. The core learns QPNs, starting PSNs, path MTU and retry counts from REQ and
 * REP, and knows from DREQ/DREP which connection ends. IBTA vol. 1 chapter 12.6 to 12.7.
 * State is keyed by addresses, communication ids and transaction: a repeated REQ changes nothing. */
#ifndef PROXY_CM_H
#define PROXY_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/dlist.h"
#include "proxy/util/idx_hash.h"
#include "roce.h"

enum cm_type { CM_NONE, CM_REQ, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP, CM_OTHER };

struct cm_msg {
	enum cm_type type;
	uint64_t transaction;
	uint32_t local_comm_id;  /* the sender's */
	uint32_t remote_comm_id; /* the receiver's; 0 in REQ */
	uint32_t qpn;            /* REQ, REP: the sender's QPN; DREQ: the receiver's (remote QPN) */
	uint32_t starting_psn;   /* REQ, REP: PSN that the *receiver* of the message starts to send with */
	uint16_t pkey; /* REQ: partition of the connection */
	uint16_t pmtu;           /* REQ: bytes, 256..4096; else 0 */
	uint8_t retry_cnt;       /* REQ */
	uint8_t rnr_retry;       /* REQ, REP: 7 is infinite */
	uint8_t ack_timeout;     /* REQ: local ACK timeout exponent (4.096 us x 2^n) */
	uint8_t responder_resources;
	uint8_t initiator_depth;
	bool rc; /* REQ: transport service type is RC */
};

/* Reads a CM message out of a UD SEND_ONLY to QP1. msg->type is CM_NONE if the packet is not a CM message. */
void cm_parse(const uint8_t *l3, const struct roce_pkt *pkt, struct cm_msg *msg);

/* Header fields of a host's own packets, taken from its REQ or REP. */
struct cm_traits {
	uint8_t tos;
	bool migreq;
	uint16_t vlan_tci; /* VLAN of the host's own LAN: the sites may number their VLANs differently */
};

/* One connection as CM describes it. `a` sent the REQ. */
struct cm_conn {
	struct ip_addr a, b;
	uint32_t comm_a, comm_b;
	uint64_t transaction;
	uint32_t qpn_a, qpn_b;
	uint32_t psn_a, psn_b; /* first PSN that a (b) sends */
	uint16_t pmtu;
	uint8_t rnr_retry_a, rnr_retry_b; /* how a (b) as requester retries after RNR NAK: 7 = infinite */
	uint16_t pkey;
	struct cm_traits traits_a, traits_b; /* the caller fills them in */
	uint8_t state;                    /* enum cm_conn_state */
	bool by_pair;                     /* is in cm_table.pairs */
	struct dnode node;                /* in cm_table.spare[rank] */
	uint8_t rank;                     /* enum cm_spare */
};

enum cm_conn_state { CMC_FREE, CMC_REQ_SEEN, CMC_PAIRED, CMC_DISCONNECTING };
/* The order in which entries give their places away. A live pair comes last: its DREQ must still find it, however many
 * connections come and go in the meantime. */
enum cm_spare { CMS_FREE, CMS_HALF, CMS_LIVE, CMS_RANKS };

enum cm_change {
	CM_NO_CHANGE,      /* repeated or irrelevant */
	CM_OPENED,         /* REQ + REP with new ids: a new pair, conn is complete */
	CM_DISCONNECTING_, /* first DREQ or DREP of a known connection */
};

/* A bounded table, least recently used goes first. */
struct cm_table {
	struct cm_conn *conns;
	uint64_t seed;                     /* of the hashes */
	struct idx_hash asked, pairs;      /* by the REQ's sender, receiver, id and transaction; by both ids */
	struct dnode spare[CMS_RANKS];     /* all entries, the one used longest ago first */
	uint32_t n, nhalf;                 /* entries; those in spare[CMS_HALF] */
};

/* The caller gives `n` entries and twice idx_hash_size(n) cells. seed: proxy_config.hash_seed. */
void cm_table_init(struct cm_table *t, struct cm_conn *conns, struct idx_hash_cell *cells, uint32_t n, uint64_t seed);

/* Takes a message on its way from src to dst. If the message belongs to a connection, *conn points at that connection
 * (else NULL), also when nothing changed. */
enum cm_change cm_observe(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                          const struct cm_msg *msg, struct cm_conn **conn);

/* A number that tells a complete connection from others of the same queue pairs; both edges compute the same number.
 * Never 0. */
uint32_t cm_tag(const struct cm_conn *c);

#endif
