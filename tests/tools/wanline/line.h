/* SPDX-License-Identifier: Apache-2.0 */
/* line.h - one direction of the emulated line: what it does to each frame, and when each comes out.
 *
 * Theory of operation. A frame that arrives at time t meets, in this order: the cut (everything is lost), random loss
 * (independent, or in Gilbert bursts), the sender's queue and the serializer of `rate_bps` (`busy_until_ns` is when
 * the bits accepted so far have left), then the fibre: delay, and jitter that never changes the order. A frame chosen
 * for reordering gets an extra delay and waits in a heap of its own, so that those behind it overtake it.
 * Duplicates and flipped bits are made on the fibre: they cost no rate.
 *
 * Frames are copied once, into a ring of bytes, and sent from there. The ring is freed in order of arrival; a
 * reordered frame holds back what came after it, so the ring has room for rate x (delay + jitter + extra).
 *
 * Random draws come from one stream per impairment: with one seed the same frames are lost whether or not some are
 * also reordered. The file reads no clock and makes no system call but for its memory: it is tested in virtual time. */
#ifndef WANLINE_LINE_H
#define WANLINE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/rng.h"

#define LINE_FRAME_MAX   9600u
#define LINE_NEVER       UINT64_MAX
#define LINE_REORDER_MAX 8192u /* frames held back at a time */

struct line_params {
	uint64_t delay_ns;
	uint64_t jitter_ns;   /* uniform in 0..jitter_ns, added */
	uint64_t rate_bps;    /* 0: no limit */
	uint64_t queue_bytes; /* behind the serializer; 0: queue_ns counts */
	uint64_t queue_ns;
	uint64_t reorder_ns;     /* extra delay of a reordered frame */
	double loss, loss_burst; /* share of frames lost; mean length of a run of losses (1: independent) */
	double reorder, dup, corrupt;
	uint64_t overhead_bytes; /* per frame on the wire: preamble, FCS, gap */
};

/* name, what it counts. Those that begin with "emu_" are failures of the emulator, not deeds of the line. */
#define LINE_COUNTERS(X)                                                                                               \
	X(in_frames, "frames that arrived")                                                                            \
	X(in_bytes, "their bytes")                                                                                     \
	X(out_frames, "frames sent out at the other end, duplicates included")                                         \
	X(out_bytes, "their bytes")                                                                                    \
	X(lost_random, "lost at random")                                                                               \
	X(lost_queue, "dropped: the sender's queue was full")                                                          \
	X(lost_cut, "lost because the line was cut")                                                                   \
	X(reordered, "held back so that others overtook them")                                                         \
	X(duplicated, "sent twice")                                                                                    \
	X(corrupted, "sent with one bit flipped")                                                                      \
	X(seen_roce, "RoCEv2 packets as hosts send them: nothing sealed them")                                         \
	X(seen_payload, "frames that hold payload of rcperf: nothing sealed them")                                     \
	X(seen_text, "frames that hold the text of --spy")                                                             \
	X(emu_no_room, "dropped: the emulator's memory was full")                                                      \
	X(emu_oversize, "dropped: longer than a frame may be (offloads left on?)")                                     \
	X(emu_send_errors, "dropped: the kernel refused to send them")                                                 \
	X(emu_ring_drops, "dropped by the kernel: the emulator was too slow to read")

struct line_counters {
#define X(name, help) uint64_t name;
	LINE_COUNTERS(X)
#undef X
};

/* A frame to be taken in: VLAN tag kept apart, as the kernel hands it over (tpid 0: none). */
struct line_frame {
	const uint8_t *data;
	uint32_t len;
	uint16_t vlan_tpid, vlan_tci;
};

struct line_out {
	const uint8_t *data;
	uint32_t len;
	uint64_t due_ns;
};

struct line_desc {
	uint64_t due_ns;
	uint64_t off; /* never wraps; modulo size it is the place in `mem` */
	uint32_t len;
	uint32_t state; /* enum in line.c */
};

struct line_late {
	uint64_t due_ns, seq;
};

struct line {
	struct line_params p;
	struct line_counters n;
	bool cut;
	uint64_t busy_until_ns;
	uint64_t last_due_ns; /* of those in order: jitter and a shortened delay never overtake */
	uint64_t queue_peak_ns;
	bool in_burst;
	struct rng rng_loss, rng_jitter, rng_reorder, rng_dup, rng_corrupt;

	uint8_t *mem;
	uint64_t mem_size, head, tail; /* head, tail never wrap */
	struct line_desc *desc;
	uint64_t desc_count;            /* a power of two */
	uint64_t d_free, d_next, d_end; /* oldest not freed; next in order to be sent; end */
	struct line_late *late;
	uint32_t nlate;
	uint64_t held; /* frames on the line */
};

/* Bytes of ring that these parameters need. */
uint64_t line_mem_needed(const struct line_params *p);

/* 0 or -ENOMEM. */
int line_init(struct line *l, const struct line_params *p, uint64_t mem_size, uint64_t seed);
void line_destroy(struct line *l);

/* Takes in one frame that arrived at at_ns. */
void line_push(struct line *l, uint64_t at_ns, const struct line_frame *f);

/* When the next frame is due, LINE_NEVER if none is held. */
uint64_t line_next_due(const struct line *l);

/* Frames due at now_ns, earliest first, at most max; their data stays valid until line_release(). */
uint32_t line_pop(struct line *l, uint64_t now_ns, struct line_out *out, uint32_t max);
void line_release(struct line *l);

#endif
