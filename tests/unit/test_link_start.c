/* SPDX-License-Identifier: Apache-2.0 */
/* A start that fails, and the buffers that it had opened by then: workers, ports and kernel are played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/link/link.c"
#include "daemon/util/addr.c"
#include "daemon/util/units.c"
#include "no_log.h"

/* A worker is its shard and its arena. */
struct worker {
	uint32_t shard;
	bool open, taken_up, holds;
};

enum closed_as { NOT_CLOSED, CLOSED_EMPTY, CLOSED_KEPT };

static struct {
	struct worker worker[WORKERS_MAX];
	uint32_t order[WORKERS_MAX], nopened; /* shards, in the order of opening */
	uint32_t fails;                       /* the worker whose arena cannot be opened */
	bool wan_fails;
	enum closed_as closed[WORKERS_MAX];
	unsigned rests; /* times that rules of a link at rest were set */
} played;

static int fail_as(bool fails, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s", fails ? "no memory for its heap" : "");
	return fails ? -ENOMEM : 0;
}

int worker_open_arena(struct worker **out, const struct worker_params *p, char *err, size_t errlen)
{
	struct worker *w = &played.worker[p->shard];

	if (p->shard == played.fails)
		return fail_as(true, err, errlen);
	w->shard = p->shard;
	w->open = true;
	played.order[played.nopened++] = p->shard;
	*out = w;
	return 0;
}

bool worker_took_up(const struct worker *w)
{
	return w->taken_up;
}

bool worker_drained(const struct worker *w)
{
	return !w->holds;
}

void worker_close(struct worker *w, bool keeps_flows)
{
	assert_true(w->open);
	w->open = false;
	played.closed[w->shard] = keeps_flows || w->holds ? CLOSED_KEPT : CLOSED_EMPTY;
}

int worker_open_wan(struct worker *w, char *err, size_t errlen)
{
	(void)w;
	return fail_as(played.wan_fails, err, errlen);
}

int closed_rest(const struct link_config *c, char *err, size_t errlen)
{
	(void)c, (void)err, (void)errlen;
	played.rests++;
	return 0;
}

/* --- what a start does beside --- */

uint32_t arena_file_former(const char *dir, const char *link)
{
	(void)dir, (void)link;
	return 2;
}

int arena_file_check_others(const char *dir, const char *link, uint32_t nshards, bool *untold, char *err, size_t errlen)
{
	(void)dir, (void)link, (void)nshards, (void)untold, (void)err, (void)errlen;
	return 0;
}

const struct arena_geometry *worker_geometry(const struct worker *w)
{
	static const struct arena_geometry g;

	(void)w;
	return &g;
}

struct arena_geometry link_plan_geometry(const struct link_config *c)
{
	(void)c;
	return (struct arena_geometry){0};
}

uint64_t link_plan_lanes(const struct link_config *c)
{
	return c->lanes;
}

uint32_t link_plan_overhead_bytes(const struct path_config *p)
{
	(void)p;
	return 0;
}

uint32_t link_plan_burst_ns(const struct path_config *p, bool may_spin_here)
{
	(void)p, (void)may_spin_here;
	return 0;
}

bool port_watch_has_address(const struct ip_addr *a)
{
	(void)a;
	return true;
}

uint64_t descriptors_of(const struct link_config *c)
{
	(void)c;
	return 1;
}

int descriptors_take(const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	(void)c, (void)err;
	return 0;
}

void descriptors_release(uint64_t n)
{
	assert_int_equal(n, 1);
}

void link_on_notify(int fd, short what, void *arg)
{
	(void)fd, (void)what, (void)arg;
}

void link_tell_workers(struct link *l)
{
	(void)l;
}

void link_hold_promises(struct link *l, enum link_hold why, bool hold)
{
	(void)l, (void)why, (void)hold;
}

void link_stop_workers(struct link *l)
{
	for (uint32_t i = 0; i < l->nworkers; i++)
		assert_non_null(l->worker[i]);
}

int privileged_steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen)
{
	(void)c, (void)extent, (void)err, (void)errlen;
	return 0;
}

bool privileged_steer_stands(const struct link_config *c)
{
	(void)c;
	return true;
}

void privileged_offload_acquire(const char *ifname)
{
	(void)ifname;
}

void privileged_offload_release(const char *ifname)
{
	(void)ifname;
}

uint32_t worker_ports(const struct link_config *c)
{
	return c->nlan_ports;
}

void worker_port_name(const struct link_config *c, uint32_t port, char ifname[IF_NAMESIZE])
{
	(void)c, (void)port;
	ifname[0] = '\0';
}

int worker_open_lan(struct worker *w, struct route_worker *routes, char *err, size_t errlen)
{
	(void)w, (void)routes, (void)err, (void)errlen;
	return 0;
}

int worker_run(struct worker *w, char *err, size_t errlen)
{
	(void)w, (void)err, (void)errlen;
	return 0;
}

uint64_t worker_epoch(const struct worker *w)
{
	return w->shard;
}

bool worker_arena_kept(const struct worker *w)
{
	(void)w;
	return true;
}

uint64_t worker_peer_epoch(const struct worker *w)
{
	(void)w;
	return 0;
}

const struct trace *worker_trace(const struct worker *w)
{
	(void)w;
	return NULL;
}

int route_open(struct routes **r, const char (*ports)[IF_NAMESIZE], uint32_t nports, uint32_t nworkers, char *err,
               size_t errlen)
{
	(void)ports, (void)nports, (void)nworkers, (void)err, (void)errlen;
	*r = NULL;
	return 0;
}

struct route_worker *route_worker(struct routes *r, uint32_t i)
{
	(void)r, (void)i;
	return NULL;
}

int route_run(struct routes *r, char *err, size_t errlen)
{
	(void)r, (void)err, (void)errlen;
	return 0;
}

void route_close(struct routes *r)
{
	(void)r;
}

int relay_open(struct relay_thread **r, const struct link_config *c, struct worker *const *workers, uint32_t nworkers,
               char err[CONFIG_ERR_MAX])
{
	(void)r, (void)c, (void)workers, (void)nworkers, (void)err;
	return 0;
}

int relay_run(struct relay_thread *r, char err[CONFIG_ERR_MAX])
{
	(void)r, (void)err;
	return 0;
}

void relay_stop(struct relay_thread *r)
{
	(void)r;
}

void relay_close(struct relay_thread *r)
{
	(void)r;
}

void bursts_init(struct bursts *b, uint32_t nports, uint32_t nworkers, uint64_t wall_ns)
{
	(void)b, (void)nports, (void)nworkers, (void)wall_ns;
}

/* --- starts --- */

static struct event_base *base;
static struct link *l;

static int set_up(void **state)
{
	(void)state;
	memset(&played, 0, sizeof(played));
	played.fails = UINT32_MAX;
	l = NULL;
	base = event_base_new();
	return base != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	event_base_free(base);
	return 0;
}

static int start(uint32_t workers)
{
	static struct link_config c;
	char err[CONFIG_ERR_MAX];

	c = (struct link_config){.workers = workers,
	                         .lanes = 64,
	                         .nlan_ports = 1,
	                         .lan_ports = {"lo"},
	                         .npaths = 1,
	                         .paths[0].rate_bps = 1000000000};
	snprintf(c.name, sizeof(c.name), "tokyo");
	snprintf(c.arena_dir, sizeof(c.arena_dir), "/");
	return link_start(&c, base, NULL, NULL, NULL, NULL, &l, err);
}

/* The flows of a worker are in its arena, drained or not: the next start carries on with those of all workers. */
static void start__that_fails_keeps_the_buffers_that_were_in_use(void **state)
{
	(void)state;
	for (uint32_t fails = 0; fails < 3; fails++) {
		memset(&played, 0, sizeof(played));
		played.fails = fails;
		for (uint32_t i = 0; i < 3; i++)
			played.worker[i].taken_up = true;
		assert_true(start(3) < 0);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_not_equal(played.closed[i], CLOSED_EMPTY);
		assert_int_equal(played.rests, 1);
	}
	memset(&played, 0, sizeof(played));
	played.fails = UINT32_MAX;
	played.wan_fails = true;
	played.worker[0].taken_up = true;
	assert_true(start(1) < 0);
	assert_int_equal(played.closed[0], CLOSED_KEPT);
}

/* The next start makes them in the size that the file asks for by then. */
static void start__that_fails_empties_the_buffers_that_it_had_made(void **state)
{
	(void)state;
	played.wan_fails = true;
	played.worker[1].taken_up = true;
	assert_true(start(2) < 0);
	assert_int_equal(played.closed[0], CLOSED_EMPTY);
	assert_int_equal(played.closed[1], CLOSED_KEPT);
}

/* arena_file_former() asks the first worker's file: if Workers= grows, that of the former start stays until no file is
 * missing. */
static void start__makes_the_first_worker_s_buffer_last(void **state)
{
	(void)state;
	played.fails = 0;
	assert_true(start(3) < 0);
	assert_int_equal(played.nopened, 2);
	assert_int_equal(played.order[0], 2);
	assert_int_equal(played.order[1], 1);
}

static void stop__empties_buffers_only_all_together(void **state)
{
	char err[CONFIG_ERR_MAX];

	(void)state;
	played.worker[1].taken_up = true;
	assert_int_equal(start(2), 0);
	assert_int_equal(link_stop(l, LINK_ENDS, err), 0);
	assert_int_equal(played.closed[0], CLOSED_EMPTY);
	assert_int_equal(played.closed[1], CLOSED_EMPTY);
	assert_int_equal(start(2), 0);
	played.worker[1].holds = true;
	assert_int_equal(link_stop(l, LINK_RESTARTS_DRAINED, err), 0);
	assert_int_equal(played.closed[0], CLOSED_KEPT);
	assert_int_equal(played.closed[1], CLOSED_KEPT);
	assert_int_equal(start(2), 0);
	assert_int_equal(link_stop(l, LINK_ENDS, err), 0);
	assert_int_equal(played.closed[0], CLOSED_KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	    TEST(start__that_fails_keeps_the_buffers_that_were_in_use),
	    TEST(start__that_fails_empties_the_buffers_that_it_had_made),
	    TEST(start__makes_the_first_worker_s_buffer_last),
	    TEST(stop__empties_buffers_only_all_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
