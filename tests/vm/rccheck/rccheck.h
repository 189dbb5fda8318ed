/* SPDX-License-Identifier: Apache-2.0 */
/* rccheck.h - a checker of what RC promises: contents, order, exactly once.
 *
 * Theory of operation
 *
 * Two processes, one on each host, hold a TCP connection (control) and a number of RC queue pairs. They go through
 * phases, a phase through rounds. In a round the initiator of each queue pair posts `iters` requests whose every byte
 * follows from (seed, direction, queue pair, phase, round, sequence number), so that the target can say of each
 * byte whether it is right and, if it is not, whose it is. With -b both sides are initiator and target at once.
 *
 *   send   arrive in the order posted, each once, with the right length
 *   write  each into a slot of its own; slots, the space behind them and what was not written are all verified
 *   imm    the same, and the immediate counts up; the bytes are there when the immediate is
 *   read   bring back what the target holds
 *   fadd   on a cell of the queue pair (must return 0, 1, 2 ...) and on one shared by all (each number once)
 *   cas    three that must hit and one that must miss, and the value that each returned
 *   mix    all of these on one queue pair in random order; a READ must see the WRITE before it
 *   lat    WRITEs one at a time, for their latency
 *
 * Requests complete in the order posted. A slot that was verified is poisoned; poison that changes later tells of
 * a request that was executed again.
 *
 * When may the target look? By default (strict) as soon as the initiator says over TCP that its last request
 * completed: a completion means executed. Also on the way, every PROBE_EVERY-th WRITE is looked at as soon as it
 * completed. With --early-acks, for ACKs that are given before that, it looks when a SEND posted behind the others
 * on the same queue pair has arrived.
 *
 * Contents follow from --seed and the phases alone: another run of the same options sends the same bytes. With --psn 0 and with QPNs that
 * come again (they do when the device was made anew) it is a life that its packets do not tell from the one before;
 * --same takes away the differences within a life as well. lives.sh does that.
 *
 * A drill goes instead of the phases, with WRITEs of -s bytes:
 *   refuse-*  one WRITE in the middle has a wrong rkey, or what --refusal says: refuse.c
 *   tell      -r times: when -n WRITEs per queue pair have completed, TCP says so, and the bytes must be there
 *   part      with -R: rdma_disconnect follows right after the last completion, and no byte may be missing
 */
#ifndef RCCHECK_RCCHECK_H
#define RCCHECK_RCCHECK_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QPS_MAX        64
#define DEPTH_MAX      128
#define GUARD_BYTES    64 /* behind every slot, never to be written */
#define MARKER_BYTES   16 /* the SEND that ends a round */
#define PROBE_EVERY    16
#define RD_ATOMIC      16
#define COMPLAINTS_MAX 20
#define MEMORY_MAX     (768ULL << 20)
#define MEMORY_AT      0x600000000000ULL /* wanted: packets of two lives are alike only if their addresses are */
#define PSN_RANDOM     UINT32_MAX

enum phase_id { PHASE_SEND, PHASE_WRITE, PHASE_IMM, PHASE_READ, PHASE_FADD, PHASE_CAS, PHASE_MIX, PHASE_LAT, PHASES };
extern const char *const phase_names[PHASES];

enum op { OP_SEND, OP_WRITE, OP_IMM, OP_READ, OP_READBACK, OP_FADD, OP_FADD_SHARED, OP_CAS, OP_MARKER };

enum misbehaviour { BREAK_NOTHING, BREAK_BYTE, BREAK_ORDER, BREAK_ATOMIC, BREAK_LATE, BREAKS };
extern const char *const break_names[BREAKS];

enum drill { DRILL_NONE, DRILL_REFUSE_BUSY, DRILL_REFUSE_NEXT, DRILL_REFUSE_IDLE, DRILL_TELL, DRILL_PART, DRILLS };
extern const char *const drill_names[DRILLS];

/* Why a responder takes no more: a wrong rkey, a SEND longer than the receive, its queue pair is in the error state. */
enum refusal { REFUSAL_RKEY, REFUSAL_LENGTH, REFUSAL_GONE, REFUSALS };
extern const char *const refusal_names[REFUSALS];

/* What the client decides; the server gets it over the control connection. */
struct options {
	uint32_t qps, iters, rounds, depth, size, mtu;
	uint32_t phases; /* bit per phase_id */
	uint32_t seed;
	uint32_t bidir, cm, early_acks, fixed_size, slow_receiver;
	uint32_t lat_min_us;  /* a completion sooner than this is a failure; 0: any */
	uint32_t lat_max_us;  /* the median of phase lat above this is a failure; 0: any */
	uint32_t stall_s;     /* without any progress: failure */
	uint32_t ack_timeout; /* IB's exponent */
	uint32_t retry;       /* retry_cnt; rxe takes 7 for ever */
	uint32_t rnr_retry;   /* 7: for ever */
	uint32_t seconds;     /* rounds go on for so long; 0: `rounds` of them */
	uint32_t misbehave;   /* enum misbehaviour */
	uint32_t drill;       /* enum drill, instead of phases */
	uint32_t refusal;     /* enum refusal, in the drills refuse-* */
	uint32_t first_psn;   /* of every queue pair, at both ends; PSN_RANDOM: one of its own each */
	uint32_t same;        /* all messages of a queue pair have the same contents */
};

/* A posted request. */
struct posted {
	enum op op;
	uint32_t seq, len;
	uint32_t read_of; /* OP_READBACK: sequence number of the WRITE that it must see */
	uint64_t post_ns;
};

/* Byte offsets in the memory region, the same in both processes. */
struct layout {
	size_t stride, tx, rx, landing, window, source, cells, results, total;
};

struct qp {
	struct ibv_qp *qp;
	struct rdma_cm_id *id; /* with rdma_cm */
	uint32_t psn;
	uint32_t index;

	/* initiator */
	uint32_t next_post, next_done; /* sequence numbers; iters is the marker's */
	uint32_t fadds_posted, fadds_done, cas_posted, cas_done;
	uint32_t last_write; /* newest slot written by a posted request, or UINT32_MAX */
	struct posted posted[DEPTH_MAX];

	/* target */
	uint32_t next_rx;    /* next sequence number that brings a receive completion */
	uint64_t recvs;      /* receive completions so far: which buffer is next */
	uint32_t recvs_owed; /* consumed and not posted again */
	bool verified;
	bool poisoned;
};

struct phase_result {
	uint64_t messages, bytes;
	uint64_t busy_ns;
	uint64_t lat_min_ns, lat_max_ns, lat_sum_ns;
	uint64_t lat_median_ns; /* of the newest samples */
};

#define LAT_SAMPLES 4096

struct check {
	struct options opt;
	bool server;
	int control;
	struct layout at;

	struct ibv_context *dev;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *mem;
	uint64_t peer_mem;
	uint32_t peer_rkey;
	struct rdma_event_channel *cm_channel;
	struct qp qps[QPS_MAX];

	/* the round that is running */
	enum phase_id phase;
	uint32_t round;
	uint32_t shared_posted;
	uint8_t *shared_seen; /* one byte per value that the shared cell can return */
	bool end_sent, peer_ended;
	uint64_t progress_ns;

	struct phase_result result[PHASES];
	uint64_t lat_samples[LAT_SAMPLES];
	uint32_t nlat;
	uint64_t failures;
};

/* --- pattern.c: the bytes --- */

uint64_t mix64(uint64_t x);
/* direction 0: posted by the client, 1: by the server. */
uint64_t message_key(const struct check *c, bool from_server, uint32_t qp, uint32_t seq);
uint32_t message_len(const struct check *c, uint64_t key);
void pattern_fill(uint8_t *p, size_t len, uint64_t key);
/* Offset of the first wrong byte, len if there is none. */
size_t pattern_check(const uint8_t *p, size_t len, uint64_t key);
#define FILL_BACKGROUND 0x5a
#define FILL_POISON     0xc3
size_t fill_check(const uint8_t *p, size_t len, uint8_t value);

/* --- control.c: the TCP connection --- */

enum ctl_type {
	CTL_OPTIONS = 1,
	CTL_MEMORY,
	CTL_QP,
	CTL_SYNC,
	CTL_ROUND,
	CTL_DONE,
	CTL_PROBE,
	CTL_END,
	CTL_RESULT,
	CTL_TOLD
};
#define CTL_WORDS 28
struct ctl {
	uint32_t type;
	uint32_t w[CTL_WORDS];
};

int control_listen(uint16_t port);
int control_accept(int listener);
int control_connect(const char *host, uint16_t port, uint32_t wait_s);
void control_send(struct check *c, const struct ctl *m);
/* Blocks for a whole message, at most stall_s. */
void control_recv(struct check *c, struct ctl *m);
/* The next message, which must be of this type. */
void control_expect(struct check *c, uint32_t type, struct ctl *m);
/* Waits until both sides are here. */
void control_sync(struct check *c, uint32_t where);

/* --- wire.c: device, memory, queue pairs --- */

void wire_open(struct check *c);
void wire_connect(struct check *c, uint16_t port);
void wire_close(struct check *c);

/* --- cm.c: queue pairs by rdma_cm --- */

void cm_connect(struct check *c, uint16_t port, const struct ibv_qp_init_attr *qp_attr);
void cm_disconnect(struct check *c);
struct ibv_context *cm_device(struct check *c);

/* --- initiator.c, target.c: the two roles; round.c: what drives them --- */

enum op op_of(const struct check *c, uint64_t key);
bool op_has_receive(enum op op);
bool op_writes_slot(enum op op);
/* What the compare-and-swap cell holds before the n-th (from 0) of a round. */
uint32_t cas_value_before(uint32_t n);
bool cas_must_miss(uint32_t n);

void initiator_start(struct check *c, struct qp *q);
void initiator_post(struct check *c, struct qp *q);
void initiator_completion(struct check *c, struct qp *q, const struct ibv_wc *wc);
bool initiator_done(const struct check *c, const struct qp *q);
void initiator_finish(struct check *c);

void target_post_receives(struct check *c, struct qp *q);
void target_start(struct check *c, struct qp *q);
void target_receive(struct check *c, struct qp *q, const struct ibv_wc *wc);
void target_probe(struct check *c, struct qp *q, uint32_t seq);
void target_verify(struct check *c, struct qp *q);
void target_finish(struct check *c);
void target_check_poison(struct check *c, struct qp *q);

void round_run(struct check *c, enum phase_id phase, uint32_t round);

/* --- drill.c, refuse.c: instead of phases, what no round can show --- */

void drill_run(struct check *c);
/* A WRITE of opt.size bytes into that slot of the window; its wr_id says the queue pair and next_post. */
void drill_post(struct check *c, struct qp *q, uint32_t slot, uint32_t rkey);
/* A SEND longer than any receive, in its place. */
void drill_post_too_long(struct check *c, struct qp *q);
/* The next completion; false, after a little while, if there is none, or one of a queue pair that has had its turn. */
bool drill_poll(struct check *c, const struct qp *q, struct ibv_wc *wc);
bool drill_slot_right(const struct check *c, const struct qp *q, uint32_t slot);
bool drill_slot_untouched(const struct check *c, const struct qp *q, uint32_t slot);
void refuse(struct check *c, struct qp *q);
/* Around the end of a queue pair made by rdma_cm; nothing unless the drill is `part`. */
void part_before(struct check *c, struct qp *q);
void part_after(struct check *c, struct qp *q);

/* --- rccheck.c --- */

uint64_t now_ns(void);
bool is_initiator(const struct check *c);
bool is_target(const struct check *c);
uint64_t cell_offset(const struct check *c, uint32_t qp, enum op op);
/* Counts a failure and says it. */
void complain(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says it and ends: there is no going on. */
void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
