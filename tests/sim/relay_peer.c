/* SPDX-License-Identifier: Apache-2.0 */
#include "relay_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "daemon/relay/relay_wire.h"
#include "proxy/util/bytes.h"
#include "world.h"

#define HEAD_LEN     16 /* flags, channel, life, position; then a pattern */
#define CHUNKS_MAX   400
#define TAKES        4 /* of a channel in one run */
#define FENCE_ONE_IN 6
#define VOID_ONE_IN  20
#define LATE_NS      2000000
#define RETRY_NS     500000

enum { REC_NONE, REC_TAKEN, REC_COMMITTED, REC_VOID };

struct relay_record {
	uint8_t state;
	bool fence, done;
	uint16_t len;
	uint32_t taken_restarts; /* of the sender's edge when it was taken */
	uint32_t done_restarts;  /* of the receiver's edge when it was done */
};

void relay_peer_start(struct world *w)
{
	struct relay_world *r = &w->relay;

	relay_peer_free(w);
	memset(r, 0, sizeof(*r));
	rng_init(&r->rng, rng_hash(w->cfg.seed, 0x4e1a1));
	for (int site = 0; site < 2; site++)
		for (int c = 0; c < w->cfg.relay_channels; c++)
			r->stream[site][c].left = rng_below(&r->rng, CHUNKS_MAX);
}

void relay_peer_free(struct world *w)
{
	for (int site = 0; site < 2; site++)
		for (int c = 0; c < RELAY_PEER_CHANNELS; c++) {
			free(w->relay.stream[site][c].rec);
			w->relay.stream[site][c].rec = NULL;
		}
}

void relay_peer_crash(struct world *w, bool lost)
{
	w->relay.losses += lost;
}

/* --- records --- */

static struct relay_record *record(struct relay_stream *st, uint64_t pos)
{
	uint64_t i = pos - st->base;

	if (pos < st->base)
		return NULL;
	while (i >= st->n) {
		if (st->n == st->cap) {
			st->cap = st->cap ? 2 * st->cap : 64;
			st->rec = realloc(st->rec, st->cap * sizeof(*st->rec));
			if (!st->rec) {
				perror("lrsim: relay");
				exit(2);
			}
		}
		st->rec[st->n++] = (struct relay_record){0};
	}
	return &st->rec[i];
}

static uint8_t pattern(uint32_t channel, uint32_t life, uint64_t pos, uint32_t i)
{
	return (uint8_t)(pos * 31 + i * 7 + channel * 113 + life);
}

/* --- slots in hand --- */

static struct relay_hand *hand_new(struct relay_world *r)
{
	for (uint32_t i = 0; i < RELAY_PEER_HANDS; i++)
		if (!r->hand[i].used)
			return &r->hand[i];
	return NULL;
}

static struct edge_shard *shard_of(struct world *w, const struct relay_hand *h)
{
	return &w->edge[h->site].shard[h->shard];
}

static bool outlived(const struct world *w, const struct relay_hand *h)
{
	return !w->edge[h->site].down && w->edge[h->site].restarts == h->restarts;
}

static void finish_taken(struct world *w, struct relay_hand *h)
{
	struct relay_stream *st = &w->relay.stream[h->site][h->channel];
	struct relay_record *rec = record(st, h->pos);
	struct proxy *p = shard_of(w, h)->p;

	if (h->life != st->life) {
		proxy_relay_commit(p, w->q.now_ns, h->slot); /* nobody waits for it */
		return;
	}
	if (rng_below(&w->relay.rng, VOID_ONE_IN) == 0) {
		rec->state = REC_VOID;
		w->relay.voided++;
		proxy_relay_void(p, w->q.now_ns, h->slot);
		return;
	}
	rec->state = REC_COMMITTED;
	rec->len = h->len;
	rec->fence = rng_below(&w->relay.rng, FENCE_ONE_IN) == 0;
	h->data[0] = rec->fence ? RELAY_FENCE : 0;
	h->data[1] = (uint8_t)h->channel;
	put_be32(h->data + 2, h->life);
	put_be64(h->data + 6, h->pos);
	for (uint32_t i = 14; i < h->len; i++)
		h->data[i] = pattern(h->channel, h->life, h->pos, i);
	w->relay.committed++;
	proxy_relay_commit(p, w->q.now_ns, h->slot);
}

static void finish_handed(struct world *w, struct relay_hand *h)
{
	struct relay_stream *st = &w->relay.stream[!h->site][h->channel];
	struct relay_record *rec = h->life == st->life ? record(st, h->pos) : NULL;

	if (rec) {
		rec->done = true;
		rec->done_restarts = w->edge[h->site].restarts;
		w->relay.executed++;
	}
	proxy_relay_done(shard_of(w, h)->p, w->q.now_ns, h->slot);
}

static void on_finish(void *obj, uint64_t i)
{
	struct world *w = obj;
	struct relay_hand *h = &w->relay.hand[i];

	h->used = false;
	if (!outlived(w, h))
		return;
	if (w->edge[h->site].paused) {
		h->used = true;
		eventq_at(&w->q, w->q.now_ns + LATE_NS, on_finish, w, i);
		return;
	}
	if (h->executes)
		finish_handed(w, h);
	else
		finish_taken(w, h);
	edge_shard_run(shard_of(w, h));
}

static void finish_later(struct world *w, struct relay_hand *h)
{
	h->used = true;
	eventq_at(&w->q, w->q.now_ns + rng_below(&w->relay.rng, LATE_NS), on_finish, w,
	          (uint64_t)(h - w->relay.hand));
}

/* --- to the peer --- */

static void look_life(struct world *w, struct relay_stream *st, const struct relay_status *s)
{
	if (!s->life || s->life == st->life)
		return;
	if (st->life && st->losses == w->relay.losses)
		check_fail(w, "relay-life", "a channel begins a new life though no arena was lost");
	st->life = s->life;
	st->losses = w->relay.losses;
	st->base = st->fences = st->all_done = s->out_next;
	st->n = 0;
	st->seen = false;
}

/* False: not now. */
static bool take(struct edge_shard *s, uint32_t channel, struct relay_stream *st)
{
	struct world *w = s->edge->w;
	struct relay_hand *h = hand_new(&w->relay);
	uint16_t len = (uint16_t)rng_range(&w->relay.rng, HEAD_LEN, RELAY_CHUNK_MAX);
	struct relay_record *rec;
	struct relay_chunk c;

	if (!h || proxy_relay_take(s->p, w->q.now_ns, channel, len, channel % 2, &c) < 0)
		return false;
	st->left--;
	rec = record(st, c.pos);
	if (!rec || (rec->state == REC_TAKEN && rec->taken_restarts == s->edge->restarts) ||
	    rec->state > REC_TAKEN) {
		check_fail(w, "relay-position", "position %llu of channel %u is taken twice",
		           (unsigned long long)c.pos, channel);
		return false;
	}
	*rec = (struct relay_record){.state = REC_TAKEN, .taken_restarts = s->edge->restarts};
	*h = (struct relay_hand){.site = s->edge->site,
	                         .shard = s->cfg.shard,
	                         .restarts = s->edge->restarts,
	                         .channel = channel,
	                         .slot = c.slot,
	                         .life = st->life,
	                         .pos = c.pos,
	                         .data = c.data,
	                         .len = len};
	finish_later(w, h);
	return true;
}

static void on_retry(void *obj, uint64_t site)
{
	struct world *w = obj;
	struct edge *e = &w->edge[site];

	w->relay.waiting[site] = false;
	for (uint32_t i = 0; i < e->nshards && !e->down && !e->paused; i++)
		edge_shard_run(&e->shard[i]);
}

/* --- from the peer --- */

static bool fence_waits(struct relay_stream *st, uint64_t pos)
{
	for (; st->all_done < pos; st->all_done++) {
		const struct relay_record *rec = record(st, st->all_done);

		if (rec->state == REC_COMMITTED && !rec->done)
			return true;
	}
	return false;
}

static void check_handed(struct world *w, uint8_t site, struct relay_stream *st, const struct relay_chunk *c)
{
	const struct relay_record *rec = record(st, c->pos);
	bool again = rec && rec->done && rec->done_restarts == w->edge[site].restarts;

	if (!rec || rec->state != REC_COMMITTED || c->len != rec->len)
		check_fail(w, "relay-chunk", "position %llu was not committed like that", (unsigned long long)c->pos);
	else if (again || (rec->done && rec->fence))
		check_fail(w, "relay-twice", "position %llu is handed over again", (unsigned long long)c->pos);
	else if (c->pos < st->fences && !(rec->fence && c->pos + 1 == st->fences))
		check_fail(w, "relay-order", "position %llu is handed over after a fence behind it",
		           (unsigned long long)c->pos);
	else if (rec->fence && fence_waits(st, c->pos))
		check_fail(w, "relay-fence", "the fence at %llu is handed over before %llu is done",
		           (unsigned long long)c->pos, (unsigned long long)st->all_done);
	for (uint32_t i = 14; i < c->len; i++)
		if (c->data[i] != pattern(c->channel, st->life, c->pos, i)) {
			check_fail(w, "relay-bytes", "position %llu has other bytes", (unsigned long long)c->pos);
			break;
		}
	if (rec && rec->fence && c->pos >= st->fences)
		st->fences = c->pos + 1;
}

static bool hand_over(struct edge_shard *s)
{
	struct world *w = s->edge->w;
	struct relay_hand *h = hand_new(&w->relay);
	struct relay_stream *st;
	struct relay_chunk c;
	uint32_t life;

	if (!h || !proxy_relay_next(s->p, w->q.now_ns, &c))
		return false;
	st = &w->relay.stream[!s->edge->site][c.channel];
	life = get_be32(c.data + 2);
	if (c.len < HEAD_LEN || c.data[1] != c.channel || get_be64(c.data + 6) != c.pos)
		check_fail(w, "relay-bytes", "position %llu has another one's bytes", (unsigned long long)c.pos);
	else if (life == st->life)
		check_handed(w, s->edge->site, st, &c);
	else if (st->seen)
		check_fail(w, "relay-old-life", "a chunk of a life that is over is handed over");
	st->seen |= life == st->life;
	*h = (struct relay_hand){.site = s->edge->site,
	                         .executes = true,
	                         .shard = s->cfg.shard,
	                         .restarts = s->edge->restarts,
	                         .channel = c.channel,
	                         .slot = c.slot,
	                         .life = life,
	                         .pos = c.pos};
	finish_later(w, h);
	return true;
}

/* As fast as the core gives slots, from site A to site B. */
static void run_bulk(struct edge_shard *s)
{
	struct world *w = s->edge->w;
	struct relay_chunk c;

	while (s->edge->site == 0 &&
	       proxy_relay_take(s->p, w->q.now_ns, 0, RELAY_HEAD_LEN + RELAY_DATA_MAX, false, &c) == 0) {
		memset(c.data, 0, RELAY_HEAD_LEN);
		proxy_relay_commit(s->p, w->q.now_ns, c.slot);
	}
	while (proxy_relay_next(s->p, w->q.now_ns, &c)) {
		w->relay.bytes += c.len - RELAY_HEAD_LEN;
		proxy_relay_done(s->p, w->q.now_ns, c.slot);
	}
}

void relay_peer_run(struct edge_shard *s)
{
	struct world *w = s->edge->w;
	uint8_t site = s->edge->site;
	bool wants = false;

	if (w->cfg.relay_bulk) {
		run_bulk(s);
		return;
	}
	for (uint32_t c = 0; c < w->cfg.relay_channels && w->violation[0] == 0; c++) {
		struct relay_stream *st = &w->relay.stream[site][c];
		struct relay_status status;

		if (!proxy_relay_status(s->p, c, &status))
			continue;
		look_life(w, st, &status);
		for (int i = 0; i < TAKES && st->left && st->life && status.life && w->conns_over < w->nconns; i++)
			if (!take(s, c, st))
				break;
		wants |= st->left > 0 && w->conns_over < w->nconns;
	}
	while (w->violation[0] == 0 && hand_over(s))
		;
	if (!wants || w->relay.waiting[site])
		return;
	w->relay.waiting[site] = true;
	eventq_at(&w->q, w->q.now_ns + RETRY_NS, on_retry, w, site);
}

void relay_peer_end(struct world *w)
{
	for (int site = 0; site < 2; site++)
		for (uint32_t c = 0; c < w->cfg.relay_channels; c++) {
			struct relay_stream *st = &w->relay.stream[site][c];
			struct relay_status status;
			struct edge *e = &w->edge[site];

			if (!proxy_relay_status(e->shard[c % w->cfg.nlanes % e->nshards].p, c, &status))
				continue;
			look_life(w, st, &status); /* the life that lost an arena promises nothing */
			if (fence_waits(st, st->base + st->n))
				check_fail(w, "relay-lost", "position %llu of channel %u was committed and never executed",
				           (unsigned long long)st->all_done, c);
		}
}
