/* SPDX-License-Identifier: Apache-2.0 */
#include "config_machine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/arena/arena_file.h"
#include "daemon/config/link_plan.h"
#include "daemon/util/addr.h"
#include "daemon/util/units.h"
#include "machine.h"

#define LIST_MAX 160

static void check_lan_port(const struct link_config *c, uint32_t i, struct config_reading *r)
{
	const char *name = c->lan_ports[i];
	char wan[IF_NAMESIZE], t[ADDR_TEXT_MAX], list[LIST_MAX];
	struct machine_port p;

	if (!machine_port_read(name, &p)) {
		config_blame(r, c, "LanPort", i, "this machine has no such interface: expected one of: %s",
		             machine_port_list(list, sizeof(list)));
		return;
	}
	if (!p.ethernet)
		config_blame(r, c, "LanPort", i, "is no Ethernet interface: expected the port towards the hosts");
	for (uint32_t path = 0; path < c->npaths; path++)
		if (machine_port_of(&c->paths[path].local, wan) && strcmp(wan, name) == 0)
			config_blame(r, c, "LanPort", i,
			             "is the WAN port, which has LocalAddress=%s: expected the port towards the hosts, "
			             "or a separate VLAN interface for one of the two",
			             addr_write(&c->paths[path].local, t, sizeof(t)));
}

static void check_path(const struct link_config *c, uint32_t i, struct config_reading *r)
{
	const struct path_config *p = &c->paths[i];
	char list[LIST_MAX], ifname[IF_NAMESIZE];
	struct machine_port port;

	if (config_is_sound(r, "LocalAddress") && !machine_has_address(&p->local))
		config_blame(r, c, "LocalAddress", i, "this machine does not have that address: expected one of: %s",
		             machine_address_list(ip_addr_is4(&p->local), list, sizeof(list)));
	if (config_is_sound(r, "RemoteAddress") && machine_has_address(&p->remote))
		config_blame(r, c, "RemoteAddress", i, "is this machine's own address: expected the other edge's");
	if (config_is_sound(r, "MTU") && config_is_sound(r, "LocalAddress") && machine_port_of(&p->local, ifname) &&
	    machine_port_read(ifname, &port) && port.mtu < p->mtu)
		config_blame(r, c, "MTU", i,
		             "is more than the MTU of %s, %u: expected at most that, or `ip link set dev "
		             "%s mtu %u`",
		             ifname, port.mtu, ifname, p->mtu);
}

/* --- the buffer --- */

/* Bytes that the buffer's files need. */
static uint64_t buffer_bytes(const struct link_config *c, uint64_t page_bytes)
{
	return c->workers * arena_file_bytes(link_plan_geometry(c).len, page_bytes);
}

uint64_t config_machine_buffer_taken(const struct link_config *c)
{
	uint64_t bytes = 0;
	char path[320];
	struct stat st;

	for (uint32_t i = 0; i < WORKERS_MAX; i++) {
		arena_file_name(path, sizeof(path), c->arena_dir, c->name, i);
		if (stat(path, &st) < 0)
			continue;
		/* that of a start without room has its last page only; on a disk the blocks are some more than the
		 * bytes */
		bytes += (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size ? (uint64_t)st.st_blocks * 512
		                                                             : (uint64_t)st.st_size;
	}
	return bytes;
}

/* Checks the buffer's directory. False: its size cannot be checked. */
static bool check_directory(const struct link_config *c, struct config_reading *r, struct machine_fs *fs)
{
	int e = machine_fs_read(c->arena_dir, fs);

	if (e == -ENOTDIR) {
		config_blame(r, c, "Directory", 0,
		             "is no directory: expected a directory on a mount of hugetlbfs or tmpfs");
		return false;
	}
	if (e < 0) {
		config_blame(r, c, "Directory", 0,
		             "cannot be opened, nor can its parent directory (%s): expected a directory on a mount of "
		             "hugetlbfs or tmpfs",
		             strerror(-e));
		return false;
	}
	if (fs->kind != MACHINE_FS_DISK)
		return true;
	if (!c->arena_on_disk)
		config_blame(r, c, "Directory", 0,
		             "is not on hugetlbfs or tmpfs, so the hosts' packets would be written to a disk: expected "
		             "a mount of one of the two there, or OnDisk=yes");
	return true;
}

static void check_size(const struct link_config *c, struct config_reading *r, const struct machine_fs *fs)
{
	uint64_t wanted = buffer_bytes(c, fs->page_bytes), memory = machine_memory_bytes();
	uint64_t taken = config_machine_buffer_taken(c);
	char t[4][UNITS_TEXT_MAX];

	units_show_bytes(t[0], (double)wanted);
	units_show_bytes(t[3], (double)link_plan_arena_bytes(c, link_plan_rtt_ns(c)));
	if (fs->kind != MACHINE_FS_DISK && memory != 0 && wanted > memory)
		config_blame(r, c, "Size", 0,
		             "the buffer takes %s, and this machine has %s of memory: expected less; Size=auto is %s "
		             "with this Rate= and Distance=",
		             t[0], units_show_bytes(t[1], (double)memory), t[3]);
	else if (fs->total_bytes != 0 && wanted > fs->total_bytes)
		config_blame(r, c, "Size", 0,
		             "the buffer takes %s, and %s can have at most %s: expected less, or a larger mount%s",
		             t[0], c->arena_dir, units_show_bytes(t[1], (double)fs->total_bytes),
		             fs->kind == MACHINE_FS_HUGE ? " (sysctl vm.nr_hugepages, and the mount's size=)" : "");
	else if (fs->free_bytes != UINT64_MAX && wanted > fs->free_bytes + taken)
		config_blame(r, c, "Size", 0, "the buffer takes %s, and %s has %s left: expected less, or more room%s",
		             t[0], c->arena_dir, units_show_bytes(t[1], (double)(fs->free_bytes + taken)),
		             fs->kind == MACHINE_FS_HUGE ? " (sysctl vm.nr_hugepages)" : "");
}

void config_machine_lan_ports(const struct link_config *c, struct config_reading *r)
{
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		check_lan_port(c, i, r);
}

void config_machine_paths(const struct link_config *c, struct config_reading *r)
{
	for (uint32_t i = 0; i < c->npaths; i++)
		check_path(c, i, r);
}

void config_machine_buffer(const struct link_config *c, struct config_reading *r)
{
	static const char *const of_size[] = {"Directory", "Size", "Rate", "Distance", "MaxFlows", "Workers"};
	struct machine_fs fs;
	bool sound = true;

	for (size_t i = 0; i < sizeof(of_size) / sizeof(of_size[0]); i++)
		sound &= config_is_sound(r, of_size[i]);
	if (config_is_sound(r, "Directory") && check_directory(c, r, &fs) && sound)
		check_size(c, r, &fs);
}

void config_machine_check(const struct link_config *c, struct config_reading *r)
{
	config_machine_lan_ports(c, r);
	config_machine_paths(c, r);
	config_machine_buffer(c, r);
}
