/* SPDX-License-Identifier: Apache-2.0 */
/* cmlink.h - setting QPs up and down by connection management on QP1, beside the control connection.
 *
 * The client is the active side: REQ, REP, RTU before the traffic, DREQ and DREP after its last completion. The QPNs
 * and PSNs that arrive must be those that the control connection told; a DREQ must not arrive before everything that
 * was completed in front of it is executed. */
#ifndef RCPERF_CMLINK_H
#define RCPERF_CMLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

enum cm_state { CMS_IDLE, CMS_REQ_SENT, CMS_UP, CMS_DREQ_SENT, CMS_DOWN };

struct cm_qp {
	enum cm_state state;
	uint32_t tries;
	uint64_t sent_ns;
	uint32_t peer_comm;
};

struct cmlink {
	struct engine *e;
	bool active;
	uint32_t comm_base; /* communication id of QP i is comm_base + i */
	uint64_t transaction;
	enum cm_state goal; /* what the active side works towards: CMS_UP or CMS_DOWN */
	uint32_t reached;   /* QPs that are there */
	uint32_t waiting;   /* QPs with a request out */
	uint64_t look_ns;
	uint64_t began_ns;
	struct cm_qp *qps;
};

int cmlink_init(struct cmlink *l, struct engine *e, bool active);
void cmlink_free(struct cmlink *l);

/* Active side: starts to bring all QPs to CMS_UP or CMS_DOWN. */
void cmlink_begin(struct cmlink *l, enum cm_state goal);

/* Sends and repeats requests; true once all QPs are there. Gives up by engine_fail(). */
bool cmlink_tick(struct cmlink *l);

#endif
