/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - longreachd's command line. */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include "daemon/config/site_paths.h"
#include "daemon/lan/lan_engine.h"

enum options_action { DO_RUN, DO_CHECK, DO_PRINT, DO_CLOSE, DO_OWED, DO_EXPORTS, DO_EXIT };

struct options {
	enum options_action action;
	int exit_status; /* 2: an option was not understood, and the action is DO_EXIT or DO_CLOSE; else 0 */
	struct site_sources sources;
	const char *pcap_dir; /* NULL: no capture */
	const char *control_path;
	const char *metrics; /* where to serve them; NULL: nowhere */
	const char *user; /* the user that the process which carries packets becomes; NULL: stays the same user */
	bool offline; /* DO_CHECK: the files alone */
	bool watch; /* DO_CLOSE: and restores the rules until it is stopped */
	struct lan_engine_options engine;
	bool verbose;
};

/* Answers --help and --version itself, and says what is wrong. With --close an error leaves DO_CLOSE, and sources
 * doubtful: all RoCE is closed. */
void options_parse(int argc, char **argv, struct options *o);

#endif
