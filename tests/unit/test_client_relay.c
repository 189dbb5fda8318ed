/* SPDX-License-Identifier: Apache-2.0 */
/* The relay from a shell: names that others have chosen, and an export over the end of its connection. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "daemon/client/client_relay.c"

/* --- the library --- */

static struct lr_region list[3];
static int nregions;
static struct lr_event events[4];
static int nevents, taken;

int lr_open(const char *link, const char *path, struct lr **h)
{
	(void)link, (void)path;
	*h = (struct lr *)list;
	return 0;
}

void lr_close(struct lr *h)
{
	(void)h;
}

int lr_reopen(struct lr *h)
{
	(void)h;
	return 0;
}

int lr_regions(struct lr *h, struct lr_region *to, size_t n)
{
	(void)h;
	memcpy(to, list, (n < 3 ? n : 3) * sizeof(list[0]));
	return nregions;
}

int lr_wait(struct lr *h, struct lr_event *ev, int timeout_ms)
{
	(void)h, (void)timeout_ms;
	if (taken == nevents)
		return -EPIPE;
	*ev = events[taken++];
	return 1;
}

int lr_rate(struct lr *h, struct lr_rate *rate)
{
	(void)h;
	*rate = (struct lr_rate){.line_bps = 1000000000, .free_bps = 500000000, .queued_bytes = 1000, .rtt_ns = 3000000};
	return 0;
}

int lr_put(struct lr *h, const struct lr_transfer *t, uint64_t *op)
{
	(void)h, (void)t, (void)op;
	return -EIO;
}

int lr_get(struct lr *h, const struct lr_transfer *t, uint64_t *op)
{
	(void)h, (void)t, (void)op;
	return -EIO;
}

int lr_export(struct lr *h, const char *name, int fd, uint64_t offset, uint64_t size, unsigned access)
{
	(void)h, (void)name, (void)fd, (void)offset, (void)size, (void)access;
	return -EIO;
}

int lr_export_gpu(struct lr *h, const char *name, const struct lr_gpu *memory, unsigned access)
{
	(void)h, (void)name, (void)memory, (void)access;
	return -EIO;
}

int lr_unexport(struct lr *h, const char *name)
{
	(void)h, (void)name;
	return -EIO;
}

int client_gpu_alloc(struct client_gpu *gpu, int device, uint64_t size, struct lr_gpu *memory, char *err, size_t cap)
{
	(void)gpu, (void)device, (void)size, (void)memory, (void)err, (void)cap;
	return -1;
}

void client_gpu_free(struct client_gpu *gpu)
{
	(void)gpu;
}

/* --- what goes to standard output --- */

static char *said;
static size_t said_len;
static FILE *was;

static void stdout_kept(void)
{
	was = stdout;
	stdout = open_memstream(&said, &said_len);
}

static void stdout_back(void)
{
	fclose(stdout);
	stdout = was;
}

/* --- put, rate --- */

static void put__as_json(void **state)
{
	struct lr_event ev = {.status = LR_OK, .promise = LR_DONE, .bytes = 12345};

	(void)state;
	stdout_kept();
	assert_int_equal(report(&(struct request){.json = true}, &ev, 1.5), EXIT_DONE);
	stdout_back();
	assert_string_equal(said, "{\n  \"status\": 0,\n  \"text\": \"done\",\n  \"promise\": \"done\",\n  \"bytes\": 12345,\n"
	                          "  \"seconds\": 1.5\n}\n");
	free(said);
}

static void rate__as_json(void **state)
{
	(void)state;
	stdout_kept();
	assert_int_equal(rate(&(struct request){.first = "link", .json = true, .bytes = 4000}), EXIT_DONE);
	stdout_back();
	assert_string_equal(said, "{\n  \"line_bps\": 1000000000,\n  \"free_bps\": 500000000,\n  \"queued_bytes\": 1000,\n"
	                          "  \"rtt_ns\": 3000000,\n  \"bytes\": 4000,\n  \"expected_s\": 0.00158,\n"
	                          "  \"computed\": \"rtt/2 + (queued + bytes) * 8 / max(free, line / 10)\"\n}\n");
	free(said);
}

/* --- regions --- */

static void list_regions(bool json)
{
	stdout_kept();
	assert_int_equal(regions(&(struct request){.command = "regions", .first = "link", .json = json}), EXIT_DONE);
	stdout_back();
}

static void name_regions(const char *first, const char *second)
{
	nregions = 2;
	snprintf(list[0].name, sizeof(list[0].name), "%s", first);
	snprintf(list[1].name, sizeof(list[1].name), "%s", second);
}

static void regions__names_are_escaped_in_json(void **state)
{
	(void)state;
	name_regions("a\"}, \\\n\033", "plain");
	list_regions(true);
	assert_non_null(strstr(said, "\"name\": \"a\\\"}, \\\\\\n\\u001b\",\n"));
	assert_non_null(strstr(said, "\"name\": \"plain\",\n"));
	free(said);
}

static void regions__names_move_no_cursor(void **state)
{
	(void)state;
	name_regions("a\033[2J\n", "plain");
	list_regions(false);
	assert_non_null(strstr(said, "\na\\x1b[2J\\x0a "));
	assert_non_null(strstr(said, "\nplain "));
	assert_null(strchr(said, '\033'));
	free(said);
}

static void regions__a_name_of_escapes_only(void **state)
{
	(void)state;
	name_regions("\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", "plain");
	list_regions(true);
	assert_non_null(strstr(said, "\\u0001\",\n"));
	free(said);
}

/* --- export --- */

static int serves(enum lr_status lost)
{
	taken = 0;
	nevents = 1;
	events[0] = (struct lr_event){.type = LR_EV_LOST, .status = lost, .name = "r"};
	return serve_until_signal((struct lr *)list);
}

/* By RDMA: a connection that has ended is made anew; memory that is broken is not. */
static void export__goes_on_after_the_end_of_a_connection(void **state)
{
	(void)state;
	assert_int_equal(serves(LR_CLIENT_GONE), EXIT_NO_RELAY);
	assert_int_equal(serves(LR_RDMA_FAILED), EXIT_NO_RELAY);
	assert_int_equal(serves(LR_CLIENT_MEMORY), EXIT_FAILED);
	assert_int_equal(serves(LR_GPU_LOST), EXIT_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(put__as_json),
	    cmocka_unit_test(rate__as_json),
	    cmocka_unit_test(regions__names_are_escaped_in_json),
	    cmocka_unit_test(regions__names_move_no_cursor),
	    cmocka_unit_test(regions__a_name_of_escapes_only),
	    cmocka_unit_test(export__goes_on_after_the_end_of_a_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
