/* SPDX-License-Identifier: Apache-2.0 */
/* Connection management: messages laid out by hand as IBTA 12.6 draws them, and what the table makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/util/bytes.h"
#include "proxy/roce/cm.h"
#include "proxy/util/limits.h"

#define TID 0x0000002a9f3c1d22

static const struct ip_addr host_a = {.b = {[10] = 0xff, 0xff, 10, 1, 0, 2}};
static const struct ip_addr host_b = {.b = {[10] = 0xff, 0xff, 10, 2, 0, 2}};
static const struct ip_addr host_c = {.b = {[10] = 0xff, 0xff, 10, 2, 0, 3}};

/* --- messages as bytes --- */

/* A common MAD header, byte by byte; `data` begins at 24. */
static void mad_header(uint8_t *mad, uint16_t attribute, uint64_t tid)
{
	memset(mad, 0, 256);
	mad[0] = 1;    /* base version */
	mad[1] = 0x07; /* class: communication management */
	mad[2] = 2;    /* class version */
	mad[3] = 0x03; /* method: Send */
	put_be64(mad + 8, tid);
	put_be16(mad + 16, attribute);
}

/* The REQ of rdma_cm from QP 0x000012 with PSN 0x9b3f01: every field not under test holds other bits. */
static void mad_req(uint8_t *mad)
{
	uint8_t *d = mad + 24;

	mad_header(mad, 0x0010, TID);
	memset(d, 0xa5, 232);
	put_be32(d + 0, 0x1c5d7001);        /* local communication id */
	put_be32(d + 32, 0x00001203);       /* QPN, responder resources 3 */
	put_be32(d + 36, 0xfffff004);       /* EECN, initiator depth 4 */
	put_be32(d + 40, 0xfffff0a1 & ~6u); /* EECN, timeout, RC, flow control */
	put_be32(d + 44, 0x9b3f01a6);       /* starting PSN, CM timeout 0x14, retry 6 */
	put_be16(d + 48, 0xffff);           /* P_Key */
	d[50] = 0x5f & ~8;                  /* PMTU 5, no RDC, RNR retry 7 */
	d[95] = 0x9d;                       /* ACK timeout 19, low bits other */
}

static void mad_rep(uint8_t *mad)
{
	uint8_t *d = mad + 24;

	mad_header(mad, 0x0013, TID);
	memset(d, 0xa5, 232);
	put_be32(d + 0, 0x77000005);  /* local communication id */
	put_be32(d + 4, 0x1c5d7001);  /* remote */
	put_be32(d + 12, 0x000013ff); /* QPN */
	put_be32(d + 20, 0x00fffe5a); /* starting PSN */
	d[24] = 16;                   /* responder resources */
	d[25] = 1;                    /* initiator depth */
	d[27] = 0xdf;                 /* RNR retry 6, SRQ */
}

static void mad_ids(uint8_t *mad, uint16_t attribute, uint64_t tid, uint32_t local, uint32_t remote)
{
	mad_header(mad, attribute, tid);
	memset(mad + 24, 0xa5, 232);
	put_be32(mad + 24, local);
	put_be32(mad + 28, remote);
}

/* Wraps a MAD as hosts send it and reads it back through the parser. */
static struct cm_msg read_mad(const uint8_t *mad, size_t len, uint8_t opcode, uint32_t qpn, uint32_t qkey)
{
	struct roce_pkt pkt = {.opcode = opcode, .dest_qpn = qpn, .deth_qkey = qkey, .deth_src_qpn = 1, .ttl = 64};
	uint8_t buf[512];
	size_t n = roce_build(buf, sizeof(buf), &pkt, mad, len);
	uint8_t *tight = malloc(n);
	struct cm_msg msg;

	assert_non_null(tight);
	memcpy(tight, buf, n);
	assert_int_equal(roce_parse(tight, n, &pkt), DROP_NONE);
	cm_parse(tight, &pkt, &msg);
	free(tight);
	return msg;
}

static struct cm_msg read_cm(const uint8_t *mad)
{
	return read_mad(mad, 256, UD_SEND_ONLY, 1, 0x80010000);
}

/* --- cm_parse --- */

static void cm_parse__req(void **state)
{
	uint8_t mad[256];
	struct cm_msg msg;

	(void)state;
	mad_req(mad);
	msg = read_cm(mad);
	assert_int_equal(msg.type, CM_REQ);
	assert_int_equal(msg.transaction, TID);
	assert_int_equal(msg.local_comm_id, 0x1c5d7001);
	assert_int_equal(msg.remote_comm_id, 0);
	assert_int_equal(msg.qpn, 0x12);
	assert_int_equal(msg.starting_psn, 0x9b3f01);
	assert_int_equal(msg.pmtu, 4096);
	assert_int_equal(msg.retry_cnt, 6);
	assert_int_equal(msg.rnr_retry, 7);
	assert_int_equal(msg.ack_timeout, 19);
	assert_int_equal(msg.responder_resources, 3);
	assert_int_equal(msg.initiator_depth, 4);
	assert_true(msg.rc);
}

static void cm_parse__req_path_mtu(void **state)
{
	static const uint16_t bytes[16] = {0, 256, 512, 1024, 2048, 4096};
	uint8_t mad[256];

	(void)state;
	for (unsigned code = 0; code < 16; code++) {
		mad_req(mad);
		mad[24 + 50] = (uint8_t)(code << 4 | 0xf);
		assert_int_equal(read_cm(mad).pmtu, bytes[code]);
	}
}

static void cm_parse__req_service_type(void **state)
{
	uint8_t mad[256];

	(void)state;
	for (unsigned type = 0; type < 4; type++) {
		mad_req(mad);
		mad[24 + 43] = (uint8_t)(0xf9 | type << 1);
		assert_int_equal(read_cm(mad).rc, type == 0);
	}
}

static void cm_parse__rep(void **state)
{
	uint8_t mad[256];
	struct cm_msg msg;

	(void)state;
	mad_rep(mad);
	msg = read_cm(mad);
	assert_int_equal(msg.type, CM_REP);
	assert_int_equal(msg.transaction, TID);
	assert_int_equal(msg.local_comm_id, 0x77000005);
	assert_int_equal(msg.remote_comm_id, 0x1c5d7001);
	assert_int_equal(msg.qpn, 0x13);
	assert_int_equal(msg.starting_psn, 0xfffe);
	assert_int_equal(msg.rnr_retry, 6);
	assert_int_equal(msg.responder_resources, 16);
	assert_int_equal(msg.initiator_depth, 1);
	assert_int_equal(msg.pmtu, 0);
}

static void cm_parse__messages_of_two_ids(void **state)
{
	static const struct {
		uint16_t attribute;
		enum cm_type type;
	} rows[] = {{0x11, CM_MRA}, {0x12, CM_REJ}, {0x14, CM_RTU}, {0x15, CM_DREQ}, {0x16, CM_DREP}};
	uint8_t mad[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cm_msg msg;

		mad_ids(mad, rows[i].attribute, 99, 0x01020304, 0x05060708);
		put_be32(mad + 32, 0x123456ff);
		msg = read_cm(mad);
		assert_int_equal(msg.type, rows[i].type);
		assert_int_equal(msg.transaction, 99);
		assert_int_equal(msg.local_comm_id, 0x01020304);
		assert_int_equal(msg.remote_comm_id, 0x05060708);
		assert_int_equal(msg.qpn, rows[i].type == CM_DREQ ? 0x123456 : 0);
	}
}

/* LAP, APR, SIDR, and methods that nobody uses: CM, but nothing to learn. */
static void cm_parse__other(void **state)
{
	static const uint16_t attributes[] = {0x00, 0x0f, 0x17, 0x18, 0x19, 0x1a, 0x0110, 0xffff};
	uint8_t mad[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
		mad_ids(mad, attributes[i], 1, 2, 3);
		assert_int_equal(read_cm(mad).type, CM_OTHER);
	}
	mad_req(mad);
	mad[3] = 0x81;
	assert_int_equal(read_cm(mad).type, CM_OTHER);
}

static void cm_parse__not_cm(void **state)
{
	uint8_t mad[260];

	(void)state;
	for (unsigned i = 0; i < 3; i++) { /* base version, class, class version */
		mad_req(mad);
		mad[i] ^= 1;
		assert_int_equal(read_cm(mad).type, CM_NONE);
	}
	mad_req(mad);
	assert_int_equal(read_mad(mad, 256, UD_SEND_ONLY, 2, 0x80010000).type, CM_NONE);
	assert_int_equal(read_mad(mad, 256, UD_SEND_ONLY, 1, 0x11111111).type, CM_NONE);
	assert_int_equal(read_mad(mad, 256, RC_SEND_ONLY, 1, 0x80010000).type, CM_NONE);
	assert_int_equal(read_mad(mad, 255, UD_SEND_ONLY, 1, 0x80010000).type, CM_NONE);
	assert_int_equal(read_mad(mad, 0, UD_SEND_ONLY, 1, 0x80010000).type, CM_NONE);
}

/* --- the table --- */

#define MANY 1024

/* The longest row of occupied cells after MANY REQs: what one look at the table may walk past. */
static uint32_t longest_row(uint64_t seed, void (*choose)(uint32_t i, struct cm_msg *req))
{
	static struct cm_conn conns[MANY];
	static struct idx_hash_cell cells[4 * MANY]; /* twice idx_hash_size(MANY) */
	struct cm_table t;
	uint32_t row = 0, most = 0;

	cm_table_init(&t, conns, cells, MANY, seed);
	for (uint32_t i = 0; i < MANY; i++) {
		struct cm_msg req = {.type = CM_REQ, .qpn = 0x12, .rc = true};
		struct cm_conn *c;

		choose(i, &req);
		cm_observe(&t, &host_a, &host_b, &req, &c);
		assert_non_null(c);
	}
	for (uint32_t i = 0; i < 2 * (t.asked.mask + 1); i++) { /* twice round: a row may pass the end */
		row = t.asked.cells[i & t.asked.mask].idx == UINT32_MAX ? 0 : row + 1;
		most = row > most ? row : most;
	}
	return most;
}

static void same_sum(uint32_t i, struct cm_msg *req)
{
	req->local_comm_id = i;
	req->transaction = 0x123456789abcull - i;
}

/* hash_mix() computed backwards. */
static uint64_t hash_unmix(uint64_t x)
{
	uint64_t inverse = 1;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - 0xd6e8feb86659fd93ull * inverse;
	x ^= x >> 32;
	x *= inverse;
	x ^= x >> 32;
	x *= inverse;
	return x ^ x >> 32;
}

/* As somebody chooses who takes the seed to be 0. */
static void same_hash(uint32_t i, struct cm_msg *req)
{
	req->local_comm_id = i;
	req->transaction = hash_unmix(0x5ull << 32 | i);
}

static void cm_table__ids_make_up_for_no_transaction(void **state)
{
	(void)state;
	assert_in_range(longest_row(0, same_sum), 1, 64);
	assert_in_range(longest_row(1, same_sum), 1, 64);
}

static void cm_table__nobody_can_choose_a_hash(void **state)
{
	(void)state;
	assert_int_equal(hash_unmix(hash_mix(0x123456789abcdefull)), 0x123456789abcdefull);
	assert_true(longest_row(0, same_hash) >= MANY); /* so this is how it would be done */
	assert_in_range(longest_row(1, same_hash), 1, 64);
}

/* --- cm_observe --- */

struct fixture {
	struct cm_table table;
	struct cm_conn conns[4];
	struct idx_hash_cell cells[2 * 16]; /* twice idx_hash_size(4) */
	struct cm_conn *conn;               /* of the last message */
};

static int set_up(void **state)
{
	static struct fixture f;

	memset(f.conns, 0xee, sizeof(f.conns));
	cm_table_init(&f.table, f.conns, f.cells, 4, 0);
	f.conn = NULL;
	*state = &f;
	return 0;
}

static struct cm_msg req(uint64_t tid, uint32_t comm_a)
{
	return (struct cm_msg){.type = CM_REQ,
	                       .transaction = tid,
	                       .local_comm_id = comm_a,
	                       .qpn = 0x12,
	                       .starting_psn = 0xb0b0b0,
	                       .pmtu = 1024,
	                       .rnr_retry = 5,
	                       .rc = true};
}

static struct cm_msg rep(uint64_t tid, uint32_t comm_b, uint32_t comm_a)
{
	return (struct cm_msg){.type = CM_REP,
	                       .transaction = tid,
	                       .local_comm_id = comm_b,
	                       .remote_comm_id = comm_a,
	                       .qpn = 0x13,
	                       .starting_psn = 0xa0a0a0,
	                       .rnr_retry = 6};
}

static struct cm_msg ids(enum cm_type type, uint64_t tid, uint32_t local, uint32_t remote, uint32_t qpn)
{
	return (struct cm_msg){
	    .type = type, .transaction = tid, .local_comm_id = local, .remote_comm_id = remote, .qpn = qpn};
}

static enum cm_change a_to_b(struct fixture *f, struct cm_msg msg)
{
	return cm_observe(&f->table, &host_a, &host_b, &msg, &f->conn);
}

static enum cm_change b_to_a(struct fixture *f, struct cm_msg msg)
{
	return cm_observe(&f->table, &host_b, &host_a, &msg, &f->conn);
}

/* Opens the connection (comm_a, comm_b) with transaction comm_a. */
static struct cm_conn *open_pair(struct fixture *f, uint32_t comm_a, uint32_t comm_b)
{
	assert_int_equal(a_to_b(f, req(comm_a, comm_a)), CM_NO_CHANGE);
	assert_int_equal(b_to_a(f, rep(comm_a, comm_b, comm_a)), CM_OPENED);
	return f->conn;
}

static unsigned in_state(const struct fixture *f, enum cm_conn_state s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 4; i++)
		n += f->conns[i].state == s;
	return n;
}

static void cm_observe__req_and_rep_open(void **state)
{
	struct fixture *f = *state;
	const struct cm_conn *c;

	assert_int_equal(a_to_b(f, req(7, 1)), CM_NO_CHANGE);
	assert_int_equal(f->conn->state, CMC_REQ_SEEN);
	assert_int_equal(b_to_a(f, rep(7, 2, 1)), CM_OPENED);
	c = f->conn;
	assert_non_null(c);
	assert_true(ip_addr_eq(&c->a, &host_a) && ip_addr_eq(&c->b, &host_b));
	assert_int_equal(c->comm_a, 1);
	assert_int_equal(c->comm_b, 2);
	assert_int_equal(c->transaction, 7);
	assert_int_equal(c->qpn_a, 0x12);
	assert_int_equal(c->qpn_b, 0x13);
	/* each message names what its receiver does */
	assert_int_equal(c->psn_a, 0xa0a0a0);
	assert_int_equal(c->psn_b, 0xb0b0b0);
	assert_int_equal(c->rnr_retry_a, 6);
	assert_int_equal(c->rnr_retry_b, 5);
	assert_int_equal(c->pmtu, 1024);
	assert_int_equal(c->state, CMC_PAIRED);
}

/* From the bytes of both messages to the pair. */
static void cm_observe__bytes_to_pair(void **state)
{
	struct fixture *f = *state;
	uint8_t mad[256];

	mad_req(mad);
	assert_int_equal(a_to_b(f, read_cm(mad)), CM_NO_CHANGE);
	mad_rep(mad);
	assert_int_equal(b_to_a(f, read_cm(mad)), CM_OPENED);
	assert_int_equal(f->conn->qpn_a, 0x12);
	assert_int_equal(f->conn->qpn_b, 0x13);
	assert_int_equal(f->conn->psn_a, 0xfffe);
	assert_int_equal(f->conn->psn_b, 0x9b3f01);
	mad_ids(mad, 0x15, TID + 1, 0x77000005, 0x1c5d7001);
	put_be32(mad + 32, 0x000012a5);
	assert_int_equal(b_to_a(f, read_cm(mad)), CM_DISCONNECTING_);
}

static void cm_observe__repeats_change_nothing(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = open_pair(f, 1, 2), before = *c;

	for (int i = 0; i < 3; i++) {
		struct cm_msg again = req(1, 1);

		again.starting_psn = 0x777777; /* not even with other contents */
		assert_int_equal(a_to_b(f, again), CM_NO_CHANGE);
		assert_ptr_equal(f->conn, c);
		assert_int_equal(b_to_a(f, rep(1, 2, 1)), CM_NO_CHANGE);
		assert_ptr_equal(f->conn, c);
	}
	before.node = c->node;
	assert_memory_equal(c, &before, sizeof(before));
	assert_int_equal(in_state(f, CMC_FREE), 3);
}

static void cm_observe__rep_needs_its_req(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(b_to_a(f, rep(7, 2, 1)), CM_NO_CHANGE);
	assert_null(f->conn);
	a_to_b(f, req(7, 1));
	assert_int_equal(b_to_a(f, rep(8, 2, 1)), CM_NO_CHANGE); /* another transaction */
	assert_null(f->conn);
	assert_int_equal(b_to_a(f, rep(7, 2, 3)), CM_NO_CHANGE); /* another id */
	assert_null(f->conn);
	assert_int_equal(a_to_b(f, rep(7, 2, 1)), CM_NO_CHANGE); /* the wrong way */
	assert_null(f->conn);
	assert_int_equal(in_state(f, CMC_REQ_SEEN), 1);
	assert_int_equal(in_state(f, CMC_PAIRED), 0);
}

static void cm_observe__rep_from_another_host(void **state)
{
	struct fixture *f = *state;
	struct cm_msg msg = rep(7, 2, 1);

	a_to_b(f, req(7, 1));
	assert_int_equal(cm_observe(&f->table, &host_c, &host_a, &msg, &f->conn), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(b_to_a(f, msg), CM_OPENED);
}

static void cm_observe__second_rep_with_another_id(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = open_pair(f, 1, 2);

	assert_int_equal(b_to_a(f, rep(1, 9, 1)), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(c->comm_b, 2);
}

static void cm_observe__only_rc(void **state)
{
	struct fixture *f = *state;
	struct cm_msg msg = req(7, 1);

	msg.rc = false;
	assert_int_equal(a_to_b(f, msg), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(in_state(f, CMC_FREE), 4);
}

static void cm_observe__special_qpns_are_no_pair(void **state)
{
	struct fixture *f = *state;
	struct cm_msg msg = req(7, 1);

	msg.qpn = 1;
	a_to_b(f, msg);
	assert_null(f->conn);
	a_to_b(f, req(8, 1));
	msg = rep(8, 2, 1);
	msg.qpn = 0;
	assert_int_equal(b_to_a(f, msg), CM_NO_CHANGE);
	assert_int_equal(in_state(f, CMC_PAIRED), 0);
}

static void cm_observe__new_ids_open_again(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *first = open_pair(f, 1, 2), *second = open_pair(f, 3, 4);

	assert_ptr_not_equal(first, second);
	assert_int_equal(in_state(f, CMC_PAIRED), 2);
}

/* Both hosts ask each other with the same id and transaction. */
static void cm_observe__crossing_connections(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *ab, *ba;

	a_to_b(f, req(5, 1));
	b_to_a(f, req(5, 1));
	assert_int_equal(in_state(f, CMC_REQ_SEEN), 2);
	assert_int_equal(b_to_a(f, rep(5, 2, 1)), CM_OPENED);
	ab = f->conn;
	assert_int_equal(a_to_b(f, rep(5, 3, 1)), CM_OPENED);
	ba = f->conn;
	assert_true(ip_addr_eq(&ab->a, &host_a) && ip_addr_eq(&ba->a, &host_b));
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 6, 3, 1, 0x12)), CM_DISCONNECTING_);
	assert_ptr_equal(f->conn, ba);
	assert_int_equal(ab->state, CMC_PAIRED);
}

static void cm_observe__dreq_from_either_side(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = open_pair(f, 1, 2), *d = open_pair(f, 3, 4);

	assert_int_equal(a_to_b(f, ids(CM_DREQ, 100, 1, 2, 0x13)), CM_DISCONNECTING_);
	assert_ptr_equal(f->conn, c);
	assert_int_equal(b_to_a(f, ids(CM_DREQ, 101, 4, 3, 0x12)), CM_DISCONNECTING_);
	assert_ptr_equal(f->conn, d);
}

static void cm_observe__disconnects_once(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = open_pair(f, 1, 2);

	assert_int_equal(a_to_b(f, ids(CM_DREQ, 100, 1, 2, 0x13)), CM_DISCONNECTING_);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 100, 1, 2, 0x13)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
	assert_int_equal(b_to_a(f, ids(CM_DREP, 100, 2, 1, 0)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
	assert_int_equal(c->state, CMC_DISCONNECTING);
}

static void cm_observe__drep_alone(void **state)
{
	struct fixture *f = *state;

	open_pair(f, 1, 2);
	assert_int_equal(b_to_a(f, ids(CM_DREP, 100, 2, 1, 0)), CM_DISCONNECTING_);
}

static void cm_observe__dreq_of_nobody(void **state)
{
	struct fixture *f = *state;

	open_pair(f, 1, 2);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 100, 1, 3, 0x13)), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(b_to_a(f, ids(CM_DREQ, 100, 1, 2, 0x13)), CM_NO_CHANGE); /* ids the wrong way round */
	assert_null(f->conn);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 100, 1, 2, 0x14)), CM_NO_CHANGE); /* not the receiver's QPN */
	assert_null(f->conn);
	assert_int_equal(in_state(f, CMC_PAIRED), 1);
}

/* A host that started again may use the same ids in a new transaction: its DREQ means the new connection. */
static void cm_observe__ids_used_again(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *first = open_pair(f, 1, 2), *second;

	a_to_b(f, req(77, 1));
	assert_int_equal(b_to_a(f, rep(77, 2, 1)), CM_OPENED);
	second = f->conn;
	assert_ptr_not_equal(first, second);
	assert_int_equal(first->state, CMC_DISCONNECTING);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(b_to_a(f, ids(CM_DREQ, 100, 2, 1, 0x12)), i ? CM_NO_CHANGE : CM_DISCONNECTING_);
		assert_ptr_equal(f->conn, second);
	}
}

/* A connection that is only asked for has no second id that a DREQ could name. */
static void cm_observe__dreq_of_an_unanswered_req(void **state)
{
	struct fixture *f = *state;

	a_to_b(f, req(1, 1));
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 100, 1, 0, 0)), CM_NO_CHANGE);
	assert_null(f->conn);
}

/* Late copies of REQ and REP must not raise the dead. */
static void cm_observe__late_copies_after_the_end(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = open_pair(f, 1, 2);

	a_to_b(f, ids(CM_DREQ, 100, 1, 2, 0x13));
	assert_int_equal(a_to_b(f, req(1, 1)), CM_NO_CHANGE);
	assert_int_equal(b_to_a(f, rep(1, 2, 1)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
	assert_int_equal(c->state, CMC_DISCONNECTING);
}

static void cm_observe__rej_forgets_the_unpaired(void **state)
{
	struct fixture *f = *state;

	a_to_b(f, req(1, 1));
	assert_int_equal(b_to_a(f, ids(CM_REJ, 1, 0, 1, 0)), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(in_state(f, CMC_FREE), 4);
	assert_int_equal(b_to_a(f, rep(1, 2, 1)), CM_NO_CHANGE);
	/* the asking side may take it back too */
	a_to_b(f, req(2, 5));
	a_to_b(f, ids(CM_REJ, 2, 5, 0, 0));
	assert_int_equal(in_state(f, CMC_FREE), 4);
}

static void cm_observe__rej_leaves_the_paired(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = open_pair(f, 1, 2);

	assert_int_equal(b_to_a(f, ids(CM_REJ, 1, 2, 1, 0)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
	assert_int_equal(c->state, CMC_PAIRED);
	a_to_b(f, req(9, 9));
	b_to_a(f, ids(CM_REJ, 8, 0, 9, 0)); /* another transaction */
	assert_int_equal(in_state(f, CMC_REQ_SEEN), 1);
}

static void cm_observe__rtu_and_mra_point_at_it(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c;

	a_to_b(f, req(1, 1));
	c = f->conn;
	assert_int_equal(b_to_a(f, ids(CM_MRA, 1, 2, 1, 0)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
	b_to_a(f, rep(1, 2, 1));
	assert_int_equal(a_to_b(f, ids(CM_RTU, 1, 1, 2, 0)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
}

static void cm_observe__nothing_to_see(void **state)
{
	struct fixture *f = *state;

	open_pair(f, 1, 2);
	assert_int_equal(a_to_b(f, ids(CM_OTHER, 1, 1, 2, 0x13)), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(a_to_b(f, ids(CM_NONE, 1, 1, 2, 0x13)), CM_NO_CHANGE);
	assert_null(f->conn);
}

static void cm_observe__oldest_goes_first(void **state)
{
	struct fixture *f = *state;

	for (uint32_t id = 1; id <= 4; id++)
		open_pair(f, id, 100 + id);
	a_to_b(f, ids(CM_RTU, 1, 1, 101, 0)); /* 2 is the oldest now */
	open_pair(f, 5, 105);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 50, 2, 102, 0x13)), CM_NO_CHANGE);
	assert_null(f->conn);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 50, 1, 101, 0x13)), CM_DISCONNECTING_);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 50, 3, 103, 0x13)), CM_DISCONNECTING_);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 50, 5, 105, 0x13)), CM_DISCONNECTING_);
}

/* Thousands of short connections and unanswered requests: the long ones keep their places. */
static void cm_observe__churn_spares_live_pairs(void **state)
{
	struct fixture *f = *state;

	open_pair(f, 1, 101);
	open_pair(f, 2, 102);
	for (uint32_t id = 10; id < 3000; id++) {
		if (id & 1) {
			a_to_b(f, req(id, id));
			continue;
		}
		open_pair(f, id, id + 10000);
		a_to_b(f, ids(CM_DREQ, 5, id, id + 10000, 0x13));
	}
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 6, 1, 101, 0x13)), CM_DISCONNECTING_);
	assert_int_equal(b_to_a(f, ids(CM_DREQ, 6, 102, 2, 0x12)), CM_DISCONNECTING_);
}

/* Connections end without a word (a host is reset), and fill the table: set-ups at the same time all find their REPs. */
static void cm_observe__set_ups_share_a_table_of_live_pairs(void **state)
{
	struct fixture *f = *state;

	for (uint32_t id = 1; id <= 4; id++)
		open_pair(f, id, 100 + id);
	a_to_b(f, req(5, 5));
	a_to_b(f, req(6, 6));
	assert_int_equal(b_to_a(f, rep(5, 105, 5)), CM_OPENED);
	assert_int_equal(b_to_a(f, rep(6, 106, 6)), CM_OPENED);
	for (uint32_t id = 10; id < 20; id++)
		a_to_b(f, req(id, id)); /* of which nobody hears again */
	assert_int_equal(in_state(f, CMC_PAIRED), 2);
}

/* However often two hosts use the same ids: the latest connection is found, and no way to it grows longer. */
static void cm_observe__of_equal_ids_the_latest_is_found(void **state)
{
	struct fixture *f = *state;
	struct cm_conn *c = NULL;

	for (uint32_t life = 1; life <= 9; life++) {
		a_to_b(f, req(life, 7));
		assert_int_equal(b_to_a(f, rep(life, 8, 7)), CM_OPENED);
		c = f->conn;
	}
	assert_int_equal(in_state(f, CMC_PAIRED), 1);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 50, 7, 8, 0x13)), CM_DISCONNECTING_);
	assert_ptr_equal(f->conn, c);
	assert_int_equal(a_to_b(f, ids(CM_DREQ, 50, 7, 8, 0x13)), CM_NO_CHANGE);
	assert_ptr_equal(f->conn, c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cm_table__ids_make_up_for_no_transaction),
	    cmocka_unit_test(cm_table__nobody_can_choose_a_hash),
	    cmocka_unit_test(cm_parse__req),
	    cmocka_unit_test(cm_parse__req_path_mtu),
	    cmocka_unit_test(cm_parse__req_service_type),
	    cmocka_unit_test(cm_parse__rep),
	    cmocka_unit_test(cm_parse__messages_of_two_ids),
	    cmocka_unit_test(cm_parse__other),
	    cmocka_unit_test(cm_parse__not_cm),
	    cmocka_unit_test_setup(cm_observe__req_and_rep_open, set_up),
	    cmocka_unit_test_setup(cm_observe__bytes_to_pair, set_up),
	    cmocka_unit_test_setup(cm_observe__repeats_change_nothing, set_up),
	    cmocka_unit_test_setup(cm_observe__rep_needs_its_req, set_up),
	    cmocka_unit_test_setup(cm_observe__rep_from_another_host, set_up),
	    cmocka_unit_test_setup(cm_observe__second_rep_with_another_id, set_up),
	    cmocka_unit_test_setup(cm_observe__only_rc, set_up),
	    cmocka_unit_test_setup(cm_observe__special_qpns_are_no_pair, set_up),
	    cmocka_unit_test_setup(cm_observe__new_ids_open_again, set_up),
	    cmocka_unit_test_setup(cm_observe__crossing_connections, set_up),
	    cmocka_unit_test_setup(cm_observe__dreq_from_either_side, set_up),
	    cmocka_unit_test_setup(cm_observe__disconnects_once, set_up),
	    cmocka_unit_test_setup(cm_observe__drep_alone, set_up),
	    cmocka_unit_test_setup(cm_observe__dreq_of_nobody, set_up),
	    cmocka_unit_test_setup(cm_observe__ids_used_again, set_up),
	    cmocka_unit_test_setup(cm_observe__dreq_of_an_unanswered_req, set_up),
	    cmocka_unit_test_setup(cm_observe__late_copies_after_the_end, set_up),
	    cmocka_unit_test_setup(cm_observe__rej_forgets_the_unpaired, set_up),
	    cmocka_unit_test_setup(cm_observe__rej_leaves_the_paired, set_up),
	    cmocka_unit_test_setup(cm_observe__rtu_and_mra_point_at_it, set_up),
	    cmocka_unit_test_setup(cm_observe__nothing_to_see, set_up),
	    cmocka_unit_test_setup(cm_observe__oldest_goes_first, set_up),
	    cmocka_unit_test_setup(cm_observe__churn_spares_live_pairs, set_up),
	    cmocka_unit_test_setup(cm_observe__set_ups_share_a_table_of_live_pairs, set_up),
	    cmocka_unit_test_setup(cm_observe__of_equal_ids_the_latest_is_found, set_up),
	};

	return cmocka_run_group_tests_name("cm", tests, NULL, NULL);
}
