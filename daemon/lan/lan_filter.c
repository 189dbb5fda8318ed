/* SPDX-License-Identifier: Apache-2.0 */
#include "lan_filter.h"

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>

/* Theory of operation
 *
 * Conditional jumps of classic BPF reach 255 instructions, unconditional ones any distance. So a prefix test only jumps
 * within itself (to the next prefix), and a hit leaves the list by one unconditional jump that is patched when the end
 * of the list is known. Any other test that fails runs into a `ret 0` right behind it.
 *
 * The kernel moves an outer VLAN tag into the packet's metadata before packet sockets look at it, so the layer 3 header
 * is always ETH_HLEN bytes in.
 *
 * proxy_lane(): x = XOR of all 32-bit words of both addresses, lane = ((x * LANE_MULT) >> 16) % nlanes. If an address
 * is an alias, the words of its machine's first address count: the difference of both is XORed in. */

#define LANE_MULT 0x9E3779B1u
#define L3(off)   (ETH_HLEN + (off))

struct asm_prog {
	struct sock_filter *insn;
	uint16_t n;
};

static void emit(struct asm_prog *p, unsigned code, uint32_t k)
{
	p->insn[p->n++] = (struct sock_filter){.code = (uint16_t)code, .k = k};
}

static void emit_jump(struct asm_prog *p, unsigned op, uint32_t k, uint8_t jt, uint8_t jf)
{
	p->insn[p->n++] = (struct sock_filter){.code = (uint16_t)(BPF_JMP | op | BPF_K), .jt = jt, .jf = jf, .k = k};
}

/* Emits: goes on if A == k, otherwise drops the packet. */
static void require_eq(struct asm_prog *p, uint32_t k)
{
	emit_jump(p, BPF_JEQ, k, 1, 0);
	emit(p, BPF_RET | BPF_K, 0);
}

static void require_clear(struct asm_prog *p, uint32_t mask)
{
	emit_jump(p, BPF_JSET, mask, 0, 1);
	emit(p, BPF_RET | BPF_K, 0);
}

/* Emits a test of the `bits` leading bits of the address at `off`; a miss falls through its end, a hit jumps. Returns
 * the jump to patch. */
static uint16_t emit_prefix(struct asm_prog *p, uint32_t off, const uint8_t *addr, unsigned bits)
{
	unsigned words = (bits + 31) / 32;

	for (unsigned w = 0; w < words; w++) {
		unsigned here = bits - w * 32 < 32 ? bits - w * 32 : 32;
		uint32_t mask = here == 32 ? UINT32_MAX : ~(UINT32_MAX >> here);
		/* instructions between this test and the end: those of the words behind it, and the hit's jump */
		uint8_t miss = (uint8_t)((words - w - 1) * 3 + 1);

		emit(p, BPF_LD | BPF_W | BPF_ABS, off + w * 4);
		emit(p, BPF_ALU | BPF_AND | BPF_K, mask);
		emit_jump(p, BPF_JEQ, get_be32(addr + (size_t)w * 4) & mask, 0, miss);
	}
	emit(p, BPF_JMP | BPF_JA, 0);
	return (uint16_t)(p->n - 1);
}

/* Goes on if the address at `off` is in one of the prefixes of that family; an empty list lets any address through. */
static void require_prefix(struct asm_prog *p, uint32_t off, bool v4, const struct ip_prefix *pre, uint32_t npre)
{
	uint16_t hit[PREFIXES_MAX];
	uint32_t nhits = 0;

	if (npre == 0)
		return;
	for (uint32_t i = 0; i < npre && i < PREFIXES_MAX; i++) {
		if (ip_prefix_is4(&pre[i]) != v4)
			continue;
		hit[nhits++] = emit_prefix(p, off, pre[i].addr.b + (v4 ? 12 : 0), pre[i].len - (v4 ? 96u : 0u));
	}
	emit(p, BPF_RET | BPF_K, 0);
	for (uint32_t i = 0; i < nhits; i++)
		p->insn[hit[i]].k = (uint32_t)(p->n - hit[i] - 1);
}

/* A = XOR of n words from off. */
static void emit_xor_words(struct asm_prog *p, uint32_t off, unsigned n)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, off);
	for (unsigned i = 1; i < n; i++) {
		emit(p, BPF_MISC | BPF_TAX, 0);
		emit(p, BPF_LD | BPF_W | BPF_ABS, off + i * 4);
		emit(p, BPF_ALU | BPF_XOR | BPF_X, 0);
	}
}

static uint32_t fold(const struct ip_addr *a)
{
	if (ip_addr_is4(a))
		return get_be32(a->b + 12);
	return get_be32(a->b) ^ get_be32(a->b + 4) ^ get_be32(a->b + 8) ^ get_be32(a->b + 12);
}

/* If the address at `off` is this alias: M[0] ^= the alias's words XOR those of its machine. */
static void emit_alias(struct asm_prog *p, uint32_t off, const struct host_alias *a)
{
	bool v4 = ip_addr_is4(&a->addr);
	unsigned words = v4 ? 1 : 4;
	const uint8_t *b = a->addr.b + (v4 ? 12 : 0);

	for (unsigned w = 0; w < words; w++) {
		emit(p, BPF_LD | BPF_W | BPF_ABS, off + w * 4);
		emit_jump(p, BPF_JEQ, get_be32(b + (size_t)w * 4), 0, (uint8_t)((words - w - 1) * 2 + 3));
	}
	emit(p, BPF_LD | BPF_MEM, 0);
	emit(p, BPF_ALU | BPF_XOR | BPF_K, fold(&a->addr) ^ fold(&a->host));
	emit(p, BPF_ST, 0);
}

/* A holds the XOR of both addresses; afterwards A holds that of their machines. Skipped with one shard, which has all
 * lanes. */
static void emit_machines(struct asm_prog *p, const struct lan_filter_spec *s, bool v4)
{
	uint32_t src = v4 ? L3(12) : L3(8), dst = v4 ? L3(16) : L3(24);

	if (s->naliases == 0 || s->nshards == 1)
		return;
	emit(p, BPF_ST, 0);
	for (uint32_t i = 0; i < s->naliases && i < HOST_ALIASES_MAX; i++)
		if (ip_addr_is4(&s->alias[i].addr) == v4)
			emit_alias(p, ip_prefix_any(s->local, s->nlocal, &s->alias[i].addr) ? src : dst, &s->alias[i]);
	emit(p, BPF_LD | BPF_MEM, 0);
}

static void emit_v4(struct asm_prog *p, const struct lan_filter_spec *s)
{
	if (!s->all_ip) {
		emit(p, BPF_LD | BPF_B | BPF_ABS, L3(0));
		require_eq(p, 0x45);
		emit(p, BPF_LD | BPF_B | BPF_ABS, L3(9));
		require_eq(p, IPPROTO_UDP);
		emit(p, BPF_LD | BPF_H | BPF_ABS, L3(6));
		require_clear(p, 0x3fff); /* more fragments, fragment offset */
		emit(p, BPF_LD | BPF_H | BPF_ABS, L3(22));
		require_eq(p, ROCE_UDP_PORT);
	}
	require_prefix(p, L3(12), true, s->local, s->nlocal);
	require_prefix(p, L3(16), true, s->remote, s->nremote);
	emit_xor_words(p, L3(12), 2);
	emit_machines(p, s, true);
}

static void emit_v6(struct asm_prog *p, const struct lan_filter_spec *s)
{
	if (!s->all_ip) {
		emit(p, BPF_LD | BPF_B | BPF_ABS, L3(6));
		require_eq(p, IPPROTO_UDP);
		emit(p, BPF_LD | BPF_H | BPF_ABS, L3(42));
		require_eq(p, ROCE_UDP_PORT);
	}
	require_prefix(p, L3(8), false, s->local, s->nlocal);
	require_prefix(p, L3(24), false, s->remote, s->nremote);
	emit_xor_words(p, L3(8), 8);
	emit_machines(p, s, false);
}

/* A holds the XOR of both addresses: accept if the lane is of this shard. */
static void emit_lane(struct asm_prog *p, const struct lan_filter_spec *s)
{
	emit(p, BPF_ALU | BPF_MUL | BPF_K, LANE_MULT);
	emit(p, BPF_ALU | BPF_RSH | BPF_K, 16);
	emit(p, BPF_ALU | BPF_MOD | BPF_K, s->nlanes);
	emit(p, BPF_ALU | BPF_MOD | BPF_K, s->nshards);
	require_eq(p, s->shard);
	emit(p, BPF_RET | BPF_K, s->snaplen);
}

uint16_t lan_filter_build(const struct lan_filter_spec *s, struct sock_filter prog[LAN_FILTER_MAX])
{
	struct asm_prog p = {.insn = prog};
	uint16_t to_v4, to_lane;

	_Static_assert(LAN_FILTER_MAX <= BPF_MAXINSNS, "the kernel takes the longest program");
	emit(&p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE));
	require_eq(&p, s->other_mac ? PACKET_OTHERHOST : PACKET_HOST);
	emit(&p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL));
	emit_jump(&p, BPF_JEQ, ETH_P_IP, 0, 1);
	emit(&p, BPF_JMP | BPF_JA, 0);
	to_v4 = (uint16_t)(p.n - 1);
	require_eq(&p, ETH_P_IPV6);
	emit_v6(&p, s);
	emit(&p, BPF_JMP | BPF_JA, 0);
	to_lane = (uint16_t)(p.n - 1);
	p.insn[to_v4].k = (uint32_t)(p.n - to_v4 - 1);
	emit_v4(&p, s);
	p.insn[to_lane].k = (uint32_t)(p.n - to_lane - 1);
	emit_lane(&p, s);
	return p.n;
}
