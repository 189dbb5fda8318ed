/* SPDX-License-Identifier: Apache-2.0 */
/* A WAN port on a plugin's devices: what it builds and reads in their memory, whose the ports are, and what it counts. */
#include "daemon/wan/wan_engine.c"

#include "daemon/privileged/held_sockets.c"
#include "daemon/util/addr.c"
#include "daemon/util/next_hop.c"
#include "daemon/util/port_holder.c"
#include "daemon/util/units.c"
#include "daemon/wan/wan_udp.c"
#include "daemon/wan/wan_socket.c"
#include "no_parent.h"
#include "proxy/util/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { LEN = 1000, MTU = 1500, ROOM = 2048, WIRE_MAX = 256, DSCP = 10, ETH = 14, IP4_UDP = 28 };

static char said[400]; /* the last line of the log */

void log_at(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	(void)level;
	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
}

bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed)
{
	(void)l, (void)now_ns, (void)missed;
	return true;
}

/* --- a plugin with devices: what one sends is there for the next one to take --- */

struct nic_device {
	bool taken, full, pending;
	struct nic_own wire[WIRE_MAX]; /* sent, and not taken yet; or waiting */
	unsigned nwire, waits;
};

static struct nic_device nics[2];
static unsigned rooms_out; /* of all devices' memory */
static unsigned room_len = ROOM;

static bool fake_own(struct nic_device *d, struct nic_own *room)
{
	(void)d;
	*room = (struct nic_own){.at = malloc(room_len), .len = room_len};
	room->handle = room->at;
	rooms_out++;
	return true;
}

static void fake_own_back(struct nic_device *d, const struct nic_own *f, unsigned n)
{
	(void)d;
	for (unsigned i = 0; i < n; i++)
		free(f[i].handle);
	rooms_out -= n;
}

static void fake_tx_own(struct nic_device *d, const struct nic_own *f, unsigned n)
{
	assert_false(d->pending);
	for (unsigned i = 0; i < n; i++) {
		assert_true(f[i].at >= (uint8_t *)f[i].handle);
		d->wire[d->nwire++] = f[i];
	}
	d->waits = n;
	d->pending = d->full;
}

static bool fake_tx_pending(const struct nic_device *d)
{
	return d->pending;
}

static void fake_tx_retry(struct nic_device *d)
{
	d->pending = d->full;
}

static void fake_tx_drop(struct nic_device *d)
{
	if (!d->pending)
		return;
	fake_own_back(d, d->wire, d->nwire);
	d->nwire = 0;
	d->pending = false;
}

static unsigned fake_rx_own(struct nic_device *d, struct nic_own *f, unsigned n)
{
	unsigned got = n < d->nwire ? n : d->nwire;

	memcpy(f, d->wire, got * sizeof(*f));
	memmove(d->wire, d->wire + got, (d->nwire - got) * sizeof(*f));
	d->nwire -= got;
	return got;
}

static const struct nic_engine table = {.rx_own = fake_rx_own,
                                        .own = fake_own,
                                        .own_back = fake_own_back,
                                        .tx_own = fake_tx_own,
                                        .tx_pending = fake_tx_pending,
                                        .tx_retry = fake_tx_retry,
                                        .tx_drop = fake_tx_drop};

static struct nic_device *nic_of(const char *device)
{
	return &nics[device[strlen("net_af_packet")] - '0'];
}

int lan_engine_take(const char *key, const char *device, const struct nic_engine **engine, struct nic_device **nic,
                    char *err, size_t errlen)
{
	assert_string_equal(key, "WanDevice");
	if (nic_of(device)->taken) {
		snprintf(err, errlen, "another link's");
		return -EBUSY;
	}
	*engine = &table;
	*nic = nic_of(device);
	(*nic)->taken = true;
	return 0;
}

void lan_engine_stats(const char *device, struct nic_stats *s)
{
	assert_true(nic_of(device)->taken);
	*s = (struct nic_stats){.rx_missed = 1, .rx_split = 2, .tx_errors = 4, .tx_lost = 8};
}

void lan_engine_give_back(const char *device)
{
	nic_of(device)->taken = false;
}

/* --- next hops --- */

static enum route_answer route_is;
static struct next_hop hop;
static struct ip_addr asked_from;
static unsigned routes_open;

int route_open(struct routes **r, const char (*ports)[IF_NAMESIZE], uint32_t nports, uint32_t nworkers, char *err, size_t errlen)
{
	(void)err, (void)errlen;
	assert_int_equal(nports * nworkers, 1);
	assert_string_equal(ports[0], "lo");
	*r = (void *)&route_is;
	routes_open++;
	return 0;
}

void route_from(struct routes *r, const struct ip_addr *src)
{
	(void)r;
	asked_from = *src;
}

int route_run(struct routes *r, char *err, size_t errlen)
{
	(void)r, (void)err, (void)errlen;
	return 0;
}

void route_close(struct routes *r)
{
	routes_open -= r != NULL;
}

struct route_worker *route_worker(struct routes *r, uint32_t i)
{
	(void)i;
	return (void *)r;
}

enum route_answer route_lookup(struct route_worker *w, const struct ip_addr *dst, uint64_t now_ns, const struct next_hop **out)
{
	(void)w, (void)dst, (void)now_ns;
	*out = &hop;
	return route_is;
}

void route_take(struct route_worker *w, uint64_t now_ns)
{
	(void)w, (void)now_ns;
}

/* --- a port whose other edge is itself: 127.0.0.1 and .2 by turns --- */

static const struct ip_addr here = {.b = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static const struct ip_addr peer = {.b = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 2}};

static struct wan_port_params params;
static struct wan_port *port;
static char err[200];

static uint16_t free_port(void)
{
	union sock_addr sa;
	socklen_t len = wan_sock_addr(&sa, &here, 0);
	int fd = wan_socket(&sa);
	uint16_t number = bind(fd, &sa.sa, len) == 0 ? wan_socket_port(fd) : 0;

	close(fd);
	assert_int_not_equal(number, 0);
	return number;
}

static int open_paths(unsigned n, const char *second)
{
	params = (struct wan_port_params){.npaths = n, .nshards = 1};
	for (unsigned i = 0; i < n; i++)
		params.path[i] = (struct wan_port_path){.local = here,
		                                        .remote = peer,
		                                        .port = free_port(),
		                                        .mtu = MTU,
		                                        .dscp = DSCP,
		                                        .source_ports = 2,
		                                        .device = i ? second : "net_af_packet0,iface=lo"};
	return wan_engine_ops.open(&port, &params, err, sizeof(err));
}

static int begin(void **state)
{
	(void)state;
	memset(nics, 0, sizeof(nics));
	route_is = ROUTE_OK;
	hop = (struct next_hop){.dst_mac = {2, 0, 0, 0, 0, 2}, .src_mac = {2, 0, 0, 0, 0, 1}};
	room_len = ROOM;
	rooms_out = routes_open = 0;
	said[0] = '\0';
	return 0;
}

static void close_port(void)
{
	wan_engine_ops.close(port);
	for (unsigned i = 0; i < 2; i++) {
		fake_own_back(&nics[i], nics[i].wire, nics[i].nwire);
		nics[i].nwire = 0;
		assert_false(nics[i].taken);
	}
	assert_int_equal(rooms_out, 0);
	assert_int_equal(routes_open, 0);
}

static struct wan_port_stats stats(void)
{
	struct wan_port_stats s;

	wan_engine_ops.stats(port, &s);
	return s;
}

static bool stage(struct wan_tx tx)
{
	size_t cap;
	uint8_t *buf = wan_engine_ops.stage(port, &cap);

	if (!buf)
		return false;
	assert_int_equal(cap, MTU - IP4_UDP);
	memset(buf, 0x5a, LEN);
	buf[WAN_PATH_BYTE] = tx.path;
	wan_engine_ops.staged(port, &tx, LEN);
	return true;
}

static void send_one(struct wan_tx tx)
{
	assert_true(stage(tx));
	wan_engine_ops.flush(port);
}

/* The last frame on a device's wire. */
static struct nic_own *last(unsigned nic)
{
	assert_true(nics[nic].nwire > 0);
	return &nics[nic].wire[nics[nic].nwire - 1];
}

static uint16_t sport_of(const struct nic_own *f)
{
	return get_be16(f->at + ETH + 20);
}

/* Makes the last frame one from the other edge to this one: which leaves both checksums as they were. */
static uint8_t *turn_round(unsigned nic)
{
	uint8_t *ip = last(nic)->at + ETH;

	memcpy(last(nic)->at, hop.src_mac, 6);
	memcpy(ip + 12, peer.b + 12, 4);
	memcpy(ip + 16, here.b + 12, 4);
	return ip;
}

static struct {
	unsigned n;
	uint8_t path, ecn;
	uint16_t sport;
	uint8_t *at;
	size_t len;
} heard;

static bool hear(void *arg, uint8_t path, uint16_t sport, uint8_t *dgram, size_t len, uint8_t ecn)
{
	assert_ptr_equal(arg, &heard);
	heard.n++;
	heard.path = path;
	heard.sport = sport;
	heard.at = dgram;
	heard.len = len;
	heard.ecn = ecn;
	dgram[0] ^= 1; /* it may be written into */
	return true;
}

static unsigned receive(void)
{
	memset(&heard, 0, sizeof(heard));
	wan_engine_ops.receive(port);
	return wan_engine_ops.deliver(port, hear, &heard);
}

/* --- cases --- */

static void wan_engine__sends_out_of_the_devices_memory(void **state)
{
	size_t cap;
	uint8_t *buf, *ip;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	assert_true(ip_addr_eq(&asked_from, &here));
	assert_true(wan_engine_ops.rx_fd(port, 0) < 0);
	buf = wan_engine_ops.stage(port, &cap);
	memset(buf, 0x5a, LEN);
	wan_engine_ops.staged(port, &(struct wan_tx){.lane = 3, .ect = true}, LEN);
	assert_int_equal(nics[0].nwire, 0);
	wan_engine_ops.flush(port);
	assert_int_equal(nics[0].nwire, 1);
	ip = last(0)->at + ETH;
	assert_int_equal(last(0)->len, ETH + IP4_UDP + LEN);
	assert_ptr_equal(ip + IP4_UDP, buf); /* not copied */
	assert_memory_equal(last(0)->at, hop.dst_mac, 6);
	assert_memory_equal(last(0)->at + 6, hop.src_mac, 6);
	assert_int_equal(ip[1], DSCP << 2 | ECN_ECT0);
	assert_int_equal(sport_of(last(0)), wan_engine_ops.lane_sport(port, &(struct wan_tx){.lane = 3}));
	assert_int_equal(get_be16(ip + 22), params.path[0].port);
	send_one((struct wan_tx){.lane = 3});
	assert_int_equal(last(0)->at[ETH + 1], DSCP << 2);
	close_port();
}

static void wan_engine__receives_in_the_devices_memory(void **state)
{
	uint16_t sport;
	uint8_t *ip;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	send_one((struct wan_tx){.ect = true});
	sport = sport_of(last(0));
	ip = turn_round(0);
	assert_int_equal(wan_engine_ops.receive(port), WAN_BATCH_PART);
	assert_int_equal(heard.n, 0); /* the clock is read in between */
	memset(&heard, 0, sizeof(heard));
	assert_int_equal(wan_engine_ops.deliver(port, hear, &heard), 1);
	assert_int_equal(heard.sport, sport);
	assert_int_equal(heard.ecn, ECN_ECT0);
	assert_int_equal(heard.len, LEN);
	(void)ip;
	assert_int_equal(receive(), 0);
	assert_int_equal(wan_engine_ops.receive(port), WAN_BATCH_EMPTY);
	for (unsigned i = 0; i < RX_BURST; i++) {
		send_one((struct wan_tx){.lane = 1});
		turn_round(0);
	}
	assert_int_equal(wan_engine_ops.receive(port), WAN_BATCH_FULL);
	close_port(); /* with frames that nobody has looked at */
}

static void wan_engine__names_what_it_drops(void **state)
{
	struct wan_port_stats s;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	send_one((struct wan_tx){0}); /* from this edge itself */
	assert_int_equal(receive(), 0);
	send_one((struct wan_tx){0});
	turn_round(0)[IP4_UDP + 5] ^= 1;
	assert_int_equal(receive(), 0);
	send_one((struct wan_tx){0});
	turn_round(0);
	last(0)->len--;
	assert_int_equal(receive(), 0);
	send_one((struct wan_tx){0});
	turn_round(0)[15] = 9;
	assert_int_equal(receive(), 0);
	send_one((struct wan_tx){0});
	turn_round(0);
	last(0)->at[ETH + 26] = last(0)->at[ETH + 27] = 0; /* no checksum, so that the next change is one of the payload */
	last(0)->at[ETH + IP4_UDP + WAN_PATH_BYTE] = 1;
	assert_int_equal(receive(), 0);
	s = stats();
	assert_int_equal(s.rx_not_ours, 1);
	assert_int_equal(s.rx_bad_checksum, 1);
	assert_int_equal(s.rx_bad_length, 1 + 2);
	assert_int_equal(s.rx_foreign, 2);
	assert_int_equal(s.rx_kernel_drops, 1);
	assert_int_equal(s.tx_errors, 4 + 8);
	close_port();
}

static void wan_engine__without_a_next_hop_a_datagram_is_dropped(void **state)
{
	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	route_is = ROUTE_RESOLVING;
	for (unsigned i = 0; i < 3; i++)
		send_one((struct wan_tx){0});
	assert_int_equal(nics[0].nwire, 0);
	assert_int_equal(stats().tx_no_route, 3);
	assert_string_equal(said, "");
	assert_int_equal(rooms_out, 1);
	assert_false(wan_engine_ops.blocked(port));
	route_is = ROUTE_NONE;
	send_one((struct wan_tx){0});
	assert_int_equal(stats().tx_no_route, 4);
	assert_non_null(strstr(said, "no route leads to the other edge by lo"));
	assert_non_null(strstr(said, "`ip route get 127.0.0.2 from 127.0.0.1`"));
	route_is = ROUTE_OK;
	send_one((struct wan_tx){0});
	assert_int_equal(nics[0].nwire, 1);
	close_port();
}

static void wan_engine__takes_a_batch_and_no_more(void **state)
{
	unsigned n = 0;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	while (stage((struct wan_tx){0}))
		n++;
	assert_int_equal(n, NIC_TX_BATCH);
	wan_engine_ops.flush(port);
	assert_int_equal(nics[0].nwire, n);
	assert_true(stage((struct wan_tx){0}));
	close_port();
}

static void wan_engine__a_device_that_takes_nothing_blocks_then_loses(void **state)
{
	unsigned tries = 0;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	nics[0].full = true;
	send_one((struct wan_tx){0});
	assert_true(wan_engine_ops.blocked(port));
	assert_false(stage((struct wan_tx){0}));
	nics[0].full = false;
	wan_engine_ops.flush(port);
	assert_false(wan_engine_ops.blocked(port));
	nics[0].full = true;
	send_one((struct wan_tx){0});
	for (tries = 0; wan_engine_ops.blocked(port); tries++)
		wan_engine_ops.flush(port);
	assert_int_equal(tries, BLOCKED_TRIES_1 + 1);
	assert_non_null(strstr(said, "WanDevice=net_af_packet0,iface=lo takes no datagrams"));
	close_port();
}

/* The other path's datagrams do not wait long for it. */
static void wan_engine__paths_with_a_device_each(void **state)
{
	unsigned tries;

	(void)state;
	assert_int_equal(open_paths(2, "net_af_packet1,iface=lo"), 0);
	send_one((struct wan_tx){.path = 1});
	assert_int_equal(nics[0].nwire, 0);
	turn_round(1);
	assert_int_equal(receive(), 1);
	assert_int_equal(heard.path, 1);
	nics[0].full = true;
	assert_true(stage((struct wan_tx){.path = 0}));
	send_one((struct wan_tx){.path = 1});
	assert_int_equal(nics[1].nwire, 1);
	for (tries = 0; wan_engine_ops.blocked(port); tries++)
		wan_engine_ops.flush(port);
	assert_int_equal(tries, BLOCKED_TRIES + 1);
	close_port();
}

static void wan_engine__paths_that_share_a_device(void **state)
{
	(void)state;
	assert_int_equal(open_paths(2, "net_af_packet0,iface=lo"), 0);
	for (uint8_t path = 0; path < 2; path++) {
		send_one((struct wan_tx){.path = path});
		turn_round(0);
		assert_int_equal(receive(), 1);
		assert_int_equal(heard.path, path);
	}
	close_port();
}

static void wan_engine__lanes_have_source_ports(void **state)
{
	uint16_t first, second;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	send_one((struct wan_tx){.lane = 1});
	first = sport_of(last(0));
	for (unsigned i = 0; i < TURN_DATAGRAMS; i++)
		send_one((struct wan_tx){.lane = 1});
	second = sport_of(last(0));
	assert_int_not_equal(first, second);
	for (unsigned i = 0; i < TURN_DATAGRAMS; i++)
		send_one((struct wan_tx){.lane = 1});
	assert_int_equal(sport_of(last(0)), first);
	send_one((struct wan_tx){.lane = 2});
	assert_int_not_equal(sport_of(last(0)), first);
	for (unsigned i = 0; i < 2 * TURN_DATAGRAMS; i++) {
		send_one((struct wan_tx){.lane = 1, .moves = 1});
		assert_int_not_equal(sport_of(last(0)), first);
	}
	close_port();
}

/* No other program gets the port, and nobody is told that it has no reader: that would be an error at the other edge. */
static void wan_engine__holds_its_port(void **state)
{
	union sock_addr at, from;
	socklen_t len;
	int fd;

	(void)state;
	assert_int_equal(open_paths(1, NULL), 0);
	len = wan_sock_addr(&at, &here, params.path[0].port);
	fd = wan_socket(&at);
	assert_int_equal(bind(fd, &at.sa, len), -1);
	assert_int_equal(errno, EADDRINUSE);
	wan_sock_addr(&from, &peer, 0);
	assert_int_equal(bind(fd, &from.sa, len), 0);
	assert_int_equal(connect(fd, &at.sa, len), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(send(fd, "x", 1, 0), 1);
	close(fd);
	close_port();
}

static void wan_engine__says_why_it_does_not_open(void **state)
{
	(void)state;
	assert_int_equal(open_paths(2, "net_af_packet1,iface=nonesuch9"), -ENODEV);
	assert_non_null(strstr(err, "WanDevice=net_af_packet1,iface=nonesuch9: no such interface"));
	assert_false(nics[0].taken || nics[1].taken);
	nics[0].taken = true;
	assert_int_equal(open_paths(1, NULL), -EBUSY);
	assert_non_null(strstr(err, "another link's"));
	nics[0].taken = false;
	room_len = WAN_ENGINE_HEADROOM + MTU - IP4_UDP - 1;
	assert_int_equal(open_paths(1, NULL), -EMSGSIZE);
	assert_non_null(strstr(err, "opened for a smaller MTU"));
	assert_int_equal(rooms_out, 0);
	assert_int_equal(routes_open, 0);
	room_len++;
	assert_int_equal(open_paths(1, NULL), 0);
	close_port();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(wan_engine__sends_out_of_the_devices_memory, begin),
	    cmocka_unit_test_setup(wan_engine__receives_in_the_devices_memory, begin),
	    cmocka_unit_test_setup(wan_engine__names_what_it_drops, begin),
	    cmocka_unit_test_setup(wan_engine__without_a_next_hop_a_datagram_is_dropped, begin),
	    cmocka_unit_test_setup(wan_engine__takes_a_batch_and_no_more, begin),
	    cmocka_unit_test_setup(wan_engine__a_device_that_takes_nothing_blocks_then_loses, begin),
	    cmocka_unit_test_setup(wan_engine__paths_with_a_device_each, begin),
	    cmocka_unit_test_setup(wan_engine__paths_that_share_a_device, begin),
	    cmocka_unit_test_setup(wan_engine__lanes_have_source_ports, begin),
	    cmocka_unit_test_setup(wan_engine__holds_its_port, begin),
	    cmocka_unit_test_setup(wan_engine__says_why_it_does_not_open, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
