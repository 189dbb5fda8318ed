/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - a port's PFC and buffers as they are, against what its link needs: for `longreach doctor`. */
#ifndef HEADROOM_AUDIT_H
#define HEADROOM_AUDIT_H

#include "headroom/dcb_msg.h"

#define AUDIT_TEXT_MAX 400

struct audit_port {
	const char *dev;
	uint64_t rate_bps; /* of the link; 0: not known, nothing is said of buffers */
	uint32_t mtu;
	int pfc_wanted;       /* priority that Pfc= pauses hosts on; -1: none */
	bool pauses;          /* 802.3x pause is on, in either direction */
	bool has_vlans;       /* a VLAN interface is on the port: frames may have their priority in the tag */
	bool delay_is_length; /* is.delay is in metres, as mlx5 has it; else it is in bit times and says nothing here */
	struct dcb_settings is;
};

/* "what is wrong\nwhat to do" */
typedef void (*audit_say)(void *arg, const char *text);

/* Reports what is wrong; says nothing about a port without DCB or with PFC off. Pure. */
void audit(const struct audit_port *p, audit_say say, void *arg);

/* Reads `is`, has_vlans and delay_is_length of dev. 0, or negative errno (-EOPNOTSUPP: it has no DCB). */
int audit_read(struct audit_port *p);

#endif
