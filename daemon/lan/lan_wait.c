/* SPDX-License-Identifier: Apache-2.0 */
#include "lan_wait.h"

#include <string.h>

void lan_wait_init(struct lan_wait *w)
{
	w->n = 0;
	for (uint32_t i = 0; i < LAN_WAIT_MAX; i++)
		w->order[i] = (uint8_t)i;
}

static uint32_t count_host(const struct lan_wait *w, const struct ip_addr *dst)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < w->n; i++)
		count += ip_addr_eq(&lan_wait_at(w, i)->dst, dst);
	return count;
}

bool lan_wait_holds(const struct lan_wait *w, const struct ip_addr *dst)
{
	return w->n > 0 && count_host(w, dst) > 0;
}

bool lan_wait_put(struct lan_wait *w, const struct lan_tx *tx, uint64_t now_ns)
{
	struct waiting_packet *p;
	size_t len = (size_t)tx->hdr_len + tx->body_len + tx->trailer_len;

	if (w->n == LAN_WAIT_MAX || len > sizeof(p->bytes) || count_host(w, &tx->dst) >= LAN_WAIT_PER_HOST)
		return false;
	p = &w->packet[w->order[w->n++]];
	p->dst = tx->dst;
	p->until_ns = now_ns + (tx->answer ? LAN_ANSWER_NS : LAN_WAIT_NS);
	p->vlan_tci = tx->vlan_tci;
	p->routed = tx->routed;
	p->len = (uint16_t)len;
	memcpy(p->bytes, tx->hdr, tx->hdr_len);
	if (tx->body_len)
		memcpy(p->bytes + tx->hdr_len, tx->body, tx->body_len);
	memcpy(p->bytes + tx->hdr_len + tx->body_len, tx->trailer, tx->trailer_len);
	return true;
}

void lan_wait_remove(struct lan_wait *w, uint32_t i)
{
	uint8_t idx = w->order[i];

	memmove(w->order + i, w->order + i + 1, w->n - i - 1);
	w->order[--w->n] = idx;
}
