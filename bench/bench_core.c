/* SPDX-License-Identifier: Apache-2.0 */
/* bench_core.c - cost of a 4 KiB packet in the core, beside the bare cost: copy, ICRC and cipher of its bytes.
 *
 * Two shards are joined by a queue of datagrams. Host A sends WRITEs in batches, host B answers. Timed separately:
 *
 *     near     lan_rx, ACK to the host, wan_tx        at A: the packet is checked, stored, ACKed, put into a datagram;
 *                                                     and the two halves of this work
 *     near,    wan_rx                                 at A: reports come back, slots are freed
 *       reports
 *     far      wan_rx, lan_tx, ACK in, wan_tx         at B: the packet is stored, sent to the host, ACKed by the host,
 *                                                     reported
 *     bytes    memcpy + ICRC                          the same packets, checked and copied
 *     AEAD     the cipher alone                       the same packets, with --seal: near seals, far opens
 *
 * Building the hosts' packets and carrying the datagrams is not timed. Each batch of 64 packets goes through the edges
 * and through the bare copy in turn, so that a slow processor slows both. Each block of eight batches has its own
 * figures. The table shows the medians of the fastest third of the blocks; "half of all" is the range of the middle
 * half of the ratios. "held" is the number of packets in A's deep buffer at once: the small number already exceeds a
 * core's own caches, the large number is that of a long line. The bare copy uses the same number of places in turn, so
 * that its memory is as cold. For information only, the table also shows the cost of a copy into 64 places that stay in
 * the caches.
 *
 *     bench_core                       the table
 *     bench_core --seal CIPHER         the same on a sealed link, beside the bare cost of cipher, copy and ICRC
 *     bench_core --packets N           N packets once through all sections, without a table: bench_core.sh counts the
 *                                      instructions of each section_*() */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "proxy/proxy.h"
#include "seal/aead.h"

enum {
	BATCH = 64, /* as many as a worker takes from a port in a turn: LAN_RX_BUDGET */
	PAYLOAD = 4096,
	PKT_MAX = 4224,
	DGRAM_MAX = 8972,
	DGRAMS_MAX = 256, /* per batch and direction, reports included */
	LINE_MAX = 311,   /* batches under way */
	IDLE_BATCHES = 5000, /* 100 ms: time for some probes of the round trip */
	PLACES_MAX = 400 * BATCH,
	QPN = 0x11,
	FLOWS = 64,
	BLOCK = 8, /* batches with one set of figures: about the packets of one chunk of the arena */
	BLOCKS = 750,
	KEPT = BLOCKS / 3,
	STACK_ALIGN = 16,
	STACK_PLACES = 4,
	STEP_NS = 20000, /* of virtual time, per batch: 100 Gbit/s */
};

struct dgrams {
	uint8_t (*buf)[DGRAM_MAX];
	uint16_t len[DGRAMS_MAX];
	uint32_t n;
};

#define ARENA_LEN (512ull << 20)

struct edge {
	struct proxy *p;
	struct proxy_config cfg;
	struct arena_geometry g;
	struct wan_pacer pacer;
};

/* Places for copies of packets, used one after the other. */
struct ring {
	uint8_t *mem;
	size_t slots, at;
};

struct bench {
	struct edge a, b;
	uint64_t now_ns; /* virtual */
	uint32_t psn;
	enum seal_cipher cipher;
	void *aead_state; /* the cipher alone */
	uint64_t aead_pn;
	uint8_t (*pkt)[PKT_MAX]; /* BATCH packets of host A */
	uint16_t pkt_len;
	struct roce_pkt parsed[BATCH];
	struct dgrams queue[LINE_MAX]; /* the line, one element per batch: `line` elements are used, in turn */
	struct dgrams port, back;      /* datagrams of an edge's WAN port: A to B, B to A */
	uint32_t line, q_head, q_tail;
	uint8_t ack[BATCH][128]; /* of host B */
	uint16_t ack_len[BATCH];
	uint32_t nacks, lan_tx_seen, acks_seen;
	uint32_t asked[BATCH]; /* PSNs with AckReq */
	uint32_t nasked;
	struct ring many, few;
	uint32_t sink;
	uint64_t packets; /* through all sections */
};

static void die(const char *what)
{
	fprintf(stderr, "bench_core: %s\n", what);
	exit(1);
}

static void *map(size_t len)
{
	void *p = mmap(NULL, len + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("out of memory");
	p = (void *)(((uintptr_t)p + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
	madvise(p, len, MADV_HUGEPAGE);
	memset(p, 0, len); /* page faults must not be measured */
	return p;
}

/* Processor time of this thread, so that other processes do not count. */
static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t look_ns; /* time of one clock_gettime() */

static void time_the_clock(void)
{
	look_ns = UINT64_MAX;
	for (int i = 0; i < 10000; i++) {
		uint64_t t = clock_ns(), ns = clock_ns() - t;

		look_ns = ns < look_ns ? ns : look_ns;
	}
}

/* Returns the time since *t, less the clock's own, and sets *t to now. */
static double lap(uint64_t *t)
{
	uint64_t now = clock_ns(), ns = now - *t;

	*t = now;
	return ns > look_ns ? (double)(ns - look_ns) : 0;
}

static struct ip_addr host(uint8_t site)
{
	return (struct ip_addr){.b = {[10] = 0xff, 0xff, 10, site, 0, 2}};
}

/* --- set-up --- */

static struct seal *open_seal(enum seal_cipher cipher, uint8_t site)
{
	struct seal_scope of = {.nlanes = 1, .nshards = 1, .limits = {SEAL_DATAGRAMS_MAX, SEAL_BYTES_MAX}};
	struct seal_secret out = {.cipher = cipher, .epoch = site, .bytes = {site}};
	struct seal_secret in = {.cipher = cipher, .epoch = 3u - site, .bytes = {(uint8_t)(3 - site)}};
	struct seal *s = seal_new();

	seal_take_tx(s, seal_keys_new(&out, SEAL_TX, &of));
	seal_take_rx(s, seal_keys_new(&in, SEAL_RX, &of), 0);
	return s;
}

static void open_edge(struct edge *e, uint8_t site, uint64_t arena_len, uint64_t now_ns, enum seal_cipher cipher)
{
	struct proxy_session s = {.epoch_tx = site, .epoch_rx = 3u - site};
	void *region = map(arena_len);

	wan_pacer_init(&e->pacer, 4000000000000ull, 66, 1000000000);
	proxy_config_defaults(&e->cfg);
	e->cfg.mode = ACK_MODE_NEAR;
	e->cfg.nlanes = 1;
	e->cfg.max_flows = FLOWS;
	e->cfg.nlocal = e->cfg.nremote = 1;
	e->cfg.local[0] = (struct ip_prefix){.addr = host(site), .len = 128};
	e->cfg.remote[0] = (struct ip_prefix){.addr = host((uint8_t)(3 - site)), .len = 128};
	e->cfg.path[0].pacer = &e->pacer;
	e->cfg.rate_hint_bps = 100000000000ull;
	e->cfg.path[0].payload_max = DGRAM_MAX;
	if (cipher != SEAL_NONE) {
		e->cfg.seal = &seal_ops;
		e->cfg.seal_ctx = open_seal(cipher, site);
	}
	e->g = (struct arena_geometry){
	    .len = arena_len, .chunk_size = 2 << 20, .max_flows = FLOWS, .reserve_percent = 25};
	if (proxy_init(&e->p, map(proxy_heap_size(&e->cfg, &e->g)), region, &e->cfg, &e->g, PROXY_START_FRESH, site,
	               now_ns))
		die("proxy_init failed");
	proxy_session_start(e->p, &s, now_ns);
}

static void open_aead(struct bench *t)
{
	static const uint8_t key[SEAL_KEY_MAX] = {1};
	const struct seal_aead *a = seal_aead_best(t->cipher);

	t->aead_state = map(a->key_size);
	if (!a->init(t->aead_state, t->cipher) || !a->set_key(t->aead_state, key))
		die("no cipher");
}

static struct bench *open_bench(uint64_t arena_len, enum seal_cipher cipher)
{
	struct bench *t = map(sizeof(*t));

	t->now_ns = 1000000000;
	t->cipher = cipher;
	if (cipher != SEAL_NONE)
		open_aead(t);
	open_edge(&t->a, 1, arena_len, t->now_ns, cipher);
	open_edge(&t->b, 2, arena_len, t->now_ns, cipher);
	t->pkt = map(sizeof(*t->pkt) * BATCH);
	for (int i = 0; i < LINE_MAX; i++)
		t->queue[i].buf = map(sizeof(*t->queue[i].buf) * DGRAMS_MAX);
	t->port.buf = map(sizeof(*t->port.buf) * DGRAMS_MAX);
	t->back.buf = map(sizeof(*t->back.buf) * DGRAMS_MAX);
	t->many = (struct ring){.mem = map((size_t)PLACES_MAX * PKT_MAX), .slots = BATCH};
	t->few = (struct ring){.mem = map((size_t)BATCH * PKT_MAX), .slots = BATCH};
	return t;
}

/* --- hosts and the line: not timed --- */

/* Builds the packets of the current batch, each time with the same bytes. Freshly built packets are in the caches, as
 * packets in a LAN port are. */
static void make_packets(struct bench *t)
{
	uint8_t payload[PAYLOAD];

	memset(payload, (int)(t->psn >> 7), sizeof(payload));
	for (uint32_t i = 0; i < BATCH; i++) {
		struct roce_pkt h = {.src = host(1),
		                     .dst = host(2),
		                     .ttl = 64,
		                     .udp_sport = 0xc011,
		                     .opcode = RC_WRITE_ONLY,
		                     .pkey = 0xffff,
		                     .dest_qpn = QPN,
		                     .psn = (t->psn + i) & ROCE_PSN_MASK,
		                     .ack_req = i % 16 == 15,
		                     .reth_len = PAYLOAD};

		t->pkt_len = (uint16_t)roce_build(t->pkt[i], PKT_MAX, &h, payload, sizeof(payload));
		t->parsed[i] = h;
	}
}

static void make_acks(struct bench *t)
{
	for (t->nacks = 0; t->nacks < t->nasked; t->nacks++) {
		struct roce_pkt h = {.src = host(2),
		                     .dst = host(1),
		                     .ttl = 64,
		                     .udp_sport = 0xc011,
		                     .opcode = RC_ACK,
		                     .pkey = 0xffff,
		                     .dest_qpn = QPN,
		                     .psn = t->asked[t->nacks],
		                     .aeth_syndrome = AETH_ACK_NO_CREDITS,
		                     .aeth_msn = t->asked[t->nacks] + 1};

		t->ack_len[t->nacks] = (uint16_t)roce_build(t->ack[t->nacks], sizeof(t->ack[0]), &h, NULL, 0);
	}
	t->nasked = 0;
}

/* --- timed sections; not inlined, so that an instruction counter can tell them apart --- */

static void collect(struct edge *e, uint64_t now_ns, struct dgrams *d)
{
	struct wan_tx tx;

	while ((d->len[d->n] = (uint16_t)proxy_wan_tx(e->p, now_ns, d->buf[d->n], DGRAM_MAX, &tx)) > 0)
		if (++d->n == DGRAMS_MAX)
			die("too many datagrams at once");
}

static void take_acks(struct bench *t)
{
	struct lan_tx tx;

	while (proxy_lan_tx(t->a.p, t->now_ns, &tx) > 0)
		t->acks_seen++;
}

static __attribute__((noinline)) void section_near_in(struct bench *t)
{
	proxy_tick(t->a.p, t->now_ns);
	for (uint32_t i = 0; i < BATCH; i++) {
		if (proxy_lan_rx(t->a.p, t->now_ns, t->pkt[i], t->pkt_len, 0) != DROP_NONE)
			die("a packet was not taken");
		if (i % 32 == 31)
			take_acks(t);
	}
}

/* Datagrams are built in reused memory, as in a WAN port. batch() then copies them onto the line. */
static __attribute__((noinline)) void section_near_out(struct bench *t)
{
	t->port.n = 0;
	collect(&t->a, t->now_ns, &t->port);
}

static __attribute__((noinline)) void section_reports(struct bench *t)
{
	for (uint32_t i = 0; i < t->back.n; i++)
		proxy_wan_rx(t->a.p, t->now_ns, t->back.buf[i], t->back.len[i], false);
	take_acks(t);
}

static void to_host(struct bench *t)
{
	struct lan_tx tx;

	while (proxy_lan_tx(t->b.p, t->now_ns, &tx) > 0) {
		const uint8_t *bth = tx.hdr + 28;

		t->lan_tx_seen++;
		if (bth[8] & 0x80 && t->nasked < BATCH)
			t->asked[t->nasked++] = get_be24(bth + 9);
	}
}

static __attribute__((noinline)) void section_far_in(struct bench *t)
{
	proxy_tick(t->b.p, t->now_ns);
	for (uint32_t i = 0; i < t->port.n; i++)
		proxy_wan_rx(t->b.p, t->now_ns, t->port.buf[i], t->port.len[i], false);
	to_host(t);
}

static __attribute__((noinline)) void section_far_acks(struct bench *t)
{
	for (uint32_t i = 0; i < t->nacks; i++)
		proxy_lan_rx(t->b.p, t->now_ns, t->ack[i], t->ack_len[i], 0);
	to_host(t);
	collect(&t->b, t->now_ns, &t->back);
}

static inline void copy_and_check(struct bench *t, struct ring *r)
{
	for (uint32_t i = 0; i < BATCH; i++) {
		uint8_t *to = r->mem + r->at++ % r->slots * PKT_MAX;

		t->sink += icrc_check(t->pkt[i], &t->parsed[i], NULL);
		memcpy(to, t->pkt[i], t->pkt_len);
		__asm__ volatile("" : : "r"(to) : "memory");
	}
}

static __attribute__((noinline)) void section_bytes(struct bench *t)
{
	copy_and_check(t, &t->many);
}

static __attribute__((noinline)) void section_bytes_few(struct bench *t)
{
	copy_and_check(t, &t->few);
}

/* Seals in place, as an edge seals bytes that the edge has just written. */
static __attribute__((noinline)) void section_aead(struct bench *t)
{
	const struct seal_aead *a = seal_aead_best(t->cipher);
	uint8_t iv[SEAL_IV_LEN] = {0}, aad[16] = {0};

	for (uint32_t i = 0; i < BATCH; i++, t->aead_pn++) {
		memcpy(iv, &t->aead_pn, sizeof(t->aead_pn));
		a->seal(t->aead_state, iv, aad, t->pkt[i], t->pkt_len, NULL, 0, t->pkt[i] + PKT_MAX - WAN_TAG_LEN);
	}
}

/* --- rounds --- */

enum { S_NEAR, S_NEAR_IN, S_NEAR_OUT, S_REPORTS, S_FAR, S_BYTES, S_BYTES_FEW, S_AEAD, SECTIONS };

static void carry(struct dgrams *to, const struct dgrams *from)
{
	to->n = from->n;
	for (uint32_t i = 0; i < from->n; i++) {
		to->len[i] = from->len[i];
		memcpy(to->buf[i], from->buf[i], from->len[i]);
	}
}

static void far_batch(struct bench *t, struct dgrams *in, double ns[SECTIONS])
{
	uint64_t at;

	carry(&t->port, in);
	at = clock_ns();
	section_far_in(t);
	ns[S_FAR] += lap(&at);
	while (t->nasked) {
		make_acks(t);
		at = clock_ns();
		section_far_acks(t);
		ns[S_FAR] += lap(&at);
	}
	section_reports(t);
	ns[S_REPORTS] += lap(&at);
	t->back.n = 0;
}

/* The bare cost of the same batch. */
static void bare(struct bench *t, double ns[SECTIONS])
{
	uint64_t at;

	make_packets(t);
	at = clock_ns();
	section_bytes(t);
	ns[S_BYTES] += lap(&at);
	make_packets(t);
	at = clock_ns();
	section_bytes_few(t);
	ns[S_BYTES_FEW] += lap(&at);
	if (t->cipher == SEAL_NONE)
		return;
	section_aead(t);
	ns[S_AEAD] += lap(&at);
}

/* Sends one batch. Once the line is full, the oldest batch arrives at the other edge. */
static void batch(struct bench *t, double ns[SECTIONS])
{
	struct dgrams *out = &t->queue[t->q_head % t->line];
	uint64_t at;

	make_packets(t);
	t->now_ns += STEP_NS;
	at = clock_ns();
	section_near_in(t);
	ns[S_NEAR_IN] += lap(&at);
	section_near_out(t);
	ns[S_NEAR_OUT] += lap(&at);
	carry(out, &t->port);
	t->q_head++;
	if (t->q_head - t->q_tail == t->line)
		far_batch(t, &t->queue[t->q_tail++ % t->line], ns);
	bare(t, ns);
	t->psn += BATCH;
	t->packets += BATCH;
}

/* Number of packets in A's deep buffer. */
static size_t held(const struct bench *t)
{
	struct proxy_link_status st;

	proxy_link_status(t->a.p, t->now_ns, &st);
	return st.pool_used[POOL_LAN] / PKT_MAX;
}

/* Passes time without packets of hosts, so that the edges measure the line's length, or the first answer arrives. */
static void idle(struct bench *t, uint32_t batches)
{
	double ns[SECTIONS] = {0};

	for (uint32_t i = 0; i < batches; i++) {
		t->now_ns += STEP_NS;
		proxy_tick(t->a.p, t->now_ns);
		section_near_out(t);
		carry(&t->queue[t->q_head++ % t->line], &t->port);
		if (t->q_head - t->q_tail < t->line)
			continue;
		far_batch(t, &t->queue[t->q_tail++ % t->line], ns);
		section_far_acks(t);
		section_reports(t);
		t->back.n = 0;
	}
}

/* Starts the flow as a host does: at most one batch is under way before the first answer. */
static void begin(struct bench *t, uint32_t line)
{
	double ns[SECTIONS] = {0};

	t->line = line;
	idle(t, IDLE_BATCHES);
	batch(t, ns);
	idle(t, 3 * line);
}

/* Sets the number of batches on the line, and fills the line. */
static void warm_up(struct bench *t, uint32_t line, uint32_t batches)
{
	double ns[SECTIONS] = {0};
	size_t most = 0;

	t->line = line;
	for (uint32_t i = 0; i < batches; i++) {
		batch(t, ns);
		most = held(t) > most ? held(t) : most;
	}
	t->many.slots = most + BATCH; /* held() was read between batches: a batch adds BATCH packets */
	if (t->many.slots > PLACES_MAX)
		die("more is held than there are places for");
}

static void drain(struct bench *t)
{
	double ns[SECTIONS] = {0};

	while (t->q_head != t->q_tail)
		far_batch(t, &t->queue[t->q_tail++ % t->line], ns);
	for (int i = 0; i < 200; i++) { /* 20 ms, in which coalesced reports leave */
		t->now_ns += 100000;
		proxy_tick(t->a.p, t->now_ns);
		proxy_tick(t->b.p, t->now_ns);
		t->queue[0].n = 0;
		collect(&t->a, t->now_ns, &t->queue[0]);
		far_batch(t, &t->queue[0], ns);
	}
}

/* Figures per packet, of each block. */
struct took {
	double ns[SECTIONS][BLOCKS], ratio[SECTIONS][BLOCKS]; /* ratio to the bare cost of the same block */
};

/* The kernel randomises the stack's address, and the address decides how icrc_check() reads back the masked header: if
 * the loads must wait for earlier stores of a copy into cold memory, the bare cost is 25 ns more. So alloca() moves the
 * stack, and the blocks use all places within a cache line in turn. */
static void time_block(struct bench *t, struct took *took, int block)
{
	char *moved = __builtin_alloca(STACK_ALIGN * (size_t)(block % STACK_PLACES) + 1);
	double ns[SECTIONS] = {0}, bare_ns;

	__asm__ volatile("" : : "r"(moved));
	for (int i = 0; i < BLOCK; i++)
		batch(t, ns);
	ns[S_NEAR] = ns[S_NEAR_IN] + ns[S_NEAR_OUT];
	bare_ns = ns[S_BYTES] + ns[S_AEAD];
	for (int s = 0; s < SECTIONS; s++) {
		took->ns[s][block] = ns[s] / (BLOCK * BATCH);
		took->ratio[s][block] = ns[s] / bare_ns;
	}
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Moves the blocks in which the processor was fastest to the front. Another thread on the same core sometimes takes
 * half of the core; the yardstick shows such blocks, because its work needs only the core: the cipher, or else the copy
 * between caches. */
static void keep_quickest(struct took *took, int yardstick)
{
	static double sorted[BLOCKS];
	int kept = 0;

	memcpy(sorted, took->ns[yardstick], sizeof(sorted));
	qsort(sorted, BLOCKS, sizeof(sorted[0]), ascending);
	for (int i = 0; i < BLOCKS && kept < KEPT; i++) {
		if (took->ns[yardstick][i] > sorted[KEPT - 1])
			continue;
		for (int s = 0; s < SECTIONS; s++) {
			took->ns[s][kept] = took->ns[s][i];
			took->ratio[s][kept] = took->ratio[s][i];
		}
		kept++;
	}
}

static void print_section(const char *name, double *ns, double *ratio)
{
	qsort(ns, KEPT, sizeof(*ns), ascending);
	qsort(ratio, KEPT, sizeof(*ratio), ascending);
	printf("%-38s %12.1f %22.2f %9.2f - %.2f\n", name, ns[KEPT / 2], ratio[KEPT / 2], ratio[KEPT / 4],
	       ratio[KEPT * 3 / 4]);
}

/* The bare cost: one copy, ICRC, and the cipher if there is one. */
static void print_row(const struct bench *t, struct took *took)
{
	bool sealed = t->cipher != SEAL_NONE;
	char many[40], few[40];
	const char *const names[SECTIONS] = {"near: lan_rx, ACK, wan_tx",
	                                     "  lan_rx, ACK",
	                                     "  wan_tx",
	                                     "near: reports in",
	                                     "far: wan_rx, lan_tx, ACK in, wan_tx",
	                                     many,
	                                     few,
	                                     "AEAD alone"};

	snprintf(many, sizeof(many), "memcpy + ICRC check, %zu places", t->many.slots);
	snprintf(few, sizeof(few), "memcpy + ICRC check, %zu places", t->few.slots);
	printf("\nheld: %zu packets by the near edge\n%-38s %12s %22s %16s\n", t->many.slots, "", "ns/packet",
	       sealed ? "x (memcpy+ICRC+AEAD)" : "x (memcpy + ICRC)", "half of all");
	for (int s = 0; s < (sealed ? SECTIONS : S_AEAD); s++)
		print_section(names[s], took->ns[s], took->ratio[s]);
}

static void row(struct bench *t, struct took *took, uint32_t line)
{
	begin(t, line);
	warm_up(t, line, line + 1000);
	for (int i = 0; i < BLOCKS; i++)
		time_block(t, took, i);
	keep_quickest(took, t->cipher == SEAL_NONE ? S_BYTES_FEW : S_AEAD);
	print_row(t, took);
}

/* The figures count only if all packets were delivered, and none was lost or repeated. */
static void check(struct bench *t)
{
	const struct proxy_counters *ca = proxy_counters(t->a.p), *cb = proxy_counters(t->b.p);

	if (t->lan_tx_seen != t->packets || cb->ctr[CTR_BYTES_DELIVERED] != t->packets * PAYLOAD)
		die("not everything was delivered");
	if (ca->ctr[CTR_WAN_LOST] || ca->ctr[CTR_NAKS_TX] || ca->ctr[CTR_RNR_NAKS_TX] || cb->ctr[CTR_LAN_RETRIES])
		die("something was lost or repeated");
	if (proxy_audit(t->a.p) || proxy_audit(t->b.p))
		die("audit failed");
}

static enum seal_cipher cipher_named(const char *name)
{
	unsigned c = 0;

	while (c < SEAL_CIPHER_COUNT && strcmp(seal_cipher_name(c), name) != 0)
		c++;
	return (enum seal_cipher)c;
}

int main(int argc, char **argv)
{

	bool count = false, bad = false;
	enum seal_cipher cipher = SEAL_NONE;
	unsigned long packets = 0;
	struct bench *t;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 < argc && strcmp(argv[i], "--packets") == 0) {
			count = true;
			packets = strtoul(argv[i + 1], NULL, 0);
		} else if (i + 1 < argc && strcmp(argv[i], "--seal") == 0) {
			cipher = cipher_named(argv[i + 1]);
			bad |= cipher == SEAL_CIPHER_COUNT;
		} else {
			bad = true;
		}
	}
	if (bad) {
		fprintf(stderr, "usage: bench_core [--seal CIPHER] [--packets N]\n");
		return 2;
	}
	t = open_bench(count ? 64ull << 20 : ARENA_LEN, cipher);
	if (count) {
		warm_up(t, 1, (uint32_t)(packets + BATCH - 1) / BATCH);
	} else {
		struct took *took = map(sizeof(*took));

		time_the_clock();
		printf("core, %d-byte payloads, one flow, the median of %d of %d x %d packets, ", PAYLOAD, KEPT, BLOCKS,
		       BLOCK * BATCH);
		printf(cipher == SEAL_NONE ? "not sealed\n" : "sealed with %s by %s\n", seal_cipher_name(cipher),
		       seal_provider(cipher));
		row(t, took, 1);
		drain(t);
		check(t);
		/* Uses new edges: if the line of a busy flow suddenly grew, its responder would look dead, and the edge
		 * would hold the flow off. */
		t = open_bench(ARENA_LEN, cipher);
		row(t, took, LINE_MAX);
	}
	drain(t);
	check(t);
	if (count)
		printf("packets %llu\n", (unsigned long long)t->packets);
	return 0;
}
