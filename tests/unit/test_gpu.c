/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between a GPU's memory and the host's, over fakecuda: memory of another process, contents, errors, and that
 * nothing is held when all is closed. Each case runs in a process of its own: some errors break a process. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "daemon/util/log.h"
#include "no_numa.h"

static char logged[256]; /* the last line */

void log_at(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	(void)level;
	va_start(ap, fmt);
	vsnprintf(logged, sizeof(logged), fmt, ap);
	va_end(ap);
}

#include "daemon/gpu/cuda_api.c"
#include "daemon/gpu/gpu.c"

#define MEMORY_BYTES (8u << 20)

static char control[] = "/tmp/test_gpu.XXXXXX", memory_dir[] = "/dev/shm/test_gpu.XXXXXX";

#define EXPECT(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static void faults(const char *words)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s.new", control);
	f = fopen(path, "w");
	EXPECT(f);
	fputs(words, f);
	fclose(f);
	EXPECT(rename(path, control) == 0);
	usleep(2000);
}

/* --- the program that has the memory --- */

static uint8_t pattern(uint64_t offset)
{
	return (uint8_t)(offset * 2654435761u >> 13);
}

/* Fills memory with the pattern, tells its handle and stays. */
static pid_t provide(CUipcMemHandle *handle)
{
	int pipes[2];
	pid_t pid;

	EXPECT(pipe(pipes) == 0);
	pid = fork();
	if (pid == 0) {
		uint8_t *host = malloc(MEMORY_BYTES);
		struct cuda_api cuda;
		CUcontext context;
		CUdeviceptr memory;
		char err[128];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (uint64_t i = 0; i < MEMORY_BYTES; i++)
			host[i] = pattern(i);
		unsetenv("FAKECUDA_CTL");
		EXPECT(cuda_api_load(&cuda, err, sizeof(err)) == 0);
		EXPECT(cuda.primary_ctx_retain(&context, 0) == CUDA_SUCCESS);
		EXPECT(cuda.ctx_set_current(context) == CUDA_SUCCESS);
		EXPECT(cuda.mem_alloc(&memory, MEMORY_BYTES) == CUDA_SUCCESS);
		EXPECT(cuda.memcpy_htod(memory, host, MEMORY_BYTES) == CUDA_SUCCESS);
		EXPECT(cuda.ipc_get_mem_handle(handle, memory) == CUDA_SUCCESS);
		EXPECT(write(pipes[1], handle, sizeof(*handle)) == sizeof(*handle));
		pause();
	}
	EXPECT(read(pipes[0], handle, sizeof(*handle)) == sizeof(*handle));
	return pid;
}

/* --- the user --- */

static struct gpu *g;
static pid_t provider;
static struct gpu_memory memory[2]; /* two regions of one allocation */

static bool next_note(struct gpu_note *n)
{
	for (int i = 0; i < 5000; i++) {
		if (gpu_note(g, n))
			return true;
		usleep(1000);
	}
	return false;
}

static struct gpu_note expect_note(enum gpu_note_type type)
{
	struct gpu_note n;

	EXPECT(next_note(&n));
	if (n.type != type)
		fprintf(stderr, "note %d, not %d\n", n.type, type);
	EXPECT(n.type == type);
	return n;
}

static int open_memory(unsigned i, uint64_t offset, uint64_t size)
{
	if (memory[i].allocation == 0)
		memory[i].fd = -1;
	memory[i].offset = offset;
	memory[i].size = size;
	snprintf(memory[i].id, sizeof(memory[i].id), "0000:e0:00.0");
	EXPECT(gpu_open(g, &memory[i]));
	gpu_wake(g);
	return expect_note(GPU_OPENED).rc;
}

static void start(void)
{
	CUipcMemHandle handle;

	provider = provide(&handle);
	memory[0].handle = memory[1].handle = handle;
	EXPECT(gpu_start(&g, eventfd(0, EFD_NONBLOCK)) == 0);
	EXPECT(open_memory(0, 0, MEMORY_BYTES) == 0);
	EXPECT(open_memory(1, 4096, 8192) == 0);
}

static void close_memory(unsigned i)
{
	gpu_close(g, &memory[i]);
	gpu_wake(g);
	EXPECT(expect_note(GPU_CLOSED).memory == &memory[i]);
}

static unsigned held(void)
{
	unsigned (*count)(void);

	resolve(g->cuda.library, "fakecuda_held", &count, (char[128]){0}, 128);
	return count();
}

/* All is given back by closing alone. */
static void finish(void)
{
	close_memory(0);
	close_memory(1);
	EXPECT(held() == 0);
	EXPECT(g->devices == NULL);
	EXPECT(gpu_stop(g));
	kill(provider, SIGKILL);
}

static struct gpu_block *copy(unsigned i, bool to_device, uint64_t offset, uint32_t len, uint8_t fill)
{
	struct gpu_block *b = gpu_take(&memory[i], to_device);

	EXPECT(b);
	b->nruns = 1;
	b->run[0] = (struct gpu_run){.offset = offset, .at = 0, .len = len};
	memset(b->bytes, fill, len);
	gpu_copy(g, b);
	gpu_wake(g);
	return b;
}

static enum gpu_end copied_block(void)
{
	struct gpu_note n = expect_note(GPU_COPIED);

	gpu_give(n.block);
	return n.end;
}

/* --- cases --- */

static void contents(void)
{
	struct gpu_block *b;
	struct gpu_note n;

	start();
	faults("copy_us=3000");
	for (uint32_t i = 0; i < 8; i++)
		copy(0, false, (uint64_t)i << 20, 1 << 20, 0)->user = (void *)(uintptr_t)i;
	for (uint32_t i = 0; i < 8; i++) {
		n = expect_note(GPU_COPIED);
		EXPECT(n.end == GPU_OK && n.block->user == (void *)(uintptr_t)i); /* one stream: in order */
		for (uint32_t k = 0; k < GPU_BLOCK_BYTES; k++)
			EXPECT(n.block->bytes[k] == pattern((uint64_t)i << 20 | k));
		gpu_give(n.block);
	}
	/* in two runs, in the second memory's part */
	b = gpu_take(&memory[1], true);
	memset(b->bytes, 1, 100);
	memset(b->bytes + 100, 2, 50);
	b->nruns = 2;
	b->run[0] = (struct gpu_run){.offset = 0, .at = 0, .len = 100};
	b->run[1] = (struct gpu_run){.offset = 8000, .at = 100, .len = 50};
	gpu_copy(g, b);
	gpu_wake(g);
	EXPECT(copied_block() == GPU_OK);
	b = copy(0, false, 4096, 16384, 0);
	n = expect_note(GPU_COPIED);
	EXPECT(b->bytes[0] == 1 && b->bytes[99] == 1 && b->bytes[100] == pattern(4196));
	EXPECT(b->bytes[8000] == 2 && b->bytes[8049] == 2 && b->bytes[8050] == pattern(4096 + 8050));
	gpu_give(b);
	finish();
}

/* An allocation of another process that came as a descriptor. Its own context is another one: the pattern is there already. */
static int descriptor(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemGenericAllocationHandle handle;
	struct cuda_api cuda;
	char err[128];
	int fd = -1;
	uint8_t *at;

	EXPECT(cuda_api_load(&cuda, err, sizeof(err)) == 0);
	EXPECT(cuda.mem_create(&handle, MEMORY_BYTES, &prop, 0) == CUDA_SUCCESS);
	EXPECT(cuda.mem_export_to_shareable_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
	EXPECT(cuda.mem_release(handle) == CUDA_SUCCESS);
	at = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* fakecuda's are memfds */
	EXPECT(at != MAP_FAILED);
	for (uint64_t i = 0; i < MEMORY_BYTES; i++)
		at[i] = pattern(i);
	munmap(at, MEMORY_BYTES);
	return fd;
}

static void of_a_descriptor(void)
{
	struct gpu_note n;
	struct gpu_block *b;
	int fd = descriptor();

	EXPECT(gpu_start(&g, eventfd(0, EFD_NONBLOCK)) == 0);
	memory[0].fd = fd;
	memory[0].allocation = MEMORY_BYTES;
	EXPECT(open_memory(0, 4096, 1 << 20) == 0);
	memory[0].fd = -1;
	close(fd); /* it is mapped */
	copy(0, false, 0, 1 << 20, 0);
	n = expect_note(GPU_COPIED);
	EXPECT(n.end == GPU_OK);
	for (uint32_t k = 0; k < 1 << 20; k++)
		EXPECT(n.block->bytes[k] == pattern(4096 + k));
	gpu_give(n.block);
	copy(0, true, 100, 50, 7);
	EXPECT(copied_block() == GPU_OK);
	b = copy(0, false, 99, 52, 0);
	EXPECT(expect_note(GPU_COPIED).end == GPU_OK);
	EXPECT(b->bytes[0] == pattern(4195) && b->bytes[1] == 7 && b->bytes[50] == 7 && b->bytes[51] == pattern(4246));
	gpu_give(b);
	close_memory(0);
	EXPECT(held() == 0);
	EXPECT(gpu_stop(g));
}

/* Whichever call fails, all that was made before it is given back, and the next try finds a sound GPU. */
static void of_a_descriptor_each_call_fails(void)
{
	static const char *const call[] = {"cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
	                                   "cuStreamCreate"};
	char word[64];
	int fd = descriptor(), bad = open("/dev/null", O_RDONLY);

	EXPECT(gpu_start(&g, eventfd(0, EFD_NONBLOCK)) == 0);
	memory[0].allocation = MEMORY_BYTES;
	for (size_t i = 0; i < sizeof(call) / sizeof(call[0]); i++) {
		memory[0].fd = fd;
		snprintf(word, sizeof(word), "%s:%d@1", call[i], CUDA_ERROR_OUT_OF_MEMORY);
		faults(word);
		EXPECT(open_memory(0, 0, MEMORY_BYTES) == -ENOMEM);
		EXPECT(strstr(memory[0].why, call[i]));
		EXPECT(held() == 0);
	}
	faults("");
	memory[0].fd = bad;
	EXPECT(open_memory(0, 0, MEMORY_BYTES) == -EINVAL);
	memory[0].fd = fd;
	memory[0].allocation = 2 * MEMORY_BYTES; /* more than was created */
	EXPECT(open_memory(0, 0, MEMORY_BYTES) == -EINVAL);
	memory[0].allocation = MEMORY_BYTES;
	EXPECT(open_memory(0, MEMORY_BYTES - 10, 11) == -EINVAL);
	EXPECT(held() == 0);
	EXPECT(open_memory(0, 0, MEMORY_BYTES) == 0);
	close_memory(0);
	EXPECT(held() == 0);
	EXPECT(gpu_stop(g));
}

/* Calls that waited for their copies would take four times as long as a copy does. */
static void no_wait(void)
{
	const uint64_t copy_ns = 400000000;
	uint64_t before;

	start();
	faults("copy_us=400000");
	before = clock_now_ns();
	for (unsigned i = 0; i < 4; i++)
		copy(0, i % 2, 0, 1 << 20, 0);
	EXPECT(clock_now_ns() - before < 2 * copy_ns);
	for (unsigned i = 0; i < 4; i++)
		EXPECT(copied_block() == GPU_OK);
	EXPECT(clock_now_ns() - before > copy_ns);
	finish();
}

/* A core file of the daemon has no bytes of programs: VmFlags of the blocks' mapping has dd. */
static void not_in_core_files(void)
{
	char line[512];
	bool here = false, dontdump = false;
	unsigned long from, to, at;
	FILE *f;

	start();
	at = (unsigned long)(uintptr_t)g->devices->bytes;
	f = fopen("/proc/self/smaps", "r");
	EXPECT(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = from <= at && at < to;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			dontdump = strstr(line, " dd") != NULL;
	}
	fclose(f);
	EXPECT(dontdump);
	finish();
}

static void limits(void)
{
	struct gpu_block *b[GPU_BLOCKS];

	start();
	for (unsigned i = 0; i < GPU_BLOCKS / 2; i++)
		EXPECT((b[i] = gpu_take(&memory[0], false)));
	EXPECT(!gpu_take(&memory[1], false));
	EXPECT((b[GPU_BLOCKS / 2] = gpu_take(&memory[0], true))); /* the other direction has its own */
	for (unsigned i = 0; i <= GPU_BLOCKS / 2; i++)
		gpu_give(b[i]);
	finish();
}

/* A driver prints the GPU's address in upper case, /sys has it in lower case, and programs may write either. */
static void one_device(void)
{
	start();
	close_memory(1);
	snprintf(memory[1].id, sizeof(memory[1].id), "0000:E0:00.0");
	EXPECT(gpu_open(g, &memory[1]));
	gpu_wake(g);
	EXPECT(expect_note(GPU_OPENED).rc == 0);
	EXPECT(memory[0].device == memory[1].device && g->devices->next == NULL);
	EXPECT(strcmp(g->devices->id, "0000:e0:00.0") == 0);
	close_memory(0);
	close_memory(1);
	EXPECT(gpu_open(g, &memory[1])); /* the first */
	gpu_wake(g);
	EXPECT(expect_note(GPU_OPENED).rc == 0);
	EXPECT(strcmp(g->devices->id, "0000:e0:00.0") == 0);
	EXPECT(open_memory(0, 0, 4096) == 0);
	finish();
}

static CUresult range_that_begins_before(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	*base = at - 65536;
	*bytes = 65536 + MEMORY_BYTES;
	return CUDA_SUCCESS;
}

/* A driver takes small allocations out of larger ones: what lies behind the opened address counts. */
static void bounds(void)
{
	start();
	close_memory(1);
	g->cuda.mem_get_address_range = range_that_begins_before;
	EXPECT(open_memory(1, 0, MEMORY_BYTES + 1) == -EINVAL);
	EXPECT(open_memory(1, MEMORY_BYTES, 1) == -EINVAL);
	EXPECT(open_memory(1, 1, MEMORY_BYTES - 1) == 0);
	finish();
}

static void refusals(void)
{
	CUipcMemHandle good;

	start();
	good = memory[0].handle;
	close_memory(0);
	EXPECT(open_memory(0, 1, MEMORY_BYTES) == -EINVAL);
	EXPECT(open_memory(0, UINT64_MAX, 2) == -EINVAL);
	memset(&memory[0].handle, 0xff, sizeof(good));
	EXPECT(open_memory(0, 0, 16) == -EINVAL);
	EXPECT(strstr(memory[0].why, "cuIpcOpenMemHandle: CUDA_ERROR_INVALID_HANDLE (400)"));
	memory[0].handle = good;
	faults("cuIpcOpenMemHandle:2");
	EXPECT(open_memory(0, 0, 16) == -ENOMEM);
	faults("cuStreamCreate:2@2");
	EXPECT(open_memory(0, 0, 16) == -ENOMEM);
	EXPECT(open_memory(0, 0, 16) == 0);
	finish();
}

/* An error about one handle, as of memory of another GPU, leaves the other programs' memory as it was. */
static void refusal_of_one(const char *word, int rc)
{
	struct gpu_note n;

	close_memory(1);
	faults(word);
	EXPECT(open_memory(1, 0, MEMORY_BYTES) == rc);
	faults("");
	copy(0, false, 0, 4096, 0);
	n = expect_note(GPU_COPIED);
	EXPECT(n.end == GPU_OK && n.block->bytes[77] == pattern(77));
	gpu_give(n.block);
	EXPECT(open_memory(1, 0, MEMORY_BYTES) == 0);
}

static void refusals_of_one(void)
{
	int fd;

	start();
	refusal_of_one("cuIpcOpenMemHandle:101", -ENODEV);
	refusal_of_one("cuIpcOpenMemHandle:100", -ENODEV);
	refusal_of_one("cuIpcOpenMemHandle:46", -EIO);
	refusal_of_one("cuIpcOpenMemHandle:201", -EINVAL);
	close_memory(1);
	fd = descriptor();
	memory[1].fd = fd;
	memory[1].allocation = MEMORY_BYTES;
	EXPECT(open_memory(1, 0, MEMORY_BYTES) == 0);
	refusal_of_one("cuMemSetAccess:101", -ENODEV);
	refusal_of_one("cuMemImportFromShareableHandle:101", -ENODEV);
	finish();
}

/* Out of memory, and what else is of one call: that memory alone is broken. */
static void of_one(const char *fault, enum gpu_end end, const char *why, uint64_t least_ns)
{
	struct gpu_note n;
	uint64_t before;

	start();
	faults(fault);
	before = clock_now_ns();
	copy(0, true, 0, 1 << 20, 3);
	n = expect_note(GPU_BROKEN);
	EXPECT(n.memory == &memory[0] && n.end == end && strcmp(memory[0].why, why) == 0);
	EXPECT(copied_block() == end);
	EXPECT(clock_now_ns() - before >= least_ns);
	copy(0, false, 0, 4096, 0);
	EXPECT(copied_block() == end);
	copy(1, false, 0, 4096, 0);
	EXPECT(copied_block() == GPU_OK);
	finish();
}

static void no_memory(void)
{
	of_one("cuMemcpyHtoDAsync:2 copy_us=30000", GPU_NO_MEMORY, "cuMemcpyHtoDAsync: CUDA_ERROR_OUT_OF_MEMORY (2)", 0);
}

/* No event says when the copy is done, which takes 15 ms at least; the block is not free before. */
static void no_event(void)
{
	of_one("cuEventRecord:2 copy_us=30000", GPU_NO_MEMORY, "cuEventRecord: CUDA_ERROR_OUT_OF_MEMORY (2)", 15000000);
}

static void no_answer(void)
{
	of_one("cuEventQuery:999 copy_us=30000", GPU_FAILED, "cuEventQuery: CUDA_ERROR_UNKNOWN (999)", 15000000);
}

/* Of a context: all memory of that GPU is broken. */
static void of_all(const char *fault, enum gpu_end end, const char *why)
{
	struct gpu_note n;

	start();
	copy(1, false, 0, 4096, 0);
	EXPECT(copied_block() == GPU_OK);
	faults(fault);
	for (unsigned i = 0; i < 4; i++)
		copy(i % 2, i / 2, 0, 4096, 3);
	for (unsigned broken = 0, back = 0; back < 4;) {
		EXPECT(next_note(&n));
		if (n.type == GPU_COPIED) {
			EXPECT(broken == 2 && n.end == end);
			gpu_give(n.block);
			back++;
		} else {
			EXPECT(n.type == GPU_BROKEN && n.end == end && strcmp(n.memory->why, why) == 0);
			broken++;
		}
	}
	finish();
}

static void lost(void)
{
	of_all("cuMemcpyDtoHAsync:700 copy_us=30000", GPU_LOST, "cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

static void lost_later(void)
{
	of_all("copy:719 copy_us=30000", GPU_LOST, "cuEventQuery: CUDA_ERROR_LAUNCH_FAILED (719)");
}

static int in_child(void (*run)(void));

/* An error after which CUDA does no more work in the context, or in the process. */
static unsigned sticky;

static void lost_by_a_sticky_error(void)
{
	static char fault[64], why[64];

	snprintf(fault, sizeof(fault), "copy:%u copy_us=3000", sticky);
	start();
	faults(fault);
	copy(0, true, 0, 4096, 3);
	for (unsigned broken = 0; broken < 2; broken++)
		EXPECT(expect_note(GPU_BROKEN).end == GPU_LOST);
	EXPECT(copied_block() == GPU_LOST);
	snprintf(why, sizeof(why), "(%u)", sticky);
	EXPECT(strstr(memory[0].why, why) && strstr(memory[1].why, why));
	finish();
}

static void lost_by_sticky_errors(void)
{
	static const unsigned errors[] = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};

	alarm(60); /* many processes, and a sanitizer starts them slowly */
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		sticky = errors[i];
		if (in_child(lost_by_a_sticky_error) != 0)
			fprintf(stderr, "error %u\n", sticky), exit(1);
	}
}

static void context_destroyed(void)
{
	of_all("cuEventQuery:709 copy_us=30000", GPU_CONTEXT, "cuEventQuery: CUDA_ERROR_CONTEXT_IS_DESTROYED (709)");
}

static bool holds_nothing_soon(void)
{
	for (int i = 0; i < 1000 && held() > 0; i++)
		usleep(1000);
	return held() == 0;
}

/* What a broken context holds is given back at once: a driver refuses to close a single handle in it, and memory of other
 * programs may stay open for long. */
static void ends_at_once(const char *fault)
{
	int fd;

	start();
	close_memory(1);
	fd = descriptor();
	memory[1].fd = fd;
	memory[1].allocation = MEMORY_BYTES;
	EXPECT(open_memory(1, 0, 4096) == 0);
	close(fd);
	faults(fault);
	copy(0, false, 0, 4096, 0);
	expect_note(GPU_BROKEN);
	expect_note(GPU_BROKEN);
	EXPECT(copied_block() != GPU_OK);
	EXPECT(holds_nothing_soon());
	copy(1, true, 0, 4096, 0); /* blocks stay the user's */
	EXPECT(copied_block() != GPU_OK);
	finish();
}

static void destroyed_ends_at_once(void)
{
	ends_at_once("cuEventQuery:709");
}

static void ecc_ends_at_once(void)
{
	ends_at_once("copy:214 copy_us=3000");
}

/* The process is refused any other call. */
static void lost_ends_at_once(void)
{
	start();
	faults("copy:700 copy_us=3000");
	copy(0, false, 0, 4096, 0);
	expect_note(GPU_BROKEN);
	expect_note(GPU_BROKEN);
	EXPECT(copied_block() == GPU_LOST);
	EXPECT(holds_nothing_soon());
	finish();
}

/* Addresses are the process's, not the context's; a process that is refused everything keeps them, and says so. */
static void lost_with_a_descriptor(void)
{
	int fd;

	start();
	close_memory(1);
	fd = descriptor();
	memory[1].fd = fd;
	memory[1].allocation = MEMORY_BYTES;
	EXPECT(open_memory(1, 0, 4096) == 0);
	close(fd);
	faults("copy:700 copy_us=3000");
	copy(0, false, 0, 4096, 0);
	expect_note(GPU_BROKEN);
	expect_note(GPU_BROKEN);
	EXPECT(copied_block() == GPU_LOST);
	close_memory(0);
	EXPECT(!logged[0]);
	close_memory(1);
	EXPECT(strcmp(logged, "GPU 0000:e0:00.0: memory that a program exported stays in use: cuMemUnmap: "
	                      "CUDA_ERROR_ILLEGAL_ADDRESS (700)") == 0);
	EXPECT(gpu_stop(g));
	kill(provider, SIGKILL);
}

/* When GPU_CLOSED is noted, the program may free its memory. */
static void close_that_breaks(void)
{
	start();
	faults("cuIpcCloseMemHandle:700");
	gpu_close(g, &memory[0]);
	gpu_wake(g);
	EXPECT(expect_note(GPU_BROKEN).memory == &memory[1]);
	EXPECT(expect_note(GPU_CLOSED).memory == &memory[0]);
	EXPECT(held() == 0);
	close_memory(1);
	EXPECT(gpu_stop(g));
	kill(provider, SIGKILL);
}

static void close_beside_blocks_that_break(void)
{
	start();
	faults("cuEventQuery:709@3 copy_us=100000");
	copy(1, false, 0, 4096, 0);
	usleep(20000); /* it is asked for, and broken: the close comes behind it */
	gpu_close(g, &memory[0]);
	gpu_wake(g);
	for (struct gpu_note n = {.type = GPU_OPENED}; n.type != GPU_CLOSED;) {
		EXPECT(next_note(&n));
		if (n.type == GPU_COPIED)
			gpu_give(n.block);
	}
	EXPECT(held() == 0);
	close_memory(1);
	EXPECT(gpu_stop(g));
	kill(provider, SIGKILL);
}

static void close_that_fails(void)
{
	start();
	faults("cuIpcCloseMemHandle:999");
	close_memory(0);
	EXPECT(strcmp(logged, "GPU 0000:e0:00.0: memory that a program exported stays in use: cuIpcCloseMemHandle: "
	                      "CUDA_ERROR_UNKNOWN (999)") == 0);
	copy(1, false, 0, 4096, 0);
	EXPECT(copied_block() == GPU_OK);
	close_memory(1); /* and the context with it, which had the handle */
	EXPECT(held() == 0);
	EXPECT(gpu_stop(g));
	kill(provider, SIGKILL);
}

static void again_after_a_destroyed_context(void)
{
	struct gpu_note n;

	start();
	faults("cuEventQuery:709");
	copy(0, false, 0, 4096, 0);
	expect_note(GPU_BROKEN);
	expect_note(GPU_BROKEN);
	copied_block();
	close_memory(0);
	EXPECT(open_memory(0, 0, MEMORY_BYTES) == 0); /* the other one does not keep the old context */
	close_memory(1);
	EXPECT(open_memory(1, 0, 4096) == 0);
	copy(0, false, 0, 4096, 0);
	n = expect_note(GPU_COPIED);
	EXPECT(n.end == GPU_OK && n.block->bytes[77] == pattern(77));
	gpu_give(n.block);
	finish();
}

static void stop_under_way(void)
{
	start();
	faults("copy_us=100000");
	copy(0, true, 0, 1 << 20, 3);
	copy(1, true, 0, 4096, 3);
	EXPECT(gpu_stop(g)); /* misuse, if it closes memory before they are done */
	kill(provider, SIGKILL);
}

static void stop_is_too_soon(void)
{
	stop_ms = 100;
	start();
	faults("copy_us=9000000");
	copy(0, true, 0, 1 << 20, 3);
	copy(0, true, 0, 4096, 3);
	EXPECT(gpu_stop(g));
	EXPECT(strcmp(logged, "GPU 0000:e0:00.0: 2 copies are not done after 100 ms: their memory stays in use until the daemon "
	                      "ends") == 0);
	kill(provider, SIGKILL);
}

static CUresult hang(CUevent event)
{
	(void)event;
	pause();
	return CUDA_ERROR_UNKNOWN;
}

static void hang_at_exit(void)
{
	hang(NULL);
}

/* A driver's own exit handlers would wait for the lock that its hanging call has. */
static void stop_of_a_driver_that_hangs(void)
{
	stop_ms = 100;
	start();
	atexit(hang_at_exit);
	g->cuda.event_query = hang;
	copy(0, true, 0, 1 << 20, 3);
	EXPECT(!gpu_stop(g));
	kill(provider, SIGKILL);
	exit(0);
}

static int in_child(void (*run)(void))
{
	pid_t pid;
	int status;

	faults("");
	pid = fork();
	if (pid == 0) {
		alarm(10);
		run();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int no_misuse(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/misuse", memory_dir);
	return access(path, F_OK) < 0;
}

static void case_of(void **state)
{
	assert_int_equal(in_child((void (*)(void))(uintptr_t)*state), 0);
	assert_true(no_misuse());
}

static int setup(void **state)
{
	(void)state;
	assert_true(mkstemp(control) >= 0 && mkdtemp(memory_dir));
	setenv("FAKECUDA_CTL", control, 1);
	setenv("FAKECUDA_DIR", memory_dir, 1);
	unsetenv("FAKECUDA_FAIL");
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s %s", memory_dir, control);
	return system(command);
}

int main(void)
{
#define CASE(name, run) {name, case_of, NULL, NULL, (void *)(uintptr_t)(run)}
	const struct CMUnitTest tests[] = {
	    CASE("gpu_copy__contents", contents),
	    CASE("gpu_copy__of_a_descriptor", of_a_descriptor),
	    CASE("gpu_open__of_a_descriptor_each_call_fails", of_a_descriptor_each_call_fails),
	    CASE("gpu_copy__waits_for_nothing", no_wait),
	    CASE("gpu_take__half_for_each_direction", limits),
	    CASE("gpu_take__blocks_are_in_no_core_file", not_in_core_files),
	    CASE("gpu_open__one_device_for_each_spelling", one_device),
	    CASE("gpu_open__bounds_of_the_allocation", bounds),
	    CASE("gpu_open__refusals", refusals),
	    CASE("gpu_open__refusals_of_one_leave_the_others", refusals_of_one),
	    CASE("gpu_copy__out_of_memory", no_memory),
	    CASE("gpu_copy__event_that_cannot_be_recorded", no_event),
	    CASE("gpu_copy__event_that_cannot_be_asked", no_answer),
	    CASE("gpu_copy__gpu_lost", lost),
	    CASE("gpu_copy__gpu_lost_asynchronously", lost_later),
	    CASE("gpu_copy__gpu_lost_by_each_sticky_error", lost_by_sticky_errors),
	    CASE("gpu_copy__context_destroyed", context_destroyed),
	    CASE("gpu_open__again_after_a_destroyed_context", again_after_a_destroyed_context),
	    CASE("gpu__destroyed_context_ends_at_once", destroyed_ends_at_once),
	    CASE("gpu__ecc_ends_the_context_at_once", ecc_ends_at_once),
	    CASE("gpu__lost_gpu_ends_the_context_at_once", lost_ends_at_once),
	    CASE("gpu__lost_gpu_with_a_mapping_says_so", lost_with_a_descriptor),
	    CASE("gpu_close__an_error_that_breaks_the_context", close_that_breaks),
	    CASE("gpu_close__beside_blocks_that_break", close_beside_blocks_that_break),
	    CASE("gpu_close__an_error", close_that_fails),
	    CASE("gpu_stop__tells_of_copies_not_done", stop_is_too_soon),
	    CASE("gpu_stop__exit_passes_by_a_driver_that_hangs", stop_of_a_driver_that_hangs),
	    CASE("gpu_stop__waits_for_copies", stop_under_way),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
