/* SPDX-License-Identifier: Apache-2.0 */
/* emit_sonic.c - rows of SONiC's config_db.json, to be merged with `sonic-cfggen -j FILE --write-to-db`, and of its
 * pg_profile_lookup.ini, which the traditional buffer model looks a port's speed and cable length up in.
 *
 * Tables as in the SONiC configuration manual (sonic-buildimage src/sonic-yang-models/doc/Configuration.md, "Cable
 * length", "Buffer pool", "Buffer profile", "Buffer PG"). xon, xoff and size are bytes; xoff is the room above the
 * threshold; a pool's xoff is the shared headroom, which turns it on. */
#include <inttypes.h>

#include "headroom/emit.h"
#include "daemon/util/json.h"

#define NUMBER_MAX  32
#define PROFILE_MAX 96

static void number(struct json *j, const char *key, uint64_t value)
{
	char text[NUMBER_MAX];

	snprintf(text, sizeof(text), "%" PRIu64, value); /* SONiC's numbers are strings */
	json_string(j, key, text);
}

static void cable_length(struct json *j, const struct report *rep, const char *dev)
{
	char length[NUMBER_MAX];

	snprintf(length, sizeof(length), "%" PRIu64 "m", emit_length_m(rep));
	json_object(j, "CABLE_LENGTH");
	json_object(j, "AZURE");
	json_string(j, dev, length);
	json_object_end(j);
	json_object_end(j);
}

static void pool(struct json *j, const struct report *rep)
{
	json_object(j, "BUFFER_POOL");
	json_object(j, "ingress_lossless_pool");
	json_string(j, "type", "ingress");
	json_string(j, "mode", "dynamic");
	if (rep->o->pool_size_bytes != 0)
		number(j, "size", rep->o->pool_size_bytes);
	if (rep->o->in.pool)
		number(j, "xoff", rep->plan.pool_bytes);
	json_object_end(j);
	json_object_end(j);
}

static void profile(struct json *j, const struct report *rep, const char *name)
{
	const struct headroom_result *r = rep->r;
	char text[NUMBER_MAX];

	json_object(j, "BUFFER_PROFILE");
	json_object(j, name);
	json_string(j, "pool", "ingress_lossless_pool");
	number(j, "xon", rep->model == HEADROOM_SONIC_BROADCOM ? r->xon : r->xon_fill_bytes);
	number(j, "xoff", r->headroom_bytes);
	number(j, "size", r->size);
	if (r->xon_offset_bytes != 0)
		number(j, "xon_offset", r->xon_offset_bytes);
	snprintf(text, sizeof(text), "%d", r->threshold);
	json_string(j, "dynamic_th", text);
	json_object_end(j);
	json_object_end(j);
}

/* One row per run of neighbouring priorities: "Ethernet0|3-4". */
static void priority_groups(struct json *j, const struct report *rep, const char *dev, const char *name)
{
	unsigned mask = emit_priorities(rep);
	char key[OPTIONS_NAME_MAX + 8];

	json_object(j, "BUFFER_PG");
	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++) {
		unsigned last = p;

		if ((mask & 1u << p) == 0)
			continue;
		while ((mask & 1u << (last + 1)) != 0)
			last++;
		if (last > p)
			snprintf(key, sizeof(key), "%s|%u-%u", dev, p, last);
		else
			snprintf(key, sizeof(key), "%s|%u", dev, p);
		json_object(j, key);
		json_string(j, "profile", name);
		json_object_end(j);
		p = last;
	}
	json_object_end(j);
}

static bool is_sonic(const struct report *rep)
{
	return rep->model == HEADROOM_SONIC_MELLANOX || rep->model == HEADROOM_SONIC_BAREFOOT ||
	       rep->model == HEADROOM_SONIC_BROADCOM;
}

int emit_sonic(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "Ethernet0";
	struct json j = {.stream = out};
	char name[PROFILE_MAX];

	if (!is_sonic(rep) && rep->o->in.pool) {
		options_complain(
		    err, "--pool on: only the SONiC models compute the pool: expected one of them, or --pool off");
		return -1;
	}
	if (emit_check_asic(rep, emit_asic(rep, "spectrum-4"), err) < 0)
		return -1;
	snprintf(name, sizeof(name), "pg_lossless_%" PRIu64 "_%" PRIu64 "m_profile", rep->o->in.rate_bps / 1000000,
	         emit_length_m(rep));
	json_object(&j, NULL);
	cable_length(&j, rep, dev);
	pool(&j, rep);
	profile(&j, rep, name);
	priority_groups(&j, rep, dev, name);
	json_object_end(&j);
	if (rep->o->pool_size_bytes == 0)
		options_complain(
		    err, "note: the pool has no size, which SONiC's dynamic buffer model works out; the traditional "
		         "one needs --pool-size");
	return 0;
}

/* Columns as sonic-swss cfgmgr/buffermgr.cpp reads them; the seventh may be left out. */
int emit_pg_profile_lookup(const struct report *rep, FILE *out, FILE *err)
{
	const struct headroom_result *r = rep->r;
	uint64_t xon = rep->model == HEADROOM_SONIC_BROADCOM ? r->xon : r->xon_fill_bytes;

	if (emit_check_asic(rep, emit_asic(rep, "spectrum-4"), err) < 0)
		return -1;
	emit_head(rep, "#", out);
	fprintf(out, "# PG lossless profiles.\n# speed cable size xon xoff threshold%s\n",
	        r->xon_offset_bytes != 0 ? " xon_offset" : "");
	fprintf(out, "%" PRIu64 " %" PRIu64 "m %" PRIu64 " %" PRIu64 " %" PRIu64 " %d", rep->o->in.rate_bps / 1000000,
	        emit_length_m(rep), r->size, xon, r->headroom_bytes, r->threshold);
	if (r->xon_offset_bytes != 0)
		fprintf(out, " %" PRIu64, r->xon_offset_bytes);
	fputc('\n', out);
	return 0;
}
