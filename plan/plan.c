/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - bytes of a step, times, and what follows from them.
 *
 * Theory of operation. A group of N ranks has members at both sites. A ring over all of them has two edges that cross
 * the line, one in each direction, and each edge of a ring carries what each rank sends: the bytes per GPU are the
 * bytes per group and direction on the line. Groups are there once for each part of the model (tensor x pipeline), and
 * all of them cross. If each site first reduces among its own ranks, only one copy of each part crosses in each
 * direction: "two levels". For N = 2 an all-reduce is the same in both.
 *
 * Time. Bytes may cross while the GPUs compute, and that computation is the window. Gradients go in buckets, one after
 * another on one stream of NCCL, and each bucket takes its round trips beside its time on the line. All of that fits
 * the window or is exposed. The round trips of the last bucket come after all computation and are exposed always. */
#include <stdio.h>
#include <string.h>

#include "headroom/headroom.h"
#include "plan/plan.h"

#define SITES              2.0
#define ADAM_BYTES         8.0         /* two moments in fp32: arXiv:1910.02054, 3.1 */
#define MASTER_BYTES       4.0         /* parameters in fp32, where training is in less */
#define BACKWARD_PART      (2.0 / 3.0) /* arXiv:2001.08361, 2.1: forward 2 x parameters FLOPs per token, backward 4 */
#define FLOPS_PER_TOKEN    6.0         /* and parameter: likewise */
#define FLOPS_DEFAULT      400e12      /* per second: Llama 3 on H100s, arXiv:2407.21783, table 4: 380 to 430 */
#define DILOCO_PARAM_BYTES 4.0         /* arXiv:2311.08105: outer gradients in fp32 */

static const struct plan_model models[] = {
    {.name = "gpt-3-175b",
     .source = "arXiv:2104.04473, table 2: 1536 sequences of 2048 on A100s; layers of arXiv:2005.14165, table 2.1",
     .params = 174.6e9,
     .layers = 96,
     .hidden = 12288,
     .tokens = 1536.0 * 2048,
     .microbatch_tokens = 2048, /* microbatch size 1: 96 of each of the 1536 / 96 pipelines */
     .gpus = 1536,
     .tensor = 8,
     .pipeline = 12,
     .flops = 141e12 * 6 / 8}, /* 141e12 with the forward pass computed again: 8 x parameters x tokens, 5.1 */
    {.name = "llama-3-405b",
     .source = "arXiv:2407.21783, tables 3 and 4: 128 copies, each with 16 sequences of 8192",
     .params = 405e9,
     .layers = 126,
     .hidden = 16384,
     .tokens = 128.0 * 16 * 8192,
     .gpus = 16384,
     .tensor = 8,
     .pipeline = 16,
     .flops = 400e12},
    {.name = "deepseek-v3",
     .source = "arXiv:2412.19437, 3.1, 4.2, and table 1: 180,000 GPU hours per 1e12 tokens",
     .params = 671e9,
     .active = 37e9,
     .expert_params = 58.0 * 256 * 3 * 7168 * 2048, /* layers x experts x matrices, 4.2 */
     .layers = 61,
     .hidden = 7168,
     .moe_layers = 58,
     .top_k = 8,
     .tokens = 15360.0 * 4096,
     .gpus = 2048,
     .tensor = 1,
     .pipeline = 16,
     .expert = 64,
     .flops = 343e12},
    {.name = NULL},
};

static const char *const across_names[PLAN_ACROSSES] = {"data", "fsdp", "pipeline", "tensor", "expert"};

const struct plan_model *plan_models(void)
{
	return models;
}

const struct plan_model *plan_model_find(const char *name)
{
	for (const struct plan_model *m = models; m->name != NULL; m++)
		if (strcmp(m->name, name) == 0)
			return m;
	return NULL;
}

enum plan_across plan_across_find(const char *name)
{
	enum plan_across a = PLAN_DATA;

	while (a < PLAN_ACROSSES && strcmp(across_names[a], name) != 0)
		a++;
	return a;
}

const char *plan_across_name(enum plan_across a)
{
	return across_names[a];
}

void plan_defaults(struct plan_in *in)
{
	*in = (struct plan_in){.gradient_bytes = 2, .activation_bytes = 2, .channels = 16};
}

static void fill(double *value, double otherwise)
{
	if (*value == 0)
		*value = otherwise;
}

void plan_use_model(struct plan_in *in, const struct plan_model *m)
{
	in->model = m;
	fill(&in->params, m->params);
	fill(&in->active, m->active);
	fill(&in->expert_params, m->expert_params);
	fill(&in->layers, m->layers);
	fill(&in->hidden, m->hidden);
	fill(&in->moe_layers, m->moe_layers);
	fill(&in->top_k, m->top_k);
	fill(&in->tokens, m->tokens);
	if (in->data == 0)
		fill(&in->gpus, m->gpus);
	fill(&in->tensor, m->tensor);
	fill(&in->pipeline, m->pipeline);
	fill(&in->expert, m->expert);
	fill(&in->flops, m->flops);
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* floor() and ceil() of what is not negative; no libm for that. */
static double down(double x)
{
	return x < 9e15 ? (double)(uint64_t)x : x;
}

static double up(double x)
{
	double whole = down(x);

	return whole < x ? whole + 1 : whole;
}

/* --- what goes in --- */

static int refuse(char *why, const char *sentence)
{
	snprintf(why, PLAN_ERROR_MAX, "%s", sentence);
	return -1;
}

static int fill_groups(struct plan_in *in, char *why)
{
	double parts;

	fill(&in->tensor, 1);
	fill(&in->pipeline, 1);
	fill(&in->expert, 1);
	parts = in->tensor * in->pipeline;
	if (in->data == 0)
		in->data = in->gpus / parts;
	if (in->data == 0)
		return refuse(why, "the number of GPUs is missing: expected --gpus 16 or --data 8");
	fill(&in->gpus, in->data * parts);
	if (in->data * parts != in->gpus || in->data != up(in->data)) {
		snprintf(why, PLAN_ERROR_MAX, "%.0f GPUs do not equal data x tensor x pipeline: %.6g x %.0f x %.0f",
		         in->gpus, in->data, in->tensor, in->pipeline);
		return -1;
	}
	if (in->data / in->expert != up(in->data / in->expert))
		return refuse(why, "--expert: experts are divided among data-parallel GPUs: expected --data to be a "
		                   "multiple of --expert");
	if (in->expert > 1 && in->expert_params == 0)
		return refuse(why,
		              "--expert: the number of the experts' parameters is missing: expected --expert-params");
	if (in->expert_params > in->params)
		return refuse(
		    why, "--expert-params: experts have more parameters than the model: expected at most --params");
	if (in->gpus < SITES)
		return refuse(why, "one GPU is at one site, and nothing crosses the line: expected two GPUs or more");
	return 0;
}

/* A microbatch has so many tokens, whatever the number of pipelines. */
static void fill_microbatches(struct plan_in *in)
{
	double each = in->model != NULL ? in->model->microbatch_tokens : 0;

	if (each > 0)
		fill(&in->microbatches, up(in->tokens / in->data / each));
	fill(&in->microbatches, 1);
}

/* C = 6 N D (Kaplan et al., arXiv:2001.08361, 2.1): a step is 6 x active parameters x tokens FLOPs. */
static int fill_times(struct plan_in *in, char *why)
{
	fill(&in->flops, FLOPS_DEFAULT);
	if (in->step_s == 0 && in->backward_s != 0)
		in->step_s = in->backward_s / BACKWARD_PART;
	if (in->step_s == 0)
		in->step_s = FLOPS_PER_TOKEN * in->active * in->tokens / (in->gpus * in->flops);
	if (in->step_s == 0)
		return refuse(
		    why, "the time of a step is missing: expected --step 2s, --backward 1s, or --tokens 4M per step");
	fill(&in->backward_s, in->step_s * BACKWARD_PART);
	return in->backward_s <= in->step_s
	           ? 0
	           : refuse(why, "the backward pass is longer than the step: expected --backward of at most --step");
}

/* The ranks of an expert group exchange tokens. With fewer than two copies of the experts one group is at both sites.
 */
static int check_data(const struct plan_in *in, char *why)
{
	if (in->data < SITES)
		return refuse(why, "a data-parallel group of one has nothing to reduce: expected --data 2 or more, or "
		                   "--across pipeline");
	if (in->expert > 1 && in->data / in->expert < SITES) {
		snprintf(why, PLAN_ERROR_MAX,
		         "one copy of the experts is at both sites, and its tokens cross the line: expected --across "
		         "expert, or two copies of the experts: --data %.0f or more",
		         SITES * in->expert);
		return -1;
	}
	return 0;
}

static int check_across(const struct plan_in *in, char *why)
{
	if (in->buckets > 0 && in->across != PLAN_DATA && in->across != PLAN_FSDP)
		return refuse(why, "--buckets: activations have no buckets: expected --across data or fsdp");
	switch (in->across) {
	case PLAN_DATA:
	case PLAN_FSDP:
		return check_data(in, why);
	case PLAN_PIPELINE:
		if (in->pipeline < SITES)
			return refuse(why, "--across pipeline: expected two stages or more: --pipeline 2");
		return in->tokens > 0 && in->hidden > 0
		           ? 0
		           : refuse(why, "--across pipeline: expected --tokens and --hidden");
	case PLAN_TENSOR:
		if (in->tensor < SITES)
			return refuse(why, "--across tensor: expected layers in two parts or more: --tensor 2");
		return in->tokens > 0 && in->hidden > 0 && in->layers > 0
		           ? 0
		           : refuse(why, "--across tensor: expected --tokens, --hidden and --layers");
	default:
		if (in->expert < SITES)
			return refuse(why, "--across expert: expected experts on two GPUs or more: --expert 2");
		return in->tokens > 0 && in->hidden > 0 && in->moe_layers > 0 && in->top_k > 0
		           ? 0
		           : refuse(why, "--across expert: expected --tokens, --hidden, --moe-layers and --top-k");
	}
}

static int fill_in(struct plan_in *in, char *why)
{
	if (in->params <= 0)
		return refuse(why, "the size of the model is missing: expected --params 7B or --model llama-3-405b");
	if (in->rate_bps <= 0)
		return refuse(why, "the rate of the line is missing: expected --rate 100G");
	if (in->rtt_s <= 0)
		return refuse(why, "the length of the line is missing: expected --km 300 or --rtt 3ms");
	if (in->channels > PLAN_CHANNELS_MAX)
		return refuse(why, "--channels: a communicator of NCCL has at most 64 channels (MAXCHANNELS)");
	fill(&in->active, in->params);
	if (in->active > in->params)
		return refuse(why, "--active: more parameters compute for a token than the model has: expected at most "
		                   "--params");
	if (fill_groups(in, why) < 0)
		return -1;
	fill_microbatches(in);
	if (fill_times(in, why) < 0)
		return -1;
	return check_across(in, why);
}

/* --- bytes and waits of a step --- */

/* What each rank of a ring of N sends, `passes` times, if each pass moves the whole buffer: (N - 1) / N of it. A GPU is
 * in two rings: of what all data ranks have a copy of, and of its experts, which only every expert-th rank has. On the
 * line is each part of the model once. */
static void rings(struct plan *p, double passes)
{
	struct plan_in *in = &p->in;
	double parts = in->tensor * in->pipeline, copies = in->data / in->expert;
	double dense = (in->params - in->expert_params) * in->gradient_bytes,
	       experts = in->expert_params * in->gradient_bytes;
	double of_dense = passes * (in->data - 1) / in->data * dense,
	       of_experts = passes * (copies - 1) / copies * experts,
	       of_gpu = dense / parts + experts / (parts * in->expert);

	p->gpu_bytes = of_dense / parts + of_experts / (parts * in->expert);
	p->ring.line_bytes = of_dense + of_experts;
	p->two_level.line_bytes = dense + experts;
	if (in->across == PLAN_FSDP)
		fill(&in->buckets, up(in->layers / in->pipeline)); /* a unit for each layer: arXiv:2304.11277, 3.2 */
	fill(&in->buckets, larger(up(of_gpu / PLAN_BUCKET_BYTES), 1));
	p->bucket_bytes = of_gpu / in->buckets;
}

/* Microbatches' gradients are added up, and only the last backward pass reduces them: no_sync() of PyTorch's
 * DistributedDataParallel (Li et al., arXiv:2006.15704, 3.2.4), and Megatron-LM. In a pipeline the last backward passes
 * of the stages come one after another while it empties (arXiv:2104.04473, 2.2.1): the parts of the model have at most
 * as many passes as there are stages. */
static double last_backward_s(const struct plan_in *in)
{
	return in->backward_s * smaller(in->pipeline, in->microbatches) / in->microbatches;
}

/* All-reduce over a ring: each rank sends 2 (N - 1) / N of the buffer, which is the least there can be (Patarasuk and
 * Yuan, J. Parallel Distrib. Comput. 69, 2009; nccl-tests doc/PERFORMANCE.md, bus bandwidth). In two levels one copy of
 * each part crosses, as of N = 2. A part of the buffer goes around the ring twice and so over the line four times: two
 * round trips; for N = 2 and in two levels it goes out and comes back. DistributedDataParallel reduces bucket by bucket
 * (arXiv:2006.15704, 3.2.2). */
static void across_data(struct plan *p)
{
	rings(p, 2);
	p->ring.waits = p->in.data == SITES ? 1 : 2;
	p->two_level.waits = 1;
	p->ring.window_s = p->two_level.window_s = last_backward_s(&p->in);
}

/* ZeRO-3: two all-gathers of the parameters and a reduce-scatter of the gradients, (N - 1) / N of the buffer each, 1.5
 * times data parallelism (Rajbhandari et al., arXiv:1910.02054, 7.2). Each passes the ring once, half a round trip for
 * N = 2. In two levels, sharded within a site and replicated over both (PyTorch's HYBRID_SHARD), the gradients cross
 * alone, behind the backward pass. Without no_sync() each microbatch has all of that. */
static void across_fsdp(struct plan *p)
{
	rings(p, 3);
	p->gpu_bytes *= p->in.microbatches;
	p->ring.line_bytes *= p->in.microbatches;
	p->two_level.line_bytes *= p->in.microbatches;
	p->ring.waits = p->in.data == SITES ? 1.5 : 3;
	p->two_level.waits = 1;
	p->ring.window_s = p->in.step_s;
	p->two_level.window_s = p->in.backward_s;
}

/* Each microbatch's activations go to the next stage and its gradients come back: tokens x hidden numbers per direction
 * (Narayanan et al., arXiv:2104.04473, 3.2); with their scatter-gather each of the tensor ranks sends its part (4.1).
 * The pipeline fills and empties across the line once per step. */
static void across_pipeline(struct plan *p)
{
	const struct plan_in *in = &p->in;

	p->ring.line_bytes = in->tokens * in->hidden * in->activation_bytes;
	p->gpu_bytes = p->ring.line_bytes / (in->data * in->tensor);
	p->ring.waits = 1;
	p->ring.window_s = in->step_s;
}

/* Four all-reduces of tokens x hidden per layer, two in the forward and two in the backward pass (Shoeybi et al.,
 * arXiv:1909.08053, 3), of each microbatch in its turn, and the next computation waits for each. Two levels have half
 * the round trips at best, and these are what counts: they are not computed. */
static void across_tensor(struct plan *p)
{
	const struct plan_in *in = &p->in;
	double layers = in->layers / in->pipeline, each = in->tokens / in->data * in->hidden * in->activation_bytes;

	p->gpu_bytes = 4 * layers * 2 * (in->tensor - 1) / in->tensor * each;
	p->ring.line_bytes = p->gpu_bytes * in->data * in->pipeline;
	p->ring.waits = 4 * layers * in->microbatches * (in->tensor == SITES ? 1 : 2);
	p->on_critical_path = true;
}

/* A token's activation goes to top_k experts and comes back, in the forward and in the backward pass (Lepikhin et al.,
 * arXiv:2006.16668, 2.2). Experts and tokens are spread evenly: half of what goes, goes to the other site. Dispatch and
 * combine of tokens / 2 x 1/2 in each of two passes are tokens per direction and layer. Four exchanges of half a round
 * trip each. A GPU sends all but what its own experts get, within its site, too. */
static void across_expert(struct plan *p)
{
	const struct plan_in *in = &p->in;
	double layers = in->moe_layers;

	p->ring.line_bytes = in->tokens * in->top_k * in->hidden * in->activation_bytes * layers;
	p->gpu_bytes = 4 * (in->expert - 1) / in->expert * p->ring.line_bytes / in->gpus;
	p->ring.waits = 2 * layers / in->pipeline * in->microbatches;
	p->on_critical_path = true;
}

/* --- whether it hides --- */

/* The most buckets that fit the window at this rate. */
static void buckets_needed(const struct plan *p, struct plan_way *w, double repeats)
{
	double room_s = w->window_s - w->line_s;

	if (room_s < 0)
		return;
	w->buckets_needed = down((down(room_s / w->wait_s) + 1) / repeats);
	if (w->buckets_needed > 0)
		w->bucket_bytes_needed = p->bucket_bytes * p->in.buckets / w->buckets_needed;
}

static void times(const struct plan *p, struct plan_way *w)
{
	double repeats = p->in.across == PLAN_FSDP ? p->in.microbatches : 1;

	if (w->line_bytes == 0)
		return;
	w->line_s = w->line_bytes * 8 / p->in.rate_bps;
	w->wait_s = w->waits * p->in.rtt_s;
	if (p->bucket_bytes > 0)
		w->bucket_wait_s = (p->in.buckets * repeats - 1) * w->wait_s;
	w->exposed_s = larger(w->line_s + w->bucket_wait_s - w->window_s, 0);
	w->hides = w->exposed_s == 0;
	w->exposed_s += w->wait_s;
	w->efficiency = p->in.step_s / (p->in.step_s + w->exposed_s);
	if (w->window_s > w->bucket_wait_s)
		w->rate_needed_bps = w->line_bytes * 8 / (w->window_s - w->bucket_wait_s);
	if (!w->hides && p->bucket_bytes > 0)
		buckets_needed(p, w, repeats);
}

/* --- what edges and programs need --- */

/* Groups with members at both sites. NCCL has a communicator for each, and a communicator has its own channels. */
static double groups_across(const struct plan_in *in)
{
	switch (in->across) {
	case PLAN_PIPELINE:
		return in->data * in->tensor;
	case PLAN_TENSOR:
		return in->data * in->pipeline;
	case PLAN_EXPERT:
		return in->data / in->expert * in->tensor * in->pipeline;
	default:
		return in->tensor * in->pipeline;
	}
}

static double nccl_rate(const struct plan *p, double buffsize)
{
	return smaller(p->communicators * p->in.channels * buffsize * 8 / p->in.rtt_s, p->in.rate_bps);
}

/* The receiver of an NCCL channel returns a credit for each free slot of its buffer, and the credit crosses the line: a
 * channel carries NCCL_BUFFSIZE per round trip, whoever ACKs its WRITEs (NCCL src/transport/net.cc, NCCL_STEPS). Twice
 * what is on the way, so that the line does not starve at each turn of the slots. */
static void nccl(struct plan *p)
{
	double size = PLAN_NCCL_BUFFSIZE, per_channel;

	p->communicators = groups_across(&p->in);
	per_channel = 2 * p->bdp_bytes / (p->communicators * p->in.channels);
	while (size < per_channel && size < PLAN_NCCL_BUFF_MAX)
		size *= 2;
	p->nccl_buffsize_bytes = size;
	p->default_rate_bps = nccl_rate(p, PLAN_NCCL_BUFFSIZE);
	p->nccl_rate_bps = nccl_rate(p, size);
	if (p->nccl_rate_bps < p->in.rate_bps)
		p->channels_needed = up(2 * p->bdp_bytes / (p->communicators * PLAN_NCCL_BUFF_MAX));
	p->qps_needed = up(p->bdp_bytes / PLAN_NCCL_BUFFSIZE);
}

static void edges(struct plan *p)
{
	uint64_t rate = (uint64_t)p->in.rate_bps, rtt_ns = (uint64_t)(p->in.rtt_s * 1e9 + 0.5);

	p->bdp_bytes = p->in.rate_bps * p->in.rtt_s / 8;
	nccl(p);
	p->arena_bytes = headroom_deep_arena_bytes(rate, rtt_ns); /* as longreachd does: both directions */
	p->qps_at_once = headroom_qps_at_once(p->arena_bytes / 2);
	p->qps_in_turns = headroom_qps_in_turns(p->arena_bytes / 2, rate);
}

/* Parameters and Adam's moments, and a copy of the parameters in fp32 where they are smaller (Rajbhandari et al.,
 * arXiv:1910.02054, 3.1). */
static void files(struct plan *p)
{
	double each = p->in.gradient_bytes + ADAM_BYTES + (p->in.gradient_bytes < MASTER_BYTES ? MASTER_BYTES : 0);

	p->checkpoint_bytes = p->in.checkpoint_bytes > 0 ? p->in.checkpoint_bytes : each * p->in.params;
	p->checkpoint_s = p->checkpoint_bytes * 8 / p->in.rate_bps + p->in.rtt_s;
	if (p->in.dataset_bytes > 0)
		p->dataset_s = p->in.dataset_bytes * 8 / p->in.rate_bps + p->in.rtt_s;
}

/* DiLoCo (Douillard et al., arXiv:2311.08105): each site trains alone for some 500 steps, and then all parameters'
 * differences are averaged, in fp32; one copy crosses in each direction. Streaming DiLoCo (arXiv:2501.18512) does that
 * in the background: it then has all of the inner steps' time. */
static void diloco(struct plan *p)
{
	double seconds;

	p->outer_bytes = p->in.params * DILOCO_PARAM_BYTES;
	seconds = p->outer_bytes * 8 / PLAN_DILOCO_BPS + p->in.rtt_s;
	p->diloco_steps = up(seconds / (PLAN_DILOCO_LOSS * p->in.step_s));
	p->diloco_overlapped = up(seconds / p->in.step_s);
	p->diloco_rate_bps = p->outer_bytes * 8 / larger(PLAN_DILOCO_STEPS * PLAN_DILOCO_LOSS * p->in.step_s, 1e-9);
}

int plan_compute(const struct plan_in *in, struct plan *p, char why[PLAN_ERROR_MAX])
{
	static void (*const acrosses[PLAN_ACROSSES])(struct plan * p) = {across_data, across_fsdp, across_pipeline,
	                                                                 across_tensor, across_expert};

	*p = (struct plan){.in = *in};
	if (fill_in(&p->in, why) < 0)
		return -1;
	acrosses[in->across](p);
	times(p, &p->ring);
	times(p, &p->two_level);
	edges(p);
	files(p);
	diloco(p);
	return 0;
}
