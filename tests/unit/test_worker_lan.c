/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of packets for hosts whose next hop is not known. The core, the routes and the port are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/lan/lan_wait.c"
#include "daemon/worker/worker_lan.c"

static unsigned nsaid;

void log_at(enum log_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
	nsaid++;
}

bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed)
{
	(void)l;
	(void)now_ns;
	(void)missed;
	return nsaid == 0;
}

void latency_outgoing(struct latency_sampler *s, struct proxy *p, uint64_t now_ns, const struct lan_tx *tx)
{
	(void)s;
	(void)p;
	(void)now_ns;
	(void)tx;
}

static struct worker *w;
static struct lan_tx core_has[8];
static unsigned ncore, nunsent, nsent;
static uint8_t sent_by; /* port of the last frame */
static uint32_t sent_slot; /* and where its body lies */
static enum route_answer answer;

size_t proxy_lan_tx(struct proxy *p, uint64_t now_ns, struct lan_tx *tx)
{
	(void)p;
	(void)now_ns;
	if (ncore == 0)
		return 0;
	*tx = core_has[--ncore];
	return tx->hdr_len;
}

void proxy_lan_unsent(struct proxy *p, uint64_t now_ns, const struct lan_tx *tx)
{
	(void)p;
	(void)now_ns;
	assert_true(tx->probe);
	nunsent++;
}

/* Nobody watches a flow here. */
void flow_watch_out(struct flow_watch *watched, struct proxy *p, uint64_t now_ns, const struct lan_tx *tx)
{
	(void)watched;
	(void)p;
	(void)now_ns;
	(void)tx;
}

enum route_answer route_lookup(struct route_worker *r, const struct ip_addr *dst, uint64_t now_ns,
                               const struct next_hop **hop)
{
	static const struct next_hop known;

	(void)r;
	(void)dst;
	(void)now_ns;
	*hop = &known;
	return answer;
}

size_t next_hop_eth(const struct next_hop *hop, bool ip6, uint16_t tci, uint8_t eth[NEXT_HOP_ETH_MAX])
{
	(void)hop;
	(void)ip6;
	(void)tci;
	(void)eth;
	return 14;
}

struct next_hop ip_port_hop(uint8_t port)
{
	return (struct next_hop){.port = port};
}

void pcap_packet(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct iovec *parts, unsigned n)
{
	(void)p;
	(void)wall_ns;
	(void)dir;
	(void)parts;
	(void)n;
}

static void tx_batch(struct lan_port *port, const struct lan_frame *const *frames, unsigned n)
{
	(void)port;
	sent_by = frames[n - 1]->port;
	sent_slot = frames[n - 1]->pkt.slot;
	nsent += n;
}

static bool tx_blocked(const struct lan_port *port)
{
	(void)port;
	return false;
}

static const struct lan_port_ops ops = {.tx_batch = tx_batch, .tx_blocked = tx_blocked};

/* --- a port that takes nothing --- */

static unsigned nkept, ndropped;
static bool stuck;

static void keep_batch(struct lan_port *port, const struct lan_frame *const *frames, unsigned n)
{
	assert_int_equal(nkept, 0);
	if (stuck)
		nkept = n;
	else
		tx_batch(port, frames, n);
}

static bool keeps(const struct lan_port *port)
{
	(void)port;
	return nkept > 0;
}

static void retry(struct lan_port *port)
{
	(void)port;
	nkept = stuck ? nkept : 0;
}

static void drop(struct lan_port *port)
{
	(void)port;
	ndropped += nkept;
	nkept = 0;
}

static const struct lan_port_ops stuck_ops = {
    .tx_batch = keep_batch, .tx_blocked = keeps, .tx_retry = retry, .tx_drop = drop};

static int begin(void **state)
{
	(void)state;
	w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	for (unsigned i = 0; i < LAN_PORTS_MAX + 1; i++)
		w->lan_ops[i] = &ops;
	w->nlan = 1;
	lan_wait_init(&w->waiting);
	ncore = nunsent = nsent = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(w);
	return 0;
}

/* The core gives a packet for the host, a probe or not, and the worker's turn comes. */
static void turn_with(bool probe)
{
	core_has[ncore++] = (struct lan_tx){.hdr_len = 40, .dst = {.b = {10}}, .probe = probe};
	worker_send_lan(w);
}

/* A packet that waited is a copy: no slot of the arena is pinned for it, least of all that of a packet before. */
static void worker_lan__what_waited_lies_in_no_slot(void **state)
{
	(void)state;
	answer = ROUTE_RESOLVING;
	turn_with(false);
	assert_int_equal(w->waiting.n, 1);
	w->frames[0].pkt.slot = 7;
	answer = ROUTE_OK;
	worker_send_lan(w);
	assert_int_equal(nsent, 1);
	assert_int_equal(sent_slot, SLOT_NONE);
}

static void worker_lan__a_probe_never_waits(void **state)
{
	(void)state;
	answer = ROUTE_RESOLVING;
	turn_with(true);
	assert_int_equal(nunsent, 1);
	assert_int_equal(w->waiting.n, 0);
	assert_int_equal(w->no_route, 0);
	turn_with(false);
	assert_int_equal(w->waiting.n, 1);
	assert_int_equal(nunsent, 1);
	answer = ROUTE_OK;
	turn_with(true);
	assert_int_equal(nsent, 2); /* the other one is out of its way by now */
	assert_int_equal(nunsent, 1);
}

/* Something for its host waits still, in a turn in which the way becomes known. */
static void worker_lan__a_probe_does_not_wait_behind_others(void **state)
{
	struct lan_tx probe = {.hdr_len = 40, .dst = {.b = {10}}, .probe = true};
	struct lan_frame f = {.pkt = probe};

	(void)state;
	answer = ROUTE_RESOLVING;
	turn_with(false);
	answer = ROUTE_OK;
	assert_false(address_frame(w, &f));
	assert_int_equal(nunsent, 1);
	assert_int_equal(w->waiting.n, 1);
}

/* The core hears of it whatever the reason is. */
static void worker_lan__a_probe_without_a_way(void **state)
{
	(void)state;
	answer = ROUTE_NONE;
	turn_with(true);
	assert_int_equal(nunsent, 1);
	assert_int_equal(w->no_route, 1);
	answer = ROUTE_REFUSED;
	turn_with(true);
	assert_int_equal(nunsent, 2);
	assert_int_equal(w->unknown_hosts, 1);
	turn_with(false);
	assert_int_equal(nunsent, 2);
	assert_int_equal(w->unknown_hosts, 2);
	assert_int_equal(w->waiting.n, 0);
}

#define WORKER_TEST(t) cmocka_unit_test_setup_teardown(t, begin, end)

static void turn_to(uint8_t port, uint64_t after_ns)
{
	w->now_ns += after_ns;
	core_has[ncore++] = (struct lan_tx){.hdr_len = 40, .dst = {.b = {10}}, .routed = port == 1};
	worker_send_lan(w);
}

/* The hosts behind the others would get no ACK, and die. */
static void worker_lan__a_stuck_port_stops_no_other(void **state)
{
	(void)state;
	answer = ROUTE_OK;
	nkept = ndropped = 0;
	stuck = true;
	w->lan_ops[0] = &stuck_ops;
	w->config.nlan_ports = 1;
	w->nlan = 2;
	w->now_ns = 1;
	turn_to(0, 0);
	turn_to(1, BLOCKED_NS / 2); /* it is waited for: nothing overtakes */
	assert_int_equal(nsent, 0);
	assert_int_equal(nkept, 1);
	turn_to(1, BLOCKED_NS);
	assert_int_equal(ndropped, 1);
	assert_int_equal(nsent, 2);
	turn_to(1, 1);
	assert_int_equal(nsent, 3);
	for (unsigned i = 0; i < 3; i++) { /* it is not waited for again */
		turn_to(0, 1);
		turn_to(1, 1);
	}
	assert_int_equal(ndropped, 4);
	assert_int_equal(nsaid, 1);
	assert_int_equal(nsent, 6);
	stuck = false;
	turn_to(0, 1);
	turn_to(1, 1);
	assert_int_equal(nsent, 8);
	stuck = true; /* it took frames again */
	turn_to(0, 1);
	turn_to(1, 1);
	assert_int_equal(nkept, 1);
	assert_int_equal(nsent, 8);
}

/* IP goes to the kernel where its own route leads to a LAN port or ends here, and RoCE never does; first or after a wait. */
static void worker_lan__ip_goes_to_the_kernel(void **state)
{
	struct lan_tx ip = {.hdr_len = 40, .dst = {.b = {10}}, .routed = true}, roce = ip;

	(void)state;
	roce.routed = false;
	w->config.nlan_ports = 1;
	w->nlan = 2;
	answer = ROUTE_RESOLVING;
	core_has[ncore++] = ip;
	worker_send_lan(w);
	assert_int_equal(w->waiting.n, 1);
	answer = ROUTE_OK;
	worker_send_lan(w);
	assert_int_equal(nsent, 1);
	assert_int_equal(sent_by, 1);
	core_has[ncore++] = roce;
	worker_send_lan(w);
	assert_int_equal(nsent, 2);
	assert_int_equal(sent_by, 0);
	answer = ROUTE_HERE;
	core_has[ncore++] = ip;
	worker_send_lan(w);
	assert_int_equal(nsent, 3);
	assert_int_equal(sent_by, 1);
	core_has[ncore++] = roce;
	worker_send_lan(w);
	assert_int_equal(w->no_route, 1);
	answer = ROUTE_NONE;
	core_has[ncore++] = ip;
	worker_send_lan(w);
	assert_int_equal(w->no_route, 2);
	w->nlan = 1; /* no barrier here */
	answer = ROUTE_OK;
	core_has[ncore++] = ip;
	worker_send_lan(w);
	assert_int_equal(w->no_route, 3);
	assert_int_equal(nsent, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WORKER_TEST(worker_lan__a_probe_never_waits),
	    WORKER_TEST(worker_lan__what_waited_lies_in_no_slot),
	    WORKER_TEST(worker_lan__a_probe_does_not_wait_behind_others),
	    WORKER_TEST(worker_lan__a_probe_without_a_way),
	    WORKER_TEST(worker_lan__ip_goes_to_the_kernel),
	    WORKER_TEST(worker_lan__a_stuck_port_stops_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
