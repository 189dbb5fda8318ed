/* SPDX-License-Identifier: Apache-2.0 */
/* The key schedule, the ciphers, and two edges of the core that talk through them. */
#include "core_fixture.h"

#include "seal/aead.h"
#include "seal/hkdf.h"
#include "seal/seal.h"

static void from_hex(uint8_t *out, const char *hex)
{
	for (size_t i = 0; hex[2 * i] != '\0'; i++) {
		unsigned byte;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		out[i] = (uint8_t)byte;
	}
}

static void expect_label(const char *secret_hex, const char *label, size_t len, const char *want_hex)
{
	uint8_t secret[32], out[32], want[32];

	from_hex(secret, secret_hex);
	from_hex(want, want_hex);
	hkdf_expand_label(secret, label, NULL, 0, out, len);
	assert_memory_equal(out, want, len);
}

/* RFC 9001 appendices A.1 and A.5. */
static void hkdf__vectors_of_rfc_9001(void **state)
{
	static const char client[] = "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea";
	static const char chacha[] = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b";

	(void)state;
	expect_label(client, "quic key", 16, "1f369613dd76d5467730efcbe3b1a22d");
	expect_label(client, "quic iv", 12, "fa044b2f42a3fd3b46fb255c");
	expect_label(client, "quic hp", 16, "9f50449e04a0e810283a1e9933adedd2");
	expect_label(chacha, "quic key", 32, "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8");
	expect_label(chacha, "quic ku", 32, "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9");
}

/* --- providers --- */

struct keyed {
	const struct seal_aead *a;
	_Alignas(SEAL_KEY_ALIGN) uint8_t state[16384];
};

static bool open_keyed(struct keyed *k, const struct seal_aead *a, enum seal_cipher c, const uint8_t *key)
{
	memset(k, 0, sizeof(*k));
	k->a = a;
	assert_true(a->key_size <= sizeof(k->state));
	return a->init(k->state, c) && a->set_key(k->state, key);
}

/* McGrew and Viega's test cases 2 and 14: zero key, IV and data. Their tags are without associated data, ours never. */
static void aead__known_answers(void **state)
{
	static const struct {
		enum seal_cipher cipher;
		const char *text;
	} want[] = {
	    {SEAL_AES_128_GCM, "0388dace60b6a392f328c2b971b2fe78"},
	    {SEAL_AES_256_GCM, "cea7403d4d606b6e074ec5d3baf39d18"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		for (unsigned p = 0; seal_aeads[p] != NULL; p++) {
			uint8_t zero[32] = {0}, data[16] = {0}, tag[16], right[16];
			struct keyed k;

			assert_true(open_keyed(&k, seal_aeads[p], want[i].cipher, zero));
			k.a->seal(k.state, zero, zero, data, sizeof(data), NULL, 0, tag);
			from_hex(right, want[i].text);
			assert_memory_equal(data, right, sizeof(data));
			k.a->wipe(k.state);
		}
	}
}

static uint32_t rng_state = 1;

static uint8_t any_byte(void)
{
	rng_state = rng_state * 1664525u + 1013904223u;
	return (uint8_t)(rng_state >> 24);
}

static void any_bytes(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = any_byte();
}

/* Sealed from parts or in one piece: the same bytes, in every library. */
static void aead__parts_make_no_difference(void **state)
{
	(void)state;
	for (unsigned c = SEAL_NONE + 1; c < SEAL_CIPHER_COUNT; c++) {
		for (unsigned n = 0; seal_aeads[n] != NULL; n++) {
			for (unsigned round = 0; round < 200; round++) {
				uint8_t key[32], iv[12], aad[16], plain[3000], whole[3000], parted[3000], tag[16],
				    tag2[16];
				struct wan_seal_part part[4];
				unsigned parts = 0;
				struct keyed k;

				any_bytes(key, sizeof(key));
				any_bytes(iv, sizeof(iv));
				any_bytes(aad, sizeof(aad));
				any_bytes(plain, sizeof(plain));
				memcpy(whole, plain, sizeof(whole));
				memcpy(parted, plain, sizeof(parted));
				for (unsigned at = any_byte() % 64; parts < 4; at += any_byte() % 64) {
					uint16_t len = (uint16_t)(any_byte() * 2 + 1);

					part[parts++] = (struct wan_seal_part){
					    .from = plain + at, .off = (uint16_t)at, .len = len};
					memset(parted + at, 0xee, len);
					at += len;
				}
				assert_true(open_keyed(&k, seal_aeads[n], c, key));
				k.a->seal(k.state, iv, aad, whole, sizeof(whole), NULL, 0, tag);
				k.a->seal(k.state, iv, aad, parted, sizeof(parted), part, parts, tag2);
				assert_memory_equal(whole, parted, sizeof(whole));
				assert_memory_equal(tag, tag2, sizeof(tag));
				k.a->wipe(k.state);
			}
		}
	}
}

/* Every library opens what every library sealed, whatever the length. */
static void aead__libraries_agree(void **state)
{
	(void)state;
	for (unsigned c = SEAL_NONE + 1; c < SEAL_CIPHER_COUNT; c++) {
		for (unsigned n = 0; seal_aeads[n] != NULL; n++) {
			for (size_t len = 0; len < 9000; len = len < 300 ? len + 1 : len + 997) {
				uint8_t key[32], iv[12], aad[16], data[9216], plain[9216], tag[16], bytes[9216];
				struct keyed a, b;

				any_bytes(key, sizeof(key));
				any_bytes(iv, sizeof(iv));
				any_bytes(aad, sizeof(aad));
				any_bytes(plain, len);
				memcpy(data, plain, len);
				assert_true(open_keyed(&a, seal_aeads[0], c, key));
				assert_true(open_keyed(&b, seal_aeads[n], c, key));
				a.a->seal(a.state, iv, aad, data, len, NULL, 0, tag);
				memcpy(bytes, data, len);
				assert_true(b.a->open(b.state, iv, aad, data, len, tag));
				assert_memory_equal(data, plain, len);
				b.a->seal(b.state, iv, aad, data, len, NULL, 0, tag);
				assert_memory_equal(data, bytes, len);
				assert_true(a.a->open(a.state, iv, aad, data, len, tag));
				memcpy(data, bytes, len);
				aad[any_byte() % 16] ^= (uint8_t)(1 << any_byte() % 8);
				assert_false(b.a->open(b.state, iv, aad, data, len, tag));
				a.a->wipe(a.state);
				b.a->wipe(b.state);
			}
		}
	}
}

static void seal_provider__is_measured(void **state)
{
	(void)state;
	for (unsigned c = SEAL_NONE + 1; c < SEAL_CIPHER_COUNT; c++) {
		const struct seal_aead *best = seal_aead_best(c);
		double ns[SEAL_LIBRARIES_MAX];
		unsigned i = 0;

		assert_non_null(best);
		assert_string_equal(seal_provider(c), best->name);
		while (seal_aeads[i] != best)
			i++;
		seal_aead_measure_all(c, 4096, ns);
		assert_true(ns[i] > 0);
	}
	assert_string_equal(seal_provider(SEAL_NONE), "none");
}

/* --- a sender and a receiver --- */

static const struct seal_secret secret = {.cipher = SEAL_AES_128_GCM, .epoch = 7, .bytes = {1, 2, 3}};

struct pair {
	struct seal *tx, *rx;
};

static struct pair open_pair(const struct seal_secret *s, uint64_t limit)
{
	struct seal_scope of = {
	    .nlanes = 4, .npaths = 2, .nshards = 1, .limits = {.datagrams = limit, .bytes = 1ull << 40}};
	struct pair p = {.tx = seal_new(), .rx = seal_new()};

	seal_take_tx(p.tx, seal_keys_new(s, SEAL_TX, &of));
	seal_take_rx(p.rx, seal_keys_new(s, SEAL_RX, &of), 0);
	return p;
}

static void close_pair(struct pair *p)
{
	seal_free(p->tx);
	seal_free(p->rx);
}

struct dgram {
	struct wan_seal_id id;
	size_t len;
	uint8_t buf[256];
};

/* What a lane would send as number pn. False: no key. */
static bool make(const struct pair *p, struct dgram *d, uint8_t lane, uint64_t pn, uint64_t acked_end)
{
	int phase;

	*d = (struct dgram){.id = {.epoch = 7, .wan_pn = pn, .lane = lane}, .len = 100};
	phase = seal_ops.phase(p->tx, &d->id, acked_end);
	if (phase < 0)
		return false;
	d->id.phase = (uint8_t)phase;
	memset(d->buf, (int)pn, d->len);
	seal_ops.seal(p->tx, &d->id, d->buf, d->len, NULL, 0);
	return true;
}

static enum proxy_drop take(const struct pair *p, const struct dgram *d)
{
	struct dgram copy = *d;

	return seal_ops.open(p->rx, &copy.id, copy.buf, copy.len);
}

static void seal__nonces_and_keys_differ_by_number_and_lane(void **state)
{
	struct pair p = open_pair(&secret, 1000);
	struct dgram a, b, c;

	(void)state;
	make(&p, &a, 0, 0, 0);
	make(&p, &b, 0, 256, 0); /* the same plain bytes */
	make(&p, &c, 1, 0, 0);
	assert_memory_not_equal(a.buf + 16, b.buf + 16, 84);
	assert_memory_not_equal(a.buf + 16, c.buf + 16, 84);
	assert_int_equal(take(&p, &a), DROP_NONE);
	assert_int_equal(take(&p, &b), DROP_NONE);
	assert_int_equal(take(&p, &c), DROP_NONE);
	c.id.lane = 2;
	assert_int_equal(take(&p, &c), DROP_WAN_BAD_TAG);
	c.id.lane = 4;
	assert_int_equal(take(&p, &c), DROP_WAN_BAD_KEY);
	c.id.lane = 1;
	assert_int_equal(take(&p, &c), DROP_NONE);
	c.id.path = 1; /* the same lane has another key on another path */
	assert_int_equal(take(&p, &c), DROP_WAN_BAD_TAG);
	c.id.path = 2;
	assert_int_equal(take(&p, &c), DROP_WAN_BAD_KEY);
	close_pair(&p);
}

/* The key schedule worked out by hand: secret, lane, key and IV; the number over the IV's end (RFC 9001 5.3). */
static void seal__key_and_nonce_as_written(void **state)
{
	const uint64_t pn = 0x0123456789abcdefull;
	const uint8_t lane[2] = {0, 3};
	uint8_t lane_secret[32], key[16], iv[12], number[8];
	struct pair p = open_pair(&secret, 1ull << 58);
	struct keyed k;
	struct dgram d;

	(void)state;
	hkdf_expand_label(secret.bytes, "lr lane", lane, 2, lane_secret, 32);
	hkdf_expand_label(lane_secret, "lr key", NULL, 0, key, 16);
	hkdf_expand_label(lane_secret, "lr iv", NULL, 0, iv, 12);
	put_be64(number, pn);
	for (int i = 0; i < 8; i++)
		iv[4 + i] ^= number[i];
	make(&p, &d, 3, pn, 0);
	assert_true(open_keyed(&k, seal_aeads[0], SEAL_AES_128_GCM, key));
	assert_true(k.a->open(k.state, iv, d.buf, d.buf + 16, d.len - 16, d.buf + d.len));
	for (size_t i = 0; i < d.len; i++)
		assert_int_equal(d.buf[i], pn & 0xff);
	k.a->wipe(k.state);
	close_pair(&p);
}

static void seal__another_direction_epoch_or_path_has_no_key(void **state)
{
	struct seal_secret other = secret;
	struct pair p = open_pair(&secret, 1000), q;
	struct dgram d;

	(void)state;
	make(&p, &d, 0, 5, 0);
	d.id.epoch = 8;
	assert_int_equal(take(&p, &d), DROP_WAN_BAD_KEY);
	d.id.epoch = 7;
	d.id.path = 2;
	assert_int_equal(take(&p, &d), DROP_WAN_BAD_KEY);
	d.id.path = 0;
	other.bytes[31] ^= 1;
	q = open_pair(&other, 1000);
	assert_int_equal(take(&q, &d), DROP_WAN_BAD_TAG);
	close_pair(&q);
	close_pair(&p);
}

static uint64_t updates(const struct pair *p, bool tx)
{
	struct seal_stats st;

	seal_stats(tx ? p->tx : p->rx, &st);
	return tx ? st.tx_updates : st.rx_updates;
}

static void seal__sender_goes_on_when_acked_and_receiver_follows(void **state)
{
	struct pair p = open_pair(&secret, 10);
	struct dgram d, late;
	uint64_t pn = 0;

	(void)state;
	for (unsigned gen = 0; gen < 9; gen++) {
		for (unsigned i = 0; i < 10; i++, pn++) {
			assert_true(make(&p, &d, 0, pn, pn));
			assert_int_equal(d.id.phase, gen % 4);
			assert_int_equal(take(&p, &d), DROP_NONE);
			if (i == 3)
				late = d;
			if (i == 9 && gen > 0) /* of the generation before or this one, whenever it comes */
				assert_int_equal(take(&p, &late), DROP_NONE);
		}
		late = d;
		assert_true(make(&p, &d, 0, pn, pn));
		assert_int_equal(take(&p, &d), DROP_NONE);
		pn++;
		assert_int_equal(take(&p, &late), DROP_NONE);
		pn--;
	}
	assert_int_equal(updates(&p, true), 9);
	assert_int_equal(updates(&p, false), 9);
	close_pair(&p);
}

static void seal__sender_stays_until_the_peer_has_heard(void **state)
{
	struct pair p = open_pair(&secret, 10);
	struct dgram d;

	(void)state;
	for (uint64_t pn = 0; pn < 10; pn++)
		assert_true(make(&p, &d, 0, pn, pn));
	assert_true(make(&p, &d, 0, 10, 10)); /* generation 1: begins at 10 */
	assert_int_equal(d.id.phase, 1);
	for (uint64_t pn = 11; pn < 10 + 10 * SEAL_HARD; pn++) {
		assert_true(make(&p, &d, 0, pn, 10)); /* none of it has arrived as far as is known */
		assert_int_equal(d.id.phase, 1);
	}
	assert_false(make(&p, &d, 0, 10 + 10 * SEAL_HARD, 10)); /* and never beyond the hard limit */
	assert_true(make(&p, &d, 0, 10 + 10 * SEAL_HARD, 11));
	assert_int_equal(d.id.phase, 2);
	assert_true(make(&p, &d, 1, 0, 0)); /* another lane has a key of its own */
	assert_int_equal(d.id.phase, 0);
	close_pair(&p);
}

static void seal__forged_phase_moves_nothing(void **state)
{
	struct pair p = open_pair(&secret, 10);
	struct dgram d;

	(void)state;
	make(&p, &d, 0, 0, 0);
	for (uint8_t phase = 1; phase < 4; phase++) {
		d.id.phase = phase;
		assert_int_equal(take(&p, &d), phase == 1 ? DROP_WAN_BAD_TAG : DROP_WAN_BAD_KEY);
	}
	assert_int_equal(updates(&p, false), 0);
	d.id.phase = 0;
	assert_int_equal(take(&p, &d), DROP_NONE);
	close_pair(&p);
}

static void seal__bytes_count_too(void **state)
{
	struct seal_scope of = {.nlanes = 1, .nshards = 1, .limits = {.datagrams = 1000000, .bytes = 1000}};
	struct pair p = {.tx = seal_new(), .rx = seal_new()};
	struct dgram d;

	(void)state;
	seal_take_tx(p.tx, seal_keys_new(&secret, SEAL_TX, &of));
	for (uint64_t pn = 0; pn < 100; pn++)
		assert_true(make(&p, &d, 0, pn, pn)); /* of 100 bytes */
	assert_int_equal(updates(&p, true), 9);
	close_pair(&p);
}

/* The keys of a session that goes on stay while those of the next one are put beside them. */
static void seal_take_rx__keeps_what_is_in_use(void **state)
{
	struct seal_scope of = {.nlanes = 4, .nshards = 1, .limits = {.datagrams = 1000, .bytes = 1 << 20}};
	struct seal_secret next = secret;
	struct pair p = open_pair(&secret, 1000);
	struct dgram d;

	(void)state;
	make(&p, &d, 0, 0, 0);
	for (unsigned i = 0; i < 5; i++) { /* offered again and again: the control channel flaps */
		next.epoch = 100 + i;
		seal_take_rx(p.rx, seal_keys_new(&next, SEAL_RX, &of), 7);
		assert_int_equal(take(&p, &d), DROP_NONE);
	}
	seal_take_tx(p.tx, seal_keys_new(&next, SEAL_TX, &of));
	make(&p, &d, 0, 0, 0);
	d.id.epoch = 104;
	d.id.phase = (uint8_t)seal_ops.phase(p.tx, &d.id, 0);
	memset(d.buf, 0, d.len);
	seal_ops.seal(p.tx, &d.id, d.buf, d.len, NULL, 0);
	assert_int_equal(take(&p, &d), DROP_NONE);
	d.id.epoch = 103;
	assert_int_equal(take(&p, &d), DROP_WAN_BAD_KEY);
	close_pair(&p);
}

/* --- two edges --- */

struct sealed {
	struct core c;
	struct seal *a, *b;
	struct seal_limits limits;
};

static void new_session(struct sealed *s)
{
	struct seal_scope of = {.nlanes = 2, .nshards = 1, .limits = s->limits};
	struct seal_secret to_b = {.cipher = SEAL_CHACHA20_POLY1305, .epoch = s->c.epoch + 1, .bytes = {11}};
	struct seal_secret to_a = {.cipher = SEAL_CHACHA20_POLY1305, .epoch = 0x10001 + s->c.epoch, .bytes = {22}};

	to_a.bytes[1] = to_b.bytes[1] = (uint8_t)s->c.epoch;
	seal_take_rx(s->b, seal_keys_new(&to_b, SEAL_RX, &of), s->c.b.p->session.epoch_rx);
	seal_take_rx(s->a, seal_keys_new(&to_a, SEAL_RX, &of), s->c.a.p->session.epoch_rx);
	seal_take_tx(s->a, seal_keys_new(&to_b, SEAL_TX, &of));
	seal_take_tx(s->b, seal_keys_new(&to_a, SEAL_TX, &of));
	core_session(&s->c);
}

static void seal_edge(struct core_edge *e, struct seal *s)
{
	e->cfg.seal = &seal_ops;
	e->cfg.seal_ctx = s;
	core_rebuild(e);
}

static void sealed_open(struct sealed *s, uint64_t limit)
{
	memset(s, 0, sizeof(*s));
	s->limits = (struct seal_limits){.datagrams = limit, .bytes = 1ull << 40};
	s->a = seal_new();
	s->b = seal_new();
	core_open(&s->c, ACK_MODE_NEAR);
	seal_edge(&s->c.a, s->a);
	seal_edge(&s->c.b, s->b);
	new_session(s);
}

static void sealed_close(struct sealed *s)
{
	core_close(&s->c);
	seal_free(s->a);
	seal_free(s->b);
}

static uint8_t last_dgram[WAN_MTU_MAX];
static size_t last_len;

static bool keep_last(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	if (from == &c->a) {
		memcpy(last_dgram, dgram, len);
		last_len = len;
	}
	return true;
}

static bool keep_and_lose(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	return keep_last(c, from, dgram, len) && false;
}

static enum proxy_drop at_b(struct sealed *s, size_t len)
{
	uint8_t copy[WAN_MTU_MAX];

	memcpy(copy, last_dgram, sizeof(copy));
	return proxy_wan_rx(s->c.b.p, s->c.now_ns, copy, len, false);
}

static void get_one(struct sealed *s, bool (*wan)(struct core *, struct core_edge *, uint8_t *, size_t))
{
	s->c.wan = wan;
	s->c.a.p->wan->lanes[0].space[0].ping_due = true;
	wan_lane_schedule(s->c.a.p, &s->c.a.p->wan->lanes[0]);
	core_pump(&s->c);
	s->c.wan = NULL;
	assert_true(last_len >= WAN_HDR_LEN + WAN_FRAME_HDR_LEN + WAN_TAG_LEN);
}

static bool lose(struct core *c, struct core_edge *from, uint8_t *dgram, size_t len)
{
	(void)dgram;
	(void)len;
	return from != &c->a;
}

/* The line was cut for so long that A has no key left to say so. */
static void sealed__used_up_keys_ask_for_a_session(void **state)
{
	struct proxy_link_status st;
	struct sealed s;

	(void)state;
	sealed_open(&s, 10);
	s.c.wan = lose;
	proxy_link_status(s.c.a.p, s.c.now_ns, &st);
	assert_false(st.keys_used_up);
	for (unsigned i = 0; i <= 10 * SEAL_HARD; i++) {
		s.c.a.p->wan->lanes[0].space[0].ping_due = true;
		wan_lane_schedule(s.c.a.p, &s.c.a.p->wan->lanes[0]);
		core_pump(&s.c);
	}
	s.c.wan = NULL;
	core_wait(&s.c, 100 * CORE_MS);
	proxy_link_status(s.c.a.p, s.c.now_ns, &st);
	assert_true(st.keys_used_up);
	new_session(&s);
	get_one(&s, keep_last);
	proxy_link_status(s.c.a.p, s.c.now_ns, &st);
	assert_false(st.keys_used_up);
	sealed_close(&s);
}

static void sealed__replayed_reflected_truncated_unsealed(void **state)
{
	struct sealed s;
	uint8_t copy[WAN_MTU_MAX];

	(void)state;
	sealed_open(&s, 1000000);
	get_one(&s, keep_last);
	assert_int_equal(at_b(&s, last_len), DROP_WAN_DUPLICATE);
	memcpy(copy, last_dgram, last_len);
	assert_int_equal(proxy_wan_rx(s.c.a.p, s.c.now_ns, copy, last_len, false), DROP_WAN_REFLECTED);
	/* with the epoch made to fit: the other direction has other keys */
	memcpy(copy, last_dgram, last_len);
	put_be32(copy + 4, s.c.a.p->session.epoch_rx);
	assert_int_equal(proxy_wan_rx(s.c.a.p, s.c.now_ns, copy, last_len, false), DROP_WAN_BAD_TAG);
	for (size_t len = 0; len < last_len; len++) {
		enum proxy_drop want = len < WAN_HDR_LEN + WAN_TAG_LEN ? DROP_WAN_TRUNCATED : DROP_WAN_BAD_TAG;

		assert_int_equal(at_b(&s, len), want);
	}
	last_dgram[3] = 0;
	assert_int_equal(at_b(&s, last_len), DROP_WAN_UNSEALED);
	sealed_close(&s);
}

/* No bit of header, frames or tag can be changed, and what was changed leaves no trace: the datagram itself is still
 * taken afterwards. */
static void sealed__every_flipped_bit_is_dropped_by_name(void **state)
{
	struct sealed s;

	(void)state;
	sealed_open(&s, 1000000);
	get_one(&s, keep_and_lose);
	for (size_t bit = 0; bit < last_len * 8; bit++) {
		enum proxy_drop d;

		last_dgram[bit / 8] ^= (uint8_t)(1 << bit % 8);
		d = at_b(&s, last_len);
		assert_true(d == DROP_WAN_BAD_TAG || d == DROP_WAN_BAD_VERSION || d == DROP_WAN_BAD_LANE ||
		            d == DROP_WAN_BAD_PATH || d == DROP_WAN_BAD_EPOCH || d == DROP_WAN_REFLECTED ||
		            d == DROP_WAN_BAD_KEY || d == DROP_WAN_UNSEALED);
		last_dgram[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(at_b(&s, last_len), DROP_NONE);
	sealed_close(&s);
}

static void sealed__datagrams_of_an_earlier_session(void **state)
{
	struct sealed s;

	(void)state;
	sealed_open(&s, 1000000);
	get_one(&s, keep_last);
	new_session(&s);
	assert_int_equal(at_b(&s, last_len), DROP_WAN_BAD_EPOCH);
	put_be32(last_dgram + 4, s.c.b.p->session.epoch_rx);
	assert_int_equal(at_b(&s, last_len), DROP_WAN_BAD_TAG);
	sealed_close(&s);
}

/* A key for ten datagrams: traffic both ways never stops and nothing is lost. */
static void sealed__rekeys_under_load_and_loses_nothing(void **state)
{
	struct sealed s;
	struct seal_stats a, b;

	(void)state;
	sealed_open(&s, 10);
	for (int i = 0; i < 600; i++) {
		for (unsigned lane = 0; lane < 2; lane++) {
			s.c.a.p->wan->lanes[lane].space[0].ping_due = s.c.b.p->wan->lanes[lane].space[0].ping_due = true;
			wan_lane_schedule(s.c.a.p, &s.c.a.p->wan->lanes[lane]);
			wan_lane_schedule(s.c.b.p, &s.c.b.p->wan->lanes[lane]);
		}
		core_wait(&s.c, CORE_MS);
	}
	seal_stats(s.a, &a);
	seal_stats(s.b, &b);
	assert_true(a.tx_updates > 50 && b.tx_updates > 50);
	/* the newest may not have been used yet */
	assert_in_range(b.rx_updates, a.tx_updates - 2, a.tx_updates);
	assert_in_range(a.rx_updates, b.tx_updates - 2, b.tx_updates);
	for (unsigned d = DROP_NONE + 1; d < DROP_COUNT; d++) {
		assert_int_equal(core_drops(&s.c.a, (enum proxy_drop)d), 0);
		assert_int_equal(core_drops(&s.c.b, (enum proxy_drop)d), 0);
	}
	assert_int_equal(core_ctr(&s.c.a, CTR_WAN_LOST), 0);
	sealed_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hkdf__vectors_of_rfc_9001),
	    cmocka_unit_test(aead__known_answers),
	    cmocka_unit_test(aead__libraries_agree),
	    cmocka_unit_test(aead__parts_make_no_difference),
	    cmocka_unit_test(seal_provider__is_measured),
	    cmocka_unit_test(seal__nonces_and_keys_differ_by_number_and_lane),
	    cmocka_unit_test(seal__key_and_nonce_as_written),
	    cmocka_unit_test(seal__another_direction_epoch_or_path_has_no_key),
	    cmocka_unit_test(seal__sender_goes_on_when_acked_and_receiver_follows),
	    cmocka_unit_test(seal__sender_stays_until_the_peer_has_heard),
	    cmocka_unit_test(seal__forged_phase_moves_nothing),
	    cmocka_unit_test(seal__bytes_count_too),
	    cmocka_unit_test(seal_take_rx__keeps_what_is_in_use),
	    cmocka_unit_test(sealed__used_up_keys_ask_for_a_session),
	    cmocka_unit_test(sealed__replayed_reflected_truncated_unsealed),
	    cmocka_unit_test(sealed__every_flipped_bit_is_dropped_by_name),
	    cmocka_unit_test(sealed__datagrams_of_an_earlier_session),
	    cmocka_unit_test(sealed__rekeys_under_load_and_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
