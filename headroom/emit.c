/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c - the emitters by name.
 *
 * Each writes settings as in its device's documentation, and refuses settings that the device would accept and ignore:
 * a setting that only looks applied costs more than none. emit_check_room() refuses settings that exceed the device's
 * memory. */
#include "headroom/emit.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/util/units.h"
#include "headroom/model.h"

static const struct {
	const char *kind;
	enum headroom_model model;
	int (*write)(const struct report *rep, FILE *out, FILE *err);
} emitters[] = {
    {"sonic", HEADROOM_SONIC_MELLANOX, emit_sonic},
    {"pg_profile_lookup", HEADROOM_SONIC_MELLANOX, emit_pg_profile_lookup},
    {"dcb", HEADROOM_MLX5, emit_dcb},
    {"mlnx_qos", HEADROOM_MLX5, emit_mlnx_qos},
    {"nvue", HEADROOM_SONIC_MELLANOX, emit_nvue},
    {"eos", HEADROOM_PHYSICS, emit_eos},
    {"nxos", HEADROOM_PHYSICS, emit_nxos},
};

#define EMITTERS (sizeof(emitters) / sizeof(emitters[0]))

static size_t find(const char *kind)
{
	size_t i = 0;

	while (i < EMITTERS && strcmp(emitters[i].kind, kind) != 0)
		i++;
	return i;
}

bool emit_knows(const char *kind)
{
	return find(kind) < EMITTERS;
}

enum headroom_model emit_model(const char *kind)
{
	return emitters[find(kind)].model;
}

uint64_t emit_length_m(const struct report *rep)
{
	return model_length_m(&rep->o->in, 5050); /* the devices compute with 198000 km/s */
}

unsigned emit_priorities(const struct report *rep)
{
	unsigned mask = 0;

	for (unsigned i = 0; i < rep->o->in.n_priorities; i++)
		mask |= 1u << rep->o->in.priorities[i].number;
	return mask;
}

void emit_priority_list(const struct report *rep, FILE *out)
{
	unsigned mask = emit_priorities(rep);
	const char *comma = "";

	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0) {
			fprintf(out, "%s%u", comma, p);
			comma = ",";
		}
}

void emit_head(const struct report *rep, const char *comment, FILE *out)
{
	char rate[UNITS_TEXT_MAX], length[UNITS_TEXT_MAX];

	units_write_rate(rate, sizeof(rate), rep->o->in.rate_bps);
	units_write_distance(length, sizeof(length), emit_length_m(rep));
	fprintf(out, "%s longreach headroom: %s at %s, port MTU %u, model %s\n", comment, length, rate,
	        rep->o->in.port_mtu, headroom_model_name(rep->model));
	fprintf(out, "%s headroom %" PRIu64 " bytes per priority, XOFF at a fill of %" PRIu64 ", XON at %" PRIu64 "\n",
	        comment, rep->r->headroom_bytes, rep->r->xoff_fill_bytes, rep->r->xon_fill_bytes);
}

/* The switch that the numbers are for, with its ports' limits. */
const struct headroom_asic *emit_asic(const struct report *rep, const char *otherwise)
{
	const struct headroom_asic *a = rep->o->in.asic;

	if (a == NULL)
		a = headroom_model_asic(rep->model);
	if (a == NULL || (a->port_max_bytes == 0 && a->memory_bytes == 0))
		a = headroom_asic_find(otherwise);
	return a;
}

int emit_check_ports(const struct report *rep, unsigned ports, uint64_t needed, uint64_t room, const char *whose,
                     FILE *err)
{
	char rate[UNITS_TEXT_MAX], length[UNITS_TEXT_MAX], on[32] = "";

	if (needed <= room)
		return 0;
	if (ports > 1)
		snprintf(on, sizeof(on), " on %u ports", ports);
	units_write_rate(rate, sizeof(rate), rep->o->in.rate_bps);
	units_write_distance(length, sizeof(length), emit_length_m(rep));
	options_complain(
	    err, "--emit %s: %s at %s with %u lossless priorit%s%s takes %" PRIu64 " bytes, and %s has %" PRIu64 ". %s",
	    rep->o->emit, length, rate, rep->o->in.n_priorities, rep->o->in.n_priorities == 1 ? "y" : "ies", on, needed,
	    whose, room,
	    needed / rep->o->in.n_priorities <= room
	        ? "One lossless priority would fit, like --priorities 3"
	        : "End PFC at the edge: run longreachd at both ends of the line, and set this port up for the "
	          "cable to it, like --length 40m");
	return -1;
}

int emit_check_room(const struct report *rep, uint64_t needed, uint64_t room, const char *whose, FILE *err)
{
	if (rep->o->port_buffer_bytes != 0) {
		room = rep->o->port_buffer_bytes;
		whose = "--port-buffer";
	}
	return emit_check_ports(rep, 1, needed, room, whose, err);
}

int emit_check_asic(const struct report *rep, const struct headroom_asic *asic, FILE *err)
{
	uint64_t room = asic->port_max_bytes != 0 ? asic->port_max_bytes : asic->memory_bytes;
	char whose[96], fastest[UNITS_TEXT_MAX];

	if (asic->port_max_bps != 0 && rep->o->in.rate_bps > asic->port_max_bps) {
		units_write_rate(fastest, sizeof(fastest), asic->port_max_bps);
		options_complain(err,
		                 "--emit %s: the fastest port of %s has %s: choose another --asic, or a lower --rate",
		                 rep->o->emit, asic->name, fastest);
		return -1;
	}
	snprintf(whose, sizeof(whose), "%s of %s",
	         asic->port_max_bytes == 0 ? "the whole packet memory"
	         : asic->max_of_chip       ? "the headroom of all ports"
	                                   : "the headroom of a port",
	         asic->name);
	if (asic->max_of_chip &&
	    emit_check_ports(rep, rep->o->in.ports, headroom_of_asic(asic, &rep->o->in, rep->plan.port_bytes), room,
	                     whose, err) < 0)
		return -1;
	return emit_check_room(rep, rep->plan.port_bytes, room, whose, err);
}

/* NVUE and the mlx5 driver compute their thresholds themselves, and no setting tells them of these. */
#define LINE_EXTRAS                                                                                                    \
	(HEADROOM_X_MACSEC | HEADROOM_X_TRANSPONDER | HEADROOM_X_GEARBOX | HEADROOM_X_QUANTA | HEADROOM_X_DRAIN |      \
	 HEADROOM_X_MEDIUM)

static bool computes_itself(const struct report *rep)
{
	return rep->model == HEADROOM_MLX5 || rep->model == HEADROOM_MLX5_NEXT ||
	       (rep->o->emit != NULL && strcmp(rep->o->emit, "nvue") == 0);
}

static bool physics_may_do(const struct report *rep, unsigned lost)
{
	struct headroom_in full = rep->o->in;

	return rep->model != HEADROOM_PHYSICS && !rep->o->in.pool &&
	       (lost & ~headroom_fill_in(HEADROOM_PHYSICS, &full)) == 0;
}

static void refuse_lost(const struct report *rep, unsigned lost, FILE *err)
{
	const char *kind = rep->o->emit != NULL ? rep->o->emit : "";
	const char *what = rep->o->emit != NULL ? "--emit " : "apply", *model = headroom_model_name(rep->model);
	const struct headroom_asic *asic = rep->o->in.asic != NULL ? NULL : headroom_model_asic(rep->model);
	bool physics = physics_may_do(rep, lost);
	char options[REPORT_OPTIONS_MAX];

	report_options(lost, options);
	if (computes_itself(rep))
		options_complain(err,
		                 "%s%s: the device computes its thresholds from the cable's length and the MTU, and "
		                 "ignores %s: leave it out, or give a --length that covers it%s",
		                 what, kind, options,
		                 physics && strcmp(kind, "dcb") == 0
		                     ? "; for a port that mlx5_core does not drive, choose --model physics"
		                     : "");
	else
		options_complain(err,
		                 "%s%s: model %s ignores %s, and its headroom would be that of a link without it: "
		                 "leave it out%s%s%s",
		                 what, kind, model, options, physics ? ", or choose --model physics" : "",
		                 physics && asic != NULL ? " --asic " : "", physics && asic != NULL ? asic->name : "");
}

int emit_check_options(const struct report *rep, FILE *err)
{
	const struct headroom_asic *asic = rep->o->in.asic;
	unsigned lost = rep->r->unused & ~(unsigned)HEADROOM_X_ASIC;

	if (computes_itself(rep))
		lost |= headroom_given(&rep->o->in) & LINE_EXTRAS;
	if (lost != 0) {
		refuse_lost(rep, lost, err);
		return -1;
	}
	if ((rep->r->unused & HEADROOM_X_ASIC) == 0)
		return 0;
	options_complain(err, "model %s has no numbers for --asic %s: leave it out, or choose --model %s",
	                 headroom_model_name(rep->model), asic->name, headroom_model_name(asic->model));
	return -1;
}

int emit_check_buffer(const struct report *rep, FILE *err)
{
	const struct headroom_result *r = rep->r;

	if (r->size >= r->xoff_fill_bytes + r->headroom_bytes)
		return 0;
	options_complain(err,
	                 "the buffer of model %s has %" PRIu64 " bytes without the headroom, which a switch has in a "
	                 "pool for all ports: this device needs %" PRIu64
	                 " bytes above XOFF in each buffer: choose --model physics%s",
	                 headroom_model_name(rep->model), r->size, r->headroom_bytes,
	                 rep->o->in.pool ? " and --pool off" : "");
	return -1;
}

int emit(const struct report *rep, FILE *out, FILE *err)
{
	if (emit_check_options(rep, err) < 0)
		return -1;
	for (unsigned i = 0; i < rep->o->in.n_priorities; i++)
		if (rep->o->in.priorities[i].lossless_mtu != 0) {
			options_complain(err, "--emit writes one profile for all lossless priorities: expected "
			                      "--lossless-mtu, not MTUs in --priorities");
			return -1;
		}
	if (rep->r->warning != NULL)
		options_complain(err, "warning: %s", rep->r->warning);
	return emitters[find(rep->o->emit)].write(rep, out, err);
}
