/* SPDX-License-Identifier: Apache-2.0 */
/* cm.c - reading InfiniBand connection management as it passes through.
 *
 * Theory of operation
 *
 * The active side A sends REQ, the passive side B answers REP, A confirms with RTU; later one of them sends DREQ and
 * the other DREP. All of them are datagrams that hosts repeat until they are answered, and that networks delay and
 * duplicate, so a message proves nothing by its arrival: only new ids count.
 *
 *     FREE --REQ--> REQ_SEEN --REP--> PAIRED --DREQ or DREP--> DISCONNECTING
 *      ^               |
 *      +------REJ------+
 *
 * A REQ is known by (A, B, A's communication id, transaction): REP, MRA, RTU and a REJ of the REQ carry the REQ's
 * transaction. DREQ begins a transaction of its own and is known by the two communication ids. A finished entry stays
 * until its place is needed, so that a late copy of its REQ or REP finds the entry and opens no connection. */
#include "cm.h"

#include <string.h>

#include "proxy/util/bytes.h"
#include "proxy/util/fault.h"

#define QP1         1
#define QP1_QKEY    0x80010000u
#define MAD_LEN     256
#define CLASS_CM    7
#define CM_VERSION  2
#define METHOD_SEND 3

/* Offsets in a MAD: common header (IBTA 13.4.3), then the message (IBTA 12.6). */
enum mad_off {
	MAD_BASE_VERSION = 0,
	MAD_CLASS = 1,
	MAD_CLASS_VERSION = 2,
	MAD_METHOD = 3,
	MAD_TRANSACTION = 8,
	MAD_ATTRIBUTE = 16,
	MAD_DATA = 24,
};

enum cm_attribute {
	ATTR_REQ = 0x10,
	ATTR_MRA = 0x11,
	ATTR_REJ = 0x12,
	ATTR_REP = 0x13,
	ATTR_RTU = 0x14,
	ATTR_DREQ = 0x15,
	ATTR_DREP = 0x16,
};

/* --- reading --- */

static enum cm_type type_of(uint16_t attribute)
{
	switch (attribute) {
	case ATTR_REQ:
		return CM_REQ;
	case ATTR_MRA:
		return CM_MRA;
	case ATTR_REJ:
		return CM_REJ;
	case ATTR_REP:
		return CM_REP;
	case ATTR_RTU:
		return CM_RTU;
	case ATTR_DREQ:
		return CM_DREQ;
	case ATTR_DREP:
		return CM_DREP;
	default:
		return CM_OTHER;
	}
}

/* IB path MTU code to bytes; 0 if it is none. */
static uint16_t pmtu_bytes(unsigned code)
{
	return (uint16_t)(code >= 1 && code <= 5 ? 128u << code : 0);
}

/* IBTA 12.6.5. Retry counts in REQ and REP are those that the sender asks the receiver to use. */
static void parse_req(const uint8_t *d, struct cm_msg *msg)
{
	msg->qpn = get_be24(d + 32);
	msg->responder_resources = d[35];
	msg->initiator_depth = d[39];
	msg->rc = (d[43] >> 1 & 3) == 0;
	msg->starting_psn = get_be24(d + 44);
	msg->retry_cnt = d[47] & 7;
	msg->pkey = get_be16(d + 48);
	msg->pmtu = pmtu_bytes(d[50] >> 4);
	msg->rnr_retry = d[50] & 7;
	msg->ack_timeout = d[95] >> 3;
}

/* IBTA 12.6.8. */
static void parse_rep(const uint8_t *d, struct cm_msg *msg)
{
	msg->remote_comm_id = get_be32(d + 4);
	msg->qpn = get_be24(d + 12);
	msg->starting_psn = get_be24(d + 20);
	msg->responder_resources = d[24];
	msg->initiator_depth = d[25];
	msg->rnr_retry = d[27] >> 5;
}

/* True for a MAD that the receiving CM agent would accept, too. */
static bool is_cm(const uint8_t *mad, const struct roce_pkt *pkt)
{
	return pkt->opcode == UD_SEND_ONLY && pkt->dest_qpn == QP1 && pkt->deth_qkey == QP1_QKEY &&
	       pkt->payload_len >= MAD_LEN && mad[MAD_BASE_VERSION] == 1 && mad[MAD_CLASS] == CLASS_CM &&
	       mad[MAD_CLASS_VERSION] == CM_VERSION;
}

void cm_parse(const uint8_t *l3, const struct roce_pkt *pkt, struct cm_msg *msg)
{
	const uint8_t *mad = l3 + pkt->hdr_len;
	const uint8_t *d = mad + MAD_DATA;

	memset(msg, 0, sizeof(*msg));
	if (!is_cm(mad, pkt))
		return;
	msg->type = mad[MAD_METHOD] == METHOD_SEND ? type_of(get_be16(mad + MAD_ATTRIBUTE)) : CM_OTHER;
	msg->transaction = get_be64(mad + MAD_TRANSACTION);
	if (msg->type == CM_OTHER)
		return;
	msg->local_comm_id = get_be32(d);
	if (msg->type == CM_REQ)
		parse_req(d, msg);
	else if (msg->type == CM_REP)
		parse_rep(d, msg);
	else
		msg->remote_comm_id = get_be32(d + 4);
	if (msg->type == CM_DREQ)
		msg->qpn = get_be24(d + 8);
}

/* --- the table --- */

/* A host chooses transaction and id, so neither may make up for the other before it is mixed. */
static uint32_t asked_hash(const struct cm_table *t, const struct ip_addr *a, const struct ip_addr *b, uint32_t comm_a,
                           uint64_t transaction)
{
	uint64_t h = hash_mix(hash_mix(transaction ^ t->seed) ^ comm_a);

	return (uint32_t)hash_mix(h ^ ((uint64_t)addr_hash(t->seed, a) << 32 | addr_hash(t->seed, b)));
}

static uint64_t side_hash(const struct cm_table *t, const struct ip_addr *addr, uint32_t comm_id)
{
	return hash_mix((uint64_t)addr_hash(t->seed, addr) << 32 | comm_id);
}

/* The hash of a pair, the same from either side. */
static uint32_t pair_hash(const struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                          uint32_t local, uint32_t remote)
{
	return (uint32_t)(side_hash(t, src, local) ^ side_hash(t, dst, remote));
}

void cm_table_init(struct cm_table *t, struct cm_conn *conns, struct idx_hash_cell *cells, uint32_t n, uint64_t seed)
{
	memset(conns, 0, n * sizeof(*conns));
	t->conns = conns;
	t->n = n;
	t->nhalf = 0;
	t->seed = seed;
	idx_hash_init(&t->asked, cells, idx_hash_size(n));
	idx_hash_init(&t->pairs, cells + idx_hash_size(n), idx_hash_size(n));
	for (unsigned i = 0; i < CMS_RANKS; i++)
		dlist_init(&t->spare[i]);
	for (uint32_t i = 0; i < n; i++)
		dlist_append(&t->spare[CMS_FREE], &conns[i].node);
}

static uint32_t idx_of(const struct cm_table *t, const struct cm_conn *c)
{
	return (uint32_t)(c - t->conns);
}

/* Moves the entry to its place in cm_table.spare: it was used just now, or its state has changed. */
static void touch(struct cm_table *t, struct cm_conn *c)
{
	enum cm_spare rank = c->state == CMC_FREE ? CMS_FREE : c->state == CMC_PAIRED ? CMS_LIVE : CMS_HALF;

	t->nhalf += rank == CMS_HALF;
	t->nhalf -= c->rank == CMS_HALF;
	c->rank = (uint8_t)rank;
	dlist_remove(&c->node);
	dlist_append(&t->spare[rank], &c->node);
}

/* The connection that `a` asked `b` for in this transaction. */
static struct cm_conn *find_asked(const struct cm_table *t, const struct ip_addr *a, const struct ip_addr *b,
                                  uint32_t comm_a, uint64_t transaction)
{
	uint32_t hash = asked_hash(t, a, b, comm_a, transaction), idx;

	for (uint32_t i = hash; (idx = idx_hash_next(&t->asked, hash, &i)) != UINT32_MAX;) {
		struct cm_conn *c = &t->conns[idx];

		if (c->comm_a == comm_a && c->transaction == transaction && ip_addr_eq(&c->a, a) && ip_addr_eq(&c->b, b))
			return c;
	}
	return NULL;
}

/* True if the sender's id is `local` and the receiver's `remote`. Either of the two may have sent the REQ. */
static bool is_pair(const struct cm_conn *c, const struct ip_addr *src, const struct ip_addr *dst, uint32_t local,
                    uint32_t remote)
{
	if (c->comm_a == local && c->comm_b == remote && ip_addr_eq(&c->a, src) && ip_addr_eq(&c->b, dst))
		return true;
	return c->comm_b == local && c->comm_a == remote && ip_addr_eq(&c->b, src) && ip_addr_eq(&c->a, dst);
}

/* The pair with these ids; the latest pair if both ids were used before. */
static struct cm_conn *find_pair(const struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                                 uint32_t local, uint32_t remote)
{
	uint32_t hash = pair_hash(t, src, dst, local, remote), idx;

	for (uint32_t i = hash; (idx = idx_hash_next(&t->pairs, hash, &i)) != UINT32_MAX;)
		if (is_pair(&t->conns[idx], src, dst, local, remote))
			return &t->conns[idx];
	return NULL;
}

static void pair_forget(struct cm_table *t, struct cm_conn *c)
{
	if (c->by_pair)
		idx_hash_del(&t->pairs, pair_hash(t, &c->a, &c->b, c->comm_a, c->comm_b), idx_of(t, c));
	c->by_pair = false;
}

static void pair_note(struct cm_table *t, struct cm_conn *c)
{
	pair_forget(t, c);
	idx_hash_put(&t->pairs, pair_hash(t, &c->a, &c->b, c->comm_a, c->comm_b), idx_of(t, c));
	c->by_pair = true;
}

/* Makes the entry a free one. */
static void forget(struct cm_table *t, struct cm_conn *c)
{
	if (c->state == CMC_FREE)
		return;
	pair_forget(t, c);
	idx_hash_del(&t->asked, asked_hash(t, &c->a, &c->b, c->comm_a, c->transaction), idx_of(t, c));
	c->state = CMC_FREE;
	touch(t, c);
}

/* A place for a new connection; NULL only if the table has none at all. Connections in set-up may have a quarter of the
 * places: live ones, which may have ended without a word, could have all, and REQs would push each other out before
 * their REPs come. */
static struct cm_conn *take_place(struct cm_table *t)
{
	bool half_first = t->nhalf > t->n / 4 || dlist_empty(&t->spare[CMS_LIVE]);
	struct dnode *n = dlist_first(&t->spare[CMS_FREE]);

	if (!n)
		n = dlist_first(&t->spare[half_first ? CMS_HALF : CMS_LIVE]);
	if (!n)
		return NULL;
	forget(t, dlist_entry(n, struct cm_conn, node));
	return dlist_entry(n, struct cm_conn, node);
}

/* --- messages --- */

static struct cm_conn *observe_req(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                                   const struct cm_msg *msg)
{
	struct cm_conn *c = find_asked(t, src, dst, msg->local_comm_id, msg->transaction);

	if (c)
		return c;
	if (!msg->rc || msg->qpn <= QP1)
		return NULL;
	c = take_place(t);
	if (!c)
		return NULL;
	*c = (struct cm_conn){
	    .a = *src,
	    .b = *dst,
	    .comm_a = msg->local_comm_id,
	    .transaction = msg->transaction,
	    .qpn_a = msg->qpn,
	    .psn_b = msg->starting_psn,
	    .pkey = msg->pkey,
	    .pmtu = msg->pmtu,
	    .rnr_retry_b = msg->rnr_retry,
	    .state = CMC_REQ_SEEN,
	    .node = c->node,
	    .rank = c->rank,
	};
	idx_hash_put(&t->asked, asked_hash(t, src, dst, msg->local_comm_id, msg->transaction), idx_of(t, c));
	return c;
}

static enum cm_change observe_rep(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                                  const struct cm_msg *msg, struct cm_conn **conn)
{
	struct cm_conn *c = find_asked(t, dst, src, msg->remote_comm_id, msg->transaction), *old;

	if (!c || msg->qpn <= QP1)
		return CM_NO_CHANGE;
	if (c->state != CMC_REQ_SEEN && !FAULT(FAULT_CM_REPEATED)) {
		/* A second REP with another id: A does not accept it either. */
		*conn = c->comm_b == msg->local_comm_id ? c : NULL;
		return CM_NO_CHANGE;
	}
	/* A host uses an id again only after the id's connection is gone, even without a DREQ. */
	old = find_pair(t, src, dst, msg->local_comm_id, msg->remote_comm_id);
	if (old) {
		old->state = CMC_DISCONNECTING;
		pair_forget(t, old);
		touch(t, old);
	}
	pair_forget(t, c);
	c->comm_b = msg->local_comm_id;
	c->qpn_b = msg->qpn;
	c->psn_a = msg->starting_psn;
	c->rnr_retry_a = msg->rnr_retry;
	c->state = CMC_PAIRED;
	pair_note(t, c);
	*conn = c;
	return CM_OPENED;
}

/* DREQ names the QPN at its receiver; the receiver ignores a DREQ with a wrong QPN. IBTA 12.6.10. */
static bool dreq_names_receiver(const struct cm_conn *c, const struct ip_addr *src, const struct cm_msg *msg)
{
	bool from_a = ip_addr_eq(&c->a, src) && c->comm_a == msg->local_comm_id;

	return msg->qpn == (from_a ? c->qpn_b : c->qpn_a);
}

static enum cm_change observe_end(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                                  const struct cm_msg *msg, struct cm_conn **conn)
{
	struct cm_conn *c = find_pair(t, src, dst, msg->local_comm_id, msg->remote_comm_id);

	if (!c || (msg->type == CM_DREQ && !dreq_names_receiver(c, src, msg)))
		return CM_NO_CHANGE;
	*conn = c;
	if (c->state == CMC_DISCONNECTING)
		return CM_NO_CHANGE;
	c->state = CMC_DISCONNECTING;
	return CM_DISCONNECTING_;
}

/* A message of the REQ's transaction, from either side. */
static struct cm_conn *find_in_set_up(const struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                                      const struct cm_msg *msg)
{
	struct cm_conn *c = find_asked(t, src, dst, msg->local_comm_id, msg->transaction);

	return c ? c : find_asked(t, dst, src, msg->remote_comm_id, msg->transaction);
}

/* Either side may send REJ: B refuses the REQ, A takes it back. */
static struct cm_conn *observe_rej(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                                   const struct cm_msg *msg)
{
	struct cm_conn *c = find_in_set_up(t, src, dst, msg);

	if (!c || c->state != CMC_REQ_SEEN)
		return c;
	forget(t, c);
	return NULL;
}

enum cm_change cm_observe(struct cm_table *t, const struct ip_addr *src, const struct ip_addr *dst,
                          const struct cm_msg *msg, struct cm_conn **conn)
{
	enum cm_change change = CM_NO_CHANGE;

	*conn = NULL;
	switch (msg->type) {
	case CM_REQ:
		*conn = observe_req(t, src, dst, msg);
		break;
	case CM_REP:
		change = observe_rep(t, src, dst, msg, conn);
		break;
	case CM_DREQ:
	case CM_DREP:
		change = observe_end(t, src, dst, msg, conn);
		break;
	case CM_REJ:
		*conn = observe_rej(t, src, dst, msg);
		break;
	case CM_MRA:
	case CM_RTU:
		*conn = find_in_set_up(t, src, dst, msg);
		break;
	case CM_NONE:
	case CM_OTHER:
		break;
	}
	if (*conn)
		touch(t, *conn);
	return change;
}

uint32_t cm_tag(const struct cm_conn *c)
{
	uint64_t x = hash_mix((uint64_t)c->comm_a << 32 | c->comm_b);

	x = hash_mix(x ^ c->transaction);
	x = hash_mix(x ^ ((uint64_t)c->qpn_a << 32 | c->qpn_b));
	x = hash_mix(x ^ ((uint64_t)c->psn_a << 32 | c->psn_b));
	return (uint32_t)x ? (uint32_t)x : 1;
}
