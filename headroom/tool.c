/* SPDX-License-Identifier: Apache-2.0 */
/* tool.c - `longreach headroom`. */
#include "headroom/tool.h"

#include <errno.h>
#include <string.h>

#include "headroom/apply.h"
#include "headroom/emit.h"
#include "headroom/report.h"

/* longreach-headroom(1) promises them. */
enum exit_codes {
	EXIT_OK = 0,
	EXIT_REFUSED = 1, /* the numbers are fine, and the device or the model does not take them */
	EXIT_USAGE = 2,
};

static int usage_error(FILE *err)
{
	fputs("longreach headroom: `longreach headroom --help` lists the options\n", err);
	return EXIT_USAGE;
}

/* Invalid input is bad usage; input that a model's source does not accept is a refusal. */
static int exit_code(int err)
{
	return err == 0 ? EXIT_OK : err == -EINVAL ? EXIT_USAGE : EXIT_REFUSED;
}

static int one_link(const struct options *o, FILE *out, FILE *err)
{
	struct report rep;
	int r = report_work_out(o, &rep, err);

	if (r < 0)
		return exit_code(r);
	if (o->emit != NULL)
		return emit(&rep, out, err) < 0 ? EXIT_REFUSED : EXIT_OK;
	if (o->format == FORMAT_JSON)
		report_json(&rep, out);
	else if (o->format == FORMAT_CSV)
		report_csv(&rep, out);
	else
		report_text(&rep, out);
	return EXIT_OK;
}

/* The model must be that of the port's driver, which programs its own numbers: another model's would not be in
 * force. */
static int check_driver(struct options *o, FILE *err)
{
	char driver[OPTIONS_NAME_MAX];
	bool mlx5 = strcmp(apply_driver(o->dev, driver, sizeof(driver)), "mlx5_core") == 0;

	if (o->model == HEADROOM_MODELS)
		o->model = mlx5 ? HEADROOM_MLX5 : HEADROOM_PHYSICS;
	if (!mlx5 || o->model == HEADROOM_MLX5 || o->model == HEADROOM_MLX5_NEXT)
		return 0;
	options_complain(err,
	                 "%s is driven by mlx5_core, which works its thresholds out itself: use --model mlx5 or "
	                 "mlx5-next, not %s",
	                 o->dev, headroom_model_name(o->model));
	return -1;
}

static int apply_to_port(struct options *o, FILE *out, FILE *err)
{
	struct report rep;
	int r;

	if (check_driver(o, err) < 0)
		return EXIT_REFUSED;
	r = report_work_out(o, &rep, err);
	if (r < 0)
		return exit_code(r);
	if (emit_check_options(&rep, err) < 0)
		return EXIT_REFUSED;
	return apply_netlink(&rep, out, err) == APPLY_DONE ? EXIT_OK : EXIT_REFUSED;
}

int tool_run(int argc, char **argv, FILE *out, FILE *err)
{
	struct options o;

	if (options_read(&o, argc, argv, err) < 0)
		return usage_error(err);
	if (o.help) {
		options_usage(out);
		return EXIT_OK;
	}
	if (o.emit != NULL && !emit_knows(o.emit)) {
		options_complain(err, "--emit %s: expected sonic, pg_profile_lookup, dcb, mlnx_qos, nvue, eos or nxos",
		                 o.emit);
		return usage_error(err);
	}
	if (o.apply)
		return apply_to_port(&o, out, err);
	if (o.what_if)
		return exit_code(what_if(&o, out, err));
	return one_link(&o, out, err);
}

int headroom_main(int argc, char **argv)
{
	return tool_run(argc, argv, stdout, stderr);
}
