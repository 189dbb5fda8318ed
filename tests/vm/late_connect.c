/* SPDX-License-Identifier: Apache-2.0 */
/* late_connect.c - for LD_PRELOAD: rdma_connect() waits until the file $LATE_CONNECT exists. With -R a server of perftest 4.5
 * tells its client by TCP to connect, and only then listens by rdma_cm: on a busy machine its kernel refuses the client. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	const char *file = getenv("LATE_CONNECT");
	int (*connect_now)(struct rdma_cm_id *, struct rdma_conn_param *);

	*(void **)&connect_now = dlsym(RTLD_NEXT, "rdma_connect");
	while (file != NULL && access(file, F_OK) != 0)
		usleep(10000);
	return connect_now(id, param);
}
