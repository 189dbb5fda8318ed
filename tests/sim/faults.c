/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proxy/fault.h"

struct fault {
	const char *name, *rule, *what;
};

static const struct fault faults[FAULT_COUNT] = {
#define X(name, rule, what) {#name, rule, what},
#include "proxy/fault_list.h"
#undef X
};

/* "WRONG_MSN" is called wrong_msn. */
static const char *lower(const char *name)
{
	static char s[64];
	size_t i;

	for (i = 0; name[i] && i < sizeof(s) - 1; i++)
		s[i] = (char)tolower((unsigned char)name[i]);
	s[i] = 0;
	return s;
}

bool faults_set(const char *name)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (strcmp(name, lower(faults[i].name)) == 0) {
			proxy_faults[i] = true;
			return true;
		}
	}
	return false;
}

void faults_list(void)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		printf("%-24s %-58s %s\n", lower(faults[i].name), faults[i].rule, faults[i].what);
}

int faults_table(const struct run_options *o)
{
	struct run_options each = *o;
	struct run_totals sound_ones;
	uint32_t missed = 0;

	/* What fails without a fault proves nothing about one. */
	each.quiet = each.keep_going = true;
	run_totals(&each, &sound_ones);
	if (sound_ones.nfailed)
		printf("lrsim: %u seeds fail without a fault, and are left out\n", sound_ones.nfailed);
	each.keep_going = false;
	each.expect_failure = true;
	each.skip = sound_ones.failed;
	each.nskip = sound_ones.nfailed;
	printf("%-24s %-58s %8s %8s\n", "fault", "rule", "seeds", "seconds");
	for (int i = 0; i < FAULT_COUNT; i++) {
		struct run_totals t;
		bool sound;

		memset(proxy_faults, 0, sizeof(proxy_faults));
		proxy_faults[i] = true;
		sound = run_totals(&each, &t);
		if (t.violations)
			printf("%-24s %-58s %8llu %8.1f  %.60s\n", lower(faults[i].name), faults[i].rule,
			       (unsigned long long)(t.first_violation - o->first + 1), t.took_s, t.violation);
		else
			printf("%-24s %-58s %8s %8.1f\n", lower(faults[i].name), faults[i].rule,
			       sound ? "MISSED" : "died", t.took_s);
		fflush(stdout);
		missed += t.violations == 0 && sound;
	}
	printf("lrsim: %d faults, %u missed by seeds %llu-%llu\n", FAULT_COUNT, missed, (unsigned long long)o->first,
	       (unsigned long long)o->last);
	return missed ? 1 : 0;
}
