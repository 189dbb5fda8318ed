/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: a set-associative table from a host to its next hop. The worker asks about an entry when it is
 * made, and again when it is used after again_ns: hosts that nobody sends to cost nothing. The known next hop stays in
 * use until the answer comes, however long that takes.
 *
 * A host that sends to unused addresses causes a question for each. Only ROUTE_ASKS_PER_S such questions are asked per
 * second; beyond that, unknown hosts stay unknown. Such addresses do not take the places of known hosts, nor do they
 * limit questions about known hosts, which are asked once a second each. The kernel also notifies each unused address
 * that it gives up on: the entries that a notification concerns are found by their neighbour (by_via). */
#include "route_table.h"

#include "proxy/util/bytes.h"

#define LIFE_NS          1000000000ull
#define NEGATIVE_LIFE_NS 100000000ull
#define UNANSWERED_NS    1000000000ull /* after this time a question or its answer counts as lost */
#define ASK_COST_NS      (1000000000ull / ROUTE_ASKS_PER_S)

static uint32_t set_of(const struct ip_addr *a)
{
	uint32_t x = get_be32(a->b) ^ get_be32(a->b + 4) ^ get_be32(a->b + 8) ^ get_be32(a->b + 12);

	return (x * 0x9E3779B1u) >> 22;
}

_Static_assert(ROUTE_SETS == 1 << (32 - 22), "set_of() shifts down to the number of sets");

void route_table_init(struct route_table *t)
{
	for (unsigned s = 0; s < ROUTE_SETS; s++)
		dlist_init(&t->by_via[s]);
}

static struct route_entry *find(struct route_table *t, const struct ip_addr *dst)
{
	struct route_entry *set = t->entry[set_of(dst)];

	for (unsigned i = 0; i < ROUTE_WAYS; i++)
		if (set[i].used && ip_addr_eq(&set[i].dst, dst))
			return &set[i];
	return NULL;
}

/* Order in which entries give up their places: empty ones; those without a next hop; those asked about longest ago. */
static bool gives_before(const struct route_entry *a, const struct route_entry *b)
{
	int worth_a = a->used + (a->used && a->found.answer == ROUTE_OK);
	int worth_b = b->used + (b->used && b->found.answer == ROUTE_OK);

	return worth_a != worth_b ? worth_a < worth_b : a->again_ns < b->again_ns;
}

static uint64_t asks_paid_ns(const struct route_table *t, uint64_t now_ns)
{
	return t->asks_until_ns > now_ns ? t->asks_until_ns : now_ns;
}

static bool may_ask(const struct route_table *t, uint64_t now_ns)
{
	return asks_paid_ns(t, now_ns) + ASK_COST_NS <= now_ns + ROUTE_ASKS_AT_ONCE * ASK_COST_NS;
}

struct route_entry *route_table_get(struct route_table *t, const struct ip_addr *dst, uint64_t now_ns)
{
	struct route_entry *e = find(t, dst), *set = t->entry[set_of(dst)];

	if (e)
		return e;
	if (!may_ask(t, now_ns))
		return NULL;
	e = &set[0];
	for (unsigned i = 1; i < ROUTE_WAYS; i++)
		if (gives_before(&set[i], e))
			e = &set[i];
	dlist_remove(&e->node);
	*e = (struct route_entry){.dst = *dst, .used = true, .found.answer = ROUTE_RESOLVING};
	return e;
}

bool route_table_ask(struct route_table *t, struct route_entry *e, uint64_t now_ns)
{
	if (now_ns < e->again_ns || (e->asked_ns && now_ns < e->asked_ns + UNANSWERED_NS))
		return false;
	if (e->found.answer != ROUTE_OK && !e->changed) {
		if (!may_ask(t, now_ns))
			return false;
		t->asks_until_ns = asks_paid_ns(t, now_ns) + ASK_COST_NS;
	}
	e->changed = false;
	e->asked_ns = now_ns;
	return true;
}

void route_table_found(struct route_table *t, const struct ip_addr *dst, const struct route_found *f, uint64_t now_ns)
{
	struct route_entry *e = find(t, dst);

	if (!e)
		return;
	dlist_remove(&e->node);
	e->found = *f;
	if (f->ifindex)
		dlist_append(&t->by_via[set_of(&f->via)], &e->node);
	e->asked_ns = 0;
	e->again_ns = now_ns + (f->answer == ROUTE_OK ? LIFE_NS : NEGATIVE_LIFE_NS);
}

static void change(struct route_entry *e)
{
	e->changed = true;
	e->again_ns = 0;
}

void route_table_changed(struct route_table *t, int ifindex, const struct ip_addr *via)
{
	struct dnode *head = &t->by_via[set_of(via)];

	for (struct dnode *n = head->next; n != head; n = n->next) {
		struct route_entry *e = dlist_entry(n, struct route_entry, node);

		if (e->found.ifindex == ifindex && ip_addr_eq(&e->found.via, via))
			change(e);
	}
}

void route_table_changed_all(struct route_table *t)
{
	for (unsigned s = 0; s < ROUTE_SETS; s++) {
		for (unsigned i = 0; i < ROUTE_WAYS; i++) {
			change(&t->entry[s][i]);
			t->entry[s][i].asked_ns = 0;
		}
	}
}
