/* SPDX-License-Identifier: Apache-2.0 */
/* plan_report.c - a plan in words, in JSON, over distances, and as a table of models; settings of programs. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/util/json.h"
#include "daemon/util/units.h"
#include "plan/plan_tool.h"

#define IB_TIMEOUT_UNIT_S 4.096e-6 /* IBTA: local ACK timeout is 4.096 us x 2^n */
#define IB_TIMEOUT_NCCL   20u      /* NCCL's default since 2.23 */
#define IB_TIMEOUT_MAX    31u

/* --- settings --- */

static void add(struct plan_setting *s, unsigned *n, const char *program, const char *why, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void add(struct plan_setting *s, unsigned *n, const char *program, const char *why, const char *format, ...)
{
	va_list ap;

	if (*n == PLAN_SETTINGS_MAX)
		return;
	s[*n].program = program;
	snprintf(s[*n].why, sizeof(s[*n].why), "%s", why);
	va_start(ap, format);
	vsnprintf(s[*n].text, sizeof(s[*n].text), format, ap);
	va_end(ap);
	++*n;
}

/* Powers of 1000, as lines and models are counted. */
static const char *show_decimal(char buf[UNITS_TEXT_MAX], double value, const char *unit)
{
	static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
	size_t i = 0;

	while (value >= 999.95 && i < sizeof(prefixes) / sizeof(prefixes[0]) - 1) {
		value /= 1000;
		i++;
	}
	snprintf(buf, UNITS_TEXT_MAX, "%.*f %s%s", value < 100 ? 1 : 0, value, prefixes[i], unit);
	return buf;
}

static void why_channels(const struct plan *p, char *why, size_t cap)
{
	char rate[UNITS_TEXT_MAX];

	if (p->channels_needed == 0)
		snprintf(why, cap, "channels of a communicator that cross the line, each with such a buffer");
	else if (p->channels_needed <= PLAN_CHANNELS_MAX)
		snprintf(why, cap, "these settings carry %s; %.0f channels of each communicator would fill the line",
		         show_decimal(rate, p->nccl_rate_bps, "bit/s"), p->channels_needed);
	else
		snprintf(why, cap,
		         "these settings carry %s; %.0f channels of each communicator would fill the line, but NCCL "
		         "has at most %.0f",
		         show_decimal(rate, p->nccl_rate_bps, "bit/s"), p->channels_needed, PLAN_CHANNELS_MAX);
}

/* The first timeout of at least four round trips: a host that sends again sooner does so in vain. */
static unsigned ib_timeout(const struct plan *p)
{
	unsigned n = IB_TIMEOUT_NCCL;

	while (n < IB_TIMEOUT_MAX && IB_TIMEOUT_UNIT_S * (double)(1u << n) < 4 * p->in.rtt_s)
		n++;
	return n;
}

unsigned plan_settings(const struct plan *p, struct plan_setting s[PLAN_SETTINGS_MAX])
{
	double mib = p->bdp_bytes / 1048576;
	char why[sizeof(s[0].why)];
	unsigned n = 0;

	add(s, &n, "nccl",
	    "a channel carries this much per round trip, because the receiver's credit for a free slot crosses the "
	    "line",
	    "NCCL_BUFFSIZE=%.0f", p->nccl_buffsize_bytes);
	why_channels(p, why, sizeof(why));
	add(s, &n, "nccl", why, "NCCL_MIN_CTAS=%.0f", p->in.channels);
	add(s, &n, "nccl", "a ring crosses the line once in each direction; number the ranks site by site",
	    "NCCL_ALGO=Ring");
	add(s, &n, "nccl", "4.096 us x 2^n is to be four round trips or more", "NCCL_IB_TIMEOUT=%u", ib_timeout(p));
	add(s, &n, "nccl", "the most; a host that is held off does not give up", "NCCL_IB_RETRY_CNT=7");
	add(s, &n, "nccl", "ACKs come from the near edge: more queue pairs carry no more, and take turns in its buffer",
	    "NCCL_IB_QPS_PER_CONNECTION=1");
	add(s, &n, "ucx", "RC is what an edge acknowledges early; DC and UD only cross",
	    "UCX_TLS=rc,sm,self,cuda_copy,cuda_ipc");
	add(s, &n, "ucx", "a WRITE is acknowledged at LAN distance; a READ (get_zcopy) waits a round trip",
	    "UCX_RNDV_SCHEME=put_zcopy");
	add(s, &n, "ucx", "as NCCL_IB_TIMEOUT", "UCX_RC_TIMEOUT=%.0fms",
	    IB_TIMEOUT_UNIT_S * (double)(1u << ib_timeout(p)) * 1000);
	add(s, &n, "ucx", "the most", "UCX_RC_RETRY_COUNT=7");
	add(s, &n, "ucx", "7 is without end: a host that is held off must not give up", "UCX_RC_RNR_RETRY_COUNT=7");
	add(s, &n, "ucx", "the fewest packets for the edges", "UCX_RC_PATH_MTU=4096");
	add(s, &n, "nixl", "its UCX backend reads the variables above", "backend UCX");
	add(s, &n, "nixl", "push, as UCX_RNDV_SCHEME: the side that has the data posts WRITEs",
	    "NIXL_WRITE, not NIXL_READ");
	add(s, &n, "nixl", "the line is full only with a bandwidth-delay product on its way",
	    "at least %.0f MiB of transfers posted at a time", mib < 1 ? 1 : mib);
	return n;
}

/* --- text --- */

static const char *show_seconds(char buf[UNITS_TEXT_MAX], double s)
{
	if (s < 1)
		return units_show_time(buf, s * 1e9);
	if (s < 600)
		snprintf(buf, UNITS_TEXT_MAX, "%.3g s", s);
	else if (s < 7200)
		snprintf(buf, UNITS_TEXT_MAX, "%.1f min", s / 60);
	else if (s < 48 * 3600)
		snprintf(buf, UNITS_TEXT_MAX, "%.1f h", s / 3600);
	else
		snprintf(buf, UNITS_TEXT_MAX, "%.0f days", s / 86400);
	return buf;
}

static void text_job(const struct plan *p, FILE *out)
{
	const struct plan_in *in = &p->in;
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX], c[UNITS_TEXT_MAX];

	fputs("The job\n", out);
	if (in->model != NULL)
		fprintf(out, "  %s: other figures are those of %s\n", in->model->name, in->model->source);
	fprintf(out,
	        "  %.4g billion parameters, %.0f byte%s each on the wire\n  %.0f GPUs: data %.0f x tensor %.0f x "
	        "pipeline %.0f\n",
	        in->params / 1e9, in->gradient_bytes, in->gradient_bytes == 1 ? "" : "s", in->gpus, in->data,
	        in->tensor, in->pipeline);
	fprintf(out, "  a step of %s, its backward pass %s\n", show_seconds(a, in->step_s),
	        show_seconds(b, in->backward_s));
	fprintf(out, "  %.0f microbatch%s of a pipeline in one step%s\n", in->microbatches,
	        in->microbatches == 1 ? "" : "es",
	        in->model != NULL && in->model->microbatch_tokens == 0 && in->microbatches == 1
	            ? "; the number is not published (--microbatches)"
	            : "");
	fprintf(out, "The line\n  %s, round trip %s (%.0f km of fibre), %s on the way\n",
	        show_decimal(a, in->rate_bps, "bit/s"), show_seconds(b, in->rtt_s), in->rtt_s / 1e-5,
	        show_decimal(c, p->bdp_bytes, "B"));
}

#define SMALL_PART 0.01 /* of a step: exposed round trips that a reader need not act on */

static const char *plural(double n)
{
	return n == 1 ? "" : "s";
}

static const char *bucket_name(const struct plan *p)
{
	return p->in.across == PLAN_FSDP ? "unit" : "bucket";
}

/* The bytes fit the window; round trips after it remain. */
static void text_hides(const struct plan *p, const struct plan_way *w, FILE *out)
{
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX], c[UNITS_TEXT_MAX];

	show_seconds(a, w->wait_s);
	show_seconds(b, p->in.step_s);
	units_show_rate(c, w->rate_needed_bps);
	if (w->wait_s < SMALL_PART * p->in.step_s)
		fprintf(out,
		        "    yes, it hides, but for %.3g round trip%s: %s of a step of %s; a rate of %s would do\n",
		        w->waits, plural(w->waits), a, b, c);
	else
		fprintf(out,
		        "    the bytes hide, %.3g round trip%s not: %s of a step of %s, %.0f %% of the speed is left; "
		        "a rate of %s would do\n",
		        w->waits, w->waits == 1 ? " does" : "s do", a, b, w->efficiency * 100, c);
}

static double whole_mib(double bytes)
{
	return (double)(uint64_t)((bytes + 1048575) / 1048576);
}

static void text_exposed(const struct plan *p, const struct plan_way *w, FILE *out)
{
	char a[UNITS_TEXT_MAX];

	fprintf(out, "    no: each step waits %s more, %.0f %% of the speed is left; ", show_seconds(a, w->exposed_s),
	        w->efficiency * 100);
	if (w->rate_needed_bps > 0)
		fprintf(out, "%s would hide it\n", units_show_rate(a, w->rate_needed_bps));
	else if (w->window_s > 0)
		fprintf(out, "no rate hides it with %.0f %ss\n", p->in.buckets, bucket_name(p));
	else
		fputs("no rate hides it\n", out);
	if (w->buckets_needed == 0)
		return;
	if (p->in.across == PLAN_FSDP)
		fprintf(out, "    at most %.0f units would hide it at this rate (--buckets %.0f)\n", w->buckets_needed,
		        w->buckets_needed);
	else
		fprintf(out,
		        "    buckets of %.0f MiB or more would hide it at this rate (bucket_cap_mb, --buckets %.0f)\n",
		        whole_mib(w->bucket_bytes_needed), w->buckets_needed);
}

static void text_way(const struct plan *p, const char *name, const struct plan_way *w, FILE *out)
{
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

	fprintf(out, "  %s: %s per step and direction, %s on the line", name, show_decimal(a, w->line_bytes, "B"),
	        show_seconds(b, w->line_s));
	if (w->bucket_wait_s > 0)
		fprintf(out, ", %s of round trips between %ss", show_seconds(a, w->bucket_wait_s), bucket_name(p));
	fputc('\n', out);
	if (w->hides)
		text_hides(p, w, out);
	else
		text_exposed(p, w, out);
}

static const char *window_name(const struct plan_in *in)
{
	if (in->across != PLAN_DATA)
		return "the step";
	if (in->microbatches == 1)
		return "the backward pass";
	return in->pipeline > 1 ? "the backward passes that empty the pipeline"
	                        : "the backward pass of the last microbatch";
}

static void text_step(const struct plan *p, FILE *out)
{
	char a[UNITS_TEXT_MAX];

	fprintf(out, "Each step, %s parallelism across the line\n  %s per GPU and step\n",
	        plan_across_name(p->in.across), show_decimal(a, p->gpu_bytes, "B"));
	if (p->on_critical_path)
		fprintf(out, "  computation waits for all of it, and for %.0f round trip%s (%s)\n", p->ring.waits,
		        plural(p->ring.waits), show_seconds(a, p->ring.wait_s));
	else
		fprintf(out, "  it may hide behind %s (%s)\n", window_name(&p->in), show_seconds(a, p->ring.window_s));
	if (p->bucket_bytes > 0)
		fprintf(out, "  %.0f %s%s of %s per GPU, one after another\n", p->in.buckets, bucket_name(p),
		        plural(p->in.buckets), units_show_bytes(a, p->bucket_bytes));
	text_way(p, "as it is", &p->ring, out);
	if (p->two_level.line_bytes > 0 && p->two_level.line_bytes < p->ring.line_bytes)
		text_way(p,
		         p->in.across == PLAN_FSDP ? "if only gradients cross, behind the backward pass (HYBRID_SHARD)"
		                                   : "if each site reduces first",
		         &p->two_level, out);
	if (p->on_critical_path)
		fprintf(out, "  Keep this kind within a site.\n");
}

static void text_edges(const struct plan *p, FILE *out)
{
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

	fprintf(out, "Edges\n  buffer of %s at each edge for both directions (Size=), in huge pages\n",
	        units_show_bytes(a, (double)p->arena_bytes));
	fprintf(out, "  %" PRIu64 " busy queue pairs at once, %" PRIu64 " in turns\n", p->qps_at_once, p->qps_in_turns);
	fprintf(
	    out,
	    "Without longreach\n  hosts must have %s outstanding to fill the line: %.0f queue pairs of 4 MiB each\n",
	    show_decimal(a, p->bdp_bytes, "B"), p->qps_needed);
	fprintf(out, "  one lost packet: that much is sent again by its queue pair, after a round trip\n");
	fprintf(out, "  %.0f NCCL channels of %.0f communicator%s with default buffers carry %s, with or without\n",
	        p->in.channels, p->communicators, plural(p->communicators),
	        show_decimal(b, p->default_rate_bps, "bit/s"));
}

static void text_files(const struct plan *p, FILE *out)
{
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

	fprintf(out, "Files\n  a checkpoint of %s crosses in %s\n", show_decimal(a, p->checkpoint_bytes, "B"),
	        show_seconds(b, p->checkpoint_s));
	if (p->dataset_s > 0)
		fprintf(out, "  a data set of %s crosses in %s\n", show_decimal(a, p->in.dataset_bytes, "B"),
		        show_seconds(b, p->dataset_s));
}

static const char *diloco_verdict(const struct plan *p)
{
	if (p->diloco_steps <= PLAN_DILOCO_STEPS)
		return "yes";
	return p->diloco_overlapped <= PLAN_DILOCO_STEPS ? "if it is exchanged in the background" : "no";
}

static void text_diloco(const struct plan *p, FILE *out)
{
	char a[UNITS_TEXT_MAX];

	fprintf(out, "Would DiLoCo over 1 Gbit/s do instead? %s\n", diloco_verdict(p));
	fprintf(out,
	        "  %s per exchange and direction; every %.0f steps it costs 5 %% of the time, every %.0f in the "
	        "background\n",
	        show_decimal(a, p->outer_bytes, "B"), p->diloco_steps, p->diloco_overlapped);
	fprintf(out,
	        "  published with 500 steps, for which 5 %% takes %s; DiLoCo is another training method: test its "
	        "quality first\n",
	        show_decimal(a, p->diloco_rate_bps, "bit/s"));
}

void plan_text(const struct plan *p, FILE *out)
{
	struct plan_setting s[PLAN_SETTINGS_MAX];
	unsigned n = plan_settings(p, s);

	text_job(p, out);
	text_step(p, out);
	text_edges(p, out);
	text_files(p, out);
	text_diloco(p, out);
	for (unsigned i = 0; i < n; i++) {
		if (i == 0 || strcmp(s[i].program, s[i - 1].program) != 0)
			fprintf(out, "Settings of %s, at both sites\n",
			        strcmp(s[i].program, "nccl") == 0  ? "NCCL"
			        : strcmp(s[i].program, "ucx") == 0 ? "UCX"
			                                           : "NIXL");
		fprintf(out, "  %s\n      %s\n", s[i].text, s[i].why);
	}
}

/* --- JSON --- */

static void json_way(struct json *j, const char *key, const struct plan_way *w)
{
	json_object(j, key);
	json_real(j, "line_bytes", w->line_bytes);
	json_bool(j, "hides", w->hides);
	json_real(j, "window_s", w->window_s);
	json_real(j, "bucket_wait_s", w->bucket_wait_s);
	json_real(j, "wait_s", w->wait_s);
	json_real(j, "exposed_s", w->exposed_s);
	json_real(j, "efficiency", w->efficiency);
	json_real(j, "rate_needed_bps", w->rate_needed_bps);
	json_real(j, "bucket_bytes_needed", w->bucket_bytes_needed);
	json_object_end(j);
}

static void json_inputs(struct json *j, const struct plan_in *in)
{
	json_object(j, "inputs");
	json_real(j, "params", in->params);
	json_real(j, "active_params", in->active);
	json_real(j, "gradient_bytes", in->gradient_bytes);
	json_real(j, "gpus", in->gpus);
	json_real(j, "data", in->data);
	json_real(j, "tensor", in->tensor);
	json_real(j, "pipeline", in->pipeline);
	json_real(j, "expert", in->expert);
	json_string(j, "across", plan_across_name(in->across));
	json_real(j, "tokens", in->tokens);
	json_real(j, "microbatches", in->microbatches);
	json_real(j, "buckets", in->buckets);
	json_real(j, "step_s", in->step_s);
	json_real(j, "backward_s", in->backward_s);
	json_real(j, "rtt_s", in->rtt_s);
	json_real(j, "rate_bps", in->rate_bps);
	json_real(j, "channels", in->channels);
	json_object_end(j);
}

static void json_settings(struct json *j, const struct plan *p)
{
	struct plan_setting s[PLAN_SETTINGS_MAX];
	unsigned n = plan_settings(p, s);

	json_array(j, "settings");
	for (unsigned i = 0; i < n; i++) {
		json_object(j, NULL);
		json_string(j, "program", s[i].program);
		json_string(j, "setting", s[i].text);
		json_string(j, "why", s[i].why);
		json_object_end(j);
	}
	json_array_end(j);
}

void plan_json(const struct plan *p, FILE *out)
{
	struct json j = {.stream = out};

	json_object(&j, NULL);
	json_inputs(&j, &p->in);
	json_real(&j, "gpu_bytes", p->gpu_bytes);
	json_real(&j, "window_s", p->ring.window_s);
	json_real(&j, "wait_s", p->ring.wait_s);
	json_way(&j, "ring", &p->ring);
	if (p->two_level.line_bytes > 0)
		json_way(&j, "two_level", &p->two_level);
	json_real(&j, "bdp_bytes", p->bdp_bytes);
	json_uint(&j, "arena_bytes", p->arena_bytes);
	json_uint(&j, "busy_qps_at_once", p->qps_at_once);
	json_uint(&j, "busy_qps_in_turns", p->qps_in_turns);
	json_real(&j, "qps_without_longreach", p->qps_needed);
	json_real(&j, "nccl_communicators", p->communicators);
	json_real(&j, "nccl_default_rate_bps", p->default_rate_bps);
	json_real(&j, "nccl_rate_bps", p->nccl_rate_bps);
	json_real(&j, "nccl_channels_needed", p->channels_needed);
	json_real(&j, "checkpoint_bytes", p->checkpoint_bytes);
	json_real(&j, "checkpoint_s", p->checkpoint_s);
	json_real(&j, "dataset_s", p->dataset_s);
	json_real(&j, "diloco_bytes", p->outer_bytes);
	json_real(&j, "diloco_steps_at_1g", p->diloco_steps);
	json_real(&j, "diloco_steps_at_1g_in_background", p->diloco_overlapped);
	json_real(&j, "diloco_rate_bps", p->diloco_rate_bps);
	json_settings(&j, p);
	json_object_end(&j);
}

/* --- over distances --- */

void plan_csv(const struct plan *p, FILE *out)
{
	static const double lengths_km[] = {1,   2,    5,    10,   20,   40,   80,   120,   200,   300,  500,
	                                    700, 1000, 1500, 2000, 3000, 5000, 7000, 10000, 15000, 20000};
	char why[PLAN_ERROR_MAX];

	fputs("length_km,rtt_ms,efficiency,two_level_efficiency,nccl_default_efficiency,rate_needed_bps,"
	      "two_level_rate_needed_bps,bdp_bytes,arena_bytes\n",
	      out);
	for (size_t i = 0; i < sizeof(lengths_km) / sizeof(lengths_km[0]); i++) {
		struct plan_in in = p->in;
		const struct plan_way *two_level;
		struct plan at, slow;

		in.rtt_s = lengths_km[i] * 1e-5;
		if (plan_compute(&in, &at, why) < 0)
			continue;
		two_level = at.two_level.line_bytes > 0 ? &at.two_level : &at.ring;
		in.rate_bps = at.default_rate_bps; /* all that its default buffers let it carry */
		if (plan_compute(&in, &slow, why) < 0)
			continue;
		fprintf(out, "%.0f,%.3f,%.4f,%.4f,%.4f,%.0f,%.0f,%.0f,%" PRIu64 "\n", lengths_km[i],
		        lengths_km[i] / 100, at.ring.efficiency, two_level->efficiency, slow.ring.efficiency,
		        at.ring.rate_needed_bps, two_level->rate_needed_bps, at.bdp_bytes, at.arena_bytes);
	}
}

/* --- the published models --- */

static void table_row(const struct plan_model *m, const struct plan *p, FILE *out)
{
	const struct plan_way *two_level = p->two_level.line_bytes > 0 ? &p->two_level : &p->ring;
	char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

	fprintf(out, "| %s | %.0f = %.0f x %.0f x %.0f | %s | %s | ", m->name, p->in.gpus, p->in.data, p->in.tensor,
	        p->in.pipeline, show_seconds(a, p->in.step_s), show_decimal(b, p->gpu_bytes, "B"));
	fprintf(out, "%s, %.0f %% | ", show_decimal(a, p->ring.line_bytes, "B"), p->ring.efficiency * 100);
	if (two_level == &p->two_level)
		fprintf(out, "%s, %.0f %% | ", show_decimal(a, two_level->line_bytes, "B"),
		        two_level->efficiency * 100);
	else
		fputs("- | ", out);
	fprintf(out, "%s | %s | %.0f |\n",
	        two_level->rate_needed_bps == 0 ? "none" : units_show_rate(a, two_level->rate_needed_bps),
	        show_seconds(b, p->checkpoint_s), p->diloco_steps);
}

void plan_table(const struct plan_in *in, FILE *out)
{
	bool reduces = in->across == PLAN_DATA || in->across == PLAN_FSDP;
	char why[PLAN_ERROR_MAX];
	struct plan p;

	fprintf(out,
	        "| model | GPUs = data x tensor x pipeline | step | per GPU | %s: line, speed left | two levels | "
	        "rate that hides %s | checkpoint | DiLoCo steps at 1 Gbit/s |\n|---|---|---|---|---|---|---|---|---|\n",
	        reduces ? "ring" : plan_across_name(in->across), reduces ? "two levels" : plan_across_name(in->across));
	for (const struct plan_model *m = plan_models(); m->name != NULL; m++) {
		struct plan_in one = *in;

		plan_use_model(&one, m);
		if (plan_compute(&one, &p, why) < 0)
			fprintf(out, "| %s | %s | | | | | | | |\n", m->name, why);
		else
			table_row(m, &p, out);
	}
	fputc('\n', out);
	for (const struct plan_model *m = plan_models(); m->name != NULL; m++)
		fprintf(out, "%s: %s%s\n", m->name, m->source,
		        m->microbatch_tokens > 0 || in->microbatches > 0
		            ? ""
		            : "; microbatches are not published: 1 in each step");
}
