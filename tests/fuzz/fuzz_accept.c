/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that come in at the edge that listens: bytes of anybody, edges of another CA, and an edge with the right
 * keys, whose bytes somebody on the line cuts, changes and adds to: from accept(2) over the first bytes
 * (accept_queue.h), their proof (tls_proof.h) and OpenSSL's handshake to the first hello. fuzz_peer is about what comes behind that.
 *
 * Beside memory safety: nothing is met and no session begins but by an edge with the right keys, whose handshake is
 * whole in its own eyes; of those that prove nothing two have a place, and they displace none that has proven
 * something; what waits stays within bounds; all is let go at the end.
 *
 * Each operation is a byte: connection (4 bits), what (4 bits), and what that needs. Clocks and random numbers are the
 * fuzzer's own, so that an input does the same again. */
#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_set_rand_method() */
#define _GNU_SOURCE /* nftw */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "fuzz.h"

static uint64_t now_ns;

static int fuzz_clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	t->tv_sec = (time_t)(now_ns / 1000000000);
	t->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

static int fuzz_sockname(int fd, struct sockaddr *addr, socklen_t *len);
static int fuzz_peername(int fd, struct sockaddr *addr, socklen_t *len);

#define clock_gettime fuzz_clock_gettime
#define getsockname   fuzz_sockname
#define getpeername   fuzz_peername

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
#include "daemon/peer/tls.c"
#include "daemon/peer/tls_proof.c"
#include "daemon/client/client_keygen.c"
#include "tests/unit/no_log.h"
#include "tests/unit/no_parent.h"

#undef clock_gettime
#undef getsockname
#undef getpeername

/* Nothing is limited: more is let through. */
bool log_limit_pass(struct log_limit *l, uint64_t at_ns, uint32_t *missed)
{
	(void)l;
	(void)at_ns;
	(void)missed;
	return true;
}

/* --- random numbers --- */

static uint64_t seed;

static int next_bytes(unsigned char *buf, int n)
{
	for (int i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		buf[i] = (unsigned char)(seed >> 56);
	}
	return 1;
}

static int always(void)
{
	return 1;
}

/* --- the world --- */

enum { CONNS = 16, WIRE_MAX = 2048 };

struct end {
	int wire;       /* towards the edge under test; -1: closed */
	int client;     /* what the client's TLS writes comes out here; -1: it has none */
	int client_tls; /* its own socket */
	SSL *ssl;       /* NULL: bytes of the input only */
	bool has_keys;  /* those of the other edge, whatever becomes of its bytes */
	bool hello_sent;
};

static struct end ends_of[CONNS];
static int server_fds[CONNS]; /* which of them has what socket of the edge: to tell addresses apart */
static struct peer *peer;
static struct event_base *base;
static struct link_config here, there;
static struct tls *client_keys[2]; /* of the other edge; of a link with another CA */
static const SSL_CTX *volatile client_ctx[2]; /* LeakSanitizer does not look into memory for secrets */
static bool sealed, with_keys;
static unsigned sessions;

/* Addresses of an IPv4 connection from 127.0.0.1 to 127.0.0.2; the client's port is its number's, below 1024 for the
 * first two. */
static int name_end(int fd, bool own, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	unsigned i = 0, port;
	bool server = false;

	for (unsigned k = 0; k < CONNS; k++) {
		if (server_fds[k] == fd || ends_of[k].client_tls == fd) {
			i = k;
			server = server_fds[k] == fd;
		}
	}
	port = i < 2 ? 1000 + i : 40000 + i;
	in.sin_port = htons(server == own ? 4790 : (uint16_t)port);
	in.sin_addr.s_addr = htonl(server == own ? 0x7f000002 : 0x7f000001);
	memcpy(addr, &in, *len < sizeof(in) ? *len : sizeof(in));
	*len = sizeof(in);
	return 0;
}

static int fuzz_sockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return name_end(fd, true, addr, len);
}

static int fuzz_peername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return name_end(fd, false, addr, len);
}

static void on_session(void *arg, const struct proxy_session *s, const struct seal_secret *tx)
{
	(void)arg;
	(void)s;
	REQUIRE(peer->status.met && peer->status.verdict != HELLO_REFUSED);
	REQUIRE((tx != NULL) == sealed);
	sessions++;
}

static void on_keys(void *arg, const struct seal_secret *rx, uint32_t serial)
{
	(void)arg;
	REQUIRE(sealed && rx != NULL);
	peer_keys_taken(peer, serial);
}

static void configure(struct link_config *c, const char *local, const char *remote, const char *lan, const char *other)
{
	*c = (struct link_config){.name = "fuzz", .npaths = 1, .nlocal = 1, .nremote = 1, .lanes = 64};
	addr_read(local, &c->paths[0].local);
	addr_read(remote, &c->paths[0].remote);
	c->paths[0].rate_bps = 1000000000;
	addr_read_prefix(lan, &c->local[0]);
	addr_read_prefix(other, &c->remote[0]);
}

static char keys_dir[] = "/tmp/fuzz_accept.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st;
	(void)type;
	(void)w;
	return remove(path);
}

static void remove_keys(void)
{
	nftw(keys_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* `longreach keygen`, into keys_dir/SET. */
static void make_keys(const char *set)
{
	char dir[64], keygen[] = "keygen", name[] = "link", option[] = "--dir";
	char *argv[] = {keygen, name, option, dir, NULL};
	int out = dup(STDOUT_FILENO), none = open("/dev/null", O_WRONLY | O_CLOEXEC);

	snprintf(dir, sizeof(dir), "%s/%s", keys_dir, set);
	fflush(stdout);
	dup2(none, STDOUT_FILENO);
	optind = 1;
	REQUIRE(keygen_main(4, argv) == 0);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	close(none);
}

static void use_keys(struct link_config *c, const char *set, char site)
{
	snprintf(c->certificate_file, sizeof(c->certificate_file), "%s/%s/%c/link.crt", keys_dir, set, site);
	snprintf(c->key_file, sizeof(c->key_file), "%s/%s/%c/link.key", keys_dir, set, site);
	snprintf(c->ca_file, sizeof(c->ca_file), "%s/%s/%c/link.ca.crt", keys_dir, set, site);
	snprintf(c->peer_name, sizeof(c->peer_name), "%c.link", site == 'a' ? 'b' : 'a');
}

static void set_up_once(void)
{
	static const RAND_METHOD numbers = {.bytes = next_bytes, .pseudorand = next_bytes, .status = always};
	static const char *const sets[2] = {"right", "wrong"};
	char err[CONFIG_ERR_MAX];

	if (client_keys[0] != NULL)
		return;
	signal(SIGPIPE, SIG_IGN);
	REQUIRE(mkdtemp(keys_dir) != NULL);
	atexit(remove_keys);
	configure(&here, "127.0.0.2", "127.0.0.1", "10.1.0.0/16", "10.2.0.0/16"); /* the higher one: it listens */
	configure(&there, "127.0.0.1", "127.0.0.2", "10.2.0.0/16", "10.1.0.0/16");
	there.encryption = SEAL_AES_256_GCM;
	for (unsigned i = 0; i < 2; i++) {
		make_keys(sets[i]);
		use_keys(&there, sets[i], 'b');
		REQUIRE(tls_open(&there, &client_keys[i], err) == 0);
		client_ctx[i] = client_keys[i]->ctx;
	}
	use_keys(&here, sets[0], 'a');
	RAND_set_rand_method(&numbers);
}

static void start(void)
{
	const struct peer_user user = {.session = on_session, .keys = on_keys};
	const struct arena_life life = {.epoch = 7};
	char err[CONFIG_ERR_MAX];

	here.encryption = there.encryption = sealed ? SEAL_AES_256_GCM : SEAL_NONE;
	REQUIRE(peer_open(&here, base, &user, &peer, err) == 0);
	peer_run(peer, &here, &life);
}

/* --- what happens --- */

static void end_close(struct end *e)
{
	SSL_free(e->ssl);
	if (e->wire >= 0)
		close(e->wire);
	if (e->client >= 0)
		close(e->client);
	if (e->client_tls >= 0)
		close(e->client_tls);
	*e = (struct end){.wire = -1, .client = -1, .client_tls = -1};
}

/* keys: which of client_keys; -1: none, it says what the input says. */
static void connect_end(unsigned i, int keys)
{
	struct end *e = &ends_of[i];
	int pair[2];

	end_close(e);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	e->wire = pair[1];
	server_fds[i] = pair[0];
	for (unsigned k = 0; k < CONNS; k++)
		if (k != i && server_fds[k] == pair[0])
			server_fds[k] = -1; /* closed since, and its number given anew */
	if (keys >= 0 && sealed) {
		int own[2];

		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, own) == 0);
		e->client_tls = own[0];
		e->client = own[1];
		e->ssl = tls_connection(client_keys[keys]);
		e->has_keys = keys == 0;
		REQUIRE(e->ssl != NULL && SSL_set_fd(e->ssl, own[0]) == 1);
		SSL_set_connect_state(e->ssl);
	}
	accept_queue_add(peer->unjudged, pair[0]);
}

static void client_message(struct end *e, enum peer_msg_type type, const uint8_t *body, uint16_t len)
{
	uint8_t msg[PEER_HEADER_LEN + PEER_BODY_MAX];

	peer_msg_header(msg, type, len);
	memcpy(msg + PEER_HEADER_LEN, body, len);
	SSL_write(e->ssl, msg, PEER_HEADER_LEN + len);
}

/* As the other edge: hello, and any key is taken. */
static void client_turn(struct end *e)
{
	uint8_t in[2 * (PEER_HEADER_LEN + PEER_BODY_MAX)];
	struct peer_msg m;
	struct hello h;
	int n;

	if (e->ssl == NULL)
		return;
	ERR_clear_error();
	if (!SSL_is_init_finished(e->ssl) && SSL_do_handshake(e->ssl) != 1)
		return;
	if (!e->hello_sent) {
		uint8_t body[PEER_BODY_MAX];

		hello_from_config(&h, &there);
		h.boot_id = 5;
		h.session = 1;
		h.arena_epoch = 8;
		e->hello_sent = true;
		with_keys |= e->has_keys;
		client_message(e, MSG_HELLO, body, hello_encode(&h, body));
	}
	n = SSL_read(e->ssl, in, sizeof(in));
	for (const uint8_t *at = in; n > 0;) {
		int used = peer_msg_next(at, (size_t)n, &m);

		if (used <= 0)
			break;
		if (m.type == MSG_KEY && m.len == PEER_KEY_LEN)
			client_message(e, MSG_KEY_READY, m.body, PEER_READY_LEN);
		at += used;
		n -= used;
	}
}

static void wire_write(struct end *e, const uint8_t *bytes, size_t n)
{
	if (e->wire >= 0 && n > 0 && send(e->wire, bytes, n, MSG_NOSIGNAL) < 0) {
		close(e->wire);
		e->wire = -1;
	}
}

/* Up to n bytes of the client go on; flip: one bit of them is changed. */
static void to_server(struct end *e, size_t n, int flip)
{
	uint8_t bytes[WIRE_MAX];
	ssize_t got = e->client >= 0 ? recv(e->client, bytes, n < WIRE_MAX ? n : WIRE_MAX, 0) : -1;

	if (got <= 0)
		return;
	if (flip >= 0) {
		bytes[(size_t)flip / 8 % (size_t)got] ^= (uint8_t)(1 << flip % 8);
	}
	wire_write(e, bytes, (size_t)got);
}

static void to_client(struct end *e)
{
	uint8_t bytes[WIRE_MAX];
	ssize_t got = e->wire >= 0 ? recv(e->wire, bytes, sizeof(bytes), 0) : -1;

	if (got > 0 && e->client >= 0)
		(void)!send(e->client, bytes, (size_t)got, MSG_NOSIGNAL);
	if (got == 0)
		end_close(e);
	else
		client_turn(e);
}

/* --- what must hold --- */

static unsigned pending_of(enum conn_rank least)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PENDING_MAX; i++)
		n += peer->pending[i] != NULL && peer->pending[i]->rank >= least;
	return n;
}

static void check(void)
{
	REQUIRE(pending_of(CONN_UNPROVEN) - pending_of(CONN_PROVEN) <= UNPROVEN_MAX);
	REQUIRE(!sealed || with_keys || (sessions == 0 && !peer->status.met && peer->conn == NULL));
	REQUIRE(!sealed || with_keys || pending_of(CONN_AUTHENTICATED) == 0);
	REQUIRE(strlen(peer->status.trouble) < PEER_WHY_MAX);
	for (unsigned i = 0; i < PENDING_MAX + 1; i++) {
		const struct conn *c = i < PENDING_MAX ? peer->pending[i] : peer->conn;

		if (c == NULL)
			continue;
		REQUIRE(evbuffer_get_length(bufferevent_get_input(c->bev)) <= INPUT_MAX);
		REQUIRE(evbuffer_get_length(bufferevent_get_output(c->bev)) <= OUTPUT_MAX + PEER_HEADER_LEN + PEER_BODY_MAX);
	}
}

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t take_byte(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->at++;
}

enum what { CONNECT, CONNECT_WITH_KEY, SEND, PASS, PASS_CHANGED, BACK, CLOSE, SAY, TIME, CONNECT_OTHER_CA, WHAT_COUNT };

static void operate(struct input *in)
{
	uint8_t op = take_byte(in);
	unsigned i = op & 15, proven = pending_of(CONN_PROVEN);
	enum what what = (op >> 4) % WHAT_COUNT;
	struct end *e = &ends_of[i];
	bool stranger = sealed && !e->has_keys && what != CONNECT_WITH_KEY && what != TIME;
	const struct conn *before = peer->conn;
	size_t n;

	switch (what) {
	case CONNECT:
	case CONNECT_WITH_KEY:
	case CONNECT_OTHER_CA:
		connect_end(i, what == CONNECT ? -1 : what == CONNECT_OTHER_CA);
		client_turn(e);
		break;
	case SEND: /* behind, or in the middle of, what the client says */
	case SAY:  /* within its TLS */
		n = take_byte(in);
		n = n < in->left ? n : in->left;
		if (what == SAY && e->ssl != NULL && SSL_is_init_finished(e->ssl)) {
			ERR_clear_error();
			SSL_write(e->ssl, in->at, (int)n);
		} else if (what == SEND) {
			wire_write(e, in->at, n);
		}
		in->at += n;
		in->left -= n;
		break;
	case PASS:
		to_server(e, 1 + 8u * take_byte(in), -1);
		break;
	case PASS_CHANGED:
		n = 1 + 8u * take_byte(in);
		to_server(e, n, take_byte(in) | take_byte(in) << 8);
		break;
	case BACK:
		to_client(e);
		break;
	case CLOSE:
		end_close(e);
		break;
	default:
		now_ns += 50000000ull * take_byte(in);
		on_tick(-1, 0, peer);
	}
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_base_loop(base, EVLOOP_NONBLOCK);
	/* what a stranger does, who has proven nothing, costs nobody his place */
	REQUIRE(!stranger || pending_of(CONN_PROVEN) + (peer->conn != before) >= proven);
	check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	if (size < 2)
		return 0;
	set_up_once();
	sealed = take_byte(&in) & 1;
	seed = size;
	now_ns = 1000000000000ull;
	with_keys = false;
	sessions = 0;
	for (unsigned i = 0; i < CONNS; i++) {
		ends_of[i] = (struct end){.wire = -1, .client = -1, .client_tls = -1};
		server_fds[i] = -1;
	}
	base = event_base_new();
	REQUIRE(base != NULL);
	start();
	for (unsigned n = 0; in.left > 0 && n < 200; n++)
		operate(&in);
	for (unsigned i = 0; i < CONNS; i++)
		end_close(&ends_of[i]);
	event_base_loop(base, EVLOOP_NONBLOCK);
	event_base_loop(base, EVLOOP_NONBLOCK);
	check();
	REQUIRE(peer->conn == NULL && pending_of(CONN_UNPROVEN) == 0);
	peer_stop(peer);
	event_base_free(base);
	return 0;
}
