/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what `longreach headroom` prints. For headroom/ alone. */
#ifndef HEADROOM_REPORT_H
#define HEADROOM_REPORT_H

#include "headroom/options.h"

#define REPORT_VERDICTS_MAX 16
#define REPORT_OPTIONS_MAX  192 /* all names of report_extra() */

/* One model's answer, or why there is none. */
struct report_model {
	int err; /* 0, or what headroom_compute() returned */
	struct headroom_result r;
	char why[HEADROOM_ERROR_MAX];
};

/* Everything that is to be said of one link. */
struct report {
	const struct options *o;
	enum headroom_model model; /* the one that is explained */
	const struct headroom_result *r;
	struct report_model models[HEADROOM_MODELS];
	struct headroom_plan plan;
	struct headroom_verdict verdicts[REPORT_VERDICTS_MAX];
	unsigned n_verdicts;
	bool side_by_side;
};

/* 0, or as headroom_compute() after having said on `err` why not. */
int report_work_out(const struct options *o, struct report *rep, FILE *err);

/* The option that bit `i` of headroom_result.unused stands for; NULL beyond the last. */
const char *report_extra(unsigned i);
/* "--macsec, --drain": the options of these bits of enum headroom_extra, in `text`, which is returned. */
const char *report_options(unsigned extras, char text[REPORT_OPTIONS_MAX]);

void report_text(const struct report *rep, FILE *out);
void report_json(const struct report *rep, FILE *out);
void report_csv(const struct report *rep, FILE *out);

/* All models over all lengths, rates and MTUs; as headroom_compute() after having said on `err` why not. */
int what_if(const struct options *o, FILE *out, FILE *err);

/* Ready configuration; -1 after having said on `err` why it would not do what it says. */
int emit(const struct report *rep, FILE *out, FILE *err);
bool emit_knows(const char *kind);
/* The model that suits the device, where none was asked for. */
enum headroom_model emit_model(const char *kind);

#endif
