/* SPDX-License-Identifier: Apache-2.0 */
/* distance.h - how long a link is: what its file says, what its round trip says, and which of them rules. Pure. */
#ifndef DAEMON_DISTANCE_H
#define DAEMON_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum distance_limits {
	DISTANCE_UNKNOWN_M = 1000000, /* until it is measured, if the file does not say */
	DISTANCE_FLOOR_NS = 200000,   /* of a round trip: machines that sleep between packets may take so much of it */
	DISTANCE_PERCENT = 5,         /* difference that matters */
	DISTANCE_SAMPLES = 30,        /* seconds that the least round trip is taken from */
	DISTANCE_FIRST = 2,           /* samples, the last two alike, after which a way is spoken of ... */
	DISTANCE_FIRST_NOISY = 10,    /* ... or so many, however unlike they are */
	DISTANCE_RISE = 5,            /* samples in a row that a longer one is believed after */
	DISTANCE_ALIKE = 8,           /* if they differ by less than this part of what they are longer */
	DISTANCE_CLEAR = 4,           /* times the noise: a change that is larger is spoken of as soon as it is believed */
	DISTANCE_PATIENCE = 120,      /* samples that a smaller one has to last before it is */
	DISTANCE_LARGE_NS = 1000000,  /* no machine adds so much for long: such changes are spoken of however many they are */
	DISTANCE_QUICK = 3,           /* smaller ones that are spoken of at once ... */
	DISTANCE_QUICK_AGAIN = 600,   /* ... and samples after which there may be one more */
	DISTANCE_FRESH_NS = 1500000000, /* a round trip measured longer ago than that was a sample before */
	DISTANCE_STALE = 3,             /* seconds without a sample: it tells of a way that was */
};

struct distance {
	uint64_t configured_m; /* Distance=; 0: auto */
	uint64_t least_ns;     /* round trip; 0: not measured */
	uint64_t said_ns;      /* that was last spoken of; 0: nothing was said yet */
	uint64_t steps;        /* how often the way has changed since the first measurement */
	uint64_t recent_ns[DISTANCE_SAMPLES];
	unsigned n, next; /* samples there; where the next goes */
	unsigned missed;  /* seconds, about, since the last one */
	unsigned rise;    /* samples in a row that say that the way is longer now ... */
	uint64_t rise_least_ns, rise_most_ns; /* ... and what they say */
	uint64_t last_ns, noise_ns;           /* the last sample; how far samples are from the one before, smoothed */
	int apart;                            /* 1, -1: the way is longer, shorter than what was spoken of; 0: alike */
	unsigned apart_for;                   /* samples in a row */
	unsigned quick, quick_age;            /* changes spoken of at once; samples since there was one less of them */
};

enum distance_news {
	DISTANCE_SAME,
	DISTANCE_MEASURED, /* for the first time */
	DISTANCE_LONGER,   /* the way has changed: a protection switch, or back from one */
	DISTANCE_SHORTER,
};

void distance_init(struct distance *d, uint64_t configured_m);

/* About once a second: the least round trip of the last one or two (proxy_link_status). 0: there was none. */
enum distance_news distance_sample(struct distance *d, uint64_t rtt_min_ns);

/* Fibre of that length there and back, and the machines' share. */
uint64_t distance_rtt_ns(uint64_t distance_m);

/* Fibre that makes the least round trip, with nothing taken off for the machines: an upper bound. 0: not measured. */
uint64_t distance_measured_m(const struct distance *d);

/* Since it was last measured, in whole seconds; 0: just now, or never. */
uint64_t distance_age_ns(const struct distance *d);
bool distance_stale(const struct distance *d);

/* The measurement contradicts Distance= by more than DISTANCE_PERCENT, the machines' share granted. */
bool distance_differs(const struct distance *d);

/* The one that buffers are worked out for: the larger where the two differ. */
uint64_t distance_in_force_m(const struct distance *d);
/* The same as a round trip: the measured one, if it rules. */
uint64_t distance_in_force_rtt_ns(const struct distance *d);

#endif
