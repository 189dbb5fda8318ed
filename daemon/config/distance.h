/* SPDX-License-Identifier: Apache-2.0 */
/* distance.h - how long a link is: by its file, by its round trip, and which of the two counts. Pure. */
#ifndef DAEMON_DISTANCE_H
#define DAEMON_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum distance_limits {
	DISTANCE_UNKNOWN_M = 1000000, /* until the distance is measured, if the file does not give it */
	DISTANCE_FLOOR_NS = 200000,   /* the machines' share of a round trip: machines that sleep between packets may
	                               * take this much */
	DISTANCE_PERCENT = 5,         /* difference that matters */
	DISTANCE_SAMPLES = 30,        /* seconds that the least round trip is taken from */
	DISTANCE_FIRST = 2,           /* samples, the last two alike, after which a distance is reported ... */
	DISTANCE_FIRST_NOISY = 10,    /* ... or this many samples, however different */
	DISTANCE_RISE = 5,            /* samples in a row after which a longer distance is believed */
	DISTANCE_ALIKE = 8,           /* if they differ by less than 1/8 of their excess */
	DISTANCE_CLEAR = 4,           /* times the noise: a larger change is reported as soon as it is believed */
	DISTANCE_PATIENCE = 120,      /* samples that a smaller change has to last before it is reported */
	DISTANCE_LARGE_NS = 1000000,  /* no machine adds so much for long: larger changes are always reported */
	DISTANCE_QUICK = 3,           /* smaller changes that are reported at once ... */
	DISTANCE_QUICK_AGAIN = 600,   /* ... and samples after which one more may be reported at once */
	DISTANCE_FRESH_NS = 1500000000, /* a round trip measured longer ago was already counted as a sample */
	DISTANCE_STALE = 3,             /* seconds without a sample after which the measurement is out of date */
};

struct distance {
	uint64_t configured_m; /* Distance=; 0: auto */
	uint64_t least_ns;     /* round trip; 0: not measured */
	uint64_t said_ns;      /* round trip that was last reported; 0: none was yet */
	uint64_t steps;        /* how often the way has changed since the first measurement */
	uint64_t recent_ns[DISTANCE_SAMPLES];
	unsigned n, next; /* samples there; where the next goes */
	unsigned missed;  /* seconds, about, since the last sample */
	unsigned rise;    /* samples in a row that show a longer way ... */
	uint64_t rise_least_ns, rise_most_ns; /* ... and the least and the largest of these */
	uint64_t last_ns, noise_ns;           /* the last sample; how far samples are from the one before, smoothed */
	int apart;                            /* 1, -1: the way is longer, shorter than the reported one; 0: alike */
	unsigned apart_for;                   /* samples in a row */
	unsigned quick, quick_age;            /* small changes reported at once; samples since `quick` was last
	                                       * decremented */
};

enum distance_news {
	DISTANCE_SAME,
	DISTANCE_MEASURED, /* for the first time */
	DISTANCE_LONGER,   /* the way has changed: a protection switch, or back from one */
	DISTANCE_SHORTER,
};

void distance_init(struct distance *d, uint64_t configured_m);

/* Call about once a second with the least round trip of the last one or two seconds (proxy_link_status). 0: none was
 * measured. */
enum distance_news distance_sample(struct distance *d, uint64_t rtt_min_ns);

/* Fibre of that length there and back, and the machines' share. */
uint64_t distance_rtt_ns(uint64_t distance_m);

/* Length of fibre that takes the least round trip, without subtracting the machines' share: an upper bound. 0: not
 * measured. */
uint64_t distance_measured_m(const struct distance *d);

/* Time since the last measurement, in whole seconds, as ns; 0: just now, or never. */
uint64_t distance_age_ns(const struct distance *d);
bool distance_stale(const struct distance *d);

/* The measurement contradicts Distance= by more than DISTANCE_PERCENT, the machines' share granted. */
bool distance_differs(const struct distance *d);

/* The distance that buffers are planned for: the larger of the file's and the measured one if they differ. */
uint64_t distance_in_force_m(const struct distance *d);
/* The same as a round trip: the measured round trip, if the measurement is in force. */
uint64_t distance_in_force_rtt_ns(const struct distance *d);

#endif
