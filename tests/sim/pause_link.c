/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * A peer sends back to back into a receiver that has just stopped emptying its buffer. The frame that crosses XOFF
 * makes the receiver say pause, and everybody is as late as the standards allow: the receiver has that moment begun its
 * largest frame, the peer takes all the quanta of 802.3 to stop, and has just then begun its largest frame. Time is in
 * picoseconds, in which a byte is a whole number at every rate here, so nothing is rounded. Nothing of the library's
 * formula is used but what the link is made of: the delay of a device and the peer's quanta.
 *
 * "Just then" is what makes it the worst case: the boundaries between the peer's frames must lie right before the
 * moment at which it stops. So one frame of the stream is of another size, and every size is tried; and the receiver's
 * own frame has every length of a span. With cells of 21 bytes and frames of 21 n - 20, a frame takes as many bytes of
 * the buffer as it takes of the wire, gap included, so that even a byte too few can show.
 *
 * Then the same schedule meets a buffer with 5 % of the propagation term less, and a frame must be lost. */
#include "pause_link.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "headroom/headroom.h"

#define PS_PER_S       1000000000000ull
#define FIBRE_PS_PER_M 5000ull
#define WIRE_EXTRA     20u /* preamble and gap */
#define PAUSE_WIRE     84u
#define CELL           21u
#define LOSSLESS_MTU   4075u /* 21 x 195 - 20 */
#define PORT_MTU       9000u
#define MTUS           21u /* as many as a cell has bytes: one of them is the worst */
#define FRAME_MIN      64u

struct stream {
	uint32_t first, rest; /* frame sizes: of the one after the crossing frame, and of all others */
};

struct link {
	uint64_t byte_ps, fibre_ps, device_ps, peer_ps;
	uint32_t own_frame, crossing; /* sizes */
	uint32_t cell;
	uint64_t xoff, size; /* fills */
};

struct outcome {
	uint64_t lost, most; /* frames; the largest fill there would have been */
};

static uint64_t in_cells(uint64_t bytes, uint32_t cell)
{
	return (bytes + cell - 1) / cell * cell;
}

static uint32_t size_of(const struct stream *s, const struct link *l, uint64_t i)
{
	return i == 0 ? l->crossing : i == 1 ? s->first : s->rest;
}

/* A frame's last byte is in. */
static void take(const struct link *l, uint32_t bytes, uint64_t *fill, struct outcome *o)
{
	uint64_t used = in_cells(bytes, l->cell);

	o->most += used;
	if (*fill + used > l->size)
		o->lost++;
	else
		*fill += used;
}

/* From the moment at which the crossing frame (number 0) leaves the peer until the last frame is in. */
static struct outcome run(const struct link *l, const struct stream *s)
{
	uint64_t way_ps = l->fibre_ps + l->device_ps, begin_ps = 0, end_ps = 0, stop_ps = UINT64_MAX;
	uint64_t fill = l->xoff - 1, begun = 0, arrived = 0;
	struct outcome o = {.most = fill};

	for (;;) {
		uint64_t arrives_ps = arrived < begun
		                          ? end_ps + (size_of(s, l, arrived) + WIRE_EXTRA) * l->byte_ps + way_ps
		                          : UINT64_MAX;

		if (begin_ps < stop_ps && begin_ps <= arrives_ps) { /* the peer begins a frame */
			begin_ps += (size_of(s, l, begun++) + WIRE_EXTRA) * l->byte_ps;
			continue;
		}
		if (arrived == begun)
			return o;
		end_ps += (size_of(s, l, arrived) + WIRE_EXTRA) * l->byte_ps;
		take(l, size_of(s, l, arrived++), &fill, &o);
		if (stop_ps == UINT64_MAX && o.most >= l->xoff)
			stop_ps = arrives_ps + (l->own_frame + WIRE_EXTRA + PAUSE_WIRE) * l->byte_ps + way_ps +
			          l->peer_ps;
	}
}

static uint64_t term(const struct headroom_result *r, const char *name)
{
	for (unsigned i = 0; i < r->n_terms; i++)
		if (strcmp(r->terms[i].name, name) == 0)
			return (uint64_t)r->terms[i].value;
	return 0;
}

static bool make_link(const struct headroom_in *in, struct link *l, struct headroom_result *r)
{
	char why[HEADROOM_ERROR_MAX];

	if (headroom_compute(HEADROOM_PHYSICS, in, r, why) < 0) {
		printf("FAIL %s\n", why);
		return false;
	}
	*l = (struct link){
	    .byte_ps = 8 * PS_PER_S / in->rate_bps,
	    .fibre_ps = in->length_m * FIBRE_PS_PER_M,
	    .own_frame = in->port_mtu,
	    .crossing = in->lossless_mtu,
	    .cell = in->cell_bytes,
	    .xoff = r->xoff_fill_bytes,
	    .size = r->size,
	};
	l->device_ps = term(r, "mac_phy") / 2 * l->byte_ps;
	l->peer_ps = term(r, "peer_response") * l->byte_ps;
	return true;
}

struct verdict {
	bool ok;
	uint64_t slack, propagation, short_bytes, lost; /* lost: of the short buffer */
};

/* The computed headroom holds under every schedule, and the worst one overruns what is 5 % short. */
static struct verdict judge(struct headroom_in in)
{
	struct verdict v = {.slack = UINT64_MAX};
	struct headroom_result r;
	struct stream worst = {0, 0};
	struct link l, worst_link = {0};

	for (uint32_t mtu = PORT_MTU; mtu < PORT_MTU + MTUS; mtu++) {
		in.port_mtu = mtu;
		if (!make_link(&in, &l, &r))
			return v;
		for (uint32_t size = 4 * CELL - WIRE_EXTRA; size <= in.lossless_mtu; size += CELL) {
			struct stream s = {size, in.lossless_mtu};
			struct outcome o = run(&l, &s);

			if (o.lost > 0) {
				v.slack = 0;
				return v;
			}
			if (l.size - o.most < v.slack) {
				v.slack = l.size - o.most;
				v.propagation = term(&r, "propagation");
				worst = s;
				worst_link = l;
			}
		}
	}
	v.short_bytes = (v.propagation * 5 + 99) / 100;
	worst_link.size -= v.short_bytes;
	v.lost = run(&worst_link, &worst).lost;
	v.ok = v.lost > 0;
	return v;
}

/* The other extreme: nothing but 64-byte packets, each in a whole cell of 192. */
static bool small_packets_fit(struct headroom_in in)
{
	struct stream s = {FRAME_MIN, FRAME_MIN};
	struct headroom_result r;
	struct link l;

	in.port_mtu = PORT_MTU;
	in.small_percent = 100;
	in.cell_bytes = 192;
	return make_link(&in, &l, &r) && run(&l, &s).lost == 0;
}

static bool one_row(uint64_t length_m, uint64_t rate_bps)
{
	struct headroom_in in;
	struct verdict v;
	bool small;

	headroom_defaults(&in);
	in.length_m = length_m;
	in.rate_bps = rate_bps;
	in.lossless_mtu = LOSSLESS_MTU;
	in.small_percent = 0;
	in.cell_bytes = CELL;
	v = judge(in);
	small = small_packets_fit(in);
	printf("%-4s %6" PRIu64 " m %4" PRIu64 " G  propagation %9" PRIu64 " B, spare in the worst case %3" PRIu64
	       " B; %7" PRIu64 " B less: %" PRIu64 " lost%s\n",
	       v.ok && small ? "ok" : "FAIL", length_m, rate_bps / 1000000000, v.propagation, v.slack, v.short_bytes,
	       v.lost, small ? "" : "; 64-byte packets lost");
	return v.ok && small;
}

int pause_link_run(void)
{
	static const uint64_t lengths_m[] = {5, 20, 40, 100, 300, 1000, 2000, 10000};
	static const uint64_t rates_gbps[] = {10, 25, 40, 50, 100, 200, 400, 800};
	unsigned failed = 0;

	for (size_t i = 0; i < sizeof(lengths_m) / sizeof(lengths_m[0]); i++)
		for (size_t k = 0; k < sizeof(rates_gbps) / sizeof(rates_gbps[0]); k++)
			failed += !one_row(lengths_m[i], rates_gbps[k] * 1000000000);
	printf("%u failed\n", failed);
	return failed > 0;
}
