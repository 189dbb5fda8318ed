/* SPDX-License-Identifier: Apache-2.0 */
/* bench_nic_edge.c - cost of a 4 KiB packet in a sealed edge under Engine=dpdk, in cycles per stage: ports of
 * net_vhost, the daemon's lan_engine.c, the plugin and the core, between two hosts in the same process (edge_pair.h).
 *
 *     receive  near: frames off the port, into slots, checked, committed
 *     ACKs     near: ACKs to the host
 *     seal     near: datagrams sealed into memory, without the UDP socket
 *     open     far: datagrams opened and stored
 *     send     far: packets to the host
 *
 * The edge runs with the arena lent to the ports and without, each in a process of its own, in turns. Each block of 256
 * packets has its own figures; the output shows medians of the third of the blocks in which the processor was quickest,
 * because others use the machine, too (as in bench_core.c). Hosts, responses and reports are not timed. All stages
 * share one thread and its caches, and the PMD copies by CPU: these are no figures of a NIC. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "tests/dpdk/edge_pair.h"
#include "tests/unit/no_log.h"

enum { ROUNDS = 5, WARM = 20000, BLOCK = 256, BLOCKS = 200, WAYS = 2, KEPT = ROUNDS * BLOCKS / 3 };

struct block {
	double cycles[PAIR_STAGES], all; /* per packet */
};

struct result {
	struct block block[WAYS][ROUNDS * BLOCKS];
	double hz;
};

static struct {
	uint64_t at, sum[PAIR_STAGES];
} laps;

static void lap(struct pair *t, enum pair_stage s)
{
	uint64_t now = __rdtsc();

	(void)t;
	if (s < PAIR_STAGES)
		laps.sum[s] += now - laps.at;
	laps.at = now;
}

static void carry(struct pair *t, uint32_t goal)
{
	while (t->hosts->acked < goal || t->hosts->expected < goal)
		pair_turn(t, PAIR_BATCH);
}

static void time_block(struct pair *t, struct block *b)
{
	uint32_t before = t->hosts->acked, n;

	memset(laps.sum, 0, sizeof(laps.sum));
	carry(t, before + BLOCK);
	n = t->hosts->acked - before;
	for (unsigned s = 0; s < PAIR_STAGES; s++) {
		b->cycles[s] = (double)laps.sum[s] / n;
		b->all += b->cycles[s];
	}
}

static void measure(const struct pair_params *pp, struct pair_hosts *hosts, struct block *to)
{
	static struct pair t;
	char err[512];
	const char *wrong;

	if (!pair_open(&t, pp, hosts, err, sizeof(err))) {
		fprintf(stderr, "bench_nic_edge: %s\n", err);
		_exit(1);
	}
	t.payload = 4096;
	hosts->moved_ns = t.now_ns;
	carry(&t, WARM);
	t.lap = lap;
	for (unsigned i = 0; i < BLOCKS; i++)
		time_block(&t, &to[i]);
	wrong = hosts->wrong ? "bytes are wrong" : pair_close(&t);
	if (wrong)
		fprintf(stderr, "bench_nic_edge: %s\n", wrong);
	_exit(wrong ? 1 : 0);
}

static bool round_of(struct pair_params *pp, struct pair_hosts *hosts, struct result *r, unsigned way, unsigned round)
{
	char path[64];
	int status = 1;
	pid_t pid;

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%u", pp->dir, i);
		unlink(path);
	}
	memset(hosts, 0, sizeof(*hosts));
	pp->lend = way == 0;
	pid = fork();
	if (pid == 0)
		measure(pp, hosts, &r->block[way][round * BLOCKS]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static int by_all(const void *a, const void *b)
{
	double x = ((const struct block *)a)->all, y = ((const struct block *)b)->all;

	return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(struct result *r)
{
	static const char *const names[PAIR_STAGES] = {"receive", "ACKs", "seal", "open", "send"};

	printf("%-8s", "way");
	for (unsigned s = 0; s < PAIR_STAGES; s++)
		printf(" %9s", names[s]);
	printf(" %9s %9s %9s %9s\n", "near", "far", "near ns", "far ns");
	for (unsigned way = 0; way < WAYS; way++) {
		double m[PAIR_STAGES], near, far;

		printf("%-8s", way == 0 ? "landing" : "copying");
		qsort(r->block[way], ROUNDS * BLOCKS, sizeof(struct block), by_all);
		for (unsigned s = 0; s < PAIR_STAGES; s++) {
			double v[KEPT];

			for (unsigned i = 0; i < KEPT; i++)
				v[i] = r->block[way][i].cycles[s];
			qsort(v, KEPT, sizeof(*v), by_value);
			m[s] = v[KEPT / 2];
			printf(" %9.0f", m[s]);
		}
		near = m[PAIR_NEAR_IN] + m[PAIR_ACKS] + m[PAIR_SEAL];
		far = m[PAIR_OPEN] + m[PAIR_OUT];
		printf(" %9.0f %9.0f %9.0f %9.0f\n", near, far, near / r->hz * 1e9, far / r->hz * 1e9);
	}
}

static double tsc_hz(void)
{
	uint64_t ns = pair_clock_ns(), tsc = __rdtsc();

	usleep(200000);
	return (double)(__rdtsc() - tsc) / (double)(pair_clock_ns() - ns) * 1e9;
}

int main(int argc, char **argv)
{
	struct result *r = pair_map(sizeof(*r), MAP_SHARED);
	struct pair_hosts *hosts = pair_map(sizeof(*hosts), MAP_SHARED);
	char dir[] = "/tmp/bench_nic_edge.XXXXXX";
	struct pair_params pp = {.plugins = argc > 1 ? argv[1] : "build/gcc/plugins",
	                         .dir = dir,
	                         .len = PAIR_ARENA,
	                         .cipher = SEAL_AES_256_GCM};
	bool ok = r && hosts && mkdtemp(dir);

	for (unsigned i = 0; ok && i < 2; i++)
		ok = (pp.region[i] = pair_map(PAIR_ARENA, MAP_SHARED)) != NULL;
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned way = 0; ok && way < WAYS; way++)
			ok = round_of(&pp, hosts, r, way, round);
	if (!ok)
		return EXIT_FAILURE;
	r->hz = tsc_hz();
	printf(
	    "edges sealed with %s over net_vhost, 4,096-byte payloads, one flow; cycles per packet, %d of %d blocks\n",
	    seal_cipher_name(pp.cipher), KEPT, ROUNDS * BLOCKS);
	print(r);
	return EXIT_SUCCESS;
}
