/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - one link's configuration file: parsing, checking, printing.
 *
 * The keys are in one table, config_keys.c; the kinds of values in config_types.c; the rules between keys in
 * config_check.c. */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proxy/proxy.h"
#include "seal/seal.h"

#define LINK_NAME_MAX  32
#define LAN_PORTS_MAX  8
#define LAN_DEVICE_MAX 160 /* a device with its driver's arguments, and a NUL */
#define WORKERS_MAX    16
#define CONFIG_ERR_MAX 512

#define ARENA_DIR_DEFAULT  "/run/longreach"
#define LINK_FILE_MAX      192
#define LINK_PEER_NAME_MAX 128

#define CONFIG_FILE_MAX (64 << 10) /* bytes of a config file: 32 prefixes a side fit many times over */
#define FIBRE_PS_PER_M  5000ull    /* one way: 5.00 us/km */

#define HOST_GROUPS_MAX      64
#define HOST_GROUP_ADDRESSES 4 /* as many IPv6 addresses as a line holds; items that share an address are one machine */

/* Addresses of one machine. */
struct host_group {
	struct ip_addr addr[HOST_GROUP_ADDRESSES];
	uint32_t n;
};

#define PATH_NAME_MAX    16
#define SOURCE_PORTS_MAX 8

/* One WAN route. */
struct path_config {
	char name[PATH_NAME_MAX]; /* empty: [Path] */
	struct ip_addr local, remote;
	uint16_t port; /* UDP data and TCP control, the same number at both edges */
	uint64_t rate_bps;
	enum rate_controller rate_control;
	uint16_t mtu;      /* IP MTU, at most */
	uint16_t path_mtu; /* 0: path MTU discovery */
	uint32_t weight;
	uint16_t dscp;
	uint32_t source_ports; /* of each lane */
};

#define EXPORTS_MAX     16
#define EXPORT_NAME_MAX 24
#define USER_NAME_MAX   33

/* A directory that `longreach copy` of the other site may read, or also write. */
struct export_config {
	char name[EXPORT_NAME_MAX];
	char path[LINK_FILE_MAX];
	bool writable;
	char user[USER_NAME_MAX]; /* the user that opens files below it */
};

#define WAN_UDP_IP4_HDR 28
#define WAN_UDP_IP6_HDR 48

#define RELAY_ALLOW_MAX      32
#define RELAY_ALLOW_NAME_MAX 32

#define RELAY_ALLOW_EXPORT   4

/* Access of RDMA clients to regions of the other site, and which regions they may export. */
struct relay_allow {
	struct ip_prefix prefix;
	uint32_t access;                 /* enum lr_access: 1 get, 2 put; or RELAY_ALLOW_EXPORT */
	char name[RELAY_ALLOW_NAME_MAX]; /* a trailing * matches any ending */
};

/* Largest UDP payload towards that address for an IP MTU. */
static inline uint16_t config_payload_max(const struct ip_addr *remote, uint16_t mtu)
{
	return (uint16_t)(mtu - (ip_addr_is4(remote) ? WAN_UDP_IP4_HDR : WAN_UDP_IP6_HDR));
}

/* Characters of the names of links and paths: none with a meaning in quotes, in a shell or in a path. */
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* The first len bytes of name, which need not be a string's end. */
static inline bool link_name_is_sound(const char *name, size_t len)
{
	if (len == 0 || len >= LINK_NAME_MAX || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] == '\0' || strchr(NAME_CHARACTERS, name[i]) == NULL)
			return false;
	return true;
}

/* How the workers reach the wire on the LAN side. */
enum lan_engine_kind { ENGINE_PACKET, ENGINE_DPDK };

enum barrier_config { BARRIER_AUTO, BARRIER_SAYS_OFF, BARRIER_SAYS_PAIR, BARRIER_SAYS_CAUSAL };

/* All of one link file. Units are in the names; 0 means "not given" only if the key's row in config_keys.c says so. */
struct link_config {
	char name[LINK_NAME_MAX]; /* file name without .conf */
	char path[256];
	uint64_t digest; /* of all values, as the file and the defaults gave them; 0: the file has an error; see
	                  * config_digest() */

	/* [Link] */
	char lan_ports[LAN_PORTS_MAX][IF_NAMESIZE];
	uint32_t nlan_ports;
	enum lan_engine_kind engine;
	char lan_devices[LAN_PORTS_MAX][LAN_DEVICE_MAX]; /* of each port, unless the engine is ENGINE_PACKET */
	uint32_t nlan_devices;
	char wan_devices[PATHS_MAX][LAN_DEVICE_MAX]; /* of each path; nwan_devices 0: the kernel's UDP sockets */
	uint32_t nwan_devices;
	struct ip_prefix local[PREFIXES_MAX], remote[PREFIXES_MAX];
	uint32_t nlocal, nremote;
	enum ack_mode ack_mode;
	struct pair_mode pair_modes[PAIR_MODES_MAX];
	uint32_t npair_modes;
	uint32_t barrier;  /* enum barrier_config; see config_barrier() */
	bool barrier_kept; /* not in the file: Barrier=auto stays pair, as it was at the start; see
	                    * config_carry_over() */
	bool barrier_owed; /* not in the file: Barrier=auto is pair, because the buffer owed packets ACKed early at the
	                    * start; closed_note_owed() */
	uint16_t barrier_skip[BARRIER_SKIP_MAX];
	uint32_t nbarrier_skip;
	uint64_t barrier_max_ns;
	uint64_t distance_m; /* 0: auto */
	uint8_t pfc;         /* 1 + the priority that hosts are paused on; 0: off */
	struct fec_config fec;
	uint32_t lanes;
	uint32_t workers;
	int32_t cpus[WORKERS_MAX]; /* -1: not pinned */
	uint32_t ncpus;

	/* [Host] */
	struct host_group host_groups[HOST_GROUPS_MAX];
	uint32_t nhost_groups;

	/* [Path], or several [Path NAME], in the order of their names: so both edges number them alike */
	struct path_config paths[PATHS_MAX];
	uint32_t npaths;

	/* [Buffer] */
	char arena_dir[192];
	bool arena_on_disk;   /* the directory may be on a file system that writes to a disk */
	uint64_t arena_bytes; /* per link; 0: 4 x BDP per direction, worked out */
	uint32_t max_flows;

	/* [Relay] */
	bool relay;
	char relay_socket[LINK_FILE_MAX]; /* empty: RELAY_SOCKET_DEFAULT */
	uint32_t relay_group;             /* gid; 0: root and the daemon's user alone */
	bool relay_gpu;
	struct ip_addr relay_listen;      /* for RDMA clients; unspecified: none */
	uint32_t relay_port;
	struct relay_allow relay_allow[RELAY_ALLOW_MAX];
	uint32_t nrelay_allow;
	uint32_t relay_weight;            /* of a channel, in flows */
	uint32_t relay_buffer;            /* percent of the buffer */

	/* [Export NAME], any number */
	struct export_config exports[EXPORTS_MAX];
	uint32_t nexports;

	/* [Security] */
	enum seal_cipher encryption;
	char certificate_file[LINK_FILE_MAX], key_file[LINK_FILE_MAX], ca_file[LINK_FILE_MAX];
	char peer_name[LINK_PEER_NAME_MAX];
	char psk_file[LINK_FILE_MAX]; /* in place of the four; empty: none */
	uint64_t reauth_ns;           /* how long a session outlives the keys that it was proven under */

	/* [Tuning] */
	uint32_t rekey_after; /* datagrams */
	uint64_t reorder_ns, lan_timeout_ns, stall_ns, give_up_ns, quarantine_ns, dead_peer_ns, keepalive_ns;
	uint64_t pfc_watchdog_ns;
	uint32_t lan_window_bytes, lan_host_window_bytes;
	bool rnr_retry_infinite;
};

#define CONFIG_ERRORS_MAX 40
#define CONFIG_KEYS_MAX   64
#define CONFIG_SECTIONS_MAX (PATHS_MAX > EXPORTS_MAX ? PATHS_MAX : EXPORTS_MAX)
#define CONFIG_ITEMS_MAX  64 /* of the longest list */

/* What reading a file has found apart from its values. */
struct config_reading {
	uint32_t nerrors, left_out; /* errors kept, and errors dropped for lack of room */
	char error[CONFIG_ERRORS_MAX][CONFIG_ERR_MAX];
	/* Indexed like config_keys. line: where a key was first given, for each path or export, 0: nowhere; item_line:
	 * where each item of a list was given. */
	unsigned line[CONFIG_SECTIONS_MAX][CONFIG_KEYS_MAX];
	unsigned item_line[CONFIG_KEYS_MAX][CONFIG_ITEMS_MAX];
	bool bad[CONFIG_KEYS_MAX]; /* the key's value is invalid, or a required value is missing; the error was already
	                            * told */
};

/* As config_load(), but tells every error: of values, and between keys with sound values. c has the values that could
 * be understood, and defaults for all others. Returns as config_load() does. */
int config_load_all(const char *path, struct link_config *c, struct config_reading *r);
/* The same from memory. */
int config_parse_all(const char *name, const char *text, size_t len, struct link_config *c, struct config_reading *r);

/* Adds an error about a key's i-th item, or that of path i: "FILE:LINE: KEY=VALUE: " and the sentence. */
void config_blame(struct config_reading *r, const struct link_config *c, const char *key, uint32_t i, const char *fmt,
                  ...) __attribute__((format(printf, 5, 6)));
/* True if the key's value in c is sound: given by the file, or its default. */
bool config_is_sound(const struct config_reading *r, const char *key);

/* Reads the driver argument "WORD=VALUE" behind a comma of a device (LanDevice=, WanDevice=). False if there is none,
 * or if the value does not fit into `cap` bytes. */
static inline bool config_device_word(const char *device, const char *word, char *value, size_t cap)
{
	size_t len = strlen(word), n;

	for (const char *at = strchr(device, ','); at; at = strchr(at + 1, ',')) {
		if (strncmp(at + 1, word, len) != 0 || at[1 + len] != '=')
			continue;
		n = strcspn(at + len + 2, ",");
		if (n == 0 || n >= cap)
			return false;
		memcpy(value, at + len + 2, n);
		value[n] = '\0';
		return true;
	}
	return false;
}

/* Rules whose violation only warns, because existing files may violate them: prefixes that contain the addresses of the
 * WAN. */
void config_check_more(const struct link_config *c, struct config_reading *r);

/* Reads and checks one file. On error returns -EINVAL (or -errno of the file) and err holds a sentence: file, line, the
 * offending text, what would be right. -ENOENT: there is no such file; -EINVAL if there is a symbolic link to a file
 * that is not there. */
int config_load(const char *path, struct link_config *c, char err[CONFIG_ERR_MAX]);

/* The same from memory (name: what to call it in messages). For the fuzzer and tests. */
int config_parse(const char *name, const char *text, size_t len, struct link_config *c, char err[CONFIG_ERR_MAX]);

/* True if `to` can be taken up by a running link that was started with `from`. If not, err names the key. */
bool config_reloadable(const struct link_config *from, const struct link_config *to, char err[CONFIG_ERR_MAX]);

/* Whether two links can run side by side: not with the same name, the same WAN address and port, or hosts in common at
 * both ends. 0, or -EINVAL with err. */
int config_compatible(const struct link_config *a, const struct link_config *b, char err[CONFIG_ERR_MAX]);

/* A running link cannot turn its barrier or FEC on or off: its LAN ports, its rules in the kernel and its memory depend
 * on both. If a reload asks for that, the link is stopped and started again, with its arena kept. */
bool config_restarts(const struct link_config *from, const struct link_config *to);

/* A barrier that is on but no longer needed does no harm, so with Barrier=auto it stays on: notes that in `to`. Call
 * before config_reloadable() and config_restarts(). */
void config_carry_over(const struct link_config *from, struct link_config *to);

/* The rate of all paths together. */
static inline uint64_t config_rate_bps(const struct link_config *c)
{
	uint64_t bps = 0;

	for (uint32_t i = 0; i < c->npaths; i++)
		bps += c->paths[i].rate_bps;
	return bps;
}

static inline bool config_acks_early(const struct link_config *c)
{
	bool early = c->ack_mode != ACK_MODE_HOST;

	for (uint32_t i = 0; i < c->npair_modes; i++)
		early |= c->pair_modes[i].mode != ACK_MODE_HOST;
	return early;
}

/* The barrier in force: auto is pair if any ACKs are early, or were when the link started or before, else off. */
static inline enum barrier_mode config_barrier(const struct link_config *c)
{
	if (c->barrier == BARRIER_AUTO)
		return config_acks_early(c) || c->barrier_kept || c->barrier_owed ? BARRIER_PAIR : BARRIER_OFF;
	return c->barrier == BARRIER_SAYS_CAUSAL ? BARRIER_CAUSAL
	       : c->barrier == BARRIER_SAYS_PAIR ? BARRIER_PAIR
	                                         : BARRIER_OFF;
}

#define RELAY_CHANNELS 16 /* half of them for requests, half for answers */

static inline uint32_t config_relay_channels(const struct link_config *c)
{
	return c->relay ? RELAY_CHANNELS : 0;
}

static inline bool config_relay_listens(const struct link_config *c)
{
	static const struct ip_addr none;

	return c->relay && !ip_addr_eq(&c->relay_listen, &none);
}

/* Writes the value of FEC= in the file's syntax. */
void config_fec_name(const struct fec_config *f, char *text, size_t cap);

/* A digest of the values of all keys and the names of all paths and exports, but not of the file's name, comments or
 * order of keys. config_parse() keeps it as `digest`: the daemon changes other members later. */
uint64_t config_digest(const struct link_config *c);

/* Prints the whole configuration as in force, defaults included, in the file's own syntax: to stdout, or anywhere. */
void config_print(const struct link_config *c);
void config_write(const struct link_config *c, FILE *out);

#endif
