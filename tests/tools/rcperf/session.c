// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "stop.h"
#include "verdict.h"
#include "wireup.h"

#define CONNECT_NS (10 * 1000000000ull)
#define TURN_NS    50000000ull

static int say(const char *what, const char *why)
{
	fprintf(stderr, "rcperf: %s: %s\n", what, why);
	return 2;
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

/* A timed run ends now, if it has not ended. */
static void end_time(struct session *s)
{
	if (s->stop_ns != NEVER)
		s->stop_ns = s->e.now_ns;
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
	end_time(s); /* of both directions at once: the peer's time may have been cut short */
	s->peer_done_ns = s->e.now_ns;
	s->peer_msgs = wire_u64(line, "msgs", 0);
	if (s->e.stats.msgs_exec < s->peer_msgs)
		s->e.stats.missing_at_done = s->peer_msgs - s->e.stats.msgs_exec;
}

void session_take_line(struct session *s, const char *line)
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
		session_take_line(s, line);
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

bool session_failed(const struct session *s)
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
	while (!session_failed(s) && !(directions_over(s) && (!s->opt.server || s->quiet_seen))) {
		engine_step(&s->e, next_turn(s));
		if (s->e.ctl_readable)
			read_ctl(s);
		if (stop_wanted())
			engine_fail(&s->e, "stopped by a signal");
		if (stop_time_is_over())
			end_time(s);
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

/* ---- the two ends ---- */

static int run_client(struct session *s, char err[256])
{
	if (wireup_make_qps(s, err) != 0 || wireup_find_peer(s, err) != 0)
		return 2;
	wireup_send_hello(s);
	wireup_send_qps(s);
	if (!wireup_take_qps(s, err))
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
	return verdict_reach(s);
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
		s->opt.seed = wireup_random_seed();
	r = wire_connect(&s->w, &o->ctl_from, &o->ctl, o->ctl_port, CONNECT_NS);
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

	if (line == NULL || !wireup_take_hello(s, line)) {
		snprintf(err, 256, "unsound hello");
		return 2;
	}
	if (wireup_make_qps(s, err) != 0 || wireup_find_peer(s, err) != 0 || !wireup_take_qps(s, err))
		return 2;
	if (s->opt.cm)
		connect_by_cm(s);
	wireup_send_qps(s);
	line = wait_for_go(s);
	if (line == NULL || !wire_is(line, "go")) {
		snprintf(err, 256, "the client does not start");
		return 2;
	}
	start(s);
	run(s);
	return verdict_reach(s);
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
