// SPDX-License-Identifier: Apache-2.0
/* verdict.c - after the traffic: each end learns what its memory must be, and what the other one counted. */
#include "verdict.h"

#include <inttypes.h>

#include "report.h"
#include "wireup.h"

/* A requester that fails has packets and a fatal NAK of its peer on the way: lets them arrive before judging. */
static void settle_failure(struct session *s)
{
	uint64_t until = clock_ns() + 100000000;

	while (clock_ns() < until)
		engine_step(&s->e, until);
}

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
			session_take_line(s, line);
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
			session_take_line(s, line);
	}
	s->have_peers = line != NULL;
}

int verdict_reach(struct session *s)
{
	if (session_failed(s))
		settle_failure(s);
	else
		compare_memory(s);
	exchange_reports(s);
	if (!s->opt.server || !s->opt.quiet)
		report_print(s);
	return report_ok(s) ? 0 : 1;
}
