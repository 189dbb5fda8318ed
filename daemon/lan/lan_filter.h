/* SPDX-License-Identifier: Apache-2.0 */
/* lan_filter.h - which packets of a LAN port a worker takes, as a classic BPF program.
 *
 * Taken: RoCEv2 (UDP to port 4791, not a fragment, IPv4 without options), or all IP, addressed to this machine's MAC
 * (or to any other, where the interface is one end of an IP port, ip_port.h), from a local prefix to a remote one, and
 * of a lane that this worker runs. The filter drops all other packets, which only the kernel handles. The lane is that
 * of proxy_lane_between(), computed in BPF: both must agree. */
#ifndef DAEMON_LAN_FILTER_H
#define DAEMON_LAN_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "proxy/proxy.h"

/* The longest program: two families, two lists of PREFIXES_MAX prefixes of at most 13 instructions, an alias of at most
 * 11, and 64 around. The kernel takes BPF_MAXINSNS. */
#define LAN_FILTER_MAX (2 * 2 * PREFIXES_MAX * 13 + HOST_ALIASES_MAX * 11 + 64)

struct lan_filter_spec {
	const struct ip_prefix *local, *remote; /* an empty list lets any address through */
	uint32_t nlocal, nremote;
	uint32_t nlanes, nshards, shard;
	const struct host_alias *alias; /* addresses of machines, as in struct proxy_config */
	uint32_t naliases;
	bool all_ip;      /* takes all IP, not only RoCEv2 */
	bool other_mac;   /* takes frames for other MACs than the interface's, not for its own */
	uint32_t snaplen; /* bytes of a taken packet that the filter lets through */
};

/* Writes the program for a socket that sees whole Ethernet frames. Returns its length in instructions. */
uint16_t lan_filter_build(const struct lan_filter_spec *s, struct sock_filter prog[LAN_FILTER_MAX]);

#endif
