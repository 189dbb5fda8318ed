/* SPDX-License-Identifier: Apache-2.0 */
#include "lan_engine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/util/log.h"
#include "burst_ring.h"
#include "lan_device.h"
#include "lan_match.h"
#include "lan_port.h"
#include "nic_engine.h"

/* Theory of operation
 *
 * A device hands over every frame that reaches it. lan_match() picks the frames that a packet socket's filter would
 * have let through; all others are counted and dropped, because the kernel has its own copy, or must not have one.
 *
 * A device has no descriptor: the worker polls it (worker.c). Frames that come while no link has the device stay in its
 * ring; the next link drops them first, because hosts have given up waiting for them.
 *
 * A link lends its arena to its devices (engine_lend()). A device then writes frames into blanks of the core, and the
 * core keeps a blank with a large packet in it and gives another slot for it. On the way out a packet's body is pinned
 * (proxy_lan_pin()) when its frame is handed to the device, and unpinned when the device has read it. Small bodies are
 * copied, because a second and a third mbuf cost more than the copy. All pins of a batch are taken before its first
 * frame is sent: proxy_lan_unpin() may run while the device takes frames. */

#define HUGEPAGES     "/sys/kernel/mm/hugepages"
#define DEVICES_MAX   64
#define STALE_MAX     65536 /* most old frames that a link drops when it takes a device */
#define NETDEV_DRIVER "net_af_packet" /* its socket is bound to one interface and is lost with it */
#define DEVICE_MIB    40   /* of huge pages: mbufs for the rings of a device */
#define PIN_BYTES     1024 /* a shorter body is copied */

struct device {
	char name[LAN_DEVICE_MAX];
	struct nic_device *nic; /* NULL: err says why */
	char err[LAN_ENGINE_ERR_MAX];
	unsigned mtu;
	bool lends; /* it is a device of LanDevice=: lend() may be called */
	bool taken;
	struct nic_stats before; /* counts when it was taken */
};

static struct {
	const struct nic_engine *nic; /* NULL: err says why */
	char err[LAN_ENGINE_ERR_MAX];
	struct device device[DEVICES_MAX];
	uint32_t ndevices;
} engine = {.err = "no link had Engine=dpdk when longreachd started: restart longreachd"};

/* --- the plugin --- */

static const struct nic_engine *load_plugin(const struct lan_engine_options *o, char *err, size_t errlen)
{
	const struct nic_engine *(*table)(void), *nic;
	char path[512];
	void *handle;

	snprintf(path, sizeof(path), "%s/" LAN_ENGINE_PLUGIN, o->plugins);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		snprintf(err, errlen, "Engine=dpdk: cannot load the plugin (package longreach-dpdk): %.300s", dlerror());
		return NULL;
	}
	*(void **)&table = dlsym(handle, NIC_ENGINE_SYMBOL);
	nic = table ? table() : NULL;
	if (nic && nic->abi == NIC_ENGINE_ABI)
		return nic;
	snprintf(err, errlen,
	         "Engine=dpdk: %.300s is of another version of longreach (plugin interface %u, expected %u): install "
	         "longreach-dpdk of this version",
	         path, nic ? nic->abi : 0, NIC_ENGINE_ABI);
	dlclose(handle);
	return NULL;
}

/* Free huge pages of all sizes, in MiB. */
static uint64_t free_huge_mib(void)
{
	DIR *dir = opendir(HUGEPAGES);
	uint64_t mib = 0;

	for (struct dirent *e; dir && (e = readdir(dir));) {
		unsigned long kib, count;
		char path[512];
		FILE *f;

		if (sscanf(e->d_name, "hugepages-%lukB", &kib) != 1)
			continue;
		snprintf(path, sizeof(path), HUGEPAGES "/%.200s/free_hugepages", e->d_name);
		f = fopen(path, "re");
		if (f && fscanf(f, "%lu", &count) == 1)
			mib += (uint64_t)kib * count / 1024;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return mib;
}

static int check_memory(const struct lan_engine_options *o, uint32_t devices, char *err, size_t errlen)
{
	uint64_t mib;

	if (strstr(o->arguments, "--no-huge"))
		return 0;
	mib = free_huge_mib();
	if (mib >= (uint64_t)DEVICE_MIB * devices)
		return 0;
	if (mib == 0)
		snprintf(err, errlen,
		         "Engine=dpdk: no huge page is free: expected vm.nr_hugepages= of 64 or more (sysctl), or "
		         "longreachd --eal='--no-huge -m 512', which is slower");
	else
		snprintf(err, errlen, "Engine=dpdk: %llu MiB of huge pages are free: expected %llu, %d for each device "
		         "(sysctl vm.nr_hugepages)",
		         (unsigned long long)mib, (unsigned long long)DEVICE_MIB * devices, DEVICE_MIB);
	return -ENOENT;
}

/* --- devices --- */

static struct device *find_device(const char *name)
{
	for (uint32_t i = 0; i < engine.ndevices; i++)
		if (strcmp(engine.device[i].name, name) == 0)
			return &engine.device[i];
	return NULL;
}

/* A device that two links name is listed once; the second link gets an error when it starts. */
static struct device *list_device(const char *name, unsigned *npci)
{
	struct device *d = find_device(name);

	if (d || engine.ndevices == DEVICES_MAX)
		return d;
	d = &engine.device[engine.ndevices++];
	snprintf(d->name, sizeof(d->name), "%s", name);
	*npci += lan_device_is_pci(name);
	return d;
}

static void list_devices(const struct link_config *c, unsigned *npci)
{
	for (uint32_t i = 0; i < c->nlan_devices; i++) {
		struct device *d = list_device(c->lan_devices[i], npci);

		if (d)
			d->lends = true;
		if (d && d->mtu < LAN_PKT_MAX)
			d->mtu = LAN_PKT_MAX;
	}
	for (uint32_t i = 0; i < c->nwan_devices; i++) {
		struct device *d = list_device(c->wan_devices[i], npci);

		if (d && d->mtu < c->paths[i].mtu)
			d->mtu = c->paths[i].mtu;
	}
}

static void open_devices(const struct nic_engine *nic)
{
	for (uint32_t i = 0; i < engine.ndevices; i++) {
		struct device *d = &engine.device[i];
		const struct nic_wanted w = {.devargs = d->name, .mtu = d->mtu, .lends = d->lends};

		if (nic->open(&d->nic, &w, d->err, sizeof(d->err)) == 0) {
			log_notice("%s: device %s is open", nic->name(), d->name);
			continue;
		}
		d->nic = NULL;
		log_err("%s", d->err);
	}
}

void lan_engine_start(const struct lan_engine_options *o, const struct link_config *links, uint32_t n)
{
	const struct nic_engine *nic;
	unsigned npci = 0;

	for (uint32_t i = 0; i < n; i++)
		if (links[i].engine != ENGINE_PACKET)
			list_devices(&links[i], &npci);
	if (engine.ndevices == 0)
		return;
	engine.err[0] = '\0';
	nic = load_plugin(o, engine.err, sizeof(engine.err));
	if (nic && check_memory(o, 1, engine.err, sizeof(engine.err)) == 0 &&
	    nic->start(o->arguments, npci, engine.err, sizeof(engine.err)) == 0)
		engine.nic = nic;
	if (engine.nic)
		open_devices(nic);
	else
		log_err("%s", engine.err);
}

/* config_check.c refuses any other driver earlier. */
static int check_wan_device(const char *device, char *err)
{
	char ifname[IF_NAMESIZE];
	int r = lan_device_check("", "WanDevice", device, err, LAN_ENGINE_ERR_MAX);

	if (r < 0 || !config_device_word(device, "iface", ifname, sizeof(ifname)) || if_nametoindex(ifname) != 0)
		return r;
	snprintf(err, LAN_ENGINE_ERR_MAX, "WanDevice=%s: no such interface: %s", device, ifname);
	return -ENOENT;
}

int lan_engine_check(const struct lan_engine_options *o, const struct link_config *c, char *err)
{
	int r;

	if (c->engine == ENGINE_PACKET)
		return 0;
	if (!load_plugin(o, err, LAN_ENGINE_ERR_MAX))
		return -ENOENT;
	r = check_memory(o, c->nlan_devices + c->nwan_devices, err, LAN_ENGINE_ERR_MAX);
	for (uint32_t i = 0; r == 0 && i < c->nlan_devices; i++)
		r = lan_device_check("", "LanDevice", c->lan_devices[i], err, LAN_ENGINE_ERR_MAX);
	for (uint32_t i = 0; r == 0 && i < c->nwan_devices; i++)
		r = check_wan_device(c->wan_devices[i], err);
	return r;
}

void lan_engine_stop(void)
{
	if (engine.nic)
		engine.nic->stop();
	engine.nic = NULL;
}

/* --- who has a device --- */

static void forget_frame(void *arg, const uint8_t *frame, size_t len, uint16_t stripped_tci, struct nic_place *place)
{
	(void)arg;
	(void)place;
	(void)frame;
	(void)len;
	(void)stripped_tci;
}

int lan_engine_take(const char *key, const char *device, const struct nic_engine **nic_engine, struct nic_device **nic,
                    char *err, size_t errlen)
{
	struct device *d = find_device(device);

	if (!engine.nic) {
		snprintf(err, errlen, "%s", engine.err);
		return -ENODEV;
	}
	if (!d) {
		snprintf(err, errlen,
		         "%s=%s was in no link file when longreachd started, and longreachd has no right any more to "
		         "open a device: restart longreachd",
		         key, device);
		return -ENODEV;
	}
	if (!d->nic) {
		snprintf(err, errlen, "%s", d->err);
		return -ENODEV;
	}
	if (d->taken) {
		snprintf(err, errlen,
		         "its device in %s= is in use by another link: expected a device of another interface, or "
		         "Engine=packet in one of the two links",
		         key);
		return -EBUSY;
	}
	d->taken = true;
	*nic_engine = engine.nic;
	*nic = d->nic;
	for (unsigned n = 0, got = 1; got && n < STALE_MAX; n += got)
		got = engine.nic->rx(d->nic, LAN_TX_BATCH, forget_frame, NULL);
	engine.nic->stats(d->nic, &d->before);
	return 0;
}

/* A driver may begin its counts anew. */
static uint64_t since(uint64_t before, uint64_t now)
{
	return now >= before ? now - before : now;
}

void lan_engine_stats(const char *device, struct nic_stats *s)
{
	const struct device *d = find_device(device);
	struct nic_stats now;

	engine.nic->stats(d->nic, &now);
	*s = (struct nic_stats){.rx_missed = since(d->before.rx_missed, now.rx_missed),
	                        .rx_split = since(d->before.rx_split, now.rx_split),
	                        .tx_errors = since(d->before.tx_errors, now.tx_errors),
	                        .tx_lost = since(d->before.tx_lost, now.tx_lost)};
}

void lan_engine_give_back(const char *device)
{
	struct device *d = find_device(device);

	if (d)
		d->taken = false;
}

/* --- a port --- */

struct lan_port {
	struct device *device;
	struct nic_device *nic;
	struct lan_filter_spec filter;
	/* copies of the link's lists and the groups' addresses: the caller's are gone when open() returns */
	struct ip_prefix local[PREFIXES_MAX], remote[PREFIXES_MAX];
	uint8_t mac[LAN_MAC_LEN];
	_Atomic uint64_t mac_bits; /* the same, for other threads */
	_Atomic int ifindex;
	lan_rx_fn fn;
	void *arg;
	struct lan_lend lent; /* core NULL: nothing is lent */
	uint64_t truncated, not_ours;
	struct burst_ring bursts;
	struct timespec looked; /* when the batch was taken, the best time of a frame that devices give; 0: no batch
	                         * yet */
};

/* Reads index and MAC address of the interface, which stays with the kernel. bound_to: the only index that is right, 0:
 * any is. */
static int read_interface(struct lan_port *p, const char *ifname, int bound_to)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = fd < 0 ? -errno : 0;
	struct ifreq ifr = {0};
	uint64_t bits = 0;
	int ifindex = 0;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	if (r == 0 && ioctl(fd, SIOCGIFINDEX, &ifr) < 0)
		r = -errno;
	ifindex = ifr.ifr_ifindex;
	if (r == 0 && bound_to != 0 && ifindex != bound_to)
		r = -EOPNOTSUPP;
	if (r == 0 && ioctl(fd, SIOCGIFHWADDR, &ifr) < 0)
		r = -errno;
	if (r == 0 && ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER)
		r = -EMEDIUMTYPE;
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return r;
	memcpy(p->mac, ifr.ifr_hwaddr.sa_data, sizeof(p->mac));
	for (unsigned i = 0; i < sizeof(p->mac); i++)
		bits = bits << 8 | p->mac[i];
	atomic_store_explicit(&p->mac_bits, bits, memory_order_relaxed);
	atomic_store_explicit(&p->ifindex, ifindex, memory_order_relaxed);
	return 0;
}

static int take_device(struct lan_port *p, const struct lan_port_params *params, char *err, size_t errlen)
{
	const char *name = params->device ? params->device : "";
	const struct nic_engine *nic;
	char why[LAN_ENGINE_ERR_MAX];
	int r = lan_engine_take("LanDevice", name, &nic, &p->nic, why, sizeof(why));

	if (r < 0)
		snprintf(err, errlen, "LAN port %s: %s", params->ifname, why);
	else
		p->device = find_device(name);
	return r;
}

/* --- what is lent --- */

static bool lend_blank(void *arg, struct nic_place *out)
{
	struct lan_port *p = arg;

	out->tag = proxy_blank(p->lent.core);
	if (out->tag == SLOT_NONE)
		return false;
	out->at = proxy_blank_data(p->lent.core, out->tag);
	return true;
}

static void blank_back(void *arg, uint32_t tag)
{
	struct lan_port *p = arg;

	proxy_blank_return(p->lent.core, tag);
}

static void body_back(void *arg, uint32_t tag)
{
	struct lan_port *p = arg;

	proxy_lan_unpin(p->lent.core, tag);
}

static int engine_lend(struct lan_port *p, const struct lan_lend *l, char *err, size_t errlen)
{
	struct nic_lender lender = {.arg = p,
	                            .place = lend_blank,
	                            .place_back = blank_back,
	                            .part_back = body_back};
	int r;

	_Static_assert(NIC_PLACE_BYTES == PROXY_BLANK_BYTES && NIC_PLACE_HEADROOM == ARENA_HEADROOM,
	               "a blank is a place of a device");
	p->lent = *l;
	r = engine.nic->lend(p->nic, &lender, err, errlen);
	if (r < 0)
		p->lent.core = NULL;
	return r;
}

static void take_back(struct lan_port *p)
{
	char err[LAN_ENGINE_ERR_MAX];

	if (!p->lent.core || engine.nic->take_back(p->nic, err, sizeof(err)) == 0)
		return;
	log_err("%s", err);
	p->device->nic = NULL;
	snprintf(p->device->err, sizeof(p->device->err), "%s", err);
}

static void engine_close(struct lan_port *p)
{
	if (p->device && !p->lent.core)
		engine.nic->tx_drop(p->nic); /* or the link's next life would send what this one kept */
	take_back(p);
	if (p->device)
		p->device->taken = false;
	burst_ring_free(&p->bursts);
	free(p);
}

/* Lanes are not checked here, so the aliases, which only lanes depend on, are not copied. */
static void copy_filter(struct lan_port *p, const struct lan_filter_spec *f)
{
	p->filter = *f;
	p->filter.alias = NULL;
	p->filter.naliases = 0;
	memcpy(p->local, f->local, f->nlocal * sizeof(*f->local));
	memcpy(p->remote, f->remote, f->nremote * sizeof(*f->remote));
	p->filter.local = p->local;
	p->filter.remote = p->remote;
}

static int engine_open(struct lan_port **port, const struct lan_port_params *params, char *err, size_t errlen)
{
	struct lan_port *p = calloc(1, sizeof(*p));
	int r;

	if (!p || !burst_ring_init(&p->bursts)) {
		snprintf(err, errlen, "LAN port %s: out of memory", params->ifname);
		free(p);
		return -ENOMEM;
	}
	copy_filter(p, &params->filter);
	r = read_interface(p, params->ifname, 0);
	if (r == -EMEDIUMTYPE)
		snprintf(err, errlen, "LAN port %s: is not an Ethernet interface", params->ifname);
	else if (r < 0)
		snprintf(err, errlen, "LAN port %s: no such interface: %s", params->ifname, strerror(-r));
	else
		r = take_device(p, params, err, errlen);
	if (r < 0) {
		engine_close(p);
		return r;
	}
	*port = p;
	return 0;
}

static int engine_rebind(struct lan_port *p, const char *ifname)
{
	bool bound = strncmp(p->device->name, NETDEV_DRIVER, strlen(NETDEV_DRIVER)) == 0;

	return read_interface(p, ifname, bound ? atomic_load_explicit(&p->ifindex, memory_order_relaxed) : 0);
}

static int engine_ifindex(const struct lan_port *p)
{
	return atomic_load_explicit(&p->ifindex, memory_order_relaxed);
}

static uint64_t engine_mac(const struct lan_port *p)
{
	return atomic_load_explicit(&p->mac_bits, memory_order_relaxed);
}

static int engine_fd(const struct lan_port *p)
{
	(void)p;
	return -1;
}

/* Only the pause thread calls this, and Engine=dpdk has none (config_check.c). */
static bool engine_rx_waits(const struct lan_port *p, uint32_t frames)
{
	(void)p;
	(void)frames;
	return false;
}

/* Hands a blank with a packet to the core, which puts the blank to be filled next into *place. */
static void on_landed(struct lan_port *p, const struct lan_matched *m, struct nic_place *place)
{
	uint32_t slot = place->tag;

	p->lent.fn(p->arg, &slot, (uint16_t)(m->l3 - place->at), m->len, m->vlan_tci);
	if (slot == place->tag)
		return;
	place->tag = slot;
	place->at = proxy_blank_data(p->lent.core, slot);
}

static void on_frame(void *arg, const uint8_t *frame, size_t len, uint16_t stripped_tci, struct nic_place *place)
{
	struct lan_port *p = arg;
	struct lan_matched m;

	switch (lan_match(&p->filter, p->mac, frame, len, stripped_tci, &m)) {
	case LAN_OURS:
		if (p->looked.tv_sec == 0)
			clock_gettime(CLOCK_REALTIME, &p->looked);
		burst_ring_add(&p->bursts, (uint32_t)p->looked.tv_sec, (uint32_t)p->looked.tv_nsec,
		               burst_priority(m.l3, m.vlan_tci), (uint32_t)len);
		if (place)
			on_landed(p, &m, place);
		else
			p->fn(p->arg, m.l3, m.len, m.vlan_tci);
		break;
	case LAN_NOT_OURS:
		p->not_ours++;
		break;
	case LAN_TOO_LONG:
		p->truncated++;
		break;
	}
}

static unsigned engine_rx_batch(struct lan_port *p, unsigned budget, lan_rx_fn fn, void *arg)
{
	p->fn = fn;
	p->arg = arg;
	p->looked.tv_sec = 0;
	return engine.nic->rx(p->nic, budget, on_frame, p);
}

static void add_part(struct nic_frame *f, const void *bytes, size_t len)
{
	if (len)
		f->part[f->nparts++] = (struct iovec){(void *)(uintptr_t)bytes, len};
}

static bool pin_body(struct lan_port *p, const struct lan_tx *t)
{
	return p->lent.core && t->body_len >= PIN_BYTES && proxy_lan_pin(p->lent.core, t);
}

static void engine_tx_batch(struct lan_port *p, const struct lan_frame *const *frames, unsigned n)
{
	struct nic_frame out[LAN_TX_BATCH];

	_Static_assert(LAN_TX_BATCH <= NIC_TX_BATCH, "a plugin takes a batch whole");
	for (unsigned i = 0; i < n; i++) {
		const struct lan_frame *f = frames[i];

		out[i].nparts = 0;
		add_part(&out[i], f->eth, f->eth_len);
		add_part(&out[i], f->pkt.hdr, f->pkt.hdr_len);
		out[i].lent = pin_body(p, &f->pkt) ? out[i].nparts : NIC_NO_PART;
		out[i].tag = f->pkt.slot;
		add_part(&out[i], f->pkt.body, f->pkt.body_len);
		add_part(&out[i], f->pkt.trailer, f->pkt.trailer_len);
	}
	engine.nic->tx(p->nic, out, n);
}

static bool engine_tx_blocked(const struct lan_port *p)
{
	return engine.nic->tx_pending(p->nic);
}

static void engine_tx_retry(struct lan_port *p)
{
	engine.nic->tx_retry(p->nic);
}

static void engine_tx_drop(struct lan_port *p)
{
	engine.nic->tx_drop(p->nic);
}

static void engine_stats(struct lan_port *p, struct lan_port_stats *s)
{
	struct nic_stats nic;

	lan_engine_stats(p->device->name, &nic);
	*s = (struct lan_port_stats){.rx_ring_drops = nic.rx_missed,
	                             .rx_truncated = p->truncated + nic.rx_split,
	                             .rx_not_ours = p->not_ours,
	                             .tx_errors = nic.tx_errors + nic.tx_lost};
	burst_ring_flush(&p->bursts);
}

static const struct burst_ring *engine_bursts(const struct lan_port *p)
{
	return &p->bursts;
}

const struct lan_port_ops lan_engine_ops = {
    .name = "dpdk",
    .open = engine_open,
    .rebind = engine_rebind,
    .ifindex = engine_ifindex,
    .mac = engine_mac,
    .fd = engine_fd,
    .rx_waits = engine_rx_waits,
    .lend = engine_lend,
    .rx_batch = engine_rx_batch,
    .tx_batch = engine_tx_batch,
    .tx_blocked = engine_tx_blocked,
    .tx_retry = engine_tx_retry,
    .tx_drop = engine_tx_drop,
    .stats = engine_stats,
    .bursts = engine_bursts,
    .close = engine_close,
};
