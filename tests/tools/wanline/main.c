// SPDX-License-Identifier: Apache-2.0
/* wanline - a long line between two interfaces: delay, rate, loss and worse, on frames of any kind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "relay.h"
#include "selftest.h"
#include "units.h"

static void usage(FILE *f)
{
	fprintf(f, "usage: wanline [options] IFACE_A IFACE_B\n"
	           "       wanline ctl SOCKET cut|uncut [ab|ba] | set KEY=VALUE... | stats | show | quit\n"
	           "       wanline --selftest [seconds]\n\n"
	           "Joins two interfaces at layer 2, as a long line would. SIGUSR1 prints the counters as JSON.\n\n"
	           "The line (VALUE, or ab:VALUE, ba:VALUE for one direction):\n");
	params_help(f);
	fprintf(f, "The emulator:\n"
	           "  --ctl PATH        socket for `wanline ctl`\n"
	           "  --json PATH       counters at the end, as JSON; - is standard output\n"
	           "  --seed N          the same seed loses the same frames (default 1)\n"
	           "  --spy TEXT        count the frames that hold it, as \"seen_text\"\n"
	           "  --max-delay 25ms  memory for delays up to this, to be set while running\n"
	           "  --grain 40us      sleep at least this long on a busy line\n"
	           "  --ring 4096       frames of each receive ring\n"
	           "  --for 10s         stop by itself\n"
	           "  --selftest [N]    check the line's model, then measure precision and top rate, N s each\n"
	           "                    (0: the model only)\n");
}

static bool set_own(struct relay_options *o, const char *key, const char *value, bool *known)
{
	double n;

	*known = true;
	if (strcmp(key, "ctl") == 0)
		return (o->ctl_path = value) != NULL;
	if (strcmp(key, "json") == 0)
		return (o->json_path = value) != NULL;
	if (strcmp(key, "spy") == 0)
		return *(o->spy_text = value) != '\0';
	if (strcmp(key, "max-delay") == 0)
		return units_duration(value, &o->max_delay_ns);
	if (strcmp(key, "grain") == 0)
		return units_duration(value, &o->grain_ns);
	if (strcmp(key, "for") == 0)
		return units_duration(value, &o->run_ns);
	if (strcmp(key, "seed") == 0)
		return (o->seed = strtoull(value, NULL, 0), true);
	if (strcmp(key, "ring") == 0) {
		if (!units_count(value, &n) || n < 64 || n > 65536)
			return false;
		o->ring_frames = (uint32_t)n;
		return true;
	}
	return *known = false;
}

static bool set_option(struct relay_options *o, const char *key, const char *value)
{
	char err[PARAMS_ERR_MAX];
	bool known;

	if (set_own(o, key, value, &known))
		return true;
	if (known) {
		fprintf(stderr, "wanline: --%s: cannot make sense of \"%s\"\n", key, value);
		return false;
	}
	if (params_set(o->params, key, value, err))
		return true;
	fprintf(stderr, "wanline: %s\n", err);
	return false;
}

/* --key value and --key=value. */
static bool parse_args(int argc, char **argv, struct relay_options *o)
{
	int nif = 0;

	for (int i = 1; i < argc; i++) {
		char *key = argv[i] + 2, *eq = strchr(argv[i], '=');

		if (strncmp(argv[i], "--", 2) != 0) {
			if (nif == DIR_COUNT) {
				fprintf(stderr, "wanline: two interfaces, and then \"%s\"?\n", argv[i]);
				return false;
			}
			o->ifname[nif++] = argv[i];
			continue;
		}
		if (eq != NULL)
			*eq = '\0';
		else if (i + 1 == argc) {
			fprintf(stderr, "wanline: %s needs a value\n", argv[i]);
			return false;
		}
		if (!set_option(o, key, eq != NULL ? eq + 1 : argv[++i]))
			return false;
	}
	if (nif != DIR_COUNT)
		fprintf(stderr, "wanline: it takes two interfaces\n");
	return nif == DIR_COUNT;
}

static void write_json(struct relay *r, const char *path)
{
	FILE *f;

	if (path == NULL)
		return;
	f = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
	if (f == NULL) {
		fprintf(stderr, "wanline: %s: %s\n", path, strerror(errno));
		return;
	}
	relay_json(r, f);
	if (f != stdout)
		fclose(f);
}

static int run(const struct relay_options *o)
{
	static struct relay r; /* large: histograms */
	char err[256], text[128];

	if (relay_open(&r, o, err, sizeof(err)) < 0) {
		fprintf(stderr, "wanline: %s\n", err);
		relay_close(&r);
		return 1;
	}
	params_describe(&o->params[DIR_AB], text, sizeof(text));
	fprintf(stderr, "wanline: %s - %s: %s\n", o->ifname[0], o->ifname[1], text);
	relay_run(&r, o->run_ns);
	relay_report(&r, stderr);
	write_json(&r, o->json_path);
	if (o->ctl_path != NULL)
		unlink(o->ctl_path);
	relay_close(&r);
	return 0;
}

int main(int argc, char **argv)
{
	struct relay_options o;

	relay_options_default(&o);
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		usage(stdout);
		return 0;
	}
	if (argc >= 4 && strcmp(argv[1], "ctl") == 0)
		return ctl_client(argv[2], argc - 3, argv + 3);
	if (argc >= 2 && strcmp(argv[1], "--selftest") == 0)
		return selftest(argc > 2 ? strtod(argv[2], NULL) : 2);
	if (argc < 3) {
		usage(stderr);
		return 2;
	}
	return parse_args(argc, argv, &o) ? run(&o) : 2;
}
