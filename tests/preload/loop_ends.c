/* SPDX-License-Identifier: Apache-2.0 */
/* loop_ends.c - the event loop of one program fails: epoll_wait(2) of its main thread, once a file is there.
 *
 *     LD_PRELOAD=BUILD/tools/loop_ends.so LOOP_ENDS_FILE=PATH PROGRAM... */
#define _GNU_SOURCE /* RTLD_NEXT, gettid */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

int epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
	static int (*real)(int epfd, struct epoll_event *events, int maxevents, int timeout);
	const char *path = getenv("LOOP_ENDS_FILE");

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
	if (gettid() == getpid() && path != NULL && access(path, F_OK) == 0) {
		errno = EBADF;
		return -1;
	}
	return real(epfd, events, maxevents, timeout);
}
