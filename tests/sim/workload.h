/* SPDX-License-Identifier: Apache-2.0 */
/* workload.h - what programs do with their queue pairs: which message comes when, and what it waits for.
 *
 * Independent of the NIC underneath (struct host_model): each program runs on each NIC.
 *
 *     NCCL      the receiver WRITEs into the sender's FIFO that a buffer is ready; the sender answers with WRITEs and a
 *               WRITE_WITH_IMM without data. Several queue pairs per host pair, PSN 0, QPNs out of band.
 *     NVMe-oF   the host SENDs commands; the target READs or WRITEs the data and SENDs the response when that is
 * complete. UCX       UD wire-up, small SENDs, rendezvous by READ or WRITE, a keepalive WRITE of one byte, flush. */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include <stdint.h>

#include "payload.h"

/* What must have happened at its side before a message may be posted. */
struct msg_needs {
	uint64_t executed;  /* messages of the other direction, taken here */
	uint64_t completed; /* own messages */
};

/* Operation and length of message i; false: the plan leaves it to chance. */
bool workload_message(const struct msg_plan *plan, uint64_t i, enum msg_op *op, uint32_t *len);
void workload_needs(const struct msg_plan *plan, uint64_t i, struct msg_needs *n);

/* Both directions of a connection: so many groups (sends, commands, flushes), of `group` messages each, with at most
 * `window` groups under way, and data messages of len bytes. */
void workload_nccl(struct msg_plan plan[2], uint64_t groups, uint8_t group, uint8_t window, uint32_t len);
void workload_nvme(struct msg_plan plan[2], uint64_t groups, uint8_t group, uint8_t window, uint32_t len);
void workload_ucx(struct msg_plan plan[2], uint64_t groups, uint8_t group, uint32_t len);

#endif
