/* SPDX-License-Identifier: Apache-2.0 */
/* The declarations of CUDA's driver API against a toolkit's cuda.h: each number, each type's size, each function's
 * parameters and result, and the symbol that cuda.h makes of its name. Skipped where no cuda.h is: Debian has it in
 * nvidia-cuda-dev (non-free), a toolkit in /usr/local/cuda. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda_facts.h"

#if __has_include(<cuda.h>)

static void cuda_types__are_those_of_cuda_h(void **state)
{
	static const struct cuda_fact theirs[] = {CUDA_FACTS};

	(void)state;
	print_message("cuda.h of CUDA %d.%d\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
	assert_int_equal(cuda_own_nfacts, sizeof(theirs) / sizeof(theirs[0]));
	for (size_t i = 0; i < cuda_own_nfacts; i++) {
		assert_string_equal(cuda_own_facts[i].name, theirs[i].name);
		if (cuda_own_facts[i].value != theirs[i].value || cuda_own_facts[i].alignment != theirs[i].alignment)
			fail_msg("%s: %lld, aligned to %zu; cuda.h: %lld, %zu", theirs[i].name, cuda_own_facts[i].value,
			         cuda_own_facts[i].alignment, theirs[i].value, theirs[i].alignment);
	}
}

/* Here the parameters, as cuda_api.h writes them, are of cuda.h's types. */
static void cuda_functions__have_the_signatures_of_cuda_h(void **state)
{
	(void)state;
#define SIGNATURE(member, function, version, parameters)                                                                    \
	if (!__builtin_types_compatible_p(__typeof__(((struct cuda_api *)NULL)->member), __typeof__(&function##version)))       \
		fail_msg("%s: another signature in cuda.h", #function #version);
	CUDA_FUNCTIONS(SIGNATURE)
}

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

static void cuda_functions__have_the_versions_of_cuda_h(void **state)
{
	(void)state;
#define VERSION(member, function, version, parameters) assert_string_equal(TEXT_OF(function), #function #version);
	CUDA_FUNCTIONS(VERSION)
}

#else

static void no_header(void **state)
{
	(void)state;
	print_message("skipped: no cuda.h (apt-get install nvidia-cuda-dev, or a toolkit in /usr/local/cuda)\n");
	skip();
}

#define cuda_types__are_those_of_cuda_h               no_header
#define cuda_functions__have_the_signatures_of_cuda_h no_header
#define cuda_functions__have_the_versions_of_cuda_h   no_header

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cuda_types__are_those_of_cuda_h),
	    cmocka_unit_test(cuda_functions__have_the_signatures_of_cuda_h),
	    cmocka_unit_test(cuda_functions__have_the_versions_of_cuda_h),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
