/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - a thread of the daemon: signals are the main thread's alone. */
#ifndef DAEMON_THREAD_H
#define DAEMON_THREAD_H

#include <pthread.h>
#include <signal.h>

/* 0 or negative errno. */
static inline int thread_start(pthread_t *t, void *(*run)(void *), void *arg)
{
	sigset_t all, old;
	int e;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	e = pthread_create(t, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -e;
}

#endif
