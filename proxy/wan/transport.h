/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - the transport, which carries packets of sources between the two edges in numbered datagrams, with
 * reports and repairs.
 *
 * Theory of operation
 *
 * The transport (wan_*.c) knows lanes, paths, datagrams and slots. Roles, queue pairs and operations are known to
 * *sources* only. A source is a table of functions (struct wan_source), registered once per shard:
 *
 *     the source has something          links its node into lane.ready[id], wan_lane_schedule()
 *     the lane may send                 put_control(), then put_new() of the sources in turn
 *         a frame of the source         wan_build_room(), wan_build_frame()
 *         a packet in a slot            wan_build_slot()
 *         a packet that has no slot     wan_build_room(), wan_build_expendable()
 *     the datagram was lost             frame_lost() for each frame; packets in slots are repaired by the transport
 *     the peer has a packet             its slot is released, unless the source keeps it (keeps_slots)
 *     a datagram came                   on_packet() and on_frame()
 *     a session begins                  session_start()
 *
 * The transport repairs slots until the peer has them, until packet_over() says that no flow waits for a packet any
 * more, or until gives_up() says that a lost packet is not worth another copy. A lost frame is never sent again as it
 * was: frame_lost() tells the source, which puts its newest state into a later datagram.
 *
 * All functions of a source are called from within the shard's own calls (proxy.h), with proxy.now_ns set. */
#ifndef PROXY_TRANSPORT_H
#define PROXY_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/arena/arena.h"
#include "proxy/wan/dgram/wan_frame.h"

#define WAN_SOURCES_MAX     8
#define WAN_FRAME_TYPES_MAX 64 /* frame types that a source may own are below this */

struct proxy;
struct lane;
struct wan_build; /* a datagram that is being put together */

/* Tells whether frames of a source are due. WAN_DUE frames may have to wait for control's part of the line. */
enum wan_due { WAN_DUE_NOT, WAN_DUE, WAN_DUE_AT_ONCE };

/* A source of packets. Any function may be NULL: then the transport does nothing, or what the function's comment
 * says. */
struct wan_source {
	const char *name;
	uint64_t frames_sent;      /* bit t: this source sends frames of type t, ... */
	uint64_t frames_taken;     /* ... and on_frame() takes those of the peer */
	uint64_t frames_quiet;     /* frame types of the source that ask for no report: they are never repaired */
	uint32_t packets_taken;    /* bit k: on_packet() takes PACKET frames of kind k (struct wan_packet) */
	uint32_t slot_kinds;       /* bit k: slots of that kind (enum slot_kind) are this source's */
	bool keeps_slots;          /* a slot that the peer has stays until the source releases it */

	/* Tells whether put_control() would put something now. NULL: never. */
	enum wan_due (*control_due)(const struct proxy *p, const struct lane *l);
	/* Puts frames that are due before until_ns into the datagram, as far as they fit. */
	void (*put_control)(struct proxy *p, struct lane *l, struct wan_build *b, uint64_t until_ns);
	/* Puts packets into the datagram that were never sent, of the nodes in lane.ready[] of this source. */
	void (*put_new)(struct proxy *p, struct lane *l, struct wan_build *b);
	/* Fills in kind and flow of the packet in a slot; the transport fills in the rest. */
	void (*name_packet)(struct proxy *p, const struct slot_hdr *h, struct wan_packet *w);

	/* Returns true if no flow waits for the packet any more: the packet is released instead of being sent. NULL:
	 * never. */
	bool (*packet_over)(const struct proxy *p, const struct slot_hdr *h);
	/* Returns true if a lost packet is not sent again; it is released. The source counts the drop. NULL: never. */
	bool (*gives_up)(struct proxy *p, uint32_t slot);
	/* Returns the slot bytes that wait at the peer while the packet is missing there. NULL: all that the lane has
	 * under way. */
	uint64_t (*waiting_behind)(const struct proxy *p, const struct slot_hdr *h);
	/* A refused slot may go again: returns the refused slot that goes instead of it. NULL: the slot itself goes. */
	uint32_t (*refused_first)(struct proxy *p, uint32_t slot);
	/* A frame of that type was lost; id and gen are those that wan_build_frame() was given. */
	void (*frame_lost)(struct proxy *p, struct lane *l, uint8_t type, uint32_t id, uint16_t gen);

	/* Takes a packet or a piece of one. Returns false if there is no room: the datagram is refused. */
	bool (*on_packet)(struct proxy *p, struct lane *l, const struct wan_packet *w);
	/* Takes a frame. Returns false if it is malformed. */
	bool (*on_frame)(struct proxy *p, struct lane *l, const struct wan_frame *f);

	/* The number of flows that have something to send, or will have as soon as there is room. NULL: those that
	 * lane.nwaiting counts. */
	uint32_t (*wanting)(const struct proxy *p);
	/* A slot of the source was taken (bytes > 0) or freed (bytes < 0). */
	void (*slot_held)(struct proxy *p, uint32_t slot, const struct slot_hdr *h, int64_t bytes);
	/* A slot of the source begins (or ceases) to wait for its lane to send it. */
	void (*slot_waits)(struct proxy *p, const struct slot_hdr *h, bool waits);
	/* The flow's slot bytes that are sent and not settled have changed by `bytes`. */
	void (*slot_out)(struct proxy *p, const struct slot_hdr *h, int64_t bytes);

	/* The lane's timer has run: the source calls wan_lane_schedule() if frames are due, wan_lane_wake_at() if they
	 * will be. */
	void (*on_timer)(struct proxy *p, struct lane *l);
	/* Forgets the lane's state of the session before. */
	void (*session_start)(struct proxy *p, struct lane *l);
};

/* The sources of a shard, and which of them owns each frame type, packet kind and slot kind. */
struct transport {
	const struct wan_source *source[WAN_SOURCES_MAX]; /* by id; NULL: none */
	const struct wan_source *of_slot[SLOT_KINDS], *of_packet[WAN_PACKET_KINDS];
	const struct wan_source *taker[WAN_FRAME_TYPES_MAX], *sender_of[WAN_FRAME_TYPES_MAX]; /* of frames, by type */
	uint64_t frames_quiet; /* of all sources */
	uint8_t sender[WAN_SOURCES_MAX], nsenders; /* ids of those with put_new() */
	const struct wan_source *talker[WAN_SOURCES_MAX]; /* those with put_control(), by id */
	uint8_t ntalkers;
};

/* Registers a source under an id below WAN_SOURCES_MAX. Kinds that two sources claim belong to the later one. */
void transport_register(struct transport *t, uint8_t id, const struct wan_source *s);

/* --- a datagram that is being put together: for put_control() and put_new() --- */

/* Returns the place of the next frame; *room is the number of bytes that are free there. */
uint8_t *wan_build_room(struct wan_build *b, size_t *room);
/* The number of bytes that an empty datagram of the path has for frames. */
size_t wan_build_room_max(const struct wan_build *b);
/* The number of further frames and pieces for which the datagram's entry in the sent map has references. */
unsigned wan_build_places(const struct wan_build *b);
/* Adds a frame of len bytes that was written to wan_build_room(). If the datagram is lost, frame_lost() of the source
 * is called. Only while wan_build_places() is not 0. */
void wan_build_frame(struct wan_build *b, size_t len, uint8_t type, uint32_t id, uint16_t gen);
/* Adds len bytes of packets that are never repaired. */
void wan_build_expendable(struct wan_build *b, size_t len);
/* Puts in the packet of a slot that was never sent. A packet that no datagram can hold is cut; wan_build_pieces() puts
 * in its pieces. Returns false if the datagram is full: the slot stays as it is. */
bool wan_build_slot(struct wan_build *b, uint32_t slot);
/* Puts in the remaining pieces of packets that were cut. Returns false if the datagram is full before the last
 * piece. */
bool wan_build_pieces(struct wan_build *b);
/* Returns true if no further packet fits. */
bool wan_build_full(const struct wan_build *b);
/* Returns true if packets that suffer from reordering may take this path: each lane keeps to one. */
bool wan_build_keeps_order(const struct wan_build *b);

#endif
