/* SPDX-License-Identifier: Apache-2.0 */
/* wan_frame.h - the format of datagrams between two edges.
 *
 * Everything is big-endian. A datagram (UDP payload) is
 *
 *     version(1) lane(1) path(1) flags(1) epoch(4) wan_pn(8) | frame... | tag(16)
 *
 * The header stays in the clear when the link is sealed: it is the AEAD's associated data. wan_seal.h describes the
 * tag. A frame is type(1) flags(1) length(2) and `length` bytes of body, so that a receiver skips types it does not
 * know. Packets are named by (flow id, incarnation, position): a PSN crosses only inside the host's own packet.
 *
 * PACKET and the FLOW frames but FLOW_CLOSE are reliable: the contents of a lost datagram are sent again. REPORT,
 * REFUSED and PROBE are not reliable: newer ones replace them. IP is not reliable: its packets are expendable. */
#ifndef PROXY_WAN_FRAME_H
#define PROXY_WAN_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/counters.h"
#include "proxy/util/limits.h"
#include "proxy/roce/roce.h"
#include "wan_ecn.h"

#define WAN_VERSION          0x4c
#define WAN_HDR_LEN          16
#define WAN_FRAME_HDR_LEN    4
#define WAN_PACKET_BODY_LEN  24 /* body of PACKET without its data */
#define WAN_PACKET_OVERHEAD  (WAN_FRAME_HDR_LEN + WAN_PACKET_BODY_LEN)
#define WAN_FEC_BODY_LEN     16 /* body of FEC without its data */
#define WAN_FEC_OVERHEAD     (WAN_FRAME_HDR_LEN + WAN_FEC_BODY_LEN)
#define WAN_REBUILT_MAX      64 /* packet numbers in one frame */
#define WAN_REPORT_BODY_LEN  32
#define WAN_REPORT_WORDS_MAX 64 /* 4096 packet numbers */

/* Frames of the transport itself. All others belong to its sources (transport.h): flow_frame.h, ip_frame.h,
 * relay_frame.h. */
enum wan_frame_type {
	WF_PACKET = 0x01,
	WF_LANE_CREDIT = 0x06,
	WF_REPORT = 0x10,
	WF_REFUSED = 0x11,
	WF_PROBE = 0x12,
	WF_PING = 0x13,
	WF_FEC = 0x14,
	WF_REBUILT = 0x15,
	WF_ARRIVALS = 0x16,
	WF_PAD = 0x17, /* nothing, of any length */
};

enum wan_hdr_flags {
	WAN_FLAG_PHASE = 0x03,  /* sealed: which key generation */
	WAN_FLAG_FEC = 0x40,    /* member of an erasure group: the receiver keeps it for a while */
	WAN_FLAG_SEALED = 0x80, /* frames and tag are an AEAD's */
};

struct wan_hdr {
	uint8_t lane, path, flags;
	uint32_t epoch;
	uint64_t wan_pn;
};

#define WAN_PACKET_KINDS 4 /* flow_frame.h lists them */

/* PACKET: flow(4) inc(4) pos(8) total(2) offset(2) vlan(2) kind(1) zero(1) data... */
struct wan_packet {
	uint32_t flow; /* as its source names it */
	uint32_t inc;
	uint64_t pos;    /* likewise */
	uint16_t total;  /* L3 bytes of the whole packet, 1..LAN_PKT_MAX */
	uint16_t offset; /* of this piece: a multiple of PIECE_UNIT */
	uint16_t vlan_tci;
	uint8_t kind; /* below WAN_PACKET_KINDS */
	uint16_t len; /* of this piece: a multiple of PIECE_UNIT but for the last one */
	const uint8_t *data;
};

/* LANE_CREDIT, far to near: window(8) flow_initial(4) zero(4) */
struct wan_lane_credit {
	uint64_t window_bytes;       /* slot bytes sent and not settled, of the whole lane */
	uint32_t flow_initial_bytes; /* credit of a flow before its first report */
};

/* REPORT and REFUSED: base(8) largest(8) delay_ns(8) words(2) ect0(3) ce(3) then words x 64 bits; bit i of word w (lsb
 * first) is packet number base + 64 w + i. REPORT: 1 received, 0 not received (so far). REFUSED: 1 refused, 0 says
 * nothing. The frame says nothing about numbers outside: absence never means lost. REPORT: datagrams that came as
 * ECT(0) and as CE, in the session, modulo 2^24 (wan_ecn.h); edges of earlier versions send 0 and read neither. */
struct wan_report {
	uint64_t base;     /* multiple of 64 */
	uint64_t largest;  /* highest number received */
	uint64_t delay_ns; /* between receiving it and sending this */
	uint16_t words;    /* 1..WAN_REPORT_WORDS_MAX */
	struct wan_ecn_counts ecn;
	const uint8_t *bits;
};

/* FEC: base(8) span(2) depth(1) group(1) row(1) rows(1) zero(2) data... A repair datagram; it has no other frame. The
 * group is the numbers of base .. base + span - 1 with (number - base) % depth == group. fec_tx.h */
struct wan_fec {
	uint64_t base;
	uint16_t span;      /* 1..FEC_BLOCK_MAX */
	uint8_t depth;      /* 1..FEC_DEPTH_MAX */
	uint8_t group;      /* < depth */
	uint8_t row, rows;  /* this repair's row, and the number of repairs of the group. row < rows <= FEC_M_MAX */
	uint16_t len;       /* of the longest member */
	const uint8_t *data;
};

/* REBUILT: number(8)... Packet numbers that were lost and that FEC has rebuilt. Each number is told in ARRIVALS_TOLD
 * frames. */
struct wan_rebuilt {
	uint16_t n; /* 1..WAN_REBUILT_MAX */
	const uint8_t *numbers;
};

/* ARRIVALS: numbers(8) lost(8) bursts(8), sums of this session: losses on the line itself, before FEC.
 * wan_arrivals.h */
struct wan_arrivals_frame {
	uint64_t numbers; /* looked at */
	uint64_t lost;    /* of them */
	uint64_t bursts;  /* runs of lost ones */
};

/* Begins a frame with a body of so many bytes; returns where the body goes. NULL: cap is too small. */
uint8_t *wan_frame_begin(uint8_t *buf, size_t cap, uint8_t type, uint8_t flags, size_t body_len);
/* Writers return the bytes written, 0 if `cap` is too small. The readers get a frame's body; false: malformed. */
size_t wan_hdr_put(uint8_t *buf, const struct wan_hdr *h);
enum proxy_drop wan_hdr_get(const uint8_t *buf, size_t len, struct wan_hdr *h);

struct wan_frame {
	uint8_t type, flags;
	uint16_t len;
	const uint8_t *body;
};

/* Steps through the frames: *off starts at WAN_HDR_LEN. 1: f is filled in; 0: end; -1: truncated. */
int wan_frame_next(const uint8_t *buf, size_t len, size_t *off, struct wan_frame *f);

size_t wan_packet_put(uint8_t *buf, size_t cap, const struct wan_packet *p);
/* Writes all of the frame but the packet's bytes: the last p->len bytes of the returned length stay free for these. */
size_t wan_packet_put_head(uint8_t *buf, size_t cap, const struct wan_packet *p);
bool wan_packet_get(const struct wan_frame *f, struct wan_packet *p);
size_t wan_lane_credit_put(uint8_t *buf, size_t cap, const struct wan_lane_credit *c);
bool wan_lane_credit_get(const struct wan_frame *f, struct wan_lane_credit *c);
/* `words` in host order */
size_t wan_report_put(uint8_t *buf, size_t cap, uint8_t type, const struct wan_report *r, const uint64_t *words);
bool wan_report_get(const struct wan_frame *f, struct wan_report *r);
uint64_t wan_report_word(const struct wan_report *r, uint32_t w);
size_t wan_probe_put(uint8_t *buf, size_t cap, uint64_t from_pn);
bool wan_probe_get(const struct wan_frame *f, uint64_t *from_pn);
size_t wan_ping_put(uint8_t *buf, size_t cap);
/* Fills all of cap. */
size_t wan_pad_put(uint8_t *buf, size_t cap);
size_t wan_fec_frame_put(uint8_t *buf, size_t cap, const struct wan_fec *w);
bool wan_fec_frame_get(const struct wan_frame *f, struct wan_fec *w);
size_t wan_rebuilt_put(uint8_t *buf, size_t cap, const uint64_t *numbers, uint32_t n);
bool wan_rebuilt_get(const struct wan_frame *f, struct wan_rebuilt *r);
uint64_t wan_rebuilt_number(const struct wan_rebuilt *r, uint32_t i);
size_t wan_arrivals_put(uint8_t *buf, size_t cap, const struct wan_arrivals_frame *a);
bool wan_arrivals_get(const struct wan_frame *f, struct wan_arrivals_frame *a);

#endif
