/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Receiving. Each mbuf of l->landing has memory of its own ("home") and may be moved over a place of the link's buffer:
 * its buf_addr is then that of the place. The mbuf is moved when a frame in it has been dealt with and before it
 * returns to the pool, so the device never sees it change. A frame that came to an mbuf at home is copied by the core,
 * and the mbuf gets a place afterwards; so the ring is over places after its first round, and a buffer that is full
 * lends fewer. The pool says that its mbufs hold NIC_PLACE_BYTES: no driver writes more into one (but see
 * RING_FRAME_OVERHEAD).
 *
 * Sending. A frame with a lent part is a chain: an mbuf with a copy of what stands in front of that part, an mbuf over
 * the part (an external buffer in DPDK's words), an mbuf with a copy of what follows. part_back() is called when DPDK
 * frees the second.
 *
 * Which devices. Those that were tried, whose driver moves frames by CPU in this process (copies_by_cpu()). A device
 * that reads and writes by itself would need the buffer in its IOMMU (rte_extmem_register(), rte_dev_dma_map()), mlx5 a
 * key for each pool of mbufs, and virtio-user another process that has mapped it. None of these could be tried, so
 * those copy.
 *
 * The end. Nothing may be written into the buffer once nic_lend_end() has returned. These drivers take an mbuf for a
 * frame that is there, so all are in the pool between two bursts, and go home. A device that has kept one is closed. */
#include "nic_lend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

enum {
	CACHE = 128,
	SLACK = 2 * 64 + 4 * CACHE, /* bursts on their way, and the caches of two threads */
	PART_BYTES = 256,           /* of what is copied in front of or behind a lent part */
	CHAIN_MAX = 3,
	/* net_af_packet asks for room for its ring's frames less 32 bytes. The kernel puts an Ethernet frame 66 bytes
	 * behind the beginning of a ring's frame (TPACKET2_HDRLEN and 16, aligned, less the header) and cuts it off at
	 * the end. */
	RING_FRAME_OVERHEAD = 32,
};

/* Behind each mbuf of l->landing. */
struct landing {
	struct nic_place place; /* at NULL: the mbuf is at home */
	void *home;
	rte_iova_t home_iova;
	uint16_t home_len;
};

/* Behind each mbuf of l->parts. */
struct lent_part {
	struct rte_mbuf_ext_shared_info shared;
	struct nic_lend *lend;
	uint32_t tag;
	bool out;
};

static struct landing *landing_of(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* --- pools --- */

static void note_home(struct rte_mempool *pool, void *opaque, void *obj, unsigned i)
{
	struct rte_mbuf *m = obj;

	(void)pool;
	(void)opaque;
	(void)i;
	*landing_of(m) = (struct landing){.home = m->buf_addr, .home_iova = m->buf_iova, .home_len = m->buf_len};
}

static uint16_t data_room(uint16_t port)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) == 0 && info.driver_name &&
	    strcmp(info.driver_name, "net_af_packet") == 0)
		return NIC_PLACE_BYTES + RING_FRAME_OVERHEAD;
	return NIC_PLACE_BYTES;
}

int nic_lend_pools(struct nic_lend *l, uint16_t port, const char *name, unsigned nrx, unsigned ntx)
{
	int socket = rte_eth_dev_socket_id(port);
	char pool[RTE_MEMPOOL_NAMESIZE];

	_Static_assert(NIC_PLACE_HEADROOM == RTE_PKTMBUF_HEADROOM, "drivers leave that much in front of a frame");
	l->port = port;
	l->nlanding = nrx + SLACK;
	snprintf(pool, sizeof(pool), "%.16sland", name);
	l->landing = rte_pktmbuf_pool_create(
	    pool, l->nlanding, CACHE, RTE_ALIGN(sizeof(struct landing), RTE_MBUF_PRIV_ALIGN), data_room(port), socket);
	snprintf(pool, sizeof(pool), "%.16spart", name);
	l->parts = rte_pktmbuf_pool_create(pool, CHAIN_MAX * (ntx + 2 * NIC_TX_BATCH) + SLACK, CACHE,
	                                   RTE_ALIGN(sizeof(struct lent_part), RTE_MBUF_PRIV_ALIGN),
	                                   RTE_PKTMBUF_HEADROOM + PART_BYTES, socket);
	l->all = calloc(l->nlanding, sizeof(*l->all));
	if (!l->landing || !l->parts || !l->all) {
		nic_lend_forget_pools(l);
		return -ENOMEM;
	}
	rte_mempool_obj_iter(l->landing, note_home, NULL);
	return 0;
}

void nic_lend_forget_pools(struct nic_lend *l)
{
	rte_mempool_free(l->landing);
	rte_mempool_free(l->parts);
	free(l->all);
	l->landing = l->parts = NULL;
	l->all = NULL;
}

/* --- receiving --- */

static void move_to_place(struct rte_mbuf *m)
{
	m->buf_addr = landing_of(m)->place.at;
	m->buf_iova = (rte_iova_t)(uintptr_t)m->buf_addr;
	m->buf_len = NIC_PLACE_BYTES;
}

static void move_home(struct nic_lend *l, struct rte_mbuf *m)
{
	struct landing *at = landing_of(m);

	if (!at->place.at)
		return;
	l->lender.place_back(l->lender.arg, at->place.tag);
	at->place.at = NULL;
	m->buf_addr = at->home;
	m->buf_iova = at->home_iova;
	m->buf_len = at->home_len;
}

void nic_lend_received(struct nic_lend *l, struct rte_mbuf *m, uint16_t stripped_tci, nic_rx_fn fn, void *arg)
{
	struct landing *at = landing_of(m);

	if (at->place.at) {
		fn(arg, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, stripped_tci, &at->place);
		move_to_place(m);
		return;
	}
	fn(arg, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, stripped_tci, NULL);
	if (l->on && l->lender.place(l->lender.arg, &at->place))
		move_to_place(m);
}

/* --- sending --- */

static void part_is_back(void *addr, void *opaque)
{
	struct lent_part *part = opaque;

	(void)addr;
	part->out = false;
	part->lend->parts_out--;
	part->lend->lender.part_back(part->lend->lender.arg, part->tag);
}

static bool copy_parts(struct rte_mbuf *m, const struct iovec *part, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char *to = rte_pktmbuf_append(m, (uint16_t)part[i].iov_len);

		if (!to)
			return false;
		memcpy(to, part[i].iov_base, part[i].iov_len);
	}
	return true;
}

static void attach_part(struct nic_lend *l, struct rte_mbuf *m, const struct iovec *body, uint32_t tag)
{
	struct lent_part *part = rte_mbuf_to_priv(m);

	*part = (struct lent_part){
	    .shared = {.free_cb = part_is_back, .fcb_opaque = part}, .lend = l, .tag = tag, .out = true};
	rte_mbuf_ext_refcnt_set(&part->shared, 1);
	rte_pktmbuf_attach_extbuf(m, body->iov_base, (rte_iova_t)(uintptr_t)body->iov_base, (uint16_t)body->iov_len,
	                          &part->shared);
	m->data_off = 0;
	m->data_len = (uint16_t)body->iov_len;
	l->parts_out++;
}

struct rte_mbuf *nic_lend_chain(struct nic_lend *l, const struct nic_frame *f)
{
	unsigned behind = f->nparts - f->lent - 1, n = behind ? CHAIN_MAX : CHAIN_MAX - 1;
	const struct iovec *body = &f->part[f->lent];
	struct rte_mbuf *m[CHAIN_MAX];

	if (!l->chains || f->lent == 0 || rte_pktmbuf_alloc_bulk(l->parts, m, n) < 0)
		return NULL;
	if (!copy_parts(m[0], f->part, f->lent) || (behind && !copy_parts(m[2], body + 1, behind))) {
		rte_pktmbuf_free_bulk(m, n);
		return NULL;
	}
	attach_part(l, m[1], body, f->tag);
	m[0]->next = m[1];
	m[1]->next = behind ? m[2] : NULL;
	m[0]->nb_segs = (uint16_t)n;
	m[0]->pkt_len = (uint32_t)m[0]->data_len + m[1]->data_len + (behind ? m[2]->data_len : 0u);
	return m[0];
}

/* --- beginning and end --- */

/* Its driver moves frames by CPU, within this process. */
static bool copies_by_cpu(const char *driver)
{
	static const char *const names[] = {"net_af_packet", "net_vhost"};

	for (unsigned i = 0; i < RTE_DIM(names); i++)
		if (strcmp(driver, names[i]) == 0)
			return true;
	return false;
}

int nic_lend_begin(struct nic_lend *l, const struct nic_lender *lender, char *err, size_t errlen)
{
	struct rte_eth_dev_info info;
	int r = rte_eth_dev_info_get(l->port, &info);

	if (r < 0 || !info.driver_name) {
		snprintf(err, errlen, "DPDK tells nothing about the device");
		return r < 0 ? r : -ENODEV;
	}
	if (!copies_by_cpu(info.driver_name)) {
		snprintf(err, errlen,
		         "driver %s would write into the link's buffer by DMA, which is untested",
		         info.driver_name);
		return -EOPNOTSUPP;
	}
	if (!l->landing) {
		snprintf(err, errlen,
		         "%s needs more than %d bytes for a frame (with net_af_packet, set framesz=4288,blocksz=274432 "
		         "in LanDevice=)",
		         info.driver_name, NIC_PLACE_BYTES - NIC_PLACE_HEADROOM);
		return -EMSGSIZE;
	}
	l->lender = *lender;
	l->on = true;
	return 0;
}

static void flush_caches(struct rte_mempool *pool)
{
	for (unsigned lcore = 0; lcore < RTE_MAX_LCORE; lcore++) {
		struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, lcore);

		if (cache)
			rte_mempool_cache_flush(cache, pool);
	}
}

/* What is in the pool goes home. True if that is everything, and no lent part is with the device. */
static bool all_is_back(struct nic_lend *l)
{
	unsigned n = 0;

	flush_caches(l->landing);
	while (n < l->nlanding && rte_mempool_get_bulk(l->landing, &l->all[n], 1) == 0)
		move_home(l, l->all[n++]);
	if (n)
		rte_mempool_put_bulk(l->landing, l->all, n);
	flush_caches(l->landing);
	return n == l->nlanding && l->parts_out == 0;
}

static void take_home(struct rte_mempool *pool, void *opaque, void *obj, unsigned i)
{
	(void)pool;
	(void)i;
	move_home(opaque, obj);
}

static void take_part(struct rte_mempool *pool, void *opaque, void *obj, unsigned i)
{
	struct lent_part *part = rte_mbuf_to_priv(obj);

	(void)pool;
	(void)opaque;
	(void)i;
	if (part->out)
		part_is_back(NULL, part);
}

int nic_lend_end(struct nic_lend *l, char *err, size_t errlen)
{
	bool back = all_is_back(l);

	l->on = false;
	if (back)
		return 0;
	rte_eth_dev_stop(l->port);
	rte_eth_dev_close(l->port);
	rte_mempool_obj_iter(l->landing, take_home, l);
	rte_mempool_obj_iter(l->parts, take_part, NULL);
	snprintf(err, errlen,
	         "a device of DPDK kept memory of the link's buffer, and longreachd closed the device: restart "
	         "longreachd to use it again");
	return -EBUSY;
}
