/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_pmtu.h"

#include <string.h>

#define EVIDENCE_CLEAN 4 /* evidence of a lost probe, if less than 1/16 of the other datagrams was lost */
#define EVIDENCE_LOSSY 2 /* evidence of a lost probe, if less than 1/4 was lost, or if that is not known */
#define EVIDENCE_BAD   1
#define EVIDENCE_ENOUGH (PMTU_TRIES * EVIDENCE_CLEAN)

static const uint16_t likely[] = {1472, 1452}; /* payload of an Ethernet MTU, by IPv4 and by IPv6 */

void wan_pmtu_init(struct wan_pmtu *m, uint16_t max, bool search)
{
	*m = (struct wan_pmtu){.search = search && max > PMTU_BASE, .max = max};
	m->failed = (uint16_t)(max + 1);
	m->size = max;
}

static void try_size(struct wan_pmtu *m, uint16_t size)
{
	m->probe = size;
	m->under_way = m->doubt = false;
	m->evidence = 0;
}

void wan_pmtu_restart(struct wan_pmtu *m, uint64_t now_ns)
{
	memset(m->lost, 0, sizeof(m->lost));
	m->came_ns = now_ns;
	try_size(m, 0);
	m->failed = (uint16_t)(m->max + 1);
	m->size = m->search ? PMTU_BASE : m->max;
	if (m->search)
		try_size(m, m->max);
}

uint16_t wan_pmtu_in_force(const struct wan_pmtu *m)
{
	return m->doubt ? PMTU_BASE : m->size;
}

/* Chooses the next size to try, between the largest that came through and the least that did not. */
static void go_on(struct wan_pmtu *m, uint64_t now_ns)
{
	try_size(m, 0);
	m->raise_ns = now_ns + PMTU_RAISE_NS;
	if (m->size >= m->max || m->failed <= m->size + PMTU_CLOSE)
		return;
	try_size(m, (uint16_t)(m->failed > m->max ? m->max : (m->size + m->failed) / 2));
	for (unsigned i = 0; i < sizeof(likely) / sizeof(likely[0]); i++)
		if (m->failed <= m->max && likely[i] > m->size && likely[i] < m->failed) {
			try_size(m, likely[i]);
			return;
		}
}

void wan_pmtu_sent(struct wan_pmtu *m)
{
	m->under_way = true;
	m->came = m->missed = 0;
}

/* A datagram of `bytes` came through: forgets losses of datagrams no larger. True if no loss is left. */
static bool refute_losses(struct wan_pmtu *m, uint32_t bytes)
{
	bool all = true;

	for (unsigned i = 0; i < PMTU_HOLE; i++) {
		if (m->lost[i] <= bytes)
			m->lost[i] = 0;
		else
			all = false;
	}
	return all;
}

bool wan_pmtu_came(struct wan_pmtu *m, uint32_t bytes, bool probe, uint64_t now_ns)
{
	if (!m->search)
		return false;
	m->came += !probe;
	if (bytes <= PMTU_BASE)
		return false;
	if (refute_losses(m, bytes))
		m->came_ns = now_ns;
	if (m->doubt && bytes >= m->probe) {
		go_on(m, now_ns);
		return m->probe != 0;
	}
	if (!probe || bytes <= m->size || bytes >= m->failed || bytes > m->max)
		return false;
	m->size = (uint16_t)bytes;
	go_on(m, now_ns);
	return m->probe != 0;
}

/* The evidence that the loss of a probe is. A full queue may have room for small datagrams and none for a large probe:
 * so a size that had come through is given up after twice as many lost probes, and after four times as many where small
 * datagrams are lost, too. */
static uint8_t loss_evidence(const struct wan_pmtu *m)
{
	uint32_t all = m->came + m->missed;

	if (m->doubt)
		return m->missed * 16 <= all ? EVIDENCE_LOSSY : EVIDENCE_BAD;
	return m->missed * 16 <= all ? EVIDENCE_CLEAN : m->missed * 4 <= all ? EVIDENCE_LOSSY : EVIDENCE_BAD;
}

static void fall_to_base(struct wan_pmtu *m, uint64_t now_ns)
{
	m->holes++;
	m->size = PMTU_BASE;
	memset(m->lost, 0, sizeof(m->lost));
	m->came_ns = now_ns;
}

static bool probe_lost(struct wan_pmtu *m, uint32_t bytes, uint64_t now_ns)
{
	if (bytes != m->probe || !m->under_way)
		return false; /* a probe of an earlier search */
	m->under_way = false;
	m->evidence += loss_evidence(m);
	if (m->evidence >= EVIDENCE_ENOUGH) {
		if (m->doubt)
			fall_to_base(m, now_ns);
		m->failed = m->probe;
		go_on(m, now_ns);
	}
	return m->probe != 0;
}

/* Notes a loss. Returns the largest noted size when there are PMTU_HOLE of them, else 0. */
static uint16_t note_loss(struct wan_pmtu *m, uint32_t bytes)
{
	uint16_t most = (uint16_t)bytes;
	bool noted = false;

	for (unsigned i = 0; i < PMTU_HOLE; i++) {
		if (!m->lost[i] && noted)
			return 0;
		if (!m->lost[i]) {
			m->lost[i] = (uint16_t)bytes;
			noted = true;
		}
		most = m->lost[i] > most ? m->lost[i] : most;
	}
	return most;
}

bool wan_pmtu_lost(struct wan_pmtu *m, uint32_t bytes, bool probe, uint64_t rtt_ns, uint64_t now_ns)
{
	uint16_t most;

	if (!m->search)
		return false;
	if (probe)
		return probe_lost(m, bytes, now_ns);
	m->missed += bytes <= wan_pmtu_in_force(m);
	if (bytes <= PMTU_BASE || bytes > m->size)
		return false;
	most = note_loss(m, bytes);
	if (m->doubt || !most || now_ns < m->came_ns + PMTU_SILENT_RTTS * rtt_ns / 2)
		return false;
	try_size(m, most);
	m->doubt = true;
	return true;
}

bool wan_pmtu_on_timer(struct wan_pmtu *m, uint64_t now_ns)
{
	if (m->search && !m->probe && m->size < m->max && now_ns >= m->raise_ns) {
		m->failed = (uint16_t)(m->max + 1);
		go_on(m, now_ns);
	}
	return wan_pmtu_due(m) != 0;
}
