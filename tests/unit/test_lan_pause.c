/* SPDX-License-Identifier: Apache-2.0 */
/* Which pause frames leave which interface, without threads: the test looks in their place. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fake_close(int fd);

static char sys_net[] = "/tmp/test_lan_pause.XXXXXX";

#define SYS_NET    sys_net
#define ioctl      fake_ioctl
#define sendto     fake_sendto
#define setsockopt fake_setsockopt
#define close      fake_close
#include "daemon/lan/pfc.c"
#include "daemon/lan/lan_pause.c"
#undef ioctl
#undef sendto
#undef setsockopt
#undef close

#define MS 1000000ull

/* --- the kernel --- */

static struct {
	char text[256]; /* "3xoff 3xon ": interface and frame */
	int ifindex;    /* of eth2 */
	uint32_t mbps;  /* SPEED_UNKNOWN: no carrier */
} kernel;

int fake_ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *ifr;
	va_list args;

	(void)fd;
	va_start(args, request);
	ifr = va_arg(args, struct ifreq *);
	va_end(args);
	if (request == SIOCGIFHWADDR)
		memset(ifr->ifr_hwaddr.sa_data, 2, MAC_LEN);
	if (request == SIOCETHTOOL)
		ethtool_cmd_speed_set((void *)ifr->ifr_data, kernel.mbps);
	return 0;
}

ssize_t fake_sendto(int fd, const void *frame, size_t len, int flags, const struct sockaddr *addr, socklen_t addrlen)
{
	const struct sockaddr_ll *to = (const struct sockaddr_ll *)addr;
	const uint8_t *f = frame;
	char *end = kernel.text + strlen(kernel.text);
	unsigned priority = (unsigned)__builtin_ctz(f[17]);

	(void)fd;
	(void)flags;
	(void)addrlen;
	snprintf(end, sizeof(kernel.text) - (size_t)(end - kernel.text), "%d%s%s ", to->sll_ifindex,
	         f[18 + 2 * priority] ? "xoff" : "xon", priority == 3 ? "" : " of another priority");
	return (ssize_t)len;
}

int fake_setsockopt(int fd, int level, int opt, const void *value, socklen_t len)
{
	return fd + level + opt + (value != NULL) + (int)len < 0;
}

int fake_close(int fd)
{
	return fd < 0;
}

unsigned if_nametoindex(const char *ifname)
{
	return strcmp(ifname, "eth2") == 0 ? (unsigned)kernel.ifindex : 10 + (unsigned)ifname[strlen(ifname) - 1] - '0';
}

int privileged_packet_socket(int sndbuf)
{
	return sndbuf;
}

void privileged_run_first(void)
{
}

/* --- rings --- */

struct lan_port {
	uint32_t waits;
};

static bool rx_waits(const struct lan_port *port, uint32_t frames)
{
	return port->waits >= frames;
}

static const struct lan_port_ops ops = {.rx_waits = rx_waits};

struct worker {
	struct lan_port port;
	struct lan_pause *pause;
};

static void start_at(struct worker *w, const char *ifname, uint8_t priority)
{
	const struct lan_pause_params params = {.ops = &ops, .priority = priority, .watchdog_ns = 1000 * MS};
	struct pfc_plan plan = {.ring_frames = 4096,
	                        .xoff_frames = 1000,
	                        .xon_frames = 500,
	                        .refresh_ns = 1000 * MS,
	                        .watchdog_ns = params.watchdog_ns};
	char err[128];

	w->port.waits = 0;
	kernel.mbps = (uint32_t)SPEED_UNKNOWN;
	assert_int_equal(lan_pause_open(&w->pause, &params, err, sizeof(err)), 0);
	assert_int_equal(lan_pause_watch(w->pause, &w->port, ifname, &plan, err, sizeof(err)), 0);
}

static void start(struct worker *w, uint8_t priority)
{
	kernel.ifindex = 3;
	start_at(w, "eth2", priority);
}

/* The frames that the worker's thread sends at its next look, when so many packets wait. */
static void looks(struct worker *w, uint32_t waits, const char *frames)
{
	kernel.text[0] = '\0';
	w->port.waits = waits;
	look(w->pause, &w->pause->ports[0]);
	assert_string_equal(kernel.text, frames);
}

static void ends(struct worker *w, const char *frames)
{
	kernel.text[0] = '\0';
	lan_pause_stop(w->pause);
	assert_string_equal(kernel.text, frames);
}

static void lan_pause__xon_when_no_ring_of_the_port_needs_the_pause(void **state)
{
	struct worker a, b;

	(void)state;
	start(&a, 3);
	start(&b, 3);
	looks(&a, 1000, "3xoff ");
	looks(&b, 2000, "");
	looks(&b, 100, "");
	looks(&a, 900, "");
	looks(&a, 100, "3xon ");
	ends(&a, "");
	ends(&b, "");
}

static void lan_pause__a_ring_that_goes_leaves_the_pause_to_the_others(void **state)
{
	struct worker a, b;

	(void)state;
	start(&a, 3);
	start(&b, 3);
	looks(&a, 1000, "3xoff ");
	looks(&b, 1000, "");
	ends(&a, "");
	looks(&b, 900, "");
	ends(&b, "3xon ");
}

static void lan_pause__priorities_are_apart(void **state)
{
	struct worker a, b;

	(void)state;
	start(&a, 3);
	start(&b, 4);
	looks(&a, 1000, "3xoff ");
	looks(&b, 1000, "3xoff of another priority ");
	looks(&a, 100, "3xon ");
	looks(&b, 900, "");
	ends(&a, "");
	ends(&b, "3xon of another priority ");
}

/* Workers take a new interface up one after the other. */
static void lan_pause__a_ring_follows_its_interface(void **state)
{
	struct worker a, b;

	(void)state;
	start(&a, 3);
	start(&b, 3);
	looks(&a, 1000, "3xoff ");
	looks(&b, 1000, "");
	kernel.ifindex = 5;
	assert_int_equal(lan_pause_follow(a.pause, 0, "eth2"), 0);
	looks(&a, 1000, "5xoff ");
	kernel.text[0] = '\0';
	assert_int_equal(lan_pause_follow(b.pause, 0, "eth2"), 0);
	assert_string_equal(kernel.text, "3xon ");
	looks(&b, 1000, "");
	assert_int_equal(lan_pause_follow(b.pause, 0, "eth2"), 0); /* it has a new MAC address, and that is all */
	looks(&a, 100, "");
	looks(&b, 100, "5xon ");
	ends(&a, "");
	ends(&b, "");
	assert_null(pause_ports);
}

static void lan_pause__the_plan_follows_the_rate(void **state)
{
	struct pfc_plan *p;
	char err[128];
	struct worker a;

	(void)state;
	start(&a, 3);
	p = &a.pause->ports[0].plan;
	assert_int_equal(lan_pause_plan(p, "eth2", 1000 * MS), 0);
	assert_int_equal(p->rate_bps, RATE_UNKNOWN_BPS);
	assert_int_equal(lan_pause_follow(a.pause, 0, "eth2"), 0);
	assert_int_equal(p->rate_bps, RATE_UNKNOWN_BPS);
	kernel.mbps = 400000;
	assert_int_equal(lan_pause_follow(a.pause, 0, "eth2"), 1);
	assert_int_equal(lan_pause_follow(a.pause, 0, "eth2"), 0); /* said once */
	assert_int_equal(p->rate_bps, 400000000000);
	assert_int_equal(lan_pause_watch(a.pause, &a.port, "eth2", p, err, sizeof(err)), 0);
	kernel.mbps = 800000; /* known just after the plan */
	assert_int_equal(lan_pause_watch(a.pause, &a.port, "eth2", p, err, sizeof(err)), 0);
	looks(&a, p->xoff_frames, "3xoff ");
	assert_true(look(a.pause, &a.pause->ports[0]) < LOOK_NS);
	looks(&a, 0, "3xon ");
	assert_int_equal(look(a.pause, &a.pause->ports[0]), LOOK_NS);
	ends(&a, "");
}

static void in_sysfs(void (*make)(const char *path), const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", sys_net, name);
	make(path);
}

static void make_dir(const char *path)
{
	assert_int_equal(mkdir(path, 0700), 0);
}

static void remove_dir(const char *path)
{
	assert_int_equal(rmdir(path), 0);
}

/* A VLAN interface would tag the frame, a bond would choose one cable: so it goes out by the devices below. */
static void lan_pause__frames_go_out_by_the_devices_below(void **state)
{
	struct worker vlan, port;

	(void)state;
	assert_non_null(mkdtemp(sys_net));
	in_sysfs(make_dir, "vlan7");
	in_sysfs(make_dir, "vlan7/lower_bond8");
	in_sysfs(make_dir, "bond8");
	in_sysfs(make_dir, "bond8/lower_eth2");
	in_sysfs(make_dir, "eth2");
	kernel.ifindex = 3;
	start_at(&vlan, "vlan7", 3);
	looks(&vlan, 1000, "3xoff ");
	in_sysfs(make_dir, "bond8/lower_eth4"); /* the bond gets a second cable */
	assert_int_equal(lan_pause_follow(vlan.pause, 0, "vlan7"), 0);
	looks(&vlan, 1000, "14xoff ");
	start_at(&port, "eth2", 3); /* another link on the device below */
	looks(&port, 1000, "");
	looks(&vlan, 0, "14xon ");
	looks(&vlan, 1000, "14xoff ");
	in_sysfs(remove_dir, "bond8/lower_eth4");
	kernel.text[0] = '\0';
	assert_int_equal(lan_pause_follow(vlan.pause, 0, "vlan7"), 0);
	assert_string_equal(kernel.text, "14xon ");
	looks(&port, 0, "");
	ends(&vlan, "3xon ");
	ends(&port, "");
	assert_null(pause_ports);
	in_sysfs(remove_dir, "eth2");
	in_sysfs(remove_dir, "bond8/lower_eth2");
	in_sysfs(remove_dir, "bond8");
	in_sysfs(remove_dir, "vlan7/lower_bond8");
	in_sysfs(remove_dir, "vlan7");
	assert_int_equal(rmdir(sys_net), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lan_pause__xon_when_no_ring_of_the_port_needs_the_pause),
	    cmocka_unit_test(lan_pause__a_ring_that_goes_leaves_the_pause_to_the_others),
	    cmocka_unit_test(lan_pause__priorities_are_apart),
	    cmocka_unit_test(lan_pause__a_ring_follows_its_interface),
	    cmocka_unit_test(lan_pause__the_plan_follows_the_rate),
	    cmocka_unit_test(lan_pause__frames_go_out_by_the_devices_below),
	};

	return cmocka_run_group_tests_name("lan_pause", tests, NULL, NULL);
}
