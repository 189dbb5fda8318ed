/* SPDX-License-Identifier: Apache-2.0 */
/* headroom.h - how much buffer a lossless Ethernet link needs, and why.
 *
 * A receiver that is about to run out of buffer sends a pause frame (XOFF) and goes on receiving until the sender has
 * stopped and the bytes under way have arrived. The bytes that arrive in that time are the headroom. This library
 * computes it:
 *
 *	struct headroom_in in;
 *	struct headroom_result r;
 *	struct headroom_plan plan;
 *	char why[HEADROOM_ERROR_MAX];
 *
 *	headroom_defaults(&in);
 *	in.length_m = 40;
 *	in.rate_bps = 400000000000;
 *	if (headroom_compute(HEADROOM_PHYSICS, &in, &r, why) < 0)
 *		... why is a sentence ...
 *	headroom_plan(&in, &plan);
 *
 * Pure arithmetic: no system call, no clock, no allocation. Seven models give the same kind of answer; one follows
 * physics and the standards, five follow a vendor's code to the byte, with that code's rounding, and one a vendor's
 * tables. */
#ifndef HEADROOM_HEADROOM_H
#define HEADROOM_HEADROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEADROOM_PRIORITIES 8   /* 802.1Q */
#define HEADROOM_TERMS_MAX  16  /* the longest model has 11 */
#define HEADROOM_ERROR_MAX  256 /* a sentence */
#define HEADROOM_EVENTS_MAX 8

/* Accepted ranges: wide enough for any fibre on earth, narrow enough for 64 bits. */
#define HEADROOM_LENGTH_MAX_M 40000000ull       /* once around the earth */
#define HEADROOM_RTT_MAX_NS   10000000000ull    /* 10 s */
#define HEADROOM_RATE_MIN_BPS 1000000ull        /* 1M */
#define HEADROOM_RATE_MAX_BPS 10000000000000ull /* 10T */
#define HEADROOM_MTU_MIN      64u
#define HEADROOM_MTU_MAX      65535u
#define HEADROOM_DELAY_MAX_NS 1000000000ull /* of a gearbox or transponder */
#define HEADROOM_CELL_MAX     16384u
#define HEADROOM_MACSEC_MAX   1024u
#define HEADROOM_QUANTA_MAX   65535u /* the pause frame's field is 16 bits */
#define HEADROOM_PORTS_MAX    512u
#define HEADROOM_BUFFER_MAX   (1ull << 48)

enum headroom_model {
	HEADROOM_PHYSICS,
	HEADROOM_SONIC_MELLANOX,
	HEADROOM_SONIC_BAREFOOT,
	HEADROOM_ANNEX_O,
	HEADROOM_MLX5,
	HEADROOM_MLX5_NEXT,
	HEADROOM_SONIC_BROADCOM,
	HEADROOM_MODELS,
};

enum headroom_medium {
	HEADROOM_OPTICAL,
	HEADROOM_COPPER,
};

/* A switch ASIC or a NIC, by its vendor's tables. */
struct headroom_asic {
	const char *name;
	unsigned generation; /* Spectrum-N; 0 for others */
	uint32_t cell_bytes;
	double pipeline_kib; /* latency of its pipeline, as bytes at line rate */
	double mac_phy_kib;
	double peer_kib;           /* peer's response where no pause quanta are known for the rate */
	uint64_t port_max_bytes;   /* of headroom on one port; 0: not published */
	bool max_of_chip;          /* port_max_bytes is shared by all ports */
	uint64_t memory_bytes;     /* the whole packet memory; 0: not published */
	uint64_t port_max_bps;     /* rate of its fastest port; 0: not in this table */
	enum headroom_model model; /* whose tables these are */
};

struct headroom_priority {
	uint8_t number;        /* 0..7 */
	uint32_t lossless_mtu; /* of this priority; 0: that of the link */
};

/* Zero means "the model's own default" wherever it says so. */
struct headroom_in {
	uint64_t length_m;
	uint64_t rtt_ns;         /* measured, there and back; not 0: used instead of length_m */
	uint64_t rate_bps;       /* of the line, or of the shaper in front of it */
	uint64_t drain_bps;      /* at which the receiver empties; 0: rate_bps */
	uint32_t port_mtu;       /* largest frame of any priority */
	uint32_t lossless_mtu;   /* largest frame of the lossless priority; 0: default */
	int small_percent;       /* of 64-byte packets, by count, 0..100; -1: default */
	uint32_t cell_bytes;     /* allocation unit of the buffer; 0: the ASIC's */
	unsigned lanes;          /* of the port */
	uint64_t gearbox_ns;     /* one gearbox, passed once in each direction */
	uint64_t transponder_ns; /* FEC, OTN framing, both ends together, one way */
	uint32_t macsec_bytes;   /* SecTAG and ICV, per frame */
	uint32_t peer_quanta;    /* response time of the peer, 512 bits each; 0: 802.3's for the rate */
	bool pool;               /* headroom comes from a shared pool */
	bool compensation;       /* sonic-mellanox: the 2 KiB added since July 2026 without a pool */
	enum headroom_medium medium;
	const struct headroom_asic *asic; /* NULL: the model's */
	uint64_t buffer_bytes;            /* mlx5: of the lossless buffer; 0: twice the headroom */
	struct headroom_priority priorities[HEADROOM_PRIORITIES];
	unsigned n_priorities;
	unsigned ports;         /* that share the pool, or the headroom of a chip */
	unsigned oversubscribe; /* the pool is the sum over this; 1: none */
};

enum headroom_unit {
	HEADROOM_BYTES,  /* adds to the headroom before a factor */
	HEADROOM_FACTOR, /* multiplies */
	HEADROOM_NOTE,   /* bytes, shown and not added */
};

struct headroom_term {
	const char *name;   /* stable, for machines: lower case, underscores */
	const char *source; /* where the number or its formula is from, and what it is */
	double value;
	enum headroom_unit unit;
};

/* "XOFF" has three meanings in use; each has its field here, with one value for all models:
 *
 *	headroom_bytes       SONiC's xoff: the room above the threshold
 *	xoff_fill_bytes      mlx5's and NX-OS's: the fill of the whole buffer at which XOFF is sent
 *	xoff_reserved_bytes  Cumulus's: the fill of the priority's own reserved buffer at which XOFF is sent (a shared
 *pool is not counted)
 *
 * and so has XON: xon_fill_bytes is a fill (SONiC, mlx5, NX-OS), xon_delta_bytes the distance below XOFF (Cumulus).
 * xon, xoff and size are those of the model's source, in the source's own meaning. */
struct headroom_result {
	enum headroom_model model;
	uint64_t xon, xoff, size;
	uint64_t headroom_bytes;
	uint64_t xoff_fill_bytes;
	uint64_t xoff_reserved_bytes;
	uint64_t xon_fill_bytes;
	uint64_t xon_delta_bytes;
	uint64_t reserved_bytes;   /* buffer that is the priority's own */
	int threshold;             /* SONiC's dynamic_th: XOFF at 2^threshold times what is free of the pool */
	uint64_t xon_offset_bytes; /* SONiC's xon_offset; 0: the model has none */
	const char *warning;       /* a sentence: why these numbers should not be used as they are; NULL: none */
	struct headroom_term terms[HEADROOM_TERMS_MAX];
	unsigned n_terms;
	unsigned unused; /* bits of enum headroom_extra that were given and that this model does not know */
};

/* Inputs that not every model knows. */
enum headroom_extra {
	HEADROOM_X_MACSEC = 1u << 0,
	HEADROOM_X_TRANSPONDER = 1u << 1,
	HEADROOM_X_GEARBOX = 1u << 2,
	HEADROOM_X_QUANTA = 1u << 3,
	HEADROOM_X_SMALL = 1u << 4,
	HEADROOM_X_POOL = 1u << 5,
	HEADROOM_X_DRAIN = 1u << 6,
	HEADROOM_X_BUFFER = 1u << 7,
	HEADROOM_X_LOSSLESS_MTU = 1u << 8,
	HEADROOM_X_MEDIUM = 1u << 9, /* copper */
	HEADROOM_X_ASIC = 1u << 10,  /* the model has no numbers for this ASIC and takes its own */
};

/* One moment on the way from XOFF to silence. */
struct headroom_event {
	const char *what;
	uint64_t at_ns;
	uint64_t arrived_bytes; /* on the wire since the threshold was crossed */
};

struct headroom_priority_plan {
	uint8_t number;
	uint32_t lossless_mtu;
	uint64_t headroom_bytes;
};

/* Results that follow from the link alone, for any model. */
struct headroom_plan {
	uint64_t one_way_ns;            /* fibre, gearbox, transponders */
	uint64_t loop_ns;               /* from the decision for XOFF to the last byte in */
	uint64_t bdp_bytes;             /* rate x round trip */
	uint64_t deep_buffer_bytes;     /* 4 BDP: buffer per direction that a daemon needs which repairs loss */
	uint64_t qps_at_once;           /* busy queue pairs of which each has a packet in such a buffer at any time */
	uint64_t qps_in_turns;          /* busy queue pairs that it serves in turns without hosts sending much in
	                                 * vain */
	uint64_t no_underrun_xon_bytes; /* drain x loop: resume below this and the link starves for a round trip */
	uint64_t pause_ns;              /* a pause of 65535 quanta lasts so long */
	uint64_t refresh_ns;            /* XOFF must be sent again after this */
	uint64_t pauses_in_flight;      /* refreshes that are under way at once; 1 on a short link */
	struct headroom_priority_plan priorities[HEADROOM_PRIORITIES];
	unsigned n_priorities;
	uint64_t port_bytes;  /* sum over the priorities */
	uint64_t pool_bytes;  /* shared by the ports, over-subscribed as asked */
	uint64_t pool_pauses; /* full headrooms that fit into the pool at once */
	struct headroom_event events[HEADROOM_EVENTS_MAX];
	unsigned n_events;
};

/* Whether a device can hold it. A priority needs what the ASIC's model says; where that model ignores a given option,
 * it needs the larger of the model's headroom and that of physics with this option. */
struct headroom_verdict {
	const struct headroom_asic *asic;
	uint64_t limit_bytes;  /* of a port, or of the chip if asic->max_of_chip */
	uint64_t needed_bytes; /* of a port, or of in.ports over in.oversubscribe if asic->max_of_chip */
	uint64_t longest_m;    /* at which it just fits; 0: not even 1 m */
	bool fits;
	bool no_row;         /* the ASIC's table has none for this link: needed_bytes is 0 */
	bool too_fast;       /* no port of the ASIC has this rate: it does not fit, and longest_m is 0 */
	unsigned by_physics; /* bits of enum headroom_extra that the ASIC's model ignores and physics counts */
};

void headroom_defaults(struct headroom_in *in);

/* "physics", "sonic-mellanox"... ; HEADROOM_MODELS if there is no such model. */
enum headroom_model headroom_model_find(const char *name);
const char *headroom_model_name(enum headroom_model model);
const char *headroom_model_source(enum headroom_model model);
/* The ASIC that the model takes if none is given; NULL: none. */
const struct headroom_asic *headroom_model_asic(enum headroom_model model);

/* "spectrum-4", "tofino-2", "82599"...; NULL if unknown. The table ends with a NULL name. */
const struct headroom_asic *headroom_asic_find(const char *name);
const struct headroom_asic *headroom_asics(void);

/* Replaces what means a default by the model's own. Returns the bits of enum headroom_extra that the model knows. */
unsigned headroom_fill_in(enum headroom_model model, struct headroom_in *in);

/* Bits of enum headroom_extra that were given, HEADROOM_X_ASIC excepted. */
unsigned headroom_given(const struct headroom_in *in);

/* 0; -EINVAL: an input is invalid; -ERANGE: the model's source would refuse it. `why` then has a sentence. */
int headroom_compute(enum headroom_model model, const struct headroom_in *in, struct headroom_result *r,
                     char why[HEADROOM_ERROR_MAX]);

/* Headrooms of the priorities are of `model`. As headroom_compute(). */
int headroom_plan_link(enum headroom_model model, const struct headroom_in *in, struct headroom_plan *plan,
                       char why[HEADROOM_ERROR_MAX]);

/* What the lossless priorities of the link take of port_max_bytes, if a port of it takes `port_bytes`: all in.ports
 * share the headroom of a chip that has one for all. */
uint64_t headroom_of_asic(const struct headroom_asic *asic, const struct headroom_in *in, uint64_t port_bytes);

/* With asic->model and physics, as struct headroom_verdict says; asic->port_max_bytes must not be 0. As
 * headroom_compute(). */
int headroom_judge(const struct headroom_asic *asic, const struct headroom_in *in, struct headroom_verdict *v,
                   char why[HEADROOM_ERROR_MAX]);

/* --- the deep buffer of an edge, one direction --- */

#define HEADROOM_DEEP_BDPS 4u /* repairs of repairs are under way at once: 1 % loss still fills the line */

/* Constants of the edges' core: proxy/near/near_turn.c. */
#define HEADROOM_TURN_NS    550000000ull /* in which all hosts that were sent away have their turns */
#define HEADROOM_TURN_BYTES 65536ull     /* a message: less is worth no turn */
#define HEADROOM_SLOT_BYTES 4352ull      /* of a packet with PMTU 4096 */
#define HEADROOM_QPS_PART   16ull        /* of the buffer, half of its reserve, is for one packet of each */

struct headroom_deep_in {
	uint64_t rate_bps, rtt_ns;
	uint64_t capacity_bytes; /* present capacity; 0: wanted_bytes */
	unsigned alpha;          /* a flow may hold so many times what is free */
	unsigned flows;          /* that are held at once, 1 or more */
};

struct headroom_deep {
	uint64_t bdp_bytes;
	uint64_t wanted_bytes; /* HEADROOM_DEEP_BDPS of them */
	uint64_t capacity_bytes;
	uint64_t xoff_bytes;            /* fill at which a flow that is alone is held off */
	uint64_t flow_share_bytes;      /* of each of `flows` when all are held off */
	uint64_t no_underrun_xon_bytes; /* fill that keeps the line busy until a host that was held off is back */
	uint64_t qps_at_once;           /* busy queue pairs of which each has at least a packet here at any time */
	uint64_t qps_in_turns;          /* busy queue pairs of which each gets a message of 64 KiB across between two
	                                 * waits */
	bool fills_the_line;            /* XOFF is not below it */
	bool stands_loss;               /* the capacity is not below what is wanted */
};

/* 0 or -EINVAL, as headroom_compute(). */
int headroom_deep(const struct headroom_deep_in *in, struct headroom_deep *d, char why[HEADROOM_ERROR_MAX]);

/* Busy queue pairs that a buffer of this size serves without turns: each has at least a packet in it. */
uint64_t headroom_qps_at_once(uint64_t capacity_bytes);
/* Busy queue pairs that it serves in turns: an RNR NAK sends a host away for 655 ms at most (IBTA table 45), and with
 * this number each host still gets a message across when it is back. With more, hosts that ignore CNPs send packets in
 * vain. */
uint64_t headroom_qps_in_turns(uint64_t capacity_bytes, uint64_t rate_bps);

/* Default size of an edge's memory for both directions of a link: headroom_deep()'s wanted_bytes for each, and 64 MiB
 * at least. */
uint64_t headroom_deep_arena_bytes(uint64_t rate_bps, uint64_t rtt_ns);

/* Pause quanta within which 802.3 (31B.3.7) requires a port of that rate to stop; 0: the rate is not in the table. */
uint32_t headroom_quanta(uint64_t rate_bps);

/* `longreach headroom ...`; argv[0] is "headroom". Returns the exit status: 0, 1 (not feasible), 2 (usage). */
int headroom_main(int argc, char **argv);

#endif
