/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeping of rules in front of the routing tables, with a kernel that keeps them in a list. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/kernel/fib_rule.c"
#include "daemon/util/addr.c"
#include "daemon/util/units.c"
#include "no_log.h"

#define KERNEL_MAX 40000

static struct {
	struct found rule[KERNEL_MAX];
	uint32_t n, next; /* next: where the one that is removed next is looked for first */
	bool is_new;      /* nothing is there that fib_rule_set() would have to remove */
	unsigned listings, interrupted; /* interrupted: of the next ones */
	bool refuses;                   /* to remove anything that a request may name */
	int error;                      /* of each removal */
	uint32_t ndrops, drops_asked;   /* rules of ours that drop pieces: all; those that stay */
	bool pass_went_first;           /* what lets pieces pass was removed while what drops them stood */
} kernel;

uint32_t ip_port_table(const char *link)
{
	(void)link;
	return 4791;
}

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

void rtnl_put_addr(struct nlmsghdr *h, uint16_t type, const struct ip_addr *a)
{
	mnl_attr_put(h, type, ip_addr_is4(a) ? 4 : 16, a->b + (ip_addr_is4(a) ? 12 : 0));
}

bool rtnl_get_addr(struct ip_addr *a, const void *bytes, size_t len)
{
	memset(a, 0, sizeof(*a));
	if (len == 4)
		a->b[10] = a->b[11] = 0xff;
	memcpy(a->b + (len == 4 ? 12 : 0), bytes, len);
	return true;
}

static void parse(const struct nlmsghdr *h, struct found *f)
{
	const struct fib_rule_hdr *rule = mnl_nlmsg_get_payload(h);

	memset(f, 0, sizeof(*f));
	f->pair = (struct pair){
	    .family = rule->family, .from_len = rule->src_len, .to_len = rule->dst_len, .action = rule->action};
	assert_int_equal(mnl_attr_parse(h, sizeof(*rule), on_attr, f), MNL_CB_OK);
}

/* As the kernel compares them. */
static bool same_found(const struct found *a, const struct found *b)
{
	struct pair pa = a->pair, pb = b->pair;

	pa.port = a->port;
	pb.port = b->port;
	return a->is_ours == b->is_ours && same_pair(&pa, &pb);
}

static void count_drop(const struct found *f, int by)
{
	if (f->is_ours && f->pair.priority == PRIORITY_PIECES)
		kernel.ndrops += (uint32_t)by;
}

int rtnl_talk(struct mnl_socket *s, struct nlmsghdr *h)
{
	struct found f;

	(void)s;
	parse(h, &f);
	if (h->nlmsg_type == RTM_NEWRULE) {
		assert_true(kernel.n < KERNEL_MAX);
		for (uint32_t i = 0; i < kernel.n && !kernel.is_new; i++)
			if (same_found(&kernel.rule[i], &f))
				return -EEXIST;
		kernel.rule[kernel.n++] = f;
		count_drop(&f, 1);
		return 0;
	}
	assert_int_equal(h->nlmsg_type, RTM_DELRULE);
	if (kernel.error)
		return kernel.error;
	for (uint32_t n = 0; n < kernel.n && !kernel.refuses && !kernel.is_new; n++) {
		uint32_t i = (kernel.next + n) % kernel.n;

		if (!same_found(&kernel.rule[i], &f))
			continue;
		kernel.pass_went_first |= f.pair.priority == PRIORITY_PASS && kernel.ndrops > kernel.drops_asked;
		count_drop(&f, -1);
		kernel.n--;
		memmove(&kernel.rule[i], &kernel.rule[i + 1], (kernel.n - i) * sizeof(kernel.rule[0]));
		kernel.next = i;
		return 0;
	}
	return -ENOENT;
}

int rtnl_ask(struct mnl_socket *s, struct nlmsghdr *h, mnl_cb_t fn, void *arg)
{
	union rtnl_msg msg;

	(void)s;
	assert_int_equal(h->nlmsg_type, RTM_GETRULE);
	kernel.listings++;
	for (uint32_t i = 0; i < kernel.n; i++) {
		struct found f = kernel.rule[i];
		struct nlmsghdr *m;

		if (kernel.interrupted > 0 && i == kernel.n / 2) {
			kernel.interrupted--;
			return -EINTR;
		}
		f.pair.port = f.port[0] ? f.port : NULL;
		m = build_rule(&msg, RTM_NEWRULE, 0, &f.pair);
		if (!f.is_ours)
			for (struct nlattr *a = mnl_nlmsg_get_payload_offset(m, sizeof(struct fib_rule_hdr));
			     mnl_attr_ok(a, (int)((char *)mnl_nlmsg_get_payload_tail(m) - (char *)a)); a = mnl_attr_next(a))
				if (mnl_attr_get_type(a) == FRA_PROTOCOL)
					*(uint8_t *)mnl_attr_get_payload(a) = 3; /* somebody's at boot */
		assert_true(fn(m, arg) >= MNL_CB_STOP);
	}
	return 0;
}

/* --- links --- */

static struct link_config links[2];

/* a of local and b of remote prefixes, both /24 of 10.x. */
static void make_link(struct link_config *c, const char *name, uint8_t x, uint32_t nlocal, uint32_t nremote)
{
	char text[64];

	memset(c, 0, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->nlocal = nlocal;
	c->nremote = nremote;
	for (uint32_t i = 0; i < nlocal; i++) {
		snprintf(text, sizeof(text), "10.%u.%u.0/24", x, i);
		assert_int_equal(addr_read_prefix(text, &c->local[i]), 0);
	}
	for (uint32_t i = 0; i < nremote; i++) {
		snprintf(text, sizeof(text), "10.%u.%u.0/24", x + 1u, i);
		assert_int_equal(addr_read_prefix(text, &c->remote[i]), 0);
	}
}

static int set_up(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	make_link(&links[0], "tokyo", 1, 2, 3);
	make_link(&links[1], "osaka", 3, 1, 1);
	assert_int_equal(addr_read_prefix("0.0.0.0/0", &links[1].remote[0]), 0);
	kernel.is_new = true;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fib_rule_set(&links[i], i == 1), 1);
	kernel.is_new = false;
	kernel.drops_asked = kernel.ndrops;
	return 0;
}

/* Rules that nobody asks for any more. */
static uint32_t litter(uint32_t n)
{
	struct pair p;

	for (uint32_t i = 0; i < n; i++) {
		struct found *f = &kernel.rule[kernel.n++];

		assert_true(kernel.n < KERNEL_MAX);
		memset(f, 0, sizeof(*f));
		make_pair(&p, &links[0].local[0], &links[0].remote[0]);
		p.from.b[13] = 77;
		p.from.b[14] = (uint8_t)(i >> 8);
		p.from.b[15] = (uint8_t)i;
		p.to.b[13] = (uint8_t)(i >> 16);
		p.from_len = 32;
		if (i % 3 == 0)
			make_roce(&p);
		else
			make_pieces(&p, i % 3 == 1 ? PIECES_PASS : PIECES_DROP);
		f->pair = p;
		f->is_ours = true;
		count_drop(f, 1);
	}
	return n;
}

static unsigned of_others(void)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < kernel.n; i++)
		n += !kernel.rule[i].is_ours;
	return n;
}

/* The caller learns whether somebody had removed one. */
static void fib_rule_set__tells_whether_a_rule_was_missing(void **state)
{
	(void)state;
	assert_int_equal(fib_rule_set(&links[0], false), 0);
	for (uint32_t n = kernel.n; n > 0; n -= n > 7 ? 7 : n) { /* of each kind */
		kernel.rule[n - 1] = kernel.rule[--kernel.n];
		assert_int_equal(fib_rule_set(&links[0], false) | fib_rule_set(&links[1], true), 1);
		assert_int_equal(fib_rule_set(&links[0], false) | fib_rule_set(&links[1], true), 0);
	}
}

static void fib_rule_sweep__however_many_there_are(void **state)
{
	uint32_t asked = kernel.n;

	(void)state;
	litter(20000);
	assert_int_equal(fib_rule_sweep(links, 2), 0);
	assert_int_equal(kernel.n, asked);
	assert_false(kernel.pass_went_first);
}

/* All that links may ask for stands in front of what nobody does. */
static void fib_rule_sweep__behind_many_that_stay(void **state)
{
	static struct link_config large[3];
	uint32_t asked;

	(void)state;
	kernel.n = 0;
	kernel.is_new = true;
	for (uint8_t i = 0; i < 3; i++) {
		make_link(&large[i], "large", (uint8_t)(10 + 2 * i), PREFIXES_MAX, PREFIXES_MAX);
		assert_int_equal(fib_rule_set(&large[i], i == 1), 1);
	}
	kernel.is_new = false;
	asked = kernel.n;
	assert_true(asked > 16384);
	litter(10);
	assert_int_equal(fib_rule_sweep(large, 3), 0);
	assert_int_equal(kernel.n, asked);
	assert_int_equal(fib_rule_sweep(large, 2), 0);
	assert_int_equal(kernel.n, asked - (WAYS - 1) * PREFIXES_MAX * PREFIXES_MAX); /* all but those of ALL_IP */
	for (uint32_t i = 0; i < kernel.n; i++) {
		struct pair p = kernel.rule[i].pair;

		p.port = kernel.rule[i].port[0] ? kernel.rule[i].port : NULL;
		assert_true(wanted(large, 2, &p));
	}
}

static void fib_rule_sweep__leaves_what_is_asked_for_and_what_is_others(void **state)
{
	uint32_t asked = kernel.n;
	struct found *others = &kernel.rule[kernel.n];

	(void)state;
	others[0] = kernel.rule[0];
	others[0].is_ours = false;
	kernel.n++;
	assert_int_equal(fib_rule_sweep(links, 2), 0);
	assert_int_equal(kernel.n, asked + 1);
	kernel.drops_asked = 0;
	assert_int_equal(fib_rule_sweep(links, 0), 0);
	assert_int_equal(kernel.n, 1);
	assert_int_equal(of_others(), 1);
	assert_false(kernel.pass_went_first);
}

/* Somebody else changes rules all the while. */
static void fib_rule_sweep__list_that_was_interrupted(void **state)
{
	uint32_t asked = kernel.n;

	(void)state;
	litter(100);
	kernel.interrupted = 3;
	assert_int_equal(fib_rule_sweep(links, 2), 0);
	assert_int_equal(kernel.n, asked);
	kernel.interrupted = 1000;
	assert_int_equal(fib_rule_sweep(links, 2), -EINTR);
}

static void fib_rule_sweep__ends_and_says_what_it_could_not_do(void **state)
{
	(void)state;
	litter(100);
	kernel.refuses = true;
	assert_int_equal(fib_rule_sweep(links, 2), -EBUSY);
	assert_true(kernel.listings <= 3);
	kernel.error = -EPERM;
	assert_int_equal(fib_rule_sweep(links, 2), -EPERM);
}

/* A renamed link file: the same prefixes under another name, or some of them. */
static void fib_rule_remove__leaves_what_another_link_asks_for(void **state)
{
	static struct link_config renamed;
	uint32_t before = kernel.n;

	(void)state;
	renamed = links[0];
	snprintf(renamed.name, sizeof(renamed.name), "wakkanai");
	assert_int_equal(fib_rule_remove(&links[0], &renamed, 1), 0);
	assert_int_equal(kernel.n, before);
	renamed.nremote = 1;
	assert_int_equal(fib_rule_remove(&links[0], &renamed, 1), 1);
	assert_int_equal(fib_rule_set(&renamed, false), 0); /* none of them was missing */
	assert_true(kernel.n < before);
	kernel.drops_asked = 0;
	assert_int_equal(fib_rule_remove(&links[0], NULL, 0), 1);
	assert_int_equal(fib_rule_remove(&links[0], NULL, 0), 0);
	assert_int_equal(fib_rule_set(&links[1], true), 0);
	assert_false(kernel.pass_went_first);
}

/* After the flush of one family's rules. */
static void fib_rule_set_all__tells_whether_something_was_missing(void **state)
{
	(void)state;
	kernel.n = 0;
	assert_int_equal(fib_rule_set_all(true), 1);
	assert_int_equal(kernel.n, 2);
	assert_int_equal(fib_rule_set_all(true), 0);
	kernel.n = 1;
	assert_int_equal(fib_rule_set_all(true), 1);
	assert_int_equal(kernel.n, 2);
	assert_int_equal(fib_rule_set_all(false), 1);
	assert_int_equal(kernel.n, 0);
	assert_int_equal(fib_rule_set_all(false), 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup(t, set_up)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(fib_rule_set__tells_whether_a_rule_was_missing, set_up),
	    TEST(fib_rule_sweep__however_many_there_are),
	    TEST(fib_rule_sweep__behind_many_that_stay),
	    TEST(fib_rule_sweep__leaves_what_is_asked_for_and_what_is_others),
	    TEST(fib_rule_sweep__list_that_was_interrupted),
	    TEST(fib_rule_remove__leaves_what_another_link_asks_for),
	    TEST(fib_rule_set_all__tells_whether_something_was_missing),
	    TEST(fib_rule_sweep__ends_and_says_what_it_could_not_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
