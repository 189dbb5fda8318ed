/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/util/units.c"
#include "daemon/util/addr.c"
#include "daemon/peer/hello.c"
#include "daemon/config/host_groups.c"

static void add(struct ip_prefix *list, uint32_t *n, const char *text)
{
	assert_int_equal(addr_read_prefix(text, &list[(*n)++]), 0);
}

/* The edge at site A, and the one at site B that fits to it. */
static struct hello edge_a(void)
{
	struct hello h = {.version = 3,
	                  .arena_former = FORMER_KEPT,
	                  .version_min = 1,
	                  .boot_id = 0xaaaa0001,
	                  .session = 1,
	                  .arena_epoch = 0x1111222233334444,
	                  .rate_bps = 100000000000,
	                  .wan_mtu = 9000,
	                  .lanes = 64,
	                  .ack_mode = ACK_MODE_NEAR,
	                  .npaths = 2,
	                  .paths = {"north", "south"},
	                  .name = "to-b"};

	add(h.local, &h.nlocal, "10.1.0.0/16");
	add(h.local, &h.nlocal, "2001:db8:1::/48");
	add(h.remote, &h.nremote, "10.2.0.0/16");
	return h;
}

static struct hello edge_b(void)
{
	struct hello h = edge_a();

	h.boot_id = 0xbbbb0001;
	h.arena_epoch = 0x5555666677778888;
	h.nlocal = h.nremote = 0;
	memset(h.local, 0, sizeof(h.local));
	memset(h.remote, 0, sizeof(h.remote));
	add(h.local, &h.nlocal, "10.2.0.0/16");
	add(h.remote, &h.nremote, "2001:db8:1::/48"); /* the order does not matter */
	add(h.remote, &h.nremote, "10.1.0.0/16");
	snprintf(h.name, sizeof(h.name), "to-a");
	return h;
}

static void expect_verdict(const struct hello *here, const struct hello *there, enum hello_verdict want,
                           const char *want_text)
{
	char text[HELLO_TEXT_MAX];

	assert_int_equal(hello_compare(here, there, text), want);
	assert_string_equal(text, want_text);
}

static void hello_decode__reads_what_was_encoded(void **state)
{
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX];
	uint16_t len = hello_encode(&a, body);

	(void)state;
	assert_int_equal(hello_decode(body, len, &got), 0);
	assert_memory_equal(&a, &got, sizeof(a));
	/* A later version says more: ignored. */
	memset(body + len, 0xff, 100);
	assert_int_equal(hello_decode(body, len + 100u, &got), 0);
	assert_memory_equal(&a, &got, sizeof(a));
}

static void hello_decode__refuses_every_cut(void **state)
{
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX];
	uint16_t len = hello_encode(&a, body);

	(void)state;
	for (uint16_t n = 0; n + 1 < len; n++)
		assert_int_equal(hello_decode(body, n, &got), -EPROTO);
	/* the last byte is barrier_owed, which an earlier one of this version does not say */
	assert_int_equal(hello_decode(body, len - 1u, &got), 0);
	assert_memory_equal(&a, &got, sizeof(a));
}

static void hello_decode__barrier_owed(void **state)
{
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX];

	(void)state;
	a.barrier_owed = true;
	assert_int_equal(hello_decode(body, hello_encode(&a, body), &got), 0);
	assert_memory_equal(&a, &got, sizeof(a));
}

static void hello_decode__refuses_impossible_fields(void **state)
{
	static const struct {
		unsigned at;
		uint8_t value;
	} bad[] = {{0, 0},     {4, 0},   {44, PREFIXES_MAX + 1}, {45, 255}, {46, LINK_NAME_MAX}, {52, '\n'},
	           {52, 0x80}, {56, 129}};
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX];
	uint16_t len = hello_encode(&a, body);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t kept = body[bad[i].at];

		body[bad[i].at] = bad[i].value;
		if (hello_decode(body, len, &got) != -EPROTO)
			fail_msg("byte %u = %u was taken", bad[i].at, bad[i].value);
		body[bad[i].at] = kept;
	}
}

static void hello_encode__the_largest_fits(void **state)
{
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX];

	(void)state;
	a.nlocal = a.nremote = PREFIXES_MAX;
	memset(a.name, 'x', LINK_NAME_MAX - 1);
	a.npaths = PATHS_MAX;
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		memset(a.paths[i], 'a' + (int)i, PATH_NAME_MAX - 1);
	assert_int_equal(hello_decode(body, hello_encode(&a, body), &got), 0);
	assert_memory_equal(&a, &got, sizeof(a));
}

/* Paths go by their names; an edge that knows no names has one path. */
static void hello_compare__paths(void **state)
{
	struct hello a = edge_a(), b = edge_b();
	char text[HELLO_TEXT_MAX];

	(void)state;
	snprintf(b.paths[1], PATH_NAME_MAX, "west");
	assert_int_equal(hello_compare(&a, &b, text), HELLO_REFUSED);
	assert_string_equal(text, "[Path south] here is not there");
	b.npaths = 1;
	assert_int_equal(hello_compare(&b, &a, text), HELLO_REFUSED);
	assert_string_equal(text, "[Path south] there is not here");
	a.paths[0][0] = b.paths[0][0] = '\0';
	a.npaths = 1;
	assert_int_equal(hello_compare(&a, &b, text), HELLO_AGREED);
	b.npaths = 0; /* of an older version */
	b.version = 2;
	a.version_min = 2;
	assert_int_equal(hello_compare(&a, &b, text), HELLO_AGREED);
	a.npaths = 2;
	assert_int_equal(hello_compare(&a, &b, text), HELLO_REFUSED);
	assert_string_equal(
	    text, "the link has several paths, and one edge has a version of longreach that knows only one path");
}

/* A line may be wider one way; a hundredfold is said. */
static void hello_rates__extremes_are_said(void **state)
{
	struct hello a = edge_a(), b = edge_b();
	char text[HELLO_TEXT_MAX] = "old", back[HELLO_TEXT_MAX];

	(void)state;
	hello_rates(&a, &b, text);
	assert_string_equal(text, "");
	b.rate_bps = a.rate_bps / 99;
	hello_rates(&a, &b, text);
	assert_string_equal(text, "");
	b.rate_bps = a.rate_bps / 1000;
	hello_rates(&a, &b, text);
	assert_non_null(strstr(text, "Rate= is 100 Gbit/s here and 100 Mbit/s there: "));
	assert_true(strlen(text) < HELLO_TEXT_MAX - 1); /* all of it */
	hello_rates(&b, &a, back);
	assert_non_null(strstr(back, "Rate= is 100 Mbit/s here and 100 Gbit/s there: "));
	assert_int_equal(hello_compare(&a, &b, text), HELLO_AGREED);
	b.rate_bps = 0; /* no sane peer says so */
	hello_rates(&a, &b, text);
	assert_string_equal(text, "");
}

static void hello_decode__hostile_paths(void **state)
{
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX], *paths;
	uint16_t len = hello_encode(&a, body);

	(void)state;
	paths = body + len - 1 - 2 - 10 - 1;
	assert_int_equal(paths[0], 2);
	for (unsigned n = 0; n < 256; n++) {
		paths[0] = (uint8_t)n;
		/* what says whether the barrier is owed may pass for the third one's empty name */
		assert_int_equal(hello_decode(body, len, &got), n >= 1 && n <= 3 ? 0 : -EPROTO);
	}
	paths[0] = 2;
	for (unsigned n = 6; n < 256; n++) {
		paths[1] = (uint8_t)n;
		assert_int_equal(hello_decode(body, len, &got), -EPROTO);
	}
	paths[1] = 5;
	paths[3] = '\n';
	assert_int_equal(hello_decode(body, len, &got), -EPROTO);
}

/* An edge that knows no groups says nothing of them. */
static void hello_decode__without_groups(void **state)
{
	struct hello a = edge_a(), got;
	uint8_t body[PEER_BODY_MAX];
	uint16_t len;

	(void)state;
	a.host_groups = 0x1122334455667788;
	a.version = 2;
	a.npaths = 0;
	len = (uint16_t)(hello_encode(&a, body) - 2);
	assert_int_equal(hello_decode(body, len, &got), 0);
	assert_true(got.host_groups == a.host_groups);
	assert_int_equal(hello_decode(body, len - GROUPS_LEN, &got), 0);
	assert_true(got.host_groups == 0);
}

/* They decide which lane a packet is on: nothing can be carried before they agree. */
static void hello_compare__other_groups(void **state)
{
	struct hello a = edge_a(), b = edge_b();

	(void)state;
	a.host_groups = 1;
	expect_verdict(&a, &b, HELLO_REFUSED,
	               "Group= in [Host] names other groups here than there: both edges must name the same");
	b.host_groups = 1;
	expect_verdict(&a, &b, HELLO_AGREED, "");
}

static struct ip_addr address(const char *text)
{
	struct ip_addr a;

	assert_int_equal(addr_read(text, &a), 0);
	return a;
}

static void group(struct link_config *c, const char *a, const char *b, const char *third)
{
	struct host_group *g = &c->host_groups[c->nhost_groups++];

	g->addr[0] = address(a);
	g->addr[1] = address(b);
	g->n = 2;
	if (third != NULL)
		g->addr[g->n++] = address(third);
}

static void host_groups_aliases__first_address_stands_for_all(void **state)
{
	static struct link_config c, other;
	struct host_alias alias[HOST_ALIASES_MAX];
	struct proxy_config core;

	(void)state;
	assert_int_equal(host_groups_aliases(&c, alias), 0);
	assert_true(host_groups_digest(&c) == 0);
	group(&c, "10.1.0.9", "10.1.0.2", "fd00::2");
	group(&c, "10.2.0.7", "10.2.0.3", NULL);
	group(&c, "10.1.0.9", "10.1.0.1", NULL); /* the first machine again */
	proxy_config_defaults(&core);
	core.naliases = host_groups_aliases(&c, core.alias);
	assert_int_equal(core.naliases, 4);
	for (unsigned i = 1; i < 4; i++)
		assert_true(memcmp(core.alias[i - 1].addr.b, core.alias[i].addr.b, 16) < 0);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const further[] = {"10.1.0.9", "10.1.0.2", "fd00::2"};
		struct ip_addr a = address(further[i]), first = address("10.1.0.1");

		assert_true(ip_addr_eq(proxy_machine(&core, &a), &first));
	}
	/* the same, said in another order and other pieces */
	group(&other, "10.2.0.3", "10.2.0.7", NULL);
	group(&other, "10.1.0.1", "10.1.0.2", NULL);
	group(&other, "10.1.0.2", "10.1.0.9", "fd00::2");
	assert_true(host_groups_digest(&c) == host_groups_digest(&other));
	group(&other, "10.2.0.3", "10.2.0.8", NULL);
	assert_true(host_groups_digest(&c) != host_groups_digest(&other));
}

/* As many as a file can name: the core takes them. */
static void host_groups_aliases__the_most(void **state)
{
	static struct link_config c;
	struct proxy_config core;

	(void)state;
	for (uint32_t g = 0; g < HOST_GROUPS_MAX; g++) {
		for (uint32_t i = 0; i < HOST_GROUP_ADDRESSES; i++)
			c.host_groups[g].addr[i] = (struct ip_addr){.b = {0xfd, [14] = (uint8_t)g, [15] = (uint8_t)i}};
		c.host_groups[g].n = HOST_GROUP_ADDRESSES;
	}
	c.nhost_groups = HOST_GROUPS_MAX;
	proxy_config_defaults(&core);
	core.naliases = host_groups_aliases(&c, core.alias);
	assert_int_equal(core.naliases, HOST_ALIASES_MAX);
	assert_true(ip_addr_eq(proxy_machine(&core, &c.host_groups[63].addr[3]), &c.host_groups[63].addr[0]));
}

static void hello_compare__agreed(void **state)
{
	struct hello a = edge_a(), b = edge_b();

	(void)state;
	expect_verdict(&a, &b, HELLO_AGREED, "");
	expect_verdict(&b, &a, HELLO_AGREED, "");
}

static void hello_compare__mismatch_names_keys_and_values(void **state)
{
	struct hello a = edge_a(), b = edge_b();

	(void)state;
	b.ack_mode = ACK_MODE_HOST;
	expect_verdict(&a, &b, HELLO_MISMATCH, "AckMode= is near here and host there");
	b = edge_b();
	b.barrier = BARRIER_PAIR;
	a.barrier = BARRIER_OFF;
	expect_verdict(&a, &b, HELLO_MISMATCH,
	               "Barrier= is off here and pair there (with rp_filter=1 an edge drops other IP in one direction: "
	               "set the same Barrier= at both edges)");
	a = edge_a();
	b = edge_b();
	a.npair_modes = b.npair_modes = 1;
	a.pair_modes[0] = (struct pair_mode){a.local[0], a.remote[0], ACK_MODE_FAR};
	b.pair_modes[0] = (struct pair_mode){a.remote[0], a.local[0], ACK_MODE_FAR};
	expect_verdict(&a, &b, HELLO_AGREED, "");
	b.pair_modes[0].mode = ACK_MODE_HOST;
	expect_verdict(&a, &b, HELLO_MISMATCH,
	               "PairAckMode= here and there differ: expected mirror images in the same order");
	a = edge_a();
	b = edge_b();
	b.local[0].len++;
	expect_verdict(&a, &b, HELLO_MISMATCH,
	               "RemotePrefix=10.2.0.0/16 here is not in LocalPrefix= there; "
	               "LocalPrefix=10.2.0.0/17 there is not in RemotePrefix= here");
	b = edge_b();
	b.nremote = 1;
	expect_verdict(&a, &b, HELLO_MISMATCH, "LocalPrefix=10.1.0.0/16 here is not in RemotePrefix= there");
	expect_verdict(&b, &a, HELLO_MISMATCH, "LocalPrefix=10.1.0.0/16 there is not in RemotePrefix= here");
}

static void hello_compare__refused(void **state)
{
	struct hello a = edge_a(), b = edge_b();

	(void)state;
	b.lanes = 32;
	expect_verdict(&a, &b, HELLO_REFUSED, "Lanes= is 64 here and 32 there");
	b = edge_b();
	b.version = 5;
	b.version_min = 4;
	expect_verdict(&a, &b, HELLO_REFUSED,
	               "this edge speaks protocol versions 1 to 3, the other edge 4 to 5: update the older one");
	b.version_min = 1; /* can still speak ours */
	expect_verdict(&a, &b, HELLO_AGREED, "");
	expect_verdict(&a, &a, HELLO_REFUSED,
	               "RemoteAddress= leads back to this link itself: expected the other edge's address");
}

static void hello_epochs__crosswise_and_new_for_every_life(void **state)
{
	struct hello a = edge_a(), b = edge_b();
	struct proxy_session sa, sb, s;

	(void)state;
	hello_epochs(&a, &b, &sa);
	hello_epochs(&b, &a, &sb);
	assert_int_equal(sa.epoch_tx, sb.epoch_rx);
	assert_int_equal(sa.epoch_rx, sb.epoch_tx);
	assert_int_not_equal(sa.epoch_tx, sa.epoch_rx);
	assert_int_equal(sa.peer_boot_id, b.boot_id);
	assert_int_equal(sb.peer_boot_id, a.boot_id);
	b.boot_id++;
	hello_epochs(&a, &b, &s);
	assert_int_not_equal(s.epoch_tx, sa.epoch_tx);
	assert_int_not_equal(s.epoch_rx, sa.epoch_rx);
	b = edge_b();
	a.session++;
	hello_epochs(&a, &b, &s);
	assert_int_not_equal(s.epoch_tx, sa.epoch_tx);
	assert_int_not_equal(s.epoch_rx, sa.epoch_rx);
}

/* An edge whose buffer is another one than the other edge knows tells whether that is a loss; it knows it itself, too. */
static void hello_epochs__tell_of_a_lost_buffer(void **state)
{
	struct hello a = edge_a(), b = edge_b();
	struct proxy_session sa, sb;

	(void)state;
	a.arena_epoch = 99;
	b.peer_arena_epoch = 98;
	a.arena_former = FORMER_LOST;
	hello_epochs(&a, &b, &sa);
	hello_epochs(&b, &a, &sb);
	assert_true(sa.arena_lost);
	assert_false(sb.peer_kept_arena);
	assert_int_equal(sb.peer_arena_epoch, 99);
	a.arena_former = FORMER_KEPT;
	hello_epochs(&a, &b, &sa);
	hello_epochs(&b, &a, &sb);
	assert_false(sa.arena_lost);
	assert_true(sb.peer_kept_arena);
	a.arena_former = FORMER_LOST;
	b.peer_arena_epoch = 0; /* never met: nothing can be owed */
	hello_epochs(&a, &b, &sa);
	assert_false(sa.arena_lost);
	b.peer_arena_epoch = 99; /* said already */
	hello_epochs(&a, &b, &sa);
	assert_false(sa.arena_lost);
	a.arena_former = FORMER_UNKNOWN; /* an earlier version: who knows */
	hello_epochs(&b, &a, &sb);
	assert_false(sb.peer_kept_arena);
}

static void peer_msg_next__waits_for_all_of_it(void **state)
{
	uint8_t data[PEER_HEADER_LEN + PEER_PING_LEN] = {0};
	struct peer_msg m;

	(void)state;
	peer_msg_header(data, MSG_PING, PEER_PING_LEN);
	for (size_t n = 0; n < sizeof(data); n++)
		assert_int_equal(peer_msg_next(data, n, &m), 0);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), sizeof(data));
	assert_int_equal(m.type, MSG_PING);
	assert_int_equal(m.len, PEER_PING_LEN);
	assert_ptr_equal(m.body, data + PEER_HEADER_LEN);
}

static void peer_msg_next__length_table(void **state)
{
	static uint8_t data[PEER_HEADER_LEN + PEER_BODY_MAX];
	struct peer_msg m;

	(void)state;
	peer_msg_header(data, MSG_PING, PEER_PING_LEN - 1);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), -EPROTO);
	peer_msg_header(data, MSG_PONG, PEER_PING_LEN + 1);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), -EPROTO);
	peer_msg_header(data, MSG_HELLO, HELLO_FIXED_LEN - 1);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), -EPROTO);
	/* An unknown type is skipped by its length, if that is sane. */
	peer_msg_header(data, (enum peer_msg_type)200, 0);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), PEER_HEADER_LEN);
	peer_msg_header(data, (enum peer_msg_type)200, PEER_BODY_MAX);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), PEER_HEADER_LEN + PEER_BODY_MAX);
	peer_msg_header(data, (enum peer_msg_type)200, PEER_BODY_MAX + 1);
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), -EPROTO);
	peer_msg_header(data, (enum peer_msg_type)200, 0);
	data[3] = 1;
	assert_int_equal(peer_msg_next(data, sizeof(data), &m), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hello_compare__paths), cmocka_unit_test(hello_rates__extremes_are_said),
	    cmocka_unit_test(hello_decode__hostile_paths),
	    cmocka_unit_test(hello_decode__without_groups),
	    cmocka_unit_test(hello_compare__other_groups),
	    cmocka_unit_test(host_groups_aliases__first_address_stands_for_all),
	    cmocka_unit_test(host_groups_aliases__the_most),
	    cmocka_unit_test(hello_decode__reads_what_was_encoded),
	    cmocka_unit_test(hello_decode__refuses_every_cut),
	    cmocka_unit_test(hello_decode__barrier_owed),
	    cmocka_unit_test(hello_decode__refuses_impossible_fields),
	    cmocka_unit_test(hello_encode__the_largest_fits),
	    cmocka_unit_test(hello_compare__agreed),
	    cmocka_unit_test(hello_compare__mismatch_names_keys_and_values),
	    cmocka_unit_test(hello_compare__refused),
	    cmocka_unit_test(hello_epochs__tell_of_a_lost_buffer),
	    cmocka_unit_test(hello_epochs__crosswise_and_new_for_every_life),
	    cmocka_unit_test(peer_msg_next__waits_for_all_of_it),
	    cmocka_unit_test(peer_msg_next__length_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
