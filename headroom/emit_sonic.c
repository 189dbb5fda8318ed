/* SPDX-License-Identifier: Apache-2.0 */
/* emit_sonic.c - rows of SONiC's config_db.json, to be merged with `sonic-cfggen -j FILE --write-to-db`, and of its
 * pg_profile_lookup.ini, which the traditional buffer model looks a port's speed and cable length up in.
 *
 * Tables as in the SONiC configuration manual (sonic-buildimage src/sonic-yang-models/doc/Configuration.md, "Cable
 * length", "Buffer pool", "Buffer profile", "Buffer PG"). xon, xoff and size are bytes; xoff is the room above the
 * threshold; a pool's xoff is the shared headroom, which turns it on.
 *
 * A pool is of the whole switch and exists already. --write-to-db replaces only the fields of a row that the file has,
 * so the row has only what the operator asked for: no type or mode, which are create-only for orchagent
 * (bufferorch.cpp) and differ between boards. */
#include <inttypes.h>

#include "headroom/emit.h"
#include "daemon/util/json.h"

#define NUMBER_MAX  32
#define PROFILE_MAX 96

#define SONIC_LOSSLESS 0x18u /* LOSSLESS_TC: 3 and 4 */

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
	if (rep->o->pool_size_bytes == 0 && !rep->o->in.pool)
		return;
	json_object(j, "BUFFER_POOL");
	json_object(j, "ingress_lossless_pool");
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

/* buffermgrd takes the lossless priority groups from it, and the ASIC its PFC. */
static void pfc_enable(struct json *j, const struct report *rep, const char *dev)
{
	unsigned mask = emit_priorities(rep);
	char text[NUMBER_MAX];
	size_t len = 0;

	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u", len > 0 ? "," : "", p);
	json_object(j, "PORT_QOS_MAP");
	json_object(j, dev);
	json_string(j, "pfc_enable", text);
	json_object_end(j);
	json_object_end(j);
}

/* Defaults of sonic-buildimage files/build_templates/qos_config.j2. */
static void say_of_maps(const struct report *rep, FILE *err)
{
	options_complain(
	    err, "note: DSCP_TO_TC_MAP decides which packets are lossless: SONiC's default has DSCP 3 in traffic "
	         "class 3, 4 in 4, and the usual 26 of RoCE in 1: map the DSCP that hosts use");
	if ((emit_priorities(rep) & ~SONIC_LOSSLESS) != 0)
		options_complain(err,
		                 "warning: SONiC's default TC_TO_PRIORITY_GROUP_MAP and "
		                 "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP have 3 and 4 alone as lossless: map the other "
		                 "priorities in both, or their packets use another priority group");
}

static bool is_sonic(const struct report *rep)
{
	return rep->model == HEADROOM_SONIC_MELLANOX || rep->model == HEADROOM_SONIC_BAREFOOT ||
	       rep->model == HEADROOM_SONIC_BROADCOM;
}

/* Broadcom's boards have the traditional buffer model, the others the dynamic one unless the pool has a size. */
static bool is_traditional(const struct report *rep)
{
	return rep->model == HEADROOM_SONIC_BROADCOM || rep->o->pool_size_bytes != 0;
}

/* The traditional model finds the profile by this name and uses it as it is (buffermgr.cpp, doSpeedUpdateTask()). The
 * dynamic one gives the same name to profiles of its own, which other ports share (buffermgrdyn.cpp,
 * getDynamicProfileName()): there the profile has another. */
static void profile_name(const struct report *rep, char name[PROFILE_MAX])
{
	uint64_t mbps = rep->o->in.rate_bps / 1000000, length_m = emit_length_m(rep);

	if (is_traditional(rep))
		snprintf(name, PROFILE_MAX, "pg_lossless_%" PRIu64 "_%" PRIu64 "m_profile", mbps, length_m);
	else
		snprintf(name, PROFILE_MAX, "longreach_%" PRIu64 "_%" PRIu64 "m", mbps, length_m);
}

/* The shared headroom is of all ports: a number that was not counted would take it from those left out. */
static int check_pool(const struct report *rep, const struct headroom_asic *asic, FILE *err)
{
	uint64_t room = asic->max_of_chip ? asic->port_max_bytes : asic->memory_bytes;

	if (!rep->o->in.pool)
		return 0;
	if (!is_sonic(rep)) {
		options_complain(
		    err, "--pool on: only the SONiC models compute the pool: expected one of them, or --pool off");
		return -1;
	}
	if (!rep->o->ports_given) {
		options_complain(err, "--pool on: the pool's headroom is shared by all lossless ports of the switch: "
		                      "--ports is missing, their number, like --ports 32");
		return -1;
	}
	if (room != 0 && rep->plan.pool_bytes > room) {
		options_complain(err,
		                 "--pool on: the headroom of %u ports is %" PRIu64
		                 " bytes, and all ports of %s have %" PRIu64
		                 ": expected fewer --ports, or --oversubscribe",
		                 rep->o->in.ports, rep->plan.pool_bytes, asic->name, room);
		return -1;
	}
	options_complain(
	    err,
	    "note: xoff of ingress_lossless_pool is the headroom of the whole switch: it counts %u ports of "
	    "this link and none of another kind",
	    rep->o->in.ports);
	return 0;
}

static void say_of_size(const struct report *rep, FILE *err)
{
	if (is_traditional(rep))
		return;
	options_complain(
	    err, "note: the pool's size stays as it is, and the profile has a name of its own: this is for SONiC's "
	         "dynamic buffer model; for the traditional one give --pool-size");
}

int emit_sonic(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "Ethernet0";
	const struct headroom_asic *asic = emit_asic(rep, "spectrum-4");
	struct json j = {.stream = out};
	char name[PROFILE_MAX];

	if (emit_check_asic(rep, asic, err) < 0 || check_pool(rep, asic, err) < 0)
		return -1;
	profile_name(rep, name);
	json_object(&j, NULL);
	cable_length(&j, rep, dev);
	pool(&j, rep);
	profile(&j, rep, name);
	priority_groups(&j, rep, dev, name);
	pfc_enable(&j, rep, dev);
	json_object_end(&j);
	say_of_size(rep, err);
	say_of_maps(rep, err);
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
