/* SPDX-License-Identifier: Apache-2.0 */
#include "vlan.h"

#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "daemon/util/addr.h"
#include "daemon/util/rtnl.h"

#define LINK_LISTS_MAX 10 /* attempts at a list while interfaces change */

struct iface {
	char name[IF_NAMESIZE];
	int ifindex, lower; /* lower: 0: none here */
	bool is_vlan, on_port;
};

struct listing {
	const struct link_config *c;
	struct iface *iface; /* LAN ports and VLANs */
	uint32_t n, room;
	bool no_memory;
};

static int read_kind(const struct nlattr *attr, void *arg)
{
	struct iface *i = arg;

	if (mnl_attr_get_type(attr) == IFLA_INFO_KIND && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
		i->is_vlan = strcmp(mnl_attr_get_str(attr), "vlan") == 0;
	return MNL_CB_OK;
}

struct reading {
	struct iface iface;
	bool elsewhere; /* the lower device is in another network namespace, and its number is that namespace's */
};

static int read_attr(const struct nlattr *attr, void *arg)
{
	struct reading *r = arg;

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
			strncpy(r->iface.name, mnl_attr_get_str(attr), IF_NAMESIZE - 1);
		break;
	case IFLA_LINK:
		r->iface.lower = (int)mnl_attr_get_u32(attr);
		break;
	case IFLA_LINK_NETNSID:
		r->elsewhere = true;
		break;
	case IFLA_LINKINFO:
		mnl_attr_parse_nested(attr, read_kind, &r->iface);
		break;
	}
	return MNL_CB_OK;
}

static bool is_lan_port(const struct link_config *c, const char *ifname)
{
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		if (strcmp(c->lan_ports[i], ifname) == 0)
			return true;
	return false;
}

static void add(struct listing *l, const struct iface *i)
{
	if (l->n == l->room) {
		uint32_t room = l->room ? 2 * l->room : 64;
		struct iface *more = realloc(l->iface, room * sizeof(*more));

		if (!more) {
			l->no_memory = true;
			return;
		}
		l->iface = more;
		l->room = room;
	}
	l->iface[l->n++] = *i;
}

static int on_iface(const struct nlmsghdr *h, void *arg)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(h);
	struct reading r = {.iface = {.ifindex = ifi->ifi_index}};
	struct listing *l = arg;

	if (h->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(*ifi), read_attr, &r);
	if (r.elsewhere)
		r.iface.lower = 0;
	r.iface.on_port = is_lan_port(l->c, r.iface.name);
	if (r.iface.on_port || (r.iface.is_vlan && r.iface.lower != 0))
		add(l, &r.iface);
	return MNL_CB_OK;
}

/* Lists again if interfaces changed meanwhile, because such a list may be incomplete. */
static int list(struct mnl_socket *s, struct listing *l)
{
	union rtnl_msg msg;
	int r = -EINTR;

	for (unsigned i = 0; r == -EINTR && i < LINK_LISTS_MAX; i++) {
		struct nlmsghdr *h = rtnl_begin(&msg, RTM_GETLINK, NLM_F_DUMP);

		mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
		l->n = 0;
		r = rtnl_ask(s, h, on_iface, l);
	}
	return l->no_memory ? -ENOMEM : r;
}

static bool has_local_address(const struct link_config *c, const struct ifaddrs *all, const char *ifname)
{
	struct ip_addr addr;
	size_t len = strlen(ifname);

	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (strncmp(a->ifa_name, ifname, len) != 0 ||
		    (a->ifa_name[len] && a->ifa_name[len] != ':') || /* a label */
		    !a->ifa_addr || !addr_from_sockaddr(a->ifa_addr, &addr))
			continue;
		for (uint32_t i = 0; i < c->npaths; i++)
			if (ip_addr_eq(&addr, &c->paths[i].local))
				return true;
	}
	return false;
}

static bool is_plain(const char *name)
{
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("._-+=@~", *name))
			return false;
	return true;
}

/* True if one more VLAN turned out to be on a LAN port. */
static bool mark_one(struct listing *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		for (uint32_t j = 0; !l->iface[i].on_port && j < l->n; j++)
			if (l->iface[j].on_port && l->iface[j].ifindex == l->iface[i].lower)
				return l->iface[i].on_port = true;
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int choose(struct listing *l, struct vlans *out)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return -errno;
	while (mark_one(l))
		;
	out->name = calloc(l->n + 1, sizeof(*out->name));
	for (uint32_t i = 0; out->name && i < l->n; i++)
		if (l->iface[i].on_port && !is_lan_port(l->c, l->iface[i].name) && is_plain(l->iface[i].name) &&
		    !has_local_address(l->c, all, l->iface[i].name))
			memcpy(out->name[out->n++], l->iface[i].name, IF_NAMESIZE);
	freeifaddrs(all);
	if (!out->name)
		return -ENOMEM;
	qsort(out->name, out->n, sizeof(*out->name), by_name);
	return 0;
}

int vlan_list(const struct link_config *c, struct vlans *out)
{
	struct mnl_socket *s = rtnl_open();
	struct listing l = {.c = c};
	int r = s ? list(s, &l) : -errno;

	*out = (struct vlans){0};
	if (r == 0)
		r = choose(&l, out);
	if (s)
		mnl_socket_close(s);
	free(l.iface);
	return r;
}

void vlan_free(struct vlans *v)
{
	free(v->name);
	*v = (struct vlans){0};
}
