/* SPDX-License-Identifier: Apache-2.0 */
/* Workers and the thread that asks for them, with a kernel that stands still when a test wants it to. */
#define _GNU_SOURCE /* before any header: gettid() */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <time.h>

#include "daemon/lan/route.c"
#include "daemon/lan/route_table.c"

#define MS      1000000ull
#define START   1000000000000ull
#define WAIT_MS 20000
#define WORKERS 2

/* --- a kernel --- */

static struct {
	pthread_mutex_t lock; /* whoever holds it keeps questions waiting */
	_Atomic uint32_t answered;
	_Atomic uint8_t mac;
	_Atomic int changes; /* to be told of: ifindex + 1; 0: none */
	int fd;
} kernel = {.lock = PTHREAD_MUTEX_INITIALIZER};

int route_ask_open(struct route_ask **a, const char (*ports)[IF_NAMESIZE], uint32_t nports, char *err, size_t errlen)
{
	(void)a, (void)ports, (void)nports, (void)err, (void)errlen;
	kernel.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return kernel.fd < 0 ? -errno : 0;
}

void route_ask_close(struct route_ask *a)
{
	(void)a;
}

void route_ask_from(struct route_ask *a, const struct ip_addr *src)
{
	(void)a, (void)src;
}

int route_ask_fd(const struct route_ask *a)
{
	(void)a;
	return kernel.fd;
}

void route_ask(struct route_ask *a, const struct ip_addr *dst, struct route_found *f)
{
	(void)a;
	pthread_mutex_lock(&kernel.lock);
	*f = (struct route_found){.answer = ROUTE_OK, .ifindex = 3, .via = *dst, .hop.dst_mac[5] = kernel.mac};
	pthread_mutex_unlock(&kernel.lock);
	kernel.answered++;
}

void route_ask_changes(struct route_ask *a, route_changed_fn fn, void *arg)
{
	struct ip_addr via = {.b = {1}};
	uint64_t count;
	int change;

	(void)a;
	assert_true(read(kernel.fd, &count, sizeof(count)) > 0);
	while ((change = atomic_exchange(&kernel.changes, 0)))
		fn(arg, change - 1, &via);
}

static void kernel_says(int ifindex)
{
	kernel.changes = ifindex + 1;
	ring(kernel.fd);
}

/* --- workers --- */

static int setup(void **state)
{
	struct routes *r;
	char err[128];

	kernel.answered = 0;
	kernel.mac = 1;
	assert_int_equal(route_open(&r, NULL, 0, WORKERS, err, sizeof(err)), 0);
	assert_int_equal(route_run(r, err, sizeof(err)), 0);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	route_close(*state);
	close(kernel.fd);
	return 0;
}

static struct ip_addr host(uint8_t n)
{
	return (struct ip_addr){.b = {n}};
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* What the worker knows after a turn: the last byte of the MAC, 0: it is not known. */
static uint8_t mac_of(struct route_worker *w, uint8_t n, uint64_t now_ns)
{
	const struct next_hop *hop;
	struct ip_addr dst = host(n);

	route_take(w, now_ns);
	return route_lookup(w, &dst, now_ns, &hop) == ROUTE_OK ? hop->dst_mac[5] : 0;
}

static bool becomes(struct route_worker *w, uint8_t n, uint64_t now_ns, uint8_t mac)
{
	for (int ms = 0; ms < WAIT_MS; ms++) {
		if (mac_of(w, n, now_ns) == mac)
			return true;
		nap();
	}
	return false;
}

static bool rings(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS) == 1;
}

/* --- cases --- */

static void route__an_answer_comes_and_rings(void **state)
{
	struct route_worker *w = route_worker(*state, 0), *other = route_worker(*state, 1);

	assert_int_equal(mac_of(w, 1, START), 0);
	assert_true(rings(route_fd(w)));
	assert_int_equal(mac_of(w, 1, START), 1);
	assert_int_equal(mac_of(other, 1, START), 0); /* each knows what it has asked for */
	assert_true(becomes(other, 1, START, 1));
	assert_int_equal(kernel.answered, 2);
}

/* Somebody holds a lock in the kernel. Nobody waits, and what is known goes on being used; new hosts are known when it
 * is over. */
static void route__a_kernel_that_stands_still_keeps_nobody_waiting(void **state)
{
	struct route_worker *w = route_worker(*state, 0);

	assert_true(becomes(w, 1, START, 1));
	pthread_mutex_lock(&kernel.lock);
	kernel.mac = 2;
	for (uint64_t ms = 0; ms < 10000; ms++) {
		assert_int_equal(mac_of(w, 1, START + ms * MS), 1);
		assert_int_equal(mac_of(w, 2, START + ms * MS), 0);
	}
	assert_int_equal(kernel.answered, 1);
	pthread_mutex_unlock(&kernel.lock);
	assert_true(becomes(w, 2, START + 10000 * MS, 2));
	assert_true(becomes(w, 1, START + 10000 * MS, 2));
}

static void route__what_has_changed_is_asked_about_by_all(void **state)
{
	struct route_worker *w = route_worker(*state, 0), *other = route_worker(*state, 1);

	assert_true(becomes(w, 1, START, 1));
	assert_true(becomes(w, 9, START, 1));
	assert_true(becomes(other, 1, START, 1));
	kernel.mac = 3;
	kernel_says(3);
	assert_true(becomes(w, 1, START, 3));
	assert_true(becomes(other, 1, START, 3));
	assert_int_equal(mac_of(w, 9, START), 1); /* another neighbour */
	kernel_says(0);
	assert_true(becomes(w, 9, START, 3));
}

/* A worker that is late with taking: its ring is full, and what did not fit is not missed. */
static void route__lost_news_are_asked_about_again(void **state)
{
	struct routes *r = *state;
	struct route_worker *w = route_worker(r, 0);

	assert_true(becomes(w, 1, START, 1));
	kernel.mac = 4;
	for (uint32_t i = 0; i < NEWS; i++)
		tell(w, &(struct news){.kind = NEWS_CHANGED, .found.ifindex = 77});
	assert_false(atomic_load(&w->lost));
	kernel_says(3);
	for (int ms = 0; ms < WAIT_MS && !atomic_load(&w->lost); ms++)
		nap();
	assert_true(atomic_load(&w->lost));
	assert_true(becomes(w, 1, START, 4));
	assert_false(atomic_load(&w->lost));
}

/* Questions that nobody has answered yet are no reason to stay. */
static void route__ends_with_questions_left(void **state)
{
	struct route_worker *w = route_worker(*state, 0);

	pthread_mutex_lock(&kernel.lock);
	for (uint8_t n = 1; n < 200; n++)
		mac_of(w, n, START);
	atomic_store(&((struct routes *)*state)->stop, true);
	pthread_mutex_unlock(&kernel.lock);
	pthread_join(((struct routes *)*state)->thread, NULL);
	((struct routes *)*state)->running = false;
	assert_true(kernel.answered < 199);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(route__an_answer_comes_and_rings),
	    TEST(route__a_kernel_that_stands_still_keeps_nobody_waiting),
	    TEST(route__what_has_changed_is_asked_about_by_all),
	    TEST(route__lost_news_are_asked_about_again),
	    TEST(route__ends_with_questions_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
