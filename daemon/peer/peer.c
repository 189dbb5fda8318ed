/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - the control channel of a link.
 *
 * Theory of operation
 *
 * The edge with the lower WAN address connects to the other one's Port=, which accepts from RemoteAddress= only. With
 * several paths it tries one after another until one carries the connection; any path will do, since the connection
 * carries no packets. Each end sends hello as soon as the connection stands, and again whenever its configuration
 * changes; pings go every second, three seconds without a byte end the connection, and the connecting edge tries again
 * after 100 to 200 ms.
 *
 * Before that (accept_queue.h): an accepted connection is not answered until its first bytes are there. They are judged
 * before TLS begins: on a sealed link they carry a proof that the sender has the link's keys (tls_proof.h). An unsealed
 * link has no secret to prove, and only a source port below 1024 tells an edge from an unprivileged user of its
 * machine. A connection without a proof may come from an edge of an earlier version, or through an address translation:
 * a few of them are accepted each second, and none of them displaces a connection that has a proof, or is further
 * along.
 *
 * A connection that has not said hello is `pending` and displaces no session; with its hello it takes the place of the
 * one before, which is thereby known to be dead (the other edge has only one at a time). So neither a half-open
 * connection of a crashed edge nor a silent one can keep a good one out. A connection that proves less than the one in
 * use is closed instead: if the other edge can only prove less now, it must wait until the old connection is known to
 * be dead by its silence.
 *
 * A session is (boot id, session number) of both edges. A hello that repeats a known pair changes nothing: a broken
 * control connection does not touch the data path. The end that hears a new pair begins a session with epochs that both
 * work out alike; the other end does the same when it hears the pair, and until then drops the new datagrams, which are
 * repaired.
 *
 * Sealed links (tls.h): a connection speaks TLS before anything else. A session then needs keys. The end that would
 * begin one offers a key (MSG_KEY: a serial number and the epoch; the secret itself is what both ends export from this
 * connection for that number, epoch and direction); the other one derives, hands the keys to its workers, and says so
 * (MSG_KEY_READY); only then does the session begin here, so that no datagram is sent that cannot be opened. If the
 * connection breaks in between, the offer is made again on the next one under a new number. Keys outlive the connection
 * they came from: later keys of a session follow from the first without a message (seal.h).
 *
 * Reauthentication: after a reload that changes the keys (tls_fingerprint()) the present session was proven under other
 * keys. Session and connection go on while the other edge proves itself on a second connection: the connecting edge
 * tries to make it every second; the listening edge asks for it (MSG_REAUTH) as often. With its hello the second
 * connection takes the place of the first, and this edge then sends a new hello, so that a session with keys from the
 * new connection replaces the old one. If the edges get their new keys one after the other, attempts fail until both
 * have them. After ReauthWithin= the session is ended: connection and keys are dropped, and the workers get a session
 * without a peer, in which no received datagram is accepted and nothing is acknowledged early. A connection that was
 * proven under other keys and has no session is closed after the same time. */
#include "peer_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/util.h>
#include <openssl/crypto.h>

#include "daemon/util/addr.h"
#include "daemon/util/clock.h"
#include "daemon/privileged/privileged.h"
#include "daemon/util/tcp_socket.h"
#include "tls.h"
#include "proxy/util/bytes.h"
#include "seal/secret_mem.h"

static void begin_session(struct peer *p, const struct seal_secret *tx);

/* --- reauthentication --- */

static int new_boot_id(uint32_t *id)
{
	do {
		if (getrandom(id, sizeof(*id), 0) != sizeof(*id))
			return -EIO;
	} while (*id == 0);
	return 0;
}

static bool keys_in_force(const struct peer *p, const uint8_t keys[TLS_FINGERPRINT_LEN])
{
	return p->tls == NULL || memcmp(keys, tls_fingerprint(p->tls), TLS_FINGERPRINT_LEN) == 0;
}

static bool session_is_unproven(const struct peer *p)
{
	return p->status.in_session && !keys_in_force(p, p->session_keys);
}

static bool conn_is_unproven(const struct peer *p)
{
	return p->conn != NULL && !keys_in_force(p, p->conn->keys);
}

static bool reauth_is_asked(const struct peer *p)
{
	return p->reauth_asked_ns != 0 && clock_now_ns() - p->reauth_asked_ns < SILENCE_MAX_MS * NS_PER_MS;
}

bool peer_wants_proof(const struct peer *p)
{
	return conn_is_unproven(p) || reauth_is_asked(p);
}

bool peer_wants_conn(const struct peer *p)
{
	return p->conn == NULL || peer_wants_proof(p);
}

/* Asks for a connection to replace this one, if this one was made with other keys than those in force. */
static void ask_for_reauth(struct peer *p)
{
	if (!conn_is_unproven(p))
		return;
	peer_conn_send(p->conn, MSG_REAUTH, NULL, 0);
	if (p->connects && p->pending[0] == NULL && !evtimer_pending(p->retry, NULL))
		peer_retry_later(p);
}

void peer_take_reauth(struct peer *p)
{
	bool asked = reauth_is_asked(p);

	p->reauth_asked_ns = clock_now_ns();
	if (!asked && p->reauth_since_ns == 0)
		p->status.reauth_trouble[0] = '\0';
	if (!asked && log_limit_pass(&p->news, p->reauth_asked_ns, NULL))
		log_notice("link %s: the other edge has changed its keys and asks this edge to prove itself again: the "
		           "session goes on meanwhile",
		           p->name);
	if (p->connects && p->pending[0] == NULL && !evtimer_pending(p->retry, NULL))
		peer_retry_later(p);
}

static void log_keys_in_force(const struct peer *p, double after_s)
{
	if (p->status.in_session)
		log_notice("link %s: the session has been proven under the new keys, %.1f s after the keys changed",
		           p->name, after_s);
	else if (p->conn != NULL)
		log_notice(
		    "link %s: the control connection has been proven under the new keys, %.1f s after the keys changed",
		    p->name, after_s);
}

/* Compares the keys of session and connection with those in force, whenever one of the three is new. A connection
 * without a session counts, too: a session can begin on it at any time. */
static void look_at_keys(struct peer *p)
{
	bool other = session_is_unproven(p) || conn_is_unproven(p);
	uint64_t now_ns = clock_now_ns();

	if (other && p->reauth_since_ns == 0) {
		p->reauth_since_ns = now_ns;
		p->status.reauth_trouble[0] = '\0';
		log_notice("link %s: the keys have changed: the %s goes on, the other edge has %.0f s to prove itself "
		           "under the new keys",
		           p->name, p->status.in_session ? "session" : "control connection",
		           (double)p->reauth_within_ns / 1e9);
	} else if (!other && p->reauth_since_ns != 0) {
		log_keys_in_force(p, (double)(now_ns - p->reauth_since_ns) / 1e9);
		p->reauth_since_ns = 0;
		p->status.reauth_trouble[0] = '\0';
	}
}

/* Begins a session without a peer: received datagrams are not accepted, sent ones cannot be opened. */
static void begin_void_session(struct peer *p)
{
	struct seal_secret tx = {.cipher = (enum seal_cipher)p->here.cipher};
	struct hello nobody = p->there;
	struct proxy_session s = {0};

	while (new_boot_id(&nobody.boot_id) < 0 || getrandom(tx.bytes, sizeof(tx.bytes), 0) != sizeof(tx.bytes))
		;
	hello_epochs(&p->here, &nobody, &s);
	s.peer_boot_id = p->there.boot_id; /* the edge may come back, and its session numbers continue */
	tx.epoch = s.epoch_tx;
	s.arena_lost = false; /* was said */
	s.mismatch = true;
	p->user.session(p->user.arg, &s, &tx);
	OPENSSL_cleanse(&tx, sizeof(tx));
}

/* Ends the session, or the connection without one: offers over the connection are not taken up any more. */
static void end_unproven_session(struct peer *p)
{
	const char *why = p->status.reauth_trouble;
	bool begun = p->status.in_session;

	snprintf(p->status.trouble, sizeof(p->status.trouble),
	         "the other edge did not prove itself under the changed keys within ReauthWithin=%s%.160s",
	         why[0] != '\0' ? ": " : "", why);
	log_err("link %s: this edge has ended the %s, and carries no packets: %s", p->name,
	        begun ? "session" : "control connection", p->status.trouble);
	p->status.reauth = REAUTH_FAILED;
	p->status.in_session = p->status.met = p->session_due = false;
	p->due_since_ns = 0;
	p->session_boot_id = 0;
	p->is_void = begun;
	p->here.session++; /* the next session has epochs of its own */
	if (begun)
		begin_void_session(p);
}

static void end_unproven(struct peer *p)
{
	p->reauth_since_ns = 0;
	if (session_is_unproven(p) || !p->status.in_session)
		end_unproven_session(p);
	else
		log_notice("link %s: the control connection was not proven under the new keys: this edge closes it, "
		           "the session goes on",
		           p->name);
	if (p->conn != NULL)
		peer_conn_close(p->conn);
}

static void reauth_tick(struct peer *p)
{
	look_at_keys(p); /* the connection may be gone */
	if (p->reauth_since_ns != 0 && clock_now_ns() - p->reauth_since_ns >= p->reauth_within_ns)
		end_unproven(p);
	ask_for_reauth(p);
}

/* --- keys --- */

enum key_direction { KEY_FROM_CONNECTING, KEY_FROM_LISTENING };

static bool export_secret(const struct conn *c, enum key_direction from, uint32_t serial, struct seal_secret *s)
{
	uint8_t context[1 + 4 + 4];

	context[0] = (uint8_t)from;
	put_be32(context + 1, serial);
	put_be32(context + 5, s->epoch);
	s->cipher = (enum seal_cipher)c->peer->here.cipher;
	return tls_export(bufferevent_openssl_get_ssl(c->bev), context, sizeof(context), s->bytes);
}

static void offer_key(struct peer *p)
{
	uint8_t body[PEER_KEY_LEN];
	struct proxy_session s;

	p->session_due = true;
	p->offered_ns = clock_now_ns();
	if (p->due_since_ns == 0)
		p->due_since_ns = p->offered_ns;
	if (p->conn == NULL)
		return; /* on the next connection */
	hello_epochs(&p->here, &p->there, &s);
	p->offer.epoch = s.epoch_tx;
	p->offer_serial++;
	if (!export_secret(p->conn, p->connects ? KEY_FROM_CONNECTING : KEY_FROM_LISTENING, p->offer_serial,
	                   &p->offer)) {
		log_err("link %s: TLS exports no key for a session: this edge tries again every %d s", p->name,
		        OFFER_WITHIN_MS / 1000);
		return;
	}
	put_be32(body, p->offer_serial);
	put_be32(body + 4, p->offer.epoch);
	peer_conn_send(p->conn, MSG_KEY, body, sizeof(body));
}

/* The other edge may have had no memory for the offered keys. An earlier version does not try again by itself, but
 * accepts another offer. */
static void offer_again(struct peer *p, uint64_t now_ns)
{
	if (p->session_due && p->conn != NULL && now_ns - p->offered_ns >= OFFER_WITHIN_MS * NS_PER_MS)
		offer_key(p);
}

/* May be called again: TLS exports the same secret each time. */
static bool take_keys(struct peer *p)
{
	struct seal_secret s = {.epoch = p->taking_epoch};

	if (!export_secret(p->conn, p->connects ? KEY_FROM_LISTENING : KEY_FROM_CONNECTING, p->taking_serial, &s))
		return false;
	p->user.keys(p->user.arg, &s, p->taking_serial);
	OPENSSL_cleanse(&s, sizeof(s));
	return true;
}

bool peer_take_key(struct conn *c, const uint8_t *body)
{
	struct peer *p = c->peer;

	if (p->tls == NULL || p->conn != c) {
		peer_conn_fail(c, "the other end sent a key that this connection does not expect");
		return false;
	}
	p->taking_serial = get_be32(body);
	p->taking_epoch = get_be32(body + 4);
	p->taking = true; /* set before the call, whose answer may come at once */
	if (take_keys(p))
		return true;
	peer_conn_fail(c, "TLS exports no key for the other end's datagrams");
	return false;
}

bool peer_take_keys_again(struct peer *p)
{
	return p->conn != NULL && p->taking && take_keys(p);
}

void peer_keys_taken(struct peer *p, uint32_t serial)
{
	uint8_t body[PEER_READY_LEN];

	if (p->conn == NULL || serial != p->taking_serial)
		return;
	p->taking = false;
	put_be32(body, serial);
	peer_conn_send(p->conn, MSG_KEY_READY, body, sizeof(body));
}

void peer_take_ready(struct conn *c, const uint8_t *body)
{
	struct peer *p = c->peer;

	if (!p->session_due || p->conn != c || get_be32(body) != p->offer_serial)
		return;
	p->session_due = false;
	p->due_since_ns = 0;
	begin_session(p, &p->offer);
	OPENSSL_cleanse(&p->offer, sizeof(p->offer));
}

/* --- connecting --- */

/* Uses a reserved source port if permitted: no unprivileged user of this machine can have one. */
static int connecting_socket(const struct ip_addr *from)
{
	int fd = privileged_reserved_socket(from);

	return fd == -EADDRINUSE || fd == -EACCES ? tcp_socket_bound(from, 0) : fd;
}

static void try_connect(struct peer *p)
{
	const struct path_config *path = &p->paths[p->tried = (p->tried + 1) % p->npaths];
	struct sockaddr_storage to;
	socklen_t len = addr_to_sockaddr(&path->remote, path->port, &to);
	int fd = connecting_socket(&path->local);
	struct conn *c;

	c = fd < 0 ? NULL : peer_conn_open(p, fd);
	if (c == NULL) {
		if (log_limit_pass(&p->troubles, clock_now_ns(), NULL))
			log_warn("link %s: no socket for the control connection: %s", p->name,
			         strerror(fd < 0 ? -fd : ENOMEM));
		peer_retry_later(p);
		return;
	}
	p->pending[0] = c;
	/* A failure at once may already have closed c from on_event(). */
	bufferevent_socket_connect(c->bev, (struct sockaddr *)&to, (int)len);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct peer *p = arg;

	(void)fd;
	(void)what;
	if (p->pending[0] == NULL && peer_wants_conn(p))
		try_connect(p);
}

void peer_retry_later(struct peer *p)
{
	uint32_t ms = p->conn != NULL && p->status.reauth_trouble[0] != '\0' ? REAUTH_EVERY_MS : p->backoff_ms;
	struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_add(p->retry, &wait);
	p->backoff_ms = p->backoff_ms * 2 < BACKOFF_MAX_MS ? p->backoff_ms * 2 : BACKOFF_MAX_MS;
}

/* --- hello --- */

static void begin_session(struct peer *p, const struct seal_secret *tx)
{
	struct proxy_session *s = &p->status.session;

	p->settled_ns = clock_now_ns() + (p->session_boot_id == p->there.boot_id ? SESSION_SETTLES_MS * NS_PER_MS : 0);
	p->session_boot_id = p->there.boot_id;
	hello_epochs(&p->here, &p->there, s);
	s->mismatch = p->status.verdict != HELLO_AGREED;
	p->here.peer_arena_epoch = p->there.arena_epoch; /* goes out with the next hello */
	p->status.in_session = true;
	p->is_void = false;
	p->status.sessions++;
	p->status.reauth = REAUTH_NONE;
	p->user.session(p->user.arg, s, tx);
	if (tx == NULL)
		return;
	memcpy(p->session_keys, p->conn->keys, sizeof(p->session_keys));
	look_at_keys(p);
	if (p->reauth_since_ns == 0)
		p->status.reauth_trouble[0] = '\0';
}

static void log_verdict(struct peer *p)
{
	const struct peer_status *s = &p->status;
	char t[ADDR_TEXT_MAX];

	if (!log_limit_pass(&p->verdicts, clock_now_ns(), NULL))
		return; /* logged once: an edge may repeat its hello; the status has the last verdict */
	addr_write(&p->paths[0].remote, t, sizeof(t));
	switch (s->verdict) {
	case HELLO_AGREED:
		log_notice("link %s: session with the other edge (%s at %s), ack mode %s", p->name, p->there.name, t,
		           ack_mode_name(p->here.ack_mode));
		break;
	case HELLO_MISMATCH:
		log_warn("link %s: the edges disagree, no packet is acknowledged early until they agree: %s", p->name,
		         s->text);
		break;
	case HELLO_REFUSED:
		log_err("link %s: no packet can be carried: %s", p->name, s->text);
		break;
	}
}

/* Logs once while the rates differ too much. */
static void look_at_rates(struct peer *p)
{
	bool said = p->status.rates[0] != '\0';

	hello_rates(&p->here, &p->there, p->status.rates);
	if (!said && p->status.rates[0] != '\0')
		log_warn("link %s: %s", p->name, p->status.rates);
}

/* Different MTUs work as long as the path carries both, so they are only logged. */
static void log_oddities(const struct peer *p)
{
	if (p->here.wan_mtu != p->there.wan_mtu)
		log_warn("link %s: MTU= is %u here and %u there: packets larger than the path carries would be lost",
		         p->name, p->here.wan_mtu, p->there.wan_mtu);
}

/* Either end has sent a new hello. */
static void reconsider(struct peer *p)
{
	p->status.verdict = hello_compare(&p->here, &p->there, p->status.text);
	log_verdict(p);
	if (p->user.agreed != NULL)
		p->user.agreed(p->user.arg, p->status.verdict == HELLO_AGREED);
	if (p->user.barrier != NULL)
		p->user.barrier(p->user.arg, (enum barrier_mode)p->there.barrier, p->there.barrier_owed);
	p->session_due = false;
	if (p->status.verdict == HELLO_REFUSED || p->tls == NULL)
		p->due_since_ns = 0;
	if (p->status.verdict == HELLO_REFUSED)
		return;
	log_oddities(p);
	if (p->tls != NULL)
		offer_key(p);
	else
		begin_session(p, NULL);
}

static void take_place(struct peer *p, struct conn *c)
{
	struct conn *old = p->conn;

	peer_conn_forget(c);
	p->conn = c;
	p->taking = false;
	p->due_since_ns = 0; /* an offer over an earlier connection could not be answered */
	p->reauth_asked_ns = 0;
	p->backoff_ms = BACKOFF_MIN_MS;
	if (old != NULL)
		peer_conn_close(old);
	look_at_keys(p);
	p->status.connected = true;
	p->status.trouble[0] = '\0';
	peer_clock_begin(&p->clock);
}

bool peer_take_hello(struct peer *p, struct conn *c, const struct hello *h)
{
	bool is_new = !p->status.met || h->boot_id != p->there.boot_id || h->session != p->there.session;
	bool was_lost = p->conn != c, is_second = was_lost && p->conn != NULL;

	if (is_second && c->rank < p->conn->rank) {
		peer_conn_fail(c, "the connection in use is better proven: on a link that is not sealed, an edge "
		                  "connects from a port below 1024");
		return false;
	}
	if (was_lost)
		take_place(p, c);
	if (was_lost && p->reauth_since_ns != 0 && !is_new) {
		p->here.session++;
		peer_conn_hello(c);
		is_new = true;
	}
	p->there = *h;
	p->status.met = true;
	p->status.stopped_there = false;
	look_at_rates(p);
	if (is_new)
		reconsider(p);
	else if (was_lost && p->session_due)
		offer_key(p);
	else if (was_lost)
		log_info("link %s: control connection is %s, the session goes on", p->name, is_second ? "a new one" : "back");
	return true;
}

void peer_take_stopped(struct peer *p)
{
	if (!p->status.stopped_there && log_limit_pass(&p->news, clock_now_ns(), NULL))
		log_notice("link %s: an operator has stopped the link at the other edge, by `longreach stop` or by "
		           "removing its link file: RoCE stays closed here until the link is started there, or its "
		           "link file here is removed, too",
		           p->name);
	p->status.stopped_there = true;
}

void peer_say_stopped(struct peer *p)
{
	if (p->conn == NULL)
		return;
	peer_conn_send(p->conn, MSG_STOPPED, NULL, 0);
	peer_conn_flush(p->conn);
}

/* --- the clock --- */

static void check_conn(struct conn *c, uint64_t now_ns)
{
	if (now_ns - c->heard_ns >= SILENCE_MAX_MS * NS_PER_MS)
		peer_conn_fail(c, "no message arrived on it for 3 s");
	else if (evbuffer_get_length(bufferevent_get_output(c->bev)) > OUTPUT_MAX)
		peer_conn_fail(c, "the other edge does not read its messages");
	else
		peer_conn_ping(c);
}

/* --- certificates that expire --- */

static void say_days(const struct peer *p, struct cert_days *d, const char *what)
{
	int64_t now_s = (int64_t)time(NULL), left = cert_days_left(d->expires_s, now_s);

	switch (cert_days_look(d, now_s)) {
	case -1:
		return;
	case 0:
		log_err("link %s: the %s has expired: the session goes on, the next connection to the other edge is "
		        "refused; `longreach keygen` makes new ones",
		        p->name, what);
		return;
	default:
		log_warn("link %s: the %s expires in %lld day%s: `longreach keygen` makes new ones", p->name, what,
		         (long long)left, left == 1 ? "" : "s");
	}
}

static void take_expiry(struct peer *p)
{
	p->status.expiry = tls_expiry(p->tls);
	cert_days_init(&p->cert, p->status.expiry.certificate_s);
	cert_days_init(&p->ca, p->status.expiry.ca_s);
}

static void look_at_days(struct peer *p)
{
	say_days(p, &p->cert, "certificate");
	say_days(p, &p->ca, "CA's certificate");
}

static void look_at_clock(struct peer *p, uint64_t now_ns)
{
	int64_t set_ns = peer_clock_look(&p->clock, clock_wall_ns(), now_ns);

	if (set_ns != 0 && log_limit_pass(&p->news, now_ns, NULL))
		log_warn("link %s: this machine's clock was set %s by %.1f s: earlier lines of this log carry times of "
		         "the clock before the step",
		         p->name, set_ns < 0 ? "back" : "forward", (double)(set_ns < 0 ? -set_ns : set_ns) / 1e9);
}

static uint64_t patience_ms(const struct conn *c)
{
	if (c->peer->connects)
		return c->stands ? HELLO_WITHIN_MS : CONNECT_WITHIN_MS;
	return c->rank == CONN_UNPROVEN ? UNPROVEN_WITHIN_MS : HELLO_WITHIN_MS;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	uint64_t now_ns = clock_now_ns();
	struct peer *p = arg;

	(void)fd;
	(void)what;
	peer_listen_enable(p, true);
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (p->pending[i] != NULL &&
		    now_ns - p->pending[i]->opened_ns >= patience_ms(p->pending[i]) * NS_PER_MS)
			peer_conn_fail(p->pending[i], "no answer");
	if (p->conn != NULL)
		check_conn(p->conn, now_ns);
	offer_again(p, now_ns);
	reauth_tick(p);
	look_at_days(p);
	look_at_clock(p, now_ns);
}

/* --- from outside --- */

static int start_clock(struct peer *p)
{
	const struct timeval every = {.tv_sec = PING_EVERY_MS / 1000};

	p->retry = evtimer_new(p->base, on_retry, p);
	p->tick = event_new(p->base, -1, EV_PERSIST, on_tick, p);
	if (p->retry == NULL || p->tick == NULL || event_add(p->tick, &every) < 0)
		return -ENOMEM;
	return 0;
}

static void init_limits(struct peer *p)
{
	p->backoff_ms = BACKOFF_MIN_MS;
	p->accepts = (struct log_limit){.window_ns = NS_PER_S, .burst = ACCEPTS_PER_S};
	p->accepts_proven = (struct log_limit){.window_ns = NS_PER_S, .burst = ACCEPTS_PROVEN_PER_S};
	p->news = p->verdicts = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = TROUBLES_PER_MIN};
	p->strangers = p->floods = p->troubles = (struct log_limit){.window_ns = 60 * NS_PER_S, .burst = 1};
}

int peer_open(const struct link_config *c, struct event_base *base, const struct peer_user *user, struct peer **out,
              char err[CONFIG_ERR_MAX])
{
	struct peer *p = secret_map(sizeof(*p)); /* it holds the key on offer */
	int r;

	snprintf(err, CONFIG_ERR_MAX, "cannot start the control channel");
	if (p == NULL)
		return -ENOMEM;
	p->base = base;
	p->user = *user;
	snprintf(p->name, sizeof(p->name), "%s", c->name);
	memcpy(p->paths, c->paths, sizeof(p->paths));
	p->npaths = c->npaths;
	p->tried = c->npaths - 1;
	p->connects = memcmp(&c->paths[0].local, &c->paths[0].remote, sizeof(c->paths[0].local)) < 0;
	p->reauth_within_ns = c->reauth_ns;
	init_limits(p);
	hello_from_config(&p->here, c);
	p->here.session = 1;
	r = new_boot_id(&p->here.boot_id);
	if (r == 0)
		r = tls_open(c, &p->tls, err);
	if (r == 0)
		r = start_clock(p);
	if (r == 0 && !p->connects)
		r = peer_listen(p, err);
	if (r < 0) {
		peer_stop(p);
		return r;
	}
	*out = p;
	return 0;
}

/* Names key files whose state weakens the proof of the first flight. */
static void say_key_files(const struct peer *p, const struct link_config *c)
{
	if (p->tls != NULL && tls_proof_is_public(p->tls))
		log_info("link %s: CA=%s: others than its owner may read it: set mode 600, or a user of this machine "
		         "can pass for an edge until the TLS handshake fails",
		         p->name, c->ca_file);
	if (p->tls != NULL && tls_root_is_left_out(p->tls))
		log_warn(
		    "link %s: Certificate=%s: contains a root certificate, which this edge does not send, as it is the "
		    "secret of CA=: expected only this edge's own certificate and those of intermediate CAs",
		    p->name, c->certificate_file);
}

void peer_run(struct peer *p, const struct link_config *c, const struct arena_life *life)
{
	p->here.arena_epoch = life->epoch;
	p->here.arena_former = (uint8_t)life->former;
	p->here.peer_arena_epoch = life->peer_epoch;
	say_key_files(p, c);
	take_expiry(p);
	look_at_days(p);
	if (p->connects)
		try_connect(p);
}

bool peer_reread_keys(struct peer *p, const struct link_config *c)
{
	char err[CONFIG_ERR_MAX];
	struct tls *t;
	bool changed;

	p->reauth_within_ns = c->reauth_ns;
	if (p->tls == NULL)
		return false;
	if (tls_open(c, &t, err) < 0) {
		log_err("link %s: cannot take up the new keys, the old keys stay in use: %s", p->name, err);
		return false;
	}
	changed = !keys_in_force(p, tls_fingerprint(t));
	peer_conn_close_pending(p); /* their handshakes ask what is about to be freed */
	tls_close(p->tls);
	p->tls = t;
	if (changed)
		say_key_files(p, c);
	take_expiry(p);
	look_at_days(p);
	look_at_keys(p);
	ask_for_reauth(p);
	return changed;
}

void peer_reconfigure(struct peer *p, const struct link_config *c)
{
	struct hello next = p->here;

	peer_reread_keys(p, c);
	hello_from_config(&next, c);
	p->here.rate_bps = next.rate_bps; /* edges may differ in these: sent with the next hello */
	if (p->status.met)
		look_at_rates(p);
	if (memcmp(&next, &p->here, sizeof(next)) == 0)
		return;
	next.session++;
	p->here = next;
	if (p->conn != NULL)
		peer_conn_hello(p->conn);
	for (unsigned i = 0; i < PENDING_MAX; i++)
		if (p->pending[i] != NULL && p->pending[i]->rank == CONN_AUTHENTICATED)
			peer_conn_hello(p->pending[i]);
	if (p->status.met)
		reconsider(p);
}

void peer_renew(struct peer *p)
{
	if (p->is_void) {
		begin_void_session(p);
		return;
	}
	if (p->conn == NULL || !p->status.met || p->session_due)
		return;
	p->here.session++;
	peer_conn_hello(p->conn);
	reconsider(p);
}

void peer_retry(struct peer *p)
{
	if (!p->connects || p->conn != NULL)
		return;
	p->backoff_ms = BACKOFF_MIN_MS;
	if (p->pending[0] != NULL)
		peer_conn_close(p->pending[0]); /* its SYN may have gone nowhere; tries again */
	else
		peer_retry_later(p);
}

void peer_stop(struct peer *p)
{
	p->connects = false; /* no new attempt */
	peer_conn_close_pending(p);
	if (p->conn != NULL)
		peer_conn_close(p->conn);
	peer_listen_stop(p);
	accept_queue_free(p->unjudged);
	if (p->resume != NULL)
		event_free(p->resume);
	tls_close(p->tls);
	if (p->retry != NULL)
		event_free(p->retry);
	if (p->tick != NULL)
		event_free(p->tick);
	secret_unmap(p, sizeof(*p));
}

static void reauth_status(const struct peer *p, struct peer_status *s)
{
	uint64_t waited_ns = clock_now_ns() - p->reauth_since_ns;

	s->reauth = REAUTH_DUE;
	s->reauth_left_ns = waited_ns < p->reauth_within_ns ? p->reauth_within_ns - waited_ns : 0;
}

void peer_status(const struct peer *p, struct peer_status *s)
{
	*s = p->status;
	s->there = p->there;
	s->settling = s->in_session && clock_now_ns() < p->settled_ns;
	s->offer_age_ns = p->conn != NULL && p->session_due ? clock_now_ns() - p->due_since_ns : 0;
	s->clock_known = p->conn != NULL && peer_clock_ahead(&p->clock, p->status.rtt_ns, &s->clock_ahead_ns);
	s->clock_jumps = p->clock.jumps;
	s->clock_jump_ns = p->clock.jump_ns;
	s->clock_jump_age_ns = p->clock.jumps > 0 ? clock_now_ns() - p->clock.jump_at_ns : 0;
	if (p->reauth_since_ns != 0)
		reauth_status(p, s);
	else if (s->reauth == REAUTH_NONE && reauth_is_asked(p))
		s->reauth = REAUTH_ASKED;
}
