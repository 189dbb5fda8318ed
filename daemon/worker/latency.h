/* SPDX-License-Identifier: Apache-2.0 */
/* latency.h - how long requests take on their way through the edges: histograms, of samples.
 *
 * Theory of operation
 *
 * One request at a time is followed at each side of a worker: at the near side a SEND or WRITE with AckReq from a host,
 * at the far side a packet that came over the WAN. The flow it belongs to is looked at again until the request is
 * acknowledged and delivered; a look costs a lookup of the flow. The longer a request has taken, the rarer the looks,
 * so that the error is at most 1/64. A new request is followed a millisecond after the last one at the earliest.
 *
 * The next request that comes while none is followed is chosen, so a flow's share of the samples is its share of the
 * requests. A flow that ends meanwhile leaves no sample; a request that takes longer than LATENCY_MOST_NS counts above
 * all bounds. */
#ifndef DAEMON_LATENCY_H
#define DAEMON_LATENCY_H

#include "flow_trace.h"

#define LATENCY_MOST_NS  10000000000ull
#define LATENCY_EVERY_NS 1000000ull
#define LATENCY_AGAIN_NS 20000ull /* wait after a packet that cannot be followed: not each packet is parsed */

/* X(enumerator, printed name, what ends then; all of them begin as the frame came, or the packet was whole) */
#define LATENCIES(X)                                                                                                   \
	X(ACKED, "acked", "the ACK of a request from a host leaves for that host")                                     \
	X(DELIVERED, "delivered",                                                                                      \
	  "the other edge has reported that the responder has a request from a host; the request leaves the outward "  \
	  "buffer")                                                                                                    \
	X(INWARD, "inward",                                                                                            \
	  "a responder here has a request that came over the WAN; the request leaves the inward buffer")

#define X(e, name, text) LATENCY_##e,
enum latency { LATENCIES(X) LATENCY_COUNT };
#undef X

const char *latency_name(enum latency l);

/* Upper bounds, nanoseconds. */
#define LATENCY_BOUNDS(X)                                                                                              \
	X(10000) X(20000) X(50000) X(100000) X(200000) X(500000) X(1000000) X(2000000) X(5000000) X(10000000)          \
	X(20000000) X(50000000) X(100000000) X(200000000) X(500000000) X(1000000000) X(2000000000) X(5000000000)

#define X(bound) +1
enum { LATENCY_BOUND_COUNT = 0 LATENCY_BOUNDS(X) };
#undef X

extern const uint64_t latency_bounds_ns[LATENCY_BOUND_COUNT];

struct latency_histogram {
	uint64_t n[LATENCY_BOUND_COUNT + 1]; /* by bound, the last: above all of them */
	uint64_t sum_ns;
};

struct latencies {
	struct latency_histogram of[LATENCY_COUNT];
};

void latencies_add(struct latencies *sum, const struct latencies *l);
uint64_t latency_count(const struct latency_histogram *h);

/* A request that is followed. */
struct latency_probe {
	bool on;
	bool arrives; /* far: waits for the flow's next packet, which is followed then */
	unsigned waits_for; /* bits of enum latency */
	struct flow_key key;
	uint32_t inc;
	uint64_t pos;
	uint64_t began_ns;
	uint64_t look_ns; /* the next look */
};

struct latency_sampler {
	struct latencies sums;
	struct latency_probe side[2]; /* by enum flow_side */
	uint64_t next_ns[2];          /* a new one is begun then at the earliest */
};

static inline bool latency_wants(const struct latency_sampler *s, enum flow_side side, uint64_t now_ns)
{
	return !s->side[side].on && now_ns >= s->next_ns[side];
}

static inline bool latency_follows(const struct latency_sampler *s)
{
	return s->side[FLOW_NEAR].on || s->side[FLOW_FAR].on;
}

/* The core has taken a packet of a host. Call only if latency_wants(FLOW_NEAR). True: the packet is followed, with now
 * as its arrival; a caller that knows the arrival sets side[FLOW_NEAR].began_ns. */
bool latency_request(struct latency_sampler *s, struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len,
                     uint16_t vlan_tci);
/* A packet leaves for a host. Call only if latency_wants(FLOW_FAR). */
void latency_outgoing(struct latency_sampler *s, struct proxy *p, uint64_t now_ns, const struct lan_tx *tx);
/* Call once a turn, after sending, if latency_follows(). */
void latency_look(struct latency_sampler *s, struct proxy *p, uint64_t now_ns);

#endif
