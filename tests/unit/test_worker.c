/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does with packets of hosts, apart from the core: of those that a device wrote into the arena as well.
 */
#define _GNU_SOURCE
#include "core_fixture.h"

#include "daemon/lan/burst_ring.c"
#include "daemon/worker/latency.c"
#include "daemon/worker/worker.c"
#include "no_log.h"

#define WAITED_NS (30 * CORE_US) /* at least, of the frame before the worker took it */
#define OFF       142            /* of a packet in a blank: the device's room, and an Ethernet header */

/* --- what only a thread's turns need --- */

void pcap_packet(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct iovec *parts, unsigned n)
{
	(void)p, (void)wall_ns, (void)dir, (void)parts, (void)n;
}

void pcap_udp(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct ip_addr *src, uint16_t sport,
              const struct ip_addr *dst, uint16_t dport, const uint8_t *payload, size_t len, bool ce)
{
	(void)p, (void)wall_ns, (void)dir, (void)src, (void)sport, (void)dst, (void)dport, (void)payload, (void)len,
	    (void)ce;
}

void pcap_flush(struct pcap *p)
{
	(void)p;
}

void flow_watch_look(struct flow_watch *watched, struct proxy *p, uint64_t now_ns)
{
	(void)watched, (void)p, (void)now_ns;
}

void flow_watch_in(struct flow_watch *watched, struct proxy *p, uint64_t now_ns, const uint8_t *l3, size_t len,
                   enum proxy_drop d)
{
	(void)watched, (void)p, (void)now_ns, (void)l3, (void)len, (void)d;
}

void trace_look(struct trace *t, const struct proxy *p, const struct seal *s, uint64_t now_ns)
{
	(void)t, (void)p, (void)s, (void)now_ns;
}

int route_fd(const struct route_worker *r)
{
	(void)r;
	return -1;
}

void route_take(struct route_worker *r, uint64_t now_ns)
{
	(void)r, (void)now_ns;
}

void arena_file_say_owed(struct arena_file *f, bool owed)
{
	(void)f, (void)owed;
}

void arena_file_say_early(struct arena_file *f, bool early)
{
	(void)f, (void)early;
}

bool worker_lan_blocked(struct worker *of)
{
	(void)of;
	return false;
}

unsigned worker_send_lan(struct worker *of)
{
	(void)of;
	return 0;
}

unsigned worker_run_relay(struct worker *of)
{
	(void)of;
	return 0;
}

unsigned worker_run_commands(struct worker *of)
{
	(void)of;
	return 0;
}

unsigned worker_pass_events(struct worker *of)
{
	(void)of;
	return 0;
}

/* --- a worker with a core and one port --- */

static struct worker *w;
static struct burst_ring bursts;

static const struct burst_ring *port_bursts(const struct lan_port *p)
{
	(void)p;
	return &bursts;
}

static const struct lan_port_ops ops = {.bursts = port_bursts};

static struct core *given_worker(void **state)
{
	struct core *c = core_given_pair(state, ACK_MODE_NEAR);

	w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->core = c->a.p;
	w->now_ns = c->now_ns;
	w->lan_ops[0] = &ops;
	w->nlan = 1;
	bursts.frame_ns = worker_clock_ns(CLOCK_REALTIME) - WAITED_NS;
	return c;
}

static void assert_followed(bool followed)
{
	const struct latency_probe *b = &w->latency.side[FLOW_NEAR];

	assert_int_equal(b->on, followed);
	if (!followed)
		return;
	assert_int_equal(b->key.dest_qpn, CORE_QPN);
	assert_true(b->began_ns <= worker_clock_ns(CLOCK_MONOTONIC) - WAITED_NS);
	assert_true(b->began_ns + CORE_MS * 1000 > worker_clock_ns(CLOCK_MONOTONIC));
	memset(&w->latency, 0, sizeof(w->latency));
}

static void worker__follows_a_packet_of_a_host(void **state)
{
	struct core *c = given_worker(state);
	struct roce_pkt h = core_req(RC_WRITE_ONLY, 1);
	uint8_t buf[LAN_PKT_MAX + 64];
	size_t n = roce_build(buf, sizeof(buf), &h, core_payload(c->salt, h.psn), CORE_PMTU);

	on_lan_packet(w, buf, n, 0);
	assert_followed(true);
	on_lan_packet(w, buf, n, 0); /* a repetition */
	assert_followed(false);
	free(w);
}

/* The core keeps the slot of a large packet and copies a small one. */
static void worker__follows_a_packet_that_landed(void **state)
{
	static const size_t lengths[] = {4096, 8};
	struct core *c = given_worker(state);
	uint32_t slot = proxy_blank(w->core);

	for (uint32_t i = 0; i < 2; i++) {
		struct roce_pkt h = core_req(RC_WRITE_ONLY, 1 + i);
		uint32_t was = slot;
		size_t n;

		assert_int_not_equal(slot, SLOT_NONE);
		h.reth_len = (uint32_t)lengths[i];
		n = roce_build(proxy_blank_data(w->core, slot) + OFF, LAN_PKT_MAX, &h, core_payload(c->salt, h.psn),
		               lengths[i]);
		assert_true(n > lengths[i]);
		worker_lan_landed(w, &slot, OFF, n, 0);
		assert_int_equal(slot != was, i == 0);
		assert_followed(true);
	}
	proxy_blank_return(w->core, slot);
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CORE_TEST(worker__follows_a_packet_of_a_host),
	    CORE_TEST(worker__follows_a_packet_that_landed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
