/* SPDX-License-Identifier: Apache-2.0 */
/* A LAN port's queue of frames that the device did not take: order, retries, and what is refused for good. */
#define _GNU_SOURCE
#include <sys/socket.h>

/* The device: takes `room` messages, then says that it is full; refuses each that begins with 0xbb. */
static unsigned room, seen_n;
static unsigned char seen[4096];

static int fake_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags);
#define sendmmsg fake_sendmmsg
#include "daemon/lan/lan_packet.c" /* before cmocka.h, which has a fail() too */
#undef sendmmsg

#include "daemon/lan/burst_ring.c"
#include "daemon/lan/l4_csum.c"
#include "daemon/lan/lan_filter.c"
#include "no_parent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { REFUSED = 0xbb };

static int fake_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	unsigned sent = 0;

	(void)fd;
	assert_true(flags & MSG_DONTWAIT);
	for (; sent < n && room; sent++, room--) {
		const struct msghdr *m = &msgs[sent].msg_hdr;
		uint8_t first = *(const uint8_t *)m->msg_iov[0].iov_base;
		size_t len = 0;

		for (size_t i = 0; i < m->msg_iovlen; i++)
			len += m->msg_iov[i].iov_len;
		assert_in_range(len, 1, LAN_ETH_MAX + LAN_IP_MAX);
		if (first == REFUSED) {
			errno = EMSGSIZE;
			return sent ? (int)sent : -1;
		}
		seen[seen_n++] = first;
	}
	if (sent == 0 && n > 0) {
		errno = ENOBUFS;
		return -1;
	}
	return (int)sent;
}

static struct lan_port *given_port(void **state)
{
	struct lan_port *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->fd = -1;
	p->kept = calloc(LAN_TX_BATCH, sizeof(*p->kept));
	room = seen_n = 0;
	*state = p;
	return p;
}

static int done(void **state)
{
	struct lan_port *p = *state;

	free(p->kept);
	free(p);
	return 0;
}

/* n frames whose first byte counts from `first`. */
static void send_frames(struct lan_port *p, uint8_t first, unsigned n)
{
	static const uint8_t body[100], trailer[4];
	static struct lan_frame frame[LAN_TX_BATCH];
	const struct lan_frame *list[LAN_TX_BATCH];

	for (unsigned i = 0; i < n; i++) {
		frame[i] = (struct lan_frame){.eth_len = 14};
		frame[i].eth[0] = (uint8_t)(first + i);
		frame[i].pkt.hdr_len = 40;
		frame[i].pkt.body = body;
		frame[i].pkt.body_len = sizeof(body);
		frame[i].pkt.trailer_len = sizeof(trailer);
		list[i] = &frame[i];
	}
	lan_packet_ops.tx_batch(p, list, n);
}

static void expect_seen(uint8_t first, unsigned n)
{
	assert_int_equal(seen_n, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(seen[i], (uint8_t)(first + i));
}

/* The device is full, takes some at each retry, and gets all of them once, in order. */
static void lan_packet__each_frame_once_over_many_retries(void **state)
{
	struct lan_port *p = given_port(state);
	unsigned retries = 0;

	room = 10;
	send_frames(p, 1, LAN_TX_BATCH);
	expect_seen(1, 10);
	assert_true(lan_packet_ops.tx_blocked(p));
	for (; lan_packet_ops.tx_blocked(p) && retries < 100; retries++) {
		room = retries % 3 ? 7 : 0; /* still full, now and then */
		lan_packet_ops.tx_retry(p);
	}
	assert_false(lan_packet_ops.tx_blocked(p));
	expect_seen(1, LAN_TX_BATCH);
	assert_int_equal(p->stats.tx_errors, 0);
}

/* A full batch is kept, twice in a row: the second one takes the place of the first, which is gone. */
static void lan_packet__full_batches_follow_each_other(void **state)
{
	struct lan_port *p = given_port(state);

	for (int i = 0; i < 2; i++) {
		send_frames(p, 1, LAN_TX_BATCH);
		assert_true(lan_packet_ops.tx_blocked(p));
		assert_int_equal(p->nkept, LAN_TX_BATCH);
		seen_n = 0;
		room = LAN_TX_BATCH - 1;
		lan_packet_ops.tx_retry(p);
		assert_true(lan_packet_ops.tx_blocked(p));
		room = 1;
		lan_packet_ops.tx_retry(p);
		assert_false(lan_packet_ops.tx_blocked(p));
		expect_seen(1, LAN_TX_BATCH);
		room = 0;
	}
	room = LAN_TX_BATCH;
	lan_packet_ops.tx_retry(p); /* nothing is left: nothing is sent */
	assert_int_equal(seen_n, LAN_TX_BATCH);
	room = 1;
	send_frames(p, 1, 3);
	lan_packet_ops.tx_drop(p);
	assert_false(lan_packet_ops.tx_blocked(p));
	assert_int_equal(p->stats.tx_errors, 2);
}

/* What the device refuses for good is counted and stands in nobody's way, at once and among what was kept. */
static void lan_packet__refused_frames_are_passed_over(void **state)
{
	struct lan_port *p = given_port(state);

	room = 100;
	send_frames(p, REFUSED, 1);
	send_frames(p, REFUSED - 2, 4);
	assert_false(lan_packet_ops.tx_blocked(p));
	assert_int_equal(seen_n, 3);
	assert_int_equal(p->stats.tx_errors, 2);
	room = 0;
	send_frames(p, REFUSED - 2, 4);
	seen_n = 0;
	room = 1;
	lan_packet_ops.tx_retry(p);
	room = 100;
	lan_packet_ops.tx_retry(p);
	assert_false(lan_packet_ops.tx_blocked(p));
	assert_int_equal(seen_n, 3);
	assert_int_equal(seen[2], REFUSED + 1);
	assert_int_equal(p->stats.tx_errors, 3);
}

static void no_packet(void *arg, const uint8_t *l3, size_t len, uint16_t vlan_tci)
{
	(void)arg, (void)l3, (void)len, (void)vlan_tci;
}

/* The kernel has taken the tag out of the frame: it is in the ring's header, if the status says so. */
static void lan_packet__counts_bursts_by_priority(void **state)
{
	static union {
		struct tpacket2_hdr h;
		uint8_t bytes[128];
	} frame = {.h = {.tp_len = 64, .tp_snaplen = 64, .tp_mac = 50, .tp_net = 64, .tp_sec = 1, .tp_vlan_tci = 5 << 13 | 7}};
	struct lan_port *p = given_port(state);

	assert_true(burst_ring_init(&p->bursts));
	frame.bytes[64] = 0x45;
	frame.bytes[65] = 26 << 2;
	take_frame(p, &frame.h, TP_STATUS_USER | TP_STATUS_VLAN_VALID, no_packet, NULL);
	assert_int_equal(p->bursts.bytes[5], 64);
	take_frame(p, &frame.h, TP_STATUS_USER, no_packet, NULL);
	assert_int_equal(p->bursts.bytes[3], 64);
	assert_int_equal(p->bursts.bytes[5], 64);
	burst_ring_free(&p->bursts);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_teardown(t, done)
	const struct CMUnitTest tests[] = {
	    TEST(lan_packet__each_frame_once_over_many_retries),
	    TEST(lan_packet__full_batches_follow_each_other),
	    TEST(lan_packet__refused_frames_are_passed_over),
	    TEST(lan_packet__counts_bursts_by_priority),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
