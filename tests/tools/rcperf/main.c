// SPDX-License-Identifier: Apache-2.0
/* rcperf - an RC endpoint in user space, for tests and for the demo: see opt.c for what it can do. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session.h"
#include "stop.h"

static int serve(const struct opt *o)
{
	int fd = wire_listen(&o->ctl, o->ctl_port), r;

	if (fd < 0) {
		fprintf(stderr, "rcperf: cannot listen on port %u: %s\n", o->ctl_port, strerror(-fd));
		return 2;
	}
	do
		r = session_server(o, fd);
	while (!o->once && !stop_wanted());
	close(fd);
	return r;
}

int main(int argc, char **argv)
{
	struct opt o;

	if (argc == 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0)) {
		opt_usage(stdout);
		return 0;
	}
	if (!opt_parse(&o, argc, argv))
		return 2;
	stop_catch_signals();
	return o.server ? serve(&o) : session_client(&o);
}
