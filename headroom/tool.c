/* SPDX-License-Identifier: Apache-2.0 */
/* tool.c - `longreach headroom`. */
#include "headroom/tool.h"

#include <errno.h>

#include "headroom/report.h"

/* longreach-headroom(1) promises them. */
enum exit_codes {
	EXIT_OK = 0,
	EXIT_REFUSED = 1, /* the numbers are fine, and the device or the model does not take them */
	EXIT_USAGE = 2,
};

static int usage_error(FILE *err)
{
	fputs("longreach headroom: `longreach headroom --help` lists what can be said\n", err);
	return EXIT_USAGE;
}

/* Nonsense is bad usage; what a model's source does not take is a refusal. */
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
		options_complain(err, "--emit %s: expected sonic, dcb, mlnx_qos, nvue, eos or nxos", o.emit);
		return usage_error(err);
	}
	if (o.what_if)
		return exit_code(what_if(&o, out, err));
	return one_link(&o, out, err);
}

int headroom_main(int argc, char **argv)
{
	return tool_run(argc, argv, stdout, stderr);
}
