/* SPDX-License-Identifier: Apache-2.0 */
/* plan_tool.c - the command line of `longreach plan`, and its plot.
 *
 * One table: name, kind of value, where it goes, help. The usage text, getopt's table and the sentences of refusal come
 * from it. */
#define _GNU_SOURCE /* mkostemp */
#include "plan/plan_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/util/units.h"

#define NUMBER_MAX 1e18 /* of parameters, tokens, bytes: what doubles count exactly enough */
#define FIBRE_NS_M 5.0  /* as headroom/physics.c */
#define RTT_MAX_S  10.0 /* HEADROOM_RTT_MAX_NS */
#define RATE_MIN   1e6  /* HEADROOM_RATE_MIN_BPS */
#define RATE_MAX   1e13 /* HEADROOM_RATE_MAX_BPS */

enum exit_codes {
	EXIT_OK = 0,
	EXIT_NO_PLOT = 1,
	EXIT_USAGE = 2,
};

enum kind {
	KIND_NUMBER, /* with K, M, B, T */
	KIND_SIZE,   /* of a group: a whole number from 1 */
	KIND_TIME,
	KIND_RATE,
	KIND_BYTES,
	KIND_KM,
	KIND_FLOPS, /* in 10^12 */
	KIND_PRECISION,
	KIND_ACROSS,
	KIND_MODEL,
	KIND_FILE,
	KIND_FLAG,
};

static const struct {
	const char *value, *expected;
} kinds[] = {
    [KIND_NUMBER] = {"N", "a number above 0, like 7B, 1e9 or 4M"},
    [KIND_SIZE] = {"N", "a whole number from 1, like 8"},
    [KIND_TIME] = {"TIME", "a time, like 2s, 800ms or 3ms"},
    [KIND_RATE] = {"RATE", "a rate from 1M, like 100G or 1.6T"},
    [KIND_BYTES] = {"BYTES", "an amount of bytes with its unit, like 800GB, 15TB or 64GiB"},
    [KIND_KM] = {"N", "kilometres, like 300 or 1.5"},
    [KIND_FLOPS] = {"N", "10^12 operations per second, like 400"},
    [KIND_PRECISION] = {"NAME", "fp32, bf16, fp16, fp8 or int8"},
    [KIND_ACROSS] = {"NAME", "data, fsdp, pipeline, tensor or expert"},
    [KIND_MODEL] = {"NAME", "gpt-3-175b, llama-3-405b or deepseek-v3"},
    [KIND_FILE] = {"FILE.svg", "a file's name without quotes"},
    [KIND_FLAG] = {"", "nothing"},
};

enum id { ID_MODELS = 1, ID_CSV, ID_JSON, ID_HELP };

#define IN(field) offsetof(struct plan_options, in.field)

static const struct {
	const char *name;
	enum kind kind;
	size_t at; /* in struct plan_options; of a flag its enum id */
	const char *help;
} table[] = {
    {"model", KIND_MODEL, 0, "a published model; other options override its figures"},
    {"params", KIND_NUMBER, IN(params), "parameters of the model"},
    {"active", KIND_NUMBER, IN(active), "parameters that compute for one token (all)"},
    {"precision", KIND_PRECISION, 0, "precision of gradients and activations on the wire (bf16)"},
    {"gpus", KIND_SIZE, IN(gpus), "GPUs of both sites"},
    {"data", KIND_SIZE, IN(data), "copies of the model (--gpus / tensor / pipeline)"},
    {"tensor", KIND_SIZE, IN(tensor), "GPUs that share each layer (1)"},
    {"pipeline", KIND_SIZE, IN(pipeline), "stages (1)"},
    {"expert", KIND_SIZE, IN(expert), "data-parallel GPUs that divide one set of experts (1)"},
    {"expert-params", KIND_NUMBER, IN(expert_params), "parameters of all experts"},
    {"across", KIND_ACROSS, 0, "the parallelism that crosses the line: data, fsdp, pipeline, tensor, expert (data)"},
    {"tokens", KIND_NUMBER, IN(tokens), "tokens of all GPUs in one step"},
    {"microbatches", KIND_SIZE, IN(microbatches), "microbatches of one pipeline in one step (1)"},
    {"buckets", KIND_SIZE, IN(buckets), "buckets of gradients in one step, or FSDP units (25 MiB each)"},
    {"layers", KIND_SIZE, IN(layers), "layers of the model"},
    {"hidden", KIND_SIZE, IN(hidden), "numbers in an activation"},
    {"moe-layers", KIND_SIZE, IN(moe_layers), "layers with experts"},
    {"top-k", KIND_SIZE, IN(top_k), "experts of a token"},
    {"step", KIND_TIME, IN(step_s), "time of one step without the line (from --tokens)"},
    {"backward", KIND_TIME, IN(backward_s), "time of the step's backward pass (two thirds)"},
    {"tflops", KIND_FLOPS, IN(flops), "10^12 operations per second that a GPU reaches (400)"},
    {"km", KIND_KM, 0, "length of the line"},
    {"rtt", KIND_TIME, IN(rtt_s), "round trip of the line, instead of --km"},
    {"rate", KIND_RATE, IN(rate_bps), "goodput that programs get on the line"},
    {"checkpoint", KIND_BYTES, IN(checkpoint_bytes), "size of a checkpoint (parameters and Adam)"},
    {"dataset", KIND_BYTES, IN(dataset_bytes), "size of a data set that goes to the other site"},
    {"channels", KIND_SIZE, IN(channels), "NCCL channels of a communicator across the line (16)"},
    {"models", KIND_FLAG, ID_MODELS, "print a table of the published models on this line"},
    {"json", KIND_FLAG, ID_JSON, "print JSON; longreach-plan(1) describes the fields"},
    {"csv", KIND_FLAG, ID_CSV, "print a row for each distance from 1 to 20000 km"},
    {"plot", KIND_FILE, 0, "draw the rows of --csv into FILE.svg (gnuplot)"},
    {"help", KIND_FLAG, ID_HELP, "print this text"},
};

#define OPTIONS (sizeof(table) / sizeof(table[0]))

static void usage(FILE *out)
{
	fputs("usage: longreach plan --model NAME --km N --rate RATE [OPTION]...\n"
	      "       longreach plan --params N --gpus N --step TIME --km N --rate RATE [OPTION]...\n"
	      "       longreach plan --models --km N --rate RATE [OPTION]...\n\n",
	      out);
	for (size_t i = 0; i < OPTIONS; i++)
		fprintf(out, "  --%-13s %-9s %s\n", table[i].name, kinds[table[i].kind].value, table[i].help);
}

/* --- values --- */

/* "7B", "1.5e9", "4M": a number above 0 with a power of 1000. */
static int read_number(const char *text, double *value)
{
	static const char powers[] = "KMBT";
	const char *at;
	char *end;

	if (*text < '0' || *text > '9') /* no sign, no nan, no inf, no blank */
		return -1;
	*value = strtod(text, &end);
	if (*end == 'G')
		*value *= 1e9, end++;
	else if (*end != '\0' && (at = strchr(powers, *end)) != NULL) {
		for (const char *p = powers; p <= at; p++)
			*value *= 1000;
		end++;
	}
	return *end == '\0' && *value > 0 && *value <= NUMBER_MAX ? 0 : -1;
}

static int read_size(const char *text, double *value)
{
	uint64_t n;

	if (units_read_count(text, &n) < 0 || n == 0 || n > 10000000)
		return -1;
	*value = (double)n;
	return 0;
}

static int read_unit(int (*read)(const char *text, uint64_t *value), const char *text, double scale, double max,
                     double *value)
{
	uint64_t n;

	if (read(text, &n) < 0 || n == 0)
		return -1;
	*value = (double)n * scale;
	return *value <= max ? 0 : -1;
}

/* "7B" are parameters, and "15T" is 10^12 or 2^40: bytes end with a prefix and B. */
static int read_bytes(const char *text, double *value)
{
	size_t n = strlen(text);

	if (n < 3 || text[n - 1] != 'B' || strchr("kMGTi", text[n - 2]) == NULL)
		return -1;
	return read_unit(units_read_bytes, text, 1, NUMBER_MAX, value);
}

static int read_km(const char *text, struct plan_options *o)
{
	char buf[64];

	if (snprintf(buf, sizeof(buf), "%s%s", text, strpbrk(text, "km") != NULL ? "" : "km") >= (int)sizeof(buf) ||
	    read_unit(units_read_distance, buf, 1, 4e7, &o->length_m) < 0)
		return -1;
	o->in.rtt_s = 2 * o->length_m * FIBRE_NS_M / 1e9;
	return 0;
}

static int read_precision(const char *text, struct plan_in *in)
{
	static const struct {
		const char *name;
		double bytes;
	} names[] = {{"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"int8", 1}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, text) == 0) {
			in->gradient_bytes = in->activation_bytes = names[i].bytes;
			return 0;
		}
	return -1;
}

static int read_file(const char *text, struct plan_options *o)
{
	o->plot = text;
	return *text != '\0' && strlen(text) < PATH_MAX && strpbrk(text, "'\"\\`\r\n") == NULL ? 0 : -1;
}

static int take_value(struct plan_options *o, size_t i, const char *text)
{
	double *to = (double *)(void *)((char *)o + table[i].at);

	switch (table[i].kind) {
	case KIND_NUMBER:
		return read_number(text, to);
	case KIND_SIZE:
		return read_size(text, to);
	case KIND_TIME:
		return read_unit(units_read_time, text, 1e-9, to == &o->in.rtt_s ? RTT_MAX_S : 1e9, to);
	case KIND_RATE:
		return read_unit(units_read_rate, text, 1, RATE_MAX, to) == 0 && *to >= RATE_MIN ? 0 : -1;
	case KIND_BYTES:
		return read_bytes(text, to);
	case KIND_FLOPS:
		if (read_number(text, to) < 0)
			return -1;
		*to *= 1e12;
		return 0;
	case KIND_KM:
		return read_km(text, o);
	case KIND_PRECISION:
		return read_precision(text, &o->in);
	case KIND_ACROSS:
		o->in.across = plan_across_find(text);
		return o->in.across < PLAN_ACROSSES ? 0 : -1;
	case KIND_MODEL:
		o->model = plan_model_find(text);
		return o->model != NULL ? 0 : -1;
	default:
		return read_file(text, o);
	}
}

static void take_flag(struct plan_options *o, size_t id)
{
	if (id == ID_MODELS)
		o->models = true;
	else if (id == ID_HELP)
		o->help = true;
	else
		o->format = id == ID_CSV ? PLAN_CSV : PLAN_JSON;
}

static int take(struct plan_options *o, size_t i, const char *text, FILE *err)
{
	if (table[i].kind == KIND_FLAG) {
		take_flag(o, table[i].at);
		return 0;
	}
	if (take_value(o, i, text) == 0)
		return 0;
	fprintf(err, "longreach plan: --%s %s: expected %s\n", table[i].name, text, kinds[table[i].kind].expected);
	return -1;
}

static int read_options(struct plan_options *o, int argc, char **argv, FILE *err)
{
	struct option long_options[OPTIONS + 1] = {0};
	int opt;

	*o = (struct plan_options){0};
	plan_defaults(&o->in);
	for (size_t i = 0; i < OPTIONS; i++)
		long_options[i] = (struct option){
		    table[i].name, table[i].kind == KIND_FLAG ? no_argument : required_argument, NULL, (int)i + 1};
	optind = 0; /* starts anew: the caller has used getopt before */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+:", long_options, NULL)) != -1) {
		if (opt == '?' || opt == ':') {
			fprintf(err, "longreach plan: %s%s\n", argv[optind - 1],
			        opt == ':' ? " needs a value" : ": unknown option; --help lists the options");
			return -1;
		}
		if (take(o, (size_t)opt - 1, optarg, err) < 0)
			return -1;
	}
	if (optind < argc) {
		fprintf(err, "longreach plan: %s: expected options only; --help lists them\n", argv[optind]);
		return -1;
	}
	return 0;
}

/* --- the picture --- */

/* The script lies beside the program that is installed, or in the tree that it was built in. */
static bool find_script(char *path, size_t cap)
{
	static const char *const places[] = {"../share/longreach/plot_plan.gp", "../../bench/plot_plan.gp"};
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n < 0)
		return false;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (slash == NULL)
		return false;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int len = snprintf(path, cap, "%s/%s", exe, places[i]);

		if (len > 0 && (size_t)len < cap && access(path, R_OK) == 0)
			return true;
	}
	return false;
}

static int run_gnuplot(const char *csv, const char *svg, FILE *err)
{
	char script[PATH_MAX + 64], vars[2 * PATH_MAX + 64];
	int status = 0;
	pid_t pid;

	if (!find_script(script, sizeof(script))) {
		fputs("longreach plan: plot_plan.gp is not installed\n", err);
		return EXIT_NO_PLOT;
	}
	snprintf(vars, sizeof(vars), "csv='%s'; out='%s'", csv, svg);
	pid = fork();
	if (pid == 0) {
		execlp("gnuplot", "gnuplot", "-e", vars, script, (char *)NULL);
		_exit(127);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return EXIT_OK;
	fprintf(err, "longreach plan: gnuplot did not draw %s%s\n", svg,
	        pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127 ? ": check that gnuplot is installed" : "");
	return EXIT_NO_PLOT;
}

static int plot(const struct plan *p, const char *svg, FILE *err)
{
	char csv[] = "/tmp/longreach-plan.XXXXXX";
	int fd = mkostemp(csv, O_CLOEXEC), code;
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;

	if (out == NULL) {
		fprintf(err, "longreach plan: %s: %s\n", csv, strerror(errno));
		return EXIT_NO_PLOT;
	}
	plan_csv(p, out);
	fclose(out);
	code = run_gnuplot(csv, svg, err);
	unlink(csv);
	return code;
}

static int one_job(const struct plan_options *o, FILE *out, FILE *err)
{
	struct plan_in in = o->in;
	char why[PLAN_ERROR_MAX];
	struct plan p;

	if (o->model != NULL)
		plan_use_model(&in, o->model);
	if (plan_compute(&in, &p, why) < 0) {
		fprintf(err, "longreach plan: %s\n", why);
		return EXIT_USAGE;
	}
	if (o->format == PLAN_JSON)
		plan_json(&p, out);
	else if (o->format == PLAN_CSV)
		plan_csv(&p, out);
	else
		plan_text(&p, out);
	return o->plot != NULL ? plot(&p, o->plot, err) : EXIT_OK;
}

static int all_models(const struct plan_options *o, FILE *out, FILE *err)
{
	if (o->format != PLAN_TEXT || o->plot != NULL) {
		fputs("longreach plan: --models prints a table only: expected no --json, --csv or --plot\n", err);
		return EXIT_USAGE;
	}
	if (o->in.rtt_s <= 0 || o->in.rate_bps <= 0) {
		fputs("longreach plan: --models needs a line: expected --km 300 --rate 400G\n", err);
		return EXIT_USAGE;
	}
	plan_table(&o->in, out);
	return EXIT_OK;
}

int plan_tool_run(int argc, char **argv, FILE *out, FILE *err)
{
	struct plan_options o;

	if (read_options(&o, argc, argv, err) < 0)
		return EXIT_USAGE;
	if (o.help) {
		usage(out);
		return EXIT_OK;
	}
	if (o.length_m > 0 && o.in.rtt_s != 2 * o.length_m * FIBRE_NS_M / 1e9) {
		fputs("longreach plan: --rtt replaces --km: expected one of the two\n", err);
		return EXIT_USAGE;
	}
	return o.models ? all_models(&o, out, err) : one_job(&o, out, err);
}

int plan_main(int argc, char **argv)
{
	return plan_tool_run(argc, argv, stdout, stderr);
}
