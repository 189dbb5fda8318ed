/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_api.c - the CUDA driver API, loaded when it is wanted. */
#include "cuda_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

/* ISO C has no conversion from an object's pointer to a function's; POSIX says that they have one form. */
static int resolve(void *library, const char *symbol, void *member, char *err, size_t cap)
{
	void *address = dlsym(library, symbol);

	if (!address) {
		snprintf(err, cap, LIBRARY " has no %s: expected CUDA 11.0 or newer", symbol);
		return -ENOSYS;
	}
	memcpy(member, &address, sizeof(address));
	return 0;
}

static int resolve_all(struct cuda_api *cuda, char *err, size_t cap)
{
	int rc = 0;

#define CUDA_RESOLVE(member, function, version, parameters)                                                                 \
	if (rc == 0)                                                                                                            \
		rc = resolve(cuda->library, #function #version, &cuda->member, err, cap);
	CUDA_FUNCTIONS(CUDA_RESOLVE)
#undef CUDA_RESOLVE
	return rc;
}

int cuda_api_load(struct cuda_api *cuda, char *err, size_t cap)
{
	char text[64];
	CUresult error;
	int rc;

	memset(cuda, 0, sizeof(*cuda));
	cuda->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!cuda->library) {
		snprintf(err, cap, "no CUDA driver: %s", dlerror());
		return -ENODEV;
	}
	rc = resolve_all(cuda, err, cap);
	if (rc < 0)
		return rc;
	error = cuda->init(0);
	if (error != CUDA_SUCCESS) {
		snprintf(err, cap, "cuInit: %s", cuda_api_error(cuda, error, text, sizeof(text)));
		return -ENODEV;
	}
	return 0;
}

const char *cuda_api_error(const struct cuda_api *cuda, CUresult error, char *text, size_t cap)
{
	const char *name = NULL;

	if (cuda->get_error_name(error, &name) != CUDA_SUCCESS || !name)
		name = "CUDA error";
	snprintf(text, cap, "%s (%d)", name, (int)error);
	return text;
}
