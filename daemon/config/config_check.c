/* SPDX-License-Identifier: Apache-2.0 */
/* config_check.c - the rules between the keys of a link file, and between link files. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/addr.h"
#include "config_keys.h"
#include "daemon/util/units.h"

#define ROCE_PORT_TAKEN 4791

struct check {
	const struct link_config *c;
	uint32_t path; /* the path that is being checked */
	bool *bad;
	config_blame_fn *fn;
	void *arg;
};

static void blame(struct check *ck, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void blame(struct check *ck, const char *name, const char *fmt, ...)
{
	char why[CONFIG_WHY_MAX * 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	ck->fn(ck->arg, config_key_find(NULL, name), ck->path, why);
}

static bool is_missing(const struct check *ck, const struct config_key *k, uint32_t i)
{
	static const struct link_config nothing;

	return memcmp(config_key_item(k, ck->c, i), config_key_item(k, &nothing, 0), k->item_size) == 0;
}

static void check_key_is_there(struct check *ck, const struct config_key *k)
{
	uint32_t n = config_key_is_of_many(k) ? config_key_count(k, ck->c) : 1;

	if (ck->bad[k - config_keys])
		return;
	for (ck->path = 0; ck->path < n; ck->path++) {
		bool missing = k->flags & KEY_LIST ? config_key_count(k, ck->c) == 0 : is_missing(ck, k, ck->path);

		if (!missing)
			continue;
		blame(ck, k->name, "is missing: expected %s", k->type->expected);
		ck->bad[k - config_keys] = true;
	}
	ck->path = 0;
}

static void check_required(struct check *ck)
{
	for (uint32_t i = 0; i < config_nkeys; i++)
		if (config_keys[i].flags & KEY_REQUIRED)
			check_key_is_there(ck, &config_keys[i]);
}

static void check_ports(struct check *ck)
{
	for (uint32_t i = 0; i < ck->c->nlan_ports; i++)
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(ck->c->lan_ports[i], ck->c->lan_ports[j]) == 0)
				blame(ck, "LanPort", "%s is named twice", ck->c->lan_ports[i]);
}

static void check_engine(struct check *ck)
{
	const struct link_config *c = ck->c;

	if (c->engine == ENGINE_PACKET) {
		if (c->nlan_devices != 0)
			blame(ck, "LanDevice", "is for Engine=dpdk: expected Engine=dpdk too");
		return;
	}
	if (c->nlan_devices != c->nlan_ports)
		blame(ck, "LanDevice", "names %u devices for %u interfaces of LanPort=: expected one for each",
		      c->nlan_devices, c->nlan_ports);
	for (uint32_t i = 0; i < c->nlan_devices; i++)
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(c->lan_devices[i], c->lan_devices[j]) == 0)
				blame(ck, "LanDevice", "%.60s is named twice", c->lan_devices[i]);
	if (c->workers != 1)
		blame(ck, "Workers", "is %u: Engine=dpdk has one queue for each device: expected 1", c->workers);
	if (c->pfc != 0)
		blame(ck, "Pfc", "is for the receive ring of Engine=packet: expected off with Engine=dpdk");
}

/* --- devices --- */

#define WAN_DRIVER        "net_af_packet"
#define RING_FRAME        2048 /* bytes, if framesz= is not given; blocksz= is a page then */
#define RING_FRAMES       512  /* if framecnt= is not given */
#define RING_FRAME_OFFSET 66   /* of the Ethernet frame in a frame of a TPACKET_V2 ring, bytes */
#define RING_FRAME_ALIGN  16   /* TPACKET_ALIGNMENT */
#define ETH_HDR           14
#define ROCE_MOST         4180 /* PMTU 4096, IPv6, UDP, BTH, RETH, ImmDt, ICRC */

static bool is_driver(const char *device, const char *driver)
{
	size_t len = strlen(driver);

	return strncmp(device, driver, len) == 0 && isdigit((unsigned char)device[len]);
}

/* True for a device that is a packet socket of the kernel's. DPDK needs no number in a name, and has an older one. */
static bool is_packet_device(const char *device)
{
	return strncmp(device, WAN_DRIVER, strlen(WAN_DRIVER)) == 0 ||
	       strncmp(device, "eth_af_packet", strlen(WAN_DRIVER)) == 0;
}

/* True for two net_af_packet devices of one interface. The driver puts all its sockets on an interface into one group
 * (PACKET_FANOUT), and the kernel gives each frame to one socket of the group: each device would lack the frames that
 * the other one got. `ifname` is the interface. */
static bool devices_share_frames(const char *a, const char *b, char ifname[LAN_DEVICE_MAX])
{
	char other[LAN_DEVICE_MAX];

	return strcmp(a, b) != 0 && is_packet_device(a) && is_packet_device(b) &&
	       config_device_word(a, "iface", ifname, LAN_DEVICE_MAX) &&
	       config_device_word(b, "iface", other, sizeof(other)) && strcmp(ifname, other) == 0;
}

/* Those of LanDevice=, then those of WanDevice=. */
static const char *link_device(const struct link_config *c, uint32_t i, const char **key)
{
	bool lan = i < c->nlan_devices;

	*key = lan ? "LanDevice" : "WanDevice";
	return lan ? c->lan_devices[i] : c->wan_devices[i - c->nlan_devices];
}

static void check_queues(struct check *ck, const char *key, const char *device)
{
	static const char *const words[] = {"qpairs", "queues"};
	char n[LAN_DEVICE_MAX];

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (config_device_word(device, words[i], n, sizeof(n)) && strcmp(n, "1") != 0)
			blame(ck, key,
			      "%.60s: %s=%.8s: Engine=dpdk reads one queue of a device: expected %s=1, or nothing",
			      device, words[i], n, words[i]);
}

static void check_devices(struct check *ck)
{
	const struct link_config *c = ck->c;
	char ifname[LAN_DEVICE_MAX];

	for (uint32_t i = 0; c->engine != ENGINE_PACKET && i < c->nlan_devices + c->nwan_devices; i++) {
		const char *key, *other_key, *device = link_device(c, i, &key);

		check_queues(ck, key, device);
		for (uint32_t j = 0; j < i; j++) {
			const char *other = link_device(c, j, &other_key);

			if (devices_share_frames(device, other, ifname))
				blame(ck, key,
				      "%.60s: iface=%.15s is of %s=%.60s too, and the kernel would give each frame to "
				      "one of the two alone: expected one device for each interface",
				      device, ifname, other_key, other);
		}
	}
}

struct ring {
	unsigned long frame_bytes, block_bytes, frames;
};

/* Reads a number of the driver's arguments. Keeps *value if the device has no such argument. False: an error was
 * reported. */
static bool read_argument(struct check *ck, const char *key, const char *device, const char *word, unsigned long *value)
{
	char text[LAN_DEVICE_MAX], *end;

	if (!config_device_word(device, word, text, sizeof(text)))
		return true;
	*value = strtoul(text, &end, 10);
	if (isdigit((unsigned char)text[0]) && *end == '\0' && *value > 0 && *value <= INT_MAX)
		return true;
	blame(ck, key, "%.60s: %s=%.20s: expected a number above 0", device, word, text);
	return false;
}

static bool read_ring(struct check *ck, const char *key, const char *device, struct ring *r)
{
	*r = (struct ring){RING_FRAME, (unsigned long)sysconf(_SC_PAGESIZE), RING_FRAMES};
	return read_argument(ck, key, device, "framesz", &r->frame_bytes) &&
	       read_argument(ck, key, device, "blocksz", &r->block_bytes) &&
	       read_argument(ck, key, device, "framecnt", &r->frames);
}

/* The least block of whole pages and whole frames. */
static unsigned long least_block(unsigned long frame_bytes)
{
	unsigned long page = (unsigned long)sysconf(_SC_PAGESIZE), a = frame_bytes, b = page;

	while (b != 0) {
		unsigned long rest = a % b;

		a = b;
		b = rest;
	}
	return frame_bytes / a * page;
}

/* The driver takes a ring for frames that lie one behind the other: with room left at the end of a block it would read
 * and write frames at wrong places. The kernel refuses blocks that are not whole pages, and a ring that is not whole
 * blocks. */
static void check_ring(struct check *ck, const char *key, const char *device, const struct ring *r)
{
	unsigned long block = least_block(r->frame_bytes);

	if (r->frame_bytes % RING_FRAME_ALIGN != 0)
		blame(ck, key, "%.60s: framesz=%lu: expected a multiple of %d", device, r->frame_bytes,
		      RING_FRAME_ALIGN);
	else if (r->block_bytes % block != 0)
		blame(ck, key,
		      "%.60s: blocks of %lu bytes are not whole pages with whole frames of framesz=%lu: expected "
		      "blocksz=%lu, or a multiple of that",
		      device, r->block_bytes, r->frame_bytes, block);
	else if (r->frames % (r->block_bytes / r->frame_bytes) != 0)
		blame(ck, key,
		      "%.60s: %lu frames are not whole blocks: expected framecnt= a multiple of %lu, which blocksz= "
		      "holds",
		      device, r->frames, r->block_bytes / r->frame_bytes);
}

/* The least framesz= for IP packets of so many bytes: the driver silently drops longer ones. */
static unsigned long least_frame(unsigned long mtu)
{
	return (mtu + ETH_HDR + RING_FRAME_OFFSET + RING_FRAME_ALIGN - 1) / RING_FRAME_ALIGN * RING_FRAME_ALIGN;
}

/* Checks the ring of a device for IP packets of so many bytes: `packets` names them, `such_as` ends the sentence. */
static void check_ring_for(struct check *ck, const char *key, const char *device, unsigned long bytes,
                           const char *packets, const char *such_as)
{
	unsigned long least = least_frame(bytes);
	struct ring r;

	if (!read_ring(ck, key, device, &r))
		return;
	if (r.frame_bytes >= least)
		check_ring(ck, key, device, &r);
	else
		blame(ck, key, "%.60s: frames of %lu bytes do not hold packets of %s: expected framesz=%lu or more%s",
		      device, r.frame_bytes, packets, least, such_as);
}

static void check_lan_device(struct check *ck, const char *device, const char *port)
{
	char ifname[LAN_DEVICE_MAX], such_as[64];

	if (!is_packet_device(device))
		return;
	if (!config_device_word(device, "iface", ifname, sizeof(ifname)) || strcmp(ifname, port) != 0)
		blame(ck, "LanDevice", "%.60s: expected iface=%s, as LanPort= names that interface at the same place",
		      device, port);
	snprintf(such_as, sizeof(such_as), ", such as framesz=4288,blocksz=%lu", least_block(4288));
	check_ring_for(ck, "LanDevice", device, ROCE_MOST, "PMTU 4096", such_as);
}

static void check_lan_devices(struct check *ck)
{
	const struct link_config *c = ck->c;

	for (uint32_t i = 0; c->engine != ENGINE_PACKET && i < c->nlan_devices && i < c->nlan_ports; i++)
		check_lan_device(ck, c->lan_devices[i], c->lan_ports[i]);
}

static void check_wan_ring(struct check *ck, const char *device, uint32_t mtu)
{
	char packets[16];

	snprintf(packets, sizeof(packets), "MTU=%u", mtu);
	check_ring_for(ck, "WanDevice", device, mtu, packets, "");
}

static void check_wan_device(struct check *ck, uint32_t path)
{
	const char *device = ck->c->wan_devices[path];
	char ifname[IF_NAMESIZE];

	if (!is_driver(device, WAN_DRIVER)) {
		blame(ck, "WanDevice",
		      "%.60s: the kernel would hear neither ARP nor the control channel beside this device: expected "
		      "net_af_packet and a number",
		      device);
		return;
	}
	if (!config_device_word(device, "iface", ifname, sizeof(ifname)))
		blame(ck, "WanDevice", "%.60s: expected iface= and the interface that has LocalAddress=", device);
	for (uint32_t i = 0; i < ck->c->nlan_devices; i++)
		if (strcmp(device, ck->c->lan_devices[i]) == 0)
			blame(ck, "WanDevice",
			      "%.60s is a device of LanDevice= too: expected one with iface= and the interface that "
			      "has LocalAddress=",
			      device);
	check_wan_ring(ck, device, ck->c->paths[path].mtu);
}

static void check_wan_devices(struct check *ck)
{
	const struct link_config *c = ck->c;

	if (c->nwan_devices == 0)
		return;
	if (c->engine == ENGINE_PACKET) {
		blame(ck, "WanDevice", "is for Engine=dpdk: expected Engine=dpdk too");
		return;
	}
	if (c->nwan_devices != c->npaths) {
		blame(ck, "WanDevice", "names %u devices for %u paths: expected one for each", c->nwan_devices, c->npaths);
		return;
	}
	for (uint32_t i = 0; i < c->nwan_devices; i++)
		check_wan_device(ck, i);
}

/* Every prefix of both lists against every other. */
static void check_prefixes(struct check *ck)
{
	const struct link_config *c = ck->c;
	char a[ADDR_TEXT_MAX], b[ADDR_TEXT_MAX];

	for (uint32_t i = 0; i < c->nlocal + c->nremote; i++) {
		const struct ip_prefix *p = i < c->nlocal ? &c->local[i] : &c->remote[i - c->nlocal];

		for (uint32_t j = 0; j < i; j++) {
			const struct ip_prefix *q = j < c->nlocal ? &c->local[j] : &c->remote[j - c->nlocal];

			if (addr_prefixes_overlap(p, q))
				blame(
				    ck, i < c->nlocal ? "LocalPrefix" : "RemotePrefix",
				    "%s overlaps %s=%s: a host is at one site only", addr_write_prefix(p, a, sizeof(a)),
				    j < c->nlocal ? "LocalPrefix" : "RemotePrefix", addr_write_prefix(q, b, sizeof(b)));
		}
	}
}

/* True if a pair's prefix lies within one of that side's: otherwise the pair would never match a host. */
static bool within(const struct ip_prefix *p, const struct ip_prefix *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (addr_prefixes_overlap(p, &list[i]))
			return true;
	return false;
}

static void check_pair_modes(struct check *ck)
{
	const struct link_config *c = ck->c;
	char t[ADDR_TEXT_MAX];

	for (uint32_t i = 0; i < c->npair_modes; i++) {
		const struct pair_mode *pm = &c->pair_modes[i];

		if (!within(&pm->local, c->local, c->nlocal))
			blame(ck, "PairAckMode",
			      "%s has no address of LocalPrefix=", addr_write_prefix(&pm->local, t, sizeof(t)));
		if (!within(&pm->remote, c->remote, c->nremote))
			blame(ck, "PairAckMode",
			      "%s has no address of RemotePrefix=", addr_write_prefix(&pm->remote, t, sizeof(t)));
	}
}

/* All addresses of a machine must be at one site. */
static void check_host_groups(struct check *ck)
{
	const struct link_config *c = ck->c;
	char t[ADDR_TEXT_MAX];

	for (uint32_t g = 0; g < c->nhost_groups; g++) {
		const struct host_group *group = &c->host_groups[g];
		bool local = ip_prefix_any(c->local, c->nlocal, &group->addr[0]);

		for (uint32_t i = 0; i < group->n; i++) {
			addr_write(&group->addr[i], t, sizeof(t));
			if (!ip_prefix_any(c->local, c->nlocal, &group->addr[i]) &&
			    !ip_prefix_any(c->remote, c->nremote, &group->addr[i]))
				blame(ck, "Group", "%s is neither in LocalPrefix= nor in RemotePrefix=", t);
			else if (ip_prefix_any(c->local, c->nlocal, &group->addr[i]) != local)
				blame(ck, "Group", "%s is not at the same site as the others", t);
		}
	}
}

static void check_path(struct check *ck, const struct path_config *c)
{
	if (ip_addr_eq(&c->local, &c->remote))
		blame(ck, "RemoteAddress", "is LocalAddress= too: expected the address of the other edge");
	if (ip_addr_is4(&c->local) != ip_addr_is4(&c->remote))
		blame(ck, "RemoteAddress",
		      "and LocalAddress= are of different families: expected both IPv4 or "
		      "both IPv6");
	if (c->path_mtu > c->mtu)
		blame(ck, "PathMTU", "is more than MTU=%u: expected at most that", c->mtu);
	if (c->port == ROCE_PORT_TAKEN)
		blame(ck, "Port", "4791 is the port of RoCEv2: expected another port, such as 4790");
}

static void check_paths(struct check *ck)
{
	const struct link_config *c = ck->c;

	for (ck->path = 0; ck->path < c->npaths; ck->path++) {
		const struct path_config *p = &c->paths[ck->path];

		check_path(ck, p);
		for (uint32_t j = 0; j < ck->path; j++)
			if (c->paths[j].port == p->port && ip_addr_eq(&c->paths[j].local, &p->local))
				blame(ck, "Port",
				      "%u is taken at this LocalAddress= by [Path %s]: expected another port", p->port,
				      c->paths[j].name);
	}
}

/* A missing key must not let any client in. */
static void check_relay_clients(struct check *ck)
{
	const struct link_config *c = ck->c;
	char t[ADDR_TEXT_MAX];

	if (c->relay && c->nrelay_allow > 0 && !config_relay_listens(c))
		blame(ck, "RelayAllow", "is given without RelayListen=: expected both or neither");
	if (!config_relay_listens(c))
		return;
	if (c->nrelay_allow == 0)
		blame(ck, "RelayListen",
		      "is given without RelayAllow=, so that no client may connect: expected RelayAllow= with hosts "
		      "and their regions");
	for (uint32_t i = 0; i < c->nrelay_allow; i++) {
		const struct ip_prefix *p = &c->relay_allow[i].prefix;
		bool inside = false;

		for (uint32_t j = 0; j < c->nlocal; j++)
			inside |= c->local[j].len <= p->len && ip_prefix_any(&c->local[j], 1, &p->addr);
		addr_write_prefix(p, t, sizeof(t));
		if (!inside)
			blame(ck, "RelayAllow", "%s is not in LocalPrefix=: expected RDMA hosts of this site", t);
	}
}

static void check_exports(struct check *ck)
{
	if (ck->c->nexports > 0 && !ck->c->relay)
		blame(ck, "Enable", "is no, and the file has [Export NAME]: expected Enable=yes, or no [Export NAME]");
}

static void check_workers(struct check *ck)
{
	const struct link_config *c = ck->c;

	if (c->workers > c->lanes)
		blame(ck, "Workers",
		      "is more than Lanes=%u: expected at most that, as a worker without a lane does nothing",
		      c->lanes);
	if (c->ncpus != 0 && c->ncpus != c->workers)
		blame(ck, "CPUs", "names %u CPUs for Workers=%u: expected one for each", c->ncpus, c->workers);
	for (uint32_t i = 0; i < c->ncpus; i++)
		for (uint32_t j = 0; j < i; j++)
			if (c->cpus[i] == c->cpus[j])
				blame(ck, "CPUs", "names %d twice: expected a CPU of its own for each worker",
				      c->cpus[i]);
	if (c->max_flows / c->workers < 16)
		blame(ck, "MaxFlows", "is too little for Workers=%u: expected at least %u", c->workers,
		      c->workers * 16);
}

static void check_times(struct check *ck)
{
	const struct link_config *c = ck->c;
	char t[UNITS_TEXT_MAX];

	if (c->keepalive_ns > c->dead_peer_ns / 2) {
		units_write_time(t, sizeof(t), c->dead_peer_ns);
		blame(
		    ck, "Keepalive",
		    "is more than half of DeadPeer=%s: expected at most half, or one lost keepalive would cut the link",
		    t);
	}
	if (c->lan_timeout_ns >= c->stall_ns) {
		units_write_time(t, sizeof(t), c->stall_ns);
		blame(ck, "LanTimeout",
		      "is not below StallAfter=%s: expected less, or a host would be given up before the first retry",
		      t);
	}
}

/* Either all keys for certificates are given, or a pre-shared key. */
static void check_security(struct check *ck)
{
	const struct link_config *c = ck->c;
	static const char *const bad_too[] = {"Certificate", "Key", "CA", "PeerName", "PSKFile"};
	const struct {
		const char *name, *text;
	} needed[] = {
	    {"Certificate", c->certificate_file}, {"Key", c->key_file}, {"CA", c->ca_file}, {"PeerName", c->peer_name}};
	unsigned given = 0;

	if (c->encryption == SEAL_NONE)
		return;
	for (unsigned i = 0; i < 4; i++)
		given += needed[i].text[0] != '\0';
	for (unsigned i = 0; i < 5; i++)
		if (ck->bad[config_key_find("Security", bad_too[i]) - config_keys])
			return;
	if (given > 0 && c->psk_file[0] != '\0')
		blame(ck, "PSKFile", "is given together with certificates: expected one of the two");
	if (given == 0 && c->psk_file[0] == '\0')
		blame(ck, "Encryption",
		      "is %s, but the file names no keys: `longreach keygen %s` makes them and prints the lines to "
		      "write here; or write Encryption=none if anybody on the line may read and forge everything",
		      seal_cipher_name(c->encryption), c->name);
	for (unsigned i = 0; i < 4 && given > 0 && c->psk_file[0] == '\0'; i++)
		if (needed[i].text[0] == '\0')
			blame(ck, needed[i].name,
			      "is missing: certificates need Certificate=, Key=, CA= and PeerName=");
}

void config_check(const struct link_config *c, bool bad[CONFIG_KEYS_MAX], config_blame_fn *fn, void *arg)
{
	static const struct {
		void (*check)(struct check *);
		const char *about[5]; /* the rule is skipped unless these keys have sound values */
	} rules[] = {
	    {check_required, {NULL}},
	    {check_ports, {"LanPort"}},
	    {check_prefixes, {"LocalPrefix", "RemotePrefix"}},
	    {check_engine, {"Engine", "LanDevice", "LanPort", "Workers", "Pfc"}},
	    {check_lan_devices, {"Engine", "LanDevice", "LanPort"}},
	    {check_devices, {"Engine", "LanDevice", "WanDevice"}},
	    {check_wan_devices, {"Engine", "WanDevice", "LanDevice", "MTU"}},
	    {check_pair_modes, {"PairAckMode", "LocalPrefix", "RemotePrefix"}},
	    {check_host_groups, {"Group", "LocalPrefix", "RemotePrefix"}},
	    {check_paths, {"LocalAddress", "RemoteAddress", "Port", "PathMTU", "MTU"}},
	    {check_workers, {"Workers", "Lanes", "CPUs", "MaxFlows"}},
	    {check_security, {"Encryption", "PSKFile"}},
	    {check_times, {"Keepalive", "DeadPeer", "LanTimeout", "StallAfter"}},
	    {check_exports, {"Enable"}},
	    {check_relay_clients, {"RelayListen", "RelayAllow", "LocalPrefix"}},
	};
	struct check ck = {.c = c, .bad = bad, .fn = fn, .arg = arg};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		bool sound = true;

		for (size_t j = 0; j < 5 && rules[i].about[j] != NULL; j++)
			sound &= !bad[config_key_find(NULL, rules[i].about[j]) - config_keys];
		ck.path = 0;
		if (sound)
			rules[i].check(&ck);
	}
}

/* The hosts' prefixes, which are routed to the edge and into the link, must not contain the line's own addresses. */
static void check_wan_address(const struct link_config *c, struct config_reading *r, const char *key, uint32_t path,
                              const struct ip_addr *a)
{
	char t[ADDR_TEXT_MAX];

	if (!config_is_sound(r, key))
		return;
	addr_write(a, t, sizeof(t));
	for (uint32_t i = 0; i < c->nlocal; i++)
		if (ip_prefix_holds(&c->local[i], a))
			config_blame(r, c, "LocalPrefix", i,
			             "contains %s=%s of %s%s: expected the addresses of RDMA hosts alone", key, t,
			             c->paths[path].name[0] != '\0' ? "path " : "the WAN", c->paths[path].name);
	for (uint32_t i = 0; i < c->nremote; i++)
		if (ip_prefix_holds(&c->remote[i], a))
			config_blame(r, c, "RemotePrefix", i,
			             "contains %s=%s of %s%s: expected the addresses of RDMA hosts alone", key, t,
			             c->paths[path].name[0] != '\0' ? "path " : "the WAN", c->paths[path].name);
}

void config_check_more(const struct link_config *c, struct config_reading *r)
{
	for (uint32_t i = 0; i < c->npaths; i++) {
		check_wan_address(c, r, "LocalAddress", i, &c->paths[i].local);
		check_wan_address(c, r, "RemoteAddress", i, &c->paths[i].remote);
	}
}

/* The first prefix of each that share addresses; false if none do. */
static bool find_overlap(const struct ip_prefix *a, uint32_t na, const struct ip_prefix *b, uint32_t nb,
                         const struct ip_prefix **pa, const struct ip_prefix **pb)
{
	for (uint32_t i = 0; i < na; i++)
		for (uint32_t j = 0; j < nb; j++)
			if (addr_prefixes_overlap(&a[i], &b[j])) {
				*pa = &a[i];
				*pb = &b[j];
				return true;
			}
	return false;
}

/* Two links may share the hosts of one end; a pair of hosts belongs to one link. */
static int check_pairs(const struct link_config *a, const struct link_config *b, char err[CONFIG_ERR_MAX])
{
	const struct ip_prefix *la, *lb, *ra, *rb;
	char ta[ADDR_TEXT_MAX], tb[ADDR_TEXT_MAX];

	if (!find_overlap(a->local, a->nlocal, b->local, b->nlocal, &la, &lb) ||
	    !find_overlap(a->remote, a->nremote, b->remote, b->nremote, &ra, &rb))
		return 0;
	snprintf(err, CONFIG_ERR_MAX,
	         "%.160s: RemotePrefix=%s overlaps RemotePrefix=%s of %.160s, for the same local hosts: expected one "
	         "link for each pair of hosts",
	         b->path, addr_write_prefix(rb, tb, sizeof(tb)), addr_write_prefix(ra, ta, sizeof(ta)), a->path);
	return -EINVAL;
}

/* Two links may name the same device, and one of them runs. */
static int check_devices_of(const struct link_config *a, const struct link_config *b, char err[CONFIG_ERR_MAX])
{
	char ifname[LAN_DEVICE_MAX];

	for (uint32_t i = 0; i < b->nlan_devices + b->nwan_devices; i++) {
		const char *key, *other_key, *device = link_device(b, i, &key);

		for (uint32_t j = 0; j < a->nlan_devices + a->nwan_devices; j++) {
			const char *other = link_device(a, j, &other_key);

			if (!devices_share_frames(device, other, ifname))
				continue;
			snprintf(
			    err, CONFIG_ERR_MAX,
			    "%.120s: %s=%.50s: iface=%.15s is of %s=%.50s of %.120s too, and the kernel would "
			    "give each frame to one of the two alone: expected another interface, or Engine=packet",
			    b->path, key, device, ifname, other_key, other, a->path);
			return -EINVAL;
		}
	}
	return 0;
}

int config_compatible(const struct link_config *a, const struct link_config *b, char err[CONFIG_ERR_MAX])
{
	if (strcmp(a->name, b->name) == 0) {
		snprintf(err, CONFIG_ERR_MAX, "%.200s: %.200s has the same link name: expected another file name",
		         b->path, a->path);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < a->npaths * b->npaths; i++) {
		const struct path_config *pa = &a->paths[i / b->npaths], *pb = &b->paths[i % b->npaths];

		if (ip_addr_eq(&pa->local, &pb->local) && pa->port == pb->port) {
			snprintf(err, CONFIG_ERR_MAX,
			         "%.200s: Port=%u is taken at this LocalAddress= by %.200s: expected another port",
			         b->path, pb->port, a->path);
			return -EINVAL;
		}
	}
	if (check_devices_of(a, b, err) < 0)
		return -EINVAL;
	return check_pairs(a, b, err);
}
