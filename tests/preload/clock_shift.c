/* SPDX-License-Identifier: Apache-2.0 */
/* clock_shift.c - another wall clock for one program, set while it runs: the machine's own is never touched.
 *
 *     LD_PRELOAD=BUILD/tools/clock_shift.so CLOCK_SHIFT_FILE=PATH PROGRAM...
 *
 * The file holds one signed 64-bit number in the machine's byte order: nanoseconds that CLOCK_REALTIME is ahead. It is
 * mapped before main(), so that processes without the right to open it hear of each change too, and a forked child maps
 * the same page. Other clocks are what they are. It stands in front of the C library's functions, and so in front of
 * the vDSO; waiting until a time of CLOCK_REALTIME is not shifted: longreachd has none of it (tests/netns/chaos.sh). */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

static int (*real_clock_gettime)(clockid_t id, struct timespec *t);
static const volatile int64_t *ahead_ns; /* NULL: no file, no shift */

__attribute__((constructor)) static void map_file(void)
{
	const char *path = getenv("CLOCK_SHIFT_FILE");
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0) {
		at = mmap(NULL, sizeof(*ahead_ns), PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	ahead_ns = at != MAP_FAILED ? at : NULL;
	*(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

/* Before the constructor has run: the kernel itself. */
static int ask_clock(clockid_t id, struct timespec *t)
{
	return real_clock_gettime != NULL ? real_clock_gettime(id, t) : (int)syscall(SYS_clock_gettime, id, t);
}

static void shift(struct timespec *t)
{
	int64_t ns = ahead_ns != NULL ? *ahead_ns : 0, rest = t->tv_nsec + ns % NS_PER_S;

	t->tv_sec += ns / NS_PER_S;
	if (rest < 0 || rest >= NS_PER_S) {
		t->tv_sec += rest < 0 ? -1 : 1;
		rest += rest < 0 ? NS_PER_S : -NS_PER_S;
	}
	t->tv_nsec = rest;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	int r = ask_clock(id, t);

	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		shift(t);
	return r;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec t;
	int r = clock_gettime(CLOCK_REALTIME, &t);

	(void)zone;
	if (r == 0)
		*tv = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
	return r;
}

time_t time(time_t *out)
{
	struct timespec t;
	time_t now = clock_gettime(CLOCK_REALTIME, &t) == 0 ? t.tv_sec : -1;

	if (out != NULL)
		*out = now;
	return now;
}
