/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line of `longreach headroom`. For headroom/ alone. */
#ifndef HEADROOM_OPTIONS_H
#define HEADROOM_OPTIONS_H

#include <stdio.h>

#include "headroom/headroom.h"

#define OPTIONS_LIST_MAX 32
#define OPTIONS_NAME_MAX 64 /* of an interface */

enum options_format {
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_CSV,
};

/* Several values of one option, for the what-if table. */
struct options_list {
	uint64_t values[OPTIONS_LIST_MAX];
	unsigned n;
};

struct options {
	struct headroom_in in;
	enum headroom_model model; /* HEADROOM_MODELS: not said */
	enum options_format format;
	bool what_if;
	bool apply; /* `headroom apply` */
	bool dry_run;
	bool ports_given; /* --ports: in.ports was counted, not assumed */
	bool help;
	const char *emit;           /* NULL: no */
	const char *dev;            /* NULL: the emitter's own */
	uint64_t port_buffer_bytes; /* that the port has; 0: what is known of the device */
	uint64_t pool_size_bytes;   /* of SONiC's ingress_lossless_pool; 0: the switch works it out */
	struct options_list lengths_m, rates_bps, mtus;
};

/* 0, or -1 after having said on `err` what was expected. */
int options_read(struct options *o, int argc, char **argv, FILE *err);
void options_usage(FILE *out);

/* What `cli` says of a problem: its name first, and no newline. */
void options_complain(FILE *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
