/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c - the same for machines. Fields are added, never renamed; units are in the names. */
#include <inttypes.h>

#include "headroom/json_out.h"
#include "headroom/report.h"

static const char *const unit_names[] = {
    [HEADROOM_BYTES] = "bytes", [HEADROOM_FACTOR] = "factor", [HEADROOM_NOTE] = "bytes, not added"};

static void inputs(struct json_out *j, const struct headroom_in *in)
{
	jo_open(j, "inputs", '{');
	jo_uint(j, "length_m", in->length_m);
	jo_uint(j, "rtt_ns", in->rtt_ns);
	jo_uint(j, "rate_bps", in->rate_bps);
	jo_uint(j, "port_mtu_bytes", in->port_mtu);
	jo_uint(j, "lossless_mtu_bytes", in->lossless_mtu);
	if (in->small_percent >= 0)
		jo_uint(j, "small_packets_percent", (uint64_t)in->small_percent);
	jo_string(j, "asic", in->asic != NULL ? in->asic->name : "");
	jo_uint(j, "lanes", in->lanes);
	jo_bool(j, "pool", in->pool);
	jo_uint(j, "gearbox_ns", in->gearbox_ns);
	jo_uint(j, "transponder_ns", in->transponder_ns);
	jo_uint(j, "macsec_bytes", in->macsec_bytes);
	jo_uint(j, "ports", in->ports);
	jo_uint(j, "oversubscribe", in->oversubscribe);
	jo_close(j, '}');
}

static void thresholds(struct json_out *j, const struct headroom_result *r)
{
	jo_uint(j, "xon", r->xon);
	jo_uint(j, "xoff", r->xoff);
	jo_uint(j, "size", r->size);
	jo_uint(j, "headroom_bytes", r->headroom_bytes);
	jo_uint(j, "xoff_fill_bytes", r->xoff_fill_bytes);
	jo_uint(j, "xoff_reserved_bytes", r->xoff_reserved_bytes);
	jo_uint(j, "xon_fill_bytes", r->xon_fill_bytes);
	jo_uint(j, "xon_delta_bytes", r->xon_delta_bytes);
	jo_uint(j, "reserved_bytes", r->reserved_bytes);
}

static void terms(struct json_out *j, const struct headroom_result *r)
{
	jo_open(j, "terms", '[');
	for (unsigned i = 0; i < r->n_terms; i++) {
		jo_open(j, NULL, '{');
		jo_string(j, "name", r->terms[i].name);
		jo_real(j, "value", r->terms[i].value);
		jo_string(j, "unit", unit_names[r->terms[i].unit]);
		jo_string(j, "source", r->terms[i].source);
		jo_close(j, '}');
	}
	jo_close(j, ']');
}

static void models(struct json_out *j, const struct report *rep)
{
	jo_open(j, "models", '[');
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		jo_open(j, NULL, '{');
		jo_string(j, "model", headroom_model_name(m));
		if (rep->models[m].err == 0)
			thresholds(j, &rep->models[m].r);
		else
			jo_string(j, "refused", rep->models[m].why);
		jo_close(j, '}');
	}
	jo_close(j, ']');
}

static void time_line(struct json_out *j, const struct headroom_plan *p)
{
	jo_open(j, "time_line", '[');
	for (unsigned i = 0; i < p->n_events; i++) {
		jo_open(j, NULL, '{');
		jo_uint(j, "at_ns", p->events[i].at_ns);
		jo_uint(j, "arrived_bytes", p->events[i].arrived_bytes);
		jo_string(j, "what", p->events[i].what);
		jo_close(j, '}');
	}
	jo_close(j, ']');
}

static void plan(struct json_out *j, const struct headroom_plan *p)
{
	jo_open(j, "plan", '{');
	jo_uint(j, "one_way_ns", p->one_way_ns);
	jo_uint(j, "loop_ns", p->loop_ns);
	jo_uint(j, "bdp_bytes", p->bdp_bytes);
	jo_uint(j, "deep_buffer_bytes", p->deep_buffer_bytes);
	jo_uint(j, "busy_qps_at_once", p->qps_at_once);
	jo_uint(j, "busy_qps_in_turns", p->qps_in_turns);
	jo_uint(j, "no_underrun_xon_bytes", p->no_underrun_xon_bytes);
	jo_uint(j, "pause_ns", p->pause_ns);
	jo_uint(j, "refresh_ns", p->refresh_ns);
	jo_uint(j, "pauses_in_flight", p->pauses_in_flight);
	jo_uint(j, "port_bytes", p->port_bytes);
	jo_uint(j, "pool_bytes", p->pool_bytes);
	jo_uint(j, "pool_pauses", p->pool_pauses);
	jo_open(j, "priorities", '[');
	for (unsigned i = 0; i < p->n_priorities; i++) {
		jo_open(j, NULL, '{');
		jo_uint(j, "priority", p->priorities[i].number);
		jo_uint(j, "headroom_bytes", p->priorities[i].headroom_bytes);
		jo_close(j, '}');
	}
	jo_close(j, ']');
	time_line(j, p);
	jo_close(j, '}');
}

static void verdicts(struct json_out *j, const struct report *rep)
{
	jo_open(j, "verdicts", '[');
	for (unsigned i = 0; i < rep->n_verdicts; i++) {
		const struct headroom_verdict *v = &rep->verdicts[i];

		jo_open(j, NULL, '{');
		jo_string(j, "asic", v->asic->name);
		jo_bool(j, "fits", v->fits);
		jo_uint(j, "needed_bytes", v->needed_bytes);
		jo_uint(j, "limit_bytes", v->limit_bytes);
		jo_uint(j, "longest_m", v->longest_m);
		jo_close(j, '}');
	}
	jo_close(j, ']');
}

static void not_known(struct json_out *j, const struct headroom_result *r)
{
	jo_open(j, "not_known", '[');
	for (unsigned i = 0; report_extra(i) != NULL; i++)
		if ((r->unused & 1u << i) != 0)
			jo_string(j, NULL, report_extra(i));
	jo_close(j, ']');
}

void report_json(const struct report *rep, FILE *out)
{
	struct json_out j = {.out = out};

	jo_open(&j, NULL, '{');
	jo_string(&j, "model", headroom_model_name(rep->model));
	jo_string(&j, "source", headroom_model_source(rep->model));
	thresholds(&j, rep->r);
	inputs(&j, &rep->o->in);
	not_known(&j, rep->r);
	terms(&j, rep->r);
	plan(&j, &rep->plan);
	verdicts(&j, rep);
	if (rep->side_by_side)
		models(&j, rep);
	jo_close(&j, '}');
}

void report_csv(const struct report *rep, FILE *out)
{
	fprintf(
	    out,
	    "model,headroom_bytes,xon,xoff,size,xoff_fill_bytes,xoff_reserved_bytes,xon_fill_bytes,xon_delta_bytes\n");
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		const struct headroom_result *r = &rep->models[m].r;

		if (rep->models[m].err < 0 || (!rep->side_by_side && m != rep->model))
			continue;
		fprintf(out,
		        "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
		        ",%" PRIu64 "\n",
		        headroom_model_name(m), r->headroom_bytes, r->xon, r->xoff, r->size, r->xoff_fill_bytes,
		        r->xoff_reserved_bytes, r->xon_fill_bytes, r->xon_delta_bytes);
	}
}
