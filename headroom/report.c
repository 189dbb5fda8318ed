/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - computes everything that is reported about one link. */
#include "headroom/report.h"

#include <string.h>

const char *report_extra(unsigned i)
{
	/* In the order of enum headroom_extra. */
	static const char *const names[] = {"--macsec",        "--transponder", "--gearbox", "--peer-quanta",
	                                    "--small-packets", "--pool",        "--drain",   "--buffer",
	                                    "--lossless-mtu",  "--medium",      "--asic"};

	return i < sizeof(names) / sizeof(names[0]) ? names[i] : NULL;
}

const char *report_options(unsigned extras, char text[REPORT_OPTIONS_MAX])
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; report_extra(i) != NULL; i++)
		if ((extras & 1u << i) != 0)
			len += (size_t)snprintf(text + len, REPORT_OPTIONS_MAX - len, "%s%s", len > 0 ? ", " : "",
			                        report_extra(i));
	return text;
}

static enum headroom_model explained(const struct options *o)
{
	if (o->model != HEADROOM_MODELS)
		return o->model;
	if (o->emit != NULL)
		return emit_model(o->emit);
	return HEADROOM_PHYSICS;
}

/* The ASIC that was asked for, or all whose limits are known. */
static void judge(const struct options *o, struct report *rep)
{
	char why[HEADROOM_ERROR_MAX];

	for (const struct headroom_asic *a = headroom_asics(); a->name != NULL; a++) {
		if (a->port_max_bytes == 0 || (o->in.asic != NULL && o->in.asic != a) ||
		    rep->n_verdicts == REPORT_VERDICTS_MAX)
			continue;
		if (headroom_judge(a, &o->in, &rep->verdicts[rep->n_verdicts], why) == 0)
			rep->n_verdicts++;
	}
}

int report_work_out(const struct options *o, struct report *rep, FILE *err)
{
	char why[HEADROOM_ERROR_MAX];
	int r;

	*rep = (struct report){.o = o, .model = explained(o), .side_by_side = o->model == HEADROOM_MODELS};
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		rep->models[m].err = headroom_compute(m, &o->in, &rep->models[m].r, rep->models[m].why);
	rep->r = &rep->models[rep->model].r;
	if (rep->models[rep->model].err < 0) {
		options_complain(err, "%s", rep->models[rep->model].why);
		return rep->models[rep->model].err;
	}
	r = headroom_plan_link(rep->model, &o->in, &rep->plan, why);
	if (r < 0) {
		options_complain(err, "%s", why);
		return r;
	}
	judge(o, rep);
	return 0;
}
