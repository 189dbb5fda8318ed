/* SPDX-License-Identifier: Apache-2.0 */
#include "rate.h"

#include <string.h>

#include "wan_pacer.h"

static const struct rate_ops *const table[] = {
#define X(name, ops) &ops,
    RATE_CONTROLLERS(X)
#undef X
};

#define LOAD(x)     atomic_load_explicit(&(x), memory_order_relaxed)
#define STORE(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)
#define ADD(x, v)   atomic_fetch_add_explicit(&(x), (v), memory_order_relaxed)

const struct rate_ops *rate_ops_of(enum rate_controller which)
{
	return table[which];
}

uint64_t rate_bytes(uint64_t bps, uint64_t ns)
{
	return bps / 8000 * (ns / 1000) / 1000;
}

uint64_t rate_from(uint64_t bytes, uint64_t ns)
{
	return bytes < 1ull << 31 ? bytes * 8000000000ull / ns : bytes * 8000000 / (ns / 1000 + 1);
}

/* --- its life --- */

/* Called with `busy` held. */
static void begin_controller(struct rate_control *c, const struct rate_ops *ops, uint64_t now_ns)
{
	memset(c->state, 0, sizeof(c->state));
	c->seen_delivered = LOAD(c->delivered_bytes);
	c->seen_lost = LOAD(c->lost_bytes);
	c->seen_spurious = LOAD(c->spurious_bytes);
	c->seen_ce = LOAD(c->ce);
	rate_catch_up(c, 0);
	ops->init(c, now_ns);
	STORE(c->state_name, ops->state(c));
	STORE(c->ops, ops);
}

static bool control_try_enter(struct rate_control *c)
{
	return !atomic_flag_test_and_set_explicit(&c->busy, memory_order_acquire);
}

static void control_leave(struct rate_control *c)
{
	atomic_flag_clear_explicit(&c->busy, memory_order_release);
}

void rate_init(struct rate_control *c, struct wan_pacer *pacer, uint64_t ceiling_bps)
{
	memset(c, 0, sizeof(*c));
	atomic_flag_clear(&c->busy);
	c->pacer = pacer;
	STORE(c->ceiling_bps, ceiling_bps);
	STORE(c->wanted, &rate_fixed);
	begin_controller(c, &rate_fixed, 0);
}

void rate_choose(struct rate_control *c, enum rate_controller which, uint64_t ceiling_bps)
{
	STORE(c->ceiling_bps, ceiling_bps);
	STORE(c->wanted, table[which]);
	if (!control_try_enter(c))
		return; /* the shard in the controller takes `wanted` up with the next report */
	if (LOAD(c->ops) != table[which] || !table[which]->on_acked)
		begin_controller(c, table[which], 0);
	control_leave(c);
}

void rate_again(struct rate_control *c, uint64_t now_ns)
{
	if (!control_try_enter(c))
		return;
	begin_controller(c, LOAD(c->wanted), now_ns);
	control_leave(c);
}

void rate_set(struct rate_control *c, uint64_t bps, uint64_t in_flight_max_bytes)
{
	uint64_t ceiling = LOAD(c->ceiling_bps);

	STORE(c->pacer->rate_bps, bps < ceiling ? bps : ceiling);
	STORE(c->in_flight_max_bytes, in_flight_max_bytes);
}

void rate_catch_up(struct rate_control *c, uint64_t ns)
{
	STORE(c->catch_up_ns, ns);
}

/* --- sending --- */

bool rate_has_room(struct rate_control *c)
{
	if (LOAD(c->in_flight_bytes) < LOAD(c->in_flight_max_bytes))
		return true;
	STORE(c->full, true);
	return false;
}

void rate_waits(struct rate_control *c, bool waits)
{
	if (waits)
		ADD(c->waiting, 1);
	else
		atomic_fetch_sub_explicit(&c->waiting, 1, memory_order_relaxed);
}

bool rate_is_waited_for(const struct rate_control *c)
{
	return LOAD(c->waiting) != 0;
}

/* Lost bytes count too: on a line that overflows, delivering as many bytes as a flight has takes many round trips, and
 * all of them would count as application-limited. */
static uint64_t settled_bytes(struct rate_control *c)
{
	return LOAD(c->delivered_bytes) + LOAD(c->lost_bytes);
}

/* True if the in-flight limit kept more from being sent. */
static bool had_no_room(struct rate_control *c)
{
	return LOAD(c->full) && LOAD(c->in_flight_bytes);
}

bool rate_is_late(struct rate_control *c)
{
	return rate_tracks(c) && LOAD(c->waiting) && !had_no_room(c);
}

void rate_time_unused(struct rate_control *c)
{
	uint64_t until = settled_bytes(c) + LOAD(c->in_flight_bytes) + 1;

	if (!rate_tracks(c) || had_no_room(c))
		return;
	if (LOAD(c->waiting))
		STORE(c->late_until, until);
	else
		STORE(c->app_limited_until, until);
}

void rate_on_sent(struct rate_control *c, struct rate_mark *m, uint64_t now_ns, uint32_t bytes)
{
	const struct rate_ops *ops = LOAD(c->ops);
	uint64_t in_flight;

	if (!ops->on_acked)
		return;
	in_flight = ADD(c->in_flight_bytes, bytes);
	if (in_flight == 0) {
		STORE(c->first_sent_ns, now_ns);
		STORE(c->delivered_ns, now_ns);
	}
	*m = (struct rate_mark){.delivered_bytes = LOAD(c->delivered_bytes),
	                        .delivered_ns = LOAD(c->delivered_ns),
	                        .first_sent_ns = LOAD(c->first_sent_ns),
	                        .in_flight_bytes = in_flight + bytes,
	                        .bytes = bytes,
	                        .app_limited = LOAD(c->app_limited_until) != 0,
	                        .late = LOAD(c->late_until) != 0};
	if ((!ops->on_sent && !(ops->on_idle && in_flight == 0)) || !control_try_enter(c))
		return;
	if (ops->on_idle && in_flight == 0)
		ops->on_idle(c, now_ns);
	if (ops->on_sent)
		ops->on_sent(c, now_ns, bytes);
	control_leave(c);
}

/* --- fate of datagrams --- */

void rate_on_gone(struct rate_control *c, uint64_t bytes)
{
	if (bytes)
		atomic_fetch_sub_explicit(&c->in_flight_bytes, bytes, memory_order_relaxed);
}

void rate_on_arrived(struct rate_control *c, struct rate_pick *pick, const struct rate_mark *m, uint64_t sent_ns,
                     uint64_t now_ns)
{
	if (!m->bytes)
		return;
	rate_on_gone(c, m->bytes);
	ADD(c->delivered_bytes, m->bytes);
	STORE(c->delivered_ns, now_ns);
	if (!pick->mark.bytes || m->delivered_bytes > pick->mark.delivered_bytes ||
	    (m->delivered_bytes == pick->mark.delivered_bytes && sent_ns >= pick->sent_ns)) {
		pick->mark = *m;
		pick->sent_ns = sent_ns;
	}
}

void rate_on_lost(struct rate_control *c, const struct rate_mark *m, uint64_t now_ns)
{
	const struct rate_ops *ops = LOAD(c->ops);

	if (!m->bytes)
		return;
	rate_on_gone(c, m->bytes);
	ADD(c->lost_bytes, m->bytes);
	if (ops->on_lost && control_try_enter(c)) {
		ops->on_lost(c, now_ns, m);
		control_leave(c);
	}
}

void rate_on_spurious(struct rate_control *c, uint64_t bytes)
{
	if (!bytes)
		return;
	ADD(c->delivered_bytes, bytes);
	ADD(c->spurious_bytes, bytes);
}

/* Fills in the sample that the newest datagram of a report makes. */
static void measure(const struct rate_control *c, struct rate_sample *s, const struct rate_pick *pick)
{
	const struct rate_mark *m = &pick->mark;
	uint64_t sending_ns = pick->sent_ns - m->first_sent_ns, telling_ns = s->now_ns - m->delivered_ns;
	uint64_t over_ns = sending_ns > telling_ns ? sending_ns : telling_ns;

	s->prior_bytes = m->delivered_bytes;
	s->datagram_bytes = m->bytes;
	s->sent_in_flight_bytes = m->in_flight_bytes;
	s->app_limited = m->app_limited;
	s->late = m->late;
	if (over_ns && pick->sent_ns >= m->first_sent_ns)
		s->bw_bps = rate_from(LOAD(c->delivered_bytes) - m->delivered_bytes, over_ns);
}

static void clear_if_settled(struct rate_control *c, _Atomic uint64_t *until)
{
	uint64_t bytes = LOAD(*until);

	if (bytes && settled_bytes(c) > bytes)
		STORE(*until, 0);
}

void rate_on_report(struct rate_control *c, const struct rate_pick *pick, uint64_t now_ns, uint64_t rtt_ns, uint64_t ce)
{
	const struct rate_ops *ops;
	struct rate_sample s = {.now_ns = now_ns, .rtt_ns = rtt_ns};

	if (ce)
		ADD(c->ce, ce);
	if (LOAD(c->wanted) == LOAD(c->ops) && !pick->mark.bytes)
		return;
	if (pick->mark.bytes) {
		STORE(c->first_sent_ns, pick->sent_ns);
		clear_if_settled(c, &c->app_limited_until);
		clear_if_settled(c, &c->late_until);
	}
	if (!control_try_enter(c))
		return;
	if (LOAD(c->wanted) != LOAD(c->ops))
		begin_controller(c, LOAD(c->wanted), now_ns);
	ops = LOAD(c->ops);
	s.delivered_bytes = LOAD(c->delivered_bytes);
	s.in_flight_bytes = LOAD(c->in_flight_bytes);
	s.acked_bytes = s.delivered_bytes - c->seen_delivered;
	s.lost_bytes = LOAD(c->lost_bytes) - c->seen_lost;
	s.spurious_bytes = LOAD(c->spurious_bytes) - c->seen_spurious;
	s.ce = LOAD(c->ce) - c->seen_ce;
	c->seen_delivered += s.acked_bytes;
	c->seen_lost += s.lost_bytes;
	c->seen_spurious += s.spurious_bytes;
	c->seen_ce += s.ce;
	if (ops->on_acked && pick->mark.bytes) {
		measure(c, &s, pick);
		ops->on_acked(c, &s);
		STORE(c->state_name, ops->state(c));
	}
	control_leave(c);
}
