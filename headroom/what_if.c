/* SPDX-License-Identifier: Apache-2.0 */
/* what_if.c - all models over distances, rates and MTUs. */
#include <inttypes.h>

#include "daemon/util/units.h"
#include "daemon/util/json.h"
#include "headroom/report.h"

static const struct options_list default_lengths = {{5, 40, 300, 1000, 10000, 80000, 300000, 1000000}, 8};
static const struct options_list default_rates = {{100000000000, 400000000000, 800000000000}, 3};
static const struct options_list default_mtus = {{1500, 4200, 9100}, 3};

struct row {
	struct headroom_in in;
	struct headroom_result r[HEADROOM_MODELS];
	bool ok[HEADROOM_MODELS];
	struct headroom_plan plan;
};

/* As headroom_compute() of physics. */
static int work_out(struct row *row, char *why)
{
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		row->ok[m] = headroom_compute(m, &row->in, &row->r[m], why) == 0;
	return headroom_plan_link(HEADROOM_PHYSICS, &row->in, &row->plan, why);
}

/* Of the largest headroom to the smallest, among the models that take the length. */
static double spread(const struct row *row)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++) {
		uint64_t bytes = row->r[m].headroom_bytes;

		if (row->ok[m] && bytes < least)
			least = bytes;
		if (row->ok[m] && bytes > most)
			most = bytes;
	}
	return (double)most / (double)least;
}

static void text_row(const struct row *row, FILE *out)
{
	char length[UNITS_TEXT_MAX], rate[UNITS_TEXT_MAX], bytes[UNITS_TEXT_MAX];

	units_write_distance(length, sizeof(length), row->in.length_m);
	units_write_rate(rate, sizeof(rate), row->in.rate_bps);
	fprintf(out, "%8s %6s %6u", length, rate, row->in.port_mtu);
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		fprintf(out, " %14s", row->ok[m] ? units_show_bytes(bytes, (double)row->r[m].headroom_bytes) : "-");
	fprintf(out, " %6.1fx", spread(row));
	fprintf(out, " %10s", units_show_bytes(bytes, (double)row->plan.bdp_bytes));
	fprintf(out, " %10s\n", units_show_bytes(bytes, (double)row->plan.deep_buffer_bytes));
}

static void text_head(FILE *out)
{
	fprintf(out, "%8s %6s %6s", "length", "rate", "MTU");
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		fprintf(out, " %14s", headroom_model_name(m));
	fprintf(out, " %7s %10s %10s\n", "spread", "BDP", "deep");
}

static void csv_head(FILE *out)
{
	fprintf(out, "length_m,rate_bps,port_mtu_bytes");
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		fprintf(out, ",%s", headroom_model_name(m));
	fprintf(out, ",bdp_bytes,deep_buffer_bytes,no_underrun_xon_bytes,spread\n");
}

static void csv_row(const struct row *row, FILE *out)
{
	fprintf(out, "%" PRIu64 ",%" PRIu64 ",%u", row->in.length_m, row->in.rate_bps, row->in.port_mtu);
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		if (row->ok[m])
			fprintf(out, ",%" PRIu64, row->r[m].headroom_bytes);
		else
			fputc(',', out);
	fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f\n", row->plan.bdp_bytes, row->plan.deep_buffer_bytes,
	        row->plan.no_underrun_xon_bytes, spread(row));
}

static void json_row(const struct row *row, struct json *j)
{
	json_object(j, NULL);
	json_uint(j, "length_m", row->in.length_m);
	json_uint(j, "rate_bps", row->in.rate_bps);
	json_uint(j, "port_mtu_bytes", row->in.port_mtu);
	json_object(j, "headroom_bytes");
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		if (row->ok[m])
			json_uint(j, headroom_model_name(m), row->r[m].headroom_bytes);
	json_object_end(j);
	json_uint(j, "bdp_bytes", row->plan.bdp_bytes);
	json_uint(j, "deep_buffer_bytes", row->plan.deep_buffer_bytes);
	json_uint(j, "no_underrun_xon_bytes", row->plan.no_underrun_xon_bytes);
	json_real(j, "spread", spread(row));
	json_object_end(j);
}

static void put_row(const struct options *o, const struct row *row, struct json *j, FILE *out)
{
	if (o->format == FORMAT_TEXT)
		text_row(row, out);
	else if (o->format == FORMAT_CSV)
		csv_row(row, out);
	else
		json_row(row, j);
}

/* Every row in its turn; `put` is false to see only whether all of them make sense. */
static int rows(const struct options *o, struct json *j, bool put, char *why)
{
	const struct options_list *lengths = o->lengths_m.n > 0 ? &o->lengths_m : &default_lengths;
	const struct options_list *rates = o->rates_bps.n > 0 ? &o->rates_bps : &default_rates;
	const struct options_list *mtus = o->mtus.n > 0 ? &o->mtus : &default_mtus;
	struct row row = {.in = o->in};
	int r;

	for (unsigned l = 0; l < lengths->n; l++)
		for (unsigned k = 0; k < rates->n; k++)
			for (unsigned m = 0; m < mtus->n; m++) {
				row.in.length_m = lengths->values[l];
				row.in.rate_bps = rates->values[k];
				row.in.port_mtu = (uint32_t)mtus->values[m];
				r = work_out(&row, why);
				if (r < 0)
					return r;
				if (put)
					put_row(o, &row, j, j->stream);
			}
	return 0;
}

int what_if(const struct options *o, FILE *out, FILE *err)
{
	struct json j = {.stream = out};
	char why[HEADROOM_ERROR_MAX];
	int r = rows(o, &j, false, why);

	if (r < 0) {
		options_complain(err, "%s", why);
		return r;
	}
	if (o->format == FORMAT_JSON)
		json_array(&j, NULL);
	else
		(o->format == FORMAT_CSV ? csv_head : text_head)(out);
	rows(o, &j, true, why);
	if (o->format == FORMAT_JSON)
		json_array_end(&j);
	if (o->format == FORMAT_TEXT)
		fprintf(out, "Headroom of one lossless priority. \"-\": the model does not accept that length. spread: "
		             "the largest result over the smallest.\n");
	return 0;
}
