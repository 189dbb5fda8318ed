/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver of the tests, by the functions that longreach uses: memory of another process, copies that finish late
 * and out of order, faults. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/gpu/cuda_api.c"

#define BYTES 65536

static struct cuda_api cuda;
static char control[] = "/tmp/test_fakecuda.XXXXXX", memory_dir[] = "/dev/shm/test_fakecuda.XXXXXX";

/* What goes wrong from here on, and how long copies take. A new file each time: it is known by its number and time. */
static void faults(const char *words)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s.new", control);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(words, f);
	fclose(f);
	assert_int_equal(rename(path, control), 0);
	usleep(2000); /* it is looked at once in a millisecond */
}

static CUcontext begin(void)
{
	CUcontext context;
	char err[128];

	assert_int_equal(cuda_api_load(&cuda, err, sizeof(err)), 0);
	assert_int_equal(cuda.primary_ctx_retain(&context, 0), CUDA_SUCCESS);
	assert_int_equal(cuda.ctx_set_current(context), CUDA_SUCCESS);
	return context;
}

/* What breaks a process breaks a child's. Returns its status. */
static int in_child(void (*run)(void))
{
	pid_t pid;
	int status;

	faults("");
	pid = fork();
	if (pid == 0) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define EXPECT(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			_exit(1); \
		} \
	} while (0)

static CUresult wait_for(CUevent event)
{
	CUresult e;

	while ((e = cuda.event_query(event)) == CUDA_ERROR_NOT_READY)
		usleep(100);
	return e;
}

struct copying {
	CUdeviceptr memory;
	CUstream stream;
	CUevent event;
	uint8_t *host;
};

static struct copying prepare(void)
{
	struct copying c;

	EXPECT(cuda.mem_alloc(&c.memory, BYTES) == CUDA_SUCCESS);
	EXPECT(cuda.stream_create(&c.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	EXPECT(cuda.event_create(&c.event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
	c.host = calloc(1, BYTES);
	EXPECT(cuda.mem_host_register(c.host, BYTES, 0) == CUDA_SUCCESS);
	return c;
}

static void late(void)
{
	struct copying c, other;

	begin();
	c = prepare();
	faults("copy_us=1000000");
	memset(c.host, 1, BYTES);
	EXPECT(cuda.memcpy_htod(c.memory, c.host, BYTES) == CUDA_SUCCESS);
	EXPECT(cuda.memcpy_dtoh_async(c.host, c.memory, BYTES, c.stream) == CUDA_SUCCESS);
	EXPECT(cuda.event_record(c.event, c.stream) == CUDA_SUCCESS);
	EXPECT(cuda.event_query(c.event) == CUDA_ERROR_NOT_READY);
	EXPECT(c.host[0] == 0xa5 && c.host[BYTES - 1] == 0xa5);
	usleep(50000); /* the first copy has begun to take its time */
	faults("copy_us=1000");
	other = prepare();
	EXPECT(cuda.memcpy_dtoh_async(other.host, other.memory, BYTES, other.stream) == CUDA_SUCCESS);
	EXPECT(cuda.event_record(other.event, other.stream) == CUDA_SUCCESS);
	EXPECT(wait_for(other.event) == CUDA_SUCCESS);
	EXPECT(cuda.event_query(c.event) == CUDA_ERROR_NOT_READY); /* it was first, and is not done */
	EXPECT(wait_for(c.event) == CUDA_SUCCESS);
	EXPECT(c.host[0] == 1 && c.host[BYTES - 1] == 1);
	EXPECT(cuda.memcpy_dtoh_async(malloc(16), c.memory, 16, c.stream) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static void copies__finish_late_and_out_of_order(void **state)
{
	(void)state;
	assert_int_equal(in_child(late), 0);
}

static void synchronous(void)
{
	struct copying c;

	begin();
	c = prepare();
	faults("cuMemcpyHtoDAsync:2@2, cuMemAlloc:2");
	EXPECT(cuda.memcpy_htod_async(c.memory, c.host, 16, c.stream) == CUDA_SUCCESS);
	EXPECT(cuda.memcpy_htod_async(c.memory, c.host, 16, c.stream) == CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuda.memcpy_htod_async(c.memory, c.host, 16, c.stream) == CUDA_SUCCESS);
	EXPECT(cuda.mem_alloc(&c.memory, 4096) == CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(cuda.mem_alloc(&c.memory, 4096) == CUDA_SUCCESS);
	EXPECT(cuda.mem_alloc(&c.memory, 1ull << 40) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void faults__come_at_their_call(void **state)
{
	(void)state;
	assert_int_equal(in_child(synchronous), 0);
}

static void asynchronous(void)
{
	struct copying c;
	CUcontext context;

	begin();
	c = prepare();
	faults("copy:719@2, copy_us=1000");
	EXPECT(cuda.memcpy_htod_async(c.memory, c.host, 16, c.stream) == CUDA_SUCCESS);
	EXPECT(cuda.event_record(c.event, c.stream) == CUDA_SUCCESS);
	EXPECT(wait_for(c.event) == CUDA_SUCCESS);
	EXPECT(cuda.memcpy_htod_async(c.memory, c.host, 16, c.stream) == CUDA_SUCCESS);
	EXPECT(cuda.event_record(c.event, c.stream) == CUDA_SUCCESS);
	EXPECT(wait_for(c.event) == CUDA_ERROR_LAUNCH_FAILED);
	EXPECT(cuda.mem_alloc(&c.memory, 4096) == CUDA_ERROR_LAUNCH_FAILED);
	EXPECT(cuda.primary_ctx_retain(&context, 0) == CUDA_ERROR_LAUNCH_FAILED); /* until the process ends */
}

static void faults__of_a_copy_stay(void **state)
{
	(void)state;
	assert_int_equal(in_child(asynchronous), 0);
}

static void destroyed(void)
{
	struct copying c;

	begin();
	c = prepare();
	faults("cuEventQuery:709");
	EXPECT(cuda.event_query(c.event) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuda.event_record(c.event, c.stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
	EXPECT(cuda.primary_ctx_release(0) == CUDA_SUCCESS);
	begin();
	prepare();
}

static void faults__a_new_context_after_a_destroyed_one(void **state)
{
	(void)state;
	assert_int_equal(in_child(destroyed), 0);
}

static int to_child[2], to_parent[2];

static void importer(void)
{
	CUipcMemHandle handle;
	CUdeviceptr memory, base;
	size_t bytes;
	uint8_t *host = malloc(BYTES);

	EXPECT(read(to_child[0], &handle, sizeof(handle)) == sizeof(handle));
	begin();
	EXPECT(cuda.ipc_open_mem_handle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS);
	EXPECT(cuda.mem_get_address_range(&base, &bytes, memory) == CUDA_SUCCESS);
	EXPECT(base == memory && bytes == BYTES);
	EXPECT(cuda.memcpy_dtoh(host, memory, BYTES) == CUDA_SUCCESS);
	EXPECT(host[0] == 7 && host[BYTES - 1] == 7);
	memset(host, 8, BYTES);
	EXPECT(cuda.memcpy_htod(memory, host, BYTES) == CUDA_SUCCESS);
	EXPECT(cuda.ipc_close_mem_handle(memory) == CUDA_SUCCESS);
	memset(&handle, 0, sizeof(handle));
	EXPECT(cuda.ipc_open_mem_handle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_ERROR_INVALID_HANDLE);
	EXPECT(write(to_parent[1], "x", 1) == 1);
}

static void exporter(void)
{
	CUipcMemHandle handle;
	CUdeviceptr memory;
	uint8_t *host = malloc(BYTES);
	char done;

	begin();
	EXPECT(cuda.mem_alloc(&memory, BYTES) == CUDA_SUCCESS);
	memset(host, 7, BYTES);
	EXPECT(cuda.memcpy_htod(memory, host, BYTES) == CUDA_SUCCESS);
	EXPECT(cuda.ipc_get_mem_handle(&handle, memory) == CUDA_SUCCESS);
	EXPECT(write(to_child[1], &handle, sizeof(handle)) == sizeof(handle));
	EXPECT(read(to_parent[0], &done, 1) == 1);
	EXPECT(cuda.memcpy_dtoh(host, memory, BYTES) == CUDA_SUCCESS);
	EXPECT(host[0] == 8 && host[BYTES - 1] == 8);
	EXPECT(cuda.mem_free(memory) == CUDA_SUCCESS);
}

static void ipc__memory_of_another_process(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	faults("");
	assert_true(pipe(to_child) == 0 && pipe(to_parent) == 0);
	pid = fork();
	if (pid == 0) {
		importer();
		_exit(0);
	}
	assert_int_equal(in_child(exporter), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
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
	snprintf(command, sizeof(command), "test ! -e %s/misuse; r=$?; rm -rf %s %s; exit $r", memory_dir, memory_dir, control);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(copies__finish_late_and_out_of_order),
	    cmocka_unit_test(faults__come_at_their_call),
	    cmocka_unit_test(faults__of_a_copy_stay),
	    cmocka_unit_test(faults__a_new_context_after_a_destroyed_one),
	    cmocka_unit_test(ipc__memory_of_another_process),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
