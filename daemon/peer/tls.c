/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - authenticates the other edge.
 *
 * Certificates: each end shows one that the link's CA= signed, and its name (a DNS name in the subjectAltName) must be
 * the other end's PeerName=. No other CA is trusted, not even the system's. An edge sends its own certificate and those
 * of intermediate CAs in its Certificate= file, and never a root certificate: both edges derive the proof in the
 * ClientHello from the root certificates in CA=. Pre-shared key: an external PSK of TLS 1.3 with an ephemeral
 * Diffie-Hellman exchange, so that a key that leaks later opens nothing that was recorded before.
 * Resumption is off: every connection authenticates anew. */
#include "tls.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "daemon/privileged/privsep.h"
#include "daemon/util/addr.h"
#include "seal/secret_mem.h"

enum {
	PSK_MIN = 32,
	PSK_MAX = 64,
	PSK_FILE_MAX = 4 * PSK_MAX,
	KEY_FILE_MAX = 16384,
	PROOF_KEYS_MAX = 4,    /* CA certificates in one file: an old and a new one, and two to spare */
	CERT_LIST_MAX = 16384, /* bytes of the other end's certificates */
};

static const uint8_t psk_suite[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256: its hash is the PSK's */
static const char psk_identity[] = "longreach";
static const char exporter_label[] = "EXPERIMENTAL longreach datagrams"; /* RFC 5705 4: needs no registration */

struct tls {
	SSL_CTX *ctx;
	char peer_name[LINK_PEER_NAME_MAX];
	char ca_path[LINK_FILE_MAX];
	uint8_t psk[PSK_MAX];
	size_t psk_len; /* 0: certificates */
	uint8_t proof_key[PROOF_KEYS_MAX][TLS_PROOF_KEY_LEN]; /* the first key makes our proof, any of them may make the
	                                                       * other edge's */
	unsigned nproof_keys;
	bool proof_public;
	bool root_left_out;
	uint8_t fingerprint[TLS_FINGERPRINT_LEN];
	char refused[TLS_WHY_MAX]; /* why the last certificate was refused */
};

static struct tls *tls_of(SSL *ssl)
{
	return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

/* --- certificates of the other edge --- */

/* The names in a certificate, "a, b"; "no name". */
static void names_of(const X509 *cert, char *text, size_t cap)
{
	GENERAL_NAMES *names = cert != NULL ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
	size_t at = 0;

	snprintf(text, cap, "no name");
	for (int i = 0; i < sk_GENERAL_NAME_num(names) && at < cap; i++) {
		const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);

		if (n->type == GEN_DNS)
			at += (size_t)snprintf(text + at, cap - at, "%s%.*s", at > 0 ? ", " : "",
			                       ASN1_STRING_length(n->d.dNSName),
			                       (const char *)ASN1_STRING_get0_data(n->d.dNSName));
	}
	GENERAL_NAMES_free(names);
	/* The other end chose the name, and a terminal may show it. */
	for (char *c = text; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
			*c = '?';
}

static void date_of(const ASN1_TIME *t, char *text, size_t cap)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1 || strftime(text, cap, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		snprintf(text, cap, "?");
}

static void say_refused(const struct tls *t, X509_STORE_CTX *store, char why[TLS_WHY_MAX])
{
	const X509 *cert = X509_STORE_CTX_get_current_cert(store);
	int error = X509_STORE_CTX_get_error(store);
	char text[96];

	switch (error) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
		names_of(cert, text, sizeof(text));
		snprintf(why, TLS_WHY_MAX, "the other edge's certificate is for %s: PeerName=%s is expected", text,
		         t->peer_name);
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		date_of(X509_get0_notAfter(cert), text, sizeof(text));
		snprintf(why, TLS_WHY_MAX, "the other edge's certificate expired on %s", text);
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		date_of(X509_get0_notBefore(cert), text, sizeof(text));
		snprintf(why, TLS_WHY_MAX,
		         "the other edge's certificate is not valid before %s: check the clocks of both edges", text);
		break;
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		if (t->psk_len > 0)
			snprintf(why, TLS_WHY_MAX,
			         "the other end shows a certificate, and this edge has a PSKFile=: expected the same "
			         "at both edges");
		else
			snprintf(why, TLS_WHY_MAX, "the other edge's certificate is not signed by CA=%s", t->ca_path);
		break;
	default:
		snprintf(why, TLS_WHY_MAX, "the other edge's certificate is refused: %s",
		         X509_verify_cert_error_string(error));
		break;
	}
}

/* Notes only the first error of the certificate. */
static int on_verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls *t = tls_of(ssl);

	if (!ok && t->refused[0] == '\0')
		say_refused(t, store, t->refused);
	return ok;
}

/* --- files --- */

static int complain(char err[CONFIG_ERR_MAX], const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int complain(char err[CONFIG_ERR_MAX], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, CONFIG_ERR_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const char *last_reason(void)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	return reason != NULL ? reason : "unknown error";
}

/* For root's `longreachd --check-config`: keys may belong to the service's user. */
static bool is_service_user(uid_t uid)
{
	const struct passwd *service = geteuid() == 0 ? getpwnam(SERVICE_USER) : NULL;

	return service != NULL && service->pw_uid == uid;
}

/* Permitted mode: root:longreach 640 is as safe as longreach 600. */
static mode_t allowed_mode(const struct stat *st)
{
	return st->st_uid == 0 && st->st_gid != 0 && st->st_gid == getegid() ? S_IRWXU | S_IRGRP : S_IRWXU;
}

/* Opens it: access(2) goes by the real user, and root's `longreachd --check-config` is the service's for a moment. */
static int check_readable(const char *key, const char *path, char err[CONFIG_ERR_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0) {
		close(fd);
		return 0;
	}
	if (errno == EACCES)
		return complain(err, "%s=%s: user %u, whom longreachd runs as, cannot read it: %s: `chown %u` it", key,
		                path, (unsigned)geteuid(), strerror(errno), (unsigned)geteuid());
	return complain(err, "%s=%s: cannot be read: %s", key, path, strerror(errno));
}

/* Refuses secret files that other users may read. */
static int check_secret_file(const char *key, const char *path, char err[CONFIG_ERR_MAX])
{
	struct stat st;

	if (stat(path, &st) < 0)
		return complain(err, "%s=%s: %s", key, path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != geteuid() && !is_service_user(st.st_uid))
		return complain(
		    err,
		    "%s=%s: belongs to user %u, who can change it: expected root or user %u, whom longreachd "
		    "runs as",
		    key, path, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & ~allowed_mode(&st) & (S_IRWXU | S_IRWXG | S_IRWXO))
		return complain(err, "%s=%s: others than its owner may use it (mode %03o): expected 600", key, path,
		                (unsigned)st.st_mode & 0777u);
	return check_readable(key, path, err);
}

/* A self-signed certificate is a root: CA= files contain it, and proof keys are derived from it. */
static bool is_root(X509 *cert)
{
	return X509_self_signed(cert, 0) == 1;
}

static int check_dates(const char *path, SSL_CTX *ctx, char err[CONFIG_ERR_MAX])
{
	const X509 *cert = SSL_CTX_get0_certificate(ctx);

	if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
		return complain(err, "Certificate=%s: has expired: `longreach keygen` makes new ones", path);
	if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
		return complain(err, "Certificate=%s: is not valid yet: check this machine's clock", path);
	return 0;
}

/* The certificate would cross the wire, and the proof of the first flight with it: is_root(). */
static int refuse_self_signed(const char *path, const SSL_CTX *ctx, char err[CONFIG_ERR_MAX])
{
	if (!is_root(SSL_CTX_get0_certificate(ctx)))
		return 0;
	return complain(err,
	                "Certificate=%s: is signed by its own key: expected one that the CA of both edges has "
	                "signed, as `longreach keygen` makes them",
	                path);
}

/* SSL_CTX_use_PrivateKey_file(3) would leave the file's text in a buffer of stdio. */
static bool use_key(SSL_CTX *ctx, const char *path)
{
	char *text = secret_map(KEY_FILE_MAX);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = text != NULL && fd >= 0 ? read(fd, text, KEY_FILE_MAX) : -1;
	BIO *bio = n > 0 ? BIO_new_mem_buf(text, (int)n) : NULL;
	EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
	bool used = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;

	EVP_PKEY_free(key);
	BIO_free(bio);
	if (fd >= 0)
		close(fd);
	secret_unmap(text, KEY_FILE_MAX);
	return used;
}

/* Removes the roots that a file with the full chain contains: the other edge has them in its CA=. */
static bool leave_roots_out(struct tls *t)
{
	STACK_OF(X509) *chain = NULL, *sent = sk_X509_new_null();
	bool done = sent != NULL && SSL_CTX_get0_chain_certs(t->ctx, &chain) == 1;

	for (int i = 0; i < sk_X509_num(chain) && done; i++)
		if (!is_root(sk_X509_value(chain, i)))
			done = sk_X509_push(sent, sk_X509_value(chain, i)) > 0;
	t->root_left_out = sk_X509_num(sent) < sk_X509_num(chain);
	done = done && SSL_CTX_set1_chain(t->ctx, sent) == 1;
	sk_X509_free(sent);
	return done;
}

static int use_chain(struct tls *t, const char *path, char err[CONFIG_ERR_MAX])
{
	if (SSL_CTX_use_certificate_chain_file(t->ctx, path) != 1 || !leave_roots_out(t))
		return complain(err, "Certificate=%s: cannot be used: %s", path, last_reason());
	return 0;
}

static int use_certificates(struct tls *t, const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	int r = check_secret_file("Key", c->key_file, err);
	struct stat st;

	if (r < 0)
		return r;
	r = check_readable("CA", c->ca_file, err);
	if (r == 0)
		r = check_readable("Certificate", c->certificate_file, err);
	if (r < 0)
		return r;
	if (SSL_CTX_load_verify_file(t->ctx, c->ca_file) != 1)
		return complain(err, "CA=%s: cannot be used: %s", c->ca_file, last_reason());
	r = use_chain(t, c->certificate_file, err);
	if (r < 0)
		return r;
	if (!use_key(t->ctx, c->key_file))
		return complain(err, "Key=%s: cannot be used with Certificate=%s: %s", c->key_file,
		                c->certificate_file, last_reason());
	SSL_CTX_set_verify_depth(t->ctx, 1);
	snprintf(t->peer_name, sizeof(t->peer_name), "%s", c->peer_name);
	snprintf(t->ca_path, sizeof(t->ca_path), "%s", c->ca_file);
	t->proof_public = stat(c->ca_file, &st) == 0 && st.st_mode & (S_IRGRP | S_IROTH);
	r = check_dates(c->certificate_file, t->ctx, err);
	return r < 0 ? r : refuse_self_signed(c->certificate_file, t->ctx, err);
}

/* --- the proof in our ClientHello --- */

static const char proof_label[] = "longreach first flight";

static void add_proof_key(struct tls *t, const void *secret, size_t len)
{
	uint8_t *key = t->proof_key[t->nproof_keys];

	if (t->nproof_keys < PROOF_KEYS_MAX && HMAC(EVP_sha256(), secret, (int)len, (const uint8_t *)proof_label,
	                                            sizeof(proof_label) - 1, key, NULL) != NULL)
		t->nproof_keys++;
}

static void add_certificate(struct tls *t, const X509 *ca)
{
	uint8_t *der = NULL;
	int len = i2d_X509(ca, &der);

	if (len > 0)
		add_proof_key(t, der, (size_t)len);
	OPENSSL_free(der);
}

/* The last certificate on the way from this edge's own to a root: its own one, or that of an intermediate CA. */
static X509 *last_before_root(SSL_CTX *ctx)
{
	X509 *last = SSL_CTX_get0_certificate(ctx);
	STACK_OF(X509) *chain = NULL;

	SSL_CTX_get0_chain_certs(ctx, &chain);
	for (int i = 0; i < sk_X509_num(chain); i++)
		if (X509_check_issued(sk_X509_value(chain, i), last) == X509_V_OK)
			last = sk_X509_value(chain, i);
	return last;
}

/* Only readers of CA= have a root certificate, since no edge sends one: leave_roots_out(), SSL_MODE_NO_AUTO_CHAIN. The
 * other edge may send an intermediate CA's certificate that is in CA= here, so that one makes no proof. The root of our
 * own certificate comes first: the other edge knows it in any case, even while CAs change. */
static void derive_proof_keys(struct tls *t)
{
	const STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(t->ctx));
	X509 *last = last_before_root(t->ctx);

	for (int ours = 1; ours >= 0; ours--) {
		for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
			X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));

			if (ca != NULL && is_root(ca) && (X509_check_issued(ca, last) == X509_V_OK) == ours)
				add_certificate(t, ca);
		}
	}
}

/* --- the fingerprint --- */

static bool digest_certificate(EVP_MD_CTX *md, const X509 *cert)
{
	uint8_t *der = NULL;
	int len = i2d_X509(cert, &der);
	bool done = len > 0 && EVP_DigestUpdate(md, der, (size_t)len) == 1;

	OPENSSL_free(der);
	return done;
}

static bool digest_certificates(EVP_MD_CTX *md, const struct tls *t)
{
	const STACK_OF(X509_OBJECT) *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(t->ctx));
	const X509 *own = SSL_CTX_get0_certificate(t->ctx);
	bool done = own == NULL || digest_certificate(md, own);

	for (int i = 0; i < sk_X509_OBJECT_num(all) && done; i++) {
		const X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));

		done = ca == NULL || digest_certificate(md, ca);
	}
	return done;
}

static int take_fingerprint(struct tls *t, char err[CONFIG_ERR_MAX])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	bool done = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
	            EVP_DigestUpdate(md, t->peer_name, sizeof(t->peer_name)) == 1 &&
	            EVP_DigestUpdate(md, t->psk, t->psk_len) == 1 && digest_certificates(md, t) &&
	            EVP_DigestFinal_ex(md, t->fingerprint, NULL) == 1;

	EVP_MD_CTX_free(md);
	return done ? 0 : complain(err, "no fingerprint of the keys: %s", last_reason());
}

const uint8_t *tls_fingerprint(const struct tls *t)
{
	return t->fingerprint;
}

bool tls_proof_is_public(const struct tls *t)
{
	return t->proof_public;
}

bool tls_root_is_left_out(const struct tls *t)
{
	return t->root_left_out;
}

static int64_t not_after(const X509 *cert)
{
	struct tm tm;

	return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

bool tls_is_named(const struct tls *t, const char *name)
{
	X509 *own = t != NULL && t->ctx != NULL ? SSL_CTX_get0_certificate(t->ctx) : NULL;

	return own != NULL && name[0] != '\0' &&
	       X509_check_host(own, name, 0, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
	                       NULL) == 1;
}

struct tls_expiry tls_expiry(const struct tls *t)
{
	X509 *own = t != NULL ? SSL_CTX_get0_certificate(t->ctx) : NULL;
	struct tls_expiry e = {0};
	const STACK_OF(X509_OBJECT) * all;
	X509 *last;

	if (own == NULL)
		return e;
	e.certificate_s = not_after(own);
	last = last_before_root(t->ctx);
	all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(t->ctx));
	for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
		X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));

		if (ca != NULL && X509_check_issued(ca, last) == X509_V_OK && not_after(ca) > e.ca_s)
			e.ca_s = not_after(ca);
	}
	return e;
}

static bool put_end(const struct sockaddr_storage *ss, uint8_t end[TLS_PROOF_ENDS_LEN / 2])
{
	struct ip_addr a;
	uint16_t port = ss->ss_family == AF_INET ? ((const struct sockaddr_in *)(const void *)ss)->sin_port
	                                         : ((const struct sockaddr_in6 *)(const void *)ss)->sin6_port;

	if (!addr_from_sockaddr((const struct sockaddr *)ss, &a))
		return false;
	memcpy(end, a.b, sizeof(a.b));
	memcpy(end + sizeof(a.b), &port, sizeof(port)); /* big-endian as it is */
	return true;
}

bool tls_ends(int fd, bool client, uint8_t ends[TLS_PROOF_ENDS_LEN])
{
	struct sockaddr_storage own = {0}, other = {0};
	socklen_t own_len = sizeof(own), other_len = sizeof(other);
	uint8_t *server = ends + TLS_PROOF_ENDS_LEN / 2;

	return getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&other, &other_len) == 0 && put_end(&own, client ? ends : server) &&
	       put_end(&other, client ? server : ends);
}

bool tls_first_flight_proven(const struct tls *t, const struct tls_first_flight *f,
                             const uint8_t ends[TLS_PROOF_ENDS_LEN])
{
	for (unsigned i = 0; i < t->nproof_keys; i++)
		if (tls_proof_holds(f, t->proof_key[i], ends))
			return true;
	return false;
}

/* OpenSSL has drawn the ClientHello's random bytes before it calls this. */
static int add_proof(SSL *ssl, unsigned type, unsigned context, const unsigned char **out, size_t *len, X509 *x,
                     size_t chain, int *alert, void *arg)
{
	uint8_t random[32], ends[TLS_PROOF_ENDS_LEN], *proof;
	const struct tls *t = arg;

	(void)type, (void)context, (void)x, (void)chain, (void)alert;
	if (t->nproof_keys == 0 || SSL_get_client_random(ssl, random, sizeof(random)) != sizeof(random) ||
	    !tls_ends(SSL_get_fd(ssl), true, ends))
		return 0;
	proof = OPENSSL_malloc(TLS_PROOF_LEN);
	if (proof == NULL)
		return 0;
	tls_proof_make(t->proof_key[0], random, ends, proof);
	*out = proof;
	*len = TLS_PROOF_LEN;
	return 1;
}

static void free_proof(SSL *ssl, unsigned type, unsigned context, const unsigned char *out, void *arg)
{
	(void)ssl, (void)type, (void)context, (void)arg;
	OPENSSL_free((void *)(uintptr_t)out);
}

/* --- pre-shared key --- */

static SSL_SESSION *psk_session(const struct tls *t, SSL *ssl)
{
	const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, psk_suite);
	const unsigned char *context_id = (const unsigned char *)psk_identity;
	SSL_SESSION *s = SSL_SESSION_new();

	if (s != NULL && suite != NULL && SSL_SESSION_set1_master_key(s, t->psk, t->psk_len) == 1 &&
	    SSL_SESSION_set1_id_context(s, context_id, sizeof(psk_identity) - 1) == 1 &&
	    SSL_SESSION_set_cipher(s, suite) == 1 && SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) == 1)
		return s;
	SSL_SESSION_free(s);
	return NULL;
}

static int psk_use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len, SSL_SESSION **s)
{
	*s = NULL;
	if (md != NULL && EVP_MD_get_type(md) != NID_sha256)
		return 1; /* called again for another hash: there is no PSK for it */
	*s = psk_session(tls_of(ssl), ssl);
	*id = (const unsigned char *)psk_identity;
	*id_len = sizeof(psk_identity) - 1;
	return *s != NULL;
}

static int psk_find(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **s)
{
	*s = NULL;
	if (id_len != sizeof(psk_identity) - 1 || memcmp(id, psk_identity, id_len) != 0)
		return 1;
	*s = psk_session(tls_of(ssl), ssl);
	return *s != NULL;
}

/* Hexadecimal digits and nothing else but blanks. */
static int read_hex(const char *text, uint8_t *out, size_t *len)
{
	unsigned digits = 0, value = 0;

	for (; *text != '\0'; text++) {
		if (isspace((unsigned char)*text))
			continue;
		if (!isxdigit((unsigned char)*text) || digits == 2 * PSK_MAX)
			return -EINVAL;
		value = value << 4 |
		        (unsigned)(isdigit((unsigned char)*text) ? *text - '0'
		                                                 : tolower((unsigned char)*text) - 'a' + 10);
		if (digits++ % 2 == 1)
			out[digits / 2 - 1] = (uint8_t)value;
	}
	*len = digits / 2;
	return digits % 2 == 0 && *len >= PSK_MIN ? 0 : -EINVAL;
}

static int use_psk(struct tls *t, const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	int r = check_secret_file("PSKFile", c->psk_file, err), fd;
	char text[PSK_FILE_MAX] = "";
	ssize_t n;

	if (r < 0)
		return r;
	fd = open(c->psk_file, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return complain(err, "PSKFile=%s: %s", c->psk_file, strerror(errno));
	r = read_hex(text, t->psk, &t->psk_len);
	OPENSSL_cleanse(text, sizeof(text));
	if (r < 0)
		return complain(err,
		                "PSKFile=%s: expected %d to %d random bytes in hexadecimal, as `openssl rand -hex 32` "
		                "prints them",
		                c->psk_file, PSK_MIN, PSK_MAX);
	SSL_CTX_set_psk_use_session_callback(t->ctx, psk_use);
	SSL_CTX_set_psk_find_session_callback(t->ctx, psk_find);
	SSL_CTX_set_ciphersuites(t->ctx, "TLS_AES_128_GCM_SHA256");
	return 0;
}

/* --- life --- */

static int prepare(struct tls *t, const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	int r;

	t->ctx = SSL_CTX_new(TLS_method());
	if (t->ctx == NULL || SSL_CTX_set_min_proto_version(t->ctx, TLS1_3_VERSION) != 1)
		return complain(err, "OpenSSL offers no TLS 1.3: %s", last_reason());
	SSL_CTX_set_app_data(t->ctx, t);
	/* also with a pre-shared key: no CA is trusted then, so that no certificate can replace the key */
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
	SSL_CTX_set_session_id_context(t->ctx, (const unsigned char *)psk_identity, sizeof(psk_identity) - 1);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(t->ctx, SSL_MODE_NO_AUTO_CHAIN); /* else OpenSSL sends the certificates of CA= as well */
	SSL_CTX_set_num_tickets(t->ctx, 0);
	SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_max_cert_list(t->ctx, CERT_LIST_MAX);
	if (SSL_CTX_add_custom_ext(t->ctx, TLS_PROOF_EXT, SSL_EXT_CLIENT_HELLO, add_proof, free_proof, t, NULL, NULL) !=
	    1)
		return complain(err, "TLS: OpenSSL does not register the extension that proves this edge: %s",
		                last_reason());
	r = c->psk_file[0] != '\0' ? use_psk(t, c, err) : use_certificates(t, c, err);
	if (r == 0 && t->psk_len > 0)
		add_proof_key(t, t->psk, t->psk_len);
	else if (r == 0)
		derive_proof_keys(t);
	return r == 0 ? take_fingerprint(t, err) : r;
}

int tls_open(const struct link_config *c, struct tls **out, char err[CONFIG_ERR_MAX])
{
	struct tls *t;
	int r;

	*out = NULL;
	if (c->encryption == SEAL_NONE)
		return 0;
	t = secret_map(sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	ERR_clear_error();
	r = prepare(t, c, err);
	if (r < 0) {
		tls_close(t);
		return r;
	}
	*out = t;
	return 0;
}

void tls_close(struct tls *t)
{
	if (t == NULL)
		return;
	SSL_CTX_free(t->ctx);
	secret_unmap(t, sizeof(*t));
}

SSL *tls_connection(struct tls *t)
{
	SSL *ssl = SSL_new(t->ctx);

	t->refused[0] = '\0';
	if (ssl == NULL || t->psk_len > 0)
		return ssl;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (SSL_set1_host(ssl, t->peer_name) == 1)
		return ssl;
	SSL_free(ssl);
	return NULL;
}

bool tls_proven(const struct tls *t, SSL *ssl)
{
	if (!SSL_is_init_finished(ssl) || SSL_version(ssl) != TLS1_3_VERSION)
		return false;
	if (t->psk_len > 0)
		return SSL_session_reused(ssl) == 1; /* as OpenSSL calls a pre-shared key that was used */
	return SSL_get0_peer_certificate(ssl) != NULL && SSL_get_verify_result(ssl) == X509_V_OK;
}

bool tls_export(SSL *ssl, const uint8_t *context, size_t len, uint8_t out[SEAL_SECRET_LEN])
{
	return SSL_is_init_finished(ssl) &&
	       SSL_export_keying_material(ssl, out, SEAL_SECRET_LEN, exporter_label, sizeof(exporter_label) - 1,
	                                  context, len, 1) == 1;
}

/* --- what went wrong --- */

static const struct {
	int reason;
	const char *text;
} sentences[] = {
    {SSL_R_UNSUPPORTED_PROTOCOL, "the other end speaks an older TLS only: 1.3 is expected"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the other end does not speak TLS 1.3"},
    {SSL_R_WRONG_SSL_VERSION, "the other end speaks an older TLS only: 1.3 is expected"},
    {SSL_R_WRONG_VERSION_NUMBER, "the other end does not speak TLS: check that Encryption= there is not none"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, "closed by the other edge"},
    {SSL_R_HTTP_REQUEST, "the other end speaks HTTP, not TLS"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the other end shows no certificate"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, "the other edge expects a certificate, and this edge shows none: give "
                                              "both edges certificates, or both a PSKFile="},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "the other edge refuses this edge's certificate: its CA= did not sign it"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "the other edge refuses this edge's certificate: it has expired"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE,
     "the other edge refuses this edge's certificate: its PeerName= is another name"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN, "the other edge refuses this edge's certificate"},
    {SSL_R_TLSV1_ALERT_DECRYPT_ERROR,
     "the other edge refuses this edge's certificate or pre-shared key: the keys there are of another set"},
    {SSL_R_BINDER_DOES_NOT_VERIFY, "the other end has another pre-shared key in its PSKFile="},
    {SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, "the other end refuses this edge's pre-shared key: its PSKFile= has another"},
    {SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, "the other end does not have the pre-shared key"},
    {SSL_R_NO_SHARED_CIPHER,
     "the other end does not have the pre-shared key, or has no cipher suite in common with this edge"},
    {SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE,
     "the edges have no key in common: check that both have a PSKFile=, or both certificates"},
};

bool tls_was_answered(SSL *ssl)
{
	return BIO_number_read(SSL_get_rbio(ssl)) > 0;
}

void tls_write_last(SSL *ssl, const void *data, size_t len)
{
	size_t done;

	ERR_clear_error();
	if (SSL_is_init_finished(ssl))
		(void)SSL_write_ex(ssl, data, len, &done);
	ERR_clear_error();
}

unsigned long tls_last_words(SSL *ssl)
{
	uint8_t byte;

	ERR_clear_error();
	return SSL_is_init_finished(ssl) && SSL_read(ssl, &byte, sizeof(byte)) <= 0 ? ERR_get_error() : 0;
}

void tls_why(const struct tls *t, unsigned long error, char why[TLS_WHY_MAX])
{
	int reason = ERR_GET_REASON(error);

	if (t->refused[0] != '\0') {
		snprintf(why, TLS_WHY_MAX, "%s", t->refused);
		return;
	}
	for (size_t i = 0; error != 0 && i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		if (sentences[i].reason == reason) {
			snprintf(why, TLS_WHY_MAX, "%s", sentences[i].text);
			return;
		}
	}
	if (error != 0 && ERR_reason_error_string(error) != NULL)
		snprintf(why, TLS_WHY_MAX, "TLS: %s", ERR_reason_error_string(error));
	else
		snprintf(why, TLS_WHY_MAX, "failed");
}
