/* SPDX-License-Identifier: Apache-2.0 */
#include "word.h"

#include <string.h>

#include "check.h"
#include "world.h"
#include "proxy/util/bytes.h"
#include "proxy/roce/ip.h"

#define TCP_LEN   20
#define TCP_PSH   0x18 /* PSH, ACK */
#define PORT      5000
#define HEAD_LEN  20 /* hash(8) length(4) entries(4) side(4) */
#define ENTRY_LEN 16 /* connection(4) round(4) completed(8) */
#define WORD_MAX  9000

/* Like TCP's checksum it is of the addresses and ports, too: no host hears a word with a bit of these flipped, which
 * IPv6 has no checksum for, and to the edges it is a word between other machines. */
static uint64_t hash_of(const uint8_t *l3, size_t ip_len, const uint8_t *body, size_t len)
{
	size_t from = ip_len == 40 ? 8 : 12;
	uint64_t h = len;

	for (size_t i = from; i < ip_len + 4; i++)
		h = rng_hash(h, l3[i]);
	for (size_t i = 8; i < len; i++)
		h = rng_hash(h, body[i]);
	return h;
}

static size_t put_ip(const struct qp *q, uint8_t *l3, size_t l4_len)
{
	uint32_t sum = 0;

	if (q->ip6) {
		memset(l3, 0, 40);
		l3[0] = 0x60;
		put_be16(l3 + 4, (uint16_t)l4_len);
		l3[6] = 6;
		l3[7] = 64;
		memcpy(l3 + 8, q->addr.b, 16);
		memcpy(l3 + 24, q->peer_addr.b, 16);
		return 40;
	}
	memset(l3, 0, 20);
	l3[0] = 0x45;
	put_be16(l3 + 2, (uint16_t)(20 + l4_len));
	l3[6] = 0x40;
	l3[8] = 64;
	l3[9] = 6;
	memcpy(l3 + 12, q->addr.b + 12, 4);
	memcpy(l3 + 16, q->peer_addr.b + 12, 4);
	for (int i = 0; i < 20; i += 2)
		sum += get_be16(l3 + i);
	sum = (sum & 0xffff) + (sum >> 16);
	put_be16(l3 + 10, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
	return 20;
}

bool word_same_machines(const struct conn *c, const struct conn *other)
{
	enum world_groups groups = c->w->cfg.groups;

	if (other->state == CONN_WAITING || other->state == CONN_OVER)
		return false;
	if (groups == GROUPS_SITE)
		return true;
	return other->cfg.host[0] == c->cfg.host[0] && other->cfg.host[1] == c->cfg.host[1] &&
	       (groups == GROUPS_HOST || other->cfg.ip6 == c->cfg.ip6);
}

static uint32_t put_entries(const struct conn *c, int side, uint8_t *out)
{
	const struct world *w = c->w;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->nconns; i++) {
		const struct conn *k = &w->conn[i];

		if (!word_same_machines(c, k))
			continue;
		put_be32(out, i);
		put_be32(out + 4, k->round);
		put_be64(out + 8, k->qp[side]->req.msg_completed);
		out += ENTRY_LEN;
		n++;
	}
	return n;
}

void word_on_completion(struct conn *c, int side)
{
	struct world *w = c->w;
	const struct qp *q = c->qp[side];
	uint64_t h = rng_hash(rng_hash(w->cfg.seed, c->id), q->req.msg_completed * 2 + (uint64_t)side);
	uint8_t l4[TCP_LEN + WORD_MAX] = {0}, *body = l4 + TCP_LEN;
	size_t len, ip_len;
	struct pkt *p;

	if (w->cfg.word_every == 0 || w->cfg.direct || h % w->cfg.word_every != 0)
		return;
	put_be32(body + 12, put_entries(c, side, body + HEAD_LEN));
	put_be32(body + 16, (uint32_t)side);
	len = HEAD_LEN + ENTRY_LEN * (size_t)get_be32(body + 12);
	for (size_t pad = (h >> 32) % 4 ? 0 : (h >> 40) % (WORD_MAX - 60 - len); pad; pad--)
		body[len++] = (uint8_t)(h >> pad % 50);
	put_be32(body + 8, (uint32_t)len);
	put_be16(l4, PORT);
	put_be16(l4 + 2, PORT);
	l4[12] = TCP_LEN / 4 << 4;
	l4[13] = TCP_PSH;
	p = pkt_new(40 + TCP_LEN + len);
	ip_len = put_ip(q, p->data, TCP_LEN + len);
	memcpy(p->data + ip_len, l4, TCP_LEN + len);
	put_be64(p->data + ip_len + TCP_LEN, hash_of(p->data, ip_len, body, len));
	p->len = (uint32_t)(ip_len + TCP_LEN + len);
	p->vlan_tci = q->vlan_tci;
	host_send_mad(q->host, p);
}

bool word_is(const struct pkt *p)
{
	struct ip_pkt ip;

	return ip_parse(p->data, p->len, &ip) == DROP_NONE && ip.has_ports && ip.dport == PORT;
}

/* Edges may let it go early only when the bytes in front of it cannot get through, or wait for a receive. */
static void check_entry(struct world *w, const uint8_t *e, int side)
{
	struct conn *c = &w->conn[get_be32(e)];
	uint64_t said = get_be64(e + 8), executed = c->qp[!side]->resp.msg;
	bool waived = edge_waived(&w->edge[!side]) > 0;

	if (c->round != get_be32(e + 4) || executed >= said || !check_relies(c, side))
		return;
	if (waived && check_waits_in_vain(c))
		return;
	check_fail(w, waived ? "word-waived" : "word-overtakes",
	           "connection %u: a word from %c says that %llu messages are complete, %llu were executed", c->id,
	           'A' + side, (unsigned long long)said, (unsigned long long)executed);
}

void word_heard(struct host *h, const struct pkt *p)
{
	struct world *w = h->w;
	const uint8_t *body;
	struct ip_pkt ip;
	size_t len;

	ip_parse(p->data, p->len, &ip);
	body = p->data + ip.hdr_len + TCP_LEN;
	len = ip.len - ip.hdr_len - (size_t)TCP_LEN;
	w->words_heard++;
	if (len < HEAD_LEN || get_be32(body + 8) != len || get_be64(body) != hash_of(p->data, ip.hdr_len, body, len)) {
		if (w->cfg.lan.corrupt == 0)
			check_fail(w, "word-damaged", "%zu bytes arrived at host %u, site %c", len, h->index,
			           'A' + h->site);
		return;
	}
	for (uint32_t i = 0; i < get_be32(body + 12) && !w->violation[0]; i++)
		check_entry(w, body + HEAD_LEN + (size_t)i * ENTRY_LEN, (int)get_be32(body + 16));
}
