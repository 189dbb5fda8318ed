/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Queues, schedulers and a busy machine only ever add to a round trip, so the least of many is nearest to the fibre.
 * The core keeps the least of one to two seconds; distance_sample() takes one such value a second, and the least of the
 * last thirty samples counts. This minimum is steady on an idle link, which sees few packets, but alone it would notice
 * a longer way only after half a minute. So five samples in a row that are all more than 5 % (and more than the
 * machines' share) above the minimum are believed, if their excesses differ by less than an eighth: the excess of a
 * longer way is the same each time, the delay of the machines is not. Then the older samples are forgotten. A shorter
 * way is believed at once, because nothing makes a packet early. A first sample may be too long, so nothing is said
 * about a way before the second one, least of all that the link's file is wrong. A quiet link measures nothing for
 * seconds: its last value counts once. Together: a longer way is noticed five to eight seconds after a protection
 * switch.
 *
 * The distance in force follows every such change. The log does not: an operator who reads ten times an hour that the
 * way has changed ignores the eleventh line. The noise of a link is the distance of each sample from the one before,
 * smoothed over sixteen samples; a single step counts little in it. A change of more than four times the noise is
 * reported at once, a smaller one when it has lasted for two minutes. Changes below a millisecond, which a busy machine
 * can make, are reported at once only three times, and once more for every ten minutes; all others must last two
 * minutes first, and two minutes longer for each recent report of this kind. */
#include "distance.h"

#include <string.h>

#include "config.h"

#define PS_PER_NS 1000ull

static uint64_t fibre_rtt_ns(uint64_t distance_m)
{
	return 2 * distance_m * FIBRE_PS_PER_M / PS_PER_NS;
}

uint64_t distance_rtt_ns(uint64_t distance_m)
{
	return fibre_rtt_ns(distance_m) + DISTANCE_FLOOR_NS;
}

static uint64_t percent_more(uint64_t ns)
{
	return ns + ns * DISTANCE_PERCENT / 100;
}

static uint64_t percent_less(uint64_t ns)
{
	return ns - ns * DISTANCE_PERCENT / 100;
}

/* True if ns is clearly longer: by a share of the way and by more than the machines' share. */
static bool is_longer(uint64_t than_ns, uint64_t ns)
{
	return ns > percent_more(than_ns) && ns > than_ns + DISTANCE_FLOOR_NS;
}

void distance_init(struct distance *d, uint64_t configured_m)
{
	*d = (struct distance){.configured_m = configured_m};
}

static void keep(struct distance *d, uint64_t ns)
{
	d->recent_ns[d->next] = ns;
	d->next = (d->next + 1) % DISTANCE_SAMPLES;
	if (d->n < DISTANCE_SAMPLES)
		d->n++;
}

/* Forgets all but the last `n` samples. */
static void forget_but(struct distance *d, unsigned n)
{
	uint64_t last[DISTANCE_SAMPLES];

	for (unsigned i = 0; i < n; i++)
		last[i] = d->recent_ns[(d->next + DISTANCE_SAMPLES - n + i) % DISTANCE_SAMPLES];
	memcpy(d->recent_ns, last, n * sizeof(last[0]));
	d->n = n;
	d->next = n % DISTANCE_SAMPLES;
}

static uint64_t least(const struct distance *d)
{
	uint64_t ns = UINT64_MAX;

	for (unsigned i = 0; i < d->n; i++)
		if (d->recent_ns[i] < ns)
			ns = d->recent_ns[i];
	return ns;
}

static void note_noise(struct distance *d, uint64_t ns)
{
	uint64_t apart_ns = ns > d->last_ns ? ns - d->last_ns : d->last_ns - ns;
	uint64_t most_ns = DISTANCE_CLEAR * d->noise_ns + DISTANCE_FLOOR_NS; /* a step must not count as noise */

	if (d->last_ns != 0) {
		if (apart_ns > most_ns)
			apart_ns = most_ns;
		d->noise_ns = d->n == 1 ? apart_ns : d->noise_ns - d->noise_ns / 16 + apart_ns / 16;
	}
	d->last_ns = ns;
}

static bool are_alike(uint64_t a_ns, uint64_t b_ns)
{
	return !is_longer(a_ns, b_ns) && !is_longer(b_ns, a_ns);
}

/* before_ns: the sample before the last one. */
static bool may_begin(const struct distance *d, uint64_t before_ns)
{
	return d->n >= DISTANCE_FIRST_NOISY || (d->n >= DISTANCE_FIRST && are_alike(before_ns, d->last_ns));
}

/* Whether a believed change that was not reported yet may be reported now. */
static bool may_speak(struct distance *d)
{
	uint64_t step_ns = d->apart > 0 ? d->least_ns - d->said_ns : d->said_ns - d->least_ns;

	bool clear = step_ns > DISTANCE_CLEAR * d->noise_ns;

	if (clear && step_ns >= DISTANCE_LARGE_NS)
		return true;
	if ((!clear || d->quick == DISTANCE_QUICK) && d->apart_for < DISTANCE_PATIENCE * (1 + d->quick))
		return false;
	if (d->quick < DISTANCE_QUICK)
		d->quick++;
	d->quick_age = 0;
	return true;
}

static void grow_older(struct distance *d)
{
	if (d->quick == 0 || ++d->quick_age < DISTANCE_QUICK_AGAIN)
		return;
	d->quick--;
	d->quick_age = 0;
}

/* Small changes add up: each sample is compared with the distance last reported, not with the sample before. */
static enum distance_news news(struct distance *d, uint64_t before_ns)
{
	int apart = is_longer(d->said_ns, d->least_ns) ? 1 : is_longer(d->least_ns, d->said_ns) ? -1 : 0;
	bool first = d->said_ns == 0;

	grow_older(d);
	d->apart_for = apart == d->apart ? d->apart_for + 1 : 1;
	d->apart = apart;
	if (first ? !may_begin(d, before_ns) : apart == 0 || !may_speak(d))
		return DISTANCE_SAME;
	d->steps += !first;
	d->said_ns = d->least_ns;
	d->apart = 0;
	return first ? DISTANCE_MEASURED : apart > 0 ? DISTANCE_LONGER : DISTANCE_SHORTER;
}

static void note_rise(struct distance *d, uint64_t ns)
{
	if (d->least_ns == 0 || !is_longer(d->least_ns, ns)) {
		d->rise = 0;
		return;
	}
	if (d->rise++ == 0)
		d->rise_least_ns = d->rise_most_ns = ns;
	d->rise_least_ns = ns < d->rise_least_ns ? ns : d->rise_least_ns;
	d->rise_most_ns = ns > d->rise_most_ns ? ns : d->rise_most_ns;
}

enum distance_news distance_sample(struct distance *d, uint64_t rtt_min_ns)
{
	uint64_t before_ns = d->last_ns;

	if (rtt_min_ns == 0) {
		d->missed += d->least_ns != 0;
		return DISTANCE_SAME;
	}
	d->missed = 0;
	note_noise(d, rtt_min_ns);
	keep(d, rtt_min_ns);
	note_rise(d, rtt_min_ns);
	if (d->rise >= DISTANCE_RISE &&
	    d->rise_most_ns - d->rise_least_ns < (d->rise_least_ns - d->least_ns) / DISTANCE_ALIKE) {
		forget_but(d, DISTANCE_RISE);
		d->rise = 0;
	}
	d->least_ns = least(d);
	return news(d, before_ns);
}

uint64_t distance_measured_m(const struct distance *d)
{
	return d->least_ns * PS_PER_NS / FIBRE_PS_PER_M / 2;
}

uint64_t distance_age_ns(const struct distance *d)
{
	return d->missed * 1000000000ull;
}

bool distance_stale(const struct distance *d)
{
	return d->missed > DISTANCE_STALE;
}

static bool is_beyond(const struct distance *d)
{
	return d->least_ns > percent_more(fibre_rtt_ns(d->configured_m)) + DISTANCE_FLOOR_NS;
}

/* True if the measurement exceeds the file's distance by more than the link's noise, too: the least of a few samples
 * may be too large by that much. */
static bool is_clearly_beyond(const struct distance *d)
{
	return is_beyond(d) && d->least_ns > fibre_rtt_ns(d->configured_m) + DISTANCE_CLEAR * d->noise_ns;
}

bool distance_differs(const struct distance *d)
{
	if (d->configured_m == 0 || d->said_ns == 0)
		return false;
	return is_clearly_beyond(d) || d->least_ns < percent_less(fibre_rtt_ns(d->configured_m));
}

static bool measurement_rules(const struct distance *d)
{
	return d->least_ns != 0 && (d->configured_m == 0 || is_beyond(d));
}

uint64_t distance_in_force_m(const struct distance *d)
{
	if (measurement_rules(d))
		return distance_measured_m(d);
	return d->configured_m != 0 ? d->configured_m : DISTANCE_UNKNOWN_M;
}

uint64_t distance_in_force_rtt_ns(const struct distance *d)
{
	return measurement_rules(d) ? d->least_ns : distance_rtt_ns(distance_in_force_m(d));
}
