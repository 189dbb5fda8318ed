/* SPDX-License-Identifier: Apache-2.0 */
#include "fec_tx.h"

#include <isa-l/crc.h>
#include <string.h>

#include "proxy/util/bytes.h"

void fec_pool_init(struct fec_pool *pool, uint8_t *data, uint32_t *free, uint32_t n, uint32_t stride)
{
	*pool = (struct fec_pool){.data = data, .stride = stride, .nfree = n, .n = n, .free = free};
	for (uint32_t i = 0; i < n; i++)
		free[i] = i;
}

static uint8_t *buf_of(const struct fec_pool *pool, const struct fec_block *b, unsigned group, unsigned row)
{
	return pool->data + (size_t)pool->stride * b->buf[group * b->plan.m + row];
}

static void give_back(struct fec_pool *pool, const struct fec_block *b)
{
	for (unsigned i = 0; i < (unsigned)b->plan.depth * b->plan.m; i++)
		pool->free[pool->nfree++] = b->buf[i];
}

void fec_tx_init(struct fec_tx *t)
{
	t->filling = t->sending = false;
	t->next = 0;
	t->last_id = t->done_id = 0;
}

void fec_tx_reset(struct fec_tx *t, struct fec_pool *pool)
{
	if (t->filling)
		give_back(pool, &t->fill);
	if (t->sending)
		give_back(pool, &t->out);
	fec_tx_init(t);
}

void fec_symbol_hdr(uint8_t *symbol, size_t frames_len)
{
	put_be16(symbol, (uint16_t)frames_len);
	put_be32(symbol + 2, crc32_gzip_refl(0, symbol + FEC_SYMBOL_HDR, frames_len));
}

/* --- filling --- */

/* The plan's depth, or as deep as buffers allow: other lanes need buffers, and so does the next block of this lane. */
static unsigned depth_for(const struct fec_pool *pool, const struct fec_plan *plan)
{
	unsigned depth = plan->depth, most = FEC_BLOCK_PARITY_MAX / plan->m;

	if (depth > most)
		depth = most;
	most = FEC_BLOCK_MAX / ((unsigned)plan->k + plan->m);
	if (depth > most)
		depth = most;
	most = pool->nfree / (2u * plan->m);
	if (depth > most)
		depth = most ? most : pool->nfree >= plan->m;
	return depth;
}

static bool open_block(struct fec_tx *t, struct fec_pool *pool, const struct fec_plan *plan, uint32_t id, uint64_t pn,
                       uint64_t now_ns)
{
	struct fec_block *b = &t->fill;
	unsigned depth = plan->k ? depth_for(pool, plan) : 0;

	if (!depth)
		return false;
	b->base = pn;
	b->opened_ns = now_ns;
	b->id = id;
	b->members = 0;
	b->span = 0;
	b->paid = false;
	b->plan = *plan;
	b->plan.depth = (uint8_t)depth;
	memset(b->len, 0, sizeof(b->len));
	for (unsigned i = 0; i < depth * plan->m; i++)
		b->buf[i] = pool->free[--pool->nfree];
	t->filling = true;
	return true;
}

static unsigned places_left(const struct fec_block *b, uint64_t pn)
{
	unsigned most = FEC_PLACES_MAX * b->plan.depth;

	if (most > FEC_BLOCK_MAX)
		most = FEC_BLOCK_MAX;
	return pn - b->base < most ? most - (unsigned)(pn - b->base) : 0;
}

static bool full(const struct fec_block *b)
{
	return b->members >= (uint32_t)b->plan.k * b->plan.depth;
}

bool fec_tx_add(struct fec_tx *t, struct fec_pool *pool, const struct fec_code *code, const struct fec_plan *plan,
                uint32_t id, uint64_t pn, const uint8_t *symbol, size_t len, uint64_t now_ns)
{
	struct fec_block *b = &t->fill;
	uint8_t *repair[FEC_M_MAX];
	unsigned group;

	if (t->filling && (full(b) || !places_left(b, pn))) {
		if (t->sending)
			return false;
		fec_tx_close(t, pool, b->plan.m);
	}
	if (len > pool->stride || (!t->filling && !open_block(t, pool, plan, id, pn, now_ns)))
		return false;
	group = (unsigned)(pn - b->base) % b->plan.depth;
	for (unsigned row = 0; row < b->plan.m; row++) {
		repair[row] = buf_of(pool, b, group, row);
		if (len > b->len[group])
			memset(repair[row] + b->len[group], 0, len - b->len[group]);
	}
	if (len > b->len[group])
		b->len[group] = (uint16_t)len;
	fec_code_add(code, (unsigned)(pn - b->base) / b->plan.depth, symbol, len, repair, b->plan.m);
	b->members++;
	t->last_id = b->id;
	b->span = (uint16_t)(pn - b->base + 1);
	if (full(b) && !t->sending)
		fec_tx_close(t, pool, b->plan.m);
	return true;
}

size_t fec_tx_row_bytes(const struct fec_tx *t)
{
	size_t n = 0;

	for (unsigned g = 0; g < t->fill.plan.depth; g++)
		n += t->fill.len[g];
	return n;
}

/* --- going out --- */

/* Goes on to the next repair of a group that has members. */
static void skip_empty(struct fec_tx *t)
{
	while (t->next < t->out.rows * t->out.plan.depth && t->out.len[t->next % t->out.plan.depth] == 0)
		t->next++;
}

void fec_tx_close(struct fec_tx *t, struct fec_pool *pool, unsigned rows)
{
	t->filling = false;
	t->out = t->fill;
	if (!rows) {
		give_back(pool, &t->out);
		return;
	}
	t->out.rows = (uint8_t)rows;
	t->sending = true;
	t->next = 0;
	skip_empty(t);
}

void fec_tx_next(const struct fec_tx *t, const struct fec_pool *pool, struct wan_fec *f)
{
	const struct fec_block *b = &t->out;
	unsigned group = t->next % b->plan.depth, row = t->next / b->plan.depth;

	*f = (struct wan_fec){.base = b->base,
	                      .span = b->span,
	                      .depth = b->plan.depth,
	                      .group = (uint8_t)group,
	                      .row = (uint8_t)row,
	                      .rows = b->rows,
	                      .len = b->len[group],
	                      .data = buf_of(pool, b, group, row)};
}

bool fec_tx_sent(struct fec_tx *t, struct fec_pool *pool)
{
	t->next++;
	skip_empty(t);
	if (t->next < t->out.rows * t->out.plan.depth)
		return false;
	give_back(pool, &t->out);
	t->sending = false;
	t->done_id = t->out.id;
	if (t->filling && full(&t->fill))
		fec_tx_close(t, pool, t->fill.plan.m);
	return true;
}

/* --- the budget for blocks that are closed early --- */

/* Time to save up for a repair: its bits at m/k of the rate. */
static uint64_t saving_ns(const struct fec_plan *plan, size_t bytes, uint64_t share_bps)
{
	return 1 + (uint64_t)((double)bytes * 8e9 * plan->k / ((double)(share_bps ? share_bps : 1) * plan->m));
}

void fec_budget_spend(struct fec_budget *b, const struct fec_plan *plan, size_t bytes, uint64_t share_bps,
                      uint64_t most_ns)
{
	b->next_ns += saving_ns(plan, bytes, share_bps);
	if (b->next_ns > most_ns)
		b->next_ns = most_ns;
}

unsigned fec_budget_rows(struct fec_budget *b, const struct fec_plan *plan, unsigned least, size_t row_bytes,
                         uint64_t share_bps, uint64_t saved_ns, uint64_t now_ns, uint64_t *when_ns)
{
	uint64_t row_ns = saving_ns(plan, row_bytes, share_bps), floor, rows;

	if (saved_ns < plan->m * row_ns)
		saved_ns = plan->m * row_ns;
	floor = now_ns > saved_ns ? now_ns - saved_ns : 0;
	if (b->next_ns < floor)
		b->next_ns = floor;
	if (b->next_ns + least * row_ns > now_ns) {
		*when_ns = b->next_ns + least * row_ns;
		return 0;
	}
	rows = (now_ns - b->next_ns) / row_ns;
	if (rows > plan->m)
		rows = plan->m;
	b->next_ns += rows * row_ns;
	return (unsigned)rows;
}
