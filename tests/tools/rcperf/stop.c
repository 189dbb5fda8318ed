// SPDX-License-Identifier: Apache-2.0
#include "stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t wanted, over;

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		over = 1;
	else
		wanted = 1;
}

/* Without SA_RESTART, so that blocking calls return. */
void stop_catch_signals(void)
{
	struct sigaction a = {.sa_handler = on_signal};

	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGUSR1, &a, NULL);
}

bool stop_wanted(void)
{
	return wanted != 0;
}

bool stop_time_is_over(void)
{
	return over != 0;
}
