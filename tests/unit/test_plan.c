/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/client/client_json.h"
#include "plan/plan_tool.h"

#define ARGS_MAX 48

static char *out_text, *err_text;

/* Runs "plan WORDS"; the words are separated by single spaces. */
static int run(const char *words)
{
	char line[1024], *argv[ARGS_MAX + 1], *save = NULL;
	size_t out_size, err_size;
	FILE *out, *err;
	int argc = 0, code;

	free(out_text);
	free(err_text);
	out = open_memstream(&out_text, &out_size);
	err = open_memstream(&err_text, &err_size);
	assert_non_null(out);
	assert_non_null(err);
	assert_true(snprintf(line, sizeof(line), "plan %s", words) < (int)sizeof(line));
	for (char *w = strtok_r(line, " ", &save); w != NULL && argc < ARGS_MAX; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	code = plan_tool_run(argc, argv, out, err);
	fclose(out);
	fclose(err);
	return code;
}

static void runs(const char *words)
{
	int code = run(words);

	if (code != 0)
		fail_msg("%s: %d, %s", words, code, err_text);
}

static void refuses(const char *words, const char *about)
{
	int got = run(words);

	if (got != 2 || strstr(err_text, about) == NULL || out_text[0] != '\0')
		fail_msg("%s: %d, \"%s\"; expected 2 and \"%s\"", words, got, err_text, about);
}

static void prints(const char *text)
{
	if (strstr(out_text, text) == NULL)
		fail_msg("\"%s\" is missing in:\n%s", text, out_text);
}

static void is_about(double value, double expected)
{
	if (value < expected * 0.999999 || value > expected * 1.000001)
		fail_msg("%.12g, expected %.12g", value, expected);
}

/* 1e9 parameters in fp32, 300 km at 100G. */
static struct plan_in job(double data)
{
	struct plan_in in;

	plan_defaults(&in);
	in.params = 1e9;
	in.gradient_bytes = in.activation_bytes = 4;
	in.data = data;
	in.backward_s = 1;
	in.rtt_s = 0.003;
	in.rate_bps = 100e9;
	return in;
}

static struct plan of(const struct plan_in *in)
{
	char why[PLAN_ERROR_MAX] = "";
	struct plan p;

	if (plan_compute(in, &p, why) < 0)
		fail_msg("%s", why);
	return p;
}

static void plan_compute__bytes_of_data_parallelism(void **state)
{
	static const double expected[][2] = {{2, 4e9}, {4, 6e9}, {8, 7e9}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct plan_in in = job(expected[i][0]);
		struct plan p = of(&in);

		is_about(p.gpu_bytes, expected[i][1]);
		is_about(p.ring.line_bytes, expected[i][1]);
		is_about(p.two_level.line_bytes, 4e9);
	}
}

/* Parts of the model cross side by side: a GPU has less, the line has the same. */
static void plan_compute__parts_of_a_model(void **state)
{
	struct plan_in in = job(4);
	struct plan p;

	(void)state;
	in.tensor = 2;
	in.pipeline = 4;
	p = of(&in);
	is_about(p.in.gpus, 32);
	is_about(p.gpu_bytes, 6e9 / 8);
	is_about(p.ring.line_bytes, 6e9);
}

static void plan_compute__fsdp_is_half_as_much_again(void **state)
{
	struct plan_in in = job(8);
	double data = of(&in).ring.line_bytes;
	struct plan p;

	(void)state;
	in.across = PLAN_FSDP;
	p = of(&in);
	is_about(p.ring.line_bytes, 1.5 * data);
	is_about(p.two_level.line_bytes, 4e9);
	is_about(p.ring.window_s, 1.5);    /* the whole step */
	is_about(p.two_level.window_s, 1); /* gradients alone */
	is_about(p.ring.waits, 3);
	in.layers = 32;
	is_about(of(&in).in.buckets, 32); /* a unit for each layer */
}

/* 0.8e9 of 1e9 parameters are experts, on 8 data ranks in groups of 4: two copies of each. */
static void plan_compute__experts_have_fewer_copies(void **state)
{
	struct plan_in in = job(8);
	struct plan p;

	(void)state;
	in.expert = 4;
	in.expert_params = 0.8e9;
	p = of(&in);
	is_about(p.ring.line_bytes, 1.75 * 0.8e9 + 1 * 3.2e9);
	is_about(p.gpu_bytes, 1.75 * 0.8e9 + 3.2e9 / 4);
	is_about(p.two_level.line_bytes, 4e9);
}

/* An expert group at both sites sends tokens over the line: only --across expert counts these. */
static void plan_compute__one_copy_of_the_experts(void **state)
{
	static const enum plan_across reduces[] = {PLAN_DATA, PLAN_FSDP};
	char why[PLAN_ERROR_MAX];
	struct plan_in in = job(8);
	struct plan p;

	(void)state;
	in.expert = 8;
	in.expert_params = 0.8e9;
	for (size_t i = 0; i < 2; i++) {
		in.across = reduces[i];
		assert_int_equal(plan_compute(&in, &p, why), -1);
		assert_non_null(strstr(why, "--across expert"));
		assert_non_null(strstr(why, "--data 16"));
	}
	in.across = PLAN_PIPELINE; /* the stages, and their experts, are within a site */
	in.pipeline = 2;
	in.tokens = in.hidden = 1000;
	of(&in);
	refuses("--model deepseek-v3 --gpus 1024 --km 300 --rate 400G", "one copy of the experts is at both sites");
	runs("--model deepseek-v3 --gpus 1024 --across expert --km 300 --rate 400G");
}

/* The last microbatch reduces the gradients of all; while a pipeline empties, each stage has its last one. */
static void plan_compute__microbatches_of_gradients(void **state)
{
	struct plan_in in = job(2);
	struct plan p;

	(void)state;
	in.microbatches = 8;
	p = of(&in);
	is_about(p.ring.window_s, 1.0 / 8);
	is_about(p.two_level.window_s, 1.0 / 8);
	is_about(p.ring.line_bytes, 4e9);
	assert_false(p.ring.hides);
	in.pipeline = 4;
	is_about(of(&in).ring.window_s, 4.0 / 8);
	in.pipeline = 16;
	is_about(of(&in).ring.window_s, 1);
}

static void plan_compute__microbatches_of_fsdp(void **state)
{
	struct plan_in in = job(4);
	struct plan one, p;

	(void)state;
	in.across = PLAN_FSDP;
	in.buckets = 10;
	one = of(&in);
	in.microbatches = 8;
	p = of(&in);
	is_about(p.ring.line_bytes, 8 * one.ring.line_bytes);
	is_about(p.two_level.line_bytes, 8 * one.two_level.line_bytes);
	is_about(p.gpu_bytes, 8 * one.gpu_bytes);
	is_about(p.ring.window_s, 1.5);
	is_about(p.ring.bucket_wait_s, 79 * 0.009);
	is_about(p.ring.wait_s, 0.009);
}

/* arXiv:2104.04473, table 2: 1536 sequences, microbatch size 1, 96 GPUs of each copy. */
static void plan_models__microbatches(void **state)
{
	struct plan_in in;

	(void)state;
	plan_defaults(&in);
	in.rtt_s = 0.003;
	in.rate_bps = 400e9;
	plan_use_model(&in, plan_model_find("gpt-3-175b"));
	is_about(of(&in).in.data, 16);
	is_about(of(&in).in.microbatches, 96);
	is_about(of(&in).in.step_s, 8 * 174.6e9 * 1536 * 2048 / (1536 * 141e12)); /* 5.1: 8 x parameters x tokens */
	in.gpus = 768;
	is_about(of(&in).in.microbatches, 192);
	in.microbatches = 48;
	is_about(of(&in).in.microbatches, 48);
	runs("--model llama-3-405b --km 300 --rate 400G");
	prints("  1 microbatch of a pipeline in one step; the number is not published (--microbatches)\n");
}

static void plan_compute__activations(void **state)
{
	struct plan_in in = job(2);
	struct plan p;

	(void)state;
	in.tokens = 1e6;
	in.hidden = 1000;
	in.layers = 10;
	in.moe_layers = 10;
	in.top_k = 2;
	in.tensor = 2;
	in.pipeline = 2;
	in.across = PLAN_PIPELINE;
	p = of(&in);
	is_about(p.ring.line_bytes, 4e9);
	is_about(p.gpu_bytes, 1e9);
	in.across = PLAN_TENSOR; /* 4 all-reduces x 10 layers x 4 kB x 1e6 tokens */
	p = of(&in);
	is_about(p.ring.line_bytes, 160e9);
	is_about(p.ring.waits, 20);
	assert_true(p.on_critical_path && p.ring.rate_needed_bps == 0 && !p.ring.hides);
	is_about(p.ring.exposed_s, 160e9 * 8 / 100e9 + 20 * 0.003);
	in.tensor = 4;
	is_about(of(&in).ring.waits, 40);
	in.data = in.expert = 4;
	in.tensor = 2;
	in.expert_params = 1e8;
	in.across = PLAN_EXPERT;
	p = of(&in);
	is_about(p.ring.line_bytes, 80e9);
	is_about(p.ring.waits, 10);
	is_about(p.gpu_bytes, 4 * 0.75 * 80e9 / 16); /* a quarter of what it exchanges is its own experts' */
}

/* A round trip comes after the last backward pass, whatever the window. */
static void plan_compute__hides_or_not(void **state)
{
	struct plan_in in = job(2);
	struct plan p;

	(void)state;
	in.buckets = 1;
	p = of(&in);
	/* 32 Gbit in 0.32 s behind 1 s, and one round trip */
	is_about(p.ring.line_s, 0.32);
	is_about(p.ring.waits, 1);
	is_about(p.ring.wait_s, 0.003);
	assert_true(p.ring.hides);
	is_about(p.ring.rate_needed_bps, 32e9);
	is_about(p.ring.exposed_s, 0.003);
	is_about(p.ring.efficiency, 1.5 / 1.503);
	is_about(p.two_level.exposed_s, p.ring.exposed_s);
	is_about(p.two_level.rate_needed_bps, p.ring.rate_needed_bps);
	in.rate_bps = p.ring.rate_needed_bps * 1.0001;
	assert_true(of(&in).ring.hides);
	in.rate_bps = p.ring.rate_needed_bps * 0.9999;
	assert_false(of(&in).ring.hides);
	in.rate_bps = 10e9;
	p = of(&in);
	is_about(p.ring.exposed_s, 3.2 - 1 + 0.003);
	is_about(p.ring.efficiency, 1.5 / (1.5 + 2.203));
}

/* 4 GB per GPU; two round trips of 3 ms for each bucket, beside 0.48 s on the line. */
static void plan_compute__buckets(void **state)
{
	struct plan_in in = job(4);
	struct plan p = of(&in);

	(void)state;
	is_about(p.in.buckets, 153); /* of 25 MiB at most */
	is_about(p.bucket_bytes, 4e9 / 153);
	is_about(p.ring.bucket_wait_s, 152 * 0.006);
	is_about(p.two_level.bucket_wait_s, 152 * 0.003);
	is_about(p.ring.exposed_s, 0.48 + 152 * 0.006 - 1 + 0.006);
	assert_false(p.ring.hides);
	assert_true(p.two_level.hides);
	is_about(p.ring.rate_needed_bps, 48e9 / (1 - 0.912));
	is_about(p.ring.buckets_needed, 87); /* 86 x 6 ms fit 0.52 s */
	is_about(p.ring.bucket_bytes_needed, 4e9 / 87);
	in.buckets = 87;
	assert_true(of(&in).ring.hides);
	in.buckets = 88;
	assert_false(of(&in).ring.hides);
	in.buckets = 1000; /* 6 s */
	is_about(of(&in).ring.buckets_needed, 87);
	assert_true(of(&in).ring.rate_needed_bps == 0);
	in.params = 1000;
	in.buckets = 0;
	is_about(of(&in).in.buckets, 1);
}

/* A step is 6 x parameters x tokens operations, its backward pass two thirds. */
static void plan_compute__time_of_a_step(void **state)
{
	struct plan_in in = job(2);
	struct plan p;

	(void)state;
	in.backward_s = 0;
	in.tokens = 1e6;
	in.flops = 100e12;
	p = of(&in);
	is_about(p.in.step_s, 30);
	is_about(p.in.backward_s, 20);
	in.active = 1e8;
	is_about(of(&in).in.step_s, 3);
}

static void plan_compute__edges_and_hosts(void **state)
{
	struct plan_in in = job(2);
	struct plan p = of(&in);

	(void)state;
	is_about(p.bdp_bytes, 37.5e6);
	assert_int_equal(p.arena_bytes, 2 * 4 * 37500000ull);
	is_about(p.qps_needed, 9);
	is_about(p.nccl_buffsize_bytes, 8388608); /* 2 x 37.5 MB over 16 channels */
	is_about(p.nccl_rate_bps, 100e9);
	in.channels = 4;
	p = of(&in);
	is_about(p.default_rate_bps, 4 * 4194304 * 8 / 0.003);
	in.rtt_s = 0.00001;
	p = of(&in);
	is_about(p.nccl_buffsize_bytes, 4194304);
	is_about(p.default_rate_bps, 100e9);
}

/* Each part of the model has its data-parallel group, each group its communicator, and all share the line. */
static void plan_compute__communicators_share_the_line(void **state)
{
	struct plan_in in = job(2);
	struct plan p;

	(void)state;
	in.channels = 1;
	in.tensor = 4;
	in.pipeline = 2;
	p = of(&in);
	is_about(p.communicators, 8);
	is_about(p.default_rate_bps, 8 * 4194304.0 * 8 / 0.003);
	is_about(p.nccl_buffsize_bytes, 16777216); /* 75 MB of 8 buffers */
	in.across = PLAN_TENSOR;
	in.tokens = in.hidden = in.layers = 1000;
	is_about(of(&in).communicators, 4);
	in.across = PLAN_PIPELINE;
	is_about(of(&in).communicators, 8);
}

/* NCCL_BUFFSIZE ends at 64 MiB: a line of 150 ms at 1.6T holds 30 GB. */
static void plan_compute__buffers_that_do_not_fill_the_line(void **state)
{
	struct plan_in in = job(2);
	struct plan p;

	(void)state;
	in.rtt_s = 0.15;
	in.rate_bps = 100e9;
	p = of(&in);
	is_about(p.nccl_buffsize_bytes, PLAN_NCCL_BUFF_MAX);
	is_about(p.nccl_rate_bps, 16 * PLAN_NCCL_BUFF_MAX * 8 / 0.15);
	is_about(p.channels_needed, 56); /* 3.75 GB of 64 MiB */
	in.channels = 56;
	assert_true(of(&in).channels_needed == 0);
	runs("--params 1B --data 2 --backward 1s --rtt 150ms --rate 100G");
	prints("these settings carry 57.3 Gbit/s; 56 channels of each communicator would fill the line\n");
	runs("--params 1B --data 2 --backward 1s --rtt 150ms --rate 1.6T");
	prints("895 channels of each communicator would fill the line, but NCCL has at most 64\n");
}

static void plan_compute__files_and_diloco(void **state)
{
	struct plan_in in = job(2);
	struct plan p = of(&in);

	(void)state;
	is_about(p.checkpoint_bytes, 12e9);
	is_about(p.checkpoint_s, 0.963);
	is_about(p.outer_bytes, 4e9);
	is_about(p.diloco_steps, 427); /* 32.003 s are 5 % of 640.06 s, a step has 1.5 */
	is_about(p.diloco_overlapped, 22);
	is_about(p.diloco_rate_bps, 32e9 / 37.5);
	in.gradient_bytes = 2;
	in.dataset_bytes = 1e12;
	p = of(&in);
	is_about(p.checkpoint_bytes, 14e9);
	is_about(p.dataset_s, 80.003);
}

static void plan_models__all_make_sense(void **state)
{
	(void)state;
	for (const struct plan_model *m = plan_models(); m->name != NULL; m++)
		for (enum plan_across a = PLAN_DATA; a < PLAN_ACROSSES; a++) {
			char why[PLAN_ERROR_MAX];
			struct plan_in in;
			struct plan p;

			plan_defaults(&in);
			plan_use_model(&in, m);
			in.across = a;
			in.rtt_s = 0.003;
			in.rate_bps = 400e9;
			if (plan_compute(&in, &p, why) < 0) {
				assert_true(a == PLAN_TENSOR || a == PLAN_EXPERT);
				assert_true(m->tensor < 2 || m->moe_layers == 0);
				continue;
			}
			assert_true(p.ring.line_bytes > 0 && p.gpu_bytes > 0);
			assert_true(p.ring.efficiency > 0 && p.ring.efficiency < 1);
		}
}

static void plan_tool__says_it(void **state)
{
	(void)state;
	runs("--params 1e9 --precision fp32 --data 8 --backward 1s --km 300 --rate 100G --dataset 15TB");
	prints("  7.0 GB per GPU and step\n");
	prints("round trip 3.00 ms (300 km of fibre), 37.5 MB on the way\n");
	prints("  153 buckets of 24.9 MiB per GPU, one after another\n");
	prints("  as it is: 7.0 GB per step and direction, 560 ms on the line, 912 ms of round trips between ");
	prints("    no: each step waits 478 ms more, 76 % of the speed is left; 636 Gbit/s would hide it\n");
	prints("    buckets of 52 MiB or more would hide it at this rate (bucket_cap_mb, --buckets 74)\n");
	prints("  if each site reduces first: 4.0 GB per step and direction, 320 ms on the line, 456 ms of ");
	prints("    yes, it hides, but for 1 round trip: 3.00 ms of a step of 1.5 s; a rate of 58.8 Gbit/s would do\n");
	prints("9 queue pairs of 4 MiB each");
	prints("  a data set of 15.0 TB crosses in 20.0 min\n");
	prints("Would DiLoCo over 1 Gbit/s do instead? yes\n");
	prints("  NCCL_BUFFSIZE=8388608\n");
	prints("  UCX_RNDV_SCHEME=put_zcopy\n");
	runs("--params 1e9 --data 8 --backward 1s --rtt 20ms --rate 100G --buckets 2");
	prints("    the bytes hide, 2 round trips do not: 40.0 ms of a step of 1.5 s, 97 % of the speed is left; ");
	runs("--params 1e9 --data 8 --backward 1s --rtt 3ms --rate 100G --buckets 500");
	prints("no rate hides it with 500 buckets\n");
	runs("--params 1e9 --data 8 --backward 8s --microbatches 8 --rtt 3ms --rate 100G");
	prints("  it may hide behind the backward pass of the last microbatch (1 s)\n");
	runs("--params 1e9 --data 8 --backward 1s --across fsdp --rtt 3ms --rate 100G");
	prints("  if only gradients cross, behind the backward pass (HYBRID_SHARD): 2.0 GB per step");
	runs("--model llama-3-405b --rtt 3ms --rate 400G");
	prints("The job\n  llama-3-405b: other figures are those of arXiv:2407.21783, tables 3 and 4");
	prints("no: each step waits ");
	prints("DiLoCo over 1 Gbit/s do instead? no\n");
	runs("--model deepseek-v3 --across expert --km 300 --rate 400G");
	prints("computation waits for all of it");
	prints("no rate hides it");
}

static void plan_tool__json(void **state)
{
	const struct json_object *first;
	struct json_object *doc;

	(void)state;
	runs("--params 1B --precision fp32 --data 4 --backward 1s --km 300 --rate 100G --json");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	is_about(j_number(doc, "gpu_bytes"), 6e9);
	is_about(j_number(j_get(doc, "ring"), "line_bytes"), 6e9);
	is_about(j_number(j_get(doc, "two_level"), "line_bytes"), 4e9);
	is_about(j_number(j_get(doc, "inputs"), "step_s"), 1.5);
	is_about(j_number(j_get(doc, "inputs"), "buckets"), 153);
	is_about(j_number(j_get(doc, "ring"), "bucket_bytes_needed"), 4e9 / 87);
	assert_int_equal(j_number(doc, "arena_bytes"), 300000000);
	first = j_at(j_get(doc, "settings"), 0);
	assert_string_equal(j_text(first, "program"), "nccl");
	jdoc_free(&doc);
}

static void plan_tool__csv_and_models(void **state)
{
	(void)state;
	runs("--params 1B --data 4 --backward 1s --km 300 --rate 100G --csv");
	prints("length_km,rtt_ms,");
	prints("\n300,3.000,0.9960,");
	prints("\n20000,200.000,");
	runs("--models --km 300 --rate 400G");
	prints("| rate that hides two levels |");
	prints("| gpt-3-175b | 1536 = 16 x 8 x 12 | 20.3 s | ");
	/* 128 copies, each 16 sequences of 8192: the table's 16M are 2^24; 6 x 405e9 x 2^24 / (16384 x 400e12) */
	prints("| llama-3-405b | 16384 = 128 x 8 x 16 | 6.22 s | 12.6 GB | 1.6 TB, ");
	prints("| deepseek-v3 | 2048 = 128 x 1 x 16 |");
	prints("\nllama-3-405b: arXiv:2407.21783, tables 3 and 4");
	prints("16 sequences of 8192; microbatches are not published: 1 in each step\n");
	runs("--models --across pipeline --km 300 --rate 400G");
	prints("| pipeline: line, speed left | two levels | rate that hides pipeline |");
}

static void plan_tool__nonsense_is_refused(void **state)
{
	static const char line[] = "--km 300 --rate 100G";
	static const struct {
		const char *words, *about;
	} bad[] = {
	    {"", "the size of the model is missing"},
	    {"--params 0", "--params 0: expected a number above 0"},
	    {"--params 7B --step 2s --gpus 16 --km 300 --rate 100", "--rate 100: expected a rate from 1M"}, /* the G was forgotten */
	    {"--params -1", "expected a number"},
	    {"--params nan", "expected a number"},
	    {"--params 1e99", "expected a number"},
	    {"--params 7Q", "expected a number"},
	    {"--params 1B --step 1s", "the number of GPUs is missing"},
	    {"--params 1B --gpus 16", "the time of a step is missing"},
	    {"--params 1B --gpus 1 --step 1s", "one GPU is at one site"},
	    {"--params 1B --gpus 16 --tensor 3 --step 1s", "do not equal data x tensor x pipeline"},
	    {"--params 1B --gpus 16 --data 3 --step 1s", "do not equal data x tensor x pipeline"},
	    {"--params 1B --gpus 16 --tensor 16 --step 1s", "nothing to reduce"},
	    {"--params 1B --gpus 16 --step 1s --backward 2s", "longer than the step"},
	    {"--params 1B --gpus 16 --step 1s --across tensor", "--tensor 2"},
	    {"--params 1B --gpus 16 --step 1s --across pipeline --pipeline 2", "--tokens and --hidden"},
	    {"--params 1B --gpus 16 --step 1s --across expert --expert 2 --expert-params 1M", "--moe-layers"},
	    {"--model deepseek-v3 --across expert --expert 1", "--expert 2"},
	    {"--params 7B --active 70B --gpus 16 --step 1s", "--active: more parameters"},
	    {"--channels 65 --params 1B --gpus 16 --step 1s", "at most 64 channels"},
	    {"--model gpt-3-175b --across pipeline --buckets 4", "--buckets: activations have no buckets"},
	    {"--checkpoint 7B", "--checkpoint 7B: expected an amount of bytes with its unit"},
	    {"--checkpoint 7", "with its unit"},
	    {"--dataset 15T", "with its unit"},
	    {"--dataset B", "with its unit"},
	    {"--models --json", "--models prints a table only"},
	    {"--models --csv", "--models prints a table only"},
	    {"--models --plot a.svg", "--models prints a table only"},
	    {"--params 1B --gpus 16 --step 1s --across air", "data, fsdp"},
	    {"--params 1B --gpus 16 --step 1s --expert 3 --expert-params 1M", "multiple"},
	    {"--params 1B --gpus 16 --step 1s --expert 4", "--expert-params"},
	    {"--params 1B --gpus 16 --step 1s --expert 4 --expert-params 2B", "more parameters than"},
	    {"--model gpt-9", "expected gpt-3-175b"},
	    {"--gpus 1.5", "whole number"},
	    {"--gpus 0", "whole number"},
	    {"--precision fp12", "fp8"},
	    {"--params 1B --gpus 16 --step 1s --rtt 1ms", "expected one of the two"},
	    {"--rtt 11s", "expected a time"},
	    {"--rate 0", "expected a rate"},
	    {"--plot a'b", "without quotes"},
	    {"--frobnicate", "--frobnicate"},
	    {"--params", "--params needs a value"},
	    {"now", "now"},
	};
	char words[256];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(words, sizeof(words), "%s %s", line, bad[i].words);
		refuses(words, bad[i].about);
	}
	refuses("--params 1B --gpus 16 --step 1s --rate 100G", "the length of the line is missing");
	refuses("--params 1B --gpus 16 --step 1s --km 300", "the rate of the line is missing");
	refuses("--models --km 300", "needs a line");
	runs("--help");
	prints("--moe-layers");
}

static int teardown(void **state)
{
	(void)state;
	free(out_text);
	free(err_text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plan_compute__bytes_of_data_parallelism),
	    cmocka_unit_test(plan_compute__parts_of_a_model),
	    cmocka_unit_test(plan_compute__fsdp_is_half_as_much_again),
	    cmocka_unit_test(plan_compute__experts_have_fewer_copies),
	    cmocka_unit_test(plan_compute__one_copy_of_the_experts),
	    cmocka_unit_test(plan_compute__microbatches_of_gradients),
	    cmocka_unit_test(plan_compute__microbatches_of_fsdp),
	    cmocka_unit_test(plan_models__microbatches),
	    cmocka_unit_test(plan_compute__activations),
	    cmocka_unit_test(plan_compute__hides_or_not),
	    cmocka_unit_test(plan_compute__buckets),
	    cmocka_unit_test(plan_compute__time_of_a_step),
	    cmocka_unit_test(plan_compute__edges_and_hosts),
	    cmocka_unit_test(plan_compute__communicators_share_the_line),
	    cmocka_unit_test(plan_compute__buffers_that_do_not_fill_the_line),
	    cmocka_unit_test(plan_compute__files_and_diloco),
	    cmocka_unit_test(plan_models__all_make_sense),
	    cmocka_unit_test(plan_tool__says_it),
	    cmocka_unit_test(plan_tool__json),
	    cmocka_unit_test(plan_tool__csv_and_models),
	    cmocka_unit_test(plan_tool__nonsense_is_refused),
	};

	return cmocka_run_group_tests_name("plan", tests, NULL, teardown);
}
