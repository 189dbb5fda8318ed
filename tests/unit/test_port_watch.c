/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of LAN ports and WAN addresses that do not work. That the kernel is read rightly is tested by
 * tests/netns/test_interfaces.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/util/addr.c"
#include "daemon/util/units.c"
#include "daemon/link/port_watch.c"

static struct link_config config;
static struct port_view view;
static uint32_t lan_mtu[LAN_PORTS_MAX];
static char text[CONFIG_ERR_MAX];

/* Two LAN ports and two paths, all well. */
static int set_up(void **state)
{
	(void)state;
	config = (struct link_config){.nlan_ports = 2, .lan_ports = {"lan0", "lan1"}, .npaths = 2};
	view = (struct port_view){0};
	for (int i = 0; i < 2; i++) {
		view.lan[i].ifindex = 3 + i;
		view.lan[i].up = view.lan[i].carrier = true;
		view.lan[i].mtu = lan_mtu[i] = 9000;
		view.wan[i].address = view.wan[i].route = true;
		view.wan[i].mtu = 9000;
		config.paths[i].mtu = 9000;
	}
	assert_int_equal(addr_read("192.0.2.1", &config.paths[0].local), 0);
	assert_int_equal(addr_read("192.0.2.2", &config.paths[0].remote), 0);
	assert_int_equal(addr_read("198.51.100.1", &config.paths[1].local), 0);
	assert_int_equal(addr_read("198.51.100.2", &config.paths[1].remote), 0);
	return 0;
}

static void expect(const char *want)
{
	port_view_trouble(&view, lan_mtu, &config, text);
	if (want[0] == '\0')
		assert_string_equal(text, "");
	else if (!strstr(text, want))
		fail_msg("\"%s\" does not say \"%s\"", text, want);
}

static void trouble__none(void **state)
{
	(void)state;
	expect("");
}

static void trouble__any_lan_port(void **state)
{
	(void)state;
	view.lan[1].mtu = 1500;
	expect("LAN port lan1: MTU 1500, was 9000");
	view.lan[1].carrier = false;
	expect("LAN port lan1: no carrier");
	view.lan[1].up = false;
	expect("LAN port lan1: is down");
	view.lan[1].ifindex = 0;
	expect("LAN port lan1: gone");
}

static void trouble__a_larger_mtu_is_none(void **state)
{
	(void)state;
	view.lan[0].mtu = 9216;
	expect("");
}

static void trouble__one_path_is_enough(void **state)
{
	(void)state;
	view.wan[0].address = false;
	expect("");
	view.wan[0].address = true;
	view.wan[1].route = false;
	expect("");
}

static void trouble__of_all_paths(void **state)
{
	(void)state;
	view.wan[0].address = false;
	view.wan[1].route = false;
	expect("RemoteAddress=198.51.100.2: no route");
	view.wan[1].route = true;
	view.wan[1].mtu = 1500;
	expect("LocalAddress=198.51.100.1: its interface has MTU 1500, less than MTU=9000 of the path");
	view.wan[1].mtu = 0; /* an address that no interface has */
	expect("");
}

#define TEST(t) cmocka_unit_test_setup(t, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(trouble__none),
	    TEST(trouble__any_lan_port),
	    TEST(trouble__a_larger_mtu_is_none),
	    TEST(trouble__one_path_is_enough),
	    TEST(trouble__of_all_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
