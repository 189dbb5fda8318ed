/* SPDX-License-Identifier: Apache-2.0 */
/* bench_fec.c - cost of FEC beside a memcpy of the same datagram: adding a datagram to its m repairs (at the sender),
 * keeping a datagram (at the receiver), and rebuilding the lost datagrams of a group.
 *
 *     bench_fec              nanoseconds, and the ratio to a memcpy ("copies")
 *     bench_fec OP N         executes OP N times, without output: bench_fec.sh counts the instructions */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proxy/wan/fec/fec_rx.h"

enum { LEN = 8900, STRIDE = 8960, RING = 4096, ROUNDS = 5 };

static struct fec_code code;
static struct fec_solver solver;
static uint8_t *ring, *frames, *repair[FEC_M_MAX], *out_bytes;
static struct fec_rx rx;
static struct fec_seen seen;
static struct fec_kept *kept;

static void *mem(size_t n)
{
	void *p = aligned_alloc(64, (n + 63) & ~(size_t)63);

	if (!p)
		exit(2);
	memset(p, 1, n);
	return p;
}

static void set_up(void)
{
	uint32_t cells = fec_rx_cells(RING);

	fec_code_init(&code);
	ring = mem((size_t)RING * STRIDE);
	frames = mem((size_t)RING * STRIDE);
	kept = mem(RING * sizeof(*kept));
	out_bytes = mem((size_t)FEC_M_MAX * (STRIDE + WAN_HDR_LEN));
	for (unsigned i = 0; i < FEC_M_MAX; i++)
		repair[i] = mem(STRIDE);
	seen = (struct fec_seen){.space = 1, .cell = mem(cells * sizeof(uint64_t))};
	memset(seen.cell, 0, cells * sizeof(uint64_t));
	fec_rx_init(&rx, &code, &solver, ring, kept, RING, STRIDE, out_bytes);
}

static const uint8_t *datagram(unsigned i)
{
	return frames + (size_t)(i % RING) * STRIDE;
}

static void copy(unsigned n, unsigned k, unsigned m)
{
	(void)k, (void)m;
	for (unsigned i = 0; i < n; i++)
		memcpy(ring + (size_t)(i % RING) * STRIDE, datagram(i), LEN);
}

static void add(unsigned n, unsigned k, unsigned m)
{
	for (unsigned i = 0; i < n; i++)
		fec_code_add(&code, i % k, datagram(i), LEN, repair, m);
}

static void keep(unsigned n, unsigned k, unsigned m)
{
	(void)k, (void)m;
	for (unsigned i = 0; i < n; i++)
		fec_rx_keep(&rx, &seen, i, datagram(i), LEN, i);
}

/* Rebuilds m lost datagrams in each of n groups of k. */
static void rebuild(unsigned n, unsigned k, unsigned m)
{
	uint8_t lost[FEC_M_MAX], row[FEC_M_MAX], have[FEC_K_MAX];
	unsigned nhave = 0;

	for (unsigned i = 0; i < k; i++) {
		if (i < m)
			lost[i] = row[i] = (uint8_t)i;
		else
			have[nhave++] = (uint8_t)i;
	}
	for (unsigned i = 0; i < n; i++) {
		if (!fec_solver_begin(&solver, lost, m, row, have, nhave))
			exit(1);
		for (unsigned s = 0; s < nhave; s++)
			fec_solver_add(&solver, s, datagram(i * k + s), LEN, repair);
		for (unsigned r = 0; r < m; r++)
			fec_solver_add(&solver, nhave + r, datagram(i * k + nhave + r), LEN, repair);
	}
}

static const struct op {
	const char *name, *what;
	void (*run)(unsigned n, unsigned k, unsigned m);
	unsigned k, m, n;
} ops[] = {
    {"copy", "memcpy of a datagram", copy, 0, 0, 20000},
    {"keep", "receiver: keep a datagram (copy, CRC)", keep, 0, 0, 20000},
    {"add2", "sender: add a datagram to 2 repairs", add, 64, 2, 20000},
    {"add4", "sender: add a datagram to 4 repairs", add, 64, 4, 20000},
    {"add8", "sender: add a datagram to 8 repairs", add, 64, 8, 20000},
    {"add12", "sender: add a datagram to 12 repairs of 240", add, 240, 12, 20000},
    {"rebuild1", "receiver: rebuild 1 of a group of 64", rebuild, 64, 1, 500},
    {"rebuild4", "receiver: rebuild 4 of a group of 64", rebuild, 64, 4, 500},
    {"rebuild3", "receiver: rebuild 3 of a group of 240", rebuild, 240, 3, 100},
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Time of one operation, in the best of ROUNDS rounds: other processes may slow the others down. */
static double ns_each(const struct op *o)
{
	double best = 1e18;

	for (int r = 0; r < ROUNDS; r++) {
		double t = now_s();

		o->run(o->n, o->k, o->m);
		t = (now_s() - t) * 1e9 / o->n;
		best = t < best ? t : best;
	}
	return best;
}

int main(int argc, char **argv)
{
	double base = 0;

	set_up();
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		double ns;

		if (argc == 3 && strcmp(argv[1], ops[i].name) == 0) {
			ops[i].run((unsigned)atoi(argv[2]), ops[i].k, ops[i].m);
			return 0;
		}
		if (argc > 1)
			continue;
		ns = ns_each(&ops[i]);
		base = i ? base : ns;
		printf("%-10s %-40s %8.0f ns of %d bytes, %5.2f GB/s, %5.2f copies\n", ops[i].name, ops[i].what, ns,
		       LEN, LEN / ns, ns / base);
	}
	return argc > 1;
}
