/* SPDX-License-Identifier: Apache-2.0 */
/* state_table.h - the life of a flow as a table: each state, each event that can meet it, the state behind the event, and what
 * the host gets. */
#ifndef TESTS_STATE_TABLE_H
#define TESTS_STATE_TABLE_H

#include "core_fixture.h"

#define STATE_SECOND (1000 * CORE_MS)

enum { STATES_MAX = 6, STATE_MASK = 0xf };

struct state_event {
	const char *name;
	void (*meet)(struct core *c);
	/* For each state in front of the event: the one behind it, and what the host gets. */
	uint8_t then[STATES_MAX];
};

struct state_table {
	unsigned int nstates;
	const char *name[STATES_MAX];
	struct core *(*given)(void **state, enum ack_mode mode);
	bool cut;                                 /* the WAN, from the beginning */
	void (*make[STATES_MAX])(struct core *c); /* from what given() has made */
	unsigned int (*state_of_flow)(struct core *c);
	unsigned int (*host_gets)(struct core *c); /* since the event: bits beside STATE_MASK */
	const char *(*gets_name)(unsigned int bits);
	const struct state_event *event;
	size_t nevents;
	bool (*may_become)(unsigned int from, unsigned int to);
	const char *may[STATES_MAX]; /* 'x': from this line's state to the column's */
};

/* The state that the event meets. */
static unsigned int state_met;

/* False, with a line that says so: another state, or another packet for the host, than the table has. */
static inline bool state_meets(const struct state_table *t, struct core *c, const struct state_event *e, unsigned int s)
{
	unsigned int want = e->then[s], then;

	core_know_epochs(c);
	c->cut = t->cut;
	state_met = s;
	t->make[s](c);
	if (t->state_of_flow(c) != s)
		fail_msg("%s: the flow is %s before the event", t->name[s], t->name[t->state_of_flow(c)]);
	core_forget(&c->a);
	core_forget(&c->b);
	e->meet(c);
	then = t->state_of_flow(c) | t->host_gets(c);
	if (then != want)
		print_error("%s, %s: %s, and the host gets %s; expected %s and %s\n", t->name[s], e->name,
		            t->name[then & STATE_MASK], t->gets_name(then), t->name[want & STATE_MASK], t->gets_name(want));
	return then == want;
}

static inline void state_table_holds(const struct state_table *t)
{
	bool ok = true;

	for (size_t i = 0; i < t->nevents; i++) {
		for (unsigned int s = 0; s < t->nstates; s++) {
			void *one = NULL;

			ok &= state_meets(t, t->given(&one, ACK_MODE_NEAR), &t->event[i], s);
			core_done(&one);
		}
	}
	assert_true(ok);
}

static inline void state_table_allows(const struct state_table *t)
{
	for (unsigned int from = 0; from < t->nstates; from++)
		for (unsigned int to = 0; to < t->nstates; to++)
			if (t->may_become(from, to) != (t->may[from][to] == 'x'))
				fail_msg("%s -> %s", t->name[from], t->name[to]);
}

#endif
