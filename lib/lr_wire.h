/* SPDX-License-Identifier: Apache-2.0 */
/* lr_wire.h - messages between a program and the daemon over the relay's socket (SOCK_SEQPACKET).
 *
 * One message is a struct lr_msg and the bytes behind it, in this machine's byte order. Each request has one answer,
 * LRM_ANSWER with its serial number, in the order of the requests except those about GPU memory; events come unasked. A
 * descriptor goes with LRM_EXPORT, LRM_PUT, LRM_GET and their vectors. */
#ifndef LR_WIRE_H
#define LR_WIRE_H

#include <stdint.h>

#include "longreach.h"

#define LR_WIRE_VERSION 2
#define LR_MSG_MAX      (64u << 10)
#define LR_STARTS       6 /* of the relay, in LRM_EXPORT */

enum lr_msg_type {
	LRM_HELLO = 1, /* id: LR_WIRE_VERSION. Answer: id: number of this start of the relay; 0: an older daemon */
	LRM_EXPORT,    /* name, offset, length: size, flags: enum lr_access; local: uint32_t[LR_STARTS],
	                * earlier starts of the relay in which the program exported the same memory; 0: none */
	LRM_UNEXPORT,  /* name. Of GPU memory it is answered when that is closed */
	LRM_PUT,       /* name, offset, length, region_offset, flags: enum lr_promise, after, local; data: the notice */
	LRM_GET,       /* name, offset, length, region_offset, after, local */
	LRM_CANCEL,    /* id */
	LRM_SERVE,     /* name */
	LRM_CALL,      /* name; data */
	LRM_REPLY,     /* id, flags: enum lr_status; data */
	LRM_RATE,
	LRM_REGIONS,
	LRM_EXPORT_GPU, /* name, flags: enum lr_access, local as above; data: struct lr_gpu; with a descriptor, length: of the allocation. Answered when it is open */
	LRM_PUTV, /* as LRM_PUT, offset and region_offset 0, length: of all pieces, id: how many; data: struct lr_piece..., the notice */
	LRM_GETV, /* as LRM_GET, likewise */
	LRM_REQUESTS, /* end of the requests */
	/* of the daemon */
	LRM_ANSWER = 64, /* result; id: of the operation; data: struct lr_rate, or struct lr_region... */
	LRM_EVENT,       /* flags: enum lr_event_type; id, status, promise, offset, length: bytes, name; data */
};

struct lr_msg {
	uint32_t type;
	uint32_t serial;
	int32_t result; /* LRM_ANSWER: 0 or more, or negative errno */
	uint32_t flags;
	uint64_t id;
	uint64_t after;
	uint64_t offset, length, region_offset;
	uint32_t status, promise;
	char name[LR_NAME_MAX];
	char local[LR_NAME_MAX]; /* a region of the program; empty: a descriptor is used */
};
_Static_assert(LR_STARTS * sizeof(uint32_t) < LR_NAME_MAX, "the daemon ends local with a NUL");

#endif
