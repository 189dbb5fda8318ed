/* SPDX-License-Identifier: Apache-2.0 */
/* rate_fixed.c - the configured rate, whatever is lost: for a line that is not shared. */
#include "rate.h"

static void fixed_init(struct rate_control *c, uint64_t now_ns)
{
	(void)now_ns;
	rate_set(c, UINT64_MAX, UINT64_MAX);
}

static const char *fixed_state(const struct rate_control *c)
{
	(void)c;
	return "fixed";
}

const struct rate_ops rate_fixed = {.name = "fixed", .init = fixed_init, .state = fixed_state};
