/* SPDX-License-Identifier: Apache-2.0 */
/* apply.h - `longreach headroom apply`: sets a port's PFC and buffers as computed. For headroom/ alone.
 *
 * Read, show the difference, write, read back: a driver rounds, and may ignore. Settings that are not as wanted
 * afterwards are restored. */
#ifndef HEADROOM_APPLY_H
#define HEADROOM_APPLY_H

#include "headroom/dcb_msg.h"
#include "headroom/report.h"

#define DCB_ANSWER_MAX 8192

/* A way to the kernel. Sends `len` bytes, whose sequence number is `seq`, and returns the length of the answer with the
 * same number, or a negative errno. `answer` has DCB_ANSWER_MAX bytes, aligned to 4. */
struct dcb_talk {
	int (*ask)(void *arg, const void *msg, size_t len, uint32_t seq, void *answer);
	void *arg;
	bool pauses;      /* the port's 802.3x pause is on, in either direction */
	bool trusts_dscp; /* the port maps DSCP to priorities without APP entries: MLNX_OFED's qos/trust */
};

enum apply_result {
	APPLY_DONE,        /* it is as wanted now, or was already, or --dry-run ended here */
	APPLY_REFUSED,     /* nothing was changed */
	APPLY_ROLLED_BACK, /* it did not become as wanted, and is as before */
	APPLY_HALF,        /* it did not become as wanted, and could not be put back */
};

/* The wanted settings: `is`, with the lossless priorities' PFC, delay and buffers changed. 0, or -1 after a message on
 * `err` why the port cannot have them. */
int apply_want(const struct report *rep, const struct dcb_settings *is, struct dcb_settings *want, FILE *err);

/* Reads the port's settings. 0, or negative errno. */
int apply_read(const struct dcb_talk *talk, const char *dev, struct dcb_settings *is);

/* Reads, compares, writes and restores, on interface rep->o->dev. */
enum apply_result apply(const struct report *rep, const struct dcb_talk *talk, FILE *out, FILE *err);

/* Over a socket of libmnl's. As apply(); APPLY_REFUSED if there is no socket. */
enum apply_result apply_netlink(const struct report *rep, FILE *out, FILE *err);

/* True if 802.3x pause is on, in either direction. */
bool apply_pauses(const char *dev);

/* True if MLNX_OFED's own setting makes the port trust DSCP (mlnx_qos --trust=dscp without DCB's APP table). */
bool apply_trusts_dscp(const char *dev);

/* The name of the interface's driver; "" if it has none (veth) or there is no such interface. */
const char *apply_driver(const char *dev, char *name, size_t cap);

#endif
