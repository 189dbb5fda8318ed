/* SPDX-License-Identifier: Apache-2.0 */
/* nic_lend.h - mbufs over a link's buffer: frames land in it, and parts of frames are sent out of it.
 *
 * Call order: nic_lend_pools() before the device is started; nic_lend_begin(); of the frames that come
 * nic_lend_received(), of those that go nic_lend_chain(); nic_lend_end(). */
#ifndef DPDK_NIC_LEND_H
#define DPDK_NIC_LEND_H

#include <rte_mbuf.h>

#include "daemon/lan/nic_engine.h"

struct nic_lend {
	uint16_t port;
	bool on;     /* between lend() and take_back() */
	bool chains; /* the device sends frames of several mbufs */
	struct nic_lender lender;
	struct rte_mempool *landing; /* of the receive queue */
	struct rte_mempool *parts;   /* header, body and trailer of frames with a lent part */
	unsigned nlanding;
	unsigned parts_out; /* lent parts that the device has */
	void **all;         /* room for every mbuf of `landing` */
};

/* Pools for rings of so many descriptors. Their mbufs have memory of their own, which the device uses until a place is
 * lent. name: a word for both, no other device's. 0 or negative errno. */
int nic_lend_pools(struct nic_lend *l, uint16_t port, const char *name, unsigned nrx, unsigned ntx);
/* The device's receive queue is not given l->landing: nothing can be lent to it. */
void nic_lend_forget_pools(struct nic_lend *l);

int nic_lend_begin(struct nic_lend *l, const struct nic_lender *lender, char *err, size_t errlen);
int nic_lend_end(struct nic_lend *l, char *err, size_t errlen);

/* One frame in an mbuf of l->landing: fn hears of it, and the mbuf is over a place afterwards, if there is one. */
void nic_lend_received(struct nic_lend *l, struct rte_mbuf *m, uint16_t stripped_tci, nic_rx_fn fn, void *arg);
/* The frame as mbufs that copy all but its lent part. NULL: there are none free now, or the device takes no chains. */
struct rte_mbuf *nic_lend_chain(struct nic_lend *l, const struct nic_frame *f);

#endif
