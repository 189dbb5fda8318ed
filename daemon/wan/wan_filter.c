/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_filter.h"

#include "proxy/util/bytes.h"
#include "proxy/wan/dgram/wan_frame.h"

/* Theory of operation
 *
 * A load beyond the end of the datagram ends the program with 0, the first worker's socket: so the length is tested
 * first. Every test is a jump that goes on if it holds; its other target, the strays, is filled in at the end. */

#define LEN_MIN (WAN_HDR_LEN + WAN_TAG_LEN)
#define SRC4    ((uint32_t)SKF_NET_OFF + 12)
#define SRC6    ((uint32_t)SKF_NET_OFF + 8)

struct asm_prog {
	struct sock_filter *insn;
	uint16_t n;
};

static void emit(struct asm_prog *p, unsigned code, uint32_t k)
{
	p->insn[p->n++] = (struct sock_filter){.code = (uint16_t)code, .k = k};
}

static void require(struct asm_prog *p, unsigned size, uint32_t off, uint32_t value)
{
	emit(p, BPF_LD | size | BPF_ABS, off);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, value);
}

static void require_source(struct asm_prog *p, const struct ip_addr *a)
{
	if (ip_addr_is4(a)) {
		require(p, BPF_W, SRC4, get_be32(a->b + 12));
		return;
	}
	for (uint32_t i = 0; i < sizeof(a->b); i += 4)
		require(p, BPF_W, SRC6 + i, get_be32(a->b + i));
}

static void answer(struct asm_prog *p, uint32_t nshards, uint32_t which)
{
	emit(p, BPF_LD | BPF_B | BPF_ABS, WAN_LANE_BYTE);
	emit(p, BPF_ALU | BPF_MOD | BPF_K, nshards);
	emit(p, BPF_ALU | BPF_MUL | BPF_K, wan_filter_ours(1));
	emit(p, BPF_ALU | BPF_ADD | BPF_K, which);
	emit(p, BPF_RET | BPF_A, 0);
}

uint16_t wan_filter_build(const struct wan_filter_spec *s, struct sock_filter prog[WAN_FILTER_MAX])
{
	struct asm_prog p = {.insn = prog};
	uint16_t tests, tests_end;

	emit(&p, BPF_LD | BPF_W | BPF_LEN, 0);
	prog[p.n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LEN_MIN, 1, 0);
	emit(&p, BPF_RET | BPF_K, wan_filter_unmatched(0));
	tests = p.n;
	require(&p, BPF_B, 0, WAN_VERSION);
	require(&p, BPF_B, WAN_PATH_BYTE, s->path);
	require(&p, BPF_W, WAN_EPOCH_WORD, s->epoch);
	require_source(&p, &s->remote);
	tests_end = p.n;
	answer(&p, s->nshards, wan_filter_ours(0));
	for (uint16_t i = tests + 1; i < tests_end; i += 2) /* a load, a jump, and so on */
		prog[i].jf = (uint8_t)(p.n - i - 1);
	answer(&p, s->nshards, wan_filter_unmatched(0));
	return p.n;
}
