// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "addr.h"
#include "pattern.h"
#include "report.h"
#include "route.h"
#include "stop.h"

#define VERSION 1

/* How long the other end may take for each step that needs no traffic. */
#define STEP_NS         (20 * 1000000000ull)
#define CONNECT_NS      (10 * 1000000000ull)
#define MEMORY_MAX      (64ull << 20) /* exposed memory of all QPs together, as far as SLOTS_MIN allows */
#define MEMORY_HARD_MAX (4ull << 30)
#define BASE_VA         0x100000000ull
#define TURN_NS         50000000ull

/* Independent seeds for each QP: contents of the stream of one direction, and memory of one end at the start. */
static uint64_t stream_seed(const struct session *s, uint32_t qp, bool by_server)
{
	return pat_mix(s->opt.seed ^ pat_mix(qp * 4ull + (by_server ? 1 : 0)));
}

static uint64_t memory_seed(const struct session *s, uint32_t qp, bool of_server)
{
	return pat_mix(s->opt.seed ^ pat_mix(qp * 4ull + (of_server ? 3 : 2)));
}

static uint32_t random32(void)
{
	uint32_t v = 0;

	(void)getrandom(&v, sizeof(v), 0);
	return v;
}

static int say(const char *what, const char *why)
{
	fprintf(stderr, "rcperf: %s: %s\n", what, why);
	return 2;
}

/* ---- wiring up ---- */

static void send_hello(struct session *s)
{
	const struct opt *o = &s->opt;
	char addr[ADDR_TEXT_MAX];

	wire_send(&s->w,
	          "hello version=%d op=%d size=%u depth=%u qps=%u mtu=%u rd=%u secs_ns=%" PRIu64 " iters=%" PRIu64
	          " bidir=%d cm=%d seed=%" PRIu64 " warmup=%u addr=%s",
	          VERSION, (int)o->kind, o->size, o->depth, o->qps, o->mtu, o->rd_atomic, o->secs_ns, o->iters,
	          o->bidir, o->cm, o->seed, (unsigned)(o->warmup * 1e6), addr_write(&o->addr, addr));
}

static bool in_range(uint64_t v, uint64_t min, uint64_t max)
{
	return v >= min && v <= max;
}

/* Takes over what the client wants tested. False if it makes no sense. */
static bool take_hello(struct session *s, const char *line)
{
	struct opt *o = &s->opt;
	uint64_t kind = wire_u64(line, "op", PLAN_KINDS), size = wire_u64(line, "size", UINT64_MAX);
	uint64_t depth = wire_u64(line, "depth", 0), qps = wire_u64(line, "qps", 0), mtu = wire_u64(line, "mtu", 0);
	uint64_t rd = wire_u64(line, "rd", 0);
	const char *addr = wire_rest(line, "addr");

	if (!wire_is(line, "hello") || wire_u64(line, "version", 0) != VERSION || addr == NULL ||
	    !addr_read(addr, &o->peer) || ip_addr_is4(&o->peer) != ip_addr_is4(&o->addr))
		return false;
	if (kind >= PLAN_KINDS || size > SIZE_MAX_BYTES || !in_range(depth, 1, DEPTH_MAX) ||
	    !in_range(qps, 1, QPS_MAX) || !in_range(mtu, 256, 4096) || (mtu & (mtu - 1)) != 0 ||
	    !in_range(rd, 1, RD_ATOMIC_MAX))
		return false;
	o->kind = (enum plan_kind)kind;
	o->size = (uint32_t)size;
	o->depth = (uint32_t)depth;
	o->qps = (uint32_t)qps;
	o->mtu = (uint32_t)mtu;
	o->rd_atomic = (uint32_t)rd;
	o->secs_ns = wire_u64(line, "secs_ns", 0);
	o->iters = wire_u64(line, "iters", 0);
	o->bidir = wire_u64(line, "bidir", 0) != 0;
	o->cm = wire_u64(line, "cm", 0) != 0;
	o->seed = wire_u64(line, "seed", 0);
	o->warmup = (double)wire_u64(line, "warmup", 0) * 1e-6;
	return o->secs_ns > 0 || o->iters > 0;
}

static int make_qps(struct session *s, char err[256])
{
	const struct opt *o = &s->opt;
	int r = engine_open(&s->e, o, err);

	if (r != 0)
		return r;
	plan_init(&s->e.plan, o->kind, o->size, o->mtu, o->depth, MEMORY_MAX / o->qps);
	if ((plan_region_bytes(&s->e.plan) + (uint64_t)RECV_BUFFERS * s->e.plan.slot_bytes) * o->qps >
	    MEMORY_HARD_MAX) {
		snprintf(err, 256, "%u QPs with messages of %u bytes need more than 4 GiB", o->qps, o->size);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < o->qps; i++) {
		struct qp *qp = &s->e.qps[i];
		uint32_t psn = o->psn == PSN_RANDOM ? random32() & ROCE_PSN_MASK : o->psn;

		if (req_init(&s->e, qp, psn) != 0 ||
		    rsp_init(&s->e, qp, memory_seed(s, i, o->server), random32(), BASE_VA + ((uint64_t)i << 32)) != 0) {
			snprintf(err, 256, "no memory for %u QPs", o->qps);
			return -ENOMEM;
		}
		qp->req.seed = stream_seed(s, i, o->server);
		qp->rsp.seed = stream_seed(s, i, !o->server);
		qp->req.peer_init_seed = memory_seed(s, i, !o->server);
	}
	return cmlink_init(&s->cm, &s->e, !o->server);
}

static void send_qps(struct session *s)
{
	for (uint32_t i = 0; i < s->e.nqps; i++) {
		const struct qp *qp = &s->e.qps[i];

		wire_send(&s->w, "qp i=%u qpn=%u psn=%u rkey=%u va=%" PRIu64, i, qp->qpn, qp->req.psn_base,
		          qp->rsp.rkey, qp->rsp.va);
	}
	wire_send(&s->w, "ready");
}

static bool take_qp(struct session *s, const char *line)
{
	uint64_t i = wire_u64(line, "i", UINT64_MAX), qpn = wire_u64(line, "qpn", 0);
	uint64_t psn = wire_u64(line, "psn", UINT64_MAX);
	struct qp *qp;

	if (i >= s->e.nqps || qpn < 2 || qpn > ROCE_QPN_MASK || psn > ROCE_PSN_MASK)
		return false;
	qp = &s->e.qps[i];
	engine_connect(&s->e, qp, (uint32_t)qpn);
	qp->rsp.epsn = (uint32_t)psn;
	qp->req.peer_rkey = (uint32_t)wire_u64(line, "rkey", 0);
	qp->req.peer_va = wire_u64(line, "va", 0);
	return true;
}

/* Reads the other end's QPs up to "ready". */
static bool take_qps(struct session *s, char err[256])
{
	for (;;) {
		const char *line = wire_wait(&s->w, STEP_NS);

		if (line == NULL || wire_is(line, "refuse")) {
			const char *why = line != NULL ? wire_rest(line, "why") : NULL;

			snprintf(err, 256, "%s", why != NULL ? why : "the other end says nothing");
			return false;
		}
		if (wire_is(line, "ready"))
			return true;
		if (wire_is(line, "qp") && !take_qp(s, line)) {
			snprintf(err, 256, "unsound line from the other end: %.100s", line);
			return false;
		}
	}
}

static int find_peer(struct session *s, char err[256])
{
	uint8_t mac[6];
	int r = route_next_hop(s->e.port.ifindex, &s->opt.addr, &s->opt.peer, mac);

	if (r != 0) {
		snprintf(err, 256, "next hop to the other end: %s", strerror(-r));
		return r;
	}
	port_set_peer_mac(&s->e.port, mac, !ip_addr_is4(&s->opt.peer));
	return 0;
}

/* ---- traffic ---- */

static void start(struct session *s)
{
	const struct opt *o = &s->opt;
	uint64_t now = clock_ns(), run_ns = o->iters > 0 ? 0 : o->secs_ns, msgs = o->iters * o->qps;

	s->self_active = !o->server || o->bidir;
	s->peer_active = o->server || o->bidir;
	s->started_ns = s->shown_ns = s->e.now_ns = now;
	s->stop_ns = run_ns > 0 ? now + run_ns : NEVER;
	meter_start(&s->e.done, now, run_ns, msgs, o->warmup);
	meter_start(&s->e.exec, now, run_ns, msgs, o->warmup);
	s->e.ctl_fd = s->w.fd;
	s->e.hang_at_ns = o->hang_ns > 0 ? now + o->hang_after_ns : 0;
	for (uint32_t i = 0; i < s->e.nqps && s->self_active; i++) {
		s->e.qps[i].req.goal = o->iters > 0 ? o->iters : NEVER;
		engine_mark_ready(&s->e, &s->e.qps[i]);
	}
}

/* By CM, the client brings the QPs up before the traffic; the server only answers. */
static void connect_by_cm(struct session *s)
{
	cmlink_begin(&s->cm, CMS_UP);
	while (!s->opt.server && s->e.failure[0] == 0 && !cmlink_tick(&s->cm))
		engine_step(&s->e, s->cm.look_ns);
}

static void stop_posting(struct session *s)
{
	s->stop_ns = NEVER;
	for (uint32_t i = 0; i < s->e.nqps; i++)
		req_stop(&s->e.qps[i].req);
}

static bool all_completed(const struct session *s)
{
	const struct stats *st = &s->e.stats;
	uint64_t goal = s->opt.iters > 0 ? s->opt.iters * s->opt.qps : st->msgs_posted;

	return s->stop_ns == NEVER && st->msgs_done == goal;
}

/* Own requests: tells the other end when the last one has completed. */
static void watch_own(struct session *s)
{
	if (!s->self_active || s->done_sent)
		return;
	if (s->e.now_ns >= s->stop_ns)
		stop_posting(s);
	if (!all_completed(s))
		return;
	s->done_sent = true;
	s->done_ns = s->e.now_ns;
	wire_send(&s->w, "done msgs=%" PRIu64, s->e.stats.msgs_posted);
}

/* The other end's requests: says when all of them are executed, or that some never came. */
static void watch_peers(struct session *s)
{
	struct stats *st = &s->e.stats;
	uint64_t late_ns = s->e.now_ns - s->peer_done_ns;

	if (!s->peer_done || s->executed_sent || (st->msgs_exec < s->peer_msgs && late_ns < s->opt.drain_ns))
		return;
	if (st->msgs_exec < s->peer_msgs)
		st->missing = s->peer_msgs - st->msgs_exec;
	s->executed_sent = true;
	wire_send(&s->w, "executed missing=%" PRIu64 " late_us=%" PRIu64, st->missing, late_ns / 1000);
}

static void take_done(struct session *s, const char *line)
{
	s->peer_done = true;
	s->peer_done_ns = s->e.now_ns;
	s->peer_msgs = wire_u64(line, "msgs", 0);
	if (s->e.stats.msgs_exec < s->peer_msgs)
		s->e.stats.missing_at_done = s->peer_msgs - s->e.stats.msgs_exec;
}

static void take_line(struct session *s, const char *line)
{
	const char *why = wire_rest(line, "why");

	if (wire_is(line, "done")) {
		take_done(s, line);
	} else if (wire_is(line, "executed")) {
		s->executed_seen = true;
		s->drained_ns = clock_ns() - s->done_ns;
	} else if (wire_is(line, "quiet")) {
		s->quiet_seen = true;
	} else if (wire_is(line, "fail")) {
		snprintf(s->peer_failure, sizeof(s->peer_failure), "%s", why != NULL ? why : "failed");
	}
}

static void read_ctl(struct session *s)
{
	const char *line;

	s->e.ctl_readable = false;
	while (!s->quiet_seen && (line = wire_poll(&s->w)) != NULL)
		take_line(s, line);
	if (s->w.closed && s->peer_failure[0] == 0)
		snprintf(s->peer_failure, sizeof(s->peer_failure), "control connection lost");
}

/* The client disconnects as soon as nothing is open any more in either direction: as a program does that has seen its
 * completions. */
static void watch_cm(struct session *s)
{
	if (!s->opt.cm || s->opt.server || !s->done_sent || (s->peer_active && !s->peer_done) || s->dreq_over)
		return;
	if (!s->dreq_begun)
		cmlink_begin(&s->cm, CMS_DOWN);
	s->dreq_begun = true;
	s->dreq_over = cmlink_tick(&s->cm);
	s->dreq_ns = s->e.now_ns - s->cm.began_ns;
}

static bool directions_over(const struct session *s)
{
	if (s->dreq_begun && !s->dreq_over)
		return false;
	return (!s->self_active || s->executed_seen) && (!s->peer_active || s->executed_sent);
}

static bool failed(const struct session *s)
{
	return s->e.failure[0] != 0 || s->peer_failure[0] != 0;
}

static uint64_t next_turn(const struct session *s)
{
	uint64_t t = s->e.now_ns + TURN_NS;

	return t < s->stop_ns ? t : s->stop_ns;
}

/* Runs until both directions are over or somebody failed. The server goes on until the client says quiet: an ACK of its
 * may still have to be repeated. */
static void run(struct session *s)
{
	while (!failed(s) && !(directions_over(s) && (!s->opt.server || s->quiet_seen))) {
		engine_step(&s->e, next_turn(s));
		if (s->e.ctl_readable)
			read_ctl(s);
		if (stop_wanted())
			engine_fail(&s->e, "stopped by a signal");
		watch_own(s);
		watch_peers(s);
		watch_cm(s);
		if (s->opt.interval_ns > 0 && s->e.now_ns - s->shown_ns >= s->opt.interval_ns)
			report_progress(s);
	}
	if (s->e.failure[0] != 0)
		wire_send(&s->w, "fail why=%s", s->e.failure);
	else
		wire_send(&s->w, "quiet");
}

/* A requester that fails has packets and a fatal NAK of its peer on the way: lets them arrive before judging. */
static void settle_failure(struct session *s)
{
	uint64_t until = clock_ns() + 100000000;

	while (clock_ns() < until)
		engine_step(&s->e, until);
}

/* ---- verdict ---- */

static void send_expectations(struct session *s)
{
	for (uint32_t i = 0; i < s->e.nqps; i++) {
		const struct requester *r = &s->e.qps[i].req;

		wire_send(&s->w, "expect i=%u digest=%" PRIu64 " msgs=%" PRIu64, i,
		          rsp_expected_digest(&s->e.plan, r->seed, r->peer_init_seed, r->msg_end, r->words),
		          r->msg_end);
	}
	wire_send(&s->w, "end");
}

static void judge_memory(struct session *s, const char *line)
{
	uint64_t i = wire_u64(line, "i", UINT64_MAX);

	if (i >= s->e.nqps)
		return;
	if (rsp_memory_digest(&s->e.qps[i].rsp) != wire_u64(line, "digest", 0))
		s->e.stats.memory_wrong++;
	if (s->e.qps[i].rsp.due != wire_u64(line, "msgs", UINT64_MAX))
		s->e.stats.order_wrong++;
}

static void compare_memory(struct session *s)
{
	const char *line;

	send_expectations(s);
	while ((line = wire_wait(&s->w, STEP_NS)) != NULL && !wire_is(line, "end")) {
		if (wire_is(line, "expect"))
			judge_memory(s, line);
		else
			take_line(s, line);
	}
}

static void exchange_reports(struct session *s)
{
	const char *line;

	s->e.stats.rx_ring_drops = port_ring_drops(&s->e.port);
	report_collect(&s->e, &s->mine);
	report_send(&s->w, &s->mine);
	wire_send(&s->w, "verdict");
	while ((line = wire_wait(&s->w, STEP_NS)) != NULL && !wire_is(line, "verdict")) {
		if (!report_take(line, &s->peers))
			take_line(s, line);
	}
	s->have_peers = line != NULL;
}

static int conclude(struct session *s)
{
	if (failed(s))
		settle_failure(s);
	else
		compare_memory(s);
	exchange_reports(s);
	if (!s->opt.server || !s->opt.quiet)
		report_print(s);
	return report_ok(s) ? 0 : 1;
}

/* ---- the two ends ---- */

static int run_client(struct session *s, char err[256])
{
	if (make_qps(s, err) != 0 || find_peer(s, err) != 0)
		return 2;
	send_hello(s);
	send_qps(s);
	if (!take_qps(s, err))
		return 2;
	if (s->opt.cm)
		connect_by_cm(s);
	if (s->e.failure[0] != 0) {
		snprintf(err, 256, "%s", s->e.failure);
		return 2;
	}
	wire_send(&s->w, "go");
	start(s);
	run(s);
	return conclude(s);
}

static struct session *new_session(const struct opt *o)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s != NULL) {
		s->opt = *o;
		s->e.port.fd = s->e.port.guard.udp_fd = s->w.fd = -1;
	}
	return s;
}

static void end_session(struct session *s)
{
	cmlink_free(&s->cm);
	engine_close(&s->e);
	wire_close(&s->w);
	free(s);
}

int session_client(const struct opt *o)
{
	struct session *s = new_session(o);
	char err[256] = "";
	int r;

	if (s == NULL)
		return say("client", "no memory");
	if (s->opt.seed == 0)
		s->opt.seed = (uint64_t)random32() << 20 | random32();
	r = wire_connect(&s->w, &o->addr, &o->peer, o->ctl_port, CONNECT_NS);
	if (r != 0)
		snprintf(err, sizeof(err), "control connection: %s", strerror(-r));
	r = r != 0 ? 2 : run_client(s, err);
	if (err[0] != 0)
		say("client", err);
	end_session(s);
	return r;
}

/* Until the client starts, its CM requests are answered. */
static const char *wait_for_go(struct session *s)
{
	const char *line = NULL;
	uint64_t until = clock_ns() + STEP_NS;

	s->e.ctl_fd = s->w.fd;
	while (line == NULL && !s->w.closed && !stop_wanted() && clock_ns() < until) {
		engine_step(&s->e, until);
		line = wire_poll(&s->w);
	}
	return line;
}

static int run_server(struct session *s, char err[256])
{
	const char *line = wire_wait(&s->w, STEP_NS);

	if (line == NULL || !take_hello(s, line)) {
		snprintf(err, 256, "unsound hello");
		return 2;
	}
	if (make_qps(s, err) != 0 || find_peer(s, err) != 0 || !take_qps(s, err))
		return 2;
	if (s->opt.cm)
		connect_by_cm(s);
	send_qps(s);
	line = wait_for_go(s);
	if (line == NULL || !wire_is(line, "go")) {
		snprintf(err, 256, "the client does not start");
		return 2;
	}
	start(s);
	run(s);
	return conclude(s);
}

int session_server(const struct opt *o, int listen_fd)
{
	struct session *s = new_session(o);
	char err[256] = "";
	int r;

	if (s == NULL)
		return say("server", "no memory");
	r = wire_accept(&s->w, listen_fd);
	if (r != 0) {
		end_session(s);
		if (stop_wanted())
			return 0;
		return say("accept", strerror(-r));
	}
	r = run_server(s, err);
	if (err[0] != 0) {
		wire_send(&s->w, "refuse why=%s", err);
		say("server", err);
	}
	end_session(s);
	return r;
}
