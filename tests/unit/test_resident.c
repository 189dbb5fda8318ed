/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is there, and locked, before it is touched: as the kernel says (mincore, VmLck), not as it seems. */
#define _GNU_SOURCE /* before any header: gettid() */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <time.h>

#include "daemon/arena/resident.c"
#include "no_numa.h"

#define PAGE     ((size_t)sysconf(_SC_PAGESIZE))
#define HEAP_LEN (2 * STEP + 3 * PAGE) /* the last step is a short one */
#define FILE_LEN (STEP / 2)
#define NOBODY   65534
#define WAIT_MS  20000

static _Atomic uint32_t warnings;

void log_at(enum log_level level, const char *fmt, ...)
{
	(void)fmt;
	if (level == LOG_LEVEL_WARN)
		warnings++;
}

/* --- what the kernel says --- */

static size_t resident_bytes(const struct resident_piece *p)
{
	unsigned char there[(2 * STEP + 3 * 65536) / 4096];
	size_t pages = p->len / PAGE, n = 0;

	assert_true(pages <= sizeof(there));
	assert_int_equal(mincore(p->at, p->len, there), 0);
	for (size_t i = 0; i < pages; i++)
		n += there[i] & 1;
	return n * PAGE;
}

static size_t locked_bytes(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	size_t kib = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %zu kB", &kib) == 1)
			break;
	fclose(f);
	return kib << 10;
}

/* --- what is given --- */

struct given {
	struct resident_piece piece[RESIDENT_PIECES];
	struct resident *r;
	size_t locked_before;
	struct rlimit limit;
};

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static uint8_t *map(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	madvise(at, len, MADV_NOHUGEPAGE); /* a touch is to bring one page */
	return at;
}

static int setup(void **state)
{
	struct given *g = calloc(1, sizeof(*g));

	g->piece[0] = (struct resident_piece){map(HEAP_LEN), HEAP_LEN};
	g->piece[1] = (struct resident_piece){map(FILE_LEN), FILE_LEN};
	getrlimit(RLIMIT_MEMLOCK, &g->limit);
	warnings = 0;
	g->locked_before = locked_bytes();
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct given *g = *state;

	resident_stop(g->r);
	for (int i = 0; i < RESIDENT_PIECES; i++)
		munmap(g->piece[i].at, g->piece[i].len);
	free(g);
	return 0;
}

static void limit_locked(rlim_t bytes, rlim_t most)
{
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){bytes, most}), 0);
}

/* Not with a sanitizer, nor where the limit is low and there is no privilege. */
static bool can_lock(const struct given *g)
{
	size_t before = locked_bytes();
	bool can;

	limit_locked(g->limit.rlim_max, g->limit.rlim_max);
	can = mlock(g->piece[0].at, HEAP_LEN) == 0 && locked_bytes() == before + HEAP_LEN;
	munlock(g->piece[0].at, HEAP_LEN);
	madvise(g->piece[0].at, HEAP_LEN, MADV_DONTNEED);
	return can;
}

static void start(struct given *g)
{
	g->r = resident_start(g->piece, "unit");
	assert_non_null(g->r);
}

/* Its thread is done with all of them: everything is there, and its last step is over once it has ended. */
static void finish(struct given *g)
{
	for (int i = 0; i < RESIDENT_PIECES; i++) {
		for (int ms = 0; ms < WAIT_MS && resident_bytes(&g->piece[i]) < g->piece[i].len; ms++)
			nap();
		assert_int_equal(resident_bytes(&g->piece[i]), g->piece[i].len);
	}
	resident_stop(g->r);
	g->r = NULL;
}

static uint64_t faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)u.ru_minflt;
}

/* A sanitizer's own memory would have its faults, too. */
__attribute__((no_sanitize("address", "thread"))) static void write_each_page(const struct resident_piece *p)
{
	for (size_t at = 1; at < p->len; at += PAGE)
		((volatile uint8_t *)p->at)[at] = 1;
}

/* --- cases --- */

/* A touch costs no fault any more, and what was written before is kept. */
static void resident__every_page_is_there_before_it_is_touched(void **state)
{
	struct given *g = *state;
	uint64_t before;

	g->piece[0].at[0] = 0x5a;
	g->piece[0].at[2 * STEP] = 0xa5;
	assert_int_equal(resident_bytes(&g->piece[0]), 2 * PAGE);
	assert_int_equal(resident_bytes(&g->piece[1]), 0);
	start(g);
	finish(g);
	before = faults();
	for (int i = 0; i < RESIDENT_PIECES; i++)
		write_each_page(&g->piece[i]);
	assert_true(faults() - before < FILE_LEN / PAGE);
	assert_int_equal(g->piece[0].at[0], 0x5a);
	assert_int_equal(g->piece[0].at[2 * STEP], 0xa5);
}

static void resident__all_of_it_is_locked(void **state)
{
	struct given *g = *state;

	if (!can_lock(g)) {
		print_message("skipped: memory cannot be locked here\n");
		skip();
	}
	start(g);
	finish(g);
	assert_int_equal(locked_bytes(), g->locked_before + HEAP_LEN + FILE_LEN);
	assert_int_equal(warnings, 0);
}

/* Who may lock nothing (RLIMIT_MEMLOCK, and no privilege) has it all the same, and is told once. */
static void resident__what_cannot_be_locked_is_taken_all_the_same(void **state)
{
	struct given *g = *state;
	uid_t uid = geteuid();
	bool refused;

	limit_locked(0, g->limit.rlim_max);
	if (uid == 0)
		assert_int_equal(seteuid(NOBODY), 0);
	refused = mlock(g->piece[0].at, PAGE) < 0; /* sanitizers let it do nothing */
	start(g);
	finish(g);
	if (uid == 0)
		assert_int_equal(seteuid(uid), 0);
	limit_locked(g->limit.rlim_cur, g->limit.rlim_max);
	assert_int_equal(locked_bytes(), g->locked_before);
	assert_int_equal(warnings, refused);
}

/* What a kernel without MADV_POPULATE_WRITE makes of it. */
static void resident__touching_brings_pages_and_changes_none(void **state)
{
	struct given *g = *state;

	g->piece[0].at[3 * PAGE] = 0x77;
	touch(g->piece[0].at, HEAP_LEN);
	assert_int_equal(resident_bytes(&g->piece[0]), HEAP_LEN);
	assert_int_equal(g->piece[0].at[3 * PAGE], 0x77);
	assert_int_equal(g->piece[0].at[4 * PAGE], 0);
}

/* Ready or not; and of one that was never started. */
static void resident__may_be_stopped_at_any_time(void **state)
{
	struct given *g = *state;

	resident_stop(NULL);
	for (int i = 0; i < 20; i++) {
		start(g);
		resident_stop(g->r);
		g->r = NULL;
	}
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(resident__every_page_is_there_before_it_is_touched),
	    TEST(resident__all_of_it_is_locked),
	    TEST(resident__what_cannot_be_locked_is_taken_all_the_same),
	    TEST(resident__touching_brings_pages_and_changes_none),
	    TEST(resident__may_be_stopped_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
