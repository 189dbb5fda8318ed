/* SPDX-License-Identifier: Apache-2.0 */
/* flow_frame.h - frames between the near and the far role of a flow, and the kinds of PACKET frames.
 *
 * Big-endian, as all frames (wan_frame.h). All but FLOW_CLOSE are reliable: after a loss a frame with the newest state
 * follows. */
#ifndef PROXY_FLOW_FRAME_H
#define PROXY_FLOW_FRAME_H

#include "proxy/wan/dgram/wan_frame.h"

enum flow_frame_type {
	WF_FLOW_OPEN = 0x02,
	WF_FLOW_REPORT = 0x03,
	WF_FLOW_PAIR = 0x04,
	WF_FLOW_CLOSE = 0x05,
	WF_READ_AGAIN = 0x08,
	WF_RESP_CREDIT = 0x09,
	/* 0x0a, 0x0b: relay_frame.h */
};

/* Of a PACKET. WP_REQUEST and WP_RESPONSE: flow is the near edge's flow id, pos the packet's position. WP_RAW: flow is
 * 0, pos a sequence number within the lane. WP_RELAY: flow is the channel, inc its life, pos the chunk's position. */
enum wan_packet_kind { WP_REQUEST, WP_RESPONSE, WP_RAW, WP_RELAY, WP_KINDS };
_Static_assert(WP_KINDS == WAN_PACKET_KINDS, "kinds on the wire");

enum wan_open_flags {
	WOF_BASE_FIXED = 1,
	WOF_PAIRED = 2,
	WOF_HOST_MODE = 4,
	WOF_DOUBTED = 8, /* the flow may begin anywhere within the requests that the responder has: the near edge knows
	                    the MSN there */
	WOF_FAR_MODE = 16,
	WOF_RESUMED = 32, /* requests of the flow crossed in an earlier session: the far edge may have delivered them */
};

/* FLOW_OPEN, near to far, whenever a flow begins, its base moves or a session starts:
 * flow(4) inc(4) pos_base(8) dest_qpn(4) requester_qpn(4) vlan(2) pmtu(2) cm_tag(4) src(16) dst(16) */
struct wan_flow_open {
	uint32_t flow, inc;
	uint64_t pos_base; /* oldest position that the near edge still answers for */
	uint32_t dest_qpn, requester_qpn;
	uint16_t vlan_tci, pmtu;
	uint32_t cm_tag; /* of the connection by which CM began the flow; 0: none, or not known (edges of earlier
	                    versions) */
	uint8_t flags; /* enum wan_open_flags */
	struct ip_addr src, dst;
};

enum wan_flow_state { WFS_OK, WFS_RNR, WFS_STALLED, WFS_FAILED };

/* FLOW_REPORT, far to near, cumulative:
 * flow(4) inc(4) received(8) delivered(8) credit(8) nak_pos(8) state(1) syndrome(1) again_round(2)
 * again_from(8) */
struct wan_flow_report {
	uint32_t flow, inc;
	uint64_t received;    /* the far edge has committed everything before; 0 while the flow may begin lower */
	uint64_t delivered;   /* the responder has ACKed everything before; 0 likewise */
	uint64_t credit;      /* positions before this may be sent; 0: the flow has not been opened */
	uint64_t nak_pos;     /* WFS_FAILED: the position that the responder refused */
	uint8_t state;        /* enum wan_flow_state */
	uint8_t syndrome;     /* WFS_FAILED: its AETH syndrome */
	bool lost;            /* WFS_FAILED: requests ACKed from nak_pos on were in an arena that the near edge lost. A
	                         flag of the frame; edges of earlier versions ignore it */
	bool keeps_all;       /* the far edge gives up nothing that it has received: mode far may ACK it. A flag likewise */
	uint16_t again_round; /* newer than before: the far edge has given up packets that had come */
	uint64_t again_from;  /* packets from here on are to come again */
};

/* FLOW_PAIR, far to near: the requester's QPN and the responder's MSN, from its first answer:
 * flow(4) inc(4) pos_base(8) at_pos(8) msn(4) qpn(4) template_len(2) zero(2) template... */
struct wan_flow_pair {
	uint32_t flow, inc;
	uint64_t pos_base; /* the position that the responder expected first */
	uint64_t at_pos;   /* everything before is ACKed by the responder, whose MSN then was msn */
	uint32_t msn;
	uint32_t requester_qpn;
	bool confirmed; /* flag 1 */
	bool msn_late;  /* flag 2: msn is from a response: the responder may have counted later requests, too. Edges of
	                   earlier versions neither set it nor look at it */
	uint16_t template_len; /* an ACK of the responder, whole, from its IP header */
	const uint8_t *template;
};

/* READ_AGAIN, near to far: the responses at pos .. pos + psns were given to the host, which lost them: they are to be read
 * again. Or one of rxe that has not come: its host has asked from there. flow(4) inc(4) pos(8) psns(4) packet_len(2)
 * flags(2) packet... */
struct wan_read_again {
	uint32_t flow, inc;
	uint64_t pos;
	uint32_t psns;
	uint16_t packet_len; /* a READ request of the host that ends with them, whole, from its IP header; up to
	                        rd_op_ask_back() responses before pos may be asked for with them */
	bool forward_only;   /* flag 1: the responder is rxe (rd_op_ask_from()). The far edge may not know: it may have been
	                        killed, and the pair come from CM */
	const uint8_t *packet;
};

/* RESP_CREDIT, near to far, while a READ is open that is larger than what the near edge can hold of one: responses before
 * this position may be sent. Before the first one of a session all may. flow(4) inc(4) round(4) credit(8) */
struct wan_resp_credit {
	uint32_t flow, inc;
	uint32_t round;  /* from 1 on, counts up in a session: an older one that comes later is ignored */
	uint64_t credit; /* RESP_CREDIT_ALL: no such READ is open any more */
};
#define RESP_CREDIT_ALL UINT64_MAX

/* FLOW_CLOSE: flow(4) inc(4) */
struct wan_flow_close {
	uint32_t flow, inc;
};

/* Writers return the bytes written, 0 if `cap` is too small. The readers get a frame's body; false: malformed. */
size_t wan_flow_open_put(uint8_t *buf, size_t cap, const struct wan_flow_open *o);
bool wan_flow_open_get(const struct wan_frame *f, struct wan_flow_open *o);
size_t wan_flow_report_put(uint8_t *buf, size_t cap, const struct wan_flow_report *r);
bool wan_flow_report_get(const struct wan_frame *f, struct wan_flow_report *r);
size_t wan_flow_pair_put(uint8_t *buf, size_t cap, const struct wan_flow_pair *r);
bool wan_flow_pair_get(const struct wan_frame *f, struct wan_flow_pair *r);
size_t wan_read_again_put(uint8_t *buf, size_t cap, const struct wan_read_again *r);
bool wan_read_again_get(const struct wan_frame *f, struct wan_read_again *r);
size_t wan_resp_credit_put(uint8_t *buf, size_t cap, const struct wan_resp_credit *c);
bool wan_resp_credit_get(const struct wan_frame *f, struct wan_resp_credit *c);
size_t wan_flow_close_put(uint8_t *buf, size_t cap, const struct wan_flow_close *c);
bool wan_flow_close_get(const struct wan_frame *f, struct wan_flow_close *c);

#endif
