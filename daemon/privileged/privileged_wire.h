/* SPDX-License-Identifier: Apache-2.0 */
/* privileged_wire.h - messages between child and parent: structs of one program, over socket pairs that keep message
 * boundaries. The parent trusts no field. */
#ifndef DAEMON_PRIVILEGED_WIRE_H
#define DAEMON_PRIVILEGED_WIRE_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/arena/arena_scan.h"
#include "held_sockets.h"
#include "privileged.h"
#include "daemon/config/site_paths.h"

enum ask_what {
	ASK_STEER_INSTALL,      /* number: enum steer_extent; one link */
	ASK_STEER_KEEP_ROUTING, /* number: the rules, too; one link */
	ASK_STEER_REMOVE,       /* links: the one to be removed, then those that are kept */
	ASK_STEER_ALL,          /* number: closed */
	ASK_STEER_ALL_STANDS,
	ASK_STEER_SWEEP,     /* names */
	ASK_STEER_STANDS,    /* one link */
	ASK_FIB_SWEEP,       /* links */
	ASK_OFFLOAD_ACQUIRE, /* ifname */
	ASK_OFFLOAD_REFRESH,
	ASK_OFFLOAD_RELEASE,
	ASK_PACKET_SOCKET, /* number: send buffer */
	ASK_RULES_SOCKET,
	ASK_RESERVED_SOCKET, /* addr */
	ASK_HOLD,            /* name, and a socket with it */
	ASK_HELD,            /* name */
	ASK_LET_GO,          /* name: what names begin with */
	ASK_WANT,            /* likewise */
	ASK_LET_GO_UNWANTED,
	ASK_WHATS
};

/* The part of a link's configuration that the kernel's rules are made from. */
struct ask_link {
	char name[LINK_NAME_MAX];
	char lan_ports[LAN_PORTS_MAX][IF_NAMESIZE];
	struct ip_prefix local[PREFIXES_MAX], remote[PREFIXES_MAX];
	struct ip_addr wan_local[PATHS_MAX], wan_remote[PATHS_MAX];
	uint32_t nlan_ports, nlocal, nremote, npaths;
	uint32_t barrier; /* it is on */
};

#define ASK_NAMES_MAX (SITES_MAX + STRAYS_MAX)
#define ASK_LINKS_MAX (SITES_MAX + 1)

struct ask {
	uint32_t what; /* enum ask_what */
	int32_t number;
	char ifname[IF_NAMESIZE];
	char name[HELD_NAME_MAX];
	struct ip_addr addr;
	uint32_t n; /* number of the items that follow; no more items are sent */
	union {
		struct ask_link links[ASK_LINKS_MAX];
		char names[ASK_NAMES_MAX][LINK_NAME_MAX];
	};
};

/* Bytes of it that are sent. */
static inline size_t ask_length(const struct ask *a)
{
	size_t each = a->what == ASK_STEER_SWEEP ? sizeof(a->names[0]) : sizeof(a->links[0]);

	return offsetof(struct ask, links) + a->n * each;
}

/* With a descriptor where one was asked for. */
struct ask_answer {
	int32_t result;
	char err[CONFIG_ERR_MAX];
};

enum tell_what { TELL_RECEIVE_BUFFER, TELL_SEND_BUFFER, TELL_FIND_NEIGHBOUR, TELL_RUN_FIRST };

/* With the socket where it is about one. */
struct tell {
	uint32_t what;  /* enum tell_what */
	int32_t number; /* bytes, ifindex, or thread */
	int32_t family;
	uint8_t addr[16];
};

/* --- messages over a Unix socket that keeps them apart, with a descriptor where need be --- */

/* One message, with fd unless it is -1. flags: sendmsg(2)'s. Its length, or -1 with errno. */
ssize_t privileged_wire_send(int over, const void *data, size_t len, int fd, int flags);

/* At most len bytes of one message. *fd: what came with it, close-on-exec, or -1. flags: recvmsg(2)'s. Its length,
 * 0: the other end is closed, -1 with errno; -1 and EMSGSIZE: it was longer. */
ssize_t privileged_wire_receive(int over, void *data, size_t len, int *fd, int flags);

#endif
