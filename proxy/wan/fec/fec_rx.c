/* SPDX-License-Identifier: Apache-2.0 */
#include "fec_rx.h"

#include <isa-l/crc.h>
#include <string.h>

#include "proxy/util/bytes.h"

#define NO_MEMBER   0xffffu
#define NO_SPACE    UINT32_MAX
#define PN_KEPT_MAX (1ull << 48) /* numbers above (after years) are not kept */

uint32_t fec_rx_cells(uint32_t nkept)
{
	uint32_t n = 2 * FEC_BLOCK_MAX;

	while (n < 2 * nkept)
		n *= 2;
	return n;
}

void fec_rx_reset(struct fec_rx *rx)
{
	for (uint32_t i = 0; i < rx->nkept; i++)
		rx->kept[i].space = NO_SPACE;
	for (unsigned i = 0; i < FEC_WAITS; i++)
		rx->wait[i].space = NO_SPACE;
}

void fec_rx_init(struct fec_rx *rx, const struct fec_code *code, struct fec_solver *solver, uint8_t *data,
                 struct fec_kept *kept, uint32_t nkept, uint32_t stride, uint8_t *out)
{
	rx->code = code;
	rx->solver = solver;
	rx->data = data;
	rx->stride = stride;
	rx->nkept = nkept;
	rx->next = 0;
	rx->kept = kept;
	rx->cell_mask = fec_rx_cells(nkept) - 1;
	for (unsigned i = 0; i < FEC_M_MAX; i++)
		rx->out[i] = out + (size_t)i * (stride + WAN_HDR_LEN);
	fec_rx_reset(rx);
}

void fec_seen_reset(const struct fec_rx *rx, struct fec_seen *seen)
{
	memset(seen->cell, 0, (rx->cell_mask + 1) * sizeof(*seen->cell));
}

/* --- keeping --- */

static uint64_t *cell_of(const struct fec_rx *rx, const struct fec_seen *seen, uint64_t pn)
{
	return &seen->cell[pn & rx->cell_mask];
}

static uint8_t *data_of(const struct fec_rx *rx, uint32_t at)
{
	return rx->data + (size_t)rx->stride * at;
}

/* Takes the oldest place of the ring for a new symbol. */
static uint32_t take_place(struct fec_rx *rx, uint32_t space, uint64_t pn, size_t len)
{
	uint32_t at = rx->next;

	rx->next = at + 1 < rx->nkept ? at + 1 : 0;
	rx->kept[at] = (struct fec_kept){.pn = pn, .space = space, .len = (uint16_t)len};
	return at;
}

void fec_rx_keep(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn, const uint8_t *frames, size_t len,
                 uint64_t now_ns)
{
	uint32_t at;
	uint8_t *d;

	if (pn >= PN_KEPT_MAX || len + FEC_SYMBOL_HDR > rx->stride)
		return;
	at = take_place(rx, seen->space, pn, len + FEC_SYMBOL_HDR);
	rx->kept[at].came_ns = now_ns;
	d = data_of(rx, at);
	memcpy(d + FEC_SYMBOL_HDR, frames, len);
	fec_symbol_hdr(d, len);
	*cell_of(rx, seen, pn) = pn << 16 | (at + 1);
}

void fec_rx_no_member(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn)
{
	if (pn < PN_KEPT_MAX)
		*cell_of(rx, seen, pn) = pn << 16 | NO_MEMBER;
}

const uint8_t *fec_rx_kept(const struct fec_rx *rx, const struct fec_seen *seen, uint64_t pn, size_t *len)
{
	uint64_t c = *cell_of(rx, seen, pn);
	uint32_t at = (uint32_t)(c & 0xffff) - 1;

	if (c >> 16 != pn || at >= rx->nkept || rx->kept[at].space != seen->space || rx->kept[at].pn != pn)
		return NULL; /* NO_MEMBER is no place, either */
	*len = rx->kept[at].len - FEC_SYMBOL_HDR;
	return data_of(rx, at) + FEC_SYMBOL_HDR;
}

/* --- a group --- */

enum place_is { PLACE_HERE, PLACE_EMPTY, PLACE_LOST, PLACE_FORGOTTEN };

static enum place_is look_at_place(const struct fec_rx *rx, const struct fec_seen *seen, const struct wan_recv *recv,
                                   uint64_t pn, uint32_t *at)
{
	uint64_t c = *cell_of(rx, seen, pn);

	if (c >> 16 == pn && (c & 0xffff) == NO_MEMBER)
		return PLACE_EMPTY;
	if (c >> 16 == pn && c & 0xffff) {
		*at = (uint32_t)(c & 0xffff) - 1;
		return rx->kept[*at].space == seen->space && rx->kept[*at].pn == pn ? PLACE_HERE : PLACE_FORGOTTEN;
	}
	return wan_recv_seen(recv, pn) ? PLACE_FORGOTTEN : PLACE_LOST;
}

struct survey {
	unsigned nhave, nlost;
	uint8_t have[FEC_PLACES_MAX], lost[FEC_M_MAX];
	uint32_t at[FEC_PLACES_MAX];
	bool forgotten;
};

/* Surveys the places of the group. Lost places beyond FEC_M_MAX are counted but not listed. */
static void look_around(const struct fec_rx *rx, const struct fec_seen *seen, const struct wan_recv *recv,
                        const struct wan_fec *f, struct survey *s)
{
	s->nhave = s->nlost = 0;
	s->forgotten = false;
	for (unsigned i = f->group, place = 0; i < f->span; i += f->depth, place++) {
		switch (look_at_place(rx, seen, recv, f->base + i, &s->at[s->nhave])) {
		case PLACE_HERE:
			s->have[s->nhave++] = (uint8_t)place;
			break;
		case PLACE_LOST:
			if (s->nlost < FEC_M_MAX)
				s->lost[s->nlost] = (uint8_t)place;
			s->nlost++;
			break;
		case PLACE_FORGOTTEN:
			s->forgotten = true;
			break;
		default:
			break;
		}
	}
}

/* --- repairs that wait for others --- */

static struct fec_wait *wait_cell(struct fec_rx *rx, uint32_t space, const struct wan_fec *f)
{
	uint32_t h = ((uint32_t)f->base + f->group + space * 0x85ebca6bu) * 0x9e3779b1u;

	return &rx->wait[h >> 24];
}

static bool same_group(const struct fec_wait *w, uint32_t space, const struct wan_fec *f)
{
	return w->space == space && w->base == f->base && w->group == f->group;
}

/* True if the repair describes the group as the noted ones do. */
static bool repair_agrees(const struct fec_wait *w, const struct wan_fec *f)
{
	return w->span == f->span && w->depth == f->depth && w->len == f->len && w->rows == f->rows;
}

/* Forgets repairs whose places in the ring were taken by newer datagrams. */
static void drop_lost_repairs(const struct fec_rx *rx, struct fec_wait *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->n; i++) {
		const struct fec_kept *k = &rx->kept[w->at[i]];

		if (k->space != w->space || k->pn != w->pn[i])
			continue;
		w->row[n] = w->row[i];
		w->pn[n] = w->pn[i];
		w->at[n++] = w->at[i];
	}
	w->n = (uint8_t)n;
}

/* Notes the repair. False: it contradicts earlier repairs, or is there already. */
static bool note_repair(struct fec_rx *rx, struct fec_wait *w, uint32_t space, uint64_t pn, const struct wan_fec *f)
{
	uint32_t at;

	if (!same_group(w, space, f))
		*w = (struct fec_wait){.base = f->base,
		                       .space = space,
		                       .span = f->span,
		                       .len = f->len,
		                       .depth = f->depth,
		                       .group = f->group,
		                       .rows = f->rows};
	if (!repair_agrees(w, f))
		return false;
	drop_lost_repairs(rx, w);
	for (unsigned i = 0; i < w->n; i++)
		if (w->row[i] == f->row)
			return false;
	at = take_place(rx, space, pn, f->len);
	memcpy(data_of(rx, at), f->data, f->len);
	w->row[w->n] = f->row;
	w->pn[w->n] = pn;
	w->at[w->n++] = at;
	return true;
}

/* --- solving --- */

/* Hands over a rebuilt symbol: length, CRC, frames. */
static bool hand_over(struct fec_rx *rx, struct fec_seen *seen, uint64_t pn, const struct wan_fec *f, uint8_t *dgram,
                      uint64_t due_ns, fec_rebuilt_fn rebuilt, void *arg)
{
	uint8_t *symbol = dgram + WAN_HDR_LEN - FEC_SYMBOL_HDR;
	size_t len = get_be16(symbol);

	if (len == 0) {
		fec_rx_no_member(rx, seen, pn);
		return true;
	}
	if (len + FEC_SYMBOL_HDR > f->len || get_be32(symbol + 2) != crc32_gzip_refl(0, symbol + FEC_SYMBOL_HDR, len))
		return false;
	rebuilt(arg, pn, dgram, WAN_HDR_LEN + len, due_ns);
	return true;
}

/* About when a lost place would have come: when the group's next place came, or the one before. */
static uint64_t place_due_ns(const struct fec_rx *rx, const struct survey *s, unsigned place)
{
	for (unsigned i = 0; i < s->nhave; i++)
		if (s->have[i] > place || i + 1 == s->nhave)
			return rx->kept[s->at[i]].came_ns;
	return 0;
}

static bool solve_group(struct fec_rx *rx, struct fec_seen *seen, const struct fec_wait *w, const struct wan_fec *f,
                        const struct survey *s, fec_rebuilt_fn rebuilt, void *arg)
{
	uint64_t due_ns[FEC_M_MAX];
	uint8_t *out[FEC_M_MAX];
	bool ok = true;

	if (!fec_solver_begin(rx->solver, s->lost, s->nlost, w->row, s->have, s->nhave))
		return false;
	for (unsigned x = 0; x < s->nlost; x++) {
		due_ns[x] = place_due_ns(rx, s, s->lost[x]); /* now, before rebuilt datagrams take places in the ring */
		out[x] = rx->out[x] + WAN_HDR_LEN - FEC_SYMBOL_HDR;
		memset(out[x], 0, f->len);
	}
	for (unsigned i = 0; i < s->nhave; i++) {
		size_t len = rx->kept[s->at[i]].len;

		if (len > f->len)
			return false; /* longer than the group's longest symbol: not a member */
		fec_solver_add(rx->solver, i, data_of(rx, s->at[i]), len, out);
	}
	for (unsigned r = 0; r < s->nlost; r++)
		fec_solver_add(rx->solver, s->nhave + r, data_of(rx, w->at[r]), f->len, out);
	for (unsigned x = 0; x < s->nlost; x++)
		ok &= hand_over(rx, seen, f->base + f->group + (uint64_t)s->lost[x] * f->depth, f, rx->out[x],
		                due_ns[x], rebuilt, arg);
	return ok;
}

enum fec_outcome fec_rx_repair(struct fec_rx *rx, struct fec_seen *seen, const struct wan_recv *recv, uint64_t pn,
                               const struct wan_fec *f, fec_rebuilt_fn rebuilt, void *arg)
{
	struct fec_wait *w = wait_cell(rx, seen->space, f);
	struct survey s;

	if (f->base + f->span > pn || pn - f->base > rx->cell_mask || f->len > rx->stride || f->len <= FEC_SYMBOL_HDR)
		return FEC_NONSENSE;
	look_around(rx, seen, recv, f, &s);
	if (!s.nlost)
		return FEC_NOT_NEEDED;
	if (s.forgotten)
		return FEC_FORGOTTEN;
	if (!note_repair(rx, w, seen->space, pn, f))
		return FEC_NONSENSE;
	look_around(rx, seen, recv, f, &s); /* again: the repair may have taken the ring's place of a member */
	if (s.forgotten)
		return FEC_FORGOTTEN;
	if (s.nlost > w->n)
		return f->row + 1u < f->rows ? FEC_WAITS_FOR_MORE : FEC_BEYOND;
	w->space = NO_SPACE;
	return solve_group(rx, seen, w, f, &s, rebuilt, arg) ? FEC_SOLVED : FEC_NONSENSE;
}
