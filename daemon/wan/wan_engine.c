/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Nothing is copied on this side of the device. stage() gives room in memory of the device's own, where the core seals
 * the datagram; staged() writes UDP, IP and Ethernet headers in front of it, flush() hands the frames over. A received
 * datagram is opened where the device has put it. (net_af_packet itself copies between that memory and the rings of its
 * packet socket.)
 *
 * The kernel has its own copy of every frame. For each path a socket without a reader holds address and port, with a
 * filter that drops everything: no other program gets the port, and the kernel sends no ICMP port unreachable. A socket
 * holds each source port in the same way. None of these sockets sets UDP_GRO: otherwise the kernel would join datagrams
 * before the device sees them.
 *
 * Next hops come from the kernel: a struct routes for each path asks with the path's local address as the source, so
 * that rules about source addresses count. A datagram without a next hop is dropped and counted; to the transport it is
 * a loss.
 *
 * Nothing sorts out datagrams of other sessions beforehand, as the kernel does for sockets (wan_filter.h): the core
 * drops them. Such a worker never sleeps for long, so these datagrams cause no wakeups; but a flood of them fills the
 * device's ring.
 *
 * Blocking: datagrams that the device does not take stay, as in wan_port.c, and are dropped when that lasts, even
 * without another path: so a stuck device shows in the log and in tx_errors. */
#include "wan_engine.h"

#include <errno.h>
#include <linux/filter.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/config/config.h"
#include "daemon/lan/lan_engine.h"
#include "daemon/lan/nic_engine.h"
#include "daemon/lan/route.h"
#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "wan_filter.h"
#include "wan_udp.h"
#include "wan_socket.h"

#define RX_BURST        64
#define TURN_DATAGRAMS  16   /* datagrams of a lane from one source port before the next source port's turn */
#define BLOCKED_TRIES   40   /* flushes, 50 us apart, before datagrams for a device that takes nothing are dropped
                              * ... */
#define BLOCKED_TRIES_1 2000 /* ... and the same without another path */

struct device {
	char name[LAN_DEVICE_MAX];
	char ifname[IF_NAMESIZE];
	uint8_t mac[6];
	struct nic_device *nic;
	struct nic_own got[RX_BURST], out[NIC_TX_BATCH];
	unsigned ngot, nout;
	unsigned blocked; /* flushes in a row in which it took nothing */
};

/* One path. */
struct engine_way {
	struct wan_port_path params;
	struct wan_udp_ends ends;
	struct device *device;
	struct routes *routes;
	int port_fd;                            /* holds address and port */
	int sport_fd[LANES_MAX][WAN_SPORTS_MAX]; /* holds a source port; -1: none yet */
	uint16_t sport[LANES_MAX][WAN_SPORTS_MAX];
	uint32_t datagrams[LANES_MAX]; /* sent, for the source ports' turns */
	uint8_t moves[LANES_MAX];      /* struct wan_tx: of the lane's source ports */
	struct log_limit no_socket_said, stuck_said, no_route_said;
};

struct wan_port {
	const struct nic_engine *nic;
	struct device device[PATHS_MAX];
	uint32_t ndevices, npaths;
	uint16_t payload_max; /* of any path */
	struct nic_own room;  /* handle NULL: none */
	unsigned nstaged;     /* of all devices */
	uint64_t now_ns;      /* of this turn */
	struct wan_port_stats stats;
	struct engine_way way[];
};

/* --- receiving --- */

static void engine_session(struct wan_port *p, uint32_t epoch)
{
	(void)p;
	(void)epoch;
}

static int engine_rx_fd(const struct wan_port *p, uint32_t path)
{
	(void)p;
	(void)path;
	return -1;
}

static enum wan_port_batch engine_receive(struct wan_port *p)
{
	enum wan_port_batch most = WAN_BATCH_EMPTY;

	for (uint32_t i = 0; i < p->ndevices; i++) {
		struct device *d = &p->device[i];
		enum wan_port_batch b;

		d->ngot = p->nic->rx_own(d->nic, d->got, RX_BURST);
		b = d->ngot == RX_BURST ? WAN_BATCH_FULL : d->ngot ? WAN_BATCH_PART : WAN_BATCH_EMPTY;
		most = b > most ? b : most;
	}
	p->now_ns = clock_now_ns();
	for (uint32_t i = 0; i < p->npaths; i++)
		route_take(route_worker(p->way[i].routes, 0), p->now_ns);
	return most;
}

static enum wan_port_batch engine_receive_unmatched(struct wan_port *p)
{
	(void)p;
	return WAN_BATCH_EMPTY;
}

static unsigned deliver_datagram(struct wan_port *p, uint8_t path, const struct wan_udp_in *in, wan_rx_fn fn, void *arg)
{
	if (in->len > WAN_PATH_BYTE && in->payload[WAN_PATH_BYTE] != path) {
		p->stats.rx_foreign++;
		return 0;
	}
	return fn(arg, path, in->sport, in->payload, in->len, in->ecn);
}

/* Finds the path of a received datagram, as several paths may have one device. */
static enum wan_udp_kind find_path(const struct wan_port *p, const struct device *d, const struct nic_own *f,
                                      uint8_t *path, struct wan_udp_in *in)
{
	enum wan_udp_kind kind = WAN_UDP_NOT_OURS;

	for (uint8_t i = 0; i < p->npaths && kind == WAN_UDP_NOT_OURS; i++) {
		if (p->way[i].device != d)
			continue;
		kind = wan_udp_get(&p->way[i].ends, f->at, f->len, in);
		*path = i;
	}
	return kind;
}

static unsigned deliver_frame(struct wan_port *p, const struct device *d, const struct nic_own *f, wan_rx_fn fn, void *arg)
{
	struct wan_udp_in in;
	uint8_t path = 0;

	switch (find_path(p, d, f, &path, &in)) {
	case WAN_UDP_OURS:
		return deliver_datagram(p, path, &in, fn, arg);
	case WAN_UDP_NOT_OURS:
		p->stats.rx_not_ours++;
		break;
	case WAN_UDP_FOREIGN:
		p->stats.rx_foreign++;
		break;
	case WAN_UDP_BAD_LENGTH:
		p->stats.rx_bad_length++;
		break;
	case WAN_UDP_BAD_CHECKSUM:
		p->stats.rx_bad_checksum++;
		break;
	}
	return 0;
}

static unsigned engine_deliver(struct wan_port *p, wan_rx_fn fn, void *arg)
{
	unsigned taken = 0;

	for (uint32_t i = 0; i < p->ndevices; i++) {
		struct device *d = &p->device[i];

		for (unsigned k = 0; k < d->ngot; k++)
			taken += deliver_frame(p, d, &d->got[k], fn, arg);
		p->nic->own_back(d->nic, d->got, d->ngot);
		d->ngot = 0;
	}
	return taken;
}

/* --- source ports --- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Bound to any free port, or negative errno. */
static int hold_sport(const struct engine_way *w)
{
	union sock_addr own;
	socklen_t len = wan_sock_addr(&own, &w->params.local, 0);
	int fd = wan_socket(&own), e;

	if (fd < 0 || bind(fd, &own.sa, len) == 0)
		return fd < 0 ? -errno : fd;
	e = errno;
	close(fd);
	return -e;
}

static int open_sport(struct engine_way *w, uint8_t lane, uint32_t turn)
{
	int fd = hold_sport(w);

	if (fd < 0)
		return fd;
	w->sport_fd[lane][turn] = fd;
	w->sport[lane][turn] = wan_socket_port(fd);
	return 0;
}

/* Changes a lane's source ports. Takes the new port before closing the old one, so that they differ. */
static void move_lane(struct engine_way *w, uint8_t lane, uint8_t moves)
{
	uint16_t before = w->sport_fd[lane][0] >= 0 ? w->sport[lane][0] : 0;
	int old = w->sport_fd[lane][0];

	w->sport_fd[lane][0] = -1;
	for (uint32_t i = 1; i < w->params.source_ports; i++)
		close_fd(&w->sport_fd[lane][i]);
	w->moves[lane] = moves;
	if (before && open_sport(w, lane, 0) == 0)
		log_warn("WAN port %u: the other edge does not answer lane %u and answers other lanes: source port %u "
		         "instead of %u",
		         w->params.port, lane, w->sport[lane][0], before);
	close_fd(&old);
}

/* 0: there is none. */
static uint16_t take_sport(struct engine_way *w, const struct wan_tx *tx)
{
	uint32_t turn = w->datagrams[tx->lane]++ / TURN_DATAGRAMS % w->params.source_ports;
	int r;

	if (w->moves[tx->lane] != tx->moves)
		move_lane(w, tx->lane, tx->moves);
	r = w->sport_fd[tx->lane][turn] < 0 ? open_sport(w, tx->lane, turn) : 0;
	if (r == 0)
		return w->sport[tx->lane][turn];
	if (log_limit_pass(&w->no_socket_said, clock_now_ns(), NULL))
		log_err("WAN port %u: cannot open a socket that reserves a source port: %s", w->params.port,
		        strerror(-r));
	return 0;
}

static uint16_t engine_lane_sport(const struct wan_port *p, const struct wan_tx *tx)
{
	return p->way[tx->path].sport[tx->lane][0];
}

/* --- sending --- */

static bool engine_blocked(const struct wan_port *p)
{
	for (uint32_t i = 0; i < p->ndevices; i++)
		if (p->nic->tx_pending(p->device[i].nic))
			return true;
	return false;
}

/* The datagram's device is not known yet: each device sends frames in another one's memory, too. */
static uint8_t *engine_stage(struct wan_port *p, size_t *cap)
{
	if (p->nstaged == NIC_TX_BATCH || engine_blocked(p))
		return NULL;
	if (!p->room.handle && !p->nic->own(p->device[0].nic, &p->room))
		return NULL;
	*cap = p->payload_max;
	return p->room.at + WAN_ENGINE_HEADROOM;
}

/* Logs a missing next hop, but not while the neighbour is being resolved. */
static void say_no_route(struct engine_way *w, enum route_answer answer)
{
	char here[ADDR_TEXT_MAX], there[ADDR_TEXT_MAX];

	if ((answer != ROUTE_NONE && answer != ROUTE_HERE) || !log_limit_pass(&w->no_route_said, clock_now_ns(), NULL))
		return;
	addr_write(&w->params.local, here, sizeof(here));
	addr_write(&w->params.remote, there, sizeof(there));
	log_err("WAN port %u: no route leads to the other edge by %s, the interface of WanDevice=: see `ip route get %s from %s`",
	        w->params.port, w->device->ifname, there, here);
}

/* Writes the headers in front of the payload. False if there is no next hop now. */
static bool address_datagram(struct wan_port *p, struct engine_way *w, const struct wan_tx *tx, uint8_t *payload,
                             size_t len, struct nic_own *frame)
{
	uint8_t tos = (uint8_t)(w->params.dscp << 2 | (tx->ect ? ECN_ECT0 : 0)), eth[NEXT_HOP_ETH_MAX];
	enum route_answer answer;
	const struct next_hop *hop;
	uint16_t sport;
	size_t hdr_len;

	answer = route_lookup(route_worker(w->routes, 0), &w->params.remote, p->now_ns, &hop);
	if (answer != ROUTE_OK) {
		say_no_route(w, answer);
		p->stats.tx_no_route++;
		return false;
	}
	sport = take_sport(w, tx);
	if (!sport) {
		p->stats.tx_no_socket++;
		return false;
	}
	memcpy(w->ends.mac, hop->src_mac, sizeof(w->ends.mac)); /* the interface's may change */
	hdr_len = next_hop_eth(hop, !ip_addr_is4(&w->params.remote), 0, eth);
	frame->at = payload - wan_udp_put(&w->ends, sport, tos, payload, len) - hdr_len;
	frame->len = (size_t)(payload + len - frame->at);
	memcpy(frame->at, eth, hdr_len);
	return true;
}

static void engine_staged(struct wan_port *p, const struct wan_tx *tx, size_t len)
{
	struct engine_way *w = &p->way[tx->path];
	struct nic_own frame = {.handle = p->room.handle};

	_Static_assert(WAN_ENGINE_HEADROOM >= WAN_UDP_HDR_MAX + NEXT_HOP_ETH_MAX, "headers fit in front of a payload");
	if (!address_datagram(p, w, tx, p->room.at + WAN_ENGINE_HEADROOM, len, &frame))
		return; /* the room is used for the next one */
	w->device->out[w->device->nout++] = frame;
	p->room.handle = NULL;
	p->nstaged++;
}

static void give_up(struct wan_port *p, struct device *d)
{
	struct engine_way *w = p->way;

	while (w->device != d)
		w++;
	p->nic->tx_drop(d->nic);
	if (log_limit_pass(&w->stuck_said, clock_now_ns(), NULL))
		log_err("WAN port %u: WanDevice=%s takes no datagrams, and longreachd drops those that wait: if this "
		        "goes on, restart longreachd",
		        w->params.port, d->name);
}

static void flush_device(struct wan_port *p, struct device *d)
{
	if (p->nic->tx_pending(d->nic))
		p->nic->tx_retry(d->nic);
	if (p->nic->tx_pending(d->nic) && ++d->blocked > (p->npaths > 1 ? BLOCKED_TRIES : BLOCKED_TRIES_1))
		give_up(p, d);
	if (p->nic->tx_pending(d->nic))
		return;
	d->blocked = 0;
	if (d->nout)
		p->nic->tx_own(d->nic, d->out, d->nout);
	p->nstaged -= d->nout;
	d->nout = 0;
}

static void engine_flush(struct wan_port *p)
{
	for (uint32_t i = 0; i < p->ndevices; i++)
		flush_device(p, &p->device[i]);
}

/* --- life --- */

static int read_mac(struct device *d)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;
	struct ifreq ifr = {0};

	if (fd < 0)
		return -errno;
	memcpy(ifr.ifr_name, d->ifname, sizeof(d->ifname));
	r = ioctl(fd, SIOCGIFHWADDR, &ifr) < 0 ? -errno : 0;
	close(fd);
	memcpy(d->mac, ifr.ifr_hwaddr.sa_data, sizeof(d->mac));
	return r;
}

static int take_device(struct wan_port *p, const struct wan_port_path *path, char *err, size_t errlen)
{
	struct device *d = &p->device[p->ndevices];
	char why[LAN_ENGINE_ERR_MAX];
	int r = lan_engine_take("WanDevice", path->device, &p->nic, &d->nic, why, sizeof(why));

	if (r < 0) {
		snprintf(err, errlen, "WAN port %u: %s", path->port, why);
		return r;
	}
	snprintf(d->name, sizeof(d->name), "%s", path->device);
	p->ndevices++;
	config_device_word(d->name, "iface", d->ifname, sizeof(d->ifname));
	r = read_mac(d);
	if (r < 0)
		snprintf(err, errlen, "WAN port %u: WanDevice=%s: no such interface: %s", path->port, d->name, strerror(-r));
	return r;
}

static int find_device(struct wan_port *p, struct engine_way *w, char *err, size_t errlen)
{
	int r = 0;
	uint32_t i;

	for (i = 0; i < p->ndevices; i++)
		if (strcmp(p->device[i].name, w->params.device) == 0)
			break;
	if (i == p->ndevices)
		r = take_device(p, &w->params, err, errlen);
	if (r < 0)
		return r;
	w->device = &p->device[i];
	memcpy(w->ends.mac, w->device->mac, sizeof(w->ends.mac));
	return 0;
}

/* Holds the path's port for this link; the kernel's copies of its datagrams are dropped. */
static int hold_port(struct engine_way *w, char *err, size_t errlen)
{
	struct sock_filter none[] = {{.code = BPF_RET | BPF_K, .k = 0}};
	struct sock_fprog prog = {.len = 1, .filter = none};
	union sock_addr own;
	socklen_t len = wan_sock_addr(&own, &w->params.local, w->params.port);

	wan_socket_let_go(&w->params); /* sockets that an earlier process without WanDevice= left with the parent */
	w->port_fd = wan_socket(&own);
	if (w->port_fd < 0 || setsockopt(w->port_fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0 ||
	    wan_socket_bind(w->port_fd, &own, len) < 0)
		return wan_socket_bind_failed(&w->params, err, errlen);
	return 0;
}

static int open_routes(struct engine_way *w, char *err, size_t errlen)
{
	char name[1][IF_NAMESIZE];
	int r;

	memcpy(name[0], w->device->ifname, sizeof(name[0]));
	r = route_open(&w->routes, name, 1, 1, err, errlen);
	if (r < 0)
		return r;
	route_from(w->routes, &w->params.local);
	return route_run(w->routes, err, errlen);
}

static int open_way(struct wan_port *p, struct engine_way *w, char *err, size_t errlen)
{
	int r = find_device(p, w, err, errlen);

	if (r == 0)
		r = hold_port(w, err, errlen);
	return r == 0 ? open_routes(w, err, errlen) : r;
}

static void init_way(struct engine_way *w, const struct wan_port_path *params)
{
	w->params = *params;
	w->ends = (struct wan_udp_ends){.local = params->local, .remote = params->remote, .port = params->port};
	w->port_fd = -1;
	memset(w->sport_fd, 0xff, sizeof(w->sport_fd));
	w->no_socket_said = w->stuck_said = w->no_route_said = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
}

static void close_way(struct engine_way *w)
{
	route_close(w->routes);
	close_fd(&w->port_fd);
	for (unsigned i = 0; i < LANES_MAX; i++)
		for (unsigned j = 0; j < WAN_SPORTS_MAX; j++)
			close_fd(&w->sport_fd[i][j]);
}

static void engine_close(struct wan_port *p)
{
	for (uint32_t i = 0; i < p->npaths; i++)
		close_way(&p->way[i]);
	for (uint32_t i = 0; i < p->ndevices; i++) {
		struct device *d = &p->device[i];

		p->nic->own_back(d->nic, d->got, d->ngot);
		p->nic->own_back(d->nic, d->out, d->nout);
		p->nic->tx_drop(d->nic);
		lan_engine_give_back(d->name);
	}
	if (p->room.handle)
		p->nic->own_back(p->device[0].nic, &p->room, 1);
	free(p);
}

/* Checks the length of one room: all rooms are equally long. */
static int check_room(struct wan_port *p, char *err, size_t errlen)
{
	for (uint32_t i = 0; i < p->npaths; i++) {
		uint16_t max = config_payload_max(&p->way[i].params.remote, p->way[i].params.mtu);

		p->payload_max = max > p->payload_max ? max : p->payload_max;
	}
	if (!p->nic->own(p->device[0].nic, &p->room)) {
		snprintf(err, errlen, "WAN port %u: no memory for a datagram of WanDevice=%s", p->way[0].params.port,
		         p->device[0].name);
		return -ENOMEM;
	}
	if (p->room.len >= (size_t)WAN_ENGINE_HEADROOM + p->payload_max)
		return 0;
	snprintf(err, errlen, "WAN port %u: WanDevice=%s was opened for a smaller MTU: restart longreachd", p->way[0].params.port,
	         p->device[0].name);
	return -EMSGSIZE;
}

static int engine_open(struct wan_port **port, const struct wan_port_params *params, char *err, size_t errlen)
{
	struct wan_port *p = calloc(1, sizeof(*p) + params->npaths * sizeof(p->way[0]));
	int r = 0;

	if (!p) {
		snprintf(err, errlen, "WAN port %u: out of memory", params->path[0].port);
		return -ENOMEM;
	}
	p->npaths = params->npaths;
	for (uint32_t i = 0; i < p->npaths; i++)
		init_way(&p->way[i], &params->path[i]);
	for (uint32_t i = 0; i < p->npaths && r == 0; i++)
		r = open_way(p, &p->way[i], err, errlen);
	if (r == 0)
		r = check_room(p, err, errlen);
	if (r < 0) {
		engine_close(p);
		return r;
	}
	*port = p;
	return 0;
}

static void engine_stats(struct wan_port *p, struct wan_port_stats *s)
{
	*s = p->stats;
	for (uint32_t i = 0; i < p->ndevices; i++) {
		struct nic_stats nic;

		lan_engine_stats(p->device[i].name, &nic);
		s->tx_errors += nic.tx_errors + nic.tx_lost;
		s->rx_kernel_drops += nic.rx_missed;
		s->rx_bad_length += nic.rx_split;
	}
}

const struct wan_port_ops wan_engine_ops = {
    .open = engine_open,
    .close = engine_close,
    .session = engine_session,
    .rx_fd = engine_rx_fd,
    .receive = engine_receive,
    .receive_unmatched = engine_receive_unmatched,
    .deliver = engine_deliver,
    .stage = engine_stage,
    .staged = engine_staged,
    .flush = engine_flush,
    .blocked = engine_blocked,
    .lane_sport = engine_lane_sport,
    .stats = engine_stats,
};
