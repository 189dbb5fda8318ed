/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes from the other edge on a control connection that stands: behind the handshake of TLS, where only an edge
 * with keys comes, or without TLS. They arrive in pieces, over a socket, at the daemon's own control channel.
 *
 * Beside memory safety: a session begins only when a hello was understood and fits ours, sealed only with a key that was
 * offered and taken; a connection that is not ours ends; what waits to be sent or understood stays within bounds.
 *
 * The first byte: bit 0 sealed, the others the length of the pieces. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include "fuzz.h"

#include "daemon/util/units.c"
#include "daemon/peer/accept_queue.c"
#include "daemon/util/addr.c"
#include "daemon/peer/cert_days.c"
#include "daemon/peer/peer_clock.c"
#include "daemon/privileged/held_sockets.c"
#include "daemon/peer/hello.c"
#include "daemon/config/host_groups.c"
#include "daemon/peer/peer.c"
#include "daemon/peer/peer_accept.c"
#include "daemon/peer/peer_conn.c"
#include "daemon/util/port_holder.c"
#include "daemon/util/tcp_socket.c"
#include "tests/unit/no_log.h"
#include "tests/unit/no_log_limit.h"
#include "tests/unit/no_parent.h"

/* --- TLS, of which nothing is left but its secret --- */

struct tls {
	int none;
};

static struct tls keys;

int tls_open(const struct link_config *c, struct tls **t, char err[CONFIG_ERR_MAX])
{
	(void)c;
	(void)err;
	*t = NULL;
	return 0;
}

void tls_close(struct tls *t)
{
	(void)t;
}

bool tls_export(struct ssl_st *ssl, const uint8_t *context, size_t len, uint8_t out[SEAL_SECRET_LEN])
{
	(void)ssl;
	memset(out, (int)context[len - 1], SEAL_SECRET_LEN);
	return true;
}

struct tls_expiry tls_expiry(const struct tls *t)
{
	(void)t;
	return (struct tls_expiry){0};
}

/* Never reached: connections begin behind the handshake. */
bool tls_ends(int fd, bool client, uint8_t ends[TLS_PROOF_ENDS_LEN])
{
	(void)fd;
	(void)client;
	(void)ends;
	return false;
}

/* Never reached: nothing is configured anew here. */
const uint8_t *tls_fingerprint(const struct tls *t)
{
	static const uint8_t same[TLS_FINGERPRINT_LEN];

	(void)t;
	return same;
}

bool tls_proof_is_public(const struct tls *t)
{
	(void)t;
	return false;
}

bool tls_root_is_left_out(const struct tls *t)
{
	(void)t;
	return false;
}

bool tls_first_flight_proven(const struct tls *t, const struct tls_first_flight *f, const uint8_t ends[TLS_PROOF_ENDS_LEN])
{
	(void)t;
	(void)f;
	(void)ends;
	return false;
}

int tls_first_flight_read(const uint8_t *data, size_t len, struct tls_first_flight *f)
{
	(void)data;
	(void)len;
	(void)f;
	abort();
}

struct ssl_st *tls_connection(struct tls *t)
{
	(void)t;
	abort();
}

bool tls_proven(const struct tls *t, struct ssl_st *ssl)
{
	(void)t;
	(void)ssl;
	abort();
}

void tls_why(const struct tls *t, unsigned long error, char why[TLS_WHY_MAX])
{
	(void)t;
	(void)error;
	snprintf(why, TLS_WHY_MAX, "failed");
}

bool tls_was_answered(struct ssl_st *ssl)
{
	(void)ssl;
	return true;
}

void tls_write_last(struct ssl_st *ssl, const void *data, size_t len)
{
	(void)ssl;
	(void)data;
	(void)len;
}

unsigned long tls_last_words(struct ssl_st *ssl)
{
	(void)ssl;
	return 0;
}

/* --- the link --- */

static struct {
	bool key_taken;
	unsigned sessions;
} seen;

static struct peer *peer;
static bool sealed;

static void on_session(void *arg, const struct proxy_session *s, const struct seal_secret *tx)
{
	(void)arg;
	REQUIRE(peer->status.met && peer->status.verdict != HELLO_REFUSED);
	REQUIRE(s->epoch_tx != 0 && s->epoch_rx != 0);
	REQUIRE((tx != NULL) == sealed);
	REQUIRE(tx == NULL || tx->epoch == s->epoch_tx);
	seen.sessions++;
}

static void on_keys(void *arg, const struct seal_secret *rx, uint32_t serial)
{
	(void)arg;
	REQUIRE(sealed && rx != NULL);
	seen.key_taken = true;
	peer_keys_taken(peer, serial);
}

static void start(struct event_base *base)
{
	static struct link_config c = {.name = "fuzz", .npaths = 1, .nlocal = 1, .nremote = 1, .lanes = 64};
	const struct peer_user user = {.session = on_session, .keys = on_keys};
	const struct arena_life life = {.epoch = 7};
	char err[CONFIG_ERR_MAX];

	addr_read("127.0.0.2", &c.paths[0].local); /* the higher one: it listens */
	addr_read("127.0.0.1", &c.paths[0].remote);
	c.paths[0].rate_bps = 1000000000;
	addr_read_prefix("10.1.0.0/16", &c.local[0]);
	addr_read_prefix("10.2.0.0/16", &c.remote[0]);
	REQUIRE(peer_open(&c, base, &user, &peer, err) == 0);
	peer_run(peer, &c, &life);
	peer->tls = sealed ? &keys : NULL;
	peer->here.cipher = sealed ? SEAL_AES_256_GCM : SEAL_NONE;
}

/* As on_connected() leaves it. */
static struct conn *connection(int fd)
{
	struct conn *c = peer_conn_open(peer, fd);

	REQUIRE(c != NULL);
	c->stands = true;
	c->rank = sealed ? CONN_AUTHENTICATED : CONN_UNPROVEN;
	peer->pending[0] = c;
	peer_conn_hello(c);
	return c;
}

static void check_bounds(void)
{
	for (unsigned i = 0; i < PENDING_MAX + 1; i++) {
		const struct conn *c = i < PENDING_MAX ? peer->pending[i] : peer->conn;

		if (c == NULL)
			continue;
		REQUIRE(evbuffer_get_length(bufferevent_get_input(c->bev)) <= INPUT_MAX);
		REQUIRE(evbuffer_get_length(bufferevent_get_output(c->bev)) <= OUTPUT_MAX + PEER_HEADER_LEN + PEER_BODY_MAX);
	}
	REQUIRE(strlen(peer->status.trouble) < PEER_WHY_MAX && strlen(peer->status.text) < HELLO_TEXT_MAX);
	REQUIRE(!sealed || seen.sessions == 0 || peer->status.met);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct event_base *base;
	int ends[2];
	size_t piece;

	if (size < 2)
		return 0;
	memset(&seen, 0, sizeof(seen));
	sealed = data[0] & 1;
	piece = 1 + (data[0] >> 1) * 16u;
	data++;
	size--;
	base = event_base_new();
	REQUIRE(base != NULL && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	start(base);
	connection(ends[0]);
	while (size > 0) {
		size_t n = size < piece ? size : piece;

		if (send(ends[1], data, n, MSG_NOSIGNAL) < 0)
			break; /* it was closed */
		data += n;
		size -= n;
		event_base_loop(base, EVLOOP_NONBLOCK);
		check_bounds();
	}
	close(ends[1]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_base_loop(base, EVLOOP_NONBLOCK);
	check_bounds();
	REQUIRE(peer->conn == NULL && peer->pending[0] == NULL);
	peer->tls = NULL;
	peer_stop(peer);
	event_base_free(base);
	return 0;
}
