/* SPDX-License-Identifier: Apache-2.0 */
/* near_fp.h - fingerprints of requests: they tell whether a packet was here before, or belongs to another incarnation
 * of the QP. */
#ifndef PROXY_NEAR_FP_H
#define PROXY_NEAR_FP_H

#include "proxy/wan/wan.h"

enum fp_verdict {
	FP_SAME,      /* a repetition */
	FP_DIFFERENT, /* another packet than the one at that position: perhaps the QP was reset */
	FP_OPEN,      /* inside the message that is not over yet: most likely a repetition */
	FP_STALE,     /* inside a message that is over or forgotten: a repetition or of another incarnation, unknown */
};

/* The fingerprint of a packet: the same in every repetition, whatever its AckReq. Never 0. */
uint32_t near_fp_of(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t payload_crc);
/* Forgets all fingerprints of the flow. */
void near_fp_reset(struct proxy *p, struct near_flow *f);
/* Notes the fingerprint of the packet in that slot, which was taken in order. */
void near_fp_note(struct proxy *p, struct near_flow *f, const struct slot_hdr *h);
/* Compares a packet below pos_next with the one that was at pos. */
enum fp_verdict near_fp_check(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp,
                              bool starts_message);
/* True if the packet of fingerprint fp at pos differs only by its PSN from the known packet of pos - 1, but not so from
 * those of pos and pos - 2. Packets that a program fills with the same bytes each time differ so from all three. */
bool near_fp_one_too_high(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp);
/* True if the packet of fingerprint fp at pos, below pos_next, is neither what was at pos nor what was at pos - 1.
 * edge: the packet begins or ends its message. False also if too little is known. */
bool near_fp_is_new(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp, bool edge);
/* The fingerprints of a flow below a position, oldest first. */
struct fp_memory {
	uint32_t n;
	uint32_t words[FP_RING / 2];
};
void near_fp_save(struct proxy *p, const struct near_flow *f, uint64_t before, struct fp_memory *m);
/* Gives the saved fingerprints to a flow that has taken no packet yet, and whose positions are those of the saved flow
 * plus `shift`. */
void near_fp_restore(struct proxy *p, struct near_flow *f, const struct fp_memory *m, uint32_t shift);
/* Forgets fingerprints at and beyond `from`: the flow begins anew at that lower position. */
void near_fp_trim(struct proxy *p, struct near_flow *f, uint64_t from);
/* True if a message is remembered that begins, or ends, at pos. */
bool near_fp_has(struct proxy *p, const struct near_flow *f, uint64_t pos);
/* *n: messages that ended, and READs and ATOMICs that began, in [pos, pos_next). False: too many, or too long ago. */
bool near_fp_messages_from(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t *n);
/* Takes up the ring that an earlier life left. */
void near_fp_recover(struct proxy *p, struct near_flow *f);

#endif
