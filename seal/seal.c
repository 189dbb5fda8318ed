/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - the keys of a shard, and what the core does with them. The theory of operation is in seal.h. */
#include "seal/seal.h"

#include <string.h>

#include <openssl/crypto.h>

#include "proxy/util/bytes.h"
#include "seal/aead.h"
#include "seal/hkdf.h"
#include "seal/secret_mem.h"

enum {
	HEADER_LEN = 16,
	GENERATIONS = 3, /* of a receiver: before, current, next */
	PHASES = 4,
	NOT_HERE = UINT16_MAX,
};

/* One lane in one direction. Generation g's key is keys[g % GENERATIONS] at a receiver, keys[0] at a sender. */
struct lane_keys {
	uint8_t secret[SEAL_SECRET_LEN]; /* of the newest generation there is a key of */
	uint8_t iv[GENERATIONS][SEAL_IV_LEN];
	void *state[GENERATIONS];
	uint64_t generation;      /* current */
	uint64_t first_pn, bytes; /* sender: what the current one was used for */
};

struct seal_keys {
	enum seal_cipher cipher;
	enum seal_direction dir;
	uint32_t epoch;
	struct seal_scope scope;
	const struct seal_aead *aead;
	size_t map_len;
	uint64_t *updates;         /* of the shard; NULL while not in use */
	uint32_t nlanes;           /* of this shard */
	uint32_t nspaces;          /* lanes on paths: those of path 0 first */
	uint16_t place[LANES_MAX]; /* of a lane among the shard's; NOT_HERE: it is another one's */
	struct lane_keys lane[];
};

struct seal {
	struct seal_keys *tx, *rx[2];
	struct seal_stats stats;
};

/* --- key schedule --- */

static void next_secret(struct lane_keys *l)
{
	uint8_t next[SEAL_SECRET_LEN];

	hkdf_expand_label(l->secret, "lr ku", NULL, 0, next, sizeof(next));
	memcpy(l->secret, next, sizeof(next));
	OPENSSL_cleanse(next, sizeof(next));
}

/* The key and IV that belong to the secret go into a place. */
static bool set_key(const struct seal_keys *k, struct lane_keys *l, unsigned place)
{
	uint8_t key[SEAL_KEY_MAX];
	bool ok;

	hkdf_expand_label(l->secret, "lr key", NULL, 0, key, seal_key_len(k->cipher));
	hkdf_expand_label(l->secret, "lr iv", NULL, 0, l->iv[place], SEAL_IV_LEN);
	ok = k->aead->set_key(l->state[place], key);
	OPENSSL_cleanse(key, sizeof(key));
	return ok;
}

static void lane_secret(const struct seal_secret *s, uint8_t path, uint8_t lane, uint8_t out[SEAL_SECRET_LEN])
{
	const uint8_t context[2] = {path, lane};

	hkdf_expand_label(s->bytes, "lr lane", context, sizeof(context), out, SEAL_SECRET_LEN);
}

static bool begin_lane(struct seal_keys *k, struct lane_keys *l)
{
	if (!set_key(k, l, 0))
		return false;
	if (k->dir == SEAL_TX)
		return true;
	next_secret(l);
	return set_key(k, l, 1);
}

static bool sender_update(struct seal_keys *k, struct lane_keys *l, uint64_t pn)
{
	next_secret(l);
	if (!set_key(k, l, 0))
		return false;
	l->generation++;
	l->first_pn = pn;
	l->bytes = 0;
	++*k->updates;
	return true;
}

/* A datagram of the next generation was authentic. */
static void receiver_update(struct seal_keys *k, struct lane_keys *l)
{
	l->generation++;
	next_secret(l);
	set_key(k, l, (unsigned)((l->generation + 1) % GENERATIONS));
	++*k->updates;
}

/* --- life --- */

static bool init_lanes(struct seal_keys *k, const struct seal_secret *secret, size_t state_len, uint8_t *states)
{
	unsigned places = k->dir == SEAL_TX ? 1 : GENERATIONS;

	for (uint32_t i = 0; i < LANES_MAX; i++)
		k->place[i] = NOT_HERE;
	for (uint32_t i = 0; i < k->nspaces; i++) {
		uint32_t lane = i % k->nlanes * k->scope.nshards + k->scope.shard;
		struct lane_keys *l = &k->lane[i];

		k->place[lane] = (uint16_t)(i % k->nlanes);
		for (unsigned j = 0; j < places; j++, states += state_len) {
			l->state[j] = states;
			if (!k->aead->init(l->state[j], k->cipher))
				return false;
		}
		lane_secret(secret, (uint8_t)(i / k->nlanes), (uint8_t)lane, l->secret);
		if (!begin_lane(k, l))
			return false;
	}
	return true;
}

static size_t aligned(size_t n)
{
	return (n + SEAL_KEY_ALIGN - 1) / SEAL_KEY_ALIGN * SEAL_KEY_ALIGN;
}

struct seal_keys *seal_keys_new(const struct seal_secret *secret, enum seal_direction dir, const struct seal_scope *of)
{
	uint32_t nlanes = (uint32_t)(of->nlanes - of->shard + of->nshards - 1) / of->nshards;
	uint32_t nspaces = nlanes * (of->npaths ? of->npaths : 1);
	size_t head = aligned(sizeof(struct seal_keys) + nspaces * sizeof(struct lane_keys));
	const struct seal_aead *aead = seal_aead_best(secret->cipher);
	size_t state_len, len;
	struct seal_keys *k;

	if (aead == NULL)
		return NULL;
	state_len = aligned(aead->key_size);
	len = head + nspaces * (dir == SEAL_TX ? 1 : GENERATIONS) * state_len;
	k = secret_map(len);
	if (k == NULL)
		return NULL;
	k->cipher = secret->cipher;
	k->dir = dir;
	k->epoch = secret->epoch;
	k->scope = *of;
	k->aead = aead;
	k->map_len = len;
	k->nlanes = nlanes;
	k->nspaces = nspaces;
	if (init_lanes(k, secret, state_len, (uint8_t *)k + head))
		return k;
	seal_keys_free(k);
	return NULL;
}

void seal_keys_free(struct seal_keys *k)
{
	if (k == NULL)
		return;
	for (uint32_t i = 0; i < k->nspaces; i++)
		for (unsigned j = 0; j < GENERATIONS; j++)
			if (k->lane[i].state[j] != NULL)
				k->aead->wipe(k->lane[i].state[j]);
	secret_unmap(k, k->map_len);
}

struct seal *seal_new(void)
{
	return secret_map(sizeof(struct seal));
}

void seal_free(struct seal *s)
{
	if (s == NULL)
		return;
	seal_keys_free(s->tx);
	seal_keys_free(s->rx[0]);
	seal_keys_free(s->rx[1]);
	secret_unmap(s, sizeof(*s));
}

void seal_take_tx(struct seal *s, struct seal_keys *k)
{
	seal_keys_free(s->tx);
	s->tx = k;
	k->updates = &s->stats.tx_updates;
}

void seal_take_rx(struct seal *s, struct seal_keys *k, uint32_t epoch_in_use)
{
	/* in the place of the one that was never used, or not any more */
	unsigned place = s->rx[0] != NULL && s->rx[0]->epoch == epoch_in_use && k->epoch != epoch_in_use;

	if (s->rx[1 - place] != NULL && s->rx[1 - place]->epoch != epoch_in_use) {
		seal_keys_free(s->rx[1 - place]);
		s->rx[1 - place] = NULL;
	}
	seal_keys_free(s->rx[place]);
	s->rx[place] = k;
	k->updates = &s->stats.rx_updates;
}

void seal_stats(const struct seal *s, struct seal_stats *st)
{
	*st = s->stats;
}

/* --- datagrams --- */

static struct lane_keys *lane_of(struct seal_keys *k, const struct wan_seal_id *id)
{
	if (k == NULL || k->epoch != id->epoch || id->path * k->nlanes >= k->nspaces || k->place[id->lane] == NOT_HERE)
		return NULL;
	return &k->lane[id->path * k->nlanes + k->place[id->lane]];
}

/* The packet number, big-endian, over the last eight bytes of the IV. RFC 9001 5.3 */
static void make_nonce(uint8_t nonce[SEAL_IV_LEN], const uint8_t iv[SEAL_IV_LEN], uint64_t pn)
{
	memcpy(nonce, iv, SEAL_IV_LEN - sizeof(pn));
	put_be64(nonce + SEAL_IV_LEN - sizeof(pn), get_be64(iv + SEAL_IV_LEN - sizeof(pn)) ^ pn);
}

static bool used_up(const struct seal_keys *k, const struct lane_keys *l, uint64_t pn, uint64_t times)
{
	return pn - l->first_pn >= k->scope.limits.datagrams * times || l->bytes >= k->scope.limits.bytes * times;
}

static int seal_phase(void *ctx, const struct wan_seal_id *id, uint64_t acked_end)
{
	struct seal_keys *k = ((struct seal *)ctx)->tx;
	struct lane_keys *l = lane_of(k, id);

	if (l == NULL)
		return WAN_SEAL_NO_KEY;
	if (used_up(k, l, id->wan_pn, 1) && acked_end > l->first_pn && !sender_update(k, l, id->wan_pn))
		return WAN_SEAL_NO_KEY;
	if (used_up(k, l, id->wan_pn, SEAL_HARD))
		return WAN_SEAL_USED_UP;
	return (int)(l->generation % PHASES);
}

static void seal_seal(void *ctx, const struct wan_seal_id *id, uint8_t *buf, size_t len,
                      const struct wan_seal_part *part, unsigned n)
{
	struct seal_keys *k = ((struct seal *)ctx)->tx;
	struct lane_keys *l = lane_of(k, id);
	uint8_t nonce[SEAL_IV_LEN];

	make_nonce(nonce, l->iv[0], id->wan_pn);
	l->bytes += len;
	k->aead->seal(l->state[0], nonce, buf, buf + HEADER_LEN, len - HEADER_LEN, part, n, buf + len);
}

static enum proxy_drop seal_open(void *ctx, const struct wan_seal_id *id, uint8_t *buf, size_t len)
{
	struct seal *s = ctx;
	struct seal_keys *k = s->rx[s->rx[0] == NULL || s->rx[0]->epoch != id->epoch];
	struct lane_keys *l = lane_of(k, id);
	unsigned ahead, place;
	uint8_t nonce[SEAL_IV_LEN];

	if (l == NULL)
		return DROP_WAN_BAD_KEY;
	ahead = (id->phase - (unsigned)l->generation) % PHASES;
	if (ahead == 2 || (ahead == 3 && l->generation == 0))
		return DROP_WAN_BAD_KEY;
	place = (unsigned)((l->generation + (ahead == 3 ? GENERATIONS - 1 : ahead)) % GENERATIONS);
	make_nonce(nonce, l->iv[place], id->wan_pn);
	if (!k->aead->open(l->state[place], nonce, buf, buf + HEADER_LEN, len - HEADER_LEN, buf + len))
		return DROP_WAN_BAD_TAG;
	if (ahead == 1)
		receiver_update(k, l);
	return DROP_NONE;
}

const struct wan_seal_ops seal_ops = {.phase = seal_phase, .seal = seal_seal, .open = seal_open};
