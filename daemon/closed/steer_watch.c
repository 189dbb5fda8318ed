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
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include "daemon/privileged/privileged.h"
#include "daemon/util/log.h"

#define OUR_TABLES   "longreach"
#define READ_MAX     (16 << 10)
#define LOOK_S       1
#define MESSAGES_MAX 4096 /* messages read in one call: replacing a ruleset sends many */

struct steer_watch {
	int kernel; /* negative errno: no notifications, so fn runs every LOOK_S */
	struct event *said;
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

/* Reads all messages. True if one is about our tables; lost messages may have been, too. */
static bool read_all(struct steer_watch *w)
{
	static char buf[READ_MAX]; /* main thread only */
	bool ours = false;

	for (int i = 0; i < MESSAGES_MAX; i++) {
		ssize_t n = recv(w->kernel, buf, sizeof(buf), 0);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0 || mnl_cb_run(buf, (size_t)n, 0, 0, on_message, &ours) < 0)
			ours = true;
	}
	return ours;
}

static void on_said(evutil_socket_t fd, short what, void *arg)
{
	struct steer_watch *w = arg;

	(void)fd;
	(void)what;
	if (read_all(w))
		w->fn(w->arg);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct steer_watch *w = arg;

	(void)fd;
	(void)what;
	w->fn(w->arg);
}

int steer_watch_open(struct steer_watch **out, struct event_base *base, void (*fn)(void *arg), void *arg)
{
	const struct timeval every = {.tv_sec = LOOK_S};
	struct steer_watch *w = calloc(1, sizeof(*w));
	bool hears;

	if (w == NULL)
		return -ENOMEM;
	w->fn = fn;
	w->arg = arg;
	w->kernel = privileged_rules_socket();
	hears = w->kernel >= 0;
	if (!hears)
		log_warn("cannot hear of changes to the kernel's rules (%s): they are looked at every %d s", strerror(-w->kernel),
		         LOOK_S);
	w->said = hears ? event_new(base, w->kernel, EV_READ | EV_PERSIST, on_said, w)
	                : event_new(base, -1, EV_PERSIST, on_look, w);
	if (w->said == NULL || event_add(w->said, hears ? NULL : &every) < 0) {
		steer_watch_close(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

void steer_watch_close(struct steer_watch *w)
{
	if (w == NULL)
		return;
	if (w->said != NULL)
		event_free(w->said);
	if (w->kernel >= 0)
		close(w->kernel);
	free(w);
}
