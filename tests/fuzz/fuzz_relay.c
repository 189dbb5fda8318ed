/* SPDX-License-Identifier: Apache-2.0 */
/* The relay between two who may say anything: chunks of the other edge, and messages of a program. Input: records of
 * who(1) length(2) and bytes; descriptors go with a message if its first byte says so. Slots are granted at once, from
 * one buffer. Nothing may be written beyond a region, and nothing grows past its bounds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "tests/unit/toy_gpu.h"
#include "tests/unit/no_log.h"
#include "tests/unit/no_log_limit.h"
#include "tests/unit/no_rdma.h"

#include "daemon/relay/relay_channel.c"
#include "daemon/relay/relay_execute.c"
#include "daemon/relay/relay_op.c"
#include "daemon/relay/relay_pieces.c"
#include "daemon/privileged/privileged_wire.c"
#include "daemon/relay/relay_wire.c"
#include "lib/lr_strerror.c"

#define REGION_BYTES 10000
#define GUARD        64

int relay_fuzz_client(struct relay_thread *r, int fd);
void relay_fuzz_ready(struct relay_thread *r);

static uint64_t nfinished;

void relay_say_hello(struct relay_thread *r)
{
	(void)r;
}

/* The worker's end of the rings. */
struct relay_port {
	struct relay_command c[8192];
	uint32_t n;
};

bool relay_port_command(struct relay_port *p, const struct relay_command *c)
{
	REQUIRE(p->n < 8192);
	p->c[p->n++] = *c;
	return true;
}

bool relay_port_has_room(struct relay_port *p)
{
	return p->n < 4096;
}

static void work_off(struct relay_thread *r)
{
	static uint8_t slot[RELAY_CHUNK_MAX];
	struct relay_port *p = r->port[0];

	for (unsigned turn = 0; turn < 64; turn++) {
		relay_gpu_turn(r);
		relay_files_turn(r);
		relay_execute_deferred(r);
		relay_channels_pump(r);
		if (p->n == 0 && toy.nnotes == 0)
			return;
		for (uint32_t i = 0; i < p->n; i++) { /* what comes of it as well */
			const struct relay_command c = p->c[i];
			struct relay_note note = {.channel = c.channel, .token = c.token};

			if (c.type == RELAY_TAKE) {
				REQUIRE(c.len >= RELAY_HEAD_LEN && c.len <= RELAY_CHUNK_MAX);
				note.type = RELAY_TAKEN;
				note.chunk = (struct relay_chunk){c.channel, 7, turn, slot, c.len};
				relay_channel_note(r, &note);
			} else if (c.type == RELAY_COMMIT && c.tell) {
				note.type = RELAY_COMMITTED;
				relay_channel_note(r, &note);
			} else if (c.type == RELAY_FINISH) {
				nfinished++;
			}
		}

		p->n = 0;
	}
}

static void send_message(struct relay_thread *r, int to, const uint8_t *data, size_t len, int fd)
{
	if (privileged_wire_send(to, data, len, fd, MSG_DONTWAIT) >= 0)
		relay_fuzz_ready(r);
}

static void drain_socket(int fd)
{
	static uint8_t buf[LR_MSG_MAX];

	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
}

static void check_guard(int fd)
{
	uint8_t guard[GUARD];

	REQUIRE(pread(fd, guard, GUARD, REGION_BYTES) == GUARD);
	for (int i = 0; i < GUARD; i++)
		REQUIRE(guard[i] == 0xa5);
}

/* A region that the other site may write, with bytes behind it that are none of it. */
static int export_region(struct relay_thread *r)
{
	struct lr_msg m = {.length = REGION_BYTES, .flags = LR_PEER_READ | LR_PEER_WRITE, .name = "r"};
	uint8_t guard[GUARD];
	int fd = memfd_create("region", MFD_CLOEXEC);

	memset(guard, 0xa5, sizeof(guard));
	REQUIRE(ftruncate(fd, REGION_BYTES) == 0 && pwrite(fd, guard, GUARD, REGION_BYTES) == GUARD);
	REQUIRE(relay_region_add(r, &r->client[0], &m, dup(fd)) == 0);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t chunk[RELAY_CHUNK_MAX];
	struct relay_thread *r = calloc(1, sizeof(*r));
	uint64_t chunks = 0;
	int pair[2], region;

	REQUIRE(r && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	memset(&toy, 0, sizeof(toy));
	r->config.lanes = 4;
	r->config.relay_gpu = true;
	r->nworkers = 1;
	r->nchannels = 4;
	r->instance = 1;
	r->region = calloc(RELAY_REGIONS, sizeof(*r->region));
	r->port[0] = calloc(1, sizeof(*r->port[0]));
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	relay_thread_init(r);
	r->notify_fd = -1;
	REQUIRE(relay_fuzz_client(r, pair[0]) == 0);
	region = export_region(r);
	nfinished = 0;
	while (size >= 3 && r->client[0].used) {
		uint8_t who = data[0];
		size_t len = (size_t)data[1] << 8 | data[2];

		data += 3;
		size -= 3;
		len = len < size ? len : size;
		if (who & 1) {
			size_t n = len < sizeof(chunk) ? len : sizeof(chunk);

			memcpy(chunk, data, n);
			if (n > 0) {
				struct relay_chunk c = {who / 2 % r->nchannels, 0, chunks, chunk, (uint16_t)n};

				r->started_ns = 0;
				relay_execute(r, &c);
				chunks++;
			}
		} else {
			send_message(r, pair[1], data, len, who & 2 ? region : -1);
		}
		work_off(r);
		drain_socket(pair[1]);
		REQUIRE(nfinished == chunks);
		data += len;
		size -= len;
	}
	check_guard(region);
	relay_client_drop(r, &r->client[0]);
	work_off(r);
	for (uint32_t i = 0; i < RELAY_OPS; i++)
		if (r->op[i])
			relay_op_end(r, r->op[i]->id, LR_CANCELLED);
	work_off(r);
	for (uint32_t i = 0; i < r->nchannels; i++)
		relay_channel_free(r, &r->channel[i]);
	for (int i = 0; i < 4; i++)
		relay_gpu_turn(r);
	REQUIRE(toy.nopen + toy.ntaken == 0);
	for (uint32_t i = 0; i < RELAY_CALLS; i++)
		free(r->call[i].data);
	close(pair[1]);
	close(region);
	close(r->epoll_fd);
	free(r->port[0]);
	relay_files_close(r);
	free(r->region);
	free(r);
	return 0;
}

/* relay_client.c has names in common with relay_execute.c: behind all others. */
#define finish  client_finish
#define request client_request
#include "daemon/relay/relay_region.c"
#include "daemon/relay/relay_client.c"
#undef finish
#undef answer
#undef watch
#define take_notes gpu_take_notes
#include "daemon/relay/relay_gpu.c"

int relay_fuzz_client(struct relay_thread *r, int fd)
{
	struct relay_client *cl = &r->client[0];

	*cl = (struct relay_client){.used = true, .greeted = true, .fd = fd};
	cl->unsent_last = &cl->unsent;
	dlist_init(&cl->ops);
	return 0;
}

void relay_fuzz_ready(struct relay_thread *r)
{
	relay_client_ready(r, &r->client[0], EPOLLIN);
}
