/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - reads the state of this machine: interfaces, addresses, file systems, memory, settings of its kernel.
 * Reads only, and needs no rights. */
#ifndef DAEMON_MACHINE_H
#define DAEMON_MACHINE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/proxy.h"

struct machine_port {
	unsigned index;
	bool ethernet, up, carrier;
	uint32_t mtu;
};

/* False: there is no interface of that name. */
bool machine_port_read(const char *ifname, struct machine_port *p);
/* The interface that has the address; false: none has. */
bool machine_port_of(const struct ip_addr *a, char ifname[IF_NAMESIZE]);
/* All interfaces but lo, and all addresses of a family but those of lo, as a list for people; "none". */
const char *machine_port_list(char *text, size_t cap);
const char *machine_address_list(bool ip4, char *text, size_t cap);
/* True if a socket can be bound to the address: also true of addresses that no interface has (a local route). */
bool machine_has_address(const struct ip_addr *a);

enum machine_fs_kind { MACHINE_FS_HUGE, MACHINE_FS_MEMORY, MACHINE_FS_DISK };

struct machine_fs {
	enum machine_fs_kind kind;
	uint64_t total_bytes; /* 0: no limit of its own */
	uint64_t free_bytes;  /* bytes that can be taken now; UINT64_MAX: no limit of its own */
	uint64_t page_bytes;
	bool made; /* the directory exists; else the figures are those of its parent */
};

/* 0, -ENOTDIR (it is no directory), or another negative errno: the folder above it is not there either. */
int machine_fs_read(const char *dir, struct machine_fs *fs);

uint64_t machine_memory_bytes(void); /* 0: not known */

/* A file that holds a number, as those of /proc/sys and /sys do. False: it does not. */
bool machine_number(const char *path, int64_t *value);

#endif
