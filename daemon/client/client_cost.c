/* SPDX-License-Identifier: Apache-2.0 */
/* client_cost.c - the load of each worker, and what each stage of a packet's way costs, as "show runtime" in VPP:
 *
 *       worker 0  on CPU 3: busy 37.4 % of the time; of that:
 *                 stage          share   packets/s   ns/packet   cycles/packet
 *                 lan_receive   12.1 %       98234         458            1340
 *                 ...
 *
 * Costs come from a sample of turns; packets per second are reckoned from it. */
#include "client_cost.h"

#include <inttypes.h>

/* How much a counter has grown. A worker that was started in between began at 0. */
static double growth(const struct json_object *now, const struct json_object *before, const char *key)
{
	double n = j_number(now, key) - j_number(before, key);

	return n >= 0 ? n : j_number(now, key);
}

double cost_load(const struct json_object *worker, const struct json_object *before)
{
	double running = growth(worker, before, "running_ns"), load = growth(worker, before, "busy_ns") / running;

	if (running <= 0)
		return -1;
	return load < 1 ? load : 1;
}

double cost_batch(const struct json_object *worker, const struct json_object *before)
{
	const struct json_object *stages = j_get(worker, "stages"), *former = j_get(before, "stages"), *s;
	double turns = growth(worker, before, "sampled_turns"), most = 0;

	for (size_t i = 0; turns > 0 && (s = j_at(stages, i)) != NULL; i++) {
		double batch = growth(s, j_at(former, i), "packets") / turns;

		most = batch > most ? batch : most;
	}
	return most;
}

/* scale: packets of the sample to packets per second. */
static void show_stage(FILE *out, const struct json_object *s, const struct json_object *before, double sampled_ns,
                       double scale, double ticks_per_ns)
{
	double ns = growth(s, before, "ns"), packets = growth(s, before, "packets");

	fprintf(out, "            %-12s %5.1f %%", j_text(s, "stage"), sampled_ns > 0 ? ns / sampled_ns * 100 : 0);
	if (packets > 0)
		fprintf(out, " %11.0f %11.0f %15.0f", packets * scale, ns / packets, ns / packets * ticks_per_ns);
	fputc('\n', out);
}

static void show_stages(FILE *out, const struct json_object *w, const struct json_object *before)
{
	const struct json_object *stages = j_get(w, "stages"), *former = j_get(before, "stages"), *s;
	double sampled = growth(w, before, "sampled_turns"), sampled_ns = growth(w, before, "sampled_ns");
	double seconds = growth(w, before, "running_ns") / 1e9, per_sample = growth(w, before, "busy_turns") / sampled;

	fprintf(out, "            %-12s %7s %11s %11s %15s\n", "stage", "share", "packets/s", "ns/packet", "cycles/packet");
	for (size_t i = 0; (s = j_at(stages, i)) != NULL; i++)
		show_stage(out, s, j_at(former, i), sampled_ns, seconds > 0 ? per_sample / seconds : 0,
		           j_number(w, "ticks_per_ns"));
}

static void show_worker(FILE *out, const struct json_object *w, const struct json_object *before)
{
	double load = cost_load(w, before);
	char cpu[32] = "";

	if (j_has(w, "cpu"))
		snprintf(cpu, sizeof(cpu), " on CPU %" PRIu64, j_uint(w, "cpu"));
	fprintf(out, "  worker %" PRIu64 "%s: ", j_uint(w, "worker"), cpu);
	if (load < 0) {
		fputs("has not run yet\n", out);
		return;
	}
	fprintf(out, "busy %.1f %% of %s", load * 100, before != NULL ? "the time between two answers" : "its time");
	if (growth(w, before, "sampled_turns") <= 0) {
		fputs(", too little for a sample\n", out);
		return;
	}
	fputs("; of that:\n", out);
	show_stages(out, w, before);
}

void cost_show(FILE *out, const struct json_object *link, const struct json_object *before)
{
	const struct json_object *workers = j_get(link, "worker_costs"), *former = j_get(before, "worker_costs"), *w;

	for (size_t i = 0; (w = j_at(workers, i)) != NULL; i++)
		show_worker(out, w, j_at(former, i));
}
