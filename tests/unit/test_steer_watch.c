/* SPDX-License-Identifier: Apache-2.0 */
/* Whether somebody is at our rules, where the kernel says so, and where it cannot be heard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "no_log.h"

static int tables_socket(void);
static int routing_socket(void);

#define privileged_rules_socket tables_socket
#define rtnl_rules_socket       routing_socket
#include "daemon/closed/steer_watch.c"
#undef privileged_rules_socket
#undef rtnl_rules_socket

static int kernel[2]; /* the far end writes what nftables would say */
static int routing[2]; /* the same of rules in front of the routing tables */
static bool heard;
static unsigned looks;

static int tables_socket(void)
{
	return heard ? kernel[1] : -EPERM;
}

static int routing_socket(void)
{
	return heard ? routing[1] : -EPERM;
}

static void look(void *arg)
{
	(void)arg;
	looks++;
}

static struct steer_watch *watch(struct event_base *base)
{
	struct steer_watch *w = NULL;

	looks = 0;
	if (heard) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, kernel), 0);
		assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, routing), 0);
	}
	assert_int_equal(steer_watch_open(&w, base, look, NULL), 0);
	return w;
}

static void say(const char *table)
{
	char buf[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);

	h->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_DELTABLE;
	mnl_nlmsg_put_extra_header(h, sizeof(struct nfgenmsg));
	mnl_attr_put_strz(h, NFTA_TABLE_NAME, table);
	assert_int_equal(write(kernel[0], buf, h->nlmsg_len), (ssize_t)h->nlmsg_len);
}

static void steer_watch__hears_of_our_tables_alone(void **state)
{
	struct event_base *base = event_base_new();
	struct steer_watch *w;

	(void)state;
	heard = true;
	w = watch(base);
	say("filter");
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(looks, 0);
	say("longreach_tokyo");
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(looks, 1);
	steer_watch_close(w);
	close(kernel[0]);
	close(routing[0]);
	event_base_free(base);
}

static void say_rule(uint16_t type, uint8_t protocol)
{
	char buf[256];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);

	h->nlmsg_type = type;
	mnl_nlmsg_put_extra_header(h, sizeof(struct fib_rule_hdr));
	mnl_attr_put_u32(h, FRA_PRIORITY, 89);
	mnl_attr_put_u8(h, FRA_PROTOCOL, protocol);
	assert_int_equal(write(routing[0], buf, h->nlmsg_len), (ssize_t)h->nlmsg_len);
}

/* `ip rule flush` removes ours as well; what others add or remove is theirs. */
static void steer_watch__hears_of_our_ip_rules_that_are_removed(void **state)
{
	struct event_base *base = event_base_new();
	struct steer_watch *w;

	(void)state;
	heard = true;
	w = watch(base);
	say_rule(RTM_DELRULE, RTPROT_BOOT);
	say_rule(RTM_NEWRULE, FIB_RULE_PROTOCOL);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(looks, 0);
	say_rule(RTM_DELRULE, FIB_RULE_PROTOCOL);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(looks, 1);
	steer_watch_close(w);
	close(kernel[0]);
	close(routing[0]);
	event_base_free(base);
}

/* Rules that are flushed must come back all the same. */
static void steer_watch__that_hears_nothing_looks(void **state)
{
	struct event_base *base = event_base_new();
	struct steer_watch *w;

	(void)state;
	heard = false;
	w = watch(base);
	event_base_loop(base, EVLOOP_ONCE);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(looks, 2);
	steer_watch_close(w);
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steer_watch__hears_of_our_tables_alone),
	    cmocka_unit_test(steer_watch__hears_of_our_ip_rules_that_are_removed),
	    cmocka_unit_test(steer_watch__that_hears_nothing_looks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
