// SPDX-License-Identifier: Apache-2.0
/* wireup.c - the two ends tell each other what is tested and which QPs there are. */
#include "wireup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "addr.h"
#include "pattern.h"
#include "route.h"

#define VERSION         1
#define MEMORY_MAX      (64ull << 20) /* exposed memory of all QPs together, as far as SLOTS_MIN allows */
#define MEMORY_HARD_MAX (4ull << 30)
#define BASE_VA         0x100000000ull

/* Independent seeds for each QP: contents of the stream of one direction, and memory of one end at the start. */
static uint64_t stream_seed(const struct session *s, uint32_t qp, bool by_server)
{
	return pat_mix(s->opt.seed ^ pat_mix(qp * 4ull + (by_server ? 1 : 0)));
}

static uint64_t memory_seed(const struct session *s, uint32_t qp, bool of_server)
{
	return pat_mix(s->opt.seed ^ pat_mix(qp * 4ull + (of_server ? 3 : 2)));
}

static uint32_t random32(void)
{
	uint32_t v = 0;

	(void)getrandom(&v, sizeof(v), 0);
	return v;
}

uint64_t wireup_random_seed(void)
{
	return ((uint64_t)random32() << 20 | random32()) + 1;
}

void wireup_send_hello(struct session *s)
{
	const struct opt *o = &s->opt;
	char addr[ADDR_TEXT_MAX];

	wire_send(&s->w,
	          "hello version=%d op=%d size=%u depth=%u qps=%u mtu=%u rd=%u secs_ns=%" PRIu64 " iters=%" PRIu64
	          " bidir=%d cm=%d seed=%" PRIu64 " warmup=%u addr=%s",
	          VERSION, (int)o->kind, o->size, o->depth, o->qps, o->mtu, o->rd_atomic, o->secs_ns, o->iters,
	          o->bidir, o->cm, o->seed, (unsigned)(o->warmup * 1e6), addr_write(&o->addr, addr));
}

static bool in_range(uint64_t v, uint64_t min, uint64_t max)
{
	return v >= min && v <= max;
}

/* Takes over what the client wants tested. False if it makes no sense. */
bool wireup_take_hello(struct session *s, const char *line)
{
	struct opt *o = &s->opt;
	uint64_t kind = wire_u64(line, "op", PLAN_KINDS), size = wire_u64(line, "size", UINT64_MAX);
	uint64_t depth = wire_u64(line, "depth", 0), qps = wire_u64(line, "qps", 0), mtu = wire_u64(line, "mtu", 0);
	uint64_t rd = wire_u64(line, "rd", 0);
	const char *addr = wire_rest(line, "addr");

	if (!wire_is(line, "hello") || wire_u64(line, "version", 0) != VERSION || addr == NULL ||
	    !addr_read(addr, &o->peer) || ip_addr_is4(&o->peer) != ip_addr_is4(&o->addr))
		return false;
	if (kind >= PLAN_KINDS || size > SIZE_MAX_BYTES || !in_range(depth, 1, DEPTH_MAX) ||
	    !in_range(qps, 1, QPS_MAX) || !in_range(mtu, 256, 4096) || (mtu & (mtu - 1)) != 0 ||
	    !in_range(rd, 1, RD_ATOMIC_MAX))
		return false;
	o->kind = (enum plan_kind)kind;
	o->size = (uint32_t)size;
	o->depth = (uint32_t)depth;
	o->qps = (uint32_t)qps;
	o->mtu = (uint32_t)mtu;
	o->rd_atomic = (uint32_t)rd;
	o->secs_ns = wire_u64(line, "secs_ns", 0);
	o->iters = wire_u64(line, "iters", 0);
	o->bidir = wire_u64(line, "bidir", 0) != 0;
	o->cm = wire_u64(line, "cm", 0) != 0;
	o->seed = wire_u64(line, "seed", 0);
	o->warmup = (double)wire_u64(line, "warmup", 0) * 1e-6;
	return o->secs_ns > 0 || o->iters > 0;
}

int wireup_make_qps(struct session *s, char err[256])
{
	const struct opt *o = &s->opt;
	int r = engine_open(&s->e, o, err);

	if (r != 0)
		return r;
	plan_init(&s->e.plan, o->kind, o->size, o->mtu, o->depth, MEMORY_MAX / o->qps);
	if ((plan_region_bytes(&s->e.plan) + (uint64_t)RECV_BUFFERS * s->e.plan.slot_bytes) * o->qps >
	    MEMORY_HARD_MAX) {
		snprintf(err, 256, "%u QPs with messages of %u bytes need more than 4 GiB", o->qps, o->size);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < o->qps; i++) {
		struct qp *qp = &s->e.qps[i];
		uint32_t psn = o->psn == PSN_RANDOM ? random32() & ROCE_PSN_MASK : o->psn;

		if (req_init(&s->e, qp, psn) != 0 ||
		    rsp_init(&s->e, qp, memory_seed(s, i, o->server), random32(), BASE_VA + ((uint64_t)i << 32)) != 0) {
			snprintf(err, 256, "no memory for %u QPs", o->qps);
			return -ENOMEM;
		}
		qp->req.seed = stream_seed(s, i, o->server);
		qp->rsp.seed = stream_seed(s, i, !o->server);
		qp->req.peer_init_seed = memory_seed(s, i, !o->server);
	}
	return cmlink_init(&s->cm, &s->e, !o->server);
}

void wireup_send_qps(struct session *s)
{
	for (uint32_t i = 0; i < s->e.nqps; i++) {
		const struct qp *qp = &s->e.qps[i];

		wire_send(&s->w, "qp i=%u qpn=%u psn=%u rkey=%u va=%" PRIu64, i, qp->qpn, qp->req.psn_base,
		          qp->rsp.rkey, qp->rsp.va);
	}
	wire_send(&s->w, "ready");
}

static bool take_qp(struct session *s, const char *line)
{
	uint64_t i = wire_u64(line, "i", UINT64_MAX), qpn = wire_u64(line, "qpn", 0);
	uint64_t psn = wire_u64(line, "psn", UINT64_MAX);
	struct qp *qp;

	if (i >= s->e.nqps || qpn < 2 || qpn > ROCE_QPN_MASK || psn > ROCE_PSN_MASK)
		return false;
	qp = &s->e.qps[i];
	engine_connect(&s->e, qp, (uint32_t)qpn);
	qp->rsp.epsn = (uint32_t)psn;
	qp->req.peer_rkey = (uint32_t)wire_u64(line, "rkey", 0);
	qp->req.peer_va = wire_u64(line, "va", 0);
	return true;
}

/* Reads the other end's QPs up to "ready". */
bool wireup_take_qps(struct session *s, char err[256])
{
	for (;;) {
		const char *line = wire_wait(&s->w, STEP_NS);

		if (line == NULL || wire_is(line, "refuse")) {
			const char *why = line != NULL ? wire_rest(line, "why") : NULL;

			snprintf(err, 256, "%s", why != NULL ? why : "the other end says nothing");
			return false;
		}
		if (wire_is(line, "ready"))
			return true;
		if (wire_is(line, "qp") && !take_qp(s, line)) {
			snprintf(err, 256, "unsound line from the other end: %.100s", line);
			return false;
		}
	}
}

int wireup_find_peer(struct session *s, char err[256])
{
	uint8_t mac[6];
	int r = route_next_hop(s->e.port.ifindex, &s->opt.addr, &s->opt.peer, mac);

	if (r != 0) {
		snprintf(err, 256, "next hop to the other end: %s", strerror(-r));
		return r;
	}
	port_set_peer_mac(&s->e.port, mac, !ip_addr_is4(&s->opt.peer));
	return 0;
}
