/* SPDX-License-Identifier: Apache-2.0 */
/* LAN ports on a plugin's devices: who has a device, what is taken off it, what a plugin must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

static void *fake_dlopen(const char *path, int flags);
static void *fake_dlsym(void *handle, const char *symbol);
static int fake_ioctl(int fd, unsigned long request, void *arg);
static char *fake_dlerror(void);
static int fake_dlclose(void *handle);
#define dlopen  fake_dlopen
#define dlsym   fake_dlsym
#define dlerror fake_dlerror
#define dlclose fake_dlclose
#define ioctl   fake_ioctl
#define proxy_blank        fake_blank
#define proxy_blank_data   fake_blank_data
#define proxy_blank_return fake_blank_return
#define proxy_lan_pin      fake_pin
#define proxy_lan_unpin    fake_unpin
#include "daemon/lan/burst_ring.c"
#include "daemon/lan/lan_engine.c"
#undef ioctl

#include "daemon/lan/lan_device.c"
#include "daemon/lan/lan_match.c"
#include "no_log.h"

#define MANY 1000

static uint8_t mac[6] = {2, 0, 0, 0, 0, 7};
static struct ip_prefix local, remote;
static char err[LAN_ENGINE_ERR_MAX];

/* --- the interface that the kernel keeps --- */

static int ifindex = 3;

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	struct ifreq *ifr = arg;

	(void)fd;
	if (strcmp(ifr->ifr_name, "gone") == 0) {
		errno = ENODEV;
		return -1;
	}
	if (request == SIOCGIFINDEX) {
		ifr->ifr_ifindex = ifindex;
		return 0;
	}
	ifr->ifr_hwaddr.sa_family = strcmp(ifr->ifr_name, "tun0") == 0 ? ARPHRD_NONE : ARPHRD_ETHER;
	memcpy(ifr->ifr_hwaddr.sa_data, mac, sizeof(mac));
	return 0;
}

/* --- a plugin --- */

struct nic_device {
	uint8_t frame[4 * PIN_BYTES];
	size_t len;
	unsigned waiting; /* copies of that frame */
	unsigned sent;
	size_t sent_len;
	bool full, pending;
	struct nic_lender lender;
	struct nic_place place; /* at NULL: frames are in `frame` */
	bool keeps;             /* what was lent */
	unsigned nparts;        /* lent parts that it reads */
	uint32_t part[16];
	struct nic_stats stats;
};

static struct nic_device nic;
static unsigned opened, pci, stopped;
static struct nic_wanted wanted[8]; /* of each that was opened */
static bool there = true;

static int fake_start(const char *arguments, unsigned npci, char *e, size_t elen)
{
	assert_string_equal(arguments, "--no-huge");
	(void)e;
	(void)elen;
	pci = npci;
	return 0;
}

static int fake_open(struct nic_device **dev, const struct nic_wanted *w, char *e, size_t elen)
{
	opened++;
	wanted[opened - 1] = *w;
	if (strcmp(w->devargs, "net_nonsense0") == 0) {
		snprintf(e, elen, "%s: no such device", w->devargs);
		return -ENODEV;
	}
	*dev = &nic;
	return 0;
}

static unsigned fake_rx(struct nic_device *d, unsigned budget, nic_rx_fn fn, void *arg)
{
	unsigned n = budget < d->waiting ? budget : d->waiting;

	for (unsigned i = 0; i < n; i++) {
		uint8_t *at = d->place.at ? d->place.at + NIC_PLACE_HEADROOM : d->frame;

		if (d->place.at)
			memcpy(at, d->frame, d->len);
		fn(arg, at, d->len, 0, d->place.at ? &d->place : NULL);
	}
	d->waiting -= n;
	return n;
}

static void fake_tx(struct nic_device *d, const struct nic_frame *frames, unsigned n)
{
	assert_false(d->pending);
	for (unsigned i = 0; i < n; i++) {
		d->sent_len = 0;
		if (frames[i].lent != NIC_NO_PART)
			d->part[d->nparts++] = frames[i].tag;
		for (unsigned k = 0; k < frames[i].nparts; k++) {
			memcpy(d->frame + d->sent_len, frames[i].part[k].iov_base, frames[i].part[k].iov_len);
			d->sent_len += frames[i].part[k].iov_len;
		}
	}
	d->sent += n;
	d->pending = d->full;
}

static bool fake_tx_pending(const struct nic_device *d)
{
	return d->pending;
}

static void fake_tx_retry(struct nic_device *d)
{
	d->pending = d->full;
}

static void fake_tx_drop(struct nic_device *d)
{
	d->pending = false;
}

static void fake_stats(struct nic_device *d, struct nic_stats *s)
{
	*s = d->stats;
}

static int fake_lend(struct nic_device *d, const struct nic_lender *l, char *e, size_t elen)
{
	if (d->keeps) {
		snprintf(e, elen, "it has memory of its own");
		return -EOPNOTSUPP;
	}
	d->lender = *l;
	assert_true(l->place(l->arg, &d->place));
	return 0;
}

static void send_parts(struct nic_device *d)
{
	while (d->nparts)
		d->lender.part_back(d->lender.arg, d->part[--d->nparts]);
}

static int fake_take_back(struct nic_device *d, char *e, size_t elen)
{
	send_parts(d);
	d->lender.place_back(d->lender.arg, d->place.tag);
	d->place.at = NULL;
	snprintf(e, elen, "it was closed");
	return d->keeps ? -EBUSY : 0;
}

static void fake_stop(void)
{
	stopped++;
}

static const char *fake_name(void)
{
	return "a fake";
}

static struct nic_engine table;

static const struct nic_engine *fake_table(void)
{
	return &table;
}

static void *fake_dlopen(const char *path, int flags)
{
	(void)flags;
	assert_string_equal(path, "/plugins/longreach-dpdk.so");
	return there ? &table : NULL;
}

static void *fake_dlsym(void *handle, const char *symbol)
{
	const struct nic_engine *(*fn)(void) = fake_table;

	assert_ptr_equal(handle, &table);
	assert_string_equal(symbol, "nic_engine_table");
	return *(void **)&fn;
}

static char *fake_dlerror(void)
{
	static char text[] = "cannot open shared object file";

	return text;
}

static int fake_dlclose(void *handle)
{
	(void)handle;
	return 0;
}

/* --- a core: blanks and pins are counted --- */

#define SLOTS 8

static uint8_t slots[SLOTS][PROXY_BLANK_BYTES];
static bool is_blank[SLOTS];
static unsigned pins[SLOTS];
static const struct proxy *core = (const void *)slots;

uint32_t proxy_blank(struct proxy *p)
{
	uint32_t slot = 0;

	assert_ptr_equal(p, core);
	while (slot < SLOTS && is_blank[slot])
		slot++;
	assert_true(slot < SLOTS);
	is_blank[slot] = true;
	return slot;
}

uint8_t *proxy_blank_data(struct proxy *p, uint32_t slot)
{
	assert_ptr_equal(p, core);
	assert_true(is_blank[slot]);
	return slots[slot];
}

void proxy_blank_return(struct proxy *p, uint32_t slot)
{
	assert_ptr_equal(p, core);
	assert_true(is_blank[slot]);
	is_blank[slot] = false;
}

bool proxy_lan_pin(struct proxy *p, const struct lan_tx *tx)
{
	assert_ptr_equal(p, core);
	if (tx->slot == SLOT_NONE)
		return false;
	pins[tx->slot]++;
	return true;
}

void proxy_lan_unpin(struct proxy *p, uint32_t slot)
{
	assert_ptr_equal(p, core);
	assert_true(pins[slot] > 0);
	pins[slot]--;
}

static unsigned lent(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		n += is_blank[i] + pins[i];
	return n;
}

/* --- cases --- */

static const struct lan_engine_options options = {.plugins = "/plugins", .arguments = "--no-huge"};

static int begin(void **state)
{
	(void)state;
	table = (struct nic_engine){.abi = NIC_ENGINE_ABI,
	                            .name = fake_name,
	                            .start = fake_start,
	                            .open = fake_open,
	                            .rx = fake_rx,
	                            .tx = fake_tx,
	                            .tx_pending = fake_tx_pending,
	                            .tx_retry = fake_tx_retry,
	                            .tx_drop = fake_tx_drop,
	                            .stats = fake_stats,
	                            .lend = fake_lend,
	                            .take_back = fake_take_back,
	                            .stop = fake_stop};
	memset(&engine, 0, sizeof(engine));
	snprintf(engine.err, sizeof(engine.err), "restart it");
	memset(&nic, 0, sizeof(nic));
	opened = pci = 0;
	there = true;
	memset(is_blank, 0, sizeof(is_blank));
	memset(pins, 0, sizeof(pins));
	err[0] = '\0';
	local = (struct ip_prefix){.addr = {.b = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1}}, .len = 96 + 16};
	remote = (struct ip_prefix){.addr = {.b = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 2}}, .len = 96 + 16};
	return 0;
}

static void start_with(enum lan_engine_kind kind, const char *device)
{
	static struct link_config c;

	memset(&c, 0, sizeof(c));
	c.engine = kind;
	c.nlan_ports = c.nlan_devices = 1;
	snprintf(c.lan_devices[0], sizeof(c.lan_devices[0]), "%s", device);
	lan_engine_start(&options, &c, 1);
}

static int open_port(struct lan_port **p, const char *ifname, const char *device)
{
	struct lan_port_params params = {
	    .ifname = ifname,
	    .device = device,
	    .filter = {.local = &local, .remote = &remote, .nlocal = 1, .nremote = 1, .nshards = 1, .nlanes = 64,
	               .snaplen = LAN_FRAME_MAX}};

	return lan_engine_ops.open(p, &params, err, sizeof(err));
}

/* A RoCEv2 frame, or one of another machine. */
static void frame_waits(bool ours, unsigned copies)
{
	memset(nic.frame, 0, sizeof(nic.frame));
	memcpy(nic.frame, mac, sizeof(mac));
	nic.frame[0] ^= ours ? 0 : 4;
	put_be16(nic.frame + 12, ETH_P_IP);
	nic.frame[14] = 0x45;
	nic.frame[23] = IPPROTO_UDP;
	memcpy(nic.frame + 26, (uint8_t[]){10, 1, 0, 2, 10, 2, 0, 2}, 8);
	put_be16(nic.frame + 36, ROCE_UDP_PORT);
	nic.len = 90;
	nic.waiting = copies;
}

static unsigned heard;

static void on_packet(void *arg, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	assert_ptr_equal(arg, &heard);
	assert_ptr_equal(l3, nic.frame + 14);
	assert_int_equal(len, 90 - 14);
	assert_int_equal(vlan_tci, 0);
	heard++;
}

static void engine__no_link_asks(void **state)
{
	struct lan_port *p;

	(void)state;
	start_with(ENGINE_PACKET, "0000:3b:00.0");
	assert_int_equal(opened, 0);
	assert_int_equal(open_port(&p, "eth1", "0000:3b:00.0"), -ENODEV);
	assert_non_null(strstr(err, "restart it"));
}

static void engine__a_device_has_one_link(void **state)
{
	struct lan_port *p, *q;

	(void)state;
	start_with(ENGINE_DPDK, "0000:3b:00.0,x=1");
	assert_int_equal(opened, 1);
	assert_int_equal(pci, 1);
	frame_waits(true, MANY);
	assert_int_equal(open_port(&p, "eth1", "0000:3b:00.0,x=1"), 0);
	assert_int_equal(nic.waiting, 0); /* what came before */
	assert_int_equal(open_port(&q, "eth1", "0000:3b:00.0,x=1"), -EBUSY);
	assert_int_equal(open_port(&q, "eth1", "net_null0"), -ENODEV);
	assert_non_null(strstr(err, "LanDevice=net_null0 was in no link file"));
	assert_int_equal(open_port(&q, "tun0", "0000:3b:00.0,x=1"), -EMEDIUMTYPE);
	assert_int_equal(open_port(&q, "gone", "0000:3b:00.0,x=1"), -ENODEV);
	lan_engine_ops.close(p);
	assert_int_equal(open_port(&p, "eth1", "0000:3b:00.0,x=1"), 0);
	lan_engine_ops.close(p);
	lan_engine_stop();
	assert_int_equal(stopped, 1);
}

static void engine__a_device_that_does_not_open(void **state)
{
	struct lan_port *p;

	(void)state;
	start_with(ENGINE_DPDK, "net_nonsense0");
	assert_int_equal(pci, 0);
	assert_int_equal(open_port(&p, "eth1", "net_nonsense0"), -ENODEV);
	assert_non_null(strstr(err, "net_nonsense0: no such device"));
}

static void engine__takes_ours_and_counts_the_rest(void **state)
{
	struct lan_port_stats s;
	struct lan_port *p;

	(void)state;
	heard = 0;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	assert_true(lan_engine_ops.fd(p) < 0);
	frame_waits(true, 5);
	assert_int_equal(lan_engine_ops.rx_batch(p, 3, on_packet, &heard), 3);
	assert_int_equal(lan_engine_ops.rx_batch(p, 3, on_packet, &heard), 2);
	frame_waits(false, 7);
	assert_int_equal(lan_engine_ops.rx_batch(p, 64, on_packet, &heard), 7);
	assert_int_equal(heard, 5);
	nic.stats = (struct nic_stats){.rx_missed = 1, .rx_split = 2, .tx_errors = 4, .tx_lost = 8};
	lan_engine_ops.stats(p, &s);
	assert_int_equal(s.rx_not_ours, 7);
	assert_int_equal(s.rx_ring_drops, 1);
	assert_int_equal(s.rx_truncated, 2);
	assert_int_equal(s.tx_errors, 4 + 8);
	lan_engine_ops.close(p);
}

/* A device counts as long as longreachd runs; a link shows what happened since it took the device. */
static void engine__counts_of_a_former_link(void **state)
{
	static const struct nic_stats some = {.rx_missed = 1, .rx_split = 2, .tx_errors = 4, .tx_lost = 8};
	struct lan_port_stats s;
	struct nic_stats of_wan;
	struct lan_port *p;

	(void)state;
	nic.stats = some;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	nic.stats = (struct nic_stats){.rx_missed = 11, .rx_split = 22, .tx_errors = 44, .tx_lost = 88};
	lan_engine_ops.stats(p, &s);
	assert_int_equal(s.rx_ring_drops, 10);
	assert_int_equal(s.rx_truncated, 20);
	assert_int_equal(s.tx_errors, 40 + 80);
	lan_engine_ops.close(p);
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	lan_engine_ops.stats(p, &s);
	assert_int_equal(s.rx_ring_drops + s.rx_truncated + s.tx_errors, 0);
	nic.stats.tx_lost++;
	lan_engine_stats("net_null0", &of_wan);
	assert_int_equal(of_wan.tx_lost, 1);
	assert_int_equal(of_wan.rx_missed + of_wan.rx_split + of_wan.tx_errors, 0);
	nic.stats.tx_lost = 3; /* the driver began anew */
	lan_engine_stats("net_null0", &of_wan);
	assert_int_equal(of_wan.tx_lost, 3);
	lan_engine_ops.close(p);
}

/* By the DSCP, as these frames have no tag. */
static void engine__counts_bursts_by_priority(void **state)
{
	uint64_t cursor = 0, missed = 0, bytes[BURST_PRIORITIES] = {0};
	struct lan_port_stats s;
	struct burst_cell c;
	struct lan_port *p;

	(void)state;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	frame_waits(true, 2);
	nic.frame[15] = 26 << 2;
	lan_engine_ops.rx_batch(p, 64, on_packet, &heard);
	frame_waits(true, 1);
	nic.frame[15] = 48 << 2;
	lan_engine_ops.rx_batch(p, 64, on_packet, &heard);
	lan_engine_ops.stats(p, &s);
	while (burst_ring_read(lan_engine_ops.bursts(p), &cursor, &missed, &c))
		bytes[c.priority] += c.bytes;
	assert_int_equal(bytes[3], 180);
	assert_int_equal(bytes[6], 90);
	assert_int_equal(bytes[0], 0);
	lan_engine_ops.close(p);
}

static void engine__sends_whole_frames(void **state)
{
	static const uint8_t body[40] = {3}, trailer[4] = {4};
	struct lan_frame f = {.eth = {1}, .eth_len = 14,
	                      .pkt = {.hdr_len = 28, .body = body, .body_len = 40, .trailer_len = 4}};
	const struct lan_frame *list[] = {&f};
	struct lan_port *p;

	(void)state;
	memcpy(f.pkt.trailer, trailer, sizeof(trailer));
	f.pkt.hdr[0] = 2;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	nic.full = true;
	lan_engine_ops.tx_batch(p, list, 1);
	assert_int_equal(nic.sent_len, 14 + 28 + 40 + 4);
	assert_int_equal(nic.frame[0], 1);
	assert_int_equal(nic.frame[14], 2);
	assert_int_equal(nic.frame[14 + 28], 3);
	assert_int_equal(nic.frame[14 + 28 + 40], 4);
	assert_true(lan_engine_ops.tx_blocked(p));
	nic.full = false;
	lan_engine_ops.tx_retry(p);
	assert_false(lan_engine_ops.tx_blocked(p));
	nic.full = true;
	lan_engine_ops.tx_batch(p, list, 1);
	lan_engine_ops.close(p);
	nic.full = false;
	assert_false(nic.pending); /* the link's next life would send it */
}

static bool core_keeps;

static void on_landed_packet(void *arg, uint32_t *slot, uint16_t off, size_t len, uint16_t vlan_tci)
{
	assert_ptr_equal(arg, &heard);
	assert_ptr_equal(slots[*slot], nic.place.at);
	assert_int_equal(off, NIC_PLACE_HEADROOM + 14);
	assert_memory_equal(slots[*slot] + off, nic.frame + 14, len);
	assert_int_equal(len, 90 - 14);
	assert_int_equal(vlan_tci, 0);
	heard++;
	if (!core_keeps)
		return;
	is_blank[*slot] = false;
	*slot = (*slot + 1) % SLOTS;
	is_blank[*slot] = true;
}

static int lend(struct lan_port *p)
{
	struct lan_lend l = {.core = (struct proxy *)(uintptr_t)core, .fn = on_landed_packet};

	return lan_engine_ops.lend(p, &l, err, sizeof(err));
}

static void engine__lands_in_blanks(void **state)
{
	struct lan_port *p;

	(void)state;
	heard = 0;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	assert_int_equal(lend(p), 0);
	for (unsigned i = 0; i < 2 * SLOTS; i++) {
		core_keeps = i % 3 != 0;
		frame_waits(true, 2);
		assert_int_equal(lan_engine_ops.rx_batch(p, 64, on_packet, &heard), 2);
		assert_int_equal(lent(), 1);
		assert_ptr_equal(nic.place.at, slots[nic.place.tag]);
		assert_true(is_blank[nic.place.tag]);
		frame_waits(false, 1);
		assert_int_equal(lan_engine_ops.rx_batch(p, 64, on_packet, &heard), 1);
	}
	assert_int_equal(heard, 4 * SLOTS);
	lan_engine_ops.close(p);
	assert_int_equal(lent(), 0);
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0); /* the device is as good as new */
	assert_int_equal(lend(p), 0);
	lan_engine_ops.close(p);
	assert_int_equal(lent(), 0);
}

static void engine__sends_large_bodies_from_where_they_are(void **state)
{
	static const uint8_t body[PIN_BYTES] = {3};
	struct lan_frame small = {.eth_len = 14, .pkt = {.hdr_len = 28, .body = body, .body_len = PIN_BYTES - 1, .slot = 5}};
	struct lan_frame large = {.eth_len = 14,
	                          .pkt = {.hdr_len = 28, .body = body, .body_len = PIN_BYTES, .slot = 6, .trailer_len = 4}};
	struct lan_frame none = large;
	const struct lan_frame *list[] = {&small, &large, &none, &large};
	struct lan_port *p;

	(void)state;
	none.pkt.slot = SLOT_NONE;
	nic.keeps = true;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	assert_int_equal(lend(p), -EOPNOTSUPP);
	assert_string_equal(err, "it has memory of its own");
	lan_engine_ops.tx_batch(p, list, 2);
	assert_int_equal(nic.nparts, 0);
	nic.keeps = false;
	assert_int_equal(lend(p), 0);
	lan_engine_ops.tx_batch(p, list, 4);
	assert_int_equal(nic.nparts, 2);
	assert_int_equal(pins[5], 0);
	assert_int_equal(pins[6], 2); /* sent again while the first is under way */
	send_parts(&nic);
	assert_int_equal(pins[6], 0);
	lan_engine_ops.tx_batch(p, list, 2);
	lan_engine_ops.close(p);
	assert_int_equal(lent(), 0);
}

static void engine__a_device_that_keeps_what_was_lent_is_gone(void **state)
{
	struct lan_port *p;

	(void)state;
	start_with(ENGINE_DPDK, "net_null0");
	assert_int_equal(open_port(&p, "eth1", "net_null0"), 0);
	assert_int_equal(lend(p), 0);
	nic.keeps = true;
	lan_engine_ops.close(p);
	assert_int_equal(open_port(&p, "eth1", "net_null0"), -ENODEV);
	assert_non_null(strstr(err, "it was closed"));
}

/* A WAN port's device is opened for its path's MTU, and nothing can be lent to it. */
static void engine__devices_of_paths(void **state)
{
	static struct link_config c;
	const struct nic_engine *e = NULL;
	struct nic_device *d = NULL;

	(void)state;
	memset(&c, 0, sizeof(c));
	c.engine = ENGINE_DPDK;
	c.nlan_ports = c.nlan_devices = 1;
	c.npaths = c.nwan_devices = 3;
	snprintf(c.lan_devices[0], sizeof(c.lan_devices[0]), "net_null0");
	for (unsigned i = 0; i < 3; i++) {
		c.paths[i].mtu = (uint16_t)(1500 * (i + 1));
		snprintf(c.wan_devices[i], sizeof(c.wan_devices[i]), "net_af_packet%u,iface=lo", i / 2);
	}
	lan_engine_start(&options, &c, 1);
	assert_int_equal(opened, 3);
	assert_int_equal(wanted[0].mtu, LAN_PKT_MAX);
	assert_true(wanted[0].lends);
	assert_string_equal(wanted[1].devargs, "net_af_packet0,iface=lo");
	assert_int_equal(wanted[1].mtu, 3000);
	assert_false(wanted[1].lends);
	assert_int_equal(wanted[2].mtu, 4500);
	nic.waiting = MANY;
	assert_int_equal(lan_engine_take("WanDevice", "net_af_packet1,iface=lo", &e, &d, err, sizeof(err)), 0);
	assert_ptr_equal(e, &table);
	assert_ptr_equal(d, &nic);
	assert_int_equal(nic.waiting, 0);
	assert_int_equal(lan_engine_take("WanDevice", "net_af_packet1,iface=lo", &e, &d, err, sizeof(err)), -EBUSY);
	assert_string_equal(
	    err, "its device in WanDevice= is in use by another link: expected a device of another interface, "
	         "or Engine=packet in one of the two links");
	lan_engine_give_back("net_af_packet1,iface=lo");
	assert_int_equal(lan_engine_take("WanDevice", "net_af_packet1,iface=lo", &e, &d, err, sizeof(err)), 0);
	assert_int_equal(lan_engine_take("WanDevice", "net_af_packet2,iface=lo", &e, &d, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "WanDevice=net_af_packet2,iface=lo was in no link file"));
	assert_int_equal(lan_engine_check(&options, &c, err), 0);
	snprintf(c.wan_devices[0], sizeof(c.wan_devices[0]), "net_af_packet0,iface=nonesuch9");
	assert_int_equal(lan_engine_check(&options, &c, err), -ENOENT);
	assert_non_null(strstr(err, "WanDevice=net_af_packet0,iface=nonesuch9: no such interface: nonesuch9"));
}

static void engine__an_interface_that_is_made_again(void **state)
{
	struct lan_port *p;

	(void)state;
	start_with(ENGINE_DPDK, "0000:3b:00.0");
	assert_int_equal(open_port(&p, "eth1", "0000:3b:00.0"), 0);
	ifindex = 9;
	assert_int_equal(lan_engine_ops.rebind(p, "eth1"), 0);
	assert_int_equal(lan_engine_ops.ifindex(p), 9);
	lan_engine_ops.close(p);
	begin(state);
	start_with(ENGINE_DPDK, "net_af_packet0,iface=eth1");
	assert_int_equal(open_port(&p, "eth1", "net_af_packet0,iface=eth1"), 0);
	ifindex = 10;
	assert_int_equal(lan_engine_ops.rebind(p, "eth1"), -EOPNOTSUPP);
	assert_int_equal(lan_engine_ops.ifindex(p), 9);
	lan_engine_ops.close(p);
}

static void follow_mac(const char *device)
{
	struct lan_port *p;

	heard = 0;
	mac[5] = 7;
	start_with(ENGINE_DPDK, device);
	assert_int_equal(open_port(&p, "eth1", device), 0);
	assert_true(lan_engine_ops.mac(p) == 0x020000000007);
	mac[5] = 8;
	assert_int_equal(lan_engine_ops.rebind(p, "gone"), -ENODEV);
	assert_true(lan_engine_ops.mac(p) == 0x020000000007); /* as before */
	assert_int_equal(lan_engine_ops.rebind(p, "eth1"), 0);
	assert_true(lan_engine_ops.mac(p) == 0x020000000008);
	frame_waits(true, 5);
	assert_int_equal(lan_engine_ops.rx_batch(p, 64, on_packet, &heard), 5);
	assert_int_equal(heard, 5);
	lan_engine_ops.close(p);
	mac[5] = 7;
}

/* The device is as before: net_af_packet's, too, as long as the interface is. */
static void engine__an_interface_whose_mac_address_changes(void **state)
{
	follow_mac("0000:3b:00.0");
	begin(state);
	follow_mac("net_af_packet0,iface=eth1");
}

static void engine__says_what_is_missing(void **state)
{
	struct link_config c = {.engine = ENGINE_DPDK};

	(void)state;
	assert_int_equal(lan_engine_check(&options, &c, err), 0);
	table.abi++;
	assert_int_equal(lan_engine_check(&options, &c, err), -ENOENT);
	assert_non_null(strstr(err, "is of another version of longreach"));
	there = false;
	assert_int_equal(lan_engine_check(&options, &c, err), -ENOENT);
	assert_non_null(strstr(err, "package longreach-dpdk): cannot open shared object file"));
	c.engine = ENGINE_PACKET;
	assert_int_equal(lan_engine_check(&options, &c, err), 0);
}

/* --- a machine --- */

static char root[] = "/tmp/test_lan_engine.XXXXXX";

static void make(const char *what, const char *link)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s/%s')\" && %s '%s' '%s/%s'", root, what,
	         link ? "ln -sfn" : "mkdir -p", link ? link : "/tmp", root, what);
	assert_int_equal(system(command), 0);
}

#define PCI "sys/bus/pci/devices/0000:3b:00.0"

static void says(const char *device, const char *words)
{
	int r = lan_device_check(root, "LanDevice", device, err, sizeof(err));

	if (!words) {
		assert_int_equal(r, 0);
		return;
	}
	assert_int_equal(r, -ENOENT);
	if (!strstr(err, words))
		fail_msg("%s", err);
}

static void device__says_what_it_lacks(void **state)
{
	char command[64];

	(void)state;
	assert_non_null(mkdtemp(root));
	says("0000:3b:00.0,x=1", "LanDevice=0000:3b:00.0: no PCI device has this address");
	make(PCI, NULL);
	says("0000:3b:00.0", "LanDevice=0000:3b:00.0: no driver is bound to it: expected vfio-pci");
	make(PCI "/driver", "../../../bus/pci/drivers/ice");
	says("0000:3b:00.0", "the kernel's driver ice is bound to it: expected vfio-pci");
	make(PCI "/driver", "../../../bus/pci/drivers/vfio-pci");
	says("0000:3b:00.0", "it has no IOMMU group");
	make(PCI "/iommu_group", "../../../kernel/iommu_groups/7");
	says("0000:3b:00.0", NULL);
	make(PCI "/driver", "../../../bus/pci/drivers/mlx5_core");
	says("0000:3b:00.0,x=1", NULL);
	says("net_vhost0,iface=/a:b", NULL); /* no driver at all is a library here */
	make("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_vhost.so", "x");
	says("net_vhost0,iface=/a:b", NULL);
	says("net_af_packet0,iface=lan0", "DPDK's driver net_af_packet is not installed");
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(engine__no_link_asks, begin),
	    cmocka_unit_test_setup(engine__a_device_has_one_link, begin),
	    cmocka_unit_test_setup(engine__a_device_that_does_not_open, begin),
	    cmocka_unit_test_setup(engine__takes_ours_and_counts_the_rest, begin),
	    cmocka_unit_test_setup(engine__counts_of_a_former_link, begin),
	    cmocka_unit_test_setup(engine__counts_bursts_by_priority, begin),
	    cmocka_unit_test_setup(engine__sends_whole_frames, begin),
	    cmocka_unit_test_setup(engine__lands_in_blanks, begin),
	    cmocka_unit_test_setup(engine__sends_large_bodies_from_where_they_are, begin),
	    cmocka_unit_test_setup(engine__a_device_that_keeps_what_was_lent_is_gone, begin),
	    cmocka_unit_test_setup(engine__devices_of_paths, begin),
	    cmocka_unit_test_setup(engine__an_interface_that_is_made_again, begin),
	    cmocka_unit_test_setup(engine__an_interface_whose_mac_address_changes, begin),
	    cmocka_unit_test_setup(engine__says_what_is_missing, begin),
	    cmocka_unit_test(device__says_what_it_lacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
