/* SPDX-License-Identifier: Apache-2.0 */
/* rate_auto.c - finds the rate of a shared line: BBRv3 with deviations.
 *
 * Theory of operation
 *
 * A model of the path, after BBR (draft-ietf-ccwg-bbr): the largest delivery rate of late and the least round trip.
 * The product of the two is the number of bytes that the line holds without a queue. Phases count rounds: a round is a
 * round trip, counted in deliveries.
 *
 * - startup: the rate more than doubles each round until it brings no more for FULL_BW_ROUNDS, or costs many losses.
 * - drain: the queue that startup has made drains.
 * - down: a little less than is delivered, until the queue of the last probe is gone.
 * - cruise: as much as is delivered, for some rounds: how many differs, so that two do not keep step.
 * - refill: a round without the bound that losses have set (bw_shortterm).
 * - up: a quarter more, to see whether more is delivered: goes on while it is and no queue grows.
 * - probe-rtt: half of what the line holds, for a round, when the least round trip was not seen again for long: the
 *   queue may be our own. At most once in PROBE_RTT_INTERVAL_RTTS round trips, so it costs one percent at most.
 *
 * The rate is the largest of the samples of this probe and the one before. An application-limited sample may raise the
 * rate; it never lowers the rate and never ends a startup. A late sample may end a startup.
 *
 * Losses below LOSS_THRESH_PPM alone mean nothing: random losses must not slow any sender. Losses while the round trip
 * is well above the least mean a queue that overflows, and any number of them counts (OVERRUN_PPM in the rounds after a
 * probe, whose own queue is there), as do CE marks. Then the rate goes down until the next probe, which comes late. The
 * rate goes down once, not with each loss. Two things make shares equal. The last probe's gain decides how much the
 * rate goes down (beta()): a sender with more of the line gives more. And a sender with more waits longer for its next
 * probe (wait_long()), by the cube root, as CUBIC does, so that the wait suits any rate; senders with less take what
 * was given. If no sender takes it several times in a row (untaken), the sender is alone on a line with a short queue
 * and gives little. A gain that a probe made by overflowing the queue is not believed.
 *
 * A worker that is woken late now and then must not get less than a punctual one beside it: the pacer makes up for the
 * time (rate_catch_up()), and where reports come late and in bunches, more may be in flight (extra_acked_bytes()).
 *
 * Names are the draft's where the meaning is the same: max_bw_filter, bw_shortterm, inflight_longterm, min_rtt,
 * probe_rtt_done_stamp, cycle_stamp, next_round_delivered, full_bw, extra_acked, bdp(), update_min_rtt(),
 * update_ack_aggregation(), adapt_lower_bounds(), and of constants STARTUP's 277, PROBE_BW_UP's 125, HEADROOM,
 * PROBE_RTT_INTERVAL, FULL_BW_ROUNDS. Deviations from the draft, each with the measurement that asks for it (`lrsim
 * --rate all`):
 *
 *   beta(), wait_long()    How much is given, and for how long, follows from one's share; the draft gives 0.3 for 2 to
 *                          3 s. Two of ours are at most 13 % apart on 15 lines.
 *   congested()            Any loss in a queue counts, and 5 % without one; the draft: 2 %. One of 100 lost at random
 *                          leaves 96 % of a line, with a short queue 94 %.
 *   bound_policed()        Where 5 % are lost without a queue, the bound is what came, twice after a probe. The draft
 *                          takes 30 % each round. Policers lose 1.6 and 4.2 %, without it 6.8 and 9.0 %.
 *   losses_go_on()         Losses without a queue show a sender that does not give way only if fewer datagrams were
 *                          sent and not fewer lost. With 30 % lost at random 0.20 of the rest is carried, else 0.04.
 *   contended(), window    In flight as CUBIC would have. In queues of up to one product CUBIC keeps 17 to 69 % of a
 *                          line beside auto, and 4 to 21 % beside BBR.
 *   weigh_window()         The bytes in flight of others bound the window: BBR, which keeps two products, has 0.40 of a
 *                          line that became ten times slower, with twenty products of queue, else 0.22
 *                          (beside-bbr-rate-1000-100).
 *   look_for_policer()     Beside BBR version 1, which gives nothing: each has at least a quarter. Meanwhile there is
 *   deaf_rounds            no window: one that no losses ended made 60 % of ours get lost on a line that became a
 *                          hundred times slower, now 8 % (beside-cubic-rate-1000-10-short).
 *   update_min_rtt()       The least round trip is not given up for CUBIC's queue, which looks like a longer way.
 *   note_longer_path()     A way that is longer at once: from a second on 0.97 to 0.98 of what is possible after steps
 *                          of 2, 10 and 100, without it 0.88, 0.90 and 0.32.
 *   note_slower()          A line that is slower at once: nothing is lost from the second second on; without it 63 %
 *                          after 1000 to 100 Mbit/s, 46 % after 1000 to 10, 27 % after 400 to 40.
 *   GROW_PERCENT           In flight grows by a quarter in a round where a queue is another sender's: the same steps.
 *   PROBE_RTT_ROUNDS       A probe-rtt without a measurement ends: else 0.39 of a line for good after 1 to 5 ms.
 *   extra_acked_bytes()    At most what late workers make, and rate_catch_up(): without the two the later one of two
 *                          links had less than 0.8 of the other's share in 14 of 50 runs (late-1bdp), with them in 3.
 *
 * All this is for competitors that give way, too. Two kinds of competitors do not:
 *
 * - Those that fill the queue, as CUBIC does. A queue that stays for long although we do not keep it is theirs
 *   (contended()), and its delay is no reason to send less, or nothing would be left for us (Copa does the same). Then
 *   as much may be in flight as CUBIC would have in our place (cubic_window.h), so that we share with CUBIC as CUBIC
 *   does. Until the window has met losses of its own, it follows what the probes bring. After losses one round goes by
 *   without the window: if all competitors are of our kind, losses come to all at the same time, all stand back
 *   together, the queue drains, and contention ends. Paced datagrams meet a full queue more often than ack-clocked
 *   ones, and at 10 Gbit/s losses are seconds apart: so each probe-rtt, which sees the queue without us, tells what the
 *   others have (weigh_window()). A smaller window goes to two thirds of that, a larger one down to that; until the
 *   next probe-rtt the window grows to little more than that (OUTWEIGHS).
 * - Those that ignore losses, as BBR version 1 does. Then losses go on however much we give (look_for_policer()), and
 *   giving is of no use: for DEAF_ROUNDS rounds losses are ignored, as much is in flight as BBR has, and probes are
 *   believed. CE marks are still obeyed.
 *
 * Both look like a longer way at first, and a longer way looks like them. A larger least round trip is only believed if
 * it was seen with half of the line's content in flight, and only after MIN_RTT_FILTER_LEN_NS, in which BBR empties the
 * queue once; while contended, only once PROBED_RTTS probes have seen the same, for CUBIC's queue rises and falls. */
#include "rate.h"

#include <string.h>

#include "cubic_window.h"
#include "proxy/util/fault.h"
#include "wan_pacer.h"

/* A constant of the draft has the draft's value behind it. The others belong to the deviations above, named by
 * function. */
#define FIRST_BYTES             90000ull /* in flight before anything is known: ten large datagrams, RFC 6928 */
#define FIRST_RTT_NS            1000000ull
#define MIN_PIPE_BYTES          40000ull /* four of the largest datagrams: BBRMinPipeCwnd */
#define LEAST_BPS               100000ull
#define SEGMENT_BYTES           1500ull
#define FULL_BW_ROUNDS          3 /* 3 */
#define LOSS_THRESH_PPM         50000ull /* BBRLossThresh: 2 %; congested() */
#define BETA                    86 /* BBRBeta: 70; beta(), as the next two and BETA_UNTAKEN */
#define BETA_LEAST              80
#define BETA_MOST               98
#define SLOWER                  60 /* percent; note_slower(), as the next three */
#define MUCH_SLOWER             30 /* percent: a round counts for three */
#define MUCH_COUNTS             3
#define SLOWER_ROUNDS           8
#define POLICED                 97 /* bound_policed(), losses_go_on(), as the next four: percent of the rate that came:
                                    * samples are a little too high */
#define POLICED_LEAST           2  /* segments: with fewer, a loss may have been a late arrival */
#define POLICED_CUTS            2
#define POLICED_ROUNDS          2  /* rounds until the effect of a bound is seen */
#define POLICED_FEWER           67 /* percent */
#define OVERRUN_PPM             30000ull
#define CRUISE_ROUNDS           8 /* and a random number of up to as many more */
#define CRUISE_MAX_NS           1500000000ull /* the draft: 2 to 3 s */
#define WAIT_RTTS               12 /* wait_long(), as the next two: after a back-off, times the cube root of the segments that the line holds of ours */
#define WAIT_RTTS_NS            400000000ull
#define WAIT_MAX_NS             10000000000ull
#define UNTAKEN                 3 /* back-offs in a row whose room no sender took */
#define BETA_UNTAKEN            97
#define UP_ROUNDS_MAX           32
#define CONTENDED_NS            1000000000ull /* contended(), as all to OUTWEIGHS */
#define CONTENDED_RTTS          40
#define CONTENDED_ROUNDS        3
#define WINDOW_PACE             110
#define WEIGHED                 66 /* percent of what others have: two fifths of all */
#define OUTWEIGHS               115 /* percent of what others have: half of all, and a little more to probe with */
#define LOOK_ROUNDS             16 /* look_for_policer(), as all to DEAF_HOLD */
#define LOSSES_RARE             12 /* losses are rare if one round of so many has some */
#define LOSSES_FREQUENT         6
#define DEAF_ROUNDS             100
#define DEAF_HOLD               200
#define PROBE_RTT_INTERVAL_NS   5000000000ull /* BBRProbeRTTInterval: 5 s */
#define PROBE_RTT_INTERVAL_RTTS 100
#define MIN_RTT_FILTER_LEN_NS   12000000000ull /* BBRMinRTTFilterLen: 10 s; BBR version 1 empties its queue within it */
#define PROBED_RTTS             4 /* update_min_rtt(), as the next */
#define ALIKE                   10 /* percent */
#define PROBE_RTT_DURATION_NS   1000000ull /* or a round trip, if that is longer; BBRProbeRTTDuration: 200 ms, which a
                                            * link would feel */
#define PROBE_RTT_ROUNDS        6
#define EXTRA_ACKED_FILTER_LEN  8 /* BBRExtraAckedFilterLen: 10 */
#define HEADROOM_KEPT           85 /* percent: 1 - BBRHeadroom, 0.15 */
#define EXTRA_ACKED_MOST        40 /* percent, or, if that is less: */
#define EXTRA_ACKED_MOST_NS     10000000ull
#define WAY_ROUNDS              4 /* note_longer_path(), as all to WAY_JUMPS */
#define WAY_PART                4
#define WAY_SEGMENTS            3
#define WAY_FLAT                16
#define WAY_UNMOVED             4
#define WAY_DECIDED             8
#define WAY_JUMPS               4
#define GROW_PERCENT            125
#define NONE                    UINT64_MAX

enum phase { STARTUP, DRAIN, PROBE_BW_DOWN, PROBE_BW_CRUISE, PROBE_BW_REFILL, PROBE_BW_UP, PROBE_RTT };

/* In percent: pace of the rate, hold of what the line holds. The draft's pace: startup 277, drain 50, down 90, cruise
 * and refill 100, up 125; hold 200 in all but probe-rtt, 50. We hold less, because contended() would take a queue that
 * two of ours fill together for another sender's. */
static const struct {
	const char *name;
	uint32_t pace, hold;
} phases[] = {
    [STARTUP] = {"startup", 277, 277},        [DRAIN] = {"drain", 40, 277},
    [PROBE_BW_DOWN] = {"down", 80, 130},      [PROBE_BW_CRUISE] = {"cruise", 98, 130},
    [PROBE_BW_REFILL] = {"refill", 100, 130}, [PROBE_BW_UP] = {"up", 125, 170},
    [PROBE_RTT] = {"probe-rtt", 100, 50},
};

/* Rounds in a row with a round trip well above the least. */
struct above {
	uint64_t jump_ns; /* by how much the round trip jumped above the least between two measurements; 0: it crept */
	uint32_t rounds;
	bool probed;                              /* less was sent in a round, to see whether that changes the round
	                                           * trip */
	uint64_t least_rtt_ns, most_rtt_ns;       /* over the rounds, of each round's least round trip */
	uint64_t least_in_flight, most_in_flight; /* over the rounds, of each round's least in flight */
};

struct auto_state {
	uint32_t phase, rounds, full_bw_count; /* rounds: in the phase */
	uint64_t cycle_stamp;                  /* since when */
	uint32_t wait_rounds;                  /* a cruise ends after so many rounds */
	uint64_t wait_ns;                      /* a cruise ends at this age in any case */
	bool gave;                             /* the rate has backed off since the last probe */
	uint32_t policed;                      /* bounds set by bound_policed() since the last probe */
	uint32_t policed_rounds;               /* rounds since the last of these bounds */
	uint64_t policed_ppm;                  /* losses before that bound; the next two: lost and delivered since */
	uint64_t policed_lost, policed_acked;
	uint32_t untaken;          /* back-offs in a row after which no queue was seen until the next */
	uint32_t slower;           /* rounds in a row */
	uint64_t max_bw_filter[2]; /* largest sample of this probe, of the last one */
	uint64_t up_bps;           /* largest sample of a probe, not believed yet */
	uint64_t empty_at_ns;      /* when there was last hardly a queue */
	uint64_t queued_rtt_ns;    /* least round trip of the last whole round */
	uint64_t full_bw;          /* startup and up: the rate that later rounds must exceed */
	uint64_t min_rtt_ns, min_rtt_stamp, probe_rtt_stamp;
	uint64_t last_rtt_ns;
	uint64_t clear_bps; /* rate when there was last hardly a queue */
	struct above above;
	uint64_t bw_shortterm;         /* bound on the rate until the next probe */
	uint64_t inflight_longterm;    /* bound on bytes in flight that the probes have found */
	uint64_t next_round_delivered; /* delivered bytes */
	/* of the current round */
	uint64_t acked, lost, ce, rtt_ns, rtts_ns, most_rtt_ns, nrtts, round_bps, most_in_flight, least_in_flight;
	bool limited; /* a sample was application-limited or late */
	bool idle;    /* a sample was application-limited */
	bool fresh;   /* max_bw_filter[0] has a sample that was not limited */
	uint64_t now_ns;
	uint64_t probe_rtt_done_stamp;        /* probe-rtt ends at this time at the earliest */
	struct cubic_window window;           /* while contended; bytes 0: not */
	bool window_known;                    /* the window has met losses */
	uint64_t last_in_flight;              /* most of the last whole round */
	uint64_t before_bytes, before_rtt_ns; /* probe-rtt: in flight and round trip before it */
	uint64_t weighed_bytes;               /* in flight of others at the last probe-rtt; 0: not known */
	uint64_t drained_bytes;               /* delivered in total when in flight had fallen far enough */
	uint64_t probed_rtt_ns[PROBED_RTTS];  /* round trips that the last probe-rtts have seen */
	uint64_t segment_bytes;               /* the largest datagram */
	uint64_t extra_acked[2]; /* most bytes that came beyond what was due: in these rounds, and in the ones before */
	uint64_t extra_acked_interval_start, extra_acked_delivered; /* since when extra_acked is counted, and the bytes
	                                                             * that came */
	uint32_t extra_acked_rounds;
	uint32_t looked, lossy; /* recent rounds outside of probes, and those of them with congestion */
	uint32_t deaf_rounds;   /* left */
	uint32_t random;
};

_Static_assert(sizeof(struct auto_state) <= RATE_STATE_WORDS * 8, "RATE_STATE_WORDS");

static struct auto_state *state_of(struct rate_control *c)
{
	return (struct auto_state *)c->state;
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t percent(uint64_t v, uint32_t of_100)
{
	return v / 100 * of_100 + v % 100 * of_100 / 100;
}

static uint64_t max_bw(const struct auto_state *a)
{
	return max_of(a->max_bw_filter[0], a->max_bw_filter[1]);
}

static uint64_t rate_time(uint64_t bytes, uint64_t bps)
{
	return bytes * 8000000 / (bps / 1000);
}

/* Bytes that the line holds without a queue. */
static uint64_t bdp(const struct auto_state *a)
{
	return rate_bytes(max_bw(a), a->min_rtt_ns);
}

static uint32_t next_random(struct auto_state *a)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 17;
	a->random ^= a->random << 5;
	return a->random;
}

/* --- the queue --- */

/* True if the round trip shows a queue. MIN_PIPE_BYTES are always in flight and are no queue: on a slow line they take
 * longer than the way. */
static bool rtt_shows_queue(const struct auto_state *a, uint64_t rtt_ns, uint32_t over_percent)
{
	uint64_t own_ns = a->clear_bps ? rate_time(MIN_PIPE_BYTES, a->clear_bps) : 0;

	return rtt_ns != NONE && rtt_ns > max_of(a->min_rtt_ns + percent(a->min_rtt_ns, over_percent), own_ns);
}

static uint64_t mean_rtt(const struct auto_state *a)
{
	return a->nrtts ? a->rtts_ns / a->nrtts : NONE;
}

/* True if the queue has stayed for long although we do not keep it: a competitor fills it. */
static bool contended(const struct auto_state *a)
{
	return a->phase != STARTUP && a->now_ns > a->empty_at_ns + max_of(CONTENDED_NS, CONTENDED_RTTS * a->min_rtt_ns);
}

static bool losses_rare(const struct auto_state *a)
{
	return a->lossy * LOSSES_RARE <= a->looked;
}

/* --- outputs --- */

/* Bytes in flight while contended. */
static uint64_t contended_bytes(const struct auto_state *a, uint64_t bps)
{
	if (!a->window_known || !losses_rare(a))
		return percent(rate_bytes(bps, a->queued_rtt_ns), losses_rare(a) ? 130 : 200);
	return percent(rate_bytes(bps, a->min_rtt_ns), phases[a->phase].hold);
}

/* A worker that is woken late reports late, and much at once. Until that worker's report, more seems to be in flight
 * than is, and without room for that the sender would stand still. No such room is given after a back-off, when the
 * queue needs time to drain, and no more than late workers need: bytes that come at once over a longer time used room
 * that another link had left. */
static uint64_t extra_acked_bytes(const struct auto_state *a)
{
	if (a->phase != PROBE_BW_CRUISE || a->gave)
		return 0;
	return min_of(max_of(a->extra_acked[0], a->extra_acked[1]),
	              min_of(percent(bdp(a), EXTRA_ACKED_MOST), rate_bytes(max_bw(a), EXTRA_ACKED_MOST_NS)));
}

static bool window_counts(const struct auto_state *a)
{
	return a->window.bytes && a->phase != PROBE_BW_DOWN && a->phase != DRAIN && a->phase != PROBE_RTT;
}

static void set_outputs(struct rate_control *c, const struct auto_state *a)
{
	uint64_t bps = min_of(max_bw(a), a->bw_shortterm), bytes;

	if (!max_bw(a) || !a->min_rtt_ns) {
		rate_set(c, percent(rate_from(FIRST_BYTES, FIRST_RTT_NS), phases[STARTUP].pace), FIRST_BYTES);
		return;
	}
	/* Reports bunch: more may be in flight than the line holds. */
	if (contended(a) && a->phase != PROBE_RTT)
		bytes = min_of(contended_bytes(a, bps),
		               max_of(percent(a->last_in_flight, GROW_PERCENT), MIN_PIPE_BYTES));
	else
		bytes = percent(rate_bytes(bps, a->min_rtt_ns), phases[a->phase].hold) + extra_acked_bytes(a);
	if (a->deaf_rounds && a->phase != PROBE_RTT)
		bytes = max_of(bytes, percent(rate_bytes(bps, a->min_rtt_ns), DEAF_HOLD));
	else if (a->phase == PROBE_BW_CRUISE || a->phase == PROBE_BW_DOWN)
		bytes = min_of(bytes, percent(a->inflight_longterm, HEADROOM_KEPT));
	else if (a->phase == PROBE_BW_REFILL || a->phase == PROBE_BW_UP)
		bytes = min_of(bytes, a->inflight_longterm);
	/* A few small datagrams in a round trip say nothing about the line yet: startup does not go below its first
	 * rate. */
	if (a->phase == STARTUP) {
		bytes += FIRST_BYTES;
		bps = max_of(bps, rate_from(FIRST_BYTES, max_of(a->min_rtt_ns, FIRST_RTT_NS)));
	}
	bps = percent(bps, phases[a->phase].pace);
	if (window_counts(a)) {
		bytes = max_of(bytes, a->window.bytes);
		bps = max_of(bps, percent(rate_from(a->window.bytes, a->queued_rtt_ns), WINDOW_PACE));
	}
	rate_set(c, max_of(bps, LEAST_BPS), max_of(bytes, MIN_PIPE_BYTES));
	rate_catch_up(c, a->min_rtt_ns);
}

/* --- phases --- */

static void enter_phase(struct auto_state *a, enum phase phase, uint64_t now_ns)
{
	a->phase = phase;
	a->cycle_stamp = now_ns;
	a->rounds = 0;
	a->full_bw_count = 0;
	a->full_bw = 0;
	if (phase == PROBE_RTT) {
		a->before_rtt_ns = a->queued_rtt_ns;
		a->before_bytes = a->most_in_flight;
		a->probe_rtt_done_stamp = NONE;
	}
	if (phase == PROBE_BW_UP)
		a->up_bps = 0;
	if (phase == PROBE_BW_REFILL) {
		a->bw_shortterm = NONE;
		a->gave = false;
		a->policed = 0;
	}
	if (phase == PROBE_BW_DOWN) {
		if (a->fresh) {
			a->max_bw_filter[1] = a->max_bw_filter[0];
			a->max_bw_filter[0] = 0;
		}
		a->fresh = false;
		a->wait_rounds = CRUISE_ROUNDS + next_random(a) % CRUISE_ROUNDS;
		if (contended(a) || a->deaf_rounds)
			a->wait_rounds = CONTENDED_ROUNDS;
		a->wait_ns = CRUISE_MAX_NS;
	}
}

/* Sets the wait for the next probe after the queue overflowed: longer for a sender with more of the line. */
static void wait_long(struct auto_state *a)
{
	uint64_t root_tenths = cube_root(bdp(a) * 1000 / a->segment_bytes);

	a->wait_rounds = UINT32_MAX;
	a->wait_ns = min_of(root_tenths * min_of(WAIT_RTTS * a->min_rtt_ns, WAIT_RTTS_NS) / 10, WAIT_MAX_NS);
	a->wait_ns = percent(a->wait_ns, 80 + next_random(a) % 41);
}

static bool lost_more(const struct auto_state *a, uint64_t ppm)
{
	return a->lost * 1000000 > (a->acked + a->lost) * ppm;
}

/* True if the queue overflows: see Theory of operation. */
static bool congested(const struct auto_state *a)
{
	return lost_more(a, LOSS_THRESH_PPM) || (a->lost && rtt_shows_queue(a, mean_rtt(a), 20)) || a->ce;
}

/* True once no round has brought a quarter (startup) or a tenth (up) more for long enough. */
static bool full_bw_reached(struct auto_state *a, uint32_t by_percent, uint32_t rounds)
{
	if (a->round_bps >= a->full_bw + percent(a->full_bw, by_percent)) {
		a->full_bw = a->round_bps;
		a->full_bw_count = 0;
	} else if (!a->idle) {
		a->full_bw_count++;
	}
	return a->full_bw_count >= rounds;
}

/* True if a probe has made the queue overflow: its losses are reported a round later. */
static bool probe_overran(const struct auto_state *a)
{
	return rtt_shows_queue(a, a->most_rtt_ns, 20) && lost_more(a, OVERRUN_PPM);
}

/* Percent of the rate that a back-off keeps. A probe that sends a quarter more brings a quarter more to a sender with
 * little of the line, and nothing to a sender with all of it: so the probe tells the sender's share, and a larger share
 * gives more. */
static uint32_t beta(const struct auto_state *a)
{
	uint64_t yield, before = max_bw(a);

	if (a->untaken >= UNTAKEN)
		return BETA_UNTAKEN;
	if (!a->up_bps || !before)
		return BETA;
	yield = a->up_bps / (before / 100 + 1);
	yield = yield < 100 ? 100 : yield > 125 ? 125 : yield;
	return BETA_LEAST + (uint32_t)(yield - 100) * (BETA_MOST - BETA_LEAST) / 25;
}

/* A policer drops the bytes above its rate, without a queue: bounds the rate to what came. If the policer's bucket ran
 * dry in the middle of the round, that is too much, so the bound is set once more when its effect can be seen. */
static void bound_policed(struct auto_state *a)
{
	if (!lost_more(a, LOSS_THRESH_PPM) || a->lost < POLICED_LEAST * a->segment_bytes || a->limited ||
	    rtt_shows_queue(a, a->most_rtt_ns, 10) || (a->policed && a->policed_rounds <= POLICED_ROUNDS) ||
	    a->policed >= POLICED_CUTS)
		return;
	a->bw_shortterm = min_of(a->bw_shortterm, percent(a->round_bps, POLICED));
	a->policed++;
	a->policed_rounds = 0;
	a->policed_lost = a->policed_acked = 0;
	a->policed_ppm = a->lost * 1000000 / (a->acked + a->lost);
}

static void adapt_lower_bounds(struct auto_state *a)
{
	uint64_t bps = min_of(max_bw(a), a->bw_shortterm);

	if (a->gave)
		return;
	a->gave = true;
	a->bw_shortterm = percent(bps, beta(a));
	a->untaken++;
	wait_long(a);
}

/* --- those that do not give --- */

/* True if losses go on when less is sent. Losses without a queue count as a policer's until sending less has not
 * reduced them. */
static bool losses_go_on(const struct auto_state *a)
{
	uint64_t all = a->policed_lost + a->policed_acked;

	return rtt_shows_queue(a, a->most_rtt_ns, 10) ||
	       (a->policed >= POLICED_CUTS && a->policed_lost * 1000000 > percent(a->policed_ppm, POLICED_FEWER) * all);
}

/* Looks whether losses go on however much is given. Losses caused by our own probes are not counted. */
static void look_for_policer(struct auto_state *a, bool over)
{
	if (a->deaf_rounds) {
		if (--a->deaf_rounds == 0)
			a->looked = a->lossy = 0;
		return;
	}
	if (a->phase != PROBE_BW_CRUISE && a->phase != PROBE_BW_DOWN)
		return;
	if (a->looked >= 2 * LOOK_ROUNDS) {
		a->looked /= 2;
		a->lossy /= 2;
	}
	a->looked++;
	if (over && !a->ce && losses_go_on(a) && (a->phase == PROBE_BW_CRUISE || a->rounds >= 2))
		a->lossy++;
	if (a->looked >= LOOK_ROUNDS && a->lossy * LOSSES_FREQUENT > a->looked) {
		a->deaf_rounds = DEAF_ROUNDS;
		enter_phase(a, PROBE_BW_REFILL, a->now_ns);
	}
}

/* Keeps the window as CUBIC would. */
static void keep_window(struct auto_state *a, bool over)
{
	if (!contended(a) || a->deaf_rounds) { /* without losses that limit it, no window may grow */
		a->window.bytes = 0;
		a->window_known = false;
	} else if (!a->window.bytes) {
		cubic_window_start(&a->window, a->now_ns, a->most_in_flight, a->segment_bytes);
	} else if (!over) {
		if (!a->weighed_bytes || a->window.bytes < percent(a->weighed_bytes, OUTWEIGHS))
			cubic_window_grow(&a->window, a->now_ns);
	} else if (a->phase != PROBE_BW_DOWN) {
		if (!a->window_known)
			a->window.bytes = max_of(a->window.bytes, a->most_in_flight);
		a->window_known = true;
		cubic_window_cut(&a->window, a->now_ns);
		if (!a->deaf_rounds && losses_rare(a) && a->window.bytes > bdp(a))
			enter_phase(a, PROBE_BW_DOWN, a->now_ns);
	}
}

/* Forgets all bounds and the contention found on the line before it changed. */
static void another_line(struct auto_state *a)
{
	a->empty_at_ns = a->now_ns;
	a->window.bytes = a->weighed_bytes = 0;
	a->window_known = false;
	a->bw_shortterm = a->inflight_longterm = NONE;
	a->slower = 0;
	a->above = (struct above){.rounds = 0};
}

/* Much less is delivered than before, and a queue shows that enough was sent: the line has become slower. This does not
 * hold beside competitors that fill the queue: then the queue is theirs, and we sent less. But no competitor takes two
 * thirds of the line within three rounds: after such a drop the queue is our own. */
static void note_slower(struct auto_state *a, uint64_t now_ns)
{
	bool slower = !a->limited && !a->window_known && rtt_shows_queue(a, a->rtt_ns, 20) &&
	              a->round_bps < percent(max_bw(a), SLOWER);
	bool much = a->round_bps < percent(max_bw(a), MUCH_SLOWER);

	a->slower = slower ? a->slower + (much ? MUCH_COUNTS : 1) : 0;
	if (a->above.jump_ns && a->above.rounds < WAY_DECIDED)
		return; /* perhaps the way has become longer */
	if (a->slower < SLOWER_ROUNDS || a->phase == STARTUP || a->phase == PROBE_RTT)
		return;
	a->max_bw_filter[0] = a->max_bw_filter[1] = max_of(a->round_bps, LEAST_BPS);
	a->slower = 0;
	if (much) {
		a->clear_bps = a->max_bw_filter[0];
		another_line(a);
	}
	enter_phase(a, DRAIN, now_ns);
}

/* --- a longer way --- */

static void above_begin(struct auto_state *a)
{
	a->above = (struct above){
	    .jump_ns = a->above.jump_ns, .probed = a->above.probed, .least_rtt_ns = NONE, .least_in_flight = NONE};
}

/* Adds a round to `a->above`. False: its round trip differs from that of the rounds before. */
static bool above_add(struct auto_state *a)
{
	struct above *v = &a->above;

	v->least_rtt_ns = min_of(v->least_rtt_ns, a->rtt_ns);
	v->most_rtt_ns = max_of(v->most_rtt_ns, a->rtt_ns);
	v->least_in_flight = min_of(v->least_in_flight, a->least_in_flight);
	v->most_in_flight = max_of(v->most_in_flight, a->least_in_flight);
	v->rounds++;
	return v->most_rtt_ns - v->least_rtt_ns <= (v->least_rtt_ns - a->min_rtt_ns) / WAY_FLAT;
}

/* True if in flight varied so much that a queue's round trip would have varied with it, and ours did not. */
static bool above_unmoved(const struct auto_state *a)
{
	const struct above *v = &a->above;
	uint64_t more = v->most_in_flight - v->least_in_flight;

	return more >= max_of(v->most_in_flight / WAY_PART, WAY_SEGMENTS * a->segment_bytes) &&
	       v->most_rtt_ns - v->least_rtt_ns <= rate_time(more, max_of(a->clear_bps, LEAST_BPS)) / WAY_UNMOVED;
}

/* More bytes in flight make a queue longer by as much, whoever fills it, and a queue grows over time. If the round trip
 * is longer at once, and stays the same whatever is in flight, there is no queue: the way has become longer. */
static void note_longer_path(struct auto_state *a)
{
	struct above *v = &a->above;

	if (a->rtt_ns == NONE || a->phase == STARTUP)
		return;
	if (!rtt_shows_queue(a, a->rtt_ns, 20)) {
		a->clear_bps = max_of(max_bw(a), LEAST_BPS);
		v->rounds = 0;
		return;
	}
	if (!v->jump_ns || lost_more(a, OVERRUN_PPM) || a->ce) {
		v->rounds = 0;
		return;
	}
	if (v->rounds == 0 || !above_add(a)) {
		above_begin(a);
		above_add(a);
	}
	if (v->rounds < WAY_ROUNDS || !above_unmoved(a)) {
		if (!v->probed && v->rounds >= WAY_ROUNDS / 2 && a->phase != PROBE_RTT)
			enter_phase(a, PROBE_RTT, a->now_ns);
		v->probed |= a->phase == PROBE_RTT;
		return;
	}
	a->min_rtt_ns = v->least_rtt_ns;
	a->min_rtt_stamp = a->now_ns;
	a->max_bw_filter[1] = max_of(a->max_bw_filter[1], a->clear_bps);
	another_line(a);
	enter_phase(a, PROBE_BW_REFILL, a->now_ns);
}

/* BBR's extra_acked: bytes reported beyond the rate, counted since no more than the rate was last reported. */
static void update_ack_aggregation(struct auto_state *a, const struct rate_sample *s)
{
	uint64_t due = rate_bytes(max_bw(a), s->now_ns - a->extra_acked_interval_start);

	if (a->extra_acked_delivered <= due) {
		a->extra_acked_interval_start = s->now_ns;
		a->extra_acked_delivered = due = 0;
	}
	a->extra_acked_delivered += s->acked_bytes;
	if (a->phase != STARTUP && a->extra_acked_delivered > due)
		a->extra_acked[0] = max_of(a->extra_acked[0], a->extra_acked_delivered - due);
}

static void age_extra_acked(struct auto_state *a)
{
	if (++a->extra_acked_rounds < EXTRA_ACKED_FILTER_LEN)
		return;
	a->extra_acked_rounds = 0;
	a->extra_acked[1] = a->extra_acked[0];
	a->extra_acked[0] = 0;
}

static void on_round(struct auto_state *a, uint64_t now_ns)
{
	bool over = congested(a), overran = probe_overran(a);

	if (a->policed && ++a->policed_rounds > POLICED_ROUNDS) {
		a->policed_lost += a->lost;
		a->policed_acked += a->acked;
	}
	if (a->phase == PROBE_BW_CRUISE && a->rounds > 3 && rtt_shows_queue(a, mean_rtt(a), 8))
		a->untaken = 0;
	look_for_policer(a, over);
	if (a->deaf_rounds) {
		over = a->ce;
		overran = false;
	}
	note_longer_path(a);
	note_slower(a, now_ns);
	keep_window(a, over);
	age_extra_acked(a);

	a->rounds++;
	switch (a->phase) {
	case STARTUP:
		if (full_bw_reached(a, 25, FULL_BW_ROUNDS) || (a->full_bw_count && lost_more(a, LOSS_THRESH_PPM)))
			enter_phase(a, DRAIN, now_ns);
		break;
	case PROBE_BW_REFILL:
		enter_phase(a, PROBE_BW_UP, now_ns);
		break;
	case PROBE_BW_UP:
		if (over)
			a->inflight_longterm = max_of(percent(a->most_in_flight, 90), bdp(a));
		else if (a->inflight_longterm != NONE)
			a->inflight_longterm = max_of(a->inflight_longterm, percent(a->most_in_flight, 125));
		if (!over)
			a->max_bw_filter[0] = max_of(a->max_bw_filter[0], a->up_bps);
		if (over || (!contended(a) && rtt_shows_queue(a, a->rtt_ns, 20)) || full_bw_reached(a, 10, 1) ||
		    a->rounds > UP_ROUNDS_MAX)
			enter_phase(a, PROBE_BW_DOWN, now_ns);
		if (over)
			wait_long(a);
		break;
	case PROBE_BW_CRUISE:
		if (a->rounds >= a->wait_rounds || now_ns >= a->cycle_stamp + a->wait_ns)
			enter_phase(a, PROBE_BW_REFILL, now_ns);
		break;
	default:
		break;
	}
	if ((over && a->phase == PROBE_BW_CRUISE && a->rounds > 1) ||
	    (overran && (a->phase == PROBE_BW_DOWN || a->phase == PROBE_BW_CRUISE)))
		adapt_lower_bounds(a);
	if (a->gave && a->phase == PROBE_BW_CRUISE)
		bound_policed(a);
}

static void begin_round(struct auto_state *a, const struct rate_sample *s)
{
	a->next_round_delivered = s->delivered_bytes;
	if (a->phase != PROBE_RTT)
		a->last_in_flight = a->most_in_flight;
	a->queued_rtt_ns = a->rtt_ns == NONE ? a->min_rtt_ns : a->rtt_ns;
	a->acked = a->lost = a->ce = a->rtts_ns = a->nrtts = a->most_rtt_ns = a->round_bps = a->most_in_flight = 0;
	a->rtt_ns = a->least_in_flight = NONE;
	a->limited = a->idle = false;
}

/* Ends drain and down. While contended, not before the round that shows their effect on the queue. */
static void on_drained(struct auto_state *a, const struct rate_sample *s)
{
	if ((a->phase == DRAIN || a->phase == PROBE_BW_DOWN) && (s->in_flight_bytes <= bdp(a) || a->rounds > 4) &&
	    (!a->window.bytes || a->rounds >= 2))
		enter_phase(a, PROBE_BW_CRUISE, s->now_ns);
}

/* --- the least round trip --- */

static uint64_t kept_ns(const struct auto_state *a)
{
	return max_of(PROBE_RTT_INTERVAL_NS, PROBE_RTT_INTERVAL_RTTS * a->min_rtt_ns);
}

/* True if the last probe-rtts saw about the same. A loss-based competitor lets its queue fall and rise; a longer way
 * looks the same each time. */
static bool probes_alike(const struct auto_state *a)
{
	uint64_t least = NONE, most = 0;

	for (int i = 0; i < PROBED_RTTS; i++) {
		least = min_of(least, a->probed_rtt_ns[i]);
		most = max_of(most, a->probed_rtt_ns[i]);
	}
	return most <= least + percent(least, ALIKE);
}

/* Bytes that others have in flight. The fall of the round trip when nearly all our bytes had left the queue tells the
 * line's rate, and so the others' part. */
static uint64_t others_bytes(const struct auto_state *a, const struct rate_sample *s)
{
	uint64_t left = s->sent_in_flight_bytes, fell_ns, all;

	if (a->before_bytes <= left || a->before_rtt_ns <= s->rtt_ns)
		return 0;
	fell_ns = max_of(a->before_rtt_ns - s->rtt_ns, a->before_rtt_ns / 16);
	all = rate_bytes(rate_from(a->before_bytes - left, fell_ns), s->rtt_ns);
	return all > left ? all - left : 0;
}

/* Sets the window by what others have in flight. Two windows that grow and fall by losses become equal slowly, and
 * BBR's does not grow at all, however long our queue is. */
static void weigh_window(struct auto_state *a, const struct rate_sample *s)
{
	uint64_t others = others_bytes(a, s), window = a->window.bytes;

	a->weighed_bytes = 0;
	if (!others || !contended(a) || !losses_rare(a))
		return;
	a->weighed_bytes = others;
	if (a->window_known && window < percent(others, WEIGHED))
		cubic_window_start(&a->window, a->now_ns, min_of(percent(others, WEIGHED), 2 * window),
		                   a->segment_bytes);
	else if (window > others)
		cubic_window_start(&a->window, a->now_ns, max_of(others, window / 2), a->segment_bytes);
}

/* Notes jumps of the round trip. A queue grows gradually. A switched way is longer at once, or in two steps if
 * datagrams under way still come back by the old one. */
static void track_jump(struct auto_state *a, uint64_t rtt_ns)
{
	struct above *v = &a->above;
	uint64_t excess = rtt_ns - min_of(rtt_ns, a->min_rtt_ns), more = rtt_ns - min_of(rtt_ns, a->last_rtt_ns);

	if (more >= excess / WAY_JUMPS)
		v->jump_ns += more;
	if (!rtt_shows_queue(a, rtt_ns, 20) || v->jump_ns < excess / 2)
		*v = (struct above){.jump_ns = 0};
	a->last_rtt_ns = rtt_ns;
}

static void update_min_rtt(struct auto_state *a, const struct rate_sample *s)
{
	bool old = s->now_ns > max_of(a->min_rtt_stamp, a->probe_rtt_stamp) + kept_ns(a);

	if (s->rtt_ns) {
		track_jump(a, s->rtt_ns);
		a->rtt_ns = min_of(a->rtt_ns, s->rtt_ns);
		a->most_rtt_ns = max_of(a->most_rtt_ns, s->rtt_ns);
		a->rtts_ns += s->rtt_ns;
		a->nrtts++;
		if (!a->min_rtt_ns || s->rtt_ns <= a->min_rtt_ns) {
			a->min_rtt_ns = s->rtt_ns;
			a->min_rtt_stamp = s->now_ns;
		}
	}
	if (old && a->phase != PROBE_RTT && a->phase != STARTUP)
		enter_phase(a, PROBE_RTT, s->now_ns);
	if (a->phase != PROBE_RTT)
		return;
	if (a->probe_rtt_done_stamp == NONE && (s->in_flight_bytes <= bdp(a) / 2 + MIN_PIPE_BYTES || a->rounds > 1)) {
		a->probe_rtt_done_stamp = s->now_ns + max_of(a->min_rtt_ns, PROBE_RTT_DURATION_NS);
		a->drained_bytes = s->delivered_bytes;
	}
	if (a->rounds > PROBE_RTT_ROUNDS) { /* no report has brought a measurement: end the phase all the same */
		a->probe_rtt_stamp = s->now_ns;
		enter_phase(a, PROBE_BW_REFILL, s->now_ns);
		return;
	}
	if (s->now_ns < a->probe_rtt_done_stamp || !s->rtt_ns || s->prior_bytes < a->drained_bytes)
		return;
	weigh_window(a, s);
	a->probe_rtt_stamp = s->now_ns;
	memmove(a->probed_rtt_ns + 1, a->probed_rtt_ns, sizeof(a->probed_rtt_ns) - sizeof(a->probed_rtt_ns[0]));
	a->probed_rtt_ns[0] = s->rtt_ns;
	if (s->now_ns > a->min_rtt_stamp + max_of(MIN_RTT_FILTER_LEN_NS, kept_ns(a)) &&
	    (!contended(a) || probes_alike(a))) {
		a->min_rtt_ns = s->rtt_ns;
		a->min_rtt_stamp = s->now_ns;
	}
	enter_phase(a, PROBE_BW_REFILL, s->now_ns);
}

/* --- the row --- */

static void auto_init(struct rate_control *c, uint64_t now_ns)
{
	struct auto_state *a = state_of(c);

	a->bw_shortterm = a->inflight_longterm = a->rtt_ns = a->least_in_flight = NONE;
	a->segment_bytes = SEGMENT_BYTES;
	a->random = 2463534242u ^ (uint32_t)now_ns;
	if (!a->random)
		a->random = 1;
	a->cycle_stamp = now_ns;
	set_outputs(c, a);
}

/* True if a probe finds room: it goes on from the rate that it has reached, a quarter more each round, as in the draft.
 * With a queue the probe is believed only after its round, if it has caused no congestion. */
static bool brings_more(const struct auto_state *a, const struct rate_sample *s)
{
	return a->phase == PROBE_BW_UP && a->rounds && !contended(a) && !a->lost && !a->ce && s->rtt_ns &&
	       !rtt_shows_queue(a, a->most_rtt_ns, 10);
}

static void auto_acked(struct rate_control *c, const struct rate_sample *s)
{
	struct auto_state *a = state_of(c);
	uint64_t *sample = a->phase == PROBE_BW_UP || (a->phase == PROBE_BW_DOWN && a->rounds < 2)
	                       ? &a->up_bps
	                       : &a->max_bw_filter[0];

	a->now_ns = s->now_ns;
	a->segment_bytes = max_of(a->segment_bytes, s->datagram_bytes);
	a->acked += s->acked_bytes;
	a->lost += s->lost_bytes;
	a->lost -= min_of(a->lost, s->spurious_bytes);
	a->ce += FAULT(FAULT_MARKS_IGNORED) ? 0 : s->ce;
	a->limited |= s->app_limited || s->late;
	a->idle |= s->app_limited;
	a->most_in_flight = max_of(a->most_in_flight, s->sent_in_flight_bytes);
	a->least_in_flight = min_of(a->least_in_flight, s->sent_in_flight_bytes);
	update_min_rtt(a, s);
	if (!a->min_rtt_ns)
		return;
	if (s->rtt_ns && !rtt_shows_queue(a, s->rtt_ns, 10))
		a->empty_at_ns = s->now_ns;
	if (s->bw_bps) {
		a->round_bps = max_of(a->round_bps, s->bw_bps);
		if (!(s->app_limited || s->late) || s->bw_bps > max_bw(a))
			*sample = max_of(*sample, s->bw_bps);
		a->fresh |= !(s->app_limited || s->late);
		if (brings_more(a, s))
			a->max_bw_filter[0] = max_of(a->max_bw_filter[0], s->bw_bps);
	}
	update_ack_aggregation(a, s);
	on_drained(a, s);
	if (a->phase == PROBE_BW_UP && a->rounds && !contended(a) && s->rtt_ns && rtt_shows_queue(a, s->rtt_ns, 20) &&
	    s->in_flight_bytes > percent(bdp(a), 120))
		enter_phase(a, PROBE_BW_DOWN, s->now_ns);
	if (s->prior_bytes >= a->next_round_delivered) {
		on_round(a, s->now_ns);
		begin_round(a, s);
	}
	set_outputs(c, a);
}

static const char *auto_state_name(const struct rate_control *c)
{
	return phases[((const struct auto_state *)c->state)->phase].name;
}

const struct rate_ops rate_auto = {.name = "auto", .init = auto_init, .on_acked = auto_acked, .state = auto_state_name};
