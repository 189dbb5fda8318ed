/* SPDX-License-Identifier: Apache-2.0 */
/* headroom.c - the models by name, and the check of what goes in. */
#include "headroom/headroom.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "headroom/model.h"

static const struct headroom_model_ops *const models[HEADROOM_MODELS] = {
    [HEADROOM_PHYSICS] = &model_physics,
    [HEADROOM_SONIC_MELLANOX] = &model_sonic_mellanox,
    [HEADROOM_SONIC_BAREFOOT] = &model_sonic_barefoot,
    [HEADROOM_ANNEX_O] = &model_annex_o,
    [HEADROOM_MLX5] = &model_mlx5,
    [HEADROOM_MLX5_NEXT] = &model_mlx5_next,
    [HEADROOM_SONIC_BROADCOM] = &model_sonic_broadcom,
};

double model_term(struct headroom_result *r, enum headroom_unit unit, const char *name, double value,
                  const char *source)
{
	if (r->n_terms < HEADROOM_TERMS_MAX)
		r->terms[r->n_terms++] = (struct headroom_term){name, source, value, unit};
	return value;
}

void model_thresholds(struct headroom_result *r, uint64_t xon_fill, uint64_t xoff_fill, uint64_t headroom,
                      uint64_t reserved)
{
	r->headroom_bytes = headroom;
	r->xoff_fill_bytes = xoff_fill;
	r->xon_fill_bytes = xon_fill;
	r->xon_delta_bytes = xoff_fill - xon_fill;
	r->reserved_bytes = reserved;
	r->xoff_reserved_bytes = xoff_fill < reserved ? xoff_fill : reserved;
}

uint64_t mul_div_up(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)(((unsigned __int128)a * b + c - 1) / c);
}

uint64_t mul_div_down(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

uint64_t model_length_m(const struct headroom_in *in, uint64_t ps_per_m)
{
	return in->rtt_ns != 0 ? mul_div_up(in->rtt_ns, 1000, 2 * ps_per_m) : in->length_m;
}

double rounded(double x)
{
	volatile double v = x;

	return v;
}

double ceil_up(double x)
{
	double whole = (double)(uint64_t)x;

	return whole < x ? whole + 1 : whole;
}

double ceil_kib(double x)
{
	return ceil_up(x / 1024) * 1024;
}

void headroom_defaults(struct headroom_in *in)
{
	*in = (struct headroom_in){
	    .port_mtu = 9100,
	    .small_percent = -1,
	    .lanes = 4,
	    .compensation = true,
	    .priorities = {{.number = 3}, {.number = 4}},
	    .n_priorities = 2,
	    .ports = 1,
	    .oversubscribe = 1,
	};
}

enum headroom_model headroom_model_find(const char *name)
{
	enum headroom_model m = 0;

	while (m < HEADROOM_MODELS && strcmp(models[m]->name, name) != 0)
		m++;
	return m;
}

const char *headroom_model_name(enum headroom_model model)
{
	return models[model]->name;
}

const char *headroom_model_source(enum headroom_model model)
{
	return models[model]->source;
}

const struct headroom_asic *headroom_model_asic(enum headroom_model model)
{
	return models[model]->asic != NULL ? headroom_asic_find(models[model]->asic) : NULL;
}

static int check(bool ok, char *why, const char *sentence)
{
	if (ok)
		return 0;
	snprintf(why, HEADROOM_ERROR_MAX, "%s", sentence);
	return -EINVAL;
}

static int check_rate(uint64_t bps, char *why)
{
	if (bps >= HEADROOM_RATE_MIN_BPS && bps <= HEADROOM_RATE_MAX_BPS)
		return 0;
	snprintf(why, HEADROOM_ERROR_MAX, "the rate must be from 1M to 10T, like 100G, not %" PRIu64 " bit/s", bps);
	return -EINVAL;
}

static int check_line(const struct headroom_in *in, char *why)
{
	int r = check(in->length_m > 0 || in->rtt_ns > 0, why,
	              "the distance or the round trip is missing: expected one above 0");

	if (r == 0)
		r = check(in->length_m <= HEADROOM_LENGTH_MAX_M, why,
		          "the distance is longer than the earth's circumference: expected at most 40000km");
	if (r == 0)
		r = check(in->rtt_ns <= HEADROOM_RTT_MAX_NS, why, "the round trip is too long: expected at most 10s");
	if (r == 0)
		r = check_rate(in->rate_bps, why);
	if (r == 0)
		r = check(in->drain_bps <= HEADROOM_RATE_MAX_BPS, why, "the drain rate must be at most 10T");
	if (r == 0)
		r = check(in->gearbox_ns <= HEADROOM_DELAY_MAX_NS && in->transponder_ns <= HEADROOM_DELAY_MAX_NS, why,
		          "the delay of a gearbox or a transponder must be at most 1s");
	return r;
}

static bool is_mtu(uint32_t mtu)
{
	return mtu >= HEADROOM_MTU_MIN && mtu <= HEADROOM_MTU_MAX;
}

static int check_frames(const struct headroom_in *in, char *why)
{
	int r = check(is_mtu(in->port_mtu), why, "the port MTU must be from 64 to 65535 bytes");

	if (r == 0)
		r = check(in->lossless_mtu == 0 || is_mtu(in->lossless_mtu), why,
		          "the lossless MTU must be from 64 to 65535 bytes");
	if (r == 0)
		r = check(in->lossless_mtu <= in->port_mtu, why, "the lossless MTU must be at most the port MTU");
	if (r == 0)
		r = check(in->small_percent >= -1 && in->small_percent <= 100, why,
		          "the share of small packets must be from 0 to 100 percent");
	if (r == 0)
		r = check(in->cell_bytes <= HEADROOM_CELL_MAX, why, "a cell must be at most 16KiB");
	if (r == 0)
		r = check(in->macsec_bytes <= HEADROOM_MACSEC_MAX, why,
		          "the bytes of MACsec must be at most 1024 (usually 32)");
	return r;
}

static int check_port(const struct headroom_in *in, char *why)
{
	int r = check(in->lanes >= 1 && in->lanes <= 16, why, "the lanes must be from 1 to 16");

	if (r == 0)
		r = check(in->peer_quanta <= HEADROOM_QUANTA_MAX, why,
		          "the peer's response must be at most 65535 quanta");
	if (r == 0)
		r = check(in->buffer_bytes <= HEADROOM_BUFFER_MAX, why, "the buffer must be at most 256TiB");
	if (r == 0)
		r = check(in->n_priorities >= 1 && in->n_priorities <= HEADROOM_PRIORITIES, why,
		          "the lossless priorities must be from 1 to 8 in number");
	if (r == 0)
		r = check(in->ports >= 1 && in->ports <= HEADROOM_PORTS_MAX, why,
		          "the ports of a pool must be from 1 to 512");
	if (r == 0)
		r = check(in->oversubscribe >= 1 && in->oversubscribe <= 64, why,
		          "the over-subscription must be from 1 to 64");
	for (unsigned i = 0; r == 0 && i < in->n_priorities; i++) {
		uint32_t mtu = in->priorities[i].lossless_mtu;

		r = check(in->priorities[i].number < HEADROOM_PRIORITIES, why, "a priority must be from 0 to 7");
		if (r == 0)
			r = check(mtu == 0 || (is_mtu(mtu) && mtu <= in->port_mtu), why,
			          "a priority's MTU must be from 64 bytes to the port MTU");
	}
	return r;
}

unsigned headroom_given(const struct headroom_in *in)
{
	return (in->macsec_bytes != 0 ? HEADROOM_X_MACSEC : 0u) |
	       (in->transponder_ns != 0 ? HEADROOM_X_TRANSPONDER : 0u) |
	       (in->gearbox_ns != 0 ? HEADROOM_X_GEARBOX : 0u) | (in->peer_quanta != 0 ? HEADROOM_X_QUANTA : 0u) |
	       (in->small_percent >= 0 ? HEADROOM_X_SMALL : 0u) | (in->pool ? HEADROOM_X_POOL : 0u) |
	       (in->drain_bps != 0 ? HEADROOM_X_DRAIN : 0u) | (in->buffer_bytes != 0 ? HEADROOM_X_BUFFER : 0u) |
	       (in->lossless_mtu != 0 ? HEADROOM_X_LOSSLESS_MTU : 0u) |
	       (in->medium == HEADROOM_COPPER ? HEADROOM_X_MEDIUM : 0u);
}

/* Physics takes any ASIC's cells; the others know their own. */
static const struct headroom_asic *choose_asic(enum headroom_model model, const struct headroom_in *in)
{
	if (in->asic != NULL && (in->asic->model == model || model == HEADROOM_PHYSICS))
		return in->asic;
	return headroom_model_asic(model);
}

unsigned headroom_fill_in(enum headroom_model model, struct headroom_in *in)
{
	const struct headroom_model_ops *ops = models[model];

	in->asic = choose_asic(model, in);
	if (in->cell_bytes == 0 && in->asic != NULL)
		in->cell_bytes = in->asic->cell_bytes;
	if (in->lossless_mtu == 0)
		in->lossless_mtu = ops->lossless_mtu != 0 && ops->lossless_mtu < in->port_mtu ? ops->lossless_mtu
		                                                                              : in->port_mtu;
	if (in->small_percent < 0)
		in->small_percent = ops->small_percent;
	return ops->knows;
}

int headroom_compute(enum headroom_model model, const struct headroom_in *in, struct headroom_result *r,
                     char why[HEADROOM_ERROR_MAX])
{
	struct headroom_in full = *in;
	int err;

	*r = (struct headroom_result){.model = model};
	err = check_line(in, why);
	if (err == 0)
		err = check_frames(in, why);
	if (err == 0)
		err = check_port(in, why);
	if (err < 0)
		return err;
	headroom_fill_in(model, &full);
	r->unused = headroom_given(in) & ~models[model]->knows;
	if (in->asic != NULL && in->asic != full.asic)
		r->unused |= HEADROOM_X_ASIC;
	return models[model]->compute(&full, r, why);
}
