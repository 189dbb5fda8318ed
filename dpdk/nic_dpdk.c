/* SPDX-License-Identifier: Apache-2.0 */
/* nic_dpdk.c - longreach-dpdk.so: the devices of DPDK for Engine=dpdk.
 *
 * Theory of operation
 *
 * The EAL and every device are started by the process that has rights to do so, and before it gives them away: PMDs open
 * packet sockets, VFIO groups and huge pages. Nothing here opens anything later. One queue of each direction per device.
 *
 * Frames are copied, out of an mbuf by the core, into an mbuf by fill_mbuf(), but for those that nic_lend.c receives into
 * a link's buffer and sends out of it, and for those of a WAN port, which reads and builds them in mbufs (struct nic_own).
 * Threads of longreachd are none of the EAL's; use_caches() makes each that comes here
 * known to it, so that it has a cache of mbufs of its own.
 *
 * A net_vhost device binds a socket to the path of its iface=, and only closing the device removes that path. So stop()
 * closes such devices, and open() removes the path that a killed process has left.
 *
 * What the device does not take stays here as mbufs until tx_retry(). A device whose link is down takes nothing for ever,
 * so its frames are dropped and counted: RC repeats them, and other ports of the worker do not wait meanwhile. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "daemon/lan/nic_engine.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_kvargs.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_version.h>

#include "nic_lend.h"

enum dpdk_limits {
	DEVICES_MAX = 64,
	EAL_ARGS_MAX = 32,
	RING = 1024,      /* descriptors of each direction, where the PMD has no limit below */
	RX_BURST = 64,
	MBUF_CACHE = 128,
	LISTENER_WAIT_US = 100000,
	LISTENER_TRIES = 30,
	FRAME_OVERHEAD = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN,
	/* A net_af_packet device wants its whole ring frame in one buffer. */
	MBUF_BYTES = 8192,
	MBUF_SLACK = 1024, /* of a ring frame beyond the MTU, where that does not fit the above */
	PLACE_MTU = NIC_PLACE_BYTES - NIC_PLACE_HEADROOM - FRAME_OVERHEAD - RTE_VLAN_HLEN,
};

struct nic_device {
	uint16_t port;
	struct rte_mempool *pool; /* what is sent; and what comes, if nothing can be lent to the device */
	struct nic_lend lend;
	bool has_socket; /* it is bound to a path */
	struct rte_mbuf *unsent[NIC_TX_BATCH];
	uint16_t nunsent, unsent_next;
	struct nic_stats stats;
};

static struct nic_device devices[DEVICES_MAX];
static unsigned ndevices;
static pthread_key_t thread_known;

static const char *dpdk_name(void)
{
	return rte_version();
}

/* --- start --- */

static void forget_thread(void *known)
{
	(void)known;
	rte_thread_unregister();
}

/* Once in each thread that takes or gives back mbufs. A thread that the EAL has no number for works without a cache. */
static void use_caches(void)
{
	static __thread bool said;

	if (said)
		return;
	said = true;
	if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0)
		pthread_setspecific(thread_known, &thread_known);
}

static int first_cpu(const cpu_set_t *set)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET((size_t)cpu, set))
			return cpu;
	return 0;
}

static int add_words(char **argv, int argc, char *words)
{
	char *save = NULL;

	for (char *word = strtok_r(words, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (argc == EAL_ARGS_MAX)
			return -E2BIG;
		argv[argc++] = word;
	}
	return argc;
}

/* The EAL keeps pointers into its arguments and ties the calling thread to one CPU. The thread goes back to all of its
 * CPUs: this is no thread that carries packets. */
static int dpdk_start(const char *arguments, unsigned npci, char *err, size_t errlen)
{
	static char words[1024], lcores[16];
	/* no file that another process could attach to; the EAL refuses the first of these without huge pages */
	const char *memory = strstr(arguments, "--no-huge") ? "--no-shconf" : "--in-memory";
	char *argv[EAL_ARGS_MAX + 1] = {(char *)(uintptr_t)"longreachd",   (char *)(uintptr_t)memory,
	                                (char *)(uintptr_t)"--no-telemetry", (char *)(uintptr_t)"--log-level=*:warning",
	                                (char *)(uintptr_t)"--lcores",     lcores};
	int argc = 6, r;
	cpu_set_t before;

	if (sched_getaffinity(0, sizeof(before), &before) < 0)
		CPU_ZERO(&before);
	snprintf(lcores, sizeof(lcores), "0@%d", first_cpu(&before));
	/* Without a device of that bus the EAL looks at none of it. With one it takes those that are opened below, and no
	 * other: an address that no device has makes the list of those allowed. */
	if (npci == 0) {
		argv[argc++] = (char *)(uintptr_t)"--no-pci";
	} else {
		argv[argc++] = (char *)(uintptr_t)"-a";
		argv[argc++] = (char *)(uintptr_t)"0000:00:00.0";
	}
	if (strlen(arguments) >= sizeof(words)) {
		snprintf(err, errlen, "--eal: too long: at most %zu characters", sizeof(words) - 1);
		return -E2BIG;
	}
	snprintf(words, sizeof(words), "%s", arguments);
	argc = add_words(argv, argc, words);
	if (argc < 0) {
		snprintf(err, errlen, "--eal: too many arguments: expected at most %d", EAL_ARGS_MAX - 8);
		return argc;
	}
	argv[argc] = NULL;
	r = rte_eal_init(argc, argv);
	if (CPU_COUNT(&before) > 0)
		sched_setaffinity(0, sizeof(before), &before);
	if (r < 0) {
		snprintf(err, errlen, "%s does not start: %s (read the log lines with EAL: above)", rte_version(),
		         rte_strerror(rte_errno));
		return -EIO;
	}
	return -pthread_key_create(&thread_known, forget_thread);
}

/* --- devices --- */

/* What hosts send is in no core dump. */
static void hide_chunk(struct rte_mempool *pool, void *opaque, struct rte_mempool_memhdr *chunk, unsigned i)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)chunk->addr & ~(page - 1);
	uintptr_t end = ((uintptr_t)chunk->addr + chunk->len + page - 1) & ~(page - 1);

	(void)pool;
	(void)opaque;
	(void)i;
	madvise((void *)at, end - at, MADV_DONTDUMP); /* huge pages refuse what is not theirs: no harm */
}

static int make_pool(struct nic_device *d, const struct nic_wanted *w, uint16_t nrx, uint16_t ntx)
{
	char name[32];
	/* both rings full, a burst on its way each way, what does not get sent, and the caches of two threads */
	unsigned n = (unsigned)nrx + ntx + 2 * RX_BURST + 2 * NIC_TX_BATCH + 4 * MBUF_CACHE;
	unsigned bytes = RTE_MAX((unsigned)MBUF_BYTES, w->mtu + MBUF_SLACK);

	snprintf(name, sizeof(name), "longreach%u", ndevices);
	if (w->lends && nic_lend_pools(&d->lend, d->port, name, nrx, ntx) == 0) {
		rte_mempool_mem_iter(d->lend.landing, hide_chunk, NULL);
		rte_mempool_mem_iter(d->lend.parts, hide_chunk, NULL);
	}
	d->pool = rte_pktmbuf_pool_create(name, n, MBUF_CACHE, 0, (uint16_t)(RTE_PKTMBUF_HEADROOM + bytes),
	                                  rte_eth_dev_socket_id(d->port));
	if (!d->pool)
		return -rte_errno;
	rte_mempool_mem_iter(d->pool, hide_chunk, NULL);
	return 0;
}

/* Into mbufs that may be over places. A driver that wants larger ones gets them, and nothing is lent to its device. */
static int set_up_rx(struct nic_device *d, uint16_t nrx)
{
	if (d->lend.landing &&
	    rte_eth_rx_queue_setup(d->port, 0, nrx, (unsigned)SOCKET_ID_ANY, NULL, d->lend.landing) == 0)
		return 0;
	nic_lend_forget_pools(&d->lend);
	return rte_eth_rx_queue_setup(d->port, 0, nrx, (unsigned)SOCKET_ID_ANY, NULL, d->pool);
}

static int configure(struct nic_device *d, const struct nic_wanted *w)
{
	struct rte_eth_conf conf = {.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE};
	struct rte_eth_dev_info info;
	uint16_t nrx = RING, ntx = RING;
	uint32_t most;
	int r = rte_eth_dev_info_get(d->port, &info);

	if (r < 0)
		return r;
	/* net_af_packet says 1,514 and takes what its ring's frames hold */
	most = info.max_rx_pktlen > FRAME_OVERHEAD ? info.max_rx_pktlen - FRAME_OVERHEAD : w->mtu;
	if (info.max_mtu != 0 && info.max_mtu < most)
		most = info.max_mtu;
	if (w->mtu < most)
		most = w->mtu;
	conf.rxmode.mtu = most < PLACE_MTU || !w->lends ? most : PLACE_MTU;
	d->lend.chains = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	r = rte_eth_dev_configure(d->port, 1, 1, &conf);
	if (r == 0)
		r = rte_eth_dev_adjust_nb_rx_tx_desc(d->port, &nrx, &ntx);
	if (r == 0)
		r = make_pool(d, w, nrx, ntx);
	if (r == 0)
		r = set_up_rx(d, nrx);
	if (r == 0)
		r = rte_eth_tx_queue_setup(d->port, 0, ntx, (unsigned)SOCKET_ID_ANY, NULL);
	if (r == 0)
		r = rte_eth_dev_start(d->port);
	return r;
}

/* --- sockets of net_vhost --- */

/* Reads the path that the device is going to be bound to. False: it binds no socket. */
static bool read_socket_path(const char *devargs, char *path, size_t len)
{
	const char *words = strchr(devargs, ','), *iface, *client;
	struct rte_kvargs *args;
	bool binds;

	if (strncmp(devargs, "net_vhost", strlen("net_vhost")) != 0 || !words)
		return false;
	args = rte_kvargs_parse(words + 1, NULL);
	if (!args)
		return false;
	iface = rte_kvargs_get(args, "iface");
	client = rte_kvargs_get(args, "client");
	binds = iface && (!client || strtoul(client, NULL, 0) == 0);
	if (binds)
		snprintf(path, len, "%s", iface);
	rte_kvargs_free(args);
	return binds;
}

/* Binds a socket to the path and removes it. 0 or negative errno: what the driver, which returns -1, would meet. */
static int try_bind(const struct sockaddr_un *at)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) < 0)
		r = -errno;
	else
		unlink(at->sun_path);
	close(fd);
	return r;
}

/* 0 or -EAGAIN: a process listens there. -ECONNREFUSED: the process that did has ended. Another negative errno: it is
 * no such socket, or nothing is there. */
static int try_connect(const struct sockaddr_un *at)
{
	struct stat st;
	int fd, r = 0;

	if (lstat(at->sun_path, &st) < 0)
		return -errno;
	if (!S_ISSOCK(st.st_mode)) /* connect() would say ECONNREFUSED */
		return -ENOTSOCK;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) < 0)
		r = -errno;
	close(fd);
	return r;
}

/* Removes what a process that has ended left at the path. Waits for one that is dying. Who listens there still may be
 * another daemon: devices are opened before longreachd looks for one. */
static void remove_left_socket(const struct sockaddr_un *at)
{
	int r = try_connect(at);

	for (unsigned i = 0; (r == 0 || r == -EAGAIN) && i < LISTENER_TRIES; i++) {
		usleep(LISTENER_WAIT_US);
		r = try_connect(at);
	}
	if (r == -ECONNREFUSED)
		unlink(at->sun_path);
}

/* 0 or negative errno with err a sentence. */
static int make_way(const char *devargs, bool *has_socket, char *err, size_t errlen)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int r;

	*has_socket = read_socket_path(devargs, at.sun_path, sizeof(at.sun_path));
	if (!*has_socket)
		return 0;
	remove_left_socket(&at);
	r = try_bind(&at);
	if (r == -EADDRINUSE)
		snprintf(err, errlen,
		         "%s: a process listens at %s, or it is no socket: expected a path of this device's own in "
		         "iface=",
		         devargs, at.sun_path);
	else if (r < 0)
		snprintf(err, errlen, "%s: cannot bind a socket to %s: %s", devargs, at.sun_path, strerror(-r));
	return r;
}

/* --- opening --- */

/* Drivers return -1 where they have no errno. */
static const char *reason(int r)
{
	return r == -1 ? "its driver gives no reason (read its log lines above)" : rte_strerror(-r);
}

static int find_port(const char *devargs, uint16_t *port, char *err, size_t errlen)
{
	char name[RTE_DEV_NAME_MAX_LEN];
	int r = rte_dev_probe(devargs);

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(devargs, ","), devargs);
	if (r == 0)
		r = rte_eth_dev_get_port_by_name(name, port);
	if (r < 0)
		snprintf(err, errlen,
		         "%s: DPDK cannot open this device (read its log lines above): expected a PCI address such as "
		         "0000:3b:00.0, or a driver of DPDK with a number such as net_af_packet0, with its arguments "
		         "after commas",
		         devargs);
	return r;
}

/* Of a device that did not start: the next one takes its place, and the names of its pools. */
static void forget_device(struct nic_device *d)
{
	rte_eth_dev_close(d->port);
	nic_lend_forget_pools(&d->lend);
	rte_mempool_free(d->pool);
	memset(d, 0, sizeof(*d));
}

static int dpdk_open(struct nic_device **out, const struct nic_wanted *w, char *err, size_t errlen)
{
	struct nic_device *d = &devices[ndevices];
	int r;

	if (ndevices == DEVICES_MAX) {
		snprintf(err, errlen, "%s: more than %d devices", w->devargs, DEVICES_MAX);
		return -ENOSPC;
	}
	r = make_way(w->devargs, &d->has_socket, err, errlen);
	if (r == 0)
		r = find_port(w->devargs, &d->port, err, errlen);
	if (r < 0)
		return r;
	r = configure(d, w);
	if (r < 0) {
		snprintf(err, errlen, "%s: cannot configure this device: %s", w->devargs, reason(r));
		forget_device(d);
		return r;
	}
	ndevices++;
	*out = d;
	return 0;
}

/* --- frames --- */

static void receive_frame(struct nic_device *d, struct rte_mbuf *m, nic_rx_fn fn, void *arg)
{
	uint16_t tci = m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED ? m->vlan_tci : 0;

	if (m->nb_segs != 1)
		d->stats.rx_split++;
	else if (d->lend.landing && m->pool == d->lend.landing) /* a ring's mbufs may be another device's */
		nic_lend_received(&d->lend, m, tci, fn, arg);
	else
		fn(arg, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, tci, NULL);
}

static unsigned dpdk_rx(struct nic_device *d, unsigned budget, nic_rx_fn fn, void *arg)
{
	struct rte_mbuf *got[RX_BURST];
	uint16_t n;

	use_caches();
	n = rte_eth_rx_burst(d->port, 0, got, (uint16_t)(budget < RX_BURST ? budget : RX_BURST));
	for (uint16_t i = 0; i < n; i++) {
		if (i + 1 < n)
			rte_prefetch0(rte_pktmbuf_mtod(got[i + 1], void *));
		receive_frame(d, got[i], fn, arg);
	}
	if (n)
		rte_pktmbuf_free_bulk(got, n);
	return n;
}

static bool fill_mbuf(struct rte_mbuf *m, const struct nic_frame *f)
{
	uint8_t *to = rte_pktmbuf_mtod(m, uint8_t *);
	size_t len = 0;

	for (unsigned i = 0; i < f->nparts; i++) {
		if (len + f->part[i].iov_len > rte_pktmbuf_tailroom(m))
			return false;
		rte_memcpy(to + len, f->part[i].iov_base, f->part[i].iov_len);
		len += f->part[i].iov_len;
	}
	m->data_len = (uint16_t)len;
	m->pkt_len = (uint32_t)len;
	return true;
}

/* True if the device will take nothing, however long one waits. */
static bool link_is_down(const struct nic_device *d)
{
	struct rte_eth_link link;

	return rte_eth_link_get_nowait(d->port, &link) == 0 && link.link_status == RTE_ETH_LINK_DOWN;
}

static void dpdk_tx_drop(struct nic_device *d)
{
	uint16_t left = (uint16_t)(d->nunsent - d->unsent_next);

	rte_pktmbuf_free_bulk(d->unsent + d->unsent_next, left);
	d->stats.tx_errors += left;
	d->unsent_next = d->nunsent;
}

static void send_mbufs(struct nic_device *d)
{
	uint16_t left = (uint16_t)(d->nunsent - d->unsent_next);

	d->unsent_next = (uint16_t)(d->unsent_next + rte_eth_tx_burst(d->port, 0, d->unsent + d->unsent_next, left));
	left = (uint16_t)(d->nunsent - d->unsent_next);
	if (left > 0 && link_is_down(d))
		dpdk_tx_drop(d);
}

static struct rte_mbuf *copy_frame(struct nic_device *d, const struct nic_frame *f)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(d->pool);

	if (m && fill_mbuf(m, f))
		return m;
	rte_pktmbuf_free(m);
	d->stats.tx_errors++;
	return NULL;
}

/* NULL: counted. */
static struct rte_mbuf *make_mbuf(struct nic_device *d, const struct nic_frame *f)
{
	struct rte_mbuf *m;

	if (f->lent == NIC_NO_PART)
		return copy_frame(d, f);
	m = nic_lend_chain(&d->lend, f);
	if (m)
		return m;
	m = copy_frame(d, f);
	d->lend.lender.part_back(d->lend.lender.arg, f->tag);
	return m;
}

static void dpdk_tx(struct nic_device *d, const struct nic_frame *frames, unsigned n)
{
	use_caches();
	d->nunsent = d->unsent_next = 0;
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = make_mbuf(d, &frames[i]);

		if (m)
			d->unsent[d->nunsent++] = m;
	}
	if (d->nunsent)
		send_mbufs(d);
}

static bool dpdk_tx_pending(const struct nic_device *d)
{
	return d->unsent_next < d->nunsent;
}

static void dpdk_tx_retry(struct nic_device *d)
{
	if (dpdk_tx_pending(d))
		send_mbufs(d);
}

static void dpdk_stats(struct nic_device *d, struct nic_stats *s)
{
	struct rte_eth_stats eth;

	if (rte_eth_stats_get(d->port, &eth) == 0) {
		d->stats.rx_missed = eth.imissed + eth.rx_nombuf;
		d->stats.tx_lost = eth.oerrors;
	}
	*s = d->stats;
}

/* --- frames in mbufs --- */

static unsigned dpdk_rx_own(struct nic_device *d, struct nic_own *frames, unsigned n)
{
	struct rte_mbuf *got[RX_BURST];
	unsigned taken = 0;
	uint16_t came;

	use_caches();
	came = rte_eth_rx_burst(d->port, 0, got, (uint16_t)(n < RX_BURST ? n : RX_BURST));
	for (uint16_t i = 0; i < came; i++) {
		if (got[i]->nb_segs != 1) {
			d->stats.rx_split++;
			rte_pktmbuf_free(got[i]);
			continue;
		}
		frames[taken++] = (struct nic_own){
		    .at = rte_pktmbuf_mtod(got[i], uint8_t *), .len = got[i]->data_len, .handle = got[i]};
	}
	return taken;
}

static bool dpdk_own(struct nic_device *d, struct nic_own *room)
{
	struct rte_mbuf *m;

	use_caches();
	m = rte_pktmbuf_alloc(d->pool);
	if (m)
		*room = (struct nic_own){.at = m->buf_addr, .len = m->buf_len, .handle = m};
	return m != NULL;
}

static void dpdk_own_back(struct nic_device *d, const struct nic_own *frames, unsigned n)
{
	(void)d;
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(frames[i].handle);
}

static void dpdk_tx_own(struct nic_device *d, const struct nic_own *frames, unsigned n)
{
	use_caches();
	d->nunsent = d->unsent_next = 0;
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = frames[i].handle;

		m->data_off = (uint16_t)(frames[i].at - (uint8_t *)m->buf_addr);
		m->data_len = (uint16_t)frames[i].len;
		m->pkt_len = m->data_len;
		d->unsent[d->nunsent++] = m;
	}
	if (d->nunsent)
		send_mbufs(d);
}

static int dpdk_lend(struct nic_device *d, const struct nic_lender *l, char *err, size_t errlen)
{
	return nic_lend_begin(&d->lend, l, err, errlen);
}

static int dpdk_take_back(struct nic_device *d, char *err, size_t errlen)
{
	rte_pktmbuf_free_bulk(d->unsent + d->unsent_next, (unsigned)(d->nunsent - d->unsent_next));
	d->unsent_next = d->nunsent;
	return nic_lend_end(&d->lend, err, errlen);
}

static void dpdk_stop(void)
{
	for (unsigned i = 0; i < ndevices; i++) {
		if (!rte_eth_dev_is_valid_port(devices[i].port)) /* nic_lend_end() has closed it */
			continue;
		rte_eth_dev_stop(devices[i].port);
		if (devices[i].has_socket)
			rte_eth_dev_close(devices[i].port);
	}
}

const struct nic_engine *nic_engine_table(void)
{
	static const struct nic_engine table = {
	    .abi = NIC_ENGINE_ABI,
	    .name = dpdk_name,
	    .start = dpdk_start,
	    .open = dpdk_open,
	    .rx = dpdk_rx,
	    .tx = dpdk_tx,
	    .tx_pending = dpdk_tx_pending,
	    .tx_retry = dpdk_tx_retry,
	    .tx_drop = dpdk_tx_drop,
	    .rx_own = dpdk_rx_own,
	    .own = dpdk_own,
	    .own_back = dpdk_own_back,
	    .tx_own = dpdk_tx_own,
	    .stats = dpdk_stats,
	    .lend = dpdk_lend,
	    .take_back = dpdk_take_back,
	    .stop = dpdk_stop,
	};

	return &table;
}
