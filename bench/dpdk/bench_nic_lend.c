/* SPDX-License-Identifier: Apache-2.0 */
/* bench_nic_lend.c - cost of a packet between two ports of net_vhost, by way of carrying it, in cycles per stage.
 *
 *     generator --> virtio-user 0 --> vhost 0 --> [the way] --> vhost 1 --> virtio-user 1 --> counted
 *
 * Everything runs in one thread and one process. The benchmark reads the time stamp counter only around the calls of
 * the way, so the generator and other users of the machine count little. The PMDs copy frames by CPU: these are no
 * figures of a NIC.
 *
 *     null     the mbufs of one port are handed to the other, as testpmd's `io` mode does
 *     landing  frames land in slots, some are held, the oldest are sent out of their slots: the engine without a core
 *     copying  the same, but copied out of the mbuf into a slot and out of the slot into an mbuf
 *
 * Each way is measured in turn, ROUNDS times. Each block of 512 packets has its own figures; the output shows medians
 * of the third of the blocks in which the processor was quickest, because others use the machine, too. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include "daemon/lan/nic_engine.h"

enum {
	FRAME = 4150, /* 4,096 bytes of payload behind Ethernet, IPv4, UDP and BTH, and the ICRC */
	HEAD = 54,
	TAIL = 4,
	BURST = 32,
	SLOTS = 22400,
	BLOCK = 512,
	BLOCKS = 100, /* per round */
	ROUNDS = 5,
	KEPT = ROUNDS * BLOCKS / 3,
};

enum way { NULL_FORWARDER, LANDING, COPYING };

static const struct nic_engine *engine;
static struct nic_device *vhost[2], *virtio[2];
static uint16_t vhost_port[2], virtio_port[2];

/* --- slots --- */

static uint8_t (*slot)[NIC_PLACE_BYTES];
static uint32_t free_slots[SLOTS], nfree;
static struct nic_place fifo[SLOTS];
static uint32_t fifo_first, fifo_n, held;

static bool give_place(void *arg, struct nic_place *out)
{
	(void)arg;
	if (nfree == 0)
		return false;
	out->tag = free_slots[--nfree];
	out->at = slot[out->tag];
	return true;
}

static void slot_back(void *arg, uint32_t tag)
{
	(void)arg;
	free_slots[nfree++] = tag;
}

static const struct nic_lender lender = {.place = give_place, .place_back = slot_back, .part_back = slot_back};

static void hold(struct nic_place p)
{
	fifo[(fifo_first + fifo_n++) % SLOTS] = p;
}

/* --- the ways --- */

static void keep_landed(void *arg, const uint8_t *frame, size_t len, uint16_t tci, struct nic_place *place)
{
	struct nic_place kept;

	(void)tci;
	*(unsigned *)arg += 1;
	if (place) {
		kept = *place;
		if (!give_place(NULL, place))
			return;
	} else {
		if (!give_place(NULL, &kept))
			return;
		memcpy(kept.at + NIC_PLACE_HEADROOM, frame, len);
	}
	hold(kept);
}

static void send_oldest(bool lent)
{
	static uint8_t head[HEAD], tail[TAIL];
	static struct nic_frame out[BURST];
	static uint32_t sent[BURST];
	unsigned n = 0;

	for (; n < BURST && fifo_n > held; n++) {
		struct nic_place p = fifo[fifo_first];

		fifo_first = (fifo_first + 1) % SLOTS;
		fifo_n--;
		out[n] = (struct nic_frame){
		    .part = {{head, HEAD}, {p.at + NIC_PLACE_HEADROOM + HEAD, FRAME - HEAD - TAIL}, {tail, TAIL}},
		    .nparts = 3,
		    .lent = lent ? 1 : NIC_NO_PART,
		    .tag = p.tag};
		sent[n] = p.tag;
	}
	if (n)
		engine->tx(vhost[1], out, n);
	for (unsigned i = 0; i < n && !lent; i++)
		slot_back(NULL, sent[i]);
}

struct cost {
	uint64_t rx, tx;
	unsigned packets;
};

static void forward(enum way way, struct cost *c)
{
	struct rte_mbuf *m[BURST];
	uint64_t t0 = rte_rdtsc(), t1;
	unsigned n = 0;

	if (way == NULL_FORWARDER)
		n = rte_eth_rx_burst(vhost_port[0], 0, m, BURST);
	else
		engine->rx(vhost[0], BURST, keep_landed, &n);
	t1 = rte_rdtsc();
	if (way == NULL_FORWARDER) {
		uint16_t sent = rte_eth_tx_burst(vhost_port[1], 0, m, (uint16_t)n);

		if (sent < n)
			rte_pktmbuf_free_bulk(m + sent, n - sent);
	} else {
		send_oldest(way == LANDING);
	}
	c->tx += rte_rdtsc() - t1;
	c->rx += t1 - t0;
	c->packets += n;
}

/* --- the hosts --- */

static void generate(void)
{
	static uint8_t bytes[FRAME];
	static struct nic_frame f[BURST];

	for (unsigned i = 0; i < BURST; i++)
		f[i] = (struct nic_frame){.part = {{bytes, FRAME}}, .nparts = 1, .lent = NIC_NO_PART};
	if (engine->tx_pending(virtio[0]))
		engine->tx_retry(virtio[0]);
	else
		engine->tx(virtio[0], f, BURST);
}

static unsigned sink(void)
{
	struct rte_mbuf *m[BURST];
	uint16_t n = rte_eth_rx_burst(virtio_port[1], 0, m, BURST);

	rte_pktmbuf_free_bulk(m, n);
	return n;
}

static uint64_t went_in, came_out;

static struct cost run(enum way way, unsigned packets)
{
	struct cost c = {0};

	while (c.packets < packets) {
		generate();
		forward(way, &c);
		came_out += sink();
	}
	went_in += c.packets;
	return c;
}

/* --- results --- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct block {
	double rx, tx; /* per packet */
};

static int by_sum(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return (x->rx + x->tx > y->rx + y->tx) - (x->rx + x->tx < y->rx + y->tx);
}

struct row {
	const char *name;
	enum way way;
	uint32_t held;
	struct block block[ROUNDS * BLOCKS];
};

static struct block quick(struct row *r)
{
	double rx[KEPT], tx[KEPT];

	qsort(r->block, ROUNDS * BLOCKS, sizeof(r->block[0]), by_sum);
	for (unsigned i = 0; i < KEPT; i++) {
		rx[i] = r->block[i].rx;
		tx[i] = r->block[i].tx;
	}
	qsort(rx, KEPT, sizeof(*rx), by_value);
	qsort(tx, KEPT, sizeof(*tx), by_value);
	return (struct block){rx[KEPT / 2], tx[KEPT / 2]};
}

static void begin_row(const struct row *r)
{
	char err[256];

	held = r->held;
	fifo_first = fifo_n = nfree = 0;
	for (uint32_t i = 0; i < SLOTS; i++)
		free_slots[nfree++] = i;
	if (r->way == LANDING && (engine->lend(vhost[0], &lender, err, sizeof(err)) < 0 ||
	                          engine->lend(vhost[1], &lender, err, sizeof(err)) < 0)) {
		fprintf(stderr, "%s\n", err);
		exit(EXIT_FAILURE);
	}
}

static void end_row(const struct row *r)
{
	char err[256];

	for (unsigned i = 0; r->way == LANDING && i < 2; i++)
		if (engine->take_back(vhost[i], err, sizeof(err)) < 0)
			fprintf(stderr, "%s\n", err);
}

/* Lets the last packets come out, and reports packets that neither came out nor are held. */
static void settle(const struct row *r)
{
	for (unsigned quiet = 0; quiet < 10;) {
		unsigned n = sink();

		came_out += n;
		quiet = n ? 0 : quiet + 1;
		usleep(100);
	}
	if (came_out + fifo_n + NIC_TX_BATCH < went_in)
		fprintf(stderr, "%s: only %llu of %llu packets came out\n", r->name, (unsigned long long)came_out,
		        (unsigned long long)went_in);
}

static void measure(struct row *r, unsigned round)
{
	struct cost c;

	begin_row(r);
	went_in = came_out = 0;
	run(r->way, r->held + 4000); /* warm-up: until r->held packets are held, and caches have settled */
	for (unsigned i = 0; i < BLOCKS; i++) {
		c = run(r->way, BLOCK);
		r->block[round * BLOCKS + i] = (struct block){(double)c.rx / c.packets, (double)c.tx / c.packets};
	}
	settle(r);
	end_row(r);
}

/* --- start --- */

static bool open_pair(unsigned i, const char *dir)
{
	char devargs[256], err[512] = "";
	bool ok;

	snprintf(devargs, sizeof(devargs), "net_vhost%u,iface=%s/%u", i, dir, i);
	ok = engine->open(&vhost[i], &(struct nic_wanted){devargs, 4224, true}, err, sizeof(err)) == 0;
	snprintf(devargs, sizeof(devargs), "net_virtio_user%u,path=%s/%u,queue_size=1024,mrg_rxbuf=0,in_order=1", i,
	         dir, i);
	ok = ok && engine->open(&virtio[i], &(struct nic_wanted){devargs, 4224, true}, err, sizeof(err)) == 0;
	if (!ok)
		fprintf(stderr, "%s\n", err);
	snprintf(devargs, sizeof(devargs), "net_vhost%u", i);
	ok = ok && rte_eth_dev_get_port_by_name(devargs, &vhost_port[i]) == 0;
	snprintf(devargs, sizeof(devargs), "net_virtio_user%u", i);
	return ok && rte_eth_dev_get_port_by_name(devargs, &virtio_port[i]) == 0;
}

int main(int argc, char **argv)
{
	static struct row rows[] = {
	    {.name = "null", .way = NULL_FORWARDER},           {.name = "landing", .way = LANDING, .held = 64},
	    {.name = "copying", .way = COPYING, .held = 64},   {.name = "landing", .way = LANDING, .held = 1280},
	    {.name = "copying", .way = COPYING, .held = 1280}, {.name = "landing", .way = LANDING, .held = 21376},
	    {.name = "copying", .way = COPYING, .held = 21376}};
	char dir[] = "/tmp/bench_nic.XXXXXX", err[512], path[64];
	double hz, null = 0;

	engine = nic_engine_table();
	slot = mmap(NULL, (size_t)SLOTS * NIC_PLACE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (slot == MAP_FAILED || !mkdtemp(dir) ||
	    engine->start(argc > 1 ? argv[1] : "--no-huge -m 512", 0, err, sizeof(err)) < 0 || !open_pair(0, dir) ||
	    !open_pair(1, dir))
		return EXIT_FAILURE;
	memset(slot, 0, (size_t)SLOTS * NIC_PLACE_BYTES);
	hz = (double)rte_get_tsc_hz();
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			measure(&rows[i], round);
	printf(
	    "%d-byte frames between two net_vhost ports, one thread; cycles per packet at %.2f GHz, %d of %d blocks\n",
	    FRAME, hz / 1e9, KEPT, ROUNDS * BLOCKS);
	printf("%-8s %7s %9s %9s %9s %8s %7s\n", "way", "held", "receive", "send", "all", "Gbit/s", "x null");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct row *r = &rows[i];
		struct block b = quick(r);
		double all = b.rx + b.tx;

		null = i == 0 ? all : null;
		printf("%-8s %7u %9.0f %9.0f %9.0f %8.1f %7.2f\n", r->name, r->held, b.rx, b.tx, all,
		       FRAME * 8 * hz / all / 1e9, null / all);
	}
	engine->stop();
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%u", dir, i);
		unlink(path);
	}
	rmdir(dir);
	return EXIT_SUCCESS;
}
