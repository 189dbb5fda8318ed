/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - what the two edges of a link tell each other first. */
#include "hello.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/util/addr.h"
#include "daemon/config/host_groups.h"
#include "daemon/util/units.h"
#include "proxy/util/bytes.h"

#define HELLO_MAGIC     0x4c52686fu /* "LRho" */
#define HELLO_FIXED_LEN 52
#define PREFIX_LEN      17
#define PAIR_MODE_LEN   (1 + 2 * PREFIX_LEN)
#define GROUPS_LEN      8
#define RATES_APART     100 /* with rates this many times apart, reports take a quarter of the slower direction:
                             * wan_pacer.c */

/* The length table: the allowed body length of each message type. */
static const struct {
	uint16_t min, max;
} msg_lengths[MSG_TYPES] = {
    [MSG_HELLO] = {HELLO_FIXED_LEN, PEER_BODY_MAX},
    [MSG_PING] = {PEER_PING_LEN, PEER_PING_LEN},
    [MSG_PONG] = {PEER_PING_LEN, PEER_PING_LEN},
    [MSG_KEY] = {PEER_KEY_LEN, PEER_KEY_LEN},
    [MSG_KEY_READY] = {PEER_READY_LEN, PEER_READY_LEN},
    [MSG_STOPPED] = {0, PEER_BODY_MAX},
    [MSG_CLOCK] = {PEER_CLOCK_LEN, PEER_BODY_MAX},
    [MSG_REAUTH] = {0, PEER_BODY_MAX},
};

int peer_msg_next(const uint8_t *data, size_t len, struct peer_msg *m)
{
	if (len < PEER_HEADER_LEN)
		return 0;
	m->len = get_be16(data);
	m->type = data[2];
	m->body = data + PEER_HEADER_LEN;
	if (m->len > PEER_BODY_MAX || data[3] != 0)
		return -EPROTO;
	if (m->type < MSG_TYPES && (m->len < msg_lengths[m->type].min || m->len > msg_lengths[m->type].max))
		return -EPROTO;
	return len < PEER_HEADER_LEN + (size_t)m->len ? 0 : PEER_HEADER_LEN + m->len;
}

void peer_msg_header(uint8_t out[PEER_HEADER_LEN], enum peer_msg_type type, uint16_t body_len)
{
	put_be16(out, body_len);
	out[2] = (uint8_t)type;
	out[3] = 0;
}

void hello_from_config(struct hello *h, const struct link_config *c)
{
	h->version = PEER_VERSION;
	h->version_min = PEER_VERSION_MIN;
	h->rate_bps = config_rate_bps(c);
	h->wan_mtu = c->paths[0].mtu;
	h->lanes = (uint16_t)c->lanes;
	h->ack_mode = (uint8_t)c->ack_mode;
	memcpy(h->pair_modes, c->pair_modes, sizeof(h->pair_modes));
	h->npair_modes = c->npair_modes;
	h->barrier = (uint8_t)config_barrier(c);
	h->barrier_owed = c->barrier_owed;
	h->host_groups = host_groups_digest(c);
	h->cipher = (uint8_t)c->encryption;
	h->fec = (uint8_t)c->fec.mode;
	h->relay_channels = (uint8_t)config_relay_channels(c);
	snprintf(h->name, sizeof(h->name), "%s", c->name);
	memcpy(h->local, c->local, sizeof(h->local));
	memcpy(h->remote, c->remote, sizeof(h->remote));
	h->nlocal = c->nlocal;
	h->nremote = c->nremote;
	h->npaths = c->npaths;
	for (uint32_t i = 0; i < c->npaths; i++)
		memcpy(h->paths[i], c->paths[i].name, sizeof(h->paths[i]));
}

static uint8_t *put_prefixes(uint8_t *p, const struct ip_prefix *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, p += PREFIX_LEN) {
		p[0] = list[i].len;
		memcpy(p + 1, list[i].addr.b, 16);
	}
	return p;
}

static uint8_t *put_paths(uint8_t *p, const struct hello *h)
{
	*p++ = (uint8_t)h->npaths;
	for (uint32_t i = 0; i < h->npaths; i++) {
		size_t len = strnlen(h->paths[i], PATH_NAME_MAX - 1);

		*p++ = (uint8_t)len;
		memcpy(p, h->paths[i], len);
		p += len;
	}
	return p;
}

/* 0 magic, 4 version, 5 version_min, 6 lanes, 8 boot_id, 12 session, 16 arena_epoch, 24 peer_arena_epoch, 32 rate_bps,
 * 40 wan_mtu, 42 ack_mode, 43 npair_modes, 44 nlocal, 45 nremote, 46 name's length, 47 barrier, 48 cipher, 49 fec, 50
 * arena_former and 51 relay_channels (both 0 in versions that did not say); name, local, remote, pair_modes: mode, local, remote each; host_groups (8), since the first versions had
 * none; since version 3 number of paths (1), and of each its name's length (1) and name; barrier_owed (1), which older ones
 * of version 3 do not have. */
uint16_t hello_encode(const struct hello *h, uint8_t body[PEER_BODY_MAX])
{
	size_t name_len = strnlen(h->name, sizeof(h->name) - 1);
	uint8_t *p = body + HELLO_FIXED_LEN;

	_Static_assert(HELLO_FIXED_LEN + LINK_NAME_MAX + 2 * PREFIXES_MAX * PREFIX_LEN +
	                       PAIR_MODES_MAX * PAIR_MODE_LEN + GROUPS_LEN + 1 + PATHS_MAX * PATH_NAME_MAX + 1 <=
	                   PEER_BODY_MAX,
	               "a hello fits");
	memset(body, 0, HELLO_FIXED_LEN);
	put_be32(body, HELLO_MAGIC);
	body[4] = h->version;
	body[5] = h->version_min;
	put_be16(body + 6, h->lanes);
	put_be32(body + 8, h->boot_id);
	put_be32(body + 12, h->session);
	put_be64(body + 16, h->arena_epoch);
	put_be64(body + 24, h->peer_arena_epoch);
	put_be64(body + 32, h->rate_bps);
	put_be16(body + 40, h->wan_mtu);
	body[42] = h->ack_mode;
	body[43] = (uint8_t)h->npair_modes;
	body[47] = h->barrier;
	body[48] = h->cipher;
	body[49] = h->fec;
	body[50] = h->arena_former;
	body[51] = h->relay_channels;
	body[44] = (uint8_t)h->nlocal;
	body[45] = (uint8_t)h->nremote;
	body[46] = (uint8_t)name_len;
	memcpy(p, h->name, name_len);
	p = put_prefixes(p + name_len, h->local, h->nlocal);
	p = put_prefixes(p, h->remote, h->nremote);
	for (uint32_t i = 0; i < h->npair_modes; i++) {
		*p++ = (uint8_t)h->pair_modes[i].mode;
		p = put_prefixes(p, &h->pair_modes[i].local, 1);
		p = put_prefixes(p, &h->pair_modes[i].remote, 1);
	}
	put_be64(p, h->host_groups);
	p = put_paths(p + GROUPS_LEN, h);
	*p++ = h->barrier_owed;
	return (uint16_t)(p - body);
}

static int get_prefixes(const uint8_t *p, struct ip_prefix *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, p += PREFIX_LEN) {
		list[i].len = p[0];
		memcpy(list[i].addr.b, p + 1, 16);
		if (list[i].len > 128)
			return -EPROTO;
	}
	return 0;
}

static int get_pair_modes(const uint8_t *p, struct hello *h)
{
	for (uint32_t i = 0; i < h->npair_modes; i++, p += PAIR_MODE_LEN) {
		h->pair_modes[i].mode = (enum ack_mode)p[0];
		if (get_prefixes(p + 1, &h->pair_modes[i].local, 1) < 0 ||
		    get_prefixes(p + 1 + PREFIX_LEN, &h->pair_modes[i].remote, 1) < 0)
			return -EPROTO;
	}
	return 0;
}

static int get_name(const uint8_t *p, size_t len, char *name)
{
	for (size_t i = 0; i < len; i++) {
		if (!isgraph(p[i]) || p[i] > 0x7e)
			return -EPROTO;
		name[i] = (char)p[i];
	}
	name[len] = '\0';
	return 0;
}

/* Reads the paths and the fields behind them. */
static int get_paths(const uint8_t *p, size_t len, struct hello *h)
{
	const uint8_t *end = p + len;

	h->npaths = *p++;
	if (h->npaths > PATHS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < h->npaths; i++) {
		size_t n;

		if (p == end || (n = *p++) >= PATH_NAME_MAX || n > (size_t)(end - p) || get_name(p, n, h->paths[i]) < 0)
			return -EPROTO;
		p += n;
	}
	h->barrier_owed = p < end && *p == 1;
	return 0;
}

int hello_decode(const uint8_t *body, size_t len, struct hello *h)
{
	size_t name_len, known;

	memset(h, 0, sizeof(*h));
	if (len < HELLO_FIXED_LEN || get_be32(body) != HELLO_MAGIC)
		return -EPROTO;
	h->version = body[4];
	h->version_min = body[5];
	h->lanes = get_be16(body + 6);
	h->boot_id = get_be32(body + 8);
	h->session = get_be32(body + 12);
	h->arena_epoch = get_be64(body + 16);
	h->peer_arena_epoch = get_be64(body + 24);
	h->rate_bps = get_be64(body + 32);
	h->wan_mtu = get_be16(body + 40);
	h->ack_mode = body[42];
	h->npair_modes = body[43];
	h->barrier = body[47];
	h->cipher = body[48];
	h->fec = body[49];
	h->arena_former = body[50];
	h->relay_channels = body[51];
	h->nlocal = body[44];
	h->nremote = body[45];
	name_len = body[46];
	if (h->nlocal > PREFIXES_MAX || h->nremote > PREFIXES_MAX || h->npair_modes > PAIR_MODES_MAX ||
	    name_len >= LINK_NAME_MAX || h->version_min > h->version)
		return -EPROTO;
	known = HELLO_FIXED_LEN + name_len + (h->nlocal + h->nremote) * (size_t)PREFIX_LEN +
	        h->npair_modes * (size_t)PAIR_MODE_LEN;
	if (len != known && len < known + GROUPS_LEN)
		return -EPROTO;
	if (len > known)
		h->host_groups = get_be64(body + known);
	if (len > known + GROUPS_LEN && get_paths(body + known + GROUPS_LEN, len - known - GROUPS_LEN, h) < 0)
		return -EPROTO;
	if (h->version >= 3 && h->npaths == 0)
		return -EPROTO;
	body += HELLO_FIXED_LEN;
	if (get_name(body, name_len, h->name) < 0 || get_prefixes(body + name_len, h->local, h->nlocal) < 0)
		return -EPROTO;
	body += name_len + h->nlocal * PREFIX_LEN;
	if (get_prefixes(body, h->remote, h->nremote) < 0)
		return -EPROTO;
	return get_pair_modes(body + h->nremote * PREFIX_LEN, h);
}

/* --- do they fit? --- */

const char *ack_mode_name(unsigned mode)
{
	static const char *const name[] = {[ACK_MODE_HOST] = "host", [ACK_MODE_NEAR] = "near", [ACK_MODE_FAR] = "far"};

	return mode < sizeof(name) / sizeof(name[0]) ? name[mode] : "unknown";
}

const char *barrier_mode_name(unsigned mode)
{
	return mode == BARRIER_OFF      ? "off"
	       : mode == BARRIER_PAIR   ? "pair"
	       : mode == BARRIER_CAUSAL ? "causal"
	                                : "unknown";
}

static void say(char text[HELLO_TEXT_MAX], const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds a difference to the text. */
static void say(char text[HELLO_TEXT_MAX], const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	if (n != 0)
		n += (size_t)snprintf(text + n, HELLO_TEXT_MAX - n, "; ");
	if (n >= HELLO_TEXT_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text + n, HELLO_TEXT_MAX - n, fmt, ap);
	va_end(ap);
}

/* The first prefix of a that is not in b, NULL if all are. */
static const struct ip_prefix *missing_in(const struct ip_prefix *a, uint32_t na, const struct ip_prefix *b,
                                          uint32_t nb)
{
	for (uint32_t i = 0; i < na; i++) {
		uint32_t j = 0;

		while (j < nb && !addr_prefix_eq(&a[i], &b[j]))
			j++;
		if (j == nb)
			return &a[i];
	}
	return NULL;
}

/* Prefixes mirror each other: local here is remote there. Order does not matter. */
static bool same_prefixes(const char *key_here, const struct ip_prefix *here, uint32_t nhere, const char *key_there,
                          const struct ip_prefix *there, uint32_t nthere, char text[HELLO_TEXT_MAX])
{
	const struct ip_prefix *only_here = missing_in(here, nhere, there, nthere);
	const struct ip_prefix *only_there = missing_in(there, nthere, here, nhere);
	char t[ADDR_TEXT_MAX];

	if (only_here != NULL)
		say(text, "%s=%s here is not in %s= there", key_here, addr_write_prefix(only_here, t, sizeof(t)),
		    key_there);
	if (only_there != NULL)
		say(text, "%s=%s there is not in %s= here", key_there, addr_write_prefix(only_there, t, sizeof(t)),
		    key_here);
	return only_here == NULL && only_there == NULL;
}

/* Mirrored, in the same order. */
static bool same_pair_modes(const struct hello *here, const struct hello *there)
{
	if (here->npair_modes != there->npair_modes)
		return false;
	for (uint32_t i = 0; i < here->npair_modes; i++) {
		const struct pair_mode *a = &here->pair_modes[i], *b = &there->pair_modes[i];

		if (a->mode != b->mode || !addr_prefix_eq(&a->local, &b->remote) ||
		    !addr_prefix_eq(&a->remote, &b->local))
			return false;
	}
	return true;
}

static bool has_path(const struct hello *h, const char *name)
{
	for (uint32_t i = 0; i < h->npaths; i++)
		if (strcmp(h->paths[i], name) == 0)
			return true;
	return false;
}

/* Reports a path that `of` has and `in` lacks. */
static bool say_lacking(const struct hello *of, const struct hello *in, const char *where, const char *elsewhere,
                        char text[HELLO_TEXT_MAX])
{
	for (uint32_t i = 0; i < of->npaths; i++) {
		if (has_path(in, of->paths[i]))
			continue;
		say(text, "[Path%s%s] %s is not %s", *of->paths[i] != '\0' ? " " : "", of->paths[i], where, elsewhere);
		return true;
	}
	return false;
}

static bool same_paths(const struct hello *here, const struct hello *there, char text[HELLO_TEXT_MAX])
{
	if (there->npaths == 0 || here->npaths == 0) { /* an older version: one path without a name */
		if (here->npaths <= 1 && there->npaths <= 1)
			return true;
		say(text,
		    "the link has several paths, and one edge has a version of longreach that knows only one path");
		return false;
	}
	if (say_lacking(here, there, "here", "there", text))
		return false;
	return !say_lacking(there, here, "there", "here", text);
}

static bool can_carry(const struct hello *here, const struct hello *there, char text[HELLO_TEXT_MAX])
{
	bool ok = true;

	if (here->boot_id == there->boot_id && here->arena_epoch == there->arena_epoch) {
		say(text, "RemoteAddress= leads back to this link itself: expected the other edge's address");
		return false;
	}
	if (there->version < here->version_min || here->version < there->version_min) {
		say(text, "this edge speaks protocol versions %u to %u, the other edge %u to %u: update the older one",
		    here->version_min, here->version, there->version_min, there->version);
		ok = false;
	}
	if (here->lanes != there->lanes) {
		say(text, "Lanes= is %u here and %u there", here->lanes, there->lanes);
		ok = false;
	}
	if (here->host_groups != there->host_groups) { /* the groups decide the lanes */
		say(text, "Group= in [Host] names other groups here than there: both edges must name the same");
		ok = false;
	}
	if (!same_paths(here, there, text))
		ok = false;
	if (here->cipher != there->cipher) {
		say(text, "Encryption= is %s here and %s there", seal_cipher_name(here->cipher),
		    seal_cipher_name(there->cipher));
		ok = false;
	}
	return ok;
}

void hello_rates(const struct hello *here, const struct hello *there, char text[HELLO_TEXT_MAX])
{
	uint64_t least = here->rate_bps < there->rate_bps ? here->rate_bps : there->rate_bps;
	uint64_t most = here->rate_bps < there->rate_bps ? there->rate_bps : here->rate_bps;
	char t[2][UNITS_TEXT_MAX];

	text[0] = '\0';
	if (least == 0 || most / least < RATES_APART)
		return;
	say(text,
	    "Rate= is %s here and %s there: reports for the faster direction take up to a quarter of the slower one, "
	    "where queue pairs that begin together may wait longer than their retries last",
	    units_show_rate(t[0], (double)here->rate_bps), units_show_rate(t[1], (double)there->rate_bps));
}

enum hello_verdict hello_compare(const struct hello *here, const struct hello *there, char text[HELLO_TEXT_MAX])
{
	bool ok = true;

	text[0] = '\0';
	if (!can_carry(here, there, text))
		return HELLO_REFUSED;
	if (here->ack_mode != there->ack_mode) {
		say(text, "AckMode= is %s here and %s there", ack_mode_name(here->ack_mode),
		    ack_mode_name(there->ack_mode));
		ok = false;
	}
	if (!same_pair_modes(here, there)) {
		say(text, "PairAckMode= here and there differ: expected mirror images in the same order");
		ok = false;
	}
	if (here->barrier != there->barrier) {
		bool one_way = here->barrier == BARRIER_OFF || there->barrier == BARRIER_OFF;

		say(text, "Barrier= is %s here and %s there%s", barrier_mode_name(here->barrier),
		    barrier_mode_name(there->barrier),
		    one_way ? " (with rp_filter=1 an edge drops other IP in one direction: set the same Barrier= at "
		              "both edges)"
		            : "");
		ok = false;
	}
	ok &= same_prefixes("LocalPrefix", here->local, here->nlocal, "RemotePrefix", there->remote, there->nremote,
	                    text);
	ok &= same_prefixes("RemotePrefix", here->remote, here->nremote, "LocalPrefix", there->local, there->nlocal,
	                    text);
	return ok ? HELLO_AGREED : HELLO_MISMATCH;
}

/* splitmix64's finalizer: every bit in changes half of the bits out. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint32_t epoch_of(const struct hello *sender, const struct hello *receiver)
{
	uint64_t x = mix(((uint64_t)sender->boot_id << 32 | sender->session) + 0x9e3779b97f4a7c15ull);
	uint32_t epoch;

	x = mix(x + ((uint64_t)receiver->boot_id << 32 | receiver->session) + 0x9e3779b97f4a7c15ull);
	epoch = (uint32_t)(x >> 32);
	return epoch == 0 ? 1 : epoch;
}

void hello_epochs(const struct hello *here, const struct hello *there, struct proxy_session *s)
{
	s->epoch_tx = epoch_of(here, there);
	s->epoch_rx = epoch_of(there, here);
	s->peer_arena_epoch = there->arena_epoch;
	s->peer_boot_id = there->boot_id;
	s->peer_kept_arena = there->arena_former == FORMER_KEPT;
	s->arena_lost = here->arena_former == FORMER_LOST && there->peer_arena_epoch != 0 &&
	                there->peer_arena_epoch != here->arena_epoch;
	s->peer_without_fec = there->fec == FEC_OFF;
	s->peer_relay_channels = there->relay_channels;
}
