/* SPDX-License-Identifier: Apache-2.0 */
/* opt.h - what the command line asks for. The client's wishes for the test travel to the server (wire.h). */
#ifndef RCPERF_OPT_H
#define RCPERF_OPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan.h"
#include "proxy/roce/roce.h"

enum opt_limits {
	QPS_MAX = 4096,
	DEPTH_MAX = 8192,
	SIZE_MAX_BYTES = 64 << 20,
	RD_ATOMIC_MAX = 128,
	RETRY_INFINITE = 7, /* rnr_retry: as in IBTA */
};

#define PSN_RANDOM UINT32_MAX
#define QPN_RANDOM 0

struct opt {
	bool server;
	const char *dev;
	struct ip_addr addr, peer;
	struct ip_addr ctl, ctl_from; /* of the TCP connection: the server's and the client's */
	uint16_t ctl_port;
	/* the test: the client's values count at both ends */
	enum plan_kind kind;
	uint32_t size, depth, qps, mtu, rd_atomic;
	uint64_t secs_ns, iters; /* iters per QP; 0: run for secs_ns */
	bool bidir, cm;
	uint64_t seed;
	/* each end for itself */
	uint32_t qpn, psn;
	uint32_t retry, rnr_retry;
	uint64_t timeout_ns;
	bool adaptive_retrans;
	double dcqcn_bps; /* rate of a NIC that obeys CNPs; 0: ignore them */
	uint32_t recv_depth;
	uint64_t rnr_timer_ns;
	uint64_t every_ns;                /* between messages of a QP; 0: as soon as there is room */
	uint64_t freeze_ns, freeze_after; /* no receives posted for freeze_ns after so many messages */
	uint64_t hang_ns, hang_after_ns;  /* the whole endpoint stands still for hang_ns */
	uint32_t pfc; /* 1 + the priority whose pauses are honoured; 0: none are */
	double drop;
	double rate_bps; /* 0: as fast as it goes */
	double warmup;   /* share of the run that is not measured */
	uint64_t drain_ns, interval_ns;
	uint32_t ring_bytes;
	uint8_t tos, ttl;
	/* lies, to see that they are found: message numbers, -1 for none */
	int64_t bad_rkey_at, bad_byte_at;
	const char *times; /* file for when each message was due and done; NULL: none */
	bool json, once, quiet;
};

/* Fills o from the command line. Says on stderr what is wrong with it; then false. */
bool opt_parse(struct opt *o, int argc, char **argv);
void opt_usage(FILE *out);

#endif
