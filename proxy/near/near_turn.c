/* SPDX-License-Identifier: Apache-2.0 */
/* near_turn.c - the time at which each host that was sent away for want of room comes back: its turn.
 *
 * Theory of operation
 *
 * More queue pairs may have work outstanding than the buffer, or the line, can take at once. A host that is sent away
 * for want of room sends its whole window when it comes back, and packets that are not taken then have crossed the LAN
 * in vain. So a host is told to come back at its turn, when there is room for a good part of its window.
 *
 *     quantum    bytes that a flow may take in its turn: the bytes that the line drains in TURN_NS, divided by the
 *                flows that are away; at least a packet, at most QUANTUM_MAX and a part of the buffer
 *     fair wait  until the held bytes, and those due from flows sent away before, have drained to the buffer's target
 *     due        bytes that will come in each 2.5 ms from now on, of all flows that are away
 *
 * RNR NAKs can ask for few different waits, 655 ms at most (IBTA table 45). best_wait() takes the one that is near the
 * fair wait and ends when little is due, so that hosts that were sent away together do not come back together. A wait
 * that ends when there is no room is taken only if all waits do. A host that comes before its turn is sent away again
 * for the rest of the time, unless the buffer has run low, or others have so little booked that it need not wait. A
 * host that found no room for all of its quantum is back sooner. A flow that is not away may take more than its
 * quantum: the bytes that accrue at an equal share of the line, so flows that want less are never sent away. A flow
 * that comes back may take up to one quantum more: the fewer bytes are held, the more (ration()).
 *
 * A host that is dead, or has nothing more to send, must not keep the line waiting: its turn lapses GRACE_NS after the
 * time it was told. A host that comes later loses only its place, and may take what accrued to it meanwhile. A host
 * whose responder takes nothing (near_turn_stuck()) comes back again and again, but will bring nothing: it is told to
 * wait like others, but has no turn and does not count as away. Else 16 such hosts made rounds long, so that those of 8
 * living flows were told to wait 80 ms at a time, and the line was idle for most of it (6 MiB, 2.2 Gbit/s).
 *
 * A host that obeys CNPs recovers from them within milliseconds (DCQCN), and comes back at the speed of its NIC. When
 * it hears that its quantum is used up, it has already sent more. So such a host gets CNPS CNPs, each halving its rate,
 * just before it comes back, and further ones when half of its quantum is used.
 *
 * Turns are in force while a round of turns takes longer than CROWD_NS. If a round takes so long even at the line's
 * rate, turns stay in force until no round has been longer than CALM_NS at that rate for LASTS_NS. The number of flows
 * away changes all the time: without this hysteresis some flows were served by turns and others by shares, and Jain's
 * index was 0.71 (100 QPs, 64 MiB, 10 Gbit/s). The line must also drain at a good part of its rate. Else shares alone
 * decide (share.c), and hosts are back within a round trip: when few queue pairs share a fast line, when responders
 * that take nothing hold most of the buffer, or when the WAN is cut. Hosts with finite RNR retries are not sent away
 * for so long; they may hold a quantum at any time.
 *
 * However full the pool is, a flow may hold an equal part of half of the pool's reserve, at least one packet. The other
 * half is for the first packets of flows without a pair: their hosts cannot be sent RNR NAKs, and their queue pairs
 * would fail. */
#include "near_priv.h"

#include "ack_tx.h"
#include "proxy/wan/share.h"
#include "proxy/wan/wan_path.h"

#define TURN_NS        550000000ull /* between the two longest waits of RNR NAKs: 491 and 655 ms */
#define CROWD_NS       20480000ull
#define CALM_NS        10240000ull
#define LASTS_NS       100000000ull
#define QUANTUM_MAX    (256ull << 10)
#define HOLDERS        32 /* the buffer's target holds at least so many quanta: hosts do not come evenly */
#define GRACE_NS       20000000ull /* for a NIC's timer, and its way back through the LAN */
#define SLOWEST        4 /* below 1/4 of the line's rate most held bytes do not drain: no turns */
#define CNPS           8
#define BIN_NS         (RNR_MAX_NS / (TURN_BINS - 2))
#define RNR_CODE_LEAST 15 /* 1.92 ms */
#define LEVEL_NS       100000000ull
#define RNR_MAX_NS     655360000ull
#define CNP_LEAD_NS    600000ull
#define CNP_STEP_NS    55000ull
#define EARLY_NS       50000ull /* a timer's tick */

/* Bytes per second that the line carries now, as the rate controllers have found it. */
static uint64_t line_rate(const struct proxy *p)
{
	return max_u64(wan_line_bps(p) / 8, 1);
}

/* This shard's part of the line, in bytes per second. */
static uint64_t line_part(const struct proxy *p)
{
	return max_u64(wan_line_part_bps(p) / 8, 1);
}

/* Bytes that are under way on the WAN, or wait for their report, while the line is full. */
static uint64_t under_way(const struct proxy *p)
{
	return (uint64_t)((double)line_part(p) / 1e9 * (double)proxy_rtt_ns(p));
}

/* Bytes that the buffer is to hold: half of it; up to three quarters if more is under way on the WAN. */
static uint64_t pool_target(const struct proxy *p)
{
	uint64_t all = arena_capacity(p->arena, POOL_LAN);

	return clamp_u64(under_way(p) + all / 4, all / 2, all / 4 * 3);
}

/* True if the line will soon lack bytes: most held bytes are under way, and wait for nothing but their report. */
static bool pool_low(const struct proxy *p)
{
	uint64_t target = pool_target(p), line = min_u64(under_way(p), target);

	return arena_used(p->arena, POOL_LAN) < line + (target - line) / 4;
}

/* Bytes that drain per second as measured; the line's rate while too little is held or drains to measure it. */
static uint64_t drain_rate(const struct proxy *p)
{
	uint64_t line = line_rate(p), seen = share_rate(p, &p->turns.drain);

	return seen > line_part(p) / 16 && !pool_low(p) ? seen : max_u64(line, seen);
}

static uint64_t drain_ns(const struct proxy *p, uint64_t bytes)
{
	return (uint64_t)((double)bytes * 1e9 / (double)drain_rate(p));
}

bool near_turn_line_full(const struct proxy *p)
{
	return share_rate(p, &p->turns.drain) >= line_part(p) / 4 * 3;
}

static uint64_t quantum(const struct proxy *p)
{
	uint64_t each = (uint64_t)((double)drain_rate(p) * (TURN_NS / 1e9)) / max_u64(p->turns.away, 1);

	return clamp_u64(each, arena_class_bytes(LAN_PKT_MAX), min_u64(QUANTUM_MAX, pool_target(p) / HOLDERS));
}

uint64_t near_turn_quantum_now(const struct proxy *p)
{
	bool in_force = p->now_ns < p->turns.in_force_until_ns;
	uint64_t q = quantum(p);

	if (!pool_low(p) && share_rate(p, &p->turns.drain) < line_part(p) / SLOWEST)
		return 0;
	return in_force || drain_ns(p, p->turns.away * q) > CROWD_NS ? q : 0;
}

/* Called whenever a flow is sent away or comes back. Only a round that is long even at the line's rate keeps turns in
 * force: a low drain rate must not, as when dead responders hold most of the buffer. */
static void stay_in_force(struct proxy *p)
{
	uint64_t round = p->turns.away * quantum(p);
	uint64_t least_ns = p->now_ns < p->turns.in_force_until_ns ? CALM_NS : CROWD_NS;

	if (p->turns.away > 1 && (double)round * 1e9 / (double)line_rate(p) > (double)least_ns)
		p->turns.in_force_until_ns = p->now_ns + LASTS_NS;
}

uint64_t near_turn_minimum(const struct proxy *p)
{
	uint64_t each = pool_reserve(p, POOL_LAN) / 2 / max_u64(p->near_busy, 1);

	return clamp_u64(each, arena_class_bytes(LAN_PKT_MAX), CREDIT_MIN_BYTES);
}

static void set_turn(struct proxy *p, struct near_flow *f, uint64_t turn_ns)
{
	p->near_wanting -= near_wants_line(f);
	f->turn_ns = turn_ns;
	p->near_wanting += near_wants_line(f);
}

static bool turn_is_booked(const struct near_flow *f)
{
	return f->turn_ns != 0;
}

/* Sets the flow's turn timer: to send the next CNP, or to let the turn lapse. back_ns is when the host comes back,
 * which need not be its turn. */
static void set_timer(struct proxy *p, struct near_flow *f)
{
	uint64_t at_ns = f->back_ns + GRACE_NS;

	if (f->turn_cnps)
		at_ns = max_u64(f->back_ns - CNP_LEAD_NS, p->now_ns + CNP_STEP_NS);
	timer_set(&p->timers, &f->turn, at_ns);
}

/* --- when the hosts that are away will come --- */

static uint64_t bin_of(uint64_t ns)
{
	return ns / BIN_NS;
}

/* Clears bins that are over: their bytes have come, or are not waited for any more. */
static void advance_bins(struct proxy *p)
{
	uint64_t now = bin_of(p->now_ns);

	if (now >= p->turns.bin + TURN_BINS)
		p->turns.bin = now - TURN_BINS;
	for (; p->turns.bin < now; p->turns.bin++)
		p->turns.due[p->turns.bin % TURN_BINS] = 0;
}

static void not_due(struct proxy *p, struct near_flow *f)
{
	advance_bins(p);
	if (f->back_ns && bin_of(f->back_ns) >= p->turns.bin)
		p->turns.due[bin_of(f->back_ns) % TURN_BINS] -= f->turn_bytes;
	f->back_ns = 0;
}

static void due_in(struct proxy *p, struct near_flow *f, uint64_t ns)
{
	not_due(p, f);
	f->back_ns = p->now_ns + ns;
	p->turns.due[bin_of(f->back_ns) % TURN_BINS] += f->turn_bytes;
}

void near_turn_leave(struct proxy *p, struct near_flow *f)
{
	timer_cancel(&p->timers, &f->turn);
	if (!turn_is_booked(f))
		return;
	not_due(p, f);
	p->turns.away--;
	p->turns.bytes -= f->turn_bytes;
	set_turn(p, f, 0);
	stay_in_force(p);
}

/* The waits that an RNR NAK can ask for lie far apart, so hosts that were sent away together would come back together
 * for ever. Of all waits this takes the one that is near the fair wait and ends when little is held; a full target
 * counts as much as LEVEL_NS of time. Hosts that find no room come in vain, again and again if all are told to come
 * soon: 1,000 QPs, 8 MiB, 1 Gbit/s sent 25 packets for each one delivered. */
static uint64_t best_wait(struct proxy *p, uint64_t fair_ns, uint64_t bytes)
{
	uint64_t level[TURN_BINS], held = arena_used(p->arena, POOL_LAN), least = UINT64_MAX, best = RNR_MAX_NS;
	uint64_t most = arena_capacity(p->arena, POOL_LAN) - pool_reserve(p, POOL_LAN);
	uint64_t per_bin = (uint64_t)((double)drain_rate(p) * (BIN_NS / 1e9));

	advance_bins(p);
	for (uint32_t i = 0; i < TURN_BINS; i++) {
		held += p->turns.due[(p->turns.bin + i) % TURN_BINS];
		level[i] = held;
		held -= min_u64(held, per_bin);
	}
	for (uint8_t code = RNR_CODE_LEAST; code <= 32; code++) {
		uint64_t wait = roce_rnr_timer_ns(code % 32), off = wait > fair_ns ? wait - fair_ns : fair_ns - wait;
		uint64_t full = level[bin_of(p->now_ns + wait) - p->turns.bin];
		uint64_t cost = off + (uint64_t)((double)full * LEVEL_NS / (double)pool_target(p));

		if (full + bytes > most)
			cost += 2 * RNR_MAX_NS;
		if (cost < least) {
			least = cost;
			best = wait;
		}
	}
	return best;
}

/* Nanoseconds until the held bytes and booked_bytes have drained to pool_target(). */
static uint64_t drained_in(const struct proxy *p, uint64_t booked_bytes)
{
	uint64_t ahead = arena_used(p->arena, POOL_LAN) + booked_bytes;

	return drain_ns(p, ahead > pool_target(p) ? ahead - pool_target(p) : 0);
}

/* Books a turn. fair_ns: time until all flows that were sent away before have had their turns. */
static void book_turn(struct proxy *p, struct near_flow *f, uint64_t fair_ns)
{
	p->turns.away++;
	stay_in_force(p);
	f->turn_bytes = quantum(p);
	p->turns.bytes += f->turn_bytes;
	if (near_turn_quantum(p))
		fair_ns = best_wait(p, min_u64(fair_ns, RNR_MAX_NS), f->turn_bytes);
	set_turn(p, f, p->now_ns + fair_ns + 1);
}

/* Time until the flow's next turn; shorter if the flow found no room for all of its quantum in the last one. */
static uint64_t fair_wait(const struct proxy *p, const struct near_flow *f)
{
	double q = (double)quantum(p), left = (double)min_u64(f->turn_left, quantum(p));

	return max_u64(drained_in(p, 0), (uint64_t)((double)drained_in(p, p->turns.bytes) * (1 - left / q)));
}

/* The time of the flow's turn by the present bookings: since the turn was booked the line may have become faster, and
 * other flows may be gone. */
static uint64_t turn_by_now(const struct proxy *p, const struct near_flow *f)
{
	return min_u64(f->turn_ns, p->now_ns + drained_in(p, p->turns.bytes - f->turn_bytes) + 1);
}

uint64_t near_turn_book(struct proxy *p, struct near_flow *f)
{
	if (near_turn_stuck(p, f)) {
		near_turn_leave(p, f);
		return near_turn_quantum(p) ? drained_in(p, p->turns.bytes) : 0;
	}
	if (!turn_is_booked(f)) {
		book_turn(p, f, fair_wait(p, f));
	} else if (p->now_ns + EARLY_NS >= f->turn_ns) { /* it came at its turn, with many others: the next is soon */
		near_turn_leave(p, f);
		book_turn(p, f, drained_in(p, 0));
	} else {
		f->turn_ns = turn_by_now(p, f);
	}
	return near_turn_quantum(p) && f->turn_ns > p->now_ns ? f->turn_ns - p->now_ns - 1 : 0;
}

/* The number of CNPs that a host gets before it comes back: CNPS while turns are in force; else as many as bring it
 * from the line's rate down to the rate that its flow had lately. None while the line lacks bytes, and none in mode far
 * or host, where the host's own window limits it: in `lrsim --frozen` such hosts had 64 % of their share with these
 * CNPs. */
static uint8_t halvings(const struct proxy *p, const struct near_flow *f)
{
	uint64_t rate = f->share.last_bytes ? share_rate(p, &f->share) : 0;
	uint8_t n = 0;

	if (near_turn_quantum(p))
		return CNPS;
	while (rate && n < CNPS && line_rate(p) >> n > rate)
		n++;
	return near_mode(p, f) == ACK_MODE_NEAR && near_turn_line_full(p) ? n : 0;
}

void near_turn_away(struct proxy *p, struct near_flow *f, uint64_t for_ns)
{
	if (!turn_is_booked(f))
		return;
	due_in(p, f, for_ns);
	f->turn_cnps = for_ns > CNP_LEAD_NS ? halvings(p, f) : 0;
	set_timer(p, f);
}

bool near_turn_comes_early(const struct proxy *p, const struct near_flow *f)
{
	return turn_is_booked(f) && p->now_ns + EARLY_NS < turn_by_now(p, f) && near_turn_quantum(p) && !pool_low(p);
}

/* A quantum, and up to one more: the fewer bytes are held, the more. The waits of RNR NAKs are few, and most are
 * multiples of one another, so hosts come in waves, and are away for longer than TURN_NS on average. A host that comes
 * when little is held fills the lull. Without this the line idled for 6 % of the time (1,000 QPs, 8 MiB, 1 Gbit/s). */
static uint64_t ration(const struct proxy *p)
{
	uint64_t q = near_turn_quantum(p), target = pool_target(p), used = min_u64(arena_used(p->arena, POOL_LAN), target);

	return q + (uint64_t)((double)q * (double)(target - used) / (double)target);
}

/* Bytes that the flow may take now: ration() at its turn; else the bytes that accrue at an equal share of the line, so
 * that flows that want less are never sent away. */
static uint64_t allowance(const struct proxy *p, const struct near_flow *f)
{
	double share = (double)drain_rate(p) / (double)max_u64(p->turns.away, 1);
	uint64_t accrued = (uint64_t)((double)(p->now_ns - f->turn_taken_ns) / 1e9 * share);

	if (f->rnr_retry != RNR_RETRY_INFINITE)
		return near_turn_quantum(p);
	if (turn_is_booked(f))
		return ration(p);
	return min_u64(f->turn_left + accrued, max_u64(f->turn_left, near_turn_quantum(p)));
}

void near_turn_took(struct proxy *p, struct near_flow *f, uint16_t len)
{
	uint64_t left = near_turn_quantum(p) ? allowance(p, f) : 0, bytes = left ? arena_class_bytes(len) : 0;

	if (turn_is_booked(f))
		near_turn_leave(p, f);
	f->turn_left = left > bytes ? left - bytes : 0;
	f->turn_taken_ns = p->now_ns;
}

bool near_turn_stuck(const struct proxy *p, const struct near_flow *f)
{
	uint64_t since = max_u64(f->last_progress_ns, f->share.since_ns);

	return near_held(f) &&
	       p->now_ns > since + 2 * drain_ns(p, arena_used(p->arena, POOL_LAN)) + 4 * proxy_rtt_ns(p) + 20000000ull;
}

bool near_turn_admits(const struct proxy *p, const struct near_flow *f, uint64_t bytes)
{
	uint64_t held = near_held(f);

	bool within = held + bytes <= near_turn_quantum(p);

	if (bytes > allowance(p, f) ? !pool_low(p) || !within : f->rnr_retry != RNR_RETRY_INFINITE && !within)
		return false;
	return bytes <= share_left(p, POOL_LAN) || held + bytes <= near_turn_minimum(p);
}

void near_turn_on_timer(struct proxy *p, struct near_flow *f)
{
	if (!turn_is_booked(f))
		return;
	if (!f->turn_cnps) {
		near_turn_leave(p, f); /* the host is gone, or has nothing more to send */
		return;
	}
	f->turn_cnps--;
	ack_tx_cnp(p, f);
	set_timer(p, f);
}
