/* SPDX-License-Identifier: Apache-2.0 */
#include "check_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/machine/config_machine.h"
#include "daemon/peer/tls.h"

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

/* Reports all files that cannot be read; a start reports only the first. */
static bool are_readable(const struct link_config *c, struct config_reading *r)
{
	const struct {
		const char *key, *path;
	} files[] = {{"Certificate", c->certificate_file}, {"Key", c->key_file}, {"CA", c->ca_file}, {"PSKFile", c->psk_file}};
	bool ok = true;

	for (size_t i = 0; c->encryption != SEAL_NONE && i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i].path[0] != '\0' && access(files[i].path, R_OK) < 0) {
			config_blame(r, c, files[i].key, 0, "cannot be read: %s", strerror(errno));
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
			keys_ok = check_keys(c, r);
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
