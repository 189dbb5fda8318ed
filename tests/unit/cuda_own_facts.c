/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the declarations of our own, for test_cuda_api.c. */
#define CUDA_OWN_TYPES
#include "cuda_facts.h"

const struct cuda_fact cuda_own_facts[] = {CUDA_FACTS};
const size_t cuda_own_nfacts = sizeof(cuda_own_facts) / sizeof(cuda_own_facts[0]);
