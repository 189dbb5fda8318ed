/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c - the same for machines. Fields are added, never renamed; units are in the names. */
#include <inttypes.h>

#include "daemon/util/json.h"
#include "headroom/report.h"

static const char *const unit_names[] = {
    [HEADROOM_BYTES] = "bytes", [HEADROOM_FACTOR] = "factor", [HEADROOM_NOTE] = "bytes, not added"};

/* With the defaults of the model that is explained. */
static void inputs(struct json *j, const struct report *rep)
{
	struct headroom_in full = rep->o->in, *in = &full;
	unsigned knows = headroom_fill_in(rep->model, in);

	json_object(j, "inputs");
	json_uint(j, "length_m", in->length_m);
	json_uint(j, "rtt_ns", in->rtt_ns);
	json_uint(j, "rate_bps", in->rate_bps);
	json_uint(j, "port_mtu_bytes", in->port_mtu);
	json_uint(j, "lossless_mtu_bytes", in->lossless_mtu);
	if (rep->o->in.small_percent >= 0 || (knows & HEADROOM_X_SMALL) != 0)
		json_uint(j, "small_packets_percent", (uint64_t)in->small_percent);
	json_string(j, "asic", in->asic != NULL ? in->asic->name : "");
	json_uint(j, "lanes", in->lanes);
	json_bool(j, "pool", in->pool);
	json_uint(j, "gearbox_ns", in->gearbox_ns);
	json_uint(j, "transponder_ns", in->transponder_ns);
	json_uint(j, "macsec_bytes", in->macsec_bytes);
	json_uint(j, "ports", in->ports);
	json_uint(j, "oversubscribe", in->oversubscribe);
	json_object_end(j);
}

static void thresholds(struct json *j, const struct headroom_result *r)
{
	json_uint(j, "xon", r->xon);
	json_uint(j, "xoff", r->xoff);
	json_uint(j, "size", r->size);
	json_uint(j, "headroom_bytes", r->headroom_bytes);
	json_uint(j, "xoff_fill_bytes", r->xoff_fill_bytes);
	json_uint(j, "xoff_reserved_bytes", r->xoff_reserved_bytes);
	json_uint(j, "xon_fill_bytes", r->xon_fill_bytes);
	json_uint(j, "xon_delta_bytes", r->xon_delta_bytes);
	json_uint(j, "reserved_bytes", r->reserved_bytes);
	if (r->xon_offset_bytes != 0)
		json_uint(j, "xon_offset_bytes", r->xon_offset_bytes);
}

static void terms(struct json *j, const struct headroom_result *r)
{
	json_array(j, "terms");
	for (unsigned i = 0; i < r->n_terms; i++) {
		json_object(j, NULL);
		json_string(j, "name", r->terms[i].name);
		json_real(j, "value", r->terms[i].value);
		json_string(j, "unit", unit_names[r->terms[i].unit]);
		json_string(j, "source", r->terms[i].source);
		json_object_end(j);
	}
	json_array_end(j);
}

static void models(struct json *j, const struct report *rep)
{
	json_array(j, "models");
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		json_object(j, NULL);
		json_string(j, "model", headroom_model_name(m));
		if (rep->models[m].err == 0)
			thresholds(j, &rep->models[m].r);
		else
			json_string(j, "refused", rep->models[m].why);
		json_object_end(j);
	}
	json_array_end(j);
}

static void time_line(struct json *j, const struct headroom_plan *p)
{
	json_array(j, "time_line");
	for (unsigned i = 0; i < p->n_events; i++) {
		json_object(j, NULL);
		json_uint(j, "at_ns", p->events[i].at_ns);
		json_uint(j, "arrived_bytes", p->events[i].arrived_bytes);
		json_string(j, "what", p->events[i].what);
		json_object_end(j);
	}
	json_array_end(j);
}

static void plan(struct json *j, const struct headroom_plan *p)
{
	json_object(j, "plan");
	json_uint(j, "one_way_ns", p->one_way_ns);
	json_uint(j, "loop_ns", p->loop_ns);
	json_uint(j, "bdp_bytes", p->bdp_bytes);
	json_uint(j, "deep_buffer_bytes", p->deep_buffer_bytes);
	json_uint(j, "busy_qps_at_once", p->qps_at_once);
	json_uint(j, "busy_qps_in_turns", p->qps_in_turns);
	json_uint(j, "no_underrun_xon_bytes", p->no_underrun_xon_bytes);
	json_uint(j, "pause_ns", p->pause_ns);
	json_uint(j, "refresh_ns", p->refresh_ns);
	json_uint(j, "pauses_in_flight", p->pauses_in_flight);
	json_uint(j, "port_bytes", p->port_bytes);
	json_uint(j, "pool_bytes", p->pool_bytes);
	json_uint(j, "pool_pauses", p->pool_pauses);
	json_array(j, "priorities");
	for (unsigned i = 0; i < p->n_priorities; i++) {
		json_object(j, NULL);
		json_uint(j, "priority", p->priorities[i].number);
		json_uint(j, "headroom_bytes", p->priorities[i].headroom_bytes);
		json_object_end(j);
	}
	json_array_end(j);
	time_line(j, p);
	json_object_end(j);
}

static void options(struct json *j, const char *key, unsigned extras)
{
	json_array(j, key);
	for (unsigned i = 0; report_extra(i) != NULL; i++)
		if ((extras & 1u << i) != 0)
			json_string(j, NULL, report_extra(i));
	json_array_end(j);
}

static void verdicts(struct json *j, const struct report *rep)
{
	json_array(j, "verdicts");
	for (unsigned i = 0; i < rep->n_verdicts; i++) {
		const struct headroom_verdict *v = &rep->verdicts[i];

		json_object(j, NULL);
		json_string(j, "asic", v->asic->name);
		json_bool(j, "fits", v->fits);
		json_uint(j, "needed_bytes", v->needed_bytes);
		json_uint(j, "limit_bytes", v->limit_bytes);
		json_uint(j, "longest_m", v->longest_m);
		json_bool(j, "no_row", v->no_row);
		json_bool(j, "too_fast", v->too_fast);
		options(j, "by_physics", v->by_physics);
		json_object_end(j);
	}
	json_array_end(j);
}

void report_json(const struct report *rep, FILE *out)
{
	struct json j = {.stream = out};

	json_object(&j, NULL);
	json_string(&j, "model", headroom_model_name(rep->model));
	json_string(&j, "source", headroom_model_source(rep->model));
	thresholds(&j, rep->r);
	inputs(&j, rep);
	options(&j, "not_known", rep->r->unused);
	if (rep->r->warning != NULL)
		json_string(&j, "warning", rep->r->warning);
	terms(&j, rep->r);
	plan(&j, &rep->plan);
	verdicts(&j, rep);
	if (rep->side_by_side)
		models(&j, rep);
	json_object_end(&j);
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
