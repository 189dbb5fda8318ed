/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.c - nearly all open files are the sockets that lanes send from: one for each lane, path and source port,
 * opened when needed. If one cannot be opened then, packets are lost, so the limit is raised at the start. */
#include "descriptors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
	OF_PROCESS = 256,  /* event loop, log, clients of control and metrics, nft, spare */
	OF_LINK = 128,     /* control channel with its unjudged connections, netlink, eventfds, captures */
	OF_WORKER = 16,    /* arena, epoll, eventfds, captures, pauses */
	OF_RELAY = 9216,   /* the relay's: connections, regions, files that programs put and get, or that wait to be
	                    * closed */
	OF_WORKER_PATH = 2 /* receiving sockets: for our datagrams, and for strays */
};

static uint64_t taken; /* by all running links */

uint64_t descriptors_of(const struct link_config *c)
{
	uint64_t n = OF_LINK + (uint64_t)c->workers * (OF_WORKER + OF_WORKER_PATH * c->npaths + c->nlan_ports + 1);

	if (c->relay)
		n += OF_RELAY;
	for (uint32_t i = 0; i < c->npaths; i++)
		n += (uint64_t)c->lanes * c->paths[i].source_ports;
	return n;
}

int descriptors_take(const struct link_config *c, char err[CONFIG_ERR_MAX])
{
	uint64_t want = OF_PROCESS + taken + descriptors_of(c);
	struct rlimit now, next;

	if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur < want) {
		next = (struct rlimit){.rlim_cur = want, .rlim_max = now.rlim_max < want ? want : now.rlim_max};
		if (setrlimit(RLIMIT_NOFILE, &next) < 0) {
			snprintf(
			    err, CONFIG_ERR_MAX,
			    "the links need up to %" PRIu64 " open files, and the limit of %" PRIu64
			    " cannot be raised: %s; raise LimitNOFILE= of the service, or lower Lanes= or SourcePorts=",
			    want, (uint64_t)now.rlim_max, strerror(errno));
			return -EMFILE;
		}
	}
	taken += descriptors_of(c);
	return 0;
}

void descriptors_release(uint64_t n)
{
	taken -= n;
}
