/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what training across a line costs, and what the line must be.
 *
 * A job is trained by GPUs of two sites. One kind of parallelism crosses the line between them. This library works out
 * how many bytes that is per step, whether they hide behind the computation, and what edges and programs need:
 *
 *	struct plan_in in;
 *	struct plan p;
 *	char why[PLAN_ERROR_MAX];
 *
 *	plan_defaults(&in);
 *	in.params = 1e9;
 *	in.data = 8;
 *	in.backward_s = 1;
 *	in.rtt_s = 0.003;
 *	in.rate_bps = 100e9;
 *	if (plan_compute(&in, &p, why) < 0)
 *		... why is a sentence ...
 *
 * Pure arithmetic: no system call, no clock, no allocation. Each function of plan.c names the paper that its formula is
 * from. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define PLAN_ERROR_MAX 256

/* Which groups have members at both sites. */
enum plan_across {
	PLAN_DATA,     /* gradients are all-reduced */
	PLAN_FSDP,     /* and parameters gathered: ZeRO-3 */
	PLAN_PIPELINE, /* activations of one stage go to the next */
	PLAN_TENSOR,   /* each layer is split */
	PLAN_EXPERT,   /* tokens go to experts and come back */
	PLAN_ACROSSES,
};

/* What is published of a model; 0 where it is not, or has none. */
struct plan_model {
	const char *name, *source;
	double params, active; /* active: that compute for one token */
	double expert_params;  /* of all experts */
	double layers, hidden, moe_layers, top_k;
	double tokens;            /* of all GPUs in one step */
	double microbatch_tokens; /* of one microbatch of one pipeline; 0: not published */
	double gpus, tensor, pipeline, expert;
	double flops; /* per GPU and second, reached, of 6 x active parameters x tokens per step; 0: not published */
};

/* Numbers are doubles, and 0 means "not said" or what the comment says. */
struct plan_in {
	const struct plan_model *model; /* whose figures stand where nothing was said; NULL: no published one's */
	double params, active;          /* active 0: params */
	double expert_params;           /* of all experts */
	double gradient_bytes;          /* per parameter, on the wire */
	double activation_bytes;        /* per number of an activation, on the wire */
	double gpus;                    /* of both sites; 0: data x tensor x pipeline */
	double data, tensor, pipeline;  /* sizes of the groups; data 0: what gpus leave */
	double expert;                  /* data ranks that share one set of experts */
	enum plan_across across;
	double layers, hidden, moe_layers, top_k;
	double tokens;       /* of all GPUs in one step */
	double microbatches; /* of one pipeline in one step: 1 and up; 0: the model's, or 1 */
	double buckets;      /* data: of gradients in one step; fsdp: units; 0: PLAN_BUCKET_BYTES each, or layers */
	double step_s, backward_s; /* 0: two thirds of the step, and the step from tokens */
	double flops;              /* per GPU and second, reached */
	double rtt_s, rate_bps;
	double checkpoint_bytes; /* 0: of parameters and optimizer */
	double dataset_bytes;    /* 0: none */
	double channels;         /* of one NCCL communicator that cross the line: 1..PLAN_CHANNELS_MAX */
};

/* One way of the bytes over the line: a ring over both sites, or two levels. Seconds are of one step. */
struct plan_way {
	double line_bytes;          /* per step and direction; 0: this way makes no difference, or cannot be */
	double waits;               /* round trips that no computation hides */
	double window_s;            /* computation that the bytes may overlap with; 0: it waits for them */
	double line_s;              /* time of the bytes at the rate of the line */
	double bucket_wait_s;       /* round trips of all buckets but the last: in the window, beside line_s */
	double wait_s;              /* waits in seconds: after the window, at any rate */
	double exposed_s;           /* what the step takes longer: wait_s, and what the window has no room for */
	double efficiency;          /* step over step with exposed_s: 0..1 */
	bool hides;                 /* the bytes and the round trips between them fit the window */
	double rate_needed_bps;     /* with which they fit; 0: with none */
	double bucket_bytes_needed; /* smallest bucket that fits at this rate; 0: any does, or none */
	double buckets_needed;      /* number of such buckets; 0 likewise */
};

struct plan {
	struct plan_in in;         /* with the defaults filled in */
	double gpu_bytes;          /* sent per GPU and step: what NCCL calls bus bytes */
	double bucket_bytes;       /* gradients of a GPU in one bucket; 0: this kind has none */
	struct plan_way ring;      /* one ring over both sites, or what the kind has instead of a ring */
	struct plan_way two_level; /* each site reduces first */
	bool on_critical_path;     /* computation waits for the bytes: no window */

	double bdp_bytes;        /* on the way at full rate: without longreach hosts hold them as outstanding */
	double qps_needed;       /* of NCCL_BUFFSIZE's default each */
	double communicators;    /* of NCCL that share the line: one for each group that crosses it */
	double default_rate_bps; /* of all with NCCL's default buffers on that many channels; at most the line's rate */
	double nccl_buffsize_bytes; /* with which they fill the line, at most PLAN_NCCL_BUFF_MAX */
	double nccl_rate_bps;       /* of all with such buffers; at most the line's rate */
	double channels_needed;     /* of each communicator, with such buffers, to fill the line; 0: in.channels do */
	uint64_t arena_bytes, qps_at_once, qps_in_turns;

	double checkpoint_bytes, checkpoint_s, dataset_s;

	double outer_bytes;       /* of a DiLoCo exchange, per direction */
	double diloco_steps;      /* inner steps at 1 Gbit/s that lose at most PLAN_DILOCO_LOSS */
	double diloco_overlapped; /* if it is exchanged in the background */
	double diloco_rate_bps;   /* with PLAN_DILOCO_STEPS and that loss */
};

#define PLAN_DILOCO_BPS    1e9
#define PLAN_DILOCO_STEPS  500.0 /* arXiv:2311.08105 */
#define PLAN_DILOCO_LOSS   0.05
#define PLAN_NCCL_BUFFSIZE 4194304.0  /* the default of each channel */
#define PLAN_NCCL_BUFF_MAX 67108864.0 /* the most that is proposed: each channel has it in the GPU's memory */
#define PLAN_CHANNELS_MAX  64.0       /* MAXCHANNELS of NCCL's src/include/device.h */
#define PLAN_BUCKET_BYTES  26214400.0 /* bucket_cap_mb of PyTorch's DistributedDataParallel: 25 MiB */

void plan_defaults(struct plan_in *in);

/* The table ends with a NULL name. */
const struct plan_model *plan_models(void);
const struct plan_model *plan_model_find(const char *name);
/* What is not said in `in` yet. */
void plan_use_model(struct plan_in *in, const struct plan_model *m);

/* 0, or -1: `why` says in a sentence what is missing or makes no sense. */
int plan_compute(const struct plan_in *in, struct plan *p, char why[PLAN_ERROR_MAX]);

/* "data", "fsdp"...; PLAN_ACROSSES if there is no such. */
enum plan_across plan_across_find(const char *name);
const char *plan_across_name(enum plan_across a);

/* `longreach plan ...`; argv[0] is "plan". Returns the exit status: 0, 1 (gnuplot), 2 (usage). */
int plan_main(int argc, char **argv);

#endif
