/* SPDX-License-Identifier: Apache-2.0 */
/* config_keys.c - the table of all keys of a link file. */
#include "config_keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define US 1000ull
#define MS (1000 * US)
#define S  (1000 * MS)

#define ONE(field) .offset = offsetof(struct link_config, field), .item_size = sizeof(((struct link_config *)0)->field)
#define PATH(field)                                                                                                   \
	.offset = offsetof(struct link_config, paths[0].field),                                                        \
	.item_size = sizeof(((struct link_config *)0)->paths[0].field)
#define EXPORT(field)                                                                                                 \
	.offset = offsetof(struct link_config, exports[0].field),                                                      \
	.item_size = sizeof(((struct link_config *)0)->exports[0].field)
#define MANY(field, count, max_items)                                                                                  \
	.offset = offsetof(struct link_config, field), .item_size = sizeof(((struct link_config *)0)->field[0]),       \
	.count_offset = offsetof(struct link_config, count), .count_max = (max_items)

const struct config_key config_keys[] = {
    {"Link", "LanPort", &type_port, MANY(lan_ports, nlan_ports, LAN_PORTS_MAX), .flags = KEY_REQUIRED | KEY_LIST,
     .help = "Interfaces towards the hosts of this site. The link takes RoCEv2 between the prefixes below there, and\n"
             "with Barrier=pair all other IP between these prefixes; all other traffic stays with the kernel.\n"},
    {"Link", "LocalPrefix", &type_prefix, MANY(local, nlocal, PREFIXES_MAX), .flags = KEY_REQUIRED | KEY_LIST,
     .help = "Addresses of the RDMA hosts at this site. RemotePrefix= of the other edge names the same.\n"},
    {"Link", "RemotePrefix", &type_prefix, MANY(remote, nremote, PREFIXES_MAX), .flags = KEY_REQUIRED | KEY_LIST,
     .help = "Addresses of the RDMA hosts at the other site.\n"},
    {"Link", "Engine", &type_engine, ONE(engine), .fallback = "packet",
     .help = "How the link receives and sends packets of hosts. packet: packet sockets of the kernel. dpdk: devices\n"
             "of DPDK, by longreach-dpdk.so, while the kernel keeps the interfaces of LanPort= for addresses and next\n"
             "hops. dpdk needs LanDevice=, Workers=1, and processor time even without traffic. See WanDevice= for the\n"
             "WAN.\n"},
    {"Link", "LanDevice", &type_device, MANY(lan_devices, nlan_devices, LAN_PORTS_MAX), .flags = KEY_LIST,
     .help = "With Engine=dpdk: for each interface of LanPort=, in that order, the device of DPDK that leads to the same\n"
             "hosts. Such as 0000:3b:00.0, or net_af_packet0,iface=eth2,framesz=4288,blocksz=274432\n"},
    {"Link", "WanDevice", &type_device, MANY(wan_devices, nwan_devices, PATHS_MAX), .flags = KEY_LIST,
     .help = "With Engine=dpdk: for each path, in the order of their names, the device of DPDK that sends and\n"
             "receives its datagrams. Only net_af_packet, beside which the kernel still receives ARP and the control\n"
             "channel, with iface= of the interface that has LocalAddress=. Such as\n"
             "net_af_packet1,iface=eth3,framesz=9216,blocksz=36864,framecnt=1024\n"
             "Not given: UDP sockets of the kernel.\n"},
    {"Link", "AckMode", &type_ack_mode, ONE(ack_mode), .fallback = "host", .flags = KEY_RELOADABLE,
     .help = "What an ACK to a requester promises. host: the responder itself has acknowledged, as RC promises. far:\n"
             "the bytes are committed in the other edge's buffer, too; they survive the loss of one edge. near: the\n"
             "bytes are committed in this edge's buffer, which survives loss on the WAN, cuts and crashes of the\n"
             "daemons, not the loss of this machine's memory; fast at any distance. Both edges must agree.\n"},
    {"Link", "PairAckMode", &type_pair_mode, MANY(pair_modes, npair_modes, PAIR_MODES_MAX),
     .flags = KEY_LIST | KEY_RELOADABLE,
     .help = "Another mode than AckMode= between some hosts, in both directions: LOCAL~REMOTE=MODE. The first that\n"
             "fits counts. The other edge names the same with the prefixes swapped, in the same order.\n"},
    {"Link", "Barrier", &type_barrier, ONE(barrier), .fallback = "auto", .flags = KEY_RELOADABLE,
     .help = "Packets that do not overtake RC bytes that were acknowledged early between the same two hosts. pair:\n"
             "all packets that are not RC, so that a \"done\" over TCP does not arrive before the data; the link then\n"
             "carries all IP between the prefixes. causal: RC messages on other queue pairs of the two hosts, too.\n"
             "off: disconnects (DREQ, DREP) only. auto: pair; with AckMode=host off. Both edges must agree.\n"},
    {"Link", "BarrierSkip", &type_skip, MANY(barrier_skip, nbarrier_skip, BARRIER_SKIP_MAX), .fallback = "22",
     .min = 0, .max = 65535, .flags = KEY_LIST | KEY_RELOADABLE,
     .help = "TCP and UDP ports, of either end, whose packets do not wait at the barrier. Ports in the file replace\n"
             "the default.\n"},
    {"Link", "BarrierMax", &type_time, ONE(barrier_max_ns), .fallback = "1s", .min = 0, .max = 60 * S,
     .flags = KEY_RELOADABLE,
     .help = "Longest wait of a packet for bytes that were acknowledged before it. After that the edge sends the\n"
             "packet and counts it.\n"},
    {"Link", "Distance", &type_distance, ONE(distance_m), .fallback = "auto", .min = 1, .max = 40000000,
     .help = "Length of the fibre. Sizes the buffer at the start. auto: as for 1000km. Once the round trip has been\n"
             "measured, the larger of measured and configured counts; the log reports a difference of more than 5%.\n"},
    {"Link", "Pfc", &type_pfc, ONE(pfc), .fallback = "off",
     .help = "Priority on which the edge pauses hosts (IEEE 802.1Qbb) before the receive ring of a LAN port\n"
             "overflows. It covers stops of this machine of less than Tuning.PfcWatchdog=. The hosts, or the switch,\n"
             "must honour it.\n"},
    {"Link", "FEC", &type_fec, ONE(fec), .fallback = "auto", .flags = KEY_RELOADABLE,
     .help = "Repair datagrams, so that a loss costs no round trip: M for K others, as K+M. auto: as many as the\n"
             "measured losses need and the line has room for, none on a clean or a full line. Needs memory at both\n"
             "edges; off at either edge turns FEC off. Not given: off with RateControl=auto on a path.\n"},
    {"Link", "Lanes", &type_count, ONE(lanes), .fallback = "64", .min = 1, .max = LANES_MAX,
     .help = "Independent streams among which the host pairs are divided. Both edges must agree.\n"},
    {"Link", "Workers", &type_count, ONE(workers), .fallback = "1", .min = 1, .max = WORKERS_MAX,
     .help = "Threads that run the lanes. The edges may differ. A host pair uses one thread.\n"},
    {"Link", "CPUs", &type_cpu, MANY(cpus, ncpus, WORKERS_MAX), .max = 4095, .flags = KEY_LIST,
     .help = "CPU for each worker, in order. Not given: the kernel places them.\n"},

    {"Host", "Group", &type_host_group, MANY(host_groups, nhost_groups, HOST_GROUPS_MAX), .flags = KEY_LIST,
     .help = "Addresses of one machine, ADDRESS+ADDRESS, up to 4: its packets from one address wait for bytes that\n"
             "were acknowledged early over another. Groups that share an address are one. Machines whose programs\n"
             "speak for each other may be in one group. Both edges must name the same groups, of both sites.\n"},

    {"Path", "LocalAddress", &type_address, PATH(local), .flags = KEY_REQUIRED | KEY_PATH,
     .help = "This edge's address on the WAN.\n"},
    {"Path", "RemoteAddress", &type_address, PATH(remote), .flags = KEY_REQUIRED | KEY_PATH,
     .help = "The other edge's address on the WAN.\n"},
    {"Path", "Port", &type_count, PATH(port), .fallback = "4790", .min = 1, .max = 65535, .flags = KEY_PATH,
     .help = "UDP for data and TCP for control, the same number at both edges.\n"},
    {"Path", "Rate", &type_rate, PATH(rate_bps), .min = 1000000, .max = 3200000000000ull,
     .flags = KEY_REQUIRED | KEY_RELOADABLE | KEY_PATH,
     .help = "Rate at which this edge may send into the WAN, in bits per second with all headers.\n"},
    {"Path", "RateControl", &type_rate_control, PATH(rate_control), .fallback = "fixed",
     .flags = KEY_RELOADABLE | KEY_PATH,
     .help = "fixed: sends at Rate= in all cases, for a line of one's own. auto: sends at what the line is measured\n"
             "to carry beside other traffic, at most Rate=, for a shared line.\n"},
    {"Path", "MTU", &type_packet_size, PATH(mtu), .fallback = "1500", .min = 1500, .max = WAN_MTU_MAX,
     .flags = KEY_PATH,
     .help = "Largest IP packet that the WAN carries whole. 9000 or more saves processor time.\n"},
    {"Path", "PathMTU", &type_path_mtu, PATH(path_mtu), .fallback = "auto", .min = 1280, .max = WAN_MTU_MAX,
     .flags = KEY_PATH,
     .help = "auto: probes find out how large packets the path carries, up to MTU= (RFC 8899). Or a size that is used\n"
             "without probes.\n"},
    {"Path", "Weight", &type_count, PATH(weight), .fallback = "1", .min = 0, .max = PATH_WEIGHT_MAX, .flags = KEY_PATH,
     .help = "How much this path is preferred while it is not full: its round trip divided by Weight= counts. 0:\n"
             "standby, used only if no path with a weight works.\n"},
    {"Path", "DSCP", &type_count, PATH(dscp), .fallback = "0", .min = 0, .max = 63, .flags = KEY_PATH,
     .help = "DSCP of the datagrams to the other edge.\n"},
    {"Path", "SourcePorts", &type_count, PATH(source_ports), .fallback = "1", .min = 1, .max = SOURCE_PORTS_MAX,
     .flags = KEY_PATH,
     .help = "UDP source ports among which each lane's datagrams are divided, for networks that choose among\n"
             "equal-cost paths by port. Each lane has at least one of its own.\n"},

    {"Buffer", "Directory", &type_directory, ONE(arena_dir), .fallback = ARENA_DIR_DEFAULT,
     .help = "Directory of the buffer's file, on a hugetlbfs or tmpfs mount with room for Size=.\n"},
    {"Buffer", "OnDisk", &type_yes, ONE(arena_on_disk), .fallback = "no",
     .help = "yes: Directory= may be on another file system. The edge then writes every packet of the hosts to a\n"
             "disk, not encrypted by longreach, and delivered packets stay there.\n"},
    {"Buffer", "Size", &type_size, ONE(arena_bytes), .fallback = "auto", .min = 16ull << 20, .max = 4ull << 40,
     .help = "Buffer of this link, both directions. auto: 4 x Rate= x round trip per direction, at least 64MiB.\n"},
    {"Buffer", "MaxFlows", &type_count, ONE(max_flows), .fallback = "16384", .min = 16, .max = FLOWS_MAX,
     .help = "Largest number of flows, that is, directions of RC connections. At most a sixteenth may be flows of one\n"
             "host that wait for the first answer of their responder.\n"},

    {"Relay", "Enable", &type_yes, ONE(relay), .fallback = "no",
     .help = "Programs of this site put and get memory and files at the other site: longreach put, get, export, and\n"
             "liblongreach(3). Both edges must enable it.\n"},
    {"Relay", "Socket", &type_file, ONE(relay_socket),
     .help = "Path of the relay's socket. Not given: /run/longreach/LINK.relay\n"},
    {"Relay", "Group", &type_group, ONE(relay_group),
     .help = "Group whose members may use the relay, beside root: a name or a number. The edge reads and writes only\n"
             "files that a program has opened itself.\n"},
    {"Relay", "GPU", &type_yes, ONE(relay_gpu), .fallback = "no",
     .help = "Programs may export memory of NVIDIA GPUs: the daemon loads libcuda.so.1 at the first such export.\n"},
    {"Relay", "RelayListen", &type_own_address, ONE(relay_listen),
     .help = "Address where programs on RDMA hosts of this site connect by rdma_cm: the edge reads and writes their\n"
             "memory itself. An address of this machine whose interface has an RDMA device. Needs RelayAllow=.\n"},
    {"Relay", "RelayPort", &type_count, ONE(relay_port), .fallback = "4792", .min = 1, .max = 65535,
     .help = "Port of RelayListen=, for rdma_cm.\n"},
    {"Relay", "RelayAllow", &type_relay_allow, MANY(relay_allow, nrelay_allow, RELAY_ALLOW_MAX), .flags = KEY_LIST,
     .help = "Regions of the other site that these hosts may use: PREFIX=ACCESS:REGION. ACCESS: get, put or all (get\n"
             "and put); or export: their own memory, as a region of that name. REGION may end in *. Hosts that no\n"
             "RelayAllow= names may not connect.\n"},
    {"Relay", "Weight", &type_count, ONE(relay_weight), .fallback = "1", .min = 1, .max = 15, .flags = KEY_RELOADABLE,
     .help = "Number of RDMA flows that a busy channel of the relay (there are 16) equals on a full line.\n"},
    {"Relay", "Buffer", &type_count, ONE(relay_buffer), .fallback = "25", .min = 1, .max = 75, .flags = KEY_RELOADABLE,
     .help = "Percent of the buffer that the relay may hold however busy RDMA is. If RDMA leaves room free, the relay\n"
             "may hold up to half of it.\n"},

    {"Export", "Path", &type_directory, EXPORT(path), .flags = KEY_REQUIRED | KEY_RELOADABLE | KEY_EXPORT,
     .help = "Directory that longreach copy of the other site reaches as LINK:NAME. longreachd --exports serves it.\n"},
    {"Export", "Mode", &type_export_mode, EXPORT(writable), .fallback = "read",
     .flags = KEY_RELOADABLE | KEY_EXPORT,
     .help = "What the other site may do in the directory: read; write: read, write and delete.\n"},
    {"Export", "User", &type_user, EXPORT(user), .flags = KEY_REQUIRED | KEY_RELOADABLE | KEY_EXPORT,
     .help = "User who opens the files and owns written files. root keeps the owners of the source.\n"},

    {"Security", "Encryption", &type_cipher, ONE(encryption), .fallback = "aes-256-gcm",
     .help = "Cipher of the datagrams; with a cipher the control channel is TLS 1.3. none: both are open, and anybody\n"
             "on the line may read, forge and end everything. Both edges must agree.\n"},
    {"Security", "Certificate", &type_file, ONE(certificate_file), .flags = KEY_RELOADABLE,
     .help = "Certificate that this edge shows the other edge, and its private key (mode 600). longreach keygen makes\n"
             "them.\n"},
    {"Security", "Key", &type_file, ONE(key_file), .flags = KEY_RELOADABLE, .help = ""},
    {"Security", "CA", &type_file, ONE(ca_file), .flags = KEY_RELOADABLE,
     .help = "Authority that must have signed the other edge's certificate. No other authority is trusted.\n"},
    {"Security", "PeerName", &type_peer_name, ONE(peer_name), .flags = KEY_RELOADABLE,
     .help = "The name in the other edge's certificate.\n"},
    {"Security", "PSKFile", &type_file, ONE(psk_file), .flags = KEY_RELOADABLE,
     .help = "In place of certificates: a file (mode 600) with 32 to 64 random bytes in hexadecimal, the same at both\n"
             "edges.\n"},
    {"Security", "ReauthWithin", &type_time, ONE(reauth_ns), .fallback = "300s", .min = 1 * S, .max = 86400 * S,
     .flags = KEY_RELOADABLE,
     .help = "Time within which the other edge must prove itself again after a reload with changed keys. The session\n"
             "goes on until then; without the proof it ends.\n"},

    {"Tuning", "ReorderWindow", &type_time, ONE(reorder_ns), .fallback = "30us", .min = 0, .max = 10 * MS,
     .flags = KEY_RELOADABLE,
     .help = "How long a gap in the packets of a host may last before the edge sends a NAK for it.\n"
             "A repeated READ or ATOMIC that comes less than this after a later one counts as overtaken on the LAN.\n"},
    {"Tuning", "LanWindow", &type_bytes, ONE(lan_window_bytes), .fallback = "1MiB", .min = 64 << 10, .max = 1 << 30,
     .flags = KEY_RELOADABLE, .help = "Most bytes in flight from this edge to one queue pair of a host.\n"},
    {"Tuning", "LanHostWindow", &type_bytes, ONE(lan_host_window_bytes), .fallback = "4MiB", .min = 64 << 10,
     .max = 1 << 30, .flags = KEY_RELOADABLE,
     .help = "Most bytes in flight from one worker of this edge to one host; losses and CNPs reduce it.\n"},
    {"Tuning", "LanTimeout", &type_time, ONE(lan_timeout_ns), .fallback = "20ms", .min = 100 * US, .max = 10 * S,
     .flags = KEY_RELOADABLE,
     .help = "Time to the first retry towards a host that does not answer; each retry doubles it, up to 16 times this\n"
             "value.\n"},
    {"Tuning", "StallAfter", &type_time, ONE(stall_ns), .fallback = "500ms", .min = 10 * MS, .max = 600 * S,
     .flags = KEY_RELOADABLE,
     .help = "If a host makes no progress for so long, its flow gets no early ACKs until it answers, and the edge\n"
             "logs flow_stalled.\n"},
    {"Tuning", "GiveUp", &type_time, ONE(give_up_ns), .fallback = "60s", .min = 1 * S, .max = 3600 * S,
     .flags = KEY_RELOADABLE,
     .help = "If a host has not answered for so long, its flow has failed: the edge drops the packets that it holds\n"
             "for the flow, and logs flow_failed.\n"},
    {"Tuning", "Quarantine", &type_time, ONE(quarantine_ns), .fallback = "100ms", .min = 100 * MS, .max = 60 * S,
     .flags = KEY_RELOADABLE,
     .help = "Pause of a host pair after a probe for its queue pair numbers was not answered.\n"},
    {"Tuning", "DeadPeer", &type_time, ONE(dead_peer_ns), .fallback = "2s", .min = 100 * MS, .max = 600 * S,
     .flags = KEY_RELOADABLE, .help = "Silence after which the other edge counts as dead.\n"},
    {"Tuning", "Keepalive", &type_time, ONE(keepalive_ns), .fallback = "250ms", .min = 10 * MS, .max = 60 * S,
     .flags = KEY_RELOADABLE, .help = "Longest silence of this edge towards the other edge.\n"},
    {"Tuning", "RekeyAfter", &type_count, ONE(rekey_after), .fallback = "4194304", .min = 100,
     .max = SEAL_DATAGRAMS_MAX,
     .help = "Number of datagrams after which a lane changes to its next key; or after 16 GiB, if that comes first.\n"},
    {"Tuning", "PfcWatchdog", &type_time, ONE(pfc_watchdog_ns), .fallback = "5ms", .min = 1 * MS, .max = 1 * S,
     .help = "Longest pause with Pfc=. If the receive ring has not emptied by then, the worker hangs, and the edge\n"
             "ends the pause so that the fabric goes on.\n"},
    {"Tuning", "RnrRetry", &type_rnr_retry, ONE(rnr_retry_infinite), .fallback = "infinite",
     .help = "How hosts whose connection set-up was not seen retry after an RNR NAK. infinite: rnr_retry 7, as NCCL,\n"
             "UCX and perftest set it; such a host can be held off for as long as it takes.\n"},
};

const uint32_t config_nkeys = sizeof(config_keys) / sizeof(config_keys[0]);

const struct config_key *config_key_find(const char *section, const char *name)
{
	for (uint32_t i = 0; i < config_nkeys; i++)
		if ((section == NULL || strcmp(config_keys[i].section, section) == 0) &&
		    strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	return NULL;
}

bool config_section_known(const char *section)
{
	for (uint32_t i = 0; i < config_nkeys; i++)
		if (strcmp(config_keys[i].section, section) == 0)
			return true;
	return false;
}

#define WORD_MAX 24 /* longer than any name in the table */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein distance without regard to case. Words beyond WORD_MAX are infinitely far. */
static unsigned word_distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	unsigned row[WORD_MAX + 1];

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT32_MAX;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (unsigned i = 1; i <= la; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= lb; j++) {
			bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
			unsigned above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1));
			diagonal = above;
		}
	}
	return row[lb];
}

/* A third of the letters may be wrong. */
static bool near_enough(unsigned distance, const char *right)
{
	return distance <= (strlen(right) + 2) / 3;
}

const struct config_key *config_key_nearest(const char *name)
{
	const struct config_key *best = NULL;
	unsigned best_distance = UINT32_MAX;

	for (uint32_t i = 0; i < config_nkeys; i++) {
		unsigned d = word_distance(name, config_keys[i].name);

		if (d < best_distance && near_enough(d, config_keys[i].name)) {
			best = &config_keys[i];
			best_distance = d;
		}
	}
	return best;
}

const char *config_section_nearest(const char *section)
{
	const char *best = NULL;
	unsigned best_distance = UINT32_MAX;

	for (uint32_t i = 0; i < config_nkeys; i++) {
		unsigned d = word_distance(section, config_keys[i].section);

		if (d < best_distance && near_enough(d, config_keys[i].section)) {
			best = config_keys[i].section;
			best_distance = d;
		}
	}
	return best;
}

static uint32_t *count_of(const struct config_key *k, struct link_config *c)
{
	return (uint32_t *)(void *)((char *)c + k->count_offset);
}

void config_key_clear(const struct config_key *k, struct link_config *c)
{
	*count_of(k, c) = 0;
}

uint32_t config_key_count(const struct config_key *k, const struct link_config *c)
{
	uint32_t n;

	if (k->flags & KEY_PATH)
		return c->npaths;
	if (k->flags & KEY_EXPORT)
		return c->nexports;
	if (!(k->flags & KEY_LIST))
		return 1;
	memcpy(&n, (const char *)c + k->count_offset, sizeof(n));
	return n;
}

const void *config_key_item(const struct config_key *k, const struct link_config *c, uint32_t i)
{
	size_t apart = k->flags & KEY_PATH     ? sizeof(c->paths[0])
	               : k->flags & KEY_EXPORT ? sizeof(c->exports[0])
	                                       : k->item_size;

	return (const char *)c + k->offset + i * apart;
}

int config_key_read(const struct config_key *k, struct link_config *c, uint32_t which, const char *text,
                    char why[CONFIG_WHY_MAX])
{
	uint32_t i = which;
	int r;

	why[0] = '\0';
	if (k->flags & KEY_LIST) {
		i = *count_of(k, c);
		if (i >= k->count_max) {
			snprintf(why, CONFIG_WHY_MAX, "too many: at most %u", k->count_max);
			return -EINVAL;
		}
	}
	r = k->type->read(k, (char *)c + ((const char *)config_key_item(k, c, i) - (const char *)c), text, why);
	if (r < 0 && why[0] == '\0')
		snprintf(why, CONFIG_WHY_MAX, "expected %s", k->type->expected);
	if (r == 0 && (k->flags & KEY_LIST))
		*count_of(k, c) = i + 1;
	return r;
}
