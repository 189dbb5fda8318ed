/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - a model sender with always something to send, over a bottleneck that several share.
 *
 *     flow 0 --\                                    /--> its receiver: acknowledges each packet, or bunches as an edge
 * does flow 1 ---- link (rate, queue, delay, loss) ------> ...
 *     ...    --/                                    \--> ...        acknowledgements are never lost
 *
 * Who sends and who receives may be threads that are woken late (struct flow_worker): what comes meanwhile waits for
 * them.
 *
 * The transport is the same for all: packets are numbered and never sent again under the same number; one is lost when
 * one that was sent three later has arrived (the link keeps order), or by timeout. What differs is the congestion
 * control, a row of functions; that of longreach is proxy/wan/cc/rate_auto.c itself, behind its own pacer. */
#ifndef SIM_FLOW_H
#define SIM_FLOW_H

#include "eventq.h"
#include "link.h"
#include "proxy/wan/cc/wan_pacer.h"
#include "rng.h"

#define FLOW_PKT_BYTES 8972u
#define FLOW_OVERHEAD  66u
#define FLOW_WIRE      (FLOW_PKT_BYTES + FLOW_OVERHEAD)
#define FLOW_RING      (1u << 17) /* numbers in flight, at most */
#define FLOW_MARKED    (1ull << 63) /* CE */
#define FLOWS_RUN_MAX  4

struct flow;

struct flow_cc {
	const char *name;
	uint32_t ack_every; /* packets to an acknowledgement ... */
	bool ack_waits;     /* ... or a sixteenth of the round trip */
	bool ecn;           /* routers may mark, and marks are obeyed */
	void (*start)(struct flow *f);
	/* True: one may go now. Else *when_ns: look again then, SIM_NEVER: with the next acknowledgement. */
	bool (*may_send)(struct flow *f, uint64_t *when_ns);
	void (*on_sent)(struct flow *f, uint64_t seq);
	void (*on_acked)(struct flow *f, uint64_t seq, uint64_t rtt_ns);
	void (*on_lost)(struct flow *f, uint64_t seq);
	void (*on_told)(struct flow *f, uint64_t rtt_ns); /* all of an acknowledgement was worked off */
	void (*on_timeout)(struct flow *f);
};

extern const struct flow_cc flow_auto, flow_cubic, flow_bbr;

enum flow_fate { FLOW_OUT, FLOW_ACKED, FLOW_LOST };

struct flow_sent {
	uint64_t sent_ns, delivered, delivered_ns;
	struct rate_mark mark;
	enum flow_fate fate;
};

struct cubic {
	double cwnd, ssthresh, w_max, k, reno; /* packets */
	uint64_t epoch_ns, recover;
};

struct bbr {
	double bw[10], found, full, pace, hold; /* packets per ns: of the last ten rounds */
	uint64_t round, round_end, min_rtt_ns, min_rtt_at_ns, phase_ns, next_ns, probe_until_ns;
	uint32_t phase, flat;
	bool filled, drained;
};

/* How late a thread is woken: a little each time, and by chance now and then by much, evenly on a logarithmic scale. */
struct flow_lateness {
	uint64_t usual_ns; /* up to that; 0: never late at all */
	double share;      /* of the wakings that are later: */
	uint64_t least_ns, most_ns;
};

/* It is awake for no time, and sleeps until something comes. */
struct flow_worker {
	struct flow_lateness lateness;
	struct rng rng;
	uint64_t wakes_ns; /* woken already, and not awake before then */
};

struct flow {
	const struct flow_cc *cc;
	struct eventq *q;
	struct link *link;
	uint8_t id;
	uint64_t back_ns, rtt_ns; /* way back; without queue */
	uint64_t ceiling_bps;
	uint64_t next, floor, highest; /* numbers: next; all below are acked or lost; acked */
	uint64_t in_flight;            /* packets */
	uint64_t delivered, delivered_ns, lost;
	uint64_t srtt_ns;
	struct flow_sent *sent;
	uint64_t *arrived; /* ring of numbers, in order of arrival, with FLOW_MARKED */
	uint64_t narrived, ntold, marked;
	uint64_t marks; /* that the acknowledgement tells of which is being worked off */
	struct evtimer wake, timeout, report;
	struct flow_worker sender, receiver;
	uint32_t burst_ns; /* that the pacer saves up */
	union {
		struct cubic cubic;
		struct bbr bbr;
		struct {
			struct wan_pacer pacer;
			struct rate_pick pick;
		} lr;
	};
};

/* What it is before flow_start(). */
struct flow_cfg {
	uint8_t id;
	const struct flow_cc *cc;
	uint64_t ceiling_bps;
	struct flow_lateness lateness; /* of each of its ends */
	uint32_t burst_ns;             /* that longreach's pacer saves up */
	uint64_t seed;
};

void flow_start(struct flow *f, const struct flow_cfg *cfg, struct eventq *q, struct link *link);
/* A packet of it has crossed; takes it. */
void flow_arrived(struct flow *f, struct pkt *p);
void flow_end(struct flow *f);

static inline uint8_t flow_of_pkt(const struct pkt *p)
{
	return p->data[8];
}

static inline struct flow_sent *flow_entry(struct flow *f, uint64_t seq)
{
	return &f->sent[seq % FLOW_RING];
}

#endif
