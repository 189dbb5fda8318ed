/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.h - the functions of fakecuda for programs that are linked with it, where no toolkit's cuda.h is installed. */
#ifndef FAKECUDA_CUDA_H
#define FAKECUDA_CUDA_H

#define CUDA_OWN_TYPES
#include "../../../../daemon/gpu/cuda_api.h"

/* cuda.h turns cuMemAlloc into cuMemAlloc_v2 by macros. */
#define FAKECUDA_FUNCTION(member, function, version, parameters) CUresult function parameters __asm__(#function #version);
CUDA_FUNCTIONS(FAKECUDA_FUNCTION)
#undef FAKECUDA_FUNCTION

#endif
