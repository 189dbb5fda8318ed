/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.c - the link explained, term by term. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/util/units.h"
#include "headroom/report.h"

static void show_link(const struct report *rep, FILE *out)
{
	const struct headroom_in *in = &rep->o->in;
	char rate[UNITS_TEXT_MAX], line[UNITS_TEXT_MAX];

	units_show_rate(rate, (double)in->rate_bps);
	if (in->rtt_ns != 0)
		units_show_time(line, (double)in->rtt_ns);
	else
		units_show_distance(line, (double)in->length_m);
	fprintf(out, "A link of %s%s at %s, port MTU %u, lossless priorities", line,
	        in->rtt_ns != 0 ? " there and back" : "", rate, in->port_mtu);
	for (unsigned i = 0; i < in->n_priorities; i++)
		fprintf(out, "%s %u", i > 0 ? "," : "", in->priorities[i].number);
	fprintf(out, "\n\n");
}

/* A picture: a bar as long as what has arrived. */
static void show_time_line(const struct report *rep, FILE *out)
{
	static const char bar[] = "########################";
	const struct headroom_plan *p = &rep->plan;
	uint64_t last = p->events[p->n_events - 1].arrived_bytes;
	char at[UNITS_TEXT_MAX], bytes[UNITS_TEXT_MAX];

	fprintf(out, "From XOFF to silence\n");
	for (unsigned i = 0; i < p->n_events; i++) {
		const struct headroom_event *e = &p->events[i];
		int length = last == 0 ? 0 : (int)((double)e->arrived_bytes / (double)last * (double)(sizeof(bar) - 1));

		units_show_time(at, (double)e->at_ns);
		units_show_bytes(bytes, (double)e->arrived_bytes);
		fprintf(out, "  %9s  %9s  %-*.*s  %s\n", at, bytes, (int)sizeof(bar) - 1, length, bar, e->what);
	}
	fprintf(out, "  (time since XOFF, bytes that have arrived by then at line rate)\n\n");
}

static void show_term(const struct headroom_term *t, FILE *out)
{
	static const char *const marks[] = {[HEADROOM_BYTES] = "+", [HEADROOM_FACTOR] = "x", [HEADROOM_NOTE] = " "};

	if (t->unit == HEADROOM_FACTOR)
		fprintf(out, "  %s %14.4f    %-22s %s\n", marks[t->unit], t->value, t->name, t->source);
	else
		fprintf(out, "  %s %14.0f B  %-22s %s\n", marks[t->unit], t->value, t->name, t->source);
}

static void show_terms(const struct report *rep, FILE *out)
{
	fprintf(out, "Term by term, model %s\n(%s)\n", headroom_model_name(rep->model),
	        headroom_model_source(rep->model));
	for (unsigned i = 0; i < rep->r->n_terms; i++)
		show_term(&rep->r->terms[i], out);
	fputc('\n', out);
}

static void line_bytes(FILE *out, const char *what, uint64_t bytes, const char *meaning)
{
	char text[UNITS_TEXT_MAX];

	fprintf(out, "  %-30s %14" PRIu64 " B  %9s  %s\n", what, bytes, units_show_bytes(text, (double)bytes), meaning);
}

static void show_result(const struct report *rep, FILE *out)
{
	const struct headroom_result *r = rep->r;

	fprintf(out, "Result\n");
	line_bytes(out, "headroom", r->headroom_bytes, "room above XOFF; SONiC calls it xoff");
	line_bytes(out, "XOFF at a fill of", r->xoff_fill_bytes, "mlx5 calls it xoff, NX-OS pause-threshold");
	line_bytes(out, "XOFF at a reserved fill of", r->xoff_reserved_bytes,
	           "Cumulus calls it xoff: without the shared pool");
	line_bytes(out, "XON at a fill of", r->xon_fill_bytes, "SONiC, mlx5, NX-OS");
	if (r->xon_delta_bytes != 0)
		line_bytes(out, "XON below XOFF by", r->xon_delta_bytes, "Cumulus calls it xon");
	line_bytes(out, "buffer", r->size, "the model calls it size");
	fprintf(out, "  with the model's names: xon %" PRIu64 ", xoff %" PRIu64 ", size %" PRIu64 "\n\n", r->xon,
	        r->xoff, r->size);
}

static void show_models(const struct report *rep, FILE *out)
{
	const struct headroom_result *physics = &rep->models[HEADROOM_PHYSICS].r;

	fprintf(out,
	        "Side by side       headroom         xon        xoff        size   spread (headroom, to physics)\n");
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		const struct report_model *o = &rep->models[m];

		if (o->err < 0) {
			fprintf(out, "  %-14s %s\n", headroom_model_name(m), o->why);
			continue;
		}
		fprintf(out, "  %-14s %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "   %+.0f %%\n",
		        headroom_model_name(m), o->r.headroom_bytes, o->r.xon, o->r.xoff, o->r.size,
		        ((double)o->r.headroom_bytes / (double)physics->headroom_bytes - 1) * 100);
		if (o->r.warning != NULL)
			fprintf(out, "  %-14s %s\n", "", o->r.warning);
	}
	fputc('\n', out);
}

static void show_plan(const struct report *rep, FILE *out)
{
	const struct headroom_plan *p = &rep->plan;
	char text[UNITS_TEXT_MAX];

	fprintf(out, "What follows\n");
	line_bytes(out, "bandwidth-delay product", p->bdp_bytes, "rate x round trip");
	line_bytes(out, "deep buffer", p->deep_buffer_bytes,
	           "4 bandwidth-delay products, which an edge that repairs loss needs per direction");
	fprintf(out, "  %-30s %16" PRIu64 "             each has a packet in the deep buffer at any time\n",
	        "busy queue pairs at once", p->qps_at_once);
	fprintf(out, "  %-30s %16" PRIu64 "             with more, packets of hosts that ignore CNPs find no room\n",
	        "busy queue pairs in turns", p->qps_in_turns);
	line_bytes(out, "no-underrun XON", p->no_underrun_xon_bytes,
	           "at a lower XON the line runs dry after each pause");
	fprintf(out, "  %-30s %16s             65535 quanta\n", "a pause lasts",
	        units_show_time(text, (double)p->pause_ns));
	fprintf(out, "  %-30s %16s             %s\n", "refresh XOFF every",
	        units_show_time(text, (double)p->refresh_ns),
	        p->loop_ns > p->pause_ns
	            ? "the control loop is longer than a pause: several refreshes are under way at once"
	            : "half of a pause, so that one refresh may be lost");
	for (unsigned i = 0; i < p->n_priorities; i++) {
		snprintf(text, sizeof(text), "headroom of priority %u", p->priorities[i].number);
		line_bytes(out, text, p->priorities[i].headroom_bytes, "");
	}
	line_bytes(out, "headroom of the port", p->port_bytes, "");
	snprintf(text, sizeof(text), "pool of %u port%s", rep->o->in.ports, rep->o->in.ports == 1 ? "" : "s");
	line_bytes(out, text, p->pool_bytes, "");
	fprintf(out, "  %-30s %14" PRIu64 "               priorities that the pool can pause at once\n\n", "",
	        p->pool_pauses);
}

static void show_verdict(const struct report *rep, const struct headroom_verdict *v, FILE *out)
{
	const struct headroom_in *in = &rep->o->in;
	char rate[UNITS_TEXT_MAX], reach[UNITS_TEXT_MAX], need[UNITS_TEXT_MAX], limit[UNITS_TEXT_MAX], on[32] = "";
	char options[REPORT_OPTIONS_MAX];

	units_write_rate(rate, sizeof(rate), in->rate_bps);
	units_show_distance(reach, (double)v->longest_m);
	units_show_bytes(need, (double)v->needed_bytes);
	units_show_bytes(limit, (double)v->limit_bytes);
	fprintf(out, "  %c%s: ", toupper((unsigned char)v->asic->name[0]), v->asic->name + 1);
	if (v->too_fast) {
		units_write_rate(limit, sizeof(limit), v->asic->port_max_bps);
		fprintf(out, "no: its fastest port has %s, not %s\n", limit, rate);
		return;
	}
	if (v->no_row) {
		fprintf(out, "not known: SONiC's table for this ASIC ends at %s at %s\n", reach, rate);
		return;
	}
	if (v->asic->max_of_chip)
		snprintf(on, sizeof(on), " on %u port%s", in->ports, in->ports == 1 ? "" : "s");
	fprintf(out, "%s: %u lossless priorit%s at %s need%s %s%s, and %s %s, enough for %s%s", v->fits ? "yes" : "no",
	        in->n_priorities, in->n_priorities == 1 ? "y" : "ies", rate, in->n_priorities == 1 ? "s" : "", need, on,
	        v->asic->max_of_chip ? "all ports of the chip together have" : "a port has", limit, reach,
	        v->fits ? "" : ": end PFC at the edge and let the daemon's memory hold the line");
	if (v->by_physics != 0)
		fprintf(out, " (%s ignores %s: physics counts it)", headroom_model_name(v->asic->model),
		        report_options(v->by_physics, options));
	fputc('\n', out);
}

static void show_verdicts(const struct report *rep, FILE *out)
{
	if (rep->n_verdicts == 0)
		return;
	fprintf(out, "Can a switch port hold this link?\n");
	for (unsigned i = 0; i < rep->n_verdicts; i++)
		show_verdict(rep, &rep->verdicts[i], out);
}

static void show_unused(const struct report *rep, FILE *out)
{
	char options[REPORT_OPTIONS_MAX];

	if (rep->r->unused != 0)
		fprintf(out, "\nThis model ignores %s.\n", report_options(rep->r->unused, options));
}

static void show_warning(const struct report *rep, FILE *out)
{
	if (rep->r->warning != NULL)
		fprintf(out, "Warning: %s.\n\n", rep->r->warning);
}

void report_text(const struct report *rep, FILE *out)
{
	show_link(rep, out);
	show_time_line(rep, out);
	show_terms(rep, out);
	show_result(rep, out);
	show_warning(rep, out);
	if (rep->side_by_side)
		show_models(rep, out);
	show_plan(rep, out);
	show_verdicts(rep, out);
	show_unused(rep, out);
}
