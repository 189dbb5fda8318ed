/* SPDX-License-Identifier: Apache-2.0 */
/* lr_strerror.c - how an operation ended, in words: the library's and the daemon's. */
#include "longreach.h"

const char *lr_strerror(enum lr_status status)
{
	static const char *const text[LR_STATUSES] = {
	    [LR_OK] = "done",
	    [LR_NO_REGION] = "no such region at the other site",
	    [LR_OUT_OF_BOUNDS] = "the offset or length is beyond the end of the region",
	    [LR_PERMISSION] = "the region does not allow this access",
	    [LR_NO_SERVICE] = "no such service at the other site",
	    [LR_NO_RELAY] = "the other edge has no relay",
	    [LR_PEER_RESTARTED] = "the other edge started again",
	    [LR_IO_LOCAL] = "cannot read or write the file at this site",
	    [LR_IO_REMOTE] = "cannot read or write the region",
	    [LR_CANCELLED] = "cancelled",
	    [LR_PROVIDER_GONE] = "the program of the service has ended",
	    [LR_NO_ROOM] = "the other site has no room for more operations or notices at once",
	    [LR_BEFORE_FAILED] = "an earlier operation that this one waits for failed",
	    [LR_GPU_LOST] = "GPU lost",
	    [LR_GPU_CONTEXT] = "the GPU's context was destroyed",
	    [LR_GPU_NO_MEMORY] = "the GPU is out of memory",
	    [LR_GPU_FAILED] = "the GPU reports an error",
	    [LR_CLIENT_MEMORY] = "the program's memory cannot be reached by RDMA with its key and address",
	    [LR_CLIENT_GONE] = "the program's RDMA connection has ended",
	    [LR_RDMA_FAILED] = "RDMA reports an error",
	    [LR_OLD_PEER] = "the other edge is of an older version",
	};

	return (unsigned)status < LR_STATUSES ? text[status] : "unknown";
}
