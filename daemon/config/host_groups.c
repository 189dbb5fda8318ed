/* SPDX-License-Identifier: Apache-2.0 */
#include "host_groups.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/util/bytes.h"

#define ADDRESSES_MAX (HOST_GROUPS_MAX * HOST_GROUP_ADDRESSES)

/* Addresses, each with the number of its machine. */
struct members {
	struct {
		struct ip_addr addr;
		uint32_t machine;
	} list[ADDRESSES_MAX];
	uint32_t n;
};

static int order(const struct ip_addr *a, const struct ip_addr *b)
{
	return memcmp(a->b, b->b, sizeof(a->b));
}

static uint32_t find_or_add(struct members *m, const struct ip_addr *a)
{
	uint32_t i = 0;

	while (i < m->n && !ip_addr_eq(&m->list[i].addr, a))
		i++;
	if (i == m->n) {
		m->list[i].addr = *a;
		m->list[i].machine = m->n++;
	}
	return i;
}

static void unite(struct members *m, uint32_t a, uint32_t b)
{
	uint32_t from = m->list[b].machine, to = m->list[a].machine;

	for (uint32_t i = 0; i < m->n; i++)
		if (m->list[i].machine == from)
			m->list[i].machine = to;
}

static void collect(const struct link_config *c, struct members *m)
{
	m->n = 0;
	for (uint32_t g = 0; g < c->nhost_groups; g++) {
		const struct host_group *group = &c->host_groups[g];
		uint32_t first = find_or_add(m, &group->addr[0]);

		for (uint32_t i = 1; i < group->n; i++)
			unite(m, first, find_or_add(m, &group->addr[i]));
	}
}

static const struct ip_addr *first_of(const struct members *m, uint32_t machine)
{
	const struct ip_addr *least = NULL;

	for (uint32_t i = 0; i < m->n; i++)
		if (m->list[i].machine == machine && (least == NULL || order(&m->list[i].addr, least) < 0))
			least = &m->list[i].addr;
	return least;
}

static int by_address(const void *a, const void *b)
{
	return order(&((const struct host_alias *)a)->addr, &((const struct host_alias *)b)->addr);
}

uint32_t host_groups_aliases(const struct link_config *c, struct host_alias alias[HOST_ALIASES_MAX])
{
	struct members m;
	uint32_t n = 0;

	_Static_assert(HOST_GROUPS_MAX * (HOST_GROUP_ADDRESSES - 1) <= HOST_ALIASES_MAX,
	               "all but one address of each group is an alias");
	collect(c, &m);
	for (uint32_t i = 0; i < m.n; i++) {
		const struct ip_addr *first = first_of(&m, m.list[i].machine);

		if (first != &m.list[i].addr)
			alias[n++] = (struct host_alias){m.list[i].addr, *first};
	}
	qsort(alias, n, sizeof(alias[0]), by_address);
	return n;
}

/* splitmix64: its step and its finalizer */
static uint64_t stir(uint64_t h, uint64_t more)
{
	uint64_t x = (h ^ more) + 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t host_groups_digest(const struct link_config *c)
{
	struct host_alias alias[HOST_ALIASES_MAX];
	uint32_t n = host_groups_aliases(c, alias);
	uint64_t h = n;

	for (uint32_t i = 0; i < n; i++) {
		h = stir(stir(h, get_be64(alias[i].addr.b)), get_be64(alias[i].addr.b + 8));
		h = stir(stir(h, get_be64(alias[i].host.b)), get_be64(alias[i].host.b + 8));
	}
	return h;
}
