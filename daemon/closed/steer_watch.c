/* SPDX-License-Identifier: Apache-2.0 */
#include "steer_watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
#include <libmnl/libmnl.h>
#include <linux/fib_rules.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

#include "daemon/kernel/fib_rule.h"
#include "daemon/privileged/privileged.h"
#include "daemon/util/log.h"
#include "daemon/util/rtnl.h"

#define OUR_TABLES   "longreach"
#define READ_MAX     (16 << 10)
#define LOOK_S       1
#define MESSAGES_MAX 4096 /* messages read in one call: replacing a ruleset sends many */

struct steer_watch {
	int tables, rules; /* what hears of nftables, and of rules in front of the routing tables; negative errno: nothing
	                    * does, so fn runs every LOOK_S */
	struct event *on_tables, *on_rules, *look;
	void (*fn)(void *arg);
	void *arg;
};

/* Tables, chains and rules have the name of their table in attribute 1. */
_Static_assert(NFTA_TABLE_NAME == 1 && NFTA_CHAIN_TABLE == 1 && NFTA_RULE_TABLE == 1, "one attribute");

static int find_table(const struct nlattr *attr, void *arg)
{
	const char **name = arg;

	if (mnl_attr_get_type(attr) == NFTA_TABLE_NAME && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) >= 0)
		*name = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

static bool has_table(uint16_t type)
{
	switch (NFNL_MSG_TYPE(type)) {
	case NFT_MSG_NEWTABLE:
	case NFT_MSG_DELTABLE:
	case NFT_MSG_NEWCHAIN:
	case NFT_MSG_DELCHAIN:
	case NFT_MSG_NEWRULE:
	case NFT_MSG_DELRULE:
		return true;
	default:
		return false;
	}
}

static int on_message(const struct nlmsghdr *h, void *arg)
{
	const char *name = NULL;
	bool *ours = arg;

	if (NFNL_SUBSYS_ID(h->nlmsg_type) != NFNL_SUBSYS_NFTABLES || !has_table(h->nlmsg_type))
		return MNL_CB_OK;
	mnl_attr_parse(h, sizeof(struct nfgenmsg), find_table, &name);
	*ours |= name != NULL && strncmp(name, OUR_TABLES, strlen(OUR_TABLES)) == 0;
	return MNL_CB_OK;
}

static int find_protocol(const struct nlattr *attr, void *arg)
{
	if (mnl_attr_get_type(attr) == FRA_PROTOCOL && mnl_attr_validate(attr, MNL_TYPE_U8) >= 0)
		*(bool *)arg |= mnl_attr_get_u8(attr) == FIB_RULE_PROTOCOL;
	return MNL_CB_OK;
}

static int on_rule(const struct nlmsghdr *h, void *ours)
{
	if (h->nlmsg_type == RTM_DELRULE)
		mnl_attr_parse(h, sizeof(struct fib_rule_hdr), find_protocol, ours);
	return MNL_CB_OK;
}

/* Reads all messages. True if fn() has found one about us; lost messages may have been, too. */
static bool read_all(int fd, mnl_cb_t fn)
{
	static char buf[READ_MAX]; /* main thread only */
	bool ours = false;

	for (int i = 0; i < MESSAGES_MAX; i++) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0 || mnl_cb_run(buf, (size_t)n, 0, 0, fn, &ours) < 0)
			ours = true;
	}
	return ours;
}

static void on_tables(evutil_socket_t fd, short what, void *arg)
{
	struct steer_watch *w = arg;

	(void)what;
	if (read_all(fd, on_message))
		w->fn(w->arg);
}

static void on_rules(evutil_socket_t fd, short what, void *arg)
{
	struct steer_watch *w = arg;

	(void)what;
	if (read_all(fd, on_rule))
		w->fn(w->arg);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct steer_watch *w = arg;

	(void)fd;
	(void)what;
	w->fn(w->arg);
}

/* False: out of memory. */
static bool hear(struct steer_watch *w, struct event_base *base, int fd, event_callback_fn fn, struct event **ev)
{
	if (fd < 0)
		return true;
	*ev = event_new(base, fd, EV_READ | EV_PERSIST, fn, w);
	return *ev != NULL && event_add(*ev, NULL) == 0;
}

int steer_watch_open(struct steer_watch **out, struct event_base *base, void (*fn)(void *arg), void *arg)
{
	const struct timeval every = {.tv_sec = LOOK_S};
	struct steer_watch *w = calloc(1, sizeof(*w));
	int deaf;

	if (w == NULL)
		return -ENOMEM;
	w->fn = fn;
	w->arg = arg;
	w->tables = privileged_rules_socket();
	w->rules = rtnl_rules_socket();
	deaf = w->tables < 0 ? w->tables : w->rules < 0 ? w->rules : 0;
	if (deaf < 0) {
		log_warn(
		    "the kernel does not report changes to its rules (%s): longreachd examines the rules every %d s",
		    strerror(-deaf), LOOK_S);
		w->look = event_new(base, -1, EV_PERSIST, on_look, w);
	}
	if ((deaf < 0 && (w->look == NULL || event_add(w->look, &every) < 0)) ||
	    !hear(w, base, w->tables, on_tables, &w->on_tables) || !hear(w, base, w->rules, on_rules, &w->on_rules)) {
		steer_watch_close(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

static void forget(struct event *ev, int fd)
{
	if (ev != NULL)
		event_free(ev);
	if (fd >= 0)
		close(fd);
}

void steer_watch_close(struct steer_watch *w)
{
	if (w == NULL)
		return;
	forget(w->on_tables, w->tables);
	forget(w->on_rules, w->rules);
	forget(w->look, -1);
	free(w);
}
