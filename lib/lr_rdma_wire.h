/* SPDX-License-Identifier: Apache-2.0 */
/* lr_rdma_wire.h - messages between a client and the edge over an RDMA connection.
 *
 * The client connects by rdma_cm; the private data of its REQ is a hello; the REP's tells how many requests may be
 * unanswered, the REJ's why the client was refused. Then each SEND is one message: a request of the client, or an
 * answer or event of the edge. Messages carry no bytes of memory: the edge READs and WRITEs the client's memory itself.
 *
 * Big-endian, since both ends may be different machines. A message begins with its type and has its own length. */
#ifndef LR_RDMA_WIRE_H
#define LR_RDMA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lr_wire.h"

#define LR_RDMA_PORT    4792
#define LR_RDMA_VERSION 1

/* magic(4) version(2) length(2) value(4) status(1) 0(3) op(8), of a REJ name(32); at most 56 bytes fit a REQ */
#define LR_RDMA_HELLO_LEN   24
#define LR_RDMA_REASON_LEN  (LR_RDMA_HELLO_LEN + LR_NAME_MAX)
/* type(1) promise(1) length(2) serial(4) id(8) after(8) address(8) bytes(8) region offset(8) rkey(4) 0(4) name(32), notice */
#define LR_RDMA_REQUEST_LEN 88
#define LR_RDMA_REQUEST_MAX (LR_RDMA_REQUEST_LEN + LR_NOTICE_MAX)
/* type(1) kind(1) length(2) serial(4) result(4) status(1) promise(1) 0(2) id(8) bytes(8); a notice goes on with
 * offset(8) name(32), notice */
#define LR_RDMA_EVENT_LEN   32
#define LR_RDMA_NOTICE_LEN  (LR_RDMA_EVENT_LEN + 8 + LR_NAME_MAX)
#define LR_RDMA_EVENT_MAX   (LR_RDMA_NOTICE_LEN + LR_NOTICE_MAX)

/* What an end knows beyond the first ones of LR_RDMA_VERSION, which say 0. Such an edge ends the connection of a client that
 * sends anything else. */
#define LR_RDMA_KNOWS_EXPORT 1u
#define LR_RDMA_KNOWS_TAKEN  2u /* LR_RDMA_TAKEN; it counts if both ends know it */

/* Credit for notices, which others cause. The edge has sent at most LR_RDMA_NOTICES that the program has not taken: the client
 * has as many receives beyond those for what its own requests cause. LR_RDMA_TAKEN is a request without an answer; its id says
 * how many notices the program has taken since it connected. */
#define LR_RDMA_NOTICES 32
#define LR_RDMA_TAKEN   63
_Static_assert(LR_RDMA_TAKEN > LRM_REQUESTS && LR_RDMA_TAKEN < LRM_ANSWER, "no other message has this type");

/* Private data. REQ: value is a number that the client has drawn, status is 0, and op is LR_RDMA_KNOWS_*. REP: value is how
 * many requests may be unanswered, op is LR_RDMA_KNOWS_*. REJ: value is an errno. If the client's last connection of that
 * number failed, status says why. op is the operation whose fault it was, 0: the fault of none, the status is that of all;
 * LR_RDMA_NO_OP: of the memory of region `name`. The first ends do not know LR_RDMA_NO_OP, and have no such operation. */
#define LR_RDMA_NO_OP UINT64_MAX
struct lr_rdma_hello {
	uint32_t value;
	uint8_t status;
	uint64_t op;
	char name[LR_NAME_MAX]; /* empty in what lr_rdma_hello_put() writes */
};

struct lr_rdma_request {
	uint8_t type;    /* LRM_PUT, LRM_GET, LRM_CANCEL, LRM_EXPORT, LRM_UNEXPORT, LR_RDMA_TAKEN */
	uint8_t promise; /* PUT: enum lr_promise; EXPORT: enum lr_access */
	uint32_t serial;
	uint64_t id;     /* CANCEL; TAKEN: so many */
	uint64_t after;
	uint64_t address; /* of the client's memory */
	uint64_t bytes, region_offset;
	uint32_t rkey;
	char name[LR_NAME_MAX]; /* of the region: the other site's, or this client's */
	const uint8_t *notice;
	size_t notice_len;
};

struct lr_rdma_event {
	uint8_t type;    /* LRM_ANSWER: serial, result, id; LRM_EVENT: kind, status, promise, id, bytes */
	uint8_t kind;    /* enum lr_event_type: LR_EV_DONE, LR_EV_LATE, LR_EV_NOTICE */
	uint8_t status, promise;
	uint32_t serial;
	int32_t result;
	uint64_t id, bytes;
	/* NOTICE: the region of this client, and where */
	uint64_t offset;
	char name[LR_NAME_MAX];
	uint8_t notice[LR_NOTICE_MAX];
	size_t notice_len;
};

/* True if a region may have this name: it has no control characters, which would end a line of a log or a list. */
bool lr_rdma_name_is_plain(const char *name);

/* The get functions return false for messages that no correct end sends. If they return true, neither range of a
 * request wraps, and a name ends with a NUL. */
void lr_rdma_hello_put(uint8_t out[LR_RDMA_HELLO_LEN], const struct lr_rdma_hello *h);
void lr_rdma_reason_put(uint8_t out[LR_RDMA_REASON_LEN], const struct lr_rdma_hello *h);
bool lr_rdma_hello_get(const void *data, size_t len, struct lr_rdma_hello *h);
/* Returns the length; notice_len is at most LR_NOTICE_MAX. */
size_t lr_rdma_request_put(uint8_t out[LR_RDMA_REQUEST_MAX], const struct lr_rdma_request *q);
bool lr_rdma_request_get(const uint8_t *data, size_t len, struct lr_rdma_request *q);
/* Returns the length; notice_len is at most LR_NOTICE_MAX. */
size_t lr_rdma_event_put(uint8_t out[LR_RDMA_EVENT_MAX], const struct lr_rdma_event *e);
bool lr_rdma_event_get(const uint8_t *data, size_t len, struct lr_rdma_event *e);

#endif
