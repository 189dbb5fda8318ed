/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - longreachd's command line.
 *
 * A command line with an error does nothing (DO_EXIT), with one exception: with --close anywhere in it, it closes. The
 * units give the operator's options to `longreachd --close` as well, and an option that is misspelt, or that an upgrade
 * has removed, must not open RoCE at the next boot. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "daemon/telemetry/control.h"
#include "daemon/util/version.h"

#define CONFIG_DIR "/etc/longreach"
#define PLUGIN_DIR "/usr/lib/longreach"

static const char usage[] =
    "usage: longreachd [OPTION]...\n"
    "       longreachd --check-config [--offline] [FILE]...\n"
    "       longreachd --close [--watch]\n"
    "       longreachd --owed\n"
    "       longreachd --exports\n"
    "\n"
    "Carries RoCEv2 between two sites. Runs in the foreground and logs to standard error.\n"
    "\n"
    "  --config FILE       a link file; may be given several times. Default: all link files of --config-dir\n"
    "  --config-dir DIR    the directory of the link files, DIR/*.conf. Default: " CONFIG_DIR "\n"
    "  --check-config      check the link files, and whether they fit this machine, and exit\n"
    "  --offline           with --check-config: check the files only, not the machine\n"
    "  --close             keep the kernel from forwarding the links' packets, and exit: run it before the network\n"
    "                      comes up, and after a daemon has ended\n"
    "  --watch             with --close: goes on, and restores rules that another program removes while no daemon runs\n"
    "  --owed              print the buffers with packets of hosts that may not be delivered yet, and exit\n"
    "  --exports           serve the [Export NAME] directories to longreach copy of the other site, each as its User=\n"
    "  --print-config      print the link files with all defaults and exit\n"
    "  --control PATH      the control socket. Default: " CONTROL_PATH "\n"
    "  --metrics WHERE     serve /metrics for Prometheus over HTTP: PORT (of 127.0.0.1), ADDRESS:PORT,\n"
    "                      [ADDRESS]:PORT, or the /PATH of a Unix socket. Default: no metrics\n"
    "  --pcap DIR          write the packets of LAN and WAN into DIR, for Wireshark\n"
    "  --user NAME         the user of the process that carries packets; under systemd, User= sets it instead\n"
    "  --plugins DIR       the directory of " LAN_ENGINE_PLUGIN ", for links with Engine=dpdk. Default: " PLUGIN_DIR "\n"
    "  --eal ARGUMENTS     arguments of DPDK's environment abstraction layer, in one word: --eal='--no-huge -m 512'\n"
    "  --foreground        no effect: longreachd always runs in the foreground\n"
    "  -v, --verbose       log more\n"
    "  -h, --help          print this text\n"
    "  -V, --version       print the version\n"
    "\n"
    "SIGHUP: read the link files again. SIGTERM, SIGINT: stop. See longreachd(8), longreach.conf(5).\n";

enum long_options {
	OPT_CONFIG = 256,
	OPT_CONFIG_DIR,
	OPT_CHECK,
	OPT_OFFLINE,
	OPT_CLOSE,
	OPT_WATCH,
	OPT_OWED,
	OPT_EXPORTS,
	OPT_PRINT,
	OPT_CONTROL,
	OPT_METRICS,
	OPT_PCAP,
	OPT_USER,
	OPT_PLUGINS,
	OPT_EAL,
	OPT_FOREGROUND
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"config-dir", required_argument, NULL, OPT_CONFIG_DIR},
    {"check-config", no_argument, NULL, OPT_CHECK},
    {"offline", no_argument, NULL, OPT_OFFLINE},
    {"close", no_argument, NULL, OPT_CLOSE},
    {"watch", no_argument, NULL, OPT_WATCH},
    {"owed", no_argument, NULL, OPT_OWED},
    {"exports", no_argument, NULL, OPT_EXPORTS},
    {"print-config", no_argument, NULL, OPT_PRINT},
    {"control", required_argument, NULL, OPT_CONTROL},
    {"metrics", required_argument, NULL, OPT_METRICS},
    {"pcap", required_argument, NULL, OPT_PCAP},
    {"user", required_argument, NULL, OPT_USER},
    {"plugins", required_argument, NULL, OPT_PLUGINS},
    {"eal", required_argument, NULL, OPT_EAL},
    {"foreground", no_argument, NULL, OPT_FOREGROUND},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

#define BAD_USAGE 2

static void complain(struct options *o, const char *what, const char *about)
{
	fprintf(stderr, "longreachd: %s%s\nlongreachd: --help lists the options\n", what, about);
	o->exit_status = BAD_USAGE;
}

static void add_file(struct options *o, const char *file)
{
	if (o->sources.nfiles == SITES_MAX)
		complain(o, "too many --config, from this one on: ", file);
	else
		o->sources.files[o->sources.nfiles++] = file;
}

/* close: set if the option is --close, which no later option takes back. */
static void take_option(struct options *o, int opt, bool *close)
{
	switch (opt) {
	case OPT_CONFIG:
		add_file(o, optarg);
		break;
	case OPT_CONFIG_DIR:
		o->sources.dir = optarg;
		break;
	case OPT_CHECK:
		o->action = DO_CHECK;
		break;
	case OPT_OFFLINE:
		o->offline = true;
		break;
	case OPT_CLOSE:
		*close = true;
		break;
	case OPT_WATCH:
		o->watch = true;
		break;
	case OPT_OWED:
		o->action = DO_OWED;
		break;
	case OPT_EXPORTS:
		o->action = DO_EXPORTS;
		break;
	case OPT_PRINT:
		o->action = DO_PRINT;
		break;
	case OPT_CONTROL:
		o->control_path = optarg;
		break;
	case OPT_METRICS:
		o->metrics = optarg;
		break;
	case OPT_PCAP:
		o->pcap_dir = optarg;
		break;
	case OPT_USER:
		o->user = optarg;
		break;
	case OPT_PLUGINS:
		o->engine.plugins = optarg;
		break;
	case OPT_EAL:
		o->engine.arguments = optarg;
		break;
	case OPT_FOREGROUND:
		break;
	case 'v':
		o->verbose = true;
		break;
	case 'h':
		fputs(usage, stdout);
		o->action = DO_EXIT;
		break;
	case 'V':
		puts("longreachd " LONGREACH_VERSION);
		o->action = DO_EXIT;
		break;
	default: /* getopt has said it */
		o->exit_status = BAD_USAGE;
	}
}

static void check_together(struct options *o, bool close)
{
	if (close && o->action != DO_RUN)
		complain(o, "--close goes with no other action", "");
	if (o->offline && o->action != DO_CHECK)
		complain(o, "--offline goes with --check-config", "");
	if (o->watch && !close)
		complain(o, "--watch goes with --close", "");
}

void options_parse(int argc, char **argv, struct options *o)
{
	bool close = false;
	int opt;

	*o = (struct options){.sources.dir = CONFIG_DIR, .control_path = CONTROL_PATH,
	                      .engine = {.plugins = PLUGIN_DIR, .arguments = ""}};
	while ((opt = getopt_long(argc, argv, "vhV", long_options, NULL)) != -1) {
		take_option(o, opt, &close);
		if (o->action == DO_EXIT)
			return;
	}
	check_together(o, close);
	if (optind < argc && o->action != DO_CHECK && o->action != DO_PRINT)
		complain(o, "expected --config in front of a link file: ", argv[optind]);
	else
		while (optind < argc)
			add_file(o, argv[optind++]);
	o->sources.doubtful = o->exit_status != 0;
	if (close)
		o->action = DO_CLOSE;
	else if (o->exit_status != 0)
		o->action = DO_EXIT;
}
