// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "line.h"
#include "units.h"

enum desc_state { DESC_IN_ORDER, DESC_LATE, DESC_GONE };

#define VLAN_TAG_LEN 4u
#define MACS_LEN     12u
#define ASSUMED_BPS  10000000000ull /* an unlimited line's memory is sized for this */

/* --- chance --- */

/* Draws in any case, so that a stream does not depend on the probability. */
static bool chance(struct rng *r, double p)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53 < p;
}

/* Gilbert: in a burst every frame is lost; a burst ends with probability 1/mean, and begins as often as makes the share
 * of lost frames come out at `loss`. */
static bool loses(struct line *l)
{
	double mean = l->p.loss_burst > 1 ? l->p.loss_burst : 1, p = l->p.loss;

	if (p <= 0) {
		l->in_burst = false;
		return false;
	}
	if (p >= 1)
		return true;
	if (mean <= 1)
		return chance(&l->rng_loss, p);
	if (l->in_burst)
		l->in_burst = !chance(&l->rng_loss, 1 / mean);
	else
		l->in_burst = chance(&l->rng_loss, p / (mean * (1 - p)));
	return l->in_burst;
}

/* --- memory --- */

static uint64_t bytes_in(uint64_t bps, uint64_t ns)
{
	return (uint64_t)((double)bps / 8 * (double)ns / 1e9);
}

uint64_t line_mem_needed(const struct line_params *p)
{
	uint64_t bps = p->rate_bps != 0 ? p->rate_bps : ASSUMED_BPS;
	uint64_t fibre_ns = p->delay_ns + p->jitter_ns + (p->reorder > 0 ? p->reorder_ns : 0);
	uint64_t queue = p->queue_bytes != 0 ? p->queue_bytes : bytes_in(bps, p->queue_ns);

	/* Half as much again, for duplicates and the unused end of the ring, and 10 ms for a late emulator. */
	return (bytes_in(bps, fibre_ns + 10 * NS_PER_MS) + queue) * 3 / 2 + (1u << 20);
}

static void *map_pages(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int line_init(struct line *l, const struct line_params *p, uint64_t mem_size, uint64_t seed)
{
	struct rng *streams[] = {&l->rng_loss, &l->rng_jitter, &l->rng_reorder, &l->rng_dup, &l->rng_corrupt};

	memset(l, 0, sizeof(*l));
	l->p = *p;
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
		rng_init(streams[i], seed * 0x2545f4914f6cdd1dull + i);
	l->mem_size = mem_size;
	l->desc_count = 1u << 16;
	while (l->desc_count < mem_size / 256)
		l->desc_count *= 2;
	l->mem = map_pages(mem_size);
	l->desc = map_pages(l->desc_count * sizeof(l->desc[0]));
	l->late = calloc(LINE_REORDER_MAX, sizeof(l->late[0]));
	if (l->mem != NULL && l->desc != NULL && l->late != NULL)
		return 0;
	line_destroy(l);
	return -ENOMEM;
}

void line_destroy(struct line *l)
{
	if (l->mem != NULL)
		munmap(l->mem, l->mem_size);
	if (l->desc != NULL)
		munmap(l->desc, l->desc_count * sizeof(l->desc[0]));
	free(l->late);
	l->mem = NULL;
	l->desc = NULL;
	l->late = NULL;
}

static struct line_desc *desc_at(const struct line *l, uint64_t seq)
{
	return &l->desc[seq & (l->desc_count - 1)];
}

/* A new descriptor with `len` bytes in one piece, or NULL if there is no room. */
static struct line_desc *reserve(struct line *l, uint32_t len)
{
	uint64_t off = l->tail, place = off % l->mem_size;
	struct line_desc *d;

	if (place + len > l->mem_size)
		off += l->mem_size - place;
	if (off + len - l->head > l->mem_size || l->d_end - l->d_free == l->desc_count)
		return NULL;
	d = desc_at(l, l->d_end++);
	d->off = off;
	d->len = len;
	l->tail = off + len;
	return d;
}

/* --- the heap of frames held back --- */

static bool earlier(const struct line_late *a, const struct line_late *b)
{
	return a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->seq < b->seq);
}

static void late_push(struct line *l, uint64_t due_ns, uint64_t seq)
{
	struct line_late e = {due_ns, seq};
	uint32_t i = l->nlate++;

	while (i > 0 && earlier(&e, &l->late[(i - 1) / 2])) {
		l->late[i] = l->late[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	l->late[i] = e;
}

static void late_pop(struct line *l)
{
	struct line_late e = l->late[--l->nlate];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < l->nlate) {
		if (child + 1 < l->nlate && earlier(&l->late[child + 1], &l->late[child]))
			child++;
		if (!earlier(&l->late[child], &e))
			break;
		l->late[i] = l->late[child];
		i = child;
	}
	l->late[i] = e;
}

/* --- taking in --- */

/* When the last bit of `len` bytes has left the serializer; false if the queue before it is full. */
static bool serialize(struct line *l, uint64_t at_ns, uint32_t len, uint64_t *out_ns)
{
	uint64_t wait_ns = l->busy_until_ns > at_ns ? l->busy_until_ns - at_ns : 0;
	uint64_t limit_ns = l->p.queue_ns;

	*out_ns = at_ns;
	if (l->p.rate_bps == 0)
		return true;
	if (l->p.queue_bytes != 0)
		limit_ns = (uint64_t)((double)l->p.queue_bytes * 8e9 / (double)l->p.rate_bps);
	if (wait_ns > limit_ns)
		return false;
	if (wait_ns > l->queue_peak_ns)
		l->queue_peak_ns = wait_ns;
	l->busy_until_ns = at_ns + wait_ns + (len + l->p.overhead_bytes) * 8 * NS_PER_S / l->p.rate_bps;
	*out_ns = l->busy_until_ns;
	return true;
}

static void copy_frame(uint8_t *to, const struct line_frame *f)
{
	if (f->vlan_tpid == 0) {
		memcpy(to, f->data, f->len);
		return;
	}
	memcpy(to, f->data, MACS_LEN);
	to[12] = (uint8_t)(f->vlan_tpid >> 8);
	to[13] = (uint8_t)f->vlan_tpid;
	to[14] = (uint8_t)(f->vlan_tci >> 8);
	to[15] = (uint8_t)f->vlan_tci;
	memcpy(to + MACS_LEN + VLAN_TAG_LEN, f->data + MACS_LEN, f->len - MACS_LEN);
}

/* One bit behind the MAC addresses and the ethertype: a frame that goes elsewhere would be a loss, not a corruption. */
static void corrupt(struct line *l, uint8_t *frame, uint32_t len)
{
	uint64_t bit = rng_u64(&l->rng_corrupt) % ((uint64_t)(len - 14) * 8);

	frame[14 + bit / 8] ^= (uint8_t)(1u << (bit % 8));
	l->n.corrupted++;
}

/* Puts one copy on the fibre at out_ns. */
static void launch(struct line *l, uint64_t out_ns, const struct line_frame *f, uint32_t len)
{
	struct line_desc *d = reserve(l, len);
	uint64_t due_ns = out_ns + l->p.delay_ns;
	uint8_t *to;

	if (d == NULL) {
		l->n.emu_no_room++;
		return;
	}
	l->held++;
	to = l->mem + d->off % l->mem_size;
	copy_frame(to, f);
	if (l->p.corrupt > 0 && len > 14 && chance(&l->rng_corrupt, l->p.corrupt))
		corrupt(l, to, len);
	if (l->p.jitter_ns != 0)
		due_ns += rng_u64(&l->rng_jitter) % (l->p.jitter_ns + 1);
	if (l->p.reorder > 0 && chance(&l->rng_reorder, l->p.reorder) && l->nlate < LINE_REORDER_MAX) {
		d->due_ns = due_ns + l->p.reorder_ns;
		d->state = DESC_LATE;
		late_push(l, d->due_ns, l->d_end - 1);
		l->n.reordered++;
		return;
	}
	if (due_ns < l->last_due_ns)
		due_ns = l->last_due_ns;
	l->last_due_ns = due_ns;
	d->due_ns = due_ns;
	d->state = DESC_IN_ORDER;
}

void line_push(struct line *l, uint64_t at_ns, const struct line_frame *f)
{
	uint32_t len = f->len + (f->vlan_tpid != 0 ? VLAN_TAG_LEN : 0);
	uint64_t out_ns;

	l->n.in_frames++;
	l->n.in_bytes += len;
	if (f->len < MACS_LEN + 2 || len > LINE_FRAME_MAX) {
		l->n.emu_oversize++;
	} else if (l->cut) {
		l->n.lost_cut++;
	} else if (loses(l)) {
		l->n.lost_random++;
	} else if (!serialize(l, at_ns, len, &out_ns)) {
		l->n.lost_queue++;
	} else {
		launch(l, out_ns, f, len);
		if (l->p.dup > 0 && chance(&l->rng_dup, l->p.dup)) {
			l->n.duplicated++;
			launch(l, out_ns, f, len);
		}
	}
}

/* --- giving out --- */

static void skip_late(struct line *l)
{
	while (l->d_next != l->d_end && desc_at(l, l->d_next)->state != DESC_IN_ORDER)
		l->d_next++;
}

uint64_t line_next_due(const struct line *l)
{
	uint64_t due_ns = LINE_NEVER;

	for (uint64_t seq = l->d_next; seq != l->d_end; seq++) {
		if (desc_at(l, seq)->state == DESC_IN_ORDER) {
			due_ns = desc_at(l, seq)->due_ns;
			break;
		}
	}
	if (l->nlate > 0 && l->late[0].due_ns < due_ns)
		due_ns = l->late[0].due_ns;
	return due_ns;
}

/* Takes the earliest frame that is due, NULL if none is. */
static struct line_desc *take(struct line *l, uint64_t now_ns)
{
	struct line_desc *d = NULL;

	skip_late(l);
	if (l->d_next != l->d_end)
		d = desc_at(l, l->d_next);
	if (l->nlate > 0 && (d == NULL || l->late[0].due_ns < d->due_ns)) {
		if (l->late[0].due_ns > now_ns)
			return NULL;
		d = desc_at(l, l->late[0].seq);
		late_pop(l);
	} else {
		if (d == NULL || d->due_ns > now_ns)
			return NULL;
		l->d_next++;
	}
	d->state = DESC_GONE;
	l->held--;
	return d;
}

uint32_t line_pop(struct line *l, uint64_t now_ns, struct line_out *out, uint32_t max)
{
	struct line_desc *d;
	uint32_t n = 0;

	while (n < max && (d = take(l, now_ns)) != NULL) {
		if (l->cut) {
			l->n.lost_cut++;
			continue;
		}
		out[n].data = l->mem + d->off % l->mem_size;
		out[n].len = d->len;
		out[n].due_ns = d->due_ns;
		l->n.out_frames++;
		l->n.out_bytes += d->len;
		n++;
	}
	return n;
}

void line_release(struct line *l)
{
	while (l->d_free != l->d_end && desc_at(l, l->d_free)->state == DESC_GONE)
		l->d_free++;
	l->head = l->d_free == l->d_end ? l->tail : desc_at(l, l->d_free)->off;
	if (l->d_next < l->d_free)
		l->d_next = l->d_free;
}
