/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include "rng.h"

#define NVME_COMMAND  64
#define NVME_RESPONSE 16
#define UCX_EAGER     256
#define UCX_KEEPALIVE 8 /* one in so many */

static bool last_of_group(const struct msg_plan *plan, uint64_t i)
{
	return i % plan->group == plan->group - 1u;
}

bool workload_message(const struct msg_plan *plan, uint64_t i, enum msg_op *op, uint32_t *len)
{
	uint64_t h = rng_hash(plan->key, i / (plan->group ? plan->group : 1u));

	switch (plan->workload) {
	case WORK_NCCL_SENDER:
		*op = last_of_group(plan, i) ? OP_WRITE_IMM : OP_WRITE;
		*len = *op == OP_WRITE_IMM ? 0 : plan->len_max;
		return true;
	case WORK_NCCL_RECEIVER:
		*op = OP_WRITE;
		*len = 32;
		return true;
	case WORK_NVME_HOST:
		*op = OP_SEND;
		*len = NVME_COMMAND;
		return true;
	case WORK_NVME_TARGET:
		*op = last_of_group(plan, i) ? OP_SEND : h & 1 ? OP_READ : OP_WRITE;
		*len = *op == OP_SEND ? NVME_RESPONSE : plan->len_max;
		return true;
	case WORK_UCX:
		h = rng_hash(plan->key, i);
		*op = h % UCX_KEEPALIVE == 0 ? OP_WRITE : h & 0x100 ? OP_SEND : h & 0x200 ? OP_READ : OP_WRITE;
		*len = h % UCX_KEEPALIVE == 0 ? 1
		       : *op == OP_SEND       ? 1 + (uint32_t)(h >> 16) % UCX_EAGER
		                              : plan->len_max;
		return true;
	default:
		return false;
	}
}

void workload_needs(const struct msg_plan *plan, uint64_t i, struct msg_needs *n)
{
	uint64_t group = plan->group ? i / plan->group : 0;

	*n = (struct msg_needs){0};
	switch (plan->workload) {
	case WORK_NCCL_SENDER: /* a buffer of the receiver */
		n->executed = group + 1;
		break;
	case WORK_NCCL_RECEIVER: /* a buffer that was filled */
		n->executed = i < plan->window ? 0 : (i + 1 - plan->window) * plan->peer_group;
		break;
	case WORK_NVME_HOST: /* a free slot in the queue */
		n->executed = i < plan->window ? 0 : (i + 1 - plan->window) * plan->peer_group;
		break;
	case WORK_NVME_TARGET: /* a command; and its data, for the response */
		n->executed = group + 1;
		n->completed = last_of_group(plan, i) ? i : 0;
		break;
	case WORK_UCX: /* flush */
		n->completed = group * plan->group;
		break;
	default:
		break;
	}
}

static struct msg_plan plan_of(enum workload work, uint64_t nmsgs, uint8_t group, uint8_t peer_group, uint8_t window,
                               uint32_t len)
{
	return (struct msg_plan){.workload = work,
	                         .nmsgs = nmsgs,
	                         .group = group,
	                         .peer_group = peer_group,
	                         .window = window,
	                         .len_min = len,
	                         .len_max = len};
}

void workload_nccl(struct msg_plan plan[2], uint64_t groups, uint8_t group, uint8_t window, uint32_t len)
{
	plan[0] = plan_of(WORK_NCCL_SENDER, groups * group, group, 1, window, len);
	plan[1] = plan_of(WORK_NCCL_RECEIVER, groups, 1, group, window, len);
}

void workload_nvme(struct msg_plan plan[2], uint64_t groups, uint8_t group, uint8_t window, uint32_t len)
{
	plan[0] = plan_of(WORK_NVME_HOST, groups, 1, group, window, len);
	plan[1] = plan_of(WORK_NVME_TARGET, groups * group, group, 1, window, len);
}

void workload_ucx(struct msg_plan plan[2], uint64_t groups, uint8_t group, uint32_t len)
{
	for (int side = 0; side < 2; side++)
		plan[side] = plan_of(WORK_UCX, groups * group, group, group, 1, len);
}
