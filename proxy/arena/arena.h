/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - the deep buffer: packets and flow descriptors in memory that outlives the process.
 *
 * Layout, from the start of the region:
 *
 *     superblock | flow descriptors, copies A and B | fingerprint rings | chunk 0 | chunk 1 | ...
 *
 * A chunk (2 MiB by default, naturally aligned in the region) belongs to one pool and one size class while any of
 * its slots is in use; it starts with its own dense array of 64-byte slot headers, so that a rebuild scans headers
 * without touching payloads and no header space is set aside for slots that the class does not have.
 * Size classes 512, 1152, 2176, 4352: never a power-of-two stride. The largest has ARENA_HEADROOM bytes more than the
 * longest packet: a port that lands whole frames in slots writes its headers in front of the packet (data_off).
 *
 * A slot survives a kill from arena_commit() on (header CRC and state are stored last). Everything else in struct arena
 * - free lists, the position index, struct slot_meta - is volatile and rebuilt by arena_attach().
 *
 * Two pools, each with its own reserve, so that two edges full in opposite directions cannot deadlock:
 * a pool may take free chunks only while the other one can still reach its reserve. Each pool also has, or can take, a
 * chunk whose slots hold packets of any size.
 *
 * Call order: arena_heap_size(), then arena_format() or arena_attach(); then for each packet arena_alloc(), fill
 * header fields and data, arena_commit(), ..., arena_free(). Not thread-safe: one shard owns one arena. arena_slot.h
 * finds slots, their headers and their data.
 *
 * For ports that land packets in the arena and send from it: arena_blank(), (the device writes), arena_alloc() and
 * arena_adopt() in place of a copy, arena_commit(); arena_pin(), arena_free() at any time, arena_unpin(). */
#ifndef PROXY_ARENA_H
#define PROXY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/dlist.h"
#include "proxy/util/limits.h"

#define ARENA_MAGIC          0x4c52434852454e41ull
#define ARENA_LAYOUT_VERSION 8 /* of descriptors too: near_rebuild.c, far_rebuild.c, relay_out.c, relay_in.c */
#define SLOT_NONE            UINT32_MAX
#define ARENA_HURT_MAX       64
#define ARENA_HEADROOM       128
#define ARENA_BLANK_BYTES    (LAN_PKT_MAX + ARENA_HEADROOM) /* of a blank, for headers and packet together */

enum arena_pool { POOL_LAN, POOL_WAN, POOL_COUNT }; /* packets taken from the LAN; packets taken from the WAN */

/* The contents of a slot. POOL_LAN: REQ_NEAR, RESP_FAR, RAW_LAN, RELAY_OUT. POOL_WAN: the others. */
enum slot_kind {
	SLOT_REQ_NEAR = 1, /* request of a local host on its way out */
	SLOT_RESP_FAR,     /* response of a local host on its way out */
	SLOT_RAW_LAN,      /* expendable packet on its way out: does not survive a restart */
	SLOT_REQ_FAR,      /* request for a local host */
	SLOT_RESP_NEAR,    /* response for a local host */
	SLOT_RAW_WAN,      /* expendable packet for a local host: does not survive a restart */
	SLOT_RELAY_OUT,    /* chunk of the local daemon on its way out */
	SLOT_RELAY_IN,     /* chunk for the local daemon */
	SLOT_KINDS
};

/* The pool of a slot kind. `kind` may be any byte found in a file. */
static inline enum arena_pool arena_pool_of(unsigned kind)
{
	return kind <= SLOT_RAW_LAN || kind == SLOT_RELAY_OUT ? POOL_LAN : POOL_WAN;
}

/* Only SLOT_COMMITTED survives a kill. No value is one bit away from it but SLOT_FREE. */
enum slot_state {
	SLOT_FREE = 0,
	SLOT_FILLING = 1, /* has flow and position, is in the index */
	SLOT_COMMITTED = 2,
	SLOT_BLANK = 4, /* lent to a port, belongs to no flow: the rest of the header means nothing */
};

/* 64 bytes in the arena. `state`, `kind`, `data_off` and `crc` are arena.c's; the caller fills in the rest before
 * arena_commit(). */
struct slot_hdr {
	uint8_t state; /* enum slot_state */
	uint8_t kind;  /* enum slot_kind */
	uint8_t opcode;
	uint8_t bth_off; /* offsets in the stored L3 packet, so that it need not be parsed again */
	uint8_t hdr_len;
	uint8_t pad;
	uint16_t len;      /* L3 bytes stored */
	uint32_t flow;     /* local flow index; for RAW the lane, for RELAY the channel */
	uint32_t inc;      /* incarnation of the flow; life of the channel's stream */
	uint64_t pos;      /* position; for RAW the raw sequence number */
	uint32_t psns;     /* PSNs this packet owns: 1, or more for a READ request */
	uint32_t msn;      /* messages begun or ended up to and including this packet, as the responder would count */
	uint32_t fp;       /* fingerprint: opcode, length, payload CRC */
	uint16_t vlan_tci; /* 0: untagged */
	uint8_t flags;     /* enum slot_flags */
	uint8_t waits; /* a request that begins a message: entries of the barrier's snapshot behind its bytes, in len */
	uint16_t data_off; /* where the packet begins in the slot: 0 if it was copied into it; arena_adopt() sets it */
	uint8_t reserved[18];
	uint32_t crc; /* CRC-32 of the 60 bytes before it, with state as SLOT_COMMITTED */
};
_Static_assert(sizeof(struct slot_hdr) == 64, "slot header is one cache line");

enum slot_flags {
	SF_ACK_REQ = 1 << 0,
	SF_MSG_END = 1 << 1,
	SF_OWN_RESPONSE = 1 << 2, /* READ, ATOMIC, FLUSH, or unknown RC opcode */
	SF_MSG_START = 1 << 3,
	SF_END_TO_END = 1 << 4, /* raw: an RC packet without a flow */
};

/* Volatile, one per slot, for the core's use. Zeroed by arena_alloc() and arena_attach() but for `gen`; only
 * arena_pin() and arena_unpin() change `pins`. */
struct slot_meta {
	uint64_t units[2]; /* 64-byte units of the packet: on the way in, those received; on the way out, those the peer
	                      has */
	uint64_t lost[2];  /* on the way out: units found lost, to be sent again */
	uint64_t due_ns;   /* in a repair queue: not to be sent before. Request for a local host: when it was sent
	                    * last */
	struct dnode node; /* link in the core's queue that holds the slot; off that queue before arena_free() */
	uint32_t next;     /* arena.c's list of free slots */
	uint16_t gen;      /* changes when the slot is freed, so that old references are recognised */
	uint8_t sends;     /* times sent over the WAN */
	uint8_t queued;    /* enum slot_queue: the core's list that the slot is on */
	uint8_t copies;    /* copies of a repair still to be sent */
	uint8_t in_flight; /* datagrams under way that carry it */
	uint8_t lane;
	uint8_t pins; /* arena.c's: packets out of the slot that ports have not sent yet */
};

struct arena_geometry {
	uint64_t len;            /* of the region, bytes */
	uint32_t chunk_size;     /* power of two, 64 KiB .. 2 MiB */
	uint32_t max_flows;      /* near flows and as many far flows */
	uint8_t reserve_percent; /* of the chunks that each pool can always reach: 10..50, default 25 */
};

#define ARENA_DESC_MAX 368 /* bytes of one descriptor as the core sees it */
enum desc_table {
	DESC_NEAR,  /* max_flows of them */
	DESC_FAR,   /* likewise */
	DESC_RELAY, /* DESC_RELAY_ENTRIES */
	DESC_TABLES
};
#define DESC_RELAY_ENTRIES 128 /* two for each relay channel */

struct arena; /* volatile state (arena_slot.h), lives in the heap memory given at format/attach */

/* Bytes of zeroed heap memory that arena_format/arena_attach need. 0 if the geometry is impossible. */
size_t arena_heap_size(const struct arena_geometry *g);
/* Smallest region that a geometry with these values can work with, bytes. */
uint64_t arena_min_len(uint32_t chunk_size, uint32_t max_flows);

/* Makes a new arena in `region` (zeroed or not). `epoch` tells this life of the arena from earlier ones.
 * `heap` is 64-byte aligned, arena_heap_size() bytes of zeroes. Returns 0, -EINVAL. */
int arena_format(struct arena **a, void *region, const struct arena_geometry *g, uint64_t epoch, void *heap);

/* Takes up an arena that was in use: checks superblock, geometry, CRCs; rebuilds free lists, index and occupancy
 * from committed slots; frees SLOT_FILLING and RAW slots. Returns 0; -ENOENT no arena there (bad magic); -EPROTO
 * unknown layout version (region untouched); -EINVAL geometry differs or superblock is damaged (region untouched).
 * Slots or descriptors with a wrong CRC are counted in arena_damaged() and dropped. */
int arena_attach(struct arena **a, void *region, const struct arena_geometry *g, void *heap);

uint64_t arena_epoch(const struct arena *a);
uint32_t arena_damaged(const struct arena *a);
/* The i-th damaged slot whose header still tells its near flow, ARENA_HURT_MAX at most. False: no more. */
bool arena_hurt(const struct arena *a, uint32_t i, uint32_t *flow, uint64_t *pos);

/* --- slots --- */

/* A slot for a packet of `len` (1..LAN_PKT_MAX) bytes, SLOT_FILLING, header zeroed but for kind, flow, inc, pos, len;
 * and entered into the index (RAW kinds too). SLOT_NONE if the pool has no room. */
uint32_t arena_alloc(struct arena *a, enum slot_kind kind, uint32_t flow, uint32_t inc, uint64_t pos, uint16_t len);
/* Commits the slot: it survives a kill from here on. Begins to fetch the memory that the next packet is likely to be
 * written to. */
void arena_commit(struct arena *a, uint32_t slot);
/* Fetches more of the memory that arena_commit() began to fetch. The core calls arena_fetch() four times for a packet,
 * with other work between; only speed depends on these calls. */
void arena_fetch(struct arena *a);
/* Gives a committed slot other psns and another msn. A crash in between loses the slot, so only a slot that was not
 * ACKed yet may be changed. */
void arena_amend(struct arena *a, uint32_t slot, uint32_t psns, uint32_t msn);
/* Takes the slot out of the index and frees it; gen changes. A slot with pins is freed in header and index at once, and
 * free for other packets when the last pin goes: until then its bytes stay as they are, and the pool's capacity is that
 * much smaller. Returns how many entries of others in the index it looked at: few, but an arena full of the smallest
 * packets has hundreds side by side. */
uint32_t arena_free(struct arena *a, uint32_t slot);

/* --- blanks and pins: memory that devices read and write --- */

/* Lends a slot of the largest class for a device to write ARENA_BLANK_BYTES into, from arena_data() on. SLOT_NONE if
 * the pool has no room. The pool's capacity (arena_capacity()) is that much smaller. A kill leaves the slot free. */
uint32_t arena_blank(struct arena *a, enum arena_pool pool);
/* The blank, in which a packet lies `data_off` bytes behind its beginning, takes the place of `slot`, which
 * arena_alloc() has just given for that packet: header and index. `slot` becomes the blank. False, and nothing has
 * changed, if `slot` or `blank` is in another state, or they differ in pool or class: then the packet has to be
 * copied. */
bool arena_adopt(struct arena *a, uint32_t slot, uint32_t blank, uint16_t data_off);
/* Takes a blank back. No device may write into the blank from here on. */
void arena_blank_return(struct arena *a, uint32_t slot);
uint32_t arena_blanks(const struct arena *a, enum arena_pool pool);
/* Bytes of blanks, and of pinned slots that were freed. */
uint64_t arena_lent(const struct arena *a, enum arena_pool pool);

/* Pins a committed slot: its bytes stay unchanged, even if the slot is freed, until arena_unpin() was called as often
 * as arena_pin(). False: the slot is not committed, or has ARENA_PINS_MAX pins already. */
#define ARENA_PINS_MAX UINT8_MAX
bool arena_pin(struct arena *a, uint32_t slot);
void arena_unpin(struct arena *a, uint32_t slot);

/* Slot bytes that packets of `len` bytes can take. These bytes are fewer than the free bytes if chunks used in part
 * have too small slots. arena_has_room() (arena_slot.h) compares them sooner. */
uint64_t arena_room(const struct arena *a, enum arena_pool pool, uint16_t len);

/* Walks all committed slots (after attach; any order). *cursor starts at 0. SLOT_NONE at the end. */
uint32_t arena_next_committed(struct arena *a, uint32_t *cursor);

/* --- flow descriptors: copies A and B, the newer valid one counts --- */

void arena_desc_store(struct arena *a, enum desc_table t, uint32_t idx, const void *desc, size_t len);
/* False if neither copy is valid. Shorter descriptors are zero-filled to len. */
bool arena_desc_load(const struct arena *a, enum desc_table t, uint32_t idx, void *desc, size_t len);
/* Audits everything: each slot is in exactly one place, index and counts agree. Returns 0, or a negative number that
 * tells which check failed. For tests; slow. */
int arena_audit(struct arena *a);

#endif
