/* SPDX-License-Identifier: Apache-2.0 */
/* dcb_msg.h - the netlink messages that read and set a port's PFC and buffers. For headroom/ alone.
 *
 * Bytes only: no socket is opened here. RTM_GETDCB and RTM_SETDCB (linux/dcbnl.h, dcbnl_rtnl_ops) with the nested
 * DCB_ATTR_IEEE. A port is read, the settings changed, written, and read again: a driver rounds, and may ignore. */
#ifndef HEADROOM_DCB_MSG_H
#define HEADROOM_DCB_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/headroom.h"

#define DCB_CELLS_BYTES 2304u /* 96, 128, 144, 192 and 256, the known cells of buffers, divide it */

#define DCB_MSG_MAX 512 /* a request; an answer may have more attributes, which are skipped */

struct dcb_settings {
	bool has_pfc, has_buffer; /* an answer without one: the driver does not know it */
	uint8_t pfc_cap;          /* priorities that can pause at once; not written */
	uint8_t pfc_en;           /* bit mask. Changing it takes some links down for a moment */
	uint8_t mbc;
	uint16_t delay; /* mlx5: metres of cable */
	uint8_t prio2buffer[HEADROOM_PRIORITIES];
	uint32_t buffer_size[HEADROOM_PRIORITIES];
	uint32_t total_size; /* not written */
	bool has_app;
	uint8_t app_priorities; /* bit mask: that APP entries map a DSCP to, or the default; not written */
};

/* Length of the message, or -EINVAL: the interface's name is empty or too long. `buf` is aligned to 4 and has
 * DCB_MSG_MAX bytes. */
int dcb_msg_get(void *buf, const char *dev, uint32_t seq);
int dcb_msg_set(void *buf, const char *dev, uint32_t seq, const struct dcb_settings *s); /* what it has_ */

/* An answer to dcb_msg_get(). 0; the negative errno that the kernel answered (-EOPNOTSUPP: the device has no DCB);
 * -EBADMSG: it is no such answer. */
int dcb_msg_read(const void *buf, size_t len, uint32_t seq, struct dcb_settings *s);

/* An answer to dcb_msg_set(), likewise. */
int dcb_msg_acked(const void *buf, size_t len, uint32_t seq);

/* Differences between wanted and present settings, as a mask of enum dcb_difference. */
enum dcb_difference {
	DCB_DIFF_PFC_EN = 1u << 0,
	DCB_DIFF_DELAY = 1u << 1,
	DCB_DIFF_PRIO2BUFFER = 1u << 2,
	DCB_DIFF_BUFFER_SIZE = 1u << 3, /* a buffer that is smaller than wanted, or larger than rounding up makes it */
	DCB_DIFF_BUFFERS = DCB_DIFF_PRIO2BUFFER | DCB_DIFF_BUFFER_SIZE,
};
unsigned dcb_compare(const struct dcb_settings *want, const struct dcb_settings *is);

#endif
