/* SPDX-License-Identifier: Apache-2.0 */
/* no_log_limit.h - lines are not limited: what is done does not depend on the time. For tests that have no log.c. */
#ifndef TESTS_NO_LOG_LIMIT_H
#define TESTS_NO_LOG_LIMIT_H

#include "daemon/util/log.h"

bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint32_t *missed)
{
	(void)l;
	(void)now_ns;
	(void)missed;
	return true;
}

#endif
