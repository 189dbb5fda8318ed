/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces are VLANs on a link's LAN ports, with a kernel that has the interfaces of a table. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>

#include "daemon/kernel/vlan.c"
#include "daemon/util/addr.c"
#include "daemon/util/units.c"

struct fake {
	const char *name;
	int ifindex, lower; /* 0: none */
	const char *kind;   /* NULL: hardware */
	bool elsewhere;
};

static const struct fake *machine;
static unsigned ninterfaces, interrupted, listings;
static struct {
	const char *ifname;
	uint32_t addr;
} address; /* the machine's only one */

struct mnl_socket *rtnl_open(void)
{
	return mnl_socket_open(NETLINK_ROUTE);
}

struct nlmsghdr *rtnl_begin(union rtnl_msg *msg, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *h = mnl_nlmsg_put_header(msg);

	h->nlmsg_type = type;
	h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	return h;
}

static void tell(const struct fake *f, mnl_cb_t fn, void *arg)
{
	union rtnl_msg msg;
	struct nlmsghdr *h = rtnl_begin(&msg, RTM_NEWLINK, 0);
	struct ifinfomsg *ifi = mnl_nlmsg_put_extra_header(h, sizeof(*ifi));
	struct nlattr *info;

	ifi->ifi_index = f->ifindex;
	mnl_attr_put_strz(h, IFLA_IFNAME, f->name);
	if (f->lower)
		mnl_attr_put_u32(h, IFLA_LINK, (uint32_t)f->lower);
	if (f->elsewhere)
		mnl_attr_put_u32(h, IFLA_LINK_NETNSID, 0);
	if (f->kind) {
		info = mnl_attr_nest_start(h, IFLA_LINKINFO);
		mnl_attr_put_strz(h, IFLA_INFO_KIND, f->kind);
		mnl_attr_nest_end(h, info);
	}
	assert_true(fn(h, arg) >= MNL_CB_STOP);
}

int rtnl_ask(struct mnl_socket *s, struct nlmsghdr *h, mnl_cb_t fn, void *arg)
{
	(void)s;
	assert_int_equal(h->nlmsg_type, RTM_GETLINK);
	listings++;
	for (unsigned i = 0; i < ninterfaces; i++) {
		if (interrupted > 0 && i == 2) {
			interrupted--;
			return -EINTR;
		}
		tell(&machine[i], fn, arg);
	}
	return 0;
}

int getifaddrs(struct ifaddrs **out)
{
	static struct sockaddr_in sin;
	static struct ifaddrs one;

	sin = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address.addr)};
	one = (struct ifaddrs){.ifa_name = (char *)address.ifname, .ifa_addr = (struct sockaddr *)&sin};
	*out = address.ifname ? &one : NULL;
	return 0;
}

void freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

#define ON(table) machine = (table), ninterfaces = sizeof(table) / sizeof((table)[0])

static int set_up(void **state)
{
	(void)state;
	interrupted = listings = 0;
	address.ifname = NULL;
	return 0;
}

/* With blanks between the names. */
static const char *names_of(const struct link_config *c)
{
	static char text[512];
	struct vlans v;

	text[0] = '\0';
	assert_int_equal(vlan_list(c, &v), 0);
	for (uint32_t i = 0; i < v.n; i++)
		strcat(strcat(text, i > 0 ? " " : ""), v.name[i]);
	vlan_free(&v);
	return text;
}

static const struct fake router[] = {
    {"lo", 1, 0, NULL, false},           {"hosts", 9, 2, "vlan", false}, /* listed before its lower device */
    {"eth2", 2, 0, NULL, false},         {"bond0", 3, 0, "bond", false},
    {"bond0.100", 4, 3, "vlan", false},                                     /* the WAN's */
    {"eth2.7", 5, 2, "vlan", false},     {"eth2.7.8", 6, 5, "vlan", false}, /* 802.1ad */
    {"mac0", 7, 2, "macvlan", false},    {"vlan2", 8, 2, "vlan", true},     /* on interface 2 of another namespace */
    {"eth2.*", 10, 2, "vlan", false},    {"eth3.5", 11, 3, "vlan", false},  /* a LAN port itself */
    {"eth3.5.6", 12, 11, "vlan", false},
};

static const struct link_config link_of_two_ports = {.nlan_ports = 2,
                                                     .lan_ports = {"eth2", "eth3.5"},
                                                     .npaths = 1,
                                                     .paths = {{.local = {{[10] = 0xff, 0xff, 192, 0, 2, 1}}}}};

static void vlan_list__those_on_lan_ports(void **state)
{
	(void)state;
	ON(router);
	assert_string_equal(names_of(&link_of_two_ports), "eth2.7 eth2.7.8 eth3.5.6 hosts");
}

/* LAN and WAN are VLANs of one trunk, and the trunk is the LAN port. */
static void vlan_list__not_the_one_of_local_address(void **state)
{
	(void)state;
	ON(router);
	address.addr = 0xc0000201;
	address.ifname = "eth2.7";
	assert_string_equal(names_of(&link_of_two_ports), "eth2.7.8 eth3.5.6 hosts");
	address.ifname = "hosts:1";
	assert_string_equal(names_of(&link_of_two_ports), "eth2.7 eth2.7.8 eth3.5.6");
	address.addr++;
	assert_string_equal(names_of(&link_of_two_ports), "eth2.7 eth2.7.8 eth3.5.6 hosts");
}

static void vlan_list__again_when_interfaces_change_meanwhile(void **state)
{
	struct vlans v;

	(void)state;
	ON(router);
	interrupted = 2;
	assert_string_equal(names_of(&link_of_two_ports), "eth2.7 eth2.7.8 eth3.5.6 hosts");
	assert_int_equal(listings, 3);
	interrupted = 1000;
	assert_int_equal(vlan_list(&link_of_two_ports, &v), -EINTR);
	assert_int_equal(v.n, 0);
}

static void vlan_list__many(void **state)
{
	static struct fake many[1000];
	static char name[1000][IF_NAMESIZE];
	struct vlans v;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(name[i], IF_NAMESIZE, "eth2.%d", i);
		many[i] = (struct fake){name[i], 10 + i, 2, "vlan", false};
	}
	many[999] = router[2];
	ON(many);
	assert_int_equal(vlan_list(&link_of_two_ports, &v), 0);
	assert_int_equal(v.n, 999);
	vlan_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(vlan_list__those_on_lan_ports, set_up),
	    cmocka_unit_test_setup(vlan_list__not_the_one_of_local_address, set_up),
	    cmocka_unit_test_setup(vlan_list__again_when_interfaces_change_meanwhile, set_up),
	    cmocka_unit_test_setup(vlan_list__many, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
