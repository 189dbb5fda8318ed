/* SPDX-License-Identifier: Apache-2.0 */
/* wrongkey.c - a client of the relay that names its memory by a key that is not its own: wrongkey ADDRESS put|get REGION.
 * Prints how the operation ended. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/lr_rdma.h"
#include "lib/lr_verbs.h"
#include "lib/lr_wire.h"

static struct lr_verbs real;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = real.reg_mr(pd, addr, len, access);

	if (mr)
		mr->rkey ^= 0x5a00;
	return mr;
}

int main(int argc, char **argv)
{
	static uint8_t memory[1 << 20];
	struct lr_transfer t = {.fd = -1, .memory = memory, .length = sizeof(memory), .promise = LR_DONE};
	struct lr_verbs v;
	struct lr_rdma *c;
	struct lr_event ev;
	char why[256];
	uint64_t op;
	int r;

	if (argc != 4 || lr_verbs_load(&real, why, sizeof(why)) < 0)
		return 2;
	v = real;
	v.reg_mr = reg_mr;
	t.region = argv[3];
	r = lr_rdma_open(argv[1], &v, &c);
	if (r == 0)
		r = lr_rdma_transfer(c, strcmp(argv[2], "put") == 0 ? LRM_PUT : LRM_GET, &t, &op);
	if (r < 0) {
		printf("cannot begin: %s\n", strerror(-r));
		return 1;
	}
	r = lr_rdma_wait(c, &ev, 20000);
	printf("%s\n", r == 1 ? lr_strerror(ev.status) : r == 0 ? "no end" : strerror(-r));
	lr_rdma_close(c);
	return 0;
}
