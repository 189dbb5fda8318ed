/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_path.h"

#include "core.h"

#define PTO_CAP_NS    100000000ull
#define PTO_DOUBLINGS 8

void wan_path_init(struct wan_path *path, uint8_t id, const struct wan_path_config *c, uint64_t rtt_hint_ns)
{
	path->id = id;
	path->pacer = c->pacer;
	path->payload_max = c->payload_max;
	wan_rtt_init(&path->rtt, rtt_hint_ns);
}

void pn_space_init(struct pn_space *s, uint8_t path, struct sent_pool *pool, uint32_t *page_ring, uint32_t ring_len,
                   uint64_t *rx_bits)
{
	s->path = path;
	wan_sent_init(&s->sent, pool, page_ring, ring_len);
	wan_recv_init(&s->recv, rx_bits);
	s->reorder_ns = REORDER_MIN_NS;
}

void pn_space_reset(struct pn_space *s, uint64_t now_ns)
{
	wan_sent_reset(&s->sent);
	wan_recv_reset(&s->recv);
	s->acked_end = 0;
	s->reorder_ns = REORDER_MIN_NS;
	s->pto_count = 0;
	s->last_progress_ns = now_ns;
	s->probe_due = s->report_due = false;
	s->ping_due = true;
}

uint64_t pn_space_pto_ns(const struct pn_space *s, const struct wan_path *path)
{
	uint64_t once = wan_rtt_pto_ns(&path->rtt);

	return min_u64(once << (s->pto_count < PTO_DOUBLINGS ? s->pto_count : PTO_DOUBLINGS),
	               max_u64(PTO_CAP_NS, 2 * once));
}

void pn_space_adapt_reorder(struct pn_space *s, const struct wan_path *path, const struct wan_sent_result *res)
{
	uint64_t most = max_u64(wan_rtt_min_ns(&path->rtt) / 4, REORDER_MIN_NS);

	if (res->spurious)
		s->reorder_ns = max_u64(res->spurious_ns + res->spurious_ns / 4, 2 * s->reorder_ns);
	else
		s->reorder_ns -= s->reorder_ns / 1024;
	s->reorder_ns = clamp_u64(s->reorder_ns, REORDER_MIN_NS, most);
}
