/* SPDX-License-Identifier: Apache-2.0 */
/* wan_receive.c - takes a datagram of the peer apart.
 *
 * Theory of operation
 *
 * A datagram is taken once: its number is noted, and a second one with it is dropped. If a packet in the datagram found
 * no room, the number is not noted but named in a REFUSED, and the whole datagram may come again: all its contents are
 * harmless when taken twice. Every datagram asks for a report unless it holds only reports and frames that are never
 * repaired; the report goes after REPORT_EVERY datagrams or a part of the round trip. */
#include "wan_lane_priv.h"

#include "wan_fec.h"
#include "proxy/wan/dgram/wan_units.h"

#define REPORT_EVERY 128 /* 23 us of 400 Gbit/s, and 0.8 % of its datagrams */

bool wan_piece_take(struct proxy *p, uint32_t slot, const struct wan_packet *w)
{
	struct slot_meta *m = arena_meta(p->arena, slot);
	uint64_t mask[2];

	memcpy(arena_data(p->arena, slot) + w->offset, w->data, w->len);
	units_mask(w->offset / PIECE_UNIT, units_of(w->len), mask);
	m->units[0] |= mask[0];
	m->units[1] |= mask[1];
	return units_all(m->units, units_of(w->total));
}

/* False: refused. */
static bool on_packet(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	const struct wan_source *source;
	struct wan_packet w;

	if (!wan_packet_get(f, &w)) {
		drop(p, DROP_WAN_BAD_FRAME);
		return true;
	}
	source = p->wan->transport.of_packet[w.kind];
	return !source || source->on_packet(p, l, &w);
}

static bool on_frame_of_source(struct proxy *p, struct lane *l, const struct wan_frame *f)
{
	const struct wan_source *source = f->type < WAN_FRAME_TYPES_MAX ? p->wan->transport.taker[f->type] : NULL;

	if (source)
		return source->on_frame(p, l, f);
	drop(p, DROP_WAN_UNKNOWN_FRAME);
	return true;
}

/* Control frames. False: malformed. */
static bool on_control(struct proxy *p, struct lane *l, struct pn_space *s, const struct wan_frame *f)
{
	union {
		struct wan_lane_credit credit;
		struct wan_report lane_report;
		uint64_t pn;
	} u;
	bool ok = true;

	switch (f->type) {
	case WF_LANE_CREDIT:
		if ((ok = wan_lane_credit_get(f, &u.credit))) {
			l->window_bytes = u.credit.window_bytes;
			l->flow_initial_bytes = u.credit.flow_initial_bytes;
			wan_lane_schedule(p, l);
		}
		break;
	case WF_REPORT:
		if ((ok = wan_report_get(f, &u.lane_report)))
			wan_on_report(p, l, s, &u.lane_report);
		break;
	case WF_REFUSED:
		if ((ok = wan_report_get(f, &u.lane_report)))
			wan_on_refused(p, l, s, &u.lane_report);
		break;
	case WF_PROBE:
		if ((ok = wan_probe_get(f, &u.pn))) {
			wan_recv_probe(&s->recv, u.pn, p->now_ns);
			s->report_due = true;
			wan_lane_schedule(p, l);
		}
		break;
	case WF_REBUILT:
		ok = wan_on_rebuilt(p, l, s, f);
		break;
	case WF_ARRIVALS:
		ok = wan_fec_on_arrivals(p, s, f);
		break;
	case WF_PING:
	case WF_PAD:
		break;
	default:
		ok = on_frame_of_source(p, l, f);
		break;
	}
	return ok;
}

static void ask_for_report(struct proxy *p, struct lane *l, struct pn_space *s)
{
	if (s->recv.unreported >= REPORT_EVERY) {
		s->report_due = true;
		wan_lane_schedule(p, l);
	} else if (s->recv.unreported) {
		wan_lane_wake_at(p, l, s->recv.first_unreported_ns + wan_report_delay(&p->wan->path[s->path]));
	}
}

/* Frames that ask for no report: reports, frames that go with them, and frames that are never repaired. */
#define QUIET (1ull << WF_REPORT | 1ull << WF_REFUSED | 1ull << WF_FEC | 1ull << WF_REBUILT | 1ull << WF_ARRIVALS)

static bool is_quiet(const struct proxy *p, uint8_t type)
{
	return type < WAN_FRAME_TYPES_MAX && (QUIET | p->wan->transport.frames_quiet) >> type & 1;
}

struct taken {
	bool wants_report, refused;
	enum proxy_drop d;
};

static void take_frames(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *frames, size_t len,
                        bool rebuilt, struct taken *t)
{
	struct pn_space *s = &l->space[h->path];
	size_t off = 0;
	struct wan_frame f;
	int more;

	while ((more = wan_frame_next(frames, len, &off, &f)) > 0) {
		bool ok = true;

		work_done(p, 1);
		t->wants_report |= !is_quiet(p, f.type);
		if (f.type == WF_PACKET)
			t->refused |= !on_packet(p, l, &f);
		else if (f.type == WF_FEC) /* repairs are in no group */
			ok = !rebuilt && wan_fec_on_repair(p, l, s, h, &f, &t->wants_report);
		else
			ok = on_control(p, l, s, &f);
		if (!ok)
			t->d = drop(p, DROP_WAN_BAD_FRAME);
	}
	if (more < 0)
		t->d = drop(p, DROP_WAN_TRUNCATED);
}

static void note_order(struct wan_path_stats *st, const struct pn_space *s, uint64_t pn)
{
	if (pn >= s->recv.next)
		return;
	st->reordered++;
	st->reorder_most = max_u64(st->reorder_most, s->recv.next - 1 - pn);
}

/* A datagram that was not seen before. */
static enum proxy_drop take_datagram(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *frames,
                                     size_t len, bool rebuilt)
{
	struct pn_space *s = &l->space[h->path];
	struct taken t = {.d = DROP_NONE};

	if (!rebuilt) /* else it is kept already */
		wan_fec_came(p, s, h, frames, len);
	take_frames(p, l, h, frames, len, rebuilt, &t);
	if (t.refused) {
		drop(p, DROP_WAN_NO_ROOM);
		s->report_due |= wan_recv_refuse(&s->recv, h->wan_pn);
		wan_lane_schedule(p, l);
		return DROP_WAN_NO_ROOM;
	}
	if (rebuilt) {
		wan_recv_mark_rebuilt(&s->recv, h->wan_pn, p->now_ns, t.wants_report);
	} else {
		note_order(&p->wan->path[h->path].stats, s, h->wan_pn);
		wan_recv_mark(&s->recv, h->wan_pn, p->now_ns, t.wants_report);
	}
	ask_for_report(p, l, s);
	return t.d;
}

enum proxy_drop wan_lane_rx(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *dgram, size_t len,
                            uint8_t ecn)
{
	struct pn_space *s = &l->space[h->path];
	bool seen = wan_recv_seen(&s->recv, h->wan_pn);

	if (!seen)
		wan_ecn_came(&s->recv.ecn, ecn);
	wan_arrivals_note(&s->arrivals, h->wan_pn);
	if (seen)
		return drop(p, DROP_WAN_DUPLICATE);
	return take_datagram(p, l, h, dgram + WAN_HDR_LEN, len - WAN_HDR_LEN, false);
}

enum proxy_drop wan_lane_rx_rebuilt(struct proxy *p, struct lane *l, const struct wan_hdr *h, const uint8_t *frames,
                                    size_t len)
{
	if (wan_recv_seen(&l->space[h->path].recv, h->wan_pn))
		return drop(p, DROP_WAN_DUPLICATE);
	return take_datagram(p, l, h, frames, len, true);
}
