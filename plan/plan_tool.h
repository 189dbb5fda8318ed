/* SPDX-License-Identifier: Apache-2.0 */
/* plan_tool.h - `longreach plan` on given streams, so that tests can read them. For plan/ alone.
 *
 * plan_tool.c reads the command line, plan_report.c writes. */
#ifndef PLAN_PLAN_TOOL_H
#define PLAN_PLAN_TOOL_H

#include <stdio.h>

#include "plan/plan.h"

enum plan_format {
	PLAN_TEXT,
	PLAN_JSON,
	PLAN_CSV, /* a row per distance */
};

struct plan_options {
	struct plan_in in;
	const struct plan_model *model; /* NULL: none */
	enum plan_format format;
	const char *plot; /* an SVG file; NULL: no */
	bool models;      /* the table of all that are known */
	bool help;
	double length_m; /* 0: a round trip was given */
};

int plan_tool_run(int argc, char **argv, FILE *out, FILE *err);

void plan_text(const struct plan *p, FILE *out);
void plan_json(const struct plan *p, FILE *out);
/* 1 to 20,000 km of a line like p's; the first line names the columns. */
void plan_csv(const struct plan *p, FILE *out);
/* Markdown: what each model sends over a line like in's, with the kind of parallelism that in says. */
void plan_table(const struct plan_in *in, FILE *out);

/* One variable of the environment that a program reads, and why it should have that value. */
struct plan_setting {
	const char *program; /* "nccl", "ucx", "nixl" */
	char text[96];       /* NAME=VALUE, or words where it is no variable */
	char why[224];
};
#define PLAN_SETTINGS_MAX 16
unsigned plan_settings(const struct plan *p, struct plan_setting s[PLAN_SETTINGS_MAX]);

#endif
