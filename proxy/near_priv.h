/* SPDX-License-Identifier: Apache-2.0 */
/* near_priv.h - what the parts of the near role share: near*.c and nobody else.
 *
 * near_table.c -> near.c (lives) -> near_rx.c (which of four things is it) -> near_take.c (commit) -> near_ceiling.c
 * (how far may it be ACKed) -> near_wan.c (sent on, reported, settled) -> near_rebuild.c (what survives). */
#ifndef PROXY_NEAR_PRIV_H
#define PROXY_NEAR_PRIV_H

#include "near.h"

#define HELD_OOO_MAX       (4 * PATIENCE_PKTS) /* positions past a gap that may be held */
#define BASE_REACH         4096                /* how far below the first packet seen an overtaken one may lie */
#define OLD_DRAIN_STALL_NS 500000000ull        /* an old incarnation without progress for so long has failed */
#define FORSAKEN_NS        5000000000ull       /* longer than hosts wait between two repetitions */

/* --- places: near_table.c --- */

/* Hash of the flow's key in near_by_key. */
uint32_t near_flow_hash(const struct near_flow *f);
/* Makes place idx an empty flow: lists and timers initialised, mode and retries as configured. */
void near_flow_init(struct proxy *p, struct near_flow *f, uint32_t idx);
/* A place for a new flow, with a new incarnation, not in the table of keys yet; an idle flow may have to go for it.
 * NULL: the table is full of busy ones. */
struct near_flow *near_flow_take(struct proxy *p, uint16_t lane);

/* --- lives: near.c --- */

/* The flow begins at pos, with nothing taken, ACKed or sent. */
void near_set_base(struct near_flow *f, uint64_t pos);
/* A flow that begins at this packet, entered into the table. NULL: table full. */
struct near_flow *near_open(struct proxy *p, const struct roce_pkt *pkt, uint16_t vlan_tci);
/* The host reset its QP: the flow that is there drains, a new one, which begins at psn (24 bits), takes its place for
 * what comes now. NULL: table full. */
struct near_flow *near_succeed(struct proxy *p, struct near_flow *old, uint32_t psn, uint16_t vlan_tci);
/* Gives back all slots and operations of the flow. */
void near_free_slots(struct proxy *p, struct near_flow *f);

/* --- taking: near_take.c --- */

/* True if a packet of len bytes may have a slot: by the flow's fair share of what is free, and its span of PSNs. */
bool near_admit(const struct proxy *p, const struct near_flow *f, uint16_t len);
/* Commits the packet at pos. SLOT_NONE: no room. */
uint32_t near_commit(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt, uint64_t pos,
                     uint32_t psns, uint32_t fp, uint16_t vlan_tci);
/* The slot at pos_next is committed: it is in order now. */
void near_in_order(struct proxy *p, struct near_flow *f, uint32_t slot);
/* The packet that is expected: taken, with what was held behind it, or its host is held off. */
enum proxy_drop near_take_next(struct proxy *p, struct near_flow *f, const uint8_t *l3, const struct roce_pkt *pkt,
                               uint16_t vlan_tci, uint32_t fp);

/* --- gaps: near_rx.c --- */

/* Patience is over: one NAK for pos_next (IBTA 9.7.5.1.1), if the host can be told at all. */
void near_nak_gap(struct proxy *p, struct near_flow *f);

/* --- promises: near_ceiling.c, near_wan.c --- */

/* True while the flow may be ACKed before its responder has ACKed. */
bool near_acks_early(const struct proxy *p, const struct near_flow *f);
/* Lets go the DREQ or DREP that waited for bytes before it; waived: they are not delivered, it has waited enough. */
void near_release_held(struct proxy *p, struct near_flow *f, bool waived);

#endif
