/* SPDX-License-Identifier: Apache-2.0 */
/* wan_sent.h - the sent map, with the datagrams that one lane has sent and whose fate it does not know yet.
 *
 * Theory of operation
 *
 * A packet number names one datagram and is never used again; its entry lists references (struct wan_ref) to the
 * contents that must not be lost. Entries live in pages of 64, taken from a pool that all lanes of a shard share, so
 * that a page's state fits 64-bit masks and a REPORT's bitmap is worked off a word at a time.
 *
 * Loss (after RACK, RFC 8985): an entry is lost if a report said explicitly that it was missing, and a datagram sent at
 * least reorder_ns after it has arrived. An entry is never lost by absence from reports: a lost report says nothing.
 * Entries named missing wait in a FIFO; send times grow with the number, so only the FIFO's head need be looked at.
 *
 * A member of an erasure group counts as sent when the last repair of its block was sent: the receiver may rebuild the
 * member until this repair, and the report behind it, have had time to arrive. FEC gets a round trip for that, 200 us
 * at least; before that no report can name the member missing anyway. */
#ifndef PROXY_WAN_SENT_H
#define PROXY_WAN_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/util/limits.h"
#include "proxy/wan/cc/rate.h"
#include "wan_frame.h"

enum wan_ref_kind {
	REF_SLOT,  /* a piece of a packet: units off .. off + n of slot id */
	REF_FRAME, /* a frame of a source, of type n: id and gen are the source's (transport.h) */
	REF_LANE_CREDIT,
	REF_PING,
	REF_MTU, /* a datagram that probes a size */
};

struct wan_ref {
	uint32_t id;
	uint16_t gen;   /* the slot's gen: differs if the slot was freed since */
	uint8_t off, n; /* REF_SLOT: units. REF_FRAME: n is the frame's type */
	uint8_t kind;   /* enum wan_ref_kind */
};

struct sent_entry {
	uint64_t sent_ns;
	uint64_t missing_next; /* FIFO of entries named missing */
	uint64_t place; /* number of the datagram among all of the shard on that path */
	uint32_t bytes;
	uint32_t block; /* of FEC; 0: none */
	struct rate_mark mark;
	uint8_t nrefs;
	struct wan_ref ref[WAN_REFS_MAX];
};

#define SENT_PAGES_OWN 2 /* pages that every lane can have, whatever the others hold */
#define SENT_PAGE_ENTRIES 64
#define SENT_PAGE_NONE    UINT32_MAX

struct sent_page {
	uint64_t resolved; /* received, lost or refused: waits for nothing more */
	uint64_t missing;  /* named missing by a report */
	uint64_t lost;
	uint64_t lost_ns; /* when the last lost entry was found lost */
	uint32_t next_free;
	uint32_t queued; /* entries in the FIFO of missing ones */
	struct sent_entry entry[SENT_PAGE_ENTRIES];
};

struct sent_pool {
	struct sent_page *pages;
	uint32_t n, free_head, free_count;
	uint32_t reserve; /* free pages kept for lanes that hold fewer than SENT_PAGES_OWN */
};

struct wan_sent {
	struct sent_pool *pool;
	uint32_t *page_of; /* ring of page indexes, by number / 64 */
	uint32_t ring_mask;
	uint64_t pn_next;
	uint64_t pn_floor; /* every number below is resolved and its page given back; multiple of 64 */
	uint64_t missing_head, missing_tail; /* numbers; UINT64_MAX: empty */
	uint64_t rack_sent_ns;               /* latest send time among the datagrams that arrived */
	uint64_t told_end;                   /* the largest number that a report told of, + 1 */
	uint64_t bytes_in_flight;
	uint64_t marked_in_flight; /* sum of the bytes of all rate_marks in flight */
	uint64_t entries_in_flight;
	uint32_t block;          /* the newest block; FEC only */
	uint32_t nblocks;        /* length of block_done_ns */
	uint64_t told_ns;        /* time beyond a round trip that the news of a rebuilt datagram may take */
	const uint32_t *work;    /* budget: entries are handed out while it is not 0; the callbacks count it down. NULL:
	                            no limit */
	uint64_t *block_done_ns; /* when a block's last repair went out, by id; UINT64_MAX: not yet. NULL: no FEC */
};

/* n is more than SENT_PAGES_OWN * lanes: no lane can be left without a number to send with. */
void sent_pool_init(struct sent_pool *pool, struct sent_page *pages, uint32_t n, uint32_t lanes);

/* page_ring has a power-of-two number of entries, at least WAN_PN_SPAN / 64 + 1 or pool->n + 1. */
void wan_sent_init(struct wan_sent *s, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len);

/* Forgets everything (a new session); pages go back. */
void wan_sent_reset(struct wan_sent *s);

/* True if one more datagram can be remembered. */
bool wan_sent_has_room(const struct wan_sent *s);

/* The next number and its empty entry; the caller fills in references. Only if wan_sent_has_room(). */
struct sent_entry *wan_sent_push(struct wan_sent *s, uint64_t now_ns, uint64_t *pn);

/* Takes the last push back. */
void wan_sent_unpush(struct wan_sent *s);

struct wan_sent_result {
	uint64_t newly_acked;     /* entries */
	uint64_t newly_acked_bytes;
	uint64_t largest_sent_ns; /* send time of r->largest if no report told of a number so large before, else 0 */
	uint64_t spurious;        /* entries found lost that had arrived */
	uint64_t spurious_marked; /* bytes of their rate_marks */
	uint64_t spurious_ns;     /* the reordering window that these entries would have needed */
	bool cut;                 /* too much work for one call: the report is to be worked off again */
};

typedef void (*wan_sent_fn)(void *arg, const struct sent_entry *e);

/* Works off a REPORT: calls acked() for each entry that this report is the first to call received. */
void wan_sent_report(struct wan_sent *s, const struct wan_report *r, wan_sent_fn acked, void *arg,
                     struct wan_sent_result *res);
/* Called when the peer has rebuilt number pn: calls acked() as for a received number. Returns 1 if the entry was
 * unresolved, 2 if it had been found lost already, 0 else. */
unsigned wan_sent_rebuilt(struct wan_sent *s, uint64_t pn, wan_sent_fn acked, void *arg);
/* Works off a REFUSED, whatever work is left: calls refused() for each entry, which is then resolved. Returns the number
 * of entries. */
uint64_t wan_sent_refused(struct wan_sent *s, const struct wan_report *r, wan_sent_fn refused, void *arg);

/* Declares lost the entries that are lost (see above), and calls lost() for each. An entry named missing is also lost
 * once rtt_ns + reorder_ns have passed since it was sent, even if no later datagram has arrived. Returns the number of
 * entries. */
uint64_t wan_sent_detect(struct wan_sent *s, uint64_t now_ns, uint64_t reorder_ns, uint64_t rtt_ns, wan_sent_fn lost,
                         void *arg);

/* Called when the map is full and nothing is heard: the unresolved entries of the oldest page are sent again under new
 * numbers, though no report named them missing. Doubles are harmless. Returns the number of entries. */
uint64_t wan_sent_give_up_oldest(struct wan_sent *s, uint64_t now_ns, wan_sent_fn lost, void *arg);

/* Called when the path is dead: resolves all unresolved entries; their contents go again on another path. None of them
 * counts as lost, and their late arrival is not spurious. Works in whole pages; entries_in_flight tells whether more
 * are left. Returns the number of entries. */
uint64_t wan_sent_give_up_all(struct wan_sent *s, wan_sent_fn moved, void *arg);

/* True if entries named missing wait for wan_sent_detect(). */
bool wan_sent_any_missing(const struct wan_sent *s);

/* The entry of the last push has nothing in it that must arrive: resolves it at once. */
void wan_sent_forget_last(struct wan_sent *s);

/* Gives back pages at the floor whose entries are resolved; lost ones are kept for keep_ns to notice late arrivals. */
void wan_sent_advance(struct wan_sent *s, uint64_t now_ns, uint64_t keep_ns);

/* Number and send time of the oldest unresolved entry; false if there is none. */
bool wan_sent_oldest(const struct wan_sent *s, uint64_t *pn, uint64_t *sent_ns);

#endif
