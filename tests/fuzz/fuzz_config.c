/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a link file.
 *
 * Beside memory safety: what is refused is refused with a sentence that begins with the file's name and has one line;
 * what is accepted obeys the rules that the rest of the daemon relies on, and is the same again when it is printed and
 * read back. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "daemon/util/units.c"
#include "daemon/util/addr.c"
#include "daemon/config/config_types.c"
#include "daemon/config/config_keys.c"
#include "daemon/config/config_check.c"
#include "daemon/config/config.c"

#define NAME "fuzz.conf"

static void check_sentence(const char *err)
{
	REQUIRE(strnlen(err, CONFIG_ERR_MAX) < CONFIG_ERR_MAX);
	REQUIRE(strncmp(err, NAME ":", strlen(NAME ":")) == 0);
	for (; *err != '\0'; err++)
		REQUIRE((unsigned char)*err >= 0x20 && *err != 0x7f);
}

static void check_rules(const struct link_config *c)
{
	REQUIRE(c->nlan_ports >= 1 && c->nlan_ports <= LAN_PORTS_MAX);
	REQUIRE(c->nlocal >= 1 && c->nlocal <= PREFIXES_MAX && c->nremote >= 1 && c->nremote <= PREFIXES_MAX);
	REQUIRE(c->lanes >= 1 && c->lanes <= LANES_MAX && c->workers >= 1 && c->workers <= WORKERS_MAX);
	REQUIRE(c->workers <= c->lanes && c->ncpus <= WORKERS_MAX);
	REQUIRE(c->npaths >= 1 && c->npaths <= PATHS_MAX);
	for (uint32_t i = 0; i < c->npaths; i++)
		REQUIRE(c->paths[i].rate_bps >= 1000000 && c->paths[i].mtu >= 1500 && c->paths[i].mtu <= WAN_MTU_MAX &&
		        c->paths[i].port != 0);
	REQUIRE(c->max_flows >= 16 && c->max_flows <= FLOWS_MAX);
	REQUIRE(c->arena_dir[0] == '/' && memchr(c->arena_dir, '\0', sizeof(c->arena_dir)) != NULL);
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		REQUIRE(c->lan_ports[i][0] != '\0' && memchr(c->lan_ports[i], '\0', IF_NAMESIZE) != NULL);
	REQUIRE(c->nexports <= EXPORTS_MAX && (c->relay || c->nexports == 0));
	for (uint32_t i = 0; i < c->nexports; i++)
		REQUIRE(c->exports[i].name[0] && !strchr(c->exports[i].name, '/') && c->exports[i].path[0] == '/' &&
		        c->exports[i].user[0]);
	REQUIRE(c->arena_bytes == 0 || c->arena_bytes >= 16ull << 20);
}

static void check_print(const struct link_config *c)
{
	struct link_config again;
	char err[CONFIG_ERR_MAX];
	size_t len = 0;
	char *text = NULL;
	FILE *f = open_memstream(&text, &len);

	REQUIRE(f != NULL);
	config_write(c, f);
	fclose(f);
	REQUIRE(config_parse(NAME, text, len, &again, err) == 0);
	REQUIRE(memcmp(c, &again, sizeof(again)) == 0);
	REQUIRE(config_reloadable(c, &again, err));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config_reading r;
	struct link_config c;
	char err[CONFIG_ERR_MAX];
	/* The daemon's text has no room behind its end: neither has this. */
	char *text = malloc(size > 0 ? size : 1);

	REQUIRE(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	if (config_parse(NAME, text, size, &c, err) == 0) {
		check_rules(&c);
		check_print(&c);
	} else {
		check_sentence(err);
	}
	/* Whoever wants every error has the same first one, and none where there is none. */
	REQUIRE((config_parse_all(NAME, text, size, &c, &r) == 0) == (err[0] == '\0'));
	REQUIRE((r.nerrors == 0) == (err[0] == '\0'));
	REQUIRE(r.nerrors == 0 || strcmp(r.error[0], err) == 0);
	for (uint32_t i = 0; i < r.nerrors; i++)
		check_sentence(r.error[i]);
	free(text);
	return 0;
}
