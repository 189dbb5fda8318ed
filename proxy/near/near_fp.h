/* SPDX-License-Identifier: Apache-2.0 */
/* near_fp.h - is this packet one that was here before, or of another incarnation of the QP? */
#ifndef PROXY_NEAR_FP_H
#define PROXY_NEAR_FP_H

#include "proxy/wan/wan.h"

enum fp_verdict {
	FP_SAME,    /* a repetition */
	FP_STRANGE, /* another packet at a place that is taken: the QP was reset */
	FP_OPEN,    /* inside the message that is not over yet: a repetition, as far as can be said */
	FP_STALE,   /* inside a message that is too old to be remembered: neither can be said */
};

/* Of a packet: the same in every repetition, whatever its AckReq. Never 0. */
uint32_t near_fp_of(const uint8_t *l3, const struct roce_pkt *pkt, uint32_t payload_crc);
/* Forgets all: the flow begins, or begins elsewhere. */
void near_fp_reset(struct proxy *p, struct near_flow *f);
/* The packet in that slot has been taken in order. */
void near_fp_note(struct proxy *p, struct near_flow *f, const struct slot_hdr *h);
/* A packet below pos_next. */
enum fp_verdict near_fp_check(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp,
                              bool starts_message);
/* The packet of fingerprint fp at pos is the one that is known at pos - 1, with another PSN. */
bool near_fp_one_too_high(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t fp);
/* What is remembered of a flow before a place, oldest first. */
struct fp_memory {
	uint32_t n;
	uint32_t words[FP_RING / 2];
};
void near_fp_save(struct proxy *p, const struct near_flow *f, uint64_t before, struct fp_memory *m);
/* Gives it to a flow that has taken nothing yet, and whose positions are those of the other one plus `shift`. */
void near_fp_restore(struct proxy *p, struct near_flow *f, const struct fp_memory *m, uint32_t shift);
/* The flow begins anew at a lower place: what is noted from there on is forgotten. */
void near_fp_trim(struct proxy *p, struct near_flow *f, uint64_t from);
/* True if a message is remembered that begins, or ends, at pos. */
bool near_fp_has(struct proxy *p, const struct near_flow *f, uint64_t pos);
/* Messages, READs and ATOMICs that ended, or began, in [pos, pos_next). False: too many, or too long ago. */
bool near_fp_messages_from(struct proxy *p, const struct near_flow *f, uint64_t pos, uint32_t *n);
/* Takes up the ring that an earlier life left. */
void near_fp_recover(struct proxy *p, struct near_flow *f);

#endif
