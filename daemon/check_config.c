/* SPDX-License-Identifier: Apache-2.0 */
#include "check_config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/machine/config_machine.h"
#include "daemon/peer/tls.h"
#include "daemon/privileged/privsep.h"

struct checked {
	struct link_config config;
	bool sound; /* it can be compared with others */
};

static bool is_given(const struct link_config *c, const struct config_reading *r)
{
	return config_is_sound(r, "Encryption") && config_is_sound(r, "Certificate") && config_is_sound(r, "Key") &&
	       config_is_sound(r, "CA") && config_is_sound(r, "PSKFile") && config_is_sound(r, "PeerName") &&
	       (c->encryption == SEAL_NONE || c->psk_file[0] != '\0' ||
	        (c->certificate_file[0] != '\0' && c->key_file[0] != '\0' && c->ca_file[0] != '\0' &&
	         c->peer_name[0] != '\0'));
}

/* --- the service's user --- */

/* Root's check reads keys as this user, since root itself reads every file. NULL: the caller is not root, or there is
 * no service. */
static const struct passwd *service_user;

/* False: --user names nobody. */
static bool find_service_user(const struct options *o)
{
	const char *name = o->user != NULL ? o->user : SERVICE_USER;

	service_user = geteuid() == 0 ? getpwnam(name) : NULL;
	if (geteuid() == 0 && service_user == NULL && o->user != NULL) {
		fprintf(stderr, "longreachd: --user %s: there is no such user\n", name);
		return false;
	}
	return true;
}

struct rights {
	gid_t groups[NGROUPS_MAX];
	int ngroups;
};

static void give_back(const struct rights *former)
{
	if (seteuid(0) < 0 || setegid(0) < 0 || setgroups((size_t)former->ngroups, former->groups) < 0) {
		fprintf(stderr, "longreachd: cannot become root again: %s\n", strerror(errno));
		exit(EXIT_FAILURE);
	}
}

/* Until give_back() files are opened as the service opens them. False: an error was reported. */
static bool become_service(struct rights *former)
{
	former->ngroups = getgroups(NGROUPS_MAX, former->groups);
	if (former->ngroups >= 0 && initgroups(service_user->pw_name, service_user->pw_gid) == 0 &&
	    setegid(service_user->pw_gid) == 0 && seteuid(service_user->pw_uid) == 0)
		return true;
	fprintf(stderr, "longreachd: cannot check as user %s, whom the service runs as: %s\n", service_user->pw_name,
	        strerror(errno));
	if (former->ngroups >= 0)
		give_back(former);
	return false;
}

/* --- keys --- */

static bool can_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void blame_unreadable(const struct link_config *c, const char *key, struct config_reading *r)
{
	const char *user = service_user != NULL ? service_user->pw_name : NULL;

	if (errno == EACCES && user != NULL)
		config_blame(r, c, key, 0, "cannot be read by user %s, whom the service runs as: `chown %s` it", user,
		             user);
	else
		config_blame(r, c, key, 0, "cannot be read: %s", strerror(errno));
}

/* Reports all files that cannot be read; a start reports only the first. */
static bool are_readable(const struct link_config *c, struct config_reading *r)
{
	const struct {
		const char *key, *path;
	} files[] = {{"Certificate", c->certificate_file}, {"Key", c->key_file}, {"CA", c->ca_file}, {"PSKFile", c->psk_file}};
	bool ok = true;

	for (size_t i = 0; c->encryption != SEAL_NONE && i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].path[0] != '\0' && !can_read(files[i].path)) {
			blame_unreadable(c, files[i].key, r);
			ok = false;
		}
	return ok;
}

/* Reads the files that the link file names, as a start would. False: an error was reported. */
static bool check_keys(const struct link_config *c, struct config_reading *r)
{
	char err[CONFIG_ERR_MAX] = "out of memory";
	struct tls *tls;
	bool ok;

	if (!are_readable(c, r))
		return false;
	ok = tls_open(c, &tls, err) == 0;
	if (!ok)
		fprintf(stderr, "%s: %s\n", c->path, err);
	else if (tls_is_named(tls, c->peer_name))
		config_blame(
		    r, c, "PeerName", 0,
		    "is this edge's own name, in Certificate=%s: expected the name in the other edge's certificate",
		    c->certificate_file);
	tls_close(tls);
	return ok;
}

static bool check_keys_as_service(const struct link_config *c, struct config_reading *r)
{
	static struct rights former; /* large */
	bool ok;

	if (service_user == NULL || service_user->pw_uid == 0)
		return check_keys(c, r);
	if (!become_service(&former))
		return false;
	ok = check_keys(c, r);
	give_back(&former);
	return ok;
}

static bool check_file(const char *path, const struct options *o, struct checked *file, struct config_reading *r)
{
	char missing[LAN_ENGINE_ERR_MAX];
	struct link_config *c = &file->config;
	bool keys_ok = true;
	int e = config_load_all(path, c, r);

	file->sound = e == 0;
	if (c->path[0] != '\0') { /* else it could not be read */
		config_check_more(c, r);
		if (!o->offline)
			config_machine_check(c, r);
		if (is_given(c, r))
			keys_ok = o->offline ? check_keys(c, r) : check_keys_as_service(c, r);
		if (!o->offline && lan_engine_check(&o->engine, c, missing) < 0) {
			fprintf(stderr, "%s: %s\n", path, missing);
			keys_ok = false;
		}
	}
	for (uint32_t i = 0; i < r->nerrors; i++)
		fprintf(stderr, "%s\n", r->error[i]);
	if (r->left_out > 0)
		fprintf(stderr, "%s: and %u more errors\n", path, r->left_out);
	if (r->nerrors > 0 || !keys_ok)
		return false;
	printf("%s: ok, %s\n", path, c->encryption == SEAL_NONE ? "not sealed" : seal_cipher_name(c->encryption));
	return true;
}

static bool check_together(const struct checked *files, uint32_t n)
{
	char err[CONFIG_ERR_MAX];
	bool ok = true;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (files[i].sound && files[j].sound &&
			    config_compatible(&files[j].config, &files[i].config, err) < 0) {
				fprintf(stderr, "%s\n", err);
				ok = false;
			}
	return ok;
}

int check_config(const struct options *o)
{
	static struct site_paths paths;
	static struct config_reading reading;
	char report[SITES_REPORT_MAX] = "";
	struct checked *files = calloc(SITES_MAX, sizeof(*files));
	bool ok;

	if (files == NULL) {
		fputs("longreachd: not enough memory\n", stderr);
		return EXIT_FAILURE;
	}
	if (!find_service_user(o)) {
		free(files);
		return EXIT_FAILURE;
	}
	ok = site_paths_read(&o->sources, &paths, report) == 0;
	if (report[0] != '\0')
		fprintf(stderr, "%s\n", report);
	for (uint32_t i = 0; i < paths.n; i++)
		ok &= check_file(paths.path[i], o, &files[i], &reading);
	ok &= check_together(files, paths.n);
	if (ok && paths.n == 0)
		puts("no link files");
	free(files);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
