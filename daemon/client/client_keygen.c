/* SPDX-License-Identifier: Apache-2.0 */
/* client_keygen.c - a CA of the link's own and a certificate for each of its two edges, in one go.
 *
 * The CA's private key is made, used twice and forgotten: it is never written. So nobody can make a third certificate
 * for the link; when the two expire, or one edge is no longer trusted, a new set is made. */
#include "client_keygen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_USAGE = 2 };

#define INSTALL_DIR "/etc/longreach/keys"
#define DAYS        3650
#define DAYS_MAX    36500
#define SKEW_S      3600 /* clocks of edges differ: valid from a little before now */
#define LINK_MAX_   31   /* as longreachd takes them: LINK_NAME_MAX */
#define NAME_MAX_   40   /* of a site, so that "site.link" is one DNS name with room to spare */
#define PATH_MAX_   512

static const char usage[] = "usage: longreach keygen LINK [OPTION]...\n"
                            "\n"
                            "Makes a certificate authority for one link and a certificate for each of its two edges.\n"
                            "\n"
                            "  --dir DIR        writes DIR/SITE/LINK.{crt,key,ca.crt}. Default: ./LINK-keys\n"
                            "  --sites A,B      names of the two sites. Default: a,b; with --renew: those of the set in DIR\n"
                            "  --days N         days for which the certificates are valid. Default: 3650\n"
                            "  --renew          writes over the files of an earlier set in DIR\n"
                            "  --ed25519        Ed25519 keys in place of ECDSA P-256\n";

struct request {
	const char *link, *dir;
	char site[2][NAME_MAX_ + 1];
	long days;
	bool ed25519, renew;
};

struct identity {
	EVP_PKEY *key;
	X509 *cert;
};

/* --- certificates --- */

static EVP_PKEY *new_key(const struct request *r)
{
	return r->ed25519 ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") : EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
}

static bool set_serial(X509 *cert)
{
	BIGNUM *n = BN_new();
	bool ok = n != NULL && BN_rand(n, 159, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
	          BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;

	BN_free(n);
	return ok;
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext != NULL && X509_add_ext(cert, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

static bool set_name(X509_NAME *name, const char *text)
{
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

static bool fill_in(const struct request *r, X509 *cert, EVP_PKEY *key, const char *name)
{
	return X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
	       X509_gmtime_adj(X509_getm_notBefore(cert), -SKEW_S) != NULL &&
	       X509_time_adj_ex(X509_getm_notAfter(cert), (int)r->days, 0, NULL) != NULL &&
	       X509_set_pubkey(cert, key) == 1 && set_name(X509_get_subject_name(cert), name);
}

static bool sign(const struct request *r, X509 *cert, EVP_PKEY *key)
{
	return X509_sign(cert, key, r->ed25519 ? NULL : EVP_sha256()) > 0;
}

static bool make_ca(const struct request *r, struct identity *ca)
{
	char name[NAME_MAX_ + 16];

	snprintf(name, sizeof(name), "longreach %s", r->link);
	ca->key = new_key(r);
	ca->cert = X509_new();
	return ca->key != NULL && ca->cert != NULL && fill_in(r, ca->cert, ca->key, name) &&
	       set_name(X509_get_issuer_name(ca->cert), name) &&
	       add_extension(ca->cert, ca->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(ca->cert, ca->cert, NID_key_usage, "critical,keyCertSign") &&
	       add_extension(ca->cert, ca->cert, NID_subject_key_identifier, "hash") && sign(r, ca->cert, ca->key);
}

static void peer_name(const struct request *r, unsigned site, char name[2 * NAME_MAX_ + 2])
{
	snprintf(name, 2 * NAME_MAX_ + 2, "%s.%s", r->site[site], r->link);
}

static bool make_edge(const struct request *r, const struct identity *ca, unsigned site, struct identity *id)
{
	char name[2 * NAME_MAX_ + 2], alt[2 * NAME_MAX_ + 8];

	peer_name(r, site, name);
	snprintf(alt, sizeof(alt), "DNS:%s", name);
	id->key = new_key(r);
	id->cert = X509_new();
	return id->key != NULL && id->cert != NULL && fill_in(r, id->cert, id->key, name) &&
	       X509_set_issuer_name(id->cert, X509_get_subject_name(ca->cert)) == 1 &&
	       add_extension(id->cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(id->cert, ca->cert, NID_key_usage, "critical,digitalSignature") &&
	       add_extension(id->cert, ca->cert, NID_ext_key_usage, "serverAuth,clientAuth") &&
	       add_extension(id->cert, ca->cert, NID_subject_alt_name, alt) &&
	       add_extension(id->cert, ca->cert, NID_authority_key_identifier, "keyid") && sign(r, id->cert, ca->key);
}

static void forget(struct identity *id)
{
	EVP_PKEY_free(id->key); /* which wipes it */
	X509_free(id->cert);
}

/* --- files --- */

/* Each file is written beside its final name first, with this suffix. */
#define NEW_SUFFIX ".new"

static const char *const suffixes[] = {"key", "crt", "ca.crt"};

enum { FILES = sizeof(suffixes) / sizeof(suffixes[0]) };

/* The i-th file of a site. */
static void file_path(const struct request *r, unsigned site, unsigned i, const char *more, char path[PATH_MAX_ + 64])
{
	snprintf(path, PATH_MAX_ + 64, "%s/%s/%s.%s%s", r->dir, r->site[site], r->link, suffixes[i], more);
}

static int say_errno(const char *path)
{
	fprintf(stderr, "longreach keygen: %s: %s\n", path, strerror(errno));
	return EXIT_FAILED;
}

static int make_dir(const char *path)
{
	return mkdir(path, 0700) == 0 || errno == EEXIST ? EXIT_DONE : say_errno(path);
}

static FILE *create(const char *path, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	return fd < 0 ? NULL : fdopen(fd, "w");
}

static int finish(FILE *f, bool written, const char *path)
{
	if (fclose(f) == 0 && written)
		return EXIT_DONE;
	return say_errno(path);
}

/* The CA's certificate is secret, too: the edges' first proof to each other is made from it (tls_proof.h). */
static int write_cert(const char *path, const X509 *cert, mode_t mode)
{
	FILE *f = create(path, mode);

	return f == NULL ? say_errno(path) : finish(f, PEM_write_X509(f, cert) == 1, path);
}

static int write_key(const char *path, const EVP_PKEY *key)
{
	FILE *f = create(path, 0600);

	return f == NULL ? say_errno(path)
	                 : finish(f, PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1, path);
}

/* Writes all new files of one edge, under their temporary names. */
static int write_edge(const struct request *r, const struct identity *ca, const struct identity *id, unsigned site)
{
	char dir[PATH_MAX_], path[FILES][PATH_MAX_ + 64];
	int code;

	snprintf(dir, sizeof(dir), "%s/%s", r->dir, r->site[site]);
	code = make_dir(dir);
	for (unsigned i = 0; i < FILES; i++) {
		file_path(r, site, i, NEW_SUFFIX, path[i]);
		unlink(path[i]); /* left by a keygen that was stopped */
	}
	if (code == EXIT_DONE)
		code = write_key(path[0], id->key);
	if (code == EXIT_DONE)
		code = write_cert(path[1], id->cert, 0644);
	if (code == EXIT_DONE)
		code = write_cert(path[2], ca->cert, 0600);
	return code;
}

/* True if an earlier set is there, which may be the only copy of keys that are in use. */
static bool is_there(const struct request *r)
{
	char path[PATH_MAX_ + 64];

	for (unsigned site = 0; site < 2; site++)
		for (unsigned i = 0; i < FILES; i++) {
			file_path(r, site, i, "", path);
			if (access(path, F_OK) != 0)
				continue;
			fprintf(stderr,
			        "longreach keygen: %s: File exists: an earlier set of keys, perhaps the only copy. "
			        "--renew overwrites it; --dir DIR writes the new set elsewhere\n",
			        path);
			return true;
		}
	return false;
}

static void remove_new(const struct request *r)
{
	char path[PATH_MAX_ + 64];

	for (unsigned site = 0; site < 2; site++)
		for (unsigned i = 0; i < FILES; i++) {
			file_path(r, site, i, NEW_SUFFIX, path);
			unlink(path);
		}
}

/* Writes a whole set or nothing: files get their final names after all of them were written. */
static int write_set(const struct request *r, const struct identity *ca, const struct identity edge[2])
{
	char from[PATH_MAX_ + 64], to[PATH_MAX_ + 64];
	int code = make_dir(r->dir);

	for (unsigned site = 0; site < 2 && code == EXIT_DONE; site++)
		code = write_edge(r, ca, &edge[site], site);
	for (unsigned n = 0; n < 2 * FILES && code == EXIT_DONE; n++) {
		file_path(r, n / FILES, n % FILES, NEW_SUFFIX, from);
		file_path(r, n / FILES, n % FILES, "", to);
		if (rename(from, to) < 0)
			code = say_errno(to);
	}
	if (code != EXIT_DONE)
		remove_new(r);
	return code;
}

static void explain(const struct request *r, unsigned site)
{
	char other[2 * NAME_MAX_ + 2];

	peer_name(r, 1 - site, other);
	printf("\nSite %s: copy %s/%s/* to " INSTALL_DIR
	       "/ on its edge, safely, and give them to the service's user there:\n\n"
	       "    chown longreach " INSTALL_DIR "/%s.*\n\n"
	       "Write into %s.conf there:\n\n"
	       "    [Security]\n"
	       "    Encryption=aes-256-gcm\n"
	       "    Certificate=" INSTALL_DIR "/%s.crt\n"
	       "    Key=" INSTALL_DIR "/%s.key\n"
	       "    CA=" INSTALL_DIR "/%s.ca.crt\n"
	       "    PeerName=%s\n",
	       r->site[site], r->dir, r->site[site], r->link, r->link, r->link, r->link, r->link, other);
}

/* --- the command --- */

static int crypto_failed(void)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	fprintf(stderr, "longreach keygen: OpenSSL: %s\n", why != NULL ? why : "failed");
	return EXIT_FAILED;
}

static int generate(const struct request *r)
{
	struct identity ca = {0}, edge[2] = {{0}};
	int code = EXIT_DONE;

	if (!r->renew && is_there(r))
		return EXIT_FAILED;
	if (!make_ca(r, &ca) || !make_edge(r, &ca, 0, &edge[0]) || !make_edge(r, &ca, 1, &edge[1]))
		code = crypto_failed();
	if (code == EXIT_DONE)
		code = write_set(r, &ca, edge);
	forget(&ca);
	forget(&edge[0]);
	forget(&edge[1]);
	if (code != EXIT_DONE)
		return code;
	printf("Keys of link %s, valid for %ld days. The private key of their CA was not kept: no third edge can be "
	       "added.\n",
	       r->link, r->days);
	explain(r, 0);
	explain(r, 1);
	printf("\nThe .key files are mode 600 and belong to one edge each: delete them here once they are copied.\n");
	return EXIT_DONE;
}

/* True for a name that longreachd accepts for a link. */
static bool sound(const char *name, size_t max)
{
	size_t len = strlen(name);

	return len > 0 && len <= max && name[0] != '.' && name[0] != '-' &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")] == '\0';
}

static bool take_sites(struct request *r, const char *text)
{
	const char *comma = strchr(text, ',');

	if (comma == NULL || comma - text > NAME_MAX_ || strlen(comma + 1) > NAME_MAX_)
		return false;
	snprintf(r->site[0], sizeof(r->site[0]), "%.*s", (int)(comma - text), text);
	snprintf(r->site[1], sizeof(r->site[1]), "%.*s", NAME_MAX_, comma + 1);
	return sound(r->site[0], NAME_MAX_) && sound(r->site[1], NAME_MAX_) && strcmp(r->site[0], r->site[1]) != 0;
}

/* --renew without --sites: finds the two sites that have a set of this link in DIR. */
static bool find_sites(struct request *r)
{
	DIR *dir = opendir(r->dir);
	struct dirent *e;
	char path[2 * PATH_MAX_];
	unsigned n = 0;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (!sound(e->d_name, NAME_MAX_))
			continue;
		snprintf(path, sizeof(path), "%s/%.*s/%s.crt", r->dir, NAME_MAX_, e->d_name, r->link);
		if (access(path, F_OK) == 0 && n++ < 2)
			snprintf(r->site[n - 1], sizeof(r->site[0]), "%.*s", NAME_MAX_, e->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	return n == 2;
}

static bool take_days(struct request *r, const char *text)
{
	char *end;

	r->days = strtol(text, &end, 10);
	return *text != '\0' && *end == '\0' && r->days >= 1 && r->days <= DAYS_MAX;
}

static int bad_usage(const char *what, const char *about)
{
	fprintf(stderr, "longreach keygen: %s%s\n%s", what, about, usage);
	return EXIT_BAD_USAGE;
}

int keygen_main(int argc, char **argv)
{
	static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
	                                        {"sites", required_argument, NULL, 's'},
	                                        {"days", required_argument, NULL, 'n'},
	                                        {"ed25519", no_argument, NULL, 'e'},
	                                        {"renew", no_argument, NULL, 'r'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {NULL, 0, NULL, 0}};
	struct request r = {.site = {"a", "b"}, .days = DAYS};
	char dir[NAME_MAX_ + 8];
	bool named = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			fputs(usage, stdout);
			return EXIT_DONE;
		}
		if (opt == 'd')
			r.dir = optarg;
		else if (opt == 'e')
			r.ed25519 = true;
		else if (opt == 'r')
			r.renew = true;
		else if (opt == 's' && !(named = take_sites(&r, optarg)))
			return bad_usage("--sites: expected two different names of letters, digits and . _ -, not ",
			                 optarg);
		else if (opt == 'n' && !take_days(&r, optarg))
			return bad_usage("--days: expected 1 to 36500, not ", optarg);
		else if (opt == '?')
			return EXIT_BAD_USAGE;
	}
	if (optind + 1 != argc)
		return bad_usage("expected the name of one link", "");
	r.link = argv[optind];
	if (!sound(r.link, LINK_MAX_))
		return bad_usage("expected a link's name of at most 31 letters, digits and . _ - that does not begin "
		                 "with . or -, not ",
		                 r.link);
	snprintf(dir, sizeof(dir), "%s-keys", r.link);
	if (r.dir == NULL)
		r.dir = dir;
	if (strlen(r.dir) + 2 * NAME_MAX_ > PATH_MAX_ - 16)
		return bad_usage("--dir: the directory's name is too long: ", r.dir);
	if (r.renew && !named && !find_sites(&r)) {
		fprintf(stderr,
		        "longreach keygen: --renew: %s has no set of link %s for two sites: give --sites A,B with the "
		        "sites' names in PeerName= of the link files (A.%s, B.%s); with other names PeerName= has to "
		        "change, too\n",
		        r.dir, r.link, r.link, r.link);
		return EXIT_FAILED;
	}
	return generate(&r);
}
